//! The result as text for a terminal. A run that has shown nothing has no tables: what happened and
//! what to do stands there instead.

use std::fmt::Write as _;

use super::advice::{cure, failure, is_answered, mending, one_line};
use super::compare::measures;
use super::record::Stage;
use super::summary::{INTERVAL_S, OpSummary, Percentiles, Summary, float};

/// Characters of a line of prose, at most; words that are longer stand alone.
const WIDTH: usize = 100;
/// Seconds by which an interval may be shorter and still goes by the name of a whole one.
const INTERVAL_SLACK_S: f64 = 0.5;

/// The whole result.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, summary);
    out
}

fn write_all(out: &mut String, summary: &Summary) -> std::fmt::Result {
    head(out, summary)?;
    if !is_answered(summary) {
        if let Some(reason) = failure(summary) {
            paragraph(out, "FAILED: ", &reason)?;
        }
        return errors(out, summary);
    }
    figures(out, summary)?;
    writeln!(out)?;
    operations(out, summary)?;
    distributions(out, summary)?;
    deliveries(out, summary)?;
    errors(out, summary)?;
    network(out, summary)?;
    costs(out, summary)
}

fn head(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let settings = &summary.settings;
    writeln!(out, "{}: {}", summary.scenario, summary.title)?;
    if !summary.ended.is_empty() {
        paragraph(out, "ENDED EARLY: ", &summary.ended)?;
    }
    if is_answered(summary) && !summary.invalid.is_empty() {
        for reason in &summary.invalid {
            paragraph(out, "INVALID: ", &format!("the generator was in the way: {reason}"))?;
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
    writeln!(
        out,
        "{} players on {}, {how}{pipeline}; counted {:.2} s of {:.0} s planned, after {:.0} s",
        group(u64::from(settings.players)),
        settings.target,
        summary.counted_s,
        settings.planned_s,
        settings.warm_up_s,
    )?;
    if let Some(text) = summary.ramp.as_ref().and_then(|ramp| ramp.text(settings.players)) {
        paragraph(out, "", &text)?;
    }
    Ok(())
}

/// A text of several lines of [`WIDTH`], all of them as far in as the first.
fn paragraph(out: &mut String, prefix: &str, text: &str) -> std::fmt::Result {
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
        let times = if op.response.count > 0 { &op.response } else { &op.service };
        writeln!(
            out,
            "{}: {}/s, p50 {}, p99 {}, max {}",
            op.name,
            rate(op.rate),
            time(times.p50_ns),
            time(times.p99_ns),
            time(times.max_ns),
        )?;
    }
    if summary.server.is_some() {
        let per_s = measures::ops_per_cpu_s(summary);
        let per_s = per_s.map_or("– (too little CPU used to tell)".to_owned(), group_f64);
        writeln!(out, "operations per CPU-second of the server: {per_s}")?;
    }
    Ok(())
}

/// The interval whose highest and lowest mean is told of the operation `name`: Tsung's 10 s, or
/// what a shorter run had.
pub(crate) fn interval(summary: &Summary, name: &str) -> String {
    match summary.ops.iter().position(|op| op.name == name) {
        Some(index) => seconds_text(interval_s(summary, index)),
        None => seconds_text(float(INTERVAL_S as u64)),
    }
}

/// Likewise of one operation, in seconds: one outside the loop has its own time.
fn interval_s(summary: &Summary, index: usize) -> f64 {
    let is_setup = summary.ops.get(index).is_some_and(|op| op.setup);
    let seconds = summary.series.iter().filter(|second| {
        let is_done = second.ops.get(index).is_some_and(|op| op.done > 0);
        if is_setup { is_done } else { second.stage == Stage::Counted.word() }
    });
    let most = float(INTERVAL_S as u64);
    let length_s: f64 = seconds.map(|second| second.length_s).sum();
    if length_s > most - INTERVAL_SLACK_S { most } else { length_s }
}

fn seconds_text(seconds: f64) -> String {
    if seconds < 0.95 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

fn operations(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let interval = interval(summary, &summary.headline);
    let (highest, lowest) = (format!("highest {interval}"), format!("lowest {interval}"));
    writeln!(
        out,
        "{:<14}{highest:>14}{lowest:>14}{:>12}{:>12}{:>12}{:>12}{:>9}",
        "operation", "highest", "mean", "mean", "count", "failed"
    )?;
    writeln!(
        out,
        "{:<14}{:>14}{:>14}{:>12}{:>12}{:>12}",
        "", "mean", "mean", "rate", "rate", "time"
    )?;
    for (index, op) in summary.ops.iter().enumerate() {
        let own = seconds_text(interval_s(summary, index));
        let own = match op.done {
            1.. if op.setup && own != interval => format!("  (within {own})"),
            _ => String::new(),
        };
        writeln!(
            out,
            "{:<14}{:>14}{:>14}{:>10}/s{:>10}/s{:>12}{:>12}{:>9}{}{own}",
            op.name,
            time_f64(op.interval_mean_highest_ns),
            time_f64(op.interval_mean_lowest_ns),
            rate(op.rate_highest),
            rate(op.rate),
            time_f64(op.service.mean_ns),
            group(op.done),
            group(op.failed),
            remarks(op),
        )?;
    }
    Ok(())
}

fn remarks(op: &OpSummary) -> String {
    let mut remarks = String::new();
    for (count, what) in [
        (op.retried, "tried again"),
        (op.missed, "not sent in time"),
        (op.unanswered, "unanswered at the end"),
    ] {
        if count > 0 {
            let _ = write!(remarks, "  {} {what}", group(count));
        }
    }
    if !op.counted {
        remarks.push_str("  (not counted)");
    }
    remarks
}

fn distributions(out: &mut String, summary: &Summary) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<26}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "times", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"
    )?;
    for op in &summary.ops {
        let kinds = [("service", &op.service), ("response", &op.response), ("late", &op.lateness)];
        for (kind, times) in kinds {
            if times.count > 0 {
                distribution(out, &format!("{} {kind}", op.name), times)?;
            }
        }
    }
    Ok(())
}

