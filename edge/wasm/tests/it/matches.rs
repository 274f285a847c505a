//! Matches: what callbacks are given and give, what they wait for, budgets, and how much a match holds.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Ask, JoinRequest, JoinVerdict, MatchCall, MatchContext, MatchInit, MatchMessage, MatchReturned,
    MatchScript, Presence, PresenceReason, Reply, ScriptError, ScriptFailure, Scripts as _, Step,
};
use game::node::NodeId;
use game::value::Value;
use script::budget::VmMemory;
use uuid::Uuid;
use wasm::{MAPPINGS_PER_INSTANCE, WasmScripts};

use crate::guest::Part::{Int, List, Text};
use crate::guest::{Part, guest_with};
use crate::host::{TestDispatcher, TestHost};
use crate::{load, load_with, tight};

const NOBODY: &str = "00000000-0000-0000-0000-000000000007";

/// Tells callbacks apart by the seventh letter of their kind, match_[i]nit, [j]oin, [s]ignal, and a loop,
/// which does `tick`, by two: match_[lo]op.
fn arena(tick: &str) -> String {
    let data: &[Part<'_>] = &[
        List(&[Int(10), Text("open")]),
        List(&[Text("broadcast_message"), Int(5), Text("hi"), List(&[Text(NOBODY)])]),
        List(&[Text("match_label_update"), Text("full")]),
        Text("heard"),
        List(&[Text("storage_read"), List(&[])]),
    ];
    let body = "
        (local.set $n (i32.load8_u (i32.const 4112)))
        (if (i32.eq (local.get $n) (i32.const 105)) (then (call $give {0}) (return (i32.const 0))))
        (if (i32.eq (local.get $n) (i32.const 115)) (then (call $give {3}) (return (i32.const 0))))
        (if (i32.eq (i32.load16_u (i32.const 4112)) (i32.const 28524)) (then TICK))
        (i32.store8 (i32.const 0) (i32.const 2))
        (call $give (i32.const 0) (i32.const 1))
        (i32.const 0)";
    guest_with(data, &body.replace("TICK", tick), "(func $spin (loop (br 0)))")
}

fn context(label: &str) -> MatchContext {
    MatchContext { match_id: "id.node1".into(), label: label.into(), tick_rate_hz: 10 }
}

fn ended(step: Step<MatchReturned>) -> Result<MatchReturned, ScriptError> {
    match step {
        Step::Done(result) => result,
        Step::Waits(ask) => unreachable!("{ask:?}"),
        Step::Paused => unreachable!("it has no slices"),
    }
}

fn open(host: &mut TestHost, scripts: &mut WasmScripts) -> Box<dyn MatchScript> {
    let mut running = scripts.match_new(host, &context(""), "test").unwrap();
    let init = ended(running.call(host, &context(""), 0, MatchCall::Init { params: &Value::Nil }));
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
    let tick = "(drop (call $call {1})) (drop (call $call {2}))";
    let mut scripts = load(&arena(tick), &mut host);
    let missing = scripts.match_new(&mut host, &context(""), "Test").err().unwrap();
    assert_eq!(missing.kind, ScriptFailure::NotFound);
    let mut running = open(&mut host, &mut scripts);
    let now = context("open");
    let who = [(ann(), PresenceReason::Join)];
    for joined in [true, false] {
        let call = MatchCall::Presences { joined, presences: &who };
        assert_eq!(ended(running.call(&mut host, &now, 1, call)), Ok(MatchReturned::GoesOn));
    }
    let message = MatchMessage {
        sender: ann(),
        op_code: 5,
        data: Bytes::from_static(b"hi"),
        reliable: true,
        receive_time_ms: 1,
    };
    let looped = running.call(&mut host, &now, 2, MatchCall::Loop(&[message]));
    assert_eq!(ended(looped), Ok(MatchReturned::GoesOn));
    let dispatcher = host.dispatcher.take().unwrap();
    assert_eq!(dispatcher.labels, ["full"]);
    let [sent] = dispatcher.sent.as_slice() else { panic!() };
    assert_eq!(
        (sent.op_code, &sent.data[..], sent.deferred, sent.reliable),
        (5, &b"hi"[..], false, true)
    );
    assert_eq!(sent.to.as_deref(), Some(&[Uuid::from_u128(7)][..]));
    assert_eq!(sent.sender, None);
    let signal = ended(running.call(&mut host, &now, 3, MatchCall::Signal(b"hello")));
    assert_eq!(signal, Ok(MatchReturned::Signal(Bytes::from_static(b"heard"))));
    let stop = MatchCall::Terminate { grace_s: 5 };
    assert_eq!(ended(running.call(&mut host, &now, 4, stop)), Ok(MatchReturned::GoesOn));
}

