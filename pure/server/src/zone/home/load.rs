//! What the zone measures of its load: what cells and packets kept each room in a tick, and how long rooms were at
//! telling their viewers of one. What is done about it `world::Overload` says.
//!
//! In come the ends of ticks and of tellings, out goes how fast time is to go; what viewers are told less
//! of `show` asks for.

use std::collections::BTreeMap;

use event::Now;
use uuid::Uuid;
use world::{EntityId, Load, RoomLoad};

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
    /// The newest one that has ended, and whether that was since load was judged.
    ended: Telling,
    is_new: bool,
}

/// What telling of a tick needed, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Telling {
    /// Of its thread.
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
        let took_ns = now.mono_ns.saturating_sub(shown_ns);
        (self.ended, self.is_new) = (Telling { cost_ns, took_ns }, true);
    }

    /// What telling needed in a tick that had so much time, by the newest one that has ended: one that takes longer is of
    /// all ticks that it lasts for. Nothing, where nobody has been told of anything since the last time.
    fn take(&mut self, now: Now, tick_ns: u64) -> Telling {
        let is_new = std::mem::take(&mut self.is_new);
        if self.viewers == 0 {
            self.ended = Telling::default();
            return self.ended;
        }
        if !is_new && !self.is_busy() {
            self.ended = Telling::default();
        }
        let Telling { cost_ns, took_ns } = self.ended;
        let so_far_ns = self.shown_ns.map_or(0, |shown_ns| now.mono_ns.saturating_sub(shown_ns));
        // A thread that was stopped for minutes has blocked for as long.
        let of_tick = u128::from(cost_ns) * u128::from(tick_ns) / u128::from(took_ns.max(tick_ns));
        let Ok(cost_ns) = u64::try_from(of_tick) else {
            unreachable!("a part of {cost_ns} ns is more than all")
        };
        Telling { cost_ns, took_ns: took_ns.max(so_far_ns) }
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
        let mut rooms = Vec::with_capacity(self.audiences.len());
        for (audience, cells_ns) in self.audiences.iter_mut().zip(open.cost_ns.iter().copied()) {
            let Telling { cost_ns, took_ns } = audience.take(now, tick_ns);
            fullest_ns = cells_ns.max(fullest_ns);
            packets_ns = audience.ended.cost_ns.max(packets_ns);
            rooms.push(RoomLoad {
                cells_permille: permille(cells_ns),
                packets_permille: permille(cost_ns),
                told_permille: permille(took_ns),
            });
        }
        stats.zone.cells.note(fullest_ns / 1_000);
        stats.zone.packets.note(packets_ns / 1_000);
        let load = Load { tick_us: self.lasted_ns(now, tick_ns) / 1_000, rooms: &rooms };
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
        let of = |cost_ns, took_ns| Telling { cost_ns, took_ns };
        let mut audience = Audience { viewers: 1, ..Audience::default() };
        audience.begin(at(0));
        assert_eq!(audience.take(at(10), 10), of(0, 10));
        assert_eq!(audience.take(at(20), 10), of(0, 20));
        audience.end(at(24), 18);
        audience.begin(at(24));
        assert_eq!(audience.take(at(30), 10), of(7, 24), "18 in 24");
        assert_eq!(audience.take(at(40), 10), of(7, 24));
        assert_eq!(audience.take(at(50), 10), of(7, 26), "the one that lasts still");
        audience.end(at(52), 6);
        audience.begin(at(60));
        audience.end(at(65), 3);
        assert_eq!(audience.take(at(70), 10), of(3, 5));
        assert_eq!(audience.take(at(80), 10), of(0, 0), "nobody has been told of anything");
        audience.begin(at(80));
        audience.end(at(85), 3);
        audience.viewers = 0;
        assert_eq!(audience.take(at(90), 10), of(0, 0), "they have gone");
    }
}
