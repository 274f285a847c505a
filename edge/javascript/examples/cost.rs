//! What calls and matches in JavaScript cost: a call, a tick, one that waits, and what the process holds of a match at
//! rest, and of a match and a call that wait.
//!
//! `cargo run --release -p javascript --example cost`. What is waited for is there at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a tool for developers")]

#[path = "../../script/tests/it/host.rs"]
#[allow(dead_code, reason = "made for the tests of Lua")]
mod host;
#[path = "../../script/examples/used/mod.rs"]
mod used;

use std::sync::Arc;
use std::time::Instant;

use game::guest::{
    Answer, CallContext, CallId, GuestCall, MatchCall, MatchContext, MatchReturned, MatchScript,
    Reply, Scripts as _, Step,
};
use game::value::Value;
use host::TestHost;
use javascript::{Bundle, JsScripts};
use script::budget::GuestLimits;
use used::used_bytes;

/// The server's own.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

const CALLS: u32 = 20_000;
const MATCHES: u32 = 1_000;
const TICKS: i64 = 100;
const WAITING: u32 = 100;

const BUNDLE: &str = r"
function echo(ctx, logger, nk, payload) { return JSON.stringify(JSON.parse(payload)); }
function ask(ctx, logger, nk, payload) { return nk.matchSignal('id', payload); }
function begin() { return { state: {}, tickRate: 10, label: '' }; }
function same(ctx, logger, nk, dispatcher, tick, state) { return { state: state }; }
function loop(ctx, logger, nk, dispatcher, tick, state) {
    if (tick >= 1000) nk.storageRead([{ collection: 'c', key: 'k' }]);
    return { state: state };
}
function InitModule(ctx, logger, nk, initializer) {
    initializer.registerRpc('echo', echo);
    initializer.registerRpc('ask', ask);
    initializer.registerMatch('one', {
        matchInit: begin, matchJoinAttempt: same, matchJoin: same, matchLeave: same,
        matchLoop: loop, matchTerminate: same, matchSignal: same,
    });
}";

/// What each of so many has in use, that there was not before.
fn each_bytes(before: u64, count: u32) -> u64 {
    used_bytes().saturating_sub(before) / u64::from(count)
}

fn answer() -> Answer {
    let returns = [Value::List(Vec::new())].into_iter().collect();
    Ok(Reply::Returns { returns, steps: 1 })
}

fn main() {
    let limits = GuestLimits { callback_budget_ms: 1_000, ..GuestLimits::default() };
    let mut host = TestHost::default();
    let bundle = Arc::new(Bundle::from_text("index.js", BUNDLE));
    let mut scripts = JsScripts::load(bundle, limits, &mut host).expect("a bundle that loads");
    calls(&mut scripts, &mut host);
    matches(&mut scripts, &mut host);
}

fn calls(scripts: &mut JsScripts, host: &mut TestHost) {
    let context = CallContext { execution_mode: "rpc", ..CallContext::default() };
    let start = Instant::now();
    for id in 0..CALLS {
        let call = GuestCall::Rpc { id: "echo", payload: br#"{"text":"hello","list":[1,2.5]}"# };
        let step = scripts.call(host, CallId(u64::from(id)), &context, call);
        assert!(matches!(step, Step::Done(Ok(_))), "{step:?}");
    }
    println!("a call: {:?}", start.elapsed() / CALLS);

    let call = |scripts: &mut JsScripts, host: &mut TestHost, id: u32| {
        let call = GuestCall::Rpc { id: "ask", payload: b"hello" };
        let step = scripts.call(host, CallId(u64::from(id)), &context, call);
        assert!(matches!(step, Step::Waits(_)), "{step:?}");
    };
    let text = || Ok(Reply::Text("hello".into()));
    let start = Instant::now();
    for id in 0..CALLS {
        call(scripts, host, id);
        let step = scripts.resume(host, CallId(u64::from(id)), text());
        assert!(matches!(step, Step::Done(Ok(_))), "{step:?}");
    }
    println!("a call that waits once: {:?}", start.elapsed() / CALLS);
    let (start, before) = (Instant::now(), used_bytes());
    for id in 0..WAITING {
        call(scripts, host, id);
    }
    println!("a call that waits beside others: {:?}", start.elapsed() / WAITING);
    println!("it holds {} bytes", each_bytes(before, WAITING));
    let start = Instant::now();
    for id in 0..WAITING {
        scripts.cancel(CallId(u64::from(id)));
    }
    println!("to cancel one: {:?}", start.elapsed() / WAITING);
}

fn matches(scripts: &mut JsScripts, host: &mut TestHost) {
    let context = MatchContext { match_id: "id".into(), label: String::new(), tick_rate_hz: 10 };
    let mut open = || {
        let mut made = scripts.match_new(host, &context, "one").expect("a match");
        let init = MatchCall::Init { params: &Value::Nil };
        let step = made.call(host, &context, 0, init);
        assert!(matches!(step, Step::Done(Ok(MatchReturned::Init(_)))), "{step:?}");
        made
    };
    let (start, before) = (Instant::now(), used_bytes());
    let mut matches: Vec<Box<dyn MatchScript>> = (0..MATCHES).map(|_| open()).collect();
    println!("starting a match: {:?}", start.elapsed() / MATCHES);

    let start = Instant::now();
    for tick in 0..TICKS {
        for running in &mut matches {
            let step = running.call(host, &context, tick, MatchCall::Loop(&[]));
            assert!(matches!(step, Step::Done(Ok(_))), "{step:?}");
        }
    }
    let ticks = MATCHES * u32::try_from(TICKS).expect("a count");
    println!("a tick without messages: {:?}", start.elapsed() / ticks);
    println!("a match at rest: {} bytes in use", each_bytes(before, MATCHES));

    let start = Instant::now();
    for tick in 1_000..1_000 + TICKS {
        for running in &mut matches {
            let step = running.call(host, &context, tick, MatchCall::Loop(&[]));
            assert!(matches!(step, Step::Waits(_)), "{step:?}");
            let step = running.resume(host, &context, answer());
            assert!(matches!(step, Step::Done(Ok(_))), "{step:?}");
        }
    }
    println!("a tick that waits once: {:?}", start.elapsed() / ticks);

    let before = used_bytes();
    for running in &mut matches {
        let step = running.call(host, &context, 1_000, MatchCall::Loop(&[]));
        assert!(matches!(step, Step::Waits(_)), "{step:?}");
    }
    println!("a match that waits: {} bytes more", each_bytes(before, MATCHES));
}
