//! When to split, merge or move cells: by what they cost, with hysteresis.
//!
//! Costs come as numbers, processor time that a cell's ticks took, smoothed over five seconds. A
//! **room** is a thread that computes some of the cells. Changes come in this order: move the cut
//! between two cells by a line of bins; split the heaviest cell of a room that has too much, and
//! give a half to the room that has least; merge two that together have little. What makes a cell
//! splittable is far from what makes its halves mergeable, each condition must hold for a while,
//! and a cell that was changed is left alone for a while, so that nothing swings.
//!
//! A partition may be **fixed** instead: as many cells as there are rooms, halved from the whole world, and
//! no change after that, whatever they cost. It is what partitions that follow the load are compared with.
//!
//! What is deliberately not here: carrying changes out (`director`), and what to do when no cut
//! helps because all stand in one place: that is told as [`Balance::is_crowded`].

use std::collections::BTreeMap;

use crate::mail::Report;
use crate::space::{Area, Axis};
use crate::tree::{CELL_SIDE_MIN, CellId, Change, Tree};

/// How fast a zone runs, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Ticks in a second of the world.
    pub tick_rate_hz: u32,
    /// Processor time of a tick that a room may use for its cells, in nanoseconds.
    pub budget_ns: u64,
    /// Rooms that compute cells, at least one.
    pub rooms: u16,
}

/// A room with more of its budget than this gives half a cell away, in thousandths.
const SPLIT_PERMILLE: u64 = 750;
/// Two cells with less than this together become one.
const MERGE_PERMILLE: u64 = 350;
/// Two cells that differ by more than this part of their sum are evened out.
const UNEVEN_PERMILLE: u64 = 200;
/// A half with less than this part of a cell's entities is no relief.
const RELIEF_PERMILLE: u64 = 100;
/// Fewer entities than this are not split.
const SPLIT_ENTITIES_MIN: u32 = 64;
/// Seconds for which a condition must hold, and for which a cell is left alone after a change.
const SPLIT_SECS: u32 = 1;
const NUDGE_SECS: u32 = 2;
const NUDGE_PAUSE_SECS: u32 = 1;
const MERGE_SECS: u32 = 30;
const REST_SECS: u32 = 5;
/// Changes of a zone in a second.
const CHANGES_PER_SEC: u32 = 2;
/// Seconds over which costs are smoothed.
const SMOOTH_SECS: u32 = 5;

#[derive(Clone, Debug)]
struct Standing {
    room: u16,
    /// Smoothed cost of a tick, in nanoseconds; none before the first report.
    cost_ns: Option<u64>,
    columns: Vec<u32>,
    rows: Vec<u32>,
    /// Not to be changed before this tick.
    rests_until: u32,
}

/// What it knows of all cells, and since when what has been so.
#[derive(Debug)]
pub struct Balance {
    rates: Rates,
    cells: BTreeMap<CellId, Standing>,
    hot_since: BTreeMap<u16, u32>,
    uneven_since: BTreeMap<(CellId, CellId), u32>,
    idle_since: BTreeMap<(CellId, CellId), u32>,
    next_change: u32,
    is_crowded: bool,
    is_fixed: bool,
}

impl Balance {
    /// One cell, on room 0.
    #[must_use]
    pub fn new(rates: Rates, cell: CellId) -> Self {
        assert!(rates.rooms > 0 && rates.tick_rate_hz > 0 && rates.budget_ns > 0, "{rates:?}");
        let mut balance = Self {
            rates,
            cells: BTreeMap::new(),
            hot_since: BTreeMap::new(),
            uneven_since: BTreeMap::new(),
            idle_since: BTreeMap::new(),
            next_change: 0,
            is_crowded: false,
            is_fixed: false,
        };
        balance.stand(cell, 0, 0);
        balance
    }

    /// From now on the partition does not follow what cells cost.
    pub fn fix(&mut self) {
        self.is_fixed = true;
    }

    /// The room that computes a cell.
    #[must_use]
    pub fn room(&self, cell: CellId) -> u16 {
        self.cells.get(&cell).map_or(0, |it| it.room)
    }

    /// What the fullest room uses of its budget, in thousandths.
    #[must_use]
    pub fn fullest_permille(&self) -> u64 {
        (0..self.rates.rooms).map(|room| self.permille(self.room_ns(room))).max().unwrap_or(0)
    }

    /// Whether some room has too much, and no cut would help.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// What a tick of a cell took. Of a cell that is no more, it is forgotten.
    pub fn report(&mut self, report: Report) {
        let over = u64::from(SMOOTH_SECS * self.rates.tick_rate_hz);
        let Some(known) = self.cells.get_mut(&report.cell) else { return };
        known.cost_ns = Some(match known.cost_ns {
            Some(cost_ns) => cost_ns - cost_ns / over + report.cpu_ns / over,
            None => report.cpu_ns,
        });
        (known.columns, known.rows) = (report.columns, report.rows);
    }

