//! The figures that conditions are about: one table of names, units, what part of a run each is of,
//! and what it says. Names that are understood, `--help`, the table in docs/load.md and what mistakes
//! are told all follow from it, and each row computes its own figure.
//!
//! In: a name, a summary, or how a run goes. Out: a figure, or a page.

use std::fmt::Write as _;

use wire::nearest::did_you_mean;

use super::figures;
use super::progress::Progress;
use super::summary::{OpSummary, Summary};
use crate::load::record::{OpRecord, Record, count_errors};
use crate::measure::number::{bits, bytes_f64, float, group, group_f64, rate, time_f64};
use crate::measure::percentiles::{
    Percentiles, Times, VALUES_P75, VALUES_P90, VALUES_P95, VALUES_P99, VALUES_P999, VALUES_P9999,
};

/// What a figure is counted in, which says how its values are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Of 1.
    Share,
    /// Memory.
    Bytes,
    /// A second.
    Bits,
    /// Things, or things a second.
    Number,
}

impl Unit {
    /// How it is written.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Time => "a time: write 20ms, 1.5s or 300us",
            Self::Share => "a share: write 5 % or 0.05",
            Self::Bytes => "an amount of memory: write 500MB or 2GB",
            Self::Bits => "a rate in bits a second: write 900Mb or 9.5Gb",
            Self::Number => {
                "a number: write 700 or 16k; `error_share` is the share of an operation"
            }
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Share => "share",
            Self::Bytes => "memory",
            Self::Bits => "bit rate",
            Self::Number => "number",
        }
    }

    /// For people.
    pub(crate) fn write(self, value: f64) -> String {
        match self {
            Self::Time => time_f64(value),
            Self::Share => format!("{:.2} %", value * 100.0),
            Self::Bytes => bytes_f64(value),
            Self::Bits => bits(value),
            // Counts are whole, and some may be below nought.
            Self::Number if value.fract() == 0.0 && value >= 0.0 => group_f64(value),
            Self::Number => rate(value),
        }
    }
}

/// Which part of a run a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// The counted time; of what players do once, all of the run.
    Counted,
    /// The end of the counted time.
    End,
    /// All of the run.
    Run,
}

