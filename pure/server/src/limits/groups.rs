//! Who has and does how much: a record for each user and address that is heard of.
//!
//! A record costs about 60 bytes and goes when nothing in it counts any more: no socket, no call,
//! and an allowance of requests that is whole again. Every new record looks at two old ones, so that
//! the table holds little more than twice what is alive.

use std::collections::BTreeMap;
use std::net::IpAddr;

use event::{Now, client_bits};
use uuid::Uuid;

use super::callers_only::CallersOnly;
use crate::mail::Used;

/// The record of what has none of its own: calls of the server itself, and clients that there is no
/// room for. Nothing is limited there.
pub(crate) const SHARED: u32 = 0;

/// Records of one core.
const GROUPS_MAX: usize = 1 << 20;
/// Old records that each new one looks at.
const SWEPT_PER_NEW: usize = 2;
/// Time of a call at a caller up to which the next ones of the same user may wait behind others'.
const FAST_MS_MAX: u16 = 16;
/// The same in nanoseconds.
pub(crate) const FAST_NS_MAX: u64 = FAST_MS_MAX as u64 * 1_000_000;
/// Calls of one user that may be at the callers together, while all are fast: as much time as two
/// of the slowest, and never more than this.
const FAST_CALLS_MAX: u16 = 32;
/// How long a slow call is remembered.
const COST_KEPT_MS: u64 = 5_000;

/// How calls of a user are handed to the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing is known of the user or of the function, or the function takes long now and then:
    /// nobody may wait behind its call, and one caller stays free.
    Unknown,
    /// Nothing is known of the user, but the function that it calls is quick: nobody may wait
    /// behind the call, and one caller stays free of calls of this kind.
    New,
    /// Its calls are fast; so many of them may be at the callers.
    Fast(u16),
    /// A call of it was slow: nobody may wait behind one, and one caller stays free of such calls.
    Slow,
}

/// How long the functions took of late, whoever called them: so that many users who call a slow one
/// for the first time are known by it. A user's own record is the slowest of its calls; here it is
/// the mean, because one hiccup must not make a function slow that everybody calls. Several calls
/// that were long are remembered besides, however many fast ones there are: how long a call of that
/// function takes is then the client's choice, and no mean tells it beforehand.
#[derive(Debug)]
pub(crate) struct Functions {
    /// By [`slot_of`].
    functions: Box<[Function]>,
}

/// How long one function took of late.
#[derive(Clone, Copy, Debug, Default)]
struct Function {
    /// The mean, microseconds; 0 if there was no call.
    mean_us: u32,
    /// When a call of it was last answered that was fast.
    fast_ns: u64,
    /// Calls that keep it from being taken for quick.
    long: Remembered,
    /// Calls behind which few others are to wait.
    dear: Remembered,
    /// The share of its calls that changed the database, in parts of [`WRITES_ALL`].
    writes: u16,
    /// The mean of what its calls computed, microseconds.
    computed_us: u32,
    /// Whether its calls are for callers alone.
    callers_only: CallersOnly,
    /// How sure it is that its calls are short and need no database: [`SHORT_CALLS_MIN`] is enough.
    short_calls: u8,
}

/// Calls that took longer than most, and until when they are remembered.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    calls: u32,
    until_ns: u64,
}

/// Functions that are told apart; names that share a place share a record.
const FUNCTIONS: usize = 1024;
/// What one call counts at most, so that a single one does not make a function slow that was fast,
/// however long it took; a function whose first call takes so long is slow at once. A call that
/// takes longer is a long one.
const CALL_COUNTS_MS: u32 = 4 * FAST_MS_MAX as u32;
/// The share of the last call in the mean is one in so many.
const MEAN_OF: u32 = 8;
/// A function is not taken for quick while so many long calls of it are remembered: a single one may
/// be a hiccup of the machine, and holds one caller only.
const LONG_CALLS_MIN: u32 = 2;
/// A call that takes longer is a dear one, microseconds.
const DEAR_US_MIN: u32 = 2_000;
/// What each call of a function with dear calls of late may take, microseconds: as much as a core posts
/// ahead. So its calls are posted one at a time, whatever the mean says.
const DEAR_COUNTS_US: u32 = 5_000;
/// A long call is remembered for so many times its length, so that such calls hold all callers for
/// a 64th of the time at most.
const LONG_KEPT_TIMES: u64 = 64;
/// But not for longer.
const LONG_KEPT_MS_MAX: u64 = 60_000;
/// The share of a function all of whose calls change the database.
const WRITES_ALL: u16 = 256;
/// A call that kept its thread for less, and did not need the database, is a short one; microseconds. Of
/// calls so short the clock does not tell what they waited for a processor.
const SHORT_US_MAX: u32 = 250;
/// So many short calls make a function one for the thread of a core; one that is not short takes away
/// half of them, because it may only have waited for a processor, and the count goes to twice as many.
const SHORT_CALLS_MIN: u8 = 16;

