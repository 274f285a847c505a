//! A model of hand-over, checked whole: cells as they are, two or three of them, and every order in which what
//! they are sent may come to them, with two messages that come twice. Where seeds (`seeds`) draw some orders of
//! large worlds, this is all orders of a small one.
//!
//! Ships fly over borders and shove each other across them while the partition is split, moved, split again and merged.
//! In every state each ship is in one cell, what a tick has shown is what the same world shows in one cell, and
//! somebody can go on until all ticks are done.
//!
//! What is deliberately not here: who decides of the partition, who comes and goes, controls and rulings (`zone` has
//! them), whoever holds messages for a cell that has not begun (the server), and mail that is lost for good,
//! which cells do not know.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use stateright::{Checker as _, Model, Property};
use world::{
    Axis, BIN_SIDE, Border, Cell, CellId, Change, Control, Entity, EntityId, Orders, Point,
    SPEED_MAX, Stepped, Sums, Tree,
};

/// What is done wrong, and must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    LoseArrivals,
    LoseGhosts,
    ArriveTwice,
    /// One cell does not hear of a change of the partition.
    ForgetOrders,
}

/// The world, and how it is partitioned.
struct HandOver {
    /// That of each tick, and of the one behind the last.
    trees: Vec<Arc<Tree>>,
    ships: Vec<Entity>,
    /// What each tick shows in one cell.
    truth: Vec<Sums>,
    /// Ticks that cells may be apart.
    ahead_ticks: u32,
    /// Messages that come twice, at most.
    repeats: u8,
    broken: Option<Broken>,
}

/// What may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The orders of its next tick come to a cell; or it begins.
    Order(CellId),
    /// A cell computes its next tick.
    Compute(CellId),
    /// A message comes, the one at this place.
    Come(usize),
    /// It comes, and comes once more.
    ComeTwice(usize),
}

/// What a tick has shown so far.
#[derive(Clone, Debug, Default)]
struct Shown {
    cells: BTreeSet<CellId>,
    ships: BTreeSet<EntityId>,
    sums: Sums,
}

#[derive(Clone, Debug)]
struct State {
    cells: BTreeMap<CellId, Cell>,
    /// The tick whose orders come next to a cell, of those that have begun.
    ordered: BTreeMap<CellId, u32>,
    /// On its way, by tick, sender and receiver.
    mail: Vec<Border>,
    repeats_left: u8,
    /// By tick, those that not all cells have computed.
    shown: BTreeMap<u32, Shown>,
    /// Ticks that all have.
    settled: u32,
    has_handed_over: bool,
    wrong: Option<&'static str>,
}

/// Feeds what is written to a hasher.
struct Feed<'a, H>(&'a mut H);

impl<H: Hasher> std::fmt::Write for Feed<'_, H> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// By all that they hold, as it is written for debugging: two states are one only if nothing tells them apart.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// See [`PartialEq`].
impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        write!(Feed(hasher), "{self:?}").unwrap();
    }
}

fn ship(slot: u32, (x, y): (i32, i32), velocity: (i32, i32), heading: u16) -> Entity {
    let control = Control { turn: 0, thrust: 3, fire: true };
    let id = EntityId { slot, generation: 1 };
    Entity { velocity, heading, control, ..Entity::new(id, Point { x, y }) }
}