impl Span {
    fn word(self) -> &'static str {
        match self {
            Self::Counted => "counted time",
            Self::End => "end of the counted time",
            Self::Run => "whole run",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    unit: Unit,
    span: Span,
    doc: &'static str,
    value: Value,
}

/// Where a figure comes from; none where it was not measured.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// One operation. The second is what has come until now, of what only grows.
    Op(fn(&OpSummary) -> Option<f64>, Option<fn(&OpRecord) -> u64>),
    /// The run, likewise.
    Run(fn(&Summary) -> Option<f64>, Option<fn(&Progress<'_>) -> u64>),
}

const fn of_op(
    (name, unit, doc): (&'static str, Unit, &'static str),
    value: fn(&OpSummary) -> Option<f64>,
    so_far: Option<fn(&OpRecord) -> u64>,
) -> Row {
    Row { name, unit, span: Span::Counted, doc, value: Value::Op(value, so_far) }
}

const fn of_run(
    (name, unit, span, doc): (&'static str, Unit, Span, &'static str),
    value: fn(&Summary) -> Option<f64>,
    so_far: Option<fn(&Progress<'_>) -> u64>,
) -> Row {
    Row { name, unit, span, doc, value: Value::Run(value, so_far) }
}

/// Figures of an operation that are not times, and of the run.
const ROWS: &[Row] = &[
    of_op(("rate", Unit::Number, "answered well, a second"), |op| Some(op.rate), None),
    of_op(("started", Unit::Number, "sent"), |op| Some(float(op.started)), None),
    of_op(("done", Unit::Number, "answered well"), |op| Some(float(op.done)), None),
    of_op(
        ("failed", Unit::Number, "answered badly, or not in time"),
        |op| Some(float(op.failed)),
        Some(|op| op.failed),
    ),
    of_op(
        ("retried", Unit::Number, "refused as the scenario expects, and tried again"),
        |op| Some(float(op.retried)),
        Some(|op| op.retried),
    ),
    of_op(("missed", Unit::Number, "due, and never sent"), |op| Some(float(op.missed)), None),
    of_op(
        ("unanswered", Unit::Number, "without an answer when the run ended"),
        |op| Some(float(op.unanswered)),
        None,
    ),
    of_op(
        ("error_share", Unit::Share, "of all that was due, what was not answered well"),
        error_share,
        None,
    ),
    of_run(
        ("errors", Unit::Number, Span::Run, "of all operations, and of connections in use"),
        |run| Some(float(run.errors_count())),
        Some(|it| count_errors(it.errors)),
    ),
    of_run(
        ("lost", Unit::Number, Span::Run, "match messages that never came"),
        |run| run.deliveries.map(|it| signed(it.lost)),
        None,
    ),
    of_run(
        ("cut_off", Unit::Number, Span::Run, "match messages on their way when a connection ended"),
        |run| run.deliveries.map(|it| float(it.cut_off)),
        Some(|it| it.total.deliveries.cut_off),
    ),
    of_run(
        ("doubled", Unit::Number, Span::Run, "match messages that came twice"),
        |run| run.deliveries.map(|it| float(it.doubled)),
        Some(|it| it.total.deliveries.doubled),
    ),
    of_run(
        ("reordered", Unit::Number, Span::Run, "match messages that came after a later one"),
        |run| run.deliveries.map(|it| float(it.reordered)),
        Some(|it| it.total.deliveries.reordered),
    ),
    of_run(
        ("jitter", Unit::Time, Span::Counted, "of a ping's round trips, as RFC 3550 has it"),
        |run| run.ping.as_ref()?.ops.first().map(|it| it.jitter_ns),
        None,
    ),
    of_run(
        ("goodput", Unit::Bits, Span::Counted, "what a flow's receiver got, a second"),
        figures::goodput,
        None,
    ),
    of_run(
        ("sent_rate", Unit::Bits, Span::Counted, "what a flow's sender gave its kernel, a second"),
        figures::sent_rate,
        None,
    ),
    of_run(
        ("loss", Unit::Share, Span::Counted, "of a flow's datagrams, those that never came"),
        figures::loss,
        None,
    ),
    of_run(
        ("drops", Unit::Number, Span::Counted, "of them, dropped at the receiver's socket"),
        figures::drops,
        None,
    ),
    of_run(
        ("retransmits", Unit::Number, Span::Counted, "segments that a flow's TCP sent again"),
        figures::retransmits,
        None,
    ),
    of_run(
        ("rtt", Unit::Time, Span::End, "a flow's round trip by TCP; of several the mean"),
        figures::rtt,
        None,
    ),
    of_run(
        ("cpu_per_byte", Unit::Time, Span::Counted, "processor time of a flow's receiver"),
        figures::cpu_per_byte,
        None,
    ),
    of_run(
        ("cpu_per_datagram", Unit::Time, Span::Counted, "likewise, for each datagram"),
        figures::cpu_per_datagram,
        None,
    ),
    of_run(
        ("sender_cpu_per_byte", Unit::Time, Span::Counted, "processor time of a flow's sender"),
        figures::sender_cpu_per_byte,
        None,
    ),
    of_run(
        (
            "datagrams_per_cpu_s",
            Unit::Number,
            Span::Counted,
            "datagrams received per CPU-second of a flow's receiver",
        ),
        figures::datagrams_per_cpu_s,
        None,
    ),
    of_run(
        (
            "ops_per_cpu_s",
            Unit::Number,
            Span::Counted,
            "operations answered per CPU-second of the server; none of under 0.1 s",
        ),
        figures::ops_per_cpu_s,
        None,
    ),
    of_run(
        (
            "application_messages",
            Unit::Number,
            Span::Counted,
            "updates of a ship for a pilot of the zone, a second",
        ),
        |run| run.zone.as_ref().map(|it| it.updates_per_s),
        None,
    ),
    of_run(
        (
            "application_messages_per_cpu_s",
            Unit::Number,
            Span::Counted,
            "per CPU-second of the server",
        ),
        |run| run.zone.as_ref()?.updates_per_cpu_s,
        None,
    ),
    of_run(
        (
            "application_messages_per_core",
            Unit::Number,
            Span::Counted,
            "a second, for each core that it may run on",
        ),
        |run| run.zone.as_ref()?.updates_per_core(),
        None,
    ),
    of_run(
        (
            "by_datagram",
            Unit::Share,
            Span::Counted,
            "of the zone's snapshots, those that came by datagram",
        ),
        |run| run.zone.as_ref()?.datagram_share(),
        None,
    ),
    of_run(
        (
            "datagrams_lost",
            Unit::Share,
            Span::Counted,
            "of the zone's datagrams for pilots, those that did not come",
        ),
        |run| run.zone.as_ref()?.lost_share(),
        None,
    ),
    of_run(
        (
            "staleness_p99",
            Unit::Time,
            Span::Counted,
            "how old what a pilot of the zone knows of another's ship is",
        ),
        |run| run.zone.as_ref()?.staleness.p99().map(float),
        None,
    ),
    of_run(
        (
            "tick_late_p99",
            Unit::Time,
            Span::Counted,
            "how late the zone's ticks began: the end of a bucket",
        ),
        |run| run.zone.as_ref()?.server.as_ref()?.late.p99_us.map(|us| float(us) * 1e3),
        None,
    ),
    of_run(
        (
            "fullest_room",
            Unit::Time,
            Span::Counted,
            "what a tick's cells cost the room with most of them",
        ),
        |run| run.zone.as_ref()?.server.as_ref()?.fullest_room_ns(),
        None,
    ),
    of_run(
        ("hand_overs", Unit::Number, Span::Counted, "ships that changed cells of the zone"),
        |run| run.zone.as_ref()?.server.as_ref().map(|it| float(it.hand_overs)),
        None,
    ),
    of_run(
        ("unseen", Unit::Number, Span::Counted, "ships in sight that pilots had not been told of"),
        |run| run.zone.as_ref().map(|it| float(it.unseen)),
        None,
    ),
    of_run(
        ("server_cpu", Unit::Share, Span::Counted, "the server's share of one processor"),
        |run| run.server.map(|it| (it.user_s + it.system_s) / it.wall_s.max(1e-9)),
        None,
    ),
    of_run(
        ("server_memory", Unit::Bytes, Span::End, "resident memory of the server"),
        |run| run.server.map(|it| float(it.resident_end_bytes)),
        None,
    ),
    of_run(
        ("generator_cpu", Unit::Share, Span::Counted, "the generator's share of one processor"),
        |run| Some(run.generator.cpu_share),
        None,
    ),
    of_run(
        ("valid", Unit::Number, Span::Run, "1, or 0 where the figures must not be believed"),
        |run| Some(if run.invalid.is_empty() { 1.0 } else { 0.0 }),
        None,
    ),
];

fn error_share(op: &OpSummary) -> Option<f64> {
    let all = op.done + op.failed + op.missed + op.unanswered;
    // Of nothing there is no share: whoever asks for few errors wants answers.
    (all > 0).then(|| float(all - op.done) / float(all))
}

#[expect(clippy::cast_precision_loss, reason = "a count")]
fn signed(count: i64) -> f64 {
    count as f64
}

/// What a time of an operation lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// From sent to the end.
    Service,
    /// From intended to the end.
    Response,
    /// From intended to sent.
    Late,
}

impl Lasting {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Service, "service_", "from sent to the end"),
        (Self::Response, "response_", "from the intended start to the end; open loop"),
        (Self::Late, "late_", "from the intended start to sent; open loop"),
    ];
}

