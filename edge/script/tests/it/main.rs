//! Real Lua in the real VM, against a host in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accounts;
mod arguments;
mod calls;
mod dialect;
mod dialect_library;
mod dialect_modules;
mod events;
mod findings;
mod functions;
mod host;
mod hostile;
mod isolation;
mod matches;
mod modules;
mod notifications;
mod pages;
mod reference;
mod stand_ins;
mod straight;
mod streams;
mod waiting;
mod wallets;

use std::sync::Arc;

use game::guest::{CallContext, ScriptError};
use host::TestHost;
use script::budget::GuestLimits;
use script::{LoadError, LuaLimits, LuaScripts, Sources};
use straight::Straight as _;

/// Limits that make hostile scripts end quickly.
fn tight() -> GuestLimits {
    GuestLimits {
        call_budget_ms: 20,
        memory_max_bytes: 16 << 20,
        callback_budget_ms: 20,
        match_memory_max_bytes: 8 << 20,
        load_budget_ms: 200,
        memory: Arc::default(),
    }
}

/// Limits for scripts that work hard: memory runs out long before time does.
fn roomy() -> GuestLimits {
    GuestLimits { call_budget_ms: 3_000, callback_budget_ms: 3_000, ..tight() }
}

fn load(files: &[(&str, &str)], host: &mut TestHost) -> Result<LuaScripts, LoadError> {
    load_with(files, tight(), host)
}

fn load_with(
    files: &[(&str, &str)],
    limits: impl Into<LuaLimits>,
    host: &mut TestHost,
) -> Result<LuaScripts, LoadError> {
    LuaScripts::load(Arc::new(Sources::from_texts(files.iter().copied())?), limits.into(), host)
}

/// The context of a call by a user.
fn context() -> CallContext {
    CallContext { execution_mode: "rpc", ..CallContext::default() }
}

/// Loads one module whose body is an RPC function's: `context`, `payload` and `nk` are in scope.
fn scripts_of(body: &str, limits: GuestLimits, host: &mut TestHost) -> LuaScripts {
    let text = format!(
        "local nk = require(\"nakama\") nk.register_rpc(function(context, payload) {body}\nend, \
         \"test\")"
    );
    load_with(&[("m.lua", &text)], limits, host).unwrap()
}

/// Runs an RPC function's body once.
fn run_on(body: &str, payload: &str, host: &mut TestHost) -> Result<Option<String>, ScriptError> {
    let mut scripts = scripts_of(body, roomy(), host);
    let answer = scripts.rpc(host, &context(), "test", payload.as_bytes())?;
    Ok(answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The answer of an RPC function's body, or its error as `!code message`.
fn run(body: &str) -> String {
    match run_on(body, "", &mut TestHost::default()) {
        Ok(Some(text)) => text,
        Ok(None) => "-".to_owned(),
        Err(error) => format!("!{} {}", error.code, error.message),
    }
}
