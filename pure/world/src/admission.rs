//! Who waits to be let into a zone: who came first is let in first, and each is told its place as it moves up.
//!
//! The line is bounded; whether somebody may wait at all, by user or address, is the caller's to know, who
//! counts their ships too. To say a place costs a message for each who waits, and all move up when one is let
//! in: so each is told once a second, and only if its place has changed, a part of the line in each tick.
//!
//! Data in: who comes and goes. Out: places. What is deliberately not here: when the zone has room, and
//! sessions.

use std::collections::BTreeMap;

use crate::packet::Place;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    who: u128,
    /// The place that it was told last, from 1.
    told: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Admission {
    waiting_max: u32,
    /// By the number that each drew.
    line: BTreeMap<u64, Waiting>,
    drawn: BTreeMap<u128, u64>,
    drawn_count: u64,
}

impl Admission {
    /// Nobody waits yet, and no more than `waiting_max` ever do.
    #[must_use]
    pub fn new(waiting_max: u32) -> Self {
        Self { waiting_max, line: BTreeMap::new(), drawn: BTreeMap::new(), drawn_count: 0 }
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.line.len()).unwrap_or(u32::MAX)
    }

    /// A newcomer, by a number that the caller knows it by. Gives its place; none if the line is full.
    pub fn come(&mut self, who: u128) -> Option<Place> {
        if self.waiting() >= self.waiting_max {
            return None;
        }
        let place = self.waiting() + 1;
        let before = self.drawn.insert(who, self.drawn_count);
        assert!(before.is_none(), "{who:x} waits twice");
        self.line.insert(self.drawn_count, Waiting { who, told: place });
        self.drawn_count += 1;
        Some(Place { place, waiting: place })
    }

    /// A newcomer waits no more. Tells whether it did.
    pub fn leave(&mut self, who: u128) -> bool {
        let number = self.drawn.remove(&who);
        number.is_some_and(|number| self.line.remove(&number).is_some())
    }

    /// Who is to be let in next.
    #[must_use]
    pub fn first(&self) -> Option<u128> {
        self.line.first_key_value().map(|(_, waiting)| waiting.who)
    }

    /// Who is to be told a new place in a tick, of which a second has so many.
    pub fn moved_up(
        &mut self,
        tick: u32,
        tick_rate_hz: u8,
    ) -> impl Iterator<Item = (u128, Place)> + '_ {
        let (all, share) = (self.waiting(), u64::from(tick_rate_hz.max(1)));
        let is_due = move |number: u64| number % share == u64::from(tick) % share;
        (1..).zip(&mut self.line).filter_map(move |(place, (number, waiting))| {
            if place == waiting.told || !is_due(*number) {
                return None;
            }
            waiting.told = place;
            Some((waiting.who, Place { place, waiting: all }))
        })
    }
}
