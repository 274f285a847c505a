//! Rings that are shared with the kernel: one side writes entries and moves the producer, the other
//! reads them and moves the consumer.
//!
//! Source: the kernel's Documentation/networking/af_xdp.rst.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::address::part;
use crate::block::Block;

/// Where a ring's parts lie in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    producer: usize,
    consumer: usize,
    entries: usize,
}

impl Offsets {
    /// Reads those of ring `number` (received, sent, to be filled, completed) from what
    /// XDP_MMAP_OFFSETS says: four numbers of eight bytes each.
    pub(super) fn read(bytes: &[u8], number: usize) -> Option<Self> {
        let number_at = |place: usize| {
            let value = part(bytes, number * 32 + place * 8).map(u64::from_ne_bytes);
            value.and_then(|it| usize::try_from(it).ok())
        };
        let (producer, consumer, entries) = (number_at(0)?, number_at(1)?, number_at(2)?);
        let is_aligned = producer % 4 == 0 && consumer % 4 == 0 && entries % 8 == 0;
        is_aligned.then_some(Self { producer, consumer, entries })
    }
}

/// A ring of entries of type `T`, which are numbers.
pub(super) struct Shared<T> {
    memory: Block,
    offsets: Offsets,
    /// A power of two.
    count: u32,
    entry: std::marker::PhantomData<T>,
}

impl<T: Copy> Shared<T> {
    /// Maps a ring of `count` entries, a power of two, which the socket was told of before.
    ///
    /// # Safety
    /// The kernel's entries at `place` are of type `T`, `count` of them, behind `offsets`; every
    /// pattern of bits is one.
    pub(super) unsafe fn map(
        socket: &OwnedFd,
        place: u64,
        offsets: Offsets,
        count: u32,
    ) -> io::Result<Self> {
        let bytes = offsets.entries + count as usize * size_of::<T>();
        assert!(offsets.producer + 4 <= bytes && offsets.consumer + 4 <= bytes, "rings overlap");
        let memory = Block::of_kernel(socket, place, bytes)?;
        Ok(Self { memory, offsets, count, entry: std::marker::PhantomData })
    }

    fn counter(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, which was looked at when it was mapped; both
        // sides use it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.start().add(offset).cast().as_ptr()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.counter(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.offsets.consumer)
    }

    fn entry(&self, number: u32) -> *mut T {
        let place = (number & (self.count - 1)) as usize;
        // SAFETY: `place` is below `count`, so that the entry lies inside the mapping.
        unsafe { self.memory.start().add(self.offsets.entries).cast::<T>().add(place).as_ptr() }
    }

    /// Where the first entry is that the kernel has produced, and how many there are.
    pub(super) fn produced(&self) -> (u32, u32) {
        let first = self.consumer().load(Ordering::Relaxed);
        let ready = self.producer().load(Ordering::Acquire).wrapping_sub(first);
        (first, ready.min(self.count))
    }

    /// An entry that the kernel has produced.
    pub(super) fn read(&self, number: u32) -> T {
        // SAFETY: inside the mapping; the kernel does not write it before it is given back.
        unsafe { self.entry(number).read() }
    }

    /// Gives entries before `number` back.
    pub(super) fn consume_until(&self, number: u32) {
        self.consumer().store(number, Ordering::Release);
    }

    /// Where the next entry goes that we produce. There has to be room for it.
    pub(super) fn next(&self) -> u32 {
        self.producer().load(Ordering::Relaxed)
    }

    /// Writes an entry, which the kernel sees after [`Self::produce_until`].
    pub(super) fn write(&self, number: u32, entry: T) {
        // SAFETY: inside the mapping; the kernel does not read it before the producer is moved.
        unsafe { self.entry(number).write(entry) }
    }

    /// Shows entries before `number` to the kernel.
    pub(super) fn produce_until(&self, number: u32) {
        self.producer().store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Offsets;

    #[test]
    fn offsets_are_read_from_what_the_kernel_says() {
        let bytes: Vec<u8> = (0..16_u64).flat_map(|it| (it * 8).to_ne_bytes()).collect();
        let wanted = Offsets { producer: 64, consumer: 72, entries: 80 };
        assert_eq!(Offsets::read(&bytes, 2), Some(wanted));
        assert_eq!(Offsets::read(&bytes[..80], 2), None);
        assert_eq!(Offsets::read(&bytes, 4), None);
        let odd: Vec<u8> = (0..4_u64).flat_map(|it| (it * 8 + 1).to_ne_bytes()).collect();
        assert_eq!(Offsets::read(&odd, 0), None);
    }
}
