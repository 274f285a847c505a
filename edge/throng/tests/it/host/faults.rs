//! Servers that misbehave, each beside one that does not: who suffers, and what is said of it?

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Fleet, is_root, server};

/// The neighbour, and behind it the table of a server called `bad`.
fn beside(name: &str, net: u8, bad: &str) -> Fleet {
    let text = format!(
        "[host]\nsubnet = '10.177.{net}.0/24'\n\
         [[server]]\nname = 'good'\ncommand = [SERVER 'quake3', '27960']\nport = 27960\n\
         wall = 'network'\nready = {{ query = 'quake3' }}\ncpu = {{ weight = 1000 }}\n\
         [[server]]\nname = 'bad'\n{bad}\n"
    );
    let mut fleet = Fleet::run(name, &text);
    fleet.line_with("good: ready");
    fleet
}

/// The neighbour has noticed nothing, and all of it goes away.
fn unharmed(fleet: Fleet) {
    let good = fleet.status("good");
    assert_eq!((&good["state"], &good["restarts"]), (&"ready".into(), &0.into()), "{good}");
    assert_eq!(good["what"], "", "{good}");
    assert!(server::answers(good["address"].as_str().unwrap()), "{good}");
    fleet.ends();
}

#[test]
fn one_that_crashes_is_started_again_after_a_pause() {
    if !is_root() {
        return;
    }
    let mut fleet = beside("crash", 20, "command = ['sh', '-c', 'exit 3']\nwall = 'network'");
    fleet.line_with("bad: failed: ended by itself with code 3");
    let bad = fleet.when("bad", |it| it["restarts"].as_u64() >= Some(2));
    assert!(bad["what"].as_str().unwrap().contains("ended by itself with code 3"), "{bad}");
    unharmed(fleet);
}

#[test]
fn one_that_is_killed_by_a_signal_says_which() {
    if !is_root() {
        return;
    }
    let bad = "command = ['sh', '-c', 'kill -SEGV $$']\nrestart = 'never'";
    let mut fleet = beside("signal", 21, bad);
    fleet.line_with("bad: failed: ended by signal 11 SIGSEGV");
    assert_eq!(fleet.status("bad")["restarts"], 0);
    unharmed(fleet);
}

#[test]
fn one_that_cannot_be_started_says_why() {
    if !is_root() {
        return;
    }
    let bad = "command = ['/nowhere/server']\nwall = 'network'\nrestart = 'never'";
    let mut fleet = beside("absent", 22, bad);
    let line = fleet.line_with("bad: failed");
    assert!(line.contains("could not be started: /nowhere/server: No such file"), "{line}");
    unharmed(fleet);
}

#[test]
fn one_that_never_becomes_ready_is_ended() {
    if !is_root() {
        return;
    }
    let bad = "command = ['sleep', '1000']\nwall = 'files'\nport = 9\nrestart = 'never'\n\
        ready = { port = 9, timeout = '1s' }";
    let mut fleet = beside("unready", 23, bad);
    let line = fleet.line_with("bad: failed");
    assert!(line.contains("not ready within 1 s"), "{line}");
    fleet.is_what("bad", "port 9 is not bound by it");
    fleet.when("bad", |it| it["pid"] == Value::Null);
    unharmed(fleet);
}

#[test]
fn one_that_hangs_is_ended_and_started_again() {
    if !is_root() {
        return;
    }
    let bad = "command = [SERVER 'hangs', '27960']\nport = 27960\nwall = 'network'\n\
        ready = { query = 'quake3' }";
    let mut fleet = beside("hang", 24, bad);
    fleet.line_with("bad: ready");
    fleet.line_with("bad: failed: hung: no answer to 3 status queries");
    fleet.line_with("bad: ready");
    unharmed(fleet);
}

