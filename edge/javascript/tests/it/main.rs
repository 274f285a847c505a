//! Real JavaScript in the real VM, against the host in memory that Lua's tests have.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod functions;
#[path = "../../../script/tests/it/host.rs"]
#[allow(dead_code, reason = "made for the tests of Lua, too")]
mod host;
mod hostile;
mod matches;
mod memory;
mod waiting;
mod weights;

use std::sync::Arc;

use game::guest::{
    CallContext, CallId, CommonHost as _, GuestCall, Returned, ScriptError, Scripts as _, Step,
};
use host::TestHost;
use javascript::{Bundle, JsScripts, LoadError};
use script::budget::GuestLimits;

/// Limits that make hostile scripts end quickly.
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

/// Limits for scripts that work hard: memory runs out long before time does.
fn roomy() -> GuestLimits {
    GuestLimits {
        call_budget_ms: 5_000,
        callback_budget_ms: 5_000,
        load_budget_ms: 5_000,
        ..tight()
    }
}

fn load_with(text: &str, limits: GuestLimits, host: &mut TestHost) -> Result<JsScripts, LoadError> {
    JsScripts::load(Arc::new(Bundle::from_text("index.js", text)), limits, host)
}

fn load(text: &str, host: &mut TestHost) -> JsScripts {
    load_with(text, roomy(), host).unwrap()
}

/// The context of a call by nobody.
fn context() -> CallContext {
    CallContext { execution_mode: "rpc", ..CallContext::default() }
}

/// What a call came to that does not wait any more.
fn ended(step: Step<Returned>) -> Result<Returned, ScriptError> {
    match step {
        Step::Done(result) => result,
        other => unreachable!("{other:?}"),
    }
}

/// Calls an RPC function; what it waits for the host answers at once.
fn rpc(
    scripts: &mut JsScripts,
    host: &mut TestHost,
    id: &str,
    payload: &str,
) -> Result<Option<String>, ScriptError> {
    let call = GuestCall::Rpc { id, payload: payload.as_bytes() };
    let mut step = scripts.call(host, CallId(1), &context(), call);
    while let Step::Waits(ask) = step {
        let answer = host.ask(ask);
        step = scripts.resume(host, CallId(1), answer);
    }
    match ended(step)? {
        Returned::Rpc(answer) => {
            Ok(answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        }
        other => unreachable!("{other:?}"),
    }
}

/// A bundle with one RPC function of this body: `ctx`, `logger`, `nk` and `payload` are in scope.
fn bundle_of(body: &str) -> String {
    format!(
        "function test(ctx, logger, nk, payload) {{ {body}\n}}\n\
         function InitModule(c, l, n, initializer) {{ initializer.registerRpc('test', test); }}"
    )
}

/// The answer of an RPC function's body, or its error as `!code message`.
fn run_on(body: &str, host: &mut TestHost) -> String {
    let mut scripts = load(&bundle_of(body), host);
    match rpc(&mut scripts, host, "test", "") {
        Ok(Some(text)) => text,
        Ok(None) => "-".to_owned(),
        Err(error) => format!("!{} {}", error.code, error.message),
    }
}

fn run(body: &str) -> String {
    run_on(body, &mut TestHost::default())
}
