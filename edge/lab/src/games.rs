//! Game servers as a stranger meets them: what they answer to status queries ([`query`]), a small server
//! of our own whose inside is known ([`mod@reference`]), and players.
//!
//! Not here: how servers are started, which is `host`'s, and how many of them a machine carries, which is
//! [`ramp`](crate::ramp)'s.

pub(crate) mod players;
pub mod query;
pub mod reference;
mod teeworlds;
