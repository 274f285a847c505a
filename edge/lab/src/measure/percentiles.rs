//! Distributions of times: recorded without loss of more than three digits, told as percentiles.
//!
//! Which percentiles a distribution has enough values to tell is told here too: the 99th of ten
//! values is the slowest of them by another name, and would be read as something that was measured.
//!
//! In: nanoseconds. Out: histograms that can be added up and sent, percentiles, curves.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number::float;

/// Longest time that a histogram tells apart; longer ones are recorded as this. One hour.
pub(crate) const TIME_NS_MAX: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds with three digits, made when it is first used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Option<Box<Histogram<u64>>>);

impl Times {
    pub(crate) fn record(&mut self, ns: u64, count: u64) {
        if self.0.is_none() {
            // Bounds that the crate accepts: 1 ≤ low, 2 × low ≤ high, 3 digits.
            self.0 = Histogram::new_with_bounds(1, TIME_NS_MAX, 3).ok().map(Box::new);
        }
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record_n(ns, count);
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (_, None) => {}
            (None, Some(_)) => self.0.clone_from(&other.0),
            // Same bounds: cannot fail.
            (Some(mine), Some(theirs)) => drop(mine.add(&**theirs)),
        }
    }

    /// What is left when parts of it are taken away.
    pub(crate) fn without<const PARTS: usize>(&self, parts: [&Self; PARTS]) -> Self {
        let mut rest = self.clone();
        for part in parts {
            if let (Some(rest), Some(part)) = (&mut rest.0, part.histogram()) {
                // Same bounds, and every value of a part has been recorded in the whole too.
                let _ = rest.subtract(part);
            }
        }
        rest
    }

    pub(crate) fn histogram(&self) -> Option<&Histogram<u64>> {
        self.0.as_deref().filter(|histogram| !histogram.is_empty())
    }
}

impl Serialize for Times {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use base64::Engine as _;
        let mut bytes = Vec::new();
        if let Some(histogram) = self.histogram() {
            let written = V2Serializer::new().serialize(histogram, &mut bytes);
            written.map_err(serde::ser::Error::custom)?;
        }
        base64::engine::general_purpose::STANDARD.encode(bytes).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::Engine as _;
        use serde::de::Error as _;
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        let bytes = bytes.map_err(D::Error::custom)?;
        let histogram = Deserializer::new().deserialize(&mut &*bytes);
        Ok(Self(Some(Box::new(histogram.map_err(D::Error::custom)?))))
    }
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub deviation_ns: f64,
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// 99.99th percentile; 0 in results of older versions.
    #[serde(default)]
    pub p9999_ns: u64,
    /// Largest.
    pub max_ns: u64,
}

impl Percentiles {
    /// Of a histogram in nanoseconds.
    #[must_use]
    pub fn of(histogram: Option<&Histogram<u64>>) -> Self {
        let Some(it) = histogram else { return Self::default() };
        Self {
            count: it.len(),
            mean_ns: it.mean(),
            deviation_ns: it.stdev(),
            min_ns: it.min(),
            p50_ns: at_nearest_rank(it, 5_000),
            p75_ns: at_nearest_rank(it, 7_500),
            p90_ns: at_nearest_rank(it, 9_000),
            p95_ns: at_nearest_rank(it, 9_500),
            p99_ns: at_nearest_rank(it, 9_900),
            p999_ns: at_nearest_rank(it, 9_990),
            p9999_ns: at_nearest_rank(it, 9_999),
            max_ns: it.max(),
        }
    }
}

/// The smallest value that so many ten-thousandths of all values do not exceed: their rank is
/// rounded up, in whole numbers. As in HdrHistogram for Java since 2.1.12 and for JavaScript, which allow for
/// the error of a product of floats in another way.
fn at_nearest_rank(histogram: &Histogram<u64>, parts: u64) -> u64 {
    let count = u128::from(histogram.len());
    let rank = u64::try_from((count * u128::from(parts)).div_ceil(10_000)).unwrap_or(u64::MAX);
    // The half keeps the product of a share and the count from being rounded past the rank.
    histogram.value_at_quantile((float(rank) - 0.5) / float(histogram.len()))
}

/// What stands where there are too few values.
pub(crate) const TOO_FEW: &str = "–";

