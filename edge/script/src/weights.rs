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
//! is nobody's weight for long. Exact it is behind a full collection ([`Weights::settle`]).
//!
//! Not here: who is to end, which is the thread's business (`Scripts::excess_bytes`), and the collector (`vm`). A text that calls of
//! several users have is there once, and the weight of whoever had it first.

use std::collections::BTreeMap;
use std::net::IpAddr;

use game::guest::{CallContext, CallId};
use mlua::Lua;
use uuid::Uuid;

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

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    User(Uuid),
    /// Of a client that is nobody yet ([`event::client_bits`]).
    Address(u128),
    /// Nobody's who could be told from others.
    Call(CallId),
}

impl Whose {
    pub(crate) fn of(context: &CallContext, id: CallId) -> Self {
        if let Some(user_id) = context.user_id {
            return Self::User(user_id);
        }
        let address = context.client_ip.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
        address.map_or(Self::Call(id), |address| Self::Address(event::client_bits(address)))
    }
}

/// What the calls of one VM hold while they wait.
#[derive(Debug)]
pub(crate) struct Weights {
    memory_max_bytes: usize,
    /// Those with calls that wait or are paused.
    owners: BTreeMap<Whose, Owner>,
    /// By their category.
    shares: Box<[Share; tables::CATEGORIES as usize]>,
    /// The category of those who have no such calls, and how much in it makes another one that.
    nobodys: u8,
    nobodys_max_bytes: usize,
    /// What was held at the last look, or less since, bytes.
    looked_bytes: usize,
}

#[derive(Debug)]
struct Owner {
    category: u8,
    calls: usize,
    /// What its pieces have taken since it has the category, bytes.
    taken_bytes: usize,
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
}

/// A piece of a call that runs.
#[derive(Debug)]
#[must_use = "what runs after the piece is put down to whose call it was"]
pub(crate) struct Turn {
    pub(crate) category: u8,
    /// What was in it before.
    began_bytes: usize,
}

