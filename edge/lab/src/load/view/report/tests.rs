//! What stands on a report's page, and what does not.

use super::html;
use crate::load::record::Stage;
use crate::load::result::expect::Verdict;
use crate::load::result::summary::{ErrorSummary, OpSummary, ServerEnd, Summary};
use crate::load::result::{
    FlowConnection, FlowEnd, FlowSecond, FlowSummary, Lacking, Ramp, Second, SecondOp,
};
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
        assert!(page.contains(note) && page.contains("no p99.9: under 1,000 a second"), "{page}");
        // Errors by kind, in the seconds in which they were.
        assert_eq!(page.matches("<rect class=\"column\"").count(), 10);
        let note = "<b>41 s, 05:49:42 UTC</b><span class=\"k4\">ask: connect: refused\
                    <em>6.00/s</em></span><span class=\"k1\">ask: no answer<em>3.00/s</em>";
        assert!(page.contains(note), "{page}");
    }
}

#[test]
fn what_was_due_and_what_was_expected_are_lines() {
    let mut summary = broken_run(false);
    summary.counted_s = 50.0;
    summary.settings.rate = Some(400.0);
    summary.settings.rate_end = Some(600.0);
    summary.ramp = Some(Ramp::default());
    summary.ops[0].missed = 2_500;
    let expected = ["response_p99 < 2ms", "ask.service_max < 1s", "errors == 0"];
    summary.expectations =
        expected.map(|it| Verdict { condition: it.to_owned(), ..Verdict::default() }).to_vec();
    let page = html(&summary);
    // 500 a second, as many as ended or were missed in 50 s.
    for (time, per_s) in [("10 s, 05:49:11", "400.00"), ("60 s, 05:50:01", "600.00")] {
        let start = page.rfind(&format!("<b>{time} UTC</b><span class=\"k0\">ask<em>"));
        let start = start.unwrap_or_else(|| panic!("{time}: {page}"));
        let note = &page[start..];
        let note = note.split("</p>").next().unwrap();
        assert!(note.contains(&format!("ask due<em>{per_s}/s</em>")), "{note}");
    }
    assert!(page.contains("limit of p99<em>2.00 ms") || page.contains("limit of p99: 2.00 ms"));
    // Of another kind of time.
    assert!(!page.contains("limit of slowest"));
    summary.settings.saturate = true;
    assert!(!html(&summary).contains("ask due"));
}

#[test]
fn a_run_in_which_all_failed_has_no_times_above_its_tables() {
    let mut summary = broken_run(false);
    assert!(html(&summary).contains("<span>slowest</span>"));
    (summary.ops[0].done, summary.ops[0].failed) = (0, 22_500);
    let page = html(&summary);
    assert!(page.contains("No ask was answered."), "{page}");
    for tile in ["slowest", "median", "99th percentile"] {
        assert!(!page.contains(&format!("<span>{tile}</span>")), "{tile}");
    }
}

#[test]
fn percentiles_of_too_few_are_not_told() {
    let mut summary = Summary { headline: "op".to_owned(), ..Summary::default() };
    summary.settings.players = 1;
    for (count, is_told) in [(99, false), (100, true)] {
        let service = Percentiles { count, max_ns: 7_000, ..Percentiles::default() };
        let name = "op".to_owned();
        let op = OpSummary { name, counted: true, done: count, service, ..OpSummary::default() };
        summary.ops = vec![op];
        let page = html(&summary);
        assert!(page.contains("<p class=\"how\">1 player on "), "{page}");
        for part in ["99 % answered within", "99th percentile"] {
            assert_eq!(page.contains(part), is_told, "{count}: {part}");
        }
        assert_eq!(page.contains("the slowest answered within 7.00 µs"), !is_told, "{count}");
        assert_eq!(page.matches("<td>–</td>").count(), if is_told { 2 } else { 3 }, "{count}");
    }
}

