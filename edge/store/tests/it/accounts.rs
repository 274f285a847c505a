//! Logging in, accounts, links, sessions: through routing, with the answers' texts.

use game::account::{self, Account, AccountUpdate, NewAccount};
use game::api::{ApiCall, Disconnect, Effect};
use game::db::{Database as _, Param};
use game::wallet::{WalletUpdate, wallets_update};
use wire::nakama::api::{AccountDevice, AuthenticateDeviceRequest, Empty};

use crate::world::{CUSTOM, DEVICE, EMAIL, Session, World};

fn account(world: &mut World, session: &Session) -> Account {
    account::account(&mut world.db, session.claims.user_id).unwrap().unwrap()
}

#[test]
fn a_device_registers_once_and_then_is_known() {
    let mut world = World::new();
    let request =
        format!("{DEVICE}?create=true& {{\"id\":\"device-000001\",\"vars\":{{\"a\":\"b\"}}}}");
    let first = world.log_in(&request);
    assert!(first.created);
    assert_eq!(first.claims.vars, [("a".to_owned(), "b".to_owned())]);
    assert_eq!(first.claims.username.len(), 10);
    assert!(first.claims.username.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let again = world.log_in(&format!("{DEVICE}?username=other {{\"id\":\"device-000001\"}}"));
    assert!(!again.created && again.claims.vars.is_empty());
    assert_eq!(again.claims.user_id, first.claims.user_id);
    assert_eq!(again.claims.username, first.claims.username);
    assert_ne!(again.claims.token_id, first.claims.token_id);
    let account = world.ask(Some(&first), "GET /v2/account");
    let (id, name) = (first.claims.user_id, &first.claims.username);
    let expected = format!(
        r#"200 {{"user":{{"id":"{id}","username":"{name}","lang_tag":"en","metadata":"{{}}","create_time":"2026-01-02T03:04:05Z","update_time":"2026-01-02T03:04:05Z"}},"wallet":"{{}}","devices":[{{"id":"device-000001"}}]}}"#
    );
    assert_eq!(account, expected);
}

#[test]
fn refusals_have_the_originals_texts() {
    let mut world = World::new();
    world.user("taken");
    for (request, expected) in [
        (format!("{DEVICE} {{}}"), "400 3 Device ID is required."),
        (DEVICE.to_owned(), "400 3 Device ID is required."),
        (
            format!("{DEVICE} {{\"id\":\"with space\"}}"),
            "400 3 Device ID invalid, no spaces or control characters allowed.",
        ),
        (
            format!("{DEVICE} {{\"id\":\"short\"}}"),
            "400 3 Device ID invalid, must be 10-128 bytes.",
        ),
        (
            format!("{DEVICE}?create=false {{\"id\":\"device-000002\"}}"),
            "404 5 User account not found.",
        ),
        (
            format!("{DEVICE}?username=taken {{\"id\":\"device-000002\"}}"),
            "409 6 Username is already in use.",
        ),
        (
            format!("{DEVICE}?username=a%09b {{\"id\":\"device-000002\"}}"),
            "400 3 Username invalid, no spaces or control characters allowed.",
        ),
        (format!("{CUSTOM} {{\"id\":\"12345\"}}"), "400 3 Custom ID invalid, must be 6-128 bytes."),
        (
            format!("{CUSTOM}?username=taken {{\"id\":\"123456\"}}"),
            "409 6 Username is already in use.",
        ),
        (format!("{CUSTOM}?create=0 {{\"id\":\"123456\"}}"), "404 5 User account not found."),
        (format!("{EMAIL} {{}}"), "400 3 Password must be at least 8 characters long."),
        (
            format!("{EMAIL} {{\"email\":\"a@example.com\"}}"),
            "400 3 Password must be at least 8 characters long.",
        ),
        (
            format!("{EMAIL} {{\"password\":\"long enough\"}}"),
            "400 3 Username is required when email address is not supplied.",
        ),
        (
            format!("{EMAIL} {{\"email\":\"nonsense\",\"password\":\"long enough\"}}"),
            "400 3 Invalid email address format.",
        ),
        (
            format!("{EMAIL} {{\"email\":\"a@example.com\",\"password\":\"short\"}}"),
            "400 3 Password must be at least 8 characters long.",
        ),
        (
            format!(
                "{EMAIL}?create=false {{\"email\":\"a@example.com\",\"password\":\"long enough\"}}"
            ),
            "404 5 User account not found.",
        ),
        (
            format!("{EMAIL}?username=nobody {{\"password\":\"long enough\"}}"),
            "404 5 User account not found.",
        ),
        (
            format!("{EMAIL}?username=taken {{\"password\":\"long enough\"}}"),
            "401 16 Invalid credentials.",
        ),
        ("GET /v2/account".into(), "401 16 Auth token required"),
        ("POST /v2/account/session/refresh {}".into(), "400 3 Refresh token is required."),
        (
            "POST /v2/account/session/refresh {\"token\":\"x.y.z\"}".into(),
            "401 16 Refresh token invalid or expired.",
        ),
    ] {
        assert_eq!(world.ask(None, &request), expected, "{request}");
    }
    let mut users = 0;
    world.db.query("SELECT COUNT(*) FROM users", &[], &mut |row| users = row.int(0)).unwrap();
    assert_eq!(users, 1, "a refused login leaves nothing behind");
}

#[test]
fn email_and_password_or_username_and_password() {
    let mut world = World::new();
    let body = r#"{"email":"Ann@Example.com","password":"correct horse"}"#;
    let first = world.log_in(&format!("{EMAIL}?username=ann {body}"));
    assert!(first.created && &*first.claims.username == "ann");
    assert!(!world.log_in(&format!("{EMAIL} {body}")).created);
    let by_name = world.log_in(&format!("{EMAIL}?username=ann {{\"password\":\"correct horse\"}}"));
    assert_eq!(by_name.claims.user_id, first.claims.user_id);
    let wrong = r#"{"email":"ann@example.com","password":"battery staple"}"#;
    assert_eq!(world.ask(None, &format!("{EMAIL} {wrong}")), "401 16 Invalid credentials.");
    assert_eq!(account(&mut world, &first).email, "ann@example.com");
    let mut hash = String::new();
    world
        .db
        .query("SELECT password FROM users", &[], &mut |row| hash = row.text(0).into())
        .unwrap();
    assert!(hash.starts_with("$2b$10$"), "{hash}");
    // A hash of another maker and cost, from crypt_blowfish's tests, of all 72 bytes that count.
    let foreign = "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui";
    let password = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    world.db.execute("UPDATE users SET password = $1", &[Param::Text(foreign)]).unwrap();
    let request = format!("{EMAIL}?username=ann {{\"password\":\"{password}\"}}");
    assert_eq!(world.log_in(&request).claims.user_id, first.claims.user_id);
    world.db.execute("UPDATE users SET password = 'damaged'", &[]).unwrap();
    assert_eq!(world.ask(None, &format!("{EMAIL} {body}")), "401 16 Invalid credentials.");
}

#[test]
fn accounts_change_and_cleared_fields_vanish() {
    let mut world = World::new();
    let (ann, _bob) = (world.user("ann"), world.user("bob"));
    world.now = world.now.after_ms(1_000);
    let long = "x".repeat(256);
    for (body, expected) in [
        (
            r#"{"displayName":"Ann","avatar_url":"u","lang_tag":"de","location":"l","timezone":"t"}"#,
            "200 {}",
        ),
        (r#"{"location":"","lang_tag":""}"#, "200 {}"),
        ("{}", "400 3 No fields to update."),
        (r#"{"username":null}"#, "400 3 No fields to update."),
        (r#"{"username":""}"#, "400 3 Username invalid, must be 1-128 bytes."),
        (
            r#"{"username":"bob","display_name":"never"}"#,
            "400 3 rpc error: code = AlreadyExists desc = Username is already in use.",
        ),
        (
            &format!("{{\"display_name\":\"{long}\"}}"),
            "400 3 Display name invalid, must be 0-255 bytes.",
        ),
        (r#"{"username":"ann"}"#, "200 {}"),
        (r#"{"username":"Ann B"}"#, "200 {}"),
    ] {
        assert_eq!(world.ask(Some(&ann), &format!("PUT /v2/account {body}")), expected, "{body}");
    }
    let user = account(&mut world, &ann).user;
    assert_eq!((user.username.as_str(), user.display_name.as_str()), ("Ann B", "Ann"));
    assert_eq!((user.location.as_str(), user.lang_tag.as_str()), ("", ""));
    assert_eq!(user.update_time_ms - user.create_time_ms, 1_000);
    let users = world.ask(Some(&ann), "GET /v2/user?usernames=bob&usernames=nobody&usernames=bob");
    assert!(users.starts_with(r#"200 {"users":[{"id":""#) && users.matches("bob").count() == 1);
}

#[test]
fn users_are_found_by_id_and_name_and_strangers_left_out() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let ids = format!("ids={}&ids={}", bob.claims.user_id, uuid::Uuid::nil());
    let found = world.ask(Some(&ann), &format!("GET /v2/user?{ids}&usernames=ann&usernames=bob"));
    let names: Vec<_> =
        found.match_indices("\"username\":").map(|(at, _)| &found[at + 12..at + 15]).collect();
    assert_eq!(names, ["bob", "ann"]);
    assert_eq!(world.ask(Some(&ann), "GET /v2/user?"), "200 {}");
    assert_eq!(
        world.ask(Some(&ann), "GET /v2/user?ids=x"),
        "400 3 ID 'x' is not a valid system ID."
    );
}

#[test]
fn links_are_unique_and_one_always_stays() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let last =
        "403 7 Cannot unlink last account identifier. Check profile exists and is not last link.";
    for (who, request, expected) in [
        (&ann, r#"link/device {"id":"device-of-bob"}"#, "409 6 Device ID already in use."),
        (&ann, r#"link/device {"id":"device-of-ann"}"#, "200 {}"),
        (&ann, r#"link/device {"id":"x"}"#, "400 3 Device ID invalid, must be 10-128 bytes."),
        (&ann, r#"unlink/device {"id":"device-of-ann"}"#, last),
        (&ann, r#"unlink/device {"id":"device-of-bob"}"#, last),
        (&ann, r#"link/device {"id":"second-of-ann"}"#, "200 {}"),
        (&ann, r#"unlink/device {"id":"device-of-ann"}"#, "200 {}"),
        (&ann, r#"unlink/device {"id":"second-of-ann"}"#, last),
        (&ann, r#"link/custom {"id":"custom-of-ann"}"#, "200 {}"),
        (&ann, r#"link/custom {"id":"custom-of-ann"}"#, "200 {}"),
        (&bob, r#"link/custom {"id":"custom-of-ann"}"#, "409 6 Custom ID is already in use."),
        (&ann, r#"unlink/device {"id":"second-of-ann"}"#, "200 {}"),
        (&ann, r#"unlink/custom {"id":"custom-of-bob"}"#, last),
        (&ann, r#"unlink/custom {"id":"custom-of-ann"}"#, last),
        (
            &ann,
            r#"link/email {"email":"ann@example.com"}"#,
            "400 3 Email address and password is required.",
        ),
        (&ann, r#"link/email {"email":"Ann@example.com","password":"correct horse"}"#, "200 {}"),
        (
            &bob,
            r#"link/email {"email":"ann@Example.com","password":"correct horse"}"#,
            "409 6 Email is already in use.",
        ),
        (&ann, r#"unlink/custom {"id":"custom-of-ann"}"#, "200 {}"),
        (&ann, r#"unlink/email {"email":"ann@example.com","password":"x"}"#, last),
        (&bob, r#"link/device {"id":"device-of-ann"}"#, "200 {}"),
    ] {
        let request = format!("POST /v2/account/{request}");
        assert_eq!(world.ask(Some(who), &request), expected, "{request}");
    }
    let body = r#"{"email":"ann@example.com","password":"correct horse"}"#;
    assert_eq!(world.log_in(&format!("{EMAIL} {body}")).claims.user_id, ann.claims.user_id);
    assert_eq!(account(&mut world, &bob).devices, ["device-of-bob", "device-of-ann"]);
    assert_eq!(world.user("ann").claims.user_id, bob.claims.user_id, "the device is bob's now");
    let gone = format!("{CUSTOM}?create=false {{\"id\":\"custom-of-ann\"}}");
    assert_eq!(world.ask(None, &gone), "404 5 User account not found.");
}

#[test]
fn only_so_many_devices() {
    let mut world = World::new();
    let ann = world.user("ann");
    for number in 1..=game::link::DEVICES_MAX {
        let request = format!("POST /v2/account/link/device {{\"id\":\"device-{number:05}\"}}");
        let expected = if number < game::link::DEVICES_MAX {
            "200 {}"
        } else {
            "429 8 Cannot link more than 100 devices."
        };
        assert_eq!(world.ask(Some(&ann), &request), expected);
    }
}

#[test]
fn a_deleted_account_is_gone_with_all_it_had() {
    let mut world = World::new();
    let ann = world.user("ann");
    world.ask(Some(&ann), r#"POST /v2/account/link/device {"id":"second-of-ann"}"#);
    let write = r#"PUT /v2/storage {"objects":[{"collection":"c","key":"k","value":"{}"}]}"#;
    assert!(world.ask(Some(&ann), write).starts_with("200 "));
    let answer = world.run(&ApiCall::DeleteAccount(Empty {}), Some(&ann.claims)).unwrap();
    let user_id = ann.claims.user_id;
    assert_eq!(answer.effects[1], Effect::Disconnect { user_id, cause: Disconnect::Deleted });
    assert_eq!(world.ask(Some(&ann), "GET /v2/account"), "401 16 Auth token invalid");
    let again = world.run(&ApiCall::DeleteAccount(Empty {}), Some(&ann.claims)).unwrap_err();
    assert_eq!(again.message, "Account not found.");
    for table in ["users", "user_device", "storage"] {
        let mut count = 0;
        let sql = format!("SELECT COUNT(*) FROM {table}");
        world.db.query(&sql, &[], &mut |row| count = row.int(0)).unwrap();
        assert_eq!(count, 0, "{table}");
    }
    let refresh =
        format!("POST /v2/account/session/refresh {{\"token\":\"{}\"}}", ann.refresh_token);
    assert_eq!(world.ask(None, &refresh), "401 16 Refresh token invalid or expired.");
    assert!(world.user("ann").created);
}

#[test]
fn refreshing_keeps_the_session_and_takes_the_new_name() {
    let mut world = World::new();
    let body = r#"{"id":"device-000001","vars":{"a":"1"}}"#;
    let first = world.log_in(&format!("{DEVICE}?username=ann {body}"));
    world.ask(Some(&first), r#"PUT /v2/account {"username":"anna"}"#);
    world.now = world.now.after_ms(61_000);
    assert_eq!(world.ask(Some(&first), "GET /v2/account"), "401 16 Auth token invalid");
    let refresh = |vars: &str| {
        let token = &first.refresh_token;
        format!("POST /v2/account/session/refresh {{\"token\":\"{token}\",\"vars\":{vars}}}")
    };
    let second = world.log_in(&refresh("{}"));
    assert!(!second.created);
    assert_eq!(&*second.claims.username, "anna");
    assert_eq!(second.claims.token_id, first.claims.token_id);
    assert_eq!(second.claims.issued_s, first.claims.issued_s);
    assert_eq!(second.claims.vars, first.claims.vars);
    let third = world.log_in(&refresh(r#"{"b":"2"}"#));
    assert_eq!(third.claims.vars, [("b".to_owned(), "2".to_owned())]);
    world.now = world.now.after_ms(3_600_000);
    assert_eq!(world.ask(None, &refresh("{}")), "401 16 Refresh token invalid or expired.");
}

#[test]
fn logging_out_ends_one_session_or_all() {
    let mut world = World::new();
    let (first, other) = (world.user("ann"), world.user("bob"));
    let second = world.user("ann");
    let logout = |session: &Session| {
        format!(
            "POST /v2/session/logout {{\"token\":\"{}\",\"refreshToken\":\"{}\"}}",
            session.token, session.refresh_token
        )
    };
    let refused = world.ask(Some(&first), &logout(&other));
    assert_eq!(refused, "400 3 Session token invalid.");
    let mixed = format!("POST /v2/session/logout {{\"refresh_token\":\"{}\"}}", first.token);
    assert_eq!(world.ask(Some(&first), &mixed), "400 3 Refresh token invalid.");
    assert_eq!(world.ask(Some(&second), &logout(&first)), "200 {}");
    assert_eq!(world.ask(Some(&first), "GET /v2/account"), "401 16 Auth token invalid");
    assert!(world.ask(Some(&second), "GET /v2/account").starts_with("200 "));

    world.now = world.now.after_ms(5);
    let third = world.user("ann");
    assert_eq!(world.ask(Some(&third), "POST /v2/session/logout {}"), "200 {}");
    for session in [&second, &third] {
        assert_eq!(world.ask(Some(session), "GET /v2/account"), "401 16 Auth token invalid");
        let token = &session.refresh_token;
        let refresh = format!("POST /v2/account/session/refresh {{\"token\":\"{token}\"}}");
        assert_eq!(world.ask(None, &refresh), "401 16 Refresh token invalid or expired.");
    }
    // Within the same millisecond: a new login is not the one that was ended.
    let fourth = world.user("ann");
    assert!(world.ask(Some(&fourth), "GET /v2/account").starts_with("200 "));
    assert!(world.ask(Some(&other), "GET /v2/account").starts_with("200 "));
}

#[test]
fn the_banned_cannot_log_in_until_they_may_again() {
    let mut world = World::new();
    let ann = world.user("ann");
    let ids = [ann.claims.user_id, uuid::Uuid::from_u128(7)];
    let now = world.now;
    let (banned, revoked) = account::ban(&mut world.db, now, 3_600, &ids).unwrap();
    world.db.commit().unwrap();
    assert_eq!(banned, [ann.claims.user_id]);
    let request = format!("{DEVICE} {{\"id\":\"device-of-ann\"}}");
    assert_eq!(world.ask(None, &request), "403 7 User account banned.");
    let refresh =
        format!("POST /v2/account/session/refresh {{\"token\":\"{}\"}}", ann.refresh_token);
    let answer = world.ask(None, &refresh);
    assert_eq!(answer, "401 16 Refresh token invalid or expired.");
    revoked.iter().for_each(|revocation| world.revocations.apply(now, revocation));
    assert_eq!(world.ask(Some(&ann), "GET /v2/account"), "401 16 Auth token invalid");
    let lifted = account::unban(&mut world.db, now, &ids).unwrap();
    world.db.commit().unwrap();
    lifted.iter().for_each(|revocation| world.revocations.apply(now, revocation));
    assert_eq!(world.ask(Some(&ann), "GET /v2/account"), "401 16 Auth token invalid");
    world.now = now.after_ms(1);
    let again = world.log_in(&request);
    assert!(!again.created);
    assert!(world.ask(Some(&again), "GET /v2/account").starts_with("200 "));
}

#[test]
fn calls_of_one_batch_do_not_undo_each_other() {
    let mut world = World::new();
    let call = |id: &str, username: &str| {
        ApiCall::AuthenticateDevice(AuthenticateDeviceRequest {
            account: Some(AccountDevice { id: id.into(), ..AccountDevice::default() }),
            create: None,
            username: username.into(),
        })
    };
    let mut texts = Vec::new();
    for (id, name) in [
        ("device-000001", "ann"),
        ("device-000002", "ann"),
        ("device-000001", "bob"),
        ("device-000003", "bob"),
        ("bad", "bob"),
    ] {
        let result = world.run_open(&call(id, name), None);
        texts.push(result.map_or_else(
            |error| error.message.into_owned(),
            |answer| format!("created {}", answer.body.starts_with(b"{\"created\"")),
        ));
    }
    assert!(world.db.in_transaction());
    world.db.commit().unwrap();
    let expected = [
        "created true",
        "Username is already in use.",
        "created false",
        "created true",
        "Device ID invalid, must be 10-128 bytes.",
    ];
    assert_eq!(texts, expected);
    let mut names = Vec::new();
    let sql = "SELECT username FROM users ORDER BY username";
    world.db.query(sql, &[], &mut |row| names.push(row.text(0).to_owned())).unwrap();
    assert_eq!(names, ["ann", "bob"]);
    // A failure in the midst of several statements undoes only these.
    world.db.begin().unwrap();
    let ann = world.user("ann2");
    let linked =
        game::link::link_device(&mut world.db, world.now, ann.claims.user_id, "device-000003");
    assert_eq!(linked.unwrap_err().message, "Device ID already in use.");
    assert_eq!(account(&mut world, &ann).devices, ["device-of-ann2"]);
}

#[test]
fn wallets_add_up_and_never_fall_below_zero() {
    let mut world = World::new();
    let ann = world.user("ann");
    let change = |world: &mut World, changes: &[(&str, i64)]| {
        let changeset = changes.iter().map(|(path, by)| ((*path).to_owned(), *by)).collect();
        let update = WalletUpdate { user_id: ann.claims.user_id, changeset, ledger: None };
        let result = wallets_update(&mut world.db, world.now, &[update]);
        result.map(|changes| format!("{:?}", changes[0].updated)).map_err(|error| error.message)
    };
    assert_eq!(
        change(&mut world, &[("gold", 5), ("gems", 1)]).unwrap(),
        r#"{"gems": 1, "gold": 5}"#
    );
    let refused = change(&mut world, &[("gems", 1), ("gold", -6)]).unwrap_err();
    assert_eq!(refused, "wallet update rejected negative value at path 'gold'");
    assert!(change(&mut world, &[("gold", i64::MAX)]).is_err());
    assert_eq!(change(&mut world, &[("gold", -5)]).unwrap(), r#"{"gems": 1, "gold": 0}"#);
    world.db.commit().unwrap();
    assert_eq!(account(&mut world, &ann).wallet, r#"{"gems":1,"gold":0}"#);
}

#[test]
fn matches_are_listed_as_clients_see_them() {
    use game::directory::{DirectoryEvent, MatchInfo, Version};
    use game::match_id::MatchId;
    let mut world = World::new();
    let ann = world.user("ann");
    let mut random = event::Random::from_number(2);
    let node = world.directory.nodes().here();
    let id = MatchId::authoritative(uuid::Uuid::from_bytes(random.bytes()), node);
    world.directory.apply(&DirectoryEvent::MatchCreated {
        id,
        version: Version { node, number: 1 },
        info: MatchInfo::authoritative("arena".into(), 10, "", 1).into(),
        size: 0,
    });
    let text = id.text(world.directory.nodes());
    for (query, expected) in [
        (
            "",
            format!(
                r#"200 {{"matches":[{{"match_id":"{text}","authoritative":true,"label":"","tick_rate":10,"handler_name":"arena"}}]}}"#
            ),
        ),
        ("?min_size=1", "200 {}".into()),
        ("?limit=0", "400 3 Invalid limit - limit must be between 1 and 100.".into()),
        ("?limit=-1", "400 3 Invalid limit - limit must be between 1 and 100.".into()),
        ("?minSize=-1", "400 3 Minimum size must be 0 or above.".into()),
        ("?query=%2B%2F%28%2F", "500 13 Error listing matches.".into()),
    ] {
        assert_eq!(world.ask(Some(&ann), &format!("GET /v2/match{query}")), expected, "{query}");
    }
}

/// The name that the next nameless newcomer of this world would get.
fn next_name(world: &World) -> (NewAccount, String) {
    let mut random = world.random.clone();
    let new_account = NewAccount::draw(world.now, &mut random);
    let store = store::Store::open_in_memory().unwrap();
    let mut db = store.connect().unwrap();
    let login =
        account::authenticate_device(&mut db, &new_account, "device-000000", "", true).unwrap();
    (new_account, login.username)
}

#[test]
fn generated_names_are_as_unique_as_chosen_ones() {
    let mut world = World::new();
    let nameless = world.log_in(&format!("{DEVICE} {{\"id\":\"device-000001\"}}"));
    let name = nameless.claims.username.clone();
    let ann = world.user("ann");
    let find = |world: &mut World, name: &str| {
        let found = world.ask(Some(&ann), &format!("GET /v2/user?usernames={name}"));
        found.matches("\"id\"").count()
    };
    assert_eq!(find(&mut world, &name), 1);
    // Nobody can choose a name that was made for another.
    let taken = format!("{DEVICE}?username={name} {{\"id\":\"device-000002\"}}");
    assert_eq!(world.ask(None, &taken), "409 6 Username is already in use.");
    let rename = |name: &str| format!("PUT /v2/account {{\"username\":\"{name}\"}}");
    let refused = "400 3 rpc error: code = AlreadyExists desc = Username is already in use.";
    assert_eq!(world.ask(Some(&ann), &rename(&name)), refused);
    // Its owner may, and other changes leave it as it is.
    assert_eq!(world.ask(Some(&nameless), r#"PUT /v2/account {"location":"x"}"#), "200 {}");
    assert_eq!(find(&mut world, &name), 1);
    assert_eq!(world.ask(Some(&nameless), &rename(&name)), "200 {}");
    assert_eq!(find(&mut world, &name), 1);
    assert_eq!(world.ask(None, &taken), "409 6 Username is already in use.");
    // Once it is given up, anybody may have it; not near the moment for which it is made, in which
    // somebody may be given it whom nobody can see yet.
    assert_eq!(world.ask(Some(&nameless), &rename("other")), "200 {}");
    assert_eq!(find(&mut world, &name), 0);
    assert_eq!(world.ask(Some(&ann), &rename(&name)), refused);
    world.now.unix_ms += 2 * 3_600_000;
    let ann = world.log_in(&format!("{DEVICE} {{\"id\":\"device-of-ann\"}}"));
    let find = |world: &mut World, name: &str| {
        let found = world.ask(Some(&ann), &format!("GET /v2/user?usernames={name}"));
        found.matches("\"id\"").count()
    };
    assert_eq!(world.ask(Some(&ann), &rename(&name)), "200 {}");
    assert_eq!((find(&mut world, &name), find(&mut world, "ann")), (1, 0));
    // A name that somebody has chosen before it was made: the newcomer gets another.
    let (new_account, name) = next_name(&world);
    let mut early = world.now;
    early.unix_ms -= 2 * 3_600_000;
    let chosen = AccountUpdate { username: Some(name.clone()), ..AccountUpdate::default() };
    account::update(&mut world.db, early, ann.claims.user_id, &chosen).unwrap();
    world.db.commit().unwrap();
    let login = world.log_in(&format!("{DEVICE} {{\"id\":\"device-000003\"}}"));
    assert_ne!((login.claims.user_id, &*login.claims.username), (new_account.user_id, &*name));
    assert_eq!(find(&mut world, &login.claims.username), 1);
    // Its second name is taken now, too; the third is free, and then there are no more.
    for (device, expected) in
        [("twin-000001", None), ("twin-000002", Some("Username is already in use."))]
    {
        let login = account::authenticate_device(&mut world.db, &new_account, device, "", true);
        assert_eq!(login.err().map(|error| error.message.into_owned()).as_deref(), expected);
    }
    world.db.commit().unwrap();
}

/// As it is left where making the user failed, and undoing that as well.
#[test]
fn a_device_of_nobody_is_free() {
    let mut world = World::new();
    let sql = "INSERT INTO user_device (id, user_id) VALUES ('device-000001', $1)";
    world.db.execute(sql, &[Param::Blob(&[7; 16])]).unwrap();
    let request = format!("{DEVICE}?username=ann {{\"id\":\"device-000001\"}}");
    assert!(world.log_in(&request).created);
    assert!(!world.log_in(&request).created);
}

#[test]
fn old_clocks_make_names_too() {
    let mut world = World::new();
    world.now.unix_ms = 5;
    let nameless = world.log_in(&format!("{DEVICE} {{\"id\":\"device-000001\"}}"));
    let name = &nameless.claims.username;
    let found = world.ask(Some(&nameless), &format!("GET /v2/user?usernames={name}"));
    assert!(found.contains(&**name), "{found}");
}

#[test]
fn lookups_use_their_indexes() {
    let mut world = World::new();
    for (sql, expected) in [
        ("SELECT id FROM users WHERE email = $1", "users_email"),
        ("SELECT id FROM users WHERE custom_id = $1", "users_custom_id"),
        ("SELECT id FROM users WHERE username = $1 AND generated IS NULL", "users_username"),
        ("SELECT id FROM users WHERE id >= $1 AND id <= $1 AND generated = 1", "PRIMARY KEY"),
        ("SELECT user_id FROM user_device WHERE id = $1", "PRIMARY KEY"),
    ] {
        let mut plan = String::new();
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        world.db.query(&explain, &[Param::Text("x")], &mut |row| plan += row.text(3)).unwrap();
        assert!(plan.starts_with("SEARCH") && plan.contains(expected), "{sql}: {plan}");
    }
}
