//! What scripts want of streams: of their own, who is in which they say themselves, and of the server's
//! (sockets of users, statuses, players of matches), which are the same kind of group and can be listed,
//! counted and sent to.
//!
//! A session that is to join is looked for on the room of its user, and goes on to the stream's room by
//! way of its core, which alone knows whether it still is. Not here: names and arguments (`game::stream`,
//! `game::host`), how sessions come in and out and what members are told of it (`streams`).
//!
//! Source: Nakama 3.40, `server/stream_manager.go`, `server/message_router.go`.

use event::Now;
use game::guest::{HostError, PresenceReason};
use game::stream::{
    SessionId, StreamAnswer, StreamId, StreamKind, StreamMessage, StreamMeta, StreamPresence,
    StreamRequest, no_session, too_many_members,
};

use super::Room;
use super::registry::{Key, Known};
use super::streams::told;
use crate::frames;
use crate::group::{Group, GroupMember, Meta as _};
use crate::mail::{Member, Reply, RoomAnswer, RoomError, RoomRequest, StreamMail, Then};

impl Room {
    /// What scripts on workers and other rooms want of streams.
    pub(super) fn stream_mail(&mut self, now: Now, mail: StreamMail) {
        let StreamMail { stream, request, member, reply } = mail;
        let member = match (request.joiner(), member) {
            (Some(session), None) => match self.member_of(session) {
                // A core of another node has to know what it has there, should the other one go.
                Some(member)
                    if self.topology.room_of_stream(&stream) == self.me
                        && self.topology.is_here(member.address.core) =>
                {
                    Some(member)
                }
                Some(member) => {
                    let core = member.address.core;
                    let mail = StreamMail { stream, request, member: Some(member), reply };
                    return self.forward(core, RoomRequest::Stream(Box::new(mail)));
                }
                None => return self.answer_stream(reply, Err(no_session())),
            },
            (_, member) => member,
        };
        let outcome = self.stream(now, &stream, request, member);
        self.answer_stream(reply, outcome);
    }

    fn answer_stream(&mut self, reply: Reply, outcome: Result<StreamAnswer, HostError>) {
        let Some(waiter) = reply else {
            if let Err(error) = outcome {
                tracing::debug!("a script's wish for a stream is refused: {error}");
            }
            return;
        };
        let outcome = outcome.map(RoomAnswer::Stream).map_err(|error| {
            if error == no_session() {
                RoomError::NotFound
            } else {
                RoomError::Failed(error.message)
            }
        });
        self.answer(waiter, outcome);
    }

    /// A session of a user that is known here: because the user is, or because the session is in a
    /// stream that is.
    pub(super) fn member_of(&self, session: SessionId) -> Option<Member> {
        self.streams.member(session.user_id, session.session_id).cloned()
    }

    /// Does what a script wants of a stream that lives here. `member` is who is to join.
    pub(super) fn stream(
        &mut self,
        now: Now,
        stream: &StreamId,
        request: StreamRequest,
        member: Option<Member>,
    ) -> Result<StreamAnswer, HostError> {
        let kind = stream.kind(&self.topology.nodes);
        kind.check(&request)?;
        let Some(key) = Key::of(stream, kind) else { return Err(kind.is_the_servers()) };
        let key = (&key, kind);
        match request {
            StreamRequest::Join(_, meta) => self.stream_enter(now, key, member, meta, false),
            StreamRequest::Update(_, meta) => self.stream_enter(now, key, member, meta, true),
            StreamRequest::Leave(session) => self.stream_leave(now, key, session),
            StreamRequest::Find(session) => {
                let found = self.streams.find(key.0, session.session_id);
                let found = found.and_then(|joined| seen(key.1, joined));
                let of_user = |one: &StreamPresence| one.presence.user_id == session.user_id;
                Ok(StreamAnswer::Found(found.filter(of_user).into_iter().collect()))
            }
            StreamRequest::List { hidden, visible, bytes_max } => {
                let members = self.streams.get(key.0).map(|stream| &stream.members);
                let found = members.map(|all| listed(all, key.1, (hidden, visible), bytes_max));
                found.unwrap_or(Ok(Vec::new())).map(StreamAnswer::Found)
            }
            StreamRequest::Count => {
                let seen = self.streams.get(key.0).into_iter().flat_map(|it| it.members.iter());
                Ok(StreamAnswer::Count(seen.filter(|joined| is_seen(kind, joined)).count() as u64))
            }
            StreamRequest::Close => {
                // Nobody is told, as in Nakama.
                self.arrivals.remove(key.0);
                self.streams.close(key.0);
                Ok(StreamAnswer::Done)
            }
            StreamRequest::Send(message) => {
                self.stream_send(now, key, &message).map(|()| StreamAnswer::Done)
            }
        }
    }

