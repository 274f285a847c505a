//! Several nodes, as far as one of them can be looked at by itself: they agree on where a group lives,
//! mail to another one goes to the gate, and what may go there is read as it was written. Not here: two
//! that talk to one another (`cluster`).

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, ThreadId};
use game::guest::Presence;
use game::match_id::MatchId;
use game::node::{Incarnation, Nodes};
use game::notifications::Sent;
use game::stream::{Payer, SessionId, StreamId, StreamMessage, StreamMeta, StreamRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use server::mail::{
    Asker, Chase, CloseCause, CoreMail, Delivery, Follow, Format, MatchInput, Member, News,
    RoomAnswer, RoomError, RoomMail, RoomRequest, SessionAddress, Signaller, StreamMail, Then,
    Topology, Waiter, WorkerAddress,
};
use uuid::Uuid;
use wire::nakama::Envelope;
use wire::nakama::api::Notification;
use wire::nakama::realtime::{Message, StreamData};

use crate::rig::{Plan, Rig};

/// A node of the cluster a, b, c, all of which live; a has one core and room, b two, c three.
fn topology(here: &str) -> Topology {
    let names = ["a", "b", "c"];
    let threads = |name: &str| 1 + u16::from(name.as_bytes()[0] - b'a');
    let of = |name: &str| {
        let nodes = Nodes::new(&names, name, Incarnation(1)).unwrap();
        Topology::of_node(nodes, (threads(name), threads(name), 1))
    };
    names.iter().filter(|other| **other != here).fold(of(here), |topology, other| {
        let node = topology.nodes.named(other).unwrap();
        topology.with_node(node, Incarnation(1), Some(of(other).as_peer())).unwrap()
    })
}

fn member(topology: &Topology) -> Member {
    let presence = Presence {
        user_id: Uuid::from_u128(1),
        session_id: Uuid::from_u128(2),
        username: Arc::from("n"),
        node: topology.nodes.here(),
    };
    let conn = ConnId { slot: 3, generation: 4 };
    Member {
        presence,
        address: SessionAddress { core: topology.cores[0], conn },
        format: Format::Protobuf,
    }
}

/// Reads what was written, all of it, as the same.
fn there<M: Serialize + DeserializeOwned + Debug>(mail: &M) {
    let bytes = postcard::to_stdvec(mail).unwrap();
    let (read, rest): (M, _) = postcard::take_from_bytes(&bytes).unwrap();
    assert_eq!(format!("{read:?}"), format!("{mail:?}"));
    assert!(rest.is_empty(), "{} bytes too many: {mail:?}", rest.len());
}

fn streams(topology: &Topology) -> Vec<StreamMail> {
    let stream = StreamId {
        mode: 9,
        subject: Uuid::from_u128(7),
        subcontext: Uuid::nil(),
        label: "l".into(),
    };
    let session = SessionId { user_id: Uuid::from_u128(1), session_id: Uuid::from_u128(2) };
    let data = StreamData { stream: None, data: "d".to_owned(), reliable: true, sender: None };
    let message = StreamMessage {
        envelope: Envelope { cid: String::new(), message: Some(Message::StreamData(data)) },
        bytes: 5,
        to: Some(vec![Uuid::from_u128(3)]),
        is_reliable: true,
        payer: Payer::default(),
    };
    let worker = Asker::Worker(WorkerAddress::Batcher(topology.batcher));
    let wish = |request| StreamMail {
        stream: stream.clone(),
        request,
        member: Some(member(topology)),
        reply: Some(Waiter { who: worker, request: 8 }),
    };
    vec![
        wish(StreamRequest::Join(session, StreamMeta::default())),
        wish(StreamRequest::Send(Box::new(message))),
        wish(StreamRequest::Close),
    ]
}

fn requests(topology: &Topology) -> Vec<RoomRequest> {
    let (member, cid) = (member(topology), "1".to_owned());
    let id = MatchId::authoritative(Uuid::from_u128(9), topology.nodes.named("c").unwrap());
    let input = MatchInput {
        session_id: Uuid::from_u128(2),
        id,
        op_code: -1,
        data: Bytes::from_static(b"\0\xff"),
        to: [1, 2, 3].map(Uuid::from_u128).into_iter().collect(),
        reliable: true,
        by_datagram: false,
        receive_time_ms: 1 << 40,
    };
    let follow = Follow {
        member: member.clone(),
        cid: Some(cid.clone()),
        users: vec![Uuid::from_u128(5)],
        found: Vec::new(),
    };
    vec![
        RoomRequest::Opened { member: member.clone(), status: Some(Box::from("s")) },
        RoomRequest::MatchLeave { member: member.clone(), cid: cid.clone(), id },
        RoomRequest::MatchData(Box::new(input)),
        RoomRequest::StatusUpdate { member, cid, status: Some("s".to_owned()) },
        RoomRequest::StatusFollow(Box::new(follow)),
    ]
}

/// Each kind that is not skipped: with one that is before it, `serde` would read another kind.
#[test]
fn what_goes_to_another_node_is_read_as_it_was_written() {
    let topology = topology("b");
    let from = Waiter { who: Asker::Room(topology.rooms[1]), request: 1 };
    let (id, data) = (Uuid::from_u128(6), Bytes::from_static(b"d"));
    let notifications = vec![Notification { subject: "s".to_owned(), ..Notification::default() }];
    let sent = Sent { to: Some(id), notifications, is_of_users: true, forgotten: 2 };
    there(&RoomMail::Requests(requests(&topology)));
    let by = Signaller { id, plays: Some(from) };
    there(&RoomMail::Signal { from, by: Some(Box::new(by)), id, data });
    there(&RoomMail::TakeBack { from, id });
    let (before, last) = (Some(from), (id, from));
    let chase = Chase { by, from, before, is_nested: true, last, steps_left: 1 };
    there(&RoomMail::Chase { id, chase: Box::new(chase) });
    let node = topology.nodes.here();
    there(&RoomMail::Answer { node, request: 4, outcome: Err(RoomError::Silent) });
    there(&RoomMail::Notify(vec![sent]));
    there(&RoomMail::Streams(streams(&topology)));

    let frame = Bytes::from_static(b"frame");
    let to = (1..4).map(|slot| ConnId { slot, generation: 1 }).collect();
    let delivery = Delivery { frame, to, then: Then::Close(CloseCause::MatchFailed) };
    there(&CoreMail::WakeUp);
    there(&CoreMail::Deliver(vec![delivery]));
    let wish = Box::new(streams(&topology).remove(0));
    there(&CoreMail::Forward(Box::new(RoomRequest::Stream(wish))));
    let text = RoomAnswer::Text(Bytes::from_static(b"t"));
    there(&News::Answer { node, request: 3, outcome: Ok(text) });
}

#[test]
fn what_stays_on_its_node_cannot_be_written() {
    let topology = topology("a");
    assert!(postcard::to_stdvec(&CoreMail::Drained).is_err());
    assert!(postcard::to_stdvec(&RoomMail::Drain { core: topology.cores[0] }).is_err());
    assert!(postcard::to_stdvec(&News::Returned(Vec::new())).is_err());
}

#[test]
fn all_nodes_agree_on_where_a_group_lives_and_each_has_its_share() {
    let all = ["a", "b", "c"].map(topology);
    let mut shares = [0; 3];
    for number in 0..3_000 {
        let id = Uuid::from_u128(number);
        let homes = all.each_ref().map(|topology| topology.room_of(id));
        assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
        let place = usize::from(homes[0].node().number());
        assert!(all[place].rooms.contains(&homes[0]), "{:?} is no room", homes[0]);
        shares[place] += 1;
    }
    assert!(shares.iter().all(|share| (800..1_200).contains(share)), "{shares:?}");
}

#[test]
fn a_match_lives_on_the_node_that_its_id_names() {
    let [a, c] = ["a", "c"].map(topology);
    let id = MatchId::authoritative(Uuid::from_u128(1), c.nodes.here());
    assert!(c.rooms.contains(&a.room_of_match(id)));
    assert_eq!(a.room_of_match(id), c.room_of_match(id));
    assert_eq!(MatchId::parse(&id.text(&c.nodes), &a.nodes), Ok(id));
}

#[test]
fn mail_to_another_node_goes_to_the_gate_and_mail_to_this_one_does_not() {
    let topology = topology("a");
    let there = topology.nodes.named("b").unwrap();
    let room = topology.rooms_at(there).next().unwrap();
    let mail = || RoomMail::Cancel { id: Uuid::nil() };
    let (to, parcel) = room.seal(&topology, mail());
    assert_eq!((Some(to), parcel.kind()), (topology.gate().map(ThreadId::from), "parcel"));
    let (to, mail) = topology.rooms[0].seal(&topology, mail());
    assert_eq!((to, mail.kind()), (topology.rooms[0].thread(), "cancel"));
    assert!(Topology::new(1, 1, 1).gate().is_none(), "a node that is alone has no gate");
}

#[test]
fn what_lives_on_a_node_that_is_away_is_refused_at_once() {
    let nodes = Nodes::new(&["node1", "node2"], "node1", Incarnation(1)).unwrap();
    let rig = Rig::with(&Plan { nodes: Some(nodes), ..Plan::default() });
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    let is_here = |name: &String| {
        let id = MatchId::named(name);
        rig.topology.is_here(rig.topology.room_of_match(id))
    };
    let names = || (0..).map(|number| format!("name{number}"));
    let (ours, theirs) = (names().find(is_here).unwrap(), names().find(|name| !is_here(name)));
    let create = |name: &str| {
        rig.say(socket, &format!(r#"{{"cid":"1","match_create":{{"name":"{name}"}}}}"#))
    };
    let refused = create(&theirs.unwrap());
    assert!(refused.len() == 1 && refused[0].contains("is away"), "{refused:?}");
    assert!(refused[0].contains(r#""cid":"1""#), "{refused:?}");
    let made = create(&ours);
    assert!(made[0].contains(r#""cid":"1","match""#), "{made:?}");
}
