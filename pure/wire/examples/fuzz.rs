//! Fuzzes every decoder of wire: `fuzz <first seed> <rounds> [seeds]`. Prints the failing round
//! and ends with status 1; the same numbers replay it.

#[path = "../tests/it/fuzz.rs"]
mod fuzz;

fn main() -> std::process::ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let (first, rounds) = (number(0, 1), u32::try_from(number(1, 10_000)).unwrap_or(u32::MAX));
    if fuzz::run(&fuzz::CANARY, first, rounds.max(1_000)).is_ok() {
        eprintln!("the canary was not caught: this program cannot find errors");
        return std::process::ExitCode::FAILURE;
    }
    for seed in first..first + number(2, 1) {
        for target in fuzz::TARGETS {
            if let Err(failure) = fuzz::run(target, seed, rounds) {
                eprintln!("{}: {failure}", target.name);
                return std::process::ExitCode::FAILURE;
            }
            println!("{}: seed {seed}, {rounds} rounds, fine", target.name);
        }
    }
    std::process::ExitCode::SUCCESS
}