    fn stream_send(
        &mut self,
        now: Now,
        (key, kind): (&Key, StreamKind),
        message: &StreamMessage,
    ) -> Result<(), HostError> {
        let limits = &self.settings.limits;
        if let Some((setting, max)) = self.sends.refusal(now, message.payer, limits) {
            self.stats.stream_messages_refused.up();
            self.limit_log.hit(now, setting, "a script sends too much to streams; it is not sent");
            let text = format!("too much is sent to streams ({setting} is {max})");
            return Err(HostError::new(text));
        }
        self.tell_arrived(now, key);
        let Some(stream) = self.streams.get(key) else {
            self.sends.note(message.payer, 0);
            return Ok(());
        };
        let then = if message.is_reliable { Then::Nothing } else { Then::DropIfBehind };
        let make = |format| frames::encoded(format, &message.envelope);
        let is_meant = |joined: &&GroupMember<Known>| is_seen(kind, joined);
        let sent = match &message.to {
            None => {
                let to = stream.members.iter().filter(is_meant).map(|joined| &joined.member);
                self.outbox.many_then(to, then, make)
            }
            Some(to) => {
                let to = stream.members.among(to).filter(is_meant).map(|joined| &joined.member);
                self.outbox.many_then(to, then, make)
            }
        };
        self.stats.stream_messages_delivered.add(sent);
        self.sends.note(message.payer, sent);
        Ok(())
    }

    /// A session joins, or is known by something else from now on if `updates`.
    fn stream_enter(
        &mut self,
        now: Now,
        (key, kind): (&Key, StreamKind),
        member: Option<Member>,
        meta: StreamMeta,
        updates: bool,
    ) -> Result<StreamAnswer, HostError> {
        let Some(member) = member else { return Err(no_session()) };
        let is_status = matches!(kind, StreamKind::Status(id) if id == member.presence.user_id);
        if !is_status && kind != StreamKind::Scripts {
            return Err(kind.is_the_servers());
        }
        let joined = self.streams.find(key, member.presence.session_id);
        let is_new = !joined.is_some_and(|joined| is_seen(kind, joined));
        if !is_new && !updates {
            return Ok(StreamAnswer::IsNew(false));
        }
        if is_status {
            self.set_status(now, &member, (!meta.is_hidden).then_some(meta.status));
        } else if is_new {
            self.may_join(now, key, &member).map_err(HostError::new)?;
            let told = told(&member, meta.clone());
            self.join(now, key, &member, meta);
            told.into_iter().for_each(|told| self.arrives(key, told));
        } else {
            self.tell_arrived(now, key);
            self.join_and_tell(now, key, &member, meta);
        }
        Ok(StreamAnswer::IsNew(is_new))
    }

