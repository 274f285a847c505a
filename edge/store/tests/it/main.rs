//! The game's rules on a real database, and the database itself. One binary; every test has its
//! own store.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::too_many_lines, reason = "tables of cases")]

mod accounts;
mod contract;
mod crash;
mod database;
mod friends;
mod group;
mod guest;
mod notifications;
mod opening;
mod postgres;
mod sessions;
mod statements;
mod storage;
mod watched;
mod world;
mod zone;
