//! The REST API's rules: a request's method, target and body become a typed call ([`route`]), the
//! call becomes an answer ([`run`]). Who is calling is checked with [`auth`].
//!
//! [`route`] and [`auth`] touch neither database nor scripts: core threads run them, so that
//! malformed requests and wrong keys never reach a worker. [`run`] belongs on workers. Not here:
//! HTTP itself, CORS, hooks, and running RPC functions.
//!
//! # Batches
//!
//! A worker takes all calls that are waiting and runs them one after the other. The first that
//! writes opens a transaction; none commits. When all have run, the worker commits once, and then
//! answers each: an answer that has left is durable. If the commit fails, all that were answered
//! `Ok` are answered with code 13 instead. One call's failure leaves the others' writes alone.
//! Calls for which [`ApiCall::is_slow`] holds hash passwords: they are run by themselves, with no
//! transaction open before and a commit after, best on a worker of their own.

pub mod auth;
mod body;
mod call;
mod matches;
mod route;
mod rpc;
mod run;

pub use call::{
    ApiCall, Auth, AuthenticateEmail, AuthenticateId, DeleteObjects, ListObjects, Logout,
    ReadObjects, Refresh, WriteObjects,
};
pub use route::{Route, route};
pub use rpc::{RpcCall, write_rpc_answer};
pub use run::{Answer, Cx, Disconnect, Effect, run};
