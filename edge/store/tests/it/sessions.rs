//! Revoked tokens as data: they survive restarts, last as long as any token, and nobody's account
//! is written to once it is gone.

use game::account;
use game::api::{ApiCall, finish_batch};
use game::db::{Database as _, Param};
use game::link;
use game::session::{Claims, Revocation, Revocations, stored};
use uuid::Uuid;
use wire::nakama::api::Empty;

use crate::opening::Folder;
use crate::world::{Session, World};

/// The longer of the configured lifetimes of [`World`].
const LIFETIME_S: u64 = 3_600;

/// The process ends, however it ends, and begins anew.
fn restart(world: &mut World) {
    restart_with(world, LIFETIME_S);
}

fn restart_with(world: &mut World, lifetime_s: u64) {
    world.revocations = stored::load(&mut world.db, world.now, lifetime_s).unwrap();
}

fn count(world: &mut World, sql: &str) -> i64 {
    let mut count = -1;
    world.db.query(sql, &[], &mut |row| count = row.int(0)).unwrap();
    count
}

fn is_good(world: &mut World, session: &Session) -> bool {
    world.ask(Some(session), "GET /v2/user?usernames=x").starts_with("200 ")
}

fn can_refresh(world: &mut World, session: &Session) -> bool {
    let token = &session.refresh_token;
    let refresh = format!("POST /v2/account/session/refresh {{\"token\":\"{token}\"}}");
    world.ask(None, &refresh).starts_with("200 ")
}

#[test]
fn bans_deletions_and_log_outs_survive_a_restart() {
    let mut world = World::new();
    restart(&mut world);
    let [one, all, banned, deleted, neighbour] =
        ["one", "all", "banned", "deleted", "neighbour"].map(|name| world.user(name));
    world.now = world.now.after_ms(1);
    let one_more = world.user("one");
    let logout = format!("POST /v2/session/logout {{\"token\":\"{}\"}}", one.token);
    assert_eq!(world.ask(Some(&one_more), &logout), "200 {}");
    assert_eq!(world.ask(Some(&all), "POST /v2/session/logout {}"), "200 {}");
    assert_eq!(world.ask(Some(&deleted), "DELETE /v2/account"), "200 {}");
    let now = world.now;
    account::ban(&mut world.db, now, LIFETIME_S, &[banned.claims.user_id]).unwrap();
    world.db.commit().unwrap();
    for _ in 0..2 {
        restart(&mut world);
        for session in [&one, &all, &banned, &deleted] {
            assert!(!is_good(&mut world, session), "{}", session.claims.username);
            assert!(!can_refresh(&mut world, session), "{}", session.claims.username);
        }
        for session in [&one_more, &neighbour] {
            assert!(is_good(&mut world, session) && can_refresh(&mut world, session));
        }
    }
    world.now = world.now.after_ms((LIFETIME_S + 1) * 1_000);
    restart(&mut world);
    assert_eq!((world.revocations.len(), world.revocations.banned_count()), (0, 1));
    assert_eq!(count(&mut world, "SELECT COUNT(*) FROM revocation"), 0);
}

/// A session token as `authenticate_token_generate` makes it, good for `life_s`.
fn generated(world: &mut World, user_id: Uuid, life_s: u64) -> Claims {
    let expires_s = world.now.unix_s() + life_s;
    stored::expect(&mut world.db, world.now, LIFETIME_S, expires_s).unwrap();
    finish_batch(&mut world.db).unwrap();
    let World { signer, random, now, .. } = world;
    let (token, _) = signer.issue_session(*now, random, user_id, "n", &[], expires_s);
    signer.verify_session(&token, *now).unwrap()
}

