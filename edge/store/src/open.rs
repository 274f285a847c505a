//! Opening a database: the folder, the file, its settings and its tables. Every way in which this
//! fails names the path and what to do about it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use game::schema::{MIGRATIONS, Migration};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use thiserror::Error;

use crate::lock::WriteLock;
use crate::migrate::{self, Refusal};
use crate::sqlite::Sqlite;

/// The database's file in the data folder.
pub const DATABASE_FILE: &str = "throng.db";

/// Prepared statements that a connection keeps: those of the game, and some of scripts.
const STATEMENTS_MAX: usize = 256;

/// Bytes of a page; only matters when a file is made. Registering touches random pages, and each
/// goes to the log as a whole: measured in batches of 64 on 120,000 users (2026-11, 2 shared
/// cores), CPU time a registration is 34 µs with 8,192, 29 with 4,096, 26 with 2,048 and 27 with
/// 1,024 bytes.
const PAGE_BYTES: u32 = 2_048;

/// Memory for pages, per connection, KiB.
const CACHE_KIB: u32 = 65_536;

/// The log is copied back into the file when it has grown by so many pages (16 MiB): seldom enough
/// that pages which change often are copied once, often enough that it takes milliseconds. With
/// SQLite's default of 1,000 pages a registration costs a third more.
const CHECKPOINT_PAGES: u32 = 8_192;

/// After a checkpoint the log's file is cut to this, bytes.
const LOG_KEPT_BYTES: u32 = 64 << 20;

/// How long SQLite itself waits for other processes, such as a backup, milliseconds.
const OTHER_PROCESS_PATIENCE_MS: u32 = 5_000;

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
    /// A step of the schema failed; it and those after it are not done.
    #[error(
        "cannot bring {path} to schema version {version} ({name}): {cause}; the database is \
         unchanged, start the version of throng that wrote it, and report this"
    )]
    Migration {
        /// The file.
        path: PathBuf,
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
    /// Anything else.
    #[error("cannot open {path}: {cause}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: String,
    },
}

/// An opened database, from which every thread gets its connection. Can be shared by threads.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    is_file: bool,
    lock: Arc<WriteLock>,
    /// Locked while the store lives, so that no second server uses the folder.
    in_use: Option<File>,
    /// Keeps a database in memory alive until the store goes.
    _keeper: Mutex<Connection>,
}

impl Store {
    /// Opens the database in `data_dir`, both made if they are missing, and brings its tables up
    /// to date.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        Self::open_with(data_dir, MIGRATIONS)
    }

    /// As [`Store::open`], for tests of the migrations themselves.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(data_dir: &Path, migrations: &[Migration]) -> Result<Self, OpenError> {
        std::fs::create_dir_all(data_dir)
            .map_err(|cause| OpenError::Folder { path: data_dir.to_owned(), cause })?;
        let in_use = occupy(data_dir)?;
        let mut store = Self::start(data_dir.join(DATABASE_FILE), true, migrations)?;
        store.in_use = Some(in_use);
        Ok(store)
    }

    /// A database that is gone when the store and all its connections are; for tests. Readers and
    /// the writer exclude each other in it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_in_memory() -> Result<Self, OpenError> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("file:/throng-{serial}?vfs=memdb"));
        Self::start(path, false, MIGRATIONS)
    }

    fn start(path: PathBuf, is_file: bool, steps: &[Migration]) -> Result<Self, OpenError> {
        let mut conn = connect(&path, is_file).map_err(|error| failure(&path, &error))?;
        migrate::migrate(&mut conn, steps).map_err(|refusal| match refusal {
            Refusal::Newer { found } => {
                let known = steps.last().map_or(0, |step| step.version);
                OpenError::Newer { path: path.clone(), found, known }
            }
            Refusal::Failed { version, name, error } => match failure(&path, &error) {
                OpenError::Other { path, cause } => {
                    OpenError::Migration { path, version, name, cause }
                }
                known => known,
            },
            Refusal::Unreadable(error) => failure(&path, &error),
        })?;
        if is_file {
            // A file that can be read but not written opens well, and fails at the first player.
            conn.execute_batch("BEGIN IMMEDIATE; ROLLBACK")
                .map_err(|error| failure(&path, &error))?;
        }
        Ok(Self { path, is_file, lock: Arc::default(), in_use: None, _keeper: Mutex::new(conn) })
    }

    /// A connection for one thread.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn connect(&self) -> Result<Sqlite, OpenError> {
        connect(&self.path, self.is_file)
            .and_then(|conn| Sqlite::new(conn, Arc::clone(&self.lock)))
            .map_err(|error| failure(&self.path, &error))
    }
}

/// Takes the folder for this process: a lock that the system lets go when the process ends, however
/// it ends (flock(2)).
fn occupy(data_dir: &Path) -> Result<File, OpenError> {
    let path = data_dir.join("throng.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file =
        file.map_err(|cause| OpenError::ReadOnly { path: path.clone(), cause: cause.to_string() })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path }),
        Err(TryLockError::Error(cause)) => Err(OpenError::Other { path, cause: cause.to_string() }),
    }
}

fn connect(path: &Path, is_file: bool) -> Result<Connection, rusqlite::Error> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !is_file {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let conn = Connection::open_with_flags(path, flags)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans must not depend on bound values: with partial indexes SQLite would else prepare a
    // statement anew for every value, a third of the time of a login.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(&format!(
        "PRAGMA busy_timeout = {OTHER_PROCESS_PATIENCE_MS};
         PRAGMA page_size = {PAGE_BYTES};
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF;
         PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = {LOG_KEPT_BYTES};"
    ))?;
    Ok(conn)
}

fn failure(path: &Path, error: &rusqlite::Error) -> OpenError {
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
