//! Conditions on a result, for scripts and CI: `rpc.response_p99 < 20ms`, `errors == 0`.
//!
//! In: the text of a condition and a summary. Out: whether it holds and what was found, which then
//! stands in the result itself. A condition on something that was not measured fails. A time is of
//! all operations, however they ended, and of those that were answered alone: the longer one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::result::{OpSummary, Progress, Summary};
use crate::load::scenario::Scenario;
use crate::measure::number::{float, group_f64};
use crate::measure::percentiles::Percentiles;

/// Seconds that must have been counted before a percentile is given up.
const LOST_S_MIN: f64 = 1.0;

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As written.
    pub text: String,
    op: Option<String>,
    metric: String,
    compare: Compare,
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCondition {
    /// Not of the form `metric < value`.
    #[error("`{0}` is not a condition: write [operation.]metric < value, with < <= > >= == or !=")]
    Form(String),
    /// Not a number with a unit that is known.
    #[error("`{0}` is not a value: write 20ms, 1.5s, 300us, 5 % or a number")]
    Value(String),
    /// A unit that the metric has not, or none where it has one.
    #[error("`{value}` cannot be compared with {metric}, which is {kind}")]
    Unit {
        /// As written.
        value: String,
        /// As written.
        metric: String,
        /// What the metric is, and how its values are written.
        kind: &'static str,
    },
    /// No such metric.
    #[error(
        "there is no metric `{metric}`: of an operation {OP_METRICS}; of the run {RUN_METRICS}"
    )]
    Metric {
        /// As written.
        metric: String,
    },
}

const OP_METRICS: &str = "rate, started, done, failed, retried, missed, \
                          unanswered, error_share, and service_, response_ or late_ with mean, min, \
                          p50, p75, p90, p95, p99, p999 or max, the first two also behind \
                          answered_, failed_ or all_";
const RUN_METRICS: &str = "errors, lost, cut_off, doubled, reordered, ops_per_cpu_s, server_cpu, \
                           server_memory, generator_cpu, valid";

/// What became of a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The condition as written.
    pub condition: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was found, for people.
    pub found: String,
}

impl std::str::FromStr for Condition {
    type Err = BadCondition;

    fn from_str(text: &str) -> Result<Self, BadCondition> {
        let form = || BadCondition::Form(text.to_owned());
        let start = text.find(['<', '>', '=', '!']).ok_or_else(form)?;
        let (left, right) = text.split_at(start);
        let end = right.find(|c| !"<>=!".contains(c)).ok_or_else(form)?;
        let (sign, value) = right.split_at(end);
        let compare = match sign {
            "<" => Compare::Less,
            "<=" => Compare::LessOrEqual,
            ">" => Compare::Greater,
            ">=" => Compare::GreaterOrEqual,
            "==" | "=" => Compare::Equal,
            "!=" => Compare::NotEqual,
            _ => return Err(form()),
        };
        let (op, metric) = match left.trim().rsplit_once('.') {
            Some((op, metric)) => (Some(op.to_owned()), metric.to_owned()),
            None => (None, left.trim().to_owned()),
        };
        let value = value.trim();
        let (limit, unit) = value_of(value).ok_or_else(|| BadCondition::Value(value.to_owned()))?;
        let condition = Self { text: text.trim().to_owned(), op, metric, compare, limit };
        // Known metrics are known of an empty result too.
        let known_op = op_metric(&OpSummary::default(), &condition.metric).is_some();
        let known_run = run_metric(&Summary::default(), &condition.metric).is_some();
        if !(known_op || (condition.op.is_none() && known_run)) {
            return Err(BadCondition::Metric { metric: condition.metric });
        }
        let kind = Kind::of(&condition.metric);
        // Nothing is nothing in every unit.
        let is_nothing = limit == 0.0 && unit == Unit::None;
        if !(kind.takes(unit) || is_nothing) {
            let (metric, kind) = (condition.metric, kind.words());
            return Err(BadCondition::Unit { value: value.to_owned(), metric, kind });
        }
        Ok(condition)
    }
}

/// What stands behind a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    Thousands,
    Time,
    Share,
    Bytes,
}

/// What a metric is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Share,
    Bytes,
    Number,
}

