//! What it costs to give a server a network of its own: latency and throughput over each way by which
//! players could reach it, side by side.
//!
//! [`Plan`] is what is asked for, [`run`] does it and returns a [`PathsResult`]; [`text`], [`csv()`] and
//! [`report`] write that. The pings are [`crate::ping`]'s, the flows [`crate::flow`]'s: both ends are this
//! process, in network namespaces that are made for it and go with it.
//!
//! Not here: paths to other machines, which `throng ping` and `throng flow` measure.

mod place;
mod plan;
mod result;
mod run;
mod view;

pub use place::Path;
pub use plan::{Plan, PlanError};
pub use result::{FlowRate, PATHS_VERSION, PathRound, PathRow, PathsResult, Settings, SizeTimes};
pub use run::run;
pub use view::{csv, report, text};
