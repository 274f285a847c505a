//! Who decides for the whole zone: which tick may be computed, with which tree, who comes and goes.
//!
//! There is one director, so all changes of the partition have one order. A tick is released with
//! the tree of the *next* one: every cell knows, before it hands anything over, to whom. A tick is
//! not released before all cells have done what was released some ticks earlier, so that none runs
//! away from one that is slow.
//!
//! What is deliberately not here: computing a tick (`cell`), the rule when to change (`balance`),
//! and the clock: who drives the zone asks for the next tick when it is time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::balance::{Balance, Rates};
use crate::cell::AHEAD_TICKS_MAX;
use crate::entity::{HEALTH_FULL, Spawn};
use crate::ids::{EntityId, Slots};
use crate::mail::{Orders, Report, Ruling};
use crate::space::{Point, units};
use crate::tree::{CellId, Change, Refused, Tree};

/// How a zone is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bins on a side of the world.
    pub bins: u16,
    /// How fast it runs, and on what.
    pub rates: Rates,
    /// Ticks that cells may be apart, from 1 up to half of [`AHEAD_TICKS_MAX`].
    pub ahead_ticks: u32,
}

/// A tick that may be computed.
#[derive(Clone, Debug)]
pub struct Released {
    /// For all cells of `tree`.
    pub orders: Orders,
    /// The tree that holds in the tick.
    pub tree: Arc<Tree>,
    /// A cell that begins with the next tick, and the room that computes it.
    pub starts: Option<(CellId, u16)>,
    /// What makes the tree of the next tick of this one's; none where both are the same.
    pub change: Option<Change>,
}

/// See the module.
#[derive(Debug)]
pub struct Director {
    settings: Settings,
    /// The tick that is released next, and the tree that holds in it.
    tick: u32,
    tree: Arc<Tree>,
    slots: Slots,
    spawns: Vec<Spawn>,
    leaves: Vec<EntityId>,
    rulings: Vec<Ruling>,
    /// Whether hits cost nothing before something is ruled.
    hits_wait: bool,
    tau_permille: u16,
    /// Whether the next tick is one that is saved.
    is_saved: bool,
    balance: Balance,
    change: Option<Change>,
    cells_made: u32,
    /// Cells that have not done a tick that was released.
    undone: BTreeMap<u32, usize>,
}

