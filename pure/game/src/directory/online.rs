//! Who is online: a session is in one page, found by its user, and all threads share the page.
//!
//! The room that knows a session puts a changed copy of its page in the old one's place.
//! Once a turn it hands the changed pages on ([`Online::take_changes`]), and they take the places of
//! the older ones. So a session costs its two ids once, not once for each thread, and a change costs
//! copying a page. Not here: what makes a session appear online (`server::room`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::node::NodeId;
use crate::plain;

/// Pages of one room: with 10,000 sessions a page has two or three, with two million about 500, which
/// are 16 KB to be copied.
const PAGES: u16 = 4_096;

/// Sessions as (user, session), sorted. A change makes a new list: others share the old one.
type Sessions = Arc<[(Uuid, Uuid)]>;

/// A room of any node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoomKey {
    /// The node.
    pub node: NodeId,
    /// The number of its thread there.
    pub thread: u16,
}

/// A page as it is handed on. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlinePage {
    /// Whose.
    room: RoomKey,
    /// Which of its pages.
    page: u16,
    /// Rises with every page that the room hands on.
    version: u64,
    /// What is in it now.
    #[serde(with = "plain::maybe_list")]
    sessions: Option<Sessions>,
    /// Sessions that there was no room for, in all pages since the start.
    refused_count: u64,
}

impl OnlinePage {
    /// Whose it is.
    pub(super) fn room(&self) -> RoomKey {
        self.room
    }
}

/// The sessions that make their users appear online.
#[derive(Debug, Default)]
pub(super) struct Online {
    /// Those that this directory was told of one by one.
    own: Pages,
    /// Which of the own pages are not handed on yet.
    changed: BTreeSet<u16>,
    /// Those that rooms have handed on.
    of_rooms: BTreeMap<RoomKey, Pages>,
    len: usize,
    /// Sessions of pages that there was no room for here.
    left_out_count: u64,
}

/// All pages of one room; none before the first session.
#[derive(Debug, Default)]
struct Pages {
    pages: Vec<Option<Sessions>>,
    refused_count: u64,
    /// Of the page that was handed on last.
    version: u64,
}

impl Pages {
    fn of(&self, page: u16) -> &[(Uuid, Uuid)] {
        let sessions = self.pages.get(usize::from(page)).and_then(Option::as_ref);
        sessions.map_or(&[], |sessions| sessions)
    }

    fn place(&mut self, page: u16) -> &mut Option<Sessions> {
        if self.pages.is_empty() {
            self.pages.resize(usize::from(PAGES), None);
        }
        &mut self.pages[usize::from(page % PAGES)]
    }
}

impl Online {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn refused_count(&self) -> u64 {
        let rooms = self.of_rooms.values().map(|pages| pages.refused_count);
        self.own.refused_count + self.left_out_count + rooms.sum::<u64>()
    }

    pub(super) fn has(&self, user_id: Uuid) -> bool {
        let page = page_of(user_id);
        let mut all = std::iter::once(&self.own).chain(self.of_rooms.values());
        all.any(|pages| pages.of(page).binary_search_by_key(&user_id, |(user, _)| *user).is_ok())
    }

    /// Takes a session, unless there are so many already: then it is counted. Tells whether that is
    /// news.
    pub(super) fn insert(&mut self, user_id: Uuid, session_id: Uuid, len_max: usize) -> bool {
        let (page, one) = (page_of(user_id), (user_id, session_id));
        let Err(index) = self.own.of(page).binary_search(&one) else { return false };
        if self.len >= len_max {
            self.own.refused_count += 1;
        } else {
            self.len += 1;
            let (before, after) = self.own.of(page).split_at(index);
            let sessions = before.iter().chain([&one]).chain(after).copied().collect();
            *self.own.place(page) = Some(sessions);
        }
        self.changed.insert(page);
        true
    }

    /// Tells whether it was there.
    pub(super) fn remove(&mut self, user_id: Uuid, session_id: Uuid) -> bool {
        let page = page_of(user_id);
        let one = (user_id, session_id);
        let Ok(index) = self.own.of(page).binary_search(&one) else { return false };
        let (before, after) = self.own.of(page).split_at(index);
        let sessions: Sessions = before.iter().chain(&after[1..]).copied().collect();
        *self.own.place(page) = (!sessions.is_empty()).then_some(sessions);
        self.len -= 1;
        self.changed.insert(page);
        true
    }

    /// A room's page as it is now, or as much of it as there is room for: what is left out is counted.
    /// Tells whether that is news: pages may be repeated.
    pub(super) fn replace(&mut self, new: &OnlinePage, len_max: usize) -> bool {
        let pages = self.of_rooms.entry(new.room).or_default();
        if new.version <= pages.version {
            return false;
        }
        pages.version = new.version;
        let place = pages.place(new.page);
        let len = |sessions: &Option<Sessions>| sessions.as_ref().map_or(0, |list| list.len());
        let (room, new_len) = (len_max - (self.len - len(place)).min(len_max), len(&new.sessions));
        self.len -= len(place);
        *place = match &new.sessions {
            Some(sessions) if new_len > room => Some(Arc::from(&sessions[..room])),
            sessions => sessions.clone(),
        };
        self.len += new_len.min(room);
        pages.refused_count = new.refused_count;
        self.left_out_count += new_len.saturating_sub(room) as u64;
        true
    }

    /// Forgets the pages of rooms that are not to be kept.
    pub(super) fn retain_rooms(&mut self, is_kept: impl Fn(RoomKey) -> bool) {
        for (_, gone) in self.of_rooms.extract_if(.., |room, _| !is_kept(*room)) {
            let sessions = gone.pages.iter().flatten();
            self.len -= sessions.map(|sessions| sessions.len()).sum::<usize>();
        }
    }

