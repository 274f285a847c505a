//! Matches: callbacks, their results, the dispatcher.

use game::guest::{
    JoinRequest, MatchContext, MatchInit, MatchMessage, MatchScript, Presence, PresenceReason,
    ScriptError, Scripts as _,
};
use game::node::NodeId;
use game::value::Value;
use uuid::Uuid;

use crate::host::{TestDispatcher, TestHost};
use crate::load;
use crate::straight::{Straight as _, StraightMatch as _};

fn match_context() -> MatchContext {
    MatchContext { match_id: "m.node1".into(), label: "first".into(), tick_rate_hz: 10 }
}

fn presence(number: u128) -> Presence {
    Presence {
        user_id: Uuid::from_u128(number),
        session_id: Uuid::from_u128(number + 100),
        username: format!("user{number}").into(),
        node: NodeId::default(),
    }
}

fn request(number: u128) -> JoinRequest {
    JoinRequest {
        presence: presence(number),
        metadata: vec![("team".into(), "red".into())],
        vars: vec![("v".into(), "w".into())],
        user_session_exp: 99,
        client_ip: Some("::1".into()),
        client_port: None,
    }
}

/// A match module whose callbacks return their state, save those given.
fn module(callbacks: &str) -> String {
    format!(
        "local nk = require('nakama')
        local M = {{}}
        function M.match_init(context, params) return {{}}, 10, 'first' end
        function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
        function M.match_join(context, dispatcher, tick, state, presences) return state end
        function M.match_leave(context, dispatcher, tick, state, presences) return state end
        function M.match_loop(context, dispatcher, tick, state, messages) return state end
        function M.match_terminate(context, dispatcher, tick, state, grace_seconds) return state end
        function M.match_signal(context, dispatcher, tick, state, data) return state, data end
        {callbacks}
        return M"
    )
}

fn start(
    callbacks: &str,
    params: Value,
    host: &mut TestHost,
) -> Result<(Box<dyn MatchScript>, MatchInit), ScriptError> {
    let text = module(callbacks);
    let mut scripts = load(&[("game/arena.lua", &text)], host).unwrap();
    host.dispatcher = Some(TestDispatcher { keep: true, ..TestDispatcher::default() });
    scripts.match_start(host, &match_context(), "game.arena", params)
}

fn started(callbacks: &str, host: &mut TestHost) -> Box<dyn MatchScript> {
    start(callbacks, Value::Nil, host).unwrap().0
}

#[test]
fn init_gets_params_and_its_result_is_checked() {
    let mut host = TestHost::default();
    let params = Value::Map(vec![("rate".into(), Value::Int(20))]);
    let (_, init) = start(
        "function M.match_init(c, p) return {}, p.rate, c.match_id .. c.match_node .. c.execution_mode end",
        params,
        &mut host,
    )
    .unwrap();
    assert_eq!(init, MatchInit { tick_rate_hz: 20, label: "m.node1node1match".into() });

    for (returned, wanted) in [
        ("", "match_init returned unexpected third value, must be a label string"),
        ("{}, 10", "match_init returned unexpected third value, must be a label string"),
        ("{}, 'x', ''", "match_init returned unexpected second value, must be a tick rate number"),
        ("{}, 61, ''", "match_init returned invalid tick rate, must be between 1 and 60"),
        ("{}, 0, ''", "match_init returned invalid tick rate, must be between 1 and 60"),
        ("{}, 0/0, ''", "match_init returned invalid tick rate, must be between 1 and 60"),
        ("nil, 10, ''", "Match initial state must not be nil"),
        ("10, ''", "match_init returned unexpected first value, must be a state"),
        (
            "{}, 10, ('x'):rep(2049)",
            "match_init returned invalid label, must be 2048 bytes or less",
        ),
        (
            "1, {}, 10, ''",
            "match_init returned too many arguments, must be: state, tick rate number, label string",
        ),
    ] {
        let text = format!("function M.match_init() return {returned} end");
        let error = start(&text, Value::Nil, &mut host).err().unwrap();
        assert_eq!((error.message.as_str(), error.location.as_str()), (wanted, ""));
    }
    for (text, wanted) in [
        ("M.match_loop = nil", "match_loop not found or not a function"),
        ("M.match_signal = 5", "match_signal not found or not a function"),
        ("function M.match_init() error('no') end", "no"),
    ] {
        assert_eq!(start(text, Value::Nil, &mut host).err().unwrap().message, wanted);
    }
    let mut scripts = load(&[("a.lua", "return 5")], &mut host).unwrap();
    let mut new = |name: &str| {
        scripts.match_start(&mut host, &match_context(), name, Value::Nil).err().unwrap()
    };
    assert_eq!(new("b").message, "not found");
    assert_eq!(
        new("a").message,
        "match module must return a table containing the match callback functions"
    );
}

