//! What each realtime message of a client leads to. Source: Nakama 3.40,
//! `server/pipeline.go`.

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::error::ApiError;
use game::guest::{CallContext, JoinRequest};
use game::match_id::{MatchId, MatchIdError};
use smallvec::SmallVec;
use uuid::Uuid;
use wire::nakama::realtime::{self, Message, error_code};
use wire::nakama::{DecodeError, Envelope};

use super::Core;
use super::socket::{Session, Step, WaitKind, Waiting};
use crate::frames;
use crate::mail::{Format, Job, Mail, MatchInput, RoomRequest, RpcJob, Work};

/// Characters of a status text (Nakama 3.40, `server/pipeline_status.go`).
const STATUS_CHARS_MAX: usize = 2_048;

impl Core {
    /// A message from the socket: with hooks if it has any, else straight on.
    pub(super) fn message(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &mut Session,
        envelope: Envelope,
        out: &mut Output<Mail>,
    ) -> Step {
        if self.hooks.has_realtime {
            return self.hooked_message(now, conn, session, envelope, out);
        }
        self.dispatch(now, conn, session, envelope, out)
    }

    pub(super) fn dispatch(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &mut Session,
        envelope: Envelope,
        out: &mut Output<Mail>,
    ) -> Step {
        let Envelope { cid, message } = envelope;
        match message {
            Some(Message::MatchDataSend(send)) => self.match_data(now, conn, session, send, out),
            Some(Message::Ping(_)) => {
                let pong = Some(Message::Pong(realtime::Pong {}));
                self.reply(conn, &frames::frame(session.format, &cid, pong), out);
                Step::Done
            }
            Some(Message::Pong(_)) => Step::Done,
            Some(Message::Rpc(rpc)) => self.socket_rpc(conn, session, cid, rpc, out),
            Some(Message::MatchCreate(create)) => self.match_create(conn, session, cid, &create),
            Some(Message::MatchJoin(join)) => self.match_join(now, conn, session, cid, join, out),
            Some(Message::MatchLeave(leave)) => {
                let id = match self.match_id(&leave.match_id) {
                    Ok(id) => id,
                    Err(error) => return self.bad_match_id(conn, session, &cid, error, out),
                };
                let member = self.member(conn, session);
                let room = self.topology.room_of_match(id);
                let waiting = self.waiting_at(room, &cid, false);
                self.request_room(room, RoomRequest::MatchLeave { member, cid, id });
                Step::wait(waiting)
            }
            Some(Message::StatusUpdate(update)) => {
                self.status_update(conn, session, cid, update, out)
            }
            Some(Message::StatusFollow(follow)) => {
                self.status_follow(conn, session, cid, follow, out)
            }
            Some(Message::StatusUnfollow(unfollow)) => {
                let Some(users) = parse_ids(&unfollow.user_ids) else {
                    return self.bad_input(conn, session, &cid, "Invalid user identifier", out);
                };
                let member = self.member(conn, session);
                let Some(room) = users.first().map(|id| self.topology.room_of(*id)) else {
                    self.reply(conn, &frames::frame(session.format, &cid, None), out);
                    return Step::Done;
                };
                let waiting = self.waiting_at(room, &cid, false);
                let request = RoomRequest::StatusUnfollow { member, cid: Some(cid), users };
                self.request_room(room, request);
                Step::wait(waiting)
            }
            Some(other) => self.not_here(conn, session, &cid, &other, out),
            // Decoding leaves no envelope without a message.
            None => Step::Done,
        }
    }

    /// Messages that throng does not have yet, or that only servers send.
    fn not_here(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: &str,
        message: &Message,
        out: &mut Output<Mail>,
    ) -> Step {
        if !message.is_from_client() {
            let text = "Unrecognized message.";
            return self.refuse(conn, session, cid, error_code::UNRECOGNIZED_PAYLOAD, text, out);
        }
        let text = format!("{} is not implemented in throng yet", message.name());
        self.reply_error(conn, session.format, cid, (error_code::RUNTIME_EXCEPTION, &text), out);
        Step::Refused
    }

    /// An error after which the socket closes, as in Nakama.
    pub(super) fn refuse(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: &str,
        code: i32,
        text: &'static str,
        out: &mut Output<Mail>,
    ) -> Step {
        self.reply_error(conn, session.format, cid, (code, text), out);
        Step::Close(1000, "error processing message")
    }

    fn bad_input(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: &str,
        text: &str,
        out: &mut Output<Mail>,
    ) -> Step {
        self.reply_error(conn, session.format, cid, (error_code::BAD_INPUT, text), out);
        Step::Refused
    }

