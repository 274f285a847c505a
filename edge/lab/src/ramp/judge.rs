//! From steps to what a gate says: a number of servers passes if every server passed in every repeat that
//! counts.

use super::gate::{Gate, Metric, Verdict};
use super::result::{GateResult, RampResult, Settings, Step};
use crate::measure::number::float;

/// What a gate says of a step: its worst server.
pub(super) fn judge<'a>(gate: &Gate, step: &'a Step) -> (Verdict, &'a str) {
    let verdicts = step.each.iter().map(|it| (gate.judge(it, step.tick_ns), &*it.name));
    let rank = |it: &Verdict| (!it.holds, if it.value.is_nan() { f64::MAX } else { it.value });
    let worst = verdicts.max_by(|(a, _), (b, _)| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    // A step without servers shows nothing.
    let nobody = Verdict { holds: false, metric: gate.metric(), value: f64::NAN };
    worst.unwrap_or((nobody, ""))
}

/// A value of a gate for people.
pub(super) fn value(metric: Metric, value: f64, tick_ns: u64) -> String {
    if value.is_nan() {
        return "too few values".to_owned();
    }
    match metric {
        Metric::LatenessP99 | Metric::LatenessP999 | Metric::TransactionP99 | Metric::StatusP99 => {
            let time = crate::measure::number::time_f64(value * float(tick_ns));
            format!("{time}, {:.1} % of a tick", value * 100.0)
        }
        Metric::RunqueueWait | Metric::Gaps | Metric::Missed | Metric::TicksLate => {
            format!("{:.2} %", value * 100.0)
        }
    }
}

/// What a gate says of all.
pub(super) fn result(gate: &Gate, result: &RampResult) -> GateResult {
    let settings = &result.settings;
    let gate = &gate.beside(&result.steps);
    let mut found = GateResult { gate: gate.text(), ..GateResult::default() };
    for level in result.levels() {
        let steps = result.counted().filter(|it| it.servers == level);
        let failed = steps.map(|it| (it, judge(gate, it))).find(|(_, (it, _))| !it.holds);
        match failed {
            None => found.servers = level,
            Some((step, (verdict, name))) => {
                found.fails_at = Some(level);
                found.why = why(step, verdict, name);
                break;
            }
        }
    }
    finish(&mut found, settings);
    found
}

fn why(step: &Step, verdict: Verdict, name: &str) -> String {
    let lost: u32 = step.each.iter().map(|it| it.lost).sum();
    let said = step.each.iter().find(|it| !it.refused.is_empty());
    let said = said.map_or_else(String::new, |it| format!(" ({}: {})", it.name, it.refused));
    if lost > 0 {
        return format!("repeat {}: {lost} players were lost{said}", step.repeat);
    }
    let value = value(verdict.metric, verdict.value, step.tick_ns);
    format!("repeat {}: {} of {name} was {value}", step.repeat, verdict.metric.name())
}

fn finish(found: &mut GateResult, settings: &Settings) {
    found.per_core = f64::from(found.servers) / f64::from(settings.processors.max(1));
    let each = settings.players.max(settings.bots);
    found.players = found.servers.saturating_mul(each);
    if found.players > 0 {
        found.player_hour = settings.price.map(|it| it / f64::from(found.players));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::gate::Gate;
    use super::super::result::{RampResult, Role, ServerFigures, Settings, Step};
    use super::{judge, result};
    use crate::measure::Percentiles;

    pub(in super::super) const TICK_NS: u64 = 20_000_000;

    /// A step of servers that were all late by this, but the last by this much more.
    pub(in super::super) fn step(servers: u32, repeat: u32, late_us: u64, more_us: u64) -> Step {
        let times = |us: u64| Percentiles {
            count: 10_000,
            p50_ns: us * 500,
            p99_ns: us * 1_000,
            p999_ns: us * 1_000,
            ..Percentiles::default()
        };
        let each = (1..=servers).map(|index| ServerFigures {
            name: format!("a-{index}"),
            players: 12,
            lateness: times(if index == servers { late_us + more_us } else { late_us }),
            transactions: times(20_000),
            snapshots: 10_000,
            cpu_percent: Some(5.0),
            runqueue_wait_ms_per_s: Some(2.0),
            ..ServerFigures::default()
        });
        Step {
            servers,
            repeat,
            tick_ns: TICK_NS,
            span_s: 20.0,
            lateness: times(late_us),
            transactions: times(20_000),
            each: each.collect(),
            ..Step::default()
        }
    }

    pub(in super::super) fn made_up(steps: Vec<Step>) -> RampResult {
        let settings = Settings {
            players: 12,
            processors: 2,
            tick_ns: TICK_NS,
            price: Some(0.24),
            kind: "throng".to_owned(),
            server: "a".to_owned(),
            wall: "process".to_owned(),
            repeats: 2,
            ..Settings::default()
        };
        RampResult { settings, steps, ..RampResult::default() }
    }

    fn gate(text: &str) -> Gate {
        text.parse().unwrap()
    }

    #[test]
    fn the_worst_server_decides_in_every_repeat() {
        let steps = vec![
            step(1, 1, 100, 0),
            step(2, 1, 100, 100),
            step(4, 1, 100, 1_900),
            step(8, 1, 100, 2_000),
            step(4, 2, 100, 1_901),
        ];
        let all = made_up(steps);
        let found = result(&gate("lateness_p99 <= 10%"), &all);
        // 10 % of a tick are 2 ms.
        assert_eq!((found.servers, found.fails_at, found.players), (2, Some(4), 24));
        assert!(found.why.contains("repeat 2: lateness_p99 of a-4 was"), "{}", found.why);
        assert!((found.per_core - 1.0).abs() < 1e-9);
        assert!((found.player_hour.unwrap() - 0.01).abs() < 1e-9);
        let lenient = result(&gate("lateness_p99 <= 25%"), &all);
        assert_eq!((lenient.servers, lenient.fails_at), (8, None));
    }

    #[test]
    fn what_was_discarded_and_controls_do_not_count() {
        let mut bad = step(2, 1, 9_000, 0);
        bad.discarded = "drift".to_owned();
        let control = Step { role: Role::Control, ..step(1, 1, 9_000, 0) };
        let all = made_up(vec![control, bad, step(2, 1, 10, 0)]);
        let found = result(&gate("lateness_p99 <= 10%"), &all);
        assert_eq!((found.servers, found.fails_at), (2, None));
        let mut all = all;
        all.steps.truncate(2);
        // The repeats try it again.
        assert_eq!((all.levels(), all.tried()), (vec![], vec![2]));
        assert_eq!(result(&gate("lateness_p99 <= 10%"), &made_up(vec![])).servers, 0);
    }

    #[test]
    fn who_is_lost_fails_and_is_named() {
        let mut bad = step(2, 1, 10, 0);
        bad.each[0].lost = 3;
        bad.each[0].refused = "the server is full".to_owned();
        let (verdict, name) = judge(&gate("lateness_p99 <= 10%"), &bad);
        assert_eq!((verdict.holds, name), (false, "a-1"));
        let found = result(&gate("lateness_p99 <= 10%"), &made_up(vec![bad]));
        assert!(found.why.contains("3 players were lost (a-1: the server is full)"));
    }
}
