//! How long calls of guests take in the rig: as long as a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{CallClock, CallTime};

/// The clocks of workers.
#[derive(Clone, Default)]
pub(crate) struct WorkerClock {
    /// By how many milliseconds the wall clock moves each time somebody looks.
    pub(crate) look_ms: Arc<AtomicU64>,
    /// How many of these a call waited for a processor.
    pub(crate) waited_ms: Arc<AtomicU64>,
    /// How many it was blocked.
    pub(crate) blocked_ms: Arc<AtomicU64>,
}

impl CallClock for WorkerClock {
    fn begin(&mut self) {}

    fn spent(&mut self) -> CallTime {
        let [wall, waited, blocked] = [&self.look_ms, &self.waited_ms, &self.blocked_ms]
            .map(|ms| u32::try_from(ms.load(Ordering::Relaxed) * 1_000).unwrap());
        CallTime { kept_us: wall - waited, computed_us: wall - waited - blocked }
    }
}
