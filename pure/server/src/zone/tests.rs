//! Rooms that compute one zone, played in one thread: however many there are, however the world is cut
//! between them, and in whatever order their mail comes, it is the same world, hash for hash.

mod load;

use std::collections::{BTreeMap, VecDeque};

use event::{CallClock, CallTime, Now, Random};
use game::guest::{GuestVersion, Presence, Registered};
use game::match_id::MatchId;
use game::node::NodeId;
use game::rules::{ZoneRule, table};
use game::value::Value;
use uuid::Uuid;
use wire::nakama::Format;
use world::{Axis, Change, Control, Downed, EntityId, FromClient, News, Saved, Score, Welcome};

use super::saving::Saving;
use super::{Around, Home, Packet, Zone};
use crate::mail::{Member, RoomIndex, SessionAddress, Topology, ZoneAsk, ZoneMail, ZoneSave};
use crate::settings::WorldSettings;
use crate::stats::RoomStats;

const TICKS: u32 = 400;

/// Every turn of a room takes as long, in µs.
struct Takes(u32);

impl CallClock for Takes {
    fn begin(&mut self) {}

    fn spent(&mut self) -> CallTime {
        CallTime { kept_us: self.0, computed_us: self.0 }
    }
}

struct Rooms {
    parts: Vec<Zone>,
    /// By sender and receiver: mail between two rooms keeps its order, and no other does.
    mail: Vec<((RoomIndex, RoomIndex), VecDeque<ZoneMail>)>,
    random: Random,
    stats: RoomStats,
    now: Now,
    clock: Takes,
    packets: Vec<Packet>,
    /// What single clients were told.
    told: Vec<Packet>,
    /// What is being written, and what was.
    save: Option<ZoneSave>,
    disk: Vec<Vec<u8>>,
    /// One of so many writes fails; 0 for none.
    fails_every: u32,
    rule: Option<Rule>,
    /// What rules were asked and have not answered.
    asked: Vec<ZoneAsk>,
    /// Who was shot down, and how often that was told.
    news: Vec<(News, u64)>,
}

/// What a rule returns of what it is given; `None` fails.
type Rule = fn(ZoneRule, Value) -> Option<Value>;

fn settings() -> WorldSettings {
    WorldSettings {
        tick_rate_hz: 20,
        bins: 16,
        seed: 3,
        bots: 120,
        players_max: 100,
        waiting_max: 2,
        ships_per_user: 0,
        ships_per_address: 0,
        is_partition_static: false,
        cells_permille: 700,
        near_ships: 32,
        packet_bytes_max: 1_200,
        snapshot_interval_ms: 500,
        return_s: 5,
        rules_wait_ms: 250,
        page: true,
    }
}

fn member(number: u128) -> Member {
    let id = Uuid::from_u128(number);
    let presence =
        Presence { user_id: id, session_id: id, username: "ada".into(), node: NodeId::default() };
    let topology = Topology::new(1, 1, 1);
    let conn = event::ConnId { slot: 0, generation: 0 };
    let address = SessionAddress { core: topology.cores[0], conn };
    Member { presence, address, format: Format::Protobuf }
}

impl Rooms {
    fn new(count: RoomIndex, home: RoomIndex, seed: u64) -> Self {
        Self::with(settings(), (count, home, seed), None)
    }

    /// Rooms that go on with what was written, if anything was.
    fn with(
        settings: WorldSettings,
        (count, home, seed): (RoomIndex, RoomIndex, u64),
        saved: Option<Saved>,
    ) -> Self {
        let mut parts: Vec<Zone> = (0..count).map(|me| Zone::new(me, &settings)).collect();
        let id = MatchId::authoritative(Uuid::from_u128(1), NodeId::default());
        let made = Home::new(Now::default(), id, (home, count), (settings, saved));
        parts[usize::from(home)].home = Some(made);
        Self {
            parts,
            mail: Vec::new(),
            random: Random::from_number(seed),
            stats: RoomStats::default(),
            now: Now::default(),
            clock: Takes(0),
            packets: Vec::new(),
            told: Vec::new(),
            save: None,
            disk: Vec::new(),
            fails_every: 0,
            rule: None,
            asked: Vec::new(),
            news: Vec::new(),
        }
    }

