//! Writing what players say: requests, handshakes, frames.
//!
//! In: a step and the player that fills its holes. Out: bytes on the player's connection; returned
//! is how many. Whether and when something is said is decided elsewhere.

use std::sync::Arc;

use event::Random;
use wire::websocket::{self, Opcode};

use super::Settings;
use super::links::Sink;
use super::player::Player;
use super::zone;
use crate::load::scenario::mark::Mark;
use crate::load::scenario::program::{HttpStep, Program};
use crate::load::scenario::template::{Filling, Template};

/// What is needed to write.
pub(super) struct Writer {
    settings: Arc<Settings>,
    program: Arc<Program>,
    /// Of masks, keys and the numbers of binary messages.
    random: Random,
    /// Reused: a text to send, and what stands in it.
    text: Vec<u8>,
    payload: Vec<u8>,
}

impl Writer {
    pub(super) fn new(settings: Arc<Settings>, program: Arc<Program>) -> Self {
        Self {
            random: Random::from_number(settings.seed),
            settings,
            program,
            text: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// The requests of one write.
    pub(super) fn request(&self, mut to: Sink<'_>, player: &Player, http: &HttpStep) -> usize {
        let request = &http.requests[self.settings.node_index(player.number)];
        if let Some(whole) = &request.whole {
            return to.send_with(|bytes| bytes.extend_from_slice(whole));
        }
        let filling = filling(player, &self.program);
        to.send_with(|bytes| {
            for _ in 0..http.pipeline {
                write_request(bytes, (&request.head, http.body.as_ref()), &filling);
            }
        })
    }

    /// Asks for a socket; returns the key that the answer has to fit, too.
    pub(super) fn handshake(
        &mut self,
        mut to: Sink<'_>,
        player: &Player,
        (target, extra): (&Template, &[u8]),
    ) -> (usize, [u8; 16]) {
        let key = self.random.bytes::<16>();
        self.text.clear();
        target.fill(&mut self.text, &filling(player, &self.program));
        let target = String::from_utf8_lossy(&self.text);
        let host = &self.settings.node(player.number).host;
        (to.send_with(|bytes| websocket::request(bytes, &target, host, key, extra)), key)
    }

    /// A text frame.
    pub(super) fn text(&mut self, to: Sink<'_>, player: &Player, frame: &Template) -> usize {
        let mut text = self.take_text();
        frame.fill(&mut text, &filling(player, &self.program));
        self.send_text(to, Opcode::Text, text)
    }

    /// A binary frame; returns the number of its message, too.
    pub(super) fn binary(&mut self, to: Sink<'_>, size: u32) -> (usize, u64) {
        let number = self.random.u64();
        let mut text = self.take_text();
        binary_message(&mut text, number, size);
        (self.send_text(to, Opcode::Binary, text), number)
    }

    /// A match message with its mark; without an op code the mark alone.
    pub(super) fn match_message(
        &mut self,
        to: Sink<'_>,
        player: &Player,
        (op_code, size, mark): (Option<i64>, u32, Mark),
    ) -> usize {
        let mut text = self.take_text();
        let Some(op_code) = op_code else {
            mark.write(&mut text, size as usize);
            return self.send_text(to, Opcode::Binary, text);
        };
        text.extend_from_slice(b"{\"match_data_send\":{\"match_id\":\"");
        if let Some(id) = self.program.match_id(&player.captured) {
            text.extend_from_slice(id.as_bytes());
        }
        text.extend_from_slice(b"\",\"op_code\":\"");
        text.extend_from_slice(itoa::Buffer::new().format(op_code).as_bytes());
        text.extend_from_slice(b"\",\"data\":\"");
        self.payload.clear();
        mark.write(&mut self.payload, size as usize);
        push_base64(&mut text, &self.payload);
        text.extend_from_slice(b"\",\"presences\":[]}}");
        self.send_text(to, Opcode::Text, text)
    }

    /// Asks for a ship in the zone.
    pub(super) fn zone_join(&mut self, to: Sink<'_>, player: &Player) -> usize {
        let mut bytes = self.take_text();
        zone::write_join(&mut bytes, player.cid, self.match_id(&player.captured));
        self.send_text(to, Opcode::Binary, bytes)
    }

    /// Asks for datagrams beside the socket.
    pub(super) fn zone_datagrams(&mut self, to: Sink<'_>, player: &Player) -> usize {
        let mut bytes = self.take_text();
        zone::write_ask(&mut bytes, player.cid);
        self.send_text(to, Opcode::Binary, bytes)
    }

    /// The match that the player has captured.
    pub(super) fn match_id<'a>(&self, captured: &'a [Box<str>]) -> &'a str {
        self.program.match_id(captured).unwrap_or_default()
    }

    /// A packet for the zone.
    pub(super) fn zone_controls(&mut self, to: Sink<'_>, player: &Player, packet: &[u8]) -> usize {
        let mut bytes = self.take_text();
        zone::write_controls(&mut bytes, self.match_id(&player.captured), packet);
        self.send_text(to, Opcode::Binary, bytes)
    }

    /// A ping of Nakama's protocol.
    pub(super) fn ping(&mut self, to: Sink<'_>, cid: u32) -> usize {
        let mut text = self.take_text();
        text.extend_from_slice(b"{\"cid\":\"");
        text.extend_from_slice(itoa::Buffer::new().format(cid).as_bytes());
        text.extend_from_slice(b"\",\"ping\":{}}");
        self.send_text(to, Opcode::Text, text)
    }

    /// A frame.
    pub(super) fn frame(&mut self, mut to: Sink<'_>, opcode: Opcode, payload: &[u8]) -> usize {
        let key = self.mask_key();
        to.send_with(|bytes| websocket::encode_masked(bytes, opcode, payload, key))
    }

    /// The buffer for a text, empty.
    fn take_text(&mut self) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        text
    }

    /// Sends a text and takes its buffer back.
    fn send_text(&mut self, to: Sink<'_>, opcode: Opcode, text: Vec<u8>) -> usize {
        let bytes = self.frame(to, opcode, &text);
        self.text = text;
        bytes
    }

    fn mask_key(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.random.u64().to_le_bytes();
        [a, b, c, d]
    }
}

fn filling<'a>(player: &'a Player, program: &'a Program) -> Filling<'a> {
    Filling {
        data: &program.data,
        rows: &player.rows,
        player: player.number,
        round: player.round,
        cid: player.cid,
        captured: &player.captured,
    }
}

fn write_request(
    out: &mut Vec<u8>,
    (head, body): (&Template, Option<&Template>),
    filling: &Filling<'_>,
) {
    head.fill(out, filling);
    if let Some(body) = body {
        let len = body.len(filling);
        out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        body.fill(out, filling);
    }
}

/// A binary message: its number, then a pattern.
fn binary_message(out: &mut Vec<u8>, number: u64, size: u32) {
    let pattern = number.to_le_bytes();
    let start = out.len();
    out.resize(start + size as usize, 0);
    for chunk in out[start..].chunks_mut(8) {
        chunk.copy_from_slice(&pattern[..chunk.len()]);
    }
}

/// Whether these bytes are the message of this number.
pub(super) fn is_binary_message(bytes: &[u8], number: u64) -> bool {
    let pattern = number.to_le_bytes();
    bytes.chunks(8).all(|chunk| *chunk == pattern[..chunk.len()])
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
}
