//! A zone in one thread: cells that step when chance lets them, mail that is late, comes twice and
//! out of order, and checks of everything that is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::Random;
use world::{
    Border, Cell, CellId, Change, Controls, Director, EntityId, Fault, Hit, Ledger, Published,
    Rates, Report, Settings, Shown, Stepped, Tree,
};

use crate::script::Script;

/// How a zone is disturbed, and broken.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) seed: u64,
    pub(crate) bins: u16,
    pub(crate) ticks: u32,
    pub(crate) ahead_ticks: u32,
    /// One of so many ticks changes the tree; 0 for never.
    pub(crate) change_every: u32,
    /// Rounds that mail may take; also how unevenly cells run.
    pub(crate) delay: u32,
    /// Whether one cell runs in one of eight rounds only.
    pub(crate) is_slow: bool,
    pub(crate) broken: Option<Broken>,
}

/// What is done wrong, and must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    DoubleArrival,
    LoseArrival,
    OldEpoch,
    Zombie,
    ForgetControls,
    OldGhosts,
    LoseGhosts,
    OtherSpeed,
    OldTree,
    LoseRulings,
}

struct Letter {
    due: u32,
    border: Border,
}

/// What is known of an entity from what was published of it.
struct Track {
    tick: u32,
    cell: CellId,
    epoch: u32,
    control_seq: u32,
}

/// What a zone went through.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The hash of the whole world after each tick.
    pub(crate) hashes: Vec<u64>,
    pub(crate) handed_over: u64,
    pub(crate) splits: u64,
    pub(crate) merges: u64,
    pub(crate) nudges: u64,
    pub(crate) repeated: u64,
    pub(crate) misrouted: u64,
    pub(crate) downed: u64,
    pub(crate) hits: u64,
    pub(crate) rulings: u64,
}

pub(crate) struct Zone {
    profile: Profile,
    random: Random,
    round: u32,
    director: Director,
    script: Script,
    ledger: Ledger,
    /// Of each tick, those that wait for a ruling.
    hits: BTreeMap<u32, Vec<Hit>>,
    controls: Controls,
    cells: BTreeMap<CellId, Cell>,
    mail: Vec<Letter>,
    /// All rows of the ticks that are not settled, and of the one before.
    trace: BTreeMap<u32, BTreeMap<EntityId, Shown>>,
    tracks: BTreeMap<EntityId, Track>,
    first_tree: Option<Arc<Tree>>,
    outcome: Outcome,
}

impl Zone {
    pub(crate) fn new(profile: Profile) -> Self {
        let rates = Rates { tick_rate_hz: 20, budget_ns: u64::MAX / 4_000, rooms: 4 };
        let settings = Settings { bins: profile.bins, rates, ahead_ticks: profile.ahead_ticks };
        let director = Director::new(settings);
        let first = Cell::new(CellId(0), 0, None, director.tree().clone());
        Self {
            random: Random::from_number(profile.seed ^ 0xfee1),
            // Long enough that a wish reaches its ship, however late all know where it is.
            script: Script::new(profile.seed, profile.bins, 3 * profile.ahead_ticks + 10),
            round: 0,
            director,
            ledger: Ledger::default(),
            hits: BTreeMap::new(),
            controls: Controls::default(),
            cells: BTreeMap::from([(CellId(0), first)]),
            mail: Vec::new(),
            trace: BTreeMap::new(),
            tracks: BTreeMap::new(),
            first_tree: None,
            outcome: Outcome::default(),
            profile,
        }
    }

    /// Plays until all ticks are settled. The error names the invariant that does not hold.
    pub(crate) fn play(mut self) -> Result<Outcome, String> {
        while self.outcome.hashes.len() < self.profile.ticks as usize {
            self.round += 1;
            if self.round > self.profile.ticks * 400 {
                return Err(format!("stuck at {} ticks", self.outcome.hashes.len()));
            }
            self.release()?;
            self.deliver();
            let ids: Vec<_> = self.cells.keys().copied().collect();
            for id in ids {
                let is_slow = self.profile.is_slow && id.0.is_multiple_of(3);
                let chance = if is_slow { 8 } else { 1 + self.profile.delay.min(2) };
                if self.random.below(chance) == 0 && self.cells[&id].is_ready() {
                    self.step(id)?;
                }
            }
        }
        for cell in self.cells.values() {
            self.outcome.repeated += cell.counters().borders_repeated;
            self.outcome.misrouted += cell.counters().controls_misrouted;
        }
        Ok(self.outcome)
    }

