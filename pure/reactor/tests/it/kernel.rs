//! The made-up kernel, as a driver: completions like those of a ring, with a pool of receive
//! buffers. Each connection's operations complete in order; connections among each other in any.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use event::{ConnectFailure, Datagrams, ListenerId, Now, SocketId};
use reactor::{Driver, Net, Phase, Reactor, Receive, Taken};

use crate::datagrams::Piece;
use crate::process::{Boxes, Mail};
use crate::world::{Broken, Kind, Shared, Sock, byte};

/// Operations that the kernel holds of a connection.
const RECEIVE: u16 = 1;
const MANY: u16 = 2;
const SEND: u16 = 4;
const WATCH: u16 = 8;
const CONNECT: u16 = 16;
const CANCEL: u16 = 32;
const SHUT: u16 = 64;
const CLOSE: u16 = 128;
/// A receive, or a send, has completed, and that is not told.
const RECEIVED: u16 = 256;
const SENT: u16 = 512;
/// Pieces that a receive of whatever comes brings at once, as Linux has it.
const PIECES: u32 = 32;

/// After so many turns somebody should have told.
const FORGOTTEN_TURNS: u64 = 200;

/// What has happened to a connection.
#[derive(Debug)]
enum Event {
    Accepted {
        file: u32,
    },
    Bytes {
        slot: u32,
        bytes: Vec<u8>,
        is_over: bool,
    },
    Nothing {
        slot: u32,
    },
    Shortage {
        slot: u32,
    },
    Eof {
        slot: u32,
    },
    Reset {
        slot: u32,
    },
    Sent {
        slot: u32,
        bytes: Option<u64>,
    },
    HangUp {
        slot: u32,
    },
    Connected {
        slot: u32,
        file: u32,
    },
    ConnectFailed {
        slot: u32,
        failure: ConnectFailure,
    },
    /// What was outstanding has been taken back.
    Cancelled {
        slot: u32,
    },
    Closed {
        slot: u32,
    },
}

/// What the kernel holds of a connection.
#[derive(Debug, Default)]
struct Held {
    ops: u16,
    file: Option<u32>,
    /// What it was offered, and when.
    offered: u64,
    to: Option<(u64, u32)>,
}

/// The driver.
pub(crate) struct Kernel {
    world: Shared,
    boxes: std::rc::Rc<Boxes>,
    held: BTreeMap<u32, Held>,
    done: VecDeque<Event>,
    buffers: u32,
    is_accepting: bool,
    idle_turns: u32,
    /// Datagrams that were taken out of the socket and are not told.
    untold: Option<Piece>,
    /// Turns behind each other in which it was not told.
    turns_waited: u32,
    /// Whether datagrams were asked for in this turn.
    was_asked: bool,
}

/// The run has lasted far too long.
#[derive(Debug)]
pub(crate) struct Endless;

impl Kernel {
    pub(crate) fn new(world: Shared, boxes: std::rc::Rc<Boxes>) -> Self {
        let buffers = u32::from(world.borrow().profile.limits.receive_buffers);
        let (held, done) = (BTreeMap::new(), VecDeque::new());
        let (is_accepting, idle_turns, untold, was_asked) = (false, 0, None, false);
        Self {
            world,
            boxes,
            held,
            done,
            buffers,
            is_accepting,
            idle_turns,
            untold,
            turns_waited: 0,
            was_asked,
        }
    }

    /// Whether the kernel puts something off.
    fn is_moody(&self) -> bool {
        let world = &mut *self.world.borrow_mut();
        world.profile.is_moody && !world.once_in(3)
    }

    /// Completes what can be, of connections in any order.
    fn complete(&mut self) {
        if self.is_accepting {
            while let Some(kind) = self.next_to_come() {
                let file = self.world.borrow_mut().connect(kind);
                self.done.push_back(Event::Accepted { file });
            }
        }
        let mut slots: Vec<u32> = self.held.keys().copied().collect();
        for index in (1..slots.len()).rev() {
            let end = u32::try_from(index + 1).unwrap();
            slots.swap(index, self.world.borrow_mut().random.below(end) as usize);
        }
        if self.world.borrow().profile.is_unkind {
            let is_quiet = |slot: &u32| {
                let file = self.held[slot].file;
                file.is_some_and(|file| self.world.borrow_mut().sock(file).kind == Kind::Quiet)
            };
            slots.sort_by_key(is_quiet);
        }
        for slot in slots {
            if !self.is_moody() {
                self.complete_one(slot);
            }
        }
    }

