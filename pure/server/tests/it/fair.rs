//! Nobody takes it all: what one user may have of sockets, requests, matches and workers, and who is
//! served next.

use std::sync::Arc;

use event::{Network, ThreadId};
use server::settings::Settings;

use crate::disk::Disk;
use crate::rig::{Client, Plan, Rig, member, request, server_key, upgrade};

const ECHO: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context, payload) return payload end, 'other')";

const WRITE: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload)
        nk.storage_write({{ collection = 'c', key = 'k', user_id = context.user_id, value = {} }})
    end, 'write')";

fn rig_with(callers: u16, tune: fn(&mut Settings)) -> Rig {
    Rig::with(&Plan { callers, tune, modules: &[("echo.lua", ECHO)], ..Plan::default() })
}

/// A call of the RPC function, sent; nobody but the core has run.
pub(crate) fn call(rig: &Rig, token: &str) -> Client {
    call_of(rig, token, "echo")
}

pub(crate) fn call_of(rig: &Rig, token: &str, function: &str) -> Client {
    let client = rig.open(0);
    let auth = format!("Bearer {token}");
    rig.bytes_only(client, &request(&format!("POST /v2/rpc/{function}?unwrap"), &auth, "x"));
    client
}

fn is_answered(rig: &Rig, client: Client) -> bool {
    rig.text(client).starts_with("HTTP/1.1 200")
}

#[test]
fn calls_of_one_user_keep_half_of_the_callers_at_most_from_others() {
    let rig = rig_with(2, |_| {});
    let (slow, quick) = (rig.login("slow").1, rig.login("quick").1);
    let callers: Vec<_> = rig.topology.callers.clone();
    // The function and the neighbour are known to be fast.
    call(&rig, &rig.login("first").1);
    call(&rig, &quick);
    rig.settle();
    let before: Vec<_> = callers.iter().map(|caller| rig.posted(*caller, "job")).collect();
    let posted = || {
        let now = callers.iter().map(|caller| rig.posted(*caller, "job"));
        now.zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>()
    };
    // Its first call stands still, as a slow one does.
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    let clients: Vec<Client> = (0..40).map(|_| call(&rig, &slow)).collect();
    rig.settle();
    assert_eq!(posted().iter().sum::<u64>(), 1, "{:?}", posted());
    let held = callers[posted().iter().position(|count| *count == 1).unwrap()];
    callers.iter().filter(|caller| **caller != held).for_each(|it| rig.freeze(*it, false));
    for _ in 0..3 {
        let neighbour = call(&rig, &quick);
        rig.settle();
        assert!(is_answered(&rig, neighbour), "a neighbour waits");
    }
    // Nothing is lost: once it moves again, all are answered, and in the end several at a time.
    rig.freeze(held, false);
    rig.settle();
    assert!(clients.iter().all(|client| is_answered(&rig, *client)));
    assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting")), (0, 0));
}

#[test]
fn strangers_who_call_a_slow_function_leave_a_caller_to_others() {
    let rig = rig_with(2, |_| {});
    let quick = rig.login("quick").1;
    let callers: Vec<_> = rig.topology.callers.clone();
    let posted = || callers.iter().map(|caller| rig.posted(*caller, "job")).collect::<Vec<_>>();
    call(&rig, &quick);
    rig.settle();
    for is_known in [false, true] {
        let before = posted();
        // One call each of many accounts, of which nothing is known; they stand still.
        callers.iter().for_each(|caller| rig.freeze(*caller, true));
        let strangers: Vec<Client> = (0..20)
            .map(|at| call_of(&rig, &rig.login(&format!("stranger-{is_known}-{at}")).1, "other"))
            .collect();
        rig.settle();
        let held = callers.iter().zip(posted()).zip(before).find(|((_, now), was)| now != was);
        let held = *held.unwrap().0.0;
        callers.iter().filter(|caller| **caller != held).for_each(|it| rig.freeze(*it, false));
        for _ in 0..3 {
            let neighbour = call(&rig, &quick);
            rig.settle();
            assert!(is_answered(&rig, neighbour), "a neighbour waits, {is_known}");
        }
        rig.set_look_ms(900);
        rig.freeze(held, false);
        rig.settle();
        rig.set_look_ms(0);
        assert!(strangers.iter().all(|client| is_answered(&rig, *client)));
        // The users' own records are forgotten; the function's is not. The neighbour is fast again.
        rig.advance(6_000);
        call(&rig, &quick);
        rig.settle();
    }
    assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting")), (0, 0));
}

