//! The rows of a comparison: a figure of every run, joined to a median with its range.

use super::delta::{Delta, Figure, OfSecond, delta};
use super::{Column, Section, Summary};
use crate::load::result::figures::{self, interval_of};
use crate::load::result::{OpSummary, SecondOp, ServerCost, ZoneSummary};
use crate::measure::number::{bits, bytes_f64, float, group_f64, rate, seconds_text, time_f64};
use crate::measure::percentiles::Percentiles;
use crate::measure::spread::{Cell, Spread};

/// A figure of one run, if it has it.
pub(crate) type Value<'a> = dyn Fn(&Summary) -> Option<f64> + 'a;

/// Of one figure over a column's rounds; none if no round has it.
pub(crate) fn over(column: &Column<'_>, value: &Value<'_>) -> Option<Spread> {
    Spread::of(column.runs.iter().filter_map(|run| value(&run.summary)))
}

/// One row: without cells it is the head of a block.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) cells: Vec<Cell>,
    /// From the first column to the second, if that means anything.
    pub(crate) delta: Option<Delta>,
}

impl Row {
    /// How much higher or lower the second column is than the first, as printed.
    pub(crate) fn against(&self) -> String {
        self.delta.map(|it| it.text(["higher", "lower"])).unwrap_or_default()
    }
}

/// All rows of a section. Rows in which no run has a figure are left out.
pub(crate) fn rows(section: &Section<'_>) -> Vec<Row> {
    let mut table = Table { section, rows: Vec::new() };
    if section.is_flow() {
        table.flow();
        return table.rows;
    }
    for name in section.counted_ops() {
        table.head(name);
        table.operation(name);
    }
    if section.columns.iter().flat_map(|it| &it.runs).any(|run| run.summary.zone.is_some()) {
        table.zone();
    }
    table.head("network and server");
    table.network();
    table.server();
    table.sums("errors, whole run", group_f64, &figures::errors);
    table.rows
}

struct Table<'a> {
    section: &'a Section<'a>,
    rows: Vec<Row>,
}

/// How an operation's figure is found.
type OpValue = fn(&OpSummary) -> f64;
/// Likewise one of its distributions of times.
type OpTimes = fn(&OpSummary) -> &Percentiles;

