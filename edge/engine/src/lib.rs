//! Runs handlers on pinned threads: io_uring where the kernel has it, readiness polling elsewhere.
//!
//! A **core** thread owns sockets: one loop, one handler, no lock; a second handler may share its
//! turns, its companion. A **plain** thread owns no socket and may block. Threads are coupled by bounded mailboxes only. What a connection does
//! (output queues, limits, backpressure, fairness, closing in order) is decided in one place, the
//! crate `reactor`, and the two drivers only carry it out; so nothing above can tell which one runs.
//!
//! A core thread's sockets for datagrams (`port`) are one piece of code for both drivers, which only
//! wait for them. Beside the threads stands [`datagram`]: UDP received and sent in each of the styles that
//! Linux has, which the lab compares; and [`Namespace`], in which it can be done between two ends.
//!
//! What is deliberately not here: protocols, TLS, and anything that knows a game. Data
//! enters from the kernel and from mailboxes, is lent to the handler as `event::Input`, and leaves
//! as the operations of `event::Output`.
//!
//! The one crate with unsafe code, and in it the two drivers and the datagrams, mostly: the ring and
//! the datagrams lend memory to the kernel (`block`, `uring/`, `datagram/`), and the readiness driver
//! promises the poller that a registered socket outlives its registration (`poll`). Two calls that ask
//! the kernel for what it has counted, for the lab, stand in `accounting`, and one that asks when a datagram came in
//! `stamp`; mounts and namespaces of programs that are started in walls of their own in [`walls`].

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "asks for what the kernel has counted")]
mod accounting;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "maps memory that is lent to the kernel")]
mod block;
mod choice;
mod clock;
mod connect;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "lends memory to the kernel, in calls that no crate here wraps")]
pub mod datagram;
mod engine;
mod files;
mod listen;
mod mailbox;
#[cfg(target_os = "linux")]
mod namespace;
#[allow(unsafe_code, reason = "registers sockets with the poller")]
mod poll;
mod port;
#[cfg(target_os = "linux")]
mod realtime;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "asks for when a datagram came, in a call that no crate here wraps")]
mod stamp;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "lends memory to the kernel")]
mod uring;
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "mounts and namespaces, in calls that no crate here wraps")]
pub mod walls;

#[cfg(target_os = "linux")]
pub use accounting::{TCP_INFO_BYTES, Usage, tcp_info, thread_usage};
pub use choice::{BadChoice, DriverChoice, Missing, probe};
pub use engine::{
    CompanionPlan, Engine, Running, Start, StartError, ThreadCounters, ThreadFailed, ThreadKind,
    ThreadPlan,
};
#[cfg(unix)]
pub use files::raise_file_limit;
pub use listen::{BACKLOG_MAX, bind_udp, listen};
#[cfg(target_os = "linux")]
pub use namespace::{Namespace, NamespaceError, VethPair, ip};
pub use reactor::{COUNTERS, Count, CounterInfo, Counters, Limits};
#[cfg(target_os = "linux")]
pub use realtime::set_realtime;
#[cfg(target_os = "linux")]
pub use stamp::{receive_stamped, stamp_arrivals};
