//! The result as one HTML file that needs nothing else: no network, no script, charts as SVG, and
//! the figures once more as JSON inside.
//!
//! The first screen answers what a reader asks first: does what was expected hold, may this be
//! believed, how slow, how much, how dear. Everything below is evidence. In the closed loop, which
//! finds throughput, how much comes before how slow.

mod charts;
mod comparison;
mod over_time;
mod overlays;
mod tables;

use std::fmt::Write as _;

pub use comparison::comparison;

use super::advice::mending;
use crate::load::result::expect::Verdict;
use crate::load::result::figures;
use crate::load::result::notes::is_answered;
use crate::load::result::{OpSummary, Summary};
use crate::measure::number::{bytes, bytes_f64, group, group_f64, players, rate, time};
use crate::measure::page::{self, Mood, badge, banner, pairs, stamp, tile};
use crate::measure::percentiles::Percentiles;
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
    if summary.settings.is_closed() {
        tables::operations(out, summary)?;
        tables::percentiles(out, summary)?;
    } else {
        tables::percentiles(out, summary)?;
        tables::operations(out, summary)?;
    }
    tables::deliveries(out, summary)?;
    tables::errors(out, summary)?;
    tables::costs(out, summary)?;
    let environment = &summary.environment;
    page::commands(out, &environment.command_line())?;
    pairs(out, "Where it was measured", environment.rows())?;
    tables::warnings(out, environment)?;
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
    expectations(out, &summary.expectations)?;
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
    tiles(out, summary)?;
    write!(out, "<p class=\"how\">{}</p></header>", escape(&how(summary)))
}