#[test]
fn one_that_eats_memory_is_ended_at_its_limit() {
    if !is_root() {
        return;
    }
    let bad = "command = [SERVER 'memory']\nwall = 'network'\nlimits = { memory = '48M' }\n\
        restart = 'never'";
    let mut fleet = beside("memory", 25, bad);
    let line = fleet.line_with("bad: failed: killed");
    assert!(line.contains("out of memory") && line.contains("limits.memory = 48M"), "{line}");
    unharmed(fleet);
}

#[test]
fn one_that_forks_without_end_has_so_many_and_no_more() {
    if !is_root() {
        return;
    }
    for (net, wall) in [(26, "network"), (27, "cgroup")] {
        let bad = format!(
            "command = [SERVER 'forks', '1000000']\nwall = '{wall}'\nlimits = {{ pids = 24 }}"
        );
        let fleet = beside(&format!("forks-{wall}"), net, &bad);
        fleet.is_what("bad", "at limits.pids = 24");
        unharmed(fleet);
    }
}

/// Without groups a server's user counts its processes, and finds them when it is stopped.
#[test]
fn one_that_forks_has_a_limit_and_an_end_without_groups_too() {
    if !is_root() {
        return;
    }
    let bad = "command = [SERVER 'forks', '1000000']\nlimits = { pids = 24 }";
    let mut fleet = beside("forks-process", 28, bad);
    fleet.line_with("bad: ready");
    assert_eq!(fleet.ask(&["stop", "bad"]).code, Some(0));
    unharmed(fleet);
}

#[test]
fn one_that_fills_its_disk_fills_its_own() {
    if !is_root() {
        return;
    }
    let bad = "command = [SERVER 'disk']\nwall = 'network'\nlimits = { disk = '4M' }\n\
        ready = { log = 'full: No space left' }";
    let mut fleet = beside("disk", 29, bad);
    fleet.line_with("bad: ready");
    fleet.is_what("bad", "its disk is full at limits.disk = 4M");
    unharmed(fleet);
}

/// A home is memory of a bounded size behind every wall; names that hold nothing are memory, too.
#[test]
fn one_that_fills_its_home_fills_its_own() {
    if !is_root() {
        return;
    }
    for (net, wall, mode) in [
        (31, "process", "disk"),
        (32, "cgroup", "disk"),
        (33, "process", "names"),
        (34, "files", "names"),
    ] {
        let bad = format!(
            "command = [SERVER '{mode}']\nwall = '{wall}'\nlimits = {{ disk = '4M' }}\n\
             ready = {{ log = 'full: No space left' }}"
        );
        let mut fleet = beside(&format!("home-{wall}-{mode}"), net, &bad);
        fleet.line_with("bad: ready");
        fleet.is_what("bad", "its disk is full at limits.disk = 4M");
        unharmed(fleet);
    }
}

/// The machine's processors carry what it sends, and take that from its part.
#[test]
fn one_that_floods_the_network_delays_nobody() {
    if !is_root() {
        return;
    }
    let bad = "command = [SERVER 'packets', '10.177.35.1:27960']\nwall = 'network'\n\
        cpu = { weight = 10 }";
    let fleet = beside("packets", 35, bad);
    // Both of its threads are at it.
    fleet.when("bad", |it| it["cpu_percent"].as_f64() > Some(20.0));
    let good = fleet.status("good");
    let address = good["address"].as_str().unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        let since = Instant::now();
        assert!(server::answers(address), "{good}");
        longest = longest.max(since.elapsed());
    }
    eprintln!("a status query beside a flood of datagrams: {longest:?} at most");
    // A debug build with other tests beside.
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    unharmed(fleet);
}

#[test]
fn one_that_floods_its_log_waits() {
    if !is_root() {
        return;
    }
    let bad = "command = [SERVER 'floods']\nwall = 'network'\nlimits = { log = '64K' }";
    let fleet = beside("floods", 30, bad);
    fleet.is_what("bad", "its output waits: more than limits.log");
    assert!(fleet.ask(&["logs", "bad", "-n", "3"]).out.lines().count() <= 3);
    unharmed(fleet);
}
