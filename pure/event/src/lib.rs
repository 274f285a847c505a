//! The vocabulary of throng: what a thread is told, and what it answers.
//!
//! Every thread runs one [`Handler`]. The engine (`edge/engine`) feeds it [`Input`]s from the
//! kernel, a simulator may feed the same struct from a seed; both drain the [`Output`] after every
//! call. The handler owns its state, reads no clock, opens nothing and shares nothing.
//!
//! What is deliberately not here: sockets, threads, protocols, and anything that knows a game.
//! Data comes in as `Input`, and goes out as the operations that `Output` collects.

#![forbid(unsafe_code)]

mod address;
mod attempts;
mod datagrams;
mod network;
mod once;
mod output;
mod progress;
mod random;
mod time;
mod timers;

use std::net::SocketAddr;

pub use address::{address_bits, client_bits};
pub use attempts::{Allowed, Attempts};
pub use bytes::Bytes;
pub use datagrams::{Datagrams, Each};
pub use network::Network;
pub use once::OncePerSecond;
pub use output::{Op, Output, Urgency};
pub use progress::Progress;
pub use random::Random;
pub use time::{CallClock, CallTime, Now};
pub use timers::{TimerId, Timers};

/// One connection of one core thread. Never reused: `generation` rises when `slot` is taken again,
/// so an answer that comes too late for its connection can be told from one for its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    /// Index into the thread's table of connections, small and dense.
    pub slot: u32,
    /// How often the slot has been taken before; wraps after 2³² connections on one slot.
    pub generation: u32,
}

/// One thread of the process, numbered from 0 in the order in which the engine was given them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u16);

/// Which of a thread's listeners accepted a connection, in the order they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u16);

/// Which of a thread's sockets for datagrams, in the order they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u16);

/// One attempt of one thread to connect, named by [`Output::connect`]. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// What one thread does. The engine calls it, one input at a time, and drains `out` after each.
///
/// # The order of a turn
///
/// A thread takes turns, and everything above the engine may rely on their order, whichever driver
/// runs:
///
/// 1. The clock is read once: every input of a core's turn has the same `now`. (A plain thread may
///    block, so that it reads the clock for every input.)
/// 2. [`Input::Mail`]: all mail that is waiting, in the order in which each sender posted it, then
///    [`Input::Stop`] if that was asked for. So what another thread posted before a client got
///    an answer is seen before that client's next request.
/// 3. What the kernel brought, each connection's in order: [`Input::Opened`], [`Input::Connected`],
///    [`Input::Bytes`], [`Input::Eof`]. A turn takes so much of it and no more; the rest comes in
///    the next turn, after that turn's mail.
/// 4. [`Input::Datagrams`], each socket's in the order in which the kernel has them, so many and no
///    more: a bound of their own, so that neither they nor connections wait for the other.
/// 5. What was put off, so that a handler is never called from within itself: [`Input::Refused`]
///    mail, [`Input::Sent`], [`Input::ConnectFailed`], [`Input::Closed`].
/// 6. Input that was held back while reading was stopped, for connections that are read again.
/// 7. [`Input::Wake`], in the first turn that begins at the time asked for or later.
/// 8. On a core's thread that hosts a second handler, its companion: a turn of that one, which lasts
///    so long and no longer, and then [`Input::Mail`] once more.
/// 9. [`Input::TurnEnd`], once, if there was any other input. Then the kernel is handed all that
///    the turn's operations want of it; many sends on one connection become one, and so do
///    datagrams of one size to one address.
///
/// Operations are carried out in the order in which they were asked for, those of one input before
/// the next input. Of a connection the first input is `Opened` or `Connected`, the last `Closed`;
/// an attempt to connect has one outcome, `Connected` or `ConnectFailed`. After [`Output::stop`]
/// nothing more comes but `Closed` of the connections that were open, `ConnectFailed`, and the end
/// of each turn.
pub trait Handler {
    /// What other threads may post to this one.
    type Mail: Send + 'static;

