//! The live screen: what a person wants to see while a run lasts, as lines of text. Colours are
//! ANSI's basic ones, so that they follow the terminal's own. Where the lines go is the caller's.

use std::fmt::Write as _;

use super::record::Stage;
use super::run::Progress;
use super::summary::{Second, float};
use super::table::{bits, group, rate, time};

/// Operations that have a line of their own; the busiest ones.
const OPS_MAX: usize = 8;
/// Seconds that a sparkline shows.
const SPARK_S: usize = 48;
const BAR: usize = 48;

/// How the screen may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether colours are possible.
    pub colours: bool,
}

impl Look {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}

/// The whole screen; every line is at most 100 characters wide.
#[must_use]
pub fn screen(progress: &Progress<'_>, look: Look) -> Vec<String> {
    let mut lines =
        vec![String::new(), title(progress, look), stage(progress, look), String::new()];
    let second = progress.second;
    let window: Vec<&Second> =
        progress.history.iter().rev().take(SPARK_S).filter(|it| it.length_s > 0.2).collect();
    lines.push(format!(
        "  {}  {}",
        look.dim("answered/s "),
        look.paint("36", &sparkline(window.iter().rev().map(|it| answered(it))))
    ));
    lines.push(String::new());
    lines.push(look.dim(&format!(
        "  {:<16}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "", "rate", "p50", "p99", "slowest", "late p99"
    )));
    let mut ops: Vec<usize> = (0..second.ops.len()).collect();
    ops.sort_by_key(|op| {
        std::cmp::Reverse(progress.history.iter().map(|it| it.ops[*op].done).sum::<u64>())
    });
    ops.truncate(OPS_MAX);
    ops.sort_unstable();
    for op in ops {
        lines.push(operation(progress, op));
    }
    lines.push(String::new());
    lines.push(people(progress, look));
    lines.push(machines(progress, look));
    lines
}

fn title(progress: &Progress<'_>, look: Look) -> String {
    let summary = progress.summary;
    let settings = &summary.settings;
    let how = match (settings.saturate, settings.rate) {
        (true, _) => "closed loop".to_owned(),
        (false, Some(rate)) => format!("{rate}/s"),
        (false, None) => "open loop".to_owned(),
    };
    format!(
        "  {}  {}",
        look.bold(&summary.scenario),
        look.dim(&format!(
            "{} players · {how} · {}",
            group(u64::from(settings.players)),
            settings.target
        ))
    )
}

fn stage(progress: &Progress<'_>, look: Look) -> String {
    let planned_s = match progress.stage {
        Stage::WarmUp => progress.summary.settings.warm_up_s,
        Stage::Counted => progress.summary.settings.planned_s,
        _ => 0.0,
    };
    let (share, text) = match progress.stage {
        Stage::Ramp => {
            let players = float(u64::from(progress.summary.settings.players.max(1)));
            let ready = f64::from(progress.second.ready);
            (ready / players, format!("{ready:.0} of {players:.0}"))
        }
        _ if planned_s > 0.0 => {
            let at_s = progress.stage_s.min(planned_s);
            (at_s / planned_s, format!("{at_s:.0} of {planned_s:.0} s"))
        }
        _ => (1.0, String::new()),
    };
    let colour = if progress.stage == Stage::Counted { "32" } else { "33" };
    format!(
        "  {:<13}{}  {}",
        progress.stage.word(),
        look.paint(colour, &bar(share)),
        look.dim(&text)
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
#[expect(clippy::cast_precision_loss, reason = "a small constant")]
fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "━".repeat(full), "╌".repeat(BAR - full))
}

fn answered(second: &Second) -> f64 {
    float(second.ops.iter().map(|op| op.done).sum()) / second.length_s.max(1e-9)
}

/// Eight heights from 0 to the highest value.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn sparkline(values: impl Iterator<Item = f64>) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let values: Vec<f64> = values.collect();
    let most = values.iter().copied().fold(1.0, f64::max);
    values.iter().map(|value| HEIGHTS[((value / most * 7.0).round() as usize).min(7)]).collect()
}

