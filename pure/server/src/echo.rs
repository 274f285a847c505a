//! `throng echo`: what can this machine do at most? `GET /plaintext` and `GET /json` by the
//! TechEmpower rules, and a WebSocket echo on `/ws`, over the same engine and the same HTTP and
//! WebSocket code as the game server. No sessions, no database, no scripts.
//!
//! Source of the rules: TechEmpower FrameworkBenchmarks, test types "plaintext" and "json": every
//! answer is composed for its request, with Server, Date, Content-Type and Content-Length.

use event::{ConnId, Handler, Input, Now, Output};
use serde::Serialize;
use wire::http1::{self, Connection, ResponseHead};
use wire::websocket::{self as ws, Message};

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
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    Http(http1::Decoder),
    Socket(ws::Decoder),
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
        }
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
                After::Upgraded => {
                    state =
                        State::Socket(ws::Decoder::new(ws::Role::Server, self.message_bytes_max));
                }
                After::Close => state = State::Free,
            }
        }
        if let State::Socket(decoder) = &mut state {
            let mut scratch = std::mem::take(&mut self.scratch);
            let goes_on = echo_messages(conn, decoder, &mut input, &mut scratch, out);
            self.scratch = scratch;
            if !goes_on {
                state = State::Free;
            }
        }
        if matches!(state, State::Free) {
            out.close(conn);
        }
        *self.state(conn) = state;
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
                        "/ws" => match out.send_with(conn, |to| ws::accept(to, &request, b"")) {
                            Ok(()) => return After::Upgraded,
                            Err(error) => {
                                let mut head = head(error.status(), "text/plain");
                                head.extra = error.headers();
                                let text = error.to_string();
                                out.send_with(conn, |to| {
                                    http1::respond(to, &head, text.as_bytes(), date);
                                });
                            }
                        },
                        _ => out.send_with(conn, |to| {
                            let text = b"try /plaintext, /json, or a WebSocket on /ws\n";
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
    Upgraded,
    Close,
}

/// Sends every message back; `false` when the connection is to be closed.
fn echo_messages(
    conn: ConnId,
    decoder: &mut ws::Decoder,
    input: &mut &[u8],
    scratch: &mut Vec<u8>,
    out: &mut Output<()>,
) -> bool {
    loop {
        let (opcode, payload) = match decoder.next(input, scratch) {
            Ok(Some(Message::Text(text))) => (ws::Opcode::Text, text.as_bytes()),
            Ok(Some(Message::Binary(bytes))) => (ws::Opcode::Binary, bytes),
            Ok(Some(Message::Ping(payload))) => (ws::Opcode::Pong, payload),
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
        out.send_with(conn, |to| ws::encode(to, opcode, payload));
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
            Input::Closed { conn, .. } => *self.state(conn) = State::Free,
            Input::Stop => out.stop(),
            _ => {}
        }
    }
}
