//! Who comes when, and to do which session: over the ramp, or in phases. The seed decides, not the
//! server. Knows nothing of players once they have come.

use std::sync::Arc;

use super::{PLAYERS_MAX, Settings};
use crate::load::scenario::program::{Program, SessionPlan};
use crate::measure::arrivals::Stream;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A player, who intended to come at this time.
    Player {
        /// On the engine's clock.
        due_ns: u64,
    },
    /// A player who may not come, because `players_max` are there.
    TurnedAway,
}

/// Who comes when.
#[derive(Debug)]
pub(super) struct Arrivals {
    settings: Arc<Settings>,
    program: Arc<Program>,
    start_ns: u64,
    /// Players that have come.
    count: u32,
    /// Phases: which one, when it began, when the next player comes.
    phase: usize,
    phase_start_ns: u64,
    next_ns: u64,
    /// Arrivals and whose session is whose, in the order of arrival.
    random: Stream,
}

impl Arrivals {
    pub(super) fn new(settings: Arc<Settings>, program: Arc<Program>) -> Self {
        Self {
            random: Stream::new(settings.seed, !u64::from(settings.first_number)),
            settings,
            program,
            start_ns: 0,
            count: 0,
            phase: 0,
            phase_start_ns: 0,
            next_ns: 0,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.phase_start_ns = now_ns;
        self.next_ns = now_ns;
    }

    /// Whether nobody comes any more; with phases that is up to them.
    pub(super) fn is_over(&self) -> bool {
        !self.settings.has_phases() && self.count == self.settings.players
    }

    /// Players that have not come.
    pub(super) fn missing(&self) -> u32 {
        self.settings.players - self.count
    }

    /// The place of the next player in the order of arrival, and its number in the run.
    pub(super) fn next_player(&self) -> (u32, u32) {
        (self.count, self.settings.first_number.wrapping_add(self.count))
    }

    /// The next player comes: to do this session.
    pub(super) fn take_session(&mut self) -> u16 {
        let (_, number) = self.next_player();
        self.count += 1;
        let sessions = &self.program.sessions;
        let mut counted = 0_u32;
        for (index, session) in (0..).zip(sessions) {
            counted = counted.saturating_add(session.count.unwrap_or(0));
            if number < counted {
                return index;
            }
        }
        let weight = |session: &SessionPlan| match session.count {
            Some(_) => 0.0,
            None => session.weight,
        };
        let total: f64 = sessions.iter().map(weight).sum();
        let mut place = self.random.unit() * total;
        for (index, session) in (0..).zip(sessions) {
            place -= weight(session);
            if place < 0.0 {
                return index;
            }
        }
        0
    }

    /// What is due now. Without phases it stays so until the player has come.
    pub(super) fn next(&mut self, now_ns: u64, present: u32) -> Option<Arrival> {
        if self.settings.has_phases() {
            return self.next_of_phase(now_ns, present);
        }
        let due_ns = self.ramp_ns().filter(|due_ns| *due_ns <= now_ns)?;
        // Without a ramp nobody intends to come at any time: a player comes when there is room.
        let due_ns = if self.settings.ramp_ns == 0 { now_ns } else { due_ns };
        Some(Arrival::Player { due_ns })
    }

    /// When the next one is due; `has_room` for those who come without phases.
    pub(super) fn next_ns(&self, has_room: bool) -> u64 {
        if self.settings.has_phases() {
            return self.next_ns;
        }
        self.ramp_ns().filter(|_| has_room).unwrap_or(u64::MAX)
    }

    /// When the next player of the ramp comes.
    fn ramp_ns(&self) -> Option<u64> {
        if self.count >= self.settings.players {
            return None;
        }
        let players = u64::from(self.settings.players.max(1));
        let share =
            u128::from(self.settings.ramp_ns) * u128::from(self.count) / u128::from(players);
        Some(self.start_ns.saturating_add(u64::try_from(share).unwrap_or(u64::MAX)))
    }

    fn next_of_phase(&mut self, now_ns: u64, present: u32) -> Option<Arrival> {
        while let Some(phase) = self.settings.phases.get(self.phase) {
            let end_ns = self.phase_start_ns.saturating_add(phase.duration.ns());
            let due_ns = self.next_ns;
            if due_ns >= end_ns || phase.arrivals <= 0.0 {
                self.next_ns = end_ns;
                if end_ns > now_ns {
                    return None;
                }
                self.phase += 1;
                self.phase_start_ns = end_ns;
                continue;
            }
            if due_ns > now_ns {
                return None;
            }
            let (process, mean_ns) = (phase.process, 1e9 / phase.arrivals);
            let players_max = phase.players_max.unwrap_or(PLAYERS_MAX);
            self.next_ns = due_ns + self.random.gap_ns(process, mean_ns);
            let is_full = present >= players_max.min(PLAYERS_MAX);
            return Some(if is_full { Arrival::TurnedAway } else { Arrival::Player { due_ns } });
        }
        self.next_ns = u64::MAX;
        None
    }
}
