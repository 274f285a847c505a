//! Messages of recvmsg(2), recvmmsg(2) and sendmmsg(2): headers, and the memory that they name.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use super::address::{NAME_BYTES, length};
use super::segments::Piece;
use crate::block::Block;

/// Between two addresses.
const NAME_STRIDE: usize = NAME_BYTES.next_multiple_of(8);

/// So many messages, each with room of its own.
pub(super) struct Messages {
    /// The headers name all that follows, which stays in its place until this is dropped.
    headers: Vec<libc::mmsghdr>,
    vectors: Block,
    bytes: Block,
    names: Block,
    controls: Block,
    piece_bytes: usize,
    control_bytes: usize,
    /// Headers that the kernel has written to.
    used: usize,
}

impl Messages {
    /// Makes room for `count` messages of `piece_bytes` each with `control_bytes` beside; all but the
    /// last may not be 0.
    pub(super) fn new(count: usize, piece_bytes: usize, control_bytes: usize) -> io::Result<Self> {
        let vectors = Block::new(count * size_of::<libc::iovec>())?;
        let bytes = Block::new(count * piece_bytes)?;
        let names = Block::new(count * NAME_STRIDE)?;
        let controls = Block::new((count * control_bytes).max(1))?;
        let mut headers = Vec::with_capacity(count);
        for index in 0..count {
            let vector = vector(&vectors, index);
            let iov_base = bytes.at(index * piece_bytes, piece_bytes).cast();
            // SAFETY: inside the block, which has room for `count` of them and begins at a page.
            unsafe { vector.write(libc::iovec { iov_base, iov_len: piece_bytes }) };
            // SAFETY: a header is numbers and pointers, for all of which zero is a value.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = names.at(index * NAME_STRIDE, NAME_BYTES).cast();
            if control_bytes > 0 {
                let control = controls.at(index * control_bytes, control_bytes);
                header.msg_hdr.msg_control = control.cast();
            }
            headers.push(header);
        }
        let used = count;
        Ok(Self { headers, vectors, bytes, names, controls, piece_bytes, control_bytes, used })
    }

    /// Lengths as the kernel is to find them, in the headers that it has changed.
    fn reset(&mut self) {
        for header in &mut self.headers[..self.used] {
            header.msg_hdr.msg_namelen = length(NAME_BYTES);
            header.msg_hdr.msg_controllen = self.control_bytes;
        }
    }

    /// Receives one message by recvmsg(2).
    pub(super) fn receive(&mut self, socket: &UdpSocket, flags: i32) -> io::Result<()> {
        self.reset();
        self.used = 1;
        let header = &raw mut self.headers[0].msg_hdr;
        // SAFETY: the header names room that is its own, and nothing else looks at it meanwhile.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), header, flags) };
        let len = u32::try_from(got).map_err(|_| io::Error::last_os_error())?;
        self.headers[0].msg_len = len;
        Ok(())
    }

    /// Receives as many messages as there are, without waiting, by recvmmsg(2).
    pub(super) fn receive_many(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.reset();
        let count = libc::c_uint::try_from(self.headers.len()).unwrap_or(0);
        let (fd, headers) = (socket.as_raw_fd(), self.headers.as_mut_ptr());
        let (flags, none) = (libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: as many headers as are told; each names room that is its own, and nothing else
        // looks at it meanwhile.
        let got = unsafe { libc::recvmmsg(fd, headers, count, flags, none) };
        self.used = usize::try_from(got).unwrap_or(0);
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(self.used) }
    }

    /// What message `index` of those that were received last has brought.
    #[inline]
    pub(super) fn piece(&self, index: usize) -> Piece<'_> {
        assert!(index < self.used, "no such message");
        let header = &self.headers[index];
        let len = (header.msg_len as usize).min(self.piece_bytes);
        let name = (header.msg_hdr.msg_namelen as usize).min(NAME_BYTES);
        let control = header.msg_hdr.msg_controllen.min(self.control_bytes);
        // SAFETY: the kernel wrote these before the call returned, and writes again only in a call
        // that borrows `self` mutably.
        unsafe {
            Piece {
                bytes: self.bytes.slice(index * self.piece_bytes, len),
                name: self.names.slice(index * NAME_STRIDE, name),
                control: self.controls.slice(index * self.control_bytes, control),
                is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            }
        }
    }

    /// The bytes of that message, to be changed in place.
    #[inline]
    pub(super) fn bytes_mut(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.used, "no such message");
        let len = (self.headers[index].msg_len as usize).min(self.piece_bytes);
        // SAFETY: the kernel wrote them before the call returned, and writes again only in a call
        // that borrows `self` mutably.
        unsafe { self.bytes.slice_mut(index * self.piece_bytes, len) }
    }

    /// The room of message `index`, to fill it; it will be sent with so many bytes.
    pub(super) fn fill(&mut self, index: usize, len: usize) -> &mut [u8] {
        assert!(len <= self.piece_bytes, "longer than there is room for");
        let iov_base = self.bytes.at(index * self.piece_bytes, len).cast();
        // SAFETY: the vector is in its place, and the kernel reads it only in a call that borrows
        // `self` mutably.
        unsafe { vector(&self.vectors, index).write(libc::iovec { iov_base, iov_len: len }) };
        let header = &mut self.headers[index].msg_hdr;
        // To whom the socket is connected, and nothing beside.
        (header.msg_namelen, header.msg_controllen) = (0, 0);
        // SAFETY: the kernel reads it only in a call that borrows `self` mutably.
        unsafe { self.bytes.slice_mut(index * self.piece_bytes, len) }
    }

    /// Sends messages that were filled, by one sendmmsg(2); how many it has taken.
    pub(super) fn send(
        &mut self,
        socket: &UdpSocket,
        messages: std::ops::Range<usize>,
    ) -> io::Result<usize> {
        let headers = &mut self.headers[messages];
        let count = libc::c_uint::try_from(headers.len()).unwrap_or(0);
        // SAFETY: as many headers as are told; each names room that lives.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Where the vector of message `index` is: at a multiple of its size from the beginning of a page.
fn vector(vectors: &Block, index: usize) -> *mut libc::iovec {
    let bytes = size_of::<libc::iovec>();
    assert!(!vectors.at(index * bytes, bytes).is_null());
    vectors.start().cast::<libc::iovec>().as_ptr().wrapping_add(index)
}
