//! What a zone does when it has more to do than its processors: one step after the other, in a
//! fixed order, each visible in [`Overload::report`].
//!
//! 1. **More fan-out**: viewers are spread over more of the threads that write packets.
//! 2. **Lower far tiers**: those beyond the nearest are told half as often, then a quarter.
//! 3. **Summaries**: the last tier is told as counts of bins.
//! 4. **Time dilation**: time goes slower for all, down to a floor, so that it stays fair.
//! 5. **Admission**: at the floor nobody is let in; who comes waits in line (`admission`).
//!
//! Load comes as numbers, in thousandths of the time that the tick had, which is longer when time
//! goes slower: of each room, what its thread does for cells and for writing packets, and how long its
//! viewers are being told. What only helps packets is not done when cells are what is full: then time
//! is dilated at once, the one thing that helps both. Where viewers miss a third of all ticks though
//! no room is full, because something else needs the processors, they are told less, and time goes on:
//! who misses a tick is told the next one.
//!
//! A step is taken when load has been high for half a second. The last one is taken back when load
//! would have been bearable without it for five, where packets may need twice as much without it, and
//! viewers miss none; a tenth of all time lies between bearable and high. Where a step relieves more
//! than that, it is taken again at once, and each time it stays for twice as long. Time loses a tenth
//! of its speed in a step, and wins a tenth in each second once it comes back.
//!
//! What is deliberately not here: measuring, and carrying steps out. Ticks are never skipped.

use crate::interest::Interest;

/// Above this load the next step is taken, in thousandths.
const HIGH_PERMILLE: u64 = 900;
/// The last step is taken back if load would be below this without it.
const BEARABLE_PERMILLE: u64 = 800;
/// Viewers who are told for longer than this miss a third of all ticks. Missing a few is better for them than
/// seeing less in each.
const LATE_PERMILLE: u64 = 1_500;
/// Viewers who are told for less than this miss none, and may be told more.
const ON_TIME_PERMILLE: u64 = 1_000;
/// Packets that take less than one part in so many of a full room are not what is too much.
const PACKETS_PART: u64 = 4;
/// How long load must be high, and bearable, in µs; and how long when time comes back already.
const HIGH_US: u64 = 500_000;
const BEARABLE_US: u64 = 5_000_000;
const FASTER_US: u64 = 1_000_000;
/// How long it must be bearable at most, where steps that were taken back were taken again.
const PATIENCE_US_MAX: u64 = 8 * BEARABLE_US;
/// Of its speed time loses and wins one part in so many in a step.
const PACE_PART: u16 = 10;
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

/// How loaded a zone was in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load<'a> {
    /// How long the tick lasted, in µs: longer where time goes slower, or ticks are late.
    pub tick_us: u64,
    /// Of each room.
    pub rooms: &'a [RoomLoad],
}

/// How loaded a room was in a tick, in thousandths of the time that the tick had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomLoad {
    /// What its thread did for cells.
    pub cells_permille: u64,
    /// What it did for packets.
    pub packets_permille: u64,
    /// How long its viewers were being told of a tick, waiting for a processor included: where all are
    /// in use, no room may have much to do, and viewers miss ticks all the same.
    pub told_permille: u64,
}

impl RoomLoad {
    fn sum(&self) -> u64 {
        self.cells_permille + self.packets_permille
    }

    /// Whether fewer packets would help it.
    fn has_too_many_packets(&self) -> bool {
        let is_much = self.packets_permille * PACKETS_PART >= self.sum();
        self.told_permille > LATE_PERMILLE || self.sum() > HIGH_PERMILLE && is_much
    }
}

