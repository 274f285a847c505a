//! The bytes of what is saved: numbers, ids and entities, and the frame around a part.
//!
//! All numbers are little-endian. A part ends with a sum over all bytes before it, so that one that is cut
//! short or changed on a disk is told from one that says something else. The sum finds accidents, and nobody
//! who means harm: who can write there can write the sum too.
//!
//! Data in and out: [`super::Saved`]. What is deliberately not here: what the numbers must be (`super`).

use super::Damaged;
use crate::entity::{Control, Entity, Numbered};
use crate::ids::{EntityId, mix};
use crate::space::Point;

/// Of all parts. Rises when a server of before would read a part wrongly.
const VERSION: u8 = 2;
const SUM_BYTES: usize = 8;

/// What kind of part it is, its first byte but one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Snapshot = 1,
    Events = 2,
}

/// Begins a part.
pub(super) fn begin(kind: Kind) -> Vec<u8> {
    vec![VERSION, kind as u8]
}

/// Ends a part.
pub(super) fn seal(mut part: Vec<u8>) -> Vec<u8> {
    part.extend(sum(&part).to_le_bytes());
    part
}

/// What is in a part, if it is whole.
pub(super) fn open(part: &[u8], kind: Kind) -> Result<Reader<'_>, Damaged> {
    let (inside, told) = part.split_last_chunk::<SUM_BYTES>().ok_or(Damaged::Short)?;
    if sum(inside) != u64::from_le_bytes(*told) {
        return Err(Damaged::Sum);
    }
    let mut reader = Reader(inside);
    let version = reader.u8()?;
    if version != VERSION {
        return Err(Damaged::Version { version, known: VERSION });
    }
    if reader.u8()? != kind as u8 {
        return Err(Damaged::Kind);
    }
    Ok(reader)
}

/// Every step is one to one, so that no change within eight bytes goes unseen, and others with a chance
/// of 2⁻⁶⁴.
fn sum(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let chunks = chunks.iter().chain(std::iter::once(&last));
    chunks.fold(bytes.len() as u64, |sum, chunk| mix(sum ^ u64::from_le_bytes(*chunk)))
}

/// Writes an id.
pub(super) fn put_id(id: EntityId, out: &mut Vec<u8>) {
    out.extend(id.slot.to_le_bytes());
    out.extend(id.generation.to_le_bytes());
}

/// Writes a place.
pub(super) fn put_point(at: Point, out: &mut Vec<u8>) {
    out.extend(at.x.to_le_bytes());
    out.extend(at.y.to_le_bytes());
}

fn put_control(control: Control, out: &mut Vec<u8>) {
    out.extend(control.turn.to_le_bytes());
    out.extend([control.thrust, u8::from(control.fire)]);
}

/// Writes an entity.
pub(super) fn put_entity(entity: &Entity, out: &mut Vec<u8>) {
    put_id(entity.id, out);
    out.extend(entity.epoch.to_le_bytes());
    put_point(entity.at, out);
    out.extend(entity.velocity.0.to_le_bytes());
    out.extend(entity.velocity.1.to_le_bytes());
    out.extend(entity.heading.to_le_bytes());
    out.extend([entity.health, entity.down_ticks, u8::from(entity.fired)]);
    put_control(entity.control, out);
    out.extend(entity.control_seq.to_le_bytes());
    // Never more than CONTROLS_MAX.
    out.push(u8::try_from(entity.waiting.len()).unwrap_or(u8::MAX));
    for waiting in &entity.waiting {
        out.extend(waiting.seq.to_le_bytes());
        out.extend(waiting.tick.to_le_bytes());
        put_control(waiting.control, out);
    }
}

/// What of a part is not read yet.
pub(super) struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Damaged::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Damaged> {
        self.take().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Damaged> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Damaged> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, Damaged> {
        self.take().map(u128::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Damaged> {
        self.take().map(i32::from_le_bytes)
    }

    fn bool(&mut self) -> Result<bool, Damaged> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged::Wrong("a flag is neither set nor clear")),
        }
    }

    /// As many as a count in front of them says; room is made for what comes, not for what is said.
    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Vec<T>, Damaged> {
        let count = self.u32()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    pub(super) fn id(&mut self) -> Result<EntityId, Damaged> {
        Ok(EntityId { slot: self.u32()?, generation: self.u32()? })
    }

    pub(super) fn point(&mut self) -> Result<Point, Damaged> {
        Ok(Point { x: self.i32()?, y: self.i32()? })
    }

    fn control(&mut self) -> Result<Control, Damaged> {
        let [turn] = self.take()?;
        Ok(Control { turn: turn.cast_signed(), thrust: self.u8()?, fire: self.bool()? })
    }

    pub(super) fn entity(&mut self) -> Result<Entity, Damaged> {
        let mut entity = Entity::new(self.id()?, Point::default());
        entity.epoch = self.u32()?;
        entity.at = self.point()?;
        entity.velocity = (self.i32()?, self.i32()?);
        entity.heading = self.u16()?;
        (entity.health, entity.down_ticks) = (self.u8()?, self.u8()?);
        entity.fired = self.bool()?;
        entity.control = self.control()?;
        entity.control_seq = self.u32()?;
        for _ in 0..self.u8()? {
            let (seq, tick) = (self.u32()?, self.u32()?);
            entity.waiting.push(Numbered { seq, tick, control: self.control()? });
        }
        Ok(entity)
    }
}
