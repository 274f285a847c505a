//! Histograms and percentile curves of two columns over each other, in characters.
//!
//! In: the columns of a section. Out: lines. Shares, not counts, so that runs of different lengths
//! can be laid over each other; times on a logarithmic scale.

use std::collections::BTreeMap;

use super::{Column, Section};
use crate::load::record::Stage;
use crate::measure::number::{float, percent, time_f64};

/// Rows of a histogram, at most; the rest joins the last ones.
const BINS_MAX: usize = 24;
/// Tenths of a decade above 1 ns that a time can have: some three years.
const TENTHS_MAX: u16 = 170;
/// Smallest share that has a row.
const SHARE_LEAST: f64 = 0.000_5;
/// Height of a curve, and columns before it.
const ROWS: usize = 12;
const LABEL: usize = 10;
/// Characters: only before, only after, both.
const BARS: [char; 3] = ['░', '▓', '█'];
const POINTS: [char; 3] = ['○', '●', '◉'];

/// Shares of the headline operation's times in the counted seconds of all runs of a column, by tenth
/// of a decade.
pub(crate) fn shares(column: &Column<'_>) -> BTreeMap<u16, f64> {
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    let seconds = column.runs.iter().flat_map(|run| &run.summary.series);
    let all = seconds.filter(|it| it.stage == Stage::Counted).flat_map(|it| &it.heat);
    // A file may hold any number.
    for (tenth, count) in all.filter(|it| it.0 <= TENTHS_MAX) {
        let known = counts.entry(*tenth).or_default();
        *known = known.saturating_add(*count);
    }
    let all = counts.values().fold(0_u64, |sum, it| sum.saturating_add(*it)).max(1);
    counts.into_iter().map(|(tenth, count)| (tenth, float(count) / float(all))).collect()
}

/// The histogram of two columns; empty where one has no times.
pub(super) fn histogram(section: &Section<'_>, columns: usize) -> Vec<String> {
    let [before, after] = &*section.columns else { return Vec::new() };
    let (b, a) = (shares(before), shares(after));
    let of = |side: &BTreeMap<u16, f64>, tenth: u16| side.get(&tenth).copied().unwrap_or(0.0);
    let is_seen = |tenth: &u16| of(&b, *tenth).max(of(&a, *tenth)) >= SHARE_LEAST;
    let mut seen: Vec<u16> = b.keys().chain(a.keys()).copied().filter(is_seen).collect();
    seen.sort_unstable();
    let (Some(first), Some(last)) = (seen.first().copied(), seen.last().copied()) else {
        return Vec::new();
    };
    let last = last.min(first.saturating_add(u16::try_from(BINS_MAX).unwrap_or(u16::MAX) - 1));
    let beyond = |side: &BTreeMap<u16, f64>| side.range(last + 1..).map(|it| it.1).sum::<f64>();
    let rows: Vec<(String, f64, f64)> = (first..=last)
        .map(|tenth| (edge(tenth + 1), of(&b, tenth), of(&a, tenth)))
        .chain(std::iter::once(("beyond".to_owned(), beyond(&b), beyond(&a))))
        .filter(|row| row.0 != "beyond" || row.1.max(row.2) > 0.0)
        .collect();
    let most = rows.iter().map(|row| row.1.max(row.2)).fold(0.0, f64::max);
    let width = columns.saturating_sub(LABEL + 22).max(10);
    let mut lines = vec![
        format!("Histogram (service time in the closed loop, else from the intended start)"),
        legend(section, BARS),
    ];
    for (label, before, after) in rows {
        let cells = |share: f64| place(share / most, width);
        let (b, a) = (cells(before), cells(after));
        let bar: String = (0..b.max(a))
            .map(|at| match (at < b, at < a) {
                (true, true) => BARS[2],
                (true, false) => BARS[0],
                _ => BARS[1],
            })
            .collect();
        let share = |it: f64| format!("{:.1} %", 100.0 * it);
        lines.push(format!("{:>8} │{bar:<width$} {:>8} {:>8}", label, share(before), share(after)));
    }
    lines
}

/// The upper end of a bin.
fn edge(tenth: u16) -> String {
    time_f64(10_f64.powf(f64::from(tenth) / 10.0))
}

