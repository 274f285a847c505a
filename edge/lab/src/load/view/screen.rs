//! The live screen: what a person wants to see while a run lasts. Colours are ANSI's basic ones, so
//! that they follow the terminal's own.
//!
//! A run's progress goes in, text for the terminal comes out: [`Live`] writes a screen over the one
//! before it, [`line()`] a line for logs. No line is wider than the terminal, and none comes in
//! parts: what is too long is cut. Writing it out is the caller's.

mod row;

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use row::Row;

use crate::load::record::Stage;
use crate::load::result::validity::LATENESS_NS_MAX;
use crate::load::result::{Progress, STRETCH_S_MIN, Second};
use crate::measure::number::{bits, float, group, rate, time};

/// Operations that have a line of their own; the busiest ones.
const OPS_MAX: usize = 8;
/// Lines that are neither blank nor of an operation or an error: title, stage, rates, the table's
/// head, players, machines.
const LINES_BESIDE: usize = 6;
/// Kinds of errors that are told one by one; the most frequent ones.
const ERROR_KINDS_MAX: usize = 3;
/// Columns of bars and sparklines, at most and at least.
const BAR_COLUMNS: std::ops::RangeInclusive<usize> = 8..=60;
/// Columns beside a bar: its name before it, its figures behind it.
const BESIDE_BAR: usize = 45;

/// How a screen may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether colours are wanted.
    pub colours: bool,
    /// Width of the terminal in characters.
    pub columns: usize,
    /// Height of the terminal in lines.
    pub rows: usize,
}

impl Look {
    /// Of the terminal that standard error is; none if it is none, or one that cannot move its
    /// cursor. To be asked again for each screen, because people resize terminals.
    ///
    /// Source: no-color.org for `NO_COLOR`.
    #[must_use]
    pub fn of_stderr() -> Option<Self> {
        let stderr = std::io::stderr();
        if !stderr.is_terminal() || std::env::var_os("TERM").is_none_or(|term| term == "dumb") {
            return None;
        }
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let size = rustix::termios::tcgetwinsize(&stderr).ok();
        let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
        // Terminals that do not know their size say 0.
        let or = |size: u16, otherwise| if size == 0 { otherwise } else { usize::from(size) };
        Some(Self { colours, columns: or(columns, 80), rows: or(rows, 24) })
    }
}

/// A screen that is written again and again over itself.
#[derive(Debug, Default)]
pub struct Live {
    /// Of the screen that stands there.
    lines: usize,
    look: Option<Look>,
}

impl Live {
    /// What to write so that the new screen stands where the old one stood.
    pub fn renew(&mut self, progress: &Progress<'_>, look: Look) -> String {
        let lines = screen(progress, look);
        // Without wrapping, a character that is wider than we think cannot break the picture.
        let mut text = String::from("\x1b[?7l");
        match self.look {
            // How a terminal folds what stood there is its own affair: begin anew.
            Some(before) if before != look => text.push_str("\x1b[H\x1b[2J"),
            Some(_) => text.extend(["\r\x1b[", &self.lines.to_string(), "A"]),
            None => {}
        }
        for line in &lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J\x1b[?7h");
        self.lines = lines.len();
        self.look = Some(look);
        text
    }
}

/// The whole screen; no line is wider than the terminal, and it is not higher.
#[must_use]
pub fn screen(progress: &Progress<'_>, look: Look) -> Vec<String> {
    let second = shown(progress);
    let errors = errors(progress, look);
    // The line below the last one has to be visible too.
    let rows_max = look.rows.saturating_sub(1).max(1);
    let ops_max = rows_max.saturating_sub(LINES_BESIDE + errors.len()).clamp(1, OPS_MAX);
    let mut lines = vec![Row::new(look), title(progress, look), stage(progress, look)];
    lines.push(Row::new(look));
    lines.push(sparkline(progress, look));
    lines.push(Row::new(look));
    lines.extend(operations(progress, second, ops_max, look));
    lines.push(Row::new(look));
    lines.push(people(progress, look));
    lines.extend(errors);
    lines.push(machines(progress, second, look));
    while lines.len() > rows_max
        && let Some(blank) = lines.iter().rposition(Row::is_empty)
    {
        lines.remove(blank);
    }
    lines.truncate(rows_max);
    lines.into_iter().map(Row::finish).collect()
}

/// The stretch whose figures are shown: the last one that is long enough, and once the counting is
/// over, the last that counted.
fn shown<'a>(progress: &Progress<'a>) -> &'a Second {
    let is_over = matches!(progress.stage, Stage::Drain | Stage::Done);
    let long = || progress.history.iter().rev().filter(|it| it.length_s >= STRETCH_S_MIN);
    let counted = long().find(|it| is_over && it.stage == Stage::Counted);
    counted.or_else(|| long().next()).unwrap_or(progress.second)
}

