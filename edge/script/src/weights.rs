//! Whose memory it is, in a VM that calls of many users share: what a call takes is counted with a category of Luau's
//! (`tables::set_category`), which a user, or an address without a user, has alone while calls of it wait or are
//! paused, as long as there are categories enough. What runs without ever waiting is all in one of those that are
//! nobody's, so that nothing is looked up for it.
//!
//! ```text
//! begin  whose call ─▶ its category, or the one that is nobody's ─▶ set while a piece runs
//! end    of a call that waits then ─▶ the category is its user's from now on, and another one is nobody's
//! ```
//!
//! What a user's calls hold is no more than what is in the category, and no more than what was in it when the user got
//! it and what their pieces have taken since. Both hold whatever was collected meanwhile; the lesser of the two is
//! their weight, without what was there when nobody's calls held anything: so what modules keep of what calls have made
//! is nobody's weight for long. Exact it is behind a full collection ([`Weights::settle`]). It is divided among the
//! user's calls by what the pieces of each have taken. That is a guess, because a collection in the middle of a
//! piece hides what the piece takes: so it is looked again when calls have ended.
//!
//! Where more users have calls that wait than there are categories, some share one, and what each of them holds is that
//! guess, too. What no piece was seen to take is divided equally, because nobody knows whose it is: divided by what each has
//! taken, it would put a neighbour's memory on whoever holds little.
//!
//! Not here: who is to end, which is the thread's business (`Scripts::excess_bytes`), and the collector (`vm`). A text that calls of
//! several users have is there once, and the weight of whoever had it first.

use std::collections::BTreeMap;

use game::fetch::Principal;
use game::guest::CallId;
use mlua::Lua;
use tables::CATEGORIES;

use crate::vm::Vm;

/// The category of what modules make as they are loaded. Luau's own is 0.
pub(crate) const MODULES: u8 = 1;

/// The first category for calls.
const FIRST: u8 = MODULES + 1;

/// Calls that wait may hold half of what modules leave of a VM's memory; the other half is for calls that run. If they
/// hold more, they give back until they hold so many sixteenths.
const KEPT_SIXTEENTHS: usize = 6;

/// It is looked at again when this part of the VM's memory more is held: to look is to collect.
const LOOK_PART: usize = 16;

/// When so much more of the VM's memory has been taken with the category that is nobody's, another one is: what is
/// garbage there weighs upon whoever gets it, until all is collected.
const NOBODYS_PART: usize = 64;

/// What is in a category is no reason to look for another one, if it is no more than this part of the VM's memory.
const LITTLE_PART: usize = 1024;

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// Of who pays for it.
    Payer(Principal),
    /// Nobody's who could be told from others.
    Call(CallId),
}

impl Whose {
    pub(crate) fn of(payer: Principal, id: CallId) -> Self {
        if payer == Principal::Server { Self::Call(id) } else { Self::Payer(payer) }
    }
}

/// What the calls of one VM hold while they wait.
#[derive(Debug)]
pub(crate) struct Weights {
    memory_max_bytes: usize,
    /// Those with calls that wait or are paused.
    owners: BTreeMap<Whose, Owner>,
    /// By their category.
    shares: Box<[Share; CATEGORIES as usize]>,
    /// The category of those who have no such calls, and how much in it makes another one that.
    nobodys: u8,
    nobodys_max_bytes: usize,
    /// What was held at the last look, bytes: less what calls held that have been ended since, or less.
    looked_bytes: usize,
}

#[derive(Debug)]
struct Owner {
    category: u8,
    /// What pieces have taken since it has the category, bytes: what is garbage included, until all is collected.
    taken_bytes: usize,
    /// Those that wait or are paused, each with what its pieces have taken, and the sum of that.
    calls: BTreeMap<CallId, usize>,
    calls_bytes: usize,
}

/// What is known of a category besides what is in it.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    owners: usize,
    /// What its owners have taken together, bytes.
    taken_bytes: usize,
    /// What its owners hold at most, bytes: what was in it when the first of them got it, and what has been taken since.
    held_max_bytes: usize,
    /// What was in it behind a collection when it was nobody's, or less since, bytes.
    kept_bytes: usize,
    /// What those held whose last call was ended since somebody had it, bytes: garbage, as far as it is still in it
    /// and no owner's.
    ended_bytes: usize,
}

