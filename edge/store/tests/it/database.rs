//! The door itself: parameters, errors, transactions, threads.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use game::db::{Cell, Database as _, DbError, Param};
use store::{Sqlite, Store};

use crate::opening::Folder;

fn count(db: &mut Sqlite) -> i64 {
    let mut count = -1;
    db.query("SELECT COUNT(*) FROM t", &[], &mut |row| count = row.int(0)).unwrap();
    count
}

fn table() -> (Store, Sqlite) {
    let store = Store::open_in_memory().unwrap();
    let mut db = store.connect().unwrap();
    db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT, UNIQUE (b))", &[]).unwrap();
    (store, db)
}

#[test]
fn values_come_back_as_they_were_given_whatever_their_order() {
    let (_store, mut db) = table();
    let sql = "SELECT $3 AS third, $1, $2, $1, $4, $5";
    let params = [
        Param::Int(-7),
        Param::Real(1.5),
        Param::Text("t\u{0}x"),
        Param::Blob(&[0, 255]),
        Param::Null,
    ];
    let mut cells = Vec::new();
    db.query(sql, &params, &mut |row| {
        assert_eq!((row.name(0), row.width()), ("third", 6));
        assert_eq!((row.text(0), row.int(1), row.blob(4)), ("t\u{0}x", -7, &[0, 255][..]));
        assert_eq!((row.text(1), row.int(0), row.blob(0)), ("", 0, &[][..]));
        assert!(row.is_null(5) && !row.is_null(0) && row.is_null(99));
        cells = (0..row.width()).map(|column| row.cell(column)).collect();
    })
    .unwrap();
    let expected = [
        Cell::Text("t\u{0}x".into()),
        Cell::Int(-7),
        Cell::Real(1.5),
        Cell::Int(-7),
        Cell::Blob(vec![0, 255]),
        Cell::Null,
    ];
    assert_eq!(cells, expected);
}

#[test]
fn our_own_failures_are_told_from_rows_that_exist() {
    let (store, mut db) = table();
    db.execute("INSERT INTO t VALUES ($1, $2)", &[Param::Int(1), Param::Text("x")]).unwrap();
    for (sql, expected) in [
        ("SELEC", "database error"),
        ("SELECT nothing FROM t", "database error"),
        ("INSERT INTO missing VALUES (1)", "database error"),
        ("INSERT INTO t VALUES (1, 'y')", "t.a exists already"),
        ("INSERT INTO t VALUES (2, 'x')", "t.b exists already"),
    ] {
        assert_eq!(db.execute(sql, &[]).unwrap_err().to_string(), expected, "{sql}");
    }
    let errors = store.stats().samples();
    assert!(errors.iter().any(|one| one.name == "db_errors" && one.value == 3), "{errors:?}");
    assert_eq!(count(&mut db), 1);
    assert_eq!(db.execute("UPDATE t SET b = 'z' WHERE a > 0", &[]), Ok(1));
    assert_eq!(db.execute("DELETE FROM t WHERE a > 5", &[]), Ok(0));
}

#[test]
fn a_failed_statement_leaves_the_transaction_and_a_rollback_undoes_it() {
    let (_store, mut db) = table();
    assert!(matches!(db.commit(), Err(DbError::Statement(_))));
    assert!(matches!(db.rollback(), Err(DbError::Statement(_))));
    db.begin().unwrap();
    assert!(db.in_transaction());
    assert!(matches!(db.begin(), Err(DbError::Statement(_))));
    db.execute("INSERT INTO t VALUES (1, 'x')", &[]).unwrap();
    let exists = DbError::Exists { what: "t.a".into() };
    assert_eq!(db.execute("INSERT INTO t VALUES (2, 'y'), (1, 'z')", &[]), Err(exists));
    assert_eq!(count(&mut db), 1);
    db.execute("SAVEPOINT job", &[]).unwrap();
    db.execute("INSERT INTO t VALUES (3, 'y')", &[]).unwrap();
    db.execute("ROLLBACK TO SAVEPOINT job", &[]).unwrap();
    db.execute("RELEASE SAVEPOINT job", &[]).unwrap();
    db.commit().unwrap();
    assert!(!db.in_transaction());
    assert_eq!(count(&mut db), 1);
    db.begin().unwrap();
    db.execute("INSERT INTO t VALUES (4, 'w')", &[]).unwrap();
    db.rollback().unwrap();
    assert_eq!(count(&mut db), 1);
}

