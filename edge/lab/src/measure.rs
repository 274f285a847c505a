//! What every command that measures has in common: times and their percentiles, numbers as people
//! read them, when arrivals happen, what a process uses, the machine, the server, and the files and
//! pages that results are written to.
//!
//! Nothing here knows what is measured: [`load`](crate::load) is one user.

pub(crate) mod arrivals;
pub(crate) mod change;
pub(crate) mod chart;
pub(crate) mod environment;
pub(crate) mod hlog;
pub(crate) mod json;
pub(crate) mod link;
pub(crate) mod lookup;
pub(crate) mod number;
pub(crate) mod page;
pub(crate) mod percentiles;
pub(crate) mod process;
pub(crate) mod processors;
pub(crate) mod scrape;
mod search;
pub(crate) mod secrets;
pub(crate) mod server;
pub(crate) mod span;
pub(crate) mod spread;
pub(crate) mod target;
pub(crate) mod text;
pub(crate) mod tls;

pub use environment::Environment;
pub use hlog::Intervals;
pub use json::json;
pub use link::relative;
pub use number::count_of;
pub use percentiles::{CurvePoint, Percentiles};
pub use process::{ProcessSample, SampleError, sample};
pub use search::Search;
pub use span::{BadSpan, Span};
pub use target::{Silence, Target, TargetError};
pub use tls::{TlsChoice, TlsError, Trust};
