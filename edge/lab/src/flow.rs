//! Flow: what a path carries, and what that costs.
//!
//! [`Plan`] is what is asked for, [`run`] does it and returns a result of the form of
//! [`crate::load`]'s, with the same files and the same report; [`text`] writes it for a terminal and
//! `ntttcp` for programs that read NTttcp's. The other end is `throng ping serve`.
//!
//! Both ends count the same stretches of time, each by its own clock (see `meter`): the receiver's
//! figure is the headline, the sender's stands beside it, and what each thread used of its processor is
//! divided by what it moved. Threads use blocking sockets, as plain programs do.
//!
//! [`styles`] lays the ways in which a system can receive and send datagrams side by side.
//!
//! Not here: the command line, and how long single messages take, which is [`crate::ping`]'s.

pub(crate) mod lanes;
pub(crate) mod machine;
pub(crate) mod meter;
mod ntttcp;
pub(crate) mod pace;
pub(crate) mod plan;
mod run;
mod sequence;
pub mod styles;
mod sums;
pub(crate) mod tcp_info;
pub(crate) mod text;
mod threads;
pub(crate) mod words;
pub(crate) mod work;

pub use ntttcp::{ntttcp_json, ntttcp_xml};
pub use plan::{CONNECTIONS_MAX, Mapping, PER_THREAD_MAX, Plan, PlanError, Rate, THREADS_MAX};
pub use run::{FlowError, run};
pub use text::{line, text};
pub use words::Protocol;

pub use engine::datagram::{SendStyle, Style};
