//! What is outside of a thread: sockets with the peers behind them, the time, and the record of what
//! was promised to whom. Shared by the kernel, which acts on it, and the handler, which is checked
//! against it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use event::{CloseReason, Random};
use reactor::Limits;

use crate::datagrams::Wires;

/// A world is shared by all that plays in it.
pub(crate) type Shared = Rc<RefCell<World>>;

/// What a peer is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Asks now and then, reads everything.
    Quiet,
    /// Sends whenever there is room; reads everything.
    Flooder,
    /// Asks, and reads a byte now and then.
    Dribbler,
    /// Asks, and never reads.
    Deaf,
    /// Asks for much at a time, and reads all of it at once.
    Eager,
}

/// A socket of the thread, and the peer behind it.
#[derive(Debug)]
pub(crate) struct Sock {
    pub(crate) kind: Kind,
    /// Of an outgoing connection, the handler's.
    pub(crate) token: u64,
    /// Bytes that the peer has sent, and how many of them the kernel has handed over.
    pub(crate) sent: u64,
    pub(crate) taken: u64,
    /// The peer will send no more; it has reset.
    pub(crate) fin: bool,
    pub(crate) reset: bool,
    /// Bytes that the kernel has accepted for the peer, and how many of them it has read.
    pub(crate) accepted: u64,
    pub(crate) read: u64,
    /// Our side is shut down; the socket is closed.
    pub(crate) shut: bool,
    pub(crate) closed: bool,
    /// The turn in which it was reset, or in which the last bytes from before were handed over.
    pub(crate) reset_turn: u64,
    /// What the thread had told of others when bytes came for a thread that wanted them.
    pub(crate) waits_since: Option<u64>,
    /// What the handler knows of it.
    pub(crate) known: Known,
}

/// What the handler has been told of a socket, and has asked for.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) is_open: bool,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) eof: bool,
    pub(crate) reading_off: bool,
    /// It has asked for a close.
    pub(crate) has_closed: bool,
    pub(crate) closed_at_ns: Option<u64>,
    pub(crate) awaits_sent: bool,
    pub(crate) told_closed: Option<CloseReason>,
}

/// What a run is like: drawn from the seed.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) limits: Limits,
    /// Peers of each kind.
    pub(crate) quiet: u32,
    pub(crate) flooders: u32,
    pub(crate) others: u32,
    /// The kernel puts completions off, splits what it hands over, and takes little.
    pub(crate) is_moody: bool,
    /// The kernel serves who is quiet last.
    pub(crate) is_unkind: bool,
    /// Peers reset and half-close.
    pub(crate) is_rough: bool,
    /// How much the kernel keeps for a peer.
    pub(crate) room: u64,
    /// Turns before the handler is told to stop.
    pub(crate) turns: u64,
    /// Something is broken on purpose, to see that it is found.
    pub(crate) broken: Option<Broken>,
}

/// Ways in which a kernel may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A byte is lost now and then.
    LosesBytes,
    /// A reset is not told.
    HidesResets,
    /// What is sent later is taken first.
    SwapsSends,
    /// Datagrams that have no room in the socket are dropped, and nobody is told.
    HidesLosses,
}

/// Everything outside of the thread.
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) profile: Profile,
    pub(crate) now_ns: u64,
    pub(crate) turn: u64,
    pub(crate) socks: BTreeMap<u32, Sock>,
    pub(crate) next_file: u32,
    /// Peers that are still to connect.
    pub(crate) to_come: Vec<Kind>,
    /// Bytes told to the handler, of all connections.
    pub(crate) told: u64,
    /// The handler was told to stop, and has.
    pub(crate) is_stopping: bool,
    pub(crate) is_stopped: bool,
    /// Attempts of the handler to connect: how often each has come to an end.
    pub(crate) attempts: BTreeMap<u64, u32>,
    /// Datagrams, and the network that they come by.
    pub(crate) wires: Wires,
}

