//! What is true, as far as it can be known from outside: each pilot is told of its own ship in every tick that
//! it is told of at all, and what others are told of that ship is compared with it.
//!
//! A **sample** is what one pilot believes of another's ship when a snapshot has come. It is looked at some
//! seconds later, when the ship's own pilot has had its snapshot of that tick too. If the sample is an update of
//! just that tick it has to be the same, bit for bit: it came in another packet, on another baseline. If
//! not, the distance between the two is the view error. Ships of bots and of other processes' pilots are not
//! sampled, because nobody here is told of them first hand.
//!
//! Whether a pilot knows **who it should** is looked at the other way round: of each snapshot some own ship is
//! drawn, whoever knows it. One that has been well within the pilot's sight for [`SIGHT_TICKS`] has to be known, if it was
//! still there in that tick, which its own pilot has heard some seconds later;
//! one that has been well beyond it for as long must not be. Where far crowds are told as summaries, only the second is
//! judged.
//!
//! A snapshot's lateness is by the schedule of ticks, whose beginning is where some pilot got one soonest; what
//! is common to all snapshots (the way of the fastest) is not in it. The schedule is learnt anew all the
//! time, so that after a pause of the server only some seconds are late.
//!
//! In: snapshots of pilots. Out: counts in the record. Nothing is told to anybody.

use std::collections::VecDeque;

use world::{EntityId, Interest, Record};

use super::pilot::{Pilot, UNITS};
use crate::load::record::zone::ZoneRecord;
use crate::measure::arrivals::Stream;

/// Ticks of each own ship that are kept.
const KEPT_TICKS: u32 = 64;
/// After so many a sample is looked at.
const WAIT_TICKS: u32 = 40;
/// Samples that wait, at most; beyond, none is taken.
const SAMPLES_MAX: usize = 1 << 20;
/// How often a pilot looks for a ship in sight to take a sample of.
const TRIES: usize = 4;
/// Of an own ship's way, a point in so many ticks is kept, and so many points.
const POINT_TICKS: u32 = 8;
const POINTS: u32 = 24;
/// For so long who is in sight may wait for its turn to be told: twice the longest time that the farthest of the
/// 4,096 ships waits that a client knows at most, in packets of 1,200 bytes.
const SIGHT_TICKS: u32 = 160;
/// How far ships fly, towards or from each other, between two looks of the server and since the last point of
/// their ways, in metres: who is nearer to the border of sight than this is not judged.
const MARGIN_M: i32 = 64;
/// An own ship whose pilot was told nothing for so long is gone.
const GONE_TICKS: u32 = 256;
/// Over this long the soonest snapshot is looked for, twice.
const SOONEST_NS: u64 = 5_000_000_000;

/// An own ship.
#[derive(Debug)]
struct Ship {
    generation: u32,
    /// When its pilot was told of it last.
    last: u32,
    /// By tick modulo [`KEPT_TICKS`], each with its tick.
    records: Box<[Option<(u32, Record)>; KEPT_TICKS as usize]>,
    /// By the number of the point modulo [`POINTS`], each with its tick.
    way: [Option<(u32, i32, i32)>; POINTS as usize],
}

impl Ship {
    /// Where it was in a tick of which there is a point.
    fn point(&self, tick: u32) -> Option<(i32, i32)> {
        let (known, x, y) = self.way[(tick / POINT_TICKS % POINTS) as usize]?;
        (known == tick).then_some((x, y))
    }
}

/// What somebody believes.
#[derive(Clone, Copy, Debug)]
struct Sample {
    id: EntityId,
    tick: u32,
    record: Record,
    /// Whether it was told in just this tick.
    is_told: bool,
}

/// Where a ship has been for a while, as a pilot may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Within,
    Beyond,
}

/// All own ships, and what is to be compared with them.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// By slot.
    ships: Vec<Option<Ship>>,
    /// Slots of own ships that are there, or were until lately.
    slots: Vec<u32>,
    samples: VecDeque<Sample>,
    /// Who was not known to a pilot that should have known them in a tick, if they were still there then.
    missed: VecDeque<(u32, EntityId)>,
    pub(super) schedule: Schedule,
}

impl Trace {
    /// A pilot has a ship.
    pub(super) fn joins(&mut self, id: EntityId) {
        let index = id.slot as usize;
        if index >= self.ships.len() {
            self.ships.resize_with(index + 1, || None);
        }
        if self.ships[index].is_none() {
            self.slots.push(id.slot);
        }
        let records = Box::new([None; KEPT_TICKS as usize]);
        let (last, way) = (self.schedule.tick(), [None; POINTS as usize]);
        self.ships[index] = Some(Ship { generation: id.generation, last, records, way });
    }