    /// Modules register all rules; this is what they return, at once, and never if there is none.
    fn register(&mut self, rule: Option<Rule>) {
        let events = ZoneRule::ALL.map(|rule| rule.handler().to_owned()).to_vec();
        let registered = Registered { events, ..Registered::default() };
        self.home().register(&registered, GuestVersion::FIRST);
        self.rule = rule;
    }

    /// Rules answer what they were asked.
    fn answer(&mut self) {
        let asks = self.home().take_asks();
        self.asked.extend(asks);
        let Some(rule) = self.rule else { return };
        for ZoneAsk { home, rule: of, number, argument } in std::mem::take(&mut self.asked) {
            let returned = rule(of, argument).map(Box::new);
            let mail = ZoneMail::Ruled { rule: of, number, returned };
            self.act(home, |part, now, around| part.take(now, mail, around));
        }
        let packets = self.home().take_packets();
        self.told.extend(packets);
    }

    /// What is to be written is, some time.
    fn write(&mut self) {
        let save = self.home().take_save();
        assert!(self.save.is_none() || save.is_none(), "two writes at once");
        self.save = self.save.take().or(save);
        let is_due = self.random.below(3) > 0;
        let Some(ZoneSave { write, number, part, home }) = self.save.take_if(|_| is_due) else {
            return;
        };
        let is_kept = self.fails_every == 0 || self.random.below(self.fails_every) > 0;
        if is_kept {
            if number == 0 {
                self.disk.clear();
            }
            assert_eq!(self.disk.len(), number as usize, "a part is missing");
            self.disk.push(part);
        }
        let mail = ZoneMail::Saved { write, is_kept };
        self.act(home, |part, now, around| part.take(now, mail, around));
        let packets = self.home().take_packets();
        self.told.extend(packets);
    }

    fn home(&mut self) -> &mut Home {
        self.parts.iter_mut().find_map(|part| part.home.as_mut()).unwrap()
    }

