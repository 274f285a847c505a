//! Parameters in and rows out, the same for the server's statements and those of scripts.

use game::db::{Cell, DbError, Param, Row};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Statement, ToSql};

/// Binds `$n` to the n-th parameter. SQLite itself numbers names in the order in which it first
/// meets them.
pub(crate) fn bind(
    statement: &mut Statement<'_>,
    params: &[Param<'_>],
    sort: impl Fn(&rusqlite::Error) -> DbError,
) -> Result<(), DbError> {
    let mut used_max = 0;
    for index in 1..=statement.parameter_count() {
        let number = match statement.parameter_name(index) {
            None => index,
            Some(name) => {
                name.get(1..).and_then(|digits| digits.parse().ok()).ok_or_else(|| {
                    DbError::Statement(format!("parameter {name} is not a number such as $1"))
                })?
            }
        };
        let param =
            number.checked_sub(1).and_then(|at: usize| params.get(at)).ok_or_else(|| {
                let count = params.len();
                DbError::Statement(format!("parameter ${number} is not among the {count} given"))
            })?;
        used_max = used_max.max(number);
        statement.raw_bind_parameter(index, Bound(*param)).map_err(|error| sort(&error))?;
    }
    if used_max < params.len() {
        let count = params.len();
        return Err(DbError::Statement(format!(
            "{count} parameters are given, but the last used is ${used_max}"
        )));
    }
    Ok(())
}

struct Bound<'a>(Param<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Param::Null => ValueRef::Null,
            Param::Int(number) => ValueRef::Integer(number),
            Param::Real(number) => ValueRef::Real(number),
            Param::Text(text) => ValueRef::Text(text.as_bytes()),
            Param::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A row as the game sees it.
pub(crate) struct SqliteRow<'a>(pub(crate) &'a rusqlite::Row<'a>);

impl SqliteRow<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.0.get_ref(column).unwrap_or(ValueRef::Null)
    }

    /// Bytes of a text or blob; 0 for the rest.
    pub(crate) fn bytes(&self, column: usize) -> usize {
        match self.value(column) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        }
    }

    fn statement(&self) -> &Statement<'_> {
        self.0.as_ref()
    }
}

impl Row for SqliteRow<'_> {
    fn width(&self) -> usize {
        self.statement().column_count()
    }

    fn name(&self, column: usize) -> &str {
        self.statement().column_name(column).unwrap_or_default()
    }

    fn is_id(&self, column: usize) -> bool {
        let declared = self.statement().columns().nth(column);
        let kind = declared.as_ref().and_then(|column| column.decl_type()).unwrap_or_default();
        ["bytea", "uuid"].iter().any(|id| kind.eq_ignore_ascii_case(id))
    }

    fn cell(&self, column: usize) -> Cell {
        match self.value(column) {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Int(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec()),
        }
    }

    fn int(&self, column: usize) -> i64 {
        if let ValueRef::Integer(number) = self.value(column) { number } else { 0 }
    }

    fn text(&self, column: usize) -> &str {
        if let ValueRef::Text(text) = self.value(column) {
            std::str::from_utf8(text).unwrap_or_default()
        } else {
            ""
        }
    }

    fn blob(&self, column: usize) -> &[u8] {
        if let ValueRef::Blob(bytes) = self.value(column) { bytes } else { &[] }
    }

    fn is_null(&self, column: usize) -> bool {
        matches!(self.value(column), ValueRef::Null)
    }
}