/// The place of a function, by the name of what is called and a number for what kind of call it is
/// (FNV-1a, RFC 9923).
pub(crate) fn slot_of(kind: u8, name: &str) -> u16 {
    let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = name.as_bytes().iter().fold(add(0x811c_9dc5, &kind), add);
    u16::try_from((hash ^ (hash >> 16)) as usize % FUNCTIONS).unwrap_or(0)
}

impl Default for Functions {
    fn default() -> Self {
        Self { functions: vec![Function::default(); FUNCTIONS].into_boxed_slice() }
    }
}

impl Function {
    /// Whether its calls are slow on the mean.
    fn is_slow(&self) -> bool {
        self.mean_us / 1_000 > u32::from(FAST_MS_MAX)
    }

    /// Whether a fast call of it was answered of late, and no call is to be feared that is long.
    fn was_fast_of_late(&self, now: Now) -> bool {
        let kept_ns = COST_KEPT_MS * 1_000_000;
        let was_fast = self.fast_ns != 0 && now.mono_ns.saturating_sub(self.fast_ns) <= kept_ns;
        was_fast && !self.is_long_now_and_then(now)
    }

    fn is_long_now_and_then(&self, now: Now) -> bool {
        self.long.holds(now)
    }
}

impl Remembered {
    fn note(&mut self, now: Now, until_ns: u64) {
        self.calls = if now.mono_ns >= self.until_ns { 1 } else { self.calls.saturating_add(1) };
        self.until_ns = self.until_ns.max(until_ns);
    }

    /// Whether there were so many that it was no hiccup.
    fn holds(&self, now: Now) -> bool {
        self.calls >= LONG_CALLS_MIN && now.mono_ns < self.until_ns
    }
}

/// The mean with one more.
fn mean_with(mean: u32, is_first: bool, last: u32) -> u32 {
    if is_first { last } else { mean - mean / MEAN_OF + last / MEAN_OF }
}

impl Functions {
    /// A call of it can only be done by a caller.
    pub(crate) fn note_needs_caller(&mut self, now: Now, slot: u16) {
        if let Some(function) = self.functions.get_mut(usize::from(slot)) {
            function.callers_only.note(now);
        }
    }

    /// What a call of it has used until now. `is_over`: there is no more to come of it; of one that waits, was
    /// paused, or begins again elsewhere nobody knows yet whether it is fast.
    pub(crate) fn note(&mut self, now: Now, slot: u16, used: Used, is_over: bool) {
        let Some(function) = self.functions.get_mut(usize::from(slot)) else { return };
        let is_first = function.mean_us == 0;
        let computed_us = used.time.computed_us.min(CALL_COUNTS_MS * 1_000);
        function.computed_us = mean_with(function.computed_us, is_first, computed_us);
        let writes = if used.writes { u32::from(WRITES_ALL) } else { 0 };
        let writes = mean_with(function.writes.into(), is_first, writes);
        function.writes = u16::try_from(writes).unwrap_or(WRITES_ALL);
        function.short_calls = if used.database || used.needs_caller {
            0
        } else if used.time.kept_us < SHORT_US_MAX {
            (function.short_calls + 1).min(2 * SHORT_CALLS_MIN)
        } else {
            function.short_calls.saturating_sub(SHORT_CALLS_MIN / 2)
        };
        if used.needs_caller {
            self.note_needs_caller(now, slot);
        }
        self.note_cost(now, slot, used.time.kept_us, is_over);
    }

    /// The same of a user who was slow before: of how long it took the function is not to blame, or one user
    /// could make a function slow for everybody.
    pub(crate) fn note_of_slow_user(&mut self, now: Now, slot: u16, used: Used) {
        let Some(function) = self.functions.get_mut(usize::from(slot)) else { return };
        if used.database || used.needs_caller {
            function.short_calls = 0;
        }
        if used.needs_caller {
            self.note_needs_caller(now, slot);
        }
    }

