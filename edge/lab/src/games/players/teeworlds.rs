//! A player of Teeworlds 0.7 who connects, enters the game, and runs about: enough of the protocol to be
//! sent snapshots as every player is. What is in a snapshot is not read, only of which tick it is.
//!
//! ```text
//! player                      server
//! token  ───────────────────▶
//!        ◀─────────────────── token
//! connect ──────────────────▶
//!        ◀─────────────────── accept
//! info   ───────────────────▶
//!        ◀─────────────────── map change      (the map is not fetched)
//! ready  ───────────────────▶
//!        ◀─────────────────── connection ready
//! start info ───────────────▶
//!        ◀─────────────────── ready to enter
//! enter game ───────────────▶
//! input  ───────────────────▶
//!        ◀─────────────────── snapshots
//! ```
//!
//! What must arrive is numbered and sent again until it is acknowledged. Source: libtw2 doc/packet7.md,
//! doc/connection.md, and the messages' numbers in its gamenet/spec of 0.7.

use std::collections::VecDeque;

use super::client::{ASK_AGAIN_NS, Client, Out, next_ns};
use super::seen::PlayerSeen;
use crate::games::teeworlds::{
    Packet, SEQUENCES, chunk, control, message, number, packet, put_chunk, put_number, put_text,
    read,
};
use crate::measure::arrivals::Stream;

/// Ticks a second, in all versions.
const TICK_NS: u64 = 20_000_000;
const VERSION: &str = "0.7 802f1be60a05665f";
const CLIENT_VERSION: i32 = 0x0705;

const TOKEN_NONE: u32 = u32::MAX;
/// Bytes to which a client's first words are padded, so that no answer is longer.
const PADDED_BYTES: usize = 512;

const CONTROL_CONNECT: u8 = 1;
const CONTROL_ACCEPT: u8 = 2;
const CONTROL_CLOSE: u8 = 4;
const CONTROL_TOKEN: u8 = 5;

const SYSTEM_INFO: i32 = 1;
const SYSTEM_MAP_CHANGE: i32 = 2;
const SYSTEM_CON_READY: i32 = 5;
const SYSTEM_SNAP: i32 = 6;
const SYSTEM_SNAP_EMPTY: i32 = 7;
const SYSTEM_SNAP_SINGLE: i32 = 8;
const SYSTEM_READY: i32 = 18;
const SYSTEM_ENTER_GAME: i32 = 19;
const SYSTEM_INPUT: i32 = 20;
const GAME_READY_TO_ENTER: i32 = 8;
const GAME_START_INFO: i32 = 27;

/// Messages that wait to be acknowledged, at most: a player has five to say.
const UNACKED_MAX: usize = 16;
/// Ticks ahead of the last snapshot for which an input is meant.
const AHEAD_TICKS: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Token,
    Connecting,
    /// Says what must arrive, until the first snapshot comes.
    Joining,
    Playing,
}

/// One player.
#[derive(Debug)]
pub(super) struct Player {
    name: String,
    period_ns: u64,
    phase: Phase,
    own_token: u32,
    token: u32,
    /// The last numbered message that came, and the last that was sent.
    came: u16,
    sent: u16,
    unacked: VecDeque<(u16, Vec<u8>)>,
    snapshot: i32,
    inputs: Inputs,
    room: Vec<u8>,
}

/// What it does: runs one way for a while, jumps, shoots, and turns.
#[derive(Debug, Default)]
struct Inputs {
    left: u32,
    direction: i32,
    fire: i32,
}

impl Inputs {
    /// Direction, target x and y, jump, fire, hook, flags, wanted, next and previous weapon.
    fn next(&mut self, stream: &mut Stream) -> [i32; 10] {
        if self.left == 0 {
            self.left = 10 + stream.below(60);
            self.direction = i32::from(stream.below(2) == 1) * 2 - 1;
        }
        self.left -= 1;
        let is = |of: u32, stream: &mut Stream| i32::from(stream.below(of) == 0);
        // Every change of the counter is a press or a release.
        self.fire += is(10, stream);
        let around = |stream: &mut Stream| stream.below(400).cast_signed() - 200;
        let (x, y) = (around(stream), around(stream));
        let (jump, hook) = (is(20, stream), is(15, stream));
        [self.direction, x, y, jump, self.fire, hook, 0, 0, 0, 0]
    }
}

