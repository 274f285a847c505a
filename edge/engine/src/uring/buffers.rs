//! The ring of receive buffers that a thread lends to the kernel, shared by all its connections.
//!
//! The kernel takes buffers from the head when bytes arrive, names the one it filled in the
//! completion, and must not see it again until it has been given back here. Nothing is decided
//! here; every buffer is either the kernel's or, between completion and `give_back`, ours.
//!
//! Source: io_uring_register_buf_ring(3), io_uring_setup_buf_ring(3).

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{Submitter, types::BufRingEntry};

use crate::block::Block;

/// Most buffers that a ring can have: ids are 15 bits wide.
const COUNT_MAX: u16 = 1 << 15;
/// Between two buffers: a line of the processor's cache. Small messages touch the beginnings of all
/// buffers in turn; at a distance of a power of two these would share a few sets of the cache and
/// push each other out.
const GAP_BYTES: usize = 64;

/// The buffers and the ring that hands them to the kernel.
pub(crate) struct BufferRing {
    entries: Block,
    bytes: Block,
    count: u16,
    buffer_bytes: u32,
    /// Counts every buffer ever given to the kernel; the ring's place is its low bits.
    tail: u16,
}

impl BufferRing {
    /// Maps `count` buffers, a power of two up to 32,768, of `buffer_bytes` each. That only reserves
    /// them; the system gives pages as the kernel first writes to them.
    ///
    /// # Errors
    /// `InvalidInput` for another count or an empty size; what mmap(2) says when it is too much.
    pub(crate) fn new(count: u16, buffer_bytes: u32) -> io::Result<Self> {
        if !count.is_power_of_two() || count > COUNT_MAX || buffer_bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let entries = Block::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let bytes = Block::new(usize::from(count) * (buffer_bytes as usize + GAP_BYTES))?;
        let mut ring = Self { entries, bytes, count, buffer_bytes, tail: 0 };
        for id in 0..count {
            ring.give_back(id);
        }
        ring.commit();
        Ok(ring)
    }

    /// Lends the ring to the kernel as group `group`. The ring of the `submitter` must be gone, or
    /// hold no receive, before this value is dropped.
    pub(crate) fn register(&self, submitter: &Submitter<'_>, group: u16) -> io::Result<()> {
        let address = self.entries.start().as_ptr() as u64;
        // SAFETY: page-aligned, zeroed, `count` entries long, and kept until the ring is gone.
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, group, 0) }
    }

    /// Where buffer `id` begins in the block.
    #[inline]
    fn start(&self, id: u16) -> usize {
        usize::from(id) * (self.buffer_bytes as usize + GAP_BYTES)
    }

    /// The first `len` bytes of buffer `id`, which a completion has just named.
    #[inline]
    pub(crate) fn filled(&mut self, id: u16, len: usize) -> &mut [u8] {
        assert!(id < self.count && len <= self.buffer_bytes as usize);
        let start = self.start(id);
        // SAFETY: inside the block by the assert, and zeroed at first; the kernel stopped writing
        // when it posted the completion, and gets the buffer back only by `give_back(&mut self)`.
        unsafe { self.bytes.slice_mut(start, len) }
    }

    /// Puts buffer `id` back; the kernel sees it after [`Self::commit`].
    #[inline]
    pub(crate) fn give_back(&mut self, id: u16) {
        assert!(id < self.count);
        let place = usize::from(self.tail & (self.count - 1));
        let start = self.start(id);
        let address = self.bytes.start().as_ptr() as u64 + start as u64;
        // SAFETY: `place` is below `count`; entries are plain zeroed numbers, and the kernel does
        // not look at one beyond the published tail.
        let entry =
            unsafe { &mut *self.entries.start().cast::<BufRingEntry>().as_ptr().add(place) };
        entry.set_addr(address);
        entry.set_len(self.buffer_bytes);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel what was put back.
    #[inline]
    pub(crate) fn commit(&mut self) {
        let base = self.entries.start().cast::<BufRingEntry>().as_ptr();
        // SAFETY: the tail lies inside the first entry, which is initialized and aligned, and only
        // this thread writes it; the kernel reads it atomically.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::BufferRing;

    #[test]
    fn buffers_do_not_overlap_and_bad_counts_are_refused() {
        let mut ring = BufferRing::new(4, 16).unwrap();
        let starts: Vec<_> = (0..4).map(|id| ring.filled(id, 16).as_ptr() as usize).collect();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 16));
        for round in 0..100_u16 {
            ring.give_back(round % 4);
            ring.commit();
        }
        for (count, bytes) in [(0, 16), (3, 16), (4, 0), (u16::MAX, 1)] {
            assert!(BufferRing::new(count, bytes).is_err(), "{count} × {bytes}");
        }
    }

    #[test]
    #[should_panic(expected = "id < self.count")]
    fn a_buffer_that_does_not_exist_is_our_mistake() {
        let mut ring = BufferRing::new(4, 16).unwrap();
        ring.filled(4, 1);
    }
}
