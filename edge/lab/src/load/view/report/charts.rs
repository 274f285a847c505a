//! Which charts a report has, and what they show.

use super::headline_times;
use crate::load::record::Stage;
use crate::load::result::STRETCH_S_MIN;
use crate::load::result::summary::{OpSummary, Summary};
use crate::load::result::{Second, SecondOp};
use crate::measure::chart::{Axis, Chart, HeatMap, Line};
use crate::measure::number::float;
use crate::measure::page::figure;
use crate::measure::percentiles::CurvePoint;

/// Operations that a chart shows, at most; the rest stand in the tables.
const LINES_MAX: usize = 6;
/// Points of a line over time, at most; longer runs are thinned by taking the worst of several.
const POINTS_MAX: usize = 600;

pub(super) fn charts(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let seconds = thin(&summary.series);
    // A line needs two points.
    let has_time = seconds.len() > 1;
    out.push_str("<section class=\"charts\">");
    if let Some(svg) = throughput(summary, &seconds).filter(|_| has_time) {
        figure(out, "Throughput", "answered a second", &svg)?;
    }
    if let Some((index, op)) =
        summary.ops.iter().enumerate().find(|(_, op)| op.name == summary.headline)
    {
        let kind = headline_times(op).1;
        let is_answered = seconds.iter().any(|second| second.ops[index].done > 0);
        if has_time && is_answered {
            let svg = times_over_time(&seconds, index);
            figure(out, &format!("Times of {}", op.name), &format!("{kind}, logarithmic"), &svg)?;
        }
        if op.curve.len() > 2 {
            figure(out, "Percentiles", "how slow are the slowest", &curve(op))?;
        }
        if is_answered {
            let note = format!("{} of every second, {kind}", op.name);
            figure(out, "Where the times lie", &note, &heat_map(&summary.series))?;
        }
    }
    if has_time {
        figure(out, "Players and sockets", "of each second", &players(&seconds))?;
        figure(out, "Processors", "100 % is one of them", &processors(summary, &seconds))?;
    }
    out.push_str("</section>");
    Ok(())
}

/// Joins neighbours of long runs: sums become rates, the worst times stay.
pub(super) fn thin<'a>(series: impl IntoIterator<Item = &'a Second>) -> Vec<Second> {
    let whole = series.into_iter().filter(|second| second.length_s > STRETCH_S_MIN);
    let whole: Vec<&Second> = whole.collect();
    let chunk = whole.len().div_ceil(POINTS_MAX).max(1);
    let join = |chunk: &[&Second]| {
        let mut joined = (*chunk[chunk.len() - 1]).clone();
        for second in &chunk[..chunk.len() - 1] {
            joined.length_s += second.length_s;
            joined.errors = joined.errors.saturating_add(second.errors);
            for (mine, theirs) in joined.ops.iter_mut().zip(&second.ops) {
                mine.done = mine.done.saturating_add(theirs.done);
                mine.p50_ns = mine.p50_ns.max(theirs.p50_ns);
                mine.p99_ns = mine.p99_ns.max(theirs.p99_ns);
                mine.max_ns = mine.max_ns.max(theirs.max_ns);
            }
        }
        joined
    };
    whole.chunks(chunk).map(join).collect()
}

/// A value of every second, at its end, and at the beginning of the first.
pub(super) fn points_over(seconds: &[Second], value: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let start = seconds.first().map(|first| (first.at_s - first.length_s, value(first)));
    start.into_iter().chain(seconds.iter().map(|second| (second.at_s, value(second)))).collect()
}

fn time_axis(seconds: &[Second]) -> Axis {
    let end = seconds.last().map_or(1.0, |second| second.at_s);
    Axis::within(0.0, end, |at| format!("{at}"))
}

/// What did not count.
fn shaded(seconds: &[Second]) -> Vec<(f64, f64)> {
    let is_counted = |second: &&Second| second.stage == Stage::Counted.word();
    let first = seconds.iter().find(is_counted).map(|second| second.at_s - second.length_s);
    let last = seconds.iter().rev().find(is_counted).map(|second| second.at_s);
    let end = seconds.last().map_or(0.0, |second| second.at_s);
    match (first, last) {
        (Some(first), Some(last)) => vec![(0.0, first), (last, end)],
        _ => Vec::new(),
    }
}

fn chart(seconds: &[Second], y: Axis, lines: Vec<Line>) -> String {
    let (x, shaded) = (time_axis(seconds), shaded(seconds));
    Chart { x, y, x_name: "seconds", lines, shaded }.svg()
}

pub(super) fn line(name: &str, colour: usize, filled: bool, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), colour, points, filled }
}

