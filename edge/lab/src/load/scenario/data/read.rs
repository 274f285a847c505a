//! Reading data files: CSV (RFC 4180) with a line of names, and JSON Lines.
//!
//! In: a file's bytes. Out: a [`Table`], or the first thing that is wrong with its line, its column
//! and what to do about it. Values are kept as they stand: nothing is trimmed or guessed.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    DATA_BYTES_MAX, DATA_FIELDS_MAX, DATA_ROWS_MAX, DATA_VALUE_BYTES_MAX, DataError, Table,
};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Values with this byte between them.
    Separated(u8),
    /// A JSON object in each line.
    Json,
}

impl Form {
    /// By the end of the file's name.
    pub(super) fn of(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Separated(b',')),
            "tsv" => Some(Self::Separated(b'\t')),
            "jsonl" | "ndjson" => Some(Self::Json),
            _ => None,
        }
    }
}

/// What is wrong, without the file's name.
pub(super) struct Wrong {
    line: u64,
    /// Empty where the whole file is meant.
    column: String,
    what: String,
}

impl Wrong {
    fn file(what: impl Into<String>) -> Self {
        Self { line: 0, column: String::new(), what: what.into() }
    }

    pub(super) fn of(self, file: &str) -> DataError {
        let file = file.to_owned();
        match self.line {
            0 => DataError::File { file, what: self.what },
            line => DataError::Line { file, line, column: self.column, what: self.what },
        }
    }
}

/// Reads all of a file.
pub(super) fn read(form: Form, bytes: &[u8]) -> Result<Table, Wrong> {
    // Spreadsheets write the mark of the byte order first.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let table = match form {
        Form::Separated(separator) => separated(bytes, separator)?,
        Form::Json => json_lines(bytes)?,
    };
    if table.lines.is_empty() {
        return Err(Wrong::file("has no rows: write at least one below the names"));
    }
    Ok(table)
}

fn separated(bytes: &[u8], separator: u8) -> Result<Table, Wrong> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        // Rows of another length are told in our own words.
        .flexible(true)
        .delimiter(separator)
        .from_reader(bytes);
    let mut table = Table::default();
    let mut record = csv::ByteRecord::new();
    let mut lines = Lines { bytes, at: 0, line: 1 };
    loop {
        let is_row = reader.read_byte_record(&mut record);
        if !is_row.map_err(|error| Wrong::file(error.to_string()))? {
            return Ok(table);
        }
        let line = lines.line_of(record.position().map_or(0, csv::Position::byte));
        // Before anything else is said of a row that has swallowed all behind it.
        let is_last = usize::try_from(reader.position().byte()).is_ok_and(|it| it >= bytes.len());
        if is_last && is_open(&bytes[lines.at..]) {
            return Err(unclosed(&bytes[lines.at..], line));
        }
        if table.fields.is_empty() {
            table.fields = names(&record, line)?;
            continue;
        }
        let (found, wanted) = (record.len(), table.fields.len());
        if found != wanted {
            let what = format!(
                "the row has {found} values and the first line {wanted} names: a value with a \
                 separator or a quote in it stands in quotes"
            );
            return Err(Wrong { line, column: format!("column {}", found.min(wanted) + 1), what });
        }
        for place in 0..wanted {
            let column = || column(place, &table.fields[place]);
            let value = record.get(place).unwrap_or_default();
            let value = std::str::from_utf8(value);
            let value = value.map_err(|_| Wrong {
                line,
                column: column(),
                what: "is not UTF-8: save the file in that encoding".to_owned(),
            })?;
            check_size(value).map_err(|what| Wrong { line, column: column(), what })?;
            table.push(value);
        }
        end_row(&mut table, line)?;
    }
}

/// Whether the last row of a file takes several lines because a quote in it is not closed: the rows
/// behind it would vanish into one value.
fn is_open(row: &[u8]) -> bool {
    let quotes = memchr::memchr_iter(b'"', row).count();
    quotes % 2 == 1 && memchr::memchr(b'\n', row.trim_ascii_end()).is_some()
}

/// The last quote of such a row, which begins in this line, is the one that opens.
fn unclosed(row: &[u8], line: u64) -> Wrong {
    let quote = memchr::memrchr(b'"', row).unwrap_or(0);
    let line = line + memchr::memchr_iter(b'\n', &row[..quote]).count() as u64;
    let start = memchr::memrchr(b'\n', &row[..quote]).map_or(0, |at| at + 1);
    Wrong {
        line,
        column: format!("byte {}", quote - start + 1),
        what: format!("the quote that opens in line {line} is never closed"),
    }
}

