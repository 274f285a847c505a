//! What one client knows: snapshots in, the entities around it out.
//!
//! The last packets are kept, for as long as the server may build on them; an entity that was told of
//! before these is kept by itself. A packet that is older than the newest that came is of no use and left
//! out; one that builds on what was never told is an error, and changes nothing.
//!
//! A process that flies a thousand pilots has a million entities in sight, far more than a processor's caches
//! hold. So the records of a packet lie together, as they came, and of an entity there is no more than a byte
//! that says which packet told of it last. A packet is read and resolved in one pass, into memory that is there.
//!
//! What is deliberately not here: drawing, and guessing beyond letting things fly on.

use std::collections::BTreeMap;

use crate::packet::{AGE_MAX, Head, Malformed, SnapshotReader, Summary, Update, applied};
use crate::record::Record;

/// Packets that are kept: by their tick modulo this, so that the oldest baseline is among them.
const PACKETS_KEPT: u32 = AGE_MAX + 1;
/// In place of the packet that told of an entity last: nothing is known of it.
const UNKNOWN: u8 = u8::MAX;
/// Likewise: the packet is not kept any more.
const OLDER: u8 = UNKNOWN - 1;

/// Why a packet could not be used. The server's fault, or a forger's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPacket {
    /// Its bytes are no snapshot.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It builds on a record that this client does not have.
    #[error("slot {slot} builds on tick {tick}, which did not come")]
    Baseline {
        /// Of which entity.
        slot: u32,
        /// The tick that is missing.
        tick: u32,
    },
    /// A delta leads out of every zone.
    #[error("slot {slot} would be outside every zone")]
    Outside {
        /// Of which entity.
        slot: u32,
    },
}

/// What a packet brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Entities with a new record: application messages.
    pub updates: u32,
    /// Entities that went out of sight.
    pub gone: u32,
    /// Whether the packet was older than what had come, and was left out.
    pub is_old: bool,
}

/// One entity that a client knows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The entity's generation; with its slot its whole id.
    pub generation: u32,
    told: u32,
    record: Record,
}

impl Known {
    /// The newest record, and its tick.
    #[must_use]
    pub fn newest(&self) -> (u32, Record) {
        (self.told, self.record)
    }

    /// Where the entity is believed to be in `tick`.
    #[must_use]
    pub fn at(&self, tick: u32) -> Record {
        self.record.flown(tick.saturating_sub(self.told))
    }
}

/// The records of one packet.
#[derive(Clone, Debug, Default)]
struct Told {
    tick: u32,
    /// By rising slot. 16 bits are as many as slots have.
    slots: Vec<u16>,
    /// Each slot's; none if the slot has become another entity's since, or is out of sight.
    records: Vec<Option<Record>>,
}

impl Told {
    fn place(&self, slot: u16) -> Option<usize> {
        self.slots.binary_search(&slot).ok()
    }

    fn of(&self, slot: u16) -> Option<Record> {
        *self.records.get(self.place(slot)?)?
    }

    /// The same for who asks by rising slot: all `passed` are below it.
    fn next(&self, slot: u16, passed: &mut usize) -> Option<Record> {
        let rest = self.slots.get(*passed..)?;
        *passed += rest.iter().position(|it| *it >= slot)?;
        let is_there = self.slots[*passed] == slot;
        if is_there { self.records[*passed] } else { None }
    }
}

/// See the module.
#[derive(Debug)]
pub struct View {
    tau_permille: u16,
    control_seq: u32,
    summaries: Vec<Summary>,
    /// The newest tick that came, and which of the 32 before it did; none at first.
    newest: Option<(u32, u32)>,
    /// By tick modulo [`PACKETS_KEPT`].
    told: [Told; PACKETS_KEPT as usize],
    /// By slot: the place in `told` of the packet that told of it last, [`OLDER`] or [`UNKNOWN`].
    last: Vec<u8>,
    /// By slot; of use for those that are known.
    generations: Vec<u32>,
    /// Of slots that are [`OLDER`].
    older: BTreeMap<u16, (u32, Record)>,
    /// The records of a packet until all of it is known to be right, then memory for the next.
    next: Told,
    /// Likewise: its summaries.
    next_summaries: Vec<Summary>,
    /// Likewise: slots that are told of without a baseline, with their generations; none for those that go.
    begun: Vec<(u16, Option<u32>)>,
    /// Slots that are not [`UNKNOWN`].
    in_sight: usize,
}

