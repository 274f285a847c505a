//! One pilot of the zone: what it knows, where it flies, which of its controls are on their way.
//!
//! In: snapshots, and the moment of its next control. Out: packets. Its client is `world::View`, the reader of
//! the documented layout. What is deliberately not here: what pilots know of each other (`trace`), sockets.

use std::collections::VecDeque;

use world::{Applied, BadPacket, Control, EntityId, FromClient, View, Welcome};

use super::ways::Way;
use crate::load::scenario::Fleet;
use crate::measure::arrivals::Stream;

/// Controls that a pilot has on their way at most, 24 bytes each: those of most of a minute in which nothing comes. The
/// oldest is given up.
pub(super) const UNDER_WAY_MAX: usize = 1_024;
/// Units of a record in a metre.
pub(super) const UNITS: i32 = 256;
/// A goal is reached when it is so near: two seconds of flight.
const NEAR: i32 = 48 * UNITS;
/// Those who are in one place are within so much of its middle, along each axis: all of them in each
/// other's sight, and with room for a thousand.
const PLACE: i32 = 120 * UNITS;
/// How far the place of a fleet moves in a tick: 16 m/s at 20 Hz, half of what ships can fly.
const PLACE_SPEED: u32 = 205;
/// The most that a pilot turns in a tick, in 1,024ths of a full turn.
const TURN_MAX: i32 = 24;
/// Steps of thrust, of three: the speed that a ship comes to grows with them.
const FULL_THRUST: u8 = 3;
const CRUISE_THRUST: u8 = 2;
/// A pilot thrusts when its nose is so near to where it wants to go, in 1,024ths of a full turn.
const AHEAD: i32 = 128;

/// A control on its way.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct UnderWay {
    seq: u32,
    sent_ns: u64,
    intended_ns: u64,
}

