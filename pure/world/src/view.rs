//! What one client knows: snapshots in, the entities around it out.
//!
//! Of each entity the newest record is kept, by its slot, and beside them the last packets, for as long as the
//! server may build on them. A packet that is older than the newest that came is of no use and left
//! out; one that builds on what was never told is an error, and changes nothing.
//!
//! A process that flies a thousand pilots has a million entities in sight, far more than a processor's caches
//! hold: what a packet costs it is the memory that it comes to. Mostly a record builds on the newest one of
//! its entity, which is one place in memory, and some records are looked up at once. What a packet says is
//! resolved in one pass, into memory that is there.
//!
//! What is deliberately not here: drawing, and guessing beyond letting things fly on.

use std::num::NonZeroU32;

use crate::packet::{AGE_MAX, Head, Malformed, SnapshotReader, Summary, Update, applied};
use crate::record::Record;

/// Packets that are kept: by their tick modulo this, so that the oldest baseline is among them.
const PACKETS_KEPT: u32 = AGE_MAX + 1;
/// Records that are looked up at once: some more than places in memory that a processor waits for at a time.
const AT_ONCE: usize = 16;

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
    /// One more than the tick of the packet that told of it last.
    told: NonZeroU32,
    record: Record,
}

impl Known {
    /// The newest record, and its tick.
    #[must_use]
    pub fn newest(&self) -> (u32, Record) {
        (self.told.get() - 1, self.record)
    }

    /// Where the entity is believed to be in `tick`.
    #[must_use]
    pub fn at(&self, tick: u32) -> Record {
        self.record.flown(tick.saturating_sub(self.newest().0))
    }
}

const _: () = assert!(size_of::<Option<Known>>() == 24, "two or three are in a line of a cache");

/// The records of one packet.
#[derive(Debug, Default)]
struct Told {
    tick: u32,
    /// By rising slot. 16 bits are as many as slots have.
    slots: Vec<u16>,
    /// Each slot's.
    records: Vec<Record>,
}

impl Told {
    fn of(&self, slot: u16) -> Option<Record> {
        self.slots.binary_search(&slot).ok().map(|place| self.records[place])
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
    /// By slot.
    ships: Vec<Option<Known>>,
    /// By slot: the tick in which what is known of it came into sight. Nothing builds on what was told of it before.
    since: Vec<u32>,
    /// The records of a packet until all of it is known to be right, then memory for the next.
    next: Told,
    /// Likewise: its summaries.
    next_summaries: Vec<Summary>,
    /// Likewise: slots that are told of without a baseline, with their generations; none for those that go.
    begun: Vec<(u16, Option<u32>)>,
    /// Slots of which something is known.
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
            ships: Vec::new(),
            since: Vec::new(),
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
        let known = |(slot, ship): (u32, &Option<Known>)| Some((slot, (*ship)?));
        (0..).zip(&self.ships).filter_map(known)
    }

    /// How many are in sight.
    #[must_use]
    pub fn in_sight(&self) -> usize {
        self.in_sight
    }

