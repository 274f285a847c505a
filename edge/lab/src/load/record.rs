//! What a generator records, and how it hands it over: once a second it swaps its recorder for a
//! fresh one and sends the full one to the main thread, which adds up, prints and writes files.
//! The thread that generates load formats nothing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kind::{Cause, Kind, OTHER};

use crate::measure::percentiles::Times;

pub(crate) mod kind;
pub(crate) mod limit;
pub(crate) mod tls;
pub(crate) mod zone;

/// Kinds of error that are told apart, at most; further ones are counted as `other`.
pub(crate) const ERROR_KINDS_MAX: usize = 128;
/// Bytes of an error's example, at most.
pub(crate) const EXAMPLE_BYTES_MAX: usize = 240;

/// Bytes of an error's kind, at most: servers may put a text into it.
pub(crate) const KIND_BYTES_MAX: usize = 160;

/// Where a run is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Stage {
    /// Players come and prepare.
    #[default]
    #[serde(rename = "players come")]
    Ramp,
    /// Load that does not count yet.
    #[serde(rename = "warm-up")]
    WarmUp,
    /// What counts.
    #[serde(rename = "counted")]
    Counted,
    /// No new operations; answers are awaited.
    #[serde(rename = "draining")]
    Drain,
    /// Over.
    #[serde(rename = "done")]
    Done,
}

impl Stage {
    /// As printed, and as it stands in results.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ramp => "players come",
            Self::WarmUp => "warm-up",
            Self::Counted => "counted",
            Self::Drain => "draining",
            Self::Done => "done",
        }
    }
}

/// Maps whose keys JSON cannot have, as lists of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K, V, S>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Serialize,
        V: Serialize,
        S: Serializer,
    {
        map.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}

/// One operation's numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OpRecord {
    /// Sent, answered or not.
    pub(crate) started: u64,
    /// Answered as it should be.
    pub(crate) done: u64,
    /// Answered otherwise, or not at all.
    pub(crate) failed: u64,
    /// Refused in a way that the scenario expects: tried again.
    pub(crate) retried: u64,
    /// Intended, but not sent before the counted time was over.
    pub(crate) missed: u64,
    /// Sent, and not answered when the run ended.
    pub(crate) unanswered: u64,
    /// From sent to its end, whichever end it was: answered, failed, or the end of the run.
    pub(crate) service: Times,
    /// From intended to its end; open loop only.
    pub(crate) response: Times,
    /// From intended to sent; open loop only.
    pub(crate) lateness: Times,
    /// Those of `service` and `response` that failed.
    pub(crate) failures: EndingRecord,
    /// Those of `service` and `response` that had not ended when the run or the counted time did:
    /// unanswered and missed ones.
    pub(crate) unended: EndingRecord,
}

/// Times of operations that ended in one way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EndingRecord {
    pub(crate) service: Times,
    pub(crate) response: Times,
}

impl EndingRecord {
    fn add(&mut self, other: &Self) {
        self.service.add(&other.service);
        self.response.add(&other.response);
    }
}

impl OpRecord {
    fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.done += other.done;
        self.failed += other.failed;
        self.retried += other.retried;
        self.missed += other.missed;
        self.unanswered += other.unanswered;
        self.service.add(&other.service);
        self.response.add(&other.response);
        self.lateness.add(&other.lateness);
        self.failures.add(&other.failures);
        self.unended.add(&other.unended);
    }

    /// Times of those that were answered: what is left of all.
    pub(crate) fn answered(&self) -> EndingRecord {
        let (bad, open) = (&self.failures, &self.unended);
        EndingRecord {
            service: self.service.without([&bad.service, &open.service]),
            response: self.response.without([&bad.response, &open.response]),
        }
    }
}