    pub(super) fn undecodable(
        &mut self,
        conn: ConnId,
        session: &Session,
        error: &DecodeError,
        out: &mut Output<Mail>,
    ) -> Step {
        match error {
            DecodeError::Unknown { cid, .. } => {
                let text = "Unrecognized message.";
                self.refuse(conn, session, cid, error_code::UNRECOGNIZED_PAYLOAD, text, out)
            }
            DecodeError::Missing { cid } => {
                let text = "Missing message.";
                self.refuse(conn, session, cid, error_code::MISSING_PAYLOAD, text, out)
            }
            _ => {
                self.stats.socket_ws_closed_malformed.up();
                Step::Close(1000, "received malformed payload")
            }
        }
    }

    fn match_id(&self, text: &str) -> Result<MatchId, MatchIdError> {
        MatchId::parse(text, &self.topology.nodes)
    }

    /// Answers for an id that names no match of this node: text that is no id is refused, another
    /// node's match is as unknown as one that never was.
    fn bad_match_id(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: &str,
        error: MatchIdError,
        out: &mut Output<Mail>,
    ) -> Step {
        let error = match error {
            MatchIdError::Malformed => (error_code::BAD_INPUT, "Invalid match ID"),
            MatchIdError::OtherNode => (error_code::MATCH_NOT_FOUND, "Match not found"),
        };
        self.reply_error(conn, session.format, cid, error, out);
        Step::Refused
    }

