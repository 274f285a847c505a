//! The one way into a stream, out of it, and to tell its members of that, whatever the stream is of:
//! sockets of a user, players of a match, members of a script's stream.
//!
//! Data in: sessions whose requests are done elsewhere (`status`, `relayed`, `authoritative`,
//! `stream_requests`). Data out: presence events, and what the directory says of matches and users. Who is
//! in is in `registry`. Members of scripts' streams are told of who comes once a turn, or before anything
//! else that they are told by the stream.
//!
//! Source: Nakama 3.40, `server/tracker.go`: who is told of what.

use std::sync::Arc;

use event::Now;
use game::directory::{DirectoryEvent, MatchInfo};
use game::guest::PresenceReason;
use game::match_id::MatchId;
use game::stream::{StreamMeta, StreamPresence};
use uuid::Uuid;
use wire::nakama::Envelope;
use wire::nakama::realtime::{
    MatchPresenceEvent, Message, StatusPresenceEvent, StreamPresenceEvent, UserPresence,
};

use super::registry::{Key, Known};
use super::{Room, count_u32};
use crate::frames::{self, PRESENCES_PER_EVENT_MAX};
use crate::group::GroupMember;
use crate::limits::Limit;
use crate::mail::{Member, Then};

/// A presence as others are told of it; `None` of who is hidden.
pub(super) fn told(member: &Member, meta: StreamMeta) -> Option<StreamPresence> {
    (!meta.is_hidden).then(|| StreamPresence { presence: member.presence.clone(), meta })
}

impl Room {
    /// Whether one more session may be in a stream. Who is in it already may always.
    ///
    /// The error is the text for the client or the script.
    pub(super) fn may_join(&mut self, now: Now, key: &Key, member: &Member) -> Result<(), String> {
        let limits = &self.settings.limits;
        let (user_id, session_id) = (member.presence.user_id, member.presence.session_id);
        if self.streams.find(key, session_id).is_some() {
            return Ok(());
        }
        let of_session = count_u32(self.streams.count_of_session(session_id));
        let of_user = self.streams.count_of_user(key, user_id);
        let of_stream = count_u32(self.streams.count(key));
        let met = |limit: Limit, count: u32| limit.is_met(limits, count).then_some(limit);
        let limit = met(Limit::PresencesPerSession, of_session).or_else(|| match key {
            Key::Relayed(_) => met(Limit::RelayedMatchesPerUser, of_user),
            Key::Scripts(_) => met(Limit::StreamsPerUser, of_user)
                .or_else(|| met(Limit::PresencesPerStream, of_stream)),
            Key::User(_) | Key::Authoritative(_) => None,
        });
        let Some(limit) = limit else { return Ok(()) };
        let counter = match limit {
            Limit::RelayedMatchesPerUser => &self.stats.limited_relayed_matches_per_user,
            Limit::StreamsPerUser => &self.stats.limited_streams_per_user,
            Limit::PresencesPerStream => &self.stats.limited_presences_per_stream,
            Limit::PresencesPerSession => &self.stats.joins_refused,
            other => unreachable!("{other:?} is no limit of streams"),
        };
        counter.up();
        let text = limit.refusal(limits).message;
        let what = format_args!("user {user_id} is refused: {text}");
        self.limit_log.hit(now, limit.setting(), what);
        Err(text.into())
    }

