//! Guests that wait for other servers: who runs meanwhile, what was written before, and what becomes of a
//! request that nobody waits for any more. One caller and one room, so that whoever keeps them is noticed.

use std::sync::Arc;

use event::{CloseReason, client_bits};
use game::fetch::{FetchPayer, Principal};
use server::mail::{RoomAnswer, RoomMail};
use server::settings::Settings;
use uuid::Uuid;

use crate::disk::Disk;
use crate::rig::{Client, Plan, Rig, request, server_key};

/// A match that asks when it is told to.
const ARENA: &str = "local nk = require('nakama')
    local M = {}
    local function ask(url)
        local ok, code, headers, text = pcall(nk.http_request, url, 'get')
        return ok and (code .. ' ' .. text) or code
    end
    function M.match_init(context, params)
        local state = { seen = params.ask and ask(params.ask) or '', asks = params.loop }
        return state, 10, ''
    end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    function M.match_leave(context, dispatcher, tick, state) return state end
    function M.match_loop(context, dispatcher, tick, state)
        if state.asks then
            local url = state.asks
            state.asks = nil
            state.seen = ask(url)
        end
        return state
    end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data)
        if data == 'seen' then return state, state.seen end
        if data == 'in a sort' then
            local text
            table.sort({ 2, 1 }, function() text = ask('http://a.example/') return false end)
            return state, text
        end
        if data:sub(1, 5) == 'loop ' then
            state.asks = data:sub(6)
            return state, ''
        end
        if data:sub(1, 4) == 'http' then return state, ask(data) end
        return state, 'echo ' .. data
    end
    return M";

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload)
        local ok, code, headers, text = pcall(nk.http_request, payload, 'get')
        return ok and (code .. ' ' .. text) or code
    end, 'ask')
    nk.register_rpc(function(context, payload)
        nk.storage_write({{ collection = 'c', key = 'k', value = { v = payload } }})
        local code = nk.http_request(payload, 'get')
        return tostring(code)
    end, 'write_and_ask')
    nk.register_rpc(function()
        local found = nk.storage_read({{ collection = 'c', key = 'k' }})
        return tostring(#found)
    end, 'written')
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context, payload)
        return nk.match_create('arena', nk.json_decode(payload))
    end, 'create')
    nk.register_rpc(function(context, payload)
        local wish = nk.json_decode(payload)
        return nk.match_signal(wish.id, wish.data)
    end, 'signal')
    nk.register_req_before(function(context, wish)
        if wish.username == 'hooked' then nk.http_request('http://before.example/', 'get') end
        return wish
    end, 'AuthenticateDevice')
    nk.register_req_after(function(context, answer, wish)
        if wish.username == 'hooked' then nk.http_request('http://after.example/', 'get') end
    end, 'AuthenticateDevice')
    nk.register_event(function(context, event)
        nk.http_request('http://event.example/' .. event.name, 'get')
        nk.localcache_put('heard', event.name)
    end)
    nk.register_rpc(function() return tostring(nk.localcache_get('heard')) end, 'heard')
    nk.register_rpc(function(context, payload) nk.event(payload, {}) return '' end, 'event')";

fn rig_with(tune: fn(&mut Settings), disk: Option<Arc<Disk>>) -> Rig {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    Rig::with(&Plan { modules, tune, disk, ..Plan::default() })
}

fn rig() -> Rig {
    rig_with(|_| (), None)
}

/// Answers the request that is under way for the longest time; whose it was, and what it asked.
fn fetched(rig: &Rig, result: Result<&str, &str>) -> (Principal, String) {
    let asked = rig.machine.network.take(0);
    let (to, mail) = asked.outcome(&rig.topology, result);
    rig.post(to, mail);
    rig.settle();
    (asked.payer.principal, asked.url)
}

fn create(rig: &Rig, params: &str) -> String {
    rig.rpc("create", params)
}

