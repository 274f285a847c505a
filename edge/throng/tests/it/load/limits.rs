//! Runs that look for a limit or end at one, that say where they come from, and that are looked at
//! while they last.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::{Folder, Process, count, evenly, flat, free_port, load, request, stub, throng};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that answers at once, and refuses what comes sooner than `gap` after the last request.
fn narrow(gap: Duration) -> String {
    let last = Arc::new(Mutex::new(None::<std::time::Instant>));
    stub(move |mut stream| {
        while request(&mut stream) {
            let now = std::time::Instant::now();
            let before = last.lock().unwrap().replace(now);
            let is_much = before.is_some_and(|before| now.duration_since(before) < gap);
            let busy = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(if is_much { busy } else { OK }).is_err() {
                return;
            }
        }
    })
}

fn asking(folder: &Folder) -> String {
    let path = folder.path("asking.toml");
    // Evenly, so that it is the rate alone that decides.
    std::fs::write(&path, evenly()).unwrap();
    path
}

#[test]
fn a_search_ends_between_what_holds_and_what_does_not() {
    let folder = Folder::new("find");
    let (scenario, out) = (asking(&folder), folder.path("out"));
    // 20 ms: fifty a second at most, and half of them refused beyond, whoever is late by a little.
    let url = narrow(Duration::from_millis(20));
    let ran = throng(&[
        "load",
        "find",
        &scenario,
        "--target",
        &url,
        "--duration",
        "2s",
        "--warmup",
        "0s",
        "--rate",
        "5",
        "--to",
        "320",
        "--within",
        "60",
        "--expect",
        "error_share < 45 %",
        "--out",
        &out,
    ]);
    assert!(ran.out.contains("5/s  holds"), "{}", ran.out);
    assert!(ran.out.contains("does not hold: error_share < 45 % (ask.error_share"), "{}", ran.out);
    assert!(folder.0.join("out/rate-5/result.json").exists());
    let found: Value =
        serde_json::from_slice(&std::fs::read(folder.path("out/find.json")).unwrap()).unwrap();
    let rungs = found["rungs"].as_array().unwrap();
    assert!(rungs[0]["rate"] == 5.0 && rungs[0]["holds"] == true, "{found}");
    let lowest = rungs.iter().rev().find(|it| it["rate"] == found["failed"]).unwrap();
    // On a busy machine it may be the generator's doing, which is no limit of the server.
    let says = found["says"].as_str().unwrap();
    if lowest["invalid"].as_array().unwrap().is_empty() {
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("highest rate at which all expectations hold: "), "{}", ran.out);
    } else {
        assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
        assert!(says.contains("INVALID") && ran.err.contains(says), "{}", ran.err);
        let rate = &lowest["rate"];
        assert_eq!(rungs.iter().filter(|it| it["rate"] == *rate).count(), 2, "tried once more");
    }
}

#[test]
fn a_search_that_is_interrupted_says_what_it_has_found() {
    let folder = Folder::new("find-interrupt");
    let scenario = asking(&folder);
    let url = stub(|mut stream| while request(&mut stream) && stream.write_all(OK).is_ok() {});
    let mut run = Process::find(&[
        &scenario,
        "--target",
        &url,
        "--duration",
        "300ms",
        "--warmup",
        "0s",
        "--rate",
        "10",
        "--expect",
        "errors == 0",
        "--out",
        &folder.path("out"),
    ]);
    let has_held = || {
        let found = std::fs::read_to_string(folder.path("out/find.json")).unwrap_or_default();
        found.contains("\"holds\": true")
    };
    while !has_held() {
        run.until(|_| true);
    }
    run.signal(rustix::process::Signal::INT);
    let ran = run.end();
    assert_eq!(ran.code, Some(130), "{}{}", ran.out, ran.err);
    let line = ran.err.lines().last().unwrap_or("");
    assert!(line.contains("ended by SIGINT; so far all expectations held at "), "{line}");
}

