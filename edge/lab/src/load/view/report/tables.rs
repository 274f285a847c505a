//! The tables of a report: operations, percentiles, match messages, errors, costs.

use crate::doctor::Check;
use crate::load::result::figures::{self, interval};
use crate::load::result::{OpSummary, Summary};
use crate::load::view::advice::cure;
use crate::load::view::connections;
use crate::measure::environment::Environment;
use crate::measure::number::{
    bits, bytes, bytes_f64, float, group, group_f64, rate, time, time_f64,
};
use crate::measure::page::{pairs, table};
use crate::measure::percentiles::TOO_FEW;

pub(super) fn operations(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let row = |op: &OpSummary| {
        let name = if op.counted { op.name.clone() } else { format!("{} (not counted)", op.name) };
        vec![
            name,
            time_f64(op.interval_mean_highest_ns),
            time_f64(op.interval_mean_lowest_ns),
            time_f64(op.service.mean_ns),
            format!("{}/s", rate(op.rate_highest)),
            format!("{}/s", rate(op.rate)),
            group(op.done),
            group(op.failed),
            group(op.retried),
            group(op.missed),
            group(op.unanswered),
        ]
    };
    let rows: Vec<_> = summary.ops.iter().map(row).collect();
    let interval = interval(summary, &summary.headline).replace(' ', "\u{a0}");
    let [highest, lowest] =
        ["highest", "lowest"].map(|it| format!("Mean service time, {it} {interval}"));
    let heads = [
        "Operation",
        &highest,
        &lowest,
        "Mean service time",
        "Highest rate",
        "Mean rate",
        "Count",
        "Failed",
        "Tried again",
        "Not sent in time",
        "Unanswered",
    ];
    table(out, ("Operations", 1), &heads, &rows)
}

pub(super) fn percentiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mut rows = Vec::new();
    for op in &summary.ops {
        let kinds = [
            ("service time", &op.service),
            ("from the intended start", &op.response),
            ("lateness of sending", &op.lateness),
        ];
        let (answered, failures) = (&op.answered, &op.failures);
        let parts = [
            ("service time, answered", &answered.service),
            ("service time, failed", &failures.service),
            ("from the intended start, answered", &answered.response),
            ("from the intended start, failed", &failures.response),
        ];
        // Without failures they would say the same once more.
        let has_parts = failures.service.count + failures.response.count > 0;
        let kinds = kinds.into_iter().chain(parts.into_iter().filter(|_| has_parts));
        for (kind, it) in kinds.filter(|(_, it)| it.count > 0) {
            let mut row = vec![op.name.clone(), kind.to_owned()];
            let (least, most) = ([Some(it.min_ns)], [Some(it.max_ns)]);
            let values = least.into_iter().chain(it.told()).chain([it.p9999()]).chain(most);
            row.extend(values.map(|ns| ns.map_or(TOO_FEW.to_owned(), time)));
            row.push(time_f64(it.deviation_ns));
            rows.push(row);
        }
    }
    let heads = [
        "Operation",
        "",
        "Min",
        "p50",
        "p75",
        "p90",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "Max",
        "Deviation",
    ];
    table(out, ("Percentiles", 2), &heads, &rows)
}

pub(super) fn deliveries(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(it) = &summary.deliveries else { return Ok(()) };
    let rows = [
        ("Echoes: sent, received", format!("{}, {}", group(it.echoes_sent), group(it.echoes))),
        (
            "Broadcasts: sent, delivered",
            format!("{}, {}", group(it.broadcasts_sent), group(it.broadcasts)),
        ),
        ("Lost", it.lost.to_string()),
        ("Cut off by a lost connection", group(it.cut_off)),
        ("Doubled", group(it.doubled)),
        ("Reordered", group(it.reordered)),
        ("Not the run's", group(it.foreign)),
        ("Not followed: too many senders", group(it.untracked)),
    ];
    pairs(out, "Match messages, whole run", rows)
}