    /// A session is in a stream from now on, or known there by something else: then gives back what
    /// that was. Who lists finds it so; members are not told yet.
    pub(super) fn join(
        &mut self,
        now: Now,
        key: &Key,
        member: &Member,
        meta: StreamMeta,
    ) -> Option<StreamMeta> {
        let is_hidden = meta.is_hidden;
        let was = self.streams.join(key, member, meta);
        match *key {
            Key::User(user_id) => {
                let was_hidden = was.as_ref().is_none_or(|was| was.is_hidden);
                if was_hidden != is_hidden {
                    self.appeared(user_id, member.presence.session_id, !is_hidden);
                }
            }
            Key::Relayed(uuid) if was.is_none() => {
                let id = MatchId::relayed(uuid);
                match self.streams.count(key) {
                    1 => {
                        let info = Arc::new(MatchInfo::relayed(now.unix_ms));
                        self.change(|version| DirectoryEvent::MatchCreated {
                            id,
                            version,
                            info,
                            size: 1,
                        });
                    }
                    size => self.resized(id, size),
                }
            }
            Key::Authoritative(uuid) if was.is_none() => {
                let id = MatchId::authoritative(uuid, self.me.node());
                self.resized(id, self.streams.count(key));
            }
            Key::Relayed(_) | Key::Authoritative(_) | Key::Scripts(_) => {}
        }
        was
    }

    /// The same, and members are told at once of what they did not know.
    pub(super) fn join_and_tell(&mut self, now: Now, key: &Key, member: &Member, meta: StreamMeta) {
        let joins = told(member, meta.clone());
        let was = self.join(now, key, member, meta);
        let leaves = was.and_then(|was| told(member, was));
        self.tell(now, key, joins.as_slice(), leaves.as_slice());
    }

    /// Sessions go: those who stay are told, and a match's script. Nothing happens of those who are not
    /// in it.
    pub(super) fn leave(&mut self, now: Now, key: &Key, sessions: &[Uuid], reason: PresenceReason) {
        self.take_out(now, key, sessions, reason);
        if let Key::Authoritative(id) = *key {
            self.settle(now, id);
        }
    }

    /// The same, but a match's script is told later, by [`Room::settle`].
    pub(super) fn take_out(
        &mut self,
        now: Now,
        key: &Key,
        sessions: &[Uuid],
        reason: PresenceReason,
    ) {
        self.tell_arrived(now, key);
        let left = self.streams.leave(key, sessions);
        if left.is_empty() {
            return;
        }
        let size = self.streams.count(key);
        match *key {
            Key::User(user_id) => {
                let visible = left.iter().filter(|joined| !joined.meta.meta.is_hidden);
                visible.for_each(|joined| {
                    self.appeared(user_id, joined.member.presence.session_id, false);
                });
            }
            Key::Relayed(uuid) if size == 0 => {
                self.ended(MatchId::relayed(uuid));
            }
            Key::Relayed(uuid) => self.resized(MatchId::relayed(uuid), size),
            Key::Authoritative(uuid) => {
                self.note_left(uuid, &left, reason);
                self.resized(MatchId::authoritative(uuid, self.me.node()), size);
            }
            Key::Scripts(_) => {}
        }
        let leaves = |GroupMember { member, meta }: GroupMember<Known>| told(&member, meta.meta);
        let leaves: Vec<StreamPresence> = left.into_iter().filter_map(leaves).collect();
        self.tell(now, key, &[], &leaves);
    }

    /// The players of a match as the wire lists them, without one of them.
    pub(super) fn presences_without(&self, key: &Key, session_id: Uuid) -> Vec<UserPresence> {
        let members = self.streams.members(key).map(|member| &member.presence);
        let others = members.filter(|presence| presence.session_id != session_id);
        others.map(frames::user_presence).collect()
    }

    /// A socket appears online from now on, or does no more.
    fn appeared(&mut self, user_id: Uuid, session_id: Uuid, is_online: bool) {
        let event = if is_online {
            DirectoryEvent::UserOnline { user_id, session_id }
        } else {
            DirectoryEvent::UserOffline { user_id, session_id }
        };
        self.resources.directory.apply(&event);
    }

    /// Members of a script's stream are told of this one with the others of the turn.
    pub(super) fn arrives(&mut self, key: &Key, told: StreamPresence) {
        self.arrivals.entry(key.clone()).or_default().push(told);
    }

    /// Tells members of all streams who has come in this turn.
    pub(super) fn tell_arrivals(&mut self, now: Now) {
        while let Some((key, arrived)) = self.arrivals.pop_first() {
            self.tell(now, &key, &arrived, &[]);
        }
    }

