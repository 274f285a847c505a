//! Sockets: the handshake, order, silence, and every way to end.

use event::CloseReason;

use crate::rig::{Plan, Rig, close_frame, text_frame};

const ECHO: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context, payload) nk.session_disconnect(context.session_id) end, 'bye')";

fn echo() -> Rig {
    Rig::with(&Plan { modules: &[("echo.lua", ECHO)], ..Plan::default() })
}

#[test]
fn messages_behind_one_that_waits_are_answered_after_it_in_order() {
    let rig = echo();
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    let mut bytes = text_frame(r#"{"cid":"1","rpc":{"id":"echo","payload":"a"}}"#);
    bytes.extend(text_frame(r#"{"cid":"2","ping":{}}"#));
    bytes.extend(text_frame(r#"{"cid":"3","rpc":{"id":"none"}}"#));
    bytes.extend(text_frame(r#"{"cid":"4","match_create":{}}"#));
    bytes.extend(text_frame(r#"{"cid":"5","ping":{}}"#));
    // In one piece, and byte by byte.
    for pieces in [bytes.len(), 1] {
        bytes.chunks(pieces).for_each(|piece| rig.bytes_only(socket, piece));
        rig.settle();
        let frames = rig.frames(socket);
        let cids: Vec<&str> = frames.iter().filter_map(|frame| frame.get(..10)).collect();
        let answers: Vec<&&str> = cids.iter().filter(|cid| cid.starts_with("{\"cid\"")).collect();
        let wanted = [
            "{\"cid\":\"1\"",
            "{\"cid\":\"2\"",
            "{\"cid\":\"3\"",
            "{\"cid\":\"4\"",
            "{\"cid\":\"5\"",
        ];
        assert_eq!(answers, wanted.iter().collect::<Vec<_>>(), "{frames:?}");
    }
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

#[test]
fn a_session_ends_once_however_it_ends() {
    type End = fn(&Rig, crate::rig::Client);
    let ends: [(&str, End); 6] = [
        ("the peer resets", |rig, socket| rig.closed(socket, CloseReason::Reset)),
        ("half-close, then closed", |rig, socket| {
            rig.eof(socket);
            rig.closed(socket, CloseReason::Asked);
        }),
        ("the client closes", |rig, socket| {
            rig.bytes(socket, &close_frame());
            assert_eq!(rig.frames(socket), ["close 1000 "]);
            rig.closed(socket, CloseReason::Asked);
        }),
        ("we close, the client answers", |rig, socket| {
            rig.say(socket, r#"{"cid":"1","nonsense":{}}"#);
            rig.bytes(socket, &close_frame());
            rig.closed(socket, CloseReason::Asked);
        }),
        ("we close, the client half-closes", |rig, socket| {
            rig.say(socket, r#"{"cid":"1","nonsense":{}}"#);
            rig.eof(socket);
            rig.closed(socket, CloseReason::Asked);
        }),
        ("we close, the client resets", |rig, socket| {
            rig.say(socket, r#"{"cid":"1","rpc":{"id":"bye"}}"#);
            rig.closed(socket, CloseReason::Reset);
        }),
    ];
    for (name, end) in ends {
        let rig = echo();
        let (_, token) = rig.login("ada");
        let socket = rig.socket(0, &token, "");
        let _other = rig.socket(0, &token, "");
        rig.frames(socket);
        end(&rig, socket);
        assert_eq!((rig.stat("sessions"), rig.stat("socket_ws_closed")), (1, 1), "{name}");
    }
}

#[test]
fn a_socket_that_waits_is_neither_polled_nor_taken_for_silent() {
    let rig = Rig::new();
    let room = rig.topology.rooms[0];
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    rig.freeze(room, true);
    rig.say_only(socket, r#"{"cid":"1","match_create":{}}"#);
    // More than is held for a connection: it is not read from until the answer is there.
    let ping = text_frame(&format!(r#"{{"cid":"2","ping":{{}}}}{}"#, " ".repeat(4_000)));
    (0..20).for_each(|_| rig.bytes_only(socket, &ping));
    let before = rig.wakes(event::ThreadId(0));
    rig.advance(60_000);
    let wakes = rig.wakes(event::ThreadId(0)) - before;
    assert!(wakes <= 10, "{wakes} wake-ups in a minute for one socket that waits");
    rig.freeze(room, false);
    rig.advance(10);
    let frames = rig.frames(socket);
    assert!(frames.iter().all(|frame| !frame.starts_with("close")), "{frames:?}");
    assert_eq!(frames.iter().filter(|frame| frame.contains("pong")).count(), 20);
}

#[test]
fn a_silent_socket_is_pinged_then_closed_then_dropped() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    rig.advance(14_999);
    assert_eq!(rig.frames(socket), [""; 0]);
    rig.advance(2);
    assert_eq!(rig.frames(socket), ["9 "]);
    rig.advance(10_000);
    assert_eq!(rig.frames(socket), ["close 1000 read timeout: pong not received"]);
    assert!(!rig.is_closed(socket));
    rig.advance(2_000);
    assert!(rig.is_closed(socket));
}

#[test]
fn nothing_follows_the_close_frame() {
    let rig = Rig::new();
    let (user_id, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    let frames = rig.say(socket, r#"{"cid":"1","nonsense":{}}"#);
    assert_eq!(frames.last().unwrap(), "close 1000 error processing message");
    let user_id = uuid::Uuid::try_parse(&user_id).unwrap();
    let users = vec![(user_id, game::api::Disconnect::Banned)];
    let session_changes = server::mail::SessionChanges { users, ..Default::default() };
    let mail = server::mail::CoreMail::Sessions(std::sync::Arc::new(session_changes));
    rig.mail(rig.topology.cores[0], mail);
    assert_eq!(rig.frames(socket), [""; 0], "after a ban");
    assert_eq!(rig.say(socket, r#"{"cid":"2","ping":{}}"#), [""; 0], "after a message");
}

/// Behind a proxy scripts see the client, in calls over sockets as in calls over HTTP.
#[test]
fn scripts_see_the_address_that_the_proxy_tells() {
    let who = "local nk = require('nakama')
        nk.register_rpc(function(context, payload) return context.client_ip end, 'who')";
    let tune: fn(&mut server::settings::Settings) = |settings| settings.socket.proxy_count = 1;
    let rig = Rig::with(&Plan { modules: &[("who.lua", who)], tune, ..Plan::default() });
    let (_, token) = rig.login("ada");
    let socket = rig.socket_with(0, &token, "", "X-Forwarded-For: 6.6.6.6, 203.0.113.9\r\n");
    let frames = rig.say(socket, r#"{"cid":"1","rpc":{"id":"who"}}"#);
    assert!(frames.len() == 1 && frames[0].contains("203.0.113.9"), "{frames:?}");
}
