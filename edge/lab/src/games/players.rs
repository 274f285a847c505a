//! Players of game servers, many in one thread: each has a socket and a schedule of its own, as if it sat
//! at a machine of its own.
//!
//! [`crowd::Crowd`] keeps them; what one says and understands is a [`Client`]: a player of the reference
//! server, one of Teeworlds, or somebody who only asks for the status. They are plain structs: bytes and the
//! time come in, bytes and what was seen come out.

mod client;
pub(crate) mod crowd;
mod probe;
mod reference;
mod schedule;
mod seen;
mod socket;
mod teeworlds;

pub(crate) use seen::{GeneratorSeen, ServerSeen};
