//! Calls in pieces: each runs on a stack of its own (`fiber`), until it ends or a function of the host asks
//! for something that another thread has. Then its stack is kept, and its VM with it, and others run; the
//! answer becomes what the function of the host returns.
//!
//! A VM belongs to one call at a time, which is why the call has it while it waits: QuickJS keeps the frames
//! that run in a list of the runtime's (`current_stack_frame`), which two stacks of one VM would tangle. A call
//! that nobody waits for any more is not torn out of its stack, which has frames of C on it: it is gone on
//! with, without a host and without time, until it has ended by itself, as an overrun does.
//!
//! Not here: what is run, and what becomes of its result (`calls`, `matches`).

use std::cell::Cell;

use fiber::{Fiber, Run, Stack};
use game::guest::{Answer, Ask, Host, HostError};
use heap::Heap;
use rquickjs::Ctx;
use script::budget::{self, Allowed, HeldMemory, Limits};
use script::lend;

use crate::failure::Thrown;
use crate::vm::{Fault, Vm};

thread_local! {
    static ASKED: Cell<Option<Ask>> = const { Cell::new(None) };
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
}

/// What a call has come to: its VM, which can run another one, and what it returned or threw.
type Outcome<R> = (Vm, Result<R, Thrown>);

/// A call that waits, with its VM, and what it may still use.
pub(crate) struct Waiting<R: 'static> {
    fiber: Suspended<R>,
    allowed: Allowed,
    left_ns: u64,
    memory: Memory,
}

/// The memory of a VM whose call waits.
struct Memory {
    heap: Heap,
    /// What the heap had when the call began.
    heap_bytes: usize,
    /// What the call has taken since, among all VMs.
    more: HeldMemory,
}

/// How far a call has come. What it threw comes with whether its time was used up.
pub(crate) enum Piece<R: 'static> {
    Ended(Vm, Result<R, (Thrown, bool)>),
    Waits(Waiting<R>, Ask),
}

/// Whether what runs now can [`wait`].
pub(crate) fn may_wait() -> bool {
    fiber::is_running()
}

/// Puts the running call aside until somebody has answered.
///
/// # Panics
/// It cannot be ([`may_wait`]).
pub(crate) fn wait(ask: Ask) -> Answer {
    ASKED.set(Some(ask));
    fiber::suspend();
    ANSWER.take().unwrap_or_else(|| Err(HostError::new("cancelled")))
}

/// Runs a call until it ends or waits.
pub(crate) fn begin<R>(
    vm: Vm,
    host: &mut dyn Host,
    limits: &Limits,
    job: impl for<'js> FnOnce(&Ctx<'js>) -> Result<R, Fault> + 'static,
) -> Piece<R> {
    let stack = match Stack::take() {
        Ok(stack) => stack,
        Err(error) => {
            let thrown = Thrown::says(format!("there is no stack for the call: {error}"));
            return Piece::Ended(vm, Err((thrown, false)));
        }
    };
    let allowed = vm.allowed(limits);
    let memory = Memory {
        heap: vm.heap().clone(),
        heap_bytes: vm.heap().bytes(),
        more: vm.held_in_addition(),
    };
    let left_ns = u64::from(allowed.time_ms) * 1_000_000;
    go_on(host, (allowed, left_ns), memory, || {
        stack.run(move || {
            let result = vm.enter(job);
            (vm, result)
        })
    })
}

/// Goes on with a call whose answer has come.
pub(crate) fn resume<R>(waiting: Waiting<R>, host: &mut dyn Host, answer: Answer) -> Piece<R> {
    let Waiting { fiber, allowed, left_ns, memory } = waiting;
    ANSWER.set(Some(answer));
    go_on(host, (allowed, left_ns), memory, || fiber.resume())
}

fn go_on<R>(
    host: &mut dyn Host,
    (allowed, left_ns): (Allowed, u64),
    memory: Memory,
    run: impl FnOnce() -> Run<Outcome<R>>,
) -> Piece<R> {
    let running = budget::go_on(allowed, left_ns);
    let run = lend::lend(host, run);
    let (fiber, ask) = match (run, ASKED.take()) {
        (Run::Ended((vm, result)), _) => {
            let is_late = running.end().is_some();
            let result = vm.settle(result, is_late);
            return Piece::Ended(vm, result);
        }
        (Run::Suspended(fiber), Some(ask)) => (Suspended(Some(fiber), allowed), ask),
        (Run::Suspended(_), None) => unreachable!("a call is put aside, and has asked for nothing"),
    };
    match running.pause() {
        Ok(left_ns) => {
            memory.more.count(memory.heap.bytes().saturating_sub(memory.heap_bytes));
            Piece::Waits(Waiting { fiber, allowed, left_ns, memory }, ask)
        }
        Err(_) => {
            let (vm, result) = fiber.end();
            let result = vm.settle(result, true);
            Piece::Ended(vm, result)
        }
    }
}

impl<R> Waiting<R> {
    /// What its VM holds, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.heap.bytes()
    }
}

/// A stack that is put aside. One that nobody goes on with ends when it is dropped.
struct Suspended<R: 'static>(Option<Fiber<Outcome<R>>>, Allowed);

impl<R> Suspended<R> {
    fn resume(mut self) -> Run<Outcome<R>> {
        let Some(fiber) = self.0.take() else { unreachable!("a call waits without its stack") };
        fiber.resume()
    }

    fn end(mut self) -> Outcome<R> {
        let Some(fiber) = self.0.take() else { unreachable!("a call waits without its stack") };
        end(fiber, self.1)
    }
}

/// Lets a call that waits end where it is: what it asked for is an error, its time is over, and it has no
/// host, so that nothing it still does can be seen.
fn end<R>(mut fiber: Fiber<Outcome<R>>, allowed: Allowed) -> Outcome<R> {
    let running = budget::go_on(allowed, 0);
    loop {
        match fiber.resume() {
            Run::Ended(outcome) => {
                running.end();
                return outcome;
            }
            // A function of the host looks at the clock before it asks; this is for what cannot be.
            Run::Suspended(again) => {
                ASKED.take();
                fiber = again;
            }
        }
    }
}

impl<R> Drop for Suspended<R> {
    fn drop(&mut self) {
        // On another thread nothing can be done for it. A thread's calls do not leave it.
        if let Some(fiber) = self.0.take()
            && fiber.is_at_home()
        {
            drop(end(fiber, self.1));
        }
    }
}
