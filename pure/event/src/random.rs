//! Randomness from a seed: the edge seeds it from the operating system, the simulator from a
//! number. ChaCha with 12 rounds, so ids made from it cannot be guessed from earlier ones.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// A stream of random numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(ChaCha12Rng);

impl Random {
    /// A generator for `seed`, 32 bytes from the operating system or from a test.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    /// A generator for a small test or replay seed.
    #[must_use]
    pub fn from_number(seed: u64) -> Self {
        Self(ChaCha12Rng::seed_from_u64(seed))
    }

    /// A seed for a generator of another thread.
    #[must_use]
    pub fn fork(&mut self) -> [u8; 32] {
        self.bytes()
    }

    /// The next 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 up to but not including `end`; 0 when `end` is 0. Bias below 2⁻³².
    pub fn below(&mut self, end: u32) -> u32 {
        let wide = (self.u64() >> 32) * u64::from(end);
        u32::try_from(wide >> 32).unwrap_or(0)
    }

    /// `N` random bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn same_seed_same_numbers_and_below_stays_below() {
        let (mut a, mut b) = (Random::from_number(7), Random::from_number(7));
        for _ in 0..1_000 {
            assert_eq!(a.u64(), b.u64());
            assert!(a.below(10) < 10);
            assert_eq!(b.below(0), 0);
        }
    }

    #[test]
    fn numbers_differ_and_all_below_the_end_come_as_often() {
        let mut random = Random::from_number(7);
        let mut times = [0; 10];
        (0..10_000).for_each(|_| times[random.below(10) as usize] += 1);
        assert!(times.iter().all(|times| (800..1_200).contains(times)), "{times:?}");
        assert_eq!(random.below(1), 0);
        let (one, other) = (random.fork(), random.fork());
        assert_ne!(one, other);
        let (mut again, mut filled) = (Random::from_seed(one), [0; 32]);
        again.fill(&mut filled);
        assert_eq!(filled, Random::from_seed(one).bytes());
        assert!(filled != one && filled != Random::from_seed(other).bytes());
    }
}
