//! `throng compare run`: measures before and after a change in turns, so that what else changes on
//! the machine meanwhile meets both sides alike, and ends with the comparison.
//!
//! In: a command that sets each side up, and the command that measures, which writes a result of its
//! own. Out: `DIR/before/N`, `DIR/after/N`, each with what the measuring command wrote and printed,
//! `DIR/command.txt` and `DIR/compare.html`. The order is before, after; after, before; and so on
//! (ABBA), so that a drift is taken out in pairs of rounds.
//!
//! What is whole is kept whatever happens: a signal ends the measuring command as ^C would, its round
//! is put aside, and the rounds before it are compared.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, value_parser};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{RESULT, read_runs, results, show};
use crate::load::Interrupt;
use crate::{EXIT_FAILED, EXIT_WRONG, complain};

/// How often a command under way is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a command that was asked to end may take to write its result.
const END_MAX: Duration = Duration::from_secs(15);
/// What stands for the folder of a round in the measuring command.
const PLACE: &str = "{out}";

const EXAMPLES: &str = "\
Example:
  throng compare run --before 'ethtool -K eth0 gro off' --after 'ethtool -K eth0 gro on' \\
      --rounds 5 --out results/gro -- throng ping 10.0.0.2:9500 -n 5s

The rounds alternate: before, after; after, before; and so on. Each set-up command runs in a shell
before every measurement of its side, with THRONG_SIDE and THRONG_ROUND in its environment; if it
fails nothing is measured. The measuring command writes its result to DIR/before/1, DIR/after/1,
…: {out} in it stands for that folder, and without one `--out FOLDER` is added. `throng` as its
first word is this program. What it prints is kept beside its result.

^C keeps all rounds that are whole and compares them.";

/// The subcommand's flags.
pub(super) fn command() -> clap::Command {
    let shell = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("COMMAND").help(help)
    };
    clap::Command::new("run")
        .about("Measure before and after a change in turns, and compare")
        .after_help(EXAMPLES)
        .arg(shell("before", "Sets up the machine as it was, in a shell").required(true))
        .arg(shell("after", "Sets up the change, in a shell").required(true))
        .arg(shell("finally", "Runs at the end, whatever happened"))
        .arg(
            Arg::new("rounds")
                .long("rounds")
                .value_name("N")
                .default_value("5")
                .value_parser(value_parser!(u16).range(1..=1_000))
                .help("Measurements of each side"),
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Where the results go; must not hold any"),
        )
        .arg(
            Arg::new("measure")
                .value_name("MEASURE")
                .num_args(1..)
                .last(true)
                .required(true)
                .help("The measuring command and its arguments"),
        )
}

/// A side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// The sides of so many rounds, in the order in which they are measured, with their rounds from 1.
fn order(rounds: u16) -> impl Iterator<Item = (Side, u16)> {
    (1..=rounds).flat_map(|round| {
        let sides =
            if round % 2 == 1 { [Side::Before, Side::After] } else { [Side::After, Side::Before] };
        sides.map(|side| (side, round))
    })
}

/// The words of the measuring command for a round.
fn measuring(words: &[&String], folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let has_place = words.iter().any(|word| word.contains(PLACE));
    let mut words: Vec<String> = words.iter().map(|word| word.replace(PLACE, &folder)).collect();
    if !has_place {
        words.extend(["--out".to_owned(), folder]);
    }
    words
}

/// Why there will be no further round.
enum End {
    Signal(&'static str, u8),
    Failed(anyhow::Error),
}

/// Runs the subcommand. The exit code.
///
/// # Errors
/// When nothing could be measured, or the comparison cannot be written.
pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let interrupt = Interrupt::catch()?;
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let out = matches.get_one::<PathBuf>("out").context("--out is required")?;
    let rounds = matches.get_one("rounds").copied().unwrap_or(5_u16);
    let words: Vec<&String> = matches.get_many("measure").into_iter().flatten().collect();
    for side in [Side::Before, Side::After] {
        let folder = out.join(side.word());
        if folder.is_dir() && results(&folder).is_ok() {
            complain(&format_args!("--out {}: it has results already", out.display()));
            return Ok(EXIT_WRONG);
        }
    }
    std::fs::create_dir_all(out).with_context(|| format!("--out {}", out.display()))?;
    let typed = lab::load::Environment::read().command_line();
    std::fs::write(out.join("command.txt"), typed + "\n").context("--out")?;
    let mut end = None;
    let mut odd = Vec::new();
    for (side, round) in order(rounds) {
        let folder = out.join(side.word()).join(round.to_string());
        complain(&format_args!("round {round} of {rounds}: {}", side.word()));
        let set_up = if side == Side::Before { text("before") } else { text("after") };
        match one(&interrupt, (side, round), set_up, &measuring(&words, &folder), &folder) {
            Ok(status) if !status.success() => odd.push((folder, status)),
            Ok(_) => {}
            Err(why) => {
                put_aside(out, side, round, &folder);
                end = Some(why);
                break;
            }
        }
    }
    finish(text("finally"));
    for (folder, status) in &odd {
        complain(&format_args!("{}: the measuring command ended with {status}", folder.display()));
    }
    let code = compare(out).map(|()| if odd.is_empty() { 0 } else { EXIT_FAILED });
    match end {
        None => code,
        Some(End::Signal(name, code)) => {
            complain(&format_args!("ended by {name}; what is whole is kept in {}", out.display()));
            Ok(code)
        }
        Some(End::Failed(error)) => Err(error),
    }
}

