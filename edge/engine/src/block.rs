//! Memory at a fixed place that is lent to the kernel, or that it lends to us.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Page-aligned memory at a fixed place, unmapped on drop.
pub(crate) struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

impl Block {
    /// Maps so many bytes, one at least, zeroed at first. Mapping only reserves them: the system gives
    /// pages as they are first written to.
    ///
    /// # Errors
    /// What mmap(2) says when it is too much.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at a place that the system chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Maps so many bytes of the kernel's, at `place` of what a file of its stands for.
    ///
    /// # Errors
    /// What mmap(2) says.
    pub(crate) fn of_kernel(file: impl AsFd, place: u64, bytes: usize) -> io::Result<Self> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping, at a place that the system chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, place)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Where it begins.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Where a part begins that lies in it.
    #[inline]
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.bytes && len <= self.bytes - offset, "outside the block");
        // SAFETY: inside the mapping by the assert.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// A part that lies in it.
    ///
    /// # Safety
    /// Neither the kernel nor anybody else writes there while the slice lives.
    #[inline]
    pub(crate) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        let start = self.at(offset, len);
        // SAFETY: inside the mapping, whose bytes are the system's from the start; the rest is promised
        // by the caller.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// A part that lies in it, to write to.
    ///
    /// # Safety
    /// The kernel neither reads nor writes there while the slice lives.
    #[inline]
    pub(crate) unsafe fn slice_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let start = self.at(offset, len);
        // SAFETY: inside the mapping, whose bytes are the system's from the start; borrowed mutably;
        // the rest is promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: mapped when it was made, with this length, and unmapped only here.
        if let Err(error) = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) } {
            tracing::error!(%error, "cannot give memory back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Block;

    #[test]
    fn a_part_lies_inside_or_is_our_mistake() {
        let mut block = Block::new(100).unwrap();
        // SAFETY: nobody else knows the block.
        let (part, all) = unsafe { (block.slice_mut(90, 10).len(), block.slice(0, 100).to_vec()) };
        assert_eq!((part, all), (10, vec![0; 100]));
        assert_eq!(block.at(100, 0) as usize - block.start().as_ptr() as usize, 100);
        for (offset, len) in [(0, 101), (100, 1), (101, 0), (usize::MAX, 2)] {
            let outside = std::panic::catch_unwind(|| block.at(offset, len).is_null());
            assert!(outside.is_err(), "{offset} + {len}");
        }
    }
}
