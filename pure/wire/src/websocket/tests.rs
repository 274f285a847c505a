//! The cases of RFC 6455, in the classes of the Autobahn test suite (1 payloads, 2 pings and
//! pongs, 3 reserved bits, 4 opcodes, 5 fragmentation, 6 UTF-8, 7 closing, 9 sizes, 10 splits;
//! 12 and 13 are about compression, which is not offered). Every input is decoded whole, byte by
//! byte, and split in two at every point: all must read alike.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use std::fmt::Write as _;

use expect_test::expect;

use super::*;
use crate::http1;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
const FIN: u8 = 0x80;

/// A client's frame: first byte as given, shortest length, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_masked(&mut out, Opcode::Binary, payload, KEY);
    out[0] = first;
    out
}

fn frames(list: &[(u8, &[u8])]) -> Vec<u8> {
    list.iter().flat_map(|(first, payload)| frame(*first, payload)).collect()
}

fn shown(payload: &[u8]) -> String {
    match payload {
        payload if payload.len() > 200 => format!("{} bytes", payload.len()),
        payload => payload.escape_ascii().to_string(),
    }
}

fn decode_as(role: Role, parts: &[&[u8]], bytes_max: usize) -> String {
    let mut decoder = Decoder::new(role, bytes_max);
    let mut scratch = b"left over from another connection".to_vec();
    let mut text = String::new();
    for part in parts {
        let mut input = *part;
        loop {
            match decoder.next(&mut input, &mut scratch) {
                Ok(Some(Message::Text(it))) => {
                    writeln!(text, "text {}", shown(it.as_bytes())).unwrap();
                }
                Ok(Some(Message::Binary(it))) => writeln!(text, "binary {}", shown(it)).unwrap(),
                Ok(Some(Message::Ping(it))) => writeln!(text, "ping {}", shown(it)).unwrap(),
                Ok(Some(Message::Pong(it))) => writeln!(text, "pong {}", shown(it)).unwrap(),
                Ok(Some(Message::Close { code, reason })) => {
                    writeln!(text, "close {code:?} {}", shown(reason.as_bytes())).unwrap();
                }
                Ok(None) => break,
                Err(error) => {
                    let again = decoder.next(&mut &frame(FIN | 9, b"")[..], &mut scratch);
                    assert_eq!(again.unwrap_err(), error, "an error is final");
                    return text + &format!("{} {error}\n", error.close_code());
                }
            }
        }
        assert!(input.is_empty(), "what is unfinished is kept");
    }
    text + if decoder.is_idle() { "" } else { "…\n" }
}

fn decode_all_ways(input: &[u8], bytes_max: usize) -> String {
    let whole = decode_as(Role::Server, &[input], bytes_max);
    // Every split of a long input would take long: then the ends, where the headers are.
    let is_near_an_end = |at: &usize| *at < 160 || *at + 20 > input.len();
    for at in (0..=input.len()).filter(is_near_an_end) {
        let (first, second) = input.split_at(at);
        assert_eq!(decode_as(Role::Server, &[first, second], bytes_max), whole, "split at {at}");
    }
    for size in [1, 3, 1_448] {
        let parts: Vec<_> = input.chunks(size).collect();
        assert_eq!(decode_as(Role::Server, &parts, bytes_max), whole, "pieces of {size}");
    }
    whole
}

fn check(list: &[(u8, &[u8])], expected: &str) {
    check_raw(&frames(list), expected);
}

fn check_raw(input: &[u8], expected: &str) {
    let read = decode_all_ways(input, 4_096);
    assert_eq!(read.trim_end_matches('\n'), expected, "{}", input.escape_ascii());
}

/// Decodes each input; all must share one outcome.
fn check_each<I: AsRef<[u8]>>(inputs: impl IntoIterator<Item = I>, expected: &str) {
    for input in inputs {
        let input = input.as_ref();
        assert_eq!(decode_all_ways(input, 4_096), expected, "{}", input.escape_ascii());
    }
}

#[test]
fn idle_decoders_are_small() {
    assert!(size_of::<Decoder>() <= 64, "{}", size_of::<Decoder>());
}

