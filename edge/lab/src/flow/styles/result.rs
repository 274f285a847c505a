//! What a comparison of styles has found, in the form of its `result.json`.

use serde::{Deserialize, Serialize};

use crate::measure::Environment;
use crate::measure::spread::Spread;

/// Of the form of [`StylesResult`].
pub const STYLES_VERSION: u32 = 1;

/// Where datagrams went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// The loopback interface.
    Loopback,
    /// A veth pair between two network namespaces.
    Veth,
}

impl Path {
    /// All.
    pub const ALL: [Self; 2] = [Self::Loopback, Self::Veth];

    /// As it is typed and told.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth => "veth",
        }
    }
}

/// Which end has the style, and is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The receiver; all are fed by the same sender.
    Receive,
    /// The sender; all send to the same receiver.
    Send,
}

/// A comparison.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StylesResult {
    /// [`STYLES_VERSION`].
    pub version: u32,
    /// `flow styles`.
    pub command: String,
    /// When it began, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Why it ended early; empty if it did not.
    pub ended: String,
    /// What was asked for.
    pub settings: Settings,
    /// What was measured, in the order in which it is told.
    pub rows: Vec<Row>,
    /// Where.
    pub environment: Environment,
}

/// What was asked for, and what came of it before anything was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Length of each measurement in seconds.
    pub span_s: f64,
    /// How often each was to be made.
    pub rounds: u32,
    /// Bytes of a datagram.
    pub bytes: usize,
    /// Source ports where there are many.
    pub flows: u16,
    /// Datagrams that a flow sends together: where there is one, and where there are many.
    pub bursts: [usize; 2],
    /// Datagrams a second; 0 is as many as can be.
    pub rate: f64,
    /// Nanoseconds that the receiver burns for each datagram.
    pub work_ns: u64,
    /// Microseconds for which a receiver that had to wait lets more come.
    pub gather_us: u64,
    /// Pieces taken with one call, where the style takes several.
    pub batch: usize,
    /// Receive buffer that was asked for, in bytes; what was given is in [`Round::buffer_bytes`].
    pub buffer_bytes: usize,
    /// Processors of the sender and the receiver; none where there is only one.
    pub processors: Option<[usize; 2]>,
    /// Whether those are two threads of one core.
    #[serde(default)]
    pub is_one_core: bool,
}

/// One style in one place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Where.
    pub path: Path,
    /// Source ports.
    pub flows: u16,
    /// Whose style.
    pub side: Side,
    /// Its name.
    pub style: String,
    /// The name of the other end's.
    pub other: String,
    /// Why there are no rounds, or no more; empty if all went well.
    pub why: String,
    /// The measurements.
    pub rounds: Vec<Round>,
}

/// One measurement. But for losses all of it is of the time that counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub round: u32,
    /// Seconds that were counted.
    pub span_s: f64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Of the whole time, warm-up and end included: sent, and neither received nor too large.
    pub lost: u64,
    /// Of the whole time: sent.
    pub sent_in_all: u64,
    /// Of the whole time: lost for lack of room at the receiver's socket, by its own count; with
    /// UDP_GRO of pieces, each of up to 64 datagrams.
    pub dropped: u64,
    /// Of the whole time: larger than they may be.
    pub truncated: u64,
    /// Of the whole time: pieces that could not be read.
    #[serde(default)]
    pub unreadable: u64,
    /// Receive buffer that the socket was given, in bytes; 0 where that is not known.
    #[serde(default)]
    pub buffer_bytes: usize,
    /// What the receiver's thread used.
    pub receiver: Figures,
    /// What the sender's thread used, with what the kernel did in its name: on one machine that is
    /// the way to the receiver's socket too, unless the kernel counts that apart
    /// (CONFIG_IRQ_TIME_ACCOUNTING) or leaves it to ksoftirqd.
    pub sender: Figures,
    /// Seconds that all processors of the machine were not idle, whoever used them, by the kernel's
    /// ticks.
    pub machine_busy_s: f64,
    /// The part of them in interrupts and softirqs, which may also be in what the threads used.
    #[serde(default)]
    pub machine_softirq_s: f64,
    /// Seconds that the host took from this machine.
    pub stolen_s: f64,
    /// Over time.
    pub series: Vec<Sample>,
}

/// What a thread used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Processor time in seconds, exact.
    pub cpu_s: f64,
    /// The part of it outside the kernel, of what the kernel has seen at its ticks.
    pub user_s: f64,
    /// The part inside.
    pub system_s: f64,
    /// System calls.
    pub calls: u64,
}

/// A stretch of a measurement.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Its end, in seconds since the time began that counts.
    pub at_s: f64,
    /// Datagrams received a second.
    pub received_per_s: f64,
    /// Datagrams sent a second.
    pub sent_per_s: f64,
    /// Share of a processor that the receiver used, outside the kernel and inside.
    pub user: f64,
    /// Inside.
    pub system: f64,
    /// Bytes that waited in the kernel for the receiver at its end.
    pub waiting_bytes: u64,
    /// Resident memory of the process at its end.
    pub resident_bytes: u64,
}

impl Round {
    /// What counts of the side that is compared: datagrams for each second of its processor time.
    pub(super) fn per_cpu_s(&self, side: Side) -> f64 {
        let (datagrams, figures) = self.of(side);
        ratio(datagrams, figures.cpu_s)
    }

    /// Datagrams and figures of a side.
    pub(super) fn of(&self, side: Side) -> (u64, Figures) {
        match side {
            Side::Receive => (self.received, self.receiver),
            Side::Send => (self.sent, self.sender),
        }
    }

    /// Nanoseconds of all processors for each datagram that was received.
    pub(super) fn machine_ns(&self) -> f64 {
        self.machine_busy_s * 1e9 / crate::measure::number::float(self.received.max(1))
    }

    /// Share of what was sent that was lost.
    pub(super) fn lost_share(&self) -> f64 {
        ratio(self.lost, crate::measure::number::float(self.sent_in_all))
    }

    /// The most that waited.
    pub(super) fn waiting_bytes_max(&self) -> u64 {
        self.series.iter().map(|it| it.waiting_bytes).max().unwrap_or(0)
    }
}

impl Row {
    /// A figure over the rounds.
    pub(super) fn spread(&self, figure: impl Fn(&Round) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(figure))
    }

    /// What the rows are compared by, over the rounds.
    pub(super) fn per_cpu_s(&self) -> Option<Spread> {
        self.spread(|it| it.per_cpu_s(self.side))
    }
}

impl StylesResult {
    /// Rows that are compared with each other, in order; the first one of each is what the others
    /// are compared with.
    pub(super) fn sections(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| (a.path, a.flows, a.side) == (b.path, b.flows, b.side))
    }
}

fn ratio(count: u64, by: f64) -> f64 {
    if by > 0.0 { crate::measure::number::float(count) / by } else { 0.0 }
}
