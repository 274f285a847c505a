//! Statements of scripts: what they may not name, what they may use up, and that others do not wait.

use std::time::{Duration, Instant};

use game::db::{Database as _, DbError, GuestBudget, Param};
use store::{Sqlite, Store, StoreSettings};

use crate::opening::Folder;

/// Numbers from 1 to `n`.
fn numbers(n: u64) -> String {
    format!("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {n})")
}

fn store_with(guest: GuestBudget) -> (Folder, Store, Sqlite) {
    let folder = Folder::new();
    let settings = StoreSettings { guest, ..StoreSettings::default() };
    let store = Store::open_with(folder.path(), &settings).unwrap();
    let db = store.connect().unwrap();
    (folder, store, db)
}

fn one(db: &mut Sqlite, sql: &str) -> String {
    let mut found = String::new();
    db.guest_query(sql, &[], &mut |row| found = format!("{:?}", row.cell(0))).unwrap();
    found
}

/// The setting that a statement was stopped by.
fn stopped_by(db: &mut Sqlite, sql: &str) -> &'static str {
    match db.guest_query(sql, &[], &mut |_| {}) {
        Err(DbError::Limit { setting, .. }) => setting,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_scripts_mistakes_are_its_own_to_read() {
    let (_folder, store, mut db) = store_with(GuestBudget::DEFAULT);
    db.guest_execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)", &[]).unwrap();
    let one = [Param::Int(1)];
    assert_eq!(db.guest_execute("INSERT INTO t VALUES ($1, 'x')", &one), Ok(1));
    for (sql, params, expected) in [
        ("SELEC", &[][..], "bad statement: near"),
        ("SELECT missing FROM t", &[], "bad statement: no such column"),
        ("SELECT $1", &[], "bad statement: parameter $1 is not among the 0 given"),
        ("SELECT $0", &one, "bad statement: parameter $0 is not among the 1 given"),
        ("SELECT $a", &one, "bad statement: parameter $a is not a number such as $1"),
        ("SELECT 1", &one, "bad statement: 1 parameters are given, but the last used is $0"),
        ("INSERT INTO t VALUES ($1, 'y')", &one, "t.a exists already"),
        ("SELECT 1", &[], "bad statement"),
    ] {
        let error = db.guest_execute(sql, params).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{sql}: {error}");
    }
    assert!(store.stats().samples().iter().all(|one| one.name != "db_errors" || one.value == 0));
}

