//! What one entity is, and how it moves: a ship that steers, thrusts, shoves and shoots.
//!
//! A tick changes an entity by what it was itself, what its pilot wants, and what those near it
//! *were* at the tick before ([`Seen`]). What neighbours do to it is a sum, so their order does not
//! matter; what it does to them is computed where they are. So nothing has to be sent to change a
//! stranger, and a cell needs to know no more than how the other side of its border looked one
//! tick ago. All is in whole numbers.
//!
//! What is deliberately not here: who owns an entity (`cell`), and who sees it (`interest`).

use crate::ids::{EntityId, mix};
use crate::space::{Point, UNITS_PER_METRE};

/// How far entities act on each other, in units: 32 m, the range of a shot.
pub const RANGE: i32 = 32 * UNITS_PER_METRE;
/// The fastest that anything moves, in units a tick: 8 m, at 20 Hz 160 m/s.
pub const SPEED_MAX: i32 = 8 * UNITS_PER_METRE;
/// Controls of a pilot that wait for their ticks; the oldest give way.
pub const CONTROLS_MAX: usize = 8;
/// Health of a ship that is whole.
pub const HEALTH_FULL: u8 = 15;
/// Health that a shot costs which hits, unless a rule says another number ([`Ruling::Damage`](crate::Ruling)).
pub const SHOT_DAMAGE: u8 = 3;
/// Ticks for which a ship without health lies still, unless a rule says another number
/// ([`Ruling::Respawn`](crate::Ruling)).
pub const DOWN_TICKS: u8 = 60;
/// Ships closer than this shove each other, in units.
const SHOVE_RANGE: i32 = 4 * UNITS_PER_METRE;
/// A ship may shoot in one of so many ticks.
const SHOT_EVERY_TICKS: u32 = 8;
/// Units a tick that a tick of thrust adds, for each of its three steps.
const THRUST: i32 = 16;

/// What a pilot wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Control {
    /// Turn in each tick, in 1,024ths of a full turn; positive is to the left.
    pub turn: i8,
    /// 0 (none) to 3.
    pub thrust: u8,
    /// Whether to shoot whenever it may.
    pub fire: bool,
}

/// A control with its number and the tick in which it is to hold first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbered {
    /// Counted by the pilot, from 1.
    pub seq: u32,
    /// Not before this tick.
    pub tick: u32,
    /// What is wanted.
    pub control: Control,
}

/// One entity with all that its owner knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Its name.
    pub id: EntityId,
    /// Rises with each hand-over: who has the higher one owns the entity.
    pub epoch: u32,
    /// Where it is.
    pub at: Point,
    /// Units a tick, east and north, each at most [`SPEED_MAX`].
    pub velocity: (i32, i32),
    /// Direction of its nose, in 65,536ths of a full turn to the left of east.
    pub heading: u16,
    /// 0 to [`HEALTH_FULL`].
    pub health: u8,
    /// Ticks until a ship without health is whole again.
    pub down_ticks: u8,
    /// Whether it shot in the tick that made this state.
    pub fired: bool,
    /// What its pilot wants now.
    pub control: Control,
    /// The number of that control, 0 before the first: none of this or a lower one is taken again.
    pub control_seq: u32,
    /// Controls whose tick has not come, by rising number.
    pub waiting: Vec<Numbered>,
}

/// An entity as others see it: what it was at the end of the tick before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who.
    pub id: EntityId,
    /// Where.
    pub at: Point,
    /// Where its nose points, as [`Entity::heading`].
    pub heading: u16,
    /// Whether it shot.
    pub fired: bool,
}

/// What others do to an entity in one tick. Sums and a minimum: any order gives the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    shove: (i32, i32),
    hits: u8,
    by: Option<EntityId>,
}

/// A ship lost its last health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Downed {
    /// In this tick.
    pub tick: u32,
    /// Whose ship.
    pub victim: EntityId,
    /// Who hit it last; of several the one with the lowest id.
    pub by: EntityId,
}

/// A ship was hit, and what that costs is said later ([`Orders::hits_wait`](crate::Orders)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// In this tick.
    pub tick: u32,
    /// Whose ship.
    pub victim: EntityId,
    /// Who hit it; of several the one with the lowest id.
    pub by: EntityId,
    /// Shots of all of them.
    pub shots: u8,
}

