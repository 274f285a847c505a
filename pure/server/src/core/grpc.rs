//! One connection of gRPC: HTTP/2 with many calls at one time, each answered when its worker is
//! done. What waits, what is read and what was not taken is bounded as on an HTTP connection.
//!
//! Not here: what a call leads to and how it is answered (`grpc::calls`); what of answers may wait
//! (`grpc::windows`); HTTP/2 itself (`wire::http2`). The calls are those of the REST interface, from the same table, with the same
//! limits, hooks and metrics.
//!
//! Source: Nakama 3.40, `server/api.go`.

mod calls;
mod windows;

use std::net::SocketAddr;
use std::sync::Arc;

use event::{ConnId, Now, Output};
use game::error::ApiError;
use wire::grpc::PREFIX_BYTES;
use wire::http1::HttpError;
use wire::http2::{self, Connection, Error, Limits};

use super::backlog::{Backlog, UNTAKEN_BYTES_MAX};
use super::http::Verified;
use super::{Core, State};
use crate::mail::Mail;
use crate::stats::{CoreStats, Metered};
use windows::Waiting;
pub(super) use windows::Windows;

/// Streams of one connection at one time: calls that come, are worked on, or whose answer is not
/// taken. One more is refused, and clients wait by themselves until there is room.
const STREAMS_MAX: usize = 100;
/// Bytes of a call's header fields, each counted as 32 more (RFC 9113 section 6.5.2): a head of
/// HTTP/1.1 may have 5,120.
const HEAD_BYTES_MAX: usize = 8_192;
/// Of requests beyond 16 KiB one connection may send so many at one time, or as many as have room in a
/// MiB if that is more; the others wait.
const LARGE_REQUESTS_MAX: usize = 4;

/// The state of a connection.
pub(super) struct Grpc {
    peer: SocketAddr,
    connection: Connection,
    /// Bytes for the next turn, or behind what was not taken.
    pub(super) backlog: Backlog,
    /// What workers have.
    calls: Vec<Call>,
    /// When the last call came or was answered.
    heard: Now,
    verified: Option<Verified>,
    /// The peer sends no more.
    is_eof: bool,
    /// No call has come yet.
    is_new: bool,
    waiting: Waiting,
    stats: Arc<CoreStats>,
}

/// A call that waits for its answer.
struct Call {
    stream: u32,
    takes_gzip: bool,
    /// For the call's counters.
    metered: Option<Metered>,
}

impl Grpc {
    /// Whether nothing is asked, at work, or on its way to the client.
    fn is_at_rest(&self) -> bool {
        let is_silent = self.backlog.is_empty() && !self.backlog.is_untaken();
        is_silent && self.calls.is_empty()
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        self.stats.grpc_connections.down();
    }
}

/// A clock for `wire::http2`.
fn ms(now: Now) -> u64 {
    now.mono_ns / 1_000_000
}

impl Core {
    pub(super) fn grpc_opened(
        &mut self,
        now: Now,
        conn: ConnId,
        (peer, backlog): (SocketAddr, Backlog),
        out: &mut Output<Mail>,
    ) {
        let body_bytes_max = self.limits.body_bytes_max + PREFIX_BYTES;
        let limits = Limits {
            streams_max: STREAMS_MAX,
            head_bytes_max: HEAD_BYTES_MAX,
            body_bytes_max,
            large_bytes_max: body_bytes_max.saturating_mul(LARGE_REQUESTS_MAX).max(1 << 20),
        };
        self.stats.grpc_connections.up();
        let grpc = Grpc {
            peer,
            connection: Connection::new(limits, ms(now)),
            backlog,
            calls: Vec::new(),
            heard: now,
            verified: None,
            is_eof: false,
            is_new: true,
            waiting: self.grpc_waiting(peer),
            stats: self.stats.clone(),
        };
        self.arm(now.after_ms(self.settings.socket.read_timeout_ms), conn);
        self.grpc_flush(now, conn, Box::new(grpc), out);
    }

