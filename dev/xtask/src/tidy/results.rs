//! What results/ may hold: a page and the records of each claim that stands, and not more.

use std::path::Path;

use super::Finding;
use crate::repository::{Kept, Tree};

/// Bytes of results/ in all. What is superseded goes; git keeps it.
const BYTES_MAX: u64 = 1_500_000;

/// results/ is small, and no folder of it lacks the page that says what was done.
pub(super) fn results(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let bytes: u64 = tree.results.iter().map(|file| file.bytes).sum();
    if bytes > BYTES_MAX {
        let what = format!(
            "{bytes} bytes, {BYTES_MAX} are allowed: remove what no page of today claims, and keep \
             records compressed"
        );
        found.push(Finding { place: "results".to_owned(), what });
    }
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let mut folders: Vec<String> = tree.results.iter().map(|file| folder(&file.path)).collect();
    folders.sort();
    folders.dedup();
    for place in folders {
        let is_page = |file: &Kept| {
            Path::new(&file.path).extension().is_some_and(|it| it == "md")
                && folder(&file.path) == place
        };
        if !tree.results.iter().any(is_page) {
            let what = "no page says what was measured, how, and what came out".to_owned();
            found.push(Finding { place, what });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, results};
    use crate::repository::{Kept, Tree};

    #[test]
    fn results_are_small_and_told_about() {
        for (files, wrong) in [
            (&[][..], 0),
            (&[("results/a/README.md", 10), ("results/a/runs.jsonl.gz", BYTES_MAX - 10)], 0),
            (&[("results/a/README.md", 10), ("results/a/runs.jsonl.gz", BYTES_MAX)], 1),
            (&[("results/README.md", 10), ("results/a/runs.jsonl.gz", 10)], 1),
            (&[("results/a/b/c.json", BYTES_MAX + 1)], 2),
        ] {
            let kept = |(path, bytes): &(&str, u64)| Kept { path: path.to_string(), bytes: *bytes };
            let results_of = files.iter().map(kept).collect();
            let tree = Tree { files: Vec::new(), crates: Vec::new(), results: results_of };
            assert_eq!(results(&tree).len(), wrong, "{files:?}");
        }
    }
}
