//! Charts as SVG text: lines over time, percentile curves, heat maps, bars with ranges. No dependency, no script,
//! the same text for the same numbers. Colours are the page's (`--s0`…, `--grid`, `--ink`), so a
//! chart follows its light and dark dress.

use std::fmt::Write as _;

/// Colours of series that the page defines.
pub(crate) const COLOURS: usize = 6;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;
/// Labels on an axis, about.
const TICKS: usize = 6;

/// One axis: its range, marks and how they are written.
pub(crate) struct Axis {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Place on the axis and label.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to at least `max`, at round numbers.
    pub(crate) fn linear(max: f64, write: impl Fn(f64) -> String) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let step = nice_step(max);
        let count = (max / step).ceil();
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= count + 0.5 {
            ticks.push((at * step, write(at * step)));
            at += 1.0;
        }
        Self { min: 0.0, max: count * step, ticks }
    }

    /// From `min` to `max` exactly, at round numbers between.
    pub(crate) fn within(min: f64, max: f64, write: impl Fn(f64) -> String) -> Self {
        let max = if max > min { max } else { min + 1.0 };
        let step = nice_step(max - min);
        let mut ticks = Vec::new();
        let mut at = (min / step).ceil() * step;
        while at <= max {
            ticks.push((at, write(at)));
            at += step;
        }
        Self { min, max, ticks }
    }

    /// A logarithmic axis around 10^`min` to 10^`max`, from one round number to another; values
    /// are exponents. Every power of ten has a label, and on short axes its double and its half.
    pub(crate) fn powers(min: f64, max: f64, write: impl Fn(f64) -> String) -> Self {
        const ROUND: [f64; 3] = [0.0, std::f64::consts::LOG10_2, 1.0 - std::f64::consts::LOG10_2]; // 1, 2, 5
        let places = |from: f64, until: f64| {
            let mut places = Vec::new();
            let mut power = from.floor();
            while power <= until.ceil() {
                places.extend(ROUND.map(|part| power + part));
                power += 1.0;
            }
            places
        };
        const SMALL: f64 = 1e-6;
        let around = places(min - 1.0, max + 1.0);
        let start = around.iter().rev().find(|at| **at <= min + SMALL).copied().unwrap_or(min);
        let end = around.iter().find(|at| **at >= max - SMALL && **at > start + SMALL);
        let end = end.copied().unwrap_or(max + 1.0);
        let is_short = end - start < 2.2;
        let is_tick = |at: &f64| {
            let is_power = (at - at.round()).abs() < SMALL;
            (is_power || is_short) && (start - SMALL..=end + SMALL).contains(at)
        };
        let ticks = around.into_iter().filter(is_tick);
        Self { min: start, max: end, ticks: ticks.map(|at| (at, write(10_f64.powf(at)))).collect() }
    }

    fn share(&self, value: f64) -> f64 {
        ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, so that about [`TICKS`] steps make `range`.
#[expect(clippy::cast_precision_loss, reason = "a small constant")]
fn nice_step(range: f64) -> f64 {
    let rough = range / TICKS as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// One line of a chart.
pub(crate) struct Line {
    /// Stands in the legend unless it is empty: rounds of one thing need one entry.
    pub(crate) name: String,
    /// Which of the page's colours; beyond [`COLOURS`] they come again, dashed.
    pub(crate) colour: usize,
    /// Where y is not a number, the line breaks.
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether the space below is filled lightly.
    pub(crate) filled: bool,
}

/// A chart of lines.
pub(crate) struct Chart {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_name: &'static str,
    pub(crate) lines: Vec<Line>,
    /// Stretches of x that did not count; shaded.
    pub(crate) shaded: Vec<(f64, f64)>,
}

impl Chart {
    /// The chart with its legend.
    pub(crate) fn svg(&self) -> String {
        let mut out = open();
        for (from, until) in &self.shaded {
            let (x, width) = (self.px(*from), self.px(*until) - self.px(*from));
            let height = HEIGHT - TOP - BOTTOM;
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                "<rect class=\"shade\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>"
            );
        }
        frame(&mut out, &self.x, &self.y, self.x_name);
        for line in &self.lines {
            self.line(&mut out, line);
        }
        out.push_str("</svg>");
        if self.lines.iter().filter(|line| !line.name.is_empty()).count() > 1 {
            legend(&mut out, &self.lines);
        }
        out
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM)
    }

    fn line(&self, out: &mut String, line: &Line) {
        let mut path = String::new();
        let mut is_broken = true;
        for (x, y) in &line.points {
            if y.is_nan() {
                is_broken = true;
                continue;
            }
            // A mark of no length shows a point that stands alone as a dot.
            let (verb, dot) = if is_broken { ('M', "h0") } else { ('L', "") };
            let _ = write!(path, "{verb}{:.1} {:.1}{dot}", self.px(*x), self.py(*y));
            is_broken = false;
        }
        let (colour, dashed) = dress(line.colour);
        let (first, last) = (line.points.first(), line.points.last());
        if line.filled
            && let (Some(first), Some(last)) = (first, last)
        {
            let floor = HEIGHT - BOTTOM;
            let (from, until) = (self.px(first.0), self.px(last.0));
            let _ = write!(
                out,
                "<path class=\"area\" style=\"fill:var(--s{colour})\" d=\"{path}L{until:.1} {floor}L{from:.1} {floor}Z\"/>"
            );
        }
        let name = crate::measure::text::escape(&line.name);
        let _ = write!(
            out,
            "<path class=\"line c{colour}{dashed}\" style=\"stroke:var(--s{colour})\" \
             d=\"{path}\"><title>{name}</title></path>"
        );
    }
}

