//! How answers become HTTP responses and socket frames.
//!
//! Source: Nakama 3.40, `server/api.go`, `server/api_rpc.go`, `server/session_ws.go`; for the codes
//! gRPC-gateway, `runtime/errors.go`.

use std::net::SocketAddr;

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::error::{ApiError, Code};
use game::guest::{ScriptError, ScriptFailure};
use wire::http1::{self, Connection, HttpError, ResponseHead};
use wire::nakama::realtime::{self, Message, error_code};

use super::http::{AnswerKind, Pending};
use super::socket::{WaitKind, Waiting};
use super::{Core, State};
use crate::frames;
use crate::mail::{
    AWAY, Address, Done, Follow, HookStep, Job, Mail, Outcome, RoomError, RoomMail, RoomRequest,
    Work,
};
use crate::settings::Settings;
use crate::stats::Metered;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
/// Bodies from here on are not copied, and refused while clients have too much unsent.
pub(super) const LARGE_BYTES_MIN: usize = 16 << 10;
/// Browsers of any origin may read answers (as in Nakama 3.40, `server/api.go`).
const CORS: &[u8] = b"Access-Control-Allow-Origin: *\r\n";
/// Most limits are counted by the second (RFC 6585 §4, RFC 9110 §10.2.3).
pub(super) const RETRY_AFTER: &[u8] = b"Retry-After: 1\r\n";
/// What browsers are told before they send anything but a simple request.
const PREFLIGHT: &[u8] = b"Access-Control-Allow-Origin: *\r\n\
    Access-Control-Allow-Headers: Authorization,Content-Type,User-Agent\r\n\
    Access-Control-Allow-Methods: GET,HEAD,POST,PUT,DELETE\r\n\
    Access-Control-Max-Age: 86400\r\n";

/// Header lines of every API answer.
pub(super) fn fixed_headers(settings: &Settings) -> Vec<u8> {
    let mut lines = b"Cache-Control: no-store, no-cache, must-revalidate\r\n\
        Vary: Accept-Encoding\r\n\
        Grpc-Metadata-Content-Type: application/grpc\r\n"
        .to_vec();
    for (name, value) in &settings.socket.response_headers {
        http1::write_header(&mut lines, name, value);
    }
    lines
}

/// How a response goes out, besides its status and body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) connection: Connection,
    pub(super) cors: bool,
    /// The client accepts gzip.
    pub(super) takes_gzip: bool,
    /// It answers HEAD: whoever reads a body after it takes it for the next answer.
    pub(super) is_head: bool,
    /// The call that is answered, for its counters.
    pub(super) metered: Option<Metered>,
}

impl Manner {
    /// What is kept of it while a worker has the request.
    pub(super) fn waiting(self, keep_alive: bool, kind: AnswerKind) -> Pending {
        let Self { cors, takes_gzip, metered, .. } = self;
        Pending { keep_alive, cors, takes_gzip, kind, metered }
    }

    /// Of an answer to what is no call, after which the connection closes.
    const CLOSE: Self = Self {
        connection: Connection::Close,
        cors: false,
        takes_gzip: false,
        is_head: false,
        metered: None,
    };
}

impl Core {
    /// Sends a response with the headers that all API answers carry.
    pub(super) fn respond(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        response: (u16, &str, &[u8]),
        out: &mut Output<Mail>,
    ) {
        let lines = if manner.cors { CORS } else { b"" };
        self.respond_with(now, conn, manner, lines, response, out);
    }

    /// An answer with header lines of its own beside those of every answer.
    pub(super) fn respond_with(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        lines: &[u8],
        response: (u16, &str, &[u8]),
        out: &mut Output<Mail>,
    ) {
        let extra_len = self.fixed_headers.len();
        self.fixed_headers.extend_from_slice(lines);
        self.respond_with_fixed(now, conn, manner, response, out);
        self.fixed_headers.truncate(extra_len);
    }