impl Share {
    /// What its owners hold at most, when so much is in it.
    fn held_bytes(&self, bytes: usize) -> usize {
        match self.owners {
            0 => 0,
            _ => bytes.saturating_sub(self.kept_bytes).min(self.held_max_bytes),
        }
    }

    /// What is still there of what those held who are gone.
    fn ended_bytes(&self, bytes: usize) -> usize {
        let others_bytes = self.kept_bytes.saturating_add(self.held_bytes(bytes));
        self.ended_bytes.min(bytes.saturating_sub(others_bytes))
    }
}

/// A piece of a call that runs.
#[derive(Debug)]
#[must_use = "what runs after the piece is put down to whose call it was"]
pub(crate) struct Begun {
    pub(crate) category: u8,
    /// What was in it before.
    bytes: usize,
}

/// Those for calls.
fn categories() -> std::ops::Range<u8> {
    FIRST..CATEGORIES
}

/// `bytes * part / whole`.
fn portion(bytes: usize, part: usize, whole: usize) -> usize {
    assert!(part <= whole && whole > 0, "{part} of {whole}");
    let portion = bytes as u128 * part as u128 / whole as u128;
    usize::try_from(portion).unwrap_or(bytes)
}

impl Weights {
    /// For a VM with so much memory in which nothing has run but modules.
    pub(crate) fn new(memory_max_bytes: usize) -> Self {
        Self {
            memory_max_bytes,
            owners: BTreeMap::new(),
            shares: Box::new([Share::default(); CATEGORIES as usize]),
            nobodys: FIRST,
            nobodys_max_bytes: memory_max_bytes / NOBODYS_PART,
            looked_bytes: 0,
        }
    }

    /// A piece of a call begins: what is taken until it ends is whose it is. That includes its coroutine, if it is
    /// made then.
    pub(crate) fn begin(&self, lua: &Lua, whose: Whose) -> Begun {
        let category = self.owners.get(&whose).map_or(self.nobodys, |owner| owner.category);
        Begun { category, bytes: tables::set_category(lua, category) }
    }

    /// The piece has ended. `was_kept` and `is_kept` tell whether the call waited or was paused before, and is so now.
    pub(crate) fn end(
        &mut self,
        lua: &Lua,
        (id, whose, begun): (CallId, Whose, Begun),
        (was_kept, is_kept): (bool, bool),
    ) {
        let Begun { category, bytes: began_bytes } = begun;
        let bytes = tables::category_bytes(lua, category);
        let share = &mut self.shares[usize::from(category)];
        if is_kept && !self.owners.contains_key(&whose) {
            assert!(!was_kept, "{whose:?} has had a call that was nobody's");
            if share.owners == 0 {
                (share.held_max_bytes, share.ended_bytes) = (began_bytes, 0);
            }
            share.owners += 1;
            let (calls, calls_bytes) = (BTreeMap::new(), 0);
            self.owners.insert(whose, Owner { category, taken_bytes: 0, calls, calls_bytes });
        }
        let taken_bytes = bytes.saturating_sub(began_bytes);
        share.held_max_bytes = share.held_max_bytes.saturating_add(taken_bytes);
        if let Some(owner) = self.owners.get_mut(&whose) {
            assert_eq!(owner.category, category, "{whose:?} has one category");
            owner.taken_bytes = owner.taken_bytes.saturating_add(taken_bytes);
            share.taken_bytes = share.taken_bytes.saturating_add(taken_bytes);
            if is_kept {
                *owner.calls.entry(id).or_default() += taken_bytes;
                owner.calls_bytes += taken_bytes;
            }
        }
        let is_owned = share.owners > 0;
        if was_kept && !is_kept {
            self.finish(lua, whose, id);
        }
        if category == self.nobodys && (is_owned || bytes > self.nobodys_max_bytes) {
            self.choose(lua);
        }
    }

