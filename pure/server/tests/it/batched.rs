//! RPC functions that write, in the batcher's transaction: which get there, that they share its commit,
//! and that nothing is left of one that cannot stay.

use std::cell::Cell;
use std::sync::Arc;

use server::settings::Settings;

use crate::disk::Disk;
use crate::rig::{Client, Plan, Rig, request, server_key};

/// `save` writes a new object whose key it is sent, tells everybody whom a script can tell, and then does
/// what is asked for besides. `log` is what a module keeps, of each VM for itself.
const MODULE: &str = "local nk = require('nakama')
    local function save(context, payload)
        local wish = nk.json_decode(payload)
        nk.storage_write({ { collection = 'c', key = wish.key, user_id = context.user_id,
            value = {}, version = '*' } })
        if context.user_id then
            nk.notification_send(context.user_id, wish.key, { key = wish.key }, 1, nil, true)
        end
        nk.stream_send({ mode = 100, label = 'news' }, wish.key)
        if wish.spin then for i = 1, 1e9 do if i == 3e7 then break end end end
        if wish.cache then nk.localcache_put('cached', wish.key, 0) end
        if wish.hash then nk.bcrypt_compare('x', 'y') end
        if wish.sql then nk.sql_query('SELECT 1 AS one') end
        if wish.count then nk.stream_count({ mode = 100, label = 'news' }) end
        if wish.many then
            local objects = {}
            for i = 1, 40 do
                objects[i] = { collection = 'c', key = wish.key .. i, user_id = context.user_id, value = {} }
            end
            nk.storage_write(objects)
        end
        if wish.fail then error({ 'as asked', 9 }) end
        return wish.key
    end
    for _, id in ipairs({ 'save', 'spin', 'cache', 'hash', 'sql', 'count', 'many' }) do
        nk.register_rpc(save, id)
    end
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context)
        local objects = nk.storage_list(context.user_id, 'c', 100)
        local keys = {}
        for i, object in ipairs(objects) do keys[i] = object.key end
        table.sort(keys)
        return table.concat(keys, ' ')
    end, 'keys')";

/// A debug build on a busy machine is slow.
fn on(settings: &mut Settings) {
    settings.runtime.batch_slice_us = 20_000;
}

fn rig_with(disk: Option<&Arc<Disk>>, tune: fn(&mut Settings)) -> Rig {
    let plan = Plan { callers: 2, modules: &[("save.lua", MODULE)], tune, ..Plan::default() };
    Rig::with(&Plan { disk: disk.cloned(), ..plan })
}

fn call(rig: &Rig, token: &str, id: &str, body: &str) -> Client {
    let client = rig.open(0);
    let line = format!("POST /v2/rpc/{id}?unwrap");
    rig.bytes_only(client, &request(&line, &format!("Bearer {token}"), body));
    client
}

/// The answer to a call that may take all the turns that it needs.
fn answer(rig: &Rig, token: &str, id: &str, body: &str) -> String {
    let client = call(rig, token, id, body);
    rig.settle();
    rig.text(client)
}

/// The keys of all objects of a user, and how many notifications the user has.
fn left(rig: &Rig, token: &str) -> (String, usize) {
    let keys = answer(rig, token, "keys", "");
    let client = rig.open(0);
    let auth = format!("Bearer {token}");
    rig.bytes(client, &request("GET /v2/notification?limit=100", &auth, ""));
    let notes = rig.text(client).matches("\"subject\"").count();
    (keys.split_once("\r\n\r\n").unwrap().1.to_owned(), notes)
}

/// Lets the server learn that a function writes and is quick.
fn learn(rig: &Rig, token: &str, id: &str) {
    let first = answer(rig, token, id, &format!("{{\"key\":\"first-of-{id}\"}}"));
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
}