#[test]
fn join_attempts_are_answered_in_all_forms() {
    let mut host = TestHost::default();
    for (returned, wanted) in [
        ("s, true", "Ok(Some(JoinVerdict { allow: true, reason: \"\" }))"),
        ("s, false", "Ok(Some(JoinVerdict { allow: false, reason: \"\" }))"),
        ("s, false, 'full'", "Ok(Some(JoinVerdict { allow: false, reason: \"full\" }))"),
        ("nil", "Ok(None)"),
        ("nil, true", "Ok(None)"),
        ("", "too few values"),
        ("s, 5", "non-boolean join result or non-string"),
        ("s, 5, 'x'", "non-boolean join result, stopping"),
        ("'x'", "incorrect or too few values"),
        ("1, s, true", "returned too many values"),
    ] {
        let text = format!("function M.match_join_attempt(c, d, t, s) return {returned} end");
        let mut running = started(&text, &mut host);
        let answer =
            format!("{:?}", running.join_attempt(&mut host, &match_context(), 1, &request(1)));
        assert!(answer.contains(wanted), "{returned}: {answer}");
    }
    let text = "function M.match_join_attempt(c, d, t, s, p, m)
        return s, false, nk.json_encode({p, m, c.user_id, c.vars, c.client_ip, c.user_session_exp, c.username, c.match_label, t})
    end";
    let mut running = started(text, &mut host);
    let verdict =
        running.join_attempt(&mut host, &match_context(), 5, &request(1)).unwrap().unwrap();
    assert_eq!(
        verdict.reason,
        "[{\"node\":\"node1\",\"session_id\":\"00000000-0000-0000-0000-000000000065\",\
         \"user_id\":\"00000000-0000-0000-0000-000000000001\",\"username\":\"user1\"},\
         {\"team\":\"red\"},\"00000000-0000-0000-0000-000000000001\",{\"v\":\"w\"},\"::1\",99,\
         \"user1\",\"first\",5]"
    );
}

#[test]
fn callbacks_hand_the_state_on_and_end_the_match_with_nil() {
    let mut host = TestHost::default();
    let text = "function M.match_init() return {n = 0}, 10, '' end
        function M.match_loop(c, d, tick, s, messages)
            for _, m in ipairs(messages) do s.n = s.n + #m.data end
            if tick == 9 then return nil end
            if tick == 8 then return s, 1 end
            if tick == 7 then error('oops') end
            return s
        end
        function M.match_join(c, d, t, s, p) s.joined = p[1].username .. p[1].reason .. #p return s end
        function M.match_leave(c, d, t, s, p) s.left = p[1].session_id .. p[1].reason return s end
        function M.match_terminate(c, d, t, s, g) s.grace = g return s end
        function M.match_signal(c, d, t, s, data) return s, nk.json_encode(s) .. data end";
    let mut running = started(text, &mut host);
    let context = match_context();
    let message = |data: &'static str| MatchMessage {
        sender: presence(1),
        op_code: 5,
        data: data.into(),
        reliable: true,
        receive_time_ms: 17,
    };
    assert!(running.tick(&mut host, &context, 0, &[]).unwrap());
    assert!(running.tick(&mut host, &context, 1, &[message("abc"), message("de")]).unwrap());
    assert!(running.tick(&mut host, &context, 2, &[message("f")]).unwrap());
    let both = [(presence(1), PresenceReason::Join), (presence(2), PresenceReason::Join)];
    assert!(running.presences(&mut host, &context, 3, true, &both).unwrap());
    let one = [(presence(2), PresenceReason::Disconnect)];
    assert!(running.presences(&mut host, &context, 3, false, &one).unwrap());
    assert!(running.terminate(&mut host, &context, 3, 8).unwrap());
    let answer = running.signal(&mut host, &context, 3, b"!").unwrap().unwrap();
    assert_eq!(
        std::str::from_utf8(&answer).unwrap(),
        "{\"grace\":8,\"joined\":\"user112\",\
         \"left\":\"00000000-0000-0000-0000-0000000000664\",\"n\":6}!"
    );
    let error = running.tick(&mut host, &context, 7, &[]).unwrap_err();
    assert_eq!((error.message.as_str(), error.location.as_str()), ("oops", "game/arena.lua:15"));
    let error = running.tick(&mut host, &context, 8, &[]).unwrap_err();
    assert_eq!(error.message, "Match loop returned too many values, stopping match");
    assert!(!running.tick(&mut host, &context, 9, &[]).unwrap());
}

