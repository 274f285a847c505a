//! Wrong passwords and tokens: after so many of an account or an address within a time, the same time
//! passes before another is looked at. Owned by one thread, or behind a lock.
//!
//! Source: Nakama 3.40, `server/login_attempt_cache.go`, where it guards the console; the numbers
//! are its own. There every attempt has its own time; here a period begins with its first attempt,
//! so that an account costs the same however often it is tried.

use std::collections::BTreeMap;

use crate::Now;

/// Accounts and addresses that are remembered. When there are more, those go first whose period
/// ends first: an attacker who wants an account forgotten has to fail at all others meanwhile.
const REMEMBERED_MAX: usize = 65_536;

/// How many failures are too many, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Failures; 0 is off.
    pub failures: u32,
    /// The period in which they count, and the lockout, in seconds.
    pub period_s: u32,
}

/// Failures of late, by account or by address.
#[derive(Debug)]
pub struct Attempts {
    allowed: Allowed,
    /// By key: when the period or lockout ends, and the failures in it.
    failed: BTreeMap<u128, (u64, u32)>,
    by_end: std::collections::BTreeSet<(u64, u128)>,
}

impl Attempts {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(allowed: Allowed) -> Self {
        Self { allowed, failed: BTreeMap::new(), by_end: std::collections::BTreeSet::new() }
    }

    /// Seconds until another password may be tried, from 1; `None` if it may be now. Key 0 always
    /// may.
    #[must_use]
    pub fn locked_s(&self, now: Now, key: u128) -> Option<u32> {
        if self.allowed.failures == 0 || key == 0 {
            return None;
        }
        let (until_ns, failures) = self.failed.get(&key)?;
        let left_ns = until_ns.saturating_sub(now.mono_ns);
        let is_locked = left_ns > 0 && *failures >= self.allowed.failures;
        is_locked.then(|| u32::try_from(left_ns.div_ceil(1_000_000_000)).unwrap_or(u32::MAX))
    }

    /// A password was wrong.
    pub fn fail(&mut self, now: Now, key: u128) {
        if self.allowed.failures == 0 || key == 0 {
            return;
        }
        let period_ns = u64::from(self.allowed.period_s).saturating_mul(1_000_000_000);
        let (mut until_ns, mut failures) = self.forget(key).unwrap_or_default();
        if now.mono_ns >= until_ns {
            (until_ns, failures) = (now.mono_ns.saturating_add(period_ns), 0);
        }
        failures += 1;
        if failures >= self.allowed.failures {
            until_ns = now.mono_ns.saturating_add(period_ns);
        }
        if self.failed.len() >= REMEMBERED_MAX
            && let Some((_, oldest)) = self.by_end.pop_first()
        {
            self.failed.remove(&oldest);
        }
        self.failed.insert(key, (until_ns, failures));
        self.by_end.insert((until_ns, key));
    }

    /// A password was right: an account's failures count no more.
    pub fn succeed(&mut self, key: u128) {
        self.forget(key);
    }

    fn forget(&mut self, key: u128) -> Option<(u64, u32)> {
        let known = self.failed.remove(&key)?;
        self.by_end.remove(&(known.0, key));
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowed, Attempts, REMEMBERED_MAX};
    use crate::Now;

    #[test]
    fn an_account_is_locked_for_a_period_after_its_failures() {
        let mut attempts = Attempts::new(Allowed { failures: 5, period_s: 60 });
        let start = Now::default();
        for at_ms in [0, 10_000, 20_000, 30_000] {
            attempts.fail(start.after_ms(at_ms), 7);
            assert!(attempts.locked_s(start.after_ms(at_ms), 7).is_none());
        }
        attempts.fail(start.after_ms(40_000), 7);
        let left_s = [40_000, 40_001, 98_999, 99_000, 99_999, 100_000]
            .map(|at_ms| attempts.locked_s(start.after_ms(at_ms), 7));
        assert_eq!(left_s, [Some(60), Some(60), Some(2), Some(1), Some(1), None]);
        assert!(attempts.locked_s(start, 8).is_none());
        // What was before does not count any more.
        attempts.fail(start.after_ms(100_000), 7);
        assert!(attempts.locked_s(start.after_ms(100_000), 7).is_none());
        for _ in 0..4 {
            attempts.fail(start.after_ms(100_000), 7);
        }
        assert!(attempts.locked_s(start.after_ms(100_000), 7).is_some());
        attempts.succeed(7);
        assert!(attempts.locked_s(start.after_ms(100_000), 7).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_can_be_off() {
        let mut attempts = Attempts::new(Allowed { failures: 1, period_s: 60 });
        for key in 1..=REMEMBERED_MAX as u128 + 10 {
            attempts.fail(Now::default().after_ms(1), key);
        }
        assert_eq!(
            (attempts.failed.len(), attempts.by_end.len()),
            (REMEMBERED_MAX, REMEMBERED_MAX)
        );
        attempts.fail(Now::default(), 0);
        assert!(attempts.locked_s(Now::default(), 0).is_none(), "nobody is key 0");
        let mut off = Attempts::new(Allowed { failures: 0, period_s: 60 });
        off.fail(Now::default(), 7);
        assert!(off.locked_s(Now::default(), 7).is_none());
    }
}
