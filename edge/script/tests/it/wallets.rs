//! Wallets, their ledger, several changes at once, writing with retries, and ids in scripts' SQL,
//! through Lua and a real database.

use game::db::Database as _;
use store::Store;

use crate::host::TestHost;
use crate::run_on;

/// A host whose database knows ann and bob.
fn host() -> TestHost {
    let store = Store::open_in_memory().unwrap();
    let mut host = TestHost { real_db: Some(store.connect().unwrap()), ..TestHost::default() };
    for name in ["ann", "bob"] {
        text(&format!("nk.authenticate_custom('custom-{name}', '{name}')"), &mut host);
    }
    host
}

/// The answer of a function that has `ann` and `bob`, their ids, in scope.
fn text(body: &str, host: &mut TestHost) -> String {
    let body = format!(
        "local function id(name) local u = nk.users_get_username({{name}})[1] return u and u.user_id end
         local ann, bob = id('ann'), id('bob')
         local function coins(id) return nk.account_get_id(id).wallet.coins or 0 end
         {body}"
    );
    let answer = run_on(&body, "", host);
    assert!(!host.real_db.as_ref().unwrap().in_transaction(), "left open by {body}");
    match answer {
        Ok(answer) => answer.unwrap_or_default(),
        Err(error) => format!("!{}", error.message),
    }
}

fn check(host: &mut TestHost, cases: &[(&str, &str)]) {
    for (body, wanted) in cases {
        assert_eq!(text(body, host), *wanted, "{body}");
        host.now.unix_ms += 1_000;
    }
}

const NOBODY: &str = "'00000000-0000-4000-8000-000000000009'";

#[test]
fn a_wallet_changes_with_its_ledger_or_not_at_all() {
    let mut host = host();
    check(
        &mut host,
        &[
            (
                "local after, before = nk.wallet_update(ann, {coins = 100, gems = 1}, {why = 'start'}, true)
                 return after.coins .. after.gems .. nk.json_encode(before)",
                "1001{}",
            ),
            (
                "return nk.wallet_update(ann, {gems = 1, coins = -101}, {why = 'too much'}, true)",
                "!failed to update user wallet: wallet update rejected negative value at path 'coins'",
            ),
            ("return coins(ann) .. nk.account_get_id(ann).wallet.gems", "1001"),
            ("return #nk.wallet_ledger_list(ann) .. ''", "1"),
            (
                "local item = nk.wallet_ledger_list(ann)[1]
                 return item.changeset.coins .. item.metadata.why .. #item.id
                     .. tostring(item.user_id == ann) .. (item.update_time - item.create_time)",
                "100start36true0",
            ),
            // Without a ledger, without changes, and with a list instead of a table.
            ("return nk.wallet_update(ann, {coins = 1}).coins .. #nk.wallet_ledger_list(ann)", "1011"),
            ("return nk.wallet_update(ann, {}, nil, true).coins .. #nk.wallet_ledger_list(ann)", "1012"),
            ("return nk.json_encode(nk.wallet_update(bob, {7}))", r#"{"1":7}"#),
            // Numbers of Lua are doubles: beyond 2^53 all are whole.
            ("return nk.wallet_update(bob, {big = 2^60}).big == 2^60 and 'big' or 'lost'", "big"),
            (
                "return nk.wallet_update(bob, {big = 2^63})",
                "!bad argument #2 to wallet_update (expects changeset values to be whole numbers)",
            ),
            (
                "return nk.wallet_update(bob, {big = 2^62 + 2^61 + 2^60})",
                "!failed to update user wallet: wallet update rejected overflow at path 'big'",
            ),
            (
                "return nk.wallet_update(ann, {coins = 0.5})",
                "!bad argument #2 to wallet_update (expects changeset values to be whole numbers)",
            ),
            (
                "return nk.wallet_update(ann, 'coins')",
                "!bad argument #2 to wallet_update (expects a table as changeset value)",
            ),
            ("return nk.wallet_update('x', {})", "!bad argument #1 to wallet_update (expects a valid user id)"),
            (&format!("return nk.wallet_update({NOBODY}, {{coins = 1}})"), "!user not found"),
            (&format!("return #nk.wallet_ledger_list({NOBODY}) .. ''"), "0"),
        ],
    );
}

/// What a script does on a retry of a client: the step that failed must not have paid.
#[test]
fn a_refused_change_of_several_wallets_leaves_all_as_they_were() {
    let mut host = host();
    check(
        &mut host,
        &[
            ("nk.wallets_update({{user_id = ann, changeset = {coins = 10}}}) return coins(ann) .. ''", "10"),
            (
                "return nk.wallets_update({{user_id = ann, changeset = {coins = -5}},
                     {user_id = bob, changeset = {coins = 5}}, {user_id = ann, changeset = {coins = -6}}}, true)",
                "!failed to update user wallet: wallet update rejected negative value at path 'coins'",
            ),
            ("return coins(ann) .. coins(bob) .. #nk.wallet_ledger_list(ann) .. #nk.wallet_ledger_list(bob)", "10000"),
            (
                &format!(
                    "local all = nk.wallets_update({{{{user_id = ann, changeset = {{coins = -5}}}},
                         {{user_id = {NOBODY}, changeset = {{coins = 9}}}},
                         {{user_id = bob, changeset = {{coins = 5}}, metadata = {{from = 'ann'}}}}}}, true)
                     return #all .. all[1].updated.coins .. all[1].previous.coins .. all[2].updated.coins
                         .. tostring(all[2].user_id == bob) .. nk.wallet_ledger_list(bob)[1].metadata.from"
                ),
                "25105trueann",
            ),
            (
                "return nk.wallets_update({{user_id = ann}})",
                "!bad argument #1 to wallets_update (expects changeset to be supplied)",
            ),
            (
                "return nk.wallets_update({{user_id = 5, changeset = {}}})",
                "!bad argument #1 to wallets_update (expects user_id to be string)",
            ),
            ("return #nk.wallets_update({}) .. ''", "0"),
        ],
    );
}

