//! A made-up client that writes frames by hand against [`Connection`].

use bytes::Bytes;

use super::*;
use frame::*;

const LIMITS: Limits =
    Limits { streams_max: 4, head_bytes_max: 400, body_bytes_max: 1_000, large_bytes_max: 2_500 };

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    head(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block of literals that nobody keeps.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::write(&mut bytes, name, value.as_bytes()));
    bytes
}

const POST: &[(&str, &str)] = &[(":method", "POST"), (":scheme", "http"), (":path", "/a")];

fn headers(stream: u32, ends: bool) -> Vec<u8> {
    let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
    frame(HEADERS, flags, stream, &block(POST))
}

fn data(stream: u32, ends: bool, bytes: usize) -> Vec<u8> {
    frame(DATA, if ends { END_STREAM } else { 0 }, stream, &vec![b'x'; bytes])
}

fn number(kind: u8, stream: u32, number: u32) -> Vec<u8> {
    frame(kind, 0, stream, &number.to_be_bytes())
}

fn setting(name: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// A connection behind its preface and first SETTINGS, which has written its own.
struct Peer {
    connection: Connection,
    now_ms: u64,
}

impl Peer {
    fn new() -> Self {
        let mut peer = Self { connection: Connection::new(LIMITS, 0), now_ms: 0 };
        assert_eq!(peer.take(), "", "nothing before the preface");
        assert_eq!(peer.send(&[PREFACE, &frame(SETTINGS, 0, 0, b"")[..]].concat()), []);
        assert_eq!(peer.take(), "SETTINGS 0, WINDOW_UPDATE 0 35269, SETTINGS 0 ack");
        peer
    }

    /// Sends bytes; gives the requests that came of them: stream, bytes of the body, trouble.
    fn send(&mut self, bytes: &[u8]) -> Vec<(u32, usize, Option<Trouble>)> {
        self.try_send(bytes).unwrap()
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<Vec<(u32, usize, Option<Trouble>)>, Error> {
        let (mut input, mut found) = (bytes, Vec::new());
        while let Some(request) = self.connection.next(self.now_ms, &mut input)? {
            found.push((request.stream, request.body.len(), request.trouble));
        }
        assert!(input.is_empty());
        Ok(found)
    }

    fn answer(&mut self, stream: u32, bytes: usize) -> bool {
        let answer = Answer {
            head: &[(":status", b"200")],
            body: Bytes::from(vec![b'y'; bytes]),
            trailers: &[("grpc-status", b"0")],
        };
        self.connection.answer(self.now_ms, stream, &answer)
    }

    /// The frames that are written now, in words.
    fn take(&mut self) -> String {
        let mut bytes = Vec::new();
        while self.connection.write(self.now_ms, &mut bytes, 20_000) {}
        words(&bytes)
    }
}

fn words(mut bytes: &[u8]) -> String {
    let mut words = Vec::new();
    while let Some(len) = frame::len(bytes).unwrap() {
        let (one, rest) = bytes.split_at(len);
        let frame = frame::read(one).unwrap();
        bytes = rest;
        let value = frame::number(frame.payload).unwrap_or(0);
        let text = match frame.kind {
            DATA => format!("DATA {} {}", frame.stream, frame.payload.len()),
            HEADERS => format!("HEADERS {}", frame.stream),
            RST_STREAM => format!("RST_STREAM {} {value}", frame.stream),
            SETTINGS if frame.has(ACK) => "SETTINGS 0 ack".to_owned(),
            SETTINGS => "SETTINGS 0".to_owned(),
            PING => "PING".to_owned(),
            GOAWAY => format!("GOAWAY {value} {}", frame::number(&frame.payload[4..]).unwrap()),
            WINDOW_UPDATE => format!("WINDOW_UPDATE {} {value}", frame.stream),
            CONTINUATION => format!("CONTINUATION {}", frame.stream),
            other => format!("type {other}"),
        };
        let can_end = matches!(frame.kind, DATA | HEADERS);
        words.push(if can_end && frame.has(END_STREAM) { format!("{text} end") } else { text });
    }
    assert!(bytes.is_empty());
    words.join(", ")
}

#[test]
fn a_refusal_is_settings_and_goaway() {
    let wanted = b"\0\0\0\x04\0\0\0\0\0\0\0\x0a\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0dno";
    assert_eq!(refusal("no"), wanted);
    assert_eq!(refusal(&"x".repeat(5_000)).len(), 26 + 1_024);
    assert_eq!(words(&too_many("no")), "SETTINGS 0, GOAWAY 0 11");
}

#[test]
fn requests_are_answered_on_their_streams() {
    let mut peer = Peer::new();
    let both = [headers(1, false), data(1, false, 3), headers(3, true), data(1, true, 4)].concat();
    assert_eq!(peer.send(&both), [(3, 0, None), (1, 7, None)]);
    assert!(peer.answer(1, 10));
    assert_eq!(peer.take(), "HEADERS 1, DATA 1 10, HEADERS 1 end");
    assert!(!peer.answer(1, 10), "it is answered");
    let answer =
        Answer { head: &[(":status", b"200"), ("grpc-status", b"5")], ..Answer::default() };
    assert!(peer.connection.answer(0, 3, &answer));
    assert_eq!(peer.take(), "HEADERS 3 end");
    assert!(peer.connection.is_idle() && !peer.connection.is_over());
    let mut input = &frame(HEADERS, END_HEADERS | END_STREAM, 5, &block(POST))[..];
    let request = peer.connection.next(0, &mut input).unwrap().unwrap();
    assert_eq!(request.fields.get(":path"), Some(&b"/a"[..]));
    assert_eq!((request.fields.len(), request.fields.get("none")), (3, None));
}

#[test]
fn pieces_read_like_the_whole() {
    let all = [
        &PREFACE[..],
        &frame(SETTINGS, 0, 0, b""),
        &frame(HEADERS, 0, 1, &block(POST)[..5]),
        &frame(CONTINUATION, END_HEADERS, 1, &block(POST)[5..]),
        &frame(DATA, PADDED, 1, b"\x02abc\0\0"),
        &frame(PING, 0, 0, b"12345678"),
        &frame(77, 0xff, 9, b"unknown"),
        &data(1, true, 2),
    ]
    .concat();
    for size in 1..all.len() {
        let mut connection = Connection::new(LIMITS, 0);
        let mut found = Vec::new();
        for piece in all.chunks(size) {
            let mut input = piece;
            while let Some(request) = connection.next(0, &mut input).unwrap() {
                found.push((request.stream, request.body));
            }
        }
        assert_eq!(found, [(1, b"abcxx".to_vec())], "{size}");
        let mut bytes = Vec::new();
        connection.write(0, &mut bytes, 1);
        assert_eq!(
            words(&bytes),
            "SETTINGS 0, WINDOW_UPDATE 0 35269, SETTINGS 0 ack, WINDOW_UPDATE 1 3, PING"
        );
    }
}

#[test]
fn answers_keep_to_the_windows_and_take_turns() {
    let mut peer = Peer::new();
    peer.send(&setting(4, 10));
    peer.send(&[headers(1, true), headers(3, true)].concat());
    assert!(peer.answer(1, 15) && peer.answer(3, 5));
    assert_eq!(
        peer.take(),
        "SETTINGS 0 ack, HEADERS 1, DATA 1 10, HEADERS 3, DATA 3 5, HEADERS 3 end"
    );
    assert_eq!(peer.connection.unwritten_bytes(), 5);
    peer.send(&number(WINDOW_UPDATE, 1, 2));
    assert_eq!(peer.take(), "DATA 1 2");
    peer.send(&setting(4, 100));
    assert_eq!(peer.take(), "SETTINGS 0 ack, DATA 1 3, HEADERS 1 end");
    // The connection's window is one for all streams.
    peer.send(&[setting(4, 1 << 20), headers(5, true), headers(7, true)].concat());
    assert!(peer.answer(5, 60_000) && peer.answer(7, 60_000));
    let text = peer.take();
    let (fives, sevens) = (text.matches("DATA 5").count(), text.matches("DATA 7").count());
    assert!(fives >= 2 && sevens >= 2, "{text}");
    assert_eq!(peer.connection.unwritten_bytes(), 120_000 - (65_535 - 20));
    peer.send(&number(WINDOW_UPDATE, 0, 1 << 20));
    assert!(peer.take().ends_with("end") && peer.connection.is_idle());
}

#[test]
fn little_is_written_at_one_time() {
    let mut peer = Peer::new();
    peer.send(&[setting(4, 1 << 20), number(WINDOW_UPDATE, 0, 1 << 20), headers(1, true)].concat());
    peer.answer(1, 200_000);
    let mut bytes = Vec::new();
    assert!(peer.connection.write(0, &mut bytes, 50_000));
    assert!((50_000..70_000).contains(&bytes.len()), "{}", bytes.len());
}

#[test]
fn what_is_taken_back_keeps_its_place_until_it_is_done() {
    let mut peer = Peer::new();
    let calls: Vec<u8> = [1, 3, 5, 7].iter().flat_map(|id| headers(*id, true)).collect();
    assert_eq!(peer.send(&calls).len(), 4);
    peer.send(&number(RST_STREAM, 3, 8));
    assert_eq!(peer.send(&headers(9, true)), []);
    assert_eq!(peer.take(), "RST_STREAM 9 7");
    assert!(!peer.answer(3, 1), "nobody waits for it");
    assert_eq!(peer.send(&headers(11, true)), [(11, 0, None)]);
    let counts = Counts { refused: 1, cancelled: 1, malformed: 0 };
    assert_eq!(peer.connection.take_counts(), counts);
    assert_eq!(peer.connection.take_counts(), Counts::default());
}

#[test]
fn requests_beyond_the_limits_are_in_trouble() {
    let mut peer = Peer::new();
    let large = peer.send(&[headers(1, false), data(1, false, 600), data(1, false, 401)].concat());
    assert_eq!(large, [(1, 0, Some(Trouble::BodyTooLarge))]);
    assert!(peer.answer(1, 0));
    assert_eq!(peer.take(), "HEADERS 1, HEADERS 1 end, RST_STREAM 1 0");
    // What was on its way is passed over.
    assert_eq!(peer.send(&[data(1, false, 100), data(1, true, 100)].concat()), []);
    assert_eq!(peer.take(), "");
    let long = "x".repeat(300);
    let head = block(&[POST, &[("a", &*long)]].concat());
    let head = frame(HEADERS, END_HEADERS | END_STREAM, 3, &head);
    assert_eq!(peer.send(&head), [(3, 0, Some(Trouble::HeadTooLarge))]);
    peer.answer(3, 0);
}

/// Beyond a small body there is room for so many at one time, and the others wait for their turn.
#[test]
fn large_bodies_take_turns() {
    let limits = Limits { body_bytes_max: 100_000, large_bytes_max: 250_000, ..LIMITS };
    let mut peer = Peer { connection: Connection::new(limits, 0), now_ms: 0 };
    peer.send(&[PREFACE, &frame(SETTINGS, 0, 0, b"")[..]].concat());
    peer.take();
    for id in [1, 3, 5, 7] {
        peer.send(&[headers(id, false), data(id, false, 16_384)].concat());
    }
    assert_eq!(peer.take(), "WINDOW_UPDATE 1 83617, WINDOW_UPDATE 3 83617");
    let rest: Vec<u8> = (0..5).flat_map(|_| data(1, false, 16_384)).collect();
    assert_eq!(peer.send(&rest), []);
    assert_eq!(peer.send(&data(1, true, 1_000)), [(1, 99_304, None)]);
    assert_eq!(peer.take(), "WINDOW_UPDATE 0 99304, WINDOW_UPDATE 5 83617");
    peer.send(&number(RST_STREAM, 3, 8));
    assert_eq!(peer.take(), "WINDOW_UPDATE 0 16384, WINDOW_UPDATE 7 83617");
    assert_eq!(peer.send(&data(5, true, 0)).len() + peer.send(&data(7, true, 0)).len(), 2);
    assert_eq!(peer.connection.large, 0);
    // Who sends more than that breaks the rules.
    let begun = [headers(9, false), data(9, false, 16_384)].concat();
    peer.answer(1, 0);
    peer.take();
    peer.send(&begun);
    let more: Vec<u8> = (0..6).flat_map(|_| data(9, false, 16_384)).collect();
    assert_eq!(peer.send(&more), [(9, 0, Some(Trouble::BodyTooLarge))]);
}

#[test]
fn the_connections_window_is_given_back() {
    let mut peer = Peer::new();
    let mut updates = 0;
    for id in (1..2_001).step_by(2) {
        assert_eq!(peer.send(&[headers(id, false), data(id, true, 1_000)].concat()).len(), 1);
        assert!(peer.answer(id, 1));
        updates += peer.take().matches("WINDOW_UPDATE 0").count();
    }
    assert!(updates > 50 && peer.connection.receive_window > 100_804 - 16_384, "{updates}");
}

#[test]
fn malformed_requests_are_reset_alone() {
    let without =
        |name: &str| POST.iter().copied().filter(|(found, _)| *found != name).collect::<Vec<_>>();
    let and = |field: (&'static str, &'static str)| [POST, &[field]].concat();
    let mut peer = Peer::new();
    for (index, fields) in [
        without(":method"),
        without(":path"),
        without(":scheme"),
        and((":path", "/b")),
        and((":unknown", "x")),
        and(("Upper", "x")),
        and(("connection", "close")),
        and(("transfer-encoding", "chunked")),
        and(("te", "gzip")),
        and(("a", "x\r\ny: z")),
        and(("content-length", "5")),
        and(("content-length", "+0")),
        [&[("a", "b")][..], POST].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let id = u32::try_from(index).unwrap() * 2 + 1;
        let request = frame(HEADERS, END_HEADERS | END_STREAM, id, &block(&fields));
        assert_eq!(peer.send(&request), [], "{fields:?}");
        assert_eq!(peer.take(), format!("RST_STREAM {id} 1"), "{fields:?}");
    }
    assert_eq!(peer.connection.take_counts().malformed, 13);
    let good = [POST, &[("te", "trailers"), ("content-length", "0")]].concat();
    let good = frame(HEADERS, END_HEADERS | END_STREAM, 101, &block(&good));
    assert_eq!(peer.send(&good).len(), 1);
}

/// RFC 9113, sections 4 to 6, each rule with its number.
#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let ended = [headers(1, true), number(RST_STREAM, 1, 8)].concat();
    for (bytes, code) in [
        (frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
        (frame(DATA, 0, 1, b"x"), PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1, b"\x05ab"), PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1, b""), FRAME_SIZE_ERROR),
        (headers(0, true), PROTOCOL_ERROR),
        (headers(2, true), PROTOCOL_ERROR),
        ([headers(3, true), data(3, true, 1)].concat(), STREAM_CLOSED),
        ([headers(3, true), headers(3, true)].concat(), STREAM_CLOSED),
        ([headers(3, true), headers(1, true)].concat(), STREAM_CLOSED),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x80"), COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS | PRIORITY_FLAG, 1, b"123"), FRAME_SIZE_ERROR),
        (frame(PRIORITY, 0, 1, b"1234"), FRAME_SIZE_ERROR),
        (frame(PRIORITY, 0, 0, b"12345"), PROTOCOL_ERROR),
        (frame(RST_STREAM, 0, 1, b"123"), FRAME_SIZE_ERROR),
        (number(RST_STREAM, 0, 8), PROTOCOL_ERROR),
        (number(RST_STREAM, 9, 8), PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 1, b""), PROTOCOL_ERROR),
        (frame(SETTINGS, 0, 0, b"12345"), FRAME_SIZE_ERROR),
        (frame(SETTINGS, ACK, 0, b"123456"), FRAME_SIZE_ERROR),
        (setting(2, 2), PROTOCOL_ERROR),
        (setting(4, 1 << 31), FLOW_CONTROL_ERROR),
        (setting(5, 1), PROTOCOL_ERROR),
        (frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02"), PROTOCOL_ERROR),
        (frame(PING, 0, 0, b"1234567"), FRAME_SIZE_ERROR),
        (frame(PING, 0, 1, b"12345678"), PROTOCOL_ERROR),
        (frame(GOAWAY, 0, 0, b"1234567"), FRAME_SIZE_ERROR),
        (frame(GOAWAY, 0, 1, b"12345678"), PROTOCOL_ERROR),
        (number(WINDOW_UPDATE, 0, 0), PROTOCOL_ERROR),
        (number(WINDOW_UPDATE, 0, 0x7fff_ffff), FLOW_CONTROL_ERROR),
        (number(WINDOW_UPDATE, 9, 1), PROTOCOL_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, b"123"), FRAME_SIZE_ERROR),
        (frame(CONTINUATION, END_HEADERS, 1, b""), PROTOCOL_ERROR),
        ([frame(HEADERS, 0, 1, b""), data(1, true, 0)].concat(), PROTOCOL_ERROR),
        ([frame(HEADERS, 0, 1, b""), frame(CONTINUATION, 0, 3, b"")].concat(), PROTOCOL_ERROR),
        (vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1], FRAME_SIZE_ERROR),
        ([ended.clone(), headers(1, true)].concat(), STREAM_CLOSED),
    ] {
        let mut peer = Peer::new();
        let error = peer.try_send(&bytes).unwrap_err();
        assert_eq!(error.code(), code, "{} {error}", bytes.escape_ascii());
        peer.connection.fail(error);
        assert!(peer.take().contains("GOAWAY") && peer.connection.is_over());
        assert_eq!(peer.send(&headers(99, true)), [], "nothing is read any more");
    }
    let mut connection = Connection::new(LIMITS, 0);
    let first = [PREFACE, &headers(1, true)[..]].concat();
    assert!(matches!(connection.next(0, &mut &first[..]), Err(Error::Protocol(_))));
}

