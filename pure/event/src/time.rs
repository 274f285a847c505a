//! Time as an argument. The engine reads the clocks once a turn and passes the result down; the
//! simulator makes it up. No calendar here: `wire` formats dates where a protocol wants one.

/// The moment at which an input is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Nanoseconds since the process started; never goes back. For deadlines and durations.
    pub mono_ns: u64,
    /// Milliseconds since 1970-01-01 UTC; may jump when the clock is set. For what users see.
    pub unix_ms: u64,
}

impl Now {
    /// Whole seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn unix_s(self) -> u64 {
        self.unix_ms / 1_000
    }

    /// The same moment `ms` milliseconds later, on both clocks; stops at the end of time.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Self {
        Self {
            mono_ns: self.mono_ns.saturating_add(ms.saturating_mul(1_000_000)),
            unix_ms: self.unix_ms.saturating_add(ms),
        }
    }

    /// Milliseconds from `earlier` to this moment by the clock that never goes back; 0 if
    /// `earlier` is later.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.mono_ns.saturating_sub(earlier.mono_ns) / 1_000_000
    }
}

/// Tells how long calls keep their thread from others.
pub trait CallClock {
    /// A call begins; they do not nest.
    fn begin(&mut self);

    /// What the thread has spent since then.
    fn spent(&mut self) -> CallTime;
}

/// What a call has had of its thread's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTime {
    /// Microseconds that the thread computed or was blocked. What it waited for a processor is no part
    /// of it: that is what others do, and would make every call slow on a busy machine. For the same
    /// reason a worker subtracts what its database connection waited for other writers and the disk.
    pub kept_us: u32,
    /// Microseconds that it computed, at least: a part of the first millisecond may be missing.
    pub computed_us: u32,
}

#[cfg(test)]
mod tests {
    use super::Now;

    #[test]
    fn moments_add_up_and_stop_at_the_end_of_time() {
        let start = Now { mono_ns: 5, unix_ms: 1_999 };
        let later = start.after_ms(2);
        assert_eq!(later, Now { mono_ns: 2_000_005, unix_ms: 2_001 });
        assert_eq!((start.unix_s(), later.unix_s()), (1, 2));
        assert_eq!((later.ms_since(start), start.ms_since(later)), (2, 0));
        assert_eq!(Now { mono_ns: 2_000_004, unix_ms: 0 }.ms_since(start), 1);
        let end = Now { mono_ns: u64::MAX, unix_ms: u64::MAX };
        assert_eq!((end.after_ms(1), start.after_ms(u64::MAX)), (end, end));
    }
}
