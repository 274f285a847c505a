//! The receive and send styles of datagrams side by side: the same receiver over each of them, fed by
//! the same sender, in turn and again and again, so that what else changes on the machine meanwhile
//! meets all alike.
//!
//! [`Plan`] is what is asked for, [`run`] does it, over loopback and over a veth pair between two
//! network namespaces that it makes; [`text`], [`report`] and [`csv()`] show the [`StylesResult`]. What
//! cannot be done here (no privileges, no such style in the kernel) is a row that says why.
//!
//! The experiment is L. Holgate's ("Windows Server 2012 Registered I/O Performance, take 2", 2012): a
//! generator that overruns the receiver, a dial for the work that each datagram makes, and counters
//! over time. Its headline here is datagrams received per second of the receiver's processor time,
//! because a receiver that sleeps half of the time has not been measured by a rate.
//!
//! Not here: how datagrams are received (`engine::datagram`), and the command line.

mod measure;
mod place;
mod plan;
mod report;
mod result;
mod run;
mod table;

pub use plan::{FLOWS_MAX, Plan, PlanError, ROUNDS_MAX};
pub use report::report;
pub use result::{Figures, Path, Round, Row, STYLES_VERSION, Sample, Settings, Side, StylesResult};
pub use run::run;
pub use table::{csv, text};
