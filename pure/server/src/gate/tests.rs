//! Two gates and the bytes between them; and bytes that no gate has written.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use event::{ConnId, Handler as _, Input, Now, Output, Random, ThreadId};
use game::cache::{Cache, Writer};
use game::directory::{Directory, DirectoryEvent, MatchInfo, Version};
use game::guest::{FollowWish, Presence};
use game::match_id::MatchId;
use game::node::{Incarnation, NodeId, Nodes};
use game::notifications::Sent;
use game::session::Revocation;
use game::value::Value;
use uuid::Uuid;

use super::letter::Body;
use super::{Gate, LETTER_BYTES_MAX, LetterError, NodeNews, Way, letter};
use crate::mail::{
    Address, Asker, Chase, CoreMail, Delivery, Format, GateMail, Mail, Member, News, RoomError,
    RoomMail, RoomRequest, SessionAddress, SessionChanges, Signaller, StreamMail, Then, Topology,
    Waiter, WorkerAddress,
};
use crate::stats::GateStats;

const NAMES: [&str; 3] = ["a", "b", "c"];
const NOW: Now = Now { mono_ns: 0, unix_ms: 1_000_000 };

type Letters = Receiver<(NodeId, Option<Vec<u8>>)>;

struct Post(Sender<(NodeId, Option<Vec<u8>>)>);

impl Way for Post {
    fn send(&mut self, to: NodeId, letter: Vec<u8>) {
        self.0.send((to, Some(letter))).unwrap();
    }

    fn part(&mut self, from: NodeId) {
        self.0.send((from, None)).unwrap();
    }
}

/// A gate, what it sends, and its counters. It knows that all nodes live.
struct Side {
    gate: Gate,
    letters: Letters,
    stats: Arc<GateStats>,
}

fn alone(name: &str, life: u32) -> Topology {
    let nodes = Nodes::new(&NAMES, name, Incarnation(life)).unwrap();
    Topology::of_node(nodes, (2, 3, 2)).with_events()
}

impl Side {
    fn new(name: &str) -> Self {
        let (to_letters, letters) = channel();
        let stats: Arc<GateStats> = Arc::default();
        let way = Box::new(Post(to_letters));
        let gate = Gate::new(Arc::new(alone(name, 1)), way, stats.clone());
        let mut side = Self { gate, letters, stats };
        for other in NAMES.iter().filter(|other| **other != name) {
            side.tell_of(other, 1);
        }
        side
    }

    fn tell_of(&mut self, name: &str, life: u32) -> Vec<(ThreadId, Mail)> {
        let peer = (life > 0).then(|| alone(name, life).as_peer());
        let news = NodeNews { name: name.to_owned(), life: Incarnation(life), peer };
        self.put(GateMail::Node(Box::new(news)))
    }

    fn put(&mut self, mail: GateMail) -> Vec<(ThreadId, Mail)> {
        let (me, topology) = (self.gate.me, Arc::clone(&self.gate.topology));
        let mut out = Output::default();
        self.gate.handle(NOW, Input::Mail(me.seal(&topology, mail).1), &mut out);
        out.take_posts().map(|(to, mail, _)| (to, mail)).collect()
    }

    fn topology(&self) -> &Topology {
        &self.gate.topology
    }

    fn here(&self) -> NodeId {
        self.topology().nodes.here()
    }

    fn open(&mut self, from: NodeId, bytes: &[u8]) -> Vec<(ThreadId, Mail)> {
        self.put(GateMail::Letter { from, bytes: bytes.to_vec() })
    }
}

fn sides() -> [Side; 2] {
    ["a", "b"].map(Side::new)
}

fn member(of: &Topology) -> Member {
    let (user_id, session_id) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let presence = Presence { user_id, session_id, username: "n".into(), node: of.nodes.here() };
    let address = SessionAddress { core: of.cores[1], conn: ConnId { slot: 3, generation: 4 } };
    Member { presence, address, format: Format::Json }
}

fn opened(member: Member) -> RoomMail {
    RoomMail::Requests(vec![RoomRequest::Opened { member, status: None }])
}

fn created(of: NodeId, by: NodeId) -> DirectoryEvent {
    DirectoryEvent::MatchCreated {
        id: MatchId::authoritative(Uuid::from_u128(5), of),
        version: Version { node: by, number: 1 },
        info: Arc::new(MatchInfo::authoritative("m".into(), 1, "{}", 1)),
        size: 0,
    }
}

