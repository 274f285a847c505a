//! The result of a flow as text for a terminal: what was asked, what was carried, what it cost at each
//! end, and what became of segments or datagrams.
//!
//! In: a result, or how a run goes. Out: lines of at most 100 characters.

use std::fmt::Write as _;

use crate::load::advice::failure;
use crate::load::result::notes::is_answered;
use crate::load::view::table;
use crate::load::{FlowConnection, FlowEnd, FlowSummary, Progress, Summary};
use crate::measure::number::{
    bits, bytes, count_of, float, group, group_f64, share, time, time_f64,
};

/// Connections that are told one by one, at most.
const CONNECTIONS_TOLD: usize = 8;

/// One line about a second, while a run lasts.
#[must_use]
pub fn line(progress: &Progress<'_>) -> String {
    let second = progress.second;
    let flow = progress.summary.flow.as_ref();
    let it = flow.and_then(|it| it.series.last()).copied().unwrap_or_default();
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut line = format!(
        "{:>6.0} s  {:<10}  goodput {:>11}  sent {:>11}",
        second.at_s,
        second.stage.word(),
        bits(it.goodput_bits),
        bits(it.sent_bits),
    );
    // Writing to a String cannot fail.
    let _ = if flow.is_some_and(|it| it.protocol == "udp") {
        write!(line, "  {:>11}/s  lost {:>7}", group_f64(it.datagrams_per_s), it.lost)
    } else {
        write!(line, "  again {:>5}  rtt {:>8}", group(it.retransmits), time(it.rtt_ns))
    };
    let _ = write!(
        line,
        "  CPU {:>5} → {:>5}",
        percent(it.sender_user + it.sender_system),
        percent(it.receiver_user + it.receiver_system)
    );
    line
}

/// The whole result.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, summary);
    out
}

fn write_all(out: &mut String, summary: &Summary) -> std::fmt::Result {
    table::paragraph(out, &format!("{}: ", summary.scenario), &summary.title)?;
    if !summary.ended.is_empty() {
        table::paragraph(out, "ENDED EARLY: ", &summary.ended)?;
    }
    for reason in &summary.invalid {
        table::paragraph(out, "INVALID: ", &format!("the sender was in the way: {reason}"))?;
    }
    for note in &summary.notes {
        table::paragraph(out, "note: ", note)?;
    }
    let none = FlowSummary::default();
    let flow = summary.flow.as_ref().unwrap_or(&none);
    table::paragraph(out, "", &how(summary, flow))?;
    if !is_answered(summary) {
        if let Some(reason) = failure(summary) {
            table::paragraph(out, "FAILED: ", &reason)?;
        }
        return Ok(());
    }
    writeln!(out)?;
    let (sender, receiver) = (&flow.sender, &flow.receiver);
    for (name, end, what) in [("goodput", receiver, "received"), ("sent", sender, "sent")] {
        writeln!(
            out,
            "{name:<8}{:>13}   {} {what} in {:.2} s",
            bits(end.bits_per_s),
            bytes(end.bytes),
            end.counted_s
        )?;
    }
    writeln!(out)?;
    costs(out, flow)?;
    writeln!(out)?;
    match &flow.datagrams {
        Some(_) => datagrams(out, flow)?,
        None => connections(out, flow)?,
    }
    machines(out, flow)
}

/// What was asked for, in one sentence.
pub(crate) fn how(summary: &Summary, flow: &FlowSummary) -> String {
    let settings = &summary.settings;
    let each = flow.connections / flow.threads.max(1);
    let lanes = match (&*flow.protocol, each) {
        ("udp", _) => "a socket each".to_owned(),
        (_, 1) => "a connection each".to_owned(),
        (_, each) => format!("{each} connections each"),
    };
    let cores: Vec<String> = flow.cores.iter().flatten().map(usize::to_string).collect();
    let cores = match cores.len() {
        0 => String::new(),
        1 => format!(" on processor {}", cores.join(", ")),
        _ => format!(" on processors {}", cores.join(", ")),
    };
    let remote = flow.remote_core.map(|core| format!(" (the server's on {core})"));
    let piece = if flow.protocol == "udp" { "datagrams of" } else { "calls of" };
    let mut text = format!(
        "{}{cores}{} with {lanes}, {piece} {}",
        count_of(u64::from(flow.threads), "thread"),
        remote.unwrap_or_default(),
        count_of(u64::from(flow.bytes), "byte")
    );
    if let Some(rate) = flow.rate_bits {
        let _ = write!(text, ", at {}", bits(rate));
    }
    if let Some(rate) = flow.rate_datagrams {
        let _ = write!(text, ", at {} datagrams a second", group_f64(rate));
    }
    if !flow.style.is_empty() {
        let _ = write!(text, ", sent by `{}`, received by `{}`", flow.send_style, flow.style);
    }
    if flow.work_ns > 0 {
        let _ = write!(text, ", {} of work for each", time(flow.work_ns));
    }
    let _ = write!(
        text,
        "; counted {:.2} s of {} s planned, after {} s and before {} s that do not count",
        summary.counted_s, settings.planned_s, settings.warm_up_s, flow.cool_down_s
    );
    text
}

