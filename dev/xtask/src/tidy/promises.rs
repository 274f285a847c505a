//! What the pages promise must be there: every crate in the code map, every command of SPEC.md, with
//! something in it that can fail.

use super::Finding;
use crate::repository::Tree;
use crate::spec::{self, SPEC};

const MAP: &str = "ARCHITECTURE.md";

/// Subcommands of the binary that SPEC.md may name.
const THRONG: &[&str] = &["serve", "check", "echo", "options", "load"];

/// Every crate's name stands in ARCHITECTURE.md in code marks, if that page exists.
pub(super) fn code_map(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(MAP) else { return Vec::new() };
    let listed = |name: &str, folder: &str| {
        page.contains(&format!("`{name}`")) || page.contains(&format!("`{folder}`"))
    };
    let missing = tree.crates.iter().filter(|one| !listed(&one.name, &one.folder));
    missing.map(|one| finding(MAP, format!("`{}` is not in the code map", one.folder))).collect()
}

/// Every row of a table in SPEC.md names a command, the command exists, and it can fail.
pub(super) fn commands(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(SPEC) else { return Vec::new() };
    let mut found = Vec::new();
    for row in spec::rows(page) {
        let line = row.line;
        if row.commands.is_empty() {
            found.push(finding(SPEC, format!("line {line}: no command shows this promise")));
        }
        for command in row.commands {
            if let Some(what) = missing(tree, &command).or_else(|| cannot_fail(&command)) {
                found.push(finding(SPEC, format!("line {line}: `{command}`: {what}")));
            }
        }
    }
    found
}

/// A command that measures says what it expects.
fn cannot_fail(command: &str) -> Option<String> {
    let measures = ["throng load ", "cargo xtask peers"].iter().any(|it| command.starts_with(it));
    let expects = spec::words(command).iter().any(|word| word == "--expect");
    (measures && !expects).then(|| "measures and expects nothing: add --expect".to_owned())
}

fn finding(place: &str, what: String) -> Finding {
    Finding { place: place.to_owned(), what }
}

/// What a command lacks, if anything.
fn missing(tree: &Tree, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["cargo", "xtask", chore, ..] => {
            let known = crate::chores().iter().any(|known| known == chore);
            (!known).then(|| format!("there is no chore `{chore}`"))
        }
        ["cargo", "test", "-p", name, ref rest @ ..] => {
            let Some(one) = tree.crates.iter().find(|one| one.name == name) else {
                return Some(format!("there is no crate `{name}`"));
            };
            let test = rest.iter().find(|word| !word.starts_with('-'))?;
            let test = test.rsplit("::").next().unwrap_or(test);
            let exists = tree.files.iter().any(|file| {
                file.path.starts_with(&format!("{}/", one.folder))
                    && (file.text.contains(&format!("fn {test}"))
                        || file.text.contains(&format!("mod {test}")))
            });
            (!exists).then(|| format!("there is no test `{test}` in {}", one.folder))
        }
        ["throng", chore, ..] => {
            (!THRONG.contains(&chore)).then(|| format!("there is no command `{chore}`"))
        }
        ["node" | "npm", ref rest @ ..] => {
            let file = rest.iter().find(|word| word.contains('/'))?;
            let exists = tree.files.iter().any(|f| f.path.starts_with(*file));
            (!exists).then(|| format!("there is no {file}"))
        }
        _ => {
            Some("not a command that can be checked: cargo xtask, cargo test -p, throng".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{Crate, File};

    fn tree(files: &[(&str, &str)]) -> Tree {
        let file =
            |(path, text): &(&str, &str)| File { path: path.to_string(), text: text.to_string() };
        let one =
            Crate { name: "wire".to_owned(), folder: "pure/wire".to_owned(), arrows: Vec::new() };
        Tree { files: files.iter().map(file).collect(), crates: vec![one], results: Vec::new() }
    }

    #[test]
    fn the_map_lists_crates() {
        assert!(code_map(&tree(&[])).is_empty());
        assert!(code_map(&tree(&[(MAP, "| `wire` | bytes |")])).is_empty());
        assert!(code_map(&tree(&[(MAP, "see `pure/wire`")])).is_empty());
        assert_eq!(code_map(&tree(&[(MAP, "the wire")])).len(), 1);
    }

    #[test]
    fn commands_are_looked_up() {
        for (row, part) in [
            ("| fast | `cargo xtask ci` |", ""),
            ("| fast | `cargo xtask ci --only e2e` |", ""),
            ("| fast | `cargo xtask fly` |", "no chore `fly`"),
            ("| fast | `cargo test -p wire` |", ""),
            ("| fast | `cargo test -p wire splits` |", ""),
            ("| fast | `cargo test -p wire http1::tests::splits` |", ""),
            ("| fast | `cargo test -p wire nothing` |", "no test `nothing`"),
            ("| fast | `cargo test -p wired` |", "no crate `wired`"),
            ("| fast | `throng echo --port 1` |", ""),
            ("| fast | `throng load register` |", "expects nothing"),
            ("| fast | `throng load register --expect 'errors == 0'` |", ""),
            ("| fast | `throng fly` |", "no command `fly`"),
            ("| fast | `node --test dev/e2e/a.mjs` |", ""),
            ("| fast | `node --test dev/e2e/b.mjs` |", "no dev/e2e/b.mjs"),
            ("| fast | `cargo build` |", "not a command that can be checked"),
            ("| fast | somebody will see |", "no command shows"),
            ("| `x` | `throng` |", "no command shows"),
        ] {
            let page = format!("# Spec\n\n| promise | shown by |\n|---|---|\n{row}\n\nend\n");
            let tree = tree(&[
                (SPEC, &page),
                ("pure/wire/src/http1.rs", "    fn splits() {}"),
                ("dev/e2e/a.mjs", ""),
            ]);
            let found: Vec<_> = commands(&tree).iter().map(ToString::to_string).collect();
            let right =
                if part.is_empty() { found.is_empty() } else { found.join("").contains(part) };
            assert!(right, "{row}: {found:?}");
        }
        assert!(commands(&tree(&[])).is_empty());
    }
}
