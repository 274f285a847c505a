//! What a comparison says in one line, and what forbids to say it.
//!
//! A factor is given only between columns under the same load of which no run is INVALID; where
//! the ranges of the rounds overlap, the line says so.

use std::fmt::Write as _;

use super::{Column, Section, Value, over};
use crate::load::result::{Summary, figures};
use crate::measure::number::{bytes_f64, group, group_f64, rate, time_f64, times};
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
pub(crate) const MARKS: [&str; 3] = ["INVALID", "ENDED EARLY", "ERRORS"];

/// Something that must stand above the figures.
pub(crate) struct Remark {
    /// One of [`MARKS`].
    pub(crate) mark: &'static str,
    pub(crate) text: String,
}

/// Invalid runs, runs that ended early and errors of a section.
pub(crate) fn remarks(section: &Section<'_>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let each = |remarks: &mut Vec<Remark>, mark, tell: &dyn Fn(&Summary) -> Option<String>| {
        for (name, run) in section.named_runs() {
            if let Some(what) = tell(&run.summary) {
                remarks.push(Remark { mark, text: format!("{name}: {what}.") });
            }
        }
    };
    let [invalid, ended, errors] = MARKS;
    each(&mut remarks, invalid, &|it| {
        let reasons = it.invalid.join("; ");
        (!reasons.is_empty()).then(|| format!("the generator was in the way: {reasons}"))
    });
    each(&mut remarks, ended, &|it| {
        let (counted_s, planned_s) = (it.counted_s, it.settings.planned_s);
        let how = format!("{}, after {counted_s:.1} s of {planned_s:.0} s", it.ended);
        (!it.ended.is_empty()).then_some(how)
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
    is_more_better: bool,
    /// Follows a factor of something of which less is better.
    as_much: &'static str,
}

/// The lines of a section, the most important one first; empty if no run has a figure.
pub(crate) fn verdicts(section: &Section<'_>) -> Vec<Verdict> {
    let mut questions = vec![Question {
        lead: String::new(),
        value: &figures::ops_per_cpu_s,
        write: group_f64,
        unit: " operations per CPU-second",
        is_more_better: true,
        as_much: "",
    }];
    let headline = section.columns.first().and_then(|it| it.runs.first());
    let headline = headline.map_or("", |run| &run.summary.headline);
    if section.is_closed {
        questions.push(Question {
            lead: String::new(),
            value: &figures::answered_per_s,
            write: rate,
            unit: " answered a second",
            is_more_better: true,
            as_much: "",
        });
    } else if !is_about_coming(section) {
        questions.push(Question {
            lead: format!("99 % of {headline} within "),
            value: &figures::response_p99,
            write: time_f64,
            unit: "",
            is_more_better: false,
            as_much: " as long",
        });
    }
    if is_about_coming(section) {
        questions.push(Question {
            lead: String::new(),
            value: &figures::memory_of_player,
            write: bytes_f64,
            unit: " of memory for each player",
            is_more_better: false,
            as_much: " as much",
        });
    }
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
        let of_whom = match others {
            // Alone, it need not be told from others.
            [] => String::new(),
            _ => format!("{} ", first.name),
        };
        let value = (self.write)(of_first.median);
        let mut text = format!("{}{of_whom}{value}{}", self.lead, self.unit);
        let others: Vec<_> =
            others.iter().filter_map(|other| spread(other).map(|it| (other, it))).collect();
        let is_pair = others.len() == 1;
        for (other, of_other) in others.iter().take(OTHERS_MAX) {
            let value = (self.write)(of_other.median);
            let factor = self.factor((first, &of_first), (other, of_other));
            // Writing to a String cannot fail.
            let _ = match (factor, is_pair) {
                (Ok(factor), true) => write!(text, ", {} {value}: {factor}", other.name),
                (Ok(factor), false) => write!(text, "; {} {value} ({factor})", other.name),
                (Err(why), _) => write!(text, "; {} {value} ({why})", other.name),
            };
        }
        if others.len() > OTHERS_MAX {
            let _ = write!(text, "; {} more in the table", others.len() - OTHERS_MAX);
        }
        let is_void = !first.is_valid()
            || !others.is_empty() && others.iter().all(|(other, _)| !other.is_valid());
        Some(Verdict { text, is_void })
    }

    /// How much better the first is, or why that is not said.
    fn factor(
        &self,
        (first, of_first): (&Column<'_>, &Spread),
        (other, of_other): (&Column<'_>, &Spread),
    ) -> Result<String, &'static str> {
        if !first.is_valid() || !other.is_valid() {
            return Err("no factor: INVALID");
        }
        if !first.is_like(other) {
            return Err("no factor: under another load");
        }
        let (more, less) = if self.is_more_better {
            (of_first.median, of_other.median)
        } else {
            (of_other.median, of_first.median)
        };
        if more <= 0.0 || less <= 0.0 {
            return Err("no factor: nothing to divide by");
        }
        let mut text = format!("{}{}", times(more / less), self.as_much);
        if of_first.count > 1 && of_other.count > 1 && of_first.overlaps(of_other) {
            text.push_str(", within the spread of the runs");
        }
        Ok(text)
    }
}