impl HandOver {
    fn new(ticks: usize, ahead_ticks: u32) -> Self {
        let [one, two, three] = [0, 1, 2].map(CellId);
        let changes = [
            Change::Split { cell: one, axis: Axis::X, at: 4, above: two },
            Change::Nudge { below: one, above: two, at: 5 },
            Change::Split { cell: two, axis: Axis::Y, at: 4, above: three },
            Change::Merge { kept: three, gone: two },
        ];
        let whole = Arc::new(Tree::new(9, one));
        let mut trees = vec![whole.clone()];
        for change in changes {
            trees.push(Arc::new(trees.last().unwrap().changed(change).unwrap()));
        }
        let last = trees.last().unwrap().clone();
        trees.resize(ticks + 1, last);
        let metre = BIN_SIDE / 64;
        let (cut, next) = (4 * BIN_SIDE, 5 * BIN_SIDE);
        let ships = vec![
            ship(0, (cut - 3 * metre, cut), (SPEED_MAX, 0), 0),
            ship(1, (cut + 9 * metre, cut), (-SPEED_MAX, 0), 32_768),
            ship(2, (cut + 6 * metre, cut - metre), (0, SPEED_MAX), 0),
            ship(3, (next + metre, cut + 2 * metre), (-SPEED_MAX, -SPEED_MAX), 32_768),
            ship(4, (next + 20 * metre, cut + metre), (0, 0), 32_768),
        ];
        let mut alone = Cell::new(one, 0, None, whole.clone()).with(ships.clone());
        let truth = (0..ticks).map(|tick| {
            alone.order(Orders::new(u32::try_from(tick).unwrap(), whole.clone()));
            alone.step().published.sums
        });
        let truth = truth.collect();
        Self { trees, ships, truth, ahead_ticks, repeats: 1, broken: None }
    }

    fn ticks(&self) -> u32 {
        u32::try_from(self.truth.len()).unwrap()
    }

    fn tree(&self, tick: u32) -> &Arc<Tree> {
        &self.trees[tick as usize]
    }

    /// The first tick of a cell.
    fn begins(&self, cell: CellId) -> u32 {
        let first = self.trees.iter().position(|tree| tree.area(cell).is_some()).unwrap();
        u32::try_from(first).unwrap()
    }

    /// Whether a tick may be computed: no cell is too far behind.
    fn is_released(&self, state: &State, tick: u32) -> bool {
        tick < self.ticks() && tick < state.settled + self.ahead_ticks
    }

    fn may_order(&self, state: &State, cell: CellId) -> bool {
        match state.ordered.get(&cell) {
            Some(tick) => self.is_released(state, *tick) && self.tree(*tick).area(cell).is_some(),
            // With the orders of the tick before its first.
            None => self.begins(cell).checked_sub(1).is_some_and(|it| self.is_released(state, it)),
        }
    }

    fn order(&self, state: &mut State, cell: CellId) {
        if let Some(tick) = state.ordered.get_mut(&cell) {
            let mut given = Orders::new(*tick, self.tree(*tick + 1).clone());
            if self.broken == Some(Broken::ForgetOrders) && cell.0 == 1 {
                given.next = self.tree(*tick).clone();
            }
            state.cells.get_mut(&cell).unwrap().order(given);
            *tick += 1;
            return;
        }
        let first = self.begins(cell);
        let (before, tree) = (self.tree(first - 1).clone(), self.tree(first).clone());
        state.cells.insert(cell, Cell::new(cell, first, Some(before), tree));
        state.ordered.insert(cell, first);
    }

    fn compute(&self, state: &mut State, cell: CellId) {
        let Stepped { published, mut borders, is_retired, .. } =
            state.cells.get_mut(&cell).unwrap().step();
        self.sabotage(&mut borders);
        state.has_handed_over |= published.handed_over > 0;
        state.mail.extend(borders);
        state.mail.sort_unstable_by_key(|it| (it.tick, it.from, it.to));
        if is_retired {
            state.cells.remove(&cell);
        }
        let shown = state.shown.entry(published.tick).or_default();
        shown.sums.join(&published.sums);
        for row in &published.rows {
            if !shown.ships.insert(row.id) {
                state.wrong = Some("a ship is in two cells");
            }
        }
        if !shown.cells.insert(cell) {
            state.wrong = Some("a cell computes a tick twice");
        }
        if shown.cells.len() == self.tree(published.tick).cells().len() {
            if shown.sums != self.truth[published.tick as usize] {
                state.wrong = Some("another world than in one cell");
            }
            if published.tick != state.settled {
                state.wrong = Some("a tick is done before the one before it");
            }
            state.shown.remove(&published.tick);
            state.settled += 1;
        }
    }

    fn sabotage(&self, borders: &mut [Border]) {
        for border in borders {
            match self.broken {
                Some(Broken::LoseArrivals) => border.arrivals.clear(),
                Some(Broken::LoseGhosts) => border.ghosts.clear(),
                Some(Broken::ArriveTwice) => {
                    let again = border.arrivals.clone();
                    border.arrivals.extend(again);
                }
                Some(Broken::ForgetOrders) | None => {}
            }
        }
    }
}