impl Hit {
    /// What it costs by the rules of this crate.
    #[must_use]
    pub fn damage(&self) -> u8 {
        self.shots.saturating_mul(SHOT_DAMAGE)
    }
}

/// What came of a tick for a ship, besides where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck {
    /// It was hit, and has lost nothing yet.
    Hit(Hit),
    /// It lost its last health.
    Downed(Downed),
}

/// A ship that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spawn {
    /// Its name.
    pub id: EntityId,
    /// Where.
    pub at: Point,
    /// Where its nose points, as [`Entity::heading`].
    pub heading: u16,
    /// 1 to [`HEALTH_FULL`].
    pub health: u8,
}

impl Spawn {
    /// A whole ship whose nose points east.
    #[must_use]
    pub fn new(id: EntityId, at: Point) -> Self {
        Self { id, at, heading: 0, health: HEALTH_FULL }
    }
}

impl From<Spawn> for Entity {
    fn from(spawn: Spawn) -> Self {
        let Spawn { id, at, heading, health } = spawn;
        Self { heading, health, ..Self::new(id, at) }
    }
}

impl Entity {
    /// A whole ship that lies still.
    #[must_use]
    pub fn new(id: EntityId, at: Point) -> Self {
        Self {
            id,
            epoch: 0,
            at,
            velocity: (0, 0),
            heading: 0,
            health: HEALTH_FULL,
            down_ticks: 0,
            fired: false,
            control: Control::default(),
            control_seq: 0,
            waiting: Vec::new(),
        }
    }

    /// How others see it.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen { id: self.id, at: self.at, heading: self.heading, fired: self.fired }
    }

    /// Keeps a control for its tick. Tells whether it is new; what is not is no matter.
    pub fn want(&mut self, wanted: Numbered) -> bool {
        let place = self.waiting.partition_point(|it| it.seq < wanted.seq);
        let is_known = self.waiting.get(place).is_some_and(|it| it.seq == wanted.seq);
        if wanted.seq <= self.control_seq || is_known {
            return false;
        }
        self.waiting.insert(place, wanted);
        if self.waiting.len() > CONTROLS_MAX {
            self.waiting.remove(0);
        }
        true
    }

    /// Adds what a neighbour that was `other` at the end of the last tick does in this one.
    pub fn feel(&self, other: &Seen, effects: &mut Effects) {
        let (dx, dy) = (self.at.x - other.at.x, self.at.y - other.at.y);
        if dx.abs() < SHOVE_RANGE && dy.abs() < SHOVE_RANGE {
            let strength = (SHOVE_RANGE - dx.abs().max(dy.abs())) / 32;
            effects.shove.0 += dx.signum() * strength;
            effects.shove.1 += dy.signum() * strength;
        }
        if other.fired && is_hit(other, dx, dy) {
            effects.hits = effects.hits.saturating_add(1);
            effects.by = Some(effects.by.map_or(other.id, |by| by.min(other.id)));
        }
    }

    /// One tick. `side` is the world's, in units; `hits_wait`: hits cost nothing yet. Tells if the ship was
    /// hit then, and else if it went down.
    pub fn step(
        &mut self,
        tick: u32,
        effects: &Effects,
        (side, hits_wait): (i32, bool),
    ) -> Option<Struck> {
        self.take_controls(tick);
        let flies = self.health > 0;
        let may_shoot =
            mix(u64::from(self.id.slot) + u64::from(tick)) % u64::from(SHOT_EVERY_TICKS);
        self.fired = flies && self.control.fire && may_shoot == 0;
        if flies {
            self.heading = self.heading.wrapping_add_signed(i16::from(self.control.turn) * 64);
            let (east, north) = direction(self.heading);
            let thrust = i32::from(self.control.thrust.min(3)) * THRUST;
            self.velocity.0 += (east * thrust) >> 14;
            self.velocity.1 += (north * thrust) >> 14;
        }
        (self.at.x, self.velocity.0) = glide(self.at.x, self.velocity.0 + effects.shove.0, side);
        (self.at.y, self.velocity.1) = glide(self.at.y, self.velocity.1 + effects.shove.1, side);
        self.take_hits(tick, effects, hits_wait)
    }

    fn take_controls(&mut self, tick: u32) {
        let due = self.waiting.iter().take_while(|it| it.tick <= tick).count();
        for taken in self.waiting.drain(..due) {
            assert!(taken.seq > self.control_seq, "a control is taken twice");
            (self.control, self.control_seq) = (taken.control, taken.seq);
        }
    }

    fn take_hits(&mut self, tick: u32, effects: &Effects, hits_wait: bool) -> Option<Struck> {
        if self.health == 0 {
            self.down_ticks -= 1;
            if self.down_ticks == 0 {
                self.health = HEALTH_FULL;
            }
            return None;
        }
        let hit = Hit { tick, victim: self.id, by: effects.by?, shots: effects.hits };
        if hits_wait {
            return Some(Struck::Hit(hit));
        }
        self.lose(tick, hit.by, hit.damage()).map(Struck::Downed)
    }

    /// Loses health to a ship that hit it, if it has any. Tells if that was the last of it.
    pub fn lose(&mut self, tick: u32, by: EntityId, damage: u8) -> Option<Downed> {
        let had_some = self.health > 0;
        self.health = self.health.saturating_sub(damage);
        if !had_some || self.health > 0 {
            return None;
        }
        self.lie_down();
        Some(Downed { tick, victim: self.id, by })
    }

    /// A ship that lies still does so for another number of ticks from now on, at least 1.
    pub(crate) fn lie_for(&mut self, ticks: u8) {
        if self.health == 0 {
            self.down_ticks = ticks.max(1);
        }
    }

    /// The ship has no health left, and lies still for a while.
    pub(crate) fn lie_down(&mut self) {
        (self.health, self.down_ticks) = (0, DOWN_TICKS);
    }

    /// A number in which every bit depends on all that the rules can see. Who owns the entity, and
    /// how often that changed, is none of it.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let pair =
            |a: i32, b: i32| u64::from(a.cast_unsigned()) << 32 | u64::from(b.cast_unsigned());
        let bits = u64::from(self.heading) << 32
            | u64::from(self.health) << 24
            | u64::from(self.down_ticks) << 16
            | u64::from(self.control.turn.cast_unsigned()) << 8
            | u64::from(self.control.thrust) << 4
            | u64::from(self.control.fire) << 1
            | u64::from(self.fired);
        [pair(self.at.x, self.at.y), pair(self.velocity.0, self.velocity.1), bits]
            .into_iter()
            .fold(self.id.mix() ^ u64::from(self.control_seq), |hash, part| mix(hash ^ part))
    }
}

