//! Core, room and worker together, in one thread and without sockets: the rig passes their mail
//! about, with a real database in memory and real Lua. Wire formats go in and come out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

mod ahead;
mod answers;
mod backlog;
mod batched;
mod clock;
mod cluster;
mod companion;
#[allow(clippy::disallowed_methods, reason = "CPU time is read from /proc")]
mod crowds;
mod datagrams;
mod disk;
mod events;
mod fair;
mod fetches;
mod full;
mod grpc;
mod guests;
mod host_calls;
mod http;
mod match_waits;
mod matches;
mod network;
mod nodes;
mod notifications;
mod reload;
mod rig;
mod sessions;
mod shutdown;
mod sim;
mod sockets;
mod spent;
mod status;
mod streams;
mod turns;
mod waiting;
mod zone;
