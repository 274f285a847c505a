//! What a run has shown, as numbers: what tables, files and reports are made from.
//!
//! Times are nanoseconds in the fields that end in `_ns`. Rates are per second of the counted
//! time, or, for operations outside the loop, of the time in which they happened.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expect::Verdict;
use super::flow::FlowSummary;
use super::ping::PingSummary;
use super::zone::ZoneSummary;
use super::{Ramp, Second};
use crate::load::record::kind::Cause;
use crate::load::record::{ConnectingRecord, EndingRecord, Record, Stage};
use crate::load::scenario::data::Data;
use crate::load::scenario::program::Op;
use crate::measure::environment::Environment;
use crate::measure::number::{count_of, float, players};
use crate::measure::percentiles::{CurvePoint, Percentiles, curve};
use crate::measure::process::ProcessSample;
use crate::measure::server::Ended;
use crate::measure::text::one_line;

/// The form of `result.json`; rises when a field changes its meaning or goes.
pub const RESULT_VERSION: u32 = 1;
/// Seconds of the intervals in Tsung's tables.
pub(crate) const INTERVAL_S: usize = 10;
/// Players from which on the generator's memory per player means something.
pub(crate) const PLAYERS_MIN: u32 = 8_000;

/// A finished run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// `RESULT_VERSION`.
    pub version: u32,
    /// The command that measured: `load`, `ping` or `flow`; empty in results of older versions, which
    /// are `load`'s. `ping` says `streams` where `load` says players, `flow` connections.
    #[serde(default)]
    pub command: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Its title.
    pub title: String,
    /// What it does.
    pub about: String,
    /// When the run began, in seconds since 1970.
    pub started_unix_s: u64,
    /// When the first second of the series began, in milliseconds since 1970, to find a moment of it
    /// in other logs; 0 in results of older versions, and when nothing came.
    #[serde(default)]
    pub series_unix_ms: u64,
    /// What was asked for.
    pub settings: Settings,
    /// Why the figures must not be believed, as whole sentences; empty when they may. Results of older
    /// versions leave out that it was the generator that was in the way.
    pub invalid: Vec<String>,
    /// What a reader should know besides: that generator and server shared a processor, say.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the run ended before its time; empty when it did not.
    #[serde(default)]
    pub ended: String,
    /// How the server that the run had started ended by itself; none if it lived.
    #[serde(default)]
    pub server_ended: Option<Box<ServerEnd>>,
    /// What was expected of the run (`--expect`, the scenario's thresholds), and whether it holds;
    /// empty in results of older versions.
    #[serde(default)]
    pub expectations: Vec<Verdict>,
    /// Seconds that were counted.
    pub counted_s: f64,
    /// The operation that the headline is about.
    pub headline: String,
    /// How the players came; none with phases.
    #[serde(default)]
    pub ramp: Option<Ramp>,
    /// All operations.
    pub ops: Vec<OpSummary>,
    /// Match messages, if the scenario sends any.
    pub deliveries: Option<Deliveries>,
    /// Errors by operation and kind, the most frequent first.
    pub errors: Vec<ErrorSummary>,
    /// Connections that were made, over the whole run.
    #[serde(default)]
    pub connections: Connections,
    /// Bytes of HTTP and WebSocket, without TCP's own and TLS's.
    pub network: Network,
    /// The server process, if it was named.
    pub server: Option<ServerCost>,
    /// The generator itself.
    pub generator: GeneratorCost,
    /// Players of phases that were due and did not come, because `players_max` was reached.
    #[serde(default)]
    pub turned_away: u64,
    /// What only `throng ping` has to say; none of other commands.
    #[serde(default)]
    pub ping: Option<PingSummary>,
    /// What only `throng flow` has to say; none of other commands.
    #[serde(default)]
    pub flow: Option<FlowSummary>,
    /// What only pilots of the zone have to say; none of other scenarios.
    #[serde(default)]
    pub zone: Option<Box<ZoneSummary>>,
    /// Where it took place.
    pub environment: Environment,
    /// The run second by second.
    pub series: Vec<Second>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Where requests went; several nodes with commas between.
    pub target: String,
    /// The same, node by node.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The servers' processes, if they were named.
    #[serde(default)]
    pub server_pids: Vec<u32>,
    /// Virtual players; with phases, the most that were present.
    pub players: u32,
    /// Rate of the paced loops.
    pub rate: Option<f64>,
    /// What it became by the end of the counted time; none if it stayed.
    #[serde(default)]
    pub rate_end: Option<f64>,
    /// Closed loop.
    pub saturate: bool,
    /// The loop has no pace, with think times or without: a closed loop too.
    #[serde(default)]
    pub is_free: bool,
    /// Requests in one write.
    pub pipeline: u16,
    /// Tells scenarios of one name that say different things; empty in results of older versions.
    #[serde(default)]
    pub scenario_digest: String,
    /// Seconds over which the players were to come.
    #[serde(default)]
    pub ramp_s: f64,
    /// Seconds before the counted ones.
    pub warm_up_s: f64,
    /// Seconds that were to be counted.
    pub planned_s: f64,
    /// Variables of the scenario.
    pub vars: BTreeMap<String, String>,
    /// Its data files.
    #[serde(default)]
    pub data: Vec<DataSummary>,
    /// The generator's driver.
    pub driver: String,
    /// Processes that generated.
    #[serde(default)]
    pub processes: u16,
    /// Whether its thread, and the server that it started, ran before all ordinary threads.
    #[serde(default)]
    pub realtime: bool,
    /// What was asked for of TLS; none where no target begins with https://.
    #[serde(default)]
    pub tls: Option<TlsAsked>,
    /// The local address that was asked for.
    #[serde(default)]
    pub bind: Option<String>,
    /// The generator's processor.
    pub pin: Option<usize>,
    /// Of arrivals, think times and weights.
    pub seed: u64,
}

