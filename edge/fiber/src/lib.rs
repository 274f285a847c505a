//! Work that runs on a stack of its own, so that it can be put aside in the middle of anything, functions of C
//! included, and gone on with later. It never runs by itself, and never on another thread.
//!
//! ```text
//! Stack::take ─▶ Stack::run(job) ──▶ Run::Ended      the job has returned; its stack is kept for the next one
//!                                ├─▶ Run::Suspended ─▶ Fiber::resume ─▶ Run …
//!                                │   the job has called `suspend`
//! ```
//!
//! Data goes in with the job and comes out as what it returns; what is said at a suspension its users keep
//! beside (a cell of the thread). Not here: who goes on with what, and when; and how a job is ended early: a
//! suspended fiber has frames that only their owner can leave in order, so whoever does not need it any more
//! has to go on with it until it returns. One that is dropped is leaked with all that its stack holds.
//!
//! The switch itself and the stacks with their guard pages are `corosensei`'s. A crate of its own because a
//! function of C that calls us back cannot carry what a suspension needs, so that it is found by an address
//! of the thread, which takes `unsafe`.

#![allow(unsafe_code, reason = "the running fiber is found by an address that its stack holds")]

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::thread::{self, ThreadId};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a stack, of which only what has been used is memory. Less than a huge page, which the kernel might
/// give to it whole.
pub const STACK_BYTES: usize = 1 << 20;

/// Stacks that a thread keeps for jobs to come, with the memory that they have come to use.
const IDLE_MAX: usize = 4;

type Way = Yielder<(), ()>;

thread_local! {
    /// By which the fiber that runs on this thread is left; `None` while none runs.
    static RUNNING: Cell<Option<NonNull<Way>>> = const { Cell::new(None) };
    static IDLE: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A stack that nothing runs on.
pub struct Stack(DefaultStack);

/// A job that is suspended, with its stack.
#[must_use = "what is on its stack is leaked unless it is gone on with until it returns"]
pub struct Fiber<R: 'static> {
    coroutine: ManuallyDrop<Coroutine<(), (), R>>,
    way: Option<NonNull<Way>>,
    thread: ThreadId,
}

// SAFETY: what is on its stack, which need not be `Send`, is reached through `resume` alone, and that refuses any
// thread but the one on which it was put there; to drop a fiber touches nothing of it (`ManuallyDrop`).
unsafe impl<R> Send for Fiber<R> {}

/// How far a job has come.
pub enum Run<R: 'static> {
    /// It has returned.
    Ended(R),
    /// It has called [`suspend`].
    Suspended(Fiber<R>),
}

impl Stack {
    /// One that the thread has kept, or a new one.
    ///
    /// # Errors
    /// The kernel has no room for a new one, or the process has as many mappings as it may
    /// (`vm.max_map_count`; a stack takes two).
    pub fn take() -> io::Result<Self> {
        let idle = IDLE.with_borrow_mut(Vec::pop);
        idle.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok).map(Self)
    }

    /// Runs a job until it returns or suspends.
    ///
    /// # Panics
    /// When the job does.
    pub fn run<R>(self, job: impl FnOnce() -> R + 'static) -> Run<R> {
        let coroutine = Coroutine::with_stack(self.0, |way: &Way, ()| {
            RUNNING.set(Some(NonNull::from(way)));
            job()
        });
        let thread = thread::current().id();
        Fiber { coroutine: ManuallyDrop::new(coroutine), way: None, thread }.resume()
    }
}

