//! One realtime socket: a session. Messages are handled one at a time, in order; one that needs a
//! worker or a room makes those behind it wait (as in Nakama). Frames that rooms send go out
//! between, as they come.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::guest::Presence;
use game::node::NodeId;
use game::session::Claims;
use uuid::Uuid;
use wire::nakama::Envelope;
use wire::nakama::realtime::error_code;
use wire::websocket::{self as ws, Message};

use super::backlog::{Backlog, SOCKET_UNTAKEN_BYTES_MAX};
use super::{Core, State};
use crate::frames;
use crate::mail::{Address, Delivery, Format, Mail, Member, RoomMail, Then, Topology};
use crate::settings::LimitSettings;
use crate::stats::Counter;

/// The state of a socket. Most sockets are idle, and what they weigh is what a server can hold: what
/// only some have is in a box, and nothing is here that the claims hold too.
pub(super) struct Session {
    pub(super) session_id: Uuid,
    pub(super) claims: Arc<Claims>,
    lang: Option<Box<Lang>>,
    /// The client's address and port, as its handshake and the proxies tell.
    pub(super) client: Client,
    /// The records of its user and of its address (`crate::limits`).
    pub(super) group: u32,
    pub(super) address: u32,
    pub(super) format: Format,
    decoder: ws::Decoder,
    /// Bytes behind the message that is being answered, or for the next turn.
    pub(super) backlog: Backlog,
    /// The peer sends no more.
    pub(super) is_eof: bool,
    /// When the message that is not complete yet began.
    began: Option<Moment>,
    pub(super) waiting: Option<Box<Waiting>>,
    pub(super) heard: Moment,
    pinged: Moment,
    /// When we sent a close frame; from then on nothing else is sent.
    pub(super) closing: Option<Moment>,
}

/// The language of a socket that names none.
const LANG: &str = "en";

/// A language other than [`LANG`].
struct Lang(Box<str>);

/// A moment by the clock that never goes back, as its nanoseconds and one. An `Option` of it takes 8
/// bytes, one of a [`Now`] 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(NonZeroU64);

impl From<Now> for Moment {
    fn from(now: Now) -> Self {
        Self(NonZeroU64::MIN.saturating_add(now.mono_ns))
    }
}

impl Moment {
    /// So many milliseconds later; stops at the end of time.
    fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }
}

/// A client's address, without the text that scripts see of it: sockets are many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    ip: Option<IpAddr>,
    port: Option<u16>,
}

impl Client {
    /// Of the texts that scripts see; an empty port is one that proxies did not tell.
    pub(super) fn of((ip, port): &(String, String)) -> Self {
        Self { ip: ip.parse().ok(), port: port.parse().ok() }
    }

    /// As in [`crate::mail::Job::client`].
    pub(super) fn limited(self, limits: &LimitSettings) -> u128 {
        self.ip.and_then(|ip| limits.client(ip)).unwrap_or(0)
    }

    pub(super) fn ip(self) -> String {
        self.ip.map(|ip| ip.to_string()).unwrap_or_default()
    }

    pub(super) fn port(self) -> String {
        self.port.map(|port| port.to_string()).unwrap_or_default()
    }
}

/// A message that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Empty if a room answers: the room was given it.
    pub(super) cid: String,
    pub(super) kind: WaitKind,
    /// The message itself, if a room answers it and an after-hook is to see both.
    pub(super) observed: Option<Box<Envelope>>,
    /// If rooms of other nodes are asked.
    pub(super) far: Option<Box<Far>>,
}

/// What a core keeps of a message that rooms of other nodes are asked for: they may go.
#[derive(Debug)]
pub(super) struct Far {
    /// The message's.
    pub(super) cid: String,
    /// The node that it is at; `None` is this one.
    pub(super) at: Option<NodeId>,
    /// Whether the session may be in something there when that node has answered.
    pub(super) enters: bool,
}

impl Waiting {
    pub(super) fn new(cid: String, kind: WaitKind) -> Self {
        Self { cid, kind, observed: None, far: None }
    }

    pub(super) fn for_room() -> Self {
        Self::new(String::new(), WaitKind::Room)
    }

