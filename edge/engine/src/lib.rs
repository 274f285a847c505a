//! Runs handlers on pinned threads: io_uring where the kernel has it, readiness polling elsewhere.
//!
//! A **core** thread owns sockets: one loop, one handler, no lock. A **plain** thread owns no
//! socket and may block. Threads are coupled by bounded mailboxes only. What a connection does
//! (output queues, limits, backpressure, closing in order) is decided in one place, `net`, and the
//! two drivers only carry it out; so nothing above can tell which one runs.
//!
//! What is deliberately not here: protocols, TLS, datagrams, and anything that knows a game. Data
//! enters from the kernel and from mailboxes, is lent to the handler as `event::Input`, and leaves
//! as the operations of `event::Output`.
//!
//! The one crate with unsafe code: the ring driver lends memory to the kernel (`uring/`), and the
//! readiness driver promises the poller that a registered socket outlives its registration, and the
//! allocator is asked to give memory back (`memory`).

#![allow(unsafe_code)] // The reason is above; the workspace denies it everywhere else.
#![deny(unsafe_op_in_unsafe_fn)]

mod choice;
mod clock;
mod connect;
mod conns;
mod counters;
mod driver;
mod engine;
mod limits;
mod listen;
mod mailbox;
mod memory;
mod net;
mod outgoing;
mod plain;
mod poll;
mod reactor;
mod stall;
#[cfg(target_os = "linux")]
mod uring;

pub use choice::{BadChoice, DriverChoice, Missing, probe};
pub use counters::{COUNTERS, Count, CounterInfo, Counters};
pub use engine::{
    Engine, Kind, Running, Start, StartError, ThreadCounters, ThreadFailed, ThreadPlan,
};
pub use limits::Limits;
#[cfg(unix)]
pub use limits::raise_file_limit;
pub use listen::{BACKLOG_MAX, listen};