/// Cells of a heat map: x, y from, y until, weight.
pub(crate) struct HeatMap {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_name: &'static str,
    /// x from, x until, y from, y until, how many.
    pub(crate) cells: Vec<[f64; 5]>,
}

impl HeatMap {
    pub(crate) fn svg(&self) -> String {
        let mut out = open();
        let most = self.cells.iter().map(|cell| cell[4]).fold(1.0, f64::max);
        let px = |x: f64| LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT);
        let py = |y: f64| HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM);
        for [x_from, x_until, y_from, y_until, count] in &self.cells {
            let (x, y) = (px(*x_from), py(*y_until));
            let (width, height) = (px(*x_until) - x, py(*y_from) - y);
            // The logarithm keeps the few slow ones visible beside the many fast ones.
            let strength = 0.12 + 0.88 * (1.0 + count).ln() / (1.0 + most).ln();
            let _ = write!(
                out,
                "<rect class=\"heat\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill-opacity=\"{strength:.2}\"><title>{count:.0}</title></rect>",
                (width + 0.3).max(0.5),
                (height + 0.3).max(0.5),
            );
        }
        frame(&mut out, &self.x, &self.y, self.x_name);
        out.push_str("</svg>");
        out
    }
}

/// A figure by a length, with the range of what it was made from.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// The figure as printed.
    pub(crate) text: String,
    pub(crate) colour: usize,
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
            let (colour, _) = dress(bar.colour);
            let class = if bar.is_invalid { "bar invalid" } else { "bar" };
            // Writing to a String cannot fail. Shares of the width, and words outside the picture,
            // because both have to fit a phone.
            let _ = write!(
                out,
                "<p class=\"value\"><span>{}</span><b>{}</b></p>\
                 <svg class=\"bars\" width=\"100%\" height=\"16\" role=\"img\"><rect \
                 class=\"{class}\" style=\"fill:var(--s{colour});stroke:var(--s{colour})\" \
                 y=\"1\" width=\"{:.2}%\" height=\"14\" rx=\"3\"/>",
                crate::measure::text::escape(&bar.label),
                crate::measure::text::escape(&bar.text),
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

/// A colour of the page and what tells it from the one before it that is the same.
fn dress(colour: usize) -> (usize, &'static str) {
    (colour % COLOURS, if (colour / COLOURS) % 2 == 1 { " dashed" } else { "" })
}

fn open() -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">")
}

