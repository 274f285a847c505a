//! Data files: rows of values that a scenario gives to its players, `${accounts.email}`.
//!
//! In: what a scenario says of a file, and the file, read once before the run. Out: a `Table` that
//! all players of the process share: what a player keeps is the number of its row. Which row that
//! is, the generator says. Not here: how the two forms are read, see `read`.

mod read;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::{Scenario, ScenarioError};

/// Bytes of a data file, at most; it is held in memory, once for each process of a run.
pub const DATA_BYTES_MAX: usize = 256 << 20;
/// Rows of a data file, at most: more than a run can have players.
pub const DATA_ROWS_MAX: usize = 10_000_000;
/// Columns of a data file, at most.
pub const DATA_FIELDS_MAX: usize = 64;
/// Bytes of one value, at most: as much as a captured one may have.
pub const DATA_VALUE_BYTES_MAX: usize = super::path::VALUE_BYTES_MAX;
/// Data files of one scenario, at most.
pub const DATA_FILES_MAX: usize = 16;

/// A data file, as a scenario names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// What its values are called by: `${name.column}`.
    pub name: String,
    /// Where it lies, beside the scenario's file; `.csv`, `.tsv`, `.jsonl` or `.ndjson`.
    pub file: String,
    /// Who gets which row.
    #[serde(default)]
    pub pick: Pick,
    /// With [`Pick::Player`]: players beyond the last row begin with the first one again.
    #[serde(default)]
    pub wrap: bool,
    /// Its rows; none before [`Scenario::read_data`].
    #[serde(skip)]
    pub(crate) table: Arc<Table>,
}

/// Who gets which row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Every player has a row of its own, always the same.
    #[default]
    Player,
    /// The next row for every player that comes and for every further round; after the last one
    /// the first.
    Turn,
    /// As `Turn`, but any row; the run's seed decides which.
    Random,
}

impl Pick {
    /// As written in a scenario.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Player => "player",
            Self::Turn => "turn",
            Self::Random => "random",
        }
    }
}

/// The rows of a data file: one text, and where each value ends in it.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) fields: Vec<Box<str>>,
    text: String,
    /// Of every value, row by row.
    ends: Vec<u32>,
    /// Of every row, in the file, from 1 on.
    lines: Vec<u32>,
}

/// Two tables that differ do so here too, in all likelihood: this is part of a scenario's digest.
impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digest = super::digest(
            self.text.bytes().chain(self.ends.iter().flat_map(|it| it.to_le_bytes())),
        );
        write!(out, "Table({:?}, {} rows, {digest:016x})", self.fields, self.rows())
    }
}

impl Table {
    /// How many rows there are.
    pub(crate) fn rows(&self) -> u32 {
        u32::try_from(self.lines.len()).unwrap_or(u32::MAX)
    }

    /// The place of a column.
    pub(crate) fn field(&self, name: &str) -> Option<u8> {
        let place = self.fields.iter().position(|it| **it == *name)?;
        u8::try_from(place).ok()
    }

    /// A value; nothing where there is none.
    pub(crate) fn value(&self, row: u32, field: u8) -> &str {
        let place = row as usize * self.fields.len() + usize::from(field);
        let end = |place: usize| self.ends.get(place).map_or(0, |end| *end as usize);
        let start = place.checked_sub(1).map_or(0, end);
        self.text.get(start..end(place)).unwrap_or("")
    }

    /// The line of the first row whose value in a column is wanted.
    pub(crate) fn line_where(&self, field: u8, is_wanted: impl Fn(&str) -> bool) -> Option<u32> {
        let row = (0..self.rows()).find(|row| is_wanted(self.value(*row, field)))?;
        self.lines.get(row as usize).copied()
    }

    /// Appends a row's next value.
    fn push(&mut self, value: &str) {
        self.text.push_str(value);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// The row whose values were appended began in this line.
    fn end_row(&mut self, line: u64) {
        self.lines.push(u32::try_from(line).unwrap_or(u32::MAX));
    }

    /// Gives back what growing has left over.
    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.lines.shrink_to_fit();
    }
}

/// What is wrong with a data file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// It cannot be read, or not be a data file at all.
    #[error("data file {file}: {what}")]
    File {
        /// As it was looked for.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// One of its lines.
    #[error("data file {file}, line {line}, {column}: {what}")]
    Line {
        /// As it was looked for.
        file: String,
        /// Counted from 1.
        line: u64,
        /// Which one: its number, with its name where it has one.
        column: String,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl Scenario {
    /// Reads the data files that the scenario names; `folder` is the one that its own file lies in,
    /// none for a built-in scenario.
    ///
    /// # Errors
    /// [`ScenarioError::Data`] with the first thing that is wrong with one of them.
    pub fn read_data(&mut self, folder: &Path) -> Result<(), ScenarioError> {
        for data in &mut self.data {
            data.table = Arc::new(read_file(&folder.join(&data.file))?);
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Table, DataError> {
    let file = path.display().to_string();
    let wrong = |what: String| DataError::File { file: file.clone(), what };
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let form = read::Form::of(extension).ok_or_else(|| {
        wrong(
            "its name says its form: .csv or .tsv with a line of names, .jsonl or .ndjson"
                .to_owned(),
        )
    })?;
    let cannot =
        |error: std::io::Error| wrong(format!("{error}; it is looked for beside the scenario"));
    let opened = File::open(path).map_err(cannot)?;
    if !opened.metadata().map_err(cannot)?.is_file() {
        return Err(wrong("is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    // One byte more than may be, so that a longer one is refused and not cut.
    let most = DATA_BYTES_MAX as u64 + 1;
    opened.take(most).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > DATA_BYTES_MAX {
        return Err(wrong(format!(
            "larger than {} MB: split it, or leave out columns that the scenario does not use",
            DATA_BYTES_MAX >> 20
        )));
    }
    let mut table = read::read(form, &bytes).map_err(|error| error.of(&file))?;
    table.shrink();
    Ok(table)
}

#[cfg(test)]
pub(crate) fn table_of(extension: &str, text: &str) -> Arc<Table> {
    let form = read::Form::of(extension).unwrap();
    match read::read(form, text.as_bytes()) {
        Ok(table) => Arc::new(table),
        Err(error) => panic!("{}", error.of("f")),
    }
}

#[cfg(test)]
mod tests {
    use super::table_of;

    #[test]
    fn tables_that_differ_in_anything_have_other_digests() {
        let texts = ["a,b\n1,2\n", "a,b\n12,\n", "a,c\n1,2\n", "a,b\n1,2\n1,2\n"];
        let digests = texts.map(|text| format!("{:?}", table_of("csv", text)));
        let apart: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(apart.len(), texts.len(), "{digests:?}");
    }

    #[test]
    fn a_file_that_is_none_is_told_with_its_cure() {
        let here = std::path::Path::new("/dev");
        for (file, part) in [
            ("null.csv", "No such file"),
            ("null", "its name says its form"),
            ("../dev/shm/.csv", "its name says its form"),
        ] {
            let error = super::read_file(&here.join(file)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(file), "{error}");
        }
    }
}
