//! The door to the database: SQL text that SQLite and PostgreSQL both understand goes out, rows
//! come back. `edge/store` implements it. No connection handling and no SQL here.
//!
//! There are two doors in one: the game's own statements ([`Database::execute`]), which are trusted
//! and bounded by what they are, and those of scripts ([`Database::guest_execute`]), which run under
//! a [`GuestBudget`] and see less.
//!
//! # What the game relies on
//!
//! Two transactions may run at once, on two connections, of two processes. What is right then rests on
//! the statements and on the promises below, and on no lock of the process: `docs/database.md` lists
//! the rules that two writers at once must not break, with what keeps each.
//!
//! * Isolation: each statement sees at least what was committed before it began, and its own
//!   transaction (READ COMMITTED of PostgreSQL; SQLite gives more). So what a rule has read and
//!   decides on is locked, or is a condition of its write. Not SERIALIZABLE: many calls share a
//!   transaction, and one of them in another's way would undo all.
//! * Locks: `/* FOR UPDATE */`, `/* FOR NO KEY UPDATE */`, `/* FOR SHARE */` and `/* FOR KEY SHARE */`
//!   at the end of a SELECT lock its rows until the transaction ends, as in PostgreSQL, where the
//!   comment's signs come off. On SQLite they stay a comment, because a transaction there either
//!   is the only one that writes, or fails with [`DbError::Conflict`] once what it has read has
//!   changed. Rows of `users` are locked before what belongs to them, several by rising id.
//! * Whoever is first: unique keys decide. Inserts that may come second say `ON CONFLICT DO NOTHING`
//!   and look at how many rows they made; updates fail with [`DbError::Exists`].
//! * A statement that fails undoes itself alone, and the transaction goes on: on PostgreSQL with a
//!   savepoint before each writing statement that stands outside of [`Database::savepoint`]. Within
//!   one nothing follows a failure but [`Database::undo_to_savepoint`].
//! * [`DbError::Conflict`] is the one error after which the same job may go well: in a new
//!   transaction, at most [`TRIES_MAX`] times. Host functions of scripts try again by themselves
//!   (`host`), calls of clients the worker runs anew, behind the commit of the batch they were in.
//! * Lists are one statement, not one for each id: `IN (SELECT unhex(value) FROM json_each($1))`
//!   ([`id_list`]), `IN (SELECT value FROM json_each($1))` ([`text_list`]); tuples come as
//!   `json_each($1) AS item`, with `item.value ->> 0` and so on. PostgreSQL has
//!   `jsonb_array_elements_text`, `jsonb_array_elements` and `decode(…, 'hex')` for these.
//! * The id of nobody is a literal, where an index has it for its condition ([`crate::schema::NOBODY`]).

use std::fmt::Write as _;

use thiserror::Error;
use uuid::Uuid;

/// How often a job is run at most while other writers are in its way.
pub const TRIES_MAX: u32 = 5;

/// Ids as the text of a list parameter: `["00…", …]`, hexadecimal digits.
#[must_use]
pub fn id_list<'a>(ids: impl IntoIterator<Item = &'a Uuid>) -> String {
    let mut list = String::from("[");
    for id in ids {
        let comma = if list.len() > 1 { "," } else { "" };
        // Writing to a text does not fail.
        let _ = write!(list, "{comma}\"{}\"", id.simple());
    }
    list.push(']');
    list
}

/// Runs the query of one id, or that of a list of them, and nothing for none: a list costs a text of
/// its own, and most calls are about one user. `$1` is the id in the one, in the other the list.
///
/// # Errors
/// Any [`DbError`].
pub(crate) fn query_ids<'a>(
    db: &mut dyn Database,
    ids: impl IntoIterator<Item = &'a Uuid, IntoIter: ExactSizeIterator>,
    (of_one, of_list): (&str, &str),
    each: &mut dyn FnMut(&dyn Row),
) -> Result<(), DbError> {
    let mut ids = ids.into_iter();
    match (ids.len(), ids.next()) {
        (1, Some(id)) => db.query(of_one, &[Param::Blob(id.as_bytes())], each),
        (_, Some(first)) => {
            let list = id_list(std::iter::once(first).chain(ids));
            db.query(of_list, &[Param::Text(&list)], each)
        }
        (_, None) => Ok(()),
    }
}

/// Texts without NUL, which SQLite would take for their end, or tuples of them, as the text of a list
/// parameter.
#[must_use]
pub fn text_list<T: serde::Serialize>(items: &[T]) -> String {
    // Texts always can be written.
    serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
}