impl Player {
    pub(super) fn new(name: String, own_token: u32, period_ns: u64) -> Self {
        Self {
            name,
            period_ns,
            phase: Phase::Token,
            own_token,
            token: TOKEN_NONE,
            came: 0,
            sent: 0,
            unacked: VecDeque::new(),
            snapshot: -1,
            inputs: Inputs::default(),
            room: Vec::new(),
        }
    }

    fn hello(&self, out: &mut Out) {
        let mut rest = self.own_token.to_be_bytes().to_vec();
        rest.resize(PADDED_BYTES, 0);
        let kind = if self.phase == Phase::Token { CONTROL_TOKEN } else { CONTROL_CONNECT };
        out.send(control(self.token, kind, &rest));
    }

    /// Says something until it is acknowledged.
    fn say(&mut self, payload: Vec<u8>, out: &mut Out) {
        if self.unacked.len() >= UNACKED_MAX {
            return;
        }
        self.sent = (self.sent + 1) % SEQUENCES;
        self.unacked.push_back((self.sent, payload));
        let from = self.unacked.len() - 1;
        self.repeat(from, out);
    }

    /// Sends what is not acknowledged, from a place on.
    fn repeat(&self, from: usize, out: &mut Out) {
        for (sequence, payload) in self.unacked.iter().skip(from) {
            let mut chunks = Vec::new();
            put_chunk(&mut chunks, Some(*sequence), payload);
            out.send(packet(self.token, self.came, 1, &chunks));
        }
    }

    fn acknowledged(&mut self, ack: u16) {
        // Numbers go round: those up to half a round before it are behind it.
        let is_behind = |sequence: u16| (ack + SEQUENCES - sequence) % SEQUENCES < SEQUENCES / 2;
        while self.unacked.front().is_some_and(|(sequence, _)| is_behind(*sequence)) {
            self.unacked.pop_front();
        }
    }

    fn control(&mut self, kind: u8, rest: &[u8], seen: &mut PlayerSeen, out: &mut Out) {
        match (self.phase, kind) {
            (Phase::Token, CONTROL_TOKEN) => {
                if let Some(token) = rest.first_chunk() {
                    self.token = u32::from_be_bytes(*token);
                    self.phase = Phase::Connecting;
                    self.hello(out);
                }
            }
            (Phase::Connecting, CONTROL_ACCEPT) => {
                self.phase = Phase::Joining;
                let mut info = message(SYSTEM_INFO, true);
                put_text(&mut info, VERSION);
                put_text(&mut info, "");
                put_number(&mut info, CLIENT_VERSION);
                self.say(info, out);
            }
            (_, CONTROL_CLOSE) => seen.refused = Some("the server closed the connection"),
            (Phase::Token | Phase::Connecting | Phase::Joining | Phase::Playing, _) => {}
        }
    }

    /// Which numbered messages are new: the next one only, as the rest comes again.
    fn is_new(&mut self, sequence: Option<u16>) -> bool {
        let Some(sequence) = sequence else { return true };
        let is_next = sequence == (self.came + 1) % SEQUENCES;
        if is_next {
            self.came = sequence;
        }
        is_next
    }

    fn message(&mut self, payload: &[u8], at_ns: u64, seen: &mut PlayerSeen, out: &mut Out) {
        let Some((kind, rest)) = number(payload) else { return };
        match (kind >> 1, kind & 1 == 1) {
            (SYSTEM_MAP_CHANGE, true) => self.say(message(SYSTEM_READY, true), out),
            (SYSTEM_CON_READY, true) => {
                let info = self.start_info();
                self.say(info, out);
            }
            (GAME_READY_TO_ENTER, false) => self.say(message(SYSTEM_ENTER_GAME, true), out),
            (SYSTEM_SNAP | SYSTEM_SNAP_EMPTY | SYSTEM_SNAP_SINGLE, true) => {
                let is_last = kind >> 1 != SYSTEM_SNAP || is_last_part(rest) == Some(true);
                if let Some((tick, _)) = number(rest).filter(|_| is_last) {
                    self.snapshot(tick, at_ns, seen);
                }
            }
            // Chat, votes, settings of the game: nothing that it has to answer.
            _ => {}
        }
    }

    fn snapshot(&mut self, tick: i32, at_ns: u64, seen: &mut PlayerSeen) {
        let Ok(number) = u64::try_from(tick) else { return };
        self.phase = Phase::Playing;
        self.snapshot = self.snapshot.max(tick);
        seen.schedule.set_tick(TICK_NS);
        seen.schedule.arrive(number, at_ns);
    }

