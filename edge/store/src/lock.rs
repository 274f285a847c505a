//! The write lock: SQLite has one writer at a time, and its own way of waiting is to try again
//! after a while, which is slow and unfair. Here the threads of this process queue in order of
//! arrival, and the next is woken when the one before is done.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One per database, shared by all its connections. Bounded by the number of threads.
#[derive(Debug, Default)]
pub(crate) struct WriteLock {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    is_held: bool,
    /// Tickets in order of arrival; the first is the next to hold the lock.
    waiting: VecDeque<u64>,
    next_ticket: u64,
}

impl WriteLock {
    /// Waits for the lock; `false` when `patience` is over.
    #[must_use]
    pub(crate) fn acquire(&self, patience: Duration) -> bool {
        let mut queue = self.queue();
        if !queue.is_held && queue.waiting.is_empty() {
            queue.is_held = true;
            return true;
        }
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push_back(ticket);
        let deadline = Instant::now() + patience;
        loop {
            if !queue.is_held && queue.waiting.front() == Some(&ticket) {
                queue.waiting.pop_front();
                queue.is_held = true;
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                queue.waiting.retain(|waiting| *waiting != ticket);
                // Whoever came after may be first now.
                self.changed.notify_all();
                return false;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives the lock to whoever has waited longest.
    pub(crate) fn release(&self) {
        let mut queue = self.queue();
        assert!(queue.is_held, "released by one who does not hold it");
        queue.is_held = false;
        drop(queue);
        self.changed.notify_all();
    }

    /// A panicking thread leaves the queue as valid as it was: every change above is one step.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::WriteLock;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn one_holds_it_and_the_impatient_go_away() {
        let lock = WriteLock::default();
        assert!(lock.acquire(Duration::ZERO));
        assert!(!lock.acquire(Duration::ZERO));
        assert!(!lock.acquire(Duration::from_millis(1)));
        lock.release();
        assert!(lock.acquire(Duration::ZERO));
    }

    #[test]
    fn threads_take_turns() {
        let (lock, inside, turns) = (WriteLock::default(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(lock.acquire(LONG));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        turns.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lock.release();
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 2_000);
    }
}
