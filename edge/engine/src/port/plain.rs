//! A socket for datagrams where the system merges and cuts up nothing: a call for each, by std.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use event::{Datagrams, SocketId};
use reactor::{Outbox, Taken};

/// Room for the largest datagram.
const BYTES: usize = 65_536;

/// The socket, and room for one datagram.
pub(super) struct Port {
    socket: UdpSocket,
    bytes: Vec<u8>,
    got: Option<(usize, SocketAddr)>,
}

impl Port {
    pub(super) fn open(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, bytes: vec![0; BYTES], got: None })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Takes one datagram, if there is one.
    pub(super) fn receive(&mut self) -> usize {
        self.got = self.socket.recv_from(&mut self.bytes).ok();
        usize::from(self.got.is_some())
    }

    pub(super) fn may_have_more(count: usize) -> bool {
        count > 0
    }

    pub(super) fn piece(&mut self, id: SocketId, _: usize) -> Option<Datagrams<'_>> {
        let (len, from) = self.got?;
        Some(Datagrams::one(id, from, 0, self.bytes.get_mut(..len)?))
    }

    /// The system does not say.
    pub(super) fn take_lost(&mut self) -> u64 {
        0
    }

    pub(super) fn send(&mut self, outbox: &Outbox) -> (Taken, u64) {
        let (mut taken, mut calls) = (Taken::default(), 0);
        for bundle in outbox.bundles() {
            for piece in bundle.pieces(false) {
                calls += 1;
                match self.socket.send_to(piece.bytes, piece.to) {
                    Ok(len) => {
                        taken.datagrams += 1;
                        taken.bytes += len as u64;
                    }
                    Err(_) => taken.refused += 1,
                }
            }
        }
        (taken, calls)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use event::SocketId;
    use reactor::{Outbox, Taken};

    use super::Port;

    #[test]
    fn datagrams_go_and_come_one_by_one() {
        let [mut port, mut other] =
            [0, 1].map(|_| Port::open(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap());
        let [here, there] = [&port, &other].map(|it| it.socket().local_addr().unwrap());
        assert_eq!((port.receive(), port.take_lost()), (0, 0));
        let mut outbox = Outbox::default();
        for bytes in [&b"one"[..], b"two", b"3", b""] {
            outbox.push(there, bytes);
        }
        outbox.push(([127, 0, 0, 1], 0).into(), b"nowhere");
        assert_eq!(port.send(&outbox), (Taken { datagrams: 4, bytes: 7, refused: 1 }, 5));
        for bytes in [&b"one"[..], b"two", b"3", b""] {
            let count = other.receive();
            assert!(count == 1 && Port::may_have_more(count));
            let piece = other.piece(SocketId(3), 0).unwrap();
            assert_eq!((piece.socket, piece.from, piece.ecn), (SocketId(3), here, 0));
            assert_eq!(piece.into_iter().collect::<Vec<_>>(), [bytes]);
        }
        assert_eq!(other.receive(), 0);
        assert!(other.piece(SocketId(3), 0).is_none());
    }
}