    /// A room is asked, by itself or as the next one.
    pub(super) fn goes_to(
        &mut self,
        topology: &Topology,
        room: Address<RoomMail>,
        cid: &str,
        enters: bool,
    ) {
        if topology.is_here(room) {
            if let Some(far) = &mut self.far {
                far.at = None;
            }
            return;
        }
        let new = || Box::new(Far { cid: cid.to_owned(), at: None, enters });
        let far = self.far.get_or_insert_with(new);
        (far.at, far.enters) = (Some(room.node()), enters);
    }

    /// The same, where several rooms are asked one after the other.
    pub(super) fn for_rooms() -> Self {
        Self::new(String::new(), WaitKind::Rooms(Some(Vec::new())))
    }
}

/// Frames with news of users that wait behind the answer of several rooms; with more, all of them are
/// sent before it.
const NEWS_HELD_MAX: usize = 256;

/// Who answers.
#[derive(Debug)]
pub(super) enum WaitKind {
    /// A room, with a finished frame.
    Room,
    /// Several rooms, one after the other. What the first ones tell of their users before the last one
    /// has answered is newer than the answer, and waits behind it. `None`: it was too much.
    Rooms(Option<Vec<Bytes>>),
    /// A caller, with the text for this RPC id.
    Rpc(String),
    /// The batcher finds the users, then a room follows them.
    Follow,
    /// A caller, with what the before-hook made of the message.
    Before,
}

/// What a message led to.
pub(super) enum Step {
    /// It is done; go on.
    Done,
    /// It was answered with an error; go on.
    Refused,
    /// The messages behind it wait.
    Wait(Box<Waiting>),
    /// The socket is to be closed, with this code and reason.
    Close(u16, &'static str),
}

impl Step {
    pub(super) fn wait(waiting: Waiting) -> Self {
        Self::Wait(Box::new(waiting))
    }
}

impl Session {
    /// Keeps a frame with news of users until several rooms have answered; `false` if it may go at once.
    /// When it is one too many, all that were kept go, in their order, and no more are kept.
    fn holds_news(
        &mut self,
        conn: ConnId,
        frame: &Bytes,
        early_count: &Counter,
        out: &mut Output<Mail>,
    ) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        let WaitKind::Rooms(held) = &mut waiting.kind else { return false };
        if let Some(held) = held
            && held.len() < NEWS_HELD_MAX
        {
            held.push(frame.clone());
            return true;
        }
        early_count.up();
        for frame in held.take().into_iter().flatten() {
            early_count.up();
            out.send_shared(conn, frame);
        }
        false
    }

    /// A session that has just been let in.
    pub(super) fn new(
        now: Now,
        session_id: Uuid,
        claims: Arc<Claims>,
        options: (Format, &str),
        (client, (group, address)): (Client, (u32, u32)),
        (message_bytes_max, backlog): (usize, Backlog),
    ) -> Self {
        Self {
            session_id,
            claims,
            lang: (options.1 != LANG).then(|| Box::new(Lang(options.1.into()))),
            client,
            group,
            address,
            format: options.0,
            decoder: ws::Decoder::new(ws::Role::Server, message_bytes_max),
            backlog,
            is_eof: false,
            began: None,
            waiting: None,
            heard: now.into(),
            pinged: now.into(),
            closing: None,
        }
    }

    pub(super) fn user_id(&self) -> Uuid {
        self.claims.user_id
    }

    pub(super) fn lang(&self) -> &str {
        self.lang.as_ref().map_or(LANG, |lang| &lang.0)
    }
}

impl Core {
    pub(super) fn socket_bytes(
        &mut self,
        now: Now,
        conn: ConnId,
        mut session: Box<Session>,
        bytes: &[u8],
        out: &mut Output<Mail>,
    ) {
        session.heard = now.into();
        let backlog = &mut session.backlog;
        if session.waiting.is_none() && backlog.is_empty() && !backlog.waits_for_taking() {
            return self.socket_run(now, conn, session, bytes, out);
        }
        session.backlog.hold(bytes);
        session.backlog.backpressure(conn, out);
        self.put(conn, State::Socket(session));
    }

