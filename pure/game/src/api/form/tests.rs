//! Tests of the forms that hooks see: every call there and back, and what hooks may do wrong.

use super::super::names;
use super::super::route::{Route, route};
use super::*;

/// A request of every call, with the form that hooks see of it.
const CALLS: &[(&str, &str, &str)] = &[
    (
        "POST /v2/account/authenticate/custom?create=false&username=ann",
        r#"{"id":"custom-1","vars":{"a":"b"}}"#,
        r#"{"account":{"id":"custom-1","vars":{"a":"b"}},"create":false,"username":"ann"}"#,
    ),
    (
        "POST /v2/account/authenticate/device",
        r#"{"id":"device-0123"}"#,
        r#"{"account":{"id":"device-0123"},"create":true}"#,
    ),
    ("POST /v2/account/authenticate/device?create=1", "", r#"{"account":{},"create":true}"#),
    (
        "POST /v2/account/authenticate/email?username=bob",
        r#"{"email":"a@b.cd","password":"12345678","vars":{"x":""}}"#,
        r#"{"account":{"email":"a@b.cd","password":"12345678","vars":{"x":""}},"create":true,"username":"bob"}"#,
    ),
    (
        "POST /v2/account/session/refresh",
        r#"{"token":"t","vars":{"a":"b"}}"#,
        r#"{"token":"t","vars":{"a":"b"}}"#,
    ),
    ("POST /v2/session/logout", r#"{"refreshToken":"r"}"#, r#"{"refresh_token":"r"}"#),
    ("GET /v2/account", "", "{}"),
    (
        "PUT /v2/account",
        r#"{"displayName":"","location":"x"}"#,
        r#"{"display_name":"","location":"x"}"#,
    ),
    ("DELETE /v2/account", "", "{}"),
    ("POST /v2/account/link/custom", r#"{"id":"c"}"#, r#"{"id":"c"}"#),
    ("POST /v2/account/link/device", r#"{"id":"d"}"#, r#"{"id":"d"}"#),
    (
        "POST /v2/account/link/email",
        r#"{"email":"a@b.cd","password":"p"}"#,
        r#"{"email":"a@b.cd","password":"p"}"#,
    ),
    ("POST /v2/account/unlink/custom", r#"{"id":"c"}"#, r#"{"id":"c"}"#),
    ("POST /v2/account/unlink/device", "", "{}"),
    ("POST /v2/account/unlink/email", r#"{"email":"a@b.cd"}"#, r#"{"email":"a@b.cd"}"#),
    ("GET /v2/user?ids=1&ids=2&usernames=", "", r#"{"ids":["1","2"],"usernames":[""]}"#),
    ("GET /v2/user", "", "{}"),
    (
        "POST /v2/storage",
        r#"{"object_ids":[{"collection":"a","key":"b","user_id":"00000000-0000-4000-8000-000000000001"},{}]}"#,
        r#"{"object_ids":[{"collection":"a","key":"b","user_id":"00000000-0000-4000-8000-000000000001"},{}]}"#,
    ),
    (
        "PUT /v2/storage",
        r#"{"objects":[{"collection":"a","key":"b","value":"{}","permission_read":2,"permission_write":"0"}]}"#,
        r#"{"objects":[{"collection":"a","key":"b","permission_read":2,"permission_write":0,"value":"{}"}]}"#,
    ),
    (
        "PUT /v2/storage/delete",
        r#"{"object_ids":[{"collection":"a","key":"b","version":"v"}]}"#,
        r#"{"object_ids":[{"collection":"a","key":"b","version":"v"}]}"#,
    ),
    (
        "GET /v2/storage/saves/1?limit=3&cursor=c",
        "",
        r#"{"collection":"saves","cursor":"c","limit":3,"user_id":"1"}"#,
    ),
    ("GET /v2/storage/saves", "", r#"{"collection":"saves","limit":1}"#),
    (
        "GET /v2/match?limit=5&authoritative=false&label=&min_size=0&max_size=9&query=x",
        "",
        r#"{"authoritative":false,"label":"","limit":5,"max_size":9,"min_size":0,"query":"x"}"#,
    ),
    ("GET /v2/match", "", r#"{"limit":10}"#),
];

fn call(request: &str, body: &str) -> ApiCall {
    let (method, target) = request.split_once(' ').unwrap();
    match route(method, target, body.as_bytes()) {
        Ok(Route::Api(call)) => call,
        other => panic!("{request}: {other:?}"),
    }
}

fn json_of(value: &Value) -> String {
    String::from_utf8(json::encode(value).unwrap()).unwrap()
}

#[test]
fn every_call_goes_there_and_back() {
    for (request, body, form) in CALLS {
        let call = call(request, body);
        assert_eq!(json_of(&call.form()), *form, "{request}");
        // As it comes back from a script: read anew, members in another order.
        let form = json::decode(form.as_bytes()).unwrap();
        assert!(call.reformed(&form).unwrap() == call, "{request}");
    }
    let mut named: Vec<&str> = CALLS.iter().map(|(r, b, _)| call(r, b).name()).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named, names::BUILT, "a call without a row here");
}

#[test]
fn what_a_hook_changes_arrives() {
    for (request, body, returned, form) in [
        (
            "POST /v2/account/authenticate/device?username=ann",
            r#"{"id":"device-0123"}"#,
            r#"{"account":{"id":"device-4567","vars":{"v":"1"}},"extra":[1]}"#,
            r#"{"account":{"id":"device-4567","vars":{"v":"1"}},"create":true}"#,
        ),
        ("POST /v2/account/link/custom", r#"{"id":"c"}"#, "{}", "{}"),
        ("PUT /v2/account", "{}", r#"{"username":null,"timezone":""}"#, r#"{"timezone":""}"#),
        ("GET /v2/match", "", r#"{"limit":"7","label":null}"#, r#"{"limit":7}"#),
        ("GET /v2/storage/a", "", r#"{"collection":"b"}"#, r#"{"collection":"b","limit":1}"#),
        ("GET /v2/account", "", "[1]", "{}"),
        ("DELETE /v2/account", "", "true", "{}"),
    ] {
        let returned = json::decode(returned.as_bytes()).unwrap();
        let changed = call(request, body).reformed(&returned).unwrap();
        assert_eq!(json_of(&changed.form()), form, "{request}");
    }
}

#[test]
fn what_is_no_request_is_our_error() {
    for (request, body, form) in CALLS {
        let call = call(request, body);
        if !call.has_form() {
            continue;
        }
        for wrong in [
            Value::Bool(true),
            Value::text("x"),
            Value::List(vec![Value::Int(1)]),
            Value::Float(f64::NAN),
        ] {
            let error = call.reformed(&wrong).unwrap_err();
            assert_eq!((error.code.number(), &*error.message), (13, NO_REQUEST), "{request}");
        }
        // Every member of the wrong type.
        let Value::Map(members) = json::decode(form.as_bytes()).unwrap() else { unreachable!() };
        for index in 0..members.len() {
            let mut members = members.clone();
            members[index].1 = Value::Map(vec![("a".into(), Value::List(vec![Value::Int(1)]))]);
            let is_account = members[index].0 == "account";
            let result = call.reformed(&Value::Map(members));
            // An account with unknown members is an empty one.
            assert_eq!(result.is_err(), !is_account, "{request}, member {index}");
        }
    }
}

#[test]
fn values_that_clients_may_not_send_are_refused_as_theirs() {
    let read = call("POST /v2/storage", "{}");
    let form = json::decode(br#"{"object_ids":[{"user_id":"me"}]}"#).unwrap();
    assert_eq!(read.reformed(&form).unwrap_err().code.number(), 3);
    let device = call("POST /v2/account/authenticate/device", "{}");
    let long = "x".repeat(body::VARS_BYTES_MAX + 1);
    let form = format!(r#"{{"account":{{"vars":{{"a":"{long}"}}}}}}"#);
    let form = json::decode(form.as_bytes()).unwrap();
    assert_eq!(device.reformed(&form).unwrap_err().code.number(), 3);
}

#[test]
fn names_are_sorted_and_apart() {
    for list in [names::BUILT, names::NOT_BUILT] {
        assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert!(names::BUILT.iter().all(|name| !names::NOT_BUILT.contains(name)));
}
