//! Which charts a report has, in which order, and what they show. Times lead in the open loop,
//! throughput in the closed one: that is what each is for.

use super::headline_times;
use super::over_time::{SMOOTH_S, Time, points_over, smooth_points, thin, while_it_happens};
use crate::load::record::Stage;
use crate::load::result::STRETCH_S_MIN;
use crate::load::result::expect::{Condition, TimeLimit, Verdict};
use crate::load::result::summary::{OpSummary, Summary};
use crate::load::result::{Second, SecondOp};
use crate::measure::chart::{Axis, Chart, Columns, Dress, HeatMap, Line, Stack, Tick};
use crate::measure::number::{float, group, percent, rate, time_f64};
use crate::measure::page::figure;
use crate::measure::percentiles::CurvePoint;

/// Operations that a chart shows, at most; the rest stand in the tables.
const LINES_MAX: usize = 6;
/// Kinds of errors that have a colour; the rest are one more.
const KINDS_MAX: usize = 5;
/// The page's red.
const RED: usize = 4;

pub(super) fn charts(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let seconds = &thin(&summary.series);
    out.push_str("<section class=\"charts\">");
    if summary.settings.is_closed() {
        throughput_and_errors(out, summary, seconds)?;
        times(out, summary, seconds)?;
    } else {
        times(out, summary, seconds)?;
        throughput_and_errors(out, summary, seconds)?;
    }
    // A line needs two points.
    if seconds.len() > 1 {
        // Streams are as many from the first second to the last.
        if summary.ping.is_none() {
            figure(out, players_title(seconds), "of each second", &players(summary, seconds))?;
        }
        let note = format!("100 % is one of them; means of {SMOOTH_S} s");
        figure(out, "Processors", &note, &processors(summary, seconds))?;
    }
    out.push_str("</section>");
    Ok(())
}

/// How slow it was: over time, in all, and where the times lie.
fn times(out: &mut String, summary: &Summary, seconds: &[Second]) -> std::fmt::Result {
    let ops = || summary.ops.iter().enumerate();
    let Some((index, op)) = ops().find(|(_, op)| op.name == summary.headline) else {
        return Ok(());
    };
    let kind = headline_times(op).1;
    // Failures take time too.
    let has_times = |second: &Second| second.ops.get(index).is_some_and(|op| op.max_ns > 0);
    let mut time = Time::of(seconds, summary.series_unix_ms);
    if op.setup {
        time = time.of_what_counts_always().around(seconds, has_times);
    }
    let is_timed = seconds.iter().any(has_times);
    if seconds.len() > 1 && is_timed {
        let limits = limits(summary, op);
        let (svg, left_out) = times_over_time(&time, time.of_it(seconds), (index, &limits));
        let note = format!("{kind}, logarithmic{left_out}");
        figure(out, &format!("Times of {}", op.name), &note, &svg)?;
    }
    if op.curve.len() > 2 {
        let note = "how slow are the slowest; every nine has the same room";
        figure(out, "Percentiles", note, &curve(op))?;
    }
    if is_timed {
        let note = format!("{} of every second, {kind}", op.name);
        figure(out, "Where the times lie", &note, &heat_map(&time, seconds, &summary.series))?;
    }
    Ok(())
}

fn throughput_and_errors(
    out: &mut String,
    summary: &Summary,
    seconds: &[Second],
) -> std::fmt::Result {
    if seconds.len() < 2 {
        return Ok(());
    }
    if let Some(svg) = throughput(summary, seconds) {
        figure(out, "Throughput", "answered a second", &svg)?;
    }
    if let Some(svg) = errors(summary, seconds) {
        figure(out, "Errors", "a second, by operation and kind", &svg)?;
    }
    Ok(())
}

pub(super) fn chart(
    (time, seconds): (&Time, &[Second]),
    y: Axis,
    lines: Vec<Line>,
    tell: &dyn Fn(f64) -> String,
) -> String {
    let tell_x = |at: f64| time.tell(at);
    let (x, shades) = (time.axis(), time.shades(seconds));
    Chart { x, y, x_name: time.name(), lines, shades, tell: (&tell_x, tell) }.svg()
}

/// One chart; none where all is nought, which is what is not measured, too.
pub(super) fn draw(
    out: &mut String,
    summary: &Summary,
    seconds: &[Second],
    named: (&str, &str, &dyn Fn(f64) -> String),
    lines: Vec<Line>,
) -> std::fmt::Result {
    if most(&lines) <= 0.0 {
        return Ok(());
    }
    draw_measured(out, summary, seconds, named, (lines, 0.0))
}

