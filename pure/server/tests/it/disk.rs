//! What is committed and what is on the disk: answers wait for the latter, many of them for one
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use event::CloseReason;
use game::db::{Database, DbError, Param, Row, TRIES_MAX};
use store::Sqlite;

use crate::rig::{Client, Plan, Rig, request, server_key};

/// What the disk does, and has done.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    syncs: AtomicU64,
    /// Connections whose commits gather.
    groups: AtomicU64,
    /// Times that a thread was ready to let others write.
    rests: AtomicU64,
    /// What has gathered is not committed.
    is_full: AtomicBool,
    /// Statements that will find another writer in their way.
    conflicts: AtomicU64,
    /// Jobs that ran once more for that.
    retries: AtomicU64,
    /// For how long each write waits for its turn, microseconds.
    turn_us: AtomicU64,
}

/// A connection to a database in memory that needs to be synced as if it were on a disk.
pub(crate) struct OnDisk {
    pub(crate) db: Sqlite,
    pub(crate) disk: Arc<Disk>,
    pub(crate) is_dirty: bool,
    pub(crate) waited_us: u64,
}

impl Database for OnDisk {
    fn waited_us(&self) -> u64 {
        self.waited_us
    }

    fn begin(&mut self) -> Result<(), DbError> {
        self.waited_us += self.disk.turn_us.load(Ordering::Relaxed);
        self.db.begin()
    }

    fn commit(&mut self) -> Result<(), DbError> {
        self.is_dirty = true;
        self.db.commit()
    }

    fn group_commits(&mut self) {
        self.disk.groups.fetch_add(1, Ordering::Relaxed);
    }

    fn rest(&mut self, _is_for_long: bool) {
        self.disk.rests.fetch_add(1, Ordering::Relaxed);
    }

    fn commit_group(&mut self) -> Result<(), DbError> {
        if self.is_dirty && self.disk.is_full.load(Ordering::Relaxed) {
            return Err(DbError::Machine("disk full".into()));
        }
        self.db.commit_group()
    }

