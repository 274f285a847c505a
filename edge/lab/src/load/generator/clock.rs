//! The machine's clock beside the engine's time: how long a turn has lasted, which the engine does
//! not tell, and stamps that several processes agree on. Tests make up their time and have none.

use std::time::Instant;

/// The machine's clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// `CLOCK_MONOTONIC` minus the engine's time.
    offset_ns: u64,
    /// One moment as the machine and as the engine tell it.
    base: Option<(Instant, u64)>,
}

impl Clock {
    /// Takes the machine's clock as the base of stamps.
    pub(super) fn read(now_ns: u64) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let mono_ns = seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0);
        let offset_ns = mono_ns.saturating_sub(now_ns);
        Self { offset_ns, base: Some((Instant::now(), now_ns)) }
    }

    /// How long the turn that began at `now_ns` has lasted until now; 0 without the machine's clock.
    pub(super) fn turn_ns(&self, now_ns: u64) -> u64 {
        let Some((base, base_ns)) = self.base else { return 0 };
        let elapsed_ns = u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX);
        base_ns.saturating_add(elapsed_ns).saturating_sub(now_ns)
    }

    /// The engine's time as all processes of the machine tell it.
    pub(super) fn stamp_ns(&self, now_ns: u64) -> u64 {
        now_ns + self.offset_ns
    }
}
