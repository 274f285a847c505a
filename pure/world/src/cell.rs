//! One cell: the entities of one area, computed tick by tick beside the cells near it.
//!
//! A cell is a plain struct that lives on one thread. It owns its entities; of others it knows
//! **ghosts**, what those near its border were at the end of the tick before. A tick needs its
//! [`Orders`] and a [`Border`] of that tick from every cell that could have something to tell, and
//! nothing else: no barrier for all, no clock. So a slow cell holds up its neighbours, and not
//! those far away until their neighbours wait too.
//!
//! **Hand-over is the only way in which an entity changes cells.** At the end of tick *t* a cell
//! looks where its entities are in the tree that holds from *t + 1*: who has left its area by more
//! than [`KEEP`] is handed to the cell of that place, with an epoch one higher. When a cell is
//! split, merged or moved, the tree changes, and many walk over a border at once; there is no other
//! mechanism. Who owned an entity in *t* tells everybody near of it, so each hears of it once.
//!
//! What is deliberately not here: where to cut (`balance`), time (whoever drives the cell measures
//! it), and clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::audit::Sums;
use crate::entity::{Downed, Effects, Entity, Hit, Numbered, RANGE, SPEED_MAX, Seen, Struck};
use crate::ids::EntityId;
use crate::mail::{Border, Orders, Published, Ruling, Shown};
use crate::near::Near;
use crate::saved::Saved;
use crate::space::{Area, Point, units};
use crate::tree::{CellId, Tree};

/// So far beyond its border a cell keeps an entity, in units: who flies along a border is not
/// handed to and fro.
pub const KEEP: i32 = RANGE / 8;
/// So far beyond its border a cell sees: as far as what it keeps acts.
pub const BAND: i32 = RANGE + KEEP;
/// Cells this near each other may have something to tell: what one keeps, moved by a tick, may lie
/// in the band of the other.
pub const REACH: i32 = BAND + KEEP + SPEED_MAX;
/// Ticks that a neighbour may be ahead: the director orders none further.
pub const AHEAD_TICKS_MAX: u32 = 16;

/// What a cell refused. None of it changes the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounters {
    /// Borders that had come before, or whose tick is done.
    pub borders_repeated: u64,
    /// Borders of cells, or of versions of the tree, that have no say in that tick.
    pub borders_fenced: u64,
    /// Controls of entities that are not here.
    pub controls_misrouted: u64,
    /// Controls that had come before, or are older than what holds.
    pub controls_repeated: u64,
}

/// What a tick brings forth. Reused from tick to tick.
#[derive(Debug)]
pub struct Stepped {
    /// To be shown to all.
    pub published: Published,
    /// To be posted to the cells that they name.
    pub borders: Vec<Border>,
    /// Entities in each column of bins of the area.
    pub columns: Vec<u32>,
    /// Entities in each row of bins of the area.
    pub rows: Vec<u32>,
    /// Whether the cell is not in the next tree: it owns nothing, and is to be dropped.
    pub is_retired: bool,
    /// Its entities at the end of the tick, if the orders said so ([`Saved::piece`]).
    pub saved: Option<Vec<u8>>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Cell {
    id: CellId,
    /// The tick that comes next.
    tick: u32,
    /// The tree that holds in it, and the cell's area there.
    tree: Arc<Tree>,
    area: Area,
    /// The tree that held in the tick before; none before the first.
    before: Option<Arc<Tree>>,
    /// By id.
    own: Vec<Entity>,
    borders: BTreeMap<(u32, CellId), Border>,
    orders: VecDeque<Orders>,
    /// Controls for the next tick. Their ships may arrive with it.
    wishes: Vec<(EntityId, Numbered)>,
    /// Whom the cell sees; between two ticks those that it has just handed over.
    seen: Vec<Seen>,
    near: Near,
    counters: CellCounters,
}

impl Cell {
    /// A cell of `tree`, whose first tick is `tick`. `before` is the tree of the tick before, whose
    /// cells tell it what is in its area; none for the first tick of a world.
    #[must_use]
    pub fn new(id: CellId, tick: u32, before: Option<Arc<Tree>>, tree: Arc<Tree>) -> Self {
        let area = tree.area(id);
        assert!(area.is_some(), "cell {} is not in tree {}", id.0, tree.version());
        Self {
            id,
            tick,
            area: area.unwrap_or(Area::world(0)),
            tree,
            before,
            own: Vec::new(),
            borders: BTreeMap::new(),
            orders: VecDeque::new(),
            wishes: Vec::new(),
            seen: Vec::new(),
            near: Near::default(),
            counters: CellCounters::default(),
        }
    }

    /// The same cell with these entities, by id, as they were at the end of the tick before its first one.
    #[must_use]
    pub fn with(self, own: Vec<Entity>) -> Self {
        assert!(own.is_sorted_by(|one, other| one.id < other.id), "entities come by id");
        Self { own, ..self }
    }

