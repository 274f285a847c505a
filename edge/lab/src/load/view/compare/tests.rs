//! What stands together, what is said of it, and what is not.

use event::Random;

use super::{Run, markdown, remarks, sections, text, verdicts};
use crate::doctor::{Check, Verdict as Found};
use crate::load::record::Stage;
use crate::load::result::expect::Verdict;
use crate::load::result::summary::{ErrorSummary, OpSummary, ServerCost, Summary};
use crate::load::result::{FlowDatagrams, FlowEnd, FlowSummary, Second, SecondOp};
use crate::measure::CurvePoint;
use crate::measure::percentiles::Percentiles;

/// A run of `rpc` with one figure for everything.
fn run(name: &str, scenario: &str, saturate: bool, figure: u32) -> Run {
    let mut summary = Summary {
        scenario: scenario.to_owned(),
        headline: "rpc".to_owned(),
        counted_s: 1.0,
        ops: vec![OpSummary {
            name: "rpc".to_owned(),
            counted: true,
            done: u64::from(figure),
            rate: f64::from(figure),
            service: Percentiles {
                count: 100,
                p99_ns: u64::from(figure),
                ..Percentiles::default()
            },
            ..OpSummary::default()
        }],
        server: Some(ServerCost {
            ops_per_cpu_s: f64::from(figure),
            wall_s: 1.0,
            ..ServerCost::default()
        }),
        ..Summary::default()
    };
    summary.settings.saturate = saturate;
    summary.settings.players = 64;
    if !saturate {
        summary.settings.rate = Some(2_000.0);
        summary.ops[0].response =
            Percentiles { count: 100, p99_ns: u64::from(figure), ..Percentiles::default() };
    }
    Run { name: name.to_owned(), summary, report: None }
}

fn lines(runs: &[Run]) -> Vec<String> {
    let sections = sections(runs);
    sections.iter().flat_map(verdicts).map(|verdict| verdict.text).collect()
}

#[test]
fn rounds_are_one_column_with_the_median_and_the_range() {
    let runs = vec![
        run("Na|kama", "rpc-lua", true, 14_055),
        run("throng", "rpc-lua", true, 87_593),
        run("throng", "rpc-lua", true, 83_303),
        run("throng", "rpc-lua", true, 85_253),
        run("Na|kama", "rpc-lua", true, 13_036),
        run("Na|kama", "rpc-lua", true, 12_452),
    ];
    let text = markdown(&runs);
    assert_eq!(text.matches("### ").count(), 1);
    let says = "**rpc-lua: 85,253 operations per CPU-second on throng: 6.5 × higher than on Na|kama \
                (13,036; 99 % interval 5.0 to 8.4 ×)**";
    assert!(text.contains(says), "{text}");
    let row = "| mean rate | 13,036/s (12,452–14,055/s) | 85,253/s (83,303–87,593/s) | 6.5 × higher \
               (5.0 to 8.4 ×) |";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("| | Na\\|kama | throng | throng against Na\\|kama |"), "{text}");
    assert!(text.contains("Closed loop, 64 players"), "{text}");
    // Settings that say nothing are not told.
    assert!(!text.contains(", ,") && !text.contains(", ;"), "{text}");
    assert!(text.contains("medians of 3 runs"), "{text}");
}

#[test]
fn every_line_of_single_runs_says_that_they_are() {
    let mut random = Random::from_number(3);
    let [mut before, mut after] =
        [("before", 2.0), ("after", 1.0)].map(|(name, ms)| scattered(name, &mut random, ms, 60));
    // Cut a little apart: no row is of an interval that neither run had.
    (before.summary.counted_s, after.summary.counted_s) = (2.0, 2.01);
    before.summary.series.truncate(10);
    after.summary.series.truncate(10);
    for (run, length_s) in [(&mut before, 0.2), (&mut after, 0.26)] {
        run.summary.series.iter_mut().for_each(|it| it.length_s = length_s + 0.005);
        run.summary.ops[0].interval_mean_highest_ns = 2e6;
    }
    let runs = [before, after];
    for line in lines(&runs) {
        let is_told = line.contains("within single runs") || line.contains("no interval");
        assert!(is_told, "{line}");
    }
    let table = markdown(&runs);
    let has_change = |line: &&str| line.contains("lower") || line.contains("higher");
    for line in table.lines().filter(|it| it.starts_with("| ")).filter(has_change) {
        let is_told = line.contains("within single runs") || line.contains("no interval");
        assert!(is_told || line.contains("highest"), "{line}");
    }
    assert!(table.contains("highest 2 s to 3 s mean service time"), "{table}");
    assert!(!table.contains("10 s mean"), "{table}");
}

