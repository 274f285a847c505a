//! Opening a database: the folder, the file, its settings and its tables. Every way in which this
//! fails names the path and what to do about it (`error.rs`).

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use game::db::{DbError, GuestBudget};
use game::schema::{MIGRATIONS, Migration};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::check::{self, Check};
use crate::checkpoint::{CHECKPOINT_PAGES, Checkpoints};
use crate::error::{OpenError, failure};
use crate::failure::Reporter;
use crate::group::HELD_MAX;
use crate::lock::WriteLock;
use crate::log::Log;
use crate::migrate;
use crate::own::OwnTables;
use crate::patience::{PATIENCE, Patience};
use crate::sqlite::Sqlite;
use crate::stats::StoreStats;
use crate::timer::Timer;
use crate::watch::FileWatch;

/// The database's file in the data folder.
pub const DATABASE_FILE: &str = "throng.db";

/// Prepared statements that a connection keeps: those of the game.
const STATEMENTS_MAX: usize = 256;

/// Bytes of a page; only matters when a file is made. Registering touches random pages, and each
/// goes to the log as a whole: measured in batches of 64 on 120,000 users (2026-11, 2 shared
/// cores), CPU time a registration is 34 µs with 8,192, 29 with 4,096, 26 with 2,048 and 27 with
/// 1,024 bytes (no record kept; `cargo run --release -p store --example accounts` prints it for the size
/// below).
const PAGE_BYTES: u32 = 2_048;

/// Memory for pages, per connection, KiB.
const CACHE_KIB: u32 = 65_536;

/// For how long a connection that does not queue waits for another writer, where it has not read yet.
const UNQUEUED_PATIENCE: Duration = Duration::from_millis(20);

/// After a checkpoint the log's file is cut to this, bytes: to more than it has when the next one begins, a frame
/// being a page and 24 bytes, and what is written during it, or it would be cut and grown again each time.
const LOG_KEPT_BYTES: u32 = CHECKPOINT_PAGES / 4 * 5 * (PAGE_BYTES + 24);

/// How a database is opened.
#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// `database.check`.
    pub check: Check,
    /// `runtime.sql_*`: what statements of scripts may use.
    pub guest: GuestBudget,
    /// The steps from nothing to now; others than the game's own are for tests.
    pub migrations: &'static [Migration],
    /// For how long commits gather at most (`group.rs`); others than the default are for tests.
    pub group_held_max: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        let (check, guest) = (Check::default(), GuestBudget::DEFAULT);
        Self { check, guest, migrations: MIGRATIONS, group_held_max: HELD_MAX }
    }
}

/// What all connections of a database share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) lock: Arc<WriteLock>,
    /// What threads whose commits gather write with (`group.rs`), while none of them does.
    writer: Mutex<Option<Connection>>,
    pub(crate) patience: Patience,
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) timer: Timer,
    /// `None` for a database in memory, which has no log.
    checkpoints: Option<Checkpoints>,
    pub(crate) own: Arc<OwnTables>,
    /// `None` for a database in memory.
    watch: Option<FileWatch>,
    /// As well.
    log: Option<Log>,
    pub(crate) group_held_max: Duration,
}