/// Whose times a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The longer of all's and of the answered ones': neither failures that take long nor quick ones
    /// make an operation look fast.
    Both,
    All,
    Answered,
    Failed,
}

impl Whose {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Both, "", "the longer one of all's and of the answered ones'"),
        (Self::All, "all_", "all, however they ended"),
        (Self::Answered, "answered_", "those that were answered well"),
        (Self::Failed, "failed_", "those that failed"),
    ];
}

/// A figure of a distribution.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    of: fn(&Percentiles) -> f64,
    /// The share of values that are longer, at most; none where nothing follows from that.
    longer: Option<f64>,
    /// Values of which it can be told, at least.
    values: u64,
}

const fn figure(
    name: &'static str,
    of: fn(&Percentiles) -> f64,
    longer: Option<f64>,
    values: u64,
) -> Figure {
    Figure { name, of, longer, values }
}

const FIGURES: &[Figure] = &[
    figure("mean", |it| it.mean_ns, None, 1),
    figure("min", |it| float(it.min_ns), None, 1),
    figure("p50", |it| float(it.p50_ns), Some(0.5), 1),
    figure("p75", |it| float(it.p75_ns), Some(0.25), VALUES_P75),
    figure("p90", |it| float(it.p90_ns), Some(0.1), VALUES_P90),
    figure("p95", |it| float(it.p95_ns), Some(0.05), VALUES_P95),
    figure("p99", |it| float(it.p99_ns), Some(0.01), VALUES_P99),
    figure("p999", |it| float(it.p999_ns), Some(0.001), VALUES_P999),
    figure("p9999", |it| float(it.p9999_ns), Some(0.000_1), VALUES_P9999),
    figure("max", |it| float(it.max_ns), Some(0.0), 1),
];

