//! How much an instance may hold: its linear memory and its tables, bounded when they grow. Bounds are
//! shared: all instances for calls on a thread have one, a match has its own, and all VMs of the process have
//! one, whatever their language.
//!
//! What is counted is the size that a guest has asked for, not what it has touched of it. Of what instances for calls
//! hold is known how much those have whose calls wait: `calls` says that to whoever ends some of them, so that a call
//! that runs finds room.

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

/// What the instances hold together that share a bound, bytes.
#[derive(Debug, Default)]
pub(crate) struct Together {
    all: AtomicUsize,
    /// Those whose calls wait.
    waiting: AtomicUsize,
}

impl Together {
    pub(crate) fn bytes(&self) -> usize {
        self.all.load(Relaxed)
    }

    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// A call has begun to wait whose instance holds so much, and nothing more until it goes on.
    pub(crate) fn wait(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Relaxed);
    }

    /// It goes on, or is gone.
    pub(crate) fn end_wait(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Relaxed);
    }
}

/// What an instance may hold.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    together: Arc<Together>,
    /// What it holds of that.
    own: Arc<AtomicUsize>,
    max_bytes: usize,
    setting: &'static str,
    pub(crate) all: Arc<VmMemory>,
    pub(crate) is_match: bool,
}

impl Bound {
    /// The memory of `limits`, for all that share `together`.
    pub(crate) fn new(limits: &Limits, together: &Arc<Together>, all: &Arc<VmMemory>) -> Self {
        Self {
            together: Arc::clone(together),
            own: Arc::default(),
            max_bytes: limits.memory_bytes,
            setting: limits.memory_setting,
            all: Arc::clone(all),
            is_match: limits.is_match,
        }
    }

    /// Bytes that may still be had.
    pub(crate) fn left_bytes(&self) -> usize {
        let own = self.max_bytes.saturating_sub(self.together.bytes());
        own.min(self.all.left_bytes())
    }

    /// What its instance holds.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own.load(Relaxed)
    }

    fn count(&self, more: usize) {
        self.together.all.fetch_add(more, Relaxed);
        self.own.fetch_add(more, Relaxed);
    }
}

/// The bound that a call came to, and what calls that wait held of it, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) max_bytes: usize,
    pub(crate) setting: &'static str,
    pub(crate) waiting_bytes: usize,
}

/// What an instance holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bound: Bound,
    /// What it is counted with among all.
    held: HeldMemory,
    /// The bound that the running call came to.
    pub(crate) refused: Option<Refused>,
}

impl Held {
    pub(crate) fn new(bound: Bound) -> Self {
        let held = HeldMemory::new(&bound.all, bound.is_match);
        held.count(INSTANCE_BYTES);
        bound.count(INSTANCE_BYTES);
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
        let Bound { together, max_bytes, setting, all, .. } = &self.bound;
        self.refused = if together.bytes().saturating_add(more) > *max_bytes {
            let waiting_bytes = together.waiting_bytes();
            Some(Refused { max_bytes: *max_bytes, setting, waiting_bytes })
        } else if !self.held.grow(more) {
            Some(Refused { max_bytes: all.max_bytes(), setting: ALL_MEMORY, waiting_bytes: 0 })
        } else {
            self.bound.count(more);
            None
        };
        self.refused.is_none()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bound.together.all.fetch_sub(self.held.bytes(), Relaxed);
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
