//! Reading what comes: bytes of a connection become answers to operations, deliveries and failures,
//! each of which is told to the player's session.
//!
//! In: bytes, sealed or not. Out: calls of [`Sessions`]. What bytes mean stands in `http` and
//! `socket`, what is done about it in `sessions`.

use std::sync::Arc;

use event::ConnId;
use wire::websocket::Message;

use super::failure::CLOSED;
use super::http::{self, Asked, Responses};
use super::links::Link;
use super::player::{Doing, Expecting};
use super::sessions::Sessions;
use super::tls::Opened;
use super::turn::Turn;
use super::{socket, writer};
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{NO_OP, tls};
use crate::load::scenario::Audience;
use crate::load::scenario::mark::Mark;
use crate::load::scenario::program::{Program, Step, StepKind};

/// What is kept between two reads.
pub(super) struct Reader {
    program: Arc<Program>,
    responses: Responses,
    /// Reused: a frame's payload, and what has come over TLS when it is opened.
    scratch: Vec<u8>,
    opened: Vec<u8>,
}

impl Reader {
    pub(super) fn new(program: Arc<Program>) -> Self {
        let responses = Responses::default();
        Self { program, responses, scratch: Vec::new(), opened: Vec::new() }
    }

    /// Bytes have come over a connection.
    pub(super) fn bytes(
        &mut self,
        turn: &mut Turn<'_>,
        sessions: &mut Sessions,
        conn: ConnId,
        bytes: &[u8],
    ) {
        let Some(index) = sessions.links().owner(conn) else { return };
        if sessions.links().has_tls(index) {
            self.sealed(turn, sessions, (index, conn), bytes);
        } else {
            self.plain(turn, sessions, index, bytes);
        }
    }

    /// The server has closed its side of a connection.
    pub(super) fn eof(&mut self, turn: &mut Turn<'_>, sessions: &mut Sessions, conn: ConnId) {
        let Some(index) = sessions.links().owner(conn) else {
            turn.out.abort(conn);
            return;
        };
        // Over TLS the end of a connection is no end of an answer: anybody can cut one off.
        // Source: RFC 9112, section 9.8.
        if sessions.links().has_tls(index) {
            sessions.lost(turn, index, (CLOSED, String::new()));
        } else {
            self.end(turn, sessions, index);
        }
    }

    /// Bytes have come over TLS.
    fn sealed(
        &mut self,
        turn: &mut Turn<'_>,
        sessions: &mut Sessions,
        (index, conn): (usize, ConnId),
        bytes: &[u8],
    ) {
        let mut opened = std::mem::take(&mut self.opened);
        opened.clear();
        let result = sessions.links_mut().open((index, conn), bytes, &mut opened, turn.out);
        let Some(Opened { is_secured, is_closed, error }) = result else { return };
        if is_secured {
            sessions.secured(turn, index);
        }
        let is_same = |sessions: &Sessions| sessions.links().conn(index) == Some(conn);
        if !opened.is_empty() && is_same(sessions) {
            self.plain(turn, sessions, index, &opened);
        }
        self.opened = opened;
        if !is_same(sessions) {
            return;
        }
        if let Some(error) = error {
            sessions.lost(turn, index, tls::of(&error, bytes));
        } else if is_closed {
            self.end(turn, sessions, index);
        }
    }

    /// Bytes of HTTP or WebSocket have come.
    fn plain(&mut self, turn: &mut Turn<'_>, sessions: &mut Sessions, index: usize, bytes: &[u8]) {
        turn.recorder.received_bytes(bytes.len());
        match sessions.links().link(index) {
            Link::Http { .. } => self.responses(turn, sessions, index, bytes),
            Link::Upgrading { .. } => self.upgrade(turn, sessions, index, bytes),
            Link::Socket(_) => self.frames(turn, sessions, index, bytes),
            Link::None | Link::Connecting | Link::Securing => {}
        }
    }