impl Shared {
    /// Another connection to the database, with the settings that all have.
    pub(crate) fn connect(&self, path: &Path) -> Result<Connection, rusqlite::Error> {
        let mut conn = connect(path, self.is_file())?;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.listen(&mut conn)?;
        }
        Ok(conn)
    }

    /// The shared connection to write with, for whoever has just got the write lock.
    pub(crate) fn take_writer(&self) -> Option<Connection> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        debug_assert!(writer.is_some(), "it comes with the lock");
        writer
    }

    /// Gives it back, before the lock.
    pub(crate) fn give_writer(&self, writer: Connection) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
    }

    pub(crate) fn is_file(&self) -> bool {
        self.watch.is_some()
    }

    /// Makes sure that the database's file is still there.
    pub(crate) fn check_file(&self) -> Result<(), DbError> {
        self.there(self.watch.as_ref().and_then(FileWatch::gone))
    }

    /// Commits, by `act`, with the write lock held.
    pub(crate) fn committing<T>(&self, act: impl FnOnce() -> T) -> T {
        match &self.log {
            Some(log) => log.committing(act),
            None => act(),
        }
    }

    /// Copies the log back if it is too long all the same; part of no commit, for which others wait.
    pub(crate) fn copy_if_long(&self, conn: &Connection) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.copy_if_long(conn);
        }
    }

    /// Whether there is a log, that is, a disk.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Whether all that was committed is on the disk.
    pub(crate) fn is_synced(&self) -> bool {
        self.log.as_ref().is_none_or(Log::is_synced)
    }

    /// Waits until all that was committed is on the disk.
    ///
    /// # Panics
    /// If the disk fails: nobody may be told of anything any more.
    #[expect(clippy::panic, reason = "what is durable is not known: the process ends")]
    pub(crate) fn sync(&self) {
        let Some(log) = &self.log else { return };
        match log.sync() {
            Ok(true) => self.reporter.stats.db_syncs.up(),
            Ok(false) => {}
            Err(error) => panic!(
                "the disk did not take the database's log: {error}. What was acknowledged is there; the \
                 server ends, because nothing more can be. Look after the disk, then start it again"
            ),
        }
    }

    /// The same, but looks only once a second: for those who read.
    pub(crate) fn glance_at_file(&self) -> Result<(), DbError> {
        self.there(self.watch.as_ref().and_then(FileWatch::glance))
    }

    fn there(&self, gone: Option<&Path>) -> Result<(), DbError> {
        let Some(path) = gone else { return Ok(()) };
        self.reporter.stats.db_file_missing.up();
        let cause = format!(
            "{}: nothing is acknowledged any more; put the file back, or stop the server and \
             restore a backup",
            path.display()
        );
        Err(self.reporter.machine("a file of the database was deleted or replaced", &cause))
    }
}

/// An opened database, from which every thread gets its connection. Can be shared by threads.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    guest: GuestBudget,
    shared: Arc<Shared>,
    /// Locked while the store lives, so that no second server uses the folder.
    _in_use: Option<File>,
    /// Keeps a database in memory alive until the store goes.
    _keeper: Mutex<Connection>,
}

impl Store {
    /// Opens the database in `data_dir`, both made if they are missing, checks it, and brings its
    /// tables up to date.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(data_dir: &Path) -> Result<Self, OpenError> {
        Self::open_with(data_dir, &StoreSettings::default())
    }

    /// As [`Store::open`], with settings.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_with(data_dir: &Path, settings: &StoreSettings) -> Result<Self, OpenError> {
        std::fs::create_dir_all(data_dir).map_err(|cause| {
            let path = data_dir.to_owned();
            match cause.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    OpenError::NotAFolder { path }
                }
                _ => OpenError::Folder { path, cause },
            }
        })?;
        let in_use = occupy(data_dir)?;
        let path = data_dir.join(DATABASE_FILE);
        check::orphan(&path)?;
        if !path.exists() {
            // Whoever expected the old one has another folder in mind, or has lost it.
            tracing::info!("no database in {}: a new, empty one is made", data_dir.display());
        }
        Self::start(path, Some(in_use), settings)
    }

    /// A database that is gone when the store and all its connections are; for tests. Readers and
    /// the writer exclude each other in it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_in_memory() -> Result<Self, OpenError> {
        Self::open_in_memory_with(&StoreSettings::default())
    }

    /// As [`Store::open_in_memory`], with settings.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_in_memory_with(settings: &StoreSettings) -> Result<Self, OpenError> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("file:/throng-{serial}?vfs=memdb"));
        Self::start(path, None, settings)
    }

    fn start(
        path: PathBuf,
        in_use: Option<File>,
        settings: &StoreSettings,
    ) -> Result<Self, OpenError> {
        let fail = |error: rusqlite::Error| failure(&path, &error);
        let (is_file, steps) = (in_use.is_some(), settings.migrations);
        let mut conn = connect(&path, is_file).map_err(fail)?;
        if is_file {
            check::integrity(&conn, &path, settings.check)?;
        }
        migrate::migrate(&mut conn, &path, is_file, steps)?;
        let own = OwnTables::of(steps).map_err(fail)?;
        let missing = own.missing_in(&conn).map_err(fail)?;
        if !missing.is_empty() {
            let known = steps.last().map_or(0, |step| step.version);
            return Err(OpenError::Incomplete { path, missing, known });
        }
        let mut is_on_disk = true;
        if is_file {
            // A file that can be read but not written opens well, and fails at the first player.
            conn.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(fail)?;
            // Whatever the last server wrote, and migrations just now: it may be in the system's memory
            // alone. Copied back whole it is on the disk.
            let copy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            is_on_disk = copy.map(|busy: i64| busy == 0).map_err(fail)?;
        }
        let shared = share(&path, is_file, own, settings.group_held_max)?;
        if !is_on_disk {
            // Another process reads it, so that the log stays.
            shared.committing(|| ());
            shared.sync();
        }
        Ok(Self {
            path,
            guest: settings.guest,
            shared: Arc::new(shared),
            _in_use: in_use,
            _keeper: Mutex::new(conn),
        })
    }

    /// A connection for one thread.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn connect(&self) -> Result<Sqlite, OpenError> {
        self.connect_with(self.guest)
    }

    /// A connection for one thread whose scripts have a budget of their own.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn connect_with(&self, guest: GuestBudget) -> Result<Sqlite, OpenError> {
        let conn = self.shared.connect(&self.path).map_err(|error| failure(&self.path, &error))?;
        Ok(Sqlite::new(conn, Arc::clone(&self.shared), self.path.clone(), guest))
    }

    /// A connection that does not wait for other writers: it begins to write when it first writes, as
    /// a transaction of another process may, and is told of a conflict
    /// ([`DbError::Conflict`]) where what it has read has changed, or another one is writing. With it
    /// tests show that what is right does not rest on the threads' queue. Scripts' statements wait all
    /// the same.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn connect_unqueued(&self) -> Result<Sqlite, OpenError> {
        let fail = |error: rusqlite::Error| failure(&self.path, &error);
        let conn = self.shared.connect(&self.path).map_err(fail)?;
        conn.busy_timeout(UNQUEUED_PATIENCE).map_err(fail)?;
        let (shared, path) = (Arc::clone(&self.shared), self.path.clone());
        Ok(Sqlite::new(conn, shared, path, self.guest).unqueued())
    }

    /// What has happened in the database since it was opened.
    #[must_use]
    pub fn stats(&self) -> Arc<StoreStats> {
        Arc::clone(&self.shared.reporter.stats)
    }
}

