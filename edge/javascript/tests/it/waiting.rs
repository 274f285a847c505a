//! Calls and callbacks of matches that wait: each is put aside with its stack, in the middle of whatever it does,
//! and others run meanwhile on the same thread.

use std::sync::Arc;

use bytes::Bytes;
use game::guest::{
    Answer, Ask, CallId, GuestCall, HostError, MatchCall, MatchContext, MatchReturned, MatchScript,
    Reply, Returned, ScriptError, ScriptFailure, Scripts as _, Step,
};
use game::host::Returns;
use game::value::Value;
use javascript::JsScripts;
use script::budget::GuestLimits;
use script::budget::VmMemory;

use crate::host::TestHost;
use crate::{load_with, roomy, tight};

/// A match that does in its callback for a signal what the signal names.
const MATCH: &str = r"
var calls = 0;
function other(nk, text) { return nk.matchSignal('other', text); }
function deep(nk, left) { return left > 0 ? deep(nk, left - 1) : other(nk, 'bottom'); }
var acts = {
    plain: function (nk) { return other(nk, 'a') + other(nk, 'b'); },
    caught: function (nk) { try { return other(nk, 'a'); } catch (e) { return 'caught ' + e.message; } },
    sort: function (nk) { return [3, 1, 2].sort(function (a, b) { return (a - b) * other(nk, 'x'); }).join(); },
    getter: function (nk) { return JSON.stringify({ get text() { return other(nk, 'g'); } }); },
    argument: function (nk) { return other(nk, JSON.stringify([{ toJSON: function () { return other(nk, 'in'); } }])); },
    inArgument: function (nk) {
        return nk.matchCreate('one', { toJSON: function () { return { text: other(nk, 'in') }; } });
    },
    proxy: function (nk) { return new Proxy({}, { get: function (o, name) { return other(nk, name); } }).field; },
    replace: function (nk) { return 'a-b'.replace(/[a-z]/g, function (it) { return other(nk, it); }); },
    iterate: function (nk) {
        var each = function* () { yield other(nk, '1'); yield other(nk, '2'); };
        return Array.from(each()).join();
    },
    promise: function (nk) { var text = ''; Promise.resolve().then(function () { other(nk, 'late'); }); return 'now'; },
    deep: function (nk) { return deep(nk, 500); },
    bottomless: function (nk) {
        var at = 0;
        function down() { at += 1; other(nk, 'down'); down(); }
        function fall() { at += 1; fall(); }
        other(nk, 'before');
        try { fall(); } catch (e) { return e.name + ' ' + (at > 100) + other(nk, 'after'); }
    },
    read: function (nk) { return JSON.stringify(nk.storageRead([{ collection: 'c', key: 'k' }])); },
    hash: function (nk) { return nk.bcryptHash('secret'); },
    fetch: function (nk) { return nk.httpRequest('http://other/', 'get').body; },
    count: function (nk) { return String(nk.streamCount({ mode: 9 })); },
    again: function (nk) { for (;;) { try { nk.storageRead([]); } catch (e) {} } },
    stubborn: function (nk, logger) {
        for (;;) { try { other(nk, 'x'); } catch (e) { logger.info('still here'); } finally { for (;;) {} } }
    },
    none: function (nk) { return 'none'; },
};
function begin() { return { state: { count: 0 }, tickRate: 10, label: '' }; }
function same(ctx, logger, nk, dispatcher, tick, state) { return { state: state }; }
function signalled(ctx, logger, nk, dispatcher, tick, state, data) {
    state.count += 1;
    var text = acts[data](nk, logger);
    return { state: state, data: text + ' ' + state.count };
}
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerMatch('one', {
        matchInit: begin, matchJoinAttempt: same, matchJoin: same, matchLeave: same,
        matchLoop: same, matchTerminate: same, matchSignal: signalled,
    });
}";

fn context() -> MatchContext {
    MatchContext { match_id: "id.node1".into(), label: String::new(), tick_rate_hz: 10 }
}

fn scripts(host: &mut TestHost, limits: GuestLimits) -> JsScripts {
    load_with(MATCH, limits, host).unwrap()
}

fn open(host: &mut TestHost, scripts: &mut JsScripts) -> Box<dyn MatchScript> {
    let mut made = scripts.match_new(host, &context(), "one").unwrap();
    let init = made.call(host, &context(), 0, MatchCall::Init { params: &Value::Nil });
    assert!(matches!(init, Step::Done(Ok(MatchReturned::Init(_)))), "{init:?}");
    made
}

