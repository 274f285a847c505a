//! The end of the server: matches have their grace, clients their close frame, threads end.

use event::{CloseReason, ThreadId};

use crate::rig::{Client, Plan, Rig, close_frame, request};

const ARENA: &str = "local M = {}
    function M.match_init(context, params) return {}, 10, '' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state, presences) return state end
    function M.match_leave(context, dispatcher, tick, state, presences) return state end
    function M.match_loop(context, dispatcher, tick, state, messages) return state end
    function M.match_terminate(context, dispatcher, tick, state, grace)
        dispatcher.broadcast_message(9, tostring(grace))
        return state
    end
    function M.match_signal(context, dispatcher, tick, state, data) return state, data end
    return M";
const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return nk.match_create('arena', {}) end, 'create')";

fn rig(cores: u16, rooms: u16, grace: bool) -> Rig {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    let tune: fn(&mut server::settings::Settings) =
        if grace { |settings| settings.shutdown_grace_s = 5 } else { |_| {} };
    Rig::with(&Plan { cores, rooms, modules, tune, ..Plan::default() })
}

fn player(rig: &Rig, core: u16) -> Client {
    let (_, token) = rig.login("ada");
    let socket = rig.socket(core, &token, "");
    let id = rig.rpc("create", "");
    rig.say(socket, &format!(r#"{{"cid":"7","match_join":{{"match_id":"{id}"}}}}"#));
    socket
}

#[test]
fn every_match_has_its_grace_once_however_many_cores_stop() {
    let rig = rig(2, 3, true);
    let socket = player(&rig, 1);
    [ThreadId(0), ThreadId(1)].into_iter().for_each(|core| rig.stop(core));
    rig.settle();
    let frames = rig.frames(socket);
    let told = frames.iter().filter(|frame| frame.contains("\"op_code\":\"9\"")).count();
    assert_eq!(told, 1, "match_terminate runs once: {frames:?}");
    rig.advance(4_000);
    assert_eq!(rig.frames(socket), [""; 0], "closed before the grace was over");
    rig.advance(1_500);
    assert_eq!(rig.frames(socket), ["close 1001 server shutting down"]);
    assert!(rig.is_stopped(ThreadId(0)) && !rig.is_stopped(ThreadId(1)));
    rig.bytes(socket, &close_frame());
    rig.closed(socket, CloseReason::Asked);
    assert!(rig.is_stopped(ThreadId(1)));
}

/// Its last callback waits for what it writes, so that it ends neither in a tick nor by its grace.
#[test]
fn a_match_that_ends_when_it_is_answered_keeps_nobody_for_its_grace() {
    let ends = "local nk = require('nakama')
        local M = require('arena')
        function M.match_terminate(context, dispatcher, tick, state) return {ends = true} end
        function M.match_loop(context, dispatcher, tick, state, messages)
            if not state.ends then return state end
            local user_id = '00000000-0000-0000-0000-000000000000'
            nk.storage_write({{collection = 'c', key = 'k', user_id = user_id, value = {}}})
            return nil
        end
        return M";
    let rpcs = RPCS.replace("'arena'", "'ends'");
    let modules = &[("arena.lua", ARENA), ("ends.lua", ends), ("rpcs.lua", rpcs.as_str())];
    let tune: fn(&mut server::settings::Settings) = |settings| settings.shutdown_grace_s = 5;
    let rig = Rig::with(&Plan { modules, tune, ..Plan::default() });
    let socket = player(&rig, 0);
    rig.stop(ThreadId(0));
    rig.settle();
    assert_eq!((rig.stat("authoritative_matches"), rig.frames(socket).len()), (1, 0));
    rig.advance(200);
    assert_eq!((rig.stat("authoritative_matches"), rig.stat("match_errors")), (0, 0));
    assert_eq!(rig.frames(socket), ["close 1001 server shutting down"]);
}

#[test]
fn a_core_that_stops_later_does_not_wait_in_vain() {
    let rig = rig(2, 2, false);
    let socket = player(&rig, 0);
    rig.stop(ThreadId(0));
    rig.settle();
    assert_eq!(rig.frames(socket), ["close 1001 server shutting down"]);
    rig.stop(ThreadId(1));
    rig.settle();
    assert!(rig.is_stopped(ThreadId(1)));
    assert!(!rig.is_stopped(ThreadId(0)), "its client has not answered the close frame");
    rig.advance(2_001);
    assert!(rig.is_closed(socket) && rig.is_stopped(ThreadId(0)));
}

#[test]
fn a_request_under_way_is_answered_and_its_connection_closed() {
    let rig = rig(1, 1, false);
    let (_, token) = rig.login("ada");
    let client = rig.open(0);
    rig.bytes_only(client, &request("GET /v2/account", &format!("Bearer {token}"), ""));
    rig.freeze(rig.topology.batcher, true);
    rig.stop(ThreadId(0));
    rig.settle();
    rig.freeze(rig.topology.batcher, false);
    rig.settle();
    let answer = rig.text(client);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("Connection: close\r\n") && rig.is_closed(client), "{answer}");
    rig.closed(client, CloseReason::Asked);
    assert!(rig.is_stopped(ThreadId(0)));
}

#[test]
fn scripts_hear_of_the_end_however_many_calls_wait() {
    let script = "local nk = require('nakama')
        nk.register_rpc(function(context, payload) return payload end, 'echo')
        nk.register_shutdown(function() end)";
    let tune: fn(&mut server::settings::Settings) = |settings| {
        settings.shutdown_grace_s = 5;
        settings.limits.calls_waiting = 1;
    };
    let rig = Rig::with(&Plan { modules: &[("end.lua", script)], tune, ..Plan::default() });
    let caller = rig.topology.callers[0];
    rig.freeze(caller, true);
    rig.bytes(rig.open(0), &request("POST /v2/rpc/echo?http_key=httpkey", "", "\"\""));
    rig.stop(ThreadId(0));
    rig.settle();
    rig.freeze(caller, false);
    rig.settle();
    assert_eq!(rig.posted(caller, "job"), 2, "the shutdown function is not run");
}

#[test]
fn an_idle_server_stops_at_once() {
    let rig = rig(2, 2, true);
    [ThreadId(0), ThreadId(1)].into_iter().for_each(|core| rig.stop(core));
    rig.settle();
    assert!(rig.is_stopped(ThreadId(0)) && rig.is_stopped(ThreadId(1)));
}