/// Counts lines. The reader's own number is that of the end of the row before: with line ends of two
/// bytes, or empty lines between, it is too low.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of what stands at this place, or behind the line ends there; places only grow.
    fn line_of(&mut self, at: u64) -> u64 {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len());
        let ends = self.bytes[at..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = self.bytes.get(self.at..at + ends).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.at = self.at.max(at + ends);
        self.line
    }
}

/// The names of the first line.
fn names(record: &csv::ByteRecord, line: u64) -> Result<Vec<Box<str>>, Wrong> {
    let mut names: Vec<Box<str>> = Vec::new();
    for (place, name) in record.iter().enumerate() {
        let wrong = |what: &str| Wrong {
            line,
            column: format!("column {}", place + 1),
            what: what.to_owned(),
        };
        let name =
            std::str::from_utf8(name).map_err(|_| wrong("is not UTF-8: save the file so"))?;
        let name = name.trim();
        check_name(name).map_err(wrong)?;
        if names.iter().any(|known| **known == *name) {
            return Err(wrong(&format!("a second column is called `{name}`: rename one")));
        }
        names.push(name.into());
    }
    match &*names {
        [only] if only.contains(';') => Err(Wrong {
            line,
            column: "column 1".to_owned(),
            what: "the separator is a comma, not a semicolon".to_owned(),
        }),
        names if names.len() > DATA_FIELDS_MAX => Err(Wrong {
            line,
            column: format!("column {}", DATA_FIELDS_MAX + 1),
            what: format!("more than {DATA_FIELDS_MAX} columns: leave out what is not used"),
        }),
        _ => Ok(names),
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("has no name: the first line names the columns");
    }
    if name.contains(['}', ':', '.']) || name.chars().any(char::is_control) {
        return Err("the first line names the columns, and a name has no `}`, `:` or `.` in it");
    }
    Ok(())
}

fn check_size(value: &str) -> Result<(), String> {
    if value.len() <= DATA_VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "a value of {} bytes: at most {DATA_VALUE_BYTES_MAX} (is a closing quote missing?)",
        value.len()
    ))
}

fn column(place: usize, name: &str) -> String {
    format!("column {} (`{name}`)", place + 1)
}

fn end_row(table: &mut Table, line: u64) -> Result<(), Wrong> {
    table.end_row(line);
    let wrong = |what: String| Wrong { line, column: "column 1".to_owned(), what };
    if table.lines.len() > DATA_ROWS_MAX {
        return Err(wrong(format!("more than {DATA_ROWS_MAX} rows: split the file")));
    }
    // JSON within JSON may be longer written out than it was in the file.
    if table.text.len() > DATA_BYTES_MAX {
        return Err(wrong(format!(
            "values of more than {} MB: split the file",
            DATA_BYTES_MAX >> 20
        )));
    }
    Ok(())
}

fn json_lines(bytes: &[u8]) -> Result<Table, Wrong> {
    let mut table = Table::default();
    for (line, text) in (1_u64..).zip(bytes.split(|byte| *byte == b'\n')) {
        if text.trim_ascii().is_empty() {
            continue;
        }
        let row: Map<String, Value> = serde_json::from_slice(text).map_err(|error| Wrong {
            line,
            column: format!("column {}", error.column()),
            what: format!("{}: each line is one JSON object", plain(&error)),
        })?;
        let whole = |what: String| Wrong { line, column: "column 1".to_owned(), what };
        if table.fields.is_empty() {
            table.fields = row.keys().map(|name| name.as_str().into()).collect();
            let bad = table.fields.iter().find_map(|name| check_name(name).err());
            match bad {
                Some(what) => return Err(whole(what.to_owned())),
                None if table.fields.is_empty() => {
                    return Err(whole("has no fields: the first line names them".to_owned()));
                }
                None if table.fields.len() > DATA_FIELDS_MAX => {
                    return Err(whole(format!("more than {DATA_FIELDS_MAX} fields")));
                }
                None => {}
            }
        }
        push_object(&mut table, &row).map_err(|(column, what)| Wrong { line, column, what })?;
        end_row(&mut table, line)?;
    }
    Ok(table)
}

