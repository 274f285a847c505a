//! The result as one HTML file that needs nothing else: no network, no script, charts as SVG, and
//! the figures once more as JSON inside.
//!
//! The first screen answers what a reader asks first: may this be believed, how much, how slow,
//! how dear. Everything below is evidence.

mod charts;
mod comparison;
mod overlays;

use std::fmt::Write as _;

pub use comparison::comparison;

use super::advice::{cure, mending};
use super::connections;
use crate::load::result::figures::{self, interval};
use crate::load::result::notes::is_answered;
use crate::load::result::{OpSummary, Summary};
use crate::measure::number::{
    bits, bytes, bytes_f64, float, group, group_f64, players, rate, time, time_f64,
};
use crate::measure::page::{self, Mood, badge, banner, pairs, stamp, table, tile};
use crate::measure::percentiles::{Percentiles, TOO_FEW};
use crate::measure::text::escape;

/// Characters of an error's example on the first screen, at most; the table has it whole.
const EXAMPLE_CHARS_MAX: usize = 120;

/// The whole page.
#[must_use]
pub fn html(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, summary);
    out
}

fn write_page(out: &mut String, summary: &Summary) -> std::fmt::Result {
    page::open(out, &format!("{}: {}", summary.scenario, summary.title))?;
    head(out, summary)?;
    charts::charts(out, summary)?;
    operations(out, summary)?;
    percentiles(out, summary)?;
    deliveries(out, summary)?;
    errors(out, summary)?;
    costs(out, summary)?;
    let environment = &summary.environment;
    page::commands(out, &environment.command_line())?;
    pairs(out, "Where it was measured", environment.rows())?;
    let json = serde_json::to_string(summary).unwrap_or_default().replace('<', "\\u003c");
    write!(out, "<script type=\"application/json\" id=\"result\">{json}</script>")?;
    page::close(out);
    Ok(())
}

fn head(out: &mut String, summary: &Summary) -> std::fmt::Result {
    write!(
        out,
        "<header><p class=\"kind\"><span>throng load · {}</span>",
        escape(&summary.scenario)
    )?;
    badges(out, summary)?;
    write!(
        out,
        "</p><h1>{}</h1><p class=\"about\">{}</p>",
        escape(&summary.title),
        escape(summary.about.trim()),
    )?;
    banners(out, summary)?;
    let void = if summary.invalid.is_empty() { "" } else { " void" };
    write!(out, "<p class=\"verdict{void}\">{}</p>", escape(&verdict(summary)))?;
    if let Some(text) = summary.ramp.as_ref().and_then(|it| it.text(summary.settings.players)) {
        banner(out, Mood::Warn, "Missing.", &text)?;
    }
    if let Some(text) = what_went_wrong(summary) {
        banner(out, Mood::Warn, "Errors.", &text)?;
    }
    if summary.settings.is_closed() {
        let text = "Each operation began when the last was answered: this finds throughput, and \
                    its times say nothing about what users feel.";
        banner(out, Mood::Note, "Closed loop.", text)?;
    }
    out.push_str("<section class=\"tiles\">");
    tiles(out, summary)?;
    write!(out, "</section><p class=\"how\">{}</p></header>", escape(&how(summary)))
}

/// Why the figures are not what they look like.
fn banners(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if !summary.ended.is_empty() {
        banner(out, Mood::Bad, "Ended early.", &summary.ended)?;
    }
    for reason in &summary.invalid {
        let text = format!("The generator was in the way: {reason}. Do not quote these figures.");
        banner(out, Mood::Bad, "INVALID.", &text)?;
    }
    if !summary.invalid.is_empty() && is_answered(summary) {
        banner(out, Mood::Note, "What helps:", &mending(summary).join("; "))?;
    }
    for note in &summary.notes {
        banner(out, Mood::Note, "Note.", note)?;
    }
    Ok(())
}