/// Match messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryRecord {
    /// Sent to the sender alone, and to all.
    pub(crate) sent: [u64; 2],
    /// Received, by audience, without doubled ones.
    pub(crate) received: [u64; 2],
    /// Skipped numbers that have not come since.
    pub(crate) lost: i64,
    /// On their way to players whose connection ended.
    pub(crate) cut_off: u64,
    pub(crate) doubled: u64,
    pub(crate) reordered: u64,
    /// Match messages that were not the run's, or could not be read.
    pub(crate) foreign: u64,
    /// From more senders than a receiver follows.
    pub(crate) untracked: u64,
}

impl DeliveryRecord {
    fn add(&mut self, other: &Self) {
        for audience in 0..2 {
            self.sent[audience] += other.sent[audience];
            self.received[audience] += other.received[audience];
        }
        self.lost += other.lost;
        self.cut_off += other.cut_off;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
        self.untracked += other.untracked;
    }
}

/// How often one kind of error happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// How often.
    pub count: u64,
    /// What was seen the first time, cut to `EXAMPLE_BYTES_MAX`.
    pub example: String,
}

/// How far the generator itself was in the way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OwnRecord {
    /// How late operations were begun by the generator's own fault: from the later of the intended
    /// time and the end of the player's operation before, to sent; without the time that connecting
    /// took, which is the server's.
    pub(crate) behind: Times,
    /// Longest turn of the loop: the coarseness of every time recorded.
    pub(crate) turn_ns_max: u64,
    /// All turns longer than [`TURN_NS_LONG`] together.
    pub(crate) stalled_ns: u64,
}

/// A turn of the loop that is longer than this is not short beside the times that are measured.
pub(crate) const TURN_NS_LONG: u64 = 1_000_000;

impl OwnRecord {
    /// Takes note of a turn of the loop.
    pub(crate) fn turn(&mut self, turn_ns: u64) {
        self.turn_ns_max = self.turn_ns_max.max(turn_ns);
        if turn_ns > TURN_NS_LONG {
            self.stalled_ns += turn_ns;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.behind.add(&other.behind);
        self.turn_ns_max = self.turn_ns_max.max(other.turn_ns_max);
        self.stalled_ns += other.stalled_ns;
    }
}

/// Connections that were made; what stands in no operation's service time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConnectingRecord {
    /// From the attempt to the connection of TCP.
    pub(crate) connect: Times,
    /// From there to the end of the handshake of TLS.
    pub(crate) handshake: Times,
    /// Handshakes with a certificate.
    pub(crate) full: u64,
    /// Handshakes that resumed a session of the same player.
    pub(crate) resumed: u64,
    /// Version and cipher of the first one, in the first stretch with one.
    pub(crate) protocol: String,
}

impl ConnectingRecord {
    fn add(&mut self, other: &Self) {
        self.connect.add(&other.connect);
        self.handshake.add(&other.handshake);
        self.full += other.full;
        self.resumed += other.resumed;
        if self.protocol.is_empty() {
            self.protocol.clone_from(&other.protocol);
        }
    }
}

/// Everything recorded in one stretch of time of one stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) stage: Stage,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) ops: Vec<OpRecord>,
    pub(crate) deliveries: DeliveryRecord,
    /// What pilots of the zone were told.
    pub(crate) zone: zone::ZoneRecord,
    /// What the generator itself did.
    pub(crate) own: OwnRecord,
    /// By operation (or `-`) and kind.
    #[serde(with = "pairs")]
    pub(crate) errors: BTreeMap<(u16, Kind), ErrorCount>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) frames_in: u64,
    pub(crate) connecting: ConnectingRecord,
    /// The most players that were present.
    pub(crate) players: u32,
    /// Players that have become ready until now.
    pub(crate) ready: u32,
    /// Why the others have not, with how many: told once, when they are no longer waited for.
    pub(crate) lacking: BTreeMap<String, u64>,
    /// At the end of the stretch: connections and sockets open.
    pub(crate) connections: u32,
    pub(crate) sockets: u32,
    /// Arrivals that did not happen because `players_max` was reached.
    pub(crate) turned_away: u64,
    /// The `Server` header of the first answer, in the first stretch with one.
    pub(crate) server: String,
    /// CPU time and memory of a worker process; 0 in the process that collects.
    pub(crate) cpu_ns: u64,
    pub(crate) resident_bytes: u64,
}