/// A time of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeMetric {
    pub(crate) whose: Whose,
    pub(crate) lasting: Lasting,
    pub(crate) figure: &'static Figure,
}

impl TimeMetric {
    fn of(self, op: &OpSummary) -> Option<f64> {
        if self.lacks_answers(op) {
            return None;
        }
        self.values(op).map(|(value, _)| value)
    }

    /// Whether it is to say how long answers take and there were none: how long failures take is no
    /// such time.
    fn lacks_answers(self, op: &OpSummary) -> bool {
        let is_of_answers = matches!(self.whose, Whose::Both | Whose::Answered);
        let is_answered = op.done > 0 || op.answered.service.count > 0;
        is_of_answers && self.lasting != Lasting::Late && !is_answered
    }

    /// That the figure is of fewer values than it takes to tell it, if it is: the slowest of ten by
    /// another name.
    fn too_few(self, op: &OpSummary) -> Option<String> {
        let (_, count) = self.values(op)?;
        let (least, name) = (self.figure.values, self.figure.name);
        (count < least).then(|| {
            format!(": too few values, {}, where {name} takes {}", group(count), group(least))
        })
    }

    /// The figure, and of how many values it is.
    fn values(self, op: &OpSummary) -> Option<(f64, u64)> {
        let value = |it: &Percentiles| (it.count > 0).then(|| ((self.figure.of)(it), it.count));
        let (all, answered, failed) = match self.lasting {
            Lasting::Service => (&op.service, &op.answered.service, &op.failures.service),
            Lasting::Response => (&op.response, &op.answered.response, &op.failures.response),
            Lasting::Late => return value(&op.lateness),
        };
        match self.whose {
            Whose::All => value(all),
            Whose::Answered => value(answered),
            Whose::Failed => value(failed),
            Whose::Both => match (value(all), value(answered)) {
                (Some(all), Some(answered)) if all.0 < answered.0 => Some(answered),
                (all, _) => all,
            },
        }
    }

    /// The times that have come so far, where more of them cannot make the figure better than their
    /// share of all allows, and the share of them that may be longer than a limit.
    pub(crate) fn so_far(self, op: &OpRecord) -> Option<(&Times, f64)> {
        let times = match (self.lasting, self.whose) {
            (Lasting::Service, Whose::Both | Whose::All) => &op.service,
            (Lasting::Response, Whose::Both | Whose::All) => &op.response,
            (Lasting::Service, Whose::Failed) => &op.failures.service,
            (Lasting::Response, Whose::Failed) => &op.failures.response,
            (Lasting::Late, _) | (_, Whose::Answered) => return None,
        };
        Some((times, self.figure.longer?))
    }
}

/// A figure that a condition is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Metric {
    /// A row of the table.
    Row(&'static Row),
    /// A time of an operation.
    Time(TimeMetric),
}

/// Why a name is none of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoMetric {
    /// There is none of this name; what may be meant.
    Unknown(String),
    /// It is of the run and not of an operation.
    OfRun,
}

impl Metric {
    /// The one with this name, of an operation or, unless `is_of_op`, of the run.
    pub(crate) fn parse(name: &str, is_of_op: bool) -> Result<Self, NoMetric> {
        if let Some(time) = time_metric(name) {
            return Ok(Self::Time(time));
        }
        match ROWS.iter().find(|row| row.name == name) {
            Some(Row { value: Value::Run(..), .. }) if is_of_op => Err(NoMetric::OfRun),
            Some(row) => Ok(Self::Row(row)),
            None if FIGURES.iter().any(|it| it.name == name) => {
                Err(NoMetric::Unknown(format!("; did you mean `response_{name}`?")))
            }
            None => {
                let names = names(is_of_op);
                Err(NoMetric::Unknown(did_you_mean(name, names.iter().map(String::as_str))))
            }
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Row(row) => row.unit,
            Self::Time(_) => Unit::Time,
        }
    }