/// Whether what lies at `(dx, dy)` from a shooter is in the cone that its shot fills: some seven
/// degrees to either side of its nose, up to [`RANGE`].
fn is_hit(shooter: &Seen, dx: i32, dy: i32) -> bool {
    let (east, north) = direction(shooter.heading);
    let (dx, dy, east, north) = (i64::from(dx), i64::from(dy), i64::from(east), i64::from(north));
    let range = i64::from(RANGE);
    let (ahead, aside) = (dx * east + dy * north, dy * east - dx * north);
    dx * dx + dy * dy < range * range && ahead > 0 && aside.abs() * 8 <= ahead
}

/// Moves along one axis: drag, the speed's bound, and walls that send back what meets them.
fn glide(at: i32, velocity: i32, side: i32) -> (i32, i32) {
    let velocity = (velocity - velocity / 32).clamp(-SPEED_MAX, SPEED_MAX);
    let to = at + velocity;
    if to < 0 {
        (-to, -velocity)
    } else if to >= side {
        (2 * side - 1 - to, -velocity)
    } else {
        (to, velocity)
    }
}

/// The direction of a heading, each part in 16,384ths: whole numbers only, so that all machines
/// agree. Source: the rational approximation of Bhaskara I, wrong by at most 0.2 %.
#[must_use]
pub fn direction(heading: u16) -> (i32, i32) {
    (sine(heading.wrapping_add(16_384)), sine(heading))
}

fn sine(angle: u16) -> i32 {
    let half = i64::from(angle & 0x7fff);
    let arc = half * (32_768 - half);
    let value = 16 * arc * 16_384 / (5 * 32_768 * 32_768 - 4 * arc);
    let value = i32::try_from(value).unwrap_or(0);
    if angle < 0x8000 { value } else { -value }
}