    fn respond_with_fixed(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        (status, content_type, body): (u16, &str, &[u8]),
        out: &mut Output<Mail>,
    ) {
        self.count_response(now, manner.metered, (status, body.len()));
        self.renew_date(now);
        let mut head = ResponseHead::new(status, content_type, manner.connection);
        head.extra = &self.fixed_headers;
        head.head_only = manner.is_head;
        out.send_with(conn, |to| http1::respond(to, &head, body, &self.date.1));
    }

    pub(super) fn count_response(
        &mut self,
        now: Now,
        metered: Option<Metered>,
        (status, body_bytes): (u16, usize),
    ) {
        if let Some(request) = metered {
            self.stats.calls.note(now, request, status, body_bytes);
        }
        self.stats.overall_request_count.up();
        self.stats.overall_request_sent_bytes.add(body_bytes as u64);
        if status >= 400 {
            self.stats.overall_request_errors.up();
        }
    }

    fn renew_date(&mut self, now: Now) {
        if self.date.0 != now.unix_s() {
            self.date = (now.unix_s(), http1::date(now.unix_s()));
        }
    }

    pub(super) fn respond_json(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        body: &[u8],
        out: &mut Output<Mail>,
    ) {
        self.respond(now, conn, manner, (200, JSON, body), out);
    }

    /// A refusal of the REST interface: `{"code":…,"message":"…"}`.
    pub(super) fn respond_error(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        error: &ApiError,
        out: &mut Output<Mail>,
    ) {
        let mut body = Vec::with_capacity(64 + error.message.len());
        error.write_body(&mut body);
        self.respond_refusal(now, conn, manner, error, &body, out);
    }

    /// A refusal of `/v2/rpc/{id}`, whose body has a third key.
    pub(super) fn respond_rpc_error(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        error: &ApiError,
        out: &mut Output<Mail>,
    ) {
        let mut body = Vec::with_capacity(64 + 2 * error.message.len());
        error.write_rpc_body(&mut body);
        self.respond_refusal(now, conn, manner, error, &body, out);
    }

    fn respond_refusal(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        error: &ApiError,
        body: &[u8],
        out: &mut Output<Mail>,
    ) {
        let fixed_len = self.fixed_headers.len();
        match error.code {
            Code::Unauthenticated => {
                http1::write_header(&mut self.fixed_headers, "WWW-Authenticate", &error.message);
            }
            Code::ResourceExhausted | Code::Unavailable => match error.retry_after_s {
                None => self.fixed_headers.extend_from_slice(RETRY_AFTER),
                Some(seconds) => {
                    let value = seconds.to_string();
                    http1::write_header(&mut self.fixed_headers, "Retry-After", &value);
                }
            },
            _ => {}
        }
        self.respond(now, conn, manner, (error.code.http_status(), JSON, body), out);
        self.fixed_headers.truncate(fixed_len);
    }

    pub(super) fn respond_preflight(
        &mut self,
        now: Now,
        conn: ConnId,
        connection: Connection,
        out: &mut Output<Mail>,
    ) {
        self.count_response(now, None, (200, 0));
        self.renew_date(now);
        let mut head = ResponseHead::new(200, "", connection);
        head.extra = PREFLIGHT;
        out.send_with(conn, |to| http1::respond(to, &head, b"", &self.date.1));
    }

    /// Text answers of the handshake (Nakama 3.40, `server/socket_ws.go`), with header lines of
    /// their own.
    pub(super) fn respond_text(
        &mut self,
        now: Now,
        conn: ConnId,
        connection: Connection,
        (status, extra, text): (u16, &[u8], &str),
        out: &mut Output<Mail>,
    ) {
        self.count_response(now, None, (status, text.len()));
        self.renew_date(now);
        let mut head = ResponseHead::new(status, TEXT, connection);
        head.extra = extra;
        out.send_with(conn, |to| http1::respond(to, &head, text.as_bytes(), &self.date.1));
    }

