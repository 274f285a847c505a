//! Datagrams that come back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::event::PollFlags;

use super::{Answered, Clock, Gone, Probe, Start, Traffic, would_wait};
use crate::peer::protocol::{HEAD_BYTES, datagram_head, read_datagram};

/// Datagrams under way of one stream, at most.
pub(super) const WAITING_MAX: usize = 32_768;
/// The largest datagram there is.
pub(super) const DATAGRAM_BYTES: usize = 65_536;

pub(super) struct Datagram {
    socket: UdpSocket,
    session: u64,
    out: Vec<u8>,
    inbox: Vec<u8>,
    traffic: Traffic,
}

impl Datagram {
    pub(super) fn connect(start: Start<'_>) -> Result<Self, Gone> {
        let addr = start.plan.place.addr;
        let any: IpAddr = match addr {
            std::net::SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            std::net::SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).map_err(Gone::Network)?;
        socket.connect(addr).map_err(|error| start.plan.unreachable(error))?;
        socket.set_nonblocking(true).map_err(Gone::Network)?;
        Ok(Self {
            socket,
            session: start.session,
            out: vec![0; start.largest().max(HEAD_BYTES)],
            inbox: vec![0; DATAGRAM_BYTES],
            traffic: Traffic::default(),
        })
    }
}

impl Probe for Datagram {
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.socket.as_fd(), PollFlags::IN)
    }

    fn waiting_max(&self) -> usize {
        WAITING_MAX
    }

    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone> {
        if let Some(place) = self.out.first_chunk_mut() {
            *place = datagram_head(self.session, number);
        }
        let len = usize::try_from(size).unwrap_or(0).min(self.out.len());
        let sent_ns = clock.now();
        match self.socket.send(&self.out[..len]) {
            Ok(len) => self.traffic.sent_bytes += len as u64,
            // A full queue of this machine loses it, as one on the way would.
            Err(error) if would_wait(&error) => {}
            Err(error) => return Err(of_datagram(error)),
        }
        Ok(sent_ns)
    }

    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone> {
        let len = match self.socket.recv(&mut self.inbox) {
            Ok(len) => len,
            Err(error) if would_wait(&error) => return Ok(false),
            Err(error) => return Err(of_datagram(error)),
        };
        let at_ns = clock.now();
        self.traffic.received_bytes += len as u64;
        if let Some((session, number)) = self.inbox.get(..len).and_then(read_datagram) {
            // Another session's is no answer to anything that was asked here.
            let number = if session == self.session { number } else { u64::MAX };
            answers.push(Answered { number, at_ns, bad_status: None });
        }
        Ok(true)
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}

/// What an error of a connected socket of datagrams means. Source: udp(7), icmp(7).
pub(super) fn of_datagram(error: std::io::Error) -> Gone {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => Gone::PortClosed,
        _ => Gone::Network(error),
    }
}
