//! The commands that ask a daemon: ps, top, logs, stop, start, allocate.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ArgMatches;
use host::api::{AskError, ask};
use host::view::{Overview, Status, printable, table};

use super::run::folder;
use super::screen::{self, Keys};
use crate::load::Interrupt;
use crate::{EXIT_WRONG, complain};

/// How often the live screen is drawn.
const PICTURE: Duration = Duration::from_secs(1);
/// How often is looked whether what was stopped has ended, and for how long.
const LOOK: Duration = Duration::from_millis(50);
const STOP_PATIENCE: Duration = Duration::from_mins(2);

/// Runs one of them. The exit code.
pub(super) fn run(name: &str, matches: &ArgMatches) -> anyhow::Result<u8> {
    let folder = folder(matches);
    let word = || matches.get_one::<String>("name").map(String::as_str);
    match name {
        "ps" => ps(&folder, matches.get_flag("json"))?,
        "top" => top(&folder, matches.get_flag("once"))?,
        "logs" => {
            let lines = matches.get_one::<usize>("lines").copied().unwrap_or_default();
            let target = format!("/v1/servers/{}/logs?lines={lines}", path_of(word())?);
            let text = ask(&folder, "GET", &target, b"")?;
            // A server may print what would write over the terminal's other lines.
            if std::io::stdout().is_terminal() {
                print(printable(&String::from_utf8_lossy(&text)).as_bytes())?;
            } else {
                print(&text)?;
            }
        }
        "stop" if matches.get_flag("all") => stop_all(&folder)?,
        "stop" if word().is_none() => {
            complain(
                &"name a server, or a table of the file; --all stops all of them, and the daemon",
            );
            return Ok(EXIT_WRONG);
        }
        "stop" => stop(&folder, path_of(word())?)?,
        "start" => {
            let target = format!("/v1/servers/{}/start", path_of(word())?);
            ask(&folder, "POST", &target, b"")?;
        }
        "allocate" => {
            let body = wanted(matches, word())?;
            allocate(&folder, &body, matches.get_flag("json"))?;
        }
        other => anyhow::bail!("there is no `throng host {other}`"),
    }
    Ok(0)
}

/// A name as a part of a path; one with other letters is no server's.
fn path_of(name: Option<&str>) -> anyhow::Result<&str> {
    let name = name.context("no name")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    anyhow::ensure!(name.bytes().all(is_plain), "there is no server `{name}`");
    Ok(name)
}

fn print(bytes: &[u8]) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(bytes)?)
}

fn overview(folder: &Path) -> anyhow::Result<Overview> {
    let body = ask(folder, "GET", "/v1/servers", b"")?;
    serde_json::from_slice(&body).context("the daemon is of another version")
}

fn ps(folder: &Path, is_json: bool) -> anyhow::Result<()> {
    let overview = overview(folder)?;
    if is_json {
        return print(format!("{}\n", serde_json::to_string_pretty(&overview)?).as_bytes());
    }
    print(table(&overview).as_bytes())
}

fn top(folder: &Path, is_once: bool) -> anyhow::Result<()> {
    overview(folder)?;
    if is_once || !std::io::stdout().is_terminal() {
        std::thread::sleep(PICTURE);
        let (total, table) = picture(folder)?;
        return print(format!("{total}\n{table}").as_bytes());
    }
    // So that the terminal is as it was, however it ends.
    let interrupt = Interrupt::catch()?;
    let keys = Keys::take();
    while !keys.quits_within(PICTURE) && interrupt.signal().is_none() {
        let (total, table) = picture(folder)?;
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        let (rows, columns) = size.map_or((24, 80), |it| (it.ws_row, it.ws_col));
        let head = format!("{} {total}", keys.hint());
        let text = screen::fit(&format!("{head}\n{table}"), rows, columns);
        // To the first place, and what is below the last line away. Source: ECMA-48, CUP and ED.
        print(format!("\x1b[H\x1b[2J{text}").as_bytes())?;
    }
    Ok(())
}

/// The totals, and the table with the busiest first.
fn picture(folder: &Path) -> anyhow::Result<(String, String)> {
    let mut overview = overview(folder)?;
    let cpu = |it: &Status| it.cpu_percent.unwrap_or(0.0);
    overview.servers.sort_by(|a, b| cpu(b).total_cmp(&cpu(a)));
    Ok((overview.total(), table(&overview)))
}

/// Stops and waits until it has ended.
fn stop(folder: &Path, name: &str) -> anyhow::Result<()> {
    ask(folder, "POST", &format!("/v1/servers/{name}/stop"), b"")?;
    let since = Instant::now();
    while since.elapsed() < STOP_PATIENCE {
        let overview = overview(folder)?;
        let mut meant = overview.servers.iter().filter(|it| it.name == name || it.fleet == name);
        if meant.all(|it| it.pid.is_none()) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    anyhow::bail!("{name} has not ended within {} s", STOP_PATIENCE.as_secs())
}

/// Stops everything and waits until the daemon has ended. Without a daemon, what one left is removed.
fn stop_all(folder: &Path) -> anyhow::Result<()> {
    match ask(folder, "POST", "/v1/stop", b"") {
        Ok(_) => {}
        Err(AskError::Absent(..)) => {
            let found = host::clean(folder)?;
            let found = found.as_deref().unwrap_or("nothing was left of an earlier one");
            return print(format!("no daemon runs; {found}\n").as_bytes());
        }
        Err(error) => return Err(error.into()),
    }
    let since = Instant::now();
    while since.elapsed() < STOP_PATIENCE {
        if !folder.join("control").exists() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    anyhow::bail!("the daemon has not ended within {} s", STOP_PATIENCE.as_secs())
}

/// What is asked for.
fn wanted(matches: &ArgMatches, name: Option<&str>) -> anyhow::Result<String> {
    let pairs = |flag: &str| {
        let mut all = BTreeMap::new();
        for text in matches.get_many::<String>(flag).into_iter().flatten() {
            let (key, value) =
                text.split_once('=').with_context(|| format!("--{flag} KEY=VALUE"))?;
            all.insert(key, value);
        }
        anyhow::Ok(all)
    };
    let (labels, annotations) = (pairs("label")?, pairs("annotation")?);
    let body = serde_json::json!({ "server": name, "labels": labels, "annotations": annotations });
    Ok(body.to_string())
}

fn allocate(folder: &Path, body: &str, is_json: bool) -> anyhow::Result<()> {
    let body = ask(folder, "POST", "/v1/allocate", body.as_bytes())?;
    let status: Status =
        serde_json::from_slice(&body).context("the daemon is of another version")?;
    if is_json {
        return print(format!("{}\n", serde_json::to_string_pretty(&status)?).as_bytes());
    }
    let address = status.address.unwrap_or_else(|| "-".to_owned());
    print(format!("{} {address}\n", status.name).as_bytes())
}
