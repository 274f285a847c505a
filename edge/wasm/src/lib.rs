//! Guest code in WebAssembly, bound to the one host table of `game::host`.
//!
//! [`Modules`] compiles the `*.wasm` files of a folder once; [`WasmScripts`] is one thread's instances of
//! them and implements `game::guest::Scripts`; every match gets an instance of its own. Calls run under the
//! budgets that Lua's have (`script::budget`). A call that waits is put aside with its stack, a fiber of
//! wasmtime's, and others run meanwhile. Data enters as `game::guest` calls, and leaves as their results and
//! through the `Host` that is lent for each call. What host and guest say to each other, and in which bytes,
//! is docs/wasm/convention.md; `guests/` has what a game is written with.
//!
//! What is deliberately not here: the functions that guests may call (they are `game::host`'s), and whatever
//! would reach the machine: of WASI a guest has a clock, randomness and a log (`wasi`).

#![forbid(unsafe_code)]

mod calls;
mod encoding;
mod failure;
mod imports;
mod instance;
mod local;
mod matches;
mod memory;
mod modules;
mod ticker;
mod wasi;

use std::sync::Arc;

pub use calls::WasmScripts;
pub use modules::{LoadError, Modules};

use script::budget::VmMemory;

/// How much a guest may use.
#[derive(Clone, Debug)]
pub struct WasmLimits {
    /// Milliseconds of one RPC or hook (`runtime.call_budget_ms`), at least 1.
    pub call_budget_ms: u32,
    /// Bytes of a thread's instances for RPCs and hooks (`runtime.memory_max_bytes`).
    pub memory_max_bytes: usize,
    /// Milliseconds of one match callback (`match.callback_budget_ms`), at least 1.
    pub callback_budget_ms: u32,
    /// Bytes of one match's instance (`match.memory_max_bytes`).
    pub match_memory_max_bytes: usize,
    /// Milliseconds for the start of one module on a thread (`runtime.load_budget_ms`).
    pub load_budget_ms: u32,
    /// The memory of all VMs of the process (`runtime.all_memory_max_bytes`).
    pub memory: Arc<VmMemory>,
}
