//! `throng host`: many dedicated game servers on one machine, each in its own walls.
//!
//! From flags to a daemon, and from its answers to what is printed. Fleets, walls and the daemon are
//! `host`'s. Elsewhere than on Linux the command says that it needs it.

mod flags;

#[cfg(target_os = "linux")]
mod ask;
#[cfg(target_os = "linux")]
mod game;
#[cfg(target_os = "linux")]
mod paths;
#[cfg(target_os = "linux")]
mod ramp;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod screen;

use clap::ArgMatches;

pub use flags::command;

/// The words by which the daemon starts its own program again, for a server's process.
const CHILD: [&str; 2] = ["host", "become-server"];

/// Becomes a server, if that is what the command line says. It comes before everything else: the process
/// has one thread, and must do nothing that the server's program would inherit.
#[must_use]
pub fn become_server() -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if !CHILD.iter().all(|wanted| words.next().is_some_and(|word| word == *wanted)) {
        return None;
    }
    #[cfg(target_os = "linux")]
    return Some(host::become_server());
    #[cfg(not(target_os = "linux"))]
    return Some(crate::EXIT_FAILED);
}

/// Runs the subcommand. The exit code.
///
/// # Errors
/// What kept it from being done, in words for whoever typed it.
#[cfg(target_os = "linux")]
pub fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("run", matches)) => run::run(matches),
        Some(("clean", matches)) => run::clean(matches),
        Some(("game", matches)) => game::run(matches),
        Some(("paths", matches)) => paths::run(matches),
        Some(("ramp", matches)) => ramp::run(matches),
        Some((name, matches)) => ask::run(name, matches),
        None => Ok(crate::EXIT_WRONG),
    }
}

/// Says that it needs Linux.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn run(_matches: &ArgMatches) -> anyhow::Result<u8> {
    anyhow::bail!("throng host needs Linux: its walls are namespaces and control groups")
}
