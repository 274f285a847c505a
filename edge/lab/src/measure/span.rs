//! Lengths of time as people write them: `250ms`, `10s`, `2m`, `1h`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::Error as _;

/// Seconds of a [`Span`], at most: 30 days.
const SPAN_S_MAX: f64 = 30.0 * 86_400.0;
/// A length of time, written `250ms`, `10s`, `2m` or `1h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// In nanoseconds; 584 years are the end.
    #[must_use]
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpan {
    /// Not a number with a unit.
    #[error("`{0}` is not a length of time: write 250ms, 10s, 2m or 1h")]
    Form(String),
    /// Longer than `SPAN_S_MAX`.
    #[error("`{0}` is too long: {max} h are the most", max = SPAN_S_MAX / 3_600.0)]
    TooLong(String),
}

impl std::str::FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan::Form(text.to_owned());
        let digits =
            text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let unit_s = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err(bad()),
        };
        let seconds = number * unit_s;
        if !(0.0..=SPAN_S_MAX).contains(&seconds) {
            return Err(BadSpan::TooLong(text.to_owned()));
        }
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
