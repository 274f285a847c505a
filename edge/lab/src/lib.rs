//! Measures servers over the wire, ours or anybody's.
//!
//! [`load`] drives virtual players against a server and says what an operation cost, how long it
//! took, and whether the generator itself was in the way. [`ping`] times round trips, connects and
//! requests one by one, [`flow`] what a path carries and what that costs. [`games`] plays on game servers,
//! [`ramp`] finds how many of them a machine carries, and [`paths`] what it costs to give each a network of its
//! own. This crate may not see
//! `game` or `server`: it can only measure what a stranger could. [`doctor`] looks at the machine that
//! it all runs on.
//!
//! Data comes in as a scenario (TOML) and leaves as a [`load::Summary`], from which tables, files
//! and reports are made; a ping and a flow end in the same form. What all commands that measure share stands
//! in [`measure`], which knows nothing of `load`. The command line is the binary's.

#![forbid(unsafe_code)]

pub mod doctor;
pub mod flow;
pub mod games;
pub mod load;
pub mod measure;
pub mod paths;
pub(crate) mod peer;
pub mod ping;
pub mod ramp;