#[test]
fn what_is_the_servers_own_is_refused_by_name() {
    let (_folder, _store, mut db) = store_with(GuestBudget::DEFAULT);
    // The server's own commits and savepoints are prepared and kept: a script's are not those.
    db.begin().unwrap();
    db.execute("SAVEPOINT job", &[]).unwrap();
    db.execute("RELEASE SAVEPOINT job", &[]).unwrap();
    db.commit().unwrap();
    db.begin().unwrap();
    db.rollback().unwrap();
    db.guest_execute("CREATE TABLE mine (x)", &[]).unwrap();
    db.guest_execute("INSERT INTO mine VALUES (1)", &[]).unwrap();
    for (sql, expected) in [
        ("BEGIN", "transactions and savepoints"),
        ("BEGIN IMMEDIATE", "transactions and savepoints"),
        ("COMMIT", "transactions and savepoints"),
        ("ROLLBACK", "transactions and savepoints"),
        ("SAVEPOINT job", "transactions and savepoints"),
        ("RELEASE SAVEPOINT job", "transactions and savepoints"),
        ("PRAGMA synchronous = OFF", "PRAGMA"),
        ("SELECT * FROM pragma_table_info('users')", "PRAGMA"),
        ("ATTACH 'other.db' AS other", "PRAGMA, ATTACH"),
        ("VACUUM", ""),
        ("VACUUM INTO 'other.db'", ""),
        ("REINDEX", "the index "),
        ("ANALYZE", "ANALYZE"),
        ("CREATE TEMP TABLE hoard (x)", "temporary tables"),
        ("CREATE TEMP VIEW v AS SELECT 1", "temporary tables"),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "virtual tables"),
        ("SELECT * FROM dbstat", "virtual tables"),
        ("SELECT json_patch('{}', '{}')", "json_patch"),
        ("SELECT load_extension('x')", "load_extension"),
        ("DELETE FROM users", "the table users"),
        ("DELETE FROM main.Users WHERE id = x'00'", "the table users"),
        ("UPDATE storage SET value = ''", "the table storage"),
        ("INSERT INTO user_device VALUES ('d', x'00')", "the table user_device"),
        ("INSERT INTO mine SELECT 1; DELETE FROM users", ""),
        ("REPLACE INTO user_device VALUES ('d', x'00')", "the table user_device"),
        ("DELETE FROM schema_version", "the table schema_version"),
        ("DROP TABLE users", "the table users"),
        ("DROP INDEX users_email", "the table users"),
        ("ALTER TABLE users ADD COLUMN mine", "the table users"),
        ("ALTER TABLE users RENAME TO theirs", "the table users"),
        ("CREATE INDEX i ON users (wallet)", "the table users"),
        ("CREATE TRIGGER t AFTER INSERT ON users BEGIN SELECT 1; END", "the table users"),
    ] {
        for _ in 0..2 {
            let error = db.guest_execute(sql, &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }
    // Not through a trigger of the script's own either.
    let trigger = "CREATE TRIGGER t AFTER DELETE ON mine BEGIN DELETE FROM users; END";
    db.guest_execute(trigger, &[]).unwrap();
    let error = db.guest_execute("DELETE FROM mine", &[]).unwrap_err().to_string();
    assert!(error.contains("the table users"), "{error}");
    assert!(!db.in_transaction());
    db.begin().unwrap();
    db.commit().unwrap();
    // Its own tables are its own.
    db.guest_execute("DROP TRIGGER t", &[]).unwrap();
    for sql in [
        "ALTER TABLE mine ADD COLUMN y",
        "CREATE INDEX i ON mine (x)",
        "CREATE VIEW v AS SELECT * FROM mine",
        "INSERT INTO mine VALUES (2, 3) ON CONFLICT DO NOTHING",
        "REINDEX i",
        "UPDATE mine SET x = 5",
        "DELETE FROM mine WHERE y = 3",
        "DROP INDEX i",
        "DROP VIEW v",
    ] {
        db.guest_execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert_eq!(db.guest_execute("DELETE FROM mine", &[]), Ok(1));
    db.guest_execute("DROP TABLE mine", &[]).unwrap();
    assert!(db.guest_query("SELECT * FROM mine", &[], &mut |_| {}).is_err(), "it is gone");
}

#[test]
fn passwords_read_as_nothing_unless_all_is_open() {
    let id = Param::Blob(&[7; 16]);
    let insert = "INSERT INTO users (id, username, create_time, update_time, password) \
        VALUES ($1, 'a', 1, 1, 'hash')";
    for opens_own_tables in [false, true] {
        let budget = GuestBudget { opens_own_tables, ..GuestBudget::DEFAULT };
        let (_folder, _store, mut db) = store_with(budget);
        db.execute(insert, &[id]).unwrap();
        let expected = if opens_own_tables { "Text(\"hash\")" } else { "Null" };
        assert_eq!(one(&mut db, "SELECT password FROM users"), expected);
        assert_eq!(one(&mut db, "SELECT u.PassWord FROM (SELECT * FROM users) AS u"), expected);
        assert_eq!(one(&mut db, "SELECT username FROM users"), "Text(\"a\")");
        let found = one(&mut db, "SELECT COUNT(*) FROM users WHERE password LIKE 'h%'");
        assert_eq!(found, format!("Int({})", i32::from(opens_own_tables)));
        let deleted = db.guest_execute("DELETE FROM users", &[]);
        assert_eq!(deleted.is_ok(), opens_own_tables, "{deleted:?}");
    }
}

/// A script that puts clients' texts into statements must not give hashes away, by whatever way
/// round: none of these answers with the hash, or says whether a guess at it is right.
#[test]
fn no_way_round_leads_to_passwords() {
    let (_folder, _store, mut db) = store_with(GuestBudget::DEFAULT);
    let insert = "INSERT INTO users (id, username, create_time, update_time, password) \
        VALUES ($1, 'a', 1, 1, 'hash')";
    db.execute(insert, &[Param::Blob(&[7; 16])]).unwrap();
    db.guest_execute("CREATE TABLE mine (x)", &[]).unwrap();
    // Views and copies are made, or refused: what stands in them is nothing.
    for sql in [
        "CREATE VIEW v AS SELECT password FROM users",
        "CREATE VIEW w (a) AS SELECT p FROM (SELECT PASSWORD AS p, * FROM main.users)",
        "CREATE TABLE copy AS SELECT password AS x FROM users",
        "INSERT INTO mine SELECT password FROM users",
        "INSERT INTO mine SELECT * FROM v",
        "INSERT INTO mine VALUES ((SELECT \"password\" FROM users))",
        "INSERT INTO mine VALUES (1) RETURNING (SELECT password FROM users)",
        "UPDATE mine SET x = u.password FROM users AS u",
        "CREATE TRIGGER t AFTER UPDATE ON mine BEGIN \
            INSERT INTO mine SELECT password FROM users; END",
        "UPDATE mine SET x = 2 WHERE rowid = 1",
        "CREATE INDEX i ON users (password)",
        "CREATE INDEX i ON mine ((SELECT password FROM users))",
        "CREATE TRIGGER t2 AFTER UPDATE ON users BEGIN INSERT INTO mine VALUES (new.password); END",
        "CREATE TABLE child (p DEFAULT (SELECT password FROM users))",
        "CREATE TABLE gen (p, q AS ((SELECT password FROM users)))",
        "ALTER TABLE users RENAME COLUMN password TO p",
        "ALTER TABLE users DROP COLUMN email",
        "ALTER TABLE mine RENAME TO users",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET name = 'theirs' WHERE name = 'users'",
        "UPDATE sqlite_schema SET sql = replace(sql, 'password', 'p')",
        "INSERT INTO sqlite_schema SELECT 'table', 'theirs', 'theirs', rootpage, \
            'CREATE TABLE theirs (a, b)' FROM sqlite_schema WHERE name = 'users'",
        "ATTACH 'throng.db' AS other",
        "VACUUM INTO '/tmp/never.db'",
    ] {
        let mut found = Vec::new();
        let _ = db.guest_query(sql, &[], &mut |row| {
            found.extend((0..row.width()).map(|column| row.cell(column)));
        });
        assert!(!format!("{found:?}").contains("hash"), "{sql}: {found:?}");
    }
    let mut asked = Vec::new();
    for table in ["users", "v", "w", "copy", "mine", "child", "gen", "theirs", "other.users"] {
        asked.push(format!("SELECT * FROM {table}"));
    }
    for sql in [
        "SELECT json_group_array(password) FROM users",
        "SELECT json_object('p', u.password) FROM users AS u",
        "SELECT value FROM users, json_each(json_array(password))",
        "SELECT group_concat(password), max(password), quote(password), hex(password) FROM users",
        "SELECT first_value(password) OVER (ORDER BY password) FROM users",
        "WITH c AS MATERIALIZED (SELECT * FROM users) SELECT password FROM c",
        "SELECT b.password FROM users AS a JOIN users AS b USING (password)",
        "SELECT a.password FROM users AS a NATURAL JOIN users AS b",
        "SELECT username FROM users WHERE password = 'hash'",
        "SELECT username FROM users WHERE (password, 1) IN (SELECT 'hash', 1)",
        "SELECT 'right' FROM users GROUP BY password HAVING password LIKE 'h%'",
        "SELECT CASE WHEN password > 'a' THEN 'right' END FROM users",
        "SELECT username FROM users ORDER BY password COLLATE NOCASE > 'a'",
        "SELECT password FROM users UNION SELECT 'x' FROM mine WHERE 0",
        "SELECT * FROM mine WHERE x IN (SELECT password FROM users)",
        "SELECT * FROM users INDEXED BY users_username WHERE password NOT NULL",
        "SELECT * FROM pragma_table_info('users')",
        "SELECT sqlite_compileoption_get(0), readfile('throng.db')",
        "SELECT data FROM sqlite_dbpage WHERE pgno = 3",
        "SELECT * FROM dbstat",
        "SELECT * FROM sqlite_stat4",
        "SELECT * FROM bytecode('SELECT password FROM users')",
        "EXPLAIN SELECT password FROM users WHERE password = 'hash'",
        "EXPLAIN QUERY PLAN SELECT password FROM users",
    ] {
        asked.push(sql.to_owned());
    }
    for sql in asked {
        let mut found = Vec::new();
        let _ = db.guest_query(&sql, &[], &mut |row| {
            found.extend((0..row.width()).map(|column| row.cell(column)));
        });
        let text = format!("{found:?}");
        // The text of EXPLAIN has what the script itself wrote.
        let is_given = text.contains("hash") && !sql.starts_with("EXPLAIN");
        assert!(!is_given && !text.contains("right"), "{sql}: {text}");
        let guesses = sql.contains("WHERE password =") || sql.contains("WHERE (password");
        assert!(found.is_empty() || !guesses || sql.starts_with("EXPLAIN"), "{sql}: {text}");
    }
    let mut kept = 0;
    let sql = "SELECT password FROM users";
    db.query(sql, &[], &mut |row| kept += usize::from(row.text(0) == "hash")).unwrap();
    assert_eq!(kept, 1, "the server itself has it");
}

#[test]
fn a_statement_that_goes_on_and_on_is_stopped() {
    let (_folder, _store, mut db) = store_with(GuestBudget { time_ms: 50, ..GuestBudget::DEFAULT });
    let started = Instant::now();
    for sql in [
        format!("{} SELECT SUM(x) FROM c", numbers(u64::MAX >> 1)),
        format!("{0} SELECT COUNT(*) FROM c AS a, c AS b", numbers(100_000)),
    ] {
        assert_eq!(stopped_by(&mut db, &sql), "runtime.sql_budget_ms");
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(one(&mut db, "SELECT 1"), "Int(1)");
}

/// Of a collection alone no index knows where it is.
#[test]
fn rows_that_no_index_led_to_are_counted_and_told_where_time_was_over() {
    let (_folder, store, mut db) =
        store_with(GuestBudget { time_ms: 60_000, ..GuestBudget::DEFAULT });
    let fill = format!(
        "INSERT INTO storage {} SELECT randomblob(16), 'c' || (x % 2), x, '{{}}', '', 2, 1, 1, 1 FROM c",
        numbers(20_000)
    );
    db.execute(&fill, &[]).unwrap();
    let scanned = |store: &Store| {
        let samples = store.stats().samples();
        samples.iter().find(|one| one.name == "sql_rows_scanned").unwrap().value
    };
    let mut before = 0;
    for (condition, expected) in [
        ("key = '7'", 19_999),
        ("key = '7'", 19_999),
        ("collection = 'none'", 19_999),
        ("collection = 'none' AND read > 1", 0),
        ("collection = 'none' AND user_id <> x'00000000000000000000000000000000'", 0),
        ("collection = 'none' AND user_id = x'00000000000000000000000000000000'", 0),
    ] {
        let sql = format!("SELECT key FROM storage WHERE {condition}");
        db.guest_query(&sql, &[], &mut |_| ()).unwrap();
        assert_eq!(scanned(&store) - before, expected, "{condition}");
        before = scanned(&store);
    }
    let budget = GuestBudget { time_ms: 200, ..GuestBudget::DEFAULT };
    let mut hurried = store.connect_with(budget).unwrap();
    let sql = "SELECT COUNT(*) FROM storage AS a, storage AS b WHERE a.key > b.key";
    let stopped = hurried.guest_query(sql, &[], &mut |_| ()).unwrap_err().to_string();
    let (_, why) = stopped.split_once("stopped after 200 ms, in which it read ").unwrap();
    let (rows, why) = why.split_once(' ').unwrap();
    assert!(rows.parse::<u64>().unwrap() >= 10_000, "{stopped}");
    assert!(
        why.contains("without an index")
            && why.contains("EXPLAIN QUERY PLAN")
            && why.ends_with("(runtime.sql_budget_ms)"),
        "{why}"
    );
    let sql = format!("{} SELECT SUM(x) FROM c", numbers(u64::MAX >> 1));
    let stopped = hurried.guest_query(&sql, &[], &mut |_| ()).unwrap_err().to_string();
    assert_eq!(stopped, "stopped after 200 ms (runtime.sql_budget_ms)");
}

#[test]
fn values_rows_and_answers_are_bounded_before_they_are_there() {
    let (_folder, store, mut db) = store_with(GuestBudget::DEFAULT);
    for sql in ["SELECT hex(zeroblob(4e8))", "SELECT length(printf('%.*c', 100000000, 'x'))"] {
        assert_eq!(stopped_by(&mut db, sql), "runtime.sql_value_max_bytes");
    }
    let mut rows = 0;
    let sql = format!("{} SELECT x FROM c", numbers(1_000_000));
    let error = db.guest_query(&sql, &[], &mut |_| rows += 1).unwrap_err();
    assert!(matches!(error, DbError::Limit { setting: "runtime.sql_rows_max", .. }), "{error}");
    assert_eq!(rows, 10_000);
    let sql = format!("{} SELECT zeroblob(1000000) FROM c", numbers(100));
    let mut bytes = 0;
    let error = db.guest_query(&sql, &[], &mut |row| bytes += row.blob(0).len()).unwrap_err();
    let setting = "runtime.sql_answer_max_bytes";
    assert!(matches!(error, DbError::Limit { setting: found, .. } if found == setting), "{error}");
    assert!(bytes <= 16 << 20);
    // Cells cost even when there is nothing in them.
    let nulls = vec!["NULL"; 400].join(", ");
    let sql = format!("{} SELECT {nulls} FROM c", numbers(9_000));
    assert_eq!(stopped_by(&mut db, &sql), setting);
    let counted = store.stats().samples();
    assert!(
        counted.iter().any(|one| one.name == "sql_over_limit" && one.value == 5),
        "{counted:?}"
    );
}

#[test]
fn what_a_statement_writes_is_bounded_and_undone() {
    let budget = GuestBudget {
        time_ms: 60_000,
        write_ms: 60_000,
        written_bytes_max: 30 << 20,
        ..GuestBudget::DEFAULT
    };
    let (folder, _store, mut db) = store_with(budget);
    db.guest_execute("CREATE TABLE t (x)", &[]).unwrap();
    let setting = "runtime.sql_write_max_bytes";
    let many = numbers(3_000);
    // A table, its rows in place, and temporary files.
    let written = format!("INSERT INTO t {many} SELECT randomblob(1000000) FROM c");
    let sorted =
        format!("{many} SELECT COUNT(*) FROM (SELECT randomblob(900000) AS r FROM c ORDER BY r)");
    for sql in [written, sorted] {
        assert_eq!(stopped_by(&mut db, &sql), setting, "{sql}");
    }
    assert_eq!(one(&mut db, "SELECT COUNT(*) FROM t"), "Int(0)");
    let log = std::fs::metadata(folder.path().join("throng.db-wal")).unwrap().len();
    assert!(log < 200 << 20, "{log}");
}

#[test]
fn rows_of_a_write_that_are_too_many_undo_it() {
    let (_folder, _store, mut db) = store_with(GuestBudget { rows_max: 5, ..GuestBudget::DEFAULT });
    db.guest_execute("CREATE TABLE t (x)", &[]).unwrap();
    let sql = "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6) RETURNING x";
    assert_eq!(stopped_by(&mut db, sql), "runtime.sql_rows_max");
    assert_eq!(one(&mut db, "SELECT COUNT(*) FROM t"), "Int(0)");
    let mut rows = 0;
    let sql = "INSERT INTO t VALUES (1), (2) RETURNING x";
    db.guest_query(sql, &[], &mut |_| rows += 1).unwrap();
    assert_eq!((rows, &*one(&mut db, "SELECT COUNT(*) FROM t")), (2, "Int(2)"));
}

#[test]
fn the_server_does_not_wait_for_scripts_that_write_on_and_on() {
    let budget = GuestBudget { write_ms: 40, ..GuestBudget::DEFAULT };
    let (_folder, store, mut db) = store_with(budget);
    db.guest_execute("CREATE TABLE t (x)", &[]).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let mut longest = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let mut db = store.connect().unwrap();
                let long = format!("INSERT INTO t {} SELECT x FROM c", numbers(u64::MAX >> 1));
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(db.guest_execute(&long, &[]).is_err());
                }
            });
        }
        for number in 0..50 {
            let started = Instant::now();
            db.begin().unwrap();
            let id = Param::Text(&format!("device {number}"));
            db.execute("INSERT INTO user_device VALUES ($1, x'00')", &[id]).unwrap();
            db.commit().unwrap();
            longest = longest.max(started.elapsed());
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // At most two of theirs go before; the rest is for a busy machine.
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_eq!(one(&mut db, "SELECT COUNT(*) FROM t"), "Int(0)");
}

