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

pub use calls::JsScripts;
pub use sources::{Bundle, LoadError};