#[test]
fn messages_and_label_look_as_nakama_shows_them() {
    let mut host = TestHost::default();
    let text = "function M.match_loop(c, d, tick, s, messages)
            d.match_label_update(nk.json_encode(messages))
            d.match_label_update(c.match_label .. c.match_tick_rate)
            return s
        end";
    let mut running = started(text, &mut host);
    let message = MatchMessage {
        sender: presence(1),
        op_code: 5,
        data: "abc".into(),
        reliable: false,
        receive_time_ms: 17,
    };
    let context = MatchContext { label: "second".into(), ..match_context() };
    running.tick(&mut host, &context, 0, &[message]).unwrap();
    assert_eq!(
        host.dispatcher.unwrap().labels,
        [
            "[{\"data\":\"abc\",\"op_code\":5,\"receive_time_ms\":17,\"reliable\":false,\
             \"sender\":{\"node\":\"node1\",\
             \"session_id\":\"00000000-0000-0000-0000-000000000065\",\
             \"user_id\":\"00000000-0000-0000-0000-000000000001\",\"username\":\"user1\"}}]",
            "second10",
        ]
    );
}

#[test]
fn every_message_names_its_sender_whoever_has_sent_before() {
    let mut host = TestHost::default();
    let text = "function M.match_loop(c, d, tick, s, messages)
            local names = {}
            for i, m in ipairs(messages) do
                local sender = m.sender
                assert(sender.username == 'user' .. m.data and sender.node == 'node1')
                assert(tonumber(string.sub(sender.user_id, -4), 16) == tonumber(m.data))
                assert(tonumber(string.sub(sender.session_id, -4), 16) == m.data + 100)
                -- The table is the script's own.
                sender.username, sender.user_id, sender.more = 'changed', nil, true
                for _, other in ipairs(names) do assert(other ~= sender) end
                names[i] = sender
            end
            if tick == 1 then error('oops') end
            return s
        end";
    let mut running = started(text, &mut host);
    let context = match_context();
    let message = |number: u128| MatchMessage {
        sender: presence(number),
        op_code: 5,
        data: number.to_string().into(),
        reliable: true,
        receive_time_ms: 17,
    };
    let mut tick = |at: i64, from: &[u128]| {
        let messages: Vec<_> = from.iter().map(|number| message(*number)).collect();
        running.tick(&mut host, &context, at, &messages).map(|_| ())
    };
    tick(0, &[1, 2, 1]).unwrap();
    assert_eq!(tick(1, &[3, 2]).unwrap_err().message, "oops");
    tick(2, &[2, 3, 4]).unwrap();
    // More than a match knows at a time.
    for first in (10..6_000).step_by(100) {
        let many: Vec<_> = (first..first + 100).chain([first, 1]).collect();
        tick(3, &many).unwrap();
    }
    let one = [(presence(1), PresenceReason::Leave)];
    assert!(running.presences(&mut host, &context, 4, false, &one).unwrap());
    let both = [7_001, 1, 7_002].map(message);
    running.tick(&mut host, &context, 5, &both).unwrap();
}