    /// What is known of a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<Known> {
        *self.ships.get(slot as usize)?
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
        let mut bad = None;
        let mut updates = [(0, Update::Gone); AT_ONCE];
        loop {
            let mut count = 0;
            while count < AT_ONCE
                && let Some(update) = reader.update()?
            {
                updates[count] = update;
                count += 1;
            }
            if !is_old && bad.is_none() {
                bad = self.resolve_all(tick, &updates[..count]).err();
            }
            if count < AT_ONCE {
                break;
            }
        }
        reader.summaries(&mut self.next_summaries)?;
        bad.map_or(Ok(()), Err)
    }

    /// The new records of at most [`AT_ONCE`] slots. What is known of them is fetched for all of them first: so the
    /// processor waits for memory once, not for each.
    fn resolve_all(&mut self, tick: u32, updates: &[(u32, Update)]) -> Result<(), BadPacket> {
        let known: [Option<Known>; AT_ONCE] = std::array::from_fn(|at| {
            let slot = updates.get(at).map_or(u32::MAX, |(slot, _)| *slot);
            self.get(slot)
        });
        let mut all = updates.iter().zip(&known);
        all.try_for_each(|((slot, update), known)| self.resolve(tick, (*slot, update), *known))
    }

    /// The new record of one slot.
    fn resolve(
        &mut self,
        tick: u32,
        (slot, update): (u32, &Update),
        known: Option<Known>,
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
                let baseline = known.and_then(|known| self.baseline(tick, short, known));
                let baseline = baseline.ok_or(BadPacket::Baseline { slot, tick })?;
                applied(baseline, update).ok_or(outside)?
            }
        };
        self.next.slots.push(short);
        self.next.records.push(record);
        Ok(())
    }

    /// What was told of a slot in the packet of a tick.
    #[inline]
    fn baseline(&self, tick: u32, slot: u16, known: Known) -> Option<Record> {
        let (newest, record) = known.newest();
        if newest == tick {
            return Some(record);
        }
        let told = &self.told[place_of(tick)];
        let is_kept = told.tick == tick && self.since[usize::from(slot)] <= tick;
        if is_kept { told.of(slot) } else { None }
    }

    /// What was read becomes what is known.
    fn apply(&mut self, head: Head) -> Applied {
        let tick = head.tick;
        let told = self.next.slots.last().copied();
        let begun = self.begun.last().map(|(slot, _)| *slot);
        if let Some(slot) = told.max(begun)
            && usize::from(slot) >= self.ships.len()
        {
            self.ships.resize(usize::from(slot) + 1, None);
            self.since.resize(usize::from(slot) + 1, 0);
        }
        let mut applied = Applied::default();
        for index in 0..self.begun.len() {
            let (slot, generation) = self.begun[index];
            applied.gone += u32::from(self.begin(tick, slot, generation));
        }
        for (slot, record) in self.next.slots.iter().zip(&self.next.records) {
            let Some(known) = &mut self.ships[usize::from(*slot)] else {
                unreachable!("slot {slot} has a record and is not known")
            };
            (known.told, known.record) = (one_more(tick), *record);
        }
        applied.updates = u32::try_from(self.next.slots.len()).unwrap_or(u32::MAX);
        self.next.tick = tick;
        std::mem::swap(&mut self.told[place_of(tick)], &mut self.next);
        let bits = self.newest.map_or(0, |(newest, bits)| match tick - newest {
            age @ 1..=31 => bits << age | 1 << (age - 1),
            32 => 1 << 31,
            _ => 0,
        });
        self.newest = Some((tick, bits));
        applied
    }

    /// An entity comes into sight, is told of in full again, or goes (no generation). Nothing builds on what
    /// its slot was before. Tells whether one went.
    fn begin(&mut self, tick: u32, slot: u16, generation: Option<u32>) -> bool {
        let ship = &mut self.ships[usize::from(slot)];
        let was_known = ship.is_some();
        let Some(generation) = generation else {
            *ship = None;
            assert!(!was_known || self.in_sight > 0, "slot {slot} was known, nothing in sight");
            self.in_sight -= usize::from(was_known);
            return was_known;
        };
        if ship.is_none_or(|known| known.generation != generation) {
            // Its record follows.
            *ship = Some(Known { generation, told: one_more(tick), record: Record::default() });
            self.since[usize::from(slot)] = tick;
            self.in_sight += usize::from(!was_known);
        }
        false
    }
}

/// One more than a tick, which is not the last that there is.
fn one_more(tick: u32) -> NonZeroU32 {
    assert!(tick < u32::MAX, "no packet is of this tick");
    NonZeroU32::MIN.saturating_add(tick)
}

/// The place of a tick's packet.
fn place_of(tick: u32) -> usize {
    (tick % PACKETS_KEPT) as usize
}
