//! `throng flow`: throughput, and what it costs. From flags to a plan, and from a result to what is
//! printed and written; what is measured and how is `lab`'s.

mod styles;

use clap::{ArgMatches, Command};

/// The subcommand.
pub fn command() -> Command {
    Command::new("flow")
        .about("Measure how much goes from one end to the other, and what it costs")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(styles::command())
}

/// Runs the subcommand. The exit code.
///
/// # Errors
/// What kept it from being done, in words for whoever typed it.
pub fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("styles", matches)) => styles::run(matches),
        other => anyhow::bail!("no such subcommand of flow: {:?}", other.map(|it| it.0)),
    }
}