/// One chart of what is measured, also where all is nought; its axis reaches up to `at_least`.
pub(super) fn draw_measured(
    out: &mut String,
    summary: &Summary,
    seconds: &[Second],
    (title, note, tell): (&str, &str, &dyn Fn(f64) -> String),
    (lines, at_least): (Vec<Line>, f64),
) -> std::fmt::Result {
    let time = Time::of(seconds, summary.series_unix_ms);
    let y = Axis::linear(most(&lines).max(at_least), tell);
    figure(out, title, note, &chart((&time, seconds), y, lines, tell))
}

fn most(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max)
}

pub(super) fn line(name: &str, colour: usize, filled: bool, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), dress: Dress { colour, dash: 0 }, points, filled }
}

/// None if nothing was answered. What players do once is drawn too: it is what happens while they
/// come.
fn throughput(summary: &Summary, seconds: &[Second]) -> Option<String> {
    let is_done = |index: usize| {
        seconds.iter().any(|second| second.ops.get(index).is_some_and(|op| op.done > 0))
    };
    let ops = summary.ops.iter().enumerate().filter(|(index, _)| is_done(*index));
    let mut ops: Vec<(usize, &OpSummary)> = ops.collect();
    ops.sort_by_key(|(_, op)| (op.setup, !op.counted, std::cmp::Reverse(op.done)));
    ops.truncate(LINES_MAX);
    let is_any_done = |second: &Second| {
        ops.iter().any(|(index, _)| second.ops.get(*index).is_some_and(|op| op.done > 0))
    };
    let mut time = Time::of(seconds, summary.series_unix_ms);
    if ops.iter().all(|(_, op)| op.setup) {
        time = time.of_what_counts_always().around(seconds, is_any_done);
    }
    let shown = time.of_it(seconds);
    let per_s = |index: usize, count: fn(&SecondOp) -> u64| {
        let count = move |it: &Second| it.ops.get(index).map_or(0, count);
        // A stop of the loop is to be seen; what players do once just ends.
        let is_once = summary.ops.get(index).is_some_and(|op| op.setup);
        let seconds = if is_once { while_it_happens(shown, |it| count(it) > 0) } else { shown };
        points_over(seconds, |it| float(count(it)) / it.length_s)
    };
    let mut lines: Vec<Line> = Vec::new();
    // Red means errors, and comes last.
    for (colour, (index, op)) in [0, 1, 2, 3, 5, RED].into_iter().zip(&ops) {
        let once = if op.setup { ", once each" } else { "" };
        let name = format!("{}{once}", op.name);
        lines.push(line(&name, colour, ops.len() == 1, per_s(*index, |op| op.done)));
        let is_short = op.failed + op.missed + op.unanswered > 0;
        if is_short
            && !op.setup
            && shown.iter().any(|it| it.ops.get(*index).is_some_and(|op| op.started > 0))
        {
            let mut sent = line(&format!("{} sent", op.name), colour, false, Vec::new());
            sent.dress.dash = 1;
            sent.points = per_s(*index, |op| op.started);
            lines.push(sent);
        }
    }
    lines.extend(summary.headline_op().and_then(|op| due_line(summary, op, shown)));
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let most = most.fold(0.0, f64::max);
    let tell = |per_s: f64| format!("{}/s", rate(per_s));
    (most > 0.0).then(|| chart((&time, shown), Axis::linear(most, per_second), lines, &tell))
}

/// The rate at which operations were due in the counted time: of all that ended or was never sent,
/// in the shape that was asked for. None without a schedule: in the closed loop, of what players do
/// once, and with phases, where it depends on who is there.
fn due_line(summary: &Summary, op: &OpSummary, seconds: &[Second]) -> Option<Line> {
    let settings = &summary.settings;
    let first = settings.rate?;
    let last = settings.rate_end.unwrap_or(first);
    let due = op.response.count.max(op.done + op.failed + op.missed + op.unanswered);
    let has_schedule = !settings.is_closed() && !op.setup && summary.ramp.is_some();
    if !has_schedule || due == 0 || summary.counted_s <= 0.0 || first + last <= 0.0 {
        return None;
    }
    let mean = float(due) / summary.counted_s;
    let counted = while_it_happens(seconds, |it| it.stage == Stage::Counted);
    let (from, until) = (counted.first()?, counted.last()?.at_s);
    let from = from.at_s - from.length_s;
    let per_s = |at: f64| {
        let share = (at - from) / (until - from).max(1e-9);
        (at, mean * 2.0 * (first + (last - first) * share) / (first + last))
    };
    let points = std::iter::once(from).chain(counted.iter().map(|it| it.at_s)).map(per_s);
    let mut line = line(&format!("{} due", op.name), 1, false, points.collect());
    line.dress.dash = 2;
    Some(line)
}