    /// The server sends nothing more, and what it has sent is all that it wanted to.
    fn end(&mut self, turn: &mut Turn<'_>, sessions: &mut Sessions, index: usize) {
        let asked = asked(&self.program, sessions, index);
        let judged = match (asked, sessions.links_mut().link_mut(index)) {
            (Some(asked), Link::Http { decoder, .. }) => http::finish(asked, decoder),
            _ => None,
        };
        let Some(judged) = judged else {
            return sessions.lost(turn, index, (CLOSED, String::new()));
        };
        sessions.drop_link(turn, index);
        match judged {
            Ok(captured) => {
                sessions.keep(index, captured);
                if sessions.answered(turn, index, 1) {
                    sessions.advance(turn, index);
                } else {
                    let kind = Kind::of(Cause::Closed, "connection closed before all answers");
                    sessions.fail(turn, index, &kind, String::new);
                }
            }
            Err(wrong) => sessions.refused(turn, index, wrong),
        }
    }

    fn responses(
        &mut self,
        turn: &mut Turn<'_>,
        sessions: &mut Sessions,
        index: usize,
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        let is_asked = sessions.player(index).awaits(Expecting::Responses);
        let asked = asked(&self.program, sessions, index).filter(|_| is_asked);
        let mut reading = match asked {
            Some(asked) => {
                let link = sessions.links_mut().link_mut(index);
                self.responses.read(asked, link, &mut rest)
            }
            None => http::Reading::default(),
        };
        if let Some(server) = reading.server.take() {
            turn.recorder.server(server);
        }
        let is_done = reading.good > 0 && {
            sessions.keep(index, std::mem::take(&mut reading.captured));
            sessions.answered(turn, index, reading.good)
        };
        if let Some(wrong) = reading.wrong {
            // What follows cannot be told apart any more, or nothing follows: only a wrong answer
            // that is nevertheless a whole one, and the last one, leaves the connection usable.
            let is_whole = wrong.kind.cause != Cause::NotHttp && rest.is_empty();
            if reading.closes || !is_whole || sessions.player(index).left > 1 {
                sessions.drop_link(turn, index);
            }
            return sessions.refused(turn, index, wrong);
        }
        if !rest.is_empty() {
            let kind = Kind::of(Cause::Unasked, "bytes that nobody asked for");
            turn.recorder.error(NO_OP, &kind, || socket::lossy(rest));
            sessions.drop_link(turn, index);
        } else if reading.closes {
            sessions.drop_link(turn, index);
        }
        if is_done {
            sessions.advance(turn, index);
        }
    }

    /// The answer to a handshake, and what may stand behind it.
    fn upgrade(
        &mut self,
        turn: &mut Turn<'_>,
        sessions: &mut Sessions,
        index: usize,
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        let Link::Upgrading { decoder, key } = sessions.links_mut().link_mut(index) else { return };
        let Some(result) = socket::read_upgrade(decoder, *key, &mut rest) else { return };
        if let Err(wrong) = result {
            sessions.drop_link(turn, index);
            return sessions.fail(turn, index, &wrong.kind, || wrong.example);
        }
        sessions.has_socket(turn.at.now_ns, index);
        sessions.done(turn, index);
        if !rest.is_empty() && sessions.links().is_socket(index) {
            self.frames(turn, sessions, index, rest);
        }
    }

    fn frames(&mut self, turn: &mut Turn<'_>, sessions: &mut Sessions, index: usize, bytes: &[u8]) {
        let mut rest = bytes;
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Link::Socket(decoder) = sessions.links_mut().link_mut(index) {
            match decoder.next(&mut rest, &mut scratch) {
                Ok(None) => break,
                Ok(Some(message)) => self.message(turn, sessions, index, message),
                Err(error) => {
                    let kind = Kind::new(Cause::NotWebSocket, format!("not WebSocket: {error}"));
                    sessions.drop_link(turn, index);
                    sessions.fail(turn, index, &kind, String::new);
                }
            }
        }
        self.scratch = scratch;
    }

