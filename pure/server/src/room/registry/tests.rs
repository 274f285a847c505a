//! The registry against the plainest list that does the same, in thousands of random steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use event::{ConnId, Random};
use game::guest::Presence;
use game::node::NodeId;
use game::stream::{StreamId, StreamMeta};
use uuid::Uuid;

use super::{Key, Streams};
use crate::mail::{Format, Member, SessionAddress, Topology};
use crate::stats::RoomStats;

const SESSIONS: u32 = 12;

fn user(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number / 3))
}

fn session(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) + 1_000)
}

fn member(number: u32) -> Member {
    let (user_id, session_id) = (user(number), session(number));
    let (username, node) = (Arc::from("n"), NodeId::default());
    let presence = Presence { user_id, session_id, username, node };
    let conn = ConnId { slot: number, generation: 1 };
    let core = Topology::new(1, 1, 1).cores[0];
    Member { presence, address: SessionAddress { core, conn }, format: Format::Json }
}

fn meta(is_hidden: bool) -> StreamMeta {
    StreamMeta { is_hidden, ..StreamMeta::default() }
}

/// Any stream that this session may be in: of users, their own.
fn key(random: &mut Random, number: u32) -> Key {
    let id = Uuid::from_u128(u128::from(random.below(3)));
    match random.below(4) {
        0 => Key::User(user(number)),
        1 => Key::Relayed(id),
        2 => Key::Authoritative(id),
        _ => {
            let label = Arc::from("label");
            let (subject, subcontext) = (Uuid::nil(), id);
            Key::Scripts(Arc::new(StreamId { mode: 100, subject, subcontext, label }))
        }
    }
}

/// The same in lists in the order of joining, by stream.
#[derive(Default)]
struct Model {
    streams: BTreeMap<Key, Vec<(u32, bool)>>,
    follows: BTreeSet<(Uuid, u32)>,
}

impl Model {
    fn leave(&mut self, key: &Key, number: u32) -> bool {
        let Some(members) = self.streams.get_mut(key) else { return false };
        let before = members.len();
        members.retain(|(other, _)| *other != number);
        let has_left = members.len() < before;
        if members.is_empty() {
            self.streams.remove(key);
        }
        has_left
    }

    /// In how many streams somebody is, of those that count.
    fn count(&self, is_counted: impl Fn(&Key) -> bool, is_meant: impl Fn(u32) -> bool) -> usize {
        let all = self.streams.iter().filter(|(key, _)| is_counted(key));
        all.flat_map(|(_, members)| members).filter(|(number, _)| is_meant(*number)).count()
    }
}

fn check(streams: &Streams, model: &Model, stats: &RoomStats) {
    assert!(streams.all.keys().eq(model.streams.keys()), "streams that somebody is in");
    for (key, members) in &model.streams {
        let found = streams.get(key).unwrap().members.iter();
        let found = found.map(|one| (one.member.address.conn.slot, one.meta.meta.is_hidden));
        assert_eq!(found.collect::<Vec<_>>(), *members, "{key:?}");
        assert_eq!(streams.count(key), members.len());
    }
    let is_joined = |key: &Key| !matches!(key, Key::User(_));
    let of_kind = |is_counted: fn(&Key) -> bool| {
        model.streams.keys().filter(|key| is_counted(key)).count() as u64
    };
    assert_eq!(stats.presences.read(), model.count(is_joined, |_| true) as u64);
    assert_eq!(stats.streams.read(), of_kind(|key| matches!(key, Key::Scripts(_))));
    assert_eq!(stats.relayed_matches.read(), of_kind(|key| matches!(key, Key::Relayed(_))));
    for number in 0..SESSIONS {
        let is_it = |other| other == number;
        assert_eq!(streams.count_of_session(session(number)), model.count(is_joined, is_it));
        let is_known = streams.member(user(number), session(number)).is_some();
        assert_eq!(is_known, model.count(|_| true, is_it) > 0);
        assert_eq!(streams.member(Uuid::max(), session(number)), None, "of another user");
        let of_user = |other| user(other) == user(number);
        let relayed = model.count(|key| matches!(key, Key::Relayed(_)), of_user);
        let nothing = Key::Relayed(Uuid::max());
        assert_eq!(streams.count_of_user(&nothing, user(number)) as usize, relayed);
    }
    for user_id in (0..4).map(Uuid::from_u128) {
        let sockets = model.streams.get(&Key::User(user_id)).map_or(0, Vec::len);
        let followers = model.follows.iter().filter(|(followed, _)| *followed == user_id).count();
        assert_eq!(streams.listeners(user_id).count(), sockets + followers);
    }
}

