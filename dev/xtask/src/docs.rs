//! Pages that are made from code: docs/configuration.md from the table of options.
//!
//! The page's text comes from the binary itself (`throng options --markdown`).

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::repository::{cargo, root, target_folder};

fn page() -> PathBuf {
    root().join("docs/configuration.md")
}

/// Builds the binary as the tests are built, and tells where it is.
///
/// # Errors
/// If it does not compile.
pub fn built_throng() -> anyhow::Result<PathBuf> {
    // With --workspace the dependencies have the same features as in `cargo test --workspace`, so
    // nothing is compiled twice.
    let status = cargo()
        .args(["build", "--quiet", "--workspace", "--bin", "throng"])
        .stdin(Stdio::null())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("throng does not compile");
    }
    Ok(target_folder()?.join("debug").join("throng"))
}

fn generated() -> anyhow::Result<Vec<u8>> {
    let throng = built_throng()?;
    let output = Command::new(&throng)
        .args(["options", "--markdown"])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", throng.display()))?;
    if !output.status.success() {
        bail!("`throng options --markdown` failed");
    }
    Ok(output.stdout)
}

/// Writes the pages.
///
/// # Errors
/// If the binary does not compile, or the page cannot be written.
pub fn write() -> anyhow::Result<()> {
    std::fs::write(page(), generated()?).with_context(|| page().display().to_string())
}

/// Tells whether the pages are current, and what to do if not.
///
/// # Errors
/// If the binary does not compile.
pub fn check() -> anyhow::Result<bool> {
    let current = std::fs::read(page()).unwrap_or_default() == generated()?;
    if !current {
        println!("     docs/configuration.md is out of date: run `cargo xtask docs`");
    }
    Ok(current)
}
