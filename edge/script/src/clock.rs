//! How long calls keep their thread: the same clocks as budgets have (`budget`), of which a call that
//! ends within a millisecond costs two looks at the wall's.
//!
//! Source: as in `budget`, `/proc/<pid>/schedstat`; where that is missing, what a thread waited for a
//! processor counts as well.

use event::CallClock;

use crate::budget::{self, Reading};

/// The clock of the thread on which it is used.
#[derive(Debug, Default)]
pub struct ThreadClock {
    start: Reading,
}

impl CallClock for ThreadClock {
    fn begin(&mut self) {
        self.start = budget::reading();
    }

    fn kept_ms(&mut self) -> u32 {
        u32::try_from(budget::kept_ns(self.start) / 1_000_000).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    use event::CallClock as _;

    use super::ThreadClock;

    #[test]
    fn what_blocks_counts_in_full() {
        let mut clock = ThreadClock::default();
        for _ in 0..2 {
            clock.begin();
            assert_eq!(clock.kept_ms(), 0);
            std::thread::sleep(Duration::from_millis(60));
            // What the reading before it is old may be waiting for a processor.
            let kept_ms = clock.kept_ms();
            assert!((40..).contains(&kept_ms), "{kept_ms}");
        }
    }

    /// Threads that share the one processor with the call.
    #[test]
    fn what_others_take_of_the_processor_does_not_count() {
        let mut cpus = rustix::thread::CpuSet::new();
        let mut all = 0..rustix::thread::CpuSet::MAX_CPU;
        let one = all.find(|cpu| allowed().is_set(*cpu)).unwrap();
        cpus.set(one);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        rustix::thread::sched_setaffinity(None, &cpus).unwrap();
                        while !stop.load(Relaxed) {
                            std::hint::spin_loop();
                        }
                    })
                })
                .collect();
            let call = scope.spawn(|| {
                rustix::thread::sched_setaffinity(None, &cpus).unwrap();
                let mut clock = ThreadClock::default();
                // The first reading of a thread is as old as the thread.
                clock.begin();
                let _ = clock.kept_ms();
                let began = Instant::now();
                clock.begin();
                let mut turns = 0_u64;
                while began.elapsed() < Duration::from_millis(400) {
                    turns = std::hint::black_box(turns + 1);
                }
                (clock.kept_ms(), turns)
            });
            let (kept_ms, _) = call.join().unwrap();
            stop.store(true, Relaxed);
            others.into_iter().for_each(|other| other.join().unwrap());
            // A fifth of 400 ms is its own.
            assert!((30..250).contains(&kept_ms), "{kept_ms}");
        });
    }

    fn allowed() -> rustix::thread::CpuSet {
        rustix::thread::sched_getaffinity(None).unwrap()
    }
}