    /// A call that waited or was paused has ended by itself: with its owner's last one, what they held weighs upon nobody
    /// who shares their category. Where nobody does, nothing is to be reckoned.
    fn finish(&mut self, lua: &Lua, whose: Whose, id: CallId) {
        let category = self.owners.get(&whose).map(|owner| owner.category);
        match category {
            Some(category) if self.shares[usize::from(category)].owners > 1 => {
                self.part(lua, whose, id);
            }
            _ => drop(self.leave(whose, id)),
        }
    }

    /// A call is no more. With its owner's last one, what they held is garbage, as far as is known.
    fn part(&mut self, lua: &Lua, whose: Whose, id: CallId) {
        let Some(owner) = self.owners.get(&whose) else {
            unreachable!("{whose:?} has no call that waits")
        };
        let (category, owner_bytes) = (owner.category, self.owner_bytes(lua, owner));
        let held_bytes = self.held_bytes(lua, category);
        if self.leave(whose, id) {
            let share = &mut self.shares[usize::from(category)];
            share.held_max_bytes = held_bytes.saturating_sub(owner_bytes);
            share.ended_bytes = share.ended_bytes.saturating_add(owner_bytes);
        }
    }

    /// A call that waited or was paused does so no more. Returns whether its owner has no more of them.
    fn leave(&mut self, whose: Whose, id: CallId) -> bool {
        let Some(owner) = self.owners.get_mut(&whose) else {
            unreachable!("{whose:?} has no call that waits")
        };
        let Some(taken_bytes) = owner.calls.remove(&id) else {
            unreachable!("{id:?} does not wait")
        };
        owner.calls_bytes -= taken_bytes;
        let is_gone = owner.calls.is_empty();
        if is_gone {
            let share = &mut self.shares[usize::from(owner.category)];
            share.owners -= 1;
            share.taken_bytes = share.taken_bytes.saturating_sub(owner.taken_bytes);
            self.owners.remove(&whose);
        }
        is_gone
    }

    /// A call that waited or was paused has been ended: what it held is garbage.
    pub(crate) fn cancel(&mut self, lua: &Lua, whose: Whose, id: CallId) {
        self.looked_bytes = self.looked_bytes.saturating_sub(self.bytes(lua, whose, id));
        self.part(lua, whose, id);
    }

    /// Those with no calls that wait have another category: the next one that is nobody's and as good as empty, or, of
    /// those with the fewest owners, the one with the least in it.
    fn choose(&mut self, lua: &Lua) {
        let count = CATEGORIES - FIRST;
        let all = (1..=count).map(|step| {
            let category = FIRST + (self.nobodys - FIRST + step) % count;
            let owners = self.shares[usize::from(category)].owners;
            (owners, tables::category_bytes(lua, category), category)
        });
        let little_bytes = self.memory_max_bytes / LITTLE_PART;
        let is_free =
            |(owners, bytes, _): &(usize, usize, u8)| *owners == 0 && *bytes <= little_bytes;
        let Some((_, bytes, category)) = all.clone().find(is_free).or_else(|| all.min()) else {
            unreachable!("there are categories")
        };
        self.nobodys = category;
        self.nobodys_max_bytes = bytes.saturating_add(self.memory_max_bytes / NOBODYS_PART);
    }

    fn held_bytes(&self, lua: &Lua, category: u8) -> usize {
        self.shares[usize::from(category)].held_bytes(tables::category_bytes(lua, category))
    }

    /// What calls that wait or are paused hold at most, bytes.
    fn all_bytes(&self, lua: &Lua) -> usize {
        categories().map(|category| self.held_bytes(lua, category)).sum()
    }

    /// The same, and what was held by calls that were ended and has not been collected.
    pub(crate) fn calls_bytes(&self, lua: &Lua) -> usize {
        let ended = |category| {
            self.shares[usize::from(category)].ended_bytes(tables::category_bytes(lua, category))
        };
        self.all_bytes(lua) + categories().map(ended).sum::<usize>()
    }

