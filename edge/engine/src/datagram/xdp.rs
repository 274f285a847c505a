//! AF_XDP in copy mode: frames of one address and port come into memory of ours, past the kernel's
//! network stack; of a connected socket those of its peer alone.
//!
//! A UDP socket is bound to the port all the same, so that nobody else gets it and its peers are not
//! told that nobody listens. What the program does not take (fragments, other interfaces and queues)
//! reaches that socket, and is lost there. Only IPv4 without options.
//!
//! Source: the kernel's Documentation/networking/af_xdp.rst, linux/if_xdp.h.

mod frame;
mod program;
mod rings;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use self::program::{Ends, Program};
use self::rings::{Offsets, Shared};
use super::address::{length, part};
use super::options::{get, wait};
use super::{Batch, Datagram, OpenError, Receiver, Setup};
use crate::block::Block;

/// Bytes of a frame's room: the kernel keeps 256 of them, a frame of 1,514 has to fit.
const CHUNK_BYTES: u32 = 2_048;
/// Frames that wait to be read, at most; a power of two.
const RECEIVED: u32 = 2_048;
/// Rooms of frames; a power of two, so that all of them have room in the ring of empty ones.
const CHUNKS: u32 = 4_096;
/// Bytes of memory for frames.
pub const MEMORY_BYTES: usize = CHUNKS as usize * CHUNK_BYTES as usize;
/// Bytes of a packet that a room holds: the kernel keeps 256 bytes of it, and its head has 14.
pub(super) const PACKET_BYTES_MAX: usize = CHUNK_BYTES as usize - 256 - 14;
/// Frames that were sent, of which there are none: the kernel wants the ring all the same.
const COMPLETED: u32 = 64;

/// How long a queue that is in use is tried for: the kernel gives it back some moments after the
/// last socket that had it was closed.
const IN_USE: Duration = Duration::from_secs(2);
const IN_USE_PAUSE: Duration = Duration::from_millis(5);

/// Places in what XDP_STATISTICS says.
const DROPPED: usize = 0;
const RING_FULL: usize = 24;
const STATISTICS_BYTES: usize = 48;

/// [`super::Style::Xdp`]. Dropped in this order: first nothing more comes, the memory goes last.
pub(super) struct Xdp {
    _program: Program,
    received: Shared<libc::xdp_desc>,
    empty: Shared<u64>,
    socket: OwnedFd,
    memory: Block,
    _port: UdpSocket,
    batch: u32,
    bytes_max: usize,
    gather: Duration,
}

impl Xdp {
    pub(super) fn open(port: UdpSocket, setup: &Setup) -> Result<Self, OpenError> {
        let address = port.local_addr().map_err(OpenError::of("local address"))?;
        let (SocketAddr::V4(to), Some((name, queue))) = (address, &setup.interface) else {
            return Err(OpenError::NoInterface);
        };
        let interface = rustix::net::netdevice::name_to_index(&port, name)
            .map_err(|error| OpenError::of("interface")(error.into()))?;
        let memory = Block::new(MEMORY_BYTES).map_err(OpenError::of("memory"))?;
        let socket = make_socket().map_err(OpenError::of("AF_XDP"))?;
        lend(&socket, &memory).map_err(OpenError::of("XDP_UMEM_REG"))?;
        let (received, empty) = map(&socket).map_err(OpenError::of("the rings of AF_XDP"))?;
        let first = empty.next();
        for number in 0..CHUNKS {
            empty.write(first.wrapping_add(number), u64::from(number) * u64::from(CHUNK_BYTES));
        }
        empty.produce_until(first.wrapping_add(CHUNKS));
        bind_patiently(&socket, interface, *queue).map_err(OpenError::of("binding AF_XDP"))?;
        let from = match port.peer_addr() {
            Ok(SocketAddr::V4(from)) => Some(from),
            Ok(SocketAddr::V6(_)) => return Err(OpenError::NoInterface),
            // Not connected: from anybody.
            Err(_) => None,
        };
        let socket_fd = socket.as_raw_fd();
        let program = Program::attach((interface, *queue), Ends { to, from }, socket_fd)?;
        Ok(Self {
            _program: program,
            received,
            empty,
            socket,
            memory,
            _port: port,
            batch: u32::try_from(setup.batch).unwrap_or(1),
            bytes_max: setup.datagram_bytes_max,
            gather: setup.gather,
        })
    }