impl Settings {
    /// Whether operations of the loop begin when the last ones are answered.
    pub(crate) fn is_closed(&self) -> bool {
        self.saturate || self.is_free
    }

    /// The kind of loop, and its rate.
    pub(crate) fn loop_words(&self) -> String {
        match (self.is_closed(), self.rate) {
            (true, _) => "closed loop".to_owned(),
            (false, Some(rate)) => match self.rate_end {
                Some(end) => format!("open loop, rate {rate}/s to {end}/s"),
                None => format!("open loop, rate {rate}/s"),
            },
            (false, None) => "open loop".to_owned(),
        }
    }
}

/// A data file of the scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataSummary {
    /// What the scenario calls it.
    pub name: String,
    /// Its file's name, without folders.
    pub file: String,
    /// Its rows.
    pub rows: u32,
    /// Who got which: `player`, `turn`, `random`.
    pub pick: String,
    /// Whether players beyond the last row began with the first one again.
    pub wrap: bool,
}

impl DataSummary {
    pub(crate) fn of(data: &Data) -> Self {
        let file = std::path::Path::new(&data.file).file_name().unwrap_or_default();
        Self {
            name: data.name.clone(),
            file: file.to_string_lossy().into_owned(),
            rows: data.table.rows(),
            pick: data.pick.word().to_owned(),
            wrap: data.wrap,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpSummary {
    /// Name.
    pub name: String,
    /// Whether it counts in sums.
    pub counted: bool,
    /// Done outside the loop: its figures are of the whole run.
    pub setup: bool,
    /// Sent.
    pub started: u64,
    /// Answered well, within the counted time.
    pub done: u64,
    /// Answered badly or not.
    pub failed: u64,
    /// Refused in a way that the scenario expects, and tried again: part of `started`, and neither
    /// of `done` nor of `failed`.
    #[serde(default)]
    pub retried: u64,
    /// Intended and never sent.
    pub missed: u64,
    /// Unanswered at the end of the run.
    pub unanswered: u64,
    /// Answered a second.
    pub rate: f64,
    /// The highest rate of an interval of `INTERVAL_S`.
    pub rate_highest: f64,
    /// The highest mean service time of an interval.
    pub interval_mean_highest_ns: f64,
    /// The lowest.
    pub interval_mean_lowest_ns: f64,
    /// From sent to its end, whichever end it was: answered, failed, or the end of the run.
    pub service: Percentiles,
    /// From intended to its end, likewise, also of what was due and never sent; empty in the closed
    /// loop.
    pub response: Percentiles,
    /// Times of those alone that were answered well; empty in results of older versions.
    #[serde(default)]
    pub answered: EndingTimes,
    /// Times of those alone that failed.
    #[serde(default)]
    pub failures: EndingTimes,
    /// From intended to sent; empty in the closed loop.
    pub lateness: Percentiles,
    /// The whole distribution, for the percentile curve.
    pub curve: Vec<CurvePoint>,
}

/// Times of the operations that ended in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndingTimes {
    /// From sent to the end.
    pub service: Percentiles,
    /// From intended to the end; empty in the closed loop.
    pub response: Percentiles,
}

impl EndingTimes {
    fn of(record: &EndingRecord) -> Self {
        Self {
            service: Percentiles::of(record.service.histogram()),
            response: Percentiles::of(record.response.histogram()),
        }
    }
}

/// Match messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deliveries {
    /// Sent, to be echoed to the sender.
    pub echoes_sent: u64,
    /// Echoes received.
    pub echoes: u64,
    /// Sent to all members.
    pub broadcasts_sent: u64,
    /// Received of those, by all members.
    pub broadcasts: u64,
    /// Not received, by the numbers in the messages; over the whole run.
    pub lost: i64,
    /// Received again.
    pub doubled: u64,
    /// On their way to a player whose connection ended without its wish, from senders that it had
    /// heard of; over the whole run.
    #[serde(default)]
    pub cut_off: u64,
    /// Received after a later one.
    pub reordered: u64,
    /// Match messages that were not the run's.
    pub foreign: u64,
    /// From more senders than one receiver follows.
    pub untracked: u64,
}

/// One kind of error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorSummary {
    /// Operation, or `-`.
    pub op: String,
    /// What went wrong, for programs.
    #[serde(default)]
    pub cause: Cause,
    /// The same, for people.
    pub kind: String,
    /// How often, over the whole run.
    pub count: u64,
    /// The first one.
    pub example: String,
}