/// What was expected, and whether it holds.
fn expectations(out: &mut String, verdicts: &[Verdict]) -> std::fmt::Result {
    if verdicts.is_empty() {
        return Ok(());
    }
    out.push_str("<ul class=\"expectations\">");
    // What does not hold is what is looked for.
    let (held, failed): (Vec<_>, Vec<_>) = verdicts.iter().partition(|it| it.holds);
    for verdict in failed.into_iter().chain(held) {
        let (class, word) = if verdict.holds { ("good", "holds") } else { ("bad", "FAILED") };
        write!(
            out,
            "<li class=\"{class}\"><b>{word}</b><code>{}</code><span>{}</span></li>",
            escape(&verdict.condition),
            escape(&verdict.found)
        )?;
    }
    out.push_str("</ul>");
    Ok(())
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
    if let Some((mood, text)) = expected(&summary.expectations) {
        badge(out, mood, &text)?;
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

/// How many expectations hold; none without any.
fn expected(verdicts: &[Verdict]) -> Option<(Mood, String)> {
    let failed = verdicts.iter().filter(|verdict| !verdict.holds).count();
    match (verdicts.len(), failed) {
        (0, _) => None,
        (1, 0) => Some((Mood::Good, "the expectation holds".to_owned())),
        (1, _) => Some((Mood::Bad, "the expectation failed".to_owned())),
        (all, 0) => Some((Mood::Good, format!("all {all} expectations hold"))),
        (all, failed) => Some((Mood::Bad, format!("{failed} of {all} expectations failed"))),
    }
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
    let per_s = format!("{} {} a second", rate(op.rate), op.name);
    let mut text = if summary.settings.is_closed() {
        let players = players(summary.settings.players);
        format!("{per_s}, which is all that {players} in a closed loop got")
    } else {
        format!("{}, half within {}, at {per_s}", most_within(times), time(times.p50_ns))
    };
    if op.missed > 0 {
        let _ = write!(text, "; {} more were due and could not be sent", group(op.missed));
    }
    text.push('.');
    text
}

/// How slow it gets: of few, the slowest is all that can be told.
fn most_within(times: &Percentiles) -> String {
    match times.p99() {
        Some(ns) => format!("99 % answered within {}", time(ns)),
        None => format!("the slowest answered within {}", time(times.max_ns)),
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

/// What matters most first: times in the open loop, in the closed one throughput.
fn tiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(op) = summary.headline_op() else { return Ok(()) };
    let is_closed = summary.settings.is_closed();
    for is_first in [true, false] {
        out.push_str("<section class=\"tiles\">");
        if is_first == is_closed {
            tiles_of_throughput(out, summary, op)?;
        } else {
            tiles_of_times(out, op)?;
        }
        out.push_str("</section>");
    }
    Ok(())
}

fn tiles_of_times(out: &mut String, op: &OpSummary) -> std::fmt::Result {
    let (times, kind) = headline_times(op);
    let [p50, _, p90, p95, p99, p999] = times.told();
    let slowest = (times.count > 0).then_some(times.max_ns);
    for (name, ns) in [
        ("median", p50),
        ("90th percentile", p90),
        ("95th percentile", p95),
        ("99th percentile", p99),
        ("99.9th percentile", p999),
        ("slowest", slowest),
    ] {
        if let Some(ns) = ns {
            tile(out, name, &time(ns), kind)?;
        }
    }
    Ok(())
}

fn tiles_of_throughput(out: &mut String, summary: &Summary, op: &OpSummary) -> std::fmt::Result {
    tile(out, &op.name, &format!("{}/s", rate(op.rate)), &format!("{} answered", group(op.done)))?;
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

#[cfg(test)]
mod tests {
    use super::html;
    use crate::load::record::Stage;
    use crate::load::result::expect::Verdict;
    use crate::load::result::summary::{ErrorSummary, OpSummary, Summary};
    use crate::load::result::{Second, SecondOp};
    use crate::measure::percentiles::{CurvePoint, Percentiles};

    #[test]
    fn the_page_stands_alone_and_escapes_what_servers_say() {
        let second = Second {
            length_s: 1.0,
            stage: Stage::Counted,
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
        let verdict = |condition: &str, holds| Verdict {
            condition: condition.to_owned(),
            holds,
            found: "<op>.rate is <5".to_owned(),
        };
        let summary = Summary {
            headline: "<op>".to_owned(),
            expectations: vec![verdict("rate > 1", true), verdict("<b>", false)],
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
        assert!(!page.contains("<op>") && !page.contains("<b><b>"));
        let failed = "<li class=\"bad\"><b>FAILED</b><code>&lt;b&gt;</code>";
        let places = [failed, "<code>rate &gt; 1</code>", "class=\"verdict", "<svg"];
        let places = places.map(|it| page.find(it).unwrap_or_else(|| panic!("{it}: {page}")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(page.contains("1 of 2 expectations failed</span>"));
    }

    /// A run of sixty seconds: the players come for ten, nothing is answered from the 40th to the
    /// 44th, and there are errors of two kinds then.
    fn broken_run(saturate: bool) -> Summary {
        let second = |at: u32| {
            let is_broken = (40..45).contains(&at);
            let done = if at < 10 || is_broken { 0 } else { 500 };
            Second {
                at_s: f64::from(at) + 1.0,
                length_s: 1.0,
                stage: if at < 10 { Stage::Ramp } else { Stage::Counted },
                ops: vec![SecondOp {
                    done,
                    started: done,
                    p50_ns: 1_000,
                    p90_ns: 1_500,
                    p95_ns: 1_600,
                    p99_ns: 2_000,
                    p999_ns: 2_500,
                    max_ns: if at < 10 { 0 } else { 3_000 },
                    ..SecondOp::default()
                }],
                errors: if is_broken { 9 } else { 0 },
                errors_by: if is_broken { vec![(0, 6), (1, 3)] } else { Vec::new() },
                server_cpu: [0.2, 0.4][at as usize % 2],
                ..Second::default()
            }
        };
        let error = |kind: &str, count| ErrorSummary {
            op: "ask".to_owned(),
            kind: kind.to_owned(),
            count,
            ..ErrorSummary::default()
        };
        let times = Percentiles { count: 22_500, p99_ns: 2_000, ..Percentiles::default() };
        let mut summary = Summary {
            headline: "ask".to_owned(),
            series_unix_ms: 1_795_326_541_000,
            ops: vec![OpSummary {
                name: "ask".to_owned(),
                counted: true,
                done: 22_500,
                response: times,
                service: times,
                ..OpSummary::default()
            }],
            errors: vec![error("connect: refused", 30), error("no answer", 15)],
            series: (0..60).map(second).collect(),
            ..Summary::default()
        };
        summary.settings.saturate = saturate;
        summary
    }

    #[test]
    fn what_the_loop_is_for_leads_and_everything_can_be_read_off() {
        for saturate in [false, true] {
            let page = html(&broken_run(saturate));
            let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
            for (times, throughput) in [
                ("<b>Times of ask</b>", "<b>Throughput</b>"),
                ("<span>99.9th percentile</span>", "<span>ask</span>"),
                ("<h2>Percentiles</h2>", "<h2>Operations</h2>"),
            ] {
                assert_eq!(at(times) < at(throughput), !saturate, "{times}");
            }
            // The ramp is there and marked, with the time of day below.
            assert!(page.contains(">players come</text>") && page.contains("not counted"));
            assert!(page.contains(">05:49:01</text>"), "{page}");
            // At the pointer: percentiles of which a second has enough values.
            let note = "<b>20 s, 05:49:21 UTC</b><span class=\"k4\">slowest<em>3.00 µs</em></span>\
                        <span class=\"k1\">p99<em>2.00 µs</em></span>\
                        <span class=\"k2\">p95<em>1.60 µs</em></span>\
                        <span class=\"k5\">p90<em>1.50 µs</em></span>\
                        <span class=\"k0\">p50<em>1.00 µs</em></span>";
            assert!(
                page.contains(note) && page.contains("no p99.9: under 1,000 a second"),
                "{page}"
            );
            // Errors by kind, in the seconds in which they were.
            assert_eq!(page.matches("<rect class=\"column\"").count(), 10);
            let note = "<b>41 s, 05:49:42 UTC</b><span class=\"k4\">ask: connect: refused\
                        <em>6.00/s</em></span><span class=\"k1\">ask: no answer<em>3.00/s</em>";
            assert!(page.contains(note), "{page}");
        }
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
            for part in ["99 % answered within", "99th percentile"] {
                assert_eq!(page.contains(part), is_told, "{count}: {part}");
            }
            assert_eq!(page.contains("the slowest answered within 7.00 µs"), !is_told, "{count}");
            assert_eq!(page.matches("<td>–</td>").count(), if is_told { 1 } else { 2 }, "{count}");
        }
    }
}
