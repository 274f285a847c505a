//! Calls of guest code that wait for a room: who runs meanwhile, who may wait and for how long, and what
//! becomes of a call whose answer does not come. One caller and one room, so that whoever keeps them is
//! noticed.

use game::node::{Incarnation, Nodes};
use game::stream::StreamAnswer;
use server::mail::{CallerMail, News, RoomAnswer, RoomError};
use server::settings::Settings;

use crate::rig::{Client, Plan, Rig, request};

const ARENA: &str = "local M = {}
    function M.match_init() return {}, 10, '' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state) return state end
    function M.match_leave(context, dispatcher, tick, state) return state end
    function M.match_loop(context, dispatcher, tick, state) return state end
    function M.match_terminate(context, dispatcher, tick, state) return state end
    function M.match_signal(context, dispatcher, tick, state, data) return state, data end
    return M";

const RPCS: &str = "local nk = require('nakama')
    local arena
    nk.register_rpc(function() arena = nk.match_create('arena', nil) return arena end, 'create')
    nk.register_rpc(function(context, payload)
        local ok, answer = pcall(nk.match_signal, arena, payload)
        return answer .. ' for ' .. tostring(context.username)
    end, 'signal')
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context, payload) return payload end, 'long')
    nk.register_rpc(function(context, payload)
        -- No two calls have the same text, which Luau would have once.
        local held = ('x'):rep(499963) .. context.user_id .. payload
        nk.stream_count({ mode = 100, label = 'lobby' })
        return tostring(#held)
    end, 'hoard')
    nk.register_rpc(function(context, payload)
        local bytes = tonumber((payload:match('%d+')))
        local held = ('x'):rep(bytes) .. context.user_id .. payload
        nk.stream_count({ mode = 100, label = 'lobby' })
        return tostring(#held)
    end, 'hold')
    nk.register_rpc(function() local t = {} while true do t[#t + 1] = {} end end, 'take')
    local kept = {}
    nk.register_rpc(function()
        for number = 1, 50 do kept[#kept + 1] = ('k'):rep(100000) .. #kept end
        return tostring(#kept)
    end, 'keep')
    nk.register_rpc(function()
        local lobby = { mode = 100, label = 'lobby' }
        nk.stream_send(lobby, 'before')
        return tostring(nk.stream_count(lobby))
    end, 'count')
    nk.register_rpc(function()
        nk.stream_count({ mode = 100, label = 'lobby' })
        nk.stream_count({ mode = 100, label = 'lobby' })
        return 'twice'
    end, 'count_twice')
    nk.register_rpc(function(context, payload)
        if payload == 'wait' then nk.stream_count({ mode = 100, label = 'lobby' }) end
        return payload
    end, 'ask')
    nk.register_event(function() nk.stream_count({ mode = 100, label = 'lobby' }) end)
    nk.register_req_before(function(context, request)
        request.account.vars = { before = nk.match_signal(arena, 'b') }
        return request
    end, 'AuthenticateDevice')
    nk.register_req_after(function() nk.match_signal(arena, 'a') end, 'AuthenticateDevice')";

fn rig_with(tune: fn(&mut Settings)) -> Rig {
    let rig = Rig::with(&Plan {
        rooms: 1,
        callers: 1,
        modules: &[("arena.lua", ARENA), ("rpcs.lua", RPCS)],
        tune,
        ..Plan::default()
    });
    assert!(rig.rpc("create", "").contains(".node1"));
    rig
}

fn rig_with_callers(callers: u16) -> Rig {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    let rig = Rig::with(&Plan { rooms: 1, callers, modules, ..Plan::default() });
    rig.rpc("create", "");
    rig
}

#[test]
fn whoever_waits_keeps_nobody_else() {
    let rig = rig_with(|_| ());
    rig.freeze(rig.topology.rooms[0], true);
    let waiting = ["one", "two"].map(|payload| rig.begin_rpc(None, "signal", payload));
    assert_eq!(rig.stat("calls_waiting_now"), 2);
    for number in 0..20 {
        assert_eq!(rig.rpc("echo", &number.to_string()), number.to_string());
    }
    assert_eq!(waiting.map(|client| rig.body(client)), ["", ""]);
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert_eq!(waiting.map(|client| rig.body(client)), ["one for nil", "two for nil"]);
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("late_answers")), (0, 0));
}

/// Each of theirs holds half a megabyte of the eight that all calls of the one caller have.
#[test]
fn whoever_hoards_memory_while_waiting_loses_what_was_hoarded_and_nobody_else_does() {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    let rig = Rig::with(&Plan { small: true, modules, ..Plan::default() });
    rig.rpc("create", "");
    let neighbour = rig.login("neighbour").1;
    let hoarders: Vec<String> = (0..24).map(|one| rig.login(&format!("hoarder{one}")).1).collect();
    rig.freeze(rig.topology.rooms[0], true);
    let (mut waiting, mut hoarded) = (Vec::new(), Vec::new());
    for round in 0..4 {
        waiting.push(rig.begin_rpc(Some(&neighbour), "signal", &round.to_string()));
        for token in &hoarders {
            hoarded.push(rig.begin_rpc(Some(token), "hoard", &round.to_string()));
        }
        assert_eq!(rig.rpc("echo", "x"), "x");
    }
    let (ended, left) = (rig.stat("waiting_calls_ended"), rig.stat("calls_waiting_now"));
    // Of 96 that hold 48 megabytes.
    assert!((80..96).contains(&ended) && left + ended == 100, "{ended} ended, {left} wait");
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    let answers = waiting.into_iter().map(|client| rig.body(client));
    assert!(answers.eq((0..4).map(|round| format!("{round} for neighbour"))));
    let (went_on, lost): (Vec<String>, Vec<String>) =
        hoarded.into_iter().map(|client| rig.body(client)).partition(|body| body == "500000");
    assert_eq!((went_on.len() as u64, lost.len() as u64), (left - 4, ended));
    let names =
        |why: &String| why.contains("keep less while it waits, or raise runtime.memory_max_bytes");
    assert!(lost.iter().all(names), "{}", lost[0]);
    assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting_now")), (0, 0));
}

/// As calls that wait in WebAssembly do, which have an instance each.
#[test]
fn of_users_whose_calls_hold_as_much_whoever_waits_for_the_longest_loses_one() {
    let rig = rig_with(|_| ());
    let users: Vec<String> = (0..12).map(|one| rig.login(&format!("user{one}")).1).collect();
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    rig.narrow(modules, (rig.topology.callers[0].thread(), 5));
    rig.freeze(rig.topology.rooms[0], true);
    let calls: Vec<Client> =
        users.iter().map(|token| rig.begin_rpc(Some(token), "ask", "wait")).collect();
    assert_eq!((rig.stat("waiting_calls_ended"), rig.stat("calls_waiting_now")), (7, 5));
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    let went_on = calls.into_iter().map(|call| rig.body(call) == "wait");
    assert!(went_on.eq((0..12).map(|one| one >= 7)));
}

/// Those that hoard have been answered, and wait for their turn, as the neighbour's begins to wait.
#[test]
fn what_answered_calls_hold_costs_nobody_else_a_call() {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    let rig = Rig::with(&Plan { small: true, modules, ..Plan::default() });
    rig.rpc("create", "");
    let neighbour = rig.login("neighbour").1;
    let hoarders: Vec<String> = (0..6).map(|one| rig.login(&format!("hoarder{one}")).1).collect();
    let (caller, room) = (rig.topology.callers[0], rig.topology.rooms[0]);
    rig.freeze(room, true);
    let hoarded: Vec<Client> =
        hoarders.iter().map(|token| rig.begin_rpc(Some(token), "hoard", "")).collect();
    assert_eq!((rig.stat("waiting_calls_ended"), rig.stat("calls_waiting_now")), (0, 6));
    rig.freeze(caller, true);
    rig.freeze(room, false);
    rig.settle();
    let waits = rig.begin_rpc(Some(&neighbour), "hold", "1700000");
    rig.freeze(caller, false);
    rig.set_look_ms(900);
    // One of those that are answered, and what has come.
    (0..2).for_each(|_| rig.turn(caller));
    assert_eq!((rig.stat("waiting_calls_ended"), rig.stat("calls_waiting_now")), (0, 1));
    rig.set_look_ms(0);
    rig.settle();
    assert_eq!(rig.body(waits), "1700043");
    assert!(hoarded.into_iter().all(|client| rig.body(client) == "499999"));
    assert_eq!(rig.stat("waiting_calls_ended"), 0);
}

/// A large call of each of theirs, and two small ones, which are begun anew when they end.
#[test]
fn small_calls_beside_a_large_one_save_no_hoard() {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    let rig = Rig::with(&Plan { small: true, modules, ..Plan::default() });
    rig.rpc("create", "");
    let neighbour = rig.login("neighbour").1;
    let hoarders: Vec<String> = (0..8).map(|one| rig.login(&format!("hoarder{one}")).1).collect();
    rig.freeze(rig.topology.rooms[0], true);
    let waiting: Vec<Client> =
        (0..4).map(|one| rig.begin_rpc(Some(&neighbour), "signal", &one.to_string())).collect();
    let hold = |token: &String, payload: &str| rig.begin_rpc(Some(token), "hold", payload);
    let (mut large, mut tiny) = (Vec::new(), Vec::new());
    for token in &hoarders {
        large.push(hold(token, "850000"));
        tiny.extend(["10 one", "10 other"].map(|payload| (token, hold(token, payload))));
        for (round, (token, call)) in tiny.iter_mut().enumerate() {
            if !rig.body(*call).is_empty() {
                *call = hold(token, &format!("10 anew {round}"));
            }
        }
        assert_eq!(rig.rpc("echo", "x"), "x");
    }
    let is_ended = |client: &Client| rig.body(*client).contains("raise runtime.memory_max_bytes");
    let ended = large.into_iter().filter(is_ended).count();
    assert!((4..8).contains(&ended), "{ended} of 8");
    // What they hold still is no more than half: whoever takes the rest ends alone.
    let take = rig.begin_rpc(Some(&neighbour), "take", "");
    let body = rig.body(take);
    assert!(body.contains("runtime.memory_max_bytes"), "{body}");
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    let bodies: Vec<String> = waiting.into_iter().map(|client| rig.body(client)).collect();
    assert!(bodies.iter().all(|body| body.ends_with("for neighbour")), "{bodies:?}");
}

/// Modules keep five of the eight megabytes, and garbage fills the rest.
#[test]
fn what_modules_keep_ends_no_call_that_waits() {
    let modules = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    let rig = Rig::with(&Plan { small: true, modules, ..Plan::default() });
    rig.rpc("create", "");
    let neighbour = rig.login("neighbour").1;
    rig.freeze(rig.topology.rooms[0], true);
    assert_eq!(rig.rpc("keep", ""), "50");
    let waiting: Vec<Client> =
        (0..12).map(|_| rig.begin_rpc(Some(&neighbour), "signal", &"x".repeat(10_000))).collect();
    assert_eq!((rig.stat("waiting_calls_ended"), rig.stat("calls_waiting_now")), (0, 12));
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert!(waiting.into_iter().all(|client| rig.body(client).ends_with("for neighbour")));
}

/// Each piece takes 900 ms.
#[test]
fn pieces_of_calls_go_on_in_turns_with_others() {
    let rig = rig_with_callers(1);
    let [greedy, other, neighbour] = ["greedy", "other", "neighbour"].map(|name| rig.login(name).1);
    let (caller, room, core) =
        (rig.topology.callers[0], rig.topology.rooms[0], rig.topology.cores[0]);
    rig.freeze(room, true);
    let mut waiting: Vec<Client> =
        (0..4).map(|_| rig.begin_rpc(Some(&greedy), "signal", "g")).collect();
    waiting.push(rig.begin_rpc(Some(&other), "signal", "o"));
    assert_eq!(rig.stat("calls_waiting_now"), 5);
    rig.freeze(caller, true);
    rig.freeze(room, false);
    rig.settle();
    let echo = rig.begin_rpc(Some(&neighbour), "echo", "quick");
    rig.freeze(caller, false);
    rig.set_look_ms(900);
    let answered = || {
        rig.turn(caller);
        rig.turn(core);
        waiting.iter().map(|client| !rig.body(*client).is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(answered(), [true, false, false, false, false]);
    assert_eq!(answered(), [false; 5], "a call that has come is next");
    assert_eq!(rig.body(echo), "quick", "a neighbour waits");
    assert_eq!(answered(), [false, false, false, false, true], "the users take turns");
    assert_eq!(answered(), [false, true, false, false, false]);
    rig.set_look_ms(0);
    rig.settle();
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("jobs_waiting")), (0, 0));
}

#[test]
fn whoever_was_slow_has_as_many_calls_that_wait_as_may_run() {
    for (callers, waiting_now) in [(1, 5), (2, 1)] {
        let rig = rig_with_callers(callers);
        let slow = rig.login("slow").1;
        rig.rpc("echo", "known to be quick");
        rig.set_look_ms(900);
        rig.begin_rpc(Some(&slow), "long", "");
        rig.set_look_ms(0);
        rig.freeze(rig.topology.rooms[0], true);
        let waiting: Vec<Client> =
            (0..5).map(|_| rig.begin_rpc(Some(&slow), "count", "")).collect();
        assert_eq!(rig.stat("calls_waiting_now"), waiting_now, "{callers}");
        assert_eq!(rig.rpc("echo", "neighbour"), "neighbour");
        rig.freeze(rig.topology.rooms[0], false);
        rig.settle();
        for client in waiting {
            assert_eq!(rig.body(client), "0");
        }
        assert_eq!((rig.stat("calls_waiting_now"), rig.stat("jobs_waiting")), (0, 0));
    }
}

/// Its calls take longer than fast ones, then wait for a room that does not answer.
#[test]
fn one_user_stops_no_function_for_others() {
    let rig = rig_with_callers(2);
    let [slow, honest, other] = ["slow", "honest", "other"].map(|name| rig.login(name).1);
    assert_eq!(
        rig.body(rig.begin_rpc(Some(&honest), "ask", "known to be fast")),
        "known to be fast"
    );
    rig.set_look_ms(30);
    (0..20).for_each(|_| _ = rig.begin_rpc(Some(&slow), "ask", "long"));
    rig.set_look_ms(0);
    rig.freeze(rig.topology.rooms[0], true);
    let last = rig.topology.callers[1];
    let before = rig.posted(last, "job");
    let waiting: Vec<Client> = (0..5).map(|_| rig.begin_rpc(Some(&slow), "ask", "wait")).collect();
    assert_eq!(rig.posted(last, "job"), before, "what is left of them runs there");
    for number in 0..20 {
        let number = number.to_string();
        assert_eq!(rig.body(rig.begin_rpc(Some(&honest), "ask", &number)), number);
    }
    // Nor does one of them wait for the other.
    let both = [&honest, &other].map(|user| rig.begin_rpc(Some(user), "ask", "wait"));
    assert_eq!(rig.stat("calls_waiting_now"), 3);
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert!(waiting.into_iter().chain(both).all(|client| rig.body(client) == "wait"));
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("jobs_waiting")), (0, 0));
}

#[test]
fn one_user_cannot_take_all_places() {
    let rig = rig_with(|settings| {
        settings.runtime.waiting_calls_max = 7;
        settings.runtime.waiting_calls_per_user = 3;
    });
    let [(_, greedy), (_, other)] = ["greedy", "other"].map(|name| rig.login(name));
    rig.freeze(rig.topology.rooms[0], true);
    let of_greedy: Vec<Client> =
        (0..5).map(|_| rig.begin_rpc(Some(&greedy), "signal", "g")).collect();
    assert_eq!(rig.stat("calls_waiting_now"), 3);
    for client in &of_greedy[3..] {
        let refused = rig.body(*client);
        assert!(
            refused.contains(
                "3 calls of this user or address wait already (runtime.waiting_calls_per_user)"
            ),
            "{refused}"
        );
    }
    let of_other = rig.begin_rpc(Some(&other), "signal", "o");
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("waiting_calls_refused")), (4, 2));
    // Who calls with the key of the server is an address.
    let of_all: Vec<Client> = (0..5).map(|_| rig.begin_rpc(None, "signal", "k")).collect();
    assert_eq!(rig.stat("calls_waiting_now"), 7);
    let refused = rig.body(of_all[3]);
    assert!(refused.contains("7 calls of this thread wait already"), "{refused}");
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert_eq!(rig.body(of_other), "o for other");
    assert_eq!(rig.body(of_greedy[0]), "g for greedy");
    assert_eq!(rig.body(rig.begin_rpc(Some(&greedy), "signal", "again")), "again for greedy");
}

