//! Where sessions are: the connections of one session or of one user, found without looking at
//! others, because many may be cut off at once.
//!
//! Ids are kept as half as many bits as they have, and only tell where to look: whoever looks
//! compares the whole id, which the session has. Not here: anything else about a session.

use std::collections::BTreeSet;

use event::ConnId;
use uuid::Uuid;

use super::socket::Session;
use super::{Core, State};
use crate::limits::key_of;

/// Slots by the ids of what they have. Three numbers of 32 bits, because they pack into 12 bytes.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeSet<(u32, u32, u32)>);

impl Places {
    pub(super) fn insert(&mut self, id: Uuid, slot: u32) {
        let (high, low) = halves(id);
        self.0.insert((high, low, slot));
    }

    pub(super) fn remove(&mut self, id: Uuid, slot: u32) {
        let (high, low) = halves(id);
        self.0.remove(&(high, low, slot));
    }

    /// The slots that may have it.
    fn of(&self, id: Uuid) -> impl Iterator<Item = u32> + '_ {
        let (high, low) = halves(id);
        self.0.range((high, low, 0)..=(high, low, u32::MAX)).map(|(.., slot)| *slot)
    }
}

fn halves(id: Uuid) -> (u32, u32) {
    let key = key_of(id.as_u128());
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
    (half(key >> 32), half(key))
}

impl Core {
    /// The session in a slot, unless it has ended.
    pub(super) fn open_session(&self, slot: u32) -> Option<(ConnId, &Session)> {
        let place = self.conns.get(slot as usize)?;
        let State::Socket(session) = &place.state else { return None };
        let conn = ConnId { slot, generation: place.generation };
        session.closing.is_none().then_some((conn, session))
    }

    /// The sockets of which `id_of` is this id.
    pub(super) fn open_sockets(&self, id: Uuid, id_of: fn(&Session) -> Uuid) -> Vec<ConnId> {
        let sessions = self.places.of(id).filter_map(|slot| self.open_session(slot));
        sessions.filter(|(_, session)| id_of(session) == id).map(|(conn, _)| conn).collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::Places;

    #[test]
    fn slots_are_found_by_whole_ids_and_by_those_that_share_their_bits() {
        let mut places = Places::default();
        // The key is the sum of one half and a multiple of the other one.
        let (one, twin) =
            (Uuid::from_u64_pair(0x9e37_79b9_7f4a_7c15, 0), Uuid::from_u64_pair(0, 1));
        places.insert(one, 7);
        places.insert(twin, 3);
        places.insert(twin, u32::MAX);
        places.insert(Uuid::from_u128(9), 4);
        let of = |places: &Places, id| places.of(id).collect::<Vec<u32>>();
        assert_eq!(of(&places, one), [3, 7, u32::MAX]);
        places.remove(twin, 3);
        assert_eq!(of(&places, twin), [7, u32::MAX]);
        assert!(of(&places, Uuid::from_u128(8)).is_empty());
    }
}