    /// Whether it is of the run, and not of an operation.
    pub(crate) fn is_of_run(self) -> bool {
        matches!(self, Self::Row(Row { value: Value::Run(..), .. }))
    }

    /// The figure, of an operation if it is of one; none if it was not measured.
    pub(crate) fn of(self, summary: &Summary, op: Option<&OpSummary>) -> Option<f64> {
        match self {
            Self::Row(Row { value: Value::Run(value, _), .. }) => value(summary),
            Self::Row(Row { value: Value::Op(value, _), .. }) => value(op?),
            Self::Time(time) => time.of(op?),
        }
    }

    /// That a figure that was found is of too few values to hold anything against, if it is.
    pub(crate) fn too_few(self, op: Option<&OpSummary>) -> Option<String> {
        match (self, op) {
            (Self::Time(time), Some(op)) => time.too_few(op),
            (Self::Time(_), None) | (Self::Row(_), _) => None,
        }
    }

    /// Why a figure was not found; mostly nothing more than that.
    pub(crate) fn why_not(self, op: Option<&OpSummary>) -> &'static str {
        match (self, op) {
            (Self::Time(time), Some(op)) if time.lacks_answers(op) => ": nothing was answered",
            _ => "",
        }
    }

    /// What has come of a count that only grows.
    pub(crate) fn so_far(self, progress: &Progress<'_>, op: Option<usize>) -> Option<u64> {
        let total: &Record = progress.total;
        match self {
            Self::Row(Row { value: Value::Run(_, so_far), .. }) => Some((*so_far)?(progress)),
            Self::Row(Row { value: Value::Op(_, so_far), .. }) => {
                Some((*so_far)?(total.ops.get(op?)?))
            }
            Self::Time(_) => None,
        }
    }
}

fn time_metric(name: &str) -> Option<TimeMetric> {
    // The longest prefix counts, and the first is none.
    let mut all = Whose::ALL.iter().rev();
    let (whose, rest) =
        all.find_map(|(whose, prefix, _)| Some((*whose, name.strip_prefix(prefix)?)))?;
    let mut all = Lasting::ALL.iter();
    let (lasting, rest) =
        all.find_map(|(lasting, prefix, _)| Some((*lasting, rest.strip_prefix(prefix)?)))?;
    let is_late_of_some = lasting == Lasting::Late && whose != Whose::Both;
    // Commonly written so.
    let rest = match rest {
        "p99_9" | "p99.9" => "p999",
        "p99_99" | "p99.99" => "p9999",
        rest => rest,
    };
    let figure = FIGURES.iter().find(|it| it.name == rest).filter(|_| !is_late_of_some)?;
    Some(TimeMetric { whose, lasting, figure })
}

/// All names of an operation's metrics, and those of the run's unless it is about one.
fn names(is_of_op: bool) -> Vec<String> {
    let of_run = |row: &&Row| matches!(row.value, Value::Run(..));
    let rows = ROWS.iter().filter(|row| !(is_of_op && of_run(row)));
    let mut names: Vec<String> = rows.map(|row| row.name.to_owned()).collect();
    for (_, whose, _) in Whose::ALL {
        for (_, lasting, _) in Lasting::ALL {
            names.extend(FIGURES.iter().map(|it| format!("{whose}{lasting}{}", it.name)));
        }
    }
    names.retain(|name| ROWS.iter().any(|row| row.name == name) || time_metric(name).is_some());
    names
}

/// The names in a few lines, for whoever has mistaken one.
pub(crate) fn short_list() -> String {
    let rows = |is_run: bool| {
        let of = ROWS.iter().filter(|row| matches!(row.value, Value::Run(..)) == is_run);
        of.map(|row| row.name).collect::<Vec<_>>().join(", ")
    };
    let [service, response, late] = Lasting::ALL.map(|it| it.1);
    let [_, all, answered, failed] = Whose::ALL.map(|it| it.1);
    let figures: Vec<&str> = FIGURES.iter().map(|it| it.name).collect();
    format!(
        "of an operation {}, and {service}, {response} or {late} with {}, the first two also behind \
         {all}, {answered} or {failed}; of the run {}",
        rows(false),
        figures.join(", "),
        rows(true)
    )
}

