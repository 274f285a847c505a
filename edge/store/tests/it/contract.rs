//! What `game::db` promises and `docs/database.md` lists, tried with two writers at once on two
//! connections: each rule ([`rules`]) is run by two threads whose statements take turns in an order
//! drawn from a seed, so that each may read before the other one writes or commits.
//!
//! On SQLite the two queue for the write lock as in the server, or do not queue at all and are told of
//! conflicts; on PostgreSQL, where it is installed, they wait for each other's rows. There the other
//! tests of the game's rules run as well.

mod pace;
mod rules;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use event::{Now, Random};
use game::account::{self, AccountUpdate, NewAccount};
use game::db::{Database, DbError, MayConflict as _, Param};
use game::error::{ApiError, Code};
use store::Store;
use uuid::Uuid;

use crate::opening::Folder;
use crate::postgres::{Postgres, SERVER, Server};
use pace::{Pace, Paced};
use rules::RULES;

/// How long one of the two may try again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tests of SQLite's plans.
const OF_SQLITE: &[&str] = &[
    "lookups_use_their_indexes",
    "friends_of_friends_are_found_by_an_index",
    "lists_read_their_own_rows",
    "lists_use_the_tables_key_or_their_index",
    "looking_for_a_refresh_tokens_revocation_uses_the_key",
];

/// What one round of a rule is played with. Every round has users of its own.
pub(crate) struct Round {
    number: u64,
    now: Now,
    users: BTreeMap<&'static str, Uuid>,
}

impl Round {
    fn new(number: u64) -> Self {
        let now = Now { mono_ns: 0, unix_ms: 1_800_000_000_000 + 10_000 * number };
        Self { number, now, users: BTreeMap::new() }
    }

    /// A text that no other round has.
    fn text(&self, name: &str) -> String {
        format!("{name}-of-round-{}", self.number)
    }

    fn new_account(&self, seed: u64) -> NewAccount {
        NewAccount::draw(self.now, &mut Random::from_number(1_000 * self.number + seed))
    }

    fn id(&self, name: &str) -> Uuid {
        self.users[name]
    }

    /// Makes users, each with a device.
    fn add_users(&mut self, db: &mut dyn Database, names: &[&'static str]) {
        for name in names {
            let seed = 100 + u64::try_from(self.users.len()).unwrap();
            let (new_account, text) = (self.new_account(seed), self.text(name));
            let device = format!("device-{text}");
            let login = account::authenticate_device(db, &new_account, &device, &text, true);
            self.users.insert(name, login.unwrap().user_id);
        }
    }
}

/// What became of one writer.
#[derive(Clone, Debug)]
struct Told {
    /// What it was answered, or the text of a refusal.
    answer: String,
    is_well: bool,
    /// The database failed, which is nobody's answer.
    has_failed: bool,
    /// Between these moments it committed.
    committed: (Instant, Instant),
}

/// What two writers at once must not break.
struct Rule {
    name: &'static str,
    /// Makes what both find.
    prepare: fn(&mut dyn Database, &mut Round),
    /// What writer 0 or 1 does in a transaction, and is answered.
    act: fn(&mut dyn Database, &Round, usize) -> Result<String, ApiError>,
    /// What is wrong afterwards, as a text.
    check: fn(&mut dyn Database, &Round, &[Told; 2]) -> Result<(), String>,
}

/// Runs a job of one writer until no other one is in its way.
fn write(db: &mut dyn Database, rule: &Rule, round: &Round, who: usize) -> (Told, u64) {
    let give_up = Instant::now() + PATIENCE;
    for retries in 0.. {
        db.begin().unwrap();
        let result = (rule.act)(db, round, who);
        if result.as_ref().is_err_and(ApiError::is_conflict) {
            db.rollback().unwrap();
        } else {
            // A call that was refused does not undo its neighbours: what is open is committed.
            let before = Instant::now();
            match db.commit() {
                Ok(()) => {
                    let committed = (before, Instant::now());
                    let (is_well, code) = (result.is_ok(), result.as_ref().err().map(|it| it.code));
                    let has_failed = code == Some(Code::Internal);
                    let answer = result.unwrap_or_else(|error| error.message.into_owned());
                    return (Told { answer, is_well, has_failed, committed }, retries);
                }
                Err(error) => assert!(error.is_conflict(), "{}: {error:?}", rule.name),
            }
        }
        assert!(Instant::now() < give_up, "{}: no end of conflicts", rule.name);
    }
    unreachable!("it gives up before")
}

/// Plays one rule once; tells how often the two had to begin anew.
fn play(dbs: &mut [Box<dyn Database + Send>; 2], rule: &Rule, number: u64) -> Result<u64, String> {
    let mut round = Round::new(number);
    dbs[0].begin().unwrap();
    (rule.prepare)(&mut *dbs[0], &mut round);
    dbs[0].commit().unwrap();
    let (pace, shared) = (Pace::new(number), &round);
    let [first, second] = dbs;
    let run = |db: &mut Box<dyn Database + Send>, who| {
        let told = write(&mut Paced { db: &mut **db, pace: &pace, who }, rule, shared, who);
        pace.end(who);
        told
    };
    let (one, other) = std::thread::scope(|threads| {
        let other = threads.spawn(|| run(second, 1));
        let one = run(first, 0);
        (one, other.join().unwrap())
    });
    let told = [one.0, other.0];
    let failed = told.iter().filter(|one| one.has_failed).count();
    let checked = (rule.check)(&mut **first, &round, &told);
    let checked = if failed > 0 { Err(format!("{failed} failed")) } else { checked };
    checked.map_err(|wrong| {
        let answers = told.map(|told| told.answer);
        format!("{}, round {number}: {wrong}; the two were told {answers:?}", rule.name)
    })?;
    Ok(one.1 + other.1)
}

/// Plays all rules, which hold; the two began anew so often.
fn play_all(dbs: [Box<dyn Database + Send>; 2], rounds: u64) -> u64 {
    let (broken, retries) = try_all(dbs, rounds);
    assert!(broken.is_empty(), "{} rules are broken: {broken:#?}", broken.len());
    retries
}

/// Plays all rules; those that are broken, and how often the two began anew.
fn try_all(mut dbs: [Box<dyn Database + Send>; 2], rounds: u64) -> (Vec<String>, u64) {
    let (mut broken, mut retries) = (Vec::new(), 0);
    for (place, rule) in (0..).zip(RULES) {
        for number in 0..rounds {
            match play(&mut dbs, rule, 1_000 * place + number) {
                Ok(again) => retries += again,
                Err(wrong) => {
                    broken.push(wrong);
                    break;
                }
            }
        }
    }
    (broken, retries)
}

#[test]
fn sqlite_keeps_the_rules_while_writers_queue() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let connect = || Box::new(store.connect().unwrap()) as Box<dyn Database + Send>;
    assert_eq!(play_all([connect(), connect()], 4), 0, "who queues meets nobody");
}

