//! A comparison as text for a terminal: what differs between the machines, the verdicts, the table,
//! and of two columns their histograms and percentile curves over each other.
//!
//! In: runs and the terminal's width. Out: lines; a table of many columns is as wide as it has to be.

use super::verdict::{remarks, verdicts};
use super::{Run, Section, differences, plain, plot, rows, sections};
use crate::measure::text::wrap;

/// Columns of text, at least.
const COLUMNS_MIN: usize = 60;

/// Runs of any scenarios as text.
#[must_use]
pub fn text(runs: &[Run], columns: usize) -> String {
    let columns = columns.max(COLUMNS_MIN);
    let mut lines = vec!["Differences of the environment".to_owned()];
    let found = differences(runs);
    if found.is_empty() {
        lines.push("  none that is known".to_owned());
    }
    for (name, values) in found {
        lines.extend(wrap("  ", "      ", &format!("{name}: {values}"), columns));
    }
    for section in sections(runs) {
        lines.push(String::new());
        write_section(&mut lines, &section, columns);
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(plain(&line).trim_end());
        out.push('\n');
    }
    out
}

fn write_section(lines: &mut Vec<String>, section: &Section<'_>, columns: usize) {
    let title = format!("{}: {}", section.scenario, section.title);
    lines.extend(wrap("", "  ", &title, columns));
    for remark in remarks(section) {
        lines.extend(wrap("  ", "      ", &format!("{}: {}", remark.mark, remark.text), columns));
    }
    for verdict in verdicts(section) {
        let void = if verdict.is_void { "(void) " } else { "" };
        lines.extend(wrap("  ", "      ", &format!("{void}{}", verdict.text), columns));
    }
    lines.extend(wrap("  ", "    ", &section.how(), columns));
    lines.push(String::new());
    table(lines, section);
    // How long calls took is not what a flow is about.
    if section.is_flow() {
        return;
    }
    for part in [plot::histogram(section, columns), plot::curves(section, columns)] {
        if !part.is_empty() {
            lines.push(String::new());
            lines.extend(part);
        }
    }
}

/// A cell with blanks behind it or, of numbers, before it.
fn pad(cell: &str, width: usize, is_right: bool) -> [String; 2] {
    let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
    if is_right { [blanks, cell.to_owned()] } else { [cell.to_owned(), blanks] }
}

/// The rows, each column as wide as its widest cell.
fn table(lines: &mut Vec<String>, section: &Section<'_>) {
    let factor = section.factor_name().is_some();
    let mut cells: Vec<Vec<String>> = Vec::new();
    let heads = section.columns.iter().map(|column| {
        let invalid = if column.is_valid() { "" } else { " (INVALID)" };
        format!("{}{invalid}", column.name)
    });
    let mut head: Vec<String> = std::iter::once(String::new()).chain(heads).collect();
    if factor {
        head.push("change (99 % interval)".to_owned());
    }
    cells.push(head);
    for row in rows(section) {
        let mut line = vec![row.name.clone()];
        line.extend(row.cells.iter().map(|cell| cell.text.clone()));
        if factor && !row.cells.is_empty() {
            line.push(row.against());
        }
        cells.push(line);
    }
    let width = |column: usize| {
        // The head of a block stands over the columns.
        let texts = cells.iter().filter(|row| row.len() > 1).filter_map(|row| row.get(column));
        texts.map(|it| it.chars().count()).max().unwrap_or(0)
    };
    let count = section.columns.len();
    let widths: Vec<usize> = (0..=count).map(width).collect();
    for row in &cells {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let width = widths.get(at).copied().unwrap_or(0);
            let gap = if at == 0 { "  " } else { "   " };
            line.push_str(gap);
            match at {
                _ if row.len() == 1 => line.push_str(cell),
                0 => line.extend(pad(cell, width, false)),
                at if at <= count => line.extend(pad(cell, width, true)),
                _ => line.push_str(cell),
            }
        }
        lines.push(line);
    }
}
