//! What a script's statement has used up so far: SQLite asks every few steps whether it may go on
//! (`sqlite3_progress_handler`). Time is CPU time while it only reads, as everywhere with scripts,
//! and time by the clock on the wall while others wait for it.
//!
//! What it writes is what its thread has written: the pages of the database that no longer fit into
//! memory, and the temporary files of sorting, grouping and recursion. The kernel counts that
//! (`wchar` in `/proc/thread-self/io`, proc(5)); where it does not, only time bounds it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use game::db::{DbError, GuestBudget};
use rustix::time::{ClockId, clock_gettime};

/// Steps of SQLite's virtual machine between two looks at the clock: a step handles at most one
/// value, so this many of the largest are handled late.
pub(crate) const STEPS: i32 = 50;

/// Time between two looks at what is dearer to know.
const LOOK: Duration = Duration::from_millis(2);

/// How much longer than its budget of CPU time a statement may take that waits for the disk or for
/// a processor; as with calls of scripts.
const WALL_PER_CPU: u32 = 2;

/// Why a statement was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its CPU time is over.
    Time,
    /// Others have waited for long enough.
    Held,
    /// It has written too much.
    Written,
}

/// So many rows are said to have been read without an index, if time is over: fewer are no matter.
const SCANNED_MIN: u64 = 10_000;

impl Stop {
    /// What a script is told whose statement has read so many rows that no index led to.
    pub(crate) fn error(self, budget: &GuestBudget, scanned: u64) -> DbError {
        let (what, setting) = match self {
            Self::Time if scanned >= SCANNED_MIN => (
                format!(
                    "stopped after {} ms, in which it read {scanned} rows one after the other, without \
                     an index (EXPLAIN QUERY PLAN tells of which table): if it looks for few of them, \
                     say more in its WHERE, or make an index of a table of yours",
                    budget.time_ms
                ),
                "runtime.sql_budget_ms",
            ),
            Self::Time => (format!("stopped after {} ms", budget.time_ms), "runtime.sql_budget_ms"),
            Self::Held => (
                format!("stopped after it kept other writers waiting for {} ms", budget.write_ms),
                "runtime.sql_write_budget_ms",
            ),
            Self::Written => (
                format!("stopped after it wrote more than {} bytes", budget.written_bytes_max),
                "runtime.sql_write_max_bytes",
            ),
        };
        DbError::Limit { what, setting }
    }
}

#[derive(Debug)]
struct Run {
    look_at: Instant,
    /// For statements that hold the write lock.
    held_until: Option<Instant>,
    cpu_max: Duration,
    cpu_started: Duration,
    wall_until: Instant,
    written_max: u64,
    /// What the thread had written at the first look; statements that end before cost nothing.
    written_before: Option<u64>,
    stopped: Option<Stop>,
    /// Its transaction ends, which takes no time of the script's.
    is_finishing: bool,
}

/// A meter that may be gone.
#[derive(Debug)]
pub(crate) struct WeakMeter(Weak<Mutex<Option<Run>>>);

impl WeakMeter {
    /// The meter, if it is still there.
    pub(crate) fn upgrade(&self) -> Option<Meter> {
        self.0.upgrade().map(Meter)
    }
}

/// Shared by a connection and its progress handler. Only one thread uses it at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Mutex<Option<Run>>>);

impl Meter {
    /// Begins to measure one statement.
    pub(crate) fn start(&self, budget: &GuestBudget) {
        let now = Instant::now();
        let cpu_max = Duration::from_millis(u64::from(budget.time_ms));
        *self.run() = Some(Run {
            look_at: now + LOOK,
            held_until: None,
            cpu_max,
            cpu_started: thread_time(),
            wall_until: now + cpu_max * WALL_PER_CPU,
            written_max: budget.written_bytes_max,
            written_before: None,
            stopped: None,
            is_finishing: false,
        });
    }

