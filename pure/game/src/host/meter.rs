//! What a host function pays with: the time and memory of the call that it works for. The language
//! binding keeps the books (`edge/script`); here is only what functions ask of it.

use std::cell::Cell;

use crate::guest::{Allowance, HostError};

/// Steps of a millisecond.
const STEPS_PER_MS: u64 = 1_000_000;

/// The budget of the running call.
pub trait Meter {
    /// Pays for so many steps of about a nanosecond each: a byte hashed, a node visited.
    ///
    /// # Errors
    /// The call's time is over; hand the error on.
    fn spend(&self, steps: u32) -> Result<(), HostError>;

    /// Counts bytes that are held outside the script's memory until the host function returns, its
    /// result included. Ask before they are allocated.
    ///
    /// # Errors
    /// They do not fit into the script's memory besides what it holds; hand the error on.
    fn hold(&self, bytes: usize) -> Result<(), HostError>;

    /// How many bytes may be produced before memory or time of the call are used up, about.
    fn bytes_left(&self) -> usize {
        usize::MAX
    }

    /// How long a statement or a question to another thread may take, milliseconds; 0 when the
    /// time is over.
    fn time_left_ms(&self) -> u32;

    /// Whether others wait for this thread, as in a match's callback: what takes as long as a
    /// whole budget and cannot be interrupted is refused then.
    fn keeps_others_waiting(&self) -> bool;
}

/// What a call had left, in numbers: for a function that runs for it on another thread.
#[derive(Debug)]
pub struct Remaining {
    steps: u64,
    used_steps: Cell<u64>,
    bytes: Cell<usize>,
}

impl Remaining {
    /// So much.
    #[must_use]
    pub fn new(allowance: Allowance) -> Self {
        let steps = u64::from(allowance.time_ms).saturating_mul(STEPS_PER_MS);
        Self { steps, used_steps: Cell::new(0), bytes: Cell::new(allowance.memory_bytes) }
    }

    /// The steps that were paid for.
    #[must_use]
    pub fn used_steps(&self) -> u64 {
        self.used_steps.get()
    }
}

impl Meter for Remaining {
    fn spend(&self, steps: u32) -> Result<(), HostError> {
        let used = self.used_steps.get().saturating_add(u64::from(steps));
        self.used_steps.set(used.min(self.steps));
        if used <= self.steps { Ok(()) } else { Err(HostError::new("out of time")) }
    }

    fn hold(&self, bytes: usize) -> Result<(), HostError> {
        let left = self.bytes.get().checked_sub(bytes);
        self.bytes.set(left.unwrap_or(0));
        left.map(drop).ok_or_else(|| HostError::new("not enough memory"))
    }

    fn time_left_ms(&self) -> u32 {
        let left = self.steps.saturating_sub(self.used_steps.get()).div_ceil(STEPS_PER_MS);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    fn keeps_others_waiting(&self) -> bool {
        false
    }
}

/// A meter that always runs, for tests and for work that no script waits for.
#[derive(Clone, Copy, Debug)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn spend(&self, _steps: u32) -> Result<(), HostError> {
        Ok(())
    }

    fn hold(&self, _bytes: usize) -> Result<(), HostError> {
        Ok(())
    }

    fn time_left_ms(&self) -> u32 {
        u32::MAX
    }

    fn keeps_others_waiting(&self) -> bool {
        false
    }
}
