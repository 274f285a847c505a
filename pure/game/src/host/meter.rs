//! What a host function pays with: the time and memory of the call that it works for. The language
//! binding keeps the books (`edge/script`); here is only what functions ask of it.

use crate::guest::HostError;

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

    /// How long a statement or a question to another thread may take, milliseconds; 0 when the
    /// time is over.
    fn time_left_ms(&self) -> u32;

    /// Whether others wait for this thread, as in a match's callback: what takes as long as a
    /// whole budget and cannot be interrupted is refused then.
    fn keeps_others_waiting(&self) -> bool;
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