/// What was asked for of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsAsked {
    /// Whose certificates were taken.
    pub trust: String,
    /// Whether anybody's were: whoever is between the two may have answered.
    pub insecure: bool,
    /// Whether a player that connected again resumed its own session.
    pub resumes: bool,
}

/// Connections that were made. Their times are in no operation's service time, but in the response
/// time of those that had to connect first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// From the attempt to the connection of TCP.
    pub connect: Percentiles,
    /// Those of TLS; none where there were no handshakes.
    pub tls: Option<TlsSummary>,
}

/// Handshakes of TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsSummary {
    /// From the connection of TCP to the end of the handshake, full or resumed.
    pub handshake: Percentiles,
    /// Handshakes with a certificate.
    pub full: u64,
    /// Handshakes that resumed a session that the same player had before.
    pub resumed: u64,
    /// Version and cipher of the first one.
    pub protocol: String,
}

impl Connections {
    pub(crate) fn of(record: &ConnectingRecord) -> Self {
        let handshake = Percentiles::of(record.handshake.histogram());
        let tls = TlsSummary {
            handshake,
            full: record.full,
            resumed: record.resumed,
            protocol: record.protocol.clone(),
        };
        Self {
            connect: Percentiles::of(record.connect.histogram()),
            tls: (handshake.count > 0).then_some(tls),
        }
    }
}

/// Bytes, in the counted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// By the generator, to the server.
    pub sent_bytes: u64,
    /// From the server.
    pub received_bytes: u64,
    /// Highest rate of an interval, bits a second.
    pub sent_bits_highest: f64,
    /// Likewise.
    pub received_bits_highest: f64,
}

