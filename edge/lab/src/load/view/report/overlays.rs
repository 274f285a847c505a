//! The charts of a comparison: the columns of a section over one another or side by side. Every
//! round is drawn. A side, which is what was run on, has one colour in all sections of the page.

use super::charts::{
    curve_points, per_second, percentile_chart, powers_around, short, tell_time, times_of,
};
use super::over_time::{elapsed, points_over, thin};
use crate::load::record::Stage;
use crate::load::result::Second;
use crate::load::result::figures;
use crate::load::result::summary::{OpSummary, Summary};
use crate::load::view::compare::{Column, Section, Value, is_about_coming, over, shares};
use crate::measure::chart::{Axis, Bar, Bars, COLOURS, Chart, Dress, Line, Shade, legend};
use crate::measure::number::{bits, bytes_f64, float, group_f64, rate, time_f64};
use crate::measure::page::{Mood, banner, figure};

/// Columns that charts show, at most; the rest stand in the table.
const COLUMNS_MAX: usize = 2 * COLOURS;
/// Operations whose percentiles are drawn, at most.
const OPS_MAX: usize = 4;
/// Powers of ten that a histogram shows, at most: from nanoseconds to hours are thirteen.
const DECADES_MAX: u16 = 14;

pub(super) fn charts(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    let drawn = &section.columns[..section.columns.len().min(COLUMNS_MAX)];
    if drawn.len() < section.columns.len() {
        let text = format!("The charts show the first {COLUMNS_MAX} columns of the table.");
        banner(out, Mood::Note, "", &text)?;
    }
    out.push_str("<section class=\"charts bars\">");
    bars(out, section, drawn)?;
    out.push_str("</section><section class=\"charts\">");
    if section.is_flow() {
        goodput(out, drawn)?;
    } else if section.is_closed {
        throughput(out, drawn)?;
        times(out, section, drawn)?;
        histogram(out, section, drawn)?;
    } else {
        times(out, section, drawn)?;
        histogram(out, section, drawn)?;
        throughput(out, drawn)?;
    }
    out.push_str("</section>");
    Ok(())
}

/// Colours and names of all sides of a page, if there is more than one.
pub(super) fn legend_of_sides(out: &mut String, sections: &[Section<'_>]) {
    let mut sides: Vec<(&str, Dress)> = Vec::new();
    for column in sections.iter().flat_map(|section| &section.columns) {
        let dress = Dress { dash: 0, ..dress(column) };
        let name = column.runs.first().map_or("", |run| &run.name);
        if !sides.iter().any(|side| side.0 == name) {
            sides.push((name, dress));
        }
    }
    if sides.len() > 1 && sides.len() <= COLOURS {
        legend(out, &sides, false);
    }
}

/// A column's colour, to stand before its name.
pub(super) fn chip(column: &Column<'_>) -> String {
    format!("<i style=\"color:var(--s{})\"></i>", dress(column).colour)
}

/// Shares of the headline operation's times, a line for each column.
fn histogram(out: &mut String, section: &Section<'_>, drawn: &[Column<'_>]) -> std::fmt::Result {
    let line = |column: &Column<'_>| {
        let shares = shares(column);
        let (first, last) = (*shares.keys().next()?, *shares.keys().next_back()?);
        // Steps: what is between two edges has one height.
        let step = |tenth: u16| {
            let share = 100.0 * shares.get(&tenth).copied().unwrap_or(0.0);
            [(f64::from(tenth) / 10.0, share), (f64::from(tenth + 1) / 10.0, share)]
        };
        let points: Vec<_> = (first..=last.min(first + DECADES_MAX * 10)).flat_map(step).collect();
        let invalid = if column.is_valid() { "" } else { "INVALID: " };
        let name = format!("{invalid}{}", column.name);
        Some(Line { name, dress: dress(column), points, filled: true })
    };
    let lines: Vec<Line> = drawn.iter().filter_map(line).collect();
    if lines.is_empty() {
        return Ok(());
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = powers_around(points().map(|point| point.0));
    let percent = |it: f64| format!("{it} %");
    let y = Axis::linear(points().map(|point| point.1).fold(0.0, f64::max), percent);
    let tell_share = |it: f64| format!("{it:.2} %");
    let tell: (&dyn Fn(f64) -> String, &dyn Fn(f64) -> String) = (&tell_time, &tell_share);
    let svg = Chart { x, y, x_name: "time, logarithmic", lines, shades: Vec::new(), tell }.svg();
    let kind = if section.is_closed { "service time" } else { "from the intended start" };
    let note = format!("{kind}: share of all in each tenth of a decade, all rounds of a column");
    figure(out, "Histogram", &note, &svg)
}

