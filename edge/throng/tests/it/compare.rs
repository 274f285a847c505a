//! `throng compare` from outside: what it says of results that are known to differ or not, and what
//! `compare run` measures, keeps and tells, also when it is ended or something fails.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::load::{OpSummary, Percentiles, RESULT_VERSION, Summary};
use rustix::process::{Pid, Signal, kill_process};

use super::{Ran, throng};

/// A folder that is gone when the test is done.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("throng-compare-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(folder));
        let _ = std::fs::remove_dir_all(&folder.0);
        std::fs::create_dir(&folder.0).unwrap();
        folder
    }

    fn path(&self, below: &str) -> String {
        self.0.join(below).to_str().unwrap().to_owned()
    }

    fn has(&self, below: &str) -> bool {
        self.0.join(below).exists()
    }

    /// A result whose times are about `us` µs, at this place.
    fn result(&self, place: &str, us: u64, clock: &str) {
        let times = |ns: u64| Percentiles {
            count: 10_000,
            p50_ns: ns,
            p99_ns: 3 * ns,
            max_ns: 9 * ns,
            ..Percentiles::default()
        };
        let mut it = Summary {
            version: RESULT_VERSION,
            scenario: "echo".to_owned(),
            title: "Echo".to_owned(),
            headline: "echo".to_owned(),
            counted_s: 10.0,
            ops: vec![OpSummary {
                name: "echo".to_owned(),
                counted: true,
                done: 10_000,
                rate: 1_000.0,
                service: times(1_000 * us),
                response: times(1_000 * us),
                ..OpSummary::default()
            }],
            ..Summary::default()
        };
        it.settings.rate = Some(1_000.0);
        it.settings.players = 1;
        clock.clone_into(&mut it.environment.clock);
        let path = self.0.join(place);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("result.json"), lab::load::json(&it).unwrap()).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_shift_is_found_noise_is_called_noise_and_the_environment_comes_first() {
    let folder = Folder::new("known");
    for (round, us) in [500, 510, 490, 520, 480].into_iter().enumerate() {
        folder.result(&format!("before/{round}"), us, "tsc");
        folder.result(&format!("same/{round}"), us + 3 - 2 * (round as u64 % 3), "tsc");
        folder.result(&format!("after/{round}"), us * 11 / 10, "hpet");
    }
    let (before, same, after) = (folder.path("before"), folder.path("same"), folder.path("after"));
    let ran = throng(&["compare", &before, &same]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("echo: no change beyond noise\n"), "{}", ran.out);
    assert!(ran.out.starts_with("Differences of the environment\n  none"), "{}", ran.out);
    let page = folder.path("page.html");
    let ran = throng(&["compare", &before, &after, "--out", &page]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("Clock source: before: tsc; after: hpet"), "{}", ran.out);
    let says = "half of echo within 550 µs on after: 10.0 % longer than on before (500 µs; 99 %";
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(words.join(" ").contains(says), "{}", ran.out);
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("10.0 % longer") && !html.contains("<b>Efficiency</b>"));
    let ran = throng(&["compare", &before, &after, "--markdown"]);
    assert!(ran.out.contains("| before | after | after against before |"), "{}", ran.out);
    // The older name tells about the first side.
    let ran = throng(&["load", "table", &after, &before]);
    assert!(ran.out.contains("| before | after | after against before |"), "{}", ran.out);
}

#[test]
fn one_run_of_each_is_said_to_be_one() {
    let folder = Folder::new("single");
    folder.result("a", 500, "tsc");
    folder.result("b", 550, "tsc");
    let ran = throng(&["compare", &folder.path("a"), &folder.path("b")]);
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(words.join(" ").contains("nothing is known about the spread"), "{}", ran.out);
    assert!(!ran.out.contains("no change beyond noise"), "{}", ran.out);
}

