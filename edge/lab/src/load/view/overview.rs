//! Several runs of one command in a few lines: one each. What they have to say beside each other is
//! told where results are compared.
//!
//! In: summaries. Out: text.

use super::advice::failure;
use crate::load::result::Summary;
use crate::measure::number::{group, rate, time};
use crate::measure::percentiles::TOO_FEW;

/// A row for each run: what it was, how much, how slow, what went wrong.
#[must_use]
pub fn overview(runs: &[Summary]) -> String {
    let heads = ["run", "operation", "rate", "p50", "p99", "errors", ""].map(str::to_owned);
    let mut rows = vec![heads];
    rows.extend(runs.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..7).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::from("\n");
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let blanks = " ".repeat(width - cell.chars().count());
            // Numbers stand below each other at their ends.
            match column {
                0 | 1 => line.extend([cell, &*blanks, "  "]),
                6 => line.push_str(cell),
                _ => line.extend([&*blanks, cell, "  "]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn row(run: &Summary) -> [String; 7] {
    let mut name = run.scenario.clone();
    if run.settings.pipeline > 1 {
        name = format!("{name}, {} in a write", run.settings.pipeline);
    }
    let mut row = [
        name,
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ];
    row[5] = group(run.errors_count());
    if let Some(op) = run.headline_op() {
        let times = if op.response.count > 0 { op.response } else { op.service };
        row[1].clone_from(&op.name);
        row[2] = format!("{}/s", rate(op.rate));
        // Times of failures alone would be read as the server's.
        let is_told = op.done > 0 && times.count > 0;
        let tell = |ns: Option<u64>| ns.filter(|_| is_told).map_or(TOO_FEW.to_owned(), time);
        row[3] = tell(times.told()[0]);
        row[4] = tell(times.p99());
    }
    row[6] = remarks(run);
    row
}

/// What is to be known before the figures are read.
fn remarks(run: &Summary) -> String {
    let mut remarks = Vec::new();
    let lost = run.expectations.iter().filter(|it| !it.holds).count();
    match failure(run) {
        Some(reason) => remarks.push(format!("FAILED: {reason}")),
        None if lost > 0 => {
            remarks.push(format!("FAILED: {lost} of {} expectations", run.expectations.len()));
        }
        None => {}
    }
    if !run.ended.is_empty() {
        remarks.push("ended early".to_owned());
    }
    if !run.invalid.is_empty() {
        remarks.push("INVALID".to_owned());
    }
    remarks.join("; ")
}

#[cfg(test)]
mod tests {
    use super::overview;
    use crate::load::result::expect::Verdict;
    use crate::load::result::summary::{OpSummary, Summary};
    use crate::measure::percentiles::Percentiles;

    #[test]
    fn each_run_has_one_row() {
        let service =
            Percentiles { count: 200, p50_ns: 1_000, p99_ns: 5_000, ..Percentiles::default() };
        let op = OpSummary {
            name: "rpc".to_owned(),
            counted: true,
            done: 200,
            rate: 20.0,
            service,
            ..OpSummary::default()
        };
        let well = Summary {
            scenario: "rpc-lua".to_owned(),
            headline: "rpc".to_owned(),
            counted_s: 10.0,
            ops: vec![op],
            ..Summary::default()
        };
        let mut ill = Summary { expectations: vec![Verdict::default()], ..well.clone() };
        ill.settings.pipeline = 4;
        ill.invalid.push("late".to_owned());
        assert_eq!(
            overview(&[well, ill]),
            "\n\
             run                    operation     rate      p50      p99  errors\n\
             rpc-lua                rpc        20.00/s  1.00 µs  5.00 µs       0\n\
             rpc-lua, 4 in a write  rpc        20.00/s  1.00 µs  5.00 µs       0  FAILED: 1 of 1 \
             expectations; INVALID\n"
        );
    }
}
