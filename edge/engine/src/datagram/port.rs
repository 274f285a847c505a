//! A core thread's socket for datagrams: received from with recvmmsg(2) and UDP_GRO, and sent from
//! with sendmmsg(2) and UDP_SEGMENT, without waiting, whichever driver runs. When there is something
//! to receive, the driver knows.
//!
//! Datagrams are lent where the kernel has put them, and sent from where they were queued.
//!
//! Source: recvmmsg(2), sendmmsg(2), udp(7), cmsg(3).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use event::{Datagrams, SocketId};
use reactor::{Bundle, Outbox, Taken};
use socket2::SockAddr;

use super::Setup;
use super::address;
use super::control::{self, CONTROL_BYTES};
use super::many::MERGED_BYTES;
use super::messages::Messages;
use super::options::{Source, is_nothing, set};

/// Pieces that one call takes, each of up to 64 datagrams: 1 MiB of addresses, of which the system
/// gives pages as they are first written to.
const PIECES: usize = 16;
/// Messages that one call sends, each of up to 64 datagrams.
const MESSAGES: usize = 64;

/// The socket, and memory for what it receives and sends in one call.
pub(crate) struct Port {
    source: Source,
    messages: Messages,
    /// Datagrams that are known to be lost.
    lost: u64,
    headers: Vec<libc::mmsghdr>,
    parts: Vec<Part>,
    /// Whether the kernel cuts pieces up: an interface may lack what that takes.
    can_cut: bool,
}

/// What a header names.
struct Part {
    vector: libc::iovec,
    to: SockAddr,
    control: Control,
    /// Datagrams.
    count: u16,
}

/// The control message that says into what a piece is to be cut up.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
}

impl Part {
    fn new(bundle: Bundle<'_>) -> Self {
        // SAFETY: a header is numbers, for all of which zero is a value.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<u16>();
        (header.cmsg_level, header.cmsg_type) = (libc::SOL_UDP, libc::UDP_SEGMENT);
        let iov_base = bundle.bytes.as_ptr().cast_mut().cast();
        Self {
            vector: libc::iovec { iov_base, iov_len: bundle.bytes.len() },
            to: bundle.to.into(),
            control: Control { header, segment: bundle.segment },
            count: bundle.count,
        }
    }
}

impl Port {
    /// Takes over a bound socket. That the system does not merge datagrams is no error.
    ///
    /// # Errors
    /// What the system refuses, with the step.
    pub(crate) fn open(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        let setup = Setup { ecn: true, ..Setup::default() };
        let source = Source::new(socket, &setup, false).map_err(io::Error::other)?;
        let messages = Messages::new(PIECES, MERGED_BYTES, CONTROL_BYTES)?;
        let (headers, parts) = (Vec::with_capacity(MESSAGES), Vec::with_capacity(MESSAGES));
        Ok(Self { source, messages, lost: 0, headers, parts, can_cut: true })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.source.socket
    }

    /// Takes what the kernel has, [`PIECES`] at most; how many pieces.
    pub(crate) fn receive(&mut self) -> usize {
        self.messages.receive_many(&self.source.socket).unwrap_or_else(|error| {
            if !is_nothing(&error) {
                // Of something sent before; it is told once, and says nothing about what waits.
                tracing::debug!(%error, "receiving datagrams failed");
            }
            0
        })
    }

    /// Whether a receive of so many pieces may have left some.
    pub(crate) fn may_have_more(count: usize) -> bool {
        count == PIECES
    }

