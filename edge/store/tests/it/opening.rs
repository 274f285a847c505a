//! Opening: the folder, migrations from every version, and clear errors.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use game::db::{Database as _, Param};
use game::schema::{MIGRATIONS, Migration, NOBODY};
use store::{Check, DATABASE_FILE, OpenError, Store, StoreSettings};

/// A folder of its own for one test, gone afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("throng-store-{}-{serial}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens with other steps than the game's.
fn open_at(data_dir: &Path, migrations: &'static [Migration]) -> Result<Store, OpenError> {
    Store::open_with(data_dir, &StoreSettings { migrations, ..StoreSettings::default() })
}

fn version(store: &Store) -> i64 {
    let mut version = -1;
    let sql = "SELECT MAX(version) FROM schema_version";
    store.connect().unwrap().query(sql, &[], &mut |row| version = row.int(0)).unwrap();
    version
}

#[test]
fn every_older_version_is_brought_up_to_date_and_its_rows_stay() {
    for from in 0..=MIGRATIONS.len() {
        let folder = Folder::new();
        let data_dir = folder.path().join("made/on/the/way");
        let old = open_at(&data_dir, &MIGRATIONS[..from]).unwrap();
        if from >= 1 {
            let id = Param::Blob(&[7; 16]);
            let sql = "INSERT INTO users (id, username, create_time, update_time) \
                VALUES ($1, 'kept', 1, 1)";
            let mut db = old.connect().unwrap();
            db.execute(sql, &[id]).unwrap();
            for (owner, read) in [(NOBODY, 1), (NOBODY, 2), ("x'07'", 1)] {
                let sql = format!(
                    "INSERT INTO storage (user_id, collection, key, value, version, read, write, \
                     create_time, update_time) VALUES ({owner}, 'c', 'k{read}', '{{}}', '', {read}, 1, 1, 1)"
                );
                db.execute(&sql, &[]).unwrap();
            }
        }
        drop(old);
        for _ in 0..2 {
            let new = Store::open(&data_dir).unwrap();
            assert_eq!(version(&new), i64::try_from(MIGRATIONS.len()).unwrap());
            let mut db = new.connect().unwrap();
            let indexed = format!(
                "SELECT COUNT(*) FROM storage INDEXED BY storage_listing WHERE read > 1 OR user_id <> {NOBODY}"
            );
            for (sql, kept) in [
                ("SELECT COUNT(*) FROM users WHERE username = 'kept'", 1),
                ("SELECT COUNT(*) FROM storage", 3),
                (&indexed, 2),
            ] {
                let mut found = 0;
                db.query(sql, &[], &mut |row| found = row.int(0)).unwrap();
                assert_eq!(found, if from >= 1 { kept } else { 0 }, "{sql}");
            }
            let whole = "SELECT 1 FROM storage INDEXED BY storage_listing WHERE collection = 'c'";
            assert!(db.query(whole, &[], &mut |_| ()).is_err(), "the index has all objects");
        }
    }
}

const FIRST: Migration = Migration {
    version: 1,
    name: "first",
    sql: &["CREATE TABLE a (x)", "INSERT INTO a VALUES (7)"],
};
const SECOND: Migration = Migration {
    version: 2,
    name: "second",
    sql: &["ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (8, 8)"],
};
const BAD: Migration =
    Migration { version: 3, name: "bad", sql: &["CREATE TABLE b (x)", "CREATE TABLE a (x)"] };
/// As where SQLite may not write what it sorts.
const UNWRITABLE: Migration = Migration {
    version: 3,
    name: "unwritable",
    sql: &["PRAGMA query_only = 1", "CREATE TABLE b (x)"],
};
const THIRD: Migration = Migration { version: 3, name: "third", sql: &["CREATE TABLE b (x)"] };

/// Names in the folder that begin as the database does, sorted, without the log's.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    names.retain(|name| name.starts_with(DATABASE_FILE));
    names.sort();
    names
}