    /// Whether most of its calls of late changed the database.
    pub(crate) fn writes(&self, slot: u16) -> bool {
        let function = self.of(slot);
        function.mean_us != 0 && function.writes >= WRITES_ALL / 2
    }

    /// Whether its calls compute for no longer than this on the mean, are never long, and need no caller,
    /// as far as is known.
    pub(crate) fn is_quick(&self, now: Now, slot: u16, computed_us_max: u32) -> bool {
        let function = self.of(slot);
        function.mean_us != 0
            && function.computed_us <= computed_us_max
            && !function.callers_only.holds(now)
            && !function.is_long_now_and_then(now)
    }

    /// A call of it took so long.
    fn note_cost(&mut self, now: Now, slot: u16, took_us: u32, is_over: bool) {
        let Some(function) = self.functions.get_mut(usize::from(slot)) else { return };
        let (last_us, took_ms) = (took_us.clamp(1, CALL_COUNTS_MS * 1_000), took_us / 1_000);
        function.mean_us = mean_with(function.mean_us, function.mean_us == 0, last_us);
        if is_over && took_ms <= u32::from(FAST_MS_MAX) {
            function.fast_ns = now.mono_ns;
        }
        let kept_ms = (u64::from(took_us) * LONG_KEPT_TIMES / 1_000).min(LONG_KEPT_MS_MAX);
        if took_ms > CALL_COUNTS_MS {
            function.long.note(now, now.after_ms(kept_ms).mono_ns);
        }
        if took_us > DEAR_US_MIN {
            // Of many the time adds up: they may all have been posted together.
            let from_ns = function.dear.until_ns.max(now.mono_ns);
            let until_ns = from_ns.saturating_add(kept_ms * 1_000_000);
            function.dear.note(now, until_ns.min(now.after_ms(LONG_KEPT_MS_MAX).mono_ns));
        }
    }

    /// What a call of it may take, microseconds, for how many are to stand one behind the other: the mean,
    /// or, where some were longer of late, so much that nothing is posted behind one.
    pub(crate) fn may_take_us(&self, now: Now, slot: u16) -> u32 {
        let function = self.of(slot);
        let least_us = if function.dear.holds(now) { DEAR_COUNTS_US } else { 0 };
        function.mean_us.max(least_us)
    }

    /// Whether a call of it may be run on the thread of a core: it is short, as far as is known, and needs
    /// no database and no caller.
    pub(crate) fn is_for_core(&self, now: Now, slot: u16) -> bool {
        let function = self.of(slot);
        function.short_calls >= SHORT_CALLS_MIN
            && !function.callers_only.holds(now)
            && !function.is_long_now_and_then(now)
    }

    /// The class of a call of this function by a user of that class.
    pub(crate) fn class(&self, now: Now, slot: u16, user: Class) -> Class {
        let function = self.of(slot);
        match user {
            Class::Slow => Class::Slow,
            // Others have made it slow, but it is not long, and was fast a while ago.
            Class::Fast(_) if function.is_slow() && function.was_fast_of_late(now) => Class::New,
            _ if function.is_slow() => Class::Slow,
            _ if function.mean_us == 0 || function.is_long_now_and_then(now) => Class::Unknown,
            Class::Fast(calls_max) => Class::Fast(calls_max),
            Class::Unknown | Class::New => Class::New,
        }
    }

    /// Whether a fast call of it was answered a moment ago: within the time that one may take.
    pub(crate) fn was_fast_just_now(&self, now: Now, slot: u16) -> bool {
        let function = self.of(slot);
        function.mean_us != 0 && now.mono_ns.saturating_sub(function.fast_ns) <= FAST_NS_MAX
    }

    /// Whether its calls are slow on the mean.
    pub(crate) fn is_slow(&self, slot: u16) -> bool {
        self.of(slot).is_slow()
    }

    fn of(&self, slot: u16) -> Function {
        self.functions.get(usize::from(slot)).copied().unwrap_or_default()
    }
}