    /// A pilot has got a snapshot: keeps what it says of its ship, and takes a sample of another.
    pub(super) fn snapshot(
        &mut self,
        pilot: &Pilot,
        random: &mut Stream,
        (late_ns, record): (u64, &mut ZoneRecord),
    ) {
        let Some(tick) = pilot.view.tick() else { return };
        self.own(pilot, tick);
        let first = (0..TRIES).find_map(|_| self.draw(pilot, random));
        first.into_iter().for_each(|id| self.look_for(pilot, (tick, id), record));
        let believed = first.and_then(|id| believed(pilot, (tick, id))).or_else(|| {
            (1..TRIES).find_map(|_| believed(pilot, (tick, self.draw(pilot, random)?)))
        });
        if let Some((id, told, believed)) = believed {
            record.staleness.record(self.schedule.ticks_ns(tick - told) + late_ns, 1);
            if self.samples.len() < SAMPLES_MAX {
                let is_told = told == tick;
                self.samples.push_back(Sample { id, tick, record: believed, is_told });
            }
        }
        let newest = self.schedule.tick();
        while let Some(sample) = self.samples.pop_front_if(|it| it.tick + WAIT_TICKS <= newest) {
            self.compare(&sample, record);
        }
        while let Some((tick, id)) = self.missed.pop_front_if(|it| it.0 + WAIT_TICKS <= newest) {
            // Its own pilot was told of it then, or later.
            record.unseen += u64::from(self.ship(id).is_some_and(|ship| ship.last >= tick));
        }
    }

    /// An own ship that is there, or was until lately.
    fn ship(&self, id: EntityId) -> Option<&Ship> {
        let ship = self.ships.get(id.slot as usize)?.as_ref();
        ship.filter(|ship| ship.generation == id.generation)
    }

    fn own(&mut self, pilot: &Pilot, tick: u32) {
        let Some(known) = pilot.view.get(pilot.ship.slot) else { return };
        let (told, record) = known.newest();
        let ship = self.ships.get_mut(pilot.ship.slot as usize).and_then(Option::as_mut);
        if let Some(ship) = ship.filter(|_| told == tick)
            && ship.generation == pilot.ship.generation
        {
            ship.last = tick;
            ship.records[(tick % KEPT_TICKS) as usize] = Some((tick, record));
            if tick.is_multiple_of(POINT_TICKS) {
                let place = (tick / POINT_TICKS % POINTS) as usize;
                ship.way[place] = Some((tick, record.x, record.y));
            }
        }
    }

    /// Some own ship that is not the pilot's; those that are found to be gone are forgotten.
    fn draw(&mut self, pilot: &Pilot, random: &mut Stream) -> Option<EntityId> {
        let count = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let place = if count > 0 { random.below(count) as usize } else { return None };
        let slot = self.slots[place];
        let known = &mut self.ships[slot as usize];
        let newest = self.schedule.tick();
        if known.as_ref().is_none_or(|ship| ship.last + GONE_TICKS < newest) {
            *known = None;
            self.slots.swap_remove(place);
            return None;
        }
        let ship = known.as_ref().filter(|_| slot != pilot.ship.slot)?;
        Some(EntityId { slot, generation: ship.generation })
    }

    /// Whether the pilot knows a ship that it should, or one that it should not know any more.
    fn look_for(&mut self, pilot: &Pilot, (tick, id): (u32, EntityId), record: &mut ZoneRecord) {
        let Some(sight) = self.sight(pilot, (tick, id)) else { return };
        let known = pilot.view.get(id.slot);
        let is_known = known.is_some_and(|known| known.generation == id.generation);
        match sight {
            Sight::Within if pilot.is_summarised(tick, SIGHT_TICKS) => {}
            Sight::Within if is_known => record.seen += 1,
            Sight::Within if self.missed.len() < SAMPLES_MAX => self.missed.push_back((tick, id)),
            Sight::Within => {}
            Sight::Beyond => record.lingering += u64::from(is_known),
        }
    }

