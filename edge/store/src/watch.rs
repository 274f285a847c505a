//! Notices that the database's file was deleted or replaced while the server runs. The system lets
//! a process go on with a file that has no name any more; what is written there is gone when the
//! process ends, so nothing may be acknowledged.
//!
//! Files are looked at by name, never opened: closing any handle of the file would drop the locks
//! that SQLite holds on it (fcntl(2)). Writers look before they acknowledge anything, so they ask a
//! cheaper question first: whether the directory has changed since all files were seen in it. Who
//! takes a name away or gives it to another file changes the directory's time of modification
//! (unlink(2) and rename(2) as POSIX has them), which is read from its open handle without a walk
//! along the path. Files that are moved with their whole directory are noticed within a second.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How often the files themselves are looked at if nothing else asks for it, milliseconds.
const GLANCE_MS: u64 = 1_000;

/// How old a directory's last change must be before its time tells it from the next one,
/// nanoseconds: before Linux 6.13 times of modification move on with the kernel's tick, which is
/// 10 ms at most.
const SETTLED_NS: i64 = 50_000_000;

/// No last change is known, so the files have to be looked at.
const UNKNOWN: i64 = i64::MIN;

/// The files of one database, as they were at the start.
#[derive(Debug)]
pub(crate) struct FileWatch {
    files: Vec<Watched>,
    /// Where they are; none if it could not be opened, and then every look is at the files.
    directory: Option<File>,
    /// [`Change::mark`] of the directory's last change before all files were seen in it.
    seen: AtomicI64,
    is_gone: AtomicBool,
    started: Instant,
    /// When the files were looked at last, milliseconds since `started`.
    looked_ms: AtomicU64,
}

/// One file by its name.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// `None` if it was not there at the start, where it should have been.
    was: Option<Identity>,
    /// The log is, after it was copied; a database never.
    may_be_empty: bool,
}

impl Watched {
    fn new(path: PathBuf, may_be_empty: bool) -> Self {
        Self { was: Identity::of(&path, may_be_empty), path, may_be_empty }
    }

    fn is_there(&self) -> bool {
        self.was.is_some() && Identity::of(&self.path, self.may_be_empty) == self.was
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path, may_be_empty: bool) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        (may_be_empty || found.len() > 0).then(|| Self { device: found.dev(), inode: found.ino() })
    }
}

/// When a directory was changed last, nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Change {
    modified_ns: i64,
    /// Which nobody can set.
    status_ns: i64,
}

impl Change {
    /// Tells it from others.
    fn mark(self) -> i64 {
        self.modified_ns.wrapping_mul(31).wrapping_add(self.status_ns)
    }

    /// Whether the next one has another time in any case.
    fn is_settled(self) -> bool {
        self.modified_ns < now_ns().saturating_sub(SETTLED_NS)
    }
}

impl FileWatch {
    /// Watches the database and its log, both of which exist by now.
    pub(crate) fn new(database: &Path) -> Self {
        // Behind a link the names that count are elsewhere: SQLite puts the log beside the file.
        let real = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        let log = Watched::new(beside(&real, "-wal"), true);
        let directory = real.parent().and_then(|parent| File::open(parent).ok());
        let mut files = vec![Watched::new(database.to_owned(), false), log];
        if real != database {
            files.push(Watched::new(real, false));
        }
        Self {
            files,
            directory,
            seen: AtomicI64::new(UNKNOWN),
            is_gone: AtomicBool::new(false),
            started: Instant::now(),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// The file that is not what it was at the start, if there is one. One system call while nothing
    /// happens in the directory, a few otherwise.
    pub(crate) fn gone(&self) -> Option<&Path> {
        let change = self.last_change();
        let seen = self.seen.load(Ordering::Acquire);
        let is_as_seen = seen != UNKNOWN && change.is_some_and(|change| change.mark() == seen);
        if is_as_seen && !self.is_due() {
            return None;
        }
        self.look(change)
    }

    /// As [`FileWatch::gone`], but looks only once a second, and always while a file is gone.
    pub(crate) fn glance(&self) -> Option<&Path> {
        if !self.is_due() && !self.is_gone.load(Ordering::Relaxed) {
            return None;
        }
        self.look(self.last_change())
    }

    fn is_due(&self) -> bool {
        self.elapsed_ms().saturating_sub(self.looked_ms.load(Ordering::Relaxed)) >= GLANCE_MS
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When a name in the directory was made, given or taken away last.
    fn last_change(&self) -> Option<Change> {
        let found = self.directory.as_ref()?.metadata().ok()?;
        let in_ns = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
        Some(Change {
            modified_ns: in_ns(found.mtime(), found.mtime_nsec()),
            status_ns: in_ns(found.ctime(), found.ctime_nsec()),
        })
    }

    /// Looks at the files. The directory's times were read before, so that what happens meanwhile
    /// leaves others behind.
    fn look(&self, change: Option<Change>) -> Option<&Path> {
        self.looked_ms.store(self.elapsed_ms(), Ordering::Relaxed);
        let gone = self.files.iter().find(|file| !file.is_there());
        self.is_gone.store(gone.is_some(), Ordering::Relaxed);
        let trusted = change.filter(|change| gone.is_none() && change.is_settled());
        self.seen.store(trusted.map_or(UNKNOWN, Change::mark), Ordering::Release);
        gone.map(|file| file.path.as_path())
    }
}

/// Nanoseconds since 1970, by the clock that files are stamped with.
fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The path of one of SQLite's files beside the database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_directory_that_was_long_at_rest_is_trusted() {
        let folder = std::env::temp_dir().join(format!("throng-watch-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let database = folder.join("throng.db");
        std::fs::write(&database, "something").unwrap();
        std::fs::write(beside(&database, "-wal"), "").unwrap();
        let watch = FileWatch::new(&database);
        let is_trusted = || watch.seen.load(Ordering::Relaxed) != UNKNOWN;
        let rests_for = |seconds| {
            let then = SystemTime::now() - Duration::from_secs(seconds);
            File::open(&folder).unwrap().set_modified(then).unwrap();
        };
        rests_for(0);
        assert!(watch.gone().is_none() && !is_trusted());
        rests_for(5);
        assert!(watch.gone().is_none() && is_trusted());
        assert!(watch.gone().is_none() && is_trusted());
        std::fs::remove_file(&database).unwrap();
        assert!(watch.gone().is_some() && !is_trusted());
        rests_for(5);
        assert!(watch.gone().is_some() && !is_trusted());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