/// What kind of run it was, and whether it may be believed.
fn badges(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let is_empty = summary.done() == 0;
    match summary.invalid.is_empty() {
        true if is_empty => {}
        true => badge(out, Mood::Good, "valid")?,
        false => badge(out, Mood::Bad, "INVALID")?,
    }
    if summary.settings.tls.as_ref().is_some_and(|it| it.insecure) {
        badge(out, Mood::Warn, "certificates not checked")?;
    }
    badge(out, Mood::Note, if summary.settings.is_closed() { "closed loop" } else { "open loop" })?;
    if is_empty {
        badge(out, Mood::Bad, "nothing answered")?;
    }
    let errors = summary.errors_count();
    if errors > 0 {
        badge(out, Mood::Warn, &format!("{} errors", group(errors)))?;
    }
    let lost = summary.deliveries.as_ref().map_or(0, |it| it.lost);
    if lost != 0 {
        badge(out, Mood::Warn, &format!("{lost} messages lost"))?;
    }
    Ok(())
}

/// The run in one sentence.
fn verdict(summary: &Summary) -> String {
    let Some(op) = summary.headline_op() else { return "Nothing was measured.".to_owned() };
    if op.done == 0 {
        return format!("No {} was answered.", op.name);
    }
    let (times, _) = headline_times(op);
    if op.setup {
        let (count, most) = (group(op.done), most_within(times));
        let mut text = format!("{} {count} times, {most}", op.name);
        if let Some(each) = figures::memory_of_player(summary) {
            let _ = write!(text, "; {} of the server's memory for each player", bytes_f64(each));
        }
        return text + ".";
    }
    let mut text = format!("{} {} a second", rate(op.rate), op.name);
    if summary.settings.is_closed() {
        let players = players(summary.settings.players);
        let _ = write!(text, ", which is all that {players} in a closed loop got");
    } else {
        let (half, most) = (time(times.p50_ns), most_within(times));
        let _ = write!(text, ": half of them answered within {half}, {most}");
    }
    if op.missed > 0 {
        let _ = write!(text, "; {} more were due and could not be sent", group(op.missed));
    }
    text.push('.');
    text
}

/// How slow it gets: of few, the slowest is all that can be told.
fn most_within(times: &Percentiles) -> String {
    match times.p99() {
        Some(ns) => format!("99 % within {}", time(ns)),
        None => format!("the slowest within {}", time(times.max_ns)),
    }
}

fn what_went_wrong(summary: &Summary) -> Option<String> {
    let first = summary.errors.first()?;
    let errors = summary.errors_count();
    let mut text = format!("{} in the whole run", group(errors));
    let _ = match summary.errors.len() {
        1 => write!(text, ", all of them {}: {}", first.op, first.kind),
        _ => write!(text, ", {} of them {}: {}", group(first.count), first.op, first.kind),
    };
    if !first.example.is_empty() {
        let short: String = first.example.chars().take(EXAMPLE_CHARS_MAX).collect();
        let more = if short.len() < first.example.len() { "…" } else { "" };
        let _ = write!(text, ", for example {short}{more}");
    }
    Some(text)
}

/// What was asked for and what became of it.
fn how(summary: &Summary) -> String {
    let settings = &summary.settings;
    let loop_kind = settings.loop_words();
    let pipeline = match settings.pipeline {
        0 | 1 => String::new(),
        depth => format!(", {depth} requests in a write"),
    };
    let peer = match &*summary.environment.peer {
        "" => String::new(),
        peer => format!(" ({peer})"),
    };
    format!(
        "{} on {}{peer}, {loop_kind}{pipeline}; {:.1} s counted of {:.0} planned, after \
         {:.0} s of warm-up; begun {}.",
        players(settings.players),
        settings.target,
        summary.counted_s,
        settings.planned_s,
        settings.warm_up_s,
        stamp(summary.started_unix_s),
    )
}