    /// Handles the messages that wait, or else those in `fresh`, until one waits, the bytes are
    /// used up, or the connection has had its share of the turn.
    pub(super) fn socket_run(
        &mut self,
        now: Now,
        conn: ConnId,
        mut session: Box<Session>,
        fresh: &[u8],
        out: &mut Output<Mail>,
    ) {
        let lent = session.backlog.lend();
        let mut input = lent.or(fresh);
        let mut scratch = std::mem::take(&mut self.scratch);
        loop {
            if !input.is_empty() && session.backlog.waits_for_taking() {
                break;
            }
            if !input.is_empty() && !session.backlog.may_handle(self.turn) {
                self.queue_backlog(conn, &mut session.backlog);
                break;
            }
            let before = out.unsent();
            let step = match session.decoder.next(&mut input, &mut scratch) {
                Ok(Some(Message::Close { code, .. })) => {
                    scratch.clear();
                    self.scratch = scratch;
                    return self.peer_closed(conn, &session, code, out);
                }
                // After our close frame only theirs is of interest.
                Ok(Some(_)) if session.closing.is_some() => continue,
                Ok(Some(message)) => self.frame(now, conn, &mut session, &message, out),
                Ok(None) => break,
                Err(_) if session.closing.is_some() => break,
                Err(error) => {
                    self.stats.socket_ws_closed_malformed.up();
                    Step::Close(error.close_code(), close_reason(error.close_code()))
                }
            };
            if !session.decoder.is_fragmented() {
                session.began = None;
            }
            match step {
                Step::Done | Step::Refused => {
                    self.note_said(conn, &mut session, out.unsent() - before, out);
                }
                Step::Wait(waiting) => {
                    session.waiting = Some(waiting);
                    break;
                }
                Step::Close(code, reason) => {
                    self.begin_close(now, conn, &mut session, code, reason, out);
                    input = &[];
                    break;
                }
            }
        }
        self.scratch = scratch;
        let left = input.len();
        session.backlog.give_back(lent, fresh, left);
        self.socket_rests(now, conn, session, out);
    }

    /// What has come of the socket is handled as far as it may be just now.
    fn socket_rests(
        &mut self,
        now: Now,
        conn: ConnId,
        mut session: Box<Session>,
        out: &mut Output<Mail>,
    ) {
        if session.backlog.backpressure(conn, out) {
            // Its silence was ours: nobody listened.
            session.heard = now.into();
        }
        if session.decoder.is_idle() {
            session.began = None;
        } else if session.began.is_none() {
            session.began = Some(now.into());
            // The timer may be set for later than the message may take.
            let settings = &self.settings.socket;
            self.arm(now.after_ms(settings.read_timeout_ms.min(settings.ping_period_ms)), conn);
        }
        let is_over = session.is_eof && session.waiting.is_none() && session.backlog.is_empty();
        self.put(conn, State::Socket(session));
        if is_over {
            self.forget_session(conn, "");
            out.close(conn);
        }
    }

    fn frame(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &mut Session,
        message: &Message<'_>,
        out: &mut Output<Mail>,
    ) -> Step {
        let decoded = match (message, session.format) {
            (Message::Text(text), Format::Json) => Envelope::decode_json(text.as_bytes()),
            (Message::Binary(bytes), Format::Protobuf) => Envelope::decode_protobuf(bytes),
            (Message::Ping(payload), _) => {
                out.send_with(conn, |to| ws::encode(to, ws::Opcode::Pong, payload));
                return Step::Done;
            }
            (Message::Pong(_), _) => return Step::Done,
            _ => {
                self.stats.socket_ws_closed_malformed.up();
                return Step::Close(1000, "received unexpected WebSocket message type");
            }
        };
        self.stats.overall_message_count.up();
        self.stats.overall_message_recv_bytes.add(payload_len(message) as u64);
        if let Err(error) = self.admit_message(session) {
            let cid = decoded.as_ref().map_or("", |envelope| &envelope.cid);
            let error = (error_code::RUNTIME_EXCEPTION, &*error.message);
            self.reply_error(conn, session.format, cid, error, out);
            return Step::Refused;
        }
        match decoded {
            Ok(envelope) => self.message(now, conn, session, envelope, out),
            Err(error) => self.undecodable(conn, session, &error, out),
        }
    }