impl UnderWay {
    /// How long it has been on its way by now: since it was sent, and since it was to be.
    pub(in super::super) fn times_ns(self, now_ns: u64) -> (u64, u64) {
        (now_ns.saturating_sub(self.sent_ns), now_ns.saturating_sub(self.intended_ns))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pilot {
    pub(super) ship: EntityId,
    pub(super) view: View,
    /// Side of the world, in units of a record.
    side: i32,
    seq: u32,
    under_way: VecDeque<UnderWay>,
    /// The newest tick in which far crowds were told as summaries.
    summarised: Option<u32>,
    /// Where it flies to: a place in the world, or beside the middle of where all are to be.
    goal: Option<(i32, i32)>,
    /// Its datagrams, if it has asked for some.
    pub(in super::super) way: Option<Way>,
}

impl Pilot {
    pub(super) fn new(welcome: &Welcome) -> Self {
        Self {
            ship: welcome.ship,
            view: View::default(),
            side: i32::from(welcome.bins) * 64 * UNITS,
            seq: 0,
            under_way: VecDeque::new(),
            summarised: None,
            goal: None,
            way: None,
        }
    }

    /// Takes a snapshot.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Applied, BadPacket> {
        let applied = self.view.take(bytes)?;
        if !self.view.summaries().is_empty() {
            self.summarised = self.view.tick();
        }
        Ok(applied)
    }

    /// Whether far crowds were told as summaries in the last so many ticks.
    pub(super) fn is_summarised(&self, tick: u32, ticks: u32) -> bool {
        self.summarised.is_some_and(|last| tick - last <= ticks)
    }

    /// The next control that was on its way and that the ship follows by now, or a later one.
    pub(super) fn followed(&mut self) -> Option<UnderWay> {
        let seq = self.view.control_seq();
        self.under_way.pop_front_if(|it| it.seq <= seq)
    }

    /// Controls that the ship does not follow yet.
    pub(super) fn under_way(&self) -> impl Iterator<Item = UnderWay> {
        self.under_way.iter().copied()
    }

    /// What to send: acknowledgements, and what the pilot wants now; and the control that was given up for it.
    pub(in super::super) fn control(
        &mut self,
        fleet: Fleet,
        random: &mut Stream,
        (sent_ns, intended_ns): (u64, u64),
    ) -> (FromClient, Option<UnderWay>) {
        let control = self.wanted(fleet, random);
        self.seq += 1;
        self.under_way.push_back(UnderWay { seq: self.seq, sent_ns, intended_ns });
        let is_full = self.under_way.len() > UNDER_WAY_MAX;
        let given_up = self.under_way.pop_front_if(|_| is_full);
        let (ack, first_seq) = (self.view.ack(), self.seq);
        (FromClient { ack, first_seq, controls: vec![control] }, given_up)
    }

    /// Turns towards the goal and thrusts; one of four shoots whenever it may.
    fn wanted(&mut self, fleet: Fleet, random: &mut Stream) -> Control {
        let Some(own) = self.view.get(self.ship.slot) else { return Control::default() };
        let tick = self.view.tick().unwrap_or(0);
        let at = own.at(tick);
        let goal = self.goal(fleet, tick, (at.x, at.y), random);
        let wanted = heading_of(goal.0 - at.x, goal.1 - at.y);
        let off = (wanted - i32::from(at.pose >> 6) + 512).rem_euclid(1_024) - 512;
        let thrust = if fleet == Fleet::Spread { CRUISE_THRUST } else { FULL_THRUST };
        Control {
            turn: i8::try_from((off / 3).clamp(-TURN_MAX, TURN_MAX)).unwrap_or(0),
            thrust: if off.abs() < AHEAD { thrust } else { 0 },
            fire: self.ship.slot.is_multiple_of(4),
        }
    }

    /// Where to fly: another place when it is there.
    fn goal(&mut self, fleet: Fleet, tick: u32, at: (i32, i32), random: &mut Stream) -> (i32, i32) {
        let middle = middle(fleet, (self.ship.slot, tick), self.side);
        let inside = |from: i32, by: i32| (from + by).clamp(0, self.side - 1);
        let of = |(x, y): (i32, i32)| match middle {
            Some(middle) => (inside(middle.0, x), inside(middle.1, y)),
            None => (x, y),
        };
        if let Some(goal) = self.goal {
            let (x, y) = of(goal);
            if (x - at.0).abs().max((y - at.1).abs()) > NEAR {
                return (x, y);
            }
        }
        let mut below = |end: i32| i32::try_from(random.below(end.unsigned_abs())).unwrap_or(0);
        let goal = match (middle, fleet) {
            (Some(_), _) => (below(2 * PLACE) - PLACE, below(2 * PLACE) - PLACE),
            (None, Fleet::Fast) => edge(below(4), below(self.side), self.side),
            (None, _) => (below(self.side), below(self.side)),
        };
        self.goal = Some(goal);
        of(goal)
    }
}

/// A place on one of the four edges of the world.
fn edge(which: i32, along: i32, side: i32) -> (i32, i32) {
    match which {
        0 => (0, along),
        1 => (side - 1, along),
        2 => (along, 0),
        _ => (along, side - 1),
    }
}

/// The middle of where a ship's fleet is to be in a tick; none if each flies where it likes. It follows from
/// the tick, so that pilots of all processes agree.
fn middle(fleet: Fleet, (slot, tick): (u32, u32), side: i32) -> Option<(i32, i32)> {
    match fleet {
        Fleet::Spread | Fleet::Fast => None,
        Fleet::Crowd => Some((side / 2, side / 2)),
        Fleet::Converge => {
            // From an eighth of the world to seven eighths, and back; the other fleet against it.
            let way = i64::from(side) * 3 / 4;
            let gone = i64::from(tick) * i64::from(PLACE_SPEED) % (2 * way);
            let along = if gone < way { gone } else { 2 * way - gone };
            // Whether a ship shoots is told by the bits below.
            let along = if slot >> 2 & 1 == 0 { along } else { way - along };
            let x = i32::try_from(i64::from(side) / 8 + along).unwrap_or(side / 2);
            Some((x, side / 2))
        }
        Fleet::Circle => {
            let radius = f64::from(side) * 3.0 / 8.0;
            let angle = f64::from(tick) * f64::from(PLACE_SPEED) / radius;
            Some((side / 2 + whole(radius * angle.cos()), side / 2 + whole(radius * angle.sin())))
        }
    }
}

/// A distance, in whole units.
#[expect(clippy::cast_possible_truncation, reason = "within a world, whose side fits")]
fn whole(units: f64) -> i32 {
    units as i32
}

/// A direction in 1,024ths of a full turn to the left of east.
#[expect(clippy::cast_possible_truncation, reason = "from -512 to 512")]
fn heading_of(dx: i32, dy: i32) -> i32 {
    (f64::from(dy).atan2(f64::from(dx)) / std::f64::consts::TAU * 1_024.0) as i32
}

#[cfg(test)]
mod tests {
    use world::{EntityId, Welcome};