#[test]
fn what_is_wrong_with_a_stream_ends_the_stream() {
    let mut peer = Peer::new();
    peer.send(&headers(1, false));
    for (bytes, expected) in [
        (number(WINDOW_UPDATE, 1, 0), "RST_STREAM 1 1"),
        ([headers(3, false), number(WINDOW_UPDATE, 3, 0x7fff_ffff)].concat(), "RST_STREAM 3 3"),
        // Trailers that do not end it.
        ([headers(5, false), headers(5, false)].concat(), "RST_STREAM 5 1"),
    ] {
        assert_eq!(peer.send(&bytes), []);
        assert_eq!(peer.take(), expected);
    }
    assert_eq!(peer.send(&[headers(7, false), headers(7, true)].concat()), [(7, 0, None)]);
    peer.answer(7, 1);
    peer.take();
    // Frames behind the end are told once.
    peer.send(&[data(7, true, 5), data(7, true, 5)].concat());
    assert_eq!(peer.take(), "RST_STREAM 7 5");
}

/// Else its place would be free while its call runs on.
#[test]
fn who_makes_us_reset_a_call_at_work_loses_the_connection() {
    for more in [0, 0x7fff_ffff] {
        let mut peer = Peer::new();
        assert_eq!(peer.send(&headers(1, true)).len(), 1);
        let error = peer.try_send(&number(WINDOW_UPDATE, 1, more)).err().unwrap();
        assert!(matches!(error, Error::Protocol(_)), "{error:?}");
    }
}

