//! Datagrams: those of an open session go back to who sent them, as they are.
//!
//! In: datagrams of strangers. Out: the same bytes, to the address that has opened the session by
//! TCP; nothing to anybody else.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;

use super::super::protocol::read_datagram;
use super::state::State;

/// The largest datagram there is.
const DATAGRAM_BYTES: usize = 65_536;

/// Answers until the server stops.
pub(super) fn answer(socket: &UdpSocket, state: &State) {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    while !state.is_over() {
        let Ok((len, peer)) = socket.recv_from(&mut datagram) else {
            // Time to look, or an error that an earlier answer has come back as.
            continue;
        };
        answer_one(socket, state, &datagram[..len], peer);
    }
}

/// Of datagrams that came early so many are answered: somebody who sends without end is not waited for.
const WAITING_ANSWERED: usize = 1_024;

/// Answers those that came to the socket of a flow before it was connected to its sender, and were
/// not meant for it. The socket does not block.
pub(super) fn answer_waiting(socket: &UdpSocket, state: &State) {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    for _ in 0..WAITING_ANSWERED {
        let Ok((len, peer)) = socket.recv_from(&mut datagram) else { return };
        answer_one(socket, state, &datagram[..len], peer);
    }
}

fn answer_one(socket: &UdpSocket, state: &State, bytes: &[u8], peer: SocketAddr) {
    let found = read_datagram(bytes);
    let session = found
        .and_then(|(session, number)| Some((state.session(session, plain(peer.ip()))?, number)));
    let Some((session, number)) = session else {
        state.count(|it| it.datagrams_foreign += 1);
        return;
    };
    // The first ones of a flow say where it comes from; that they come back says that it may begin.
    if let Some(flow) = session.flow.get() {
        flow.comes_from(number, peer);
    }
    match socket.send_to(bytes, peer) {
        Ok(_) => state.datagrams.fetch_add(1, Ordering::Relaxed),
        Err(_) => {
            state.count(|it| it.datagrams_unsent += 1);
            0
        }
    };
    session.datagrams.fetch_add(1, Ordering::Relaxed);
}

/// An address of IPv4 that comes in the clothes of IPv6 is the same address.
pub(super) fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}