fn tiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(op) = summary.headline_op() else { return Ok(()) };
    let (times, kind) = headline_times(op);
    tile(out, &op.name, &format!("{}/s", rate(op.rate)), &format!("{} answered", group(op.done)))?;
    if times.count > 0 {
        tile(out, "median", &time(times.p50_ns), kind)?;
        if let Some(ns) = times.p99() {
            tile(out, "99th percentile", &time(ns), kind)?;
        }
        tile(out, "slowest", &time(times.max_ns), kind)?;
    }
    if let Some(per_s) = figures::ops_per_cpu_s(summary) {
        let note = "operations per CPU-second of the server";
        tile(out, "efficiency", &group_f64(per_s), note)?;
    } else if summary.server.is_some() && op.done > 0 {
        let note = "too little CPU used to tell operations per CPU-second";
        tile(out, "efficiency", "–", note)?;
    }
    if let Some(server) = &summary.server {
        let share = 100.0 * (server.user_s + server.system_s) / server.wall_s.max(1e-9);
        tile(out, "server", &bytes(server.resident_end_bytes), &format!("{share:.0} % of a CPU"))?;
    }
    let errors = summary.errors_count();
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

fn operations(out: &mut String, summary: &Summary) -> std::fmt::Result {
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
    let interval = interval(summary, &summary.headline);
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

fn percentiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
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
            let values = least.into_iter().chain(it.told()).chain(most);
            row.extend(values.map(|ns| ns.map_or(TOO_FEW.to_owned(), time)));
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
        ("Cut off by a lost connection", group(it.cut_off)),
        ("Doubled", group(it.doubled)),
        ("Reordered", group(it.reordered)),
        ("Not the run's", group(it.foreign)),
        ("Not followed: too many senders", group(it.untracked)),
    ];
    pairs(out, "Match messages, whole run", rows)
}

fn errors(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.errors.is_empty() {
        out.push_str("<section><h2>Errors</h2><p>None.</p></section>");
        return Ok(());
    }
    let row = |error: &crate::load::result::summary::ErrorSummary| {
        let example = error.example.clone();
        let cure = cure(error).unwrap_or_default().into_owned();
        vec![group(error.count), error.op.clone(), error.kind.clone(), example, cure]
    };
    let rows: Vec<_> = summary.errors.iter().map(row).collect();
    let heads = ["Count", "Operation", "Kind", "First one", "What helps"];
    table(out, ("Errors, whole run", 5), &heads, &rows)
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
    rows.extend(connections::rows(summary));
    if let Some(it) = &summary.server {
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

fn generator_memory(it: &crate::load::result::summary::GeneratorCost) -> String {
    match it.bytes_per_player {
        0 => bytes(it.resident_bytes),
        count => format!("{}, {} per player", bytes(it.resident_bytes), bytes(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::html;
    use crate::load::result::summary::{ErrorSummary, OpSummary, Summary};
    use crate::load::result::{Second, SecondOp};
    use crate::measure::percentiles::{CurvePoint, Percentiles};

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

    #[test]
    fn percentiles_of_too_few_are_not_told() {
        let mut summary = Summary { headline: "op".to_owned(), ..Summary::default() };
        summary.settings.players = 1;
        for (count, is_told) in [(99, false), (100, true)] {
            let service = Percentiles { count, max_ns: 7_000, ..Percentiles::default() };
            let name = "op".to_owned();
            let op =
                OpSummary { name, counted: true, done: count, service, ..OpSummary::default() };
            summary.ops = vec![op];
            let page = html(&summary);
            assert!(page.contains("<p class=\"how\">1 player on "), "{page}");
            for part in ["99 % within", "99th percentile"] {
                assert_eq!(page.contains(part), is_told, "{count}: {part}");
            }
            assert_eq!(page.contains("the slowest within 7.00 µs"), !is_told, "{count}");
            assert_eq!(page.matches("<td>–</td>").count(), if is_told { 1 } else { 2 }, "{count}");
        }
    }
}
