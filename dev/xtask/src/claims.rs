//! `cargo xtask claims`: runs every command of SPEC.md in order and tells which promises hold here.
//!
//! What is deliberately not here: what a promise says and when it is broken; both stand in the row,
//! and a command that fails breaks it. Each `throng` gets an empty folder to itself, in which
//! `scenarios` leads to the repository's; the other commands run at the root. What a command prints
//! goes into a file, and its last lines to the terminal if it fails.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::repository::{path_with, root};
use crate::spec::{self, SPEC, quoted, words};
use crate::{docs, peers};

/// Lines of a command's output that are shown when it fails.
const TAIL_LINES: usize = 12;

/// What to run.
pub struct Request {
    /// Only rows that hold one of these texts in what is promised or in a command.
    pub only: Vec<String>,
    /// Measuring commands for one second, and without their figures: whether they still run.
    pub quick: bool,
    /// Only tell what would be run.
    pub list: bool,
    /// The program; else a release build is made.
    pub throng: Option<PathBuf>,
}

/// What became of a promise.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    Broken(String),
    NotRun(String),
}

/// Runs the commands. Tells whether nothing was broken.
///
/// # Errors
/// If the binary does not compile, or no row was meant.
pub fn run(ask: &Request) -> anyhow::Result<bool> {
    let page = std::fs::read_to_string(root().join(SPEC)).context(SPEC)?;
    let rows: Vec<_> = spec::rows(&page).into_iter().filter(|row| is_meant(row, ask)).collect();
    if rows.is_empty() {
        bail!("no row of {SPEC} holds {}", ask.only.join(" or "));
    }
    if ask.list {
        for command in rows.iter().flat_map(|row| &row.commands) {
            println!("{command}");
        }
        return Ok(true);
    }
    let throng = docs::throng_of(ask.throng.as_deref())?;
    let scratch = std::env::temp_dir().join(format!("throng-claims-{}", std::process::id()));
    println!("output of the commands: {}\n", scratch.display());
    let [mut held, mut broken, mut not_run] = [0_u32; 3];
    for row in &rows {
        let start = Instant::now();
        let verdict = row_holds(row, ask.quick, &throng, &scratch)?;
        tell(&row.promise, &verdict, start.elapsed());
        *match verdict {
            Verdict::Holds => &mut held,
            Verdict::Broken(_) => &mut broken,
            Verdict::NotRun(_) => &mut not_run,
        } += 1;
    }
    let kind = if ask.quick { "run" } else { "hold" };
    println!("\n{held} {kind}, {broken} do not, {not_run} were not run");
    Ok(broken == 0)
}

fn is_meant(row: &spec::Row, ask: &Request) -> bool {
    let holds = |text: &str| {
        row.promise.contains(text) || row.commands.iter().any(|command| command.contains(text))
    };
    ask.only.is_empty() || ask.only.iter().any(|text| holds(text))
}

fn tell(promise: &str, verdict: &Verdict, took: Duration) {
    let (word, more) = match verdict {
        Verdict::Holds => ("holds  ", ""),
        Verdict::Broken(tail) => ("BROKEN ", tail.as_str()),
        Verdict::NotRun(why) => ("not run", why.as_str()),
    };
    println!("{word} {:>7.1} s  {promise}", took.as_secs_f64());
    for line in more.lines() {
        println!("                     {line}");
    }
}