impl Default for View {
    fn default() -> Self {
        Self {
            tau_permille: 0,
            control_seq: 0,
            summaries: Vec::new(),
            newest: None,
            told: std::array::from_fn(|_| Told::default()),
            last: Vec::new(),
            generations: Vec::new(),
            older: BTreeMap::new(),
            next: Told::default(),
            next_summaries: Vec::new(),
            begun: Vec::new(),
            in_sight: 0,
        }
    }
}

impl View {
    /// The newest tick that came.
    #[must_use]
    pub fn tick(&self) -> Option<u32> {
        self.newest.map(|(tick, _)| tick)
    }

    /// What to acknowledge: the newest tick, and which of the 32 before it came.
    #[must_use]
    pub fn ack(&self) -> Option<(u32, u32)> {
        self.newest
    }

    /// The newest control that the client's ship follows, as far as was told.
    #[must_use]
    pub fn control_seq(&self) -> u32 {
        self.control_seq
    }

    /// How fast time goes, in thousandths, as far as was told.
    #[must_use]
    pub fn tau_permille(&self) -> u16 {
        self.tau_permille
    }

    /// Far crowds of the newest packet.
    #[must_use]
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    /// All that is in sight, by slot.
    pub fn known(&self) -> impl Iterator<Item = (u32, Known)> {
        (0..).zip(&self.last).filter_map(|(slot, _)| Some((slot, self.get(slot)?)))
    }

    /// How many are in sight.
    #[must_use]
    pub fn in_sight(&self) -> usize {
        self.in_sight
    }

