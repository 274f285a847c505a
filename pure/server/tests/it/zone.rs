//! The zone as its clients have it: found by listing, joined, steered and left over a socket; limits; and
//! what a client gets that does not take what it is sent, or says nothing of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use event::{CloseReason, Random, ThreadId};
use game::rules::ZoneRule;
use server::mail::{BatcherMail, EventsMail, ZoneAsk, ZoneSave};
use server::settings::{Settings, WorldSettings};
use store::Store;
use wire::datagram::{Kind, MatchData};
use world::{Control, EntityId, FromClient, News, Place, Saved, Score, Snapshot, View, Welcome};

use crate::rig::{Client, Peer, Plan, Rig, body, member};

const TICK_MS: u64 = 50;

fn tune(settings: &mut Settings) {
    settings.world = Some(WorldSettings {
        tick_rate_hz: 20,
        bins: 4,
        seed: 1,
        bots: 30,
        players_max: 6,
        waiting_max: 2,
        ships_per_user: 2,
        ships_per_address: 3,
        is_partition_static: false,
        cells_permille: 700,
        near_ships: 32,
        packet_bytes_max: 1_200,
        snapshot_interval_ms: 500,
        return_s: 5,
        rules_wait_ms: 250,
        page: true,
    });
}

/// A server whose zone has just begun, and the match's id.
fn zone(rooms: u16, tune: fn(&mut Settings)) -> (Rig, String) {
    zone_of(&Plan { rooms, tune, ..Plan::default() })
}

fn zone_of(plan: &Plan<'_>) -> (Rig, String) {
    let rig = Rig::with(plan);
    let (home, mail) = rig.topology.begin_zone(&mut Random::from_number(5), None);
    rig.post(home, mail);
    rig.settle();
    let (_, token) = rig.login("lister");
    let client = rig.open(0);
    let line = "GET /v2/match?authoritative=true&query=%2Blabel.kind:zone";
    let listed = rig.http(client, line, &format!("Bearer {token}"), "");
    (rig, member(&listed, "match_id"))
}

/// A client with what it knows.
struct Pilot {
    client: Client,
    id: String,
    welcome: Option<Welcome>,
    /// The places in the line that it was told: of how many which.
    places: Vec<(u32, u32)>,
    view: View,
    score: Score,
    /// Ticks of the snapshots that came.
    ticks: Vec<u32>,
    /// The snapshots.
    packets: Vec<Vec<u8>>,
    seq: u32,
    acks: bool,
    /// By which it sends and gets what may be lost, if it has one; and how much of that is lost, a hundredth
    /// each.
    way: Option<(Peer, Random, u32)>,
}