    /// A client that speaks another protocol is most likely configured wrongly, and its own error
    /// seldom says how: the log does.
    pub(super) fn say_foreign(&mut self, now: Now, peer: SocketAddr, error: HttpError) {
        let (kind, what) = match error {
            HttpError::Http2 => (
                "a client speaks HTTP/2",
                format!("HTTP/2, as gRPC clients do: {}", self.where_grpc_is()),
            ),
            HttpError::Tls => (
                "a client speaks TLS",
                "TLS (https:// or wss://), and only plain HTTP is spoken here: switch SSL off in \
                 the client, or put a proxy in front that ends TLS"
                    .to_owned(),
            ),
            _ => return,
        };
        self.limit_log.note(now, kind, format_args!("{peer} speaks {what}"));
    }

    /// For clients of gRPC at the port of HTTP/1.1, and their operators.
    fn where_grpc_is(&self) -> String {
        match self.settings.socket.grpc_port {
            Some(port) => format!("gRPC is spoken on port {port}, and HTTP/1.1 here"),
            None => "gRPC is switched off (`socket.grpc`), and HTTP/1.1 is spoken here".to_owned(),
        }
    }

    /// Bytes that are no HTTP request, or one beyond the limits: the connection closes after it.
    pub(super) fn answer_broken(
        &mut self,
        now: Now,
        conn: ConnId,
        error: &HttpError,
        out: &mut Output<Mail>,
    ) {
        if *error == HttpError::Http2 {
            return out.send(conn, &wire::http2::refusal(&self.where_grpc_is()));
        }
        let mut body = Vec::new();
        ApiError::invalid(error.to_string()).write_body(&mut body);
        // Too large a body is 400 in Nakama; for the other limits HTTP has statuses.
        let status = if *error == HttpError::BodyTooLarge { 400 } else { error.status() };
        self.respond(now, conn, Manner::CLOSE, (status, JSON, &body), out);
    }

    /// A connection that is one too many: told before it asks, as it may never ask.
    pub(super) fn refuse_connection(
        &mut self,
        now: Now,
        conn: ConnId,
        error: &ApiError,
        out: &mut Output<Mail>,
    ) {
        self.respond_error(now, conn, Manner::CLOSE, error, out);
        out.close(conn);
    }

    pub(super) fn answer_timeout(&mut self, now: Now, conn: ConnId, out: &mut Output<Mail>) {
        let text = "the request did not arrive within socket.read_timeout_ms\n";
        self.respond_text(now, conn, Connection::Close, (408, b"", text), out);
    }

    /// Sends a response without copying its body, if it is worth that.
    fn respond_owned(
        &mut self,
        now: Now,
        conn: ConnId,
        manner: Manner,
        (content_type, body): (&str, impl Into<Bytes>),
        out: &mut Output<Mail>,
    ) {
        let body = body.into();
        if manner.takes_gzip
            && let Some(packed) = self.pack(&body)
        {
            let fixed_len = self.fixed_headers.len();
            self.fixed_headers.extend_from_slice(b"Content-Encoding: gzip\r\n");
            self.respond(now, conn, manner, (200, content_type, &packed), out);
            return self.fixed_headers.truncate(fixed_len);
        }
        if body.len() < LARGE_BYTES_MIN {
            return self.respond(now, conn, manner, (200, content_type, &body), out);
        }
        let fixed_len = self.fixed_headers.len();
        if manner.cors {
            self.fixed_headers.extend_from_slice(CORS);
        }
        self.count_response(now, manner.metered, (200, body.len()));
        self.renew_date(now);
        let mut head = ResponseHead::new(200, content_type, manner.connection);
        head.extra = &self.fixed_headers;
        head.head_only = manner.is_head;
        let date = &self.date.1;
        if out.send_with(conn, |to| http1::respond_head(to, &head, body.len(), date)) {
            out.send_shared(conn, body);
        }
        self.fixed_headers.truncate(fixed_len);
    }

