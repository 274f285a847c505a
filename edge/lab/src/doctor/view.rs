//! The checks as text for a terminal: warnings first with all that is known of them, then the rest by
//! group, a line each.
//!
//! In: findings. Out: lines of 80 columns, or of the terminal's; commands are never broken, so that
//! they can be copied. Colours are ANSI's basic ones.

use std::fmt::Write as _;
use std::path::Path;

use super::{Applied, Finding, Undone, Verdict};
use crate::measure::text::wrap;

/// Columns of text, whatever the terminal has beyond them.
const COLUMNS_MAX: usize = 100;
/// Columns of a check's name.
const NAME: usize = 22;
/// Columns before what belongs to a check.
const INDENT: &str = "      ";

const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const GREEN: &str = "\x1b[32m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// How it may be drawn.
struct Pen {
    has_colours: bool,
    columns: usize,
}

impl Pen {
    fn paint(&self, colour: &str, text: &str) -> String {
        if self.has_colours { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }

    fn wrap(&self, first: &str, rest: &str, text: &str) -> Vec<String> {
        wrap(first, rest, text, self.columns)
    }
}

/// All findings. `columns` is the terminal's width, `has_colours` whether it takes colours.
#[must_use]
pub fn text(findings: &[Finding], columns: usize, has_colours: bool) -> String {
    let pen = Pen { has_colours, columns: columns.clamp(40, COLUMNS_MAX) };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut out, findings, &pen);
    out
}

