//! The rules: who is first has it, nobody has it twice, bounds hold, nothing is lost, and nothing is left
//! of who is gone. `docs/database.md` says what keeps each.

use event::Random;
use game::account::{self, AccountUpdate, NewAccount};
use game::db::{Database, Param, id_list};
use game::error::ApiError;
use game::friends::{self, By, EDGES_MAX, INVITATIONS_MAX};
use game::link;
use game::notifications::{self, Draft, KEPT_MAX};
use game::session::{Claims, stored};
use game::storage::{self, Caller, ObjectId, Write};
use game::wallet::{LedgerRow, WalletUpdate, wallets_update};
use uuid::Uuid;

use super::{Round, Rule, Told, done, expect, number};

type Answer = Result<String, ApiError>;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "one device is one account",
        prepare: |_, _| (),
        act: |db, round, who| log_in(db, round, who, "shared", ""),
        check: |db, round, told| {
            one_account(told)?;
            expect(&[("devices", devices(db, &device(round, "shared")), 1), nobodys(db)])
        },
    },
    Rule {
        name: "one custom id is one account",
        prepare: |_, _| (),
        act: |db, round, who| {
            let new_account = round.new_account(u64::try_from(who).unwrap());
            let id = round.text("custom");
            let login = account::authenticate_custom(db, &new_account, &id, "", true)?;
            Ok(format!("{} {}", login.created, login.user_id))
        },
        check: |db, round, told| {
            one_account(told)?;
            let sql = "SELECT COUNT(*) FROM users WHERE custom_id = $1";
            expect(&[("users", number(db, sql, &[Param::Text(&round.text("custom"))]), 1)])
        },
    },
    Rule {
        name: "a chosen name is one user's, and nothing is left of who comes second",
        prepare: |_, _| (),
        act: |db, round, who| log_in(db, round, who, ["one", "other"][who], "named"),
        check: |db, round, told| {
            let both = ["one", "other"].map(|name| devices(db, &device(round, name)));
            let names = users_named(db, &round.text("named"));
            let sum = both.iter().sum();
            expect(&[wins(told, 1), ("users", names, 1), ("devices", sum, 1), nobodys(db)])
        },
    },
    Rule {
        name: "a name that two users change theirs to is one's",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| rename(db, round, ["ann", "bob"][who], &round.text("named")),
        check: |db, round, told| {
            expect(&[wins(told, 1), ("users", users_named(db, &round.text("named")), 1)])
        },
    },
    Rule {
        name: "a name that one registers with and one changes its to is one's",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| match who {
            0 => rename(db, round, "ann", &round.text("named")),
            _ => log_in(db, round, who, "new", "named"),
        },
        check: |db, round, told| {
            let names = users_named(db, &round.text("named"));
            expect(&[wins(told, 1), ("users", names, 1), nobodys(db)])
        },
    },
    Rule {
        name: "a generated name is one user's",
        prepare: |_, _| (),
        act: |db, round, who| {
            let first = round.new_account(0);
            // The same name, and an id that differs where the name does not tell.
            let rest = u128::try_from(who + 1).unwrap();
            let user_id = Uuid::from_u128(first.user_id.as_u128() ^ rest);
            let salt = [u8::try_from(who + 1).unwrap(); 16];
            let new_account = NewAccount { user_id, salt, ..first };
            let device = device(round, ["one", "other"][who]);
            let login = account::authenticate_device(db, &new_account, &device, "", true)?;
            Ok(format!("{} {} {}", login.created, login.user_id, login.username))
        },
        check: |db, _, told| {
            let part = |at| told.each_ref().map(|one| one.answer.split(' ').nth(at).unwrap());
            let ([id, other], [name, others]) = (part(1), part(2));
            expect(&[
                ("same ids", i64::from(id == other), 0),
                ("same names", i64::from(name == others), 0),
                ("registered", sum(told, |one| one.answer.starts_with("true ")), 2),
                nobodys(db),
            ])
        },
    },
    Rule {
        name: "a name that is made for one user is not chosen by another",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| {
            let new_account = round.new_account(0);
            let name = String::from_utf8(new_account.username.to_vec()).unwrap();
            if who == 0 {
                return rename(db, round, "ann", &name);
            }
            let device = device(round, "new");
            let login = account::authenticate_device(db, &new_account, &device, "", true)?;
            Ok(login.username)
        },
        check: |db, round, _| {
            let name = String::from_utf8(round.new_account(0).username.to_vec()).unwrap();
            expect(&[("users", users_named(db, &name), 1), nobodys(db)])
        },
    },
    Rule {
        name: "a device that two users link is one's",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| {
            let device = device(round, "linked");
            let user_id = round.id(["ann", "bob"][who]);
            link::link_device(db, round.now, user_id, &device).map(|()| String::new())
        },
        check: |db, round, told| {
            expect(&[wins(told, 1), ("devices", devices(db, &device(round, "linked")), 1)])?;
            lists_are_right(db, round)
        },
    },
    Rule {
        name: "two devices that one user links are both there",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| {
            let device = device(round, ["one", "other"][who]);
            link::link_device(db, round.now, round.id("ann"), &device).map(|()| String::new())
        },
        check: |db, round, told| {
            expect(&[wins(told, 2)])?;
            lists_are_right(db, round)
        },
    },
    Rule {
        name: "devices of a user have a bound",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            for number in 2..link::DEVICES_MAX {
                let device = device(round, &number.to_string());
                link::link_device(db, round.now, round.id("ann"), &device).unwrap();
            }
        },
        act: |db, round, who| {
            let device = device(round, ["one", "other"][who]);
            link::link_device(db, round.now, round.id("ann"), &device).map(|()| String::new())
        },
        check: |db, round, told| {
            expect(&[wins(told, 1)])?;
            lists_are_right(db, round)
        },
    },
    Rule {
        name: "an account keeps one way to log in",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            let custom_id = round.text("custom");
            link::link_custom(db, round.now, round.id("ann"), &custom_id).unwrap();
        },
        act: |db, round, who| {
            let (now, user_id) = (round.now, round.id("ann"));
            let unlinked = match who {
                0 => link::unlink_custom(db, now, user_id, &round.text("custom")),
                _ => link::unlink_device(db, now, user_id, &device(round, "ann")),
            };
            unlinked.map(|()| String::new())
        },
        check: |db, round, told| {
            expect(&[wins(told, 1)])?;
            lists_are_right(db, round)
        },
    },
    Rule {
        name: "a custom id that two users link is one's",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| {
            let user_id = round.id(["ann", "bob"][who]);
            let custom_id = round.text("custom");
            link::link_custom(db, round.now, user_id, &custom_id).map(|()| String::new())
        },
        check: |_, _, told| expect(&[wins(told, 1)]),
    },
    Rule {
        name: "what both take from a wallet is there",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            change(db, round, 0, &[("ann", 100)]).unwrap();
        },
        act: |db, round, who| change(db, round, 1 + who, &[("ann", -60)]),
        check: |db, round, told| {
            expect(&[wins(told, 1), ("coins", coins(db, round, "ann"), 40), rows(db, round, 2)])
        },
    },
    Rule {
        name: "what both add to a wallet is there, once for each row of the ledger",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| change(db, round, who, &[("ann", 1), ("ann", 1)]),
        check: |db, round, told| {
            expect(&[wins(told, 2), ("coins", coins(db, round, "ann"), 4), rows(db, round, 4)])
        },
    },
    Rule {
        name: "transfers that cross leave the sum as it is",
        prepare: |db, round| {
            round.add_users(db, &["ann", "bob"]);
            change(db, round, 0, &[("ann", 100), ("bob", 100)]).unwrap();
        },
        act: |db, round, who| match who {
            0 => change(db, round, 1, &[("ann", -70), ("bob", 70)]),
            _ => change(db, round, 2, &[("bob", -50), ("ann", 50)]),
        },
        check: |db, round, told| {
            let (ann, bob) = (coins(db, round, "ann"), coins(db, round, "bob"));
            expect(&[wins(told, 2), ("ann's", ann, 80), ("bob's", bob, 120)])
        },
    },
    Rule {
        name: "a new object is one's who asked that there is none",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| put(db, round, who, "*", 1),
        check: |db, round, told| {
            let winner = told.iter().position(|one| one.is_well).unwrap_or_default();
            expect(&[wins(told, 1), ("the winner's", object(db, round).0, index(winner))])
        },
    },
    Rule {
        name: "of two who change one version one does",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            put(db, round, 7, "", 1).unwrap();
        },
        act: |db, round, who| put(db, round, who, &storage::version_of(r#"{"n":7}"#), 1),
        check: |db, round, told| {
            let winner = told.iter().position(|one| one.is_well).unwrap_or_default();
            expect(&[wins(told, 1), ("the winner's", object(db, round).0, index(winner))])
        },
    },
    Rule {
        name: "two who write whatever is there both do",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| put(db, round, who, "", 1),
        check: |_, _, told| expect(&[wins(told, 2)]),
    },
    Rule {
        name: "two scripts who write what is nobody's both do",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| {
            let mut write = object_of(round, &format!(r#"{{"n":{who}}}"#), "", 1);
            let key = format!("of round {}", round.number);
            write.id = ObjectId { key, user_id: Uuid::nil(), ..write.id };
            storage::write(db, round.now, Caller::Script, &[write]).map(|_| String::new())
        },
        check: |db, round, told| {
            let sql = "SELECT COUNT(*) FROM storage WHERE key = $1";
            let key = format!("of round {}", round.number);
            let objects = number(db, sql, &[Param::Text(&key)]);
            expect(&[wins(told, 2), ("objects", objects, 1)])
        },
    },
    Rule {
        name: "nobody writes over what was locked",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            put(db, round, 7, "", 1).unwrap();
        },
        act: |db, round, who| match who {
            0 => put(db, round, 0, "", 0),
            _ => {
                let write = object_of(round, r#"{"n":1}"#, "", 1);
                let caller = Caller::User(round.id("ann"));
                storage::write(db, round.now, caller, &[write]).map(|_| String::new())
            }
        },
        check: |db, round, _| {
            let (value, write) = object(db, round);
            expect(&[("the one that locks", value, 0), ("the lock", write, 0)])
        },
    },
    Rule {
        name: "many objects are written by both, or by one",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| {
            let value = format!(r#"{{"n":{who}}}"#);
            let write = |key: &str| {
                let mut write = object_of(round, &value, if key == "b" { "*" } else { "" }, 1);
                key.clone_into(&mut write.id.key);
                write
            };
            // In one order: who wants the other's would wait for it, and be told.
            let writes = ["a", "b", "c"].map(write);
            storage::write(db, round.now, Caller::Script, &writes).map(|_| String::new())
        },
        check: |db, round, told| {
            let winner = told.iter().position(|one| one.is_well).unwrap_or_default();
            let sql = "SELECT COUNT(*) FROM storage WHERE user_id = $1 AND value = $2";
            let value = format!(r#"{{"n":{winner}}}"#);
            let ann = round.id("ann");
            let params = [Param::Blob(ann.as_bytes()), Param::Text(&value)];
            expect(&[wins(told, 1), ("objects", number(db, sql, &params), 3)])
        },
    },
    Rule {
        name: "of who is deleted no object is left",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            put(db, round, 7, "", 1).unwrap();
        },
        act: |db, round, who| match who {
            0 => delete(db, round, "ann"),
            _ => {
                let mut write = object_of(round, "{}", "", 1);
                "other".clone_into(&mut write.id.key);
                storage::write(db, round.now, Caller::Script, &[write]).map(|_| String::new())
            }
        },
        check: |db, _, _| expect(&[nobodys(db)]),
    },
    Rule {
        name: "of who is deleted no device is left",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| match who {
            0 => delete(db, round, "ann"),
            _ => {
                let device = device(round, "late");
                link::link_device(db, round.now, round.id("ann"), &device).map(|()| String::new())
            }
        },
        check: |db, _, _| expect(&[nobodys(db)]),
    },
    Rule {
        name: "of who is deleted no friendship is left",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| match who {
            0 => delete(db, round, "ann"),
            _ => add(db, round, who, "bob", &["ann"]),
        },
        check: |db, round, _| {
            expect(&[nobodys(db)])?;
            counts_are_right(db, round, &["bob"])
        },
    },
    Rule {
        name: "of who is deleted no notification is left",
        prepare: |db, round| {
            round.add_users(db, &["ann", "bob"]);
            tell(db, round, 5, None).unwrap();
        },
        act: |db, round, who| match who {
            0 => delete(db, round, "ann"),
            _ => {
                let ann = round.id("ann");
                let all = last_of(db, Uuid::nil());
                notifications::delete(db, ann, &[all])?;
                tell(db, round, who, Some("ann"))
            }
        },
        check: |db, _, _| expect(&[nobodys(db)]),
    },
    Rule {
        name: "two who invite each other are friends",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| match who {
            0 => add(db, round, who, "ann", &["bob"]),
            _ => add(db, round, who, "bob", &["ann"]),
        },
        check: |db, round, told| {
            let states = (state(db, round, "ann", "bob"), state(db, round, "bob", "ann"));
            expect(&[wins(told, 2), ("ann's", states.0, 0), ("bob's", states.1, 0)])?;
            counts_are_right(db, round, &["ann", "bob"])
        },
    },
    Rule {
        name: "who invites somebody twice has invited once",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| add(db, round, who, "ann", &["bob"]),
        check: |db, round, told| {
            expect(&[wins(told, 2), ("ann's", state(db, round, "ann", "bob"), 1)])?;
            counts_are_right(db, round, &["ann", "bob"])
        },
    },
    Rule {
        name: "who is blocked has no edge",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| match who {
            0 => add(db, round, who, "ann", &["bob"]),
            _ => {
                let ann = round.id("ann");
                friends::block(db, round.now, round.id("bob"), &[ann]).map(|()| String::new())
            }
        },
        check: |db, round, told| {
            let states = (state(db, round, "ann", "bob"), state(db, round, "bob", "ann"));
            expect(&[wins(told, 2), ("ann's", states.0, -1), ("bob's", states.1, 3)])?;
            counts_are_right(db, round, &["ann", "bob"])
        },
    },
    Rule {
        name: "what a user has of friends has a bound",
        prepare: |db, round| {
            round.add_users(db, &["ann", "bob", "cid"]);
            let sql = "UPDATE users SET edge_count = $2 WHERE id = $1";
            let (ann, edges) = (round.id("ann"), Param::Int(EDGES_MAX - 1));
            done(db.execute(sql, &[Param::Blob(ann.as_bytes()), edges]));
        },
        act: |db, round, who| add(db, round, who, "ann", &[["bob", "cid"][who]]),
        check: |db, round, told| {
            let sql = "SELECT edge_count FROM users WHERE id = $1";
            let edges = number(db, sql, &[Param::Blob(round.id("ann").as_bytes())]);
            expect(&[wins(told, 1), ("edges", edges, EDGES_MAX)])
        },
    },
    Rule {
        name: "invitations that wait for a user have a bound",
        prepare: |db, round| {
            round.add_users(db, &["ann", "bob", "cid"]);
            let sql = "INSERT INTO friend \
                (user_id, friend_id, state, position, update_time, metadata) \
                SELECT $1, unhex(value), 2, 0, 0, '{}' FROM json_each($2)";
            let inviters = strangers(INVITATIONS_MAX - 1);
            let ann = round.id("ann");
            done(db.execute(sql, &[Param::Blob(ann.as_bytes()), Param::Text(&inviters)]));
        },
        act: |db, round, who| add(db, round, who, ["bob", "cid"][who], &["ann"]),
        check: |db, round, told| {
            let sql = "SELECT COUNT(*) FROM friend WHERE user_id = $1";
            let ann = round.id("ann");
            let waiting = number(db, sql, &[Param::Blob(ann.as_bytes())]);
            // Of strangers there are no rows of their own.
            done(db.execute(
                "DELETE FROM friend WHERE user_id = $1 AND position = 0",
                &[Param::Blob(ann.as_bytes())],
            ));
            expect(&[wins(told, 1), ("invitations", waiting, INVITATIONS_MAX)])
        },
    },
    Rule {
        name: "who ends a friendship from both sides has none",
        prepare: |db, round| {
            round.add_users(db, &["ann", "bob"]);
            add(db, round, 5, "ann", &["bob"]).unwrap();
            add(db, round, 6, "bob", &["ann"]).unwrap();
        },
        act: |db, round, who| {
            let names = [("ann", "bob"), ("bob", "ann")][who];
            let mut random = random(round, who);
            let by = by(round, &mut random, names.0);
            friends::delete(db, by, &[round.id(names.1)]).map(|sent| sent.len().to_string())
        },
        check: |db, round, told| {
            let heard = sum(told, |one| one.answer == "1");
            let left = (state(db, round, "ann", "bob"), state(db, round, "bob", "ann"));
            expect(&[("told", heard, 1), ("ann's", left.0, -1), ("bob's", left.1, -1)])?;
            counts_are_right(db, round, &["ann", "bob"])
        },
    },
    Rule {
        name: "what a user sees later has the greater id",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| tell(db, round, who, Some("ann")),
        check: |_, _, told| in_order(told),
    },
    Rule {
        name: "what everybody sees later has the greater id",
        prepare: |db, round| round.add_users(db, &["ann"]),
        act: |db, round, who| tell(db, round, who, [Some("ann"), None][who]),
        check: |_, _, told| in_order(told),
    },
    Rule {
        name: "what is kept for a user has a bound",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            let sql = "INSERT INTO notification \
                (user_id, id, sender_id, code, subject, content, create_time) \
                SELECT $1, unhex(value), NULL, 1, 's', '{}', 0 FROM json_each($2)";
            let ann = round.id("ann");
            let base = u128::from(round.number) << 32;
            let ids: Vec<Uuid> = (0..u128::try_from(KEPT_MAX).unwrap())
                .map(|number| Uuid::from_u128(base + number))
                .collect();
            done(db.execute(sql, &[Param::Blob(ann.as_bytes()), Param::Text(&id_list(&ids))]));
        },
        act: |db, round, who| tell(db, round, who, Some("ann")),
        check: |db, round, told| {
            let sql = "SELECT COUNT(*) FROM notification WHERE user_id = $1";
            let ann = round.id("ann");
            let kept = number(db, sql, &[Param::Blob(ann.as_bytes())]);
            expect(&[wins(told, 2), ("kept", kept, KEPT_MAX)])
        },
    },
    Rule {
        name: "log-outs of a user that are kept have a bound",
        prepare: |db, round| {
            round.add_users(db, &["ann"]);
            for number in 0..stored::TOKENS_PER_USER_MAX {
                log_out(db, round, number).unwrap();
            }
        },
        act: |db, round, who| log_out(db, round, stored::TOKENS_PER_USER_MAX + who),
        check: |db, round, told| {
            let sql = "SELECT COUNT(*) FROM revocation WHERE user_id = $1";
            let kept = number(db, sql, &[Param::Blob(round.id("ann").as_bytes())]);
            // One for all that were too many; and one, if it came last.
            expect(&[wins(told, 2), ("more than two", i64::from(kept > 2), 0)])
        },
    },
    Rule {
        name: "whom two ban in whatever order both have banned",
        prepare: |db, round| round.add_users(db, &["ann", "bob"]),
        act: |db, round, who| {
            let mut ids = [round.id("ann"), round.id("bob")];
            ids.rotate_left(who);
            let banned = account::ban(db, round.now, 3_600, &ids);
            let banned = banned.map_err(ApiError::database("not banned"))?;
            Ok(banned.0.len().to_string())
        },
        check: |db, round, told| {
            let sql = "SELECT COUNT(*) FROM users WHERE disable_time IS NOT NULL \
                AND id IN (SELECT unhex(value) FROM json_each($1))";
            let ids = id_list(round.users.values());
            let banned = number(db, sql, &[Param::Text(&ids)]);
            expect(&[wins(told, 2), ("banned", banned, 2)])
        },
    },
];

fn device(round: &Round, name: &str) -> String {
    format!("device-{}", round.text(name))
}

fn log_in(db: &mut dyn Database, round: &Round, who: usize, device: &str, name: &str) -> Answer {
    let new_account = round.new_account(u64::try_from(who).unwrap());
    let name = if name.is_empty() { String::new() } else { round.text(name) };
    let device = self::device(round, device);
    let login = account::authenticate_device(db, &new_account, &device, &name, true)?;
    Ok(format!("{} {}", login.created, login.user_id))
}

fn rename(db: &mut dyn Database, round: &Round, user: &str, name: &str) -> Answer {
    let update = AccountUpdate { username: Some(name.to_owned()), ..AccountUpdate::default() };
    account::update(db, round.now, round.id(user), &update).map(|()| String::new())
}

fn delete(db: &mut dyn Database, round: &Round, user: &str) -> Answer {
    account::delete(db, round.now, 3_600, round.id(user)).map(|_| String::new())
}

/// Changes wallets, each change with a row for the ledger.
fn change(db: &mut dyn Database, round: &Round, who: usize, changes: &[(&str, i64)]) -> Answer {
    let mut random = random(round, who);
    let update = |(user, coins): &(&str, i64)| WalletUpdate {
        user_id: round.id(user),
        changeset: [("coins".to_owned(), *coins)].into(),
        ledger: Some(LedgerRow {
            id: game::session::new_id(round.now, &mut random),
            metadata: "{}".to_owned(),
        }),
    };
    let updates: Vec<WalletUpdate> = changes.iter().map(update).collect();
    wallets_update(db, round.now, &updates).map(|_| String::new())
}

fn coins(db: &mut dyn Database, round: &Round, user: &str) -> i64 {
    let account = account::account(db, round.id(user)).unwrap().unwrap();
    let wallet: serde_json::Value = serde_json::from_str(&account.wallet).unwrap();
    wallet["coins"].as_i64().unwrap_or_default()
}

/// How many rows ann's ledger has, beside how many it is to have.
fn rows(db: &mut dyn Database, round: &Round, wanted: i64) -> (&'static str, i64, i64) {
    let sql = "SELECT COUNT(*) FROM wallet_ledger WHERE user_id = $1";
    ("rows of the ledger", number(db, sql, &[Param::Blob(round.id("ann").as_bytes())]), wanted)
}

fn object_of(round: &Round, value: &str, version: &str, permission_write: i64) -> Write {
    let id = ObjectId { collection: "c".into(), key: "k".into(), user_id: round.id("ann") };
    let (value, version) = (value.to_owned(), version.to_owned());
    Write { id, value, version, permission_read: 1, permission_write }
}

/// Writes `{"n":who}` as a script.
fn put(db: &mut dyn Database, round: &Round, who: usize, version: &str, permission: i64) -> Answer {
    let write = object_of(round, &format!(r#"{{"n":{who}}}"#), version, permission);
    storage::write(db, round.now, Caller::Script, &[write]).map(|_| String::new())
}

/// Who wrote it, and its permission.
fn object(db: &mut dyn Database, round: &Round) -> (i64, i64) {
    let ids = [object_of(round, "", "", 1).id];
    let found = storage::read(db, Caller::Script, &ids, usize::MAX).unwrap();
    let value: serde_json::Value = serde_json::from_str(&found[0].value).unwrap();
    (value["n"].as_i64().unwrap(), i64::from(found[0].permission_write))
}

fn random(round: &Round, who: usize) -> Random {
    Random::from_number(10 * round.number + u64::try_from(who).unwrap() + 1)
}

fn by<'a>(round: &Round, random: &'a mut Random, user: &'a str) -> By<'a> {
    By { now: round.now, random, user_id: round.id(user), username: user }
}

fn add(db: &mut dyn Database, round: &Round, who: usize, user: &str, others: &[&str]) -> Answer {
    let mut random = random(round, who);
    let others: Vec<Uuid> = others.iter().map(|name| round.id(name)).collect();
    let sent = friends::add(db, by(round, &mut random, user), &others, "")?;
    Ok(sent.len().to_string())
}

/// What the second is to the first; -1 for nothing.
fn state(db: &mut dyn Database, round: &Round, one: &str, other: &str) -> i64 {
    let sql = "SELECT COALESCE( \
        (SELECT state FROM friend WHERE user_id = $1 AND friend_id = $2), -1)";
    let (one, other) = (round.id(one), round.id(other));
    number(db, sql, &[Param::Blob(one.as_bytes()), Param::Blob(other.as_bytes())])
}

/// Whether users have as many edges as are counted.
fn counts_are_right(db: &mut dyn Database, round: &Round, users: &[&str]) -> Result<(), String> {
    for user in users {
        let user = round.id(user);
        let id = [Param::Blob(user.as_bytes())];
        let counted = number(db, "SELECT edge_count FROM users WHERE id = $1", &id);
        let there = number(db, "SELECT COUNT(*) FROM friend WHERE user_id = $1", &id);
        expect(&[("edges counted", counted, there)])?;
    }
    Ok(())
}

/// Whether users' lists of devices are those that log in to them; and none is without any identity.
fn lists_are_right(db: &mut dyn Database, round: &Round) -> Result<(), String> {
    for user_id in round.users.values() {
        let account = account::account(db, *user_id).unwrap().unwrap();
        let sql = "SELECT COUNT(*) FROM user_device WHERE user_id = $1";
        let rows = number(db, sql, &[Param::Blob(user_id.as_bytes())]);
        let listed = i64::try_from(account.devices.len()).unwrap();
        let identities = listed + i64::from(!account.custom_id.is_empty());
        let bound = i64::try_from(link::DEVICES_MAX).unwrap();
        expect(&[
            ("devices listed", listed, rows),
            ("more than may be", i64::from(listed > bound), 0),
            ("nobody can log in", i64::from(identities == 0), 0),
        ])?;
    }
    Ok(())
}

/// Tells a user, or everybody; the answer is the notification's id.
fn tell(db: &mut dyn Database, round: &Round, who: usize, to: Option<&str>) -> Answer {
    let draft = Draft {
        to: to.map(|name| round.id(name)),
        subject: "s".to_owned(),
        content: "{}".to_owned(),
        code: 1,
        sender: None,
        is_persistent: true,
    };
    let sent = notifications::send(db, round.now, &mut random(round, who), vec![draft])?;
    Ok(sent[0].notifications[0].id.clone())
}

fn last_of(db: &mut dyn Database, owner: Uuid) -> Uuid {
    let mut last = Uuid::nil();
    let sql = "SELECT id FROM notification WHERE user_id = $1 ORDER BY id DESC LIMIT 1";
    db.query(sql, &[Param::Blob(owner.as_bytes())], &mut |row| {
        last = Uuid::from_slice(row.blob(0)).unwrap();
    })
    .unwrap();
    last
}

/// Whether who committed before the other began to has the smaller id.
fn in_order(told: &[Told; 2]) -> Result<(), String> {
    let [one, other] = told;
    let is_before = |one: &Told, other: &Told| one.committed.1 < other.committed.0;
    let is_wrong = (is_before(one, other) && one.answer > other.answer)
        || (is_before(other, one) && other.answer > one.answer);
    expect(&[wins(told, 2), ("out of order", i64::from(is_wrong), 0)])
}

fn log_out(db: &mut dyn Database, round: &Round, number: usize) -> Answer {
    let claims = Claims {
        token_id: game::session::new_id(round.now, &mut random(round, 100 + number)),
        user_id: round.id("ann"),
        username: "".into(),
        vars: Vec::new(),
        expires_s: round.now.unix_s() + 60,
        issued_s: round.now.unix_s(),
    };
    let revoked = stored::log_out(db, round.now, 3_600, &claims);
    revoked.map_err(ApiError::database("not logged out"))?;
    Ok(String::new())
}

/// So many ids of nobody.
fn strangers(count: i64) -> String {
    let ids: Vec<Uuid> =
        (1..=count).map(|at| Uuid::from_u128(u128::try_from(at).unwrap())).collect();
    id_list(&ids)
}

/// Rows that belong to nobody, of which there are to be none.
fn nobodys(db: &mut dyn Database) -> (&'static str, i64, i64) {
    let mut count = 0;
    for (table, column) in [
        ("user_device", "user_id"),
        ("storage", "user_id"),
        ("wallet_ledger", "user_id"),
        ("friend", "user_id"),
        ("friend", "friend_id"),
        ("notification_hidden", "user_id"),
        ("notification", "user_id"),
    ] {
        let sql = format!(
            "SELECT COUNT(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM users) \
             AND {column} <> $1"
        );
        count += number(db, &sql, &[Param::Blob(Uuid::nil().as_bytes())]);
    }
    ("rows that are nobody's", count, 0)
}

fn devices(db: &mut dyn Database, device: &str) -> i64 {
    number(db, "SELECT COUNT(*) FROM user_device WHERE id = $1", &[Param::Text(device)])
}

fn users_named(db: &mut dyn Database, name: &str) -> i64 {
    number(db, "SELECT COUNT(*) FROM users WHERE username = $1", &[Param::Text(name)])
}

fn sum(told: &[Told; 2], is: impl Fn(&Told) -> bool) -> i64 {
    told.iter().map(|one| i64::from(is(one))).sum()
}

/// How many went well, beside how many are to.
fn wins(told: &[Told; 2], wanted: i64) -> (&'static str, i64, i64) {
    ("went well", sum(told, |one| one.is_well), wanted)
}

fn index(winner: usize) -> i64 {
    i64::try_from(winner).unwrap()
}

/// Whether both were told of the same account, and one that it made it.
fn one_account(told: &[Told; 2]) -> Result<(), String> {
    let ids = told.each_ref().map(|one| one.answer.split(' ').nth(1).unwrap_or_default());
    let created = sum(told, |one| one.answer.starts_with("true "));
    expect(&[("made", created, 1), ("same account", i64::from(ids[0] == ids[1]), 1)])
}
