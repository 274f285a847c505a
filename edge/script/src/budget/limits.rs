//! What a call may use, with the settings that move it, as its author is told when it is used up.

use super::Allowed;

/// What one call may use, and which settings say so.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Milliseconds.
    pub budget_ms: u32,
    /// The setting of that.
    pub budget_setting: &'static str,
    /// Bytes of its VM.
    pub memory_bytes: usize,
    /// The setting of that.
    pub memory_setting: &'static str,
    /// Whether it is a match's callback.
    pub is_match: bool,
}

impl Limits {
    /// What the call is given.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed {
            time_ms: self.budget_ms,
            memory_bytes: self.memory_bytes,
            is_match: self.is_match,
        }
    }

    /// What is said of a call that used up its time.
    #[must_use]
    pub fn time_used_up(&self) -> String {
        let Self { budget_ms, budget_setting, .. } = self;
        format!("script used up its {budget_ms} ms ({budget_setting})")
    }

    /// What is said of a call that wanted more memory than there is for its VM.
    #[must_use]
    pub fn memory_used_up(&self) -> String {
        let Self { memory_bytes, memory_setting, .. } = self;
        format!("script used up its {memory_bytes} bytes ({memory_setting})")
    }
}
