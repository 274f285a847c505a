//! What a page of `throng flow` has: what was carried and what it cost, over time and in all.
//!
//! In: a result. Out: the parts of its page that are not those of every page.

use super::charts::{draw, line, short};
use super::over_time::{points_over, thin};
use crate::flow::text::{held_up, machine};
use crate::load::result::{
    FlowConnection, FlowEnd, FlowSecond, FlowSummary, STRETCH_S_MIN, Second, Summary,
};
use crate::measure::number::{
    bits, bytes, bytes_f64, float, group, group_f64, share, time, time_f64,
};
use crate::measure::page::{pairs, table, tile};

/// Points of a line, at most; longer runs are drawn by means of several seconds.
const POINTS_MAX: usize = 300;
/// Connections that have a row, at most; all stand in result.json.
const ROWS_MAX: usize = 64;

/// The run in one sentence.
pub(super) fn verdict(flow: &FlowSummary) -> String {
    if flow.receiver.bytes == 0 {
        return "Nothing was carried.".to_owned();
    }
    let by = flow.protocol.to_uppercase();
    let mut parts = vec![format!("{} of goodput by {by}", bits(flow.goodput_bits))];
    if let Some(ns) = flow.receiver.cpu_ns_per_byte {
        parts.push(format!("the receiver used {} of processor time a byte", time_f64(ns)));
    }
    if let Some(count) = flow.retransmits {
        parts.push(format!("{} segments were sent again", group(count)));
    }
    if let Some(it) = &flow.datagrams {
        let lost = share(float(it.lost) / float(it.sent.max(1)));
        parts.push(format!("{lost} of the datagrams were lost"));
    }
    format!("{}.", parts.join("; "))
}

pub(super) fn tiles(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    out.push_str("<section class=\"tiles\">");
    let (sender, receiver) = (&flow.sender, &flow.receiver);
    let note = format!("received {} in {:.2} s", bytes(receiver.bytes), receiver.counted_s);
    tile(out, "goodput", &bits(flow.goodput_bits), &note)?;
    let note = format!("{} in {:.2} s", bytes(sender.bytes), sender.counted_s);
    tile(out, "sent", &bits(sender.bits_per_s), &note)?;
    for (name, end) in [("receiver's CPU", receiver), ("sender's CPU", sender)] {
        let cost = end.cpu_ns_per_byte.map_or("–".to_owned(), time_f64);
        let note = format!("a byte; {:.2} processors", processors(end));
        tile(out, name, &cost, &note)?;
    }
    if let Some(it) = &flow.datagrams {
        let lost = share(float(it.lost) / float(it.sent.max(1)));
        tile(out, "lost", &lost, &format!("of {} datagrams", group(it.sent)))?;
        if let Some(ns) = receiver.cpu_ns_per_datagram.filter(|ns| *ns > 0.0) {
            let note = "datagrams per CPU-second of the receiver";
            tile(out, "efficiency", &group_f64(1e9 / ns), note)?;
        }
    }
    if let Some(count) = flow.retransmits {
        tile(out, "sent again", &group(count), "segments")?;
    }
    out.push_str("</section>");
    Ok(())
}

fn processors(end: &FlowEnd) -> f64 {
    (end.user_s + end.system_s) / end.counted_s.max(1e-9)
}

/// Charts and tables.
pub(super) fn body(out: &mut String, summary: &Summary, flow: &FlowSummary) -> std::fmt::Result {
    charts(out, summary, flow)?;
    ends(out, flow)?;
    if let Some(it) = &flow.datagrams {
        let rows = [
            ("Sent", group(it.sent)),
            ("Received", group(it.received)),
            ("Lost", group(it.lost)),
            ("Dropped at the receiver's socket", group(it.dropped)),
            ("Doubled", group(it.doubled)),
            ("Reordered", group(it.reordered)),
            ("Due and not sent", group(it.missed)),
            ("Not of this flow", group(it.foreign)),
        ];
        pairs(out, "Datagrams that were sent in the counted time", rows)?;
    }
    connections(out, flow)?;
    let machines = [("Sender's", &flow.sender), ("Receiver's", &flow.receiver)];
    let rows: Vec<_> =
        machines.into_iter().filter_map(|(name, end)| Some((name, machine(end)?))).collect();
    if !rows.is_empty() {
        pairs(out, "The machines, everything on them", rows)?;
    }
    let mut rows = Vec::new();
    if !flow.server_version.is_empty() {
        rows.push(("The other end", format!("throng ping serve {}", flow.server_version)));
    }
    let op = summary.headline_op();
    if let Some(it) = op.map(|op| op.service).filter(|it| it.count > 0) {
        let [p50, _, _, _, p99, _] = it.told();
        let told = |ns: Option<u64>| ns.map_or("–".to_owned(), time);
        let what = if flow.is_back { "A call that receives" } else { "A call that sends" };
        let text = format!("p50 {}, p99 {}, longest {}", told(p50), told(p99), time(it.max_ns));
        rows.push((what, text));
    }
    pairs(out, "Besides", rows)
}

