//! What changed from one column to another in one figure, how sure that is, and how it is said.
//!
//! With two rounds and more on each side the rounds decide. With one run of a side its own seconds
//! do, joined to stretches: that tells what varies within a run and nothing of what varies between
//! runs. With neither, there is a ratio and no more. Every line and every cell says which of the three
//! it is, because each is read alone.

use super::{Column, Value, over};
use crate::load::record::Stage;
use crate::load::result::{STRETCH_S_MIN, Second, Summary};
use crate::measure::change::Change;
use crate::measure::number::{against, float, times};

/// Stretches that a run is cut into: long ones, because neighbouring seconds resemble each other.
const STRETCHES: usize = 10;
/// Stretches of a run below which nothing is made of them.
const STRETCHES_LEAST: usize = 5;

/// A figure of one second of a run.
pub(crate) type OfSecond<'a> = dyn Fn(&Summary, &Second) -> Option<f64> + 'a;

/// How a figure is found: of a run, and, where there is such a thing, of each of its seconds.
pub(crate) struct Figure<'a> {
    pub(crate) value: &'a Value<'a>,
    pub(crate) of_second: Option<&'a OfSecond<'a>>,
}

/// What an interval is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Rounds: so many before and after.
    Rounds(usize, usize),
    /// Stretches of a run of each.
    Stretches,
    /// There is none: one run of a side.
    OneRun,
    /// There is none: several runs, of which some have a figure of nought, or too few have one.
    None,
}

/// A change of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delta {
    pub(crate) basis: Basis,
    change: Change,
}

/// From one column to another; none where one of them lacks the figure, or has none above 0.
pub(crate) fn delta(before: &Column<'_>, after: &Column<'_>, figure: &Figure<'_>) -> Option<Delta> {
    let values = |column: &Column<'_>| -> Vec<f64> {
        column.runs.iter().filter_map(|run| (figure.value)(&run.summary)).collect()
    };
    let (b, a) = (values(before), values(after));
    if let Some(change) = Change::of(&b, &a) {
        return Some(Delta { basis: Basis::Rounds(b.len(), a.len()), change });
    }
    let stretches = |column: &Column<'_>| -> Vec<f64> {
        let runs = column.runs.iter().map(|run| &run.summary);
        runs.flat_map(|run| figure.of_second.map_or(Vec::new(), |it| stretches(run, it))).collect()
    };
    let (b_parts, a_parts) = (stretches(before), stretches(after));
    let has_both = b_parts.len().min(a_parts.len()) >= STRETCHES_LEAST;
    if (b.len() == 1 || a.len() == 1)
        && has_both
        && let Some(change) = Change::of(&b_parts, &a_parts)
    {
        return Some(Delta { basis: Basis::Stretches, change });
    }
    let [b, a] = [over(before, figure.value)?.median, over(after, figure.value)?.median];
    let ratio = a / b;
    let change = Change { ratio, lowest: 0.0, highest: f64::INFINITY };
    let is_one = before.runs.len().min(after.runs.len()) == 1;
    let basis = if is_one { Basis::OneRun } else { Basis::None };
    (a > 0.0 && b > 0.0 && ratio.is_finite()).then_some(Delta { basis, change })
}

/// The figure of each stretch of the counted time: the mean of its seconds.
fn stretches(run: &Summary, of_second: &OfSecond<'_>) -> Vec<f64> {
    let is_whole = |it: &&Second| it.stage == Stage::Counted && it.length_s > STRETCH_S_MIN;
    let seconds: Vec<f64> =
        run.series.iter().filter(is_whole).filter_map(|it| of_second(run, it)).collect();
    let length = (seconds.len() / STRETCHES).max(1);
    let mean = |it: &[f64]| it.iter().sum::<f64>() / float(it.len() as u64);
    seconds.chunks_exact(length).map(mean).collect()
}

impl Delta {
    /// Whether it has an interval at all.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.basis, Basis::Rounds(..) | Basis::Stretches)
    }

    /// Whether it is more than noise.
    pub(crate) fn is_real(&self) -> bool {
        self.is_known() && self.change.is_real()
    }

    /// How much: `10.2 % lower`, `6.5 × higher`.
    pub(crate) fn words(&self, words: [&str; 2]) -> String {
        let ratio = self.change.ratio;
        if !is_small(ratio) {
            return against(ratio, words);
        }
        match format!("{:.1}", 100.0 * (ratio - 1.0).abs()) {
            text if text == "0.0" => "the same".to_owned(),
            text => format!("{text} % {}", words[usize::from(ratio < 1.0)]),
        }
    }

    /// The bounds, in the form of [`Delta::words`]: `−12.1 to −8.0 %`, `6.1 to 7.0 ×`; none where
    /// there are none.
    pub(crate) fn interval(&self) -> Option<String> {
        let Change { ratio, lowest, highest } = self.change;
        if !self.is_known() {
            return None;
        }
        if highest > 1e3 * ratio {
            return Some("too wide to tell".to_owned());
        }
        if is_small(ratio) {
            let percent = |ratio: f64| {
                let text = format!("{:+.1}", 100.0 * (ratio - 1.0)).replace('-', "−");
                if text == "−0.0" { "+0.0".to_owned() } else { text }
            };
            return Some(format!("{} to {} %", percent(lowest), percent(highest)));
        }
        let (least, most) =
            if ratio < 1.0 { (1.0 / highest, 1.0 / lowest) } else { (lowest, highest) };
        Some(format!("{} to {}", times(least).trim_end_matches(" ×"), times(most)))
    }

    /// What an interval is not about, or why there is none; empty where rounds decide.
    pub(crate) fn caveat(&self) -> &'static str {
        match self.basis {
            Basis::Rounds(..) => "",
            Basis::Stretches => "within single runs",
            Basis::OneRun => "single run, no interval",
            Basis::None => "no interval",
        }
    }

    /// All of it, for a cell.
    pub(crate) fn text(&self, words: [&str; 2]) -> String {
        let is_noise = self.is_known() && !self.is_real();
        let what = if is_noise { "no change beyond noise".to_owned() } else { self.words(words) };
        let besides = [self.interval().unwrap_or_default(), self.caveat().to_owned()];
        let besides: Vec<String> = besides.into_iter().filter(|it| !it.is_empty()).collect();
        if besides.is_empty() { what } else { format!("{what} ({})", besides.join(", ")) }
    }
}

/// Whether a ratio is told in percent.
fn is_small(ratio: f64) -> bool {
    (0.5..2.0).contains(&ratio)
}
