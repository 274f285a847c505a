//! What a run has shown: its figures, second by second and in all, whether they may be believed, and
//! whether what was expected holds.
//!
//! In: records of all seconds. Out: a [`Summary`], which is what `result.json` holds.

pub mod expect;
pub(crate) mod figures;
pub(crate) mod flow;
mod metric;
pub(crate) mod notes;
pub(crate) mod ping;
mod progress;
mod schema;
mod second;
mod series;
pub(crate) mod summary;
pub(crate) mod validity;
pub(crate) mod zone;

pub use flow::{FlowConnection, FlowDatagrams, FlowEnd, FlowMachine, FlowSecond, FlowSummary};
pub use metric::help as metrics_help;
pub use ping::{PingBucket, PingOp, PingSummary};
pub use progress::{Progress, Watch};
pub use schema::schema;
pub(crate) use second::STRETCH_S_MIN;
pub use second::{Lacking, Ramp, Second, SecondOp};
pub use series::csv;
pub use summary::{EndingTimes, OpSummary, RESULT_VERSION, ServerCost, Summary};
pub(crate) use zone::ZoneCell;
pub use zone::{Bounds, Lengths, ZoneSecond, ZoneServer, ZoneSummary};
