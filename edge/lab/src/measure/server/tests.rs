//! Real processes and sockets of this machine; no sleeps, no fixed ports.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{Server, Target, TargetError};

static GO_ON: AtomicBool = AtomicBool::new(false);

fn target(port: u16) -> Target {
    Target::parse(&format!("http://127.0.0.1:{port}"), &GO_ON).unwrap()
}

/// A port at which nothing listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn targets() {
    for (url, host, addr) in [
        ("http://127.0.0.1:7350", "127.0.0.1:7350", "127.0.0.1:7350"),
        ("http://127.0.0.1/", "127.0.0.1", "127.0.0.1:80"),
        ("http://[::1]:80", "[::1]:80", "[::1]:80"),
    ] {
        let target = Target::parse(url, &GO_ON).unwrap();
        assert_eq!((&*target.host, &*target.addr.to_string()), (host, addr));
    }
    for url in [
        "",
        "127.0.0.1:1",
        "wss://a",
        "https://",
        "https://a b",
        "http://",
        "http://a b",
        "http://a/b",
    ] {
        assert!(Target::parse(url, &GO_ON).is_err(), "{url}");
    }
}

#[test]
fn silence_is_told_apart() {
    let wait = Duration::from_millis(100);
    let error = |target: &Target| target.reach_within(wait).unwrap_err().to_string();
    let refused = error(&target(free_port()));
    assert!(refused.contains("refused") && refused.contains("--server"), "{refused}");
    let unreachable = error(&Target::parse("http://255.255.255.255:7350", &GO_ON).unwrap());
    assert!(unreachable.contains("cannot be reached"), "{unreachable}");
    // A listener whose queue is full does not answer.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let full = target(listener.local_addr().unwrap().port());
    let waiting: Vec<_> = (0..8).map(|_| TcpStream::connect_timeout(&full.addr, wait)).collect();
    let timed_out = error(&full);
    assert!(timed_out.contains("within 0.1 s (timed out"), "{timed_out}");
    drop(waiting);
}

#[test]
fn of_a_names_addresses_the_one_that_accepts_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let named = Target::parse(&format!("http://localhost:{port}"), &GO_ON).unwrap();
    assert_eq!(named.reach().unwrap().addr, listener.local_addr().unwrap());
}

#[test]
fn a_server_says_where_it_listens_and_is_ended() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command =
        format!("sh -c 'echo INFO listening on http://127.0.0.1:{port}, driver uring; sleep 60'");
    let mut server = Server::start(&command, (&target(free_port()), false), None).unwrap();
    assert_eq!(server.wait(&GO_ON, &mut |_| {}).unwrap().addr.port(), port);
    let pid = server.pid();
    drop(server);
    assert!(crate::load::sample(pid).is_err());
}

#[test]
fn a_server_may_print_what_it_likes_and_is_read_to_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Not UTF-8, and a line without an end that is longer than any pipe.
    let command = format!(
        "sh -c 'printf \"\\377\\n\"; head -c 300000 /dev/zero; echo; seq 500; \
         echo listening on http://127.0.0.1:{port}; sleep 60'"
    );
    let mut server = Server::start(&command, (&target(free_port()), false), None).unwrap();
    let found = server.wait(&GO_ON, &mut |_| {}).map(|found| found.addr.port());
    assert_eq!(found.ok(), Some(port));
    assert!(server.output.last_lines().iter().all(|line| line.len() <= 4_096 * 3));
}

#[test]
fn what_a_server_has_started_itself_ends_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("sh -c 'sleep 60 & echo $! listening on http://127.0.0.1:{port}; wait'");
    let mut server = Server::start(&command, (&target(free_port()), false), None).unwrap();
    server.wait(&GO_ON, &mut |_| {}).unwrap();
    let child: u32 = server.output.last_lines()[0].split(' ').next().unwrap().parse().unwrap();
    assert!(crate::load::sample(child).is_ok());
    drop(server);
    // Whoever inherits it may leave it unburied for a moment: it has no memory any more.
    let is_gone = || crate::load::sample(child).map_or(true, |it| it.resident_bytes == 0);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_gone() {
        assert!(Instant::now() < deadline, "{child} lives on");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_server_has_started_may_end_in_order() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let path = std::env::temp_dir().join(format!("throng-target-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    // The inner one needs a while; the outer one ends at once.
    let inner = format!(
        "trap \"sleep 0.2; echo done > {}; exit\" TERM; echo listening on http://127.0.0.1:{port}; \
         while :; do sleep 0.05; done",
        path.display()
    );
    let command = format!("sh -c '(trap \"\" HUP; {inner}) & wait'");
    let mut server = Server::start(&command, (&target(free_port()), false), None).unwrap();
    server.wait(&GO_ON, &mut |_| {}).unwrap();
    drop(server);
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), "done\n");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_target_that_was_given_wins_over_what_the_server_says() {
    let (said, given) = (free_port(), free_port());
    let command = format!("sh -c 'echo listening on http://127.0.0.1:{said}; sleep 60'");
    let mut server = Server::start(&command, (&target(given), true), None).unwrap();
    // Waits until it accepts: here until it is told to stop.
    let stopped = server.wait(&AtomicBool::new(true), &mut |_| {});
    assert!(matches!(stopped, Err(TargetError::Interrupted)), "{stopped:?}");
    let _listener = TcpListener::bind(("127.0.0.1", given)).unwrap();
    assert_eq!(server.wait(&GO_ON, &mut |_| {}).unwrap().addr.port(), given);
    assert!(server.missed().contains("(--target) accept"), "{}", server.missed());
}

#[test]
fn another_server_is_not_taken_for_the_one_that_was_started() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = target(listener.local_addr().unwrap().port());
    let error = Server::start("sleep 60", (&taken, true), None).unwrap_err();
    assert!(matches!(error, TargetError::Taken { .. }), "{error}");
    let mut server = Server::start("sleep 60", (&taken, false), None).unwrap();
    let stopped = server.wait(&AtomicBool::new(true), &mut |_| {});
    assert!(matches!(stopped, Err(TargetError::Interrupted)), "{stopped:?}");
}

