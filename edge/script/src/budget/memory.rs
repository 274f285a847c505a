//! The memory of all VMs of a process together, in whatever languages: one count, and one bound of it
//! (`runtime.all_memory_max_bytes`).
//!
//! In: what each VM holds ([`HeldMemory`]), by its engine's own count: after a call, or, where the engine asks
//! before it takes more, at that moment. Out: what is left for the next one, and what the process holds. A
//! VM that was not looked at since it took more is counted with what it held before, so that all together may
//! exceed the bound by what calls under way have taken, each at most up to the VM's own bound. Not here: that bound,
//! which each engine keeps itself.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// The setting that bounds the memory of all VMs together.
pub const ALL_MEMORY: &str = "runtime.all_memory_max_bytes";

/// What all VMs of a process hold, and may.
#[derive(Debug)]
pub struct VmMemory {
    max_bytes: usize,
    bytes: AtomicUsize,
    /// The part of it that matches hold.
    match_bytes: AtomicUsize,
    rebuilt_count: AtomicU64,
}

impl Default for VmMemory {
    /// Without a bound.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl VmMemory {
    /// Nothing is held yet; `max_bytes` is for all VMs that are counted here.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let (bytes, match_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { max_bytes, bytes, match_bytes, rebuilt_count: AtomicU64::new(0) }
    }

    /// What all may hold together, bytes.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// What all hold, bytes; as of when each was last looked at.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The part of [`Self::bytes`] that matches hold.
    #[must_use]
    pub fn match_bytes(&self) -> usize {
        self.match_bytes.load(Relaxed)
    }

    /// A VM is thrown away because a call left it without memory, or ended in a trap.
    pub fn note_rebuilt(&self) {
        self.rebuilt_count.fetch_add(1, Relaxed);
    }

    /// How often that happened.
    #[must_use]
    pub fn rebuilt_count(&self) -> u64 {
        self.rebuilt_count.load(Relaxed)
    }

    /// What may still be had, bytes.
    #[must_use]
    pub fn left_bytes(&self) -> usize {
        self.max_bytes.saturating_sub(self.bytes())
    }

    /// Whether a match that needs so much at its start may begin.
    ///
    /// # Errors
    /// How much is held, of how much, and by which setting, for its author.
    pub fn check_start(&self, bytes: usize) -> Result<(), String> {
        let (held_bytes, max_bytes) = (self.bytes(), self.max_bytes);
        if held_bytes.saturating_add(bytes) > max_bytes {
            return Err(format!(
                "the scripts of the process use {held_bytes} of {max_bytes} bytes ({ALL_MEMORY})"
            ));
        }
        Ok(())
    }
}

/// What one VM is counted with among all; given back when it is dropped.
#[derive(Debug)]
pub struct HeldMemory {
    all: Arc<VmMemory>,
    is_match: bool,
    bytes: Cell<usize>,
}

impl HeldMemory {
    /// Of a VM that holds nothing yet. `is_match`: it is a match's.
    #[must_use]
    pub fn new(all: &Arc<VmMemory>, is_match: bool) -> Self {
        Self { all: Arc::clone(all), is_match, bytes: Cell::new(0) }
    }

    /// Of more of the same VM, for while it cannot be looked at: nothing yet.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::new(&self.all, self.is_match)
    }

    /// What it is counted with, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// It was looked at, and holds so much.
    pub fn count(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        if bytes == before {
            return;
        }
        // Two's complement: adding the difference takes away what has become free.
        let more = bytes.wrapping_sub(before);
        self.all.bytes.fetch_add(more, Relaxed);
        if self.is_match {
            self.all.match_bytes.fetch_add(more, Relaxed);
        }
    }

    /// Whether it may hold so much more, which is counted then.
    #[must_use]
    pub fn grow(&self, more: usize) -> bool {
        let max_bytes = self.all.max_bytes;
        let grown = |bytes: usize| bytes.checked_add(more).filter(|bytes| *bytes <= max_bytes);
        if self.all.bytes.fetch_update(Relaxed, Relaxed, grown).is_err() {
            return false;
        }
        if self.is_match {
            self.all.match_bytes.fetch_add(more, Relaxed);
        }
        self.bytes.set(self.bytes.get() + more);
        true
    }

    /// What it may hold beside what the others do, bytes, if that is less than `own_max_bytes`.
    #[must_use]
    pub fn bound_by_others(&self, own_max_bytes: usize) -> Option<usize> {
        let bytes = self.bytes().saturating_add(self.all.left_bytes());
        (bytes < own_max_bytes).then_some(bytes)
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_together_and_what_is_dropped_is_given_back() {
        let all = Arc::new(VmMemory::new(100));
        let calls = HeldMemory::new(&all, false);
        calls.count(30);
        let held = HeldMemory::new(&all, true);
        assert!(held.grow(20) && held.grow(50) && !held.grow(1), "100 are all");
        assert_eq!((all.bytes(), all.match_bytes(), all.left_bytes()), (100, 70, 0));
        assert_eq!((held.bound_by_others(71), held.bound_by_others(70)), (Some(70), None));
        let refusal =
            "the scripts of the process use 100 of 100 bytes (runtime.all_memory_max_bytes)";
        assert_eq!((all.check_start(0), all.check_start(1)), (Ok(()), Err(refusal.to_owned())));
        calls.count(10);
        assert_eq!((all.bytes(), held.bound_by_others(usize::MAX)), (80, Some(90)));
        drop(held);
        assert_eq!((all.bytes(), all.match_bytes()), (10, 0));
        drop(calls);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn what_was_taken_unasked_leaves_nothing() {
        let all = Arc::new(VmMemory::new(100));
        let held = HeldMemory::new(&all, false);
        held.count(150);
        assert_eq!((all.left_bytes(), held.grow(0), held.grow(usize::MAX)), (0, false, false));
        assert_eq!(held.bound_by_others(200), Some(150), "what it has it keeps");
        assert!(HeldMemory::new(&Arc::default(), true).grow(1 << 40), "without a bound");
    }
}
