//! What is true, as far as it can be known from outside: each pilot is told of its own ship in every tick that
//! it is told of at all, and what others are told of that ship is compared with it.
//!
//! A **sample** is what one pilot believes of another's ship when a snapshot has come. It is looked at some
//! seconds later, when the ship's own pilot has had its snapshot of that tick too. If the sample is an update of
//! just that tick it has to be the same, bit for bit: it came in another packet, on another baseline. If
//! not, the distance between the two is the view error. Ships of bots and of other processes' pilots are not
//! sampled, because nobody here is told of them first hand.
//!
//! A snapshot's lateness is by the schedule of ticks, whose beginning is where some pilot got one soonest; what
//! is common to all snapshots (the way of the fastest) is not in it. The schedule is learnt anew all the
//! time, so that after a pause of the server only some seconds are late.
//!
//! In: snapshots of pilots. Out: counts in the record. Nothing is told to anybody.

use std::collections::VecDeque;

use world::{EntityId, Record};

use super::pilot::{Pilot, UNITS};
use crate::load::record::zone::ZoneRecord;
use crate::measure::arrivals::Stream;

/// Ticks of each own ship that are kept.
const KEPT_TICKS: u32 = 64;
/// After so many a sample is looked at.
const WAIT_TICKS: u32 = 40;
/// Samples that wait, at most; beyond, none is taken.
const SAMPLES_MAX: usize = 1 << 20;
/// How often a pilot looks for a ship in sight to take a sample of.
const TRIES: usize = 4;
/// Over this long the soonest snapshot is looked for, twice.
const SOONEST_NS: u64 = 5_000_000_000;

/// An own ship.
#[derive(Debug)]
struct Ship {
    generation: u32,
    /// By tick modulo [`KEPT_TICKS`], each with its tick.
    records: Box<[Option<(u32, Record)>; KEPT_TICKS as usize]>,
}

/// What somebody believes.
#[derive(Clone, Copy, Debug)]
struct Sample {
    id: EntityId,
    tick: u32,
    record: Record,
    /// Whether it was told in just this tick.
    is_told: bool,
}

/// All own ships, and what is to be compared with them.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// By slot.
    ships: Vec<Option<Ship>>,
    /// Slots of own ships that were ever there.
    slots: Vec<u32>,
    samples: VecDeque<Sample>,
    pub(super) schedule: Schedule,
}

impl Trace {
    /// A pilot has a ship.
    pub(super) fn joins(&mut self, id: EntityId) {
        let index = id.slot as usize;
        if index >= self.ships.len() {
            self.ships.resize_with(index + 1, || None);
        }
        if self.ships[index].is_none() {
            self.slots.push(id.slot);
        }
        let records = Box::new([None; KEPT_TICKS as usize]);
        self.ships[index] = Some(Ship { generation: id.generation, records });
    }

