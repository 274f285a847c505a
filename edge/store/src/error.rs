//! Why a database cannot be opened. Every text names the path and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

/// Why the database cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The data folder is not there and cannot be made.
    #[error(
        "cannot create the data folder {path}: {cause}; create it, or choose another one with \
         --data_dir"
    )]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The data folder is a file, or lies below one.
    #[error(
        "{path} is a file, or lies below one, and is to be a folder; choose one with --data_dir"
    )]
    NotAFolder {
        /// What was to be the folder.
        path: PathBuf,
    },
    /// The folder or the file cannot be written to.
    #[error(
        "cannot write to {path}: {cause}; let this user write to the folder and the files in it, \
         or choose another folder with --data_dir"
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
    /// The file is something else, or damaged.
    #[error(
        "{path} is no SQLite database, or it is damaged: {cause}; restore a backup, or move the \
         file away to start with an empty database"
    )]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
    /// A newer version of this program has changed the tables.
    #[error(
        "{path} has schema version {found}, but this version of throng knows only {known}; start \
         the version that wrote it or a newer one, or restore an older backup"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// A step of the schema failed; none is done.
    #[error(
        "cannot bring {path} to schema version {version} ({name}): {cause}; the database is as it \
         was, with schema version {found}, and the version of throng that wrote it can go on with \
         it. An upgrade needs room for its log beside the database, and a folder to write temporary \
         files to (TMPDIR, /var/tmp or /tmp); if it had both, report this"
    )]
    Migration {
        /// The file.
        path: PathBuf,
        /// The version before.
        found: i64,
        /// The step.
        version: i64,
        /// What it brings.
        name: &'static str,
        /// What SQLite says.
        cause: String,
    },
    /// Another server has the folder.
    #[error(
        "{path} is in use by another throng: sessions and matches of two servers on one folder \
         would not know of each other; stop it, or choose another folder with --data_dir"
    )]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// Another process is writing and does not stop.
    #[error(
        "{path} is locked by another process: {cause}; stop the other throng (or the backup) that \
         uses this folder, or choose another one with --data_dir"
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
    /// The log that belongs to a database is there, and the database is not: SQLite would make an
    /// empty one and throw the log away.
    #[error(
        "{path} is {state}, but {beside} is there, which belongs to it: put the database back, or \
         restore a backup; to start with an empty database move {beside} away"
    )]
    Orphan {
        /// The database's file.
        path: PathBuf,
        /// `missing` or `empty`.
        state: &'static str,
        /// What is left of it.
        beside: PathBuf,
    },
    /// The check at the start found damage.
    #[error(
        "{path} is damaged: {}; restore a backup, or save what can be read with `sqlite3 {path} \
         .recover`; `database.check: off` starts all the same",
        .findings.join(", ")
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found, the first few.
        findings: Vec<String>,
    },
    /// Tables or columns that the schema version promises are not there.
    #[error(
        "{path} lacks {}, which schema version {known} has: restore a backup",
        .missing.join(", ")
    )]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// `table`, `table.column` or `index`.
        missing: Vec<String>,
        /// The file's version, and ours.
        known: i64,
    },
    /// There is no room for the copy that is made before an upgrade.
    #[error(
        "{path} has to be upgraded, and a copy of it is made before: that needs {needed_mib} MiB, \
         but only {free_mib} are free; make room, or go on with the version of throng that wrote it"
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// What is needed, MiB.
        needed_mib: u64,
        /// What is free, MiB.
        free_mib: u64,
    },
    /// The copy before an upgrade cannot be made.
    #[error(
        "{path} has to be upgraded, and a copy of it is made before, which failed: {cause} \
         ({copy}); nothing was changed"
    )]
    Copy {
        /// The file.
        path: PathBuf,
        /// Where the copy would be.
        copy: PathBuf,
        /// What went wrong.
        cause: String,
    },
    /// Anything else.
    #[error("cannot open {path}: {cause}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
}

/// Sorts what SQLite says while a database is opened.
pub(crate) fn failure(path: &Path, error: &rusqlite::Error) -> OpenError {
    let (path, cause) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            OpenError::ReadOnly { path, cause }
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            OpenError::NotADatabase { path, cause }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            OpenError::Busy { path, cause }
        }
        _ => OpenError::Other { path, cause },
    }
}
