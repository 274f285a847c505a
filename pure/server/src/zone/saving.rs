//! When the zone is saved, and what of it, so that a server that is ended in the middle of anything goes on
//! with it.
//!
//! Two things are written, by the batcher, beside the calls of clients: a **snapshot** of one tick each
//! `world.snapshot_interval_ms`, and in between what must not be lost ([`Event`]), after each tick that had
//! some. One write is under way at a time; what happens meanwhile waits for the next, and if that is too much
//! a snapshot is written in its place, which has all of it. Nothing waits for a write but what a pilot is told
//! of its score: it is told of what is on the disk. A write that nobody answers was lost on its way, and is made
//! up for by a snapshot; when its answer comes all the same, it is of no use.
//!
//! When the server stops, one more snapshot is written, of the next tick, and who loses its socket from then on
//! does not leave the zone.
//!
//! Data in: what happens, entities that cells give away. Data out: parts for the batcher, and whose score may
//! be told. What is deliberately not here: the bytes (`world::Saved`), the table (`game::zone`).

use std::collections::{BTreeMap, BTreeSet};

use event::Now;
use world::{Downed, EntityId, Event, Saved, Score};

use crate::mail::{RoomIndex, ZoneSave};

/// Events that wait for a write. More are not kept: a snapshot takes their place.
const EVENTS_MAX: usize = 4_096;
/// A write without an answer is taken for lost after so many times the interval of snapshots, and not before
/// [`LOST_MIN_NS`]: a batcher that has much to do is only late.
const LOST_INTERVALS: u64 = 10;
const LOST_MIN_NS: u64 = 10_000_000_000;
/// For each write that is lost behind another one the next is waited for twice as long, so often at most: the
/// batcher may hang, with all of them before it.
const LOST_DOUBLED_MAX: u32 = 6;

/// A write under way.
#[derive(Clone, Copy)]
struct Write {
    /// Counts writes of this home.
    number: u64,
    /// When it is taken for lost.
    lost_ns: u64,
}

/// A score, as it is and as it may be told.
#[derive(Clone, Copy, Default)]
struct Scored {
    now: Score,
    /// That on the disk.
    kept: Score,
}

/// How far the snapshot is that is written when the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// It does not stop.
    NotYet,
    /// The next tick is to be saved.
    Due,
    /// That tick is being computed, or what it has saved is being written.
    Begun,
    /// It is on the disk, or nothing is saved at all.
    Kept,
}

/// See the module.
pub(super) struct Saving {
    me: RoomIndex,
    /// None if nothing is saved.
    interval_ns: Option<u64>,
    /// When the next snapshot is due.
    due_ns: u64,
    /// The tick of the newest snapshot that was written, and how many parts are behind it. None before the
    /// first, and after a write that failed.
    written: Option<(u32, u32)>,
    under_way: Option<Write>,
    /// How many writes there were, and of the newest how many were lost.
    writes: u64,
    lost: u32,
    last: Last,
    events: Vec<Event>,
    /// What cells have given away, in a tick that is saved.
    pieces: Option<Vec<Vec<u8>>>,
    /// Of each ship that has a pilot, or waits for its pilot to come back.
    scores: BTreeMap<EntityId, Scored>,
    /// Whose score has changed and is not being written.
    changed: BTreeSet<EntityId>,
    /// The scores that are. They may have changed again since.
    writing: BTreeMap<EntityId, Score>,
    /// For the batcher.
    save: Option<ZoneSave>,
}

impl Saving {
    /// `interval_ms`: 0 if nothing is to be saved.
    pub(super) fn new(me: RoomIndex, interval_ms: u32) -> Self {
        Self {
            me,
            interval_ns: (interval_ms > 0).then(|| u64::from(interval_ms) * 1_000_000),
            due_ns: 0,
            written: None,
            under_way: None,
            writes: 0,
            lost: 0,
            last: Last::NotYet,
            events: Vec::new(),
            pieces: None,
            scores: BTreeMap::new(),
            changed: BTreeSet::new(),
            writing: BTreeMap::new(),
            save: None,
        }
    }

    /// A tick is to be computed. Tells whether it is one that is saved.
    pub(super) fn begin(&mut self, now: Now) -> bool {
        assert!(self.pieces.is_none(), "a tick begins before the one before is saved");
        let Some(interval_ns) = self.interval_ns else { return false };
        if self.under_way.is_some() || now.mono_ns < self.due_ns && self.last != Last::Due {
            return false;
        }
        if self.last == Last::Due {
            self.last = Last::Begun;
        }
        self.due_ns = now.mono_ns + interval_ns;
        self.pieces = Some(Vec::new());
        true
    }

    /// The server stops: the next tick is to be saved.
    pub(super) fn stop(&mut self) {
        if self.last == Last::NotYet {
            self.last = if self.interval_ns.is_some() { Last::Due } else { Last::Kept };
        }
    }

    /// Whether it does.
    pub(super) fn is_stopping(&self) -> bool {
        self.last != Last::NotYet
    }

    /// Whether the last snapshot is on the disk.
    pub(super) fn is_kept(&self) -> bool {
        self.last == Last::Kept
    }

    /// A pilot's ship is there, with this score: as it was saved, or none.
    pub(super) fn come(&mut self, ship: EntityId, score: Score) {
        self.scores.insert(ship, Scored { now: score, kept: score });
    }

    /// It is not any more.
    pub(super) fn leave(&mut self, ship: EntityId) {
        self.scores.remove(&ship);
        self.changed.remove(&ship);
        self.writing.remove(&ship);
    }