fn legend(section: &Section<'_>, signs: [char; 3]) -> String {
    let name = |at: usize| section.columns.get(at).map_or("", |it| &it.name);
    format!("{:LABEL$}{} {}   {} {}   {} both", "", signs[0], name(0), signs[1], name(1), signs[2])
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to `width`")]
#[expect(clippy::cast_precision_loss, reason = "columns of a terminal")]
fn place(share: f64, width: usize) -> usize {
    (share.clamp(0.0, 1.0) * width as f64).round() as usize
}

/// The percentile curves of two columns for the headline operation; empty where one has none.
pub(super) fn curves(section: &Section<'_>, columns: usize) -> Vec<String> {
    let [before, after] = &*section.columns else { return Vec::new() };
    let sides = [before, after].map(|it| curve(it, section.is_closed));
    if sides.iter().any(|side| side.len() < 2) {
        return Vec::new();
    }
    let all = || sides.iter().flatten();
    let end = all().map(|it| it.0).fold(0.0, f64::max).max(1.0);
    let lowest = all().map(|it| it.1).fold(f64::INFINITY, f64::min);
    let highest = all().map(|it| it.1).fold(lowest, f64::max).max(lowest + 0.1);
    let width = columns.saturating_sub(LABEL + 2).max(20);
    let mut cells = vec![vec![' '; width]; ROWS];
    for (side, points) in sides.iter().enumerate() {
        for column in 0..width {
            let at = end * float(column as u64) / float(width as u64 - 1);
            let Some(ns) = value_at(points, at) else { continue };
            let row = ROWS - 1 - place((ns - lowest) / (highest - lowest), ROWS - 1);
            if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = if *cell == ' ' { POINTS[side] } else { POINTS[2] };
            }
        }
    }
    let mut lines = vec!["Percentiles (logarithmic)".to_owned(), legend(section, POINTS)];
    for (row, text) in cells.into_iter().enumerate() {
        let share = 1.0 - float(row as u64) / float(ROWS as u64 - 1);
        let label = if row % 3 == 0 || row == ROWS - 1 {
            time_f64(10_f64.powf(lowest + share * (highest - lowest)))
        } else {
            String::new()
        };
        let text: String = text.into_iter().collect();
        lines.push(format!("{label:>9} │{}", text.trim_end()));
    }
    let mut axis = vec![' '; width + LABEL + 1];
    for nines in [0.0, 0.301, 1.0, 2.0, 3.0, 4.0, 5.0_f64] {
        let label = match nines {
            n if n < 0.1 => "0 %".to_owned(),
            n if n < 0.5 => "50 %".to_owned(),
            n => percent(1.0 - 10_f64.powf(-n)),
        };
        let at = LABEL + 1 + place(nines / end, width - 1);
        let start = at.saturating_sub(label.chars().count() / 2);
        let is_free = axis.iter().skip(start.saturating_sub(1)).take(label.chars().count() + 2);
        if nines > end || !is_free.clone().all(|c| *c == ' ') {
            continue;
        }
        for (offset, c) in label.chars().enumerate() {
            if let Some(cell) = axis.get_mut(start + offset) {
                *cell = c;
            }
        }
    }
    lines.push(axis.into_iter().collect::<String>().trim_end().to_owned());
    lines
}

/// (nines, logarithm of the time) of the middle run of a column: that with the median p50.
fn curve(column: &Column<'_>, is_closed: bool) -> Vec<(f64, f64)> {
    let mut runs: Vec<_> = column
        .runs
        .iter()
        .filter_map(|run| run.summary.headline_op())
        .filter(|op| op.curve.len() > 1)
        .collect();
    runs.sort_by_key(|op| if is_closed { op.service.p50_ns } else { op.response.p50_ns });
    let Some(op) = runs.get(runs.len() / 2) else { return Vec::new() };
    let point = |it: &crate::measure::CurvePoint| {
        let ns = if is_closed { it.service_ns } else { it.response_ns };
        (-(1.0 - it.quantile).max(1e-9).log10(), float(ns.max(1)).log10())
    };
    op.curve.iter().map(point).collect()
}

/// Between two points, on a straight line; none beyond the last.
fn value_at(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let next = points.iter().position(|it| it.0 >= at)?;
    let (x1, y1) = points[next];
    let Some((x0, y0)) = next.checked_sub(1).map(|it| points[it]) else { return Some(y1) };
    Some(if x1 > x0 { y0 + (y1 - y0) * (at - x0) / (x1 - x0) } else { y1 })
}
