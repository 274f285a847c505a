//! What the zone's home tells of itself: how long ticks take, and where its cells are.
//!
//! In: each tick that is done. Out: numbers that others may read at any time. A map that is read while it is written
//! may have cells of two ticks; it is to be looked at, not computed with.

use super::{Counter, Times};

/// Times of the zone's ticks and its cells, on the room that is its home.
#[derive(Debug, Default)]
pub struct ZoneStats {
    /// From when a tick was due until it was released to its cells.
    pub late: Times,
    /// Processor time that the cells of a tick took on the room that had most of them.
    pub cells: Times,
    /// Processor time that packets took on the room that had most to write, of the newest tick that it
    /// has told by then.
    pub packets: Times,
    /// Where the cells are.
    pub map: ZoneMap,
}

/// A cell as it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellShown {
    /// First column and row of bins, and those behind the last.
    pub area: [u16; 4],
    /// The room that computes it.
    pub room: u16,
    /// Ships in it.
    pub ships: u32,
    /// Processor time of a tick, smoothed, in microseconds.
    pub cost_us: u32,
}

#[derive(Debug, Default)]
struct Row {
    area: Counter,
    room: Counter,
    ships: Counter,
    cost_us: Counter,
}

/// All cells, as many as there may be.
#[derive(Debug)]
pub struct ZoneMap {
    tick: Counter,
    /// Of the world; 0 while there is none.
    bins: Counter,
    count: Counter,
    rows: Box<[Row]>,
}

impl Default for ZoneMap {
    fn default() -> Self {
        Self {
            tick: Counter::default(),
            bins: Counter::default(),
            count: Counter::default(),
            rows: std::iter::repeat_with(Row::default).take(world::CELLS_MAX).collect(),
        }
    }
}

impl ZoneMap {
    /// A tick is done, in a world of so many bins on a side.
    pub(crate) fn set(&self, (tick, bins): (u32, u16), cells: impl Iterator<Item = CellShown>) {
        let mut count = 0;
        for (row, cell) in self.rows.iter().zip(cells) {
            let [x0, y0, x1, y1] = cell.area.map(u64::from);
            row.area.set(x0 << 48 | y0 << 32 | x1 << 16 | y1);
            row.room.set(u64::from(cell.room));
            row.ships.set(u64::from(cell.ships));
            row.cost_us.set(u64::from(cell.cost_us));
            count += 1;
        }
        self.count.set(count);
        self.tick.set(u64::from(tick));
        self.bins.set(u64::from(bins));
    }

    /// Tick, bins on a side, and cells; none while there is no zone.
    #[must_use]
    pub fn read(&self) -> Option<(u64, u16, Vec<CellShown>)> {
        let part = |bits: u64, shift: u32| u16::try_from(bits >> shift & 0xffff).unwrap_or(0);
        let low = |counter: &Counter| u32::try_from(counter.read()).unwrap_or(u32::MAX);
        let bins = part(self.bins.read(), 0);
        let rows = self.rows.iter().take(low(&self.count) as usize).map(|row| {
            let bits = row.area.read();
            CellShown {
                area: [48, 32, 16, 0].map(|shift| part(bits, shift)),
                room: part(row.room.read(), 0),
                ships: low(&row.ships),
                cost_us: low(&row.cost_us),
            }
        });
        (bins > 0).then(|| (self.tick.read(), bins, rows.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{CellShown, ZoneMap};

    #[test]
    fn a_map_is_read_as_it_was_set() {
        let map = ZoneMap::default();
        assert_eq!(map.read(), None);
        let cell =
            |x0, room| CellShown { area: [x0, 2, 1_024, 9], room, ships: 70_000, cost_us: 5 };
        map.set((7, 1_024), [cell(3, 0), cell(0, 65_535)].into_iter());
        assert_eq!(map.read(), Some((7, 1_024, vec![cell(3, 0), cell(0, 65_535)])));
        map.set((8, 1_024), [cell(1, 1)].into_iter());
        assert_eq!(map.read(), Some((8, 1_024, vec![cell(1, 1)])));
    }
}