    /// The client's close frame: echoed if it began, then the connection closes.
    fn peer_closed(
        &mut self,
        conn: ConnId,
        session: &Session,
        code: Option<u16>,
        out: &mut Output<Mail>,
    ) {
        if session.closing.is_none() {
            out.send_with(conn, |to| ws::encode_close(to, code.unwrap_or(1000), ""));
            self.session_over(conn, session, "");
        }
        out.close(conn);
        self.put(conn, State::Closing);
    }

    /// Sends a close frame and ends the session; the connection closes when the client answers,
    /// or after `socket.close_ack_wait_ms`.
    pub(super) fn begin_close(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &mut Session,
        code: u16,
        reason: &str,
        out: &mut Output<Mail>,
    ) {
        if session.closing.is_some() {
            return;
        }
        session.closing = Some(now.into());
        session.waiting = None;
        if session.backlog.clear() {
            out.reading(conn, true);
        }
        out.send_with(conn, |to| ws::encode_close(to, code, reason));
        self.session_over(conn, session, reason);
        self.arm(now.after_ms(self.settings.socket.close_ack_wait_ms), conn);
    }

    /// Closes a socket from outside: a script, a ban, a shutdown.
    pub(super) fn close_socket(
        &mut self,
        now: Now,
        conn: ConnId,
        code: u16,
        reason: &str,
        out: &mut Output<Mail>,
    ) {
        match self.take(conn) {
            State::Socket(mut session) => {
                self.begin_close(now, conn, &mut session, code, reason, out);
                self.put(conn, State::Socket(session));
            }
            other => self.put(conn, other),
        }
    }

    /// Frames from a room.
    pub(super) fn deliver(&mut self, now: Now, delivery: Delivery, out: &mut Output<Mail>) {
        if let Then::ByDatagram { drops } = delivery.then {
            return self.deliver_by_datagram(now, &delivery, drops, out);
        }
        for conn in &delivery.to {
            let conn = *conn;
            let Some(slot) = self.conns.get_mut(conn.slot as usize) else { continue };
            let State::Socket(session) = &mut slot.state else { continue };
            if slot.generation != conn.generation || session.closing.is_some() {
                continue;
            }
            self.stats.overall_message_sent_bytes.add(delivery.frame.len() as u64);
            if delivery.then == Then::NewsOfUsers
                && session.holds_news(conn, &delivery.frame, &self.stats.news_early, out)
            {
                continue;
            }
            match delivery.then {
                Then::DropIfBehind => out.offer_shared(conn, delivery.frame.clone()),
                _ => out.send_shared(conn, delivery.frame.clone()),
            }
            let is_observed =
                session.waiting.as_ref().is_some_and(|waiting| waiting.observed.is_some());
            if is_observed && delivery.then == Then::Answered {
                self.observed_answer(conn, &delivery.frame, out);
            }
            match delivery.then {
                Then::Nothing
                | Then::NewsOfUsers
                | Then::DropIfBehind
                | Then::ByDatagram { .. } => {}
                Then::Answered => self.answered(now, conn, delivery.frame.len() as u64, out),
                Then::Close(cause) => self.close_socket(now, conn, 1000, cause.text(), out),
            }
        }
    }

    /// So many bytes answered a message of the session.
    fn note_said(&self, conn: ConnId, session: &mut Session, bytes: u64, out: &mut Output<Mail>) {
        let settings = &self.settings.socket;
        let unsent_max = settings.outgoing_queue_size * settings.message_bytes_max;
        let untaken_max = SOCKET_UNTAKEN_BYTES_MAX.min(unsent_max / 2);
        session.backlog.note_answer(conn, bytes, untaken_max, out);
    }

    /// The message that the session waited for is answered, with so many bytes: the ones behind it
    /// have their turn.
    pub(super) fn answered(&mut self, now: Now, conn: ConnId, bytes: u64, out: &mut Output<Mail>) {
        match self.take(conn) {
            State::Socket(mut session) => {
                let waiting = session.waiting.take();
                if let Some(far) = waiting.as_ref().and_then(|waiting| waiting.far.as_ref()) {
                    self.abroad.note_answered(conn, far);
                }
                if let Some(WaitKind::Rooms(Some(held))) = waiting.map(|waiting| waiting.kind) {
                    held.into_iter().for_each(|frame| out.send_shared(conn, frame));
                }
                self.note_said(conn, &mut session, bytes, out);
                if session.backlog.is_empty() {
                    return self.socket_rests(now, conn, session, out);
                }
                self.socket_run(now, conn, session, b"", out);
            }
            other => self.put(conn, other),
        }
    }

