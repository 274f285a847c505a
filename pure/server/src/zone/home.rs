//! The zone's home, on one room: who is in it and who waits to be, when its ticks are due, and what cells
//! and viewers of all rooms are told.
//!
//! A tick is released when it is due and all cells have done the one before. Ticks are never skipped: who
//! is late makes time slower, and what is done against that is `world::Overload`'s. A room whose viewers
//! are still being told of a tick is not shown the next one but the newest when it is ready, so that what
//! waits for it does not grow. What pilots want goes to the cell that has the ship in the next tick, which
//! follows from where the ship was and from the tree: so nobody can feel where borders are.
//!
//! Data in: sessions, their packets, reports of cells and viewers. Data out: mail for rooms, and packets for
//! single clients when they are let in or move up, or all of them. Who comes and goes is in `pilots`, what
//! becomes of who was shot down in `kills`. What is deliberately not here: frames and streams
//! (`room::zone`), what ships do (`world`).

mod kills;
mod load;
mod pilots;
mod rules;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use event::{Now, Random};
use game::match_id::MatchId;
use uuid::Uuid;
use world::{
    Admission, Bounds, CellId, Change, Control, Controls, Director, Drone, Entity, EntityId, Event,
    FromClient, Interest, Ledger, Numbered, Orders, Overload, Pilot as SavedPilot, Published,
    Rates, Resend, Saved, Settings, Tree, mix, owner,
};

use self::load::Audience;
use self::rules::{Arriving, Landings, Rules};
use super::feed::Feed;
use super::refusal::{INPUTS_PER_TICK_MAX, Unheard};
use super::saving::Saving;
use super::viewers::Packet;
use crate::mail::{Member, RoomIndex, ZoneAck, ZoneDone, ZoneMail, ZoneSave, ZoneShow, ZoneTick};
use crate::settings::WorldSettings;
use crate::stats::{CellShown, Counter, RoomStats};

/// Time goes no slower than this, in thousandths.
const TAU_FLOOR_PERMILLE: u16 = 100;
/// A tick that begins later than this is counted as late, in nanoseconds.
const LATE_NS: u64 = 5_000_000;
/// Who waits is let in so many a tick, so that a zone that opens again is not flooded.
const LET_IN_PER_TICK: usize = 4;
/// The cell with which a zone begins.
const FIRST: CellId = CellId(0);
/// A bot changes its mind in one of so many ticks.
const BOT_PATIENCE_TICKS: u32 = 20;
/// Behind half of all ticks that can be numbered, who runs the server is told each so many that the zone ends
/// some day, unless the server is started again: then its ticks are counted from few.
const REMINDER_TICKS: u32 = 1 << 20;

struct Pilot {
    member: Member,
    ship: EntityId,
    /// As addresses are counted; none of who is not.
    address: Option<u128>,
    /// The room that writes its packets.
    room: RoomIndex,
    /// Packets since the last tick.
    inputs: u8,
}

struct Bot {
    ship: EntityId,
    control: Numbered,
}

/// A tick that cells are computing.
struct Open {
    tree: Arc<Tree>,
    /// How fast time goes in it.
    tau_permille: u16,
    cells_left: usize,
    published: Vec<Published>,
    /// What each room needed.
    cost_ns: Vec<u64>,
}

/// See the module.
pub(crate) struct Home {
    /// The match.
    pub(crate) id: MatchId,
    me: RoomIndex,
    settings: WorldSettings,
    director: Director,
    ledger: Ledger,
    controls: Controls,
    overload: Overload,
    /// Where each cell lives.
    rooms: BTreeMap<CellId, RoomIndex>,
    /// What is in the one cell with which the zone begins, until it does.
    first: Option<Vec<Entity>>,
    saving: Saving,
    /// Ships of users who have not come back after a restart, in the order in which they get them, and the tick
    /// in which they go.
    away: BTreeMap<Uuid, VecDeque<EntityId>>,
    away_until: u32,
    pilots: BTreeMap<Uuid, Pilot>,
    /// Whose ship each one is.
    sessions: BTreeMap<EntityId, Uuid>,
    /// Who comes, and whose rule has said where.
    arriving: BTreeMap<Uuid, Arriving>,
    landings: Landings,
    rules: Rules,
    /// What is about to be told to all who fly, and what is to be by now.
    feed: Feed,
    news: Option<Vec<u8>>,
    admission: Admission,
    /// Who waits in line, and its address as addresses are counted.
    waiting: BTreeMap<Uuid, (Member, Option<u128>)>,
    /// What is to be told to single clients: that they are let in, or their places in the line.
    packets: Vec<Packet>,
    /// Sessions of each user and address: those that wait, and those that have gone and whose slots rest:
    /// else whoever joins and leaves again and again would use up all slots.
    of_user: BTreeMap<Uuid, u32>,
    of_address: BTreeMap<u128, u32>,
    /// Whose ships have gone, and the tick from which they do not count.
    resting: VecDeque<(u32, Uuid, Option<u128>)>,
    bots: Vec<Bot>,
    random: Random,
    /// What ships are wanted to do, and no cell has been told yet.
    wishes: Vec<Resend>,
    audiences: Vec<Audience>,
    open: Option<Open>,
    /// What cells showed in the newest tick that is done.
    newest: Option<Arc<[Published]>>,
    due: Now,
    /// When load was judged last.
    judged_ns: u64,
    /// Whether a tick is due that cells were not ready for.
    is_owed: bool,
}

