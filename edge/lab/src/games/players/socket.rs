//! A player's socket: connected, never blocking, with the kernel's moment for what comes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Bytes that may wait in the kernel for one player: a second of snapshots, so that a generator that is
/// late loses nothing.
const BUFFER_BYTES: usize = 512 << 10;

/// One socket.
#[derive(Debug)]
pub(super) struct Socket(UdpSocket);

impl Socket {
    /// From an address of loopback, if the server is there: who asks more often than a server answers one
    /// address has to be several.
    pub(super) fn connect(to: SocketAddr, from: Option<Ipv4Addr>) -> io::Result<Self> {
        let any: IpAddr = match (to, from) {
            (SocketAddr::V4(_), Some(from)) => from.into(),
            (SocketAddr::V4(_), None) => Ipv4Addr::UNSPECIFIED.into(),
            (SocketAddr::V6(_), _) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        // What the system gives is enough for most.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        engine::stamp_arrivals(&socket)?;
        Ok(Self(socket))
    }

    /// One datagram, and when it came.
    pub(super) fn receive(&self, room: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
        let (len, moment) = engine::receive_stamped(&self.0, room)?;
        Ok((len, moment.map(ns)))
    }

    /// Whether the kernel took it.
    pub(super) fn send(&self, bytes: &[u8]) -> bool {
        self.0.send(bytes).is_ok()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn ns(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The kernel's clock of the day, by which it notes when datagrams come.
pub(super) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
