//! Conditions that hold, that do not, that are lost before the end, and mistakes.

use super::Condition;
use crate::load::record::kind::{Cause, Kind};
use crate::load::record::{ErrorCount, Record, Stage};
use crate::load::result::summary::{ErrorSummary, OpSummary, ServerCost, Summary};
use crate::load::result::{EndingTimes, Progress, Second};
use crate::measure::percentiles::Percentiles;

fn summary() -> Summary {
    let response = Percentiles { count: 100, p99_ns: 25_000_000, ..Percentiles::default() };
    Summary {
        headline: "rpc".to_owned(),
        counted_s: 1.0,
        ops: vec![
            OpSummary {
                name: "rpc".to_owned(),
                counted: true,
                rate: 700.5,
                done: 95,
                failed: 5,
                response,
                ..OpSummary::default()
            },
            OpSummary { name: "idle".to_owned(), ..OpSummary::default() },
        ],
        errors: vec![ErrorSummary { count: 5, ..ErrorSummary::default() }],
        // 95 of them in 0.2 s of CPU.
        server: Some(ServerCost { ops_per_cpu_s: 475.0, ..ServerCost::default() }),
        ..Summary::default()
    }
}

#[test]
fn conditions_are_checked() {
    for (text, holds, found) in [
        ("rpc.response_p99 < 20ms", false, "rpc.response_p99 is 25.0 ms"),
        ("rpc.response_p99<=25ms", true, "rpc.response_p99 is 25.0 ms"),
        ("response_p99 > 24999us", true, "rpc.response_p99 is 25.0 ms"),
        ("response_max < 1ns", true, "rpc.response_max is 0"),
        ("errors == 5", true, "errors is 5"),
        ("errors != 5", false, "errors is 5"),
        ("rate >= 700", true, "rpc.rate is 700.50"),
        ("rpc.retried == 0", true, "rpc.retried is 0"),
        ("rpc.error_share < 1 %", false, "rpc.error_share is 5.00 %"),
        ("ops_per_cpu_s > 0.4k", true, "ops_per_cpu_s is 475"),
        ("service_p50 < 1s", false, "rpc.service_p50 was not measured"),
        ("other.rate > 0", false, "other.rate was not measured"),
        ("idle.error_share < 1 %", false, "idle.error_share was not measured"),
        ("lost == 0", false, "lost was not measured"),
        ("valid == 1", true, "valid is 1"),
        ("response_p99 > 0", true, "rpc.response_p99 is 25.0 ms"),
        ("idle.service_p50 < 1s", false, "idle.service_p50 was not measured: nothing was answered"),
        ("generator_cpu < 0.5", true, "generator_cpu is 0.00 %"),
    ] {
        let verdict = text.parse::<Condition>().unwrap().check(&summary());
        assert_eq!((verdict.holds, &*verdict.found), (holds, found), "{text}");
    }
}

#[test]
fn a_percentile_of_too_few_values_holds_nothing() {
    for (count, text, holds, found) in [
        (99, "p99 < 1s", false, "is 25.0 ms: too few values, 99, where p99 takes 100"),
        (99, "p99 > 1ms", false, "is 25.0 ms: too few values, 99, where p99 takes 100"),
        (100, "p99 < 1s", true, "is 25.0 ms"),
        (999, "p999 < 1s", false, "is 26.0 ms: too few values, 999, where p999 takes 1,000"),
        (1_000, "p99.9 < 1s", true, "is 26.0 ms"),
        (1_000, "p99_9 < 1s", true, "is 26.0 ms"),
        (
            1_000,
            "p99.99 < 1s",
            false,
            "is 27.0 ms: too few values, 1,000, where p9999 takes 10,000",
        ),
        (19, "p95 < 1s", false, "is 0: too few values, 19, where p95 takes 20"),
        (1, "p50 < 1s", true, "is 0"),
        (1, "max < 1s", true, "is 0"),
    ] {
        let mut summary = summary();
        let response = &mut summary.ops[0].response;
        (response.count, response.p999_ns, response.p9999_ns) = (count, 26_000_000, 27_000_000);
        for text in [format!("response_{text}"), format!("rpc.response_{text}")] {
            let verdict = text.parse::<Condition>().unwrap().check(&summary);
            assert_eq!(verdict.holds, holds, "{text}: {}", verdict.found);
            assert!(verdict.found.ends_with(found), "{text}: {}", verdict.found);
        }
    }
}

#[test]
fn how_long_failures_take_says_nothing_of_answers() {
    let times = Percentiles { count: 500, p99_ns: 1_000, ..Percentiles::default() };
    let ended = EndingTimes { service: times, response: times };
    let op = OpSummary {
        done: 0,
        failed: 500,
        service: times,
        response: times,
        failures: ended,
        ..summary().ops[0].clone()
    };
    let summary = Summary { ops: vec![op], ..summary() };
    for (text, holds, found) in [
        ("response_p99 < 1s", false, "rpc.response_p99 was not measured: nothing was answered"),
        (
            "answered_service_p99 < 1s",
            false,
            "rpc.answered_service_p99 was not measured: nothing was answered",
        ),
        ("failed_service_p99 < 1s", true, "rpc.failed_service_p99 is 1.00 µs"),
    ] {
        let verdict = text.parse::<Condition>().unwrap().check(&summary);
        assert_eq!((verdict.holds, &*verdict.found), (holds, found), "{text}");
    }
}

#[test]
fn idle_connections_that_the_server_closes_are_no_errors() {
    let idle = ErrorSummary { cause: Cause::IdleClosed, count: 40, ..ErrorSummary::default() };
    let mut summary = summary();
    summary.errors.insert(0, idle);
    let verdict = "errors == 5".parse::<Condition>().unwrap().check(&summary);
    assert!(verdict.holds, "{}", verdict.found);
}

