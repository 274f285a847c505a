//! Bytes that are whole by their sum and say anything: they are refused, or are a zone that flies on.

use event::Random;

use super::bytes::{Kind, begin, open, seal};
use super::{Damaged, Drone, Event, Pilot, Saved};
use crate::entity::{Control, Entity, Numbered, Spawn};
use crate::ids::{EntityId, Slots};
use crate::score::Score;
use crate::space::Point;
use crate::tree::{CellId, Tree};
use crate::{Cell, Orders};

const BINS: u16 = 8;

fn sample() -> Vec<Vec<u8>> {
    sample_behind(0)
}

/// The same behind so many ticks.
fn sample_behind(ticks: u32) -> Vec<Vec<u8>> {
    let mut slots = Slots::default();
    let ships: Vec<_> = (0..6).map(|_| slots.take(0).unwrap()).collect();
    slots.give_back(ships[5], ticks + 3);
    let mut entities: Vec<_> =
        ships[..5].iter().map(|id| Entity::new(*id, Point { x: 9_000, y: 9_000 })).collect();
    let control = Control { turn: -3, thrust: 2, fire: true };
    entities[1].waiting = (4..7).map(|seq| Numbered { seq, tick: ticks + seq, control }).collect();
    entities[2].lie_down();
    let pilot = |who, ship: usize| Pilot { who, ship: ships[ship], score: Score::default() };
    let saved = Saved {
        bins: BINS,
        tick: ticks + 9,
        slots,
        entities: Vec::new(),
        pilots: vec![pilot(1, 0), pilot(2, 1)],
        drones: (2..5).map(|at| Drone { ship: ships[at], control_seq: 1 }).collect(),
    };
    let came = EntityId { slot: 5, generation: 1 };
    let events = [
        Event::Came {
            who: 3,
            ship: Spawn { heading: 5, health: 9, ..Spawn::new(came, Point { x: 1, y: 2 }) },
        },
        Event::Downed { victim: ships[0], by: ships[1] },
        Event::Points { ship: ships[0], points: -2 },
        Event::Points { ship: ships[1], points: 7 },
        Event::Left { ship: ships[1] },
    ];
    let snapshot = saved.snapshot(&[Saved::piece(&entities[3..]), Saved::piece(&entities[..3])]);
    let later = |number, events| Saved::events(ticks + 9, number, ticks + 12, events);
    vec![snapshot, later(0, &events), later(1, &[])]
}

#[test]
fn what_is_written_is_read_and_what_happened_since_is_done() {
    let saved = Saved::restore(&sample(), BINS).unwrap();
    assert_eq!((saved.tick, saved.entities.len(), saved.drones.len()), (12, 5, 3));
    let pilots: Vec<_> = saved.pilots.iter().map(|it| (it.who, it.ship.slot, it.score)).collect();
    let lost = Score { downed: 0, lost: 1, points: -2 };
    assert_eq!(pilots, [(1, 0, lost), (3, 5, Score::default())]);
    assert_eq!(saved.entities[0].health, 0);
    let came = &saved.entities[saved.entities.len() - 1];
    assert_eq!((came.id.slot, came.heading, came.health), (5, 5, 9));
    // Written again, it is the same.
    let head = Saved { entities: Vec::new(), ..saved.clone() };
    let again = vec![head.snapshot(&[Saved::piece(&saved.entities)])];
    assert_eq!(Saved::restore(&again, BINS).unwrap(), saved);
}

/// However long a zone has been there, it goes on, and its ticks are counted anew.
#[test]
fn ticks_do_not_come_to_their_end() {
    let young = Saved::restore(&sample(), BINS).unwrap();
    for ticks in [1 << 30, 1 << 31, 3 << 30] {
        assert_eq!(Saved::restore(&sample_behind(ticks), BINS).as_ref(), Ok(&young), "{ticks}");
    }
    let last = Saved::restore(&sample_behind(Saved::LAST_TICK - 12), BINS).unwrap();
    assert_eq!(last.tick, Saved::LAST_TICK % (1 << 30));
    let wrong = Err(Damaged::Wrong("the tick"));
    assert_eq!(Saved::restore(&sample_behind(Saved::LAST_TICK - 8), BINS), wrong);
    let gap = Damaged::Gap { tick: Saved::LAST_TICK - 2 };
    assert_eq!(Saved::restore(&sample_behind(Saved::LAST_TICK - 11), BINS), Err(gap));
}

#[test]
fn each_byte_that_changes_or_is_missing_is_noticed() {
    let parts = sample();
    for (which, part) in parts.iter().enumerate() {
        for at in 0..part.len() {
            let mut cut = parts.clone();
            cut[which].truncate(at);
            assert!(Saved::restore(&cut, BINS).is_err(), "part {which} cut at {at}");
            for bit in 0..8 {
                let mut flipped = parts.clone();
                flipped[which][at] ^= 1 << bit;
                let found = Saved::restore(&flipped, BINS);
                assert_eq!(found, Err(Damaged::Sum), "part {which}, byte {at}, bit {bit}");
            }
        }
    }
    let swapped = [parts[0].clone(), parts[2].clone(), parts[1].clone()];
    assert_eq!(Saved::restore(&swapped, BINS), Err(Damaged::Gap { tick: 9 }));
    let missing = [parts[0].clone(), parts[2].clone()];
    assert_eq!(Saved::restore(&missing, BINS), Err(Damaged::Gap { tick: 9 }));
    assert_eq!(Saved::restore(&parts[1..], BINS), Err(Damaged::Kind));
    assert_eq!(Saved::restore(&[], BINS), Err(Damaged::Short));
    let side = Saved::restore(&parts, 16).unwrap_err();
    assert_eq!(side.to_string(), "it is of a world of 512 m, and this one has 1024 m");
}

/// Who writes there can write the sum too: what is said is looked at as well.
#[test]
fn whatever_is_said_is_refused_or_a_zone_that_goes_on() {
    let (mut random, mut went_on) = (Random::from_number(4), 0);
    let parts = sample();
    for _ in 0..20_000 {
        let mut changed = parts.clone();
        let which = random.below(3) as usize;
        let kind = if which == 0 { Kind::Snapshot } else { Kind::Events };
        assert!(open(&changed[which], kind).is_ok());
        let inside = changed[which].len() - 8;
        changed[which].truncate(inside);
        for _ in 0..=random.below(2) {
            let at = random.below(u32::try_from(inside).unwrap()) as usize;
            changed[which][at] = u8::try_from(random.below(256)).unwrap();
        }
        changed[which] = seal(std::mem::take(&mut changed[which]));
        let Ok(saved) = Saved::restore(&changed, BINS) else { continue };
        went_on += 1;
        let tree = std::sync::Arc::new(Tree::new(BINS, CellId(0)));
        let mut cell = Cell::new(CellId(0), saved.tick, None, tree.clone()).with(saved.entities);
        for tick in saved.tick..saved.tick + 3 {
            cell.order(Orders { is_saved: true, ..Orders::new(tick, tree.clone()) });
            assert!(cell.step().saved.is_some());
        }
    }
    assert!(went_on > 1_000, "{went_on} went on");
    assert_eq!(begin(Kind::Events).len(), 2);
}
