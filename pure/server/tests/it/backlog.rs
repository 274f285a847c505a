//! What a client sends ahead: bounded however often it is answered, and a share of each turn.

use crate::rig::{Client, Rig, request, text_frame, upgrade};

/// As the engine reads: at most this much at once.
const READ: usize = 16 << 10;
/// The most that may wait: the limit and one read.
const WAITING_MAX: u64 = (64 << 10) + READ as u64;

/// Sends as much of `bytes` as is read from the client.
fn flood(rig: &Rig, client: Client, bytes: &mut &[u8]) {
    while rig.is_read(client) && !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(bytes.len().min(READ));
        rig.bytes_only(client, piece);
        *bytes = rest;
    }
    let waiting = rig.stat("input_bytes_waiting");
    assert!(waiting <= WAITING_MAX, "{waiting} bytes wait");
}

/// A client that pipelines for ever, every request of which waits for a worker.
#[test]
fn pipelined_requests_stay_bounded_while_they_are_answered() {
    const REQUESTS: usize = 3_000;
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let client = rig.open(0);
    let all = request("GET /v2/account", &format!("Bearer {token}"), "").repeat(REQUESTS);
    let (mut rest, mut answers, mut pauses) = (&all[..], 0, 0);
    while answers < REQUESTS {
        flood(&rig, client, &mut rest);
        pauses += usize::from(!rig.is_read(client));
        rig.turn(rig.topology.batcher);
        rig.turn(rig.topology.cores[0]);
        answers += rig.text(client).matches("HTTP/1.1 200 ").count();
    }
    assert!(pauses > 0 && rig.is_read(client));
    assert_eq!(rig.stat("input_bytes_waiting"), 0);
}

