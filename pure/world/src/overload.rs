//! What a zone does when it has more to do than its processors: one step after the other, in a
//! fixed order, each visible in [`Overload::report`].
//!
//! 1. **More fan-out**: viewers are spread over more of the threads that write packets.
//! 2. **Lower far tiers**: those beyond the nearest are told half as often, then a quarter.
//! 3. **Summaries**: the last tier is told as counts of bins.
//! 4. **Time dilation**: time goes slower for all, down to a floor, so that it stays fair.
//! 5. **Admission**: at the floor nobody is let in; who comes waits in line (`admission`).
//!
//! Load comes as numbers, in thousandths of what a tick may cost: of the thread that writes most
//! packets, and of the fullest room of cells. What only helps packets is not done when rooms are
//! what is full: then time is dilated at once, the one thing that helps both. A step is taken when
//! load has been high for half a second, and taken back when it has been low for five; time slows
//! by a fifth a second at most, and comes back by a twentieth.
//!
//! What is deliberately not here: measuring, and carrying steps out. Ticks are never skipped.

use crate::interest::Interest;

/// Above this load the next step is taken, in thousandths.
const HIGH_PERMILLE: u64 = 900;
/// Below it the last one is taken back. Half of the threads, or twice the rate, must fit between.
const LOW_PERMILLE: u64 = 400;
/// Ticks for which load must be high, and low: at 20 Hz half a second, and five.
const HIGH_TICKS: u32 = 10;
const LOW_TICKS: u32 = 100;
/// Speed of time that is lost and won in a step, in thousandths of what it is, and of all.
const SLOWER_PERMILLE: u32 = 100;
const FASTER_PERMILLE: u32 = 50;
/// Ticks between two such steps when time comes back.
const FASTER_TICKS: u32 = 20;
/// Times that far tiers are halved.
const HALVINGS_MAX: u8 = 2;

/// What a zone may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Threads that may write packets, at least one.
    pub fanouts_max: u16,
    /// Time goes no slower than this, in thousandths: from 100 up to 1,000.
    pub tau_floor_permille: u16,
}

/// How loaded a zone was in a tick, in thousandths of what a tick may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The thread that had most to write.
    pub fanout_permille: u64,
    /// The room that had most to compute.
    pub room_permille: u64,
}

/// All that is done about load, as clients and operators are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Threads that write packets.
    pub fanouts: u16,
    /// How often the rates of far tiers are halved.
    pub halvings: u8,
    /// Whether far crowds are told as summaries.
    pub has_summaries: bool,
    /// How fast time goes, in thousandths.
    pub tau_permille: u16,
    /// Whether newcomers wait.
    pub is_closed: bool,
}

/// A step that was taken, or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In which tick.
    pub tick: u32,
    /// What was so before, and what is now.
    pub from: Steps,
    /// What is so now.
    pub to: Steps,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Overload {
    bounds: Bounds,
    steps: Steps,
    high_ticks: u32,
    low_ticks: u32,
}

impl Overload {
    /// Nothing is done yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        assert!(bounds.fanouts_max > 0, "packets need a thread");
        let floor = bounds.tau_floor_permille;
        assert!((100..=1_000).contains(&floor), "time at {floor} thousandths");
        let steps = Steps {
            fanouts: 1,
            halvings: 0,
            has_summaries: false,
            tau_permille: 1_000,
            is_closed: false,
        };
        Self { bounds, steps, high_ticks: 0, low_ticks: 0 }
    }

    /// What is done now.
    #[must_use]
    pub fn report(&self) -> Steps {
        self.steps
    }

    /// What viewers are told now, made of what they would be told.
    #[must_use]
    pub fn interest(&self, wanted: &Interest) -> Interest {
        let mut interest = *wanted;
        for period in &mut interest.periods[1..] {
            let longer = period.saturating_mul(1 << self.steps.halvings);
            *period = longer.min(wanted.periods[3].max(*period));
        }
        interest.has_summaries |= self.steps.has_summaries;
        interest
    }

    /// The thread that writes a viewer's packets, by the number of the viewer.
    #[must_use]
    pub fn fanout_of(&self, viewer: u32) -> u16 {
        u16::try_from(viewer % u32::from(self.steps.fanouts)).unwrap_or(0)
    }

    /// The load of a tick. Tells what changes because of it.
    pub fn tick(&mut self, tick: u32, load: Load) -> Option<Taken> {
        let most = load.fanout_permille.max(load.room_permille);
        self.high_ticks = if most > HIGH_PERMILLE { self.high_ticks + 1 } else { 0 };
        self.low_ticks = if most < LOW_PERMILLE { self.low_ticks + 1 } else { 0 };
        let from = self.steps;
        if self.high_ticks >= HIGH_TICKS {
            self.high_ticks = 0;
            self.steps = self.next(load);
        } else if self.low_ticks >= LOW_TICKS {
            self.low_ticks =
                if self.steps.tau_permille < 1_000 { LOW_TICKS - FASTER_TICKS } else { 0 };
            self.steps = self.last();
        }
        let to = self.steps;
        (from != to).then_some(Taken { tick, from, to })
    }

    /// One step more.
    fn next(&self, load: Load) -> Steps {
        let mut steps = self.steps;
        let is_fanout = load.fanout_permille > HIGH_PERMILLE;
        if is_fanout && steps.fanouts < self.bounds.fanouts_max {
            steps.fanouts = steps.fanouts.saturating_mul(2).min(self.bounds.fanouts_max);
        } else if is_fanout && steps.halvings < HALVINGS_MAX {
            steps.halvings += 1;
        } else if is_fanout && !steps.has_summaries {
            steps.has_summaries = true;
        } else if steps.tau_permille > self.bounds.tau_floor_permille {
            let slower = u32::from(steps.tau_permille) * (1_000 - SLOWER_PERMILLE) / 1_000;
            let slower = u16::try_from(slower).unwrap_or(self.bounds.tau_floor_permille);
            steps.tau_permille = slower.max(self.bounds.tau_floor_permille);
        } else {
            steps.is_closed = true;
        }
        steps
    }

    /// One step less, the last first.
    fn last(&self) -> Steps {
        let mut steps = self.steps;
        if steps.is_closed {
            steps.is_closed = false;
        } else if steps.tau_permille < 1_000 {
            let faster = u32::from(steps.tau_permille) + FASTER_PERMILLE;
            steps.tau_permille = u16::try_from(faster.min(1_000)).unwrap_or(1_000);
        } else if steps.has_summaries {
            steps.has_summaries = false;
        } else if steps.halvings > 0 {
            steps.halvings -= 1;
        } else {
            steps.fanouts = (steps.fanouts / 2).max(1);
        }
        steps
    }
}
