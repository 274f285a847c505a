//! Guest code in JavaScript, bound to the one host table of `game::host`.
//!
//! [`Bundle`] reads the one file of a folder; [`JsScripts`] is one thread's instance of it and
//! implements `game::guest::Scripts`; every match gets a VM of its own. Calls run under the budgets that
//! Lua's have (`script::budget`). Data enters as `game::guest` calls, and leaves as their results and
//! through the `Host` that is lent for each call.
//!
//! A call that waits is put aside with its stack and its VM (`pieces`), and others run meanwhile.
//!
//! What is deliberately not here: the functions that scripts may call (they are `game::host`'s), modules and
//! packages (a bundle is one file), and threads.

#![forbid(unsafe_code)]

mod bind;
mod calls;
mod convert;
mod dispatcher;
mod failure;
mod matches;
mod names;
mod pieces;
pub mod reference;
mod sources;
mod vm;

use std::sync::Arc;

pub use calls::JsScripts;
pub use sources::{Bundle, LoadError};

use script::budget::VmMemory;

/// How much a script may use.
#[derive(Clone, Debug)]
pub struct JsLimits {
    /// Milliseconds of one RPC or hook (`runtime.call_budget_ms`), at least 1.
    pub call_budget_ms: u32,
    /// Bytes of a thread's VM for RPCs and hooks (`runtime.memory_max_bytes`).
    pub memory_max_bytes: usize,
    /// Milliseconds of one match callback (`match.callback_budget_ms`), at least 1.
    pub callback_budget_ms: u32,
    /// Bytes of one match's VM (`match.memory_max_bytes`).
    pub match_memory_max_bytes: usize,
    /// Milliseconds for running the bundle and `InitModule` (`runtime.load_budget_ms`).
    pub load_budget_ms: u32,
    /// The memory of all VMs of the process (`runtime.all_memory_max_bytes`).
    pub memory: Arc<VmMemory>,
}