fn signal(running: &mut dyn MatchScript, host: &mut TestHost, act: &str) -> Step<MatchReturned> {
    running.call(host, &context(), 1, MatchCall::Signal(act.as_bytes()))
}

fn text(text: &str) -> Answer {
    Ok(Reply::Text(text.to_owned().into()))
}

fn ended(step: Step<MatchReturned>) -> Result<String, ScriptError> {
    match step {
        Step::Done(Ok(MatchReturned::Signal(text))) => {
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Step::Done(Err(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// What the match says to an act, where everybody that it asks echoes; and how often it waited.
fn play(act: &str) -> (String, u32) {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host, roomy());
    let mut running = open(&mut host, &mut scripts);
    let mut step = signal(&mut *running, &mut host, act);
    let mut waits = 0;
    loop {
        let answer = match step {
            Step::Waits(Ask::MatchSignal { data, .. }) => Ok(Reply::Text(data)),
            Step::Waits(Ask::MatchCreate { params, .. }) => text(&format!("{params:?}")),
            step => return (ended(step).unwrap(), waits),
        };
        waits += 1;
        step = running.resume(&mut host, &context(), answer);
    }
}

#[test]
fn a_callback_waits_wherever_it_is() {
    for (act, expected, waits) in [
        ("plain", "ab 1", 2),
        // "x" is no number, so that the order is the list's.
        ("sort", "3,1,2 1", 2),
        ("getter", r#"{"text":"g"} 1"#, 1),
        ("argument", r#"["in"] 1"#, 2),
        ("inArgument", r#"Map([(b"text", Bytes(b"in"))]) 1"#, 2),
        ("proxy", "field 1", 1),
        ("replace", "a-b 1", 2),
        ("iterate", "1,2 1", 2),
        ("promise", "now 1", 1),
        ("deep", "bottom 1", 1),
        ("bottomless", "RangeError trueafter 1", 2),
        ("none", "none 1", 0),
    ] {
        assert_eq!(play(act), (expected.to_owned(), waits), "{act}");
    }
}

/// For a match all that a worker or another room can do is done elsewhere.
#[test]
fn a_callback_waits_for_what_would_keep_its_room() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host, roomy());
    let mut running = open(&mut host, &mut scripts);
    for (act, asked, given, expected) in [
        ("read", "storage_read", Value::List(Vec::new()), "[]"),
        ("hash", "bcrypt_hash", Value::text("hashed"), "hashed"),
    ] {
        let step = signal(&mut *running, &mut host, act);
        let Step::Waits(Ask::Run { function, values, allowance }) = step else {
            panic!("{step:?}")
        };
        assert_eq!((function, values.len()), (asked, 1));
        assert!(allowance.time_ms > 0 && allowance.memory_bytes > 1 << 20, "{allowance:?}");
        let returns: Returns = [given].into_iter().collect();
        let answer = Ok(Reply::Returns { returns, steps: 1 });
        let said = ended(running.resume(&mut host, &context(), answer)).unwrap();
        assert!(said.starts_with(expected), "{said}");
    }
    for act in ["fetch", "count"] {
        let step = signal(&mut *running, &mut host, act);
        assert!(matches!(step, Step::Waits(Ask::Fetch(_) | Ask::Stream { .. })), "{step:?}");
        let refused = running.resume(&mut host, &context(), Err(HostError::new("not now")));
        let error = ended(refused).unwrap_err();
        assert!(error.message.ends_with("not now"), "{}", error.message);
        assert!(error.location.contains("index.js:"), "{}", error.location);
    }
    let step = signal(&mut *running, &mut host, "caught");
    assert!(matches!(step, Step::Waits(_)));
    let refused = running.resume(&mut host, &context(), Err(HostError::new("match busy")));
    assert_eq!(ended(refused), Ok("caught failed to signal match: match busy 5".to_owned()));
}

#[test]
fn matches_wait_side_by_side_and_go_on_in_any_order() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host, roomy());
    let mut all: Vec<_> = (0..20).map(|_| open(&mut host, &mut scripts)).collect();
    for running in &mut all {
        assert!(matches!(signal(&mut **running, &mut host, "plain"), Step::Waits(_)));
    }
    for index in (0..20).rev() {
        let step = all[index].resume(&mut host, &context(), text(&format!("{index}.")));
        assert!(matches!(step, Step::Waits(_)));
    }
    for index in (0..20).step_by(2).chain((1..20).step_by(2)) {
        let step = all[index].resume(&mut host, &context(), text("end"));
        assert_eq!(ended(step), Ok(format!("{index}.end 1")));
        assert_eq!(ended(signal(&mut *all[index], &mut host, "none")), Ok("none 2".to_owned()));
    }
}

/// All pieces of a callback have one budget, and what passes between them is not of it.
#[test]
fn a_callback_that_waits_again_and_again_is_stopped() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host, tight());
    let (mut again, mut other) = (open(&mut host, &mut scripts), open(&mut host, &mut scripts));
    assert!(matches!(signal(&mut *other, &mut host, "plain"), Step::Waits(_)));
    let mut step = signal(&mut *again, &mut host, "again");
    for _ in 0..1_000_000 {
        let Step::Waits(Ask::Run { .. }) = step else { break };
        step = again.resume(&mut host, &context(), Err(HostError::new("not now")));
    }
    let error = ended(step).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert!(error.message.ends_with("50 ms (match.callback_budget_ms)"), "{}", error.message);
    let step = other.resume(&mut host, &context(), text("in "));
    assert!(matches!(step, Step::Waits(_)));
    assert_eq!(ended(other.resume(&mut host, &context(), text("time"))), Ok("in time 1".into()));
}

/// Its stack and its VM are given back, whatever the script does about it.
#[test]
fn a_match_that_ends_while_it_waits_leaves_nothing() {
    let mut host = TestHost::default();
    let memory = Arc::new(VmMemory::default());
    let limits = GuestLimits { memory: Arc::clone(&memory), ..tight() };
    let mut scripts = scripts(&mut host, limits);
    let before = memory.bytes();
    for act in ["plain", "caught", "deep", "sort", "again", "stubborn"] {
        for _ in 0..10 {
            let mut running = open(&mut host, &mut scripts);
            assert!(matches!(signal(&mut *running, &mut host, act), Step::Waits(_)), "{act}");
            assert!(memory.match_bytes() > 0);
            drop(running);
            assert_eq!((memory.bytes(), memory.match_bytes()), (before, 0), "{act}");
        }
    }
    assert_eq!(host.logs, Vec::<String>::new(), "nothing of it was heard");
}

/// What a call has taken counts while it waits.
#[test]
fn what_a_call_holds_while_it_waits_is_counted() {
    let mut host = TestHost::default();
    let memory = Arc::new(VmMemory::default());
    let limits = GuestLimits { memory: Arc::clone(&memory), memory_max_bytes: 9 << 19, ..roomy() };
    let mut scripts = load_with(CALLS, limits, &mut host).unwrap();
    let before = memory.bytes();
    begin(&mut scripts, &mut host, 1, "large");
    assert!(memory.bytes() > before + (2 << 20), "{} of {before}", memory.bytes());
    // There is room for one more, and not for a third.
    begin(&mut scripts, &mut host, 2, "ask");
    let error = returned(call(&mut scripts, &mut host, 3, "large")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    let step = scripts.resume(&mut host, CallId(1), text("held "));
    assert_eq!(returned(step), Ok(format!("held {}", 2 << 20)));
    assert!(memory.bytes() < before + before + (1 << 20), "{} of {before}", memory.bytes());
    begin(&mut scripts, &mut host, 4, "large");
}

/// Functions whose payload is what they ask a match, and a counter in each VM.
const CALLS: &str = r"
let calls = 0;
function ask(ctx, logger, nk, payload) {
    calls += 1;
    const before = calls;
    const answer = nk.matchSignal('id', payload);
    if (calls !== before) throw new Error('another call in this VM');
    return answer;
}
function large(ctx, logger, nk, payload) {
    const mine = 'x'.repeat(2 << 20);
    return nk.matchSignal('id', payload) + mine.length;
}
function hold(ctx, logger, nk) {
    nk.matchSignal('id', 'first');
    const mine = 'x'.repeat(3 << 20);
    return nk.matchSignal('id', 'again') + mine.length;
}
let kept;
function keep(ctx, logger, nk) { kept = 'x'.repeat(2 << 20); return nk.matchSignal('id', ''); }
function huge() { return String('x'.repeat(60 << 20).length); }
async function later(ctx, logger, nk, payload) { return await nk.matchSignal('id', await payload); }
function count(ctx, logger, nk, payload) { calls += 1; return String(calls); }
function spin() { for (;;); }
function loops(ctx, logger, nk) { for (;;) { try { nk.matchSignal('id', ''); } catch (e) {} } }
function stubborn(ctx, logger, nk) {
    for (;;) { try { nk.matchSignal('id', ''); } catch (e) { logger.info('still here'); } finally { for (;;) {} } }
}
function before(ctx, logger, nk, request) { request.name = nk.matchSignal('id', 'before'); return request; }
function after(ctx, logger, nk, answer, request) { nk.matchSignal('id', answer.text + request.text); }
function started(ctx, logger, nk, event) { nk.matchSignal('id', 'event'); logger.info('heard'); }
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerRpc('ask', ask);
    initializer.registerRpc('large', large);
    initializer.registerRpc('hold', hold);
    initializer.registerRpc('keep', keep);
    initializer.registerRpc('huge', huge);
    initializer.registerRpc('later', later);
    initializer.registerRpc('count', count);
    initializer.registerRpc('spin', spin);
    initializer.registerRpc('loops', loops);
    initializer.registerRpc('stubborn', stubborn);
    initializer.registerBeforeGetAccount(before);
    initializer.registerAfterGetAccount(after);
    initializer.registerEventSessionStart(started);
}";

fn call(scripts: &mut JsScripts, host: &mut TestHost, id: u64, rpc: &str) -> Step<Returned> {
    let payload = format!("payload {id}");
    let call = GuestCall::Rpc { id: rpc, payload: payload.as_bytes() };
    scripts.call(host, CallId(id), &crate::context(), call)
}

/// Begins a call, which asks.
fn begin(scripts: &mut JsScripts, host: &mut TestHost, id: u64, rpc: &str) {
    let step = call(scripts, host, id, rpc);
    assert!(matches!(step, Step::Waits(Ask::MatchSignal { .. })), "{rpc} {id}: {step:?}");
}

fn returned(step: Step<Returned>) -> Result<String, ScriptError> {
    match crate::ended(step)? {
        Returned::Rpc(Some(text)) => Ok(String::from_utf8_lossy(&text).into_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_wait_side_by_side_each_in_a_vm_of_its_own() {
    let mut host = TestHost::default();
    let memory = Arc::new(VmMemory::default());
    let limits = GuestLimits { memory: Arc::clone(&memory), ..roomy() };
    let mut scripts = load_with(CALLS, limits, &mut host).unwrap();
    let one_vm = memory.bytes();
    for id in 0..40 {
        begin(&mut scripts, &mut host, id, if id % 3 == 0 { "later" } else { "ask" });
    }
    // The first one has run `InitModule`, which takes more than to find what it has registered.
    assert!(memory.bytes() > 35 * one_vm, "each has its own");
    // Others run meanwhile, and nobody in the VM of who waits.
    for id in 40..50 {
        assert_eq!(returned(call(&mut scripts, &mut host, id, "count")), Ok((id - 39).to_string()));
    }
    for id in (0..40).rev().step_by(2).chain((0..40).step_by(2)) {
        let answer = format!("answer {id}");
        let step = scripts.resume(&mut host, CallId(id), text(&answer));
        assert_eq!(returned(step), Ok(answer), "{id}");
    }
    // With their garbage.
    assert!(memory.bytes() < 30 * one_vm, "16 are kept, and the others given back");
    begin(&mut scripts, &mut host, 50, "ask");
    let refused = scripts.resume(&mut host, CallId(50), Err(HostError::new("match busy")));
    assert!(returned(refused).unwrap_err().message.ends_with("match busy"));
}

#[test]
fn hooks_and_handlers_of_events_wait() {
    let mut host = TestHost::default();
    let mut scripts = load_with(CALLS, roomy(), &mut host).unwrap();
    let context = crate::context();
    let form =
        |text: &'static str| Value::Map(vec![(Bytes::from_static(b"text"), Value::text(text))]);
    let calls = [
        (GuestCall::Before { id: "getaccount", request: form("r") }, "before"),
        (GuestCall::After { id: "getaccount", answer: form("a"), request: form("r") }, "ar"),
        (
            GuestCall::Event { name: "event_session_start", argument: Value::Map(Vec::new()) },
            "event",
        ),
    ];
    for (number, (call, asked)) in (0..).zip(calls) {
        let step = scripts.call(&mut host, CallId(number), &context, call);
        let Step::Waits(Ask::MatchSignal { data, .. }) = step else { panic!("{asked}: {step:?}") };
        assert_eq!(data, asked);
    }
    let mut resume = |number| scripts.resume(&mut host, CallId(number), text("answered"));
    for number in [2, 1] {
        assert_eq!(crate::ended(resume(number)), Ok(Returned::Nothing));
    }
    let Ok(Returned::Before(Some(request))) = crate::ended(resume(0)) else { panic!() };
    assert_eq!(request.member("name").and_then(Value::as_str), Some("answered"));
    assert_eq!(host.logs, ["Info heard"]);
}

#[test]
fn a_call_that_is_cancelled_leaves_nothing() {
    let mut host = TestHost::default();
    let memory = Arc::new(VmMemory::default());
    let limits = GuestLimits { memory: Arc::clone(&memory), ..tight() };
    let mut scripts = load_with(CALLS, limits, &mut host).unwrap();
    for id in 0..30 {
        let rpc = ["ask", "later", "loops", "stubborn"].into_iter().cycle().nth(id).unwrap();
        let id = id as u64;
        begin(&mut scripts, &mut host, id, rpc);
        scripts.cancel(CallId(id));
        scripts.cancel(CallId(id));
        assert_eq!(memory.bytes(), 0, "the only VM was the call's");
    }
    begin(&mut scripts, &mut host, 30, "ask");
    begin(&mut scripts, &mut host, 31, "stubborn");
    assert_eq!(returned(scripts.resume(&mut host, CallId(30), text("yes"))), Ok("yes".into()));
    // With a call that waits still, too.
    drop(scripts);
    assert_eq!((memory.bytes(), host.logs.len()), (0, 0));
}

#[test]
fn time_that_passes_while_a_call_waits_is_not_its_own_and_all_it_computes_is() {
    let mut host = TestHost::default();
    let mut scripts = load_with(CALLS, tight(), &mut host).unwrap();
    begin(&mut scripts, &mut host, 1, "ask");
    // Another call of the thread uses up as much as the one that waits may.
    let error = returned(call(&mut scripts, &mut host, 2, "spin")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert_eq!(
        returned(scripts.resume(&mut host, CallId(1), text("in time"))),
        Ok("in time".into())
    );
    let mut step = call(&mut scripts, &mut host, 3, "loops");
    for _ in 0..1_000_000 {
        let Step::Waits(_) = step else { break };
        step = scripts.resume(&mut host, CallId(3), text(""));
    }
    let error = returned(step).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfTime);
    assert!(error.message.ends_with("50 ms (runtime.call_budget_ms)"), "{}", error.message);
}

#[test]
fn calls_that_wait_share_the_memory_of_their_thread() {
    let mut host = TestHost::default();
    let limits = GuestLimits { memory_max_bytes: 4 << 20, ..roomy() };
    let mut scripts = load_with(CALLS, limits, &mut host).unwrap();
    let refused = (0..100).find_map(|id| match call(&mut scripts, &mut host, id, "ask") {
        Step::Waits(_) | Step::Paused => None,
        step @ Step::Done(_) => Some((id, returned(step).unwrap_err())),
    });
    let (count, error) = refused.unwrap();
    assert!((3..16).contains(&count), "{count}");
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    assert!(error.message.contains("(runtime.memory_max_bytes)"), "{}", error.message);
    // Who waits goes on, and leaves room for others.
    assert_eq!(returned(scripts.resume(&mut host, CallId(0), text("first"))), Ok("first".into()));
    begin(&mut scripts, &mut host, 200, "ask");
}

/// A call that goes on takes more, beside others that did, and waits again. To the engine no memory is no limit.
#[test]
fn calls_that_go_on_share_it_too_and_no_call_has_no_limit() {
    let mut host = TestHost::default();
    let limits = GuestLimits { memory_max_bytes: 8 << 20, ..roomy() };
    let mut scripts = load_with(CALLS, limits, &mut host).unwrap();
    (0..3).for_each(|id| begin(&mut scripts, &mut host, id, "hold"));
    begin(&mut scripts, &mut host, 3, "ask");
    assert_eq!(returned(scripts.resume(&mut host, CallId(3), text("it"))), Ok("it".into()));
    for id in 0..2 {
        assert!(matches!(scripts.resume(&mut host, CallId(id), text("")), Step::Waits(_)));
    }
    let error = returned(scripts.resume(&mut host, CallId(2), text(""))).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    assert!(error.message.contains("2 calls that wait"), "{}", error.message);
    let error = returned(call(&mut scripts, &mut host, 4, "huge")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
}

#[test]
fn what_calls_leave_in_vms_of_their_own_is_counted() {
    let mut host = TestHost::default();
    let memory = Arc::new(VmMemory::default());
    let limits = GuestLimits { memory: Arc::clone(&memory), ..roomy() };
    let mut scripts = load_with(CALLS, limits, &mut host).unwrap();
    let before = memory.bytes();
    (0..3).for_each(|id| begin(&mut scripts, &mut host, id, "keep"));
    (0..3).for_each(|id| drop(scripts.resume(&mut host, CallId(id), text(""))));
    assert!(memory.bytes() > before + (6 << 20), "{} of {before}", memory.bytes());
}