    /// Where a ship has been for [`SIGHT_TICKS`]; none if that is not clear, or not known.
    fn sight(&self, pilot: &Pilot, (tick, id): (u32, EntityId)) -> Option<Sight> {
        let ship = |slot: u32| self.ships.get(slot as usize)?.as_ref();
        let (own, other) = (ship(pilot.ship.slot)?, ship(id.slot)?);
        // That of this tick may not have come to the other pilot yet.
        let newest = (tick / POINT_TICKS).checked_sub(1)? * POINT_TICKS;
        let radius_m = i32::from(Interest::default().radius_bins) * 64;
        let within = i64::from((radius_m - MARGIN_M) * UNITS).pow(2);
        let beyond = i64::from((radius_m + radius_m / 10 + MARGIN_M) * UNITS).pow(2);
        let mut sight = None;
        for back in 0..=SIGHT_TICKS / POINT_TICKS {
            let at = newest.checked_sub(back * POINT_TICKS)?;
            let ((x, y), (other_x, other_y)) = (own.point(at)?, other.point(at)?);
            let square = |a: i32, b: i32| i64::from(a - b).pow(2);
            let here = match square(x, other_x) + square(y, other_y) {
                distance if distance < within => Sight::Within,
                distance if distance > beyond => Sight::Beyond,
                _ => return None,
            };
            if *sight.get_or_insert(here) != here {
                return None;
            }
        }
        sight
    }

    fn compare(&self, sample: &Sample, record: &mut ZoneRecord) {
        let kept =
            self.ship(sample.id).and_then(|it| it.records[(sample.tick % KEPT_TICKS) as usize]);
        match kept.filter(|(tick, _)| *tick == sample.tick) {
            None => record.unknown += 1,
            Some((_, truth)) if sample.is_told && truth != sample.record => record.different += 1,
            Some((_, truth)) => {
                record.same += u64::from(sample.is_told);
                record.error_mm.record(distance_mm(truth, sample.record), 1);
            }
        }
    }
}

/// When a pilot was told of a ship last, and where it believes it to be; none if it does not see it.
fn believed(pilot: &Pilot, (tick, id): (u32, EntityId)) -> Option<(EntityId, u32, Record)> {
    let known = pilot.view.get(id.slot)?;
    Some((EntityId { generation: known.generation, ..id }, known.newest().0, known.at(tick)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a distance in a world"
)]
fn distance_mm(one: Record, other: Record) -> u64 {
    let apart = f64::from(one.x - other.x).hypot(f64::from(one.y - other.y));
    (apart * 1_000.0 / f64::from(UNITS)).round() as u64
}

/// When ticks are due, as far as that shows from outside.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The newest tick that anybody was told of, and when it was due; none before the first.
    newest: Option<(u32, i64)>,
    /// How long a tick takes at the speed that time has.
    tick_ns: i64,
    /// By how much the soonest snapshot was after its time, of this stretch and the one before.
    soonest_ns: [Option<i64>; 2],
    until_ns: u64,
}

impl Schedule {
    /// The newest tick.
    pub(super) fn tick(&self) -> u32 {
        self.newest.map_or(0, |(tick, _)| tick)
    }

    /// How long so many ticks take.
    pub(super) fn ticks_ns(&self, ticks: u32) -> u64 {
        u64::from(ticks) * self.tick_ns.unsigned_abs()
    }

    /// A snapshot has come. Tells how late it is, and by how many ticks it is newer than all before.
    pub(super) fn came(
        &mut self,
        now_ns: u64,
        tick: u32,
        (tau_permille, tick_rate_hz): (u16, u8),
    ) -> (u64, u32) {
        let per_s = i64::from(tick_rate_hz.max(1)) * i64::from(tau_permille.max(1));
        self.tick_ns = 1_000_000_000 * 1_000 / per_s;
        let now = i64::try_from(now_ns).unwrap_or(i64::MAX);
        let (newest, due_ns) = *self.newest.get_or_insert((tick, now));
        let newer = tick.saturating_sub(newest);
        let due_ns = due_ns + (i64::from(tick) - i64::from(newest)) * self.tick_ns;
        if newer > 0 {
            self.newest = Some((tick, due_ns));
        }
        if now_ns >= self.until_ns {
            self.until_ns = now_ns + SOONEST_NS;
            self.soonest_ns = [None, self.soonest_ns[0]];
        }
        let after_ns = now - due_ns;
        let soonest = self.soonest_ns[0].map_or(after_ns, |it| it.min(after_ns));
        self.soonest_ns[0] = Some(soonest);
        let soonest = self.soonest_ns[1].map_or(soonest, |it| it.min(soonest));
        (after_ns.saturating_sub(soonest).unsigned_abs(), newer)
    }
}

#[cfg(test)]
mod tests;
