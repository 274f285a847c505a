//! Whether a peer takes what waits for it: an eighth of it, or 16 KiB, or all, within a time. So a peer
//! that takes a byte now and then keeps nothing for long.
//!
//! What is done to one that does not is the caller's. Data comes in as the moment, the bytes that wait and
//! the bytes ever taken, and goes out as a yes or no.

/// What a peer must take in time, unless less waits for it.
const PROGRESS_BYTES_MIN: u64 = 16 << 10;
/// Or this part of what waits, if that is more: so that no peer keeps much for long.
const PROGRESS_PART: u64 = 8;

/// What one peer is to have taken, and since when it is watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    watch: Option<(u64, u64)>,
}

impl Progress {
    /// Whether the peer has taken too little since this was first asked, or since it last had taken
    /// enough. To be asked now and then. `waiting`, `taken`: bytes that wait now, and that it has ever
    /// taken.
    #[inline]
    pub fn is_stalled(
        &mut self,
        now_ns: u64,
        patience_ns: u64,
        (waiting, taken): (u64, u64),
    ) -> bool {
        match self.watch {
            Some((since_ns, goal)) if taken < goal => {
                now_ns.saturating_sub(since_ns) >= patience_ns
            }
            _ => {
                let progress = waiting.min(PROGRESS_BYTES_MIN.max(waiting / PROGRESS_PART));
                self.watch = Some((now_ns, taken + progress));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn an_eighth_or_16_kib_or_all_is_progress() {
        for (waiting, enough) in [(1 << 20, 1 << 17), (100_000, 16 << 10), (5, 5)] {
            let mut progress = Progress::default();
            let mut stalled = |now_ns, taken: u64| {
                progress.is_stalled(now_ns, 100, (waiting - taken.min(waiting), taken))
            };
            assert!(!stalled(0, 0) && !stalled(99, enough - 1), "{waiting}");
            assert!(stalled(100, enough - 1) && !stalled(100, enough), "{waiting}");
        }
        let mut progress = Progress::default();
        let idle = (0..10).map(|tenths| progress.is_stalled(tenths * 100, 100, (0, 7)));
        assert!(!idle.fold(false, |any, one| any | one), "nothing waits");
    }
}