/// Both marks are one savepoint in the database.
#[test]
fn what_is_kept_within_a_mark_goes_when_the_outer_one_is_gone_back_to() {
    let (_store, mut db) = table();
    db.begin().unwrap();
    db.execute("INSERT INTO t VALUES (1, 'x')", &[]).unwrap();
    db.savepoint().unwrap();
    db.savepoint().unwrap();
    db.execute("INSERT INTO t VALUES (2, 'y')", &[]).unwrap();
    db.execute("INSERT INTO t VALUES (3, 'z')", &[]).unwrap();
    db.release_savepoint().unwrap();
    assert_eq!(count(&mut db), 3);
    db.undo_to_savepoint().unwrap();
    db.release_savepoint().unwrap();
    assert_eq!(count(&mut db), 1, "what was there before stays");
    db.commit().unwrap();
    assert_eq!(count(&mut db), 1);
}

#[test]
fn a_transaction_that_the_database_gave_up_is_not_committed_silently() {
    let (_store, mut db) = table();
    db.execute("INSERT INTO t VALUES (1, 'x')", &[]).unwrap();
    db.begin().unwrap();
    db.execute("INSERT INTO t VALUES (2, 'y')", &[]).unwrap();
    assert!(db.execute("INSERT OR ROLLBACK INTO t VALUES (1, 'z')", &[]).is_err());
    let lost = Err(DbError::Machine("the transaction was rolled back".into()));
    assert_eq!(db.execute("INSERT INTO t VALUES (5, 'v')", &[]).map(drop), lost);
    assert!(db.in_transaction());
    assert_eq!(db.commit(), lost);
    assert!(!db.in_transaction());
    assert_eq!(count(&mut db), 1);
    db.begin().unwrap();
    db.execute("INSERT INTO t VALUES (2, 'y')", &[]).unwrap();
    db.commit().unwrap();
    assert_eq!(count(&mut db), 2);
}

#[test]
fn a_dropped_connection_lets_others_write() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let (mut first, mut second) = (store.connect().unwrap(), store.connect().unwrap());
    first.execute("CREATE TABLE t (a BIGINT)", &[]).unwrap();
    first.begin().unwrap();
    first.execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    drop(first);
    second.begin().unwrap();
    second.commit().unwrap();
    assert_eq!(count(&mut second), 0);
}

