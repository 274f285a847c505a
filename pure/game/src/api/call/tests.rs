//! Tests of the forms that hooks see: every call there and back, and what hooks may do wrong.

use super::*;
use crate::api::{ApiCall, BUILT, CallId, NOT_BUILT, ROWS, Route, route};

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
        r#"{"account":{"id":"device-0123"}}"#,
    ),
    ("POST /v2/account/authenticate/device?create=1", "", r#"{"account":{},"create":true}"#),
    (
        "POST /v2/account/authenticate/email?username=bob",
        r#"{"email":"a@b.cd","password":"12345678","vars":{"x":""}}"#,
        r#"{"account":{"email":"a@b.cd","password":"12345678","vars":{"x":""}},"username":"bob"}"#,
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
    (
        "POST /v2/account/link/device",
        r#"{"id":"d","vars":{"a":"b"}}"#,
        r#"{"id":"d","vars":{"a":"b"}}"#,
    ),
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
        "POST /v2/friend?ids=1&usernames=ann&metadata=%7B%7D",
        "",
        r#"{"ids":["1"],"metadata":"{}","usernames":["ann"]}"#,
    ),
    ("DELETE /v2/friend?ids=1", "", r#"{"ids":["1"]}"#),
    ("POST /v2/friend/block?usernames=ann", "", r#"{"usernames":["ann"]}"#),
    ("GET /v2/friend?limit=5&state=0&cursor=c", "", r#"{"cursor":"c","limit":5,"state":0}"#),
    ("GET /v2/friend/friends?limit=5", "", r#"{"limit":5}"#),
    (
        "GET /v2/notification?limit=5&cacheable_cursor=c",
        "",
        r#"{"cacheable_cursor":"c","limit":5}"#,
    ),
    ("DELETE /v2/notification?ids=1&ids=2", "", r#"{"ids":["1","2"]}"#),
    (
        "POST /v2/event",
        r#"{"name":"n","properties":{"a":"b"},"timestamp":"2026-01-02T03:04:05Z"}"#,
        r#"{"name":"n","properties":{"a":"b"},"timestamp":"2026-01-02T03:04:05Z"}"#,
    ),
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
    ("GET /v2/storage/saves", "", r#"{"collection":"saves"}"#),
    (
        "GET /v2/match?limit=5&authoritative=false&label=&min_size=0&max_size=9&query=x",
        "",
        r#"{"authoritative":false,"label":"","limit":5,"max_size":9,"min_size":0,"query":"x"}"#,
    ),
    ("GET /v2/match", "", "{}"),
];

fn call(request: &str, body: &str) -> ApiCall {
    let (method, target) = request.split_once(' ').unwrap();
    match route(method, target, body.as_bytes()) {
        Ok(Route::Api(call)) => call,
        other => panic!("{request}: {other:?}"),
    }
}

/// The form that hooks in Lua see, with its members sorted.
fn form_of(call: &ApiCall) -> String {
    let value = json::decode(&call.form(Style::SNAKE)).unwrap();
    String::from_utf8(json::encode(&value).unwrap()).unwrap()
}

#[test]
fn every_call_goes_there_and_back() {
    for (request, body, form) in CALLS {
        let call = call(request, body);
        assert_eq!(form_of(&call), *form, "{request}");
        // As it comes back from a script: read anew, members in another order.
        let form = json::decode(form.as_bytes()).unwrap();
        assert!(call.reformed(&form).unwrap() == call, "{request}");
    }
    for name in BUILT {
        assert!(CALLS.iter().any(|(r, b, _)| call(r, b).name() == *name), "{name} has no row here");
    }
}

#[test]
fn what_a_hook_changes_arrives() {
    for (request, body, returned, form) in [
        (
            "POST /v2/account/authenticate/device?username=ann",
            r#"{"id":"device-0123"}"#,
            r#"{"account":{"id":"device-4567","vars":{"v":"1"}},"extra":[1]}"#,
            r#"{"account":{"id":"device-4567","vars":{"v":"1"}}}"#,
        ),
        ("POST /v2/account/link/custom", r#"{"id":"c"}"#, "{}", "{}"),
        ("PUT /v2/account", "{}", r#"{"username":null,"timezone":""}"#, r#"{"timezone":""}"#),
        ("GET /v2/match", "", r#"{"limit":"7","label":null}"#, r#"{"limit":7}"#),
        ("GET /v2/storage/a", "", r#"{"collection":"b"}"#, r#"{"collection":"b"}"#),
        ("GET /v2/account", "", "[1]", "{}"),
        ("DELETE /v2/account", "", "true", "{}"),
    ] {
        let returned = json::decode(returned.as_bytes()).unwrap();
        let changed = call(request, body).reformed(&returned).unwrap();
        assert_eq!(form_of(&changed), form, "{request}");
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

/// As hooks in JavaScript and Go see it: every field, in camelCase, down to the last message.
#[test]
fn nothing_is_left_out_of_a_full_form() {
    for (request, body, expected) in [
        (
            "POST /v2/account/authenticate/device?create=false",
            r#"{"id":"d"}"#,
            r#"{"account":{"id":"d","vars":{}},"create":false,"username":""}"#,
        ),
        (
            "PUT /v2/storage",
            r#"{"objects":[{"key":"k"}]}"#,
            r#"{"objects":[{"collection":"","key":"k","value":"","version":"","permissionRead":null,"permissionWrite":null}]}"#,
        ),
        ("GET /v2/user", "", r#"{"ids":[],"usernames":[],"facebookIds":[]}"#),
        ("GET /v2/account", "", "{}"),
    ] {
        let form = String::from_utf8(call(request, body).form(Style::FULL)).unwrap();
        assert_eq!(form, expected, "{request}");
        let form = json::decode(form.as_bytes()).unwrap();
        assert!(call(request, body).reformed(&form).unwrap() == call(request, body), "{request}");
    }
    let call = call("POST /v2/account/session/refresh", "{}");
    let answer = br#"{"token":"t"}"#;
    let full = br#"{"created":false,"token":"t","refreshToken":""}"#;
    // As REST has it, and gRPC.
    for (answer, format) in [(&answer[..], Format::Json), (b"\x12\x01t", Format::Protobuf)] {
        let form = |style| call.answer_form(answer, format, style);
        assert_eq!(form(Style::SNAKE), &br#"{"token":"t"}"#[..]);
        assert_eq!(form(Style::FULL), &full[..]);
    }
}

/// Every call is found by its name, and its request reads alike in JSON and protobuf.
#[test]
fn requests_are_the_same_over_grpc() {
    for row in ROWS {
        assert_eq!(CallId::named(row.name).map(|id| ROWS[id as usize].name), Some(row.name));
    }
    assert_eq!(CallId::named("Nothing"), None);
    let custom = call(CALLS[0].0, CALLS[0].1);
    let message = b"\x0a\x12\x0a\x08custom-1\x12\x06\x0a\x01a\x12\x01b\x12\0\x1a\x03ann";
    assert!(ApiCall::decode(custom.id(), message).unwrap() == custom);
    let broken = ApiCall::decode(custom.id(), b"\x0a\x12").unwrap_err();
    assert_eq!(broken.code.number(), 13, "{broken}");
    let missing = ApiCall::decode(CallId::CreateGroup, b"").unwrap_err();
    assert_eq!(missing.message, "CreateGroup: groups are not implemented in throng yet");
}

/// Every method and path of Nakama 3.40's `apigrpc/apigrpc.proto`, with the call's name. A path
/// stands here with a `-` for each field of the request.
const NAKAMA: &str = "\
    POST /v2/account/authenticate/apple AuthenticateApple
    POST /v2/account/authenticate/custom AuthenticateCustom
    POST /v2/account/authenticate/device AuthenticateDevice
    POST /v2/account/authenticate/email AuthenticateEmail
    POST /v2/account/authenticate/facebook AuthenticateFacebook
    POST /v2/account/authenticate/facebookinstantgame AuthenticateFacebookInstantGame
    POST /v2/account/authenticate/gamecenter AuthenticateGameCenter
    POST /v2/account/authenticate/google AuthenticateGoogle
    POST /v2/account/authenticate/steam AuthenticateSteam
    POST /v2/account/session/refresh SessionRefresh
    POST /v2/session/logout SessionLogout
    GET /v2/account GetAccount
    PUT /v2/account UpdateAccount
    DELETE /v2/account DeleteAccount
    POST /v2/account/link/apple LinkApple
    POST /v2/account/link/custom LinkCustom
    POST /v2/account/link/device LinkDevice
    POST /v2/account/link/email LinkEmail
    POST /v2/account/link/facebook LinkFacebook
    POST /v2/account/link/facebookinstantgame LinkFacebookInstantGame
    POST /v2/account/link/gamecenter LinkGameCenter
    POST /v2/account/link/google LinkGoogle
    POST /v2/account/link/steam LinkSteam
    POST /v2/account/unlink/apple UnlinkApple
    POST /v2/account/unlink/custom UnlinkCustom
    POST /v2/account/unlink/device UnlinkDevice
    POST /v2/account/unlink/email UnlinkEmail
    POST /v2/account/unlink/facebook UnlinkFacebook
    POST /v2/account/unlink/facebookinstantgame UnlinkFacebookInstantGame
    POST /v2/account/unlink/gamecenter UnlinkGameCenter
    POST /v2/account/unlink/google UnlinkGoogle
    POST /v2/account/unlink/steam UnlinkSteam
    GET /v2/user GetUsers
    GET /v2/user/-/group ListUserGroups
    GET /v2/friend ListFriends
    POST /v2/friend AddFriends
    DELETE /v2/friend DeleteFriends
    POST /v2/friend/block BlockFriends
    GET /v2/friend/friends ListFriendsOfFriends
    POST /v2/friend/facebook ImportFacebookFriends
    POST /v2/friend/steam ImportSteamFriends
    GET /v2/group ListGroups
    POST /v2/group CreateGroup
    PUT /v2/group/- UpdateGroup
    DELETE /v2/group/- DeleteGroup
    POST /v2/group/-/join JoinGroup
    POST /v2/group/-/leave LeaveGroup
    POST /v2/group/-/add AddGroupUsers
    POST /v2/group/-/ban BanGroupUsers
    POST /v2/group/-/kick KickGroupUsers
    POST /v2/group/-/promote PromoteGroupUsers
    POST /v2/group/-/demote DemoteGroupUsers
    GET /v2/group/-/user ListGroupUsers
    POST /v2/storage ReadStorageObjects
    PUT /v2/storage WriteStorageObjects
    PUT /v2/storage/delete DeleteStorageObjects
    GET /v2/storage/- ListStorageObjects
    GET /v2/storage/-/- ListStorageObjects
    GET /v2/leaderboard/- ListLeaderboardRecords
    POST /v2/leaderboard/- WriteLeaderboardRecord
    DELETE /v2/leaderboard/- DeleteLeaderboardRecord
    GET /v2/leaderboard/-/owner/- ListLeaderboardRecordsAroundOwner
    GET /v2/tournament ListTournaments
    GET /v2/tournament/- ListTournamentRecords
    PUT /v2/tournament/- WriteTournamentRecord
    POST /v2/tournament/- WriteTournamentRecord
    DELETE /v2/tournament/- DeleteTournamentRecord
    POST /v2/tournament/-/join JoinTournament
    GET /v2/tournament/-/owner/- ListTournamentRecordsAroundOwner
    GET /v2/match ListMatches
    GET /v2/party ListParties
    GET /v2/matchmaker/stats GetMatchmakerStats
    GET /v2/channel/- ListChannelMessages
    GET /v2/notification ListNotifications
    DELETE /v2/notification DeleteNotifications
    POST /v2/event Event
    POST /v2/iap/purchase/apple ValidatePurchaseApple
    POST /v2/iap/purchase/google ValidatePurchaseGoogle
    POST /v2/iap/purchase/huawei ValidatePurchaseHuawei
    POST /v2/iap/purchase/facebookinstant ValidatePurchaseFacebookInstant
    POST /v2/iap/purchase/samsung ValidatePurchaseSamsung
    POST /v2/iap/subscription/apple ValidateSubscriptionApple
    POST /v2/iap/subscription/google ValidateSubscriptionGoogle
    POST /v2/iap/subscription ListSubscriptions
    GET /v2/iap/subscription/- GetSubscription";

/// Of each call what Nakama calls it, whether it is built or named as not built; and nothing else.
#[test]
fn the_table_has_every_call_of_nakama() {
    let mut wanted: Vec<String> = NAKAMA.lines().map(|line| line.trim().to_owned()).collect();
    let mut found = Vec::new();
    for row in ROWS {
        for route in row.routes {
            let path: Vec<_> = route
                .path
                .split('/')
                .map(|part| if part.starts_with('{') { "-" } else { part })
                .collect();
            found.push(format!("{} {} {}", route.method, path.join("/"), row.name));
        }
    }
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn rows_are_whole() {
    for (index, row) in ROWS.iter().enumerate() {
        let name = row.name;
        assert_eq!(ROWS.iter().filter(|other| other.name == name).count(), 1, "{name}");
        assert_eq!(row.built.is_some(), index < BUILT.len(), "{name}");
        let Some(built) = &row.built else {
            assert!(NOT_BUILT.contains(&name));
            assert!(row.area.ends_with(" are") || row.area.ends_with(" is"), "{name}");
            continue;
        };
        assert!(built.doc.trim().ends_with('.'), "{name}");
        let is_field = |field: &str| built.request.fields.iter().any(|it| it.name == field);
        if let Body::Field(field) = built.body {
            assert!(is_field(field), "{name}: {field}");
        }
        for route in row.routes {
            let fields = route.path.split('{').skip(1).filter_map(|part| part.split('}').next());
            for field in fields {
                assert!(is_field(field), "{name}: {field}");
            }
        }
    }
}