/// However many users one address has.
#[test]
fn whoever_has_no_call_that_waits_finds_a_place() {
    let rig = rig_with(|settings| settings.runtime.waiting_calls_max = 16);
    let [greedy, honest]: [Vec<String>; 2] = [("greedy", 16), ("honest", 3)]
        .map(|(name, count)| (0..count).map(|at| rig.login(&format!("{name}-{at}")).1).collect());
    rig.freeze(rig.topology.rooms[0], true);
    let wait = |address: u8, token: &str| {
        let client = rig.open_from(0, [10, 0, 0, address]);
        rig.bytes(client, &request("POST /v2/rpc/signal?unwrap", &format!("Bearer {token}"), "x"));
        client
    };
    let of_greedy: Vec<Client> = greedy.iter().map(|token| wait(1, token)).collect();
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("waiting_calls_refused")), (14, 2));
    let refused = rig.body(of_greedy[15]);
    let why = "14 calls of this thread wait already, and 2 places are kept for users and addresses of whom none \
        waits (runtime.waiting_calls_max 16)";
    assert!(refused.contains(why), "{refused}");
    let of_honest: Vec<Client> = (2..).zip(&honest).map(|(at, token)| wait(at, token)).collect();
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("waiting_calls_refused")), (16, 3));
    assert!(rig.body(of_honest[2]).contains("16 calls of this thread wait already"));
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert_eq!(rig.body(of_honest[0]), "x for honest-0");
    assert_eq!(rig.body(wait(1, &greedy[0])), "x for greedy-0", "places are free again");
}

