//! A caller that shares a core's thread: while it runs a call, the core's sockets wait. So a call runs for
//! a slice (`runtime.core_slice_us`), its guest gives its coroutine back at the next place where it can,
//! and goes on in the next turn, behind whatever the kernel has brought the core; one slice a turn, the
//! calls in turns. What has had a slice is a function that is not quick: the core hears so at once, and
//! calls of it that have come meanwhile go back, to be run by a caller with a thread of its own. So is one
//! of which a piece took [`SLICES_MAX`] slices although it gave nothing back, because a function of the host's
//! or of Luau's own cannot be interrupted: its turn is over for all (`reactor::Companion`). What
//! keeps a thread (the database, a password's hash) is asked of other threads by the language
//! (`LuaLimits::slice_us` of `edge/script`); only where a call cannot wait, as in a comparator, it is done
//! here, and the core learns that too.
//!
//! Answers leave together, at the end of the companion's part of the turn: nobody has to be woken for
//! them. Which functions are run here the core decides (`core::callers`).

use event::{CallTime, Now};

use super::Worker;
use super::waiting::Guest;
use crate::mail::{Function, Job, Outcome, Queue};

/// Slices that a piece of a call may compute for; after more its function is for callers.
const SLICES_MAX: u32 = 2;

impl Worker {
    /// Runs a call, or gives it back.
    pub(super) fn run_on_core(&mut self, now: Now, job: Job) {
        let function = function_of(job.queue);
        let is_paused = |guest: &Guest| {
            guest.origin.as_ref().is_some_and(|origin| function_of(origin.queue) == function)
        };
        // What its core knows of the function may be of another version.
        let is_known = function.is_some_and(|it| it.version == self.guests.version());
        let has_left = function.is_some_and(|it| self.left.has(now, it.slot));
        let may_run = is_known && self.guests.is_ready() && !has_left;
        if !may_run || self.paused.iter().any(is_paused) {
            self.stats.calls_given_back.up();
            let (core, group, queue) = (job.address.core, job.group, job.queue);
            let to = (queue, job.address.conn, job.stream, None);
            return self.answer((core, group), to, Outcome::NeedsCaller(Box::new(job)));
        }
        self.stats.calls_on_cores.up();
        self.run(now, job);
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
        self.leave_place(&mut guest);
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
