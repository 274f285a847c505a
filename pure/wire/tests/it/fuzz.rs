//! Seeded fuzzing of every decoder. Each round makes an input (valid pieces, mutated), and checks
//! that whole and split input read alike, that what was read survives being written, and that
//! nothing panics. Shared by the smoke test and by `examples/fuzz.rs`; the same seed gives the same
//! rounds.

use event::Random;
use wire::datagram::{self, Acks, Head, KEY_BYTES, Kind, MatchData};
use wire::nakama::{Envelope, Timestamp, api};
use wire::{date, grpc, http1, http2, query, websocket};

/// One thing to fuzz: an input from randomness, and what must hold for it.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    make: fn(&mut Random) -> Vec<u8>,
    check: fn(&[u8], &mut Random) -> Result<(), String>,
}

/// All real targets.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "http requests", make: make_requests, check: check_requests },
    Target { name: "http responses", make: make_responses, check: check_responses },
    Target { name: "http2", make: make_http2, check: check_http2 },
    Target { name: "websocket", make: make_frames, check: check_frames },
    Target { name: "websocket messages", make: make_bytes, check: check_message_round_trip },
    Target { name: "envelope in json", make: make_json, check: check_json },
    Target { name: "envelope in protobuf", make: make_protobuf, check: check_protobuf },
    Target { name: "query", make: make_query, check: check_query },
    Target { name: "datagrams", make: make_datagram, check: check_datagram },
    Target { name: "messages of datagrams", make: make_datagram_body, check: check_datagram_body },
    Target { name: "timestamp", make: make_timestamp, check: check_timestamp },
];

/// Must fail: its decoder loses the carriage return at the end of a piece.
pub(crate) const CANARY: Target =
    Target { name: "canary", make: make_requests, check: check_canary };

/// Runs `rounds` rounds from `seed`. The error names the round and shows the input.
pub(crate) fn run(target: &Target, seed: u64, rounds: u32) -> Result<(), String> {
    for round in 0..rounds {
        let mut random = Random::from_number(seed << 32 | u64::from(round));
        let input = (target.make)(&mut random);
        (target.check)(&input, &mut random).map_err(|failure| {
            format!("seed {seed} round {round}: {failure}\ninput: {}", input.escape_ascii())
        })?;
    }
    Ok(())
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    let index = random.below(u32::try_from(from.len()).unwrap_or(0));
    from[index as usize]
}

/// A size that is often small and often just around a boundary.
fn size(random: &mut Random) -> usize {
    const AROUND: [usize; 8] = [0, 4, 8, 32, 125, 126, 256, 4_096];
    match random.below(3) {
        0 => random.below(20) as usize,
        1 => (AROUND[random.below(8) as usize] + random.below(3) as usize).saturating_sub(1),
        _ => random.below(400) as usize,
    }
}

fn make_bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; size(random)];
    random.fill(&mut bytes);
    bytes
}

/// Usually leaves the input alone; else flips, drops, doubles, cuts or inserts something.
fn mutate(mut input: Vec<u8>, random: &mut Random) -> Vec<u8> {
    const SPICE: &[&str] = &[
        "\r",
        "\n",
        "\r\n",
        "\0",
        " ",
        "\t",
        ":",
        ",",
        ";",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "-",
        "+",
        "0x",
        "%",
        "%2",
        "é",
        "\u{10ffff}",
        "chunked",
        "null",
        "1e9",
        "9223372036854775808",
    ];
    for _ in 0..random.below(4) {
        let len = u32::try_from(input.len()).unwrap_or(u32::MAX);
        let at = random.below(len) as usize;
        match random.below(6) {
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 if !input.is_empty() => drop(input.remove(at)),
            2 => input.truncate(at),
            3 => {
                let tail = input[at..].to_vec();
                input.extend_from_slice(&tail);
            }
            4 => drop(input.splice(at..at, pick(random, SPICE).bytes())),
            _ => {}
        }
    }
    input
}

/// Cuts `input` into pieces at random points.
fn pieces<'a>(mut input: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while !input.is_empty() {
        let cut = size(random).clamp(1, input.len());
        let (piece, rest) = input.split_at(cut);
        pieces.push(piece);
        input = rest;
    }
    pieces
}

fn alike(whole: &str, split: &str) -> Result<(), String> {
    if whole == split { Ok(()) } else { Err(format!("whole reads\n{whole}split reads\n{split}")) }
}

// ---- HTTP ----

const LIMITS: http1::Limits =
    http1::Limits { head_bytes_max: 512, headers_max: 8, body_bytes_max: 300 };

