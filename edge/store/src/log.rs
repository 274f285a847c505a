//! The write-ahead log made durable, for several commits at once. A commit writes its pages to the
//! log and lets go of the write lock; [`Log::sync`] then waits until the disk has them. Whoever
//! comes while another one waits is served by the next wait, all of them together: as many commits
//! as there are become durable with one fdatasync(2), and nobody holds the write lock meanwhile.
//!
//! SQLite with `synchronous=NORMAL` leaves exactly this to others: it keeps the log in order, and
//! waits for the disk only when the log is copied back and when it begins anew
//! (sqlite.org/pragma.html#pragma_synchronous, sqlite.org/wal.html).
//!
//! A disk that fails ends the process: what it has is not known any more, and a second try may succeed
//! without it (fsync(2): the error is told once). At the start the log is copied back whole, which
//! writes anew what the system may only have in memory.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::watch::beside;

/// How often it is looked without sleeping whether a commit has ended.
const LOOKS_AWAKE: u32 = 64;

/// And how long is slept between two looks after that.
const LOOK: Duration = Duration::from_micros(50);

/// The log of one database.
#[derive(Debug)]
pub(crate) struct Log {
    /// Open as long as the database: see `watch.rs` about handles that are closed.
    file: File,
    /// Commits that have begun: their pages may be seen before they have ended.
    begun: AtomicU64,
    /// Commits that have ended, in the log or not at all. One at a time: the write lock is held.
    ended: AtomicU64,
    /// Of these as many are on the disk.
    synced: AtomicU64,
    /// Held by whoever waits for the disk.
    waiting: Mutex<()>,
}

impl Log {
    /// The log of a database that has one.
    ///
    /// # Errors
    /// If it, or the folder that has its name, cannot be opened or made durable.
    pub(crate) fn open(database: &Path) -> io::Result<Self> {
        let real = database.canonicalize()?;
        let file = File::options().read(true).write(true).open(beside(&real, "-wal"))?;
        // SQLite makes the name durable with the first commit that waits for the disk.
        if let Some(folder) = real.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(Self::of(file))
    }

    fn of(file: File) -> Self {
        let zero = || AtomicU64::new(0);
        Self { file, begun: zero(), ended: zero(), synced: zero(), waiting: Mutex::default() }
    }

    /// Commits, by `act`. The write lock is held.
    pub(crate) fn committing<T>(&self, act: impl FnOnce() -> T) -> T {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let done = act();
        self.ended.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Whether all that can be seen is on the disk.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::SeqCst) >= self.begun.load(Ordering::SeqCst)
    }

    /// Waits until all that can be seen by now is on the disk. `true` if the disk was waited for
    /// here, and not by somebody else.
    ///
    /// # Errors
    /// What the disk said.
    pub(crate) fn sync(&self) -> io::Result<bool> {
        let wanted = self.begun.load(Ordering::SeqCst);
        self.wait_for_end(wanted);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.synced.load(Ordering::SeqCst) >= wanted {
            return Ok(false);
        }
        let ended = self.ended.load(Ordering::SeqCst);
        debug_assert!(ended >= wanted, "commits are counted upwards");
        self.file.sync_data()?;
        self.synced.store(ended, Ordering::SeqCst);
        drop(waiting);
        Ok(true)
    }

    /// Waits until so many commits have ended. Mostly that is some microseconds, as nobody waits for
    /// the disk in a commit but who begins the log anew.
    fn wait_for_end(&self, wanted: u64) {
        let mut looks = 0;
        while self.ended.load(Ordering::SeqCst) < wanted {
            looks += 1;
            if looks < LOOKS_AWAKE {
                std::thread::yield_now();
            } else {
                std::thread::park_timeout(LOOK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        File::from(rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
    }

    #[test]
    fn many_commits_are_synced_at_once_and_none_twice() {
        let log = Log::of(file());
        assert!(log.is_synced());
        assert!(!log.sync().unwrap(), "nothing was written");
        for _ in 0..5 {
            log.committing(|| ());
        }
        assert!(!log.is_synced());
        assert!(log.sync().unwrap());
        assert!(log.is_synced());
        assert!(!log.sync().unwrap(), "all is there already");
    }

    #[test]
    fn what_can_be_seen_is_waited_for_before_its_commit_has_ended() {
        let log = Log::of(file());
        std::thread::scope(|threads| {
            let reader = log.committing(|| {
                assert!(!log.is_synced(), "its pages can be seen by now");
                let reader = threads.spawn(|| log.sync().unwrap());
                for _ in 0..1_000 {
                    assert_eq!(log.synced.load(Ordering::SeqCst), 0, "it waits for the end");
                    std::thread::yield_now();
                }
                reader
            });
            assert!(reader.join().unwrap());
        });
        assert!(log.is_synced());
    }

    #[test]
    fn what_the_disk_did_not_take_is_not_synced() {
        // A pipe has no disk: fdatasync(2) says EINVAL.
        let (_reader, writer) = io::pipe().unwrap();
        let log = Log::of(File::from(std::os::fd::OwnedFd::from(writer)));
        log.committing(|| ());
        assert_eq!(log.sync().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(!log.is_synced());
    }
}