fn answer(node: NodeId) -> News {
    News::Answer { node, request: 1, outcome: Err(RoomError::NotFound) }
}

fn delivery() -> CoreMail {
    let to = [ConnId { slot: 1, generation: 2 }].into_iter().collect();
    CoreMail::Deliver(vec![Delivery { frame: Bytes::from_static(b"f"), to, then: Then::Nothing }])
}

/// One of each that may leave, from `a` to `b`.
fn samples(a: &mut Side, b: &Side) -> Vec<Vec<u8>> {
    let (from, to) = (a.topology().clone(), b.topology());
    let waiter = |who| Waiter { who, request: 7 };
    let here = waiter(Asker::Room(from.rooms[0]));
    let there = waiter(Asker::Worker(WorkerAddress::Caller(to.callers[1])));
    let id = Uuid::from_u128(9);
    let room = |mail| to.rooms[2].seal(&from, mail);
    let stream =
        game::stream::StreamId { mode: 9, subject: id, subcontext: Uuid::nil(), label: "l".into() };
    let request = game::stream::StreamRequest::Count;
    let wish = StreamMail { stream, request, member: Some(member(&from)), reply: Some(there) };
    let mut cache = Cache::new(Writer { node: from.nodes.here(), thread: 1 });
    cache.put(NOW, "key", Value::List(vec![Value::Nil, Value::Float(0.5)]), 0).unwrap();
    let changes = Arc::from(cache.take_changes());
    let events = Arc::from([created(from.nodes.here(), from.nodes.here())]);
    let revocations = vec![Revocation::Banned { user_id: id }];
    let follows = vec![FollowWish { session_id: id, users: vec![id], follows: true }];
    let session_changes =
        SessionChanges { revocations, follows, sessions: vec![id], users: Vec::new() };
    let gate = from.gate().unwrap();
    let by = Signaller { id, plays: Some(there) };
    let (before, last) = (Some(here), (id, there));
    let chase = Chase { by, from: there, before, is_nested: true, last, steps_left: 3 };
    let notices = vec![Sent { to: Some(id), ..Sent::default() }];
    let mails = vec![
        to.cores[1].seal(&from, delivery()),
        to.cores[0].seal(
            &from,
            CoreMail::Forward(Box::new(RoomRequest::MatchLeave {
                member: member(to),
                cid: "1".into(),
                id: MatchId::relayed(id),
            })),
        ),
        room(opened(member(&from))),
        room(RoomMail::Signal {
            from: here,
            by: Some(Box::new(by)),
            id,
            data: Bytes::from_static(b"d"),
        }),
        room(RoomMail::Chase { id, chase: Box::new(chase) }),
        room(RoomMail::Answer {
            node: from.nodes.here(),
            request: 1,
            outcome: Err(RoomError::Silent),
        }),
        room(RoomMail::Streams(vec![wish])),
        room(RoomMail::Notify(notices)),
        WorkerAddress::Hasher(to.hasher).seal(&from, answer(from.nodes.here())),
        gate.seal(&from, GateMail::Sessions(Arc::new(session_changes))),
        gate.seal(&from, GateMail::Directory(events)),
        gate.seal(&from, GateMail::Cache(changes)),
    ];
    let mut letters = Vec::new();
    for (thread, mail) in mails {
        assert_eq!(thread, gate.thread());
        let mail = gate.open(mail);
        a.put(mail);
        letters.extend(a.letters.try_iter().filter(|(node, _)| *node == b.here()));
    }
    letters.into_iter().map(|(_, letter)| letter.unwrap()).collect()
}

/// Whether each mail is of the kind that its thread takes.
fn is_well_addressed(topology: &Topology, mails: Vec<(ThreadId, Mail)>) {
    for (to, mail) in mails {
        // They panic at what is not theirs.
        if let Some(core) = topology.cores.iter().find(|core| core.thread() == to) {
            drop(core.open(mail));
        } else if let Some(room) = topology.rooms.iter().find(|room| room.thread() == to) {
            drop(room.open(mail));
        } else if topology.lister.thread() == to {
            drop(topology.lister.open(mail));
        } else {
            let worker = topology.workers().find(|worker| worker.thread() == to);
            match worker.unwrap() {
                WorkerAddress::Batcher(it) => drop(it.open(mail)),
                WorkerAddress::Caller(it) => drop(it.open(mail)),
                WorkerAddress::Hasher(it) => drop(it.open(mail)),
                WorkerAddress::Events(it) => drop(it.open(mail)),
            }
        }
    }
}