#[test]
fn a_large_table_is_not_emptied_or_dropped_in_one_step() {
    let budget = GuestBudget { write_ms: 20, ..GuestBudget::DEFAULT };
    let (_folder, _store, mut db) = store_with(budget);
    db.execute("CREATE TABLE t (x)", &[]).unwrap();
    let fill = format!("INSERT INTO t {} SELECT x FROM c", numbers(400_000));
    db.execute(&fill, &[]).unwrap();
    for sql in ["DELETE FROM t", "DROP TABLE t"] {
        assert_eq!(stopped_by(&mut db, sql), "runtime.sql_write_budget_ms");
    }
    assert_eq!(one(&mut db, "SELECT COUNT(*) FROM t"), "Int(400000)");
    db.execute("DELETE FROM t WHERE x > 10", &[]).unwrap();
    assert_eq!(db.guest_execute("DELETE FROM t WHERE x = 1", &[]), Ok(1));
    db.guest_execute("DROP TABLE t", &[]).unwrap();
}

/// Counting the rows of a table is one step of SQLite's, in which it does not ask whether to go on.
#[test]
fn a_single_step_that_takes_long_is_stopped() {
    let (_folder, store, mut db) = store_with(GuestBudget::DEFAULT);
    db.execute("CREATE TABLE t (x, padding)", &[]).unwrap();
    let fill = format!("INSERT INTO t {} SELECT x, zeroblob(1800) FROM c", numbers(100_000));
    db.execute(&fill, &[]).unwrap();
    drop(db);
    let count = "SELECT COUNT(*) FROM t";
    let mut hurried =
        store.connect_with(GuestBudget { time_ms: 1, ..GuestBudget::DEFAULT }).unwrap();
    assert_eq!(stopped_by(&mut hurried, count), "runtime.sql_budget_ms");
    // What comes after it is not stopped, nor is it where there is time.
    assert_eq!(one(&mut hurried, "SELECT 1"), "Int(1)");
    let budget = GuestBudget { time_ms: 60_000, ..GuestBudget::DEFAULT };
    let mut db = store.connect_with(budget).unwrap();
    assert_eq!(one(&mut db, count), "Int(100000)");
}

