//! What scripts may cause on the server's side: messages, matches and log lines are bounded, the
//! refusal names its setting, and is counted.

use server::settings::Settings;

use crate::rig::{Plan, Rig};

const ARENA: &str = "local M = {}
    function M.match_init() return {}, 10, '' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    function M.match_leave(context, dispatcher, tick, state) return state end
    function M.match_loop(context, dispatcher, tick, state) return state end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data)
        local payload = ('x'):rep(300000)
        for sent = 0, 100 do
            local ok, why = pcall(dispatcher.broadcast_message, 1, payload)
            if not ok then return state, sent .. ' ' .. why end
        end
    end
    return M";

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function() return nk.match_create('arena', {}) end, 'create')
    nk.register_rpc(function(context, id) return nk.match_signal(id, '') end, 'signal')
    nk.register_rpc(function()
        for made = 0, 100 do
            local ok, why = pcall(nk.match_create, 'arena', {})
            if not ok then return made .. ' ' .. why end
        end
    end, 'many')
    nk.register_rpc(function(context, count)
        local id, done = nk.uuid_v4(), 0
        local ok, why = pcall(function()
            for _ = 1, tonumber(count) do nk.session_disconnect(id) done = done + 1 end
        end)
        return done .. ' ' .. tostring(why)
    end, 'disconnect')
    nk.register_rpc(function()
        for _ = 1, 17 do nk.users_ban_id({nk.uuid_v4()}) end
        local ids = {}
        for at = 1, 1000 do ids[at] = nk.uuid_v4() end
        for done = 0, 100 do
            local ok, why = pcall(nk.users_unban_id, ids)
            if not ok then return done .. ' ' .. why end
        end
    end, 'unban')
    nk.register_rpc(function() for line = 1, 20 do nk.logger_info('line ' .. line) end end, 'log')
    nk.register_rpc(function() for line = 1, 20 do print('line', line) end end, 'print')
    nk.register_rpc(function() error('on purpose') end, 'fail')
    nk.register_rpc(function() nk.match_create('unmade', {}) end, 'create_unmade')";

/// A match that does not begin.
const UNMADE: &str = "local M = {}
    for _, name in ipairs({'join_attempt', 'join', 'leave', 'loop', 'terminate', 'signal'}) do
        M['match_' .. name] = function() end
    end
    function M.match_init() error('on purpose' .. ('x'):rep(40000)) end
    return M";

/// A match that makes one like itself in each tick, and counts for its signal what it was refused.
const BREEDER: &str = "local nk, M = require('nakama'), {}
    function M.match_init(context, params) return { refused = '' }, 10, 'breeder' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    function M.match_leave(context, dispatcher, tick, state) return state end
    function M.match_loop(context, dispatcher, tick, state)
        local ok, why = pcall(nk.match_create, 'breeder', {})
        if not ok then state.refused = why end
        return state
    end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data) return state, state.refused end
    return M";

fn rig() -> Rig {
    let modules = &[("arena.lua", ARENA), ("unmade.lua", UNMADE), ("rpcs.lua", RPCS)];
    Rig::with(&Plan { modules, ..Plan::default() })
}

#[test]
fn one_callback_sends_a_bounded_number_of_bytes() {
    let rig = rig();
    let id = rig.rpc("create", "");
    for count in 1..=2 {
        let answer = rig.rpc("signal", &id);
        assert!(answer.starts_with("3 ") && answer.contains("broadcast_bytes_max"), "{answer}");
        assert_eq!(rig.stat("match_broadcasts_refused"), count);
    }
}

#[test]
fn one_call_makes_a_bounded_number_of_matches() {
    let rig = rig();
    for total in [3, 6] {
        let answer = rig.rpc("many", "");
        assert!(answer.starts_with("3 ") && answer.contains("created_per_call_max"), "{answer}");
        assert_eq!(rig.stat("authoritative_matches"), total);
        assert_eq!(rig.stat("match_creates_refused"), total / 3);
    }
}

/// It and its descendants have bounds of their own, and leave others their places.
#[test]
fn a_match_and_what_it_makes_are_bounded() {
    let breed = "local nk = require('nakama')
        nk.register_rpc(function() return nk.match_create('breeder', {}) end, 'breed')";
    let modules =
        [("arena.lua", ARENA), ("breeder.lua", BREEDER), ("rpcs.lua", RPCS), ("breed.lua", breed)];
    let rig = Rig::with(&Plan { modules: &modules, ..Plan::default() });
    let first = rig.rpc("breed", "");
    for _ in 0..100 {
        rig.advance(100);
    }
    let refused = rig.rpc("signal", &first);
    assert!(refused.contains("match.descendants_max"), "{refused}");
    assert_eq!(rig.stat("authoritative_matches"), 1 + 16);
    assert!(rig.stat("match_descendants_refused") > 1_000);
    // Another has its own.
    rig.rpc("breed", "");
    rig.advance(100);
    assert!(rig.stat("authoritative_matches") > 1 + 16 + 1);
}

/// A match that lets the handler of an event make another one, which tells of one in each tick as it does, at
/// once and while it begins.
const TELLER: &str = "local nk, M = require('nakama'), {}
    function M.match_init(context, params) nk.event('breed', {}) return {}, 10, 'teller' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    function M.match_leave(context, dispatcher, tick, state) return state end
    function M.match_loop(context, dispatcher, tick, state) nk.event('breed', {}) return state end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data) return state end
    return M";

