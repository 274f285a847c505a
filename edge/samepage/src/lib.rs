//! Pages that many instances of a module have alike, kept once. An instance in Go has written to 100 of its pages when
//! it has begun, and to 80 of them what every other one has written there: tables of its runtime, which that makes at
//! every start. wasmtime shares what a module's file says of memory until an instance writes to it; here it is shared
//! again what they have written, as the kernel does it that merges pages of processes (`madvise(MADV_MERGEABLE)`), but at
//! a moment that is known, without a thread that searches, and among instances of one module alone.
//!
//! One instance becomes the [`Image`]: a file in memory. Of a later one those pages that have the same bytes are given
//! back, and the file is mapped in their place, of which an instance has its own page again once it writes. Nothing that a
//! guest could see of its memory changes, whatever it is: what differs (what is random, what is the game's) stays its
//! own. How long a write takes tells whether a page was shared, which is why an image is never of two modules.
//!
//! In: an instance that nothing runs in. Out: the same, with fewer pages of its own. Not here: which instances those are
//! and when (`edge/wasm`). A crate of its own because to map something in another one's place takes `unsafe`.
//!
//! Source: proc_pid_pagemap(5), mmap(2), memfd_create(2).

#![allow(unsafe_code, reason = "maps a file in the place of an instance's memory")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use wasmtime::{AsContext, AsContextMut, Config, Engine, InstanceAllocationStrategy, Memory};

/// Bytes of memory that an image is made of, from its beginning: what lies behind is each instance's own.
pub const IMAGE_BYTES_MAX: usize = 16 << 20;

/// Bytes that an image's instance had written to, with anything but zeroes. One with more (a game that has read a large
/// map, say) is none: an image stays for as long as its module.
pub const WRITTEN_BYTES_MAX: usize = 4 << 20;

/// Bytes of an instance that differ from the image's: with more it is left as it is, because to put them back takes time.
pub const KEPT_BYTES_MAX: usize = 4 << 20;

/// Pages that have to be the same: to give back fewer is not worth a system call.
const SAME_PAGES_MIN: usize = 8;

/// Bytes of what the kernel tells of a page.
const FLAGS_BYTES: usize = 8;

/// An engine whose instances have memory that is theirs alone and is unmapped with them.
#[derive(Clone, Debug)]
pub struct Instances(Engine);

impl Instances {
    /// An engine with this configuration, save for how it allocates memory. The configuration makes no memory itself
    /// (`Config::with_host_memory`).
    ///
    /// # Errors
    /// The configuration's.
    pub fn new(config: &mut Config) -> wasmtime::Result<Self> {
        // An allocator with a pool would put the next instance where something else was mapped, and without room
        // reserved memory would come from the heap.
        config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        config.memory_init_cow(true).signals_based_traps(true).memory_reservation(RESERVED_BYTES);
        Engine::new(config).map(Self)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0
    }

    /// Memory of another engine is no business of this one's.
    fn assert_own(&self, store: &impl AsContext) {
        assert!(Engine::same(store.as_context().engine(), &self.0), "memory of another engine");
    }
}

/// What wasmtime reserves for a memory, and its own choice: a memory never moves.
const RESERVED_BYTES: u64 = 4 << 30;

/// The memory of one instance, as it was at some moment.
#[derive(Debug)]
pub struct Image {
    instances: Instances,
    file: File,
    /// Of each page, whether it is nothing but zeroes.
    is_zero: Vec<bool>,
    /// What its instance had written to, in order.
    written: Vec<Written>,
}

#[derive(Debug)]
struct Written {
    page: usize,
    /// `None` for nothing but zeroes.
    bytes: Option<Box<[u8]>>,
}

impl Written {
    fn is_same(&self, page: &[u8]) -> bool {
        self.bytes.as_ref().map_or_else(|| has_zeroes(page), |bytes| **bytes == *page)
    }
}

impl Image {
    /// An image of this memory, which is none of an instance that has shared another image. `None` if its instance has
    /// written to more than [`WRITTEN_BYTES_MAX`], or the kernel does not say what it has written to.
    ///
    /// # Errors
    /// The kernel's: no file descriptor is left, or no memory.
    ///
    /// # Panics
    /// The memory is another engine's.
    pub fn of(
        instances: &Instances,
        store: impl AsContext,
        memory: Memory,
    ) -> io::Result<Option<Self>> {
        instances.assert_own(&store);
        let memory = memory.data(&store);
        let memory = memory.get(..IMAGE_BYTES_MAX).unwrap_or(memory);
        let page_bytes = rustix::param::page_size();
        let Ok(is_written) = written_pages(memory, page_bytes) else { return Ok(None) };
        let pages = || memory.chunks_exact(page_bytes);
        // Those that are too much are known before anything is copied: every match of theirs comes here.
        let filled = pages().zip(&is_written).filter(|(bytes, is)| **is && !has_zeroes(bytes));
        if filled.take(WRITTEN_BYTES_MAX / page_bytes + 1).count() * page_bytes > WRITTEN_BYTES_MAX
        {
            return Ok(None);
        }
        let (mut is_zero, mut written) = (Vec::new(), Vec::new());
        let file = File::from(rustix::fs::memfd_create("guest-image", MemfdFlags::CLOEXEC)?);
        let mut place: u64 = 0;
        for (page, (bytes, is_written)) in pages().zip(is_written).enumerate() {
            let nothing = has_zeroes(bytes);
            // What is nothing but zeroes the file has anyway.
            if !nothing {
                file.write_all_at(bytes, place)?;
            }
            if is_written {
                written.push(Written { page, bytes: (!nothing).then(|| bytes.into()) });
            }
            is_zero.push(nothing);
            place += u64::try_from(page_bytes).unwrap_or(u64::MAX);
        }
        // What is behind was never written to: others may have less of it.
        let last = is_zero.iter().rposition(|is| !is).max(written.last().map(|it| it.page));
        is_zero.truncate(last.map_or(0, |last| last + 1));
        file.set_len(u64::try_from(is_zero.len() * page_bytes).unwrap_or(u64::MAX))?;
        Ok(Some(Self { instances: instances.clone(), file, is_zero, written }))
    }