/// A row has the fields of the first one; an error names the column.
fn push_object(table: &mut Table, row: &Map<String, Value>) -> Result<(), (String, String)> {
    for place in 0..table.fields.len() {
        let name = table.fields[place].clone();
        let value = match row.get(&*name) {
            None | Some(Value::Null) => {
                let known: BTreeSet<&str> = table.fields.iter().map(|it| &**it).collect();
                let others: Vec<&str> =
                    row.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
                let other = match &*others {
                    [] => String::new(),
                    others => format!(" (it has `{}`)", others.join("`, `")),
                };
                let what = format!("lacks a value that the first line has{other}: give it one");
                return Err((column(place, &name), what));
            }
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        check_size(&value).map_err(|what| (column(place, &name), what))?;
        table.push(&value);
    }
    Ok(())
}

/// What the parser says, without its line, which is always 1 here.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.find(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, read};
    use crate::load::scenario::data::table_of;

    #[test]
    fn both_forms_are_read_as_they_are_written() {
        for (extension, text) in [
            ("csv", "\u{feff}name, item \n\"Ann \"\"A\"\"\",\"a,\nb\"\nBob,\n"),
            ("TSV", "name\titem\r\n\"Ann \"\"A\"\"\"\t\"a,\nb\"\r\n\r\nBob\t\r\n"),
            (
                "jsonl",
                "{\"name\":\"Ann \\\"A\\\"\",\"item\":\"a,\\nb\"}\n\n{\"item\":\"\",\"name\":\"Bob\",\"x\":1}",
            ),
        ] {
            let table = table_of(extension, text);
            let [name, item] = ["name", "item"].map(|it| table.field(it).unwrap());
            assert_eq!(table.rows(), 2, "{extension}");
            assert_eq!((table.value(0, name), table.value(0, item)), ("Ann \"A\"", "a,\nb"));
            assert_eq!((table.value(1, name), table.value(1, item)), ("Bob", ""));
            assert_eq!((table.value(2, name), table.field("x")), ("", None));
            let wanted =
                [("csv", 4), ("TSV", 5), ("jsonl", 3)].into_iter().find(|it| it.0 == extension);
            let line = table.line_where(name, |it| it == "Bob");
            assert_eq!(line, wanted.map(|it| it.1), "{extension}");
        }
        let numbers = table_of("ndjson", "{\"a\":1.5,\"b\":{\"c\":[true]}}");
        assert_eq!((numbers.value(0, 0), numbers.value(0, 1)), ("1.5", "{\"c\":[true]}"));
    }

    #[test]
    fn mistakes_have_a_line_a_column_and_a_cure() {
        let long = format!("a\n{}\n", "x".repeat(16_385));
        let wide = (0..65).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
        for (extension, text, wanted) in [
            ("csv", "", "data file f: has no rows"),
            ("csv", "a,b\n", "data file f: has no rows"),
            ("csv", "a,b\n1,2\n3\n", "line 3, column 2: the row has 1 values and the first line 2"),
            ("csv", "a,b\n1,2,3\n", "line 2, column 3: the row has 3 values"),
            ("csv", "a,a\n1,2\n", "line 1, column 2: a second column is called `a`"),
            ("csv", "a,\n1,2\n", "line 1, column 2: has no name"),
            ("csv", "a:b\n1\n", "line 1, column 1: the first line names the columns"),
            ("csv", "a;b\n1;2\n", "the separator is a comma"),
            ("csv", &wide, "line 1, column 65: more than 64 columns"),
            (
                "csv",
                "a,b\n1,2\n3,\"4\n5,6\n",
                "line 3, byte 3: the quote that opens in line 3 is never closed",
            ),
            (
                "csv",
                "a,b\n1,2\n\"3,4\n5,6\n7,8\n",
                "line 3, byte 1: the quote that opens in line 3 is never closed",
            ),
            ("csv", &long, "line 2, column 1 (`a`): a value of 16385 bytes"),
            ("jsonl", "{\"a\":1}\n{\"a\":}", "line 2, column 6: expected value: each line is one"),
            ("jsonl", "[1]", "line 1, column 0: invalid type: sequence"),
            ("jsonl", "{}", "line 1, column 1: has no fields"),
            (
                "jsonl",
                "{\"a\":1}\n\n{\"b\":1}",
                "line 3, column 1 (`a`): lacks a value that the first line has (it has `b`)",
            ),
            ("jsonl", "{\"a\":1}\n{\"a\":null}", "line 2, column 1 (`a`): lacks a value"),
        ] {
            let read = read(Form::of(extension).unwrap(), text.as_bytes());
            let Err(error) = read.map_err(|it| it.of("f").to_string()) else {
                panic!("taken: {text}")
            };
            assert!(error.contains(wanted), "{text}: {error}");
        }
        let error = read(Form::Separated(b','), b"a\n\xff\n").map_err(|it| it.of("f").to_string());
        let error = error.map(|_| ()).unwrap_err();
        assert!(error.contains("line 2, column 1 (`a`): is not UTF-8"), "{error}");
    }
}
