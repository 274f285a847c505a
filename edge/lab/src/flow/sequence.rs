//! Which datagrams of a lane have come: by the number in each, what is missing, what came twice, what
//! came late.
//!
//! In: numbers as they come, and whether each counts. Out: counts. Numbers are remembered for a window;
//! what comes from before it cannot be told from a double, and is counted apart.

/// Numbers that are remembered, behind the highest.
const WINDOW: u64 = 1 << 16;
const WORDS: usize = 1 << 10;

/// What has come of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// A bit for each number of the window; `number % WINDOW` is its place.
    bits: Box<[u64; WORDS]>,
    /// The highest number, and one more.
    next: u64,
    counts: Counts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That came, each once.
    pub(crate) came: u64,
    /// Of these, those that count.
    pub(crate) counted: u64,
    /// Of those that count, that came again.
    pub(crate) doubled: u64,
    /// Of those that count, that came after a later one.
    pub(crate) reordered: u64,
    /// From before the window.
    pub(crate) old: u64,
    /// Numbers that were skipped and have not come since.
    pub(crate) missing: u64,
}

impl Sequence {
    pub(crate) fn new() -> Self {
        Self { bits: Box::new([0; WORDS]), next: 0, counts: Counts::default() }
    }

    /// Takes note of a datagram.
    pub(crate) fn take(&mut self, number: u64, counts: bool) {
        if number >= self.next {
            self.skip_to(number);
        } else if self.next - number > WINDOW {
            self.counts.old += 1;
            return;
        } else if self.is_set(number) {
            self.counts.doubled += u64::from(counts);
            return;
        } else {
            self.counts.reordered += u64::from(counts);
            self.counts.missing = self.counts.missing.saturating_sub(1);
        }
        self.set(number, true);
        self.counts.came += 1;
        self.counts.counted += u64::from(counts);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Makes this number the highest: what lies between was skipped.
    fn skip_to(&mut self, number: u64) {
        let skipped = number - self.next;
        if skipped >= WINDOW {
            self.bits.fill(0);
        } else {
            for skipped in self.next..number {
                self.set(skipped, false);
            }
        }
        self.counts.missing = self.counts.missing.saturating_add(skipped);
        self.next = number.saturating_add(1);
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        (usize::try_from(bit / 64).unwrap_or(0), 1 << (bit % 64))
    }

    fn is_set(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.bits[word] & bit != 0
    }

    fn set(&mut self, number: u64, is_on: bool) {
        let (word, bit) = Self::place(number);
        if is_on {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use event::Random;

    use super::{Counts, Sequence, WINDOW};

    fn counts(numbers: &[u64]) -> Counts {
        let mut sequence = Sequence::new();
        numbers.iter().for_each(|number| sequence.take(*number, true));
        sequence.counts()
    }

    #[test]
    fn what_is_missing_doubled_and_late_is_told_apart() {
        for (numbers, came, doubled, reordered, missing) in [
            (&[][..], 0, 0, 0, 0),
            (&[0, 1, 2], 3, 0, 0, 0),
            (&[0, 2, 1], 3, 0, 1, 0),
            (&[0, 3], 2, 0, 0, 2),
            (&[0, 3, 1, 1], 3, 1, 1, 1),
            (&[5, 5, 5], 1, 2, 0, 5),
            // A whole window later the places are free again.
            (&[0, WINDOW, WINDOW + 1], 3, 0, 0, WINDOW - 1),
            (&[0, WINDOW - 1, 1], 3, 0, 1, WINDOW - 3),
        ] {
            let it = counts(numbers);
            let found = (it.came, it.doubled, it.reordered, it.missing);
            assert_eq!(found, (came, doubled, reordered, missing), "{numbers:?}");
        }
        let old = counts(&[3 * WINDOW, 5]);
        assert_eq!((old.old, old.came), (1, 1));
        // A stranger may say any number.
        let far = counts(&[u64::MAX - 1, 0, u64::MAX - 2, u64::MAX]);
        assert_eq!((far.old, far.reordered), (1, 1));
    }

    #[test]
    fn it_agrees_with_a_set_of_all_that_came() {
        let mut random = Random::from_number(7);
        for _ in 0..50 {
            let (mut sequence, mut seen) = (Sequence::new(), BTreeSet::new());
            let (mut doubled, mut counted) = (0, 0);
            for at in 0..2_000_u64 {
                // Near the present, so that nothing is older than the window.
                let (ahead, behind) = (u64::from(random.below(60)), u64::from(random.below(60)));
                let number = (at + ahead).saturating_sub(behind);
                let counts = random.below(2) == 0;
                sequence.take(number, counts);
                if seen.insert(number) {
                    counted += u64::from(counts);
                } else {
                    doubled += u64::from(counts);
                }
            }
            let it = sequence.counts();
            let came = seen.len() as u64;
            let missing = seen.last().map_or(0, |last| last + 1) - came;
            assert_eq!((it.came, it.doubled, it.counted), (came, doubled, counted));
            assert_eq!((it.missing, it.old), (missing, 0));
        }
    }
}