    /// Looks whether the client still lives, and asks it now and then.
    pub(super) fn socket_check(
        &mut self,
        now: Now,
        conn: ConnId,
        mut session: Box<Session>,
        out: &mut Output<Mail>,
    ) {
        let settings = &self.settings.socket;
        let (ping_ms, pong_ms) = (settings.ping_period_ms, settings.pong_wait_ms);
        let read_ms = settings.read_timeout_ms;
        let moment = Moment::from(now);
        // Otherwise it may be ours: nobody listens, and whether it takes its answers the engine watches.
        let may_be_silent = session.waiting.is_none() && !session.backlog.is_untaken();
        if let Some(closing) = session.closing {
            if moment >= closing.after_ms(settings.close_ack_wait_ms) {
                out.close(conn);
                return self.put(conn, State::Closing);
            }
        } else if session.began.is_some_and(|began| moment >= began.after_ms(read_ms)) {
            self.stats.socket_ws_closed_slow.up();
            let reason = "a message did not arrive within socket.read_timeout_ms";
            self.begin_close(now, conn, &mut session, 1008, reason, out);
            return self.put(conn, State::Socket(session));
        } else if may_be_silent && moment >= session.heard.after_ms(pong_ms) {
            self.stats.socket_ws_closed_silent.up();
            self.begin_close(now, conn, &mut session, 1000, "read timeout: pong not received", out);
            return self.put(conn, State::Socket(session));
        } else if moment >= session.heard.max(session.pinged).after_ms(ping_ms) {
            // Whoever talks is alive: only silent clients are asked.
            session.pinged = moment;
            out.send_with(conn, |to| ws::encode(to, ws::Opcode::Ping, b""));
        }
        let mut due = session.heard.max(session.pinged).after_ms(ping_ms);
        if may_be_silent {
            due = due.min(session.heard.after_ms(pong_ms));
        }
        if let Some(began) = session.began {
            due = due.min(began.after_ms(read_ms));
        }
        let Moment(due_ns) = due.max(moment.after_ms(1));
        self.put(conn, State::Socket(session));
        self.arm(Now { mono_ns: due_ns.get() - 1, ..now }, conn);
    }

    /// Sends an answer of the core's own.
    pub(super) fn reply(&mut self, conn: ConnId, frame: &[u8], out: &mut Output<Mail>) {
        self.stats.overall_message_sent_bytes.add(frame.len() as u64);
        out.send(conn, frame);
    }

    /// Answers a message with an error; the socket stays open.
    pub(super) fn reply_error(
        &mut self,
        conn: ConnId,
        format: Format,
        cid: &str,
        error: (i32, &str),
        out: &mut Output<Mail>,
    ) {
        self.stats.overall_message_errors.up();
        let frame = frames::error(format, cid, error.0, error.1);
        self.reply(conn, &frame, out);
    }

    /// The session as rooms know it.
    pub(super) fn member(&self, conn: ConnId, session: &Session) -> Member {
        Member {
            presence: Presence {
                user_id: session.user_id(),
                session_id: session.session_id,
                username: session.claims.username.clone(),
                node: self.me.node(),
            },
            address: self.address(conn),
            format: session.format,
        }
    }
}

/// What a client is told that broke the framing, by close code (RFC 6455 §7.4.1).
fn close_reason(code: u16) -> &'static str {
    match code {
        1007 => "received text that is not UTF-8",
        1009 => "message too big: the limit is socket.max_message_size_bytes",
        _ => "received malformed frame",
    }
}

fn payload_len(message: &Message<'_>) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::Session;
    use crate::core::Slot;

    #[test]
    fn an_idle_socket_is_small() {
        // 192 is one of mimalloc's sizes; the next one is 224.
        assert!(size_of::<Session>() <= 192, "{} bytes", size_of::<Session>());
        assert!(size_of::<Slot>() <= 24, "{} bytes", size_of::<Slot>());
    }
}
