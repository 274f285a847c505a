//! Datagrams: UDP taken and sent in batches, in each of the styles that Linux has, all behind one
//! [`Receiver`] and one [`Sender`], so that they can be compared and exchanged.
//!
//! What is received is lent to a function, one datagram at a time with its sender's address,
//! whatever the kernel brought it in: segments that it has merged come apart again. A datagram that
//! is larger than it may be is counted, and not given, and so is what cannot be read; what had no room in the kernel is counted by
//! the kernel. Nothing here closes anything because of a datagram.
//!
//! The sockets of core threads (`port`) take the style that won of each measure, recvmmsg with merging
//! and sendmmsg with cutting up; they decide nothing, and lend datagrams to be changed in place.
//!
//! Not here: what is in a datagram, replies, IPv6 extension headers, and fragments in [`Style::Xdp`].
//! Receivers and senders stay on the thread that has opened them.
//!
//! Unsafe code hands addresses to the kernel. Two rules keep it sound: memory that the kernel may
//! write to lies in a `Block` that lives as long as what the kernel was told
//! about it, and lengths that the kernel reports are compared with what it was given.

mod address;
mod control;
mod interface;
mod many;
mod messages;
mod options;
pub(crate) mod port;
mod ring;
mod segments;
mod send;
mod send_ring;
mod single;
#[cfg(test)]
mod tests;
mod xdp;

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::AddAssign;
use std::str::FromStr;
use std::time::Duration;

pub use interface::{PlaceError, interface_of};
pub use xdp::MEMORY_BYTES as XDP_BYTES;

/// Datagrams of one [`Receiver::receive`] or [`Sender::send`] that are handled at once, at most.
pub const BATCH_MAX: usize = 1_024;
/// Bytes of a UDP datagram over IPv4, at most: 65,535 less the two headers.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// How datagrams are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Style {
    /// A blocking recvmsg(2) for each.
    Recv,
    /// recvmsg(2) without blocking until there is nothing more, then epoll_wait(2).
    Epoll,
    /// recvmmsg(2): many with one call.
    Mmsg,
    /// recvmmsg(2) with UDP_GRO: datagrams of one flow and size come as one.
    Gro,
    /// io_uring: one multishot receive into buffers that were provided before.
    Uring,
    /// The same, with UDP_GRO.
    UringGro,
    /// AF_XDP in copy mode: a program at the interface puts frames into memory of ours, past the
    /// kernel's network stack.
    Xdp,
}

