//! What the hot paths of the codec cost, in nanoseconds of one thread: the best of several runs,
//! for comparing two versions on one machine. Under `cargo test --benches` inputs are tiny.
//! Prints a sum over all results, so that no work can be optimised away.
//!
//! `-- <part of a name>` runs the measurements so called alone, and `-- <part of a name> <n>` does
//! the work n times and no more: where clocks are noisy, the instructions of 2,000 times less
//! those of 1,000, as `valgrind --tool=callgrind` counts them, tell the cost of one.

use std::hint::black_box;
use std::time::Duration;

use wire::http1;
use wire::nakama::{Envelope, Sender, encode_match_data_json, encode_match_data_protobuf};
use wire::websocket::{self, Decoder, Opcode, Role};

const REQUEST: &str = "GET /plaintext HTTP/1.1\r\nHost: localhost:8080\r\nAccept: text/plain,\
    text/html;q=0.9,application/xhtml+xml;q=0.9,application/xml;q=0.8,*/*;q=0.7\r\n\
    Connection: keep-alive\r\n\r\n";
const MATCH_ID: &str = "2b5e1cd8-35ee-4d7c-b5ae-d1a9c0a0f5ab.nakama";
const DATA: &[u8; 44] = b"forty-four bytes of some game's binary state";

/// Runs `work` in rounds of `count`, each doing `units` things; prints the best time of one.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(name: &str, units: u32, mut work: impl FnMut() -> usize) -> usize {
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let mut wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    if wanted.next().is_some_and(|part| !name.contains(&part)) {
        return 0;
    }
    let times = wanted.next().and_then(|times| times.parse().ok());
    let (rounds, count) = match times {
        Some(times) => (1, times),
        None if is_test => (1, 1),
        None => (30, 20_000 / units),
    };
    let mut best = Duration::MAX;
    let mut sum = 0_usize;
    for _ in 0..rounds {
        let start = std::time::Instant::now();
        for _ in 0..count {
            sum = sum.wrapping_add(work());
        }
        best = best.min(start.elapsed());
    }
    let ns = best.as_secs_f64() * 1e9 / f64::from(count * units);
    println!("{name:44} {ns:9.1} ns");
    sum
}

fn http() -> usize {
    let pipeline = REQUEST.repeat(16);
    let limits = http1::Limits::default();
    let mut decoder = http1::Decoder::new();
    let date = http1::date(784_111_777);
    let mut out = Vec::new();
    let head = http1::ResponseHead::new(200, "text/plain", http1::Connection::KeepAlive);
    measure("http request, one of 16", 16, || {
        let mut input = black_box(pipeline.as_bytes());
        let mut sum = 0;
        while let Ok(Some(request)) = decoder.next(&mut input, &limits) {
            sum += request.target.path.len();
        }
        sum
    }) + split_requests()
        + measure("http response", 1, || {
            out.clear();
            http1::respond(&mut out, black_box(&head), black_box(b"Hello, World!"), &date);
            out.len()
        })
}

/// A request with a body, as clients send it: whole, its head and its body apart, and cut within
/// its head.
fn split_requests() -> usize {
    let body = r#"{"id":"0123456789abcdef"}"#;
    let input = format!(
        "POST /v2/account/authenticate/device?create=true HTTP/1.1\r\nHost: localhost:7350\r\n\
         Authorization: Basic ZGVmYXVsdGtleTo=\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let limits = http1::Limits::default();
    let mut sum = 0;
    for (name, cut) in [
        ("http request with body, whole", 0),
        ("http request with body, head apart", input.len() - body.len()),
        ("http request with body, body cut", input.len() - 10),
        ("http request with body, head cut", 80),
    ] {
        let (first, second) = input.as_bytes().split_at(cut);
        let mut decoder = http1::Decoder::new();
        sum += measure(name, 1, || {
            for mut input in [black_box(first), black_box(second)] {
                while let Ok(Some(request)) = decoder.next(&mut input, &limits) {
                    sum += request.body.len();
                }
            }
            sum
        });
    }
    sum
}

fn frames() -> usize {
    let mut sum = 0;
    for len in [44, 4_096] {
        let mut input = Vec::new();
        websocket::encode_masked(&mut input, Opcode::Text, &vec![b'x'; len], [1, 2, 3, 4]);
        let mut decoder = Decoder::new(Role::Server, 4_096);
        let mut scratch = Vec::new();
        sum += measure(&format!("websocket text in, {len} bytes"), 1, || {
            let message = decoder.next(&mut black_box(&input[..]), &mut scratch);
            usize::from(matches!(message, Ok(Some(_))))
        });
        let mut out = Vec::new();
        let payload = vec![b'x'; len];
        sum += measure(&format!("websocket text out, {len} bytes"), 1, || {
            out.clear();
            websocket::encode(&mut out, Opcode::Text, black_box(&payload));
            out.len()
        });
    }
    sum
}

fn match_data() -> usize {
    let mut json = Vec::new();
    encode_match_data_json(&mut json, MATCH_ID, None, 2, DATA, true);
    let json = String::from_utf8_lossy(&json).replace("match_data", "match_data_send");
    let mut protobuf = Vec::new();
    if let Ok(envelope) = Envelope::decode_json(json.as_bytes()) {
        envelope.encode_protobuf(&mut protobuf);
    }
    let mut out = Vec::new();
    let id = &MATCH_ID[..36];
    let sender = Some(Sender { user_id: id, session_id: id, username: "username" });
    let mut sum = measure("match_data_send in json", 1, || {
        usize::from(Envelope::decode_json(black_box(json.as_bytes())).is_ok())
    });
    sum += measure("match_data_send in protobuf", 1, || {
        usize::from(Envelope::decode_protobuf(black_box(&protobuf)).is_ok())
    });
    sum += measure("match_data out, json", 1, || {
        out.clear();
        encode_match_data_json(&mut out, black_box(MATCH_ID), sender, 2, black_box(DATA), true);
        out.len()
    });
    sum += measure("match_data out, protobuf", 1, || {
        out.clear();
        encode_match_data_protobuf(&mut out, black_box(MATCH_ID), sender, 2, DATA, true);
        out.len()
    });
    let rpc =
        br#"{"cid":"12","rpc":{"id":"find_match","payload":"{\"mode\":\"ranked\",\"n\":4}"}}"#;
    sum += measure("rpc in json", 1, || {
        usize::from(Envelope::decode_json(black_box(&rpc[..])).is_ok())
    });
    sum + measure("ping in json", 1, || {
        usize::from(Envelope::decode_json(black_box(br#"{"ping":{},"cid":"17"}"#)).is_ok())
    })
}

fn main() {
    println!("sum {}", http() + frames() + match_data());
}
