//! What a client knows, beside a reader that is as simple as the layout's description: it keeps everything it
//! was told of each slot for 32 ticks.

use std::collections::{BTreeMap, BTreeSet};

use event::Random;
use world::{BadPacket, Malformed, Record, Snapshot, Update, View};

/// A slot that is in sight.
#[derive(Clone, Debug, Default)]
struct Entity {
    generation: u32,
    /// By tick.
    told: BTreeMap<u32, Record>,
}

/// The simple reader.
#[derive(Clone, Debug, Default)]
struct Reader {
    newest: Option<u32>,
    entities: BTreeMap<u32, Entity>,
}

impl Reader {
    /// How many were told of and how many went, or that the packet is wrong; none if it is old.
    fn take(&mut self, snapshot: &Snapshot) -> Result<Option<(u32, u32)>, BadPacket> {
        let tick = snapshot.tick;
        if self.newest.is_some_and(|newest| newest >= tick) {
            return Ok(None);
        }
        let mut next = self.clone();
        let (mut updates, mut gone) = (0, 0);
        for (slot, update) in &snapshot.updates {
            let (generation, record) = match *update {
                Update::Gone => {
                    gone += u32::from(next.entities.remove(slot).is_some());
                    continue;
                }
                Update::Full { generation, record } => (generation, record),
                Update::Delta { age, by, velocity, pose } => {
                    let told = tick.wrapping_sub(age);
                    let entity = self.entities.get(slot);
                    let baseline = entity.and_then(|it| Some((it.generation, it.told.get(&told)?)));
                    let baseline = baseline.ok_or(BadPacket::Baseline { slot: *slot, tick: told });
                    let (generation, baseline) = baseline?;
                    let flown = baseline.flown(age);
                    let speed = |old: i16, by: i32| old + i16::try_from(by).unwrap();
                    let record = Record {
                        x: flown.x + by.0,
                        y: flown.y + by.1,
                        vx: speed(baseline.vx, velocity.0),
                        vy: speed(baseline.vy, velocity.1),
                        pose: pose.unwrap_or(baseline.pose),
                    };
                    (generation, record)
                }
            };
            updates += 1;
            let entity = next.entities.entry(*slot).or_default();
            if entity.generation != generation {
                *entity = Entity { generation, ..Entity::default() };
            }
            entity.told.insert(tick, record);
        }
        next.newest = Some(tick);
        *self = next;
        Ok(Some((updates, gone)))
    }

    fn known(&self) -> Vec<(u32, u32, u32, Record)> {
        let newest = |it: &Entity| it.told.last_key_value().map(|(tick, record)| (*tick, *record));
        let known = self.entities.iter().filter_map(|(slot, it)| {
            let (tick, record) = newest(it)?;
            Some((*slot, it.generation, tick, record))
        });
        known.collect()
    }
}

fn any_record(random: &mut Random) -> Record {
    let mut below = |end: u32| i32::try_from(random.below(end)).unwrap();
    let at = 1 << 20;
    let speed = i16::try_from(below(200) - 100).unwrap();
    Record { x: at + below(1_000), y: at + below(1_000), vx: speed, vy: -speed, pose: 7 }
}

