//! Memory that large answers have left behind, given back to the system: the allocator keeps it
//! for the thread's next ones, and a thread that has become quiet has none.

// Only for its library: the binding below stands behind a feature that would compile it anew.
use libmimalloc_sys as _;

unsafe extern "C" {
    /// Source: mimalloc.h, `mi_collect(bool force)`.
    safe fn mi_collect(force: bool);
}

/// Pieces from here on count as large.
const LARGE_BYTES_MIN: usize = 64 << 10;
/// So much must have been sent in large pieces to be worth it.
const BURST_BYTES_MIN: u64 = 8 << 20;
/// It is a millisecond's work or more: not more often than this.
const PAUSE_NS: u64 = 2_000_000_000;

/// What a thread has sent in large pieces since it last gave memory back.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    bytes: u64,
    due_ns: u64,
}

impl Burst {
    #[inline]
    pub(crate) fn note(&mut self, len: usize) {
        if len >= LARGE_BYTES_MIN {
            self.bytes += len as u64;
        }
    }

    /// Whether there is memory to give back once all is sent.
    pub(crate) fn is_due(&self) -> bool {
        self.bytes >= BURST_BYTES_MIN
    }

    /// Gives back what the allocator can, of all threads' freed large pieces.
    pub(crate) fn give_back(&mut self, now_ns: u64) {
        if self.is_due() && now_ns >= self.due_ns {
            self.bytes = 0;
            self.due_ns = now_ns + PAUSE_NS;
            mi_collect(true);
        }
    }
}