    /// A pilot has got a snapshot: keeps what it says of its ship, and takes a sample of another.
    pub(super) fn snapshot(
        &mut self,
        pilot: &Pilot,
        random: &mut Stream,
        (late_ns, record): (u64, &mut ZoneRecord),
    ) {
        let Some(tick) = pilot.view.tick() else { return };
        self.own(pilot, tick);
        let Some((id, told, believed)) = self.choose(pilot, tick, random) else { return };
        record.staleness.record(self.schedule.ticks_ns(tick - told) + late_ns, 1);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push_back(Sample { id, tick, record: believed, is_told: told == tick });
        }
        let newest = self.schedule.tick();
        while let Some(sample) = self.samples.pop_front_if(|it| it.tick + WAIT_TICKS <= newest) {
            self.compare(&sample, record);
        }
    }

    fn own(&mut self, pilot: &Pilot, tick: u32) {
        let Some(known) = pilot.view.get(pilot.ship.slot) else { return };
        let (told, record) = known.newest();
        let ship = self.ships.get_mut(pilot.ship.slot as usize).and_then(Option::as_mut);
        if let Some(ship) = ship.filter(|_| told == tick)
            && ship.generation == pilot.ship.generation
        {
            ship.records[(tick % KEPT_TICKS) as usize] = Some((tick, record));
        }
    }

    /// Another pilot's ship in sight, when it was told of last, and where it is believed to be.
    fn choose(
        &self,
        pilot: &Pilot,
        tick: u32,
        random: &mut Stream,
    ) -> Option<(EntityId, u32, Record)> {
        let count = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        (0..TRIES).filter(|_| count > 0).find_map(|_| {
            let slot = self.slots[random.below(count) as usize];
            let known = pilot.view.get(slot).filter(|_| slot != pilot.ship.slot)?;
            let id = EntityId { slot, generation: known.generation };
            Some((id, known.newest().0, known.at(tick)))
        })
    }

    fn compare(&self, sample: &Sample, record: &mut ZoneRecord) {
        let ship = self.ships.get(sample.id.slot as usize).and_then(Option::as_ref);
        let ship = ship.filter(|it| it.generation == sample.id.generation);
        let kept = ship.and_then(|it| it.records[(sample.tick % KEPT_TICKS) as usize]);
        match kept.filter(|(tick, _)| *tick == sample.tick) {
            None => record.unknown += 1,
            Some((_, truth)) if sample.is_told && truth != sample.record => record.different += 1,
            Some((_, truth)) => {
                record.same += u64::from(sample.is_told);
                record.error_mm.record(distance_mm(truth, sample.record), 1);
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a distance in a world"
)]
fn distance_mm(one: Record, other: Record) -> u64 {
    let apart = f64::from(one.x - other.x).hypot(f64::from(one.y - other.y));
    (apart * 1_000.0 / f64::from(UNITS)).round() as u64
}

/// When ticks are due, as far as that shows from outside.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The newest tick that anybody was told of, and when it was due; none before the first.
    newest: Option<(u32, i64)>,
    /// How long a tick takes at the speed that time has.
    tick_ns: i64,
    /// By how much the soonest snapshot was after its time, of this stretch and the one before.
    soonest_ns: [Option<i64>; 2],
    until_ns: u64,
}

impl Schedule {
    /// The newest tick.
    pub(super) fn tick(&self) -> u32 {
        self.newest.map_or(0, |(tick, _)| tick)
    }

    /// How long so many ticks take.
    pub(super) fn ticks_ns(&self, ticks: u32) -> u64 {
        u64::from(ticks) * self.tick_ns.unsigned_abs()
    }

    /// A snapshot has come. Tells how late it is, and by how many ticks it is newer than all before.
    pub(super) fn came(
        &mut self,
        now_ns: u64,
        tick: u32,
        (tau_permille, tick_rate_hz): (u16, u8),
    ) -> (u64, u32) {
        let per_s = i64::from(tick_rate_hz.max(1)) * i64::from(tau_permille.max(1));
        self.tick_ns = 1_000_000_000 * 1_000 / per_s;
        let now = i64::try_from(now_ns).unwrap_or(i64::MAX);
        let (newest, due_ns) = *self.newest.get_or_insert((tick, now));
        let newer = tick.saturating_sub(newest);
        let due_ns = due_ns + (i64::from(tick) - i64::from(newest)) * self.tick_ns;
        if newer > 0 {
            self.newest = Some((tick, due_ns));
        }
        if now_ns >= self.until_ns {
            self.until_ns = now_ns + SOONEST_NS;
            self.soonest_ns = [None, self.soonest_ns[0]];
        }
        let after_ns = now - due_ns;
        let soonest = self.soonest_ns[0].map_or(after_ns, |it| it.min(after_ns));
        self.soonest_ns[0] = Some(soonest);
        let soonest = self.soonest_ns[1].map_or(soonest, |it| it.min(soonest));
        (after_ns.saturating_sub(soonest).unsigned_abs(), newer)
    }
}

#[cfg(test)]
mod tests {
    use world::{EntityId, Record, Snapshot, Update, Welcome};

    use super::{Pilot, Schedule, Stream, Trace, WAIT_TICKS, ZoneRecord};

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
                let snapshot =
                    Snapshot { tick, tau_permille: 1_000, updates, ..Snapshot::default() };
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
}