#[test]
fn it_does_what_plain_lists_do() {
    let (stats, mut model) = (Arc::new(RoomStats::default()), Model::default());
    let (mut streams, mut random) = (Streams::new(stats.clone()), Random::from_number(7));
    for _ in 0..10_000 {
        let number = random.below(SESSIONS);
        let (key, is_hidden) = (key(&mut random, number), random.below(3) == 0);
        match random.below(10) {
            0..=4 => {
                let members = model.streams.entry(key.clone()).or_default();
                let known = members.iter_mut().find(|(other, _)| *other == number);
                let was = known.map(|(_, was)| std::mem::replace(was, is_hidden));
                if was.is_none() {
                    members.push((number, is_hidden));
                }
                assert_eq!(streams.join(&key, &member(number), meta(is_hidden)), was.map(meta));
            }
            5..=6 => {
                let left = streams.leave(&key, &[session(number), Uuid::max()]);
                assert_eq!(left.len() == 1, model.leave(&key, number));
            }
            7 => {
                // Its socket closes.
                let mut keys = streams.forget(session(number)).into_vec();
                keys.push(Key::User(user(number)));
                for key in keys {
                    let is_user = matches!(key, Key::User(_));
                    let left = streams.leave(&key, &[session(number)]);
                    assert!(left.len() == 1 || is_user, "{key:?}");
                    model.leave(&key, number);
                }
                model.follows.retain(|(_, follower)| *follower != number);
                assert_eq!(model.count(|_| true, |other| other == number), 0);
            }
            8 if is_hidden => {
                let closed = streams.close(&key).len();
                assert_eq!(closed, model.streams.remove(&key).map_or(0, |members| members.len()));
            }
            8 => {
                let others = user(random.below(SESSIONS));
                let follows = model.follows.iter().filter(|(_, other)| *other == number).count();
                let may = follows < 2 || model.follows.contains(&(others, number));
                assert_eq!(streams.follow(others, &member(number), 2), may);
                if may {
                    model.follows.insert((others, number));
                }
            }
            _ => {
                let others = user(random.below(SESSIONS));
                streams.unfollow(others, session(number));
                model.follows.remove(&(others, number));
            }
        }
        check(&streams, &model, &stats);
    }
}

/// Nothing is kept of who is in nothing.
#[test]
fn nothing_is_left_of_who_is_gone() {
    let (mut streams, mut random) = (Streams::new(Arc::default()), Random::from_number(8));
    for number in 0..SESSIONS {
        for _ in 0..20 {
            let key = key(&mut random, number);
            streams.join(&key, &member(number), meta(false));
        }
        assert!(streams.follow(Uuid::nil(), &member(number), 99));
    }
    for number in 0..SESSIONS {
        for key in streams.forget(session(number)) {
            streams.leave(&key, &[session(number)]);
        }
        streams.leave(&Key::User(user(number)), &[session(number)]);
    }
    let Streams { all, sessions, followers, relayed_of, scripts_of, .. } = &streams;
    assert!(all.is_empty() && sessions.is_empty() && followers.is_empty());
    assert!(relayed_of.is_empty() && scripts_of.is_empty());
}

#[test]
fn the_stream_of_a_user_with_one_socket_is_small() {
    // 112 is one of mimalloc's sizes; the next one is 128.
    assert!(size_of::<super::Stream>() <= 112, "{} bytes", size_of::<super::Stream>());
}
