//! A stream of random numbers in eight bytes, so that each virtual player has its own: what it does
//! depends on the seed and its number, not on who was served first.
//!
//! In: a seed and a number. Out: distances, shares and think times. Nothing secret is made from it.
//! Source: SplitMix64, Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
//! 2014.

use serde::Deserialize;

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    /// At equal distances. Whatever the server does at equal distances too (the ticks of a match)
    /// always finds it at the same place then: many samples may be one.
    Constant,
    /// As independent players come: exponential distances.
    #[default]
    Poisson,
}

/// One player's, or the arrivals'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream of this number under a run's seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        // Two rounds apart: streams of neighbours would be one another's continuation otherwise.
        let mut of_number = Self(number);
        Self(seed ^ of_number.u64())
    }

    fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to but not including 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float has")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to but not including `end`, which is above 0.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        let share = (u64::from(end) * (self.u64() >> 32)) >> 32;
        u32::try_from(share).unwrap_or(0)
    }

    /// From `min_ns` up to but not including `max_ns`; `min_ns` when there is nothing between.
    pub(crate) fn between_ns(&mut self, min_ns: u64, max_ns: u64) -> u64 {
        let range_ns = u128::from(max_ns.saturating_sub(min_ns));
        let share_ns = (range_ns * u128::from(self.u64() >> 32)) >> 32;
        min_ns.saturating_add(u64::try_from(share_ns).unwrap_or(0))
    }

    /// The distance to the next arrival or beat.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub(crate) fn gap_ns(&mut self, process: Process, mean_ns: f64) -> u64 {
        let gap = match process {
            Process::Constant => mean_ns,
            // 1 less it is in (0, 1].
            Process::Poisson => -mean_ns * (1.0 - self.unit()).ln(),
        };
        gap.clamp(1.0, 1e18) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, Stream};

    #[test]
    fn a_stream_is_its_seeds_and_its_numbers() {
        let of = |seed, number| {
            let mut stream = Stream::new(seed, number);
            [(); 4].map(|()| stream.u64())
        };
        assert_eq!(of(7, 1), of(7, 1));
        for other in [of(7, 2), of(8, 1), of(1, 7)] {
            assert!(other.iter().all(|it| !of(7, 1).contains(it)));
        }
    }

    #[test]
    fn distances_have_their_mean_and_shares_their_bounds() {
        let mut stream = Stream::new(1, 1);
        let sum: u64 = (0..100_000).map(|_| stream.gap_ns(Process::Poisson, 1e6)).sum();
        assert!((99_000_000_000..101_000_000_000).contains(&sum), "{sum}");
        assert_eq!(stream.gap_ns(Process::Constant, 5.0), 5);
        assert!((0..1_000).all(|_| (10..20).contains(&stream.between_ns(10, 20))));
        assert!((0..1_000).all(|_| stream.below(3) < 3));
        assert_eq!((stream.between_ns(5, 5), stream.between_ns(9, 2)), (5, 9));
    }
}