#[test]
fn the_ledger_is_read_page_by_page_and_its_metadata_changes() {
    let mut host = host();
    for n in 1..=5 {
        let body = format!("nk.wallet_update(ann, {{n = {n}}}, {{at = {n}}}, true)");
        text(&body, &mut host);
        // Two within one millisecond are told apart as well.
        host.now.unix_ms += u64::from(n % 2 == 0);
    }
    check(
        &mut host,
        &[
            (
                "local seen, cursor, pages = {}, nil, 0
                 repeat
                     local items, more = nk.wallet_ledger_list(ann, 2, cursor)
                     for _, item in ipairs(items) do seen[item.metadata.at] = true end
                     cursor, pages = more, pages + 1
                 until cursor == ''
                 return #seen .. pages .. nk.wallet_ledger_list(ann, 1)[1].metadata.at",
                "535",
            ),
            ("local items, cursor = nk.wallet_ledger_list(ann, 0) return #items .. cursor", "0"),
            (
                "return nk.wallet_ledger_list(ann, 101)",
                "!bad argument #2 to wallet_ledger_list (expects limit to be 0-100)",
            ),
            (
                "local _, cursor = nk.wallet_ledger_list(ann, 1) return nk.wallet_ledger_list(bob, 1, cursor)",
                "!failed to retrieve user wallet ledger: wallet ledger cursor invalid",
            ),
            (
                "local old = nk.wallet_ledger_list(ann, 1)[1]
                 local item = nk.wallet_ledger_update(old.id, {note = 'x'})
                 local now = nk.wallet_ledger_list(ann, 1)[1]
                 return item.changeset.n .. item.metadata.note .. tostring(item.metadata.at)
                     .. now.metadata.note .. now.metadata.at .. tostring(now.update_time > now.create_time)
                     .. tostring(item.id == old.id and item.user_id == ann)",
                "5xnilx5truetrue",
            ),
            (
                &format!("return nk.wallet_ledger_update({NOBODY}, {{}})"),
                "!failed to update user wallet ledger: wallet ledger item not found",
            ),
            ("nk.account_delete_id(ann) return nk.sql_query('SELECT count(*) AS n FROM wallet_ledger')[1].n .. ''", "0"),
        ],
    );
}

#[test]
fn several_changes_happen_together_or_not_at_all() {
    let mut host = host();
    let state = "local a = nk.account_get_id(ann)
        local objects = nk.storage_read({{collection = 'c', key = 'new', user_id = ann}, {collection = 'c', key = 'old', user_id = ann}})
        return a.display_name .. coins(ann) .. #nk.wallet_ledger_list(ann) .. (#objects > 0 and objects[1].key or '')";
    let all = |coins: &str, delete: &str| {
        format!(
            "local acks, changes = nk.multi_update(
                 {{{{user_id = ann, display_name = 'Ann', metadata = {{level = 2}}}}}},
                 {{{{collection = 'c', key = 'new', user_id = ann, value = {{n = 1}}}}}},
                 {{{{collection = 'c', key = '{delete}', user_id = ann}}}},
                 {{{{user_id = ann, changeset = {{coins = {coins}}}}}}}, true)
             return #acks .. #acks[1].version .. acks[1].key .. changes[1].updated.coins .. changes[1].user_id:sub(1, 0)"
        )
    };
    check(
        &mut host,
        &[
            ("nk.storage_write({{collection = 'c', key = 'old', user_id = ann, value = {}}}) nk.wallet_update(ann, {coins = 3})", ""),
            (state, "30old"),
            (
                &all("-4", "old"),
                "!error running multi update: wallet update rejected negative value at path 'coins'",
            ),
            (state, "30old"),
            (
                &all("4", "none"),
                "!error running multi update: Storage delete rejected - not found, version check failed, or permission denied.",
            ),
            (state, "30old"),
            (&all("4", "old"), "132new7"),
            (state, "Ann71new"),
            ("local acks, changes = nk.multi_update() return tostring(acks) .. tostring(changes)", "nilnil"),
            (
                "local acks, changes = nk.multi_update({}, nil, {}, {{user_id = bob, changeset = {coins = 1}}})
                 return tostring(acks) .. changes[1].updated.coins",
                "nil1",
            ),
            (
                "return nk.multi_update({{display_name = 'x'}})",
                "!bad argument #1 to multi_update (expects a valid user ID)",
            ),
            (
                "return nk.multi_update(nil, {{collection = 'c', key = 'k'}})",
                "!bad argument #2 to multi_update (expects value to be table)",
            ),
            (
                "return nk.multi_update(nil, nil, {5})",
                "!bad argument #3 to multi_update (expects a valid set of storage data)",
            ),
            (
                "return nk.multi_update(nil, nil, nil, {{user_id = ann, changeset = {coins = 'x'}}})",
                "!bad argument #4 to multi_update (expects changeset values to be whole numbers)",
            ),
        ],
    );
}

