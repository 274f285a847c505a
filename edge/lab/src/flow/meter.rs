//! How the two ends of a flow count the same stretches of time: a beat that all threads of an end look
//! at, and what each of them had done when it saw the beat change.
//!
//! A lane is a thread that sends or receives. Whenever the number of the stretch has changed it notes
//! its bytes, its time and the processor time that the kernel has counted for it, all at one moment; so
//! a figure of a stretch is never made of two clocks, however late the thread looked.
//!
//! In: numbers of stretches. Out: [`Totals`] at the beginning of each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::thread_usage;

use super::sequence::Counts;
use super::words::Totals;
use crate::measure::percentiles::Times;

/// Beginnings of stretches that are kept of a lane, at most: the oldest are forgotten.
const TALLIES_MAX: usize = 16;
/// How often lanes are looked at that have not noted the beginning of a stretch.
const LOOK: Duration = Duration::from_millis(1);

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Connected; nothing is sent.
    Open,
    /// Sent, and does not count.
    WarmUp,
    /// Counts.
    Counted,
    /// Sent, and does not count any more.
    CoolDown,
    /// Over.
    Over,
}

impl Stage {
    pub(crate) const ALL: [Self; 5] =
        [Self::Open, Self::WarmUp, Self::Counted, Self::CoolDown, Self::Over];

    /// As it is said to the other end.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::WarmUp => "warm-up",
            Self::Counted => "counted",
            Self::CoolDown => "cool-down",
            Self::Over => "over",
        }
    }

    fn of_number(number: u64) -> Self {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        Self::ALL.get(at).copied().unwrap_or(Self::Over)
    }
}

/// What all threads of one end look at.
#[derive(Debug)]
pub(crate) struct Beat {
    /// Number of the stretch, and its stage in the lowest eight bits.
    word: AtomicU64,
    began: Instant,
}

impl Beat {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), began: Instant::now() }
    }

    /// Begins a stretch. Numbers rise.
    pub(crate) fn begin(&self, number: u32, stage: Stage) {
        self.word.store((u64::from(number) << 8) | stage as u64, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> (u32, Stage) {
        let word = self.word.load(Ordering::Relaxed);
        (u32::try_from(word >> 8).unwrap_or(u32::MAX), Stage::of_number(word & 0xff))
    }

    /// Since it was made.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What a lane has done until a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) at_ns: u64,
    pub(crate) bytes: u64,
    /// Calls of the system that moved bytes, or tried to.
    pub(crate) calls: u64,
    pub(crate) datagrams: u64,
    /// Due, and not sent in time.
    pub(crate) missed: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    /// Of a receiver of datagrams.
    pub(crate) counts: Counts,
    /// Datagrams that the socket had no room for.
    pub(crate) dropped: u64,
    /// Datagrams that are not this flow's, or larger than they may be.
    pub(crate) foreign: u64,
}

/// What is known of a lane from outside.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    tallies: Mutex<VecDeque<(u32, Tally)>>,
    /// How long calls took, since this was last taken.
    times: Mutex<Times>,
    is_over: AtomicBool,
    /// Nothing has come for a while.
    is_idle: AtomicBool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What cannot be poisoned: a panic ends the process.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    /// What it had done when stretch `number` began, or later if it looked later; none until it has.
    fn at(&self, number: u32) -> Option<Tally> {
        held(&self.tallies).iter().find(|it| it.0 >= number).map(|it| it.1)
    }

    fn last(&self) -> Tally {
        held(&self.tallies).back().map(|it| it.1).unwrap_or_default()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether it has nothing more to receive for now.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_over() || self.is_idle.load(Ordering::Relaxed)
    }

    pub(crate) fn take_times(&self) -> Times {
        std::mem::take(&mut held(&self.times))
    }
}

/// A lane's own side, which its thread keeps.
pub(crate) struct Worker {
    beat: Arc<Beat>,
    lane: Arc<Lane>,
    seen: u32,
    pub(crate) tally: Tally,
}

impl Worker {
    pub(crate) fn new(beat: Arc<Beat>, lane: Arc<Lane>) -> Self {
        Self { beat, lane, seen: 0, tally: Tally::default() }
    }

    /// Where the flow is; notes what was done when that has changed.
    pub(crate) fn look(&mut self) -> Stage {
        let (number, stage) = self.beat.now();
        if number != self.seen {
            self.seen = number;
            self.note(number);
        }
        stage
    }

