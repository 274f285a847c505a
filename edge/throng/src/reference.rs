//! The option table in print: the terminal's reference, `docs/configuration.md`, and the values in
//! force with secrets masked.
//!
//! What is deliberately not here: any option's text, which stands in the table (`options/`).

pub mod calls;
pub mod functions;
pub mod json;

use std::fmt::Write as _;

use anyhow::bail;
use game::nearest::did_you_mean;

use crate::config::Effective;
use crate::config::value::OptionValue;
use crate::options::{BUILT, Entry, Kind, Opt, Origin, UNBUILT, Why};

const INTRODUCTION: &str = "\
<!-- Made by `cargo xtask docs` from edge/throng/src/options/. Change the table, not this page. -->

# Configuration

Options stand in YAML files (`throng serve --config game.yaml`) or on the command line
(`--socket.port 7350`). `--config` may be given several times: later files win over earlier ones,
and the command line wins over files. Sections may be nested (`socket: {port: 7350}`) or dotted
(`socket.port: 7350`):

```yaml
name: eu-1
socket:
  port: 7350
  server_key: \"a key of your own\"
```

Names, defaults and meanings are Nakama's, so its configuration files work unchanged, as far as the
features are there: for an option of Nakama that has no effect here a warning says what stands in its
place. Whatever is wrong stops the start, with the name, the place and the cure: a value out of range,
two options that contradict each other, a mistyped name. `throng check` tells without starting
anything, and prints what is in force; with `--strict` it fails for warnings, too. Environment
variables are not read.

`throng keys > keys.yaml` makes a file with fresh keys. The default keys are fine as long as only this
machine reaches the server.

throng listens on 127.0.0.1 unless `socket.address` says otherwise. gRPC is served on the same address,
one port below as in Nakama, unless `socket.grpc` or `socket.grpc_port` says otherwise.
";

/// `docs/configuration.md`.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut section = None;
    for opt in BUILT {
        if section != Some(opt.section()) {
            section = Some(opt.section());
            let title = if opt.section().is_empty() { "process" } else { opt.section() };
            // Writing to a String cannot fail.
            let _ = write!(page, "\n## {title}\n\n| option | default | form | meaning |\n");
            page += "|---|---|---|---|\n";
        }
        let (name, form, help) = (opt.name, opt.kind.describe(), opt.help);
        let _ = writeln!(page, "| `{name}` | {} | {form} | {help}{} |", default(opt), remark(opt));
    }
    page += "\n## Options of Nakama that throng does not obey\n\nThey may stand in the file. Any other \
             value than the default is a warning at start; of `socket.ssl_*` it is an error, because \
             a server without TLS would expose its players.\n\n| option | default | why |\n\
             |---|---|---|\n";
    for opt in UNBUILT {
        let shown = if opt.default.is_empty() { "empty" } else { opt.default };
        let _ = writeln!(page, "| `{}` | {shown} | {} |", opt.name, why(opt.why));
    }
    page
}

fn default(opt: &Opt) -> String {
    match opt.default {
        crate::options::Default::Fixed(text) if !text.is_empty() => format!("`{text}`"),
        _ => opt.default_text().to_owned(),
    }
}

fn remark(opt: &Opt) -> String {
    match opt.origin {
        Origin::Original => String::new(),
        Origin::Differs(how) => format!(" *Differs: {how}.*"),
        Origin::Ours => " *Not in Nakama.*".to_owned(),
    }
}

fn why(why: Why) -> String {
    let text = why.to_string();
    let mut letters = text.chars();
    // Texts of `Why` go on after a colon elsewhere; here they stand alone.
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).chain(['.']).collect::<String>()
    })
}

/// The reference for a terminal: the options with `word` in their name, or else in their meaning.
///
/// # Errors
/// If there is none.
pub fn text(word: &str) -> anyhow::Result<String> {
    let word = word.to_ascii_lowercase();
    let has_name = |opt: &&Opt| opt.name.contains(&word);
    let has_text = |opt: &&Opt| opt.help.to_ascii_lowercase().contains(&word);
    let mut meant: Vec<&Opt> = BUILT.iter().filter(has_name).collect();
    if meant.is_empty() {
        meant = BUILT.iter().filter(has_text).collect();
    }
    if meant.is_empty() {
        let nearest = did_you_mean(&word, BUILT.iter().map(|opt| opt.name));
        bail!("no option has `{word}` in its name or meaning{nearest}");
    }
    let mut page = String::new();
    let mut section = None;
    for opt in meant {
        if section != Some(opt.section()) {
            section = Some(opt.section());
            let title = if opt.section().is_empty() { "process" } else { opt.section() };
            let _ = writeln!(page, "{}[{title}]", if page.is_empty() { "" } else { "\n" });
        }
        let _ =
            writeln!(page, "{} = {}    ({})", opt.name, opt.default_text(), opt.kind.describe());
        let _ = writeln!(page, "    {}{}", opt.help, remark(opt).replace('*', ""));
    }
    Ok(page)
}

