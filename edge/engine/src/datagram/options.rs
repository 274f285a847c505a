//! Socket options that neither std nor rustix has, and a socket as receivers need it.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::address::{length, part};
use super::{OpenError, Setup};

/// Places in what SO_MEMINFO says, of four bytes each. Source: linux/sock_diag.h.
const MEMORY_RECEIVE: usize = 0;
const MEMORY_DROPS: usize = 8;
const MEMORY_BYTES: usize = 9 * 4;

/// Sets an option that is a number.
pub(super) fn set(socket: &UdpSocket, level: i32, name: i32, value: i32) -> io::Result<()> {
    let bytes = length(size_of::<i32>());
    // SAFETY: the value is a number that lives, of as many bytes as are told.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option into `bytes`; how many it has filled.
pub(super) fn get(socket: impl AsFd, level: i32, name: i32, bytes: &mut [u8]) -> io::Result<usize> {
    let mut len = length(bytes.len());
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the room lives and has as many bytes as are told; options are plain numbers.
    let result =
        unsafe { libc::getsockopt(fd, level, name, bytes.as_mut_ptr().cast(), &raw mut len) };
    if result == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

/// A socket that is received from, and what was dropped before it was.
pub(super) struct Source {
    pub(super) socket: UdpSocket,
    dropped_before: u32,
}

impl Source {
    /// Asks for what the set-up wants told beside each datagram, and for merged ones.
    pub(super) fn new(socket: UdpSocket, setup: &Setup, has_gro: bool) -> Result<Self, OpenError> {
        if has_gro {
            set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).map_err(OpenError::of("UDP_GRO"))?;
        }
        if setup.ecn {
            let address = socket.local_addr().map_err(OpenError::of("local address"))?;
            let asked = if address.is_ipv4() {
                set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)
            } else {
                // Of senders by IPv4, where the socket takes them as well.
                let _ = set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
                set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)
            };
            asked.map_err(OpenError::of("congestion bits"))?;
        }
        let dropped_before = memory(&socket, MEMORY_DROPS).map_err(OpenError::of("SO_MEMINFO"))?;
        Ok(Self { socket, dropped_before })
    }

    /// Datagrams that the socket has dropped since: the count that SO_RXQ_OVFL tells beside the next
    /// datagram, which after the last drop may never come.
    pub(super) fn dropped(&self) -> io::Result<u64> {
        Ok(memory(&self.socket, MEMORY_DROPS)?.wrapping_sub(self.dropped_before).into())
    }

    /// Bytes of what waits in it, with the kernel's own for each datagram.
    pub(super) fn waiting_bytes(&self) -> io::Result<u64> {
        Ok(memory(&self.socket, MEMORY_RECEIVE)?.into())
    }
}

fn memory(socket: &UdpSocket, place: usize) -> io::Result<u32> {
    let mut bytes = [0; MEMORY_BYTES];
    let len = get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut bytes)?;
    let value = part(bytes.get(..len).unwrap_or_default(), place * 4).map(u32::from_ne_bytes);
    value.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// A wait as the kernel takes it.
pub(super) fn timespec(wait: Duration) -> Timespec {
    Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Waits until something can be read, and then lets more come for `gather`. Tells whether there is
/// anything, and how many calls it took.
pub(super) fn wait(
    socket: impl AsFd,
    patience: Duration,
    gather: Duration,
) -> io::Result<(bool, u64)> {
    if patience.is_zero() {
        return Ok((false, 0));
    }
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    let ready = match rustix::event::poll(&mut fds, Some(&timespec(patience))) {
        Ok(ready) => ready > 0,
        Err(rustix::io::Errno::INTR) => false,
        Err(error) => return Err(error.into()),
    };
    if ready && !gather.is_zero() {
        std::thread::sleep(gather);
        return Ok((true, 2));
    }
    Ok((ready, 1))
}

/// Whether a receive only says that there is nothing now.
pub(super) fn is_nothing(error: &io::Error) -> bool {
    let passing = [libc::EAGAIN, libc::EINTR, libc::ENOMEM, libc::ENOBUFS];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}