    /// Whether the next look will note what was done.
    pub(crate) fn is_due(&self) -> bool {
        self.beat.now().0 != self.seen
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.beat.elapsed_ns()
    }

    pub(crate) fn record(&self, began: Instant) {
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        held(&self.lane.times).record(ns, 1);
    }

    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.lane.is_idle.store(is_idle, Ordering::Relaxed);
    }

    fn note(&mut self, number: u32) {
        let usage = thread_usage().unwrap_or_default();
        let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.tally.at_ns = self.beat.elapsed_ns();
        (self.tally.user_ns, self.tally.system_ns) = (ns(usage.user), ns(usage.system));
        let mut tallies = held(&self.lane.tallies);
        if tallies.len() >= TALLIES_MAX {
            tallies.pop_front();
        }
        tallies.push_back((number, self.tally));
    }
}

impl Drop for Worker {
    /// What was done in all stands for all stretches to come.
    fn drop(&mut self) {
        self.note(u32::MAX);
        self.lane.is_over.store(true, Ordering::Relaxed);
    }
}

/// What all lanes of an end had done when a stretch began: waits a moment for those that have not
/// looked yet. Of one that does not look in time, what it had done when it last did.
pub(crate) fn totals(lanes: &[Arc<Lane>], number: u32, patience: Duration) -> Totals {
    let deadline = Instant::now() + patience;
    while lanes.iter().any(|lane| lane.at(number).is_none()) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    let tallies: Vec<Tally> =
        lanes.iter().map(|lane| lane.at(number).unwrap_or_else(|| lane.last())).collect();
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).fold(0, u64::saturating_add);
    let count = u64::try_from(tallies.len().max(1)).unwrap_or(1);
    Totals {
        lanes: tallies.len() as u64,
        at_ns: sum(|it| it.at_ns / 1_000) / count * 1_000,
        bytes: sum(|it| it.bytes),
        calls: sum(|it| it.calls),
        datagrams: sum(|it| it.datagrams),
        missed: sum(|it| it.missed),
        user_ns: sum(|it| it.user_ns),
        system_ns: sum(|it| it.system_ns),
        came: sum(|it| it.counts.came),
        counted: sum(|it| it.counts.counted),
        doubled: sum(|it| it.counts.doubled),
        reordered: sum(|it| it.counts.reordered),
        old: sum(|it| it.counts.old),
        missing: sum(|it| it.counts.missing),
        dropped: sum(|it| it.dropped),
        foreign: sum(|it| it.foreign),
        ..Totals::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Beat, Lane, Stage, TALLIES_MAX, Worker, totals};

    #[test]
    fn a_stretch_begins_for_a_lane_when_it_looks() {
        let (beat, lane) = (Arc::new(Beat::new()), Arc::new(Lane::default()));
        let mut worker = Worker::new(beat.clone(), lane.clone());
        assert_eq!(worker.look(), Stage::Open);
        let lanes = [lane.clone()];
        assert_eq!(totals(&lanes, 1, Duration::ZERO).bytes, 0);
        worker.tally.bytes = 100;
        beat.begin(1, Stage::WarmUp);
        assert_eq!(worker.look(), Stage::WarmUp);
        worker.tally.bytes = 250;
        beat.begin(2, Stage::Counted);
        // It has not looked: what it had done when it last did.
        assert_eq!(totals(&lanes, 2, Duration::ZERO).bytes, 100);
        assert_eq!(worker.look(), Stage::Counted);
        let [one, two] = [1, 2].map(|number| totals(&lanes, number, Duration::ZERO));
        assert_eq!((one.bytes, two.bytes, two.lanes), (100, 250, 1));
        assert!(two.at_ns >= one.at_ns);
        worker.tally.bytes = 300;
        drop(worker);
        assert!(lane.is_over() && lane.is_idle());
        assert_eq!(totals(&lanes, 9, Duration::ZERO).bytes, 300);
    }

    #[test]
    fn a_beat_that_nobody_asks_about_takes_no_memory() {
        let (beat, lane) = (Arc::new(Beat::new()), Arc::new(Lane::default()));
        let mut worker = Worker::new(beat.clone(), lane.clone());
        for number in 1..1_000 {
            beat.begin(number, Stage::Counted);
            worker.look();
        }
        assert_eq!(lane.tallies.lock().unwrap().len(), TALLIES_MAX);
        assert_eq!(beat.now(), (999, Stage::Counted));
        for stage in Stage::ALL {
            beat.begin(1_000, stage);
            assert_eq!(beat.now().1, stage);
        }
    }
}
