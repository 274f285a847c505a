//! What one call of a script may use: time and memory. A call begins with [`begin`] on its thread
//! and ends with [`Running::end`]; while it runs, everything on this thread that works for it pays
//! here, without being handed anything:
//!
//! - Luau asks at every loop turn and call (`tick`), nothing to be done for it;
//! - a **library function in Rust that loops over its input** calls `spend` with the steps that
//!   it is about to take (a step is about a nanosecond of work: a byte compared, a node visited)
//!   and hands the error on with `?`; cheap enough for every turn of an inner loop;
//! - whoever holds **memory outside the VM** for the call asks `check_bytes` before it is
//!   allocated; strings and tables made through `Lua` are counted by the VM itself;
//! - a **host function** does both through `Args::meter` (`VmMeter`), which also tells how long a
//!   statement may take.
//!
//! Time is what the call keeps its thread from its neighbours: CPU time, or half the time that it
//! did not wait for a processor, whichever is more. So a call that blocks (in a statement, at a
//! lock) is stopped after twice its budget, and a busy machine does not punish scripts for what
//! others do. The wall clock, which is cheap to read, says
//! when a look at the other clocks can matter at all.
//!
//! A call that waits for another thread runs in pieces (`Running::pause`, `go_on`); the time in
//! between is not charged. Where it shares its thread with sockets, a piece has a slice besides
//! (`begin_slice`): then its coroutine yields at the next place where it can, and the others have their
//! turn. In a comparator or a metamethod it cannot, and goes on.
//!
//! How much all VMs of the process hold together is in `memory`, and which settings a call's budget is
//! moved by in `limits`.
//!
//! Calls nest while modules load: the inner one has what is left of the outer one's time at most.
//!
//! Source: Linux `Documentation/scheduler/sched-stats.rst` for `/proc/<pid>/schedstat`.

mod limits;
mod memory;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use game::guest::{Allowance, HostError};
use game::host::Meter;
use mlua::Lua;

pub use limits::{GuestLimits, Limits, SharedMemory};
pub use memory::{ALL_MEMORY, HeldMemory, VmMemory};

use crate::failure::NO_MEMORY;
use crate::{lend, vm};

/// Looks at the clock once in this many ticks: a tick costs about 20 ns, a look 30 ns.
const TICKS_PER_LOOK: u32 = 16;

/// Looks at the clock once in this many steps of [`spend`].
const STEPS_PER_LOOK: u32 = 16_384;

/// A reading of the CPU clock (0.3 µs, a system call) is good for this long; budgets are that much
/// longer, so that calls which start within it are not charged for what ran before them.
const READING_NS: u64 = 1_000_000;

/// The same for the time that the thread waited for a processor (about 1.5 µs, a read of a file).
/// An older reading only makes the budget longer, by what the thread waited since.
const WAITED_READING_NS: u64 = 20_000_000;

/// Blocked time counts this much less than CPU time: in a virtual machine some of it is its host's
/// doing, and looks the same.
const BLOCKED_PER_BUDGET: u64 = 2;

/// Where nothing tells how long a thread waited for a processor, the wall clock counts this much
/// less than the CPU's.
const WALL_PER_BUDGET: u64 = 10;

/// How often a script that computes asks whether others are to write, however much it has written
/// before.
const REST_NS: u64 = 250_000;

/// What a script is told once its time is over.
const OUT_OF_TIME: &str = "out of time";

/// Bytes outside the VM that nobody needs to be asked for: most calls of host functions hold less.
const FREE_BYTES: usize = 64 * 1024;

/// What one call may use.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Milliseconds.
    pub time_ms: u32,
    /// Bytes, of the VM and of what is held outside for the call, together.
    pub memory_bytes: usize,
    /// Whether others wait for this thread while it runs: a match's callback on its room.
    pub is_match: bool,
}

