//! Streams, as scripts may want something of them: their own, who is in which they say themselves, and
//! the server's (sockets of users, statuses, players of matches), which are the same kind of group and
//! can be listed, counted and sent to.
//!
//! A session that is to join is looked for on the room of its user, and goes on to the stream's room by
//! way of its core, which alone knows whether it still is. Members are told of each other once a turn,
//! or before anything else that they are told by the stream. Not here: names and arguments
//! (`game::stream`, `game::host`).
//!
//! Source: Nakama 3.40, `server/tracker.go`: who is told of what; `server/message_router.go`.

use event::Now;
use game::guest::{HostError, Presence};
use game::match_id::MatchId;
use game::stream::{
    SessionId, StreamAnswer, StreamId, StreamKind, StreamMessage, StreamMeta, StreamPresence,
    StreamRequest, no_session, of_the_server,
};
use uuid::Uuid;
use wire::nakama::realtime::{Message, StreamPresenceEvent, UserPresence};

use super::flow::Flow;
use super::{Room, count_u32};
use crate::frames::{self, Outbox, PRESENCES_PER_EVENT_MAX};
use crate::group::{Group, GroupMember, Meta};
use crate::limits::Limit;
use crate::mail::{Member, News, Reply, RoomAnswer, RoomError, RoomRequest, StreamMail, Then};

/// A stream of a script. Gone when nobody is in it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    members: Group<StreamMeta>,
    /// Who has come and members have not been told of.
    arrived: Vec<Told>,
    /// Presences that members are told of.
    told: Flow,
}

impl Meta for StreamMeta {
    fn is_hidden(&self) -> bool {
        self.is_hidden
    }
}

/// A presence as members are told of it.
#[derive(Clone, Debug)]
struct Told {
    presence: Presence,
    is_persistent: bool,
}

impl Told {
    /// None of who is hidden.
    fn of(presence: &Presence, meta: &StreamMeta) -> Option<Self> {
        let is_persistent = meta.is_persistent;
        (!meta.is_hidden).then(|| Self { presence: presence.clone(), is_persistent })
    }

    fn message(&self) -> UserPresence {
        UserPresence { persistence: self.is_persistent, ..frames::user_presence(&self.presence) }
    }
}

