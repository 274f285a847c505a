//! What a client is told of an entity, in whole numbers small enough to send.
//!
//! A position is rounded to 256ths of a metre (an error of at most 4 mm), a direction to 1,024ths
//! of a turn (0.4°); a velocity is exact. Both sides compute with the rounded numbers, so that a
//! client that lets an entity fly on is where the server expects it to be, to the last bit.
//!
//! What is deliberately not here: bytes (`packet`), and who is told what (`interest`).

use crate::mail::Shown;

/// One entity at one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// East, in 256ths of a metre; 24 bits.
    pub x: i32,
    /// North, in 256ths of a metre; 24 bits.
    pub y: i32,
    /// East, in 1,024ths of a metre a tick.
    pub vx: i16,
    /// North, in 1,024ths of a metre a tick.
    pub vy: i16,
    /// 10 bits of direction, 4 of health, 1 whether it shot, 1 unused.
    pub pose: u16,
}

/// Coordinates are below this: as many bits as a packet has for them.
pub const COORDINATE_END: i32 = 1 << 24;

impl Record {
    /// What a cell shows, rounded.
    #[must_use]
    pub fn of(shown: &Shown) -> Self {
        let speed = |v: i32| i16::try_from(v).unwrap_or(if v < 0 { i16::MIN } else { i16::MAX });
        let (vx, vy) = (speed(shown.velocity.0), speed(shown.velocity.1));
        let pose = shown.heading & 0xffc0
            | u16::from(shown.health & 0xf) << 2
            | u16::from(shown.fired) << 1;
        Self { x: shown.at.x >> 2, y: shown.at.y >> 2, vx, vy, pose }
    }

    /// Where it is after some ticks if nothing acts on it. Walls are not known here.
    #[must_use]
    pub fn flown(self, ticks: u32) -> Self {
        let ticks = i32::try_from(ticks).unwrap_or(0);
        let flown =
            |at: i32, speed: i16| at.wrapping_add(i32::from(speed).wrapping_mul(ticks) >> 2);
        Self { x: flown(self.x, self.vx), y: flown(self.y, self.vy), ..self }
    }
}