pub(super) fn errors(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.errors.is_empty() {
        out.push_str("<section><h2>Errors</h2><p>None.</p></section>");
        return Ok(());
    }
    let row = |error: &crate::load::result::summary::ErrorSummary| {
        let example = error.example.clone();
        let cure = cure(error, summary).unwrap_or_default().into_owned();
        vec![group(error.count), error.op.clone(), error.kind.clone(), example, cure]
    };
    let rows: Vec<_> = summary.errors.iter().map(row).collect();
    let heads = ["Count", "Operation", "Kind", "First one", "What helps"];
    table(out, ("Errors, whole run", 5), &heads, &rows)
}

/// What the doctor wants to be seen to on the machine of the run.
pub(super) fn warnings(out: &mut String, environment: &Environment) -> std::fmt::Result {
    let row = |it: &Check| vec![it.id.clone(), it.value.clone(), it.why.clone(), it.cure.clone()];
    let rows: Vec<_> = environment.warnings().map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heads = ["Check", "Found", "Why it matters", "What helps"];
    table(out, ("What throng doctor would see to", 4), &heads, &rows)
}

pub(super) fn costs(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mut rows: Vec<(&str, String)> = Vec::new();
    if let Some(ramp) = summary.ramp.as_ref().filter(|ramp| ramp.ready > 0) {
        let (ready, all) = (u64::from(ramp.ready), u64::from(summary.settings.players));
        let text = format!("{} of {} ready after {:.1} s", group(ready), group(all), ramp.seconds);
        rows.push(("Players to come", text));
    }
    let network = &summary.network;
    rows.push((
        "Sent to the server",
        format!("{}, highest rate {}", bytes(network.sent_bytes), bits(network.sent_bits_highest)),
    ));
    rows.push((
        "Received from it",
        format!(
            "{}, highest rate {}",
            bytes(network.received_bytes),
            bits(network.received_bits_highest)
        ),
    ));
    rows.extend(connections::rows(summary));
    server_rows(&mut rows, summary);
    let it = &summary.generator;
    rows.push((
        "Generator: processor",
        format!("{:.1} % of one, driver {}", 100.0 * it.cpu_share, summary.settings.driver),
    ));
    rows.push(("Generator: memory", generator_memory(it)));
    rows.push((
        "Generator: late by its own fault",
        format!(
            "p50 {}, p99 {}, most {}",
            time(it.behind.p50_ns),
            time(it.behind.p99_ns),
            time(it.behind.max_ns)
        ),
    ));
    rows.push(("Generator: longest turn of its loop", time(it.turn_ns_max)));
    pairs(out, "Network and cost, counted time", rows)
}

fn server_rows(rows: &mut Vec<(&str, String)>, summary: &Summary) {
    let Some(it) = &summary.server else { return };
    let cpu_s = it.user_s + it.system_s;
    let share = 100.0 * cpu_s / it.wall_s.max(1e-9);
    let players = float(u64::from(summary.settings.players.max(1)));
    let grown = float(it.resident_ready_bytes.saturating_sub(it.resident_before_bytes));
    let per_s = figures::ops_per_cpu_s(summary);
    let per_s = per_s.map_or("– (too little CPU used to tell)".to_owned(), group_f64);
    rows.push(("Server: operations per CPU-second", per_s));
    rows.push((
        "Server: processor",
        format!("{share:.1} % of one ({:.2} s user, {:.2} s system)", it.user_s, it.system_s),
    ));
    rows.push((
        "Server: memory",
        format!(
            "{} before, {} when all had come, {} at the end",
            bytes(it.resident_before_bytes),
            bytes(it.resident_ready_bytes),
            bytes(it.resident_end_bytes)
        ),
    ));
    rows.push((
        "Server: for each player to come",
        format!(
            "{:.1} µs of CPU, {} of memory",
            1e6 * it.ramp_cpu_s / players,
            bytes_f64(grown / players)
        ),
    ));
    rows.push((
        "Server: threads",
        format!("{} at the start, {} at the end", it.threads_start, it.threads_end),
    ));
}

fn generator_memory(it: &crate::load::result::summary::GeneratorCost) -> String {
    match it.bytes_per_player {
        0 => bytes(it.resident_bytes),
        count => format!("{}, {} per player", bytes(it.resident_bytes), bytes(count)),
    }
}
