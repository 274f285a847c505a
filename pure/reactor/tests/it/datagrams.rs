//! Datagrams of a made-up network: peers that send them, wires that drop, double, delay and swap them,
//! a kernel's socket with little room, and an account of every one, in both directions.
//!
//! It draws from random numbers of its own, so that connections are played as without it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use event::{Datagrams, Output, Random, SocketId};

use crate::process::Mail;
use crate::world::byte;

/// Bytes of the longest datagram that the thread's limits allow.
pub(crate) const BYTES_MAX: u32 = 100;
/// Cost of datagrams in one turn, and of those that wait to be sent.
pub(crate) const TURN_BYTES: u32 = 4 << 10;
pub(crate) const QUEUE_BYTES: u32 = 2 << 10;
/// Datagrams for which the kernel's socket has room.
const ROOM: usize = 40;
/// Bytes that say which datagram it is.
const NUMBER_BYTES: usize = 8;
/// A datagram that has come costs so much besides its bytes.
const INPUT_COST: u64 = 256;

/// A datagram of a peer's.
#[derive(Clone, Copy, Debug)]
struct Sent {
    peer: u16,
    number: u64,
    len: usize,
    ecn: u8,
}

/// A piece of the kernel's.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) from: SocketAddr,
    pub(crate) ecn: u8,
    pub(crate) segment: u16,
    pub(crate) bytes: Vec<u8>,
}

/// The network, and what becomes of each datagram.
#[derive(Debug)]
pub(crate) struct Wires {
    random: Random,
    peers: u32,
    is_flood: bool,
    sent: u64,
    /// On their way, with the turn in which they arrive.
    under_way: Vec<(u64, Sent)>,
    /// In the kernel's socket.
    waiting: VecDeque<Sent>,
    lost_untold: u64,
    /// What reached the socket, or found no room there.
    pub(crate) arrived: u64,
    /// What the handler was told; how often it may still be told of each that has a number.
    pub(crate) told: u64,
    may_be_told: BTreeMap<u64, u32>,
    told_in_turn: u64,
    /// What the handler has asked to be sent and the kernel has not been offered, in order.
    expected: VecDeque<(SocketAddr, Vec<u8>)>,
    pub(crate) asked: u64,
    pub(crate) taken: u64,
    pub(crate) never_offered: u64,
}

/// What a datagram carries: its number, as far as it goes, then a pattern.
fn content(number: u64, peer: u16, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((NUMBER_BYTES as u64..len as u64).map(|at| byte(u32::from(peer), at)));
    bytes.truncate(len);
    bytes
}

fn address(peer: u16) -> SocketAddr {
    ([10, 0, 0, 3], peer).into()
}