    /// Gives the pages of this memory back that have the bytes of the image's, which is of the same module. Returns how
    /// many those are: 0 if they are few, or what differs is much.
    ///
    /// # Errors
    /// The kernel's: too many mappings (`vm.max_map_count`), or no memory. The instance must not run any more then, nor be
    /// dropped: where its memory was there may be nothing, or something of others.
    ///
    /// # Panics
    /// The memory is another engine's.
    pub fn share(&self, mut store: impl AsContextMut, memory: Memory) -> io::Result<usize> {
        self.instances.assert_own(&store);
        let memory = memory.data_mut(&mut store);
        let page_bytes = rustix::param::page_size();
        let image_bytes = memory.len().min(self.is_zero.len() * page_bytes);
        let (memory, _) = memory.split_at_mut(image_bytes);
        let Ok(is_written) = written_pages(memory, page_bytes) else { return Ok(0) };
        let (kept, same_count) = self.compare(memory, is_written, page_bytes);
        if same_count < SAME_PAGES_MIN || kept.len() * page_bytes > KEPT_BYTES_MAX {
            return Ok(0);
        }
        let before = cfg!(debug_assertions).then(|| memory.to_vec());
        let kept: Vec<(usize, Box<[u8]>)> = kept
            .into_iter()
            .map(|page| {
                let place = page * page_bytes;
                (place, memory[place..place + page_bytes].into())
            })
            .collect();
        let (at, flags) =
            (memory.as_mut_ptr().cast::<c_void>(), MapFlags::PRIVATE | MapFlags::FIXED);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: all of these bytes are one instance's own memory, and borrowed here for as long as they change. They
        // were mapped to be read and written, and are again; its engine maps nothing there itself before it unmaps
        // them all. The pages' bytes are the same as before, once those that differ are back.
        let mapped = unsafe { rustix::mm::mmap(at, memory.len(), access, flags, &self.file, 0) }?;
        assert_eq!(mapped, at, "mmap has mapped where it was told to");
        for (place, bytes) in &kept {
            memory[*place..place + page_bytes].copy_from_slice(bytes);
        }
        debug_assert!(before.is_none_or(|before| *before == *memory), "a guest sees no change");
        Ok(same_count)
    }

    /// The pages that are not as in the image, and how many are that both have written.
    fn compare(
        &self,
        memory: &[u8],
        is_written: Vec<bool>,
        page_bytes: usize,
    ) -> (Vec<usize>, usize) {
        let (mut kept, mut same_count) = (Vec::new(), 0);
        let mut theirs = self.written.iter().peekable();
        let own = memory.chunks_exact(page_bytes).zip(is_written);
        for (page, (bytes, is_written)) in own.enumerate() {
            match theirs.next_if(|written| written.page == page) {
                Some(written) if written.is_same(bytes) => {
                    same_count += usize::from(written.bytes.is_some());
                }
                // Neither has written to it: it is as the module's file has it.
                None if !is_written => {}
                // What the kernel calls its own may have been read only, and be nothing.
                None if self.is_zero[page] && has_zeroes(bytes) => {}
                Some(_) | None => kept.push(page),
            }
        }
        (kept, same_count)
    }
}

/// Which pages of a memory its instance has a copy of its own of.
///
/// # Errors
/// The kernel does not say it.
fn written_pages(memory: &[u8], page_bytes: usize) -> io::Result<Vec<bool>> {
    let mut flags = vec![0_u8; memory.len() / page_bytes * FLAGS_BYTES];
    let first = memory.as_ptr().addr() / page_bytes * FLAGS_BYTES;
    let first = u64::try_from(first).map_err(io::Error::other)?;
    File::open("/proc/self/pagemap")?.read_exact_at(&mut flags, first)?;
    let (pages, _) = flags.as_chunks::<FLAGS_BYTES>();
    Ok(pages.iter().map(|flags| is_own(u64::from_ne_bytes(*flags))).collect())
}

/// Whether a page is there, in memory or where it was put out, and is no file's (bits 63, 62 and 61).
fn is_own(flags: u64) -> bool {
    flags >> 62 != 0 && flags >> 61 & 1 == 0
}

fn has_zeroes(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests;
