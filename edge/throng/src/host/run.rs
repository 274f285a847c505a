//! `throng host run` and `clean`: the daemon itself.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::ArgMatches;
use host::fleet::{Fleet, FleetError, Subnet, Wall};
use host::view::{printable, servers};
use host::{Daemon, Options};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::CHILD;
use crate::load::is_hangup_ignored;
use crate::signals::StopSignals;
use crate::{EXIT_WRONG, complain};

/// A line for who looks at the terminal; the servers do not depend on it.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", printable(line));
}

/// The daemon's folder.
pub(super) fn folder(matches: &ArgMatches) -> PathBuf {
    matches.get_one("folder").cloned().unwrap_or_else(|| host::FOLDER.into())
}

/// The fleet that was typed. Servers of a file of Agones get as much of a wall as there is to be had.
pub(super) fn read(matches: &ArgMatches) -> anyhow::Result<Result<Fleet, FleetError>> {
    let path: &PathBuf = matches.get_one("fleet").context("no FLEET.toml")?;
    let is_root = rustix::process::geteuid().is_root();
    let fleet = host::fleet::read(path, if is_root { Wall::Network } else { Wall::Process });
    Ok(match matches.get_one::<Subnet>("subnet") {
        Some(subnet) => fleet.and_then(|it| it.over(*subnet)),
        None => fleet,
    })
}

/// Runs a fleet.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let fleet = match read(matches)? {
        Ok(fleet) => fleet,
        Err(error) => {
            complain(&error);
            return Ok(EXIT_WRONG);
        }
    };
    let signals = StopSignals::catch()?;
    // A refusal leaves what held before, which does for some servers.
    let _ = engine::raise_file_limit();
    let notes = fleet.notes.clone();
    let child = std::iter::once("/proc/self/exe").chain(CHILD).map(Into::into).collect();
    let keeps = matches.get_flag("keep");
    let daemon = Daemon::new(Options { fleet, folder: folder(matches), child, keeps })?;
    if let Some(found) = daemon.found() {
        say(&found);
    }
    if !notes.is_empty() {
        say("of this file is not done here, or not as in Kubernetes:");
        notes.iter().for_each(|it| say(&format!("  {it}")));
    }
    let count = servers(daemon.count());
    say(&format!("{count}; control socket in {}", daemon.folder().display()));
    if let Some(api) = daemon.api() {
        let token = daemon.folder().join("token");
        say(&format!("HTTP API on http://{api}/v1/servers, token in {}", token.display()));
    }
    let stopper = daemon.stopper();
    // A terminal that goes away is nobody's wish to end servers; `nohup` has its reasons.
    if !is_hangup_ignored() {
        let (mut hangups, stopper) = (Signals::new([SIGHUP])?, stopper.clone());
        std::thread::Builder::new().name("hangup".to_owned()).spawn(move || {
            if hangups.forever().next().is_some() {
                stopper.leave();
            }
        })?;
    }
    std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
        if signals.wait().is_ok() {
            stopper.stop();
        }
    })?;
    daemon.run(say);
    Ok(0)
}

/// Removes what is left.
pub(super) fn clean(matches: &ArgMatches) -> anyhow::Result<u8> {
    let found = host::clean(&folder(matches))?;
    say(found.as_deref().unwrap_or("nothing was left"));
    Ok(0)
}
