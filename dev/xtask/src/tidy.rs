//! The laws that no compiler checks. Also runs as a test, so that `cargo test` is enough to know.
//!
//! What is deliberately not here: what rustc, clippy and rustfmt check. Each rule takes the tree
//! and gives findings; a finding names the file, the law and the cure.

mod arrows;
mod limits;
mod manifests;
mod promises;
mod results;
mod sources;

use std::fmt;

use crate::docs;
use crate::repository::Tree;

/// One broken law.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, or the crate's folder.
    pub place: String,
    /// What is wrong and what to do.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[(&str, Rule)] = &[
    ("arrows point from edge to pure", arrows::arrows),
    ("crates stand in pure, edge or dev", arrows::folders),
    ("crates take their lints and dependencies from the workspace", manifests::members),
    ("every dependency has a reason", manifests::reasons),
    ("pure/clippy.toml holds all of clippy.toml", manifests::clippy),
    (
        "unsafe only in the engine, and at the borders to SQLite, QuickJS and Luau",
        sources::unsafe_code,
    ),
    ("every file says what it does", sources::headers),
    ("files stay short", sources::sizes),
    ("no banned words", sources::words),
    ("ARCHITECTURE.md lists every crate", promises::code_map),
    ("SPEC.md names commands that exist and can fail", promises::commands),
    ("results/ is small, and every folder has its page", results::results),
    ("docs/limits.md tells of every bound", limits::bounds),
    ("docs/limits.md names a counter or a reason in every row", limits::reasons),
    ("every counter is counted", limits::counted),
];

/// Checks the tree and the generated pages; prints findings. Tells whether all is well.
///
/// # Errors
/// If the tree cannot be read.
pub fn run() -> anyhow::Result<bool> {
    let tree = Tree::read()?;
    let mut well = true;
    for (law, rule) in RULES {
        let findings = rule(&tree);
        println!("{} {law}", if findings.is_empty() { "ok  " } else { "FAIL" });
        for finding in &findings {
            println!("     {finding}");
        }
        well &= findings.is_empty();
    }
    let current = docs::check()?;
    println!("{} generated pages are current", if current { "ok  " } else { "FAIL" });
    Ok(well && current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::File;

    /// The findings of one rule on a made-up tree, a line each.
    pub(super) fn check(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
        let files = files
            .iter()
            .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        let found = rule(&Tree { files, crates: Vec::new(), results: Vec::new() });
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn this_repository_keeps_its_laws() {
        let tree = Tree::read().unwrap();
        assert!(tree.crates.len() > 3 && tree.files.len() > 10, "the tree was not read");
        for (law, rule) in RULES {
            let findings: Vec<_> = rule(&tree).iter().map(ToString::to_string).collect();
            assert!(findings.is_empty(), "{law}:\n{}", findings.join("\n"));
        }
    }
}
