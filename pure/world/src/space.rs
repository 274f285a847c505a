//! Where things are: points and areas of a square plane, in whole numbers.
//!
//! A position is counted in [`UNITS_PER_METRE`]ths of a metre, so that a world that is computed in
//! one cell and one that is computed in many are the same to the last bit. The plane is tiled by
//! **bins**, squares of [`BIN_SIDE`] units: borders of cells run along the lines between them,
//! counts are kept for them, and whoever looks for neighbours looks through them.
//!
//! What is deliberately not here: a third dimension, and anything that moves.

/// Units of length in a metre.
pub const UNITS_PER_METRE: i32 = 1_024;
/// Side of a bin in units: 64 m.
pub const BIN_SIDE: i32 = 64 * UNITS_PER_METRE;
/// Bins on a side of the largest world, 65,536 m: a position has 26 bits.
pub const BINS_MAX: u16 = 1_024;

/// A place in the plane, in units from the corner with the least coordinates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// East of the corner; 0 up to the side of the world.
    pub x: i32,
    /// North of the corner; 0 up to the side of the world.
    pub y: i32,
}

impl Point {
    /// The square of the distance to another point, exact.
    #[must_use]
    pub fn distance_squared(self, other: Self) -> i64 {
        let (dx, dy) = (i64::from(self.x - other.x), i64::from(self.y - other.y));
        dx * dx + dy * dy
    }

    /// The bin that the point lies in, column and row.
    #[must_use]
    pub fn bin(self) -> (u16, u16) {
        (bin_of(self.x), bin_of(self.y))
    }
}

fn bin_of(coordinate: i32) -> u16 {
    u16::try_from(coordinate.max(0) / BIN_SIDE).unwrap_or(u16::MAX)
}

/// The direction in which coordinates are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// West to east: columns of bins.
    X,
    /// South to north: rows of bins.
    Y,
}

/// A rectangle of whole bins: from the first column and row up to but not including the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Area {
    /// First column.
    pub x0: u16,
    /// First row.
    pub y0: u16,
    /// The column behind the last.
    pub x1: u16,
    /// The row behind the last.
    pub y1: u16,
}

impl Area {
    /// The square world with `bins` on a side.
    #[must_use]
    pub fn world(bins: u16) -> Self {
        Self { x0: 0, y0: 0, x1: bins, y1: bins }
    }

    /// First and last line of the area along an axis, in bins.
    #[must_use]
    pub fn span(self, axis: Axis) -> (u16, u16) {
        match axis {
            Axis::X => (self.x0, self.x1),
            Axis::Y => (self.y0, self.y1),
        }
    }

    /// The axis along which the area is longer.
    #[must_use]
    pub fn long_axis(self) -> Axis {
        if self.x1 - self.x0 >= self.y1 - self.y0 { Axis::X } else { Axis::Y }
    }

    /// The parts below and above a line between bins. The line must run through the area.
    #[must_use]
    pub fn cut(self, axis: Axis, at: u16) -> (Self, Self) {
        let (from, to) = self.span(axis);
        assert!(from < at && at < to, "a cut at {at} outside {from}..{to}");
        match axis {
            Axis::X => (Self { x1: at, ..self }, Self { x0: at, ..self }),
            Axis::Y => (Self { y1: at, ..self }, Self { y0: at, ..self }),
        }
    }

    /// Whether the point lies in the area.
    #[must_use]
    pub fn contains(self, point: Point) -> bool {
        self.reaches(point, 0)
    }

    /// Whether the point lies in the area or within `reach` units of it, along each axis.
    #[must_use]
    pub fn reaches(self, point: Point, reach: i32) -> bool {
        let inside =
            |c: i32, from: u16, to: u16| (units(from) - reach..units(to) + reach).contains(&c);
        inside(point.x, self.x0, self.x1) && inside(point.y, self.y0, self.y1)
    }

    /// Whether no more than `reach` units lie between the areas, along each axis.
    #[must_use]
    pub fn is_near(self, other: Self, reach: i32) -> bool {
        let near = |from: u16, to: u16, other_from: u16, other_to: u16| {
            units(other_from) - units(to) <= reach && units(from) - units(other_to) <= reach
        };
        near(self.x0, self.x1, other.x0, other.x1) && near(self.y0, self.y1, other.y0, other.y1)
    }

    /// How many bins the area has.
    #[must_use]
    pub fn bins(self) -> u32 {
        u32::from(self.x1 - self.x0) * u32::from(self.y1 - self.y0)
    }
}

/// Bins to units.
#[must_use]
pub fn units(bins: u16) -> i32 {
    i32::from(bins) * BIN_SIDE
}