    /// Whether clients have so much unsent that a large answer is not begun.
    pub(super) fn is_full(&mut self, now: Now, more: usize, out: &Output<Mail>) -> bool {
        let bytes_max = self.settings.answers.unsent_bytes_max;
        let unsent = out.unsent().saturating_add(self.stats.grpc_unwritten_bytes.read());
        let is_full = unsent.saturating_add(more as u64) > bytes_max;
        if is_full {
            self.stats.answers_refused.up();
            let what = "clients take their answers too slowly, large ones are refused with 503";
            self.limit_log.hit(now, "limit.unsent_max_bytes", what);
        }
        is_full
    }

    /// The outcome, or a refusal in place of a large one for which there is no room.
    fn within_budget(&mut self, now: Now, outcome: Outcome, out: &Output<Mail>) -> Outcome {
        let bytes = match &outcome {
            Outcome::Api(Ok(answer)) => answer.body.len(),
            Outcome::Rpc(Ok(Some(answer))) => answer.len(),
            _ => 0,
        };
        if bytes < LARGE_BYTES_MIN || !self.is_full(now, bytes, out) {
            return outcome;
        }
        match outcome {
            Outcome::Rpc(_) => Outcome::Rpc(Err(script_error(&full()))),
            _ => Outcome::Api(Err(full())),
        }
    }

    /// A worker has finished a job: whoever waits for it gets the answer.
    pub(super) fn done(&mut self, now: Now, done: Done, out: &mut Output<Mail>) {
        self.job_done(&done);
        let Done { conn, stream, outcome, .. } = done;
        match outcome {
            Outcome::Waits => {}
            Outcome::NeedsCaller(job) | Outcome::Crowded(job) => self.job_again(*job, out),
            Outcome::Next(job) => {
                if let Err(error) = self.job(*job, out) {
                    self.hand_over(now, (conn, stream), Outcome::Api(Err(error)), out);
                }
            }
            outcome => self.hand_over(now, (conn, stream), outcome, out),
        }
        self.post_waiting(out);
    }

    fn hand_over(
        &mut self,
        now: Now,
        (conn, stream): (ConnId, u32),
        outcome: Outcome,
        out: &mut Output<Mail>,
    ) {
        let outcome = self.within_budget(now, outcome, out);
        match outcome {
            // Nobody waits for it.
            Outcome::After => {}
            Outcome::Shutdown => self.room_drained(now, out),
            _ => match self.take(conn) {
                State::Http(http) => self.http_done(now, conn, http, outcome, out),
                State::Socket(session) => self.socket_done(now, conn, session, outcome, out),
                State::Grpc(grpc) => self.grpc_done(now, conn, grpc, (stream, outcome), out),
                other => self.put(conn, other),
            },
        }
    }

    pub(super) fn answer_outcome(
        &mut self,
        now: Now,
        conn: ConnId,
        waiting: &Pending,
        outcome: Outcome,
        out: &mut Output<Mail>,
    ) {
        let Pending { cors, takes_gzip, metered, .. } = *waiting;
        let connection = if waiting.keep_alive { Connection::KeepAlive } else { Connection::Close };
        // No route of HEAD waits.
        let manner = Manner { connection, cors, takes_gzip, is_head: false, metered };
        match outcome {
            Outcome::Api(Ok(answer)) => {
                self.respond_owned(now, conn, manner, (JSON, answer.body), out);
            }
            Outcome::Api(Err(error)) | Outcome::Users(Err(error)) => {
                self.respond_error(now, conn, manner, &error, out);
            }
            Outcome::Rpc(Ok(answer)) => {
                let answer = answer.unwrap_or_default();
                if let AnswerKind::RpcUnwrapped(content_type) = &waiting.kind {
                    return self.respond_owned(now, conn, manner, (content_type, answer), out);
                }
                let mut body = Vec::with_capacity(answer.len() + answer.len() / 8 + 16);
                game::api::write_rpc_answer(&mut body, &answer);
                self.respond_owned(now, conn, manner, (JSON, body), out);
            }
            Outcome::Rpc(Err(error)) => {
                let refusal = rpc_error(&error);
                if error.kind == ScriptFailure::NotFound {
                    return self.respond_rpc_error(now, conn, manner, &refusal, out);
                }
                let mut body = Vec::with_capacity(64 + refusal.message.len());
                refusal.write_rpc_failure_body(&mut body);
                self.respond_refusal(now, conn, manner, &refusal, &body, out);
            }
            // Only sockets ask for users and send messages; the rest never comes here.
            Outcome::Users(Ok(_))
            | Outcome::Before(_)
            | Outcome::Next(_)
            | Outcome::NeedsCaller(_)
            | Outcome::Crowded(_)
            | Outcome::Waits
            | Outcome::After
            | Outcome::Shutdown => {}
        }
    }

