//! `throng load find`: the highest rate at which all expectations hold.
//!
//! One run after the other, each at another rate and with a server of its own if there is a
//! `--server`: doubled until something does not hold, then the gap is halved. A run whose
//! expectations cannot hold any more ends at once; one that did not hold while the generator was in
//! the way is done once more. What was tried stands in `find.json` under `--out`, whole after each run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ArgMatches;
use lab::load::{Search, Summary};
use serde::Serialize;

use super::jobs::{self, Job};
use super::{EXIT_FAILED, Interrupt, Runner, complain, files, wrong};

/// The rate that a search begins with when neither the scenario nor --rate says one.
const RATE_FIRST: f64 = 100.0;
/// Share of what was due that has to have been sent: a rate that was not reached has not held.
const MISSED_SHARE: f64 = 0.01;
/// The file with what was tried.
const FIND_JSON: &str = "find.json";

/// One rate that was tried.
#[derive(Clone, Debug, Default, Serialize)]
struct Rung {
    /// Asked for, a second.
    rate: f64,
    holds: bool,
    /// Why it did not hold; empty if it did.
    why: String,
    /// Why its times must not be believed; empty if they may.
    invalid: Vec<String>,
    /// What became of the expectations; of a run that was ended early, when that was.
    verdicts: Vec<String>,
    /// Seconds that were counted.
    counted_s: f64,
    /// The folder of its result, below --out.
    folder: String,
}

/// What `find.json` says.
#[derive(Debug, Serialize)]
struct Found<'a> {
    scenario: &'a str,
    /// In the order in which they were tried.
    rungs: &'a [Rung],
    /// The highest rate that held.
    held: Option<f64>,
    /// The lowest rate that did not.
    failed: Option<f64>,
    /// The last line.
    says: &'a str,
}

/// Runs the search. The exit code.
pub(super) fn find(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let (job, mut search) = match job(matches, &interrupt).and_then(|it| search(matches, it)) {
        Ok(asked) => asked,
        Err(error) => return Ok(wrong(&error)),
    };
    let mut runner = Runner::new(matches)?;
    let mut rungs: Vec<Rung> = Vec::new();
    while let Some(rate) = search.next() {
        let mut is_again = false;
        let holds = loop {
            let done = rung(&mut runner, (&job, &interrupt), rounded(rate), is_again);
            if let Some((name, code)) = interrupt.signal() {
                complain(&format_args!("ended by {name}; {}", so_far(&rungs)));
                return Ok(code);
            }
            let rung = done.inspect_err(|_| complain(&so_far(&rungs)))?;
            writeln!(std::io::stdout().lock(), "{}", line(&rung))?;
            let tries_again = !rung.holds && !rung.invalid.is_empty() && !is_again;
            let holds = rung.holds;
            rungs.push(rung);
            write_found(&job, &rungs, &so_far(&rungs))?;
            if !tries_again {
                break holds;
            }
            is_again = true;
        };
        search.tell(holds);
    }
    let (says, code) = closing(&rungs);
    write_found(&job, &rungs, &says)?;
    if code == 0 {
        writeln!(std::io::stdout().lock(), "{says}")?;
    } else {
        complain(&says);
    }
    Ok(code)
}

/// The job with its search, which begins above zero.
fn search(matches: &ArgMatches, job: Job) -> anyhow::Result<(Job, Search)> {
    let first = job.plan.rate.or(job.plan.scenario.rate).unwrap_or(RATE_FIRST);
    let most: f64 = matches.get_one("to").copied().unwrap_or(f64::MAX);
    let percent: f64 = matches.get_one("within").copied().unwrap_or(5.0);
    ensure!(most > 0.0, "--to is above zero");
    ensure!(percent > 0.0, "--within is above zero");
    Ok((job, Search::new(first, most, percent)))
}

/// One run of the search.
fn rung(
    runner: &mut Runner,
    (job, interrupt): (&Job, &Interrupt),
    rate: f64,
    is_again: bool,
) -> anyhow::Result<Rung> {
    let again = if is_again { "-again" } else { "" };
    let folder = format!("rate-{rate}{again}");
    let mut job = job.clone();
    job.plan.rate = Some(rate);
    job.folder = job.folder.map(|out| out.join(&folder));
    job.plan.server_log = job.plan.server.as_ref().and(job.log());
    let done = runner.measure(&job, interrupt, true)?;
    let why = why_not(&done);
    // Figures of a run that was cut short are of too little to be told.
    let verdicts = if done.ended.is_empty() {
        done.expectations.iter().map(|it| it.found.clone()).collect()
    } else {
        vec![cut_short(&done)]
    };
    Ok(Rung {
        rate,
        holds: why.is_none(),
        why: why.unwrap_or_default(),
        invalid: done.invalid,
        verdicts,
        counted_s: done.counted_s,
        folder,
    })
}

