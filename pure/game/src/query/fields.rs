//! What a query looks at: a document flattened into fields, each with one or more values.
//!
//! JSON, or single values, go in once per change of the document; queries read. Strings are kept
//! whole (exact keywords), or as dates when they are one; booleans are the keywords `T` and `F`.
//! Nothing here knows what a match or a ticket is.
//!
//! Source: nakama 3.40, `match_common.go`, walking a document.

use serde_json::Value as Json;

use super::date::parse_date_ns;

/// One value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldValue<'a> {
    /// An exact keyword; also a boolean, as `T` or `F`.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// Nanoseconds since 1970-01-01 UTC.
    Date(i64),
}

/// A document, ready to be searched. Build it with the `add_…` calls, then [`Fields::seal`].
///
/// A search by path compares hashes in one small array, and only then looks at texts: a listing
/// looks at thousands of documents, and what it costs is cache misses.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Sorted by hash once sealed; several entries of one path are one multi-valued field.
    entries: Vec<Entry>,
    /// Every entry's path, and its text right behind it.
    text: String,
    skipped_count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    path_hash: u64,
    path_start: u32,
    path_len: u32,
    value: Stored,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    /// So many bytes behind the path.
    Text(u32),
    Number(f64),
    Date(i64),
}

/// A field to look for: its path, hashed once for many documents.
#[derive(Clone, Debug)]
pub(super) struct FieldPath {
    text: Box<str>,
    hash: u64,
}

impl FieldPath {
    pub(super) fn new(path: &str) -> Self {
        Self { text: path.into(), hash: hash(path) }
    }
}

