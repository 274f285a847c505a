//! Functions of the host table for guests that wait on other threads: they are in the batches of the
//! server's own calls, answered when these are durable, and fail alone.

use std::sync::Arc;

use game::guest::{Allowance, HostError};
use game::host::Returns;
use game::value::Value;
use server::mail::{Asker, HostCall, HostReturn, RoomMail};
use server::resources::Spent;

use crate::disk::Disk;
use crate::rig::{Plan, Rig, request, server_key};

fn rig(disk: &Arc<Disk>) -> Rig {
    let rig = Rig::with(&Plan { disk: Some(disk.clone()), ..Plan::default() });
    // What is mailed to it stays there.
    rig.freeze(rig.topology.rooms[0], true);
    rig
}

/// A call for a match with this number.
fn call(rig: &Rig, (number, of): (u64, u32), name: &str, values: Vec<Value>) -> HostCall {
    let room = rig.topology.rooms[0];
    HostCall {
        from: Asker::Room(room),
        number,
        line: (room.thread(), of),
        function: game::host::find(name).unwrap(),
        values,
        allowance: Allowance { time_ms: 100, memory_bytes: 1 << 20 },
        spent: Spent::default(),
    }
}

fn map(members: Vec<(&'static str, Value)>) -> Value {
    Value::Map(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn object(key: &str, version: &str) -> Value {
    map(vec![
        ("collection", Value::text("c")),
        ("key", Value::text(key)),
        ("value", map(vec![("is", Value::text(key))])),
        ("version", Value::text(version)),
    ])
}

fn write(rig: &Rig, whose: (u64, u32), keys: &[(&str, &str)]) -> HostCall {
    let objects = keys.iter().map(|(key, version)| object(key, version)).collect();
    call(rig, whose, "storage_write", vec![Value::List(objects)])
}

fn post(rig: &Rig, calls: Vec<HostCall>) {
    for (to, mail) in rig.topology.seal_calls(calls) {
        rig.post(to, mail);
    }
}

/// What has come back, by number.
fn returned(rig: &Rig) -> Vec<HostReturn> {
    let room = rig.topology.rooms[0];
    let mails = rig.take_mail(room).into_iter().map(|mail| room.open(mail));
    let mut all: Vec<HostReturn> = mails
        .flat_map(|mail| if let RoomMail::Returned(list) = mail { list } else { Vec::new() })
        .collect();
    all.sort_by_key(|returned| returned.number);
    all
}

fn results(rig: &Rig) -> Vec<Result<Returns, HostError>> {
    returned(rig).into_iter().map(|returned| returned.result).collect()
}

/// The keys among these that are stored.
fn stored(rig: &Rig, keys: &[&str]) -> Vec<String> {
    let id = |key: &&str| map(vec![("collection", Value::text("c")), ("key", Value::text(*key))]);
    let ids = Value::List(keys.iter().map(id).collect());
    post(rig, vec![call(rig, (1_000, 0), "storage_read", vec![ids])]);
    rig.settle();
    let Ok(returns) = results(rig).remove(0) else { panic!("reading fails") };
    let Value::List(objects) = &returns[0] else { panic!("{returns:?}") };
    let keys = objects.iter().map(|object| object.member("key").unwrap().as_str().unwrap());
    keys.map(str::to_owned).collect()
}

#[test]
fn they_are_committed_together_with_calls_of_clients() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    let (syncs, commits) = (disk.syncs(), rig.stat("db_commits"));
    let client = rig.open(0);
    let line = "POST /v2/account/authenticate/device?create=true";
    rig.bytes_only(client, &request(line, &server_key(), r#"{"id":"device-number-1"}"#));
    rig.turn(rig.topology.cores[0]);
    let keys: Vec<String> = (0..10).map(|number| format!("key-{number}")).collect();
    let one = |(number, key): (u64, &String)| write(&rig, (number, 1), &[(key, "")]);
    post(&rig, (0..).zip(&keys).map(one).collect());
    rig.turn(rig.topology.batcher);
    assert_eq!((disk.syncs() - syncs, rig.stat("db_commits") - commits), (1, 1));
    let returned = returned(&rig);
    assert_eq!(returned.len(), 10);
    assert!(returned.iter().all(|one| one.result.is_ok() && one.steps > 0), "{returned:?}");
    rig.settle();
    assert!(rig.text(client).starts_with("HTTP/1.1 200 "));
    assert_eq!(rig.stat("host_calls"), 10);
}

#[test]
fn one_that_fails_is_undone_alone() {
    let rig = rig(&Arc::new(Disk::default()));
    let calls = vec![
        write(&rig, (1, 1), &[("a", "")]),
        write(&rig, (2, 1), &[("b", ""), ("c", "of another one")]),
        write(&rig, (3, 2), &[("d", "*")]),
        write(&rig, (4, 2), &[("d", "*")]),
        call(&rig, (5, 3), "storage_write", vec![Value::Int(1)]),
    ];
    post(&rig, calls);
    rig.turn(rig.topology.batcher);
    let results = results(&rig);
    let are_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(are_ok, [true, false, true, false, false]);
    let refused = results[1].as_ref().unwrap_err();
    assert!(refused.message.contains("version check failed"), "{refused}");
    assert_eq!(stored(&rig, &["a", "b", "c", "d"]), ["a", "d"]);
    assert_eq!(rig.stat("host_calls_failed"), 3);
}

#[test]
fn what_is_not_committed_is_an_error_for_each() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    disk.set_full(true);
    post(&rig, vec![write(&rig, (1, 1), &[("a", "")]), write(&rig, (2, 2), &[("b", "")])]);
    rig.turn(rig.topology.batcher);
    let results = results(&rig);
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|it| it.as_ref().unwrap_err().message == "database error"));
}

#[test]
fn one_that_meets_another_writer_runs_again_behind_its_batch() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    disk.meet_writers(1);
    post(&rig, vec![write(&rig, (1, 1), &[("a", "")]), write(&rig, (2, 2), &[("b", "")])]);
    rig.turn(rig.topology.batcher);
    let first: Vec<u64> = returned(&rig).iter().map(|returned| returned.number).collect();
    assert_eq!(first, [2]);
    rig.settle();
    let again = returned(&rig);
    assert!(again.len() == 1 && again[0].number == 1 && again[0].result.is_ok(), "{again:?}");
    assert_eq!(stored(&rig, &["a", "b"]), ["a", "b"]);
}