#[test]
fn what_is_revoked_stays_so_while_any_token_lives() {
    const YEAR_S: u64 = 31_536_000;
    let mut world = World::new();
    restart(&mut world);
    let user_id = world.user("ann").claims.user_id;
    let tokens =
        [generated(&mut world, user_id, 100 * LIFETIME_S), generated(&mut world, user_id, YEAR_S)];
    let other = generated(&mut world, Uuid::from_u128(9), YEAR_S);
    world.now = world.now.after_ms(1);
    let now = world.now;
    let all = stored::log_out_all(&mut world.db, now, LIFETIME_S, user_id, now.unix_ms).unwrap();
    let one = stored::log_out(&mut world.db, now, LIFETIME_S, &other).unwrap();
    world.db.commit().unwrap();
    let mut revocations = Revocations::default();
    revocations.apply(now, &all);
    revocations.apply(now, &one);
    for days in [0, 1, 364] {
        let now = now.after_ms(days * 86_400_000);
        revocations.sweep(now);
        let loaded = stored::load(&mut world.db, now, LIFETIME_S).unwrap();
        for claims in tokens.iter().chain([&other]) {
            assert!(revocations.is_revoked(claims) && loaded.is_revoked(claims), "day {days}");
            assert!(stored::is_revoked(&mut world.db, claims).unwrap(), "day {days}");
        }
    }
}

#[test]
fn shorter_lifetimes_at_a_restart_do_not_revive_older_tokens() {
    let mut world = World::new();
    restart(&mut world);
    let ann = world.user("ann");
    world.now = world.now.after_ms(1);
    restart_with(&mut world, 60);
    let now = world.now;
    let user_id = ann.claims.user_id;
    let all = stored::log_out_all(&mut world.db, now, 60, user_id, now.unix_ms).unwrap();
    world.db.commit().unwrap();
    let Revocation::User { until_s, .. } = all else { panic!("{all:?}") };
    assert_eq!(until_s, now.unix_s() + LIFETIME_S);
    world.now = now.after_ms(61_000);
    restart_with(&mut world, 60);
    assert!(!can_refresh(&mut world, &ann));
}

#[test]
fn one_user_cannot_fill_the_table() {
    let mut world = World::new();
    restart(&mut world);
    let other = world.user("other");
    world.ask(Some(&other), &format!("POST /v2/session/logout {{\"token\":\"{}\"}}", other.token));
    let mut sessions = Vec::new();
    for _ in 0..200 {
        world.now = world.now.after_ms(1);
        let session = world.user("ann");
        let logout = format!("POST /v2/session/logout {{\"token\":\"{}\"}}", session.token);
        assert_eq!(world.ask(Some(&session), &logout), "200 {}");
        sessions.push(session);
    }
    let of_all = count(&mut world, "SELECT COUNT(*) FROM revocation");
    let max = i64::try_from(stored::TOKENS_PER_USER_MAX).unwrap() + 2;
    assert!(of_all <= max, "{of_all}");
    assert!(i64::try_from(world.revocations.len()).unwrap() <= max + 2);
    world.now = world.now.after_ms(1);
    let stays = world.user("ann");
    for _ in 0..2 {
        assert!(sessions.iter().chain([&other]).all(|session| !is_good(&mut world, session)));
        assert!(is_good(&mut world, &stays));
        restart(&mut world);
    }
}

#[test]
fn what_has_lapsed_makes_room_without_a_restart() {
    let mut world = World::new();
    restart(&mut world);
    for number in 0..40 {
        world.now = world.now.after_ms(LIFETIME_S * 100);
        let session = world.user(&format!("user-{number}"));
        world.ask(Some(&session), "POST /v2/session/logout {}");
    }
    // A log-out of everything is two rows, and a tenth of a lifetime passes between them.
    let rows = count(&mut world, "SELECT COUNT(*) FROM revocation");
    assert!(rows <= 24, "{rows}");
}

