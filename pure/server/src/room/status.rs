//! Who is online, with which status text, and who wants to know; and what users are notified of, because
//! their sockets are known here.
//!
//! Source: Nakama 3.40, `server/pipeline_status.go`, `server/status_registry.go`; for single
//! sockets `server/session_registry.go`.

use event::Now;
use game::guest::Presence;
use game::notifications::{Sent, code};
use game::stream::StreamMeta;
use uuid::Uuid;
use wire::nakama::Envelope;
use wire::nakama::realtime::{Message, Notifications, Status, UserPresence};

use super::Room;
use super::registry::Key;
use crate::frames;
use crate::mail::{Address, CloseCause, CoreMail, Follow, Member, RoomRequest, Then};

/// Users of one room that a session may follow; further ones are not followed, and counted.
const FOLLOWS_MAX: usize = 16_384;

fn with_status(presence: &Presence, status: &str) -> UserPresence {
    UserPresence { status: Some(status.to_owned()), ..frames::user_presence(presence) }
}

impl Room {
    pub(super) fn opened(&mut self, now: Now, member: &Member, status: Option<Box<str>>) {
        let Presence { user_id, session_id, .. } = member.presence;
        let key = Key::User(user_id);
        if self.settings.single_socket {
            // They stay listed until they close, so that their status goes with them.
            let is_other = |other: &&Member| other.presence.session_id != session_id;
            let older: Vec<Member> = self.streams.members(&key).filter(is_other).cloned().collect();
            older.iter().for_each(|older| self.replace(older));
        }
        if status.is_some() {
            self.set_status(now, member, status);
        } else if self.streams.find(&key, session_id).is_none() {
            self.set_status(now, member, None);
        }
    }

    /// `session.single_socket`: the older socket is told why, then closed.
    fn replace(&mut self, older: &Member) {
        let frame = frames::notification(older.format, code::SINGLE_SOCKET, "single_socket");
        self.outbox.one(older, frame, Then::Close(CloseCause::Replaced));
    }

    /// Shows notifications to the sockets of their users, whether these appear online or not.
    pub(super) fn notify(&mut self, all: Vec<Sent>) {
        for Sent { to, notifications, is_of_users, .. } in all {
            let members: Vec<&Member> = match to {
                Some(user_id) => self.streams.members(&Key::User(user_id)).collect(),
                None => self.streams.sockets().collect(),
            };
            let then = if is_of_users { Then::DropIfBehind } else { Then::Nothing };
            let message = Message::Notifications(Notifications { notifications });
            let envelope = Envelope::new("", message);
            let make = |format| frames::encoded(format, &envelope);
            let count = self.outbox.many_then(members.iter().copied(), then, make);
            self.stats.notifications_shown.add(count);
        }
    }

    pub(super) fn status_update(
        &mut self,
        now: Now,
        member: &Member,
        cid: &str,
        status: Option<String>,
    ) {
        self.set_status(now, member, status.map(Into::into));
        self.outbox.one(member, frames::frame(member.format, cid, None), Then::Answered);
    }

    /// A session's status has moved: followers and the user's own sockets see the old presence
    /// leave and the new one join in one event. Without a status it does not appear online.
    ///
    /// It may be the first that is heard of the session: the news that it opened may have met a full
    /// mailbox and still be on its way.
    pub(super) fn set_status(&mut self, now: Now, member: &Member, status: Option<Box<str>>) {
        let meta = StreamMeta {
            is_hidden: status.is_none(),
            is_persistent: false,
            status: status.unwrap_or_default(),
        };
        self.join_and_tell(now, &Key::User(member.presence.user_id), member, meta);
    }

    /// Handles those of the users who live here, and passes the rest on to their room.
    pub(super) fn status_follow(&mut self, mut follow: Follow) {
        let users = std::mem::take(&mut follow.users);
        let (here, elsewhere): (Vec<Uuid>, Vec<Uuid>) =
            users.into_iter().partition(|id| self.topology.room_of(*id) == self.me);
        for user_id in here {
            if user_id == follow.member.presence.user_id {
                continue; // One's own events come anyway.
            }
            if !self.streams.follow(user_id, &follow.member, FOLLOWS_MAX) {
                self.stats.follows_refused.up();
                continue;
            }
            if follow.cid.is_none() {
                continue;
            }
            let sockets = self.streams.get(&Key::User(user_id));
            for joined in sockets.into_iter().flat_map(|sockets| sockets.members.visible()) {
                let status = joined.meta.meta.status.to_string();
                follow.found.push((joined.member.presence.clone(), status));
            }
        }
        if !elsewhere.is_empty() {
            let core = follow.member.address.core;
            follow.users = elsewhere;
            return self.forward(core, RoomRequest::StatusFollow(Box::new(follow)));
        }
        let Some(cid) = &follow.cid else { return };
        let found = follow.found.iter();
        let presences = found.map(|(presence, status)| with_status(presence, status)).collect();
        let message = Message::Status(Status { presences });
        let frame = frames::frame(follow.member.format, cid, Some(message));
        self.outbox.one(&follow.member, frame, Then::Answered);
    }

    /// To the next room by way of the session's core: it alone knows whether the session still
    /// is, and its mail to that room comes before the news that it is not.
    pub(super) fn forward(&mut self, core: Address<CoreMail>, request: RoomRequest) {
        self.mails.push(core.seal(&self.topology, CoreMail::Forward(Box::new(request))));
    }

    pub(super) fn status_unfollow(
        &mut self,
        member: Member,
        cid: Option<String>,
        users: Vec<Uuid>,
    ) {
        let session_id = member.presence.session_id;
        let (here, elsewhere): (Vec<Uuid>, Vec<Uuid>) =
            users.into_iter().partition(|id| self.topology.room_of(*id) == self.me);
        here.into_iter().for_each(|user_id| self.streams.unfollow(user_id, session_id));
        if !elsewhere.is_empty() {
            let core = member.address.core;
            return self
                .forward(core, RoomRequest::StatusUnfollow { member, cid, users: elsewhere });
        }
        if let Some(cid) = cid {
            self.outbox.one(&member, frames::frame(member.format, &cid, None), Then::Answered);
        }
    }
}
