//! Matches: the state between callbacks, what callbacks see and return, budgets, and how much a match
//! holds.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchInit, MatchMessage, MatchReturned,
    MatchScript, Presence, PresenceReason, ScriptError, ScriptFailure, Scripts as _, Step,
};
use game::node::NodeId;
use game::value::Value;
use javascript::{Bundle, JsScripts};
use uuid::Uuid;

use crate::host::{TestDispatcher, TestHost};
use crate::{roomy, tight};

const ARENA: &str = r"
var matchInit = function (ctx, logger, nk, params) {
    return { state: { joined: [], params: params }, tickRate: 10, label: 'open' };
};
var matchJoinAttempt = function (ctx, logger, nk, dispatcher, tick, state, presence, metadata) {
    return { state: state, accept: metadata.ticket === 'yes', rejectMessage: 'no ticket, ' + presence.username };
};
var matchJoin = function (ctx, logger, nk, dispatcher, tick, state, presences) {
    presences.forEach(function (p) { state.joined.push(p); });
    dispatcher.matchLabelUpdate('full');
    return { state: state };
};
var matchLeave = function (ctx, logger, nk, dispatcher, tick, state, presences) {
    return null;
};
var matchLoop = function (ctx, logger, nk, dispatcher, tick, state, messages) {
    messages.forEach(function (m) {
        dispatcher.broadcastMessage(m.opCode, m.data, state.joined, m.sender);
        dispatcher.broadcastMessageDeferred(m.opCode + 1, nk.binaryToString(m.data), null, null, false);
    });
    if (tick === 99) { for (;;); }
    if (tick === 98) { dispatcher.matchKick(state.joined); }
    if (tick === 97) { return { state: 7 }; }
    return { state: state };
};
var matchTerminate = function (ctx, logger, nk, dispatcher, tick, state, graceSeconds) {
    return { state: state };
};
var matchSignal = function (ctx, logger, nk, dispatcher, tick, state, data) {
    return { state: state, data: JSON.stringify([data, state.joined.length, state.params, ctx.matchLabel]) };
};
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerMatch('arena', {
        matchInit: matchInit, matchJoinAttempt: matchJoinAttempt, matchJoin: matchJoin,
        matchLeave: matchLeave, matchLoop: matchLoop, matchTerminate: matchTerminate,
        matchSignal: matchSignal,
    });
}
";

fn context(label: &str) -> MatchContext {
    MatchContext { match_id: "id.node1".into(), label: label.into(), tick_rate_hz: 10 }
}

fn ended(step: Step<MatchReturned>) -> Result<MatchReturned, ScriptError> {
    match step {
        Step::Done(result) => result,
        other => unreachable!("{other:?}"),
    }
}

fn scripts(host: &mut TestHost, limits: script::budget::GuestLimits) -> JsScripts {
    JsScripts::load(Arc::new(Bundle::from_text("index.js", ARENA)), limits, host).unwrap()
}

fn arena(host: &mut TestHost, scripts: &mut JsScripts) -> Box<dyn MatchScript> {
    let mut running = scripts.match_new(host, &context(""), "arena").unwrap();
    let params = Value::Map(vec![(Bytes::from_static(b"some_key"), Value::Int(1))]);
    let init = ended(running.call(host, &context(""), 0, MatchCall::Init { params: &params }));
    let expected = MatchInit { tick_rate_hz: 10, label: "open".into() };
    assert_eq!(init, Ok(MatchReturned::Init(expected)));
    running
}

fn ann() -> Presence {
    Presence {
        user_id: Uuid::max(),
        session_id: Uuid::from_u128(7),
        username: "ann".into(),
        node: NodeId::default(),
    }
}