#[test]
fn threads_write_in_turns_and_none_is_lost() {
    const THREADS: i64 = 3;
    const BATCHES: i64 = 40;
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    store.connect().unwrap().execute("CREATE TABLE t (a BIGINT PRIMARY KEY)", &[]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut db = store.connect().unwrap();
                for batch in 0..BATCHES {
                    let key = Param::Int(thread * 1_000 + batch);
                    if batch % 4 == 0 {
                        // Outside of a transaction: durable by itself.
                        db.execute("INSERT INTO t VALUES ($1)", &[key]).unwrap();
                        continue;
                    }
                    let before = count(&mut db);
                    db.begin().unwrap();
                    let inside = count(&mut db);
                    assert!(inside >= before, "what was committed is seen");
                    db.execute("INSERT INTO t VALUES ($1)", &[key]).unwrap();
                    assert_eq!(count(&mut db), inside + 1, "nobody else writes meanwhile");
                    db.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(count(&mut store.connect().unwrap()), THREADS * BATCHES);
}

#[test]
fn readers_do_not_wait_for_a_writer() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let (mut writer, mut reader) = (store.connect().unwrap(), store.connect().unwrap());
    writer.execute("CREATE TABLE t (a BIGINT)", &[]).unwrap();
    writer.begin().unwrap();
    writer.execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    assert_eq!(count(&mut reader), 0);
    writer.commit().unwrap();
    assert_eq!(count(&mut reader), 1);
}

#[test]
fn reading_shows_one_state_until_it_ends() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let (mut writer, mut reader) = (store.connect().unwrap(), store.connect().unwrap());
    writer.execute("CREATE TABLE t (a BIGINT)", &[]).unwrap();
    let mut insert = || writer.execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    reader.begin_reading().unwrap();
    reader.begin_reading().unwrap();
    assert_eq!(count(&mut reader), 0);
    insert();
    assert!(!reader.in_transaction());
    assert_eq!(count(&mut reader), 0);
    reader.end_reading().unwrap();
    reader.end_reading().unwrap();
    assert_eq!(count(&mut reader), 1);
    // A transaction sees what has been written meanwhile, and so does a write by itself.
    reader.begin_reading().unwrap();
    assert_eq!(count(&mut reader), 1);
    insert();
    reader.begin().unwrap();
    assert_eq!(count(&mut reader), 2);
    reader.begin_reading().unwrap();
    reader.commit().unwrap();
    reader.begin_reading().unwrap();
    assert_eq!(count(&mut reader), 2);
    insert();
    reader.execute("INSERT INTO t VALUES (2)", &[]).unwrap();
    assert_eq!(count(&mut reader), 4);
}

/// Whoever commits has nothing to do with it: another thread copies, and the log begins anew.
#[test]
fn the_log_is_copied_back_by_a_thread_of_its_own() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    db.execute("CREATE TABLE t (x)", &[]).unwrap();
    let log = folder.path().join("throng.db-wal");
    let file = folder.path().join("throng.db");
    let written = |path: &Path| std::fs::metadata(path).unwrap().len();
    let give_up = Instant::now() + Duration::from_mins(1);
    // A hundred megabytes, of which the log keeps 81 MiB; the log's file is cut when the log begins anew.
    for _ in 0..100 {
        db.execute("INSERT INTO t VALUES (zeroblob(1000000))", &[]).unwrap();
    }
    let copied = || {
        let samples = store.stats().samples();
        samples.iter().find(|one| one.name == "db_checkpoints").unwrap().value
    };
    let is_short = || written(&file) >= 90 << 20 && written(&log) <= 82 << 20;
    while !is_short() && Instant::now() < give_up {
        let before = copied();
        // Not the same bytes again: SQLite does not write what has not changed.
        db.execute("UPDATE t SET x = randomblob(1000000) WHERE rowid = 1", &[]).unwrap();
        // Who writes without a pause may keep it from ever reaching the end of the log; but a
        // commit that ends while the thread is about to sleep is not heard of, the next one is.
        let next = Instant::now() + Duration::from_millis(200);
        while copied() == before && !is_short() && Instant::now() < next {
            std::thread::yield_now();
        }
    }
    assert!(written(&file) >= 90 << 20, "{} bytes copied", written(&file));
    assert!(written(&log) <= 82 << 20, "{} bytes of log", written(&log));
    assert!(copied() > 0, "SQLite copied by itself");
}