#[test]
fn class_1_payloads_of_all_length_forms() {
    for (first, name) in [(FIN | 1, "text"), (FIN | 2, "binary")] {
        for len in [0, 1, 7, 8, 9, 125, 126, 127, 128, 65_535, 65_536] {
            let payload = b"*".repeat(len);
            let expected = format!("{name} {}\n", shown(&payload));
            assert_eq!(decode_all_ways(&frame(first, &payload), 1 << 20), expected, "{len}");
        }
    }
}

#[test]
fn class_2_pings_and_pongs() {
    check(&[(FIN | 9, b"")], "ping ");
    check(&[(FIN | 9, b"hello")], "ping hello");
    check(&[(FIN | 9, b"\x00\xff\xfe")], "ping \\x00\\xff\\xfe");
    check(
        &[(FIN | 9, &[b'p'; 125])],
        "ping ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp",
    );
    check(&[(FIN | 9, &[b'p'; 126])], "1002 control frame too long");
    check(
        &[(FIN | 0xa, b""), (FIN | 0xa, b"unasked"), (FIN | 9, b"x")],
        "pong \npong unasked\nping x",
    );
    check(&[(FIN | 9, b"1"), (FIN | 9, b"2"), (FIN | 9, b"3")], "ping 1\nping 2\nping 3");
}

#[test]
fn class_3_reserved_bits() {
    for bits in 1..8_u8 {
        for opcode in [0, 1, 2, 8, 9, 10] {
            check_each([frame(FIN | bits << 4 | opcode, b"x")], "1002 reserved bit set\n");
        }
    }
    check(
        &[(FIN | 1, b"fine"), (FIN | 0x41, b"compressed?"), (FIN | 9, b"")],
        "text fine\n1002 reserved bit set",
    );
}

#[test]
fn class_4_reserved_opcodes() {
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        for payload in [&b""[..], b"x"] {
            let expected = format!("text fine\n1002 reserved opcode {opcode}\n");
            let input = frames(&[(FIN | 1, b"fine"), (FIN | opcode, payload), (FIN | 9, b"")]);
            check_each([input], &expected);
        }
    }
}

#[test]
fn class_5_fragmentation() {
    check(&[(9, b"frag"), (FIN, b"mented")], "1002 fragmented control frame");
    check(&[(10, b"frag"), (FIN, b"mented")], "1002 fragmented control frame");
    check(&[(8, b"")], "1002 fragmented control frame");
    check(&[(1, b"one"), (FIN, b"two")], "text onetwo");
    check(&[(2, b"one"), (0, b"two"), (0, b""), (FIN, b"three")], "binary onetwothree");
    check(&[(1, b""), (0, b""), (FIN, b"")], "text ");
    check(&[(1, b"one"), (FIN | 9, b"ping"), (FIN, b"two")], "ping ping\ntext onetwo");
    check(
        &[
            (1, b"1"),
            (FIN | 9, b"a"),
            (0, b"2"),
            (FIN | 0xa, b""),
            (FIN | 9, b"b"),
            (FIN, b"3"),
            (FIN | 2, b"next"),
        ],
        "ping a\npong \nping b\ntext 123\nbinary next",
    );
    check(&[(FIN, b"of nothing")], "1002 continuation without a message");
    check(&[(0, b"of nothing"), (FIN | 1, b"x")], "1002 continuation without a message");
    check(
        &[(FIN | 1, b"whole"), (FIN, b"and more")],
        "text whole\n1002 continuation without a message",
    );
    check(&[(1, b"one"), (FIN | 1, b"another")], "1002 new message within a fragmented one");
    check(&[(1, b"one"), (2, b"another")], "1002 new message within a fragmented one");
    check(&[(1, b"never ended"), (FIN | 8, b"")], "close None ");
    check(&[(1, b"never ended")], "…");
}