/// The call that runs on this thread.
struct Call {
    is_running: Cell<bool>,
    allowed: Cell<Allowed>,
    ticks: Cell<u32>,
    steps_left: Cell<u32>,
    /// When the database is asked next whether others are to write.
    rest_ns: Cell<u64>,
    /// When the wall clock makes the next look at the other clocks worthwhile.
    look_ns: Cell<u64>,
    budget_ns: Cell<u64>,
    start: Cell<Reading>,
    exceeded: Cell<bool>,
    location: RefCell<String>,
    /// How long a piece of the call may compute before others have their turn; 0 for no matter how long.
    slice_ns: Cell<u64>,
    /// When the wall's clock makes it worthwhile to look for how long it has.
    slice_look_ns: Cell<u64>,
    /// What the CPU clock showed at the first such look.
    slice_cpu_ns: Cell<Option<u64>>,
    /// Modules are half made, or it has asked and is about to wait.
    is_held: Cell<bool>,
    /// It was asked to yield; it may not have been able to.
    was_paused: Cell<bool>,
    /// Bytes of the running VM at which its collector is to keep up more closely; `usize::MAX`
    /// while it does.
    hurry_at_bytes: Cell<usize>,
}

/// All clocks at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    wall_ns: u64,
    cpu_ns: u64,
    /// `None` where the kernel does not tell.
    waited_ns: Option<u64>,
}

/// The process' first instant here, and this thread's latest readings.
struct Clocks {
    base: Instant,
    wall_ns: Cell<u64>,
    cpu_ns: Cell<u64>,
    waited_at_ns: Cell<u64>,
    waited_ns: Cell<Option<u64>>,
    schedstat: Option<File>,
}

