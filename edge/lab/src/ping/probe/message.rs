//! Messages over a connection that come back: those of `throng ping serve`, and those of WebSocket.
//!
//! A message carries its length and its number, and both are checked when it comes back. Over
//! WebSocket it is the payload of a ping frame, which every server answers (RFC 6455, section
//! 5.5.3), or, where it is too long for one, a binary message, which the server has to send back.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use wire::http1::{self, Limits, ResponseDecoder};
use wire::websocket::{self, CONTROL_BYTES_MAX, Opcode};

use super::wire::{Wire, connect};
use super::{Answered, Clock, Gone, Probe, Start, Traffic, random};
use crate::measure::text::one_line;
use crate::peer::control::greet;
use crate::peer::protocol::{HEAD_BYTES, Hello, Role, Service, head, read_head};

/// Messages under way on one connection, at most.
const WAITING_MAX: usize = 4_096;

/// Messages of this project's protocol.
pub(super) struct Message {
    wire: Wire,
    /// Number and length of what is under way, in order.
    expected: VecDeque<(u64, u32)>,
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// Bytes of the present answer that are to come.
    left: u32,
}

impl Message {
    pub(super) fn connect(start: Start<'_>) -> Result<Self, Gone> {
        let mut traffic = Traffic::default();
        let stream = connect(start.plan, start.clock, &mut traffic)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (service, session) = (Service::Ping, Some(start.session));
        let hello = Hello { service, role: Role::Tcp, token: None, session, version };
        greet(&stream, &hello, start.plan.patience())?;
        let mut wire = Wire::new(stream, traffic)?;
        wire.out = vec![0; start.largest().max(HEAD_BYTES)];
        let head = [0; HEAD_BYTES];
        Ok(Self { wire, expected: VecDeque::new(), head, head_len: 0, left: 0 })
    }
}

impl Probe for Message {
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        self.wire.waits_on()
    }

    fn waiting_max(&self) -> usize {
        WAITING_MAX
    }

    fn has_unsent(&self) -> bool {
        self.wire.has_unsent()
    }

    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone> {
        if let Some(place) = self.wire.out.first_chunk_mut() {
            *place = head(size, number);
        }
        self.expected.push_back((number, size));
        self.wire.begin(clock, usize::try_from(size).unwrap_or(0))
    }

    fn go_on(&mut self) -> Result<(), Gone> {
        self.wire.go_on()
    }

    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone> {
        let Some((mut bytes, at_ns)) = self.wire.read(clock)? else { return Ok(false) };
        while !bytes.is_empty() {
            if self.left == 0 {
                let taken = bytes.len().min(HEAD_BYTES - self.head_len);
                let (front, rest) = bytes.split_at(taken);
                self.head[self.head_len..self.head_len + taken].copy_from_slice(front);
                (self.head_len, bytes) = (self.head_len + taken, rest);
                if self.head_len < HEAD_BYTES {
                    break;
                }
                let (len, number) = read_head(self.head);
                if self.expected.front() != Some(&(number, len)) {
                    return Err(Gone::Broken(format!("message {number} of {len} bytes")));
                }
                self.head_len = 0;
                self.left = len.saturating_sub(u32::try_from(HEAD_BYTES).unwrap_or(0));
            }
            let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(0));
            bytes = &bytes[taken..];
            self.left -= u32::try_from(taken).unwrap_or(0);
            if self.left == 0
                && let Some((number, _)) = self.expected.pop_front()
            {
                answers.push(Answered { number, at_ns, bad_status: None });
            }
        }
        Ok(true)
    }

    fn take_traffic(&mut self) -> Traffic {
        self.wire.take_traffic()
    }
}

/// Frames of WebSocket.
pub(super) struct Socket {
    wire: Wire,
    /// What came in one piece with the answer to the handshake.
    early: Vec<u8>,
    decoder: websocket::Decoder,
    scratch: Vec<u8>,
    payload: Vec<u8>,
    key: [u8; 4],
}

impl Socket {
    pub(super) fn connect(start: Start<'_>) -> Result<Self, Gone> {
        let mut traffic = Traffic::default();
        let mut wire = Wire::connect(start.plan, start.tls, start.clock, &mut traffic)?;
        let (server, early) = open(&mut wire, start)?;
        traffic.server = server;
        // What was said to open it is no ping.
        drop(wire.take_traffic());
        wire.add_traffic(traffic);
        let bytes_max = start.largest().max(CONTROL_BYTES_MAX);
        Ok(Self {
            wire,
            early,
            decoder: websocket::Decoder::new(websocket::Role::Client, bytes_max),
            scratch: Vec::new(),
            payload: vec![0; bytes_max],
            // Proxies must not see what the sender chose; to this sender it does not matter.
            key: random(),
        })
    }
}