#[test]
fn unlike_runs_are_never_mixed() {
    let mut faster = run("a", "s", false, 10);
    faster.summary.settings.rate = Some(4_000.0);
    let mut other = run("b", "s", false, 40);
    other.summary.settings.vars.insert("rpc".to_owned(), "echo".to_owned());
    let runs = [run("a", "s", false, 20), run("a", "s", true, 99), faster, other];
    let sections = sections(&runs);
    let names = |at: usize| -> Vec<&str> {
        sections[at].columns.iter().map(|column| &*column.name).collect()
    };
    assert_eq!(names(0), ["a (rate 2,000/s)", "a (rate 4,000/s)", "b"]);
    assert_eq!(names(1), ["a"]);
    let how = sections[0].how();
    assert!(how.contains("rate (rate 2,000/s: a (rate 2,000/s), b; rate 4,000/s: a"), "{how}");
    assert!(how.contains("rpc (none: a (rate 2,000/s), a (rate 4,000/s); rpc=echo: b)"), "{how}");
    let lines = lines(&runs);
    assert_eq!(
        lines[0],
        "s: 99 % of rpc within 40.0 ns on b: 2.0 × longer than on a (rate 2,000/s) (20.0 ns; single \
         run, no interval); 10.0 ns on a (rate 4,000/s) (no factor: under another load)"
    );
}

#[test]
fn invalid_runs_and_errors_stand_above_and_give_no_factor() {
    let mut bad = run("b", "s", true, 5);
    bad.summary.invalid.push("it was slow".to_owned());
    let error = ErrorSummary {
        op: "rpc".to_owned(),
        kind: "status 404".to_owned(),
        count: 3_000,
        ..ErrorSummary::default()
    };
    bad.summary.errors = vec![error];
    let verdict = |condition: &str, holds, found: &str| Verdict {
        condition: condition.to_owned(),
        holds,
        found: found.to_owned(),
    };
    bad.summary.expectations =
        vec![verdict("rate > 1", true, "it is"), verdict("errors == 0", false, "errors is 3,000")];
    let runs = [run("a", "s", true, 10), run("b", "s", true, 5), bad];
    let sections = sections(&runs);
    let remarks: Vec<_> =
        remarks(&sections[0]).into_iter().map(|it| format!("{} {}", it.mark, it.text)).collect();
    assert_eq!(
        remarks,
        [
            "INVALID b, run 2: it was slow.",
            "FAILED b, run 2: errors == 0, and errors is 3,000.",
            "ERRORS b, run 2: 3,000 × rpc: status 404."
        ]
    );
    let verdicts = verdicts(&sections[0]);
    assert!(verdicts.iter().all(|it| it.is_void && it.text.ends_with("(no factor: INVALID)")));
    let text = markdown(&runs);
    assert!(
        text.contains("| | a | b (INVALID) | b against a |")
            && text.contains("**INVALID** b, run 2")
    );
    assert!(text.contains("| mean rate | 10.00/s | 5.00/s |  |"), "{text}");
}

#[test]
fn sums_over_another_time_and_other_variables_give_no_factor() {
    let mut longer = run("b", "s", false, 5);
    longer.summary.counted_s = 6.0;
    let text = markdown(&[run("a", "s", false, 10), longer]);
    assert!(text.contains("| count | 10 | 5 |  |"), "{text}");
    assert!(
        text.contains("| 10.00/s | 5.00/s | 50.0 % lower (single run, no interval) |"),
        "{text}"
    );
    let mut larger = run("b", "s", false, 5);
    larger.summary.settings.vars.insert("group".to_owned(), "50".to_owned());
    let text = markdown(&[run("a", "s", false, 10), larger]);
    assert!(text.contains("under another load") && !text.contains("against"), "{text}");
}

