//! Why the other end cannot be measured, or no further: in words that say what to do.
//!
//! In: errors of the system, answers that are none. Out: a [`Gone`].

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use super::protocol::{BadReply, VERSION};
use crate::measure::target::Silence;
use crate::measure::text::one_line;

/// Why nothing can be sent, or nothing further.
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
        "what listens there is not `throng ping serve`: it said `{0}`; `throng ping` with --connect, \
         --http or --ws measures any server, --udp --plain one that sends datagrams back"
    )]
    Foreign(String),
    /// Something listens there and says nothing.
    #[error(
        "what listens there does not answer as `throng ping serve` does, within {} s; `throng ping` \
         with --connect, --http or --ws measures any server", .0.as_secs_f32()
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
    #[error(
        "nothing listens for datagrams there (ICMP: port unreachable): the server has ended, \
             or was never there"
    )]
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
    /// TLS could not be agreed on, or broke.
    #[error("{0}")]
    Tls(String),
    /// Datagrams cannot be sent or received so at this end.
    #[error("{flag} {style}: {error}")]
    Style {
        /// Of the command line.
        flag: &'static str,
        /// The style's name.
        style: &'static str,
        /// Why.
        error: engine::datagram::OpenError,
    },
    /// This end was told to stop while it waited.
    #[error("stopped")]
    Stopped,
    /// Anything else that the system says.
    #[error("the network fails: {0}")]
    Network(std::io::Error),
}

/// What to do when nothing listens.
const START: &str = "; start `throng ping serve` there (on loopback only, unless --address says more), or name \
                     its port";
const CHECK: &str = "; look at the address and the port";

impl Gone {
    /// Of a connection that could not be made to an address within a time; `needs_server` says
    /// whether only `throng ping serve` will do there.
    pub(crate) fn connecting(
        (addr, timeout): (SocketAddr, Duration),
        needs_server: bool,
        error: std::io::Error,
    ) -> Self {
        if error.kind() == ErrorKind::AddrNotAvailable {
            return Self::NoPort;
        }
        let hint = if needs_server { START } else { CHECK };
        Self::Silent { addr, silence: Silence::of(error, timeout), hint }
    }

    /// Of a connection that stood.
    pub(crate) fn of(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Self::Reset,
            ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Network(error),
        }
    }

    /// Of an answer that is none.
    pub(crate) fn reply(bad: &BadReply, line: &str) -> Self {
        match bad {
            BadReply::Version(theirs) => Self::Version(theirs.clone()),
            BadReply::Foreign => Self::Foreign(one_line(line)),
        }
    }
}

/// Random bytes; those of the clock where the system has none.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos().to_le_bytes();
        bytes.iter_mut().zip(now).for_each(|(byte, of_clock)| *byte = of_clock);
    }
    bytes
}

/// Whether a call would have had to wait.
pub(crate) fn would_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