    /// What is known of a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<Known> {
        let generation = *self.generations.get(slot as usize)?;
        let short = u16::try_from(slot).ok()?;
        let (told, record) = match *self.last.get(slot as usize)? {
            UNKNOWN => return None,
            OLDER => *self.older.get(&short)?,
            place => {
                let told = &self.told[usize::from(place)];
                (told.tick, told.of(short)?)
            }
        };
        Some(Known { generation, told, record })
    }

    /// Takes a packet.
    ///
    /// # Errors
    /// [`BadPacket`]; then nothing is changed.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Applied, BadPacket> {
        let (head, reader) = SnapshotReader::begin(bytes)?;
        let is_old = self.newest.is_some_and(|(newest, _)| newest >= head.tick);
        self.read(head.tick, is_old, reader)?;
        if is_old {
            return Ok(Applied { is_old, ..Applied::default() });
        }
        self.tau_permille = head.tau_permille;
        self.control_seq = self.control_seq.max(head.control_seq);
        std::mem::swap(&mut self.summaries, &mut self.next_summaries);
        Ok(self.apply(head))
    }

    /// Reads what follows the head: the new records, before anything is changed. Bytes that are no packet
    /// are told first, wherever they are; no record of an old packet is resolved, its baselines may be gone.
    fn read(
        &mut self,
        tick: u32,
        is_old: bool,
        mut reader: SnapshotReader<'_>,
    ) -> Result<(), BadPacket> {
        self.next.slots.clear();
        self.next.records.clear();
        self.begun.clear();
        // Slots rise in all packets, so each is gone through once, from its beginning to its end.
        let mut passed = [0; PACKETS_KEPT as usize];
        let mut bad = None;
        while let Some((slot, update)) = reader.update()? {
            if !is_old && bad.is_none() {
                bad = self.resolve(tick, (slot, &update), &mut passed).err();
            }
        }
        reader.summaries(&mut self.next_summaries)?;
        bad.map_or(Ok(()), Err)
    }

    /// The new record of one slot.
    fn resolve(
        &mut self,
        tick: u32,
        (slot, update): (u32, &Update),
        passed: &mut [usize; PACKETS_KEPT as usize],
    ) -> Result<(), BadPacket> {
        let outside = BadPacket::Outside { slot };
        let short = u16::try_from(slot).map_err(|_| outside)?;
        let record = match update {
            Update::Full { generation, record } => {
                self.begun.push((short, Some(*generation)));
                *record
            }
            Update::Gone => {
                self.begun.push((short, None));
                return Ok(());
            }
            Update::Delta { age, .. } => {
                let tick = tick.wrapping_sub(*age);
                let place = usize::from(place_of(tick));
                let told = &self.told[place];
                let baseline = (told.tick == tick).then(|| told.next(short, &mut passed[place]));
                let baseline = baseline.flatten();
                let baseline = baseline.ok_or(BadPacket::Baseline { slot, tick })?;
                applied(baseline, update).ok_or(outside)?
            }
        };
        self.next.slots.push(short);
        self.next.records.push(Some(record));
        Ok(())
    }

    /// What was read becomes what is known.
    fn apply(&mut self, head: Head) -> Applied {
        let tick = head.tick;
        self.forget(tick);
        let told = self.next.slots.last().copied();
        let begun = self.begun.last().map(|(slot, _)| *slot);
        if let Some(slot) = told.max(begun)
            && usize::from(slot) >= self.last.len()
        {
            self.last.resize(usize::from(slot) + 1, UNKNOWN);
            self.generations.resize(usize::from(slot) + 1, 0);
        }
        let mut applied = Applied::default();
        for index in 0..self.begun.len() {
            let (slot, generation) = self.begun[index];
            applied.gone += u32::from(self.begin(slot, generation));
        }
        for slot in &self.next.slots {
            let older = std::mem::replace(&mut self.last[usize::from(*slot)], place_of(tick));
            match older {
                UNKNOWN => self.in_sight += 1,
                OLDER => _ = self.older.remove(slot),
                _ => {}
            }
        }
        applied.updates = u32::try_from(self.next.slots.len()).unwrap_or(u32::MAX);
        self.next.tick = tick;
        std::mem::swap(&mut self.told[usize::from(place_of(tick))], &mut self.next);
        let bits = self.newest.map_or(0, |(newest, bits)| match tick - newest {
            age @ 1..=31 => bits << age | 1 << (age - 1),
            32 => 1 << 31,
            _ => 0,
        });
        self.newest = Some((tick, bits));
        applied
    }

    /// Makes room for the packet of a tick: who was told of last in the one before at its place is kept by
    /// itself.
    fn forget(&mut self, tick: u32) {
        let told = &self.told[usize::from(place_of(tick))];
        for (slot, record) in told.slots.iter().zip(&told.records) {
            let last = &mut self.last[usize::from(*slot)];
            if *last == place_of(tick)
                && let Some(record) = record
            {
                *last = OLDER;
                self.older.insert(*slot, (told.tick, *record));
            }
        }
    }

    /// An entity comes into sight, is told of in full again, or goes (no generation). Nothing builds on what
    /// its slot was before. Tells whether one went.
    fn begin(&mut self, slot: u16, generation: Option<u32>) -> bool {
        let index = usize::from(slot);
        let is_known = self.last[index] != UNKNOWN;
        if is_known && generation != Some(self.generations[index]) {
            for told in &mut self.told {
                if let Some(place) = told.place(slot) {
                    told.records[place] = None;
                }
            }
            self.older.remove(&slot);
            self.last[index] = UNKNOWN;
            assert!(self.in_sight > 0, "slot {slot} was known and nothing was in sight");
            self.in_sight -= 1;
        }
        self.generations[index] = generation.unwrap_or(0);
        is_known && generation.is_none()
    }
}

/// The place of a tick's packet.
fn place_of(tick: u32) -> u8 {
    u8::try_from(tick % PACKETS_KEPT).unwrap_or(0)
}
