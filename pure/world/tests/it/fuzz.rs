//! Whatever bytes come, decoders give a packet or an error; what was read survives being written;
//! every cut of a packet is an error; and what a client takes changes nothing if it is wrong.

use event::Random;
use world::{
    BadPacket, CONTROLS_MAX, Control, FromClient, Malformed, Place, Record, Snapshot, Summary,
    Update, View,
};

const ROUNDS: u64 = 20_000;

fn any_i32(random: &mut Random) -> i32 {
    let bits = random.below(33);
    let number = u32::try_from(random.u64() & ((1 << bits) - 1)).unwrap();
    if random.below(2) == 0 { number.cast_signed() } else { number.cast_signed().wrapping_neg() }
}

fn any_u8(random: &mut Random, end: u32) -> u8 {
    u8::try_from(random.below(end)).unwrap()
}

fn any_record(random: &mut Random) -> Record {
    let place = |random: &mut Random| random.below(1 << 24).cast_signed();
    let (x, y) = (place(random), place(random));
    let bits = random.u64().to_le_bytes();
    let vx = i16::from_le_bytes([bits[0], bits[1]]);
    let vy = i16::from_le_bytes([bits[2], bits[3]]);
    Record { x, y, vx, vy, pose: u16::from_le_bytes([bits[4], bits[5]]) }
}

fn any_update(random: &mut Random) -> Update {
    match random.below(4) {
        0 => {
            Update::Full { generation: any_i32(random).cast_unsigned(), record: any_record(random) }
        }
        1 => Update::Gone,
        _ => Update::Delta {
            age: 1 + random.below(31),
            by: (any_i32(random), any_i32(random)),
            velocity: if random.below(2) == 0 { (0, 0) } else { (any_i32(random), 1) },
            pose: (random.below(2) == 0).then(|| any_record(random).pose),
        },
    }
}

fn any_snapshot(random: &mut Random) -> Snapshot {
    let mut slot = random.below(100);
    let mut updates = Vec::new();
    for _ in 0..random.below(40) {
        updates.push((slot, any_update(random)));
        slot += 1 + random.below(200);
    }
    let mut bin = random.below(10);
    let mut summaries = Vec::new();
    for _ in 0..random.below(10) {
        let count = random.below(1_000_000);
        summaries.push(Summary { bin, count, middle: (any_u8(random, 256), 7) });
        bin += 1 + random.below(300);
    }
    Snapshot {
        tick: any_i32(random).cast_unsigned().min(u32::MAX - 1),
        tau_permille: u16::from(any_u8(random, 256)) * 3,
        control_seq: any_i32(random).cast_unsigned(),
        updates,
        summaries,
    }
}

fn any_controls(random: &mut Random) -> FromClient {
    let control = |random: &mut Random| Control {
        turn: (any_u8(random, 256)).cast_signed(),
        thrust: any_u8(random, 4),
        fire: random.below(2) == 0,
    };
    FromClient {
        ack: (random.below(3) > 0).then(|| (random.below(u32::MAX), random.below(u32::MAX))),
        first_seq: any_i32(random).cast_unsigned(),
        controls: (0..random.below(9)).map(|_| control(random)).collect(),
    }
}

/// Flips, cuts or grows some bytes.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(u32::try_from(bytes.len()).unwrap()) as usize;
        match random.below(4) {
            0 if bytes.len() > 1 => drop(bytes.remove(at)),
            1 => bytes.insert(at, any_u8(random, 256)),
            2 if at > 0 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
}

#[test]
fn what_is_written_is_read_and_every_cut_of_it_is_an_error() {
    for round in 0..ROUNDS / 10 {
        let mut random = Random::from_number(round);
        let (snapshot, controls) = (any_snapshot(&mut random), any_controls(&mut random));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        snapshot.encode(&mut one);
        controls.encode(&mut other);
        assert_eq!(Snapshot::decode(&one), Ok(snapshot), "round {round}");
        let read = FromClient::decode(&other);
        assert_eq!(read.unwrap().controls, controls.controls, "round {round}");
        for end in 0..one.len() {
            assert_eq!(Snapshot::decode(&one[..end]), Err(Malformed::Short), "{round}: {end}");
        }
        for end in 0..other.len() {
            assert_eq!(FromClient::decode(&other[..end]), Err(Malformed::Short), "{round}: {end}");
        }
        one.push(0);
        assert_eq!(Snapshot::decode(&one), Err(Malformed::Long { extra: 1 }));
    }
}

#[test]
fn hostile_bytes_are_errors_and_what_is_read_survives_being_written() {
    let (mut read, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut random = Random::from_number(round << 20);
        let mut bytes = Vec::new();
        any_snapshot(&mut random).encode(&mut bytes);
        damage(&mut random, &mut bytes);
        match Snapshot::decode(&bytes) {
            Ok(snapshot) => {
                read += 1;
                assert!(snapshot.updates.len() <= bytes.len());
                let mut again = Vec::new();
                snapshot.encode(&mut again);
                assert_eq!(Snapshot::decode(&again), Ok(snapshot), "round {round}");
            }
            Err(_) => refused += 1,
        }
        any_controls(&mut random).encode(&mut bytes);
        damage(&mut random, &mut bytes);
        if let Ok(controls) = FromClient::decode(&bytes) {
            assert!(controls.controls.len() <= CONTROLS_MAX);
        }
        let mut noise = vec![0; random.below(60) as usize];
        random.fill(&mut noise);
        noise.first_mut().into_iter().for_each(|kind| *kind = 1);
        let _ = Snapshot::decode(&noise);
        noise.first_mut().into_iter().for_each(|kind| *kind = Place::KIND);
        let place = Place::decode(&noise);
        assert!(place.is_ok_and(|it| it.encode() == noise) == (noise.len() == 9), "round {round}");
    }
    assert!(read > 100 && refused > 1_000, "{read} read, {refused} refused");
}

/// All that a view tells.
fn told(view: &View) -> String {
    let known: Vec<_> = view.known().collect();
    let rates = (view.tau_permille(), view.control_seq());
    format!("{known:?} {:?} {rates:?} {:?} {}", view.ack(), view.summaries(), view.in_sight())
}

#[test]
fn a_view_is_not_changed_by_what_it_refuses() {
    let (mut refused, mut old) = (0, 0);
    for round in 0..ROUNDS / 10 {
        let mut random = Random::from_number(round << 30);
        let mut view = View::default();
        for tick in 1..20 {
            let mut snapshot = any_snapshot(&mut random);
            snapshot.tick = if random.below(8) == 0 { tick - 1 } else { tick };
            let mut bytes = Vec::new();
            snapshot.encode(&mut bytes);
            // Bytes that are missing or follow are found when all else has been read.
            match random.below(8) {
                0 => bytes.push(0),
                1 => _ = bytes.pop(),
                _ => {}
            }
            let before = told(&view);
            let is_old = match view.take(&bytes) {
                Ok(applied) => applied.is_old,
                Err(error) => {
                    let is_whole = Snapshot::decode(&bytes).err().map(BadPacket::Malformed);
                    assert!(is_whole.is_none_or(|it| it == error), "round {round}: {error}");
                    refused += 1;
                    assert_eq!(before, told(&view), "round {round}");
                    false
                }
            };
            if is_old {
                old += 1;
                assert_eq!(before, told(&view), "round {round}");
            }
        }
    }
    assert!(refused > 100 && old > 100, "{refused} {old}");
}
