//! The only place that reads clocks: once a turn of a core, when it has waited. No timers here: the handler owns those.

use std::time::{Instant, SystemTime};

use event::Now;

/// All threads of one engine count from the same start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(self) -> Now {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now {
            mono_ns: u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
