//! Load makes a zone do one thing after the other, and take all back when it is over.

use world::{Admission, Bounds, Interest, Load, Overload, Place, RoomLoad, Steps, Taken};

const BOUNDS: Bounds = Bounds { fanouts_max: 4, tau_floor_permille: 500 };

/// A zone whose ticks take so long at full speed, in µs, and what was done about its load.
struct Zone {
    overload: Overload,
    tick_us: u64,
    tick: u32,
    /// What summaries leave of packets, in thousandths.
    summed_permille: u64,
    /// How long viewers are being told at least, whatever that keeps the thread.
    told_permille: u64,
}

impl Zone {
    fn new(rate_hz: u64) -> Self {
        let overload = Overload::new(BOUNDS);
        let tick_us = 1_000_000 / rate_hz;
        Self { overload, tick_us, tick: 0, summed_permille: 750, told_permille: 0 }
    }

    /// Flies for so many seconds with `work` for packets and cells of one room, in thousandths of what a thread
    /// does in a tick at full speed, which what is done relieves; gives all that was done.
    fn fly(&mut self, seconds: u64, (packets, cells): (u64, u64)) -> Vec<Taken> {
        let (mut taken, mut flown_us) = (Vec::new(), 0);
        while flown_us < seconds * 1_000_000 {
            let Steps { fanouts, halvings, has_summaries, tau_permille, .. } =
                self.overload.report();
            let eased = packets / u64::from(fanouts) * (4 - u64::from(halvings)) / 4;
            let eased = if has_summaries { eased * self.summed_permille / 1_000 } else { eased };
            let of_tick = |work: u64| work * u64::from(tau_permille) / 1_000;
            let room = RoomLoad {
                cells_permille: of_tick(cells),
                packets_permille: of_tick(eased),
                told_permille: of_tick(self.told_permille.max(eased)),
            };
            let rooms = &[RoomLoad::default(), room];
            let load = Load { tick_us: self.tick_us * 1_000 / u64::from(tau_permille), rooms };
            taken.extend(self.overload.tick(self.tick, load));
            flown_us += load.tick_us;
            self.tick += 1;
        }
        taken
    }

    fn tau_permille(&self) -> u64 {
        self.overload.report().tau_permille.into()
    }

    fn has_no_steps(&self) -> bool {
        self.overload.report() == Overload::new(BOUNDS).report()
    }
}

/// What changed in a step, in a word.
fn word(taken: &Taken) -> &'static str {
    let (from, to) = (taken.from, taken.to);
    match () {
        () if to.fanouts != from.fanouts => "fan-out",
        () if to.halvings != from.halvings => "tiers",
        () if to.has_summaries != from.has_summaries => "summaries",
        () if to.tau_permille != from.tau_permille => "time",
        () => "admission",
    }
}

fn words(taken: &[Taken]) -> Vec<&'static str> {
    let mut words: Vec<_> = taken.iter().map(word).collect();
    words.dedup();
    words
}

#[test]
fn steps_come_in_their_order_and_go_in_the_other() {
    let mut zone = Zone::new(20);
    let taken = zone.fly(20, (40_000, 500));
    assert_eq!(words(&taken), ["fan-out", "tiers", "summaries", "time", "admission"]);
    let steps = zone.overload.report();
    assert_eq!((steps.fanouts, steps.tau_permille, steps.is_closed), (4, 500, true));
    let taken = zone.fly(60, (0, 0));
    assert_eq!(words(&taken), ["admission", "time", "summaries", "tiers", "fan-out"]);
    assert!(zone.has_no_steps());
}

#[test]
fn what_helps_is_enough_and_nothing_swings() {
    let mut zone = Zone::new(20);
    let taken = zone.fly(300, (1_600, 50));
    assert_eq!(words(&taken), ["fan-out"], "{taken:?}");
    assert_eq!(zone.tau_permille(), 1_000);
    for cells in 901..=1_800 {
        let mut zone = Zone::new(20);
        let taken = zone.fly(10, (0, cells));
        assert_eq!(words(&taken), ["time"], "{cells}");
        assert!(taken.iter().all(|it| it.to.tau_permille < it.from.tau_permille), "{cells}");
        let load = cells * zone.tau_permille() / 1_000;
        assert!((800..=900).contains(&load), "{cells}: no slower than it must be: {load}");
        assert_eq!(zone.fly(300, (0, cells)), [], "{cells}");
    }
}

