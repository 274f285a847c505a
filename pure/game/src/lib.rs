//! The backend's rules: accounts, sessions, match listing, what scripts may ask for. One file per
//! feature, its SQL beside it.
//!
//! What is deliberately not here: connections, threads, sockets, and any particular database or
//! script language; those are reached through [`db::Database`] and [`guest::Scripts`].

#![forbid(unsafe_code)]

pub mod account;
pub mod api;
pub mod cache;
pub mod db;
pub mod directory;
pub mod error;
pub mod events;
pub mod fetch;
pub mod friends;
pub mod guest;
pub mod host;
mod json;
pub mod link;
pub mod match_id;
pub mod multi;
pub mod node;
pub mod notifications;
pub mod pairs;
pub mod plain;
pub mod query;
pub mod rules;
pub mod schema;
pub mod session;
pub mod storage;
pub mod stream;
pub mod user;
pub mod value;
pub mod wallet;
pub mod zone;

pub use wire::nearest;
