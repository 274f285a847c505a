//! The result as one HTML file that needs nothing else: no network, no script, charts as SVG, and
//! the figures once more as JSON inside.
//!
//! The first screen answers what a reader asks first: may this be believed, how much, how slow,
//! how dear. Everything below is evidence.

mod charts;

use std::fmt::Write as _;

use super::escape;
use super::summary::{OpSummary, Percentiles, Summary, float};
use super::table::{bits, bytes, bytes_f64, group, group_f64, rate, time, time_f64};

const STYLE: &str = include_str!("report/style.css");
/// The whole page.
#[must_use]
pub fn html(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, summary);
    out
}

fn write_page(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let title = escape(&format!("{}: {}", summary.scenario, summary.title));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>"
    )?;
    head(out, summary)?;
    charts::charts(out, summary)?;
    operations(out, summary)?;
    percentiles(out, summary)?;
    deliveries(out, summary)?;
    errors(out, summary)?;
    costs(out, summary)?;
    reproduce(out, summary)?;
    let json = serde_json::to_string(summary).unwrap_or_default().replace('<', "\\u003c");
    writeln!(
        out,
        "</main><script type=\"application/json\" id=\"result\">{json}</script></body></html>"
    )
}

fn head(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let settings = &summary.settings;
    write!(
        out,
        "<header><p class=\"kind\">throng load · {}</p><h1>{}</h1><p class=\"about\">{}</p>",
        escape(&summary.scenario),
        escape(&summary.title),
        escape(summary.about.trim()),
    )?;
    for reason in &summary.invalid {
        write!(
            out,
            "<p class=\"banner bad\"><b>Not valid.</b> The generator was in the way: {}.</p>",
            escape(reason)
        )?;
    }
    let errors: u64 = summary.errors.iter().map(|error| error.count).sum();
    let lost = summary.deliveries.as_ref().map_or(0, |it| it.lost);
    if errors > 0 || lost > 0 {
        write!(
            out,
            "<p class=\"banner warn\"><b>{} errors</b>{}: see below.</p>",
            group(errors),
            if lost > 0 { format!(" and {lost} lost messages") } else { String::new() },
        )?;
    }
    if settings.saturate {
        out.push_str(
            "<p class=\"banner note\"><b>Closed loop.</b> Each operation began when the last was \
             answered: this finds throughput, and its times say nothing about users.</p>",
        );
    }
    out.push_str("<section class=\"tiles\">");
    tiles(out, summary)?;
    let how = match (settings.saturate, settings.rate) {
        (true, _) => "closed loop".to_owned(),
        (false, Some(rate)) => format!("open loop, rate {rate}/s"),
        (false, None) => "open loop".to_owned(),
    };
    write!(
        out,
        "</section><p class=\"how\">{} players on <code>{}</code>, {how}; {:.1} s counted of {:.0} \
         planned, after {:.0} s of warm-up; begun {}.</p></header>",
        group(u64::from(settings.players)),
        escape(&settings.target),
        summary.counted_s,
        settings.planned_s,
        settings.warm_up_s,
        stamp(summary.started_unix_s),
    )
}

fn stamp(unix_s: u64) -> String {
    String::from_utf8_lossy(&wire::http1::date(unix_s)).into_owned()
}

fn tile(out: &mut String, name: &str, value: &str, note: &str) -> std::fmt::Result {
    write!(
        out,
        "<div class=\"tile\"><span>{}</span><b>{}</b><small>{}</small></div>",
        escape(name),
        escape(value),
        escape(note)
    )
}

fn tiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(op) = summary.headline_op() else { return Ok(()) };
    let (times, kind) = headline_times(op);
    tile(out, &op.name, &format!("{}/s", rate(op.rate)), &format!("{} answered", group(op.done)))?;
    tile(out, "median", &time(times.p50_ns), kind)?;
    tile(out, "99th percentile", &time(times.p99_ns), kind)?;
    tile(out, "slowest", &time(times.max_ns), kind)?;
    if let Some(server) = &summary.server {
        let note = "operations per CPU-second of the server";
        let value = group_f64(server.ops_per_cpu_s);
        tile(out, "efficiency", &value, note)?;
    }
    let errors: u64 = summary.errors.iter().map(|error| error.count).sum();
    tile(out, "errors", &group(errors), "whole run")
}

/// What users feel, if it was measured.
fn headline_times(op: &OpSummary) -> (&Percentiles, &'static str) {
    if op.response.count > 0 {
        (&op.response, "from the intended start")
    } else {
        (&op.service, "service time")
    }
}

