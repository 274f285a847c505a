//! A ramp for a terminal, and the tables that its page has too.

use std::fmt::Write as _;

use super::judge::value;
use super::power::PowerSource;
use super::result::{GateResult, RampResult, Role, ServerFigures, Step, Unmeasured};
use crate::measure::number::{bytes_f64, float, seconds_text, time, time_f64};
use crate::measure::percentiles::TOO_FEW;
use crate::measure::spread::Spread;

/// Heads of the table of numbers of servers.
pub(super) const HEADS: [&str; 12] = [
    "servers",
    "of",
    "lateness p50",
    "p99, worst server",
    "of a tick",
    "transaction p50",
    "p99",
    "status p99",
    "wait ms/s",
    "CPU",
    "CPU a server",
    "power",
];

/// The 99th percentile of lateness, or of status queries where there are no snapshots, of the worst server
/// as a part of a tick.
pub(super) fn worst(step: &Step) -> Option<f64> {
    let of = |it: &ServerFigures| {
        let ns = it.lateness.p99().or((it.status.count > 0).then_some(it.status.p99_ns));
        ns.map(|ns| float(ns) / float(step.tick_ns.max(1)))
    };
    step.each.iter().filter_map(of).max_by(f64::total_cmp)
}

/// The mean of the servers.
pub(super) fn mean(step: &Step, of: fn(&ServerFigures) -> Option<f64>) -> Option<f64> {
    let all: Vec<f64> = step.each.iter().filter_map(of).collect();
    let count = u32::try_from(all.len()).ok().filter(|it| *it > 0)?;
    Some(all.iter().sum::<f64>() / f64::from(count))
}

/// A row for every number of servers: the median of its repeats and their range. One of which no step counts
/// says so.
pub(super) fn rows(result: &RampResult) -> Vec<Vec<String>> {
    let never = result.never_measured();
    let row = |level: u32| {
        if let Some(it) = never.iter().find(|it| it.servers == level) {
            let cells = [level.to_string(), format!("none of {}", it.tries)];
            let rest = std::iter::repeat_n(TOO_FEW.to_owned(), HEADS.len() - cells.len());
            return cells.into_iter().chain(rest).collect();
        }
        let steps: Vec<&Step> = result.counted().filter(|it| it.servers == level).collect();
        let cell = |of: &dyn Fn(&Step) -> Option<f64>, write: fn(f64) -> String| {
            let spread = Spread::of(steps.iter().filter_map(|it| of(it)));
            spread.map_or_else(|| TOO_FEW.to_owned(), |it| it.cell(write).line())
        };
        let ns = |count: u64, ns: u64| (count > 0).then(|| float(ns));
        let tick = |it: &Step| worst(it).map(|part| part * float(it.tick_ns));
        vec![
            level.to_string(),
            steps.len().to_string(),
            cell(&|it| ns(it.lateness.count, it.lateness.p50_ns), time_f64),
            cell(&tick, time_f64),
            cell(&worst, percent_of_part),
            cell(&|it| ns(it.transactions.count, it.transactions.p50_ns), time_f64),
            cell(&|it| it.transactions.p99().map(float), time_f64),
            cell(&|it| ns(it.status.count, it.status.p99_ns), time_f64),
            cell(&|it| mean(it, |it| it.runqueue_wait_ms_per_s), tenth),
            cell(&|it| Some(it.machine.cpu_percent), percent),
            cell(&|it| mean(it, |it| it.cpu_percent), tenth_percent),
            cell(&|it| Some(it.machine.watts), watts),
        ]
    };
    result.tried().into_iter().map(row).collect()
}

