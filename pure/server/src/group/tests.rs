//! A group against the plainest list that does the same, in thousands of random steps.

use std::sync::Arc;

use event::{ConnId, Random};
use game::guest::Presence;
use game::node::NodeId;
use uuid::Uuid;

use super::{Group, GroupMember, Meta};
use crate::mail::{Format, Member, SessionAddress, Topology};

/// What the steps change: whether the member is hidden, and a number in the place of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known(bool, u32);

impl Meta for Known {
    fn is_hidden(&self) -> bool {
        self.0
    }
}

fn session(number: u32) -> Uuid {
    // Ids that do not rise with the numbers, so that the order of joining is not that of ids.
    Uuid::from_u128(u128::from(number.wrapping_mul(2_654_435_769)))
}

fn member(number: u32) -> Member {
    let presence = Presence {
        user_id: Uuid::from_u128(u128::from(number / 2)),
        session_id: session(number),
        username: Arc::from("n"),
        node: NodeId::default(),
    };
    let conn = ConnId { slot: number, generation: 1 };
    let core = Topology::new(1, 1, 1).cores[0];
    Member { presence, address: SessionAddress { core, conn }, format: Format::Json }
}

/// The same as a list in the order of joining.
#[derive(Default)]
struct Model(Vec<(u32, Known)>);

impl Model {
    fn put(&mut self, number: u32, known: Known) -> Option<Known> {
        match self.0.iter_mut().find(|(other, _)| *other == number) {
            Some((_, old)) => Some(std::mem::replace(old, known)),
            None => {
                self.0.push((number, known));
                None
            }
        }
    }

    fn take(&mut self, number: u32) -> Option<Known> {
        let place = self.0.iter().position(|(other, _)| *other == number)?;
        Some(self.0.remove(place).1)
    }

    fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|(number, _)| *number).collect()
    }
}

fn numbers<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<u32> {
    members.map(|member| member.address.conn.slot).collect()
}

fn check(group: &Group<Known>, model: &Model, random: &mut Random, sessions: u32) {
    assert_eq!((group.len(), group.is_empty()), (model.0.len(), model.0.is_empty()));
    assert_eq!(numbers(group.members()), model.numbers());
    let visible: Vec<u32> =
        model.0.iter().filter(|(_, known)| !known.0).map(|(number, _)| *number).collect();
    assert_eq!(numbers(group.visible().map(|joined| &joined.member)), visible);
    for number in 0..sessions {
        let known = model.0.iter().find(|(other, _)| *other == number).map(|(_, known)| *known);
        assert_eq!(group.get(session(number)).map(|joined| joined.meta), known);
        assert_eq!(group.has(session(number)), known.is_some());
    }
    // Some of all, few and many.
    let mut some: Vec<Uuid> =
        (0..random.below(sessions * 2)).map(|_| session(random.below(sessions))).collect();
    some.sort_unstable();
    some.dedup();
    let mut found = numbers(group.among(&some).map(|joined| &joined.member));
    found.sort_unstable();
    let mut wanted: Vec<u32> = model.numbers();
    wanted.retain(|number| some.contains(&session(*number)));
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// One life of a group: joins, changes, hides and shows, leaves, and now and then nearly everybody goes.
fn live(seed: u64, sessions: u32, steps: u32) {
    let mut random = Random::from_number(seed);
    let (mut group, mut model) = (Group::default(), Model::default());
    for step in 0..steps {
        let number = random.below(sessions);
        match random.below(100) {
            0..50 => {
                let known = Known(random.below(3) == 0, step);
                assert_eq!(group.put(member(number), known), model.put(number, known));
            }
            50..60 => {
                // Hidden or shown again, in its place.
                let flip = |known: &mut Known| known.0 = !known.0;
                if let Some(joined) = group.get_mut(session(number)) {
                    flip(&mut joined.meta);
                }
                let known = model.0.iter_mut().find(|(other, _)| *other == number);
                known.map(|(_, known)| flip(known)).unwrap_or_default();
            }
            60..98 => {
                let left: Option<GroupMember<Known>> = group.take(session(number));
                assert_eq!(left.as_ref().map(|joined| joined.meta), model.take(number));
                assert!(left.is_none_or(|joined| joined.member == member(number)));
            }
            _ => {
                let stays = random.below(sessions);
                for number in (0..sessions).filter(|number| *number != stays) {
                    let left = group.take(session(number)).map(|joined| joined.meta);
                    assert_eq!(left, model.take(number));
                }
            }
        }
        check(&group, &model, &mut random, sessions);
    }
}

#[test]
fn a_group_does_what_a_list_does() {
    for seed in 0..40 {
        // Around one, around where the index begins, and far beyond.
        for sessions in [2, 5, 20, 40, 120] {
            live(seed, sessions, 300);
        }
    }
}

/// What a broadcast runs over takes what a list of members would.
#[test]
fn a_place_is_no_larger_than_a_member() {
    assert_eq!(size_of::<Option<GroupMember<()>>>(), size_of::<Member>());
}

#[test]
fn a_group_that_shrinks_gives_its_memory_back_and_needs_none_for_one() {
    let mut group = Group::default();
    for number in 0..10_000 {
        group.put(member(number), ());
    }
    for number in 1..10_000 {
        group.take(session(number));
    }
    let super::Places::Many(many) = &group.places else { panic!("it has become one again") };
    assert!(many.places.capacity() <= 4 && many.index.is_empty(), "{}", many.places.capacity());
    group.take(session(0));
    assert_eq!(group.len(), 0);
    group.put(member(1), ());
    assert!(matches!(group.places, super::Places::One(_)));
}

/// Per member, taking out thousands costs what taking out a few does: counted in moves of places.
#[test]
fn many_leave_in_linear_time() {
    let mut group = Group::default();
    let count = 1 << 14;
    for number in 0..count {
        group.put(member(number), ());
    }
    // Looks at what is closed up: each time half of what is there, so all together as many as there
    // were.
    let mut moved = 0;
    for number in 0..count {
        let before = group.places().len();
        group.take(session(number));
        let after = group.places().len();
        if after != before {
            moved += before;
        }
    }
    assert!(group.is_empty());
    assert!(moved <= 2 * usize::try_from(count).unwrap(), "{moved} places were looked at");
}