fn distribution(out: &mut String, name: &str, times: &Percentiles) -> std::fmt::Result {
    write!(out, "{name:<26}")?;
    let Percentiles { p50_ns, p75_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns, .. } = *times;
    for ns in [p50_ns, p75_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns] {
        write!(out, "{:>10}", time(ns))?;
    }
    writeln!(out)
}

fn deliveries(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(it) = &summary.deliveries else { return Ok(()) };
    writeln!(
        out,
        "\nmatch messages, whole run: {} echoes of {}, {} deliveries of {} broadcasts ({:.2} each)",
        group(it.echoes),
        group(it.echoes_sent),
        group(it.broadcasts),
        group(it.broadcasts_sent),
        float(it.broadcasts) / float(it.broadcasts_sent.max(1)),
    )?;
    writeln!(
        out,
        "lost {}, cut off {}, doubled {}, reordered {}, not the run's {}, not followed {}",
        it.lost, it.cut_off, it.doubled, it.reordered, it.foreign, it.untracked
    )
}

fn errors(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if summary.errors.is_empty() {
        return writeln!(out, "\nno errors");
    }
    writeln!(out, "\nerrors (whole run)")?;
    for error in &summary.errors {
        writeln!(out, "{:>12}  {}: {}", group(error.count), error.op, one_line(&error.kind))?;
        if !error.example.is_empty() {
            writeln!(out, "              e.g. {}", one_line(&error.example))?;
        }
        if let Some(cure) = cure(error) {
            paragraph(out, "              → ", cure)?;
        }
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
        writeln!(
            out,
            "server: {:.1} % of a CPU ({:.2} s user, {:.2} s system), memory {} → {} → {}, threads {} → {}",
            100.0 * cpu_s / it.wall_s.max(1e-9),
            it.user_s,
            it.system_s,
            bytes(it.resident_before_bytes),
            bytes(it.resident_start_bytes),
            bytes(it.resident_end_bytes),
            it.threads_start,
            it.threads_end,
        )?;
        let players = float(u64::from(summary.settings.players.max(1)));
        let grown = it.resident_ready_bytes.saturating_sub(it.resident_before_bytes);
        writeln!(
            out,
            "        until all had come, per player: {:.1} µs CPU, {} memory",
            1e6 * it.ramp_cpu_s / players,
            bytes_f64(float(grown) / players),
        )?;
    }
    let it = &summary.generator;
    let per_player = match it.bytes_per_player {
        0 => String::new(),
        count => format!(" ({} per player)", bytes(count)),
    };
    writeln!(
        out,
        "generator: {:.1} % of a CPU, memory {}{}, behind p99 {}, longest turn {}, \
         driver {}",
        100.0 * it.cpu_share,
        bytes(it.resident_bytes),
        per_player,
        time(it.behind.p99_ns),
        time(it.turn_ns_max),
        summary.settings.driver,
    )
}

/// A time with three digits and its unit.
pub(crate) fn time(ns: u64) -> String {
    time_f64(float(ns))
}

pub(crate) fn time_f64(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    if ns <= 0.0 { "0".to_owned() } else { format!("{value:.digits$} {unit}") }
}

/// A rate with about four digits.
pub(crate) fn rate(per_s: f64) -> String {
    if per_s >= 1_000.0 { group_f64(per_s) } else { format!("{per_s:.2}") }
}

pub(crate) fn bytes(count: u64) -> String {
    bytes_f64(float(count))
}

