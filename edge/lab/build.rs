//! Tells the program the commit that it is built from, as `THRONG_COMMIT`: what the environment
//! says, else what git says of this repository, with `-dirty` if a file that git follows differs;
//! else nothing. Asked again only when HEAD moves, so files that change between two commits are
//! noticed at the next move only: `-dirty` is a hint, the commit is not.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=THRONG_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let said = std::env::var("THRONG_COMMIT").ok().filter(|said| !said.trim().is_empty());
    let commit = said.or_else(of_repository).unwrap_or_default();
    println!("cargo::rustc-env=THRONG_COMMIT={}", commit.trim());
}

/// None outside a repository, or inside one that only holds a copy of this source.
fn of_repository() -> Option<String> {
    // Asked for when it runs: where copies of this source share a target folder, another may have built it.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&manifest).ancestors().nth(2)?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let branch = git(&["rev-parse", "--symbolic-full-name", "HEAD"]);
    for name in [Some("HEAD".to_owned()), branch, Some("packed-refs".to_owned())] {
        let Some(path) = name.and_then(|name| git(&["rev-parse", "--git-path", &name])) else {
            continue;
        };
        // A file that is not there would have this run at every build.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

/// Git's answer; none if there is no git, or it has none.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
