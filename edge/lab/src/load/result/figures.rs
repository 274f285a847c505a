//! Figures of one run that tables and comparisons are about; none where the run has nothing to say.

use super::Summary;
use super::flow::FlowSummary;
use super::summary::INTERVAL_S;
use crate::load::record::Stage;
use crate::measure::number::{float, seconds_text};

/// Players from which on the growth of memory is theirs, and not that of pools and caches.
const PLAYERS_MIN: u32 = 1_000;

/// Seconds of CPU below which nothing is divided by them: the kernel counts in ticks, commonly of
/// 10 ms, and fewer than ten of them are off by more than a tenth.
pub(crate) const CPU_S_MIN: f64 = 0.1;

/// Seconds by which an interval may be shorter and still goes by the name of a whole one.
const INTERVAL_SLACK_S: f64 = 0.5;

/// None if the server was not measured, or used too little to tell: less than [`CPU_S_MIN`].
pub(crate) fn ops_per_cpu_s(summary: &Summary) -> Option<f64> {
    let per_s = summary.server.map(|it| it.ops_per_cpu_s).filter(|it| *it > 0.0)?;
    let cpu_s = float(summary.done()) / per_s;
    (cpu_s >= CPU_S_MIN * (1.0 - f64::EPSILON)).then_some(per_s)
}

/// Resident memory at the end.
pub(crate) fn memory(summary: &Summary) -> Option<f64> {
    summary.server.map(|it| float(it.resident_end_bytes)).filter(|it| *it > 0.0)
}

/// Growth of resident memory while the players came, by player.
pub(crate) fn memory_of_player(summary: &Summary) -> Option<f64> {
    let it = summary.server?;
    let players = summary.settings.players;
    let grown = float(it.resident_ready_bytes.saturating_sub(it.resident_before_bytes));
    (players >= PLAYERS_MIN && grown > 0.0).then(|| grown / f64::from(players))
}

/// Of all operations that count, a second.
pub(crate) fn answered_per_s(summary: &Summary) -> Option<f64> {
    (summary.counted_s > 0.0).then(|| float(summary.done()) / summary.counted_s)
}

/// Of the headline operation, from the intended start; none of too few.
pub(crate) fn response_p99(summary: &Summary) -> Option<f64> {
    summary.headline_op()?.response.p99().map(float)
}

/// Likewise the median.
pub(crate) fn response_p50(summary: &Summary) -> Option<f64> {
    summary.headline_op()?.response.told()[0].map(float).filter(|ns| *ns > 0.0)
}

/// Likewise of the service time: of the closed loop, which has no other.
pub(crate) fn service_p50(summary: &Summary) -> Option<f64> {
    summary.headline_op()?.service.told()[0].map(float).filter(|ns| *ns > 0.0)
}

/// In the whole run; every run has it.
#[expect(clippy::unnecessary_wraps, reason = "as the others")]
pub(crate) fn errors(summary: &Summary) -> Option<f64> {
    Some(float(summary.errors_count()))
}

/// Bits a second that a flow's receiver got.
pub(crate) fn goodput(summary: &Summary) -> Option<f64> {
    counted_flow(summary).map(|it| it.goodput_bits)
}

/// Bits a second that its sender handed to the kernel.
pub(crate) fn sent_rate(summary: &Summary) -> Option<f64> {
    counted_flow(summary).map(|it| it.sender.bits_per_s)
}

/// Of its datagrams, those that never came.
pub(crate) fn loss(summary: &Summary) -> Option<f64> {
    let it = counted_flow(summary)?.datagrams?;
    (it.sent > 0).then(|| float(it.lost) / float(it.sent))
}

/// Of them, those that were dropped at the receiver's socket.
pub(crate) fn drops(summary: &Summary) -> Option<f64> {
    counted_flow(summary)?.datagrams.map(|it| float(it.dropped))
}

/// Datagrams that came after a later one.
pub(crate) fn reordered(summary: &Summary) -> Option<f64> {
    counted_flow(summary)?.datagrams.map(|it| float(it.reordered))
}

