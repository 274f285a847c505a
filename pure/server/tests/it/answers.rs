//! Answers: how large one may be, and what happens while clients do not take theirs. In the rig
//! one answer may have 1 MiB, all together 4 MiB.

use crate::rig::{Client, Plan, Rig, member, request};

const OVER: u64 = (4 << 20) + 1;

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

/// Writes an object with a value of `bytes`, readable by everybody.
fn write(rig: &Rig, client: Client, auth: &str, key: &str, bytes: usize) {
    let value = format!(r#"{{\"t\":\"{}\"}}"#, "x".repeat(bytes));
    let body = format!(
        r#"{{"objects":[{{"collection":"c","key":"{key}","value":"{value}","permission_read":2}}]}}"#
    );
    assert_eq!(status(&rig.http(client, "PUT /v2/storage", auth, &body)), "200");
}

#[test]
fn a_repeated_object_is_answered_once_and_too_much_is_refused() {
    let rig = Rig::new();
    let (id, token) = rig.login("ada");
    let (client, auth) = (rig.open(0), format!("Bearer {token}"));
    for key in ["1", "2", "3", "4", "5"] {
        write(&rig, client, &auth, key, 250_000);
    }
    let read = |keys: &[&str]| {
        let ids: Vec<_> = keys
            .iter()
            .map(|key| format!(r#"{{"collection":"c","key":"{key}","user_id":"{id}"}}"#))
            .collect();
        let body = format!(r#"{{"object_ids":[{}]}}"#, ids.join(","));
        rig.http(client, "POST /v2/storage", &auth, &body)
    };
    let once = read(&["1"; 1_000]);
    assert!(status(&once) == "200" && once.len() < 300_000, "{} bytes", once.len());
    let refused = read(&["1", "2", "3", "4", "5"]);
    assert_eq!(status(&refused), "429");
    assert!(refused.contains("limit.answer_max_bytes (1048576)"), "{refused}");
    let page = rig.http(client, "GET /v2/storage/c?limit=100", &auth, "");
    assert_eq!(page.matches("\"key\"").count(), 4);
    let cursor = member(&page, "cursor");
    let target = format!("GET /v2/storage/c?limit=100&cursor={cursor}");
    let page = rig.http(client, &target, &auth, "");
    assert!(page.matches("\"key\"").count() == 1 && !page.contains("cursor"));
}

#[test]
fn the_text_of_an_error_is_cut() {
    let module = "local nk = require('nakama')
        nk.register_rpc(function() error({ ('é'):rep(1000000), 3 }) end, 'raise')
        nk.register_req_before(function() error({ ('é'):rep(1000000), 3 }) end, 'GetAccount')";
    let rig = Rig::with(&Plan { modules: &[("raise.lua", module)], ..Plan::default() });
    let auth = format!("Bearer {}", rig.login("ada").1);
    for line in ["POST /v2/rpc/raise", "GET /v2/account"] {
        let answer = rig.http(rig.open(0), line, &auth, "");
        assert_eq!(status(&answer), "400");
        let length = answer.len();
        assert!(answer.contains("éé…\"") && length < 17_500, "{line}: {length} bytes");
    }
}

#[test]
fn while_clients_take_nothing_large_answers_are_refused_and_small_ones_given() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let (client, auth) = (rig.open(0), format!("Bearer {token}"));
    write(&rig, client, &auth, "1", 200_000);
    rig.set_unsent(OVER);
    let page = rig.http(client, "GET /v2/storage/c?limit=1", &auth, "");
    assert!(status(&page) == "503" && page.contains("limit.unsent_max_bytes"), "{page}");
    assert_eq!(status(&rig.http(client, "GET /v2/account", &auth, "")), "200");
    // Of two that are answered at once there is room for one.
    rig.set_unsent(OVER - 300_000);
    let clients = [client, rig.open(0)];
    for client in clients {
        rig.bytes_only(client, &request("GET /v2/storage/c?limit=1", &auth, ""));
    }
    rig.settle();
    let answers = clients.map(|client| rig.text(client));
    assert_eq!(answers.each_ref().map(|answer| status(answer)), ["200", "503"]);
    assert_eq!(rig.stat("answers_refused"), 2);
    rig.set_unsent(0);
    assert_eq!(status(&rig.http(client, "GET /v2/storage/c?limit=1", &auth, "")), "200");
}

/// A client that asks for more than it takes is not closed: it is asked nothing more of until it has
/// taken what it asked for.
#[test]
fn who_does_not_take_answers_waits_for_the_next() {
    let rig = Rig::new();
    let (_, token) = rig.login("ada");
    let (client, auth) = (rig.open(0), format!("Bearer {token}"));
    write(&rig, client, &auth, "1", 200_000);
    rig.set_behind(client);
    let page = request("GET /v2/storage/c?limit=1", &auth, "");
    let small = request("GET /healthcheck", "", "");
    let answers = |rig: &Rig| rig.text(client).matches("HTTP/1.1 200 ").count();
    rig.bytes(client, &[&page[..], &page, &small, &small, &page].concat());
    assert_eq!(answers(&rig), 1);
    // However long that takes; what it sends meanwhile waits too.
    rig.advance(120_000);
    rig.bytes(client, &small);
    assert_eq!((answers(&rig), rig.is_closed(client)), (0, false));
    for expected in [1, 3, 1, 0] {
        rig.take_once(client);
        assert_eq!(answers(&rig), expected);
    }
    assert_eq!((rig.stat("answers_awaited"), rig.stat("input_bytes_waiting")), (3, 0));
    // Small answers that are taken late are no reason to wait, many of them are.
    rig.bytes(client, &small.repeat(100));
    assert_eq!(answers(&rig), 100);
    rig.bytes(client, &small.repeat(600));
    let given = answers(&rig);
    assert!((100..500).contains(&given), "{given}");
    rig.take_once(client);
    rig.take_once(client);
    rig.take_once(client);
    assert_eq!(given + answers(&rig), 600);
}

/// The same on a socket; what others say to it is not held back.
#[test]
fn who_does_not_take_answers_on_a_socket_waits_for_the_next() {
    let module = "local nk = require('nakama')
        nk.register_rpc(function(context, payload) return string.rep('x', 40000) end, 'much')";
    let rig = Rig::with(&Plan { modules: &[("much.lua", module)], ..Plan::default() });
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    rig.set_behind(socket);
    let ask = r#"{"cid":"1","rpc":{"id":"much"}}"#;
    let answers = |rig: &Rig| rig.frames(socket).iter().filter(|it| it.contains("xxx")).count();
    (0..3).for_each(|_| rig.bytes(socket, &crate::rig::text_frame(ask)));
    assert_eq!(answers(&rig), 1);
    // Nobody listens to its pongs: it is not silent.
    rig.advance(120_000);
    assert!(!rig.is_closed(socket) && rig.stat("sessions") == 1);
    rig.take(socket);
    for expected in [1, 1, 0] {
        rig.take_once(socket);
        assert_eq!(answers(&rig), expected);
    }
    rig.advance(60_000);
    assert_eq!(rig.stat("sessions"), 0, "now it is silent");
    assert_eq!(rig.stat("answers_awaited"), 2);
}

#[test]
fn an_rpc_answers_with_so_much_at_most() {
    let module = "local nk = require('nakama')
        nk.register_rpc(function(context, payload)
            return string.rep('x', tonumber(payload))
        end, 'much')";
    let rig = Rig::with(&Plan { modules: &[("much.lua", module)], ..Plan::default() });
    assert_eq!(rig.rpc("much", "1048576").len(), 1 << 20);
    let refused = rig.rpc("much", "1048577");
    assert!(refused.contains("limit.answer_max_bytes"), "{refused}");
    let (_, token) = rig.login("ada");
    let socket = rig.socket(0, &token, "");
    rig.set_unsent(OVER);
    let frames = rig.say(socket, r#"{"cid":"1","rpc":{"id":"much","payload":"20000"}}"#);
    assert!(frames[0].contains("limit.unsent_max_bytes"), "{frames:?}");
}

/// The flood is its sender's fault: who is behind gets less, who is not gets all, and the messages
/// of others come through.
#[test]
fn a_flood_in_a_relayed_match_gives_way_at_members_who_are_behind() {
    let rig = Rig::new();
    let mut sockets = Vec::new();
    for name in ["flooder", "slow-member", "fast-member"] {
        let (_, token) = rig.login(name);
        sockets.push(rig.socket(0, &token, ""));
    }
    let [flooder, slow, fast] = sockets[..] else { unreachable!() };
    let created = rig.say(flooder, r#"{"cid":"1","match_create":{}}"#).join("");
    let id = member(&created, "match_id");
    for socket in [slow, fast] {
        rig.say(socket, &format!(r#"{{"cid":"1","match_join":{{"match_id":"{id}"}}}}"#));
    }
    rig.set_behind(slow);
    let data = "A".repeat(1_336);
    let say = |socket, op_code: u32| {
        let body = format!(r#"{{"match_id":"{id}","op_code":"{op_code}","data":"{data}"}}"#);
        rig.say(socket, &format!(r#"{{"match_data_send":{body}}}"#));
    };
    let heard = |socket, op_code: u32| {
        let op_code = format!("\"op_code\":\"{op_code}\"");
        rig.frames(socket).iter().filter(|frame| frame.contains(&op_code)).count()
    };
    (0..200).for_each(|_| say(flooder, 7));
    // 64 KiB of it, at 1,130 bytes each.
    assert_eq!((heard(slow, 7), heard(fast, 7)), (57, 200));
    assert_eq!(rig.stat("relayed_messages_excess"), 143);
    rig.advance(1_000);
    (0..50).for_each(|_| say(flooder, 7));
    assert_eq!((heard(slow, 7), heard(fast, 7)), (0, 50), "right after a second of flood");
    rig.advance(2_000);
    say(fast, 8);
    say(flooder, 8);
    assert_eq!(heard(slow, 8), 2);
}
