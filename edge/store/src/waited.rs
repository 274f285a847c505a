//! How long a connection has waited for others: for its turn to write, and for the disk. That is no work
//! of its own, so that who is judged by how long it keeps its thread is not judged by that
//! ([`game::db::Database::waited_us`]). What it computes meanwhile, as a commit does that copies pages, is
//! in here too: whoever subtracts this leaves what was computed.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The sum for one connection since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Waited(Cell<Duration>);

impl Waited {
    /// Does what may wait. Such waits do not nest.
    pub(crate) fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let done = wait();
        self.0.set(self.0.get() + since.elapsed());
        done
    }

    pub(crate) fn us(&self) -> u64 {
        u64::try_from(self.0.get().as_micros()).unwrap_or(u64::MAX)
    }
}
