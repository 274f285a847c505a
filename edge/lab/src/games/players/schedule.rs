//! When snapshots came, against the schedule that their ticks make.
//!
//! A player cannot know when a tick was due. But ticks are due at equal distances, and no snapshot comes
//! before its tick: so the schedule is the earliest that any of them allows since the player joined, and what
//! comes behind it is late. Each player has a schedule of its own, because servers begin their ticks at different moments.
//!
//! In: ticks and the moments at which they came. Out: how late they were.

use crate::measure::percentiles::Times;

/// Snapshots whose lateness is kept of one player in one stretch; what comes behind is counted as
/// [`Schedule::left_out`].
const KEPT_MAX: usize = 1 << 20;

/// The schedule of one player.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    tick_ns: u64,
    /// The first snapshot: tick and moment.
    first: Option<(u64, u64)>,
    /// The last one.
    last: (u64, u64),
    /// Ticks from one snapshot to the next, at least; 0 until there were two.
    step: u64,
    /// A snapshot's offset is how much later it came than the first one and the ticks between them say.
    /// This is the least of all since the player joined, what came before the stretch that counts
    /// included: where the schedule stands. The first one's own is 0, so that it is never above that.
    offset_ns_min: i64,
    /// The offset of each snapshot of the stretch that counts.
    kept: Vec<i64>,
    is_counting: bool,
    counts: Counts,
}

/// What was counted in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Snapshots.
    pub(crate) snapshots: u64,
    /// Snapshots that should have been there between others.
    pub(crate) missed: u64,
    /// Times that nothing came for more than one and a half distances.
    pub(crate) gaps: u64,
    /// Not kept for lack of room.
    pub(crate) left_out: u64,
}

impl Schedule {
    /// Of ticks that are so far apart.
    pub(crate) fn set_tick(&mut self, tick_ns: u64) {
        self.tick_ns = tick_ns;
    }

    pub(crate) fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    /// When the last snapshot came; 0 if none did.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last.1
    }

    /// The stretch that counts begins.
    pub(crate) fn begin(&mut self) {
        self.is_counting = true;
        self.kept.clear();
        self.counts = Counts::default();
    }

    /// It ends: adds how late each was, which is by how much its offset is above the least.
    pub(crate) fn end(&mut self, into: &mut Times) -> Counts {
        self.is_counting = false;
        for offset_ns in self.kept.drain(..) {
            into.record(u64::try_from(offset_ns - self.offset_ns_min).unwrap_or(0), 1);
        }
        self.counts
    }

    /// A snapshot of a tick came. One that was overtaken tells nothing.
    pub(crate) fn arrive(&mut self, tick: u64, at_ns: u64) {
        let Some((first, first_ns)) = self.first else {
            self.first = Some((tick, at_ns));
            self.last = (tick, at_ns);
            return;
        };
        let (last, last_ns) = self.last;
        if tick <= last {
            return;
        }
        self.last = (tick, at_ns);
        let ticks = tick - last;
        self.step = if self.step == 0 { ticks } else { self.step.min(ticks) };
        let due_ns = (tick - first).saturating_mul(self.tick_ns);
        let offset_ns = at_ns.cast_signed() - first_ns.saturating_add(due_ns).cast_signed();
        self.offset_ns_min = self.offset_ns_min.min(offset_ns);
        if !self.is_counting {
            return;
        }
        self.counts.snapshots += 1;
        self.counts.missed += ticks / self.step - 1;
        let most_ns = self.step * self.tick_ns * 3 / 2;
        self.counts.gaps += u64::from(at_ns.saturating_sub(last_ns) > most_ns);
        if self.kept.len() < KEPT_MAX {
            self.kept.push(offset_ns);
        } else {
            self.counts.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Schedule};
    use crate::measure::percentiles::Times;

    const TICK_NS: u64 = 1_000_000;

    fn lateness(warm_up: &[(u64, u64)], counted: &[(u64, u64)]) -> (Vec<u64>, Counts) {
        let mut schedule = Schedule::default();
        schedule.set_tick(TICK_NS);
        for (tick, at_ns) in warm_up {
            schedule.arrive(*tick, 7_000 + at_ns);
        }
        schedule.begin();
        for (tick, at_ns) in counted {
            schedule.arrive(*tick, 7_000 + at_ns);
        }
        let mut times = Times::default();
        let counts = schedule.end(&mut times);
        let found = times.histogram().map_or_else(Vec::new, |it| {
            it.iter_recorded()
                .flat_map(|it| {
                    let count = usize::try_from(it.count_at_value()).unwrap();
                    vec![it.value_iterated_to() / 1_000; count]
                })
                .collect()
        });
        (found, counts)
    }

    #[test]
    fn the_earliest_makes_the_schedule() {
        // The first was 300 µs late itself, which shows when the fourth is on time.
        let (late, counts) = lateness(
            &[(10, 300_000), (11, 1_300_000)],
            &[(12, 2_500_000), (13, 3_000_000), (14, 4_100_000)],
        );
        assert_eq!(late, [0, 100, 500]);
        assert_eq!(counts, Counts { snapshots: 3, missed: 0, gaps: 0, left_out: 0 });
    }

    #[test]
    fn what_is_missing_or_overtaken_is_no_lateness() {
        // Every other tick is sent; 8 is missing, and 6 comes again.
        let (late, counts) = lateness(
            &[(0, 0), (2, 2_000_000)],
            &[(4, 4_000_000), (6, 6_000_000), (6, 6_100_000), (10, 10_000_000), (12, 12_000_000)],
        );
        assert_eq!(late, [0, 0, 0, 0]);
        assert_eq!(counts, Counts { snapshots: 4, missed: 1, gaps: 1, left_out: 0 });
        assert_eq!(lateness(&[], &[]), (vec![], Counts::default()));
    }
}
