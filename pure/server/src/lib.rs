//! What one thread does: the core with its connections and sessions, the room with its realtime
//! groups, the worker with the database and the scripts. Start reading at [`mail`].
//!
//! What is deliberately not here: sockets, files, threads (the engine and the store own those) and
//! the rules of accounts and matches (`game`). Inputs come from the engine, outputs go back to it.

#![forbid(unsafe_code)]

pub mod core;
mod counts;
pub mod echo;
mod fair;
mod frames;
pub mod gate;
pub mod group;
pub mod guests;
pub mod hooks;
pub mod limit_log;
pub mod limits;
pub mod lister;
pub mod loader;
pub mod mail;
mod question;
pub mod resources;
mod retry_queue;
pub mod room;
pub mod settings;
pub mod stats;
pub mod worker;
mod zone;
