//! Guests as text, assembled and run in the real wasmtime, against the host in memory that Lua's tests have.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod guest;
#[path = "../../../script/tests/it/host.rs"]
#[allow(dead_code, reason = "made for the tests of Lua, too")]
mod host;
mod hostile;
mod matches;
mod slices;
mod waiting;

use std::sync::Arc;

use game::guest::{CallContext, CallId, GuestCall, Returned, ScriptError, Scripts as _, Step};
use host::TestHost;
use script::budget::GuestLimits;
use wasm::{LoadError, Modules, WasmScripts};

/// Limits that make hostile guests end quickly.
fn tight() -> GuestLimits {
    GuestLimits {
        call_budget_ms: 50,
        memory_max_bytes: 16 << 20,
        callback_budget_ms: 50,
        match_memory_max_bytes: 8 << 20,
        load_budget_ms: 1_000,
        memory: Arc::default(),
    }
}

/// Limits for guests that have all the time they need.
fn roomy() -> GuestLimits {
    GuestLimits {
        call_budget_ms: 5_000,
        callback_budget_ms: 5_000,
        load_budget_ms: 5_000,
        ..tight()
    }
}

fn modules(text: &str) -> Result<Arc<Modules>, LoadError> {
    let bytes = wat::parse_str(text).unwrap();
    Ok(Arc::new(Modules::compile(vec![("game.wasm".to_owned(), bytes)], &Modules::default())?))
}

fn load_with(
    text: &str,
    limits: GuestLimits,
    host: &mut TestHost,
) -> Result<WasmScripts, LoadError> {
    WasmScripts::load(modules(text)?, limits, host)
}

fn load(text: &str, host: &mut TestHost) -> WasmScripts {
    load_with(text, roomy(), host).unwrap()
}

/// The context of a call by nobody.
fn context() -> CallContext {
    CallContext { execution_mode: "rpc", ..CallContext::default() }
}

/// Begins the RPC function `test`.
fn begin(
    scripts: &mut WasmScripts,
    host: &mut TestHost,
    id: u64,
    payload: &[u8],
) -> Step<Returned> {
    scripts.call(host, CallId(id), &context(), GuestCall::Rpc { id: "Test", payload })
}

/// What a call came to that does not wait.
fn ended(step: Step<Returned>) -> Result<Option<String>, ScriptError> {
    match step {
        Step::Done(Ok(Returned::Rpc(answer))) => {
            Ok(answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
        Step::Done(Ok(other)) => unreachable!("{other:?}"),
        Step::Done(Err(error)) => Err(error),
        Step::Waits(ask) => unreachable!("{ask:?}"),
        Step::Paused => unreachable!("it has no slices"),
    }
}

fn rpc(scripts: &mut WasmScripts, host: &mut TestHost) -> Result<Option<String>, ScriptError> {
    ended(begin(scripts, host, 1, b"payload"))
}
