//! How long calls keep their thread: the same clocks as budgets have (`budget`), of which a call that
//! ends within a millisecond costs two looks at the wall's.
//!
//! Source: as in `budget`, `/proc/<pid>/schedstat`; where that is missing, what a thread waited for a
//! processor counts as well.

use event::{CallClock, CallTime};

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

    fn spent(&mut self) -> CallTime {
        let us = |ns: u64| u32::try_from(ns / 1_000).unwrap_or(u32::MAX);
        let (kept_ns, computed_ns) = budget::spent_ns(self.start);
        CallTime { kept_us: us(kept_ns), computed_us: us(computed_ns) }
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
            assert!(clock.spent().kept_us < 1_000);
            std::thread::sleep(Duration::from_millis(60));
            // What the reading before it is old may be waiting for a processor.
            let spent = clock.spent();
            assert!(spent.kept_us >= 40_000 && spent.computed_us < 20_000, "{spent:?}");
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
                let _ = clock.spent();
                let began = Instant::now();
                clock.begin();
                let mut turns = 0_u64;
                while began.elapsed() < Duration::from_millis(400) {
                    turns = std::hint::black_box(turns + 1);
                }
                (clock.spent(), turns)
            });
            let (spent, _) = call.join().unwrap();
            stop.store(true, Relaxed);
            others.into_iter().for_each(|other| other.join().unwrap());
            // A fifth of 400 ms is its own, and less where other processes run too.
            assert!((2_000..250_000).contains(&spent.kept_us), "{spent:?}");
            assert!((1_000..=spent.kept_us).contains(&spent.computed_us), "{spent:?}");
        });
    }

    fn allowed() -> rustix::thread::CpuSet {
        rustix::thread::sched_getaffinity(None).unwrap()
    }
}