#[test]
fn a_run_that_ended_early_says_so_and_nobody_moves_the_cursor() {
    let mut early = run("a", "s", false, 10);
    early.summary.ended = "interrupted (SIGINT)".to_owned();
    early.summary.settings.planned_s = 60.0;
    early.summary.title = "\u{1b}[2J".to_owned();
    let runs = [early];
    let text = markdown(&runs);
    let says = "**ENDED EARLY** a: interrupted (SIGINT), after 1.0 s of 60 s.";
    assert!(text.contains(says) && !text.contains('\u{1b}'), "{text}");
    let page = crate::load::comparison(&runs);
    assert!(page.contains("<b>Ended early.</b> a: interrupted (SIGINT), after 1.0 s"), "{page}");
}

#[test]
fn what_lies_within_the_spread_says_so() {
    let runs = [(10, "a"), (14, "a"), (12, "b"), (11, "b")];
    let lines = lines(&runs.map(|(figure, name)| run(name, "s", true, figure)));
    assert_eq!(lines[0], "s: no change beyond noise");
    let says = "12 operations per CPU-second on b: no change beyond noise from a (12; 99 % \
                interval ";
    assert!(lines[1].starts_with(says), "{lines:?}");
}

#[test]
fn what_a_scenario_is_about_stands_before_what_leads_there() {
    let mut with_login = run("a", "s", false, 10);
    let login =
        OpSummary { name: "login".to_owned(), setup: true, counted: true, ..OpSummary::default() };
    let prepare = OpSummary { name: "prepare".to_owned(), counted: false, ..login.clone() };
    with_login.summary.ops.splice(0..0, [login, prepare]);
    let runs = [with_login];
    assert_eq!(sections(&runs)[0].counted_ops(), ["rpc", "login"]);
    assert_eq!(sections(&runs)[0].loop_ops(), ["rpc"]);
}

#[test]
fn one_column_needs_no_name_in_what_is_said_of_it() {
    let lines = lines(&[run("register", "register", false, 4_760_000)]);
    assert_eq!(lines[0], "register: 99 % of rpc within 4.76 ms");
    assert_eq!(lines[1], "4,760,000 operations per CPU-second");
    let named = self::lines(&[run("nakama", "rpc-go", false, 10)]);
    assert!(named[0].starts_with("rpc-go (nakama): "), "{named:?}");
}

#[test]
fn percentiles_of_too_few_are_not_told() {
    let mut few = run("a", "s", false, 20);
    for times in [99, 100, 1_000] {
        few.summary.ops[0].service.count = times;
        few.summary.ops[0].response.count = times;
        let text = markdown(&[few.clone()]);
        for (row, least) in [("p50", 1), ("p99", 100), ("p99.9", 1_000)] {
            for kind in ["service time", "from the intended start"] {
                let has = text.contains(&format!("| {kind} {row} |"));
                assert_eq!(has, times >= least, "{times}: {row}\n{text}");
            }
        }
        assert_eq!(text.contains("99 % of rpc within"), times >= 100, "{text}");
    }
}

#[test]
fn nothing_measured_is_nothing_said() {
    let mut empty = run("a", "s", false, 0);
    empty.summary.ops.clear();
    empty.summary.server = None;
    let text = markdown(&[empty.clone(), Run { name: "b".to_owned(), ..empty }]);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert!(text.contains("| errors, whole run | 0 | 0 |"), "{text}");
}

#[test]
fn less_is_told_as_how_much_less_and_never_as_a_hundredth() {
    let mut fast = run("a", "s", false, 292_000);
    fast.summary.server = None;
    let mut slow = run("b", "s", false, 33_400_000);
    slow.summary.server = None;
    let runs = [slow, fast];
    assert_eq!(
        lines(&runs),
        ["s: 99 % of rpc within 292 µs on a: 114 × shorter than on b (33.4 ms; single run, no \
          interval)"]
    );
    let text = markdown(&runs);
    assert!(
        text.contains("p99 | 33.4 ms | 292 µs | 114 × lower (single run, no interval) |"),
        "{text}"
    );
    assert!(!text.contains("0.01 ×"), "{text}");
}

