//! Ping: how long a question and its answer take, one by one.
//!
//! [`Plan`] is what is asked for, [`run`] does it and returns a result of the form of
//! [`crate::load`]'s, with the same files and the same report; [`text`] writes it for a terminal.
//! [`Server`] is the other end: it answers every kind on one port, and stands with its protocol in
//! `peer`.
//!
//! Every stream is a thread with a connection of its own, which waits in the kernel as any client
//! does, so that what is measured is what a client would see. In the open loop, which is the usual
//! one, a ping begins when it is due; in the closed loop when the last is answered.
//!
//! Not here: the command line, and throughput.

mod buckets;
mod expect;
mod jitter;
pub(crate) mod plan;
mod probe;
mod run;
mod stream;
mod text;
mod window;

pub use buckets::{BadBuckets, Buckets};
pub use expect::condition;
pub use plan::{
    Amount, Family, Interval, Kind, Place, Plan, PlanError, SIZES_MAX, STREAMS_MAX, Size,
};
pub use run::{PingError, run};
pub use text::text;

pub use crate::load::scenario::Process;
pub use crate::peer::gone::Gone;
pub use crate::peer::protocol::{TOKEN_BYTES_MAX, is_token};
pub use crate::peer::serve::{Counts, Happening, ServeError, ServeOptions, Server};
