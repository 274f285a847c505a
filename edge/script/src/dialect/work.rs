//! What a translation costs: every pass pays for each step it takes, so that the running call's
//! budget ends it whatever the text is; and it may not grow without bound, because the compiler
//! behind it cannot be interrupted.
//!
//! Data: steps in, the budget's answer out. Outside of a call, as when modules are read at the
//! start, nothing is refused.

use super::Trouble;
use crate::budget;

/// What a step costs, about: a token read, a name looked up, a change written.
const STEP_NS: usize = 50;

/// Steps that are paid for together.
const STEPS_PER_PAYMENT: usize = 256;

/// The steps of one translation, and the bytes it may write.
#[derive(Debug)]
pub(crate) struct Work {
    steps: usize,
    unpaid: usize,
    bytes_max: usize,
}

impl Work {
    /// The text for the compiler may have `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { steps: 0, unpaid: 0, bytes_max }
    }

    /// For a module, whose author is trusted with the server.
    pub(crate) fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    /// Pays for `steps`.
    ///
    /// # Errors
    /// [`Trouble::Budget`] when the running call's time is over.
    pub(super) fn pay(&mut self, steps: usize) -> Result<(), Trouble> {
        self.steps = self.steps.saturating_add(steps);
        self.unpaid = self.unpaid.saturating_add(steps);
        if self.unpaid < STEPS_PER_PAYMENT {
            return Ok(());
        }
        let cost_ns = std::mem::take(&mut self.unpaid).saturating_mul(STEP_NS);
        budget::spend(u32::try_from(cost_ns).unwrap_or(u32::MAX)).map_err(Trouble::Budget)
    }

    /// Whether a translated text may have so many bytes.
    ///
    /// # Errors
    /// [`Trouble::TooLong`].
    pub(super) fn check_bytes(&self, bytes: usize) -> Result<(), Trouble> {
        if bytes <= self.bytes_max { Ok(()) } else { Err(Trouble::TooLong(self.bytes_max)) }
    }

    /// Steps so far.
    #[cfg(test)]
    pub(super) fn steps(&self) -> usize {
        self.steps
    }
}
