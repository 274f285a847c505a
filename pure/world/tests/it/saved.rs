//! A zone that is saved in the middle of anything, restored and run on is the one that was never stopped, hash
//! for hash; and of one that ends at any tick it is known who was in it, and who was shot down.

use std::collections::{BTreeMap, BTreeSet};

use event::Random;
use world::{
    Axis, Cell, CellId, Change, Director, Downed, Drone, EntityId, Event, Ledger, Pilot, Rates,
    Report, Saved, Score, Settings, Stepped,
};

use crate::script::Script;

const SEEDS: u64 = 100;
const BINS: u16 = 12;

/// A zone whose cells run in turns, and what comes of a tick of it.
struct World {
    random: Random,
    director: Director,
    ledger: Ledger,
    cells: BTreeMap<CellId, Cell>,
    script: Script,
}

#[derive(Default)]
struct Tick {
    hash: u64,
    pieces: Vec<Vec<u8>>,
    events: Vec<Event>,
    there: BTreeSet<EntityId>,
}

fn settings() -> Settings {
    let rates = Rates { tick_rate_hz: 20, budget_ns: u64::MAX / 4_000, rooms: 4 };
    Settings { bins: BINS, rates, ahead_ticks: 1 }
}

impl World {
    fn new(seed: u64) -> Self {
        let director = Director::new(settings());
        let first = Cell::new(CellId(0), 0, None, director.tree().clone());
        Self {
            random: Random::from_number(seed),
            script: Script::new(seed, BINS, 13),
            ledger: Ledger::default(),
            cells: BTreeMap::from([(CellId(0), first)]),
            director,
        }
    }

    fn restored(saved: Saved, script: Script, seed: u64) -> Self {
        let director = Director::restored(settings(), saved.tick, saved.slots);
        let ledger = Ledger::of(saved.entities.iter().map(|it| it.id));
        let first = Cell::new(CellId(0), saved.tick + 1, None, director.tree().clone());
        let cells = BTreeMap::from([(CellId(0), first.with(saved.entities))]);
        Self { random: Random::from_number(seed ^ 0x77), director, ledger, cells, script }
    }

    /// Cuts the world in another way, if what is drawn fits.
    fn change(&mut self) {
        let tree = self.director.tree().clone();
        let pairs = tree.siblings();
        let change = if self.random.below(3) > 0 || pairs.is_empty() {
            let all = u32::try_from(tree.cells().len()).unwrap();
            let (cell, area) = tree.cells().nth(self.random.below(all) as usize).unwrap();
            let axis = [Axis::X, Axis::Y][self.random.below(2) as usize];
            let at = area.span(axis).0 + 4;
            Change::Split { cell, axis, at, above: self.director.new_cell() }
        } else {
            Change::Merge { kept: pairs[0].0, gone: pairs[0].1 }
        };
        let _ = self.director.change(change);
    }

    fn tick(&mut self) -> Tick {
        let wishes = self.script.play(&mut self.director);
        self.change();
        let released = self.director.release().unwrap();
        let orders = released.orders;
        let comes: Vec<_> = orders.spawns.iter().map(|it| it.id).collect();
        self.ledger.order((orders.tick, 1_000), &released.tree, &comes, &orders.leaves).unwrap();
        if let Some((id, _)) = released.starts {
            let cell = Cell::new(id, orders.tick + 1, Some(released.tree), orders.next.clone());
            self.cells.insert(id, cell);
        }
        let mut told = Tick::default();
        let came = orders.spawns.iter();
        let came = came.map(|ship| Event::Came { who: who(ship.id), ship: *ship });
        told.events
            .extend(came.chain(orders.leaves.iter().map(|ship| Event::Left { ship: *ship })));
        for cell in self.cells.values_mut().filter(|cell| cell.tick() == orders.tick) {
            cell.order(orders.clone());
            wishes.iter().for_each(|(id, wanted)| cell.control(*id, *wanted));
        }
        while let Some(id) = self.cells.iter().find(|(_, it)| it.is_ready()).map(|(id, _)| *id) {
            let stepped = self.cells.get_mut(&id).unwrap().step();
            let Stepped { published, borders, columns, rows, is_retired, saved } = stepped;
            assert_eq!(saved.is_some(), orders.is_saved);
            told.pieces.extend(saved);
            told.there.extend(published.rows.iter().map(|row| row.id));
            let event = |it: &Downed| Event::Downed { victim: it.victim, by: it.by };
            told.events.extend(published.downed.iter().map(event));
            self.ledger.publish(&published).unwrap();
            if is_retired {
                self.cells.remove(&id);
            }
            borders
                .into_iter()
                .for_each(|border| self.cells.get_mut(&border.to).unwrap().tell(border));
            let report = Report { cell: id, cpu_ns: 0, columns, rows };
            self.director.done(orders.tick, report);
        }
        let (tick, hash) = self.ledger.settled.unwrap();
        assert_eq!(tick, orders.tick);
        told.hash = hash;
        told
    }
}

