//! Many come and go at once: what one of them costs does not grow with how many they are. Told by
//! what is posted where that can be counted, else by CPU time: eight times as many may take 25
//! times as long (they take eight to ten; at quadratic cost it would be sixty-four).

use std::sync::Arc;
use std::time::Duration;

use event::ConnId;
use game::api::Disconnect;
use game::guest::Presence;
use game::match_id::MatchId;
use game::node::NodeId;
use game::stream::{SessionId, StreamId, StreamMeta, StreamRequest};
use server::mail::{
    CoreMail, Follow, Format, Member, RoomMail, RoomRequest, SessionAddress, SessionChanges,
    StreamMail, Topology,
};
use server::settings::Settings;
use uuid::Uuid;

use crate::rig::{Plan, Rig};

/// A session of a user of its own.
fn member(number: u32) -> Member {
    let id = |kind: u128| Uuid::from_u128(kind << 64 | u128::from(number));
    let (username, node) = (Arc::from("n"), NodeId::default());
    let presence = Presence { user_id: id(1), session_id: id(2), username, node };
    let conn = ConnId { slot: number, generation: 7 };
    let core = Topology::new(1, 1, 1).cores[0];
    let address = SessionAddress { core, conn };
    Member { presence, address, format: Format::Json }
}

/// How long `run` takes with so many, at best.
fn time(count: u32, run: impl Fn(&Rig, u32) -> Duration) -> Duration {
    // One user stands for many here.
    let tune: fn(&mut Settings) = |settings| {
        settings.limits.sockets_per_user = 0;
        settings.limits.relayed_matches_per_user = 0;
        settings.limits.requests_per_user_per_s = 0;
    };
    let rig = || Rig::with(&Plan { tune, ..Plan::default() });
    (0..4).map(|_| run(&rig(), count)).min().unwrap()
}

/// Eight times as many may cost 25 times as much, where each looking at all others costs 64 times. Other
/// processes take the caches away from one of the two, so there are several tries; who costs 64 times
/// costs it in all of them.
fn check(what: &str, run: impl Fn(&Rig, u32) -> Duration) {
    let mut measured = Vec::new();
    for _ in 0..4 {
        let (few, many) = (time(1_000, &run), time(8_000, &run));
        if many < few.max(Duration::from_millis(3)) * 25 {
            return;
        }
        measured.push((few, many));
    }
    panic!("{what}: for 1,000 and for 8,000: {measured:?}");
}

/// CPU time of this thread; where it cannot be read, nothing ever takes any. Source: proc(5).
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn ask(rig: &Rig, asks: Vec<RoomRequest>) -> Duration {
    let begun = cpu();
    rig.mail(rig.topology.rooms[0], RoomMail::Requests(asks));
    cpu().saturating_sub(begun)
}

fn follow(member: Member, users: Vec<Uuid>) -> RoomRequest {
    let (cid, found) = (Some(String::new()), Vec::new());
    RoomRequest::StatusFollow(Box::new(Follow { member, cid, users, found }))
}

fn closed(number: u32) -> RoomRequest {
    let Presence { user_id, session_id, .. } = member(number).presence;
    RoomRequest::Closed { session_id, user_id }
}

const STAR: Uuid = Uuid::from_u128(9);

#[test]
fn followers_of_one_user_come_and_go() {
    check("unfollow", |rig, count| {
        let follows = (0..count).map(|number| follow(member(number), vec![STAR])).collect();
        let unfollow = |number| RoomRequest::StatusUnfollow {
            member: member(number),
            cid: Some(String::new()),
            users: vec![STAR],
        };
        ask(rig, follows) + ask(rig, (0..count).map(unfollow).collect())
    });
    check("close", |rig, count| {
        let follows = (0..count).map(|number| follow(member(number), vec![STAR])).collect();
        ask(rig, follows) + ask(rig, (0..count).map(closed).collect())
    });
}

#[test]
fn one_user_opens_and_closes_sockets() {
    let own = |number| {
        let mut own = member(number);
        own.presence.user_id = STAR;
        own
    };
    check("sockets", |rig, count| {
        let opened = |number| RoomRequest::Opened { member: own(number), status: None };
        let closed = |number| {
            let session_id = own(number).presence.session_id;
            RoomRequest::Closed { session_id, user_id: STAR }
        };
        ask(rig, (0..count).map(opened).collect()) + ask(rig, (0..count).map(closed).collect())
    });
}

