//! Which cell a place belongs to: a kd-tree whose cuts run between bins.
//!
//! A tree never changes. [`Tree::changed`] makes the next version from it, and both are known to
//! all cells before the tick from which the new one holds, so that at every tick every place
//! belongs to one cell, and everybody agrees which.
//!
//! What is deliberately not here: when to change (`balance`), and what happens to the entities of a
//! cell that changes: they walk over a border, as always (`cell`).

use std::collections::BTreeMap;

use crate::space::{Area, Axis, Point};

/// One cell, in all its life. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(pub u32);

/// Cells of a zone at one time: each tells its neighbours something each tick.
pub const CELLS_MAX: usize = 256;
/// The least side of a cell in bins: four times as wide as a border is deep, so that what is
/// computed twice stays less than what is computed.
pub const CELL_SIDE_MIN: u16 = 4;

/// A change of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum Change {
    /// `cell` keeps what is below the line `at`; above it stands the new cell `above`.
    Split { cell: CellId, axis: Axis, at: u16, above: CellId },
    /// `kept` takes over the place of `gone`, which must share a cut with it.
    Merge { kept: CellId, gone: CellId },
    /// The cut between two cells that share one moves to the line `at`.
    Nudge { below: CellId, above: CellId, at: u16 },
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such cell is in the tree.
    #[error("cell {0} is not in the tree")]
    Unknown(u32),
    /// The two cells are not the halves of one cut.
    #[error("cells {0} and {1} do not share a cut")]
    NotSiblings(u32, u32),
    /// A part would be narrower than [`CELL_SIDE_MIN`], or the line is outside.
    #[error("no cut at {at}: a part would have less than {CELL_SIDE_MIN} bins")]
    Narrow {
        /// The line that was asked for.
        at: u16,
    },
    /// There are [`CELLS_MAX`] cells.
    #[error("there are {CELLS_MAX} cells already")]
    Full,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(CellId),
    Cut { axis: Axis, at: u16, parts: Box<(Node, Node)> },
}

/// One version of the partition.
#[derive(Clone, Debug)]
pub struct Tree {
    version: u32,
    bins: u16,
    root: Node,
    cells: BTreeMap<CellId, Area>,
}

impl Tree {
    /// One cell for a world with `bins` on a side, which must be from [`CELL_SIDE_MIN`] to
    /// [`crate::BINS_MAX`].
    #[must_use]
    pub fn new(bins: u16, cell: CellId) -> Self {
        assert!((CELL_SIDE_MIN..=crate::BINS_MAX).contains(&bins), "a world of {bins} bins");
        let cells = BTreeMap::from([(cell, Area::world(bins))]);
        Self { version: 0, bins, root: Node::Leaf(cell), cells }
    }

    /// Rises by one with each change.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Bins on a side of the world.
    #[must_use]
    pub fn bins(&self) -> u16 {
        self.bins
    }

    /// All cells, by id.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = (CellId, Area)> {
        self.cells.iter().map(|(id, area)| (*id, *area))
    }

    /// The area of a cell, if it is in this version.
    #[must_use]
    pub fn area(&self, cell: CellId) -> Option<Area> {
        self.cells.get(&cell).copied()
    }

    /// The cell that a place belongs to.
    #[must_use]
    pub fn cell_at(&self, point: Point) -> CellId {
        let (column, row) = point.bin();
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(cell) => return *cell,
                Node::Cut { axis, at, parts } => {
                    let line = if *axis == Axis::X { column } else { row };
                    node = if line < *at { &parts.0 } else { &parts.1 };
                }
            }
        }
    }

    /// Cells no more than `reach` units from an area, along each axis.
    pub fn near(&self, area: Area, reach: i32) -> impl Iterator<Item = (CellId, Area)> {
        self.cells().filter(move |(_, other)| area.is_near(*other, reach))
    }

    /// Pairs of cells that share a cut, the lower part first, with the cut.
    #[must_use]
    pub fn siblings(&self) -> Vec<(CellId, CellId, Axis, u16)> {
        let (mut found, mut open) = (Vec::new(), vec![&self.root]);
        while let Some(node) = open.pop() {
            let Node::Cut { axis, at, parts } = node else { continue };
            if let (Node::Leaf(below), Node::Leaf(above)) = &**parts {
                found.push((*below, *above, *axis, *at));
            }
            open.extend([&parts.0, &parts.1]);
        }
        found
    }

    /// The next version.
    ///
    /// # Errors
    /// [`Refused`], if the change does not fit this version.
    pub fn changed(&self, change: Change) -> Result<Self, Refused> {
        let mut next = self.clone();
        match change {
            Change::Split { cell, axis, at, above } => {
                let area = self.area(cell).ok_or(Refused::Unknown(cell.0))?;
                fits(area, axis, at)?;
                if self.cells.len() >= CELLS_MAX {
                    return Err(Refused::Full);
                }
                let parts = Box::new((Node::Leaf(cell), Node::Leaf(above)));
                *next.root.leaf(cell).ok_or(Refused::Unknown(cell.0))? =
                    Node::Cut { axis, at, parts };
            }
            Change::Merge { kept, gone } => {
                *next.root.pair(kept, gone)? = Node::Leaf(kept);
            }
            Change::Nudge { below, above, at: to } => {
                let (low, high) = (self.area(below), self.area(above));
                let low = low.ok_or(Refused::Unknown(below.0))?;
                let high = high.ok_or(Refused::Unknown(above.0))?;
                let both = Area { x0: low.x0, y0: low.y0, x1: high.x1, y1: high.y1 };
                if let Node::Cut { axis, at, .. } = next.root.pair(below, above)? {
                    fits(both, *axis, to)?;
                    *at = to;
                }
            }
        }
        next.version += 1;
        next.cells.clear();
        next.root.areas(Area::world(next.bins), &mut next.cells);
        Ok(next)
    }
}

fn fits(area: Area, axis: Axis, at: u16) -> Result<(), Refused> {
    let (from, to) = area.span(axis);
    let fits = at >= from + CELL_SIDE_MIN && at + CELL_SIDE_MIN <= to;
    if fits { Ok(()) } else { Err(Refused::Narrow { at }) }
}

impl Node {
    fn leaf(&mut self, cell: CellId) -> Option<&mut Self> {
        match self {
            Self::Leaf(this) => (*this == cell).then_some(self),
            Self::Cut { parts, .. } => {
                let (below, above) = &mut **parts;
                below.leaf(cell).or_else(|| above.leaf(cell))
            }
        }
    }

    /// The cut whose parts are these two cells, in either order.
    fn pair(&mut self, one: CellId, other: CellId) -> Result<&mut Self, Refused> {
        self.cut(one, other).ok_or(Refused::NotSiblings(one.0, other.0))
    }

    fn cut(&mut self, one: CellId, other: CellId) -> Option<&mut Self> {
        let Self::Cut { parts, .. } = self else { return None };
        if let (Self::Leaf(below), Self::Leaf(above)) = &**parts
            && [(one, other), (other, one)].contains(&(*below, *above))
        {
            return Some(self);
        }
        let Self::Cut { parts, .. } = self else { return None };
        let (below, above) = &mut **parts;
        below.cut(one, other).or_else(|| above.cut(one, other))
    }

    fn areas(&self, area: Area, cells: &mut BTreeMap<CellId, Area>) {
        match self {
            Self::Leaf(cell) => {
                cells.insert(*cell, area);
            }
            Self::Cut { axis, at, parts } => {
                let (below, above) = area.cut(*axis, *at);
                parts.0.areas(below, cells);
                parts.1.areas(above, cells);
            }
        }
    }
}