fn operation(progress: &Progress<'_>, op: usize) -> String {
    let second = progress.second;
    let it = &second.ops[op];
    let name = progress.op_names.get(op).map_or("", |name| name);
    let short: String = name.chars().take(15).collect();
    let per_s = if second.length_s > 0.0 { float(it.done) / second.length_s } else { 0.0 };
    let late =
        if progress.summary.settings.saturate { "–".to_owned() } else { time(it.late_p99_ns) };
    format!(
        "  {short:<16}{:>10}/s{:>12}{:>12}{:>12}{late:>12}",
        rate(per_s),
        time(it.p50_ns),
        time(it.p99_ns),
        time(it.max_ns),
    )
}

fn people(progress: &Progress<'_>, look: Look) -> String {
    let second = progress.second;
    let errors: u64 = progress.history.iter().map(|it| it.errors).sum();
    let errors_text = format!("errors {}", group(errors));
    let errors_text =
        if errors > 0 { look.paint("31;1", &errors_text) } else { look.paint("32", &errors_text) };
    format!(
        "  players {} · connections {} · sockets {} · {errors_text}",
        group(u64::from(second.players)),
        group(u64::from(second.connections)),
        group(u64::from(second.sockets)),
    )
}

fn machines(progress: &Progress<'_>, look: Look) -> String {
    let second = progress.second;
    let length_s = second.length_s.max(1e-9);
    let late_ns = second.ops.iter().map(|op| op.late_p99_ns).max().unwrap_or(0);
    let share = second.generator_cpu * 100.0;
    let health = if share > 95.0 && !progress.summary.settings.saturate {
        look.paint("31;1", "its processor is full")
    } else if late_ns > super::summary::LATENESS_NS_MAX {
        look.paint("33", "sends late")
    } else {
        look.paint("32", "in time")
    };
    let mut line = format!("  generator {share:.0} % CPU, {health}");
    if progress.has_server {
        let _ = write!(line, " · server {:.0} % CPU", second.server_cpu * 100.0);
    }
    let rate_of = |bytes: u64| bits(float(bytes) * 8.0 / length_s);
    let _ = write!(
        line,
        " · {}",
        look.dim(&format!(
            "↑ {}  ↓ {}",
            rate_of(second.sent_bytes),
            rate_of(second.received_bytes)
        ))
    );
    line
}

/// One line a second, for logs.
#[must_use]
pub fn line(progress: &Progress<'_>) -> String {
    let second = progress.second;
    let p99_ns = second.ops.iter().map(|op| op.p99_ns).max().unwrap_or(0);
    let mut line = format!(
        "{:>6.0} s  {:<12}  {:>10}/s  p99 {:>8}  players {:>6}  errors {:>4}  generator {:>3.0} %",
        second.at_s,
        progress.stage.word(),
        rate(answered(second)),
        time(p99_ns),
        second.players,
        second.errors,
        second.generator_cpu * 100.0,
    );
    if progress.has_server {
        let _ = write!(line, "  server {:>3.0} %", second.server_cpu * 100.0);
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
mod tests {
    use super::{Look, bar, line, screen, sparkline};
    use crate::load::record::Stage;
    use crate::load::run::Progress;
    use crate::load::summary::{Second, SecondOp, Summary};

    #[test]
    fn lines_fit_and_nothing_divides_by_zero() {
        let second = Second {
            at_s: 3.0,
            ops: vec![SecondOp { done: 123_456_789, p99_ns: u64::MAX, ..SecondOp::default() }; 20],
            ..Second::default()
        };
        let history = vec![second.clone(); 100];
        let names: Vec<String> = (0..20).map(|it| format!("operation number {it}")).collect();
        for stage in [Stage::Ramp, Stage::Counted, Stage::Done] {
            let progress = Progress {
                stage,
                stage_s: 5.0,
                second: &second,
                history: &history,
                op_names: &names,
                has_server: true,
                summary: &Summary::default(),
            };
            let lines = screen(&progress, Look { colours: false });
            assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
            assert!(!lines.concat().contains("NaN") && !line(&progress).contains("NaN"));
        }
    }

    #[test]
    fn bars_and_sparklines() {
        assert_eq!(bar(2.0).chars().filter(|c| *c == '━').count(), 48);
        assert_eq!(bar(-1.0).chars().count(), 48);
        assert_eq!(sparkline([0.0, 50.0, 100.0].into_iter()), "▁▅█");
    }
}
