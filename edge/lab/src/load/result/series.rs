//! The run second by second as comma-separated values: a line a second, columns per operation.

use std::fmt::Write as _;

use super::{FlowSecond, STRETCH_S_MIN, Second, ZoneSecond};
use crate::load::result::summary::Summary;
use crate::measure::number::float;

/// A column of a flow: its name, and the figure of a second.
type FlowColumn = (&'static str, fn(&FlowSecond) -> f64);

/// What a flow's seconds have besides.
const FLOW: [FlowColumn; 13] = [
    ("goodput_bits", |it| it.goodput_bits),
    ("sent_bits", |it| it.sent_bits),
    ("datagrams_per_s", |it| it.datagrams_per_s),
    ("retransmits", |it| float(it.retransmits)),
    ("rtt_us", |it| float(it.rtt_ns) / 1e3),
    ("window_bytes", |it| float(it.window_bytes)),
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    ("lost", |it| it.lost as f64),
    ("reordered", |it| float(it.reordered)),
    ("dropped", |it| float(it.dropped)),
    ("sender_user", |it| it.sender_user),
    ("sender_system", |it| it.sender_system),
    ("receiver_user", |it| it.receiver_user),
    ("receiver_system", |it| it.receiver_system),
];

/// A column of pilots in the zone.
type ZoneColumn = (&'static str, fn(&ZoneSecond) -> f64);

/// What their seconds have besides.
const ZONE: [ZoneColumn; 11] = [
    ("updates", |it| float(it.updates)),
    ("snapshots", |it| float(it.snapshots)),
    ("ticks", |it| float(it.ticks)),
    ("tau", |it| f64::from(it.tau_permille) / 1e3),
    ("stale_p50_us", |it| float(it.stale_p50_ns) / 1e3),
    ("stale_p99_us", |it| float(it.stale_p99_ns) / 1e3),
    ("error_p50_mm", |it| float(it.error_p50_mm)),
    ("error_p99_mm", |it| float(it.error_p99_mm)),
    ("cells", |it| float(it.cells)),
    ("hand_overs", |it| float(it.hand_overs)),
    ("fullest_room_us", |it| float(it.rooms_us().into_values().max().unwrap_or(0))),
];

/// The table with its head line. Times are microseconds, rates per second, processors shares of
/// one; those are empty in what a stage's end left of a second.
#[must_use]
pub fn csv(summary: &Summary) -> String {
    let mut out = head(summary);
    for (index, second) in summary.series.iter().enumerate() {
        let is_long = second.length_s >= STRETCH_S_MIN;
        let share = |cpu: f64| if is_long { format!("{cpu:.3}") } else { String::new() };
        let _ = write!(
            out,
            "{:.3},{:.3},{},{},{},{},{},{},{},{},{}",
            second.at_s,
            second.length_s,
            second.stage.word(),
            second.players,
            second.connections,
            second.sockets,
            second.errors,
            second.sent_bytes,
            second.received_bytes,
            share(second.server_cpu),
            share(second.generator_cpu),
        );
        for op in &second.ops {
            let us = |ns: u64| crate::measure::number::float(ns) / 1e3;
            let rate = crate::measure::number::float(op.done) / second.length_s.max(1e-9);
            let _ = write!(
                out,
                ",{},{:.2},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{}",
                op.done,
                if second.length_s > 0.0 { rate } else { 0.0 },
                op.service_mean_ns / 1e3,
                us(op.p50_ns),
                us(op.p99_ns),
                us(op.max_ns),
                us(op.late_p99_ns),
                us(op.p90_ns),
                us(op.p95_ns),
                us(op.p999_ns),
                op.started,
            );
        }
        of_flow(&mut out, summary, index);
        of_zone(&mut out, summary, second);
        out.push('\n');
    }
    out
}

/// The head line.
fn head(summary: &Summary) -> String {
    let mut out = String::from(
        "time_s,length_s,stage,players,connections,sockets,errors,sent_bytes,received_bytes,\
         server_cpu,generator_cpu",
    );
    // Writing to a String cannot fail.
    for op in &summary.ops {
        let name = op.name.replace([',', '"', '\n'], "_");
        for column in
            // What came later stands behind, for whoever counts columns.
            [
                "done",
                "rate",
                "service_mean_us",
                "p50_us",
                "p99_us",
                "max_us",
                "late_p99_us",
                "p90_us",
                "p95_us",
                "p999_us",
                "started",
            ]
        {
            let _ = write!(out, ",{name}.{column}");
        }
    }
    for (column, _) in FLOW.into_iter().filter(|_| summary.flow.is_some()) {
        let _ = write!(out, ",flow.{column}");
    }
    for (column, _) in ZONE.into_iter().filter(|_| summary.zone.is_some()) {
        let _ = write!(out, ",zone.{column}");
    }
    out.push('\n');
    out
}

/// What a second of pilots in the zone has besides.
fn of_zone(out: &mut String, summary: &Summary, second: &Second) {
    if summary.zone.is_none() {
        return;
    }
    let zone = second.zone.clone().unwrap_or_default();
    for (_, value) in ZONE {
        // Writing to a String cannot fail.
        let _ = write!(out, ",{:.3}", value(&zone));
    }
}

/// What a flow's second has besides.
fn of_flow(out: &mut String, summary: &Summary, index: usize) {
    let Some(flow) = &summary.flow else { return };
    let it = flow.series.get(index).copied().unwrap_or_default();
    for (_, value) in FLOW {
        // Writing to a String cannot fail.
        let _ = write!(out, ",{:.3}", value(&it));
    }
}

#[cfg(test)]
mod tests {
    use super::csv;
    use crate::load::result::summary::{OpSummary, Summary};
    use crate::load::result::{FlowSummary, Second, SecondOp};

    #[test]
    fn every_line_has_every_column() {
        let op = OpSummary { name: "a,b".to_owned(), ..OpSummary::default() };
        let second = Second { length_s: 1.0, ops: vec![SecondOp::default()], ..Second::default() };
        let series = vec![second.clone(), Second { at_s: 2.0, length_s: 0.003, ..second }];
        let text = csv(&Summary { ops: vec![op], series, ..Summary::default() });
        let columns: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [22, 22, 22], "{text}");
        // A flow has columns of its own, behind the others.
        let flow = Some(FlowSummary::default());
        let series = vec![Second { length_s: 1.0, ..Second::default() }; 2];
        let flow_text = csv(&Summary { flow, series, ..Summary::default() });
        let columns: Vec<_> = flow_text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [24, 24, 24], "{flow_text}");
        // Nothing can be said of processors in 3 ms.
        assert!(text.contains(",0,0.000,0.000,") && text.contains(",0,,,"), "{text}");
    }
}