    fn next_to_come(&self) -> Option<Kind> {
        let world = &mut *self.world.borrow_mut();
        if world.profile.is_moody && world.once_in(2) { None } else { world.to_come.pop() }
    }

    fn complete_one(&mut self, slot: u32) {
        let held = self.held.get_mut(&slot).unwrap();
        if held.ops & CLOSE != 0 {
            return;
        }
        if held.ops & CONNECT != 0 {
            let Some((token, since)) = &mut held.to else { unreachable!("connects nowhere") };
            let world = &mut *self.world.borrow_mut();
            *since += 1;
            match world.random.below(12) {
                0..=3 => {
                    held.ops &= !CONNECT;
                    let file = world.connect(Kind::Quiet);
                    world.sock(file).token = *token;
                    held.file = Some(file);
                    self.done.push_back(Event::Connected { slot, file });
                }
                4 => {
                    held.ops &= !CONNECT;
                    let failure = ConnectFailure::Refused;
                    self.done.push_back(Event::ConnectFailed { slot, failure });
                }
                _ => {}
            }
        }
        let Some(file) = self.held[&slot].file else { return };
        if self.held[&slot].ops & SEND != 0 {
            self.complete_send(slot, file);
        }
        if self.held[&slot].ops & RECEIVE != 0 {
            self.complete_receive(slot, file);
        }
        let hides = self.world.borrow().profile.broken == Some(Broken::HidesResets);
        let held = self.held.get_mut(&slot).unwrap();
        if held.ops & WATCH != 0 && self.world.borrow_mut().sock(file).reset && !hides {
            held.ops &= !WATCH;
            self.done.push_back(Event::HangUp { slot });
        }
    }

    fn complete_send(&mut self, slot: u32, file: u32) {
        let world = &mut *self.world.borrow_mut();
        let (is_moody, room) = (world.profile.is_moody, world.profile.room);
        let draw = world.random.below(4);
        let held = self.held.get_mut(&slot).unwrap();
        let sock: &mut Sock = world.sock(file);
        let bytes = if sock.reset {
            None
        } else {
            let mut bytes = held.offered.min(room - (sock.accepted - sock.read));
            if is_moody && draw == 0 {
                bytes = bytes.div_ceil(2);
            }
            if bytes == 0 {
                return;
            }
            sock.accepted += bytes;
            Some(bytes)
        };
        held.ops = held.ops & !SEND | SENT;
        self.done.push_back(Event::Sent { slot, bytes });
    }

    fn complete_receive(&mut self, slot: u32, file: u32) {
        let world = &mut *self.world.borrow_mut();
        let buffer_bytes = u64::from(world.profile.limits.receive_buffer_bytes);
        let turn = world.turn;
        let held = self.held.get_mut(&slot).unwrap();
        for _ in 0..if held.ops & MANY != 0 { PIECES } else { 1 } {
            let splits = world.profile.is_moody && world.once_in(2);
            let loses = world.profile.broken == Some(Broken::LosesBytes) && world.once_in(500);
            let cut = u64::from(world.random.below(64)) + 1;
            let sock = world.sock(file);
            let waiting = sock.sent - sock.taken;
            let mut len = waiting.min(buffer_bytes);
            if sock.reset && waiting == 0 {
                held.ops = held.ops & !(RECEIVE | MANY) | RECEIVED;
                self.done.push_back(Event::Reset { slot });
                return;
            }
            if waiting == 0 {
                if sock.fin {
                    held.ops = held.ops & !(RECEIVE | MANY) | RECEIVED;
                    self.done.push_back(Event::Eof { slot });
                } else if held.ops & MANY == 0 && cut % 2 == 0 {
                    // As a driver that reads without asking may find.
                    held.ops = held.ops & !RECEIVE | RECEIVED;
                    self.done.push_back(Event::Nothing { slot });
                }
                return;
            }
            if self.buffers == 0 {
                held.ops = held.ops & !(RECEIVE | MANY) | RECEIVED;
                self.done.push_back(Event::Shortage { slot });
                return;
            }
            if splits {
                len = len.min(cut);
            }
            self.buffers -= 1;
            let mut bytes: Vec<u8> =
                (sock.taken..sock.taken + len).map(|at| byte(file, at)).collect();
            if loses && bytes.len() > 1 {
                bytes.pop();
            }
            sock.taken += len;
            // What came before a reset is told before it.
            sock.reset_turn = turn;
            let is_over = held.ops & MANY == 0;
            if is_over {
                held.ops = held.ops & !RECEIVE | RECEIVED;
            }
            self.done.push_back(Event::Bytes { slot, bytes, is_over });
        }
    }

