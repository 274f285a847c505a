//! Where the run is: which stage, when it ends by itself, and when the next second and the next
//! look at the players are due. Knows nothing of players but how many there are.

use std::ops::Range;
use std::sync::Arc;

use super::Settings;
use super::turn::Moment;
use crate::load::record::Stage;

/// Records are handed over this often.
const TICK_NS: u64 = 1_000_000_000;
/// All players are looked at this often, for time-outs and pings, a hundredth of them at a time.
const SWEEP_NS: u64 = 1_000_000_000;
const SWEEP_SLICES: u64 = 100;
/// How long a run goes on in which not a single player gets ready.
const GIVE_UP_NS: u64 = 10_000_000_000;
/// How long players that are not ready may hold up the counted time, after the ramp and after the
/// last one that did become ready.
const RAMP_PATIENCE_NS: u64 = 60_000_000_000;
/// How long nothing may come before no more deliveries are waited for, after the last answer.
const SETTLE_NS: u64 = 500_000_000;

/// How many players there are of each kind, and connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census {
    pub(super) present: u32,
    pub(super) ready: u32,
    /// Players that have left before they were ready.
    pub(super) gone: u32,
    /// With an operation under way.
    pub(super) busy: u32,
    /// When one last became ready.
    pub(super) last_ready_ns: u64,
    pub(super) connections: u32,
    pub(super) sockets: u32,
}

/// What becomes of the ramp when its time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RampEnd {
    /// Players that may still become ready are waited for.
    Later,
    /// So many are not ready, and are not waited for any more.
    Now {
        /// How many.
        missing: u32,
    },
}

/// Where the run is.
#[derive(Debug)]
pub(super) struct Stages {
    settings: Arc<Settings>,
    /// How long to wait, at the end, for what nobody waits for: match messages.
    settle_span_ns: u64,
    stage: Stage,
    until_ns: u64,
    start_ns: u64,
    tick_ns: u64,
    sweep_ns: u64,
    sweep_slice: u64,
    settle_ns: u64,
    /// Players in their loop at the end have been told.
    has_ended_loops: bool,
    /// The last player that the ramp waited for is there.
    is_complete: bool,
}

impl Stages {
    pub(super) fn new(settings: Arc<Settings>, has_deliveries: bool) -> Self {
        Self {
            settings,
            settle_span_ns: if has_deliveries { SETTLE_NS } else { 0 },
            stage: Stage::Ramp,
            until_ns: u64::MAX,
            start_ns: 0,
            tick_ns: u64::MAX,
            sweep_ns: u64::MAX,
            sweep_slice: 0,
            settle_ns: u64::MAX,
            has_ended_loops: false,
            is_complete: false,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.tick_ns = now_ns + TICK_NS;
        self.sweep_ns = now_ns + SWEEP_NS / SWEEP_SLICES;
        self.until_ns = now_ns.saturating_add(self.settings.ramp_ns + GIVE_UP_NS);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.start_ns != 0
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) fn at(&self, now_ns: u64) -> Moment {
        Moment { now_ns, stage: self.stage, stage_until_ns: self.until_ns }
    }

    /// Whether the stage has had its time.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.until_ns <= now_ns
    }

    /// Begins a stage.
    pub(super) fn enter(&mut self, now_ns: u64, stage: Stage) {
        self.stage = stage;
        self.tick_ns = now_ns + TICK_NS;
        self.until_ns = now_ns.saturating_add(match stage {
            Stage::Ramp | Stage::Done => u64::MAX,
            Stage::WarmUp => self.settings.warm_up_ns,
            Stage::Counted => self.settings.counted_ns,
            Stage::Drain => self.settings.timeout_ns,
        });
        if stage == Stage::Drain {
            self.settle_later(now_ns);
        }
    }

    /// Goes on with this stage until it is told to end.
    pub(super) fn wait_for_go(&mut self) {
        self.until_ns = u64::MAX;
    }

    /// The ramp goes on: it is to end at the next wake, once, when all players are ready or gone.
    pub(super) fn look_at(&mut self, census: &Census) {
        let are_all_there = census.ready + census.gone == self.settings.players;
        if are_all_there && !self.is_complete {
            self.is_complete = true;
            self.sweep_ns = 0;
            self.until_ns = 0;
        }
    }

    /// The ramp's time is up: all players are ready, or those that are not have had their time.
    pub(super) fn ramp_end(&mut self, now_ns: u64, census: &Census) -> RampEnd {
        let missing = self.settings.players - census.ready - census.gone;
        let ramp_end_ns = self.start_ns + self.settings.ramp_ns;
        let last_ns = ramp_end_ns.max(census.last_ready_ns) + RAMP_PATIENCE_NS;
        if missing > 0 && census.ready > 0 && now_ns < last_ns {
            self.until_ns = last_ns;
            return RampEnd::Later;
        }
        RampEnd::Now { missing }
    }

    /// Deliveries still come in, or players are busy: waits for more.
    pub(super) fn settle_later(&mut self, now_ns: u64) {
        if self.stage == Stage::Drain {
            self.settle_ns = now_ns + self.settle_span_ns;
        }
    }

    /// Whether nothing comes any more after the counted time.
    pub(super) fn has_settled(&mut self, now_ns: u64, census: &Census) -> bool {
        let has_left = !self.settings.has_phases() || census.present == 0;
        let is_quiet = census.busy == 0 && has_left;
        if !is_quiet {
            self.settle_later(now_ns);
        }
        is_quiet && self.settle_ns <= now_ns
    }

    /// Whether players of phases that are in their loop are to be told, once, that it is over.
    pub(super) fn takes_loops_end(&mut self) -> bool {
        self.settings.has_phases() && !std::mem::replace(&mut self.has_ended_loops, true)
    }

    /// Whether a second is over.
    pub(super) fn takes_tick(&mut self, now_ns: u64) -> bool {
        let is_due = self.tick_ns <= now_ns;
        while self.tick_ns <= now_ns {
            self.tick_ns += TICK_NS;
        }
        is_due
    }

    /// Which of so many players are to be looked at now. Late looks are not made up for.
    pub(super) fn takes_sweep(&mut self, now_ns: u64, players: usize) -> Range<usize> {
        if self.sweep_ns > now_ns {
            return 0..0;
        }
        self.sweep_ns = now_ns + SWEEP_NS / SWEEP_SLICES;
        let slice = self.sweep_slice;
        self.sweep_slice = (slice + 1) % SWEEP_SLICES;
        let bound =
            |slice: u64| usize::try_from(players as u64 * slice / SWEEP_SLICES).unwrap_or(0);
        bound(slice)..bound(slice + 1)
    }

    /// When something is due next.
    pub(super) fn next_ns(&self) -> u64 {
        self.tick_ns.min(self.sweep_ns).min(self.until_ns)
    }
}
