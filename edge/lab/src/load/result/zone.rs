//! What a result of pilots in the zone holds beside what every result holds, and what makes its figures
//! worthless.
//!
//! In: what pilots were told, and what the server says of itself. Out: a part of `result.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::record::zone::ZoneRecord;
use crate::measure::number::{float, group};
use crate::measure::percentiles::{Percentiles, Times};

/// Ticks that may be missed, as a share of all: more, and the zone did not do what it was asked for.
const MISSED_SHARE_MAX: f64 = 0.01;

/// What only pilots of the zone have to say; of the counted time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneSummary {
    /// Application messages: updates of one ship (place, velocity, direction, health) for one pilot,
    /// decoded, applied, and new to it.
    pub updates: u64,
    /// The same a second.
    pub updates_per_s: f64,
    /// The same per CPU-second of the server; none where that was not measured.
    pub updates_per_cpu_s: Option<f64>,
    /// Processors that the server may run on; none where that is not known.
    #[serde(default)]
    pub server_cores: Option<u32>,
    /// Snapshots that they came in.
    pub snapshots: u64,
    /// Of these, those that came by datagram; the others came over the socket.
    #[serde(default)]
    pub by_datagram: u64,
    /// Datagrams of the server that have come: snapshots, and signs that the way stands.
    #[serde(default)]
    pub datagrams: u64,
    /// Those that have not, as far as later ones tell.
    #[serde(default)]
    pub datagrams_lost: u64,
    /// Bytes of a snapshot, in the mean, without what carries it.
    pub snapshot_bytes: f64,
    /// Bytes a second that came for each pilot, with those of WebSocket and the envelope, or of the datagram.
    pub pilot_bytes_per_s: f64,
    /// Ships in sight of a pilot, in the mean.
    pub in_sight: f64,
    /// Summaries of far crowds, which are no application messages.
    pub summaries: u64,
    /// Snapshots that came after a newer one.
    pub old: u64,
    /// Updates that were compared with what the ship's own pilot was told, and were the same.
    pub same: u64,
    /// Of those compared, the others: none, unless something is broken.
    pub different: u64,
    /// Samples with nothing to compare with.
    pub unknown: u64,
    /// Ships of other pilots that had been well within a pilot's sight for 160 ticks, and that it knew.
    #[serde(default)]
    pub seen: u64,
    /// Likewise, and that it had never been told of: none, unless something is broken.
    #[serde(default)]
    pub unseen: u64,
    /// Ships that had been well beyond a pilot's sight for 160 ticks, and that it was not told to forget: likewise.
    #[serde(default)]
    pub lingering: u64,
    /// How old what a pilot knows of another's ship is when a snapshot has come.
    pub staleness: Percentiles,
    /// How far from where it is believed to be that ship is then.
    pub view_error: Lengths,
    /// Ticks in a second, as they should be.
    pub tick_rate_hz: u8,
    /// Ticks in a second, as they came.
    pub ticks_per_s: f64,
    /// The slowest that time went, in thousandths.
    pub tau_permille: u16,
    /// What the server says of its ticks; none without its metrics.
    pub server: Option<ZoneServer>,
}

/// A distribution of lengths, in millimetres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lengths {
    /// Values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_mm: f64,
    /// Median.
    pub p50_mm: u64,
    /// 99th percentile.
    pub p99_mm: u64,
    /// 99.9th percentile.
    pub p999_mm: u64,
    /// Largest.
    pub max_mm: u64,
}

impl Lengths {
    fn of(times: &Times) -> Self {
        let it = Percentiles::of(times.histogram());
        Self {
            count: it.count,
            mean_mm: it.mean_ns,
            p50_mm: it.p50_ns,
            p99_mm: it.p99_ns,
            p999_mm: it.p999_ns,
            max_mm: it.max_ns,
        }
    }
}