    /// The same for a socket.
    fn socket_done(
        &mut self,
        now: Now,
        conn: ConnId,
        mut session: Box<super::socket::Session>,
        outcome: Outcome,
        out: &mut Output<Mail>,
    ) {
        let Some(waiting) = session.waiting.take() else {
            return self.put(conn, State::Socket(session));
        };
        let before = out.unsent();
        let Waiting { cid, kind, observed, .. } = *waiting;
        match (outcome, kind) {
            (Outcome::Before(outcome), WaitKind::Before) => {
                return self.before_done(now, conn, (session, cid), outcome, out);
            }
            (Outcome::Users(Ok(users)), WaitKind::Follow) => {
                let member = self.member(conn, &session);
                let room = self.topology.room_of(*users.first().unwrap_or(&session.user_id()));
                let is_far = users.iter().any(|id| self.topology.room_of(*id) != room);
                let mut waiting = if is_far { Waiting::for_rooms() } else { Waiting::for_room() };
                waiting.goes_to(&self.topology, room, &cid, true);
                let follow = Follow { member, cid: Some(cid), users, found: Vec::new() };
                self.request_room(room, RoomRequest::StatusFollow(Box::new(follow)));
                session.waiting = Some(Box::new(Waiting { observed, ..waiting }));
                return self.put(conn, State::Socket(session));
            }
            (Outcome::Rpc(Ok(answer)), WaitKind::Rpc(id)) => {
                let payload = rpc_text(answer);
                let rpc = realtime::Rpc { id, payload, ..Default::default() };
                let frame = frames::frame(session.format, &cid, Some(Message::Rpc(rpc)));
                self.reply(conn, &frame, out);
            }
            (Outcome::Rpc(Err(error)), _) => {
                let code = if error.kind == ScriptFailure::NotFound {
                    error_code::RUNTIME_FUNCTION_NOT_FOUND
                } else {
                    error_code::RUNTIME_FUNCTION_EXCEPTION
                };
                let error = (code, error.message.as_str());
                self.reply_error(conn, session.format, &cid, error, out);
            }
            (Outcome::Users(Err(error)) | Outcome::Api(Err(error)), _) => {
                let error = (error_code::RUNTIME_EXCEPTION, &*error.message);
                self.reply_error(conn, session.format, &cid, error, out);
            }
            (outcome, kind) => {
                tracing::error!(?outcome, ?kind, "an answer that nobody asked for");
            }
        }
        self.put(conn, State::Socket(session));
        self.answered(now, conn, out.unsent() - before, out);
    }

    /// A worker's mailbox was full: its job fails as "busy" instead of never.
    pub(super) fn job_refused(&mut self, now: Now, job: Job, out: &mut Output<Mail>) {
        self.stats.refused_jobs.up();
        let error = busy();
        let script_error = || script_error(&error);
        let outcome = match job.work {
            Work::Hooked(hooked) => match hooked.step {
                HookStep::Before | HookStep::Call => Outcome::Api(Err(error)),
                // It has happened; only its hook does not run.
                HookStep::After(answer) => {
                    self.stats.refused_after_hooks.up();
                    Outcome::Api(Ok(answer))
                }
            },
            Work::Api(_) | Work::Reload => Outcome::Api(Err(error)),
            Work::FindUsers { .. } => Outcome::Users(Err(error)),
            Work::Rpc(_) => Outcome::Rpc(Err(script_error())),
            Work::Before(_) => Outcome::Before(Err(script_error())),
            Work::After(_) => {
                self.stats.refused_after_hooks.up();
                Outcome::After
            }
            Work::Shutdown => Outcome::Shutdown,
        };
        let Job { queue, address, stream, group, .. } = job;
        let done = Done { queue, conn: address.conn, stream, group, used: None, outcome };
        self.done(now, done, out);
    }

