//! The working tree as the checks see it: its text files, and what cargo knows of its crates.
//!
//! What is deliberately not here: the checks. Everything is read once and passed on as plain data,
//! so that a check can be tried on a tree that exists only in a test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// Folders that hold nothing of ours, at any depth.
const FOREIGN: &[&str] = &["target", "node_modules", ".git", "data", "results"];

/// Endings of files that are read. Lock files are made by tools and not read.
const ENDINGS: &[&str] =
    &["rs", "toml", "md", "js", "mjs", "ts", "lua", "json", "yaml", "yml", "sh"];

/// Files in the tree; more means that a folder is missing in [`FOREIGN`].
const FILES_MAX: usize = 20_000;

/// The tree.
pub struct Tree {
    /// Text files by path, relative to the root, with `/`, sorted.
    pub files: Vec<File>,
    /// The crates of the workspace.
    pub crates: Vec<Crate>,
    /// What lies in results/, which is not read.
    pub results: Vec<Kept>,
}

/// A file of which only the size counts.
pub struct Kept {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// One text file.
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// One crate of the workspace.
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its folder, relative to the root: `pure/wire`.
    pub folder: String,
    /// Its arrows to other crates of the workspace.
    pub arrows: Vec<Arrow>,
}

/// One crate uses another.
pub struct Arrow {
    /// The name of the other.
    pub to: String,
    /// Only in tests, examples and benches.
    pub dev: bool,
}

impl Tree {
    /// Reads the tree that this program was built from.
    ///
    /// # Errors
    /// If a file cannot be read, or cargo does not understand the manifests.
    pub fn read() -> anyhow::Result<Self> {
        let root = root();
        let mut files = Vec::new();
        walk(&root, &root, &mut files)?;
        files.sort_by(|a: &File, b: &File| a.path.cmp(&b.path));
        let mut results = Vec::new();
        sizes(&root, &root.join("results"), &mut results)?;
        Ok(Self { files, crates: crates(&root)?, results })
    }

    /// The text of a file, if it exists.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// The folder of the workspace: the one that cargo runs this program for. Two working trees may
/// share a target folder and so this program, hence the one it was built in is only a guess.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// A cargo command in the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root());
    command
}

/// The search path with the folder of a program first.
///
/// # Errors
/// If a folder of it cannot stand in a search path.
pub fn path_with(program: &Path) -> anyhow::Result<OsString> {
    let first = program.parent().map(Path::to_owned);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = first.into_iter().chain(std::env::split_paths(&others));
    std::env::join_paths(all).context("PATH")
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if !FOREIGN.contains(&name.as_str()) {
                walk(root, &path, files)?;
            }
            continue;
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let relative = relative(root, &path);
        let ours = ENDINGS.contains(&ending) || relative == ".ci/run";
        if !kind.is_file() || !ours || name == "package-lock.json" {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| relative.clone())?;
        files.push(File { path: relative, text });
        if files.len() > FILES_MAX {
            bail!("more than {FILES_MAX} files: which folder is missing in FOREIGN?");
        }
    }
    Ok(())
}

fn sizes(root: &Path, folder: &Path, kept: &mut Vec<Kept>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sizes(root, &entry.path(), kept)?;
        } else {
            let path = relative(root, &entry.path());
            kept.push(Kept { path, bytes: entry.metadata()?.len() });
        }
    }
    Ok(())
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

fn metadata() -> anyhow::Result<Metadata> {
    let asked = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = cargo().args(asked).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// Where cargo puts what it builds.
///
/// # Errors
/// If cargo does not understand the manifests.
pub fn target_folder() -> anyhow::Result<PathBuf> {
    Ok(metadata()?.target_directory)
}

fn crates(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let to_crate = |package: Package| {
        let folder = package.manifest_path.parent().unwrap_or(root);
        let arrow = |dependency: Dependency| {
            dependency.path.map(|_| Arrow {
                to: dependency.name,
                dev: dependency.kind.as_deref() == Some("dev"),
            })
        };
        Crate {
            name: package.name,
            folder: folder
                .strip_prefix(root)
                .unwrap_or(folder)
                .to_string_lossy()
                .replace('\\', "/"),
            arrows: package.dependencies.into_iter().filter_map(arrow).collect(),
        }
    };
    Ok(metadata()?.packages.into_iter().map(to_crate).collect())
}
