//! The result as one HTML file that needs nothing else: no network, no script, charts as SVG, and
//! the figures once more as JSON inside.
//!
//! The first screen answers what a reader asks first: does what was expected hold, may this be
//! believed, how slow, how much, how dear. Everything below is evidence. In the closed loop, which
//! finds throughput, how much comes before how slow.

mod charts;
mod comparison;
mod flow;
mod over_time;
mod overlays;
mod ping;
mod tables;
mod zone;

use std::fmt::Write as _;

pub use comparison::comparison;

use super::advice::{failure, mending, missing};
use crate::load::result::expect::Verdict;
use crate::load::result::figures;
use crate::load::result::notes::is_answered;
use crate::load::result::validity::GENERATOR;
use crate::load::result::{OpSummary, Summary};
use crate::measure::number::{bytes, bytes_f64, count_of, group, group_f64, rate, time};
use crate::measure::page::{self, Mood, badge, banner, stamp, tile};
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
    match &summary.flow {
        Some(it) => flow::body(out, summary, it)?,
        None => body(out, summary)?,
    }
    let environment = &summary.environment;
    page::origin(out, environment)?;
    tables::warnings(out, environment)?;
    page::close_with(out, summary)
}

/// Charts and tables of operations.
fn body(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if let Some(it) = &summary.zone {
        zone::charts(out, summary, it)?;
    }
    charts::charts(out, summary)?;
    ping::figures(out, summary)?;
    if summary.settings.is_closed() {
        tables::operations(out, summary)?;
        tables::percentiles(out, summary)?;
    } else {
        tables::percentiles(out, summary)?;
        tables::operations(out, summary)?;
    }
    if let Some(it) = &summary.zone {
        zone::tables(out, summary, it)?;
    }
    match &summary.ping {
        Some(it) => ping::tables(out, summary, it)?,
        None => tables::deliveries(out, summary)?,
    }
    tables::errors(out, summary)?;
    tables::costs(out, summary)
}

fn head(out: &mut String, summary: &Summary) -> std::fmt::Result {
    write!(
        out,
        "<header><p class=\"kind\"><span>throng {} · {}</span>",
        // Results of older versions do not say it.
        if summary.command.is_empty() { "load" } else { &summary.command },
        escape(&summary.scenario)
    )?;
    badges(out, summary)?;
    write!(
        out,
        "</p><h1>{}</h1><p class=\"about\">{}</p>",
        escape(&summary.title),
        escape(summary.about.trim()),
    )?;
    failed(out, summary)?;
    expectations(out, &summary.expectations)?;
    banners(out, summary)?;
    let void = if summary.invalid.is_empty() { "" } else { " void" };
    write!(out, "<p class=\"verdict{void}\">{}</p>", escape(&verdict(summary)))?;
    if let Some(it) = &summary.zone {
        write!(
            out,
            "<p class=\"verdict{void}\">{}</p><p class=\"about\">{}.</p>",
            escape(&it.claim()),
            escape(&capital(&it.definition())),
        )?;
    }
    if let Some(text) = missing(summary).filter(|text| failure(summary).as_ref() != Some(text)) {
        banner(out, Mood::Warn, "Missing.", &text)?;
    }
    if let Some(text) = what_went_wrong(summary) {
        banner(out, Mood::Warn, "Errors.", &text)?;
    }
    if summary.settings.is_closed() && summary.flow.is_none() {
        let text = "Each operation began when the last was answered: this finds throughput, and \
                    its times say nothing about what users feel.";
        banner(out, Mood::Note, "Closed loop.", text)?;
    }
    tiles(out, summary)?;
    write!(out, "<p class=\"how\">{}</p></header>", escape(&how(summary)))
}

