//! HTTP connections: order, half-close, HEAD, and who runs hooks.

use crate::rig::{Plan, Rig, request, server_key};

#[test]
fn pipelined_requests_are_answered_in_order_at_every_split() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let bearer = format!("Bearer {token}");
    let mut bytes = request("GET /v2/account", &bearer, "");
    bytes.extend(request("GET /healthcheck", "", ""));
    bytes.extend(request("GET /v2/nothing", "", ""));
    let statuses = |text: &str| -> Vec<String> {
        text.match_indices("HTTP/1.1 ").map(|(at, _)| text[at + 9..at + 12].to_owned()).collect()
    };
    for split in 0..=bytes.len() {
        let client = rig.open(0);
        rig.bytes_only(client, &bytes[..split]);
        rig.bytes_only(client, &bytes[split..]);
        rig.settle();
        assert_eq!(statuses(&rig.text(client)), ["200", "200", "404"], "split at {split}");
    }
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

#[test]
fn an_answer_to_head_has_no_body() {
    let rig = Rig::new();
    for target in ["/healthcheck", "/", "/v2/account", "/v2/nothing", "/v2/rpc/none", "/ws"] {
        let client = rig.open(0);
        let answer = rig.http(client, &format!("HEAD {target}"), "", "");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "", "{target}: {answer}");
    }
}

/// What Python's `gzip` makes of `{"id":"0123456789"}`.
const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\x4c\x51\xb2\x52\x32\
    \x30\x34\x32\x36\x31\x35\x33\xb7\xb0\x54\xaa\x05\x00\xe5\xc3\xaa\x0e\x13\x00\x00\x00";

#[test]
fn compressed_bodies_are_read_and_other_codings_refused() {
    let rig = Rig::new();
    let say = |coding: &str| {
        let client = rig.open(0);
        let key = server_key();
        let mut bytes = format!(
            "POST /v2/account/authenticate/device HTTP/1.1\r\nHost: a\r\nAuthorization: {key}\r\n\
             Content-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            GZIP.len()
        )
        .into_bytes();
        bytes.extend_from_slice(GZIP);
        rig.bytes(client, &bytes);
        rig.settle();
        let answer = rig.text(client);
        (answer.get(9..12).unwrap_or_default().to_owned(), rig.is_closed(client), answer)
    };
    let (status, closed, answer) = say("gzip");
    assert!((&*status, closed) == ("200", false) && answer.contains("token"), "{answer}");
    for (coding, expected) in [("br", "415"), ("deflate", "400")] {
        let (status, closed, answer) = say(coding);
        assert_eq!((&*status, closed), (expected, true), "{answer}");
    }
    assert_eq!(rig.stat("refused_requests"), 2);
}

#[test]
fn who_half_closes_is_answered_and_then_closed() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let whole = request("GET /v2/account", &format!("Bearer {token}"), "");
    // Behind it: nothing, another request, a part of one.
    for (behind, answers) in [("", 1), ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 2), ("GET / HT", 1)] {
        let client = rig.open(0);
        rig.bytes_only(client, &whole);
        rig.bytes_only(client, behind.as_bytes());
        rig.eof(client);
        assert_eq!(rig.text(client).matches("HTTP/1.1 200 ").count(), answers, "{behind}");
        assert!(rig.is_closed(client), "{behind}");
    }
}

#[test]
fn a_slow_request_is_told_and_an_idle_connection_is_closed() {
    let rig = Rig::new();
    let (slow, idle) = (rig.open(0), rig.open(0));
    rig.bytes(slow, b"GET / HTTP/1.1\r\n");
    rig.advance(10_100);
    assert!(rig.text(slow).starts_with("HTTP/1.1 408 ") && rig.is_closed(slow));
    assert!(!rig.is_closed(idle));
    rig.advance(60_000);
    assert!(rig.text(idle).is_empty() && rig.is_closed(idle));
}

#[test]
fn hooks_never_run_on_the_batcher() {
    let hooks = "local nk = require('nakama')
        nk.register_req_before(function(context, payload) return payload end, 'GetAccount')
        nk.register_req_after(function(context, out, payload) end, 'AuthenticateDevice')";
    let rig = Rig::with(&Plan { modules: &[("hooks.lua", hooks)], ..Plan::default() });
    let (_, token) = rig.login("ada");
    let client = rig.open(0);
    let answer = rig.http(client, "GET /v2/account", &format!("Bearer {token}"), "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let counts = |index: usize| {
        let stats = &rig.worker_stats[index];
        (stats.overall_before_count.read(), stats.overall_after_count.read())
    };
    assert_eq!((counts(0), counts(1)), ((0, 0), (1, 1)), "batcher, caller");
}

#[test]
fn wrong_credentials_and_preflights() {
    let rig = Rig::new();
    let client = rig.open(0);
    let answer = rig.http(client, "GET /v2/account", "Bearer nonsense", "");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let answer = rig.http(client, "GET /v2/account", &server_key(), "");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    rig.bytes(client, b"OPTIONS /v2/account HTTP/1.1\r\nHost: a\r\nOrigin: b\r\n\r\n");
    let answer = rig.text(client);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("Allow-Origin: *"), "{answer}");
    assert!(!rig.is_closed(client));
}

#[test]
fn clients_of_other_protocols_are_told_what_is_spoken_here() {
    let rig = Rig::new();
    let (grpc, tls) = (rig.open(0), rig.open(0));
    rig.bytes(grpc, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    // SETTINGS, then GOAWAY with the code HTTP_1_1_REQUIRED and a text that gRPC clients show.
    let answer = rig.take(grpc);
    assert_eq!(answer.get(..9), Some(&b"\0\0\0\x04\0\0\0\0\0"[..]), "{answer:?}");
    assert_eq!(answer.get(12), Some(&7), "{answer:?}");
    assert_eq!(answer.get(22..26), Some(&[0, 0, 0, 0xd][..]), "{answer:?}");
    assert!(answer.ends_with(b"gRPC is spoken on port 7349, and HTTP/1.1 here"), "{answer:?}");
    assert!(rig.is_closed(grpc));
    rig.bytes(tls, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03");
    let answer = rig.text(tls);
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("TLS is not spoken"),
        "{answer}"
    );
    assert!(rig.is_closed(tls));
    assert_eq!(rig.stat("refused_requests"), 2);
}
