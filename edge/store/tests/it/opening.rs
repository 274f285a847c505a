//! Opening: the folder, migrations from every version, and clear errors.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use game::db::{Database as _, Param};
use game::schema::{MIGRATIONS, Migration};
use store::{DATABASE_FILE, Store};

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
        let old = Store::open_with(&data_dir, &MIGRATIONS[..from]).unwrap();
        if from >= 1 {
            let id = Param::Blob(&[7; 16]);
            let sql = "INSERT INTO users (id, username, create_time, update_time) \
                VALUES ($1, 'kept', 1, 1)";
            old.connect().unwrap().execute(sql, &[id]).unwrap();
        }
        drop(old);
        for _ in 0..2 {
            let new = Store::open(&data_dir).unwrap();
            assert_eq!(version(&new), i64::try_from(MIGRATIONS.len()).unwrap());
            let mut kept = 0;
            let sql = "SELECT COUNT(*) FROM users WHERE username = 'kept'";
            new.connect().unwrap().query(sql, &[], &mut |row| kept = row.int(0)).unwrap();
            assert_eq!(kept, i64::from(from >= 1));
        }
    }
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    const GOOD: Migration = Migration { version: 1, name: "good", sql: &["CREATE TABLE a (x)"] };
    const BAD: Migration =
        Migration { version: 2, name: "bad", sql: &["CREATE TABLE b (x)", "CREATE TABLE a (x)"] };
    let folder = Folder::new();
    let error = Store::open_with(folder.path(), &[GOOD, BAD]).unwrap_err().to_string();
    assert!(error.contains("schema version 2 (bad)") && error.contains("throng.db"), "{error}");
    let store = Store::open_with(folder.path(), &[GOOD]).unwrap();
    assert_eq!(version(&store), 1);
    let mut db = store.connect().unwrap();
    assert!(db.query("SELECT * FROM b", &[], &mut |_| {}).is_err(), "half a step was undone");
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
    assert!(error.contains("cannot create the data folder"), "{error}");

    // Root may write anywhere, so a folder in the file's place stands for a missing right.
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join(DATABASE_FILE)).unwrap();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("cannot write to") && error.contains("--data_dir"), "{error}");
}