pub(crate) fn bytes_f64(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0} B"),
        count if count < 1e6 => format!("{:.1} KB", count / 1e3),
        count if count < 1e9 => format!("{:.1} MB", count / 1e6),
        count => format!("{:.2} GB", count / 1e9),
    }
}

pub(crate) fn bits(per_s: f64) -> String {
    match per_s {
        it if it < 1e3 => format!("{it:.0} b/s"),
        it if it < 1e6 => format!("{:.1} kb/s", it / 1e3),
        it if it < 1e9 => format!("{:.2} Mb/s", it / 1e6),
        it => format!("{:.2} Gb/s", it / 1e9),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn group_f64(number: f64) -> String {
    group(number.round().clamp(0.0, 1e18) as u64)
}

/// A number with its thousands apart.
pub(crate) fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{bits, bytes, group, interval, paragraph, rate, text, time};
    use crate::load::summary::{ErrorSummary, OpSummary, Second, SecondOp, ServerCost, Summary};

    /// A run of so many seconds that answered one request in each.
    fn run(counted_s: u32) -> Summary {
        let op = OpSummary { name: "rpc".to_owned(), counted: true, ..OpSummary::default() };
        let second = Second {
            stage: "counted".to_owned(),
            length_s: 1.0,
            ops: vec![SecondOp { done: 1, ..SecondOp::default() }],
            ..Second::default()
        };
        Summary {
            headline: "rpc".to_owned(),
            counted_s: f64::from(counted_s),
            ops: vec![OpSummary { done: u64::from(counted_s), ..op }],
            series: vec![second; counted_s as usize],
            ..Summary::default()
        }
    }

    #[test]
    fn the_interval_is_the_one_that_was_used() {
        for (counted_s, wanted) in [(4, "4 s"), (9, "9 s"), (10, "10 s"), (25, "10 s")] {
            assert_eq!(interval(&run(counted_s), "rpc"), wanted);
        }
        assert!(text(&run(4)).contains("highest 4 s    lowest 4 s "), "{}", text(&run(4)));
    }

    #[test]
    fn a_run_without_answers_has_errors_and_no_tables() {
        let error = |kind: &str, example: &str| ErrorSummary {
            op: "rpc".to_owned(),
            kind: kind.to_owned(),
            count: 1_000,
            example: example.to_owned(),
        };
        let errors = vec![error("status 401", "{\"message\":\"Server key invalid\"}")];
        let page = text(&Summary { errors, ..Summary::default() });
        for part in [
            "FAILED: no player became ready: 1,000 times rpc: status 401\n",
            "       1,000  rpc: status 401\n",
            "e.g. {\"message\":\"Server key invalid\"}\n",
            "→ name the server's key with --server-key",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("p99") && !page.contains("highest"), "{page}");
    }

    #[test]
    fn an_invalid_run_says_what_to_do_and_an_ended_one_why() {
        let mut summary = run(3);
        summary.invalid = vec!["so".to_owned()];
        summary.ended = "interrupted (SIGINT)".to_owned();
        let page = text(&summary);
        assert!(page.contains("INVALID: the generator was in the way: so\n       → "), "{page}");
        assert!(page.contains("ENDED EARLY: interrupted (SIGINT)\n"), "{page}");
    }

    #[test]
    fn a_few_ticks_of_the_kernel_are_not_told_as_efficiency() {
        let mut summary = run(10);
        for (ops_per_cpu_s, wanted) in [(500.0, "– (too little"), (20.0, "20\n")] {
            summary.server = Some(ServerCost { ops_per_cpu_s, ..ServerCost::default() });
            let says = format!("operations per CPU-second of the server: {wanted}");
            assert!(text(&summary).contains(&says), "{}", text(&summary));
        }
    }

    #[test]
    fn a_loop_without_a_pace_is_not_called_open() {
        let mut summary = run(3);
        assert!(text(&summary).contains("open loop;"), "{}", text(&summary));
        summary.settings.is_free = true;
        assert!(text(&summary).contains("closed loop (times are not"), "{}", text(&summary));
    }

    #[test]
    fn prose_is_broken_between_words() {
        let mut out = String::new();
        paragraph(&mut out, "é: ", &"word ".repeat(40)).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{out}");
        assert!(lines[0].starts_with("é: word") && lines[1].starts_with("   word"), "{out}");
    }

    #[test]
    fn numbers_are_written_for_people() {
        for (ns, wanted) in [
            (0, "0"),
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (21_140_000, "21.1 ms"),
            (1_234_000_000, "1.23 s"),
        ] {
            assert_eq!(time(ns), wanted);
        }
        for (number, wanted) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(group(number), wanted);
        }
        assert_eq!((&*rate(528.389), &*rate(7_765_336.4)), ("528.39", "7,765,336"));
        assert_eq!((&*bytes(237_000_000), &*bits(6_990_000.0)), ("237.0 MB", "6.99 Mb/s"));
    }
}