    use super::{Pilot, UNDER_WAY_MAX, UNITS, edge, heading_of, middle, whole};
    use crate::load::scenario::Fleet;
    use crate::measure::arrivals::Stream;

    /// 51 seconds at 20 Hz: what is given up then has taken at least so long.
    #[test]
    fn a_control_is_on_its_way_for_most_of_a_minute_and_given_up_with_its_times() {
        let ship = EntityId { slot: 0, generation: 0 };
        let mut pilot = Pilot::new(&Welcome { ship, bins: 8, tick_rate_hz: 20 });
        let mut random = Stream::new(1, 1);
        let mut send = |number: u64| {
            let intended_ns = number * 50_000_000;
            let times_ns = (intended_ns + 1_000, intended_ns);
            pilot.control(Fleet::Spread, &mut random, times_ns).1
        };
        let kept = UNDER_WAY_MAX as u64;
        assert!(kept > 20 * 50);
        assert!((0..kept).all(|number| send(number).is_none()));
        let given_up = send(kept).unwrap();
        assert_eq!(given_up.times_ns(7_000), (6_000, 7_000), "the first one");
        assert_eq!(pilot.under_way().count(), UNDER_WAY_MAX);
    }

    #[test]
    fn headings_are_to_the_left_of_east() {
        assert_eq!([heading_of(9, 0), heading_of(0, 9), heading_of(0, -9)], [0, 256, -256]);
    }

    #[test]
    fn two_fleets_meet_in_the_middle_and_go_to_and_fro_within_the_world() {
        let side = 1_024 * UNITS;
        let x_of = |slot, tick| middle(Fleet::Converge, (slot, tick), side).unwrap().0;
        let (mut least, mut most, mut nearest) = (side, 0, side);
        for tick in 0..10_000 {
            let (one, other) = (x_of(3, tick), x_of(4, tick));
            assert!((one + other - side).abs() <= 2, "{one} and {other} are not opposite");
            (least, most) = (least.min(one), most.max(one));
            nearest = nearest.min((one - other).abs());
        }
        assert!(least >= side / 8 && most <= side / 8 * 7, "{least}..{most}");
        assert!(most - least > side / 10 * 7 && nearest < 4 * UNITS, "{least}..{most}, {nearest}");
        assert_eq!(middle(Fleet::Crowd, (0, 7), side), Some((side / 2, side / 2)));
        assert_eq!([Fleet::Spread, Fleet::Fast].map(|it| middle(it, (0, 7), side)), [None, None]);
    }

    #[test]
    fn a_crowd_goes_round_the_middle_through_all_quarters() {
        let side = 1_024 * UNITS;
        let circle = |tick| middle(Fleet::Circle, (3, tick), side).unwrap();
        let corner = side / 2 + whole(f64::from(side) * 0.375 * 0.5_f64.sqrt());
        let quarters: std::collections::BTreeSet<_> = (0..3_000)
            .map(circle)
            .inspect(|at| {
                assert!([at.0, at.1].iter().all(|it| (side / 8..=side / 8 * 7).contains(it)));
            })
            .map(|(x, y)| (x > side / 2, y > side / 2))
            .collect();
        assert_eq!(quarters.len(), 4, "in 150 seconds it is in all quarters");
        assert!(
            (0..3_000)
                .map(circle)
                .any(|(x, y)| (x - corner).abs().max((y - corner).abs()) < 3 * UNITS)
        );
    }

    #[test]
    fn fast_ships_fly_from_edge_to_edge() {
        let side = 512 * UNITS;
        let at_edge = |(x, y): (i32, i32)| [x, y].iter().any(|it| *it == 0 || *it == side - 1);
        assert!((0..4).all(|which| at_edge(edge(which, 77, side))));
    }
}
