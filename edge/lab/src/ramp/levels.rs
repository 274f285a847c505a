//! Which numbers of servers are measured, and in which order.

use crate::measure::arrivals::Stream;

/// The numbers to begin with: doubled up to 8, then with one between.
pub(super) fn usual(most: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = 1_u32;
    while next < most {
        all.push(next);
        if next >= 8 {
            all.push(next + next / 2);
        }
        next = next.saturating_mul(2);
    }
    all.push(most);
    all.retain(|it| *it <= most);
    all.sort_unstable();
    all.dedup();
    all
}

/// A number between one that passes and one that fails, if they are further apart than an eighth.
pub(super) fn between(passes: u32, fails: u32) -> Option<u32> {
    let distance = fails.checked_sub(passes)?;
    (distance > 1 && distance > passes / 8).then(|| passes + distance / 2)
}

/// All numbers in an order drawn from a seed. Source: Fisher and Yates, as Knuth has it.
pub(super) fn shuffled(mut all: Vec<u32>, stream: &mut Stream) -> Vec<u32> {
    for end in (1..all.len()).rev() {
        let other = stream.below(u32::try_from(end + 1).unwrap_or(u32::MAX));
        all.swap(end, other as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{between, shuffled, usual};
    use crate::measure::arrivals::Stream;

    #[test]
    fn numbers_grow_to_the_most() {
        assert_eq!(usual(1), [1]);
        assert_eq!(usual(2), [1, 2]);
        assert_eq!(usual(30), [1, 2, 4, 8, 12, 16, 24, 30]);
        assert_eq!(usual(64), [1, 2, 4, 8, 12, 16, 24, 32, 48, 64]);
    }

    #[test]
    fn what_lies_between_is_looked_for_until_it_is_near() {
        assert_eq!((between(1, 2), between(2, 4), between(16, 24)), (None, Some(3), Some(20)));
        assert_eq!((between(16, 18), between(64, 70), between(8, 8)), (None, None, None));
        assert_eq!((between(0, 1), between(5, 4)), (None, None));
    }

    #[test]
    fn an_order_is_its_seeds() {
        let of = |seed| shuffled((1..=20).collect(), &mut Stream::new(seed, 0));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let mut all = of(3);
        all.sort_unstable();
        assert_eq!(all, (1..=20).collect::<Vec<_>>());
    }
}
