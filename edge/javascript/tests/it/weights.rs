//! What calls that wait hold of the memory that a thread's calls share, and what is left for those that run.

use std::collections::BTreeMap;

use game::guest::{Ask, CallId, GuestCall, Returned, ScriptFailure, Scripts as _, Step};
use javascript::JsScripts;
use script::budget::GuestLimits;

use crate::host::TestHost;
use crate::{context, ended, load_with, roomy};

const MAX_BYTES: usize = 8 << 20;

const CALLS: &str = r"
function ask(ctx, logger, nk, payload) { return nk.matchSignal('id', payload); }
function large(ctx, logger, nk, payload) {
    const mine = 'x'.repeat(1 << 20);
    return nk.matchSignal('id', payload) + mine.length;
}
function quick() { return String('x'.repeat(1 << 20).length); }
function huge() { return String('x'.repeat(60 << 20).length); }
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerRpc('ask', ask);
    initializer.registerRpc('large', large);
    initializer.registerRpc('quick', quick);
    initializer.registerRpc('huge', huge);
}";

fn scripts(host: &mut TestHost) -> JsScripts {
    load_with(CALLS, GuestLimits { memory_max_bytes: MAX_BYTES, ..roomy() }, host).unwrap()
}

fn call(scripts: &mut JsScripts, host: &mut TestHost, id: u64, rpc: &str) -> Step<Returned> {
    scripts.call(host, CallId(id), &context(), GuestCall::Rpc { id: rpc, payload: b"" })
}

fn begin(scripts: &mut JsScripts, host: &mut TestHost, id: u64, rpc: &str) -> usize {
    let step = call(scripts, host, id, rpc);
    assert!(matches!(step, Step::Waits(Ask::MatchSignal { .. })), "{rpc} {id}: {step:?}");
    scripts.weight_bytes(CallId(id))
}

fn returned(step: Step<Returned>) -> String {
    match ended(step) {
        Ok(Returned::Rpc(Some(text))) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_that_waits_weighs_what_its_vm_takes() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host);
    // The first VM has compiled the bundle, and keeps what that left.
    let first = begin(&mut scripts, &mut host, 4, "ask");
    let (small, large) =
        (begin(&mut scripts, &mut host, 1, "ask"), begin(&mut scripts, &mut host, 2, "large"));
    assert!((100_000..1_000_000).contains(&small) && small <= first, "{first} and {small}");
    assert!((1 << 20..5 << 18).contains(&(large - small)), "{small} and {large}");
    scripts.cancel(CallId(4));
    scripts.cancel(CallId(1));
    let answer = Ok(game::guest::Reply::Text("a".to_owned().into()));
    assert_eq!(returned(scripts.resume(&mut host, CallId(2), answer)), "a1048576");
    assert_eq!([1, 2, 3].map(|id| scripts.weight_bytes(CallId(id))), [0, 0, 0]);
}

/// However many begin to wait: when the heaviest end as they are asked to, there is room for the next call.
#[test]
fn calls_that_wait_give_back_what_is_more_than_half() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host);
    let mut waiting = BTreeMap::new();
    let mut ended = 0;
    for id in 0..100 {
        let rpc = if id % 5 == 0 { "large" } else { "ask" };
        waiting.insert(id, begin(&mut scripts, &mut host, id, rpc));
        let held_bytes: usize = waiting.values().sum();
        let mut excess_bytes = scripts.excess_bytes();
        assert_eq!(excess_bytes, held_bytes.saturating_sub(MAX_BYTES / 2), "{waiting:?}");
        while excess_bytes > 0 {
            let (heaviest, bytes) =
                waiting.iter().max_by_key(|(_, bytes)| **bytes).map(|(id, it)| (*id, *it)).unwrap();
            scripts.cancel(CallId(heaviest));
            waiting.remove(&heaviest);
            excess_bytes = excess_bytes.saturating_sub(bytes);
            ended += 1;
        }
        assert_eq!(scripts.excess_bytes(), 0);
        let quick = call(&mut scripts, &mut host, 1_000 + id, "quick");
        assert_eq!(returned(quick), (1 << 20).to_string(), "beside {waiting:?}");
    }
    assert!(ended > 50 && waiting.len() > 4, "{ended} ended and {} wait", waiting.len());
}

#[test]
fn who_has_less_than_is_configured_is_told_what_others_hold() {
    let mut host = TestHost::default();
    let mut scripts = scripts(&mut host);
    let error = ended(call(&mut scripts, &mut host, 1, "huge")).unwrap_err();
    assert!(
        error.message.ends_with("script used up its 8388608 bytes (runtime.memory_max_bytes)"),
        "{}",
        error.message
    );
    let held_bytes: usize = (2..8).map(|id| begin(&mut scripts, &mut host, id, "ask")).sum();
    let error = ended(call(&mut scripts, &mut host, 8, "huge")).unwrap_err();
    assert_eq!(error.kind, ScriptFailure::OutOfMemory);
    let told = format!(
        " bytes of the 8388608 of its thread (runtime.memory_max_bytes): calls that waited when it began \
         held {held_bytes}"
    );
    assert!(error.message.ends_with(&told), "{} and not {told}", error.message);
}
