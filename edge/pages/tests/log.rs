//! Commits whose frames are gathered leave the log that SQLite would have left: whoever opens the file by its usual
//! name finds all of it, whatever the transactions were, and a commit that could not be written is not there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("throng-pages-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn database(&self) -> PathBuf {
        self.0.join("it.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, page_bytes: u32) -> Connection {
    assert!(pages::log::install());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags_and_vfs(path, flags, pages::log::NAME).unwrap();
    let settings = format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         PRAGMA cache_size = 20; PRAGMA wal_autocheckpoint = 0;"
    );
    conn.execute_batch(&settings).unwrap();
    conn
}

/// As any other program does.
fn usual(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap()
}

fn commit(conn: &Connection) -> Result<(), rusqlite::Error> {
    pages::log::gathered(|| conn.execute_batch("COMMIT"))
}

fn ask<T: rusqlite::types::FromSql>(conn: &Connection, sql: &str) -> T {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Changes `count` rows at places that look random; so many do not fit into the cache of 20 pages, if there are
/// hundreds, and are written before the commit, some of them twice.
fn change(conn: &Connection, seed: u64, count: u64) {
    for at in 0..count {
        let key = (seed * 7_919 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 5_000;
        let key = i64::try_from(key).unwrap();
        conn.execute(
            "INSERT INTO t VALUES (?1, zeroblob(300), 1) ON CONFLICT DO UPDATE SET n = n + 1",
            [key],
        )
        .unwrap();
    }
}

#[test]
fn commits_are_whole_for_whoever_reads_them() {
    for page_bytes in [512, 2_048, 65_536] {
        let folder = Folder::new(&format!("whole-{page_bytes}"));
        let (ours, theirs) = (open(&folder.database(), page_bytes), usual(&folder.database()));
        ours.execute_batch("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB, n INTEGER)").unwrap();
        let mut expected = 0_i64;
        for (seed, count) in (0..).zip([1, 3, 40, 600, 2, 900, 100, 5, 1_500]) {
            // Two connections take turns, and one takes back what it has partly written.
            let other = open(&folder.database(), page_bytes);
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            change(&other, seed + 100, count);
            other.execute_batch("ROLLBACK").unwrap();
            ours.execute_batch("BEGIN IMMEDIATE").unwrap();
            change(&ours, seed, count);
            assert_eq!(ask::<Option<i64>>(&theirs, "SELECT SUM(n) FROM t").unwrap_or(0), expected);
            commit(&ours).unwrap();
            expected += i64::try_from(count).unwrap();
            assert_eq!(ask::<i64>(&theirs, "SELECT SUM(n) FROM t"), expected, "{page_bytes}");
            assert_eq!(ask::<String>(&theirs, "PRAGMA integrity_check"), "ok", "{page_bytes}");
            if seed % 3 == 1 {
                // The log begins anew; the last commit is in it alone.
                ask::<i64>(&ours, "PRAGMA wal_checkpoint(RESTART)");
            }
        }
        // As after `kill -9`: the files as they lie there, with nobody's memory.
        let copy = Folder::new(&format!("copy-{page_bytes}"));
        for name in ["it.db", "it.db-wal"] {
            std::fs::copy(folder.0.join(name), copy.0.join(name)).unwrap();
        }
        let found = usual(&copy.database());
        assert_eq!(ask::<i64>(&found, "SELECT SUM(n) FROM t"), expected, "{page_bytes}");
        assert_eq!(ask::<String>(&found, "PRAGMA integrity_check"), "ok", "{page_bytes}");
    }
}

#[test]
fn a_commit_of_many_pages_makes_few_writes() {
    let folder = Folder::new("few");
    let conn = open(&folder.database(), 2_048);
    conn.execute_batch(
        "PRAGMA cache_size = 2000; CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB, n INTEGER)",
    )
    .unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    change(&conn, 1, 1_000);
    let before = pages::log::counts();
    commit(&conn).unwrap();
    let after = pages::log::counts();
    let (frames, writes) = (after.frames - before.frames, after.writes - before.writes);
    assert!(frames > 150, "{frames} frames");
    assert!(writes * 20 < frames, "{writes} writes of {frames} frames");
}
