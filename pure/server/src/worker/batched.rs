//! RPC functions that write, as jobs of the batcher: known to be quick, each runs on the batcher's own
//! VM, in the transaction of the batch, between calls of clients. What it reads is so until the commit,
//! and it is answered when the batch is on the disk, as all others are.
//!
//! ```text
//! core: writes, quick ─▶ run_batched ─┬▶ it is over: kept, as it is answered
//!                                     └▶ its slice or the memory is over, or it needs a caller: undone ─▶ core ─▶ caller
//! ```
//!
//! A call has a slice of time (`runtime.batch_slice_us`), because others wait for the batch. One that
//! needs more, one that meets the end of the VM's memory (`spent`), or a function that only callers may run, is undone: what it wrote by a savepoint, what it
//! wanted others to hear by a mark; its language throws away what it did to globals. Then it begins again
//! at a caller, with a caller's budget, and its function stays with the callers for a second, or a minute if
//! it happens again ([`CallersOnly`]): so it keeps others waiting for a slice a minute. What is not undone is
//! in `docs/lua/waiting.md`.
//!
//! Not here: which functions are such (`limits`), and who is sent here (`core::dispatch`).

use std::collections::BTreeMap;

use event::Now;
use game::account::begin_lazily;
use game::db::DbError;
use game::guest::{Callee, GuestCall, HostError, Returned, ScriptError, ScriptFailure, Step};

use super::hooks::Then;
use super::waiting::{Guest, Origin};
use super::{Named, Worker, fail};
use crate::limits::CallersOnly;
use crate::mail::{Outcome, Queue, RpcJob, Used, Work};
use crate::resources::{Resources, Told, shortened};

/// What the host of a call in the batch refuses; nobody sees it, because the call is undone.
const NOT_HERE: &str = "not in the batch";

/// A call in the batch's transaction.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) us: u32,
    /// Whether there is a savepoint to go back to: since it first wrote.
    has_savepoint: bool,
    /// What others were to be told when it began.
    told: Told,
    /// Whether it needs a caller.
    leaves: bool,
}

impl Slice {
    /// It cannot be done here: it ends as soon as may be, and is undone.
    pub(super) fn leave(&mut self) -> HostError {
        self.leaves = true;
        HostError::new(NOT_HERE)
    }

    /// It is about to write.
    pub(super) fn protect(&mut self, resources: &mut Resources) -> Result<(), HostError> {
        if !self.has_savepoint {
            if resources.db.savepoint().is_err() {
                return Err(self.leave());
            }
            self.has_savepoint = true;
        }
        Ok(())
    }
}

/// Functions that left the batch, or overran on a core, of late. Each core keeps the same of what it has heard; but it hears late,
/// and of the other cores' calls never, and sends calls meanwhile that would cost a slice each.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// By the number of the function, of which there are so many as a core has records.
    functions: BTreeMap<u16, CallersOnly>,
}

impl Left {
    pub(super) fn note(&mut self, now: Now, function: u16) {
        self.functions.retain(|_, callers_only| callers_only.is_remembered(now));
        self.functions.entry(function).or_default().note(now);
    }

    pub(super) fn has(&self, now: Now, function: u16) -> bool {
        self.functions.get(&function).is_some_and(|callers_only| callers_only.holds(now))
    }
}

impl Worker {
    /// Runs an RPC function in the transaction of the batch, or has a caller do it.
    pub(super) fn run_batched(&mut self, now: Now, origin: Origin, call: Box<RpcJob>) {
        let Queue::Batched { function } = origin.queue else {
            unreachable!("{:?} is no place in the batch", origin.queue)
        };
        // What its core knows of the function may be of another version.
        let is_known = function.version == self.guests.version();
        let may_run = is_known && self.guests.is_ready() && !self.left.has(now, function.slot);
        // What it reads is to be so when it writes.
        if !may_run {
            return self.give_to_caller(origin.job(Work::Rpc(call)), None, Outcome::NeedsCaller);
        }
        if !self.guests.has_room(Callee::Rpc(&call.id)) {
            return self.give_to_caller(origin.job(Work::Rpc(call)), None, Outcome::Crowded);
        }
        if begin_lazily(&mut *self.resources.db).is_err() {
            return self.give_to_caller(origin.job(Work::Rpc(call)), None, Outcome::NeedsCaller);
        }
        self.begin_call_time();
        let slice = Slice {
            us: self.settings.runtime.batch_slice_us,
            has_savepoint: false,
            told: self.resources.told(),
            leaves: false,
        };
        let mut guest = self.guest(Some(origin), Then::AnswerRpc, (&call.id, &call.context));
        guest.slice = Some(slice);
        let id = guest.id;
        let of = GuestCall::Rpc { id: &call.id, payload: &call.payload };
        let step =
            self.piece(now, &mut guest, |scripts, host| scripts.call(host, id, &call.context, of));
        let begins_again = guest.begins_again(&step);
        let result = match step {
            Step::Done(result) => Some(result),
            Step::Waits(_) | Step::Paused => {
                self.guests.of(guest.instance).cancel(id);
                self.clear_up(now, &mut guest);
                None
            }
        };
        let Guest { instance, origin: Some(origin), slice: Some(slice), name, .. } = guest else {
            unreachable!("a call in the batch is a client's")
        };
        self.call_ended(instance);
        let Some(result) = result else { return self.undo(now, &origin, slice, call) };
        let is_over_time = matches!(&result, Err(error) if error.kind == ScriptFailure::OutOfTime);
        if slice.leaves || is_over_time || begins_again {
            return self.undo(now, &origin, slice, call);
        }
        self.keep(&origin, ((&name, instance.version), slice), result);
    }

    /// A call has ended well, or with an error of its own: what it wrote stays, as at a caller.
    fn keep(
        &mut self,
        origin: &Origin,
        (named, slice): (Named<'_>, Slice),
        result: Result<Returned, ScriptError>,
    ) {
        self.stats.rpc_count.up();
        self.stats.rpc_batched.up();
        let mut outcome = Outcome::Rpc(self.rpc_result(named, result.map_err(shortened)));
        if slice.has_savepoint && self.resources.db.release_savepoint().is_err() {
            self.give_up_batch();
            fail(&mut outcome);
        }
        let used = Some(self.used_now(Used::default()));
        let to = (origin.queue, origin.address.conn, origin.stream, used);
        self.answer((origin.address.core, origin.group), to, outcome);
    }

    /// Nothing of a call has happened; it begins again at a caller.
    fn undo(&mut self, now: Now, origin: &Origin, slice: Slice, call: Box<RpcJob>) {
        let Queue::Batched { function } = origin.queue else {
            unreachable!("{:?} is no place in the batch", origin.queue)
        };
        self.stats.rpc_undone.up();
        self.left.note(now, function.slot);
        self.resources.untell(slice.told);
        if slice.has_savepoint {
            let db = &mut *self.resources.db;
            let undone: Result<(), DbError> =
                db.undo_to_savepoint().and_then(|()| db.release_savepoint());
            if undone.is_err() {
                self.give_up_batch();
            }
        }
        let used = Used { needs_caller: true, ..self.used_now(Used::default()) };
        let job = origin.again(Work::Rpc(call));
        self.give_to_caller(job, Some(used), Outcome::NeedsCaller);
    }

    /// The database cannot undo one call alone: nothing of the batch until here has happened.
    fn give_up_batch(&mut self) {
        if self.resources.db.in_transaction() {
            let _ = self.resources.db.rollback();
        }
        self.stats.db_commit_errors.up();
        self.lose_batch();
    }
}