/// The values in force, one a line, each with where it came from. Secrets are masked: of a default
/// key it is said that it is the default, of others nothing.
pub fn effective(values: &Effective) -> String {
    let mut page = String::new();
    for opt in BUILT {
        let (value, from) = values.value(opt.name);
        let shown = if opt.secret { masked(value) } else { plain(opt, value) };
        let _ = writeln!(page, "{:<34} {shown:<24} # {from}", opt.name);
    }
    page
}

fn masked(value: &OptionValue) -> String {
    match value {
        // The names of variables are no secrets, and help to find the missing one.
        OptionValue::List(pairs) => {
            let names: Vec<_> = pairs.iter().map(|(name, _)| format!("{name}=***")).collect();
            format!("[{}]", names.join(", "))
        }
        _ => "***".to_owned(),
    }
}

fn plain(opt: &Opt, value: &OptionValue) -> String {
    match value {
        OptionValue::Number(number) => number.to_string(),
        OptionValue::Switch(on) => on.to_string(),
        OptionValue::Address(address) => address.to_string(),
        OptionValue::Text(text) if text.is_empty() => "\"\"".to_owned(),
        OptionValue::Text(text) => text.clone(),
        // Networks and hosts are names without a value.
        OptionValue::List(pairs)
            if matches!(opt.kind, Kind::List(Entry::Network | Entry::Host)) =>
        {
            let names: Vec<_> = pairs.iter().map(|(name, _)| name.as_str()).collect();
            format!("[{}]", names.join(", "))
        }
        OptionValue::List(pairs) => {
            let items: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::{Given, Source};

    #[test]
    fn the_page_in_docs_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == markdown(), "docs/configuration.md is out of date: run `cargo xtask docs`");
    }

    /// Names such as `match.matches_max` in the pages about scripts.
    #[test]
    fn the_pages_name_options_that_exist() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lua");
        let sections: Vec<&str> =
            BUILT.iter().map(Opt::section).filter(|it| !it.is_empty()).collect();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for name in text.split('`').skip(1).step_by(2) {
                let is_option = name.split_once('.').is_some_and(|(section, rest)| {
                    sections.contains(&section)
                        && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                });
                let is_there = crate::options::find(name).is_some();
                assert!(!is_option || is_there, "{}: `{name}`", path.display());
            }
        }
    }

    #[test]
    fn a_word_finds_options_by_name_or_else_by_meaning() {
        let of_fetch = text("fetch").unwrap();
        assert!(of_fetch.contains("fetch.allow = ") && !of_fetch.contains("socket.port = "));
        assert!(text("nk.match_signal").unwrap().contains("runtime.call_wait_max_ms = "));
        let error = text("fetch.enabeld").unwrap_err().to_string();
        assert!(error.contains("did you mean `fetch.enabled`?"), "{error}");
    }

    #[test]
    fn every_option_is_in_every_print() {
        let (page, reference) = (markdown(), text("").unwrap());
        for opt in BUILT {
            assert!(page.contains(&format!("| `{}` |", opt.name)), "{}", opt.name);
            assert!(reference.contains(&format!("{} = ", opt.name)), "{}", opt.name);
        }
        for opt in UNBUILT {
            assert!(page.contains(&format!("| `{}` |", opt.name)), "{}", opt.name);
        }
    }

    #[test]
    fn secrets_are_never_printed() {
        let given = |name: &str, item: &str| Given {
            name: name.to_owned(),
            items: vec![item.to_owned()],
            from: Source::Flag,
        };
        let values = Effective::resolve(
            vec![
                given("socket.server_key", "hush-1"),
                given("session.encryption_key", "hush-2"),
                given("session.refresh_encryption_key", "hush-3"),
                given("runtime.http_key", "hush-4"),
                given("runtime.env", "TOKEN=hush-5"),
                given("name", "loud"),
            ],
            2,
        )
        .unwrap();
        let page = effective(&values);
        assert!(!page.contains("hush"), "{page}");
        assert!(page.contains("TOKEN=***") && page.contains("loud"), "{page}");
        assert_eq!(page.lines().count(), BUILT.len());
    }
}
