//! HTTP and WebSocket: a request gets its own body back, a frame too.
//!
//! In: a connection that does not begin with this protocol's line. Out: `pong` to a GET, the body to
//! a POST or PUT, pongs and echoes to frames; 400 to what is no HTTP. With a token, only who says it
//! in `Authorization: Bearer` is answered.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use wire::http1::{self, Connection, Decoder, HttpError, Limits, Request, ResponseHead};
use wire::websocket::{self, Message, Opcode};

use super::super::protocol::Refusal;
use super::BODY_BYTES_MAX;
use super::connection::{IDLE_MAX, is_time_up};
use super::datagrams::plain;
use super::shares::Share;
use super::state::{SMALL_BYTES, State};

/// How long a request may take to arrive, and a frame.
const SLOW_MAX: Duration = Duration::from_secs(2);
/// Memory of a message that comes in parts: itself, and its answer.
const PARTS_BYTES: usize = 2 * BODY_BYTES_MAX as usize;

/// What is asked of the connection after some bytes.
enum Next {
    Go,
    Close,
    /// Frames from now on; the bytes behind the request are the first.
    Frames(Vec<u8>),
}

/// Answers requests until the connection ends; `first` has come already.
pub(super) fn serve(
    stream: &mut TcpStream,
    peer: SocketAddr,
    state: &State,
    first: &[u8],
) -> std::io::Result<()> {
    let mut decoder = Decoder::new();
    let mut input = vec![0; SMALL_BYTES];
    let mut out = Vec::new();
    let mut bytes = first.to_vec();
    let mut reading = Reading::new(peer.ip());
    loop {
        let next = answer(&mut decoder, &bytes, &mut out, state, peer);
        stream.write_all(&out)?;
        if !out.is_empty() {
            reading.begin();
        }
        out.clear();
        out.shrink_to(SMALL_BYTES);
        match next {
            Next::Go => {}
            Next::Close => return Ok(()),
            Next::Frames(rest) => return frames(stream, peer, state, rest),
        }
        let Some(len) = reading.next(stream, &mut input, state, decoder.is_idle())? else {
            return Ok(());
        };
        bytes.clear();
        bytes.extend_from_slice(&input[..len]);
    }
}

/// Reads with patience: a minute between messages, two seconds within one; and takes memory for one
/// that comes in parts.
struct Reading {
    peer: IpAddr,
    began: Instant,
    was_idle: bool,
    /// Bytes since the message began.
    bytes: usize,
    room: Option<Share>,
}

impl Reading {
    fn new(peer: IpAddr) -> Self {
        Self { peer, began: Instant::now(), was_idle: true, bytes: 0, room: None }
    }