fn times(out: &mut String, section: &Section<'_>, drawn: &[Column<'_>]) -> std::fmt::Result {
    let ops = if is_about_coming(section) { section.counted_ops() } else { section.loop_ops() };
    let kind = if section.is_closed { "service time" } else { "from the intended start" };
    for name in ops.iter().take(OPS_MAX) {
        if let Some(svg) = curves(drawn, name, section.is_closed) {
            figure(out, &format!("Percentiles of {name}"), kind, &svg)?;
        }
    }
    let of_loop = section.loop_ops();
    for name in of_loop.iter().take(1) {
        let p99 = |summary: &Summary, seconds: &[Second]| {
            let op = summary.ops.iter().position(|op| op.name == **name);
            op.map_or(Vec::new(), |op| times_of(seconds, op, |it| it.p99_ns))
        };
        let axis = |points: &Points| powers_around(points.iter().map(|point| point.1));
        if let Some(svg) = over_time(drawn, &p99, &axis, &tell_time) {
            let note = format!("{kind}, of every second; logarithmic");
            figure(out, &format!("99th percentile of {name}"), &note, &svg)?;
        }
    }
    Ok(())
}

fn throughput(out: &mut String, drawn: &[Column<'_>]) -> std::fmt::Result {
    let answered = |summary: &Summary, seconds: &[Second]| {
        points_over(seconds, |second| answered(summary, second))
    };
    let per_s = |it: f64| format!("{}/s", rate(it));
    if let Some(svg) = over_time(drawn, &answered, &|points| linear(points, per_second), &per_s) {
        return figure(out, "Throughput", "answered a second", &svg);
    }
    let players =
        |_: &Summary, seconds: &[Second]| points_over(seconds, |it| f64::from(it.players));
    match over_time(drawn, &players, &|points| linear(points, short), &short) {
        Some(svg) => figure(out, "Players", "present", &svg),
        None => Ok(()),
    }
}

/// Of flows: what was received.
fn goodput(out: &mut String, drawn: &[Column<'_>]) -> std::fmt::Result {
    let received = |_: &Summary, seconds: &[Second]| {
        points_over(seconds, |second| 8.0 * float(second.received_bytes) / second.length_s)
    };
    match over_time(drawn, &received, &|points| linear(points, bits), &bits) {
        Some(svg) => figure(out, "Goodput", "of every second", &svg),
        None => Ok(()),
    }
}

fn linear(points: &[(f64, f64)], write: fn(f64) -> String) -> Axis {
    Axis::linear(points.iter().map(|point| point.1).fold(0.0, f64::max), write)
}

fn bars(out: &mut String, section: &Section<'_>, drawn: &[Column<'_>]) -> std::fmt::Result {
    let mut draw = |title: &str, note, write, value: &Value<'_>| {
        bar_chart(drawn, write, value).map_or(Ok(()), |svg| figure(out, title, note, &svg))
    };
    let per_s = |value: f64| format!("{}/s", rate(value));
    if section.is_flow() {
        draw("Goodput", "received; longer is better", bits, &figures::goodput)?;
        let note = "of the receiver; shorter is better";
        draw("CPU a byte", note, time_f64, &figures::cpu_per_byte)?;
        let note = "datagrams per CPU-second of the receiver; longer is better";
        return draw("Efficiency", note, group_f64, &figures::datagrams_per_cpu_s);
    }
    if section.is_closed {
        draw("Throughput", "answered; longer is better", per_s, &figures::answered_per_s)?;
    } else if !is_about_coming(section) {
        let note = "from the intended start; shorter is better";
        draw("99th percentile", note, time_f64, &figures::response_p99)?;
    }
    let note = "operations per CPU-second of the server; longer is better";
    draw("Efficiency", note, group_f64, &figures::ops_per_cpu_s)?;
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
    let bar = |column: &Column<'_>| {
        let it = over(column, value)?;
        let cell = it.cell(write);
        let invalid = if column.is_valid() { "" } else { "INVALID: " };
        Some(Bar {
            label: format!("{invalid}{}", column.name),
            text: cell.line(),
            dress: dress(column),
            value: it.median,
            lowest: it.lowest,
            highest: it.highest,
            is_invalid: !column.is_valid(),
        })
    };
    let bars: Vec<Bar> = columns.iter().filter_map(bar).collect();
    (!bars.is_empty()).then(|| Bars { bars }.svg())
}