fn title(progress: &Progress<'_>, look: Look) -> Row {
    let summary = progress.summary;
    let settings = &summary.settings;
    let how = settings.loop_words();
    let mut row = Row::new(look);
    row.push("1", &summary.scenario);
    let actors = summary.actors(most_players(progress));
    row.push("2", &format!("  {actors} · {how} · {}", settings.target));
    row
}

/// Those who were asked for; with phases, which ask for none, the most that were present.
fn most_players(progress: &Progress<'_>) -> u32 {
    let present = progress.history.iter().map(|second| second.players).max();
    let has_phases = progress.stage != Stage::Ramp && progress.summary.ramp.is_none();
    present.filter(|_| has_phases).unwrap_or(progress.summary.settings.players)
}

fn stage(progress: &Progress<'_>, look: Look) -> Row {
    let settings = &progress.summary.settings;
    let planned_s = match progress.stage {
        Stage::WarmUp => settings.warm_up_s,
        Stage::Counted => settings.planned_s,
        _ => 0.0,
    };
    let (share, text) = match progress.stage {
        Stage::Ramp => {
            let players = u64::from(settings.players);
            let ready = u64::from(progress.second.ready);
            let share = float(ready) / float(players.max(1));
            (share, format!("{} of {} players ready", group(ready), group(players)))
        }
        Stage::Drain | Stage::Done => {
            let is_counted = |it: &&Second| it.stage == Stage::Counted;
            let counted = progress.history.iter().filter(is_counted).map(|it| it.length_s);
            // Not a sum: that of nothing is -0.
            (1.0, format!("{} counted", span(counted.fold(0.0, |sum, it| sum + it))))
        }
        _ if planned_s > 0.0 => {
            let at_s = progress.stage_s.clamp(0.0, planned_s);
            let left = span((planned_s - at_s).ceil());
            (at_s / planned_s, format!("{} of {}, {left} left", span(at_s), span(planned_s)))
        }
        _ => (1.0, String::new()),
    };
    let colour = match progress.stage {
        Stage::Counted | Stage::Drain | Stage::Done => "32",
        _ => "33",
    };
    let mut row = Row::new(look);
    row.push("", &format!("{:<13}", progress.stage.word()));
    let (full, rest) = bar(share, bar_columns(look));
    row.push(colour, &full);
    row.push("2", &rest);
    row.push("2", &format!("  {text}"));
    row
}

/// 48 s, 12:05 min.
fn span(seconds: f64) -> String {
    if seconds < 100.0 {
        return format!("{seconds:.0} s");
    }
    format!("{:.0}:{:02.0} min", (seconds / 60.0).floor(), (seconds % 60.0).floor())
}

