//! Waiting for other processes that hold the database, such as a backup: the first transaction that
//! meets one waits for [`PATIENCE`]. When that was in vain the next ones do not wait at all, until
//! one of them succeeds: else each of the calls that wait in line would take as long again, one
//! after the other. Threads of this process wait for each other elsewhere (`lock.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

/// How long a transaction waits for another process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Shared by all connections of a database.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    is_over: AtomicBool,
}

impl Patience {
    /// Runs what takes SQLite's write lock.
    pub(crate) fn take<T>(
        &self,
        conn: &Connection,
        act: impl FnOnce() -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        let was_over = self.is_over.load(Ordering::Relaxed);
        if was_over {
            conn.busy_timeout(Duration::ZERO)?;
        }
        let result = act();
        if was_over {
            conn.busy_timeout(PATIENCE)?;
        }
        let is_busy = matches!(&result, Err(error)
            if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
        if is_busy != was_over {
            self.is_over.store(is_busy, Ordering::Relaxed);
        }
        result
    }
}
