//! What a terminal shows, and how wide.

use super::{bits, bytes, group, interval, paragraph, rate, text, time};
use crate::load::record::Stage;
use crate::load::record::kind::Cause;
use crate::load::result::summary::{ErrorSummary, OpSummary, ServerCost, ServerEnd, Summary};
use crate::load::result::{Second, SecondOp};
use crate::measure::percentiles::Percentiles;

/// A run of so many seconds that answered one request in each.
fn run(counted_s: u32) -> Summary {
    let op = OpSummary { name: "rpc".to_owned(), counted: true, ..OpSummary::default() };
    let second = Second {
        stage: Stage::Counted,
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
    assert!(text(&run(4)).contains("mean service time, 4 s    "), "{}", text(&run(4)));
}

#[test]
fn an_operation_that_was_never_answered_has_no_times_in_the_headline() {
    let mut summary = run(10);
    let times = Percentiles { count: 500, p99_ns: 5_000_000, ..Percentiles::default() };
    let login = OpSummary { name: "login".to_owned(), ..summary.ops[0].clone() };
    summary.ops[0] = OpSummary { done: 0, failed: 500, service: times, ..login.clone() };
    summary.ops[0].name = "rpc".to_owned();
    summary.ops.push(login);
    let page = text(&summary);
    assert!(page.contains("\nrpc: none was answered\n"), "{page}");
    assert!(!page.contains("service time p50"), "{page}");
}

#[test]
fn a_run_without_answers_has_errors_and_no_tables() {
    let error = |cause, kind: &str, example: &str| ErrorSummary {
        cause,
        op: "rpc".to_owned(),
        kind: kind.to_owned(),
        count: 1_000,
        example: example.to_owned(),
    };
    let errors =
        vec![error(Cause::Status(401), "status 401", "{\"message\":\"Server key invalid\"}")];
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
fn a_run_whose_server_ended_says_so_first_with_its_last_lines() {
    let end = ServerEnd {
        after_s: 3.0,
        how: "signal 9, SIGKILL".to_owned(),
        last_lines: vec!["out of memory".to_owned()],
        log: "r/server.log".to_owned(),
    };
    let page = text(&Summary { server_ended: Some(Box::new(end)), ..run(3) });
    let wanted = "FAILED: the server ended after 3.0 s (signal 9, SIGKILL)\n        the server's last \
                  lines (all of it: r/server.log):\n          out of memory\n";
    assert!(page.starts_with(wanted), "{page}");
}

#[test]
fn an_invalid_run_says_what_to_do_and_an_ended_one_why() {
    let mut summary = run(3);
    summary.invalid = vec!["so".to_owned()];
    summary.ended = "interrupted (SIGINT)".to_owned();
    let page = text(&summary);
    assert!(page.contains("INVALID: so\n       → "), "{page}");
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
    for (number, wanted) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(group(number), wanted);
    }
    assert_eq!((&*rate(528.389), &*rate(7_765_336.4)), ("528.39", "7,765,336"));
    assert_eq!((&*bytes(237_000_000), &*bits(6_990_000.0)), ("237.0 MB", "6.99 Mb/s"));
}

#[test]
fn no_line_is_wider_than_a_page_and_means_say_of_what() {
    let mut summary = run(10);
    summary.title = "what players do ".repeat(10);
    summary.settings.target = "http://node-of-a-cluster:7350, ".repeat(5);
    summary.settings.players = 1;
    let big = Percentiles {
        count: 1_000,
        mean_ns: 123e9,
        max_ns: 999_999_999,
        p999_ns: 999_999,
        ..Percentiles::default()
    };
    summary.ops = ["rpc", "a", "list-the-leaderboard-records-around-owner"]
        .map(|name| OpSummary {
            name: name.to_owned(),
            counted: name == "rpc",
            done: 1_234_567_890,
            failed: 123_456,
            rate: 7_765_336.0,
            rate_highest: 7_765_336.0,
            retried: 123_456_789,
            missed: 123_456_789,
            unanswered: 123_456_789,
            service: big,
            response: big,
            lateness: big,
            ..OpSummary::default()
        })
        .to_vec();
    let gigabytes = 123_456_789_000;
    summary.server = Some(ServerCost {
        user_s: 12_345.0,
        system_s: 12_345.0,
        wall_s: 60.0,
        resident_before_bytes: gigabytes,
        resident_start_bytes: gigabytes,
        resident_end_bytes: gigabytes,
        threads_start: 12_345,
        threads_end: 12_345,
        ..ServerCost::default()
    });
    let page = text(&summary);
    for line in page.lines() {
        assert!(line.chars().count() <= super::WIDTH, "{line}\n{page}");
    }
    for part in [
        "1 player on http",
        "mean service time, 10 s",
        "response time p50",
        "list-the-leaderboa… ",
        "\n    not counted, 123,456,789 tried again, ",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn percentiles_of_too_few_are_a_dash() {
    let mut summary = run(1);
    for (count, dashes, has_p99) in [(1, 5, false), (100, 1, true), (1_000, 0, true)] {
        summary.ops[0].service = Percentiles { count, ..Percentiles::default() };
        let page = text(&summary);
        let times = page.split("\ntimes").nth(1).unwrap().split("\n\n").next().unwrap();
        assert_eq!(times.matches('–').count(), dashes, "{page}");
        assert_eq!(page.contains(" p99 0, max"), has_p99, "{page}");
    }
}
