//! Servers that do not end, do not begin, or do not speak HTTP.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::mpsc::channel;

use fetch::FetchSettings;
use game::fetch::FetchRequest;

use crate::rig::{ANN, BOB, Rig, Server, request, settings};

/// Writes until nobody reads any more.
fn endlessly(mut stream: TcpStream, head: &str, piece: &[u8]) {
    let _ = stream.write_all(head.as_bytes());
    while stream.write_all(piece).is_ok() {}
}

#[test]
fn what_has_no_end_ends() {
    let piece = "x".repeat(4096);
    let chunk = format!("1000\r\n{piece}\r\n");
    let mut rig = Rig::new(settings());
    for (head, piece) in [
        ("HTTP/1.1 200 OK\r\n\r\n", piece.as_str()),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &*chunk),
        ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n", &*piece),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n", &*piece),
        // What is no part of the content: interim answers, and a chunk's size that does not begin.
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0000000000000000"),
    ] {
        let (head, piece) = (head.to_owned(), piece.to_owned());
        let shown = head.clone();
        let server = Server::new(move |stream, _| endlessly(stream, &head, piece.as_bytes()));
        let text = rig.fail(request(server.url("/")));
        let is_told =
            text.contains("fetch.answer_max_bytes") || shown.contains("18446744073709551615");
        assert!(is_told, "{shown}: {text}");
    }
    for (head, piece) in [
        ("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
        ("HTTP/1.1 200 OK\r\nX-A: ", "x"),
        ("HTTP/1.1 ", "2"),
    ] {
        let server = Server::new(move |stream, _| endlessly(stream, head, piece.as_bytes()));
        // An answer that never begins ends with its time at the latest.
        let wanted = FetchRequest { timeout_ms: 2_000, ..request(server.url("/")) };
        let text = rig.fail(wanted);
        assert!(!text.is_empty(), "{head}");
    }
    assert_eq!(rig.count("fetch_bytes_now"), 0);
}

#[test]
fn who_is_slow_gets_the_time_that_the_script_gave() {
    for (begins, awaited) in [
        ("", "{} to answer"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "the rest of the answer of {}"),
    ] {
        let server = Server::new(move |mut stream, _| {
            let _ = stream.write_all(begins.as_bytes());
            let _ = std::io::Read::read(&mut stream, &mut [0]);
        });
        let mut rig = Rig::new(settings());
        let wanted = FetchRequest { timeout_ms: 50, ..request(server.url("/")) };
        let awaited = awaited.replace("{}", &format!("127.0.0.1:{}", server.port));
        assert_eq!(rig.fail(wanted), format!("no answer within 50 ms: waited for {awaited}"));
        assert_eq!(rig.count("fetch_timeouts"), 1);
    }
    let mut rig = Rig::new(settings());
    let wanted = FetchRequest { timeout_ms: 60_001, ..request("http://127.0.0.1/") };
    assert!(rig.fail(wanted).contains("fetch.timeout_max_ms"));
}

/// Who takes connections and says nothing there has not been asked over https.
#[test]
fn who_does_not_speak_tls_is_told_so_and_who_waits_for_a_place_too() {
    let silent = Server::raw("127.0.0.1", channel().1, |mut stream| {
        let mut hello = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut hello);
    });
    let url = format!("https://127.0.0.1:{}/", silent.port);
    let host = format!("127.0.0.1:{}", silent.port);
    let mut rig = Rig::new(settings());
    let wanted = FetchRequest { timeout_ms: 200, ..request(&*url) };
    let told = rig.fail(wanted);
    assert_eq!(told, format!("no answer within 200 ms: waited for TLS with {host}"));
    let mut rig = Rig::new(FetchSettings { connect_timeout_ms: 200, ..settings() });
    let told = rig.fail(request(&*url));
    assert_eq!(
        told,
        format!("no answer: waited 200 ms for TLS with {host} (fetch.connect_timeout_ms)")
    );
    assert_eq!(rig.count("fetch_timeouts"), 1);

    let mut rig = Rig::new(FetchSettings { requests_per_host: 1, ..settings() });
    let first = rig.start(BOB, request(&*url));
    let second = rig.start(ANN, FetchRequest { timeout_ms: 200, ..request(&*url) });
    let (of, told) = rig.next();
    assert_eq!((of, second), (second, first + 1));
    let told = told.unwrap_err().0;
    let turn = "waited for its turn (fetch.requests_max, fetch.requests_per_host)";
    assert_eq!(told, format!("no answer within 200 ms: {turn}"));
}

#[test]
fn who_does_not_listen_or_hangs_up_is_told() {
    let mut rig = Rig::new(settings());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(rig.fail(request(format!("http://127.0.0.1:{port}/"))).contains("refused"));
    assert!(rig.fail(request("http://no-such-host.invalid/")).contains("no address for"));
    for said in [
        "",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 2\r\n\r\n",
        "\0\0\0\0\0\0\r\n\r\n",
    ] {
        let server = Server::saying(said);
        let text = rig.fail(request(server.url("/")));
        assert!(text.starts_with(&format!("127.0.0.1:{}: ", server.port)), "{said:?}: {text}");
    }
    assert_eq!(rig.count("fetch_failed"), 9);
    // The thread is as well as before.
    let server = Server::saying("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(rig.ask(request(server.url("/"))).unwrap().code, 200);
}

#[test]
fn all_content_together_is_bounded() {
    let server = Server::saying(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(2_000)));
    let mut rig = Rig::new(FetchSettings { memory_bytes_max: 1_000, ..settings() });
    assert!(rig.fail(request(server.url("/"))).contains("fetch.memory_max_bytes"));
    let large = bytes::Bytes::from(vec![b'x'; 1_001]);
    let wanted = FetchRequest { body: large.clone(), ..request(server.url("/")) };
    assert!(rig.fail(wanted).contains("fetch.memory_max_bytes"));
    let mut rig = Rig::new(FetchSettings { request_bytes_max: 1_000, ..settings() });
    let wanted = FetchRequest { body: large, ..request(server.url("/")) };
    assert!(rig.fail(wanted).contains("fetch.request_max_bytes"));
    assert_eq!(rig.count("fetch_too_large"), 1);
}