/// What the server's metrics say of the zone. Percentiles are the upper ends of the buckets that they
/// lie in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneServer {
    /// Ticks.
    pub ticks: u64,
    /// Of these, those that were due while cells computed the one before.
    pub held: u64,
    /// Those that were late by a whole one, so that time went slower.
    pub slowed: u64,
    /// How late ticks began.
    pub late: Bounds,
    /// Processor time of the cells on the room that had most of them.
    pub took: Bounds,
    /// Processor time of packets on the room that had most to write.
    pub packets: Bounds,
    /// Times that viewers of a room were not told of a tick.
    pub shows_skipped: u64,
    /// Snapshots that were not written, because as many as a client takes were on their way.
    pub packets_held: u64,
    /// Ships that changed cells.
    pub hand_overs: u64,
    /// Ticks that the zone's books did not agree with.
    pub faults: u64,
    /// The fewest and most cells.
    pub cells: (u64, u64),
    /// Cells that were cut in two.
    #[serde(default)]
    pub splits: u64,
    /// Cells that became one with the one beside them.
    #[serde(default)]
    pub merges: u64,
    /// Borders between two cells that were moved.
    #[serde(default)]
    pub border_moves: u64,
    /// Processor time of a tick's cells on the room that had most of them, smoothed by the server, at the end
    /// of each second, in microseconds.
    #[serde(default)]
    pub fullest_room_us: Vec<u64>,
    /// The same of all rooms together.
    #[serde(default)]
    pub all_rooms_us: Vec<u64>,
}

impl ZoneServer {
    /// The mean of what the fullest room's cells cost in a tick, in nanoseconds.
    pub(crate) fn fullest_room_ns(&self) -> Option<f64> {
        mean(&self.fullest_room_us).map(|us| us * 1e3)
    }

    /// What the fullest room has of the cells' cost, in the mean of all seconds.
    pub(crate) fn fullest_share(&self) -> Option<f64> {
        let (fullest, all) = (mean(&self.fullest_room_us)?, mean(&self.all_rooms_us)?);
        (all > 0.0).then(|| fullest / all)
    }
}

fn mean(values: &[u64]) -> Option<f64> {
    let sum: u64 = values.iter().sum();
    (!values.is_empty()).then(|| float(sum) / float(values.len() as u64))
}

/// Percentiles by buckets, in microseconds; none beyond the last bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Median.
    pub p50_us: Option<u64>,
    /// 99th percentile.
    pub p99_us: Option<u64>,
    /// 99.9th percentile.
    pub p999_us: Option<u64>,
}

/// A cell of the zone, as the server tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneCell {
    /// First column and row of bins of 64 m, and those behind the last.
    pub area: [u16; 4],
    /// The room that computes it.
    pub room: u16,
    /// Ships in it.
    pub ships: u32,
    /// Processor time of a tick, smoothed, in microseconds.
    pub cost_us: u32,
}

/// The zone in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ZoneSecond {
    /// Application messages.
    pub updates: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Ticks that came.
    pub ticks: u64,
    /// The slowest that time went, in thousandths; 0 if no snapshot came.
    pub tau_permille: u16,
    /// Of staleness.
    pub stale_p50_ns: u64,
    /// Likewise.
    pub stale_p99_ns: u64,
    /// Of the view error.
    pub error_p50_mm: u64,
    /// Likewise.
    pub error_p99_mm: u64,
    /// Cells at its end, by the server's metrics; 0 without them.
    pub cells: u64,
    /// Ships that changed cells in it, likewise.
    pub hand_overs: u64,
    /// Bins on a side of the world, likewise.
    #[serde(default)]
    pub bins: u16,
    /// Where the cells are at its end, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<ZoneCell>,
}

impl ZoneSecond {
    /// What the cells of each room cost in a tick at its end, in microseconds, by room.
    pub(crate) fn rooms_us(&self) -> BTreeMap<u16, u64> {
        let mut rooms = BTreeMap::new();
        for cell in &self.map {
            *rooms.entry(cell.room).or_default() += u64::from(cell.cost_us);
        }
        rooms
    }

    /// Adds a neighbour: sums, and the worst of the rest.
    pub(crate) fn join(&mut self, other: &Self) {
        self.updates = self.updates.saturating_add(other.updates);
        self.snapshots = self.snapshots.saturating_add(other.snapshots);
        self.ticks = self.ticks.saturating_add(other.ticks);
        self.hand_overs = self.hand_overs.saturating_add(other.hand_overs);
        self.tau_permille = self.tau_permille.min(other.tau_permille);
        for (mine, theirs) in [
            (&mut self.stale_p50_ns, other.stale_p50_ns),
            (&mut self.stale_p99_ns, other.stale_p99_ns),
            (&mut self.error_p50_mm, other.error_p50_mm),
            (&mut self.error_p99_mm, other.error_p99_mm),
            (&mut self.cells, other.cells),
        ] {
            *mine = (*mine).max(theirs);
        }
    }