    fn tell(&mut self, reactor: &mut Reactor<Mail>, event: Event) {
        let (slot, bits) = match &event {
            Event::Bytes { slot, is_over: true, .. }
            | Event::Nothing { slot }
            | Event::Shortage { slot }
            | Event::Eof { slot }
            | Event::Reset { slot } => (*slot, RECEIVED),
            Event::Sent { slot, .. } => (*slot, SENT),
            Event::Cancelled { slot } => (*slot, CANCEL),
            _ => (u32::MAX, 0),
        };
        if let Some(held) = self.held.get_mut(&slot) {
            held.ops &= !bits;
        }
        match event {
            Event::Accepted { file } => {
                let peer = ([10, 0, 0, 2], u16::try_from(file).unwrap()).into();
                match reactor.on_accepted(ListenerId(0), peer, file) {
                    Some(slot) => {
                        self.held.insert(slot, Held { file: Some(file), ..Held::default() });
                    }
                    None => self.world.borrow_mut().sock(file).closed = true,
                }
            }
            Event::Bytes { slot, mut bytes, is_over } => {
                self.buffers += 1;
                if is_over {
                    reactor.net.touch(slot);
                }
                reactor.on_bytes(slot, &mut bytes);
            }
            Event::Nothing { slot } => reactor.net.on_nothing(slot),
            Event::Shortage { slot } => reactor.net.on_shortage(slot),
            Event::Eof { slot } => {
                reactor.net.touch(slot);
                reactor.on_eof(slot);
            }
            Event::Reset { slot } => {
                reactor.net.touch(slot);
                reactor.net.on_reset(slot);
            }
            Event::Sent { slot, bytes } => {
                if let Some(out) = &mut reactor.net.conns.at(slot).out {
                    out.unpin();
                }
                match bytes {
                    Some(bytes) => reactor.net.on_sent(slot, usize::try_from(bytes).unwrap()),
                    None => reactor.net.on_reset(slot),
                }
                reactor.net.touch(slot);
            }
            Event::HangUp { slot } => {
                reactor.net.on_hang_up(slot);
                reactor.net.touch(slot);
            }
            Event::Connected { slot, file } => {
                if reactor.net.conns.at(slot).phase() == Phase::Dying {
                    self.world.borrow_mut().sock(file).known.is_open = false;
                }
                reactor.on_connected(slot);
                reactor.net.touch(slot);
            }
            Event::ConnectFailed { slot, failure } => reactor.net.on_connect_failed(slot, failure),
            Event::Cancelled { slot } => reactor.net.touch(slot),
            Event::Closed { slot } => {
                self.held.remove(&slot);
                reactor.net.on_released(slot);
            }
        }
    }

    fn work_off(&mut self, net: &mut Net<Mail>, slot: u32) {
        match net.conns.at(slot).phase() {
            Phase::Free | Phase::Gone => return,
            Phase::Dying => return self.release(net, slot),
            Phase::Connecting => {
                let std::net::IpAddr::V4(ip) = net.connects_to(slot).ip() else { return };
                let held = self.held.entry(slot).or_default();
                if held.to.is_none() {
                    held.to = Some((u64::from(u32::from(ip)), 0));
                    held.ops |= CONNECT;
                }
                return;
            }
            Phase::Lingering => {
                let held = self.held.get_mut(&slot).unwrap();
                held.ops |= SHUT;
                self.world.borrow_mut().sock(held.file.unwrap()).shut = true;
            }
            Phase::Open | Phase::Flushing => {}
        }
        self.send(net, slot);
        let wish = net.receive_wish(slot);
        let wants_input = net.conns.at(slot).wants_input();
        let held = self.held.get_mut(&slot).unwrap();
        if held.ops & (RECEIVE | RECEIVED) == 0 {
            held.ops |= match wish {
                Receive::No => 0,
                Receive::One => RECEIVE,
                Receive::Many => RECEIVE | MANY,
            };
        } else if held.ops & RECEIVE != 0
            && wish == Receive::No
            && (held.ops & MANY != 0 || !wants_input)
        {
            // Taken back at once; what it has brought already is on its way.
            held.ops &= !(RECEIVE | MANY);
            net.touch(slot);
        }
        if net.conns.at(slot).wants_watch() {
            self.held.get_mut(&slot).unwrap().ops |= WATCH;
        }
    }

