//! Sending: a call for each datagram, many messages with one call, or one piece that is cut up behind
//! the call.

use std::io;
use std::net::UdpSocket;

use super::messages::Messages;
use super::options::set;
use super::{DATAGRAM_BYTES_MAX, OpenError, Sender, Sent};

/// Segments that the kernel cuts one piece into, at most. Source: `UDP_MAX_SEGMENTS` in the kernel's
/// linux/udp.h, 64 before Linux 6.9.
const SEGMENTS_MAX: usize = 64;

/// Whether a sender was opened for datagrams of so many bytes.
pub(super) fn check(bytes: usize, bytes_max: usize) -> io::Result<()> {
    if bytes <= bytes_max { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Repeats a call that a signal has interrupted.
fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// [`super::SendStyle::One`].
pub(super) struct One {
    socket: UdpSocket,
    bytes: Vec<u8>,
}

impl One {
    pub(super) fn open(socket: UdpSocket, bytes_max: usize) -> Result<Self, OpenError> {
        socket.set_nonblocking(false).map_err(OpenError::of("blocking"))?;
        Ok(Self { socket, bytes: vec![0; bytes_max] })
    }
}

impl Sender for One {
    fn send(
        &mut self,
        count: usize,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> io::Result<Sent> {
        check(bytes, self.bytes.len())?;
        let mut sent = Sent::default();
        for index in 0..count {
            let piece = &mut self.bytes[..bytes];
            fill(index, piece);
            again(|| self.socket.send(piece))?;
            sent += Sent { datagrams: 1, calls: 1 };
        }
        Ok(sent)
    }
}

/// [`super::SendStyle::Mmsg`].
pub(super) struct Many {
    socket: UdpSocket,
    messages: Messages,
    batch: usize,
    bytes_max: usize,
}

impl Many {
    pub(super) fn open(
        socket: UdpSocket,
        batch: usize,
        bytes_max: usize,
    ) -> Result<Self, OpenError> {
        socket.set_nonblocking(false).map_err(OpenError::of("blocking"))?;
        let messages = Messages::new(batch, bytes_max, 0).map_err(OpenError::of("memory"))?;
        Ok(Self { socket, messages, batch, bytes_max })
    }
}

impl Sender for Many {
    fn send(
        &mut self,
        count: usize,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> io::Result<Sent> {
        check(bytes, self.bytes_max)?;
        let mut sent = Sent::default();
        let mut begun = 0;
        while begun < count {
            let filled = (count - begun).min(self.batch);
            for index in 0..filled {
                fill(begun + index, self.messages.fill(index, bytes));
            }
            let mut done = 0;
            while done < filled {
                let taken = again(|| self.messages.send(&self.socket, done..filled))?;
                done += taken;
                sent += Sent { datagrams: taken as u64, calls: 1 };
            }
            begun += filled;
        }
        Ok(sent)
    }
}

/// [`super::SendStyle::Gso`].
pub(super) struct Segmented {
    socket: UdpSocket,
    piece: Vec<u8>,
    batch: usize,
    bytes_max: usize,
    /// What the socket cuts pieces into.
    segment_bytes: usize,
}

impl Segmented {
    pub(super) fn open(
        socket: UdpSocket,
        batch: usize,
        bytes_max: usize,
    ) -> Result<Self, OpenError> {
        socket.set_nonblocking(false).map_err(OpenError::of("blocking"))?;
        // A refusal is found here, not at the first datagram.
        set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).map_err(OpenError::of("UDP_SEGMENT"))?;
        let batch = batch.min(SEGMENTS_MAX);
        let piece = vec![0; (batch * bytes_max).min(DATAGRAM_BYTES_MAX)];
        Ok(Self { socket, piece, batch, bytes_max, segment_bytes: 0 })
    }
}

impl Sender for Segmented {
    fn send(
        &mut self,
        count: usize,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> io::Result<Sent> {
        check(bytes, self.bytes_max)?;
        // A datagram of no bytes cannot be told from the next.
        let together = self.piece.len().checked_div(bytes).unwrap_or(1).clamp(1, self.batch);
        // What goes alone may be fragmented, which segments may not.
        let segment_bytes = if together > 1 { bytes } else { 0 };
        if self.segment_bytes != segment_bytes {
            let value = i32::try_from(segment_bytes).map_err(io::Error::other)?;
            set(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, value)?;
            self.segment_bytes = segment_bytes;
        }
        let mut sent = Sent::default();
        let mut begun = 0;
        while begun < count {
            let filled = (count - begun).min(together);
            let piece = &mut self.piece[..filled * bytes];
            if bytes == 0 {
                fill(begun, piece);
            }
            for (index, datagram) in piece.chunks_mut(bytes.max(1)).enumerate() {
                fill(begun + index, datagram);
            }
            again(|| self.socket.send(piece))?;
            sent += Sent { datagrams: filled as u64, calls: 1 };
            begun += filled;
        }
        Ok(sent)
    }
}