impl Table<'_> {
    fn head(&mut self, name: &str) {
        self.rows.push(Row { name: name.to_owned(), cells: Vec::new(), delta: None });
    }

    fn row(&mut self, name: &str, write: fn(f64) -> String, value: &Value<'_>) {
        self.figure(name, write, &Figure { value, of_second: None });
    }

    fn figure(&mut self, name: &str, write: fn(f64) -> String, figure: &Figure<'_>) {
        let value = figure.value;
        let columns = &self.section.columns;
        let spreads: Vec<Option<Spread>> =
            columns.iter().map(|column| over(column, value)).collect();
        if spreads.iter().all(Option::is_none) {
            return;
        }
        let cells = columns.iter().zip(&spreads).map(|(column, spread)| {
            let Some(spread) = spread else {
                return Cell { text: "–".to_owned(), range: String::new() };
            };
            let mut cell = spread.cell(write);
            if spread.count < column.runs.len() {
                let runs = format!("{} of {} runs", spread.count, column.runs.len());
                let and = if cell.range.is_empty() { "" } else { ", " };
                cell.range = format!("{}{and}{runs}", cell.range);
            }
            cell
        });
        let cells = cells.collect();
        let delta = match &**columns {
            [first, second]
                if self.section.factor_name().is_some() && columns.iter().all(Column::is_valid) =>
            {
                delta(first, second, figure)
            }
            _ => None,
        };
        self.rows.push(Row { name: name.to_owned(), cells, delta });
    }

    /// A row of sums over the counted time, or the whole run: of another length, they are unlike.
    fn sums(&mut self, name: &str, write: fn(f64) -> String, value: &Value<'_>) {
        let count = self.rows.len();
        self.row(name, write, value);
        let is_like = match &*self.section.columns {
            [first, second] => first.counts_as_long(second),
            _ => false,
        };
        for row in self.rows.iter_mut().skip(count).filter(|_| !is_like) {
            row.delta = None;
        }
    }

    /// The interval of the means of an operation: Tsung's, unless runs were shorter; where they were
    /// not as short as each other, from the shortest to the longest.
    fn interval(&self, name: &str) -> String {
        let runs = self.section.columns.iter().flat_map(|column| &column.runs);
        let has_op = |it: &&Summary| it.ops.iter().any(|op| op.name == name);
        let mut lengths: Vec<f64> =
            runs.map(|run| &run.summary).filter(has_op).map(|it| interval_of(it, name)).collect();
        lengths.sort_by(f64::total_cmp);
        let [shortest, longest] =
            [lengths.first(), lengths.last()].map(|it| seconds_text(it.copied().unwrap_or(10.0)));
        if shortest == longest { longest } else { format!("{shortest} to {longest}") }
    }

    /// An operation: what its section's kind of loop is for comes first.
    fn operation(&mut self, name: &str) {
        let of = |value: OpValue| {
            move |it: &Summary| it.ops.iter().find(|op| op.name == name).map(value)
        };
        if self.section.is_closed {
            self.rates_and_means(name);
            self.times(name);
        } else {
            self.times(name);
            self.rates_and_means(name);
        }
        let bad: [(&str, OpValue); 4] = [
            ("failed", |op| float(op.failed)),
            ("tried again", |op| float(op.retried)),
            ("not sent in time", |op| float(op.missed)),
            ("unanswered at the end", |op| float(op.unanswered)),
        ];
        let runs = || self.section.columns.iter().flat_map(|column| &column.runs);
        for (row, value) in bad {
            if runs().any(|run| of(value)(&run.summary).is_some_and(|count| count > 0.0)) {
                self.sums(row, group_f64, &of(value));
            }
        }
    }

    fn rates_and_means(&mut self, name: &str) {
        let of = |value: OpValue| {
            move |it: &Summary| it.ops.iter().find(|op| op.name == name).map(value)
        };
        let per_s = |value: f64| format!("{}/s", rate(value));
        let answered = |value: OpValue| {
            move |it: &Summary| {
                it.ops.iter().find(|op| op.name == name && op.service.count > 0).map(value)
            }
        };
        let interval = self.interval(name);
        let [highest, lowest] =
            ["highest", "lowest"].map(|it| format!("{it} {interval} mean service time"));
        self.row(&highest, time_f64, &answered(|op| op.interval_mean_highest_ns));
        self.row(&lowest, time_f64, &answered(|op| op.interval_mean_lowest_ns));
        self.row("highest rate", per_s, &of(|op| op.rate_highest));
        let rate_of = of_second(name, |op, length_s| Some(float(op.done) / length_s));
        let figure = Figure { value: &of(|op| op.rate), of_second: Some(&rate_of) };
        self.figure("mean rate", per_s, &figure);
        let mean_of = of_second(name, |op, _| (op.done > 0).then_some(op.service_mean_ns));
        let value = &answered(|op| op.service.mean_ns);
        let figure = Figure { value, of_second: Some(&mean_of) };
        self.figure("mean service time", time_f64, &figure);
        self.sums("count", group_f64, &of(|op| float(op.done)));
    }

    /// Percentiles that every run has enough values for, from the intended start first: that is
    /// what users feel.
    fn times(&mut self, name: &str) {
        const NAMES: [(usize, &str); 5] =
            [(0, "p50"), (2, "p90"), (3, "p95"), (4, "p99"), (5, "p99.9")];
        let kinds: [(&str, OpTimes); 2] =
            [("from the intended start", |op| &op.response), ("service time", |op| &op.service)];
        let of = |it: &Summary, times: OpTimes| {
            it.ops.iter().find(|op| op.name == name).map(times).copied()
        };
        // A second has the times that its kind of loop is about.
        let told = kinds[usize::from(self.section.is_closed)].0;
        for (kind, times) in kinds {
            for (place, percentile) in NAMES {
                let value = |it: &Summary| of(it, times)?.told()[place].map(float);
                let ns: fn(&SecondOp, f64) -> Option<f64> = match place {
                    0 => |op, _| (op.max_ns > 0).then(|| float(op.p50_ns)),
                    2 => |op, _| (op.p90_ns > 0).then(|| float(op.p90_ns)),
                    3 => |op, _| (op.p95_ns > 0).then(|| float(op.p95_ns)),
                    4 => |op, _| (op.done >= 100).then(|| float(op.p99_ns)),
                    _ => |_, _| None,
                };
                let ns = of_second(name, ns);
                let has_seconds = kind == told;
                let of_second: Option<&OfSecond<'_>> = if has_seconds { Some(&ns) } else { None };
                let figure = Figure { value: &value, of_second };
                self.figure(&format!("{kind} {percentile}"), time_f64, &figure);
            }
            self.row(&format!("{kind}, slowest"), time_f64, &|it| {
                of(it, times).filter(|it| it.count > 0).map(|it| float(it.max_ns))
            });
        }
    }

    /// What a path carries and what that costs.
    fn flow(&mut self) {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let per_s = |value: f64| format!("{}/s", rate(value));
        self.head("carried");
        let of_second = received_bits;
        let figure = Figure { value: &figures::goodput, of_second: Some(&of_second) };
        self.figure("goodput", bits, &figure);
        self.row("sent", bits, &figures::sent_rate);
        self.row("datagrams received", per_s, &figures::datagrams_per_s);
        self.head("cost");
        self.row("receiver: CPU a byte", time_f64, &figures::cpu_per_byte);
        self.row("receiver: CPU a datagram", time_f64, &figures::cpu_per_datagram);
        self.row("receiver: datagrams a CPU-second", group_f64, &figures::datagrams_per_cpu_s);
        self.row("sender: CPU a byte", time_f64, &figures::sender_cpu_per_byte);
        let softirq = |it: &Summary| {
            let machine = figures::counted_flow(it)?.receiver.machine?;
            Some(machine.softirq_s / figures::counted_flow(it)?.receiver.counted_s)
        };
        let interrupts = |it: &Summary| {
            let end = figures::counted_flow(it)?.receiver;
            Some(float(end.machine?.device_interrupts) / end.counted_s)
        };
        self.row("receiver's machine: processors in softirq", rate, &softirq);
        self.row("receiver's machine: interrupts of devices", per_s, &interrupts);
        self.head("path");
        self.row("lost", percent, &figures::loss);
        self.sums("dropped at the socket", group_f64, &figures::drops);
        self.sums("reordered", group_f64, &figures::reordered);
        self.sums("segments sent again", group_f64, &figures::retransmits);
        self.row("round trip by TCP", time_f64, &figures::rtt);
    }

    /// What pilots of the zone were told, and how its partition did.
    fn zone(&mut self) {
        let per_s = |value: f64| format!("{}/s", group_f64(value));
        let millimetres = |value: f64| format!("{} mm", group_f64(value));
        self.head("zone");
        self.row("application messages", per_s, &zone(|it| Some(it.updates_per_s)));
        self.row(
            "application messages per CPU-second of the server",
            group_f64,
            &zone(|it| it.updates_per_cpu_s),
        );
        self.row("staleness p99", time_f64, &zone(|it| it.staleness.p99().map(float)));
        self.row("view error p99", millimetres, &zone(|it| Some(float(it.view_error.p99_mm))));
        let fullest = zone(|it| it.server.as_ref()?.fullest_room_ns());
        self.row("cells of the fullest room, a tick", time_f64, &fullest);
        let hand_overs = zone(|it| it.server.as_ref().map(|it| float(it.hand_overs)));
        self.row("hand-overs", group_f64, &hand_overs);
    }

    fn network(&mut self) {
        self.row("sent, highest rate", bits, &|it| Some(it.network.sent_bits_highest));
        self.sums("sent", bytes_f64, &|it| Some(float(it.network.sent_bytes)));
        self.row("received, highest rate", bits, &|it| Some(it.network.received_bits_highest));
        self.sums("received", bytes_f64, &|it| Some(float(it.network.received_bytes)));
    }

    fn server(&mut self) {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        self.row("operations per CPU-second of the server", group_f64, &figures::ops_per_cpu_s);
        self.row(
            "server's processor, of one",
            percent,
            &server(|it| {
                Some((it.user_s + it.system_s) / it.wall_s).filter(|share| share.is_finite())
            }),
        );
        self.row("server's memory at the end", bytes_f64, &figures::memory);
        self.row("server's memory for each player", bytes_f64, &figures::memory_of_player);
    }
}

/// What was received in a second of a flow; none where nothing was.
pub(super) fn received_bits(_: &Summary, second: &super::Second) -> Option<f64> {
    let bits = 8.0 * float(second.received_bytes) / second.length_s;
    (bits > 0.0 && bits.is_finite()).then_some(bits)
}

/// A figure of an operation in each second.
pub(super) fn of_second<'a>(
    name: &'a str,
    value: impl Fn(&SecondOp, f64) -> Option<f64> + 'a,
) -> impl Fn(&Summary, &super::Second) -> Option<f64> + 'a {
    move |it, second| {
        let at = it.ops.iter().position(|op| op.name == name)?;
        value(second.ops.get(at)?, second.length_s)
    }
}

fn server(value: fn(&ServerCost) -> Option<f64>) -> impl Fn(&Summary) -> Option<f64> {
    move |it| it.server.as_ref().and_then(value)
}

fn zone(value: fn(&ZoneSummary) -> Option<f64>) -> impl Fn(&Summary) -> Option<f64> {
    move |it| it.zone.as_deref().and_then(value)
}
