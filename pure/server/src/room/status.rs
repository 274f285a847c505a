//! Who is online, with which status text, and who wants to know; and what users are notified of, because
//! their sockets are known here.
//!
//! Source: Nakama 3.40, `server/pipeline_status.go`, `server/status_registry.go`; for single
//! sockets `server/session_registry.go`.

use game::directory::DirectoryEvent;
use game::guest::Presence;
use game::notifications::{Sent, code};
use uuid::Uuid;
use wire::nakama::realtime::{Message, Notifications, Status, StatusPresenceEvent, UserPresence};

use super::Room;
use crate::frames;
use crate::group::{Group, GroupMember, Meta};
use crate::mail::{Address, CoreMail, Follow, Member, RoomRequest, Then};

/// Users of one room that a session may follow; further ones are not followed, and counted.
const FOLLOWS_MAX: usize = 16_384;

/// One user's sockets and followers. Gone when both are.
#[derive(Debug, Default)]
pub(super) struct User {
    /// Its sockets, whether they appear online or not. What is told of them, these and the followers
    /// hear; what the user is notified of, only these.
    pub(super) sockets: Group<Appearance>,
    /// Who follows the user. Most users have nobody.
    followers: Option<Box<Group<()>>>,
}

/// The status text of a socket, if it appears online.
#[derive(Clone, Debug, Default)]
pub(super) struct Appearance(pub(super) Option<Box<str>>);

impl Meta for Appearance {
    fn is_hidden(&self) -> bool {
        self.0.is_none()
    }
}

impl User {
    /// Makes a session's socket known, if it is not.
    fn meet(&mut self, member: &Member) {
        if !self.sockets.has(member.presence.session_id) {
            self.sockets.put(member.clone(), Appearance::default());
        }
    }

    /// Who hears of the user's status: its own sockets, and who follows it.
    fn listeners(&self) -> impl Iterator<Item = &Member> + Clone {
        let followers = self.followers.iter().flat_map(|followers| followers.members());
        self.sockets.members().chain(followers)
    }
}

fn with_status(presence: &Presence, status: &str) -> UserPresence {
    UserPresence { status: Some(status.to_owned()), ..frames::user_presence(presence) }
}

impl Room {
    pub(super) fn opened(&mut self, member: Member, online: bool) {
        let user_id = member.presence.user_id;
        if self.settings.single_socket
            && let Some(user) = self.users.get(&user_id)
        {
            // They stay listed until they close, so that their status goes with them.
            let is_this = |other: &&Member| other.presence.session_id == member.presence.session_id;
            let sockets = user.sockets.members();
            let older: Vec<Member> = sockets.filter(|member| !is_this(member)).cloned().collect();
            older.iter().for_each(|older| self.replace(older));
        }
        self.users.entry(user_id).or_default().meet(&member);
        if online {
            self.set_status(&member, Some(Box::default()));
        }
    }

    /// `session.single_socket`: the older socket is told why, then closed.
    fn replace(&mut self, older: &Member) {
        let frame = frames::notification(older.format, code::SINGLE_SOCKET, "single_socket");
        self.outbox.one(older, frame, Then::Close("server-side session disconnect"));
    }

    /// Shows notifications to the sockets of their users, whether these appear online or not.
    pub(super) fn notify(&mut self, all: Vec<Sent>) {
        for Sent { to, notifications, is_of_users, .. } in all {
            let members: Vec<&Member> = match to {
                Some(user_id) => self
                    .users
                    .get(&user_id)
                    .iter()
                    .flat_map(|user| user.sockets.members())
                    .collect(),
                None => self.users.values().flat_map(|user| user.sockets.members()).collect(),
            };
            let then = if is_of_users { Then::DropIfBehind } else { Then::Nothing };
            let message = Some(Message::Notifications(Notifications { notifications }));
            let count = self.outbox.many_then(members.iter().copied(), then, |format| {
                frames::frame(format, "", message.clone())
            });
            self.stats.notifications_shown.add(count);
        }
    }

    pub(super) fn user_socket_closed(&mut self, session_id: Uuid, user_id: Uuid) {
        let Some(user) = self.users.get_mut(&user_id) else { return };
        if let Some(gone) = user.sockets.take(session_id) {
            self.tell_status(&gone.member, gone.meta.0, None);
        }
        self.forget_if_idle(user_id);
    }

    pub(super) fn status_update(&mut self, member: Member, cid: &str, status: Option<String>) {
        self.set_status(&member, status.map(Into::into));
        self.outbox.one(&member, frames::frame(member.format, cid, None), Then::Answered);
    }

    pub(super) fn set_status(&mut self, member: &Member, status: Option<Box<str>>) {
        // The news that it opened may have met a full mailbox and still be on its way.
        let user = self.users.entry(member.presence.user_id).or_default();
        let old = user.sockets.put(member.clone(), Appearance(status.clone()));
        self.tell_status(member, old.and_then(|old| old.0), status);
    }

