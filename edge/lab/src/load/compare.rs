//! Several runs side by side, in the rows of the tables that Nakama's benchmark page made known:
//! a column a run, a block of rows an operation, percentiles below. As Markdown, for a README.

use std::fmt::Write as _;

use super::summary::{OpSummary, Summary};
use super::table::{bits, bytes, group, group_f64, rate, time, time_f64};

/// One run and the head of its column.
pub struct Column<'a> {
    /// What it was run on: nodes, servers.
    pub name: String,
    /// Its result.
    pub summary: &'a Summary,
}

/// Runs of any scenarios: a table for each scenario, in the order of the first run of each.
#[must_use]
pub fn markdown(columns: &[Column<'_>]) -> String {
    let mut out = String::new();
    let mut scenarios: Vec<&str> = Vec::new();
    for column in columns {
        if !scenarios.contains(&&*column.summary.scenario) {
            scenarios.push(&column.summary.scenario);
        }
    }
    for scenario in scenarios {
        let columns: Vec<_> =
            columns.iter().filter(|column| column.summary.scenario == scenario).collect();
        table(&mut out, &columns);
    }
    out
}

fn table(out: &mut String, columns: &[&Column<'_>]) {
    let Some(first) = columns.first() else { return };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "### {}: {}\n", first.summary.scenario, first.summary.title);
    let mut heads = String::from("| |");
    let mut rule = String::from("|---|");
    for column in columns {
        let _ = write!(heads, " {} |", column.name.replace('|', "\\|"));
        rule.push_str("---:|");
    }
    let _ = writeln!(out, "{heads}\n{rule}");
    row(out, columns, "players", |it| group(u64::from(it.settings.players)));
    row(out, columns, "how", how);
    let mut names: Vec<&str> = Vec::new();
    for op in columns.iter().flat_map(|column| &column.summary.ops) {
        if op.counted && !names.contains(&&*op.name) {
            names.push(&op.name);
        }
    }
    for name in names {
        operation(out, columns, name);
    }
    network(out, columns);
    row(out, columns, "errors", |it| group(it.errors.iter().map(|error| error.count).sum()));
    out.push('\n');
}

fn how(summary: &Summary) -> String {
    let settings = &summary.settings;
    let invalid = if summary.invalid.is_empty() { "" } else { ", NOT VALID" };
    match (settings.saturate, settings.rate) {
        (true, _) => format!("closed loop{invalid}"),
        (false, Some(rate)) => format!("open loop, {rate}/s{invalid}"),
        (false, None) => format!("open loop{invalid}"),
    }
}

fn row(out: &mut String, columns: &[&Column<'_>], name: &str, cell: impl Fn(&Summary) -> String) {
    let _ = write!(out, "| {name} |");
    for column in columns {
        let _ = write!(out, " {} |", cell(column.summary));
    }
    out.push('\n');
}

/// A row's name and how its cell is written.
type OpRow = (&'static str, fn(&OpSummary) -> String);

fn operation(out: &mut String, columns: &[&Column<'_>], name: &str) {
    let rows: [OpRow; 10] = [
        ("highest 10 s mean", |op| time_f64(op.interval_mean_highest_ns)),
        ("lowest 10 s mean", |op| time_f64(op.interval_mean_lowest_ns)),
        ("highest rate", |op| format!("{}/s", rate(op.rate_highest))),
        ("mean rate", |op| format!("{}/s", rate(op.rate))),
        ("mean", |op| time_f64(op.service.mean_ns)),
        ("count", |op| group(op.done)),
        ("service p50, p99, p99.9", |op| percentiles(&op.service)),
        ("response p50, p99, p99.9", |op| percentiles(&op.response)),
        ("slowest", |op| time(op.service.max_ns.max(op.response.max_ns))),
        ("failed, not sent, unanswered", |op| {
            [op.failed, op.missed, op.unanswered].map(group).join(", ")
        }),
    ];
    row(out, columns, &format!("**{name}**"), |_| String::new());
    for (row_name, cell) in rows {
        row(out, columns, row_name, |summary| {
            let op = summary.ops.iter().find(|op| op.name == name);
            op.map_or("–".to_owned(), cell)
        });
    }
}

fn percentiles(times: &super::Percentiles) -> String {
    if times.count == 0 {
        return "–".to_owned();
    }
    [times.p50_ns, times.p99_ns, times.p999_ns].map(time).join(", ")
}

fn network(out: &mut String, columns: &[&Column<'_>]) {
    row(out, columns, "**network and server**", |_| String::new());
    let pair = |rate, total| format!("{}, {}", bits(rate), bytes(total));
    row(out, columns, "sent: highest rate, total", |it| {
        pair(it.network.sent_bits_highest, it.network.sent_bytes)
    });
    row(out, columns, "received: highest rate, total", |it| {
        pair(it.network.received_bits_highest, it.network.received_bytes)
    });
    let server = |cell: fn(&super::ServerCost) -> String| {
        move |it: &Summary| it.server.as_ref().map_or("–".to_owned(), cell)
    };
    row(
        out,
        columns,
        "operations per CPU-second of the server",
        server(|it| group_f64(it.ops_per_cpu_s)),
    );
    row(out, columns, "server's memory at the end", server(|it| bytes(it.resident_end_bytes)));
}

#[cfg(test)]
mod tests {
    use super::{Column, markdown};
    use crate::load::summary::{OpSummary, Summary};

    #[test]
    fn runs_stand_side_by_side_and_scenarios_apart() {
        let run = |scenario: &str, rate| Summary {
            scenario: scenario.to_owned(),
            ops: vec![OpSummary {
                name: "rpc".to_owned(),
                counted: true,
                rate,
                ..OpSummary::default()
            }],
            ..Summary::default()
        };
        let runs = [run("a", 700.0), run("b", 1.0), run("a", 16_000.0)];
        let names = ["one | node", "x", "two"];
        let columns: Vec<_> = runs
            .iter()
            .zip(names)
            .map(|(summary, name)| Column { name: name.to_owned(), summary })
            .collect();
        let text = markdown(&columns);
        assert_eq!(text.matches("### ").count(), 2);
        assert!(text.contains("| mean rate | 700.00/s | 16,000/s |"), "{text}");
        assert!(text.contains("| | one \\| node | two |"), "{text}");
    }
}
