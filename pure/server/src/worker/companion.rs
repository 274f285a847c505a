//! A caller that shares a core's thread: while it runs a call, the core's sockets wait. So a call runs for
//! a slice (`runtime.core_slice_us`), its guest gives its coroutine back at the next place where it can,
//! and goes on in the next turn, behind whatever the kernel has brought the core; one slice a turn, the
//! calls in turns. A function of which a call needs more than [`SLICES_SPARED`] of them is not quick: the core hears so at
//! once, and calls of it that have come meanwhile go back, to be run by a caller with a thread of its own. So is one
//! of which a piece took [`SLICES_MAX`] slices although it gave nothing back, because a function of the host's
//! or of Luau's own cannot be interrupted: its turn is over for all (`reactor::Companion`). What
//! keeps a thread (the database, a password's hash) is asked of other threads by the language
//! (`LuaLimits::slice_us` of `edge/script`); only where a call cannot wait, as in a comparator, it is done
//! here, and the core learns that too.
//!
//! Answers leave together, at the end of the companion's part of the turn: nobody has to be woken for
//! them. Which functions are run here the core decides (`core::callers`).
//!
//! One call in some thousands takes a few slices because its language collects garbage just then. So a call has
//! [`SLICES_SPARED`] of them before its function is sent away; that it was not short the core learns at any rate, and
//! a function that has such calls often is none for it (`limits::Functions`).
//!
//! Where a language needs something for each call that is under way here (an instance of a module), there are few of
//! them, made beforehand: a call for which there is none goes to a caller, and its function is no worse for it.
//!
//! A call that has begun and met the end of the VM's memory goes to a caller as well, undone (`spent`).

use event::{CallTime, Now};

use super::Worker;
use super::waiting::Guest;
use crate::guests::Guests;
use crate::mail::{Function, Job, Outcome, Queue, Used};

/// Slices that a piece of a call may compute for; after more its function is for callers.
const SLICES_MAX: u32 = 2;

/// Slices that a call may have; after one more its function is for callers.
const SLICES_SPARED: u32 = 3;

impl Worker {
    /// Runs a call, or gives it back.
    pub(super) fn run_on_core(&mut self, now: Now, job: Job) {
        let function = function_of(job.queue);
        let is_long = |guest: &Guest| {
            let of_call = guest.origin.as_ref().and_then(|origin| function_of(origin.queue));
            of_call == function && guest.slices > SLICES_SPARED
        };
        // What its core knows of the function may be of another version.
        let is_known = function.is_some_and(|it| it.version == self.guests.version());
        let has_left = function.is_some_and(|it| self.left.has(now, it.slot));
        let may_run = is_known && self.guests.is_ready() && !has_left;
        if !may_run || self.paused.iter().any(is_long) {
            return self.hand_back(job, Outcome::NeedsCaller);
        }
        let has_room = |guests: &Guests| job.work.callee().is_none_or(|it| guests.has_room(it));
        if !has_room(&self.guests) {
            // It may be as good as over.
            self.run_paused(now);
        }
        if !has_room(&self.guests) {
            return self.hand_back(job, Outcome::Crowded);
        }
        self.stats.calls_on_cores.up();
        self.run(now, job);
    }

    /// A caller is to run this call.
    fn hand_back(&mut self, job: Job, outcome: fn(Box<Job>) -> Outcome) {
        self.stats.calls_given_back.up();
        self.give_to_caller(job, None, outcome);
    }

    /// Sends a job back to its core, which has a caller run it; with what it has used here, if it has begun.
    pub(super) fn give_to_caller(
        &mut self,
        job: Job,
        used: Option<Used>,
        outcome: fn(Box<Job>) -> Outcome,
    ) {
        let line = (job.address.core, job.group);
        let to = (job.queue, job.address.conn, job.stream, used);
        self.answer(line, to, outcome(Box::new(job)));
    }

    /// A call is over. Its last piece may have been too long without having been interrupted.
    pub(super) fn note_overrun(&mut self, now: Now, guest: &Guest) {
        let CallTime { computed_us, .. } = self.resources.call_clock.spent();
        if computed_us <= self.settings.runtime.core_slice_us.saturating_mul(SLICES_MAX) {
            return;
        }
        self.stats.calls_overran.up();
        self.send_away(now, guest);
    }

    /// The function of this call is for callers alone for a while; its core hears so with its end.
    pub(super) fn send_away(&mut self, now: Now, guest: &Guest) {
        self.used.needs_caller = true;
        let queue = guest.origin.as_ref().map(|origin| origin.queue);
        if let Some(function) = queue.and_then(function_of) {
            self.left.note(now, function.slot);
        }
    }

    /// A call has had its slice.
    pub(super) fn pause(&mut self, mut guest: Guest) {
        debug_assert!(self.is_companion, "a thread of its own has no slices");
        self.stats.calls_paused.up();
        guest.slices = guest.slices.saturating_add(1);
        if guest.slices > SLICES_SPARED {
            self.leave_place(&mut guest);
        } else if let Some(origin) = &mut guest.origin {
            origin.before = self.used_now(origin.before);
        }
        self.paused.push_back(guest);
    }

    /// Gives the call that has waited longest its next slice.
    pub(super) fn run_paused(&mut self, now: Now) {
        if let Some(guest) = self.paused.pop_front() {
            self.go_on(now, guest, None);
        }
    }
}

/// The core's record of the function that is called, of calls that run where others wait.
fn function_of(queue: Queue) -> Option<Function> {
    match queue {
        Queue::Companion { function }
        | Queue::Batched { function }
        | Queue::Waiting { function, .. } => Some(function),
        Queue::Batcher | Queue::Caller { .. } | Queue::Hasher | Queue::Lister | Queue::Loader => {
            None
        }
    }
}