    /// A session's status has moved: followers and the user's own sockets see the old presence
    /// leave and the new one join in one event.
    fn tell_status(&mut self, member: &Member, old: Option<Box<str>>, status: Option<Box<str>>) {
        let (user_id, session_id) = (member.presence.user_id, member.presence.session_id);
        let as_list = |status: &Option<Box<str>>| {
            status.iter().map(|status| with_status(&member.presence, status)).collect::<Vec<_>>()
        };
        let event = StatusPresenceEvent { joins: as_list(&status), leaves: as_list(&old) };
        if event.joins.is_empty() && event.leaves.is_empty() {
            return;
        }
        if let Some(user) = self.users.get(&user_id) {
            self.outbox.many(user.listeners(), |format| {
                frames::frame(format, "", Some(Message::StatusPresenceEvent(event.clone())))
            });
        }
        self.stats.presence_event_count.up();
        match (old, status) {
            (None, Some(_)) => {
                self.resources.directory.apply(&DirectoryEvent::UserOnline { user_id, session_id });
            }
            (Some(_), None) => {
                self.resources
                    .directory
                    .apply(&DirectoryEvent::UserOffline { user_id, session_id });
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Handles those of the users who live here, and passes the rest on to their room.
    pub(super) fn status_follow(&mut self, mut follow: Follow) {
        let session_id = follow.member.presence.session_id;
        let users = std::mem::take(&mut follow.users);
        let (here, elsewhere): (Vec<Uuid>, Vec<Uuid>) =
            users.into_iter().partition(|id| self.topology.room_of(*id) == self.me);
        for user_id in here {
            if user_id == follow.member.presence.user_id {
                continue; // One's own events come anyway.
            }
            let follows = &mut self.sessions.entry(session_id).or_default().follows;
            if follows.len() >= FOLLOWS_MAX && !follows.contains(&user_id) {
                self.stats.follows_refused.up();
                continue;
            }
            let user = self.users.entry(user_id).or_default();
            if follows.insert(user_id) {
                let followers = user.followers.get_or_insert_default();
                followers.put(follow.member.clone(), ());
            }
            for GroupMember { member, meta } in user.sockets.visible() {
                let status = meta.0.as_deref().unwrap_or_default();
                follow.found.push((member.presence.clone(), status.to_owned()));
            }
        }
        if !elsewhere.is_empty() {
            let core = follow.member.address.core;
            follow.users = elsewhere;
            return self.forward(core, RoomRequest::StatusFollow(Box::new(follow)));
        }
        let found = follow.found.iter();
        let presences = found.map(|(presence, status)| with_status(presence, status)).collect();
        let message = Message::Status(Status { presences });
        let frame = frames::frame(follow.member.format, &follow.cid, Some(message));
        self.outbox.one(&follow.member, frame, Then::Answered);
    }

    /// To the next room by way of the session's core: it alone knows whether the session still
    /// is, and its mail to that room comes before the news that it is not.
    pub(super) fn forward(&mut self, core: Address<CoreMail>, request: RoomRequest) {
        self.mails.push(core.seal(CoreMail::Forward(Box::new(request))));
    }

    pub(super) fn status_unfollow(&mut self, member: Member, cid: String, users: Vec<Uuid>) {
        let session_id = member.presence.session_id;
        let (here, elsewhere): (Vec<Uuid>, Vec<Uuid>) =
            users.into_iter().partition(|id| self.topology.room_of(*id) == self.me);
        for user_id in here {
            if let Some(joined) = self.sessions.get_mut(&session_id) {
                joined.follows.remove(&user_id);
                if joined.is_empty() {
                    self.sessions.remove(&session_id);
                }
            }
            self.forget_follower(user_id, session_id);
        }
        if !elsewhere.is_empty() {
            let core = member.address.core;
            return self
                .forward(core, RoomRequest::StatusUnfollow { member, cid, users: elsewhere });
        }
        self.outbox.one(&member, frames::frame(member.format, &cid, None), Then::Answered);
    }

    pub(super) fn forget_follower(&mut self, user_id: Uuid, follower: Uuid) {
        if let Some(user) = self.users.get_mut(&user_id)
            && let Some(followers) = &mut user.followers
        {
            followers.take(follower);
            if followers.is_empty() {
                user.followers = None;
            }
        }
        self.forget_if_idle(user_id);
    }

    fn forget_if_idle(&mut self, user_id: Uuid) {
        let is_idle = |user: &User| user.sockets.is_empty() && user.followers.is_none();
        if self.users.get(&user_id).is_some_and(|user| is_idle(user)) {
            self.users.remove(&user_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::User;

    #[test]
    fn a_user_with_one_socket_is_small() {
        // 96 is one of mimalloc's sizes; the next one is 112.
        assert!(size_of::<User>() <= 96, "{} bytes", size_of::<User>());
    }
}