impl Kind {
    fn of(metric: &str) -> Self {
        let (_, name) = Whose::of(metric);
        let is_time = ["service_", "response_", "late_"].iter().any(|it| name.starts_with(it));
        match metric {
            _ if is_time => Self::Time,
            "error_share" | "server_cpu" | "generator_cpu" => Self::Share,
            "server_memory" => Self::Bytes,
            _ => Self::Number,
        }
    }

    fn takes(self, unit: Unit) -> bool {
        match self {
            Self::Time => unit == Unit::Time,
            Self::Share => matches!(unit, Unit::Share | Unit::None),
            Self::Bytes => matches!(unit, Unit::Bytes | Unit::Thousands | Unit::None),
            Self::Number => matches!(unit, Unit::Thousands | Unit::None),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Time => "a time: write 20ms, 1.5s or 300us",
            Self::Share => "a share: write 5 % or 0.05",
            Self::Bytes => "an amount of memory: write 500MB or 2GB",
            Self::Number => {
                "a number: write 700 or 16k; `error_share` is the share of an operation"
            }
        }
    }
}

/// Times in nanoseconds, shares of 1, everything else as it is.
fn value_of(text: &str) -> Option<(f64, Unit)> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic() || c == '%' || c == ' ');
    let number: f64 = digits.parse().ok()?;
    let (factor, unit) = match text[digits.len()..].trim() {
        "" => (1.0, Unit::None),
        "ns" => (1.0, Unit::Time),
        "us" | "µs" => (1e3, Unit::Time),
        "ms" => (1e6, Unit::Time),
        "s" => (1e9, Unit::Time),
        "%" => (0.01, Unit::Share),
        "k" => (1e3, Unit::Thousands),
        "M" => (1e6, Unit::Thousands),
        "KB" => (1e3, Unit::Bytes),
        "MB" => (1e6, Unit::Bytes),
        "GB" => (1e9, Unit::Bytes),
        _ => return None,
    };
    number.is_finite().then_some((number * factor, unit))
}

impl Condition {
    /// Whether the scenario has the operation that this is about, if it names one.
    #[must_use]
    pub fn fits(&self, scenario: &Scenario) -> bool {
        let Some(name) = self.op.as_deref() else { return true };
        scenario.sessions.iter().any(|session| {
            let mut steps = session.first.iter().chain(&session.repeated).chain(&session.last);
            steps.any(|step| step.op.as_deref() == Some(name))
                || (name == "ping" && session.ping_every.is_some())
        })
    }

    /// Compares.
    #[must_use]
    pub fn check(&self, summary: &Summary) -> Verdict {
        let (found, place) = match (&self.op, run_metric(summary, &self.metric)) {
            (Some(name), _) => {
                (self.of_op(summary.ops.iter().find(|op| op.name == *name)), name.as_str())
            }
            (None, Some(found)) => (found, ""),
            (None, None) => (self.of_op(summary.headline_op()), summary.headline.as_str()),
        };
        let holds = found.is_some_and(|found| self.holds(found));
        let place = if place.is_empty() { String::new() } else { format!("{place}.") };
        let found = match found {
            Some(found) => format!("{place}{} is {}", self.metric, self.write(found)),
            None => format!("{place}{} was not measured", self.metric),
        };
        Verdict { condition: self.text.clone(), holds, found }
    }

    /// Whether it cannot hold any more, whatever comes: of counts that only grow and are to stay
    /// small, and of percentiles of which too many values are too long already, as long as the rate
    /// stays what it is. `false` where that cannot be told yet.
    #[must_use]
    pub fn is_lost(&self, progress: &Progress<'_>) -> bool {
        let (Compare::Less | Compare::LessOrEqual | Compare::Equal) = self.compare else {
            return false;
        };
        let is_time = self.compare != Compare::Equal && Kind::of(&self.metric) == Kind::Time;
        if is_time {
            return self.is_time_lost(progress);
        }
        let op = self.op.as_deref().map_or(progress.headline(), |name| progress.op(name));
        let op = op.and_then(|op| progress.total.ops.get(op));
        let deliveries = &progress.total.deliveries;
        let count = match (&*self.metric, op) {
            ("errors", _) => Some(progress.errors.values().map(|it| it.count).sum()),
            ("doubled", _) => Some(deliveries.doubled),
            ("reordered", _) => Some(deliveries.reordered),
            ("cut_off", _) => Some(deliveries.cut_off),
            ("failed", Some(op)) => Some(op.failed),
            ("retried", Some(op)) => Some(op.retried),
            _ => None,
        };
        count.is_some_and(|count| match self.compare {
            Compare::Less => float(count) >= self.limit,
            _ => float(count) > self.limit,
        })
    }

