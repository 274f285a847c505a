//! What pilots are told of each other, right and wrong, and whom they should know.

use world::{EntityId, Record, Snapshot, Summary, Update, Welcome};

use super::{Pilot, SIGHT_TICKS, Schedule, Stream, Trace, WAIT_TICKS, ZoneRecord};
use crate::load::generator::zone::pilot::UNITS;

const MS: u64 = 1_000_000;

fn record(x: i32) -> Record {
    Record { x, y: 7, vx: 0, vy: 0, pose: 0 }
}

/// Two pilots in sight of each other for a hundred ticks, each ship in another place in each of them.
/// `told` is where the second pilot is told that the first one's ship is; none if it is told nothing.
fn fly(told: impl Fn(u32) -> Option<i32>) -> ZoneRecord {
    let mut trace = Trace::default();
    let mut random = Stream::new(1, 1);
    let mut all = ZoneRecord::default();
    let mut pilots: Vec<Pilot> = (0..2)
        .map(|slot| {
            let ship = EntityId { slot, generation: 3 };
            trace.joins(ship);
            Pilot::new(&Welcome { ship, bins: 4, tick_rate_hz: 20 })
        })
        .collect();
    for tick in 0..100 + WAIT_TICKS {
        for pilot in &mut pilots {
            let full = |x| Update::Full { generation: 3, record: record(x) };
            let true_x = i32::try_from(tick * 256).unwrap();
            let is_own = pilot.ship.slot == 0;
            let x = if is_own { Some(true_x) } else { told(tick) };
            let first = x.map(|x| (0, full(x)));
            let updates = first.into_iter().chain([(1, full(5))]).collect();
            let snapshot = Snapshot { tick, tau_permille: 1_000, updates, ..Snapshot::default() };
            let mut bytes = Vec::new();
            snapshot.encode(&mut bytes);
            pilot.take(&bytes).unwrap();
            let now_ns = u64::from(tick) * 50 * MS;
            let (late_ns, _) = trace.schedule.came(now_ns, tick, (1_000, 20));
            trace.snapshot(pilot, &mut random, (late_ns, &mut all));
        }
    }
    all
}

/// Two pilots for twenty seconds, `apart_m` from each other. Whether each is told of the other, once; and when the second one
/// leaves, of which the first is told at once.
fn apart(apart_m: i32, is_told: bool, has_summaries: bool, leaves_at: Option<u32>) -> ZoneRecord {
    let mut trace = Trace::default();
    let mut random = Stream::new(1, 1);
    let mut all = ZoneRecord::default();
    let mut pilots: Vec<Pilot> = (0..2)
        .map(|slot| {
            let ship = EntityId { slot, generation: 3 };
            trace.joins(ship);
            Pilot::new(&Welcome { ship, bins: 64, tick_rate_hz: 20 })
        })
        .collect();
    for tick in 0..SIGHT_TICKS + 200 {
        let has_left = leaves_at.is_some_and(|it| tick >= it);
        for (slot, pilot) in (0..).zip(&mut pilots).take(if has_left { 1 } else { 2 }) {
            let at = |slot: u32| record(if slot == 0 { 0 } else { apart_m * UNITS });
            let full = |slot| (slot, Update::Full { generation: 3, record: at(slot) });
            let is_due = is_told && tick == 0;
            let updates = (0..2).filter(|it| *it == slot || is_due).map(full);
            let gone = (leaves_at == Some(tick)).then_some((1, Update::Gone));
            let updates = updates.chain(gone).collect();
            let far = Summary { bin: 7, count: 9, middle: (0, 0) };
            let summaries = if has_summaries { vec![far] } else { Vec::new() };
            let snapshot =
                Snapshot { tick, tau_permille: 1_000, updates, summaries, ..Snapshot::default() };
            let mut bytes = Vec::new();
            snapshot.encode(&mut bytes);
            pilot.take(&bytes).unwrap();
            trace.schedule.came(u64::from(tick) * 50 * MS, tick, (1_000, 20));
            trace.snapshot(pilot, &mut random, (0, &mut all));
        }
    }
    all
}

