//! What SQLite's failures mean for the game: something exists already, a script's statement is
//! wrong or too expensive, or our side failed. What our side did wrong goes to the log here, with
//! its cause and at most once a second for each kind, because clients are only told that something
//! did.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use event::{Now, OncePerSecond};
use game::db::{DbError, GuestBudget};
use rusqlite::ErrorCode;

use crate::stats::StoreStats;

/// How the log says that another process is in the way.
const HELD: &str = "another process holds the database";

/// Sorts errors, and tells the log. Shared by all connections of a database, so that a full disk is
/// one line a second, not one for every thread and request.
#[derive(Debug)]
pub(crate) struct Reporter {
    started: Instant,
    once: Mutex<OncePerSecond>,
    pub(crate) stats: Arc<StoreStats>,
}

impl Default for Reporter {
    fn default() -> Self {
        Self { started: Instant::now(), once: Mutex::default(), stats: Arc::default() }
    }
}

impl Reporter {
    /// Sorts what one of the game's own statements ran into.
    pub(crate) fn own(&self, error: &rusqlite::Error) -> DbError {
        if is_stale(error) {
            return self.conflict(error);
        }
        exists(error).unwrap_or_else(|| self.machine(kind(error), &cause(error)))
    }

    /// The same where another writer may hold the database, and nobody waits for it.
    pub(crate) fn unqueued(&self, error: &rusqlite::Error) -> DbError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => self.conflict(error),
            _ => self.own(error),
        }
    }

    fn conflict(&self, error: &rusqlite::Error) -> DbError {
        self.stats.db_conflicts.up();
        DbError::Conflict { cause: cause(error) }
    }

    /// Sorts what a script's statement ran into. Errors of the statement itself are the script's
    /// to read, and not the log's.
    pub(crate) fn guest(&self, error: &rusqlite::Error, budget: &GuestBudget) -> DbError {
        if let Some(exists) = exists(error) {
            return exists;
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => {
                self.stats.sql_over_limit.up();
                let bytes = budget.value_bytes_max;
                DbError::Limit {
                    what: format!("a text, blob or row has more than {bytes} bytes"),
                    setting: "runtime.sql_value_max_bytes",
                }
            }
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                self.stats.sql_refused.up();
                DbError::Statement(cause(error))
            }
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NotADatabase
                | ErrorCode::InternalMalfunction,
            ) => self.machine(kind(error), &cause(error)),
            _ => DbError::Statement(cause(error)),
        }
    }

    /// A failure of our side: counts it, and logs it unless its kind was logged a moment ago.
    pub(crate) fn machine(&self, kind: &'static str, cause: &str) -> DbError {
        if kind == HELD {
            self.stats.db_busy.up();
        }
        self.stats.db_errors.up();
        self.say(kind, cause);
        DbError::Machine(cause.to_owned())
    }

    /// Logs an error, once a second for each kind.
    pub(crate) fn say(&self, kind: &'static str, cause: &str) {
        let since = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Now { mono_ns: since, unix_ms: 0 };
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let said = once.note(now, kind);
        drop(once);
        if let Some(unsaid) = said {
            tracing::error!(unsaid, "{kind}: {cause} (said once a second)");
        }
    }
}

/// Whether a transaction was to write that has read what another one has changed since.
fn is_stale(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _)
        if failure.extended_code == rusqlite::ffi::SQLITE_BUSY_SNAPSHOT)
}

/// Whether a row was refused because its key exists already.
fn exists(error: &rusqlite::Error) -> Option<DbError> {
    let rusqlite::Error::SqliteFailure(failure, Some(text)) = error else { return None };
    if failure.code != ErrorCode::ConstraintViolation {
        return None;
    }
    let (_, what) = text.split_once("UNIQUE constraint failed: ")?;
    Some(DbError::Exists { what: what.to_owned() })
}

fn cause(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        rusqlite::Error::SqliteFailure(failure, None) => failure.to_string(),
        error => error.to_string(),
    }
}

/// What stands before the cause in the log: who has to do what.
fn kind(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HELD,
        Some(ErrorCode::DiskFull) => "the disk with the database is full",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "the database is read-only",
        Some(ErrorCode::OutOfMemory) => "there is no memory left for the database",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the database is damaged, restore a backup"
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            "the database cannot be read or written"
        }
        _ => "a statement of the server failed in the database",
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Error::SqliteFailure;
    use rusqlite::ffi;

    use super::{DbError, GuestBudget, Reporter};

    fn failure(code: i32, text: &str) -> rusqlite::Error {
        SqliteFailure(ffi::Error::new(code), Some(text.to_owned()))
    }

    #[test]
    fn clients_hear_nothing_of_a_cause_and_scripts_of_their_own_mistakes() {
        let reporter = Reporter::default();
        let own = reporter.own(&failure(ffi::SQLITE_FULL, "database or disk is full"));
        assert_eq!(own.to_string(), "database error");
        assert_eq!(own, DbError::Machine("database or disk is full".into()));
        let missing = failure(ffi::SQLITE_ERROR, "no such table: users");
        assert_eq!(reporter.own(&missing).to_string(), "database error");
        let guest = |error| reporter.guest(&error, &GuestBudget::DEFAULT).to_string();
        assert_eq!(guest(missing), "bad statement: no such table: users");
        assert_eq!(guest(failure(ffi::SQLITE_CORRUPT, "malformed")), "database error");
        let exists = failure(ffi::SQLITE_CONSTRAINT, "UNIQUE constraint failed: t.a");
        assert_eq!(reporter.own(&exists).to_string(), "t.a exists already");
        let stale = failure(ffi::SQLITE_BUSY_SNAPSHOT, "database is locked");
        let conflict = DbError::Conflict { cause: "database is locked".into() };
        assert_eq!(reporter.own(&stale), conflict);
        let busy = failure(ffi::SQLITE_BUSY, "database is locked");
        assert_eq!(reporter.unqueued(&busy), conflict);
        let samples = reporter.stats.samples();
        assert!(samples.iter().any(|one| one.name == "db_conflicts" && one.value == 2));
        assert!(samples.iter().any(|one| one.name == "db_errors" && one.value == 3), "{samples:?}");
    }
}
