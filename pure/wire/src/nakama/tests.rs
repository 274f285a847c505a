//! What goes over the wire in the Nakama protocol, example by example. Shapes are those of the
//! protocol's description; real clients' captures are replayed elsewhere.

#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use bytes::Bytes;
use expect_test::{Expect, expect};

use super::realtime::*;
use super::*;

fn presence(name: &str) -> UserPresence {
    UserPresence {
        user_id: format!("user-{name}"),
        session_id: format!("session-{name}"),
        username: name.to_owned(),
        ..UserPresence::default()
    }
}

fn parts_of(presence: &UserPresence) -> Sender<'_> {
    let UserPresence { user_id, session_id, username, .. } = presence;
    Sender { user_id, session_id, username }
}

/// What an envelope reads as, and that it survives both encodings.
fn decode(json: &str) -> String {
    let envelope = match Envelope::decode_json(json.as_bytes()) {
        Ok(envelope) => envelope,
        Err(error) => return format!("{error:?}"),
    };
    let mut protobuf = Vec::new();
    envelope.encode_protobuf(&mut protobuf);
    assert_eq!(Envelope::decode_protobuf(&protobuf).as_ref(), Ok(&envelope), "protobuf");
    let encoded = encode(&envelope);
    assert_eq!(Envelope::decode_json(encoded.as_bytes()).as_ref(), Ok(&envelope), "json");
    encoded
}

fn encode(envelope: &Envelope) -> String {
    let mut out = Vec::new();
    envelope.encode_json(&mut out);
    String::from_utf8(out).unwrap()
}

fn check(json: &str, expected: Expect) {
    expected.assert_eq(&decode(json));
}

