//! Copies the log back into the database's file, on a thread of its own: whoever commits only says
//! how long the log has become. Most of it is copied while others write; for the last pages the
//! write lock is held, so that the log is copied whole and the next writer begins it anew. A reader of an older state
//! keeps it from that; where that lasts until the log is too long, writers wait for those who read by then.
//!
//! Not here: the last checkpoint of all, which SQLite makes when the last connection is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use crate::failure::Reporter;
use crate::lock::{WriteLock, Writer};

/// The log is copied back when it has so many pages (64 MiB): seldom enough that pages which change
/// often are copied once, often enough that it stays in the system's memory. With SQLite's default
/// of 1,000 pages a registration costs clearly more.
pub(crate) const CHECKPOINT_PAGES: u32 = 32_768;

/// When the log has become so long all the same (128 MiB), because the thread is not given the time,
/// whoever commits copies it.
const LOG_PAGES_MAX: u32 = 2 * CHECKPOINT_PAGES;

/// How long the thread waits, with the write lock, for those who read older states of a log that is too long, and once more
/// for all who read it. Statements of guests have less (`runtime.sql_budget_ms`, 500 by default).
const READERS_PATIENCE: Duration = Duration::from_secs(1);

/// How long the thread waits for the write lock; then the log goes on until the next commit.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Between those who commit and the thread.
#[derive(Debug, Default)]
struct Bell {
    is_over: Mutex<bool>,
    changed: Condvar,
    /// The log is long, and not copied yet. Who sets it takes the lock before he notifies.
    is_due: AtomicBool,
    /// It is so long that whoever committed is to copy it.
    is_too_long: AtomicBool,
}

impl Bell {
    /// The log is long.
    fn ring(&self) {
        if !self.is_due.swap(true, Ordering::Relaxed) {
            drop(self.is_over.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to copy; `false` at the end.
    fn wait(&self) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let sleeps = |is_over: &mut bool| !*is_over && !self.is_due.load(Ordering::Relaxed);
        let waited = self.changed.wait_while(is_over, sleeps);
        !*waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// The log is copied. What was committed meanwhile is a part of that: who finds it long still
    /// rings again.
    fn copied(&self) {
        self.is_due.store(false, Ordering::Relaxed);
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread. `conn` is its own.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn start(
        conn: Connection,
        lock: Arc<WriteLock>,
        reporter: Arc<Reporter>,
    ) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        conn.busy_timeout(READERS_PATIENCE).map_err(std::io::Error::other)?;
        let copier = Copier { bell: Arc::clone(&bell), conn, lock, reporter };
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        Ok(Self { thread: Some(thread.spawn(move || copier.run())?), bell })
    }

    /// From now on the thread hears of this connection's commits, and SQLite copies nothing as a
    /// part of them, unless the log has become too long.
    ///
    /// # Errors
    /// If SQLite has no memory left.
    pub(crate) fn listen(&self, conn: &mut Connection) -> Result<(), rusqlite::Error> {
        let bell = Arc::clone(&self.bell);
        conn.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            let pages = u32::try_from(pages).unwrap_or(0);
            if pages >= CHECKPOINT_PAGES {
                bell.ring();
            }
            if pages >= LOG_PAGES_MAX {
                bell.is_too_long.store(true, Ordering::Relaxed);
            }
            Ok(())
        }))
    }

    /// Copies the log if the thread was not given the time. The connection has just committed, and
    /// holds the write lock.
    pub(crate) fn copy_if_long(&self, conn: &Connection) {
        if self.bell.is_too_long.load(Ordering::Relaxed) {
            self.bell.is_too_long.store(false, Ordering::Relaxed);
            // It fails while the thread copies, which is as good.
            let _ = copy(conn);
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.bell.end();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is in the log already, and there is nothing else to do about it.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Copier {
    bell: Arc<Bell>,
    conn: Connection,
    lock: Arc<WriteLock>,
    reporter: Arc<Reporter>,
}

impl Copier {
    fn run(self) {
        while self.bell.wait() {
            self.reporter.stats.db_checkpoints.up();
            if let Err(error) = self.copy_all() {
                // The log is whole all the same, and the next commit asks again.
                let _ = self.reporter.own(&error);
            }
            self.bell.copied();
        }
    }

    fn copy_all(&self) -> Result<(), rusqlite::Error> {
        copy(&self.conn)?;
        // What was written meanwhile.
        copy(&self.conn)?;
        // The rest, which is little: only a log that is copied whole is begun anew.
        if self.lock.acquire(Writer::Server, LOCK_PATIENCE) {
            let mut left = copy(&self.conn);
            if matches!(left, Ok(pages) if pages >= LOG_PAGES_MAX) {
                // Who begins to read while nobody writes reads the newest state, and keeps nothing.
                left = checkpoint(&self.conn, "PRAGMA wal_checkpoint(RESTART)");
            }
            self.lock.release();
            left?;
        }
        Ok(())
    }
}

/// Copies what is there now, as far as readers of older states let it. Gives how many pages the log has, 0 if all of them
/// are copied.
fn copy(conn: &Connection) -> Result<u32, rusqlite::Error> {
    checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)")
}

fn checkpoint(conn: &Connection, sql: &str) -> Result<u32, rusqlite::Error> {
    let mut statement = conn.prepare_cached(sql)?;
    // Whether somebody was in the way, and -1 twice if there is no log.
    let (log, copied): (i64, i64) =
        statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    Ok(if copied < log { u32::try_from(log).unwrap_or(u32::MAX) } else { 0 })
}
