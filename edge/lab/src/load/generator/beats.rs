//! When a paced player's next beat is due: the rate at a moment, each player's share of it, and the
//! distances between beats. The beats that a player has had stand in the player.

use std::sync::Arc;

use super::Settings;
use super::player::Player;
use super::turn::Moment;
use crate::load::record::Stage;
use crate::load::scenario::program::{Program, SessionPlan};
use crate::load::scenario::{Pace, Process};

/// The pace of loops.
#[derive(Debug)]
pub(super) struct Beats {
    settings: Arc<Settings>,
    /// Players that share the rate of a pace of all; with phases every player has the whole rate.
    sharers: f64,
    start_ns: u64,
}

impl Beats {
    pub(super) fn new(settings: Arc<Settings>, program: &Program) -> Self {
        let has_phases = settings.has_phases();
        let sharers = if has_phases { 1.0 } else { sharers(program, settings.players_all) };
        Self { settings, sharers, start_ns: 0 }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
    }

    /// Nanoseconds between two beats of one player; none without a pace.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub(super) fn interval_ns(&self, at: Moment, plan: &SessionPlan) -> Option<u64> {
        if self.settings.saturate {
            return None;
        }
        let rate = self.rate_at(at, at.now_ns).filter(|rate| *rate > 0.0)?;
        let interval = match plan.pace {
            Pace::None => return None,
            Pace::Player => 1e9 / rate,
            Pace::All => self.sharers * 1e9 / rate,
        };
        // The rate counts operations, and a write of several is one beat.
        let interval = interval * f64::from(plan.beat_requests);
        Some(interval.clamp(1.0, 1e15) as u64)
    }

    /// The next beat of a paced player, who moves on to the one after it.
    pub(super) fn take(
        &self,
        at: Moment,
        player: &mut Player,
        (process, interval_ns): (Process, u64),
    ) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "intervals are below 2^53 ns")]
        let gap_ns = |player: &mut Player| player.random.gap_ns(process, interval_ns as f64);
        let due_ns = match (player.beat_ns, process) {
            (0, Process::Poisson) => at.now_ns + gap_ns(player),
            (0, Process::Constant) => self.first_ns(at.now_ns, player.number, interval_ns),
            (due_ns, _) => due_ns,
        };
        // Never the one before the first beat: it would stand for two distances.
        let gap_ns = gap_ns(player);
        let gap_ns = match self.settings.rate_end {
            Some(_) => self.risen_ns(at, due_ns, gap_ns),
            None => gap_ns,
        };
        player.beat_ns = due_ns + gap_ns;
        if player.free_ns <= due_ns {
            player.free_ns = due_ns;
        } else if player.ready_ns.saturating_sub(player.free_ns) <= interval_ns / 10 {
            // Who thinks past the beat, whatever the server does, intends to go on when that ends.
            // The server's usual times are not added up over many such rounds; a stall is.
            player.free_ns = player.free_ns.max(player.ready_ns);
        }
        player.free_ns
    }

    /// The rate at a time of the stage that `at` is in, if there is one.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn rate_at(&self, at: Moment, time_ns: u64) -> Option<f64> {
        let (rate, Some(end)) = (self.settings.rate?, self.settings.rate_end) else {
            return self.settings.rate;
        };
        let share = match at.stage {
            Stage::Ramp | Stage::WarmUp => 0.0,
            Stage::Drain | Stage::Done => 1.0,
            Stage::Counted => {
                let left_ns = at.stage_until_ns.saturating_sub(time_ns);
                1.0 - left_ns as f64 / self.settings.counted_ns.max(1) as f64
            }
        };
        Some(rate + (end - rate) * share.clamp(0.0, 1.0))
    }

    /// How long it is from a beat to the next one when the rate rises or falls meanwhile; `gap_ns` is
    /// what it would be at the rate of now. The number of beats is the area below the rate.
    #[expect(clippy::cast_precision_loss, reason = "gaps are below 2^53 ns")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    fn risen_ns(&self, at: Moment, due_ns: u64, gap_ns: u64) -> u64 {
        const LOOK_NS: u64 = 1_000_000;
        let rates = [at.now_ns, due_ns, due_ns.saturating_add(LOOK_NS)];
        let [Some(now), Some(due), Some(soon)] = rates.map(|time_ns| self.rate_at(at, time_ns))
        else {
            return gap_ns;
        };
        let gap_ns = gap_ns as f64 * now / due.max(1e-9);
        // The share of the rate at `due_ns` by which it changes in a nanosecond.
        let slope = (soon - due) / due.max(1e-9) / LOOK_NS as f64;
        let grown = 1.0 + 2.0 * slope * gap_ns;
        let gap_ns = match slope.abs() * gap_ns {
            it if it < 1e-9 => gap_ns,
            // It falls to nothing before the next one is due.
            _ if grown <= 0.0 => gap_ns * 4.0,
            _ => (grown.sqrt() - 1.0) / slope,
        };
        gap_ns.clamp(1.0, 1e18) as u64
    }

    /// All players' beats lie on one grid, each at its own place, so that together they are even.
    fn first_ns(&self, now_ns: u64, number: u32, interval_ns: u64) -> u64 {
        let all = u128::from(self.settings.players_all.max(1));
        let share = u128::from(interval_ns) * (u128::from(number) % all) / all;
        let offset_ns = u64::try_from(share).unwrap_or(0);
        let base_ns = self.start_ns + offset_ns;
        if base_ns >= now_ns {
            return base_ns;
        }
        let passed = (now_ns - base_ns) / interval_ns + 1;
        base_ns + passed.saturating_mul(interval_ns)
    }
}

/// How many of so many players do a session whose loop has a pace of all.
fn sharers(program: &Program, players: u32) -> f64 {
    let is_paced = |plan: &&SessionPlan| plan.pace == Pace::All && plan.loop_end > plan.loop_start;
    let (mut left, mut counted) = (players, 0);
    for plan in &program.sessions {
        let count = plan.count.unwrap_or(0).min(left);
        left -= count;
        counted += if is_paced(&plan) { count } else { 0 };
    }
    let others = || program.sessions.iter().filter(|plan| plan.count.is_none());
    let weight: f64 = others().map(|plan| plan.weight).sum();
    let paced: f64 = others().filter(is_paced).map(|plan| plan.weight).sum();
    let share = if weight > 0.0 { paced / weight } else { 0.0 };
    f64::from(counted) + f64::from(left) * share
}
