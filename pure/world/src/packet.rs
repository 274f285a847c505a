//! Packets between a zone and a client: bytes, in both directions.
//!
//! All numbers are little-endian; a *varint* has seven bits a byte, low ones first, the top bit set
//! on all but the last, at most five bytes and not always the fewest; a *zigzag* is a signed number as a varint with its sign
//! in bit 0. A packet is the same in a datagram, a WebSocket message and match data.
//!
//! **Snapshot**, from the server:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 1, the kind |
//! | 4 | tick, not the last that fits |
//! | 2 | speed of time in thousandths |
//! | 4 | number of the newest control that the client's ship follows |
//! | varint | how many records |
//! | … | records, by rising slot |
//! | varint | how many summaries |
//! | … | summaries, by rising bin |
//!
//! A **record** is a varint, the slots left out since the one before, and a byte: in its upper six
//! bits the age of the baseline in ticks, below them two flags. Then come:
//!
//! | age | flags | what follows |
//! |---|---|---|
//! | 0 | 0 | all of it: varint generation, 3 bytes x, 3 y, 2 vx, 2 vy, 2 pose |
//! | 0 | 1 | nothing: the entity is out of sight |
//! | 1–31 | | zigzag x, zigzag y: what must be added to where the baseline has flown in *age* ticks |
//! | | bit 0 | zigzag vx, zigzag vy: what must be added to the velocity |
//! | | bit 1 | 2 bytes pose |
//!
//! The baseline is what the client was told of the entity in the packet of tick *tick − age*, which
//! it has acknowledged. A **summary** is a varint, the bins left out since the one before (row by
//! row), a varint, how many are there, and two bytes, the middle of them in 256ths of the bin.
//!
//! **Controls**, from the client:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 2, the kind |
//! | 4 | one more than the newest tick that came, 0 if none did |
//! | 4 | which of the 32 ticks before it came, the newest in bit 0 |
//! | 1 | how many controls, at most 8 |
//! | 4 | the number of the first; others follow it without a gap |
//! | 2 each | turn, signed; thrust in bits 0 and 1, fire in bit 2 |
//!
//! **Welcome**, from the server, before the first snapshot:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 3, the kind |
//! | 1 | 2, the version of this layout |
//! | 1 | ticks in a second, when time goes at its full speed |
//! | 2 | bins on a side of the world, each of 64 m |
//! | 4 | slot of the client's ship |
//! | 4 | generation of the client's ship |
//!
//! **Place**, from the server, while the client waits for its welcome:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 4, the kind |
//! | 4 | the client's place in the line, 1 for who is let in next |
//! | 4 | how many wait |
//!
//! Whatever the bytes, reading gives a packet or an error that says why, and takes no more memory
//! than some times what came. What is deliberately not here: what packets mean to who gets them
//! (`interest`, `view`), and their authentication, which is the transport's.

use crate::entity::{CONTROLS_MAX, Control};
use crate::ids::{EntityId, Slots};
use crate::record::{COORDINATE_END, Record};

/// The oldest baseline, in ticks.
pub const AGE_MAX: u32 = 31;
/// Bytes of a record at most: gap, head, and the longest body.
pub const RECORD_BYTES_MAX: usize = 28;

const SNAPSHOT: u8 = 1;
const CONTROLS: u8 = 2;
const WELCOME: u8 = 3;
const PLACE: u8 = 4;
/// Rises when packets change.
const VERSION: u8 = 2;
const VELOCITY: u8 = 1;
const POSE: u8 = 2;
const GONE: u8 = 1;

/// Why bytes are no packet. The peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end within the packet.
    #[error("the packet ends too early")]
    Short,
    /// Bytes follow the packet.
    #[error("{extra} bytes follow the packet")]
    Long {
        /// So many.
        extra: usize,
    },
    /// Another kind, or none that there is.
    #[error("a packet of kind {0} is not expected here")]
    Kind(u8),
    /// A varint of more than 32 bits.
    #[error("a number has more than 32 bits")]
    Number,
    /// A tick, a slot, a bin or a coordinate that no zone has.
    #[error("{what} {value} is outside every zone")]
    Outside {
        /// Of what.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A head of a record with flags or an age that mean nothing.
    #[error("a record begins with {0}")]
    Head(u8),
    /// More controls than a packet may have.
    #[error("{0} controls, {CONTROLS_MAX} are allowed")]
    Controls(u8),
    /// A control with bits that mean nothing.
    #[error("a control has the bits {0}")]
    Bits(u8),
    /// A text that is no UTF-8.
    #[error("a text is no UTF-8")]
    Text,
    /// Packets of a version that is not known here.
    #[error("packets of version {0}, {VERSION} is known")]
    Version(u8),
}

