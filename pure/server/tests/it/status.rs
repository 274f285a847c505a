//! Who is online, and who follows whom, across rooms and through the end of sockets.

use bytes::Bytes;
use event::{CloseReason, ThreadId};
use server::mail::{CoreMail, Delivery, Then};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::rig::{Client, Plan, Rig};

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

/// A follower of two users, one on each of two rooms, of which one takes no mail while `meanwhile` happens;
/// what the follower hears. Whichever room is asked first, one of the two tries stops the other one.
fn heard_while_a_room_rests(meanwhile: impl Fn(&Rig, Client, &[Client; 2])) -> [Vec<String>; 2] {
    [(0, 1), (1, 0)].map(|(near, far)| {
        let rig = Rig::with(&Plan { rooms: 2, ..Plan::default() });
        let users = on_both_rooms(&rig);
        let (_, token) = rig.login("follower");
        let follower = rig.socket(0, &token, "");
        let sockets = [near, far].map(|at| rig.socket(0, &users[at].1, "&status=true"));
        rig.freeze(rig.topology.rooms[far], true);
        rig.say(follower, &follow(&[&users[0].0, &users[1].0]));
        meanwhile(&rig, follower, &sockets);
        rig.freeze(rig.topology.rooms[far], false);
        rig.settle();
        rig.frames(follower)
    })
}

/// Two rooms are asked one after the other. What the first one's user does meanwhile is news to a client
/// that has the answer, and would be lost on one that has not: it believed for ever what the room had
/// said before.
#[test]
fn news_of_users_come_behind_the_answer_that_is_older() {
    let heard = heard_while_a_room_rests(|rig, _, [goes, _]| rig.closed(*goes, CloseReason::Peer));
    let mut seen = 0;
    for frames in heard {
        assert!(frames[0].contains("\"cid\":\"9\""), "{frames:?}");
        seen += frames.iter().filter(|frame| frame.contains("leaves")).count();
    }
    assert_eq!(seen, 1);
}

/// What is no news of users waits for no answer: pongs, matches, notifications.
#[test]
fn nothing_but_news_of_users_waits_for_the_answer() {
    let heard = heard_while_a_room_rests(|rig, follower, _| {
        let mail = CoreMail::Deliver(vec![Delivery {
            frame: Bytes::from_static(b"\x81\x02{}"),
            to: SmallVec::from_slice(&[follower.conn]),
            then: Then::Nothing,
        }]);
        rig.mail(rig.topology.cores[0], mail);
        let at_once = rig.frames(follower);
        assert!(at_once.iter().any(|frame| frame == "{}"), "{at_once:?}");
    });
    assert!(heard.iter().flatten().all(|frame| frame != "{}"));
}

/// A user who changes its status again and again makes nobody hold more than a few frames.
#[test]
fn too_many_news_are_told_before_the_answer_in_their_order() {
    let status = |number: u32| format!(r#"{{"cid":"1","status_update":{{"status":"s{number}"}}}}"#);
    let heard = heard_while_a_room_rests(|rig, follower, [changes, _]| {
        (0..300).for_each(|number| {
            rig.say(*changes, &status(number));
        });
        let early = rig.frames(follower);
        // Where the other room is asked first, nobody has told this one yet.
        assert!(early.is_empty() || early.len() == 300, "{}", early.len());
        for (number, frame) in early.iter().enumerate() {
            assert!(frame.contains(&format!("\"s{number}\"")), "{number}: {frame}");
        }
        assert_eq!(rig.stat("news_early"), early.len() as u64);
    });
    assert!(heard.iter().flatten().any(|frame| frame.contains("\"cid\":\"9\"")));
}

const FOLLOWS: &str = "local nk = require('nakama')
    local function told(fn)
      return function(context, payload)
        local wish = nk.json_decode(payload)
        fn(wish.session_id or context.session_id, wish.ids)
      end
    end
    nk.register_rpc(told(nk.status_follow), 'follow')
    nk.register_rpc(told(nk.status_unfollow), 'unfollow')
    nk.register_rpc(function(context, times)
      for _ = 1, tonumber(times) do nk.status_follow(context.session_id, { context.user_id }) end
    end, 'follow_many')";

fn rpc(id: &str, payload: &serde_json::Value) -> String {
    let rpc = serde_json::json!({ "id": id, "payload": payload.to_string() });
    serde_json::json!({ "cid": "7", "rpc": rpc }).to_string()
}

#[test]
fn scripts_let_sessions_follow_users_of_every_room_and_stop_it() {
    let modules = &[("follow.lua", FOLLOWS)][..];
    let rig = Rig::with(&Plan { rooms: 2, modules, ..Plan::default() });
    let [(one, one_token), (two, two_token)] = on_both_rooms(&rig);
    let (_, token) = rig.login("follower");
    let sockets =
        [rig.socket(0, &one_token, "&status=true"), rig.socket(0, &two_token, "&status=true")];
    let follower = rig.socket(0, &token, "");
    let ids = serde_json::json!({ "ids": [one, two, Uuid::from_u128(1)] });
    let heard = |text: &str| {
        for socket in sockets {
            rig.say(socket, &format!(r#"{{"cid":"1","status_update":{{"status":"{text}"}}}}"#));
        }
        rig.frames(follower)
    };
    let answer = r#"{"cid":"7","rpc":{"id":"follow"}}"#;
    assert_eq!(rig.say(follower, &rpc("follow", &ids)), [answer], "nothing but the answer comes");
    let frames = heard("busy");
    assert!(frames.len() == 2 && frames.iter().all(|it| it.contains("busy")), "{frames:?}");

    let answer = r#"{"cid":"7","rpc":{"id":"unfollow"}}"#;
    assert_eq!(rig.say(follower, &rpc("unfollow", &ids)), [answer]);
    assert_eq!(heard("away"), [""; 0]);

    // Whoever is not there follows nobody, and nobody hears of it.
    let stranger = serde_json::json!({ "session_id": Uuid::from_u128(2), "ids": [one] });
    let answer = r#"{"cid":"7","rpc":{"id":"follow"}}"#;
    assert_eq!(rig.say(follower, &rpc("follow", &stranger)), [answer]);
    assert_eq!(heard("back"), [""; 0]);
}

#[test]
fn a_call_lets_follow_no_more_users_than_it_may_cut_off() {
    let modules = &[("follow.lua", FOLLOWS)][..];
    let rig = Rig::with(&Plan { modules, ..Plan::default() });
    let (_, token) = rig.login("follower");
    let follower = rig.socket(0, &token, "");
    let count = server::resources::CUT_OFF_PER_CALL_MAX + 1;
    let frames = rig.say(follower, &rpc("follow_many", &serde_json::json!(count)));
    assert!(frames.len() == 1 && frames[0].contains("or follow 16384"), "{frames:?}");
    assert_eq!(rig.stat("cut_offs_refused"), 1);
}
