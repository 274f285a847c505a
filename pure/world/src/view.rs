//! What one client knows: snapshots in, the entities around it out.
//!
//! The last packets are kept, for as long as the server may build on them; an entity that was told of
//! before these is kept by itself. A packet that is older than the newest that came is of no use and left
//! out; one that builds on what was never told is an error, and changes nothing.
//!
//! A process that flies a thousand pilots has a million entities in sight, far more than a processor's caches
//! hold. So the records of a packet lie together, as they came, and of an entity there is no more than a byte
//! that says which packet told of it last.
//!
//! What is deliberately not here: drawing, and guessing beyond letting things fly on.

use std::collections::BTreeMap;

use crate::packet::{AGE_MAX, Malformed, Snapshot, Summary, Update, applied};
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
    snapshot: Snapshot,
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
}

impl Default for View {
    fn default() -> Self {
        Self {
            snapshot: Snapshot::default(),
            newest: None,
            told: std::array::from_fn(|_| Told::default()),
            last: Vec::new(),
            generations: Vec::new(),
            older: BTreeMap::new(),
            next: Told::default(),
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
        self.snapshot.control_seq
    }

    /// How fast time goes, in thousandths, as far as was told.
    #[must_use]
    pub fn tau_permille(&self) -> u16 {
        self.snapshot.tau_permille
    }

    /// Far crowds of the newest packet.
    #[must_use]
    pub fn summaries(&self) -> &[Summary] {
        &self.snapshot.summaries
    }

    /// All that is in sight, by slot.
    pub fn known(&self) -> impl Iterator<Item = (u32, Known)> {
        (0..).zip(&self.last).filter_map(|(slot, _)| Some((slot, self.get(slot)?)))
    }

    /// How many are in sight.
    #[must_use]
    pub fn in_sight(&self) -> usize {
        self.last.iter().filter(|last| **last != UNKNOWN).count()
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
        let mut snapshot = std::mem::take(&mut self.snapshot);
        let control_seq = snapshot.control_seq;
        let taken = match snapshot.read(bytes) {
            Ok(()) => self.apply(&snapshot),
            Err(malformed) => Err(malformed.into()),
        };
        snapshot.control_seq = snapshot.control_seq.max(control_seq);
        self.snapshot = snapshot;
        taken
    }

    fn apply(&mut self, snapshot: &Snapshot) -> Result<Applied, BadPacket> {
        let tick = snapshot.tick;
        if self.newest.is_some_and(|(newest, _)| newest >= tick) {
            return Ok(Applied { is_old: true, ..Applied::default() });
        }
        self.resolve(snapshot)?;
        self.forget(tick);
        if let Some((slot, _)) = snapshot.updates.last()
            && *slot as usize >= self.last.len()
        {
            self.last.resize(*slot as usize + 1, UNKNOWN);
            self.generations.resize(*slot as usize + 1, 0);
        }
        let mut applied = Applied::default();
        for (slot, update) in snapshot.updates.iter().filter(|(_, it)| !it.is_delta()) {
            applied.gone += u32::from(self.begin(*slot, update));
        }
        for slot in &self.next.slots {
            let older = std::mem::replace(&mut self.last[usize::from(*slot)], place_of(tick));
            if older == OLDER {
                self.older.remove(slot);
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
        Ok(applied)
    }

    /// The new records, before anything is changed.
    fn resolve(&mut self, snapshot: &Snapshot) -> Result<(), BadPacket> {
        let Told { slots, records, .. } = &mut self.next;
        slots.clear();
        records.clear();
        // Slots rise in all packets, so each is gone through once, from its beginning to its end.
        let mut passed = [0; PACKETS_KEPT as usize];
        for (slot, update) in &snapshot.updates {
            let outside = BadPacket::Outside { slot: *slot };
            let short = u16::try_from(*slot).map_err(|_| outside)?;
            let record = match update {
                Update::Full { record, .. } => *record,
                Update::Gone => continue,
                Update::Delta { age, .. } => {
                    let tick = snapshot.tick.wrapping_sub(*age);
                    let place = usize::from(place_of(tick));
                    let told = &self.told[place];
                    let baseline =
                        (told.tick == tick).then(|| told.next(short, &mut passed[place]));
                    let baseline = baseline.flatten();
                    let baseline = baseline.ok_or(BadPacket::Baseline { slot: *slot, tick })?;
                    applied(baseline, update).ok_or(outside)?
                }
            };
            slots.push(short);
            records.push(Some(record));
        }
        Ok(())
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

    /// An entity comes into sight, is told of in full again, or goes. Nothing builds on what its slot was
    /// before. Tells whether one went.
    fn begin(&mut self, slot: u32, update: &Update) -> bool {
        let (index, short) = (slot as usize, u16::try_from(slot).unwrap_or(u16::MAX));
        let is_known = self.last[index] != UNKNOWN;
        let generation = match update {
            Update::Full { generation, .. } => *generation,
            Update::Gone | Update::Delta { .. } => 0,
        };
        let goes = *update == Update::Gone;
        if is_known && (goes || self.generations[index] != generation) {
            for told in &mut self.told {
                if let Some(place) = told.place(short) {
                    told.records[place] = None;
                }
            }
            self.older.remove(&short);
            self.last[index] = UNKNOWN;
        }
        self.generations[index] = generation;
        is_known && goes
    }
}

/// The place of a tick's packet.
fn place_of(tick: u32) -> u8 {
    u8::try_from(tick % PACKETS_KEPT).unwrap_or(0)
}
