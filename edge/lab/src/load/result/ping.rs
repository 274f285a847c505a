//! What a result of `throng ping` holds beside what every result holds.
//!
//! In: what was asked for, and what the streams have counted. Out: a part of `result.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What only `throng ping` has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PingSummary {
    /// What was timed: `tcp`, `udp`, `connect`, `http`, `ws` or `icmp`.
    pub kind: String,
    /// Streams at once; each is a thread and a connection of its own.
    pub streams: u16,
    /// Nanoseconds between the intended starts of one stream; 0 is back to back, a closed loop.
    pub interval_ns: u64,
    /// How the starts were spaced: `constant` or `poisson`.
    pub arrivals: String,
    /// Whether the streams waited for answers without sleeping.
    pub busy_poll: bool,
    /// Version of the `throng ping serve` that answered; empty of other servers.
    pub server_version: String,
    /// Of the datagrams that were lost, those that the server never got; none where no server
    /// counted them, and where some were doubled, which hides them.
    pub lost_there: Option<u64>,
    /// Those whose answer was lost on its way back; likewise.
    pub lost_back: Option<u64>,
    /// By size, in the order of `ops`.
    pub ops: Vec<PingOp>,
}

/// One size of a ping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PingOp {
    /// Bytes of each question, and of each answer where that is an echo.
    pub size_bytes: u64,
    /// Jitter of the round-trip times at the end of the run: the estimate of RFC 3550, section
    /// 6.4.1, of each stream; their mean.
    pub jitter_ns: f64,
    /// Mean of the differences between neighbouring round-trip times that the estimate is made of.
    pub difference_mean_ns: f64,
    /// The histogram of its times: of the response time in the open loop, of the service time in
    /// the closed one.
    pub histogram: Vec<PingBucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PingBucket {
    /// Above this; 0 of the first one.
    pub above_ns: u64,
    /// Up to and with this; none of the last one, which has no end.
    pub until_ns: Option<u64>,
    /// Answers whose time lies in it.
    pub count: u64,
}
