//! Several commits made as one. A connection that gathers keeps the transaction open after a commit,
//! and with it the write lock; the next commits join it, each behind a savepoint of its own, so that
//! one that is rolled back leaves those before it alone. All are committed when their thread is about
//! to tell of one ([`Sqlite::end_group`]), and before, as soon as the lock was held for
//! [`HELD_MAX`], or for half of that and somebody waits for it.
//!
//! If that commit fails, nothing of the group has happened, although each was told that it had: so
//! the connection refuses everything until [`game::db::Database::sync`], and whoever has answers
//! waiting makes them errors ([`game::db::Database::commit_group`] says so).
//!
//! Not here: what waits for the disk (`log.rs`).

use std::time::{Duration, Instant};

use game::db::DbError;

use crate::sqlite::Sqlite;

/// For how long a group keeps others from writing: some dozens of commits, and less than what a
/// batch of the server's own calls takes.
pub(crate) const HELD_MAX: Duration = Duration::from_millis(2);

/// How a connection stands to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// It has none: each commit is made at once.
    Never,
    /// There is none now.
    Closed,
    /// Commits have gathered, and the write lock is held, since then.
    Open(Instant),
    /// Its commit failed; nobody has been told yet.
    Failed,
}

impl Sqlite {
    /// Whether commits have gathered in an open transaction.
    pub(crate) fn is_grouped(&self) -> bool {
        matches!(self.group, Group::Open(_))
    }

    /// Says no if the group before has failed.
    pub(crate) fn check_group(&self) -> Result<(), DbError> {
        if self.group == Group::Failed {
            // Why is in the log: the statement that failed has said so.
            return Err(DbError::Machine("commits before this one have failed".into()));
        }
        Ok(())
    }

    /// A commit with the write lock held: it is made now, unless it begins a group.
    pub(crate) fn commit_or_gather(&mut self) -> Result<(), DbError> {
        if self.group == Group::Closed {
            self.group = Group::Open(Instant::now());
            return Ok(());
        }
        assert!(!self.is_grouped(), "who joins a group does not end it");
        let ended = self.end_writing(true);
        self.release();
        ended
    }

    /// Makes the commits that have gathered.
    pub(crate) fn end_group(&mut self) -> Result<(), DbError> {
        if self.is_grouped() {
            assert!(!self.is_open, "a group ends between transactions");
            self.group = Group::Closed;
            let ended = self.end_writing(true);
            self.release();
            if ended.is_err() {
                self.group = Group::Failed;
            }
        }
        self.check_group()
    }

    /// Ends the group if the lock was held for long.
    pub(crate) fn end_old_group(&mut self) {
        let Group::Open(since) = self.group else { return };
        let (held, most) = (since.elapsed(), self.shared.group_held_max);
        if held >= most || (held >= most / 2 && self.shared.lock.is_wanted()) {
            self.shared.reporter.stats.db_groups_cut.up();
            // If it fails, the next who asks is told.
            let _ = self.end_group();
        }
    }

    /// SQLite has rolled all of it back by itself, as it does when the disk fails.
    pub(crate) fn lose_group(&mut self) {
        assert!(self.is_grouped(), "only a group is lost");
        self.group = Group::Failed;
        self.release();
    }
}