/// What the connections of a database share, with the threads that serve them.
fn share(
    path: &Path,
    is_file: bool,
    own: OwnTables,
    group_held_max: Duration,
) -> Result<Shared, OpenError> {
    let no_thread = |cause: std::io::Error| OpenError::Other {
        path: path.to_owned(),
        cause: format!("the system refuses a thread: {cause}"),
    };
    let (lock, reporter) = (Arc::<WriteLock>::default(), Arc::<Reporter>::default());
    let checkpoints = if is_file {
        let conn = connect(path, true).map_err(|error| failure(path, &error))?;
        let started = Checkpoints::start(conn, Arc::clone(&lock), Arc::clone(&reporter));
        Some(started.map_err(no_thread)?)
    } else {
        None
    };
    let log = is_file.then(|| Log::open(path)).transpose().map_err(|cause| OpenError::Other {
        path: path.to_owned(),
        cause: format!("its log cannot be opened: {cause}"),
    })?;
    let mut writer = connect(path, is_file).map_err(|error| failure(path, &error))?;
    if let Some(checkpoints) = &checkpoints {
        checkpoints.listen(&mut writer).map_err(|error| failure(path, &error))?;
    }
    Ok(Shared {
        lock,
        writer: Mutex::new(Some(writer)),
        patience: Patience::default(),
        reporter,
        timer: Timer::start().map_err(no_thread)?,
        checkpoints,
        own: Arc::new(own),
        watch: is_file.then(|| FileWatch::new(path)),
        log,
        group_held_max,
    })
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

/// Opens one connection, with the settings that all have.
pub(crate) fn connect(path: &Path, is_file: bool) -> Result<Connection, rusqlite::Error> {
    static TOLD: Once = Once::new();
    if !pages::install() {
        TOLD.call_once(|| {
            tracing::warn!(
                "SQLite was in use before: commits that split pages look at its whole cache"
            );
        });
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !is_file {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let conn = if is_file && pages::log::install() {
        Connection::open_with_flags_and_vfs(path, flags, pages::log::NAME)?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans must not depend on bound values: with partial indexes SQLite would else prepare a
    // statement anew for every value, much of the time of a login.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.busy_timeout(PATIENCE)?;
    conn.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES};
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA foreign_keys = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF;
         PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = {LOG_KEPT_BYTES};"
    ))?;
    Ok(conn)
}
