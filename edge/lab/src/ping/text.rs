//! The result of a ping as text for a terminal: what was asked, what became of it, how long it took,
//! and where the times lie.
//!
//! In: a result. Out: lines of at most 100 characters.

use std::fmt::Write as _;

use crate::load::view::table;
use crate::load::{OpSummary, Percentiles, PingBucket, PingOp, PingSummary, Summary};
use crate::measure::number::{count_of, float, group, share, time, time_f64};
use crate::measure::percentiles::TOO_FEW;

/// Columns of the longest bar.
const BAR_COLUMNS: usize = 50;
/// Characters of a figure.
const FIGURE_COLUMNS: usize = 9;
/// Characters of the words before figures.
const WORD_COLUMNS: usize = 15;

/// The whole result.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, summary);
    out
}

fn write_all(out: &mut String, summary: &Summary) -> std::fmt::Result {
    if !table::head(out, summary)? {
        return Ok(());
    }
    let none = PingSummary::default();
    let ping = summary.ping.as_ref().unwrap_or(&none);
    for (index, op) in summary.ops.iter().enumerate() {
        writeln!(out)?;
        if summary.ops.len() > 1 {
            writeln!(out, "{}:", op.name)?;
        }
        counts(out, op)?;
        times(out, op)?;
        if let Some(it) = ping.ops.get(index) {
            jitter(out, it)?;
            histogram(out, &it.histogram)?;
        }
    }
    writeln!(out)?;
    losses(out, summary, ping)?;
    table::connecting(out, summary)?;
    if !summary.errors.is_empty() {
        table::errors(out, summary)?;
    }
    let own = &summary.generator;
    let behind = &own.behind;
    if behind.count > 0 {
        writeln!(
            out,
            "this program: late by its own fault p50 {}, p99 {}, most {}; {:.0} % of a processor",
            time(behind.p50_ns),
            behind.p99().map_or(TOO_FEW.to_owned(), time),
            time(behind.max_ns),
            own.cpu_share * 100.0,
        )?;
    }
    Ok(())
}

fn counts(out: &mut String, op: &OpSummary) -> std::fmt::Result {
    let mut line = format!("sent {}, answered {}", group(op.started), group(op.done));
    for (count, what) in [
        (op.failed, "answered with an error"),
        (op.unanswered, "never answered"),
        (op.missed, "due and not sent, because those before were not answered"),
    ] {
        if count > 0 {
            write!(line, ", {} {what}", group(count))?;
        }
    }
    table::paragraph(out, "", &line)
}