#[test]
fn a_side_has_one_number_in_all_sections() {
    let numbers = |runs: &[Run]| -> Vec<Vec<(usize, usize)>> {
        let columns = |section: &super::Section<'_>| {
            section.columns.iter().map(|it| (it.side, it.variant)).collect()
        };
        sections(runs).iter().map(columns).collect()
    };
    let mut faster = run("b", "t", false, 10);
    faster.summary.settings.rate = Some(4_000.0);
    let runs = vec![
        run("a", "s", true, 1),
        run("b", "s", true, 1),
        run("c", "t", false, 1),
        run("b", "t", false, 1),
        faster.clone(),
        run("b", "u", true, 1),
    ];
    assert_eq!(numbers(&runs), [vec![(0, 0), (1, 0)], vec![(2, 0), (1, 0), (1, 1)], vec![(1, 0)]]);
    // Of one server, it is the settings that are compared.
    let runs = [run("b", "t", false, 1), faster, run("b", "u", true, 1)];
    assert_eq!(numbers(&runs), [vec![(0, 0), (1, 0)], vec![(2, 0)]]);
}

/// About normal around 1, with this deviation.
fn noise(random: &mut Random, deviation: f64) -> f64 {
    let one = |random: &mut Random| f64::from(random.below(1 << 20)) / f64::from(1 << 20);
    1.0 + deviation * ((0..12).map(|_| one(random)).sum::<f64>() - 6.0)
}

/// A run in the open loop whose figures scatter from run to run by 3 %, and from second to second by
/// 10 %, around `ms` milliseconds.
fn scattered(name: &str, random: &mut Random, ms: f64, seconds: u32) -> Run {
    let mut it = run(name, "echo", false, 1_000);
    it.summary.title = "Echo".to_owned();
    let mut around = |deviation| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds")]
        let ns = (1e6 * ms * noise(random, deviation)) as u64;
        ns
    };
    let op = &mut it.summary.ops[0];
    (op.response.p50_ns, op.response.p99_ns) = (around(0.03), 3 * around(0.03));
    (op.response.count, op.service.count) = (10_000, 10_000);
    let point = |index: u32| {
        let nines = f64::from(index) / 15.0;
        let ns = ms * 1e6 * (0.5 + nines);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds")]
        let response_ns = ns as u64;
        CurvePoint { quantile: 1.0 - 10_f64.powf(-nines), response_ns, service_ns: response_ns / 2 }
    };
    op.curve = (0..=45).map(point).collect();
    let second = |at: u32| {
        let (p50_ns, p99_ns) = (around(0.1), 3 * around(0.1));
        let op = SecondOp { done: 1_000, p50_ns, p99_ns, max_ns: 9_000_000, ..SecondOp::default() };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 80")]
        let tenth = (10.0 * (1e6 * ms).log10()) as u16;
        Second {
            at_s: f64::from(at),
            length_s: 1.0,
            stage: Stage::Counted,
            ops: vec![op],
            heat: vec![(tenth, 600), (tenth + 1, 300), (tenth + 4, 100)],
            ..Second::default()
        }
    };
    it.summary.series = (1..=seconds).map(second).collect();
    let cost = 1e-6 * noise(random, 0.03);
    it.summary.server =
        Some(ServerCost { ops_per_cpu_s: 1e-3 / cost, wall_s: 10.0, ..ServerCost::default() });
    it
}

/// How many of a hundred comparisons say that nothing has changed.
fn called_noise(rounds: u32, seconds: u32, after_ms: f64) -> u32 {
    (0..100)
        .filter(|seed| {
            let mut random = Random::from_number(*seed);
            let mut runs = Vec::new();
            for _ in 0..rounds {
                runs.push(scattered("before", &mut random, 2.0, seconds));
                runs.push(scattered("after", &mut random, after_ms, seconds));
            }
            lines(&runs)[0].starts_with("echo: no change beyond noise")
        })
        .map(|_| 1)
        .sum()
}

#[test]
fn sets_that_do_not_differ_are_called_noise_and_a_tenth_is_found() {
    for (rounds, seconds) in [(3, 1), (5, 1), (10, 1), (1, 60)] {
        let same = called_noise(rounds, seconds, 2.0);
        assert!(same >= 95, "{rounds} rounds of {seconds} s: {same} of 100");
    }
    for (rounds, seconds) in [(5, 1), (10, 1), (1, 60)] {
        let missed = called_noise(rounds, seconds, 2.2);
        assert!(missed <= 5, "{rounds} rounds of {seconds} s: {missed} of 100");
    }
}

