//! The run second by second as comma-separated values: a line a second, columns per operation.

use std::fmt::Write as _;

use super::STRETCH_S_MIN;
use crate::load::result::summary::Summary;

/// The table with its head line. Times are microseconds, rates per second, processors shares of
/// one; those are empty in what a stage's end left of a second.
#[must_use]
pub fn csv(summary: &Summary) -> String {
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
    out.push('\n');
    for second in &summary.series {
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
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::csv;
    use crate::load::result::summary::{OpSummary, Summary};
    use crate::load::result::{Second, SecondOp};

    #[test]
    fn every_line_has_every_column() {
        let op = OpSummary { name: "a,b".to_owned(), ..OpSummary::default() };
        let second = Second { length_s: 1.0, ops: vec![SecondOp::default()], ..Second::default() };
        let series = vec![second.clone(), Second { at_s: 2.0, length_s: 0.003, ..second }];
        let text = csv(&Summary { ops: vec![op], series, ..Summary::default() });
        let columns: Vec<_> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [22, 22, 22], "{text}");
        // Nothing can be said of processors in 3 ms.
        assert!(text.contains(",0,0.000,0.000,") && text.contains(",0,,,"), "{text}");
    }
}
