//! Databases whose pages are split, taken back, vacuumed and cut behind this cache are whole, whatever the size of
//! their pages; and SQLite still lends the number that is the reason for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use rusqlite::Connection;

/// A table that grows at random places in small transactions, of which every third is taken back.
fn grown(page_bytes: u32, memory: bool) -> Connection {
    assert!(pages::install(), "SQLite is in use already");
    let conn = Connection::open_in_memory().unwrap();
    let conn = if memory { conn } else { Connection::open("").unwrap() };
    let settings = format!("PRAGMA page_size = {page_bytes}; PRAGMA cache_size = 200;");
    conn.execute_batch(&settings).unwrap();
    conn.execute_batch("CREATE TABLE t (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID").unwrap();
    for round in 0..300 {
        conn.execute_batch("BEGIN").unwrap();
        for at in 0..20_u64 {
            let key = (round * 20 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            conn.execute("INSERT INTO t VALUES (?1, zeroblob(50))", [key]).unwrap();
        }
        conn.execute_batch(if round % 3 == 2 { "ROLLBACK" } else { "COMMIT" }).unwrap();
    }
    conn
}

fn ask<T: rusqlite::types::FromSql>(conn: &Connection, sql: &str) -> T {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn databases_of_every_page_size_are_whole() {
    for page_bytes in [512, 1_024, 2_048, 4_096, 8_192, 65_536] {
        for memory in [true, false] {
            let conn = grown(page_bytes, memory);
            assert_eq!(ask::<i64>(&conn, "SELECT COUNT(*) FROM t"), 4_000);
            assert_eq!(ask::<String>(&conn, "PRAGMA integrity_check"), "ok");
            conn.execute_batch("DELETE FROM t WHERE k > x'40'; VACUUM; PRAGMA shrink_memory")
                .unwrap();
            assert_eq!(ask::<String>(&conn, "PRAGMA integrity_check"), "ok");
            assert!(ask::<i64>(&conn, "SELECT COUNT(*) FROM t") > 500);
        }
    }
}

#[test]
fn the_number_of_the_lock_page_is_lent_when_pages_are_split() {
    let before = pages::lent();
    drop(grown(2_048, true));
    assert!(pages::lent() > before, "SQLite does without: so may this crate");
}