#[test]
fn mistakes_name_the_flag_and_say_what_may_be_meant() {
    let folder = Folder::new("mistakes");
    let scenario = asking(&folder);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let url = stub(|mut stream| while request(&mut stream) && stream.write_all(OK).is_ok() {});
    for (args, code, parts) in [
        (&["--expect", "ask.p99 < 20ms"][..], 2, &["--expect", "mean `response_p99`?"][..]),
        (&["--expect", "aks.rate > 1"], 2, &["--expect", "`aks`, but ask; did you mean `ask`?"]),
        (&["--rate", "-5"], 2, &["--rate is above zero"]),
        (&["--pin", "9999"], 2, &["--pin 9999: there is no processor 9999: "]),
        (&["--server-pid", "4194999"], 1, &["--server-pid 4194999: there is no process"]),
        (&["--metrics", &taken], 1, &["--metrics", "name another port"]),
        (
            &["--saturate", "--expect", "ask.response_p99 < 2ms"],
            2,
            &["a closed loop has no response time: use service_p99, or leave --saturate out"],
        ),
    ] {
        let ran = throng(&[&["load", &scenario, "--target", &url], args].concat());
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
        for part in parts {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
    }
}

#[test]
fn a_search_says_what_it_lacks() {
    let folder = Folder::new("find-wrong");
    let scenario = asking(&folder);
    for (args, part) in [
        (&[][..], "what is to hold"),
        (&["--expect", "errors == 0", "--saturate"], "leave it out"),
        (&["--expect", "errors == 0", "--json", "x"], "--json"),
        (&["--expect", "errors == 0", "--rate-end", "50"], "--rate-end"),
    ] {
        let ran = throng(&[&["load", "find", &scenario], args].concat());
        assert!(ran.code == Some(2) && ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn a_run_ends_when_an_expectation_cannot_hold_any_more() {
    let folder = Folder::new("fail-fast");
    let url = stub(|mut stream| {
        while request(&mut stream) {
            let busy = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n";
            // The first of each connection is well, so that it is not a run of errors alone.
            if stream.write_all(OK).is_err() || !request(&mut stream) {
                return;
            }
            if stream.write_all(busy).is_err() {
                return;
            }
        }
    });
    let scenario = asking(&folder);
    let out = folder.path("out");
    let ran = throng(&[
        "load",
        &scenario,
        "--target",
        &url,
        "--duration",
        "60s",
        "--warmup",
        "0s",
        "--out",
        &out,
        "--expect",
        "errors < 3",
        "--fail-fast",
    ]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let result = folder.result("out");
    assert_eq!(result["ended"], "`errors < 3` could not hold any more");
    assert!(count(&result, "status 503") >= 3 && result["counted_s"].as_f64().unwrap() < 30.0);
    assert!(flat(&ran.out).contains("ENDED EARLY: `errors < 3`"), "{}", ran.out);
}

#[test]
fn connections_come_from_the_address_that_was_asked_for() {
    let folder = Folder::new("bind");
    let peers = Arc::new(Mutex::new(Vec::<IpAddr>::new()));
    let seen = peers.clone();
    let url = stub(move |mut stream| {
        let peer = stream.peer_addr().unwrap().ip();
        while request(&mut stream) && stream.write_all(OK).is_ok() {
            seen.lock().unwrap().push(peer);
        }
    });
    let scenario = asking(&folder);
    let args = [&*scenario, "--target", &url, "--bind", "127.5.6.7"];
    let (ran, result) = load(&folder, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(result["settings"]["bind"], "127.5.6.7");
    let peers = peers.lock().unwrap();
    assert!(peers.len() > 10 && peers.iter().all(|it| it.to_string() == "127.5.6.7"), "{peers:?}");
    let (ran, _) = load(&folder, &[&*scenario, "--target", &url, "--bind", "192.0.2.1"]);
    assert!(ran.code == Some(1) && ran.err.contains("--bind 192.0.2.1"), "{}", ran.err);
}

#[test]
fn prometheus_can_look_while_a_run_lasts() {
    let folder = Folder::new("metrics");
    let url = stub(|mut stream| while request(&mut stream) && stream.write_all(OK).is_ok() {});
    let scenario = asking(&folder);
    let address = format!("127.0.0.1:{}", free_port());
    let mut run =
        Process::load(&[&scenario, "--target", &url, "--duration", "60s", "--metrics", &address]);
    run.until(|line| line.contains("counted"));
    run.until(|line| line.contains("counted"));
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    for part in [
        "HTTP/1.1 200 OK",
        "text/plain; version=0.0.4",
        "throng_load_run{scenario=\"asking\"",
        "stage=\"counted\"} 1",
        "throng_load_players 4",
        "throng_load_time_seconds{op=\"ask\",quantile=\"0.99\"} ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let answered =
        text.lines().find_map(|it| it.strip_prefix("throng_load_answered_total{op=\"ask\"} "));
    assert!(answered.is_some_and(|it| it.parse::<u64>().unwrap() > 0), "{text}");
    run.signal_all(rustix::process::Signal::INT);
    assert_eq!(run.end().code, Some(130));
}

#[test]
fn a_realtime_run_is_one_or_says_what_it_lacks() {
    let folder = Folder::new("realtime");
    let url = stub(|mut stream| while request(&mut stream) && stream.write_all(OK).is_ok() {});
    let scenario = asking(&folder);
    let (ran, result) = load(&folder, &[&*scenario, "--target", &url, "--realtime"]);
    match ran.code {
        Some(0) => assert_eq!(result["settings"]["realtime"], true),
        _ => assert!(ran.err.contains("CAP_SYS_NICE"), "{}", ran.err),
    }
}