#[test]
fn a_quick_function_that_writes_shares_the_commit_of_the_batch() {
    let disk = Arc::new(Disk::default());
    let rig = rig_with(Some(&disk), on);
    let token = rig.login("saver").1;
    learn(&rig, &token, "save");
    assert_eq!((rig.stat("rpc_count"), rig.stat("rpc_batched")), (1, 0), "nothing was known");
    let (syncs, commits) = (disk.syncs(), rig.stat("db_commits"));
    let clients: Vec<Client> =
        (0..10).map(|at| call(&rig, &token, "save", &format!("{{\"key\":\"k{at}\"}}"))).collect();
    let newcomer = rig.open(0);
    let line = "POST /v2/account/authenticate/device?create=true";
    rig.bytes_only(newcomer, &request(line, &server_key(), r#"{"id":"device-number-1"}"#));
    rig.turn(rig.topology.cores[0]);
    rig.turn(rig.topology.batcher);
    assert_eq!((disk.syncs() - syncs, rig.stat("db_commits") - commits), (1, 1));
    rig.settle();
    for (at, client) in clients.into_iter().enumerate() {
        let text = rig.text(client);
        assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with(&format!("k{at}")), "{text}");
    }
    assert!(rig.text(newcomer).starts_with("HTTP/1.1 200 "));
    assert_eq!((rig.stat("rpc_batched"), rig.stat("rpc_undone")), (10, 0));
}

#[test]
fn what_only_reads_or_is_unknown_stays_with_callers() {
    let rig = rig_with(None, on);
    let token = rig.login("reader").1;
    for _ in 0..5 {
        answer(&rig, &token, "echo", "x");
        answer(&rig, &token, "keys", "");
    }
    assert_eq!((rig.stat("rpc_count"), rig.stat("rpc_batched")), (10, 0));
}

#[test]
fn the_setting_keeps_all_out() {
    let rig = rig_with(None, |_| {});
    let token = rig.login("saver").1;
    learn(&rig, &token, "save");
    answer(&rig, &token, "save", "{\"key\":\"k\"}");
    assert_eq!((rig.stat("rpc_count"), rig.stat("rpc_batched")), (2, 0));
}

/// Each of these begins in the batch, and must not stay there.
#[test]
fn a_call_that_cannot_stay_is_undone_and_done_by_a_caller_once() {
    let rig = rig_with(None, on);
    for kind in ["spin", "cache", "hash", "sql", "count", "many"] {
        let token = rig.login(kind).1;
        learn(&rig, &token, kind);
        let (undone, batched) = (rig.stat("rpc_undone"), rig.stat("rpc_batched"));
        let told = rig.posted(rig.topology.rooms[0], "streams");
        // Beside a neighbour in the same batch, whose work stays.
        let neighbour = call(&rig, &token, kind, "{\"key\":\"before\"}");
        let body = format!("{{\"key\":\"it\",\"{kind}\":true}}");
        let client = call(&rig, &token, kind, &body);
        rig.settle();
        let counted = [rig.stat("rpc_undone") - undone, rig.stat("rpc_batched") - batched];
        let text = rig.text(client);
        assert_eq!(counted, [1, 1], "{kind}: {text} {}", rig.stat("rpc_count"));
        // A write that had stayed would be in its way.
        assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("it"), "{kind}: {text}");
        assert!(rig.text(neighbour).ends_with("before"), "{kind}");
        let (keys, notes) = left(&rig, &token);
        let keys: Vec<&str> = keys.split(' ').filter(|key| !key.starts_with("it")).collect();
        assert_eq!(keys, ["before".to_owned(), format!("first-of-{kind}")], "{kind}");
        assert_eq!(notes, 3, "{kind}: one for each call that is over");
        let told = rig.posted(rig.topology.rooms[0], "streams") - told;
        assert!((1..=3).contains(&told), "{kind}: {told}");
        // The function is with the callers for a second, whoever calls it.
        answer(&rig, &token, kind, "{\"key\":\"later\"}");
        assert_eq!(rig.stat("rpc_undone") - undone, 1, "{kind}");
        assert_eq!(rig.stat("rpc_batched") - batched, 1, "{kind}");
        rig.advance(1_000);
        answer(&rig, &token, kind, "{\"key\":\"much-later\"}");
        assert_eq!(rig.stat("rpc_batched") - batched, 2, "{kind}");
    }
    assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting")), (0, 0));
}

