//! Who is near: all that a cell sees, sorted into squares, so that a look is at three slices.
//!
//! Rebuilt for every tick by a counting sort, which costs what there is and allocates nothing once
//! it has grown. What is deliberately not here: exact distances; a look brings some too many.

use crate::entity::{RANGE, Seen};
use crate::space::Point;

/// Entities by the squares that they lie in.
#[derive(Clone, Debug, Default)]
pub struct Near {
    corner: Point,
    /// Side of a square in units, at least [`RANGE`].
    side: i32,
    columns: usize,
    rows: usize,
    /// Where each square's entities begin in `sorted`, row by row; one more at the end.
    starts: Vec<u32>,
    sorted: Vec<Seen>,
}

impl Near {
    /// Sorts what is seen.
    pub fn rebuild(&mut self, seen: &[Seen]) {
        let low = |axis: fn(&Seen) -> i32| seen.iter().map(axis).min().unwrap_or(0);
        let high = |axis: fn(&Seen) -> i32| seen.iter().map(axis).max().unwrap_or(0);
        self.corner = Point { x: low(|it| it.at.x), y: low(|it| it.at.y) };
        let extent = (high(|it| it.at.x) - self.corner.x, high(|it| it.at.y) - self.corner.y);
        // A few wide apart want larger squares, not millions of empty ones.
        let squares_max = 4 * seen.len() + 16;
        self.side = RANGE;
        loop {
            self.columns = index(extent.0 / self.side) + 1;
            self.rows = index(extent.1 / self.side) + 1;
            if self.columns * self.rows <= squares_max {
                break;
            }
            self.side *= 2;
        }
        self.starts.clear();
        self.starts.resize(self.columns * self.rows + 1, 0);
        for one in seen {
            let square = self.square(one.at);
            self.starts[square] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self.sorted.clear();
        if let Some(&any) = seen.first() {
            self.sorted.resize(seen.len(), any);
        }
        // From the back, so that each start ends where its square begins.
        for one in seen.iter().rev() {
            let square = self.square(one.at);
            self.starts[square] -= 1;
            self.sorted[self.starts[square] as usize] = *one;
        }
    }

    /// All within [`RANGE`] of a point, and some more. The point itself must have been seen.
    pub fn around(&self, at: Point) -> impl Iterator<Item = &Seen> {
        let (column, row) = self.place(at);
        let from = column.saturating_sub(1);
        let to = (column + 2).min(self.columns);
        (row.saturating_sub(1)..(row + 2).min(self.rows)).flat_map(move |row| {
            let first = row * self.columns;
            let slice = self.starts[first + from] as usize..self.starts[first + to] as usize;
            &self.sorted[slice]
        })
    }

    fn place(&self, at: Point) -> (usize, usize) {
        (index((at.x - self.corner.x) / self.side), index((at.y - self.corner.y) / self.side))
    }

    fn square(&self, at: Point) -> usize {
        let (column, row) = self.place(at);
        row * self.columns + column
    }
}

fn index(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}