    /// Of what was recorded; none if nobody flew.
    pub(crate) fn of(record: &ZoneRecord) -> Option<Self> {
        if record.snapshots == 0 {
            return None;
        }
        let stale = Percentiles::of(record.staleness.histogram());
        let error = Lengths::of(&record.error_mm);
        Some(Self {
            updates: record.updates,
            snapshots: record.snapshots,
            ticks: record.ticks,
            tau_permille: record.tau_permille,
            stale_p50_ns: stale.p50_ns,
            stale_p99_ns: stale.p99_ns,
            error_p50_mm: error.p50_mm,
            error_p99_mm: error.p99_mm,
            ..Self::default()
        })
    }
}

impl ZoneSummary {
    /// Of all that was counted, in so many seconds, by so many pilots.
    pub(crate) fn of(record: &ZoneRecord, counted_s: f64) -> Self {
        let per_s = |count: u64| float(count) / counted_s.max(1e-9);
        Self {
            updates: record.updates,
            updates_per_s: per_s(record.updates),
            snapshots: record.snapshots,
            by_datagram: record.by_datagram,
            datagrams: record.datagrams,
            datagrams_lost: u64::try_from(record.datagrams_missing).unwrap_or(0),
            snapshot_bytes: float(record.snapshot_bytes) / float(record.snapshots.max(1)),
            in_sight: float(record.in_sight) / float(record.snapshots.max(1)),
            summaries: record.summaries,
            old: record.old,
            same: record.same,
            different: record.different,
            unknown: record.unknown,
            seen: record.seen,
            unseen: record.unseen,
            lingering: record.lingering,
            staleness: Percentiles::of(record.staleness.histogram()),
            view_error: Lengths::of(&record.error_mm),
            tick_rate_hz: record.tick_rate_hz,
            ticks_per_s: per_s(record.ticks),
            tau_permille: record.tau_permille,
            ..Self::default()
        }
    }

    /// Of the snapshots, those that came by datagram; none without snapshots.
    pub(crate) fn datagram_share(&self) -> Option<f64> {
        (self.snapshots > 0).then(|| float(self.by_datagram) / float(self.snapshots))
    }

    /// Of the datagrams for pilots, those that did not come; none where none was on its way.
    pub(crate) fn lost_share(&self) -> Option<f64> {
        let all = self.datagrams + self.datagrams_lost;
        (all > 0).then(|| float(self.datagrams_lost) / float(all))
    }

    /// Why the figures must not be believed, whoever's fault it was.
    pub(crate) fn invalid(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.tau_permille < 1_000 {
            let percent = f64::from(self.tau_permille) / 10.0;
            reasons
                .push(format!("time was dilated: it went at {percent:.0} % when it was slowest"));
        }
        let due = f64::from(self.tick_rate_hz);
        let missed = 1.0 - self.ticks_per_s / due.max(1e-9);
        if missed > MISSED_SHARE_MAX {
            reasons.push(format!(
                "ticks were missed: {:.2} a second came, {due:.0} were due",
                self.ticks_per_s
            ));
        }
        if self.different > 0 {
            let count = group(self.different);
            reasons.push(format!("{count} of the updates that were compared were wrong"));
        }
        if self.unseen > 0 {
            let (unseen, all) = (group(self.unseen), group(self.unseen + self.seen));
            reasons.push(format!(
                "pilots had not been told of {unseen} of {all} ships that had been in sight for long"
            ));
        }
        if self.lingering > 0 {
            let count = group(self.lingering);
            reasons.push(format!(
                "pilots had not been told to forget {count} ships that had been out of sight for long"
            ));
        }
        let faults = self.server.as_ref().map_or(0, |it| it.faults);
        if faults > 0 {
            reasons.push(format!("the zone lost or doubled ships in {} ticks", group(faults)));
        }
        reasons
    }