    /// All own pages that somebody is in are to be handed on again, to who does not know them yet.
    pub(super) fn retell(&mut self) {
        let pages = (0..).zip(&self.own.pages);
        self.changed.extend(pages.filter(|(_, page)| page.is_some()).map(|(page, _)| page));
    }

    /// The own pages that have changed since the last call.
    pub(super) fn take_changes(&mut self, room: RoomKey) -> impl Iterator<Item = OnlinePage> + '_ {
        let Self { own, changed, .. } = self;
        std::mem::take(changed).into_iter().map(move |page| {
            own.version += 1;
            let (version, refused_count) = (own.version, own.refused_count);
            let sessions = own.place(page).clone();
            OnlinePage { room, page, version, sessions, refused_count }
        })
    }
}

/// Every bit of the id counts: ids that other programs made need not be random in any part.
fn page_of(user_id: Uuid) -> u16 {
    let (high, low) = user_id.as_u64_pair();
    let mixed = (high ^ low.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    u16::try_from(mixed % u64::from(PAGES)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Online, OnlinePage, PAGES, RoomKey, page_of};

    fn key() -> RoomKey {
        RoomKey { thread: 7, ..RoomKey::default() }
    }

    fn ids(user: u128, session: u128) -> (Uuid, Uuid) {
        (Uuid::from_u128(user), Uuid::from_u128(session))
    }

    fn hand_on(from: &mut Online, to: &mut [Online]) -> usize {
        let changes: Vec<OnlinePage> = from.take_changes(key()).collect();
        for to in to {
            assert!(changes.iter().all(|page| to.replace(page, 9)));
        }
        changes.len()
    }

    #[test]
    fn replicas_know_what_was_handed_on_and_share_it() {
        let (mut room, mut replicas) = (Online::default(), [Online::default(), Online::default()]);
        let (user, session) = ids(5, 1);
        assert!(room.insert(user, session, 9) && !room.insert(user, session, 9));
        assert!(room.insert(user, ids(5, 2).1, 9));
        assert!(room.has(user) && !replicas[0].has(user));
        assert_eq!(hand_on(&mut room, &mut replicas), 1, "one page has changed");
        assert_eq!(hand_on(&mut room, &mut replicas), 0);
        let page = page_of(user);
        let there = |online: &Online| online.of_rooms[&key()].of(page).as_ptr();
        assert_eq!(there(&replicas[0]), room.own.of(page).as_ptr());
        assert_eq!(there(&replicas[0]), there(&replicas[1]));
        // The room goes on; what replicas hold stays until they are told.
        assert!(room.remove(user, session) && !room.remove(user, session));
        assert_eq!((room.len(), replicas[1].len()), (1, 2));
        assert!(room.remove(user, ids(5, 2).1));
        assert!(!room.has(user) && replicas[1].has(user));
        hand_on(&mut room, &mut replicas);
        assert!(!replicas[1].has(user));
        assert_eq!((room.len(), replicas[1].len()), (0, 0));
    }

    #[test]
    fn pages_that_come_again_change_nothing() {
        let (mut room, mut replica) = (Online::default(), Online::default());
        let (user, session) = ids(5, 1);
        room.insert(user, session, 9);
        let mut changes: Vec<OnlinePage> = room.take_changes(key()).collect();
        room.remove(user, session);
        changes.extend(room.take_changes(key()));
        assert_eq!(
            [0, 1, 0, 1].map(|index: usize| replica.replace(&changes[index], 9)),
            [true, true, false, false]
        );
        assert!(!replica.has(user) && replica.len() == 0);
    }

    #[test]
    fn what_is_refused_is_known_to_all() {
        let (mut room, mut replicas) = (Online::default(), [Online::default()]);
        for user in 0..5 {
            let (user, session) = ids(user, 1);
            assert!(room.insert(user, session, 3));
        }
        hand_on(&mut room, &mut replicas);
        assert_eq!((room.refused_count(), replicas[0].refused_count()), (2, 2));
        assert_eq!((room.len(), replicas[0].len()), (3, 3));
    }

    #[test]
    fn a_replica_is_bounded_whatever_it_is_told() {
        let (mut room, mut replica) = (Online::default(), Online::default());
        let tell = |room: &mut Online, replica: &mut Online| {
            let pages: Vec<OnlinePage> = room.take_changes(key()).collect();
            assert!(pages.iter().all(|page| replica.replace(page, 3)));
        };
        (0..5).for_each(|session| assert!(room.insert(ids(7, 0).0, ids(7, session).1, 9)));
        tell(&mut room, &mut replica);
        assert_eq!((replica.len(), replica.refused_count()), (3, 2));
        // What is taken away makes room.
        (0..4).for_each(|session| assert!(room.remove(ids(7, 0).0, ids(7, session).1)));
        tell(&mut room, &mut replica);
        assert_eq!((replica.len(), replica.refused_count()), (1, 2));
    }

    #[test]
    fn users_spread_over_all_pages() {
        // As the server makes ids: many in one millisecond. And as a person would.
        let made = |number: u128| 0x0199_0000_0000_7000_8000_0000_0000_0000 | (number * 0x1_0001);
        for id in [made, |number| number, |number| number << 96] {
            let mut counts = vec![0; usize::from(PAGES)];
            (0..40_960)
                .for_each(|number| counts[usize::from(page_of(Uuid::from_u128(id(number))))] += 1);
            assert!(counts.iter().all(|count| *count < 100), "{:?}", counts.iter().max());
        }
    }
}
