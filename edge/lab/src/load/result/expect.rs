//! Conditions on a result, for scripts and CI: `rpc.response_p99 < 20ms`, `errors == 0`.
//!
//! In: the text of a condition and a summary. Out: whether it holds and what was found, which then
//! stands in the result itself. A condition on something that was not measured fails, and so does one on
//! a percentile of too few values (`measure::percentiles` says which), whatever it compares. A time is of
//! all operations, however they ended, and of those that were answered alone: the longer one. What
//! there is to be compared stands in `Metric`'s table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::nearest::did_you_mean;

use super::metric::{Lasting, Metric, NoMetric, TimeMetric, Unit, Whose, short_list};
use crate::load::result::{Progress, Summary};
use crate::load::scenario::Scenario;
use crate::measure::number::float;

/// Seconds that must have been counted before a percentile is given up.
const LOST_S_MIN: f64 = 1.0;

/// One condition.
#[derive(Clone, Debug)]
pub struct Condition {
    /// As written.
    pub text: String,
    op: Option<String>,
    name: String,
    metric: Metric,
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
    /// No such operation.
    #[error("`{op}` is not measured: there is {known}")]
    Operation {
        /// As written.
        op: String,
        /// Those that there are.
        known: String,
    },
    /// No such metric.
    #[error("there is no metric `{metric}`{meant}; there are: {}", short_list())]
    Metric {
        /// As written.
        metric: String,
        /// What may be meant.
        meant: String,
    },
    /// Of the run, and written as an operation's.
    #[error("there is no metric `{metric}` of an operation: it is of the run, write it alone")]
    OfRun {
        /// As written.
        metric: String,
    },
}

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
        Self::read(text, None)
    }
}

impl Condition {
    /// A condition that is written with a short name of this metric.
    pub(crate) fn of_metric(text: &str, metric: &str) -> Result<Self, BadCondition> {
        Self::read(text, Some(metric))
    }

    fn read(text: &str, instead: Option<&str>) -> Result<Self, BadCondition> {
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
        let (op, name) = op_and_name(left.trim());
        let name = instead.map_or(name, str::to_owned);
        let value = value.trim();
        let (limit, written) =
            value_of(value).ok_or_else(|| BadCondition::Value(value.to_owned()))?;
        let metric = match Metric::parse(&name, op.is_some()) {
            Ok(metric) => metric,
            Err(NoMetric::OfRun) => return Err(BadCondition::OfRun { metric: name }),
            Err(NoMetric::Unknown(meant)) => {
                return Err(BadCondition::Metric { metric: name, meant });
            }
        };
        // Nothing is nothing in every unit.
        let is_nothing = limit == 0.0 && written == Written::Plain;
        if !(written.is_of(metric.unit()) || is_nothing) {
            let (value, kind) = (value.to_owned(), metric.unit().words());
            return Err(BadCondition::Unit { value, metric: name, kind });
        }
        Ok(Self { text: text.trim().to_owned(), op, name, metric, compare, limit })
    }
}

/// The operation, if one is named, and the metric. A point may be part of the metric: `p99.9`.
fn op_and_name(text: &str) -> (Option<String>, String) {
    let is_point =
        |at: &usize| !(text[..*at].ends_with("p99") && matches!(&text[*at + 1..], "9" | "99"));
    match text.match_indices('.').map(|it| it.0).rfind(is_point) {
        Some(at) => (Some(text[..at].to_owned()), text[at + 1..].to_owned()),
        None => (None, text.to_owned()),
    }
}

/// What stands behind a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Plain,
    Thousands,
    Time,
    Share,
    Bytes,
    Bits,
}

impl Written {
    fn is_of(self, unit: Unit) -> bool {
        match unit {
            Unit::Time => self == Self::Time,
            Unit::Share => matches!(self, Self::Share | Self::Plain),
            Unit::Bytes => matches!(self, Self::Bytes | Self::Thousands | Self::Plain),
            Unit::Bits => matches!(self, Self::Bits | Self::Thousands | Self::Plain),
            Unit::Number => matches!(self, Self::Thousands | Self::Plain),
        }
    }
}

/// Times in nanoseconds, shares of 1, everything else as it is.
fn value_of(text: &str) -> Option<(f64, Written)> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic() || c == '%' || c == ' ');
    let number: f64 = digits.parse().ok()?;
    let (factor, written) = match text[digits.len()..].trim() {
        "" => (1.0, Written::Plain),
        "ns" => (1.0, Written::Time),
        "us" | "µs" => (1e3, Written::Time),
        "ms" => (1e6, Written::Time),
        "s" => (1e9, Written::Time),
        "%" => (0.01, Written::Share),
        "k" => (1e3, Written::Thousands),
        "M" => (1e6, Written::Thousands),
        "G" => (1e9, Written::Thousands),
        "b" => (1.0, Written::Bits),
        "kb" => (1e3, Written::Bits),
        "Mb" => (1e6, Written::Bits),
        "Gb" => (1e9, Written::Bits),
        "KB" => (1e3, Written::Bytes),
        "MB" => (1e6, Written::Bytes),
        "GB" => (1e9, Written::Bytes),
        _ => return None,
    };
    number.is_finite().then_some((number * factor, written))
}

