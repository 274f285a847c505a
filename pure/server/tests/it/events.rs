//! Events: what handlers hear of clients, scripts and sessions, and that those who cause them do not wait
//! and cannot crowd one another out.

use event::CloseReason;

use crate::rig::{Plan, Rig};

/// Keeps a line for each event in the cache, and gives them back.
const MODULE: &str = "
    local nk = require('nakama')
    local function note(context, event)
        if event.name == 'fail' then error('as asked') end
        local reason = event.properties.reason or event.properties.number or ''
        local line = event.name .. ':' .. (context.username or '') .. ':' .. reason .. ':'
            .. tostring(event.external) .. ':' .. context.execution_mode .. ' '
        nk.localcache_put('lines', (nk.localcache_get('lines') or '') .. line)
    end
    nk.register_event(note)
    nk.register_event_session_start(note)
    nk.register_event_session_end(note)
    nk.register_rpc(function(context, payload)
        return nk.localcache_get('lines') or ''
    end, 'lines')
    nk.register_rpc(function(context, payload)
        nk.event('of_script', { number = payload }, 1700000000, false)
        return 'told'
    end, 'tell')
    nk.register_rpc(function(context, payload)
        for i = 1, tonumber(payload) do nk.event('flood', {}) end
        return 'told'
    end, 'flood')
";

fn rig() -> Rig {
    Rig::with(&Plan { cores: 2, modules: &[("events.lua", MODULE)], ..Plan::default() })
}

fn tell(rig: &Rig, token: &str, name: &str) {
    let client = rig.open(0);
    let body = format!(r#"{{"name":"{name}","properties":{{"number":"7"}}}}"#);
    let answer = rig.http(client, "POST /v2/event", &format!("Bearer {token}"), &body);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("{}"), "{answer}");
    rig.closed(client, CloseReason::Peer);
}

#[test]
fn handlers_hear_of_clients_scripts_and_sessions() {
    let rig = rig();
    let (_, token) = rig.login("ann");
    tell(&rig, &token, "of_client");
    assert_eq!(rig.rpc("tell", "3"), "told");
    let socket = rig.socket(1, &token, "");
    rig.closed(socket, CloseReason::Peer);
    let malformed = rig.socket(0, &token, "");
    rig.say(malformed, "{");
    rig.closed(malformed, CloseReason::Peer);
    tell(&rig, &token, "fail");
    let lines = rig.rpc("lines", "");
    let lines: Vec<&str> = lines.split_whitespace().collect();
    assert_eq!(
        lines,
        [
            "of_client:ann:7:true:event",
            "of_script::3:false:event",
            "session_start:ann::false:event",
            "session_end:ann::false:event",
            "session_start:ann::false:event",
            "session_end:ann:received",
            "malformed",
            "payload:false:event",
        ]
    );
    assert_eq!((rig.stat("event_count"), rig.stat("event_errors")), (7, 1));
    assert_eq!((rig.stat("events_waiting"), rig.stat("dropped_events")), (0, 0));
}

#[test]
fn a_flood_is_dropped_and_nobody_waits_for_it() {
    let rig = rig();
    let [(_, ann), (_, bob)] = ["ann", "bob"].map(|name| rig.login(name));
    let thread = rig.topology.events.unwrap();
    rig.freeze(thread, true);
    for _ in 0..10 {
        tell(&rig, &ann, "flood");
    }
    tell(&rig, &bob, "one");
    rig.freeze(thread, false);
    rig.settle();
    // Of 128 places one user has two.
    assert_eq!((rig.stat("event_count"), rig.stat("dropped_events")), (3, 8));
    assert!(rig.rpc("lines", "").contains("one:bob"));
    // A call of a script has a limit of its own before the queue has.
    assert_eq!(rig.rpc("flood", "20000"), "told");
    assert_eq!(rig.stat("event_count"), 3 + 128);
    assert_eq!(rig.stat("dropped_events"), 8 + 20_000 - 128);
}

#[test]
fn without_handlers_there_is_no_thread_and_nothing_is_told() {
    let rig = Rig::new();
    let (_, token) = rig.login("ann");
    tell(&rig, &token, "unheard");
    assert!(rig.topology.events.is_none());
    assert_eq!(rig.stat("dropped_events"), 0);
}

/// A core's companion runs Lua alone: whether there is a handler in another language it does not know.
#[test]
fn what_scripts_on_a_core_tell_of_is_heard_in_any_language() {
    let whisper = "local nk = require('nakama')
        nk.register_rpc(function() nk.event('whispered', {}) end, 'whisper')";
    let (modules, elsewhere) = (&[("whisper.lua", whisper)], &[("events.lua", MODULE)]);
    let rig = Rig::with(&Plan { companions: true, modules, elsewhere, ..Plan::default() });
    (0..20).for_each(|_| drop(rig.rpc("whisper", "")));
    assert!(rig.stat("calls_on_cores") > 0, "none ran there");
    assert_eq!((rig.stat("event_count"), rig.stat("dropped_events")), (20, 0));
}