fn costs(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    writeln!(
        out,
        "{:<10}{:>10}{:>10}{:>12}{:>11}{:>14}{:>12}{:>12}",
        "CPU", "user", "system", "processors", "per byte", "per datagram", "calls", "bytes each"
    )?;
    for (name, it) in [("sender", &flow.sender), ("receiver", &flow.receiver)] {
        let cost = |ns: Option<f64>| ns.map_or("–".to_owned(), time_f64);
        writeln!(
            out,
            "{name:<10}{:>8.2} s{:>8.2} s{:>12.2}{:>11}{:>14}{:>12}{:>12}",
            it.user_s,
            it.system_s,
            (it.user_s + it.system_s) / it.counted_s.max(1e-9),
            cost(it.cpu_ns_per_byte),
            cost(it.cpu_ns_per_datagram),
            group(it.calls),
            bytes(it.bytes / it.calls.max(1)),
        )?;
    }
    Ok(())
}

fn datagrams(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    let Some(it) = flow.datagrams else { return Ok(()) };
    let mut line = format!(
        "datagrams: sent {}, received {}, lost {} ({})",
        group(it.sent),
        group(it.received),
        group(it.lost),
        share(float(it.lost) / float(it.sent.max(1))),
    );
    for (count, what) in [
        (it.dropped, "dropped at the receiver's socket"),
        (it.missed, "due and not sent"),
        (it.foreign, "not of this flow"),
    ] {
        if count > 0 {
            write!(line, ", {} {what}", group(count))?;
        }
    }
    write!(line, "; doubled {}, reordered {}", group(it.doubled), group(it.reordered))?;
    table::paragraph(out, "", &line)?;
    let per_s = float(flow.receiver.datagrams) / flow.receiver.counted_s.max(1e-9);
    writeln!(out, "received {} datagrams a second{}", group_f64(per_s), per_cpu_s(&flow.receiver))
}

/// How many a second of the receiver's processor time would do, as registered I/O is measured by.
fn per_cpu_s(end: &FlowEnd) -> String {
    match end.cpu_ns_per_datagram {
        Some(ns) if ns > 0.0 => format!(", {} per CPU-second of the receiver", group_f64(1e9 / ns)),
        _ => String::new(),
    }
}

fn connections(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    if let Some(count) = flow.retransmits {
        writeln!(out, "TCP: {} sent again", count_of(count, "segment"))?;
    }
    if flow.connections_tcp.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{:<10}{:>8}{:>10}{:>10}{:>10}{:>11}{:>10}   held up by",
        "connection", "again", "rtt", "± mean", "least", "window", "segment"
    )?;
    for (number, it) in flow.connections_tcp.iter().take(CONNECTIONS_TOLD).enumerate() {
        writeln!(
            out,
            "{:<10}{:>8}{:>10}{:>10}{:>10}{:>11}{:>10}   {}",
            number + 1,
            group(it.retransmits),
            time(it.rtt_ns),
            time(it.rtt_deviation_ns),
            time(it.rtt_least_ns),
            bytes(it.window_bytes),
            bytes(it.segment_bytes),
            held_up(it),
        )?;
    }
    let more = flow.connections_tcp.len().saturating_sub(CONNECTIONS_TOLD);
    if more > 0 {
        writeln!(out, "and {more} more, in result.json")?;
    }
    Ok(())
}

/// What kept a connection from sending more.
pub(crate) fn held_up(it: &FlowConnection) -> String {
    let parts = [(it.receiver_limited_share, "receiver"), (it.buffer_limited_share, "buffer")];
    let told = parts.into_iter().filter(|it| it.0 >= 0.01);
    let told: Vec<_> = told.map(|(of, what)| format!("{what} {:.0} %", 100.0 * of)).collect();
    if told.is_empty() { "–".to_owned() } else { told.join(", ") }
}

fn machines(out: &mut String, flow: &FlowSummary) -> std::fmt::Result {
    for (name, end) in [("sender's", &flow.sender), ("receiver's", &flow.receiver)] {
        if let Some(line) = machine(end) {
            table::paragraph(out, &format!("{name} machine: "), &line)?;
        }
    }
    Ok(())
}