/// A limit on a percentile of an operation's times, as a chart draws it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeLimit {
    /// Of the response time, or else of the service time.
    pub(crate) is_response: bool,
    /// `p99`, `max`.
    pub(crate) figure: &'static str,
    /// At most so long.
    pub(crate) ns: f64,
}

impl Condition {
    /// The operation that this is about, if it names one.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.op.as_deref()
    }

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

    /// Why it cannot be asked of a scenario's loop that has no schedule (`--saturate`); none if it
    /// can be.
    #[must_use]
    pub fn needs_schedule(&self, scenario: &Scenario) -> Option<String> {
        let Metric::Time(time) = self.metric else { return None };
        let mut steps = scenario.sessions.iter().flat_map(|session| &session.repeated);
        if self.op.is_some() && !steps.any(|step| step.op == self.op) {
            return None;
        }
        let figure = time.figure.name;
        match time.lasting {
            Lasting::Service => None,
            Lasting::Response => Some(format!(
                "a closed loop has no response time: use service_{figure}, or leave --saturate out"
            )),
            Lasting::Late => Some("a closed loop has no lateness: leave --saturate out".to_owned()),
        }
    }

    /// That the scenario has no such operation, with those that it has.
    #[must_use]
    pub fn misfit(&self, scenario: &Scenario) -> String {
        let mut known: Vec<&str> = Vec::new();
        for session in &scenario.sessions {
            let steps = session.first.iter().chain(&session.repeated).chain(&session.last);
            let ping = session.ping_every.is_some().then_some("ping");
            for name in steps.filter_map(|step| step.op.as_deref()).chain(ping) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        let name = self.op.as_deref().unwrap_or_default();
        let meant = did_you_mean(name, known.iter().copied());
        format!("`{}` has no operation `{name}`, but {}{meant}", scenario.name, known.join(", "))
    }

    /// Compares.
    #[must_use]
    pub fn check(&self, summary: &Summary) -> Verdict {
        let named = self.op.as_deref().unwrap_or(&summary.headline);
        let op = summary.ops.iter().find(|op| op.name == named);
        let found = self.metric.of(summary, op);
        let place = if self.metric.is_of_run() { String::new() } else { format!("{named}.") };
        let too_few = found.and_then(|_| self.metric.too_few(op));
        let text = match found {
            Some(found) => {
                let (found, remark) = (self.metric.unit().write(found), too_few.as_deref());
                format!("{place}{} is {found}{}", self.name, remark.unwrap_or_default())
            }
            None => format!("{place}{} was not measured{}", self.name, self.metric.why_not(op)),
        };
        let holds = too_few.is_none() && found.is_some_and(|found| self.holds(found));
        Verdict { condition: self.text.clone(), holds, found: text }
    }

    /// Whether it cannot hold any more, whatever comes: of counts that only grow and are to stay
    /// small, and of percentiles of which too many values are too long already, as long as the rate
    /// stays what it is. `false` where that cannot be told yet.
    #[must_use]
    pub fn is_lost(&self, progress: &Progress<'_>) -> bool {
        let (Compare::Less | Compare::LessOrEqual | Compare::Equal) = self.compare else {
            return false;
        };
        let op = self.op.as_deref().map_or(progress.headline(), |name| progress.op(name));
        if let Metric::Time(time) = self.metric {
            return self.compare != Compare::Equal && self.is_time_lost(time, progress, op);
        }
        self.metric.so_far(progress, op).is_some_and(|count| match self.compare {
            Compare::Less => float(count) >= self.limit,
            _ => float(count) > self.limit,
        })
    }

    fn is_time_lost(&self, time: TimeMetric, progress: &Progress<'_>, op: Option<usize>) -> bool {
        let op = op.and_then(|op| progress.total.ops.get(op));
        let Some((times, share)) = op.and_then(|op| time.so_far(op)) else { return false };
        let Some(histogram) = times.histogram() else { return false };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ns")]
        let limit_ns = self.limit as u64;
        let slow = histogram.count_between(limit_ns.saturating_add(1), u64::MAX);
        if share <= 0.0 {
            return slow > 0 && histogram.max() > limit_ns;
        }
        let (counted_s, planned_s) = (progress.counted_s(), progress.summary.settings.planned_s);
        // Half as many again, because arrivals are random.
        let most = 1.5 * float(histogram.len()) * planned_s / counted_s.max(0.1);
        counted_s >= LOST_S_MIN && float(slow) > share * most + 1.0
    }

    /// The limit that it sets to times of the operation `name`, if it does; failures' own apart.
    pub(crate) fn time_limit(&self, name: &str, headline: &str) -> Option<TimeLimit> {
        let is_of_it = self.op.as_deref().unwrap_or(headline) == name;
        let is_most = matches!(self.compare, Compare::Less | Compare::LessOrEqual);
        match self.metric {
            Metric::Time(TimeMetric { whose, lasting, figure })
                if is_of_it
                    && is_most
                    && whose != Whose::Failed
                    && lasting != Lasting::Late
                    && self.limit > 0.0 =>
            {
                let is_response = lasting == Lasting::Response;
                Some(TimeLimit { is_response, figure: figure.name, ns: self.limit })
            }
            _ => None,
        }
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
}

#[cfg(test)]
mod tests;
