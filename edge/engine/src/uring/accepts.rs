//! Accepts that a thread keeps outstanding on its listeners, each with a place for the address of
//! the peer.
//!
//! Single accepts, many at once, rather than one multishot accept: a multishot accept has no place
//! for addresses (io_uring_prep_multishot_accept(3)), and a registered file has no number to ask
//! getpeername(2) with before Linux 6.19. They cost nothing while they wait, go into the turn's one
//! submission, and bound what an accept storm may take of a turn.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::os::fd::{AsRawFd as _, RawFd};

use event::ListenerId;
use io_uring::{opcode, squeue::Entry, types};

/// Accepts outstanding on one listener: most connections it takes in one turn.
pub(super) const PER_LISTENER: usize = 64;

#[expect(clippy::cast_possible_truncation, reason = "128 bytes")]
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

/// One accept. Boxed as a whole, because the kernel writes into it.
struct Accept {
    address: libc::sockaddr_storage,
    address_len: libc::socklen_t,
    listener: ListenerId,
    is_armed: bool,
}

/// All accepts of a thread.
pub(super) struct Accepts {
    all: Box<[Accept]>,
    idle: Vec<u32>,
    listeners: Vec<TcpListener>,
}

impl Accepts {
    pub(super) fn new(listeners: Vec<TcpListener>) -> Self {
        let ids = (0..u16::MAX).take(listeners.len());
        let all: Box<[Accept]> = ids
            .flat_map(|id| (0..PER_LISTENER).map(move |_| ListenerId(id)))
            .map(|listener| Accept {
                // SAFETY: a socket address of all zeroes is a valid, unspecified one.
                address: unsafe { std::mem::zeroed() },
                address_len: 0,
                listener,
                is_armed: false,
            })
            .collect();
        let idle = (0..).take(all.len()).collect();
        Self { all, idle, listeners }
    }

    /// The next accept to submit, with its number; `None` when all are outstanding.
    pub(super) fn arm(&mut self) -> Option<(u32, Entry)> {
        let index = self.idle.pop()?;
        let accept = self.all.get_mut(index as usize)?;
        let listener = self.listeners.get(usize::from(accept.listener.0))?;
        accept.is_armed = true;
        accept.address_len = ADDRESS_BYTES;
        let address = (&raw mut accept.address).cast();
        let fd = types::Fd(listener.as_raw_fd());
        let entry = opcode::Accept::new(fd, address, &raw mut accept.address_len)
            .file_index(Some(types::DestinationSlot::auto_target()))
            .build();
        Some((index, entry))
    }

    /// Accept `index` has completed; tells its listener and, after a success, the peer's address.
    pub(super) fn disarm(&mut self, index: u32) -> (ListenerId, SocketAddr) {
        let accept = &mut self.all[index as usize];
        assert!(accept.is_armed, "accept {index} completed twice");
        accept.is_armed = false;
        self.idle.push(index);
        (accept.listener, address_of(&accept.address))
    }

    /// Whether the kernel holds none of them.
    pub(super) fn are_idle(&self) -> bool {
        self.idle.len() == self.all.len()
    }

    /// The listeners' files, for taking back what is outstanding.
    pub(super) fn files(&self) -> Vec<RawFd> {
        self.listeners.iter().map(|listener| listener.as_raw_fd()).collect()
    }

    /// Closes the listeners. Only when [`Self::are_idle`].
    pub(super) fn close(&mut self) {
        assert!(self.are_idle(), "listeners are closed after their accepts");
        self.listeners.clear();
        self.idle.clear();
        self.all = Box::default();
    }
}

/// What the kernel wrote; the unspecified address for a family that is not of the internet.
fn address_of(storage: &libc::sockaddr_storage) -> SocketAddr {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: a storage is large and aligned enough for each family's address.
            let v4 = unsafe { *(&raw const *storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            SocketAddr::from((ip, u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { *(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into()
        }
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}
