//! Datagrams beside sockets: asked for, proved, used by matches, ended; and what strangers, copies and floods
//! come to.

use event::CloseReason;
use server::settings::{DatagramSettings, Settings};
use wire::datagram::{BYTES_MIN, KEY_BYTES, Key, Kind, MatchData};

use crate::rig::{Client, Peer, Plan, Rig, ask, at, body, member, request};

pub(crate) fn tune(settings: &mut Settings) {
    settings.datagrams = Some(DatagramSettings {
        host: "play.example".into(),
        ports: vec![7_352, 7_353],
        per_session_per_s: 100,
        per_address_per_s: 150,
        idle_ms: 15_000,
    });
}

const ARENA: &str = "local M = {}
    function M.match_init(context, params) return {}, 10, '' end
    function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
    function M.match_join(context, dispatcher, tick, state, presences) return state end
    function M.match_leave(context, dispatcher, tick, state, presences) return state end
    function M.match_loop(context, dispatcher, tick, state, messages)
        for _, message in ipairs(messages) do
            local reliable, data = message.op_code == 1, message.data
            if message.op_code == 3 then data = string.rep('x', 1143) end
            if message.op_code == 4 then data = tostring(message.reliable) end
            dispatcher.broadcast_message(message.op_code, data, nil, message.sender, reliable)
        end
        return state
    end
    function M.match_terminate(context, dispatcher, tick, state, grace) return state end
    function M.match_signal(context, dispatcher, tick, state, data) return state, data end
    return M";

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function() return nk.match_create('arena', {}) end, 'create')
    nk.register_rpc(function(_, id) nk.users_ban_id({ id }) return 'banned' end, 'ban')";

const TICK_MS: u64 = 100;

fn rig() -> Rig {
    let modules: &[(&str, &str)] = &[("arena.lua", ARENA), ("rpcs.lua", RPCS)];
    Rig::with(&Plan { modules, tune, ..Plan::default() })
}

fn socket(rig: &Rig, name: &str) -> Client {
    let (_, token) = rig.login(name);
    rig.socket(0, &token, "")
}

