//! Whole runs over real sockets, against a small server of the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ping_tls;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use engine::DriverChoice;
use lab::load::expect::Condition;
use lab::load::scenario::{Span, parse};
use lab::load::{Finished, Plan, Target, TlsChoice, run};

const SCENARIO: &str = "name='t'\ntitle='t'\nplayers=8\nrate=2000\n[[session]]\nname='s'\n\
                        [[session.first]]\nop='login'\npost='/login'\nbody='{\"id\":\"${player}\"}'\n\
                        capture={ token='token' }\n[[session.loop]]\nop='get'\nget='/x'\nauth='token'\n";

/// Answers every request at once, and counts those for `/x` that bear the token.
fn server() -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = count.clone();
            std::thread::spawn(move || serve(stream, &count));
        }
    });
    (port, asked)
}

fn serve(mut stream: TcpStream, count: &AtomicU64) {
    let mut kept = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let Ok(len @ 1..) = stream.read(&mut buffer) else { return };
        kept.extend_from_slice(&buffer[..len]);
        while let Some(end) = kept.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&kept[..end]).into_owned();
            let length = head.split("Content-Length: ").nth(1).map_or(0, |rest| {
                rest.split("\r\n").next().and_then(|text| text.parse().ok()).unwrap_or(0)
            });
            if kept.len() < end + 4 + length {
                break;
            }
            kept.drain(..end + 4 + length);
            if head.contains("Authorization: Bearer t.o.k") {
                count.fetch_add(1, Ordering::Relaxed);
            }
            let body = "{\"token\":\"t.o.k\"}";
            let answer = format!(
                "HTTP/1.1 200 OK\r\nServer: the test\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn target(port: u16) -> Target {
    Target::parse(&format!("http://127.0.0.1:{port}"), &AtomicBool::new(false)).unwrap()
}

fn plan(port: u16, driver: DriverChoice) -> Plan {
    Plan {
        scenario: parse(SCENARIO).unwrap(),
        targets: vec![target(port)],
        players: None,
        rate: None,
        rate_end: None,
        saturate: false,
        duration: Span(Duration::from_millis(400)),
        warm_up: Span(Duration::ZERO),
        ramp: None,
        pipeline: None,
        server_key: "k".to_owned(),
        http_key: "k".to_owned(),
        vars: BTreeMap::new(),
        server_pids: vec![std::process::id()],
        server: None,
        pin: None,
        bind: None,
        tls: TlsChoice::default(),
        realtime: false,
        driver,
        seed: Some(1),
        processes: 1,
        peer: String::new(),
        is_target_given: true,
        worker_args: Vec::new(),
        server_log: None,
        say: |_| {},
        stop: Arc::default(),
    }
}

fn done(plan: &Plan) -> Finished {
    run(plan, &mut |_| true).unwrap()
}

#[test]
fn both_drivers_and_both_loops_count_what_the_server_counts() {
    for driver in [DriverChoice::Auto, DriverChoice::Poll] {
        for saturate in [false, true] {
            let (port, asked) = server();
            let finished = done(&Plan { saturate, ..plan(port, driver) });
            let summary = &finished.summary;
            let (login, get) = (&summary.ops[0], &summary.ops[1]);
            assert!(summary.errors.is_empty(), "{:?}", summary.errors);
            assert_eq!((login.done, get.failed, get.unanswered), (8, 0, 0));
            // What was answered within the counted time or after it; the rest came before.
            assert!(get.done > 0 && get.done <= get.service.count);
            assert!(get.service.count <= asked.load(Ordering::Relaxed));
            assert!(summary.counted_s >= 0.4);
            assert_eq!(get.response.count > 0, !saturate);
            assert_eq!(summary.environment.server, "the test");
            assert!(summary.server.is_some_and(|server| server.resident_end_bytes > 0));
            let page = lab::load::html(summary);
            assert!(page.contains(">get<") && !page.contains("t.o.k"));
            let json = serde_json::to_string(summary).unwrap();
            let again: lab::load::Summary = serde_json::from_str(&json).unwrap();
            assert_eq!(again.ops[1].done, get.done);
        }
    }
}