/// What a packet says of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Update {
    /// All of it.
    Full { generation: u32, record: Record },
    /// What must be added to the baseline of `age` ticks ago after it has flown; `pose` in place.
    Delta { age: u32, by: (i32, i32), velocity: (i32, i32), pose: Option<u16> },
    /// It is out of sight.
    Gone,
}

/// What a packet says of a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Row by row from the corner.
    pub bin: u32,
    /// So many entities.
    pub count: u32,
    /// The middle of them, in 256ths of the bin.
    pub middle: (u8, u8),
}

/// A snapshot, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Of which tick.
    pub tick: u32,
    /// How fast time goes, in thousandths.
    pub tau_permille: u16,
    /// The newest control that the client's ship follows.
    pub control_seq: u32,
    /// Slots and what is said of them, by rising slot.
    pub updates: Vec<(u32, Update)>,
    /// By rising bin.
    pub summaries: Vec<Summary>,
}

/// What a client sends, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FromClient {
    /// The newest tick that came, and which of the 32 before it did, the newest in bit 0.
    pub ack: Option<(u32, u32)>,
    /// The number of the first control.
    pub first_seq: u32,
    /// By rising number, at most [`CONTROLS_MAX`].
    pub controls: Vec<Control>,
}

/// What a client is told once: which ship is its own, and of what world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The client's ship.
    pub ship: EntityId,
    /// Bins on a side of the world.
    pub bins: u16,
    /// Ticks in a second of the world.
    pub tick_rate_hz: u8,
}

/// What a client is told while it waits to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In the line, from 1.
    pub place: u32,
    /// How many wait, this one included.
    pub waiting: u32,
}

impl Place {
    /// The first byte of the packet.
    pub const KIND: u8 = PLACE;

    /// The packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![PLACE];
        out.extend(self.place.to_le_bytes());
        out.extend(self.waiting.to_le_bytes());
        out
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`], whatever does not fit the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        reader.kind(PLACE)?;
        let place = u32::from_le_bytes(reader.take()?);
        let waiting = u32::from_le_bytes(reader.take()?);
        reader.end()?;
        Ok(Self { place, waiting })
    }
}

impl Welcome {
    /// The first byte of the packet.
    pub const KIND: u8 = WELCOME;

    /// The packet.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![WELCOME, VERSION, self.tick_rate_hz];
        out.extend(self.bins.to_le_bytes());
        out.extend(self.ship.slot.to_le_bytes());
        out.extend(self.ship.generation.to_le_bytes());
        out
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`], whatever does not fit the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        reader.kind(WELCOME)?;
        let [version, tick_rate_hz] = reader.take()?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let bins = u16::from_le_bytes(reader.take()?);
        let slot = u32::from_le_bytes(reader.take()?);
        let generation = u32::from_le_bytes(reader.take()?);
        reader.end()?;
        Ok(Self { ship: EntityId { slot, generation }, bins, tick_rate_hz })
    }
}

impl FromClient {
    /// The first byte of the packet.
    pub const KIND: u8 = CONTROLS;

