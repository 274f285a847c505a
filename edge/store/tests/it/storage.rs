//! Storage objects: permissions, versions, lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use game::db::{Database, Param};
use game::error::Code;
use game::storage::{self, Ack, Caller, Delete, Listing, Object, ObjectId, Write, version_of};
use uuid::Uuid;

use crate::watched::Watched;
use crate::world::{Tables, World};

#[test]
fn clients_write_read_and_delete_their_own() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let (a, v1, v2) = (ann.claims.user_id, version_of("{}"), version_of("{\"n\":2}"));
    assert_eq!(v1, "99914b932bd37a50b983c5e7c90ae93b");
    let write = |object: &str| format!("PUT /v2/storage {{\"objects\":[{object}]}}");
    let rejected_version = "400 3 Storage write rejected - version check failed.";
    for (object, expected) in [
        (
            r#"{"collection":"c","value":"{}"}"#,
            "400 3 Invalid collection or key value supplied. They must be set.",
        ),
        (r#"{"collection":"c","key":"k","value":"[]"}"#, "400 3 Value must be a JSON object."),
        (r#"{"collection":"c","key":"k"}"#, "400 3 Value must be a JSON object."),
        (
            r#"{"collection":"c","key":"k","value":"{}","permission_read":3}"#,
            "400 3 Invalid Read permission supplied. It must be either 0, 1 or 2.",
        ),
        (r#"{"collection":"c","key":"k","value":"{}","version":"no"}"#, rejected_version),
        (
            r#"{"collection":"c","key":"k","value":"{}","version":"*"}"#,
            &format!(
                r#"200 {{"acks":[{{"collection":"c","key":"k","version":"{v1}","user_id":"{a}","create_time":"2026-01-02T03:04:05Z","update_time":"2026-01-02T03:04:05Z"}}]}}"#
            ),
        ),
        (r#"{"collection":"c","key":"k","value":"{}","version":"*"}"#, rejected_version),
    ] {
        assert_eq!(world.ask(Some(&ann), &write(object)), expected, "{object}");
    }
    world.now = world.now.after_ms(1_000);
    let object =
        format!(r#"{{"collection":"c","key":"k","value":"{{\"n\":2}}","version":"{v1}"}}"#);
    assert!(world.ask(Some(&ann), &write(&object)).contains(&v2));
    assert_eq!(world.ask(Some(&ann), &write(&object)), rejected_version);

    let read = format!(
        r#"POST /v2/storage {{"object_ids":[{{"collection":"c","key":"k","userId":"{a}"}},{{"collection":"c","key":"none"}}]}}"#
    );
    let expected = format!(
        r#"200 {{"objects":[{{"collection":"c","key":"k","user_id":"{a}","value":"{{\"n\":2}}","version":"{v2}","permission_read":1,"permission_write":1,"create_time":"2026-01-02T03:04:05Z","update_time":"2026-01-02T03:04:06Z"}}]}}"#
    );
    assert_eq!(world.ask(Some(&ann), &read), expected);
    assert_eq!(world.ask(Some(&bob), &read), "200 {}", "not public");

    let delete = |version: &str| {
        format!(
            r#"PUT /v2/storage/delete {{"object_ids":[{{"collection":"c","key":"k","version":"{version}"}}]}}"#
        )
    };
    let refused =
        "400 3 Storage delete rejected - not found, version check failed, or permission denied.";
    assert_eq!(world.ask(Some(&ann), &delete(&v1)), refused);
    assert_eq!(world.ask(Some(&bob), &delete("")), refused);
    assert_eq!(world.ask(Some(&ann), &delete(&v2)), "200 {}");
    assert_eq!(world.ask(Some(&ann), &delete("")), refused);
}

fn id(key: &str, user_id: Uuid) -> ObjectId {
    ObjectId { collection: "c".into(), key: key.into(), user_id }
}

fn object(key: &str, user_id: Uuid, read: i64, write: i64) -> Write {
    Write {
        id: id(key, user_id),
        value: format!("{{\"key\":\"{key}\"}}"),
        version: String::new(),
        permission_read: read,
        permission_write: write,
    }
}

#[test]
fn a_batch_is_written_wholly_or_not_at_all() {
    let mut world = World::new();
    let owner = world.user("ann").claims.user_id;
    let (db, now) = (&mut world.db, world.now);
    let caller = Caller::User(owner);
    storage::write(db, now, Caller::Script, &[object("locked", owner, 1, 0)]).unwrap();
    let batch = [object("a", owner, 1, 1), object("locked", owner, 1, 1)];
    let refused = storage::write(db, now, caller, &batch).unwrap_err();
    assert_eq!(refused.message, "Storage write rejected - permission denied.");
    let strange = storage::write(db, now, caller, &[object("a", Uuid::nil(), 1, 1)]).unwrap_err();
    assert_eq!(strange.message, "Storage write rejected - permission denied.");
    let delete = |key: &str| Delete { id: id(key, owner), version: String::new() };
    storage::write(db, now, caller, &[object("b", owner, 1, 1)]).unwrap();
    assert!(storage::delete(db, caller, &[delete("b"), delete("locked")]).is_err());
    db.commit().unwrap();
    let ids = [id("a", owner), id("b", owner), id("locked", owner)];
    let left = storage::read(db, Caller::Script, &ids, usize::MAX).unwrap();
    let keys: Vec<_> = left.iter().map(|object| object.id.key.as_str()).collect();
    assert_eq!(keys, ["b", "locked"]);
    storage::delete(db, Caller::Script, &[delete("b"), delete("locked")]).unwrap();
    assert!(storage::read(db, Caller::Script, &ids, usize::MAX).unwrap().is_empty());
}

#[test]
fn a_write_behind_a_version_is_as_one_that_looks_first() {
    let mut world = World::new();
    let ann = world.user("ann").claims.user_id;
    let user = Caller::User(ann);
    let (v1, now) = (version_of("{\"n\":1}"), world.now);
    let behind = |key: &str, n: u8, version: &str, (read, write): (i64, i64)| Write {
        value: format!("{{\"n\":{n}}}"),
        version: version.to_owned(),
        ..object(key, ann, read, write)
    };
    let db = &mut world.db;
    let first = ["a", "b"].map(|key| behind(key, 1, "*", (1, 1)));
    storage::write(db, now, user, &first).unwrap();
    let later = now.after_ms(1_000);
    let mut write = |caller, writes: &[Write]| {
        let since = |ack: &Ack| ack.create_time_ms.map(|made| ack.update_time_ms - made);
        storage::write(db, later, caller, writes)
            .map(|acks| acks.iter().map(since).collect())
            .map_err(|error| error.message.to_string())
    };
    let same = write(user, &[behind("a", 1, &v1, (1, 1)), behind("b", 2, &v1, (1, 1))]);
    assert_eq!(same, Ok(vec![Some(0), Some(1_000)]), "what changes nothing has no new time");
    // The second one is behind what the first one has written.
    let [v2, v3] = ["{\"n\":2}", "{\"n\":3}"].map(version_of);
    let twice = [behind("a", 2, &v1, (1, 1)), behind("a", 3, &v2, (2, 0))];
    assert_eq!(write(user, &twice), Ok(vec![Some(1_000); 2]), "permissions may change with it");
    let denied = Err("Storage write rejected - permission denied.".to_owned());
    assert_eq!(write(user, &[behind("a", 4, &v3, (2, 0))]), denied, "it is locked by now");
    assert_eq!(write(user, &[behind("a", 4, &v3, (2, 1))]), denied);
    assert_eq!(write(Caller::User(Uuid::from_u128(9)), &[behind("b", 4, &v2, (1, 1))]), denied);
    let failed = Err("Storage write rejected - version check failed.".to_owned());
    let half = [behind("b", 4, &v2, (1, 1)), behind("a", 4, &v2, (2, 0))];
    assert_eq!(write(Caller::Script, &half), failed);
    assert_eq!(write(Caller::Script, &[behind("none", 4, &v2, (1, 1))]), failed);
    assert_eq!(write(Caller::Script, &[behind("b", 4, &v2, (1, 1))]), Ok(vec![None]));
    assert_eq!(write(Caller::Script, &[behind("a", 4, &v3, (2, 0))]), Ok(vec![None]));
    let read = storage::read(&mut world.db, Caller::Script, &[id("a", ann)], 10_000).unwrap();
    assert_eq!((read[0].permission_read, read[0].permission_write), (2, 0));
}

#[test]
fn a_script_writes_what_is_nobodys_whether_it_is_there_or_not() {
    let mut world = World::new();
    let now = world.now;
    let db = &mut world.db;
    let of = |n: u8, (read, write): (i64, i64)| Write {
        value: format!("{{\"n\":{n}}}"),
        ..object("a", Uuid::nil(), read, write)
    };
    let mut write_at = |after_ms: u64, writes: &[Write]| {
        storage::write(db, now.after_ms(after_ms), Caller::Script, writes).unwrap();
        let read = storage::read(db, Caller::Script, &[id("a", Uuid::nil())], 10_000).unwrap();
        let object = &read[0];
        let since =
            [object.create_time_ms, object.update_time_ms].map(|ms| ms - now.unix_ms.cast_signed());
        let permissions = (object.permission_read, object.permission_write);
        (object.value.clone(), since, permissions)
    };
    let is = |n: u8, since: [i64; 2], permissions: (u8, u8)| {
        (format!("{{\"n\":{n}}}"), since, permissions)
    };
    assert_eq!(write_at(0, &[of(1, (1, 1))]), is(1, [0, 0], (1, 1)));
    assert_eq!(write_at(1, &[of(2, (1, 1))]), is(2, [0, 1], (1, 1)));
    assert_eq!(write_at(2, &[of(2, (1, 1))]), is(2, [0, 1], (1, 1)), "nothing has changed");
    assert_eq!(write_at(3, &[of(2, (2, 0))]), is(2, [0, 3], (2, 0)));
    assert_eq!(write_at(4, &[of(3, (1, 1))]), is(3, [0, 4], (1, 1)), "both have changed");
    let twice = [of(4, (1, 1)), of(5, (1, 1))];
    assert_eq!(write_at(5, &twice), is(5, [0, 5], (1, 1)));
    // Nor is it looked for where a write wants none to be there.
    let anew = Write { version: "*".into(), ..of(6, (1, 1)) };
    let refused = storage::write(&mut world.db, now, Caller::Script, &[anew]).unwrap_err();
    assert_eq!(refused.message, "Storage write rejected - version check failed.");
    let anew = Write { version: "*".into(), ..object("b", Uuid::from_u128(9), 1, 1) };
    let refused = storage::write(&mut world.db, now, Caller::Script, &[anew]).unwrap_err();
    assert_eq!(refused.message, "Storage write rejected - user not found.");
}

/// The first page of the collection.
fn first(user_id: Option<Uuid>, limit: usize) -> Listing {
    let (collection, cursor) = ("c".to_owned(), String::new());
    Listing { collection, user_id, limit, cursor, passed_over_max: storage::PASSED_OVER_MAX }
}

/// All pages from this one on, an object as the sign of its owner and the number in its key.
fn walked(
    db: &mut dyn Database,
    caller: Caller,
    mut listing: Listing,
    bytes_max: usize,
    sign: &dyn Fn(Uuid) -> char,
) -> String {
    let mut all = Vec::new();
    loop {
        let (objects, next) = storage::list(db, caller, &listing, bytes_max).unwrap();
        assert!(objects.len() <= listing.limit && (next.is_empty() || !objects.is_empty()));
        assert!(bytes_max < usize::MAX || next.is_empty() || objects.len() == listing.limit);
        let sign = |object: &Object| format!("{}{}", sign(object.id.user_id), &object.id.key[1..]);
        all.extend(objects.iter().map(sign));
        listing.cursor = next;
        if listing.cursor.is_empty() {
            return all.join(" ");
        }
    }
}

#[test]
fn lists_show_what_the_caller_may_see_page_by_page() {
    let mut world = World::new();
    let ann = world.user("ann").claims.user_id;
    world.now = world.now.after_ms(1);
    let bob = world.user("bob").claims.user_id;
    let (db, now) = (&mut world.db, world.now);
    let mut writes = Vec::new();
    for user_id in [ann, bob] {
        for (key, read) in [("k1", 2), ("k2", 1), ("k3", 0), ("k4", 2), ("k5", 1)] {
            writes.push(object(key, user_id, read, 1));
        }
    }
    storage::write(db, now, Caller::Script, &writes).unwrap();
    let sign = |owner| if owner == ann { 'a' } else { 'b' };
    let mut pages =
        |caller, user_id, limit| walked(db, caller, first(user_id, limit), usize::MAX, &sign);
    for limit in [1, 2, 3, 100] {
        for (caller, user_id, expected) in [
            (Caller::User(ann), Some(ann), "a1 a2 a4 a5"),
            (Caller::User(ann), Some(bob), "b1 b4"),
            (Caller::User(ann), None, "a1 b1 a4 b4"),
            (Caller::Script, Some(bob), "b1 b2 b3 b4 b5"),
            (Caller::Script, None, "a3 b3 a2 b2 a5 b5 a1 b1 a4 b4"),
        ] {
            assert_eq!(pages(caller, user_id, limit), expected, "{caller:?} {user_id:?} {limit}");
        }
    }
    let listing = |limit, cursor: &str| Listing { cursor: cursor.into(), ..first(None, limit) };
    for (limit, cursor, message) in [
        (0, "", "Invalid limit - limit must be between 1 and 100."),
        (101, "", "Invalid limit - limit must be between 1 and 100."),
        (1, "!", "Malformed cursor was used."),
        (1, "AAAA", "Malformed cursor was used."),
    ] {
        let refused =
            storage::list(db, Caller::Script, &listing(limit, cursor), usize::MAX).unwrap_err();
        assert_eq!(refused.message, message);
    }
}

#[test]
fn scripts_list_nobodys_before_those_of_users() {
    let mut world = World::new();
    let ann = world.user("ann").claims.user_id;
    let nobody = Uuid::nil();
    let (db, now) = (&mut world.db, world.now);
    let reads = [("k1", 0), ("k2", 2), ("k3", 0), ("k4", 1), ("k5", 0), ("k6", 0)];
    let mut writes: Vec<Write> =
        reads.map(|(key, read)| object(key, nobody, read, 0)).into_iter().collect();
    writes.extend(["k0", "k3", "k4"].map(|key| object(key, ann, 0, 0)));
    let elsewhere = ObjectId { collection: "d".into(), ..id("k3", nobody) };
    writes.push(Write { id: elsewhere, ..object("", nobody, 0, 0) });
    storage::write(db, now, Caller::Script, &writes).unwrap();
    let sign = |owner| if owner == ann { 'a' } else { 'n' };
    let pages = |db: &mut dyn Database, expected: &str, public: &str| {
        // What pages are ended by, bytes or objects, is all the same.
        for (limit, bytes_max) in [(1, 1 << 20), (2, 1 << 20), (3, 1 << 20), (100, 1), (100, 500)] {
            for (caller, expected) in [(Caller::Script, expected), (Caller::User(ann), public)] {
                let all = walked(db, caller, first(None, limit), bytes_max, &sign);
                assert_eq!(all, expected, "{limit} a page, {bytes_max} bytes, {caller:?}");
            }
        }
    };
    pages(db, "n1 n2 n3 n4 n5 n6 a0 a3 a4", "n2");
    // Permissions that change take objects into the index, and out of it, whoever changes them.
    let changed = [object("k1", nobody, 2, 0), object("k2", nobody, 0, 0)];
    for write in changed {
        storage::write(db, now, Caller::Script, &[write]).unwrap();
    }
    pages(db, "n1 n2 n3 n4 n5 n6 a0 a3 a4", "n1");
    db.execute("UPDATE storage SET read = 2 WHERE key IN ('k3', 'k6')", &[]).unwrap();
    pages(db, "n1 n2 n3 n4 n5 n6 a0 a4 a3", "n1 n3 a3 n6");
    // A script's cursor shows a client no more than one of its own.
    let public = "n1 n3 a3 n6";
    let rests = ["n3 a3 n6", public, "a3 n6", public, public, "", public, public];
    for (limit, expected) in (1..).zip(rests) {
        let (_, cursor) =
            storage::list(db, Caller::Script, &first(None, limit), usize::MAX).unwrap();
        let rest = Listing { cursor, ..first(None, 2) };
        let rest = walked(db, Caller::User(ann), rest, usize::MAX, &sign);
        assert_eq!(rest, expected, "behind {limit}");
    }
}

/// The index of lists has no row for what only scripts may read of nobody's: whoever asks for a
/// collection in words that do not leave these out is not led by it.
#[test]
fn lists_use_the_tables_key_or_their_index() {
    const KEY: &str = "USING PRIMARY KEY (user_id=? AND collection=? AND key>?)";
    const INDEX: &str = "USING INDEX storage_listing (collection=? AND (read,key,user_id)>(?,?,?))";
    let mut world = World::new();
    let ann = world.user("ann").claims.user_id;
    let plan = |db: &mut dyn Database, sql: &str, params: &[Param<'_>]| {
        let mut plan = Vec::new();
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        db.query(&explain, params, &mut |row| plan.push(row.text(3).to_owned())).unwrap();
        plan.join("; ")
    };
    for (caller, owner, expected) in [
        (Caller::User(ann), Some(ann), &[KEY][..]),
        (Caller::User(ann), Some(Uuid::nil()), &[KEY]),
        (Caller::User(ann), None, &[INDEX]),
        (Caller::Script, Some(ann), &[KEY]),
        (Caller::Script, None, &[KEY, INDEX]),
    ] {
        let mut watched = Watched::new(&mut world.db);
        storage::list(&mut watched, caller, &first(owner, 10), usize::MAX).unwrap();
        let statements = watched.statements;
        let plans = statements.iter().map(|sql| plan(&mut world.db, sql, &[Param::Null; 5]));
        let expected: Vec<String> =
            expected.iter().map(|way| format!("SEARCH storage {way}")).collect();
        assert_eq!(plans.collect::<Vec<_>>(), expected, "{caller:?} {owner:?}");
    }
    let bare = plan(&mut world.db, "SELECT value FROM storage WHERE collection = 'c'", &[]);
    assert_eq!(bare, "SCAN storage");
}

#[test]
fn a_page_passes_over_so_many_that_its_caller_may_not_read() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann").claims.user_id, world.user("bob").claims.user_id);
    let db = &mut world.db;
    // Of each owner's the first and the last ones are public, and many lie between that nobody may read.
    for (owner, hidden) in [(ann, 9_900), (bob, 12_000), (Uuid::nil(), 12_000)] {
        let write = |db: &mut Tables, from: usize, count: usize, read: i64| {
            let writes: Vec<Write> = (from..from + count)
                .map(|at| object(&format!("k{at:05}"), owner, read, 0))
                .collect();
            storage::write(db, world.now, Caller::Script, &writes).unwrap();
        };
        write(db, 0, 2, 2);
        (0..hidden).step_by(100).for_each(|at| write(db, 2 + at, 100, 0));
        write(db, 2 + hidden, 2, 2);
    }
    let sign = |_| 'o';
    for limit in [1, 2, 3, 100] {
        for caller in [ann, bob].map(Caller::User) {
            let all = walked(db, caller, first(Some(ann), limit), usize::MAX, &sign);
            assert_eq!(all, "o00000 o00001 o09902 o09903", "{limit}");
        }
    }
    let mut watched = Watched::new(db);
    let (page, _) =
        storage::list(&mut watched, Caller::User(ann), &first(Some(ann), 2), usize::MAX).unwrap();
    // 3 objects, then 2, 4 and so on until it is a thousand a statement.
    assert_eq!((page.len(), watched.statements.len()), (2, 1 + 9 + 9));
    for (caller, owner) in [(ann, bob), (bob, bob), (ann, Uuid::nil())] {
        let caller = Caller::User(caller);
        let (page, cursor) = storage::list(db, caller, &first(Some(owner), 9), usize::MAX).unwrap();
        assert_eq!(page.len(), 2);
        let next = Listing { cursor, ..first(Some(owner), 9) };
        let refused = storage::list(db, caller, &next, usize::MAX).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        assert!(refused.message.contains("that you may not read"), "{}", refused.message);
        let next = Listing { passed_over_max: usize::MAX, ..next };
        let (page, cursor) = storage::list(db, caller, &next, usize::MAX).unwrap();
        assert_eq!((page.len(), cursor.as_str()), (2, ""), "a script may have them passed over");
        // A script may read them all.
        let all = walked(db, Caller::Script, first(Some(owner), 100), usize::MAX, &sign);
        assert_eq!(all.split(' ').count(), 12_004);
    }
    let all = walked(db, Caller::User(ann), first(None, 100), usize::MAX, &sign);
    assert_eq!(all.split(' ').count(), 12, "by the index nothing is passed over");
    // Where they are not in a row pages are short.
    for at in [4_000, 8_000] {
        let public = object(&format!("k{at:05}"), bob, 2, 0);
        storage::write(db, world.now, Caller::Script, &[public]).unwrap();
    }
    let all = walked(db, Caller::User(ann), first(Some(bob), 100), 1 << 30, &sign);
    assert_eq!(all, "o00000 o00001 o04000 o08000 o12002 o12003");
}

/// To know the permission of a row its value is walked.
#[test]
fn large_objects_that_are_passed_over_count_by_their_pages() {
    let mut world = World::new();
    let ann = world.user("ann").claims.user_id;
    let (value, db) = (format!(r#"{{"x":"{}"}}"#, "x".repeat(1_000_000)), &mut world.db);
    let large: Vec<Write> = (0..60)
        .map(|at| Write { value: value.clone(), ..object(&format!("k{at:02}"), ann, 0, 0) })
        .collect();
    let writes = [large, vec![object("k60", ann, 2, 0)]].concat();
    storage::write(db, world.now, Caller::Script, &writes).unwrap();
    // A page of the database has 2 KiB: 489 of each value, and one for the row.
    let behind = |db: &mut Tables, behind: usize| {
        let cursor = format!("\0{}k{behind:02}", "\0".repeat(16));
        let cursor = URL_SAFE_NO_PAD.encode(cursor);
        let listing = Listing { cursor, ..first(Some(ann), 1) };
        storage::list(db, Caller::User(ann), &listing, usize::MAX).map(|page| page.0.len())
    };
    assert_eq!(behind(db, 45), Ok(1), "14 lie between");
    assert_eq!(behind(db, 0).unwrap_err().code, Code::ResourceExhausted, "59 do");
}

/// Whoever may ask behind any key could find the hidden ones by what is refused.
#[test]
fn a_clients_cursor_of_one_owner_is_of_a_page_that_it_was_given() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    for user in [&ann, &bob] {
        for key in ["a", "b", "c"] {
            let object =
                format!(r#"{{"collection":"c","key":"{key}","value":"{{}}","permission_read":2}}"#);
            world.ask(Some(user), &format!("PUT /v2/storage {{\"objects\":[{object}]}}"));
        }
    }
    let list = |world: &mut World, owner: &str, collection: &str, cursor: &str| {
        world.ask(
            Some(&ann),
            &format!("GET /v2/storage/{collection}?user_id={owner}&limit=1&cursor={cursor}"),
        )
    };
    let (of_ann, of_bob) = (ann.claims.user_id.to_string(), bob.claims.user_id.to_string());
    let cursor_of = |page: &str| {
        let (_, cursor) = page.split_once("\"cursor\":\"").unwrap();
        cursor.trim_end_matches("\"}").to_owned()
    };
    let given = cursor_of(&list(&mut world, &of_ann, "c", ""));
    assert!(list(&mut world, &of_ann, "c", &given).contains(r#""key":"b""#));
    let malformed = "400 3 Malformed cursor was used.";
    let (position, seal) = given.split_once('.').unwrap();
    let forged = URL_SAFE_NO_PAD.encode(format!("\u{2}{}b", "\0".repeat(16)));
    for (owner, collection, cursor) in [
        (&of_bob, "c", given.clone()),
        (&of_ann, "d", given.clone()),
        (&of_ann, "c", position.to_owned()),
        (&of_ann, "c", format!("{position}.")),
        (&of_ann, "c", format!("{position}.{}", &seal[..10])),
        (&of_ann, "c", format!("{forged}.{seal}")),
        (&of_ann, "c", forged),
    ] {
        assert_eq!(list(&mut world, owner, collection, &cursor), malformed, "{cursor}");
    }
    // Of everybody's nothing is hidden between, and a script's will do.
    let of_all = cursor_of(&list(&mut world, "", "c", ""));
    assert!(!of_all.contains('.') && list(&mut world, "", "c", &of_all).starts_with("200"));
}

#[test]
fn lists_over_the_api() {
    let mut world = World::new();
    let ann = world.user("ann");
    for key in ["a", "b"] {
        let object = format!(r#"{{"collection":"c","key":"{key}","value":"{{}}"}}"#);
        world.ask(Some(&ann), &format!("PUT /v2/storage {{\"objects\":[{object}]}}"));
    }
    let user_id = ann.claims.user_id;
    let first = world.ask(Some(&ann), &format!("GET /v2/storage/c/{user_id}"));
    let (_, cursor) = first.split_once("\"cursor\":\"").unwrap();
    let cursor = cursor.trim_end_matches("\"}");
    let page = format!("GET /v2/storage/c?user_id={user_id}&limit=5&cursor={cursor}");
    let second = world.ask(Some(&ann), &page);
    assert!(second.contains("\"key\":\"b\"") && !second.contains("cursor"), "{second}");
    assert_eq!(world.ask(Some(&ann), "GET /v2/storage/c?limit=3"), "200 {}", "nothing is public");
    assert!(world.ask(Some(&ann), "GET /v2/storage/c/x").starts_with("400 3 "));
}

#[test]
fn an_answer_holds_an_object_once_and_so_many_bytes() {
    let mut world = World::new();
    let owner = world.user("ann").claims.user_id;
    let (db, now) = (&mut world.db, world.now);
    let keys: Vec<String> = (0..20).map(|number| format!("k{number:02}")).collect();
    let writes: Vec<Write> = keys
        .iter()
        .map(|key| Write {
            value: format!(r#"{{"text":"{}"}}"#, "\\\"".repeat(500)),
            ..object(key, owner, 2, 1)
        })
        .collect();
    storage::write(db, now, Caller::Script, &writes).unwrap();
    let one = storage::read(db, Caller::Script, &[id("k00", owner)], usize::MAX).unwrap();
    let mut json = Vec::new();
    wire::nakama::api::encode(&mut json, &one[0].clone().into_message(), game::api::Format::Json);
    let bytes = one[0].json_bytes();
    assert!(json.len() <= bytes && bytes <= json.len() + 320, "{} counted {bytes}", json.len());
    // As often as it is named, in the order first named.
    let named: Vec<ObjectId> = ["k01", "k00", "k01", "k02", "k00"]
        .repeat(200)
        .into_iter()
        .map(|key| id(key, owner))
        .collect();
    let read = storage::read(db, Caller::Script, &named, 3 * bytes).unwrap();
    let read: Vec<_> = read.iter().map(|object| object.id.key.as_str()).collect();
    assert_eq!(read, ["k01", "k00", "k02"]);
    let refused = storage::read(db, Caller::Script, &named, 3 * bytes - 1).unwrap_err();
    assert_eq!(refused.code.number(), 8);
    assert!(refused.message.contains("limit.answer_max_bytes"), "{refused}");
    // Pages end early; one object is on each, however large.
    for (bytes_max, per_page) in [(1, 1), (3 * bytes, 3), (100 * bytes, 20)] {
        for user_id in [Some(owner), None] {
            let (mut all, mut cursor) = (Vec::new(), String::new());
            loop {
                let listing = Listing { cursor, ..first(user_id, 100) };
                let (page, next) = storage::list(db, Caller::Script, &listing, bytes_max).unwrap();
                assert!(page.len() == per_page || next.is_empty(), "{} objects", page.len());
                all.extend(page.into_iter().map(|object| object.id.key));
                cursor = next;
                if cursor.is_empty() {
                    break;
                }
            }
            assert_eq!(all, keys, "{bytes_max} bytes");
        }
    }
}

/// A list of names is one parameter: none is taken for another.
#[test]
fn whatever_names_objects_have_they_are_told_apart() {
    let mut world = World::new();
    let owner = world.user("ann").claims.user_id;
    let (db, now) = (&mut world.db, world.now);
    // Not in PostgreSQL, whose texts have no NUL.
    let is_sqlite = matches!(db, crate::world::Tables::Sqlite(..));
    let strange = ["a\0b", "a\0"].into_iter().filter(|_| is_sqlite);
    let keys: Vec<&str> =
        ["a", "\"", "\\", "1", "null", "ä", "a b", "%"].into_iter().chain(strange).collect();
    let write = |key: &&str| Write { value: "{}".into(), ..object(key, owner, 1, 1) };
    let writes: Vec<Write> = keys.iter().map(write).collect();
    storage::write(db, now, Caller::Script, &writes).unwrap();
    let ids: Vec<ObjectId> = keys.iter().map(|key| id(key, owner)).collect();
    for ids in [&ids[..], &ids[..2], &ids[5..]] {
        let read = storage::read(db, Caller::Script, ids, usize::MAX).unwrap();
        let read: Vec<&ObjectId> = read.iter().map(|object| &object.id).collect();
        assert_eq!(read, ids.iter().collect::<Vec<_>>());
    }
    // What is there is found for each: only the version that it has fits.
    let again: Vec<Write> = writes
        .iter()
        .map(|write| Write { version: version_of(&write.value), ..write.clone() })
        .collect();
    storage::write(db, now, Caller::Script, &again).unwrap();
    let new: Vec<Write> =
        writes.iter().map(|write| Write { version: "*".into(), ..write.clone() }).collect();
    assert!(storage::write(db, now, Caller::Script, &new).is_err());
}