    /// Name, clan and country; six parts of a skin, whether each has a colour of its own, and which.
    fn start_info(&self) -> Vec<u8> {
        let mut info = message(GAME_START_INFO, false);
        put_text(&mut info, &self.name);
        put_text(&mut info, "");
        put_number(&mut info, -1);
        for part in ["standard", "", "", "standard", "standard", "standard"] {
            put_text(&mut info, part);
        }
        for _ in 0..12 {
            put_number(&mut info, 0);
        }
        info
    }

    fn input(&mut self, stream: &mut Stream, out: &mut Out) {
        let mut input = message(SYSTEM_INPUT, true);
        put_number(&mut input, self.snapshot);
        put_number(&mut input, self.snapshot.saturating_add(AHEAD_TICKS));
        let fields = self.inputs.next(stream);
        put_number(&mut input, 40);
        fields.iter().for_each(|field| put_number(&mut input, *field));
        // The ping, for the server's prediction.
        put_number(&mut input, 0);
        let mut chunks = Vec::new();
        put_chunk(&mut chunks, None, &input);
        out.send(packet(self.token, self.came, 1, &chunks));
    }
}

/// Behind tick and base: how many parts, and which one.
fn is_last_part(rest: &[u8]) -> Option<bool> {
    let (_, rest) = number(rest)?;
    let (_, rest) = number(rest)?;
    let (parts, rest) = number(rest)?;
    let (part, _) = number(rest)?;
    Some(part + 1 == parts)
}

impl Client for Player {
    fn beat(&mut self, _due_ns: u64, stream: &mut Stream, out: &mut Out) -> u64 {
        match self.phase {
            Phase::Token | Phase::Connecting => {
                self.hello(out);
                ASK_AGAIN_NS
            }
            Phase::Joining => {
                self.repeat(0, out);
                ASK_AGAIN_NS
            }
            Phase::Playing => {
                self.input(stream, out);
                next_ns(self.period_ns, stream)
            }
        }
    }

    fn take(&mut self, bytes: &[u8], at_ns: u64, seen: &mut PlayerSeen, out: &mut Out) {
        let mut room = std::mem::take(&mut self.room);
        match read(bytes, &mut room) {
            Some(Packet::Control { token, kind, rest }) if token == self.own_token => {
                self.control(kind, rest, seen, out);
            }
            Some(Packet::Chunks { token, ack, wants_again, payload })
                if token == self.own_token =>
            {
                self.acknowledged(ack);
                if wants_again {
                    self.repeat(0, out);
                }
                let mut rest = payload;
                while let Some(chunk) = chunk(&mut rest) {
                    if self.is_new(chunk.sequence) {
                        self.message(chunk.payload, at_ns, seen, out);
                    }
                }
            }
            // Of an earlier connection.
            Some(Packet::Control { .. } | Packet::Chunks { .. }) | None => {}
        }
        self.room = room;
    }

    fn is_in(&self) -> bool {
        self.phase == Phase::Playing
    }