    pub(super) fn grpc_bytes(
        &mut self,
        now: Now,
        conn: ConnId,
        mut grpc: Box<Grpc>,
        bytes: &[u8],
        out: &mut Output<Mail>,
    ) {
        if grpc.backlog.is_empty() && !grpc.backlog.waits_for_taking() {
            return self.grpc_run(now, conn, grpc, bytes, out);
        }
        grpc.backlog.hold(bytes);
        grpc.backlog.backpressure(conn, out);
        self.put(conn, State::Grpc(grpc));
    }

    /// Handles what waits, or else what is in `fresh`, until it is used up or the connection has had
    /// its share of the turn; then sends what there is.
    pub(super) fn grpc_run(
        &mut self,
        now: Now,
        conn: ConnId,
        mut grpc: Box<Grpc>,
        fresh: &[u8],
        out: &mut Output<Mail>,
    ) {
        let lent = grpc.backlog.lend();
        let mut input = lent.or(fresh);
        let mut failed = None;
        while !input.is_empty() && !grpc.backlog.waits_for_taking() {
            if !grpc.backlog.may_handle(self.turn) {
                self.queue_backlog(conn, &mut grpc.backlog);
                break;
            }
            match grpc.connection.next(ms(now), &mut input) {
                Ok(Some(request)) => self.grpc_request(now, conn, &mut grpc, &request, out),
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    input = &[];
                }
            }
        }
        let left = input.len();
        grpc.backlog.give_back(lent, fresh, left);
        grpc.backlog.backpressure(conn, out);
        if let Some(error) = failed {
            return self.grpc_failed(now, conn, grpc, error, out);
        }
        self.grpc_flush(now, conn, grpc, out);
    }

    /// Sends what may be sent, and closes the connection if that was all.
    fn grpc_flush(&mut self, now: Now, conn: ConnId, mut grpc: Box<Grpc>, out: &mut Output<Mail>) {
        if self.stopping.is_some() {
            grpc.connection.leave("the server is stopping");
        }
        let may_write = !grpc.backlog.is_untaken();
        if may_write {
            self.grpc_write(now, conn, &mut grpc, out);
        }
        self.grpc_count(now, &mut grpc);
        // After its end a client opens no window any more: what waits for one never leaves.
        let is_done = may_write && grpc.is_eof && grpc.is_at_rest();
        if grpc.connection.is_over() || is_done {
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        self.put(conn, State::Grpc(grpc));
    }

    fn grpc_write(&mut self, now: Now, conn: ConnId, grpc: &mut Grpc, out: &mut Output<Mail>) {
        self.scratch.clear();
        // One byte more than may be untaken: then it is told when more can go.
        let _ = grpc.connection.write(ms(now), &mut self.scratch, UNTAKEN_BYTES_MAX + 1);
        if !self.scratch.is_empty() {
            out.send(conn, &self.scratch);
            let bytes = self.scratch.len() as u64;
            grpc.backlog.note_answer(conn, bytes, UNTAKEN_BYTES_MAX, out);
        }
        self.scratch.clear();
    }

    fn grpc_count(&mut self, now: Now, grpc: &mut Grpc) {
        let counts = grpc.connection.take_counts();
        self.stats.grpc_streams_refused.add(counts.refused.into());
        self.stats.grpc_cancelled.add(counts.cancelled.into());
        self.stats.grpc_malformed.add(counts.malformed.into());
        if counts.refused > 0 {
            let what = format_args!(
                "{} is refused calls over gRPC: {STREAMS_MAX} of its connection are at work, or it \
                 is ending",
                grpc.peer
            );
            self.limit_log.note(now, "streams of gRPC", what);
        }
        grpc.waiting.recount(now, self.settings.socket.write_timeout_ms, &grpc.connection);
    }

    /// What came is no HTTP/2, or too much of it: the connection closes, and is told why.
    fn grpc_failed(
        &mut self,
        now: Now,
        conn: ConnId,
        mut grpc: Box<Grpc>,
        error: Error,
        out: &mut Output<Mail>,
    ) {
        self.stats.refused_requests.up();
        let peer = grpc.peer;
        match error {
            Error::Preface => {
                let what = format_args!(
                    "{peer} sent to the port of gRPC what is no HTTP/2: HTTP/1.1 and WebSockets \
                     are spoken on socket.port"
                );
                self.limit_log.note(now, "not HTTP/2 at the port of gRPC", what);
                out.send(conn, NOT_HTTP1);
            }
            Error::Tls => self.say_foreign(now, peer, HttpError::Tls),
            Error::Calm(_) => {
                self.stats.grpc_closed_flooding.up();
                let what = format_args!("a connection of gRPC is closed: {peer} sent {error}");
                self.limit_log.note(now, "a flood over gRPC", what);
            }
            Error::Slow(_) => {
                self.stats.grpc_closed_stalled.up();
                let what = format_args!("a connection of gRPC is closed: {peer}: {error}");
                self.limit_log.hit(now, "socket.write_timeout_ms", what);
            }
            Error::Protocol(_)
            | Error::FlowControl
            | Error::FrameSize
            | Error::Compression
            | Error::StreamClosed => tracing::debug!(%peer, "a connection of gRPC failed: {error}"),
        }
        if !matches!(error, Error::Preface | Error::Tls) {
            grpc.connection.fail(error);
            self.grpc_write(now, conn, &mut grpc, out);
        }
        self.grpc_count(now, &mut grpc);
        out.close(conn);
        self.put(conn, State::Closing);
    }

    /// A connection that is one too many: told before it asks.
    pub(super) fn refuse_grpc(&mut self, conn: ConnId, error: &ApiError, out: &mut Output<Mail>) {
        out.send(conn, &http2::too_many(&error.message));
        out.close(conn);
    }

    /// The peer has closed its sending side: what it asked is answered before we close ours.
    pub(super) fn grpc_eof(
        &mut self,
        now: Now,
        conn: ConnId,
        mut grpc: Box<Grpc>,
        out: &mut Output<Mail>,
    ) {
        grpc.is_eof = true;
        self.grpc_flush(now, conn, grpc, out);
    }

    /// Looks for what is slow, or idle.
    pub(super) fn grpc_check(
        &mut self,
        now: Now,
        conn: ConnId,
        mut grpc: Box<Grpc>,
        out: &mut Output<Mail>,
    ) {
        let settings = &self.settings.socket;
        let (read_ms, idle_ms) = (settings.read_timeout_ms, settings.idle_timeout_ms);
        let write_ms = settings.write_timeout_ms;
        self.arm(now.after_ms((read_ms.min(idle_ms) / 2).max(1)), conn);
        if grpc.waiting.is_stalled(now, write_ms, &grpc.connection) {
            let error = Error::Slow("too few of its answers taken within socket.write_timeout_ms");
            return self.grpc_failed(now, conn, grpc, error, out);
        }
        if !grpc.backlog.is_empty() || grpc.backlog.is_untaken() {
            // What has come waits here; whether what was sent is taken the engine watches.
            return self.put(conn, State::Grpc(grpc));
        }
        let late = grpc.connection.expire(ms(now), read_ms, write_ms);
        self.stats.grpc_closed_slow.add(u64::from(late.requests) + u64::from(late.is_connection));
        self.stats.grpc_answers_stalled.add(late.answers.into());
        if late.is_connection {
            let error = Error::Protocol("a frame did not arrive within socket.read_timeout_ms");
            return self.grpc_failed(now, conn, grpc, error, out);
        }
        let is_answered = grpc.connection.unwritten_bytes() == 0 && grpc.is_at_rest();
        let is_idle = grpc.connection.is_idle() && is_answered;
        if is_idle && now >= grpc.heard.after_ms(idle_ms) {
            grpc.connection.leave("nothing was asked for socket.idle_timeout_ms");
        }
        self.grpc_flush(now, conn, grpc, out);
    }
}

/// To who sends HTTP/1.1 here.
const NOT_HTTP1: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 79\r\nConnection: close\r\n\r\n\
    gRPC (HTTP/2) is spoken here; HTTP/1.1 and WebSockets are spoken on socket.port";