/// A value bound to a `$1`-style parameter, borrowed for the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Param<'a> {
    /// SQL NULL.
    Null,
    /// 64-bit integer; booleans are 0 and 1; times are unix milliseconds.
    Int(i64),
    /// Double.
    Real(f64),
    /// UTF-8 text.
    Text(&'a str),
    /// Bytes; ids are 16 of them.
    Blob(&'a [u8]),
}

/// A value read from a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// SQL NULL.
    Null,
    /// 64-bit integer.
    Int(i64),
    /// Double.
    Real(f64),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// One row of a result, lent to the caller's closure. Columns count from 0.
pub trait Row {
    /// How many columns there are.
    fn width(&self) -> usize;
    /// The column's name.
    fn name(&self, column: usize) -> &str;
    /// Whether the column, of a table and not an expression, is declared to hold ids: as `BYTEA` or
    /// `UUID`.
    fn is_id(&self, _column: usize) -> bool {
        false
    }
    /// The cell, copied.
    fn cell(&self, column: usize) -> Cell;
    /// The cell as an integer; 0 when it is none.
    fn int(&self, column: usize) -> i64;
    /// The cell as text, borrowed; empty when it is none.
    fn text(&self, column: usize) -> &str;
    /// The cell as bytes, borrowed; empty when it is none.
    fn blob(&self, column: usize) -> &[u8];
    /// Whether the cell is NULL.
    fn is_null(&self, column: usize) -> bool;
}

/// What one statement of a script may use. Whoever implements [`Database`] stops a statement that
/// goes beyond, undoes it, and says which setting moves the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestBudget {
    /// `runtime.sql_budget_ms`: CPU time of a statement, milliseconds.
    pub time_ms: u32,
    /// `runtime.sql_write_budget_ms`: for how long a statement may keep other writers waiting,
    /// milliseconds by the clock on the wall.
    pub write_ms: u32,
    /// `runtime.sql_rows_max`: rows of an answer.
    pub rows_max: usize,
    /// `runtime.sql_answer_max_bytes`: bytes of an answer, with what its cells cost beside their
    /// text.
    pub answer_bytes_max: usize,
    /// `runtime.sql_value_max_bytes`: bytes of one text, blob or row.
    pub value_bytes_max: u32,
    /// `runtime.sql_write_max_bytes`: bytes that a statement may write, to the database and to
    /// temporary files.
    pub written_bytes_max: u64,
    /// `runtime.sql_write_own_tables`: whether the tables of `crate::schema` are open to scripts
    /// like their own.
    pub opens_own_tables: bool,
}

impl GuestBudget {
    /// What holds if nothing is configured.
    pub const DEFAULT: Self = Self {
        time_ms: 500,
        write_ms: 100,
        rows_max: 10_000,
        answer_bytes_max: 16 << 20,
        value_bytes_max: 1 << 20,
        written_bytes_max: 64 << 20,
        opens_own_tables: false,
    };
}

/// What can go wrong in the database.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DbError {
    /// A unique or primary key exists already. Several columns are joined by `, `.
    #[error("{what} exists already")]
    Exists {
        /// `table.column`.
        what: String,
    },
    /// A script's statement is wrong, or a call of [`Database`] that was not possible just then.
    #[error("bad statement: {0}")]
    Statement(String),
    /// A script's statement went beyond its [`GuestBudget`]; nothing of it has happened.
    #[error("{what} ({setting})")]
    Limit {
        /// What it did, and how much of it is allowed.
        what: String,
        /// The setting that moves the limit.
        setting: &'static str,
    },
    /// Another writer was in the way: the statement has not happened, and what its job did before is
    /// to be undone. The same job may go well in a new transaction. Who has waited in vain for as
    /// long as may be is told [`DbError::Machine`] instead.
    #[error("another writer was in the way: try again")]
    Conflict {
        /// What the database says: a stale snapshot, a deadlock, a serialisation failure.
        cause: String,
    },
    /// Our side failed: disk full, input/output, a damaged file, a table that is not there. The
    /// cause is in the log already; who asked is told no more than this.
    #[error("database error")]
    Machine(String),
}

/// An error that may say that another writer was in the way.
pub trait MayConflict {
    /// Whether the same job may go well in a new transaction.
    fn is_conflict(&self) -> bool;
}

impl MayConflict for DbError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

/// A connection to the database. One a thread; calls block.
pub trait Database {
    /// Begins a write transaction; waits for other threads' to end.
    ///
    /// # Errors
    /// [`DbError::Machine`] when the lock cannot be had in a few seconds.
    fn begin(&mut self) -> Result<(), DbError>;

    /// Ends the transaction: others see it, and it survives `kill -9`, unless commits gather
    /// ([`Database::group_commits`]); power loss only after [`Database::sync`].
    ///
    /// # Errors
    /// [`DbError::Machine`] or [`DbError::Conflict`]; the transaction is then rolled back.
    fn commit(&mut self) -> Result<(), DbError>;

    /// Makes durable what this connection has committed, and what it has seen of others' commits:
    /// when this returns, that survives power loss too. Whoever tells the outside of it syncs first.
    /// Several threads that sync at once wait for the disk together. Does nothing for what an open
    /// transaction has written so far. If the disk fails the process ends: what is durable is not
    /// known any more.
    fn sync(&mut self);

