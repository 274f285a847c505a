//! A configuration file in YAML, flattened to dotted names with the line of each value.
//!
//! Sections may be nested (`socket: {port: 1}`) or dotted (`socket.port: 1`). What is deliberately
//! not here: which names exist and what their values mean (`config.rs`). Plain values keep the
//! spelling of the file: `0123` as a key is the text "0123", not a number.

use std::io::Read;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::source::{BadShape, Given, Problem, Source};
use crate::options::Known;

/// Size of a configuration file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads and flattens a file.
///
/// # Errors
/// Everything that is wrong with the file's form, at once where the YAML itself is valid.
pub fn read(path: &Path) -> Result<Vec<Given>, Vec<Problem>> {
    let unreadable = |error| vec![Problem::Unreadable { path: path.to_owned(), error }];
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    // The file may be a pipe that never ends.
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let path = path.to_owned();
        return Err(vec![Problem::FileTooLarge { path, bytes_max: FILE_BYTES_MAX }]);
    }
    parse(path, &text)
}

/// Flattens the text of a file; `path` is for the messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Given>, Vec<Problem>> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    let root: Spanned<Node> = match serde_saphyr::from_str_with_options(text, options) {
        Ok(root) => root,
        Err(error) => return Err(vec![Problem::NotYaml { path: path.to_owned(), error }]),
    };
    let mut flat = Flat { path, text, given: Vec::new(), problems: Vec::new() };
    match root.value {
        Node::Map(entries) => flat.section("", entries),
        // An empty file, or one with all lines commented out.
        Node::Plain(_) if spelling(text, &root).is_none_or(|t| is_null(&t)) => {}
        _ => flat.problem(String::from("(whole file)"), 1, BadShape::NotMap),
    }
    if flat.problems.is_empty() { Ok(flat.given) } else { Err(flat.problems) }
}

struct Flat<'a> {
    path: &'a Path,
    text: &'a str,
    given: Vec<Given>,
    problems: Vec<Problem>,
}

impl Flat<'_> {
    fn section(&mut self, prefix: &str, entries: Vec<(String, Spanned<Node>)>) {
        for (key, node) in entries {
            let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            self.entry(name, node);
        }
    }

    fn entry(&mut self, name: String, node: Spanned<Node>) {
        let line = node.referenced.line();
        let items = match &node.value {
            Node::Map(_) if matches!(crate::options::find(&name), Some(Known::Built(_))) => {
                return self.problem(name, line, BadShape::NotSection);
            }
            Node::Map(_) => {
                let Node::Map(entries) = node.value else { return };
                return self.section(&name, entries);
            }
            Node::List(nodes) => {
                let items: Option<Vec<_>> = nodes.iter().map(|n| spelling(self.text, n)).collect();
                match items {
                    Some(items) => items,
                    None => return self.problem(name, line, BadShape::Nested),
                }
            }
            Node::Plain(quoted) => {
                let text = spelling(self.text, &node).unwrap_or_default();
                if quoted.is_none() && is_null(&text) {
                    // A section whose lines are all commented out is no mistake, and what has no
                    // effect needs no value.
                    let unbuilt = crate::options::find(&name);
                    if is_section(&name) || matches!(unbuilt, Some(Known::Unbuilt(_))) {
                        return;
                    }
                    return self.problem(name, line, BadShape::NoValue);
                }
                vec![text]
            }
        };
        if self.given.iter().any(|g| g.name == name) {
            return self.problem(name, line, BadShape::Twice);
        }
        self.given.push(Given { name, items, from: self.source(line) });
    }

    fn source(&self, line: u64) -> Source {
        Source::File { path: self.path.to_owned(), line }
    }

    fn problem(&mut self, name: String, line: u64, shape: BadShape) {
        let from = self.source(line);
        self.problems.push(Problem::Shape { name, from, shape });
    }
}

fn is_section(name: &str) -> bool {
    use crate::options::{BUILT, UNBUILT};
    let inside = |full: &str| full.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    BUILT.iter().any(|o| inside(o.name)) || UNBUILT.iter().any(|o| inside(o.name))
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// The text of a plain value: as YAML reads it if it is a text, else as it stands in the file.
/// `None` for maps and lists.
fn spelling(text: &str, node: &Spanned<Node>) -> Option<String> {
    match &node.value {
        Node::Plain(Some(string)) => Some(string.clone()),
        Node::Plain(None) => {
            let span = node.defined.span();
            let start = usize::try_from(span.byte_offset()?).ok()?;
            let length = usize::try_from(span.byte_len()?).ok()?;
            text.get(start..start.checked_add(length)?).map(|raw| raw.trim().to_owned())
        }
        Node::Map(_) | Node::List(_) => None,
    }
}

/// One node of the file.
enum Node {
    /// Names and values, in order.
    Map(Vec<(String, Spanned<Node>)>),
    /// Values.
    List(Vec<Spanned<Node>>),
    /// A text, or `None` for a number, a switch or nothing, whose spelling is in the file.
    Plain(Option<String>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value, a list or a section")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = seq.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Plain(Some(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(None))
    }
}
