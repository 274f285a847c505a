//! A run second by second, and how its players came.
//!
//! In: a stretch's record. Out: its figures, as they stand in the result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::zone::ZoneSecond;
use crate::load::record::{Record, Stage, count_errors};
use crate::measure::number::{group, seconds};
use crate::measure::percentiles::{Percentiles, heat};
use crate::measure::text::one_line;

/// Stretches shorter than this are what a stage's end left of a second: neither a rate nor a share
/// of a processor can be read from them.
pub(crate) const STRETCH_S_MIN: f64 = 0.2;

/// One second, or what came instead of one at a stage's end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Second {
    /// Seconds since the run began, at its end.
    pub at_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// Where the run was.
    pub stage: Stage,
    /// The most that were present in it.
    pub players: u32,
    /// Players that had become ready by its end.
    #[serde(default)]
    pub ready: u32,
    /// What is to be said of it; mostly nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// At its end.
    pub connections: u32,
    /// At its end.
    pub sockets: u32,
    /// Errors in it, without those that are harmless.
    pub errors: u64,
    /// All by kind: (place in [`super::Summary::errors`], how many).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors_by: Vec<(u16, u64)>,
    /// Bytes to the server.
    pub sent_bytes: u64,
    /// Bytes from the server.
    pub received_bytes: u64,
    /// CPU of the server, of one processor; 0 when it was not named.
    pub server_cpu: f64,
    /// CPU of the generator.
    pub generator_cpu: f64,
    /// Resident memory of the generator.
    #[serde(default)]
    pub generator_bytes: u64,
    /// Of pilots of the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneSecond>,
    /// By operation, in the order of [`super::Summary::ops`].
    pub ops: Vec<SecondOp>,
    /// The headline operation's times: (tenths of a decade above 1 ns, how many).
    pub heat: Vec<(u16, u64)>,
}

/// How the players came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// Players that became ready in it.
    pub ready: u32,
    /// Seconds from the first player until the last one was ready, or was no longer waited for.
    pub seconds: f64,
    /// Why the others were not ready, the most frequent reason first.
    pub lacking: Vec<Lacking>,
}

/// Players that did not become ready for one reason: their last failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lacking {
    /// Operation and kind of failure.
    pub reason: String,
    /// How many players.
    pub players: u64,
}

impl Ramp {
    /// Reasons that are told one by one.
    const REASONS_MAX: usize = 3;

    /// Takes one stretch of the ramp.
    pub(in crate::load) fn take(&mut self, record: &Record, second: &Second) {
        self.ready = self.ready.max(record.ready);
        self.seconds = self.seconds.max(second.at_s);
        for (reason, count) in &record.lacking {
            match self.lacking.iter_mut().find(|it| it.reason == *reason) {
                Some(known) => known.players += count,
                None => self.lacking.push(Lacking { reason: reason.clone(), players: *count }),
            }
        }
        self.lacking.sort_by(|a, b| b.players.cmp(&a.players).then(a.reason.cmp(&b.reason)));
    }

    /// One sentence about what kept players away; none when all of `players` became ready.
    #[must_use]
    pub fn text(&self, players: u32) -> Option<String> {
        if self.lacking.is_empty() {
            return None;
        }
        let told = self.lacking.iter().take(Self::REASONS_MAX);
        let told = told.map(|it| format!("{} ({})", one_line(&it.reason), group(it.players)));
        let mut told: Vec<String> = told.collect();
        let rest: u64 = self.lacking.iter().skip(Self::REASONS_MAX).map(|it| it.players).sum();
        if rest > 0 {
            told.push(format!("other reasons ({})", group(rest)));
        }
        let ready = group(u64::from(self.ready));
        let all = group(u64::from(players));
        Some(format!("{ready} of {all} players became ready; the others: {}", told.join(", ")))
    }
}

/// One operation in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondOp {
    /// Sent; 0 in results of older versions.
    #[serde(default)]
    pub started: u64,
    /// Answered.
    pub done: u64,
    /// Service time.
    pub service_mean_ns: f64,
    /// Service time in the closed loop, response time in the open one.
    pub p50_ns: u64,
    /// Likewise; 0 in results of older versions, as the next.
    #[serde(default)]
    pub p90_ns: u64,
    /// Likewise.
    #[serde(default)]
    pub p95_ns: u64,
    /// Likewise.
    pub p99_ns: u64,
    /// Likewise; 0 in results of older versions.
    #[serde(default)]
    pub p999_ns: u64,
    /// Likewise.
    pub max_ns: u64,
    /// Lateness.
    pub late_p99_ns: u64,
}

impl Second {
    /// Whether it lasted no time and nothing happened: two stages ended at one moment.
    pub(in crate::load) fn is_empty(&self) -> bool {
        self.length_s < 1e-6 && self.errors == 0 && self.ops.iter().all(|op| op.done == 0)
    }

    /// Of what was recorded.
    pub(in crate::load) fn of(record: &Record, start_ns: u64, headline: u16) -> Self {
        let ops = record.ops.iter().map(|op| {
            let times = op.response.histogram().or(op.service.histogram());
            let times = Percentiles::of(times);
            SecondOp {
                started: op.started,
                done: op.done,
                service_mean_ns: op.service.histogram().map_or(0.0, hdrhistogram::Histogram::mean),
                p50_ns: times.p50_ns,
                p90_ns: times.p90_ns,
                p95_ns: times.p95_ns,
                p99_ns: times.p99_ns,
                p999_ns: times.p999_ns,
                max_ns: times.max_ns,
                late_p99_ns: Percentiles::of(op.lateness.histogram()).p99_ns,
            }
        });
        let headline = record.ops.get(usize::from(headline));
        Self {
            at_s: seconds(record.until_ns.saturating_sub(start_ns)),
            length_s: seconds(record.until_ns.saturating_sub(record.from_ns)),
            stage: record.stage,
            players: record.players,
            ready: record.ready,
            note: String::new(),
            connections: record.connections,
            sockets: record.sockets,
            errors: count_errors(&record.errors),
            errors_by: Vec::new(),
            sent_bytes: record.bytes_out,
            received_bytes: record.bytes_in,
            server_cpu: 0.0,
            generator_cpu: 0.0,
            generator_bytes: 0,
            zone: ZoneSecond::of(&record.zone),
            ops: ops.collect(),
            heat: heat(headline.and_then(|op| op.response.histogram().or(op.service.histogram()))),
        }
    }
}