impl Room {
    /// What scripts on workers and other rooms want of streams.
    pub(super) fn stream_mail(&mut self, now: Now, mail: StreamMail) {
        let StreamMail { stream, request, member, reply } = mail;
        let member = match (request.joiner(), member) {
            (Some(session), None) => match self.member_of(session) {
                Some(member) if self.topology.room_of(stream.home()) == self.me => Some(member),
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
        let Some((from, request)) = reply else {
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
        self.mails.push(from.seal(News::Answer { request, outcome }));
    }

    /// A session of a user that is known here: because the user is, or because the session is in a
    /// match that is.
    pub(super) fn member_of(&self, session: SessionId) -> Option<Member> {
        let SessionId { user_id, session_id } = session;
        let matches = self.sessions.get(&session_id).map(|joined| &joined.matches);
        let of_match = |id: &MatchId| {
            if id.authoritative {
                Some(&self.matches.get(&id.uuid)?.members.get(session_id)?.member)
            } else {
                Some(&self.relayed.get(&id.uuid)?.members.get(session_id)?.member)
            }
        };
        let user = self.users.get(&user_id);
        let socket = user.and_then(|user| user.sockets.get(session_id)).map(|it| &it.member);
        let member = socket.or_else(|| matches?.iter().find_map(of_match))?;
        (member.presence.user_id == user_id).then(|| member.clone())
    }

    /// Does what a script wants of a stream that lives here. `member` is who is to join.
    pub(super) fn stream(
        &mut self,
        now: Now,
        stream: &StreamId,
        request: StreamRequest,
        member: Option<Member>,
    ) -> Result<StreamAnswer, HostError> {
        let kind = stream.kind(&self.settings.node);
        kind.check(&request)?;
        match request {
            StreamRequest::Join(_, meta) => {
                self.stream_enter(now, (stream, kind), member, meta, false)
            }
            StreamRequest::Update(_, meta) => {
                self.stream_enter(now, (stream, kind), member, meta, true)
            }
            StreamRequest::Leave(session) => self.stream_leave(now, (stream, kind), session),
            StreamRequest::Find(session) => {
                let mut found = self.found(stream, kind, Some(session.session_id));
                found.retain(|one| one.presence.user_id == session.user_id);
                Ok(StreamAnswer::Found(found))
            }
            StreamRequest::List { hidden, visible } => {
                let mut found = self.found(stream, kind, None);
                found.retain(|one| if one.meta.is_hidden { hidden } else { visible });
                Ok(StreamAnswer::Found(found))
            }
            StreamRequest::Count => Ok(StreamAnswer::Count(self.count(stream, kind))),
            StreamRequest::Close => {
                self.stream_close(stream);
                Ok(StreamAnswer::Done)
            }
            StreamRequest::Send(message) => {
                self.stream_send(now, stream, kind, &message);
                Ok(StreamAnswer::Done)
            }
        }
    }

    /// Who is in a stream, or whether this session is.
    fn found(
        &self,
        stream: &StreamId,
        kind: StreamKind,
        only: Option<Uuid>,
    ) -> Vec<StreamPresence> {
        let player = || Some(StreamMeta::default());
        match kind {
            StreamKind::Notifications(id) => {
                let meta = |_: &_| Some(StreamMeta { is_hidden: true, ..StreamMeta::default() });
                presences(self.users.get(&id).map(|user| &user.sockets), only, meta)
            }
            StreamKind::Status(id) => {
                presences(self.users.get(&id).map(|user| &user.sockets), only, |meta| {
                    let status = meta.0.clone()?;
                    Some(StreamMeta { status, ..StreamMeta::default() })
                })
            }
            StreamKind::Relayed(id) => {
                presences(self.relayed.get(&id).map(|found| &found.members), only, |_| player())
            }
            StreamKind::Authoritative(id) => {
                presences(self.matches.get(&id).map(|found| &found.members), only, |()| player())
            }
            StreamKind::Scripts => {
                let members = self.streams.get(stream).map(|found| &found.members);
                presences(members, only, |meta| Some(meta.clone()))
            }
            StreamKind::Missing => Vec::new(),
        }
    }

    fn count(&self, stream: &StreamId, kind: StreamKind) -> u64 {
        let count = match kind {
            StreamKind::Notifications(id) => self.users.get(&id).map(|user| user.sockets.len()),
            StreamKind::Status(id) => {
                self.users.get(&id).map(|user| user.sockets.visible().count())
            }
            StreamKind::Relayed(id) => self.relayed.get(&id).map(|found| found.members.len()),
            StreamKind::Authoritative(id) => self.matches.get(&id).map(|found| found.members.len()),
            StreamKind::Scripts => self.streams.get(stream).map(|found| found.members.len()),
            StreamKind::Missing => None,
        };
        count.unwrap_or(0) as u64
    }

    fn stream_send(
        &mut self,
        now: Now,
        stream: &StreamId,
        kind: StreamKind,
        message: &StreamMessage,
    ) {
        if kind == StreamKind::Scripts {
            self.tell_arrived(now, stream);
        }
        let outbox = &mut self.outbox;
        let sent = match kind {
            StreamKind::Notifications(id) => {
                send(outbox, self.users.get(&id).map(|user| &user.sockets), true, message)
            }
            StreamKind::Status(id) => {
                send(outbox, self.users.get(&id).map(|user| &user.sockets), false, message)
            }
            StreamKind::Relayed(id) => {
                send(outbox, self.relayed.get(&id).map(|found| &found.members), true, message)
            }
            StreamKind::Authoritative(id) => {
                send(outbox, self.matches.get(&id).map(|found| &found.members), true, message)
            }
            StreamKind::Scripts => {
                send(outbox, self.streams.get(stream).map(|found| &found.members), true, message)
            }
            StreamKind::Missing => 0,
        };
        self.stats.stream_messages_delivered.add(sent);
    }

    /// A session joins, or is known by something else from now on if `updates`.
    fn stream_enter(
        &mut self,
        now: Now,
        (stream, kind): (&StreamId, StreamKind),
        member: Option<Member>,
        meta: StreamMeta,
        updates: bool,
    ) -> Result<StreamAnswer, HostError> {
        let Some(member) = member else { return Err(no_session()) };
        match kind {
            StreamKind::Scripts => {}
            StreamKind::Status(user_id) if user_id == member.presence.user_id => {
                return Ok(self.enter_status(&member, meta, updates));
            }
            _ => return Err(of_the_server()),
        }
        let session_id = member.presence.session_id;
        let known = self.streams.get(stream).is_some_and(|found| found.members.has(session_id));
        if known && !updates {
            return Ok(StreamAnswer::IsNew(false));
        }
        if known {
            self.tell_arrived(now, stream);
        } else {
            self.may_join(now, stream, &member)?;
        }
        let presence = member.presence.clone();
        let joins = Told::of(&presence, &meta);
        let found = self.streams.entry(stream.clone()).or_default();
        let is_first = found.members.is_empty();
        if let Some(was) = found.members.put(member, meta) {
            let leaves = Told::of(&presence, &was);
            self.tell_stream(now, stream, joins.as_slice(), leaves.as_slice());
            return Ok(StreamAnswer::IsNew(false));
        }
        if let Some(told) = joins {
            if found.arrived.is_empty() {
                self.arrivals.push(stream.clone());
            }
            found.arrived.push(told);
        }
        if is_first {
            self.stats.streams.up();
        }
        self.stats.presences.up();
        *self.streams_of.entry(presence.user_id).or_default() += 1;
        self.sessions.entry(session_id).or_default().streams.push(stream.clone());
        Ok(StreamAnswer::IsNew(true))
    }

    /// A script sets the status of a socket.
    fn enter_status(&mut self, member: &Member, meta: StreamMeta, updates: bool) -> StreamAnswer {
        let user = self.users.get(&member.presence.user_id);
        let socket = user.and_then(|user| user.sockets.get(member.presence.session_id));
        let is_online = socket.is_some_and(|socket| !socket.meta.is_hidden());
        if !is_online || updates {
            self.set_status(member, (!meta.is_hidden).then_some(meta.status));
        }
        StreamAnswer::IsNew(!is_online)
    }

    /// Whether one more session may be in a script's stream.
    fn may_join(&mut self, now: Now, stream: &StreamId, member: &Member) -> Result<(), HostError> {
        let limits = &self.settings.limits;
        let Presence { user_id, session_id, .. } = &member.presence;
        let of_session = self.sessions.get(session_id).map_or(0, super::Joined::presences);
        let of_user = self.streams_of.get(user_id).copied().unwrap_or(0);
        let of_stream = self.streams.get(stream).map_or(0, |found| found.members.len());
        let (limit, counter) = if Limit::PresencesPerSession.is_met(limits, count_u32(of_session)) {
            (Limit::PresencesPerSession, &self.stats.joins_refused)
        } else if Limit::StreamsPerUser.is_met(limits, of_user) {
            (Limit::StreamsPerUser, &self.stats.limited_streams_per_user)
        } else if Limit::PresencesPerStream.is_met(limits, count_u32(of_stream)) {
            (Limit::PresencesPerStream, &self.stats.limited_presences_per_stream)
        } else {
            return Ok(());
        };
        counter.up();
        let text = limit.refusal(limits).message;
        let what = format_args!("user {user_id} is refused: {text}");
        self.limit_log.hit(now, limit.setting(), what);
        Err(HostError::new(text))
    }

    fn stream_leave(
        &mut self,
        now: Now,
        (stream, kind): (&StreamId, StreamKind),
        session: SessionId,
    ) -> Result<StreamAnswer, HostError> {
        let SessionId { user_id, session_id } = session;
        if self.callbacks_running > 0 && matches!(kind, StreamKind::Authoritative(_)) {
            let text = "a match callback takes players out of a match by dispatcher.match_kick";
            return Err(HostError::new(text));
        }
        let found = self.found(stream, kind, Some(session_id));
        if !found.iter().any(|one| one.presence.user_id == user_id) {
            return Ok(StreamAnswer::Done);
        }
        match kind {
            StreamKind::Scripts => self.streams_left(now, stream, &[session_id]),
            StreamKind::Status(_) => {
                if let Some(member) = self.member_of(session) {
                    self.set_status(&member, None);
                }
            }
            StreamKind::Relayed(uuid) => {
                self.leave_match(now, session_id, MatchId { uuid, authoritative: false });
            }
            StreamKind::Authoritative(uuid) => {
                self.leave_match(now, session_id, MatchId { uuid, authoritative: true });
            }
            StreamKind::Notifications(_) | StreamKind::Missing => return Err(of_the_server()),
        }
        Ok(StreamAnswer::Done)
    }

    /// Sessions are in a script's stream no more; those who stay are told.
    pub(super) fn streams_left(&mut self, now: Now, stream: &StreamId, sessions: &[Uuid]) {
        self.tell_arrived(now, stream);
        let Some(found) = self.streams.get_mut(stream) else { return };
        let taken = sessions.iter().filter_map(|session_id| found.members.take(*session_id));
        let left: Vec<_> = taken.collect();
        let is_empty = found.members.is_empty();
        if is_empty {
            self.streams.remove(stream);
            self.stats.streams.down();
        }
        left.iter().for_each(|one| self.forget_stream(stream, &one.member.presence));
        if !is_empty {
            let leaves = left.iter().filter_map(|one| Told::of(&one.member.presence, &one.meta));
            let leaves: Vec<Told> = leaves.collect();
            self.tell_stream(now, stream, &[], &leaves);
        }
    }

    /// Everybody is out, and nobody told, as in Nakama.
    fn stream_close(&mut self, stream: &StreamId) {
        let Some(closed) = self.streams.remove(stream) else { return };
        self.stats.streams.down();
        for member in closed.members.members() {
            self.forget_stream(stream, &member.presence);
        }
    }

    /// A session is in a stream no more.
    fn forget_stream(&mut self, stream: &StreamId, left: &Presence) {
        self.stats.presences.down();
        if let Some(count) = self.streams_of.get_mut(&left.user_id) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.streams_of.remove(&left.user_id);
            }
        }
        if let Some(joined) = self.sessions.get_mut(&left.session_id) {
            joined.streams.retain(|other| other != stream);
            if joined.is_empty() {
                self.sessions.remove(&left.session_id);
            }
        }
    }

    /// Tells members of all streams who has come in this turn.
    pub(super) fn tell_arrivals(&mut self, now: Now) {
        for stream in std::mem::take(&mut self.arrivals) {
            self.tell_arrived(now, &stream);
        }
    }

    fn tell_arrived(&mut self, now: Now, stream: &StreamId) {
        if let Some(found) = self.streams.get_mut(stream)
            && !found.arrived.is_empty()
        {
            let arrived = std::mem::take(&mut found.arrived);
            self.tell_stream(now, stream, &arrived, &[]);
        }
    }

    /// Tells members who has come and gone, hidden ones too. What is beyond
    /// `limit.stream_events_per_s` those who are behind do not get: else whoever comes and goes often
    /// enough would have them cut off.
    fn tell_stream(&mut self, now: Now, stream: &StreamId, joins: &[Told], leaves: &[Told]) {
        let Some(found) = self.streams.get_mut(stream) else { return };
        let count = joins.len() + leaves.len();
        if count == 0 {
            return;
        }
        let events_max = u64::from(self.settings.limits.stream_events_per_s);
        let mut then = Then::Nothing;
        if events_max > 0 && found.told.is_excess(now, count as u64, events_max) {
            then = Then::DropIfBehind;
            self.stats.stream_events_excess.add(count as u64);
            let what = "members of a stream who are behind are not told of all who come and go";
            self.limit_log.hit(now, "limit.stream_events_per_s", what);
        }
        let mut tell = |joins: &[Told], leaves: &[Told]| {
            let list = |told: &[Told]| told.iter().map(Told::message).collect();
            let (joins, leaves) = (list(joins), list(leaves));
            let event = StreamPresenceEvent { stream: Some(stream.message()), joins, leaves };
            let message = Some(Message::StreamPresenceEvent(event));
            self.outbox.many_then(found.members.members(), then, |format| {
                frames::frame(format, "", message.clone())
            });
            self.stats.presence_event_count.up();
        };
        if count <= PRESENCES_PER_EVENT_MAX {
            return tell(joins, leaves);
        }
        joins.chunks(PRESENCES_PER_EVENT_MAX).for_each(|joins| tell(joins, &[]));
        leaves.chunks(PRESENCES_PER_EVENT_MAX).for_each(|leaves| tell(&[], leaves));
    }
}

/// Members of a group, or this session alone, as scripts see them; `meta` is `None` of those who do not
/// count.
fn presences<M>(
    group: Option<&Group<M>>,
    only: Option<Uuid>,
    meta: impl Fn(&M) -> Option<StreamMeta>,
) -> Vec<StreamPresence> {
    let Some(group) = group else { return Vec::new() };
    let presence = |joined: &GroupMember<M>| {
        let presence = joined.member.presence.clone();
        meta(&joined.meta).map(|meta| StreamPresence { presence, meta })
    };
    match only {
        Some(session_id) => group.get(session_id).and_then(presence).into_iter().collect(),
        None => group.iter().filter_map(presence).collect(),
    }
}

/// Sends to members, and to hidden ones too if `all`. Returns to how many.
fn send<M: Meta>(
    outbox: &mut Outbox,
    group: Option<&Group<M>>,
    all: bool,
    message: &StreamMessage,
) -> u64 {
    let Some(group) = group else { return 0 };
    let then = if message.is_reliable { Then::Nothing } else { Then::DropIfBehind };
    let make = |format| {
        let (cid, message) = (&message.envelope.cid, message.envelope.message.clone());
        frames::frame(format, cid, message)
    };
    let is_meant = move |joined: &&GroupMember<M>| all || !joined.meta.is_hidden();
    match &message.to {
        None => {
            let to = group.iter().filter(is_meant).map(|joined| &joined.member);
            outbox.many_then(to, then, make)
        }
        Some(to) => {
            let to = group.among(to).filter(is_meant).map(|joined| &joined.member);
            outbox.many_then(to, then, make)
        }
    }
}