#[test]
fn what_is_no_http2_is_told_apart() {
    for (bytes, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], Error::Preface),
        (b"PRI * HTTP/2.0\r\n\r\nXX", Error::Preface),
        (b"\x16\x03\x01", Error::Tls),
    ] {
        let mut connection = Connection::new(LIMITS, 0);
        let errors: Vec<Error> =
            bytes.chunks(2).filter_map(|piece| connection.next(0, &mut { piece }).err()).collect();
        assert_eq!(errors.first(), Some(&expected));
    }
}

/// What may be sent without asking anything: so much at once, and then so much a second.
#[test]
fn floods_end_the_connection() {
    let reset = |n: u32| [headers(2 * n + 1, true), number(RST_STREAM, 2 * n + 1, 8)].concat();
    let half = |n: u32| [headers(2 * n + 1, false), number(RST_STREAM, 2 * n + 1, 8)].concat();
    let malformed = |n: u32| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, b"\0\0\0");
    let entries = |n: u32| {
        let window = |entry: u32| [&[0, 4][..], &(n * 300 + entry).to_be_bytes()].concat();
        frame(SETTINGS, 0, 0, &(0..300).flat_map(window).collect::<Vec<_>>())
    };
    let behind = |n: u32| {
        let begin = [headers(1, false), number(WINDOW_UPDATE, 1, 0)].concat();
        [if n == 0 { begin } else { Vec::new() }, headers(1, true)].concat()
    };
    let crumbs = |n: u32| {
        let begin = if n == 0 { headers(1, false) } else { Vec::new() };
        [begin, data(1, false, 0)].concat()
    };
    let continued = |n: u32| {
        let begin = if n == 0 { frame(HEADERS, 0, 1, b"") } else { Vec::new() };
        [begin, frame(CONTINUATION, 0, 1, b"")].concat()
    };
    type Flood<'a> = (&'a str, &'a dyn Fn(u32) -> Vec<u8>, u32);
    let floods: &[Flood<'_>] = &[
        ("pings", &|_| frame(PING, 0, 0, b"12345678"), 1_000),
        ("settings", &|_| frame(SETTINGS, 0, 0, b""), 1_000),
        ("acknowledgements", &|_| frame(SETTINGS, ACK, 0, b""), 1_000),
        ("priorities", &|_| frame(PRIORITY, 0, 1, b"12345"), 1_000),
        ("windows", &|_| number(WINDOW_UPDATE, 0, 1), 1_000),
        ("unknown frames", &|_| frame(99, 0, 0, b""), 1_000),
        ("windows in settings", &entries, 4),
        ("resets of calls, and of streams that are refused", &reset, 510),
        ("resets of half requests", &half, 126),
        ("names of no length", &malformed, 126),
        ("streams behind a reset of ours", &behind, 126),
        ("crumbs", &crumbs, 1_000),
        ("continuations", &continued, 1_000),
    ];
    for (name, flood, most) in floods {
        let mut peer = Peer::new();
        let ended = (0..5_000).find_map(|n| peer.try_send(&flood(n)).err().map(|it| (n, it)));
        let (after, error) = ended.unwrap();
        assert!(after <= *most && after > most / 3, "{name} {after}");
        assert_eq!(error.code(), ENHANCE_YOUR_CALM, "{name}");
    }
    // Slowly enough they may go on for ever.
    let mut peer = Peer::new();
    for _ in 0..5_000 {
        peer.now_ms += 11;
        assert_eq!(peer.send(&frame(PING, 0, 0, b"12345678")), []);
    }
    // And between calls that are answered.
    let mut peer = Peer::new();
    for n in 0..3_000 {
        let id = 2 * n + 1;
        peer.send(&[headers(id, true), frame(PING, 0, 0, b"12345678")].concat());
        assert!(peer.answer(id, 1));
        peer.take();
    }
    let block = vec![0; 16_000];
    let long = [frame(HEADERS, 0, 1, &block), frame(CONTINUATION, 0, 1, &block)].concat();
    assert!(matches!(Peer::new().try_send(&long), Err(Error::Calm(_))));
}