#[test]
fn class_6_utf8() {
    let kappa = "κόσμε".as_bytes();
    check(&[(FIN | 1, kappa)], "text \\xce\\xba\\xcf\\x8c\\xcf\\x83\\xce\\xbc\\xce\\xb5");
    check(
        &[(1, &kappa[..3]), (0, &kappa[3..4]), (FIN, &kappa[4..])],
        "text \\xce\\xba\\xcf\\x8c\\xcf\\x83\\xce\\xbc\\xce\\xb5",
    );
    check(
        &[(1, &kappa[..1]), (FIN | 9, b"\xff"), (FIN, &kappa[1..])],
        "ping \\xff\ntext \\xce\\xba\\xcf\\x8c\\xcf\\x83\\xce\\xbc\\xce\\xb5",
    );
    check(&[(FIN | 2, b"\xff\xfe")], "binary \\xff\\xfe");
    for good in [
        "\u{0}",
        "\u{7f}",
        "\u{80}",
        "\u{7ff}",
        "\u{800}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
        "\u{fffe}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
    ] {
        let bytes = good.as_bytes();
        let expected = format!("text {}\n", shown(bytes));
        check_each([frame(FIN | 1, bytes)], &expected);
        let single: Vec<_> = bytes.chunks(1).map(|byte| (0, byte)).collect();
        let fragments = [vec![(1, &b""[..])], single, vec![(FIN, &b""[..])]].concat();
        check_each([frames(&fragments)], &expected);
    }
    let bad: [&[u8]; 16] = [
        b"\x80",
        b"\xbf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xfe",
        b"\xff",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    ];
    for bytes in bad {
        let halves = bytes.split_at(bytes.len() / 2);
        check_each(
            [frame(FIN | 1, bytes), frames(&[(1, halves.0), (FIN, halves.1), (FIN | 9, b"")])],
            "1007 text is not utf-8\n",
        );
    }
    // Cut off at the end of the message: whole so far, but never finished.
    for cut in [&b"\xce"[..], b"\xe2\x82", b"\xf4\x8f\xbf"] {
        check_each([frame(FIN | 1, cut)], "1007 text is not utf-8\n");
        check_each([frames(&[(1, cut), (FIN, b"")])], "1007 text is not utf-8\n");
        check_each([frames(&[(1, cut), (0, b"")])], "…\n");
    }
}

/// Autobahn 6.4: a text that cannot become valid is refused at the first byte that shows it, not
/// at the end of the frame or of the message.
#[test]
fn class_6_fails_fast() {
    let input = frame(1, b"fine until \xf4\x90");
    let mut decoder = Decoder::new(Role::Server, 4_096);
    let mut scratch = Vec::new();
    let outcomes: Vec<_> = input
        .chunks(1)
        .map(|byte| decoder.next(&mut &byte[..], &mut scratch).map(|it| it.is_some()))
        .collect();
    let (last, before) = outcomes.split_last().unwrap();
    assert!(before.iter().all(|outcome| *outcome == Ok(false)));
    assert_eq!(*last, Err(WsError::Utf8));

    let mut long = frame(1, &[b"\xff".as_slice(), &[b'x'; 1_000]].concat());
    long.truncate(9);
    assert_eq!(decode_as(Role::Server, &[&long], 4_096), "1007 text is not utf-8\n");
}

#[test]
fn class_7_closing() {
    let close = |code: u16, reason: &[u8]| frame(FIN | 8, &[&code.to_be_bytes(), reason].concat());
    check(&[(FIN | 8, b"")], "close None ");
    check_raw(
        &close(1000, "bye, κόσμε".as_bytes()),
        "close Some(1000) bye, \\xce\\xba\\xcf\\x8c\\xcf\\x83\\xce\\xbc\\xce\\xb5",
    );
    check_raw(
        &close(1000, &[b'r'; 123]),
        "close Some(1000) rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
    );
    check_raw(&close(1000, &[b'r'; 124]), "1002 control frame too long");
    check_raw(&close(1000, b"\xce\xba\xff"), "1007 text is not utf-8");
    check(&[(FIN | 8, b"x")], "1002 malformed close frame");
    check(&[(FIN | 8, b""), (FIN | 1, b"ignored"), (0x7f, b"rubbish")], "close None ");
    check(&[(FIN | 1, b"first"), (FIN | 8, b""), (FIN | 9, b"")], "text first\nclose None ");
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999,
    ] {
        check_each([close(code, b"")], &format!("close Some({code}) \n"));
    }
    for code in [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        check_each([close(code, b"why")], "1002 malformed close frame\n");
    }
}