    fn stream_leave(
        &mut self,
        now: Now,
        (key, kind): (&Key, StreamKind),
        session: SessionId,
    ) -> Result<StreamAnswer, HostError> {
        let SessionId { user_id, session_id } = session;
        if self.is_in_callback && matches!(kind, StreamKind::Authoritative(_)) {
            let text = "a match callback takes players out of a match by dispatcher.match_kick";
            return Err(HostError::new(text));
        }
        let joined = self.streams.find(key, session_id).filter(|joined| is_seen(kind, joined));
        let Some(member) = joined.map(|joined| &joined.member) else {
            return Ok(StreamAnswer::Done);
        };
        if member.presence.user_id != user_id {
            return Ok(StreamAnswer::Done);
        }
        match kind {
            StreamKind::Status(_) => {
                let member = member.clone();
                self.set_status(now, &member, None);
            }
            StreamKind::Scripts | StreamKind::Relayed(_) | StreamKind::Authoritative(_) => {
                self.leave(now, key, &[session_id], PresenceReason::Leave);
            }
            StreamKind::Notifications(_) | StreamKind::Missing => return Err(kind.is_the_servers()),
        }
        Ok(StreamAnswer::Done)
    }
}

/// Whether a member is in the stream that a script names: sockets that do not appear online have no
/// status.
fn is_seen(kind: StreamKind, joined: &GroupMember<Known>) -> bool {
    !matches!(kind, StreamKind::Status(_)) || !joined.meta.is_hidden()
}

/// A member as scripts see it: all sockets of a user are hidden in its notifications.
fn seen(kind: StreamKind, joined: &GroupMember<Known>) -> Option<StreamPresence> {
    let meta = || match kind {
        StreamKind::Notifications(_) => StreamMeta { is_hidden: true, ..StreamMeta::default() },
        _ => joined.meta.meta.clone(),
    };
    let presence = || joined.member.presence.clone();
    is_seen(kind, joined).then(|| StreamPresence { presence: presence(), meta: meta() })
}

/// Who is in a stream, of the hidden and of the others: all, or nobody if the script cannot pay for all.
fn listed(
    members: &Group<Known>,
    kind: StreamKind,
    (hidden, visible): (bool, bool),
    bytes_max: usize,
) -> Result<Vec<StreamPresence>, HostError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for one in members.iter().filter_map(|joined| seen(kind, joined)) {
        if (one.meta.is_hidden && hidden) || (!one.meta.is_hidden && visible) {
            bytes += one.bytes();
            if bytes > bytes_max {
                return Err(too_many_members());
            }
            found.push(one);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::ConnId;
    use game::guest::Presence;
    use game::stream::{PRESENCE_BYTES, StreamKind, StreamMeta};
    use uuid::Uuid;

    use super::listed;
    use crate::group::Group;
    use crate::mail::{Format, Member, SessionAddress, Topology};
    use crate::room::registry::Known;

    #[test]
    fn a_script_lists_no_more_than_it_can_pay_for() {
        let (mut members, core) = (Group::default(), Topology::new(1, 1, 1).cores[0]);
        for number in 0..10 {
            let id = Uuid::from_u128(number + 1);
            let (username, node) = (Arc::from("n"), game::node::NodeId::default());
            let presence = Presence { user_id: id, session_id: id, username, node };
            let address = SessionAddress { core, conn: ConnId { slot: 1, generation: 1 } };
            let meta = StreamMeta {
                is_hidden: number == 0,
                status: "x".repeat(100).into(),
                ..StreamMeta::default()
            };
            let known = Known { meta, ..Known::default() };
            members.put(Member { presence, address, format: Format::Json }, known);
        }
        let list = |whom, bytes_max| listed(&members, StreamKind::Scripts, whom, bytes_max);
        let each = PRESENCE_BYTES + 100;
        assert_eq!(list((true, true), each * 10).unwrap().len(), 10);
        assert!(list((true, true), each * 10 - 1).unwrap_err().message.contains("stream_count"));
        // Who is not wanted costs nothing.
        assert_eq!(list((false, true), each * 9).unwrap().len(), 9);
        assert_eq!(list((true, false), each).unwrap().len(), 1);
        assert!(list((true, true), 0).is_err());
    }
}