/// A packet that mostly builds on what was told, of a few slots, so that everything happens to each.
fn any_snapshot(random: &mut Random, tick: u32, reader: &Reader) -> Snapshot {
    let mut updates = Vec::new();
    for slot in (0..24).map(|it| it * 3) {
        let entity = reader.entities.get(&slot);
        let update = match random.below(12) {
            0 => Update::Gone,
            1 | 2 => {
                // A new life of the slot now and then.
                let generation = entity.map_or(1, |it| it.generation) + random.below(6) / 5;
                Update::Full { generation, record: any_record(random) }
            }
            3..=6 => {
                // What is gone or was never told now and then.
                let told = |it: &Entity| it.told.keys().rev().map(|told| tick - told).collect();
                let ages: Vec<u32> = entity.map(told).unwrap_or_default();
                let ages: Vec<_> = ages.into_iter().filter(|age| (1..32).contains(age)).collect();
                let count = u32::try_from(ages.len()).unwrap();
                // Now and then what was told before it went, of another life of its slot, or never.
                let any = random.below(200) == 0;
                if count == 0 && !any {
                    continue;
                }
                let drawn = random.below(if any { 31 } else { count });
                let age = if any { 1 + drawn } else { ages[drawn as usize] };
                Update::Delta { age, by: (5, -3), velocity: (1, 0), pose: None }
            }
            _ => continue,
        };
        updates.push((slot, update));
    }
    Snapshot { tick, tau_permille: 1_000, updates, ..Snapshot::default() }
}

#[test]
fn a_view_knows_what_a_simple_reader_knows() {
    let (mut taken, mut refused, mut old, mut of_before) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut random = Random::from_number(seed);
        let (mut view, mut reader) = (View::default(), Reader::default());
        let mut tick = random.below(100);
        let mut told_ever: BTreeSet<(u32, u32)> = BTreeSet::new();
        for round in 0..150 {
            // Packets get lost, one at a time or for longer than any baseline is kept, and come twice.
            tick += match random.below(60) {
                0 => 20 + random.below(90),
                1..=9 => random.below(4),
                _ => 1,
            };
            let snapshot = any_snapshot(&mut random, tick, &reader);
            let mut bytes = Vec::new();
            snapshot.encode(&mut bytes);
            match (view.take(&bytes), reader.take(&snapshot)) {
                (Ok(applied), Ok(Some(counts))) => {
                    assert_eq!((applied.updates, applied.gone), counts, "{seed} {round}");
                    taken += 1;
                }
                (Ok(applied), Ok(None)) => {
                    assert!(applied.is_old, "{seed} {round}");
                    old += 1;
                }
                (Err(one), Err(other)) => {
                    assert_eq!(one, other, "{seed} {round}");
                    refused += 1;
                    // Told, but of what the slot was before.
                    of_before += u32::from(match one {
                        BadPacket::Baseline { slot, tick } => told_ever.contains(&(slot, tick)),
                        _ => false,
                    });
                }
                (one, other) => panic!("{seed} {round}: {one:?} beside {other:?}"),
            }
            let known = view.known().map(|(slot, it)| {
                let (told, record) = it.newest();
                (slot, it.generation, told, record)
            });
            let known: Vec<_> = known.collect();
            told_ever.extend(known.iter().map(|(slot, _, told, _)| (*slot, *told)));
            assert_eq!(known, reader.known(), "{seed} {round}");
            assert_eq!(view.in_sight(), reader.entities.len(), "{seed} {round}");
        }
    }
    assert!(taken > 10_000 && refused > 100 && old > 100, "{taken} {refused} {old}");
    assert!(of_before > 20, "{of_before} built on what a slot was before");
}

/// An acknowledgement is one more than its tick.
#[test]
fn a_packet_of_the_last_tick_that_there_is_is_refused() {
    let of = |tick| {
        let record = any_record(&mut Random::from_number(1));
        let updates = vec![(7, Update::Full { generation: 1, record })];
        let mut bytes = Vec::new();
        Snapshot { tick, updates, ..Snapshot::default() }.encode(&mut bytes);
        bytes
    };
    let mut view = View::default();
    assert_eq!(view.take(&of(u32::MAX - 1)).unwrap().updates, 1);
    assert_eq!(view.ack().unwrap().0, u32::MAX - 1);
    assert_eq!(view.get(7).unwrap().newest().0, u32::MAX - 1);
    let refused = Malformed::Outside { what: "tick", value: u32::MAX.into() };
    assert_eq!(View::default().take(&of(u32::MAX)), Err(refused.into()));
    assert_eq!(Snapshot::decode(&of(u32::MAX)), Err(refused));
}