#[test]
fn an_upgrade_that_fails_leaves_the_database_as_it_was() {
    let folder = Folder::new();
    drop(open_at(folder.path(), &[FIRST]).unwrap());
    // The second step is good, and undone with the third: whoever wrote the file can go on.
    let error = open_at(folder.path(), &[FIRST, SECOND, BAD]).unwrap_err().to_string();
    assert!(error.contains("schema version 3 (bad)"), "{error}");
    assert!(error.contains("as it was, with schema version 1"), "{error}");
    assert_eq!(files(folder.path()), [DATABASE_FILE], "a copy of the same is of no use");
    // It is the step that cannot write, not whoever opens.
    let error = open_at(folder.path(), &[FIRST, SECOND, UNWRITABLE]).unwrap_err().to_string();
    assert!(error.contains("version 3 (unwritable): attempt to write a readonly"), "{error}");
    assert!(error.contains("temporary files"), "{error}");
    let store = open_at(folder.path(), &[FIRST]).unwrap();
    assert_eq!(version(&store), 1);
    let mut db = store.connect().unwrap();
    assert!(db.query("SELECT * FROM b", &[], &mut |_| {}).is_err(), "half a step was undone");
    assert!(db.query("SELECT y FROM a", &[], &mut |_| {}).is_err(), "a whole step was undone");
}

#[test]
fn an_upgrade_keeps_a_copy_of_what_was_before() {
    const STEPS: &[Migration] = &[FIRST, SECOND, THIRD];
    let folder = Folder::new();
    drop(open_at(folder.path(), &STEPS[..1]).unwrap());
    assert_eq!(files(folder.path()), [DATABASE_FILE], "nothing to copy at first");
    // Left by a start that was killed.
    std::fs::write(folder.path().join("throng.db.copying"), "half a copy").unwrap();
    drop(open_at(folder.path(), &STEPS[..2]).unwrap());
    assert_eq!(files(folder.path()), [DATABASE_FILE, "throng.db.before-v2"]);
    for stale in [0, 1] {
        std::fs::write(folder.path().join(format!("throng.db.before-v{stale}")), "old").unwrap();
    }
    drop(open_at(folder.path(), STEPS).unwrap());
    drop(open_at(folder.path(), STEPS).unwrap());
    let copies = [DATABASE_FILE, "throng.db.before-v2", "throng.db.before-v3"];
    assert_eq!(files(folder.path()), copies);
    // The copy is a database that the older version opens.
    let back = Folder::new();
    let copy = folder.path().join("throng.db.before-v3");
    std::fs::copy(copy, back.path().join(DATABASE_FILE)).unwrap();
    let store = open_at(back.path(), &STEPS[..2]).unwrap();
    let mut rows = 0;
    store.connect().unwrap().query("SELECT y FROM a", &[], &mut |_| rows += 1).unwrap();
    assert_eq!((version(&store), rows), (2, 2));
}

#[test]
fn what_is_left_of_a_deleted_database_is_not_thrown_away() {
    for (empty, leave) in [(false, "-wal"), (true, "-wal"), (false, "-shm")] {
        let folder = Folder::new();
        let file = folder.path().join(DATABASE_FILE);
        let left = folder.path().join(format!("{DATABASE_FILE}{leave}"));
        if empty {
            std::fs::write(&file, "").unwrap();
        }
        std::fs::write(&left, "what players have done").unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        let state = if empty { "is empty" } else { "is missing" };
        assert!(error.contains(state) && error.contains(leave), "{error}");
        assert!(error.contains("restore a backup"), "{error}");
        assert_eq!(std::fs::read(&left).unwrap(), b"what players have done");
        std::fs::remove_file(&left).unwrap();
        Store::open(folder.path()).unwrap();
    }
}

/// A database of a few hundred pages, closed.
fn filled() -> Folder {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    db.begin().unwrap();
    for number in 0..500 {
        let id = Param::Text(&format!("{number:0200}"));
        db.execute("INSERT INTO user_device VALUES ($1, x'00')", &[id]).unwrap();
    }
    db.commit().unwrap();
    folder
}

#[test]
fn damage_is_found_at_the_start_unless_nobody_looks() {
    let folder = filled();
    let file = folder.path().join(DATABASE_FILE);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4_096].fill(0x55);
    std::fs::write(&file, bytes).unwrap();
    for (check, is_found) in [(Check::Quick, true), (Check::Full, true), (Check::Off, false)] {
        let opened =
            Store::open_with(folder.path(), &StoreSettings { check, ..StoreSettings::default() });
        assert_eq!(opened.is_err(), is_found, "{check:?}");
        if let Err(error) = opened {
            let error = error.to_string();
            assert!(error.contains("is damaged") && error.contains("backup"), "{error}");
        }
    }
}

#[test]
fn a_database_that_lacks_a_table_does_not_start() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    db.execute("DROP TABLE storage", &[]).unwrap();
    db.execute("ALTER TABLE users DROP COLUMN wallet", &[]).unwrap();
    drop((store, db));
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("lacks storage, users.wallet, "), "{error}");
}

