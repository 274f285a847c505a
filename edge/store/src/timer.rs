//! Stops statements of scripts within a single step of SQLite's virtual machine, such as counting
//! the rows of a table, after which alone the meter is asked (`meter.rs`): a thread looks at all
//! that run, every [`TICK`], and interrupts those whose time by the clock on the wall is over
//! (`sqlite3_interrupt`). While no script has a statement it sleeps.
//!
//! Not every step can be interrupted: to free an index is one that cannot (`guest.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::InterruptHandle;

use crate::meter::{Meter, WeakMeter};

/// How late a statement may be stopped.
const TICK: Duration = Duration::from_millis(20);

/// After so many looks at which nothing ran the thread sleeps.
const IDLE_LOOKS: u32 = 10;

/// What the thread looks at; one for each thread that has run a script's statement.
#[derive(Default)]
struct Watched {
    guests: Vec<(WeakMeter, InterruptHandle)>,
    is_over: bool,
}

/// Between those who run statements and the thread.
#[derive(Default)]
struct Board {
    watched: Mutex<Watched>,
    changed: Condvar,
    is_asleep: AtomicBool,
}

impl Board {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut idle_looks = 0;
        let mut watched = self.watched();
        while !watched.is_over {
            idle_looks = if watched.look() { 0 } else { idle_looks + 1 };
            if idle_looks <= IDLE_LOOKS {
                let waited = self.changed.wait_timeout(watched, TICK);
                watched = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            // Whoever starts a statement after the look that follows sees that it has to wake.
            self.is_asleep.store(true, Ordering::SeqCst);
            if !watched.look() {
                let waited = self.changed.wait_while(watched, |watched| {
                    !watched.is_over && self.is_asleep.load(Ordering::SeqCst)
                });
                watched = waited.unwrap_or_else(PoisonError::into_inner);
            }
            self.is_asleep.store(false, Ordering::SeqCst);
            idle_looks = 0;
        }
    }
}

impl Watched {
    /// Whether any statement runs; stops those that have run for too long.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        let mut runs = false;
        self.guests.retain(|(meter, handle)| {
            let Some(meter) = meter.upgrade() else { return false };
            runs |= meter.stop_if_late(now, || handle.interrupt());
            true
        });
        runs
    }
}

/// The thread; it ends when this is dropped.
pub(crate) struct Timer {
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

impl Timer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let board = Arc::new(Board::default());
        let mine = Arc::clone(&board);
        let thread = std::thread::Builder::new().name("sql-timer".to_owned());
        Ok(Self { thread: Some(thread.spawn(move || mine.run())?), board })
    }

    /// Looks at the statements of a connection from now on, until its meter is gone.
    pub(crate) fn watch(&self, meter: &Meter, handle: InterruptHandle) {
        self.board.watched().guests.push((meter.downgrade(), handle));
    }

    /// A statement has started: its meter runs.
    pub(crate) fn wake(&self) {
        if self.board.is_asleep.load(Ordering::SeqCst) {
            let watched = self.board.watched();
            self.board.is_asleep.store(false, Ordering::SeqCst);
            drop(watched);
            self.board.changed.notify_all();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.board.watched().is_over = true;
        self.board.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is in the log already, and there is nothing else to do about it.
            let _ = thread.join();
        }
    }
}