/// Where cells are what is full, far ships are told as before; and what was done about packets is taken back though
/// cells have much to do.
#[test]
fn what_only_helps_packets_is_for_packets() {
    for (packets, cells) in [(10, 1_100), (60, 850), (200, 950)] {
        let mut zone = Zone::new(20);
        let taken = zone.fly(20, (packets, cells));
        assert_eq!(words(&taken), ["time"], "{packets} and {cells}: {taken:?}");
    }
    let mut zone = Zone::new(20);
    assert_eq!(words(&zone.fly(2, (4_000, 500))), ["fan-out", "tiers"]);
    zone.fly(60, (50, 600));
    assert!(zone.has_no_steps(), "{:?}", zone.overload.report());
}

/// Where all processors are in use, rooms have little to do themselves, and are late all the same: viewers are told
/// less, and time goes on.
#[test]
fn viewers_who_miss_ticks_are_told_less() {
    let mut zone = Zone { told_permille: 1_500, ..Zone::new(20) };
    assert_eq!(zone.fly(20, (400, 50)), [], "few are missed");
    zone.told_permille = 1_600;
    let taken = zone.fly(20, (400, 50));
    assert_eq!(words(&taken), ["fan-out", "tiers", "summaries"]);
    assert_eq!(zone.fly(300, (400, 50)), []);
    zone.told_permille = 990;
    zone.fly(60, (400, 50));
    assert!(zone.has_no_steps(), "{:?}", zone.overload.report());
}

/// Of two rooms one has most to do, and the other most for packets: its viewers are told less, and no more again
/// before that has room.
#[test]
fn each_room_counts_for_itself() {
    let room = |cells_permille, packets_permille| RoomLoad {
        cells_permille,
        packets_permille,
        told_permille: 0,
    };
    let mut overload = Overload::new(BOUNDS);
    let mut fly = |ticks: u32, rooms: &[RoomLoad]| -> Vec<Taken> {
        (0..ticks).filter_map(|tick| overload.tick(tick, Load { tick_us: 50_000, rooms })).collect()
    };
    assert_eq!(words(&fly(12, &[room(850, 90), room(0, 930)])), ["fan-out"]);
    assert_eq!(fly(400, &[room(650, 50), room(0, 690)]), [], "1,380 without");
    assert_eq!(words(&fly(400, &[room(650, 50), room(0, 390)])), ["fan-out"]);
    assert_eq!(overload.report(), Overload::new(BOUNDS).report());
}

/// Half a second each on the way down, five and then one each on the way back; a step waits for its tick to end.
#[test]
fn steps_take_as_long_at_all_rates() {
    for rate_hz in [5, 20, 60] {
        let mut zone = Zone::new(rate_hz);
        let taken = zone.fly(3, (0, 3_000));
        assert!(words(&taken) == ["time"] && (3..=6).contains(&taken.len()), "{taken:?}");
        assert_eq!(words(&zone.fly(5, (0, 3_000))), ["time", "admission"], "{rate_hz} Hz");
        assert_eq!(zone.fly(4, (0, 100)), [], "{rate_hz} Hz");
        assert_eq!(words(&zone.fly(3, (0, 100))), ["admission", "time"], "{rate_hz} Hz");
        assert!(zone.tau_permille() < 700, "{rate_hz} Hz: not all at once");
        zone.fly(11, (0, 100));
        assert!(zone.has_no_steps(), "{rate_hz} Hz");
    }
}

/// A fight that becomes smaller has all its speed again, though it is not small.
#[test]
fn time_comes_back_as_far_as_load_allows() {
    let mut zone = Zone::new(20);
    zone.fly(10, (0, 1_600));
    assert!(zone.tau_permille() < 600);
    zone.fly(20, (0, 1_100));
    let load = 1_100 * zone.tau_permille() / 1_000;
    assert!((728..=800).contains(&load), "as much as stays free: {load}");
    zone.fly(20, (0, 790));
    assert_eq!(zone.tau_permille(), 1_000);
    assert_eq!(zone.fly(60, (0, 790)), []);
}

