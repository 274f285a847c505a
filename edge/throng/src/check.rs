//! `throng check`: is this configuration right, do the modules load, what is in force?
//!
//! Starts nothing and changes nothing. Data comes in as the checked configuration; a report goes
//! to the standard output, and mistakes to the caller.

use std::io::Write as _;

use crate::config::{Config, Effective, Level};
use crate::{reference, serve};

/// Prints the values in force, the notices and what the modules register.
///
/// # Errors
/// If the modules cannot be loaded, or the output cannot be written.
pub fn run(values: &Effective, config: &Config) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{}", reference::effective(values))?;
    for notice in &config.notices {
        let mark = match notice.level {
            Level::Warn => "warning",
            Level::Error => "WARNING",
        };
        writeln!(out, "{mark}: {}", notice.text)?;
    }
    for line in serve::check_modules(config)? {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "the configuration is right")?;
    Ok(())
}
