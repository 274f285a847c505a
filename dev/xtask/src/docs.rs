//! Pages that are made from code: docs/configuration.md from the table of options,
//! docs/lua/functions.md and docs/javascript/functions.md from the host table, docs/api.md from the table of calls and their messages,
//! and docs/result.schema.json from the types of a load run's result.
//!
//! Their text comes from the binary itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::repository::{cargo, root, target_folder};

/// A page and the command that prints it.
const PAGES: [(&str, &[&str]); 5] = [
    ("docs/configuration.md", &["options", "--markdown"]),
    ("docs/lua/functions.md", &["functions", "--markdown"]),
    ("docs/javascript/functions.md", &["functions", "--javascript", "--markdown"]),
    ("docs/api.md", &["calls", "--markdown"]),
    ("docs/result.schema.json", &["load", "schema"]),
];

/// Builds the binary as the tests are built, and tells where it is.
///
/// # Errors
/// If it does not compile.
pub fn built_throng() -> anyhow::Result<PathBuf> {
    // With --workspace the dependencies have the same features as in `cargo test --workspace`, so
    // nothing is compiled twice.
    build("debug", &["--workspace"])
}

/// Builds the binary as people run it, and tells where it is.
///
/// # Errors
/// If it does not compile.
pub fn released_throng() -> anyhow::Result<PathBuf> {
    build("release", &["--release"])
}

/// The program that was named, or a release build.
///
/// # Errors
/// If it is not called throng, does not exist, or does not compile.
pub fn throng_of(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(named) = named else { return released_throng() };
    // Commands call it by its name, through the search path.
    if named.file_name().is_none_or(|name| name != "throng") {
        bail!("{}: its file must be called `throng`", named.display());
    }
    named.canonicalize().with_context(|| named.display().to_string())
}

fn build(folder: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--bin", "throng"]).args(arguments);
    if !command.stdin(Stdio::null()).status().context("cannot run cargo")?.success() {
        bail!("throng does not compile");
    }
    Ok(target_folder()?.join(folder).join("throng"))
}

fn generated(throng: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(throng)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", throng.display()))?;
    if !output.status.success() {
        bail!("`throng {}` failed", arguments.join(" "));
    }
    Ok(output.stdout)
}

/// Writes the pages.
///
/// # Errors
/// If the binary does not compile, or a page cannot be written.
pub fn write() -> anyhow::Result<()> {
    let throng = built_throng()?;
    for (page, arguments) in PAGES {
        std::fs::write(root().join(page), generated(&throng, arguments)?).context(page)?;
    }
    Ok(())
}

/// Tells whether the pages are current, and what to do if not.
///
/// # Errors
/// If the binary does not compile.
pub fn check() -> anyhow::Result<bool> {
    let throng = built_throng()?;
    let mut all_current = true;
    for (page, arguments) in PAGES {
        let kept = std::fs::read(root().join(page)).unwrap_or_default();
        if kept != generated(&throng, arguments)? {
            println!("     {page} is out of date: run `cargo xtask docs`");
            all_current = false;
        }
    }
    Ok(all_current)
}