/// Errors that belong to no operation.
pub(crate) const NO_OP: u16 = u16::MAX;
/// The kind of the error that says that a scenario's `on_error = "stop"` has ended the run.
pub(crate) const STOPPED: Kind =
    Kind::of(Cause::Stopped, "the scenario stopped the run (on_error = \"stop\")");
/// All connections had ended, and none could be made.
pub(crate) const SERVER_GONE: Kind = Kind::of(
    Cause::ServerGone,
    "the server is gone: every connection had ended, and for 2 s none could be made",
);

/// Errors of these kinds, without those that are harmless.
pub(crate) fn count_errors(errors: &BTreeMap<(u16, Kind), ErrorCount>) -> u64 {
    let harmful = errors.iter().filter(|((_, kind), _)| !kind.cause.is_harmless());
    harmful.map(|(_, error)| error.count).sum()
}

impl Record {
    pub(crate) fn new(stage: Stage, ops_count: usize, from_ns: u64) -> Self {
        Self {
            stage,
            from_ns,
            until_ns: from_ns,
            ops: vec![OpRecord::default(); ops_count],
            deliveries: DeliveryRecord::default(),
            zone: zone::ZoneRecord::default(),
            own: OwnRecord::default(),
            errors: BTreeMap::new(),
            bytes_in: 0,
            bytes_out: 0,
            frames_in: 0,
            connecting: ConnectingRecord::default(),
            players: 0,
            ready: 0,
            lacking: BTreeMap::new(),
            connections: 0,
            sockets: 0,
            turned_away: 0,
            server: String::new(),
            cpu_ns: 0,
            resident_bytes: 0,
        }
    }

    pub(crate) fn op(&mut self, op: u16) -> Option<&mut OpRecord> {
        self.ops.get_mut(usize::from(op))
    }

    /// Counts an error and keeps the first of its kind as the example.
    pub(crate) fn error(&mut self, op: u16, kind: &Kind, example: impl FnOnce() -> String) {
        self.count_errors(op, kind, 1, example);
    }

    /// Counts several errors of one kind.
    pub(crate) fn count_errors(
        &mut self,
        op: u16,
        kind: &Kind,
        count: u64,
        example: impl FnOnce() -> String,
    ) {
        let key = (op, kind.clone());
        if let Some(known) = self.errors.get_mut(&key) {
            known.count += count;
            return;
        }
        let key = if self.errors.len() < ERROR_KINDS_MAX { key } else { (op, OTHER) };
        let entry = self.errors.entry(key).or_insert_with(|| {
            let mut example = without_tokens(&example());
            example.truncate(example.floor_char_boundary(EXAMPLE_BYTES_MAX));
            ErrorCount { count: 0, example }
        });
        entry.count += count;
    }

    /// Adds everything of a stretch but its operations. Deliveries and errors count over the whole
    /// run, the rest in the counted time.
    pub(crate) fn add_rest(&mut self, other: &Self, is_counted: bool) {
        self.deliveries.add(&other.deliveries);
        self.add_errors(other);
        if is_counted {
            self.bytes_in += other.bytes_in;
            self.bytes_out += other.bytes_out;
            self.frames_in += other.frames_in;
            self.own.add(&other.own);
            self.zone.add(&other.zone);
        }
        self.connecting.add(&other.connecting);
        self.turned_away += other.turned_away;
        self.until_ns = self.until_ns.max(other.until_ns);
    }

    /// Adds one operation of a stretch.
    pub(crate) fn add_op(&mut self, op: usize, other: &Self) {
        if let (Some(mine), Some(theirs)) = (self.ops.get_mut(op), other.ops.get(op)) {
            mine.add(theirs);
        }
    }