#[test]
fn wrong_questions_are_answered() {
    let folder = Folder::new("wrong");
    folder.result("full/before/1", 500, "tsc");
    let (empty, full) = (folder.path(""), folder.path("full"));
    for (args, code, part) in [
        (&["compare"][..], 2, "required"),
        (&["compare", "/no/such"], 1, "/no/such"),
        (&["compare", "run", "--before", "true", "--after", "true", "--out", &empty], 2, "MEASURE"),
        (
            &["compare", "run", "--before", ":", "--after", ":", "--out", &full, "--", "true"],
            2,
            "has results already",
        ),
        (
            &["compare", "run", "--before", ":", "--after", ":", "--out", &empty, "--", "true"],
            1,
            "wrote no result.json",
        ),
        (
            &[
                "compare", "run", "--before", "exit 3", "--after", ":", "--out", &empty, "--",
                "true",
            ],
            1,
            "--before `exit 3`",
        ),
        (
            &[
                "compare",
                "run",
                "--before",
                ":",
                "--after",
                ":",
                "--out",
                &empty,
                "--",
                "no-such-x",
            ],
            1,
            "no-such-x",
        ),
    ] {
        let ran = throng(args);
        assert_eq!(ran.code, Some(code), "{args:?}\n{}{}", ran.out, ran.err);
        assert!(ran.err.contains(part), "{args:?}\n{}{}", ran.out, ran.err);
    }
}

#[test]
fn rounds_alternate_and_end_with_the_comparison() {
    let folder = Folder::new("rounds");
    folder.result("slow", 500, "tsc");
    folder.result("fast", 400, "tsc");
    let out = folder.path("out");
    let log = folder.path("log");
    let set = |which: &str| {
        let (from, to) = (folder.path(&format!("{which}/result.json")), folder.path("now.json"));
        format!("echo $THRONG_SIDE$THRONG_ROUND >> {log}; cp {from} {to}")
    };
    let measure = format!("echo measured; cp {} {{out}}/result.json", folder.path("now.json"));
    let ran = throng(&[
        "compare",
        "run",
        "--before",
        &set("slow"),
        "--after",
        &set("fast"),
        "--rounds",
        "3",
        "--finally",
        &format!("echo end >> {log}"),
        "--out",
        &out,
        "--",
        "sh",
        "-c",
        &measure,
    ]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let order = std::fs::read_to_string(&log).unwrap();
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order, ["before1", "after1", "after2", "before2", "before3", "after3", "end"]);
    assert!(ran.out.contains("20.0 % shorter than on before"), "{}", ran.out);
    assert!(folder.has("out/compare.html") && folder.has("out/after/3/result.json"));
    let printed = std::fs::read_to_string(folder.path("out/before/2/output.txt")).unwrap();
    assert_eq!(printed, "measured\n");
    let command = std::fs::read_to_string(folder.path("out/command.txt")).unwrap();
    assert!(command.starts_with("throng compare run --before "), "{command}");
}

fn started(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn what_is_whole_is_kept_and_compared_when_it_is_interrupted() {
    let folder = Folder::new("interrupted");
    folder.result("result", 500, "tsc");
    let (out, mark) = (folder.path("out"), folder.path("mark"));
    let source = folder.path("result/result.json");
    // The third measurement does not end by itself, and a shell's background command ignores ^C.
    let measure = format!(
        "cp {source} {{out}}/result.json; case $THRONG_SIDE$THRONG_ROUND in after2) \
         sleep 100 > /dev/null 2>&1 & echo $! > {mark}.new; mv {mark}.new {mark}; wait;; esac"
    );
    let child = started(&[
        "compare", "run", "--before", ":", "--after", ":", "--rounds", "3", "--out", &out, "--",
        "sh", "-c", &measure,
    ]);
    let since = Instant::now();
    while !folder.has("mark") {
        assert!(since.elapsed() < Duration::from_mins(1), "it never began");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    let background = std::fs::read_to_string(folder.path("mark")).unwrap();
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", background.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    let since = Instant::now();
    while lives() {
        assert!(since.elapsed() < Duration::from_secs(30), "what it has started lives on");
        std::thread::yield_now();
    }
    assert_eq!(ran.code, Some(130), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("ended by SIGINT; what is whole is kept"), "{}", ran.err);
    assert!(ran.out.contains("half of echo within 500 µs on after"), "{}", ran.out);
    assert!(folder.has("out/before/1/result.json") && folder.has("out/after/1/result.json"));
    assert!(!folder.has("out/after/2") && folder.has("out/unfinished-after-2/result.json"));
    assert!(folder.has("out/compare.html"));
}
