//! What the zone measures of its load: what cells and packets kept each room in a tick, and how long rooms were at
//! telling their viewers of one. What is done about it `world::Overload` says.
//!
//! In come the ends of ticks and of tellings, out goes how fast time is to go; what viewers are told less
//! of `show` asks for.

use std::collections::BTreeMap;

use event::Now;
use uuid::Uuid;
use world::{EntityId, Load};

use super::{Home, Open};
use crate::mail::{Member, ZoneAck};
use crate::stats::RoomStats;

/// A tick counts for so many at most, however late it is.
const LATE_TICKS_MAX: u64 = 4;

/// The viewers of one room, as the home knows them.
#[derive(Default)]
pub(super) struct Audience {
    pub(super) viewers: u32,
    /// Whether the newest tick waits until it has been told of the one before.
    pub(super) waits: bool,
    pub(super) comes: Vec<(Member, EntityId)>,
    pub(super) goes: Vec<Uuid>,
    pub(super) acks: BTreeMap<Uuid, ZoneAck>,
    /// When it was shown the tick of which it is still being told, in nanoseconds.
    shown_ns: Option<u64>,
    /// What the newest telling that has ended kept its thread, and what of that no tick has had yet.
    cost_ns: u64,
    left_ns: u64,
    /// How long the slowest one was under way, of those that have ended since that was asked for.
    took_ns: u64,
}

/// What telling needed in a tick, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Telling {
    /// Of its thread. One that needs more than a tick has is shared among those that it lasts for.
    cost_ns: u64,
    /// Of time, waiting for a processor and for what else the thread has to do included.
    took_ns: u64,
}

impl Audience {
    /// Whether it is still being told of a tick.
    pub(super) fn is_busy(&self) -> bool {
        self.shown_ns.is_some()
    }

    /// It is shown the newest tick.
    pub(super) fn begin(&mut self, now: Now) {
        assert!(!self.is_busy(), "a tick is shown before the last one was told");
        (self.shown_ns, self.waits) = (Some(now.mono_ns), false);
    }

    /// It has been told of it.
    pub(super) fn end(&mut self, now: Now, cost_ns: u64) {
        let Some(shown_ns) = self.shown_ns.take() else {
            unreachable!("a room that was shown nothing has told of it")
        };
        (self.cost_ns, self.left_ns) = (cost_ns, cost_ns);
        self.took_ns = self.took_ns.max(now.mono_ns.saturating_sub(shown_ns));
    }

    /// What telling needed in a tick that had so much time.
    fn take(&mut self, now: Now, tick_ns: u64) -> Telling {
        let cost_ns = self.left_ns.min(tick_ns);
        self.left_ns -= cost_ns;
        let so_far_ns = self.shown_ns.map_or(0, |shown_ns| now.mono_ns.saturating_sub(shown_ns));
        Telling { cost_ns, took_ns: std::mem::take(&mut self.took_ns).max(so_far_ns) }
    }
}

impl Home {
    /// The time that a tick has, in nanoseconds, when time goes so fast.
    pub(super) fn tick_ns(&self, tau_permille: u16) -> u64 {
        let period_ns = 1_000_000_000 / u64::from(self.settings.tick_rate_hz);
        period_ns * 1_000 / u64::from(tau_permille)
    }

    /// How long it is that the last tick was judged, in nanoseconds: as long as a tick had, and more where they are late.
    /// A process that was stopped for a while has not had so much to do for so long.
    fn lasted_ns(&mut self, now: Now, tick_ns: u64) -> u64 {
        let before_ns = std::mem::replace(&mut self.judged_ns, now.mono_ns);
        now.mono_ns.saturating_sub(before_ns).clamp(tick_ns, LATE_TICKS_MAX * tick_ns)
    }

    /// What is done about the load of a tick, against the time that it had.
    pub(super) fn judge(&mut self, now: Now, open: &Open, stats: &RoomStats) {
        let tick_ns = self.tick_ns(open.tau_permille);
        let permille = |cost_ns: u64| cost_ns * 1_000 / tick_ns;
        let (mut fullest_ns, mut packets_ns) = (0, 0);
        let mut load = Load { tick_us: self.lasted_ns(now, tick_ns) / 1_000, ..Load::default() };
        for (audience, cells_ns) in self.audiences.iter_mut().zip(open.cost_ns.iter().copied()) {
            let Telling { cost_ns, took_ns } = audience.take(now, tick_ns);
            (fullest_ns, packets_ns) = (cells_ns.max(fullest_ns), audience.cost_ns.max(packets_ns));
            load.told_permille = permille(took_ns).max(load.told_permille);
            let (packets, beside) = (permille(cost_ns), permille(cells_ns));
            if cost_ns > 0 && packets + beside > load.packets_permille + load.beside_permille {
                (load.packets_permille, load.beside_permille) = (packets, beside);
            }
        }
        load.cells_permille = permille(fullest_ns);
        stats.zone.cells.note(fullest_ns / 1_000);
        stats.zone.packets.note(packets_ns / 1_000);
        if let Some(taken) = self.overload.tick(self.director.tick(), load) {
            tracing::info!(?load, from = ?taken.from, to = ?taken.to, "the zone has another load");
            self.director.set_tau(taken.to.tau_permille);
        }
        stats.zone_tau_permille.set(u64::from(self.overload.report().tau_permille));
    }
}

#[cfg(test)]
mod tests {
    use event::Now;

    use super::{Audience, Telling};

    #[test]
    fn a_slow_telling_is_of_all_ticks_that_it_lasts_for() {
        let at = |mono_ns| Now { mono_ns, ..Now::default() };
        let mut audience = Audience::default();
        audience.begin(at(0));
        assert_eq!(audience.take(at(10), 10), Telling { cost_ns: 0, took_ns: 10 });
        assert_eq!(audience.take(at(20), 10), Telling { cost_ns: 0, took_ns: 20 });
        audience.end(at(27), 24);
        audience.begin(at(27));
        assert_eq!(audience.take(at(30), 10), Telling { cost_ns: 10, took_ns: 27 });
        assert_eq!(audience.take(at(40), 10), Telling { cost_ns: 10, took_ns: 13 });
        audience.end(at(41), 6);
        assert_eq!(audience.take(at(50), 10), Telling { cost_ns: 6, took_ns: 14 });
        assert_eq!(audience.take(at(60), 10), Telling { cost_ns: 0, took_ns: 0 });
    }
}
