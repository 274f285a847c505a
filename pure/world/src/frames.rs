//! The whole zone as viewers see it: the records of the last ticks, and who is in which bin.
//!
//! Made once a tick from what all cells have published, and read by every thread that writes
//! packets, whichever cell an entity is in. Because each record that a client was sent is one of
//! these, a baseline is no more than the number of a tick: nothing is kept for each client and
//! entity but when it was sent.
//!
//! What is deliberately not here: viewers (`interest`).

use crate::ids::EntityId;
use crate::mail::Published;
use crate::packet::{AGE_MAX, Summary};
use crate::record::Record;
use crate::space::BIN_SIDE;

/// Ticks that are kept: a baseline may be [`AGE_MAX`] old.
const TICKS: usize = AGE_MAX as usize + 1;
/// Marks a slot in which nobody is.
const NOBODY: u32 = u32::MAX;
/// Side of a bin in records' units.
const BIN: i32 = BIN_SIDE >> 2;

/// An entity in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InBin {
    pub(crate) slot: u32,
    pub(crate) x: i32,
    pub(crate) y: i32,
}

/// See the module.
#[derive(Debug)]
pub struct Frames {
    bins: u16,
    tick: u32,
    tau_permille: u16,
    /// By tick, in a ring; then by slot.
    records: Vec<Vec<Record>>,
    /// By slot.
    generations: Vec<u32>,
    control_seqs: Vec<u32>,
    /// Where each bin's entities begin in `sorted`, row by row; one more at the end.
    starts: Vec<u32>,
    sorted: Vec<InBin>,
}

impl Frames {
    /// An empty zone with `bins` on a side.
    #[must_use]
    pub fn new(bins: u16) -> Self {
        let squares = usize::from(bins) * usize::from(bins);
        Self {
            bins,
            tick: 0,
            tau_permille: 1_000,
            records: vec![Vec::new(); TICKS],
            generations: Vec::new(),
            control_seqs: Vec::new(),
            starts: vec![0; squares + 1],
            sorted: Vec::new(),
        }
    }

    /// The newest tick.
    #[must_use]
    pub fn tick(&self) -> u32 {
        self.tick
    }

    /// How fast time went in it, in thousandths.
    #[must_use]
    pub fn tau_permille(&self) -> u16 {
        self.tau_permille
    }

    /// Slots that anybody is or was in.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.generations.len()
    }

    /// Whether the entity is there now.
    #[must_use]
    pub fn has(&self, id: EntityId) -> bool {
        self.generations.get(id.slot as usize) == Some(&id.generation)
    }

    /// The generation of who is in a slot now, if anybody is.
    #[must_use]
    pub fn generation(&self, slot: u32) -> Option<u32> {
        self.generations.get(slot as usize).copied().filter(|it| *it != NOBODY)
    }

    /// The newest control that the ship in a slot follows.
    #[must_use]
    pub fn control_seq(&self, slot: u32) -> u32 {
        self.control_seqs.get(slot as usize).copied().unwrap_or(0)
    }

    /// The record of a slot so many ticks ago, at most [`AGE_MAX`].
    #[must_use]
    pub fn record(&self, slot: u32, age: u32) -> Record {
        let frame = &self.records[self.tick.wrapping_sub(age) as usize % TICKS];
        frame.get(slot as usize).copied().unwrap_or_default()
    }

    /// Takes what all cells have published of the next tick.
    pub fn publish(&mut self, cells: &[Published]) {
        let Some(first) = cells.first() else { return };
        assert!(cells.iter().all(|it| it.tick == first.tick), "cells of different ticks");
        (self.tick, self.tau_permille) = (first.tick, first.tau_permille);
        let rows = || cells.iter().flat_map(|it| &it.rows);
        let slots = rows().map(|row| row.id.slot as usize + 1).max().unwrap_or(0);
        let slots = slots.max(self.generations.len());
        self.generations.resize(slots, NOBODY);
        self.generations.fill(NOBODY);
        self.control_seqs.resize(slots, 0);
        let frame = &mut self.records[self.tick as usize % TICKS];
        frame.resize(slots, Record::default());
        self.sorted.clear();
        for row in rows() {
            let slot = row.id.slot as usize;
            let record = Record::of(row);
            frame[slot] = record;
            self.generations[slot] = row.id.generation;
            self.control_seqs[slot] = row.control_seq;
            self.sorted.push(InBin { slot: row.id.slot, x: record.x, y: record.y });
        }
        self.sort();
    }

    /// Sorts `sorted` by bin and, within it, by slot, and finds where bins start.
    fn sort(&mut self) {
        let bins = i32::from(self.bins);
        let bin = |it: &InBin| usize::try_from(it.y / BIN * bins + it.x / BIN).unwrap_or(0);
        self.sorted.sort_unstable_by_key(|it| (bin(it), it.slot));
        self.starts.fill(0);
        for one in &self.sorted {
            self.starts[bin(one) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
    }

    /// All in bins that a square of `reach` around a place touches.
    pub(crate) fn around(&self, x: i32, y: i32, reach: i32) -> impl Iterator<Item = &InBin> {
        let last = i32::from(self.bins) - 1;
        let line = |at: i32| usize::try_from((at / BIN).clamp(0, last)).unwrap_or(0);
        let (from, to) = (line(x - reach), line(x + reach));
        let width = usize::from(self.bins);
        (line(y - reach)..=line(y + reach)).flat_map(move |row| {
            let first = row * width;
            let slice = self.starts[first + from] as usize..self.starts[first + to + 1] as usize;
            &self.sorted[slice]
        })
    }

    /// How many are in each bin that is not empty, beginning with bin `from`.
    pub(crate) fn summaries(&self, from: u32) -> impl Iterator<Item = Summary> {
        (from..).zip(self.starts.windows(2).skip(from as usize)).filter_map(|(bin, ends)| {
            let inside = &self.sorted[ends[0] as usize..ends[1] as usize];
            let count = i64::try_from(inside.len()).ok().filter(|count| *count > 0)?;
            let middle = |axis: fn(&InBin) -> i32| {
                let sum: i64 = inside.iter().map(|it| i64::from(axis(it) % BIN)).sum();
                u8::try_from(sum / count * 256 / i64::from(BIN)).unwrap_or(u8::MAX)
            };
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            Some(Summary { bin, count, middle: (middle(|it| it.x), middle(|it| it.y)) })
        })
    }
}