impl Home {
    /// A zone with its bots and no players, whose first tick is due one period from now: a new one, or one
    /// that goes on from what was saved. `rooms`: how many rooms the node has; `me`: which of them this is.
    pub(crate) fn new(
        now: Now,
        id: MatchId,
        (me, rooms): (RoomIndex, RoomIndex),
        (settings, saved): (WorldSettings, Option<Saved>),
    ) -> Self {
        let tick_rate_hz = u32::from(settings.tick_rate_hz);
        let period_ns = 1_000_000_000 / u64::from(tick_rate_hz);
        let budget_ns = period_ns * u64::from(settings.cells_permille) / 1_000;
        let rates = Rates { tick_rate_hz, budget_ns, rooms };
        let bounds = Bounds { fanouts_max: 1, tau_floor_permille: TAU_FLOOR_PERMILLE };
        let of_zone = Settings { bins: settings.bins, rates, ahead_ticks: 1 };
        let mut home = Self {
            id,
            me,
            director: Director::new(of_zone),
            ledger: Ledger::default(),
            controls: Controls::default(),
            overload: Overload::new(bounds),
            rooms: BTreeMap::from([(FIRST, 0)]),
            first: Some(Vec::new()),
            saving: Saving::new(me, settings.snapshot_interval_ms),
            away: BTreeMap::new(),
            away_until: 0,
            pilots: BTreeMap::new(),
            sessions: BTreeMap::new(),
            arriving: BTreeMap::new(),
            landings: Landings::new(),
            rules: Rules::new(settings.rules_wait_ms),
            feed: Feed::default(),
            news: None,
            admission: Admission::new(settings.waiting_max),
            waiting: BTreeMap::new(),
            packets: Vec::new(),
            of_user: BTreeMap::new(),
            of_address: BTreeMap::new(),
            resting: VecDeque::new(),
            bots: Vec::new(),
            random: Random::from_number(settings.seed),
            wishes: Vec::new(),
            audiences: (0..rooms).map(|_| Audience::default()).collect(),
            open: None,
            newest: None,
            due: Now { mono_ns: now.mono_ns + period_ns, ..now },
            judged_ns: now.mono_ns,
            is_owed: false,
            settings,
        };
        if let Some(saved) = saved {
            home.restore(saved, of_zone);
        }
        if home.settings.is_partition_static {
            home.director.fix_cells();
        }
        while home.bots.len() < home.settings.bots as usize {
            let Some(ship) = home.spawn() else { break };
            let control = Numbered { seq: 0, tick: 0, control: Control::default() };
            home.bots.push(Bot { ship, control });
        }
        home
    }

