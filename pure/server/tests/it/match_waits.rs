//! Callbacks of matches that wait for other rooms: what comes for their match meanwhile, in which order
//! it is played, and how a wait ends that nobody answers.

use event::{CloseReason, ThreadId};
use game::node::{Incarnation, Nodes};
use game::stream::StreamAnswer;
use server::mail::{RoomAnswer, RoomMail};
use server::settings::Settings;

use crate::rig::{Client, Plan, Rig};

/// A match that signals the match `state.next` in its callbacks, and says in which order they begin and
/// end.
const ARENA: &str = "local nk = require('nakama')
    local M = {}
    function M.match_init(context, params) return {log = {}}, 10, '' end
    local function ask(state, name, dispatcher)
        state.log[#state.log + 1] = name
        if dispatcher then dispatcher.broadcast_message(1, name .. ' begins') end
        local answer = ''
        if state.next then
            local ok, text = pcall(nk.match_signal, state.next, 'x')
            answer = text
        end
        state.log[#state.log + 1] = name .. ' done ' .. answer
        return answer
    end
    function M.match_join_attempt(context, dispatcher, tick, state, presence)
        state.log[#state.log + 1] = 'attempt'
        if state.asks == 'attempt' then ask(state, 'ask') end
        return state, true
    end
    function M.match_join(context, dispatcher, tick, state, presences)
        state.log[#state.log + 1] = 'join'
        return state
    end
    function M.match_leave(context, dispatcher, tick, state, presences)
        state.log[#state.log + 1] = 'leave ' .. #presences
        return state
    end
    function M.match_loop(context, dispatcher, tick, state, messages)
        state.log[#state.log + 1] = 'loop ' .. #messages
        if state.asks == 'loop' then
            state.asks = nil
            ask(state, 'ask', dispatcher)
        end
        return state
    end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data)
        if data == 'log' then
            local log = table.concat(state.log, ',')
            state.log = {}
            return state, log
        elseif data == 'state' then
            return state, tostring(state.asks)
        elseif data:sub(1, 5) == 'asks ' then
            state.asks, state.next = data:match('^asks (%S+) (%S+)$')
            return state, ''
        elseif data:sub(1, 5) == 'pass ' then
            local ok, text = pcall(nk.match_signal, data:match('^pass (%S+) (.*)$'))
            return state, text
        elseif data == 'make' then
            local ok, text = pcall(nk.match_create, 'child', { by = context.match_id })
            return state, text
        end
        return state, 'echo ' .. data
    end
    return M";

/// A match that signals who makes it, before it is there.
const CHILD: &str = "local nk = require('nakama')
    local M = {}
    function M.match_init(context, params)
        local ok, why = pcall(nk.match_signal, params.by, 'x')
        return {why = why}, 10, ''
    end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    function M.match_leave(context, dispatcher, tick, state) return state end
    function M.match_loop(context, dispatcher, tick, state) return state end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state) return state, state.why end
    return M";

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function() return nk.match_create('arena', {}) end, 'create')
    nk.register_rpc(function(context, payload)
        local request = nk.json_decode(payload)
        return nk.match_signal(request.id, request.data)
    end, 'signal')";

fn rig(tune: fn(&mut Settings)) -> Rig {
    let modules = &[("arena.lua", ARENA), ("child.lua", CHILD), ("rpcs.lua", RPCS)];
    Rig::with(&Plan { rooms: 2, modules, tune, ..Plan::default() })
}

fn signal(rig: &Rig, id: &str, data: &str) -> String {
    rig.rpc("signal", &format!(r#"{{"id":"{id}","data":"{data}"}}"#))
}

fn uuid(id: &str) -> uuid::Uuid {
    uuid::Uuid::try_parse(id.split('.').next().unwrap()).unwrap()
}

/// The index of the room that a match lives on.
fn room(rig: &Rig, id: &str) -> usize {
    let id = uuid(id);
    let room = rig.topology.room_of(id);
    rig.topology.rooms.iter().position(|other| *other == room).unwrap()
}

/// Two matches: the first on the first room, the second on the second.
fn pair(rig: &Rig) -> [String; 2] {
    let mut found = [None, None];
    while found.iter().any(Option::is_none) {
        let id = rig.rpc("create", "");
        let room = room(rig, &id);
        found[room] = Some(id);
    }
    found.map(Option::unwrap)
}

fn freeze(rig: &Rig, room: usize, on: bool) {
    rig.freeze(rig.topology.rooms[room], on);
}

fn join(rig: &Rig, client: Client, id: &str) -> Vec<String> {
    rig.say(client, &format!(r#"{{"cid":"7","match_join":{{"match_id":"{id}"}}}}"#))
}

fn with(frames: &[String], text: &str) -> usize {
    frames.iter().filter(|frame| frame.contains(text)).count()
}

#[test]
fn matches_signal_matches_of_any_room() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    let other = loop {
        let id = rig.rpc("create", "");
        if room(&rig, &id) == 0 {
            break id;
        }
    };
    assert_eq!(signal(&rig, &one, &format!("pass {two} hi")), "echo hi");
    assert_eq!(signal(&rig, &one, &format!("pass {other} hi")), "echo hi");
    assert_eq!(signal(&rig, &one, &format!("pass {two} pass {other} hi")), "echo hi");
    // Whoever waits for himself is told so: at once, and over one other, and over two.
    for circle in [
        format!("pass {one} hi"),
        format!("pass {two} pass {one} hi"),
        format!("pass {two} pass {other} pass {one} hi"),
    ] {
        let answer = signal(&rig, &one, &circle);
        assert!(answer.contains("match busy: it waits for this match"), "{circle}: {answer}");
    }
    assert_eq!(rig.stat("match_callbacks_waiting"), 0);
    assert!(rig.stat("match_circles") >= 1);
}

/// Two that signal each other in the same moment are no reason to refuse both.
#[test]
fn of_matches_that_signal_each_other_at_once_one_gets_through() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    signal(&rig, &one, &format!("asks loop {two}"));
    signal(&rig, &two, &format!("asks loop {one}"));
    // The signal of the first is on its way until the second waits, too.
    freeze(&rig, 1, true);
    rig.advance(200);
    let on_its_way = rig.take_mail(rig.topology.rooms[1]);
    freeze(&rig, 0, true);
    freeze(&rig, 1, false);
    rig.advance(200);
    assert_eq!(rig.stat("match_callbacks_waiting"), 2);
    on_its_way.into_iter().for_each(|mail| rig.post(rig.topology.rooms[1].into(), mail));
    freeze(&rig, 0, false);
    rig.settle();
    let logs = [&one, &two].map(|id| signal(&rig, id, "log"));
    let with = |text: &str| logs.iter().filter(|log| log.contains(text)).count();
    assert_eq!((with("match busy"), with("ask done echo")), (1, 1), "{logs:?}");
    assert_eq!((rig.stat("match_callbacks_waiting"), rig.stat("match_circles")), (0, 2));
}

/// It is the one that closes the circle, whatever their ids are: its creator waits for it alone.
#[test]
fn a_match_that_signals_its_creator_from_its_beginning_is_told_and_made() {
    let rig = rig(|_| {});
    for _ in 0..8 {
        let child = signal(&rig, &rig.rpc("create", ""), "make");
        let why = signal(&rig, &child, "");
        assert!(why.contains("match busy: it waits for this match"), "{child}: {why}");
    }
}

/// What comes while a callback waits is played when it is over, in the order in which it came: but
/// who has left is told of first, and ticks that are too late are not made up for.
#[test]
fn what_comes_while_a_callback_waits_is_played_afterwards() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    let (_, token) = rig.login("ada");
    let (stays, leaves, comes) =
        (rig.socket(0, &token, ""), rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    join(&rig, stays, &one);
    join(&rig, leaves, &one);
    signal(&rig, &one, &format!("asks loop {two}"));
    signal(&rig, &one, "log");
    rig.frames(stays);
    freeze(&rig, 1, true);
    rig.advance(100);
    assert_eq!(rig.stat("match_callbacks_waiting"), 1);
    // What was said before the wait is out; the match waits, its room does not.
    assert_eq!(with(&rig.frames(stays), "match_data"), 1);
    let data = format!(
        r#"{{"match_data_send":{{"match_id":"{one}","op_code":"2","data":"aGk=","presences":[]}}}}"#
    );
    rig.say(stays, &data);
    assert_eq!(join(&rig, comes, &one), [""; 0], "it is not answered yet");
    rig.closed(leaves, CloseReason::Peer);
    assert_eq!(with(&rig.frames(stays), "leaves"), 1, "players are told at once");
    let skipped = rig.stat("match_ticks_skipped");
    rig.advance(1_000);
    assert_eq!(rig.stat("match_callbacks_waiting"), 1);
    freeze(&rig, 1, false);
    rig.settle();
    assert_eq!(with(&rig.frames(comes), "\"cid\":\"7\""), 1);
    assert!(rig.stat("match_ticks_skipped") >= skipped + 9);
    let log = signal(&rig, &one, "log");
    assert_eq!(log, "loop 0,ask,ask done echo x,leave 1,attempt,join", "{log}");
    rig.advance(100);
    let log = signal(&rig, &one, "log");
    assert_eq!(log, "loop 1", "{log}");
    assert_eq!(rig.stat("match_callbacks_waiting"), 0);
}

/// A socket that closes while the script decides about its join is not in the match.
#[test]
fn who_is_gone_before_the_script_lets_him_in_never_was_in_the_match() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    let (_, token) = rig.login("ada");
    let (first, second) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    signal(&rig, &one, &format!("asks attempt {two}"));
    signal(&rig, &one, "log");
    freeze(&rig, 1, true);
    join(&rig, first, &one);
    join(&rig, second, &one);
    rig.closed(first, CloseReason::Reset);
    rig.closed(second, CloseReason::Reset);
    assert_eq!(rig.stat("match_callbacks_waiting"), 1);
    freeze(&rig, 1, false);
    rig.settle();
    assert_eq!(signal(&rig, &one, "log"), "attempt,ask,ask done echo x");
    assert_eq!(rig.stat("presences"), 0);
    // And nothing is left of them.
    let third = rig.socket(0, &token, "");
    assert_eq!(with(&join(&rig, third, &one), "\"self\""), 1);
    assert_eq!(rig.stat("presences"), 1);
}

#[test]
fn what_waits_is_bounded_and_what_is_refused_is_told() {
    let rig = rig(|settings| settings.matches.join_attempt_queue_size = 2);
    let [one, two] = pair(&rig);
    let (_, token) = rig.login("ada");
    signal(&rig, &one, &format!("asks loop {two}"));
    freeze(&rig, 1, true);
    rig.advance(100);
    let sockets: Vec<Client> = (0..3).map(|_| rig.socket(0, &token, "")).collect();
    let answers: Vec<_> = sockets.iter().map(|socket| join(&rig, *socket, &one)).collect();
    assert_eq!((answers[0].len(), answers[1].len()), (0, 0), "{answers:?}");
    assert_eq!(with(&answers[2], "Match busy"), 1, "{answers:?}");
    assert_eq!(rig.stat("match_calls_refused"), 1);
    freeze(&rig, 1, false);
    rig.settle();
    assert_eq!(rig.stat("presences"), 2);
    assert_eq!(with(&join(&rig, sockets[2], &one), "\"size\""), 1);
}

/// Nobody answers: the question is given up, and is not played later.
#[test]
fn a_question_is_given_up_after_ten_seconds() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    signal(&rig, &one, &format!("asks loop {two}"));
    signal(&rig, &one, "log");
    freeze(&rig, 1, true);
    rig.advance(100);
    rig.advance(9_000);
    assert_eq!(rig.stat("match_callbacks_waiting"), 1);
    rig.advance(1_100);
    let log = signal(&rig, &one, "log");
    assert!(log.contains("match busy: it did not answer within 10 s"), "{log}");
    assert_eq!(rig.posted(rig.topology.rooms[1], "take back"), 1);
    freeze(&rig, 1, false);
    rig.settle();
    assert_eq!(rig.stat("authoritative_matches"), 2);
}

/// The whole callback may wait for so long only: then its match ends, and its players are told.
#[test]
fn a_callback_that_waits_for_too_long_ends_its_match() {
    let rig = rig(|settings| settings.runtime.call_wait_max_ms = 5_000);
    let [one, two] = pair(&rig);
    let (_, token) = rig.login("ada");
    let (player, comes) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    join(&rig, player, &one);
    signal(&rig, &one, &format!("asks loop {two}"));
    freeze(&rig, 1, true);
    rig.advance(100);
    join(&rig, comes, &one);
    rig.frames(player);
    rig.advance(5_000);
    assert_eq!(with(&rig.frames(player), "close 1000"), 1);
    assert_eq!(with(&rig.frames(comes), "Match not found"), 1);
    assert_eq!((rig.stat("match_waits_cancelled"), rig.stat("match_errors")), (1, 1));
    freeze(&rig, 1, false);
    rig.settle();
    assert_eq!((rig.stat("authoritative_matches"), rig.stat("presences")), (1, 0));
    assert_eq!(rig.stat("match_callbacks_waiting"), 0);
}

/// The server stops while a callback waits.
#[test]
fn a_match_that_waits_does_not_keep_the_server() {
    let rig = rig(|settings| settings.shutdown_grace_s = 3);
    let [one, two] = pair(&rig);
    signal(&rig, &one, &format!("asks loop {two}"));
    freeze(&rig, 1, true);
    rig.advance(100);
    assert_eq!(rig.stat("match_callbacks_waiting"), 1);
    rig.stop(ThreadId(0));
    rig.settle();
    assert_eq!(rig.stat("match_callbacks_waiting"), 1, "its grace is not over");
    rig.advance(3_000);
    assert_eq!(rig.stat("match_callbacks_waiting"), 0);
    freeze(&rig, 1, false);
    rig.settle();
    rig.advance(3_000);
    assert_eq!((rig.stat("authoritative_matches"), rig.stat("match_callbacks_waiting")), (0, 0));
}

/// A match that has ended takes its callback that waits with it, and what has waited behind.
#[test]
fn the_end_of_a_match_is_told_to_all_who_wait_for_it() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    signal(&rig, &one, &format!("asks attempt {two}"));
    freeze(&rig, 1, true);
    let other = rig.socket(0, &token, "");
    join(&rig, socket, &one);
    join(&rig, other, &one);
    rig.mail(rig.topology.rooms[0], RoomMail::Cancel { id: uuid(&one) });
    rig.settle();
    assert_eq!(with(&rig.frames(socket), "Match join rejected"), 1);
    assert_eq!(with(&rig.frames(other), "Match not found"), 1);
    freeze(&rig, 1, false);
    rig.settle();
    assert_eq!((rig.stat("authoritative_matches"), rig.stat("match_callbacks_waiting")), (1, 0));
    assert_eq!(rig.stat("presences"), 0);
}

/// Another node may say whatever it likes.
#[test]
fn nobody_answers_a_match_what_it_has_not_asked() {
    let rig = rig(|_| {});
    let [one, two] = pair(&rig);
    signal(&rig, &one, &format!("asks loop {two}"));
    freeze(&rig, 1, true);
    rig.advance(200);
    assert_eq!(rig.stat("match_callbacks_waiting"), 1);
    let before = rig.stat("late_answers");
    let other = Nodes::new(&["node1", "z"], "z", Incarnation(1)).unwrap().here();
    let count = RoomAnswer::Stream(StreamAnswer::Count(7));
    let text = RoomAnswer::Text("forged".into());
    for (node, forged) in [(rig.topology.nodes.here(), count), (other, text)] {
        for request in 0..9 {
            let outcome = Ok(forged.clone());
            rig.mail(rig.topology.rooms[0], RoomMail::Answer { node, request, outcome });
        }
    }
    rig.settle();
    let late = rig.stat("late_answers") - before;
    assert_eq!((late, rig.stat("match_callbacks_waiting")), (18, 1));
    freeze(&rig, 1, false);
    rig.settle();
    assert!(signal(&rig, &one, "log").contains("ask done echo x"));
}
