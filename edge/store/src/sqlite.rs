//! One thread's connection: `game::db::Database` on SQLite. Statements are prepared once and kept;
//! parameters are bound by their number (`$1` is the first, wherever it stands); rows are lent.
//!
//! Each thread has a connection, and one for the statements of its scripts (`guest.rs`), opened when
//! there is the first. Threads whose commits gather (`group.rs`) write on a third one, which they share
//! and which comes with the write lock: SQLite forgets all pages of a connection when another one has
//! committed, so that these threads would read what they change anew each time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use game::db::{Database, DbError, GuestBudget, Param, Row};
use rusqlite::{Connection, Statement};

use crate::group::Group;
use crate::guest::{Each, Guest};
use crate::lock::Writer;
use crate::marks::Marks;
use crate::open::Shared;
use crate::row::{SqliteRow, bind};
use crate::waited::Waited;

/// How long a transaction waits for other threads' to end. A worker's batch takes milliseconds; a
/// script's statement `runtime.sql_write_budget_ms`.
const BEGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Nothing was written, so that it can hardly fail, and nothing is lost if it does.
const END_READING: &str = "COMMIT";

/// What a transaction is within a group of commits (`group.rs`).
const BEGIN_JOINED: &str = "SAVEPOINT joined";
const KEEP_JOINED: &str = "RELEASE joined";
const UNDO_JOINED: &str = "ROLLBACK TO joined";

/// What marks of jobs are.
const SET_MARK: &str = "SAVEPOINT job";
const UNDO_TO_MARK: &str = "ROLLBACK TO job";
const FORGET_MARK: &str = "RELEASE job";

