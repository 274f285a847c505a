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

/// No time of modification is known, so the files have to be looked at.
const UNKNOWN: i64 = i64::MIN;

/// The files of one database, as they were at the start.
#[derive(Debug)]
pub(crate) struct FileWatch {
    files: Vec<(PathBuf, Identity)>,
    /// Where they are; none if it could not be opened, and then every look is at the files.
    directory: Option<File>,
    /// When the directory was changed last before all files were seen in it, nanoseconds since 1970.
    seen_ns: AtomicI64,
    is_gone: AtomicBool,
    started: Instant,
    /// When the files were looked at last, milliseconds since `started`.
    looked_ms: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::metadata(path).ok()?;
    Some(Identity { device: found.dev(), inode: found.ino() })
}

impl FileWatch {
    /// Watches the database and its log, both of which exist by now.
    pub(crate) fn new(database: &Path) -> Self {
        let files = [database.to_owned(), beside(database, "-wal")];
        let files = files.into_iter().filter_map(|path| Some((identity(&path)?, path)));
        // Behind a link the names that count are elsewhere.
        let real = database.canonicalize().ok();
        Self {
            files: files.map(|(identity, path)| (path, identity)).collect(),
            directory: real.and_then(|real| File::open(real.parent()?).ok()),
            seen_ns: AtomicI64::new(UNKNOWN),
            is_gone: AtomicBool::new(false),
            started: Instant::now(),
            looked_ms: AtomicU64::new(0),
        }
    }

    /// The file that is not what it was at the start, if there is one. One system call while nothing
    /// happens in the directory, four otherwise.
    pub(crate) fn gone(&self) -> Option<&Path> {
        let changed_ns = self.changed_ns();
        let is_as_seen =
            changed_ns != UNKNOWN && changed_ns == self.seen_ns.load(Ordering::Acquire);
        if is_as_seen && !self.is_due() {
            return None;
        }
        self.look(changed_ns)
    }

    /// As [`FileWatch::gone`], but looks only once a second, and always while a file is gone.
    pub(crate) fn glance(&self) -> Option<&Path> {
        if !self.is_due() && !self.is_gone.load(Ordering::Relaxed) {
            return None;
        }
        self.look(self.changed_ns())
    }

    fn is_due(&self) -> bool {
        self.elapsed_ms().saturating_sub(self.looked_ms.load(Ordering::Relaxed)) >= GLANCE_MS
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// When a name in the directory was made, given or taken away last.
    fn changed_ns(&self) -> i64 {
        let found = self.directory.as_ref().and_then(|directory| directory.metadata().ok());
        found.map_or(UNKNOWN, |found| {
            found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
        })
    }

    /// Looks at the files. The directory's time was read before, so that what happens meanwhile
    /// leaves another one behind.
    fn look(&self, changed_ns: i64) -> Option<&Path> {
        self.looked_ms.store(self.elapsed_ms(), Ordering::Relaxed);
        let gone = self.files.iter().find(|(path, was)| identity(path) != Some(*was));
        self.is_gone.store(gone.is_some(), Ordering::Relaxed);
        let is_settled = gone.is_none() && changed_ns < now_ns().saturating_sub(SETTLED_NS);
        self.seen_ns.store(if is_settled { changed_ns } else { UNKNOWN }, Ordering::Release);
        gone.map(|(path, _)| path.as_path())
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
        std::fs::write(&database, "").unwrap();
        let watch = FileWatch::new(&database);
        let is_trusted = || watch.seen_ns.load(Ordering::Relaxed) != UNKNOWN;
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
        std::fs::remove_dir(&folder).unwrap();
    }
}
