//! One HTTP connection: requests come one after the other, pipelined or not, and are answered in
//! order. While one waits for a worker, the bytes behind it wait in `held`.

use std::net::SocketAddr;
use std::sync::Arc;

use event::{ConnId, Now, Output};
use game::session::Claims;
use wire::http1;

use super::{Core, HELD_BYTES_MAX, State};
use crate::mail::Mail;

/// The state of an HTTP connection.
pub(super) struct Http {
    pub(super) peer: SocketAddr,
    decoder: http1::Decoder,
    /// Bytes behind the request that is being answered.
    held: Vec<u8>,
    is_paused: bool,
    pub(super) waiting: Option<Waiting>,
    /// The peer sends no more.
    is_eof: bool,
    /// When the last byte came or the last answer went.
    pub(super) heard: Now,
    /// When the request that is not complete yet began.
    pub(super) began: Option<Now>,
    pub(super) verified: Option<Verified>,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) keep_alive: bool,
    pub(super) cors: bool,
    pub(super) kind: AnswerKind,
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
}

/// What a request led to.
pub(super) enum Step {
    /// It is answered; the connection goes on.
    Answered,
    /// It is answered and the connection closes.
    Close,
    /// A worker has it.
    Wait(Waiting),
    /// It is a WebSocket now.
    Upgraded(Box<super::socket::Session>),
}

impl Http {
    pub(super) fn new(now: Now, peer: SocketAddr) -> Self {
        Self {
            peer,
            decoder: http1::Decoder::new(),
            held: Vec::new(),
            is_paused: false,
            waiting: None,
            is_eof: false,
            heard: now,
            began: None,
            verified: None,
        }
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
        if http.waiting.is_none() {
            return self.http_run(now, conn, http, bytes, out);
        }
        http.held.extend_from_slice(bytes);
        if http.held.len() > HELD_BYTES_MAX && !http.is_paused {
            http.is_paused = true;
            out.reading(conn, false);
        }
        self.put(conn, State::Http(http));
    }

    /// Handles the requests in `input` until one waits or the bytes are used up.
    fn http_run(
        &mut self,
        now: Now,
        conn: ConnId,
        mut http: Box<Http>,
        mut input: &[u8],
        out: &mut Output<Mail>,
    ) {
        loop {
            let Http { decoder, verified, peer, .. } = &mut *http;
            let step = match decoder.next(&mut input, &self.limits) {
                Ok(Some(request)) => {
                    self.stats.overall_request_recv_bytes.add(request.body.len() as u64);
                    self.request(now, conn, (*peer, verified), &request, out)
                }
                Ok(None) => {
                    if http.decoder.wants_continue() {
                        out.send(conn, b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    break;
                }
                Err(error) => {
                    self.stats.refused_requests.up();
                    self.answer_broken(now, conn, &error, out);
                    Step::Close
                }
            };
            match step {
                Step::Answered => http.heard = now,
                Step::Close => {
                    out.close(conn);
                    return self.put(conn, State::Closing);
                }
                Step::Wait(waiting) => {
                    http.waiting = Some(waiting);
                    http.began = None;
                    http.held.extend_from_slice(input);
                    return self.put(conn, State::Http(http));
                }
                Step::Upgraded(session) => {
                    return self.socket_bytes(now, conn, session, input, out);
                }
            }
        }
        if http.is_eof {
            // Of a request that began no more will come.
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        if http.decoder.is_idle() {
            http.began = None;
        } else {
            http.began.get_or_insert(now);
        }
        self.put(conn, State::Http(http));
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
        self.answer_outcome(now, conn, &waiting, outcome, out);
        http.heard = now;
        if !waiting.keep_alive {
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        if std::mem::take(&mut http.is_paused) {
            out.reading(conn, true);
        }
        let held = std::mem::take(&mut http.held);
        self.http_run(now, conn, http, &held, out);
    }

    /// The peer has closed its sending side: what it asked is answered before we close ours.
    pub(super) fn http_eof(&mut self, conn: ConnId, mut http: Box<Http>, out: &mut Output<Mail>) {
        http.is_eof = true;
        if http.waiting.is_none() {
            out.close(conn);
            return self.put(conn, State::Closing);
        }
        self.put(conn, State::Http(http));
    }
}
