//! Who comes into the zone, waits to, and goes.
//!
//! Data in: sessions. Data out: welcomes, places and refusals. What is deliberately not here: sessions that
//! the match has as its members (`room::zone`).

use uuid::Uuid;
use world::{EntityId, Score, Slots, Welcome};

use super::rules::{Arriving, Landing};
use super::{Home, LET_IN_PER_TICK, Packet, Pilot};
use crate::counts::one_less;
use crate::mail::Member;
use crate::settings::WorldSettings;
use crate::zone::refusal::Refusal;

/// What becomes of a session that wants a ship.
enum Entry {
    /// It has one.
    Flies(Welcome),
    /// It gets one when a rule has said where.
    Arrives,
    /// There is no room for it.
    Full,
}

impl Home {
    /// A session gets a ship, or a place in the line of those who wait for one; gives the first packet for its
    /// client, a welcome or a place. None if it is to hear of its ship when a rule has said where.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub(crate) fn enter(
        &mut self,
        member: &Member,
        address: Option<u128>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let (user_id, session_id) = (member.presence.user_id, member.presence.session_id);
        let is_met = |count: Option<&u32>, max: u32| max > 0 && count.is_some_and(|it| *it >= max);
        if is_met(self.of_user.get(&user_id), self.settings.ships_per_user) {
            return Err(Refusal::User);
        }
        let of_address = address.and_then(|address| self.of_address.get(&address));
        if is_met(of_address, self.settings.ships_per_address) {
            return Err(Refusal::Address);
        }
        // Whose ship is there waits for nobody else's place.
        let may_fly = self.waiting.is_empty() || self.away.contains_key(&user_id);
        let entry = if may_fly { self.fly(member, address) } else { Entry::Full };
        let packet = match entry {
            Entry::Flies(welcome) => Some(welcome.encode()),
            Entry::Arrives => None,
            Entry::Full => {
                let is_closed = self.overload.report().is_closed;
                let refusal = if is_closed { Refusal::Closed } else { Refusal::Full };
                let place = self.admission.come(session_id.as_u128()).ok_or(refusal)?;
                self.waiting.insert(session_id, (member.clone(), address));
                Some(place.encode())
            }
        };
        *self.of_user.entry(user_id).or_default() += 1;
        address.into_iter().for_each(|it| *self.of_address.entry(it).or_default() += 1);
        Ok(packet)
    }

    /// A session gets a ship, if the zone has room.
    fn fly(&mut self, member: &Member, address: Option<u128>) -> Entry {
        if self.overload.report().is_closed {
            return Entry::Full;
        }
        let presence = &member.presence;
        if let Some(ship) = self.come_back(presence.user_id) {
            self.packets.push(self.score_packet(member, ship));
            return Entry::Flies(self.steer(member, address, ship));
        }
        let there = self.pilots.len() + self.arriving.len() + self.away();
        if there >= self.settings.players_max as usize {
            return Entry::Full;
        }
        let landing = Landing::new(self.place());
        // As good as now.
        let now_ns = self.due.mono_ns;
        if self.rules.spawn.push(now_ns, (presence.clone(), landing)).is_ok() {
            let arriving = Arriving { member: member.clone(), address };
            self.arriving.insert(presence.session_id, arriving);
            return Entry::Arrives;
        }
        let ship = self.ship(landing);
        ship.map_or(Entry::Full, |ship| Entry::Flies(self.steer(member, address, ship)))
    }

    /// A ship for a pilot; none if the zone has no slot.
    fn ship(&mut self, Landing { at, heading, health }: Landing) -> Option<EntityId> {
        let ship = self.director.spawn_with(at, heading, health)?;
        self.controls.join(ship);
        self.saving.come(ship, Score::default());
        Some(ship)
    }

    /// Pilots of whom it is known where they come do so. Who has left meanwhile is left out; for whom there is no
    /// slot it is tried again in the next tick.
    pub(super) fn land(&mut self) {
        for (session_id, landing) in std::mem::take(&mut self.landings) {
            let Some(arriving) = self.arriving.get(&session_id).cloned() else { continue };
            let Some(ship) = self.ship(landing) else {
                self.landings.push((session_id, landing));
                continue;
            };
            self.arriving.remove(&session_id);
            let Arriving { member, address } = arriving;
            let welcome = self.steer(&member, address, ship).encode();
            self.packets.push(Packet { to: member, bytes: welcome });
        }
    }

    /// A session steers a ship from now on.
    fn steer(&mut self, member: &Member, address: Option<u128>, ship: EntityId) -> Welcome {
        let rooms = (0..).zip(&mut self.audiences);
        let Some((room, audience)) = rooms.min_by_key(|(_, audience)| audience.viewers) else {
            unreachable!("a node without rooms")
        };
        audience.viewers += 1;
        audience.comes.push((member.clone(), ship));
        let pilot = Pilot { member: member.clone(), ship, address, room, inputs: 0 };
        self.sessions.insert(ship, member.presence.session_id);
        let before = self.pilots.insert(member.presence.session_id, pilot);
        assert!(before.is_none(), "a session enters twice");
        let WorldSettings { bins, tick_rate_hz, .. } = self.settings;
        Welcome { ship, bins, tick_rate_hz }
    }

    /// The ship that a user had before a restart, if it has not come back to it.
    fn come_back(&mut self, user_id: Uuid) -> Option<EntityId> {
        let ships = self.away.get_mut(&user_id)?;
        let ship = ships.pop_front();
        if ships.is_empty() {
            self.away.remove(&user_id);
        }
        ship
    }

    /// Ships whose pilots have not come back in time go.
    pub(super) fn give_up_away(&mut self) {
        if self.director.tick() < self.away_until {
            return;
        }
        for ship in std::mem::take(&mut self.away).into_values().flatten() {
            self.controls.leave(ship);
            self.director.leave(ship);
            self.saving.leave(ship);
        }
    }

    /// Who waits gets a ship if there is room by now; the others are told when they have moved up.
    pub(super) fn let_in(&mut self) {
        for _ in 0..LET_IN_PER_TICK {
            let Some(who) = self.admission.first() else { break };
            let session_id = Uuid::from_u128(who);
            let Some((member, address)) = self.waiting.get(&session_id).cloned() else {
                unreachable!("{session_id} has a place in the line, and does not wait")
            };
            let welcome = match self.fly(&member, address) {
                Entry::Flies(welcome) => Some(welcome.encode()),
                Entry::Arrives => None,
                Entry::Full => break,
            };
            self.admission.leave(who);
            self.waiting.remove(&session_id);
            self.packets.extend(welcome.map(|bytes| Packet { to: member, bytes }));
        }
        let moved = self.admission.moved_up(self.director.tick(), self.settings.tick_rate_hz);
        for (who, place) in moved {
            let waiting = self.waiting.get(&Uuid::from_u128(who));
            let to = waiting.map(|(member, _)| member.clone());
            self.packets.extend(to.map(|to| Packet { to, bytes: place.encode() }));
        }
    }

    /// A session waits no more.
    fn give_up(&mut self, session_id: Uuid) {
        if let Some(Arriving { member, address }) = self.arriving.remove(&session_id) {
            // It counts on as one whose ship has gone: whoever comes and leaves again and again fills the rule's line.
            return self.rest(member.presence.user_id, address);
        }
        let Some((member, address)) = self.waiting.remove(&session_id) else { return };
        let had_place = self.admission.leave(session_id.as_u128());
        assert!(had_place, "{session_id} waits without a place");
        // It had no slot that would have to rest.
        self.uncount(member.presence.user_id, address);
    }

    /// A session is gone, and its ship goes with the next tick, or it waits no more. `wants`: it has left the
    /// match, and did not lose its socket. While the server stops, the ship of one that did waits for its pilot.
    pub(crate) fn leave(&mut self, session_id: Uuid, wants: bool) {
        let Some(pilot) = self.pilots.remove(&session_id) else {
            return self.give_up(session_id);
        };
        self.sessions.remove(&pilot.ship);
        let user_id = pilot.member.presence.user_id;
        if self.saving.is_stopping() && !wants {
            self.away.entry(user_id).or_default().push_back(pilot.ship);
            self.uncount(user_id, pilot.address);
        } else {
            self.controls.leave(pilot.ship);
            self.director.leave(pilot.ship);
            self.saving.leave(pilot.ship);
            self.rest(user_id, pilot.address);
        }
        let audience = &mut self.audiences[usize::from(pilot.room)];
        audience.viewers -= 1;
        audience.acks.remove(&session_id);
        let known = audience.comes.len();
        audience.comes.retain(|(member, _)| member.presence.session_id != session_id);
        if audience.comes.len() == known {
            audience.goes.push(session_id);
        }
    }

    /// A ship that goes counts for its user and address as long as its slot rests.
    fn rest(&mut self, user_id: Uuid, address: Option<u128>) {
        self.resting.push_back((self.director.tick() + Slots::REST_TICKS, user_id, address));
    }

    /// Ships that went long ago count for nobody any more.
    pub(super) fn forget_gone(&mut self) {
        let tick = self.director.tick();
        while let Some((_, user_id, address)) = self.resting.pop_front_if(|it| it.0 <= tick) {
            self.uncount(user_id, address);
        }
    }

    /// One session less of a user and an address.
    fn uncount(&mut self, user_id: Uuid, address: Option<u128>) {
        one_less(&mut self.of_user, &user_id);
        address.into_iter().for_each(|address| {
            one_less(&mut self.of_address, &address);
        });
    }
}