    /// A piece of those that were received last, as come to the socket `id`; none if it cannot be read.
    #[inline]
    pub(crate) fn piece(&mut self, id: SocketId, index: usize) -> Option<Datagrams<'_>> {
        let piece = self.messages.piece(index);
        let from = address::read(piece.name).filter(|_| !piece.is_truncated)?;
        let control = control::read(piece.control);
        let segment = u16::try_from(control.segment.unwrap_or(0)).ok()?;
        let ecn = control.ecn.unwrap_or(0);
        Some(Datagrams::merged(id, from, ecn, segment, self.messages.bytes_mut(index)))
    }

    /// Datagrams that the kernel has dropped since this was last asked; a system call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        // Where the system does not say, none is known to be lost.
        let lost = self.source.dropped().unwrap_or(self.lost);
        lost.saturating_sub(std::mem::replace(&mut self.lost, lost))
    }

    /// Offers the kernel all that is to be sent, in order; what it does not take at once is not sent.
    /// Also tells the number of system calls.
    pub(crate) fn send(&mut self, outbox: &Outbox) -> (Taken, u64) {
        let (mut taken, mut calls) = (Taken::default(), 0);
        let can_cut = self.can_cut;
        let mut bundles = outbox.bundles().flat_map(|bundle| bundle.pieces(can_cut));
        loop {
            self.parts.clear();
            self.parts.extend(bundles.by_ref().take(MESSAGES).map(Part::new));
            let has_room = self.parts.is_empty() || self.send_parts(&mut taken, &mut calls);
            let is_over = self.parts.is_empty() || !has_room;
            self.parts.clear();
            if is_over {
                taken.refused += bundles.map(|bundle| u64::from(bundle.count)).sum::<u64>();
                return (taken, calls);
            }
        }
    }

    /// Sends all parts; `false` when the socket has no room for more, and the rest is refused.
    fn send_parts(&mut self, taken: &mut Taken, calls: &mut u64) -> bool {
        self.headers.clear();
        for part in &mut self.parts {
            // SAFETY: a header is numbers and pointers, for all of which zero is a value.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = part.to.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_namelen = part.to.len();
            header.msg_hdr.msg_iov = &raw mut part.vector;
            header.msg_hdr.msg_iovlen = 1;
            if part.count > 1 {
                header.msg_hdr.msg_control = (&raw mut part.control).cast();
                header.msg_hdr.msg_controllen = size_of::<Control>();
            }
            self.headers.push(header);
        }
        let mut begun = 0;
        while let Some(count) = self.parts.get(begun).map(|part| part.count) {
            *calls += 1;
            match self.send_from(begun) {
                Ok(sent) => {
                    for part in &self.parts[begun..begun + sent] {
                        taken.datagrams += u64::from(part.count);
                        taken.bytes += part.vector.iov_len as u64;
                    }
                    begun += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let rest = self.parts[begun..].iter().map(|part| u64::from(part.count));
                    taken.refused += rest.sum::<u64>();
                    return false;
                }
                Err(error) if count > 1 && is_of_cutting(&error) => {
                    self.can_cut &= error.raw_os_error() != Some(libc::EIO);
                    self.send_uncut(begun, taken, calls);
                    begun += 1;
                }
                Err(error) => {
                    tracing::debug!(%error, "a datagram cannot be sent");
                    taken.refused += u64::from(count);
                    begun += 1;
                }
            }
        }
        true
    }

    /// Sends parts from that one on, by one call; how many it has taken.
    fn send_from(&mut self, begun: usize) -> io::Result<usize> {
        let headers = &mut self.headers[begun..];
        let count = libc::c_uint::try_from(headers.len()).unwrap_or(0);
        let (fd, flags) = (self.source.socket.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // SAFETY: as many headers as are told. Each names its part, which stays in its place until
        // the call is over, and bytes of the outbox that `send` has borrowed.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Sends the datagrams of one part each by itself.
    fn send_uncut(&self, index: usize, taken: &mut Taken, calls: &mut u64) {
        let part = &self.parts[index];
        let (start, len) = (part.vector.iov_base.cast::<u8>().cast_const(), part.vector.iov_len);
        // SAFETY: they are bytes of the outbox that `send` has borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(start, len) };
        let Some(to) = part.to.as_socket() else {
            taken.refused += u64::from(part.count);
            return;
        };
        for datagram in bytes.chunks(usize::from(part.control.segment).max(1)) {
            *calls += 1;
            match self.source.socket.send_to(datagram, to) {
                Ok(_) => {
                    taken.datagrams += 1;
                    taken.bytes += datagram.len() as u64;
                }
                Err(_) => taken.refused += 1,
            }
        }
    }
}

/// Whether several datagrams may have failed because they went as one piece: the path takes only
/// shorter ones, which single datagrams may pass in fragments, or the interface computes no checksums.
/// Source: udp_send_skb in the kernel's net/ipv4/udp.c.
fn is_of_cutting(error: &io::Error) -> bool {
    let of_cutting = [libc::EINVAL, libc::EMSGSIZE, libc::EIO];
    error.raw_os_error().is_some_and(|errno| of_cutting.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use reactor::{Outbox, Taken};

    use super::{Port, set};

    fn sockets() -> (UdpSocket, UdpSocket) {
        let [from, to] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        to.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (from, to)
    }

    fn receive(socket: &UdpSocket) -> Vec<u8> {
        let mut bytes = [0; 2_000];
        let len = socket.recv(&mut bytes).unwrap();
        bytes[..len].to_vec()
    }

    /// Without checksums the kernel cuts nothing up: each datagram goes by itself then, in order.
    #[test]
    fn where_nothing_is_cut_up_each_goes_by_itself() {
        for (is_uncut, knows) in [(false, false), (true, false), (true, true)] {
            let (from, to) = sockets();
            set(&from, libc::SOL_SOCKET, libc::SO_NO_CHECK, i32::from(is_uncut)).unwrap();
            let mut port = Port::open(from).unwrap();
            port.can_cut = !knows;
            let mut outbox = Outbox::default();
            let all: Vec<Vec<u8>> = (0..100_u8)
                .map(|number| vec![number; if number % 10 == 9 { 3 } else { 50 }])
                .collect();
            all.iter().for_each(|bytes| outbox.push(to.local_addr().unwrap(), bytes));
            let (taken, calls) = port.send(&outbox);
            let bytes = 90 * 50 + 10 * 3;
            assert_eq!(taken, Taken { datagrams: 100, bytes, refused: 0 });
            // Ten pieces of ten; where they fail, one call for each and one for each datagram.
            let expected = match (is_uncut, knows) {
                (false, _) => 1,
                (true, false) => 110,
                (true, true) => 2,
            };
            assert_eq!(calls, expected, "{is_uncut} {knows}");
            all.iter().for_each(|bytes| assert_eq!(receive(&to), *bytes));
        }
    }

    /// A socket that is full takes nothing more: the rest is refused at once, and nobody waits.
    #[test]
    fn what_has_no_room_is_refused() {
        let (from, to) = sockets();
        let mut port = Port::open(from).unwrap();
        let mut outbox = Outbox::default();
        outbox.push(([127, 0, 0, 1], 0).into(), b"nowhere");
        (0..200).for_each(|_| outbox.push(to.local_addr().unwrap(), b"somewhere"));
        outbox.push(([127, 0, 0, 1], 0).into(), b"nowhere");
        let (taken, _) = port.send(&outbox);
        assert_eq!(taken, Taken { datagrams: 200, bytes: 1_800, refused: 2 });
        assert_eq!(port.send(&Outbox::default()), (Taken::default(), 0));
    }
}