    /// Gives what is there; whether there was anything.
    fn take(&mut self, batch: &mut Batch, each: &mut dyn FnMut(Datagram<'_>)) -> bool {
        let (first, ready) = self.received.produced();
        let ready = ready.min(self.batch);
        let empty = self.empty.next();
        for number in 0..ready {
            let frame = self.received.read(first.wrapping_add(number));
            // An address beyond the memory would be the kernel's mistake, and panics.
            let (place, len) = (usize::try_from(frame.addr), frame.len as usize);
            // SAFETY: the kernel has written it, and gets the room back only below.
            let bytes = unsafe { self.memory.slice(place.unwrap_or(usize::MAX), len) };
            if let Some(datagram) = frame::read(bytes) {
                if datagram.bytes.len() > self.bytes_max {
                    batch.truncated += 1;
                } else {
                    batch.datagrams += 1;
                    batch.bytes += datagram.bytes.len() as u64;
                    each(datagram);
                }
            } else {
                batch.unreadable += 1;
            }
            let chunk = frame.addr & !(u64::from(CHUNK_BYTES) - 1);
            self.empty.write(empty.wrapping_add(number), chunk);
        }
        self.received.consume_until(first.wrapping_add(ready));
        self.empty.produce_until(empty.wrapping_add(ready));
        ready > 0
    }
}

impl Receiver for Xdp {
    fn receive(
        &mut self,
        patience: Duration,
        each: &mut dyn FnMut(Datagram<'_>),
    ) -> io::Result<Batch> {
        let mut batch = Batch::default();
        if self.take(&mut batch, each) {
            return Ok(batch);
        }
        let (is_ready, calls) = wait(&self.socket, patience, self.gather)?;
        batch.calls += calls;
        if is_ready {
            self.take(&mut batch, each);
        }
        Ok(batch)
    }

    fn dropped(&self) -> io::Result<u64> {
        let mut bytes = [0; STATISTICS_BYTES];
        let len = get(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS, &mut bytes)?;
        let told = bytes.get(..len).unwrap_or_default();
        let number = |place| part(told, place).map(u64::from_ne_bytes);
        // Before Linux 5.9 what found the ring full counts as dropped.
        let dropped = number(DROPPED).ok_or(io::ErrorKind::Unsupported)?;
        Ok(dropped + number(RING_FULL).unwrap_or(0))
    }

    fn waiting_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }
}

fn make_socket() -> io::Result<OwnedFd> {
    // SAFETY: there is no address in the call.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of the socket.
///
/// # Safety
/// What the value names outlives the socket.
unsafe fn set<T>(socket: &OwnedFd, name: i32, value: &T) -> io::Result<()> {
    let bytes = length(size_of::<T>());
    let (fd, value) = (socket.as_raw_fd(), std::ptr::from_ref(value).cast());
    // SAFETY: the value lives, and has as many bytes as are told; the rest is promised.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_XDP, name, value, bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lends the memory to the kernel, which pins its pages: they stay until it needs them no more.
fn lend(socket: &OwnedFd, memory: &Block) -> io::Result<()> {
    let area = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: u64::from(CHUNKS) * u64::from(CHUNK_BYTES),
        chunk_size: CHUNK_BYTES,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // SAFETY: the memory is as long as is told, and unmapped after the socket is closed.
    unsafe { set(socket, libc::XDP_UMEM_REG, &area) }
}

/// Tells the sizes of the rings, and maps the two that are used.
fn map(socket: &OwnedFd) -> io::Result<(Shared<libc::xdp_desc>, Shared<u64>)> {
    for (name, count) in [
        (libc::XDP_RX_RING, RECEIVED),
        (libc::XDP_UMEM_FILL_RING, CHUNKS),
        (libc::XDP_UMEM_COMPLETION_RING, COMPLETED),
    ] {
        // SAFETY: a number names nothing.
        unsafe { set(socket, name, &count)? };
    }
    // Four rings of four numbers.
    let mut bytes = [0; 4 * 32];
    let len = get(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut bytes)?;
    // Kernels before 5.4 tell three numbers of each.
    let told = if len == bytes.len() { &bytes[..] } else { &[] };
    let offsets = |number| Offsets::read(told, number).ok_or(io::ErrorKind::Unsupported);
    let (received, empty) = (offsets(0)?, offsets(2)?);
    let place = u64::try_from(libc::XDP_PGOFF_RX_RING).map_err(io::Error::other)?;
    // SAFETY: the ring that was asked for above; its entries are descriptors, numbers all.
    let received = unsafe { Shared::map(socket, place, received, RECEIVED)? };
    // SAFETY: likewise; its entries are addresses.
    let empty = unsafe { Shared::map(socket, libc::XDP_UMEM_PGOFF_FILL_RING, empty, CHUNKS)? };
    Ok((received, empty))
}

fn bind_patiently(socket: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match bind(socket, interface, queue) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && since.elapsed() < IN_USE =>
            {
                std::thread::sleep(IN_USE_PAUSE);
            }
            result => return result,
        }
    }
}

fn bind(socket: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: u16::try_from(libc::AF_XDP).unwrap_or_default(),
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = length(size_of_val(&address));
    // SAFETY: the address lives, and has as many bytes as are told.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