    fn release(&mut self) -> Result<(), String> {
        let tick = self.director.tick();
        if tick == self.profile.ticks {
            return Ok(());
        }
        // A director that waits must not be told what happens twice.
        let oldest = self.cells.values().map(Cell::tick).min().unwrap_or(tick);
        if tick - oldest >= self.profile.ahead_ticks {
            return Ok(());
        }
        let wishes = self.script.play(&mut self.director);
        // That tick is done in all cells, whatever their pace.
        let done = tick.checked_sub(self.profile.ahead_ticks);
        let hits = done.and_then(|done| self.hits.remove(&done)).unwrap_or_default();
        self.outcome.rulings += self.script.rule(&mut self.director, hits);
        if self.profile.change_every > 0 && self.random.below(self.profile.change_every) == 0 {
            self.change();
        }
        let Some(released) = self.director.release() else {
            return Err("the director holds back a tick that is due".to_owned());
        };
        let orders = released.orders;
        let comes: Vec<_> = orders.spawns.iter().map(|it| it.id).collect();
        let mut tree = &released.tree;
        let first = self.first_tree.get_or_insert(released.tree.clone());
        if self.profile.broken == Some(Broken::OldTree) && tree.version() > 1 {
            tree = first;
        }
        let speed = (orders.tick, orders.tau_permille);
        self.ledger.order(speed, tree, &comes, &orders.leaves).map_err(name)?;
        for (id, _) in released.tree.cells() {
            let mut orders = orders.clone();
            if self.profile.broken == Some(Broken::OtherSpeed) && id.0 == 1 {
                orders.tau_permille = 500;
            }
            if self.profile.broken == Some(Broken::LoseRulings) && id.0 == 1 {
                orders.rulings = Arc::new([]);
            }
            self.cells.get_mut(&id).unwrap().order(orders);
        }
        if let Some((id, _)) = released.starts {
            let (before, next) = (released.tree.clone(), orders.next.clone());
            self.cells.insert(id, Cell::new(id, tick + 1, Some(before), next));
        }
        comes.iter().for_each(|id| self.controls.join(*id));
        orders.leaves.iter().for_each(|id| self.controls.leave(*id));
        for (id, wanted) in wishes {
            if let Some(send) = self.controls.steer(id, wanted) {
                self.control(send);
            }
        }
        Ok(())
    }

    fn control(&mut self, send: world::Resend) {
        if let Some(cell) = self.cells.get_mut(&send.to) {
            cell.control(send.id, send.wanted);
        }
    }

    /// A change drawn at random; one that does not fit is none.
    fn change(&mut self) {
        let tree = self.director.tree().clone();
        let random = &mut self.random;
        let mut pick = |count: usize| random.below(u32::try_from(count).unwrap()) as usize;
        let pairs = tree.siblings();
        let kind = pick(if pairs.is_empty() { 1 } else { 4 });
        let change = match kind {
            0 | 1 => {
                let (cell, area) = tree.cells().nth(pick(tree.cells().len())).unwrap();
                let axis = [world::Axis::X, world::Axis::Y][pick(2)];
                let (from, to) = area.span(axis);
                let at = from + u16::try_from(pick(usize::from(to - from))).unwrap();
                Change::Split { cell, axis, at, above: self.director.new_cell() }
            }
            2 => {
                let (below, above, ..) = pairs[pick(pairs.len())];
                let (kept, gone) = if pick(2) == 0 { (below, above) } else { (above, below) };
                Change::Merge { kept, gone }
            }
            _ => {
                let (below, above, _, at) = pairs[pick(pairs.len())];
                let at = (at + u16::try_from(pick(9)).unwrap()).saturating_sub(4);
                Change::Nudge { below, above, at }
            }
        };
        if self.director.change(change).is_ok() {
            match change {
                Change::Split { .. } => self.outcome.splits += 1,
                Change::Merge { .. } => self.outcome.merges += 1,
                Change::Nudge { .. } => self.outcome.nudges += 1,
            }
        }
    }

    /// Mail whose time has come, in any order; what comes to who is no more is nobody's.
    fn deliver(&mut self) {
        let mut index = 0;
        while index < self.mail.len() {
            if self.mail[index].due > self.round {
                index += 1;
                continue;
            }
            let letter = self.mail.swap_remove(index);
            let is_behind = letter.border.tick;
            if let Some(cell) = self.cells.get_mut(&letter.border.to)
                && is_behind <= cell.tick() + world::AHEAD_TICKS_MAX
            {
                cell.tell(letter.border);
            }
        }
    }

    /// Mail is delayed; what is lost on the way is sent again, and sometimes both come.
    fn post(&mut self, border: Border) {
        let delay = self.profile.delay;
        let mut due = self.round + self.random.below(delay + 1);
        if self.random.below(20) == 0 {
            due += 3 * delay;
        }
        if self.random.below(10) == 0 {
            let again = due + self.random.below(4 * delay + 1);
            self.mail.push(Letter { due: again, border: border.clone() });
        }
        self.mail.push(Letter { due, border });
    }

