//! Whether every entity is there once: sums that each cell makes of its ids, and the ledger of who
//! has come and gone that they must agree with, tick by tick.
//!
//! Two sums over mixed ids, one with and one without carries, change if any id is lost, doubled or
//! swapped for another; that both miss it has a chance of about 2⁻⁶⁴. It costs a few additions for
//! an entity and tick, so it is always on. What is deliberately not here: which id it was; tests
//! look at all rows.

use std::collections::BTreeMap;

use crate::entity::Entity;
use crate::ids::EntityId;
use crate::mail::Published;
use crate::tree::Tree;

/// Sums over entities, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many.
    pub count: u32,
    /// Sum of the mixed ids.
    pub ids_sum: u64,
    /// Exclusive or of the mixed ids.
    pub ids_xor: u64,
    /// Sum of [`Entity::hash`]: the same for the same world, however it is partitioned.
    pub state: u64,
}

impl Sums {
    /// Adds an entity.
    pub fn add(&mut self, entity: &Entity) {
        self.come(entity.id);
        self.state = self.state.wrapping_add(entity.hash());
    }

    /// Adds other sums.
    pub fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.ids_sum = self.ids_sum.wrapping_add(other.ids_sum);
        self.ids_xor ^= other.ids_xor;
        self.state = self.state.wrapping_add(other.state);
    }

    fn come(&mut self, id: EntityId) {
        self.count += 1;
        self.ids_sum = self.ids_sum.wrapping_add(id.mix());
        self.ids_xor ^= id.mix();
    }

    fn go(&mut self, id: EntityId) {
        assert!(self.count > 0, "somebody goes where nobody is");
        self.count -= 1;
        self.ids_sum = self.ids_sum.wrapping_sub(id.mix());
        self.ids_xor ^= id.mix();
    }
}

/// What the ledger found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Cells together do not have whom they should (invariants 1 and 2).
    #[error("tick {tick}: {found} entities where {expected} should be, or others")]
    Entities {
        /// In which tick.
        tick: u32,
        /// So many are there.
        found: u32,
        /// So many should be.
        expected: u32,
    },
    /// A cell computed a tick with another tree, or at another speed, than the zone (4 and 10).
    #[error("tick {tick}: cell {cell} had tree {version} at speed {tau_permille}")]
    Stray {
        /// In which tick.
        tick: u32,
        /// Which cell.
        cell: u32,
        /// The tree that it had.
        version: u32,
        /// The speed that it had.
        tau_permille: u16,
    },
    /// Cells of the tree do not tile the world (6).
    #[error("tree {version} does not tile the world")]
    Tiles {
        /// Which version.
        version: u32,
    },
    /// A tick came with an older tree than the one before (11).
    #[error("tick {tick}: tree {version} after a newer one")]
    Order {
        /// In which tick.
        tick: u32,
        /// The version that came.
        version: u32,
    },
}

/// A tick that not all cells have published.
#[derive(Debug)]
struct Open {
    version: u32,
    tau_permille: u16,
    cells_left: usize,
    expected: Sums,
    found: Sums,
}

/// The books of a zone: told of every tick when it is ordered, and of everything published.
#[derive(Debug, Default)]
pub struct Ledger {
    expected: Sums,
    /// Of the tree of the newest tick; none before the first.
    version: Option<u32>,
    open: BTreeMap<u32, Open>,
    /// The newest tick that all cells have published, and the hash of the whole world in it.
    pub settled: Option<(u32, u64)>,
}

impl Ledger {
    /// The books of a zone in which these are already.
    #[must_use]
    pub fn of(there: impl IntoIterator<Item = EntityId>) -> Self {
        let mut ledger = Self::default();
        there.into_iter().for_each(|id| ledger.expected.come(id));
        ledger
    }

    /// Tick `tick` is ordered with `tree`: who comes in it and who goes.
    ///
    /// # Errors
    /// [`Fault::Order`] and [`Fault::Tiles`].
    pub fn order(
        &mut self,
        (tick, tau_permille): (u32, u16),
        tree: &Tree,
        comes: &[EntityId],
        goes: &[EntityId],
    ) -> Result<(), Fault> {
        let version = tree.version();
        if self.version.is_some_and(|before| version < before) {
            return Err(Fault::Order { tick, version });
        }
        if self.version != Some(version) {
            let cells: Vec<_> = tree.cells().map(|(_, area)| area).collect();
            tiles(tree.bins(), &cells).then_some(()).ok_or(Fault::Tiles { version })?;
        }
        self.version = Some(version);
        comes.iter().for_each(|id| self.expected.come(*id));
        goes.iter().for_each(|id| self.expected.go(*id));
        let cells_left = tree.cells().len();
        let (expected, found) = (self.expected, Sums::default());
        self.open.insert(tick, Open { version, tau_permille, cells_left, expected, found });
        Ok(())
    }

    /// A cell has published a tick.
    ///
    /// # Errors
    /// [`Fault::Stray`], and [`Fault::Entities`] when the last cell of a tick has published.
    pub fn publish(&mut self, published: &Published) -> Result<(), Fault> {
        let Published { tick, version, tau_permille, .. } = *published;
        let stray = Fault::Stray { tick, cell: published.cell.0, version, tau_permille };
        let open = self.open.get_mut(&tick).ok_or(stray)?;
        if (open.version, open.tau_permille) != (version, tau_permille) {
            return Err(stray);
        }
        open.found.join(&published.sums);
        open.cells_left -= 1;
        if open.cells_left > 0 {
            return Ok(());
        }
        let (found, expected) = (open.found, open.expected);
        self.open.remove(&tick);
        self.settled = Some((tick, found.state));
        let same = Sums { state: 0, ..found } == Sums { state: 0, ..expected };
        let (found, expected) = (found.count, expected.count);
        same.then_some(()).ok_or(Fault::Entities { tick, found, expected })
    }
}

/// Whether the areas cover the world with `bins` on a side, and none covers another (invariant 6).
#[must_use]
pub fn tiles(bins: u16, areas: &[crate::space::Area]) -> bool {
    let covered: u32 = areas.iter().map(|area| area.bins()).sum();
    let inside =
        areas.iter().all(|it| it.x0 < it.x1 && it.y0 < it.y1 && it.x1 <= bins && it.y1 <= bins);
    let overlaps = |one: &crate::space::Area, other: &crate::space::Area| {
        one.x0 < other.x1 && other.x0 < one.x1 && one.y0 < other.y1 && other.y0 < one.y1
    };
    let apart = (1..areas.len())
        .all(|index| areas[..index].iter().all(|other| !overlaps(&areas[index], other)));
    inside && apart && covered == u32::from(bins) * u32::from(bins)
}
