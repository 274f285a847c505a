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

use game::guest::{
    CallContext, CallId, GuestCall, MatchCall, MatchContext, MatchReturned, MatchScript,
    Scripts as _, Step,
};
use game::value::Value;
use host::TestHost;
use script::budget::GuestLimits;
use used::used_bytes;
use wasm::{Modules, WasmScripts};

const CALLS: u32 = 10_000;
const MATCHES: u32 = 1_000;
/// Nearly a minute of a match with 20 ticks a second: as long as it takes until Go's heap has grown and is collected.
const TICKS: i64 = 1_000;
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

    let context = MatchContext { match_id: "id".into(), label: String::new(), tick_rate_hz: 10 };
    let (start, before) = (Instant::now(), used_bytes());
    let params = Value::Map(Vec::new());
    let mut matches: Vec<_> = (0..MATCHES)
        .map(|_| {
            let mut running = scripts.match_new(&mut host, &context, &name).expect("a match");
            let step = running.call(&mut host, &context, 0, MatchCall::Init { params: &params });
            assert!(matches!(step, Step::Done(Ok(MatchReturned::Init(_)))), "{step:?}");
            running
        })
        .collect();
    println!("starting a match: {:?}", start.elapsed() / MATCHES);
    let start = Instant::now();
    for tick in 1..=TICKS {
        if tick == 10 {
            tell(before, tick, &matches);
        }
        for running in &mut matches {
            let step = running.call(&mut host, &context, tick, MatchCall::Loop(&[]));
            assert!(matches!(step, Step::Done(Ok(MatchReturned::GoesOn))), "{step:?}");
        }
    }
    let ticks = MATCHES * u32::try_from(TICKS).expect("a count of ticks");
    println!("a tick without messages: {:?}", start.elapsed() / ticks);
    tell(before, TICKS, &matches);
}

/// Says what each match takes.
fn tell(before: u64, ticks: i64, matches: &[Box<dyn MatchScript>]) {
    let bytes = used_bytes().saturating_sub(before) / u64::from(MATCHES);
    let asked = matches.first().map_or(0, |running| running.memory_bytes());
    println!("a match after {ticks} ticks: {bytes} bytes in use, {asked} asked for");
}