    /// A room's mailbox was full, or its node is away: the session that waits for it is told. What
    /// nobody waits for but the room must know is posted again; a node that comes is told anew.
    pub(super) fn request_refused(
        &mut self,
        now: Now,
        room: Address<RoomMail>,
        request: RoomRequest,
        out: &mut Output<Mail>,
    ) {
        let is_away = !self.topology.is_reachable(room);
        let (member, cid) = match &request {
            RoomRequest::MatchCreate { member, cid, .. }
            | RoomRequest::MatchJoin { member, cid, .. }
            | RoomRequest::MatchLeave { member, cid, .. }
            | RoomRequest::StatusUpdate { member, cid, .. } => (member, Some(cid)),
            RoomRequest::StatusUnfollow { member, cid, .. } => (member, cid.as_ref()),
            RoomRequest::StatusFollow(follow) => (&follow.member, follow.cid.as_ref()),
            RoomRequest::Opened { .. } | RoomRequest::Closed { .. } if is_away => return,
            RoomRequest::Opened { .. } | RoomRequest::Closed { .. } => {
                let mail = room.seal(&self.topology, RoomMail::Requests(vec![request]));
                return self.keep(now, mail);
            }
            RoomRequest::Stream(wish) => {
                let why = if is_away { RoomError::Failed(AWAY.into()) } else { RoomError::Silent };
                let refusal = wish.refusal(&self.topology, why);
                return refusal.into_iter().for_each(|(to, mail)| out.mail(to, mail));
            }
            RoomRequest::MatchData(_) => return,
        };
        let Some(cid) = cid else { return self.stats.follows_of_scripts_lost.up() };
        if !self.is_open(member) {
            return;
        }
        // It may have been answered since, because its node has gone.
        if !self.topology.is_here(room) && !self.forget_far(member.address.conn, cid) {
            return;
        }
        let error = if is_away { away() } else { busy() };
        let error = (error_code::RUNTIME_EXCEPTION, &*error.message);
        let before = out.unsent();
        self.reply_error(member.address.conn, member.format, cid, error, out);
        self.answered(now, member.address.conn, out.unsent() - before, out);
    }
}

/// What is answered when too much is waiting already.
pub(super) fn busy() -> ApiError {
    ApiError::new(Code::Unavailable, "the server is busy: too many calls are waiting")
}

/// What is answered when what is asked for lives on a node that is away.
pub(super) fn away() -> ApiError {
    ApiError::new(Code::Unavailable, AWAY)
}

/// What is answered in place of a large answer when clients have too much unsent.
pub(super) fn full() -> ApiError {
    let text = "the server is busy: clients take their answers too slowly (limit.unsent_max_bytes)";
    ApiError::new(Code::Unavailable, text)
}

fn script_error(error: &ApiError) -> ScriptError {
    ScriptError {
        code: u8::try_from(error.code.number()).unwrap_or(13),
        message: error.message.clone().into_owned(),
        location: String::new(),
        kind: ScriptFailure::Raised,
    }
}

pub(super) fn rpc_error(error: &ScriptError) -> ApiError {
    let code = Code::from_number(i64::from(error.code)).unwrap_or(Code::Internal);
    ApiError::new(code, error.message.clone())
}

/// What a script's function answered, as the text of a message; what is no UTF-8 is replaced. Nothing is
/// copied unless it must be: answers have hundreds of kilobytes.
pub(super) fn rpc_text(answer: Option<Bytes>) -> String {
    let bytes = Vec::from(answer.unwrap_or_default());
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
