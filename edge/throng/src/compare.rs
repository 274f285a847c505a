//! `throng compare`: what did a change really change? Results of `throng load`, `throng ping`
//! and `throng flow` side by side, what is before first.
//!
//! In: folders or files that runs have written. Out: text, or Markdown, on the standard output, and a
//! page in a file if one was asked for. Nothing is computed here: that is `lab`'s. `throng compare run`
//! does the runs itself (`rounds`).

mod rounds;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lab::load::compare::{self, Run};
use lab::load::{RESULT_VERSION, Summary};

/// The file of a folder that has the result.
const RESULT: &str = "result.json";
/// Folders below one that was named in which results are looked for.
const DEPTH_MAX: usize = 4;
/// Results that one folder stands for, at most: beyond, it was not meant so.
const RESULTS_MAX: usize = 1_000;
/// Files and folders that are looked at for them, at most.
const ENTRIES_MAX: usize = 100_000;
/// Columns where the output is no terminal.
const COLUMNS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  throng compare results/before results/after
  throng compare before=a/1 before=a/2 after=b/1 after=b/2 --out page.html
  throng compare nakama=results/nakama throng=results/today --markdown
  throng compare run --before 'ip link set v0 mtu 1500' --after 'ip link set v0 mtu 9000' \\
      --rounds 5 --out results/mtu -- throng ping 10.9.0.2:9500 -n 5s

A folder stands for all results in and below it; several results of one name are its rounds. From
two rounds on each side the change of every figure has a 99 % confidence interval (Welch and
Student, over the rounds' logarithms); what lies within it, or below 1 %, is \"no change beyond
noise\". Of one run each the interval comes from ten stretches of each run, and says nothing of
what varies between runs.";

/// The subcommand's flags.
pub fn command() -> Command {
    Command::new("compare")
        .about("Lay results side by side: what changed, and is it more than noise?")
        .after_help(EXAMPLES)
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .subcommand(rounds::command())
        .args(place_args())
        .arg(page_arg("out"))
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .action(ArgAction::SetTrue)
                .help("Print Markdown, in the rows of Nakama's benchmark page"),
        )
}

/// `throng load table`, the older name of `throng compare --markdown`: its first column was the one
/// that it told about, so that the sides are turned round.
pub fn table_command() -> Command {
    Command::new("table")
        .about("The older name of `throng compare`, with the sides the other way round")
        .hide(true)
        .args(place_args())
        .arg(page_arg("html"))
}

fn place_args() -> [Arg; 1] {
    [Arg::new("runs").value_name("[NAME=]DIR").num_args(1..).required(true).help(
        "Folders that --out wrote, or result files: before, then after (and more); several of one \
         NAME are rounds",
    )]
}

fn page_arg(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Write the comparison as one HTML file with charts")
}

/// Runs the subcommand. The exit code.
///
/// # Errors
/// When a result cannot be read, the page cannot be written, or a round could not be run.
pub fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    if let Some(("run", matches)) = matches.subcommand() {
        return rounds::run(matches);
    }
    let page = matches.get_one::<PathBuf>("out");
    let given: Vec<&String> = matches.get_many("runs").into_iter().flatten().collect();
    let runs = read_runs(&given, page)?;
    let is_markdown = matches.get_flag("markdown");
    show(&runs, page, is_markdown).map(|()| 0)
}

/// `throng load table [NAME=]DIR…`.
///
/// # Errors
/// As [`run`].
pub fn table(matches: &ArgMatches) -> anyhow::Result<()> {
    let page = matches.get_one::<PathBuf>("html");
    let given: Vec<&String> = matches.get_many("runs").into_iter().flatten().collect();
    let runs = read_runs(&given, page)?;
    show(&turned(runs), page, true)
}

/// The sides in the reverse order, each with its rounds as they were.
fn turned(runs: Vec<Run>) -> Vec<Run> {
    let mut names: Vec<String> = Vec::new();
    for run in &runs {
        if !names.contains(&run.name) {
            names.push(run.name.clone());
        }
    }
    let of =
        |name: &String| runs.iter().filter(|run| run.name == *name).cloned().collect::<Vec<_>>();
    names.iter().rev().flat_map(of).collect()
}

