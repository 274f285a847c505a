//! What a server says of its zone while it is measured: counters at the edges of the counted time, and where its
//! cells are, second by second.
//!
//! In: pages of the server's metrics port. Out: parts of the result. A page that does not come leaves its part out.

use serde::Deserialize;

use crate::load::record::Stage;
use crate::load::result::{Bounds, Second, ZoneCell, ZoneServer};
use crate::measure::scrape::Scrape;
use crate::measure::server::Metrics;

/// What the server says of its zone, second by second.
pub(super) struct MetricsWatch {
    metrics: Metrics,
    start: Option<Scrape>,
    end: Option<Scrape>,
    last: Scrape,
    cells: Option<(u64, u64)>,
    /// Of each counted second: what the cells of the fullest room cost, and those of all.
    rooms_us: Vec<(u64, u64)>,
}

/// Where cells are, as `/zone.json` has it.
#[derive(Debug, Deserialize)]
struct Map {
    bins: u16,
    cells: Vec<ZoneCell>,
}

impl MetricsWatch {
    pub(super) fn new(metrics: Metrics) -> Self {
        let (start, end, cells) = (None, None, None);
        Self { metrics, start, end, last: Scrape::default(), cells, rooms_us: Vec::new() }
    }

    pub(super) fn stage_begins(&mut self, stage: Stage) {
        match stage {
            Stage::Counted => self.start = self.metrics.read(),
            Stage::Drain => self.end = self.metrics.read(),
            Stage::Ramp | Stage::WarmUp | Stage::Done => {}
        }
    }

    /// Adds what there is to say of a second.
    pub(super) fn second(&mut self, second: &mut Second) {
        let Some(zone) = &mut second.zone else { return };
        let Some(scrape) = self.metrics.read() else { return };
        zone.cells = scrape.count("zone_cells");
        let before = std::mem::replace(&mut self.last, scrape).count("zone_hand_overs");
        zone.hand_overs = self.last.count("zone_hand_overs").saturating_sub(before);
        let map = self.metrics.page("/zone.json").and_then(|text| serde_json::from_str(&text).ok());
        if let Some(Map { bins, cells }) = map {
            (zone.bins, zone.map) = (bins, cells);
        }
        if second.stage == Stage::Counted {
            let rooms = zone.rooms_us();
            self.rooms_us.extend(rooms.values().max().map(|it| (*it, rooms.values().sum())));
            let (least, most) = self.cells.unwrap_or((zone.cells, zone.cells));
            self.cells = Some((least.min(zone.cells), most.max(zone.cells)));
        }
    }

    pub(super) fn summary(&self) -> Option<ZoneServer> {
        let (start, end) = (self.start.as_ref()?, self.end.as_ref()?);
        let count = |name: &str| end.count(name).saturating_sub(start.count(name));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
        let bounds = |name: &str| {
            let us = |share: f64| Some((end.quantile_since(start, name, share)? * 1e6) as u64);
            Bounds { p50_us: us(0.5), p99_us: us(0.99), p999_us: us(0.999) }
        };
        Some(ZoneServer {
            ticks: count("zone_ticks"),
            held: count("zone_ticks_held"),
            slowed: count("zone_ticks_slowed"),
            late: bounds("zone_tick_late_seconds"),
            took: bounds("zone_tick_cells_seconds"),
            packets: bounds("zone_tick_packets_seconds"),
            shows_skipped: count("zone_shows_skipped"),
            packets_held: count("zone_packets_held"),
            hand_overs: count("zone_hand_overs"),
            faults: count("zone_faults"),
            cells: self.cells.unwrap_or_default(),
            splits: count("zone_splits"),
            merges: count("zone_merges"),
            border_moves: count("zone_border_moves"),
            fullest_room_us: self.rooms_us.iter().map(|it| it.0).collect(),
            all_rooms_us: self.rooms_us.iter().map(|it| it.1).collect(),
        })
    }
}
