//! A zone as it is saved, so that it goes on where it was when its server has ended in the middle of anything.
//!
//! What is saved comes in **parts**: a snapshot of one tick, and behind it what has happened since that
//! must not be lost ([`Event`]: who came, who went, who was shot down, who got points), a part for each time that it was
//! written. Where ships are is as old as the snapshot; the events that came after it are done to what it
//! says. A snapshot is of one tick for the whole zone: each cell writes its own entities
//! ([`Saved::piece`]) at the end of that tick, before any of them is handed to another cell, so that each
//! entity is in it once; and it is put together when all have.
//!
//! Cells are none of it: a restored zone begins with one, which is split again by what it costs. Since the
//! partition changes nothing in the world, a zone that was restored goes on as the one that was saved, hash
//! for hash.
//!
//! Data in: entities, and what is known of them. Out: parts, and back. What is deliberately not here: where
//! parts are kept and when they are written, and who a pilot is: a number that its server knows it by.

mod bytes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cell::Cell;
use crate::entity::{CONTROLS_MAX, Entity, HEALTH_FULL, SPEED_MAX, Spawn};
use crate::ids::{EntityId, Slots};
use crate::mail::Published;
use crate::score::Score;
use crate::space::{BINS_MAX, UNITS_PER_METRE, units};
use crate::tree::{CELL_SIDE_MIN, CellId, Tree};
use bytes::{Kind, Reader, begin, open, put_entity, put_id, put_point, seal};

/// A zone that goes on behind so many ticks begins again with the first of them: after 1.7 years of 20 Hz, and
/// after 207 days of 60 Hz.
const TICKS_KEPT: u32 = 1 << 30;

/// Why parts are not what was saved, or not of this zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// The bytes end within something.
    #[error("it is cut short")]
    Short,
    /// Bytes have changed, or are missing in the middle.
    #[error("its bytes have changed: the sum over them is another one")]
    Sum,
    /// Another version of throng wrote it.
    #[error("it has version {version}, {known} is known")]
    Version {
        /// What it says.
        version: u8,
        /// What is known here.
        known: u8,
    },
    /// Events where the snapshot should be, or the other way round.
    #[error("its parts are in another order than they were written in")]
    Kind,
    /// Events that belong to another snapshot, or some are missing before them.
    #[error("events of tick {tick} do not follow what is before them")]
    Gap {
        /// The tick of the snapshot that they name.
        tick: u32,
    },
    /// It is whole, and says what no zone is like.
    #[error("it says what cannot be: {0}")]
    Wrong(&'static str),
    /// The world was larger or smaller.
    #[error("it is of a world of {saved_m} m, and this one has {here_m} m")]
    Side {
        /// Its side, in metres.
        saved_m: u32,
        /// The side of the world that is to be.
        here_m: u32,
    },
}

/// What is not lost, however little before the end it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Event {
    /// A pilot, by the number that its server knows it by, has come with a ship.
    Came { who: u128, ship: Spawn },
    /// A ship has gone.
    Left { ship: EntityId },
    /// `by` hit `victim` last before it lay still.
    Downed { victim: EntityId, by: EntityId },
    /// The pilot of a ship got points, or lost some.
    Points { ship: EntityId, points: i32 },
}

/// A pilot that is in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pilot {
    /// The number that its server knows it by.
    pub who: u128,
    /// Its ship.
    pub ship: EntityId,
    /// Its score.
    pub score: Score,
}

/// A ship without a pilot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drone {
    /// Its ship.
    pub ship: EntityId,
    /// The number of the newest control that it was given.
    pub control_seq: u32,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Bins on a side of the world.
    pub bins: u16,
    /// The newest tick that it tells of, of a restored zone below 2³⁰.
    pub tick: u32,
    /// Who hands out ids.
    pub slots: Slots,
    /// All entities, by id. When a snapshot is written they come from cells, in pieces.
    pub entities: Vec<Entity>,
    /// Who flies, in no order.
    pub pilots: Vec<Pilot>,
    /// Ships that whoever runs the zone steers.
    pub drones: Vec<Drone>,
}

impl Saved {
    /// The last tick that a zone may compute, and that is believed: what is added to ticks has room behind it. A
    /// zone of 60 Hz is there after 2.2 years without a stop.
    pub const LAST_TICK: u32 = u32::MAX - (1 << 20);

    /// What a cell adds to a snapshot: its entities.
    #[must_use]
    pub fn piece(entities: &[Entity]) -> Vec<u8> {
        let mut out = Vec::new();
        entities.iter().for_each(|entity| put_entity(entity, &mut out));
        out
    }