#[test]
fn a_file_that_was_deleted_or_replaced_is_noticed_and_nothing_is_acknowledged() {
    for (suffix, replace) in [("", false), ("", true), ("-wal", false)] {
        let folder = filled();
        let store = Store::open(folder.path()).unwrap();
        let mut db = store.connect().unwrap();
        // So long ago that the directory's time alone tells that nothing has happened since.
        let then = SystemTime::now() - Duration::from_mins(1);
        File::open(folder.path()).unwrap().set_modified(then).unwrap();
        let insert = "INSERT INTO user_device VALUES ($1, x'00')";
        db.execute(insert, &[Param::Text("before")]).unwrap();
        let file = folder.path().join(format!("{DATABASE_FILE}{suffix}"));
        let aside = folder.path().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        if replace {
            std::fs::copy(&aside, &file).unwrap();
        }
        assert!(db.execute(insert, &[Param::Text("lost")]).is_err(), "{suffix} {replace}");
        assert!(db.begin().is_err() && !db.in_transaction());
        assert!(db.guest_execute("CREATE TABLE t (x)", &[]).is_err());
        // Readers are told as well, once somebody knows.
        assert!(db.query("SELECT 1", &[], &mut |_| {}).is_err());
        let counted = store.stats().samples();
        let missing = counted.iter().find(|sample| sample.name == "db_file_missing").unwrap();
        assert!(missing.value >= 4);
        // And when it is there again, all is well.
        std::fs::rename(&aside, &file).unwrap();
        db.begin().unwrap();
        db.execute(insert, &[Param::Text("after")]).unwrap();
        db.commit().unwrap();
        db.query("SELECT 1", &[], &mut |_| {}).unwrap();
    }
}

/// SQLite puts the log beside the file that a link leads to.
#[test]
fn behind_a_link_the_files_themselves_are_watched() {
    for suffix in ["", "-wal"] {
        let (folder, real) = (filled(), Folder::new());
        let (link, file) = (folder.path().join(DATABASE_FILE), real.path().join("real.db"));
        std::fs::rename(&link, &file).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut db = store.connect().unwrap();
        let insert = "INSERT INTO user_device VALUES ($1, x'00')";
        db.execute(insert, &[Param::Text("before")]).unwrap();
        std::fs::remove_file(real.path().join(format!("real.db{suffix}"))).unwrap();
        assert!(db.execute(insert, &[Param::Text("lost")]).is_err(), "{suffix}");
    }
}

/// Within a second, which is how often files are looked at if nothing happens in their directory.
#[test]
fn a_database_that_was_emptied_is_noticed() {
    let folder = filled();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    let insert = "INSERT INTO user_device VALUES ($1, x'00')";
    db.execute(insert, &[Param::Text("before")]).unwrap();
    File::create(folder.path().join(DATABASE_FILE)).unwrap();
    assert!(db.execute(insert, &[Param::Text("lost")]).is_err());
}

#[test]
fn a_file_that_vanishes_before_the_commit_is_not_acknowledged() {
    let folder = filled();
    let store = Store::open(folder.path()).unwrap();
    let mut db = store.connect().unwrap();
    db.begin().unwrap();
    db.execute("INSERT INTO user_device VALUES ('lost', x'00')", &[]).unwrap();
    std::fs::remove_file(folder.path().join(DATABASE_FILE)).unwrap();
    assert_eq!(db.commit().unwrap_err().to_string(), "database error");
    assert!(!db.in_transaction());
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let folder = Folder::new();
    let store = Store::open(folder.path()).unwrap();
    let sql = "INSERT INTO schema_version (version, name, applied_ms) VALUES (99, 'new', 0)";
    store.connect().unwrap().execute(sql, &[]).unwrap();
    drop(store);
    let error = Store::open(folder.path()).unwrap_err().to_string();
    let known = MIGRATIONS.len();
    assert!(
        error.contains("schema version 99") && error.contains(&format!("only {known}")),
        "{error}"
    );
}

#[test]
fn what_is_no_database_and_what_cannot_be_written_is_named_with_the_cure() {
    let folder = Folder::new();
    let file = folder.path().join(DATABASE_FILE);
    std::fs::write(&file, "this is a diary, not a database; ".repeat(100)).unwrap();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("no SQLite database") && error.contains("move the file away"),
        "{error}"
    );
    assert!(error.contains(&file.display().to_string()), "{error}");

    let error = Store::open(&file).unwrap_err().to_string();
    assert!(error.contains("is a file, or lies below one"), "{error}");

    // Root may write anywhere, so a folder in the file's place stands for a missing right.
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join(DATABASE_FILE)).unwrap();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("cannot write to") && error.contains("--data_dir"), "{error}");
}
