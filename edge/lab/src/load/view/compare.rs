//! Several runs side by side: a section for each scenario and kind of loop, a column for each
//! server and setting, in the rows that Nakama's benchmark page made known. Rounds of the same
//! name and settings are one column: the median, and the lowest and highest.
//!
//! Runs go in as [`Run`], what is before first; [`text`] makes what a terminal shows, [`markdown`]
//! the text for a README, and `report::comparison` the page, all from the same sections, rows and
//! verdicts, and all begin with what differs between the machines. Nothing here measures, and no figure of
//! unlike runs is ever joined: what differs is said.

mod columns;
mod delta;
mod differences;
mod plot;
mod rows;
mod terminal;
mod verdict;

use std::fmt::Write as _;

pub(super) use columns::{Column, Section, sections};
pub(super) use differences::{common, differences};
pub(super) use plot::shares;
pub(super) use rows::{Row, Value, over, rows};
pub(super) use verdict::{MARKS, is_about_coming, remarks, verdicts};

use crate::load::result::{Second, Summary};
pub use crate::measure::link::relative;
pub use terminal::text;

/// One run, as it is handed in.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// What it was run on: a server, a number of nodes. Runs of one name are rounds of one column
    /// if their settings are the same.
    pub name: String,
    /// Its result.
    pub summary: Summary,
    /// Where its own report lies, as a link from the page; none if it has no report.
    pub report: Option<String>,
}

/// Runs of any scenarios as Markdown: a table for each section.
#[must_use]
pub fn markdown(runs: &[Run]) -> String {
    let mut out = String::new();
    for (name, values) in differences(runs) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "- differs: {}: {}", plain(&name), plain(&values));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    for section in sections(runs) {
        let _ = write_section(&mut out, &section);
    }
    out
}

fn write_section(out: &mut String, section: &Section<'_>) -> std::fmt::Result {
    writeln!(out, "### {}: {}\n", plain(section.scenario), plain(section.title))?;
    for remark in remarks(section) {
        writeln!(out, "**{}** {}\n", remark.mark, plain(&remark.text))?;
    }
    for verdict in verdicts(section) {
        writeln!(out, "**{}**\n", plain(&verdict.text))?;
    }
    writeln!(out, "{}\n", plain(&section.how()))?;
    let rows = rows(section);
    let factor = section.factor_name();
    let heads = section.columns.iter().map(|column| {
        let invalid = if column.is_valid() { "" } else { " (INVALID)" };
        format!("{}{invalid}", column.name)
    });
    let heads: Vec<String> = heads.chain(factor.clone()).map(|head| cell(&head)).collect();
    writeln!(out, "| | {} |", heads.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(heads.len()))?;
    for row in &rows {
        let name =
            if row.cells.is_empty() { format!("**{}**", row.name) } else { row.name.clone() };
        write!(out, "| {} |", cell(&name))?;
        for index in 0..section.columns.len() {
            let text =
                row.cells.get(index).map(crate::measure::spread::Cell::line).unwrap_or_default();
            write!(out, " {} |", cell(&text))?;
        }
        if factor.is_some() {
            write!(out, " {} |", row.against())?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Text that cannot end a cell or a line.
fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}

fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests;