/// The results of `[NAME=]DIR`, in order.
fn read_runs(given: &[&String], page: Option<&PathBuf>) -> anyhow::Result<Vec<Run>> {
    let page_folder = page.map(|page| folder_of(page)).transpose()?;
    let mut places = Vec::new();
    for given in given {
        // A name has no slash: `./a=b` is a folder.
        let (name, place) = match given.split_once('=') {
            Some((name, place)) if !name.contains('/') => (name.to_owned(), Path::new(place)),
            _ => (String::new(), Path::new(&**given)),
        };
        places.push((if name.is_empty() { own_name(place) } else { name }, place));
    }
    // `a/ping` and `b/ping` are two things.
    let is_same =
        places.iter().all(|it| it.0 == places[0].0) && given.iter().all(|it| !it.contains('='));
    if is_same && places.len() > 1 {
        for (name, place) in &mut places {
            *name = place.display().to_string();
        }
    }
    let mut runs = Vec::new();
    for (name, place) in places {
        for file in results(place)? {
            let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
            let summary = read(&text).with_context(|| file.display().to_string())?;
            let report = page_folder.as_ref().and_then(|folder| report_link(folder, &file));
            runs.push(Run { name: name.clone(), summary, report });
        }
    }
    Ok(runs)
}

/// Writes the page, if one was asked for, and prints the comparison.
fn show(runs: &[Run], page: Option<&PathBuf>, is_markdown: bool) -> anyhow::Result<()> {
    if let Some(page) = page {
        let text = lab::load::comparison(runs).into_bytes();
        crate::load::files::write(&[(page.clone(), text)])?;
    }
    let mut stdout = std::io::stdout().lock();
    let text = if is_markdown {
        compare::markdown(runs)
    } else {
        let is_terminal = stdout.is_terminal();
        let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| is_terminal);
        let columns = size.map_or(COLUMNS, |size| usize::from(size.ws_col));
        compare::text(runs, if columns == 0 { COLUMNS } else { columns.min(2 * COLUMNS) })
    };
    Ok(stdout.write_all(text.as_bytes())?)
}