/// The table as lines of a help text.
#[must_use]
pub fn help() -> String {
    let mut out = String::new();
    let heads = ["of an operation, OPERATION.METRIC, or of the headline's", "of the run"];
    for (head, is_run) in heads.into_iter().zip([false, true]) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {head}:");
        for row in ROWS.iter().filter(|row| matches!(row.value, Value::Run(..)) == is_run) {
            let span = match row.span {
                Span::Counted => String::new(),
                other => format!(", {}", other.word()),
            };
            let _ = writeln!(out, "    {:<15} {}{span}: {}", row.name, row.unit.word(), row.doc);
        }
        if !is_run {
            let figures: Vec<&str> = FIGURES.iter().map(|it| it.name).collect();
            for (_, name, doc) in Lasting::ALL {
                let _ = writeln!(out, "    {:<15} time: {doc}", format!("{name}…"));
            }
            let _ = writeln!(out, "      behind it {}", figures.join(", "));
            for (_, name, doc) in Whose::ALL.iter().filter(|it| it.0 != Whose::Both) {
                let _ = writeln!(out, "      before it {:<10} {doc}", *name);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::{
        FIGURES, Lasting, Metric, NoMetric, ROWS, Span, Unit, Value, Whose, help, names, short_list,
    };

    /// The table as it stands in docs/load.md.
    fn markdown() -> String {
        let mut out = String::from("| metric | unit | of | what it says |\n|---|---|---|---|\n");
        let mut row = |name: &str, unit: Unit, span: Span, doc: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "| {name} | {} | {} | {doc} |", unit.word(), span.word());
        };
        let op = |name: &str| format!("`[operation.]{name}`");
        for it in ROWS.iter().filter(|row| matches!(row.value, Value::Op(..))) {
            row(&op(it.name), it.unit, it.span, it.doc);
        }
        let figures: Vec<String> = FIGURES.iter().map(|it| format!("`{}`", it.name)).collect();
        for (_, name, doc) in Lasting::ALL {
            row(&op(&format!("{name}…")), Unit::Time, Span::Counted, doc);
        }
        for it in ROWS.iter().filter(|row| matches!(row.value, Value::Run(..))) {
            row(&format!("`{}`", it.name), it.unit, it.span, it.doc);
        }
        let _ = write!(
            out,
            "\nBehind a time stands one of {}; before it may stand ",
            figures.join(", ")
        );
        let whose = Whose::ALL.iter().filter(|it| it.0 != Whose::Both);
        let whose: Vec<String> = whose.map(|(_, name, doc)| format!("`{name}` ({doc})")).collect();
        let (_, _, both) = Whose::ALL[0];
        let _ = writeln!(out, "{}; without it, it is {both}.", whose.join(", "));
        out
    }

    #[test]
    fn every_name_is_understood_and_stands_on_every_page() {
        let all = names(false);
        assert_eq!(all.len(), names(true).len() + 31);
        for name in &all {
            assert!(Metric::parse(name, false).is_ok(), "{name}");
        }
        let parts = ROWS.iter().map(|row| row.name).chain(FIGURES.iter().map(|it| it.name));
        let parts = parts.chain(Whose::ALL.map(|it| it.1)).chain(Lasting::ALL.map(|it| it.1));
        let pages = [help(), markdown(), short_list()];
        assert!(pages[0].lines().all(|line| line.chars().count() <= 100), "{}", pages[0]);
        for part in parts {
            assert!(pages.iter().all(|page| page.contains(part)), "{part}");
        }
    }

    #[test]
    fn the_guide_has_the_table_as_it_is() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        assert!(guide.contains(&markdown()), "docs/load.md is to have this:\n{}", markdown());
    }

    #[test]
    fn near_names_are_offered() {
        let unknown = |name| match Metric::parse(name, true) {
            Err(NoMetric::Unknown(meant)) => meant,
            other => panic!("{name}: {other:?}"),
        };
        for (name, meant) in [
            ("respnse_p99", "; did you mean `response_p99`?"),
            ("response_p98", "; did you mean `response_p9"),
            ("answerd_service_max", "; did you mean `answered_service_max`?"),
            ("frobnicate", ""),
        ] {
            assert!(unknown(name).starts_with(meant), "{name}: {}", unknown(name));
        }
        assert!(matches!(Metric::parse("errors", true), Err(NoMetric::OfRun)));
    }
}