    /// The part that is a snapshot: of this, and of the pieces of all cells in place of `entities`.
    #[must_use]
    pub fn snapshot(&self, pieces: &[Vec<u8>]) -> Vec<u8> {
        assert!(self.entities.is_empty(), "entities of a snapshot come in pieces");
        let mut out = begin(Kind::Snapshot);
        out.extend(self.bins.to_le_bytes());
        out.extend(self.tick.to_le_bytes());
        let free: Vec<_> = self.slots.free().collect();
        out.extend(self.slots.taken().to_le_bytes());
        put_count(free.len(), &mut out);
        for (id, from) in free {
            put_id(id, &mut out);
            out.extend(from.to_le_bytes());
        }
        put_count(self.pilots.len(), &mut out);
        for pilot in &self.pilots {
            out.extend(pilot.who.to_le_bytes());
            put_id(pilot.ship, &mut out);
            out.extend(pilot.score.downed.to_le_bytes());
            out.extend(pilot.score.lost.to_le_bytes());
            out.extend(pilot.score.points.to_le_bytes());
        }
        put_count(self.drones.len(), &mut out);
        for drone in &self.drones {
            put_id(drone.ship, &mut out);
            out.extend(drone.control_seq.to_le_bytes());
        }
        pieces.iter().for_each(|piece| out.extend(piece));
        seal(out)
    }

    /// The part that follows the snapshot of tick `of` and `number` others: what has happened up to
    /// `tick`.
    #[must_use]
    pub fn events(of: u32, number: u32, tick: u32, events: &[Event]) -> Vec<u8> {
        let mut out = begin(Kind::Events);
        for field in [of, number, tick] {
            out.extend(field.to_le_bytes());
        }
        for event in events {
            match event {
                Event::Came { who, ship } => {
                    out.push(0);
                    out.extend(who.to_le_bytes());
                    put_id(ship.id, &mut out);
                    put_point(ship.at, &mut out);
                    out.extend(ship.heading.to_le_bytes());
                    out.push(ship.health);
                }
                Event::Left { ship } => {
                    out.push(1);
                    put_id(*ship, &mut out);
                }
                Event::Downed { victim, by } => {
                    out.push(2);
                    put_id(*victim, &mut out);
                    put_id(*by, &mut out);
                }
                Event::Points { ship, points } => {
                    out.push(3);
                    put_id(*ship, &mut out);
                    out.extend(points.to_le_bytes());
                }
            }
        }
        seal(out)
    }

    /// What was saved in these parts, in the order in which they were written, for a world with `bins` on a
    /// side. Ticks are counted anew from time to time, so that they do not come to their end.
    ///
    /// # Errors
    /// [`Damaged`], whatever is not as it was written.
    pub fn restore(parts: &[Vec<u8>], bins: u16) -> Result<Self, Damaged> {
        let (snapshot, later) = parts.split_first().ok_or(Damaged::Short)?;
        let mut saved = Self::read(open(snapshot, Kind::Snapshot)?)?;
        if saved.bins != bins {
            let metres = |bins: u16| units(bins).unsigned_abs() / UNITS_PER_METRE.unsigned_abs();
            return Err(Damaged::Side { saved_m: metres(saved.bins), here_m: metres(bins) });
        }
        let mut ships: BTreeMap<_, _> = saved.entities.drain(..).map(|it| (it.id, it)).collect();
        let of = saved.tick;
        for (number, part) in (0..).zip(later) {
            saved.happened(open(part, Kind::Events)?, (of, number), &mut ships)?;
        }
        saved.settle(ships)?;
        saved.count_anew();
        Ok(saved)
    }

    fn read(mut reader: Reader<'_>) -> Result<Self, Damaged> {
        let (bins, tick) = (reader.u16()?, reader.u32()?);
        if !(CELL_SIDE_MIN..=BINS_MAX).contains(&bins) {
            return Err(Damaged::Wrong("the side of the world"));
        }
        if tick > Self::LAST_TICK {
            return Err(Damaged::Wrong("the tick"));
        }
        let taken = reader.u32()?;
        let free = reader.list(|reader| Ok((reader.id()?, reader.u32()?)))?;
        let pilots = reader.list(|reader| {
            let (who, ship) = (reader.u128()?, reader.id()?);
            let (downed, lost, points) = (reader.u32()?, reader.u32()?, reader.i32()?);
            let score = Score { downed, lost, points };
            Ok(Pilot { who, ship, score })
        })?;
        let drones =
            reader.list(|reader| Ok(Drone { ship: reader.id()?, control_seq: reader.u32()? }))?;
        let mut entities: Vec<Entity> = Vec::new();
        while !reader.is_empty() {
            let entity = reader.entity()?;
            check(&entity, bins)?;
            entities.push(entity);
        }
        let slots = free.iter().map(|(id, _)| id.slot).chain(entities.iter().map(|it| it.id.slot));
        let known: BTreeSet<u32> = slots.collect();
        let is_twice = known.len() < free.len() + entities.len();
        if is_twice || taken > Slots::SLOTS_MAX || known.last().is_some_and(|slot| *slot >= taken) {
            return Err(Damaged::Wrong("two ships, or a ship and nobody, have one slot"));
        }
        let slots = Slots::restored(taken, free);
        Ok(Self { bins, tick, slots, entities, pilots, drones })
    }

