//! One thread's connection: `game::db::Database` on SQLite. Statements are prepared once and kept;
//! parameters are bound by their number (`$1` is the first, wherever it stands); rows are lent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use game::db::{Cell, Database, DbError, Param, Row};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Statement, ToSql};

use crate::failure;
use crate::lock::WriteLock;

/// How long a transaction waits for other threads' to end. A worker's batch takes milliseconds; a
/// script that is at its budget a second or so.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// The savepoint of `game::account::atomically`; no other may be made.
const SAVEPOINT: &str = "job";

/// Nothing was written, so that it can hardly fail, and nothing is lost if it does.
const END_READING: &str = "COMMIT";

/// A connection. A transaction that is open when it is dropped is rolled back.
pub struct Sqlite {
    conn: Connection,
    lock: Arc<WriteLock>,
    /// Whether the statement being prepared is this file's own.
    is_own: Arc<AtomicBool>,
    is_open: bool,
    /// Whether a transaction that only reads is open.
    is_reading: bool,
    /// SQLite has rolled the open transaction back by itself, as it does when the disk fails.
    is_lost: bool,
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Scripts may run any SQL: what would end the batch's transaction, change the connection's
    /// settings or open other files is refused when it is prepared.
    pub(crate) fn new(mut conn: Connection, lock: Arc<WriteLock>) -> Result<Self, rusqlite::Error> {
        let is_own = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&is_own);
        conn.authorizer(Some(move |context: AuthContext<'_>| match context.action {
            AuthAction::Transaction { .. }
            | AuthAction::Pragma { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
                if !own.load(Ordering::Relaxed) =>
            {
                Authorization::Deny
            }
            AuthAction::Savepoint { savepoint_name, .. } if savepoint_name != SAVEPOINT => {
                Authorization::Deny
            }
            _ => Authorization::Allow,
        }))?;
        Ok(Self { conn, lock, is_own, is_open: false, is_reading: false, is_lost: false })
    }

    /// Runs a statement about the transaction itself.
    fn control(&self, sql: &str) -> Result<(), DbError> {
        self.is_own.store(true, Ordering::Relaxed);
        let run = self.conn.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        self.is_own.store(false, Ordering::Relaxed);
        run.map(drop).map_err(|error| failure::sort(&error))
    }

    fn acquire(&self) -> Result<(), DbError> {
        if self.lock.acquire(BEGIN_PATIENCE) {
            return Ok(());
        }
        let patience_s = BEGIN_PATIENCE.as_secs();
        Err(DbError::Machine(format!("other transactions took longer than {patience_s} s")))
    }

    /// Ends the transaction for this connection, however it ended in the database.
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.lock.release();
        }
        self.is_lost = false;
    }

    fn check_lost(&mut self) -> Result<(), DbError> {
        if self.is_open && !self.is_lost && self.conn.is_autocommit() {
            self.is_lost = true;
        }
        if self.is_lost {
            return Err(DbError::Machine("the transaction was rolled back".into()));
        }
        Ok(())
    }

    /// Runs a statement with the write lock held, if it writes and no transaction is open.
    fn run<T>(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        act: impl FnOnce(&mut Statement<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, DbError> {
        if self.is_lost {
            self.check_lost()?;
        }
        let mut statement = self.conn.prepare_cached(sql).map_err(|error| failure::sort(&error))?;
        bind(&mut statement, params)?;
        let locks = !self.is_open && !statement.readonly();
        if locks {
            if self.is_reading {
                self.control(END_READING)?;
                self.is_reading = false;
            }
            self.acquire()?;
        }
        let result = act(&mut statement).map_err(|error| failure::sort(&error));
        drop::<CachedStatement<'_>>(statement);
        if locks {
            self.lock.release();
        }
        if self.is_open && self.conn.is_autocommit() {
            self.is_lost = true;
        }
        if !self.is_open && !self.is_reading && !self.conn.is_autocommit() {
            // A savepoint outside of a transaction begins one.
            self.control("ROLLBACK")?;
            return Err(DbError::Statement("no transaction is open".into()));
        }
        result
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Closing the connection rolls back; the others must not wait for ever.
        if self.is_open {
            let _ = self.rollback();
        }
    }
}

impl Database for Sqlite {
    fn begin(&mut self) -> Result<(), DbError> {
        if self.is_open {
            return Err(DbError::Statement("a transaction is open already".into()));
        }
        self.end_reading()?;
        self.acquire()?;
        if let Err(error) = self.control("BEGIN IMMEDIATE") {
            self.lock.release();
            return Err(error);
        }
        self.is_open = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DbError> {
        if !self.is_open {
            return Err(DbError::Statement("no transaction is open".into()));
        }
        let committed = self.check_lost().and_then(|()| self.control("COMMIT"));
        if committed.is_err() && !self.conn.is_autocommit() {
            // A failed commit leaves the transaction open; nobody could finish it.
            let _ = self.control("ROLLBACK");
        }
        self.close();
        committed
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        if !self.is_open {
            return Err(DbError::Statement("no transaction is open".into()));
        }
        let result = if self.conn.is_autocommit() { Ok(()) } else { self.control("ROLLBACK") };
        self.close();
        result
    }

    fn in_transaction(&self) -> bool {
        self.is_open
    }

    fn begin_reading(&mut self) -> Result<(), DbError> {
        if !self.is_open && !self.is_reading {
            self.control("BEGIN DEFERRED")?;
            self.is_reading = true;
        }
        Ok(())
    }

    fn end_reading(&mut self) -> Result<(), DbError> {
        if std::mem::take(&mut self.is_reading) { self.control(END_READING) } else { Ok(()) }
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        let changed = self.run(sql, params, |statement| statement.raw_execute())?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.run(sql, params, |statement| {
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                each(&SqliteRow(row));
            }
            Ok(())
        })
    }
}

/// Binds `$n` to the n-th parameter. SQLite itself numbers names in the order in which it first
/// meets them.
fn bind(statement: &mut Statement<'_>, params: &[Param<'_>]) -> Result<(), DbError> {
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
        statement
            .raw_bind_parameter(index, Bound(*param))
            .map_err(|error| failure::sort(&error))?;
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

struct SqliteRow<'a>(&'a rusqlite::Row<'a>);

impl SqliteRow<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.0.get_ref(column).unwrap_or(ValueRef::Null)
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