    /// The headline.
    pub(crate) fn claim(&self) -> String {
        let per_cpu_s = match self.updates_per_cpu_s {
            Some(it) => format!("{} per CPU-second of the server", group_rounded(it)),
            None => "the server's CPU was not measured".to_owned(),
        };
        format!(
            "application messages: {} per second, {per_cpu_s}",
            group_rounded(self.updates_per_s)
        )
    }

    /// What the headline counts.
    pub(crate) fn definition(&self) -> String {
        let compared = self.same + self.different;
        format!(
            "each the update of one ship, its place within 1 cm, velocity, direction within 1° and health, \
             for one pilot, which has decoded it, applied it, and not had it before; {} of them, {:.2} %, were \
             compared with what the ship's own pilot was told, and {} differed; acknowledgements, controls, \
             summaries and what is told again do not count; the server's CPU is that of its processes, in user \
             mode and in the kernel",
            group(compared),
            float(compared) * 100.0 / float(self.updates.max(1)),
            match self.different {
                0 => "none".to_owned(),
                count => group(count),
            },
        )
    }

    /// Application messages a second for each processor that the server may run on.
    pub(crate) fn updates_per_core(&self) -> Option<f64> {
        self.server_cores.filter(|it| *it > 0).map(|it| self.updates_per_s / f64::from(it))
    }
}

fn group_rounded(number: f64) -> String {
    crate::measure::number::group_f64(number)
}

#[cfg(test)]
mod tests {
    use super::{ZoneCell, ZoneSecond, ZoneServer, ZoneSummary};

    fn good() -> ZoneSummary {
        ZoneSummary {
            updates: 1_200_000,
            updates_per_s: 20_000.0,
            updates_per_cpu_s: Some(123_456.7),
            tick_rate_hz: 20,
            ticks_per_s: 19.9,
            tau_permille: 1_000,
            same: 99,
            ..ZoneSummary::default()
        }
    }

    #[test]
    fn the_claim_is_a_line_and_its_definition_another() {
        let line = "application messages: 20,000 per second, 123,457 per CPU-second of the server";
        assert_eq!(good().claim(), line);
        let text = good().definition();
        assert!(
            text.contains("99 of them, 0.01 %, were compared") && text.contains("none differed"),
            "{text}"
        );
        let cores = ZoneSummary { server_cores: Some(2), ..good() };
        assert_eq!(cores.updates_per_core(), Some(10_000.0));
        assert_eq!(good().updates_per_core(), None);
        let datagrams = ZoneSummary { datagrams: 3, datagrams_lost: 1, ..good() };
        assert_eq!((datagrams.lost_share(), good().lost_share()), (Some(0.25), None));
    }

    #[test]
    fn the_fullest_room_is_told_as_it_was_in_the_mean() {
        let cell = |room, cost_us| ZoneCell { room, cost_us, ..ZoneCell::default() };
        let second =
            ZoneSecond { map: vec![cell(0, 5), cell(1, 7), cell(0, 4)], ..ZoneSecond::default() };
        assert_eq!(second.rooms_us().into_values().collect::<Vec<_>>(), [9, 7]);
        let server = ZoneServer {
            fullest_room_us: vec![9, 7],
            all_rooms_us: vec![16, 16],
            ..ZoneServer::default()
        };
        assert_eq!(server.fullest_room_ns(), Some(8_000.0));
        assert_eq!(server.fullest_share(), Some(0.5));
        assert_eq!(ZoneServer::default().fullest_share(), None);
    }

    #[test]
    fn slow_time_missed_ticks_and_wrong_updates_make_a_run_invalid() {
        assert_eq!(good().invalid(), Vec::<String>::new());
        for (bad, wanted) in [
            (ZoneSummary { tau_permille: 900, ..good() }, "time was dilated: it went at 90 %"),
            (ZoneSummary { ticks_per_s: 19.5, ..good() }, "ticks were missed: 19.50"),
            (ZoneSummary { different: 1, ..good() }, "1 of the updates"),
            (
                ZoneSummary { unseen: 2, seen: 5, ..good() },
                "pilots had not been told of 2 of 7 ships",
            ),
            (ZoneSummary { lingering: 3, ..good() }, "pilots had not been told to forget 3 ships"),
        ] {
            let found = bad.invalid().join("; ");
            assert!(found.starts_with(wanted), "{found}");
        }
    }
}
