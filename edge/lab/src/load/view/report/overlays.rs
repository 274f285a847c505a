//! The charts of a comparison: the columns of a section over one another or side by side. Every
//! round is drawn; a column has one colour.

use super::charts::{curve_points, line, per_second, percentile_chart, points_over, short, thin};
use crate::load::record::Stage;
use crate::load::result::Second;
use crate::load::result::figures;
use crate::load::result::summary::{OpSummary, Summary};
use crate::load::view::compare::{Column, Section, Value, is_about_coming, over};
use crate::measure::chart::{Axis, Bar, Bars, COLOURS, Chart, Line};
use crate::measure::number::float;
use crate::measure::number::{bytes_f64, group_f64, rate};
use crate::measure::page::{Mood, banner, figure};

/// Columns that charts show, at most; the rest stand in the table.
const COLUMNS_MAX: usize = 2 * COLOURS;
/// Operations whose percentiles are drawn, at most.
const OPS_MAX: usize = 4;

pub(super) fn charts(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    let drawn = &section.columns[..section.columns.len().min(COLUMNS_MAX)];
    if drawn.len() < section.columns.len() {
        let text = format!("The charts show the first {COLUMNS_MAX} columns of the table.");
        banner(out, Mood::Note, "", &text)?;
    }
    out.push_str("<section class=\"charts bars\">");
    bars(out, section, drawn)?;
    out.push_str("</section><section class=\"charts\">");
    let ops = if is_about_coming(section) { section.counted_ops() } else { section.loop_ops() };
    for name in ops.into_iter().take(OPS_MAX) {
        let kind = if section.is_closed { "service time" } else { "from the intended start" };
        if let Some(svg) = curves(drawn, name, section.is_closed) {
            figure(out, &format!("Percentiles of {name}"), kind, &svg)?;
        }
    }
    if let Some(svg) = over_time(drawn, &answered, per_second) {
        figure(out, "Throughput", "answered a second, since counting began", &svg)?;
    } else if let Some(svg) = over_time(drawn, &|_, second| f64::from(second.players), short) {
        figure(out, "Players", "present, since counting began", &svg)?;
    }
    out.push_str("</section>");
    Ok(())
}

fn bars(out: &mut String, section: &Section<'_>, drawn: &[Column<'_>]) -> std::fmt::Result {
    let mut draw = |title, note, write, value: &Value<'_>| {
        bar_chart(drawn, write, value).map_or(Ok(()), |svg| figure(out, title, note, &svg))
    };
    let note = "operations per CPU-second of the server; longer is better";
    draw("Efficiency", note, group_f64, &figures::ops_per_cpu_s)?;
    if section.is_closed {
        let per_s = |value: f64| format!("{}/s", rate(value));
        draw("Throughput", "answered; longer is better", per_s, &figures::answered_per_s)?;
    }
    let note = "of the server at the end; shorter is better";
    draw("Memory", note, bytes_f64, &figures::memory)?;
    if is_about_coming(section) {
        let note = "of the server; shorter is better";
        draw("Memory of a player", note, bytes_f64, &figures::memory_of_player)?;
    }
    Ok(())
}

fn bar_chart(
    columns: &[Column<'_>],
    write: fn(f64) -> String,
    value: &Value<'_>,
) -> Option<String> {
    let bar = |(colour, column): (usize, &Column<'_>)| {
        let it = over(column, value)?;
        let cell = it.cell(write);
        let invalid = if column.is_valid() { "" } else { "INVALID: " };
        Some(Bar {
            label: format!("{invalid}{}", column.name),
            text: cell.line(),
            colour: spaced(colour),
            value: it.median,
            lowest: it.lowest,
            highest: it.highest,
            is_invalid: !column.is_valid(),
        })
    };
    let bars: Vec<Bar> = columns.iter().enumerate().filter_map(bar).collect();
    (!bars.is_empty()).then(|| Bars { bars }.svg())
}

/// The colour of a column: the page's red comes last, because it means errors elsewhere.
fn spaced(column: usize) -> usize {
    match column % COLOURS {
        4 => column + 1,
        5 => column - 1,
        _ => column,
    }
}

/// A line for each run, a name for each column.
fn lines<'a>(
    columns: &'a [Column<'_>],
    points: impl Fn(&'a Summary) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for (colour, column) in columns.iter().enumerate() {
        let invalid = if column.is_valid() { "" } else { "INVALID: " };
        let mut name = format!("{invalid}{}", column.name);
        for run in &column.runs {
            let points = points(&run.summary);
            if points.len() > 1 {
                lines.push(line(&std::mem::take(&mut name), spaced(colour), false, points));
            }
        }
    }
    lines
}

fn curves(columns: &[Column<'_>], op: &str, is_closed: bool) -> Option<String> {
    let lines = lines(columns, |summary| {
        let has = |it: &&OpSummary| it.name == op && (is_closed || it.response.count > 0);
        let curve = summary.ops.iter().find(has).map_or(&[][..], |it| &it.curve);
        if is_closed {
            curve_points(curve, |it| it.service_ns)
        } else {
            curve_points(curve, |it| it.response_ns)
        }
    });
    (!lines.is_empty()).then(|| percentile_chart(lines))
}

/// Answers of the loop in a second; not a number if there is no loop.
fn answered(summary: &Summary, second: &Second) -> f64 {
    let ops = summary.ops.iter().zip(&second.ops);
    let counted = ops.filter(|(op, _)| op.counted && !op.setup).map(|(_, it)| float(it.done));
    let sum = counted.fold(f64::NAN, |sum, done| if sum.is_nan() { done } else { sum + done });
    sum / second.length_s
}

fn over_time(
    columns: &[Column<'_>],
    value: &dyn Fn(&Summary, &Second) -> f64,
    write: fn(f64) -> String,
) -> Option<String> {
    let lines = lines(columns, |summary| {
        let is_counted = |it: &&Second| it.stage == Stage::Counted.word();
        let counted = summary.series.iter().filter(is_counted);
        let counted: Vec<Second> = thin(counted);
        let start_s = counted.first().map_or(0.0, |first| first.at_s - first.length_s);
        let points = points_over(&counted, |second| value(summary, second)).into_iter();
        points.map(|(at, it)| (at - start_s, it)).filter(|point| point.1.is_finite()).collect()
    });
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    if lines.is_empty() || most <= 0.0 {
        return None;
    }
    let x = Axis::within(0.0, end, |at| format!("{at}"));
    let y = Axis::linear(most, write);
    Some(Chart { x, y, x_name: "seconds", lines, shaded: Vec::new() }.svg())
}
