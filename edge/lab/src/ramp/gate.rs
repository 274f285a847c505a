//! The gate: what has to hold of every server for a machine not to be too full.
//!
//! In: text such as `lateness_p99 <= 10% and gaps <= 0.1%`, or `lateness_p99 <= alone + 10%` for servers that are
//! not on time even if nothing is beside them. Out: a [`Gate`], which judges the figures of a server. That no
//! player is lost belongs to every gate.

use std::str::FromStr;

use wire::nearest::did_you_mean;

use super::result::{Role, ServerFigures, Step};
use crate::games::query::Query;
use crate::measure::Span;
use crate::measure::number::float;
use crate::measure::spread::Spread;

/// The parts of a tick of the gates that are reported besides the one that was asked for.
pub(crate) const REPORTED: [f64; 2] = [0.10, 0.25];

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    LatenessP99,
    LatenessP999,
    TransactionP99,
    StatusP99,
    RunqueueWait,
    Gaps,
    Missed,
    TicksLate,
}

impl Metric {
    const ALL: [Self; 8] = [
        Self::LatenessP99,
        Self::LatenessP999,
        Self::TransactionP99,
        Self::StatusP99,
        Self::RunqueueWait,
        Self::Gaps,
        Self::Missed,
        Self::TicksLate,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LatenessP99 => "lateness_p99",
            Self::LatenessP999 => "lateness_p999",
            Self::TransactionP99 => "transaction_p99",
            Self::StatusP99 => "status_p99",
            Self::RunqueueWait => "runqueue_wait",
            Self::Gaps => "gaps",
            Self::Missed => "missed",
            Self::TicksLate => "ticks_late",
        }
    }

    /// Whether it is a time, which is compared with a time or a part of a tick.
    fn is_time(self) -> bool {
        matches!(
            self,
            Self::LatenessP99 | Self::LatenessP999 | Self::TransactionP99 | Self::StatusP99
        )
    }

    /// Whether players of this kind of server can see it.
    fn is_seen(self, query: Query) -> bool {
        let has_players = matches!(query, Query::Throng | Query::Teeworlds);
        match self {
            Self::LatenessP99 | Self::LatenessP999 | Self::Gaps | Self::Missed => has_players,
            Self::TransactionP99 | Self::TicksLate => query == Query::Throng,
            Self::StatusP99 | Self::RunqueueWait => true,
        }
    }

    /// Of one server: a time as a part of a tick, all else as a share. `None` if there are too few values.
    fn of(self, it: &ServerFigures, tick_ns: u64) -> Option<f64> {
        let part = |ns: Option<u64>| ns.map(|ns| float(ns) / float(tick_ns.max(1)));
        let share = |count: u64, of: u64| (of > 0).then(|| float(count) / float(of));
        match self {
            Self::LatenessP99 => part(it.lateness.p99()),
            Self::LatenessP999 => part(it.lateness.p999()),
            Self::TransactionP99 => part(it.transactions.p99()),
            // Few are asked of one server: what stands for the 99th then is the slowest.
            Self::StatusP99 => part((it.status.count > 0).then_some(it.status.p99_ns)),
            Self::RunqueueWait => it.runqueue_wait_ms_per_s.map(|ms| ms / 1e3),
            Self::Gaps => share(it.gaps, it.snapshots),
            Self::Missed => share(it.missed, it.snapshots + it.missed),
            Self::TicksLate => share(it.ticks_late?, it.ticks_due?),
        }
    }
}

/// The word of a limit that is counted from what one server alone has.
const ALONE: &str = "alone";

/// Not a gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGate {
    /// Not of its form.
    #[error(
        "`{0}` is not a gate: write 'lateness_p99 <= 10%' or 'lateness_p99 <= alone + 10%', several of such \
         joined by `and`"
    )]
    Form(String),
    /// No such figure.
    #[error("there is no `{name}`{meant}: there are {}", names(None))]
    Metric {
        /// As written.
        name: String,
        /// What may be meant.
        meant: String,
    },
    /// Not a limit of it.
    #[error("`{value}` is no limit of {metric}: write {form}")]
    Limit {
        /// As written.
        value: String,
        /// Of what.
        metric: &'static str,
        /// How it is written.
        form: &'static str,
    },
    /// Not seen of such servers.
    #[error("{metric} is not seen of servers that answer {query}: there are {}", names(Some(*.kind)))]
    Unseen {
        /// What was asked for.
        metric: &'static str,
        /// What they answer.
        query: &'static str,
        /// Likewise.
        kind: Query,
    },
}