/// One measurement of one side.
fn one(
    interrupt: &Interrupt,
    (side, round): (Side, u16),
    set_up: &str,
    words: &[String],
    folder: &Path,
) -> Result<ExitStatus, End> {
    let failed = |error: anyhow::Error| End::Failed(error);
    let tell = |command: &mut Command| {
        command.env("THRONG_SIDE", side.word()).env("THRONG_ROUND", round.to_string());
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", set_up]);
    tell(&mut shell);
    shell.stdout(Stdio::from(std::io::stderr()));
    let status = wait(interrupt, shell, "sh")?;
    if !status.success() {
        return Err(End::Failed(anyhow::anyhow!("--{} `{set_up}`: {status}", side.word())));
    }
    std::fs::create_dir_all(folder)
        .with_context(|| folder.display().to_string())
        .map_err(failed)?;
    let printed = folder.join("output.txt");
    let printed = File::create(&printed).with_context(|| printed.display().to_string());
    let (program, arguments) =
        words.split_first().map_or(("", &[][..]), |(it, rest)| (&**it, rest));
    let own = std::env::current_exe().ok().filter(|_| program == "throng");
    let mut command = match own {
        Some(own) => Command::new(own),
        None => Command::new(program),
    };
    command.args(arguments).stdout(printed.map_err(failed)?);
    tell(&mut command);
    let status = wait(interrupt, command, program)?;
    if !folder.join(RESULT).is_file() && results(folder).is_err() {
        let words = words.join(" ");
        return Err(End::Failed(anyhow::anyhow!(
            "`{words}` ended with {status} and wrote no {RESULT} to {}",
            folder.display()
        )));
    }
    Ok(status)
}

/// Waits for a command in a process group of its own, so that a ^C of the terminal reaches it once,
/// from here.
fn wait(interrupt: &Interrupt, mut command: Command, name: &str) -> Result<ExitStatus, End> {
    let failed =
        |error: std::io::Error| End::Failed(anyhow::Error::new(error).context(name.to_owned()));
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn().map_err(failed)?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return match interrupt.signal() {
                Some((name, code)) => Err(End::Signal(name, code)),
                None => Ok(status),
            };
        }
        if let Some((name, code)) = interrupt.signal() {
            stop(&mut child);
            return Err(End::Signal(name, code));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Ends a command and what it has started, first as ^C would.
fn stop(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(group) = group else { return };
    // It may have ended by itself.
    let _ = kill_process_group(group, Signal::INT);
    let since = Instant::now();
    // Only looked at, not waited for: the number of who is waited for may be another's next.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let lives = || matches!(waitid(WaitId::Pid(group), look), Ok(None));
    while since.elapsed() < END_MAX && lives() {
        std::thread::sleep(LOOK_EVERY);
    }
    // A shell's background commands ignore the signal of ^C.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// A round that is not whole does not stand among those that are compared.
fn put_aside(out: &Path, side: Side, round: u16, folder: &Path) {
    if folder.exists() {
        let name = |again: u32| match again {
            0 => format!("unfinished-{}-{round}", side.word()),
            again => format!("unfinished-{}-{round}-{again}", side.word()),
        };
        // What an earlier run left there stays.
        let mut names = (0..).map(|again| out.join(name(again)));
        let Some(aside) = names.find(|it| !it.exists()) else { return };
        if let Err(error) = std::fs::rename(folder, &aside) {
            complain(&format_args!("{}: {error}", folder.display()));
        }
    }
}

fn finish(command: &str) {
    if command.is_empty() {
        return;
    }
    let mut shell = Command::new("sh");
    // As what set-ups print: on the standard output stands the comparison alone.
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr()));
    let status = shell.status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => complain(&format_args!("--finally `{command}`: {status}")),
        Err(error) => complain(&format_args!("--finally `{command}`: {error}")),
    }
}

/// Compares what is whole.
fn compare(out: &Path) -> anyhow::Result<()> {
    let sides = [Side::Before, Side::After].map(|side| {
        let folder = out.join(side.word());
        results(&folder).is_ok().then(|| format!("{}={}", side.word(), folder.display()))
    });
    let [Some(before), Some(after)] = sides else {
        bail!("{}: no side has a whole round beside one of the other", out.display());
    };
    let page = out.join("compare.html");
    let runs = read_runs(&[&before, &after], Some(&page))?;
    show(&runs, Some(&page), false)?;
    complain(&format_args!("page: {}", page.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{measuring, order};

    #[test]
    fn rounds_alternate_so_that_a_drift_meets_both_sides() {
        let order: Vec<_> =
            order(3).map(|(side, round)| format!("{}{round}", side.word())).collect();
        assert_eq!(order, ["before1", "after1", "after2", "before2", "before3", "after3"]);
    }

    #[test]
    fn the_measuring_command_is_told_its_folder() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (typed, wanted) in
            [("throng ping a:1", "throng ping a:1 --out d/1"), ("sh -c {out}/x=1", "sh -c d/1/x=1")]
        {
            let typed = words(typed);
            let typed: Vec<&String> = typed.iter().collect();
            assert_eq!(measuring(&typed, Path::new("d/1")), words(wanted));
        }
    }
}
