//! The buckets of a histogram: a number of them, or bounds that somebody cares about.
//!
//! In: what was asked for, and times with three digits. Out: how many times lie in each bucket. As
//! many as asked for share the range of the times evenly by ratio and not by difference: of most
//! distributions all but one of even buckets would be empty.

use std::str::FromStr;

use hdrhistogram::Histogram;

use crate::load::PingBucket;
use crate::measure::Span;
use crate::measure::number::float;

/// Buckets, at most.
pub(super) const BUCKETS_MAX: usize = 100;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// So many, as the times want it.
    Count(usize),
    /// Ends of all but the last one, rising, in nanoseconds.
    Bounds(Vec<u64>),
}

impl Default for Buckets {
    fn default() -> Self {
        Self::Count(20)
    }
}

/// Why a text does not say buckets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBuckets {
    /// Neither a number nor bounds.
    #[error(
        "`{0}` is neither a number of buckets (2 to {BUCKETS_MAX}) nor rising bounds: write 20, or \
         0.05,0.1,1ms (milliseconds without a unit)"
    )]
    Form(String),
}

impl FromStr for Buckets {
    type Err = BadBuckets;

    fn from_str(text: &str) -> Result<Self, BadBuckets> {
        let bad = || BadBuckets::Form(text.to_owned());
        if let Ok(count) = text.parse::<usize>() {
            return if (2..=BUCKETS_MAX).contains(&count) {
                Ok(Self::Count(count))
            } else {
                Err(bad())
            };
        }
        let bound = |word: &str| {
            let word = word.trim();
            let has_unit = word.ends_with(char::is_alphabetic);
            let word = if has_unit { word.to_owned() } else { format!("{word}ms") };
            word.parse::<Span>().map(Span::ns).map_err(|_| bad())
        };
        let bounds = text.split(',').map(bound).collect::<Result<Vec<_>, _>>()?;
        let is_rising = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        let is_well = is_rising && bounds.first() > Some(&0) && bounds.len() < BUCKETS_MAX;
        if is_well { Ok(Self::Bounds(bounds)) } else { Err(bad()) }
    }
}

impl Buckets {
    /// How many of the times lie in each. A time lies in the bucket of the value that it was
    /// recorded as, which differs from it by a thousandth at most.
    #[must_use]
    pub fn of(&self, times: Option<&Histogram<u64>>) -> Vec<PingBucket> {
        let Some(times) = times else { return Vec::new() };
        let bounds = match self {
            Self::Bounds(bounds) => bounds.clone(),
            Self::Count(count) => {
                // More buckets than times would be empty ones.
                let most = usize::try_from(times.len()).unwrap_or(usize::MAX);
                even((*count).min(most.max(2)), times.min().max(1), times.max().max(1))
            }
        };
        let ends = bounds.iter().map(|end| Some(*end)).chain([None]);
        let mut buckets: Vec<PingBucket> = Vec::new();
        for until_ns in ends {
            let above_ns = buckets.last().and_then(|it| it.until_ns).unwrap_or(0);
            buckets.push(PingBucket { above_ns, until_ns, count: 0 });
        }
        for value in times.iter_recorded() {
            let ns = times.lowest_equivalent(value.value_iterated_to());
            let place = bounds.partition_point(|end| *end < ns);
            if let Some(bucket) = buckets.get_mut(place) {
                bucket.count += value.count_since_last_iteration();
            }
        }
        buckets
    }
}

/// Ends of all but the last of `count` buckets between two times.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two times")]
#[expect(clippy::cast_precision_loss, reason = "a hundred at most")]
fn even(count: usize, min_ns: u64, max_ns: u64) -> Vec<u64> {
    let ratio = float(max_ns) / float(min_ns);
    let end = |index: usize| float(min_ns) * ratio.powf(index as f64 / count as f64);
    let mut ends: Vec<u64> = (1..count).map(|index| end(index).round() as u64).collect();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::Buckets;

    fn times(values: &[u64]) -> Histogram<u64> {
        let mut times = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in values {
            times.record(*value).unwrap();
        }
        times
    }

    #[test]
    fn bounds_are_kept_and_every_time_lies_somewhere() {
        let buckets: Buckets = "0.05,0.1,1ms,2s".parse().unwrap();
        let found = buckets.of(Some(&times(&[1_000, 50_000, 60_000, 900_000, 5_000_000_000])));
        let told: Vec<_> = found.iter().map(|it| (it.until_ns, it.count)).collect();
        let wanted = [
            (Some(50_000), 2),
            (Some(100_000), 1),
            (Some(1_000_000), 1),
            (Some(2_000_000_000), 0),
            (None, 1),
        ];
        assert_eq!(told, wanted);
        assert_eq!(found[1].above_ns, 50_000);
    }

    #[test]
    fn even_buckets_hold_everything_whatever_the_range() {
        for values in [&[1][..], &[7, 7, 7], &[1_000, 2_000, 1_000_000_000], &[999, 1_000]] {
            for count in [2, 20, 100] {
                let found = Buckets::Count(count).of(Some(&times(values)));
                let sum: u64 = found.iter().map(|it| it.count).sum();
                assert_eq!(sum, values.len() as u64, "{values:?}");
                assert!(found.len() <= count && !found.is_empty());
            }
        }
        assert!(Buckets::default().of(None).is_empty());
    }

    #[test]
    fn mistakes_are_told() {
        for text in ["", "1", "101", "2,1", "0,1", "a", "1ms,x"] {
            assert!(text.parse::<Buckets>().is_err(), "{text}");
        }
    }
}
