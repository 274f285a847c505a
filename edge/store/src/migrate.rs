//! Brings a database's tables up to date: runs the steps of `game::schema` that it lacks, all in
//! one transaction, so that it is wholly as before or wholly up to date. Before that a copy of the
//! file is made, unless it is new (`copy.rs`).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use game::schema::{Migration, SCHEMA_VERSION};
use rusqlite::{Connection, TransactionBehavior};

use crate::copy;
use crate::error::{OpenError, failure};

/// Runs the steps that the database lacks.
pub(crate) fn migrate(
    conn: &mut Connection,
    path: &Path,
    is_file: bool,
    steps: &[Migration],
) -> Result<(), OpenError> {
    let known = steps.last().map_or(0, |step| step.version);
    let found = version(conn).map_err(|error| failure(path, &error))?;
    match found {
        Some(found) if found > known => {
            return Err(OpenError::Newer { path: path.to_owned(), found, known });
        }
        Some(found) if found == known => return Ok(()),
        Some(_) | None => {}
    }
    let found = found.unwrap_or(0);
    // Nobody else can have changed it since: the folder is locked.
    let copy =
        if is_file && found > 0 { Some(copy::make(conn, path, found, known)?) } else { None };
    let pending: Vec<&Migration> = steps.iter().filter(|step| step.version > found).collect();
    if found > 0 {
        tracing::info!(found, known, "bringing the database schema up to date");
    }
    if let Err(Failed { step, error }) = run(conn, &pending) {
        if let Some(copy) = &copy {
            copy::remove(copy);
        }
        return Err(match (failure(path, &error), step) {
            (damaged @ OpenError::NotADatabase { .. }, _) => damaged,
            // Also where SQLite says that it cannot write: a file for sorting may be meant.
            (_, Some((version, name))) => {
                let (path, cause) = (path.to_owned(), error.to_string());
                OpenError::Migration { path, found, version, name, cause }
            }
            (known, None) => known,
        });
    }
    for step in pending {
        tracing::info!(
            version = step.version,
            name = step.name,
            "database schema brought up to date"
        );
    }
    if is_file {
        copy::prune(path);
    }
    Ok(())
}

struct Failed {
    /// Version and name, unless it was the transaction itself.
    step: Option<(i64, &'static str)>,
    error: rusqlite::Error,
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self { step: None, error }
    }
}

fn run(conn: &mut Connection, steps: &[&Migration]) -> Result<(), Failed> {
    // An index of a large table is sorted in pieces, not as a whole in memory.
    conn.execute_batch("PRAGMA temp_store = FILE")?;
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA_VERSION)?;
    let mut running = None;
    for step in steps {
        running = Some((step.version, step.name));
        run_step(&transaction, step).map_err(|error| Failed { step: running, error })?;
    }
    // Most of the log is written here: where the disk is full it says so, of the last step.
    transaction.commit().map_err(|error| Failed { step: running, error })?;
    // What was committed has happened, whatever comes of this.
    let _ = conn.execute_batch("PRAGMA temp_store = MEMORY");
    Ok(())
}

fn run_step(conn: &Connection, step: &Migration) -> Result<(), rusqlite::Error> {
    for sql in step.sql {
        conn.execute_batch(sql)?;
    }
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let applied_ms = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    conn.execute(
        "INSERT INTO schema_version (version, name, applied_ms) VALUES (?1, ?2, ?3)",
        (step.version, step.name, applied_ms),
    )?;
    Ok(())
}

/// The version of the last step that was run; `None` for a database in which there never was one.
fn version(conn: &Connection) -> Result<Option<i64>, rusqlite::Error> {
    let sql = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'schema_version'";
    let is_ours = conn.query_row(sql, [], |row| row.get::<_, i64>(0))? > 0;
    if !is_ours {
        return Ok(None);
    }
    let sql = "SELECT COALESCE(MAX(version), 0) FROM schema_version";
    conn.query_row(sql, [], |row| row.get(0)).map(Some)
}