    /// A message was whole and answered: what came of the next one has its own time.
    fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Length of what came; none when the connection is to end.
    fn next(
        &mut self,
        stream: &mut TcpStream,
        input: &mut [u8],
        state: &State,
        is_idle: bool,
    ) -> std::io::Result<Option<usize>> {
        if is_idle || self.was_idle {
            self.began = Instant::now();
        }
        self.was_idle = is_idle;
        // Who has said little holds little: it takes nothing that others could need.
        if is_idle {
            (self.room, self.bytes) = (None, 0);
        } else if self.room.is_none() && self.bytes > SMALL_BYTES {
            self.room = state.room(self.peer, PARTS_BYTES).ok();
            if self.room.is_none() {
                state.count(|it| it.refused_busy += 1);
                return Ok(None);
            }
        }
        let most = if is_idle { IDLE_MAX } else { SLOW_MAX };
        loop {
            // Before each read: bytes that trickle in let none of them wait for long.
            if state.is_over() {
                return Ok(None);
            }
            if self.began.elapsed() > most {
                if !is_idle {
                    state.count(|it| it.refused_form += 1);
                }
                return Ok(None);
            }
            match stream.read(input) {
                Ok(0) => return Ok(None),
                Ok(len) => {
                    self.bytes += len;
                    return Ok(Some(len));
                }
                Err(error) if is_time_up(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn date() -> [u8; 29] {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    http1::date(now.as_secs())
}

/// Answers all whole requests.
fn answer(
    decoder: &mut Decoder,
    mut bytes: &[u8],
    out: &mut Vec<u8>,
    state: &State,
    peer: SocketAddr,
) -> Next {
    let body_bytes_max = usize::try_from(BODY_BYTES_MAX).unwrap_or(0);
    let limits = Limits { body_bytes_max, ..Limits::default() };
    loop {
        let request = match decoder.next(&mut bytes, &limits) {
            Ok(None) => return Next::Go,
            Ok(Some(request)) => request,
            Err(error) => {
                state.count(|it| it.refused_form += 1);
                state.tell_refusal("http", plain(peer.ip()), &error.to_string());
                refuse(out, error.status(), &told(error));
                return Next::Close;
            }
        };
        if let Err(refusal) = state.admit(peer.ip(), said(&request)) {
            let text = if let Refusal::Guessing { .. } = refusal {
                state.count(|it| it.refused_guessing += 1);
                refuse(out, 429, &format!("{refusal}\n"));
                refusal.to_string()
            } else {
                state.count(|it| it.refused_token += 1);
                refuse(out, 401, "the token is missing or wrong: Authorization: Bearer TOKEN\n");
                "HTTP without the right token".to_owned()
            };
            state.tell_refusal(refusal.word(), plain(peer.ip()), &text);
            return Next::Close;
        }
        if request.upgrade.is_some() {
            return match websocket::accept(out, &request, b"Server: throng\r\n") {
                Ok(()) => Next::Frames(bytes.to_vec()),
                Err(error) => {
                    refuse(out, error.status(), &format!("{error}\n"));
                    Next::Close
                }
            };
        }
        state.count(|it| it.requests += 1);
        let connection = Connection::asked_by(&request);
        let mut head = ResponseHead::new(200, "application/octet-stream", connection);
        head.head_only = request.method == "HEAD";
        let body = if request.body.is_empty() { b"pong\n" } else { request.body };
        http1::respond(out, &head, body, &date());
        if connection == Connection::Close {
            return Next::Close;
        }
    }
}

fn told(error: HttpError) -> String {
    format!("{error}; `throng ping` and HTTP are spoken here\n")
}

fn refuse(out: &mut Vec<u8>, status: u16, text: &str) {
    let head = ResponseHead::new(status, "text/plain", Connection::Close);
    http1::respond(out, &head, text.as_bytes(), &date());
}

/// The token that a request says; nothing if it says none.
fn said<'a>(request: &Request<'a>) -> &'a str {
    let said = request.header("authorization").and_then(|it| std::str::from_utf8(it).ok());
    said.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or("")
}

/// Answers frames until the connection ends.
fn frames(
    stream: &mut TcpStream,
    peer: SocketAddr,
    state: &State,
    first: Vec<u8>,
) -> std::io::Result<()> {
    let bytes_max = usize::try_from(BODY_BYTES_MAX).unwrap_or(0);
    let mut decoder = websocket::Decoder::new(websocket::Role::Server, bytes_max);
    let (mut input, mut scratch, mut out) = (vec![0; SMALL_BYTES], Vec::new(), Vec::new());
    let mut bytes = first;
    let mut reading = Reading::new(peer.ip());
    loop {
        let mut rest = &bytes[..];
        let mut is_over = false;
        loop {
            match decoder.next(&mut rest, &mut scratch) {
                Ok(None) => break,
                Ok(Some(Message::Ping(payload))) => {
                    websocket::encode(&mut out, Opcode::Pong, payload);
                }
                Ok(Some(Message::Binary(payload))) => {
                    websocket::encode(&mut out, Opcode::Binary, payload);
                }
                Ok(Some(Message::Text(text))) => {
                    websocket::encode(&mut out, Opcode::Text, text.as_bytes());
                }
                Ok(Some(Message::Pong(_))) => continue,
                Ok(Some(Message::Close { .. })) => {
                    websocket::encode_close(&mut out, 1000, "");
                    is_over = true;
                    break;
                }
                Err(error) => {
                    state.count(|it| it.refused_form += 1);
                    websocket::encode_close(&mut out, error.close_code(), &error.to_string());
                    is_over = true;
                    break;
                }
            }
            state.count(|it| it.frames += 1);
        }
        stream.write_all(&out)?;
        if !out.is_empty() {
            reading.begin();
        }
        out.clear();
        // What one message took is not kept for the next, which may never come.
        out.shrink_to(SMALL_BYTES);
        if decoder.is_idle() {
            scratch.shrink_to(SMALL_BYTES);
        }
        if is_over {
            return Ok(());
        }
        let Some(len) = reading.next(stream, &mut input, state, decoder.is_idle())? else {
            return Ok(());
        };
        bytes.clear();
        bytes.extend_from_slice(&input[..len]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::super::super::gone::would_wait;
    use super::super::LOOK;
    use super::super::state::tests::state;
    use super::{SLOW_MAX, serve};

    const EVERY: Duration = Duration::from_millis(20);
    const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                           Sec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    /// Sends `first`, then `then` every 20 ms; how long until the server closed, `most` if it did not.
    /// And how many the server refused.
    fn closed_after(first: &[u8], then: &[u8], most: Duration) -> (Duration, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, peer) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
        client.set_read_timeout(Some(EVERY)).unwrap();
        let server = std::thread::spawn(move || {
            let state = state();
            // How the client closes is of no matter.
            let _ = serve(&mut stream, peer, &state, b"");
            state.counts().refused_form
        });
        let began = Instant::now();
        client.write_all(first).unwrap();
        let mut bytes = [0; 4_096];
        let mut sent = Instant::now();
        while began.elapsed() < most {
            match client.read(&mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if would_wait(&error) => {}
                Err(_) => break,
            }
            if sent.elapsed() >= EVERY {
                sent = Instant::now();
                if client.write_all(then).is_err() {
                    break;
                }
            }
        }
        let took = began.elapsed();
        drop(client);
        (took, server.join().unwrap())
    }

    /// A masked frame of WebSocket up to its payload; a mask of zeros changes nothing.
    fn frame(len: u16) -> Vec<u8> {
        [&[0x82, 0xfe][..], &len.to_be_bytes(), &[0; 4]].concat()
    }

    #[test]
    fn what_trickles_has_its_time_and_what_is_busy_is_not_cut() {
        let head = b"GET / HTTP/1.1\r\nX-A: ".to_vec();
        let body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n".to_vec();
        let slow_frame = [UPGRADE.as_bytes(), &frame(60_000)].concat();
        // A frame has always begun and is whole 20 ms later.
        let cut = [UPGRADE.as_bytes(), &frame(200), &[7; 100]].concat();
        let busy = [&[7; 100][..], &frame(200), &[7; 100]].concat();
        let most = SLOW_MAX * 2;
        std::thread::scope(|scope| {
            for first in [head, body, slow_frame] {
                scope.spawn(move || {
                    let (took, refused) = closed_after(&first, b"a", most);
                    let told = format!("{took:?} {:?}", String::from_utf8_lossy(&first));
                    assert!(took >= SLOW_MAX && took < most && refused == 1, "{told}");
                });
            }
            scope.spawn(move || {
                let most = SLOW_MAX + Duration::from_secs(1);
                let (took, refused) = closed_after(&cut, &busy, most);
                assert!(took >= most && refused == 0, "{took:?} {refused}");
            });
        });
    }
}
