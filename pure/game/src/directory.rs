//! The directory: all matches of all nodes, and who is online. Every thread that lists keeps a
//! replica, fed by [`DirectoryEvent`]s that rooms and cores mail to it; nobody else writes it.
//!
//! Events go in ([`Directory::apply`]), lists come out ([`Directory::list`]). Of sessions, the room
//! that knows them is told one by one, and hands on what became of it in pages that all threads
//! share ([`Directory::take_online_changes`]). What a match does, and who is in it, is the room's;
//! how lists are written for clients is `wire`'s.
//!
//! Source: nakama 3.40, `match_registry.go`, save that labels are found at once, not up to a
//! second later, and that a label and a query may be asked for together.

mod index;
mod info;
mod list;
mod online;
#[cfg(test)]
mod tests;

pub use info::MatchInfo;
pub use list::{ListError, ListFilter};
pub use online::{OnlinePage, RoomKey};

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use index::{Index, Key};
use online::Online;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::match_id::MatchId;
use crate::node::{NodeId, Nodes};
use crate::plain;

/// Orders the events of one match. They all come from one node, whose rooms count theirs: the number
/// must rise with each of them, also from one life of a named relayed match to its next. Another life
/// of the node begins anew, once what came of the older one is forgotten ([`Directory::set_nodes`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Whose news it is.
    pub node: NodeId,
    /// Rises.
    pub number: u64,
}

/// News of a match or a session. Cheap to clone: one is mailed to every replica.
///
/// `version` orders the events of one match id. What is not newer than what is known is ignored, so
/// events may be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryEvent {
    /// A match began; or, if it is known already, this is all that is to be known of it.
    MatchCreated {
        /// Its id; whether it is authoritative is part of it.
        id: MatchId,
        /// See [`DirectoryEvent`].
        version: Version,
        /// What it is.
        #[serde(with = "plain::shared")]
        info: Arc<MatchInfo>,
        /// Members.
        size: u32,
    },
    /// Members came or went.
    Resized {
        /// Which match.
        id: MatchId,
        /// See [`DirectoryEvent`].
        version: Version,
        /// Members now.
        size: u32,
    },
    /// The script changed the label.
    Relabelled {
        /// Which match.
        id: MatchId,
        /// See [`DirectoryEvent`].
        version: Version,
        /// With the label that it has now.
        #[serde(with = "plain::shared")]
        info: Arc<MatchInfo>,
    },
    /// The match is over.
    Ended {
        /// Which match.
        id: MatchId,
        /// See [`DirectoryEvent`].
        version: Version,
    },
    /// A session made its user appear online.
    UserOnline {
        /// Whose session.
        user_id: Uuid,
        /// Which session.
        session_id: Uuid,
    },
    /// That session ended, or made its user appear offline.
    UserOffline {
        /// Whose session.
        user_id: Uuid,
        /// Which session.
        session_id: Uuid,
    },
    /// What has become of the sessions that another directory was told of.
    Online(OnlinePage),
}

impl DirectoryEvent {
    /// Whether a node may say this: of matches that live there, and of sessions by the word of one of
    /// its rooms, which `is_room` knows by their threads.
    pub fn is_of(&self, node: NodeId, is_room: impl Fn(u16) -> bool) -> bool {
        match self {
            Self::MatchCreated { id, version, .. }
            | Self::Resized { id, version, .. }
            | Self::Relabelled { id, version, .. }
            | Self::Ended { id, version } => {
                version.node == node && id.node.is_none_or(|home| home == node)
            }
            // Rooms tell their own directory alone so.
            Self::UserOnline { .. } | Self::UserOffline { .. } => false,
            Self::Online(page) => page.room().node == node && is_room(page.room().thread),
        }
    }
}

/// A match in a list. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id; for text see [`MatchId::text`].
    pub id: MatchId,
    /// Members now.
    pub size: u32,
    /// What else there is to know.
    pub info: Arc<MatchInfo>,
}

impl Listed {
    /// Its label; `None` for relayed matches, which have none (the field is then absent).
    pub fn label(&self) -> Option<&str> {
        self.id.is_authoritative().then_some(&*self.info.label)
    }
}

/// What was refused or ignored since the start, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounters {
    /// Matches that are not listed, because there were [`Directory::AUTHORITATIVE_MAX`] or
    /// [`Directory::RELAYED_MAX`] of their kind.
    pub matches_refused_count: u64,
    /// Sessions that do not count as online, because there were [`Directory::ONLINE_MAX`].
    pub online_refused_count: u64,
    /// Events that were older than what is known, or about unknown matches.
    pub events_stale_count: u64,
    /// Values of labels that queries cannot find, because of [`crate::query::Fields`]' limits.
    pub label_values_skipped_count: u64,
}

