//! Who is online, and who follows whom, across rooms and through the end of sockets.

use event::{CloseReason, ThreadId};
use uuid::Uuid;

use crate::rig::{Plan, Rig};

/// Logs users in until there is one on each of two rooms: (id, token) of both.
fn on_both_rooms(rig: &Rig) -> [(String, String); 2] {
    let mut found: [Option<(String, String)>; 2] = [None, None];
    for number in 0..64 {
        let (id, token) = rig.login(&format!("user-number-{number}"));
        let room = rig.topology.room_of(Uuid::try_parse(&id).unwrap());
        let index = rig.topology.rooms.iter().position(|id| *id == room).unwrap();
        found[index].get_or_insert((id, token));
        if let [Some(first), Some(second)] = &found {
            return [first.clone(), second.clone()];
        }
    }
    panic!("64 users on one room")
}

fn follow(ids: &[&str]) -> String {
    format!(r#"{{"cid":"9","status_follow":{{"user_ids":["{}"]}}}}"#, ids.join("\",\""))
}

#[test]
fn followers_hear_from_users_of_every_room_until_they_unfollow() {
    let rig = Rig::with(&Plan { rooms: 2, ..Plan::default() });
    let [(one, one_token), (two, two_token)] = on_both_rooms(&rig);
    let (_, token) = rig.login("follower");
    let first = rig.socket(0, &one_token, "&status=true");
    let second = rig.socket(0, &two_token, "&status=true");
    let follower = rig.socket(0, &token, "");
    let frames = rig.say(follower, &follow(&[&one, &two]));
    assert_eq!(frames.len(), 1);
    assert!(frames[0].contains(&one) && frames[0].contains(&two), "{frames:?}");
    rig.say(first, r#"{"cid":"1","status_update":{"status":"busy"}}"#);
    let frames = rig.frames(follower);
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert!(frames[0].contains("joins") && frames[0].contains("leaves"), "{frames:?}");
    rig.closed(second, CloseReason::Peer);
    let frames = rig.frames(follower);
    assert!(frames.len() == 1 && !frames[0].contains("joins"), "{frames:?}");
    let unfollow = format!(r#"{{"cid":"3","status_unfollow":{{"user_ids":["{two}","{one}"]}}}}"#);
    assert_eq!(rig.say(follower, &unfollow), [r#"{"cid":"3"}"#]);
    rig.closed(first, CloseReason::Peer);
    assert_eq!(rig.frames(follower), [""; 0]);
}

#[test]
fn a_replaced_socket_takes_its_status_along() {
    let rig = Rig::with(&Plan { tune: |s| s.single_socket = true, ..Plan::default() });
    let (id, token) = rig.login("ada");
    let (_, other) = rig.login("follower");
    let follower = rig.socket(0, &other, "");
    let older = rig.socket(0, &token, "&status=true");
    let answer = rig.say(follower, &follow(&[&id]));
    assert!(answer[0].contains(&id), "{answer:?}");
    rig.frames(older);
    rig.socket(0, &token, "");
    let frames = rig.frames(older);
    assert!(frames.iter().any(|frame| frame.contains("single_socket")), "{frames:?}");
    assert_eq!(frames.last().unwrap(), "close 1000 server-side session disconnect");
    rig.closed(older, CloseReason::Peer);
    let frames = rig.frames(follower);
    assert!(frames.len() == 1 && frames[0].contains("leaves"), "{frames:?}");
    let client = rig.open(0);
    let auth = format!("Bearer {other}");
    let user = rig.http(client, &format!("GET /v2/user?ids={id}"), &auth, "");
    assert!(user.contains(&id) && !user.contains("online"), "{user}");
}

/// The follower's socket closes while its wish is on its way from one room to the next.
#[test]
fn who_has_gone_follows_nobody() {
    let rig = Rig::with(&Plan { cores: 2, rooms: 2, ..Plan::default() });
    let [(one, _), (two, two_token)] = on_both_rooms(&rig);
    let (_, token) = rig.login("follower");
    let user = rig.socket(0, &two_token, "&status=true");
    let follower = rig.socket(1, &token, "");
    rig.say_only(follower, &follow(&[&one, &two]));
    rig.turn(rig.topology.batcher);
    rig.turn(ThreadId(1));
    let closed = event::Input::Closed { conn: follower.conn, reason: CloseReason::Peer };
    rig.input(ThreadId(1), closed);
    rig.turn(rig.topology.rooms[1]);
    rig.settle();
    let before = rig.posted(ThreadId(1), "deliver");
    rig.say(user, r#"{"cid":"1","status_update":{"status":"busy"}}"#);
    assert_eq!(rig.posted(ThreadId(1), "deliver"), before, "an event for a socket that is gone");
}
