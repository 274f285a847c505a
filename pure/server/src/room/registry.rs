//! Who is in which stream of this room: the sockets of users with their statuses, the players of matches
//! and the members of scripts' streams, in one map by what names them; and who follows whom.
//!
//! Data in: sessions that join, change and leave. Data out: who is in a stream, what a session is in (so
//! that all is left when its socket closes), and how many a user's sessions are in. What deliberately is
//! not here: who may join and what members are told (`streams`), and what a match's script knows
//! (`authoritative`).
//!
//! Source: Nakama 3.40, `server/tracker.go`: one tracker for presences of every kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use game::match_id::MatchId;
use game::stream::{StreamId, StreamKind, StreamMeta};
use smallvec::SmallVec;
use uuid::Uuid;

use super::flow::Flow;
use crate::counts::one_less;
use crate::group::{Group, GroupMember, Meta};
use crate::mail::Member;
use crate::stats::RoomStats;

/// What names a stream on its room. The order is that in which a session leaves them when its socket
/// closes: callbacks of matches, which run last, find it nowhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The sockets of a user: its notifications, and of those that appear online its status.
    User(Uuid),
    /// A stream of scripts.
    Scripts(Arc<StreamId>),
    /// The players of a relayed match.
    Relayed(Uuid),
    /// The players of an authoritative match.
    Authoritative(Uuid),
}

impl Key {
    /// The stream of that name; `None` of those that are not there yet.
    pub(super) fn of(stream: &StreamId, kind: StreamKind) -> Option<Self> {
        match kind {
            StreamKind::Notifications(id) | StreamKind::Status(id) => Some(Self::User(id)),
            StreamKind::Relayed(id) => Some(Self::Relayed(id)),
            StreamKind::Authoritative(id) => Some(Self::Authoritative(id)),
            StreamKind::Scripts => Some(Self::Scripts(Arc::new(stream.clone()))),
            StreamKind::Missing => None,
        }
    }
}

impl From<MatchId> for Key {
    fn from(id: MatchId) -> Self {
        let make = if id.is_authoritative() { Self::Authoritative } else { Self::Relayed };
        make(id.uuid)
    }
}

/// What there is to know of a member.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What scripts and other members may know.
    pub(super) meta: StreamMeta,
    /// What it sends to the others, in a relayed match.
    pub(super) sent: Flow,
}

impl Meta for Known {
    fn is_hidden(&self) -> bool {
        self.meta.is_hidden
    }
}

/// A stream that somebody is in.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) members: Group<Known>,
    /// What they are sent: by all members of a relayed match together; of a stream of scripts, who
    /// comes and goes.
    pub(super) sent: Flow,
}

/// What a session is in, beside its user's sockets.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) streams: SmallVec<[Key; 2]>,
    /// Users of this room.
    pub(super) follows: BTreeSet<Uuid>,
}

impl Session {
    fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.follows.is_empty()
    }
}

/// All streams of a room. None of them is empty.
#[derive(Debug)]
pub(super) struct Streams {
    /// In boxes, because a tree has room for twice of what is in it.
    all: BTreeMap<Key, Box<Stream>>,
    sessions: BTreeMap<Uuid, Session>,
    /// Who follows a user. Most users have nobody.
    followers: BTreeMap<Uuid, Group<()>>,
    /// In how many relayed matches the sessions of each user are.
    relayed_of: BTreeMap<Uuid, u32>,
    /// In how many streams of scripts they are.
    scripts_of: BTreeMap<Uuid, u32>,
    stats: Arc<RoomStats>,
}

