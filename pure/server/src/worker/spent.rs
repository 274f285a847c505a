//! Guest code whose memory calls have used up, on a thread that others wait for: the batcher, the companion of
//! a core, a caller. It does not make it anew, because that runs the modules, which may compute for
//! `runtime.load_budget_ms`. It gives what is left to the loader, and takes another instance of the same
//! version when that comes, or the next version.
//!
//! ```text
//! a call uses the memory up ─▶ Spent ─▶ loader ── Guests ─▶ take_guests
//!      meanwhile: calls that would begin here ─▶ core ─▶ another caller; those that waited here end with an error
//! ```
//!
//! In the batch and on a core, the function that did it runs at callers alone for a while, as one that overran. The
//! call itself may have taken next to nothing of that memory, which nobody knows. So it begins again at a caller: one
//! in the batch, and one on a core in its first piece, unless it has changed what lasts (`nk.localcache_*`, or the
//! database where it could not wait). What others were to hear of it is forgotten, and what it did to globals goes with the memory.
//!
//! At a caller it begins again at another one, once, if it found nearly all of the memory used and has changed nothing that
//! lasts. Else it ends with an error, but not before the caller has another instance: so it has taken as long as
//! that took, as its core counts it, and keeps its place there if it has not waited. Otherwise one user could use up
//! all callers one after the other, and the modules load for each.
//!
//! Not here: when the loader makes the instance (`loader`), and the thread of events, at which no client waits: it makes
//! its own anew within the call that used it up.

use event::Now;
use game::error::{ApiError, Code};
use game::guest::{Retired, Returned, ScriptError, ScriptFailure, Step};

use super::waiting::{Guest, Origin};
use super::{Worker, script_error};
use crate::guests::{Instance, SpentMemory};
use crate::mail::{HookStep, Job, LoaderMail, Outcome, Queue, Tried, Used, Work};

/// What is said of a call for which there are no modules.
const NO_GUESTS: &str = "the memory of the scripts is used up (runtime.memory_max_bytes), and the modules do not load \
                         once more: the server's log says why";

/// What a call is told that waits while the memory of its thread is used up twice.
const PILED_UP: &str =
    "the memory of the scripts (runtime.memory_max_bytes) was used up twice while this call waited";

/// A call that is over and is not answered yet.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) guest: Guest,
    result: Result<Returned, ScriptError>,
    since: Now,
}

impl Guest {
    /// Whether no caller has begun it before.
    fn is_first(&self) -> bool {
        let queue = self.origin.as_ref().map(|origin| origin.queue);
        matches!(queue, Some(Queue::Caller { tried: Tried::No | Tried::GivenBack, .. }))
    }

    /// Whether this first step of it has met the end of the memory, so that it is to begin again where there is another.
    pub(super) fn begins_again(&self, step: &Step<Returned>) -> bool {
        let is_end = |error: &ScriptError| error.kind == ScriptFailure::OutOfMemory;
        self.may_begin_again && matches!(step, Step::Done(Err(error)) if is_end(error))
    }
}

impl Worker {
    /// A piece of this call has run, or the call was cancelled: it may have used its instance up, and have left behind
    /// what takes long to free, which another thread frees.
    pub(super) fn clear_up(&mut self, now: Now, guest: &mut Guest) {
        if let Some(SpentMemory { left, is_by_others }) = self.guests.take_spent(guest.instance) {
            // What one in the batch wrote can be undone, and what lasts it has not got to.
            let has_changed = self.used.writes || self.used.needs_caller;
            guest.may_begin_again = guest.slice.is_some()
                || !has_changed && (self.is_companion || is_by_others && guest.is_first());
            // Of an older version nobody makes another one.
            guest.has_spent = guest.instance.version == self.guests.version();
            self.spent(now, guest, left);
        }
        if let Some(left) = self.guests.take_left(guest.instance)
            && let Some(loader) = self.topology.loader
        {
            self.mails.push(loader.seal(&self.topology, LoaderMail::Retired(left)));
        }
    }

    /// This call has used up the memory of its instance, or taken its module's last one.
    fn spent(&mut self, now: Now, guest: &Guest, what: Retired) {
        let (name, version) = (&guest.name, guest.instance.version);
        if !self.is_caller() {
            self.send_away(now, guest);
        }
        let place = match (self.is_companion, self.is_caller()) {
            (true, _) => "a core",
            (_, true) => "a caller",
            _ => "the batch",
        };
        // Not under the setting's name, under which hoards are told of (`weight`).
        let text = format_args!(
            "{name} (version {version}) has used up the memory of the scripts in {place}, or lost the last \
             instance of its module in WebAssembly, by a trap or because it was ended while it waited: calls run at \
             (other) callers until it is made anew; have it keep less in tables that outlive a call, or not trap, or raise runtime.memory_max_bytes"
        );
        self.limit_log.note(now, "memory of scripts used up", text);
        let Some(loader) = self.topology.loader else {
            unreachable!("memory is made anew by a thread that is not there")
        };
        let mail = if guest.has_spent {
            LoaderMail::Spent { worker: self.me, version, what }
        } else {
            LoaderMail::Retired(what)
        };
        self.mails.push(loader.seal(&self.topology, mail));
    }

