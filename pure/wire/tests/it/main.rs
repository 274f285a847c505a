//! The codec from outside: a short run of the fuzz program, so that it cannot rot. Longer runs:
//! `cargo run --release -p wire --example fuzz -- <seed> <rounds>`.

mod fuzz;

/// Rounds that take about a second without optimisation.
const ROUNDS: u32 = 2_000;

#[test]
fn fuzz_smoke() {
    for target in fuzz::TARGETS {
        if let Err(failure) = fuzz::run(target, 1, ROUNDS) {
            panic!("{}: {failure}", target.name);
        }
    }
}

/// A fuzz program that cannot fail proves nothing: this decoder is wrong on purpose.
#[test]
fn canary_is_caught() {
    assert!(fuzz::run(&fuzz::CANARY, 1, ROUNDS).is_err());
}

#[test]
fn rounds_replay() {
    let failure = fuzz::run(&fuzz::CANARY, 7, ROUNDS).unwrap_err();
    assert_eq!(fuzz::run(&fuzz::CANARY, 7, ROUNDS).unwrap_err(), failure);
}