    fn act(&mut self, room: RoomIndex, act: impl FnOnce(&mut Zone, Now, &mut Around<'_>)) {
        let mut posts = Vec::new();
        let part = &mut self.parts[usize::from(room)];
        let clock = &mut self.clock;
        let around = &mut Around { clock, stats: &self.stats, posts: &mut posts };
        act(part, self.now, around);
        for (to, mail) in posts {
            let way = (room, to);
            match self.mail.iter_mut().find(|(known, _)| *known == way) {
                Some((_, queue)) => queue.push_back(mail),
                None => self.mail.push((way, VecDeque::from([mail]))),
            }
        }
    }

    /// One tick, and what is to be written is.
    fn tick(&mut self) {
        self.tick_alone();
        self.write();
    }

    /// One tick, until nothing is on its way and all viewers have been told.
    fn tick_alone(&mut self) {
        let due = self.home().due().unwrap();
        self.now = due;
        let home = (0..).zip(&self.parts).find(|(_, part)| part.home.is_some()).unwrap().0;
        self.act(home, |part, now, around| part.tick(now, around));
        let mut packets = std::mem::take(&mut self.packets);
        loop {
            let full: Vec<usize> =
                (0..self.mail.len()).filter(|way| !self.mail[*way].1.is_empty()).collect();
            if !full.is_empty() {
                let pick = self.random.below(u32::try_from(full.len()).unwrap()) as usize;
                let ((_, to), queue) = &mut self.mail[full[pick]];
                let (to, mail) = (*to, queue.pop_front().unwrap());
                self.act(to, |part, now, around| part.take(now, mail, around));
                continue;
            }
            let more = (0..).zip(&self.parts).find(|(_, part)| part.viewers.has_more());
            let Some((room, _)) = more else { break };
            let mut has_told = false;
            self.act(room, |part, now, around| {
                has_told = part.write(now, around, &mut packets);
            });
            assert!(has_told || self.parts[usize::from(room)].viewers.has_more());
        }
        self.packets = packets;
        let packets = self.home().take_packets();
        self.told.extend(packets);
        let news = self.home().take_news();
        let news = news.map(|(bytes, to)| (News::decode(&bytes).unwrap(), to.count() as u64));
        self.news.extend(news);
        self.answer();
    }

    /// A change of the partition drawn at random, if one fits.
    fn change(&mut self) {
        let tree = self.home().director().tree().clone();
        let pairs = tree.siblings();
        let mut pick = |count: usize| self.random.below(u32::try_from(count).unwrap()) as usize;
        let change = if pairs.is_empty() || pick(2) == 0 {
            let (cell, area) = tree.cells().nth(pick(tree.cells().len())).unwrap();
            let axis = [Axis::X, Axis::Y][pick(2)];
            let (from, to) = area.span(axis);
            let at = from + u16::try_from(pick(usize::from(to - from))).unwrap();
            let above = self.home().director().new_cell();
            Change::Split { cell, axis, at, above }
        } else {
            let (kept, gone, ..) = pairs[pick(pairs.len())];
            Change::Merge { kept, gone }
        };
        let _ = self.home().director().change(change);
    }
}

/// Plays with pilots who come, steer and go; gives the hash of each tick, and all packets.
fn play(rooms: &mut Rooms, changes: bool) -> (Vec<u64>, Vec<(Uuid, Vec<u8>)>) {
    let mut pilots = Random::from_number(9);
    let mut hashes = Vec::new();
    for tick in 0..TICKS {
        if changes && tick % 5 == 0 {
            rooms.change();
        }
        let number = u128::from(10 + tick / 8);
        if tick % 8 == 0 {
            rooms.home().enter(&member(number), None).unwrap();
        }
        if tick % 8 == 4 && tick > 100 {
            rooms.home().leave(Uuid::from_u128(number - 10), true);
        }
        for pilot in number.saturating_sub(8)..=number {
            let control = Control {
                turn: i8::try_from(pilots.below(20)).unwrap() - 10,
                thrust: 3,
                fire: pilots.below(2) == 0,
            };
            let packet =
                FromClient { ack: None, first_seq: tick + 1, controls: vec![control, control] };
            let mut bytes = Vec::new();
            packet.encode(&mut bytes);
            let _ = rooms.home().hear(Uuid::from_u128(pilot), &bytes, false);
        }
        rooms.tick();
        let (settled, hash) = rooms.home().settled().unwrap();
        assert_eq!(settled, tick, "a tick is done before the next one is due");
        hashes.push(hash);
    }
    assert_eq!(rooms.stats.zone_faults.read(), 0);
    let packets = rooms.packets.drain(..);
    (hashes, packets.map(|packet| (packet.to.presence.session_id, packet.bytes)).collect())
}

#[test]
fn one_cell_and_many_on_many_rooms_are_the_same_world() {
    let (alone, told_alone) = play(&mut Rooms::new(1, 0, 1), false);
    assert!(told_alone.len() > 500, "{} packets", told_alone.len());
    let sorted = |mut told: Vec<(Uuid, Vec<u8>)>| {
        told.sort_by_key(|(session_id, bytes)| (*session_id, bytes[1..5].to_vec()));
        told
    };
    let told_alone = sorted(told_alone);
    for seed in 0..8 {
        let home = RoomIndex::try_from(seed % 3).unwrap();
        let mut rooms = Rooms::new(3, home, seed);
        let (hashes, told) = play(&mut rooms, seed > 0);
        let differs = (0..).zip(hashes.iter().zip(&alone)).find(|(_, (one, other))| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert!(sorted(told) == told_alone, "seed {seed}: clients are told something else");
        let handed_over = rooms.stats.zone_hand_overs.read();
        assert!(seed == 0 || handed_over > 50, "seed {seed}: {handed_over} were handed over");
    }
}

/// A list that a rule is given, and its members one by one.
fn each(value: &mut Value, list: &str, mut change: impl FnMut(&mut Value)) {
    let Value::Map(members) = value else { panic!("{value:?}") };
    let found = members.iter_mut().find(|(name, _)| name == list.as_bytes());
    let Some((_, Value::List(items))) = found else { panic!("no {list}") };
    items.iter_mut().for_each(&mut change);
}

fn set(value: &mut Value, field: &str, to: Value) {
    let Value::Map(members) = value else { panic!("{value:?}") };
    members.iter_mut().find(|(name, _)| name == field.as_bytes()).unwrap().1 = to;
}

fn number(value: &Value, field: &str) -> i64 {
    value.member(field).and_then(Value::as_int).unwrap()
}

/// All pilots come near one another with half a ship, shots cost more, kills count by the tick.
fn crowding(rule: ZoneRule, mut given: Value) -> Option<Value> {
    each(&mut given, rule.list(), |item| match rule {
        ZoneRule::Spawn => {
            let at = Value::Float(500.0 + f64::from(u8::from(item.member("x").is_some())));
            set(item, "x", at.clone());
            set(item, "y", at);
            set(item, "heading", Value::Int(90));
            set(item, "health", Value::Int(8));
        }
        ZoneRule::Hit => {
            let damage = (number(item, "shots") * 4).min(15);
            set(item, "damage", Value::Int(damage));
        }
        ZoneRule::Score => {
            set(item, "points", Value::Int(10 + number(item, "tick") % 3));
            set(item, "victim_points", Value::Int(-1));
            set(item, "respawn_ms", Value::Int(1_000));
            set(item, "text", Value::text("down"));
        }
    });
    Some(given)
}

/// What rules say enters the world as an input of a tick: wherever cells are, it is the same world.
#[test]
fn a_world_with_rules_is_the_same_in_one_cell_and_in_many() {
    let with_rules = |mut rooms: Rooms, changes: bool| {
        rooms.register(Some(crowding));
        let (hashes, told) = play(&mut rooms, changes);
        let asked = rooms.stats.zone_rules_asked.read();
        assert!(asked > 100, "{asked} questions");
        assert_eq!(rooms.stats.zone_rules_refused.read(), 0);
        (hashes, told.len(), rooms.news.len(), rooms.stats.zone_hand_overs.read())
    };
    let (alone, told_alone, news_alone, _) = with_rules(Rooms::new(1, 0, 1), false);
    let (without, _) = play(&mut Rooms::new(1, 0, 1), false);
    assert_ne!(alone.last(), without.last(), "rules change the world");
    assert!(news_alone > 5, "{news_alone} times news");
    for seed in 0..6 {
        let home = RoomIndex::try_from(seed % 3).unwrap();
        let (hashes, told, news, handed_over) = with_rules(Rooms::new(3, home, seed), seed > 0);
        let differs = (0..).zip(hashes.iter().zip(&alone)).find(|(_, (one, other))| one != other);
        assert_eq!((differs, told, news), (None, told_alone, news_alone), "seed {seed}");
        assert!(seed == 0 || handed_over > 50, "seed {seed}: {handed_over} were handed over");
    }
}

/// Two ships, of which one has the other before it and shoots, until that lies still; gives for how many ticks
/// that lay.
fn duel(rooms: &mut Rooms) -> u32 {
    for number in [1, 2] {
        rooms.home().enter(&member(number), None).unwrap();
    }
    let mut lay = 0;
    for tick in 0..400 {
        for number in [1, 2] {
            let controls = vec![Control { turn: 0, thrust: 0, fire: true }];
            let mut bytes = Vec::new();
            FromClient { ack: None, first_seq: tick + 1, controls }.encode(&mut bytes);
            let _ = rooms.home().hear(Uuid::from_u128(number), &bytes, false);
        }
        rooms.tick();
        let health = rooms.home().health_of_pilots();
        lay += u32::from(health.contains(&0));
        if lay > 0 && !health.contains(&0) {
            break;
        }
    }
    lay
}

fn empty() -> Rooms {
    Rooms::with(WorldSettings { bots: 0, ..settings() }, (2, 0, 3), None)
}

fn side_by_side(rule: ZoneRule, mut given: Value) -> Option<Value> {
    let mut x = 300;
    if rule == ZoneRule::Spawn {
        each(&mut given, "pilots", |pilot| {
            set(pilot, "x", Value::Int(x));
            set(pilot, "y", Value::Int(300));
            x += 10;
        });
        return Some(given);
    }
    crowding(rule, given)
}

#[test]
fn rules_say_where_pilots_come_what_a_kill_is_worth_and_how_long_it_lasts() {
    let mut rooms = empty();
    rooms.register(Some(side_by_side));
    let lay = duel(&mut rooms);
    assert_eq!(lay, 20, "a second, and not three");
    let scores: Vec<Score> =
        rooms.told.iter().filter_map(|it| Score::decode(&it.bytes).ok()).collect();
    let best = scores.iter().map(|score| score.points).max().unwrap();
    assert!((10..=12).contains(&best), "{scores:?}");
    assert!(scores.iter().any(|it| (it.lost, it.points) == (1, -1)), "{scores:?}");
    let (news, told) = &rooms.news[0];
    let kill = &news.kills[0];
    assert_eq!((kill.text.as_str(), kill.by_name.as_str(), *told), ("down", "ada", 2));
    // They are on the disk as they were told.
    (0..40).for_each(|_| rooms.tick());
    let saved = Saved::restore(&rooms.disk, settings().bins).unwrap();
    let points: Vec<i32> = saved.pilots.iter().map(|pilot| pilot.score.points).collect();
    assert!(points.contains(&best) && points.contains(&-1), "{points:?}");
    assert_eq!(rooms.stats.zone_faults.read(), 0);
}

/// Whatever a rule does, pilots come, ticks are on time and kills count: by the zone's own rules.
#[test]
fn rules_that_fail_are_silent_or_talk_nonsense_cost_the_zone_nothing() {
    let fails: Rule = |_, _| None;
    let nil: Rule = |_, _| Some(Value::Nil);
    let numbers: Rule = |_, _| Some(Value::Int(7));
    let other: Rule = |rule, _| Some(table([(rule.list(), Value::List(vec![Value::Nil; 900]))]));
    let wrong: Rule = |rule, mut given| {
        each(&mut given, rule.list(), |item| match rule {
            ZoneRule::Spawn => set(item, "x", Value::Float(f64::NAN)),
            ZoneRule::Hit => set(item, "damage", Value::Int(-1)),
            ZoneRule::Score => set(item, "points", Value::text("many")),
        });
        Some(given)
    };
    let rules = [Some(fails), Some(nil), Some(numbers), Some(other), Some(wrong), None];
    for (which, rule) in rules.into_iter().enumerate() {
        let mut rooms = Rooms::with(WorldSettings { bins: 4, ..settings() }, (2, 0, 3), None);
        rooms.register(rule);
        for number in 0..20 {
            rooms.home().enter(&member(100 + number), None).unwrap();
        }
        for tick in 0..300 {
            for number in 0..20 {
                // At the end nobody shoots, so that the scores come to rest.
                let controls = vec![Control { turn: 9, thrust: 3, fire: tick < 270 }];
                let mut bytes = Vec::new();
                FromClient { ack: None, first_seq: tick + 1, controls }.encode(&mut bytes);
                let _ = rooms.home().hear(Uuid::from_u128(100 + number), &bytes, false);
            }
            rooms.tick();
        }
        assert_eq!(rooms.home().counts(), (20, 0), "{which}: all pilots fly");
        assert_eq!(rooms.home().settled().unwrap().0, 299, "{which}: no tick is missed");
        let stats = &rooms.stats;
        let counts = [&stats.zone_rules_failed, &stats.zone_rules_refused, &stats.zone_rules_late];
        let counts = counts.map(crate::stats::Counter::read);
        let is_as_told = match which {
            0 => counts[0] >= 3 && counts[1] == 0,
            1 => counts == [0, 0, 0],
            2..=4 => counts[0] == 0 && counts[1] >= 3,
            _ => counts == [0, 0, 3],
        };
        assert!(is_as_told, "{which}: {counts:?}");
        assert_eq!(stats.zone_faults.read(), 0);
        assert!(!rooms.news.is_empty(), "{which}: kills are news");
        let scored = rooms.told.iter().filter_map(|it| {
            let Score { downed, points, .. } = Score::decode(&it.bytes).ok()?;
            Some((it.to.presence.user_id, (downed, i64::from(downed) - i64::from(points))))
        });
        let scores: Vec<(Uuid, (u32, i64))> = scored.collect();
        assert!(scores.iter().any(|(_, (downed, _))| *downed > 0), "{which}: kills count");
        // A kill may be on the disk before it is known what it is worth.
        assert!(scores.iter().all(|(_, (_, left))| (0..=3).contains(left)), "{which}: {scores:?}");
        let last: BTreeMap<Uuid, (u32, i64)> = scores.into_iter().collect();
        assert!(last.values().all(|(_, left)| *left == 0), "{which}: {last:?}");
    }
}

/// Who leaves while a rule thinks of where it is to come does not come, and takes nobody's place.
#[test]
fn who_leaves_before_a_rule_has_answered_is_gone() {
    let mut rooms = empty();
    rooms.register(None);
    assert_eq!(rooms.home().enter(&member(1), None).unwrap(), None);
    assert_eq!(rooms.home().enter(&member(2), None).unwrap(), None);
    rooms.tick();
    assert_eq!((rooms.home().counts(), rooms.asked.len()), ((0, 2), 1));
    rooms.home().leave(Uuid::from_u128(1), true);
    rooms.rule = Some(side_by_side);
    rooms.tick();
    assert_eq!(rooms.home().counts(), (1, 0));
    let told: Vec<_> = rooms.told.iter().map(|it| it.to.presence.session_id.as_u128()).collect();
    assert_eq!(told, [2]);
    // It comes again, and the rule is asked again.
    assert_eq!(rooms.home().enter(&member(1), None).unwrap(), None);
    (0..2).for_each(|_| rooms.tick());
    assert_eq!(rooms.home().counts(), (2, 0));
    // Modules without rules: pilots come at once.
    rooms.home().register(&Registered::default(), GuestVersion::FIRST.next());
    assert!(rooms.home().enter(&member(3), None).unwrap().is_some());
}

/// One that is ended behind a snapshot and goes on, on other rooms, is the one that was never stopped.
#[test]
fn a_zone_that_goes_on_is_the_one_that_was_never_stopped() {
    for seed in 0..12 {
        let mut rooms = Rooms::new(2, 0, seed);
        let end = 20 + seed * 3;
        for tick in 0_u64.. {
            if tick % 7 == 0 {
                rooms.change();
            }
            rooms.tick();
            let is_new = rooms.save.as_ref().is_some_and(|save| save.number == 0);
            if tick > end && is_new {
                break;
            }
        }
        let part = rooms.save.as_ref().unwrap().part.clone();
        let saved = Saved::restore(&[part], settings().bins).unwrap();
        assert_eq!(saved.tick, rooms.home().settled().unwrap().0);
        let home = RoomIndex::try_from(seed % 3).unwrap();
        let mut again = Rooms::with(settings(), (3, home, seed ^ 9), Some(saved));
        for tick in 0..100 {
            if tick % 5 == 0 {
                rooms.change();
                again.change();
            }
            rooms.tick();
            again.tick();
            assert_eq!(rooms.home().settled(), again.home().settled(), "seed {seed}, +{tick}");
        }
        assert_eq!(again.stats.zone_faults.read(), 0);
    }
}

/// Ended at any tick, with writes that are late or fail: every pilot of what is on the disk gets its ship back, with
/// the score that it was told or a newer one.
#[test]
fn pilots_get_their_ships_and_scores_back_whenever_a_server_ends() {
    let mut scored = 0;
    for seed in 0..12 {
        let crowded = WorldSettings { bins: 4, ..settings() };
        let mut rooms = Rooms::with(crowded.clone(), (2, 0, seed), None);
        rooms.fails_every = 8;
        let mut shots = Random::from_number(seed);
        for number in 0..40 {
            rooms.home().enter(&member(100 + number), None).unwrap();
        }
        for tick in 0..150 + shots.below(100) {
            for number in 0..40 {
                let turn = i8::try_from(shots.below(20)).unwrap() - 10;
                let controls = vec![Control { turn, thrust: 3, fire: true }];
                let mut bytes = Vec::new();
                FromClient { ack: None, first_seq: tick + 1, controls }.encode(&mut bytes);
                let _ = rooms.home().hear(Uuid::from_u128(100 + number), &bytes, false);
            }
            if tick % 10 == 9 {
                rooms.home().leave(Uuid::from_u128(100 + u128::from(tick / 10)), true);
            }
            rooms.tick();
        }
        let mut told: BTreeMap<Uuid, Score> = BTreeMap::new();
        for packet in &rooms.told {
            told.insert(packet.to.presence.user_id, Score::decode(&packet.bytes).unwrap());
        }
        let saved = Saved::restore(&rooms.disk, crowded.bins).unwrap();
        let there: Vec<_> = saved.pilots.clone();
        assert!(there.len() >= 15, "{} pilots", there.len());
        let mut again = Rooms::with(crowded, (1, 0, seed), Some(saved));
        again.tick();
        for pilot in there {
            let who = member(pilot.who);
            let welcome =
                Welcome::decode(&again.home().enter(&who, None).unwrap().unwrap()).unwrap();
            assert_eq!(welcome.ship, pilot.ship, "another ship");
            let score = again.home().take_packets().pop().unwrap();
            let score = Score::decode(&score.bytes).unwrap();
            let before = told.get(&who.presence.user_id).copied().unwrap_or_default();
            assert_eq!(score, pilot.score);
            assert!(score.downed >= before.downed && score.lost >= before.lost, "{before:?}");
            scored += u32::from(score != Score::default());
            // It steers it from the first control on.
            let mut bytes = Vec::new();
            let controls = vec![Control { turn: 1, thrust: 1, fire: false }];
            FromClient { ack: None, first_seq: 1, controls }.encode(&mut bytes);
            again.home().hear(who.presence.session_id, &bytes, false).unwrap();
        }
        (0..3).for_each(|_| again.tick());
        assert_eq!(again.stats.zone_faults.read(), 0);
    }
    assert!(scored > 20, "{scored} had a score");
}

/// Ships whose pilots do not come back go, and make room for others.
#[test]
fn ships_wait_for_their_pilots_and_not_for_long() {
    let mut rooms = Rooms::new(1, 0, 1);
    for number in 0..100 {
        rooms.home().enter(&member(number), None).unwrap();
    }
    for _ in 0..40 {
        rooms.tick();
    }
    let saved = Saved::restore(&rooms.disk, settings().bins).unwrap();
    let mut again = Rooms::with(settings(), (1, 0, 2), Some(saved));
    assert_eq!((again.home().away(), again.home().counts()), (100, (0, 0)));
    // Their places are kept for them, and not for others.
    again.home().enter(&member(500), None).unwrap();
    again.home().enter(&member(7), None).unwrap();
    assert_eq!((again.home().away(), again.home().counts()), (99, (1, 1)));
    for _ in 0..=settings().return_s * 20 {
        again.tick();
    }
    assert_eq!((again.home().away(), again.home().counts()), (0, (2, 0)));
    again.tick();
    assert_eq!(again.stats.zone_faults.read(), 0);
}

/// Neither a write that is lost nor one whose answer is ends saving: a snapshot makes up for it, and the answer, if
/// it comes so late, is of no use.
#[test]
fn a_write_that_nobody_answers_is_made_up_for() {
    let mut rooms = Rooms::new(1, 0, 1);
    rooms.home().enter(&member(1), None).unwrap();
    let mut lost = None;
    while lost.is_none() {
        rooms.tick_alone();
        lost = rooms.home().take_save();
    }
    let lost = lost.unwrap();
    let mut ticks = 0;
    let next = loop {
        rooms.tick_alone();
        ticks += 1;
        if let Some(save) = rooms.home().take_save() {
            break save;
        }
    };
    // Ten seconds of 20 ticks.
    assert!((199..202).contains(&ticks), "{ticks} ticks");
    assert_eq!((lost.number, next.number, next.write), (0, 0, lost.write + 1));
    assert_eq!(rooms.stats.zone_saves_failed.read(), 1);
    let late = ZoneMail::Saved { write: lost.write, is_kept: true };
    rooms.act(0, |part, now, around| part.take(now, late, around));
    assert_eq!(rooms.stats.late_answers.read(), 1);
    rooms.tick_alone();
    assert!(rooms.home().take_save().is_none(), "two writes at once");
    // The next one is waited for twice as long, because it may only be late.
    let mut ticks = 1;
    while rooms.stats.zone_saves_failed.read() == 1 {
        rooms.tick_alone();
        ticks += 1;
    }
    assert!((399..402).contains(&ticks), "{ticks} ticks");
    rooms.save = rooms.home().take_save();
    (0..40).for_each(|_| rooms.tick());
    assert!(!rooms.disk.is_empty(), "it is saved again");
}

/// A pilot is told a score as it was written, whatever has happened to it since.
#[test]
fn points_that_come_while_a_score_is_written_are_told_when_they_are_written() {
    let mut saving = Saving::new(0, 1_000);
    let now = Now::default();
    let ships = [0, 1].map(|slot| EntityId { slot, generation: 1 });
    let [victim, by] = ships;
    assert!(saving.begin(now));
    ships.iter().for_each(|ship| saving.come(*ship, Score::default()));
    saving.write(now, 1, Vec::new());
    let write = |saving: &mut Saving| saving.take_save().unwrap().write;
    let first = write(&mut saving);
    saving.downed(Downed { tick: 1, victim, by });
    assert_eq!(saving.written(first, true).unwrap().len(), 0, "it was written before");
    saving.write_events(now, 1);
    saving.points(by, 25);
    let second = write(&mut saving);
    assert_eq!(saving.written(second, true).unwrap(), ships.into());
    let told = Score { downed: 1, lost: 0, points: 0 };
    assert_eq!((saving.kept_score(by), saving.score(by)), (told, Score { points: 25, ..told }));
    // A write that fails tells nothing.
    saving.write_events(now, 2);
    let third = write(&mut saving);
    assert_eq!(saving.written(third, false).unwrap().len(), 0);
    assert_eq!(saving.kept_score(by), told);
    saving.write(now, 3, Vec::new());
    let fourth = write(&mut saving);
    assert_eq!(saving.written(fourth, true).unwrap(), [by].into());
    assert_eq!(saving.kept_score(by), saving.score(by));
}

/// That is said for long before, and a start counts ticks anew.
#[test]
fn a_zone_whose_ticks_have_come_to_their_end_stands_still() {
    let mut rooms = Rooms::new(1, 0, 1);
    (0..30).for_each(|_| rooms.tick());
    let mut saved = Saved::restore(&rooms.disk, settings().bins).unwrap();
    saved.tick = Saved::LAST_TICK - 3;
    let mut old = Rooms::with(settings(), (1, 0, 2), Some(saved));
    (0..3).for_each(|_| old.tick());
    assert_eq!(old.home().settled().unwrap().0, Saved::LAST_TICK);
    old.act(0, |part, now, around| part.tick(now, around));
    assert_eq!((old.home().settled().unwrap().0, old.home().due()), (Saved::LAST_TICK, None));
    assert_eq!(old.stats.zone_faults.read(), 0);
    while old.disk.is_empty() {
        old.write();
    }
    // What was written last goes on.
    let again = Saved::restore(&old.disk, settings().bins).unwrap();
    let mut again = Rooms::with(settings(), (1, 0, 3), Some(again));
    (0..30).for_each(|_| again.tick());
    assert_eq!(again.stats.zone_faults.read(), 0);
}
