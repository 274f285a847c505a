//! The REST API's rules: a request's method, target and body become a typed call ([`route`]), the
//! call becomes an answer ([`run`]). Who is calling is checked with [`auth`].
//!
//! Every call is declared once, in the table ([`ROWS`]): its routes, its messages, what it needs to
//! show, where it runs and its function. [`route`] and [`auth`] touch neither database nor scripts:
//! core threads run them, so that malformed requests and wrong keys never reach a worker. [`run`]
//! belongs on workers. Not here: HTTP itself, CORS, and running hooks and RPC functions; what hooks
//! see of a call is [`ApiCall::form`].
//!
//! # Batches
//!
//! A worker takes all calls that are waiting, begins to read ([`Database::begin_reading`]), runs
//! the calls one after the other, finishes with [`finish_batch`], and only then answers each: an
//! answer that has left is durable. The first call that writes opens a transaction; none commits.
//! If finishing fails, all that were to be answered `Ok` are answered with code 13 instead, and
//! their effects are dropped. One call's failure leaves the others' writes alone. Calls for which
//! [`CallLane::Slow`] stands hash passwords: each is a batch of its own, run with no transaction
//! open, best on a worker that has nothing urgent to do.

mod account;
pub mod auth;
mod call;
mod events;
mod friends;
mod login;
mod matches;
mod notifications;
mod route;
mod rpc;
mod run;
mod storage;
mod table;

use crate::db::{Database, DbError};
pub use call::{Auth, Body, Built, CallLane, CallRow, HttpRoute, Style, message};
pub use matches::run as list_matches;
pub use route::{Route, route};
pub use rpc::{RpcCall, write_rpc_answer};
pub use run::{Answer, Cx, Disconnect, Effect, run};
pub use table::{ApiCall, BUILT, CALLS_COUNT, CallId, NOT_BUILT, ROWS};
pub use wire::nakama::Format;

/// Ends a batch: makes durable what it wrote, if it wrote anything, and what it has seen.
///
/// # Errors
/// [`DbError::Machine`]; then nothing of the batch has happened.
pub fn finish_batch(db: &mut dyn Database) -> Result<(), DbError> {
    if db.in_transaction() {
        db.commit()?;
    } else {
        db.end_reading()?;
    }
    db.commit_group()?;
    db.sync();
    Ok(())
}
