//! What a comparison of paths has found, in the form of its `result.json`.

use serde::{Deserialize, Serialize};

use super::place::Path;
use crate::measure::spread::Spread;
use crate::measure::{Environment, Percentiles};

/// Of the form of [`PathsResult`].
pub const PATHS_VERSION: u32 = 1;

/// A comparison.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathsResult {
    /// [`PATHS_VERSION`].
    pub version: u32,
    /// `host paths`.
    pub command: String,
    /// When it began, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Why it ended early; empty if it did not.
    pub ended: String,
    /// What was asked for.
    pub settings: Settings,
    /// Each path.
    pub rows: Vec<PathRow>,
    /// Where.
    pub environment: Environment,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of a ping.
    pub sizes: Vec<u32>,
    /// Pings at one time.
    pub streams: u16,
    /// Seconds between the pings of one; 0 is back to back.
    pub interval_s: f64,
    /// Seconds of each measurement.
    pub span_s: f64,
    /// How often each was to be made.
    pub rounds: u32,
}

/// One path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathRow {
    /// Which.
    pub path: Path,
    /// Why there are no rounds, or no more; empty if all went well.
    pub why: String,
    /// The measurements.
    pub rounds: Vec<PathRound>,
}

/// One measurement of a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathRound {
    /// From 1.
    pub round: u32,
    /// Round trips of each size.
    pub pings: Vec<SizeTimes>,
    /// Connections of TCP, and datagrams of UDP as fast as they could be sent.
    pub flows: Vec<FlowRate>,
}

/// Round trips of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeTimes {
    /// Bytes of a datagram.
    pub bytes: u32,
    /// From sent to the answer.
    pub times: Percentiles,
    /// Not answered.
    pub lost: u64,
}

/// What went through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRate {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Bits a second that the receiver had.
    pub bits_per_s: f64,
    /// Part of the datagrams that was lost.
    pub lost: Option<f64>,
    /// Nanoseconds of the receiver's and the sender's thread for each byte.
    pub receiver_ns_per_byte: Option<f64>,
    /// Likewise.
    pub sender_ns_per_byte: Option<f64>,
}

impl PathRow {
    /// A figure over the rounds that have it.
    pub(super) fn spread(&self, of: impl Fn(&PathRound) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(of))
    }
}

impl PathRound {
    /// Round trips of a size.
    pub(super) fn ping(&self, bytes: u32) -> Option<Percentiles> {
        let found = self.pings.iter().find(|it| it.bytes == bytes);
        found.map(|it| it.times).filter(|it| it.count > 0)
    }

    /// The flow over this.
    pub(super) fn flow(&self, protocol: &str) -> Option<&FlowRate> {
        self.flows.iter().find(|it| it.protocol == protocol)
    }
}
