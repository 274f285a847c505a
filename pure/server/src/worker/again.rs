//! API calls, and functions that guests wait for, that another writer was in the way of ([`game::db::DbError::Conflict`]). What they did is
//! undone; they run again when the batch that they were in is committed, each in a transaction of its
//! own, and [`TRIES_MAX`] times in all. Nobody is answered before.
//!
//! Not here: functions that run where their guest does, whose host tries again by itself
//! (`game::host`).

use std::collections::VecDeque;

use event::Now;
use game::db::{MayConflict as _, TRIES_MAX};
use game::error::ApiError;

use super::Worker;
use super::shipped::Task;

/// Calls that run again. There are never more than one batch had: while there are any no other begins.
#[derive(Debug)]
pub(super) struct Again {
    /// Each with the number of its next try.
    waiting: VecDeque<(u32, Task)>,
    /// The number of the try that runs.
    running: u32,
}

impl Default for Again {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), running: 1 }
    }
}

impl Again {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether what runs may run once more.
    pub(super) fn has_tries_left(&self) -> bool {
        self.running < TRIES_MAX
    }

    /// What has run is to run once more.
    pub(super) fn put(&mut self, task: Task) {
        self.waiting.push_back((self.running + 1, task));
    }
}

impl Worker {
    /// Runs a call again that was put off; `false` if there is none.
    pub(super) fn run_again(&mut self, now: Now) -> bool {
        let Some((number, task)) = self.again.waiting.pop_front() else { return false };
        self.jobs_in_batch += 1;
        self.again.running = number;
        self.run_task(now, task);
        self.again.running = 1;
        true
    }

    /// Whether a call that failed with this is to run again.
    pub(super) fn runs_again(&mut self, error: &ApiError) -> bool {
        let runs_again = error.is_conflict() && self.again.has_tries_left();
        if runs_again {
            self.resources.db.note_retry();
        }
        runs_again
    }
}
