//! How long the calls of a function are for callers alone, once one of them needed a caller: for a second, because
//! a machine that keeps a thread from its processor makes any call an overrun now and then; for a
//! minute if that happens again within the minute after its calls came back.
//!
//! A call that needs a caller elsewhere has kept others waiting for a slice. So a function that turns slow on
//! purpose costs them two slices within a second, and one a minute from then on. Straight to a minute rather
//! than twice as long each time: that would let it cost six slices first, and needs a length where this needs a bit.
//!
//! Two know of it, each by itself: a core of the calls that it hands out (`limits::Functions`), and the
//! batcher of those that it is sent by cores that do not know yet (`worker::batched`).

use event::Now;

/// For the first time.
pub(super) const FIRST_MS: u64 = 1_000;
/// For each further time, if it is within [`REMEMBERED_MS`].
pub(super) const AGAIN_MS: u64 = 60_000;
/// For so long after its calls came back it is a further time.
pub(super) const REMEMBERED_MS: u64 = 60_000;

/// Until when calls of one function are for callers alone; by default nothing keeps them there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallersOnly {
    /// 0: no call has needed a caller.
    until_ns: u64,
    /// It has happened again.
    is_repeated: bool,
}

impl CallersOnly {
    /// A call needed a caller. While its calls are for callers alone anyway, that is no further time: such
    /// calls were on their way when the first one was noted, or have been run by a caller. They make it as
    /// long again from now.
    pub(crate) fn note(&mut self, now: Now) {
        if !self.holds(now) {
            self.is_repeated = self.is_remembered(now);
        }
        let ms = if self.is_repeated { AGAIN_MS } else { FIRST_MS };
        self.until_ns = now.after_ms(ms).mono_ns;
    }

    /// Whether calls are for callers alone now.
    pub(crate) fn holds(&self, now: Now) -> bool {
        now.mono_ns < self.until_ns
    }

    /// Whether a call that needs a caller now is a further one.
    pub(crate) fn is_remembered(&self, now: Now) -> bool {
        let forgotten_ns = self.until_ns.saturating_add(REMEMBERED_MS * 1_000_000);
        self.until_ns != 0 && now.mono_ns < forgotten_ns
    }
}

#[cfg(test)]
mod tests {
    use event::Now;

    use super::CallersOnly;

    /// That it is noted now, and holds for so long.
    fn note(function: &mut CallersOnly, now: Now, kept_ms: u64) {
        function.note(now);
        let (last, after) = (now.after_ms(kept_ms - 1), now.after_ms(kept_ms));
        assert!(function.holds(now) && function.holds(last) && !function.holds(after), "{now:?}");
    }

    #[test]
    fn a_second_first_and_a_minute_for_what_happens_again_within_a_minute() {
        let (mut function, mut now) = (CallersOnly::default(), Now::default());
        assert!(!function.holds(now) && !function.is_remembered(now), "nothing has happened");
        note(&mut function, now, 1_000);
        let mut kept_ms = 1_000;
        for (back_ms, again_ms) in [(0, 60_000), (59_999, 60_000), (0, 60_000), (60_000, 1_000)] {
            now = now.after_ms(kept_ms + back_ms);
            note(&mut function, now, again_ms);
            kept_ms = again_ms;
        }
    }

    #[test]
    fn what_was_on_its_way_is_no_further_time() {
        let (mut function, start) = (CallersOnly::default(), Now::default());
        for ms in [0, 5, 999] {
            note(&mut function, start.after_ms(ms), 1_000);
        }
        let again = start.after_ms(999 + 1_000);
        note(&mut function, again, 60_000);
        note(&mut function, again.after_ms(30_000), 60_000);
    }
}