fn bar_columns(look: Look) -> usize {
    look.columns.saturating_sub(BESIDE_BAR).clamp(*BAR_COLUMNS.start(), *BAR_COLUMNS.end())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
#[expect(clippy::cast_precision_loss, reason = "a terminal's width")]
fn bar(share: f64, columns: usize) -> (String, String) {
    let full = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    ("━".repeat(full), "╌".repeat(columns - full.min(columns)))
}

fn answered(second: &Second) -> f64 {
    float(second.ops.iter().map(|op| op.done).sum()) / second.length_s.max(1e-9)
}

fn sparkline(progress: &Progress<'_>, look: Look) -> Row {
    let long = progress.history.iter().rev().filter(|it| it.length_s >= STRETCH_S_MIN);
    let mut values: Vec<f64> = long.take(bar_columns(look)).map(answered).collect();
    values.reverse();
    let highest = values.iter().copied().fold(0.0, f64::max);
    let mut row = Row::new(look);
    row.push("2", &format!("{:<13}", "answered"));
    row.push("36", &spark(&values));
    row.push("2", &format!("  highest {}/s", rate(highest)));
    row
}

/// Eight heights from 0 to the highest value.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn spark(values: &[f64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(1.0, f64::max);
    values.iter().map(|value| HEIGHTS[((value / most * 7.0).round() as usize).min(7)]).collect()
}

fn operations(progress: &Progress<'_>, second: &Second, ops_max: usize, look: Look) -> Vec<Row> {
    let mut ops: Vec<usize> = (0..second.ops.len()).collect();
    let sum = |op: usize| -> u64 {
        progress.history.iter().filter_map(|it| it.ops.get(op)).map(|it| it.done).sum()
    };
    ops.sort_by_cached_key(|op| std::cmp::Reverse(sum(*op)));
    ops.truncate(ops_max);
    ops.sort_unstable();
    let mut head = Row::new(look);
    let heads = ["rate", "p50", "p99", "slowest", "late p99"].map(str::to_owned);
    head.push("2", &table_line("", &heads, look));
    let rows = ops.into_iter().map(|op| operation(progress, second, op, look));
    std::iter::once(head).chain(rows).collect()
}

fn operation(progress: &Progress<'_>, second: &Second, op: usize, look: Look) -> Row {
    let it = second.ops.get(op).copied().unwrap_or_default();
    let name = progress.op_names.get(op).map_or("", |name| name);
    let short: String = name.chars().take(15).collect();
    let per_s = if second.length_s > 0.0 { float(it.done) / second.length_s } else { 0.0 };
    // In a second without answers there is no time to tell.
    let or_dash = |has: bool, ns: u64| if has { time(ns) } else { "–".to_owned() };
    let is_answered = it.done > 0 || it.max_ns > 0;
    let is_open = !progress.summary.settings.saturate;
    let mut row = Row::new(look);
    let figures = [
        format!("{}/s", rate(per_s)),
        or_dash(is_answered, it.p50_ns),
        or_dash(is_answered, it.p99_ns),
        or_dash(is_answered, it.max_ns),
        or_dash(is_answered && is_open, it.late_p99_ns),
    ];
    row.push(if per_s > 0.0 { "" } else { "2" }, &table_line(&short, &figures, look));
    row
}

/// A name and the figures behind it that fit in whole.
fn table_line(name: &str, figures: &[String], look: Look) -> String {
    const NAME_COLUMNS: usize = 16;
    const FIGURE_COLUMNS: usize = 12;
    let room = look.columns.saturating_sub(1 + row::INDENT + NAME_COLUMNS);
    let fitting = figures.iter().take((room / FIGURE_COLUMNS).max(1));
    let mut line = format!("{name:<NAME_COLUMNS$}");
    for figure in fitting {
        // Writing to a String cannot fail.
        let _ = write!(line, "{figure:>FIGURE_COLUMNS$}");
    }
    line
}

fn people(progress: &Progress<'_>, look: Look) -> Row {
    let second = progress.second;
    let mut row = Row::new(look);
    row.push(
        "",
        &format!(
            "players {} · connections {} · sockets {}",
            group(u64::from(second.players)),
            group(u64::from(second.connections)),
            group(u64::from(second.sockets)),
        ),
    );
    row
}

