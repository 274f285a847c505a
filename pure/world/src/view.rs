//! What one client knows: snapshots in, the entities around it out.
//!
//! Of each entity the last records are kept, for as long as the server may build on them. A packet
//! that is older than the newest that came is of no use and left out; one that builds on what was
//! never told is an error, and changes nothing.
//!
//! What is deliberately not here: drawing, and guessing beyond letting things fly on.

use crate::packet::{AGE_MAX, Malformed, Snapshot, Summary, Update, applied};
use crate::record::Record;

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
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The entity's generation; with its slot its whole id.
    pub generation: u32,
    /// Records with their ticks, the newest last.
    records: Vec<(u32, Record)>,
}

impl Known {
    /// The newest record, and its tick.
    #[must_use]
    pub fn newest(&self) -> (u32, Record) {
        self.records.last().copied().unwrap_or_default()
    }

    /// Where the entity is believed to be in `tick`.
    #[must_use]
    pub fn at(&self, tick: u32) -> Record {
        let (told, record) = self.newest();
        record.flown(tick.saturating_sub(told))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct View {
    snapshot: Snapshot,
    /// The newest tick that came, and which of the 32 before it did; none at first.
    newest: Option<(u32, u32)>,
    known: Vec<Option<Known>>,
    next: Vec<(u32, Record)>,
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
    pub fn known(&self) -> impl Iterator<Item = (u32, &Known)> {
        (0..).zip(&self.known).filter_map(|(slot, known)| Some((slot, known.as_ref()?)))
    }

    /// What is known of a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&Known> {
        self.known.get(slot as usize)?.as_ref()
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
        let mut applied = Applied::default();
        for ((slot, update), (base, record)) in snapshot.updates.iter().zip(&self.next) {
            let index = *slot as usize;
            if index >= self.known.len() {
                self.known.resize(index + 1, None);
            }
            let place = &mut self.known[index];
            match update {
                Update::Gone => {
                    applied.gone += u32::from(place.take().is_some());
                    continue;
                }
                Update::Full { generation, .. } => {
                    let known = place.get_or_insert_default();
                    if known.generation != *generation {
                        (known.generation, known.records) = (*generation, Vec::new());
                    }
                }
                Update::Delta { .. } => {}
            }
            applied.updates += 1;
            if let Some(known) = place {
                // The server builds on newer and newer records of an entity.
                known.records.retain(|(told, _)| told >= base && tick - told < AGE_MAX);
                known.records.push((tick, *record));
            }
        }
        let bits = self.newest.map_or(0, |(newest, bits)| match tick - newest {
            age @ 1..=31 => bits << age | 1 << (age - 1),
            32 => 1 << 31,
            _ => 0,
        });
        self.newest = Some((tick, bits));
        Ok(applied)
    }

    /// The new records, before anything is changed: each with the tick of what it builds on.
    fn resolve(&mut self, snapshot: &Snapshot) -> Result<(), BadPacket> {
        self.next.clear();
        for (slot, update) in &snapshot.updates {
            let next = match update {
                Update::Full { record, .. } => (0, *record),
                Update::Gone => (0, Record::default()),
                Update::Delta { age, .. } => {
                    let (slot, tick) = (*slot, snapshot.tick.wrapping_sub(*age));
                    let known = self.known.get(slot as usize).and_then(Option::as_ref);
                    let told =
                        known.and_then(|it| it.records.iter().find(|(told, _)| *told == tick));
                    let (_, baseline) = told.ok_or(BadPacket::Baseline { slot, tick })?;
                    (tick, applied(*baseline, update).ok_or(BadPacket::Outside { slot })?)
                }
            };
            self.next.push(next);
        }
        Ok(())
    }
}