/// Values of which a percentile can be told, at least.
pub(crate) const VALUES_P75: u64 = 4;
pub(crate) const VALUES_P90: u64 = 10;
pub(crate) const VALUES_P95: u64 = 20;
pub(crate) const VALUES_P99: u64 = 100;
pub(crate) const VALUES_P999: u64 = 1_000;
pub(crate) const VALUES_P9999: u64 = 10_000;

impl Percentiles {
    /// The 99th percentile in nanoseconds, of a hundred values at least.
    pub(crate) fn p99(&self) -> Option<u64> {
        self.of_at_least(VALUES_P99, self.p99_ns)
    }

    /// The 99.9th, of a thousand at least.
    pub(crate) fn p999(&self) -> Option<u64> {
        self.of_at_least(VALUES_P999, self.p999_ns)
    }

    /// The 99.99th, of ten thousand at least.
    pub(crate) fn p9999(&self) -> Option<u64> {
        self.of_at_least(VALUES_P9999, self.p9999_ns)
    }

    /// The median, the 75th, 90th, 95th, 99th and 99.9th. The median is told of one value too.
    pub(crate) fn told(&self) -> [Option<u64>; 6] {
        [
            self.of_at_least(1, self.p50_ns),
            self.of_at_least(VALUES_P75, self.p75_ns),
            self.of_at_least(VALUES_P90, self.p90_ns),
            self.of_at_least(VALUES_P95, self.p95_ns),
            self.p99(),
            self.p999(),
        ]
    }

    fn of_at_least(&self, count: u64, ns: u64) -> Option<u64> {
        (self.count >= count).then_some(ns)
    }
}

/// One point of a percentile curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// 0 to 1.
    pub quantile: f64,
    /// Service time.
    pub service_ns: u64,
    /// Response time; 0 in the closed loop.
    pub response_ns: u64,
}

/// Points of a curve: evenly spread over the logarithm of what lies beyond, to five nines.
pub(crate) fn curve(
    service: Option<&Histogram<u64>>,
    response: Option<&Histogram<u64>>,
) -> Vec<CurvePoint> {
    const POINTS: u32 = 75;
    const PER_DECADE: f64 = 15.0;
    let Some(service) = service else { return Vec::new() };
    let value = |quantile: f64| CurvePoint {
        quantile,
        service_ns: service.value_at_quantile(quantile),
        response_ns: response.map_or(0, |it| it.value_at_quantile(quantile)),
    };
    let points = (0..=POINTS).map(|index| value(1.0 - 10_f64.powf(-f64::from(index) / PER_DECADE)));
    // Quantiles beyond the number of values only repeat the largest.
    points.take_while(|point| (1.0 - point.quantile) * float(service.len()) >= 0.5).collect()
}

/// Times by the tenth of a decade that they lie in.
pub(crate) fn heat(times: Option<&Histogram<u64>>) -> Vec<(u16, u64)> {
    let mut heat = BTreeMap::new();
    for value in times.into_iter().flat_map(Histogram::iter_recorded) {
        let tenth = float(value.value_iterated_to().max(1)).log10() * 10.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 130")]
        let tenth = tenth as u16;
        *heat.entry(tenth).or_default() += value.count_since_last_iteration();
    }
    heat.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::{Percentiles, Times};

    #[test]
    fn times_keep_three_digits_and_are_never_lost() {
        let mut times = Times::default();
        for ns in [0, 1, 123_456, u64::MAX] {
            times.record(ns, 2);
        }
        let mut sum = Times::default();
        sum.add(&times);
        sum.add(&times);
        let histogram = sum.histogram().unwrap();
        assert_eq!(histogram.len(), 16);
        assert!((123_400..=123_600).contains(&histogram.value_at_quantile(0.75)));
    }

    #[test]
    fn ranks_of_percentiles_are_rounded_up_and_exact() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 5).unwrap();
        for value in 1..=5_000 {
            histogram.record(value).unwrap();
            let it = Percentiles::of(Some(&histogram));
            let found =
                [it.p50_ns, it.p75_ns, it.p90_ns, it.p95_ns, it.p99_ns, it.p999_ns, it.p9999_ns];
            let rank = |parts: u64| (value * parts).div_ceil(10_000);
            let wanted = [5_000, 7_500, 9_000, 9_500, 9_900, 9_990, 9_999].map(rank);
            assert_eq!(found, wanted, "{value}");
        }
    }

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
