//! How much an instance may hold: its linear memory and its tables, bounded when they grow. Bounds are
//! shared: all instances for calls on a thread have one, a match has its own, and all VMs of the process have
//! one, whatever their language.
//!
//! What is counted is the size that a guest has asked for, not what it has touched of it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use script::budget::{ALL_MEMORY, HeldMemory, Limits, VmMemory};
use wasmtime::ResourceLimiter;

/// Bytes of an entry of a table, at least.
const TABLE_ENTRY_BYTES: usize = 8;

/// What an instance takes besides its memory, about: its stack as far as one call uses it, tables of
/// functions, and what wasmtime keeps of it.
pub(crate) const INSTANCE_BYTES: usize = 64 * 1024;

/// What an instance may hold.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// What those that share the bound hold together.
    held: Arc<AtomicUsize>,
    max_bytes: usize,
    setting: &'static str,
    pub(crate) all: Arc<VmMemory>,
    pub(crate) is_match: bool,
}

impl Bound {
    /// The memory of `limits`, for all that share `held`.
    pub(crate) fn new(limits: &Limits, held: &Arc<AtomicUsize>, all: &Arc<VmMemory>) -> Self {
        Self {
            held: Arc::clone(held),
            max_bytes: limits.memory_bytes,
            setting: limits.memory_setting,
            all: Arc::clone(all),
            is_match: limits.is_match,
        }
    }

    /// Bytes that may still be had.
    pub(crate) fn left_bytes(&self) -> usize {
        let own = self.max_bytes.saturating_sub(self.held.load(Relaxed));
        own.min(self.all.left_bytes())
    }
}

/// What an instance holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bound: Bound,
    /// What it is counted with among all.
    held: HeldMemory,
    /// The bound that the running call came to: bytes and setting.
    pub(crate) refused: Option<(usize, &'static str)>,
}

impl Held {
    pub(crate) fn new(bound: Bound) -> Self {
        let held = HeldMemory::new(&bound.all, bound.is_match);
        held.count(INSTANCE_BYTES);
        bound.held.fetch_add(INSTANCE_BYTES, Relaxed);
        Self { bound, held, refused: None }
    }

    /// Under which bound it is.
    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Bytes of this instance.
    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Whether there is room for so much more, which is counted then.
    fn grow(&mut self, more: usize) -> bool {
        let Bound { held, max_bytes, setting, all, .. } = &self.bound;
        self.refused = if held.load(Relaxed).saturating_add(more) > *max_bytes {
            Some((*max_bytes, *setting))
        } else if !self.held.grow(more) {
            Some((all.max_bytes(), ALL_MEMORY))
        } else {
            held.fetch_add(more, Relaxed);
            None
        };
        self.refused.is_none()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bound.held.fetch_sub(self.held.bytes(), Relaxed);
    }
}

impl ResourceLimiter for Held {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current)))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        Ok(self.grow(more.saturating_mul(TABLE_ENTRY_BYTES)))
    }
}
