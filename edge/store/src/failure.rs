//! What SQLite's failures mean for the game: something exists already, the statement is wrong, or
//! the machine failed.

use game::db::DbError;
use rusqlite::ErrorCode;

/// Sorts one of SQLite's errors. What the machine did wrong goes to the log here, because clients
/// are only told that something did.
pub(crate) fn sort(error: &rusqlite::Error) -> DbError {
    let sorted = kind(error);
    if let DbError::Machine(cause) = &sorted {
        tracing::error!("the database failed: {cause}");
    }
    sorted
}

fn kind(error: &rusqlite::Error) -> DbError {
    let rusqlite::Error::SqliteFailure(failure, text) = error else {
        return DbError::Statement(error.to_string());
    };
    let text = text.clone().unwrap_or_else(|| failure.to_string());
    match failure.code {
        ErrorCode::ConstraintViolation => match text.split_once("UNIQUE constraint failed: ") {
            Some((_, what)) => DbError::Exists { what: what.to_owned() },
            None => DbError::Statement(text),
        },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            DbError::Machine(format!("another process holds the database: {text}"))
        }
        ErrorCode::DiskFull => DbError::Machine(format!("the disk is full: {text}")),
        ErrorCode::ReadOnly => DbError::Machine(format!("the database is read-only: {text}")),
        ErrorCode::PermissionDenied
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted
        | ErrorCode::OutOfMemory
        | ErrorCode::SystemIoFailure
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::SchemaChanged
        | ErrorCode::NotADatabase
        | ErrorCode::InternalMalfunction => DbError::Machine(text),
        ErrorCode::AuthorizationForStatementDenied => DbError::Statement(format!(
            "{text}: transactions, savepoints, PRAGMA and ATTACH are the server's own"
        )),
        _ => DbError::Statement(text),
    }
}