/// Calls of `other` that stand still, once all that is to be known is; gives the callers that have
/// some, and a neighbour who calls another function must get its answer from one of the rest.
fn held_by(rig: &Rig, users: &[String], quick: &str, what: &str) -> usize {
    let callers = &rig.topology.callers;
    let posted = || callers.iter().map(|caller| rig.posted(*caller, "job")).collect::<Vec<_>>();
    let before = posted();
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    let slow: Vec<Client> = users.iter().map(|user| call_of(rig, user, "other")).collect();
    rig.settle();
    // What comes later, when it is seen that the first ones take long, finds no other caller either.
    rig.advance(100);
    let held: Vec<bool> = posted().iter().zip(&before).map(|(now, was)| now != was).collect();
    callers.iter().zip(&held).filter(|it| !it.1).for_each(|it| rig.freeze(*it.0, false));
    for _ in 0..3 {
        let neighbour = call(rig, quick);
        rig.advance(100);
        assert!(is_answered(rig, neighbour), "a neighbour waits: {what}");
    }
    callers.iter().for_each(|caller| rig.freeze(*caller, false));
    rig.advance(1_000);
    assert!(slow.iter().all(|client| is_answered(rig, *client)), "{what}");
    assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting")), (0, 0));
    held.into_iter().filter(|is_held| *is_held).count()
}

/// A rig and users whose calls of both functions, and who as such, are known to be fast.
fn rig_with_fast_users(callers: u16, count: usize) -> (Rig, Vec<String>, String) {
    let rig = rig_with(callers, |_| {});
    let quick = rig.login("quick").1;
    let users: Vec<String> = (0..count).map(|at| rig.login(&format!("user-{at}")).1).collect();
    for user in users.iter().chain([&quick]) {
        for function in ["echo", "other"] {
            call_of(&rig, user, function);
            rig.settle();
        }
    }
    rig.advance(1_000);
    (rig, users, quick)
}

#[test]
fn a_quick_function_that_turns_slow_in_many_hands_at_once_leaves_a_caller_to_others() {
    for callers in [2, 4] {
        let (rig, users, quick) = rig_with_fast_users(callers, 8);
        let held = held_by(&rig, &users, &quick, "of users who were fast");
        assert_eq!(held, usize::from(callers) - 1);
    }
}

#[test]
fn a_quick_function_that_turns_slow_leaves_a_caller_to_others_one_call_after_the_other() {
    let (rig, users, quick) = rig_with_fast_users(2, 8);
    let callers = rig.topology.callers.clone();
    // The first call is running for long, while another caller answers a fast one of the function.
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    let before = rig.posted(callers[0], "job");
    call_of(&rig, &users[0], "other");
    let held = usize::from(rig.posted(callers[0], "job") == before);
    rig.freeze(callers[1 - held], false);
    let before = rig.posted(callers[1 - held], "job");
    rig.advance(20);
    for user in &users[1..] {
        call_of(&rig, user, "other");
        rig.advance(20);
    }
    assert_eq!(rig.posted(callers[1 - held], "job"), before, "it is seen to take long");
    let neighbour = call(&rig, &quick);
    rig.settle();
    assert!(is_answered(&rig, neighbour));
}

#[test]
fn first_calls_of_users_leave_a_caller_to_others() {
    let (rig, _, quick) = rig_with_fast_users(2, 1);
    let strangers = [0, 1].map(|at| rig.login(&format!("stranger-{at}")).1);
    // Right after a fast call of the function, which says nothing about those users.
    call_of(&rig, &quick, "other");
    rig.settle();
    assert_eq!(held_by(&rig, &strangers, &quick, "of unknown users"), 1);
}

/// A first call does not wait for a slow call of somebody else.
#[test]
fn a_new_user_finds_the_caller_that_slow_calls_leave_free() {
    let (rig, users, _) = rig_with_fast_users(2, 1);
    let callers = rig.topology.callers.clone();
    rig.set_look_ms(900);
    call_of(&rig, &users[0], "other");
    rig.advance(1_000);
    rig.set_look_ms(0);
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    let before = rig.posted(callers[0], "job");
    call_of(&rig, &users[0], "other");
    rig.settle();
    let held = usize::from(rig.posted(callers[0], "job") == before);
    rig.freeze(callers[1 - held], false);
    let newcomer = call(&rig, &rig.login("newcomer").1);
    rig.settle();
    assert!(is_answered(&rig, newcomer));
}

