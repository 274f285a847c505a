//! One HTTP connection: requests come one after the other, pipelined or not, and are answered in
//! order. While one waits for a worker, the bytes behind it wait in the backlog.

use std::net::SocketAddr;
use std::sync::Arc;

use event::{ConnId, Now, Output};
use game::session::Claims;
use wire::http1::{self, HttpError};

use super::backlog::{Backlog, UNTAKEN_BYTES_MAX};
use super::{Core, State};
use crate::mail::Mail;
use crate::stats::Metered;

/// The state of an HTTP connection.
pub(super) struct Http {
    pub(super) peer: SocketAddr,
    decoder: http1::Decoder,
    /// Bytes behind the request that is being answered, or for the next turn.
    pub(super) backlog: Backlog,
    pub(super) waiting: Option<Pending>,
    /// The peer sends no more.
    is_eof: bool,
    /// When the last byte came or the last answer went.
    pub(super) heard: Now,
    /// When the request that is not complete yet began.
    pub(super) began: Option<Now>,
    pub(super) verified: Option<Verified>,
    /// No request has come yet.
    is_new: bool,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) keep_alive: bool,
    pub(super) cors: bool,
    pub(super) takes_gzip: bool,
    pub(super) kind: AnswerKind,
    /// For the call's counters.
    pub(super) metered: Option<Metered>,
}

/// How a finished job becomes an HTTP answer.
#[derive(Debug)]
pub(super) enum AnswerKind {
    /// A JSON message.
    Api,
    /// `{"payload": "…"}`.
    Rpc,
    /// The function's text as it is, with this content type.
    RpcUnwrapped(String),
}

/// The last token that was found good on this connection: nearly always the next one as well.
pub(super) struct Verified {
    pub(super) token: Box<str>,
    pub(super) claims: Arc<Claims>,
    /// Where the user's record was last time (`crate::limits`).
    pub(super) group: u32,
}

/// What a request led to.
pub(super) enum Handled {
    /// It is answered; the connection goes on.
    Answered,
    /// It is answered and the connection closes.
    Close,
    /// A worker has it.
    Wait(Pending),
    /// It is a WebSocket now.
    Upgraded(Box<super::socket::Session>),
}

/// Why a connection's requests are not handled further just now.
enum After {
    /// All bytes are used up.
    Dry,
    /// A worker has the last request.
    Waits,
    /// The connection has had its share of the turn.
    NextTurn,
    /// The client has not taken earlier answers.
    Untaken,
}

impl Http {
    pub(super) fn new(now: Now, peer: SocketAddr, backlog: Backlog) -> Self {
        Self {
            peer,
            decoder: http1::Decoder::new(),
            backlog,
            waiting: None,
            is_eof: false,
            heard: now,
            began: None,
            verified: None,
            is_new: true,
        }
    }

    /// Why the next request is not handled just now, if it is not; else it counts for the turn.
    fn stopped_by(&mut self, turn: u32) -> Option<After> {
        if self.backlog.waits_for_taking() {
            return Some(After::Untaken);
        }
        (!self.backlog.may_handle(turn)).then_some(After::NextTurn)
    }
}

impl Core {
    pub(super) fn http_bytes(
        &mut self,
        now: Now,
        conn: ConnId,
        mut http: Box<Http>,
        bytes: &[u8],
        out: &mut Output<Mail>,
    ) {
        http.heard = now;
        if http.waiting.is_none() && http.backlog.is_empty() && !http.backlog.waits_for_taking() {
            return self.http_run(now, conn, http, bytes, out);
        }
        http.backlog.hold(bytes);
        http.backlog.backpressure(conn, out);
        self.put(conn, State::Http(http));
    }

