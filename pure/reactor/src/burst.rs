//! Memory that large answers have left behind: the allocator keeps it for the thread's next ones,
//! and a thread that has become quiet has none. Decides when it is worth giving back; a driver does
//! it ([`crate::Driver::trim_memory`]).

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

    /// Whether it is to be given back now that all is sent; counts anew then.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let is_now = self.is_due() && now_ns >= self.due_ns;
        if is_now {
            self.bytes = 0;
            self.due_ns = now_ns + PAUSE_NS;
        }
        is_now
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST_BYTES_MIN, Burst, PAUSE_NS};

    #[test]
    fn only_large_pieces_count_and_giving_back_has_pauses() {
        let mut burst = Burst::default();
        (0..10_000).for_each(|_| burst.note(10_000));
        assert!(!burst.take(0), "small pieces leave nothing behind");
        burst.note(usize::try_from(BURST_BYTES_MIN).unwrap());
        assert!(burst.take(1) && !burst.take(1));
        burst.note(usize::try_from(BURST_BYTES_MIN).unwrap());
        assert!(!burst.take(PAUSE_NS) && burst.take(PAUSE_NS + 1));
    }
}