#[test]
fn fast_calls_between_do_not_hide_the_slow_ones_of_a_function() {
    let (rig, users, quick) = rig_with_fast_users(2, 40);
    for (at, pair) in users.chunks(2).enumerate() {
        if at > 0 {
            assert_eq!(held_by(&rig, pair, &quick, "a pair of slow calls"), 1, "{at}");
        }
        rig.set_look_ms(900);
        pair.iter().for_each(|user| _ = call_of(&rig, user, "other"));
        rig.advance(500);
        rig.set_look_ms(0);
        for _ in 0..60 {
            call_of(&rig, &quick, "other");
            rig.advance(1);
        }
    }
}

/// As slow as it may be without being long.
#[test]
fn a_function_that_others_made_slow_is_not_slow_for_who_was_fast() {
    let (rig, users, quick) = rig_with_fast_users(2, 13);
    let callers = rig.topology.callers.clone();
    call_of(&rig, &quick, "other");
    rig.settle();
    rig.set_look_ms(30);
    users.iter().for_each(|user| _ = call_of(&rig, user, "other"));
    rig.settle();
    rig.set_look_ms(0);
    // One of them runs, another one waits for it.
    rig.freeze(callers[0], true);
    let slow = [0, 1].map(|at| call_of(&rig, &users[at], "other"));
    for _ in 0..3 {
        let neighbour = call_of(&rig, &quick, "other");
        rig.settle();
        assert!(is_answered(&rig, neighbour), "a neighbour waits");
    }
    assert!(!slow.iter().any(|client| is_answered(&rig, *client)));
    rig.freeze(callers[0], false);
    rig.settle();
    assert!(slow.iter().all(|client| is_answered(&rig, *client)));
}

#[test]
fn a_function_that_is_always_quick_uses_all_callers() {
    let (rig, users, _) = rig_with_fast_users(3, 30);
    call_of(&rig, &users[0], "other");
    rig.settle();
    let callers = rig.topology.callers.clone();
    let posted = || callers.iter().map(|caller| rig.posted(*caller, "job")).collect::<Vec<_>>();
    let before = posted();
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    users.iter().for_each(|user| (0..3).for_each(|_| _ = call_of(&rig, user, "other")));
    let at_each: Vec<u64> = posted().iter().zip(before).map(|(now, was)| now - was).collect();
    assert_eq!(at_each, [30, 30, 30]);
}

/// The calls last 900 ms by the wall clock: the machine is short of processors, or they block.
#[test]
fn waiting_for_a_processor_makes_nobody_slow() {
    for (waited_ms, posted_at_once) in [(899, 3), (0, 1)] {
        let rig = rig_with(1, |_| {});
        let user = rig.login("ada").1;
        let caller = rig.topology.callers[0];
        rig.set_waited_ms(900, waited_ms);
        call(&rig, &user);
        rig.settle();
        let before = rig.posted(caller, "job");
        rig.freeze(caller, true);
        let clients: Vec<Client> = (0..3).map(|_| call(&rig, &user)).collect();
        rig.settle();
        assert_eq!(rig.posted(caller, "job") - before, posted_at_once, "{waited_ms}");
        rig.freeze(caller, false);
        rig.settle();
        assert!(clients.iter().all(|client| is_answered(&rig, *client)));
    }
}

/// A call that writes lasts 900 ms. Another writer had the database for nearly all of it; or nobody, and the
/// call was blocked by itself; or it computed meanwhile.
#[test]
fn waiting_for_the_database_s_turn_makes_nobody_slow() {
    for (turn_ms, blocked_ms, posted_at_once) in [(899, 899, 3), (0, 899, 1), (899, 0, 1)] {
        let disk = Arc::new(Disk::default());
        let modules = &[("write.lua", WRITE)];
        let rig = Rig::with(&Plan { modules, disk: Some(Arc::clone(&disk)), ..Plan::default() });
        let user = rig.login("ada").1;
        let caller = rig.topology.callers[0];
        rig.set_blocked_ms(900, blocked_ms);
        disk.set_turn_us(turn_ms * 1_000);
        let first = call_of(&rig, &user, "write");
        rig.settle();
        assert!(is_answered(&rig, first));
        let before = rig.posted(caller, "job");
        rig.freeze(caller, true);
        let clients: Vec<Client> = (0..3).map(|_| call_of(&rig, &user, "write")).collect();
        rig.settle();
        let posted = rig.posted(caller, "job") - before;
        assert_eq!(posted, posted_at_once, "{turn_ms} {blocked_ms}");
        rig.freeze(caller, false);
        rig.settle();
        assert!(clients.iter().all(|client| is_answered(&rig, *client)));
    }
}