#[test]
fn a_large_match_loses_nearly_all_its_members() {
    let rig = Rig::new();
    let (count, id) = (300, MatchId::relayed(Uuid::from_u128(5)));
    let create =
        |number| RoomRequest::MatchCreate { member: member(number), cid: String::new(), id };
    ask(&rig, (0..count).map(create).collect());
    rig.settle();
    let before = rig.stat("presence_event_count");
    ask(&rig, (1..count).map(closed).collect());
    let events = rig.stat("presence_event_count") - before;
    assert!((1..=2).contains(&events), "{events} events for those who stay");
    assert_eq!(rig.stat("presences"), 1);
    ask(&rig, vec![closed(0)]);
    assert_eq!((rig.stat("presences"), rig.stat("relayed_matches")), (0, 0));
}

/// Whoever stays hears of all who go at once together, once from each match that he is in: that costs as
/// much for eight times as many, but for the events that are eight times as long.
#[test]
fn those_who_go_at_once_are_told_together_by_each_match() {
    let events = |count: u32| {
        let rig = Rig::new();
        for at in 0..4 {
            let id = MatchId::relayed(Uuid::from_u128(at));
            let create = |number| RoomRequest::MatchCreate {
                member: member(number),
                cid: String::new(),
                id,
            };
            ask(&rig, (0..count).map(create).collect());
        }
        let before = rig.stat("presence_event_count");
        ask(&rig, (1..count).map(closed).collect());
        assert_eq!(rig.stat("presences"), 4);
        rig.stat("presence_event_count") - before
    };
    assert_eq!([events(50), events(400)], [4, 4 * 2]);
}

/// A script takes a session into a stream.
fn enter(number: u32, is_hidden: bool) -> StreamMail {
    let member = member(number);
    let Presence { user_id, session_id, .. } = member.presence;
    let stream =
        StreamId { mode: 100, subject: STAR, subcontext: Uuid::nil(), label: Arc::from("") };
    let meta = StreamMeta { is_hidden, ..StreamMeta::default() };
    let request = StreamRequest::Join(SessionId { user_id, session_id }, meta);
    StreamMail { stream, request, member: Some(member), reply: None }
}

#[test]
fn members_of_one_stream_come_and_go() {
    check("streams", |rig, count| {
        let begun = cpu();
        // Hidden: otherwise each hears of each, which cannot be had for less.
        let enter = (0..count).map(|number| enter(number, true)).collect();
        rig.mail(rig.topology.rooms[0], RoomMail::Streams(enter));
        let took = cpu().saturating_sub(begun);
        assert_eq!(rig.stat("presences"), u64::from(count));
        let took = took + ask(rig, (0..count).map(closed).collect());
        assert_eq!((rig.stat("presences"), rig.stat("streams")), (0, 0));
        took
    });
}

#[test]
fn a_large_stream_gathers_and_loses_nearly_all_its_members() {
    let rig = Rig::new();
    let events = || rig.stat("presence_event_count");
    let all = (0..300).map(|number| enter(number, false)).collect();
    rig.mail(rig.topology.rooms[0], RoomMail::Streams(all));
    assert_eq!((rig.stat("presences"), events()), (300, 2), "256 and the others");
    ask(&rig, (1..300).map(closed).collect());
    assert_eq!((rig.stat("presences"), events()), (1, 4));
    ask(&rig, vec![closed(0)]);
    assert_eq!((rig.stat("presences"), rig.stat("streams"), events()), (0, 0, 4));
}

/// A script bans thousands while thousands of others play.
#[test]
fn banning_looks_at_the_banned_alone() {
    check("bans", |rig, count| {
        let (_, token) = rig.login("ada");
        for _ in 0..count / 8 {
            rig.socket(0, &token, "");
        }
        let users = (0..count).map(|number| (member(number).presence.user_id, Disconnect::Banned));
        let session_changes =
            Arc::new(SessionChanges { users: users.collect(), ..SessionChanges::default() });
        let begun = cpu();
        rig.mail(rig.topology.cores[0], CoreMail::Sessions(session_changes));
        cpu().saturating_sub(begun)
    });
}