#[test]
fn sqlite_keeps_the_rules_while_nobody_queues() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let connect = || Box::new(store.connect_unqueued().unwrap()) as Box<dyn Database + Send>;
    let retries = play_all([connect(), connect()], 16);
    assert!(retries > 0, "they were in each other's way");
    let samples = store.stats().samples();
    let conflicts = samples.iter().find(|one| one.name == "db_conflicts").unwrap().value;
    assert!(conflicts >= retries, "{conflicts} conflicts, {retries} tries more");
}

#[test]
fn postgresql_keeps_the_rules() {
    let Some(server) = Server::start() else { return };
    let mut first = Postgres::fresh(&server.folder);
    let second = first.beside(&server.folder);
    play_all([Box::new(first), Box::new(second)], 12);
    // Without its locks the game is wrong there, and this finds it.
    let mut first = Postgres::fresh(&server.folder);
    let mut second = first.beside(&server.folder);
    (first.is_careless, second.is_careless) = (true, true);
    let (broken, _) = try_all([Box::new(first), Box::new(second)], 2);
    assert!(broken.len() >= 8, "without locks only these are broken: {broken:#?}");
    a_deadlock_ends_one_call(&server);
    calls_of_a_batch_fail_alone(&mut Postgres::fresh(&server.folder));
    // The tests of the game's rules, which run all of its statements.
    let modules = ["accounts::", "friends::", "notifications::", "sessions::", "storage::"];
    let run = Command::new(std::env::current_exe().unwrap())
        .args(modules)
        .args(OF_SQLITE.iter().flat_map(|name| ["--skip", name]))
        .env(SERVER, &server.folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "on PostgreSQL: {text}\n{errors}");
    let passed = text.split_once("test result: ok. ").unwrap().1.split(' ').next().unwrap();
    assert!(passed.parse::<u32>().unwrap() > 30, "{text}");
}