/// Nobody waits for them, and yet they are of the user whose events they handle.
#[test]
fn handlers_of_one_user_s_events_cannot_take_all_places() {
    let rig = rig_with(|settings| settings.runtime.waiting_calls_per_user = 3);
    let [greedy, other] = ["greedy", "other"].map(|name| rig.login(name).1);
    rig.freeze(rig.topology.rooms[0], true);
    let tell = |token: &str| {
        let auth = format!("Bearer {token}");
        let answer = rig.http(rig.open(0), "POST /v2/event", &auth, r#"{"name":"any"}"#);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    (0..5).for_each(|_| tell(&greedy));
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("waiting_calls_refused")), (3, 2));
    tell(&other);
    assert_eq!((rig.stat("calls_waiting_now"), rig.stat("waiting_calls_refused")), (4, 2));
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert_eq!(rig.stat("calls_waiting_now"), 0);
}

#[test]
fn a_call_that_waits_too_long_is_ended_and_its_answer_is_nobodys() {
    let rig = rig_with(|settings| settings.runtime.call_wait_max_ms = 2_000);
    rig.freeze(rig.topology.rooms[0], true);
    let client = rig.begin_rpc(None, "signal", "late");
    rig.advance(1_990);
    assert_eq!(rig.body(client), "");
    rig.advance(20);
    let refused = rig.text(client);
    assert!(refused.starts_with("HTTP/1.1 504"), "{refused}");
    assert!(
        refused.contains(
            "waited for 2000 ms, at last for a match that is signalled (runtime.call_wait_max_ms)"
        ),
        "{refused}"
    );
    assert_eq!((rig.stat("calls_waited_too_long"), rig.stat("calls_waiting_now")), (1, 0));
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    assert_eq!((rig.stat("late_answers"), rig.text(client)), (1, String::new()));
}