    /// The tick that comes next.
    #[must_use]
    pub fn tick(&self) -> u32 {
        self.tick
    }

    /// What was refused so far.
    #[must_use]
    pub fn counters(&self) -> CellCounters {
        self.counters
    }

    /// Takes the orders for a tick. They come in the order of ticks, from the one director.
    pub fn order(&mut self, orders: Orders) {
        let next = self.orders.back().map_or(self.tick, |last| last.tick + 1);
        assert!(orders.tick == next, "orders for {} where {next} is due", orders.tick);
        self.orders.push_back(orders);
    }

    /// Takes what another cell tells. Early is fine, twice is once.
    pub fn tell(&mut self, border: Border) {
        assert!(border.to == self.id, "a border for {} at {}", border.to.0, self.id.0);
        assert!(border.tick <= self.tick + AHEAD_TICKS_MAX, "a neighbour ran ahead");
        let key = (border.tick, border.from);
        let is_newer = |known: &Border| known.version < border.version;
        if border.tick + 1 < self.tick || !self.borders.get(&key).is_none_or(is_newer) {
            self.counters.borders_repeated += 1;
            return;
        }
        if self.borders.insert(key, border).is_some() {
            self.counters.borders_fenced += 1;
        }
    }

    /// Takes a pilot's control of an entity that is here in the next tick.
    pub fn control(&mut self, id: EntityId, wanted: Numbered) {
        self.wishes.push((id, wanted));
    }