/// One match writes hundreds of objects a call, many times; its neighbour's write is in the next batch.
#[test]
fn one_who_writes_heavily_does_not_keep_a_neighbour_waiting() {
    let rig = rig(&Arc::new(Disk::default()));
    let keys: Vec<String> = (0..100).map(|key| format!("heavy-{key}")).collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "")).collect();
    post(&rig, (0..20).map(|number| write(&rig, (number, 1), &keys)).collect());
    post(&rig, vec![write(&rig, (100, 2), &[("small", "")])]);
    rig.turn(rig.topology.batcher);
    let first: Vec<u64> = returned(&rig).iter().map(|returned| returned.number).collect();
    assert_eq!(first, [100]);
    let mut seen = 0;
    while seen < 20 {
        rig.turn(rig.topology.batcher);
        let batch = returned(&rig).len();
        assert!((0..=3).contains(&batch), "{batch} calls of a hundred rows in one transaction");
        seen += batch;
    }
}

#[test]
fn what_takes_long_is_elsewhere() {
    let rig = rig(&Arc::new(Disk::default()));
    let hash = call(&rig, (1, 1), "bcrypt_compare", vec![Value::text("x"), Value::text("y")]);
    let sql = call(&rig, (2, 1), "sql_query", vec![Value::text("SELECT 1 AS one")]);
    post(&rig, vec![hash, sql]);
    rig.turn(rig.topology.batcher);
    assert!(returned(&rig).is_empty());
    // Callers have none of it: cores do not know of it, and place users' calls by what they know.
    rig.topology.callers.iter().for_each(|caller| rig.turn(*caller));
    assert!(returned(&rig).is_empty());
    rig.turn(rig.topology.hasher);
    assert_eq!(results(&rig), [Ok([Value::Bool(false)].into_iter().collect())]);
    rig.turn(rig.topology.hasher);
    let rows = Value::List(vec![map(vec![("one", Value::Int(1))])]);
    assert_eq!(results(&rig), [Ok([rows].into_iter().collect())]);
}