/// Also where it waited in vain. Who only reads has waited for nobody.
#[test]
fn a_connection_tells_how_long_it_waited_for_others() {
    let budget = GuestBudget { time_ms: 5, ..GuestBudget::DEFAULT };
    let (_folder, store, mut db) = store_with(budget);
    db.execute("CREATE TABLE t (x)", &[]).unwrap();
    db.sync();
    let mut holder = store.connect().unwrap();
    holder.begin().unwrap();
    let before_us = db.waited_us();
    assert_eq!(one(&mut db, "SELECT COUNT(*) FROM t"), "Int(0)");
    db.query("SELECT x FROM t", &[], &mut |_| ()).unwrap();
    assert_eq!(db.waited_us(), before_us);
    assert_eq!(stopped_by(&mut db, "INSERT INTO t VALUES (1)"), "runtime.sql_budget_ms");
    assert!(db.waited_us() - before_us >= 5_000, "{}", db.waited_us());
    // The server's own writes do, too.
    let before_us = db.waited_us();
    holder.commit().unwrap();
    db.execute("INSERT INTO t VALUES (2)", &[]).unwrap();
    assert!(db.waited_us() > before_us);
}

/// Dropping an index, and making one anew, frees all its pages in one step that nothing stops.
#[test]
fn an_index_is_freed_only_if_that_takes_no_longer_than_others_may_wait() {
    let (_folder, store, mut db) = store_with(GuestBudget { write_ms: 20, ..GuestBudget::DEFAULT });
    db.execute("CREATE TABLE t (x, padding)", &[]).unwrap();
    let fill = format!("INSERT INTO t {} SELECT x, zeroblob(900) FROM c", numbers(5_000));
    db.execute(&fill, &[]).unwrap();
    db.execute("CREATE INDEX i ON t (x, padding)", &[]).unwrap();
    for sql in ["DROP INDEX i", "REINDEX i", "REINDEX t"] {
        for _ in 0..2 {
            assert_eq!(stopped_by(&mut db, sql), "runtime.sql_write_budget_ms", "{sql}");
        }
    }
    let mut patient =
        store.connect_with(GuestBudget { write_ms: 60_000, ..GuestBudget::DEFAULT }).unwrap();
    for sql in ["REINDEX i", "DROP INDEX i"] {
        patient.guest_execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn scripts_see_what_the_server_wrote_and_the_server_what_they_did() {
    let (_folder, _store, mut db) = store_with(GuestBudget::DEFAULT);
    db.begin_reading().unwrap();
    db.query("SELECT COUNT(*) FROM users", &[], &mut |_| {}).unwrap();
    db.guest_execute("CREATE TABLE t (x)", &[]).unwrap();
    db.guest_execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    let mut seen = 0;
    db.query("SELECT COUNT(*) FROM t", &[], &mut |row| seen = row.int(0)).unwrap();
    assert_eq!(seen, 1);
    db.execute("INSERT INTO t VALUES (2)", &[]).unwrap();
    assert_eq!(one(&mut db, "SELECT COUNT(*) FROM t"), "Int(2)");
    db.begin().unwrap();
    assert!(db.guest_execute("INSERT INTO t VALUES (3)", &[]).is_err());
    db.rollback().unwrap();
}