#[test]
fn with_one_caller_users_take_turns() {
    let rig = rig_with(1, |_| {});
    let (many, few) = (rig.login("many").1, rig.login("few").1);
    let caller = rig.topology.callers[0];
    rig.freeze(caller, true);
    let first: Vec<Client> = (0..10).map(|_| call(&rig, &many)).collect();
    let neighbour = call(&rig, &few);
    // A client that is gone is not worked for.
    rig.closed_only(first[9], event::CloseReason::Peer);
    rig.freeze(caller, false);
    rig.turn(caller);
    rig.turn(ThreadId(0));
    rig.turn(caller);
    rig.turn(ThreadId(0));
    assert!(is_answered(&rig, neighbour), "the neighbour is the second, not the eleventh");
    rig.settle();
    assert!(first[..9].iter().all(|client| is_answered(&rig, *client)));
    assert_eq!(rig.stat("dropped_calls"), 1);
    assert_eq!(rig.stat("rpc_count"), 10);
}

#[test]
fn whoever_turns_slow_or_quick_while_calls_wait_is_served_to_the_end() {
    for (callers, look_ms) in [(1, [0, 900, 0]), (2, [900, 0, 900]), (3, [900, 900, 900])] {
        let rig = rig_with(callers, |_| {});
        let users = [rig.login("ada").1, rig.login("bob").1, rig.login("eve").1];
        let all: Vec<_> = rig.topology.callers.clone();
        let mut clients = Vec::new();
        for ms in look_ms {
            rig.set_look_ms(ms);
            all.iter().for_each(|caller| rig.freeze(*caller, true));
            clients.extend((0..60).map(|at| call(&rig, &users[at % 3])));
            all.iter().for_each(|caller| rig.freeze(*caller, false));
            rig.settle();
            // What was slow is forgotten, or not yet.
            rig.advance(if callers == 2 { 6_000 } else { 10 });
        }
        assert!(clients.iter().all(|client| is_answered(&rig, *client)), "{callers}");
        assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting")), (0, 0));
    }
}

/// Nobody answers meanwhile: the time itself lets the call go.
#[test]
fn a_call_goes_to_an_idle_caller_once_its_users_slow_one_is_forgotten() {
    let rig = rig_with(2, |_| {});
    let (long, other) = (rig.login("long").1, rig.login("other").1);
    rig.set_look_ms(900);
    for token in [&long, &other] {
        let slow = call_of(&rig, token, "other");
        rig.settle();
        assert!(is_answered(&rig, slow));
    }
    // The users were slow, this function is not.
    rig.set_look_ms(0);
    call(&rig, &rig.login("quick").1);
    rig.settle();
    let callers: Vec<_> = rig.topology.callers.clone();
    let posted = || callers.iter().map(|caller| rig.posted(*caller, "job")).collect::<Vec<_>>();
    let before = posted();
    callers.iter().for_each(|caller| rig.freeze(*caller, true));
    call_of(&rig, &long, "other");
    rig.settle();
    let held = usize::from(posted()[0] == before[0]);
    rig.freeze(callers[1 - held], false);
    let waiting = call(&rig, &other);
    rig.advance(1_000);
    assert!(!is_answered(&rig, waiting), "one caller is kept free of slow users");
    rig.advance(5_000);
    assert!(is_answered(&rig, waiting), "it waits for a call of another user");
}

#[test]
fn a_batch_ends_after_a_while_however_few_calls_it_has() {
    let rig = rig_with(1, |_| {});
    let (many, few) = (rig.login("many").1, rig.login("few").1);
    rig.set_look_ms(10);
    let get = |token: &str| {
        let client = rig.open(0);
        let auth = format!("Bearer {token}");
        rig.bytes_only(client, &request("GET /v2/account", &auth, ""));
        client
    };
    let clients: Vec<Client> = (0..40).map(|_| get(&many)).collect();
    let neighbour = get(&few);
    for _ in 0..2 {
        rig.turn(rig.topology.batcher);
        rig.turn(ThreadId(0));
    }
    assert!(is_answered(&rig, neighbour), "the neighbour waits for all of another's calls");
    rig.settle();
    assert!(clients.iter().all(|client| is_answered(&rig, *client)));
}

