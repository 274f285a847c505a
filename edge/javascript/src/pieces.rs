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
use rquickjs::Ctx;
use script::budget::{self, Allowed, Limits};
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
    /// `None` once it is gone on with.
    fiber: Option<Fiber<Outcome<R>>>,
    allowed: Allowed,
    left_ns: u64,
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
    let left_ns = u64::from(allowed.time_ms) * 1_000_000;
    go_on(host, (allowed, left_ns), || {
        stack.run(move || {
            let result = vm.enter(job);
            (vm, result)
        })
    })
}

/// Goes on with a call whose answer has come.
pub(crate) fn resume<R>(mut waiting: Waiting<R>, host: &mut dyn Host, answer: Answer) -> Piece<R> {
    let Some(fiber) = waiting.fiber.take() else { unreachable!("a call waits without its stack") };
    ANSWER.set(Some(answer));
    go_on(host, (waiting.allowed, waiting.left_ns), || fiber.resume())
}

fn go_on<R>(
    host: &mut dyn Host,
    (allowed, left_ns): (Allowed, u64),
    run: impl FnOnce() -> Run<Outcome<R>>,
) -> Piece<R> {
    let running = budget::go_on(allowed, left_ns);
    let run = lend::lend(host, run);
    match (run, ASKED.take()) {
        (Run::Ended((vm, result)), _) => {
            let is_late = running.end().is_some();
            let result = vm.settle(result, is_late);
            Piece::Ended(vm, result)
        }
        (Run::Suspended(fiber), Some(ask)) => match running.pause() {
            Ok(left_ns) => Piece::Waits(Waiting { fiber: Some(fiber), allowed, left_ns }, ask),
            Err(_) => {
                let (vm, result) = end(fiber, allowed);
                let result = vm.settle(result, true);
                Piece::Ended(vm, result)
            }
        },
        (Run::Suspended(_), None) => unreachable!("a call is put aside, and has asked for nothing"),
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

impl<R> Drop for Waiting<R> {
    fn drop(&mut self) {
        if let Some(fiber) = self.fiber.take() {
            drop(end(fiber, self.allowed));
        }
    }
}