/// What one user or address has and does.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Of the user or address ([`key_of`]); 0 is nobody's.
    key: u64,
    /// When the allowance of requests is whole again (the generic cell rate algorithm, ITU-T
    /// I.371).
    full_ns: u64,
    /// Open sockets.
    pub(crate) sockets: u32,
    /// Open connections that are no sockets, of an address.
    pub(crate) connections: u32,
    /// Calls that were taken and not answered.
    pub(crate) waiting: u32,
    /// Of these, listings.
    pub(crate) listings: u16,
    /// Of these, at the callers.
    pub(crate) at_callers: u16,
    /// Of these, with passwords.
    pub(crate) passwords: u16,
    /// The slowest call at a caller of late; [`u8::MAX`] stands for all that is longer.
    cost_ms: u8,
    /// The last bits of the number ([`slot_of`]) of the function of the last slow call.
    slow_in: u8,
    /// Until when that counts, in tenths of a second since the start; 0 if there was no call.
    cost_until_ds: u32,
}

/// Half as many bits as an id or address has: they save 10 bytes for each idle socket. Ids are made
/// by the server, at random, and addresses are told apart by one half of theirs, of which the sum
/// loses nothing.
pub(crate) fn key_of(bits: u128) -> u64 {
    const LOW: u128 = u64::MAX as u128;
    let halves = [(bits >> 64) & LOW, bits & LOW].map(|half| u64::try_from(half).unwrap_or(0));
    halves[0].wrapping_add(halves[1].wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1)
}

/// Tenths of a second since the start; enough for 13 years.
fn tenths(now: Now) -> u32 {
    u32::try_from(now.mono_ns / 100_000_000).unwrap_or(u32::MAX)
}

/// What a record keeps of the number of a function, because every idle socket has one.
fn low_bits(slot: u16) -> u8 {
    slot.to_le_bytes()[0]
}

impl Group {
    /// Whether one more request is within the rate; takes it if so. A second's worth may come at
    /// once.
    pub(crate) fn take_request(&mut self, now: Now, per_s: u32) -> bool {
        let Some(each_ns) = 1_000_000_000_u64.checked_div(u64::from(per_s)) else { return true };
        let from_ns = self.full_ns.max(now.mono_ns);
        if from_ns - now.mono_ns + each_ns > 1_000_000_000 {
            return false;
        }
        self.full_ns = from_ns + each_ns;
        true
    }

    pub(crate) fn class(&self, now: Now) -> Class {
        match (self.cost_until_ds, self.cost_ms) {
            (0, _) => Class::Unknown,
            (_, cost_ms) if u16::from(cost_ms) <= FAST_MS_MAX => {
                Class::Fast((2 * FAST_MS_MAX / u16::from(cost_ms).max(1)).min(FAST_CALLS_MAX))
            }
            (until_ds, _) if tenths(now) < until_ds => Class::Slow,
            _ => Class::Unknown,
        }
    }

    /// Whether a call was slow of late, the last such one of this function or of one whose number ends as
    /// its does.
    pub(crate) fn was_slow_in(&self, now: Now, slot: u16) -> bool {
        self.class(now) == Class::Slow && self.slow_in == low_bits(slot)
    }

    /// A call of this function was so long at its caller.
    pub(crate) fn note_cost(&mut self, now: Now, slot: u16, took_ms: u32) {
        let took_ms = u8::try_from(took_ms).unwrap_or(u8::MAX);
        if u16::from(took_ms) > FAST_MS_MAX {
            self.slow_in = low_bits(slot);
        }
        if took_ms >= self.cost_ms || tenths(now) >= self.cost_until_ds {
            self.cost_ms = took_ms;
            self.cost_until_ds = tenths(now.after_ms(COST_KEPT_MS));
        }
    }

    fn is_idle(&self, now: Now) -> bool {
        self.sockets == 0
            && self.connections == 0
            && self.waiting == 0
            && self.full_ns <= now.mono_ns
            && self.cost_until_ds <= tenths(now)
    }
}

/// All records of one core.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    by_key: BTreeMap<u64, u32>,
    free: Vec<u32>,
    hand: usize,
    /// Clients that there was no room for.
    pub(crate) overflow_count: u64,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            groups: vec![Group::default()],
            by_key: BTreeMap::new(),
            free: Vec::new(),
            hand: 0,
            overflow_count: 0,
        }
    }
}

