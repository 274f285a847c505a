//! Guest code in WebAssembly, bound to the one host table of `game::host`.
//!
//! [`Modules`] compiles the `*.wasm` files of a folder once; [`WasmScripts`] is one thread's instances of
//! them and implements `game::guest::Scripts`; every match gets an instance of its own. Calls run under the
//! budgets that Lua's have (`script::budget`), and in slices where their thread has sockets. A call that waits is put aside with its stack, a fiber of
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
mod mappings;
mod matches;
mod memory;
mod modules;
mod ticker;
mod wasi;

pub use calls::{WasmLimits, WasmScripts};
pub use mappings::MAPPINGS_PER_INSTANCE;
pub use modules::{LoadError, Modules};
