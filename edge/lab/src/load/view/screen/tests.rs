//! Screens of every size, and what may stand on them.

use std::collections::BTreeMap;

use super::{Live, Look, bar, line, screen, span, spark};
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{ErrorCount, Record, Stage};
use crate::load::result::Progress;
use crate::load::result::summary::Summary;
use crate::load::result::{Ramp, Second, SecondOp};

const LOOK: Look = Look { colours: false, columns: 100, rows: 40 };

/// What a run of 20 operations tells, to be changed by a test.
struct Told {
    stage: Stage,
    history: Vec<Second>,
    names: Vec<String>,
    errors: BTreeMap<(u16, Kind), ErrorCount>,
    total: Record,
    summary: Summary,
}

impl Told {
    fn new() -> Self {
        let op = SecondOp { done: 123_456_789, p99_ns: u64::MAX, ..SecondOp::default() };
        let second = Second {
            at_s: 3.0,
            length_s: 1.0,
            stage: Stage::Counted,
            generator_cpu: 0.25,
            ops: vec![op; 20],
            ..Second::default()
        };
        Self {
            stage: Stage::Counted,
            history: vec![second; 100],
            names: (0..20).map(|it| format!("operation number {it}")).collect(),
            errors: BTreeMap::new(),
            total: Record::new(Stage::Counted, 20, 0),
            summary: Summary::default(),
        }
    }

    fn progress(&self) -> Progress<'_> {
        Progress {
            stage: self.stage,
            stage_s: 12.0,
            second: &self.history[self.history.len() - 1],
            history: &self.history,
            op_names: &self.names,
            is_loop_op: &[],
            has_server: true,
            errors: &self.errors,
            total: &self.total,
            summary: &self.summary,
        }
    }

    fn screen(&self, look: Look) -> String {
        screen(&self.progress(), look).join("\n")
    }
}

#[test]
fn no_terminal_is_too_small() {
    let mut told = Told::new();
    told.summary.settings.target = "http://a.host.with.a.very.long.name.example:7350".repeat(3);
    let text = |it: u32| format!("kind {it} {}", "of error ".repeat(30));
    let kind = |it: u32| (0, Kind::new(Cause::Other, text(it)));
    told.errors = (0..9).map(|it| (kind(it), ErrorCount::default())).collect();
    for stage in [Stage::Ramp, Stage::WarmUp, Stage::Counted, Stage::Drain, Stage::Done] {
        told.stage = stage;
        for (columns, rows) in [(0, 0), (1, 1), (20, 5), (40, 60), (79, 24), (80, 24), (300, 99)] {
            let lines = screen(&told.progress(), Look { colours: false, columns, rows });
            assert!(lines.len() <= rows.saturating_sub(1).max(1), "{rows}: {lines:#?}");
            let width = columns.saturating_sub(1).max(super::row::INDENT);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(!lines.concat().contains("NaN") && !line(&told.progress()).contains("NaN"));
        }
    }
}

#[test]
fn a_run_that_ended_early_has_not_counted_what_was_planned() {
    let mut told = Told::new();
    told.stage = Stage::Drain;
    told.summary.settings.planned_s = 600.0;
    told.history.truncate(7);
    assert!(told.screen(LOOK).contains("  7 s counted"), "{}", told.screen(LOOK));
}

#[test]
fn a_low_terminal_keeps_the_busiest_operation_and_what_must_be_seen() {
    let mut told = Told::new();
    for second in &mut told.history {
        second.ops[..19].fill(SecondOp::default());
    }
    for rows in [9, 12, 24] {
        let text = told.screen(Look { rows, ..LOOK });
        for what in ["counted", "operation numbe ", "no errors", "generator 25 % CPU"] {
            assert!(text.contains(what), "{rows}, {what}: {text}");
        }
        assert!(text.contains("123,456,789/s"), "{rows}: {text}");
    }
}

#[test]
fn a_stretch_too_short_for_a_rate_says_nothing_about_processors() {
    let mut told = Told::new();
    let short = Second {
        length_s: 0.003,
        generator_cpu: 0.99,
        server_cpu: 0.99,
        ..told.history[0].clone()
    };
    told.history.push(short);
    assert!(told.screen(LOOK).contains("generator 25 % CPU, in time · server 0 % CPU"));
    assert!(line(&told.progress()).ends_with("generator     –  server     –"));
    // Nor when there is nothing else.
    told.history.drain(..100);
    let text = told.screen(LOOK);
    assert!(text.contains("generator in time") && !text.contains("CPU"), "{text}");
}

#[test]
fn errors_are_told_by_kind_and_cannot_draw() {
    let mut told = Told::new();
    assert!(told.screen(LOOK).contains("no errors"));
    for (count, kind) in [(5, "a"), (3_000, "status\x1b[2J 404"), (7, "b"), (6, "c")] {
        let error = ErrorCount { count, example: String::new() };
        told.errors.insert((1, Kind::new(Cause::Other, kind.to_owned())), error);
    }
    let text = told.screen(LOOK);
    assert!(text.contains("3,018 errors of 4 kinds"), "{text}");
    assert!(text.contains("       3,000  operation number 1: status[2J 404"), "{text}");
    assert!(!text.contains('\x1b') && !text.contains(": a"), "{text}");
}

#[test]
fn time_left_is_told() {
    let mut told = Told::new();
    told.summary.settings.planned_s = 60.0;
    assert!(told.screen(LOOK).contains("12 s of 60 s, 48 s left"), "{}", told.screen(LOOK));
    for (seconds, wanted) in [(0.0, "0 s"), (99.4, "99 s"), (725.0, "12:05 min")] {
        assert_eq!(span(seconds), wanted);
    }
}

#[test]
fn a_screen_is_written_over_the_one_before_and_anew_on_a_terminal_of_another_size() {
    let told = Told::new();
    let mut live = Live::default();
    let lines = screen(&told.progress(), LOOK).len();
    assert!(!live.renew(&told.progress(), LOOK).contains("\x1b[H"));
    let up = format!("\r\x1b[{lines}A");
    assert!(live.renew(&told.progress(), LOOK).contains(&up));
    let narrow = Look { columns: 80, ..LOOK };
    let text = live.renew(&told.progress(), narrow);
    assert!(text.contains("\x1b[H\x1b[2J") && !text.contains(&up));
}

#[test]
fn colours_are_left_out_on_request() {
    let told = Told::new();
    assert!(told.screen(Look { colours: true, ..LOOK }).contains("\x1b[32m"));
    assert!(!told.screen(LOOK).contains('\x1b'));
}

#[test]
fn bars_and_sparklines() {
    for (share, full) in [(2.0, 48), (-1.0, 0), (0.5, 24), (f64::NAN, 0)] {
        let (done, rest) = bar(share, 48);
        assert_eq!((done.chars().count(), rest.chars().count()), (full, 48 - full));
    }
    assert_eq!(spark(&[0.0, 50.0, 100.0]), "▁▅█");
}

#[test]
fn the_title_counts_those_who_were_there() {
    let mut told = Told::new();
    told.summary.settings.players = 100;
    told.history[7].players = 121;
    let title = |told: &Told| told.screen(LOOK).lines().nth(1).unwrap().to_owned();
    assert!(title(&told).contains("121 players"), "{}", title(&told));
    // Without phases players have come in a ramp, and all of them were asked for.
    told.summary.ramp = Some(Ramp::default());
    assert!(title(&told).contains("100 players"), "{}", title(&told));
}