    fn sync(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            self.disk.syncs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_synced(&self) -> bool {
        !self.is_dirty
    }

    fn rollback(&mut self) -> Result<(), DbError> {
        self.db.rollback()
    }

    fn in_transaction(&self) -> bool {
        self.db.in_transaction()
    }

    fn begin_reading(&mut self) -> Result<(), DbError> {
        self.db.begin_reading()
    }

    fn end_reading(&mut self) -> Result<(), DbError> {
        self.db.end_reading()
    }

    fn note_retry(&mut self) {
        self.disk.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.is_dirty |= !self.db.in_transaction();
        let is_job = ["INSERT", "UPDATE"].iter().any(|verb| sql.starts_with(verb));
        let left = self.disk.conflicts.load(Ordering::Relaxed);
        if is_job && left > 0 {
            self.disk.conflicts.store(left - 1, Ordering::Relaxed);
            return Err(DbError::Conflict { cause: "deadlock detected".into() });
        }
        self.db.execute(sql, params)
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.db.query(sql, params, each)
    }

    fn guest_execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbError> {
        self.is_dirty = true;
        self.db.guest_execute(sql, params)
    }

    fn guest_query(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<(), DbError> {
        self.db.guest_query(sql, params, each)
    }
}

const RPCS: &str = "local nk = require('nakama')
    nk.register_rpc(function(context, payload) return payload end, 'echo')
    nk.register_rpc(function(context, payload)
        nk.storage_write({{ collection = 'c', key = payload, user_id = nil, value = {} }})
        return payload
    end, 'write')
    nk.register_rpc(function(context, payload)
        nk.storage_write({{ collection = 'c', key = payload, user_id = nil, value = {} }})
        local ok, count = pcall(nk.stream_count, { mode = 123, label = 'x' })
        return payload .. ' is written'
    end, 'write_and_ask')
    nk.register_req_after(function(context, session)
        nk.storage_write({{ collection = 'c', key = 'hook', user_id = nil, value = {} }})
    end, 'AuthenticateDevice')
    nk.register_rpc(function(context, payload)
        nk.notification_send(payload, 'hello', {}, 1, nil, true)
        return 'told'
    end, 'notify')
    nk.register_rpc(function(context, payload)
        nk.users_ban_id({ payload })
        return 'banned'
    end, 'ban')";

fn rig(disk: &Arc<Disk>) -> Rig {
    Rig::with(&Plan { modules: &[("rpcs.lua", RPCS)], disk: Some(disk.clone()), ..Plan::default() })
}

impl Disk {
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// So many statements will find another writer in their way.
    pub(crate) fn meet_writers(&self, count: u64) {
        self.conflicts.store(count, Ordering::Relaxed);
    }

    /// Each transaction waits for so long until other writers are done.
    pub(crate) fn set_turn_us(&self, us: u64) {
        self.turn_us.store(us, Ordering::Relaxed);
    }
}

/// Sends a call of a function; nobody but its core runs.
fn call(rig: &Rig, from: u8, id: &str, payload: &str) -> Client {
    let client = rig.open_from(0, [10, 0, 0, from]);
    let line = format!("POST /v2/rpc/{id}?http_key=httpkey&unwrap");
    rig.bytes_only(client, &request(&line, "", payload));
    client
}

#[test]
fn calls_that_write_wait_for_the_disk_together() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    // Known to be quick from now on, so that several may stand behind one another.
    for payload in ["a", "b"] {
        assert_eq!(rig.rpc("write", payload), payload);
    }
    let before = disk.syncs();
    let clients: Vec<Client> =
        (0..20).map(|from| call(&rig, from, "write", &format!("key-{from}"))).collect();
    rig.turn(rig.topology.cores[0]);
    rig.turn(rig.topology.callers[0]);
    assert_eq!(disk.syncs() - before, 1, "one wait for all of them");
    let rests = disk.rests.load(Ordering::Relaxed);
    assert!(rests > 0, "{rests}: after each call others may write");
    let callers = rig.topology.callers.len() as u64;
    assert_eq!(disk.groups.load(Ordering::Relaxed), callers, "of callers alone");
    rig.settle();
    for client in clients {
        let answer = String::from_utf8(rig.take(client)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

/// Registers an account, which has an after-hook; nobody but its core runs.
fn register(rig: &Rig, from: u8) -> Client {
    let client = rig.open_from(0, [10, 0, 0, from]);
    let line = "POST /v2/account/authenticate/device?create=true";
    let body = format!(r#"{{"id":"device-number-{from}"}}"#);
    rig.bytes_only(client, &request(line, &server_key(), &body));
    client
}

/// The call is in the batch with all others; its hook runs when it is on the disk, and its client is
/// answered behind the hook.
#[test]
fn calls_with_hooks_are_committed_together() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    let (syncs, commits) = (disk.syncs(), rig.stat("db_commits"));
    let clients: Vec<Client> = (0..20).map(|from| register(&rig, from)).collect();
    rig.turn(rig.topology.cores[0]);
    rig.turn(rig.topology.batcher);
    assert_eq!(disk.syncs() - syncs, 1, "one wait for all of them");
    assert_eq!(rig.stat("db_commits") - commits, 1, "and one transaction");
    assert_eq!(rig.stat("overall_after_count"), 0, "no hook before that");
    assert!(clients.iter().all(|client| rig.take(*client).is_empty()));
    rig.settle();
    for client in clients {
        let answer = rig.text(client);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("token"), "{answer}");
    }
    assert_eq!(rig.stat("overall_after_count"), 20);
}

/// What has happened is answered so, even where its hook finds no room; and its hook runs even if its
/// client is gone.
#[test]
fn a_call_that_is_committed_is_answered_so() {
    let rig = rig(&Arc::new(Disk::default()));
    for caller in &rig.topology.callers {
        rig.set_full(*caller, true);
    }
    let client = register(&rig, 1);
    rig.settle();
    let answer = rig.text(client);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("token"), "{answer}");
    assert_eq!((rig.stat("refused_after_hooks"), rig.stat("overall_after_count")), (1, 0));
    for caller in &rig.topology.callers {
        rig.set_full(*caller, false);
    }
    let client = register(&rig, 2);
    rig.turn(rig.topology.cores[0]);
    rig.closed_only(client, CloseReason::Reset);
    rig.settle();
    assert_eq!(rig.stat("overall_after_count"), 1);
}

#[test]
fn a_call_that_writes_nothing_does_not_wait() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    rig.rpc("write", "a");
    let before = disk.syncs();
    assert_eq!(rig.rpc("echo", "b"), "b");
    assert_eq!(disk.syncs(), before);
}

/// Each was told that its write went well, and none of it has happened.
#[test]
fn calls_whose_commits_are_not_made_are_answered_with_an_error() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    for payload in ["a", "b"] {
        assert_eq!(rig.rpc("write", payload), payload);
    }
    disk.is_full.store(true, Ordering::Relaxed);
    let clients: Vec<Client> =
        (0..3).map(|from| call(&rig, from, "write", &format!("key-{from}"))).collect();
    rig.settle();
    for client in clients {
        let answer = String::from_utf8(rig.take(client)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(answer.contains("database error"), "{answer}");
    }
    assert_eq!(rig.rpc("echo", "c"), "c", "who wrote nothing is answered");
    disk.is_full.store(false, Ordering::Relaxed);
    assert_eq!(rig.rpc("write", "d"), "d");
}

/// It was told that its write went well, and waits when that turns out to be untrue: it could say so still.
#[test]
fn a_call_that_waits_ends_when_what_it_wrote_is_not_committed() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    assert_eq!(rig.rpc("write_and_ask", "a"), "a is written");
    disk.is_full.store(true, Ordering::Relaxed);
    let client = call(&rig, 1, "write_and_ask", "b");
    rig.settle();
    let answer = rig.text(client);
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("database error"), "{answer}");
    disk.is_full.store(false, Ordering::Relaxed);
    assert_eq!(rig.rpc("write_and_ask", "c"), "c is written");
    assert_eq!(rig.stat("calls_waiting_now"), 0);
}

