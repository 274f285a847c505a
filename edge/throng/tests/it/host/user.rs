//! A daemon without root: what it can do about its servers, which are of its own user.

use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Fleet, PATIENCE, is_root, traces};

/// Nobody, who has no rights; where that can be tried.
const NOBODY: &str = "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";

/// One that leaves its session, one that leaves its group, one that does neither, and itself.
fn leaves(number: u32) -> String {
    format!(
        "[[server]]\nname = 'a'\nready = {{ log = 'up' }}\nrestart = 'never'\n\
         command = ['sh', '-c', 'setsid -f sleep {number}.1; bash -c \"set -m; sleep {number}.2 &\"; \
         sleep {number}.3 & echo up; exec sleep {number}.4']\n"
    )
}

/// How many of them there are, as soon as there are so many.
fn are(number: u32, wanted: usize) {
    let since = Instant::now();
    let is_sleep = |it: &String| it.starts_with("sleep");
    loop {
        let found = traces::processes_with(&format!("{number}."));
        if found.iter().filter(|it| is_sleep(it)).count() == wanted {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{wanted}: {found:?}");
        std::thread::yield_now();
    }
}

#[test]
fn without_root_nothing_of_a_server_outlives_it() {
    if !is_root() {
        return;
    }
    let number = 70_001;
    let mut fleet = Fleet::run_after(NOBODY, "toml", "user-own", &leaves(number), &[]);
    fleet.line_with("a: ready");
    are(number, 4);
    assert_eq!(fleet.ask(&["stop", "a"]).code, Some(0));
    fleet.when("a", |it| it["state"] == "stopped" && it["pid"] == Value::Null);
    are(number, 0);
    fleet.ends();
}

#[test]
fn without_root_nothing_of_an_adopted_server_outlives_it() {
    if !is_root() {
        return;
    }
    let number = 70_002;
    let mut fleet = Fleet::run_after(NOBODY, "toml", "user-kept", &leaves(number), &[]);
    fleet.line_with("a: ready");
    are(number, 4);
    fleet.signal(Signal::KILL);
    fleet.again(&[]);
    fleet.line_with("1 server goes on");
    are(number, 4);
    assert_eq!(fleet.ask(&["stop", "a"]).code, Some(0));
    fleet.when("a", |it| it["state"] == "stopped" && it["pid"] == Value::Null);
    are(number, 0);
    fleet.ends();
}

/// Its first process ends while no daemon is there.
#[test]
fn without_root_what_a_server_has_left_meanwhile_is_ended() {
    if !is_root() {
        return;
    }
    let number = 70_003;
    let mut fleet = Fleet::run_after(NOBODY, "toml", "user-left", &leaves(number), &[]);
    fleet.line_with("a: ready");
    let first = fleet.status("a")["pid"].as_i64().unwrap();
    are(number, 4);
    fleet.signal(Signal::KILL);
    let _ = fleet.child.wait();
    kill_process(Pid::from_raw(i32::try_from(first).unwrap()).unwrap(), Signal::KILL).unwrap();
    are(number, 3);
    fleet.again(&[]);
    fleet.line_with("ended and removed: a");
    fleet.line_with("a: ready");
    are(number, 4);
    fleet.ends();
    are(number, 0);
}

#[test]
fn without_root_a_file_has_a_limit() {
    if !is_root() {
        return;
    }
    let text = "[[server]]\nname = 'a'\nrestart = 'never'\nlimits = { disk = '1M' }\n\
        command = ['sh', '-c', 'exec head -c 4M /dev/zero > big']\n";
    let mut fleet = Fleet::run_after(NOBODY, "toml", "user-file", text, &[]);
    let line = fleet.line_with("a: failed");
    assert!(line.contains("SIGXFSZ") && line.contains("grew to limits.disk = 1M"), "{line}");
    let big = fleet.folder.join("servers/a/home/big").metadata().unwrap();
    assert_eq!(big.len(), 1 << 20);
    fleet.ends();
}
