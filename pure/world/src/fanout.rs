//! The part of writing packets that viewers share: each entity's record is put into bytes once for
//! each baseline that anybody builds on, and copied from there.
//!
//! Viewers of one crowd were told of an entity in one of a few ticks, so a thousand of them need
//! only a few forms of it. One `Fanout` for each thread that writes packets. What is deliberately
//! not here: choosing what to write (`interest`).

use crate::frames::Frames;
use crate::packet::{AGE_MAX, RECORD_BYTES_MAX, Update, delta, put_update};

const AGES: usize = AGE_MAX as usize + 1;
/// In place of a length: nothing has to be said.
const UNCHANGED: u8 = 255;

/// Bytes of records of one tick, and room to work in. Nothing in it outlives a tick but memory.
#[derive(Debug, Default)]
pub struct Fanout {
    tick: Option<u32>,
    /// By slot and age: where its bytes are, plus one; 0 if there are none yet.
    places: Vec<u32>,
    /// A byte of length, then the record.
    bytes: Vec<u8>,
    /// By slot: marks of one viewer's look around.
    pub(crate) marks: Vec<u32>,
    /// Squares of distances of one viewer's look around.
    pub(crate) distances: Vec<u32>,
    /// Who is near, with the square of the distance.
    pub(crate) near: Vec<(u32, u32)>,
}

impl Fanout {
    /// Forgets the tick before.
    pub(crate) fn begin(&mut self, frames: &Frames) {
        if self.tick == Some(frames.tick()) {
            return;
        }
        self.tick = Some(frames.tick());
        self.places.clear();
        self.places.resize(frames.slots() * AGES, 0);
        self.bytes.clear();
        self.marks.resize(frames.slots(), 0);
    }

    /// The record of a slot for who has its baseline of `age` ticks ago (0: none), without its gap.
    /// None if nothing has changed and nothing moves.
    pub(crate) fn record(&mut self, frames: &Frames, slot: u32, age: u32) -> Option<&[u8]> {
        let index = slot as usize * AGES + age as usize;
        let place = match self.places[index] {
            0 => {
                let place = self.bytes.len();
                self.write(frames, slot, age);
                self.places[index] = u32::try_from(place + 1).unwrap_or(0);
                place
            }
            place => place as usize - 1,
        };
        let length = self.bytes[place];
        let start = place + 1;
        (length != UNCHANGED).then(|| &self.bytes[start..start + usize::from(length)])
    }

    fn write(&mut self, frames: &Frames, slot: u32, age: u32) {
        let place = self.bytes.len();
        self.bytes.push(UNCHANGED);
        let now = frames.record(slot, 0);
        if age == 0 {
            let generation = frames.generation(slot).unwrap_or(0);
            put_update(&Update::Full { generation, record: now }, &mut self.bytes);
        } else {
            let baseline = frames.record(slot, age);
            if now == baseline && (now.vx, now.vy) == (0, 0) {
                return;
            }
            put_update(&delta(baseline, age, now), &mut self.bytes);
        }
        let length = self.bytes.len() - place - 1;
        assert!(length < RECORD_BYTES_MAX, "a record of {length} bytes");
        self.bytes[place] = u8::try_from(length).unwrap_or(UNCHANGED);
    }
}
