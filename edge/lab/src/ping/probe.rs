//! What a stream asks, and how it knows the answer: one file for each kind.
//!
//! In: a number and a size. Out: bytes for the kernel, and numbers of what was answered with the
//! moment at which the kernel handed the answer over. When to ask is the stream's affair.

mod connect;
mod datagram;
mod http;
mod icmp;
mod message;
mod wire;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::plan::{Kind, Plan};
use super::protocol::{BadReply, VERSION};
use crate::load::Silence;
use crate::measure::percentiles::Times;
use crate::measure::text::one_line;

/// The run's clock: nanoseconds since it was made, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) number: u64,
    pub(super) at_ns: u64,
    /// The status, of an HTTP answer that is an error.
    pub(super) bad_status: Option<u16>,
}

/// What a kind of ping can do. All calls but those of the constructors return at once.
pub(super) trait Probe {
    /// What to wait on, and for what.
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags);
    /// Pings that may be under way at once.
    fn waiting_max(&self) -> usize;
    /// Whether bytes of the last ping are still to be handed to the kernel: until then no other
    /// begins.
    fn has_unsent(&self) -> bool {
        false
    }
    /// Begins a ping; returns when its first byte was handed over.
    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone>;
    /// Hands over more of it.
    fn go_on(&mut self) -> Result<(), Gone> {
        Ok(())
    }
    /// Takes what has come. Whether anything came, if only a part of an answer.
    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone>;
    /// Bytes sent and received since the last call, and times of connections that were made.
    fn take_traffic(&mut self) -> Traffic;
}

/// What a probe has moved.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) connects: Times,
    /// The `Server` header of the first answer.
    pub(super) server: String,
}

/// What all streams know when they begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub(super) plan: &'a Plan,
    /// Of kinds that have one.
    pub(super) session: u64,
    pub(super) clock: Clock,
}

impl Start<'_> {
    /// Bytes of the largest ping.
    fn largest(&self) -> usize {
        let largest = self.plan.sizes.iter().max().copied().unwrap_or(0);
        usize::try_from(largest).unwrap_or(0)
    }
}

/// Makes ready what the plan asks for: connects where there is a connection.
pub(super) fn probe(start: Start<'_>) -> Result<Box<dyn Probe>, Gone> {
    Ok(match start.plan.kind {
        Kind::Tcp => Box::new(message::Message::connect(start)?),
        Kind::Ws => Box::new(message::Socket::connect(start)?),
        Kind::Http => Box::new(http::Http::connect(start)?),
        Kind::Connect => Box::new(connect::Connect::new(start)?),
        Kind::Udp => Box::new(datagram::Datagram::connect(start)?),
        Kind::Icmp => Box::new(icmp::Icmp::open(start)?),
    })
}

/// Why no ping can be sent, or no further one.
#[derive(Debug, thiserror::Error)]
pub enum Gone {
    /// No connection can be made.
    #[error("{silence}: {addr}{hint}")]
    Silent {
        /// Where.
        addr: SocketAddr,
        /// How.
        silence: Silence,
        /// What to do.
        hint: &'static str,
    },
    /// Closed in order.
    #[error("the other end closed the connection")]
    Closed,
    /// Reset.
    #[error("the other end reset the connection: it crashed, was killed, or limits connections")]
    Reset,
    /// Something else listens there.
    #[error(
        "what listens there is not `throng ping serve`: it said `{0}`; --connect, --http and --ws \
         measure any server"
    )]
    Foreign(String),
    /// Something listens there and says nothing.
    #[error(
        "what listens there does not answer as `throng ping serve` does, within {} s; --connect, \
         --http and --ws measure any server", .0.as_secs_f32()
    )]
    Mute(Duration),
    /// Another version.
    #[error(
        "the server speaks version {0} of the protocol, this program (throng {own}) version {VERSION}: \
         use one version of throng at both ends", own = env!("CARGO_PKG_VERSION")
    )]
    Version(String),
    /// The server says no.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The server was stopped, or has ended the session.
    #[error("the server ended the session: {0}")]
    Ended(String),
    /// The other end says nothing any more.
    #[error(
        "the other end has vanished: nothing came from it for {} s (its machine or the network is \
         gone, or it stands still)", .0.as_secs_f32()
    )]
    Vanished(Duration),
    /// Datagrams do not come back while the connection lives.
    #[error(
        "no datagram has come back for {} s, while the connection by TCP to the same port lives: a \
         firewall on the way swallows UDP, or it loses everything", .0.as_secs_f32()
    )]
    Swallowed(Duration),
    /// Nobody listens for datagrams.
    #[error("nothing listens for datagrams there (ICMP: port unreachable): the server has ended")]
    PortClosed,
    /// Not WebSocket.
    #[error("there is no WebSocket: the answer to the handshake was {0}")]
    NoSocket(String),
    /// Frames or heads that are wrong.
    #[error("what came is not an answer: {0}")]
    Broken(String),
    /// ICMP may not be sent.
    #[error(
        "ICMP is not permitted to this user: `sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"` \
         permits it to everybody, `setcap cap_net_raw+ep FILE` to this program; --connect needs no \
         permission ({0})"
    )]
    NotPermitted(std::io::Error),
    /// No local port left.
    #[error(
        "no local port is left: connections that were closed keep theirs for a minute; a longer \
         --interval, or a wider net.ipv4.ip_local_port_range"
    )]
    NoPort,
    /// Anything else that the system says.
    #[error("the network fails: {0}")]
    Network(std::io::Error),
}

/// What to do when nothing listens.
const START: &str = "; start `throng ping serve` there, or name its port";
const CHECK: &str = "; look at the address and the port";

impl Gone {
    /// Of a connection that could not be made.
    pub(super) fn connecting(plan: &Plan, error: std::io::Error) -> Self {
        if error.kind() == ErrorKind::AddrNotAvailable {
            return Self::NoPort;
        }
        let hint = if plan.kind.needs_server() { START } else { CHECK };
        let silence = Silence::of(error, plan.timeout);
        Self::Silent { addr: plan.place.addr, silence, hint }
    }

    /// Of a connection that stood.
    pub(super) fn of(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Reset,
            ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Network(error),
        }
    }

    /// Of an answer that is none.
    pub(super) fn reply(bad: &BadReply, line: &str) -> Self {
        match bad {
            BadReply::Version(theirs) => Self::Version(theirs.clone()),
            BadReply::Foreign => Self::Foreign(one_line(line)),
        }
    }
}

/// Random bytes; those of the clock where the system has none.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos().to_le_bytes();
        bytes.iter_mut().zip(now).for_each(|(byte, of_clock)| *byte = of_clock);
    }
    bytes
}

/// Whether a call would have had to wait.
pub(super) fn would_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
