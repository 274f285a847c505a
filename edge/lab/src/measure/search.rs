//! The search for the highest value at which something holds: doubled until it does not, then the
//! gap is halved on a logarithmic scale.
//!
//! In: whether it held at the value that was asked about. Out: the next value, until the gap is
//! narrow enough or the tries are used up.

/// Tries, at most: from 1 to 2³² and back to a twentieth of a doubling.
const TRIES_MAX: u32 = 40;
/// How many times the first value is halved when not even that holds.
const HALVINGS_MAX: u32 = 10;

/// A search that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    next: f64,
    /// The highest at which it held, the lowest at which it did not.
    held: Option<f64>,
    failed: Option<f64>,
    most: f64,
    /// The gap that is narrow enough, as a factor.
    gap: f64,
    tries: u32,
}

impl Search {
    /// Begins at `first`, goes no higher than `most`, and ends when the two bounds are `percent` of
    /// one another apart.
    #[must_use]
    pub fn new(first: f64, most: f64, percent: f64) -> Self {
        let gap = 1.0 + percent / 100.0;
        Self { next: first.min(most), held: None, failed: None, most, gap, tries: 0 }
    }

    /// The value to try now; none when the search is over.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        let is_narrow = matches!((self.held, self.failed), (Some(held), Some(failed))
            if failed <= held * self.gap);
        let is_top = self.held.is_some_and(|held| held >= self.most);
        let is_hopeless = self.held.is_none() && self.tries > HALVINGS_MAX;
        (!is_narrow && !is_top && !is_hopeless && self.tries < TRIES_MAX).then_some(self.next)
    }

    /// Takes note of whether it held at [`Self::next`].
    pub fn tell(&mut self, has_held: bool) {
        self.tries += 1;
        if has_held {
            self.held = Some(self.next);
        } else {
            self.failed = Some(self.next);
        }
        self.next = match (self.held, self.failed) {
            (Some(held), Some(failed)) => (held * failed).sqrt(),
            (Some(held), None) => (held * 2.0).min(self.most),
            (None, Some(failed)) => failed / 2.0,
            (None, None) => self.next,
        };
    }

    /// The highest value at which it held, and the lowest at which it did not.
    #[must_use]
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        (self.held, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::Search;

    fn find(first: f64, most: f64, holds: impl Fn(f64) -> bool) -> (Option<f64>, Option<f64>, u32) {
        let mut search = Search::new(first, most, 5.0);
        let mut tries = 0;
        while let Some(at) = search.next() {
            search.tell(holds(at));
            tries += 1;
        }
        let (held, failed) = search.bounds();
        (held, failed, tries)
    }

    #[test]
    fn the_bounds_close_in_from_wherever_the_search_begins() {
        for first in [1.0, 100.0, 700.0, 90_000.0] {
            let (held, failed, tries) = find(first, 1e6, |at| at <= 1_234.0);
            let (held, failed) = (held.unwrap(), failed.unwrap());
            assert!(
                held <= 1_234.0 && failed > 1_234.0 && failed <= held * 1.05,
                "{held} {failed}"
            );
            assert!(tries < 20, "{first}: {tries}");
        }
    }

    #[test]
    fn what_always_or_never_holds_comes_to_an_end() {
        assert_eq!(find(100.0, 1_000.0, |_| true).0, Some(1_000.0));
        let (held, failed, tries) = find(1_000.0, 1e6, |_| false);
        assert!(held.is_none() && failed.is_some_and(|it| it < 1.0) && tries < 20);
    }
}
