//! Viewers over links that lose, delay, double and reorder: what a client believes is what was
//! true at the tick that it was told of, no older than its tier allows, and nobody is missing.

use std::collections::{BTreeMap, BTreeSet};

use event::Random;
use world::{
    Control, Director, EntityId, Fanout, Frames, Interest, Ledger, Numbered, Point, Published,
    Rates, Record, Settings, UNITS_PER_METRE, View, Viewer, units,
};

const BINS: u16 = 32;

/// A world of one cell in which everybody steers at random.
struct Sea {
    random: Random,
    director: Director,
    cell: world::Cell,
    ledger: Ledger,
    ships: Vec<(EntityId, u32)>,
    frames: Frames,
    /// All that was true: by tick and slot.
    truth: Vec<BTreeMap<u32, (EntityId, Record)>>,
}

impl Sea {
    fn new(seed: u64, ships: u32, spread_metres: i32) -> Self {
        let rates = Rates { tick_rate_hz: 20, budget_ns: u64::MAX / 4_000, rooms: 1 };
        let mut director = Director::new(Settings { bins: BINS, rates, ahead_ticks: 1 });
        let mut random = Random::from_number(seed);
        let middle = units(BINS) / 2;
        let ships = (0..ships).map(|_| {
            let spread = u32::try_from(2 * spread_metres * UNITS_PER_METRE).unwrap();
            let mut offset = || random.below(spread).cast_signed() - spread.cast_signed() / 2;
            let at = Point { x: middle + offset(), y: middle + offset() };
            (director.spawn(at).unwrap(), 0)
        });
        let ships = ships.collect();
        let cell = world::Cell::new(world::CellId(0), 0, None, director.tree().clone());
        let (ledger, frames, truth) = (Ledger::default(), Frames::new(BINS), Vec::new());
        Self { random, director, cell, ledger, ships, frames, truth }
    }

    fn tick(&mut self) {
        if self.random.below(8) == 0 && self.ships.len() > 20 && self.director.tick() > 0 {
            let index = 1 + self.random.below(10) as usize;
            self.director.leave(self.ships.remove(index).0);
        }
        let released = self.director.release().unwrap();
        let (tick, speed) = (released.orders.tick, released.orders.tau_permille);
        let comes: Vec<_> = released.orders.spawns.iter().map(|it| it.id).collect();
        let leaves = released.orders.leaves.clone();
        self.ledger.order((tick, speed), &released.tree, &comes, &leaves).unwrap();
        self.cell.order(released.orders);
        for (id, seq) in &mut self.ships {
            if self.random.below(10) == 0 {
                *seq += 1;
                let turn = i8::try_from(self.random.below(20)).unwrap() - 10;
                let control = Control { turn, thrust: 3, fire: true };
                self.cell.control(*id, Numbered { seq: *seq, tick, control });
            }
        }
        let stepped = self.cell.step();
        let published: Published = stepped.published;
        self.ledger.publish(&published).unwrap();
        let (columns, rows) = (stepped.columns, stepped.rows);
        let report = world::Report { cell: published.cell, cpu_ns: 0, columns, rows };
        self.director.done(tick, report);
        let rows = published.rows.iter();
        self.truth.push(rows.map(|row| (row.id.slot, (row.id, Record::of(row)))).collect());
        self.frames.publish(&[published]);
    }
}

/// How a link treats packets.
#[derive(Clone, Copy, Default)]
struct Link {
    loss_percent: u32,
    delay: u32,
    jitter: u32,
}

struct Client {
    viewer: Viewer,
    view: View,
    fanout: Fanout,
    down: Vec<(u32, Vec<u8>)>,
    up: Vec<(u32, (u32, u32))>,
    updates: u64,
    packets: u64,
    most_in_flight: u32,
}

impl Client {
    fn new(id: EntityId, bytes_max: usize) -> Self {
        let (viewer, view, fanout) =
            (Viewer::new(id, bytes_max), View::default(), Fanout::default());
        let (down, up) = (Vec::new(), Vec::new());
        Self { viewer, view, fanout, down, up, updates: 0, packets: 0, most_in_flight: 0 }
    }