#[test]
fn a_server_that_ends_is_an_error_with_its_lines() {
    let command = "sh -c 'echo no such key >&2; exit 3' --socket.server_key s3cret";
    let mut server = Server::start(command, (&target(free_port()), false), None).unwrap();
    let error = server.wait(&GO_ON, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("--socket.server_key KEY") && !error.contains("s3cret"), "{error}");
    assert!(error.contains("no such key") && error.contains("exit code 3"), "{error}");
}

#[test]
fn a_server_that_dies_says_when_how_and_what_it_printed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let log = std::env::temp_dir().join(format!("throng-server-log-{}", std::process::id()));
    let command = format!(
        "sh -c 'echo out of memory >&2; seq 3000; echo listening on http://127.0.0.1:{port}; \
         exec sleep 60'"
    );
    let nothing = target(free_port());
    let mut server = Server::start(&command, (&nothing, false), Some(&log)).unwrap();
    server.wait(&GO_ON, &mut |_| {}).unwrap();
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    while server.ended().is_none() {
        std::thread::yield_now();
    }
    assert!(server.ended_by_itself().is_none(), "somebody still listens there");
    drop(listener);
    let ended = server.ended_by_itself().unwrap();
    assert_eq!(ended.how, "signal 9, SIGKILL");
    assert!(ended.last_lines.len() <= 64 && ended.last_lines.iter().any(|it| it == "3000"));
    let kept = std::fs::read_to_string(&log).unwrap();
    assert!(kept.contains("listening on") && kept.contains("out of memory"));
    assert!(kept.lines().any(|it| it == "1"));
    std::fs::remove_file(log).unwrap();
}

#[test]
fn a_server_that_does_not_listen_is_waited_for_aloud() {
    let silent = target(free_port());
    let mut server = Server::start("sleep 60", (&silent, true), None).unwrap();
    let stop = AtomicBool::new(false);
    let mut told = Vec::new();
    let stopped = server.wait(&stop, &mut |text| {
        told.push(text.to_owned());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(stopped, Err(TargetError::Interrupted)), "{stopped:?}");
    assert_eq!(told, [format!("waiting for {} (up to 60 s)", silent.url)]);
}

#[test]
fn a_server_may_tell_of_its_metrics_after_it_has_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = page.local_addr().unwrap();
    let go_on = std::env::temp_dir().join(format!("throng-lab-{}-{port}", std::process::id()));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &go_on,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let command = format!(
        "sh -c 'echo listening on http://127.0.0.1:{port}; read line <{}; \
         echo metrics on http://{metrics}/metrics; sleep 60'",
        go_on.display()
    );
    let mut server = Server::start(&command, (&target(free_port()), false), None).unwrap();
    server.wait(&GO_ON, &mut |_| {}).unwrap();
    let found = server.metrics();
    assert!(found.read().is_none());
    std::fs::write(&go_on, "go on\n").unwrap();
    std::fs::remove_file(&go_on).unwrap();
    // Each one is answered: a busy machine may be too slow for the first.
    std::thread::spawn(move || {
        for stream in page.incoming() {
            let mut stream = stream.unwrap();
            // All of the request, or closing resets the connection under the answer.
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nnakama_zone_ticks 7\n");
        }
    });
    let deadline = Instant::now() + Duration::from_secs(10);
    let scrape = loop {
        if let Some(scrape) = found.read() {
            break scrape;
        }
        assert!(Instant::now() < deadline, "it has told, and is not found");
        std::thread::yield_now();
    };
    assert_eq!(scrape.count("zone_ticks"), 7);
}
