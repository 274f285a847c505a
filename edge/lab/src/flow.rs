//! Flow: how much goes from one end to the other, and what it costs.
//!
//! [`styles`] lays the ways in which a system can receive and send datagrams side by side.

pub mod styles;