/// What may happen to an honest client costs it little, what it knows to be wrong costs much.
#[test]
fn refused_streams_are_dear_to_who_knows_better() {
    let most = |peer: &mut Peer, from: u32| {
        let ended = (from..5_000).find(|n| peer.try_send(&headers(2 * n + 1, true)).is_err());
        ended.unwrap() - from
    };
    let full = |peer: &mut Peer| {
        for id in [1, 3, 5, 7] {
            peer.send(&headers(id, true));
        }
    };
    // It may not have read how many there may be.
    let mut peer = Peer::new();
    full(&mut peer);
    assert!((990..1_001).contains(&most(&mut peer, 4)));
    // It has.
    let mut peer = Peer::new();
    peer.send(&frame(SETTINGS, ACK, 0, b""));
    full(&mut peer);
    assert!((120..126).contains(&most(&mut peer, 4)));
    // It has, and has taken all of them back, which it cannot know to be at work still.
    let mut peer = Peer::new();
    peer.send(&frame(SETTINGS, ACK, 0, b""));
    full(&mut peer);
    for id in [1, 3, 5, 7] {
        peer.send(&number(RST_STREAM, id, 8));
    }
    assert!((990..1_001).contains(&most(&mut peer, 4)));
    // We are leaving; and GOAWAY tells of no stream that was refused.
    let mut peer = Peer::new();
    peer.send(&[frame(SETTINGS, ACK, 0, b""), headers(1, true)].concat());
    peer.connection.leave("enough");
    assert!((990..1_001).contains(&most(&mut peer, 1)));
    peer.connection.fail(Error::Calm("a flood"));
    assert!(peer.take().ends_with("GOAWAY 1 11"));
}