impl Style {
    /// All, the plainest first.
    pub const ALL: [Self; 7] =
        [Self::Recv, Self::Epoll, Self::Mmsg, Self::Gro, Self::Uring, Self::UringGro, Self::Xdp];

    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recv => "recv",
            Self::Epoll => "epoll",
            Self::Mmsg => "mmsg",
            Self::Gro => "gro",
            Self::Uring => "uring",
            Self::UringGro => "uring-gro",
            Self::Xdp => "xdp",
        }
    }

    /// Whether the kernel hands over datagrams of one flow that it has joined to one piece, and counts
    /// what a full socket drops in such pieces.
    #[must_use]
    pub fn joins(self) -> bool {
        matches!(self, Self::Gro | Self::UringGro)
    }

    /// Begins to receive on a bound socket, in the calling thread, which has to keep the receiver. Of a
    /// connected one only its peer's datagrams are received.
    ///
    /// # Errors
    /// What the system refuses, with the step: the style may not exist here, or not be permitted.
    pub fn open(self, socket: UdpSocket, setup: &Setup) -> Result<Box<dyn Receiver>, OpenError> {
        setup.check()?;
        Ok(match self {
            Self::Recv => Box::new(single::Blocking::open(socket, setup)?),
            Self::Epoll => Box::new(single::Polled::open(socket, setup)?),
            Self::Mmsg => Box::new(many::Many::open(socket, setup, false)?),
            Self::Gro => Box::new(many::Many::open(socket, setup, true)?),
            Self::Uring => Box::new(ring::Ring::open(socket, setup, false)?),
            Self::UringGro => Box::new(ring::Ring::open(socket, setup, true)?),
            Self::Xdp => {
                Box::new(xdp::Xdp::open(socket, setup).map_err(|error| error.of_xdp(setup))?)
            }
        })
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How datagrams are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendStyle {
    /// A send(2) for each.
    One,
    /// sendmmsg(2): many with one call.
    Mmsg,
    /// UDP_SEGMENT: many as one large piece, which the kernel or the interface cuts up.
    Gso,
    /// io_uring: many sends with one submission.
    Uring,
}

impl SendStyle {
    /// All, the plainest first.
    pub const ALL: [Self; 4] = [Self::One, Self::Mmsg, Self::Gso, Self::Uring];

    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Mmsg => "mmsg",
            Self::Gso => "gso",
            Self::Uring => "uring",
        }
    }

    /// Begins to send from a *connected* socket, in the calling thread, which has to keep the sender.
    /// `batch` datagrams of `datagram_bytes_max` at most are sent at once; [`SendStyle::Gso`] sends
    /// fewer of large ones.
    ///
    /// # Errors
    /// What the system refuses, with the step.
    pub fn open(
        self,
        socket: UdpSocket,
        batch: usize,
        datagram_bytes_max: usize,
    ) -> Result<Box<dyn Sender>, OpenError> {
        Setup { batch, datagram_bytes_max, ..Setup::default() }.check()?;
        Ok(match self {
            Self::One => Box::new(send::One::open(socket, datagram_bytes_max)?),
            Self::Mmsg => Box::new(send::Many::open(socket, batch, datagram_bytes_max)?),
            Self::Gso => Box::new(send::Segmented::open(socket, batch, datagram_bytes_max)?),
            Self::Uring => Box::new(send_ring::Ring::open(socket, batch, datagram_bytes_max)?),
        })
    }
}

impl fmt::Display for SendStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not the name of a style.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no style is called {name:?}: expected one of {expected}")]
pub struct BadStyle {
    /// What was given.
    pub name: String,
    /// What would have been right.
    pub expected: String,
}

impl FromStr for Style {
    type Err = BadStyle;

    fn from_str(name: &str) -> Result<Self, BadStyle> {
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| BadStyle {
            name: name.to_owned(),
            expected: Self::ALL.map(Self::name).join(", "),
        })
    }
}

impl FromStr for SendStyle {
    type Err = BadStyle;

    fn from_str(name: &str) -> Result<Self, BadStyle> {
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| BadStyle {
            name: name.to_owned(),
            expected: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// What a receiver is given.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Pieces that are taken from the kernel at once, at most: 1 to [`BATCH_MAX`]. Styles of one
    /// datagram a call give the thread back after so many.
    pub batch: usize,
    /// Larger datagrams are counted as truncated, and not given: 1 to [`DATAGRAM_BYTES_MAX`].
    pub datagram_bytes_max: usize,
    /// How long a receiver that had to wait lets more come before it takes what is there; the styles
    /// of one datagram a call do not. Zero takes at once. The system adds its timer slack, 50 µs
    /// usually.
    pub gather: Duration,
    /// Whether the congestion bits of each datagram are asked for: a control message each, but for
    /// [`Style::Xdp`], which sees them anyway.
    pub ecn: bool,
    /// Interface and receive queue of [`Style::Xdp`].
    pub interface: Option<(String, u32)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            batch: 64,
            datagram_bytes_max: 2_048,
            gather: Duration::ZERO,
            ecn: false,
            interface: None,
        }
    }
}

impl Setup {
    fn check(&self) -> Result<(), OpenError> {
        if self.batch == 0 || self.batch > BATCH_MAX {
            return Err(OpenError::Batch { batch: self.batch });
        }
        if self.datagram_bytes_max == 0 || self.datagram_bytes_max > DATAGRAM_BYTES_MAX {
            return Err(OpenError::DatagramBytes { bytes: self.datagram_bytes_max });
        }
        Ok(())
    }
}

