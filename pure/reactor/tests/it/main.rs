//! The rules of connections, mail and fairness, played from seeds: a made-up kernel that splits,
//! delays, refuses, resets and reorders whatever a kernel may, peers of every kind, and a handler
//! that does everything; with checks of all that is promised.
//!
//! `THRONG_SEED=42 cargo test -p reactor --test it seeds` plays seed 42 alone, and
//! `THRONG_SEEDS=100000` as many from 0.

#![allow(clippy::unwrap_used)]

mod datagrams;
mod handler;
mod kernel;
mod plain;
mod play;
mod process;
mod world;
