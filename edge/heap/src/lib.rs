//! The border to the C of QuickJS: where a VM takes its memory, and scripts that are compiled once for all VMs.
//!
//! Memory is counted where it is taken, so that it is known while the VM is in use: the engine's own count cannot be
//! asked for then, and costs a visit of every object. All else is done by the allocator that the library comes with,
//! which is the program's. How large the engine's pages are say the flags that it is compiled with (`.cargo/config.toml`).
//!
//! In: [`Heap::allocator`], for a new runtime; [`Code::compile`]. Out: [`Heap::bytes`], at any time; [`Code::run`].
//! Not here: how much a VM may take (the engine bounds that by itself). A crate of its own because the border to C
//! takes `unsafe`.

#![allow(unsafe_code, reason = "these are functions that C calls")]

mod code;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rquickjs::allocator::{Allocator, RustAllocator};

pub use code::{Code, Source};

/// What one VM has taken.
#[derive(Clone, Debug, Default)]
pub struct Heap(Arc<AtomicUsize>);

/// The allocator of one VM.
#[derive(Debug)]
pub struct Counted(Heap);

impl Heap {
    /// What takes memory for the VM and counts it here.
    #[must_use]
    pub fn allocator(&self) -> Counted {
        Counted(self.clone())
    }

    /// Bytes that the VM has taken and not given back, in the blocks in which it takes them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Counted {
    /// Counts a block that has been taken.
    fn took(&self, block: *mut u8) -> *mut u8 {
        if !block.is_null() {
            // SAFETY: the block is `RustAllocator`'s, as all here are.
            self.0.0.fetch_add(unsafe { RustAllocator::usable_size(block) }, Relaxed);
        }
        block
    }

    fn gave(&self, bytes: usize) {
        let before = self.0.0.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "{bytes} of {before} bytes are given back");
    }
}

// SAFETY: every block is `RustAllocator`'s, and what it promises of them is what is promised here.
unsafe impl Allocator for Counted {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.took(RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        self.took(RustAllocator.calloc(count, size))
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        // SAFETY: the caller's block is one of ours, and so of `RustAllocator`'s.
        self.gave(unsafe { RustAllocator::usable_size(block) });
        // SAFETY: the same; nobody uses it any more.
        unsafe { RustAllocator.dealloc(block) };
    }

    unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
        if block.is_null() {
            return self.alloc(new_size);
        }
        // SAFETY: the caller's block is one of ours, and so of `RustAllocator`'s.
        let before = unsafe { RustAllocator::usable_size(block) };
        // SAFETY: the same; if it does not move, the caller has it still.
        let moved = unsafe { RustAllocator.realloc(block, new_size) };
        if !moved.is_null() {
            self.gave(before);
        }
        self.took(moved)
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        // SAFETY: the caller's block is one of ours, and so of `RustAllocator`'s.
        unsafe { RustAllocator::usable_size(block) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use rquickjs::allocator::Allocator;
    use rquickjs::{Context, Runtime};

    use super::{Counted, Heap};

    #[test]
    fn what_a_vm_takes_is_counted_until_it_gives_it_back() {
        let heap = Heap::default();
        let runtime = Runtime::new_with_alloc(heap.allocator()).expect("a runtime");
        let context = Context::full(&runtime).expect("a context");
        let empty = heap.bytes();
        assert!(empty > 10_000, "{empty}");
        let run = |text: &str| context.with(|ctx| ctx.eval::<(), _>(text).expect(text));
        run("var list = []; for (var i = 0; i < 1e5; i++) list.push({ i });");
        let full = heap.bytes();
        let engine = usize::try_from(runtime.memory_usage().malloc_size).expect("a size");
        assert!(full >= engine && full < engine * 2, "{full} here, {engine} by the engine");
        run("list = null; var bytes = new ArrayBuffer(1 << 22);");
        let emptied = heap.bytes();
        assert!((empty + (1 << 22)..full).contains(&emptied), "{emptied} of {full}");
        drop((context, runtime));
        assert_eq!(heap.bytes(), 0);
    }

    #[test]
    fn what_cannot_be_had_is_not_counted() {
        let heap = Heap::default();
        let runtime = Runtime::new_with_alloc(heap.allocator()).expect("a runtime");
        runtime.set_memory_limit(1 << 20);
        let context = Context::full(&runtime).expect("a context");
        let refused = "try { 'x'.repeat(1 << 24) } catch (e) {}";
        context.with(|ctx| ctx.eval::<(), _>(refused)).expect("it is caught");
        assert!(heap.bytes() < 2 << 20, "{}", heap.bytes());
    }

    /// Notes how large the blocks are that are asked for.
    struct Noted(Counted, Arc<Mutex<BTreeSet<usize>>>);

    // SAFETY: every block is `Counted`'s, and what it promises of them is what is promised here.
    unsafe impl Allocator for Noted {
        fn alloc(&mut self, size: usize) -> *mut u8 {
            self.1.lock().expect("nobody else").insert(size);
            self.0.alloc(size)
        }

        fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
            self.0.calloc(count, size)
        }

        unsafe fn dealloc(&mut self, block: *mut u8) {
            // SAFETY: the caller's promises are those of `Counted`.
            unsafe { self.0.dealloc(block) };
        }

        unsafe fn realloc(&mut self, block: *mut u8, new_size: usize) -> *mut u8 {
            // SAFETY: the same.
            unsafe { self.0.realloc(block, new_size) }
        }

        unsafe fn usable_size(block: *mut u8) -> usize {
            // SAFETY: the same.
            unsafe { Counted::usable_size(block) }
        }
    }

    /// A page is a head of 40 bytes and as many blocks as there is room for.
    #[test]
    fn pages_of_small_blocks_have_a_kib() {
        let sizes: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
        let noted = Noted(Heap::default().allocator(), sizes.clone());
        let runtime = Runtime::new_with_alloc(noted).expect("a runtime");
        let _context = Context::full(&runtime).expect("a context");
        let sizes = sizes.lock().expect("nobody else");
        let page = |bytes: usize, block: usize| 40 + (bytes - 40) / block * block;
        assert!(
            sizes.contains(&page(1_024, 48)) && !sizes.contains(&page(4_096, 48)),
            "compiled without the flags of .cargo/config.toml: {sizes:?}"
        );
    }
}
