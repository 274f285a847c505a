//! Names of entities: a slot, small and dense, and how often it has been taken before.
//!
//! Slots index the tables of the fan-out and are what packets speak of; the whole id is never used
//! again. What is deliberately not here: where an entity is, and who owns it.

use std::collections::VecDeque;

/// One entity, in all its life. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId {
    /// Index into tables of all entities of the zone, below [`Slots::SLOTS_MAX`].
    pub slot: u32,
    /// How often the slot has been taken before.
    pub generation: u32,
}

impl EntityId {
    /// A number in which every bit depends on the whole id (the finaliser of `SplitMix64`).
    #[must_use]
    pub fn mix(self) -> u64 {
        mix(u64::from(self.generation) << 32 | u64::from(self.slot))
    }
}

/// Spreads a number over all 64 bits; different numbers stay different.
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Hands out ids. One for a zone, where entities are let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Slots that were taken before: the generation that comes next, and the tick from which on.
    free: VecDeque<(EntityId, u32)>,
    /// Slots that were ever taken.
    taken: u32,
}

impl Slots {
    /// Entities of a zone at one time.
    pub const SLOTS_MAX: u32 = 65_536;
    /// Ticks for which a slot rests: longer than any client or table speaks of what it was.
    pub const REST_TICKS: u32 = 128;

    /// An id that nobody has had; none if the zone is full.
    pub fn take(&mut self, tick: u32) -> Option<EntityId> {
        if let Some(&(id, from)) = self.free.front()
            && from <= tick
        {
            self.free.pop_front();
            return Some(id);
        }
        if self.taken == Self::SLOTS_MAX {
            return None;
        }
        self.taken += 1;
        Some(EntityId { slot: self.taken - 1, generation: 0 })
    }

    /// The entity is gone from `tick` on. A slot that was taken 2³² times is not used again.
    pub fn give_back(&mut self, id: EntityId, tick: u32) {
        let Some(generation) = id.generation.checked_add(1) else { return };
        let next = EntityId { slot: id.slot, generation };
        self.free.push_back((next, tick + Self::REST_TICKS));
    }

    /// How many were ever taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Slots that were taken before: the ids that they give next, and from which tick.
    pub(crate) fn free(&self) -> impl Iterator<Item = (EntityId, u32)> + '_ {
        self.free.iter().copied()
    }

    /// As [`taken`](Self::taken) and [`free`](Self::free) told; whatever is in neither is in use.
    pub(crate) fn restored(taken: u32, free: Vec<(EntityId, u32)>) -> Self {
        Self { free: free.into(), taken }
    }

    /// Ticks are counted from `gone` on.
    pub(crate) fn count_anew(&mut self, gone: u32) {
        self.free.iter_mut().for_each(|(_, from)| *from = from.saturating_sub(gone));
    }

    /// Takes an id that was taken before: about when the slots were saved, which then tell of the next one, or
    /// after; `false` if somebody has it, or has had a newer one.
    pub(crate) fn take_this(&mut self, id: EntityId) -> bool {
        if id.slot >= self.taken {
            // Others were taken in between, and are told of too.
            let between = (self.taken..id.slot).map(|slot| (EntityId { slot, generation: 0 }, 0));
            self.free.extend(between);
            self.taken = id.slot + 1;
            return true;
        }
        let found = self.free.iter().position(|(free, _)| {
            free.slot == id.slot && free.generation <= id.generation.saturating_add(1)
        });
        found.is_some_and(|found| self.free.remove(found).is_some())
    }
}