/// Everything that a user's calls can write, queued behind the deletion, in its own batch and in
/// the next ones.
#[test]
fn a_deleted_account_is_not_written_to() {
    let mut world = World::new();
    for round in 0..40 {
        let ann = world.user("ann");
        let claims = ann.claims.clone();
        let objects =
            format!(r#"{{"objects":[{{"collection":"c","key":"k{round}","value":"{{}}"}}]}}"#);
        let api = |method: &str, target: &str, body: &str| {
            let route = game::api::route(method, target, body.as_bytes()).unwrap();
            let game::api::Route::Api(call) = route else { panic!("{target}") };
            call
        };
        let two =
            objects.replacen("}]", "},{\"collection\":\"c\",\"key\":\"z\",\"value\":\"{}\"}]", 1);
        let calls = [
            api("PUT", "/v2/storage", &objects),
            api("PUT", "/v2/storage", &two),
            api("PUT", "/v2/account", r#"{"display_name":"x"}"#),
            api("POST", "/v2/account/link/device", r#"{"id":"another-device"}"#),
            api("POST", "/v2/account/link/custom", r#"{"id":"another-custom"}"#),
        ];
        world.run_open(&ApiCall::DeleteAccount(Empty {}), Some(&claims)).unwrap();
        if round % 2 == 0 {
            finish_batch(&mut world.db).unwrap();
        }
        for call in &calls {
            let error = world.run_open(call, Some(&claims)).unwrap_err();
            assert!(error.message.contains("not found"), "{error}");
        }
        let (user_id, now) = (claims.user_id, world.now);
        let email = ("ann@example.com", "password of ann");
        let changeset = [("a".to_owned(), 1)].into();
        let change = game::wallet::WalletUpdate { user_id, changeset, ledger: None };
        assert!(link::link_email(&mut world.db, now, user_id, email, [0; 16]).is_err());
        let changes = game::wallet::wallets_update(&mut world.db, now, &[change]).unwrap();
        assert!(changes.is_empty(), "{changes:?}");
        finish_batch(&mut world.db).unwrap();
        for table in ["users", "user_device", "storage", "wallet_ledger"] {
            let rows = count(&mut world, &format!("SELECT COUNT(*) FROM {table}"));
            assert_eq!(rows, 0, "{table} in round {round}");
        }
    }
}

#[test]
fn the_systems_objects_belong_to_nobody() {
    use game::storage::{Caller, ObjectId, Write, write};
    let mut world = World::new();
    let mut put = |user_id: Uuid| {
        let id = ObjectId { collection: "c".into(), key: "k".into(), user_id };
        let (value, version) = ("{}".to_owned(), String::new());
        let one = Write { id, value, version, permission_read: 2, permission_write: 0 };
        let written =
            write(&mut world.db, world.now, Caller::Script, &[one]).map(|acks| acks.len());
        finish_batch(&mut world.db).unwrap();
        written.map_err(|error| error.message.into_owned())
    };
    assert_eq!(put(Uuid::nil()), Ok(1));
    assert_eq!(put(Uuid::from_u128(7)), Err("Storage write rejected - user not found.".into()));
}

#[test]
fn tables_that_refer_to_users_are_held_to_it() {
    let folder = Folder::new();
    let store = store::Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    let sql = "CREATE TABLE pets (id BIGINT PRIMARY KEY, \
        owner BYTEA NOT NULL REFERENCES users (id) ON DELETE CASCADE)";
    db.execute(sql, &[]).unwrap();
    let sql = "INSERT INTO pets (id, owner) VALUES (1, $1)";
    assert!(db.execute(sql, &[Param::Blob(&[7; 16])]).is_err());
}

#[test]
fn looking_for_a_refresh_tokens_revocation_uses_the_key() {
    let mut world = World::new();
    let mut plan = String::new();
    let sql = "EXPLAIN QUERY PLAN SELECT token_id, issued_until FROM revocation \
        WHERE user_id = $1 AND token_id IN ($2, $3)";
    world
        .db
        .query(sql, &[Param::Blob(&[1; 16]); 3], &mut |row| plan.push_str(row.text(3)))
        .unwrap();
    assert!(plan.contains("SEARCH") && plan.contains("user_id=? AND token_id=?"), "{plan}");
}