/// What handlers of its events make, by way of another event too, is a match's own.
#[test]
fn by_way_of_events_they_are_bounded_as_well() {
    let breed = "local nk = require('nakama')
        nk.register_event(function(_, event)
            if event.name == 'breed' then nk.event('again', {}) end
            pcall(nk.match_create, 'teller', {})
        end)
        nk.register_rpc(function() return nk.match_create('teller', {}) end, 'breed')
        nk.register_rpc(function() nk.event('once', {}) end, 'tell')";
    let modules = [("teller.lua", TELLER), ("breed.lua", breed)];
    let rig = Rig::with(&Plan { modules: &modules, ..Plan::default() });
    rig.rpc("breed", "");
    for _ in 0..100 {
        rig.advance(100);
    }
    assert_eq!(rig.stat("authoritative_matches"), 1 + 16);
    assert!(rig.stat("match_descendants_refused") > 1_000);
    // Of an event that a function has told of it is nobody's, and what that one makes in a second its own.
    rig.rpc("tell", "");
    assert_eq!(rig.stat("authoritative_matches"), 1 + 16 + 1 + 8);
}

/// What matches and handlers of events make in turn is counted to the same user, and others have their own.
#[test]
fn a_user_makes_a_bounded_number_of_matches() {
    let breed = "local nk = require('nakama')
        nk.register_event(function() nk.match_create('breeder', {}) end)
        nk.register_rpc(function() nk.event('breed', {}) end, 'tell')
        nk.register_rpc(function() return nk.match_create('breeder', {}) end, 'breed')
        nk.register_rpc(function() return nk.match_create('arena', {}) end, 'one')";
    let modules =
        [("arena.lua", ARENA), ("breeder.lua", BREEDER), ("rpcs.lua", RPCS), ("breed.lua", breed)];
    let tune = |settings: &mut Settings| {
        (settings.matches.descendants_max, settings.matches.per_user_max) = (100, 5);
    };
    let rig = Rig::with(&Plan { modules: &modules, tune, ..Plan::default() });
    let tokens = ["ada", "bob", "cid"].map(|name| rig.login(name).1);
    let call = |token: &String, id: &str| {
        let call = rig.begin_rpc(Some(token), id, "");
        rig.settle();
        rig.body(call)
    };
    assert!(call(&tokens[0], "breed").contains(".node1"));
    call(&tokens[1], "tell");
    for _ in 0..50 {
        rig.advance(100);
    }
    assert_eq!(
        rig.stat("authoritative_matches"),
        5 + 5,
        "of each user, by a match and by an event"
    );
    assert!(rig.stat("matches_of_one_refused") > 10);
    for token in &tokens[..2] {
        let refused = call(token, "one");
        let text = "error creating match: 5 of the same run already (match.matches_per_user_max";
        assert!(refused.contains(text) && !refused.contains("match: error"), "{refused}");
    }
    let ids: Vec<String> = (0..5).map(|_| call(&tokens[2], "one")).collect();
    assert!(ids.iter().all(|answer| answer.contains(".node1")), "{ids:?}");
    assert!(call(&tokens[2], "one").contains("match.matches_per_user_max"));
    // Who holds the HTTP key has no such bound.
    (0..7).for_each(|_| assert!(rig.rpc("one", "").contains(".node1")));
}

/// Each of them is for every core to deal with, in one mail.
#[test]
fn one_call_cuts_off_a_bounded_number() {
    let rig = rig();
    for count in 1..=2 {
        let answer = rig.rpc("disconnect", "17000");
        assert!(answer.starts_with("16384 ") && answer.contains("one call may"), "{answer}");
        assert_eq!(rig.stat("cut_offs_refused"), count);
    }
    assert_eq!(rig.rpc("disconnect", "16384"), "16384 nil");
    let answer = rig.rpc("unban", "");
    assert!(answer.starts_with("16 ") && answer.contains("one call may"), "{answer}");
    assert_eq!(rig.stat("cut_offs_refused"), 3);
}

#[test]
fn scripts_log_a_bounded_number_of_lines_a_second() {
    let rig = rig();
    rig.rpc("log", "");
    let dropped = rig.stat("script_log_dropped");
    assert_eq!(dropped, 15);
    rig.rpc("print", "");
    assert!(rig.stat("script_log_dropped") >= dropped + 15);
}

/// Whoever makes functions fail fills the log with so many lines, and hides none of the scripts' own.
#[test]
fn failures_of_scripts_are_logged_in_bounds_of_their_own() {
    // What fails in a room has a line there, and one where the function was called.
    for (id, lines) in [("fail", 50), ("create_unmade", 100)] {
        let rig = rig();
        for _ in 0..50 {
            let answer = rig.rpc(id, "");
            assert!(answer.contains("on purpose") && answer.len() < 20_000, "{}", answer.len());
        }
        let dropped = rig.stat("script_log_dropped");
        assert!((lines - 20..lines).contains(&dropped), "{id}: {dropped}");
        rig.rpc("log", "");
        assert_eq!(rig.stat("script_log_dropped"), dropped + 15);
    }
}