impl Director {
    /// A world of one cell, with nobody in it.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let far = settings.ahead_ticks;
        assert!((1..=AHEAD_TICKS_MAX / 2).contains(&far), "cells may be {far} ticks apart");
        let first = CellId(0);
        Self {
            settings,
            tick: 0,
            tree: Arc::new(Tree::new(settings.bins, first)),
            slots: Slots::default(),
            spawns: Vec::new(),
            leaves: Vec::new(),
            rulings: Vec::new(),
            hits_wait: false,
            tau_permille: 1_000,
            is_saved: false,
            balance: Balance::new(settings.rates, first),
            change: None,
            cells_made: 1,
            undone: BTreeMap::new(),
        }
    }

    /// A world that goes on with the tick after one that was saved. It has one cell, which everybody is in.
    #[must_use]
    pub fn restored(settings: Settings, tick: u32, slots: Slots) -> Self {
        Self { tick: tick + 1, slots, ..Self::new(settings) }
    }

    /// From now on there are as many equal cells as rooms, whatever they cost.
    pub fn fix_cells(&mut self) {
        self.balance.fix();
    }

    /// Has cells give their entities away at the end of the next tick.
    pub fn save(&mut self) {
        self.is_saved = true;
    }

    /// Who hands out ids, as it is for who does not know of those that are about to come: their slots are
    /// free, and give other ids.
    #[must_use]
    pub fn slots(&self) -> Slots {
        let mut slots = self.slots.clone();
        self.spawns.iter().for_each(|spawn| slots.give_back(spawn.id, self.tick));
        slots
    }

    /// The tick that is released next.
    #[must_use]
    pub fn tick(&self) -> u32 {
        self.tick
    }

    /// The tree that holds in that tick.
    #[must_use]
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// What is known of the cells' cost.
    #[must_use]
    pub fn balance(&self) -> &Balance {
        &self.balance
    }

    /// Lets somebody in with the next tick; a place outside the world is moved to its edge. None
    /// if the zone is full.
    pub fn spawn(&mut self, at: Point) -> Option<EntityId> {
        self.spawn_with(at, 0, HEALTH_FULL)
    }

    /// The same with a heading and health as [`Spawn`] has them.
    pub fn spawn_with(&mut self, at: Point, heading: u16, health: u8) -> Option<EntityId> {
        assert!((1..=HEALTH_FULL).contains(&health), "a ship comes with health {health}");
        let end = units(self.settings.bins) - 1;
        let at = Point { x: at.x.clamp(0, end), y: at.y.clamp(0, end) };
        let id = self.slots.take(self.tick)?;
        self.spawns.push(Spawn { id, at, heading, health });
        Some(id)
    }

    /// Something was ruled on what happened in an earlier tick; it is done in the next.
    pub fn rule(&mut self, ruling: Ruling) {
        self.rulings.push(ruling);
    }

    /// Whether hits from the next tick on cost nothing before something is ruled.
    pub fn let_hits_wait(&mut self, hits_wait: bool) {
        self.hits_wait = hits_wait;
    }

    /// Takes somebody out who was let in and not taken out; the tick after the one in which it
    /// came is the first that can be.
    pub fn leave(&mut self, id: EntityId) {
        assert!(!self.leaves.contains(&id), "somebody leaves twice");
        self.leaves.push(id);
    }

    /// How fast time goes from the next tick on, in thousandths.
    pub fn set_tau(&mut self, tau_permille: u16) {
        assert!((1..=1_000).contains(&tau_permille), "time at {tau_permille} thousandths");
        self.tau_permille = tau_permille;
    }

    /// A cell that a [`Change::Split`] by hand may name as new.
    #[must_use]
    pub fn new_cell(&self) -> CellId {
        CellId(self.cells_made)
    }

    /// Makes a change with the next tick, in place of what the balance would do.
    ///
    /// # Errors
    /// [`Refused`], if it does not fit the tree.
    pub fn change(&mut self, change: Change) -> Result<(), Refused> {
        self.tree.changed(change)?;
        self.change = Some(change);
        Ok(())
    }

    /// A cell has done a tick, at this cost.
    pub fn done(&mut self, tick: u32, report: Report) {
        let left = self.undone.get_mut(&tick).map(|left| {
            *left -= 1;
            *left
        });
        assert!(left.is_some(), "tick {tick} was not released");
        if left == Some(0) {
            self.undone.remove(&tick);
        }
        self.balance.report(report);
    }

    /// The next tick, or none while some cell is too far behind.
    pub fn release(&mut self) -> Option<Released> {
        let oldest = self.undone.first_key_value().map_or(self.tick, |(tick, _)| *tick);
        if self.tick - oldest >= self.settings.ahead_ticks {
            return None;
        }
        let new = self.new_cell();
        let decided = self.change.take();
        let change = decided.or_else(|| self.balance.decide(self.tick, &self.tree, new));
        let next = change.and_then(|change| self.tree.changed(change).ok());
        let change = change.filter(|_| next.is_some());
        let mut starts = None;
        if let Some(change) = change {
            self.balance.changed(self.tick, change);
            if let Change::Split { above, .. } = change {
                self.cells_made = self.cells_made.max(above.0 + 1);
                starts = Some((above, self.balance.room(above)));
            }
        }
        let next = next.map_or_else(|| self.tree.clone(), Arc::new);
        let tick = self.tick;
        let spawns: Arc<[_]> = std::mem::take(&mut self.spawns).into();
        // Who comes in this tick can be told to go in the next.
        let comes = |id: &EntityId| spawns.iter().any(|coming: &Spawn| coming.id == *id);
        let (later, leaves): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.leaves).into_iter().partition(comes);
        self.leaves = later;
        for id in &leaves {
            self.slots.give_back(*id, tick);
        }
        let orders = Orders {
            tick,
            next: next.clone(),
            tau_permille: self.tau_permille,
            spawns,
            leaves: leaves.into(),
            rulings: std::mem::take(&mut self.rulings).into(),
            hits_wait: self.hits_wait,
            is_saved: std::mem::take(&mut self.is_saved),
        };
        self.undone.insert(tick, self.tree.cells().len());
        self.tick += 1;
        let tree = std::mem::replace(&mut self.tree, next);
        Some(Released { orders, tree, starts, change })
    }
}