/// A connection. A transaction that is open when it is dropped is rolled back.
pub struct Sqlite {
    conn: Connection,
    /// The shared one to write with, while this thread holds the write lock, if its commits gather.
    writer: Option<Connection>,
    pub(crate) shared: Arc<Shared>,
    path: PathBuf,
    budget: GuestBudget,
    guest: Option<Guest>,
    /// Whether a transaction of [`Database::begin`] is open. With one, or with a group, this
    /// connection holds the write lock.
    pub(crate) is_open: bool,
    /// With a group that is open an open transaction has joined it; with one that has failed too, and
    /// is lost then; otherwise it stands alone.
    pub(crate) group: Group,
    /// Where the open transaction can be taken back to.
    marks: Marks,
    /// Whether a transaction that only reads is open.
    is_reading: bool,
    /// SQLite has rolled the open transaction back by itself, as it does when the disk fails.
    is_lost: bool,
    /// Whether it has read or written since the last [`Database::sync`].
    is_touched: bool,
    /// Whether it waits for the write lock before it writes. Without, two write at once as far as
    /// SQLite lets them, and one of the two is told of a conflict.
    is_queued: bool,
    /// For others and the disk, but for what its scripts' statements waited.
    waited: Waited,
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
            writer: None,
            shared,
            path,
            budget,
            guest: None,
            is_open: false,
            group: Group::Never,
            marks: Marks::default(),
            is_reading: false,
            is_lost: false,
            is_touched: false,
            is_queued: true,
            waited: Waited::default(),
        }
    }

    /// From now on it does not wait for the write lock.
    pub(crate) fn unqueued(mut self) -> Self {
        self.is_queued = false;
        self
    }

    fn sort(&self, error: &rusqlite::Error) -> DbError {
        if self.is_queued {
            self.shared.reporter.own(error)
        } else {
            self.shared.reporter.unqueued(error)
        }
    }

    /// Takes the write lock, and SQLite's.
    fn lock_and_begin(&mut self) -> Result<(), DbError> {
        self.acquire()?;
        self.begin_writing().inspect_err(|_| self.release())
    }

    /// Runs a statement that takes SQLite's write lock.
    fn begin_writing(&self) -> Result<(), DbError> {
        if !self.is_queued {
            return self.control("BEGIN DEFERRED");
        }
        let begin = || self.conn().prepare_cached("BEGIN IMMEDIATE")?.raw_execute();
        let run = self.waited.during(|| self.shared.patience.take(self.conn(), begin));
        run.map(drop).map_err(|error| self.sort(&error))
    }

    /// Ends what [`Sqlite::begin_writing`] began, before the write lock is let go.
    pub(crate) fn end_writing(&self, is_well: bool) -> Result<(), DbError> {
        self.waited.during(|| self.write_log(is_well))
    }

    /// What may wait for the disk, now and then: the log begins anew, or is copied back.
    fn write_log(&self, is_well: bool) -> Result<(), DbError> {
        let commit = || pages::log::gathered(|| self.control("COMMIT"));
        let committed = if is_well { self.shared.committing(commit) } else { Ok(()) };
        if !self.conn().is_autocommit() {
            // A failed commit leaves the transaction open; nobody could finish it.
            let _ = self.control("ROLLBACK");
        }
        self.shared.copy_if_long(self.conn());
        // Not acknowledged, if there is no file any more that holds it.
        committed.and_then(|()| self.shared.check_file())
    }

    /// Runs a statement about the transaction itself.
    fn control(&self, sql: &str) -> Result<(), DbError> {
        let run = self.conn().prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        run.map(drop).map_err(|error| self.sort(&error))
    }

    /// The connection for the next statement: with the write lock the one that writes, which alone
    /// sees what is not committed yet.
    fn conn(&self) -> &Connection {
        self.writer.as_ref().unwrap_or(&self.conn)
    }

    fn acquire(&mut self) -> Result<(), DbError> {
        if !self.is_queued {
            return Ok(());
        }
        let lock = &self.shared.lock;
        if self.waited.during(|| lock.acquire(Writer::Server, BEGIN_PATIENCE)) {
            // Whose commits do not gather writes little, or, like the batcher, most: for both their own
            // connection is best, which for the batcher has the pages that it has just written.
            if self.group != Group::Never {
                self.writer = self.shared.take_writer();
            }
            return Ok(());
        }
        let patience_s = BEGIN_PATIENCE.as_secs();
        self.shared.reporter.stats.db_lock_timeouts.up();
        let cause = format!("other transactions took longer than {patience_s} s");
        Err(self.shared.reporter.machine("the database is busy", &cause))
    }

    /// Lets the write lock go.
    pub(crate) fn release(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.shared.give_writer(writer);
        }
        if self.is_queued {
            self.shared.lock.release();
        }
    }

    /// Ends the transaction for this connection, however it ended in the database.
    fn close(&mut self) {
        assert!(!self.has_joined(), "the lock is the group's");
        if std::mem::take(&mut self.is_open) {
            self.release();
        }
        (self.is_lost, self.marks) = (false, Marks::default());
    }

    /// Whether the open transaction is part of a group, which may be lost already.
    fn has_joined(&self) -> bool {
        self.is_open && matches!(self.group, Group::Open(_) | Group::Failed)
    }

    /// Ends a transaction that joined a group.
    fn end_joined(&mut self, is_well: bool) -> Result<(), DbError> {
        let ended = self.check_lost().and_then(|()| {
            let undone = if is_well { Ok(()) } else { self.control(UNDO_JOINED) };
            undone.and_then(|()| self.control(KEEP_JOINED))
        });
        if ended.is_err() && self.is_grouped() {
            let _ = self.control("ROLLBACK");
            self.lose_group();
        }
        (self.is_open, self.is_lost, self.marks) = (false, false, Marks::default());
        ended
    }

    /// SQLite may have rolled back by itself what is open.
    fn look_for_loss(&mut self) {
        if (self.is_open || self.is_grouped()) && !self.is_lost && self.conn().is_autocommit() {
            self.is_lost = self.is_open;
            if self.is_grouped() {
                self.lose_group();
            }
        }
    }

    fn check_lost(&mut self) -> Result<(), DbError> {
        self.look_for_loss();
        if self.is_lost {
            // Why is in the log: the statement that lost it has said so.
            return Err(DbError::Machine("the transaction was rolled back".into()));
        }
        Ok(())
    }

    /// For what is done within a transaction of [`Database::begin`].
    fn check_open(&self) -> Result<(), DbError> {
        if self.is_open { Ok(()) } else { Err(DbError::Statement("no transaction is open".into())) }
    }

    /// The same, if it is still there.
    fn check_whole(&mut self) -> Result<(), DbError> {
        self.check_open()?;
        self.check_lost()
    }

    fn is_readonly(&self, sql: &str) -> Result<bool, DbError> {
        let statement = self.conn().prepare_cached(sql).map_err(|error| self.sort(&error))?;
        Ok(statement.readonly())
    }

    fn step<T>(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        act: impl FnOnce(&mut Statement<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, DbError> {
        if self.marks.are_pending() && !self.is_readonly(sql)? {
            self.control(SET_MARK)?;
            self.marks.set();
        }
        let prepared = self.conn().prepare_cached(sql);
        let mut statement = prepared.map_err(|error| self.sort(&error))?;
        bind(&mut statement, params, |error| self.sort(error))?;
        act(&mut statement).map_err(|error| self.sort(&error))
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
        if !self.is_open {
            self.end_old_group();
            self.check_group()?;
            if !self.is_reading && !self.is_grouped() {
                self.shared.glance_at_file()?;
            }
        }
        let holds = self.is_open || self.is_grouped();
        let locks = !holds && !self.is_readonly(sql)?;
        if locks {
            self.end_reading()?;
            self.lock_and_begin()?;
        }
        let mut result = self.step(sql, params, act);
        if locks && result.is_ok() {
            result = self.commit_or_gather().and(result);
        } else if locks {
            let _ = self.end_writing(false);
            self.release();
        }
        self.look_for_loss();
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
        // It has a connection of its own, and is to see what was written until now.
        self.end_group()?;
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
        if self.is_grouped() {
            let _ = self.control("ROLLBACK");
            self.lose_group();
        }
    }
}

impl Database for Sqlite {
    fn begin(&mut self) -> Result<(), DbError> {
        if self.is_open {
            return Err(DbError::Statement("a transaction is open already".into()));
        }
        self.end_old_group();
        self.check_group()?;
        if self.is_grouped() {
            self.control(BEGIN_JOINED)?;
            self.is_open = true;
            return Ok(());
        }
        self.end_reading()?;
        self.shared.check_file()?;
        self.lock_and_begin()?;
        self.is_open = true;
        self.is_touched = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DbError> {
        self.check_open()?;
        if self.has_joined() {
            self.shared.reporter.stats.db_commits_grouped.up();
            return self.end_joined(true);
        }
        if let Err(lost) = self.check_lost() {
            let _ = self.end_writing(false);
            self.close();
            return Err(lost);
        }
        (self.is_open, self.marks) = (false, Marks::default());
        self.commit_or_gather()
    }

    fn group_commits(&mut self) {
        // In memory, where readers wait for writers, there is no wait to share.
        if self.group == Group::Never && self.shared.has_log() && self.is_queued {
            self.group = Group::Closed;
        }
    }

    fn commit_group(&mut self) -> Result<(), DbError> {
        self.end_group()
    }

    fn rest(&mut self, is_for_long: bool) {
        if self.is_open {
            return;
        }
        if is_for_long {
            let _ = self.end_group();
        } else {
            self.end_old_group();
        }
    }

    fn is_synced(&self) -> bool {
        let is_told = matches!(self.group, Group::Never | Group::Closed);
        is_told && (!self.is_touched || self.shared.is_synced())
    }

    fn sync(&mut self) {
        assert!(
            !self.is_grouped() && !self.has_joined(),
            "a group is committed before it is synced"
        );
        if self.group == Group::Failed {
            self.group = Group::Closed;
        }
        if !self.is_synced() {
            self.waited.during(|| self.shared.sync());
        }
        self.is_touched = self.is_open;
    }

    fn waited_us(&self) -> u64 {
        self.waited.us() + self.guest.as_ref().map_or(0, Guest::waited_us)
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        self.check_open()?;
        if self.has_joined() {
            return self.end_joined(false);
        }
        let result = if self.conn().is_autocommit() { Ok(()) } else { self.control("ROLLBACK") };
        self.close();
        result
    }

    fn in_transaction(&self) -> bool {
        self.is_open
    }

    fn savepoint(&mut self) -> Result<(), DbError> {
        self.check_whole()?;
        self.marks.add();
        Ok(())
    }

    fn undo_to_savepoint(&mut self) -> Result<(), DbError> {
        self.check_whole()?;
        if self.marks.undo() { self.control(UNDO_TO_MARK) } else { Ok(()) }
    }

    fn release_savepoint(&mut self) -> Result<(), DbError> {
        self.check_whole()?;
        if self.marks.forget() { self.control(FORGET_MARK) } else { Ok(()) }
    }

    fn note_retry(&mut self) {
        self.shared.reporter.stats.db_retries.up();
    }

    fn begin_reading(&mut self) -> Result<(), DbError> {
        if !self.is_open && !self.is_reading && !self.is_grouped() {
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