fn write_all(out: &mut String, findings: &[Finding], pen: &Pen) -> std::fmt::Result {
    let of = |verdict: Verdict| findings.iter().filter(move |it| it.check.verdict == verdict);
    for verdict in [Verdict::Unread, Verdict::Warn] {
        let mut group = None;
        for finding in of(verdict) {
            if group.replace(finding.group) != Some(finding.group) {
                writeln!(out, "{}", pen.paint(BOLD, finding.group.word()))?;
            }
            write_warning(out, finding, pen)?;
        }
    }
    if !out.is_empty() {
        writeln!(out)?;
    }
    let mut group = None;
    for finding in of(Verdict::Ok) {
        if group.replace(finding.group) != Some(finding.group) {
            writeln!(out, "{}", pen.paint(BOLD, finding.group.word()))?;
        }
        let check = &finding.check;
        let narrow = Pen { columns: pen.columns - INDENT.len(), ..*pen };
        let rest = " ".repeat(NAME + 1);
        let lines = narrow.wrap(&format!("{:NAME$} ", check.id), &rest, &check.value);
        for (at, line) in lines.into_iter().enumerate() {
            match at {
                0 => writeln!(out, "{}  {line}", pen.paint(GREEN, "ok  "))?,
                _ => writeln!(out, "{INDENT}{line}")?,
            }
        }
    }
    let absent: Vec<&str> = of(Verdict::NotApplicable).map(|it| &*it.check.id).collect();
    if !absent.is_empty() {
        writeln!(out, "{}", pen.paint(BOLD, "Not applicable here"))?;
        for line in pen.wrap(INDENT, INDENT, &absent.join(", ")) {
            writeln!(out, "{}", pen.paint(DIM, &line))?;
        }
    }
    writeln!(out)?;
    let count = |verdict| of(verdict).count();
    let curable: Vec<&str> =
        findings.iter().filter(|it| !it.changes.is_empty()).map(|it| &*it.check.id).collect();
    let mut line = format!(
        "{} check{}: {} ok, {} to see to, {} not applicable",
        findings.len(),
        if findings.len() == 1 { "" } else { "s" },
        count(Verdict::Ok),
        count(Verdict::Warn),
        count(Verdict::NotApplicable)
    );
    if count(Verdict::Unread) > 0 {
        write!(line, ", {} could not be read", count(Verdict::Unread))?;
    }
    line.push('.');
    match curable.len() {
        0 if count(Verdict::Warn) > 0 => line.push_str(" --apply changes none of them."),
        0 => {}
        changed => write!(
            line,
            " --apply changes {changed} of them ({}), and --undo puts that back.",
            curable.join(", ")
        )?,
    }
    for line in pen.wrap("", "", &line) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn write_warning(out: &mut String, finding: &Finding, pen: &Pen) -> std::fmt::Result {
    let check = &finding.check;
    let (colour, word) = match check.verdict {
        Verdict::Unread => (RED, "????"),
        Verdict::Ok | Verdict::Warn | Verdict::NotApplicable => (YELLOW, "WARN"),
    };
    let head = format!("{word}  {}: ", check.id);
    let lines = pen.wrap(&head, INDENT, &check.value);
    for (at, line) in lines.into_iter().enumerate() {
        match line.strip_prefix(word).filter(|_| at == 0) {
            Some(rest) => writeln!(out, "{}{rest}", pen.paint(colour, word))?,
            None => writeln!(out, "{line}")?,
        }
    }
    for line in pen.wrap(INDENT, INDENT, &check.why) {
        writeln!(out, "{line}")?;
    }
    if !check.cure.is_empty() {
        // Whole, however long: it is to be copied.
        writeln!(out, "{INDENT}{}", pen.paint(BOLD, &check.cure))?;
    }
    if !finding.changes.is_empty() {
        let paths: Vec<&str> = finding.changes.iter().map(|it| &*it.path).take(2).collect();
        let more = finding.changes.len() - paths.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let line = format!("--apply does it: writes {}{more}", paths.join(", "));
        for line in pen.wrap(INDENT, INDENT, &line) {
            writeln!(out, "{}", pen.paint(GREEN, &line))?;
        }
    }
    for line in pen.wrap(&format!("{INDENT}read in "), INDENT, &check.source) {
        writeln!(out, "{}", pen.paint(DIM, &line))?;
    }
    Ok(())
}

/// What was changed, and how to put it back; `record` is where that is kept.
#[must_use]
pub fn text_of_applied(applied: &[Applied], record: &Path) -> String {
    let mut out = String::new();
    for Applied { change, error } in applied {
        let (id, path, before, after) = (&change.id, &change.path, &change.before, &change.after);
        // Writing to a String cannot fail.
        let _ = match error {
            None => writeln!(out, "changed {id}: {path}: {before} -> {after}"),
            Some(error) => writeln!(out, "NOT changed {id}: {path}: {error}"),
        };
    }
    let is_denied = |it: &Applied| {
        it.error.as_ref().is_some_and(|it| it.kind() == std::io::ErrorKind::PermissionDenied)
    };
    if applied.iter().any(is_denied) {
        let _ = writeln!(out, "Settings of the kernel are root's: sudo throng doctor --apply");
    }
    let done = applied.iter().filter(|it| it.error.is_none()).count();
    let _ = match done {
        0 => writeln!(out, "Nothing was changed."),
        _ => writeln!(
            out,
            "{done} values changed, until the next start of the machine. They are kept in\n{}\nand \
             `throng doctor --undo` puts them back (by hand: write the old value to the file).",
            record.display()
        ),
    };
    out
}

/// What was put back.
#[must_use]
pub fn text_of_undone(undone: &[Undone], record: &Path) -> String {
    let mut out = String::new();
    for it in undone {
        // Writing to a String cannot fail.
        let _ = match it {
            Undone::Restored(was) => {
                writeln!(out, "restored {}: {} -> {}", was.path, was.after, was.before)
            }
            Undone::Already(was) => writeln!(out, "as it was {}: {}", was.path, was.before),
            Undone::ChangedSince(was, now) => writeln!(
                out,
                "left alone {}: somebody has written {now} since (it was {})",
                was.path, was.before
            ),
            Undone::OtherStart(was) => {
                writeln!(out, "gone {}: the machine was started since", was.path)
            }
            Undone::OtherNamespace(was) => {
                writeln!(out, "NOT restored {}: made in another network namespace", was.path)
            }
            Undone::Failed(was, error) => writeln!(out, "NOT restored {}: {error}", was.path),
        };
    }
    if undone.is_empty() {
        let _ = writeln!(out, "Nothing to put back: {} has no changes.", record.display());
    }
    out
}