/// The line of a rate.
fn line(rung: &Rung) -> String {
    let mut line = format!("{:>10}/s  ", rung.rate);
    // Writing to a String cannot fail.
    let _ = if rung.holds {
        write!(line, "holds: {}", rung.verdicts.join(", "))
    } else {
        write!(line, "does not hold: {}", rung.why)
    };
    if !rung.invalid.is_empty() {
        line.push_str(" (INVALID: the generator was in the way)");
    }
    line
}

/// The highest rate that held and the lowest that did not, of all tries.
fn bounds(rungs: &[Rung]) -> (Option<f64>, Option<f64>) {
    let held = rungs.iter().filter(|it| it.holds).map(|it| it.rate);
    // A rate that held at its second try has held.
    let has_held = |rate: f64| rungs.iter().any(|it| it.holds && it.rate >= rate);
    let failed = rungs.iter().filter(|it| !it.holds && !has_held(it.rate)).map(|it| it.rate);
    (held.reduce(f64::max), failed.reduce(f64::min))
}

/// What is known before the search is over.
fn so_far(rungs: &[Rung]) -> String {
    match bounds(rungs) {
        (Some(held), Some(failed)) => {
            format!("so far all expectations held at {held}/s, and did not at {failed}/s")
        }
        (Some(held), None) => format!("so far all expectations held at {held}/s"),
        (None, _) => "so far no rate was found at which all expectations hold".to_owned(),
    }
}

/// The last line, and the exit code: a rate that did not hold while the generator was in the way is no
/// limit of the server.
fn closing(rungs: &[Rung]) -> (String, u8) {
    let (held, failed) = bounds(rungs);
    let of_failed = |rung: &&Rung| !rung.holds && Some(rung.rate) == failed;
    let is_invalid = rungs.iter().rfind(of_failed).is_some_and(|it| !it.invalid.is_empty());
    match (held, failed) {
        (Some(held), Some(failed)) if is_invalid => (
            format!(
                "at least {held}/s; INVALID: the generator was in the way at {failed}/s, the limit \
                 was not found"
            ),
            EXIT_FAILED,
        ),
        (Some(held), Some(failed)) => {
            let says = "highest rate at which all expectations hold:";
            (format!("{says} {held}/s ({failed}/s did not)"), 0)
        }
        (Some(held), None) => (format!("all expectations hold up to {held}/s (--to)"), 0),
        (None, Some(failed)) if is_invalid => (
            format!(
                "no rate was found at which all expectations hold; INVALID: the generator was in \
                 the way at {failed}/s too"
            ),
            EXIT_FAILED,
        ),
        (None, _) => ("no rate was found at which all expectations hold".to_owned(), EXIT_FAILED),
    }
}

/// Writes `find.json` if there is a folder for it.
fn write_found(job: &Job, rungs: &[Rung], says: &str) -> anyhow::Result<()> {
    let Some(out) = job.folder.as_deref() else { return Ok(()) };
    let (held, failed) = bounds(rungs);
    let found = Found { scenario: &job.plan.scenario.name, rungs, held, failed, says };
    let mut text = serde_json::to_vec_pretty(&found)?;
    text.push(b'\n');
    files::write(&[(Path::new(out).join(FIND_JSON), text)])
}

/// The one run that is repeated.
fn job(matches: &ArgMatches, interrupt: &Interrupt) -> anyhow::Result<Job> {
    let mut jobs = jobs::jobs(matches, &interrupt.is_set)?;
    ensure!(jobs.len() == 1, "find takes one scenario and one --pipeline");
    let job = jobs.pop().context("no scenario")?;
    ensure!(
        !job.conditions.is_empty(),
        "find needs to know what is to hold: --expect 'response_p99 < 20ms', or thresholds in the \
         scenario"
    );
    for flag in ["json", "junit"] {
        ensure!(!matches.contains_id(flag), "--{flag}: find writes its runs with --out DIR only");
    }
    ensure!(!job.plan.saturate, "--saturate has no rate to look for: leave it out");
    ensure!(job.plan.rate_end.is_none(), "--rate-end: find looks for one rate, which stays");
    ensure!(job.plan.processes == 1, "--processes: find runs in one process");
    let is_paced = |it: &lab::load::scenario::Session| {
        !it.repeated.is_empty() && it.pace != lab::load::scenario::Pace::None
    };
    ensure!(job.plan.scenario.sessions.iter().any(is_paced), "the scenario has no paced loop");
    Ok(job)
}

