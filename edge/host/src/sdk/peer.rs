//! Whose connection is it? Of TCP the kernel says so by the socket's four numbers, over netlink.
//!
//! In: both ends of a connection on loopback. Out: the user who opened it. Not here: what follows from it.
//! Source: sock_diag(7), the kernel's include/uapi/linux/inet_diag.h and netlink.h.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// Of `struct nlmsghdr`, and with it of `struct inet_diag_req_v2`.
const HEAD_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEAD_BYTES + 56;
/// The family `AF_INET`, and the protocol.
const INET: u8 = 2;
const TCP: u8 = 6;
/// `SOCK_DIAG_BY_FAMILY`, and the flag of a request.
const BY_FAMILY: u16 = 20;
const IS_REQUEST: u16 = 1;
/// The state of a connection that both ends hold.
const ESTABLISHED: u8 = 1;

/// A way to ask the kernel.
#[derive(Debug)]
pub(super) struct Peers(OwnedFd);

impl Peers {
    /// # Errors
    /// Where the kernel gives none: in some sandboxes.
    pub(super) fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let kind = (AddressFamily::NETLINK, SocketType::RAW);
        Ok(Self(socket_with(kind.0, kind.1, flags, Some(SOCK_DIAG))?))
    }

    /// The user of the socket at `near` that is connected to `far`; nothing if there is none any more.
    pub(super) fn user(&self, near: SocketAddrV4, far: SocketAddrV4) -> io::Result<Option<u32>> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.0, &request(near, far), SendFlags::empty(), &kernel)?;
        // The kernel answers within the call above.
        let mut bytes = [0; 512];
        let (len, _) = recv(&self.0, &mut bytes, RecvFlags::DONTWAIT)?;
        Ok(answer(&bytes[..len]))
    }
}

fn request(near: SocketAddrV4, far: SocketAddrV4) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let mut at = 0;
    let mut put = |part: &[u8]| {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    };
    #[expect(clippy::cast_possible_truncation, reason = "72")]
    put(&(REQUEST_BYTES as u32).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&IS_REQUEST.to_ne_bytes());
    put(&[0; 8]);
    // Nothing besides what is always told; sockets of all states.
    put(&[INET, TCP, 0, 0]);
    put(&[0xff; 4]);
    put(&near.port().to_be_bytes());
    put(&far.port().to_be_bytes());
    for address in [near.ip(), far.ip()] {
        put(&address.octets());
        put(&[0; 12]);
    }
    // Any interface, no cookie.
    put(&[0; 4]);
    put(&[0xff; 8]);
    bytes
}

/// The user in `struct inet_diag_msg`, if the connection is established.
fn answer(bytes: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEAD_BYTES..)?;
    let state = *body.get(1)?;
    // After four bytes, both addresses and three numbers.
    let user = u32::from_ne_bytes(body.get(64..68)?.try_into().ok()?);
    (kind == BY_FAMILY && state == ESTABLISHED).then_some(user)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::Peers;

    #[test]
    fn a_connection_is_its_users() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (SocketAddr::V4(far), Ok(peers)) = (listener.local_addr().unwrap(), Peers::new())
        else {
            return;
        };
        let stream = TcpStream::connect(far).unwrap();
        let SocketAddr::V4(near) = stream.local_addr().unwrap() else { panic!() };
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(peers.user(near, far).unwrap(), Some(own));
        drop(stream);
        assert_eq!(peers.user(near, far).unwrap(), None, "it is not established any more");
        // A port that listens is no connection.
        assert_eq!(peers.user(far, near).unwrap(), None);
    }
}