/// All matches of all nodes and who is online.
#[derive(Debug)]
pub struct Directory {
    nodes: Nodes,
    /// Each kind by itself: relayed matches, which any client can make, take no room from the
    /// others, and whoever looks through those does not meet them.
    authoritative: Matches,
    relayed: Matches,
    index: Index,
    /// Versions of the newest matches that ended, so that late events do not revive them.
    ended: BTreeMap<MatchId, Version>,
    ended_order: VecDeque<MatchId>,
    online: Online,
    counters: DirectoryCounters,
    list_steps_max: u64,
}

type Matches = BTreeMap<MatchId, Entry>;

/// A match as the directory knows it.
#[derive(Debug)]
struct Entry {
    listed: Listed,
    key: Key,
    version: Version,
}

impl Default for Directory {
    /// The directory of a node that is alone and has Nakama's default name, `nakama`.
    fn default() -> Self {
        Self::new(Nodes::default())
    }
}

impl Directory {
    /// Authoritative matches, about 300 bytes each, and 600 for all threads together: as many as the option
    /// `match.matches_max` allows at most. Further ones are not listed, and are counted.
    pub const AUTHORITATIVE_MAX: usize = 1_000_000;
    /// Relayed matches, about 300 bytes each, and 150 for all threads together. Further ones run, but are not listed, and are counted.
    pub const RELAYED_MAX: usize = 200_000;
    /// Online sessions; about 40 bytes each, for all threads together. Further ones do not count as online, and are counted.
    pub const ONLINE_MAX: usize = 2_000_000;
    /// Ended matches that are remembered. An event about one that ended before so many others is
    /// taken as news; mail between two threads is in order, so that this needs a repeated event.
    pub const ENDED_MAX: usize = 4_096;