/// Segments that its TCP sent again.
pub(crate) fn retransmits(summary: &Summary) -> Option<f64> {
    counted_flow(summary)?.retransmits.map(float)
}

/// Mean round trip of its connections, in nanoseconds.
pub(crate) fn rtt(summary: &Summary) -> Option<f64> {
    let connections = &counted_flow(summary)?.connections_tcp;
    let sum: f64 = connections.iter().map(|it| float(it.rtt_ns)).sum();
    let count = float(connections.len() as u64);
    (sum > 0.0).then(|| sum / count)
}

/// Processor time of its receiver for each byte, in nanoseconds.
pub(crate) fn cpu_per_byte(summary: &Summary) -> Option<f64> {
    counted_flow(summary)?.receiver.cpu_ns_per_byte
}

/// Likewise for each datagram.
pub(crate) fn cpu_per_datagram(summary: &Summary) -> Option<f64> {
    counted_flow(summary)?.receiver.cpu_ns_per_datagram
}

/// Processor time of its sender for each byte, in nanoseconds.
pub(crate) fn sender_cpu_per_byte(summary: &Summary) -> Option<f64> {
    counted_flow(summary)?.sender.cpu_ns_per_byte
}

/// Datagrams received per CPU-second of its receiver.
pub(crate) fn datagrams_per_cpu_s(summary: &Summary) -> Option<f64> {
    cpu_per_datagram(summary).filter(|ns| *ns > 0.0).map(|ns| 1e9 / ns)
}

/// Datagrams received a second.
pub(crate) fn datagrams_per_s(summary: &Summary) -> Option<f64> {
    let flow = counted_flow(summary)?;
    let end = &flow.receiver;
    let has_any = flow.datagrams.is_some() && end.counted_s > 0.0;
    has_any.then(|| float(end.datagrams) / end.counted_s)
}

/// A flow of which anything was counted at both ends.
pub(crate) fn counted_flow(summary: &Summary) -> Option<&FlowSummary> {
    summary.flow.as_ref().filter(|it| it.receiver.counted_s > 0.0)
}

/// The interval whose highest and lowest mean is told of the operation `name`: Tsung's 10 s, or
/// what a shorter run had.
pub(crate) fn interval(summary: &Summary, name: &str) -> String {
    seconds_text(interval_of(summary, name))
}

/// Likewise, in seconds.
pub(crate) fn interval_of(summary: &Summary, name: &str) -> f64 {
    match summary.ops.iter().position(|op| op.name == name) {
        Some(index) => interval_s(summary, index),
        None => float(INTERVAL_S as u64),
    }
}

/// Likewise of one operation, in seconds: one outside the loop has its own time.
pub(crate) fn interval_s(summary: &Summary, index: usize) -> f64 {
    let is_setup = summary.ops.get(index).is_some_and(|op| op.setup);
    let seconds = summary.series.iter().filter(|second| {
        let is_done = second.ops.get(index).is_some_and(|op| op.done > 0);
        if is_setup { is_done } else { second.stage == Stage::Counted }
    });
    let most = float(INTERVAL_S as u64);
    let length_s: f64 = seconds.map(|second| second.length_s).sum();
    if length_s > most - INTERVAL_SLACK_S { most } else { length_s }
}

#[cfg(test)]
mod tests {
    use super::ops_per_cpu_s;
    use crate::load::result::summary::{OpSummary, ServerCost, Summary};

    #[test]
    fn a_few_ticks_of_the_kernel_are_no_figure() {
        for (cpu_s, is_told) in [(0.0, false), (0.02, false), (0.1, true), (2.0, true)] {
            let op = OpSummary { counted: true, done: 1_000, ..OpSummary::default() };
            let per_s = if cpu_s > 0.0 { 1_000.0 / cpu_s } else { 0.0 };
            let server = Some(ServerCost { ops_per_cpu_s: per_s, ..ServerCost::default() });
            let summary = Summary { ops: vec![op], server, ..Summary::default() };
            assert_eq!(ops_per_cpu_s(&summary).is_some(), is_told, "{cpu_s}");
        }
        assert_eq!(ops_per_cpu_s(&Summary::default()), None);
    }
}