/// Summaries of a crowd may take an eighth of what ships took: without them there is too much again.
#[test]
fn what_is_taken_again_stays_longer_each_time() {
    let mut zone = Zone { summed_permille: 125, ..Zone::new(20) };
    let work = (8_000, 50);
    zone.fly(20, work);
    let is_back = |taken: &Taken| taken.from.has_summaries && !taken.to.has_summaries;
    let backs = |taken: Vec<Taken>| taken.iter().filter(|it| is_back(it)).count();
    assert!((1..=3).contains(&backs(zone.fly(60, work))));
    let few = backs(zone.fly(600, work));
    assert!((10..=16).contains(&few), "all forty seconds: {few}");
    // All comes back as it otherwise does, when the last of these is over.
    zone.fly(41, (0, 50));
    assert!(!zone.overload.report().has_summaries);
    zone.fly(40, (0, 50));
    assert!(zone.has_no_steps(), "{:?}", zone.overload.report());
}

/// A tick now and then that is quiet, or that something else delays, changes nothing.
#[test]
fn single_ticks_count_as_single_ticks() {
    let ticks = |zone: &mut Overload, loads: [u64; 4]| -> Vec<Taken> {
        let rooms = loads.map(|cells_permille| [RoomLoad { cells_permille, ..Default::default() }]);
        let loads = rooms.iter().map(|rooms| Load { tick_us: 50_000, rooms });
        loads.cycle().take(4_000).filter_map(|load| zone.tick(0, load)).collect()
    };
    let mut overload = Overload::new(BOUNDS);
    assert_eq!(ticks(&mut overload, [100, 100, 100, 3_000]), []);
    assert_eq!(words(&ticks(&mut overload, [3_000, 3_000, 3_000, 0])), ["time", "admission"]);
    assert_eq!(words(&ticks(&mut overload, [100, 100, 100, 3_000])), ["admission", "time"]);
    assert_eq!(overload.report(), Overload::new(BOUNDS).report());
}

#[test]
fn far_tiers_are_lowered_and_the_nearest_never() {
    let mut zone = Zone::new(20);
    let wanted = Interest::default();
    assert_eq!(zone.overload.interest(&wanted), wanted);
    zone.fly(20, (40_000, 0));
    let lowered = zone.overload.interest(&wanted);
    assert_eq!(lowered.periods, [1, 8, 16, 20]);
    assert!(lowered.has_summaries);
    let threads: Vec<_> = (0..8).map(|viewer| zone.overload.fanout_of(viewer)).collect();
    assert_eq!(threads, [0, 1, 2, 3, 0, 1, 2, 3], "one crowd occupies all threads");
}

#[test]
fn who_came_first_is_let_in_first_and_all_are_told_when_they_move_up() {
    let mut admission = Admission::new(40);
    for who in 0..40 {
        let place = u32::try_from(who).unwrap() + 1;
        assert_eq!(admission.come(who), Some(Place { place, waiting: place }));
    }
    assert_eq!((admission.come(40), admission.waiting()), (None, 40));
    assert_eq!(admission.moved_up(0, 20).count(), 0, "nobody has moved");
    assert!(admission.leave(5) && !admission.leave(5));
    assert_eq!(admission.first(), Some(0));
    assert!(admission.leave(0));
    assert_eq!((admission.first(), admission.waiting()), (Some(1), 38));
    // Each is told within a second, a part of them in each tick, and then no more.
    let mut told = Vec::new();
    for tick in 7..27 {
        let of_tick: Vec<_> = admission.moved_up(tick, 20).collect();
        assert!(of_tick.len() <= 2, "{of_tick:?}");
        told.extend(of_tick);
    }
    told.sort_by_key(|(who, _)| *who);
    let places: Vec<_> = told.iter().map(|(_, it)| (it.place, it.waiting)).collect();
    assert_eq!(places, (1..=38).map(|place| (place, 38)).collect::<Vec<_>>());
    assert_eq!((0..40).map(|tick| admission.moved_up(tick, 20).count()).sum::<usize>(), 0);
    let mut none = Admission::new(0);
    assert_eq!((none.come(1), none.first()), (None, None));
}