#[test]
fn class_9_sizes() {
    let too_large = "1009 message larger than 4096 bytes\n";
    check_each([frame(FIN | 2, &[0; 4_096])], "binary 4096 bytes\n");
    check_each([frames(&[(2, &[0; 4_000]), (FIN, &[0; 96])])], "binary 4096 bytes\n");
    check_each([frames(&[(2, &[0; 4_000]), (FIN, &[0; 97])])], too_large);
    check_each(
        [frames(&[(2, &[0; 4_096]), (0, b""), (FIN | 9, &[1; 125]), (FIN, b"")])],
        &format!("ping {}\nbinary 4096 bytes\n", "\\x01".repeat(125)),
    );
    // Refused by the announced length alone: neither mask nor payload have come.
    let announced: [&[u8]; 4] = [
        b"\x82\xfe\x10\x01",
        b"\x82\xff\0\0\0\0\0\x01\0\0",
        b"\x82\xff\0\0\0\x01\0\0\0\0",
        b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff",
    ];
    check_each(announced, too_large);
    let malformed: [&[u8]; 5] = [
        b"\x82\xff\x80\0\0\0\0\0\0\0",
        b"\x82\xff\0\0\0\0\0\0\xff\xff",
        b"\x82\xff\0\0\0\0\0\0\0\x01",
        b"\x82\xfe\0\x7d",
        b"\x82\xfe\0\0",
    ];
    check_each(malformed, "1002 malformed frame length\n");
    assert_eq!(decode_all_ways(&frame(FIN | 2, b""), 0), "binary \n");
    assert_eq!(decode_all_ways(&frame(FIN | 2, b"x"), 0), "1009 message larger than 0 bytes\n");
}

