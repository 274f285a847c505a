//! The door to the database: SQL text that SQLite and PostgreSQL both understand goes out, rows
//! come back. `edge/store` implements it. No connection handling and no SQL here.

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

/// What can go wrong in the database.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DbError {
    /// A unique or primary key exists already. Several columns are joined by `, `.
    #[error("{what} exists already")]
    Exists {
        /// `table.column`.
        what: String,
    },
    /// The guest's or our statement is wrong.
    #[error("bad statement: {0}")]
    Statement(String),
    /// The machine failed: disk full, input/output, damaged file.
    #[error("database failed: {0}")]
    Machine(String),
}

/// A connection to the database. One a thread; calls block.
pub trait Database {
    /// Begins a write transaction; waits for other threads' to end.
    ///
    /// # Errors
    /// [`DbError::Machine`] when the lock cannot be had in a few seconds.
    fn begin(&mut self) -> Result<(), DbError>;

    /// Makes the transaction durable: when this returns, it survives `kill -9` and power loss.
    ///
    /// # Errors
    /// [`DbError::Machine`]; the transaction is then rolled back.
    fn commit(&mut self) -> Result<(), DbError>;

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
    /// transaction it is durable when it returns. Statements are prepared once and kept.
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
}