    fn tick(&mut self, sea: &mut Sea, interest: &Interest, link: Link) {
        let tick = sea.frames.tick();
        let random = &mut sea.random;
        let late = |random: &mut Random| tick + link.delay + random.below(link.jitter + 1);
        for (_, ack) in self.up.extract_if(.., |(due, _)| *due <= tick) {
            self.viewer.ack(ack);
        }
        let mut bytes = Vec::new();
        let frames = &sea.frames;
        if self.viewer.packet(frames, interest, &mut self.fanout, &mut bytes).is_some() {
            self.packets += 1;
            if random.below(100) >= link.loss_percent {
                self.down.push((late(random), bytes.clone()));
            }
            if random.below(10) == 0 && link.jitter > 0 {
                self.down.push((late(random), bytes));
            }
        }
        self.most_in_flight = self.most_in_flight.max(self.viewer.in_flight());
        let mut due: Vec<_> = self.down.extract_if(.., |(due, _)| *due <= tick).collect();
        if link.jitter > 0 {
            due.reverse();
        }
        for (_, bytes) in due {
            self.updates += u64::from(self.view.take(&bytes).unwrap().updates);
            if random.below(100) >= link.loss_percent {
                self.up.push((late(random), self.view.ack().unwrap()));
            }
        }
    }

    /// Invariants 8 and 9. Whoever has been within the radius for `settle` ticks is known, told of
    /// no longer ago than `stale`, and as it was then; nobody else is known.
    fn check(&self, sea: &Sea, (settle, stale, radius): (usize, u32, i32)) -> Result<(), String> {
        let now = sea.truth.len() - 1;
        let Some(told) = self.view.tick() else { return Err("I9: nothing is known".to_owned()) };
        for (slot, known) in self.view.known() {
            let (tick, record) = known.newest();
            let (id, truth) = sea.truth[tick as usize][&slot];
            if (known.generation, record) != (id.generation, truth) {
                return Err(format!(
                    "I8: slot {slot} was {truth:?} in {tick}, known as {record:?}"
                ));
            }
            let own = sea.truth[told as usize].get(&sea.ships[0].0.slot).map(|it| it.1);
            let is_far = |record: Record| {
                own.is_some_and(|own| {
                    (record.x - own.x).abs().max((record.y - own.y).abs()) > radius * 2
                })
            };
            let is_seen = sea.truth[now].get(&slot).is_some_and(|it| !is_far(it.1));
            let lingers = sea.truth[now.saturating_sub(settle)].contains_key(&slot) && is_seen;
            let is_late = u32::try_from(now).unwrap() - tick > stale;
            if is_late && lingers {
                return Err(format!("I8: slot {slot} is as it was in {tick}"));
            }
            if !is_seen
                && (now.saturating_sub(settle)..now).all(|it| !sea.truth[it].contains_key(&slot))
            {
                return Err(format!("I9: slot {slot} lingers"));
            }
        }
        let own = sea.ships[0].0.slot;
        for slot in sea.truth[now].keys() {
            let is_near = |tick: usize| {
                let (one, other) = (sea.truth[tick].get(slot), sea.truth[tick].get(&own));
                one.zip(other).is_some_and(|((_, one), (_, other))| {
                    let (dx, dy) = (f64::from(one.x - other.x), f64::from(one.y - other.y));
                    dx.hypot(dy) < f64::from(radius)
                })
            };
            if (now.saturating_sub(settle)..=now).all(is_near) && self.view.get(*slot).is_none() {
                return Err(format!(
                    "I9: slot {slot} has been near for {settle}, and is not known"
                ));
            }
        }
        Ok(())
    }
}

fn play(seed: u64, link: Link, sabotage: impl Fn(&mut Client, u32)) -> Result<Client, String> {
    let mut sea = Sea::new(seed, 150, 500);
    let interest = Interest { ranks: [16, 40, 80], radius_bins: 5, ..Interest::default() };
    let mut client = Client::new(sea.ships[0].0, 4_000);
    let lag = 2 * (link.delay + link.jitter) + if link.loss_percent > 0 { 60 } else { 2 };
    let bounds = (60 + lag as usize, 30 + lag, i32::from(interest.radius_bins) << 14);
    for tick in 0..250 {
        sea.tick();
        client.tick(&mut sea, &interest, link);
        sabotage(&mut client, tick);
        if tick > 100 {
            client.check(&sea, bounds).map_err(|failure| format!("tick {tick}: {failure}"))?;
        }
    }
    Ok(client)
}

#[test]
fn a_view_is_true_fresh_and_whole_whatever_the_link_does() {
    for seed in 0..100 {
        let mut random = Random::from_number(seed);
        let jitter = random.below(4);
        let link = Link { loss_percent: random.below(25), delay: random.below(6), jitter };
        let client = play(seed, link, |_, _| {}).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
        assert!(client.updates > 300, "seed {seed}: {} updates", client.updates);
    }
}

