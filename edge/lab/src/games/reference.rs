//! A game server that computes as a game does and has no game: players send commands, a simulation of a
//! fixed rate takes them, and every tick each player is sent a snapshot that says which command it has
//! taken last. The time that a tick computes can be chosen, and it knows when its ticks were late.
//!
//! [`Server`] runs it; `protocol` is what both ends say.

pub(crate) mod protocol;
mod server;
mod simulation;

pub use protocol::{SNAPSHOT_BYTES_MAX, Told};
pub use server::{Server, ServerError};
pub use simulation::{Options, PLAYERS_MAX};