    fn message(
        &self,
        turn: &mut Turn<'_>,
        sessions: &mut Sessions,
        index: usize,
        message: Message<'_>,
    ) {
        match message {
            Message::Text(text) => {
                turn.recorder.received_frame();
                self.text(turn, sessions, index, text.as_bytes());
            }
            Message::Binary(bytes) => {
                turn.recorder.received_frame();
                self.binary(turn, sessions, index, bytes);
            }
            Message::Ping(payload) => sessions.send_pong(turn, index, payload),
            Message::Pong(_) => {}
            Message::Close { code, reason } => {
                let code = code.map_or("no code".to_owned(), |code| code.to_string());
                let kind = format!("socket closed by the server: {code} {reason}");
                let kind = Kind::new(Cause::Closed, kind.trim_end().to_owned());
                sessions.drop_link(turn, index);
                sessions.fail(turn, index, &kind, String::new);
            }
        }
    }

    fn binary(&self, turn: &mut Turn<'_>, sessions: &mut Sessions, index: usize, bytes: &[u8]) {
        if self.program.flies() {
            return sessions.zone_message(turn, index, bytes);
        }
        if self.program.publishes() {
            let mark = Mark::read(bytes).map(|mark| (mark, Audience::All));
            return sessions.delivered(turn, index, mark);
        }
        let player = sessions.player(index);
        match (player.doing, player.expecting) {
            (Doing::Busy, Expecting::Echo(number)) => {
                let size = match player.step_of(&self.program).map(|step| &step.kind) {
                    Some(StepKind::Binary { bytes, .. }) => Some(*bytes as usize),
                    _ => None,
                };
                if size == Some(bytes.len()) && writer::is_binary_message(bytes, number) {
                    sessions.done(turn, index);
                } else {
                    let kind = Kind::of(Cause::Other, "echo differs");
                    sessions.fail(turn, index, &kind, String::new);
                }
            }
            (Doing::Busy, Expecting::Frame) => sessions.done(turn, index),
            _ => {
                let kind = Kind::of(Cause::Unasked, "binary frame that nobody asked for");
                turn.recorder.error(NO_OP, &kind, String::new);
            }
        }
    }

    fn text(&self, turn: &mut Turn<'_>, sessions: &mut Sessions, index: usize, text: &[u8]) {
        if socket::is_match_data(text) {
            let mark = socket::mark_of(text, &self.program);
            return sessions.delivered(turn, index, mark);
        }
        let player = sessions.player(index);
        if player.awaits(Expecting::Frame) {
            return sessions.done(turn, index);
        }
        let Some(cid) = socket::cid_of(text) else {
            if socket::is_error(text) {
                let kind = Kind::of(Cause::Envelope, "error without a cid");
                turn.recorder.error(NO_OP, &kind, || socket::lossy(text));
            }
            return;
        };
        if player.ping.is_some_and(|(awaited, _)| awaited == cid) {
            sessions.pong(turn, index);
        } else if player.awaits(Expecting::Cid(cid)) {
            self.envelope(turn, sessions, index, text);
        } else {
            let kind = Kind::of(Cause::Unasked, "answer that nobody asked for");
            turn.recorder.error(NO_OP, &kind, || socket::lossy(text));
        }
    }

    /// The answer that a step waits for.
    fn envelope(&self, turn: &mut Turn<'_>, sessions: &mut Sessions, index: usize, text: &[u8]) {
        let step = sessions.player(index).step_of(&self.program);
        let (captures, retry) = match step {
            Some(Step { kind: StepKind::Text { captures, .. }, retry, .. }) => {
                (&captures[..], retry.as_ref())
            }
            _ => (&[][..], None),
        };
        match socket::judge(captures, retry, text) {
            Ok(captured) => {
                sessions.keep(index, captured);
                sessions.done(turn, index);
            }
            Err(wrong) => sessions.refused(turn, index, wrong),
        }
    }
}

/// What the player has asked for over HTTP, if its step does; whether it waits for it or not.
fn asked<'a>(program: &'a Program, sessions: &Sessions, index: usize) -> Option<Asked<'a>> {
    let player = sessions.player(index);
    match player.step_of(program)? {
        Step { kind: StepKind::Http(http), retry, .. } if player.doing == Doing::Busy => {
            let by = (player.session, player.step);
            Some(Asked { by, http, retry: retry.as_ref(), left: player.left })
        }
        _ => None,
    }
}