/// How a server that the run had started ended before the run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerEnd {
    /// Seconds after it listened.
    pub after_s: f64,
    /// `signal 9, SIGKILL`, `exit code 1`.
    pub how: String,
    /// What it printed last.
    pub last_lines: Vec<String>,
    /// Where all of its output stands; empty if it was not kept.
    pub log: String,
}

impl ServerEnd {
    /// Lines that are told.
    const LINES_MAX: usize = 16;

    pub(crate) fn of(ended: Ended) -> Self {
        let skipped = ended.last_lines.len().saturating_sub(Self::LINES_MAX);
        Self {
            after_s: ended.after.as_secs_f64(),
            how: ended.how,
            last_lines: ended.last_lines.into_iter().skip(skipped).collect(),
            log: ended.log.map(|it| it.display().to_string()).unwrap_or_default(),
        }
    }

    /// In one line.
    pub(crate) fn text(&self) -> String {
        format!("the server ended after {:.1} s ({})", self.after_s, one_line(&self.how))
    }

    /// What stands before its last lines.
    pub(crate) fn lines_head(&self) -> String {
        let kept = match &*self.log {
            "" => String::new(),
            path => format!(" (all of it: {path})"),
        };
        if self.last_lines.is_empty() {
            return format!("the server printed nothing{kept}");
        }
        format!("the server's last lines{kept}:")
    }
}

/// What the server process used in the counted time, or several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCost {
    /// Process id; the first of several, which all stand in `settings.server_pids`.
    pub pid: u32,
    /// Seconds of CPU in user mode.
    pub user_s: f64,
    /// Seconds of CPU in the kernel.
    pub system_s: f64,
    /// Seconds between the two samples.
    pub wall_s: f64,
    /// Operations that count, per second of its CPU.
    pub ops_per_cpu_s: f64,
    /// Resident memory before the first player came, in bytes.
    pub resident_before_bytes: u64,
    /// When all players had come.
    pub resident_ready_bytes: u64,
    /// At the beginning of the counted time.
    pub resident_start_bytes: u64,
    /// At its end.
    pub resident_end_bytes: u64,
    /// Threads at the beginning.
    pub threads_start: u32,
    /// Threads at the end.
    pub threads_end: u32,
    /// CPU seconds from the first player until all had come.
    pub ramp_cpu_s: f64,
}

/// What the generator used in the counted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorCost {
    /// Seconds of CPU.
    pub cpu_s: f64,
    /// Of one processor, 0 to 1 and more with several threads.
    pub cpu_share: f64,
    /// Processors that its processes could use at once; 0 where that is not known.
    #[serde(default)]
    pub processors: u32,
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// Growth of it per player; 0 with fewer than [`PLAYERS_MIN`], because what does not depend on
    /// them would prevail.
    pub bytes_per_player: u64,
    /// Longest turn of its loop: nothing is timed finer than this.
    pub turn_ns_max: u64,
    /// Seconds in turns of more than 1 ms.
    #[serde(default)]
    pub stalled_s: f64,
    /// How late it began operations by its own fault; the lateness of an operation also contains the
    /// server's.
    pub behind: Percentiles,
    /// The same while the players came; that is when operations outside the loop are done.
    #[serde(default)]
    pub ramp: RampCost,
}

/// What the generator used while the players came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RampCost {
    /// How long that took.
    pub seconds: f64,
    /// Of one processor.
    pub cpu_share: f64,
    /// Longest turn of its loop.
    pub turn_ns_max: u64,
    /// Seconds in turns of more than 1 ms.
    pub stalled_s: f64,
    /// How late it began operations by its own fault.
    pub behind: Percentiles,
}

