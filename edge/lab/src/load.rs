//! Load: virtual players against a server, in an open or a closed loop.
//!
//! [`scenario`] is the file format, [`Plan`] what a run is asked for, [`run`] runs it and returns
//! a [`Summary`]. In the open loop operations begin on a schedule, whatever the server does, and
//! every one is timed three ways: service time (sent to answered), response time (intended start
//! to answered) and lateness (intended start to sent). In the closed loop the next begins when
//! the last is answered: that finds throughput, and its times say nothing about users.
//!
//! Data runs one way: `scenario` says what players do, `generator` does it and keeps a `record`,
//! `run` puts the records together into a `result`, and `view` is what people look at.
//!
//! Not here: the command line. Nothing is corrected afterwards: what is recorded happened.

mod generator;
pub(crate) mod record;
pub(crate) mod result;
pub(crate) mod run;
pub mod scenario;
pub(crate) mod view;

pub use record::kind::{Cause, Kind};
pub use record::{ErrorCount, Stage};
pub use result::{
    Bounds, EndingTimes, FlowConnection, FlowDatagrams, FlowEnd, FlowMachine, FlowSecond,
    FlowSummary, Lacking, Lengths, OpSummary, PingBucket, PingOp, PingSummary, Progress,
    RESULT_VERSION, Ramp, Second, SecondOp, ServerCost, Summary, Watch, ZoneSecond, ZoneServer,
    ZoneSummary, csv, expect, metrics_help, schema,
};
pub use run::{Finished, Plan, RunError, Share, TARGETS_MAX, check, run, work};
pub use view::{advice, compare, comparison, html, junit, overview, prometheus, screen, text};

pub use crate::measure::{
    Environment, Intervals, Percentiles, ProcessSample, SampleError, Search, Silence, Target,
    TargetError, TlsChoice, TlsError, Trust, json, sample,
};
pub use wire::nearest::did_you_mean;