/// Three digits are what a search can tell.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.max(1e-3).log10().floor() - 2.0);
    let rounded = (rate / unit).round() * unit;
    // Without what the division leaves behind the point.
    (rounded * 1e6).round() / 1e6
}

/// Why a rate has not held; none if it has.
fn why_not(summary: &Summary) -> Option<String> {
    if let Some(reason) = lab::load::advice::failure(summary) {
        return Some(reason);
    }
    if !summary.ended.is_empty() {
        return Some(cut_short(summary));
    }
    if let Some(verdict) = summary.expectations.iter().find(|it| !it.holds) {
        return Some(format!("{} ({})", verdict.condition, verdict.found));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    let missed = |op: &&lab::load::OpSummary| {
        let due = op.done + op.failed + op.missed + op.unanswered;
        op.missed as f64 > due as f64 * MISSED_SHARE
    };
    let op = summary.ops.iter().filter(|op| op.counted && !op.setup).find(missed)?;
    Some(format!("the rate was not reached: {} of {} were not sent in time", op.missed, op.name))
}

/// When a run was ended, and why: its figures are of too little to be told.
fn cut_short(summary: &Summary) -> String {
    format!("{}, after {:.1} s", summary.ended, summary.counted_s)
}

#[cfg(test)]
mod tests {
    use lab::load::{OpSummary, Summary};

    use super::{Rung, closing, line, rounded, so_far, why_not};

    fn rung(rate: f64, holds: bool, is_invalid: bool) -> Rung {
        let invalid = if is_invalid { vec!["late".to_owned()] } else { Vec::new() };
        Rung { rate, holds, invalid, ..Rung::default() }
    }

    #[test]
    fn a_limit_that_the_generator_set_is_not_the_servers() {
        let held = [rung(50.0, true, false), rung(73.8, true, true)];
        for (failed, wanted, code) in [
            (vec![rung(77.0, false, false)], "hold: 73.8/s (77/s did not)", 0),
            (
                vec![rung(77.0, false, true), rung(77.0, false, true)],
                "at least 73.8/s; INVALID: the generator was in the way at 77/s, the limit was not \
                 found",
                1,
            ),
            // At its second try it was the server's doing, or it held after all.
            (vec![rung(77.0, false, true), rung(77.0, false, false)], "hold: 73.8/s (77/s", 0),
            (
                vec![rung(70.0, false, true), rung(77.0, false, false)],
                "hold: 73.8/s (77/s did not)",
                0,
            ),
            (Vec::new(), "up to 73.8/s (--to)", 0),
        ] {
            let (says, found) = closing(&[&held[..], &failed].concat());
            assert!(says.contains(wanted) && found == code, "{says}");
        }
        assert_eq!(closing(&[rung(5.0, false, true)]).1, 1);
        assert!(so_far(&held).contains("held at 73.8/s"), "{}", so_far(&held));
        assert!(so_far(&[]).contains("no rate"));
    }

    #[test]
    fn a_rate_that_was_cut_short_tells_no_figures() {
        let op = OpSummary {
            name: "ask".to_owned(),
            counted: true,
            done: 9,
            rate: 90_000.0,
            ..OpSummary::default()
        };
        let summary = Summary {
            counted_s: 0.1,
            ops: vec![op],
            ended: "`errors == 0` could not hold any more".to_owned(),
            ..Summary::default()
        };
        let why = why_not(&summary).unwrap();
        assert_eq!(why, "`errors == 0` could not hold any more, after 0.1 s");
        let told = line(&Rung { rate: 40.0, why, ..Rung::default() });
        assert_eq!(
            told.trim(),
            "40/s  does not hold: `errors == 0` could not hold any more, after 0.1 s"
        );
    }

    #[test]
    fn rates_have_three_digits() {
        for (rate, wanted) in
            [(1_234.5, 1_230.0), (0.123_45, 0.123), (99.96, 100.0), (700.0, 700.0)]
        {
            assert!((rounded(rate) - wanted).abs() < 1e-9, "{rate}: {}", rounded(rate));
        }
    }
}
