//! All that cells, and those who drive them, say to each other. Plain data.
//!
//! ```text
//! director ── Orders(t) ──▶ cell ── Border(t) ──▶ cells near it (it may step t+1 when it has all)
//!                            └──── Published(t) ─▶ fan-out, auditor;  Report(t) ─▶ director
//! ```
//!
//! Between two threads of one process mail arrives, once, and in the order in which it was posted.
//! Cells rely on arrival alone: what comes twice is taken once, what comes early waits, and what
//! comes from a cell that has no business here is refused and counted. What is deliberately not
//! here: mail between processes, which may be lost for good.

use std::sync::Arc;

use crate::audit::Sums;
use crate::entity::{Downed, Entity, Hit, Seen, Spawn};
use crate::ids::EntityId;
use crate::space::Point;
use crate::tree::{CellId, Tree};

/// From the director to every cell: tick `tick` may be computed, and how.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Which tick.
    pub tick: u32,
    /// The partition from the next tick on: to it entities are handed over when this one is done.
    pub next: Arc<Tree>,
    /// How fast time goes, in thousandths; the same for all cells.
    pub tau_permille: u16,
    /// Who comes, and where. Seen by others from the next tick on.
    pub spawns: Arc<[Spawn]>,
    /// Who goes. Moves once more; not seen from the next tick on.
    pub leaves: Arc<[EntityId]>,
    /// What was ruled outside of the zone on what happened in earlier ticks, in order: done behind the
    /// computing, before anybody comes or goes.
    pub rulings: Arc<[Ruling]>,
    /// Whether hits of this tick cost nothing before a ruling says what.
    pub hits_wait: bool,
    /// Whether cells give their entities of this tick away, for a snapshot of the zone.
    pub is_saved: bool,
}

impl Orders {
    /// A tick at full speed in which nobody comes, goes or is ruled upon.
    #[must_use]
    pub fn new(tick: u32, next: Arc<Tree>) -> Self {
        Self {
            tick,
            next,
            tau_permille: 1_000,
            spawns: Arc::new([]),
            leaves: Arc::new([]),
            rulings: Arc::new([]),
            hits_wait: false,
            is_saved: false,
        }
    }
}

/// What whoever runs the zone has decided about a ship. It is an input of a tick as controls are, so that a
/// zone whose rules are elsewhere plays again from its inputs, however it is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Ruling {
    /// A hit of `by` costs `victim` so much health. If it has none, or is gone, that is nothing.
    Damage { victim: EntityId, by: EntityId, damage: u8 },
    /// `ship`, if it lies still, is whole again in so many ticks, at least 1.
    Respawn { ship: EntityId, ticks: u8 },
}

impl Ruling {
    /// Whose ship it is about.
    #[must_use]
    pub fn ship(&self) -> EntityId {
        match *self {
            Self::Damage { victim, .. } => victim,
            Self::Respawn { ship, .. } => ship,
        }
    }
}

/// From a cell to one near it, for each tick, also if there is nothing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Border {
    /// Who says it.
    pub from: CellId,
    /// To whom.
    pub to: CellId,
    /// The tick that is done.
    pub tick: u32,
    /// The version of the tree that held in that tick: what a cell says of an older one is refused.
    pub version: u32,
    /// Entities of others that the receiver sees.
    pub ghosts: Vec<Seen>,
    /// Entities that the receiver owns from the next tick on.
    pub arrivals: Vec<Entity>,
}

/// What a cell shows of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Who.
    pub id: EntityId,
    /// As [`Entity::epoch`].
    pub epoch: u32,
    /// Where.
    pub at: Point,
    /// Units a tick.
    pub velocity: (i32, i32),
    /// As [`Entity::heading`].
    pub heading: u16,
    /// As [`Entity::health`].
    pub health: u8,
    /// Whether it shot.
    pub fired: bool,
    /// The newest control that it follows.
    pub control_seq: u32,
}

/// What a cell has at the end of a tick, before it hands anything over: each entity of the zone is
/// shown by one cell each tick.
#[derive(Clone, Debug)]
pub struct Published {
    /// Whose.
    pub cell: CellId,
    /// Of which tick.
    pub tick: u32,
    /// The tree that held.
    pub version: u32,
    /// As the orders said.
    pub tau_permille: u16,
    /// Its entities, by id.
    pub rows: Vec<Shown>,
    /// Ships that went down in this tick, in order.
    pub downed: Vec<Downed>,
    /// Hits of this tick that have cost nothing yet, in order.
    pub hits: Vec<Hit>,
    /// What the auditor adds up.
    pub sums: Sums,
    /// Entities handed to other cells behind this tick.
    pub handed_over: u32,
}

/// What cost a tick had, for the director.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whose.
    pub cell: CellId,
    /// Processor time that the tick took, in nanoseconds; measured by who runs the cell.
    pub cpu_ns: u64,
    /// Entities in each column of bins of the cell.
    pub columns: Vec<u32>,
    /// Entities in each row of bins of the cell.
    pub rows: Vec<u32>,
}