/// A user who has just done something slow moves a coin as quickly as anybody.
#[test]
fn who_was_slow_in_one_function_is_in_the_batch_with_another() {
    let rig = rig_with(None, on);
    let [slow, other] = ["slow", "other"].map(|name| rig.login(name).1);
    learn(&rig, &other, "save");
    let batched = |token: &str, id: &str, (body, took_ms): (&str, u64)| {
        let before = rig.stat("rpc_batched");
        rig.set_look_ms(took_ms);
        let text = answer(&rig, token, id, body);
        rig.set_look_ms(0);
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        rig.stat("rpc_batched") - before
    };
    assert_eq!(batched(&slow, "hash", (r#"{"key":"a"}"#, 60)), 0, "a function unknown");
    assert_eq!(batched(&slow, "save", (r#"{"key":"b"}"#, 0)), 1);
    // In this one as well: now it stays out, and others only as long as the function does.
    assert_eq!(batched(&slow, "save", (r#"{"key":"c","hash":true}"#, 60)), 0);
    rig.advance(1_000);
    assert_eq!(batched(&slow, "save", (r#"{"key":"d"}"#, 0)), 0);
    assert_eq!(batched(&other, "save", (r#"{"key":"e"}"#, 0)), 1);
    rig.advance(5_000);
    assert_eq!(batched(&slow, "save", (r#"{"key":"f"}"#, 0)), 1);
    assert_eq!(rig.stat("rpc_undone"), 1);
}

/// What calls in the batch compute is the function's, also those of who was slow in another one.
#[test]
fn who_was_slow_elsewhere_cannot_keep_a_function_in_the_batch_that_is_quick_no_more() {
    let rig = rig_with(None, on);
    let [slow, other] = ["slow", "other"].map(|name| rig.login(name).1);
    learn(&rig, &other, "save");
    rig.set_look_ms(60);
    answer(&rig, &slow, "hash", r#"{"key":"a"}"#);
    // More than the part of a slice (`SLICE_PARTS`) that it may take on the mean, and less than a slice.
    rig.set_look_ms(6);
    for _ in 0..32 {
        answer(&rig, &slow, "save", r#"{"key":"b"}"#);
    }
    rig.set_look_ms(0);
    let before = rig.stat("rpc_batched");
    answer(&rig, &other, "save", r#"{"key":"c"}"#);
    assert_eq!((rig.stat("rpc_batched") - before, rig.stat("rpc_undone")), (0, 0));
}

/// One hiccup of the machine keeps a function out for a second; who does it on purpose has a slice a minute.
#[test]
fn a_function_that_leaves_again_is_with_the_callers_for_a_minute() {
    let rig = rig_with(None, on);
    let token = rig.login("hasher").1;
    learn(&rig, &token, "hash");
    let key = Cell::new(0);
    let undone_and_batched = |body: &str| {
        key.set(key.get() + 1);
        let before = (rig.stat("rpc_undone"), rig.stat("rpc_batched"));
        answer(&rig, &token, "hash", &format!("{{\"key\":\"k{}\"{body}}}", key.get()));
        (rig.stat("rpc_undone") - before.0, rig.stat("rpc_batched") - before.1)
    };
    assert_eq!(undone_and_batched(",\"hash\":true"), (1, 0));
    rig.advance(1_000);
    assert_eq!(undone_and_batched(""), (0, 1), "a second later");
    assert_eq!(undone_and_batched(",\"hash\":true"), (1, 0));
    rig.advance(59_999);
    assert_eq!(undone_and_batched(""), (0, 0), "again, so for a minute");
    rig.advance(1);
    assert_eq!(undone_and_batched(""), (0, 1));
    rig.advance(60_000);
    assert_eq!(undone_and_batched(",\"hash\":true"), (1, 0));
    rig.advance(1_000);
    assert_eq!(undone_and_batched(""), (0, 1), "after a good minute it is the first time");
}

/// Calls of it that are in the batch already, behind the one that did not stay, do not begin there.
#[test]
fn one_slice_is_all_that_a_function_gets_of_a_batch() {
    let rig = rig_with(None, on);
    let token = rig.login("spinner").1;
    learn(&rig, &token, "spin");
    let clients: Vec<Client> = (0..8)
        .map(|at| call(&rig, &token, "spin", &format!("{{\"key\":\"k{at}\",\"spin\":true}}")))
        .collect();
    rig.settle();
    assert!(clients.into_iter().all(|client| rig.text(client).starts_with("HTTP/1.1 200 ")));
    assert_eq!((rig.stat("rpc_undone"), rig.stat("rpc_batched")), (1, 0));
}

/// It had been taken before, so that nothing that has come meanwhile is in its way.
#[test]
fn a_call_that_is_undone_is_not_refused_however_many_wait() {
    let tune: fn(&mut Settings) = |settings| {
        on(settings);
        settings.shutdown_grace_s = 5;
        settings.limits.calls_waiting = 1;
    };
    let end = "require('nakama').register_shutdown(function() end)";
    let modules = &[("save.lua", MODULE), ("end.lua", end)];
    let rig = Rig::with(&Plan { callers: 2, modules, tune, ..Plan::default() });
    let token = rig.login("hasher").1;
    learn(&rig, &token, "hash");
    let client = call(&rig, &token, "hash", "{\"key\":\"k\",\"hash\":true}");
    // The function for the end of the scripts is run however many wait, and is one more.
    rig.stop(rig.topology.cores[0]);
    rig.settle();
    let text = rig.text(client);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with('k'), "{text}");
    assert_eq!(rig.stat("rpc_undone"), 1);
}

/// As at a caller: each write of a function is committed when it returns, whatever comes after it.
#[test]
fn what_was_written_before_an_error_of_the_script_stays() {
    let rig = rig_with(None, on);
    let token = rig.login("failer").1;
    learn(&rig, &token, "save");
    let text = answer(&rig, &token, "save", "{\"key\":\"kept\",\"fail\":true}");
    assert!(text.contains("as asked"), "{text}");
    assert_eq!((rig.stat("rpc_undone"), rig.stat("rpc_batched")), (0, 1));
    assert_eq!(left(&rig, &token).0, "first-of-save kept");
}

#[test]
fn what_is_not_committed_is_an_error_for_each() {
    let disk = Arc::new(Disk::default());
    let rig = rig_with(Some(&disk), on);
    let token = rig.login("saver").1;
    learn(&rig, &token, "save");
    disk.set_full(true);
    let told = rig.posted(rig.topology.rooms[0], "streams");
    for at in 0..3 {
        let text = answer(&rig, &token, "save", &format!("{{\"key\":\"k{at}\"}}"));
        assert!(text.starts_with("HTTP/1.1 500 "), "{text}");
    }
    assert_eq!(rig.posted(rig.topology.rooms[0], "streams"), told, "nobody is told");
}
