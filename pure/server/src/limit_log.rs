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
        self.hit_by(now, setting, || what.to_string());
    }

    /// As [`LimitLog::hit`], where finding out what to say costs something: that is asked only if it
    /// is said.
    pub fn hit_by(&mut self, now: Now, setting: &'static str, what: impl FnOnce() -> String) {
        if let Some(unsaid) = self.0.note(now, setting) {
            let line = line_of(setting, &what());
            tracing::warn!(unsaid, "{line}");
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
    use event::Now;

    use super::{LimitLog, line_of};

    #[test]
    fn what_is_not_said_is_not_found_out() {
        let (mut log, mut asked) = (LimitLog::default(), 0);
        for ms in 0..2_500 {
            log.hit_by(Now::default().after_ms(ms), "limit.a", || {
                asked += 1;
                "full".to_owned()
            });
        }
        assert_eq!(asked, 3);
    }

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