#[test]
fn what_leaves_one_node_comes_to_the_threads_of_the_other() {
    let [mut a, mut b] = sides();
    let letters = samples(&mut a, &b);
    let kinds: Vec<Vec<(u16, &str)>> = letters
        .iter()
        .map(|letter| {
            let mails = b.open(a.here(), letter);
            mails.iter().map(|(to, mail)| (to.0, mail.kind())).collect()
        })
        .collect();
    let each = |threads: &[u16], kind| threads.iter().map(|to| (*to, kind)).collect::<Vec<_>>();
    // Cores 0, 1; rooms 2, 3, 4; lister 5; batcher 6; callers 7, 8; hasher 9; events 10.
    let expected = [
        each(&[1], "deliver"),
        each(&[0], "forward"),
        each(&[4], "requests"),
        each(&[4], "signal"),
        each(&[4], "chase"),
        each(&[4], "answer"),
        each(&[4], "streams"),
        each(&[4], "notify"),
        each(&[9], "answer"),
        each(&[0, 1], "sessions"),
        each(&[2, 3, 4, 6, 7, 8, 9, 10, 5], "directory"),
        each(&[2, 3, 4, 6, 7, 8, 9, 10], "cache"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(b.stats.node_letters_opened.read(), 12);
    assert_eq!((b.stats.node_letters_refused.read(), b.stats.node_letters_late.read()), (0, 0));
}

/// Whether `b` takes this from `a`; if not, it wants to part with it.
fn is_taken(b: &mut Side, from: &Topology, body: Body) -> bool {
    let (mut pieces, nodes) = (Vec::new(), &from.nodes);
    assert_eq!(letter::write(body, &mut pieces), 0);
    let head = letter::Head::of(nodes, nodes.here(), nodes.named("b").unwrap());
    let refused = b.stats.node_letters_refused.read();
    let mails = b.open(nodes.here(), &letter::with_head(head, &pieces[0]));
    let is_refused = b.stats.node_letters_refused.read() > refused;
    assert_eq!(b.letters.try_iter().count(), usize::from(is_refused), "it is to be parted with");
    assert_eq!(mails.is_empty(), is_refused);
    !is_refused
}

#[test]
fn a_node_speaks_for_its_own_sessions_alone() {
    let [a, mut b] = sides();
    let (from, to, third) = (a.topology().clone(), b.topology().clone(), alone("c", 1));
    let (there, id) = (to.nodes.here(), Uuid::from_u128(1));
    let mut other = member(&from);
    other.address.core = address(there, to.cores[0].thread().0);
    let mut no_core = member(&to);
    no_core.address.core = address(there, to.rooms[0].thread().0);
    let signal = |who| {
        let from = Waiter { who, request: 1 };
        RoomMail::Signal { from, by: None, id, data: Bytes::new() }
    };
    let leave = |member| {
        let (cid, id) = (String::new(), MatchId::relayed(id));
        CoreMail::Forward(Box::new(RoomRequest::MatchLeave { member, cid, id }))
    };
    let room = to.rooms[0];
    let mut takes = |body| is_taken(&mut b, &from, body);
    assert!(takes(Body::Room(room, opened(member(&from)))));
    assert!(!takes(Body::Room(room, opened(member(&to)))), "a session of ours");
    assert!(!takes(Body::Room(room, opened(member(&third)))), "a session of a third node");
    assert!(!takes(Body::Room(room, opened(other))), "a presence of theirs with our socket");
    assert!(!takes(Body::Room(from.rooms[0], opened(member(&from)))), "another node's room");
    assert!(!takes(Body::Room(address(there, 0), opened(member(&from)))), "a core as a room");
    assert!(takes(Body::Core(to.cores[0], leave(member(&to)))));
    assert!(!takes(Body::Core(to.cores[0], leave(member(&from)))), "a session of theirs");
    assert!(!takes(Body::Core(to.cores[0], leave(no_core))), "a socket of a room");
    let CoreMail::Deliver(mut frames) = delivery() else { panic!("no delivery") };
    frames[0].then = Then::ByDatagram { drops: false };
    assert!(
        !takes(Body::Core(to.cores[0], CoreMail::Deliver(frames))),
        "what a room of ours makes"
    );
    assert!(takes(Body::Room(room, signal(Asker::Room(third.rooms[0])))), "a question passed on");
    assert!(!takes(Body::Room(room, signal(Asker::Room(address(there, 0))))), "a core that asks");
}

#[test]
fn a_node_speaks_for_its_own_matches_users_and_entries_alone() {
    let [a, mut b] = sides();
    let (from, to, third) = (a.topology().clone(), b.topology().clone(), alone("c", 1));
    let (here, there, id) = (from.nodes.here(), to.nodes.here(), Uuid::from_u128(1));
    let event = |of, by| Body::Directory(Arc::from([created(of, by)]));
    // Of a third node's room, and of a thread that is no room.
    let page = |node, thread| {
        let mut directory = Directory::default();
        directory.apply(&DirectoryEvent::UserOnline { user_id: id, session_id: id });
        let key = game::directory::RoomKey { node, thread };
        Body::Directory(directory.take_online_changes(key).collect())
    };
    let change = |node, now| {
        let mut cache = Cache::new(Writer { node, thread: 1 });
        cache.put(now, "k", Value::Int(1), 0).unwrap();
        Body::Cache(Arc::from(cache.take_changes()))
    };
    let no_batcher = address(there, to.hasher.thread().0);
    let mut takes = |body| is_taken(&mut b, &from, body);
    assert!(takes(event(here, here)));
    assert!(!takes(event(here, third.nodes.here())));
    assert!(!takes(event(there, here)));
    let online = DirectoryEvent::UserOnline { user_id: id, session_id: id };
    assert!(!takes(Body::Directory(Arc::from([online]))), "what a room tells itself");
    let room = from.rooms[2].thread().0;
    assert!(takes(page(here, room)));
    assert!(!takes(page(third.nodes.here(), room)) && !takes(page(here, 99)));
    assert!(takes(change(here, NOW)));
    assert!(!takes(change(third.nodes.here(), NOW)));
    assert!(!takes(change(here, NOW.after_ms(3_600_000))), "a clock that is far ahead");
    let batcher = WorkerAddress::Batcher(to.batcher);
    assert!(takes(Body::Worker(batcher, answer(here))));
    assert!(!takes(Body::Worker(WorkerAddress::Batcher(no_batcher), answer(here))));
    assert!(!takes(Body::Worker(batcher, answer(third.nodes.here()))), "a third node's answer");
    let said = |node| RoomMail::Answer { node, request: 1, outcome: Err(RoomError::Silent) };
    assert!(takes(Body::Room(to.rooms[0], said(here))));
    assert!(!takes(Body::Room(to.rooms[0], said(third.nodes.here()))), "a third node's answer");
    assert!(!takes(Body::Room(to.rooms[0], said(there))), "an answer of ours");
}

/// An address as a letter may have it.
fn address<M>(node: NodeId, thread: u16) -> Address<M> {
    postcard::from_bytes(&postcard::to_stdvec(&(node, thread)).unwrap()).unwrap()
}

#[test]
fn nothing_of_a_life_that_is_over_is_taken_for_the_present_one() {
    let [mut a, mut b] = sides();
    let letters = samples(&mut a, &b);
    let old = a.here();
    assert!(!b.tell_of("a", 0).is_empty());
    assert_eq!(b.open(old, &letters[0]).len(), 0);
    assert!(!b.tell_of("a", 2).is_empty());
    let new = b.topology().nodes.named("a").unwrap();
    assert_eq!((b.open(old, &letters[0]).len(), b.open(new, &letters[0]).len()), (0, 0));
    assert_eq!(b.stats.node_letters_late.read(), 3);
    assert_eq!(b.tell_of("a", 1).len(), 0, "a life that is over does not come back");
    // Nor is anything sent to it.
    let to = a.topology().cores[0].seal(b.topology(), delivery());
    let mail = b.gate.me.open(to.1);
    b.put(mail);
    assert_eq!((b.letters.try_iter().count(), b.stats.node_mail_lost.read()), (0, 1));
    // Who comes back without having gone has gone before: all threads but the gate hear of both.
    let told = b.tell_of("a", 3);
    assert_eq!(told.len(), 2 * b.topology().everybody().count());
    is_well_addressed(&b.topology().clone(), told);
}

#[test]
fn no_letter_overtakes_mail_that_a_full_mailbox_gave_back() {
    let [mut a, mut b] = sides();
    let (letters, from) = (samples(&mut a, &b), a.here());
    let (to, mail) = b.open(from, &letters[0]).remove(0);
    let mut out = Output::default();
    b.gate.handle(NOW, Input::Refused { to, mail }, &mut out);
    assert_eq!(b.open(from, &letters[0]).len(), 0, "it waits behind the first one");
    assert_eq!(b.open(from, &letters[2]).len(), 1, "for another thread");
    b.gate.handle(NOW.after_ms(1), Input::Wake, &mut out);
    assert_eq!(out.take_posts().map(|(to, ..)| to.0).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn what_is_too_long_goes_in_pieces_in_order() {
    let (a, b) = (alone("a", 1), alone("b", 1));
    let long = |count: usize| {
        let (frame, then) = (Bytes::from(vec![0; 1 << 20]), Then::Nothing);
        let delivery = |slot| Delivery {
            frame: frame.clone(),
            to: [ConnId { slot, generation: 0 }].into_iter().collect(),
            then,
        };
        CoreMail::Deliver((0..u32::try_from(count).unwrap()).map(delivery).collect())
    };
    let mut pieces = Vec::new();
    assert_eq!(letter::write(Body::Core(b.cores[0], long(100)), &mut pieces), 0);
    let slots = pieces.iter().flat_map(|piece| {
        assert!(piece.len() <= LETTER_BYTES_MAX);
        let Ok(Body::Core(_, CoreMail::Deliver(list))) = letter::body(piece) else { panic!() };
        list.into_iter().map(|delivery| delivery.to[0].slot).collect::<Vec<_>>()
    });
    assert!(slots.eq(0..100) && pieces.len() > 3);
    let one = RoomMail::Signal {
        from: Waiter { who: Asker::Room(a.rooms[0]), request: 1 },
        by: None,
        id: Uuid::nil(),
        data: Bytes::from(vec![0; LETTER_BYTES_MAX]),
    };
    pieces.clear();
    assert_eq!((letter::write(Body::Room(b.rooms[0], one), &mut pieces), pieces.len()), (1, 0));
    let too_long = vec![1; LETTER_BYTES_MAX + 1];
    assert_eq!(letter::head(&too_long), Err(LetterError::TooLong(LETTER_BYTES_MAX + 1)));
    assert_eq!(letter::head(&[]), Err(LetterError::Version(None)));
    assert_eq!(letter::head(&[9, 0]), Err(LetterError::Version(Some(9))));
}

/// Claims of lengths and depths cost nothing, and kinds that stay on their node have no number.
#[test]
fn no_letter_claims_more_than_it_has() {
    let number = |bytes: &mut Vec<u8>, mut number: u64| {
        while number > 127 {
            bytes.push(u8::try_from(number & 127).unwrap() | 128);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
    };
    // To core 0 of node 0 in life 1: any variant of its mail, with a list of any length.
    for variant in 0..20 {
        for len in [0, 1, u64::from(u32::MAX), u64::MAX >> 1] {
            let mut bytes = vec![0, 0, 1, 0];
            number(&mut bytes, variant);
            number(&mut bytes, len);
            if let Ok(Body::Core(_, mail)) = letter::body(&bytes) {
                let is_local = !matches!(mail, CoreMail::WakeUp | CoreMail::Deliver(_));
                assert!(!is_local && len < 2, "{mail:?}");
            }
        }
    }
}

/// Random bytes, and real letters with bytes that are changed, cut, doubled, or from other letters: none
/// panics, and what is let through is for the threads that it names.
#[test]
fn no_bytes_bring_a_gate_down() {
    let [mut a, mut b] = sides();
    let letters = samples(&mut a, &b);
    let (from, topology) = (a.here(), b.topology().clone());
    let mut random = Random::from_number(7);
    let mut below = |end: usize| random.below(u32::try_from(end).unwrap()) as usize;
    for _ in 0..60_000 {
        let mut bytes = letters[below(letters.len())].clone();
        match below(5) {
            0 => {
                let start = 7.min(bytes.len());
                bytes.truncate(start);
                bytes.extend((0..below(80)).map(|_| u8::try_from(below(256)).unwrap()));
            }
            1 => bytes.truncate(below(bytes.len())),
            2 => {
                let other = &letters[below(letters.len())];
                let (at, tail) = (below(bytes.len()), below(other.len()));
                bytes.truncate(at);
                bytes.extend_from_slice(&other[tail..]);
            }
            _ => {
                for _ in 0..=below(4) {
                    let at = below(bytes.len());
                    bytes[at] = u8::try_from(below(256)).unwrap();
                }
            }
        }
        let mails = b.open(from, &bytes);
        is_well_addressed(&topology, mails);
        b.letters.try_iter().for_each(drop);
    }
    let taken = b.stats.node_letters_opened.read();
    let refused = b.stats.node_letters_refused.read();
    assert!(taken > 1_000 && refused > 10_000, "{taken} taken, {refused} refused");
}
