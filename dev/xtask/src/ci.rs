//! `cargo xtask ci`: every check, timed, with a table at the end. The only command that CI calls.
//!
//! A failed step does not stop the others: one run tells everything. All steps share one target
//! folder and the dev profile, so that dependencies are compiled once for checking and once for
//! running. What is deliberately not here: installing tools (`.ci/run`).

mod count;
mod steps;

use std::time::{Duration, Instant};

use anyhow::bail;

use count::Counts;
use steps::STEPS;

/// How a step ended.
pub enum Outcome {
    /// It ran; a step that counts nothing counts as one.
    Ran(Counts),
    /// It could not run here, and why that is no failure.
    Skipped(String),
}

struct Line {
    name: &'static str,
    took: Duration,
    counts: Counts,
    note: String,
}

/// Runs the steps; `only` and `skip` select by name or by the part before a hyphen. Tells whether
/// all passed.
///
/// # Errors
/// If a selected step does not exist.
pub fn run(only: &[String], skip: &[String]) -> anyhow::Result<bool> {
    for asked in only.iter().chain(skip) {
        if !STEPS.iter().any(|step| is_called(step.name, asked)) {
            let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            bail!("there is no step `{asked}`; there are {}", names.join(", "));
        }
    }
    let chosen = |name: &str| {
        let is_in = |list: &[String]| list.iter().any(|asked| is_called(name, asked));
        (only.is_empty() || is_in(only)) && !is_in(skip)
    };
    let mut lines = Vec::new();
    for step in STEPS.iter().filter(|step| chosen(step.name)) {
        println!("\n=== {}: {}", step.name, step.about);
        let start = Instant::now();
        let (counts, note) = match (step.run)() {
            Ok(Outcome::Ran(counts)) => (counts, String::new()),
            Ok(Outcome::Skipped(why)) => (Counts::default(), format!("SKIPPED: {why}")),
            Err(error) => (Counts { passed: 0, failed: 1 }, format!("{error:#}")),
        };
        lines.push(Line { name: step.name, took: start.elapsed(), counts, note });
    }
    Ok(summary(&lines))
}

/// Installs what node's tests need, unless it is there.
///
/// # Errors
/// If npm cannot be run, or fails.
pub fn install_packages() -> anyhow::Result<()> {
    steps::install()
}

/// `e2e` means `e2e-uring` and `e2e-poll`.
fn is_called(name: &str, asked: &str) -> bool {
    name == asked || name.split('-').next() == Some(asked)
}

fn summary(lines: &[Line]) -> bool {
    let mut all = Counts::default();
    println!("\n{:<12} {:>8} {:>8} {:>8}", "step", "seconds", "passed", "failed");
    for line in lines {
        let Line { name, took, counts: Counts { passed, failed }, note } = line;
        println!("{name:<12} {:>8.1} {passed:>8} {failed:>8}  {note}", took.as_secs_f64());
        all.passed += passed;
        all.failed += failed;
    }
    let took: Duration = lines.iter().map(|line| line.took).sum();
    println!("{:<12} {:>8.1}\n", "all", took.as_secs_f64());
    println!("{} passed, {} failed", all.passed, all.failed);
    all.failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_called_by_name_or_family() {
        assert!(is_called("e2e-uring", "e2e") && is_called("e2e-uring", "e2e-uring"));
        assert!(!is_called("e2e-uring", "e2e-poll") && !is_called("fmt", "f"));
        assert!(run(&["nothing".to_owned()], &[]).is_err());
        assert!(run(&[], &["nothing".to_owned()]).is_err());
    }

    #[test]
    fn the_summary_fails_when_a_step_failed() {
        let line = |failed| Line {
            name: "fmt",
            took: Duration::ZERO,
            counts: Counts { passed: 1, failed },
            note: String::new(),
        };
        assert!(summary(&[line(0)]));
        assert!(!summary(&[line(0), line(1)]));
    }
}
