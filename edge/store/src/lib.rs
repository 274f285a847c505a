//! The game's database on SQLite: one file in the data folder, nothing to set up.
//!
//! [`Store::open`] prepares the file (settings, migrations) and [`Store::connect`] gives each thread
//! its own [`Sqlite`], which implements `game::db::Database`. SQL and rows go through; what they
//! mean is `game`'s matter. PostgreSQL is not built yet.
//!
//! Durability: a write-ahead log (`log.rs`). What `commit` has returned for survives `kill -9`; what
//! `sync` has returned for also, as far as the disk keeps its promises, the loss of power.

#![forbid(unsafe_code)]

mod check;
mod checkpoint;
mod copy;
mod error;
mod failure;
mod functions;
mod group;
mod guest;
mod lock;
mod log;
mod marks;
mod meter;
mod migrate;
mod open;
mod own;
mod patience;
mod row;
mod rules;
mod sqlite;
mod stats;
mod timer;
mod waited;
mod watch;

pub use check::Check;
pub use error::OpenError;
pub use open::{DATABASE_FILE, Store, StoreSettings};
pub use sqlite::Sqlite;
pub use stats::{StoreSample, StoreStats};