    fn send(&mut self, net: &mut Net<Mail>, slot: u32) {
        let held = self.held.get_mut(&slot).unwrap();
        if held.ops & (SEND | SENT) != 0 {
            return;
        }
        let turn = net.turn();
        let Some(out) = &mut net.conns.at(slot).out else { return };
        let world = &mut *self.world.borrow_mut();
        let swaps = world.profile.broken == Some(Broken::SwapsSends) && world.once_in(20);
        let file = held.file.unwrap();
        let mut at = world.sock(file).accepted;
        held.offered = 0;
        for piece in out.pin(turn) {
            for found in piece {
                let expected = !byte(file, if swaps { at + 1 } else { at });
                assert_eq!(*found, expected, "byte {at} to socket {file}");
                at += 1;
            }
            held.offered += piece.len() as u64;
        }
        assert!(held.offered > 0, "nothing is offered");
        held.ops |= SEND;
    }

    /// Takes what is to be sent, or a part of it; at the end gives back what is not told.
    fn send_datagrams(&mut self, net: &mut Net<Mail>) {
        let mut taken = Taken::default();
        let world = &mut *self.world.borrow_mut();
        for bundle in net.outbox(SocketId(0)).bundles() {
            let count = u64::from(bundle.count);
            let takes = world.wires.takes(count, world.profile.is_moody);
            taken.datagrams += takes;
            taken.refused += count - takes;
            let lens: Vec<usize> = bundle.pieces(false).map(|it| it.bytes.len()).collect();
            let (last, others) = lens.split_last().unwrap();
            let segment = usize::from(bundle.segment);
            assert!(*last <= segment && others.iter().all(|len| *len == segment), "{lens:?}");
            assert!(lens.len() == usize::from(bundle.count) && lens.len() <= 64, "{lens:?}");
            for piece in bundle.pieces(false) {
                assert_eq!((piece.to, piece.count), (bundle.to, 1));
                world.wires.offered(piece.to, piece.bytes);
                taken.bytes += piece.bytes.len() as u64;
            }
        }
        if !net.outbox(SocketId(0)).is_empty() {
            net.on_datagrams_offered(SocketId(0), taken);
        }
        if net.is_stopping() {
            if let Some(Piece { from, ecn, segment, mut bytes }) = self.untold.take() {
                let all = Datagrams::merged(SocketId(0), from, ecn, segment, &mut bytes);
                net.on_datagrams_unreadable(all.count());
            }
            net.on_datagrams_lost(world.wires.take_lost());
        }
    }

    fn release(&mut self, net: &mut Net<Mail>, slot: u32) {
        let held = self.held.entry(slot).or_default();
        if held.ops & CLOSE != 0 {
            return;
        }
        let is_of = |event: &Event| match event {
            Event::Bytes { slot: of, .. }
            | Event::Nothing { slot: of }
            | Event::Shortage { slot: of }
            | Event::Eof { slot: of }
            | Event::Reset { slot: of }
            | Event::Sent { slot: of, .. }
            | Event::HangUp { slot: of }
            | Event::Connected { slot: of, .. }
            | Event::ConnectFailed { slot: of, .. }
            | Event::Cancelled { slot: of }
            | Event::Closed { slot: of } => *of == slot,
            Event::Accepted { .. } => false,
        };
        // What is on its way comes first; then nothing does.
        if self.done.iter().any(is_of) {
            held.ops &= SEND | SENT | RECEIVED | CANCEL;
            if held.ops & CANCEL == 0 {
                held.ops |= CANCEL;
                self.done.push_back(Event::Cancelled { slot });
            }
            return;
        }
        if held.ops & SEND != 0
            && let Some(out) = &mut net.conns.at(slot).out
        {
            out.unpin();
        }
        held.ops = CLOSE;
        if let Some(file) = held.file {
            self.world.borrow_mut().sock(file).closed = true;
        }
        self.done.push_back(Event::Closed { slot });
    }