    /// For how long this connection has waited since it was opened, for its turn to write and for the
    /// disk, microseconds. Who judges a call by how long it kept its thread subtracts what this grew by:
    /// others had the lock meanwhile, and one who holds it on purpose must not make their calls slow.
    /// Some of it may have been computed, as when a commit copies pages.
    fn waited_us(&self) -> u64 {
        0
    }

    /// Whether [`Database::sync`] would have nothing to do.
    fn is_synced(&self) -> bool;

    /// From now on commits may gather: [`Database::commit`] returns, later queries of this connection
    /// see what was written, and others see it and find it kept after [`Database::commit_group`].
    /// For whoever tells nobody of a commit before that.
    fn group_commits(&mut self) {}

    /// Makes the commits that have gathered, if any have. To be called before anybody is told of one,
    /// and before [`Database::sync`].
    ///
    /// # Errors
    /// [`DbError::Machine`]: of the commits since the last [`Database::sync`] some have not happened.
    /// Until it is called again, nothing else is possible here.
    fn commit_group(&mut self) -> Result<(), DbError> {
        Ok(())
    }

    /// Commits that have gathered keep other writers waiting: makes them if that has been so for long,
    /// or if something that takes long comes next. If it fails, [`Database::commit_group`] says so.
    /// Does nothing within a transaction.
    fn rest(&mut self, _is_for_long: bool) {}

    /// Gives the transaction up.
    ///
    /// # Errors
    /// [`DbError::Machine`].
    fn rollback(&mut self) -> Result<(), DbError>;

    /// Whether a transaction of [`Database::begin`] is open.
    fn in_transaction(&self) -> bool;

    /// Begins to read one unchanging state of the database, which makes the queries of a batch
    /// cheaper. Blocks nobody. Ends with [`Database::end_reading`], and with the next write or
    /// [`Database::begin`], after which newer rows are seen. Does nothing within a transaction.
    ///
    /// # Errors
    /// [`DbError::Machine`].
    fn begin_reading(&mut self) -> Result<(), DbError> {
        Ok(())
    }

    /// Ends what [`Database::begin_reading`] began, if it has not ended yet.
    ///
    /// # Errors
    /// [`DbError::Machine`].
    fn end_reading(&mut self) -> Result<(), DbError> {
        Ok(())
    }

    /// Marks a place in the open transaction, to which [`Database::undo_to_savepoint`] goes back. May
    /// be done within another one.
    ///
    /// # Errors
    /// Any [`DbError`].
    fn savepoint(&mut self) -> Result<(), DbError> {
        self.execute("SAVEPOINT job", &[]).map(drop)
    }

    /// Undoes what was done since the last [`Database::savepoint`], which stays.
    ///
    /// # Errors
    /// Any [`DbError`]; the transaction can only be given up then.
    fn undo_to_savepoint(&mut self) -> Result<(), DbError> {
        self.execute("ROLLBACK TO SAVEPOINT job", &[]).map(drop)
    }

    /// Forgets the last [`Database::savepoint`], and keeps what was done since.
    ///
    /// # Errors
    /// Any [`DbError`]; the transaction can only be given up then.
    fn release_savepoint(&mut self) -> Result<(), DbError> {
        self.execute("RELEASE SAVEPOINT job", &[]).map(drop)
    }

    /// Counts a job that is run once more after a [`DbError::Conflict`].
    fn note_retry(&mut self) {}

    /// Runs one statement that returns no rows; returns how many rows it changed. Outside a
    /// transaction it is one of its own, committed when it returns. Statements are prepared once and
    /// kept.
    ///
    /// # Errors
    /// Any [`DbError`]; inside a transaction only this statement is undone.
    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError>;

    /// Runs one query and lends each row to `each`.
    ///
    /// # Errors
    /// Any [`DbError`].
    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError>;

    /// As [`Database::execute`], for a statement that a script wrote, outside of a transaction: it
    /// is committed when this returns, or has not happened.
    ///
    /// # Errors
    /// Any [`DbError`].
    fn guest_execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError>;

    /// As [`Database::query`], for a statement that a script wrote, outside of a transaction. What
    /// goes beyond the budget is stopped while it runs; the rows until then have been lent.
    ///
    /// # Errors
    /// Any [`DbError`].
    fn guest_query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError>;
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{id_list, text_list};

    #[test]
    fn lists_are_json() {
        assert_eq!(id_list(&[]), "[]");
        let ids = [Uuid::nil(), Uuid::from_u128(0xab)];
        let zeros = "0".repeat(30);
        assert_eq!(id_list(&ids), format!("[\"00{zeros}\",\"{zeros}ab\"]"));
        assert_eq!(text_list(&["a\"\n", ""]), r#"["a\"\n",""]"#);
        assert_eq!(text_list(&[("a", "b")]), r#"[["a","b"]]"#);
        assert_eq!(text_list(&[""; 0]), "[]");
    }
}