    /// What should change in the tree now, if anything. `new` names a cell that would be new.
    pub fn decide(&mut self, tick: u32, tree: &Tree, new: CellId) -> Option<Change> {
        if self.is_fixed {
            return self.halve(tree, new);
        }
        let pairs = tree.siblings();
        self.watch(tick, &pairs);
        if tick < self.next_change {
            return None;
        }
        self.nudge(tick, tree, &pairs).or_else(|| self.split(tick, tree, new)).or_else(|| {
            let (kept, gone, ..) = *pairs.iter().find(|(below, above, ..)| {
                let pair = (*below, *above);
                self.has_lasted(tick, self.idle_since.get(&pair), MERGE_SECS)
                    && self.rest(tick, &[pair.0, pair.1])
            })?;
            Some(Change::Merge { kept, gone })
        })
    }

    /// A change was made, by [`decide`](Self::decide) or by hand.
    pub fn changed(&mut self, tick: u32, change: Change) {
        self.next_change = tick + self.rates.tick_rate_hz / CHANGES_PER_SEC;
        let rests = tick + REST_SECS * self.rates.tick_rate_hz;
        match change {
            Change::Split { cell, above, .. } => {
                let room = self.emptiest_room();
                // What the halves cost shows in their next reports; half is a fair guess.
                let half = self.cells.get(&cell).and_then(|it| it.cost_ns).map(|ns| ns / 2);
                self.stand(above, room, rests);
                for part in [cell, above] {
                    self.set(part, half, rests);
                }
            }
            Change::Merge { kept, gone } => {
                let sum = self.cost_ns(kept) + self.cost_ns(gone);
                self.cells.remove(&gone);
                self.set(kept, Some(sum), rests);
            }
            Change::Nudge { below, above, .. } => {
                let rests = tick + NUDGE_PAUSE_SECS * self.rates.tick_rate_hz;
                self.cells.get_mut(&below).into_iter().for_each(|it| it.rests_until = rests);
                self.cells.get_mut(&above).into_iter().for_each(|it| it.rests_until = rests);
            }
        }
    }

    /// Notes since when rooms are hot, and pairs uneven or idle.
    fn watch(&mut self, tick: u32, pairs: &[(CellId, CellId, Axis, u16)]) {
        let rooms = (0..self.rates.rooms).filter(|room| self.is_hot(*room)).collect::<Vec<_>>();
        since(&mut self.hot_since, tick, rooms);
        let both = |(below, above, ..): &(CellId, CellId, Axis, u16)| (*below, *above);
        let uneven = pairs.iter().map(both).filter(|(below, above)| {
            let (one, other) = (self.cost_ns(*below), self.cost_ns(*above));
            let differ = self.room(*below) != self.room(*above);
            differ && one.abs_diff(other) * 1_000 > (one + other) * UNEVEN_PERMILLE
        });
        let uneven = uneven.collect();
        let idle = pairs.iter().map(both).filter(|(below, above)| {
            let (one, other) = (self.cost_ns(*below), self.cost_ns(*above));
            let room = self.room(*below);
            let moves = if room == self.room(*above) { 0 } else { other };
            self.permille(one + other) < MERGE_PERMILLE
                && self.permille(self.room_ns(room) + moves) < SPLIT_PERMILLE
        });
        let idle = idle.collect();
        since(&mut self.uneven_since, tick, uneven);
        since(&mut self.idle_since, tick, idle);
    }

    /// Moves a cut by one line towards the heavier cell, if that brings the two closer together.
    fn nudge(
        &self,
        tick: u32,
        tree: &Tree,
        pairs: &[(CellId, CellId, Axis, u16)],
    ) -> Option<Change> {
        pairs.iter().find_map(|&(below, above, axis, at)| {
            if !self.has_lasted(tick, self.uneven_since.get(&(below, above)), NUDGE_SECS)
                || !self.rest(tick, &[below, above])
            {
                return None;
            }
            let (low_ns, high_ns) = (self.cost_ns(below), self.cost_ns(above));
            let (heavy, at) = if low_ns > high_ns { (below, at - 1) } else { (above, at + 1) };
            let counts = self.counts(heavy, axis);
            let line = if heavy == below { counts.last() } else { counts.first() };
            let all: u32 = counts.iter().sum();
            let moved_ns = self.cost_ns(heavy) * u64::from(*line?) / u64::from(all.max(1));
            let change = Change::Nudge { below, above, at };
            (moved_ns < low_ns.abs_diff(high_ns) && tree.changed(change).is_ok()).then_some(change)
        })
    }