/// None if there was no error. A result of an older version tells of all kinds together.
fn errors(summary: &Summary, seconds: &[Second]) -> Option<String> {
    seconds.iter().find(|second| second.errors > 0)?;
    let has_kinds = seconds.iter().any(|second| !second.errors_by.is_empty());
    let told = if has_kinds { summary.errors.len().min(KINDS_MAX) } else { 0 };
    // Red first; it means errors elsewhere.
    let colours = [RED, 1, 3, 5, 2];
    let kinds = summary.errors.iter().zip(colours).take(told);
    let mut kinds: Vec<(String, usize)> =
        kinds.map(|(error, colour)| (format!("{}: {}", error.op, error.kind), colour)).collect();
    if told == 0 || summary.errors.len() > told {
        kinds.push((if has_kinds { "others" } else { "errors" }.to_owned(), 0));
    }
    let stack = |second: &Second| {
        let mut values = vec![0.0; kinds.len()];
        let all = [(u16::MAX, second.errors)];
        let counts = if has_kinds { &second.errors_by[..] } else { &all[..] };
        for (place, count) in counts {
            let place = usize::from(*place).min(kinds.len() - 1);
            values[place] += float(*count) / second.length_s;
        }
        Stack { from: second.at_s - second.length_s, until: second.at_s, values }
    };
    let stacks: Vec<Stack> = seconds.iter().map(stack).collect();
    let most = stacks.iter().map(|stack| stack.values.iter().sum()).fold(0.0, f64::max);
    let time = Time::of(seconds, summary.series_unix_ms);
    let (tell_x, tell_y) = (|at: f64| time.tell(at), |per_s: f64| format!("{}/s", rate(per_s)));
    let columns = Columns {
        x: time.axis(),
        y: Axis::linear(most, per_second),
        x_name: time.name(),
        kinds,
        stacks,
        shades: time.shades(seconds),
        tell: (&tell_x, &tell_y),
    };
    Some(columns.svg())
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

pub(super) fn log_time(ns: u64) -> f64 {
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

/// A time by its logarithm.
pub(super) fn tell_time(power: f64) -> String {
    time_f64(10_f64.powf(power))
}

pub(super) fn powers_around(values: impl Iterator<Item = f64> + Clone) -> Axis {
    let min = values.clone().fold(f64::INFINITY, f64::min);
    let max = values.fold(0.0, f64::max);
    Axis::powers(if min.is_finite() { min } else { 0.0 }, max, short_time)
}

/// A time of one operation in every second; none where nothing ended.
pub(super) fn times_of(
    seconds: &[Second],
    op: usize,
    ns: impl Fn(&SecondOp) -> u64,
) -> Vec<(f64, f64)> {
    points_over(seconds, |second| match second.ops.get(op) {
        Some(it) if it.max_ns > 0 => log_time(ns(it)),
        _ => f64::NAN,
    })
}

/// A percentile of a second: its name, how many values it needs, its colour, and itself.
type OfSecond = (&'static str, u64, usize, fn(&SecondOp) -> u64);

/// Those that are drawn.
const TIMES: [OfSecond; 6] = [
    ("slowest", 1, RED, |op| op.max_ns),
    ("p99.9", 1_000, 3, |op| op.p999_ns),
    ("p99", 100, 1, |op| op.p99_ns),
    ("p95", 20, 2, |op| op.p95_ns),
    ("p90", 10, 5, |op| op.p90_ns),
    ("p50", 1, 0, |op| op.p50_ns),
];

/// Limits that expectations set to the times that an operation's chart shows.
fn limits(summary: &Summary, op: &OpSummary) -> Vec<TimeLimit> {
    let is_response = op.response.count > 0;
    let limit = |verdict: &Verdict| {
        let condition: Condition = verdict.condition.parse().ok()?;
        condition.time_limit(&op.name, &summary.headline).filter(|it| it.is_response == is_response)
    };
    let mut limits: Vec<TimeLimit> = Vec::new();
    for limit in summary.expectations.iter().filter_map(limit) {
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    limits
}

/// A line at a limit, in the colour of what is limited if that is drawn.
fn limit_line(limit: &TimeLimit, seconds: &[Second]) -> Line {
    let name = match limit.figure {
        "max" => "slowest",
        "p999" => "p99.9",
        other => other,
    };
    let colour = TIMES.iter().find(|it| it.0 == name).map_or(0, |it| it.2);
    let text = format!("limit of {name}: {}", time_f64(limit.ns));
    let mut line = line(&text, colour, false, points_over(seconds, |_| limit.ns.max(1.0).log10()));
    line.dress.dash = 2;
    line
}

/// The chart of the operation at this place with these limits, and what is to be said of percentiles
/// that it leaves out: those of which most seconds have too few values.
fn times_over_time(
    time: &Time,
    seconds: &[Second],
    (op, limits): (usize, &[TimeLimit]),
) -> (String, String) {
    let timed = || seconds.iter().filter_map(|it| it.ops.get(op)).filter(|it| it.max_ns > 0);
    let mut left_out = String::new();
    let mut lines = Vec::new();
    for (name, least, colour, ns) in TIMES {
        let enough = timed().filter(|it| it.done.max(it.started) >= least);
        if 2 * enough.count() < timed().count() {
            left_out = format!("; no {name}: under {} a second", group(least));
        } else if timed().any(|it| ns(it) > 0) {
            lines.push(line(name, colour, false, times_of(seconds, op, ns)));
        }
    }
    lines.extend(limits.iter().map(|it| limit_line(it, seconds)));
    let y = powers_around(lines.iter().flat_map(|line| &line.points).map(|point| point.1));
    (chart((time, seconds), y, lines, &tell_time), left_out)
}

/// Times over percentiles.
fn curve(op: &OpSummary) -> String {
    let points = |ns: fn(&CurvePoint) -> u64| curve_points(&op.curve, ns);
    let mut lines = vec![line("service time", 0, false, points(|it| it.service_ns))];
    if op.response.count > 0 {
        lines.insert(0, line("from the intended start", 1, false, points(|it| it.response_ns)));
        // Where both are the same, both are to be seen.
        lines[1].dress.dash = 1;
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
    let marks = [0.0, 0.5, 0.9, 0.99, 0.999, 0.999_9, 0.999_99];
    let ticks = marks.into_iter().map(|quantile| Tick::new(nines(quantile), percent(quantile)));
    let x = Axis { min: 0.0, max: end, ticks: ticks.filter(|it| it.at <= end + 1e-9).collect() };
    let y = powers_around(points().map(|point| point.1));
    let tell_x = |at: f64| format!("{} within", percent(1.0 - 10_f64.powf(-at)));
    let tell: (&dyn Fn(f64) -> String, &dyn Fn(f64) -> String) = (&tell_x, &tell_time);
    Chart { x, y, x_name: "percentile", lines, shades: Vec::new(), tell }.svg()
}

fn heat_map(time: &Time, thinned: &[Second], series: &[Second]) -> String {
    let mut cells = Vec::new();
    let shown = time.of_it(series);
    for second in shown.iter().filter(|second| second.length_s > STRETCH_S_MIN) {
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
    let tell_x = |at: f64| time.tell(at);
    let tell: (&dyn Fn(f64) -> String, &dyn Fn(f64) -> String) = (&tell_x, &tell_time);
    let shades = time.shades(time.of_it(thinned));
    HeatMap { x: time.axis(), y, x_name: time.name(), cells, unit: "", shades, tell }.svg()
}

/// What is drawn: a chart of one line has no legend.
fn players_title(seconds: &[Second]) -> &'static str {
    let has_sockets = seconds.iter().any(|second| second.sockets > 0);
    if has_sockets { "Players and sockets" } else { "Players" }
}

fn players(summary: &Summary, seconds: &[Second]) -> String {
    let points =
        |count: fn(&Second) -> u32| points_over(seconds, |second| f64::from(count(second)));
    let mut lines = vec![line("players", 0, true, points(|second| second.players))];
    if seconds.iter().any(|second| second.sockets > 0) {
        lines.push(line("sockets", 2, false, points(|second| second.sockets)));
    }
    let most = seconds.iter().map(|second| second.players.max(second.sockets)).max();
    let time = Time::of(seconds, summary.series_unix_ms);
    let y = Axis::linear(f64::from(most.unwrap_or(1)), short);
    chart((&time, seconds), y, lines, &short)
}

fn processors(summary: &Summary, seconds: &[Second]) -> String {
    let points = |share: fn(&Second) -> f64| smooth_points(seconds, |second| share(second) * 100.0);
    let mut lines = vec![line("generator", 3, false, points(|second| second.generator_cpu))];
    if summary.server.is_some() {
        lines.insert(0, line("server", 0, false, points(|second| second.server_cpu)));
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let y = Axis::linear(most.fold(0.0, f64::max), |it| format!("{} %", trim(it)));
    let time = Time::of(seconds, summary.series_unix_ms);
    chart((&time, seconds), y, lines, &|it| format!("{it:.1} %"))
}
