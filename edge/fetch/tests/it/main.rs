//! Requests against real servers on loopback, which behave as servers do, and worse.
//!
//! Everything here stays on this machine: what may be reached is 127.0.0.1 and 127.0.0.2, and what is
//! to be refused is refused before it is connected to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod hostile;
mod limits;
mod plain;
mod rig;
mod targets;
mod tls;