#[test]
fn a_join_has_a_verdict() {
    let request = JoinRequest {
        presence: ann(),
        metadata: vec![("ticket".into(), "no".into())],
        vars: Vec::new(),
        user_session_exp: 7,
        client_ip: None,
        client_port: Some("7".into()),
    };
    let mut host = TestHost::default();
    // It gives true for what it does not know, and that is no verdict.
    let mut scripts = load(&arena(""), &mut host);
    let mut running = open(&mut host, &mut scripts);
    let attempt = running.call(&mut host, &context("open"), 1, MatchCall::JoinAttempt(&request));
    assert!(
        ended(attempt)
            .unwrap_err()
            .message
            .contains("match_join_attempt is expected to give a verdict")
    );
    let refusing = arena("").replace("(i32.store8 (i32.const 0) (i32.const 2))", "
        (i32.store8 (i32.const 0) (i32.const 6)) (i32.store (i32.const 1) (i32.const 1))
        (i32.store8 (i32.const 5) (i32.const 1))
        (if (i32.eq (local.get $n) (i32.const 106)) (then (call $give (i32.const 0) (i32.const 6)) (return (i32.const 0))))");
    let mut scripts = load(&refusing, &mut host);
    let mut running = open(&mut host, &mut scripts);
    let attempt = running.call(&mut host, &context("open"), 1, MatchCall::JoinAttempt(&request));
    let verdict = JoinVerdict { allow: false, reason: String::new() };
    assert_eq!(ended(attempt), Ok(MatchReturned::Verdict(verdict)));
}

#[test]
fn a_tick_that_never_ends_is_stopped_and_its_neighbour_plays_on() {
    let mut host = TestHost::default();
    let spins = "(if (i32.eq (i32.load8_u (i32.const 200)) (i32.const 0)) (then (call $spin)))";
    let mut scripts = load_with(&arena(spins), tight(), &mut host).unwrap();
    let mut quiet = load_with(&arena(""), tight(), &mut host).unwrap();
    let mut bad = open(&mut host, &mut scripts);
    let mut good = open(&mut host, &mut quiet);
    let now = context("open");
    let error = ended(bad.call(&mut host, &now, 9, MatchCall::Loop(&[]))).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert!(error.message.contains(": spin: "), "{}", error.message);
    assert!(error.message.ends_with("(match.callback_budget_ms)"), "{}", error.message);
    assert_eq!(
        ended(good.call(&mut host, &now, 1, MatchCall::Loop(&[]))),
        Ok(MatchReturned::GoesOn)
    );
    let after = ended(bad.call(&mut host, &now, 10, MatchCall::Loop(&[]))).unwrap_err();
    assert_eq!(after.message, "match stopped");
}

#[test]
fn a_callback_waits_for_the_database_without_its_room() {
    let mut host = TestHost::default();
    let mut scripts = load(&arena("(drop (call $call {4}))"), &mut host);
    let mut running = open(&mut host, &mut scripts);
    let now = context("open");
    let step = running.call(&mut host, &now, 1, MatchCall::Loop(&[]));
    let Step::Waits(Ask::Run { function, values, allowance }) = step else { panic!("{step:?}") };
    assert_eq!((function, values.as_slice()), ("storage_read", &[Value::List(Vec::new())][..]));
    assert!(allowance.time_ms > 0 && allowance.memory_bytes > 1 << 20, "{allowance:?}");
    let returns = [Value::List(Vec::new())].into_iter().collect();
    let answer = Ok(Reply::Returns { returns, steps: 1 });
    assert_eq!(ended(running.resume(&mut host, &now, answer)), Ok(MatchReturned::GoesOn));
}

/// What a small match holds: the memory that it has asked for, and its instance.
#[test]
fn a_match_is_small() {
    let mut host = TestHost::default();
    let mut scripts = load(&arena(""), &mut host);
    let mut running = open(&mut host, &mut scripts);
    for tick in 1..1_000 {
        let step = running.call(&mut host, &context("open"), tick, MatchCall::Loop(&[]));
        assert_eq!(ended(step), Ok(MatchReturned::GoesOn));
    }
    assert_eq!(running.memory_bytes(), 3 * 65_536);
}

/// What is reckoned for a match of the mappings that the process may have is what it takes of them. (The tests beside
/// this one have some as well.)
#[test]
fn a_match_takes_no_more_mappings_than_are_reckoned_for_it() {
    const MATCHES: usize = 500;
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let mut host = TestHost::default();
    let mut scripts = load(&arena(""), &mut host);
    let before = mappings();
    let running: Vec<_> = (0..MATCHES).map(|_| open(&mut host, &mut scripts)).collect();
    let taken = mappings() - before;
    assert!(taken > MATCHES, "{taken}");
    assert!(taken <= MATCHES * MAPPINGS_PER_INSTANCE, "{taken} for {}", running.len());
}

#[test]
fn matches_have_bounds_of_their_own_and_one_together() {
    let mut host = TestHost::default();
    let limits = script::budget::GuestLimits { match_memory_max_bytes: 128 << 10, ..tight() };
    let mut scripts = load_with(&arena(""), limits, &mut host).unwrap();
    let error = scripts.match_new(&mut host, &context(""), "test").err().unwrap();
    assert!(error.message.ends_with("131072 bytes (match.memory_max_bytes)"), "{}", error.message);
    let limits =
        script::budget::GuestLimits { memory: Arc::new(VmMemory::new(512 << 10)), ..tight() };
    let mut scripts = load_with(&arena(""), limits, &mut host).unwrap();
    let first = scripts.match_new(&mut host, &context(""), "test");
    let second = scripts.match_new(&mut host, &context(""), "test").err().unwrap();
    assert!(
        second.message.ends_with("524288 bytes (runtime.all_memory_max_bytes)"),
        "{}",
        second.message
    );
    assert_eq!(second.kind, ScriptFailure::OutOfMemory);
    drop(first);
    assert!(scripts.match_new(&mut host, &context(""), "test").is_ok());
}
