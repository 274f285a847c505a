//! Copies the log back into the database's file, on a thread of its own: whoever commits only says
//! how long the log has become. Most of it is copied while others write; for the last pages the
//! write lock is held, so that the log is copied whole and the next writer begins it anew.
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

/// The log is copied back when it has so many pages (32 MiB): seldom enough that pages which change
/// often are copied once, often enough that it stays in the system's memory. With SQLite's default
/// of 1,000 pages a registration costs a third more.
pub(crate) const CHECKPOINT_PAGES: u32 = 16_384;

/// When the log has become so long all the same (128 MiB), because the thread is not given the time,
/// whoever commits copies it.
const LOG_PAGES_MAX: u32 = 4 * CHECKPOINT_PAGES;

/// How long the thread waits for the write lock; then the log goes on until the next commit.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// What the thread is told.
#[derive(Debug, Default)]
struct Told {
    is_due: bool,
    is_over: bool,
}

/// Between those who commit and the thread.
#[derive(Debug, Default)]
struct Bell {
    told: Mutex<Told>,
    changed: Condvar,
    /// As in `told`, to be seen without a lock.
    is_due: AtomicBool,
}

impl Bell {
    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits until there is something to copy; `false` at the end.
    fn wait(&self) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(told, |told| !told.is_due && !told.is_over);
        let mut told = waited.unwrap_or_else(PoisonError::into_inner);
        told.is_due = false;
        self.is_due.store(false, Ordering::Relaxed);
        !told.is_over
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
        conn.wal_hook(Some(move |log: &mut Wal, pages: i32| {
            let pages = u32::try_from(pages).unwrap_or(0);
            if pages >= CHECKPOINT_PAGES && !bell.is_due.swap(true, Ordering::Relaxed) {
                bell.tell(|told| told.is_due = true);
            }
            if pages >= LOG_PAGES_MAX {
                // It fails while the thread copies, which is as good.
                let _ = log.checkpoint();
            }
            Ok(())
        }))
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.bell.tell(|told| told.is_over = true);
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
        }
    }

    fn copy_all(&self) -> Result<(), rusqlite::Error> {
        self.copy()?;
        // What was written meanwhile.
        self.copy()?;
        // The rest, which is little: only a log that is copied whole is begun anew.
        if self.lock.acquire(Writer::Server, LOCK_PATIENCE) {
            let copied = self.copy();
            self.lock.release();
            copied?;
        }
        Ok(())
    }

    /// Copies what is there now, as far as readers of older states let it.
    fn copy(&self) -> Result<(), rusqlite::Error> {
        let mut statement = self.conn.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
        statement.query_row([], |_| Ok(()))
    }
}
