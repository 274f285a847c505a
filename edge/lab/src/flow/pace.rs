//! When a sender may send: at a rate, or at once.
//!
//! In: a rate and the time. Out: how many are due, and how long until the next is. What a sender could
//! not send in time is given up and counted, so that a machine that stood still does not flood the
//! path afterwards.

use std::time::Duration;

use crate::measure::number::float;

/// Debt of a schedule that is kept: what is older is given up.
const DEBT_MAX: Duration = Duration::from_millis(100);

/// A schedule of one sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// None: at once.
    interval_ns: Option<f64>,
    /// What is given up was not asked for.
    is_ceiling: bool,
    /// Since the schedule began: sent, or given up.
    gone: u64,
    missed: u64,
    /// When it began.
    from_ns: Option<u64>,
}

impl Pace {
    /// So many a second; none is as fast as can be.
    pub(crate) fn new(per_s: Option<f64>) -> Self {
        let interval_ns = per_s.filter(|per_s| *per_s > 0.0).map(|per_s| 1e9 / per_s);
        Self { interval_ns, is_ceiling: false, gone: 0, missed: 0, from_ns: None }
    }

    /// As fast as can be, but not faster than so many a second.
    pub(crate) fn at_most(per_s: f64) -> Self {
        Self { is_ceiling: true, ..Self::new(Some(per_s)) }
    }

    /// How many are due, `most` at most.
    pub(crate) fn due(&mut self, now_ns: u64, most: u64) -> u64 {
        let Some(interval_ns) = self.interval_ns else { return most };
        let from_ns = *self.from_ns.get_or_insert(now_ns);
        let due = whole(float(now_ns.saturating_sub(from_ns)) / interval_ns).saturating_add(1);
        let debt_max = whole(float(ns(DEBT_MAX)) / interval_ns).max(most);
        let debt = due.saturating_sub(self.gone);
        let given_up = debt.saturating_sub(debt_max);
        self.gone += given_up;
        self.missed += given_up;
        (debt - given_up).min(most)
    }

    /// Takes note of what was sent.
    pub(crate) fn sent(&mut self, count: u64) {
        self.gone = self.gone.saturating_add(count);
    }

    /// How long until the next is due.
    pub(crate) fn wait(&self, now_ns: u64) -> Duration {
        let (Some(interval_ns), Some(from_ns)) = (self.interval_ns, self.from_ns) else {
            return Duration::ZERO;
        };
        let due_ns = from_ns.saturating_add(whole(float(self.gone) * interval_ns));
        Duration::from_nanos(due_ns.saturating_sub(now_ns))
    }

    /// Due, and given up until now.
    pub(crate) fn missed(&self) -> u64 {
        if self.is_ceiling { 0 } else { self.missed }
    }
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut to what there is")]
fn whole(number: f64) -> u64 {
    number.clamp(0.0, 1e18) as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Pace;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_due_is_what_the_rate_says() {
        let mut pace = Pace::new(Some(1_000.0));
        let mut sent = 0;
        for ms in 0..1_000 {
            let due = pace.due(5 * MS + ms * MS, 64);
            pace.sent(due);
            sent += due;
        }
        assert_eq!((sent, pace.missed()), (1_000, 0));
        assert_eq!(pace.due(5 * MS + 999 * MS + MS / 2, 64), 0);
        assert_eq!(pace.wait(5 * MS + 999 * MS + MS / 2), Duration::from_micros(500));
    }

    #[test]
    fn a_sender_that_stood_still_does_not_flood() {
        let mut pace = Pace::new(Some(10_000.0));
        assert_eq!(pace.due(0, 8), 1);
        pace.sent(1);
        // Two seconds later twenty thousand are due, of which a thousand are kept.
        assert_eq!(pace.due(2_000 * MS, 8), 8);
        assert_eq!(pace.missed(), 19_000);
    }

    #[test]
    fn without_a_rate_everything_is_due() {
        let mut pace = Pace::new(None);
        assert_eq!((pace.due(0, 64), pace.wait(0)), (64, Duration::ZERO));
    }
}
