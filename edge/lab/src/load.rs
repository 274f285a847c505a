//! Load: virtual players against a server, in an open or a closed loop.
//!
//! [`scenario`] is the file format, [`Plan`] what a run is asked for, [`run`] runs it and returns
//! a [`Summary`]. In the open loop operations begin on a schedule, whatever the server does, and
//! every one is timed three ways: service time (sent to answered), response time (intended start
//! to answered) and lateness (intended start to sent). In the closed loop the next begins when
//! the last is answered: that finds throughput, and its times say nothing about users.
//!
//! Not here: the command line. Nothing is corrected afterwards: what is recorded happened.

mod deliveries;
mod generator;
mod path;
mod player;
mod process;
mod program;
mod record;
mod run;
pub mod scenario;
mod summary;
mod table;
mod target;
mod template;

pub use process::{ProcessSample, SampleError, sample};
pub use record::{ErrorCount, Stage};
pub use run::{Plan, RunError, run};
pub use summary::{OpSummary, Percentiles, Second, SecondOp, ServerCost, Summary};
pub use table::text;
pub use target::{Target, TargetError};