/// All commands of a row must succeed.
fn row_holds(
    row: &spec::Row,
    quick: bool,
    throng: &Path,
    scratch: &Path,
) -> anyhow::Result<Verdict> {
    for (number, command) in (1..).zip(&row.commands) {
        let folder = scratch.join(format!("line-{}-{number}", row.line));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let verdict = one_holds(command, quick, throng, &folder)?;
        if verdict != Verdict::Holds {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Holds)
}

fn one_holds(command: &str, quick: bool, throng: &Path, folder: &Path) -> anyhow::Result<Verdict> {
    let mut list = words(command);
    if list.starts_with(&["cargo".to_owned(), "xtask".to_owned(), "peers".to_owned()]) {
        let needs_others = !list.iter().any(|word| word == "--against");
        if let Some(why) = peers::missing().filter(|_| needs_others) {
            return Ok(Verdict::NotRun(why));
        }
        list.extend(["--throng".to_owned(), throng.to_string_lossy().into_owned()]);
        if quick {
            list.extend(["--rounds", "1", "--duration", "1"].map(str::to_owned));
            without(&mut list, "--expect");
        }
    }
    if quick && list.starts_with(&["throng".to_owned(), "load".to_owned()]) {
        list = sanity(list);
    }
    if list.first().is_some_and(|word| word == "node") {
        crate::ci::install_packages()?;
    }
    let is_ours = list.first().is_some_and(|word| word == "throng");
    if is_ours {
        std::os::unix::fs::symlink(root().join("scenarios"), folder.join("scenarios"))?;
    }
    let output = folder.join("output");
    let file = File::create(&output).with_context(|| output.display().to_string())?;
    let line: Vec<String> = list.iter().map(|word| quoted(word)).collect();
    let status = Command::new("sh")
        .args(["-c", &line.join(" ")])
        .current_dir(if is_ours { folder.to_owned() } else { root() })
        .env("PATH", path_with(throng)?)
        .env("THRONG_BIN", throng)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .context("cannot run sh")?;
    if status.success() {
        return Ok(Verdict::Holds);
    }
    Ok(Verdict::Broken(format!("{}\n{status}", tail(&output))))
}

/// The same load for a second, judged by nothing but errors.
fn sanity(mut list: Vec<String>) -> Vec<String> {
    for flag in ["--duration", "--warmup", "--expect"] {
        without(&mut list, flag);
    }
    let instead = ["--duration", "1s", "--warmup", "0s", "--expect", "errors == 0"];
    list.extend(instead.map(str::to_owned));
    list
}

/// Takes a flag and its value out, however often it is there.
fn without(list: &mut Vec<String>, flag: &str) {
    while let Some(at) = list.iter().position(|word| word == flag) {
        list.drain(at..(at + 2).min(list.len()));
    }
}

fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Verdict, row_holds, sanity, words};
    use crate::spec::{Row, rows};

    fn scratch(name: &str) -> PathBuf {
        let folder = format!("throng-claims-test-{}-{name}", std::process::id());
        std::env::temp_dir().join(folder)
    }

    /// What becomes of a promise that a shell's commands show.
    fn verdict(name: &str, commands: &[&str]) -> Verdict {
        let commands = commands.iter().map(|it| it.to_string()).collect();
        let row = Row { line: 7, promise: String::new(), commands };
        let scratch = scratch(name);
        let verdict = row_holds(&row, false, Path::new("/bin/true"), &scratch).unwrap();
        std::fs::remove_dir_all(scratch).unwrap();
        verdict
    }

    #[test]
    fn a_promise_holds_if_all_its_commands_succeed() {
        assert_eq!(verdict("true", &["true", "test 1 = 1"]), Verdict::Holds);
        let Verdict::Broken(tail) = verdict("false", &["true", "ls no-such-file"]) else {
            panic!("held");
        };
        assert!(tail.contains("no-such-file") && tail.contains("exit status"), "{tail}");
    }

    #[test]
    fn a_quick_look_expects_no_figures() {
        let list = words("throng load a --duration 20s --server 'throng b' --expect 'x > 1'");
        let wanted = "throng load a --server 'throng b' --duration 1s --warmup 0s \
                      --expect 'errors == 0'";
        assert_eq!(sanity(list), words(wanted));
    }

    #[test]
    fn the_page_of_this_repository_is_understood() {
        let page = std::fs::read_to_string(crate::repository::root().join("SPEC.md")).unwrap();
        let rows = rows(&page);
        assert!(rows.len() > 20 && rows.iter().all(|row| !row.commands.is_empty()));
    }
}