impl Wires {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::from_number(seed ^ 0xda7a),
            peers: u32::try_from(seed % 5).unwrap(),
            is_flood: seed.is_multiple_of(7),
            sent: 0,
            under_way: Vec::new(),
            waiting: VecDeque::new(),
            lost_untold: 0,
            arrived: 0,
            told: 0,
            may_be_told: BTreeMap::new(),
            told_in_turn: 0,
            expected: VecDeque::new(),
            asked: 0,
            taken: 0,
            never_offered: 0,
        }
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.random.below(times) == 0
    }

    /// Peers send, and the network does to it what networks do.
    pub(crate) fn act(&mut self, turn: u64, hides_losses: bool) {
        for peer in 1..=u16::try_from(self.peers).unwrap() {
            let most = if self.is_flood { 60 } else { 3 };
            // One size, mostly, so that some are merged.
            let len = self.random.below(BYTES_MAX + 10) as usize;
            for _ in 0..self.random.below(most) {
                let len = if self.once_in(5) { self.random.below(12) as usize } else { len };
                let ecn = if self.once_in(3) { 2 } else { 0 };
                self.sent += 1;
                let sent = Sent { peer, number: self.sent, len, ecn };
                let copies = [1, 1, 1, 1, 1, 1, 1, 1, 0, 2][self.random.below(10) as usize];
                for _ in 0..copies {
                    let delay = if self.once_in(3) { self.random.below(5) } else { 0 };
                    self.under_way.push((turn + u64::from(delay), sent));
                }
            }
        }
        let arrives = |due: &(u64, Sent)| due.0 <= turn;
        let (now, later) = self.under_way.drain(..).partition(arrives);
        self.under_way = later;
        for (_, sent) in now {
            self.arrived += 1;
            if self.waiting.len() < ROOM {
                *self.may_be_told.entry(sent.number).or_default() += 1;
                self.waiting.push_back(sent);
            } else if !hides_losses {
                self.lost_untold += 1;
            }
        }
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost_untold)
    }

    /// The next piece of the socket: one datagram, or several of one sender and size.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        let first = self.waiting.pop_front()?;
        let mut piece = Piece {
            from: address(first.peer),
            ecn: first.ecn,
            segment: 0,
            bytes: content(first.number, first.peer, first.len),
        };
        while let Some(next) = self.waiting.front().copied()
            && (next.peer, next.ecn) == (first.peer, first.ecn)
            && (1..=first.len).contains(&next.len)
            && !self.once_in(8)
        {
            self.waiting.pop_front();
            piece.segment = u16::try_from(first.len).unwrap();
            piece.bytes.extend(content(next.number, next.peer, next.len));
            if next.len < first.len {
                break;
            }
        }
        Some(piece)
    }

    /// The handler is told: all must be what somebody sent, and not more than is fair in a turn.
    pub(crate) fn hear(&mut self, datagrams: Datagrams<'_>, out: &mut Output<Mail>) {
        assert!(self.told_in_turn < u64::from(TURN_BYTES), "too many datagrams in one turn");
        assert!(datagrams.socket == SocketId(0) && datagrams.ecn & 1 == 0);
        self.told_in_turn += datagrams.count() * INPUT_COST + datagrams.bytes();
        let (from, count) = (datagrams.from, datagrams.count());
        let mut told = 0;
        for bytes in datagrams {
            told += 1;
            assert!(bytes.len() <= BYTES_MAX as usize, "{} bytes", bytes.len());
            if let Some(number) = bytes.first_chunk().map(|it| u64::from_le_bytes(*it)) {
                assert_eq!(bytes, content(number, from.port(), bytes.len()), "datagram {number}");
                let times = self.may_be_told.get_mut(&number).unwrap();
                assert!(*times > 0, "datagram {number} is told once more than it came");
                *times -= 1;
            }
            self.answer(from, bytes.len(), out);
            // Lent to be changed in place.
            bytes.fill(0);
        }
        assert_eq!(told, count, "each is told by itself");
        self.told += told;
    }

    /// Sends as many bytes back; now and then many more, or what may not be sent.
    fn answer(&mut self, to: SocketAddr, len: usize, out: &mut Output<Mail>) {
        match self.random.below(40) {
            0 => (0..30).for_each(|_| self.send(address(1), 20, out)),
            1 => self.send(to, BYTES_MAX as usize + 1, out),
            2 => out.send_datagram(SocketId(9), to, b"a socket that is not there"),
            _ => self.send(to, len.max(NUMBER_BYTES), out),
        }
    }

    fn send(&mut self, to: SocketAddr, len: usize, out: &mut Output<Mail>) {
        self.asked += 1;
        let bytes = content(self.asked, 0, len);
        out.send_datagram(SocketId(0), to, &bytes);
        self.expected.push_back((to, bytes));
    }

    /// The turn is over for the handler.
    pub(crate) fn turn_ends(&mut self) {
        self.told_in_turn = 0;
    }

    /// The kernel is offered a datagram: the next of those that were asked for, those without room
    /// left out.
    pub(crate) fn offered(&mut self, to: SocketAddr, bytes: &[u8]) {
        while let Some((expected_to, expected)) = self.expected.pop_front() {
            if (expected_to, &*expected) == (to, bytes) {
                return;
            }
            self.never_offered += 1;
        }
        panic!("a datagram to {to} that nobody sent, or out of order");
    }

    /// How many of so many datagrams the kernel has room for.
    pub(crate) fn takes(&mut self, count: u64, is_moody: bool) -> u64 {
        let taken = if is_moody && self.once_in(5) { count / 2 } else { count };
        self.taken += taken;
        taken
    }

    /// All that was asked for and not offered was left out.
    pub(crate) fn end(&mut self) {
        self.never_offered += self.expected.drain(..).count() as u64;
    }
}