    /// Goes on from what was saved. Ships of players fly on as nobody steers them, until their pilots come back.
    fn restore(&mut self, saved: Saved, of_zone: Settings) {
        let Saved { tick, mut entities, pilots, drones, slots, bins } = saved;
        let ships: BTreeSet<EntityId> = pilots.iter().map(|pilot| pilot.ship).collect();
        for entity in entities.iter_mut().filter(|entity| ships.contains(&entity.id)) {
            // Whoever comes back counts its controls from 1.
            (entity.control, entity.control_seq) = (Control::default(), 0);
            entity.waiting.clear();
        }
        self.director = Director::restored(of_zone, tick, slots);
        self.ledger = Ledger::of(entities.iter().map(|entity| entity.id));
        entities.iter().for_each(|entity| self.controls.join(entity.id));
        let published = Saved::published(bins, tick, (FIRST, &entities));
        self.controls.published(&published, &mut self.wishes);
        self.newest = Some(Arc::from([published]));
        self.first = Some(entities);
        self.away_until = tick + self.settings.return_s * u32::from(self.settings.tick_rate_hz);
        for pilot in pilots {
            self.saving.come(pilot.ship, pilot.score);
            self.away.entry(Uuid::from_u128(pilot.who)).or_default().push_back(pilot.ship);
        }
        for Drone { ship, control_seq } in drones {
            if self.bots.len() == self.settings.bots as usize {
                self.controls.leave(ship);
                self.director.leave(ship);
                continue;
            }
            let control = Numbered { seq: control_seq, tick: 0, control: Control::default() };
            self.bots.push(Bot { ship, control });
        }
    }

    /// When the next tick is due; none while one is that cells are not ready for.
    pub(crate) fn due(&self) -> Option<Now> {
        (!self.is_owed).then_some(self.due)
    }

    /// How many bots fly.
    pub(crate) fn bots(&self) -> usize {
        self.bots.len()
    }

    /// How many ships wait for their pilots to come back.
    pub(crate) fn away(&self) -> usize {
        self.away.values().map(VecDeque::len).sum()
    }

    /// A ship somewhere in the world.
    fn spawn(&mut self) -> Option<EntityId> {
        let at = self.place();
        let ship = self.director.spawn(at)?;
        self.controls.join(ship);
        Some(ship)
    }

