//! Notices that the database's file was deleted or replaced while the server runs. The system lets
//! a process go on with a file that has no name any more; what is written there is gone when the
//! process ends, so nothing may be acknowledged.
//!
//! Files are looked at by name, never opened: closing any handle of the file would drop the locks
//! that SQLite holds on it (fcntl(2)).

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// How often readers look, milliseconds; writers look at every commit.
const GLANCE_MS: u64 = 1_000;

/// The files of one database, as they were at the start.
#[derive(Debug)]
pub(crate) struct FileWatch {
    files: Vec<(PathBuf, Identity)>,
    is_gone: AtomicBool,
    started: Instant,
    /// When readers looked last, milliseconds since `started`.
    glanced_ms: AtomicU64,
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
        Self {
            files: files.map(|(identity, path)| (path, identity)).collect(),
            is_gone: AtomicBool::new(false),
            started: Instant::now(),
            glanced_ms: AtomicU64::new(0),
        }
    }

    /// The file that is not what it was at the start, if there is one. Two system calls.
    pub(crate) fn gone(&self) -> Option<&Path> {
        let gone = self.files.iter().find(|(path, was)| identity(path) != Some(*was));
        self.is_gone.store(gone.is_some(), Ordering::Relaxed);
        gone.map(|(path, _)| path.as_path())
    }

    /// As [`FileWatch::gone`], but looks only once a second, and always while a file is gone.
    pub(crate) fn glance(&self) -> Option<&Path> {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let is_due =
            elapsed_ms - self.glanced_ms.load(Ordering::Relaxed).min(elapsed_ms) >= GLANCE_MS;
        if !is_due && !self.is_gone.load(Ordering::Relaxed) {
            return None;
        }
        self.glanced_ms.store(elapsed_ms, Ordering::Relaxed);
        self.gone()
    }
}

/// The path of one of SQLite's files beside the database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