/// What a whole machine did, in one line.
pub(crate) fn machine(end: &FlowEnd) -> Option<String> {
    // Without a time of its own there is no rate.
    let it = end.machine.filter(|_| end.counted_s > 0.0)?;
    let all_s = it.user_s + it.system_s + it.idle_s + it.interrupt_s + it.softirq_s + it.steal_s;
    let of = |seconds: f64| format!("{:.0} %", 100.0 * seconds / all_s.max(1e-9));
    let per_s = |count: u64| group_f64(float(count) / end.counted_s.max(1e-9));
    Some(format!(
        "{}: user {}, system {}, softirq {}, idle {}, stolen {}; {} interrupts a second, of \
         devices {}; {} switches a second",
        count_of(u64::from(it.processors), "processor"),
        of(it.user_s),
        of(it.system_s),
        of(it.softirq_s + it.interrupt_s),
        of(it.idle_s),
        of(it.steal_s),
        per_s(it.interrupts),
        per_s(it.device_interrupts),
        per_s(it.context_switches),
    ))
}

#[cfg(test)]
mod tests {
    use super::{held_up, text};
    use crate::load::{
        FlowConnection, FlowDatagrams, FlowEnd, FlowMachine, FlowSummary, OpSummary, Summary,
    };

    fn summary(flow: FlowSummary) -> Summary {
        let op =
            OpSummary { name: "send".to_owned(), counted: true, done: 5, ..OpSummary::default() };
        let mut summary = Summary {
            scenario: "flow-tcp".to_owned(),
            title: "TCP throughput to 10.0.0.2:9500".to_owned(),
            headline: "send".to_owned(),
            counted_s: 9.98,
            ops: vec![op],
            flow: Some(flow),
            ..Summary::default()
        };
        summary.settings.planned_s = 300.0;
        summary
    }

    fn end(bits_per_s: f64) -> FlowEnd {
        FlowEnd {
            bits_per_s,
            bytes: 11_762_500_000,
            calls: 90_000,
            datagrams: 1_000_000,
            counted_s: 10.0,
            user_s: 0.5,
            system_s: 4.5,
            cpu_ns_per_byte: Some(0.425),
            cpu_ns_per_datagram: Some(5_000.0),
            machine: Some(FlowMachine {
                processors: 2,
                system_s: 5.0,
                idle_s: 15.0,
                interrupts: 12_000,
                ..FlowMachine::default()
            }),
        }
    }

    #[test]
    fn the_receivers_figure_leads_and_planned_stands_beside_actual() {
        let connection = FlowConnection {
            retransmits: 3,
            rtt_ns: 250_000,
            buffer_limited_share: 0.5,
            ..FlowConnection::default()
        };
        let flow = FlowSummary {
            protocol: "tcp".to_owned(),
            threads: 2,
            connections: 8,
            bytes: 131_072,
            cores: vec![Some(0), None],
            sender: end(9.42e9),
            receiver: end(9.41e9),
            retransmits: Some(3),
            connections_tcp: vec![connection; 9],
            ..FlowSummary::default()
        };
        let text = text(&summary(flow));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let places = ["9.41 Gb/s", "9.42 Gb/s"].map(|part| text.find(part).unwrap());
        assert!(places[0] < places[1], "{text}");
        for part in [
            "counted 9.98 s of 300 s planned",
            "4 connections each",
            "on processor 0",
            "0.42 ns",
            "TCP: 3 segments sent again",
            "8 3 250 µs 0 0 0 B 0 B buffer 50 %",
            "and 1 more",
            "sender's machine: 2 processors: user 0 %, system 25 %",
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_became_of_datagrams_is_told() {
        let flow = FlowSummary {
            protocol: "udp".to_owned(),
            threads: 1,
            connections: 1,
            style: "recv".to_owned(),
            send_style: "one".to_owned(),
            receiver: end(1e9),
            datagrams: Some(FlowDatagrams {
                sent: 2_000,
                received: 1_000,
                lost: 1_000,
                dropped: 900,
                ..FlowDatagrams::default()
            }),
            ..FlowSummary::default()
        };
        let text = text(&summary(flow));
        for part in [
            "lost 1,000 (50 %), 900 dropped at the receiver's socket",
            "sent by `one`, received by `recv`",
            "received 100,000 datagrams a second, 200,000 per CPU-second of the receiver",
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(words.join(" ").contains(part), "{part}: {text}");
        }
        assert_eq!(held_up(&FlowConnection::default()), "–");
    }
}
