//! Limits that were hit, in the log: each kind at most once a second, with the setting that moves
//! it and how often it was hit since the line before. Every handler owns one [`LimitLog`]; the
//! counters beside it tell the exact numbers.
//!
//! Where there is no `tracing` or no handler (`edge/engine`, `edge/store`), [`event::OncePerSecond`]
//! is what decides here and can be used there.

use std::fmt::Display;

use event::{Now, OncePerSecond};

/// What one thread says about limits.
#[derive(Debug, Default)]
pub struct LimitLog(OncePerSecond);

impl LimitLog {
    /// Says that a limit was hit: `setting` is the name of the option that moves it, `what` says
    /// whom it hit and what happens to them (`a match's queue is full, messages are dropped`). It
    /// is formatted only if it is said, so pass `format_args!`.
    pub fn hit(&mut self, now: Now, setting: &'static str, what: impl Display) {
        if let Some(unsaid) = self.0.note(now, setting) {
            tracing::warn!(unsaid, "{}", line_of(setting, &what.to_string()));
        }
    }

    /// As [`LimitLog::hit`], for what no setting moves; `kind` is told apart from other kinds, and
    /// not said.
    pub fn note(&mut self, now: Now, kind: &'static str, what: impl Display) {
        if let Some(unsaid) = self.0.note(now, kind) {
            tracing::warn!(unsaid, "{what} (said once a second)");
        }
    }
}

/// A line that names the setting, once.
fn line_of(setting: &str, what: &str) -> String {
    if what.contains(setting) {
        format!("{what} (said once a second)")
    } else {
        format!("{what}; {setting} moves this limit (said once a second)")
    }
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn the_setting_is_named_once() {
        for (what, line) in [
            ("full", "full; limit.a moves this limit (said once a second)"),
            ("full (limit.a is 5)", "full (limit.a is 5) (said once a second)"),
        ] {
            assert_eq!(line_of("limit.a", what), line);
        }
    }
}
