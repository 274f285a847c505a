//! What pilots of the zone are told, as a generator counts it: updates, whether they are right, how old
//! they are, and how far from the truth what pilots believe is.
//!
//! In: what each snapshot brought. Out: part of a record. What it means stands in `result::zone`.

use serde::{Deserialize, Serialize};

use crate::measure::percentiles::Times;

/// Part of a [`Record`](super::Record).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ZoneRecord {
    /// Snapshots that were decoded and applied.
    pub(crate) snapshots: u64,
    /// Of these, those that came by datagram.
    #[serde(default)]
    pub(crate) by_datagram: u64,
    /// Datagrams of the server that have come, whatever was in them.
    #[serde(default)]
    pub(crate) datagrams: u64,
    /// Datagrams of the server that have not come, as far as later ones tell. Below zero where more have come after
    /// all than went missing in this stretch.
    #[serde(default)]
    pub(crate) datagrams_missing: i64,
    /// Bytes of them, without what carries them.
    pub(crate) snapshot_bytes: u64,
    /// Updates of one ship in them, each new to its pilot.
    pub(crate) updates: u64,
    /// Ships that went out of sight.
    pub(crate) gone: u64,
    /// Summaries of far crowds.
    pub(crate) summaries: u64,
    /// Snapshots that were older than what had come.
    pub(crate) old: u64,
    /// Ships in sight, added up over the snapshots.
    pub(crate) in_sight: u64,
    /// Updates that said the same as the ship's own pilot was told.
    pub(crate) same: u64,
    /// Updates that did not.
    pub(crate) different: u64,
    /// Samples of which the ship's own pilot was told nothing in that tick.
    pub(crate) unknown: u64,
    /// Ships that had been in sight of a pilot for long, and that it knew.
    pub(crate) seen: u64,
    /// Likewise, and that it did not know.
    pub(crate) unseen: u64,
    /// Ships that had been out of sight for long, and that it knew nevertheless.
    pub(crate) lingering: u64,
    /// Ticks by which the newest snapshot's has risen.
    pub(crate) ticks: u64,
    /// Ticks in a second, as pilots were told.
    pub(crate) tick_rate_hz: u8,
    /// The slowest that time went, in thousandths; 0 before the first snapshot.
    pub(crate) tau_permille: u16,
    /// How old what a pilot knows of a ship is when a snapshot has come.
    pub(crate) staleness: Times,
    /// How far from there the ship is, in millimetres.
    pub(crate) error_mm: Times,
}

impl ZoneRecord {
    /// Time goes at this speed.
    pub(crate) fn speed(&mut self, tau_permille: u16) {
        self.tau_permille = match self.tau_permille {
            0 => tau_permille,
            least => least.min(tau_permille),
        };
    }

    /// Adds a later stretch.
    pub(super) fn add(&mut self, other: &Self) {
        self.ticks += other.ticks;
        self.add_counts(other);
    }

    /// Adds the same stretch of another worker, who saw the same ticks.
    pub(super) fn join(&mut self, other: &Self) {
        self.ticks = self.ticks.max(other.ticks);
        self.add_counts(other);
    }

    fn add_counts(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.snapshots, other.snapshots),
            (&mut self.by_datagram, other.by_datagram),
            (&mut self.datagrams, other.datagrams),
            (&mut self.snapshot_bytes, other.snapshot_bytes),
            (&mut self.updates, other.updates),
            (&mut self.gone, other.gone),
            (&mut self.summaries, other.summaries),
            (&mut self.old, other.old),
            (&mut self.in_sight, other.in_sight),
            (&mut self.same, other.same),
            (&mut self.different, other.different),
            (&mut self.unknown, other.unknown),
            (&mut self.seen, other.seen),
            (&mut self.unseen, other.unseen),
            (&mut self.lingering, other.lingering),
        ] {
            *mine += theirs;
        }
        self.datagrams_missing += other.datagrams_missing;
        self.tick_rate_hz = self.tick_rate_hz.max(other.tick_rate_hz);
        if other.tau_permille > 0 {
            self.speed(other.tau_permille);
        }
        self.staleness.add(&other.staleness);
        self.error_mm.add(&other.error_mm);
    }
}

#[cfg(test)]
mod tests {
    use super::ZoneRecord;

    #[test]
    fn what_came_late_after_all_takes_from_what_was_missing_before() {
        let stretch = |datagrams, datagrams_missing| ZoneRecord {
            datagrams,
            datagrams_missing,
            ..ZoneRecord::default()
        };
        let mut all = stretch(10, 3);
        all.add(&stretch(5, -2));
        all.join(&stretch(7, 4));
        assert_eq!((all.datagrams, all.datagrams_missing), (22, 5));
    }
}