    fn is_time_lost(&self, progress: &Progress<'_>) -> bool {
        let (whose, name) = Whose::of(&self.metric);
        let op = self.op.as_deref().map_or(progress.headline(), |name| progress.op(name));
        let Some(op) = op.and_then(|op| progress.total.ops.get(op)) else { return false };
        let Some((kind, figure)) = name.split_once('_') else { return false };
        let times = match (kind, whose) {
            ("service", Whose::Both | Whose::All) => &op.service,
            ("response", Whose::Both | Whose::All) => &op.response,
            ("service", Whose::Failed) => &op.failures.service,
            ("response", Whose::Failed) => &op.failures.response,
            _ => return false,
        };
        let Some(histogram) = times.histogram() else { return false };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ns")]
        let limit_ns = self.limit as u64;
        let slow = histogram.count_between(limit_ns.saturating_add(1), u64::MAX);
        let share = match figure {
            "max" => return slow > 0 && histogram.max() > limit_ns,
            "p50" => 0.5,
            "p75" => 0.25,
            "p90" => 0.1,
            "p95" => 0.05,
            "p99" => 0.01,
            "p999" | "p99_9" => 0.001,
            _ => return false,
        };
        let (counted_s, planned_s) = (progress.counted_s(), progress.summary.settings.planned_s);
        // Half as many again, because arrivals are random.
        let most = 1.5 * float(histogram.len()) * planned_s / counted_s.max(0.1);
        counted_s >= LOST_S_MIN && float(slow) > share * most + 1.0
    }

    fn of_op(&self, op: Option<&OpSummary>) -> Option<f64> {
        op_metric(op?, &self.metric).flatten()
    }

    #[expect(clippy::float_cmp, reason = "asked for: counts are whole numbers")]
    fn holds(&self, found: f64) -> bool {
        match self.compare {
            Compare::Less => found < self.limit,
            Compare::LessOrEqual => found <= self.limit,
            Compare::Greater => found > self.limit,
            Compare::GreaterOrEqual => found >= self.limit,
            Compare::Equal => found == self.limit,
            Compare::NotEqual => found != self.limit,
        }
    }

    fn write(&self, value: f64) -> String {
        match Kind::of(&self.metric) {
            Kind::Time => crate::measure::number::time_f64(value),
            Kind::Share => format!("{:.2} %", value * 100.0),
            Kind::Bytes => crate::measure::number::bytes_f64(value),
            // Counts are whole, and some may be below nought.
            Kind::Number if value.fract() == 0.0 && value >= 0.0 => group_f64(value),
            Kind::Number => crate::measure::number::rate(value),
        }
    }
}

/// Whose times a metric is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The longer of all's and of the answered ones': neither failures that take long nor quick ones
    /// make an operation look fast.
    Both,
    All,
    Answered,
    Failed,
}

impl Whose {
    /// Of a metric's name, and the rest of it.
    fn of(metric: &str) -> (Self, &str) {
        for (whose, prefix) in
            [(Self::All, "all_"), (Self::Answered, "answered_"), (Self::Failed, "failed_")]
        {
            if let Some(rest) = metric.strip_prefix(prefix) {
                return (whose, rest);
            }
        }
        (Self::Both, metric)
    }
}

/// `None` for a metric that there is not, `Some(None)` for one that was not measured.
fn op_metric(op: &OpSummary, metric: &str) -> Option<Option<f64>> {
    let (whose, name) = Whose::of(metric);
    for (prefix, all, answered, failed) in [
        ("service_", &op.service, &op.answered.service, &op.failures.service),
        ("response_", &op.response, &op.answered.response, &op.failures.response),
    ] {
        let Some(name) = name.strip_prefix(prefix) else { continue };
        let value = |times: &Percentiles| {
            time_metric(times, name).map(|value| (times.count > 0).then_some(value))
        };
        return match whose {
            Whose::All => value(all),
            Whose::Answered => value(answered),
            Whose::Failed => value(failed),
            Whose::Both => value(all).map(|it| match (it, value(answered).flatten()) {
                (Some(all), Some(answered)) => Some(all.max(answered)),
                (all, _) => all,
            }),
        };
    }
    if let Some(name) = metric.strip_prefix("late_") {
        let times = &op.lateness;
        return time_metric(times, name).map(|value| (times.count > 0).then_some(value));
    }
    let all = op.done + op.failed + op.missed + op.unanswered;
    if metric == "error_share" {
        // Of nothing there is no share: whoever asks for few errors wants answers.
        return Some((all > 0).then(|| float(all - op.done) / float(all)));
    }
    Some(Some(match metric {
        "rate" => op.rate,
        "started" => float(op.started),
        "done" => float(op.done),
        "failed" => float(op.failed),
        "retried" => float(op.retried),
        "missed" => float(op.missed),
        "unanswered" => float(op.unanswered),
        _ => return None,
    }))
}

