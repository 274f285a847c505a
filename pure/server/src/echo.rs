//! `throng echo`: what can this machine do at most? `GET /plaintext` and `GET /json` by the
//! TechEmpower rules, a WebSocket echo on `/ws`, and on `/room` a WebSocket of which every message
//! goes to all that are there, over the same engine and the same HTTP and WebSocket code as the
//! game server. No sessions, no database, no scripts. A room is of one core: with several, each
//! has its own. Datagrams go back to who sent them, save where that could be misused
//! (`echo/datagrams.rs`).
//!
//! Source of the rules: TechEmpower FrameworkBenchmarks, test types "plaintext" and "json": every
//! answer is composed for its request, with Server, Date, Content-Type and Content-Length.

mod datagrams;

use event::{Bytes, ConnId, Handler, Input, Now, Output};
use serde::Serialize;
use wire::http1::{self, Connection, ResponseHead};
use wire::websocket::{self as ws, Message};

pub use datagrams::{DatagramEcho, Unanswered};

/// The answer of `/json`, serialised anew for every request, as the rules want.
#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

/// The handler of one core of the echo server.
pub struct Echo {
    conns: Vec<State>,
    limits: http1::Limits,
    message_bytes_max: usize,
    scratch: Vec<u8>,
    date: (u64, [u8; 29]),
    room: Room,
    datagrams: DatagramEcho,
}

/// Who is in the room, and what was said in this turn.
#[derive(Default)]
struct Room {
    members: Vec<ConnId>,
    /// Frames for everybody. They wait for the turn's end, or until they are [`SAID_BYTES_MAX`], so
    /// that all of a turn are one send.
    said: Vec<u8>,
}

/// Bytes of a message to a room: everybody gets it, so that a large one costs its sender little and a
/// thousand members their turn.
const ROOM_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// What is said to a room is sent when it is so much, before the turn's end.
const SAID_BYTES_MAX: usize = 256 << 10;

impl Room {
    /// Takes what a member says.
    fn hear(&mut self, opcode: ws::Opcode, payload: &[u8], out: &mut Output<()>) {
        ws::encode(&mut self.said, opcode, payload);
        if self.said.len() >= SAID_BYTES_MAX {
            self.tell(out);
        }
    }

    /// Sends all members what was said.
    fn tell(&mut self, out: &mut Output<()>) {
        if self.said.is_empty() {
            return;
        }
        let said = Bytes::from(std::mem::take(&mut self.said));
        for member in &self.members {
            out.send_shared(*member, said.clone());
        }
    }
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    Http(http1::Decoder),
    Socket(ws::Decoder),
    /// In the room, at this place among its members.
    Member(ws::Decoder, usize),
}

impl Echo {
    /// An echo server that accepts bodies and socket messages of at most `message_bytes_max`.
    #[must_use]
    pub fn new(message_bytes_max: usize) -> Self {
        let limits = http1::Limits { body_bytes_max: message_bytes_max, ..Default::default() };
        Self {
            conns: Vec::new(),
            limits,
            message_bytes_max,
            scratch: Vec::new(),
            date: (u64::MAX, [0; 29]),
            room: Room::default(),
            datagrams: DatagramEcho::default(),
        }
    }

    /// The same, with what it needs to know for answering datagrams.
    #[must_use]
    pub fn with_datagrams(mut self, datagrams: DatagramEcho) -> Self {
        self.datagrams = datagrams;
        self
    }

    fn state(&mut self, conn: ConnId) -> &mut State {
        let index = conn.slot as usize;
        if index >= self.conns.len() {
            self.conns.resize_with(index + 1, State::default);
        }
        &mut self.conns[index]
    }

    fn bytes(&mut self, now: Now, conn: ConnId, mut input: &[u8], out: &mut Output<()>) {
        if self.date.0 != now.unix_s() {
            self.date = (now.unix_s(), http1::date(now.unix_s()));
        }
        let mut state = std::mem::take(self.state(conn));
        if let State::Http(decoder) = &mut state {
            match self.requests(conn, decoder, &mut input, out) {
                After::More => {}
                After::Upgraded { to_room } => {
                    let room_max = self.message_bytes_max.min(ROOM_MESSAGE_BYTES_MAX);
                    let bytes_max = if to_room { room_max } else { self.message_bytes_max };
                    let decoder = ws::Decoder::new(ws::Role::Server, bytes_max);
                    state = if to_room {
                        self.room.members.push(conn);
                        State::Member(decoder, self.room.members.len() - 1)
                    } else {
                        State::Socket(decoder)
                    };
                }
                After::Close => state = State::Free,
            }
        }
        let goes_on = match &mut state {
            State::Socket(decoder) => messages(
                conn,
                decoder,
                &mut input,
                &mut self.scratch,
                out,
                |out, opcode, payload| {
                    out.send_with(conn, |to| ws::encode(to, opcode, payload));
                },
            ),
            State::Member(decoder, _) => messages(
                conn,
                decoder,
                &mut input,
                &mut self.scratch,
                out,
                |out, opcode, payload| {
                    self.room.hear(opcode, payload, out);
                },
            ),
            State::Http(_) => true,
            State::Free => false,
        };
        if !goes_on {
            out.close(conn);
            self.leave(&state);
            state = State::Free;
        }
        *self.state(conn) = state;
    }