fn times(out: &mut String, op: &OpSummary) -> std::fmt::Result {
    let heads = ["min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "deviation"];
    write!(out, "{:WORD_COLUMNS$}", "")?;
    for head in heads {
        write!(
            out,
            "{head:>width$}",
            width = if head == "deviation" { 10 } else { FIGURE_COLUMNS }
        )?;
    }
    writeln!(out)?;
    for (name, it) in
        [("response time", &op.response), ("service time", &op.service), ("lateness", &op.lateness)]
    {
        if it.count > 0 {
            row(out, name, it)?;
        }
    }
    Ok(())
}

fn row(out: &mut String, name: &str, it: &Percentiles) -> std::fmt::Result {
    let [p50, _, p90, _, p99, p999] = it.told();
    write!(out, "{name:WORD_COLUMNS$}{:>FIGURE_COLUMNS$}", time(it.min_ns))?;
    write!(out, "{:>FIGURE_COLUMNS$}", time_f64(it.mean_ns))?;
    for ns in [p50, p90, p99, p999, it.p9999(), Some(it.max_ns)] {
        write!(out, "{:>FIGURE_COLUMNS$}", ns.map_or(TOO_FEW.to_owned(), time))?;
    }
    writeln!(out, "{:>10}", time_f64(it.deviation_ns))
}

fn jitter(out: &mut String, it: &PingOp) -> std::fmt::Result {
    let (jitter, mean) = (time_f64(it.jitter_ns), time_f64(it.difference_mean_ns));
    writeln!(
        out,
        "jitter {jitter} (RFC 3550, of round trips, at the end); neighbours differ by {mean} on average"
    )
}

/// Datagrams that were lost, doubled, reordered.
fn losses(out: &mut String, summary: &Summary, ping: &PingSummary) -> std::fmt::Result {
    let Some(it) = &summary.deliveries else { return Ok(()) };
    let lost = u64::try_from(it.lost).unwrap_or(0);
    let lost_share = float(lost) / float(it.echoes_sent.max(1));
    let mut line = format!(
        "lost {} of {} ({}), doubled {}, reordered {}",
        group(lost),
        group(it.echoes_sent),
        share(lost_share),
        group(it.doubled),
        group(it.reordered),
    );
    if let (Some(there), Some(back), true) = (ping.lost_there, ping.lost_back, lost > 0) {
        write!(line, "; lost on the way there {}, on the way back {}", group(there), group(back))?;
    }
    if it.foreign > 0 {
        write!(line, "; no answer to anything: {}", count_of(it.foreign, "datagram"))?;
    }
    table::paragraph(out, "", &line)
}

fn histogram(out: &mut String, buckets: &[PingBucket]) -> std::fmt::Result {
    let most = buckets.iter().map(|it| it.count).max().unwrap_or(0);
    let all: u64 = buckets.iter().map(|it| it.count).sum();
    if most == 0 {
        return Ok(());
    }
    writeln!(out)?;
    for bucket in buckets {
        let range = match bucket.until_ns {
            Some(until_ns) => format!("to {:>9}", time(until_ns)),
            None => format!("above {:>6}", time(bucket.above_ns)),
        };
        let bar = bar(bucket.count, most);
        let share = 100.0 * float(bucket.count) / float(all);
        writeln!(out, "{range:>16} {bar:BAR_COLUMNS$} {:>11} {share:>6.2} %", group(bucket.count))?;
    }
    Ok(())
}

/// A bar in eighths of a column: what is there at all is seen.
fn bar(count: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let columns = u64::try_from(BAR_COLUMNS).unwrap_or(0);
    let eighths = u128::from(count) * u128::from(columns * 8) / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(count > 0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::{bar, text};
    use crate::load::result::summary::Deliveries;
    use crate::load::{OpSummary, Percentiles, PingBucket, PingOp, PingSummary, Summary};

    #[test]
    fn bars_show_what_is_there_at_all() {
        assert_eq!((&*bar(0, 100), &*bar(1, 1_000_000)), ("", "▏"));
        assert_eq!((bar(100, 100).chars().count(), &*bar(3, 400)), (50, "▍"));
    }

    #[test]
    fn lines_fit_a_terminal_and_tell_what_was_lost() {
        let times = Percentiles {
            count: 20_000,
            mean_ns: 123_456_789.0,
            max_ns: 987_654_321,
            ..Percentiles::default()
        };
        let op = OpSummary {
            name: "udp".to_owned(),
            counted: true,
            started: 20_010,
            done: 20_000,
            unanswered: 10,
            service: times,
            response: times,
            ..OpSummary::default()
        };
        let bucket = PingBucket { above_ns: 0, until_ns: Some(123_456), count: 12_345_678 };
        let last = PingBucket { above_ns: 123_456, until_ns: None, count: 1 };
        let of_op = PingOp { histogram: vec![bucket, last], ..PingOp::default() };
        let deliveries = Deliveries {
            echoes_sent: 20_010,
            lost: 10,
            doubled: 3,
            reordered: 2,
            ..Deliveries::default()
        };
        let summary = Summary {
            headline: "udp".to_owned(),
            counted_s: 1.0,
            ops: vec![op],
            deliveries: Some(deliveries),
            ping: Some(PingSummary {
                ops: vec![of_op],
                lost_there: Some(4),
                lost_back: Some(6),
                ..PingSummary::default()
            }),
            ..Summary::default()
        };
        let text = text(&summary);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for part in [
            "sent 20,010, answered 20,000, 10 never answered",
            "lost 10 of 20,010 (0.05 %), doubled 3, reordered 2; lost on the way there 4",
            "to    123 µs",
            "above 123 µs",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