#[test]
fn broken_views_are_found() {
    let late = Link { delay: 1, ..Link::default() };
    // A link that tells nothing more, and a server that takes losses for deliveries.
    let dead = play(1, late, |client, tick| client.down.retain(|_| tick < 90));
    assert!(dead.err().is_some_and(|it| it.contains("I8") || it.contains("I9")));
    let deceived = std::panic::catch_unwind(|| {
        play(1, late, |client, tick| {
            if tick > 60 && tick.is_multiple_of(3) {
                client.down.clear();
                client.viewer.ack((tick, 0));
            }
        })
    });
    assert!(deceived.is_err(), "a delta without its baseline is refused by the client");
}

#[test]
fn a_slow_client_has_one_packet_in_flight_and_gets_the_newest() {
    let mut sea = Sea::new(5, 60, 100);
    let interest = Interest::default();
    let mut client = Client::new(sea.ships[0].0, 1_200);
    for _ in 0..100 {
        sea.tick();
        client.tick(&mut sea, &interest, Link { delay: 1, ..Link::default() });
    }
    assert!(client.packets > 95 && client.most_in_flight <= 6, "{}", client.most_in_flight);
    let slow = Link { delay: 10, ..Link::default() };
    for _ in 0..60 {
        sea.tick();
        client.tick(&mut sea, &interest, slow);
    }
    let before = client.packets;
    for _ in 0..200 {
        sea.tick();
        client.tick(&mut sea, &interest, slow);
        assert!(client.viewer.in_flight() <= 1, "more than one packet waits for a slow client");
    }
    let sent = client.packets - before;
    assert!((8..=11).contains(&sent), "{sent} packets in 200 ticks at a round trip of 20");
    let now = u32::try_from(sea.truth.len()).unwrap() - 1;
    assert!(now - client.view.tick().unwrap() <= 31, "what came last was new when it left");
}

/// Every further packet would wait behind those that a stream still carries.
#[test]
fn a_stream_that_stands_still_is_given_a_packet_in_32_ticks() {
    let mut sea = Sea::new(5, 60, 100);
    let mut client = Client::new(sea.ships[0].0, 1_200);
    client.viewer = client.viewer.over_stream();
    for _ in 0..50 {
        sea.tick();
        client.tick(&mut sea, &Interest::default(), Link { delay: 1, ..Link::default() });
    }
    let (before, silent) = (client.packets, Link { loss_percent: 100, ..Link::default() });
    for _ in 0..320 {
        sea.tick();
        client.tick(&mut sea, &Interest::default(), silent);
    }
    let sent = client.packets - before;
    assert!((10..=20).contains(&sent), "{sent} packets in 320 ticks");
}

#[test]
fn packets_keep_within_their_bytes_and_the_nearest_are_told_most() {
    let mut sea = Sea::new(9, 600, 150);
    let interest = Interest::default();
    let mut client = Client::new(sea.ships[0].0, 600);
    let mut told = BTreeMap::<u32, u32>::new();
    for tick in 0..200 {
        sea.tick();
        client.tick(&mut sea, &interest, Link::default());
        let mut bytes = Vec::new();
        let mut copy = client.viewer.clone();
        copy.packet(&sea.frames, &interest, &mut Fanout::default(), &mut bytes);
        assert!(bytes.len() <= 600, "{} bytes", bytes.len());
        if tick > 100 {
            let now = client.view.tick().unwrap();
            let fresh = client.view.known().filter(|(_, known)| known.newest().0 == now);
            fresh.for_each(|(slot, _)| *told.entry(slot).or_default() += 1);
        }
    }
    assert_eq!(told[&sea.ships[0].0.slot], 99, "one's own ship is told of in every packet");
    assert!(told.len() > 400, "all are told of: {}", told.len());
}

#[test]
fn nobody_of_a_crowd_is_left_out_for_long_when_a_packet_has_not_room_for_all() {
    // As many as fit into a packet four times; which slot is whose has nothing to do with where it is.
    let mut sea = Sea::new(11, 500, 110);
    let eye = sea.ships[250].0;
    let mut client = Client::new(eye, 1_200);
    let mut longest = BTreeMap::<u32, u32>::new();
    for tick in 0..600_u32 {
        sea.tick();
        client.tick(&mut sea, &Interest::default(), Link::default());
        for (slot, known) in client.view.known().filter(|_| tick > 100) {
            let most = longest.entry(slot).or_default();
            *most = (tick - known.newest().0).max(*most);
        }
    }
    let (slot, age) = longest.into_iter().max_by_key(|(_, age)| *age).unwrap();
    // The mean is four ticks, and the outermost are told of half as often as those before them.
    assert!(age <= 30, "slot {slot} was not told of for {age} ticks");
}