#[test]
fn a_flow_has_a_page_of_its_own() {
    let end = FlowEnd {
        bits_per_s: 9.41e9,
        bytes: 1 << 33,
        counted_s: 7.3,
        cpu_ns_per_byte: Some(0.5),
        ..FlowEnd::default()
    };
    let of_second = FlowSecond { goodput_bits: 9.4e9, rtt_ns: 250_000, ..FlowSecond::default() };
    let second = Second {
        length_s: 1.0,
        stage: Stage::Counted,
        received_bytes: 1 << 30,
        ops: vec![SecondOp::default()],
        ..Second::default()
    };
    let series = (0..900).map(|at| Second { at_s: f64::from(at) + 1.0, ..second.clone() });
    let flow = FlowSummary {
        protocol: "tcp".to_owned(),
        threads: 1,
        connections: 1,
        goodput_bits: 9.41e9,
        sender: end,
        receiver: end,
        retransmits: Some(17),
        connections_tcp: vec![FlowConnection { rtt_ns: 250_000, ..FlowConnection::default() }],
        series: vec![of_second; 900],
        ..FlowSummary::default()
    };
    let op = OpSummary { name: "send".to_owned(), counted: true, done: 5, ..OpSummary::default() };
    let mut summary = Summary {
        command: "flow".to_owned(),
        scenario: "flow-tcp".to_owned(),
        headline: "send".to_owned(),
        counted_s: 7.3,
        ops: vec![op],
        series: series.collect(),
        flow: Some(flow),
        ..Summary::default()
    };
    summary.settings.saturate = true;
    let page = html(&summary);
    for part in [
        "throng flow · flow-tcp",
        "9.41 Gb/s of goodput by TCP; the receiver used 0.50 ns",
        "17 segments were sent again",
        "<b>Goodput</b>",
        "<b>Round trip</b>",
        "What it cost",
        "Connections, by the sender",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Nothing of this is about users, and what is nought is not drawn.
    for part in ["Closed loop", "closed loop", "<b>Sent again</b>", "NaN", "Mean service time"] {
        assert!(!page.contains(part), "{part}: {page}");
    }
    let empty = Summary { flow: Some(FlowSummary::default()), ..Summary::default() };
    assert!(html(&empty).contains("Nothing was carried."));
}

#[test]
fn a_run_that_has_failed_says_so_in_red() {
    let lacking = Lacking { reason: "login: status 500".to_owned(), players: 10_128 };
    let op = OpSummary { name: "rpc".to_owned(), counted: true, done: 1, ..OpSummary::default() };
    let mut summary = Summary { counted_s: 1.0, ops: vec![op], ..Summary::default() };
    summary.settings.players = 30_000;
    summary.ramp = Some(Ramp { ready: 19_872, lacking: vec![lacking], ..Ramp::default() });
    let page = html(&summary);
    assert!(page.contains("19,872 of 30,000 players ready"), "the badge");
    assert!(
        page.contains("<p class=\"banner bad\"><b>FAILED.</b> 19,872 of 30,000 players became")
    );
    assert_eq!(page.matches("players became ready").count(), 1);
    summary.server_ended = Some(Box::new(ServerEnd {
        after_s: 3.0,
        how: "signal 9, SIGKILL".to_owned(),
        last_lines: vec!["<out of memory>".to_owned()],
        log: "r/server.log".to_owned(),
    }));
    let page = html(&summary);
    assert!(page.contains("<b>FAILED.</b> the server ended after 3.0 s (signal 9, SIGKILL)."));
    assert!(page.contains("<pre>&lt;out of memory&gt;</pre>") && page.contains("r/server.log"));
}

/// Its name may be any word, and has no plural.
#[test]
fn the_headline_counts_an_operation_by_its_name() {
    let op = OpSummary {
        name: "transfer".to_owned(),
        counted: true,
        done: 10_000,
        rate: 6_669.0,
        ..OpSummary::default()
    };
    let summary = Summary { headline: "transfer".to_owned(), ops: vec![op], ..Summary::default() };
    let page = html(&summary);
    assert!(page.contains("6,669 × transfer a second"), "{page}");
}