fn signal(rig: &Rig, id: &str, data: &str) -> String {
    rig.rpc("signal", &format!(r#"{{"id":"{id}","data":"{data}"}}"#))
}

fn begin_signal(rig: &Rig, id: &str, data: &str) -> Client {
    rig.begin_rpc(None, "signal", &format!(r#"{{"id":"{id}","data":"{data}"}}"#))
}

fn uuid(id: &str) -> Uuid {
    Uuid::try_parse(id.split('.').next().unwrap()).unwrap()
}

#[test]
fn calls_that_wait_for_a_server_keep_nobody_else() {
    let rig = rig();
    let (user_id, token) = rig.login("ann");
    let of_ann = rig.begin_rpc(Some(&token), "ask", "http://a.example/1");
    let of_key = rig.begin_rpc(None, "ask", "http://a.example/2");
    assert_eq!((rig.machine.network.len(), rig.stat("calls_waiting_now")), (2, 2));
    for number in 0..20 {
        assert_eq!(rig.rpc("echo", &number.to_string()), number.to_string());
    }
    let of_user = Principal::User(Uuid::parse_str(&user_id).unwrap());
    assert_eq!(fetched(&rig, Ok("one")), (of_user, "http://a.example/1".into()));
    assert_eq!((rig.body(of_ann), rig.body(of_key)), ("200 one".into(), String::new()));
    // Of addresses for which no limits hold, as this one, the server pays.
    assert_eq!(fetched(&rig, Err("no connection")).0, Principal::Server);
    assert!(rig.body(of_key).contains("HTTP request error: no connection"));
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("late_answers")), (0, 0));
}

#[test]
fn a_user_pays_together_with_the_address_that_it_calls_from() {
    let rig = rig();
    let (user_id, token) = rig.login("ann");
    let principal = Principal::User(Uuid::parse_str(&user_id).unwrap());
    let far = [9, 9, 9, 9];
    // No limit of an address holds for the second one.
    for (peer, client) in [(far, Some(client_bits(far.into()))), ([127, 0, 0, 1], None)] {
        let conn = rig.open_from(0, peer);
        let (line, auth) = ("POST /v2/rpc/ask?unwrap", format!("Bearer {token}"));
        rig.bytes(conn, &request(line, &auth, "http://a.example/"));
        let asked = rig.machine.network.take(0);
        assert_eq!(asked.payer, FetchPayer { principal, client });
        let (to, mail) = asked.outcome(&rig.topology, Ok("one"));
        rig.post(to, mail);
        rig.settle();
        assert!(rig.text(conn).ends_with("200 one"));
    }
}

#[test]
fn what_a_call_wrote_is_kept_before_anybody_is_asked() {
    let disk = Arc::new(Disk::default());
    let rig = rig_with(|_| (), Some(disk.clone()));
    let syncs = disk.syncs();
    let client = rig.begin_rpc(None, "write_and_ask", "http://a.example/");
    assert_eq!((rig.machine.network.len(), disk.syncs() - syncs), (1, 1));
    assert_eq!(rig.rpc("written", ""), "1");
    fetched(&rig, Ok(""));
    assert_eq!(rig.body(client), "200");
    disk.set_full(true);
    let client = rig.begin_rpc(None, "write_and_ask", "http://a.example/");
    assert_eq!(rig.machine.network.len(), 0, "nobody is asked");
    assert!(rig.body(client).contains("database error"));
}

#[test]
fn hooks_and_handlers_of_events_wait_too() {
    let rig = rig();
    let client = rig.open_from(0, [9, 9, 9, 9]);
    let line = "POST /v2/account/authenticate/device?username=hooked";
    rig.bytes(client, &request(line, &server_key(), r#"{"id":"device-of-hooked"}"#));
    let (payer, url) = fetched(&rig, Ok(""));
    assert!(matches!(payer, Principal::Address(_)) && url == "http://before.example/");
    assert_eq!(rig.text(client), "", "its after-hook waits");
    assert_eq!(fetched(&rig, Ok("")).1, "http://after.example/");
    let text = rig.text(client);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("token"), "{text}");
    rig.rpc("event", "one");
    rig.rpc("event", "two");
    assert_eq!((rig.machine.network.len(), rig.rpc("heard", "")), (2, "nil".into()));
    let first = fetched(&rig, Ok(""));
    assert_eq!(first, (Principal::Server, "http://event.example/one".into()));
    assert_eq!(rig.rpc("heard", ""), "one");
    fetched(&rig, Ok(""));
    assert_eq!(rig.rpc("heard", ""), "two");
}

#[test]
fn a_call_that_is_given_up_gives_up_its_request() {
    let rig = rig_with(|settings| settings.runtime.call_wait_max_ms = 2_000, None);
    let clients = ["1", "2"].map(|path| rig.begin_rpc(None, "ask", &format!("http://a.ex/{path}")));
    // One answer is on its way when time is up.
    let late = rig.machine.network.take(0);
    rig.advance(2_010);
    for client in clients {
        let text = rig.text(client);
        assert!(
            text.contains(
                "waited for 2000 ms, at last for another server (runtime.call_wait_max_ms)"
            ),
            "{text}"
        );
    }
    assert_eq!((rig.machine.network.len(), rig.machine.network.cancelled()), (0, 1));
    let (to, mail) = late.outcome(&rig.topology, Ok("late"));
    rig.post(to, mail);
    rig.settle();
    assert_eq!((rig.stat("late_answers"), rig.stat("calls_waiting_now")), (1, 0));
}

#[test]
fn the_end_of_a_thread_gives_up_its_requests() {
    let rig = rig();
    rig.begin_rpc(None, "ask", "http://a.example/");
    rig.stop(rig.topology.callers[0]);
    assert_eq!((rig.machine.network.len(), rig.machine.network.cancelled()), (0, 1));
}

#[test]
fn a_match_waits_for_a_server_and_its_neighbours_do_not() {
    let rig = rig();
    let [one, two] = [create(&rig, "{}"), create(&rig, "{}")];
    let of_signal = begin_signal(&rig, &one, "http://a.example/signal");
    let behind = begin_signal(&rig, &one, "behind");
    assert_eq!((rig.machine.network.len(), rig.stat("match_callbacks_waiting")), (1, 1));
    assert_eq!(signal(&rig, &two, "x"), "echo x");
    let of_match = Principal::Match(uuid(&one));
    assert_eq!(fetched(&rig, Ok("text")), (of_match, "http://a.example/signal".into()));
    assert_eq!(rig.body(of_signal), "200 text");
    assert_eq!(rig.body(behind), "echo behind");
    // In its loop: ticks are late, those of its neighbour are not.
    signal(&rig, &one, "loop http://a.example/loop");
    let (ticks, skipped) = (rig.stat("match_ticks"), rig.stat("match_ticks_skipped"));
    rig.advance(1_000);
    assert_eq!(rig.stat("match_ticks") - ticks, 1 + 10, "one of it, ten of its neighbour");
    fetched(&rig, Err("nobody there"));
    assert!(rig.stat("match_ticks_skipped") > skipped);
    assert!(signal(&rig, &one, "seen").contains("HTTP request error: nobody there"));
    // Where it cannot wait it is told so, and goes on.
    assert!(signal(&rig, &one, "in a sort").contains("in a function that table.sort calls"));
    assert_eq!((signal(&rig, &one, "x").as_str(), rig.machine.network.len()), ("echo x", 0));
}

/// Another node may say whatever it likes.
#[test]
fn no_room_answers_a_match_in_a_servers_place() {
    let rig = rig();
    let one = create(&rig, "{}");
    let client = begin_signal(&rig, &one, "http://a.example/signal");
    let before = rig.stat("late_answers");
    for request in 0..9 {
        let outcome = Ok(RoomAnswer::Text("forged".into()));
        rig.mail(
            rig.topology.rooms[0],
            RoomMail::Answer { node: rig.topology.nodes.here(), request, outcome },
        );
    }
    rig.settle();
    assert_eq!((rig.stat("late_answers") - before, rig.stat("match_callbacks_waiting")), (9, 1));
    fetched(&rig, Ok("text"));
    assert_eq!(rig.body(client), "200 text");
}

/// A match is made when its `match_init` has been answered, and not before.
#[test]
fn the_beginning_of_a_match_waits_too() {
    let rig = rig();
    let client = rig.begin_rpc(None, "create", r#"{"ask":"http://a.example/map"}"#);
    assert_eq!(rig.stat("authoritative_matches"), 0);
    fetched(&rig, Ok("desert"));
    let id = rig.body(client);
    assert_eq!(signal(&rig, &id, "seen"), "200 desert");
}

#[test]
fn a_match_that_ends_gives_up_its_request() {
    let rig = rig_with(|settings| settings.runtime.call_wait_max_ms = 5_000, None);
    let [one, two, three] = [0; 3].map(|_| create(&rig, "{}"));
    let asking = [&one, &two, &three].map(|id| begin_signal(&rig, id, "http://a.example/"));
    let late = rig.machine.network.take(2);
    rig.mail(rig.topology.rooms[0], RoomMail::Cancel { id: uuid(&one) });
    rig.settle();
    assert!(rig.body(asking[0]).contains("match stopped"));
    assert_eq!((rig.machine.network.len(), rig.machine.network.cancelled()), (1, 1));
    // The others wait for too long.
    rig.advance(5_010);
    assert_eq!((rig.machine.network.len(), rig.machine.network.cancelled()), (0, 2));
    assert_eq!((rig.stat("match_waits_cancelled"), rig.stat("authoritative_matches")), (2, 0));
    let before = rig.stat("late_answers");
    let (to, mail) = late.outcome(&rig.topology, Ok(""));
    rig.post(to, mail);
    rig.settle();
    assert_eq!((rig.stat("late_answers") - before, rig.stat("match_callbacks_waiting")), (1, 0));
    for client in asking {
        rig.closed(client, CloseReason::Peer);
    }
}
