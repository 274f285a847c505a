//! Matches: relayed and authoritative, with real Lua, through every way in which they end.

use event::CloseReason;
use server::settings::Settings;

use crate::rig::{Client, Plan, Rig, member, request};

/// A module of matches whose callbacks return their state, save those given.
fn arena(callbacks: &str) -> String {
    format!(
        "local M = {{}}
        function M.match_init(context, params) return {{}}, 10, params.label or 'first' end
        function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
        function M.match_join(context, dispatcher, tick, state, presences) return state end
        function M.match_leave(context, dispatcher, tick, state, presences) return state end
        function M.match_loop(context, dispatcher, tick, state, messages) return state end
        function M.match_terminate(context, dispatcher, tick, state, grace) return state end
        function M.match_signal(context, dispatcher, tick, state, data) return state, data end
        {callbacks}
        return M"
    )
}

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload)
        return nk.match_create('arena', nk.json_decode(payload))
    end, 'create')
    nk.register_rpc(function(context, payload)
        local request = nk.json_decode(payload)
        return nk.match_signal(request.id, request.data)
    end, 'signal')";

fn rig(callbacks: &str) -> Rig {
    let arena = arena(callbacks);
    Rig::with(&Plan { modules: &[("arena.lua", &arena), ("rpcs.lua", RPCS)], ..Plan::default() })
}