impl Model for HandOver {
    type State = State;
    type Action = Next;

    fn init_states(&self) -> Vec<State> {
        let first = CellId(0);
        let cell = Cell::new(first, 0, None, self.tree(0).clone()).with(self.ships.clone());
        vec![State {
            cells: BTreeMap::from([(first, cell)]),
            ordered: BTreeMap::from([(first, 0)]),
            mail: Vec::new(),
            repeats_left: self.repeats,
            shown: BTreeMap::new(),
            settled: 0,
            has_handed_over: false,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Next>) {
        let all = self.trees.iter().flat_map(|tree| tree.cells()).map(|(id, _)| id);
        let all: BTreeSet<CellId> = all.collect();
        actions.extend(all.into_iter().filter(|id| self.may_order(state, *id)).map(Next::Order));
        let ready = state.cells.iter().filter(|(_, cell)| cell.is_ready());
        actions.extend(ready.map(|(id, _)| Next::Compute(*id)));
        for (place, border) in state.mail.iter().enumerate() {
            // What comes to who has not begun waits, and to who is no more is nobody's.
            if state.ordered.contains_key(&border.to) {
                actions.push(Next::Come(place));
            }
            if state.repeats_left > 0 && state.cells.contains_key(&border.to) {
                actions.push(Next::ComeTwice(place));
            }
        }
    }

    fn next_state(&self, state: &State, action: Next) -> Option<State> {
        let mut state = state.clone();
        match action {
            Next::Order(cell) => self.order(&mut state, cell),
            Next::Compute(cell) => self.compute(&mut state, cell),
            Next::Come(place) => {
                let border = state.mail.remove(place);
                if let Some(cell) = state.cells.get_mut(&border.to) {
                    cell.tell(border);
                }
            }
            Next::ComeTwice(place) => {
                let border = state.mail[place].clone();
                state.cells.get_mut(&border.to)?.tell(border);
                state.repeats_left -= 1;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let goes_on = |model: &Self, state: &State| {
            let mut actions = Vec::new();
            model.actions(state, &mut actions);
            !actions.is_empty() || state.settled == model.ticks()
        };
        vec![
            Property::always(RIGHT, |_, state: &State| state.wrong.is_none()),
            Property::always(GOES_ON, goes_on),
            Property::sometimes(DONE, |model: &Self, state: &State| state.settled == model.ticks()),
            Property::sometimes(HANDED_OVER, |_, state: &State| state.has_handed_over),
            Property::sometimes(EARLY, |_, state: &State| {
                state.mail.iter().any(|it| !state.ordered.contains_key(&it.to))
            }),
            Property::sometimes(REPEATED, |_, state: &State| {
                state.cells.values().any(|cell| cell.counters().borders_repeated > 0)
            }),
        ]
    }
}

const RIGHT: &str = "each ship is in one cell, and the world is that in one cell";
const GOES_ON: &str = "somebody can go on until all ticks are done";
const DONE: &str = "all ticks are done";
const HANDED_OVER: &str = "a ship is handed over";
const EARLY: &str = "a message is there before who it is for";
const REPEATED: &str = "a message comes twice";

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn in_every_order_of_messages_each_ship_is_in_one_cell() {
    let model = HandOver { repeats: 2, ..HandOver::new(7, 3) };
    let checker = model.checker().threads(processors()).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states > 100_000, "too little may happen: {states} states");
}

/// What is broken is found, so that the model can fail.
#[test]
fn broken_hand_over_is_found() {
    use Broken::{ArriveTwice, ForgetOrders, LoseArrivals, LoseGhosts};
    for broken in [LoseArrivals, LoseGhosts, ArriveTwice, ForgetOrders] {
        let model = HandOver { broken: Some(broken), ..HandOver::new(6, 1) };
        let checker = model.checker().spawn_dfs().join();
        let found = [RIGHT, GOES_ON].map(|name| checker.discovery(name).is_some());
        assert!(found.contains(&true), "{broken:?} is not found");
    }
}
