//! The oracle: a world that is partitioned, and repartitioned at random while cells run at their
//! own pace, is the same as in one cell, hash for hash; and broken zones, which must be found.

use std::panic::catch_unwind;

use event::Random;

use crate::zone::{Broken, Outcome, Profile, Zone};

/// Seeds that one run of the tests plays, unless `THRONG_SEEDS` says otherwise: some seconds.
const SEEDS: u64 = 2_000;
/// Tests that share them, so that all processors have something to do.
const PARTS: u64 = 4;

fn profile(seed: u64) -> Profile {
    let mut random = Random::from_number(seed ^ 0x5eed);
    let mut draw = |from: u32, to: u32| from + random.below(to - from + 1);
    Profile {
        seed,
        bins: u16::try_from(draw(8, 24)).unwrap(),
        ticks: if draw(0, 9) == 0 { 200 } else { draw(30, 80) },
        ahead_ticks: draw(1, 4),
        change_every: draw(1, 8),
        delay: draw(0, 6),
        is_slow: draw(0, 3) == 0,
        broken: None,
    }
}

/// The same world in one cell, with nothing late.
fn alone(profile: &Profile) -> Profile {
    Profile { change_every: 0, delay: 0, is_slow: false, broken: None, ..profile.clone() }
}

fn play(profile: &Profile) -> Result<Outcome, String> {
    let parted = Zone::new(profile.clone()).play()?;
    let alone = Zone::new(alone(profile)).play()?;
    match parted.hashes.iter().zip(&alone.hashes).position(|(one, other)| one != other) {
        Some(tick) => Err(format!("oracle: another world in tick {tick}")),
        None => Ok(parted),
    }
}

fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting")]
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Plays a part of the seeds; a failure names the seed and how to play it again.
fn play_part(part: u64) {
    let seeds: Vec<u64> = match number("THRONG_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("THRONG_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let is_all = seeds.len() > 100;
    let mut sum = Outcome::default();
    for seed in seeds.into_iter().filter(|seed| seed % PARTS == part) {
        let outcome = play(&profile(seed))
            .unwrap_or_else(|failure| panic!("THRONG_SEED={seed} plays it again: {failure}"));
        sum.handed_over += outcome.handed_over;
        sum.splits += outcome.splits;
        sum.merges += outcome.merges;
        sum.nudges += outcome.nudges;
        sum.repeated += outcome.repeated;
        sum.misrouted += outcome.misrouted;
        sum.downed += outcome.downed;
        sum.hits += outcome.hits;
        sum.rulings += outcome.rulings;
    }
    println!("{sum:?}");
    // All that could go wrong has happened, else nothing was tried.
    let happened = [sum.handed_over, sum.splits, sum.merges, sum.nudges, sum.repeated];
    let of_ships = [sum.misrouted, sum.downed, sum.hits, sum.rulings];
    let happened = happened.iter().chain(&of_ships).all(|count| *count > 50);
    assert!(happened || !is_all, "too little happens: {sum:?}");
}

#[test]
fn seeds_0() {
    play_part(0);
}

#[test]
fn seeds_1() {
    play_part(1);
}

#[test]
fn seeds_2() {
    play_part(2);
}

#[test]
fn seeds_3() {
    play_part(3);
}

/// A broken zone must be found by the named check in some seed. In others a cell's own assertions
/// may be faster.
fn must_be_found(broken: Broken, by: &str) {
    let failures: Vec<String> = (0..40)
        .filter_map(|seed| {
            let profile = Profile { broken: Some(broken), ..profile(seed) };
            catch_unwind(|| play(&profile)).map_or(None, Result::err)
        })
        .collect();
    let found = failures.iter().filter(|failure| failure.starts_with(by)).count();
    assert!(found > 0, "{broken:?} should break {by}, found: {failures:?}");
}

#[test]
fn broken_zones_are_found() {
    must_be_found(Broken::DoubleArrival, "I1");
    must_be_found(Broken::LoseArrival, "I2");
    must_be_found(Broken::OldEpoch, "I3");
    must_be_found(Broken::Zombie, "I4");
    must_be_found(Broken::ForgetControls, "I5");
    must_be_found(Broken::OldGhosts, "I7");
    must_be_found(Broken::OtherSpeed, "I10");
    must_be_found(Broken::OldTree, "I11");
    must_be_found(Broken::LoseGhosts, "oracle");
    must_be_found(Broken::LoseRulings, "oracle");
}