    /// Appends the packet. More than [`CONTROLS_MAX`] controls are cut: the newest are sent.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let cut = self.controls.len().saturating_sub(CONTROLS_MAX);
        let skipped = u32::try_from(cut).unwrap_or(0);
        out.push(CONTROLS);
        let (ack, bits) = self.ack.map_or((0, 0), |(tick, bits)| (tick.wrapping_add(1), bits));
        out.extend(ack.to_le_bytes());
        out.extend(bits.to_le_bytes());
        out.push(u8::try_from(self.controls.len() - cut).unwrap_or(0));
        out.extend(self.first_seq.wrapping_add(skipped).to_le_bytes());
        for control in &self.controls[cut..] {
            let bits = control.thrust.min(3) | u8::from(control.fire) << 2;
            out.extend([control.turn.cast_unsigned(), bits]);
        }
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`], whatever does not fit the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        reader.kind(CONTROLS)?;
        let (ack, bits) = (u32::from_le_bytes(reader.take()?), u32::from_le_bytes(reader.take()?));
        let ack = ack.checked_sub(1).map(|tick| (tick, bits));
        let [count] = reader.take()?;
        if usize::from(count) > CONTROLS_MAX {
            return Err(Malformed::Controls(count));
        }
        let first_seq = u32::from_le_bytes(reader.take()?);
        let mut controls = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let [turn, bits] = reader.take()?;
            if bits > 7 {
                return Err(Malformed::Bits(bits));
            }
            controls.push(Control {
                turn: turn.cast_signed(),
                thrust: bits & 3,
                fire: bits & 4 != 0,
            });
        }
        reader.end()?;
        Ok(Self { ack, first_seq, controls })
    }
}

impl Snapshot {
    /// The first byte of the packet.
    pub const KIND: u8 = SNAPSHOT;

    /// Appends the packet. What does not fit the layout (an age beyond [`AGE_MAX`]) is the
    /// caller's mistake.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_head(self.tick, self.tau_permille, self.control_seq, out);
        put_varint(u32::try_from(self.updates.len()).unwrap_or(0), out);
        let mut next = 0;
        for (slot, update) in &self.updates {
            put_varint(slot - next, out);
            put_update(update, out);
            next = slot + 1;
        }
        put_summaries(&self.summaries, out);
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// [`Malformed`], whatever does not fit the layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (Head { tick, tau_permille, control_seq }, mut reader) = SnapshotReader::begin(bytes)?;
        let mut snapshot = Self { tick, tau_permille, control_seq, ..Self::default() };
        while let Some(update) = reader.update()? {
            snapshot.updates.push(update);
        }
        reader.summaries(&mut snapshot.summaries)?;
        Ok(snapshot)
    }
}

/// What a snapshot begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) tick: u32,
    pub(crate) tau_permille: u16,
    pub(crate) control_seq: u32,
}

/// A snapshot that is being read, from its beginning to its end, without memory of its own: its head, its
/// updates one by one, then its summaries.
pub(crate) struct SnapshotReader<'a> {
    reader: Reader<'a>,
    updates_left: u32,
    /// The first slot that the next update may be of.
    slot: u64,
}

impl<'a> SnapshotReader<'a> {
    /// Reads the head.
    pub(crate) fn begin(bytes: &'a [u8]) -> Result<(Head, Self), Malformed> {
        let mut reader = Reader(bytes);
        reader.kind(SNAPSHOT)?;
        let tick = u32::from_le_bytes(reader.take()?);
        if tick == u32::MAX {
            // An acknowledgement is one more than its tick.
            return Err(Malformed::Outside { what: "tick", value: tick.into() });
        }
        let tau_permille = u16::from_le_bytes(reader.take()?);
        let control_seq = u32::from_le_bytes(reader.take()?);
        let updates_left = reader.varint()?;
        Ok((Head { tick, tau_permille, control_seq }, Self { reader, updates_left, slot: 0 }))
    }

    /// The next update and its slot; none after the last.
    #[inline]
    pub(crate) fn update(&mut self) -> Result<Option<(u32, Update)>, Malformed> {
        if self.updates_left == 0 {
            return Ok(None);
        }
        self.updates_left -= 1;
        let slot = self.slot + u64::from(self.reader.varint()?);
        if slot >= u64::from(Slots::SLOTS_MAX) {
            return Err(Malformed::Outside { what: "slot", value: slot });
        }
        let update = self.reader.update()?;
        self.slot = slot + 1;
        Ok(Some((u32::try_from(slot).unwrap_or(0), update)))
    }

    /// Reads the rest, when all updates are read: summaries, in place of those that `out` has.
    pub(crate) fn summaries(mut self, out: &mut Vec<Summary>) -> Result<(), Malformed> {
        assert!(self.updates_left == 0, "{} updates are not read", self.updates_left);
        out.clear();
        let mut next = 0;
        for _ in 0..self.reader.varint()? {
            let bin = next + u64::from(self.reader.varint()?);
            let bins = u64::from(crate::BINS_MAX) * u64::from(crate::BINS_MAX);
            if bin >= bins {
                return Err(Malformed::Outside { what: "bin", value: bin });
            }
            let count = self.reader.varint()?;
            let [x, y] = self.reader.take()?;
            let bin_number = u32::try_from(bin).unwrap_or(0);
            out.push(Summary { bin: bin_number, count, middle: (x, y) });
            next = bin + 1;
        }
        self.reader.end()
    }
}

/// Appends what every snapshot begins with.
pub(crate) fn put_head(tick: u32, tau_permille: u16, control_seq: u32, out: &mut Vec<u8>) {
    out.push(SNAPSHOT);
    out.extend(tick.to_le_bytes());
    out.extend(tau_permille.to_le_bytes());
    out.extend(control_seq.to_le_bytes());
}

/// Appends the summaries with their count.
pub(crate) fn put_summaries(summaries: &[Summary], out: &mut Vec<u8>) {
    put_varint(u32::try_from(summaries.len()).unwrap_or(0), out);
    let mut next = 0;
    for summary in summaries {
        put_varint(summary.bin - next, out);
        put_varint(summary.count, out);
        out.extend([summary.middle.0, summary.middle.1]);
        next = summary.bin + 1;
    }
}

/// What must be said of an entity to who has its baseline of `age` ticks ago.
#[must_use]
pub fn delta(baseline: Record, age: u32, now: Record) -> Update {
    let flown = baseline.flown(age);
    let by = (now.x.wrapping_sub(flown.x), now.y.wrapping_sub(flown.y));
    let velocity =
        (i32::from(now.vx) - i32::from(baseline.vx), i32::from(now.vy) - i32::from(baseline.vy));
    Update::Delta { age, by, velocity, pose: (now.pose != baseline.pose).then_some(now.pose) }
}

/// Appends a record without its gap.
pub(crate) fn put_update(update: &Update, out: &mut Vec<u8>) {
    match *update {
        Update::Full { generation, record } => {
            out.push(0);
            put_varint(generation, out);
            let Record { x, y, vx, vy, pose } = record;
            out.extend_from_slice(&x.to_le_bytes()[..3]);
            out.extend_from_slice(&y.to_le_bytes()[..3]);
            out.extend(vx.to_le_bytes());
            out.extend(vy.to_le_bytes());
            out.extend(pose.to_le_bytes());
        }
        Update::Gone => out.push(GONE),
        Update::Delta { age, by, velocity, pose } => {
            assert!((1..=AGE_MAX).contains(&age), "a baseline {age} ticks old");
            let turns = if velocity == (0, 0) { 0 } else { VELOCITY };
            let head = u8::try_from(age << 2).unwrap_or(0);
            out.push(head | turns | if pose.is_some() { POSE } else { 0 });
            put_varint(zigzag(by.0), out);
            put_varint(zigzag(by.1), out);
            if velocity != (0, 0) {
                put_varint(zigzag(velocity.0), out);
                put_varint(zigzag(velocity.1), out);
            }
            if let Some(pose) = pose {
                out.extend(pose.to_le_bytes());
            }
        }
    }
}

/// Appends a varint.
pub(crate) fn put_varint(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn zigzag(number: i32) -> u32 {
    (number << 1 ^ number >> 31).cast_unsigned()
}

fn unzigzag(number: u32) -> i32 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// What is left of a packet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn kind(&mut self, expected: u8) -> Result<(), Malformed> {
        let [kind] = self.take()?;
        if kind == expected { Ok(()) } else { Err(Malformed::Kind(kind)) }
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        let extra = self.0.len();
        if extra == 0 { Ok(()) } else { Err(Malformed::Long { extra }) }
    }

    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| Malformed::Number);
            }
        }
        Err(Malformed::Number)
    }

    fn zigzag(&mut self) -> Result<i32, Malformed> {
        self.varint().map(unzigzag)
    }

    fn coordinate(&mut self) -> Result<i32, Malformed> {
        let [a, b, c] = self.take()?;
        Ok(i32::from_le_bytes([a, b, c, 0]))
    }

    fn update(&mut self) -> Result<Update, Malformed> {
        let [head] = self.take()?;
        let (age, flags) = (u32::from(head >> 2), head & 3);
        match (age, flags) {
            (0, 0) => {
                let generation = self.varint()?;
                let (x, y) = (self.coordinate()?, self.coordinate()?);
                let vx = i16::from_le_bytes(self.take()?);
                let vy = i16::from_le_bytes(self.take()?);
                let pose = u16::from_le_bytes(self.take()?);
                Ok(Update::Full { generation, record: Record { x, y, vx, vy, pose } })
            }
            (0, GONE) => Ok(Update::Gone),
            (1..=AGE_MAX, _) => {
                let by = (self.zigzag()?, self.zigzag()?);
                let turns = flags & VELOCITY != 0;
                let velocity = if turns { (self.zigzag()?, self.zigzag()?) } else { (0, 0) };
                let poses = flags & POSE != 0;
                let pose = if poses { Some(u16::from_le_bytes(self.take()?)) } else { None };
                Ok(Update::Delta { age, by, velocity, pose })
            }
            _ => Err(Malformed::Head(head)),
        }
    }
}

/// What an update makes of its baseline; none if no zone has such a record.
pub(crate) fn applied(baseline: Record, update: &Update) -> Option<Record> {
    let Update::Delta { age, by, velocity, pose } = *update else { return None };
    let flown = baseline.flown(age);
    let speed = |old: i16, by: i32| i16::try_from(i32::from(old).checked_add(by)?).ok();
    let place = |at: i32, by: i32| {
        let at = at.wrapping_add(by);
        (0..COORDINATE_END).contains(&at).then_some(at)
    };
    Some(Record {
        x: place(flown.x, by.0)?,
        y: place(flown.y, by.1)?,
        vx: speed(baseline.vx, velocity.0)?,
        vy: speed(baseline.vy, velocity.1)?,
        pose: pose.unwrap_or(baseline.pose),
    })
}