    /// Handles the requests that wait, or else those in `fresh`, until one waits for a worker, the
    /// bytes are used up, or the connection has had its share of the turn.
    pub(super) fn http_run(
        &mut self,
        now: Now,
        conn: ConnId,
        mut http: Box<Http>,
        fresh: &[u8],
        out: &mut Output<Mail>,
    ) {
        let lent = http.backlog.lend();
        let mut input = lent.or(fresh);
        let after = loop {
            if !input.is_empty()
                && let Some(reason) = http.stopped_by(self.turn)
            {
                break reason;
            }
            let before = out.unsent();
            let Http { decoder, verified, peer, is_new, backlog, .. } = &mut *http;
            let step = match decoder.next(&mut input, &self.limits) {
                Ok(Some(request)) => {
                    self.stats.overall_request_recv_bytes.add(request.body.len() as u64);
                    if std::mem::take(is_new) {
                        self.look_for_proxy(now, *peer, &request);
                    }
                    let of = (*peer, verified, backlog);
                    self.request(now, conn, of, &request, out)
                }
                Ok(None) => {
                    if http.decoder.wants_continue() {
                        out.send(conn, b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    break After::Dry;
                }
                Err(error) => self.refuse_broken(now, conn, *peer, error, out),
            };
            match step {
                Handled::Answered => {
                    http.backlog.note_answer(conn, out.unsent() - before, UNTAKEN_BYTES_MAX, out);
                    http.heard = now;
                    http.began = None;
                }
                Handled::Close => {
                    out.close(conn);
                    return self.put(conn, State::Closing);
                }
                Handled::Wait(waiting) => {
                    http.waiting = Some(waiting);
                    break After::Waits;
                }
                Handled::Upgraded(mut session) => {
                    // With it goes whether reading is stopped.
                    std::mem::swap(&mut session.backlog, &mut http.backlog);
                    session.is_eof = http.is_eof;
                    let left = input.len();
                    session.backlog.give_back(lent, fresh, left);
                    return self.socket_run(now, conn, session, b"", out);
                }
            }
        };
        let left = input.len();
        http.backlog.give_back(lent, fresh, left);
        http.backlog.backpressure(conn, out);
        match after {
            After::Waits | After::Untaken => http.began = None,
            After::NextTurn => self.queue_backlog(conn, &mut http.backlog),
            After::Dry if http.is_eof => {
                // Of a request that began no more will come.
                out.close(conn);
                return self.put(conn, State::Closing);
            }
            After::Dry if http.decoder.is_idle() => http.began = None,
            After::Dry => {
                http.began.get_or_insert(now);
            }
        }
        self.put(conn, State::Http(http));
    }

    /// What came is no request, or beyond the limits.
    pub(super) fn refuse_broken(
        &mut self,
        now: Now,
        conn: ConnId,
        peer: SocketAddr,
        error: HttpError,
        out: &mut Output<Mail>,
    ) -> Handled {
        self.stats.refused_requests.up();
        self.say_foreign(now, peer, error);
        self.answer_broken(now, conn, &error, out);
        Handled::Close
    }

    /// The job of the request that waits is done: answers it, then goes on with what is held.
    pub(super) fn http_done(
        &mut self,
        now: Now,
        conn: ConnId,
        mut http: Box<Http>,
        outcome: crate::mail::Outcome,
        out: &mut Output<Mail>,
    ) {
        let Some(mut waiting) = http.waiting.take() else {
            return self.put(conn, State::Http(http));
        };
        waiting.keep_alive &= self.stopping.is_none();
        let before = out.unsent();
        self.answer_outcome(now, conn, &waiting, outcome, out);
        http.backlog.note_answer(conn, out.unsent() - before, UNTAKEN_BYTES_MAX, out);
        http.heard = now;
        if !waiting.keep_alive {
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        self.http_run(now, conn, http, b"", out);
    }

    /// The peer has closed its sending side: what it asked is answered before we close ours.
    pub(super) fn http_eof(&mut self, conn: ConnId, mut http: Box<Http>, out: &mut Output<Mail>) {
        http.is_eof = true;
        if http.waiting.is_none() && http.backlog.is_empty() {
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        self.put(conn, State::Http(http));
    }
}
