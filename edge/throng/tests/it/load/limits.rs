//! Runs that look for a limit or end at one, that say where they come from, and that are looked at
//! while they last.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("5/s  holds"), "{}", ran.out);
    assert!(ran.out.contains("does not hold: error_share < 45 % (ask.error_share"), "{}", ran.out);
    assert!(ran.out.contains("highest rate at which all expectations hold: "), "{}", ran.out);
    assert!(folder.0.join("out/rate-5/result.json").exists());
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
