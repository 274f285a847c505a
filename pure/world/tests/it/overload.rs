//! Load makes a zone do one thing after the other, and take all back when it is over.

use world::{Admission, Bounds, Interest, Load, Overload, Place, Steps, Taken};

const BOUNDS: Bounds = Bounds { fanouts_max: 4, tau_floor_permille: 500 };

/// Runs a made-up zone of `work` thousandths of a thread's packets and of a room's cells, which
/// what is done relieves; gives all that was done.
fn run(overload: &mut Overload, from: u32, ticks: u32, work: Load) -> Vec<Taken> {
    let mut taken = Vec::new();
    for tick in from..from + ticks {
        let Steps { fanouts, halvings, has_summaries, tau_permille, .. } = overload.report();
        let eased = work.fanout_permille / u64::from(fanouts) * (4 - u64::from(halvings)) / 4;
        let eased = if has_summaries { eased * 3 / 4 } else { eased };
        let load = Load {
            fanout_permille: eased * u64::from(tau_permille) / 1_000,
            room_permille: work.room_permille * u64::from(tau_permille) / 1_000,
        };
        taken.extend(overload.tick(tick, load));
    }
    taken
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
    let mut overload = Overload::new(BOUNDS);
    let crowd = Load { fanout_permille: 40_000, room_permille: 500 };
    let taken = run(&mut overload, 0, 400, crowd);
    assert_eq!(words(&taken), ["fan-out", "tiers", "summaries", "time", "admission"]);
    assert!(taken.windows(2).all(|it| it[1].tick - it[0].tick >= 10), "a step each half second");
    let steps = overload.report();
    assert_eq!((steps.fanouts, steps.tau_permille, steps.is_closed), (4, 500, true));
    let taken = run(&mut overload, 400, 3_000, Load::default());
    assert_eq!(words(&taken), ["admission", "time", "summaries", "tiers", "fan-out"]);
    assert_eq!(overload.report(), Overload::new(BOUNDS).report());
}

#[test]
fn what_helps_is_enough_and_nothing_swings() {
    let mut overload = Overload::new(BOUNDS);
    let taken = run(&mut overload, 0, 5_000, Load { fanout_permille: 1_600, room_permille: 100 });
    assert_eq!(words(&taken), ["fan-out"], "{taken:?}");
    assert_eq!(overload.report().tau_permille, 1_000);
    let mut overload = Overload::new(BOUNDS);
    let taken = run(&mut overload, 0, 5_000, Load { fanout_permille: 100, room_permille: 1_200 });
    assert_eq!(words(&taken), ["time"], "packets are not what is too much");
    assert!(taken.len() <= 4 && !overload.report().is_closed, "{taken:?}");
}

#[test]
fn far_tiers_are_lowered_and_the_nearest_never() {
    let mut overload = Overload::new(BOUNDS);
    let wanted = Interest::default();
    assert_eq!(overload.interest(&wanted), wanted);
    run(&mut overload, 0, 400, Load { fanout_permille: 40_000, room_permille: 0 });
    let lowered = overload.interest(&wanted);
    assert_eq!(lowered.periods, [1, 8, 16, 20]);
    assert!(lowered.has_summaries);
    let threads: Vec<_> = (0..8).map(|viewer| overload.fanout_of(viewer)).collect();
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