    /// What an owner's calls hold: of a category with several owners each as much as it has taken of what they have, plus an
    /// equal part of the rest.
    fn owner_bytes(&self, lua: &Lua, owner: &Owner) -> usize {
        let share = self.shares[usize::from(owner.category)];
        let held_bytes = self.held_bytes(lua, owner.category);
        let (mine_bytes, all_bytes) = (owner.taken_bytes.min(share.taken_bytes), share.taken_bytes);
        match held_bytes.checked_sub(all_bytes) {
            Some(hidden_bytes) => mine_bytes + hidden_bytes / share.owners,
            None => portion(held_bytes, mine_bytes, all_bytes),
        }
    }

    /// What one of its calls that wait or are paused holds, 1 at least.
    pub(crate) fn bytes(&self, lua: &Lua, whose: Whose, id: CallId) -> usize {
        let Some((owner, taken_bytes)) =
            self.owners.get(&whose).and_then(|owner| Some((owner, *owner.calls.get(&id)?)))
        else {
            return 0;
        };
        let owner_bytes = self.owner_bytes(lua, owner);
        let bytes = match owner.calls_bytes {
            0 => owner_bytes / owner.calls.len(),
            all_bytes => portion(owner_bytes, taken_bytes, all_bytes),
        };
        bytes.max(1)
    }

    /// All that is garbage has been collected: what is in the categories is what somebody has, and nobody has taken
    /// more.
    pub(crate) fn settle(&mut self, lua: &Lua) {
        for category in categories() {
            let bytes = tables::category_bytes(lua, category);
            let share = &mut self.shares[usize::from(category)];
            share.kept_bytes = if share.owners == 0 { bytes } else { share.kept_bytes.min(bytes) };
            // What those who are gone have held was a guess.
            let is_guess = share.ended_bytes > 0;
            share.held_max_bytes = if is_guess { bytes } else { share.held_max_bytes.min(bytes) };
            share.ended_bytes = 0;
            share.taken_bytes = 0;
        }
        for owner in self.owners.values_mut() {
            let share = &mut self.shares[usize::from(owner.category)];
            let held_bytes = share.held_bytes(tables::category_bytes(lua, owner.category));
            for taken_bytes in owner.calls.values_mut() {
                *taken_bytes = held_bytes.min(*taken_bytes);
            }
            owner.calls_bytes = owner.calls.values().sum();
            owner.taken_bytes = owner.calls_bytes;
            share.taken_bytes += owner.taken_bytes;
        }
        self.choose(lua);
    }

    /// What calls that wait have to give back of what they hold, bytes: 0 if it is no more than half of what they and
    /// what is free are together. All that is garbage is collected for it, if that may take its time here (`collects`).
    /// When calls have been ended for it, it is to be asked again: then what they have held is collected.
    pub(crate) fn excess_bytes(&mut self, vm: &Vm, collects: bool) -> usize {
        let (lua, max_bytes) = (&vm.lua, self.memory_max_bytes);
        // They are no more than what is used.
        if lua.used_memory() <= max_bytes / 2 {
            return 0;
        }
        let held_bytes = self.all_bytes(lua);
        self.looked_bytes = self.looked_bytes.min(held_bytes);
        let look_bytes = self.looked_bytes.saturating_add(max_bytes / LOOK_PART);
        let bytes = if collects { self.calls_bytes(lua) } else { held_bytes };
        if bytes <= look_bytes || bytes <= self.left_bytes(vm) / 2 {
            return 0;
        }
        if collects && vm.collect() {
            self.settle(lua);
        }
        let held_bytes = self.all_bytes(lua);
        self.looked_bytes = held_bytes;
        let left_bytes = self.left_bytes(vm);
        if held_bytes <= left_bytes / 2 {
            0
        } else {
            held_bytes - left_bytes / 16 * KEPT_SIXTEENTHS
        }
    }

    /// What modules leave: all but what is used, and neither held by calls that wait nor by those that were ended.
    fn left_bytes(&self, vm: &Vm) -> usize {
        let kept_bytes = vm.lua.used_memory().saturating_sub(self.calls_bytes(&vm.lua));
        self.memory_max_bytes.saturating_sub(kept_bytes)
    }
}
