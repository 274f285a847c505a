//! How many instances may live at once: each takes a few of the mappings that a process may have
//! (`vm.max_map_count`), and with the last of them the next large allocation of the whole server would fail,
//! whoever asked for it. So a match begins while those of all instances are less than three
//! quarters, and an instance for calls while they are less than seven eighths: matches alone never keep calls from
//! beginning.
//!
//! In: that an instance begins, or is gone. Not here: its memory (`memory`).
//!
//! Source: Linux `Documentation/admin-guide/sysctl/vm.rst`, `max_map_count`.

use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Mappings of an instance, rounded up: its stack and what guards it; what guards its memory, the memory itself (one to
/// three, with those pages that it shares), and the rest that it may grow into.
pub const MAPPINGS_PER_INSTANCE: usize = 7;

/// Of the mappings that the process may have, those of instances when a match may begin, and a call's instance: so many
/// eighths.
const MATCH_EIGHTHS: usize = 6;
const CALL_EIGHTHS: usize = 7;

/// What the kernel allows unless it is told otherwise.
const DEFAULT_MAX_MAP_COUNT: usize = 65_530;

static OF_PROCESS: LazyLock<Mappings> = LazyLock::new(|| {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let max = text.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_MAX_MAP_COUNT);
    Mappings::new(max)
});

/// The instances of a process that may have so many mappings.
#[derive(Debug)]
struct Mappings {
    max_map_count: usize,
    instance_count: AtomicUsize,
}

/// The mappings of one instance, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(&'static Mappings);

impl Place {
    /// A place for one instance more, of a match or for calls.
    ///
    /// # Errors
    /// There is none; says which setting of the kernel makes more.
    pub(crate) fn take(is_match: bool) -> Result<Self, String> {
        OF_PROCESS.take(is_match)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let before = self.0.instance_count.fetch_sub(1, Relaxed);
        assert!(before > 0, "a place was given back twice");
    }
}

impl Mappings {
    const fn new(max_map_count: usize) -> Self {
        Self { max_map_count, instance_count: AtomicUsize::new(0) }
    }

    fn take(&'static self, is_match: bool) -> Result<Place, String> {
        let eighths = if is_match { MATCH_EIGHTHS } else { CALL_EIGHTHS };
        let instances_max = self.max_map_count / 8 * eighths / MAPPINGS_PER_INSTANCE;
        // Given back by the place, also where it was one too many.
        let before = self.instance_count.fetch_add(1, Relaxed);
        let place = Place(self);
        if before < instances_max {
            return Ok(place);
        }
        Err(format!(
            "{before} instances of WebAssembly modules run, and one more could leave the process without memory \
             mappings; raise the kernel's vm.max_map_count, which is {}",
            self.max_map_count
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_leave_room_for_calls_and_who_is_gone_for_others() {
        static FEW: Mappings = Mappings::new(8 * MAPPINGS_PER_INSTANCE);
        let matches: Vec<Place> = (0..6).map(|_| FEW.take(true).unwrap()).collect();
        let refusal = FEW.take(true).unwrap_err();
        assert!(refusal.ends_with("vm.max_map_count, which is 56"), "{refusal}");
        let call = FEW.take(false).unwrap();
        assert!(FEW.take(false).is_err(), "a refusal takes nothing, and gives nothing");
        drop((matches, call));
        assert!(FEW.take(true).is_ok());
    }
}
