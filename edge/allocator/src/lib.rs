//! The program's allocator: mimalloc, with large blocks of zeroes that take no memory until they are written, where that
//! is asked for ([`untouched`]).
//!
//! mimalloc hands out a block of zeroes as the kernel has given it, but writes zeroes where one was in use before. An
//! instance in Go has 50 KB for its table of functions, of which it never touches the half: in many matches those were
//! pages of zeroes. Here the kernel takes the pages of such a block back, and gives others to whoever writes to them.
//! That is a system call, and makes every core that runs a thread of the process forget the pages: not for what a guest
//! may have as often as it likes, and so not everywhere.
//!
//! In: requests of `alloc`. Out: blocks; and what is free, for the system ([`trim`]). Not here: when either is worth it
//! (`reactor`, `edge/throng`, `edge/wasm`), where a VM's memory is counted (`heap`, `edge/script`). A crate of its own
//! because an allocator takes `unsafe`.
//!
//! Source: madvise(2), `MADV_DONTNEED`.

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;

// Only for its library: its binding stands behind a feature that would compile it anew.
use libmimalloc_sys as _;
use mimalloc::MiMalloc;
use rustix::mm::Advice;

/// From here on a block of zeroes is left to the kernel, bytes: for fewer a system call, and a fault for each of its
/// pages that is written, cost more than the zeroes.
pub const UNTOUCHED_BYTES_MIN: usize = 32 << 10;

thread_local! {
    /// Whether [`untouched`] is under way.
    static UNTOUCHED: Cell<bool> = const { Cell::new(false) };
}

/// Does something whose large blocks of zeroes, all those from [`UNTOUCHED_BYTES_MIN`] on, are left to the kernel. Not
/// with mimalloc in huge pages (`MIMALLOC_ALLOW_LARGE_OS_PAGES`, `MIMALLOC_RESERVE_HUGE_OS_PAGES`), of which the kernel
/// takes whole ones only, and leaves the others as they are without an error.
pub fn untouched<T>(work: impl FnOnce() -> T) -> T {
    /// What was there before is there again, also after a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            UNTOUCHED.set(self.0);
        }
    }
    static HAS_HUGE_PAGES: OnceLock<bool> = OnceLock::new();
    let has_huge_pages = HAS_HUGE_PAGES.get_or_init(|| {
        let is_about_them = |name: &str| name.starts_with("MIMALLOC_") && name.contains("OS_PAGES");
        std::env::vars_os().any(|(name, _)| name.to_str().is_some_and(is_about_them))
    });
    let _before = Before(UNTOUCHED.replace(!has_huge_pages));
    work()
}

unsafe extern "C" {
    /// Source: mimalloc.h, `mi_collect(bool force)`.
    safe fn mi_collect(force: bool);
}

/// Gives back to the system what is free of the memory that this thread has taken, and what any thread has returned to
/// all: the allocator keeps it for a while, and beyond that until a thread allocates again.
pub fn trim() {
    mi_collect(true);
}

/// To be the program's `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

// SAFETY: every block is mimalloc's, which promises what is promised here; of a new one the bytes may be anything, and
// so may be made zeroes.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that are asked for.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < UNTOUCHED_BYTES_MIN || !UNTOUCHED.get() {
            // SAFETY: as above.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        let block = unsafe { MiMalloc.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block is new, and has so many bytes.
            unsafe { clear(block, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(block, layout, new_bytes) }
    }
}

/// Makes a block zeroes: its whole pages by giving them back, what lies before and behind them by writing.
///
/// # Safety
/// It is the caller's alone, of memory that no file is mapped to and that is shared with no process, in pages of the
/// usual size.
unsafe fn clear(block: *mut u8, bytes: usize) {
    let page_bytes = rustix::param::page_size();
    let before = block.align_offset(page_bytes).min(bytes);
    let whole = (bytes - before) / page_bytes * page_bytes;
    // SAFETY: `before` bytes are the block's, which the caller has to itself.
    unsafe { block.write_bytes(0, before) };
    // SAFETY: the pages are the block's, `before` at most its end.
    let pages = unsafe { block.add(before) };
    // SAFETY: they are whole, and the caller's alone; what a later read finds there is zeroes.
    let given_back = unsafe { rustix::mm::madvise(pages.cast(), whole, Advice::LinuxDontNeed) };
    if given_back.is_err() {
        // SAFETY: as before; pages that are locked stay where they are.
        unsafe { pages.write_bytes(0, whole) };
    }
    // SAFETY: what is left of the block lies behind its whole pages.
    unsafe { pages.add(whole).write_bytes(0, bytes - before - whole) };
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc as _, Layout};
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt as _;

    use super::{Allocator, UNTOUCHED_BYTES_MIN, untouched};

    /// How many of a block's pages are in memory, the first one left out (proc_pid_pagemap(5)).
    fn held_pages(block: *mut u8, bytes: usize) -> usize {
        let page_bytes = rustix::param::page_size();
        let first = block.addr() / page_bytes + 1;
        let mut entries = vec![0; (bytes / page_bytes - 1) * 8];
        let pagemap = std::fs::File::open("/proc/self/pagemap").expect("a pagemap");
        pagemap.read_exact_at(&mut entries, first as u64 * 8).expect("entries");
        entries.chunks(8).filter(|entry| entry[7] >> 7 == 1).count()
    }

    #[test]
    fn a_large_block_of_zeroes_is_zeroes_wherever_it_was_in_use_before() {
        for bytes in
            [1, 4_096, UNTOUCHED_BYTES_MIN - 1, UNTOUCHED_BYTES_MIN, 49_528, 83_900, 5 << 20]
        {
            for align in [1, 16, 64, 4_096] {
                let layout = Layout::from_size_align(bytes, align).expect("a layout");
                for _ in 0..4 {
                    // SAFETY: the block is used within its bounds, and given back once with its layout.
                    unsafe {
                        let block = untouched(|| Allocator.alloc_zeroed(layout));
                        assert!(!block.is_null() && block.addr().is_multiple_of(align));
                        let all = std::slice::from_raw_parts_mut(block, bytes);
                        assert!(all.iter().all(|byte| *byte == 0), "{bytes} bytes, {align}");
                        all.fill(0xa5);
                        Allocator.dealloc(block, layout);
                    }
                }
            }
        }
    }

    #[test]
    fn a_large_block_of_zeroes_takes_no_memory_where_one_was_in_use_before() {
        let layout = Layout::from_size_align(64 << 10, 16).expect("a layout");
        let mut places = BTreeSet::new();
        loop {
            // SAFETY: the block is used within its bounds, and given back once with its layout.
            let block = untouched(|| unsafe { Allocator.alloc_zeroed(layout) });
            assert!(held_pages(block, layout.size()) == 0, "nobody has written to it");
            let is_known = !places.insert(block);
            // SAFETY: as above.
            unsafe {
                block.write_bytes(1, layout.size());
                Allocator.dealloc(block, layout);
            }
            if is_known {
                break;
            }
        }
    }
}