#[test]
fn of_too_little_cpu_there_is_no_efficiency() {
    let server = Some(ServerCost { ops_per_cpu_s: 16_200.0, ..ServerCost::default() });
    let verdict = "ops_per_cpu_s > 16k".parse::<Condition>().unwrap();
    let verdict = verdict.check(&Summary { server, ..summary() });
    assert_eq!((verdict.holds, &*verdict.found), (false, "ops_per_cpu_s was not measured"));
}

#[test]
fn a_limit_of_times_is_of_one_operation_and_one_figure() {
    for (text, wanted) in [
        ("response_p99 < 20ms", Some((true, "p99", 2e7))),
        ("rpc.answered_service_max <= 1s", Some((false, "max", 1e9))),
        ("other.response_p99 < 20ms", None),
        ("failed_response_p99 < 20ms", None),
        ("late_p99 < 20ms", None),
        ("response_p99 > 20ms", None),
        ("errors < 2", None),
    ] {
        let limit = text.parse::<Condition>().unwrap().time_limit("rpc", "rpc");
        assert_eq!(limit.map(|it| (it.is_response, it.figure, it.ns)), wanted, "{text}");
    }
}

#[test]
fn neither_slow_nor_quick_failures_make_an_operation_look_fast() {
    let times = |count, p99_ms: u64| {
        let p99_ns = p99_ms * 1_000_000;
        let times = Percentiles { count, p99_ns, ..Percentiles::default() };
        EndingTimes { service: times, response: times }
    };
    for (all, answered, failed, found) in [
        ((200, 4_000), (100, 20), (100, 4_000), ["4.00 s", "4.00 s", "20.0 ms", "4.00 s"]),
        ((200, 900), (100, 950), (100, 1), ["950 ms", "900 ms", "950 ms", "1.00 ms"]),
    ] {
        let [all, answered, failures] = [all, answered, failed].map(|it| times(it.0, it.1));
        let (service, response) = (all.service, all.response);
        let name = "rpc".to_owned();
        let op =
            OpSummary { name, service, response, answered, failures, ..summary().ops[0].clone() };
        let summary = Summary { ops: vec![op], ..summary() };
        for (whose, found) in ["", "all_", "answered_", "failed_"].into_iter().zip(found) {
            for kind in ["service", "response"] {
                let metric = format!("rpc.{whose}{kind}_p99");
                let condition: Condition = format!("{metric} < 100ms").parse().unwrap();
                let verdict = condition.check(&summary);
                assert_eq!(verdict.found, format!("{metric} is {found}"));
            }
        }
    }
}

#[test]
fn what_cannot_hold_any_more_is_known_before_the_end() {
    let mut total = Record::new(Stage::Counted, 1, 0);
    total.ops[0].response.record(1_000_000, 900);
    total.ops[0].response.record(900_000_000, 100);
    total.ops[0].failed = 7;
    let mut summary = summary();
    summary.settings.planned_s = 10.0;
    let second = Second { length_s: 2.0, stage: Stage::Counted, ..Second::default() };
    let error = |count| ErrorCount { count, example: String::new() };
    let errors = [((0, Kind::of(Cause::TimeOut, "time-out")), error(3))].into_iter().collect();
    let progress = Progress {
        stage: Stage::Counted,
        stage_s: 2.0,
        second: &second,
        history: std::slice::from_ref(&second),
        op_names: &["rpc".to_owned()],
        is_loop_op: &[true],
        has_server: false,
        errors: &errors,
        total: &total,
        summary: &summary,
    };
    // 1,000 of some 5,000; 7,500 at most. 100 are more than a hundredth of that, not a tenth.
    for (text, is_lost) in [
        ("response_p99 < 100ms", true),
        ("rpc.response_p99 <= 100ms", true),
        ("response_p99 < 1s", false),
        ("response_p90 < 100ms", false),
        ("response_max < 100ms", true),
        ("answered_response_p99 < 100ms", false),
        ("response_p99 > 1s", false),
        ("errors == 0", true),
        ("errors < 3", true),
        ("errors <= 3", false),
        ("errors > 5", false),
        ("rpc.failed <= 5", true),
        ("rate > 100", false),
        ("other.response_p99 < 1ms", false),
    ] {
        let condition: Condition = text.parse().unwrap();
        assert_eq!(condition.is_lost(&progress), is_lost, "{text}");
    }
}

#[test]
fn mistakes_are_explained() {
    for (text, part) in [
        ("rpc.p99 < 20ms", "no metric `p99`; did you mean `response_p99`?"),
        ("rpc.errors < 2", "no metric `errors`"),
        ("rpc.errors < 2", "it is of the run, write it alone"),
        ("response_p98 < 2s", "no metric `response_p98`; did you mean `response_p9"),
        ("respons_p99 < 2s", "did you mean `response_p99`?; there are: of an operation rate,"),
        ("failed_late_p99 < 2s", "no metric `failed_late_p99`"),
        ("response_p99 20ms", "not a condition"),
        ("response_p99 <", "not a condition"),
        ("response_p99 <> 3", "not a condition"),
        ("response_p99 < 20 minutes", "not a value"),
        ("rpc.response_p99 < 20", "`20` cannot be compared with response_p99, which is a time"),
        ("late_max < 5 %", "write 20ms"),
        ("errors < 1%", "`1%` cannot be compared with errors, which is a number: write 700"),
        ("rate > 5ms", "which is a number"),
        ("error_share < 5ms", "which is a share: write 5 %"),
        ("server_memory < 5s", "write 500MB"),
        ("done > 5MB", "which is a number"),
        ("", "not a condition"),
    ] {
        let error = text.parse::<Condition>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