/// A before-hook waits, then the call happens, then the after-hook waits, then the client is answered.
#[test]
fn hooks_wait_on_both_sides_of_a_call() {
    let rig = rig_with(|_| ());
    rig.freeze(rig.topology.rooms[0], true);
    let client = rig.open(0);
    let line = "POST /v2/account/authenticate/device?username=ada";
    let body = r#"{"id":"device-of-ada"}"#;
    rig.bytes(client, &request(line, &crate::rig::server_key(), body));
    assert_eq!((rig.stat("calls_suspended"), rig.stat("overall_after_count")), (2, 0));
    rig.freeze(rig.topology.rooms[0], false);
    rig.settle();
    let answer = rig.text(client);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("token"), "{answer}");
    assert_eq!((rig.stat("calls_suspended"), rig.stat("overall_after_count")), (3, 1));
}

/// What a call wanted of a stream before it asks reaches the room before the question does, even when
/// its mailbox is full at first.
#[test]
fn a_question_stays_behind_what_was_wanted_before() {
    let rig = rig_with(|_| ());
    let room = rig.topology.rooms[0];
    rig.set_full(room, true);
    let client = rig.begin_rpc(None, "count", "");
    assert_eq!(rig.body(client), "");
    rig.set_full(room, false);
    rig.advance(5);
    assert_eq!(rig.body(client), "0");
}