    /// From now on others wait.
    pub(crate) fn hold(&self, budget: &GuestBudget) {
        if let Some(run) = self.run().as_mut() {
            let held = Duration::from_millis(u64::from(budget.write_ms));
            run.held_until = Some(Instant::now() + held);
        }
    }

    /// From now on the statement is not stopped any more.
    pub(crate) fn finish(&self) {
        if let Some(run) = self.run().as_mut() {
            run.is_finishing = true;
        }
    }

    pub(crate) fn downgrade(&self) -> WeakMeter {
        WeakMeter(Arc::downgrade(&self.0))
    }

    /// For another thread: whether a statement runs. One whose time by the clock on the wall is over
    /// is stopped by `interrupt`, which is called while no other statement can start.
    pub(crate) fn stop_if_late(&self, now: Instant, interrupt: impl FnOnce()) -> bool {
        let mut shared = self.run();
        let Some(run) = shared.as_mut().filter(|run| !run.is_finishing) else {
            return shared.is_some();
        };
        if let Some(stop) = run.late(now) {
            run.stopped = run.stopped.or(Some(stop));
            interrupt();
        }
        true
    }

    /// Ends the measurement; tells whether the statement was stopped.
    pub(crate) fn end(&self) -> Option<Stop> {
        self.run().take().and_then(|run| run.stopped)
    }

    /// Whether the statement has to stop.
    pub(crate) fn is_over(&self) -> bool {
        let mut shared = self.run();
        let Some(run) = shared.as_mut().filter(|run| !run.is_finishing) else { return false };
        let now = Instant::now();
        if now < run.look_at {
            return false;
        }
        run.look_at = now + LOOK;
        let stop = run.look(now);
        run.stopped = run.stopped.or(stop);
        stop.is_some()
    }

    fn run(&self) -> MutexGuard<'_, Option<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// What is over by the clock on the wall.
    fn late(&self, now: Instant) -> Option<Stop> {
        if self.held_until.is_some_and(|until| now >= until) {
            return Some(Stop::Held);
        }
        (now >= self.wall_until).then_some(Stop::Time)
    }

    fn look(&mut self, now: Instant) -> Option<Stop> {
        if let Some(late) = self.late(now) {
            return Some(late);
        }
        let used = thread_time().saturating_sub(self.cpu_started);
        if used >= self.cpu_max {
            return Some(Stop::Time);
        }
        let written = written_bytes()?;
        let before = *self.written_before.get_or_insert(written);
        (written.saturating_sub(before) > self.written_max).then_some(Stop::Written)
    }
}

/// CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
}

/// Bytes that this thread has written since it began, if the system counts them.
fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    let count = text.lines().find_map(|line| line.strip_prefix("wchar:"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{GuestBudget, Meter, Stop};

    /// Spins until the meter stops it; `None` if it does not within ten seconds.
    fn stop(meter: &Meter) -> Option<Stop> {
        let give_up = Instant::now() + Duration::from_secs(10);
        while !meter.is_over() && Instant::now() < give_up {}
        meter.end()
    }

    #[test]
    fn whoever_others_wait_for_has_less_time() {
        let budget = GuestBudget { time_ms: 30, write_ms: 5, ..GuestBudget::DEFAULT };
        let meter = Meter::default();
        assert!(!meter.is_over() && meter.end().is_none(), "nothing runs");
        meter.start(&budget);
        assert_eq!(stop(&meter), Some(Stop::Time));
        meter.start(&budget);
        meter.hold(&budget);
        assert_eq!(stop(&meter), Some(Stop::Held));
    }

    #[test]
    fn what_the_thread_writes_is_counted() {
        let budget = GuestBudget { written_bytes_max: 1_000, ..GuestBudget::DEFAULT };
        if super::written_bytes().is_none() {
            return;
        }
        let meter = Meter::default();
        meter.start(&budget);
        let give_up = Instant::now() + Duration::from_secs(10);
        while !meter.is_over() && Instant::now() < give_up {
            std::fs::write("/dev/null", [0; 500]).unwrap();
        }
        assert_eq!(meter.end(), Some(Stop::Written));
    }
}
