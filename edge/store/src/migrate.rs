//! Brings a database's tables up to date: runs the steps of `game::schema` that it lacks, each in
//! its own transaction, so that a crash leaves a whole number of steps done.

use std::time::{SystemTime, UNIX_EPOCH};

use game::schema::{Migration, SCHEMA_VERSION};
use rusqlite::{Connection, TransactionBehavior};

/// Why the tables cannot be brought up to date.
pub(crate) enum Refusal {
    /// A newer program wrote it.
    Newer { found: i64 },
    /// A step failed.
    Failed { version: i64, name: &'static str, error: rusqlite::Error },
    /// The list of steps cannot be read.
    Unreadable(rusqlite::Error),
}

/// Runs the steps that the database lacks; tells how many.
pub(crate) fn migrate(conn: &mut Connection, steps: &[Migration]) -> Result<usize, Refusal> {
    conn.execute_batch(SCHEMA_VERSION).map_err(Refusal::Unreadable)?;
    let known = steps.last().map_or(0, |step| step.version);
    let found = version(conn).map_err(Refusal::Unreadable)?;
    if found > known {
        return Err(Refusal::Newer { found });
    }
    let mut run_count = 0;
    for step in steps.iter().filter(|step| step.version > found) {
        let ran = run(conn, step).map_err(|error| Refusal::Failed {
            version: step.version,
            name: step.name,
            error,
        })?;
        run_count += usize::from(ran);
    }
    Ok(run_count)
}

/// Runs one step, unless another process has done so meanwhile.
fn run(conn: &mut Connection, step: &Migration) -> Result<bool, rusqlite::Error> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&transaction)? >= step.version {
        return Ok(false);
    }
    for sql in step.sql {
        transaction.execute_batch(sql)?;
    }
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let applied_ms = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
    transaction.execute(
        "INSERT INTO schema_version (version, name, applied_ms) VALUES (?1, ?2, ?3)",
        (step.version, step.name, applied_ms),
    )?;
    transaction.commit()?;
    tracing::info!(version = step.version, name = step.name, "database schema brought up to date");
    Ok(true)
}

fn version(conn: &Connection) -> Result<i64, rusqlite::Error> {
    conn.query_row("SELECT COALESCE(MAX(version), 0) FROM schema_version", [], |row| row.get(0))
}
