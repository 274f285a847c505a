//! Trees tile the world, changes that do not fit are refused, and a cell keeps out whoever has no
//! say.

use std::sync::Arc;

use event::Random;
use world::{
    Area, Axis, BIN_SIDE, Border, Cell, CellId, Change, Orders, Point, Refused, Slots, Tree, tiles,
};

/// Invariant 6 for thousands of trees, and the checker's own test.
#[test]
fn every_tree_tiles_the_world_and_broken_ones_are_found() {
    let mut random = Random::from_number(3);
    let mut tree = Tree::new(64, CellId(0));
    let mut cells_most = 0;
    for made in 1..3_000 {
        let pairs = tree.siblings();
        let (cell, area) =
            tree.cells().nth(random.below(1 << 16) as usize % tree.cells().len()).unwrap();
        let change = match pairs.get(random.below(40) as usize) {
            Some((kept, gone, ..)) if made % 3 == 0 => Change::Merge { kept: *kept, gone: *gone },
            Some((below, above, _, at)) if made % 3 == 1 => {
                Change::Nudge { below: *below, above: *above, at: at + 1 }
            }
            _ => {
                let (axis, at) = (area.long_axis(), area.span(area.long_axis()).0 + 4);
                Change::Split { cell, axis, at, above: CellId(made) }
            }
        };
        let Ok(next) = tree.changed(change) else { continue };
        assert_eq!(next.version(), tree.version() + 1);
        tree = next;
        let areas: Vec<_> = tree.cells().map(|(_, area)| area).collect();
        assert!(tiles(64, &areas), "{areas:?}");
        cells_most = cells_most.max(areas.len());
        for _ in 0..10 {
            let (x, y) = (random.below(64).cast_signed(), random.below(64).cast_signed());
            let at = Point { x: x * BIN_SIDE, y: y * BIN_SIDE };
            assert!(tree.area(tree.cell_at(at)).unwrap().contains(at));
        }
        if areas.len() > 1 {
            assert!(!tiles(64, &areas[1..]), "a hole is not found");
            let mut doubled = areas.clone();
            doubled[0] = doubled[1];
            assert!(!tiles(64, &doubled), "an overlap is not found");
        }
    }
    assert!(cells_most > 20, "at most {cells_most} cells");
}

#[test]
fn changes_that_do_not_fit_are_refused() {
    let tree = Tree::new(16, CellId(0));
    let split = |cell, at| {
        tree.changed(Change::Split { cell: CellId(cell), axis: Axis::X, at, above: CellId(9) })
    };
    assert_eq!(split(1, 8).unwrap_err(), Refused::Unknown(1));
    assert_eq!(split(0, 3).unwrap_err(), Refused::Narrow { at: 3 });
    assert_eq!(split(0, 13).unwrap_err(), Refused::Narrow { at: 13 });
    let tree = split(0, 8).unwrap();
    let merge = Change::Merge { kept: CellId(0), gone: CellId(0) };
    assert_eq!(tree.changed(merge).unwrap_err(), Refused::NotSiblings(0, 0));
    let nudge = Change::Nudge { below: CellId(0), above: CellId(9), at: 14 };
    assert_eq!(tree.changed(nudge).unwrap_err(), Refused::Narrow { at: 14 });
}

/// Invariant 4 at the receiver: what a cell says of an older tree, or of a tick that is none of
/// its business, changes nothing.
#[test]
fn a_border_of_an_older_tree_is_fenced_off() {
    let before = Tree::new(32, CellId(0));
    let split = Change::Split { cell: CellId(0), axis: Axis::X, at: 16, above: CellId(1) };
    let tree = Arc::new(before.changed(split).unwrap());
    let mut cell = Cell::new(CellId(1), 1, Some(Arc::new(before)), tree.clone());
    let border = |from, tick, version| Border {
        from: CellId(from),
        to: CellId(1),
        tick,
        version,
        ghosts: Vec::new(),
        arrivals: vec![world::Entity::new(
            world::EntityId { slot: from, generation: 0 },
            Point { x: 20 * BIN_SIDE, y: 0 },
        )],
    };
    let empty = |tick| Orders::new(tick, tree.clone());
    cell.order(empty(1));
    cell.tell(border(7, 0, 0));
    assert!(!cell.is_ready(), "a stranger's word is not what it waits for");
    cell.tell(border(0, 0, 0));
    assert!(cell.is_ready());
    let stepped = cell.step();
    assert_eq!(stepped.published.rows.len(), 1, "the stranger's ship is not taken");
    assert_eq!(cell.counters().borders_fenced, 1);
    cell.tell(border(0, 0, 0));
    assert_eq!(cell.counters().borders_repeated, 1);
    cell.order(empty(2));
    cell.tell(border(0, 1, 0));
    assert!(!cell.is_ready(), "cell 0 has an older tree in tick 1");
    cell.tell(border(0, 1, 1));
    assert!(cell.is_ready());
    assert_eq!(cell.counters().borders_fenced, 2);
}

#[test]
fn ids_are_never_used_again_and_slots_rest() {
    let mut slots = Slots::default();
    let first = slots.take(0).unwrap();
    slots.give_back(first, 5);
    let second = slots.take(5 + Slots::REST_TICKS - 1).unwrap();
    assert_ne!(first.slot, second.slot);
    let third = slots.take(5 + Slots::REST_TICKS).unwrap();
    assert_eq!((third.slot, third.generation), (first.slot, first.generation + 1));
    for _ in 2..Slots::SLOTS_MAX {
        slots.take(0).unwrap();
    }
    assert!(slots.take(0).is_none(), "a zone that is full takes nobody");
}

#[test]
fn a_cut_and_its_distance_are_exact() {
    let (below, above) = Area::world(16).cut(Axis::Y, 8);
    assert!(below.is_near(above, 0) && !below.reaches(Point { x: 0, y: 8 * BIN_SIDE }, 0));
    assert!(below.reaches(Point { x: 0, y: 8 * BIN_SIDE + 9 }, 10));
    let (_, far) = above.cut(Axis::Y, 12);
    assert!(!below.is_near(far, 4 * BIN_SIDE - 1) && below.is_near(far, 4 * BIN_SIDE));
}