#[test]
fn players_of_several_nodes_stay_on_theirs() {
    let nodes = [server(), server(), server()];
    let targets: Vec<_> = nodes.iter().map(|(port, _)| target(*port)).collect();
    let urls: Vec<_> = targets.iter().map(|target| target.url.clone()).collect();
    let pids = vec![std::process::id(); 2];
    let plan = plan(0, DriverChoice::Auto);
    let finished = done(&Plan { targets, server_pids: pids, saturate: true, ..plan });
    let summary = &finished.summary;
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    // Eight players: three, three and two; none can be without work.
    for (_, asked) in nodes {
        assert!(asked.load(Ordering::Relaxed) > 20);
    }
    assert_eq!((&summary.settings.targets, &summary.settings.target), (&urls, &urls.join(", ")));
    assert_eq!(summary.ops[0].done, 8);
    assert!(summary.server.is_some_and(|server| server.threads_end >= 6));
}

#[test]
fn a_run_can_be_ended_early() {
    let (port, _) = server();
    let plan = Plan { duration: Span(Duration::from_hours(1)), ..plan(port, DriverChoice::Auto) };
    let finished = run(&plan, &mut |progress| progress.history.len() < 2).unwrap();
    assert!(finished.summary.counted_s < 60.0);
    assert!(finished.summary.ops[1].done > 0);
}

#[test]
fn a_server_that_is_not_there_is_an_error_and_one_that_goes_is_a_result() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Only the connection that finds out whether something listens is accepted.
    let goes = std::thread::spawn(move || drop(listener.accept()));
    let plan = Plan { server_pids: Vec::new(), ..plan(port, DriverChoice::Auto) };
    let finished = run(&plan, &mut |_| false).unwrap();
    let kinds: Vec<_> = finished.summary.errors.iter().map(|error| error.kind.as_str()).collect();
    assert!(kinds.iter().any(|kind| kind.starts_with("connect")), "{kinds:?}");
    goes.join().unwrap();
    let error = run(&plan, &mut |_| true).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("connection refused")));
}

/// Answers every other request at once; holds the rest for so long and resets their connections.
fn hostile(hold: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4_096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    if asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        if stream.write_all(answer).is_err() {
                            return;
                        }
                        continue;
                    }
                    std::thread::sleep(hold);
                    // Closing with unread bytes or without lingering is a reset.
                    let at_once = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(&stream, at_once).unwrap();
                    return;
                }
            });
        }
    });
    port
}

#[test]
fn a_server_that_holds_requests_and_resets_them_does_not_look_fast() {
    // Evenly, so that no player is due again while its request is held.
    let scenario = "name='t'\ntitle='t'\nplayers=200\nrate=100\n[[session]]\nname='s'\nprocess='constant'\n\
                    [[session.loop]]\nop='get'\nget='/x'\n";
    let port = hostile(Duration::from_millis(1_500));
    let plan = Plan {
        scenario: parse(scenario).unwrap(),
        duration: Span(Duration::from_secs(2)),
        server_pids: Vec::new(),
        ..plan(port, DriverChoice::Auto)
    };
    let summary = done(&plan).summary;
    let get = &summary.ops[0];
    assert!(get.done > 40 && get.failed > 40, "{} answered, {} failed", get.done, get.failed);
    assert_eq!(get.failures.response.count, get.failed);
    assert!(summary.errors.iter().all(|it| it.kind.contains("reset")), "{:?}", summary.errors);
    for (condition, holds) in [
        ("response_p99 < 1400ms", false),
        ("service_p99 < 1400ms", false),
        ("all_response_p99 < 1400ms", false),
        ("answered_response_p99 < 1400ms", true),
        ("failed_response_p50 >= 1500ms", true),
        ("failed_service_min >= 1490ms", true),
    ] {
        let verdict = condition.parse::<Condition>().unwrap().check(&summary);
        assert_eq!(verdict.holds, holds, "{condition}: {}", verdict.found);
    }
    let text = lab::load::text(&summary);
    assert!(text.contains(" failed "), "{text}");
}
