//! The door to the database: SQL text that SQLite and PostgreSQL both understand goes out, rows
//! come back. `edge/store` implements it. No connection handling and no SQL here.
//!
//! There are two doors in one: the game's own statements ([`Database::execute`]), which are trusted
//! and bounded by what they are, and those of scripts ([`Database::guest_execute`]), which run under
//! a [`GuestBudget`] and see less.

use thiserror::Error;

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
    /// Our side failed: disk full, input/output, a damaged file, a table that is not there. The
    /// cause is in the log already; who asked is told no more than this.
    #[error("database error")]
    Machine(String),
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
    /// [`DbError::Machine`]; the transaction is then rolled back.
    fn commit(&mut self) -> Result<(), DbError>;

    /// Makes durable what this connection has committed, and what it has seen of others' commits:
    /// when this returns, that survives power loss too. Whoever tells the outside of it syncs first.
    /// Several threads that sync at once wait for the disk together. Does nothing for what an open
    /// transaction has written so far. If the disk fails the process ends: what is durable is not
    /// known any more.
    fn sync(&mut self);

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