#[test]
fn messages_stay_bounded_while_they_are_answered() {
    const MESSAGES: usize = 5_000;
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let client = rig.socket(0, &token, "");
    let all = text_frame(r#"{"cid":"1","match_join":{"match_id":"none"}}"#)
        .into_iter()
        .chain(text_frame(r#"{"cid":"2","status_update":{"status":"here"}}"#))
        .collect::<Vec<u8>>()
        .repeat(MESSAGES);
    let (mut rest, mut answers, mut pauses) = (&all[..], 0, 0);
    while answers < 2 * MESSAGES {
        flood(&rig, client, &mut rest);
        pauses += usize::from(!rig.is_read(client));
        rig.turn(rig.topology.rooms[0]);
        rig.turn(rig.topology.cores[0]);
        answers += rig.frames(client).iter().filter(|frame| frame.contains("cid")).count();
    }
    assert!(pauses > 0 && rig.is_read(client));
    assert_eq!(rig.stat("input_bytes_waiting"), 0);
}

/// What needs no worker must not keep the core to one connection.
#[test]
fn one_turn_has_room_for_so_many_requests_of_a_connection() {
    const REQUESTS: usize = 1_000;
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let (http, socket) = (rig.open(0), rig.socket(0, &token, ""));
    let count = |text: &[u8], what: &[u8]| text.windows(what.len()).filter(|w| w == &what).count();
    let ping = text_frame(r#"{"ping":{}}"#);
    for (client, one, answer) in [
        (http, &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &b"HTTP/1.1 200 "[..]),
        (socket, &ping, b"pong"),
    ] {
        rig.bytes_only(client, &one.repeat(REQUESTS));
        let first = count(&rig.take(client), answer);
        assert!((1..=128).contains(&first), "{first} at once");
        rig.settle();
        assert_eq!(first + count(&rig.take(client), answer), REQUESTS);
    }
    assert_eq!(rig.stat("input_bytes_waiting"), 0);
}

#[test]
fn what_was_sent_before_the_end_is_handled() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let (http, socket) = (rig.open(0), rig.socket(0, &token, ""));
    rig.bytes_only(http, &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(500));
    rig.eof(http);
    assert_eq!(rig.text(http).matches("HTTP/1.1 200 ").count(), 500);
    rig.bytes_only(socket, &text_frame(r#"{"ping":{}}"#).repeat(500));
    rig.eof(socket);
    assert_eq!(rig.frames(socket).len(), 500);
    assert!(rig.is_closed(http) && rig.is_closed(socket));
    assert_eq!((rig.stat("sessions"), rig.stat("input_bytes_waiting")), (0, 0));
}

/// The first request waits for a worker, so that what follows it waits as well.
fn sent_ahead(rig: &Rig, between: &[u8], frames: &[u8]) -> Client {
    let (_, token) = rig.login("ada");
    let client = rig.open(0);
    let first = request("GET /v2/account", &format!("Bearer {token}"), "");
    let all = [&first, between, &upgrade(&token, ""), frames].concat();
    flood(rig, client, &mut &all[..]);
    client
}

#[test]
fn a_socket_is_read_whose_request_waited_behind_too_much() {
    let rig = Rig::new();
    let large = request("POST /nothing", "", &"x".repeat(70_000));
    let client = sent_ahead(&rig, &large, &text_frame(r#"{"ping":{}}"#));
    assert!(!rig.is_read(client));
    rig.settle();
    let text = String::from_utf8_lossy(&rig.take(client)).into_owned();
    for part in ["HTTP/1.1 200 ", "HTTP/1.1 404 ", "HTTP/1.1 101 ", "pong"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(rig.is_read(client), "nobody listens to the socket");
}

#[test]
fn a_socket_whose_client_ended_before_it_opened_is_over() {
    let rig = Rig::new();
    let client = sent_ahead(&rig, b"", &text_frame(r#"{"ping":{}}"#));
    rig.eof(client);
    assert!(rig.take(client).windows(4).any(|bytes| bytes == b"pong"));
    assert!(rig.is_closed(client));
    assert_eq!((rig.stat("sessions"), rig.stat("input_bytes_waiting")), (0, 0));
}

#[test]
fn who_ends_one_request_and_begins_the_next_is_not_slow() {
    let rig = Rig::new();
    let client = rig.open(0);
    let one = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    rig.bytes(client, &one[..3]);
    for _ in 0..30 {
        rig.advance(1_000);
        rig.bytes(client, &[&one[3..], &one[..3]].concat());
    }
    assert_eq!(rig.stat("http_closed_slow"), 0);
    assert_eq!(rig.text(client).matches("HTTP/1.1 200 ").count(), 30);
}

#[test]
fn a_message_that_drips_is_ended() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let frame = text_frame(r#"{"cid":"1","ping":{}}"#);
    // A frame byte by byte; a message in fragments that never ends, with whole frames between.
    let fragment = [0x01, 0x80, 0, 0, 0, 0];
    let more = [0x00, 0x80, 0, 0, 0, 0, 0x89, 0x80, 0, 0, 0, 0];
    let drips: [Vec<&[u8]>; 2] =
        [frame.chunks(1).take(10).collect(), [&[&fragment[..]][..], &[&more[..]; 9][..]].concat()];
    for drip in drips {
        let socket = rig.socket(0, &token, "");
        rig.bytes(socket, drip[0]);
        for piece in &drip[1..] {
            rig.advance(1_000);
            rig.bytes(socket, piece);
        }
        assert!(!rig.frames(socket).iter().any(|frame| frame.starts_with("close")));
        rig.advance(1_100);
        let frames = rig.frames(socket);
        assert!(frames.iter().any(|f| f.contains("socket.read_timeout_ms")), "{frames:?}");
    }
    assert_eq!(rig.stat("socket_ws_closed_slow"), 2);
    // Whoever ends one message and begins the next is not slow.
    let socket = rig.socket(0, &token, "");
    rig.bytes(socket, &frame[..3]);
    for _ in 0..30 {
        rig.advance(1_000);
        rig.bytes(socket, &[&frame[3..], &frame[..3]].concat());
    }
    assert_eq!(rig.stat("sessions"), 1);
}
