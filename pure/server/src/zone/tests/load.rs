//! A zone with too much to do: what it does about that, and that it does no more than it must.

use uuid::Uuid;

use super::{Rooms, Takes, member, settings};
use crate::settings::WorldSettings;
use crate::zone::refusal::Refusal;

impl Rooms {
    /// Ticks until it is so late, in nanoseconds.
    fn tick_until(&mut self, mono_ns: u64) {
        while self.now.mono_ns < mono_ns {
            self.tick();
        }
    }

    /// One tick whose packets are not written before the next one is due.
    fn tick_untold(&mut self) {
        self.now = self.home().due().unwrap();
        self.act(0, |part, now, around| part.tick(now, around));
    }
}

/// A zone with too much to do lets nobody in; when that is over, a few at a time.
#[test]
fn who_comes_when_time_is_slowest_waits_until_there_is_less_to_do() {
    let mut rooms = Rooms::new(1, 0, 1);
    rooms.home().enter(&member(1), None).unwrap();
    let rooms_full = [world::RoomLoad { cells_permille: 2_000, ..Default::default() }];
    let load = world::Load { tick_us: 500_000, rooms: &rooms_full };
    while !rooms.home().overload().report().is_closed {
        rooms.home().overload().tick(0, load);
    }
    let slowest = rooms.home().overload().report().tau_permille;
    rooms.home().director().set_tau(slowest);
    for number in 2..4 {
        let packet = rooms.home().enter(&member(number), None).unwrap().unwrap();
        assert_eq!(packet[0], world::Place::KIND);
    }
    assert_eq!(rooms.home().enter(&member(9), None), Err(Refusal::Closed), "two may wait");
    rooms.tick();
    assert_eq!((rooms.home().counts(), rooms.told.len()), ((1, 2), 0));
    // It has nothing to do from now on, for five seconds: ten ticks at a tenth of the speed.
    for _ in 0..8 {
        rooms.tick();
    }
    assert_eq!(rooms.home().counts(), (1, 2));
    for _ in 0..4 {
        rooms.tick();
    }
    assert_eq!(rooms.home().counts(), (3, 0));
    let told: Vec<_> =
        rooms.told.iter().map(|it| (it.to.presence.session_id, it.bytes[0])).collect();
    let welcome = world::Welcome::KIND;
    assert_eq!(told, [(Uuid::from_u128(2), welcome), (Uuid::from_u128(3), welcome)]);
}

/// What needs a little more than its time is slowed by as little, and is fast again when it needs less.
#[test]
fn time_goes_only_as_slow_as_it_must() {
    let fast = WorldSettings { tick_rate_hz: 60, ..settings() };
    let mut rooms = Rooms::with(fast, (1, 0, 1), None);
    rooms.home().enter(&member(1), None).unwrap();
    // Of a tick's 16.7 ms cells need 10, and packets twice as much: first what they are of, then each one.
    rooms.clock = Takes(10_000);
    rooms.tick_until(20_000_000_000);
    let steps = rooms.home().overload().report();
    assert!(steps.has_summaries && !steps.is_closed, "{steps:?}");
    assert_eq!(steps.tau_permille, 480, "30 ms in 34.7");
    let slow = rooms.now;
    rooms.tick();
    let tick_ns = rooms.now.mono_ns - slow.mono_ns;
    assert_eq!(tick_ns / 1_000, 16_666_666 / u64::from(steps.tau_permille));
    rooms.clock = Takes(4_000);
    rooms.tick_until(slow.mono_ns + 15_000_000_000);
    let steps = rooms.home().overload().report();
    assert!(steps.tau_permille == 1_000 && steps.has_summaries, "12 ms, and 20 without: {steps:?}");
    rooms.clock = Takes(2_000);
    rooms.tick_until(slow.mono_ns + 40_000_000_000);
    let steps = rooms.home().overload().report();
    assert!(!steps.has_summaries && steps.halvings == 0, "{steps:?}");
}

/// A room that is slow to tell its viewers is shown the newest tick when it is ready, and no tick between.
#[test]
fn a_room_that_is_behind_is_shown_the_newest_tick_only() {
    let mut rooms = Rooms::new(1, 0, 1);
    rooms.home().enter(&member(1), None).unwrap();
    rooms.tick();
    (0..5).for_each(|_| rooms.tick_untold());
    // It is told of 1, 5 waits, and those between are told to nobody.
    assert_eq!(rooms.stats.zone_shows_skipped.read(), 3);
    rooms.tick();
    assert_eq!(rooms.stats.zone_shows_skipped.read(), 4, "6 has taken its place");
    rooms.tick();
    let ticks =
        rooms.packets.iter().map(|it| u32::from_le_bytes(it.bytes[1..5].try_into().unwrap()));
    assert_eq!(ticks.collect::<Vec<_>>(), [0, 1, 6, 7]);
}

/// One that is behind all the time, with little to do itself, is told less.
#[test]
fn a_room_that_stays_behind_is_helped() {
    let mut rooms = Rooms::new(1, 0, 1);
    rooms.home().enter(&member(1), None).unwrap();
    rooms.tick();
    for _ in 0..12 {
        assert_eq!(rooms.home().overload().report().halvings, 0);
        rooms.tick_untold();
    }
    assert_eq!(rooms.home().overload().report().halvings, 1);
    for _ in 0..120 {
        rooms.tick();
    }
    assert_eq!(rooms.home().overload().report().halvings, 0);
}