/// The opening handshake; the `Server` header of its answer, and what came behind it.
fn open(wire: &mut Wire, start: Start<'_>) -> Result<(String, Vec<u8>), Gone> {
    let plan = start.plan;
    let patience = plan.patience();
    let key: [u8; 16] = random();
    websocket::request(&mut wire.out, &plan.place.path, &plan.place.host, key, &bearer(plan));
    wire.begin(start.clock, wire.out.len())?;
    let mut decoder = ResponseDecoder::new();
    loop {
        if wire.has_unsent() {
            wire.go_on()?;
        }
        let Some((mut input, _)) = wire.read(start.clock)? else {
            wire.wait(patience)?;
            if patience.is_up() {
                return Err(Gone::Vanished(plan.timeout));
            }
            continue;
        };
        let response = decoder.next(&mut input, &Limits::default(), false);
        match response.map_err(|error| Gone::NoSocket(format!("not HTTP ({error})")))? {
            None => {}
            Some(response) if websocket::is_accepted(&response, key) => {
                let server = response.header("server").unwrap_or_default();
                let server = one_line(&String::from_utf8_lossy(server));
                return Ok((server, input.to_vec()));
            }
            Some(response) if response.status == 401 => {
                return Err(Gone::Refused(crate::peer::protocol::Refusal::Token.to_string()));
            }
            Some(response) => {
                let status = response.status;
                return Err(Gone::NoSocket(format!("{status} {}", http1::reason(status))));
            }
        }
    }
}

/// The header that proves that one may, where a token was given.
pub(super) fn bearer(plan: &super::super::plan::Plan) -> Vec<u8> {
    let mut extra = Vec::new();
    if let Some(token) = &plan.token {
        http1::write_header(&mut extra, "Authorization", &format!("Bearer {token}"));
    }
    extra
}

impl Probe for Socket {
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        self.wire.waits_on()
    }

    fn waiting_max(&self) -> usize {
        WAITING_MAX
    }

    fn has_unsent(&self) -> bool {
        self.wire.has_unsent()
    }

    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone> {
        if let Some(place) = self.payload.first_chunk_mut() {
            *place = head(size, number);
        }
        let len = usize::try_from(size).unwrap_or(0).min(self.payload.len());
        let opcode = if len <= CONTROL_BYTES_MAX { Opcode::Ping } else { Opcode::Binary };
        self.wire.out.clear();
        websocket::encode_masked(&mut self.wire.out, opcode, &self.payload[..len], self.key);
        let len = self.wire.out.len();
        self.wire.begin(clock, len)
    }

    fn go_on(&mut self) -> Result<(), Gone> {
        self.wire.go_on()
    }

    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone> {
        let early = std::mem::take(&mut self.early);
        let (mut bytes, at_ns) = if early.is_empty() {
            let Some(it) = self.wire.read(clock)? else { return Ok(false) };
            it
        } else {
            (&*early, clock.now())
        };
        let broken = |error: websocket::WsError| Gone::Broken(error.to_string());
        while let Some(message) =
            self.decoder.next(&mut bytes, &mut self.scratch).map_err(broken)?
        {
            let payload = match message {
                websocket::Message::Pong(payload) | websocket::Message::Binary(payload) => payload,
                websocket::Message::Close { code, reason } => {
                    let code = code.map_or("without a code".to_owned(), |it| it.to_string());
                    return Err(Gone::Ended(one_line(&format!("close frame {code} {reason}"))));
                }
                // What a server says unasked is no answer, and its pings need none within a run.
                websocket::Message::Text(_) | websocket::Message::Ping(_) => continue,
            };
            if let Some(head) = payload.first_chunk()
                && let (len, number) = read_head(*head)
                && usize::try_from(len) == Ok(payload.len())
            {
                answers.push(Answered { number, at_ns, bad_status: None });
            }
        }
        Ok(true)
    }

    fn take_traffic(&mut self) -> Traffic {
        self.wire.take_traffic()
    }
}
