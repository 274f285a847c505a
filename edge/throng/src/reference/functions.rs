//! The host table in print: `docs/lua/functions.md` and `docs/javascript/functions.md`, and the reference for a
//! terminal.
//!
//! What is deliberately not here: any function's text, which stands in the table
//! (`pure/game/src/host/table/`), and how JavaScript spells it (`javascript::reference`).

use std::fmt::Write as _;

use anyhow::bail;
use game::host::{AREAS, Area, FunctionKind, HostFunction};
use game::nearest::did_you_mean;
use javascript::reference;

/// Under whose names functions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Those of the table.
    Lua,
    /// Those that follow from them.
    JavaScript,
}

const LUA: &str = "\
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

const JAVASCRIPT: &str = "\
<!-- Made by `cargo xtask docs` from pure/game/src/host/table/. Change the table, not this page. -->

# Functions

What scripts in JavaScript find in `nk`. Names, arguments and results are those of Nakama 3.40.
`throng functions --javascript WORD` prints the same in a terminal.

In a signature a question mark marks what may be left out or null, and `=` shows what that means. Bytes may be given
as an `ArrayBuffer` or `Uint8Array` instead of a string. A wrong argument is a `TypeError`, and whatever fails an
`Error`: catch it, or let it end the call. Members of objects are in camelCase, but what is yours (`value`, `metadata`,
`content`, `vars`, …) is not touched. Each name leads to the same function in Lua, with an example that a test runs.

Of JavaScript alone are `nk.binaryToString(data: ArrayBuffer): string` and
`nk.stringToBinary(text: string): ArrayBuffer`; JSON and time are the language's own.
";

impl Language {
    fn introduction(self) -> &'static str {
        match self {
            Self::Lua => LUA,
            Self::JavaScript => JAVASCRIPT,
        }
    }

    /// What stands before the table's links, from where its page lies.
    fn links(self) -> &'static str {
        match self {
            Self::Lua => "",
            Self::JavaScript => "../lua/",
        }
    }

    /// The function's name; `None` if this language has none of the kind.
    fn name(self, function: &'static HostFunction) -> Option<&'static str> {
        match self {
            Self::Lua => Some(function.name),
            Self::JavaScript => reference::name(function),
        }
    }

    /// What there is to know of a function that works.
    fn entry(self, function: &'static HostFunction) -> Option<Entry> {
        let doc = function.doc()?;
        match self {
            Self::Lua => Some(Entry {
                name: function.name,
                signature: doc.signature(),
                meaning: doc.meaning(),
                example: Some(doc.example()),
                in_lua: function.name,
            }),
            Self::JavaScript => {
                let reference::Described { name, signature, meaning } =
                    reference::describe(function)?;
                Some(Entry { name, signature, meaning, example: None, in_lua: function.name })
            }
        }
    }
}

/// A function as it is shown.
struct Entry {
    name: &'static str,
    signature: String,
    meaning: String,
    /// The table has them in Lua.
    example: Option<String>,
    /// Its name there.
    in_lua: &'static str,
}

/// `functions.md` of a language's folder in `docs/`.
pub fn markdown(language: Language) -> String {
    let mut page = language.introduction().to_owned();
    for area in AREAS {
        let entries: Vec<Entry> = entries(language, area).collect();
        let names = missing(language, area);
        if entries.is_empty() && names.is_empty() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n", area.title);
        for Entry { name, signature, meaning, example, in_lua } in entries {
            // The table's links are those of Lua's pages.
            let meaning = meaning.replace("](", &format!("]({}", language.links()));
            let _ = write!(page, "\n### {name}\n\n`nk.{name}{signature}`\n\n{meaning}");
            let _ = match example {
                Some(example) => write!(page, "\n\n```lua\n{example}\n```\n"),
                None => writeln!(page, " [In Lua](../lua/functions.md#{in_lua})."),
            };
        }
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = write!(page, "\n**Not built yet:** {}.\n", names.join(", "));
        }
    }
    page
}

