//! What modules in WebAssembly cost: compiling them, a call, and a match with what the process holds of it.
//!
//! `cargo run --release -p wasm --example cost -- FOLDER RPC MATCH`, with the modules in the folder, an RPC function
//! that takes JSON and a match, such as `echo` and `arena` of the example games.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a tool for developers")]

#[path = "../../script/tests/it/host.rs"]
#[allow(dead_code, reason = "made for the tests of Lua")]
mod host;
#[path = "../../script/examples/used/mod.rs"]
mod used;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use game::guest::{
    CallContext, CallId, GuestCall, MatchCall, MatchContext, MatchMessage, MatchReturned, Presence,
    Scripts as _, Step,
};
use game::value::Value;
use host::TestHost;
use script::budget::GuestLimits;
use used::used_bytes;
use uuid::Uuid;
use wasm::{Modules, WasmScripts};

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

const CALLS: u32 = 10_000;
const MATCHES: u32 = 1_000;
/// Ticks without messages, and after them with [`MESSAGES`] each: together less than the minute after which the example
/// game ends a match in which nobody is.
const QUIET_TICKS: i64 = 290;
const TICKS: i64 = 590;
const MESSAGES: usize = 4;
const PAYLOAD: &[u8] = br#"{"text":"hello","list":[1,2.5,null],"inner":{"a":true}}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(rpc), Some(name)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: cost FOLDER RPC MATCH");
        return;
    };
    let limits = GuestLimits { callback_budget_ms: 1_000, ..GuestLimits::default() };
    let mut host = TestHost::default();
    let start = Instant::now();
    let modules = Modules::read(Path::new(&folder), &Modules::default())
        .expect("modules that can be compiled");
    println!("compiling: {:?}", start.elapsed());
    let start = Instant::now();
    let mut scripts =
        WasmScripts::load(Arc::new(modules), limits, &mut host).expect("modules that start");
    println!("starting on a thread: {:?}", start.elapsed());

    let context = CallContext { execution_mode: "rpc", ..CallContext::default() };
    let start = Instant::now();
    for id in 0..CALLS {
        let call = GuestCall::Rpc { id: &rpc, payload: PAYLOAD };
        let step = scripts.call(&mut host, CallId(u64::from(id)), &context, call);
        assert!(matches!(step, Step::Done(Ok(_))), "{step:?}");
    }
    println!("a call of {rpc}: {:?}", start.elapsed() / CALLS);
    matches(&mut scripts, &mut host, &name);
}

fn matches(scripts: &mut WasmScripts, host: &mut TestHost, name: &str) {
    let context = MatchContext { match_id: "id".into(), label: String::new(), tick_rate_hz: 10 };
    let start = Instant::now();
    let params = Value::Map(Vec::new());
    let mut make = |_| {
        let mut running = scripts.match_new(host, &context, name).expect("a match");
        let step = running.call(host, &context, 0, MatchCall::Init { params: &params });
        assert!(matches!(step, Step::Done(Ok(MatchReturned::Init(_)))), "{step:?}");
        running
    };
    // The first half uses up what compiling has left.
    let mut matches: Vec<_> = (0..MATCHES / 2).map(&mut make).collect();
    let before = used_bytes();
    matches.extend((MATCHES / 2..MATCHES).map(&mut make));
    println!("starting a match: {:?}", start.elapsed() / MATCHES);
    let begun = used_bytes();
    let begun_each = begun.saturating_sub(before) / u64::from(MATCHES / 2);
    let tell = |when: &str| {
        let bytes = begun_each + used_bytes().saturating_sub(begun) / u64::from(MATCHES);
        println!("{when} a match has {bytes} bytes in use");
    };
    tell("when it has begun,");
    let data = Bytes::from_static(b"move to the left and then on");
    let message = MatchMessage {
        sender: Presence {
            user_id: Uuid::nil(),
            session_id: Uuid::nil(),
            username: "a name".into(),
            node: game::node::Nodes::default().here(),
        },
        op_code: 1,
        data,
        reliable: true,
        receive_time_ms: 1,
    };
    host.dispatcher = Some(host::TestDispatcher::default());
    for (messages, ticks) in
        [(Vec::new(), 1..=QUIET_TICKS), (vec![message; MESSAGES], QUIET_TICKS + 1..=TICKS)]
    {
        let (start, count) = (Instant::now(), ticks.end() - ticks.start() + 1);
        for tick in ticks {
            for running in &mut matches {
                let step = running.call(host, &context, tick, MatchCall::Loop(&messages));
                assert!(matches!(step, Step::Done(Ok(MatchReturned::GoesOn))), "{step:?}");
                host.dispatcher = Some(host::TestDispatcher::default());
            }
        }
        let count = MATCHES * u32::try_from(count).expect("a count of ticks");
        println!("a tick with {} messages: {:?}", messages.len(), start.elapsed() / count);
        tell("after them,");
    }
    let asked = matches.first().map_or(0, |running| running.memory_bytes());
    println!("it has asked for {asked} bytes");
}