/// A number of servers of which no step counts, as a sentence.
pub(super) fn never_measured(it: &Unmeasured) -> String {
    let plural = if it.servers == 1 { "server was" } else { "servers were" };
    let tries = if it.tries == 1 { "one try".to_owned() } else { format!("{} tries", it.tries) };
    format!(
        "{} {plural} never measured undisturbed, in {tries}, which passes no gate (the last: {})",
        it.servers, it.why
    )
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

fn tenth_percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn percent_of_part(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

fn watts(value: f64) -> String {
    format!("{value:.2} W")
}

/// Where figures of power are from.
pub(super) fn power(result: &RampResult) -> String {
    let [idle, busy] = result.settings.watts;
    match result.settings.power {
        PowerSource::Measured => "measured by the processors' counters of energy".to_owned(),
        PowerSource::Modelled => format!(
            "modelled: a line from {idle} W of an idle to {busy} W of a busy processor, which only says \
             again what the CPU column says"
        ),
    }
}

/// What a gate says, as a sentence.
pub(super) fn verdict(it: &GateResult, result: &RampResult) -> String {
    let mut out = if result.levels().is_empty() {
        format!("{}: no step counts, so that it cannot be said", it.gate)
    } else if it.servers == 0 {
        format!("{}: not even the fewest servers that were measured pass", it.gate)
    } else {
        let plural = if it.servers == 1 { "server" } else { "servers" };
        format!("{}: {} {plural}, {:.1} a processor", it.gate, it.servers, it.per_core)
    };
    if it.players > 0 {
        // Writing to a String cannot fail.
        let _ = write!(out, ", {} players", it.players);
    }
    if let Some(price) = it.player_hour {
        let _ = write!(out, ", {price:.6} for an hour of one player");
    }
    match it.fails_at {
        Some(level) => {
            let _ = write!(out, "; {level} fail: {}", it.why);
        }
        None if it.servers > 0 => out.push_str("; more were not measured"),
        None => {}
    }
    let never: Vec<String> =
        result.never_measured().iter().map(|it| it.servers.to_string()).collect();
    if !never.is_empty() {
        let _ = write!(out, "; never measured undisturbed: {}", never.join(", "));
    }
    if !result.ended.is_empty() {
        out.push_str(" (the ramp ended early)");
    }
    out
}

/// How it was measured.
pub(super) fn how(result: &RampResult) -> String {
    let it = &result.settings;
    let players = match (it.players, it.bots) {
        (0, 0) => "nobody plays".to_owned(),
        (0, bots) => format!("{bots} bots of the server's own play"),
        (players, _) => {
            format!("{players} players of ours, {} datagrams a second each", it.rate_hz)
        }
    };
    let tick = if it.tick_ns > 0 { time(it.tick_ns) } else { "unknown".to_owned() };
    let cores = match &*it.cores {
        [] => "any processor".to_owned(),
        cores => format!("processors {cores:?}"),
    };
    let first = if it.is_realtime { ", before all others" } else { "" };
    format!(
        "Servers `{}` ({}), wall {}; on each {players}; tick {tick}. Each number {} times for {} after {}, \
         repeats in an order of seed {}; one server alone for {} between. Discarded: controls apart by \
         more than {:.1} % of a tick, more than {:.1} % of the processors taken, players later than {:.0} % of a tick themselves. Players in {} thread(s) on \
         {cores}{first}. Power is {}.",
        it.server,
        it.kind,
        it.wall,
        it.repeats,
        seconds_text(it.span_s),
        seconds_text(it.warm_up_s),
        it.seed,
        seconds_text(it.control_s),
        it.drift * 100.0,
        it.steal * 100.0,
        it.late * 100.0,
        it.threads,
        power(result),
    )
}

/// Heads and rows of all steps in the order of time.
pub(super) const STEP_HEADS: [&str; 10] = [
    "step",
    "servers",
    "repeat",
    "worst p99",
    "of a tick",
    "CPU",
    "players' CPU",
    "sent late p99",
    "memory",
    "",
];

pub(super) fn step_rows(result: &RampResult) -> Vec<Vec<String>> {
    let row = |it: &Step| {
        let (name, repeat) = match it.role {
            Role::Step => (it.servers.to_string(), it.repeat.to_string()),
            Role::Control => ("control".to_owned(), String::new()),
        };
        let part = worst(it);
        let late = it.generator.late.p99().map_or_else(|| TOO_FEW.to_owned(), time);
        vec![
            it.number.to_string(),
            name,
            repeat,
            part.map_or_else(|| TOO_FEW.to_owned(), |part| time_f64(part * float(it.tick_ns))),
            part.map_or_else(|| TOO_FEW.to_owned(), percent_of_part),
            percent(it.machine.cpu_percent),
            percent(it.generator.cpu_percent),
            late,
            bytes_f64(float(it.machine.servers_memory_bytes)),
            it.discarded.clone(),
        ]
    };
    result.steps.iter().map(row).collect()
}

/// The result for a terminal.
#[must_use]
pub fn text(result: &RampResult) -> String {
    let mut out = String::new();
    let rows: Vec<Vec<String>> =
        std::iter::once(HEADS.map(str::to_owned).to_vec()).chain(rows(result)).collect();
    let mut widths = [0; HEADS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    let discarded = result.steps.iter().filter(|it| !it.discarded.is_empty()).count();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{} stretches were measured, {discarded} discarded", result.steps.len());
    for it in result.never_measured() {
        let _ = writeln!(out, "{}", never_measured(&it));
    }
    for gate in &result.gates {
        let _ = writeln!(out, "{}", verdict(gate, result));
    }
    let _ = writeln!(out, "{}", how(result));
    if !result.ended.is_empty() {
        let _ = writeln!(out, "ended early: {}", result.ended);
    }
    out
}

/// A value of a gate as the page tells it.
pub(super) fn gate_value(step: &Step, verdict: super::gate::Verdict) -> String {
    value(verdict.metric, verdict.value, step.tick_ns)
}

#[cfg(test)]
mod tests {
    use super::super::judge::result;
    use super::super::judge::tests::{made_up, step};
    use super::text;

    #[test]
    fn a_ramp_is_told_with_both_gates_and_what_failed() {
        let mut all = made_up(vec![step(1, 1, 100, 0), step(2, 1, 100, 3_000), step(1, 2, 200, 0)]);
        let gates: Vec<_> = ["lateness_p99 <= 10%", "lateness_p99 <= 25%"]
            .map(|it| result(&it.parse().unwrap(), &all))
            .into();
        all.gates = gates;
        let told = text(&all);
        for wanted in [
            "lateness_p99 <= 10%: 1 server, 0.5 a processor, 12 players, 0.020000 for an hour",
            "2 fail: repeat 1: lateness_p99 of a-2 was 3.10 ms, 15.5 % of a tick",
            "lateness_p99 <= 25%: 2 servers, 1.0 a processor, 24 players",
            "3 stretches were measured, 0 discarded",
            "150 µs (100–200 µs)",
            "modelled",
        ] {
            assert!(told.contains(wanted), "{wanted}\n{told}");
        }
        assert!(!told.contains("undisturbed"), "{told}");
        all.ended = "interrupted".to_owned();
        assert!(text(&all).contains("ended early: interrupted"));
    }

    #[test]
    fn a_number_that_was_always_disturbed_is_marked() {
        let disturbed = |_| super::Step { discarded: "drift".to_owned(), ..step(2, 1, 100, 0) };
        let mut all = made_up((0..3).map(disturbed).collect());
        all.steps.push(step(1, 1, 100, 0));
        all.gates = vec![result(&"lateness_p99 <= 10%".parse().unwrap(), &all)];
        let told = text(&all);
        for wanted in [
            "2 servers were never measured undisturbed, in 3 tries, which passes no gate (the last: drift)",
            "lateness_p99 <= 10%: 1 server, ",
            "; more were not measured; never measured undisturbed: 2\n",
            "2  none of 3  ",
        ] {
            assert!(told.contains(wanted), "{wanted}\n{told}");
        }
        // Nothing of it hides behind a larger number that passes.
        all.steps.push(step(4, 1, 100, 0));
        all.gates = vec![result(&"lateness_p99 <= 10%".parse().unwrap(), &all)];
        assert_eq!(all.gates[0].servers, 4);
        assert!(text(&all).contains("never measured undisturbed: 2\n"));
    }
}