/// The reference for a terminal: the functions with `word` in their name, or else in their meaning.
///
/// # Errors
/// If there is none.
pub fn text(language: Language, word: &str) -> anyhow::Result<String> {
    let word = word.strip_prefix("nk.").unwrap_or(word).to_ascii_lowercase();
    let has_word = |text: &str| text.to_ascii_lowercase().contains(&word);
    let all = || AREAS.iter().flat_map(|area| area.functions);
    let by_name = all().filter_map(|it| language.name(it)).any(has_word);
    let is_meant = |name: &str, meaning: &str| has_word(if by_name { name } else { meaning });
    let mut page = String::new();
    for area in AREAS {
        let mut has_title = false;
        for entry in entries(language, area).filter(|it| is_meant(it.name, &it.meaning)) {
            if !has_title {
                let _ = write!(page, "[{}]\n\n", area.title);
                has_title = true;
            }
            let Entry { name, signature, meaning, example, .. } = entry;
            let _ = writeln!(page, "nk.{name}{signature}\n    {meaning}\n");
            for line in example.iter().flat_map(|example| example.lines()) {
                let _ = writeln!(page, "        {line}");
            }
            if example.is_some() {
                page.push('\n');
            }
        }
        let names = missing(language, area);
        let names: Vec<&str> = names.into_iter().filter(|it| is_meant(it, "")).collect();
        if !names.is_empty() {
            let _ = writeln!(page, "Not built yet: {}\n", names.join(", "));
        }
    }
    if page.is_empty() {
        let names = all().filter_map(|it| language.name(it));
        bail!("no function has `{word}` in its name or meaning{}", did_you_mean(&word, names));
    }
    Ok(page)
}

/// The functions of an area that work.
fn entries(language: Language, area: &Area) -> impl Iterator<Item = Entry> + use<> {
    area.functions.iter().filter_map(move |function| language.entry(function))
}

/// The names of an area that do not work yet.
fn missing(language: Language, area: &Area) -> Vec<&'static str> {
    let missing = area.functions.iter().filter(|function| function.kind == FunctionKind::Missing);
    missing.filter_map(|function| language.name(function)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_in_docs_are_current() {
        for (folder, language) in [("lua", Language::Lua), ("javascript", Language::JavaScript)] {
            let path = format!("{}/../../docs/{folder}/functions.md", env!("CARGO_MANIFEST_DIR"));
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(page == markdown(language), "{path} is out of date: run `cargo xtask docs`");
        }
    }

    #[test]
    fn every_name_stands_on_the_page_and_is_found_in_the_terminal() {
        for language in [Language::Lua, Language::JavaScript] {
            let page = markdown(language);
            for function in AREAS.iter().flat_map(|area| area.functions) {
                let Some(name) = language.name(function) else { continue };
                let shown = match function.kind {
                    FunctionKind::Missing => format!("`{name}`"),
                    FunctionKind::Built(_) | FunctionKind::Language(_) => format!("\n### {name}\n"),
                };
                assert!(page.contains(&shown), "{name}");
                assert!(text(language, name).unwrap().contains(name), "{name}");
            }
        }
        assert!(text(Language::Lua, "nk.storage_write").unwrap().contains("acks: list"));
        assert!(text(Language::JavaScript, "nk.storageWrite").unwrap().contains(": any[]"));
        let error = text(Language::Lua, "storage_wirte").unwrap_err().to_string();
        assert!(error.contains("did you mean `storage_write`"), "{error}");
        let error = text(Language::JavaScript, "json_encode").unwrap_err().to_string();
        assert!(error.contains("no function has `json_encode` in its name"), "{error}");
        assert!(text(Language::Lua, "wait").unwrap().contains("nk.http_request"));
    }

    #[test]
    fn what_javascript_reads_has_no_names_of_lua() {
        let page = markdown(Language::JavaScript);
        let code = page.split('`').skip(1).step_by(2);
        // Options and functions of Lua have a dot.
        let kept = ["nakama_custom_", "_sum", "_count", "stream_data", "stream_presence_event"];
        let is_kept = |text: &str| text.contains('.') || kept.iter().any(|it| text.starts_with(it));
        let of_lua: Vec<&str> =
            code.filter(|text| (text.contains('_') || *text == "nil") && !is_kept(text)).collect();
        assert!(of_lua.is_empty(), "{of_lua:?}");
    }
}
