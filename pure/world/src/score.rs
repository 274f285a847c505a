//! What a pilot has brought about: how often its ship shot another one down, and was shot down, and the
//! points that whoever runs the zone gives for that.
//!
//! A score belongs to a ship, and goes with it. Data in: who was shot down by whom. Out: a packet for
//! the pilot. What is deliberately not here: which ship is whose, and when a score may be told (a
//! server that keeps scores tells none before it is kept).

use crate::ids::EntityId;
use crate::packet::Malformed;

const SCORE: u8 = 5;
const BYTES: usize = 13;

/// See the module. From the server to a client, when its score is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Ships that the pilot's hit last before they lay still.
    pub downed: u32,
    /// How often its own did.
    pub lost: u32,
    /// What it was given for it.
    pub points: i32,
}

impl Score {
    /// The first byte of the packet.
    pub const KIND: u8 = SCORE;

    /// Counts, for the pilot of `ship`, that one was shot down by another.
    pub fn note(&mut self, ship: EntityId, (victim, by): (EntityId, EntityId)) {
        self.downed = self.downed.saturating_add(u32::from(ship == by));
        self.lost = self.lost.saturating_add(u32::from(ship == victim));
    }

    /// Gives points, or takes some.
    pub fn give(&mut self, points: i32) {
        self.points = self.points.saturating_add(points);
    }

    /// The packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.push(SCORE);
        out.extend(self.downed.to_le_bytes());
        out.extend(self.lost.to_le_bytes());
        out.extend(self.points.to_le_bytes());
        out
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`], whatever does not fit the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, rest) = bytes.split_first().ok_or(Malformed::Short)?;
        if *kind != SCORE {
            return Err(Malformed::Kind(*kind));
        }
        let (downed, rest) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        let (lost, rest) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        let (points, rest) = rest.split_first_chunk().ok_or(Malformed::Short)?;
        if !rest.is_empty() {
            return Err(Malformed::Long { extra: rest.len() });
        }
        let (downed, lost) = (u32::from_le_bytes(*downed), u32::from_le_bytes(*lost));
        Ok(Self { downed, lost, points: i32::from_le_bytes(*points) })
    }
}