    /// The connection with this state is no member any more.
    fn leave(&mut self, state: &State) {
        let State::Member(_, place) = *state else { return };
        self.room.members.swap_remove(place);
        if let Some(moved) = self.room.members.get(place).copied()
            && let State::Member(_, at) = self.state(moved)
        {
            *at = place;
        }
    }

    fn requests(
        &self,
        conn: ConnId,
        decoder: &mut http1::Decoder,
        input: &mut &[u8],
        out: &mut Output<()>,
    ) -> After {
        let date = &self.date.1;
        loop {
            match decoder.next(input, &self.limits) {
                Ok(Some(request)) => {
                    let head = |status, kind| ResponseHead {
                        head_only: request.method == "HEAD",
                        ..ResponseHead::new(status, kind, Connection::asked_by(&request))
                    };
                    match request.target.path {
                        "/plaintext" => out.send_with(conn, |to| {
                            http1::respond(to, &head(200, "text/plain"), b"Hello, World!", date);
                        }),
                        "/json" => {
                            let greeting = Greeting { message: "Hello, World!" };
                            let body = serde_json::to_vec(&greeting).unwrap_or_default();
                            out.send_with(conn, |to| {
                                http1::respond(to, &head(200, "application/json"), &body, date);
                            });
                        }
                        path @ ("/ws" | "/room") => {
                            match out.send_with(conn, |to| ws::accept(to, &request, b"")) {
                                Ok(()) => return After::Upgraded { to_room: path == "/room" },
                                Err(error) => {
                                    let mut head = head(error.status(), "text/plain");
                                    head.extra = error.headers();
                                    let text = error.to_string();
                                    out.send_with(conn, |to| {
                                        http1::respond(to, &head, text.as_bytes(), date);
                                    });
                                }
                            }
                        }
                        _ => out.send_with(conn, |to| {
                            let text = b"try /plaintext, /json, or a WebSocket on /ws or /room\n";
                            http1::respond(to, &head(404, "text/plain"), text, date);
                        }),
                    }
                    if !request.keep_alive {
                        return After::Close;
                    }
                }
                Ok(None) => {
                    if decoder.wants_continue() {
                        out.send(conn, b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    return After::More;
                }
                Err(error) => {
                    let head = ResponseHead::new(error.status(), "text/plain", Connection::Close);
                    let text = error.to_string();
                    out.send_with(conn, |to| http1::respond(to, &head, text.as_bytes(), date));
                    return After::Close;
                }
            }
        }
    }
}

/// What becomes of the connection after its requests.
enum After {
    More,
    Upgraded { to_room: bool },
    Close,
}

/// Hands out every message; `false` when the connection is to be closed. Pings are answered here.
fn messages(
    conn: ConnId,
    decoder: &mut ws::Decoder,
    input: &mut &[u8],
    scratch: &mut Vec<u8>,
    out: &mut Output<()>,
    mut take: impl FnMut(&mut Output<()>, ws::Opcode, &[u8]),
) -> bool {
    loop {
        let (opcode, payload) = match decoder.next(input, scratch) {
            Ok(Some(Message::Text(text))) => (ws::Opcode::Text, text.as_bytes()),
            Ok(Some(Message::Binary(bytes))) => (ws::Opcode::Binary, bytes),
            Ok(Some(Message::Ping(payload))) => {
                out.send_with(conn, |to| ws::encode(to, ws::Opcode::Pong, payload));
                continue;
            }
            Ok(Some(Message::Pong(_))) => continue,
            Ok(Some(Message::Close { code, .. })) => {
                out.send_with(conn, |to| ws::encode_close(to, code.unwrap_or(1000), ""));
                return false;
            }
            Ok(None) => return true,
            Err(error) => {
                let reason = error.to_string();
                out.send_with(conn, |to| ws::encode_close(to, error.close_code(), &reason));
                return false;
            }
        };
        take(out, opcode, payload);
    }
}

impl Handler for Echo {
    type Mail = ();

    fn handle(&mut self, now: Now, input: Input<'_, ()>, out: &mut Output<()>) {
        match input {
            Input::Bytes { conn, bytes } => self.bytes(now, conn, bytes, out),
            Input::Opened { conn, .. } => {
                *self.state(conn) = State::Http(http1::Decoder::new());
            }
            Input::Eof { conn } => out.close(conn),
            Input::Closed { conn, .. } => {
                let state = std::mem::take(self.state(conn));
                self.leave(&state);
            }
            Input::Datagrams(all) => self.datagrams.answer(all, out),
            Input::TurnEnd => self.room.tell(out),
            Input::Stop => out.stop(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{ConnId, Handler as _, Input, ListenerId, Now, Output};
    use wire::websocket::{self as ws, Decoder, Message, Opcode, Role};

    use super::Echo;

    const UPGRADE: &str = "GET /room HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                           Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    fn conn(slot: u32) -> ConnId {
        ConnId { slot, generation: 0 }
    }

    fn said(echo: &mut Echo, slot: u32, bytes: &[u8]) -> Output<()> {
        let mut out = Output::default();
        let mut bytes = bytes.to_vec();
        let input = Input::Bytes { conn: conn(slot), bytes: &mut bytes };
        echo.handle(Now::default(), input, &mut out);
        out
    }

    fn masked(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        ws::encode_masked(&mut frame, opcode, payload, [1, 2, 3, 4]);
        frame
    }

    /// What the room's members hear at the end of a turn.
    fn heard(echo: &mut Echo, slots: std::ops::Range<u32>) -> Vec<Vec<Vec<u8>>> {
        let mut out = Output::default();
        echo.handle(Now::default(), Input::TurnEnd, &mut out);
        let of_one = |slot| {
            let (bytes, mut scratch) = (out.sent_to(conn(slot)), Vec::new());
            let (mut input, mut decoder) = (&bytes[..], Decoder::new(Role::Client, 1 << 20));
            let mut messages = Vec::new();
            while let Some(message) = decoder.next(&mut input, &mut scratch).unwrap() {
                let Message::Binary(bytes) = message else { panic!("{message:?}") };
                messages.push(bytes.to_vec());
            }
            messages
        };
        slots.map(of_one).collect()
    }

    #[test]
    fn what_is_said_in_a_turn_goes_to_all_members_together() {
        let mut echo = Echo::new(1_000);
        let peer = ([127, 0, 0, 1], 1).into();
        for slot in 0..4 {
            let opened = Input::Opened { conn: conn(slot), listener: ListenerId(0), peer };
            echo.handle(Now::default(), opened, &mut Output::default());
            let out = said(&mut echo, slot, UPGRADE.as_bytes());
            assert!(out.sent_to(conn(slot)).starts_with(b"HTTP/1.1 101 "));
        }
        said(&mut echo, 2, &masked(Opcode::Binary, b"first"));
        let out = said(&mut echo, 3, &masked(Opcode::Binary, b"second"));
        assert!(out.is_empty(), "nothing before the turn's end");
        let both = vec![b"first".to_vec(), b"second".to_vec()];
        assert_eq!(heard(&mut echo, 0..4), vec![both; 4]);

        // One leaves in order, another is lost: the others still hear each other.
        let out = said(&mut echo, 0, &masked(Opcode::Close, b""));
        assert!(!out.sent_to(conn(0)).is_empty());
        let reason = event::CloseReason::Reset;
        let closed = Input::Closed { conn: conn(1), reason };
        echo.handle(Now::default(), closed, &mut Output::default());
        let reason = event::CloseReason::Asked;
        let closed = Input::Closed { conn: conn(0), reason };
        echo.handle(Now::default(), closed, &mut Output::default());
        said(&mut echo, 3, &masked(Opcode::Binary, b"third"));
        let third = vec![b"third".to_vec()];
        assert_eq!(heard(&mut echo, 0..4), [vec![], vec![], third.clone(), third]);
        assert_eq!(heard(&mut echo, 0..4), vec![Vec::<Vec<u8>>::new(); 4]);
    }

    #[test]
    fn large_messages_to_a_room_are_refused() {
        let mut echo = Echo::new(1 << 20);
        let peer = ([127, 0, 0, 1], 1).into();
        let opened = Input::Opened { conn: conn(0), listener: ListenerId(0), peer };
        echo.handle(Now::default(), opened, &mut Output::default());
        said(&mut echo, 0, UPGRADE.as_bytes());
        let fits = vec![b'x'; super::ROOM_MESSAGE_BYTES_MAX];
        said(&mut echo, 0, &masked(Opcode::Binary, &fits));
        assert_eq!(heard(&mut echo, 0..1), [[fits.clone()]]);
        let too_large = [&fits[..], b"x"].concat();
        let out = said(&mut echo, 0, &masked(Opcode::Binary, &too_large));
        assert!(out.sent_to(conn(0)).starts_with(&[0x88]), "a close frame");
        assert_eq!(heard(&mut echo, 0..1), [Vec::<Vec<u8>>::new()]);
    }
}
