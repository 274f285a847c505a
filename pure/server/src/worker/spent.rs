//! Guest code whose memory calls have used up, on a thread that others wait for: the batcher, and the
//! companion of a core. It does not make it anew, because that runs the modules, which may compute for
//! `runtime.load_budget_ms`. It gives what is left to the loader, and takes another instance of the same
//! version when that comes, or the next version.
//!
//! ```text
//! a call uses the memory up ─▶ Spent ─▶ loader ── Guests ─▶ take_guests
//!      meanwhile: calls that would begin here ─▶ core ─▶ caller; those that waited here end with an error
//! ```
//!
//! The function that did it runs at callers alone for a while, as one that overran. The call itself may have taken
//! next to nothing of that memory, which nobody knows. So it begins again at a caller: one in the batch, and one on a
//! core in its first piece, unless it has changed what lasts (`nk.localcache_*`, or the database where it could not
//! wait). What others were to hear of it is forgotten, and what it did to globals goes with the memory.
//!
//! Not here: when the loader makes the instance (`loader`), and callers and the thread of events, which make theirs
//! anew within the call that used it up, whose client gets the error.

use event::Now;
use game::guest::{Retired, Returned, ScriptError, ScriptFailure, Step};

use super::Worker;
use super::waiting::Guest;
use crate::mail::LoaderMail;

impl Guest {
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
        if let Some(spent) = self.guests.take_spent(guest.instance) {
            // What one in the batch wrote can be undone, and what lasts it has not got to.
            let has_changed = self.used.writes || self.used.needs_caller;
            guest.may_begin_again = guest.slice.is_some() || !has_changed;
            self.spent(now, guest, spent);
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
        self.send_away(now, guest);
        let place = if self.is_companion { "a core" } else { "the batch" };
        // Not under the setting's name, under which hoards are told of (`weight`).
        let text = format_args!(
            "{name} (version {version}) has used up the memory of the scripts in {place}, or lost the last \
             instance of its module in WebAssembly, by a trap or because it was ended while it waited: calls run at \
             callers until it is made anew; have it keep less in tables that outlive a call, or not trap, or raise runtime.memory_max_bytes"
        );
        self.limit_log.note(now, "memory of scripts used up", text);
        let Some(loader) = self.topology.loader else {
            unreachable!("memory is made anew by a thread that is not there")
        };
        let is_newest = version == self.guests.version();
        let mail = if is_newest {
            LoaderMail::Spent { worker: self.me, version, what }
        } else {
            LoaderMail::Retired(what)
        };
        self.mails.push(loader.seal(&self.topology, mail));
    }
}
