//! How much an instance may hold: its linear memory and its tables, bounded when they grow. Bounds are
//! shared: all instances for calls on a thread have one, a match has its own, and all together have one.
//!
//! What is counted is the size that a guest has asked for, not what it has touched of it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use wasmtime::ResourceLimiter;

use crate::modules::Counters;

/// The setting that bounds all instances together.
pub(crate) const ALL_MEMORY: &str = "runtime.all_memory_max_bytes";

/// Bytes of an entry of a table, at least.
const TABLE_ENTRY_BYTES: usize = 8;

/// What an instance takes besides its memory, about: its stack as far as one call uses it, tables of
/// functions, and what wasmtime keeps of it.
pub(crate) const INSTANCE_BYTES: usize = 64 * 1024;

/// What an instance may hold.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// What those that share the bound hold together.
    pub(crate) held: Arc<AtomicUsize>,
    pub(crate) max_bytes: usize,
    pub(crate) setting: &'static str,
    pub(crate) all: Arc<Counters>,
    pub(crate) all_max_bytes: usize,
    pub(crate) is_match: bool,
}

impl Bound {
    /// Bytes that may still be had.
    pub(crate) fn left_bytes(&self) -> usize {
        let own = self.max_bytes.saturating_sub(self.held.load(Relaxed));
        own.min(self.all_max_bytes.saturating_sub(self.all.bytes.load(Relaxed)))
    }
}

/// What an instance holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bound: Bound,
    bytes: usize,
    /// The bound that the running call came to: bytes and setting.
    pub(crate) refused: Option<(usize, &'static str)>,
}

impl Held {
    pub(crate) fn new(bound: Bound) -> Self {
        let mut held = Self { bound, bytes: 0, refused: None };
        held.count(INSTANCE_BYTES);
        held
    }

    /// Under which bound it is.
    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Bytes of this instance.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn count(&mut self, more: usize) {
        self.bytes += more;
        self.bound.held.fetch_add(more, Relaxed);
        self.bound.all.bytes.fetch_add(more, Relaxed);
        if self.bound.is_match {
            self.bound.all.match_bytes.fetch_add(more, Relaxed);
        }
    }

    /// Whether there is room for so much more, which is counted then.
    fn grow(&mut self, more: usize) -> bool {
        let Bound { held, max_bytes, setting, all, all_max_bytes, .. } = &self.bound;
        let fits = |held: &AtomicUsize, max| held.load(Relaxed).saturating_add(more) <= max;
        self.refused = match (fits(held, *max_bytes), fits(&all.bytes, *all_max_bytes)) {
            (false, _) => Some((*max_bytes, *setting)),
            (_, false) => Some((*all_max_bytes, ALL_MEMORY)),
            _ => {
                self.count(more);
                return true;
            }
        };
        false
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bound.held.fetch_sub(self.bytes, Relaxed);
        self.bound.all.bytes.fetch_sub(self.bytes, Relaxed);
        if self.bound.is_match {
            self.bound.all.match_bytes.fetch_sub(self.bytes, Relaxed);
        }
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
