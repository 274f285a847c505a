//! Load: virtual players against a server, in an open or a closed loop.
//!
//! [`scenario`] is the file format, [`Plan`] what a run is asked for, [`run`] runs it and returns
//! a [`Summary`]. In the open loop operations begin on a schedule, whatever the server does, and
//! every one is timed three ways: service time (sent to answered), response time (intended start
//! to answered) and lateness (intended start to sent). In the closed loop the next begins when
//! the last is answered: that finds throughput, and its times say nothing about users.
//!
//! Not here: the command line. Nothing is corrected afterwards: what is recorded happened.

pub mod advice;
mod chart;
mod collect;
pub mod compare;
mod deliveries;
mod enough;
mod environment;
pub mod expect;
mod generator;
mod hlog;
mod json;
mod limit;
mod nearest;
mod path;
mod player;
mod process;
mod program;
mod record;
mod report;
mod run;
pub mod scenario;
mod schema;
pub mod screen;
mod series;
mod stream;
mod summary;
mod table;
mod target;
mod template;
mod workers;

pub use environment::Environment;
pub use hlog::Intervals;
pub use json::json;
pub use nearest::did_you_mean;
pub use process::{ProcessSample, SampleError, sample};
pub use record::{ErrorCount, Stage};
pub use report::{comparison, html};
pub use run::{Finished, Plan, Progress, RunError, Share, TARGETS_MAX, Watch, check, run, work};
pub use schema::schema;
pub use series::csv;
pub use summary::{
    Lacking, OpSummary, Percentiles, RESULT_VERSION, Ramp, Second, SecondOp, ServerCost, Summary,
};
pub use table::text;
pub use target::{Silence, Target, TargetError};

/// Text for HTML and XML, also within quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