/// Two threads read all the time, each an older state for a tenth of a second or more, and there is always one of them.
#[test]
fn readers_of_older_states_do_not_let_the_log_grow_without_end() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    db.execute("CREATE TABLE t (x)", &[]).unwrap();
    for _ in 0..20 {
        db.execute("INSERT INTO t VALUES (randomblob(1000000))", &[]).unwrap();
    }
    let (file, log) = (folder.path().join("throng.db"), folder.path().join("throng.db-wal"));
    let is_over = AtomicBool::new(false);
    let mut longest = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = rusqlite::Connection::open(&file).unwrap();
                let long = "WITH RECURSIVE c(x) AS (SELECT COUNT(*) * 0 FROM t UNION ALL \
                    SELECT x + 1 FROM c WHERE x < 2000000) SELECT MAX(x) FROM c";
                while !is_over.load(Relaxed) {
                    let max: i64 = reader.query_row(long, [], |row| row.get(0)).unwrap();
                    assert_eq!(max, 2_000_000);
                }
            });
        }
        let written = (0..400).try_for_each(|row| {
            let sql =
                format!("UPDATE t SET x = randomblob(1000000) WHERE rowid = {}", row % 20 + 1);
            db.execute(&sql, &[])?;
            longest = longest.max(std::fs::metadata(&log).unwrap().len());
            Ok::<(), DbError>(())
        });
        // Also if it has failed: they would read without end.
        is_over.store(true, Relaxed);
        written.unwrap();
    });
    assert!(longest <= 200 << 20, "{longest} bytes of log");
}

fn syncs(store: &Store) -> u64 {
    let samples = store.stats().samples();
    samples.iter().find(|one| one.name == "db_syncs").unwrap().value
}

#[test]
fn commits_of_several_connections_become_durable_together() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let (mut first, mut second) = (store.connect().unwrap(), store.connect().unwrap());
    first.execute("CREATE TABLE t (x)", &[]).unwrap();
    assert!(second.is_synced(), "it has neither written nor read");
    second.guest_execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    first.begin().unwrap();
    first.execute("INSERT INTO t VALUES (2)", &[]).unwrap();
    first.commit().unwrap();
    assert!(!first.is_synced() && !second.is_synced());
    let before = syncs(&store);
    second.sync();
    assert!(first.is_synced(), "the disk has that as well");
    first.sync();
    assert_eq!(syncs(&store) - before, 1);
}

/// Else an answer could tell of what the loss of power takes back.
#[test]
fn who_has_read_what_is_not_on_the_disk_waits_for_it() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let (mut writer, mut reader) = (store.connect().unwrap(), store.connect().unwrap());
    writer.execute("CREATE TABLE t (x)", &[]).unwrap();
    assert_eq!(count(&mut reader), 0);
    assert!(!reader.is_synced());
    reader.sync();
    assert!(reader.is_synced() && writer.is_synced());
    count(&mut reader);
    reader.sync();
    writer.execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    assert!(reader.is_synced(), "it has not seen that");
}

/// What the last server wrote may be in the system's memory alone.
#[test]
fn the_log_is_copied_back_at_the_start() {
    let (folder, copy) = (Folder::new(), Folder::new());
    let store = Store::open(folder.path()).unwrap();
    store.connect().unwrap().execute("CREATE TABLE t (x)", &[]).unwrap();
    for name in ["throng.db", "throng.db-wal"] {
        std::fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    let log = copy.path().join("throng.db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    let copied = Store::open(copy.path()).unwrap();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    assert_eq!(count(&mut copied.connect().unwrap()), 0);
}

/// The first waits for the other process; those in line behind it would each wait as long again.
#[test]
fn only_the_first_waits_for_another_process() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    let mut script = store.connect().unwrap();
    script.guest_execute("CREATE TABLE t (x)", &[]).unwrap();
    let other = rusqlite::Connection::open(folder.path().join("throng.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    for _ in 0..5 {
        assert!(db.begin().is_err());
        assert!(db.execute("DELETE FROM users", &[]).is_err());
        assert!(script.guest_execute("INSERT INTO t VALUES (1)", &[]).is_err());
    }
    let took = started.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(10), "{took:?}");
    other.execute_batch("ROLLBACK").unwrap();
    db.begin().unwrap();
    db.commit().unwrap();
    script.guest_execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    // There is patience again.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| db.begin());
        other.execute_batch("ROLLBACK").unwrap();
        waits.join().unwrap().unwrap();
    });
}