#[test]
fn the_end_of_the_server_ends_calls_that_wait() {
    let rig = rig_with(|_| ());
    rig.freeze(rig.topology.rooms[0], true);
    rig.begin_rpc(None, "signal", "never");
    assert_eq!(rig.stat("calls_waiting_now"), 1);
    rig.stop(rig.topology.callers[0]);
    assert!(rig.is_stopped(rig.topology.callers[0]));
}

/// How many calls of a user may wait, once a call of theirs has computed for 900 ms behind its first wait.
fn places_behind(function: &str) -> u64 {
    let rig = rig_with_callers(2);
    let slow = rig.login("slow").1;
    rig.rpc("echo", "known to be quick");
    let room = rig.topology.rooms[0];
    let callers = [rig.topology.callers[0], rig.topology.callers[1]];
    rig.freeze(room, true);
    let client = rig.begin_rpc(Some(&slow), function, "");
    assert_eq!(rig.stat("calls_waiting_now"), 1);
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    rig.freeze(room, false);
    rig.settle();
    rig.freeze(room, true);
    rig.set_look_ms(900);
    callers.iter().for_each(|caller| rig.freeze(*caller, false));
    rig.settle();
    rig.set_look_ms(0);
    rig.freeze(room, false);
    rig.settle();
    assert!(["0", "twice"].contains(&&*rig.body(client)), "{}", rig.body(client));
    rig.freeze(room, true);
    for _ in 0..5 {
        rig.begin_rpc(Some(&slow), "count", "");
    }
    rig.stat("calls_waiting_now")
}