    /// Cuts the heaviest cell of a hot room where its entities are halved.
    fn split(&mut self, tick: u32, tree: &Tree, above: CellId) -> Option<Change> {
        let hot = (0..self.rates.rooms)
            .filter(|room| self.has_lasted(tick, self.hot_since.get(room), SPLIT_SECS))
            .collect::<Vec<_>>();
        self.is_crowded = false;
        for room in hot {
            let cells = self.cells.iter().filter(|(_, it)| it.room == room);
            let Some((&cell, standing)) = cells.max_by_key(|(_, it)| it.cost_ns) else { continue };
            if standing.rests_until > tick {
                continue;
            }
            let cut = tree.area(cell).and_then(|area| self.best_cut(cell, area));
            let change = cut.map(|(axis, at)| Change::Split { cell, axis, at, above });
            match change.filter(|it| tree.changed(*it).is_ok()) {
                Some(change) if self.emptiest_room() != room => return Some(change),
                _ => self.is_crowded = true,
            }
        }
        None
    }

    /// Cuts the largest cell of a fixed partition in two equal ones, until each room has one.
    fn halve(&self, tree: &Tree, above: CellId) -> Option<Change> {
        let is_done = tree.cells().len() >= usize::from(self.rates.rooms);
        let sides = |area: Area| [area.x1 - area.x0, area.y1 - area.y0].map(u32::from);
        let cells = tree.cells().filter(|_| !is_done);
        let (cell, area) = cells.max_by_key(|(id, area)| {
            let [width, height] = sides(*area);
            (width * height, std::cmp::Reverse(*id))
        })?;
        let axis = area.long_axis();
        let (from, to) = area.span(axis);
        let change = Change::Split { cell, axis, at: from + (to - from) / 2, above };
        tree.changed(change).is_ok().then_some(change)
    }

    /// The line that leaves most on its lighter side, if that is a relief.
    fn best_cut(&self, cell: CellId, area: Area) -> Option<(Axis, u16)> {
        let long = area.long_axis();
        let short = if long == Axis::X { Axis::Y } else { Axis::X };
        let mut best: Option<(u32, Axis, u16)> = None;
        let all: u32 = self.counts(cell, long).iter().sum();
        for axis in [long, short] {
            let (from, to) = area.span(axis);
            let mut below = 0;
            for (line, count) in (from + 1..).zip(self.counts(cell, axis)) {
                below += count;
                let lighter = below.min(all - below);
                let is_wide = line >= from + CELL_SIDE_MIN && line + CELL_SIDE_MIN <= to;
                if is_wide && best.is_none_or(|(most, ..)| lighter > most) {
                    best = Some((lighter, axis, line));
                }
            }
        }
        let (lighter, axis, at) = best?;
        let relief = u64::from(lighter) * 1_000 >= u64::from(all) * RELIEF_PERMILLE;
        (relief && all >= SPLIT_ENTITIES_MIN).then_some((axis, at))
    }

    fn stand(&mut self, cell: CellId, room: u16, rests_until: u32) {
        let (columns, rows) = (Vec::new(), Vec::new());
        self.cells.insert(cell, Standing { room, cost_ns: None, columns, rows, rests_until });
    }

    fn set(&mut self, cell: CellId, cost_ns: Option<u64>, rests_until: u32) {
        if let Some(standing) = self.cells.get_mut(&cell) {
            (standing.cost_ns, standing.rests_until) = (cost_ns, rests_until);
        }
    }

    fn counts(&self, cell: CellId, axis: Axis) -> &[u32] {
        let standing = self.cells.get(&cell);
        standing.map_or(&[], |it| if axis == Axis::X { &it.columns } else { &it.rows })
    }

    /// What a tick of a cell costs, smoothed, in nanoseconds; 0 of what is not known.
    #[must_use]
    pub fn cost_ns(&self, cell: CellId) -> u64 {
        self.cells.get(&cell).and_then(|it| it.cost_ns).unwrap_or(0)
    }

    fn room_ns(&self, room: u16) -> u64 {
        let cells = self.cells.values().filter(|it| it.room == room);
        cells.filter_map(|it| it.cost_ns).sum()
    }

    fn emptiest_room(&self) -> u16 {
        let cells = |room: u16| self.cells.values().filter(|it| it.room == room).count();
        let cost_ns = |room: u16| if self.is_fixed { 0 } else { self.room_ns(room) };
        (0..self.rates.rooms).min_by_key(|room| (cost_ns(*room), cells(*room))).unwrap_or(0)
    }

    fn permille(&self, cost_ns: u64) -> u64 {
        cost_ns * 1_000 / self.rates.budget_ns
    }

    fn is_hot(&self, room: u16) -> bool {
        self.permille(self.room_ns(room)) > SPLIT_PERMILLE
    }

    fn has_lasted(&self, tick: u32, since: Option<&u32>, secs: u32) -> bool {
        since.is_some_and(|since| tick - since >= secs * self.rates.tick_rate_hz)
    }

    fn rest(&self, tick: u32, cells: &[CellId]) -> bool {
        cells.iter().all(|id| self.cells.get(id).is_some_and(|it| it.rests_until <= tick))
    }
}

/// Keeps the moments of those who are still so, forgets others, and notes who is so now.
fn since<K: Ord + Copy>(known: &mut BTreeMap<K, u32>, tick: u32, now: Vec<K>) {
    known.retain(|key, _| now.contains(key));
    for key in now {
        known.entry(key).or_insert(tick);
    }
}