    /// Whether all has come that the next tick needs.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let has_told = |from, version| {
            let told = self.tick.checked_sub(1).and_then(|tick| self.borders.get(&(tick, from)));
            told.is_some_and(|border| border.version == version)
        };
        let all_told = self.before.as_ref().is_none_or(|before| {
            let mut senders = before.near(self.area, REACH);
            senders.all(|(from, _)| from == self.id || has_told(from, before.version()))
        });
        all_told && !self.orders.is_empty()
    }

    /// Computes the next tick, for which the cell must be [ready](Self::is_ready).
    #[must_use]
    pub fn step(&mut self) -> Stepped {
        assert!(self.is_ready(), "cell {} steps too early", self.id.0);
        let Some(orders) = self.orders.pop_front() else { unreachable!("ready without orders") };
        self.hear();
        self.heed();
        let (mut downed, hits) = self.compute(orders.hits_wait);
        self.obey(&orders, &mut downed);
        self.admit(&orders);
        let mut stepped = self.publish(&orders, downed, hits);
        // Whoever is handed over is still here, and in no other cell.
        stepped.saved = orders.is_saved.then(|| Saved::piece(&self.own));
        self.hand_over(&orders.next, &mut stepped);
        self.before = Some(std::mem::replace(&mut self.tree, orders.next));
        stepped.is_retired = match self.tree.area(self.id) {
            Some(area) => {
                self.area = area;
                false
            }
            None => true,
        };
        assert!(!stepped.is_retired || self.own.is_empty(), "entities are left behind");
        self.tick += 1;
        stepped
    }

    /// Takes over who arrives, and gathers whom the cell sees: its own and ghosts, as they were at
    /// the end of the tick before.
    fn hear(&mut self) {
        let later = self.borders.split_off(&(self.tick, CellId(0)));
        let own_count = self.own.len();
        for ((tick, from), border) in std::mem::replace(&mut self.borders, later) {
            let sender = self.before.as_ref().filter(|before| {
                let area = before.area(from);
                tick + 1 == self.tick
                    && before.version() == border.version
                    && area.is_some_and(|area| area.is_near(self.area, REACH))
            });
            if sender.is_none() {
                self.counters.borders_fenced += 1;
                continue;
            }
            self.seen.extend(border.ghosts);
            self.own.extend(border.arrivals);
        }
        if self.own.len() > own_count {
            self.own.sort_unstable_by_key(|it| it.id);
        }
        self.seen.extend(self.own.iter().map(Entity::seen));
    }

    /// Tells entities what their pilots want.
    fn heed(&mut self) {
        for (id, wanted) in self.wishes.drain(..) {
            let Ok(index) = self.own.binary_search_by_key(&id, |it| it.id) else {
                self.counters.controls_misrouted += 1;
                continue;
            };
            if !self.own[index].want(wanted) {
                self.counters.controls_repeated += 1;
            }
        }
    }

    /// Moves the cell's own by what they and all around them were.
    fn compute(&mut self, hits_wait: bool) -> (Vec<Downed>, Vec<Hit>) {
        self.near.rebuild(&self.seen);
        let side = units(self.tree.bins());
        let (mut downed, mut hits) = (Vec::new(), Vec::new());
        for entity in &mut self.own {
            let mut effects = Effects::default();
            let around = self.near.around(entity.at).filter(|other| other.id != entity.id);
            around.for_each(|other| entity.feel(other, &mut effects));
            match entity.step(self.tick, &effects, (side, hits_wait)) {
                Some(Struck::Hit(hit)) => hits.push(hit),
                Some(Struck::Downed(down)) => downed.push(down),
                None => {}
            }
        }
        (downed, hits)
    }

    /// Does to its own what was ruled.
    fn obey(&mut self, orders: &Orders, downed: &mut Vec<Downed>) {
        for ruling in &*orders.rulings {
            let Ok(index) = self.own.binary_search_by_key(&ruling.ship(), |it| it.id) else {
                continue;
            };
            match *ruling {
                Ruling::Damage { by, damage, .. } => {
                    downed.extend(self.own[index].lose(self.tick, by, damage));
                }
                Ruling::Respawn { ticks, .. } => self.own[index].lie_for(ticks),
            }
        }
        downed.sort_unstable();
    }

    /// Who comes and goes. Behind the computing, so that nobody sees it before the next tick,
    /// wherever they are.
    fn admit(&mut self, orders: &Orders) {
        for id in &*orders.leaves {
            if let Ok(index) = self.own.binary_search_by_key(id, |it| it.id) {
                self.own.remove(index);
            }
        }
        for spawn in orders.spawns.iter().filter(|spawn| self.area.contains(spawn.at)) {
            let place = self.own.partition_point(|it| it.id < spawn.id);
            self.own.insert(place, Entity::from(*spawn));
        }
    }

    fn publish(&self, orders: &Orders, downed: Vec<Downed>, hits: Vec<Hit>) -> Stepped {
        let mut columns = vec![0; usize::from(self.area.x1 - self.area.x0)];
        let mut rows = vec![0; usize::from(self.area.y1 - self.area.y0)];
        let mut sums = Sums::default();
        for entity in &self.own {
            // What is kept beyond the border counts for the bin beside it.
            let (column, row) = entity.at.bin();
            let column = column.clamp(self.area.x0, self.area.x1 - 1) - self.area.x0;
            let row = row.clamp(self.area.y0, self.area.y1 - 1) - self.area.y0;
            columns[usize::from(column)] += 1;
            rows[usize::from(row)] += 1;
            sums.add(entity);
        }
        let tau_permille = orders.tau_permille;
        let published = Published { tau_permille, downed, hits, sums, ..self.shows() };
        Stepped { published, borders: Vec::new(), columns, rows, is_retired: false, saved: None }
    }

    /// Its entities as they are, for who looks at the zone.
    pub(crate) fn shows(&self) -> Published {
        Published {
            cell: self.id,
            tick: self.tick,
            version: self.tree.version(),
            tau_permille: 1_000,
            rows: self.own.iter().map(Entity::shown).collect(),
            downed: Vec::new(),
            hits: Vec::new(),
            sums: Sums::default(),
            handed_over: 0,
        }
    }

    /// Tells all cells near what they see, and hands over who belongs to them now.
    fn hand_over(&mut self, next: &Tree, stepped: &mut Stepped) {
        let (id, tick, version) = (self.id, self.tick, self.tree.version());
        let kept = next.area(id);
        let receivers = next.near(self.area, REACH).filter(|(to, _)| *to != id);
        let (areas, mut borders): (Vec<Area>, Vec<Border>) = receivers
            .map(|(to, area)| {
                let (ghosts, arrivals) = (Vec::new(), Vec::new());
                (area, Border { from: id, to, tick, version, ghosts, arrivals })
            })
            .unzip();
        self.seen.clear();
        self.own.retain_mut(|entity| {
            let owner = owner(next, id, entity.at);
            let stays = owner == id;
            let mut is_owned = stays;
            for (area, border) in areas.iter().zip(&mut borders) {
                if border.to == owner {
                    let arrival = Entity {
                        epoch: entity.epoch + 1,
                        waiting: std::mem::take(&mut entity.waiting),
                        ..*entity
                    };
                    border.arrivals.push(arrival);
                    is_owned = true;
                    stepped.published.handed_over += 1;
                } else if area.reaches(entity.at, BAND) {
                    border.ghosts.push(entity.seen());
                }
            }
            if !stays && kept.is_some_and(|area| area.reaches(entity.at, BAND)) {
                self.seen.push(entity.seen());
            }
            assert!(is_owned, "an entity went further than a tick can take it");
            stays
        });
        stepped.borders = borders;
    }
}

/// The cell that has an entity from the next tick on, by the tree that holds then and by which cell had
/// it in this tick, and where.
#[must_use]
pub fn owner(next: &Tree, had: CellId, at: Point) -> CellId {
    let stays = next.area(had).is_some_and(|area| area.reaches(at, KEEP));
    if stays { had } else { next.cell_at(at) }
}

impl Entity {
    fn shown(&self) -> Shown {
        Shown {
            id: self.id,
            epoch: self.epoch,
            at: self.at,
            velocity: self.velocity,
            heading: self.heading,
            health: self.health,
            fired: self.fired,
            control_seq: self.control_seq,
        }
    }
}
