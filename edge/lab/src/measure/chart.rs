//! Charts as SVG text: lines over time, percentile curves, columns, heat maps, bars with ranges. No
//! dependency, no script, the same text for the same numbers. Colours are the page's (`--s0`…,
//! `--grid`, `--ink`), so a chart follows its light and dark dress. Over the lines lie invisible
//! strips that show the values below the pointer.
//!
//! In: numbers with their axes. Out: markup.

mod axis;
mod bars;
mod columns;
mod heat;
mod hover;

use std::fmt::Write as _;

pub(crate) use axis::{Axis, Tick, clock, minutes};
pub(crate) use bars::{Bar, Bars};
pub(crate) use columns::{Columns, Stack};
pub(crate) use heat::HeatMap;

use super::text::escape;

/// Colours of series that the page defines.
pub(crate) const COLOURS: usize = 6;
/// Kinds of strokes that the page defines: whole, dashed, dotted, both.
const DASHES: usize = 4;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 274.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 58.0;
/// Width of a letter of a stage's name, about: names that do not fit are not written.
const LETTER: f64 = 6.4;

/// What a line looks like: one of the page's colours, and a stroke that tells lines of one colour
/// apart. Both come again when they are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dress {
    pub(crate) colour: usize,
    pub(crate) dash: usize,
}

impl Dress {
    fn colour(self) -> usize {
        self.colour % COLOURS
    }

    fn dash(self) -> usize {
        self.dash % DASHES
    }
}

/// One line of a chart.
pub(crate) struct Line {
    /// Stands in the legend unless it is empty: rounds of one thing need one entry.
    pub(crate) name: String,
    pub(crate) dress: Dress,
    /// In the order of x. Where y is not a number, the line breaks.
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether the space below is filled lightly.
    pub(crate) filled: bool,
}

/// A stretch of x that did not count, and what it was.
pub(crate) struct Shade {
    pub(crate) from: f64,
    pub(crate) until: f64,
    pub(crate) name: &'static str,
}

/// How a place on an axis, or a value, is told.
pub(crate) type Tell<'a> = dyn Fn(f64) -> String + 'a;

/// A chart of lines.
pub(crate) struct Chart<'a> {
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_name: &'static str,
    pub(crate) lines: Vec<Line>,
    pub(crate) shades: Vec<Shade>,
    /// Places and values as they stand at the pointer.
    pub(crate) tell: (&'a Tell<'a>, &'a Tell<'a>),
}

impl Chart<'_> {
    /// The chart with its legend.
    pub(crate) fn svg(&self) -> String {
        let mut out = open();
        shade(&mut out, &self.x, &self.shades);
        frame(&mut out, &self.x, &self.y, self.x_name);
        for line in &self.lines {
            self.line(&mut out, line);
        }
        out.push_str("</svg>");
        hover::of_lines(&mut out, self);
        out.push_str("</div>");
        let named = self.lines.iter().filter(|line| !line.name.is_empty());
        let named: Vec<_> = named.map(|line| (line.name.as_str(), line.dress)).collect();
        let named = if named.len() > 1 { &named[..] } else { &[] };
        legend(&mut out, named, !self.shades.is_empty());
        out
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
            // Writing to a String cannot fail.
            let _ = write!(path, "{verb}{:.1} {:.1}{dot}", px(&self.x, *x), py(&self.y, *y));
            is_broken = false;
        }
        let (colour, dash) = (line.dress.colour(), line.dress.dash());
        let (first, last) = (line.points.first(), line.points.last());
        if line.filled
            && let (Some(first), Some(last)) = (first, last)
        {
            let floor = HEIGHT - BOTTOM;
            let (from, until) = (px(&self.x, first.0), px(&self.x, last.0));
            let _ = write!(
                out,
                "<path class=\"area\" style=\"fill:var(--s{colour})\" \
                 d=\"{path}L{until:.1} {floor}L{from:.1} {floor}Z\"/>"
            );
        }
        let _ = write!(
            out,
            "<path class=\"line c{colour} d{dash}\" style=\"stroke:var(--s{colour})\" d=\"{path}\"/>"
        );
    }
}