impl<R> Fiber<R> {
    /// Whether it is of this thread, and so can be gone on with here.
    #[must_use]
    pub fn is_at_home(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Goes on until the job returns or suspends again.
    ///
    /// # Panics
    /// When the job does, and on any thread but the one where it began.
    pub fn resume(self) -> Run<R> {
        assert!(self.is_at_home(), "a fiber of another thread");
        let Self { mut coroutine, way, thread } = self;
        let outer = Outer(RUNNING.replace(way));
        let result = coroutine.resume(());
        let way = RUNNING.get();
        drop(outer);
        match result {
            CoroutineResult::Yield(()) => Run::Suspended(Self { coroutine, way, thread }),
            CoroutineResult::Return(returned) => {
                let stack = ManuallyDrop::into_inner(coroutine).into_stack();
                IDLE.with_borrow_mut(|idle| {
                    if idle.len() < IDLE_MAX {
                        idle.push(stack);
                    }
                });
                Run::Ended(returned)
            }
        }
    }
}

/// What ran around a fiber, and runs on when that is left: by a panic, too.
struct Outer(Option<NonNull<Way>>);

impl Drop for Outer {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Whether the caller is on a fiber, and so may [`suspend`].
#[must_use]
pub fn is_running() -> bool {
    RUNNING.get().is_some()
}

/// Puts the running fiber aside, and returns when it is gone on with.
///
/// # Panics
/// None runs.
pub fn suspend() {
    let Some(way) = RUNNING.get() else { panic!("nothing to suspend: no fiber runs") };
    // SAFETY: it is on the stack of the fiber that runs on this thread, below all that runs there: `run` sets
    // it there, and `resume` takes it away (`Outer`) whenever that fiber is left.
    unsafe { way.as_ref() }.suspend(());
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{IDLE, IDLE_MAX, Run, STACK_BYTES, Stack, is_running, suspend};

    fn run<R>(job: impl FnOnce() -> R + 'static) -> Run<R> {
        Stack::take().expect("a stack").run(job)
    }

    fn ended<R>(run: Run<R>) -> R {
        match run {
            Run::Ended(returned) => returned,
            Run::Suspended(_) => panic!("it is suspended"),
        }
    }

    fn next<R>(run: Run<R>) -> Run<R> {
        match run {
            Run::Suspended(fiber) => fiber.resume(),
            Run::Ended(_) => panic!("it has ended"),
        }
    }

    /// Frames, one in another, each of which suspends.
    fn deep(depth: u64) -> u64 {
        if depth == 0 {
            return 0;
        }
        let below = deep(depth - 1);
        suspend();
        below + depth
    }

    #[test]
    fn jobs_go_on_in_any_order_where_they_were() {
        let mut all: Vec<_> = (1..=8).map(|depth| Some(run(move || deep(depth)))).collect();
        for turn in 1..=8 {
            // Backwards and forwards in turns: nothing rests on which was suspended last.
            let order: Vec<usize> =
                if turn % 2 == 0 { (0..8).collect() } else { (0..8).rev().collect() };
            for at in order {
                assert!(!is_running());
                if let Some(fiber @ Run::Suspended(_)) = all[at].take() {
                    all[at] = Some(next(fiber));
                }
                if let Some(Run::Ended(sum)) = all[at] {
                    let depth = at as u64 + 1;
                    assert_eq!(
                        (sum, depth),
                        (depth * (depth + 1) / 2, turn),
                        "as often as it suspends"
                    );
                    all[at] = None;
                }
            }
        }
        assert!(all.iter().all(Option::is_none));
        assert_eq!(IDLE.with_borrow(Vec::len), IDLE_MAX, "the others were given back");
    }

    #[test]
    fn a_fiber_in_a_fiber_leaves_the_outer_one_running() {
        let outer = run(|| {
            let inner = run(suspend);
            suspend();
            ended(next(inner));
            suspend();
            is_running()
        });
        assert!(ended(next(next(outer))));
        assert!(!is_running());
    }

    #[test]
    fn a_panic_comes_out_where_the_job_was_gone_on_with() {
        let held = Rc::new(());
        let of_job = Rc::clone(&held);
        let fiber = run(move || {
            let of_job = of_job;
            suspend();
            assert!(Rc::strong_count(&of_job) > 9, "told");
        });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| next(fiber)));
        let text = caught.err().and_then(|text| text.downcast::<&str>().ok());
        assert_eq!((text.as_deref(), Rc::strong_count(&held)), (Some(&"told"), 1));
        assert!(!is_running());
        assert_eq!(ended(run(|| 7)), 7);
    }

    #[test]
    fn on_another_thread_a_fiber_can_only_be_dropped() {
        let Run::Suspended(fiber) = run(suspend) else { panic!("it is not suspended") };
        let told = std::thread::spawn(move || {
            assert!(!fiber.is_at_home());
            drop(fiber);
            let Run::Suspended(fiber) = run(suspend) else { panic!("it is not suspended") };
            fiber
        });
        let fiber = told.join().expect("it is dropped");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fiber.resume()));
        assert!(caught.is_err() && !is_running());
    }

    #[test]
    fn much_of_a_stack_can_be_used() {
        /// Goes down to so far below where it began.
        #[inline(never)]
        fn down(top: usize, bytes: usize) -> usize {
            let page = std::hint::black_box([1_u8; 4096]);
            let below = top - page.as_ptr().addr();
            if below > bytes { below } else { down(top, bytes) + usize::from(page[0]) - 1 }
        }
        let bytes = STACK_BYTES / 4 * 3;
        let below = ended(run(move || {
            let here = std::hint::black_box(0_u8);
            down((&raw const here).addr(), bytes)
        }));
        assert!((bytes..STACK_BYTES).contains(&below), "{below}");
    }

    #[test]
    #[should_panic(expected = "no fiber runs")]
    fn outside_of_one_there_is_nothing_to_suspend() {
        suspend();
    }
}