    /// Notes who waits for what, and looks whether anything is due.
    fn watch(&mut self, net: &mut Net<Mail>) {
        let mut wanting = Vec::new();
        for slot in net.conns.taken() {
            let state = net.conns.at(slot);
            if state.phase() == Phase::Open && state.wants_input() {
                wanting.push(state.file);
            }
        }
        let world = &mut *self.world.borrow_mut();
        let (told, turn, fair) = (world.told, world.turn, world.fair());
        for (file, sock) in &mut world.socks {
            if !wanting.contains(file) || sock.sent == sock.taken {
                sock.waits_since = None;
            } else {
                sock.waits_since.get_or_insert(told);
            }
            if let (Kind::Quiet, Some(since), Some(fair)) = (sock.kind, sock.waits_since, fair) {
                let others = told - since;
                assert!(others <= fair, "{others} bytes of others came first, {fair} are fair");
            }
            let is_forgotten = sock.reset
                && sock.known.is_open
                && sock.known.told_closed.is_none()
                && turn > sock.reset_turn + FORGOTTEN_TURNS;
            assert!(!is_forgotten, "socket {file} was reset, and nobody was told: {sock:?}");
        }
    }
}

impl Driver<Mail> for Kernel {
    type Error = Endless;

    fn wait(
        &mut self,
        net: &mut Net<Mail>,
        patience: Option<Duration>,
        _: bool,
    ) -> Result<Now, Endless> {
        {
            let world = &mut *self.world.borrow_mut();
            world.turn += 1;
            world.peers_act();
            let hides_losses = world.profile.broken == Some(Broken::HidesLosses);
            world.wires.act(world.turn, hides_losses);
            if world.turn == world.profile.turns {
                world.is_stopping = true;
                self.boxes.stop.set(true);
            }
            // A thread that stops has its time, in turns of 50 µs as long as peers send.
            let stop_turns = u64::from(world.profile.limits.stop_ms) * 20;
            if world.turn > world.profile.turns * 20 + stop_turns {
                return Err(Endless);
            }
        }
        self.boxes.somebody_posts();
        self.complete();
        let is_idle = self.done.is_empty() && self.boxes.boxes.borrow()[0].is_empty();
        self.idle_turns = if is_idle { self.idle_turns + 1 } else { 0 };
        {
            let world = &mut *self.world.borrow_mut();
            let patience_ns =
                patience.map_or(1_000_000, |p| u64::try_from(p.as_nanos()).unwrap_or(u64::MAX));
            world.now_ns += if is_idle { patience_ns.min(5_000_000) } else { 50_000 };
            // Others take their mail.
            self.boxes.boxes.borrow_mut()[1..].iter_mut().for_each(|mailbox| {
                mailbox.pop_front();
            });
        }
        net.limit_pieces(self.buffers);
        let now_ns = self.world.borrow().now_ns;
        Ok(Now { mono_ns: now_ns, unix_ms: 0 })
    }

    fn deliver(&mut self, reactor: &mut Reactor<Mail>) {
        let (had, mut told) = (!self.done.is_empty(), 0);
        while !reactor.net.is_turn_spent()
            && let Some(event) = self.done.pop_front()
        {
            self.tell(reactor, event);
            told += 1;
        }
        assert!(!had || told > 0 || reactor.net.is_turn_over(), "connections wait for others");
    }

    fn deliver_datagrams(&mut self, reactor: &mut Reactor<Mail>) {
        self.was_asked = true;
        if reactor.net.is_stopping() {
            return;
        }
        let mut has_told = false;
        while !reactor.net.are_datagrams_spent() {
            if let Some(Piece { from, ecn, segment, mut bytes }) = self.untold.take() {
                let all = Datagrams::merged(SocketId(0), from, ecn, segment, &mut bytes);
                reactor.on_datagrams(all);
                has_told = true;
                continue;
            }
            self.untold = self.world.borrow_mut().wires.take();
            if self.untold.is_none() {
                break;
            }
            reactor.take_mail();
        }
        let waits = self.untold.is_some();
        assert!(!waits || has_told || reactor.net.is_turn_over(), "datagrams wait for others");
        self.turns_waited = if waits && !has_told { self.turns_waited + 1 } else { 0 };
        assert!(self.turns_waited <= 3, "datagrams wait as long as turns end early");
        let lost = self.world.borrow_mut().wires.take_lost();
        reactor.net.on_datagrams_lost(lost);
    }

    fn has_more(&self) -> bool {
        !self.done.is_empty()
    }

    fn reconcile(&mut self, net: &mut Net<Mail>) {
        self.is_accepting = net.wants_accept();
        self.send_datagrams(net);
        net.limit_pieces(self.buffers);
        net.work_off_dirty(|net, slot| self.work_off(net, slot));
    }

    fn turned(&mut self, net: &mut Net<Mail>) {
        net.assert_legal();
        assert!(std::mem::take(&mut self.was_asked), "datagrams wait, and nobody looks");
        self.watch(net);
    }
}