fn make_headers_and_body(random: &mut Random, out: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let name = pick(random, &["X", "Accept", "Connection", "Expect", "Upgrade", "Host"]);
        let value = pick(random, &["", "a", "close", "keep-alive", "100-continue", "websocket"]);
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let body = make_bytes(random);
    match random.below(4) {
        0 => out.extend_from_slice(b"\r\n"),
        1 | 2 => {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            out.extend_from_slice(&body);
        }
        _ => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in pieces(&body, random) {
                let extension = pick(random, &["", "", ";a", ";a=\"b\""]);
                out.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
                out.extend_from_slice(chunk);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(pick(random, &["0\r\n\r\n", "0\r\nA: b\r\n\r\n"]).as_bytes());
        }
    }
}

fn make_requests(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(3) {
        let method = pick(random, &["GET", "POST", "PUT", "OPTIONS", "X"]);
        let target = pick(random, &["/", "/a?b=c", "*", "http://h/x", "/%20"]);
        let version = pick(random, &["1.1\r\nHost: h", "1.1\r\nHost: h", "1.0"]);
        out.extend_from_slice(format!("{method} {target} HTTP/{version}\r\n").as_bytes());
        make_headers_and_body(random, &mut out);
    }
    mutate(out, random)
}

fn read_requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut decoder = http1::Decoder::new();
    let mut text = String::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece, &LIMITS) {
                Ok(Some(request)) => text.extend([format!("{request:?}\n")]),
                Ok(None) => break,
                Err(error) => return text + &format!("{error}\n"),
            }
        }
    }
    text + &format!("idle {}\n", decoder.is_idle())
}

fn check_requests(input: &[u8], random: &mut Random) -> Result<(), String> {
    let whole = read_requests([input]);
    alike(&whole, &read_requests(pieces(input, random)))?;
    alike(&whole, &read_requests(input.chunks(1)))
}

fn check_canary(input: &[u8], random: &mut Random) -> Result<(), String> {
    let split = pieces(input, random);
    let lossy = split.into_iter().map(|piece| piece.strip_suffix(b"\r").unwrap_or(piece));
    alike(&read_requests([input]), &read_requests(lossy))
}

// ---- HTTP/2 and gRPC ----

const LIMITS_2: http2::Limits = http2::Limits {
    streams_max: 3,
    head_bytes_max: 300,
    body_bytes_max: 200,
    large_bytes_max: 400,
};

/// Fields of a request from the static table, and some of every representation.
const BLOCKS: &[&[u8]] = &[
    b"\x83\x86\x84",
    b"\x83\x86\x84\x40\x01a\x01b\xbe",
    b"\x20\x83\x86\x84\x00\x01c\x01d",
    b"\x3f\x2f\x83\x86\x44\x83\x63\x8f\xff\x10\x02te\x08trailers",
];

fn make_http2(random: &mut Random) -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let mut next = 1;
    for _ in 0..random.below(12) {
        let (kind, flags) = match random.below(8) {
            0..3 => (1, [0x4, 0x5, 0x0, 0x25][random.below(4) as usize]),
            3..6 => (0, [0, 1, 8, 9][random.below(4) as usize]),
            _ => (random.below(11), random.below(256)),
        };
        let stream = if kind == 1 || random.below(3) > 0 { next } else { random.below(8) };
        if kind != 1 && random.below(2) == 0 {
            next += 2;
        }
        let payload = match kind {
            1 | 9 => BLOCKS[random.below(4) as usize].to_vec(),
            4 => vec![0, 4, 0, 0, 0, u8::try_from(random.below(256)).unwrap_or(0)],
            6 | 7 => vec![0; 8],
            3 | 8 => vec![0, 0, 0, u8::try_from(random.below(9)).unwrap_or(0)],
            _ => make_bytes(random),
        };
        let len = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
        out.extend_from_slice(&len[1..]);
        out.extend([kind, flags].map(|byte| u8::try_from(byte).unwrap_or(0)));
        out.extend_from_slice(&u32::to_be_bytes(stream));
        out.extend_from_slice(&payload);
    }
    mutate(out, random)
}

/// Reads all, answers every request at once; what was read, written and refused.
fn read_http2<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut connection = http2::Connection::new(LIMITS_2, 0);
    let (mut text, mut written) = (String::new(), Vec::new());
    for mut piece in pieces {
        loop {
            match connection.next(0, &mut piece) {
                Ok(Some(request)) => {
                    let message = grpc::message(&request.body, None, 100);
                    text.extend([format!("{request:?} {message:?}\n")]);
                    let head = &[(":status", &b"200"[..])];
                    let body = vec![b'y'; 100].into();
                    let answer = http2::Answer { head, body, trailers: head };
                    connection.answer(0, request.stream, &answer);
                    while connection.write(0, &mut written, 50) {}
                }
                Ok(None) => break,
                Err(error) => {
                    connection.fail(error);
                    connection.write(0, &mut written, 50);
                    return text + &format!("{error} {}\n", written.escape_ascii());
                }
            }
        }
    }
    while connection.write(0, &mut written, 50) {}
    text + &format!("idle {} {}\n", connection.is_idle(), written.escape_ascii())
}