    pub(super) fn tell_arrived(&mut self, now: Now, key: &Key) {
        if let Some(arrived) = self.arrivals.remove(key) {
            self.tell(now, key, &arrived, &[]);
        }
    }

    /// Tells members who has come and gone, hidden members too, and of a user who follows it.
    pub(super) fn tell(
        &mut self,
        now: Now,
        key: &Key,
        joins: &[StreamPresence],
        leaves: &[StreamPresence],
    ) {
        let count = joins.len() + leaves.len();
        if count == 0 || self.streams.get(key).is_none() && !matches!(key, Key::User(_)) {
            return;
        }
        let then = self.then_of_presences(now, key, count);
        if count <= PRESENCES_PER_EVENT_MAX {
            return self.tell_some(key, joins, leaves, then);
        }
        let joins = joins.chunks(PRESENCES_PER_EVENT_MAX);
        joins.for_each(|joins| self.tell_some(key, joins, &[], then));
        let leaves = leaves.chunks(PRESENCES_PER_EVENT_MAX);
        leaves.for_each(|leaves| self.tell_some(key, &[], leaves, then));
    }

    /// What scripts' streams tell beyond `limit.stream_events_per_s` those who are behind do not get: else
    /// whoever comes and goes often enough would have them cut off.
    fn then_of_presences(&mut self, now: Now, key: &Key, count: usize) -> Then {
        let events_max = u64::from(self.settings.limits.stream_events_per_s);
        if matches!(key, Key::User(_)) {
            return Then::NewsOfUsers;
        }
        if !matches!(key, Key::Scripts(_)) || events_max == 0 {
            return Then::Nothing;
        }
        let Some(stream) = self.streams.get_mut(key) else { return Then::Nothing };
        if !stream.sent.is_excess(now, count as u64, events_max) {
            return Then::Nothing;
        }
        self.stats.stream_events_excess.add(count as u64);
        let what = "members of a stream who are behind are not told of all who come and go";
        self.limit_log.hit(now, "limit.stream_events_per_s", what);
        Then::DropIfBehind
    }

    fn tell_some(
        &mut self,
        key: &Key,
        joins: &[StreamPresence],
        leaves: &[StreamPresence],
        then: Then,
    ) {
        let list = |told: &[StreamPresence]| told.iter().map(|one| message(key, one)).collect();
        let (joins, leaves) = (list(joins), list(leaves));
        let event = match key {
            Key::User(_) => Message::StatusPresenceEvent(StatusPresenceEvent { joins, leaves }),
            Key::Scripts(id) => {
                let stream = Some(id.message());
                Message::StreamPresenceEvent(StreamPresenceEvent { stream, joins, leaves })
            }
            Key::Relayed(uuid) | Key::Authoritative(uuid) => {
                let is_authoritative = matches!(key, Key::Authoritative(_));
                let id = MatchId { uuid: *uuid, node: is_authoritative.then_some(self.me.node()) };
                let match_id = id.text(&self.topology.nodes);
                Message::MatchPresenceEvent(MatchPresenceEvent { match_id, joins, leaves })
            }
        };
        let event = Envelope::new("", event);
        let make = |format| frames::encoded(format, &event);
        match key {
            Key::User(user_id) => {
                self.outbox.many_then(self.streams.listeners(*user_id), then, make)
            }
            Key::Scripts(_) | Key::Relayed(_) | Key::Authoritative(_) => {
                self.outbox.many_then(self.streams.members(key), then, make)
            }
        };
        self.stats.presence_event_count.up();
    }
}

/// A presence as the members of such a stream are told of it.
fn message(key: &Key, StreamPresence { presence, meta }: &StreamPresence) -> UserPresence {
    let message = frames::user_presence(presence);
    match key {
        Key::User(_) => UserPresence { status: Some(meta.status.to_string()), ..message },
        Key::Scripts(_) => UserPresence { persistence: meta.is_persistent, ..message },
        Key::Relayed(_) | Key::Authoritative(_) => message,
    }
}
