//! Calls that wait share the memory of their guest code: what one of them holds others do not have. The language
//! says when those that wait hold more than they may, and how much is to be given back (`Scripts::excess_bytes`).
//! Then calls end until that is done: of the user or address whose calls that wait here weigh most together, the
//! one that weighs most, then again of whoever's weigh most then. So whoever hoards loses what was hoarded, with however
//! many accounts, before a call of somebody who holds less does; of those who hold as much, whoever has one that waits for
//! the longest. Calls of nobody who could be told from others stand for themselves.
//!
//! In Lua what all calls of a user weigh is known, what each of them does is a guess. So the language is asked again when calls
//! have ended; if they have not given back what they were thought to hold, all calls of whoever's weigh most end, which
//! nobody escapes by small calls beside a large one. On a core, where nothing can be collected to find that out, that is
//! so at once.
//!
//! Not here: what a call weighs (`edge/script`), and how many calls of one user may wait, and for how long
//! (`waiting`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use event::Now;
use game::error::Code;
use game::fetch::Principal;
use game::guest::{ScriptError, ScriptFailure};

use super::Worker;
use super::waiting::Guest;
use crate::guests::Instance;

/// What is said to who loses a call.
const HOARDED: &str = "ended while it waited: calls that wait held more than half of the memory of the scripts, \
     and those of its user or address the most; have it keep less while it waits, or raise \
     runtime.memory_max_bytes";

/// How often it is looked whether calls that have ended gave back enough, and others end. What is left then is for the
/// next call that begins to wait.
const ROUNDS_MAX: usize = 4;

/// What calls of one user or address that wait weigh together, bytes, and each of them with the number of its question.
/// Calls that share no memory are none of it.
#[derive(Debug)]
struct Hoard {
    bytes: usize,
    /// The question for which one of them waits for the longest.
    first: u64,
    calls: BTreeSet<(usize, u64)>,
}

impl Worker {
    /// A call of this instance has begun to wait: ends calls that wait there until the others have enough memory.
    pub(super) fn make_room(&mut self, now: Now, instance: Instance, mut excess_bytes: usize) {
        let mut ends_all = self.is_companion;
        for _ in 0..ROUNDS_MAX {
            self.end_heaviest(now, instance, (excess_bytes, ends_all));
            if !self.guests.has(instance) {
                // An older version, whose last call has ended.
                return;
            }
            excess_bytes = self.excess_bytes(instance);
            if excess_bytes == 0 {
                return;
            }
            ends_all = true;
        }
    }

    /// What calls of this instance that wait have to give back. What those hold that have been answered, or have had
    /// their slice, is given back as they go on, or is looked at again when they wait: nobody else's call ends for it.
    pub(super) fn excess_bytes(&mut self, instance: Instance) -> usize {
        let scripts = self.guests.of(instance);
        let excess_bytes = scripts.excess_bytes();
        if excess_bytes == 0 {
            return 0;
        }
        let paused = self.paused.iter().filter(|guest| guest.instance == instance);
        let go_on = self.waiting.answered_of(instance).chain(paused);
        let go_on_bytes: usize = go_on.map(|guest| scripts.weight_bytes(guest.id)).sum();
        excess_bytes.saturating_sub(go_on_bytes)
    }

    /// Ends calls that wait until they have given back so much, as far as is known; if `ends_all`, with each of them all
    /// others of its user or address.
    fn end_heaviest(
        &mut self,
        now: Now,
        instance: Instance,
        (mut excess_bytes, ends_all): (usize, bool),
    ) {
        let scripts = self.guests.of(instance);
        let mut hoards: BTreeMap<(Principal, u64), Hoard> = BTreeMap::new();
        for (number, Guest { id, payer, .. }) in self.waiting.of_instance(instance) {
            let bytes = scripts.weight_bytes(*id);
            if bytes == 0 {
                continue;
            }
            let stands_alone = payer.principal == Principal::Server;
            let key = (payer.principal, if stands_alone { number } else { 0 });
            let none = || Hoard { bytes: 0, first: number, calls: BTreeSet::new() };
            let hoard = hoards.entry(key).or_insert_with(none);
            hoard.bytes = hoard.bytes.saturating_add(bytes);
            hoard.calls.insert((bytes, number));
        }
        while excess_bytes > 0
            && let Some(((principal, _), hoard)) =
                hoards.iter_mut().max_by_key(|(_, hoard)| (hoard.bytes, Reverse(hoard.first)))
            && !hoard.calls.is_empty()
        {
            let ended = if ends_all { hoard.calls.len() } else { 1 };
            for _ in 0..ended {
                let Some((bytes, number)) = hoard.calls.pop_last() else { break };
                hoard.bytes = hoard.bytes.saturating_sub(bytes);
                excess_bytes = excess_bytes.saturating_sub(bytes);
                self.end_hoarding(now, *principal, (number, bytes));
            }
        }
    }

    fn end_hoarding(&mut self, now: Now, principal: Principal, (number, bytes): (u64, usize)) {
        self.stats.waiting_calls_ended.up();
        let name = self.waiting.name(number).unwrap_or_default();
        self.limit_log.hit_by(now, "runtime.memory_max_bytes", || {
            format!("{name}, called by {principal}, took {bytes} bytes and was {HOARDED}")
        });
        let error = ScriptError {
            code: u8::try_from(Code::ResourceExhausted.number()).unwrap_or(8),
            message: HOARDED.to_owned(),
            location: String::new(),
            kind: ScriptFailure::Shed,
        };
        self.end_waiting(now, number, error);
    }
}