/// Grid, labels and the name of the x axis.
fn frame(out: &mut String, x: &Axis, y: &Axis, x_name: &str) {
    for (value, label) in &y.ticks {
        let at = HEIGHT - BOTTOM - y.share(*value) * (HEIGHT - TOP - BOTTOM);
        let (end, text_x, text_y) = (WIDTH - RIGHT, LEFT - 8.0, at + 3.5);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\"/>\
             <text class=\"y\" x=\"{text_x}\" y=\"{text_y:.1}\">{}</text>",
            crate::measure::text::escape(label)
        );
    }
    let floor = HEIGHT - BOTTOM;
    for (index, (value, label)) in x.ticks.iter().enumerate() {
        // On a narrow page every other label is left out.
        let every_other = if index % 2 == 1 { " odd" } else { "" };
        // A label in the middle of the right edge would leave the picture.
        let last = if x.share(*value) > 0.97 { " last" } else { "" };
        let at = LEFT + x.share(*value) * (WIDTH - LEFT - RIGHT);
        let (mark, text_y) = (floor + 4.0, floor + 16.0);
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{at:.1}\" y1=\"{floor}\" x2=\"{at:.1}\" y2=\"{mark}\"/>\
             <text class=\"x{every_other}{last}\" x=\"{at:.1}\" y=\"{text_y}\">{}</text>",
            crate::measure::text::escape(label)
        );
    }
    let (name_x, name_y) = (WIDTH - RIGHT, HEIGHT - 4.0);
    let _ = write!(
        out,
        "<text class=\"name\" x=\"{name_x}\" y=\"{name_y}\">{}</text>",
        crate::measure::text::escape(x_name)
    );
}

fn legend(out: &mut String, lines: &[Line]) {
    out.push_str("<p class=\"legend\">");
    for line in lines.iter().filter(|line| !line.name.is_empty()) {
        let (colour, dashed) = dress(line.colour);
        let _ = write!(
            out,
            "<span><i class=\"{dashed}\" style=\"background:var(--s{colour})\"></i>{}</span>",
            crate::measure::text::escape(&line.name)
        );
    }
    out.push_str("</p>");
}

#[cfg(test)]
mod tests {
    use super::{Axis, Bar, Bars, Chart, HeatMap, Line, nice_step};

    #[test]
    fn axes_have_round_numbers() {
        for (range, step) in [(10.0, 2.0), (7.0, 2.0), (1_000.0, 200.0), (0.6, 0.1), (31.0, 10.0)] {
            assert!((nice_step(range) - step).abs() < step * 1e-9, "{range}: {}", nice_step(range));
        }
        let axis = Axis::linear(700.0, |value| format!("{value}"));
        assert!((axis.max - 800.0).abs() < 1e-9);
        assert_eq!(axis.ticks.len(), 5);
        assert_eq!(Axis::linear(f64::NAN, |_| String::new()).ticks.len(), 6);
    }

    #[test]
    fn bars_are_shares_of_the_longest() {
        let bar = |value, highest| Bar {
            label: "a<b".to_owned(),
            text: "5".to_owned(),
            colour: 1,
            value,
            lowest: value,
            highest,
            is_invalid: false,
        };
        let svg = Bars { bars: vec![bar(25.0, 25.0), bar(40.0, 50.0)] }.svg();
        assert!(svg.contains("width=\"50.00%\"") && svg.contains("width=\"80.00%\""), "{svg}");
        assert_eq!(svg.matches("class=\"range\"").count(), 3, "{svg}");
        assert!(!svg.contains("a<b") && svg.contains("x2=\"100.00%\""), "{svg}");
        assert!(!Bars { bars: vec![bar(0.0, 0.0)] }.svg().contains("NaN"));
    }

    #[test]
    fn charts_are_well_formed_and_escape_names() {
        let line = |points| Line { name: "a<b".to_owned(), colour: 9, points, filled: true };
        let chart = Chart {
            x: Axis::within(0.0, 10.0, |value| format!("{value}")),
            y: Axis::powers(3.0, 6.5, |value| format!("{value}")),
            x_name: "seconds",
            lines: vec![
                line(vec![(0.0, 3.0), (5.0, f64::NAN), (10.0, 7.0)]),
                line(vec![]),
                line(vec![(1.0, 4.0)]),
            ],
            shaded: vec![(0.0, 2.0)],
        };
        let map = HeatMap {
            x: Axis::within(0.0, 0.0, |value| format!("{value}")),
            y: Axis::powers(0.0, 1.0, |value| format!("{value}")),
            x_name: "seconds",
            cells: vec![[0.0, 1.0, 0.0, 0.1, 5.0]],
        };
        for svg in [chart.svg(), map.svg()] {
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("a<b"), "{svg}");
            assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
            assert_eq!(
                svg.matches("<path").count() + svg.matches("<rect class=\"heat").count(),
                svg.matches("</path>").count()
                    + svg.matches("</rect>").count()
                    + svg.matches("Z\"/>").count()
            );
        }
    }
}
