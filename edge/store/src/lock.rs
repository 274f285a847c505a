//! The write lock: SQLite has one writer at a time, and its own way of waiting is to try again
//! after a while, which is slow and unfair. Here the threads of this process queue, and the next is
//! woken when the one before is done.
//!
//! The server's own transactions go before the statements of scripts, in order of arrival each. So
//! that a busy server does not shut scripts out, one that has waited for [`GUEST_AGE`] goes before,
//! but never two in a row while the server waits: whoever registers waits for two statements of
//! scripts at most.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After how much waiting a script's statement goes before the server's transactions.
const GUEST_AGE: Duration = Duration::from_millis(250);

/// Whose transaction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The game's rules.
    Server,
    /// A script's statement.
    Guest,
}

/// One per database, shared by all its connections. Bounded by the number of threads.
#[derive(Debug, Default)]
pub(crate) struct WriteLock {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    is_held: bool,
    was_guest: bool,
    /// Who the lock was handed to and has not woken up yet; it is held meanwhile.
    handed_to: Option<u64>,
    /// In order of arrival.
    waiting: VecDeque<Ticket>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    writer: Writer,
    since: Instant,
}

impl Queue {
    /// Takes out whose turn it is.
    fn take_next(&mut self, now: Instant) -> Option<Ticket> {
        let first = |writer| self.waiting.iter().position(|ticket| ticket.writer == writer);
        let at = match (first(Writer::Server), first(Writer::Guest)) {
            (Some(server), Some(guest)) => {
                let is_aged =
                    self.waiting.get(guest).is_some_and(|ticket| now - ticket.since >= GUEST_AGE);
                if is_aged && !self.was_guest { guest } else { server }
            }
            (server, guest) => server.or(guest)?,
        };
        self.waiting.remove(at)
    }
}

impl WriteLock {
    /// Waits for the lock; `false` when `patience` is over.
    #[must_use]
    pub(crate) fn acquire(&self, writer: Writer, patience: Duration) -> bool {
        let mut queue = self.queue();
        if !queue.is_held {
            queue.is_held = true;
            queue.was_guest = writer == Writer::Guest;
            return true;
        }
        let (number, since) = (queue.next_ticket, Instant::now());
        queue.next_ticket += 1;
        queue.waiting.push_back(Ticket { number, writer, since });
        let deadline = since + patience;
        loop {
            if queue.handed_to == Some(number) {
                queue.handed_to = None;
                queue.was_guest = writer == Writer::Guest;
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                queue.waiting.retain(|ticket| ticket.number != number);
                return false;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.queue().waiting.is_empty()
    }

    /// Hands the lock to whose turn it is.
    pub(crate) fn release(&self) {
        let mut queue = self.queue();
        assert!(queue.is_held && queue.handed_to.is_none(), "released by one who does not hold it");
        match queue.take_next(Instant::now()) {
            Some(next) => queue.handed_to = Some(next.number),
            None => queue.is_held = false,
        }
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
    use std::time::{Duration, Instant};

    use super::{GUEST_AGE, Queue, Ticket, WriteLock, Writer};

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn one_holds_it_and_the_impatient_go_away() {
        let lock = WriteLock::default();
        assert!(lock.acquire(Writer::Server, Duration::ZERO));
        assert!(!lock.acquire(Writer::Guest, Duration::ZERO));
        assert!(!lock.acquire(Writer::Server, Duration::from_millis(1)));
        lock.release();
        assert!(lock.acquire(Writer::Server, Duration::ZERO));
    }

    #[test]
    fn threads_take_turns() {
        let (lock, inside, turns) = (WriteLock::default(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for writer in [Writer::Server, Writer::Server, Writer::Guest, Writer::Guest] {
                let (lock, inside, turns) = (&lock, &inside, &turns);
                scope.spawn(move || {
                    for _ in 0..500 {
                        assert!(lock.acquire(writer, LONG));
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

    #[test]
    fn the_server_goes_first_and_an_aged_script_once_between() {
        let since = Instant::now();
        let mut queue = Queue::default();
        for (number, writer) in
            (0..).zip([Writer::Guest, Writer::Guest, Writer::Server, Writer::Server])
        {
            queue.waiting.push_back(Ticket { number, writer, since });
        }
        let mut next = |age| {
            let ticket = queue.take_next(since + age)?;
            queue.was_guest = ticket.writer == Writer::Guest;
            Some(ticket.number)
        };
        let turns = [
            next(Duration::ZERO),
            next(GUEST_AGE),
            next(GUEST_AGE),
            next(GUEST_AGE),
            next(GUEST_AGE),
        ];
        assert_eq!(turns, [Some(2), Some(0), Some(3), Some(1), None]);
    }
}