    /// The score of a pilot's ship, which the next snapshot has.
    pub(super) fn score(&self, ship: EntityId) -> Score {
        self.scores.get(&ship).copied().unwrap_or_default().now
    }

    /// What its pilot may be told of it.
    pub(super) fn kept_score(&self, ship: EntityId) -> Score {
        self.scores.get(&ship).copied().unwrap_or_default().kept
    }

    /// Something has happened that is not to be lost.
    pub(super) fn note(&mut self, event: Event) {
        // A snapshot that is to come has it.
        if self.written.is_none() {
            return;
        }
        if self.events.len() < EVENTS_MAX {
            return self.events.push(event);
        }
        self.events.clear();
        (self.written, self.due_ns) = (None, 0);
    }

    /// A ship was shot down. What drones do to each other is as old as the snapshot.
    pub(super) fn downed(&mut self, Downed { victim, by, .. }: Downed) {
        let ships = BTreeSet::from([victim, by]);
        let mut is_noted = false;
        for ship in ships {
            let Some(score) = self.scores.get_mut(&ship) else { continue };
            score.now.note(ship, (victim, by));
            self.changed.insert(ship);
            is_noted = true;
        }
        if is_noted {
            self.note(Event::Downed { victim, by });
        }
    }

    /// The pilot of a ship, if it has one or waits for one, gets points, or loses some.
    pub(super) fn points(&mut self, ship: EntityId, points: i32) {
        let Some(score) = self.scores.get_mut(&ship).filter(|_| points != 0) else { return };
        score.now.give(points);
        self.changed.insert(ship);
        self.note(Event::Points { ship, points });
    }

    /// A cell has computed a tick that is saved.
    pub(super) fn piece(&mut self, piece: Vec<u8>) {
        let Some(pieces) = &mut self.pieces else {
            unreachable!("a piece of a tick that is not saved")
        };
        pieces.push(piece);
    }

    /// A tick is done: gives what all cells have given away, if it is saved.
    pub(super) fn pieces(&mut self) -> Option<Vec<Vec<u8>>> {
        self.pieces.take()
    }

    /// The snapshot of a tick is to be written; it has all that has happened.
    pub(super) fn write(&mut self, now: Now, tick: u32, part: Vec<u8>) {
        self.events.clear();
        self.written = Some((tick, 0));
        self.post(now, 0, part);
    }

    /// A tick is done that is not saved: what has happened is to be written.
    pub(super) fn write_events(&mut self, now: Now, tick: u32) {
        if self.under_way.is_some() || self.events.is_empty() {
            return;
        }
        let Some((of, number)) = &mut self.written else {
            unreachable!("events before a snapshot")
        };
        let part = Saved::events(*of, *number, tick, &self.events);
        *number += 1;
        let number = *number;
        self.events.clear();
        self.post(now, number, part);
    }

    fn post(&mut self, now: Now, number: u32, part: Vec<u8>) {
        assert!(self.under_way.is_none() && self.save.is_none(), "two writes at once");
        let patience_ns = LOST_MIN_NS.max(self.interval_ns.unwrap_or(0) * LOST_INTERVALS);
        let lost_ns = now.mono_ns + (patience_ns << self.lost.min(LOST_DOUBLED_MAX));
        self.writes += 1;
        self.under_way = Some(Write { number: self.writes, lost_ns });
        self.writing = self.take_changed();
        self.save = Some(ZoneSave { home: self.me, write: self.writes, number, part });
    }

    /// The write under way, if it is taken for lost by now.
    pub(super) fn lost(&mut self, now: Now) -> Option<u64> {
        let write = self.under_way.filter(|write| write.lost_ns <= now.mono_ns)?;
        self.lost += 1;
        self.save = None;
        Some(write.number)
    }

    /// What is to be written, for the batcher.
    pub(super) fn take_save(&mut self) -> Option<ZoneSave> {
        self.save.take()
    }

    /// What was written is on the disk, or is not and a snapshot has to make up for it; gives whose scores may be
    /// told. `None` of a write that was taken for lost.
    pub(super) fn written(&mut self, write: u64, is_kept: bool) -> Option<BTreeSet<EntityId>> {
        self.under_way.take_if(|under_way| under_way.number == write)?;
        if self.last == Last::Begun {
            self.last = if is_kept { Last::Kept } else { Last::Due };
        }
        let scores = std::mem::take(&mut self.writing);
        if is_kept {
            self.lost = 0;
            return Some(self.keep(scores));
        }
        // When the next one is due, and not at once: what ails the database may last.
        self.changed.extend(scores.into_keys());
        self.events.clear();
        self.written = None;
        Some(BTreeSet::new())
    }

    /// Whose score may be told without waiting for a write: that of all, if nothing is saved.
    pub(super) fn unwritten(&mut self) -> BTreeSet<EntityId> {
        if self.interval_ns.is_some() {
            return BTreeSet::new();
        }
        let scores = self.take_changed();
        self.keep(scores)
    }

    /// Scores that have changed and are not being written.
    fn take_changed(&mut self) -> BTreeMap<EntityId, Score> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|ship| (ship, self.score(ship))).collect()
    }

    /// These scores may be told.
    fn keep(&mut self, scores: BTreeMap<EntityId, Score>) -> BTreeSet<EntityId> {
        for (ship, score) in &scores {
            if let Some(scored) = self.scores.get_mut(ship) {
                scored.kept = *score;
            }
        }
        scores.into_keys().collect()
    }
}
