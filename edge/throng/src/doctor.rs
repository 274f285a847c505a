//! `throng doctor`: is this machine set up for game servers?
//!
//! The checks are `lab`'s. Here: flags, where the record of changes lies, what is printed where, and
//! the exit code: 0; 1 if something could not be read, changed or put back, or, with --strict, if a
//! warning remains.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lab::doctor::{self, Finding, Tree, Undone, Verdict};

use crate::{EXIT_FAILED, EXIT_WRONG, complain};

const EXAMPLES: &str = "\
Examples:
  throng doctor                       what is there to see to, and the command that cures it
  throng doctor --only rss --only rps
  throng doctor --json
  throng doctor --apply               change what is safe to change; --undo puts it back
  throng doctor --strict && throng serve

--apply writes settings of the kernel that take effect at once, break no connection, weaken no
protection and can be put back; all of them are gone after the next start of the machine. Nothing
else is ever written. What was changed is kept in the file of --record, by default doctor.json in
$XDG_STATE_HOME/throng or ~/.local/state/throng, and its name is printed.

Exit codes: 0, also with warnings. 1: something could not be read, changed or put back, or, with
--strict, a warning is left. 2: asked for wrongly.";

/// The subcommand's flags.
pub fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("doctor")
        .about("Check whether this machine is set up for game servers, and what cures it")
        .after_help(EXAMPLES)
        .arg(flag("json", "Print the checks as JSON"))
        .arg(flag("strict", "Exit with 1 if there is a warning"))
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("ID")
                .action(ArgAction::Append)
                .help("Only this check, for --apply as well; of interfaces `rss` or `rss:eth0`"),
        )
        .arg(flag("apply", "Change what is safe to change, and say how to put it back"))
        .arg(flag("undo", "Put back what --apply has changed").conflicts_with("apply"))
        .arg(
            Arg::new("record")
                .long("record")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Where --apply keeps what it has changed"),
        )
        .arg(
            Arg::new("root")
                .long("root")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with_all(["apply", "undo"])
                .help("Judge the recorded files in DIR/proc and DIR/sys instead of this machine"),
        )
}

/// Runs the subcommand. The exit code.
///
/// # Errors
/// When the record cannot be read or written, or nobody reads the output.
pub fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let tree = match matches.get_one::<PathBuf>("root") {
        None => Tree::here(),
        Some(root) if root.is_dir() => Tree::recorded(root),
        Some(root) => {
            complain(&format_args!("--root {}: no such folder", root.display()));
            return Ok(EXIT_WRONG);
        }
    };
    if matches.get_flag("undo") {
        return undo(&tree, &record(matches)?);
    }
    let only: Vec<&String> = matches.get_many("only").into_iter().flatten().collect();
    let findings = match examine(&tree, &only) {
        Ok(findings) => findings,
        Err(error) => {
            complain(&error);
            return Ok(EXIT_WRONG);
        }
    };
    let mut stdout = std::io::stdout().lock();
    let mut has_failed = false;
    let findings = if matches.get_flag("apply") {
        let record = record(matches)?;
        let applied = doctor::apply(&tree, &findings, &record)?;
        has_failed = applied.iter().any(|it| it.error.is_some());
        let text = doctor::text_of_applied(&applied, &record);
        // With JSON the standard output is for a program.
        if matches.get_flag("json") {
            std::io::stderr().lock().write_all(text.as_bytes())?;
        } else {
            writeln!(stdout, "{text}")?;
        }
        examine(&tree, &only)?
    } else {
        findings
    };
    if matches.get_flag("json") {
        stdout.write_all(doctor::json(&findings).as_bytes())?;
    } else {
        let (columns, has_colours) = look(&stdout);
        stdout.write_all(doctor::text(&findings, columns, has_colours).as_bytes())?;
    }
    let has = |verdict| findings.iter().any(|it| it.check.verdict == verdict);
    let is_bad = has(Verdict::Unread) || matches.get_flag("strict") && has(Verdict::Warn);
    Ok(if has_failed || is_bad { EXIT_FAILED } else { 0 })
}

fn examine(tree: &Tree, only: &[&String]) -> anyhow::Result<Vec<Finding>> {
    let mut findings = doctor::examine(tree);
    if only.is_empty() {
        return Ok(findings);
    }
    let is_named = |id: &str, word: &str| id == word || id.split(':').next() == Some(word);
    for word in only {
        let is_known = findings.iter().any(|it| is_named(&it.check.id, word));
        ensure!(is_known, "--only {word}: there is no such check; `throng doctor` lists them");
    }
    findings.retain(|it| only.iter().any(|word| is_named(&it.check.id, word)));
    Ok(findings)
}

fn undo(tree: &Tree, record: &Path) -> anyhow::Result<u8> {
    let undone = doctor::undo(tree, record)?;
    let text = doctor::text_of_undone(&undone, record);
    std::io::stdout().lock().write_all(text.as_bytes())?;
    let is_left = |it: &Undone| matches!(it, Undone::OtherNamespace(_) | Undone::Failed(..));
    Ok(if undone.iter().any(is_left) { EXIT_FAILED } else { 0 })
}

/// The file of the record. Source: XDG Base Directory Specification 0.8 for `XDG_STATE_HOME`.
fn record(matches: &ArgMatches) -> anyhow::Result<PathBuf> {
    if let Some(path) = matches.get_one::<PathBuf>("record") {
        return Ok(path.clone());
    }
    let folder = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    let state =
        state.context("neither XDG_STATE_HOME nor HOME is set: name a file with --record")?;
    Ok(state.join("throng/doctor.json"))
}

/// Columns of the terminal, and whether it takes colours. Source: no-color.org for `NO_COLOR`.
fn look(stdout: &std::io::StdoutLock<'_>) -> (usize, bool) {
    const COLUMNS: usize = 80;
    if !stdout.is_terminal() {
        return (COLUMNS, false);
    }
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let size = rustix::termios::tcgetwinsize(stdout).map_or(0, |size| usize::from(size.ws_col));
    (if size == 0 { COLUMNS } else { size }, !is_plain)
}