/// A sum of counts, also of those that a file may hold.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl Summary {
    /// So many of those who asked, in the words of the command.
    pub(crate) fn actors(&self, count: u32) -> String {
        let word = match (&self.ping, &self.flow) {
            (Some(_), _) => "stream",
            (_, Some(_)) => "connection",
            (None, None) => return players(count),
        };
        count_of(u64::from(count), word)
    }

    /// The operation that the headline is about.
    #[must_use]
    pub fn headline_op(&self) -> Option<&OpSummary> {
        self.ops.iter().find(|op| op.name == self.headline)
    }

    /// Operations answered in the counted time that count: those of the loop, or, when there is
    /// none, all.
    #[must_use]
    pub fn done(&self) -> u64 {
        let counted = |setup: bool| {
            let ops = self.ops.iter().filter(move |op| op.counted && op.setup == setup);
            total(ops.map(|op| op.done))
        };
        if self.ops.iter().any(|op| op.counted && !op.setup) {
            counted(false)
        } else {
            counted(true)
        }
    }

    /// Operations that count, answered while the players came.
    fn done_in_ramp(&self) -> u64 {
        let is_ramp = |second: &&Second| second.stage == Stage::Ramp;
        let ops = self.series.iter().filter(is_ramp).flat_map(|it| it.ops.iter().zip(&self.ops));
        ops.filter(|(_, op)| op.counted).map(|(second, _)| second.done).sum()
    }

    /// Errors of the whole run.
    #[must_use]
    pub fn errors_count(&self) -> u64 {
        total(self.harmful_errors().map(|error| error.count))
    }

    /// Kinds of errors that count as such.
    pub(crate) fn harmful_errors(&self) -> impl Iterator<Item = &ErrorSummary> {
        self.errors.iter().filter(|error| !error.cause.is_harmless())
    }

    /// Adds what a whole run recorded: `total` of the counted time (setup operations of the whole
    /// run), and the seconds.
    pub(crate) fn add_totals(&mut self, total: &Record, ops: &[Op], headline: u16) {
        self.headline =
            ops.get(usize::from(headline)).map(|op| op.name.clone()).unwrap_or_default();
        self.ops =
            ops.iter().enumerate().map(|(index, op)| self.op_summary(index, op, total)).collect();
        let name = |op: u16| ops.get(usize::from(op)).map_or("-", |op| &op.name).to_owned();
        self.errors = total
            .errors
            .iter()
            .map(|((op, kind), error)| ErrorSummary {
                op: name(*op),
                cause: kind.cause,
                kind: kind.text.clone().into_owned(),
                count: error.count,
                example: error.example.clone(),
            })
            .collect();
        self.errors.sort_by(|a, b| b.count.cmp(&a.count).then(a.kind.cmp(&b.kind)));
        self.connections = Connections::of(&total.connecting);
        self.add_network();
        if let Some(zone) = &mut self.zone {
            let of_all = float(self.network.received_bytes) / self.counted_s.max(1e-9);
            zone.pilot_bytes_per_s = of_all / f64::from(self.settings.players.max(1));
        }
        self.judge();
    }

    fn op_summary(&self, index: usize, op: &Op, total: &Record) -> OpSummary {
        let record = &total.ops[index];
        let intervals = self.intervals(index, op.setup);
        let means = intervals.iter().filter(|it| it.done > 0 && it.mean_ns > 0.0);
        let means: Vec<f64> = means.map(|it| it.mean_ns).collect();
        let length_s = if op.setup {
            // Of all the time, also of what is left out of the intervals.
            let busy = self.series.iter().filter(|second| second.ops[index].done > 0);
            busy.map(|second| second.length_s).sum()
        } else {
            self.counted_s
        };
        // Answers after the counted time have their times recorded, but are not in the rate.
        let done = if op.setup {
            record.done
        } else {
            self.counted_seconds().map(|second| second.ops[index].done).sum()
        };
        OpSummary {
            name: op.name.clone(),
            counted: op.counted,
            setup: op.setup,
            started: record.started,
            done,
            failed: record.failed,
            retried: record.retried,
            missed: record.missed,
            unanswered: record.unanswered,
            rate: if length_s > 0.0 { float(done) / length_s } else { 0.0 },
            rate_highest: intervals.iter().map(Interval::rate).fold(0.0, f64::max),
            interval_mean_highest_ns: means.iter().copied().fold(0.0, f64::max),
            interval_mean_lowest_ns: means.iter().copied().reduce(f64::min).unwrap_or(0.0),
            service: Percentiles::of(record.service.histogram()),
            response: Percentiles::of(record.response.histogram()),
            lateness: Percentiles::of(record.lateness.histogram()),
            answered: EndingTimes::of(&record.answered()),
            failures: EndingTimes::of(&record.failures),
            curve: curve(record.service.histogram(), record.response.histogram()),
        }
    }

    fn counted_seconds(&self) -> impl Iterator<Item = &Second> {
        self.series.iter().filter(|second| second.stage == Stage::Counted)
    }

    /// Tsung's intervals of one operation. A last one that is shorter than half an interval is
    /// left out, unless it is the only one.
    fn intervals(&self, index: usize, setup: bool) -> Vec<Interval> {
        let seconds: Vec<&Second> = if setup {
            self.series.iter().filter(|it| it.ops[index].done > 0).collect()
        } else {
            self.counted_seconds().collect()
        };
        let mut intervals: Vec<Interval> = seconds
            .chunks(INTERVAL_S)
            .map(|chunk| {
                let ops = || chunk.iter().map(|second| &second.ops[index]);
                let done = ops().map(|op| op.done).sum();
                let sum: f64 = ops().map(|op| op.service_mean_ns * float(op.done)).sum();
                let length_s = chunk.iter().map(|second| second.length_s).sum();
                let mean_ns = if done > 0 { sum / float(done) } else { 0.0 };
                Interval { done, mean_ns, length_s }
            })
            .collect();
        if intervals.len() > 1 && intervals.last().is_some_and(|it| it.length_s < 5.0) {
            intervals.pop();
        }
        intervals
    }

    fn add_network(&mut self) {
        let seconds: Vec<&Second> = self.counted_seconds().collect();
        let highest = |bytes: fn(&Second) -> u64| {
            let rates = seconds.chunks(INTERVAL_S).map(|chunk| {
                let length_s: f64 = chunk.iter().map(|second| second.length_s).sum();
                let sum: u64 = chunk.iter().map(|second| bytes(second)).sum();
                if length_s > 0.5 { float(sum) * 8.0 / length_s } else { 0.0 }
            });
            rates.fold(0.0, f64::max)
        };
        self.network = Network {
            sent_bytes: seconds.iter().map(|second| second.sent_bytes).sum(),
            received_bytes: seconds.iter().map(|second| second.received_bytes).sum(),
            sent_bits_highest: highest(|second| second.sent_bytes),
            received_bits_highest: highest(|second| second.received_bytes),
        };
    }

    /// The server's cost, from samples before, at the start and at the end of the counted time.
    pub(crate) fn add_server(
        &mut self,
        pid: u32,
        [before, ready, start, end]: [ProcessSample; 4],
        wall_s: f64,
    ) {
        let sampled_s = end.cpu().saturating_sub(start.cpu()).as_secs_f64();
        // Samples are taken when this process gets to it, which may be late where the generator leaves it
        // little of a processor: what they are of is then not all of the counted time.
        let is_known = wall_s > 0.0 && self.counted_s > 0.0;
        let cpu_s = if is_known { sampled_s / wall_s * self.counted_s } else { sampled_s };
        let ramp_cpu_s = ready.cpu().saturating_sub(before.cpu()).as_secs_f64();
        // A scenario without a loop, of sockets that are held, is about coming in.
        let has_loop = self.ops.iter().any(|op| op.counted && !op.setup);
        let (done, busy_s) =
            if has_loop { (self.done(), cpu_s) } else { (self.done_in_ramp(), ramp_cpu_s) };
        self.server = Some(ServerCost {
            pid,
            user_s: end.user.saturating_sub(start.user).as_secs_f64(),
            system_s: end.system.saturating_sub(start.system).as_secs_f64(),
            wall_s,
            ops_per_cpu_s: if busy_s > 0.0 { float(done) / busy_s } else { 0.0 },
            resident_before_bytes: before.resident_bytes,
            resident_ready_bytes: ready.resident_bytes,
            resident_start_bytes: start.resident_bytes,
            resident_end_bytes: end.resident_bytes,
            threads_start: start.threads,
            threads_end: end.threads,
            ramp_cpu_s,
        });
        if let Some(zone) = self.zone.as_mut().filter(|_| cpu_s > 0.0) {
            zone.updates_per_cpu_s = Some(float(zone.updates) / cpu_s);
        }
    }
}