/// Half of all ships have a pilot, by the number of the ship.
fn who(ship: EntityId) -> u128 {
    1 + u128::from(ship.slot)
}

fn snapshot(world: &World, tick: u32, told: &Tick, scores: &BTreeMap<EntityId, Score>) -> Vec<u8> {
    let is_piloted = |ship: &&EntityId| ship.slot.is_multiple_of(2);
    let pilot = |ship: &EntityId| Pilot {
        who: who(*ship),
        ship: *ship,
        score: scores.get(ship).copied().unwrap_or_default(),
    };
    let drone = |ship: &EntityId| Drone { ship: *ship, control_seq: 0 };
    let saved = Saved {
        bins: BINS,
        tick,
        slots: world.director.slots(),
        entities: Vec::new(),
        pilots: told.there.iter().filter(is_piloted).map(pilot).collect(),
        drones: told.there.iter().filter(|it| !is_piloted(it)).map(drone).collect(),
    };
    saved.snapshot(&told.pieces)
}

#[test]
fn a_restored_zone_is_the_one_that_was_never_stopped() {
    let mut cells_most = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        let at = 5 + u32::try_from(seed % 50).unwrap();
        (0..at).for_each(|_| drop(world.tick()));
        world.director.save();
        let told = world.tick();
        cells_most = cells_most.max(told.pieces.len());
        let part = snapshot(&world, at, &told, &BTreeMap::new());
        let saved = Saved::restore(&[part], BINS).unwrap();
        assert_eq!(saved.entities.iter().map(|it| it.id).collect::<BTreeSet<_>>(), told.there);
        let mut again = World::restored(saved, world.script.clone(), seed);
        for later in 0..60 {
            let (one, other) = (world.tick(), again.tick());
            assert_eq!((one.hash, one.there), (other.hash, other.there), "seed {seed}, +{later}");
        }
    }
    assert!(cells_most > 3, "at most {cells_most} cells");
}

/// The server ends at some tick after the snapshot: whoever was in the zone then is, and nobody else, and what
/// pilots have brought about is known to the last one.
#[test]
fn what_must_not_be_lost_is_there_whenever_a_server_ends() {
    let mut downed = 0;
    for seed in 0..SEEDS {
        let mut random = Random::from_number(seed ^ 0x55);
        let mut world = World::new(seed);
        let mut scores: BTreeMap<EntityId, Score> = BTreeMap::new();
        let (at, end) = (5 + random.below(80), 1 + random.below(60));
        let mut parts = Vec::new();
        let mut there = BTreeSet::new();
        let mut pending = Vec::new();
        for tick in 0..=at + end {
            if tick == at {
                world.director.save();
            }
            let told = world.tick();
            for event in &told.events {
                if let Event::Downed { victim, by } = *event {
                    let of = [victim, by].into_iter().collect::<BTreeSet<_>>();
                    of.iter().for_each(|it| scores.entry(*it).or_default().note(*it, (victim, by)));
                    downed += 1;
                }
            }
            pending.extend_from_slice(&told.events);
            if tick == at {
                parts = vec![snapshot(&world, tick, &told, &scores)];
                pending.clear();
            }
            // Several ticks may go into one part.
            if tick > at && (random.below(3) == 0 || tick == at + end) {
                let number = u32::try_from(parts.len()).unwrap() - 1;
                parts.push(Saved::events(at, number, tick, &pending));
                pending.clear();
            }
            there = told.there;
        }
        let saved = Saved::restore(&parts, BINS).unwrap();
        let found: BTreeSet<_> = saved.entities.iter().map(|it| it.id).collect();
        assert_eq!((saved.tick, &found), (at + end, &there), "seed {seed}");
        for pilot in &saved.pilots {
            let score = scores.get(&pilot.ship).copied().unwrap_or_default();
            assert_eq!(pilot.score, score, "seed {seed}: {:?}", pilot.ship);
        }
        // And it flies on, with ids that nobody has had.
        let mut again = World::restored(saved, world.script.clone(), seed);
        for _ in 0..30 {
            again.tick();
        }
    }
    assert!(downed > 25, "{downed} were shot down");
}
