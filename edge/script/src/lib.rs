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
mod json;
pub mod lend;
mod library;
mod lint;
mod match_values;
mod matches;
mod pieces;
mod seal;
mod sources;
mod vm;
mod weights;

pub use calls::LuaScripts;
pub use clock::ThreadClock;
pub use content::ContentHash;
pub use sources::{LoadError, Sources};

use budget::GuestLimits;

/// How much a script in Lua may use, and how its calls share their thread.
#[derive(Clone, Debug, Default)]
pub struct LuaLimits {
    /// What scripts in any language may use.
    pub guest: GuestLimits,
    /// Whether clients see file, line and traceback of an error (`runtime.lua_api_stacktrace`).
    pub stacktrace: bool,
    /// Microseconds that a call may compute before others have their turn (`runtime.core_slice_us`), on a
    /// thread that also has sockets; there, what needs the database is done by other threads. `None` on
    /// a thread that is there for calls.
    pub slice_us: Option<u32>,
    /// Who makes the VM for calls anew when a call has used up its memory.
    pub renewal: Renewal,
}

/// What is done when a call has used up the memory of the VM for calls, of which modules keep most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// Garbage is collected, and if that is not enough the call makes it anew: no client waits at the thread.
    #[default]
    Here,
    /// Garbage is collected, and if that is not enough another thread makes it anew (`Scripts::take_spent`),
    /// because nobody on this one may wait for modules that load.
    Elsewhere,
    /// Another thread makes it anew, and nobody may wait for a collection either.
    ElsewhereAtOnce,
}

/// Those of a thread that is there for calls, whose clients see no more than an error's text.
impl From<GuestLimits> for LuaLimits {
    fn from(guest: GuestLimits) -> Self {
        Self { guest, ..Self::default() }
    }
}