fn names(query: Option<Query>) -> String {
    let all = Metric::ALL.into_iter();
    let seen = all.filter(|it| query.is_none_or(|query| it.is_seen(query)));
    seen.map(Metric::name).collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    metric: Metric,
    is_or_equal: bool,
    limit: Limit,
    above: Above,
}

/// What a limit is counted from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Above {
    Nothing,
    /// What one server alone has: as a part of a tick or a share. `None` until it was measured.
    Alone(Option<f64>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// A part of a tick, or a share.
    Part(f64),
    Time(Span),
}

/// A gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate(Vec<Condition>);

/// What a gate says of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) holds: bool,
    /// What decided: of those that fail the first, else the one that is nearest to its limit.
    pub(crate) metric: Metric,
    /// Its value, as a part of a tick or a share; not a number if there were too few values.
    pub(crate) value: f64,
}

impl FromStr for Gate {
    type Err = BadGate;

    fn from_str(text: &str) -> Result<Self, BadGate> {
        let parts = text.split(" and ").flat_map(|it| it.split(','));
        Ok(Self(parts.map(|part| condition(part.trim())).collect::<Result<_, _>>()?))
    }
}

fn condition(text: &str) -> Result<Condition, BadGate> {
    let form = || BadGate::Form(text.to_owned());
    let (name, rest) = text.split_once('<').ok_or_else(form)?;
    let (is_or_equal, value) = match rest.strip_prefix('=') {
        Some(value) => (true, value),
        None => (false, rest),
    };
    let (name, value) = (name.trim(), value.trim());
    let more = value.strip_prefix(ALONE).and_then(|it| it.trim_start().strip_prefix('+'));
    let (above, value) = match more {
        Some(more) => (Above::Alone(None), more.trim_start()),
        None => (Above::Nothing, value),
    };
    let metric = Metric::ALL.into_iter().find(|it| it.name() == name);
    let metric = metric.ok_or_else(|| BadGate::Metric {
        name: name.to_owned(),
        meant: did_you_mean(name, Metric::ALL.into_iter().map(Metric::name)),
    })?;
    let form = if metric.is_time() { "10% (of a tick) or 5ms" } else { "5% or 0.1%" };
    let wrong = || BadGate::Limit { value: value.to_owned(), metric: metric.name(), form };
    let limit = match value.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if !(0.0..=10_000.0).contains(&percent) {
                return Err(wrong());
            }
            Limit::Part(percent / 100.0)
        }
        None if metric.is_time() => Limit::Time(value.parse().map_err(|_| wrong())?),
        None => return Err(wrong()),
    };
    Ok(Condition { metric, is_or_equal, limit, above })
}

impl Gate {
    /// The gate that is usual for servers of a kind. A Teeworlds server that has a machine to itself is late by a
    /// quarter of a tick: what counts is what neighbours add.
    #[must_use]
    pub fn usual(query: Query) -> Self {
        let (metric, above) = match query {
            Query::Throng => (Metric::LatenessP99, Above::Nothing),
            Query::Teeworlds => (Metric::LatenessP99, Above::Alone(None)),
            Query::Quake3 | Query::A2s => (Metric::StatusP99, Above::Nothing),
        };
        Self(vec![Condition { metric, is_or_equal: true, limit: Limit::Part(0.10), above }])
    }

    /// The same gate, which knows what one server alone has: the median of the controls among these steps, those
    /// around a step that was discarded too.
    pub(crate) fn beside(&self, steps: &[Step]) -> Self {
        let mut gate = self.clone();
        for it in &mut gate.0 {
            if let Above::Alone(alone) = &mut it.above {
                let controls = steps.iter().filter(|it| it.role == Role::Control);
                let metric = it.metric;
                let values = controls.filter_map(|it| metric.of(it.each.first()?, it.tick_ns));
                *alone = Spread::of(values).map(|it| it.median);
            }
        }
        gate
    }