fn errors(progress: &Progress<'_>, look: Look) -> Vec<Row> {
    let mut kinds: Vec<(u64, u16, &str)> =
        progress.errors.iter().map(|((op, kind), it)| (it.count, *op, &*kind.text)).collect();
    kinds.sort_by(|a, b| b.0.cmp(&a.0).then(a.2.cmp(b.2)));
    let count: u64 = kinds.iter().map(|kind| kind.0).sum();
    let mut head = Row::new(look);
    match count {
        0 => head.push("32", "no errors"),
        1 => head.push("31;1", "1 error"),
        count => head.push("31;1", &format!("{} errors", group(count))),
    }
    if kinds.len() > ERROR_KINDS_MAX {
        head.push("2", &format!(" of {} kinds, the most frequent:", kinds.len()));
    }
    let tell = |(count, op, kind): &(u64, u16, &str)| {
        let op = progress.op_names.get(usize::from(*op)).map_or("-", |name| name);
        let mut row = Row::new(look);
        row.push("31", &format!("{:>12}  ", group(*count)));
        row.push("", &format!("{op}: {kind}"));
        row
    };
    let told = kinds.iter().take(ERROR_KINDS_MAX).map(tell);
    std::iter::once(head).chain(told).collect()
}

fn machines(progress: &Progress<'_>, second: &Second, look: Look) -> Row {
    let length_s = second.length_s.max(1e-9);
    let late_ns = second.ops.iter().map(|op| op.late_p99_ns).max().unwrap_or(0);
    let mut row = Row::new(look);
    row.push("", "generator ");
    let is_long = second.length_s >= STRETCH_S_MIN;
    let share = second.generator_cpu * 100.0;
    if is_long {
        row.push("", &format!("{share:.0} % CPU, "));
    }
    let most = 95.0 * f64::from(progress.summary.generator.processors.max(1));
    if is_long && share > most && !progress.summary.settings.saturate {
        row.push("31;1", "its processor is full");
    } else if late_ns > LATENESS_NS_MAX {
        row.push("33", "sends late");
    } else {
        row.push("32", "in time");
    }
    if progress.has_server && is_long {
        row.push("", &format!(" · server {:.0} % CPU", second.server_cpu * 100.0));
    }
    let rate_of = |bytes: u64| bits(float(bytes) * 8.0 / length_s);
    let (sent, received) = (rate_of(second.sent_bytes), rate_of(second.received_bytes));
    row.push("2", &format!(" · ↑ {sent}  ↓ {received}"));
    row
}

/// One line a second, for logs.
#[must_use]
pub fn line(progress: &Progress<'_>) -> String {
    let second = progress.second;
    let p99_ns = second.ops.iter().map(|op| op.p99_ns).max().unwrap_or(0);
    let is_long = second.length_s >= STRETCH_S_MIN;
    let cpu =
        |share: f64| if is_long { format!("{:.0} %", share * 100.0) } else { "–".to_owned() };
    let who = if progress.summary.ping.is_some() { "streams" } else { "players" };
    let mut line = format!(
        "{:>6.0} s  {:<12}  {:>10}/s  p99 {:>8}  {who} {:>6}  errors {:>4}  generator {:>5}",
        second.at_s,
        progress.stage.word(),
        rate(answered(second)),
        time(p99_ns),
        second.players,
        second.errors,
        cpu(second.generator_cpu),
    );
    if progress.has_server {
        // Writing to a String cannot fail.
        let _ = write!(line, "  server {:>5}", cpu(second.server_cpu));
    }
    if progress.stage == Stage::Ramp {
        let _ = write!(line, "  ready {}", group(u64::from(second.ready)));
    }
    if !second.note.is_empty() {
        let _ = write!(line, "\n{}", second.note);
    }
    line
}

#[cfg(test)]
mod tests;
