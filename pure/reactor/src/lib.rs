//! What becomes of a thread's connections, timers and mail, whichever driver runs: queues, limits,
//! backpressure, fairness, closing in order, and what the handler is told and when.
//!
//! A **core** thread is a [`Reactor`] (the handler and everything around it) and a [`Driver`] (the
//! kernel side), run by [`run`]. A **plain** thread, which owns no socket and may block, is a
//! [`Plain`]. A core's thread may host a second handler, its [`Companion`]. All see the rest of the process through [`Process`].
//!
//! What is deliberately not here: system calls, clocks, sleeping, and the queues that threads
//! share. A driver says what time it is and what the kernel has brought (`on_…`), and asks what the
//! kernel is to do ([`Net::work_off_dirty`]). So the same code runs on io_uring, on readiness
//! polling, and from a seed (`tests/it`), where a made-up kernel does whatever a kernel may.

#![forbid(unsafe_code)]

mod attempts;
mod burst;
mod companion;
mod conns;
mod counters;
mod datagrams;
mod fair;
mod limits;
mod mail;
mod net;
mod outgoing;
mod plain;
mod reactor;
mod stall;
mod stop;
mod turn;

pub use companion::Companion;
pub use conns::{Conn, Conns, NO_FILE, Phase};
pub use counters::{COUNTERS, COUNTERS_LEN, Count, CounterInfo, Counters};
pub use datagrams::{Bundle, Outbox, Taken};
pub use fair::Receive;
pub use limits::Limits;
pub use mail::{Postman, Process};
pub use net::{Net, Scarce};
pub use outgoing::{Outgoing, PINNED_MAX, Pool};
pub use plain::{Plain, Sleep};
pub use reactor::Reactor;
pub use turn::{Driver, run};

#[cfg(test)]
mod tests;