impl Pilot {
    fn join(rig: &Rig, client: Client, id: &str) -> (Self, Vec<String>) {
        let join = format!(r#"{{"cid":"7","match_join":{{"match_id":"{id}"}}}}"#);
        let frames = rig.say(client, &join);
        let mut pilot = Self {
            client,
            id: id.to_owned(),
            welcome: None,
            places: Vec::new(),
            view: View::default(),
            score: Score::default(),
            ticks: Vec::new(),
            packets: Vec::new(),
            seq: 0,
            acks: true,
            way: None,
        };
        pilot.read(&frames);
        (pilot, frames)
    }

    fn read(&mut self, frames: &[String]) {
        for frame in frames.iter().filter(|frame| frame.contains("match_data")) {
            assert_eq!(member(frame, "match_id"), self.id);
            let bytes = STANDARD.decode(member(frame, "data")).unwrap();
            assert_eq!(member(frame, "op_code"), bytes[0].to_string());
            if bytes[0] == Welcome::KIND {
                self.welcome = Some(Welcome::decode(&bytes).unwrap());
                continue;
            }
            if bytes[0] == Place::KIND {
                let Place { place, waiting } = Place::decode(&bytes).unwrap();
                assert!(self.welcome.is_none(), "a place for who is in");
                self.places.push((place, waiting));
                continue;
            }
            if bytes[0] == Score::KIND {
                self.score = Score::decode(&bytes).unwrap();
                continue;
            }
            if bytes[0] == News::KIND {
                News::decode(&bytes).unwrap();
                continue;
            }
            self.ticks.push(Snapshot::decode(&bytes).unwrap().tick);
            self.view.take(&bytes).unwrap();
            self.packets.push(bytes);
        }
    }

    fn say(&mut self, rig: &Rig, op_code: u8, bytes: &[u8]) {
        if let Some((peer, random, lost)) = &mut self.way {
            let sealed = peer.sealed(Kind::ClientData, &body(&self.id, op_code.into(), bytes));
            if random.below(100) >= *lost {
                rig.datagram(0, peer.from, &sealed);
            }
            return;
        }
        let (id, data) = (&self.id, STANDARD.encode(bytes));
        let send = format!(
            r#"{{"match_data_send":{{"match_id":"{id}","op_code":"{op_code}","data":"{data}"}}}}"#
        );
        rig.say_only(self.client, &send);
    }

    /// Says what came, and what the ship is to do.
    fn steer(&mut self, rig: &Rig, controls: Vec<Control>) {
        let ack = self.view.ack().filter(|_| self.acks);
        let packet = FromClient { ack, first_seq: self.seq + 1, controls };
        self.seq += u32::try_from(packet.controls.len()).unwrap();
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        self.say(rig, FromClient::KIND, &bytes);
    }

    /// So many ticks, in each of which the client says what came and wants the same.
    fn fly(&mut self, rig: &Rig, ticks: u32, wanted: Option<Control>) {
        for _ in 0..ticks {
            self.steer(rig, wanted.into_iter().collect());
            rig.advance(TICK_MS);
            let frames = rig.frames(self.client);
            self.read(&frames);
            self.hear(rig);
        }
    }
}

impl Pilot {
    /// Takes what came by datagram and was not lost.
    fn hear(&mut self, rig: &Rig) {
        let Some((peer, random, lost)) = &mut self.way else { return };
        let sent = rig.datagrams();
        let came: Vec<_> = sent.iter().filter(|_| random.below(100) >= *lost).collect();
        for datagram in came {
            let (head, body) = peer.open(datagram);
            assert!(datagram.bytes.len() <= 1_200);
            if head.kind == Kind::ServerData {
                let message = MatchData::decode(&body).unwrap();
                assert_eq!((message.op_code, message.data[0]), (Snapshot::KIND.into(), 1));
                self.ticks.push(Snapshot::decode(message.data).unwrap().tick);
                self.view.take(message.data).unwrap();
                self.packets.push(message.data.to_vec());
            }
        }
    }
}

/// By datagram, of which a fifth is lost in each direction, a pilot sees what one sees over a socket.
#[test]
fn losses_on_the_way_leave_the_view_right() {
    let tune = |settings: &mut Settings| {
        tune(settings);
        crate::datagrams::tune(settings);
    };
    let (rig, id) = zone(1, tune);
    let (mut pilot, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    let peer = Peer::believed(&rig, pilot.client, 4_000);
    pilot.way = Some((peer, Random::from_number(9), 20));
    let (mut other, _) = Pilot::join(&rig, socket(&rig, "eve"), &id);
    let frames = rig.frames(pilot.client).len();
    let mut seen = 0;
    for _ in 0..200 {
        other.steer(&rig, vec![]);
        pilot.fly(&rig, 1, Some(Control { turn: 3, thrust: 2, fire: false }));
        let frames = rig.frames(other.client);
        other.read(&frames);
        // What both were told of in the newest tick is the same.
        let (Some(tick), Some(newest)) = (pilot.view.tick(), other.view.tick()) else { continue };
        if tick != newest {
            continue;
        }
        for (slot, known) in pilot.view.known().filter(|(_, known)| known.newest().0 == tick) {
            let there = other.view.get(slot).filter(|known| known.newest().0 == tick);
            let same = there.is_none_or(|there| there.newest() == known.newest());
            assert!(same, "slot {slot} in tick {tick}");
            seen += 1;
        }
    }
    assert!(frames <= 2 && rig.frames(pilot.client).is_empty(), "snapshots come by datagram alone");
    assert!(pilot.ticks.len() > 120, "{} snapshots in 200 ticks", pilot.ticks.len());
    assert!(seen > 500, "{seen} ships compared");
    assert!(pilot.view.control_seq() > 150, "{}", pilot.view.control_seq());
    assert_eq!((rig.stat("zone_faults"), rig.stat("zone_inputs_refused")), (0, 0));
}

fn socket(rig: &Rig, name: &str) -> Client {
    let (_, token) = rig.login(name);
    rig.socket(0, &token, "")
}

const AHEAD: Control = Control { turn: 0, thrust: 3, fire: false };

#[test]
fn a_client_finds_joins_steers_and_leaves() {
    let (rig, id) = zone(1, tune);
    let (mut pilot, frames) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    // The answer first: clients look at messages of a match that they are told they are in.
    assert!(frames[0].contains(r#""cid":"7""#) && frames[0].contains("\"authoritative\":true"));
    assert_eq!(frames.len(), 2, "{frames:?}");
    let welcome = pilot.welcome.unwrap();
    assert_eq!((welcome.bins, welcome.tick_rate_hz), (4, 20));
    pilot.fly(&rig, 10, None);
    let still = pilot.view.get(welcome.ship.slot).unwrap().newest().1;
    assert_eq!((still.vx, pilot.view.known().count()), (0, 31), "its own ship and the bots");
    pilot.fly(&rig, 20, Some(AHEAD));
    let moved = pilot.view.get(welcome.ship.slot).unwrap().newest().1;
    assert!(moved.vx > 0, "{moved:?}");
    assert!(pilot.view.control_seq() >= 18, "{}", pilot.view.control_seq());
    assert!(pilot.ticks.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(pilot.ticks.len() >= 28, "{} snapshots of 30 ticks", pilot.ticks.len());
    assert_eq!((rig.stat("zone_players"), rig.stat("zone_faults")), (1, 0));
    // Who joins again is told the same; nobody is told of anybody.
    let again = Pilot::join(&rig, pilot.client, &id).1;
    assert!(again.iter().any(|frame| frame.contains(r#""size":1"#)), "{again:?}");
    let (mut other, _) = Pilot::join(&rig, socket(&rig, "eve"), &id);
    other.fly(&rig, 3, None);
    assert!(!rig.frames(pilot.client).iter().any(|frame| frame.contains("presence")));
    let leave = format!(r#"{{"cid":"9","match_leave":{{"match_id":"{id}"}}}}"#);
    let left = rig.say(pilot.client, &leave);
    assert!(left.iter().any(|frame| frame.contains(r#""cid":"9""#)), "{left:?}");
    // What is on its way may still come; after two ticks nothing does.
    rig.advance(2 * TICK_MS);
    rig.frames(pilot.client);
    other.fly(&rig, 5, None);
    assert_eq!(rig.frames(pilot.client), [""; 0]);
    assert!(other.view.get(welcome.ship.slot).is_none(), "the ship is gone");
    rig.closed(other.client, CloseReason::Peer);
    rig.advance(TICK_MS);
    assert_eq!((rig.stat("zone_players"), rig.stat("presences")), (0, 0));
    assert_eq!(rig.stat("zone_faults"), 0);
}

#[test]
fn however_many_rooms_there_are_a_client_is_told_the_same() {
    let told = |rooms| {
        let (rig, id) = zone(rooms, tune);
        let (mut pilot, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
        let (mut other, _) = Pilot::join(&rig, socket(&rig, "eve"), &id);
        for _ in 0..10 {
            pilot.fly(&rig, 3, Some(AHEAD));
            other.fly(&rig, 2, Some(Control { turn: 5, thrust: 1, fire: true }));
        }
        (pilot.packets, other.packets)
    };
    let alone = told(1);
    assert!(alone.0.len() >= 30);
    assert!(told(3) == alone && told(4) == alone);
}

/// What is sent to a client that does not take it is one snapshot; then it gets the newest, whole.
#[test]
fn a_client_that_is_behind_gets_the_newest_state_only() {
    let (rig, id) = zone(1, tune);
    let (mut slow, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    let (mut quick, _) = Pilot::join(&rig, socket(&rig, "eve"), &id);
    slow.fly(&rig, 10, None);
    let before = slow.ticks.len();
    rig.set_behind(slow.client);
    for _ in 0..100 {
        quick.fly(&rig, 1, Some(AHEAD));
        let frames = rig.frames(slow.client);
        slow.read(&frames);
    }
    assert_eq!(slow.ticks.len(), before, "nothing is kept for it");
    let held = rig.stat("zone_packets_held");
    assert!(held > 90, "{held} of 100 were not even written");
    rig.take_once(slow.client);
    // From now on it takes everything again.
    rig.closed(quick.client, CloseReason::Peer);
    let fresh = rig.socket(0, &rig.login("ada").1, "");
    let (mut fresh, _) = Pilot::join(&rig, fresh, &id);
    fresh.fly(&rig, 5, None);
    assert!(*fresh.ticks.last().unwrap() > slow.ticks.last().unwrap() + 100);
}

/// Who never says what came is sent a few packets, and then now and then one.
#[test]
fn a_client_that_acknowledges_nothing_is_sent_little() {
    let (rig, id) = zone(1, tune);
    let (mut silent, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    silent.acks = false;
    silent.fly(&rig, 200, None);
    assert!((5..40).contains(&silent.ticks.len()), "{} snapshots", silent.ticks.len());
    silent.acks = true;
    let before = silent.ticks.len();
    silent.fly(&rig, 50, None);
    assert!(silent.ticks.len() > before + 40, "{:?}", silent.ticks);
}

/// A room that takes no mail makes the zone late; it loses nothing, and no tick is left out.
#[test]
fn a_full_mailbox_holds_the_zone_up_and_loses_nothing() {
    let (rig, id) = zone(3, tune);
    let (mut pilot, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    pilot.fly(&rig, 5, None);
    for index in 0..3 {
        let room = rig.topology.rooms[index];
        let before = rig.stat("zone_ticks");
        rig.set_full(room, true);
        rig.advance(20 * TICK_MS);
        rig.set_full(room, false);
        pilot.fly(&rig, 40, Some(AHEAD));
        let passed = rig.stat("zone_ticks") - before;
        assert!(passed >= 38, "{passed} ticks since room {index} was full");
    }
    assert_eq!((rig.stat("zone_faults"), rig.stat("dropped_mail")), (0, 0));
    assert!(rig.stat("zone_ticks_held") > 0 && rig.stat("zone_ticks_slowed") > 0);
    // It goes on at its pace.
    let (before, late) = (rig.stat("zone_ticks"), rig.stat("zone_ticks_late"));
    pilot.fly(&rig, 20, Some(AHEAD));
    assert_eq!((rig.stat("zone_ticks") - before, rig.stat("zone_ticks_late") - late), (20, 0));
}

#[test]
fn users_addresses_and_the_zone_have_limits() {
    let (rig, id) = zone(1, |settings| {
        tune(settings);
        settings.limits.exempt_addresses.clear();
    });
    let refusal = |client| {
        let (pilot, frames) = Pilot::join(&rig, client, &id);
        if pilot.welcome.is_none() { frames[0].clone() } else { String::new() }
    };
    let (_, ada) = rig.login("ada");
    let one = rig.socket(0, &ada, "");
    assert_eq!(refusal(one), "");
    assert_eq!(refusal(rig.socket(0, &ada, "")), "");
    assert!(refusal(rig.socket(0, &ada, "")).contains("world.ships_per_user"));
    assert_eq!(refusal(socket(&rig, "bea")), "");
    assert!(refusal(socket(&rig, "cleo")).contains("world.ships_per_address"));
    rig.closed(one, CloseReason::Peer);
    let dora = socket(&rig, "dora");
    assert!(refusal(dora).contains("world.ships_per_address"), "slots rest");
    rig.advance(130 * TICK_MS);
    assert_eq!(refusal(dora), "", "there is room again");
    assert_eq!(rig.stat("zone_joins_refused"), 3);
    let (rig, id) = zone(1, tune);
    let users: Vec<Client> = (0..9).map(|user| socket(&rig, &format!("user{user}"))).collect();
    let frames: Vec<String> =
        users.iter().map(|user| Pilot::join(&rig, *user, &id).1.concat()).collect();
    assert!(frames[8].contains("world.players_max"), "{}", frames[8]);
    assert!(frames[..8].iter().all(|frames| frames.contains("match_data")));
}

/// Six are in, and two wait: who goes, from within or out of the line, makes room for who came next.
#[test]
fn who_finds_the_zone_full_waits_in_line() {
    let (rig, id) = zone(2, tune);
    let join = |name: &str| Pilot::join(&rig, socket(&rig, name), &id);
    let inside: Vec<Pilot> = (0..6).map(|user| join(&format!("in{user}")).0).collect();
    assert!(inside.iter().all(|pilot| pilot.welcome.is_some() && pilot.places.is_empty()));
    let ((mut first, frames), (mut second, _)) = (join("ada"), join("bea"));
    assert!(frames[0].contains(r#""cid":"7""#) && frames[0].contains("\"authoritative\":true"));
    assert_eq!((&first.places[..], &second.places[..]), (&[(1, 1)][..], &[(2, 2)][..]));
    let counts = || (rig.stat("zone_players"), rig.stat("zone_waiting"));
    let (_, refused) = join("cleo");
    assert!(refused[0].contains("world.waiting_max"), "{refused:?}");
    assert_eq!((counts(), rig.stat("zone_joins_refused")), ((6, 2), 1));
    // Who waits is told nothing of the world, and steers nothing; who joins again keeps its place.
    first.fly(&rig, 3, Some(AHEAD));
    let again = Pilot::join(&rig, first.client, &id).1;
    assert_eq!((first.ticks.len(), again.len(), rig.stat("zone_inputs")), (0, 1, 0));
    rig.advance(30 * TICK_MS);
    assert_eq!(rig.frames(second.client), [""; 0], "nobody has moved up");
    // The first is let in with the tick after somebody has gone, and the second moves up.
    rig.closed(inside[0].client, CloseReason::Peer);
    rig.advance(2 * TICK_MS);
    first.read(&rig.frames(first.client));
    assert!(first.welcome.is_some());
    first.fly(&rig, 3, Some(AHEAD));
    assert!(first.view.get(first.welcome.unwrap().ship.slot).is_some());
    rig.advance(20 * TICK_MS);
    second.read(&rig.frames(second.client));
    assert_eq!(second.places, [(2, 2), (1, 1)]);
    // Out of the line, by leaving the match and with the session.
    let (third, _) = join("dora");
    assert_eq!((&third.places[..], counts()), (&[(2, 2)][..], (6, 2)));
    let leave = format!(r#"{{"cid":"9","match_leave":{{"match_id":"{id}"}}}}"#);
    rig.say(second.client, &leave);
    assert_eq!(counts(), (6, 1));
    rig.closed(third.client, CloseReason::Peer);
    assert_eq!(counts(), (6, 0));
    rig.closed(inside[1].client, CloseReason::Peer);
    rig.advance(2 * TICK_MS);
    assert_eq!((counts(), rig.stat("zone_faults")), ((5, 0), 0));
    assert!(join("eve").0.welcome.is_some());
    assert_eq!(rig.stat("zone_joins_waited"), 3);
}

/// One user's and one address's sessions count where they wait as where they fly.
#[test]
fn users_and_addresses_have_limits_in_the_line_too() {
    let (rig, id) = zone(1, |settings| {
        tune(settings);
        settings.limits.exempt_addresses.clear();
        settings.world.as_mut().unwrap().players_max = 1;
    });
    let join = |client| Pilot::join(&rig, client, &id);
    assert!(join(socket(&rig, "ada")).0.welcome.is_some());
    let (_, bea) = rig.login("bea");
    let waits = rig.socket(0, &bea, "");
    assert_eq!(join(waits).0.places, [(1, 1)]);
    assert_eq!(join(rig.socket(0, &bea, "")).0.places, [(2, 2)]);
    assert!(join(rig.socket(0, &bea, "")).1[0].contains("world.ships_per_user"));
    assert!(join(socket(&rig, "cleo")).1[0].contains("world.ships_per_address"));
    // Who waited had no slot that rests.
    rig.closed(waits, CloseReason::Peer);
    assert_eq!(join(socket(&rig, "cleo")).0.places, [(2, 2)]);
}

/// What is no packet, of another opcode, or too much costs its sender, and nobody else.
#[test]
fn what_is_no_packet_is_counted_and_left_out() {
    let (rig, id) = zone(1, tune);
    let (mut pilot, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    for (op_code, bytes) in [(2, &b"\x02"[..]), (2, b""), (1, b"\x02"), (2, &[0xff; 90])] {
        pilot.say(&rig, op_code, bytes);
    }
    rig.advance(2 * TICK_MS);
    assert_eq!((rig.stat("zone_inputs_refused"), rig.stat("zone_inputs")), (4, 0));
    for _ in 0..50 {
        pilot.steer(&rig, vec![AHEAD; 8]);
    }
    rig.advance(TICK_MS);
    assert_eq!((rig.stat("zone_inputs_refused"), rig.stat("zone_inputs")), (50, 4));
    // Numbers at their end are no trouble.
    pilot.seq = u32::MAX - 3;
    let packet = FromClient { ack: Some((7, 0)), first_seq: pilot.seq, controls: vec![AHEAD; 8] };
    let mut bytes = Vec::new();
    packet.encode(&mut bytes);
    pilot.say(&rig, FromClient::KIND, &bytes);
    rig.advance(4 * TICK_MS);
    assert_eq!((rig.stat("zone_inputs"), rig.stat("zone_faults")), (5, 0));
    // Who is in no zone is heard by none.
    let other = socket(&rig, "eve");
    let mut stranger = Pilot { client: other, ..pilot };
    stranger.say(&rig, 2, &bytes);
    rig.advance(2 * TICK_MS);
    assert_eq!((rig.stat("zone_inputs"), rig.stat("zone_inputs_refused")), (5, 51));
}

/// What is kept of the zone: the tick, and who flies what in it.
fn kept(store: &Store, rig: &Rig) -> (u32, Vec<(u128, EntityId)>) {
    let parts = game::zone::kept(&mut store.connect().unwrap(), rig.topology.nodes.name()).unwrap();
    let saved = Saved::restore(&parts, 4).unwrap();
    let mut pilots: Vec<_> = saved.pilots.iter().map(|it| (it.who, it.ship)).collect();
    pilots.sort_unstable();
    (saved.tick, pilots)
}

fn users(rig: &Rig, names: [&str; 4]) -> [(u128, Client); 4] {
    names.map(|name| {
        let (user_id, token) = rig.login(name);
        let user_id = uuid::Uuid::try_parse(&user_id).unwrap();
        (user_id.as_u128(), rig.socket(1, &token, ""))
    })
}

/// The first core stops while sockets of the second go on. Whoever leaves by itself has left; whoever loses its
/// socket has not.
#[test]
fn an_ordinary_stop_takes_nobody_out_of_the_zone() {
    let store = Store::open_in_memory().unwrap();
    let plan = Plan { cores: 2, rooms: 3, tune, store: Some(&store), ..Plan::default() };
    let (rig, id) = zone_of(&plan);
    let users = users(&rig, ["ada", "bea", "cleo", "dora"]);
    let mut pilots = users.map(|(_, client)| Pilot::join(&rig, client, &id).0);
    (0..7).for_each(|_| pilots.iter_mut().for_each(|pilot| pilot.fly(&rig, 1, Some(AHEAD))));
    let ships: [EntityId; 4] = std::array::from_fn(|at| pilots[at].welcome.unwrap().ship);
    let everybody = |but: usize| {
        let all = (0..4).filter(|at| *at != but).map(|at| (users[at].0, ships[at]));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    };
    let (ticks, before) = (rig.stat("zone_ticks"), kept(&store, &rig).0);
    rig.stop(ThreadId(0));
    // The next tick is not waited for: it is computed at once, and is on the disk.
    rig.advance(1);
    assert_eq!(rig.posted(ThreadId(0), "drained"), 3);
    let (tick, pilots_kept) = kept(&store, &rig);
    assert_eq!(pilots_kept, everybody(4));
    assert!(u64::from(tick) == ticks && tick > before, "{before}, then {tick} of {ticks} ticks");
    // One leaves, one loses its socket, and the others theirs by the end of the second core.
    pilots.iter_mut().for_each(|pilot| pilot.fly(&rig, 1, Some(AHEAD)));
    rig.say(pilots[1].client, &format!(r#"{{"cid":"9","match_leave":{{"match_id":"{id}"}}}}"#));
    rig.closed(pilots[2].client, CloseReason::Peer);
    rig.advance(3 * TICK_MS);
    assert_eq!((rig.stat("zone_players"), rig.stat("zone_away")), (2, 1));
    // Who comes back before the end has its ship still.
    let client = rig.socket(1, &rig.login("cleo").1, "");
    let (back, _) = Pilot::join(&rig, client, &id);
    assert_eq!(back.welcome.unwrap().ship, ships[2]);
    rig.stop(ThreadId(1));
    rig.advance(1);
    for client in [users[0].1, users[1].1, users[3].1, client] {
        assert!(rig.frames(client).contains(&"close 1001 server shutting down".to_owned()));
        rig.closed(client, CloseReason::Asked);
    }
    assert!(rig.is_stopped(ThreadId(1)));
    // Rooms and the batcher go on until all cores have ended.
    rig.advance(60 * TICK_MS);
    assert_eq!((rig.stat("zone_players"), rig.stat("zone_away")), (0, 3));
    assert_eq!(kept(&store, &rig).1, everybody(1));
    assert_eq!((rig.stat("zone_faults"), rig.stat("zone_saves_failed")), (0, 0));
}

/// The batcher does not answer: sockets are closed after the two seconds that rooms have anyway.
#[test]
fn a_zone_that_cannot_be_saved_keeps_no_server_from_its_end() {
    let (rig, id) = zone(2, tune);
    let (mut pilot, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    pilot.fly(&rig, 3, Some(AHEAD));
    rig.freeze(rig.topology.batcher, true);
    rig.stop(ThreadId(0));
    rig.advance(1_900);
    let frames = rig.frames(pilot.client);
    assert!(!frames.iter().any(|frame| frame.starts_with("close")), "closed before it is saved");
    rig.advance(200);
    assert_eq!(rig.frames(pilot.client).last().unwrap(), "close 1001 server shutting down");
    rig.advance(2_001);
    assert!(rig.is_stopped(ThreadId(0)));
}

#[test]
fn a_zone_that_is_not_saved_is_not_waited_for() {
    let (rig, id) = zone(2, |settings| {
        tune(settings);
        settings.world.as_mut().unwrap().snapshot_interval_ms = 0;
    });
    let (pilot, _) = Pilot::join(&rig, socket(&rig, "ada"), &id);
    rig.freeze(rig.topology.batcher, true);
    rig.stop(ThreadId(0));
    rig.advance(1);
    assert_eq!(rig.frames(pilot.client), ["close 1001 server shutting down"]);
}

/// A part that its home took for lost comes behind the snapshot that made up for it.
#[test]
fn a_part_that_was_given_up_is_not_kept() {
    let store = Store::open_in_memory().unwrap();
    let (rig, _) = zone_of(&Plan { tune, store: Some(&store), ..Plan::default() });
    rig.advance(10 * TICK_MS);
    let mut db = store.connect().unwrap();
    let parts = game::zone::kept(&mut db, rig.topology.nodes.name()).unwrap();
    assert_eq!(parts.len(), 1);
    for (write, number) in [(900, 0), (899, 7)] {
        let part = parts[0].clone();
        let save = BatcherMail::Zone(Box::new(ZoneSave { home: 0, write, number, part }));
        let (to, mail) = (rig.topology.batcher, save);
        rig.mail(to, mail);
    }
    let late = rig.stat("late_answers");
    rig.settle();
    assert_eq!(game::zone::kept(&mut db, rig.topology.nodes.name()).unwrap(), parts);
    assert_eq!(
        rig.stat("late_answers") - late,
        1,
        "the home does not wait for what it did not write"
    );
}

/// A rule that is asked again as soon as it has answered, and something that happens as often.
#[test]
fn rules_and_handlers_of_events_take_turns() {
    let module = "local nk = require('nakama')
        local function note(what)
            return function(_, zone)
                nk.localcache_put('order', (nk.localcache_get('order') or '') .. what)
                return zone
            end
        end
        nk.register_zone_spawn(note('r'))
        nk.register_event(note('e'))
        nk.register_rpc(function() nk.event('happened', {}) end, 'tell')
        nk.register_rpc(function() return nk.localcache_get('order') end, 'order')";
    let (rig, _) = zone_of(&Plan { tune, modules: &[("m.lua", module)], ..Plan::default() });
    let events = rig.topology.events.unwrap();
    rig.freeze(events, true);
    (0..4).for_each(|_| drop(rig.rpc("tell", "")));
    for number in 900..904 {
        let (rule, argument) = (ZoneRule::Spawn, game::rules::table([]));
        let ask = ZoneAsk { home: 0, rule, number, argument };
        let (to, mail) = events.seal(&rig.topology, EventsMail::Rule(Box::new(ask)));
        rig.post(to, mail);
    }
    rig.freeze(events, false);
    rig.settle();
    assert_eq!(rig.rpc("order", ""), "rererere");
}