fn check_sent(cid: &str, message: Message, expected: Expect) {
    let encoded = encode(&Envelope::new(cid, message));
    expected.assert_eq(&encoded);
    assert_eq!(decode(&encoded), encoded);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn shapes_of_answers_and_events() {
    expect![[r#"{"cid":"7"}"#]].assert_eq(&encode(&Envelope::ack("7")));
    expect!["{}"].assert_eq(&encode(&Envelope::default()));
    check_sent("1", Message::Pong(Pong {}), expect![[r#"{"cid":"1","pong":{}}"#]]);
    check_sent(
        "2",
        Message::Rpc(Rpc { id: "f".into(), payload: "{\"a\":\"<&>\"}".into(), ..Rpc::default() }),
        expect![[r#"{"cid":"2","rpc":{"id":"f","payload":"{\"a\":\"<&>\"}"}}"#]],
    );
    check_sent(
        "3",
        Message::Match(Match {
            match_id: "uuid.".into(),
            size: 1,
            own: Some(presence("a")),
            ..Match::default()
        }),
        expect![[
            r#"{"cid":"3","match":{"match_id":"uuid.","size":1,"self":{"user_id":"user-a","session_id":"session-a","username":"a"}}}"#
        ]],
    );
    check_sent(
        "4",
        Message::Match(Match {
            match_id: "uuid.nakama".into(),
            authoritative: true,
            label: Some(String::new()),
            size: 2,
            presences: vec![presence("b"), presence("c")],
            own: Some(presence("a")),
        }),
        expect![[
            r#"{"cid":"4","match":{"match_id":"uuid.nakama","authoritative":true,"label":"","size":2,"presences":[{"user_id":"user-b","session_id":"session-b","username":"b"},{"user_id":"user-c","session_id":"session-c","username":"c"}],"self":{"user_id":"user-a","session_id":"session-a","username":"a"}}}"#
        ]],
    );
    check_sent(
        "",
        Message::MatchPresenceEvent(MatchPresenceEvent {
            match_id: "m".into(),
            joins: vec![presence("a")],
            leaves: vec![],
        }),
        expect![[
            r#"{"match_presence_event":{"match_id":"m","joins":[{"user_id":"user-a","session_id":"session-a","username":"a"}]}}"#
        ]],
    );
    for (code, expected) in [
        (4, expect![[r#"{"cid":"5","error":{"code":4,"message":"Match not found"}}"#]]),
        (0, expect![[r#"{"cid":"5","error":{"message":"Match not found"}}"#]]),
    ] {
        let error = Error { code, message: "Match not found".into(), ..Error::default() };
        check_sent("5", Message::Error(error), expected);
    }
    check_sent(
        "",
        Message::ChannelMessage(ChannelMessage {
            channel_id: "2...room".into(),
            code: Some(0),
            content: "{\"x\":1}".into(),
            create_time: Some(Timestamp::from_unix_s(1_767_323_045)),
            persistent: Some(false),
            ..ChannelMessage::default()
        }),
        expect![[
            r#"{"channel_message":{"channel_id":"2...room","code":0,"content":"{\"x\":1}","create_time":"2026-01-02T03:04:05Z","persistent":false}}"#
        ]],
    );
    check_sent(
        "",
        Message::MatchmakerMatched(MatchmakerMatched {
            ticket: "t".into(),
            token: Some("jwt".into()),
            users: vec![MatchmakerUser {
                presence: Some(presence("a")),
                string_properties: [("region".into(), "eu".into())].into(),
                numeric_properties: [("rank".into(), 8.0), ("skill".into(), 0.5)].into(),
                ..MatchmakerUser::default()
            }],
            own: Some(MatchmakerUser::default()),
            match_id: None,
        }),
        expect![[
            r#"{"matchmaker_matched":{"ticket":"t","token":"jwt","users":[{"presence":{"user_id":"user-a","session_id":"session-a","username":"a"},"string_properties":{"region":"eu"},"numeric_properties":{"rank":8,"skill":0.5}}],"self":{}}}"#
        ]],
    );
    check_sent(
        "6",
        Message::StatusUpdate(StatusUpdate { status: None }),
        expect![[r#"{"cid":"6","status_update":{}}"#]],
    );
}

#[test]
fn what_clients_send() {
    check(r#"{"ping":{},"cid":"1"}"#, expect![[r#"{"cid":"1","ping":{}}"#]]);
    check(r#"{"cid":"3","match_create":{}}"#, expect![[r#"{"cid":"3","match_create":{}}"#]]);
    check(
        r#"{"cid":"2","rpc":{"id":"f","payload":"{}"}}"#,
        expect![[r#"{"cid":"2","rpc":{"id":"f","payload":"{}"}}"#]],
    );
    check(
        r#"{"match_join":{"match_id":"m.","metadata":{"k":"v"}},"cid":"9"}"#,
        expect![[r#"{"cid":"9","match_join":{"match_id":"m.","metadata":{"k":"v"}}}"#]],
    );
    check(r#"{"match_join":{"token":"jwt"}}"#, expect![[r#"{"match_join":{"token":"jwt"}}"#]]);
    check(r#"{"match_join":{"match_id":""}}"#, expect![[r#"{"match_join":{"match_id":""}}"#]]);
    check(
        r#"{"match_data_send":{"match_id":"m","op_code":"1","data":"aGk=","presences":[],"reliable":true}}"#,
        expect![[
            r#"{"match_data_send":{"match_id":"m","op_code":"1","data":"aGk=","reliable":true}}"#
        ]],
    );
    check(
        r#"{"match_data_send":{"match_id":"m","op_code":1,"presences":[{"user_id":"u"}]}}"#,
        expect![[
            r#"{"match_data_send":{"match_id":"m","op_code":"1","presences":[{"user_id":"u"}]}}"#
        ]],
    );
    check(
        r#"{"channel_join":{"target":"room","type":1,"persistence":false,"hidden":null}}"#,
        expect![[r#"{"channel_join":{"target":"room","type":1,"persistence":false}}"#]],
    );
    check(r#"{"status_update":{"status":null}}"#, expect![[r#"{"status_update":{}}"#]]);
    check(r#"{"status_update":{"status":""}}"#, expect![[r#"{"status_update":{"status":""}}"#]]);
    check(
        r#"{"matchmaker_add":{"min_count":2,"max_count":4,"query":"*","numeric_properties":{"a":1,"b":"2.5","c":"-Infinity"},"count_multiple":0}}"#,
        expect![[
            r#"{"matchmaker_add":{"min_count":2,"max_count":4,"query":"*","numeric_properties":{"a":1,"b":2.5,"c":"-Infinity"},"count_multiple":0}}"#
        ]],
    );
}

#[test]
fn the_input_dialect_is_wide() {
    // camelCase, null, numbers in strings, integral floats, unknown fields, white space.
    check(
        " { \"matchDataSend\" : { \"matchId\" : \"m\" , \"opCode\" : 2.0, \"extra\":[{}], \"data\":null } }\n",
        expect![[r#"{"match_data_send":{"match_id":"m","op_code":"2"}}"#]],
    );
    check(
        r#"{"match_data_send":{"op_code":"9223372036854775807"}}"#,
        expect![[r#"{"match_data_send":{"op_code":"9223372036854775807"}}"#]],
    );
    check(
        r#"{"match_data_send":{"op_code":-9223372036854775808}}"#,
        expect![[r#"{"match_data_send":{"op_code":"-9223372036854775808"}}"#]],
    );
    check(
        r#"{"party_create":{"max_size":"10"}}"#,
        expect![[r#"{"party_create":{"max_size":10}}"#]],
    );
    check(r#"{"rpc":{"id":"\u00e9\n\ud83d\ude00"}}"#, expect![[r#"{"rpc":{"id":"é\n😀"}}"#]]);
    for data in ["-_8=", "-_8", "+/8=", "+/8"] {
        let json = format!(r#"{{"match_data_send":{{"data":"{data}"}}}}"#);
        assert_eq!(decode(&json), r#"{"match_data_send":{"data":"+/8="}}"#, "{data}");
    }
    check(r#"{"cid":null,"ping":{},"unknown":{"ping":{}}}"#, expect![[r#"{"ping":{}}"#]]);
    check(r#"{"ping":{},"pong":null}"#, expect![[r#"{"ping":{}}"#]]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_is_refused_and_how() {
    check("", expect![[r#"Malformed("EOF while parsing a value at line 1 column 0")"#]]);
    check(
        "[]",
        expect![[
            r#"Malformed("invalid type: sequence, expected an envelope at line 1 column 2")"#
        ]],
    );
    check("{", expect![[r#"Malformed("EOF while parsing an object at line 1 column 1")"#]]);
    check(r#"{"ping":{}}x"#, expect![[r#"Malformed("trailing characters at line 1 column 12")"#]]);
    check("{}", expect![[r#"Missing { cid: "" }"#]]);
    check(r#"{"cid":"8","ping":null}"#, expect![[r#"Missing { cid: "8" }"#]]);
    check(
        r#"{"cid":"8","match_dance":{"x":1}}"#,
        expect![[r#"Unknown { cid: "8", name: "match_dance" }"#]],
    );
    check(
        r#"{"ping":{},"cid":"8","match_create":{}}"#,
        expect![[r#"Several { first: "ping", second: "match_create" }"#]],
    );
    check(
        r#"{"ping":{},"ping":{}}"#,
        expect![[r#"Malformed("duplicate field `ping` at line 1 column 17")"#]],
    );
    check(
        r#"{"cid":"1","cid":"2","ping":{}}"#,
        expect![[r#"Malformed("duplicate field `cid` at line 1 column 16")"#]],
    );
    check(
        r#"{"match_leave":{"match_id":"a","matchId":"b"}}"#,
        expect![[r#"Malformed("duplicate field `match_id` at line 1 column 40")"#]],
    );
    check(
        r#"{"rpc":{"id":"a","payload":"b","payload":"c"}}"#,
        expect![[r#"Malformed("duplicate field `payload` at line 1 column 40")"#]],
    );
    check(
        r#"{"match_join":{"metadata":{"a":"1","a":"2"}}}"#,
        expect![[r#"Malformed("duplicate key \"a\" at line 1 column 43")"#]],
    );
    check(
        r#"{"ping":[]}"#,
        expect![[r#"Malformed("invalid type: sequence, expected an object at line 1 column 10")"#]],
    );
    check(
        r#"{"ping":1}"#,
        expect![[
            r#"Malformed("invalid type: integer `1`, expected an object at line 1 column 9")"#
        ]],
    );
    check(
        r#"{"cid":1,"ping":{}}"#,
        expect![[
            r#"Malformed("invalid type: integer `1`, expected a string at line 1 column 8")"#
        ]],
    );
    check(
        r#"{"match_leave":{"match_id":1}}"#,
        expect![[
            r#"Malformed("invalid type: integer `1`, expected a string at line 1 column 28")"#
        ]],
    );
    check(
        r#"{"match_data_send":{"op_code":"1x"}}"#,
        expect![[
            r#"Malformed("invalid value: \"1x\", expected a 64-bit integer, or one in a string at line 1 column 35")"#
        ]],
    );
    check(
        r#"{"match_data_send":{"op_code":1.5}}"#,
        expect![[
            r#"Malformed("invalid value: 1.5, expected a 64-bit integer, or one in a string at line 1 column 34")"#
        ]],
    );
    check(
        r#"{"match_data_send":{"op_code":9223372036854775808}}"#,
        expect![[
            r#"Malformed("invalid value: 9223372036854775808, expected a 64-bit integer, or one in a string at line 1 column 50")"#
        ]],
    );
    check(
        r#"{"match_data_send":{"op_code":true}}"#,
        expect![[
            r#"Malformed("invalid value: true, expected a 64-bit integer, or one in a string at line 1 column 35")"#
        ]],
    );
    check(
        r#"{"party_create":{"max_size":3000000000}}"#,
        expect![[
            r#"Malformed("invalid value: integer `3000000000`, expected a 32-bit integer at line 1 column 39")"#
        ]],
    );
    check(
        r#"{"match_data_send":{"data":"a"}}"#,
        expect![[
            r#"Malformed("invalid value: string \"a\", expected bytes in base64 at line 1 column 30")"#
        ]],
    );
    check(
        r#"{"match_data_send":{"data":"%%%%"}}"#,
        expect![[
            r#"Malformed("invalid value: string \"%%%%\", expected bytes in base64 at line 1 column 33")"#
        ]],
    );
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(decode(&deep), r#"Unknown { cid: "", name: "x" }"#, "without recursion");
}

/// What Go's protojson takes for a number, in strings and bare.
#[test]
fn whole_numbers_may_have_a_fraction_or_an_exponent() {
    for number in ["1e3", "1000.0", "\"1e3\"", "\"1.0e3\"", "\"1000\"", "\"\\u0031e3\"", "10000e-1"]
    {
        let data = format!(r#"{{"match_data_send":{{"op_code":{number}}}}}"#);
        assert_eq!(decode(&data), r#"{"match_data_send":{"op_code":"1000"}}"#, "{number}");
        let party = format!(r#"{{"party_create":{{"max_size":{number}}}}}"#);
        assert_eq!(decode(&party), r#"{"party_create":{"max_size":1000}}"#, "{number}");
    }
    for number in ["9007199254740993.0", "\"9007199254740993\"", "9.007199254740993e15"] {
        let data = format!(r#"{{"match_data_send":{{"op_code":{number}}}}}"#);
        let expected = r#"{"match_data_send":{"op_code":"9007199254740993"}}"#;
        assert_eq!(decode(&data), expected, "{number}");
    }
    for number in [
        "\"+1\"",
        "\"01\"",
        "\" 1\"",
        "\"1 \"",
        "\"\"",
        "\"1.5\"",
        "1.5",
        "1e-1",
        "1e19",
        "\"0x1\"",
        "\"\\\"1\\\"\"",
        "\"\\ud800\"",
        "true",
        "{}",
        "[1]",
    ] {
        let data = format!(r#"{{"match_data_send":{{"op_code":{number}}}}}"#);
        assert!(decode(&data).starts_with("Malformed"), "{number}");
    }
}

#[test]
fn null_is_nothing_but_in_lists_and_maps() {
    check(
        r#"{"status_follow":{"user_ids":null,"usernames":["a"]}}"#,
        expect![[r#"{"status_follow":{"usernames":["a"]}}"#]],
    );
    for json in [
        r#"{"status_follow":{"user_ids":["a",null]}}"#,
        r#"{"match_data_send":{"presences":[null]}}"#,
        r#"{"match_join":{"metadata":{"a":null}}}"#,
        r#"{"matchmaker_add":{"numeric_properties":{"a":null}}}"#,
    ] {
        assert!(decode(json).contains("no null in a list or map"), "{}", decode(json));
    }
    assert!(api::decode::<api::ReadStorageObjectsRequest>(br#"{"object_ids":[null]}"#).is_err());
}

/// Whatever is wrong with a long text, the error has 64 characters of it at most.
#[test]
fn errors_quote_excerpts() {
    let long = "\\u0001".repeat(40_000);
    let mut bodies = Vec::new();
    for body in [
        r#"{"match_data_send":{"op_code":"…"}}"#,
        r#"{"match_data_send":{"op_code":{"a":"…"}}}"#,
        r#"{"match_data_send":{"data":"…"}}"#,
        r#"{"match_data_send":{"reliable":"…"}}"#,
        r#"{"match_data_send":{"presences":"…"}}"#,
        r#"{"match_data_send":{"presences":["…"]}}"#,
        r#"{"match_data_send":"…"}"#,
        r#"{"match_join":{"metadata":"…"}}"#,
        r#"{"match_join":{"metadata":{"…":"","…":""}}}"#,
        r#"{"matchmaker_add":{"numeric_properties":{"a":"…"}}}"#,
        r#"{"notifications":{"notifications":[{"create_time":"…"}]}}"#,
        r#""…""#,
        r#"{"…":{}}"#,
    ] {
        let body = body.replace('…', &long);
        let error = Envelope::decode_json(body.as_bytes()).unwrap_err();
        bodies.push(format!("{error}"));
        if let Err(error) = api::decode::<api::AuthenticateDeviceRequest>(body.as_bytes()) {
            bodies.push(error.0);
        }
    }
    for body in [r#"{"account":"…"}"#, r#"{"create":"…"}"#, r#"{"account":{"vars":["…"]}}"#] {
        let body = body.replace('…', &long);
        bodies.push(api::decode::<api::AuthenticateDeviceRequest>(body.as_bytes()).unwrap_err().0);
    }
    for error in bodies {
        let quoted = error.matches("u{1}").count() + error.matches("u0001").count();
        assert!(quoted <= crate::excerpt::EXCERPT_CHARS_MAX && error.len() < 700, "{error}");
    }
}

#[test]
fn numbers_of_double_precision() {
    let json = r#"{"matchmaker_add":{"numeric_properties":{"a":"NaN","b":"Infinity","c":-0.0,"d":1e300,"e":"1e3"}}}"#;
    let envelope = Envelope::decode_json(json.as_bytes()).unwrap();
    expect![[r#"{"matchmaker_add":{"numeric_properties":{"a":"NaN","b":"Infinity","c":0,"d":1e+300,"e":1000}}}"#]].assert_eq(&encode(&envelope));
    for bad in [
        "\"+1\"",
        "\".5\"",
        "\"1.\"",
        "\"01\"",
        "\"inf\"",
        "\"infinity\"",
        "\"1e999\"",
        "\"\"",
        "\"x\"",
        "true",
        "{}",
    ] {
        let json = format!(r#"{{"matchmaker_add":{{"numeric_properties":{{"a":{bad}}}}}}}"#);
        let error = Envelope::decode_json(json.as_bytes()).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed(_)), "{bad}");
    }
}

#[test]
fn protobuf_tells_missing_from_unknown() {
    let decode = |bytes: &[u8]| Envelope::decode_protobuf(bytes);
    assert_eq!(decode(b""), Err(DecodeError::Missing { cid: String::new() }));
    assert_eq!(decode(b"\x0a\x018"), Err(DecodeError::Missing { cid: "8".into() }));
    assert_eq!(
        decode(b"\x0a\x018\xa2\x06\x00"),
        Err(DecodeError::Unknown { cid: "8".into(), name: "100".into() })
    );
    assert!(matches!(decode(b"\x0a\x05x"), Err(DecodeError::Malformed(_))));
    // cid "1" and ping, field 32.
    let ping = Envelope::new("1", Message::Ping(Ping {}));
    assert_eq!(decode(b"\x0a\x011\x82\x02\x00"), Ok(ping));
    // Unknown fields within a message are ignored.
    let leave = Message::MatchLeave(MatchLeave { match_id: "m".into() });
    assert_eq!(decode(b"\x8a\x01\x05\x0a\x01m\x50\x01"), Ok(Envelope::new("", leave)));
}

/// Numbers and types of the fields that differ most from counting, by hand-made bytes.
#[test]
fn protobuf_numbers_are_the_protocol_s() {
    let bytes = |message: Message| {
        let mut out = Vec::new();
        Envelope::new("", message).encode_protobuf(&mut out);
        out
    };
    let joins = StatusPresenceEvent { joins: vec![presence("")], leaves: vec![presence("")] };
    let user = b"\x0a\x05user-\x12\x08session-";
    let expected = [b"\xda\x01\x26\x12\x11", &user[..], b"\x1a\x11", &user[..]].concat();
    assert_eq!(bytes(Message::StatusPresenceEvent(joins)), expected);
    let message = ChannelMessage { code: Some(0), persistent: Some(true), ..Default::default() };
    // Wrappers are messages of their own: present, though empty.
    assert_eq!(bytes(Message::ChannelMessage(message)), b"\x2a\x06\x1a\x00\x4a\x02\x08\x01");
    let user = MatchmakerUser {
        numeric_properties: [("a".into(), 1.0)].into(),
        ..MatchmakerUser::default()
    };
    let matched = MatchmakerMatched { own: Some(user), ..MatchmakerMatched::default() };
    let expected = b"\xa2\x01\x10\x2a\x0e\x32\x0c\x0a\x01a\x11\0\0\0\0\0\0\xf0\x3f";
    assert_eq!(bytes(Message::MatchmakerMatched(matched)), expected);
}

#[test]
fn the_table_of_messages() {
    assert_eq!(NAMES.len(), 50);
    let mut client = Vec::new();
    for (index, name) in NAMES.iter().enumerate() {
        let json = format!("{{\"{name}\":{{}}}}");
        let envelope = Envelope::decode_json(json.as_bytes()).unwrap();
        assert_eq!(encode(&envelope), json, "empty messages are written empty");
        let message = envelope.message.as_ref().unwrap();
        assert_eq!(message.name(), *name);
        if message.is_from_client() {
            client.push(*name);
        }
        let mut protobuf = Vec::new();
        envelope.encode_protobuf(&mut protobuf);
        let (number, _) = prost::encoding::decode_key(&mut &protobuf[..]).unwrap();
        assert_eq!(usize::try_from(number).unwrap(), index + 2, "{name}");
    }
    expect!["channel_join channel_leave channel_message_send channel_message_update channel_message_remove match_create match_data_send match_join match_leave matchmaker_add matchmaker_remove rpc status_follow status_unfollow status_update ping pong party_create party_join party_leave party_promote party_accept party_remove party_close party_join_request_list party_matchmaker_add party_matchmaker_remove party_data_send party_update"].assert_eq(&client.join(" "));
}

#[test]
fn match_data_is_written_alike_from_parts_and_from_the_message() {
    let odd = UserPresence { username: "a\"\\\u{1}é<".into(), ..UserPresence::default() };
    for sender in [None, Some(presence("a")), Some(UserPresence::default()), Some(odd)] {
        for op_code in [0, 1, -1, 127, 128, i64::MAX, i64::MIN] {
            for len in [0_usize, 1, 2, 3, 44, 127, 128, 300, 20_000] {
                let data: Vec<u8> = (0..=255).cycle().take(len).collect();
                let reliable = len % 2 == 0;
                let match_id = if len == 3 { "" } else { "2b5e1cd8-35ee-4d7c-b5ae-d1a9c0a0f5ab." };
                let envelope = Envelope::new(
                    "",
                    Message::MatchData(MatchData {
                        match_id: match_id.into(),
                        presence: sender.clone(),
                        op_code,
                        data: Bytes::from(data.clone()),
                        reliable,
                    }),
                );
                let mut json = Vec::new();
                let sender = sender.as_ref().map(parts_of);
                encode_match_data_json(&mut json, match_id, sender, op_code, &data, reliable);
                assert_eq!(String::from_utf8(json).unwrap(), encode(&envelope));
                let (mut parts, mut whole) = (Vec::new(), Vec::new());
                encode_match_data_protobuf(&mut parts, match_id, sender, op_code, &data, reliable);
                envelope.encode_protobuf(&mut whole);
                assert_eq!(parts, whole);
            }
        }
    }
}

/// The quick reader must agree with the general one on whatever it accepts, and accept what clients
/// send.
#[test]
fn match_data_send_is_read_alike_both_ways() {
    let quick = [
        r#"{"match_data_send":{"match_id":"m","op_code":"1","data":"aGk=","presences":[],"reliable":true}}"#,
        r#"{"match_data_send":{"match_id":"m","op_code":12,"data":"","reliable":false}}"#,
        r#"{"match_data_send":{"data":"aGk","op_code":"0"}}"#,
        r#"{"match_data_send":{"op_code":0,"data":"-_8"}}"#,
    ];
    let general = [
        r#"{"match_data_send":{}}"#,
        r#"{"match_data_send":{"match_id":"m","match_id":"m"}}"#,
        r#"{"match_data_send":{"match_id":"\u006d"}}"#,
        r#"{"match_data_send":{"match_id":"é"}}"#,
        r#"{"match_data_send":{"match_id":"m"},"cid":"1"}"#,
        r#"{"match_data_send":{"match_id":"m"}}}"#,
        r#"{"match_data_send":{"match_id":"m",}}"#,
        r#"{"match_data_send":{"match_id":"m"}"#,
        r#"{"match_data_send":{"presences":[{"user_id":"u"}]}}"#,
        r#"{"match_data_send":{"op_code":01}}"#,
        r#"{"match_data_send":{"op_code":"01"}}"#,
        r#"{"match_data_send":{"op_code":-1}}"#,
        r#"{"match_data_send":{"op_code":1.0}}"#,
        r#"{"match_data_send":{"op_code":1e3}}"#,
        r#"{"match_data_send":{"op_code":9223372036854775807}}"#,
        r#"{"match_data_send":{"op_code":"1 "}}"#,
        r#"{"match_data_send":{"data":"a"}}"#,
        r#"{"match_data_send":{"data":"a=b="}}"#,
        r#"{"match_data_send":{"reliable":truer}}"#,
        r#"{"match_data_send":{"matchId":"m"}}"#,
        r#"{"match_data_send":{"other":"m"}}"#,
    ];
    for (json, is_quick) in
        quick.map(|it| (it, true)).into_iter().chain(general.map(|it| (it, false)))
    {
        let read = match_data::read_match_data_send(json.as_bytes());
        assert_eq!(read.is_some(), is_quick, "{json}");
        assert_eq!(
            Envelope::decode_json(json.as_bytes()),
            Envelope::decode_any_json(json.as_bytes()),
            "{json}"
        );
    }
    // Cut at every point and with every byte changed, it never accepts what the other refuses.
    let good = quick[0].as_bytes();
    for at in 0..good.len() {
        for byte in 0..=255 {
            let mut json = good.to_vec();
            json[at] = byte;
            assert_eq!(Envelope::decode_json(&json), Envelope::decode_any_json(&json));
        }
        assert_eq!(Envelope::decode_json(&good[..at]), Envelope::decode_any_json(&good[..at]));
    }
}

#[test]
fn the_shape_of_match_data() {
    let mut out = Vec::new();
    encode_match_data_json(&mut out, "m.", Some(parts_of(&presence("a"))), 2, b"hi", true);
    expect![[r#"{"match_data":{"match_id":"m.","presence":{"user_id":"user-a","session_id":"session-a","username":"a"},"op_code":"2","data":"aGk=","reliable":true}}"#]].assert_eq(std::str::from_utf8(&out).unwrap());
    out.clear();
    encode_match_data_json(&mut out, "m.node", None, 0, b"", false);
    expect![[r#"{"match_data":{"match_id":"m.node"}}"#]]
        .assert_eq(std::str::from_utf8(&out).unwrap());
}

fn api_json<T: ProtoMessage>(message: &T) -> String {
    let mut out = Vec::new();
    api::encode(&mut out, message, Format::Json);
    String::from_utf8(out).unwrap()
}

#[test]
fn shapes_of_the_rest_interface() {
    let session = api::Session { created: true, token: "jwt".into(), refresh_token: "jwt2".into() };
    expect![[r#"{"created":true,"token":"jwt","refresh_token":"jwt2"}"#]]
        .assert_eq(&api_json(&session));
    expect![[r#"{"token":"jwt","refresh_token":"jwt2"}"#]]
        .assert_eq(&api_json(&api::Session { created: false, ..session }));
    let account = api::Account {
        user: Some(api::User {
            id: "uuid".into(),
            username: "name".into(),
            lang_tag: "en".into(),
            metadata: "{}".into(),
            create_time: Some(Timestamp::from_unix_s(1_767_323_045)),
            update_time: Some(Timestamp { seconds: 1_767_323_045, nanos: 5_000_000 }),
            ..api::User::default()
        }),
        wallet: "{}".into(),
        devices: vec![api::AccountDevice { id: "device-id-1".into(), ..Default::default() }],
        ..api::Account::default()
    };
    expect![[r#"{"user":{"id":"uuid","username":"name","lang_tag":"en","metadata":"{}","create_time":"2026-01-02T03:04:05Z","update_time":"2026-01-02T03:04:05.005Z"},"wallet":"{}","devices":[{"id":"device-id-1"}]}"#]].assert_eq(&api_json(&account));
    let list = api::MatchList {
        matches: vec![api::Match {
            match_id: "m.nakama".into(),
            authoritative: true,
            label: Some(String::new()),
            tick_rate: 10,
            ..api::Match::default()
        }],
    };
    expect![[
        r#"{"matches":[{"match_id":"m.nakama","authoritative":true,"label":"","tick_rate":10}]}"#
    ]]
    .assert_eq(&api_json(&list));
    expect!["{}"].assert_eq(&api_json(&api::MatchList::default()));
}

#[test]
fn bodies_of_the_rest_interface() {
    fn read<T: ProtoMessage + std::fmt::Debug>(body: &str) -> String {
        match api::decode::<T>(body.as_bytes()) {
            Ok(message) => format!("{message:?}"),
            Err(error) => error.to_string(),
        }
    }
    expect![[r#"AccountDevice { id: "x", vars: {"k": "v"} }"#]].assert_eq(&read::<
        api::AccountDevice,
    >(
        r#"{"id":"x","vars":{"k":"v"},"extra":1}"#,
    ));
    expect![[r#"AccountDevice { id: "", vars: {} }"#]].assert_eq(&read::<api::AccountDevice>(""));
    expect!["invalid type: sequence, expected an object at line 1 column 2"]
        .assert_eq(&read::<api::AccountDevice>("[]"));
    expect!["EOF while parsing a string at line 1 column 8"]
        .assert_eq(&read::<api::AccountDevice>(r#"{"id":"x"#));
    expect![[r#"UpdateAccountRequest { username: Some(""), display_name: Some("x"), avatar_url: None, lang_tag: None, location: None, timezone: None }"#]].assert_eq(&read::<api::UpdateAccountRequest>(
        r#"{"username":"","displayName":"x","avatar_url":null}"#,
    ));
    expect![[r#"AuthenticateDeviceRequest { account: Some(AccountDevice { id: "t", vars: {} }), create: Some(false), username: "" }"#]]
        .assert_eq(&read::<api::AuthenticateDeviceRequest>(r#"{"account":{"id":"t"},"create":false}"#));
    expect![[r#"Account { user: None, wallet: "", email: "", devices: [], custom_id: "", verify_time: Some(Timestamp { seconds: 1767323045, nanos: 500000000 }), disable_time: None }"#]]
        .assert_eq(&read::<api::Account>(r#"{"verify_time":"2026-01-02T04:04:05.5+01:00"}"#));
    expect![[r#"invalid value: string "yesterday", expected a moment as in 2026-01-02T03:04:05Z at line 1 column 26"#]].assert_eq(&read::<api::Account>(r#"{"verify_time":"yesterday"}"#));
}

#[test]
fn errors_and_codes() {
    let mut out = Vec::new();
    api::encode_error(&mut out, 5, "Not \"Found\"");
    expect![[r#"{"code":5,"message":"Not \"Found\""}"#]]
        .assert_eq(std::str::from_utf8(&out).unwrap());
    out.clear();
    api::encode_rpc_error(&mut out, 13, "a < b");
    expect![[r#"{"code":13,"error":"a \u003c b","message":"a \u003c b"}"#]]
        .assert_eq(std::str::from_utf8(&out).unwrap());
    out.clear();
    api::encode_rpc_failure(&mut out, 13, "a < b");
    expect![[r#"{"code":13,"error":{},"message":"a \u003c b"}"#]]
        .assert_eq(std::str::from_utf8(&out).unwrap());
    let statuses: Vec<_> = (0..17)
        .map(|number| {
            let code = api::Code::from_number(number).unwrap();
            assert_eq!(i64::from(code.number()), number);
            code.http_status()
        })
        .collect();
    assert_eq!(
        statuses,
        [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401]
    );
    assert_eq!(api::Code::from_number(17).or(api::Code::from_number(-1)), None);
}

#[test]
fn rpc_over_http() {
    let mut out = Vec::new();
    api::encode_rpc(&mut out, "<a href=\"x\">&\u{2028}\u{2029}\u{2027}€\n\u{1f}</a>");
    expect![[
        r#"{"payload":"\u003ca href=\"x\"\u003e\u0026\u2028\u2029‧€\n\u001f\u003c/a\u003e"}"#
    ]]
    .assert_eq(std::str::from_utf8(&out).unwrap());
    for (body, expected) in [
        (r#""{\"a\":1}""#, Ok("{\"a\":1}")),
        (r#" "" "#, Ok("")),
        ("", Ok("")),
        (" null", Ok("")),
        ("{}", Err("json: cannot unmarshal object into Go value of type string")),
        ("[1]", Err("json: cannot unmarshal array into Go value of type string")),
        ("-1", Err("json: cannot unmarshal number into Go value of type string")),
        ("true", Err("json: cannot unmarshal bool into Go value of type string")),
        ("{", Err("EOF while parsing an object at line 1 column 1")),
        ("\"x", Err("EOF while parsing a string at line 1 column 2")),
        ("\"x\"y", Err("trailing characters at line 1 column 4")),
        ("x", Err("expected value at line 1 column 1")),
    ] {
        let read = api::decode_rpc(body.as_bytes());
        let read = read.as_deref().map_err(|error| error.0.as_str());
        assert_eq!(read, expected, "{body}");
    }
}

/// As Go's `encoding/json` reads strings, which is what Nakama reads this body with.
#[test]
fn rpc_over_http_replaces_what_is_no_text() {
    for (body, expected) in [
        (&b"\"a\xff b\""[..], "a\u{fffd} b"),
        (b"\"\xe2\x82\"", "\u{fffd}\u{fffd}"),
        (br#""a\ud800""#, "a\u{fffd}"),
        (br#""\udc00b""#, "\u{fffd}b"),
        (br#""\ud800\u0041""#, "\u{fffd}A"),
        (br#""\ud800\ud83d\ude00""#, "\u{fffd}😀"),
        (br#" "\ud800x" "#, "\u{fffd}x"),
    ] {
        assert_eq!(api::decode_rpc(body).unwrap(), expected, "{}", body.escape_ascii());
    }
    for broken in
        [&b"\"\xff"[..], b"\"\xff\"x", b"\"\xff\n\"", br#""\ud80""#, b"\xff", br#""\xff""#]
    {
        assert!(api::decode_rpc(broken).is_err(), "{}", broken.escape_ascii());
    }
    // Everything else goes through protobuf's JSON mapping, which refuses them.
    assert!(api::decode::<api::AccountDevice>(br#"{"id":"\ud800"}"#).is_err());
    assert!(api::decode::<api::AccountDevice>(b"{\"id\":\"\xff\"}").is_err());
}

#[test]
fn strings_survive_both_escapings() {
    let text: String = (0..0x2100).filter_map(char::from_u32).chain("😀€\u{e2}".chars()).collect();
    // Where a piece that is put together ends.
    let long = ['"', '\\', '\n', '<', '\u{2028}', '\u{20ac}']
        .into_iter()
        .flat_map(|odd| (250..260).map(move |plain| format!("{}{odd}{odd}\"b", "a".repeat(plain))));
    // All together, and each by itself: then nothing else tells that it needs an escape.
    for text in text.chars().map(String::from).chain([text.clone()]).chain(long) {
        for write in [json::write_string, json::write_string_html] {
            let mut out = Vec::new();
            write(&mut out, &text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
        let (mut out, mut html) = (Vec::new(), Vec::new());
        json::write_string(&mut out, &text);
        assert_eq!(out, serde_json::to_vec(&text).unwrap());
        json::write_string_html(&mut html, &text);
        let html = String::from_utf8(html).unwrap();
        assert!(!html.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{html}");
    }
}