impl Groups {
    /// The record of a user. `hint` is where it was last time; it is tried first.
    pub(crate) fn user(&mut self, now: Now, user_id: Uuid, hint: u32) -> u32 {
        let key = key_of(user_id.as_u128());
        match self.groups.get(hint as usize) {
            Some(group) if hint != SHARED && group.key == key => hint,
            _ => self.find(now, key),
        }
    }

    /// The record of an address.
    pub(crate) fn address(&mut self, now: Now, address: IpAddr) -> u32 {
        self.find(now, key_of(client_bits(address)))
    }

    /// A record by its number.
    pub(crate) fn get(&mut self, index: u32) -> &mut Group {
        let known = (index as usize) < self.groups.len();
        &mut self.groups[if known { index as usize } else { 0 }]
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    fn find(&mut self, now: Now, key: u64) -> u32 {
        if let Some(index) = self.by_key.get(&key) {
            return *index;
        }
        self.sweep(now);
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.groups.len() < GROUPS_MAX => {
                self.groups.push(Group::default());
                u32::try_from(self.groups.len() - 1).unwrap_or(SHARED)
            }
            None => {
                self.overflow_count += 1;
                return SHARED;
            }
        };
        *self.get(index) = Group { key, ..Group::default() };
        self.by_key.insert(key, index);
        index
    }