/// What a column looks like: the colour is its side's. The page's red comes last, because it means
/// errors elsewhere.
fn dress(column: &Column<'_>) -> Dress {
    let colour = match column.side % COLOURS {
        4 => 5,
        5 => 4,
        colour => colour,
    };
    Dress { colour, dash: column.side / COLOURS + column.variant }
}

/// A line for each run, a name for each column.
fn lines<'a>(
    columns: &'a [Column<'_>],
    points: impl Fn(&'a Summary) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for column in columns {
        let invalid = if column.is_valid() { "" } else { "INVALID: " };
        let mut name = format!("{invalid}{}", column.name);
        for run in &column.runs {
            let points = points(&run.summary);
            if points.len() > 1 {
                let (name, dress) = (std::mem::take(&mut name), dress(column));
                lines.push(Line { name, dress, points, filled: false });
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

/// Points of a line.
type Points = Vec<(f64, f64)>;

/// Lines over the seconds since counting began; what was before it is drawn too, and shaded.
fn over_time(
    columns: &[Column<'_>],
    points: &dyn Fn(&Summary, &[Second]) -> Points,
    axis: &dyn Fn(&Points) -> Axis,
    tell: &dyn Fn(f64) -> String,
) -> Option<String> {
    let start = |summary: &Summary| {
        let counted = summary.series.iter().find(|it| it.stage == Stage::Counted)?;
        Some(counted.at_s - counted.length_s)
    };
    let lines = lines(columns, |summary| {
        let Some(start_s) = start(summary) else { return Vec::new() };
        // Answers that are waited for at the end come from nothing that is still asked.
        let asked = summary.series.iter().filter(|it| it.stage <= Stage::Counted);
        let points = points(summary, &thin(asked)).into_iter();
        points.map(|(at, it)| (at - start_s, it)).filter(|point| point.1.is_finite()).collect()
    });
    let all: Points = lines.iter().flat_map(|line| &line.points).copied().collect();
    let from = all.iter().map(|point| point.0).fold(0.0, f64::min);
    let until = all.iter().map(|point| point.0).fold(0.0, f64::max);
    if !all.iter().any(|point| point.1 > 0.0) {
        return None;
    }
    let x = Axis::seconds(from, until);
    let is_long = Axis::is_in_minutes(until - from);
    let x_name =
        if is_long { "minutes since counting began" } else { "seconds since counting began" };
    let shades = if from < 0.0 {
        vec![Shade { from, until: 0.0, name: "before counting" }]
    } else {
        Vec::new()
    };
    let tell_x = |at: f64| elapsed(at, is_long);
    Some(Chart { x, y: axis(&all), x_name, lines, shades, tell: (&tell_x, tell) }.svg())
}