#[test]
fn the_dispatcher_sends_kicks_and_refuses() {
    let mut host = TestHost::default();
    let text = "function M.match_loop(c, d, tick, s, messages)
            local p = messages[1].sender
            d.broadcast_message(1, 'all')
            d.broadcast_message(2, nil, {p})
            d.broadcast_message(3, 'x', {}, p, false)
            d.broadcast_message_deferred(4, '\\0\\255')
            d.match_kick({p})
            local problems = {}
            for i, args in ipairs({
                {}, {1, 5}, {1, '', 5}, {1, '', {5}}, {1, '', {{}}}, {1, '', nil, {}},
                {1, '', {{session_id = 'x'}}}, {1, '', nil, nil, 1},
            }) do
                local ok, text = pcall(d.broadcast_message, args[1], args[2], args[3], args[4], args[5])
                problems[i] = tostring(ok) .. ' ' .. text
            end
            local ok, text = pcall(d.match_label_update, ('x'):rep(2049))
            problems[#problems + 1] = text
            nk.logger_info(table.concat(problems, '\\n'))
            return s
        end";
    let mut running = started(text, &mut host);
    let message = MatchMessage {
        sender: presence(1),
        op_code: 5,
        data: "".into(),
        reliable: true,
        receive_time_ms: 17,
    };
    running.tick(&mut host, &match_context(), 0, &[message]).unwrap();
    let dispatcher = host.dispatcher.take().unwrap();
    let shown: Vec<_> = dispatcher
        .sent
        .iter()
        .map(|b| {
            (
                b.op_code,
                &b.data[..],
                b.to.as_ref().map(|to| to.len()),
                b.sender.is_some(),
                b.reliable,
                b.deferred,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (1, &b"all"[..], None, false, true, false),
            (2, b"", Some(1), false, true, false),
            (3, b"x", Some(0), true, false, false),
            (4, b"\0\xff", None, false, true, true),
        ]
    );
    assert_eq!(dispatcher.kicked, [Uuid::from_u128(101)]);
    assert_eq!(
        host.logs,
        ["Info false bad argument #1 to broadcast_message (number expected)\n\
          false bad argument #2 to broadcast_message (expects data to be a string or nil)\n\
          false bad argument #3 to broadcast_message (table expected)\n\
          false bad argument #3 to broadcast_message (expects a valid set of presences)\n\
          false bad argument #3 to broadcast_message (expects each presence to have a valid session_id)\n\
          false bad argument #4 to broadcast_message (expects presence to have a valid user_id)\n\
          false bad argument #3 to broadcast_message (expects each presence to have a valid session_id)\n\
          false bad argument #5 to broadcast_message (boolean expected)\n\
          match label too long, must be 0-2048 bytes"]
    );
}

#[test]
fn matches_share_nothing_and_do_not_register() {
    let mut host = TestHost::default();
    let text = module(
        "count = 0
        nk.register_rpc(function() end, 'arena')
        function M.match_loop(c, d, t, s) M.count = (M.count or 0) + 1 d.match_label_update(tostring(M.count)) return s end",
    );
    let mut scripts = load(&[("arena.lua", &text)], &mut host).unwrap();
    assert_eq!(scripts.registered().rpc, ["arena"]);
    host.dispatcher = Some(TestDispatcher::default());
    let mut new = |host: &mut TestHost| {
        scripts.match_start(host, &match_context(), "arena", Value::Nil).unwrap().0
    };
    let (mut a, mut b) = (new(&mut host), new(&mut host));
    a.tick(&mut host, &match_context(), 0, &[]).unwrap();
    a.tick(&mut host, &match_context(), 1, &[]).unwrap();
    b.tick(&mut host, &match_context(), 0, &[]).unwrap();
    assert_eq!(host.dispatcher.unwrap().labels, ["1", "2", "1"]);
}
