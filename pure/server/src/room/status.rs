//! Who is online, with which status text, and who wants to know. Contract: F.4, B (single socket).

use game::directory::DirectoryEvent;
use game::guest::Presence;
use smallvec::SmallVec;
use uuid::Uuid;
use wire::nakama::realtime::{Message, Status, StatusPresenceEvent, UserPresence};

use super::Room;
use crate::frames;
use crate::mail::{Follow, Mail, Member, RoomAsk, Then};

/// Users of one room that a session may follow; further ones are not followed, and counted.
const FOLLOWS_MAX: usize = 16_384;

/// One user's sockets, presences and followers. Gone when all three are.
#[derive(Debug, Default)]
pub(super) struct User {
    sockets: SmallVec<[Member; 1]>,
    /// Sessions that appear online, with their status text.
    online: Vec<(Uuid, String)>,
    followers: Vec<Member>,
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
            let older: Vec<Member> = user.sockets.iter().filter(|m| !is_this(m)).cloned().collect();
            older.iter().for_each(|older| self.replace(older));
        }
        self.add_socket(&member);
        if online {
            self.set_status(&member, Some(String::new()));
        }
    }

    fn add_socket(&mut self, member: &Member) {
        let user = self.users.entry(member.presence.user_id).or_default();
        let session_id = member.presence.session_id;
        if !user.sockets.iter().any(|known| known.presence.session_id == session_id) {
            user.sockets.push(member.clone());
        }
    }

    /// `session.single_socket`: the older socket is told why, then closed.
    fn replace(&mut self, older: &Member) {
        let frame = frames::notification(older.format, -7, "single_socket");
        self.outbox.one(older, frame, Then::Close("server-side session disconnect"));
    }

    pub(super) fn user_socket_closed(&mut self, session_id: Uuid, user_id: Uuid) {
        let Some(user) = self.users.get_mut(&user_id) else { return };
        let is_gone = |member: &Member| member.presence.session_id == session_id;
        let gone = user.sockets.iter().position(is_gone).map(|index| user.sockets.remove(index));
        if let Some(gone) = gone {
            self.set_status(&gone, None);
        }
        self.forget_if_idle(user_id);
    }

    pub(super) fn status_update(&mut self, member: Member, cid: &str, status: Option<String>) {
        // The news that it opened may have met a full mailbox and still be on its way.
        self.add_socket(&member);
        self.set_status(&member, status);
        self.outbox.one(&member, frames::frame(member.format, cid, None), Then::Answered);
    }

    /// Moves a session's status; followers and the user's own sockets see the old presence leave
    /// and the new one join in one event.
    fn set_status(&mut self, member: &Member, status: Option<String>) {
        let (user_id, session_id) = (member.presence.user_id, member.presence.session_id);
        let user = self.users.entry(user_id).or_default();
        let is_this = |(session, _): &(Uuid, String)| *session == session_id;
        let old = user.online.iter().position(is_this).map(|at| user.online.swap_remove(at).1);
        if let Some(status) = &status {
            user.online.push((session_id, status.clone()));
        }
        let as_list = |status: &Option<String>| {
            status.iter().map(|status| with_status(&member.presence, status)).collect::<Vec<_>>()
        };
        let event = StatusPresenceEvent { joins: as_list(&status), leaves: as_list(&old) };
        if event.joins.is_empty() && event.leaves.is_empty() {
            return;
        }
        self.outbox.many(user.sockets.iter().chain(&user.followers), |format| {
            frames::frame(format, "", Some(Message::StatusPresenceEvent(event.clone())))
        });
        self.stats.presence_event_count.up();
        match (old, status) {
            (None, Some(_)) => {
                self.change(|_| DirectoryEvent::UserOnline { user_id, session_id });
            }
            (Some(_), None) => {
                self.change(|_| DirectoryEvent::UserOffline { user_id, session_id });
            }
            _ => {}
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
                user.followers.push(follow.member.clone());
            }
            for (online, status) in &user.online {
                let socket = user.sockets.iter().find(|m| m.presence.session_id == *online);
                if let Some(socket) = socket {
                    follow.found.push((socket.presence.clone(), status.clone()));
                }
            }
        }
        if !elsewhere.is_empty() {
            let core = follow.member.address.core;
            follow.users = elsewhere;
            return self.pass_on(core, RoomAsk::StatusFollow(Box::new(follow)));
        }
        let found = follow.found.iter();
        let presences = found.map(|(presence, status)| with_status(presence, status)).collect();
        let message = Message::Status(Status { presences });
        let frame = frames::frame(follow.member.format, &follow.cid, Some(message));
        self.outbox.one(&follow.member, frame, Then::Answered);
    }

    /// To the next room by way of the session's core: it alone knows whether the session still
    /// is, and its mail to that room comes before the news that it is not.
    fn pass_on(&mut self, core: event::ThreadId, ask: RoomAsk) {
        self.mails.push((core, Mail::PassOn(Box::new(ask))));
    }

    pub(super) fn status_unfollow(&mut self, member: Member, cid: String, users: Vec<Uuid>) {
        let session_id = member.presence.session_id;
        let (here, elsewhere): (Vec<Uuid>, Vec<Uuid>) =
            users.into_iter().partition(|id| self.topology.room_of(*id) == self.me);
        for user_id in here {
            if let Some(joined) = self.sessions.get_mut(&session_id) {
                joined.follows.remove(&user_id);
                if joined.follows.is_empty() && joined.matches.is_empty() {
                    self.sessions.remove(&session_id);
                }
            }
            self.forget_follower(user_id, session_id);
        }
        if !elsewhere.is_empty() {
            let core = member.address.core;
            return self.pass_on(core, RoomAsk::StatusUnfollow { member, cid, users: elsewhere });
        }
        self.outbox.one(&member, frames::frame(member.format, &cid, None), Then::Answered);
    }

    pub(super) fn forget_follower(&mut self, user_id: Uuid, follower: Uuid) {
        if let Some(user) = self.users.get_mut(&user_id) {
            user.followers.retain(|member| member.presence.session_id != follower);
        }
        self.forget_if_idle(user_id);
    }

    fn forget_if_idle(&mut self, user_id: Uuid) {
        let is_idle = |user: &User| {
            user.sockets.is_empty() && user.online.is_empty() && user.followers.is_empty()
        };
        if self.users.get(&user_id).is_some_and(is_idle) {
            self.users.remove(&user_id);
        }
    }
}