#[test]
fn a_batch_ends_and_users_take_turns_in_it() {
    let rig = rig_with(1, |settings| settings.limits.calls_waiting_per_user = 0);
    let (many, few) = (rig.login("many").1, rig.login("few").1);
    let get = |token: &str| {
        let client = rig.open(0);
        let auth = format!("Bearer {token}");
        rig.bytes_only(client, &request("GET /v2/account", &auth, ""));
        client
    };
    let clients: Vec<Client> = (0..2_000).map(|_| get(&many)).collect();
    let neighbour = get(&few);
    rig.turn(rig.topology.batcher);
    rig.turn(ThreadId(0));
    assert!(is_answered(&rig, neighbour), "the neighbour is in the first batch");
    assert!(rig.stat("db_batches_cut") >= 1);
    rig.settle();
    assert!(clients.iter().all(|client| is_answered(&rig, *client)));
}

#[test]
fn calls_that_wait_are_bounded_for_each_user() {
    let rig = rig_with(1, |settings| settings.limits.calls_waiting_per_user = 5);
    let (many, few) = (rig.login("many").1, rig.login("few").1);
    rig.freeze(rig.topology.callers[0], true);
    let clients: Vec<Client> = (0..6).map(|_| call(&rig, &many)).collect();
    let refused = rig.text(clients[5]);
    for part in
        ["HTTP/1.1 429 ", "Retry-After: 1\r\n", "\"code\":8", "limit.calls_waiting_per_user"]
    {
        assert!(refused.contains(part), "{refused}");
    }
    let neighbour = call(&rig, &few);
    assert_eq!(rig.text(neighbour), "", "it waits, as it may");
    assert_eq!(rig.stat("limited_calls_waiting_per_user"), 1);
}