    /// Whether all of it can be seen of servers of a kind.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self, query: Query) -> Result<(), BadGate> {
        let word = match query {
            Query::Throng => "throng",
            Query::Teeworlds => "teeworlds",
            Query::Quake3 => "quake3",
            Query::A2s => "a2s",
        };
        match self.0.iter().find(|it| !it.metric.is_seen(query)) {
            None => Ok(()),
            Some(it) => {
                let metric = it.metric.name();
                Err(BadGate::Unseen { metric, query: word, kind: query })
            }
        }
    }

    /// What one server alone has, if that is what its first limit of a time is counted from and is known.
    pub(crate) fn alone(&self) -> Option<f64> {
        match self.0.iter().find(|it| it.metric.is_time())?.above {
            Above::Nothing => None,
            Above::Alone(value) => value,
        }
    }

    /// What it is about, first of all.
    pub(crate) fn metric(&self) -> Metric {
        self.0.first().map_or(Metric::LatenessP99, |it| it.metric)
    }

    /// This gate, and with it the same ones of other parts of a tick, as far as it has one, by themselves and above
    /// what one server alone has: what is reported. The one that was asked for comes first.
    pub(crate) fn reported(&self) -> Vec<Self> {
        let mut all = vec![self.clone()];
        for above in [Above::Nothing, Above::Alone(None)] {
            for part in REPORTED {
                let mut other = self.clone();
                let first = other.0.iter_mut().find(|it| it.metric.is_time());
                let Some(condition) = first else { return all };
                (condition.limit, condition.above) = (Limit::Part(part), above);
                if !all.contains(&other) {
                    all.push(other);
                }
            }
        }
        all
    }

    /// As it is written.
    pub(crate) fn text(&self) -> String {
        let condition = |it: &Condition| {
            let sign = if it.is_or_equal { "<=" } else { "<" };
            let limit = match it.limit {
                Limit::Part(part) => format!("{}%", (part * 1e6).round() / 1e4),
                Limit::Time(span) => format!("{:?}", span.0),
            };
            let above = match it.above {
                Above::Nothing => String::new(),
                Above::Alone(_) => format!("{ALONE} + "),
            };
            format!("{} {sign} {above}{limit}", it.metric.name())
        };
        self.0.iter().map(condition).collect::<Vec<_>>().join(" and ")
    }

    /// What it says of a server. Who was not measured enough does not pass, nor does anybody where what one server
    /// alone has is not known.
    pub(crate) fn judge(&self, server: &ServerFigures, tick_ns: u64) -> Verdict {
        let mut nearest: Option<(f64, Verdict)> = None;
        for it in &self.0 {
            let value = it.metric.of(server, tick_ns);
            let limit = match it.limit {
                Limit::Part(part) => part,
                Limit::Time(span) => float(span.ns()) / float(tick_ns.max(1)),
            };
            let limit = match it.above {
                Above::Nothing => limit,
                Above::Alone(alone) => limit + alone.unwrap_or(f64::NAN),
            };
            let holds = value
                .is_some_and(|it_is| if it.is_or_equal { it_is <= limit } else { it_is < limit });
            let value = value.unwrap_or(f64::NAN);
            let verdict = Verdict { holds: holds && server.lost == 0, metric: it.metric, value };
            if !holds {
                return verdict;
            }
            let near = value / limit.max(1e-9);
            if nearest.is_none_or(|(other, _)| near > other) {
                nearest = Some((near, verdict));
            }
        }
        let (metric, value) = (self.metric(), f64::NAN);
        nearest.map_or(Verdict { holds: false, metric, value }, |it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadGate, Gate, Metric, Query, Role, ServerFigures, Step};
    use crate::measure::Percentiles;

    fn lateness(p99_ns: u64) -> ServerFigures {
        ServerFigures {
            lateness: Percentiles { count: 1_000, p99_ns, ..Percentiles::default() },
            snapshots: 1_000,
            gaps: 1,
            ..ServerFigures::default()
        }
    }

    #[test]
    fn a_server_passes_if_all_holds_and_nobody_is_lost() {
        let gate: Gate = "lateness_p99 <= 10% and gaps <= 0.1%".parse().unwrap();
        let tick_ns = 1_000_000;
        let holds = |it: &ServerFigures| gate.judge(it, tick_ns).holds;
        assert!(holds(&lateness(100_000)));
        assert!(!holds(&lateness(100_001)));
        assert!(!holds(&ServerFigures { gaps: 2, ..lateness(1) }));
        assert!(!holds(&ServerFigures { lost: 1, ..lateness(1) }));
        // Nobody was measured.
        assert!(!holds(&ServerFigures::default()));
        let strict: Gate = "lateness_p99 < 100us".parse().unwrap();
        assert!(!strict.judge(&lateness(100_000), tick_ns).holds);
        assert!(strict.judge(&lateness(99_999), tick_ns).holds);
        let verdict = gate.judge(&ServerFigures { gaps: 3, ..lateness(1) }, tick_ns);
        assert_eq!(verdict.metric, Metric::Gaps);
        assert!((verdict.value - 0.003).abs() < 1e-9);
    }

    #[test]
    fn what_a_server_has_alone_is_left_to_it() {
        let gate: Gate = "lateness_p99 <= alone + 10%".parse().unwrap();
        let step = |role, p99_ns| Step {
            role,
            tick_ns: 1_000_000,
            each: vec![lateness(p99_ns)],
            ..Step::default()
        };
        // The median of the controls is 24 %; steps do not count.
        let steps = [
            step(Role::Control, 200_000),
            step(Role::Step, 900_000),
            step(Role::Control, 240_000),
            step(Role::Control, 900_000),
        ];
        let beside = gate.beside(&steps);
        assert!(beside.judge(&lateness(339_999), 1_000_000).holds);
        assert!(!beside.judge(&lateness(340_001), 1_000_000).holds);
        assert_eq!(beside.text(), gate.text());
        // Nobody knows what it has alone.
        assert!(!gate.judge(&lateness(1), 1_000_000).holds);
    }

    #[test]
    fn gates_are_read_and_written() {
        for text in [
            "lateness_p99 <= 10%",
            "lateness_p999 < 12.5% and missed <= 0.1%",
            "status_p99 <= 5ms and runqueue_wait <= 2%",
            "lateness_p99 <= alone + 10% and gaps <= alone + 0.1%",
            "status_p99 < alone + 5ms",
        ] {
            assert_eq!(text.parse::<Gate>().unwrap().text(), text);
        }
        for (text, part) in [
            ("", "is not a gate"),
            ("lateness_p99", "is not a gate"),
            ("latness_p99 <= 10%", "did you mean `lateness_p99`"),
            ("lateness_p99 <= 10", "write 10% (of a tick) or 5ms"),
            ("gaps <= 5ms", "write 5% or 0.1%"),
            ("gaps <= -1%", "no limit"),
            ("gaps <= alone", "no limit"),
            ("lateness_p99 <= alone+5", "write 10% (of a tick) or 5ms"),
        ] {
            let error = text.parse::<Gate>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_seen_is_refused_before_the_run() {
        let gate: Gate = "lateness_p99 <= 10%".parse().unwrap();
        assert_eq!(gate.check(Query::Teeworlds), Ok(()));
        let Err(BadGate::Unseen { .. }) = gate.check(Query::Quake3) else { panic!() };
        for query in [Query::Throng, Query::Teeworlds, Query::Quake3, Query::A2s] {
            assert_eq!(Gate::usual(query).check(query), Ok(()));
        }
    }

    #[test]
    fn two_gates_are_reported_with_the_one_that_was_asked_for() {
        let texts = |text: &str| {
            let gates = text.parse::<Gate>().unwrap().reported();
            gates.iter().map(Gate::text).collect::<Vec<_>>()
        };
        let all =
            ["10%", "25%", "alone + 10%", "alone + 25%"].map(|it| format!("lateness_p99 <= {it}"));
        assert_eq!(texts("lateness_p99 <= 10%"), all);
        assert_eq!(texts("lateness_p99 <= alone + 10%").len(), 4);
        assert_eq!(texts("status_p99 <= 2ms").len(), 5);
        assert_eq!(texts("runqueue_wait <= 2%"), ["runqueue_wait <= 2%"]);
    }
}