#[test]
fn what_a_call_computes_between_two_waits_counts_as_what_it_computes_behind_the_last() {
    assert_eq!(places_behind("count"), 1);
    assert_eq!(places_behind("count_twice"), 1);
}

/// Another node may say whatever it likes of any question.
#[test]
fn nobody_answers_a_call_what_it_has_not_asked() {
    let rig = rig_with(|_| ());
    let room = rig.topology.rooms[0];
    rig.freeze(room, true);
    let waiting = ["count", "signal"].map(|id| rig.begin_rpc(None, id, "x"));
    let other = Nodes::new(&["node1", "z"], "z", Incarnation(1)).unwrap().here();
    let text = || Ok(RoomAnswer::Text("forged".into()));
    let count = || Ok(RoomAnswer::Stream(StreamAnswer::Count(7)));
    let forge = |outcome: &dyn Fn() -> Result<RoomAnswer, RoomError>| {
        for request in 0..9 {
            let answer = News::Answer { node: other, request, outcome: outcome() };
            rig.mail(rig.topology.callers[0], CallerMail::News(answer));
        }
        rig.settle();
    };
    assert_eq!(rig.stat("calls_waiting_now"), 2);
    forge(&text);
    forge(&count);
    forge(&|| Err(RoomError::NotFound));
    assert_eq!((rig.stat("late_answers"), rig.stat("calls_waiting_now")), (27, 2));
    rig.freeze(room, false);
    rig.settle();
    let answers = waiting.map(|client| rig.body(client));
    assert_eq!(answers, ["0", "x for nil"]);
}

/// A room that is asked about a stream says what a match says, and the other way round.
#[test]
fn a_call_does_not_take_an_answer_of_another_kind() {
    let rig = rig_with(|_| ());
    let (room, here) = (rig.topology.rooms[0], rig.topology.nodes.here());
    let outcomes: [(&str, RoomAnswer, &str); 2] = [
        ("count", RoomAnswer::Text("forged".into()), "0"),
        ("signal", RoomAnswer::Stream(StreamAnswer::Count(7)), "x for nil"),
    ];
    for (id, forged, answer) in outcomes {
        rig.freeze(room, true);
        let client = rig.begin_rpc(None, id, "x");
        for request in 0..9 {
            let outcome = Ok(forged.clone());
            let mail = CallerMail::News(News::Answer { node: here, request, outcome });
            rig.mail(rig.topology.callers[0], mail);
        }
        rig.settle();
        assert_eq!((rig.stat("calls_waiting_now"), rig.body(client).as_str()), (1, ""));
        rig.freeze(room, false);
        rig.settle();
        assert_eq!(rig.body(client), answer);
    }
    assert_eq!(rig.stat("late_answers"), 18);
}