fn charts(out: &mut String, summary: &Summary, flow: &FlowSummary) -> std::fmt::Result {
    let seconds = &thin(&summary.series);
    // A line needs two points.
    if seconds.len() < 2 {
        return Ok(());
    }
    out.push_str("<section class=\"charts\">");
    let rate =
        |of: fn(&Second) -> u64| points_over(seconds, |it| 8.0 * float(of(it)) / it.length_s);
    let lines = vec![
        line("received", 0, true, rate(|it| it.received_bytes)),
        line("sent", 1, false, rate(|it| it.sent_bytes)),
    ];
    let of = |value: fn(&FlowSecond) -> f64| points(summary, flow, value);
    draw(out, summary, seconds, ("Goodput", "bits a second", &bits), lines)?;
    let percent = |it: f64| format!("{it:.0} %");
    let lines = vec![
        line("receiver", 0, false, of(|it| 100.0 * (it.receiver_user + it.receiver_system))),
        line("sender", 1, false, of(|it| 100.0 * (it.sender_user + it.sender_system))),
    ];
    let note = "of the threads at each end; 100 % is one of them";
    draw(out, summary, seconds, ("Processors", note, &percent), lines)?;
    if flow.protocol == "udp" {
        let lines = vec![line("received", 0, true, of(|it| it.datagrams_per_s))];
        draw(out, summary, seconds, ("Datagrams", "received a second", &short), lines)?;
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let lines = vec![
            line("missing", 4, true, of(|it| it.lost.max(0) as f64)),
            line("dropped at the socket", 1, false, of(|it| float(it.dropped))),
        ];
        return finish(
            draw(out, summary, seconds, ("Lost", "datagrams a second", &short), lines),
            out,
        );
    }
    let lines = vec![line("mean of the connections", 2, false, of(|it| float(it.rtt_ns)))];
    draw(out, summary, seconds, ("Round trip", "by TCP, smoothed", &time_f64), lines)?;
    let lines = vec![line("all connections", 3, false, of(|it| float(it.window_bytes)))];
    draw(out, summary, seconds, ("Window", "that may be under way", &bytes_f64), lines)?;
    let lines = vec![line("segments", 4, true, of(|it| float(it.retransmits)))];
    finish(draw(out, summary, seconds, ("Sent again", "segments a second", &short), lines), out)
}

fn finish(drawn: std::fmt::Result, out: &mut String) -> std::fmt::Result {
    out.push_str("</section>");
    drawn
}

/// A figure of every second, or its mean over several in long runs.
fn points(summary: &Summary, flow: &FlowSummary, value: fn(&FlowSecond) -> f64) -> Vec<(f64, f64)> {
    let seconds = summary.series.iter().zip(&flow.series);
    let whole: Vec<_> = seconds.filter(|(it, _)| it.length_s > STRETCH_S_MIN).collect();
    let chunk = whole.len().div_ceil(POINTS_MAX).max(1);
    let point = |chunk: &[(&Second, &FlowSecond)]| {
        let sum: f64 = chunk.iter().map(|(_, it)| value(it)).sum();
        let at_s = chunk.last().map_or(0.0, |(it, _)| it.at_s);
        (at_s, sum / float(chunk.len() as u64))
    };
    whole.chunks(chunk).map(point).collect()
}

fn ends(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    let cost = |ns: Option<f64>| ns.map_or("–".to_owned(), time_f64);
    let row = |(name, it): (&str, &FlowEnd)| {
        vec![
            name.to_owned(),
            bits(it.bits_per_s),
            bytes(it.bytes),
            format!("{:.2} s", it.counted_s),
            format!("{:.2} s", it.user_s),
            format!("{:.2} s", it.system_s),
            format!("{:.2}", processors(it)),
            cost(it.cpu_ns_per_byte),
            cost(it.cpu_ns_per_datagram),
            group(it.calls),
        ]
    };
    let rows: Vec<_> =
        [("Receiver", &flow.receiver), ("Sender", &flow.sender)].into_iter().map(row).collect();
    let heads = [
        "End",
        "Rate",
        "Bytes",
        "Counted",
        "User",
        "System",
        "Processors",
        "CPU a byte",
        "CPU a datagram",
        "Calls",
    ];
    table(out, ("What it cost", 1), &heads, &rows)
}

fn connections(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    if flow.connections_tcp.is_empty() {
        return Ok(());
    }
    let row = |(number, it): (usize, &FlowConnection)| {
        vec![
            (number + 1).to_string(),
            group(it.retransmits),
            time(it.rtt_ns),
            time(it.rtt_deviation_ns),
            time(it.rtt_least_ns),
            bytes(it.window_bytes),
            bytes(it.segment_bytes),
            bits(it.delivery_bits_per_s),
            held_up(it),
        ]
    };
    let rows: Vec<_> = flow.connections_tcp.iter().enumerate().take(ROWS_MAX).map(row).collect();
    let heads = [
        "Connection",
        "Sent again",
        "Round trip",
        "Its deviation",
        "Least",
        "Window",
        "Segment",
        "Last delivery rate",
        "Held up by",
    ];
    table(out, ("Connections, by the sender's TCP", 1), &heads, &rows)
}