fn px(x: &Axis, at: f64) -> f64 {
    LEFT + x.share(at) * (WIDTH - LEFT - RIGHT)
}

fn py(y: &Axis, at: f64) -> f64 {
    HEIGHT - BOTTOM - y.share(at) * (HEIGHT - TOP - BOTTOM)
}

/// Opens the picture, and what holds it and the strips above it.
fn open() -> String {
    format!("<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">")
}

/// What did not count, with its name where there is room for it.
fn shade(out: &mut String, x: &Axis, shades: &[Shade]) {
    let height = HEIGHT - TOP - BOTTOM;
    for shade in shades {
        let from = px(x, shade.from);
        let width = px(x, shade.until) - from;
        if width < 0.5 {
            continue;
        }
        let _ = write!(
            out,
            "<rect class=\"shade\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>"
        );
        if width > LETTER * f64::from(u16::try_from(shade.name.len()).unwrap_or(u16::MAX)) + 6.0 {
            let (text_x, text_y) = (from + 2.0, TOP - 6.0);
            let _ = write!(
                out,
                "<text class=\"stage\" x=\"{text_x:.1}\" y=\"{text_y}\">{}</text>",
                escape(shade.name)
            );
        }
    }
}

/// Grid, labels and the name of the x axis.
fn frame(out: &mut String, x: &Axis, y: &Axis, x_name: &str) {
    for tick in &y.ticks {
        let at = py(y, tick.at);
        let (end, text_x, text_y) = (WIDTH - RIGHT, LEFT - 8.0, at + 3.5);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\"/>\
             <text class=\"y\" x=\"{text_x}\" y=\"{text_y:.1}\">{}</text>",
            escape(&tick.label)
        );
    }
    let floor = HEIGHT - BOTTOM;
    for (index, tick) in x.ticks.iter().enumerate() {
        // On a narrow page every other label is left out.
        let every_other = if index % 2 == 1 { " odd" } else { "" };
        // A label in the middle of the right edge would leave the picture.
        let last = if x.share(tick.at) > 0.95 { " last" } else { "" };
        let at = px(x, tick.at);
        let mark = floor + 4.0;
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{at:.1}\" y1=\"{floor}\" x2=\"{at:.1}\" y2=\"{mark}\"/>"
        );
        for (label, down) in [(&tick.label, 17.0), (&tick.below, 35.0)] {
            if !label.is_empty() {
                let text_y = floor + down;
                let _ = write!(
                    out,
                    "<text class=\"x{every_other}{last}\" x=\"{at:.1}\" y=\"{text_y}\">{}</text>",
                    escape(label)
                );
            }
        }
    }
    let has_below = x.ticks.iter().any(|tick| !tick.below.is_empty());
    let (name_x, name_y) = (WIDTH - RIGHT, floor + if has_below { 53.0 } else { 35.0 });
    let _ =
        write!(out, "<text class=\"name\" x=\"{name_x}\" y=\"{name_y}\">{}</text>", escape(x_name));
}

/// Names beside what they look like.
pub(crate) fn legend(out: &mut String, named: &[(&str, Dress)], has_shades: bool) {
    if named.is_empty() && !has_shades {
        return;
    }
    out.push_str("<p class=\"legend\">");
    for (name, dress) in named {
        let (colour, dash) = (dress.colour(), dress.dash());
        let _ = write!(
            out,
            "<span><i class=\"d{dash}\" style=\"color:var(--s{colour})\"></i>{}</span>",
            escape(name)
        );
    }
    if has_shades {
        out.push_str("<span><i class=\"off\"></i>not counted</span>");
    }
    out.push_str("</p>");
}

#[cfg(test)]
mod tests;
