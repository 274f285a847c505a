//! What happens in a world whatever its partition: who comes, who goes, what pilots want, and what is
//! ruled, drawn from the seed tick by tick.

use event::Random;
use world::{
    Control, Director, EntityId, HEALTH_FULL, Hit, Numbered, Point, Ruling, UNITS_PER_METRE, mix,
    units,
};

/// Draws the events of one world.
#[derive(Clone)]
pub(crate) struct Script {
    random: Random,
    bins: u16,
    start: u32,
    churn: u32,
    /// Ticks from a pilot's wish to the tick that it is for.
    lead_ticks: u32,
    centre: Point,
    /// How far from the centre the crowd goes, in metres.
    spread: i32,
    alive: Vec<(EntityId, u32)>,
    /// Whether anything is ruled.
    rules: bool,
}

impl Script {
    pub(crate) fn new(seed: u64, bins: u16, lead_ticks: u32) -> Self {
        let mut random = Random::from_number(seed ^ 0x0051_c41f);
        let start = 10 + random.below(60);
        let churn = random.below(3);
        let side = u32::try_from(units(bins)).unwrap();
        let at = |random: &mut Random| i32::try_from(random.below(side)).unwrap();
        let centre = Point { x: at(&mut random), y: at(&mut random) };
        let spread = 10 + i32::try_from(random.below(150)).unwrap();
        let rules = random.below(2) == 0;
        Self { random, bins, start, churn, lead_ticks, centre, spread, alive: Vec::new(), rules }
    }

    /// Near the centre of the crowd, or anywhere.
    fn place(&mut self) -> Point {
        let (centre, spread) = match self.random.below(4) {
            0 => {
                let middle = units(self.bins) / 2;
                (Point { x: middle, y: middle }, middle)
            }
            _ => (self.centre, self.spread * UNITS_PER_METRE),
        };
        let mut offset = |middle: i32| {
            let spread = u32::try_from(2 * spread).unwrap();
            middle + i32::try_from(self.random.below(spread)).unwrap() - spread.cast_signed() / 2
        };
        Point { x: offset(centre.x), y: offset(centre.y) }
    }

    /// What is ruled on hits of one tick, in whatever order they come, and out of nothing; gives how much that is.
    pub(crate) fn rule(&mut self, director: &mut Director, mut hits: Vec<Hit>) -> u64 {
        let tick = director.tick();
        // For some ticks hits wait, for some they do not.
        director.let_hits_wait(self.rules && mix(u64::from(tick / 16)).is_multiple_of(2));
        hits.sort_unstable();
        let mut rulings: Vec<Ruling> = Vec::new();
        for Hit { victim, by, shots, .. } in hits {
            let damage = shots.saturating_mul(u8::try_from(self.random.below(8)).unwrap());
            rulings.push(Ruling::Damage { victim, by, damage });
        }
        let count = u32::try_from(self.alive.len()).unwrap();
        if self.rules && count > 0 {
            let mut anybody = || self.alive[self.random.below(count) as usize].0;
            let (victim, by, ship) = (anybody(), anybody(), anybody());
            let damage = u8::try_from(self.random.below(20)).unwrap();
            rulings.push(Ruling::Damage { victim, by, damage });
            let ticks = u8::try_from(self.random.below(90)).unwrap();
            rulings.push(Ruling::Respawn { ship, ticks });
        }
        let many = rulings.len() as u64;
        rulings.into_iter().for_each(|ruling| director.rule(ruling));
        many
    }

    /// What happens before a tick is released; gives what pilots want.
    pub(crate) fn play(&mut self, director: &mut Director) -> Vec<(EntityId, Numbered)> {
        let tick = director.tick();
        let come = if tick == 0 { self.start } else { self.random.below(self.churn + 1) };
        for _ in 0..come {
            let place = self.place();
            let heading = u16::try_from(self.random.below(65_536)).unwrap();
            let health = 1 + u8::try_from(self.random.below(HEALTH_FULL.into())).unwrap();
            self.alive.push((director.spawn_with(place, heading, health).unwrap(), 0));
        }
        for _ in 0..self.random.below(self.churn + 1) {
            let count = u32::try_from(self.alive.len()).unwrap();
            if tick > 0 && count > 1 {
                director.leave(self.alive.swap_remove(self.random.below(count) as usize).0);
            }
        }
        let mut wishes = Vec::new();
        for (id, seq) in &mut self.alive {
            // No more wait for their ticks than a ship may have waiting.
            if !(tick + id.slot).is_multiple_of(self.lead_ticks / 4) {
                continue;
            }
            *seq += 1;
            let turn = i8::try_from(self.random.below(128)).unwrap() - 64;
            let thrust = u8::try_from(self.random.below(4)).unwrap();
            let control = Control { turn, thrust, fire: self.random.below(2) == 0 };
            wishes.push((*id, Numbered { seq: *seq, tick: tick + self.lead_ticks, control }));
        }
        wishes
    }
}