#[test]
fn a_terminal_shows_differences_first_then_the_change_and_both_over_each_other() {
    let mut random = Random::from_number(7);
    let mut runs: Vec<Run> = (0..5).map(|_| scattered("before", &mut random, 2.0, 10)).collect();
    runs.extend((0..5).map(|_| scattered("after", &mut random, 1.0, 10)));
    let check = |value: &str, verdict| Check {
        id: "offloads:v0".to_owned(),
        value: value.to_owned(),
        verdict,
        ..Check::default()
    };
    for (at, run) in runs.iter_mut().enumerate() {
        let environment = &mut run.summary.environment;
        environment.kernel = "6.18".to_owned();
        environment.load_average = format!("0.{at}");
        let (value, verdict) =
            if at < 5 { ("gro off", Found::Warn) } else { ("gro on", Found::Ok) };
        environment.checks = vec![check(value, verdict)];
        // Drops since the start are not the machine's.
        environment.checks.push(Check {
            id: "udp-drops".to_owned(),
            value: format!("{at} of 9"),
            ..Check::default()
        });
    }
    // A file may hold any number.
    runs[0].summary.series[0].heat = vec![(u16::MAX, u64::MAX)];
    let text = text(&runs, 100);
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    let find = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}"));
    let differs = find("doctor: offloads:v0: before: gro off (warn); after: gro on (ok)");
    let says = find("half of rpc within");
    assert!(differs < says && says < find("change (99 % interval)"), "{text}");
    assert!(find("Histogram") < find("░ before   ▓ after   █ both"));
    assert!(find("Percentiles (logarithmic)") < find("○ before   ● after   ◉ both"));
    assert!(!text.contains("udp-drops") && !text.contains("Load before"), "{text}");
    let page = crate::load::comparison(&runs);
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(at("What differs between the runs") < at("class=\"verdicts\""));
    assert!(at("<b>Histogram</b>") > at("Percentiles of rpc") && page.contains("99 % interval"));
}

/// A run of `throng flow --udp` in which the receiver got so many megabits a second.
fn flow(name: &str, style: &str, mbits: f64) -> Run {
    let end = FlowEnd {
        bits_per_s: mbits * 1e6,
        counted_s: 1.0,
        datagrams: 1_000,
        cpu_ns_per_byte: Some(100.0 / mbits),
        cpu_ns_per_datagram: Some(1e5 / mbits),
        ..FlowEnd::default()
    };
    let mut summary = Summary {
        scenario: "flow-udp".to_owned(),
        headline: "send".to_owned(),
        counted_s: 1.0,
        flow: Some(FlowSummary {
            goodput_bits: mbits * 1e6,
            sender: end,
            receiver: end,
            datagrams: Some(FlowDatagrams { sent: 100, lost: 10, ..FlowDatagrams::default() }),
            ..FlowSummary::default()
        }),
        ..Summary::default()
    };
    summary.settings.saturate = true;
    summary.settings.players = 1;
    summary.settings.vars.insert("style".to_owned(), style.to_owned());
    Run { name: name.to_owned(), summary, report: None }
}

#[test]
fn flows_are_told_by_what_they_carry_and_cost_and_styles_may_be_compared() {
    let mut runs = Vec::new();
    for round in [0.98, 1.0, 1.02] {
        runs.push(flow("plain", "recv", 100.0 * round));
        runs.push(flow("batch", "mmsg", 400.0 * round));
    }
    let said = lines(&runs);
    assert!(
        said[0].contains("400.00 Mb/s of goodput on batch: 4.0 × higher than on plain"),
        "{said:?}"
    );
    assert!(said[1].contains("datagrams per CPU-second of the receiver"), "{said:?}");
    let text = text(&runs, 100);
    for part in ["As fast as could be, 1 connection", "receiver: CPU a datagram", "10.00 %"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("closed loop") && !text.contains("Histogram"), "{text}");
    assert!(
        markdown(&runs).contains("| goodput | 100.00 Mb/s (98.00–102.00 Mb/s) |"),
        "{}",
        markdown(&runs)
    );
}