/// Why the run has failed, with what a server that ended said before.
fn failed(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(reason) = failure(summary) else { return Ok(()) };
    banner(out, Mood::Bad, "FAILED.", &(reason + "."))?;
    let Some(ended) = &summary.server_ended else { return Ok(()) };
    write!(out, "<p class=\"about\">{}</p>", escape(&ended.lines_head()))?;
    if ended.last_lines.is_empty() {
        return Ok(());
    }
    write!(out, "<pre>{}</pre>", escape(&ended.last_lines.join("\n")))
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
        let what = if reason.starts_with(GENERATOR) { "its times" } else { "these figures" };
        let text = format!("{}. Do not quote {what}.", capital(reason));
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

/// A sentence as it begins.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
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
    if summary.flow.is_none() {
        let kind = if summary.settings.is_closed() { "closed loop" } else { "open loop" };
        badge(out, Mood::Note, kind)?;
    }
    if is_empty {
        badge(
            out,
            Mood::Bad,
            if summary.flow.is_some() { "nothing carried" } else { "nothing answered" },
        )?;
    }
    if summary.server_ended.is_some() {
        badge(out, Mood::Bad, "the server ended")?;
    }
    if let Some(ramp) = summary.ramp.as_ref().filter(|_| missing(summary).is_some()) {
        let (ready, all) = (u64::from(ramp.ready), u64::from(summary.settings.players));
        badge(out, Mood::Bad, &format!("{} of {} players ready", group(ready), group(all)))?;
    }
    let errors = summary.errors_count();
    if errors > 0 {
        badge(out, Mood::Warn, &count_of(errors, "error"))?;
    }
    let lost = summary.deliveries.as_ref().map_or(0, |it| it.lost);
    if lost != 0 {
        let is_load = summary.ping.is_none() && summary.flow.is_none();
        let count = count_of(lost.unsigned_abs(), if is_load { "message" } else { "datagram" });
        // Below nought where more came than were counted as sent.
        let sign = if lost < 0 { "−" } else { "" };
        badge(out, Mood::Warn, &format!("{sign}{count} lost"))?;
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
    if let Some(flow) = &summary.flow {
        return flow::verdict(flow);
    }
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
    let is_one = summary.ping.is_some() && summary.ops.len() == 1;
    // Names of operations have no plural.
    let what = if is_one { "pings".to_owned() } else { format!("× {}", op.name) };
    let per_s = format!("{} {what} a second", rate(op.rate));
    let mut text = if summary.settings.is_closed() {
        let players = summary.actors(summary.settings.players);
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
    let first = summary.harmful_errors().next()?;
    let errors = summary.errors_count();
    let mut text = format!("{} in the whole run", group(errors));
    let _ = match summary.harmful_errors().count() {
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
    if let Some(flow) = &summary.flow {
        let begun = stamp(summary.started_unix_s);
        return format!("{}; begun {begun}.", crate::flow::text::how(summary, flow));
    }
    let loop_kind = settings.loop_words();
    let pipeline = match settings.pipeline {
        0 | 1 => String::new(),
        depth => format!(", {depth} requests in a write"),
    };
    let planned = match settings.planned_s {
        it if it > 0.0 => format!(" of {it:.0} planned"),
        _ => String::new(),
    };
    let peer = match &*summary.environment.peer {
        "" => String::new(),
        peer => format!(" ({peer})"),
    };
    format!(
        "{} on {}{peer}, {loop_kind}{pipeline}; {:.1} s counted{planned}, after {:.0} s of \
         warm-up; begun {}.",
        summary.actors(settings.players),
        settings.target,
        summary.counted_s,
        settings.warm_up_s,
        stamp(summary.started_unix_s),
    )
}

/// What matters most first: times in the open loop, in the closed one throughput.
fn tiles(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if let Some(flow) = &summary.flow {
        return flow::tiles(out, flow);
    }
    if let Some(it) = &summary.zone {
        zone::tiles(out, it)?;
    }
    let Some(op) = summary.headline_op() else { return Ok(()) };
    let is_closed = summary.settings.is_closed();
    for is_first in [true, false] {
        let mut tiles = String::new();
        if is_first == is_closed {
            tiles_of_throughput(&mut tiles, summary, op)?;
        } else {
            tiles_of_times(&mut tiles, op)?;
        }
        if !tiles.is_empty() {
            write!(out, "<section class=\"tiles\">{tiles}</section>")?;
        }
    }
    Ok(())
}

/// None of an operation that was never answered: how long its failures took is no time that anybody
/// waited for an answer, and stands in the tables.
fn tiles_of_times(out: &mut String, op: &OpSummary) -> std::fmt::Result {
    if op.done == 0 {
        return Ok(());
    }
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
    if let Some(it) = &summary.ping {
        ping::tiles(out, summary, it)?;
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
mod tests;