/// A table whose first `texts` columns hold words, which stand on the left.
fn table(
    out: &mut String,
    (title, texts): (&str, usize),
    heads: &[&str],
    rows: &[Vec<String>],
) -> std::fmt::Result {
    write!(
        out,
        "<section><h2>{}</h2><div class=\"scroll\"><table class=\"t{texts}\"><thead><tr>",
        escape(title)
    )?;
    for head in heads {
        write!(out, "<th>{}</th>", escape(head))?;
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            write!(out, "<td>{}</td>", escape(cell))?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

fn operations(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let row = |op: &OpSummary| {
        let name = if op.counted { op.name.clone() } else { format!("{} (not counted)", op.name) };
        vec![
            name,
            time_f64(op.interval_mean_highest_ns),
            time_f64(op.interval_mean_lowest_ns),
            format!("{}/s", rate(op.rate_highest)),
            format!("{}/s", rate(op.rate)),
            time_f64(op.service.mean_ns),
            group(op.done),
            group(op.failed),
            group(op.missed),
            group(op.unanswered),
        ]
    };
    let rows: Vec<_> = summary.ops.iter().map(row).collect();
    let heads = [
        "Operation",
        "Highest 10 s mean",
        "Lowest 10 s mean",
        "Highest rate",
        "Mean rate",
        "Mean",
        "Count",
        "Failed",
        "Not sent in time",
        "Unanswered",
    ];
    table(out, ("Operations", 1), &heads, &rows)
}

fn percentiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mut rows = Vec::new();
    for op in &summary.ops {
        let kinds = [
            ("service time", &op.service),
            ("from the intended start", &op.response),
            ("lateness of sending", &op.lateness),
        ];
        for (kind, it) in kinds.into_iter().filter(|(_, it)| it.count > 0) {
            let mut row = vec![op.name.clone(), kind.to_owned()];
            let values = [
                it.min_ns, it.p50_ns, it.p75_ns, it.p90_ns, it.p95_ns, it.p99_ns, it.p999_ns,
                it.max_ns,
            ];
            row.extend(values.map(time));
            row.push(time_f64(it.deviation_ns));
            rows.push(row);
        }
    }
    let heads =
        ["Operation", "", "Min", "p50", "p75", "p90", "p95", "p99", "p99.9", "Max", "Deviation"];
    table(out, ("Percentiles", 2), &heads, &rows)
}

fn deliveries(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(it) = &summary.deliveries else { return Ok(()) };
    let rows = [
        ("Echoes: sent, received", format!("{}, {}", group(it.echoes_sent), group(it.echoes))),
        (
            "Broadcasts: sent, delivered",
            format!("{}, {}", group(it.broadcasts_sent), group(it.broadcasts)),
        ),
        ("Lost", it.lost.to_string()),
        ("Doubled", group(it.doubled)),
        ("Reordered", group(it.reordered)),
        ("Not the run's", group(it.foreign)),
        ("Not followed: too many senders", group(it.untracked)),
    ];
    let rows: Vec<_> = rows.map(|(name, value)| vec![name.to_owned(), value]).into();
    table(out, ("Match messages, whole run", 1), &["", "Count"], &rows)
}

fn errors(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.errors.is_empty() {
        out.push_str("<section><h2>Errors</h2><p>None.</p></section>");
        return Ok(());
    }
    let row = |error: &super::summary::ErrorSummary| {
        let example = error.example.clone();
        vec![group(error.count), error.op.clone(), error.kind.clone(), example]
    };
    let rows: Vec<_> = summary.errors.iter().map(row).collect();
    table(out, ("Errors, whole run", 4), &["Count", "Operation", "Kind", "First one"], &rows)
}

fn costs(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let mut rows: Vec<(&str, String)> = Vec::new();
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
    if let Some(it) = &summary.server {
        let cpu_s = it.user_s + it.system_s;
        let share = 100.0 * cpu_s / it.wall_s.max(1e-9);
        let players = float(u64::from(summary.settings.players.max(1)));
        let grown = float(it.resident_ready_bytes.saturating_sub(it.resident_before_bytes));
        rows.push(("Server: operations per CPU-second", group_f64(it.ops_per_cpu_s)));
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
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(out, ("Network and cost, counted time", 2), &["", ""], &rows)
}

fn generator_memory(it: &super::summary::GeneratorCost) -> String {
    match it.bytes_per_player {
        0 => bytes(it.resident_bytes),
        count => format!("{}, {} per player", bytes(it.resident_bytes), bytes(count)),
    }
}

fn reproduce(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let environment = &summary.environment;
    let quote = |word: &String| {
        let is_plain = word.chars().all(|c| c.is_alphanumeric() || "-_./:=,".contains(c));
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let command: Vec<String> = environment.command.iter().map(quote).collect();
    write!(
        out,
        "<section><h2>How to reproduce it</h2><pre>{}</pre></section>",
        escape(&command.join(" "))
    )?;
    let rows = environment.rows();
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(out, ("Where it was measured", 2), &["", ""], &rows)
}

#[cfg(test)]
mod tests {
    use super::html;
    use crate::load::summary::{CurvePoint, ErrorSummary, OpSummary, Second, SecondOp, Summary};

    #[test]
    fn the_page_stands_alone_and_escapes_what_servers_say() {
        let second = Second {
            length_s: 1.0,
            stage: "counted".to_owned(),
            ops: vec![SecondOp {
                done: 5,
                p50_ns: 1_000,
                p99_ns: 2_000,
                max_ns: 3_000,
                ..SecondOp::default()
            }],
            heat: vec![(30, 5)],
            ..Second::default()
        };
        let series = (0..2_000).map(|at| Second { at_s: f64::from(at) + 1.0, ..second.clone() });
        let point = |quantile| CurvePoint { quantile, service_ns: 5, response_ns: 7 };
        let summary = Summary {
            headline: "<op>".to_owned(),
            ops: vec![OpSummary {
                name: "<op>".to_owned(),
                counted: true,
                done: 10_000,
                curve: vec![point(0.0), point(0.5), point(0.99)],
                ..OpSummary::default()
            }],
            errors: vec![ErrorSummary {
                kind: "</script><script>alert(1)</script>".to_owned(),
                count: 3,
                ..ErrorSummary::default()
            }],
            series: series.collect(),
            ..Summary::default()
        };
        let page = html(&summary);
        assert!(!page.contains("<script>alert") && !page.contains("</script><script>"), "script");
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("NaN"));
        assert_eq!(page.matches("<svg").count(), 6);
        assert_eq!(page.matches("</script>").count(), 1);
    }
}
