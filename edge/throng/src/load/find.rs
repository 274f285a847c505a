//! `throng load find`: the highest rate at which all expectations hold.
//!
//! One run after the other, each at another rate and with a server of its own if there is a
//! `--server`: doubled until something does not hold, then the gap is halved. A run whose
//! expectations cannot hold any more ends at once.

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use clap::ArgMatches;
use lab::load::{Search, Summary};

use super::jobs::{self, Job};
use super::{EXIT_FAILED, Interrupt, Runner, complain, wrong};

/// The rate that a search begins with when neither the scenario nor --rate says one.
const RATE_FIRST: f64 = 100.0;
/// Share of what was due that has to have been sent: a rate that was not reached has not held.
const MISSED_SHARE: f64 = 0.01;

/// Runs the search. The exit code.
pub(super) fn find(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let job = match job(matches, &interrupt) {
        Ok(job) => job,
        Err(error) => return Ok(wrong(&error)),
    };
    let first = job.plan.rate.or(job.plan.scenario.rate).unwrap_or(RATE_FIRST);
    let most = matches.get_one("to").copied().unwrap_or(f64::MAX);
    let percent = matches.get_one("within").copied().unwrap_or(5.0);
    let mut search = Search::new(first, most, percent);
    let mut runner = Runner::new(matches)?;
    let mut was_in_the_way = false;
    while let Some(rate) = search.next() {
        let rate = rounded(rate);
        let mut job = job.clone();
        job.plan.rate = Some(rate);
        job.folder = job.folder.map(|folder| folder.join(format!("rate-{rate}")));
        let done = runner.measure(&job, &interrupt, true)?;
        if let Some((name, code)) = interrupt.signal() {
            complain(&format_args!("ended by {name}"));
            return Ok(code);
        }
        let why = why_not(&done);
        if why.is_some() {
            was_in_the_way = !done.invalid.is_empty();
        }
        search.tell(why.is_none());
        let mut stdout = std::io::stdout().lock();
        let valid =
            if done.invalid.is_empty() { "" } else { " (INVALID: the generator was in the way)" };
        match why {
            None => writeln!(stdout, "{rate:>10}/s  holds{valid}")?,
            Some(why) => writeln!(stdout, "{rate:>10}/s  does not hold: {why}{valid}")?,
        }
    }
    let mut stdout = std::io::stdout().lock();
    if was_in_the_way {
        writeln!(
            stdout,
            "the generator was in the way where it did not hold last: the server may bear more"
        )?;
    }
    match search.bounds() {
        (Some(held), Some(failed)) => writeln!(
            stdout,
            "highest rate at which all expectations hold: {}/s ({}/s did not)",
            rounded(held),
            rounded(failed)
        )?,
        (Some(held), None) => {
            writeln!(stdout, "all expectations hold up to {}/s (--to)", rounded(held))?;
        }
        (None, _) => {
            complain(&"no rate was found at which all expectations hold");
            return Ok(EXIT_FAILED);
        }
    }
    Ok(0)
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

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn rates_have_three_digits() {
        for (rate, wanted) in
            [(1_234.5, 1_230.0), (0.123_45, 0.123), (99.96, 100.0), (700.0, 700.0)]
        {
            assert!((rounded(rate) - wanted).abs() < 1e-9, "{rate}: {}", rounded(rate));
        }
    }
}