impl World {
    pub(crate) fn new(seed: u64, profile: Profile) -> Self {
        let mut to_come = vec![Kind::Quiet; profile.quiet as usize];
        to_come.extend(vec![Kind::Flooder; profile.flooders as usize]);
        let mut random = Random::from_number(seed);
        for _ in 0..profile.others {
            let kinds = [Kind::Dribbler, Kind::Deaf, Kind::Eager, Kind::Quiet];
            to_come.push(kinds[random.below(4) as usize]);
        }
        for index in (1..to_come.len()).rev() {
            let other = random.below(u32::try_from(index + 1).unwrap()) as usize;
            to_come.swap(index, other);
        }
        Self {
            random,
            profile,
            now_ns: 1,
            turn: 0,
            socks: BTreeMap::new(),
            next_file: 0,
            to_come,
            told: 0,
            is_stopping: false,
            is_stopped: false,
            attempts: BTreeMap::new(),
            wires: Wires::new(seed),
        }
    }

    /// Whether it happens, once in `times`.
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.random.below(times) == 0
    }

    pub(crate) fn connect(&mut self, kind: Kind) -> u32 {
        let file = self.next_file;
        self.next_file += 1;
        let sock = Sock {
            kind,
            token: 0,
            sent: 0,
            taken: 0,
            fin: false,
            reset: false,
            accepted: 0,
            read: 0,
            shut: false,
            closed: false,
            reset_turn: 0,
            waits_since: None,
            known: Known::default(),
        };
        self.socks.insert(file, sock);
        file
    }

    /// Bytes of others that may be told before those of a quiet peer, if that is judged now.
    pub(crate) fn fair(&self) -> Option<u64> {
        let Profile { limits, is_unkind, is_moody, .. } = &self.profile;
        let turns = u64::from(limits.turn_bytes);
        let pool = u64::from(limits.receive_buffers) * u64::from(limits.receive_buffer_bytes);
        // At first nobody is known to flood.
        let is_judged = !is_moody && (!is_unkind || self.turn > 40);
        is_judged.then_some(if *is_unkind { 12 * turns } else { 12 * turns + 4 * pool })
    }

    pub(crate) fn sock(&mut self, file: u32) -> &mut Sock {
        self.socks.get_mut(&file).unwrap()
    }

    /// Every peer does something, or nothing.
    pub(crate) fn peers_act(&mut self) {
        let files: Vec<u32> = self.socks.keys().copied().collect();
        for file in files {
            self.peer_acts(file);
        }
    }

    fn peer_acts(&mut self, file: u32) {
        let Self { random, profile, socks, turn, is_stopping, .. } = self;
        let Some(sock) = socks.get_mut(&file) else { return };
        if sock.reset || sock.closed && sock.fin {
            return;
        }
        let mut once_in = |times: u32| random.below(times) == 0;
        if profile.is_rough && once_in(150) {
            sock.reset = true;
            sock.reset_turn = *turn;
            return;
        }
        let waiting = sock.accepted - sock.read;
        match sock.kind {
            Kind::Quiet | Kind::Flooder | Kind::Eager => sock.read += waiting,
            Kind::Dribbler if once_in(3) => sock.read += waiting.min(1),
            Kind::Dribbler | Kind::Deaf => {}
        }
        if sock.fin {
            return;
        }
        let room = profile.room - (sock.sent - sock.taken);
        match sock.kind {
            Kind::Flooder => sock.sent += room,
            _ if room > 64 && sock.sent == sock.taken && once_in(10) => {
                sock.sent += u64::from(random.below(60)) + 1;
            }
            _ => {}
        }
        // Who has read the end goes; so does who has had enough.
        let mut once_in = |times: u32| random.below(times) == 0;
        let has_had_enough = profile.is_rough && once_in(100);
        let is_polite = !matches!(sock.kind, Kind::Deaf | Kind::Dribbler);
        let has_read_end = sock.shut && sock.read == sock.accepted && is_polite;
        if has_read_end || (has_had_enough && !*is_stopping) {
            sock.fin = true;
        }
    }
}

/// Byte `at` of what a peer sends on a socket; and of what the handler sends is its complement.
#[expect(clippy::cast_possible_truncation, reason = "any byte will do")]
pub(crate) fn byte(file: u32, at: u64) -> u8 {
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(file) << 7;
    (mixed >> 17) as u8
}