    fn leave(&mut self, out: &mut Out) {
        if self.token != TOKEN_NONE {
            out.send(control(self.token, CONTROL_CLOSE, b""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CONTROL_ACCEPT, CONTROL_TOKEN, Client as _, GAME_READY_TO_ENTER, GAME_START_INFO, Out,
        Packet, Player, SYSTEM_CON_READY, SYSTEM_ENTER_GAME, SYSTEM_INFO, SYSTEM_INPUT,
        SYSTEM_MAP_CHANGE, SYSTEM_READY, SYSTEM_SNAP, SYSTEM_SNAP_EMPTY, Stream, TICK_NS, chunk,
        control, message, number, packet, put_chunk, put_number, read,
    };
    use crate::games::players::seen::{PlayerSeen, ServerSeen};

    const OURS: u32 = 77;
    const THEIRS: u32 = 0x0102_0304;

    struct Server {
        player: Player,
        seen: PlayerSeen,
        stream: Stream,
        sequence: u16,
        at_ns: u64,
    }

    impl Server {
        fn new() -> Self {
            let player = Player::new("p".to_owned(), OURS, 20_000_000);
            let (seen, stream) = (PlayerSeen::default(), Stream::new(1, 1));
            Self { player, seen, stream, sequence: 0, at_ns: 0 }
        }

        /// What the player sends of itself.
        fn beat(&mut self) -> Vec<Vec<u8>> {
            let mut out = Out::default();
            self.player.beat(self.at_ns, &mut self.stream, &mut out);
            out.0
        }

        fn give(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
            let mut out = Out::default();
            self.player.take(bytes, self.at_ns, &mut self.seen, &mut out);
            out.0
        }

        /// A message of the server in a packet that acknowledges so much.
        fn tell(&mut self, is_vital: bool, ack: u16, payload: &[u8]) -> Vec<Vec<u8>> {
            self.sequence += u16::from(is_vital);
            let mut chunks = Vec::new();
            put_chunk(&mut chunks, is_vital.then_some(self.sequence), payload);
            self.give(&packet(OURS, ack, 1, &chunks))
        }

        fn snapshot(&mut self, kind: i32, numbers: &[i32]) {
            let mut payload = message(kind, true);
            numbers.iter().for_each(|it| put_number(&mut payload, *it));
            assert_eq!(self.tell(false, 4, &payload), [[0; 0]; 0]);
        }
    }

    /// Kind and number of a packet's only message, and whether it is to arrive.
    fn said(bytes: &[u8]) -> (i32, bool, Option<u16>) {
        let mut room = Vec::new();
        let Some(Packet::Chunks { token: THEIRS, mut payload, .. }) = read(bytes, &mut room) else {
            panic!("{bytes:?}")
        };
        let chunk = chunk(&mut payload).unwrap();
        let (kind, _) = number(chunk.payload).unwrap();
        (kind >> 1, kind & 1 == 1, chunk.sequence)
    }

    fn joined() -> Server {
        let mut server = Server::new();
        let hello = server.beat();
        assert_eq!((hello[0].len(), &hello[0][..8]), (520, &b"\x04\0\0\xff\xff\xff\xff\x05"[..]));
        let connect = server.give(&control(OURS, CONTROL_TOKEN, &THEIRS.to_be_bytes()));
        assert_eq!(&connect[0][..12], b"\x04\0\0\x01\x02\x03\x04\x01\0\0\0\x4d");
        let info = server.give(&control(OURS, CONTROL_ACCEPT, b""));
        assert_eq!(said(&info[0]), (SYSTEM_INFO, true, Some(1)));
        let ready = server.tell(true, 1, &message(SYSTEM_MAP_CHANGE, true));
        assert_eq!(said(&ready[0]), (SYSTEM_READY, true, Some(2)));
        let start = server.tell(true, 2, &message(SYSTEM_CON_READY, true));
        assert_eq!(said(&start[0]), (GAME_START_INFO, false, Some(3)));
        let enter = server.tell(true, 2, &message(GAME_READY_TO_ENTER, false));
        assert_eq!(said(&enter[0]), (SYSTEM_ENTER_GAME, true, Some(4)));
        server
    }

    #[test]
    fn it_joins_and_runs_about() {
        let mut server = joined();
        assert!(!server.player.is_in());
        // The server's last word acknowledged two of four.
        let again: Vec<_> = server.beat().iter().map(|it| said(it).2).collect();
        assert_eq!(again, [Some(3), Some(4)]);
        server.snapshot(SYSTEM_SNAP_EMPTY, &[100, 101]);
        assert!(server.player.is_in());
        let input = server.beat();
        assert_eq!(said(&input[0]), (SYSTEM_INPUT, true, None));
        assert!((15..100).contains(&input[0].len()), "{}", input[0].len());
    }

    #[test]
    fn snapshots_are_told_by_their_last_part() {
        let mut server = joined();
        server.snapshot(SYSTEM_SNAP_EMPTY, &[100, 101]);
        server.seen.begin();
        for (tick, part) in [(102, 0), (102, 1), (104, 0)] {
            server.at_ns += TICK_NS;
            // Tick, base, parts, part, checksum, bytes.
            server.snapshot(SYSTEM_SNAP, &[tick, 2, 2, part, 0, 0]);
        }
        let mut told = ServerSeen::default();
        server.seen.end(&mut told);
        assert_eq!((told.snapshots, told.tick_ns), (1, TICK_NS));
    }

    #[test]
    fn what_is_out_of_order_or_anothers_changes_nothing() {
        let mut server = joined();
        server.sequence += 1;
        // One is missing before it, so that it will come again.
        assert_eq!(server.tell(true, 4, &message(SYSTEM_MAP_CHANGE, true)), [[0; 0]; 0]);
        assert_eq!(server.give(&control(OURS + 1, CONTROL_ACCEPT, b"")), [[0; 0]; 0]);
        for bytes in [&b""[..], b"\x10\0\x01\0\0\0\x4d\xff\xff", b"\x04\0\0\0\0\0\x4d"] {
            assert_eq!(server.give(bytes), [[0; 0]; 0]);
        }
    }
}