/// FNV-1a, 64 bits. Paths that collide are told apart by their text.
fn hash(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Fields {
    /// Values that a document may have; what is beyond is not found by queries, and is counted in
    /// [`Fields::skipped_count`]. A label of 2,048 bytes can hold about 1,000.
    pub const VALUES_MAX: usize = 1_024;
    /// Bytes that paths and texts together may have; as above. Deep nesting repeats long paths.
    pub const BYTES_MAX: usize = 64 * 1_024;

    /// Adds a string: a date if it is one, else an exact keyword.
    pub fn add_string(&mut self, path: &str, text: &str) {
        match parse_date_ns(text) {
            Some(ns) => self.add(path, FieldValue::Date(ns)),
            None => self.add_keyword(path, text),
        }
    }

    /// Adds a string as an exact keyword, even if it is a date.
    pub fn add_keyword(&mut self, path: &str, text: &str) {
        self.add(path, FieldValue::Text(text));
    }

    /// Adds a number.
    pub fn add_number(&mut self, path: &str, number: f64) {
        self.add(path, FieldValue::Number(number));
    }

    /// Adds a date, unix milliseconds; those that do not fit into nanoseconds stop at the end.
    pub fn add_date_ms(&mut self, path: &str, unix_ms: u64) {
        let ns = i64::try_from(unix_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        self.add(path, FieldValue::Date(ns));
    }

    /// Adds a boolean.
    pub fn add_bool(&mut self, path: &str, value: bool) {
        self.add_keyword(path, if value { "T" } else { "F" });
    }

    /// Adds every leaf of `json` below `path`: members are joined with dots, elements of arrays
    /// are values of one field, null is nothing.
    pub fn add_json(&mut self, path: &str, json: &Json) {
        let mut path = path.to_owned();
        self.walk(&mut path, json);
    }

    /// Makes the fields searchable. Without it queries find nothing.
    pub fn seal(&mut self) {
        self.entries.sort_by_key(|entry| entry.path_hash);
        self.entries.shrink_to_fit();
        self.text.shrink_to_fit();
    }

    /// How many values were left out because of the limits.
    pub fn skipped_count(&self) -> u32 {
        self.skipped_count
    }

    /// The values of one field.
    pub(super) fn of<'a>(&'a self, path: &'a FieldPath) -> impl Iterator<Item = FieldValue<'a>> {
        let start = self.entries.partition_point(|entry| entry.path_hash < path.hash);
        let rest = self.entries.get(start..).unwrap_or_default();
        rest.iter()
            .take_while(move |entry| entry.path_hash == path.hash)
            .map(|entry| self.read(entry))
            .filter_map(move |(name, value)| (name == &*path.text).then_some(value))
    }

    /// An entry's path and value.
    fn read(&self, entry: &Entry) -> (&str, FieldValue<'_>) {
        let start = entry.path_start as usize;
        let end = start + entry.path_len as usize;
        let value = match entry.value {
            Stored::Text(len) => {
                FieldValue::Text(self.text.get(end..end + len as usize).unwrap_or_default())
            }
            Stored::Number(number) => FieldValue::Number(number),
            Stored::Date(ns) => FieldValue::Date(ns),
        };
        (self.text.get(start..end).unwrap_or_default(), value)
    }

    fn walk(&mut self, path: &mut String, json: &Json) {
        match json {
            Json::Null => {}
            Json::Bool(value) => self.add_bool(path, *value),
            Json::Number(number) => self.add_number(path, number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => self.add_string(path, text),
            // serde_json stops at 128 levels, so this recursion does.
            Json::Array(elements) => elements.iter().for_each(|element| self.walk(path, element)),
            Json::Object(members) => {
                let parent_len = path.len();
                for (name, member) in members {
                    if parent_len > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    self.walk(path, member);
                    path.truncate(parent_len);
                }
            }
        }
    }

    fn add(&mut self, path: &str, value: FieldValue<'_>) {
        let text = if let FieldValue::Text(text) = value { text } else { "" };
        let bytes = self.text.len() + path.len() + text.len();
        let has_room = self.entries.len() < Self::VALUES_MAX && bytes <= Self::BYTES_MAX;
        let (true, Ok(path_start), Ok(path_len), Ok(text_len)) = (
            has_room,
            u32::try_from(self.text.len()),
            u32::try_from(path.len()),
            u32::try_from(text.len()),
        ) else {
            self.skipped_count = self.skipped_count.saturating_add(1);
            return;
        };
        let value = match value {
            FieldValue::Text(_) => Stored::Text(text_len),
            FieldValue::Number(number) => Stored::Number(number),
            FieldValue::Date(ns) => Stored::Date(ns),
        };
        self.text.push_str(path);
        self.text.push_str(text);
        self.entries.push(Entry { path_hash: hash(path), path_start, path_len, value });
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldPath, FieldValue, Fields};
    use expect_test::{Expect, expect};
    use std::fmt::Write as _;

    fn check(json: &str, expected: Expect) {
        let mut fields = Fields::default();
        fields.add_json("label", &serde_json::from_str(json).unwrap());
        fields.seal();
        let mut all: Vec<_> = fields.entries.iter().map(|entry| fields.read(entry)).collect();
        all.sort_by_key(|(path, _)| *path);
        let mut text = String::new();
        for (path, value) in all {
            let _ = match value {
                FieldValue::Text(value) => writeln!(text, "{path} = '{value}'"),
                FieldValue::Number(value) => writeln!(text, "{path} = {value}"),
                FieldValue::Date(value) => writeln!(text, "{path} = date {value}"),
            };
            let path = FieldPath::new(path);
            assert!(fields.of(&path).any(|found| found == value));
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn leaves() {
        check(
            r#"{"mode":"ctf","n":5,"x":-0.5,"open":true,"closed":false,"none":null,"at":"1970-01-02"}"#,
            expect![[r"
                label.at = date 86400000000000
                label.closed = 'F'
                label.mode = 'ctf'
                label.n = 5
                label.open = 'T'
                label.x = -0.5
            "]],
        );
        check(
            r#"{"a":{"b":{"c":"deep"}},"tags":["x","y",7,["z"],{"k":"v"}]}"#,
            expect![[r"
                label.a.b.c = 'deep'
                label.tags = 'x'
                label.tags = 'y'
                label.tags = 7
                label.tags = 'z'
                label.tags.k = 'v'
            "]],
        );
    }

    #[test]
    fn too_many_and_too_long_values_are_counted() {
        let mut fields = Fields::default();
        for _ in 0..Fields::VALUES_MAX + 3 {
            fields.add_number("n", 1.0);
        }
        assert_eq!(fields.skipped_count(), 3);

        let mut fields = Fields::default();
        fields.add_keyword("n", &"x".repeat(Fields::BYTES_MAX));
        assert_eq!(fields.skipped_count(), 1);
        fields.add_keyword("n", "short");
        fields.seal();
        assert_eq!(fields.of(&FieldPath::new("n")).count(), 1);
    }
}
