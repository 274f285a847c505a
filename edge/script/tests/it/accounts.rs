//! Accounts, storage and the list of matches, through Lua and a real database.

use game::db::Database as _;
use game::directory::{DirectoryEvent, MatchInfo, Version};
use game::guest::ScriptError;
use game::match_id::MatchId;
use store::Store;
use uuid::Uuid;

use crate::host::TestHost;
use crate::run_on;

fn host() -> TestHost {
    let store = Store::open_in_memory().unwrap();
    TestHost { real_db: Some(store.connect().unwrap()), ..TestHost::default() }
}

fn text(body: &str, host: &mut TestHost) -> String {
    let answer: Result<_, ScriptError> = run_on(body, "", host);
    assert!(!host.real_db.as_ref().unwrap().in_transaction(), "left open by {body}");
    match answer {
        Ok(answer) => answer.unwrap_or_default(),
        Err(error) => format!("!{}", error.message),
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table of cases that build on each other")]
fn users_are_made_found_changed_banned_and_deleted() {
    let mut host = host();
    for (body, wanted) in [
        (
            "local id, name, created = nk.authenticate_device('device-number-1', 'ann') return name .. tostring(created) .. #id",
            "anntrue36",
        ),
        (
            "local id, name, created = nk.authenticate_device('device-number-1') return name .. tostring(created)",
            "annfalse",
        ),
        (
            "return nk.authenticate_device('unknown-device', nil, false)",
            "!error finding or creating user: User account not found.",
        ),
        (
            "return nk.authenticate_device('short')",
            "!error finding or creating user: Device ID invalid, must be 10-128 bytes.",
        ),
        (
            "return nk.authenticate_device('')",
            "!bad argument #1 to authenticate_device (expects device ID string)",
        ),
        ("return (select(2, nk.authenticate_custom('custom-1', 'bob')))", "bob"),
        ("return (select(2, nk.authenticate_email('a@example.com', 'password', 'cat')))", "cat"),
        ("return (select(2, nk.authenticate_email('', 'password', 'cat')))", "cat"),
        (
            "return nk.authenticate_email('a@example.com', 'wrong password')",
            "!error finding or creating user: Invalid credentials.",
        ),
        (
            "local u = nk.users_get_username({'ann', 'nobody'}) return #u .. u[1].username .. u[1].lang_tag .. tostring(u[1].online) .. u[1].create_time",
            "1annenfalse1700000000",
        ),
        (
            "local id = nk.users_get_username({'ann'})[1].user_id nk.account_update_id(id, {level = 3}, nil, 'Ann') local a = nk.account_get_id(id) return a.metadata.level .. a.display_name .. a.user.username .. a.devices[1].id .. nk.json_encode(a.wallet)",
            "3Annanndevice-number-1{}",
        ),
        (
            "return #nk.users_get_id({nk.users_get_username({'ann'})[1].user_id}) .. '' .. #nk.accounts_get_id({}, {'device-number-1'})",
            "11",
        ),
        (
            "return nk.account_get_id('x')",
            "!bad argument #1 to account_get_id (expects user ID to be a valid identifier)",
        ),
        (
            "return nk.account_get_id('00000000-0000-4000-8000-000000000009')",
            "!failed to get account for user_id 00000000-0000-4000-8000-000000000009: account not found",
        ),
        (
            "local id = nk.users_get_username({'ann'})[1].user_id local after, before = nk.wallet_update(id, {coins = 5}) after = nk.wallet_update(id, {coins = -2}) return after.coins .. nk.json_encode(before)",
            "3{}",
        ),
        (
            "return nk.wallet_update(nk.users_get_username({'ann'})[1].user_id, {coins = -4})",
            "!failed to update user wallet: wallet update rejected negative value at path 'coins'",
        ),
        (
            "local id = nk.users_get_username({'ann'})[1].user_id nk.link_custom(id, 'custom-2') nk.unlink_device(id, 'device-number-1') return nk.account_get_id(id).custom_id",
            "custom-2",
        ),
        (
            "return nk.link_custom(nk.users_get_username({'ann'})[1].user_id, 'custom-1')",
            "!error linking: Custom ID is already in use.",
        ),
        (
            "local t, exp = nk.authenticate_token_generate('00000000-0000-4000-8000-000000000009', 'x', 0, {a = 'b'}) return exp .. '' .. select(2, t:gsub('%.', ''))",
            "17000000602",
        ),
        (
            "nk.users_ban_id({nk.users_get_username({'ann'})[1].user_id}) return nk.authenticate_custom('custom-2')",
            "!error finding or creating user: User account banned.",
        ),
        (
            "nk.users_unban_id({nk.users_get_username({'ann'})[1].user_id}) return (select(2, nk.authenticate_custom('custom-2')))",
            "ann",
        ),
        (
            "nk.account_delete_id(nk.users_get_username({'ann'})[1].user_id) return #nk.users_get_username({'ann'}) .. ''",
            "0",
        ),
    ] {
        assert_eq!(text(body, &mut host), wanted, "{body}");
    }
    let causes: Vec<&str> = host.disconnected.iter().map(|(_, cause)| &**cause).collect();
    assert_eq!(causes, ["Banned", "Deleted"]);
    assert_eq!(host.revoked.len(), 4, "{:?}", host.revoked);
}

#[test]
fn random_users_are_found_however_few_there_are() {
    let mut host = host();
    assert_eq!(text("return #nk.users_get_random(5) .. ''", &mut host), "0");
    let all =
        "local ids = {} for _, u in ipairs(nk.users_get_random(%n)) do ids[u.user_id] = true end
        local n = 0 for _ in pairs(ids) do n = n + 1 end return n .. ''";
    for users in 1..=9 {
        let made = format!("return nk.authenticate_custom('custom-{users}')");
        text(&made, &mut host);
        host.now.unix_ms += 60_000;
        for _ in 0..8 {
            for (wanted, found) in [(1, 1), (4, users.min(4)), (20, users)] {
                let body = all.replace("%n", &wanted.to_string());
                assert_eq!(text(&body, &mut host), found.to_string(), "{wanted} of {users}");
            }
        }
    }
    // Not always the same ones.
    let body = "local seen, n = {}, 0 for _ = 1, 100 do
            local id = nk.users_get_random(1)[1].user_id
            if not seen[id] then seen[id] = true n = n + 1 end
        end return n .. ''";
    assert!(text(body, &mut host).parse::<u32>().unwrap() > 4);
    assert_eq!(text("return #nk.users_get_random(0) .. ''", &mut host), "0");
}

#[test]
fn storage_keeps_tables_versions_and_order() {
    let mut host = host();
    for (body, wanted) in [
        (
            "local a = nk.storage_write({{collection = 'c', key = 'k', value = {n = 1}}}) return a[1].collection .. a[1].key .. tostring(a[1].user_id) .. #a[1].version",
            "ck00000000-0000-0000-0000-00000000000032",
        ),
        (
            "local o = nk.storage_read({{collection = 'c', key = 'k'}, {collection = 'c', key = 'none'}}) return #o .. '' .. o[1].value.n .. o[1].permission_read .. o[1].create_time",
            "1111700000000",
        ),
        (
            "return nk.storage_write({{collection = 'c', key = 'k', value = {n = 2}, version = '*'}})",
            "!failed to write storage objects: Storage write rejected - version check failed.",
        ),
        (
            "return nk.storage_write({{collection = 'c', key = 'k'}})",
            "!bad argument #1 to storage_write (expects value to be table)",
        ),
        (
            "return nk.storage_write({{collection = '', key = 'k', value = {}}})",
            "!bad argument #1 to storage_write (expects collection to be a non-empty string)",
        ),
        (
            "return nk.storage_read({{collection = 'c', key = 'k', user_id = 'x'}})",
            "!bad argument #1 to storage_read (expects user_id to be a valid ID)",
        ),
        (
            "local id = nk.authenticate_custom('custom-1') local w = {} for i = 1, 3 do w[i] = {collection = 'l', key = 'k' .. i, value = {i = i}, user_id = id, permission_read = 2} end nk.storage_write(w) local o, c = nk.storage_list(id, 'l', 2) local p, d = nk.storage_list(id, 'l', 2, c) return #o .. type(c) .. #p .. type(d) .. p[1].key",
            "2string1nilk3",
        ),
        (
            "nk.storage_delete({{collection = 'c', key = 'k'}}) return #nk.storage_read({{collection = 'c', key = 'k'}}) .. ''",
            "0",
        ),
        (
            "return nk.storage_delete({{collection = 'c', key = 'k'}})",
            "!failed to remove storage: Storage delete rejected - not found, version check failed, or permission denied.",
        ),
        ("return #nk.storage_read({}) .. ''", "0"),
    ] {
        assert_eq!(text(body, &mut host), wanted, "{body}");
    }
}

/// What clients may store scripts read whole, and write back whole; what they cannot read is an
/// error, and not an empty table that would be written back.
#[test]
fn nested_values_are_read_whole_or_not_at_all() {
    use game::db::Database as _;
    let mut host = host();
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let raw = |host: &mut TestHost, sql: &str, json: &str| {
        let db = host.real_db.as_mut().unwrap();
        db.execute(sql, &[game::db::Param::Text(json)]).unwrap();
    };
    let bump = "local o = nk.storage_read({{collection = 'c', key = 'k'}})[1]
        local at, levels = o.value, 1
        while type(at.a) == 'table' do at, levels = at.a, levels + 1 end
        at.a = at.a + 1
        nk.storage_write({{collection = 'c', key = 'k', value = o.value}})
        return levels .. '/' .. at.a";
    text("nk.storage_write({{collection = 'c', key = 'k', value = {}}}) return ''", &mut host);
    for levels in [1, 64, 65, 100, 127] {
        raw(&mut host, "UPDATE storage SET value = $1", &nested(levels));
        assert_eq!(text(bump, &mut host), format!("{levels}/2"));
        assert_eq!(text(bump, &mut host), format!("{levels}/3"));
    }
    for damaged in [&*nested(128), &nested(20_000), "{", "", "\u{e4}"] {
        raw(&mut host, "UPDATE storage SET value = $1", damaged);
        let refused = text(bump, &mut host);
        assert!(refused.starts_with("!value of storage object c/k of 0000"), "{refused}");
        assert!(refused.contains("cannot be read"), "{refused}");
        let list = "return #nk.storage_list('', 'c', 10)";
        assert!(text(list, &mut host).starts_with("!value of"), "{damaged:.20}");
    }
    let id = text("return (nk.authenticate_custom('custom-1'))", &mut host);
    for (column, what) in [("metadata", "metadata"), ("wallet", "wallet")] {
        raw(&mut host, &format!("UPDATE users SET {column} = $1"), &nested(128));
        let refused = text(&format!("return nk.account_get_id('{id}').username"), &mut host);
        assert!(refused.starts_with(&format!("!{what} of user {id} cannot be read")), "{refused}");
        raw(&mut host, &format!("UPDATE users SET {column} = $1"), "{}");
    }
    let deep = "local v = {} for i = 1, %n do v = {a = v} end
        nk.storage_write({{collection = 'c', key = 'k', value = v}}) return 'written'";
    assert_eq!(text(&deep.replace("%n", "126"), &mut host), "written");
    let refused = text(&deep.replace("%n", "127"), &mut host);
    assert!(refused.contains("nested deeper"), "{refused}");
}

#[test]
fn matches_are_listed_and_found() {
    let mut host = host();
    let node = host.directory.nodes().here();
    let id = MatchId::authoritative(Uuid::from_u128(1), node);
    host.directory.apply(&DirectoryEvent::MatchCreated {
        id,
        version: Version { node, number: 1 },
        info: MatchInfo::authoritative("arena".into(), 10, r#"{"mode":"ctf"}"#, 5).into(),
        size: 3,
    });
    let row = r#"{"authoritative":true,"handler_name":"arena","label":"{\"mode\":\"ctf\"}","match_id":"00000000-0000-0000-0000-000000000001.node1","size":3,"tick_rate":10}"#;
    for (body, wanted) in [
        ("return nk.json_encode(nk.match_list(10, true, nil, 0, 3, '+label.mode:ctf')[1])", row),
        ("return nk.json_encode(nk.match_get('00000000-0000-0000-0000-000000000001.node1'))", row),
        ("return #nk.match_list(10, nil, nil, nil, 2, nil) .. ''", "0"),
        ("return #nk.match_list(nil, nil, nil, nil, nil, nil) .. ''", "1"),
        ("return #nk.match_list(1, nil, 'other', nil, nil, nil) .. ''", "0"),
        ("return #nk.match_list(10, true) .. #nk.match_list(10)", "11"),
        // A query makes the label count for nothing, however empty both are.
        ("return #nk.match_list(10, true, '', nil, nil, '+label.mode:ctf') .. ''", "1"),
        ("return #nk.match_list(10, true, 'other', nil, nil, '') .. ''", "1"),
        (
            "return nk.match_list(10, 5, nil, nil, nil, nil)",
            "!bad argument #2 to match_list (expects authoritative true/false or nil)",
        ),
        ("return tostring(nk.match_get('00000000-0000-0000-0000-000000000002.node1'))", "nil"),
        ("return tostring(nk.match_get('00000000-0000-0000-0000-000000000001.other'))", "nil"),
        ("return nk.match_get('x')", "!failed to get match: match id invalid"),
    ] {
        assert_eq!(text(body, &mut host), wanted, "{body}");
    }
    let bad = text("return nk.match_list(1, true, nil, nil, nil, '+label.x:/(/')", &mut host);
    assert!(bad.starts_with("!failed to list matches: error parsing query string: "), "{bad}");
}