#[test]
fn a_match_plays() {
    let mut host = TestHost {
        dispatcher: Some(TestDispatcher { keep: true, ..TestDispatcher::default() }),
        ..TestHost::default()
    };
    let mut scripts = scripts(&mut host, roomy());
    assert!(scripts.match_new(&mut host, &context(""), "other").is_err());
    let mut running = arena(&mut host, &mut scripts);
    let now = context("open");
    let request = |ticket: &str| JoinRequest {
        presence: ann(),
        metadata: vec![("ticket".into(), ticket.into())],
        vars: Vec::new(),
        user_session_exp: 7,
        client_ip: None,
        client_port: None,
    };
    for (ticket, allow) in [("yes", true), ("no", false)] {
        let verdict =
            ended(running.call(&mut host, &now, 0, MatchCall::JoinAttempt(&request(ticket))));
        let reason = if allow { String::new() } else { "no ticket, ann".to_owned() };
        // A reason counts only for who is refused.
        let Ok(MatchReturned::Verdict(JoinVerdict { allow: found, reason: said })) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(found, allow);
        assert!(allow || said == reason, "{said}");
    }
    let who = [(ann(), PresenceReason::Join)];
    let join = MatchCall::Presences { joined: true, presences: &who };
    assert_eq!(ended(running.call(&mut host, &now, 1, join)), Ok(MatchReturned::GoesOn));

    let message = MatchMessage {
        sender: ann(),
        op_code: 5,
        data: Bytes::from_static(b"hi"),
        reliable: true,
        receive_time_ms: 1,
    };
    let full = context("full");
    let looped = running.call(&mut host, &full, 2, MatchCall::Loop(&[message.clone(), message]));
    assert_eq!(ended(looped), Ok(MatchReturned::GoesOn));
    let dispatcher = host.dispatcher.take().unwrap();
    assert_eq!(dispatcher.labels, ["full"]);
    assert_eq!(dispatcher.sent.len(), 4);
    let [first, second, ..] = dispatcher.sent.as_slice() else { panic!() };
    assert_eq!((first.op_code, &first.data[..], first.deferred), (5, &b"hi"[..], false));
    assert_eq!(first.to.as_deref(), Some(&[Uuid::from_u128(7)][..]));
    assert_eq!(first.sender, Some(ann()));
    assert_eq!((second.op_code, second.reliable, second.deferred), (6, false, true));
    assert_eq!((second.to.as_ref(), second.sender.as_ref()), (None, None));

    let signal = ended(running.call(&mut host, &full, 3, MatchCall::Signal(b"hello")));
    let text = r#"["hello",1,{"some_key":1},"full"]"#;
    assert_eq!(signal, Ok(MatchReturned::Signal(Bytes::from_static(text.as_bytes()))));
    // Without a dispatcher the room is ending it.
    let kick = ended(running.call(&mut host, &full, 98, MatchCall::Loop(&[])));
    assert_eq!(kick.unwrap_err().message, "Error: match stopped");
    let wrong = ended(running.call(&mut host, &full, 97, MatchCall::Loop(&[])));
    assert!(wrong.unwrap_err().message.contains("matchLoop is expected to return"));
    let stop = MatchCall::Terminate { grace_s: 5 };
    assert_eq!(ended(running.call(&mut host, &full, 4, stop)), Ok(MatchReturned::GoesOn));
    let leave = MatchCall::Presences { joined: false, presences: &who };
    assert_eq!(ended(running.call(&mut host, &full, 5, leave)), Ok(MatchReturned::Ends));
}

#[test]
fn a_tick_that_never_ends_is_stopped_and_its_neighbour_plays_on() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host, tight());
    let mut bad = arena(&mut host, &mut scripts);
    let mut good = arena(&mut host, &mut scripts);
    let error = ended(bad.call(&mut host, &context("open"), 99, MatchCall::Loop(&[]))).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert!(error.message.starts_with("index.js:21: "), "{}", error.message);
    assert!(error.message.contains("match.callback_budget_ms"), "{}", error.message);
    let next = ended(good.call(&mut host, &context("open"), 1, MatchCall::Loop(&[])));
    assert_eq!(next, Ok(MatchReturned::GoesOn));
}

/// What a small match holds; 1,000 of them are to stay below 300 MB with what the allocator adds.
#[test]
fn a_match_is_small() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host, roomy());
    let mut running = arena(&mut host, &mut scripts);
    for tick in 1..1_000 {
        let step = running.call(&mut host, &context("open"), tick % 90, MatchCall::Loop(&[]));
        assert_eq!(ended(step), Ok(MatchReturned::GoesOn));
    }
    let bytes = running.memory_bytes();
    assert!(bytes < 256 * 1024, "{bytes}");
}
