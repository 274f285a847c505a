//! Commits that gather in one transaction.

use std::time::Duration;

use game::db::{Database as _, DbError};
use store::{Sqlite, Store, StoreSettings};

use crate::opening::Folder;

/// A database with a table, a connection whose commits gather, and another one.
fn table() -> (Folder, Store, Sqlite, Sqlite) {
    table_with(Duration::from_mins(1))
}

fn table_with(group_held_max: Duration) -> (Folder, Store, Sqlite, Sqlite) {
    let folder = Folder::new();
    let settings = StoreSettings { group_held_max, ..StoreSettings::default() };
    let store = Store::open_with(folder.path(), &settings).unwrap();
    let (mut grouped, mut other) = (store.connect().unwrap(), store.connect().unwrap());
    other.execute("CREATE TABLE t (a BIGINT PRIMARY KEY)", &[]).unwrap();
    other.sync();
    grouped.group_commits();
    (folder, store, grouped, other)
}

fn rows(db: &mut Sqlite) -> Vec<i64> {
    let mut rows = Vec::new();
    db.query("SELECT a FROM t ORDER BY a", &[], &mut |row| rows.push(row.int(0))).unwrap();
    rows
}

fn commit(db: &mut Sqlite, a: i64) {
    db.begin().unwrap();
    db.execute(&format!("INSERT INTO t VALUES ({a})"), &[]).unwrap();
    db.commit().unwrap();
}

#[test]
fn others_see_what_has_gathered_when_it_is_committed() {
    let (_folder, _store, mut grouped, mut other) = table();
    commit(&mut grouped, 1);
    grouped.execute("INSERT INTO t VALUES (2)", &[]).unwrap();
    commit(&mut grouped, 3);
    assert!(!grouped.in_transaction(), "for its own thread each is committed");
    assert!(!grouped.is_synced(), "so that nobody is told of them yet");
    assert_eq!(rows(&mut grouped), [1, 2, 3]);
    assert!(rows(&mut other).is_empty());
    grouped.commit_group().unwrap();
    assert!(!grouped.is_synced());
    grouped.sync();
    assert!(grouped.is_synced());
    assert_eq!(rows(&mut other), [1, 2, 3]);
    commit(&mut other, 4);
}

#[test]
fn one_that_is_undone_leaves_the_others() {
    let (_folder, _store, mut grouped, mut other) = table();
    for a in [1, 2] {
        grouped.begin().unwrap();
        grouped.execute(&format!("INSERT INTO t VALUES ({a}0)"), &[]).unwrap();
        grouped.rollback().unwrap();
        commit(&mut grouped, a);
        assert!(grouped.execute(&format!("INSERT INTO t VALUES (9), ({a})"), &[]).is_err());
    }
    grouped.commit_group().unwrap();
    grouped.sync();
    assert_eq!(rows(&mut other), [1, 2]);
}

#[test]
fn a_script_s_statement_sees_them_and_others_wait_for_none() {
    let (_folder, _store, mut grouped, mut other) = table();
    commit(&mut grouped, 1);
    let mut seen = 0;
    grouped.guest_query("SELECT COUNT(*) FROM t", &[], &mut |row| seen = row.int(0)).unwrap();
    assert_eq!(seen, 1);
    commit(&mut other, 2);
    commit(&mut grouped, 3);
    grouped.rest(true);
    commit(&mut other, 4);
    commit(&mut grouped, 5);
    drop(grouped);
    commit(&mut other, 6);
    assert_eq!(rows(&mut other), [1, 2, 3, 4, 6], "nobody was told of 5");
}

/// It gathers further, as fast as it can: without an end of its own a group would shut others out.
#[test]
fn whoever_waits_has_its_turn() {
    let (_folder, store, mut grouped, mut other) = table_with(Duration::from_millis(2));
    commit(&mut grouped, 1);
    std::thread::scope(|threads| {
        let waits = threads.spawn(move || commit(&mut other, -1));
        for a in 2.. {
            commit(&mut grouped, a);
            if waits.is_finished() {
                break;
            }
        }
        waits.join().unwrap();
    });
    let samples = store.stats().samples();
    assert!(samples.iter().any(|one| one.name == "db_groups_cut" && one.value > 0));
}

#[test]
fn a_group_that_the_database_gave_up_is_told_once_and_nothing_happens_until_then() {
    let (_folder, _store, mut grouped, mut other) = table();
    let failed = Err(DbError::Machine("commits before this one have failed".into()));
    for is_open in [true, false] {
        commit(&mut grouped, 1);
        if is_open {
            grouped.begin().unwrap();
        }
        assert!(grouped.execute("INSERT OR ROLLBACK INTO t VALUES (1)", &[]).is_err());
        if is_open {
            assert!(grouped.commit().is_err());
        }
        commit(&mut other, 2);
        assert_eq!(grouped.begin(), failed);
        assert_eq!(grouped.execute("INSERT INTO t VALUES (3)", &[]).map(drop), failed);
        assert_eq!(grouped.guest_execute("INSERT INTO t VALUES (4)", &[]).map(drop), failed);
        assert_eq!(grouped.commit_group(), failed);
        assert!(!grouped.is_synced());
        grouped.sync();
        assert_eq!(grouped.commit_group(), Ok(()));
        assert_eq!(rows(&mut grouped), [2]);
        grouped.execute("DELETE FROM t", &[]).unwrap();
        grouped.commit_group().unwrap();
        grouped.sync();
    }
}

#[test]
fn a_file_that_is_gone_fails_the_group() {
    let (folder, _store, mut grouped, _other) = table();
    commit(&mut grouped, 1);
    std::fs::remove_file(folder.path().join("throng.db")).unwrap();
    assert!(matches!(grouped.commit_group(), Err(DbError::Machine(_))));
}