    /// Frees what is of no use any more among the next few records.
    fn sweep(&mut self, now: Now) {
        for _ in 0..SWEPT_PER_NEW {
            self.hand += 1;
            if self.hand >= self.groups.len() {
                self.hand = 0;
                return;
            }
            let group = &self.groups[self.hand];
            if group.key != 0 && group.is_idle(now) {
                self.by_key.remove(&group.key);
                self.groups[self.hand] = Group::default();
                self.free.extend(u32::try_from(self.hand));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{CallTime, Now};
    use uuid::Uuid;

    use super::{Class, Functions, Groups, SHARED, slot_of};
    use crate::limits::callers_only::FIRST_MS;
    use crate::mail::Used;

    #[test]
    fn a_slow_function_is_slow_for_everybody_and_a_hiccup_is_not() {
        let (mut functions, now) = (Functions::default(), Now::default());
        let [spin, echo] = [slot_of(0, "spin"), slot_of(0, "echo")];
        assert_ne!(spin, echo);
        assert_eq!(functions.class(now, spin, Class::Unknown), Class::Unknown);
        assert_eq!(functions.class(now, spin, Class::Fast(9)), Class::Unknown, "never called");
        functions.note_cost(now, spin, 1_000_000, true);
        assert_eq!(functions.class(now, spin, Class::Unknown), Class::Slow);
        assert_eq!(functions.class(now, spin, Class::Fast(9)), Class::Slow);
        functions.note_cost(now, echo, 0, true);
        assert_eq!(functions.class(now, echo, Class::Unknown), Class::New);
        functions.note_cost(now, echo, 64_000, true);
        assert_eq!(functions.class(now, echo, Class::Fast(9)), Class::Fast(9));
        assert_eq!(functions.class(now, echo, Class::Slow), Class::Slow);
        // To users who were slow it is not put down.
        (0..4).for_each(|_| functions.note_of_slow_user(now, echo, call(900_000, false)));
        assert_eq!(functions.class(now, echo, Class::Fast(9)), Class::Fast(9));
        // One that has become slow is known by a few.
        (0..4).for_each(|_| functions.note_cost(now, echo, 1_000_000, true));
        assert_eq!(functions.class(now, echo, Class::Fast(9)), Class::Slow);
        // Calls that are fast again are forgiven one by one.
        (0..40).for_each(|_| functions.note_cost(now, spin, 0, true));
        let later = now.after_ms(60_000);
        assert_eq!(functions.class(later, spin, Class::Unknown), Class::New);
    }

    #[test]
    fn for_who_was_fast_a_function_is_slow_that_nobody_finds_fast_or_that_is_long() {
        let (mut functions, now) = (Functions::default(), Now::default().after_ms(1_000));
        let slot = slot_of(0, "any");
        functions.note_cost(now, slot, 0, true);
        (0..9).for_each(|_| functions.note_cost(now, slot, 60_000, true));
        let classes = |functions: &Functions, now| {
            [Class::Fast(9), Class::New, Class::Unknown, Class::Slow]
                .map(|user| functions.class(now, slot, user) == Class::New)
        };
        assert_eq!(classes(&functions, now.after_ms(5_000)), [true, false, false, false]);
        assert_eq!(classes(&functions, now.after_ms(5_001)), [false; 4]);
        (0..2).for_each(|_| functions.note_cost(now, slot, 70_000, true));
        assert_eq!(classes(&functions, now), [false; 4]);
    }

    /// A call that computed for so long, and wrote or not.
    fn call(computed_us: u32, writes: bool) -> Used {
        Used { time: CallTime { kept_us: 0, computed_us }, writes, ..Used::default() }
    }

    #[test]
    fn what_a_function_does_is_learned_from_its_calls() {
        let (mut functions, now) = (Functions::default(), Now::default());
        let [pay, look] = [slot_of(0, "pay"), slot_of(0, "look")];
        assert!(!functions.writes(pay) && !functions.is_quick(now, pay, 250), "never called");
        functions.note(now, pay, call(200, true), true);
        functions.note(now, look, call(200, false), true);
        assert!(functions.writes(pay) && !functions.writes(look));
        assert!(functions.is_quick(now, pay, 250) && functions.is_quick(now, look, 250));
        // One that is seldom needed to write, or to compute for long, is no other function for it.
        functions.note(now, pay, call(400, false), true);
        functions.note(now, look, call(400, true), true);
        assert!(functions.writes(pay) && !functions.writes(look));
        assert!(functions.is_quick(now, pay, 250));
        (0..16).for_each(|_| functions.note(now, pay, call(400, false), true));
        assert!(!functions.writes(pay) && !functions.is_quick(now, pay, 250));
    }

    #[test]
    fn of_a_call_that_is_not_over_nobody_knows_that_it_is_fast() {
        let (mut functions, now) = (Functions::default(), Now::default());
        let slot = slot_of(0, "any");
        functions.note(now, slot, call(0, false), true);
        let later = now.after_ms(100);
        functions.note(later, slot, call(200, false), false);
        assert!(!functions.was_fast_just_now(later, slot), "it may compute for seconds yet");
        functions.note(later, slot, call(200, false), true);
        assert!(functions.was_fast_just_now(later, slot));
    }

    #[test]
    fn a_function_that_needed_a_caller_is_for_callers_for_a_second() {
        let (mut functions, now) = (Functions::default(), Now::default());
        let slot = slot_of(0, "any");
        functions.note(now, slot, Used { needs_caller: true, ..call(0, true) }, true);
        (0..60).for_each(|_| functions.note(now, slot, call(0, true), true));
        assert!(functions.writes(slot) && !functions.is_quick(now, slot, 250));
        assert!(!functions.is_quick(now.after_ms(FIRST_MS - 1), slot, 250));
        assert!(functions.is_quick(now.after_ms(FIRST_MS), slot, 250));
    }

    #[test]
    fn a_function_is_for_cores_after_sixteen_short_calls_that_needed_nobody() {
        let (mut functions, now) = (Functions::default(), Now::default().after_ms(5));
        let slot = slot_of(0, "echo");
        let note = |functions: &mut Functions, now, (count, used)| {
            (0..count).for_each(|_| functions.note(now, slot, used, true));
        };
        note(&mut functions, now, (15, call(0, false)));
        assert!(!functions.is_for_core(now, slot));
        note(&mut functions, now, (60, call(0, false)));
        assert!(functions.is_for_core(now, slot));
        // Two that were not short, or waited for a processor, and a third.
        let slower = Used { time: CallTime { kept_us: 250, computed_us: 0 }, ..Used::default() };
        note(&mut functions, now, (2, slower));
        assert!(functions.is_for_core(now, slot));
        note(&mut functions, now, (1, slower));
        assert!(!functions.is_for_core(now, slot));
        note(&mut functions, now, (32, call(0, false)));
        note(&mut functions, now, (1, Used { database: true, ..Used::default() }));
        note(&mut functions, now, (15, call(0, false)));
        assert!(!functions.is_for_core(now, slot), "the database");
        note(&mut functions, now, (1, call(0, false)));
        assert!(functions.is_for_core(now, slot));
        note(&mut functions, now, (1, Used { needs_caller: true, ..Used::default() }));
        note(&mut functions, now, (32, call(0, false)));
        assert!(!functions.is_for_core(now.after_ms(FIRST_MS - 1), slot));
        assert!(functions.is_for_core(now.after_ms(FIRST_MS), slot));
    }

    #[test]
    fn two_long_calls_are_remembered_64_times_as_long_whatever_comes_between() {
        let start = Now::default().after_ms(1_000);
        for (took_ms, kept_ms) in [(65, 4_160), (200, 12_800), (900, 57_600), (4_500, 60_000)] {
            let (mut functions, slot) = (Functions::default(), slot_of(0, "any"));
            (0..60).for_each(|_| functions.note_cost(start, slot, 0, true));
            functions.note_cost(start, slot, took_ms * 1_000, true);
            assert_eq!(functions.class(start, slot, Class::Fast(9)), Class::Fast(9), "a hiccup");
            functions.note_cost(start, slot, took_ms * 1_000, true);
            let (last, after) = (start.after_ms(kept_ms - 1), start.after_ms(kept_ms));
            (0..60).for_each(|_| functions.note_cost(last, slot, 0, true));
            assert_eq!(functions.class(last, slot, Class::Fast(9)), Class::Unknown, "{took_ms}");
            assert_eq!(functions.class(last, slot, Class::New), Class::Unknown, "{took_ms}");
            assert_eq!(functions.class(after, slot, Class::Fast(9)), Class::Fast(9), "{took_ms}");
            functions.note_cost(after, slot, took_ms * 1_000, true);
            assert_eq!(functions.class(after, slot, Class::Fast(9)), Class::Fast(9), "forgotten");
        }
    }

    #[test]
    fn a_second_of_requests_may_come_at_once_and_then_as_many_as_the_rate() {
        let (mut groups, start) = (Groups::default(), Now::default());
        let index = groups.user(start, Uuid::from_u128(7), SHARED);
        let mut taken =
            |now: Now| (0..1_000).take_while(|_| groups.get(index).take_request(now, 100)).count();
        assert_eq!(taken(start), 100);
        assert_eq!(taken(start.after_ms(9)), 0);
        assert_eq!(taken(start.after_ms(100)), 10);
        assert_eq!(taken(start.after_ms(60_000)), 100);
        assert!((0..9_999).all(|_| groups.get(index).take_request(start, 0)), "0 is off");
    }

    #[test]
    fn records_go_when_nothing_in_them_counts() {
        let (mut groups, mut now) = (Groups::default(), Now::default());
        let kept = groups.user(now, Uuid::from_u128(1), SHARED);
        groups.get(kept).sockets = 1;
        for id in 2..10_000_u128 {
            now = now.after_ms(10);
            let index = groups.user(now, Uuid::from_u128(id), SHARED);
            groups.get(index).take_request(now, 10);
            assert_eq!(groups.user(now, Uuid::from_u128(id), index), index);
        }
        assert!(groups.len() < 100, "{}", groups.len());
        assert_eq!(groups.user(now, Uuid::from_u128(1), SHARED), kept);
        // A stale hint is no answer.
        assert_ne!(groups.user(now, Uuid::from_u128(5), kept), kept);
    }

    #[test]
    fn a_record_is_small() {
        // Every idle socket has one.
        assert!(size_of::<super::Group>() <= 40, "{}", size_of::<super::Group>());
    }

    #[test]
    fn slow_calls_are_remembered_for_a_while() {
        let (mut groups, start) = (Groups::default(), Now::default());
        let group = groups.get(SHARED);
        assert_eq!(group.class(start), Class::Unknown);
        group.note_cost(start, 1, 0);
        assert_eq!(group.class(start), Class::Fast(32));
        group.note_cost(start, 1, 10);
        group.note_cost(start, 1, 0);
        assert_eq!(group.class(start), Class::Fast(3));
        assert!(!group.was_slow_in(start, 1));
        group.note_cost(start, 2, 900);
        group.note_cost(start.after_ms(4_000), 1, 0);
        let late = start.after_ms(4_000);
        assert_eq!(group.class(late), Class::Slow);
        assert!(group.was_slow_in(late, 2) && !group.was_slow_in(late, 1), "it was the other");
        group.note_cost(late, 1, 20);
        assert!(group.was_slow_in(late, 1) && !group.was_slow_in(late, 2), "the last one");
        let later = start.after_ms(5_000);
        assert_eq!(group.class(later), Class::Unknown);
        group.note_cost(later, 1, 0);
        assert_eq!(group.class(later), Class::Fast(32));
    }
}
