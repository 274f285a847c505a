//! Which percentiles a distribution has enough values to tell: the 99th of ten values is the
//! slowest of them by another name, and would be read as something that was measured.
//!
//! In: the percentiles of a result, which keeps all of them. Out: those that may be shown.

use super::summary::Percentiles;

/// What stands where there are too few values.
pub(crate) const TOO_FEW: &str = "–";

impl Percentiles {
    /// The 99th percentile in nanoseconds, of a hundred values at least.
    pub(crate) fn p99(&self) -> Option<u64> {
        self.of_at_least(100, self.p99_ns)
    }

    /// The 99.9th, of a thousand at least.
    pub(crate) fn p999(&self) -> Option<u64> {
        self.of_at_least(1_000, self.p999_ns)
    }

    /// The median, the 75th, 90th, 95th, 99th and 99.9th. The median is told of one value too.
    pub(crate) fn told(&self) -> [Option<u64>; 6] {
        [
            self.of_at_least(1, self.p50_ns),
            self.of_at_least(4, self.p75_ns),
            self.of_at_least(10, self.p90_ns),
            self.of_at_least(20, self.p95_ns),
            self.p99(),
            self.p999(),
        ]
    }

    fn of_at_least(&self, count: u64, ns: u64) -> Option<u64> {
        (self.count >= count).then_some(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Percentiles;

    #[test]
    fn a_percentile_is_told_of_as_many_values_as_it_needs() {
        for (count, wanted) in [
            (0, 0),
            (1, 1),
            (3, 1),
            (4, 2),
            (10, 3),
            (20, 4),
            (99, 4),
            (100, 5),
            (999, 5),
            (1_000, 6),
        ] {
            let it = Percentiles { count, ..Percentiles::default() };
            assert_eq!(it.told().iter().flatten().count(), wanted, "{count}");
        }
    }
}