fn join(rig: &Rig, client: Client, id: &str) -> Vec<String> {
    rig.say(client, &format!(r#"{{"cid":"7","match_join":{{"match_id":"{id}"}}}}"#))
}

fn with(frames: &[String], text: &str) -> usize {
    frames.iter().filter(|frame| frame.contains(text)).count()
}

#[test]
fn a_relayed_match_lives_as_long_as_its_members() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let (one, two) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let created = rig.say(one, r#"{"cid":"1","match_create":{}}"#);
    assert_eq!((with(&created, "joins"), with(&created, "\"size\":1")), (1, 1), "{created:?}");
    let id = member(&created.join(""), "match_id");
    let joined = join(&rig, two, &id);
    assert_eq!((with(&joined, "joins"), with(&joined, "\"size\":1")), (1, 1), "{joined:?}");
    assert_eq!(with(&rig.frames(one), "joins"), 1);
    let data = format!(
        r#"{{"match_data_send":{{"match_id":"{id}","op_code":"2","data":"aGk=","presences":[]}}}}"#
    );
    assert_eq!(rig.say(one, &data), [""; 0]);
    assert_eq!(with(&rig.frames(two), "\"data\":\"aGk=\""), 1);
    assert_eq!((rig.stat("presences"), rig.stat("relayed_matches")), (2, 1));
    let leave = format!(r#"{{"cid":"3","match_leave":{{"match_id":"{id}"}}}}"#);
    assert_eq!(rig.say(one, &leave), [r#"{"cid":"3"}"#]);
    assert_eq!(with(&rig.frames(two), "leaves"), 1);
    rig.closed(two, CloseReason::Peer);
    assert_eq!((rig.stat("presences"), rig.stat("relayed_matches")), (0, 0));
    assert_eq!(with(&join(&rig, one, &id), "Match not found"), 1);
}

/// Clients set their handlers when the answer has come; what comes before it is lost on them.
#[test]
fn the_answer_comes_before_the_presence_event_of_ones_own_join() {
    let rig = rig("");
    let (_, token) = rig.login("ada");
    let (one, two) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let answer_then_event = |frames: &[String]| {
        assert_eq!(frames.len(), 2, "{frames:?}");
        assert!(frames[0].contains("\"cid\"") && frames[1].contains("joins"), "{frames:?}");
    };
    let created = rig.say(one, r#"{"cid":"1","match_create":{}}"#);
    answer_then_event(&created);
    answer_then_event(&join(&rig, two, &member(&created.join(""), "match_id")));
    answer_then_event(&rig.say(two, r#"{"cid":"1","match_create":{"name":"named"}}"#));
    rig.frames(one);
    answer_then_event(&join(&rig, one, &rig.rpc("create", "{}")));
}

#[test]
fn who_joins_again_finds_himself_in_the_match() {
    let rig = rig("");
    let (_, token) = rig.login("ada");
    let (one, two) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let created = rig.say(one, r#"{"cid":"1","match_create":{"name":"again"}}"#);
    let id = member(&created.join(""), "match_id");
    let me = member(&created.join(""), "session_id");
    let alone = join(&rig, one, &id);
    assert_eq!(alone.len(), 1, "no second presence event: {alone:?}");
    let listed = format!("\"session_id\":\"{me}\"");
    assert_eq!(alone[0].matches(&listed).count(), 2, "in presences and as self: {alone:?}");
    assert_eq!(with(&alone, "\"size\":1"), 1, "{alone:?}");
    join(&rig, two, &id);
    for again in
        [join(&rig, one, &id), rig.say(one, r#"{"cid":"2","match_create":{"name":"again"}}"#)]
    {
        let joined_again =
            again.iter().filter(|frame| frame.contains("\"cid\"")).collect::<Vec<_>>();
        assert_eq!(joined_again.len(), 1, "{again:?}");
        assert_eq!(joined_again[0].matches(&listed).count(), 2, "{again:?}");
        assert!(joined_again[0].contains("\"size\":2"), "{again:?}");
    }
    let arena = rig.rpc("create", "{}");
    join(&rig, two, &arena);
    let again = join(&rig, two, &arena);
    assert_eq!((with(&again, "\"size\":1"), with(&again, "presences")), (1, 1), "{again:?}");
}

/// Nakama calls `match_join` from the join attempt, where nobody has set a reason.
#[test]
fn scripts_see_no_reason_of_a_join() {
    let rig = rig("function M.match_join(context, dispatcher, tick, state, presences)
            dispatcher.broadcast_message(presences[1].reason, 'joined')
            return state
        end
        function M.match_leave(context, dispatcher, tick, state, presences)
            dispatcher.broadcast_message(presences[1].reason, 'left')
            return state
        end");
    let (_, token) = rig.login("ada");
    let (one, two) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let id = rig.rpc("create", "{}");
    let joined = join(&rig, one, &id);
    let data = joined.iter().find(|frame| frame.contains("match_data")).unwrap();
    assert!(!data.contains("op_code"), "0 is left out: {data}");
    join(&rig, two, &id);
    rig.frames(one);
    rig.closed(two, CloseReason::Peer);
    let left = rig.frames(one);
    let data = left.iter().find(|frame| frame.contains("match_data")).unwrap();
    assert_eq!(member(data, "op_code"), "4");
}

#[test]
fn an_authoritative_match_hears_its_players_at_the_tick() {
    let rig = rig("function M.match_loop(context, dispatcher, tick, state, messages)
            for _, m in ipairs(messages) do dispatcher.broadcast_message(m.op_code, m.data .. '!') end
            return state
        end");
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    let id = rig.rpc("create", "{}");
    let joined = join(&rig, socket, &id);
    assert_eq!((with(&joined, "joins"), with(&joined, "\"cid\":\"7\"")), (1, 1), "{joined:?}");
    let data = format!(
        r#"{{"match_data_send":{{"match_id":"{id}","op_code":"2","data":"aGk=","presences":[]}}}}"#
    );
    assert_eq!(rig.say(socket, &data), [""; 0]);
    rig.advance(200);
    assert_eq!(with(&rig.frames(socket), "\"data\":\"aGkh\""), 1);
    assert_eq!(rig.rpc("signal", &format!(r#"{{"id":"{id}","data":"text"}}"#)), "text");
    rig.closed(socket, CloseReason::Peer);
    assert_eq!((rig.stat("presences"), rig.stat("authoritative_matches")), (0, 1));
}

/// However a match ends in a callback of a join, the joiner is answered exactly once.
#[test]
fn a_join_is_answered_once_even_if_the_match_ends_meanwhile() {
    let attempt = "function M.match_join_attempt(context, dispatcher, tick, state)";
    let joined = "function M.match_join(context, dispatcher, tick, state, presences)";
    for (callback, body, closes) in [
        (attempt, "return nil end", false),
        (attempt, "error('no') end", false),
        (attempt, "return state, false, 'full' end", false),
        (joined, "return nil end", false),
        (joined, "error('no') end", true),
    ] {
        let rig = rig(&format!("{callback} {body}"));
        let (_, token) = rig.login("ada");
        let socket = rig.socket(0, &token, "");
        let id = rig.rpc("create", "{}");
        let frames = join(&rig, socket, &id);
        assert_eq!(with(&frames, "\"cid\":\"7\""), 1, "{callback} {body}: {frames:?}");
        assert_eq!(with(&frames, "close 1000") == 1, closes, "{callback} {body}: {frames:?}");
        assert_eq!(rig.stat("presences"), 0, "{callback} {body}");
    }
}

#[test]
fn kicks_and_messages_happen_in_the_order_of_the_script() {
    let rig = rig("function M.match_loop(context, dispatcher, tick, state, messages)
            for _, m in ipairs(messages) do
                dispatcher.broadcast_message(1, 'before')
                dispatcher.match_kick({m.sender})
                dispatcher.broadcast_message(2, 'behind')
            end
            return state
        end");
    let (_, token) = rig.login("ada");
    let (kicked, stays) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let id = rig.rpc("create", "{}");
    join(&rig, kicked, &id);
    join(&rig, stays, &id);
    rig.frames(kicked);
    let data =
        format!(r#"{{"match_data_send":{{"match_id":"{id}","op_code":"2","presences":[]}}}}"#);
    rig.say(kicked, &data);
    rig.advance(200);
    let ops = |client| -> Vec<String> {
        let frames = rig.frames(client);
        let data = frames.iter().filter(|frame| frame.contains("match_data"));
        data.map(|frame| member(frame, "op_code")).collect()
    };
    assert_eq!(ops(kicked), ["1"]);
    assert_eq!(ops(stays), ["1", "2"]);
    assert_eq!(rig.stat("presences"), 1);
}

#[test]
fn a_kick_inside_leave_is_told_too() {
    let rig = rig("function M.match_join(context, dispatcher, tick, state, presences)
            state.last = presences[1]
            return state
        end
        function M.match_leave(context, dispatcher, tick, state, presences)
            state.left = (state.left or 0) + #presences
            if state.left == 1 then dispatcher.match_kick({state.last}) end
            return state
        end
        function M.match_signal(context, dispatcher, tick, state, data)
            return state, tostring(state.left)
        end");
    let (_, token) = rig.login("ada");
    let (one, two) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let id = rig.rpc("create", "{}");
    join(&rig, one, &id);
    join(&rig, two, &id);
    rig.closed(one, CloseReason::Reset);
    assert_eq!(rig.rpc("signal", &format!(r#"{{"id":"{id}","data":""}}"#)), "2");
    assert_eq!(rig.stat("presences"), 0);
}

/// Each match signals the next: a script decides how deep that goes, and must not end the process.
#[test]
fn signals_from_signals_take_no_stack() {
    let rig = rig("local nk = require('nakama')
        function M.match_init(context, params) return {next = params.next}, 10, '' end
        function M.match_signal(context, dispatcher, tick, state, data)
            if not state.next then return state, '1' end
            return state, tostring(tonumber(nk.match_signal(state.next, data)) + 1)
        end");
    let mut id = rig.rpc("create", "{}");
    for _ in 0..200 {
        id = rig.rpc("create", &format!(r#"{{"next":"{id}"}}"#));
    }
    assert_eq!(rig.rpc("signal", &format!(r#"{{"id":"{id}","data":""}}"#)), "201");
    assert_eq!(rig.stat("match_callbacks_waiting"), 0);
}

#[test]
fn any_callback_makes_matches_and_match_init_too() {
    let rig = rig("local nk = require('nakama')
        function M.match_init(context, params)
            local more = params.more or 0
            local inner = more > 0 and nk.match_create('arena', {more = more - 1}) or ''
            return {inner = inner}, 10, inner
        end
        function M.match_signal(context, dispatcher, tick, state, data)
            return state, nk.match_create('arena', {})
        end");
    let id = rig.rpc("create", "{}");
    let made = rig.rpc("signal", &format!(r#"{{"id":"{id}","data":""}}"#));
    assert!(made.contains(".node1"), "{made}");
    assert!(rig.rpc("create", r#"{"more":3}"#).contains(".node1"));
    assert_eq!(rig.stat("authoritative_matches"), 6);
}

#[test]
fn whoever_creates_a_match_of_no_module_is_told_which() {
    let text = "local nk = require('nakama')
        nk.register_rpc(function(_, payload)
            return select(2, pcall(nk.match_create, payload, {}))
        end, 'create_of')
        function M.match_signal(context, dispatcher, tick, state, data) return state end";
    let text = rig(text).rpc("create_of", "nosuch");
    let wanted = r#"not found: no module "nosuch" returns the callbacks of a match"#;
    assert_eq!(text, format!("error creating match: {wanted}"));
}

/// Its creator has been told that there is none: nobody would ever end it.
#[test]
fn a_match_that_was_made_too_late_ends() {
    let rig = rig("");
    rig.freeze(rig.topology.rooms[0], true);
    let client = rig.open(0);
    rig.bytes(client, &request("POST /v2/rpc/create?http_key=httpkey&unwrap", "", "{}"));
    rig.advance(9_990);
    assert_eq!((rig.text(client), rig.stat("calls_waiting_now")), (String::new(), 1));
    rig.advance(20);
    let refused = rig.text(client);
    assert!(refused.contains("did not answer"), "{refused}");
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert_eq!(rig.stat("authoritative_matches"), 0);
    assert!(rig.rpc("create", "{}").contains(".node1"));
    assert_eq!(rig.stat("authoritative_matches"), 1);
}

#[test]
fn matches_are_bounded_and_an_ended_one_makes_room() {
    let arena = arena("function M.match_signal() return nil end");
    let modules = [("arena.lua", &*arena), ("rpcs.lua", RPCS)];
    let tune = |settings: &mut Settings| settings.matches.count_max = 2;
    let rig = Rig::with(&Plan { modules: &modules, tune, ..Plan::default() });
    let first = rig.rpc("create", "{}");
    rig.rpc("create", "{}");
    let refused = rig.rpc("create", "{}");
    assert!(refused.contains("2 run already (match.matches_max"), "{refused}");
    assert_eq!((rig.stat("authoritative_matches"), rig.stat("matches_refused")), (2, 1));
    rig.rpc("signal", &format!(r#"{{"id":"{first}","data":""}}"#));
    assert!(rig.rpc("create", "{}").contains(".node1"));
}

#[test]
fn a_session_is_in_a_bounded_number_of_matches() {
    let tune = |settings: &mut Settings| settings.limits.relayed_matches_per_user = 0;
    let rig = Rig::with(&Plan { tune, ..Plan::default() });
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    let mut last = String::new();
    for _ in 0..256 {
        last = rig.say(socket, r#"{"cid":"1","match_create":{}}"#).join("");
    }
    let id = member(&last, "match_id");
    let refused = rig.say(socket, r#"{"cid":"2","match_create":{}}"#);
    assert!(
        refused.len() == 1 && refused[0].contains("limit.presences_per_session"),
        "{refused:?}"
    );
    assert_eq!(with(&join(&rig, socket, &id), "\"self\""), 1, "of one's own one hears on");
    rig.say(socket, &format!(r#"{{"cid":"3","match_leave":{{"match_id":"{id}"}}}}"#));
    assert_eq!(with(&rig.say(socket, r#"{"cid":"4","match_create":{}}"#), "\"self\""), 1);
    assert_eq!((rig.stat("relayed_matches"), rig.stat("joins_refused")), (256, 1));
}