    fn step(&mut self, id: CellId) -> Result<(), String> {
        let mut stepped = self.cells.get_mut(&id).unwrap().step();
        self.check_rows(&stepped.published)?;
        self.sabotage(&mut stepped);
        self.check_ghosts(&stepped)?;
        let Stepped { published, borders, columns, rows, is_retired, .. } = stepped;
        borders.into_iter().for_each(|border| self.post(border));
        self.outcome.handed_over += u64::from(published.handed_over);
        self.outcome.downed += published.downed.len() as u64;
        self.outcome.hits += published.hits.len() as u64;
        self.hits.entry(published.tick).or_default().extend(&published.hits);
        self.director.done(published.tick, Report { cell: id, cpu_ns: 0, columns, rows });
        self.settle(&published)?;
        let mut resend = Vec::new();
        self.controls.published(&published, &mut resend);
        resend.into_iter().for_each(|send| self.control(send));
        if is_retired {
            self.outcome.misrouted += self.cells[&id].counters().controls_misrouted;
            self.cells.remove(&id);
            if self.profile.broken == Some(Broken::Zombie) {
                let tick = published.tick + 1;
                self.settle(&Published { tick, ..published })?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, published: &Published) -> Result<(), String> {
        let before = self.ledger.settled;
        self.ledger.publish(published).map_err(name)?;
        if let Some((tick, hash)) = self.ledger.settled.filter(|it| Some(*it) != before) {
            assert_eq!(tick as usize, self.outcome.hashes.len(), "ticks settle in order");
            self.outcome.hashes.push(hash);
            self.trace.retain(|known, _| *known + 1 >= tick);
        }
        Ok(())
    }

    /// Invariants 1, 3 and 5, row by row.
    fn check_rows(&mut self, published: &Published) -> Result<(), String> {
        let (tick, cell) = (published.tick, published.cell);
        let rows = self.trace.entry(tick).or_default();
        for row in &published.rows {
            if rows.insert(row.id, *row).is_some() {
                return Err(format!("I1: tick {tick}: {:?} is in two cells", row.id));
            }
            let (epoch, control_seq) = (row.epoch, row.control_seq);
            let track = Track { tick, cell, epoch, control_seq };
            let Some(last) = self.tracks.insert(row.id, track) else { continue };
            if last.tick + 1 != tick {
                return Err(format!("I2: {:?} was away from {} to {tick}", row.id, last.tick));
            }
            if (last.cell == cell) != (last.epoch == epoch) || last.epoch > epoch {
                return Err(format!("I3: {:?}: epoch {epoch} after {}", row.id, last.epoch));
            }
            if last.control_seq > control_seq {
                return Err(format!("I5: {:?}: {control_seq} after {}", row.id, last.control_seq));
            }
        }
        Ok(())
    }

    /// Invariant 7: a ghost is what its owner was in the tick that the border tells of.
    fn check_ghosts(&self, stepped: &Stepped) -> Result<(), String> {
        let tick = stepped.published.tick;
        let rows: BTreeMap<_, _> = stepped.published.rows.iter().map(|row| (row.id, row)).collect();
        for border in &stepped.borders {
            let mut told = BTreeSet::new();
            for ghost in &border.ghosts {
                let row = rows.get(&ghost.id).ok_or(format!("I7: {:?} is no ghost", ghost.id))?;
                let same =
                    (row.at, row.heading, row.fired) == (ghost.at, ghost.heading, ghost.fired);
                if !same || border.tick != tick || !told.insert(ghost.id) {
                    return Err(format!("I7: tick {tick}: the ghost of {:?} is old", ghost.id));
                }
            }
        }
        Ok(())
    }

    fn sabotage(&mut self, stepped: &mut Stepped) {
        let tick = stepped.published.tick;
        let borders = &mut stepped.borders;
        let from = borders.iter().position(|it| !it.arrivals.is_empty());
        match (self.profile.broken, from) {
            (Some(Broken::DoubleArrival), Some(from)) if borders.len() > 1 => {
                let arrival = borders[from].arrivals[0].clone();
                let other = usize::from(from == 0);
                borders[other].arrivals.push(arrival);
            }
            (Some(Broken::LoseArrival), Some(from)) => drop(borders[from].arrivals.pop()),
            (Some(Broken::OldEpoch), Some(from)) => borders[from].arrivals[0].epoch -= 1,
            (Some(Broken::ForgetControls), Some(from)) => borders[from].arrivals[0].control_seq = 0,
            (Some(Broken::OldGhosts), _) => {
                let old = tick.checked_sub(1).and_then(|tick| self.trace.get(&tick));
                let ghosts = borders.iter_mut().flat_map(|it| &mut it.ghosts);
                for ghost in ghosts {
                    let row = old.and_then(|rows| rows.get(&ghost.id));
                    ghost.at = row.map_or(ghost.at, |row| row.at);
                }
            }
            (Some(Broken::LoseGhosts), _) => borders.iter_mut().for_each(|it| it.ghosts.clear()),
            _ => {}
        }
    }
}

/// The invariant that a fault of the ledger breaks.
fn name(fault: Fault) -> String {
    let invariant = match fault {
        Fault::Entities { .. } => "I2",
        Fault::Stray { tau_permille: 1_000, .. } => "I4",
        Fault::Stray { .. } => "I10",
        Fault::Tiles { .. } => "I6",
        Fault::Order { .. } => "I11",
    };
    format!("{invariant}: {fault}")
}