/// What a place is called; `.` and `..` have names too, and a result that of its folder.
fn own_name(place: &Path) -> String {
    let folder = place.parent().filter(|it| !it.as_os_str().is_empty());
    let is_result = place.file_name().is_some_and(|name| name == RESULT) && !place.is_dir();
    let place = folder.filter(|_| is_result).unwrap_or(place);
    let whole = place.file_name().is_none().then(|| place.canonicalize().ok()).flatten();
    let name = whole.as_deref().unwrap_or(place).file_name();
    name.map_or_else(|| place.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The results that a file or folder stands for: a folder for all in it and below, as one command
/// with several scenarios or depths writes them.
///
/// # Errors
/// When there is none, or there are too many.
fn results(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    let mut looked_at = 0;
    // The level of each folder that is still to be looked through.
    let mut folders = vec![(place.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry.with_context(|| folder.display().to_string())?;
            looked_at += 1;
            ensure!(
                looked_at <= ENTRIES_MAX,
                "{}: more than {ENTRIES_MAX} files; name folders further down",
                place.display()
            );
            // Of a link, the kind of the link itself: results are not to be found twice.
            let kind = entry.file_type().with_context(|| entry.path().display().to_string())?;
            if kind.is_dir() && depth < DEPTH_MAX {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name() == RESULT {
                found.push(entry.path());
            }
        }
    }
    ensure!(
        found.len() <= RESULTS_MAX,
        "{}: more than {RESULTS_MAX} results; name folders further down",
        place.display()
    );
    ensure!(
        !found.is_empty(),
        "{}: no {RESULT} in it or up to {DEPTH_MAX} folders below: --out writes one",
        place.display()
    );
    found.sort();
    Ok(found)
}

/// Reads a result, unless it is of a version whose fields may mean something else.
fn read(text: &[u8]) -> anyhow::Result<Summary> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(text)?;
    ensure!(
        version == RESULT_VERSION,
        "a result of version {version}; this program understands {RESULT_VERSION}"
    );
    Ok(serde_json::from_slice(text)?)
}

/// The folder that a file lies or will lie in, absolute.
fn folder_of(file: &Path) -> anyhow::Result<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    folder.canonicalize().with_context(|| folder.display().to_string())
}

/// The link from a page in `folder` to the report beside a result, if there is one.
fn report_link(folder: &Path, result: &Path) -> Option<String> {
    let report = result.canonicalize().ok()?.with_file_name("report.html");
    // Only a result that has its usual name has a report beside it that is its own.
    let is_own = result.file_name().is_some_and(|name| name == RESULT);
    (is_own && report.is_file()).then(|| compare::relative(folder, &report)).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use lab::load::compare::Run;

    use super::{DEPTH_MAX, RESULTS_MAX, own_name, results, turned};

    /// A folder that goes when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: impl IntoIterator<Item = String>) -> Self {
            let path = format!("throng-compare-{}-{name}", std::process::id());
            let folder = Self(std::env::temp_dir().join(path));
            fs::create_dir_all(&folder.0).unwrap();
            for file in files {
                let path = folder.0.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            folder
        }

        fn found(&self, place: &str) -> Result<Vec<String>, String> {
            let found = results(&self.0.join(place)).map_err(|error| format!("{error:#}"))?;
            let name = |path: &PathBuf| path.strip_prefix(&self.0).unwrap().display().to_string();
            Ok(found.iter().map(name).collect())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_stands_for_all_results_in_it_and_below() {
        let deepest = format!("{}result.json", "d/".repeat(DEPTH_MAX));
        let too_deep = format!("e/{}result.json", "d/".repeat(DEPTH_MAX));
        let files = ["result.json", "match/result.json", "ccu/result.json", "ccu/other.json"];
        let files = files.map(str::to_owned).into_iter().chain([deepest.clone(), too_deep]);
        let folder = Folder::new("all", files);
        std::os::unix::fs::symlink(&folder.0, folder.0.join("again")).unwrap();
        let wanted = ["ccu/result.json", &deepest, "match/result.json", "result.json"];
        assert_eq!(folder.found("").unwrap(), wanted);
        // What was named is followed, and a file is itself, whatever it is called.
        assert_eq!(folder.found("again").unwrap().len(), 4);
        assert_eq!(folder.found("ccu/other.json").unwrap(), ["ccu/other.json"]);
        assert_eq!(own_name(&folder.0.join("ccu")), "ccu");
        assert_eq!(own_name(&folder.0.join("ccu/..")), own_name(&folder.0));
        assert_eq!(own_name(&folder.0.join("ccu/result.json")), "ccu");
    }

    #[test]
    fn no_results_and_too_many_are_errors_that_name_the_folder() {
        let folder = Folder::new("none", ["a/result.txt".to_owned()]);
        let error = folder.found("a").unwrap_err();
        assert!(error.contains("none/a: no result.json in it"), "{error}");
        let folder = Folder::new("many", (0..=RESULTS_MAX).map(|at| format!("{at}/result.json")));
        let error = folder.found("").unwrap_err();
        assert!(error.contains("many/: more than 1000 results"), "{error}");
        fs::remove_file(folder.0.join("0/result.json")).unwrap();
        assert_eq!(folder.found("").unwrap().len(), RESULTS_MAX);
    }

    #[test]
    fn the_older_name_turns_the_sides_and_not_their_rounds() {
        let run = |name: &str, report: &str| Run {
            name: name.to_owned(),
            report: Some(report.to_owned()),
            ..Run::default()
        };
        let runs = vec![run("a", "1"), run("b", "2"), run("a", "3"), run("c", "4")];
        let turned: Vec<_> = turned(runs).into_iter().filter_map(|it| it.report).collect();
        assert_eq!(turned, ["4", "2", "1", "3"]);
    }
}
