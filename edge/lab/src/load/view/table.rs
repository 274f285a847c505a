//! The result as text for a terminal. A run that has shown nothing has no tables: what happened and
//! what to do stands there instead.

use std::fmt::Write as _;

use super::advice::{cure, failure, mending, missing};
use super::{connections, zone};
use crate::load::result::figures::{interval, interval_s, memory_of_player, ops_per_cpu_s};
use crate::load::result::notes::is_answered;
use crate::load::result::{EndingTimes, OpSummary, Summary};
use crate::measure::number::{
    bits, bytes, bytes_f64, float, group, group_f64, rate, seconds_text, time, time_f64,
};
use crate::measure::percentiles::TOO_FEW;
use crate::measure::text::one_line;

/// Characters of a line of prose, at most; words that are longer stand alone.
const WIDTH: usize = 100;
/// Characters of the figures of an operation, and of the kind and percentiles of its times.
const OPERATION_COLUMNS: usize = 80;
const TIMES_COLUMNS: usize = 73;
/// The whole result.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, summary);
    out
}

fn write_all(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if !head(out, summary)? {
        return Ok(());
    }
    figures(out, summary)?;
    writeln!(out)?;
    operations(out, summary)?;
    distributions(out, summary)?;
    deliveries(out, summary)?;
    errors(out, summary)?;
    connecting(out, summary)?;
    network(out, summary)?;
    costs(out, summary)
}

/// What was asked for, and what is to be known before any figure is read. Tells whether figures are
/// there; if nothing was answered, the errors stand in their place.
pub(crate) fn head(out: &mut String, summary: &Summary) -> Result<bool, std::fmt::Error> {
    let settings = &summary.settings;
    if let Some(reason) = failure(summary) {
        paragraph(out, "FAILED: ", &reason)?;
        last_lines(out, summary)?;
    }
    paragraph(out, &format!("{}: ", summary.scenario), &summary.title)?;
    if !summary.ended.is_empty() {
        paragraph(out, "ENDED EARLY: ", &summary.ended)?;
    }
    if is_answered(summary) && !summary.invalid.is_empty() {
        for reason in &summary.invalid {
            paragraph(out, "INVALID: ", reason)?;
        }
        for line in mending(summary) {
            paragraph(out, "       → ", &line)?;
        }
    }
    for note in &summary.notes {
        paragraph(out, "note: ", note)?;
    }
    let mut how = settings.loop_words();
    if settings.is_closed() {
        how.push_str(" (times are not what users feel)");
    }
    let pipeline = match settings.pipeline {
        0 | 1 => String::new(),
        depth => format!(", {depth} requests in a write"),
    };
    let text = format!(
        "{} on {}, {how}{pipeline}; counted {:.2} s{}, after {}",
        summary.actors(settings.players),
        settings.target,
        summary.counted_s,
        planned(settings.planned_s),
        whole(settings.warm_up_s),
    );
    paragraph(out, "", &text)?;
    if let Some(text) = missing(summary).filter(|text| failure(summary).as_ref() != Some(text)) {
        paragraph(out, "", &text)?;
    }
    if !is_answered(summary) {
        errors(out, summary)?;
    }
    Ok(is_answered(summary))
}

/// What a server that ended by itself printed before.
fn last_lines(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(ended) = &summary.server_ended else { return Ok(()) };
    paragraph(out, "        ", &ended.lines_head())?;
    for line in &ended.last_lines {
        writeln!(out, "          {}", one_line(line))?;
    }
    Ok(())
}

/// How long a run was to be counted; nothing where that was not said in seconds.
fn planned(seconds: f64) -> String {
    if seconds > 0.0 { format!(" of {} planned", whole(seconds)) } else { String::new() }
}

