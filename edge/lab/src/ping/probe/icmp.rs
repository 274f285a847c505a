//! ICMP echo requests: by a datagram socket of ICMP where the system permits it to this user, else
//! by a raw one.
//!
//! Source: RFC 792, RFC 4443 section 4, icmp(7) (`ping_group_range`), raw(7).

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::datagram::{DATAGRAM_BYTES, WAITING_MAX, of_datagram};
use super::{Answered, Clock, Gone, Probe, Start, Traffic, random, would_wait};
use crate::peer::protocol::{HEAD_BYTES, datagram_head, read_datagram};

/// Bytes of ICMP's own head.
const ICMP_HEAD_BYTES: usize = 8;

pub(super) struct Icmp {
    socket: Socket,
    is_v6: bool,
    /// Whether the kernel hands over the head of IP as well.
    has_ip_head: bool,
    /// Tells the replies of this stream from all others.
    session: u64,
    out: Vec<u8>,
    inbox: Vec<u8>,
    traffic: Traffic,
}

impl Icmp {
    pub(super) fn open(start: Start<'_>) -> Result<Self, Gone> {
        let mut addr = start.plan.place.addr;
        addr.set_port(0);
        let is_v6 = addr.is_ipv6();
        let (domain, protocol) =
            if is_v6 { (Domain::IPV6, Protocol::ICMPV6) } else { (Domain::IPV4, Protocol::ICMPV4) };
        let (socket, is_raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => {
                (Socket::new(domain, Type::RAW, Some(protocol)).map_err(Gone::NotPermitted)?, true)
            }
        };
        socket.connect(&SockAddr::from(addr)).map_err(|error| start.plan.unreachable(error))?;
        socket.set_nonblocking(true).map_err(Gone::Network)?;
        Ok(Self {
            socket,
            is_v6,
            has_ip_head: is_raw && !is_v6,
            session: u64::from_ne_bytes(random()),
            out: vec![0; ICMP_HEAD_BYTES + start.largest().max(HEAD_BYTES)],
            inbox: vec![0; DATAGRAM_BYTES],
            traffic: Traffic::default(),
        })
    }
}

/// Writes the head of an echo request over the first bytes of `packet`. The kernel fills in the
/// identifier of a datagram socket, and the checksum of ICMPv6.
fn write_head(packet: &mut [u8], is_v6: bool, session: u64, number: u64) {
    let [.., id_high, id_low] = session.to_be_bytes();
    let [.., number_high, number_low] = number.to_be_bytes();
    let kind = if is_v6 { 128 } else { 8 };
    let head = [kind, 0, 0, 0, id_high, id_low, number_high, number_low];
    if let Some(place) = packet.first_chunk_mut() {
        *place = head;
    }
    if !is_v6 {
        let sum = checksum(packet).to_be_bytes();
        if let Some(place) = packet.get_mut(2..4) {
            place.copy_from_slice(&sum);
        }
    }
}

/// Source: RFC 1071.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u64::from(u16::from_be_bytes([pair[0], low]))
    });
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// Session and number of an echo reply; none of anything else.
fn read_reply(packet: &[u8], has_ip_head: bool) -> Option<(u64, u64)> {
    let words = packet.first().filter(|_| has_ip_head).map_or(0, |first| usize::from(first & 15));
    let icmp = packet.get(words * 4..)?;
    let is_reply = matches!(icmp.first(), Some(0 | 129));
    read_datagram(icmp.get(ICMP_HEAD_BYTES..)?).filter(|_| is_reply)
}

impl Probe for Icmp {
    fn waits_on(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.socket.as_fd(), PollFlags::IN)
    }

    fn waiting_max(&self) -> usize {
        WAITING_MAX
    }

    fn begin(&mut self, clock: Clock, number: u64, size: u32) -> Result<u64, Gone> {
        let len = (ICMP_HEAD_BYTES + usize::try_from(size).unwrap_or(0)).min(self.out.len());
        let packet = &mut self.out[..len];
        if let Some(place) = packet.get_mut(ICMP_HEAD_BYTES..).and_then(|it| it.first_chunk_mut()) {
            *place = datagram_head(self.session, number);
        }
        write_head(packet, self.is_v6, self.session, number);
        let sent_ns = clock.now();
        match self.socket.send(packet) {
            Ok(len) => self.traffic.sent_bytes += len as u64,
            Err(error) if would_wait(&error) => {}
            Err(error) => return Err(of_datagram(error)),
        }
        Ok(sent_ns)
    }

    fn receive(&mut self, clock: Clock, answers: &mut Vec<Answered>) -> Result<bool, Gone> {
        let len = match recv(&self.socket, &mut *self.inbox, RecvFlags::empty()) {
            Ok((_, len)) => len,
            Err(error) if would_wait(&error.into()) => return Ok(false),
            Err(error) => return Err(of_datagram(error.into())),
        };
        let at_ns = clock.now();
        let reply = self.inbox.get(..len).and_then(|it| read_reply(it, self.has_ip_head));
        // A raw socket is handed the replies to everybody.
        if let Some((session, number)) = reply
            && session == self.session
        {
            self.traffic.received_bytes += len as u64;
            answers.push(Answered { number, at_ns, bad_status: None });
        }
        Ok(true)
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::{checksum, read_reply, write_head};
    use crate::peer::protocol::datagram_head;

    #[test]
    fn requests_have_a_right_checksum_and_replies_are_told_from_the_rest() {
        let mut packet = vec![0; 8];
        packet.extend_from_slice(&datagram_head(0xaabb_ccdd_eeff_1122, 513));
        packet.push(7);
        write_head(&mut packet, false, 0xaabb_ccdd_eeff_1122, 513);
        assert_eq!((packet[0], &packet[4..8]), (8, &[0x11, 0x22, 2, 1][..]));
        assert_eq!(checksum(&packet), 0);
        // Our own question, as a raw socket over loopback hears it, is no reply.
        assert_eq!(read_reply(&packet, false), None);
        packet[0] = 0;
        assert_eq!(read_reply(&packet, false), Some((0xaabb_ccdd_eeff_1122, 513)));
        let mut with_head = vec![0x46; 24];
        with_head.extend_from_slice(&packet);
        assert_eq!(read_reply(&with_head, true), Some((0xaabb_ccdd_eeff_1122, 513)));
        for cut in 0..24 {
            assert_eq!(read_reply(&packet[..cut], false), None);
        }
    }
}
