//! Jitter: how much neighbouring times differ.
//!
//! In: round-trip times in the order in which the answers came. Out: the interarrival jitter of RFC
//! 3550 at the end, and the plain mean of the differences that it is made of. The difference of two
//! transit times, which the RFC takes, is here that of two round trips: no clock is shared.
//!
//! Source: RFC 3550, section 6.4.1 and appendix A.8.

use crate::measure::number::float;

/// Of one stream and size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Jitter {
    last_ns: Option<u64>,
    estimate_ns: f64,
    sum_ns: f64,
    count: u64,
}

impl Jitter {
    pub(super) fn add(&mut self, time_ns: u64) {
        if let Some(last_ns) = self.last_ns.replace(time_ns) {
            let difference_ns = float(time_ns.abs_diff(last_ns));
            self.estimate_ns += (difference_ns - self.estimate_ns) / 16.0;
            self.sum_ns += difference_ns;
            self.count += 1;
        }
    }

    /// The mean of the estimates of several streams, and of all their differences.
    pub(super) fn of_all<'a>(streams: impl Iterator<Item = &'a Self>) -> (f64, f64) {
        let streams: Vec<&Self> = streams.filter(|it| it.count > 0).collect();
        let estimates: f64 = streams.iter().fold(0.0, |sum, it| sum + it.estimate_ns);
        let sum: f64 = streams.iter().fold(0.0, |sum, it| sum + it.sum_ns);
        let count: u64 = streams.iter().map(|it| it.count).sum();
        (estimates / float(streams.len().max(1) as u64), sum / float(count.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::Jitter;

    #[test]
    fn it_is_the_rfcs_estimate() {
        let mut jitter = Jitter::default();
        for time_ns in [1_000, 1_160, 1_160] {
            jitter.add(time_ns);
        }
        // 160 / 16 = 10, then 10 - 10 / 16.
        let (estimate, mean) = Jitter::of_all([&jitter, &Jitter::default()].into_iter());
        assert!((estimate - 9.375).abs() < 1e-9 && (mean - 80.0).abs() < 1e-9, "{estimate} {mean}");
        // What always swings by as much has that as its jitter.
        let mut swings = Jitter::default();
        (0..1_000).for_each(|at| swings.add(5_000 + at % 2 * 300));
        assert!((Jitter::of_all([&swings].into_iter()).0 - 300.0).abs() < 1e-6);
        let none = Jitter::of_all(std::iter::empty());
        assert!(none.0.abs() + none.1.abs() < 1e-9);
    }
}
