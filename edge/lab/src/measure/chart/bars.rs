//! Figures as lengths, one below the other.

use std::fmt::Write as _;

use super::Dress;
use crate::measure::text::escape;

/// A figure by a length, with the range of what it was made from.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// The figure as printed.
    pub(crate) text: String,
    pub(crate) dress: Dress,
    pub(crate) value: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    /// Whether it is drawn as something that must not be believed.
    pub(crate) is_invalid: bool,
}

/// Lengths side by side, all from 0.
pub(crate) struct Bars {
    pub(crate) bars: Vec<Bar>,
}

impl Bars {
    /// A line of words and a picture for each.
    pub(crate) fn svg(&self) -> String {
        let mut out = String::new();
        let most = self.bars.iter().map(|bar| bar.highest.max(bar.value)).fold(0.0, f64::max);
        let percent = |value: f64| {
            if most > 0.0 { (value / most).clamp(0.0, 1.0) * 100.0 } else { 0.0 }
        };
        for bar in &self.bars {
            let colour = bar.dress.colour();
            let class = if bar.is_invalid { "bar invalid" } else { "bar" };
            // Writing to a String cannot fail. Shares of the width, and words outside the picture,
            // because both have to fit a phone.
            let _ = write!(
                out,
                "<p class=\"value\"><span>{}</span><b>{}</b></p>\
                 <svg class=\"bars\" width=\"100%\" height=\"16\" role=\"img\"><rect \
                 class=\"{class}\" style=\"fill:var(--s{colour});stroke:var(--s{colour})\" \
                 y=\"1\" width=\"{:.2}%\" height=\"14\" rx=\"3\"/>",
                escape(&bar.label),
                escape(&bar.text),
                percent(bar.value).max(0.2),
            );
            if bar.highest > bar.lowest {
                let (from, until) = (percent(bar.lowest), percent(bar.highest));
                for (x1, y1, x2, y2) in
                    [(from, 4, from, 12), (from, 8, until, 8), (until, 4, until, 12)]
                {
                    let _ = write!(
                        out,
                        "<line class=\"range\" x1=\"{x1:.2}%\" y1=\"{y1}\" x2=\"{x2:.2}%\" \
                         y2=\"{y2}\"/>"
                    );
                }
            }
            out.push_str("</svg>");
        }
        out
    }
}
