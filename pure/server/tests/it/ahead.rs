//! What stands before a call at a caller: others that were posted ahead of it, and what is left of calls that
//! waited. One core and one caller, so that whoever is in the way is noticed.

use event::ThreadId;

use crate::rig::{Client, Plan, Rig};

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context, payload) return payload end, 'spin')
    nk.register_rpc(function()
        return tostring(nk.stream_count({ mode = 100, label = 'lobby' }))
    end, 'count')";

/// The rig, a neighbour and eight users. Each of these has called `spin` twice, which took so long.
fn rig_where_calls_take(ms: u64) -> (Rig, String, Vec<String>) {
    let rig = Rig::with(&Plan { rooms: 1, modules: &[("rpcs.lua", RPCS)], ..Plan::default() });
    let neighbour = rig.login("neighbour").1;
    let users: Vec<String> = (0..8).map(|at| rig.login(&format!("user-{at}")).1).collect();
    for token in users.iter().chain([&neighbour]) {
        rig.begin_rpc(Some(token), "echo", "known to be quick");
    }
    rig.set_look_ms(ms);
    for token in users.iter().chain(&users) {
        rig.begin_rpc(Some(token), "spin", "known to take so long");
    }
    rig.set_look_ms(0);
    (rig, neighbour, users)
}

fn send_four_each(rig: &Rig, users: &[String]) -> Vec<Client> {
    let send = |at: usize| rig.send_rpc(Some(&users[at % users.len()]), "spin", "x");
    (0..4 * users.len()).map(send).collect()
}

/// A caller runs what is there, and its core hears of it.
fn turn(rig: &Rig) {
    rig.turn(rig.topology.callers[0]);
    rig.turn(ThreadId(0));
}

#[test]
fn calls_that_take_some_milliseconds_are_posted_one_at_a_time_and_quick_ones_together() {
    for (ms, posted_at_once) in [(0, 32), (12, 1), (3, 1)] {
        let (rig, neighbour, users) = rig_where_calls_take(ms);
        let caller = rig.topology.callers[0];
        rig.freeze(caller, true);
        let before = rig.posted(caller, "job");
        let clients = send_four_each(&rig, &users);
        rig.settle();
        assert_eq!(rig.posted(caller, "job") - before, posted_at_once, "{ms}");
        // A neighbour comes behind the one that runs, and has its turn behind one call of each.
        let quick = rig.send_rpc(Some(&neighbour), "echo", "n");
        rig.freeze(caller, false);
        rig.set_look_ms(ms);
        let turns = (1..40).find(|_| {
            turn(&rig);
            !rig.body(quick).is_empty()
        });
        assert!(turns.is_some_and(|turns| turns <= 2 + users.len()), "{ms}: {turns:?}");
        rig.set_look_ms(0);
        rig.settle();
        assert!(clients.iter().all(|client| rig.body(*client) == "x"));
        assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting")), (0, 0));
    }
}

#[test]
fn what_is_left_of_calls_that_waited_takes_turns_with_calls_that_come() {
    let (rig, neighbour, users) = rig_where_calls_take(0);
    let (caller, room) = (rig.topology.callers[0], rig.topology.rooms[0]);
    rig.freeze(room, true);
    let waiting = [&neighbour, &users[0]].map(|user| rig.begin_rpc(Some(user), "count", ""));
    assert_eq!(rig.stat("calls_waiting_now"), 2);
    rig.freeze(caller, true);
    rig.freeze(room, false);
    rig.settle();
    let quick = send_four_each(&rig, &users);
    rig.freeze(caller, false);
    let answered = || {
        turn(&rig);
        let of = |clients: &[Client]| {
            clients.iter().filter(|client| !rig.body(**client).is_empty()).count()
        };
        (of(&waiting), of(&quick))
    };
    assert_eq!([answered(), answered(), answered()], [(1, 0), (0, 1), (1, 0)]);
    rig.settle();
    assert!(quick[1..].iter().all(|client| rig.body(*client) == "x"));
    assert_eq!((rig.stat("jobs_waiting"), rig.stat("calls_waiting_now")), (0, 0));
}
