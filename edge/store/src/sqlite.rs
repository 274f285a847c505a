//! One thread's connection: `game::db::Database` on SQLite. Statements are prepared once and kept;
//! parameters are bound by their number (`$1` is the first, wherever it stands); rows are lent.
//!
//! The server's statements and those of scripts have a connection each (`guest.rs`); that of
//! scripts is opened when there is the first.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use game::db::{Database, DbError, GuestBudget, Param, Row};
use rusqlite::{CachedStatement, Connection, Statement};

use crate::guest::{Each, Guest};
use crate::lock::Writer;
use crate::open::Shared;
use crate::row::{SqliteRow, bind};

/// How long a transaction waits for other threads' to end. A worker's batch takes milliseconds; a
/// script's statement `runtime.sql_write_budget_ms`.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Nothing was written, so that it can hardly fail, and nothing is lost if it does.
const END_READING: &str = "COMMIT";

/// A connection. A transaction that is open when it is dropped is rolled back.
pub struct Sqlite {
    conn: Connection,
    shared: Arc<Shared>,
    path: PathBuf,
    budget: GuestBudget,
    guest: Option<Guest>,
    is_open: bool,
    /// Whether a transaction that only reads is open.
    is_reading: bool,
    /// SQLite has rolled the open transaction back by itself, as it does when the disk fails.
    is_lost: bool,
    /// Whether it has read or written since the last [`Database::sync`].
    is_touched: bool,
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite").field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl Sqlite {
    pub(crate) fn new(
        conn: Connection,
        shared: Arc<Shared>,
        path: PathBuf,
        budget: GuestBudget,
    ) -> Self {
        Self {
            conn,
            shared,
            path,
            budget,
            guest: None,
            is_open: false,
            is_reading: false,
            is_lost: false,
            is_touched: false,
        }
    }

    fn sort(&self, error: &rusqlite::Error) -> DbError {
        self.shared.reporter.own(error)
    }

    /// Runs a statement that takes SQLite's write lock.
    fn begin_writing(&self) -> Result<(), DbError> {
        let run = self
            .shared
            .patience
            .take(&self.conn, || self.conn.prepare_cached("BEGIN IMMEDIATE")?.raw_execute());
        run.map(drop).map_err(|error| self.sort(&error))
    }

    /// Ends what [`Sqlite::begin_writing`] began, before the write lock is let go.
    fn end_writing(&self, is_well: bool) -> Result<(), DbError> {
        let committed =
            if is_well { self.shared.committing(|| self.control("COMMIT")) } else { Ok(()) };
        if !self.conn.is_autocommit() {
            // A failed commit leaves the transaction open; nobody could finish it.
            let _ = self.control("ROLLBACK");
        }
        self.shared.copy_if_long(&self.conn);
        // Not acknowledged, if there is no file any more that holds it.
        committed.and_then(|()| self.shared.check_file())
    }

    /// Runs a statement about the transaction itself.
    fn control(&self, sql: &str) -> Result<(), DbError> {
        let run = self.conn.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        run.map(drop).map_err(|error| self.sort(&error))
    }

    fn acquire(&self) -> Result<(), DbError> {
        if self.shared.lock.acquire(Writer::Server, BEGIN_PATIENCE) {
            return Ok(());
        }
        let patience_s = BEGIN_PATIENCE.as_secs();
        self.shared.reporter.stats.db_lock_timeouts.up();
        let cause = format!("other transactions took longer than {patience_s} s");
        Err(self.shared.reporter.machine("the database is busy", &cause))
    }

    /// Ends the transaction for this connection, however it ended in the database.
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.shared.lock.release();
        }
        self.is_lost = false;
    }

    fn check_lost(&mut self) -> Result<(), DbError> {
        if self.is_open && !self.is_lost && self.conn.is_autocommit() {
            self.is_lost = true;
        }
        if self.is_lost {
            // Why is in the log: the statement that lost it has said so.
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
        self.is_touched = true;
        if self.is_lost {
            self.check_lost()?;
        }
        if !self.is_open && !self.is_reading {
            self.shared.glance_at_file()?;
        }
        let mut statement = self.conn.prepare_cached(sql).map_err(|error| self.sort(&error))?;
        bind(&mut statement, params, |error| self.sort(error))?;
        let locks = !self.is_open && !statement.readonly();
        if locks {
            if self.is_reading {
                self.control(END_READING)?;
                self.is_reading = false;
            }
            self.acquire()?;
        }
        let begun = if locks { self.begin_writing() } else { Ok(()) };
        let mut result =
            begun.and_then(|()| act(&mut statement).map_err(|error| self.sort(&error)));
        drop::<CachedStatement<'_>>(statement);
        if locks {
            result = self.end_writing(result.is_ok()).and(result);
            self.shared.lock.release();
        }
        if self.is_open && self.conn.is_autocommit() {
            self.is_lost = true;
        }
        result
    }

    /// Runs a script's statement on its own connection.
    fn run_guest(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: Option<Each<'_>>,
    ) -> Result<u64, DbError> {
        if self.is_open {
            return Err(DbError::Statement("a transaction of the server is open".into()));
        }
        // What the script writes, the server's next query on this thread is to see.
        self.end_reading()?;
        self.is_touched = true;
        self.shared.glance_at_file()?;
        let guest = match self.guest.take() {
            Some(guest) => guest,
            None => Guest::open(&self.path, &self.shared, self.budget)
                .map_err(|error| self.sort(&error))?,
        };
        self.guest.insert(guest).run(&self.shared, sql, params, each)
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
        self.shared.check_file()?;
        self.acquire()?;
        if let Err(error) = self.begin_writing() {
            self.shared.lock.release();
            return Err(error);
        }
        self.is_open = true;
        self.is_touched = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DbError> {
        if !self.is_open {
            return Err(DbError::Statement("no transaction is open".into()));
        }
        let kept = self.check_lost();
        let ended = self.end_writing(kept.is_ok());
        self.close();
        kept.and(ended)
    }

    fn is_synced(&self) -> bool {
        !self.is_touched || self.shared.is_synced()
    }

    fn sync(&mut self) {
        if !self.is_synced() {
            self.shared.sync();
        }
        self.is_touched = self.is_open;
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
            self.shared.glance_at_file()?;
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

    fn guest_execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.run_guest(sql, params, None)
    }

    fn guest_query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.run_guest(sql, params, Some(each)).map(drop)
    }
}
