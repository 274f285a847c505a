//! The backend's rules: accounts, sessions, match listing, what scripts may ask for. One file per
//! feature, its SQL beside it.
//!
//! What is deliberately not here: connections, threads, sockets, and any particular database or
//! script language; those are reached through [`db::Database`] and [`guest::Scripts`].

#![forbid(unsafe_code)]

pub mod cache;
pub mod db;
pub mod directory;
pub mod guest;
pub mod host;
pub mod session;
pub mod value;
