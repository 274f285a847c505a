//! Full mailboxes: nobody waits for ever, and nothing that must be known is lost.

use event::{CloseReason, ThreadId};
use uuid::Uuid;

use crate::rig::{Plan, Rig, member, request};

#[test]
fn who_asks_a_full_room_is_told_and_goes_on() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    rig.set_full(rig.topology.rooms[0], true);
    let frames = rig.say(socket, r#"{"cid":"1","match_create":{}}"#);
    assert!(frames.len() == 1 && frames[0].contains("busy"), "{frames:?}");
    rig.set_full(rig.topology.rooms[0], false);
    let frames = rig.say(socket, r#"{"cid":"2","match_create":{}}"#);
    assert!(frames.iter().any(|frame| frame.contains("match_id")), "{frames:?}");
}

#[test]
fn a_full_room_hears_later_who_has_left() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let (stays, leaves) = (rig.socket(0, &token, ""), rig.socket(0, &token, ""));
    let created = rig.say(stays, r#"{"cid":"1","match_create":{}}"#).join("");
    let id = member(&created, "match_id");
    rig.say(leaves, &format!(r#"{{"cid":"1","match_join":{{"match_id":"{id}"}}}}"#));
    rig.frames(stays);
    rig.set_full(rig.topology.rooms[0], true);
    rig.closed_only(leaves, CloseReason::Reset);
    rig.advance(5);
    rig.set_full(rig.topology.rooms[0], false);
    rig.advance(5);
    let frames = rig.frames(stays);
    assert!(frames.iter().any(|frame| frame.contains("leaves")), "{frames:?}");
    assert_eq!(rig.stat("presences"), 1);
}

/// It opens and closes while the room is full: the room must not hear of the first after the last.
#[test]
fn a_session_that_a_full_room_never_saw_leaves_nothing_behind() {
    let rig = Rig::new();
    let (id, token) = rig.login("ada");
    rig.set_full(rig.topology.rooms[0], true);
    let socket = rig.socket(0, &token, "&status=true");
    rig.advance(5);
    rig.closed_only(socket, CloseReason::Reset);
    rig.advance(5);
    rig.set_full(rig.topology.rooms[0], false);
    rig.advance(5);
    let client = rig.open(0);
    let auth = format!("Bearer {token}");
    let user = rig.http(client, &format!("GET /v2/user?ids={id}"), &auth, "");
    assert!(user.contains(&id) && !user.contains("online"), "{user}");
}

#[test]
fn a_socket_that_opens_at_a_full_room_is_online_later() {
    let rig = Rig::new();
    let (id, token) = rig.login("ada");
    rig.set_full(rig.topology.rooms[0], true);
    let _socket = rig.socket(0, &token, "&status=true");
    rig.advance(5);
    rig.set_full(rig.topology.rooms[0], false);
    rig.advance(5);
    let client = rig.open(0);
    let auth = format!("Bearer {token}");
    let user = rig.http(client, &format!("GET /v2/user?ids={id}"), &auth, "");
    assert!(user.contains("\"online\":true"), "{user}");
}

#[test]
fn answers_of_workers_reach_a_core_that_was_full() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let client = rig.open(0);
    rig.bytes_only(client, &request("GET /v2/account", &format!("Bearer {token}"), ""));
    rig.set_full(ThreadId(0), true);
    rig.advance(5);
    rig.set_full(ThreadId(0), false);
    rig.advance(5);
    assert!(rig.text(client).starts_with("HTTP/1.1 200 "));
    assert_eq!(rig.stat("jobs_waiting"), 0);
}

#[test]
fn answers_of_rooms_reach_a_core_that_was_full() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    rig.say_only(socket, r#"{"cid":"1","match_create":{}}"#);
    rig.set_full(ThreadId(0), true);
    rig.advance(5);
    rig.set_full(ThreadId(0), false);
    rig.advance(5);
    let frames = rig.frames(socket);
    assert_eq!(frames.iter().filter(|f| f.starts_with("{\"cid\":\"1\"")).count(), 1, "{frames:?}");
    assert_eq!(rig.say(socket, r#"{"cid":"2","ping":{}}"#), [r#"{"cid":"2","pong":{}}"#]);
}

#[test]
fn a_follow_that_meets_a_full_room_on_its_way_is_answered() {
    let rig = Rig::with(&Plan { rooms: 2, ..Plan::default() });
    let mut ids = [None, None];
    for number in 0..32 {
        let (id, _) = rig.login(&format!("user-number-{number}"));
        let room = rig.topology.room_of(Uuid::try_parse(&id).unwrap());
        ids[usize::from(room == rig.topology.rooms[1])].get_or_insert(id);
    }
    let [first, second] = ids.map(Option::unwrap);
    let (_, token) = rig.login("follower");
    let socket = rig.socket(0, &token, "");
    rig.set_full(rig.topology.rooms[1], true);
    let follow = format!(r#"{{"cid":"1","status_follow":{{"user_ids":["{first}","{second}"]}}}}"#);
    let frames = rig.say(socket, &follow);
    assert!(frames.len() == 1 && frames[0].contains("busy"), "{frames:?}");
    assert_eq!(rig.say(socket, r#"{"cid":"2","ping":{}}"#), [r#"{"cid":"2","pong":{}}"#]);
}

#[test]
fn frames_that_met_a_full_core_are_not_overtaken() {
    let rig = Rig::with(&Plan { cores: 2, ..Plan::default() });
    let (_, token) = rig.login("ada");
    let (speaks, hears) = (rig.socket(0, &token, ""), rig.socket(1, &token, ""));
    let created = rig.say(speaks, r#"{"cid":"1","match_create":{}}"#).join("");
    let id = member(&created, "match_id");
    rig.say(hears, &format!(r#"{{"cid":"1","match_join":{{"match_id":"{id}"}}}}"#));
    rig.frames(hears);
    let say = |op_code: u32| {
        let data = format!(r#"{{"match_id":"{id}","op_code":"{op_code}","data":""}}"#);
        rig.say(speaks, &format!(r#"{{"match_data_send":{data}}}"#));
    };
    rig.set_full(rig.topology.cores[1], true);
    say(1);
    say(2);
    rig.set_full(rig.topology.cores[1], false);
    say(3);
    rig.advance(5);
    say(4);
    let frames = rig.frames(hears);
    let order: Vec<String> = frames.iter().map(|frame| member(frame, "op_code")).collect();
    assert_eq!(order, ["1", "2", "3", "4"], "{frames:?}");
}