#[test]
fn far_crowds_are_summed_up() {
    let mut sea = Sea::new(9, 300, 900);
    let interest = Interest { ranks: [8, 16, 32], has_summaries: true, ..Interest::default() };
    let mut client = Client::new(sea.ships[0].0, 1_200);
    let mut counted = BTreeMap::new();
    for tick in 0..100 {
        sea.tick();
        client.tick(&mut sea, &interest, Link::default());
        let summaries = client.view.summaries().iter().filter(|_| tick >= 80);
        counted.extend(summaries.map(|it| (it.bin, it.count)));
    }
    assert!(client.viewer.known_count() < 60, "{}", client.viewer.known_count());
    let all: u32 = counted.values().sum();
    assert!((200..=400).contains(&all), "{all} of 300, in bins as they were seen last");
}

/// One packet in ten ticks, of six hundred ships: all are as urgent as is counted, and have their turns.
#[test]
fn nobody_is_left_out_where_packets_are_few() {
    let mut sea = Sea::new(5, 600, 100);
    let mut client = Client::new(sea.ships[0].0, 1_200);
    for tick in 0..300 {
        sea.tick();
        if tick % 10 == 0 {
            client.tick(&mut sea, &Interest::default(), Link::default());
        }
    }
    let known = client.view.in_sight();
    assert!(known > 560, "{known} known");
}

#[test]
fn what_a_client_acknowledges_in_vain_is_no_matter() {
    let mut sea = Sea::new(2, 50, 100);
    let mut client = Client::new(sea.ships[0].0, 1_200);
    let lying = Link { loss_percent: 100, ..Link::default() };
    for tick in 0..100_u32 {
        sea.tick();
        client.viewer.ack((tick.wrapping_add(1_000_000), u32::MAX));
        client.viewer.ack((u32::MAX, u32::MAX));
        client.viewer.ack((0, 0));
        client.tick(&mut sea, &Interest::default(), lying);
    }
    assert_eq!(client.updates, 0);
}

/// Of three thousand ships two and a half thousand go at once, when their bins are told as summaries: who is near is
/// told of meanwhile, and the others go.
#[test]
fn who_is_near_does_not_wait_for_all_who_go() {
    let mut sea = Sea::new(7, 3_000, 120);
    let mut client = Client::new(sea.ships[0].0, 1_200);
    let mut interest = Interest::default();
    let mut play = |interest: &Interest, ticks: u32| {
        let before = client.updates;
        for _ in 0..ticks {
            sea.tick();
            client.tick(&mut sea, interest, Link { delay: 1, ..Link::default() });
        }
        (client.updates - before, client.view.in_sight())
    };
    let (_, known) = play(&interest, 120);
    assert!(known > 2_900, "{known}");
    (interest.has_summaries, interest.periods) = (true, [1, 8, 16, 20]);
    for _ in 0..10 {
        let (updates, _) = play(&interest, 10);
        assert!(updates >= 200, "{updates} updates in ten ticks");
    }
    let (_, known) = play(&interest, 1);
    assert!(known < 600, "{known}");
}

/// In a crowd of which a packet tells a twentieth, too.
#[test]
fn who_goes_is_told_gone_however_full_packets_are() {
    let mut sea = Sea::new(7, 1_600, 100);
    let mut client = Client::new(sea.ships[0].0, 1_142);
    let mut play = |sea: &mut Sea, ticks: u32| {
        for _ in 0..ticks {
            sea.tick();
            client.tick(sea, &Interest::default(), Link { delay: 1, ..Link::default() });
        }
        client.view.known().map(|(slot, _)| slot).collect::<BTreeSet<_>>()
    };
    assert!(play(&mut sea, 150).len() > 1_500);
    let gone: Vec<EntityId> = sea.ships.drain(100..400).map(|(id, _)| id).collect();
    gone.iter().for_each(|id| sea.director.leave(*id));
    // They are out of sight at once, and taken for gone when they have lingered.
    let known = play(&mut sea, 120);
    let left: Vec<_> = gone.iter().filter(|id| known.contains(&id.slot)).collect();
    assert_eq!(left, Vec::<&EntityId>::new());
}