#[test]
fn masking_is_demanded_of_clients_and_forbidden_to_servers() {
    let mut plain = Vec::new();
    encode(&mut plain, Opcode::Text, b"hi");
    check_each([&plain], "1002 wrong masking\n");
    let masked = frame(FIN | 1, b"hi");
    assert_eq!(decode_as(Role::Client, &[&masked], 100), "1002 wrong masking\n");
    for parts in [vec![&plain[..]], plain.chunks(1).collect()] {
        assert_eq!(decode_as(Role::Client, &parts, 100), "text hi\n");
    }
    // RFC 6455 section 5.7 gives these bytes.
    assert_eq!(frame(FIN | 1, b"Hello"), b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
}

#[test]
fn masks_are_applied_at_every_length_and_phase() {
    let payload: Vec<u8> = (0..100).collect();
    for len in 0..100 {
        for key in [KEY, [0; 4], [0xff, 0, 0, 1]] {
            let mut out = Vec::new();
            encode_masked(&mut out, Opcode::Binary, &payload[..len], key);
            let naive = payload[..len].iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
            assert!(out[6..].iter().copied().eq(naive));
            let expected = format!("binary {}\n", shown(&payload[..len]));
            assert_eq!(decode_all_ways(&out, 100), expected);
        }
    }
}

#[test]
fn control_frames_are_never_sent_broken() {
    let mut out = Vec::new();
    encode(&mut out, Opcode::Ping, &[b'x'; 200]);
    assert_eq!(out[..2], [FIN | 9, 125]);
    assert_eq!(out.len(), 127);
    let payload = close_payload(1000, &"é".repeat(100));
    assert_eq!(payload.len(), 2 + 122, "cut between characters");
    let mut out = Vec::new();
    encode_close(&mut out, 1001, "going away");
    assert_eq!(decode_as(Role::Client, &[&out], 0), "close Some(1001) going away\n");
}

#[test]
fn payloads_of_unknown_length_get_the_right_header() {
    for len in [0, 1, 124, 125, 126, 127, 1_000, 65_535, 65_536, 100_000] {
        let payload: Vec<u8> = (0..=255).cycle().take(len).collect();
        let (mut known, mut unknown) = (b"before".to_vec(), b"before".to_vec());
        encode(&mut known, Opcode::Binary, &payload);
        encode_with(&mut unknown, Opcode::Binary, |out| out.extend_from_slice(&payload));
        assert!(known == unknown, "{len}");
    }
}

#[test]
fn what_is_unfinished_is_told() {
    let mut decoder = Decoder::new(Role::Server, 4_096);
    let mut scratch = Vec::new();
    let told =
        |decoder: &Decoder| (decoder.is_idle(), decoder.is_fragmented(), decoder.kept_bytes() > 0);
    assert_eq!(told(&decoder), (true, false, false));
    for (part, expected) in [
        (&frame(1, b"one")[..], (false, true, true)),
        (&frame(FIN | 9, b"ping"), (false, true, true)),
        (&frame(FIN, b"two"), (true, false, false)),
        // Half a header, and the rest of it.
        (&frame(FIN | 1, b"whole")[..3], (false, false, false)),
        (&frame(FIN | 1, b"whole")[3..], (true, false, false)),
    ] {
        let _ = decoder.next(&mut &part[..], &mut scratch).unwrap();
        assert_eq!(told(&decoder), expected, "{part:?}");
    }
}

#[test]
fn no_limit_is_beyond_32_bits() {
    let mut decoder = Decoder::new(Role::Server, usize::MAX);
    let announced = b"\x82\xff\0\0\0\x01\0\0\0\0";
    let error = decoder.next(&mut &announced[..], &mut Vec::new()).unwrap_err();
    assert_eq!(error, WsError::TooLarge { bytes_max: u32::MAX - 126 });
}

#[test]
fn memory_is_freed_between_messages() {
    let mut decoder = Decoder::new(Role::Server, 4_096);
    let mut scratch = Vec::new();
    let input = frames(&[(1, b"one"), (FIN | 9, b"p"), (FIN, b"two")]);
    for byte in input.chunks(1) {
        let _ = decoder.next(&mut &byte[..], &mut scratch).unwrap();
    }
    assert!(decoder.is_idle());
    assert_eq!(decoder.kept_bytes(), 0);
}

/// A quarter of a mebibyte in one-byte fragments, byte by byte: quadratic work would take minutes.
#[test]
fn tiny_pieces_cost_linear_work() {
    const LEN: usize = 1 << 18;
    let mut decoder = Decoder::new(Role::Server, LEN);
    let mut scratch = Vec::new();
    let fragment = frame(0, b"x");
    let begin = frame(1, b"");
    assert!(decoder.next(&mut &begin[..], &mut scratch).unwrap().is_none());
    for _ in 0..LEN {
        for byte in fragment.chunks(1) {
            assert!(decoder.next(&mut &byte[..], &mut scratch).unwrap().is_none());
        }
    }
    let end = frame(FIN, b"");
    let message = decoder.next(&mut &end[..], &mut scratch).unwrap();
    assert!(matches!(message, Some(Message::Text(text)) if text.len() == LEN));
}

const HANDSHAKE: &str = "GET /ws?token=x HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\nOrigin: null\r\n\r\n";

fn handshake(text: &str) -> String {
    let mut decoder = http1::Decoder::new();
    let limits = http1::Limits::default();
    let request = decoder.next(&mut text.as_bytes(), &limits).unwrap().unwrap();
    let mut out = Vec::new();
    match accept(&mut out, &request, b"X: y\r\n") {
        Ok(()) => String::from_utf8(out).unwrap().replace("\r\n", "\n"),
        Err(error) => {
            assert!(out.is_empty());
            assert_eq!(error.headers().is_empty(), error.status() == 400);
            format!("{} {error}", error.status())
        }
    }
}

#[test]
fn handshakes() {
    expect![[r#"
        HTTP/1.1 101 Switching Protocols
        Upgrade: websocket
        Connection: Upgrade
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=
        X: y

    "#]]
    .assert_eq(&handshake(HANDSHAKE));
    let changed = |from: &str, to: &str| {
        assert!(HANDSHAKE.contains(from));
        handshake(&HANDSHAKE.replace(from, to))
    };
    expect!["400 websocket handshake: method is not GET"].assert_eq(&changed("GET", "POST"));
    expect!["400 websocket handshake: HTTP/1.1 is needed"]
        .assert_eq(&changed("HTTP/1.1", "HTTP/1.0"));
    expect!["426 websocket handshake: 'websocket' token not found in 'Upgrade' header"]
        .assert_eq(&changed("Upgrade: websocket\r\n", ""));
    expect!["426 websocket handshake: 'websocket' token not found in 'Upgrade' header"]
        .assert_eq(&changed("websocket", "h2c"));
    expect!["400 websocket handshake: 'upgrade' token not found in 'Connection' header"]
        .assert_eq(&changed("Connection: Upgrade\r\n", ""));
    expect!["400 websocket handshake: 'upgrade' token not found in 'Connection' header"]
        .assert_eq(&changed("Connection: Upgrade", "Connection: keep-alive"));
    expect!["426 websocket handshake: version 13 is needed"]
        .assert_eq(&changed("Sec-WebSocket-Version: 13\r\n", ""));
    expect!["426 websocket handshake: version 13 is needed"]
        .assert_eq(&changed("Version: 13", "Version: 8"));
    expect!["400 websocket handshake: 'Sec-WebSocket-Key' is not 16 bytes in base64"]
        .assert_eq(&changed("dGhlIHNhbXBsZSBub25jZQ==", ""));
    expect!["400 websocket handshake: 'Sec-WebSocket-Key' is not 16 bytes in base64"]
        .assert_eq(&changed("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ"));
    expect!["400 websocket handshake: 'Sec-WebSocket-Key' is not 16 bytes in base64"]
        .assert_eq(&changed("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZTEyMz=="));
    // Of the right length, but 17 bytes, and no base64.
    for key in ["dGhlIHNhbXBsZSBub25jZTE=", "dGhlIHNhbXBsZSBub25jZ!=="] {
        expect!["400 websocket handshake: 'Sec-WebSocket-Key' is not 16 bytes in base64"]
            .assert_eq(&changed("dGhlIHNhbXBsZSBub25jZQ==", key));
    }
    expect!["400 websocket handshake: 'Sec-WebSocket-Key' is not 16 bytes in base64"]
        .assert_eq(&changed("Origin: null", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="));
}

#[test]
fn both_sides_shake_hands() {
    let key = *b"the sample nonce";
    assert_eq!(&accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let mut asked = Vec::new();
    request(&mut asked, "/ws", "a:7350", key, b"Origin: x\r\n");
    let limits = http1::Limits::default();
    let mut decoder = http1::Decoder::new();
    let asked = decoder.next(&mut &asked[..], &limits).unwrap().unwrap();
    let mut answer = Vec::new();
    accept(&mut answer, &asked, b"").unwrap();
    answer.extend_from_slice(b"\x81\x02hi");
    let mut decoder = http1::ResponseDecoder::new();
    let mut input = &answer[..];
    let response = decoder.next(&mut input, &limits, false).unwrap().unwrap();
    assert!(is_accepted(&response, key));
    assert!(!is_accepted(&response, *b"the other nonce!"));
    assert_eq!(decode_as(Role::Client, &[input], 100), "text hi\n");
}

/// Each part of the answer is needed; what stands beside it does no harm.
#[test]
fn an_answer_that_lacks_something_opens_nothing() {
    const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c, WebSocket\r\n\
        Connection: keep-alive, Upgrade\r\nContent-Length: 0\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let opens = |from: &str, to: &str| {
        assert!(ANSWER.contains(from));
        let answer = ANSWER.replace(from, to);
        let mut decoder = http1::ResponseDecoder::new();
        let limits = http1::Limits::default();
        let response = decoder.next(&mut answer.as_bytes(), &limits, false).unwrap().unwrap();
        is_accepted(&response, *b"the sample nonce")
    };
    assert!(opens("", ""));
    for (from, to) in [
        ("101", "200"),
        ("WebSocket", "h3"),
        ("Upgrade: h2c", "X: h2c"),
        ("keep-alive, Upgrade", "keep-alive"),
        ("Connection", "X"),
        ("s3pP", "S3PP"),
        ("Sec-WebSocket-Accept", "X"),
    ] {
        assert!(!opens(from, to), "{from}");
    }
}
