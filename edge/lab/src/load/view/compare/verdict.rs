//! What a comparison says in one line, and what forbids to say it.
//!
//! A change is told only between columns under the same load of which no run is INVALID, from each
//! of the other columns to the last one, with its interval; what is within that is no change beyond
//! noise, and said so.

use std::fmt::Write as _;

use super::delta::{Basis, Delta, Figure, OfSecond, delta};
use super::rows::{of_second, received_bits};
use super::{Column, Second, Section, Value, over};
use crate::load::result::summary::ServerEnd;
use crate::load::result::{Summary, figures};
use crate::load::view::advice::missing;
use crate::measure::number::{bits, bytes_f64, float, group, group_f64, rate, time_f64};
use crate::measure::spread::Spread;

/// Columns that are told beside the last one; the rest stand in the table.
const OTHERS_MAX: usize = 4;

/// One line of a verdict.
pub(crate) struct Verdict {
    pub(crate) text: String,
    /// Whether nothing that it says can be believed.
    pub(crate) is_void: bool,
}

/// Kinds of remarks, the worst first.
pub(crate) const MARKS: [&str; 4] = ["INVALID", "ENDED EARLY", "FAILED", "ERRORS"];

/// Something that must stand above the figures.
pub(crate) struct Remark {
    /// One of [`MARKS`].
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

/// Invalid runs, runs that ended early, expectations that failed and errors of a section.
pub(crate) fn remarks(section: &Section<'_>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let each = |remarks: &mut Vec<Remark>, mark, tell: &dyn Fn(&Summary) -> Option<String>| {
        for (name, run) in section.named_runs() {
            if let Some(what) = tell(&run.summary) {
                remarks.push(Remark { mark, text: format!("{name}: {what}.") });
            }
        }
    };
    let [invalid, ended, failed, errors] = MARKS;
    each(&mut remarks, invalid, &|it| {
        let reasons = it.invalid.join("; ");
        (!reasons.is_empty()).then_some(reasons)
    });
    each(&mut remarks, ended, &|it| {
        let (counted_s, planned_s) = (it.counted_s, it.settings.planned_s);
        let how = format!("{}, after {counted_s:.1} s of {planned_s:.0} s", it.ended);
        (!it.ended.is_empty()).then_some(how)
    });
    each(&mut remarks, failed, &|it| {
        let ended = it.server_ended.as_deref().map(ServerEnd::text);
        let failed = it.expectations.iter().filter(|it| !it.holds);
        let failed = failed.map(|it| format!("{}, and {}", it.condition, it.found));
        let failed: Vec<String> = ended.into_iter().chain(missing(it)).chain(failed).collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    });
    each(&mut remarks, errors, &|it| {
        let first = it.harmful_errors().next()?;
        let count = group_f64(figures::errors(it)?);
        let most = format!("{} × {}: {}", group(first.count), first.op, first.kind);
        Some(if it.harmful_errors().count() == 1 {
            most
        } else {
            format!("{count} errors, most of them {most}")
        })
    });
    remarks
}

/// What is asked of every column, and how it is said.
struct Question<'a> {
    lead: String,
    value: &'a Value<'a>,
    of_second: Option<&'a OfSecond<'a>>,
    write: fn(f64) -> String,
    unit: &'static str,
    /// For more and for less of it.
    words: [&'static str; 2],
}

/// What is asked of flows: what is carried, and what it costs who receives it.
fn of_flows() -> Vec<Question<'static>> {
    fn question(
        value: &'static Value<'static>,
        write: fn(f64) -> String,
        unit: &'static str,
    ) -> Question<'static> {
        let (lead, words) = (String::new(), ["higher", "lower"]);
        Question { lead, value, of_second: None, write, unit, words }
    }
    let efficiency = " datagrams per CPU-second of the receiver";
    vec![
        Question {
            of_second: Some(&received_bits),
            ..question(&figures::goodput, bits, " of goodput")
        },
        question(&figures::datagrams_per_cpu_s, group_f64, efficiency),
        question(&figures::cpu_per_byte, time_f64, " of the receiver's CPU a byte"),
    ]
}