/// Seconds, with digits behind the point only where they are not whole.
fn whole(seconds: f64) -> String {
    let text = format!("{seconds:.2}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A text of several lines of [`WIDTH`], all of them as far in as the first.
pub(crate) fn paragraph(out: &mut String, prefix: &str, text: &str) -> std::fmt::Result {
    let indent = prefix.chars().count();
    let mut column = indent;
    out.push_str(prefix);
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > WIDTH {
            write!(out, "\n{:indent$}", "")?;
            column = indent;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    writeln!(out)
}

/// The figures that matter most.
fn figures(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if let Some(op) = summary.headline_op() {
        let name = format!("{}: ", op.name);
        let times = if op.response.count > 0 { &op.response } else { &op.service };
        let kind = if op.response.count > 0 { "response" } else { "service" };
        let p99 = times.p99().map_or(String::new(), |ns| format!(" p99 {},", time(ns)));
        let text = format!(
            "{}/s, {kind} time p50 {},{p99} max {}",
            rate(op.rate),
            time(times.p50_ns),
            time(times.max_ns),
        );
        // Times of failures alone would be read as the server's.
        paragraph(out, &name, if op.done > 0 { &text } else { "none was answered" })?;
    }
    if summary.server.is_some() {
        let per_s = ops_per_cpu_s(summary);
        let per_s = per_s.map_or("– (too little CPU used to tell)".to_owned(), group_f64);
        writeln!(out, "operations per CPU-second of the server: {per_s}")?;
    }
    if let Some(zone) = &summary.zone {
        zone::text(out, summary, zone)?;
    }
    Ok(())
}

fn operations(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let interval = interval(summary, &summary.headline);
    let width = name_width(summary, OPERATION_COLUMNS);
    writeln!(
        out,
        "{:width$}{:>30}{:>26}",
        "",
        format!("mean service time, {interval}"),
        format!("rate, {interval}"),
    )?;
    writeln!(
        out,
        "{:width$}{:>10}{:>10}{:>10}{:>13}{:>13}{:>14}{:>10}",
        "operation", "highest", "lowest", "of all", "highest", "of all", "count", "failed"
    )?;
    for (index, op) in summary.ops.iter().enumerate() {
        writeln!(
            out,
            "{:width$}{:>10}{:>10}{:>10}{:>11}/s{:>11}/s{:>14}{:>10}",
            cut(&op.name, width),
            time_f64(op.interval_mean_highest_ns),
            time_f64(op.interval_mean_lowest_ns),
            time_f64(op.service.mean_ns),
            rate(op.rate_highest),
            rate(op.rate),
            group(op.done),
            group(op.failed),
        )?;
        let own = seconds_text(interval_s(summary, index));
        let own = (op.setup && op.done > 0 && own != interval).then_some(own);
        let remarks = remarks(op, own);
        if !remarks.is_empty() {
            paragraph(out, "    ", &remarks)?;
        }
    }
    Ok(())
}

/// What is to be said of an operation below its line; `interval` if it has one of its own.
fn remarks(op: &OpSummary, interval: Option<String>) -> String {
    let mut remarks = Vec::new();
    if !op.counted {
        remarks.push("not counted".to_owned());
    }
    remarks.extend(interval.map(|it| format!("over {it}")));
    for (count, what) in [
        (op.retried, "tried again"),
        (op.missed, "not sent in time"),
        (op.unanswered, "unanswered at the end"),
    ] {
        if count > 0 {
            remarks.push(format!("{} {what}", group(count)));
        }
    }
    remarks.join(", ")
}

/// Room for names beside so many columns of figures: as much as they need, if there is as much.
fn name_width(summary: &Summary, figures: usize) -> usize {
    let longest = summary.ops.iter().map(|op| op.name.chars().count()).max().unwrap_or(0);
    (longest + 1).clamp("operation ".len(), WIDTH - figures)
}

/// A name that leaves a blank behind it.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() < width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(2)).chain(['…']).collect()
}

fn distributions(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let width = name_width(summary, TIMES_COLUMNS);
    writeln!(
        out,
        "\n{:width$}{:<10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "times", "", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"
    )?;
    for op in &summary.ops {
        let is_open = op.response.count > 0;
        let of = |it: &EndingTimes| if is_open { it.response } else { it.service };
        let mut kinds = vec![("service", op.service), ("response", op.response)];
        if of(&op.failures).count > 0 {
            // Of the kind before them that has values.
            kinds.extend([(" answered", of(&op.answered)), (" failed", of(&op.failures))]);
        }
        kinds.push(("late", op.lateness));
        for (kind, times) in kinds {
            if times.count > 0 {
                write!(out, "{:width$}{kind:<9} ", cut(&op.name, width))?;
                for ns in times.told().into_iter().chain([Some(times.max_ns)]) {
                    write!(out, "{:>9}", ns.map_or(TOO_FEW.to_owned(), time))?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

fn deliveries(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(it) = &summary.deliveries else { return Ok(()) };
    let text = format!(
        "match messages, whole run: {} echoes of {}, {} deliveries of {} broadcasts ({:.2} each)",
        group(it.echoes),
        group(it.echoes_sent),
        group(it.broadcasts),
        group(it.broadcasts_sent),
        float(it.broadcasts) / float(it.broadcasts_sent.max(1)),
    );
    writeln!(out)?;
    paragraph(out, "", &text)?;
    let text = format!(
        "lost {}, cut off {}, doubled {}, reordered {}, not the run's {}, not followed {}",
        it.lost, it.cut_off, it.doubled, it.reordered, it.foreign, it.untracked
    );
    paragraph(out, "", &text)
}

/// What went wrong, if anything did.
pub(crate) fn errors(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.errors.is_empty() {
        return writeln!(out, "\nno errors");
    }
    writeln!(out, "\nerrors (whole run)")?;
    for error in &summary.errors {
        let prefix = format!("{:>12}  ", group(error.count));
        paragraph(out, &prefix, &format!("{}: {}", error.op, one_line(&error.kind)))?;
        if !error.example.is_empty() {
            paragraph(out, "              e.g. ", &one_line(&error.example))?;
        }
        if let Some(cure) = cure(error, summary) {
            paragraph(out, "              → ", &cure)?;
        }
    }
    Ok(())
}

/// What stands in no service time.
pub(crate) fn connecting(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let rows = connections::rows(summary);
    if !rows.is_empty() {
        writeln!(out)?;
    }
    for (name, text) in rows {
        paragraph(out, &format!("{name}: "), &text)?;
    }
    Ok(())
}

fn network(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let it = &summary.network;
    writeln!(
        out,
        "\nnetwork: sent {} (highest {}), received {} (highest {})",
        bytes(it.sent_bytes),
        bits(it.sent_bits_highest),
        bytes(it.received_bytes),
        bits(it.received_bits_highest),
    )
}

fn costs(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if let Some(it) = &summary.server {
        let cpu_s = it.user_s + it.system_s;
        let threads = match (it.threads_start, it.threads_end) {
            (start, end) if start == end => format!("threads {end}"),
            (start, end) => format!("threads {start} → {end}"),
        };
        let text = format!(
            "{:.1} % of a CPU ({:.2} s user, {:.2} s system), memory {} → {} → {}, {threads}",
            100.0 * cpu_s / it.wall_s.max(1e-9),
            it.user_s,
            it.system_s,
            bytes(it.resident_before_bytes),
            bytes(it.resident_start_bytes),
            bytes(it.resident_end_bytes),
        );
        paragraph(out, "server: ", &text)?;
        let players = float(u64::from(summary.settings.players.max(1)));
        let memory = memory_of_player(summary);
        let memory = memory.map_or(String::new(), |it| format!(", {} memory", bytes_f64(it)));
        writeln!(
            out,
            "        until all had come, per player: {:.1} µs CPU{memory}",
            1e6 * it.ramp_cpu_s / players,
        )?;
    }
    let it = &summary.generator;
    let per_player = match it.bytes_per_player {
        0 => String::new(),
        count => format!(" ({} per player)", bytes(count)),
    };
    let text = format!(
        "{:.1} % of a CPU, memory {}{}, behind p99 {}, longest turn {}, driver {}",
        100.0 * it.cpu_share,
        bytes(it.resident_bytes),
        per_player,
        it.behind.p99().map_or(TOO_FEW.to_owned(), time),
        time(it.turn_ns_max),
        summary.settings.driver,
    );
    paragraph(out, "generator: ", &text)
}

#[cfg(test)]
mod tests;