/// Those for calls.
fn categories() -> std::ops::Range<u8> {
    FIRST..tables::CATEGORIES
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
            shares: Box::default(),
            nobodys: FIRST,
            nobodys_max_bytes: memory_max_bytes / NOBODYS_PART,
            looked_bytes: 0,
        }
    }

    fn share(&mut self, category: u8) -> &mut Share {
        &mut self.shares[usize::from(category)]
    }

    /// A piece of a call begins: what is taken until it ends is whose it is. That includes its coroutine, if it is
    /// made then.
    pub(crate) fn begin(&self, lua: &Lua, whose: Whose) -> Turn {
        let category = self.owners.get(&whose).map_or(self.nobodys, |owner| owner.category);
        Turn { category, began_bytes: tables::set_category(lua, category) }
    }

    /// The piece has ended. `was_kept` and `is_kept` tell whether the call waited or was paused before, and is so now.
    pub(crate) fn end(
        &mut self,
        lua: &Lua,
        (whose, turn): (Whose, Turn),
        (was_kept, is_kept): (bool, bool),
    ) {
        let Turn { category, began_bytes } = turn;
        let bytes = tables::category_bytes(lua, category);
        if is_kept && !self.owners.contains_key(&whose) {
            assert!(!was_kept, "{whose:?} has had a call that was nobody's");
            let share = self.share(category);
            if share.owners == 0 {
                share.held_max_bytes = began_bytes;
            }
            share.owners += 1;
            self.owners.insert(whose, Owner { category, calls: 0, taken_bytes: 0 });
        }
        let (owner, share) = (self.owners.get_mut(&whose), &mut self.shares[usize::from(category)]);
        let taken_bytes = bytes.saturating_sub(began_bytes);
        share.held_max_bytes = share.held_max_bytes.saturating_add(taken_bytes);
        if let Some(owner) = owner {
            assert_eq!(owner.category, category, "{whose:?} has one category");
            owner.calls += usize::from(is_kept && !was_kept);
            owner.taken_bytes = owner.taken_bytes.saturating_add(taken_bytes);
            share.taken_bytes = share.taken_bytes.saturating_add(taken_bytes);
        }
        let is_owned = share.owners > 0;
        if was_kept && !is_kept {
            self.leave(whose);
        }
        if category == self.nobodys && (is_owned || bytes > self.nobodys_max_bytes) {
            self.choose(lua);
        }
    }

    /// A call that waited or was paused does so no more.
    pub(crate) fn leave(&mut self, whose: Whose) {
        let Some(owner) = self.owners.get_mut(&whose) else {
            unreachable!("{whose:?} has no call that waits")
        };
        owner.calls -= 1;
        if owner.calls == 0 {
            let share = &mut self.shares[usize::from(owner.category)];
            share.owners -= 1;
            share.taken_bytes = share.taken_bytes.saturating_sub(owner.taken_bytes);
            self.owners.remove(&whose);
        }
    }

    /// Those with no calls that wait have another category: of those with the fewest owners the one with the least in it.
    fn choose(&mut self, lua: &Lua) {
        let all = categories().map(|category| {
            let owners = self.shares[usize::from(category)].owners;
            (owners, tables::category_bytes(lua, category), category)
        });
        let Some((_, bytes, category)) = all.min() else { unreachable!("there are categories") };
        self.nobodys = category;
        self.nobodys_max_bytes = bytes.saturating_add(self.memory_max_bytes / NOBODYS_PART);
    }

    /// What the owners of a category hold at most.
    fn held_bytes(&self, lua: &Lua, category: u8) -> usize {
        let share = self.shares[usize::from(category)];
        if share.owners == 0 {
            return 0;
        }
        let bytes = tables::category_bytes(lua, category).saturating_sub(share.kept_bytes);
        bytes.min(share.held_max_bytes)
    }

    /// What calls that wait or are paused hold at most, bytes.
    pub(crate) fn all_bytes(&self, lua: &Lua) -> usize {
        categories().map(|category| self.held_bytes(lua, category)).sum()
    }

    /// What one of its calls that wait or are paused holds: all of them alike, and of a category with several owners
    /// each as much as it has taken of what they have.
    pub(crate) fn bytes(&self, lua: &Lua, whose: Whose) -> usize {
        let Some(&Owner { category, calls, taken_bytes }) = self.owners.get(&whose) else {
            return 0;
        };
        let (held_bytes, share) =
            (self.held_bytes(lua, category), self.shares[usize::from(category)]);
        let owned_bytes = match share.taken_bytes {
            0 => held_bytes / share.owners,
            all_bytes => portion(held_bytes, taken_bytes.min(all_bytes), all_bytes),
        };
        owned_bytes / calls
    }

    /// All that is garbage has been collected: what is in the categories is what somebody has.
    pub(crate) fn settle(&mut self, lua: &Lua) {
        for category in categories() {
            let bytes = tables::category_bytes(lua, category);
            let share = self.share(category);
            share.kept_bytes = if share.owners == 0 { bytes } else { share.kept_bytes.min(bytes) };
            share.held_max_bytes = share.held_max_bytes.min(bytes);
        }
        self.choose(lua);
    }

    /// What calls that wait have to give back of what they hold, bytes: 0 if it is no more than half of what they and
    /// what is free are together. All that is garbage is collected for it, if that may take its time here (`collects`).
    pub(crate) fn excess_bytes(&mut self, vm: &Vm, collects: bool) -> usize {
        let max_bytes = self.memory_max_bytes;
        // They are no more than what is used.
        if vm.lua.used_memory() <= max_bytes / 2 {
            return 0;
        }
        let held_bytes = self.all_bytes(&vm.lua);
        self.looked_bytes = self.looked_bytes.min(held_bytes);
        let look_bytes = self.looked_bytes.saturating_add(max_bytes / LOOK_PART);
        if held_bytes <= look_bytes || held_bytes <= self.left_bytes(vm, held_bytes) / 2 {
            return 0;
        }
        if collects && vm.collect() {
            self.settle(&vm.lua);
        }
        let held_bytes = self.all_bytes(&vm.lua);
        self.looked_bytes = held_bytes;
        let left_bytes = self.left_bytes(vm, held_bytes);
        if held_bytes <= left_bytes / 2 {
            0
        } else {
            held_bytes - left_bytes / 16 * KEPT_SIXTEENTHS
        }
    }

    /// What modules leave: all but what is used and not held by calls that wait.
    fn left_bytes(&self, vm: &Vm, held_bytes: usize) -> usize {
        let kept_bytes = vm.lua.used_memory().saturating_sub(held_bytes);
        self.memory_max_bytes.saturating_sub(kept_bytes)
    }
}