impl Streams {
    pub(super) fn new(stats: Arc<RoomStats>) -> Self {
        Self {
            all: BTreeMap::new(),
            sessions: BTreeMap::new(),
            followers: BTreeMap::new(),
            relayed_of: BTreeMap::new(),
            scripts_of: BTreeMap::new(),
            stats,
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Stream> {
        self.all.get(key).map(|stream| &**stream)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Stream> {
        self.all.get_mut(key).map(|stream| &mut **stream)
    }

    /// How many are in a stream, hidden or not.
    pub(super) fn count(&self, key: &Key) -> usize {
        self.get(key).map_or(0, |stream| stream.members.len())
    }

    /// A session in a stream.
    pub(super) fn find(&self, key: &Key, session_id: Uuid) -> Option<&GroupMember<Known>> {
        self.get(key)?.members.get(session_id)
    }

    /// Who is in a stream, hidden or not, in the order of joining.
    pub(super) fn members<'a>(
        &'a self,
        key: &Key,
    ) -> impl Iterator<Item = &'a Member> + Clone + use<'a> {
        self.get(key).into_iter().flat_map(|stream| stream.members.members())
    }

    /// The sockets of all users.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Member> + Clone {
        let users = self.all.range(..=Key::User(Uuid::max()));
        users.flat_map(|(_, stream)| stream.members.members())
    }

    /// Who hears of a user's status: its own sockets, and who follows it.
    pub(super) fn listeners(&self, user_id: Uuid) -> impl Iterator<Item = &Member> + Clone {
        let followers = self.followers.get(&user_id).into_iter().flat_map(Group::members);
        self.members(&Key::User(user_id)).chain(followers)
    }

    /// Everybody who has part in anything here, once for each.
    pub(super) fn everybody(&self) -> impl Iterator<Item = &Member> {
        let streams = self.all.values().flat_map(|stream| stream.members.members());
        streams.chain(self.followers.values().flat_map(Group::members))
    }

    /// A session that is known here, whatever by.
    pub(super) fn member(&self, user_id: Uuid, session_id: Uuid) -> Option<&Member> {
        let of_session = |key: &Key| self.find(key, session_id);
        let found = of_session(&Key::User(user_id));
        let found =
            found.or_else(|| self.sessions.get(&session_id)?.streams.iter().find_map(of_session));
        found.map(|joined| &joined.member).filter(|member| member.presence.user_id == user_id)
    }

    /// In how many matches and streams of scripts a session is.
    pub(super) fn count_of_session(&self, session_id: Uuid) -> usize {
        self.sessions.get(&session_id).map_or(0, |session| session.streams.len())
    }

    /// In how many streams of that kind a user's sessions are, each counted for itself; of kinds that
    /// are not limited, none.
    pub(super) fn count_of_user(&self, key: &Key, user_id: Uuid) -> u32 {
        let counts = match key {
            Key::Relayed(_) => &self.relayed_of,
            Key::Scripts(_) => &self.scripts_of,
            Key::User(_) | Key::Authoritative(_) => return 0,
        };
        counts.get(&user_id).copied().unwrap_or(0)
    }

    /// A session comes into a stream, which begins with the first one; or what there is to know of it
    /// changes: then gives back what that was.
    pub(super) fn join(
        &mut self,
        key: &Key,
        member: &Member,
        meta: StreamMeta,
    ) -> Option<StreamMeta> {
        let stream = self.all.entry(key.clone()).or_default();
        let session_id = member.presence.session_id;
        if let Some(joined) = stream.members.get_mut(session_id) {
            return Some(std::mem::replace(&mut joined.meta.meta, meta));
        }
        let is_first = stream.members.is_empty();
        stream.members.put(member.clone(), Known { meta, sent: Flow::default() });
        match key {
            Key::User(_) => return None,
            Key::Relayed(_) if is_first => self.stats.relayed_matches.up(),
            Key::Scripts(_) if is_first => self.stats.streams.up(),
            Key::Relayed(_) | Key::Scripts(_) | Key::Authoritative(_) => {}
        }
        self.stats.presences.up();
        if let Some(counts) = self.counts(key) {
            *counts.entry(member.presence.user_id).or_default() += 1;
        }
        self.sessions.entry(session_id).or_default().streams.push(key.clone());
        None
    }

    /// Takes those of these sessions out of a stream who are in it; with the last one it ends.
    pub(super) fn leave(&mut self, key: &Key, sessions: &[Uuid]) -> Vec<GroupMember<Known>> {
        let Some(stream) = self.get_mut(key) else { return Vec::new() };
        let left = sessions.iter().filter_map(|session_id| stream.members.take(*session_id));
        let left: Vec<_> = left.collect();
        if stream.members.is_empty() {
            self.all.remove(key);
            self.ended(key);
        }
        left.iter().for_each(|joined| self.left(key, &joined.member));
        left
    }

    /// Takes everybody out.
    pub(super) fn close(&mut self, key: &Key) -> Group<Known> {
        let Some(closed) = self.all.remove(key) else { return Group::default() };
        self.ended(key);
        closed.members.members().for_each(|member| self.left(key, member));
        closed.members
    }

    /// Forgets a session whose socket has closed, and says what it was in: it is to leave that.
    pub(super) fn forget(&mut self, session_id: Uuid) -> SmallVec<[Key; 2]> {
        let Some(Session { streams, follows }) = self.sessions.remove(&session_id) else {
            return SmallVec::new();
        };
        follows.into_iter().for_each(|user_id| self.forget_follower(user_id, session_id));
        streams
    }

    /// A session follows a user of this room, at most so many; `false` if it may not.
    #[must_use]
    pub(super) fn follow(&mut self, user_id: Uuid, member: &Member, follows_max: usize) -> bool {
        let session_id = member.presence.session_id;
        let follows = &mut self.sessions.entry(session_id).or_default().follows;
        if follows.len() >= follows_max && !follows.contains(&user_id) {
            return false;
        }
        if !follows.insert(user_id) {
            return true;
        }
        self.followers.entry(user_id).or_default().put(member.clone(), ());
        true
    }

    /// A session follows a user no more.
    pub(super) fn unfollow(&mut self, user_id: Uuid, session_id: Uuid) {
        self.change(session_id, |session| session.follows.remove(&user_id));
        self.forget_follower(user_id, session_id);
    }

    fn forget_follower(&mut self, user_id: Uuid, session_id: Uuid) {
        let Some(followers) = self.followers.get_mut(&user_id) else { return };
        followers.take(session_id);
        if followers.is_empty() {
            self.followers.remove(&user_id);
        }
    }

    /// Somebody is in a stream no more.
    fn left(&mut self, key: &Key, member: &Member) {
        if matches!(key, Key::User(_)) {
            return;
        }
        self.stats.presences.down();
        if let Some(counts) = self.counts(key) {
            one_less(counts, &member.presence.user_id);
        }
        self.change(member.presence.session_id, |session| {
            let place = session.streams.iter().position(|other| other == key);
            place.map(|place| session.streams.swap_remove(place))
        });
    }

    /// A stream has ended.
    fn ended(&self, key: &Key) {
        match key {
            Key::Relayed(_) => self.stats.relayed_matches.down(),
            Key::Scripts(_) => self.stats.streams.down(),
            Key::User(_) | Key::Authoritative(_) => {}
        }
    }

    /// Changes what a session is in, and forgets it when that is nothing.
    fn change<R>(&mut self, session_id: Uuid, change: impl FnOnce(&mut Session) -> R) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        change(session);
        if session.is_empty() {
            self.sessions.remove(&session_id);
        }
    }

    /// Where streams of that kind are counted by user.
    fn counts(&mut self, key: &Key) -> Option<&mut BTreeMap<Uuid, u32>> {
        match key {
            Key::Relayed(_) => Some(&mut self.relayed_of),
            Key::Scripts(_) => Some(&mut self.scripts_of),
            Key::User(_) | Key::Authoritative(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
