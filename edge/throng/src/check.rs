//! `throng check`: is this configuration right, do the modules load, what is in force?
//!
//! Starts nothing and changes nothing. Data comes in as the checked configuration; a report goes
//! to the standard output, and mistakes to the caller.
//!
//! It fails if the configuration is wrong, if a module does not load (what the text of all says is
//! printed before), and for what is certain to
//! fail when it is run: a call of a function that there is not, a match that lacks callbacks. What
//! may be meant, such as a function that is not built yet, is a warning; `--strict` fails for these
//! as well.

use std::io::Write as _;

use anyhow::bail;

use crate::config::{Config, Effective, Level};
use crate::{reference, serve};

/// Prints the values in force, the notices and what the modules register.
///
/// # Errors
/// If the modules cannot be loaded or are certain to fail, with `strict` for any warning, or if the
/// output cannot be written.
pub fn run(values: &Effective, config: &Config, strict: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{}", reference::effective(values))?;
    for notice in &config.notices {
        let mark = match notice.level {
            Level::Note => "note",
            Level::Warn => "warning",
            Level::Error => "WARNING",
        };
        writeln!(out, "{mark}: {}", notice.text)?;
    }
    let serve::Checked { lines, findings, failed } = serve::check_modules(config)?;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    for finding in &findings {
        let mark = if finding.is_certain { "error" } else { "warning" };
        writeln!(out, "{mark}: {}", finding.text)?;
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    let errors = findings.iter().filter(|finding| finding.is_certain).count();
    if errors > 0 {
        bail!("{errors} of the lines above are certain to fail when they are run");
    }
    let warned = config.notices.iter().filter(|notice| notice.level != Level::Note);
    let warnings = findings.len() + warned.count();
    if strict && warnings > 0 {
        bail!("{warnings} warnings, and with --strict none is allowed");
    }
    writeln!(out, "the configuration is right")?;
    Ok(())
}
