//! What people look at: tables, the live screen, reports, comparisons, verdicts for CI.
//!
//! In: a result, or several, or a run that goes on. Out: text, HTML and XML. Nothing is measured here.

pub mod advice;
pub mod compare;
mod connections;
mod junit;
mod metrics;
mod overview;
mod report;
pub mod screen;
pub(crate) mod table;
mod zone;

pub use junit::junit;
pub use metrics::prometheus;
pub use overview::overview;
pub use report::{comparison, html};
pub use table::text;
