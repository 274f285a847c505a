//! Calls that wait share the memory of their guest code: what one of them holds others do not have. The language
//! says when those that wait hold more than they may, and how much is to be given back (`Scripts::excess_bytes`).
//! Then calls end until that is done: of the user or address whose calls that wait here weigh most together, the
//! newest, then again of whoever's weigh most then. So whoever hoards loses what was hoarded, with however many
//! accounts, before a call of somebody who holds less does. Calls of nobody who could be told from others stand
//! for themselves.
//!
//! Not here: what a call weighs (`edge/script`), and how many calls of one user may wait, and for how long
//! (`waiting`).

use std::collections::BTreeMap;

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

/// What calls of one user or address that wait weigh together, bytes, and each of them, the newest last.
#[derive(Debug, Default)]
struct Hoard {
    bytes: usize,
    calls: Vec<(u64, usize)>,
}

impl Worker {
    /// A call of this instance has begun to wait: ends calls that wait there until the others have enough memory.
    pub(super) fn make_room(&mut self, now: Now, instance: Instance, mut excess_bytes: usize) {
        let scripts = self.guests.of(instance);
        let mut hoards: BTreeMap<(Principal, u64), Hoard> = BTreeMap::new();
        for (number, Guest { id, payer, .. }) in self.waiting.of_instance(instance) {
            let bytes = scripts.weight_bytes(*id);
            let stands_alone = payer.principal == Principal::Server;
            let key = (payer.principal, if stands_alone { number } else { 0 });
            let hoard = hoards.entry(key).or_default();
            hoard.bytes = hoard.bytes.saturating_add(bytes);
            hoard.calls.push((number, bytes));
        }
        while excess_bytes > 0
            && let Some(((principal, _), hoard)) =
                hoards.iter_mut().max_by_key(|(_, hoard)| hoard.bytes)
            && hoard.bytes > 0
            && let Some((number, bytes)) = hoard.calls.pop()
        {
            hoard.bytes = hoard.bytes.saturating_sub(bytes);
            excess_bytes = excess_bytes.saturating_sub(bytes);
            self.end_hoarding(now, *principal, (number, bytes));
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
