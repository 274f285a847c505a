//! What a page of `throng ping` has besides: histograms, jitter, what became of datagrams.

use super::charts::{log_time, per_second, powers_around, short, tell_time};
use crate::load::result::{OpSummary, PingOp, PingSummary, Summary};
use crate::measure::chart::{Axis, Columns, Stack};
use crate::measure::number::{float, group, share, time, time_f64};
use crate::measure::page::{figure, pairs, table, tile};

/// Histograms that are drawn, at most; a sweep has more sizes than a page has room.
const FIGURES_MAX: usize = 6;

/// A histogram of every size.
pub(super) fn figures(out: &mut String, summary: &Summary) -> std::fmt::Result {
    let Some(ping) = &summary.ping else { return Ok(()) };
    let ops = summary.ops.iter().zip(&ping.ops).filter(|(_, it)| has_times(it));
    let ops: Vec<_> = ops.take(FIGURES_MAX).collect();
    if ops.is_empty() {
        return Ok(());
    }
    out.push_str("<section class=\"charts\">");
    for (op, it) in ops {
        let title = format!("Histogram of {}", op.name);
        figure(out, &title, "answers by their time, logarithmic", &histogram(op, it))?;
    }
    out.push_str("</section>");
    Ok(())
}

fn has_times(it: &PingOp) -> bool {
    it.histogram.iter().any(|bucket| bucket.count > 0)
}

fn histogram(op: &OpSummary, it: &PingOp) -> String {
    let times = if op.response.count > 0 { &op.response } else { &op.service };
    let (min_ns, max_ns) = (times.min_ns.max(1), times.max_ns.max(1));
    // Only as far as there are times: bounds that somebody gave may lie far from them.
    let shown = it.histogram.iter().filter(|bucket| {
        bucket.above_ns <= max_ns && bucket.until_ns.is_none_or(|until_ns| until_ns >= min_ns)
    });
    let stacks = shown.map(|bucket| Stack {
        from: log_time(bucket.above_ns.max(min_ns)),
        until: log_time(bucket.until_ns.unwrap_or(max_ns).min(max_ns).max(bucket.above_ns + 1)),
        values: vec![float(bucket.count)],
    });
    let stacks: Vec<Stack> = stacks.collect();
    let most = it.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    let ends = [log_time(min_ns), log_time(max_ns)];
    let all: u64 = it.histogram.iter().map(|bucket| bucket.count).sum();
    let tell_x = |at: f64| format!("up to {}", tell_time(at));
    let tell_y = |count: f64| format!("{count:.0} ({})", share(count / float(all.max(1))));
    let columns = Columns {
        x: powers_around(ends.into_iter()),
        y: Axis::linear(float(most), short),
        x_name: "time",
        kinds: vec![("answers".to_owned(), 0)],
        stacks,
        shades: Vec::new(),
        tell: (&tell_x, &tell_y),
    };
    columns.svg()
}

/// Jitter, and what was lost.
pub(super) fn tiles(out: &mut String, summary: &Summary, ping: &PingSummary) -> std::fmt::Result {
    if let Some(it) = ping.ops.first().filter(|it| has_times(it)) {
        tile(out, "jitter", &time_f64(it.jitter_ns), "of round trips, RFC 3550, at the end")?;
    }
    if let Some(it) = &summary.deliveries {
        let lost = float(u64::try_from(it.lost).unwrap_or(0)) / float(it.echoes_sent.max(1));
        let note = format!("of {} datagrams", group(it.echoes_sent));
        tile(out, "lost", &share(lost), &note)?;
    }
    Ok(())
}

/// What was asked for, by size; and what became of datagrams.
pub(super) fn tables(out: &mut String, summary: &Summary, ping: &PingSummary) -> std::fmt::Result {
    let row = |(op, it): (&OpSummary, &PingOp)| {
        vec![
            op.name.clone(),
            group(it.size_bytes),
            time_f64(it.jitter_ns),
            time_f64(it.difference_mean_ns),
        ]
    };
    let rows: Vec<_> = summary.ops.iter().zip(&ping.ops).map(row).collect();
    let heads =
        ["Operation", "Bytes", "Jitter (RFC 3550, at the end)", "Mean difference of neighbours"];
    table(out, ("Round trips", 1), &heads, &rows)?;
    let interval = match ping.interval_ns {
        0 => "back to back".to_owned(),
        ns => format!(
            "{} of each stream, {} ({})",
            time(ns),
            ping.arrivals,
            per_second(1e9 / float(ns))
        ),
    };
    let waits = if ping.busy_poll { "awake (busy polling)" } else { "in the kernel" };
    let mut rows = vec![
        ("Streams", group(u64::from(ping.streams))),
        ("Between intended starts", interval),
        ("Streams waited", waits.to_owned()),
    ];
    if !ping.server_version.is_empty() {
        rows.push(("Answered by", format!("throng ping serve {}", ping.server_version)));
    }
    if let Some(it) = &summary.deliveries {
        rows.push((
            "Datagrams: sent, answered",
            format!("{}, {}", group(it.echoes_sent), group(it.echoes)),
        ));
        rows.push(("Lost", it.lost.to_string()));
        for (name, count) in [
            ("Lost on the way there", ping.lost_there),
            ("Lost on the way back", ping.lost_back),
            ("Doubled", Some(it.doubled)),
            ("Reordered", Some(it.reordered)),
            ("No answer to anything", Some(it.foreign)),
        ] {
            rows.extend(count.map(|count| (name, group(count))));
        }
    }
    pairs(out, "Streams and datagrams, counted time", rows)
}
