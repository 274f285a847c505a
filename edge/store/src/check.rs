//! What is looked at before a database is used: that its file is there if its log is, and that its
//! pages are whole (`database.check`).

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use crate::error::{OpenError, failure};
use crate::watch::beside;

/// Findings that are told of a damaged database.
const FINDINGS_MAX: usize = 5;

/// How thoroughly a database is checked when it is opened: `database.check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Not at all: what is damaged shows when it is read.
    Off,
    /// Every page and row, but not whether indexes agree with their tables. Reads the whole file.
    #[default]
    Quick,
    /// Indexes as well.
    Full,
}

/// Refuses to make a new database beside what is left of another one.
pub(crate) fn orphan(database: &Path) -> Result<(), OpenError> {
    let state = match std::fs::metadata(database) {
        Ok(found) if found.len() == 0 => "empty",
        Ok(_) => return Ok(()),
        Err(_) => "missing",
    };
    // A log without content holds nothing; the index of a log is only there with a database.
    let left = [(beside(database, "-wal"), 1), (beside(database, "-shm"), 0)];
    for (path, bytes_min) in left {
        if std::fs::metadata(&path).is_ok_and(|found| found.len() >= bytes_min) {
            return Err(OpenError::Orphan { path: database.to_owned(), state, beside: path });
        }
    }
    Ok(())
}

/// Reads the database through, as thoroughly as asked for.
pub(crate) fn integrity(conn: &Connection, path: &Path, check: Check) -> Result<(), OpenError> {
    let sql = match check {
        Check::Off => return Ok(()),
        Check::Quick => format!("PRAGMA quick_check({FINDINGS_MAX})"),
        Check::Full => format!("PRAGMA integrity_check({FINDINGS_MAX})"),
    };
    let started = Instant::now();
    let findings: Result<Vec<String>, rusqlite::Error> = conn
        .prepare(&sql)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect());
    let findings = findings.map_err(|error| failure(path, &error))?;
    if findings.iter().any(|finding| finding != "ok") {
        return Err(OpenError::Damaged { path: path.to_owned(), findings });
    }
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(took_ms, ?check, "the database is whole (`database.check`)");
    Ok(())
}
