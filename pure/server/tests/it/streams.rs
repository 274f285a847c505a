//! Streams of scripts across rooms and cores: who is in, who hears what, and what becomes of a session
//! that ends on the way.

use event::CloseReason;
use game::stream::{SessionId, StreamId, StreamMeta, StreamRequest};
use serde_json::{Value, json};
use server::mail::{RoomMail, StreamMail};
use uuid::Uuid;

use crate::rig::{Client, Plan, Rig, member};

const MODULE: &str = "
    local nk = require('nakama')
    local ops = {}
    function ops.join(p) return nk.stream_user_join(p.user, p.session, p.stream, p.hidden, nil, p.status) end
    function ops.update(p) return nk.stream_user_update(p.user, p.session, p.stream, p.hidden, nil, p.status) end
    function ops.leave(p) return nk.stream_user_leave(p.user, p.session, p.stream) end
    function ops.get(p) return nk.stream_user_get(p.user, p.session, p.stream) or 'nobody' end
    function ops.list(p)
        local names = {}
        for _, one in ipairs(nk.stream_user_list(p.stream, p.with_hidden, p.with_others)) do
            names[#names + 1] = one.username .. ' ' .. one.status
        end
        return table.concat(names, ', ')
    end
    function ops.presences(p) return nk.stream_user_list(p.stream) end
    function ops.count(p) return nk.stream_count(p.stream) end
    function ops.close(p) return nk.stream_close(p.stream) end
    function ops.send(p) return nk.stream_send(p.stream, p.data, p.presences) end
    function ops.send_and_count(p)
        nk.stream_send(p.stream, 'before')
        nk.stream_user_leave(p.user, p.session, p.stream)
        nk.stream_send(p.stream, 'after')
        return nk.stream_count(p.stream)
    end
    function ops.send_too_often(p)
        for i = 1, 1025 do nk.stream_send(p.stream, 'x') end
    end
    function ops.send_times(p)
        for i = 1, p.times do nk.stream_send(p.stream, 'x') end
    end
    function ops.match(p) return nk.match_create('streaming', p) end
    nk.register_rpc(function(context, payload)
        local p = nk.json_decode(payload)
        p.user, p.session = p.user or context.user_id, p.session or context.session_id
        local ok, answer = pcall(ops[p.op], p)
        if not ok then answer = tostring(answer) end
        return nk.json_encode({ ok = ok, answer = answer })
    end, 'stream')
";

/// A match that does in its callbacks what it is told with its parameters.
const STREAMING: &str = "
    local nk = require('nakama')
    local function call(p)
        local ok, answer = pcall(nk.stream_count, p.stream)
        nk.stream_send(p.stream, 'from a match: ' .. tostring(ok and answer or 'elsewhere'))
    end
    local function init(context, params) call(params) return {}, 1, '' end
    local function loop(context, dispatcher, tick, state) return state end
    local function attempt(context, dispatcher, tick, state) return state, true end
    local function join(context, dispatcher, tick, state) return state end
    local function leave(context, dispatcher, tick, state, presences)
        for _, one in ipairs(presences) do
            pcall(nk.stream_user_join, one.user_id, one.session_id, { mode = 100, label = 'lobby' })
        end
        return state
    end
    return { match_init = init, match_loop = loop, match_join_attempt = attempt, match_join = join,
        match_leave = leave }
";

fn rig(tune: fn(&mut server::settings::Settings)) -> Rig {
    let modules = &[("streams.lua", MODULE), ("streaming.lua", STREAMING)];
    Rig::with(&Plan { cores: 2, rooms: 3, modules, tune, ..Plan::default() })
}

/// Calls a function of streams over a socket; its answer, and the other frames that came.
fn ask(rig: &Rig, client: Client, op: &str, stream: &Value, more: &Value) -> (Value, Vec<Value>) {
    let mut payload = json!({ "op": op, "stream": stream });
    let members = more.as_object().into_iter().flatten();
    members.for_each(|(name, value)| payload[name] = value.clone());
    let rpc = json!({ "cid": "7", "rpc": { "id": "stream", "payload": payload.to_string() } });
    let frames = rig.say(client, &rpc.to_string());
    let frames = frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap());
    let (mut answers, others): (Vec<Value>, Vec<Value>) =
        frames.partition(|frame| frame["cid"] == "7");
    assert_eq!(answers.len(), 1, "{answers:?}");
    let answer = answers.remove(0);
    let payload = answer["rpc"]["payload"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (serde_json::from_str(payload).unwrap(), others)
}

/// The same where only the answer of a call that succeeds counts.
fn answer(rig: &Rig, client: Client, op: &str, stream: &Value) -> Value {
    let (answer, _) = ask(rig, client, op, stream, &json!({}));
    assert_eq!(answer["ok"], true, "{answer}");
    answer["answer"].clone()
}

fn refusal(rig: &Rig, client: Client, op: &str, stream: &Value, more: &Value) -> String {
    let (answer, _) = ask(rig, client, op, stream, more);
    assert_eq!(answer["ok"], false, "{answer}");
    answer["answer"].as_str().unwrap().to_owned()
}

/// Joins and leaves by name in a frame of presences.
fn moves(frame: &Value) -> (Vec<&str>, Vec<&str>) {
    let event = &frame["stream_presence_event"];
    let names = |of: &str| {
        let presences = event[of].as_array().into_iter().flatten();
        presences.map(|one| one["username"].as_str().unwrap()).collect()
    };
    (names("joins"), names("leaves"))
}

/// What came to a client since the last look.
fn told(rig: &Rig, client: Client) -> Vec<Value> {
    rig.frames(client).iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

fn lobby(label: usize) -> Value {
    json!({ "mode": 100, "label": format!("lobby {label}") })
}

/// As many names as it takes for every room to have some, and sessions of every core.
#[test]
fn members_hear_of_each_other_wherever_stream_and_users_live() {
    let rig = rig(|_| ());
    let players: Vec<(String, String)> = ["ann", "bob", "eve"].map(|name| rig.login(name)).into();
    let [ann, bob, eve] = [0, 1, 2].map(|at| rig.socket(at % 2, &players[usize::from(at)].1, ""));
    for label in 0..8 {
        let stream = &lobby(label);
        let (joined, own) = ask(&rig, ann, "join", stream, &json!({ "status": "here" }));
        assert_eq!(joined["answer"], true);
        assert_eq!(own.iter().map(moves).collect::<Vec<_>>(), [(vec!["ann"], vec![])]);
        assert_eq!(own[0]["stream_presence_event"]["joins"][0]["persistence"], true);
        assert_eq!(own[0]["stream_presence_event"]["stream"], *stream);
        assert_eq!(answer(&rig, ann, "join", stream), false);
        // Hidden: nobody is told of it, and it is told of others.
        let (_, own) = ask(&rig, bob, "join", stream, &json!({ "hidden": true }));
        assert!(own.is_empty() && told(&rig, ann).is_empty());
        ask(&rig, eve, "join", stream, &json!({ "status": "new" }));
        for client in [ann, bob] {
            let frames = told(&rig, client);
            assert_eq!(frames.iter().map(moves).collect::<Vec<_>>(), [(vec!["eve"], vec![])]);
        }
        assert_eq!(answer(&rig, ann, "list", stream), "ann here, bob , eve new");
        assert_eq!(answer(&rig, eve, "get", stream)["status"], "new");
        assert_eq!(answer(&rig, ann, "count", stream), 3);
        let (_, own) = ask(&rig, eve, "update", stream, &json!({ "status": "newer" }));
        assert_eq!(own.iter().map(moves).collect::<Vec<_>>(), [(vec!["eve"], vec!["eve"])]);
        // Shown, hidden again, gone.
        ask(&rig, bob, "update", stream, &json!({}));
        ask(&rig, bob, "update", stream, &json!({ "hidden": true }));
        ask(&rig, bob, "leave", stream, &json!({}));
        ask(&rig, eve, "leave", stream, &json!({}));
        let frames = told(&rig, ann);
        let wanted = [
            (vec!["eve"], vec!["eve"]),
            (vec!["bob"], vec![]),
            (vec![], vec!["bob"]),
            (vec![], vec!["eve"]),
        ];
        assert_eq!(frames.iter().map(moves).collect::<Vec<_>>(), wanted);
        told(&rig, bob);
        told(&rig, eve);
    }
    assert_eq!((rig.stat("streams"), rig.stat("presences")), (8, 8));
    rig.closed(ann, CloseReason::Peer);
    assert_eq!((rig.stat("streams"), rig.stat("presences")), (0, 0));
}

#[test]
fn who_is_in_it_gets_what_is_sent() {
    let rig = rig(|_| ());
    let players: Vec<(String, String)> = ["ann", "bob", "eve"].map(|name| rig.login(name)).into();
    let [ann, bob, eve] = [0, 1, 2].map(|at| rig.socket(at % 2, &players[usize::from(at)].1, ""));
    for label in 0..4 {
        let stream = &lobby(label);
        ask(&rig, ann, "join", stream, &json!({}));
        ask(&rig, bob, "join", stream, &json!({ "hidden": true }));
        let (_, own) = ask(&rig, eve, "send", stream, &json!({ "data": "hi" }));
        assert!(own.is_empty(), "{own:?}");
        for client in [ann, bob] {
            let data = json!({ "stream": stream, "data": "hi", "reliable": true });
            assert_eq!(told(&rig, client).last().unwrap()["stream_data"], data);
        }
        // In the order of the calls, and before the answer.
        let (count, frames) = ask(&rig, bob, "send_and_count", stream, &json!({}));
        assert_eq!((&count["answer"], frames.len()), (&json!(1), 1));
        assert_eq!(frames[0]["stream_data"]["data"], "before");
        let data: Vec<Value> =
            told(&rig, ann).iter().map(|frame| frame["stream_data"]["data"].clone()).collect();
        assert_eq!(data, [json!("before"), json!("after")]);
        // Those who are named and members; of others nobody.
        ask(&rig, bob, "join", stream, &json!({ "hidden": true }));
        let mut some = answer(&rig, ann, "presences", stream);
        some[0]["session_id"] = Uuid::max().to_string().into();
        some[1]["username"] = Value::Null;
        ask(&rig, eve, "send", stream, &json!({ "data": "some", "presences": some }));
        assert!(told(&rig, ann).is_empty());
        assert_eq!(told(&rig, bob)[0]["stream_data"]["data"], "some");
        // Of one that is closed nobody is told.
        answer(&rig, eve, "close", stream);
        assert_eq!(answer(&rig, ann, "count", stream), 0);
        assert_eq!(answer(&rig, ann, "get", stream), "nobody");
        assert!(told(&rig, bob).is_empty());
    }
    assert_eq!(rig.stat("streams"), 0);
    let text = refusal(&rig, ann, "send_too_often", &lobby(1), &json!({}));
    assert!(text.contains("one call may call stream_* 1024 times"), "{text}");
    assert_eq!(rig.stat("stream_calls_refused"), 1);
}

#[test]
fn the_servers_groups_are_streams_too() {
    let rig = rig(|_| ());
    let (ann_id, ann_token) = rig.login("ann");
    let (bob_id, bob_token) = rig.login("bob");
    let ann = [rig.socket(0, &ann_token, ""), rig.socket(1, &ann_token, "&status=true")];
    let bob = rig.socket(1, &bob_token, "");
    let sockets = json!({ "mode": 0, "subject": ann_id });
    let online = json!({ "mode": 1, "subject": ann_id });
    assert_eq!(answer(&rig, bob, "list", &sockets), "ann , ann ");
    assert_eq!(answer(&rig, bob, "count", &online), 1);
    rig.say(bob, &format!(r#"{{"cid":"9","status_follow":{{"user_ids":["{ann_id}"]}}}}"#));
    // A script sets a status, as the player might.
    let (is_new, _) = ask(&rig, ann[0], "join", &online, &json!({ "status": "busy" }));
    assert_eq!(is_new["answer"], true);
    let frames = rig.frames(bob);
    assert!(frames.len() == 1 && frames[0].contains("\"busy\""), "{frames:?}");
    ask(&rig, ann[0], "leave", &online, &json!({}));
    assert!(rig.frames(bob)[0].contains("leaves"));
    let created = rig.say(bob, r#"{"cid":"1","match_create":{}}"#);
    let id = member(&created.join(""), "match_id");
    rig.say(ann[0], &format!(r#"{{"cid":"2","match_join":{{"match_id":"{id}"}}}}"#));
    told(&rig, bob);
    let players = json!({ "mode": 5, "subject": id.trim_end_matches('.') });
    assert_eq!(answer(&rig, bob, "list", &players), "bob , ann ");
    // Taken out of the match, by somebody else's call.
    ask(&rig, ann[0], "leave", &players, &json!({}));
    assert!(rig.frames(bob).join("").contains("match_presence_event"));
    assert_eq!(answer(&rig, bob, "count", &players), 1);
    for (op, stream) in [("join", &players), ("join", &sockets), ("close", &players)] {
        let text = refusal(&rig, bob, op, stream, &json!({}));
        assert!(text.contains("are filled by the server"), "{op}: {text}");
    }
    let text = refusal(&rig, bob, "join", &json!({}), &json!({}));
    assert!(text.contains("that of a stream without a mode"), "{text}");
    let chat = json!({ "mode": 2, "label": "room" });
    assert!(refusal(&rig, bob, "join", &chat, &json!({})).contains("not implemented"));
    assert!(
        refusal(&rig, bob, "join", &lobby(1), &json!({ "user": ann_id, "session": bob_id }))
            .contains("session id does not exist")
    );
}

#[test]
fn streams_are_bounded_by_session_user_and_stream() {
    let rig = rig(|settings| {
        settings.limits.presences_per_session = 3;
        settings.limits.streams_per_user = 5;
        settings.limits.presences_per_stream = 2;
    });
    let (ann_id, ann_token) = rig.login("ann");
    let ann = [0, 1].map(|core| rig.socket(core, &ann_token, ""));
    // All about one subject, so that they live on one room, for which limits are counted.
    let stream =
        |label: usize| json!({ "mode": 100, "subject": ann_id, "label": label.to_string() });
    (0..3).for_each(|label| assert_eq!(answer(&rig, ann[0], "join", &stream(label)), true));
    let text = refusal(&rig, ann[0], "join", &stream(9), &json!({}));
    assert!(text.contains("limit.presences_per_session is 3"), "{text}");
    (3..5).for_each(|label| assert_eq!(answer(&rig, ann[1], "join", &stream(label)), true));
    let text = refusal(&rig, ann[1], "join", &stream(9), &json!({}));
    assert!(text.contains("limit.streams_per_user is 5"), "{text}");
    for (name, may) in [("bob", true), ("eve", false)] {
        let (_, token) = rig.login(name);
        let client = rig.socket(0, &token, "");
        if may {
            assert_eq!(answer(&rig, client, "join", &stream(0)), true);
        } else {
            let text = refusal(&rig, client, "join", &stream(0), &json!({}));
            assert!(text.contains("limit.presences_per_stream is 2"), "{text}");
        }
    }
    let counters =
        ["joins_refused", "limited_streams_per_user", "limited_presences_per_stream", "streams"];
    assert_eq!(counters.map(|name| rig.stat(name)), [1, 1, 1, 5]);
    // What was left counts no more.
    ask(&rig, ann[0], "leave", &stream(1), &json!({}));
    assert_eq!(answer(&rig, ann[0], "join", &stream(9)), true);
}

/// Whoever has a script send too much is stopped, by the call and by the user; a neighbour sends on.
#[test]
fn what_scripts_send_is_weighed_by_who_gets_it() {
    let rig = rig(|settings| {
        settings.limits.stream_deliveries_per_call = 10;
        settings.limits.stream_deliveries_per_user_per_s = 15;
    });
    let players: Vec<(String, String)> = ["ann", "bob", "eve"].map(|name| rig.login(name)).into();
    let [ann, bob, eve] = [0, 1, 2].map(|at| rig.socket(at % 2, &players[usize::from(at)].1, ""));
    let stream = &lobby(1);
    for client in [ann, bob, eve] {
        ask(&rig, client, "join", stream, &json!({}));
    }
    for client in [ann, bob, eve] {
        told(&rig, client);
    }
    let heard = |by: Client| {
        ask(&rig, by, "send_times", stream, &json!({ "times": 100 }));
        [ann, bob, eve].map(|client| told(&rig, client).len()).into_iter().max().unwrap()
    };
    // Three get each: four times of the call, once more of the user, and then nothing until it is later.
    assert_eq!([heard(ann), heard(ann), heard(ann)], [4, 1, 0]);
    assert_eq!(rig.stat("stream_messages_refused"), 96 + 99 + 100);
    assert_eq!(heard(bob), 4, "a neighbour");
    rig.advance(1_000);
    assert_eq!(heard(ann), 4);
}

/// Each sends once, as it begins; a user of the same room sends on.
#[test]
fn what_the_matches_of_a_room_send_is_weighed_together() {
    let modules = &[("streams.lua", MODULE), ("streaming.lua", STREAMING)];
    let tune = |settings: &mut server::settings::Settings| {
        settings.limits.stream_deliveries_of_matches_per_s = 5;
    };
    let rig = Rig::with(&Plan { modules, tune, ..Plan::default() });
    let [ann, bob] = ["ann", "bob"].map(|name| rig.socket(0, &rig.login(name).1, ""));
    let stream = &lobby(1);
    for client in [ann, bob] {
        ask(&rig, client, "join", stream, &json!({}));
    }
    for client in [ann, bob] {
        told(&rig, client);
    }
    let heard_of_matches = || {
        for _ in 0..10 {
            ask(&rig, ann, "match", stream, &json!({}));
        }
        told(&rig, bob).len()
    };
    assert_eq!(heard_of_matches(), 3, "both get each, until five have");
    assert_eq!(rig.stat("stream_messages_refused"), 7);
    ask(&rig, ann, "send_times", stream, &json!({ "times": 4 }));
    assert_eq!(told(&rig, bob).len(), 4, "a user");
    rig.advance(1_000);
    assert_eq!(heard_of_matches(), 3);
}

/// Members who are behind are told of some of those who come and go, and are not cut off.
#[test]
fn a_flood_of_presences_leaves_those_out_who_are_behind() {
    let rig = rig(|settings| settings.limits.stream_events_per_s = 4);
    let (_, ann_token) = rig.login("ann");
    let (_, bob_token) = rig.login("bob");
    let (ann, bob) = (rig.socket(0, &ann_token, ""), rig.socket(1, &bob_token, ""));
    ask(&rig, ann, "join", &lobby(1), &json!({}));
    rig.set_behind(ann);
    for _ in 0..8 {
        ask(&rig, bob, "join", &lobby(1), &json!({}));
        ask(&rig, bob, "leave", &lobby(1), &json!({}));
    }
    // One told of itself, then three of the other.
    assert_eq!(told(&rig, ann).len(), 3);
    assert_eq!(rig.stat("stream_events_excess"), 13);
    rig.take_once(ann);
    rig.advance(2_000);
    ask(&rig, bob, "join", &lobby(1), &json!({}));
    assert_eq!(told(&rig, ann).iter().map(moves).collect::<Vec<_>>(), [(vec!["bob"], vec![])]);
}

/// The session ends while it is on its way from its user's room to the stream's.
#[test]
fn who_has_gone_is_in_no_stream() {
    let rig = rig(|_| ());
    let (user, token) = rig.login("ann");
    let user_id = Uuid::try_parse(&user).unwrap();
    let home = rig.topology.room_of(user_id);
    let mut names = (0..64).map(|label| StreamId {
        mode: 100,
        subject: Uuid::nil(),
        subcontext: Uuid::nil(),
        label: label.to_string().into(),
    });
    let stream = names.find(|id| rig.topology.room_of(id.home()) != home).unwrap();
    let client = rig.socket(0, &token, "&status=true");
    let event = rig.frames(client).join("");
    let session_id = Uuid::try_parse(&member(&event, "session_id")).unwrap();
    let join = || {
        let request = StreamRequest::Join(SessionId { user_id, session_id }, StreamMeta::default());
        StreamMail { stream: stream.clone(), request, member: None, reply: None }
    };
    rig.mail(home, RoomMail::Streams(vec![join()]));
    rig.closed_only(client, CloseReason::Peer);
    rig.settle();
    assert_eq!((rig.stat("streams"), rig.stat("presences")), (0, 0));
    // And if it ends right behind.
    let client = rig.socket(0, &token, "&status=true");
    drop(rig.frames(client));
    rig.mail(home, RoomMail::Streams(vec![join()]));
    rig.settle();
    assert_eq!(rig.stat("streams"), 0, "the session is another one");
}

/// Whoever leaves a match is put into the lobby by it: not if the session has ended, on whichever room it lived.
#[test]
fn a_match_puts_nobody_who_has_gone_into_a_stream() {
    let rig = rig(|_| ());
    let (_, token) = rig.login("ann");
    for _ in 0..16 {
        let client = rig.socket(0, &token, "&status=true");
        let (made, _) = ask(&rig, client, "match", &lobby(1), &json!({}));
        let id = made["answer"].as_str().unwrap();
        rig.say(client, &format!(r#"{{"cid":"3","match_join":{{"match_id":"{id}"}}}}"#));
        rig.settle();
        rig.closed_only(client, CloseReason::Peer);
        rig.settle();
        assert_eq!((rig.stat("streams"), rig.stat("presences")), (0, 0), "{id}");
    }
}

/// From a match callback: it waits for the answer of whichever room the stream lives on.
#[test]
fn match_callbacks_send_everywhere() {
    let rig = rig(|_| ());
    let (_, token) = rig.login("ann");
    let ann = rig.socket(0, &token, "");
    ask(&rig, ann, "join", &lobby(1), &json!({}));
    let mut heard = std::collections::BTreeSet::new();
    for _ in 0..24 {
        let (made, mut frames) = ask(&rig, ann, "match", &lobby(1), &json!({}));
        assert_eq!(made["ok"], true, "{made}");
        frames.extend(told(&rig, ann));
        assert_eq!(frames.len(), 1, "{frames:?}");
        heard.insert(frames[0]["stream_data"]["data"].as_str().unwrap().to_owned());
    }
    assert_eq!(heard, ["from a match: 1".to_owned()].into());
}
