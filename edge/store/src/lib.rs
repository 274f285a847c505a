//! The game's database on SQLite: one file in the data folder, nothing to set up.
//!
//! [`Store::open`] prepares the file (settings, migrations) and [`Store::connect`] gives each thread
//! its own [`Sqlite`], which implements `game::db::Database`. SQL and rows go through; what they
//! mean is `game`'s matter. PostgreSQL is not built yet.
//!
//! Durability: write-ahead log with `synchronous=FULL`. What `commit` has returned for survives
//! `kill -9` and, as far as the disk keeps its promises, the loss of power.

#![forbid(unsafe_code)]

mod failure;
mod lock;
mod migrate;
mod open;
mod sqlite;

pub use open::{DATABASE_FILE, OpenError, Store};
pub use sqlite::Sqlite;
