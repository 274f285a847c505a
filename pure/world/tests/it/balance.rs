//! The partition follows the load, and does not swing.

use world::{Area, Axis, Balance, CellId, Change, Rates, Report, Tree};

/// A second of made-up load: each cell costs what its part of a hot spot does.
struct Load {
    tree: Tree,
    balance: Balance,
    tick: u32,
    cells: u32,
    changes: Vec<Change>,
}

const RATES: Rates = Rates { tick_rate_hz: 20, budget_ns: 10_000_000, rooms: 4 };

impl Load {
    fn new() -> Self {
        let tree = Tree::new(64, CellId(0));
        let balance = Balance::new(RATES, CellId(0));
        Self { tree, balance, tick: 0, cells: 1, changes: Vec::new() }
    }

    /// `count` entities, so many in each bin of `crowd`, each of which costs `each_ns` a tick.
    fn run(&mut self, secs: u32, crowd: Area, count: u32, each_ns: u64) {
        for _ in 0..secs * RATES.tick_rate_hz {
            for (cell, area) in self.tree.cells() {
                let bins = |axis| {
                    let (from, to) = area.span(axis);
                    let (low, high) = crowd.span(axis);
                    (from..to).map(move |it| u32::from((low..high).contains(&it)))
                };
                let (wide, high) = (bins(Axis::X).sum::<u32>(), bins(Axis::Y).sum::<u32>());
                let here = count * wide * high / crowd.bins();
                let columns = bins(Axis::X).map(|is| is * here / wide.max(1)).collect();
                let rows = bins(Axis::Y).map(|is| is * here / high.max(1)).collect();
                let cpu_ns = u64::from(here) * each_ns;
                self.balance.report(Report { cell, cpu_ns, columns, rows });
            }
            if let Some(change) = self.balance.decide(self.tick, &self.tree, CellId(self.cells)) {
                self.tree = self.tree.changed(change).unwrap();
                self.balance.changed(self.tick, change);
                self.cells += u32::from(matches!(change, Change::Split { .. }));
                self.changes.push(change);
            }
            self.tick += 1;
        }
    }
}

#[test]
fn a_hot_spot_is_split_then_followed_then_merged() {
    let mut load = Load::new();
    let spot = Area { x0: 10, y0: 10, x1: 26, y1: 26 };
    load.run(20, spot, 1_000, 1_000);
    assert_eq!(load.changes, [], "a tenth of the budget is no load");
    load.run(30, spot, 1_000, 20_000);
    let cells = load.tree.cells().len();
    assert!((3..=8).contains(&cells), "{cells} cells for two rooms' worth of load");
    assert!(load.balance.fullest_permille() < 850, "{}", load.balance.fullest_permille());
    let so_far = load.changes.len();
    load.run(60, spot, 1_000, 20_000);
    assert!(load.changes.len() - so_far < 12, "it swings: {:?}", &load.changes[so_far..]);
    load.run(180, spot, 1_000, 500);
    assert_eq!(load.tree.cells().len(), 1, "what was split is merged: {:?}", load.changes);
}

#[test]
fn a_fixed_partition_has_an_equal_cell_for_each_room_whatever_they_cost() {
    let mut load = Load::new();
    load.balance.fix();
    let spot = Area { x0: 10, y0: 10, x1: 26, y1: 26 };
    load.run(60, spot, 1_000, 20_000);
    load.run(60, spot, 1_000, 500);
    let cells: Vec<(u16, u32)> =
        load.tree.cells().map(|(id, area)| (load.balance.room(id), area.bins())).collect();
    let quarter = 64 * 64 / 4;
    assert_eq!(cells, [(0, quarter), (1, quarter), (2, quarter), (3, quarter)]);
    assert_eq!(load.changes.len(), 3, "{:?}", load.changes);
    assert!(load.balance.fullest_permille() > 0);
}

#[test]
fn a_crowd_in_one_place_is_told_not_split() {
    let mut load = Load::new();
    load.run(10, Area { x0: 5, y0: 5, x1: 6, y1: 6 }, 1_000, 20_000);
    assert_eq!(load.changes, []);
    assert!(load.balance.is_crowded());
    load.run(60, Area { x0: 5, y0: 5, x1: 6, y1: 6 }, 1_000, 500);
    assert!(!load.balance.is_crowded());
}
