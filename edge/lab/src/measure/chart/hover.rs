//! What stands at the pointer: strips over a chart, each with a note of the values in it. Without a
//! script, so that a report stays as harmless as a picture; strips are the page's to show.

use std::fmt::Write as _;

use super::{Axis, BOTTOM, Chart, HEIGHT, LEFT, Line, RIGHT, TOP, WIDTH};
use crate::measure::text::escape;

/// Strips of a chart, at most: finer ones could not be pointed at.
const STRIPS_MAX: usize = 150;

/// A value at the pointer: colour, name, text.
pub(super) type Told<'a> = (usize, &'a str, String);

/// Strips at the points of the line that has most.
pub(super) fn of_lines(out: &mut String, chart: &Chart<'_>) {
    let count = |line: &&Line| line.points.iter().filter(|it| it.1.is_finite()).count();
    let Some(longest) = chart.lines.iter().max_by_key(count) else { return };
    let every = longest.points.len().div_ceil(STRIPS_MAX).max(1);
    let places: Vec<f64> = longest.points.iter().step_by(every).map(|point| point.0).collect();
    let (tell_x, tell_y) = chart.tell;
    let edges = edges(&chart.x, &places);
    out.push_str(&open());
    for (at, (from, until)) in places.iter().zip(edges) {
        let mut told: Vec<Told<'_>> = Vec::new();
        for line in &chart.lines {
            let Some(value) = nearest(line, *at, (from, until)) else { continue };
            match told.last_mut() {
                // Rounds of the line before.
                Some(last) if line.name.is_empty() => {
                    last.2.push_str(" · ");
                    last.2.push_str(&tell_y(value));
                }
                _ => told.push((line.dress.colour(), &line.name, tell_y(value))),
            }
        }
        strip(out, &chart.x, (from, until), &tell_x(*at), &told);
    }
    out.push_str("</div>");
}

/// Begins what holds the strips: it lies over the space between the axes.
pub(super) fn open() -> String {
    format!(
        "<div class=\"tips\" aria-hidden=\"true\" style=\"left:{:.2}%;right:{:.2}%;top:{:.2}%;\
         bottom:{:.2}%\">",
        100.0 * LEFT / WIDTH,
        100.0 * RIGHT / WIDTH,
        100.0 * TOP / HEIGHT,
        100.0 * BOTTOM / HEIGHT
    )
}

/// One strip; none where there is nothing to tell.
pub(super) fn strip(
    out: &mut String,
    x: &Axis,
    (from, until): (f64, f64),
    head: &str,
    told: &[Told<'_>],
) {
    let (from, until) = (100.0 * x.share(from), 100.0 * x.share(until));
    if told.is_empty() || until <= from {
        return;
    }
    // Notes open to where there is more room.
    let side = if from + until > 100.0 { " class=\"r\"" } else { "" };
    let _ = write!(
        out,
        "<div{side} style=\"left:{from:.2}%;width:{:.2}%\"><p><b>{}</b>",
        until - from,
        escape(head)
    );
    for (colour, name, text) in told {
        let _ = write!(
            out,
            "<span class=\"k{colour}\">{}<em>{}</em></span>",
            escape(name),
            escape(text)
        );
    }
    out.push_str("</p></div>");
}

/// From halfway to the place before to halfway to the next.
fn edges(x: &Axis, places: &[f64]) -> Vec<(f64, f64)> {
    let between = |a: f64, b: f64| a + (b - a) / 2.0;
    let edge = |index: usize| {
        let before = index.checked_sub(1).map_or(x.min, |it| between(places[it], places[index]));
        let after = places.get(index + 1).map_or(x.max, |next| between(places[index], *next));
        (before, after)
    };
    (0..places.len()).map(edge).collect()
}

/// The value of the point that is nearest to a place, if it lies in the strip around it.
fn nearest(line: &Line, at: f64, (from, until): (f64, f64)) -> Option<f64> {
    let inside = line.points.iter().filter(|it| it.0 >= from && it.0 <= until && it.1.is_finite());
    let distance = |point: &(f64, f64)| (point.0 - at).abs();
    inside.min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|point| point.1)
}
