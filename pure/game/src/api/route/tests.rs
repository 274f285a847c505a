//! Tests of routing.

#![expect(clippy::cast_possible_truncation, reason = "seeded choices among a few")]

use wire::nakama::api::{AccountDevice, AuthenticateDeviceRequest, UpdateAccountRequest};

use super::*;

fn text(route: Result<Route, ApiError>) -> String {
    match route {
        Ok(Route::Api(call)) => call.name().to_owned(),
        Ok(Route::Rpc(call)) => {
            format!("rpc {:?} key={:?} unwrap={}", call.id, call.http_key, call.unwrap)
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{} {}", error.code.number(), error.message),
    }
}

fn go(method: &str, target: &str, body: &str) -> Result<Route, ApiError> {
    route(method, target, body.as_bytes())
}

#[test]
fn paths_lead_where_nakama_says() {
    for (request, expected) in [
        ("GET /", "Root"),
        ("GET /?", "Root"),
        ("HEAD /healthcheck", "Healthcheck"),
        ("GET /ws?lang=en&token=x", "Socket"),
        ("POST /v2/account/authenticate/device?create=true&username=a&", "AuthenticateDevice"),
        ("POST /v2/account/authenticate/device?", "AuthenticateDevice"),
        ("POST /v2/account/authenticate/custom", "AuthenticateCustom"),
        ("POST /v2/account/authenticate/email", "AuthenticateEmail"),
        ("POST /v2/account/session/refresh", "SessionRefresh"),
        ("POST /v2/session/logout", "SessionLogout"),
        ("GET /v2/account", "GetAccount"),
        ("PUT /v2/account", "UpdateAccount"),
        ("DELETE /v2/account", "DeleteAccount"),
        ("POST /v2/account/link/custom", "LinkCustom"),
        ("POST /v2/account/link/device", "LinkDevice"),
        ("POST /v2/account/link/email", "LinkEmail"),
        ("POST /v2/account/unlink/custom", "UnlinkCustom"),
        ("POST /v2/account/unlink/device", "UnlinkDevice"),
        ("POST /v2/account/unlink/email", "UnlinkEmail"),
        ("GET /v2/user?ids=a&ids=b", "GetUsers"),
        ("POST /v2/storage", "ReadStorageObjects"),
        ("PUT /v2/storage", "WriteStorageObjects"),
        ("PUT /v2/storage/delete", "DeleteStorageObjects"),
        ("GET /v2/storage/delete", "ListStorageObjects"),
        ("GET /v2/storage/saves/1?limit=3", "ListStorageObjects"),
        ("GET /v2/match?limit=5&minSize=1", "ListMatches"),
        ("POST /v2/rpc/Echo%20It?http_key=k&unwrap", "rpc \"echo it\" key=Some(\"k\") unwrap=true"),
        ("GET /v2/rpc/a/b?", "rpc \"a/b\" key=None unwrap=false"),
        ("GET /v2/rpc/", "rpc \"\" key=None unwrap=false"),
        ("PUT /v2/rpc/a", "12 Method Not Allowed"),
        ("POST /v2/account", "12 Method Not Allowed"),
        ("PATCH /v2/match", "12 Method Not Allowed"),
        ("POST /", "12 Method Not Allowed"),
        ("GET /v2", "5 Not Found"),
        ("GET /v2/account/", "5 Not Found"),
        ("GET /v2/rpc", "5 Not Found"),
        ("GET /favicon.ico", "5 Not Found"),
        ("POST /v2/account/link/myspace", "5 Not Found"),
        ("GET *", "5 Not Found"),
        ("GET /a/b/c/d/e/f/g/h", "5 Not Found"),
        ("GET /v2/storage/%zz", "3 Bad Request"),
        (
            "POST /v2/account/authenticate/steam",
            "12 Steam accounts are not implemented in throng yet",
        ),
        ("GET /v2/friend?limit=3&state=0", "ListFriends"),
        ("POST /v2/friend/steam", "12 importing friends is not implemented in throng yet"),
        ("POST /v2/group/x/join", "12 groups are not implemented in throng yet"),
        ("POST /v2/leaderboard/x", "12 leaderboards are not implemented in throng yet"),
        (
            "GET /v2/iap/subscription/x",
            "12 subscription validation is not implemented in throng yet",
        ),
        ("PUT /v2/tournament/x", "12 tournaments are not implemented in throng yet"),
        ("GET /v2/user/x/group", "12 groups are not implemented in throng yet"),
        ("POST /v2/%61ccount/link/device", "LinkDevice"),
        ("GET /v2/matchmaker/stats", "12 the matchmaker is not implemented in throng yet"),
        ("DELETE /v2/channel/x", "12 Method Not Allowed"),
        ("GET /v2/match?limit=x", "3 parsing field \"limit\": \"x\" is not a 32-bit integer"),
        ("GET /v2/match?limit=1&limit=2", "3 too many values for field \"limit\": 2"),
        (
            "POST /v2/account/authenticate/device?create=maybe",
            "3 parsing field \"create\": \"maybe\" is not a bool",
        ),
    ] {
        let (method, target) = request.split_once(' ').unwrap();
        assert_eq!(text(go(method, target, "")), expected, "{request}");
    }
}

#[test]
fn bodies_in_either_case_with_nulls_and_strangers() {
    let target = "/v2/account/authenticate/device?create=false&username=x+y";
    let body = r#"{"id":"i","vars":{"b":"2","a":"1"},"stranger":[1,{"a":null}]}"#;
    let Ok(Route::Api(ApiCall::AuthenticateDevice(call))) = go("POST", target, body) else {
        panic!("not a login");
    };
    let vars = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
    let account = Some(AccountDevice { id: "i".to_owned(), vars });
    let username = "x y".to_owned();
    let expected = AuthenticateDeviceRequest { account, create: Some(false), username };
    assert!(call == expected);

    let body = r#"{"displayName":"d","lang_tag":"","username":null}"#;
    let expected = UpdateAccountRequest {
        display_name: Some("d".into()),
        lang_tag: Some(String::new()),
        ..UpdateAccountRequest::default()
    };
    assert_eq!(go("PUT", "/v2/account", body), Ok(Route::Api(ApiCall::UpdateAccount(expected))));

    let body = r#"{"objects":[{"collection":"c","key":"k","value":"{}","permissionRead":"2","permission_write":0}]}"#;
    let Ok(Route::Api(ApiCall::WriteStorageObjects(call))) = go("PUT", "/v2/storage", body) else {
        panic!("not a write");
    };
    let write = &call.objects[0];
    assert_eq!((write.permission_read, write.permission_write), (Some(2), Some(0)));

    // What the path says counts, whatever the query says.
    // A path that reads like a pattern of the table is none.
    let Ok(Route::Api(ApiCall::ListStorageObjects(call))) =
        go("GET", "/v2/storage/{collection}?collection=x", "")
    else {
        panic!("not a listing");
    };
    assert_eq!(call.collection, "{collection}");
    let target = "/v2/storage/a%2Fb/c?collection=x&userId=y&limit=7";
    let Ok(Route::Api(ApiCall::ListStorageObjects(call))) = go("GET", target, "") else {
        panic!("not a listing");
    };
    assert_eq!((&*call.collection, &*call.user_id, call.limit), ("a/b", "c", Some(7)));
}

#[test]
fn bodies_that_are_no_messages_are_refused() {
    let target = "/v2/account/authenticate/device";
    for body in [
        "[]",
        "null",
        "\"x\"",
        "{",
        "{\"id\":1}",
        "{\"id\":\"a\",\"id\":\"b\"}",
        "{\"vars\":{\"a\":1}}",
        "{} x",
    ] {
        assert!(text(go("POST", target, body)).starts_with("3 "), "{body}");
    }
    for body in ["", " ", "{}"] {
        assert_eq!(text(go("POST", target, body)), "AuthenticateDevice", "{body}");
    }
}

#[test]
fn no_target_or_body_brings_it_down() {
    let mut random = event::Random::from_number(3);
    let pieces = [
        "/v2", "/account", "/rpc/", "/storage", "/link", "?", "&", "=", "%", "%2", "é", "ids",
        "/match", "create", "//", "#", "+", "\u{0}",
    ];
    for _ in 0..20_000 {
        let count = random.below(8);
        let target: String =
            (0..count).map(|_| pieces[random.below(pieces.len() as u32) as usize]).collect();
        let method = ["GET", "POST", "PUT", "DELETE", "", "get"][random.below(6) as usize];
        let mut body = br#"{"id":"a","vars":{"a":"b"},"objects":[{"key":"k"}]}"#.to_vec();
        let at = random.below(body.len() as u32) as usize;
        body[at] = random.below(256) as u8;
        body.truncate(random.below(60) as usize);
        let _ = route(method, &*target, &body);
    }
}
