//! The forms of fields that examples of the protocol rarely have: in query strings and paths, as a
//! body of their own, with everything that is unset, and numbers at their bounds.

use crate::nakama::api::{self, AccountDevice, AuthenticateDeviceRequest, GetUsersRequest};
use crate::nakama::json::Style;
use crate::nakama::realtime::{ChannelMessage, MatchDataSend, MatchJoin, MatchmakerUser};
use crate::nakama::{ProtoMessage, Timestamp};
use crate::query::QueryString;

fn shown<T: ProtoMessage>(message: &T, style: Style) -> String {
    let mut out = Vec::new();
    message.write_json(&mut out, style);
    String::from_utf8(out).unwrap()
}

/// What of a query a message takes; a field that it does not name stays as it was.
fn queried<T: ProtoMessage>(mut message: T, query: &str) -> String {
    match message.read_query(QueryString::parse(query).unwrap()) {
        Ok(()) => shown(&message, Style::SNAKE),
        Err(error) => error.to_string(),
    }
}

#[test]
fn queries_give_what_can_stand_in_them() {
    let listed = "limit=10&authoritative=t&label=&minSize=-2&max_size=0&query=a+b";
    assert_eq!(
        queried(api::ListMatchesRequest::default(), listed),
        r#"{"limit":10,"authoritative":true,"label":"","min_size":-2,"max_size":0,"query":"a b"}"#
    );
    let users = GetUsersRequest { usernames: vec!["stays".into()], ..Default::default() };
    assert_eq!(
        queried(users, "ids=a&ids=%20&facebookIds="),
        r#"{"ids":["a"," "],"usernames":["stays"],"facebook_ids":[""]}"#
    );
    assert_eq!(
        queried(api::Session { token: "stays".into(), ..Default::default() }, "created=1"),
        r#"{"created":true,"token":"stays"}"#
    );
    assert_eq!(queried(api::User::default(), "edge_count=7&id=x"), r#"{"id":"x","edge_count":7}"#);
    assert_eq!(
        queried(MatchDataSend::default(), "opCode=-9223372036854775808&data=aGk=&reliable=T"),
        r#"{"op_code":"-9223372036854775808","reliable":true}"#
    );
    let nothing = queried(AuthenticateDeviceRequest::default(), "account=x&create=false");
    assert_eq!(nothing, r#"{"create":false}"#);
    for (query, wrong) in [
        ("limit=x", r#"parsing field "limit": "x" is not a 32-bit integer"#),
        ("authoritative=yes", r#"parsing field "authoritative": "yes" is not a bool"#),
        ("label=a&label=b", r#"too many values for field "label": 2"#),
    ] {
        assert_eq!(queried(api::ListMatchesRequest::default(), query), wrong);
    }
    assert_eq!(
        queried(MatchDataSend::default(), "op_code=9223372036854775808"),
        r#"parsing field "op_code": "9223372036854775808" is not a 64-bit integer"#
    );
}

#[test]
fn paths_give_texts() {
    let mut request = api::ListMatchesRequest::default();
    for (name, text) in [("label", "a"), ("limit", "1"), ("authoritative", "true"), ("none", "x")] {
        request.set_text(name, text);
    }
    assert_eq!(shown(&request, Style::SNAKE), r#"{"label":"a"}"#);
    let mut rpc = api::Rpc::default();
    rpc.set_text("id", "function");
    assert_eq!(shown(&rpc, Style::SNAKE), r#"{"id":"function"}"#);
}

#[test]
fn one_field_may_be_the_body() {
    let mut request = AuthenticateDeviceRequest::default();
    for (body, read) in [
        (r#"{"id":"x"}"#, r#"{"account":{"id":"x"}}"#),
        // No body is an empty message, which is there nevertheless.
        (" ", r#"{"account":{}}"#),
        (r#"{"id":"x"} x"#, "trailing characters at line 1 column 12"),
        (r#"["x"]"#, "invalid type: sequence, expected an object at line 1 column 1"),
    ] {
        let result = api::decode_field(&mut request, "account", body.as_bytes());
        let found = result.map_or_else(|error| error.0, |()| shown(&request, Style::SNAKE));
        assert_eq!(found, read, "{body}");
    }
    let mut rpc = api::Rpc::default();
    api::decode_field(&mut rpc, "payload", br#" "text" "#).unwrap();
    assert_eq!(rpc.payload, "text");
    for body in [&b"\"text\" x"[..], b"", b"7"] {
        assert!(api::decode_field(&mut rpc, "payload", body).is_err());
    }
    let error = api::decode_field(&mut rpc, "pay_load", b"\"x\"").unwrap_err();
    assert_eq!(error.0, "unknown field `pay_load`, there are no fields");
}

/// As hooks see messages: every field, but those of a choice that was not taken.
#[test]
fn nothing_is_left_out_where_all_is_wanted() {
    let full = Style::FULL;
    assert_eq!(
        shown(&api::Account::default(), full),
        r#"{"user":null,"wallet":"","email":"","devices":[],"customId":"","verifyTime":null,"disableTime":null}"#
    );
    assert_eq!(
        shown(&api::Match::default(), full),
        r#"{"matchId":"","authoritative":false,"label":null,"size":0,"tickRate":0,"handlerName":""}"#
    );
    assert_eq!(
        shown(&MatchDataSend::default(), full),
        r#"{"matchId":"","opCode":"0","data":"","presences":[],"reliable":false}"#
    );
    assert_eq!(shown(&MatchJoin::default(), full), r#"{"metadata":{}}"#);
    assert_eq!(
        shown(&MatchmakerUser::default(), full),
        r#"{"presence":null,"partyId":"","stringProperties":{},"numericProperties":{}}"#
    );
    let account = api::Account {
        devices: vec![AccountDevice::default(), AccountDevice::default()],
        verify_time: Some(Timestamp::from_unix_ms(-1)),
        ..Default::default()
    };
    assert_eq!(
        shown(&account, Style::SNAKE),
        r#"{"devices":[{},{}],"verify_time":"1969-12-31T23:59:59Z"}"#
    );
    assert_eq!(account.verify_time.unwrap().to_string(), "1969-12-31T23:59:59Z");
}

#[test]
fn doubles_at_their_bounds() {
    for (given, written) in [
        ("-5", "-5"),
        ("18446744073709551615", "1.8446744073709552e+19"),
        ("-9007199254740991", "-9007199254740991.0"),
        ("8999999999999999", "8999999999999999"),
        ("9000000000000000", "9000000000000000.0"),
        ("-8999999999999999", "-8999999999999999"),
        ("0.25", "0.25"),
        ("-Infinity", "\"-Infinity\""),
    ] {
        for quoted in [given.to_owned(), format!("\"{given}\"")] {
            if given.ends_with('y') && !quoted.starts_with('"') {
                continue;
            }
            let json = format!(r#"{{"numeric_properties":{{"a":{quoted}}}}}"#);
            let user: MatchmakerUser = api::decode(json.as_bytes()).unwrap();
            let expected = format!(r#"{{"numeric_properties":{{"a":{written}}}}}"#);
            assert_eq!(shown(&user, Style::SNAKE), expected, "{quoted}");
        }
    }
}

/// What was expected is said, whatever was found.
#[test]
fn errors_say_what_was_expected() {
    for (json, expected) in [
        (r#"{"code":[]}"#, "a 64-bit integer, or one in a string"),
        (r#"{"create_time":7}"#, "a moment as in 2026-01-02T03:04:05Z"),
        (r#"{"content":7}"#, "a string"),
        (r#"{"persistent":7}"#, "a boolean"),
    ] {
        let error = api::decode::<ChannelMessage>(json.as_bytes()).unwrap_err();
        assert!(error.0.contains(&format!("expected {expected} at")), "{error}");
    }
    let error = api::decode::<MatchDataSend>(br#"{"data":7}"#).unwrap_err();
    assert!(error.0.contains("expected bytes in base64 at"), "{error}");
    let number = br#"{"numeric_properties":{"a":[]}}"#;
    let error = api::decode::<MatchmakerUser>(number).unwrap_err();
    assert!(error.0.contains("expected a number, or a number in a string at"), "{error}");
}

/// `null` is the zero of whatever it stands for.
#[test]
fn null_is_zero() {
    let user: MatchmakerUser = api::decode(
        br#"{"presence":null,"party_id":null,"string_properties":null,"numeric_properties":null}"#,
    )
    .unwrap();
    assert_eq!(user, MatchmakerUser::default());
    let data: MatchDataSend = api::decode(
        br#"{"match_id":null,"op_code":null,"data":null,"presences":null,"reliable":null}"#,
    )
    .unwrap();
    assert_eq!(data, MatchDataSend::default());
    let users: GetUsersRequest = api::decode(br#"{"ids":null}"#).unwrap();
    assert_eq!(users, GetUsersRequest::default());
    let request: AuthenticateDeviceRequest = api::decode(br#"{"create":null}"#).unwrap();
    assert_eq!(request.create, None);
}