    /// Sessions that steer a ship, and that wait for one, in line or for what a rule says.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.pilots.len() as u64, (self.waiting.len() + self.arriving.len()) as u64)
    }

    /// What is to be told to single clients by now.
    pub(crate) fn take_packets(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.packets)
    }

    fn score_packet(&self, to: &Member, ship: EntityId) -> Packet {
        Packet { to: to.clone(), bytes: self.saving.kept_score(ship).encode() }
    }

    /// Pilots of these ships are told their scores.
    fn tell_scores(&mut self, ships: &BTreeSet<EntityId>) {
        if ships.is_empty() {
            return;
        }
        let told = self.pilots.values().filter(|pilot| ships.contains(&pilot.ship));
        let packets = told.map(|pilot| self.score_packet(&pilot.member, pilot.ship));
        self.packets.extend(packets.collect::<Vec<_>>());
    }

    /// What is to be kept, for the batcher.
    pub(crate) fn take_save(&mut self) -> Option<ZoneSave> {
        self.saving.take_save()
    }

    /// What was to be kept is, or could not be.
    pub(crate) fn saved(&mut self, write: u64, is_kept: bool, stats: &RoomStats) {
        let Some(ships) = self.saving.written(write, is_kept) else {
            return stats.late_answers.up();
        };
        if !is_kept {
            stats.zone_saves_failed.up();
        }
        self.tell_scores(&ships);
    }

    /// A tick is done: what of it is to be kept is written.
    fn save(&mut self, now: Now, open: &Open, stats: &RoomStats) {
        let unwritten = self.saving.unwritten();
        self.tell_scores(&unwritten);
        let tick = open.published.first().map_or(0, |published| published.tick);
        let Some(pieces) = self.saving.pieces() else {
            return self.saving.write_events(now, tick);
        };
        let pilot = |who: Uuid, ship| SavedPilot {
            who: who.as_u128(),
            ship,
            score: self.saving.score(ship),
        };
        let flying = self.pilots.values().map(|it| pilot(it.member.presence.user_id, it.ship));
        let away =
            self.away.iter().flat_map(|(who, ships)| ships.iter().map(|ship| pilot(*who, *ship)));
        let drone = |bot: &Bot| Drone { ship: bot.ship, control_seq: bot.control.seq };
        let saved = Saved {
            bins: self.settings.bins,
            tick,
            slots: self.director.slots(),
            entities: Vec::new(),
            pilots: flying.chain(away).collect(),
            drones: self.bots.iter().map(drone).collect(),
        };
        let part = saved.snapshot(&pieces);
        stats.zone_snapshots.up();
        stats.zone_snapshot_bytes.set(part.len() as u64);
        self.saving.write(now, tick, part);
    }

    /// Notes who comes and goes with a tick.
    fn note(&mut self, orders: &Orders) {
        if !orders.spawns.is_empty() {
            let users = self.pilots.values().map(|it| (it.ship, it.member.presence.user_id));
            let users: BTreeMap<EntityId, Uuid> = users.collect();
            for &ship in &*orders.spawns {
                let who = users.get(&ship.id);
                let came = who.map(|who| Event::Came { who: who.as_u128(), ship });
                came.into_iter().for_each(|came| self.saving.note(came));
            }
        }
        orders.leaves.iter().for_each(|ship| self.saving.note(Event::Left { ship: *ship }));
    }

    /// The server stops: the next tick is due at once, and saved. Who is away stays so.
    pub(crate) fn stop(&mut self, now: Now) {
        self.saving.stop();
        self.away_until = u32::MAX;
        self.due.mono_ns = self.due.mono_ns.min(now.mono_ns);
    }

    /// Whether the server may end: the zone as it was when it was told to is on the disk.
    pub(crate) fn is_kept(&self) -> bool {
        self.saving.is_kept()
    }

    /// What a client has sent.
    ///
    /// # Errors
    /// [`Unheard`]; nothing has changed then.
    pub(crate) fn hear(
        &mut self,
        session_id: Uuid,
        bytes: &[u8],
        by_datagram: bool,
    ) -> Result<(), Unheard> {
        let pilot = self.pilots.get_mut(&session_id).ok_or(Unheard::NoShip)?;
        if pilot.inputs == INPUTS_PER_TICK_MAX {
            return Err(Unheard::TooMany);
        }
        pilot.inputs += 1;
        let packet = FromClient::decode(bytes)?;
        if let Some(ticks) = packet.ack {
            let acks = &mut self.audiences[usize::from(pilot.room)].acks;
            // Datagrams overtake each other.
            if acks.get(&session_id).is_none_or(|known| known.ticks.0 <= ticks.0) {
                acks.insert(session_id, ZoneAck { ticks, by_datagram });
            }
        }
        let tick = self.director.tick();
        for (seq, control) in (packet.first_seq..=u32::MAX).zip(packet.controls) {
            let wish = Numbered { seq, tick, control };
            self.wishes.extend(self.controls.steer(pilot.ship, wish));
        }
        Ok(())
    }

    /// The next tick is due.
    pub(crate) fn tick(
        &mut self,
        now: Now,
        stats: &RoomStats,
        out: &mut Vec<(RoomIndex, ZoneMail)>,
    ) {
        self.is_owed = true;
        if self.open.is_some() {
            stats.zone_ticks_held.up();
        }
        self.release(now, stats, out);
    }

    /// Lets cells compute the tick that is due, if they are ready for it.
    fn release(&mut self, now: Now, stats: &RoomStats, out: &mut Vec<(RoomIndex, ZoneMail)>) {
        if !self.is_owed || self.open.is_some() || self.is_at_its_end() {
            return;
        }
        self.is_owed = false;
        let late_ns = now.mono_ns.saturating_sub(self.due.mono_ns);
        stats.zone.late.note(late_ns / 1_000);
        if late_ns > LATE_NS {
            stats.zone_ticks_late.up();
        }
        stats.zone_ticks.up();
        self.forget_gone();
        self.give_up_away();
        self.lose_patience(now, stats);
        self.land();
        self.let_in();
        self.director.let_hits_wait(self.rules.hit.is_on(now.mono_ns));
        self.steer_bots();
        if let Some(write) = self.saving.lost(now) {
            tracing::warn!("what was to be saved of the zone was lost on its way, or is late");
            self.saved(write, false, stats);
        }
        if self.saving.begin(now) {
            self.director.save();
        }
        let Some(released) = self.director.release() else {
            unreachable!("cells are ready, and nothing is released")
        };
        let (orders, tree) = (released.orders, released.tree);
        let comes: Vec<EntityId> = orders.spawns.iter().map(|ship| ship.id).collect();
        let speed = (orders.tick, orders.tau_permille);
        if let Err(fault) = self.ledger.order(speed, &tree, &comes, &orders.leaves) {
            stats.zone_faults.up();
            tracing::error!("the zone's books are wrong: {fault}");
        }
        self.note(&orders);
        released.change.into_iter().for_each(|change| counter_of(change, stats).up());
        self.rooms.extend(released.starts);
        let next = &orders.next;
        self.rooms.retain(|id, _| tree.area(*id).is_some() || next.area(*id).is_some());
        self.open = Some(Open {
            tree: tree.clone(),
            tau_permille: orders.tau_permille,
            cells_left: tree.cells().len(),
            published: Vec::new(),
            cost_ns: vec![0; self.audiences.len()],
        });
        self.pilots.values_mut().for_each(|pilot| pilot.inputs = 0);
        let starts = released.starts.map(|(id, _)| id);
        let rooms = Arc::new(self.rooms.clone());
        for (room, controls) in self.route(&tree) {
            let is_first = self.rooms.get(&FIRST) == Some(&room);
            let tick = ZoneTick {
                begins: if is_first { self.first.take() } else { None },
                home: self.me,
                orders: orders.clone(),
                tree: tree.clone(),
                rooms: rooms.clone(),
                starts,
                controls,
            };
            out.push((room, ZoneMail::Tick(Box::new(tick))));
        }
        self.due.mono_ns += self.tick_ns(orders.tau_permille);
        if self.due.mono_ns < now.mono_ns {
            stats.zone_ticks_slowed.up();
            self.due.mono_ns = now.mono_ns;
        }
    }

    /// Whether no tick can be numbered any more: the zone stands still then, and is kept as it is. That is said
    /// for long before.
    fn is_at_its_end(&self) -> bool {
        let tick = self.director.tick();
        if tick > Saved::LAST_TICK / 2 && tick.is_multiple_of(REMINDER_TICKS) {
            let left = Saved::LAST_TICK.saturating_sub(tick);
            let hours = left / (3_600 * u32::from(self.settings.tick_rate_hz));
            tracing::warn!(
                tick,
                "the zone stands still in {hours} hours, unless the server is started again before"
            );
        }
        tick > Saved::LAST_TICK
    }

    /// What cells of each room are told that ships are to do in the next tick, whose tree this is.
    fn route(&mut self, tree: &Tree) -> BTreeMap<RoomIndex, Vec<Resend>> {
        let mut wishes: BTreeMap<RoomIndex, Vec<Resend>> =
            self.rooms.values().map(|room| (*room, Vec::new())).collect();
        let newest = self.newest.iter().flat_map(|newest| newest.iter());
        let shown: BTreeMap<CellId, &Published> = newest.map(|it| (it.cell, it)).collect();
        for wish in self.wishes.drain(..) {
            // One that an older cell of the ship was to be told has been said to who shows the ship now.
            let rows = shown.get(&wish.to).map_or(&[][..], |published| &published.rows);
            let Ok(index) = rows.binary_search_by_key(&wish.id, |row| row.id) else { continue };
            let to = owner(tree, wish.to, rows[index].at);
            let room = self.rooms.get(&to);
            let of_room = room.and_then(|room| wishes.get_mut(room));
            of_room.into_iter().for_each(|of_room| of_room.push(Resend { to, ..wish }));
        }
        wishes
    }

    /// Bots want something else now and then: they fly about and shoot.
    fn steer_bots(&mut self) {
        let tick = self.director.tick();
        // Anew in each tick, so that a zone that goes on after a restart draws the same.
        self.random = Random::from_number(mix(self.settings.seed ^ u64::from(tick) << 32));
        for bot in &mut self.bots {
            if self.random.below(BOT_PATIENCE_TICKS) > 0 {
                continue;
            }
            let turn = i8::try_from(self.random.below(17)).unwrap_or(0) - 8;
            let fire = self.random.below(4) == 0;
            let control = Control { turn, thrust: 2, fire };
            bot.control = Numbered { seq: bot.control.seq + 1, tick, control };
            self.wishes.extend(self.controls.steer(bot.ship, bot.control));
        }
    }

    /// A cell has done the tick.
    pub(crate) fn done(
        &mut self,
        now: Now,
        done: ZoneDone,
        stats: &RoomStats,
        out: &mut Vec<(RoomIndex, ZoneMail)>,
    ) {
        let ZoneDone { room, published, report, saved } = done;
        let Some(open) = &mut self.open else {
            unreachable!("a tick that was not released is done")
        };
        open.cells_left -= 1;
        open.cost_ns[usize::from(room)] += report.cpu_ns;
        self.director.done(published.tick, report);
        saved.into_iter().for_each(|piece| self.saving.piece(piece));
        if let Err(fault) = self.ledger.publish(&published) {
            stats.zone_faults.up();
            tracing::error!("the zone's books are wrong: {fault}");
        }
        self.controls.published(&published, &mut self.wishes);
        stats.zone_hand_overs.add(u64::from(published.handed_over));
        open.published.push(published);
        if open.cells_left > 0 {
            return;
        }
        let Some(open) = self.open.take() else { unreachable!("it was open") };
        self.judge(now, &open, stats);
        self.struck(now, &open);
        self.shot_down(now, &open, stats);
        self.ask_rules(now, stats);
        self.save(now, &open, stats);
        // Of two ticks that end in one turn the first has told.
        if self.news.is_none() {
            let news = self.feed.take(self.director.tick(), self.settings.tick_rate_hz);
            self.news = news.map(|news| news.encode());
        }
        stats.zone_cells.set(open.published.len() as u64);
        self.draw(&open, stats);
        self.newest = Some(open.published.into());
        for room in (0..).take(self.audiences.len()) {
            let audience = &mut self.audiences[usize::from(room)];
            if audience.is_busy() && std::mem::replace(&mut audience.waits, true) {
                stats.zone_shows_skipped.up();
            }
            self.show(now, room, out);
        }
        // If it is late.
        self.release(now, stats, out);
    }

    /// Tells who looks at the server where the cells are.
    fn draw(&self, open: &Open, stats: &RoomStats) {
        let cells = open.published.iter().filter_map(|published| {
            let area = open.tree.area(published.cell)?;
            let balance = self.director.balance();
            Some(CellShown {
                area: [area.x0, area.y0, area.x1, area.y1],
                room: balance.room(published.cell),
                ships: u32::try_from(published.rows.len()).unwrap_or(u32::MAX),
                cost_us: u32::try_from(balance.cost_ns(published.cell) / 1_000).unwrap_or(u32::MAX),
            })
        });
        let tick = open.published.first().map_or(0, |published| published.tick);
        stats.zone.map.set((tick, self.settings.bins), cells);
    }

    /// Shows a room the newest tick, if it is ready for it and anybody is there.
    fn show(&mut self, now: Now, room: RoomIndex, out: &mut Vec<(RoomIndex, ZoneMail)>) {
        let Some(newest) = &self.newest else { return };
        let audience = &mut self.audiences[usize::from(room)];
        if audience.is_busy() || audience.viewers == 0 && audience.goes.is_empty() {
            return;
        }
        audience.begin(now);
        let show = ZoneShow {
            home: self.me,
            cells: newest.clone(),
            interest: self.overload.interest(&Interest::of_near(self.settings.near_ships)),
            id: self.id,
            comes: std::mem::take(&mut audience.comes),
            goes: std::mem::take(&mut audience.goes),
            acks: std::mem::take(&mut audience.acks).into_iter().collect(),
        };
        out.push((room, ZoneMail::Show(Box::new(show))));
    }

    /// A room has told its viewers. What has come to pass meanwhile it is shown at once: waiting for the next tick, one that
    /// is a little too slow would tell of every second one.
    pub(crate) fn shown(
        &mut self,
        now: Now,
        (room, cost_ns): (RoomIndex, u64),
        out: &mut Vec<(RoomIndex, ZoneMail)>,
    ) {
        let audience = &mut self.audiences[usize::from(room)];
        audience.end(now, cost_ns);
        if audience.waits {
            self.show(now, room, out);
        }
    }

    /// The newest tick that all cells have done, and the hash of the whole world in it.
    #[cfg(test)]
    pub(super) fn settled(&self) -> Option<(u32, u64)> {
        self.ledger.settled
    }

    /// What is done about load from now on.
    #[cfg(test)]
    pub(super) fn overload(&mut self) -> &mut Overload {
        &mut self.overload
    }

    /// Of each pilot's ship that is there, in the newest tick.
    #[cfg(test)]
    pub(super) fn health_of_pilots(&self) -> Vec<u8> {
        let rows = self.newest.iter().flat_map(|newest| newest.iter()).flat_map(|it| &it.rows);
        rows.filter(|row| self.sessions.contains_key(&row.id)).map(|row| row.health).collect()
    }

    /// Changes the partition with the next tick.
    #[cfg(test)]
    pub(super) fn director(&mut self) -> &mut Director {
        &mut self.director
    }
}

/// What counts a change of the partition.
fn counter_of(change: Change, stats: &RoomStats) -> &Counter {
    match change {
        Change::Split { .. } => &stats.zone_splits,
        Change::Merge { .. } => &stats.zone_merges,
        Change::Nudge { .. } => &stats.zone_border_moves,
    }
}
