//! How many game servers does a machine carry? Servers are added step by step with players on each, what
//! players and kernel see is measured, and a gate that was fixed before says where it ends.
//!
//! [`Plan`] is what is asked for, [`run`] does it with [`Servers`] that somebody else starts, and returns a
//! [`RampResult`]; [`text`], [`csv`] and [`report`] write that.
//!
//! The method: each number of servers is measured once, upwards, until the gates fail; then all of them
//! again, in an order drawn from a seed. Before and after each step one server alone is measured, the
//! control: a step whose controls differ, or from whose machine somebody else took time, is discarded and
//! measured again, twice at most. A step in which the players themselves were late does not count either. A
//! number of servers of which no step counts passes no gate, and the result says so. Nothing is left out of it.
//!
//! Not here: how servers are started, and what stands between them.

mod csv;
mod gate;
mod judge;
mod levels;
mod plan;
mod power;
mod report;
mod result;
mod run;
mod step;
mod text;
mod usage;

pub use csv::csv;
pub use gate::{BadGate, Gate};
pub use plan::{Plan, PlanError};
pub use power::PowerSource;
pub use report::report;
pub use result::{
    GateResult, GeneratorFigures, MachineFigures, RAMP_VERSION, RampResult, Role, Second,
    ServerFigures, Settings, Step, Unmeasured,
};
pub use run::{RampError, Running, Servers, run};
pub use text::text;