    /// Adds the same stretch of another worker.
    pub(crate) fn join(&mut self, other: &Self) {
        for op in 0..self.ops.len() {
            self.add_op(op, other);
        }
        self.from_ns = self.from_ns.min(other.from_ns);
        if self.server.is_empty() {
            self.server.clone_from(&other.server);
        }
        let zone = std::mem::take(&mut self.zone);
        self.add_rest(other, true);
        self.zone = zone;
        self.zone.join(&other.zone);
        self.players += other.players;
        self.ready += other.ready;
        for (reason, count) in &other.lacking {
            *self.lacking.entry(reason.clone()).or_default() += count;
        }
        self.connections += other.connections;
        self.sockets += other.sockets;
        self.cpu_ns += other.cpu_ns;
        self.resident_bytes += other.resident_bytes;
    }

    /// Adds only the errors.
    pub(crate) fn add_errors(&mut self, other: &Self) {
        for ((op, kind), theirs) in &other.errors {
            let is_full = self.errors.len() >= ERROR_KINDS_MAX;
            let key = (*op, kind.clone());
            let key = if is_full && !self.errors.contains_key(&key) { (NO_OP, OTHER) } else { key };
            let fresh = || ErrorCount { count: 0, example: theirs.example.clone() };
            self.errors.entry(key).or_insert_with(fresh).count += theirs.count;
        }
    }
}

/// An error's kind, cut to [`KIND_BYTES_MAX`].
pub(crate) fn short(kind: &str) -> &str {
    &kind[..kind.floor_char_boundary(KIND_BYTES_MAX)]
}

/// A server's words without the tokens of sessions in them (RFC 7519): results are passed on, and
/// tokens may be good for hours.
fn without_tokens(text: &str) -> String {
    // A JSON object in base64url begins so.
    const START: &str = "eyJ";
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(START) {
        let (before, token) = rest.split_at(start);
        let end = token.find(|c| !is_of_token(c)).unwrap_or(token.len());
        out.extend([before, START, if end > START.len() { "…" } else { "" }]);
        rest = &token[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::kind::{Cause, Kind};
    use super::{ERROR_KINDS_MAX, NO_OP, Record, Stage};

    #[test]
    fn what_servers_say_is_kept_short_and_without_tokens() {
        let mut record = Record::new(Stage::Counted, 1, 0);
        let kind = format!("error 3: {}", "é".repeat(1 << 20));
        let kind = Kind::new(Cause::Envelope, kind);
        record.error(0, &kind, || {
            "{\"token\":\"eyJhbGciOiJIUzI1NiJ9.eyJ0aWQiOiI\",\"a\":\"eyJ\"} eyJhb".to_owned()
        });
        record.error(0, &kind, String::new);
        let ((_, kind), error) = record.errors.first_key_value().unwrap();
        assert!(record.errors.len() == 1 && kind.text.len() <= 160, "{}", kind.text.len());
        assert_eq!(error.count, 2);
        assert_eq!(error.example, "{\"token\":\"eyJ…\",\"a\":\"eyJ\"} eyJ…");
    }

    #[test]
    fn errors_are_counted_also_when_there_are_too_many_kinds() {
        let mut record = Record::new(Stage::Counted, 1, 0);
        for kind in 0..1_000 {
            let number = Kind::new(Cause::Other, format!("kind {kind}"));
            record.error(0, &number, || "é".repeat(500));
            record.error(0, &Kind::of(Cause::Other, "kind 0"), String::new);
        }
        let mut sum = Record::new(Stage::Counted, 1, 0);
        sum.add_rest(&record, true);
        sum.add_rest(&record, false);
        assert_eq!(sum.errors.values().map(|it| it.count).sum::<u64>(), 4_000);
        assert!(sum.errors.len() <= ERROR_KINDS_MAX + 1);
        assert!(sum.errors.values().all(|it| it.example.len() <= 240));
        assert!(!sum.errors.contains_key(&(NO_OP, Kind::of(Cause::Other, "kind 0"))));
    }
}
