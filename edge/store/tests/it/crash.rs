//! What was acknowledged survives `kill -9`: a child process registers users in batches and says
//! after each commit how many there are; it is killed in the middle, again and again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use event::{Now, Random};
use game::account::{NewAccount, authenticate_device};
use game::db::Database as _;
use store::Store;

use crate::opening::Folder;

const CHILD_FOLDER: &str = "THRONG_TEST_CRASH_FOLDER";
const BATCH: u64 = 5;

/// Not a test of its own: what the child process runs when the test below starts this binary again.
#[test]
fn crash_child() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = Store::open(folder.as_ref()).unwrap();
    let mut db = store.connect().unwrap();
    let mut users = count(&store);
    let mut random = Random::from_number(users);
    loop {
        for _ in 0..BATCH {
            let new_account = NewAccount::draw(Now { mono_ns: 0, unix_ms: users }, &mut random);
            let device = format!("device-{users:08}");
            authenticate_device(&mut db, &new_account, &device, "", true).unwrap();
            users += 1;
        }
        db.commit().unwrap();
        // Straight to the pipe: the test harness would keep what `println!` prints.
        let mut out = std::io::stderr().lock();
        writeln!(out, "acknowledged {users}").unwrap();
    }
}

#[test]
fn acknowledged_users_survive_sigkill() {
    let folder = Folder::new();
    let mut acknowledged = 0;
    for round in 1..=4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::crash_child", "--nocapture", "--test-threads=1"])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..round * 7 {
            let line = lines.next().unwrap().unwrap();
            let number = line.strip_prefix("acknowledged ").unwrap_or_else(|| panic!("{line}"));
            acknowledged = number.parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said between the last line read and its death counts too.
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged = acknowledged.max(number.parse().unwrap_or(0));
            }
        }
        let users = count(&Store::open(folder.path()).unwrap());
        assert!(users >= acknowledged, "{acknowledged} acknowledged, {users} left");
        assert_eq!(users % BATCH, 0, "a batch is there wholly or not at all");
    }
    assert!(acknowledged >= 4 * BATCH);
}

fn count(store: &Store) -> u64 {
    let mut counts = [0; 2];
    let sql = "SELECT (SELECT COUNT(*) FROM users), (SELECT COUNT(*) FROM user_device)";
    store.connect().unwrap().query(sql, &[], &mut |row| counts = [row.int(0), row.int(1)]).unwrap();
    assert_eq!(counts[0], counts[1], "every user has its device");
    u64::try_from(counts[0]).unwrap()
}