/// Enters a match; an empty name is a new one of the relay. Gives its id.
fn enter(rig: &Rig, client: Client, id: &str) -> String {
    let join = format!(r#"{{"cid":"7","match_join":{{"match_id":"{id}"}}}}"#);
    let create = r#"{"cid":"7","match_create":{}}"#.to_owned();
    let frames = rig.say(client, if id.is_empty() { &create } else { &join });
    member(&frames.join(""), "match_id")
}

/// A session in an arena, believed.
fn player(rig: &Rig) -> (Client, Peer, String) {
    let client = socket(rig, "ada");
    let id = enter(rig, client, &rig.rpc("create", ""));
    let peer = Peer::believed(rig, client, 4_000);
    rig.frames(client);
    (client, peer, id)
}

#[test]
fn a_session_is_told_where_and_how() {
    let rig = Rig::with(&Plan { cores: 2, tune, ..Plan::default() });
    let (_, token) = rig.login("ada");
    for (core, port) in [(0, 7_352), (1, 7_353)] {
        let peer = Peer::new(&rig, rig.socket(core, &token, ""), 4_000);
        let grant = &peer.grant;
        let told = (&grant["version"], &grant["host"], &grant["port"], &grant["bytes_max"]);
        assert_eq!(told, (&1.into(), &"play.example".into(), &port.into(), &1_200.into()));
        assert_eq!(grant["idle_ms"], 15_000);
        assert_eq!(grant["key"].as_str().unwrap().len(), 2 * KEY_BYTES);
    }
    assert_eq!(rig.stat("datagram_sessions"), 2);
    assert_eq!(rig.stat("datagram_paths"), 0);
}

#[test]
fn a_server_without_datagrams_has_no_such_function() {
    let rig = Rig::new();
    let frames = ask(&rig, socket(&rig, "ada"));
    assert!(frames[0].contains("RPC function not found"), "{frames:?}");
    rig.datagram(0, at(1), &[1; 100]);
    assert!(rig.datagrams().is_empty());
}

#[test]
fn players_of_a_relayed_match_send_what_may_be_lost_by_datagram() {
    let rig = rig();
    let (one, two, three) = (socket(&rig, "ada"), socket(&rig, "bob"), socket(&rig, "eve"));
    let id = enter(&rig, one, "");
    [two, three].iter().for_each(|client| drop(enter(&rig, *client, &id)));
    let mut sender = Peer::believed(&rig, two, 5_000);
    let mut peer = Peer::believed(&rig, one, 4_000);
    [one, two, three].iter().for_each(|client| drop(rig.frames(*client)));

    sender.say(&rig, &id, -7, b"hi");
    let heard = peer.heard(&rig);
    let message = MatchData::decode(&heard[0].1).unwrap();
    assert_eq!((heard.len(), message.op_code, message.data), (1, -7, &b"hi"[..]));
    assert_eq!(message.sender.unwrap().username, "bob");
    assert!(!message.is_authoritative && id.ends_with('.'));
    // Who takes none is told over the socket, in its own format.
    let frames = rig.frames(three);
    let wanted = (id.clone(), "-7".to_owned(), "aGk=".to_owned(), "bob".to_owned());
    let of = |name| member(&frames[0], name);
    assert_eq!((of("match_id"), of("op_code"), of("data"), of("username")), wanted);
    assert!(rig.frames(one).is_empty() && rig.frames(two).is_empty());

    // What is reliable comes over the socket to all.
    let send = format!(
        r#"{{"match_data_send":{{"match_id":"{id}","op_code":"2","data":"aGk=","reliable":true}}}}"#
    );
    rig.say(two, &send);
    assert!(rig.datagrams().is_empty());
    assert_eq!((rig.frames(one).len(), rig.frames(three).len()), (1, 1));
    assert_eq!(rig.stat("match_messages_delivered"), 4);
    assert_eq!(rig.stat("datagram_messages_sent"), 1);
}

#[test]
fn a_script_says_what_may_be_lost() {
    let rig = rig();
    let (client, mut peer, id) = player(&rig);
    for (op_code, data, by_datagram) in
        [(1, "sure", false), (2, "quick", true), (3, "too long", false), (4, "false", true)]
    {
        peer.say(&rig, &id, op_code, data.as_bytes());
        rig.advance(TICK_MS);
        let (heard, frames) = (peer.heard(&rig), rig.frames(client));
        assert_eq!(
            (heard.len(), frames.len()),
            if by_datagram { (1, 0) } else { (0, 1) },
            "{data}"
        );
        if by_datagram {
            let message = MatchData::decode(&heard[0].1).unwrap();
            assert_eq!((message.op_code, message.data), (op_code, data.as_bytes()));
            assert!(message.is_authoritative && message.sender.unwrap().username == "ada");
        }
    }
    assert_eq!(rig.stat("datagram_messages"), 4);
    // A socket that is behind keeps what a script sends, as before.
    peer.from = at(1);
    rig.advance(15_000);
    rig.frames(client);
    rig.set_behind(client);
    peer.say(&rig, &id, 2, b"late");
    rig.advance(TICK_MS);
    assert_eq!((rig.stat("datagram_paths_lost"), rig.frames(client).len()), (1, 1));
}

#[test]
fn a_stranger_is_never_sent_more_than_came_in_its_name() {
    let rig = rig();
    let (client, mut peer, id) = player(&rig);
    let (own, stranger) = (peer.from, at(9_999));
    let (mut came, mut sent) = (0, 0);
    for round in 0..200 {
        peer.from = stranger;
        let kind = [Kind::Probe, Kind::Proof, Kind::ClientData][round % 3];
        let body = if kind == Kind::ClientData { body(&id, 2, b"state") } else { vec![7; 9] };
        let bytes = peer.sealed(kind, &body);
        came += bytes.len();
        rig.datagram(0, stranger, &bytes);
        rig.advance(TICK_MS);
        peer.from = own;
        for datagram in rig.datagrams() {
            let (head, _) = peer.open(&datagram);
            if datagram.to == stranger {
                assert_eq!(head.kind, Kind::Challenge);
                sent += datagram.bytes.len();
            }
            assert!(sent <= came, "{sent} bytes for {came}");
        }
        // Its own address goes on, and says what came.
        peer.send(&rig, Kind::Probe, &[0; 8]);
    }
    assert!(sent > 0 && rig.stat("datagram_challenges") > 10);
    let over_socket = rig.frames(client).iter().filter(|it| it.contains("match_data")).count();
    assert_eq!(over_socket, 0, "what is sent goes where the session is believed to be");
}

#[test]
fn whoever_moves_is_believed_at_its_new_address_once_it_has_answered() {
    let rig = rig();
    let (client, mut peer, id) = player(&rig);
    rig.advance(1_000);
    peer.from = at(4_001);
    // What it says counts at once; what it is sent goes to where it was.
    peer.say(&rig, &id, 2, b"from elsewhere");
    rig.advance(TICK_MS);
    let sent = rig.datagrams();
    let places: Vec<u16> = sent.iter().map(|sent| sent.to.port()).collect();
    assert_eq!(places, [4_001, 4_000], "a challenge and a message");
    let (head, token) = peer.open(&sent[0]);
    assert_eq!(head.kind, Kind::Challenge);
    peer.send(&rig, Kind::Proof, &token[..8]);
    assert_eq!(peer.kinds(&rig), [Kind::Alive]);
    peer.say(&rig, &id, 2, b"here");
    rig.advance(TICK_MS);
    assert_eq!(peer.kinds(&rig), [Kind::ServerData], "at the new place");
    assert!(rig.frames(client).is_empty());
    assert_eq!((rig.stat("datagram_paths"), rig.stat("datagram_paths_lost")), (1, 0));
}

#[test]
fn copies_and_forgeries_do_nothing() {
    let rig = rig();
    let (_, mut peer, id) = player(&rig);
    let bytes = peer.sealed(Kind::ClientData, &body(&id, 2, b"once"));
    for from in [peer.from, peer.from, at(9_999)] {
        rig.datagram(0, from, &bytes);
    }
    rig.advance(TICK_MS);
    assert_eq!((peer.kinds(&rig).len(), rig.stat("datagrams_stale")), (1, 2));
    // What the server has sent cannot be sent back to it.
    peer.say(&rig, &id, 2, b"again");
    rig.advance(TICK_MS);
    let back = rig.datagrams();
    rig.datagram(0, peer.from, &back[0].bytes);
    assert_eq!(rig.stat("datagrams_malformed"), 1);
    let own = std::mem::replace(&mut peer.key, Key::new(&[9; KEY_BYTES]));
    peer.say(&rig, &id, 2, b"by another key");
    peer.key = own;
    peer.id ^= 1 << 40;
    peer.say(&rig, &id, 2, b"of nobody");
    for len in [0, 1, BYTES_MIN - 1, BYTES_MIN, 1_200, 1_201] {
        rig.datagram(0, peer.from, &vec![1; len]);
    }
    rig.advance(TICK_MS);
    assert!(rig.datagrams().is_empty());
    let stats = ["datagrams_forged", "datagrams_unknown", "datagrams_malformed"];
    assert_eq!(stats.map(|name| rig.stat(name)), [1, 3, 5]);
}

#[test]
fn messages_that_no_client_may_send_are_refused() {
    let rig = rig();
    let (_, mut peer, id) = player(&rig);
    let good = body(&id, 2, b"x");
    let mut with_sender = good.clone();
    with_sender[0] |= 2;
    with_sender.extend([0; 60]);
    for bad in [&b""[..], &good[..20], &with_sender] {
        peer.send(&rig, Kind::ClientData, bad);
    }
    assert_eq!(rig.stat("datagram_messages_refused"), 3);
    // A match that is not there, and one that the session is not in, hear nothing.
    let other = rig.rpc("create", "");
    peer.say(&rig, &other, 2, b"x");
    peer.say(&rig, "00000000-0000-4000-8000-000000000001.", 2, b"x");
    rig.advance(TICK_MS);
    assert!(rig.datagrams().is_empty());
    assert_eq!(rig.stat("match_messages_unroutable"), 2);
}

#[test]
fn a_flood_of_one_address_leaves_others_theirs() {
    let rig = rig();
    let (_, mut peer, id) = player(&rig);
    let (_, token) = rig.login("eve");
    let mut flooder = Peer::new(&rig, rig.socket(0, &token, ""), 1);
    flooder.from = ([10, 0, 0, 2], 1).into();
    rig.advance(1_000);
    for _ in 0..1_000 {
        rig.datagram(0, flooder.from, &[1; 1_200]);
        flooder.probe(&rig);
    }
    peer.say(&rig, &id, 2, b"still heard");
    rig.advance(TICK_MS);
    let sent = rig.datagrams();
    assert_eq!(sent.iter().filter(|sent| sent.to == peer.from).count(), 1);
    assert_eq!(rig.stat("limited_datagrams_per_address"), 2_000 - 150);
    // Nor does a session get more heeded than its share, from wherever.
    rig.advance(1_000);
    let before = rig.stat("datagrams_heard");
    (0..140).for_each(|_| peer.send(&rig, Kind::Probe, &[]));
    assert_eq!(rig.stat("datagrams_heard") - before, 100);
    let before = rig.stat("limited_datagrams_per_session");
    rig.advance(1_000);
    for step in 0..200_u8 {
        let mut forged = peer.sealed(Kind::Probe, &[]);
        forged[30] ^= 1;
        rig.datagram(0, ([10, 0, 1, step], 1).into(), &forged);
    }
    assert_eq!(rig.stat("datagrams_forged"), 64, "looked at from where it is not");
    assert_eq!(rig.stat("limited_datagrams_per_session") - before, 200 - 64);
}

/// Whoever shares an address, or forges it, has not its port.
#[test]
fn a_flood_in_the_name_of_an_address_leaves_its_sessions_theirs() {
    let rig = rig();
    let (_, mut peer, id) = player(&rig);
    rig.advance(1_000);
    let mut neighbour = peer.from;
    neighbour.set_port(9);
    let heard = rig.stat("datagrams_heard");
    for _ in 0..64 {
        (0..30).for_each(|_| rig.datagram(0, neighbour, &[1; 45]));
        peer.say(&rig, &id, 2, b"control");
    }
    assert_eq!(rig.stat("datagrams_heard") - heard, 64);
    assert_eq!(rig.stat("limited_datagrams_per_address"), 64 * 30 - 150);
    // What is more than a client sends counts for the address, whose part is used up.
    (0..20).for_each(|_| peer.say(&rig, &id, 2, b"more"));
    assert_eq!(rig.stat("datagrams_heard") - heard, 64);
    assert_eq!(rig.stat("limited_datagrams_per_address"), 64 * 30 - 150 + 20);
}

#[test]
fn datagrams_end_with_the_session_a_newer_key_a_log_out_and_a_ban() {
    let rig = rig();
    let (user_id, token) = rig.login("ada");
    let end = |client: Client, how: &dyn Fn()| {
        let id = enter(&rig, client, &rig.rpc("create", ""));
        let mut peer = Peer::believed(&rig, client, 4_000);
        assert_eq!((rig.stat("datagram_sessions"), rig.stat("datagram_paths")), (1, 1));
        let unknown = rig.stat("datagrams_unknown");
        how();
        peer.say(&rig, &id, 2, b"x");
        assert_eq!(rig.stat("datagrams_unknown") - unknown, 1);
        assert!(rig.datagrams().is_empty());
        assert_eq!(rig.stat("datagram_paths"), 0);
    };
    let client = rig.socket(0, &token, "");
    end(client, &|| drop(ask(&rig, client)));
    rig.closed(client, CloseReason::Peer);
    assert_eq!(rig.stat("datagram_sessions"), 0);
    let client = rig.socket(0, &token, "");
    end(client, &|| rig.closed(client, CloseReason::Reset));
    let client = rig.socket(0, &token, "");
    end(client, &|| {
        let (http, auth) = (rig.open(0), format!("Bearer {token}"));
        let body = format!(r#"{{"token":"{token}"}}"#);
        rig.bytes(http, &request("POST /v2/session/logout", &auth, &body));
        assert!(rig.text(http).starts_with("HTTP/1.1 200 "));
    });
    assert!(!rig.is_closed(client), "the socket stays, as in Nakama");
    rig.closed(client, CloseReason::Peer);
    rig.advance(1_000);
    let (_, token) = rig.login("ada");
    let client = rig.socket(0, &token, "");
    end(client, &|| drop(rig.rpc("ban", &user_id)));
    assert_eq!(rig.stat("datagram_sessions"), 0);
}

#[test]
fn modules_that_want_to_see_match_data_have_no_datagrams() {
    let hook = "local nk = require('nakama')
        nk.register_rt_before(function(context, envelope) return envelope end, 'MatchDataSend')";
    let rig = Rig::with(&Plan { modules: &[("hook.lua", hook)], tune, ..Plan::default() });
    let frames = ask(&rig, socket(&rig, "ada"));
    assert!(frames[0].contains("a hook of match_data_send"), "{frames:?}");
    assert_eq!(rig.stat("datagram_sessions"), 0);
}

#[test]
fn what_is_not_acknowledged_goes_over_the_socket_until_the_address_is_proved_again() {
    let rig = rig();
    let (client, mut peer, id) = player(&rig);
    let mut over_socket = 0;
    for _ in 0..70 {
        // Says where it is, and never what came.
        let bytes = {
            let head = wire::datagram::Head {
                kind: Kind::ClientData,
                id: peer.id,
                sequence: peer.sequence + 1,
                acks: wire::datagram::Acks::default(),
            };
            peer.sequence += 1;
            let mut bytes = Vec::new();
            peer.key.seal(&head, &body(&id, 2, b"x"), &mut bytes);
            bytes
        };
        rig.datagram(0, peer.from, &bytes);
        rig.advance(TICK_MS);
        over_socket += rig.frames(client).len();
    }
    assert!((15..30).contains(&over_socket), "{over_socket}");
    assert_eq!((rig.stat("datagram_paths"), rig.stat("datagram_paths_lost")), (0, 1));
    peer.heard(&rig);
    peer.probe(&rig);
    peer.prove(&rig);
    assert_eq!(rig.stat("datagram_paths"), 1);
}