thread_local! {
    static CLOCKS: Clocks = Clocks {
        base: Instant::now(),
        wall_ns: Cell::new(0),
        cpu_ns: Cell::new(0),
        waited_at_ns: Cell::new(0),
        waited_ns: Cell::new(None),
        schedstat: File::open("/proc/thread-self/schedstat").ok(),
    };

    static CALL: Call = const {
        Call {
            is_running: Cell::new(false),
            allowed: Cell::new(Allowed { time_ms: 0, memory_bytes: 0, is_match: false }),
            ticks: Cell::new(0),
            steps_left: Cell::new(STEPS_PER_LOOK),
            rest_ns: Cell::new(0),
            look_ns: Cell::new(u64::MAX),
            budget_ns: Cell::new(u64::MAX),
            start: Cell::new(Reading { wall_ns: 0, cpu_ns: 0, waited_ns: None }),
            exceeded: Cell::new(false),
            location: RefCell::new(String::new()),
            slice_ns: Cell::new(0),
            slice_look_ns: Cell::new(u64::MAX),
            slice_cpu_ns: Cell::new(None),
            is_held: Cell::new(false),
            was_paused: Cell::new(false),
            hurry_at_bytes: Cell::new(usize::MAX),
        }
    };
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Clocks {
    /// 0 is kept for "never read".
    fn wall_ns(&self) -> u64 {
        nanoseconds(self.base.elapsed()).saturating_add(WAITED_READING_NS + 1)
    }

    /// The second of the three numbers of `schedstat`: nanoseconds spent runnable, not running.
    fn waited_ns(&self) -> Option<u64> {
        let mut text = [0; 80];
        let length = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// A reading that may be a little old.
    fn start(&self) -> Reading {
        let wall_ns = self.wall_ns();
        if wall_ns.saturating_sub(self.wall_ns.get()) > READING_NS {
            self.wall_ns.set(wall_ns);
            self.cpu_ns.set(cpu_ns());
            if wall_ns.saturating_sub(self.waited_at_ns.get()) > WAITED_READING_NS {
                self.waited_at_ns.set(wall_ns);
                self.waited_ns.set(self.waited_ns());
            }
        }
        Reading { wall_ns, cpu_ns: self.cpu_ns.get(), waited_ns: self.waited_ns.get() }
    }

    /// How long a call that began at `start` has kept its thread, blocked time counted in full, and how
    /// long it has computed at least: of one that took no millisecond nobody asks what it did with it.
    fn spent_ns(&self, start: Reading) -> (u64, u64) {
        let wall_ns = self.wall_ns();
        let passed_ns = wall_ns.saturating_sub(start.wall_ns);
        if passed_ns < READING_NS {
            return (passed_ns, 0);
        }
        let cpu_ns = cpu_ns();
        let waited_ns = self.waited_ns();
        // The next call begins with these.
        self.wall_ns.set(wall_ns);
        self.cpu_ns.set(cpu_ns);
        self.waited_at_ns.set(wall_ns);
        self.waited_ns.set(waited_ns);
        let computed_ns = cpu_ns.saturating_sub(start.cpu_ns).saturating_sub(READING_NS);
        let (Some(before_ns), Some(now_ns)) = (start.waited_ns, waited_ns) else {
            return (passed_ns, computed_ns);
        };
        let kept_ns = passed_ns.saturating_sub(now_ns.saturating_sub(before_ns));
        (kept_ns.max(computed_ns), computed_ns)
    }

    /// How long a call that began at `start` has used of its budget.
    fn used_ns(&self, start: Reading, wall_ns: u64) -> u64 {
        let wall_ns = wall_ns.saturating_sub(start.wall_ns);
        let cpu_ns = cpu_ns().saturating_sub(start.cpu_ns).saturating_sub(READING_NS);
        let kept_ns = match (start.waited_ns, self.waited_ns()) {
            (Some(before_ns), Some(now_ns)) => {
                wall_ns.saturating_sub(now_ns.saturating_sub(before_ns)) / BLOCKED_PER_BUDGET
            }
            _ => wall_ns / WALL_PER_BUDGET,
        };
        kept_ns.max(cpu_ns)
    }
}

/// All clocks as of just now, for [`spent_ns`].
pub(crate) fn reading() -> Reading {
    CLOCKS.with(Clocks::start)
}

/// How long this thread has computed or was blocked since a reading of its own, and of that, how long it
/// has computed at least.
pub(crate) fn spent_ns(start: Reading) -> (u64, u64) {
    CLOCKS.with(|clocks| clocks.spent_ns(start))
}

fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// A call that has begun; holds what the call around it had, if there is one.
#[derive(Debug)]
#[must_use = "a call that does not end is charged for what runs after it"]
pub struct Running {
    outer: Option<Outer>,
}

#[derive(Debug)]
struct Outer {
    allowed: Allowed,
    look_ns: u64,
    budget_ns: u64,
    start: Reading,
    exceeded: bool,
    location: String,
}

/// Starts a call on this thread.
pub fn begin(allowed: Allowed) -> Running {
    go_on(allowed, u64::from(allowed.time_ms) * 1_000_000)
}

/// Starts a piece of a call that has so much left of its time, nanoseconds.
pub fn go_on(allowed: Allowed, mut budget_ns: u64) -> Running {
    CALL.with(|call| {
        let outer = call.is_running.get().then(|| {
            budget_ns = budget_ns.min(call.left_ns());
            call.suspend()
        });
        let start = CLOCKS.with(Clocks::start);
        call.is_running.set(true);
        call.allowed.set(allowed);
        call.budget_ns.set(budget_ns);
        call.start.set(start);
        call.look_ns.set(start.wall_ns.saturating_add(budget_ns));
        call.steps_left.set(STEPS_PER_LOOK);
        call.exceeded.set(false);
        Running { outer }
    })
}

/// Gives the piece that has begun a slice of this thread, microseconds: about half of it by the wall's
/// clock and, where that is over, half by the CPU's, so that a piece which waited for a processor is not
/// taken for a long one, and a short one asks the wall's alone.
pub fn begin_slice(slice_us: u32) {
    CALL.with(|call| {
        let slice_ns = u64::from(slice_us) * 1_000;
        call.slice_ns.set(slice_ns / 2);
        call.slice_look_ns.set(call.start.get().wall_ns.saturating_add(slice_ns / 2));
        call.slice_cpu_ns.set(None);
        call.is_held.set(false);
        call.was_paused.set(false);
    });
}

/// Whether the piece that runs has had its slice, and others are to have their turn. Never where it has none.
#[must_use]
pub fn is_slice_over() -> bool {
    CALL.with(Call::is_slice_over)
}

/// Ends the slice. Returns whether Luau was asked to yield.
pub fn end_slice() -> bool {
    CALL.with(|call| {
        call.slice_look_ns.set(u64::MAX);
        call.was_paused.take()
    })
}

/// Says whether the running call is where it must not pause, until its next piece begins.
pub(crate) fn set_held(is_held: bool) {
    CALL.with(|call| call.is_held.set(is_held));
}

impl Running {
    /// Ends a piece of the call, which waits. Returns what it has left of its time, nanoseconds.
    ///
    /// # Errors
    /// Where its time was used up.
    pub fn pause(self) -> Result<u64, String> {
        let left_ns = CALL.with(Call::left_after_piece_ns);
        self.end().map_or(Ok(left_ns), Err)
    }

    /// Ends the call. Returns where its time was used up, if it was; empty if that is not known.
    pub fn end(self) -> Option<String> {
        CALL.with(|call| {
            let location = call.exceeded.get().then(|| call.location.take());
            match self.outer {
                Some(outer) => call.resume(outer),
                None => {
                    call.is_running.set(false);
                    call.exceeded.set(false);
                    call.look_ns.set(u64::MAX);
                }
            }
            location
        })
    }
}

impl Call {
    fn suspend(&self) -> Outer {
        Outer {
            allowed: self.allowed.get(),
            look_ns: self.look_ns.get(),
            budget_ns: self.budget_ns.get(),
            start: self.start.get(),
            exceeded: self.exceeded.get(),
            location: self.location.take(),
        }
    }

    fn resume(&self, outer: Outer) {
        self.allowed.set(outer.allowed);
        self.look_ns.set(outer.look_ns);
        self.budget_ns.set(outer.budget_ns);
        self.start.set(outer.start);
        self.exceeded.set(outer.exceeded);
        self.location.replace(outer.location);
        self.steps_left.set(0);
    }

    /// What is left of the call's time, exactly.
    fn left_ns(&self) -> u64 {
        if self.exceeded.get() {
            return 0;
        }
        CLOCKS.with(|clocks| {
            let used_ns = clocks.used_ns(self.start.get(), clocks.wall_ns());
            self.budget_ns.get().saturating_sub(used_ns)
        })
    }

    /// What is left when a piece of the call ends. A short one is charged as well, by the wall's
    /// clock, because there may be many.
    fn left_after_piece_ns(&self) -> u64 {
        CLOCKS.with(|clocks| {
            let (start, wall_ns) = (self.start.get(), clocks.wall_ns());
            let passed_ns = wall_ns.saturating_sub(start.wall_ns);
            let used_ns = if passed_ns < READING_NS {
                passed_ns
            } else {
                clocks.used_ns(start, wall_ns).max(READING_NS)
            };
            self.budget_ns.get().saturating_sub(used_ns)
        })
    }

    /// Whether the call's time is over. Once it is, it stays so until the call ends: a script that
    /// catches the error is stopped again at its next step.
    #[cold]
    fn is_over(&self) -> bool {
        if self.exceeded.get() {
            return true;
        }
        let wall_ns = CLOCKS.with(Clocks::wall_ns);
        if wall_ns >= self.rest_ns.get() {
            self.rest_ns.set(wall_ns + REST_NS);
            // Not while a function of the host runs: `vm` has asked before a long one.
            let _ = lend::host(|host| host.db().rest(false));
        }
        if wall_ns < self.look_ns.get() {
            return false;
        }
        let left_ns = self.left_ns();
        if left_ns > 0 {
            // No clock passes faster than the wall's.
            self.look_ns.set(wall_ns + left_ns);
            return false;
        }
        self.exceeded.set(true);
        self.location.borrow_mut().clear();
        true
    }
}

impl Call {
    /// Whether the piece has had its slice.
    fn is_slice_over(&self) -> bool {
        let look_ns = self.slice_look_ns.get();
        if look_ns == u64::MAX || self.is_held.get() {
            return false;
        }
        let wall_ns = CLOCKS.with(Clocks::wall_ns);
        if wall_ns < look_ns {
            return false;
        }
        let (slice_ns, cpu_ns) = (self.slice_ns.get(), cpu_ns());
        let used_ns = match self.slice_cpu_ns.get() {
            Some(from_ns) => cpu_ns.saturating_sub(from_ns),
            None => {
                self.slice_cpu_ns.set(Some(cpu_ns));
                self.slice_look_ns.set(wall_ns.saturating_add(slice_ns));
                return false;
            }
        };
        if used_ns < slice_ns {
            self.slice_look_ns.set(wall_ns.saturating_add(slice_ns - used_ns));
            return false;
        }
        true
    }
}

/// Bytes above which the VM that runs is told to collect closely; `None` when it was, or never did
/// otherwise.
pub(crate) fn hurry_at_bytes() -> Option<usize> {
    let bytes = CALL.with(|call| call.hurry_at_bytes.get());
    (bytes != usize::MAX).then_some(bytes)
}

/// Sets what [`hurry_at_bytes`] tells.
pub(crate) fn set_hurry_at_bytes(bytes: Option<usize>) {
    CALL.with(|call| call.hurry_at_bytes.set(bytes.unwrap_or(usize::MAX)));
}

/// Luau's question whether to go on.
pub(crate) fn tick(lua: &Lua) -> mlua::Result<mlua::VmState> {
    CALL.with(|call| {
        let ticks = call.ticks.get().wrapping_add(1);
        call.ticks.set(ticks);
        let is_look = ticks.is_multiple_of(TICKS_PER_LOOK);
        if is_look && lua.used_memory() > call.hurry_at_bytes.get() {
            call.hurry_at_bytes.set(usize::MAX);
            vm::collect_closely(lua);
        }
        if (is_look || call.exceeded.get()) && call.is_over() {
            let mut location = call.location.borrow_mut();
            if location.is_empty() {
                *location = crate::failure::where_now(lua);
            }
            return Err(mlua::Error::runtime(OUT_OF_TIME));
        }
        if is_look && call.is_slice_over() {
            // Where it cannot yield it goes on, and is asked again at the next look.
            call.was_paused.set(true);
            return Ok(mlua::VmState::Yield);
        }
        Ok(mlua::VmState::Continue)
    })
}

/// Pays for so many steps of about a nanosecond each; tells whether the running call's time lasts. To be
/// asked with `u32::MAX` for a look at the clock.
#[must_use]
pub fn may_go_on(steps: u32) -> bool {
    CALL.with(|call| match call.steps_left.get().checked_sub(steps) {
        Some(left @ 1..) => {
            call.steps_left.set(left);
            true
        }
        _ => {
            let is_over = call.is_running.get() && call.is_over();
            // Behind a host function that took long the script is asked at once whether it goes on.
            call.ticks.set(u32::MAX);
            call.steps_left.set(if is_over { 0 } else { STEPS_PER_LOOK });
            !is_over
        }
    })
}

/// Pays for so many steps of about a nanosecond each. Nothing happens outside of a call.
///
/// # Errors
/// The call's time is over; hand the error on.
pub(crate) fn spend(steps: u32) -> mlua::Result<()> {
    if may_go_on(steps) { Ok(()) } else { Err(mlua::Error::runtime(OUT_OF_TIME)) }
}

/// Whether `bytes` may be held outside the VM for the running call, besides what the VM holds.
///
/// # Errors
/// The call's memory would be used up; hand the error on.
pub(crate) fn check_bytes(lua: &Lua, bytes: usize) -> mlua::Result<()> {
    if is_room(lua, bytes) { Ok(()) } else { Err(mlua::Error::runtime(NO_MEMORY)) }
}

fn is_room(lua: &Lua, bytes: usize) -> bool {
    let memory_bytes = CALL.with(|call| call.allowed.get().memory_bytes);
    bytes <= FREE_BYTES || lua.used_memory().saturating_add(bytes) <= memory_bytes
}

/// [`Allowed::memory_bytes`] of the running call; for a VM that does not tell at any time what it holds,
/// what it did not hold when the call began.
#[must_use]
pub fn memory_bytes() -> usize {
    CALL.with(|call| call.allowed.get().memory_bytes)
}

/// Milliseconds that the running call has left, rounded up, and of how many; zeros outside of one.
#[must_use]
pub fn left_ms() -> (u32, u32) {
    CALL.with(|call| {
        if !call.is_running.get() {
            return (0, 0);
        }
        let left_ms = call.left_ns().div_ceil(1_000_000);
        (u32::try_from(left_ms).unwrap_or(u32::MAX), call.allowed.get().time_ms)
    })
}

/// What the running call may still use, for what another thread does for it.
pub(crate) fn allowance(lua: &Lua) -> Allowance {
    let memory_bytes = CALL.with(|call| call.allowed.get().memory_bytes);
    let memory_bytes = memory_bytes.saturating_sub(lua.used_memory());
    Allowance { time_ms: left_ms().0, memory_bytes }
}

/// Whether a match's callback runs on this thread.
#[must_use]
pub fn is_match() -> bool {
    CALL.with(|call| call.is_running.get() && call.allowed.get().is_match)
}

/// What a refusal of [`CallMeter`] says when the memory of the call is used up.
pub const OUT_OF_MEMORY: &str = "out of memory";

/// The meter of one call of a host function, for languages that do not tell at any time what they hold:
/// what the function holds is counted until it is dropped, and has to fit into [`memory_bytes`].
#[derive(Debug, Default)]
pub struct CallMeter {
    bytes: Cell<usize>,
}

impl CallMeter {
    /// Whether the arguments are so large that the function may take milliseconds.
    pub fn holds_much(&self) -> bool {
        self.bytes.get() > FREE_BYTES
    }
}

impl Meter for CallMeter {
    fn spend(&self, steps: u32) -> Result<(), HostError> {
        if may_go_on(steps) { Ok(()) } else { Err(HostError::new(OUT_OF_TIME)) }
    }

    fn hold(&self, bytes: usize) -> Result<(), HostError> {
        let bytes = self.bytes.get().saturating_add(bytes);
        self.bytes.set(bytes);
        if bytes <= FREE_BYTES || bytes <= memory_bytes() {
            Ok(())
        } else {
            Err(HostError::new(OUT_OF_MEMORY))
        }
    }

    fn time_left_ms(&self) -> u32 {
        left_ms().0
    }

    fn keeps_others_waiting(&self) -> bool {
        is_match()
    }
}

/// The meter of one call of a host function: what it holds is counted until it is dropped.
pub(crate) struct VmMeter<'a> {
    lua: &'a Lua,
    bytes: Cell<usize>,
}

impl<'a> VmMeter<'a> {
    pub(crate) fn new(lua: &'a Lua) -> Self {
        Self { lua, bytes: Cell::new(0) }
    }

    /// Whether the arguments are so large that the function may take milliseconds.
    pub(crate) fn holds_much(&self) -> bool {
        self.bytes.get() > FREE_BYTES
    }
}

impl Meter for VmMeter<'_> {
    fn spend(&self, steps: u32) -> Result<(), HostError> {
        if may_go_on(steps) { Ok(()) } else { Err(HostError::new(OUT_OF_TIME)) }
    }

    fn hold(&self, bytes: usize) -> Result<(), HostError> {
        let bytes = self.bytes.get().saturating_add(bytes);
        self.bytes.set(bytes);
        if is_room(self.lua, bytes) { Ok(()) } else { Err(HostError::new(NO_MEMORY)) }
    }

    fn bytes_left(&self) -> usize {
        let memory_bytes = CALL.with(|call| call.allowed.get().memory_bytes);
        let held = self.lua.used_memory().saturating_add(self.bytes.get());
        let left = memory_bytes.saturating_sub(held);
        let free = FREE_BYTES.saturating_sub(self.bytes.get());
        // A byte that is produced costs a step, which is about a nanosecond.
        let steps = (left_ms().0 as usize).saturating_mul(1_000_000);
        left.max(free).min(steps)
    }

    fn time_left_ms(&self) -> u32 {
        left_ms().0
    }

    fn keeps_others_waiting(&self) -> bool {
        is_match()
    }
}