/// Why a style cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nobody's fault but the caller's.
    #[error("{batch} datagrams at once: 1 to {BATCH_MAX} are possible")]
    Batch {
        /// What was asked for.
        batch: usize,
    },
    /// Likewise.
    #[error("datagrams of {bytes} bytes: 1 to {DATAGRAM_BYTES_MAX} are possible")]
    DatagramBytes {
        /// What was asked for.
        bytes: usize,
    },
    /// The style works at an interface, on a queue of it, for IPv4.
    #[error("xdp needs an interface of its own, and a socket bound to an IPv4 address of it")]
    NoInterface,
    /// Where its datagrams come in is no place for the style.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The style takes more rights than this process has.
    #[error(
        "it takes root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, at the receiving end ({step}: \
         {error})"
    )]
    NotPermitted {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Somebody else has the interface's frames.
    #[error(
        "another program takes the frames of {name}, and there can be one: end it (`ip link show {name}`; \
         {step}: {error})"
    )]
    InUse {
        /// The interface's.
        name: String,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The system does not have it, or this process may not.
    #[error("{step}: {error}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl OpenError {
    /// Of a step that the system refused.
    fn of(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { step, error }
    }

    /// Says what the errors of [`Style::Xdp`] mean that people meet.
    fn of_xdp(self, setup: &Setup) -> Self {
        match self {
            Self::System { step, error } if error.kind() == io::ErrorKind::PermissionDenied => {
                Self::NotPermitted { step, error }
            }
            Self::System { step, error } if error.kind() == io::ErrorKind::ResourceBusy => {
                let name = setup.interface.as_ref().map_or(String::new(), |it| it.0.clone());
                Self::InUse { name, step, error }
            }
            other => other,
        }
    }
}

/// A datagram, lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// What it carries.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// The congestion bits of its IP header (0 to 3: not capable, 1, 0, experienced), where they were
    /// asked for. Source: RFC 3168 section 5.
    pub ecn: Option<u8>,
}

/// What one call has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Datagrams given.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that were larger than they may be; not given.
    pub truncated: u64,
    /// Pieces and frames that do not fit together, so that nothing of them can be given.
    pub unreadable: u64,
    /// System calls made, waiting included.
    pub calls: u64,
}

impl AddAssign for Batch {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.bytes += other.bytes;
        self.truncated += other.truncated;
        self.unreadable += other.unreadable;
        self.calls += other.calls;
    }
}

/// Receives datagrams in one of the styles.
pub trait Receiver {
    /// Waits at most `patience` for a first datagram, and gives it and what else is there to `each`,
    /// in the order in which the kernel has it; within a flow that is the order of arrival. Nothing
    /// having come is a batch of none.
    ///
    /// # Errors
    /// What the system says, but for what passes: a signal, nothing there, too little memory.
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<Batch>;

    /// Datagrams that the kernel has dropped since the receiver was opened because there was no room
    /// for them, or because their checksum was wrong. With UDP_GRO ([`Style::Gro`],
    /// [`Style::UringGro`]) the kernel counts pieces, each of which may be up to 64 datagrams that it
    /// has merged: the count is a lower bound then.
    ///
    /// # Errors
    /// When the system does not say.
    fn dropped(&self) -> io::Result<u64>;

    /// Bytes that what waits to be received takes in the kernel now, by its own count; 0 where the
    /// room is fixed.
    ///
    /// # Errors
    /// When the system does not say.
    fn waiting_bytes(&self) -> io::Result<u64>;
}

/// What one call has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams handed to the kernel.
    pub datagrams: u64,
    /// System calls made.
    pub calls: u64,
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.datagrams += other.datagrams;
        self.calls += other.calls;
    }
}

/// Sends datagrams from a connected socket in one of the styles.
pub trait Sender {
    /// Sends `count` datagrams of `bytes` each, however many calls it takes; waits while the kernel
    /// has no room. `fill` writes the datagram of the number that it is told, from 0, into a piece
    /// that holds what another datagram has left there.
    ///
    /// # Errors
    /// `InvalidInput` for more bytes than it was opened for. What the system says, such as
    /// `ConnectionRefused` when nobody has the peer's port (udp(7)); those before have been sent.
    fn send(
        &mut self,
        count: usize,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> io::Result<Sent>;
}