impl Load<'_> {
    fn most(&self, of: impl Fn(&RoomLoad) -> u64) -> u64 {
        self.rooms.iter().map(of).max().unwrap_or(0)
    }

    /// Whether a room has more to do than it has time for.
    fn is_full(&self) -> bool {
        self.most(RoomLoad::sum) > HIGH_PERMILLE
    }

    /// Whether viewers miss many ticks.
    fn is_late(&self) -> bool {
        self.most(|room| room.told_permille) > LATE_PERMILLE
    }

    /// Whether fewer packets would help, and no room is full without any.
    fn is_of_packets(&self) -> bool {
        self.most(|room| room.cells_permille) <= HIGH_PERMILLE
            && self.rooms.iter().any(RoomLoad::has_too_many_packets)
    }
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
    high_us: u64,
    bearable_us: u64,
    /// For how long load must be bearable before the next step is taken back.
    patience_us: u64,
    /// How long ago a step was taken back, up to [`BEARABLE_US`], and whether it was taken again before that.
    back_us: u64,
    is_again: bool,
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
        Self {
            bounds,
            steps,
            high_us: 0,
            bearable_us: 0,
            patience_us: BEARABLE_US,
            back_us: BEARABLE_US,
            is_again: false,
        }
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
    pub fn tick(&mut self, tick: u32, load: Load<'_>) -> Option<Taken> {
        assert!(load.tick_us > 0, "tick {tick} had no time");
        // One quiet tick does not make up for many, nor one that something else has delayed, unless they are long: four
        // times as long as a tick, as a late one may be, is half a second at 8 Hz.
        let count = |us: u64, is_so: bool| {
            if is_so { us + load.tick_us } else { us.saturating_sub(load.tick_us) }
        };
        let is_late = load.is_late() && self.may_tell_less();
        self.high_us = count(self.high_us, load.is_full() || is_late);
        self.bearable_us = count(self.bearable_us, self.would_be_bearable(load));
        self.bearable_us = self.bearable_us.min(self.patience_us);
        self.back_us = (self.back_us + load.tick_us).min(BEARABLE_US);
        let from = self.steps;
        if self.high_us >= HIGH_US {
            (self.high_us, self.bearable_us) = (0, 0);
            if self.back_us < BEARABLE_US {
                self.patience_us = (self.patience_us * 2).min(PATIENCE_US_MAX);
                (self.back_us, self.is_again) = (BEARABLE_US, true);
            }
            self.steps = self.next(load);
        } else if self.bearable_us >= self.patience_us && self.has_steps() {
            if !self.is_again {
                self.patience_us = BEARABLE_US;
            }
            (self.back_us, self.is_again) = (0, false);
            self.steps = self.last();
            let is_slow = self.steps.tau_permille < 1_000;
            self.bearable_us = if is_slow { self.patience_us - FASTER_US } else { 0 };
        }
        let to = self.steps;
        (from != to).then_some(Taken { tick, from, to })
    }

    /// Whether packets can still be made fewer or smaller.
    fn may_tell_less(&self) -> bool {
        let Steps { fanouts, halvings, has_summaries, .. } = self.steps;
        fanouts < self.bounds.fanouts_max || halvings < HALVINGS_MAX || !has_summaries
    }

    /// Whether anything is done.
    fn has_steps(&self) -> bool {
        self.steps != Self::new(self.bounds).steps
    }

    /// Whether load would be bearable if the last step had not been taken. Each of those that relieve
    /// packets may have halved them. Whoever is let in at the floor needs what the next speed would.
    fn would_be_bearable(&self, load: Load<'_>) -> bool {
        let tau_permille = self.steps.tau_permille;
        if self.steps.is_closed || tau_permille < 1_000 {
            let most = load.most(RoomLoad::sum) * u64::from(faster(tau_permille));
            most / u64::from(tau_permille) < BEARABLE_PERMILLE
        } else {
            let most = load.most(|room| room.sum() + room.packets_permille);
            most < BEARABLE_PERMILLE && load.most(|room| room.told_permille) < ON_TIME_PERMILLE
        }
    }

    /// One step more.
    fn next(&self, load: Load<'_>) -> Steps {
        let mut steps = self.steps;
        let is_of_packets = load.is_of_packets();
        if is_of_packets && steps.fanouts < self.bounds.fanouts_max {
            steps.fanouts = steps.fanouts.saturating_mul(2).min(self.bounds.fanouts_max);
        } else if is_of_packets && steps.halvings < HALVINGS_MAX {
            steps.halvings += 1;
        } else if is_of_packets && !steps.has_summaries {
            steps.has_summaries = true;
        } else if load.is_full() && steps.tau_permille > self.bounds.tau_floor_permille {
            let slower = steps.tau_permille - pace(steps.tau_permille);
            steps.tau_permille = slower.max(self.bounds.tau_floor_permille);
        } else if load.is_full() {
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
            steps.tau_permille = faster(steps.tau_permille);
        } else if steps.has_summaries {
            steps.has_summaries = false;
        } else if steps.halvings > 0 {
            steps.halvings -= 1;
        } else {
            // The number from which this one was doubled, as far as it may.
            steps.fanouts = 1 << (steps.fanouts - 1).checked_ilog2().unwrap_or(0);
        }
        steps
    }
}

/// What time loses and wins of its speed in a step, in thousandths.
fn pace(tau_permille: u16) -> u16 {
    assert!((1..=1_000).contains(&tau_permille), "time at {tau_permille} thousandths");
    (tau_permille / PACE_PART).max(1)
}

/// The next speed when time comes back, in thousandths.
fn faster(tau_permille: u16) -> u16 {
    (tau_permille + pace(tau_permille)).min(1_000)
}
