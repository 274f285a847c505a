//! The other end of a measurement: the protocol, the connection that holds a session open, the server
//! that answers, and what can go wrong with either.
//!
//! [`ping`](crate::ping) and [`flow`](crate::flow) are its users: one port and one token for both.

pub(crate) mod control;
pub(crate) mod gone;
pub(crate) mod patience;
pub(crate) mod protocol;
pub(crate) mod serve;