fn time_metric(times: &Percentiles, name: &str) -> Option<f64> {
    Some(match name {
        "mean" => times.mean_ns,
        "min" => float(times.min_ns),
        "p50" => float(times.p50_ns),
        "p75" => float(times.p75_ns),
        "p90" => float(times.p90_ns),
        "p95" => float(times.p95_ns),
        "p99" => float(times.p99_ns),
        "p999" | "p99_9" => float(times.p999_ns),
        "max" => float(times.max_ns),
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn run_metric(summary: &Summary, metric: &str) -> Option<Option<f64>> {
    let server = summary.server.as_ref();
    let deliveries = summary.deliveries.as_ref();
    Some(match metric {
        "errors" => Some(float(summary.errors_count())),
        "lost" => deliveries.map(|it| it.lost as f64),
        "cut_off" => deliveries.map(|it| float(it.cut_off)),
        "doubled" => deliveries.map(|it| float(it.doubled)),
        "reordered" => deliveries.map(|it| float(it.reordered)),
        "ops_per_cpu_s" => server.map(|it| it.ops_per_cpu_s),
        "server_cpu" => server.map(|it| (it.user_s + it.system_s) / it.wall_s.max(1e-9)),
        "server_memory" => server.map(|it| float(it.resident_end_bytes)),
        "generator_cpu" => Some(summary.generator.cpu_share),
        "valid" => Some(if summary.invalid.is_empty() { 1.0 } else { 0.0 }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Condition;
    use crate::load::record::kind::{Cause, Kind};
    use crate::load::record::{ErrorCount, Record, Stage};
    use crate::load::result::summary::{ErrorSummary, OpSummary, ServerCost, Summary};
    use crate::load::result::{EndingTimes, Progress, Second};
    use crate::measure::percentiles::Percentiles;

    fn summary() -> Summary {
        let response = Percentiles { count: 9, p99_ns: 25_000_000, ..Percentiles::default() };
        Summary {
            headline: "rpc".to_owned(),
            counted_s: 1.0,
            ops: vec![
                OpSummary {
                    name: "rpc".to_owned(),
                    counted: true,
                    rate: 700.5,
                    done: 95,
                    failed: 5,
                    response,
                    ..OpSummary::default()
                },
                OpSummary { name: "idle".to_owned(), ..OpSummary::default() },
            ],
            errors: vec![ErrorSummary { count: 5, ..ErrorSummary::default() }],
            server: Some(ServerCost { ops_per_cpu_s: 16_200.0, ..ServerCost::default() }),
            ..Summary::default()
        }
    }

    #[test]
    fn conditions_are_checked() {
        for (text, holds, found) in [
            ("rpc.response_p99 < 20ms", false, "rpc.response_p99 is 25.0 ms"),
            ("rpc.response_p99<=25ms", true, "rpc.response_p99 is 25.0 ms"),
            ("response_p99 > 24999us", true, "rpc.response_p99 is 25.0 ms"),
            ("errors == 5", true, "errors is 5"),
            ("errors != 5", false, "errors is 5"),
            ("rate >= 700", true, "rpc.rate is 700.50"),
            ("rpc.retried == 0", true, "rpc.retried is 0"),
            ("rpc.error_share < 1 %", false, "rpc.error_share is 5.00 %"),
            ("ops_per_cpu_s > 16k", true, "ops_per_cpu_s is 16,200"),
            ("service_p50 < 1s", false, "rpc.service_p50 was not measured"),
            ("other.rate > 0", false, "other.rate was not measured"),
            ("idle.error_share < 1 %", false, "idle.error_share was not measured"),
            ("lost == 0", false, "lost was not measured"),
            ("valid == 1", true, "valid is 1"),
            ("response_p99 > 0", true, "rpc.response_p99 is 25.0 ms"),
            ("generator_cpu < 0.5", true, "generator_cpu is 0.00 %"),
        ] {
            let verdict = text.parse::<Condition>().unwrap().check(&summary());
            assert_eq!((verdict.holds, &*verdict.found), (holds, found), "{text}");
        }
    }

    #[test]
    fn neither_slow_nor_quick_failures_make_an_operation_look_fast() {
        let times = |count, p99_ms: u64| {
            let p99_ns = p99_ms * 1_000_000;
            let times = Percentiles { count, p99_ns, ..Percentiles::default() };
            EndingTimes { service: times, response: times }
        };
        for (all, answered, failed, found) in [
            ((100, 4_000), (50, 20), (50, 4_000), ["4.00 s", "4.00 s", "20.0 ms", "4.00 s"]),
            ((100, 900), (50, 950), (50, 1), ["950 ms", "900 ms", "950 ms", "1.00 ms"]),
        ] {
            let [all, answered, failures] = [all, answered, failed].map(|it| times(it.0, it.1));
            let (service, response) = (all.service, all.response);
            let name = "rpc".to_owned();
            let op = OpSummary {
                name,
                service,
                response,
                answered,
                failures,
                ..summary().ops[0].clone()
            };
            let summary = Summary { ops: vec![op], ..summary() };
            for (whose, found) in ["", "all_", "answered_", "failed_"].into_iter().zip(found) {
                for kind in ["service", "response"] {
                    let metric = format!("rpc.{whose}{kind}_p99");
                    let condition: Condition = format!("{metric} < 100ms").parse().unwrap();
                    let verdict = condition.check(&summary);
                    assert_eq!(verdict.found, format!("{metric} is {found}"));
                }
            }
        }
    }

    #[test]
    fn what_cannot_hold_any_more_is_known_before_the_end() {
        let mut total = Record::new(Stage::Counted, 1, 0);
        total.ops[0].response.record(1_000_000, 900);
        total.ops[0].response.record(900_000_000, 100);
        total.ops[0].failed = 7;
        let mut summary = summary();
        summary.settings.planned_s = 10.0;
        let second = Second { length_s: 2.0, stage: Stage::Counted, ..Second::default() };
        let error = |count| ErrorCount { count, example: String::new() };
        let errors = [((0, Kind::of(Cause::TimeOut, "time-out")), error(3))].into_iter().collect();
        let progress = Progress {
            stage: Stage::Counted,
            stage_s: 2.0,
            second: &second,
            history: std::slice::from_ref(&second),
            op_names: &["rpc".to_owned()],
            is_loop_op: &[true],
            has_server: false,
            errors: &errors,
            total: &total,
            summary: &summary,
        };
        // 1,000 of some 5,000; 7,500 at most. 100 are more than a hundredth of that, not a tenth.
        for (text, is_lost) in [
            ("response_p99 < 100ms", true),
            ("rpc.response_p99 <= 100ms", true),
            ("response_p99 < 1s", false),
            ("response_p90 < 100ms", false),
            ("response_max < 100ms", true),
            ("answered_response_p99 < 100ms", false),
            ("response_p99 > 1s", false),
            ("errors == 0", true),
            ("errors < 3", true),
            ("errors <= 3", false),
            ("errors > 5", false),
            ("rpc.failed <= 5", true),
            ("rate > 100", false),
            ("other.response_p99 < 1ms", false),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.is_lost(&progress), is_lost, "{text}");
        }
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, part) in [
            ("rpc.p99 < 20ms", "no metric `p99`"),
            ("rpc.errors < 2", "no metric `errors`"),
            ("response_p98 < 2s", "no metric `response_p98`"),
            ("response_p99 20ms", "not a condition"),
            ("response_p99 <", "not a condition"),
            ("response_p99 <> 3", "not a condition"),
            ("response_p99 < 20 minutes", "not a value"),
            ("rpc.response_p99 < 20", "`20` cannot be compared with response_p99, which is a time"),
            ("late_max < 5 %", "write 20ms"),
            ("errors < 1%", "`1%` cannot be compared with errors, which is a number: write 700"),
            ("rate > 5ms", "which is a number"),
            ("error_share < 5ms", "which is a share: write 5 %"),
            ("server_memory < 5s", "write 500MB"),
            ("done > 5MB", "which is a number"),
            ("", "not a condition"),
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
