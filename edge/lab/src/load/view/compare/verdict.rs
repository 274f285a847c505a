//! What a comparison says in one line, and what forbids to say it.
//!
//! A factor is given only between columns under the same load of which no run is INVALID; where
//! the ranges of the rounds overlap, the line says so. It tells how much higher or lower the first
//! column is than each of the others.

use std::fmt::Write as _;

use super::{Column, Section, Value, over};
use crate::load::result::{Summary, figures};
use crate::measure::number::{against, bytes_f64, group, group_f64, rate, time_f64};
use crate::measure::spread::Spread;

/// Columns that are told beside the first one; the rest stand in the table.
const OTHERS_MAX: usize = 4;

/// One line of a verdict.
pub(crate) struct Verdict {
    pub(crate) text: String,
    /// Whether nothing that it says can be believed.
    pub(crate) is_void: bool,
}

/// Kinds of remarks, the worst first.
pub(crate) const MARKS: [&str; 4] = ["INVALID", "ENDED EARLY", "EXPECTED", "ERRORS"];

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
    let [invalid, ended, expected, errors] = MARKS;
    each(&mut remarks, invalid, &|it| {
        let reasons = it.invalid.join("; ");
        (!reasons.is_empty()).then(|| format!("the generator was in the way: {reasons}"))
    });
    each(&mut remarks, ended, &|it| {
        let (counted_s, planned_s) = (it.counted_s, it.settings.planned_s);
        let how = format!("{}, after {counted_s:.1} s of {planned_s:.0} s", it.ended);
        (!it.ended.is_empty()).then_some(how)
    });
    each(&mut remarks, expected, &|it| {
        let failed = it.expectations.iter().filter(|it| !it.holds);
        let failed = failed.map(|it| format!("{}, and {}", it.condition, it.found));
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    });
    each(&mut remarks, errors, &|it| {
        let first = it.errors.first()?;
        let count = group_f64(figures::errors(it)?);
        let most = format!("{} × {}: {}", group(first.count), first.op, first.kind);
        Some(if it.errors.len() == 1 {
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
    write: fn(f64) -> String,
    unit: &'static str,
    /// For more and for less of it.
    words: [&'static str; 2],
}

/// The lines of a section, the most important one first; empty if no run has a figure.
pub(crate) fn verdicts(section: &Section<'_>) -> Vec<Verdict> {
    let headline = section.columns.first().and_then(|it| it.runs.first());
    let headline = headline.map_or("", |run| &run.summary.headline);
    let more = ["higher", "lower"];
    let efficiency = Question {
        lead: String::new(),
        value: &figures::ops_per_cpu_s,
        write: group_f64,
        unit: " operations per CPU-second",
        words: more,
    };
    // What the kind of loop is for comes first.
    let questions = if is_about_coming(section) {
        let of_player = Question {
            lead: String::new(),
            value: &figures::memory_of_player,
            write: bytes_f64,
            unit: " of memory for each player",
            words: ["more", "less"],
        };
        vec![efficiency, of_player]
    } else if section.is_closed {
        let throughput = Question {
            lead: String::new(),
            value: &figures::answered_per_s,
            write: rate,
            unit: " answered a second",
            words: more,
        };
        vec![efficiency, throughput]
    } else {
        let times = Question {
            lead: format!("99 % of {headline} within "),
            value: &figures::response_p99,
            write: time_f64,
            unit: "",
            words: ["longer", "shorter"],
        };
        vec![times, efficiency]
    };
    let answers = questions.iter().filter_map(|question| question.answer(section));
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
    answers.enumerate().map(name_first).collect()
}

/// Whether the scenario has no loop: what players do once is what it is about.
pub(crate) fn is_about_coming(section: &Section<'_>) -> bool {
    section.loop_ops().is_empty()
}

impl Question<'_> {
    fn answer(&self, section: &Section<'_>) -> Option<Verdict> {
        let spread = |column| over(column, self.value);
        let (first, others) = section.columns.split_first()?;
        let of_first = spread(first)?;
        let mut text = self.say(&of_first);
        if !others.is_empty() {
            // Alone, it need not be told from others.
            let _ = write!(text, " on {}", first.name);
        }
        let others: Vec<_> =
            others.iter().filter_map(|other| spread(other).map(|it| (other, it))).collect();
        for (index, (other, of_other)) in others.iter().take(OTHERS_MAX).enumerate() {
            let (sign, value) = (if index == 0 { ':' } else { ';' }, (self.write)(of_other.median));
            let name = &other.name;
            // Writing to a String cannot fail.
            let _ = match self.factor((first, &of_first), (other, of_other)) {
                Ok((factor, remark)) => {
                    write!(text, "{sign} {factor} on {name} ({value}){remark}")
                }
                Err(why) => write!(text, "; {value} on {name} ({why})"),
            };
        }
        if others.len() > OTHERS_MAX {
            let _ = write!(text, "; {} more in the table", others.len() - OTHERS_MAX);
        }
        let is_void = !first.is_valid()
            || !others.is_empty() && others.iter().all(|(other, _)| !other.is_valid());
        Some(Verdict { text, is_void })
    }

    fn say(&self, of: &Spread) -> String {
        format!("{}{}{}", self.lead, (self.write)(of.median), self.unit)
    }

    /// How much more or less the first is than the other, and what is to be said of that; or why it
    /// is not said.
    fn factor(
        &self,
        (first, of_first): (&Column<'_>, &Spread),
        (other, of_other): (&Column<'_>, &Spread),
    ) -> Result<(String, &'static str), &'static str> {
        if !first.is_valid() || !other.is_valid() {
            return Err("no factor: INVALID");
        }
        if !first.is_like(other) {
            return Err("no factor: under another load");
        }
        if of_first.median <= 0.0 || of_other.median <= 0.0 {
            return Err("no factor: nothing to divide by");
        }
        let factor = match against(of_first.median / of_other.median, self.words) {
            text if text.contains('×') => format!("{text} than"),
            same => format!("{same} as"),
        };
        let is_within = of_first.count > 1 && of_other.count > 1 && of_first.overlaps(of_other);
        Ok((factor, if is_within { ", within the spread of the runs" } else { "" }))
    }
}
