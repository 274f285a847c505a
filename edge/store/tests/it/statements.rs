//! How many statements a call takes: on a database beyond a network each is a way there and back. The
//! table in `docs/database.md` is this one.

use std::slice;

use event::{Now, Random};
use game::account;
use game::db::Database;
use game::link;
use game::session::new_id;
use game::storage::{self, Caller, ObjectId, Write};
use game::wallet::{LedgerRow, WalletUpdate, wallets_update};
use store::Store;
use uuid::Uuid;

use crate::watched::Watched;

#[test]
fn calls_take_so_many_statements() {
    let store = Store::open_in_memory().unwrap();
    let mut db = store.connect().unwrap();
    let (mut random, now) =
        (Random::from_number(1), Now { mono_ns: 0, unix_ms: 1_800_000_000_000 });
    let mut found = Vec::new();
    let mut count = |what: &str, job: &mut dyn FnMut(&mut dyn Database)| {
        let mut watched = Watched::new(&mut db);
        job(&mut watched);
        found.push(format!("{what}: {}", watched.statements.len()));
    };
    let mut log_in = |db: &mut dyn Database, device: &str| {
        let new_account = account::NewAccount::draw(now, &mut random);
        account::authenticate_device(db, &new_account, device, "", true).unwrap().user_id
    };
    let mut users = Vec::new();
    count("register, first", &mut |db| users.push(log_in(db, "device-000000")));
    count("register", &mut |db| users.push(log_in(db, "device-000001")));
    count("log in", &mut |db| assert_eq!(log_in(db, "device-000001"), users[1]));
    for number in 2..100 {
        count("", &mut |db| users.push(log_in(db, &format!("device-of-{number}"))));
    }
    let owner = users[0];
    let object = |key: usize, value: &str| Write {
        id: ObjectId { collection: "c".into(), key: key.to_string(), user_id: owner },
        value: value.to_owned(),
        version: String::new(),
        permission_read: 1,
        permission_write: 1,
    };
    let script = Caller::Script;
    let write = |db: &mut dyn Database, writes: &[Write]| {
        storage::write(db, now, script, writes).unwrap();
    };
    count("write new", &mut |db| write(db, &[object(0, "{}")]));
    count("write", &mut |db| write(db, &[object(0, r#"{"a":1}"#)]));
    let anew = Write { version: "*".to_owned(), ..object(202, "{}") };
    count("write that wants none", &mut |db| write(db, slice::from_ref(&anew)));
    let nobodys = |value: &str| {
        let id = ObjectId { user_id: Uuid::nil(), ..object(0, "").id };
        [Write { id, ..object(0, value) }]
    };
    count("write new, nobody's", &mut |db| write(db, &nobodys("{}")));
    count("write, nobody's", &mut |db| write(db, &nobodys(r#"{"a":1}"#)));
    let behind =
        |key: usize| Write { version: storage::version_of("{}"), ..object(key, r#"{"a":2}"#) };
    count("write two new", &mut |db| write(db, &[object(200, "{}"), object(201, "{}")]));
    count("write two that were read", &mut |db| write(db, &[behind(200), behind(201)]));
    let many: Vec<Write> = (1..=100).map(|key| object(key, "{}")).collect();
    count("write 100 new", &mut |db| write(db, &many));
    let ids: Vec<ObjectId> = many.iter().map(|write| write.id.clone()).collect();
    count("read 100", &mut |db| {
        assert_eq!(storage::read(db, script, &ids, usize::MAX).unwrap().len(), 100);
    });
    count("read two", &mut |db| {
        let two = [ids[7].clone(), ids[3].clone()];
        let read = storage::read(db, script, &two, usize::MAX).unwrap();
        assert_eq!(read.into_iter().map(|object| object.id).collect::<Vec<_>>(), two);
    });
    count("100 users", &mut |db| {
        assert_eq!(game::user::users(db, &users, &[]).unwrap().len(), 100);
    });
    let mut ids = Random::from_number(2);
    let mut change = |user_id: Uuid, coins: i64| WalletUpdate {
        user_id,
        changeset: [("coins".to_owned(), coins)].into(),
        ledger: Some(LedgerRow { id: new_id(now, &mut ids), metadata: "{}".to_owned() }),
    };
    let update = [change(users[0], 10)];
    count("wallet", &mut |db| drop(wallets_update(db, now, &update).unwrap()));
    let transfer = [change(users[0], -10), change(users[1], 10)];
    count("transfer", &mut |db| drop(wallets_update(db, now, &transfer).unwrap()));
    count("link", &mut |db| link::link_device(db, now, owner, "another-device").unwrap());
    count("ban 100", &mut |db| {
        assert_eq!(account::ban(db, now, 60, &users).unwrap().0.len(), 100);
    });
    found.retain(|line| !line.starts_with(": "));
    let expected = [
        "register, first: 4",
        "register: 4",
        "log in: 1",
        "write new: 3",
        "write: 2",
        "write that wants none: 2",
        "write new, nobody's: 1",
        "write, nobody's: 1",
        "write two new: 6",
        "write two that were read: 4",
        "write 100 new: 104",
        "read 100: 2",
        "read two: 1",
        "100 users: 1",
        "wallet: 5",
        "transfer: 7",
        "link: 5",
        "ban 100: 12",
    ];
    assert_eq!(found, expected);
}