    /// A call is over that has used up the memory of a caller: it is answered when there is another instance.
    pub(super) fn answer_later(
        &mut self,
        now: Now,
        mut guest: Guest,
        result: Result<Returned, ScriptError>,
    ) {
        if let Some(origin) = &mut guest.origin {
            origin.before = self.used_now(origin.before);
        }
        assert!(self.unanswered.is_none(), "a memory is used up that no call has begun on");
        self.unanswered = Some(Unanswered { guest, result, since: now });
    }

    /// There is another instance, or there will be none for a while.
    pub(super) fn answer_now(&mut self, now: Now) {
        let Some(Unanswered { mut guest, result, since }) = self.unanswered.take() else { return };
        if let Some(origin) = &mut guest.origin {
            let waited_ms = u32::try_from(now.ms_since(since)).unwrap_or(u32::MAX);
            let kept_us = &mut origin.before.time.kept_us;
            *kept_us = kept_us.saturating_add(waited_ms.saturating_mul(1_000));
        }
        self.begin_call_time();
        self.used = Used::default();
        self.ended(guest, result);
    }

    /// A caller is to run this call, of which nothing has happened though it has begun: from a core, or once from a
    /// caller to another one.
    pub(super) fn run_elsewhere(&mut self, mut origin: Origin, work: Work) {
        self.stats.calls_given_back.up();
        if let Queue::Caller { tried, .. } = &mut origin.queue {
            *tried = Tried::Begun;
            let used = self.used_now(origin.before);
            return self.give_to_caller(origin.job(work), Some(used), Outcome::Crowded);
        }
        let used = Used { needs_caller: true, ..self.used_now(origin.before) };
        self.give_to_caller(origin.job(work), Some(used), Outcome::NeedsCaller);
    }

    /// Ends calls that wait on instances of the newest version whose memory was used up before that of the last one.
    pub(super) fn end_piled_up(&mut self, now: Now) {
        let piled_up: Vec<Instance> = self.guests.piled_up().collect();
        for instance in piled_up {
            let waiting = self.waiting.of_instance(instance).map(|(number, _)| number);
            for number in waiting.collect::<Vec<_>>() {
                self.stats.waiting_calls_ended.up();
                self.end_waiting(now, number, script_error(Code::ResourceExhausted, PILED_UP));
            }
        }
    }

    /// Gives a job back that this caller cannot run, for want of memory. Nobody may have any: where it will not have
    /// any for a while, the second one who says so tells the client.
    pub(super) fn run_at_another(&mut self, mut job: Job) {
        let is_last = self.topology.callers.len() == 1 || job.queue.tried() != Tried::No;
        if self.has_no_guests && is_last {
            self.stats.calls_without_modules.up();
            let to = (job.queue, job.address.conn, job.stream, None);
            return self.answer((job.address.core, job.group), to, without_guests(job.work));
        }
        if let Queue::Caller { tried: tried @ Tried::No, .. } = &mut job.queue {
            *tried = Tried::GivenBack;
        }
        self.stats.calls_given_back.up();
        self.give_to_caller(job, None, Outcome::Crowded);
    }
}

/// What comes of a call for which there are no modules.
fn without_guests(work: Work) -> Outcome {
    let refusal = || ApiError::new(Code::ResourceExhausted, NO_GUESTS);
    match work {
        Work::Rpc(_) => Outcome::Rpc(Err(script_error(Code::ResourceExhausted, NO_GUESTS))),
        Work::Before(_) => Outcome::Before(Err(script_error(Code::ResourceExhausted, NO_GUESTS))),
        // What it belongs to has happened.
        Work::Hooked(hooked) => match hooked.step {
            HookStep::After(answer) => Outcome::Api(Ok(answer)),
            HookStep::Before => Outcome::Api(Err(refusal())),
            HookStep::Call => unreachable!("it calls no script"),
        },
        Work::After(_) => Outcome::After,
        Work::Shutdown => Outcome::Shutdown,
        Work::Api(_) | Work::FindUsers { .. } | Work::Reload => {
            unreachable!("no caller has such work: {work:?}")
        }
    }
}