#[test]
fn requests_are_limited_for_each_user_and_address() {
    fn tune(settings: &mut Settings) {
        settings.limits.requests_per_user_per_s = 10;
        settings.limits.requests_per_address_per_s = 100;
    }
    let rig = rig_with(1, tune);
    let (ada, bob) = (rig.login("ada").1, rig.login("bob").1);
    let (client, auth) = (rig.open(0), format!("Bearer {ada}"));
    let ask = || rig.http(client, "GET /v2/account", &auth, "");
    assert!((0..10).all(|_| ask().starts_with("HTTP/1.1 200 ")));
    let refused = ask();
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("requests_per_user_per_s"));
    // Its sockets are the same user; another user is not.
    let socket = rig.socket(0, &bob, "");
    assert_eq!(rig.say(socket, r#"{"cid":"1","ping":{}}"#), [r#"{"cid":"1","pong":{}}"#]);
    rig.advance(100);
    assert!(ask().starts_with("HTTP/1.1 200 ") && ask().starts_with("HTTP/1.1 429 "));
    let frames: Vec<_> =
        (0..11).flat_map(|_| rig.say(socket, r#"{"cid":"2","ping":{}}"#)).collect();
    let last = frames.last().unwrap();
    assert!(last.contains("\"error\"") && last.contains("limit.requests_per_user_per_s"), "{last}");
    assert!(last.contains("\"cid\":\"2\""), "{last}");
    // This rig's clients are on loopback, which is exempt; without the exemption:
    let rig = Rig::with(&Plan {
        tune: |settings| {
            tune(settings);
            settings.limits.exempt_addresses = Network::parse("10.0.0.0/8").into_iter().collect();
        },
        ..Plan::default()
    });
    let client = rig.open(0);
    let answers: Vec<_> = (0..101).map(|_| rig.http(client, "GET /healthcheck", "", "")).collect();
    assert!(answers[99].starts_with("HTTP/1.1 200 "), "{}", answers[99]);
    assert!(answers[100].contains("limit.requests_per_address_per_s"), "{}", answers[100]);
    assert_eq!(rig.stat("limited_requests_per_address"), 1);
    let asked = rig.http(client, "OPTIONS /v2/account", "", "");
    assert!(asked.starts_with("HTTP/1.1 429 "), "{asked}");
    // What is over the limit is not unpacked either: nobody has seen that this is no gzip.
    let packed =
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\n!";
    rig.bytes(client, packed);
    let answer = rig.text(client);
    assert!(answer.starts_with("HTTP/1.1 429 ") && !rig.is_closed(client), "{answer}");
}

#[test]
fn sockets_are_limited_for_each_user() {
    let rig = rig_with(1, |settings| settings.limits.sockets_per_user = 2);
    let (ada, bob) = (rig.login("ada").1, rig.login("bob").1);
    let open = [rig.socket(0, &ada, ""), rig.socket(0, &ada, "")];
    let refused = || {
        let client = rig.open(0);
        rig.bytes(client, &upgrade(&ada, ""));
        rig.text(client)
    };
    let answer = refused();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("Retry-After: 1\r\n") && answer.contains("limit.sockets_per_user"));
    rig.socket(0, &bob, "");
    rig.closed(open[0], event::CloseReason::Peer);
    rig.socket(0, &ada, "");
    assert!(refused().starts_with("HTTP/1.1 429 "));
    assert_eq!(rig.stat("limited_sockets_per_user"), 2);
}

/// The address is heard of for the first time when its socket opens.
#[test]
fn the_sockets_of_a_user_and_of_its_address_are_counted_apart() {
    let rig = rig_with(1, |settings| {
        settings.limits.sockets_per_user = 1;
        settings.limits.requests_per_address_per_s = 0;
        settings.limits.exempt_addresses.clear();
    });
    let ada = rig.login("ada").1;
    rig.socket(0, &ada, "");
    let client = rig.open(0);
    rig.bytes(client, &upgrade(&ada, ""));
    let refused = rig.text(client);
    assert!(refused.contains("limit.sockets_per_user"), "{refused}");
}

fn few_connections(settings: &mut Settings) {
    settings.limits.connections_per_address = 3;
}

#[test]
fn connections_are_limited_for_each_address() {
    const FLOODER: [u8; 4] = [10, 0, 0, 1];
    let rig = rig_with(1, few_connections);
    let ada = rig.login("ada").1;
    let from = |peer| rig.open_from(0, peer);
    let is_open = |client| rig.http(client, "GET /healthcheck", "", "").starts_with("HTTP/1.1 200");
    let open: Vec<Client> = (0..3).map(|_| from(FLOODER)).collect();
    let refused = from(FLOODER);
    let text = rig.text(refused);
    for part in
        ["HTTP/1.1 429 ", "Connection: close", "\"code\":8", "limit.connections_per_address is 3"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(rig.is_closed(refused) && open.iter().all(|client| is_open(*client)));
    // Other addresses are not concerned, and exempt ones have no limit.
    assert!(is_open(from([10, 0, 0, 2])));
    assert!((0..9).all(|_| is_open(from([127, 0, 0, 1]))));
    // Telling it costs something too: so many are told, the others are closed without a word.
    let flood: Vec<Client> = (0..200).map(|_| from(FLOODER)).collect();
    assert!(flood.iter().all(|client| rig.is_closed(*client)));
    assert_eq!(flood.iter().filter(|client| !rig.take(**client).is_empty()).count(), 63);
    assert_eq!(rig.stat("limited_connections_per_address"), 201);
    // What is closed makes room; a socket is no such connection any more, and counts as a socket.
    flood.iter().chain([&refused]).for_each(|it| rig.closed(*it, event::CloseReason::Asked));
    let refused = from(FLOODER);
    assert!(rig.text(refused).contains("429"), "three are open still");
    rig.closed(refused, event::CloseReason::Asked);
    rig.closed(open[0], event::CloseReason::Peer);
    rig.bytes(open[1], &upgrade(&ada, ""));
    assert!(rig.take(open[1]).starts_with(b"HTTP/1.1 101 "));
    assert!((0..2).all(|_| is_open(from(FLOODER))));
    rig.closed(open[1], event::CloseReason::Peer);
    assert!(rig.text(from(FLOODER)).contains("429"), "three are open again");
}

/// All connections are the proxy's: which client it opens one for nobody knows.
#[test]
fn a_proxy_may_open_as_many_connections_as_it_wants() {
    let rig = rig_with(1, |settings| {
        few_connections(settings);
        settings.socket.proxy_count = 1;
    });
    let clients: Vec<Client> = (0..100).map(|_| rig.open_from(0, [10, 0, 0, 1])).collect();
    for client in clients {
        assert!(rig.http(client, "GET /healthcheck", "", "").starts_with("HTTP/1.1 200"));
    }
    assert_eq!(rig.stat("limited_connections_per_address"), 0);
}

#[test]
fn a_proxy_that_the_server_does_not_know_of_is_noticed() {
    for (proxy_count, noticed) in [(0, 2), (1, 0)] {
        let rig = Rig::with(&Plan {
            tune: if proxy_count == 0 { |_| {} } else { |it| it.socket.proxy_count = 1 },
            ..Plan::default()
        });
        let [plain, first, second] = [(); 3].map(|()| rig.open(0));
        rig.http(plain, "GET /healthcheck", "", "");
        for client in [first, first, second] {
            let head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n";
            rig.bytes(client, head);
        }
        assert_eq!(rig.stat("forwarded_ignored"), noticed, "{proxy_count}");
    }
}

/// What a client writes itself into `X-Forwarded-For` does not make it the proxy, which is exempt.
#[test]
fn a_header_that_is_no_text_lifts_no_limit() {
    let rig = rig_with(1, |settings| {
        settings.socket.proxy_count = 1;
        settings.limits.requests_per_address_per_s = 2;
    });
    let ask = |forwarded: &[u8]| {
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ", forwarded, b"\r\n\r\n"];
        let client = rig.open(0);
        rig.bytes(client, &head.concat());
        rig.text(client)
    };
    for forwarded in [&b"9.9.9.9"[..], b"\xff, 9.9.9.9"] {
        assert!(ask(forwarded).starts_with("HTTP/1.1 200 "));
    }
    for forwarded in [&b"\xff, 9.9.9.9"[..], b"\xff\r\nX-Forwarded-For: 9.9.9.9"] {
        let refused = ask(forwarded);
        assert!(refused.contains("limit.requests_per_address_per_s"), "{refused}");
    }
    assert!(ask(b"\xff, 8.8.8.8").starts_with("HTTP/1.1 200 "), "another client");
}

#[test]
fn relayed_matches_are_limited_for_each_user() {
    let rig = rig_with(1, |settings| settings.limits.relayed_matches_per_user = 3);
    let (ada, bob) = (rig.login("ada").1, rig.login("bob").1);
    let sockets = [rig.socket(0, &ada, ""), rig.socket(0, &ada, "")];
    let create = |socket| rig.say(socket, r#"{"cid":"1","match_create":{}}"#).join("");
    let ids: Vec<_> = [0, 1, 0].map(|at: usize| member(&create(sockets[at]), "match_id")).into();
    let refused = create(sockets[1]);
    assert!(refused.contains("limit.relayed_matches_per_user"), "{refused}");
    // A match that it is in already is no further one, and another user has its own three.
    let join = |socket, id: &str| {
        rig.say(socket, &format!(r#"{{"cid":"2","match_join":{{"match_id":"{id}"}}}}"#)).join("")
    };
    assert!(join(sockets[0], &ids[0]).contains("\"match\""));
    let other = rig.socket(0, &bob, "");
    assert!(join(other, &ids[0]).contains("\"match\"") && create(other).contains("\"match\""));
    rig.closed(sockets[0], event::CloseReason::Peer);
    assert!(create(sockets[1]).contains("\"match\""));
    assert_eq!(rig.stat("limited_relayed_matches_per_user"), 1);
}

#[test]
fn passwords_are_tried_by_the_hasher_and_not_without_end() {
    let rig = rig_with(1, |_| {});
    let login = |email: &str, password: &str| {
        let client = rig.open(0);
        let line = "POST /v2/account/authenticate/email?create=true";
        let body = format!(r#"{{"email":"{email}","password":"{password}"}}"#);
        rig.http(client, line, &server_key(), &body)
    };
    assert!(login("ada@example.com", "right password").starts_with("HTTP/1.1 200 "));
    for _ in 0..5 {
        let wrong = login("ADA@example.com", "wrong password");
        assert!(wrong.starts_with("HTTP/1.1 401 "), "{wrong}");
    }
    let locked = login("ada@example.com", "right password");
    assert!(locked.starts_with("HTTP/1.1 429 "), "{locked}");
    assert!(locked.contains("limit.password_attempts_per_account"), "{locked}");
    assert!(locked.contains("Retry-After: 60\r\n"), "{locked}");
    assert!(locked.contains("60 s of limit.password_lockout_account_sec 60 are left"), "{locked}");
    assert!(login("bob@example.com", "right password").starts_with("HTTP/1.1 200 "));
    rig.advance(60_000);
    assert!(login("ada@example.com", "right password").starts_with("HTTP/1.1 200 "));
    assert_eq!(rig.stat("limited_password_attempts_per_account"), 1);
    let callers = &rig.topology.callers;
    assert!(callers.iter().all(|caller| rig.posted(*caller, "job") == 0), "RPCs are not held up");
}

#[test]
fn nobody_keeps_others_from_logging_in() {
    let rig = rig_with(1, |settings| {
        settings.limits.passwords_waiting = 8;
        settings.socket.proxy_count = 1;
    });
    rig.freeze(rig.topology.hasher, true);
    let login = |address: u8, name: usize| {
        let body = format!(r#"{{"email":"user{name}@site{address}.com","password":"password"}}"#);
        let client = rig.open(0);
        rig.bytes_only(
            client,
            format!(
                "POST /v2/account/authenticate/email HTTP/1.1\r\nHost: a\r\nAuthorization: {}\r\n\
                 X-Forwarded-For: 10.9.9.{address}\r\nContent-Length: {}\r\n\r\n{body}",
                server_key(),
                body.len()
            )
            .as_bytes(),
        );
        client
    };
    let flood: Vec<Client> = (0..8).map(|name| login(1, name)).collect();
    let refused = rig.text(flood[2]);
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("limit.passwords_waiting"), "{refused}");
    let neighbour = login(2, 0);
    assert_eq!(rig.text(neighbour), "", "it is refused because of another one's passwords");
    rig.freeze(rig.topology.hasher, false);
    rig.settle();
    assert!(is_answered(&rig, neighbour) && is_answered(&rig, flood[1]));
    assert!(rig.text(login(1, 8)).is_empty(), "its part is free again");
}

/// However many users write as much as one call may: between two such calls others have their turn.
#[test]
fn who_registers_waits_for_one_large_call_at_most() {
    let rig = rig_with(1, |_| {});
    let objects = |count: usize, bytes: usize| {
        let value = format!("{{\\\"x\\\":\\\"{}\\\"}}", "x".repeat(bytes));
        let one = |at| format!(r#"{{"collection":"c","key":"{at}","value":"{value}"}}"#);
        format!(r#"{{"objects":[{}]}}"#, (0..count).map(one).collect::<Vec<_>>().join(","))
    };
    for (count, bytes) in [(1_000, 1), (1, 200_000)] {
        let body = objects(count, bytes);
        let tokens: Vec<_> = (0..16).map(|at| rig.login(&format!("writer-{at}")).1).collect();
        let write = |token: &String| {
            let client = rig.open(0);
            let auth = format!("Bearer {token}");
            rig.bytes_only(client, &request("PUT /v2/storage", &auth, &body));
            client
        };
        let writers: Vec<Client> = tokens.iter().map(write).collect();
        let answered = || writers.iter().filter(|writer| is_answered(&rig, **writer)).count();
        rig.turn(rig.topology.batcher);
        rig.turn(ThreadId(0));
        let mut done = answered();
        assert!((1..=2).contains(&done), "{done} of 16 in the first batch");
        for at in 0..3 {
            let client = rig.open(0);
            let path = "POST /v2/account/authenticate/device?create=true";
            let body = format!(r#"{{"id":"neighbour-{count}-{at}"}}"#);
            rig.bytes_only(client, &request(path, &server_key(), &body));
            for _ in 0..2 {
                rig.turn(rig.topology.batcher);
                rig.turn(ThreadId(0));
            }
            assert!(is_answered(&rig, client), "{}", rig.text(client));
        }
        // Writers are served between, a batch of theirs for each of others.
        done += answered();
        assert!((4..=8).contains(&done), "{done} of 16");
        rig.settle();
        assert_eq!(done + answered(), 16);
    }
    assert!(rig.stat("db_batches_heavy") >= 16);
}

#[test]
fn listings_need_no_batcher_and_have_a_budget() {
    let rig = rig_with(1, |settings| {
        settings.limits.listings_per_user = 2;
        settings.matches.list_steps_max = 100_000;
    });
    let token = rig.login("ada").1;
    rig.freeze(rig.topology.batcher, true);
    let list = |query: &str| {
        let (client, auth) = (rig.open(0), format!("Bearer {token}"));
        rig.bytes_only(client, &request(&format!("GET /v2/match?query={query}"), &auth, ""));
        client
    };
    let cheap = list("");
    rig.settle();
    assert!(is_answered(&rig, cheap), "a listing waits for the batcher");
    let dear = list(&"label.a:b~2%20".repeat(150));
    rig.settle();
    assert!(is_answered(&rig, dear), "there is no match to put it to");
    rig.freeze(rig.topology.lister, true);
    let waiting = [list(""), list(""), list("")];
    let refused = rig.text(waiting[2]);
    assert!(refused.contains("HTTP/1.1 429 ") && refused.contains("limit.listings_per_user"));
    rig.freeze(rig.topology.lister, false);
    rig.settle();
    assert!(waiting[..2].iter().all(|client| is_answered(&rig, *client)));
    assert_eq!(rig.stat("listings"), 4);
}