    /// The match in a matchmaker's token (Nakama 3.40, `server/pipeline_match.go`).
    fn match_of_token(&self, now: Now, token: &str) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct MatchClaims {
            mid: String,
            exp: u64,
        }
        let claims = self.signer.session_key().open(token).ok()?;
        let claims: MatchClaims = serde_json::from_slice(&claims).ok()?;
        (now.unix_s() < claims.exp).then_some(claims.mid)
    }

    fn match_data(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &Session,
        send: realtime::MatchDataSend,
        out: &mut Output<Mail>,
    ) -> Step {
        let id = match self.match_id(&send.match_id) {
            Ok(id) => id,
            // Not even an error for what cannot be there (as in Nakama).
            Err(MatchIdError::OtherNode) => return Step::Done,
            Err(error) => return self.bad_match_id(conn, session, "", error, out),
        };
        let mut to = SmallVec::new();
        for presence in &send.presences {
            let ids = Uuid::try_parse(&presence.user_id).and(Uuid::try_parse(&presence.session_id));
            // One malformed presence drops the message (as in Nakama).
            let Ok(session_id) = ids else { return Step::Done };
            to.push(session_id);
        }
        to.sort_unstable();
        to.dedup();
        let input = MatchInput {
            session_id: session.session_id,
            id,
            op_code: send.op_code,
            data: send.data,
            to,
            reliable: send.reliable,
            by_datagram: false,
            receive_time_ms: now.unix_ms,
        };
        self.request_room(self.topology.room_of_match(id), RoomRequest::MatchData(Box::new(input)));
        Step::Done
    }

    fn match_create(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: String,
        create: &realtime::MatchCreate,
    ) -> Step {
        let id = if create.name.is_empty() {
            let uuid = uuid::Builder::from_random_bytes(self.random.bytes()).into_uuid();
            MatchId::relayed(uuid)
        } else {
            MatchId::named(&create.name)
        };
        let member = self.member(conn, session);
        let room = self.topology.room_of_match(id);
        let waiting = self.waiting_at(room, &cid, true);
        self.request_room(room, RoomRequest::MatchCreate { member, cid, id });
        Step::wait(waiting)
    }

    fn match_join(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &Session,
        cid: String,
        join: realtime::MatchJoin,
        out: &mut Output<Mail>,
    ) -> Step {
        let (text, by_token) = match (join.match_id, join.token) {
            (Some(id), _) => (id, false),
            (None, Some(token)) => {
                let Some(id) = self.match_of_token(now, &token) else {
                    return self.bad_input(conn, session, &cid, "Invalid match token", out);
                };
                (id, true)
            }
            (None, None) => {
                let text = "No match ID or token found";
                return self.bad_input(conn, session, &cid, text, out);
            }
        };
        let id = match self.match_id(&text) {
            Ok(id) => id,
            Err(error) => return self.bad_match_id(conn, session, &cid, error, out),
        };
        let member = self.member(conn, session);
        let request = Box::new(JoinRequest {
            presence: member.presence.clone(),
            metadata: join.metadata.into_iter().collect(),
            vars: session.claims.vars.clone(),
            user_session_exp: session.claims.expires_s,
            client_ip: Some(session.client.ip()),
            client_port: Some(session.client.port()),
        });
        let room = self.topology.room_of_match(id);
        let waiting = self.waiting_at(room, &cid, true);
        self.request_room(room, RoomRequest::MatchJoin { member, cid, id, by_token, request });
        Step::wait(waiting)
    }

    fn status_update(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: String,
        update: realtime::StatusUpdate,
        out: &mut Output<Mail>,
    ) -> Step {
        let is_long = |status: &String| {
            status.len() > STATUS_CHARS_MAX && status.chars().count() > STATUS_CHARS_MAX
        };
        if update.status.as_ref().is_some_and(is_long) {
            let text = "Status must be 2048 characters or less";
            return self.bad_input(conn, session, &cid, text, out);
        }
        let member = self.member(conn, session);
        let room = self.topology.room_of(session.user_id());
        let waiting = self.waiting_at(room, &cid, false);
        if self.topology.is_reachable(room) {
            self.note_status(conn, room, update.status.as_deref());
        }
        self.request_room(room, RoomRequest::StatusUpdate { member, cid, status: update.status });
        Step::wait(waiting)
    }

    /// The users must exist: the batcher looks them up, then their rooms are asked.
    fn status_follow(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: String,
        follow: realtime::StatusFollow,
        out: &mut Output<Mail>,
    ) -> Step {
        let Some(ids) = parse_ids(&follow.user_ids) else {
            return self.bad_input(conn, session, &cid, "Invalid user identifier", out);
        };
        let work = Work::FindUsers { ids, usernames: follow.usernames };
        if let Err(error) = self.job_of(conn, session, work, out) {
            return self.too_many(conn, session.format, &cid, &error, out);
        }
        Step::wait(Waiting::new(cid, WaitKind::Follow))
    }

    fn socket_rpc(
        &mut self,
        conn: ConnId,
        session: &Session,
        cid: String,
        rpc: realtime::Rpc,
        out: &mut Output<Mail>,
    ) -> Step {
        if rpc.id.is_empty() {
            return self.bad_input(conn, session, &cid, "RPC ID must be set", out);
        }
        let id = lower_case(rpc.id);
        if id == super::datagrams::RPC_ID && self.settings.datagrams.is_some() {
            return self.grant_datagrams(conn, session, &cid, out);
        }
        let context = session_context("rpc", session);
        let call = RpcJob { id: id.clone(), payload: Bytes::from(rpc.payload), context };
        if let Err(error) = self.job_of(conn, session, Work::Rpc(Box::new(call)), out) {
            return self.too_many(conn, session.format, &cid, &error, out);
        }
        Step::wait(Waiting::new(cid, WaitKind::Rpc(id)))
    }

    /// Hands over work that a session wants.
    pub(super) fn job_of(
        &mut self,
        conn: ConnId,
        session: &Session,
        work: Work,
        out: &mut Output<Mail>,
    ) -> Result<(), ApiError> {
        let (queue, address, group) = (work.queue(), self.address(conn), session.group);
        let caller = Some(session.claims.clone());
        let (stream, format) = (0, session.format);
        let client = session.client.limited(&self.settings.limits);
        self.job(Job { queue, address, stream, format, work, caller, group, client }, out)
    }

    pub(super) fn too_many(
        &mut self,
        conn: ConnId,
        format: Format,
        cid: &str,
        error: &ApiError,
        out: &mut Output<Mail>,
    ) -> Step {
        let error = (error_code::RUNTIME_EXCEPTION, &*error.message);
        self.reply_error(conn, format, cid, error, out);
        Step::Refused
    }
}

/// What scripts see of a session.
pub(super) fn session_context(execution_mode: &'static str, session: &Session) -> CallContext {
    CallContext {
        execution_mode,
        user_id: Some(session.user_id()),
        username: Some(session.claims.username.to_string()),
        vars: session.claims.vars.clone(),
        user_session_exp: Some(session.claims.expires_s),
        session_id: Some(session.session_id),
        lang: Some(session.lang().to_owned()),
        client_ip: Some(session.client.ip()),
        client_port: Some(session.client.port()),
        ..CallContext::default()
    }
}

/// In place, unless letters change their length.
fn lower_case(mut text: String) -> String {
    if !text.is_ascii() {
        return text.to_lowercase();
    }
    text.make_ascii_lowercase();
    text
}

fn parse_ids(texts: &[String]) -> Option<Vec<Uuid>> {
    texts.iter().map(|text| Uuid::try_parse(text).ok()).collect()
}