    /// Does to `ships` what has happened since.
    fn happened(
        &mut self,
        mut reader: Reader<'_>,
        after: (u32, u32),
        ships: &mut BTreeMap<EntityId, Entity>,
    ) -> Result<(), Damaged> {
        let (of, number, tick) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if (of, number) != after || !(self.tick..=Self::LAST_TICK).contains(&tick) {
            return Err(Damaged::Gap { tick: of });
        }
        self.tick = tick;
        while !reader.is_empty() {
            match reader.u8()? {
                0 => {
                    let (who, ship, at) = (reader.u128()?, reader.id()?, reader.point()?);
                    let (heading, health) = (reader.u16()?, reader.u8()?);
                    let entity = Entity::from(Spawn { id: ship, at, heading, health });
                    check(&entity, self.bins)?;
                    if !self.slots.take_this(ship) || ships.insert(ship, entity).is_some() {
                        return Err(Damaged::Wrong("a ship comes that was there"));
                    }
                    // The snapshot may know the pilot already, whose ship was about to come.
                    self.pilots.retain(|pilot| pilot.ship != ship);
                    self.pilots.push(Pilot { who, ship, score: Score::default() });
                }
                1 => {
                    let ship = reader.id()?;
                    // Of a pilot who went at once nothing says that it came.
                    if ships.remove(&ship).is_some() {
                        self.slots.give_back(ship, tick);
                    }
                    self.pilots.retain(|pilot| pilot.ship != ship);
                }
                2 => {
                    let (victim, by) = (reader.id()?, reader.id()?);
                    // It may have gone in the same tick.
                    if let Some(entity) = ships.get_mut(&victim) {
                        entity.lie_down();
                    }
                    for pilot in &mut self.pilots {
                        pilot.score.note(pilot.ship, (victim, by));
                    }
                }
                3 => {
                    let (ship, points) = (reader.id()?, reader.i32()?);
                    // It may have gone in the same tick.
                    let pilot = self.pilots.iter_mut().find(|pilot| pilot.ship == ship);
                    pilot.into_iter().for_each(|pilot| pilot.score.give(points));
                }
                _ => return Err(Damaged::Wrong("an event of no kind that there is")),
            }
        }
        Ok(())
    }

    /// Leaves pilots whose ships are there, and ships that somebody steers: whoever was about to come or go
    /// in the tick of the snapshot, and nothing says that it did, was not there or is not any more.
    fn settle(&mut self, ships: BTreeMap<EntityId, Entity>) -> Result<(), Damaged> {
        self.pilots.retain(|pilot| ships.contains_key(&pilot.ship));
        self.drones.retain(|drone| ships.contains_key(&drone.ship));
        let steered = self.pilots.iter().map(|it| it.ship);
        let steered: BTreeSet<_> = steered.chain(self.drones.iter().map(|it| it.ship)).collect();
        if steered.len() < self.pilots.len() + self.drones.len() {
            return Err(Damaged::Wrong("two steer one ship"));
        }
        for (id, entity) in ships {
            if steered.contains(&id) {
                self.entities.push(entity);
            } else {
                self.slots.give_back(id, self.tick);
            }
        }
        Ok(())
    }

    /// Names the newest tick by a low number, and all others as far before and behind it.
    fn count_anew(&mut self) {
        let gone = self.tick - self.tick % TICKS_KEPT;
        self.tick -= gone;
        self.slots.count_anew(gone);
        for waiting in self.entities.iter_mut().flat_map(|entity| &mut entity.waiting) {
            waiting.tick = waiting.tick.saturating_sub(gone);
        }
    }

    /// What the one cell with which a restored zone begins would have shown of the newest tick.
    #[must_use]
    pub fn published(bins: u16, tick: u32, (first, entities): (CellId, &[Entity])) -> Published {
        let tree = Arc::new(Tree::new(bins, first));
        Cell::new(first, tick, None, tree).with(entities.to_vec()).shows()
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    // Of slots and pilots, of which there are not as many.
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

/// Whether the rules could have brought an entity to this.
fn check(entity: &Entity, bins: u16) -> Result<(), Damaged> {
    let wrong = |what| Err(Damaged::Wrong(what));
    let is_inside = |at: i32| (0..units(bins)).contains(&at);
    if !is_inside(entity.at.x) || !is_inside(entity.at.y) {
        return wrong("a ship is outside of the world");
    }
    if entity.id.slot >= Slots::SLOTS_MAX {
        return wrong("a ship has a slot that no zone has");
    }
    let is_fast = |speed: i32| speed.unsigned_abs() > SPEED_MAX.unsigned_abs();
    if is_fast(entity.velocity.0) || is_fast(entity.velocity.1) {
        return wrong("a ship is faster than any");
    }
    if entity.health > HEALTH_FULL || (entity.health == 0) != (entity.down_ticks > 0) {
        return wrong("the health of a ship");
    }
    let seqs = entity.waiting.iter().map(|it| it.seq);
    let is_rising = std::iter::once(entity.control_seq).chain(seqs).is_sorted_by(|a, b| a < b);
    let controls = entity.waiting.iter().map(|it| it.control).chain([entity.control]);
    if entity.waiting.len() > CONTROLS_MAX
        || !is_rising
        || controls.into_iter().any(|it| it.thrust > 3)
    {
        return wrong("the controls of a ship");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
