//! The time budget of a call: CPU time of the thread, so that a busy machine does not punish
//! scripts for what others do. Luau asks at every loop turn and call ([`Budget::tick`]); the wall
//! clock, which is cheap to read, says when a look at the CPU clock can matter at all.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use mlua::Lua;

/// Looks at the clock once in this many ticks: a tick costs about 20 ns, a look 30 ns.
const TICKS_PER_LOOK: u32 = 16;

/// A reading of the CPU clock (0.3 µs, a system call) is good for this long; budgets are that much
/// longer, so that calls which start within it are not charged for what ran before them.
const READING_NS: u64 = 1_000_000;

/// What is added by [`Budget::exempt`] in one call at most.
const EXEMPT_NS_MAX: u64 = 5_000_000_000;

/// The budget of one VM. Calls on one VM do not nest.
#[derive(Debug)]
pub(crate) struct Budget {
    ticks: AtomicU32,
    /// When the wall clock makes the next look at the CPU clock worthwhile; `u64::MAX` for none.
    look_ns: AtomicU64,
    /// The CPU clock's reading at which the budget is used up.
    end_cpu_ns: AtomicU64,
    exempt_ns: AtomicU64,
    exceeded: AtomicBool,
    location: Mutex<String>,
}

/// The process' first instant here, and this thread's latest reading of both clocks.
struct Clocks {
    base: Instant,
    wall_ns: Cell<u64>,
    cpu_ns: Cell<u64>,
}

thread_local! {
    static CLOCKS: Clocks =
        Clocks { base: Instant::now(), wall_ns: Cell::new(0), cpu_ns: Cell::new(0) };
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn wall_ns() -> u64 {
    // 0 is kept for "never read".
    CLOCKS.with(|clocks| nanoseconds(clocks.base.elapsed()).saturating_add(READING_NS + 1))
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU32::new(0),
            look_ns: AtomicU64::new(u64::MAX),
            end_cpu_ns: AtomicU64::new(u64::MAX),
            exempt_ns: AtomicU64::new(0),
            exceeded: AtomicBool::new(false),
            location: Mutex::new(String::new()),
        }
    }

    /// Starts a call that may use `budget_ms` milliseconds of CPU time.
    pub(crate) fn begin(&self, budget_ms: u32) {
        let wall_ns = wall_ns();
        let cpu_ns = CLOCKS.with(|clocks| {
            if wall_ns.saturating_sub(clocks.wall_ns.get()) > READING_NS {
                clocks.wall_ns.set(wall_ns);
                clocks.cpu_ns.set(cpu_ns());
            }
            clocks.cpu_ns.get()
        });
        let budget_ns = u64::from(budget_ms) * 1_000_000;
        self.end_cpu_ns.store(cpu_ns + budget_ns + READING_NS, Relaxed);
        self.look_ns.store(wall_ns + budget_ns, Relaxed);
        self.exempt_ns.store(0, Relaxed);
        self.exceeded.store(false, Relaxed);
    }

    /// Ends the call. Returns where the budget was used up, if it was.
    pub(crate) fn end(&self) -> Option<String> {
        self.look_ns.store(u64::MAX, Relaxed);
        let exceeded = self.exceeded.swap(false, Relaxed);
        exceeded.then(|| self.location.lock().map_or_else(|_| String::new(), |l| l.clone()))
    }

    /// Luau's question whether to go on. Once the answer was no, it stays no until the call ends:
    /// a script that catches the error is stopped again at its next step.
    pub(crate) fn tick(&self, lua: &Lua) -> mlua::Result<mlua::VmState> {
        let ticks = self.ticks.load(Relaxed).wrapping_add(1);
        self.ticks.store(ticks, Relaxed);
        if ticks.is_multiple_of(TICKS_PER_LOOK) || self.exceeded.load(Relaxed) {
            self.look(lua)
        } else {
            Ok(mlua::VmState::Continue)
        }
    }

    #[cold]
    fn look(&self, lua: &Lua) -> mlua::Result<mlua::VmState> {
        if !self.exceeded.load(Relaxed) {
            let wall_ns = wall_ns();
            if wall_ns < self.look_ns.load(Relaxed) {
                return Ok(mlua::VmState::Continue);
            }
            let left_ns = self.end_cpu_ns.load(Relaxed).saturating_sub(cpu_ns());
            if left_ns > 0 {
                // CPU time cannot pass faster than the wall clock's.
                self.look_ns.store(wall_ns + left_ns, Relaxed);
                return Ok(mlua::VmState::Continue);
            }
            self.exceeded.store(true, Relaxed);
            if let Ok(mut location) = self.location.lock() {
                *location = crate::failure::where_now(lua);
            }
        }
        Err(mlua::Error::runtime("out of time"))
    }

    /// Runs something slow that is not the script's fault (password hashing), and moves the end
    /// of the budget by what it took.
    pub(crate) fn exempt<R>(&self, work: impl FnOnce() -> R) -> R {
        let before_ns = cpu_ns();
        let result = work();
        let taken_ns = cpu_ns().saturating_sub(before_ns);
        let so_far_ns = self.exempt_ns.load(Relaxed);
        let granted_ns = taken_ns.min(EXEMPT_NS_MAX.saturating_sub(so_far_ns));
        self.exempt_ns.store(so_far_ns + granted_ns, Relaxed);
        self.end_cpu_ns.fetch_add(granted_ns, Relaxed);
        result
    }
}