/// Nobody is told of what may not have happened; but who is banned stays so, as the database may have it.
#[test]
fn what_may_not_have_happened_is_told_to_nobody_but_bans_hold() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    let (user_id, token) = rig.login("somebody");
    let socket = rig.socket(0, &token, "");
    disk.is_full.store(true, Ordering::Relaxed);
    let told = call(&rig, 1, "notify", &user_id);
    rig.settle();
    assert!(rig.text(told).starts_with("HTTP/1.1 500 "));
    assert!(rig.frames(socket).is_empty(), "of what may be undone");
    let banned = call(&rig, 2, "ban", &user_id);
    rig.settle();
    assert!(rig.text(banned).starts_with("HTTP/1.1 500 "));
    disk.is_full.store(false, Ordering::Relaxed);
    let account = rig.http(rig.open(0), "GET /v2/account", &format!("Bearer {token}"), "");
    assert!(account.starts_with("HTTP/1.1 401 "), "{account}");
}

/// In a transaction of their own, behind the batch that they were in; whoever is out of luck is told so.
#[test]
fn calls_that_meet_another_writer_run_again() {
    let disk = Arc::new(Disk::default());
    let rig = rig(&disk);
    // With a hook behind it.
    disk.conflicts.store(2, Ordering::Relaxed);
    let (_, token) = rig.login("somebody");
    let bearer = format!("Bearer {token}");
    // A function of a script.
    disk.conflicts.store(2, Ordering::Relaxed);
    assert_eq!(rig.rpc("write", "a"), "a");
    assert_eq!(disk.retries.swap(0, Ordering::Relaxed), 4);
    let tries = u64::from(TRIES_MAX);
    let body = r#"{"location":"x"}"#;
    for (conflicts, status) in [(1, 200), (tries - 1, 200), (tries, 409)] {
        disk.conflicts.store(conflicts, Ordering::Relaxed);
        let answer = rig.http(rig.open(0), "PUT /v2/account", &bearer, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{conflicts}: {answer}");
        let retries = disk.retries.swap(0, Ordering::Relaxed);
        assert_eq!(retries, conflicts.min(tries - 1));
        assert_eq!(disk.conflicts.swap(0, Ordering::Relaxed), 0);
    }
    // Whoever is in the same batch is answered all the same.
    disk.conflicts.store(1, Ordering::Relaxed);
    let clients = [1, 2].map(|from| {
        let client = rig.open_from(0, [10, 0, 0, from]);
        rig.bytes_only(client, &request("PUT /v2/account", &bearer, body));
        client
    });
    rig.settle();
    for client in clients {
        let answer = rig.text(client);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(disk.retries.load(Ordering::Relaxed), 1);
}
