//! Guest code in Lua, bound to the one host table of `game::host`.
//!
//! [`Sources`] reads and compiles the modules of a folder once; [`LuaScripts`] is one thread's
//! instance of them and implements `game::guest::Scripts`; every match gets a fresh VM of its own.
//! Calls run under a budget of time and memory ([`budget`], [`lend`]: other languages share them, because
//! calls of several languages may nest on one thread). Data enters as `game::guest` calls, and leaves
//! as their results and through the `Host` that is lent for each call.
//!
//! What is deliberately not here: the functions that scripts may call (they are `game::host`'s),
//! threads, and files other than the modules.

#![forbid(unsafe_code)]

pub mod budget;
mod callee;
mod calls;
mod case;
mod clock;
mod content;
mod context;
mod dialect;
mod dispatcher;
mod failure;
pub mod lend;
mod library;
mod lint;
mod matches;
mod pieces;
mod seal;
mod sources;
mod vm;

use std::sync::Arc;

pub use calls::LuaScripts;
pub use clock::ThreadClock;
pub use content::ContentHash;
pub use sources::{LoadError, Sources};

use budget::VmMemory;

/// How much a script may use.
#[derive(Clone, Debug)]
pub struct LuaLimits {
    /// Milliseconds of one RPC or hook (`runtime.call_budget_ms`), at least 1.
    pub call_budget_ms: u32,
    /// Bytes of a thread's VM for RPCs and hooks (`runtime.memory_max_bytes`), garbage included.
    pub memory_max_bytes: usize,
    /// Milliseconds of one match callback (`match.callback_budget_ms`), at least 1.
    pub callback_budget_ms: u32,
    /// Bytes of one match's VM (`match.memory_max_bytes`), garbage included.
    pub match_memory_max_bytes: usize,
    /// Milliseconds for running all modules at start (`runtime.load_budget_ms`).
    pub load_budget_ms: u32,
    /// The memory of all VMs of the process (`runtime.all_memory_max_bytes`).
    pub memory: Arc<VmMemory>,
    /// Whether clients see file, line and traceback of an error (`runtime.lua_api_stacktrace`).
    pub stacktrace: bool,
    /// Microseconds that a call may compute before others have their turn (`runtime.core_slice_us`), on a
    /// thread that also has sockets; there, what needs the database is done by other threads. `None` on
    /// a thread that is there for calls.
    pub slice_us: Option<u32>,
    /// Whether another thread makes the VM for calls anew when a call has used up its memory
    /// (`Scripts::take_spent`), because nobody on this one may wait for modules that load. If not, the call that
    /// used it up does.
    pub is_renewed_elsewhere: bool,
}

impl Default for LuaLimits {
    fn default() -> Self {
        Self {
            call_budget_ms: 1_000,
            memory_max_bytes: 256 << 20,
            callback_budget_ms: 100,
            match_memory_max_bytes: 64 << 20,
            load_budget_ms: 10_000,
            memory: Arc::default(),
            stacktrace: false,
            slice_us: None,
            is_renewed_elsewhere: false,
        }
    }
}