/// The lines of a section, the most important one first; empty if no run has a figure.
pub(crate) fn verdicts(section: &Section<'_>) -> Vec<Verdict> {
    let headline = section.columns.first().and_then(|it| it.runs.first());
    let headline = headline.map_or("", |run| &run.summary.headline);
    let more = ["higher", "lower"];
    let efficiency = Question {
        lead: String::new(),
        value: &figures::ops_per_cpu_s,
        of_second: None,
        write: group_f64,
        unit: " operations per CPU-second",
        words: more,
    };
    let answered = |it: &Summary, second: &Second| {
        let ops = it.ops.iter().zip(&second.ops).filter(|(op, _)| op.counted && !op.setup);
        Some(ops.map(|(_, it)| float(it.done)).sum::<f64>() / second.length_s)
    };
    let p50 = of_second(headline, |op, _| (op.max_ns > 0).then(|| float(op.p50_ns)));
    let p99 = of_second(headline, |op, _| (op.done >= 100).then(|| float(op.p99_ns)));
    let time = |share: &str, value, of_second| Question {
        lead: format!("{share} of {headline} within "),
        value,
        of_second: Some(of_second),
        write: time_f64,
        unit: "",
        words: ["longer", "shorter"],
    };
    // What the kind of loop is for comes first.
    let questions = if section.is_flow() {
        of_flows()
    } else if is_about_coming(section) {
        let of_player = Question {
            lead: String::new(),
            value: &figures::memory_of_player,
            of_second: None,
            write: bytes_f64,
            unit: " of memory for each player",
            words: ["more", "less"],
        };
        vec![efficiency, of_player]
    } else if section.is_closed {
        let throughput = Question {
            lead: String::new(),
            value: &figures::answered_per_s,
            of_second: Some(&answered),
            write: rate,
            unit: " answered a second",
            words: more,
        };
        let usual = Question {
            lead: format!("half of {headline} in a service time of "),
            ..time("half", &figures::service_p50, &p50)
        };
        vec![efficiency, throughput, usual]
    } else {
        let slow = time("99 %", &figures::response_p99, &p99);
        vec![slow, time("half", &figures::response_p50, &p50), efficiency]
    };
    let answers: Vec<(Verdict, Option<Delta>)> =
        questions.iter().filter_map(|question| question.answer(section)).collect();
    let conclusion = conclusion(&answers);
    let lines = conclusion.into_iter().chain(answers.into_iter().map(|it| it.0));
    let name_first = |(index, mut verdict): (usize, Verdict)| {
        if index == 0 {
            // Alone in its section it is named here: other sections may be about other servers.
            let whose = match &*section.columns {
                [only] if only.name != section.scenario => format!(" ({})", only.name),
                _ => String::new(),
            };
            verdict.text = format!("{}{whose}: {}", section.scenario, verdict.text);
        }
        verdict
    };
    lines.enumerate().map(name_first).collect()
}

/// Says that nothing has changed, if nothing has: two columns, all of whose figures are within their
/// intervals.
fn conclusion(answers: &[(Verdict, Option<Delta>)]) -> Option<Verdict> {
    let deltas: Vec<Delta> = answers.iter().filter_map(|it| it.1).filter(Delta::is_known).collect();
    if deltas.is_empty() || deltas.iter().any(Delta::is_real) {
        return None;
    }
    let text = match deltas[0].basis {
        Basis::Stretches => {
            "no change beyond noise; one run of each says nothing of what varies between runs"
        }
        Basis::Rounds(..) | Basis::OneRun | Basis::None => "no change beyond noise",
    };
    Some(Verdict { text: text.to_owned(), is_void: false })
}

/// Whether the scenario has no loop: what players do once is what it is about.
pub(crate) fn is_about_coming(section: &Section<'_>) -> bool {
    section.loop_ops().is_empty()
}

impl Question<'_> {
    /// The line, and, between two columns, the change that it tells.
    fn answer(&self, section: &Section<'_>) -> Option<(Verdict, Option<Delta>)> {
        let spread = |column| over(column, self.value);
        let (subject, others) = section.columns.split_last()?;
        let of_subject = spread(subject)?;
        let mut text = self.say(&of_subject);
        if !others.is_empty() {
            // Alone, it need not be told from others.
            let _ = write!(text, " on {}", subject.name);
        }
        let others: Vec<_> =
            others.iter().filter_map(|other| spread(other).map(|it| (other, it))).collect();
        let mut told = None;
        for (index, (other, of_other)) in others.iter().take(OTHERS_MAX).enumerate() {
            let (sign, value) = (if index == 0 { ':' } else { ';' }, (self.write)(of_other.median));
            let name = &other.name;
            // Writing to a String cannot fail.
            let _ = match self.change(other, subject) {
                Ok(change) => {
                    told = Some(change);
                    let interval = change.interval();
                    let (interval, caveat) = (interval.as_deref(), change.caveat());
                    let interval = match (interval, caveat) {
                        (Some(interval), "") => format!("; 99 % interval {interval}"),
                        (Some(interval), caveat) => format!("; 99 % interval {interval}, {caveat}"),
                        (None, "") => String::new(),
                        (None, caveat) => format!("; {caveat}"),
                    };
                    let how = match change.words(self.words) {
                        _ if change.is_known() && !change.is_real() => {
                            "no change beyond noise from".to_owned()
                        }
                        same if same == "the same" => "the same as on".to_owned(),
                        much => format!("{much} than on"),
                    };
                    write!(text, "{sign} {how} {name} ({value}{interval})")
                }
                Err(why) => write!(text, "; {value} on {name} ({why})"),
            };
        }
        if others.len() > OTHERS_MAX {
            let _ = write!(text, "; {} more in the table", others.len() - OTHERS_MAX);
        }
        let is_void = !subject.is_valid()
            || !others.is_empty() && others.iter().all(|(other, _)| !other.is_valid());
        Some((Verdict { text, is_void }, told.filter(|_| section.columns.len() == 2)))
    }

    fn say(&self, of: &Spread) -> String {
        format!("{}{}{}", self.lead, (self.write)(of.median), self.unit)
    }

    /// What changed from a column to the subject, or why that is not said.
    fn change(&self, other: &Column<'_>, subject: &Column<'_>) -> Result<Delta, &'static str> {
        if !subject.is_valid() || !other.is_valid() {
            return Err("no factor: INVALID");
        }
        if !subject.is_like(other) {
            return Err("no factor: under another load");
        }
        let figure = Figure { value: self.value, of_second: self.of_second };
        delta(other, subject, &figure).ok_or("no factor: nothing to divide by")
    }
}
