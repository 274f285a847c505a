//! io_uring: many sends with one submission, all of whose completions are waited for, so that nothing
//! is under way between two calls. Sends for which the kernel has no room at once may overtake each
//! other.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, types};

use super::ring::is_passing;
use super::send::check;
use super::{OpenError, Sender, Sent};
use crate::block::Block;
use crate::uring::probe::build_ring;

/// [`super::SendStyle::Uring`]. What the kernel reads comes after the ring, so that it goes later.
pub(super) struct Ring {
    ring: IoUring,
    bytes: Block,
    socket: UdpSocket,
    batch: usize,
    bytes_max: usize,
}

impl Ring {
    pub(super) fn open(
        socket: UdpSocket,
        batch: usize,
        bytes_max: usize,
    ) -> Result<Self, OpenError> {
        socket.set_nonblocking(false).map_err(OpenError::of("blocking"))?;
        let entries = u32::try_from(batch.next_power_of_two()).unwrap_or(u32::MAX);
        let ring = build_ring(entries, entries * 2).map_err(OpenError::of("io_uring_setup"))?;
        let bytes = Block::new(batch * bytes_max).map_err(OpenError::of("memory"))?;
        Ok(Self { ring, bytes, socket, batch, bytes_max })
    }

    /// Waits for so many completions; the first error of a send, if there is one.
    fn finish(&mut self, mut outstanding: usize) -> io::Result<(u64, u64)> {
        let (mut taken, mut calls, mut failed) = (0, 0, None);
        while outstanding > 0 {
            calls += 1;
            if let Err(error) = self.ring.submit_and_wait(outstanding)
                && !is_passing(&error)
            {
                // The kernel may still read what would be freed or filled anew.
                tracing::error!(%error, "cannot take memory back from the kernel");
                std::process::abort();
            }
            for entry in self.ring.completion() {
                outstanding -= 1;
                if entry.result() < 0 {
                    failed.get_or_insert(io::Error::from_raw_os_error(-entry.result()));
                } else {
                    taken += 1;
                }
            }
        }
        failed.map_or(Ok((taken, calls)), Err)
    }
}

impl Sender for Ring {
    fn send(
        &mut self,
        count: usize,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> io::Result<Sent> {
        check(bytes, self.bytes_max)?;
        let len = u32::try_from(bytes).map_err(io::Error::other)?;
        let file = types::Fd(self.socket.as_raw_fd());
        let mut sent = Sent::default();
        let mut begun = 0;
        while begun < count {
            let filled = (count - begun).min(self.batch);
            for index in 0..filled {
                let offset = index * self.bytes_max;
                // SAFETY: nothing is under way, so that the kernel does not look at it.
                fill(begun + index, unsafe { self.bytes.slice_mut(offset, bytes) });
            }
            // Only now, so that a `fill` that panics leaves nothing behind to be submitted later.
            for index in 0..filled {
                let offset = index * self.bytes_max;
                let start = self.bytes.at(offset, bytes).cast_const();
                let entry = opcode::Send::new(file, start, len).build();
                // SAFETY: the piece stays as it is until `finish` has seen its completion. There is
                // room for a batch, and all before were submitted.
                unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
            }
            let (datagrams, calls) = self.finish(filled)?;
            sent += Sent { datagrams, calls };
            begun += filled;
        }
        Ok(sent)
    }
}