/// In a batch of several calls: neither a refusal of the game's nor one of the database's takes the
/// others along.
fn calls_of_a_batch_fail_alone(db: &mut dyn Database) {
    let mut round = Round::new(1);
    round.add_users(db, &["ann", "bob"]);
    db.commit().unwrap();
    db.begin().unwrap();
    let named = |name: String| AccountUpdate { username: Some(name), ..AccountUpdate::default() };
    let located = |place: &str| AccountUpdate {
        location: Some(place.to_owned()),
        ..AccountUpdate::default()
    };
    let (now, ann, bob) = (round.now, round.id("ann"), round.id("bob"));
    account::update(db, now, ann, &located("here")).unwrap();
    let taken = account::update(db, now, ann, &named(round.text("bob"))).unwrap_err();
    assert!(taken.message.contains("AlreadyExists"), "{taken}");
    account::update(db, now, bob, &located("there")).unwrap();
    let failed = account::atomically(db, |db| {
        let sql = "UPDATE users SET location = 'nowhere' WHERE id = $1";
        db.execute(sql, &[Param::Blob(bob.as_bytes())])?;
        db.execute("INSERT INTO writer_turn (name) VALUES ('notifications')", &[]).map(drop)
    });
    assert!(matches!(failed, Err(DbError::Exists { .. })), "{failed:?}");
    // A call of a script has a savepoint of its own, in which it goes on after what was refused.
    db.savepoint().unwrap();
    let taken = account::update(db, now, ann, &named(round.text("bob"))).unwrap_err();
    assert!(taken.message.contains("AlreadyExists"), "{taken}");
    account::update(db, now, ann, &located("here again")).unwrap();
    db.release_savepoint().unwrap();
    db.commit().unwrap();
    let accounts = account::accounts(db, &[ann, bob], &[]).unwrap();
    let places: Vec<_> = accounts.iter().map(|account| account.user.location.as_str()).collect();
    assert_eq!(places, ["here again", "there"]);
}

#[test]
fn calls_of_a_batch_fail_alone_on_sqlite() {
    let store = Store::open_in_memory().unwrap();
    calls_of_a_batch_fail_alone(&mut store.connect().unwrap());
}

/// Two batches that want each other's rows: one call is told, what its batch did before stays, and it
/// goes well when it is tried again behind the commit.
fn a_deadlock_ends_one_call(server: &Server) {
    let mut first = Postgres::fresh(&server.folder);
    let mut round = Round::new(2);
    first.begin().unwrap();
    round.add_users(&mut first, &["ann", "bob"]);
    first.commit().unwrap();
    let second = first.beside(&server.folder);
    let barrier = std::sync::Barrier::new(2);
    let (ann, bob, now) = (round.id("ann"), round.id("bob"), round.now);
    let run = |mut db: Postgres, (own, others): (Uuid, Uuid), place: &str| {
        let location = Some(place.to_owned());
        let update = AccountUpdate { location, ..AccountUpdate::default() };
        db.begin().unwrap();
        account::update(&mut db, now, own, &update).unwrap();
        barrier.wait();
        let result = account::update(&mut db, now, others, &update);
        db.commit().unwrap();
        let is_conflict = result.as_ref().is_err_and(ApiError::is_conflict);
        if is_conflict {
            db.begin().unwrap();
            account::update(&mut db, now, others, &update).unwrap();
            db.commit().unwrap();
        } else {
            result.unwrap();
        }
        (db, is_conflict)
    };
    let (one, (_, is_others)) = std::thread::scope(|threads| {
        let other = threads.spawn(|| run(second, (bob, ann), "second"));
        let one = run(first, (ann, bob), "first");
        (one, other.join().unwrap())
    });
    let (mut db, is_ones) = one;
    assert!(is_ones != is_others, "one of the two is told");
    // Whoever of the two was told: each was the last with the row of the other.
    let accounts = account::accounts(&mut db, &[ann, bob], &[]).unwrap();
    let places: Vec<_> = accounts.iter().map(|account| account.user.location.as_str()).collect();
    assert_eq!(places, ["second", "first"]);
}

/// A number that a query finds; 0 for none.
fn number(db: &mut dyn Database, sql: &str, params: &[Param<'_>]) -> i64 {
    let mut found = 0;
    db.query(sql, params, &mut |row| found = row.int(0)).unwrap();
    found
}

/// What of these numbers is not as it is to be.
fn expect(wanted: &[(&str, i64, i64)]) -> Result<(), String> {
    let wrong = wanted.iter().find(|(_, found, wanted)| found != wanted);
    wrong.map_or(Ok(()), |(what, found, wanted)| Err(format!("{what}: {found}, not {wanted}")))
}

/// For prepared statements of a test.
fn done(result: Result<u64, DbError>) {
    result.map(drop).unwrap();
}