/// None if there was neither an answer that counts nor an error.
fn throughput(summary: &Summary, seconds: &[Second]) -> Option<String> {
    let mut ops: Vec<(usize, &OpSummary)> =
        summary.ops.iter().enumerate().filter(|(_, op)| op.counted && op.done > 0).collect();
    if ops.iter().any(|(_, op)| !op.setup) {
        ops.retain(|(_, op)| !op.setup);
    }
    ops.sort_by_key(|(_, op)| std::cmp::Reverse(op.done));
    ops.truncate(LINES_MAX);
    let mut lines: Vec<Line> = ops
        .iter()
        .enumerate()
        .map(|(colour, (index, op))| {
            let per_s = |second: &Second| float(second.ops[*index].done) / second.length_s;
            line(&op.name, colour, ops.len() == 1, points_over(seconds, per_s))
        })
        .collect();
    if seconds.iter().any(|second| second.errors > 0) {
        let per_s = |second: &Second| float(second.errors) / second.length_s;
        lines.push(line("errors", 4, false, points_over(seconds, per_s)));
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let most = most.fold(0.0, f64::max);
    (most > 0.0).then(|| chart(seconds, Axis::linear(most, per_second), lines))
}

/// 12,000 as 12 k/s.
pub(super) fn per_second(value: f64) -> String {
    format!("{}/s", short(value))
}

/// 12,000 as 12 k.
pub(super) fn short(value: f64) -> String {
    match value {
        it if it >= 1e6 => format!("{} M", trim(it / 1e6)),
        it if it >= 1e3 => format!("{} k", trim(it / 1e3)),
        it => trim(it),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn log_time(ns: u64) -> f64 {
    float(ns.max(1)).log10()
}

fn short_time(ns: f64) -> String {
    match ns {
        it if it < 1e3 => format!("{} ns", trim(it)),
        it if it < 1e6 => format!("{} µs", trim(it / 1e3)),
        it if it < 1e9 => format!("{} ms", trim(it / 1e6)),
        it => format!("{} s", trim(it / 1e9)),
    }
}

fn powers_around(values: impl Iterator<Item = f64> + Clone) -> Axis {
    let min = values.clone().fold(f64::INFINITY, f64::min);
    let max = values.fold(0.0, f64::max);
    Axis::powers(if min.is_finite() { min } else { 0.0 }, max, short_time)
}

fn times_over_time(seconds: &[Second], op: usize) -> String {
    let points = |ns: fn(&SecondOp) -> u64| -> Vec<(f64, f64)> {
        points_over(seconds, |second| {
            let it = &second.ops[op];
            if it.done > 0 { log_time(ns(it)) } else { f64::NAN }
        })
    };
    let lines = vec![
        line("slowest", 4, false, points(|op| op.max_ns)),
        line("p99", 1, false, points(|op| op.p99_ns)),
        line("p50", 0, false, points(|op| op.p50_ns)),
    ];
    let all = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let y = powers_around(all);
    chart(seconds, y, lines)
}

/// Times over percentiles.
fn curve(op: &OpSummary) -> String {
    let points = |ns: fn(&CurvePoint) -> u64| curve_points(&op.curve, ns);
    let mut lines = vec![line("service time", 0, false, points(|it| it.service_ns))];
    if op.response.count > 0 {
        lines.push(line("from the intended start", 1, false, points(|it| it.response_ns)));
    }
    percentile_chart(lines)
}

/// A place on an axis that gives every nine the same room.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-9).log10()
}

pub(super) fn curve_points(curve: &[CurvePoint], ns: fn(&CurvePoint) -> u64) -> Vec<(f64, f64)> {
    curve.iter().map(|it| (nines(it.quantile), log_time(ns(it)))).collect()
}

/// Curves made of [`curve_points`].
pub(super) fn percentile_chart(lines: Vec<Line>) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|point| point.0).fold(1.0, f64::max);
    let marks = [
        (0.0, "0"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
    ];
    let ticks = marks.iter().map(|(quantile, name)| (nines(*quantile), (*name).to_owned()));
    let x = Axis { min: 0.0, max: end, ticks: ticks.filter(|(at, _)| *at <= end + 1e-9).collect() };
    let y = powers_around(points().map(|point| point.1));
    Chart { x, y, x_name: "percentile", lines, shaded: Vec::new() }.svg()
}

fn heat_map(series: &[Second]) -> String {
    let mut cells = Vec::new();
    for second in series.iter().filter(|second| second.length_s > STRETCH_S_MIN) {
        for (tenth, count) in &second.heat {
            let from = f64::from(*tenth) / 10.0;
            cells.push([
                second.at_s - second.length_s,
                second.at_s,
                from,
                from + 0.1,
                float(*count),
            ]);
        }
    }
    let lowest = cells.iter().map(|cell| cell[2]).fold(f64::INFINITY, f64::min);
    let highest = cells.iter().map(|cell| cell[3]).fold(1.0, f64::max);
    let y = Axis::powers(if lowest.is_finite() { lowest } else { 0.0 }, highest, short_time);
    let end = series.last().map_or(1.0, |second| second.at_s);
    let x = Axis::within(0.0, end, |at| format!("{at}"));
    HeatMap { x, y, x_name: "seconds", cells }.svg()
}

fn players(seconds: &[Second]) -> String {
    let points =
        |count: fn(&Second) -> u32| points_over(seconds, |second| f64::from(count(second)));
    let mut lines = vec![line("players", 0, true, points(|second| second.players))];
    if seconds.iter().any(|second| second.sockets > 0) {
        lines.push(line("sockets", 2, false, points(|second| second.sockets)));
    }
    let most = seconds.iter().map(|second| second.players.max(second.sockets)).max();
    chart(seconds, Axis::linear(f64::from(most.unwrap_or(1)), short), lines)
}

fn processors(summary: &Summary, seconds: &[Second]) -> String {
    let points = |share: fn(&Second) -> f64| points_over(seconds, |second| share(second) * 100.0);
    let mut lines = vec![line("generator", 3, false, points(|second| second.generator_cpu))];
    if summary.server.is_some() {
        lines.push(line("server", 0, false, points(|second| second.server_cpu)));
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    chart(seconds, Axis::linear(most.fold(0.0, f64::max), |it| format!("{} %", trim(it))), lines)
}
