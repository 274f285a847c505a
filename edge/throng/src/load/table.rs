//! `throng load table`: runs side by side, as Markdown and as one HTML page.
//!
//! In: folders or files that runs have written. Out: the table on the standard output, and the page
//! in a file if one was asked for. Nothing is computed here: that is `lab`'s.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ArgMatches;
use lab::load::compare::{self, Run};
use lab::load::{RESULT_VERSION, Summary};

/// `throng load table [NAME=]DIR…`.
///
/// # Errors
/// When a result cannot be read or the page cannot be written.
pub(super) fn compare(matches: &ArgMatches) -> anyhow::Result<()> {
    let page = matches.get_one::<PathBuf>("html");
    let page_folder = page.map(|page| folder_of(page)).transpose()?;
    let mut runs = Vec::new();
    for given in matches.get_many::<String>("runs").into_iter().flatten() {
        let (name, place) = match given.split_once('=') {
            Some((name, place)) => (name.to_owned(), Path::new(place)),
            None => (String::new(), Path::new(given)),
        };
        let file = if place.is_dir() { place.join("result.json") } else { place.to_owned() };
        let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
        let summary = read(&text).with_context(|| file.display().to_string())?;
        let fallback = place.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = if name.is_empty() { fallback.unwrap_or_default() } else { name };
        let report = page_folder.as_ref().and_then(|folder| report_link(folder, &file));
        runs.push(Run { name, summary, report });
    }
    if let Some(page) = page {
        let text = lab::load::comparison(&runs).into_bytes();
        super::files::write(&[(page.clone(), text)])?;
    }
    write(&runs)
}

/// Reads a result, unless it is of a version whose fields may mean something else.
fn read(text: &[u8]) -> anyhow::Result<Summary> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = serde_json::from_slice(text)?;
    anyhow::ensure!(
        version == RESULT_VERSION,
        "a result of version {version}; this program understands {RESULT_VERSION}"
    );
    Ok(serde_json::from_slice(text)?)
}

/// Prints the table of runs that have just ended.
///
/// # Errors
/// When nobody reads it.
pub(super) fn print(runs: impl Iterator<Item = (String, Summary)>) -> anyhow::Result<()> {
    let run = |(name, summary)| Run { name, summary, report: None };
    write(&runs.map(run).collect::<Vec<_>>())
}

fn write(runs: &[Run]) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(compare::markdown(runs).as_bytes())?)
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
    let is_own = result.file_name().is_some_and(|name| name == "result.json");
    (is_own && report.is_file()).then(|| compare::relative(folder, &report)).flatten()
}