    /// An empty directory of that cluster.
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            authoritative: Matches::new(),
            relayed: Matches::new(),
            index: Index::default(),
            ended: BTreeMap::new(),
            ended_order: VecDeque::new(),
            online: Online::default(),
            counters: DirectoryCounters::default(),
            list_steps_max: Self::LIST_STEPS_MAX,
        }
    }

    /// The cluster's nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Other nodes live from now on: what came of those that do not any more is forgotten.
    pub fn set_nodes(&mut self, nodes: Nodes) {
        self.nodes = nodes;
        let nodes = &self.nodes;
        for matches in [&mut self.authoritative, &mut self.relayed] {
            for (_, gone) in matches.extract_if(.., |_, entry| !nodes.is_living(entry.version.node))
            {
                self.index.remove(gone.listed.size, &gone.key);
            }
        }
        self.ended.retain(|_, version| nodes.is_living(version.node));
        self.ended_order.retain(|id| self.ended.contains_key(id));
        self.online.retain_rooms(|room| nodes.is_living(room.node));
    }

    /// Takes an event. Repeated and late ones change nothing.
    pub fn apply(&mut self, event: &DirectoryEvent) {
        let is_news = match event {
            DirectoryEvent::MatchCreated { id, version, info, size } => {
                let listed = Listed { id: *id, size: *size, info: Arc::clone(info) };
                self.create(listed, *version)
            }
            DirectoryEvent::Resized { id, version, size } => self.resize(*id, *version, *size),
            DirectoryEvent::Relabelled { id, version, info } => self.relabel(*id, *version, info),
            DirectoryEvent::Ended { id, version } => self.end(*id, *version),
            DirectoryEvent::UserOnline { user_id, session_id } => {
                self.go_online(*user_id, *session_id)
            }
            DirectoryEvent::UserOffline { user_id, session_id } => {
                self.online.remove(*user_id, *session_id)
            }
            DirectoryEvent::Online(page) => self.online.replace(page, Self::ONLINE_MAX),
        };
        self.counters.events_stale_count += u64::from(!is_news);
    }

    /// The match, if it runs.
    pub fn find(&self, id: &MatchId) -> Option<&Listed> {
        self.of(*id).get(id).map(|entry| &entry.listed)
    }

    /// How many matches run.
    pub fn len(&self) -> usize {
        self.authoritative.len() + self.relayed.len()
    }

    /// Whether no match runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many authoritative matches run.
    pub fn authoritative_count(&self) -> usize {
        self.index.authoritative.len()
    }

    /// Whether any session makes the user appear online.
    pub fn is_online(&self, user_id: Uuid) -> bool {
        self.online.has(user_id)
    }

    /// How many sessions make their users appear online.
    pub fn online_sessions_count(&self) -> usize {
        self.online.len()
    }

    /// What was refused or ignored so far; sessions by all directories that handed theirs on.
    pub fn counters(&self) -> DirectoryCounters {
        let online_refused_count = self.online.refused_count();
        DirectoryCounters { online_refused_count, ..self.counters }
    }

    /// What has become, since the last call, of the sessions that this directory was told of one by
    /// one, for all other directories. `room` tells it from others that hand theirs on.
    pub fn take_online_changes(
        &mut self,
        room: RoomKey,
    ) -> impl Iterator<Item = DirectoryEvent> + '_ {
        self.online.take_changes(room).map(DirectoryEvent::Online)
    }

    /// The matches of which a node's rooms have told.
    pub fn told_by(&self, node: NodeId) -> impl Iterator<Item = &Listed> {
        let all = self.authoritative.values().chain(self.relayed.values());
        all.filter(move |entry| entry.version.node == node).map(|entry| &entry.listed)
    }

    /// Hands on all of these sessions again, to directories that are new.
    pub fn retell_online(&mut self) {
        self.online.retell();
    }

    /// Sets what one listing may cost, in steps of very roughly a nanosecond.
    pub fn set_list_steps_max(&mut self, steps_max: u64) {
        self.list_steps_max = steps_max;
    }

    fn of(&self, id: MatchId) -> &Matches {
        if id.is_authoritative() { &self.authoritative } else { &self.relayed }
    }

    fn of_mut(&mut self, id: MatchId) -> &mut Matches {
        if id.is_authoritative() { &mut self.authoritative } else { &mut self.relayed }
    }

    fn create(&mut self, listed: Listed, version: Version) -> bool {
        let id = listed.id;
        let known = self.of(id).get(&id).map(|entry| entry.version);
        if known.or_else(|| self.ended.get(&id).copied()).is_some_and(|known| version <= known) {
            return false;
        }
        let matches_max =
            if id.is_authoritative() { Self::AUTHORITATIVE_MAX } else { Self::RELAYED_MAX };
        if known.is_none() && self.of(id).len() >= matches_max {
            self.counters.matches_refused_count += 1;
            return true;
        }
        let key = Key { create_time_ms: listed.info.create_time_ms, version, id };
        self.prepare(id, &listed.info);
        self.index.insert(listed.size, key);
        let entry = Entry { listed, key, version };
        if let Some(old) = self.of_mut(id).insert(id, entry) {
            self.index.remove(old.listed.size, &old.key);
        }
        true
    }

    fn resize(&mut self, id: MatchId, version: Version, size: u32) -> bool {
        let Some(entry) = newer(self.of_mut(id), id, version) else { return false };
        let (key, old_size) = (entry.key, std::mem::replace(&mut entry.listed.size, size));
        if old_size != size {
            self.index.remove(old_size, &key);
            self.index.insert(size, key);
        }
        true
    }

    fn relabel(&mut self, id: MatchId, version: Version, info: &Arc<MatchInfo>) -> bool {
        let Some(entry) = newer(self.of_mut(id), id, version) else { return false };
        if !id.is_authoritative() || entry.listed.info == *info {
            return true;
        }
        entry.listed.info = Arc::clone(info);
        self.prepare(id, info);
        true
    }

    fn end(&mut self, id: MatchId, version: Version) -> bool {
        if newer(self.of_mut(id), id, version).is_none() {
            return false;
        }
        if let Some(entry) = self.of_mut(id).remove(&id) {
            self.index.remove(entry.listed.size, &entry.key);
        }
        if self.ended.insert(id, version).is_none() {
            self.ended_order.push_back(id);
        }
        if self.ended_order.len() > Self::ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        true
    }

    fn go_online(&mut self, user_id: Uuid, session_id: Uuid) -> bool {
        self.online.insert(user_id, session_id, Self::ONLINE_MAX)
    }

    /// Makes a match's fields ready for queries, which find no relayed ones.
    fn prepare(&mut self, id: MatchId, info: &MatchInfo) {
        if id.is_authoritative() {
            let fields = info.fields(id.node.map_or("", |node| self.nodes.name_of(node)));
            self.counters.label_values_skipped_count += u64::from(fields.skipped_count());
        }
    }
}

/// The match, if it is known and `version` is news; then that is its version now.
fn newer(matches: &mut Matches, id: MatchId, version: Version) -> Option<&mut Entry> {
    let entry = matches.get_mut(&id).filter(|entry| version > entry.version)?;
    entry.version = version;
    Some(entry)
}