#[test]
fn what_is_taken_of_answers_is_counted() {
    let mut peer = Peer::new();
    peer.send(&[setting(4, 10), headers(1, true), headers(3, true)].concat());
    assert!(peer.answer(1, 100) && peer.answer(3, 100));
    peer.take();
    let bytes = |peer: &Peer| (peer.connection.taken_bytes(), peer.connection.unwritten_bytes());
    assert_eq!(bytes(&peer), (20, 180));
    peer.send(&number(RST_STREAM, 3, 8));
    assert_eq!(bytes(&peer), (110, 90), "it does not wait for what it took back");
    peer.now_ms += 1_000;
    assert_eq!(peer.connection.expire(peer.now_ms, 1_000, 1_000).answers, 1);
    assert_eq!(bytes(&peer), (110, 0), "what we throw away it did not take");
}

#[test]
fn what_takes_too_long_is_ended() {
    let late = |peer: &mut Peer| {
        peer.now_ms += 1_000;
        peer.connection.expire(peer.now_ms, 1_000, 1_000)
    };
    let mut peer = Peer::new();
    assert_eq!(late(&mut peer), Late::default(), "an idle connection is not late");
    peer.send(&[headers(1, false), headers(3, true)].concat());
    assert_eq!(late(&mut peer), Late { requests: 1, ..Late::default() });
    assert_eq!(peer.take(), "RST_STREAM 1 8");
    // What is worked on may take as long as it takes; an answer that is not taken may not.
    peer.send(&setting(4, 1));
    peer.answer(3, 10);
    peer.take();
    assert_eq!(late(&mut peer), Late { answers: 1, ..Late::default() });
    assert_eq!(peer.take(), "RST_STREAM 3 8");
    peer.send(&headers(5, true)[..12]);
    assert!(late(&mut peer).is_connection);
    let mut peer = Peer::new();
    peer.send(&frame(HEADERS, 0, 1, b""));
    assert!(late(&mut peer).is_connection);
    let mut connection = Connection::new(LIMITS, 0);
    assert!(connection.expire(1_000, 1_000, 1_000).is_connection, "not even a preface");
}

#[test]
fn who_leaves_finishes_first() {
    let mut peer = Peer::new();
    peer.send(&headers(1, true));
    peer.connection.leave("enough");
    peer.connection.leave("enough");
    assert_eq!(peer.take(), "GOAWAY 1 0");
    assert_eq!(peer.send(&headers(3, true)), []);
    assert_eq!(peer.take(), "RST_STREAM 3 7");
    assert!(!peer.connection.is_over());
    peer.answer(1, 1);
    assert!(!peer.connection.is_over());
    peer.take();
    assert!(peer.connection.is_over());
    // A client that leaves is answered, too.
    let mut peer = Peer::new();
    peer.send(&[headers(1, true), frame(GOAWAY, 0, 0, &[0; 8])].concat());
    assert!(peer.answer(1, 1) && peer.take().ends_with("end") && peer.connection.is_over());
}