#[test]
fn a_write_is_tried_again_while_others_write() {
    let mut host = host();
    // The first `others` tries, somebody writes between reading and writing.
    let body = |others: u32, retries: u32| {
        format!(
            "local key, tries = {{collection = 'c', key = 'k'}}, 0
             local function write(n) nk.storage_write({{{{collection = 'c', key = 'k', value = {{n = n}}}}}}) end
             write(1)
             local acks = nk.storage_write_retry({{key}}, function(objects)
                 tries = tries + 1
                 if tries <= {others} then write(100 * tries) end
                 objects[1].value.n = objects[1].value.n + 1
                 return objects
             end, {retries})
             return tries .. '' .. nk.storage_read({{key}})[1].value.n .. acks[1].key"
        )
    };
    let retry = "nk.storage_write_retry({{collection = 'c', key = 'k'}}, function() %s end, 3)";
    check(
        &mut host,
        &[
            (&body(0, 0), "12k"),
            (&body(2, 3), "3201k"),
            (
                &body(4, 3),
                "!failed to write storage objects with retry: Storage write retries exhausted.",
            ),
            ("return #nk.storage_write_retry({}, function() end, 0) .. ''", "0"),
            (
                "nk.storage_write_retry({}, nil, 0)",
                "!bad argument #2 to storage_write_retry (function expected, got nil)",
            ),
            (
                "nk.storage_write_retry({}, function() end, 11)",
                "!bad argument #3 to storage_write_retry (max retries must be a value between 0 and 10)",
            ),
            (
                &retry.replace("%s", ""),
                "!failed to write storage objects with retry: update function error: expects to return a valid table",
            ),
            (&retry.replace("%s", "error({'mine', 3})"), "!mine"),
            (
                &retry.replace("%s", "return {{key = 'k', value = {}}}"),
                "!bad argument #1 to storage_write (expects collection to be supplied)",
            ),
        ],
    );
}

/// As scripts write that were made for PostgreSQL, where ids are texts to them.
#[test]
fn ids_in_sql_are_texts() {
    let mut host = host();
    check(
        &mut host,
        &[
            (
                "local rows = nk.sql_query('SELECT id, username FROM users WHERE id = $1', {ann})
                 return #rows .. rows[1].username .. tostring(rows[1].id == ann)",
                "1anntrue",
            ),
            (
                "local rows = nk.sql_query('SELECT u.id AS who FROM users u WHERE u.id IN ($1, $2) ORDER BY username', {ann, bob})
                 return #rows .. tostring(rows[1].who == ann and rows[2].who == bob)",
                "2true",
            ),
            (
                "return nk.sql_query('SELECT count(*) AS n FROM users WHERE id <> ?', {ann})[1].n .. ''",
                "1",
            ),
            (
                "return nk.sql_query(\"SELECT username FROM users WHERE id = '\" .. bob .. \"'\", {})[1].username",
                "bob",
            ),
            // A script's own column of texts holds texts, and is found by them.
            (
                "nk.sql_exec('CREATE TABLE own (owner TEXT, data BLOB, made UUID)', {})
                 nk.sql_exec('INSERT INTO own VALUES ($1, $2, $3::uuid)', {ann, nk.uuid_string_to_bytes(bob), bob})
                 local row = nk.sql_query('SELECT owner, data, made FROM own WHERE owner = $1 AND made = $2', {ann, bob})[1]
                 return tostring(row.owner == ann) .. #row.data .. tostring(row.made == bob)",
                "true16true",
            ),
            (
                "nk.sql_exec('UPDATE own SET owner = $1 WHERE owner = $2', {bob, ann})
                 return tostring(nk.sql_query('SELECT owner FROM own', {})[1].owner == bob)",
                "true",
            ),
        ],
    );
}
