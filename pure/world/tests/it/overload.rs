//! Load makes a zone do one thing after the other, and take all back when it is over.

use world::{Admission, Bounds, Interest, Load, Overload, Steps, Taken, Turned, WAITING_MAX};

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
fn newcomers_wait_in_line_and_addresses_have_their_bound() {
    let open = Overload::new(BOUNDS).report();
    let closed = Steps { is_closed: true, ..open };
    let mut admission = Admission::default();
    for who in 0..16 {
        assert_eq!(admission.come(who, 7), Ok(usize::try_from(who).unwrap()));
    }
    assert_eq!(admission.come(16, 7), Err(Turned::Address));
    assert_eq!(admission.come(3, 8), Err(Turned::Twice));
    assert_eq!(admission.come(20, 8), Ok(16));
    assert_eq!(admission.admit(closed), None);
    assert!(admission.leave(0) && !admission.leave(0));
    assert_eq!(admission.come(21, 7), Ok(16), "who left made room for another of its address");
    let order: Vec<_> = std::iter::from_fn(|| admission.admit(open)).collect();
    assert_eq!(order, (1..16).chain([20, 21]).collect::<Vec<_>>());
    for who in 0..WAITING_MAX as u64 {
        admission.come(who, who).unwrap();
    }
    assert_eq!(admission.come(u64::MAX, u64::MAX), Err(Turned::Full));
    assert_eq!((admission.refused_full, admission.refused_address), (1, 1));
}