fn check_http2(input: &[u8], random: &mut Random) -> Result<(), String> {
    let whole = read_http2([input]);
    alike(&whole, &read_http2(pieces(input, random)))?;
    alike(&whole, &read_http2(input.chunks(1)))
}

fn make_responses(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(3) {
        let status = pick(random, &["200 OK", "204 No", "100 Go on", "404 ", "304 X", "500"]);
        out.extend_from_slice(format!("HTTP/1.1 {status}\r\n").as_bytes());
        make_headers_and_body(random, &mut out);
    }
    mutate(out, random)
}

fn read_responses<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut decoder = http1::ResponseDecoder::new();
    let mut text = String::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece, &LIMITS, false) {
                Ok(Some(response)) => text.extend([format!("{response:?}\n")]),
                Ok(None) => break,
                Err(error) => return text + &format!("{error}\n"),
            }
        }
    }
    text + &format!("{:?}\n", decoder.finish())
}

fn check_responses(input: &[u8], random: &mut Random) -> Result<(), String> {
    let whole = read_responses([input]);
    alike(&whole, &read_responses(pieces(input, random)))?;
    alike(&whole, &read_responses(input.chunks(1)))
}

// ---- WebSocket ----

const MESSAGE_BYTES_MAX: usize = 500;

fn make_frames(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(6) {
        let payload = match random.below(3) {
            0 => make_bytes(random),
            1 => "κόσμε 😀 ".repeat(random.below(30) as usize).into_bytes(),
            _ => [&[3, 232][..], &b"bye"[..]].concat(),
        };
        let start = out.len();
        let key = random.bytes();
        websocket::encode_masked(&mut out, websocket::Opcode::Text, &payload, key);
        // Any of the fragmented and whole, known and unknown opcodes; mostly sensible ones.
        const FIRST: [u8; 12] = [0x81, 0x82, 0x89, 0x8a, 0x88, 1, 2, 0, 0, 0x80, 0x80, 0x80];
        out[start] = FIRST[random.below(12) as usize];
    }
    mutate(out, random)
}

fn read_frames<'a>(role: websocket::Role, pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut decoder = websocket::Decoder::new(role, MESSAGE_BYTES_MAX);
    let mut scratch = Vec::new();
    let mut text = String::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece, &mut scratch) {
                Ok(Some(message)) => text.extend([format!("{message:?}\n")]),
                Ok(None) => break,
                Err(error) => return text + &format!("{error}\n"),
            }
        }
    }
    text + &format!("idle {} keeps {}\n", decoder.is_idle(), decoder.kept_bytes() > 0)
}

fn check_frames(input: &[u8], random: &mut Random) -> Result<(), String> {
    for role in [websocket::Role::Server, websocket::Role::Client] {
        let whole = read_frames(role, [input]);
        alike(&whole, &read_frames(role, pieces(input, random)))?;
        alike(&whole, &read_frames(role, input.chunks(1)))?;
    }
    Ok(())
}

/// Any bytes, sent masked and plain, in any fragments, arrive as they were.
fn check_message_round_trip(input: &[u8], random: &mut Random) -> Result<(), String> {
    let mut plain = Vec::new();
    websocket::encode(&mut plain, websocket::Opcode::Binary, input);
    let mut masked = Vec::new();
    let parts = pieces(input, random);
    for (index, part) in parts.iter().enumerate() {
        let start = masked.len();
        let key = random.bytes();
        websocket::encode_masked(&mut masked, websocket::Opcode::Binary, part, key);
        let opcode = if index == 0 { 2 } else { 0 };
        masked[start] = opcode | if index + 1 == parts.len() { 0x80 } else { 0 };
    }
    if parts.is_empty() {
        websocket::encode_masked(&mut masked, websocket::Opcode::Binary, &[], random.bytes());
    }
    for (role, bytes) in [(websocket::Role::Client, plain), (websocket::Role::Server, masked)] {
        let mut decoder = websocket::Decoder::new(role, 1 << 20);
        let mut scratch = Vec::new();
        match decoder.next(&mut &bytes[..], &mut scratch) {
            Ok(Some(websocket::Message::Binary(read))) if read == input => {}
            other => return Err(format!("{role:?}: {other:?}")),
        }
    }
    Ok(())
}