#[test]
fn who_should_be_in_sight_and_is_never_told_of_is_noticed() {
    let told = |apart_m, is_told, has_summaries| {
        let all = apart(apart_m, is_told, has_summaries, None);
        (all.seen > 100, all.unseen > 100, all.lingering > 100)
    };
    assert_eq!(told(300, true, false), (true, false, false));
    assert_eq!(told(300, false, false), (false, true, false));
    assert_eq!(told(300, false, true), (false, false, false), "it stands in a summary");
    assert_eq!(
        told(500, false, false),
        (false, false, false),
        "nobody knows so near to the border"
    );
    assert_eq!(told(700, false, false), (false, false, false));
    assert_eq!(told(700, true, false), (false, false, true));
}

#[test]
fn who_has_just_left_is_not_looked_for() {
    let all = apart(300, true, false, Some(SIGHT_TICKS + 100));
    assert!(all.seen > 100 && all.unseen == 0, "{} and {}", all.seen, all.unseen);
}

#[test]
fn those_who_leave_are_forgotten_and_come_back_as_others() {
    let mut trace = Trace::default();
    let ids = [0, 1].map(|slot| EntityId { slot, generation: 1 });
    ids.into_iter().for_each(|id| trace.joins(id));
    let pilot = Pilot::new(&Welcome { ship: ids[0], bins: 4, tick_rate_hz: 20 });
    let mut random = Stream::new(1, 1);
    let draws = |trace: &mut Trace, random: &mut Stream| {
        let drawn: Vec<_> = (0..100).filter_map(|_| trace.draw(&pilot, random)).collect();
        drawn.len()
    };
    assert!(draws(&mut trace, &mut random) > 10);
    trace.schedule.came(0, 1_000, (1_000, 20));
    assert_eq!(draws(&mut trace, &mut random), 0);
    assert!(trace.slots.is_empty(), "{:?}", trace.slots);
    trace.joins(EntityId { slot: 1, generation: 2 });
    assert_eq!(draws(&mut trace, &mut random), 100);
}

#[test]
fn what_two_pilots_are_told_of_a_ship_is_the_same() {
    let all = fly(|tick| i32::try_from(tick * 256).ok());
    assert!(all.same > 150 && all.different == 0 && all.unknown == 0, "{all:?}");
    assert_eq!(all.error_mm.histogram().unwrap().max(), 0);
}

#[test]
fn a_wrong_update_is_found() {
    let all = fly(|tick| i32::try_from(tick * 256 + u32::from(tick.is_multiple_of(10))).ok());
    assert!(all.different > 5 && all.same > 100, "{all:?}");
}

#[test]
fn what_is_not_told_is_stale_and_wrong_by_its_way() {
    let all = fly(|tick| (tick % 4 == 0).then(|| i32::try_from(tick * 256).unwrap()));
    let error_mm = all.error_mm.histogram().unwrap();
    // Three ticks of a metre each, which no velocity tells of.
    // Within the three digits that a histogram has.
    assert!(error_mm.max().abs_diff(3_000) <= 3 && all.different == 0, "{}", error_mm.max());
    let stale_ns = all.staleness.histogram().unwrap().max();
    assert!(stale_ns.abs_diff(150 * MS) < MS, "{stale_ns}");
}

#[test]
fn lateness_is_by_the_soonest_snapshot() {
    let mut schedule = Schedule::default();
    let mut late = |ms: u64, tick| schedule.came(ms * MS, tick, (1_000, 20));
    assert_eq!(late(1_000, 5), (0, 0));
    assert_eq!(late(1_053, 6), (3 * MS, 1));
    // Another pilot had it sooner, so that the first one was late too.
    assert_eq!(late(1_095, 7), (0, 1));
    assert_eq!(late(1_100, 7), (5 * MS, 0));
    assert_eq!(late(1_195, 9), (0, 2));
}

#[test]
fn after_a_pause_the_schedule_is_learnt_anew() {
    let mut schedule = Schedule::default();
    let pause_ms = |tick: u64| if tick < 20 { 0 } else { 300 };
    let late = (0..400).map(|tick: u64| {
        let now_ns = (tick * 50 + pause_ms(tick)) * MS;
        schedule.came(now_ns, u32::try_from(tick).unwrap(), (1_000, 20)).0
    });
    let late: Vec<u64> = late.collect();
    assert_eq!((late[19], late[20], late[399]), (0, 300 * MS, 0));
}

#[test]
fn slower_time_is_not_late() {
    let mut schedule = Schedule::default();
    assert_eq!(schedule.came(0, 0, (500, 20)), (0, 0));
    assert_eq!(schedule.came(100 * MS, 1, (500, 20)), (0, 1));
    assert_eq!(schedule.ticks_ns(3), 300 * MS);
}
