//! What `throng flow styles` and `throng host paths` share: a plan is measured row by row, the result is written
//! and said, and judged by whether anything could be measured.
//!
//! In: flags, and how to measure. Out: files, a table, a code. What is measured is `lab`'s.

use std::io::Write as _;
use std::path::PathBuf;

use clap::ArgMatches;
use serde::Serialize;

use crate::load::Interrupt;
use crate::load::files::{self, Claim};
use crate::{EXIT_FAILED, EXIT_WRONG, complain};

/// A result with a row for each thing that was compared.
pub trait Compared: Serialize {
    /// A line for each measurement.
    fn csv(&self) -> String;
    /// The page.
    fn report(&self) -> String;
    /// The table.
    fn text(&self) -> String;
    /// Whether nothing could be measured.
    fn is_empty(&self) -> bool;
}

/// Measures what the flags ask for. The exit code. `run` is given where to tell each step.
///
/// # Errors
/// When the result cannot be written.
pub fn run<P, R: Compared>(
    matches: &ArgMatches,
    plan: impl FnOnce(&ArgMatches, &Interrupt) -> anyhow::Result<P>,
    run: impl FnOnce(&P, &mut dyn FnMut(&str)) -> anyhow::Result<R>,
) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let plan = match plan(matches, &interrupt) {
        Ok(plan) => plan,
        Err(error) => {
            complain(&format_args!("{error:#}"));
            return Ok(EXIT_WRONG);
        }
    };
    // What cannot be written is found out before the run, not after it.
    let out: Option<&PathBuf> = matches.get_one("out");
    let _claim = out.map(|it| Claim::folder(it)).transpose()?;
    let result = run(&plan, &mut |line| {
        // If nobody reads it, the result is what counts.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    })?;
    if let Some(out) = out {
        let written = [
            ("series.csv", result.csv().into_bytes()),
            ("report.html", result.report().into_bytes()),
            ("result.json", lab::measure::json(&result)?),
        ];
        files::write(&written.map(|(name, bytes)| (out.join(name), bytes)))?;
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(result.text().as_bytes())?;
    if let Some(out) = out {
        writeln!(stdout, "report: {}", out.join("report.html").display())?;
    }
    if let Some((name, code)) = interrupt.signal() {
        complain(&format_args!("ended by {name}"));
        return Ok(code);
    }
    if result.is_empty() {
        complain(&"nothing could be measured");
        return Ok(EXIT_FAILED);
    }
    Ok(0)
}