// ---- Nakama ----

fn make_text(random: &mut Random) -> String {
    let text = String::from_utf8_lossy(&make_bytes(random)).into_owned();
    serde_json::to_string(&text).unwrap_or_default()
}

fn make_value(random: &mut Random, depth: u32) -> String {
    match random.below(if depth == 0 { 7 } else { 10 }) {
        0 => "null".to_owned(),
        1 => pick(random, &["true", "false"]).to_owned(),
        2 => random.u64().cast_signed().to_string(),
        3 => format!("\"{}\"", random.below(1_000)),
        4 => pick(random, &["\"aGk=\"", "\"-_8\"", "1.0", "1e3", "-0.5", "\"NaN\"", "1e400"])
            .to_owned(),
        5 | 6 => make_text(random),
        7 => {
            let items: Vec<_> =
                (0..random.below(3)).map(|_| make_value(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => make_object(random, depth - 1),
    }
}

fn make_object(random: &mut Random, depth: u32) -> String {
    const NAMES: &[&str] = &[
        "match_id",
        "matchId",
        "op_code",
        "opCode",
        "data",
        "presences",
        "presence",
        "reliable",
        "user_id",
        "session_id",
        "username",
        "status",
        "id",
        "payload",
        "metadata",
        "self",
        "joins",
        "leaves",
        "numeric_properties",
        "min_count",
        "create_time",
        "code",
        "unknown",
    ];
    let fields: Vec<_> = (0..random.below(6))
        .map(|_| format!("\"{}\":{}", pick(random, NAMES), make_value(random, depth)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn make_json(random: &mut Random) -> Vec<u8> {
    if random.below(4) == 0 {
        let data = pick(random, &["", "aGk=", "aGk", "-_8=", "AAAA", "a"]);
        let code = pick(random, &["1", "\"1\"", "0", "-1", "\"999999999999999999\"", "1.0"]);
        let json = format!(
            "{{\"match_data_send\":{{\"match_id\":\"m.n\",\"op_code\":{code},\"data\":\"{data}\",\
             \"presences\":[],\"reliable\":true}}}}"
        );
        return mutate(json.into_bytes(), random);
    }
    let name = pick(random, wire::nakama::realtime::NAMES);
    let cid = pick(random, &["", "\"cid\":\"1\",", "\"cid\":null,"]);
    let object = make_object(random, 3);
    mutate(format!("{{{cid}\"{name}\":{object}}}").into_bytes(), random)
}

fn check_json(input: &[u8], _: &mut Random) -> Result<(), String> {
    let _ = api::decode::<api::Account>(input);
    let _ = api::decode_rpc(input);
    let read = Envelope::decode_json(input);
    // White space in front leads past the quick readers: both ways must agree.
    let general = Envelope::decode_json(&[b" ", input].concat());
    match (read, general) {
        (Ok(quick), Ok(general)) => {
            alike(&format!("{general:?}\n"), &format!("{quick:?}\n"))?;
            survives(&quick)
        }
        (Err(_), Err(_)) => Ok(()),
        (quick, general) => Err(format!("quick {quick:?}, general {general:?}")),
    }
}

/// What was read can be written and read again, in both encodings, to the same bytes. Bytes and
/// not values are compared, because NaN is not equal to itself.
fn survives(envelope: &Envelope) -> Result<(), String> {
    let (mut json, mut protobuf) = (Vec::new(), Vec::new());
    envelope.encode_json(&mut json);
    envelope.encode_protobuf(&mut protobuf);
    let from_json = Envelope::decode_json(&json).map_err(|error| format!("json: {error}"))?;
    let from_protobuf =
        Envelope::decode_protobuf(&protobuf).map_err(|error| format!("protobuf: {error}"))?;
    for again in [from_json, from_protobuf] {
        let (mut json_again, mut protobuf_again) = (Vec::new(), Vec::new());
        again.encode_json(&mut json_again);
        again.encode_protobuf(&mut protobuf_again);
        if json_again != json || protobuf_again != protobuf {
            return Err(format!("{envelope:?}\nbecame\n{again:?}"));
        }
    }
    Ok(())
}

fn make_protobuf(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(envelope) = Envelope::decode_json(&make_json(random)) {
        envelope.encode_protobuf(&mut out);
    } else {
        out = make_bytes(random);
    }
    mutate(out, random)
}

fn check_protobuf(input: &[u8], _: &mut Random) -> Result<(), String> {
    let Ok(envelope) = Envelope::decode_protobuf(input) else { return Ok(()) };
    // Protobuf can carry moments outside the calendar, which JSON clamps: written once, they stay.
    let mut json = Vec::new();
    envelope.encode_json(&mut json);
    let settled = Envelope::decode_json(&json).map_err(|error| format!("json: {error}"))?;
    survives(&settled)
}

// ---- the rest ----

fn make_query(random: &mut Random) -> Vec<u8> {
    let pairs: Vec<_> = (0..random.below(5))
        .map(|_| {
            let name = pick(random, &["ids", "create", "userIds", "limit", "", "%61"]);
            format!("{name}{}", pick(random, &["", "=", "=1", "=true", "=%20+", "=a=b", "=%C3%A9"]))
        })
        .collect();
    mutate(pairs.join("&").into_bytes(), random)
}

fn check_query(input: &[u8], _: &mut Random) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let Ok(query) = query::QueryString::parse(&text) else { return Ok(()) };
    let _ = (query.bool("create"), query.int32("limit"), query.text("user_ids"));
    let encode =
        |text: &str| -> Vec<String> { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
    let pairs: Vec<_> = query.iter().collect();
    let written: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name).concat(), encode(value).concat()))
        .collect();
    let written = written.join("&");
    let again = query::QueryString::parse(&written).map_err(|error| error.to_string())?;
    if again.iter().collect::<Vec<_>>() == pairs { Ok(()) } else { Err(written.clone()) }
}

fn make_timestamp(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let span = date::RFC3339_S_MAX.abs_diff(date::RFC3339_S_MIN);
    let seconds = date::RFC3339_S_MIN + (random.u64() % (span + 1)).cast_signed();
    date::write_rfc3339(&mut out, seconds, random.below(1_000_000_000));
    mutate(out, random)
}

fn check_timestamp(input: &[u8], _: &mut Random) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let Some((seconds, nanos)) = date::parse_rfc3339(&text) else { return Ok(()) };
    let moment = Timestamp { seconds, nanos: i32::try_from(nanos).map_err(|it| it.to_string())? };
    let written = moment.to_string();
    let again = date::parse_rfc3339(&written);
    if again == Some((seconds, nanos)) { Ok(()) } else { Err(format!("{written} {again:?}")) }
}

fn datagram_key() -> datagram::Key {
    datagram::Key::new(&[5; KEY_BYTES])
}

fn make_datagram(random: &mut Random) -> Vec<u8> {
    let mut body = make_bytes(random);
    body.truncate(datagram::BODY_BYTES_MAX);
    let kinds = [Kind::Probe, Kind::Proof, Kind::ClientData, Kind::Alive, Kind::ServerData];
    let head = Head {
        kind: kinds[random.below(5) as usize],
        id: random.u64(),
        sequence: random.below(u32::MAX) + 1,
        acks: Acks { newest: random.below(9), bits: random.below(9) },
    };
    let mut bytes = Vec::new();
    datagram_key().seal(&head, &body, &mut bytes);
    mutate(bytes, random)
}

/// What is read is what was written: whatever else has the tag cannot be.
fn check_datagram(input: &[u8], _: &mut Random) -> Result<(), String> {
    let Ok((head, body)) = datagram_key().open(input) else { return Ok(()) };
    if datagram::peek(input) != Ok(head) {
        return Err("a look and the reading differ".to_owned());
    }
    let mut again = Vec::new();
    datagram_key().seal(&head, body, &mut again);
    if again == input { Ok(()) } else { Err(format!("written again: {}", again.escape_ascii())) }
}

fn make_datagram_body(random: &mut Random) -> Vec<u8> {
    let (name, data) = ("a".repeat(size(random).min(255)), make_bytes(random));
    let sender = datagram::Sender { user_id: [1; 16], session_id: [2; 16], username: &name };
    let message = MatchData {
        match_uuid: random.bytes(),
        is_authoritative: random.below(2) == 0,
        op_code: i32::from_le_bytes(random.bytes()),
        sender: (random.below(2) == 0).then_some(sender),
        data: &data,
    };
    let mut body = Vec::new();
    let _ = message.encode(&mut body);
    mutate(body, random)
}

fn check_datagram_body(input: &[u8], _: &mut Random) -> Result<(), String> {
    let Ok(message) = MatchData::decode(input) else { return Ok(()) };
    let mut again = Vec::new();
    let fits = message.encode(&mut again);
    if fits != (input.len() <= datagram::BODY_BYTES_MAX) || fits && again != input {
        return Err(format!("written again: {fits} {}", again.escape_ascii()));
    }
    Ok(())
}
