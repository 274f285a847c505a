//! The host table in print: `docs/lua/functions.md`, and the reference for a terminal.
//!
//! What is deliberately not here: any function's text, which stands in the table
//! (`pure/game/src/host/table/`).

use std::fmt::Write as _;

use anyhow::bail;
use game::host::{AREAS, Area, Doc, FunctionKind, HostFunction};
use game::nearest::did_you_mean;

const INTRODUCTION: &str = "\
<!-- Made by `cargo xtask docs` from pure/game/src/host/table/. Change the table, not this page. -->

# Functions

What Lua modules find in `require(\"nakama\")`. Names, arguments and results are those of Nakama
3.40. `throng functions WORD` prints the same in a terminal.

In a signature a question mark marks an argument that may be nil, `=` shows what nil means, and a
`list` is a table with the keys 1, 2, 3, … A wrong argument, and whatever fails, is an error: catch it
with `pcall`, or let it end the call. Each example is the body of an RPC function, as in
[the guide](guide.md), with `nk`, `context` and `payload` at hand; under *Registration* it is a
module. All of them are run by a test.
";

/// `docs/lua/functions.md`.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for area in AREAS {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n", area.title);
        for (function, doc) in described(area) {
            let (name, signature, meaning) = (function.name, doc.signature(), doc.meaning());
            let _ = write!(page, "\n### {name}\n\n`nk.{name}{signature}`\n\n{meaning}\n");
            let _ = write!(page, "\n```lua\n{}\n```\n", doc.example());
        }
        let names = missing(area);
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = write!(page, "\n**Not built yet:** {}.\n", names.join(", "));
        }
    }
    page
}

/// The reference for a terminal: the functions with `word` in their name.
///
/// # Errors
/// If there is no such name.
pub fn text(word: &str) -> anyhow::Result<String> {
    let word = word.strip_prefix("nk.").unwrap_or(word).to_ascii_lowercase();
    let mut page = String::new();
    for area in AREAS {
        let mut has_title = false;
        for (function, doc) in described(area).filter(|(it, _)| it.name.contains(&word)) {
            if !has_title {
                let _ = write!(page, "[{}]\n\n", area.title);
                has_title = true;
            }
            let (name, signature, meaning) = (function.name, doc.signature(), doc.meaning());
            let _ = writeln!(page, "nk.{name}{signature}\n    {meaning}\n");
            for line in doc.example().lines() {
                let _ = writeln!(page, "        {line}");
            }
            page.push('\n');
        }
        let names = missing(area);
        let names: Vec<&str> = names.into_iter().filter(|it| it.contains(&word)).collect();
        if !names.is_empty() {
            let _ = writeln!(page, "Not built yet: {}\n", names.join(", "));
        }
    }
    if page.is_empty() {
        let names = AREAS.iter().flat_map(|area| area.functions).map(|it| it.name);
        bail!("no function has `{word}` in its name{}", did_you_mean(&word, names));
    }
    Ok(page)
}

/// The functions of an area that work.
fn described(area: &Area) -> impl Iterator<Item = (&'static HostFunction, &'static Doc)> + use<> {
    area.functions.iter().filter_map(|function| Some((function, function.doc()?)))
}

/// The names of an area that do not work yet.
fn missing(area: &Area) -> Vec<&'static str> {
    let is_missing = |function: &&HostFunction| function.kind == FunctionKind::Missing;
    area.functions.iter().filter(is_missing).map(|function| function.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lua/functions.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == markdown(), "docs/lua/functions.md is out of date: run `cargo xtask docs`");
    }

    #[test]
    fn every_name_stands_on_the_page_and_is_found_in_the_terminal() {
        let page = markdown();
        for function in AREAS.iter().flat_map(|area| area.functions) {
            let name = function.name;
            let shown = match function.kind {
                FunctionKind::Missing => format!("`{name}`"),
                FunctionKind::Built(_) | FunctionKind::Language(_) => format!("\n### {name}\n"),
            };
            assert!(page.contains(&shown), "{name}");
            assert!(text(name).unwrap().contains(name), "{name}");
        }
        assert!(text("nk.storage_write").unwrap().contains("acks: list"));
        let error = text("storage_wirte").unwrap_err().to_string();
        assert!(error.contains("did you mean `storage_write`"), "{error}");
    }
}