    /// Takes one input. Everything the handler wants done goes into `out`; it never blocks, save
    /// on a worker thread of its own, which owns the database and the scripts.
    fn handle(&mut self, now: Now, input: Input<'_, Self::Mail>, out: &mut Output<Self::Mail>);
}

/// Why the engine closed a connection, told with [`Input::Closed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    /// The handler asked for it with [`Output::close`] or [`Output::abort`].
    Asked,
    /// The peer closed its sending side and, after the handler's own close, everything is said.
    Peer,
    /// The peer reset the connection, or the network did.
    Reset,
    /// More than the output limit was waiting for a peer that does not read.
    OutputLimit,
    /// The connections of the thread had more unsent than they may together, and this one was
    /// behind.
    OutputTotal,
    /// The peer took too little of what was sent, for too long.
    OutputStalled,
    /// The thread was stopped ([`Output::stop`]) while the connection was open.
    Shutdown,
}

/// Why an outgoing connection could not be made: the peer's doing, the network's, or a limit of
/// this machine or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectFailure {
    /// Nobody listens there, or the peer's system sent a reset.
    Refused,
    /// No answer within the time that was given, the engine's limit, or the kernel's own.
    TimedOut,
    /// The handler took the attempt back with [`Output::cancel_connect`].
    Cancelled,
    /// The thread was stopped before the attempt came to an end.
    Shutdown,
    /// There is no way to the address.
    Unreachable,
    /// Every local port towards this address is taken (on Linux `net.ipv4.ip_local_port_range`).
    NoLocalPort,
    /// The process, the system, or the thread's ring may not have one more open file.
    NoFiles,
    /// The thread holds as many connections as its limit allows.
    NoSlot,
    /// Anything else: the number of the system's error, as in errno(3); 0 if it has none.
    Other {
        /// Such as 13 for "permission denied".
        errno: u16,
    },
}

/// The pattern of what comes of sockets, for handlers that have none.
#[macro_export]
macro_rules! of_sockets {
    () => {
        $crate::Input::Opened { .. }
            | $crate::Input::Connected { .. }
            | $crate::Input::ConnectFailed { .. }
            | $crate::Input::Datagrams(_)
            | $crate::Input::Bytes { .. }
            | $crate::Input::Eof { .. }
            | $crate::Input::Sent { .. }
            | $crate::Input::Closed { .. }
    };
}

/// What happened.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Input<'a, M> {
    /// A peer connected to a listener. `peer` is its address.
    Opened { conn: ConnId, listener: ListenerId, peer: SocketAddr },
    /// An outgoing connection asked for with [`Output::connect`] stands. `token` is the asker's.
    Connected { conn: ConnId, token: u64 },
    /// An outgoing connection asked for with [`Output::connect`] could not be made, and why.
    ConnectFailed { token: u64, failure: ConnectFailure },
    /// Bytes arrived, in order, at least one. They are only lent for this call, and may be changed
    /// in place (unmasked, decrypted).
    Bytes { conn: ConnId, bytes: &'a mut [u8] },
    /// Datagrams of one sender arrived on a socket of this thread, each whole and at most
    /// `Limits::datagram_bytes_max` of the engine. Lent as the bytes of a connection are. What is
    /// lost, doubled or out of order on the way is told so.
    Datagrams(Datagrams<'a>),
    /// The peer will send no more (TCP half-close). Answers can still be sent; the connection
    /// stays open until the handler closes it.
    Eof { conn: ConnId },
    /// Everything sent on the connection has left for the kernel, after
    /// [`Output::tell_when_sent`].
    Sent { conn: ConnId },
    /// The connection is gone; its id will not be heard of again. Always its last input.
    Closed { conn: ConnId, reason: CloseReason },
    /// Another thread posted this.
    Mail(M),
    /// A mail could not be posted because the receiver's mailbox was full. The sender decides:
    /// answer "busy", count and drop, or keep it for later.
    Refused { to: ThreadId, mail: M },
    /// The time asked for with [`Output::wake_at`] has come.
    Wake,
    /// Nothing more is waiting just now: the moment to finish a batch (commit, flush, answer).
    /// Comes once at the end of every turn in which there was any other input, that of
    /// [`Output::stop`] included: it is the last input then.
    TurnEnd,
    /// The process was asked to stop. Finish within the time that the wiring has told the handler,
    /// then call [`Output::stop`].
    Stop,
}
