//! Pages that are made from code: docs/configuration.md from the table of options,
//! docs/lua/functions.md and docs/javascript/functions.md from the host table, docs/api.md from the table of calls and their messages,
//! docs/result.schema.json from the types of a load run's result, and the parts of the SDKs in guests/ that follow from
//! the tables (`sdk`).
//!
//! Their text, or what it is made of, comes from the binary itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::repository::{cargo, root, target_folder};
use crate::sdk;

/// Makes a file of what the binary prints.
type Make = fn(&[u8]) -> anyhow::Result<String>;

/// A file, the command that prints it or what it is made of, and how it is made of that.
const PAGES: [(&str, &[&str], Option<Make>); 13] = [
    ("docs/configuration.md", &["options", "--markdown"], None),
    ("docs/lua/functions.md", &["functions", "--markdown"], None),
    ("docs/javascript/functions.md", &["functions", "--javascript", "--markdown"], None),
    ("docs/api.md", &["calls", "--markdown"], None),
    ("docs/result.schema.json", &["load", "schema"], None),
    ("guests/go/api/api.go", CALLS, Some(|json| sdk::go::package(json, "api"))),
    ("guests/go/rtapi/rtapi.go", CALLS, Some(|json| sdk::go::package(json, "rtapi"))),
    ("guests/go/runtime/hooks.go", CALLS, Some(sdk::go::hooks)),
    ("guests/go/runtime/hooks_wasip1.go", CALLS, Some(sdk::go::hooks_registered)),
    ("guests/rust/src/api.rs", CALLS, Some(|json| sdk::rust::package(json, "api"))),
    ("guests/rust/src/rtapi.rs", CALLS, Some(|json| sdk::rust::package(json, "rtapi"))),
    ("guests/rust/src/calls.rs", CALLS, Some(sdk::rust::calls)),
    ("guests/rust/src/nk/functions.rs", &["functions", "--json"], Some(sdk::rust::functions)),
];

const CALLS: &[&str] = &["calls", "--json"];

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

fn generated(throng: &Path, arguments: &[&str], make: Option<Make>) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(throng)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", throng.display()))?;
    if !output.status.success() {
        bail!("`throng {}` failed", arguments.join(" "));
    }
    match make {
        None => Ok(output.stdout),
        Some(make) => Ok(make(&output.stdout)?.into_bytes()),
    }
}

/// Writes the pages.
///
/// # Errors
/// If the binary does not compile, or a page cannot be written.
pub fn write() -> anyhow::Result<()> {
    let throng = built_throng()?;
    for (page, arguments, make) in PAGES {
        std::fs::write(root().join(page), generated(&throng, arguments, make)?).context(page)?;
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
    for (page, arguments, make) in PAGES {
        let kept = std::fs::read(root().join(page)).unwrap_or_default();
        if kept != generated(&throng, arguments, make)? {
            println!("     {page} is out of date: run `cargo xtask docs`");
            all_current = false;
        }
    }
    Ok(all_current)
}