struct Interval {
    done: u64,
    mean_ns: f64,
    length_s: f64,
}

impl Interval {
    fn rate(&self) -> f64 {
        if self.length_s > 0.0 { float(self.done) / self.length_s } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{OpSummary, ProcessSample, Ramp, Second, Summary};
    use crate::load::record::{Record, Stage};
    use crate::load::result::{Lacking, SecondOp};
    use crate::load::scenario::program::Op;

    #[test]
    fn samples_that_come_late_make_nothing_cheaper() {
        let sample = |user_s| ProcessSample {
            user: Duration::from_secs(user_s),
            ..ProcessSample::default()
        };
        let zone = crate::load::result::ZoneSummary { updates: 1_000, ..Default::default() };
        let mut summary =
            Summary { counted_s: 10.0, zone: Some(Box::new(zone)), ..Summary::default() };
        // One CPU-second in the last two of ten.
        summary.add_server(1, [sample(0), sample(0), sample(4), sample(5)], 2.0);
        let per_cpu_s = summary.zone.and_then(|zone| zone.updates_per_cpu_s);
        assert!(per_cpu_s.is_some_and(|it| (it - 200.0).abs() < 1e-9), "{per_cpu_s:?}");
    }

    #[test]
    fn what_came_later_is_not_divided_by_the_cost_of_coming() {
        let second = |stage: Stage| Second {
            stage,
            ops: vec![SecondOp { done: 100, ..SecondOp::default() }],
            ..Second::default()
        };
        let op = OpSummary { counted: true, setup: true, done: 200, ..OpSummary::default() };
        let series = vec![second(Stage::Ramp), second(Stage::Counted)];
        let mut summary = Summary { ops: vec![op], series, ..Summary::default() };
        let at = |ms| ProcessSample { user: Duration::from_millis(ms), ..ProcessSample::default() };
        summary.add_server(1, [at(0), at(500), at(500), at(900)], 1.0);
        let per_s = summary.server.map(|it| it.ops_per_cpu_s);
        assert!(per_s.is_some_and(|it| (it - 200.0).abs() < 1e-9), "{per_s:?}");
    }

    #[test]
    fn what_a_server_says_cannot_move_the_cursor() {
        let lacking = Lacking { reason: "join: error 3: \u{1b}[2J".to_owned(), players: 7 };
        let ramp = Ramp { lacking: vec![lacking], ..Ramp::default() };
        let text = ramp.text(8).unwrap();
        assert!(text.ends_with("join: error 3: \\u{1b}[2J (7)"), "{text}");
    }

    #[test]
    fn the_rate_of_preparing_is_of_all_the_time_that_it_took() {
        // Twelve seconds: the last two are too short for an interval of their own.
        let second = Second {
            stage: Stage::Ramp,
            length_s: 1.0,
            ops: vec![SecondOp { done: 100, ..SecondOp::default() }],
            ..Second::default()
        };
        let mut summary = Summary { series: vec![second; 12], ..Summary::default() };
        let op = Op { name: "connect".to_owned(), counted: true, setup: true };
        let mut total = Record::new(Stage::Counted, 1, 0);
        total.ops[0].done = 1_200;
        summary.add_totals(&total, &[op], 0);
        assert!((summary.ops[0].rate - 100.0).abs() < 1e-9, "{}", summary.ops[0].rate);
    }
}
