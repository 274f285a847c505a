//! A figure over several rounds: its median with the lowest and the highest.

/// A figure over the rounds of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    /// Rounds that have the figure; never 0.
    pub(crate) count: usize,
}

impl Spread {
    /// Of the rounds that have the figure; none if no round has it.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(upper, values.get(middle - 1).copied().unwrap_or(upper))
        } else {
            upper
        };
        Some(Self { median, lowest, highest, count: values.len() })
    }

    /// As printed.
    pub(crate) fn cell(&self, write: fn(f64) -> String) -> Cell {
        let (lowest, highest) = (write(self.lowest), write(self.highest));
        // One unit is enough where both have it.
        let unit = |text: &str| {
            text.trim_start_matches(|c: char| c.is_ascii_digit() || ",.".contains(c)).to_owned()
        };
        let digits = lowest.strip_suffix(&*unit(&highest)).unwrap_or(&lowest);
        let has_range = self.count > 1 && lowest != highest && self.lowest < self.highest;
        let range = if has_range { format!("{digits}–{highest}") } else { String::new() };
        Cell { text: write(self.median), range }
    }
}

/// A figure and, of several rounds, its range.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) range: String,
}

impl Cell {
    pub(crate) fn line(&self) -> String {
        if self.range.is_empty() {
            return self.text.clone();
        }
        format!("{} ({})", self.text, self.range)
    }
}
