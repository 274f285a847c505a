//! Notifications: what is kept for whom, in which order and for how long, and what of it other users can
//! cause.

use std::collections::BTreeSet;

use game::db::{Database as _, Param, Row};
use game::notifications::{self, Draft, KEPT_MAX, KEPT_OF_USERS_MAX, List, Sent, Update, code};
use uuid::Uuid;

use crate::world::{Session, World};

fn draft(to: Option<&Session>, subject: &str) -> Draft {
    Draft {
        to: to.map(|session| session.claims.user_id),
        subject: subject.into(),
        content: "{}".into(),
        code: 1,
        sender: None,
        is_persistent: true,
    }
}

fn send(world: &mut World, drafts: Vec<Draft>) -> Vec<Sent> {
    notifications::send(&mut world.db, world.now, &mut world.random, drafts).unwrap()
}

fn list(world: &mut World, user: &Session, limit: usize, cursor: &str) -> List {
    let page = (limit, cursor);
    notifications::list(&mut world.db, user.claims.user_id, page, 1 << 20).unwrap()
}

/// The subjects of all that is kept for a user.
fn subjects(world: &mut World, user: &Session) -> Vec<String> {
    let list = list(world, user, 10_000, "");
    assert!(!list.has_more);
    list.notifications.into_iter().map(|one| one.subject).collect()
}

fn id_of(row: &dyn Row) -> Uuid {
    Uuid::from_slice(row.blob(0)).unwrap()
}

fn rows(world: &mut World, table: &str) -> usize {
    let mut rows = 0;
    world.db.query(&format!("SELECT 1 FROM {table}"), &[], &mut |_| rows += 1).unwrap();
    rows
}

#[test]
fn pages_go_on_for_ever_from_the_last_cursor() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let empty = world.ask(Some(&ann), "GET /v2/notification?limit=10");
    assert!(empty.starts_with(r#"200 {"cacheable_cursor":""#), "{empty}");
    let mut cursor = list(&mut world, &ann, 10, "").cursor;
    let mut seen = Vec::new();
    // Many in one millisecond, some for everybody, and the clock goes back now and then.
    for round in 0..20_u64 {
        for number in 0..round % 4 {
            let to = if number == 1 { None } else { Some(&ann) };
            send(&mut world, vec![draft(to, &format!("{round}.{number}"))]);
        }
        send(&mut world, vec![draft(Some(&bob), "not for ann")]);
        world.now.unix_ms = world.now.unix_ms + 3 - 5 * (round % 2);
        let next = list(&mut world, &ann, 2, &cursor);
        seen.extend(next.notifications.iter().map(|one| one.subject.clone()));
        cursor = next.cursor;
    }
    loop {
        let next = list(&mut world, &ann, 2, &cursor);
        seen.extend(next.notifications.iter().map(|one| one.subject.clone()));
        cursor = next.cursor;
        if !next.has_more {
            break;
        }
    }
    let all: Vec<String> =
        (0..20).flat_map(|round| (0..round % 4).map(move |n| format!("{round}.{n}"))).collect();
    assert_eq!(seen, all);
    assert_eq!(subjects(&mut world, &ann), all);
    assert_eq!(list(&mut world, &ann, 10, &cursor).cursor, cursor, "the same when nothing came");
    // A page ends before its bytes, but has one.
    let page = (100, "");
    let user_id = ann.claims.user_id;
    let short = notifications::list(&mut world.db, user_id, page, 600).unwrap();
    assert_eq!((short.notifications.len(), short.has_more), (2, true));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::new();
    let ann = world.user("ann");
    for (request, answer) in [
        ("GET /v2/notification?limit=0", "400 3 Invalid limit - limit must be between 1 and 100."),
        (
            "GET /v2/notification?limit=101",
            "400 3 Invalid limit - limit must be between 1 and 100.",
        ),
        ("GET /v2/notification?cacheable_cursor=x", "400 3 Malformed cursor was used."),
        ("DELETE /v2/notification?ids=x", "400 3 Invalid notification ID 'x'."),
        ("DELETE /v2/notification", "200 {}"),
    ] {
        assert_eq!(world.ask(Some(&ann), request), answer, "{request}");
    }
    let nobody = Uuid::from_u128(9);
    for (wrong, refusal) in [
        (Draft { to: Some(nobody), ..draft(None, "a") }, format!("User '{nobody}' not found.")),
        (
            draft(Some(&ann), &"ü".repeat(256)),
            "Notification subject must be at most 255 characters.".into(),
        ),
        (
            Draft { content: "x".repeat(65_537), is_persistent: false, ..draft(Some(&ann), "a") },
            "Notification content must be at most 65536 bytes.".into(),
        ),
    ] {
        // All or none.
        let drafts = vec![draft(Some(&ann), "first"), wrong];
        let (db, now) = (&mut world.db, world.now);
        let refused = notifications::send(db, now, &mut world.random, drafts).unwrap_err();
        assert_eq!(refused.message, refusal);
        assert_eq!(rows(&mut world, "notification"), 0);
    }
    // What is not kept nobody looks for.
    let sent = send(
        &mut world,
        vec![Draft { to: Some(nobody), is_persistent: false, ..draft(None, &"ü".repeat(255)) }],
    );
    assert_eq!((sent.len(), rows(&mut world, "notification")), (1, 0));
}

#[test]
fn whoever_deletes_deletes_its_own() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    for (to, subject) in [(Some(&ann), "own"), (None, "all"), (Some(&bob), "bobs")] {
        send(&mut world, vec![draft(to, subject)]);
    }
    // Whoever comes later was not meant.
    world.now.unix_ms += 1;
    let cid = world.user("cid");
    assert_eq!(subjects(&mut world, &cid), [""; 0]);
    let mut ids = vec![format!("ids={}", Uuid::from_u128(7))];
    let mut add = |row: &dyn Row| ids.push(format!("ids={}", id_of(row)));
    world.db.query("SELECT id FROM notification", &[], &mut add).unwrap();
    let request = format!("DELETE /v2/notification?{}", ids.join("&"));
    assert_eq!(world.ask(Some(&ann), &request), "200 {}");
    assert_eq!(world.ask(Some(&ann), &request), "200 {}");
    assert_eq!(subjects(&mut world, &ann), [""; 0]);
    assert_eq!(subjects(&mut world, &bob), ["all", "bobs"]);
    assert_eq!((rows(&mut world, "notification"), rows(&mut world, "notification_hidden")), (2, 1));
    // By scripts, for everybody; what hid it goes with the next that is deleted.
    let kept = list(&mut world, &bob, 1, "").notifications;
    notifications::delete_any(&mut world.db, &[kept[0].id]).unwrap();
    assert_eq!(subjects(&mut world, &bob), ["bobs"]);
    notifications::delete(&mut world.db, ann.claims.user_id, &[]).unwrap();
    assert_eq!(rows(&mut world, "notification_hidden"), 0);
}

#[test]
fn found_by_id_and_changed() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    send(&mut world, vec![draft(Some(&ann), "one"), draft(Some(&bob), "two")]);
    let ids: Vec<Uuid> = [&ann, &bob]
        .map(|user| list(&mut world, user, 1, "").notifications[0].id)
        .into_iter()
        .chain([Uuid::from_u128(7)])
        .collect();
    let update = Update { id: ids[0], content: Some(r#"{"a":1}"#.into()), ..Update::default() };
    notifications::update(&mut world.db, &[update]).unwrap();
    let all = notifications::by_ids(&mut world.db, None, &ids).unwrap();
    let subjects: BTreeSet<&str> = all.iter().map(|one| &*one.subject).collect();
    assert_eq!(subjects, BTreeSet::from(["one", "two"]));
    let of_ann = notifications::by_ids(&mut world.db, Some(ann.claims.user_id), &ids).unwrap();
    assert_eq!((of_ann.len(), &*of_ann[0].content), (1, r#"{"a":1}"#));
}

#[test]
fn the_oldest_make_room() {
    let mut world = World::new();
    let ann = world.user("ann");
    let max = usize::try_from(KEPT_MAX).unwrap();
    for to in [Some(&ann), None] {
        let drafts = (0..max).map(|number| draft(to, &number.to_string())).collect();
        let sent = send(&mut world, drafts);
        assert_eq!(sent.iter().map(|sent| sent.forgotten).sum::<u64>(), 0);
        let sent = send(&mut world, vec![draft(to, "more"), draft(to, "and more")]);
        assert_eq!(sent.iter().map(|sent| sent.forgotten).sum::<u64>(), 2);
    }
    let subjects = subjects(&mut world, &ann);
    assert_eq!((subjects.len(), &*subjects[0], &*subjects[max - 1]), (2 * max, "2", "and more"));
}

fn friend(world: &mut World, method: &str, from: &Session, to: &Session) {
    let request = format!("{method} /v2/friend?ids={}", to.claims.user_id);
    assert_eq!(world.ask(Some(from), &request), "200 {}");
}

#[test]
fn friends_hear_of_one_another() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let told = |world: &mut World, method: &str, from: &Session, to: &Session| {
        friend(world, method, from, to);
        let told = std::mem::take(&mut world.notified);
        told.into_iter()
            .map(|sent| {
                assert!(sent.is_of_users && sent.to == Some(to.claims.user_id));
                let one = &sent.notifications[0];
                assert_eq!(one.sender_id, from.claims.user_id.to_string());
                (one.code, one.subject.clone(), one.content.clone())
            })
            .collect::<Vec<_>>()
    };
    let ann_is = r#"{"username":"ann"}"#.to_owned();
    let wants =
        (code::FRIEND_REQUEST, "ann wants to add you as a friend".to_owned(), ann_is.clone());
    assert_eq!(told(&mut world, "POST", &ann, &bob), [wants]);
    assert!(told(&mut world, "POST", &ann, &bob).is_empty());
    let accepted = told(&mut world, "POST", &bob, &ann);
    assert_eq!((accepted[0].0, &*accepted[0].1), (-3, "bob accepted your friend request"));
    let removed = (code::FRIEND_REMOVE, "ann removed you as a friend".to_owned(), ann_is);
    assert_eq!(told(&mut world, "DELETE", &ann, &bob), [removed]);
    assert!(told(&mut world, "DELETE", &ann, &bob).is_empty());
    // Of a block and of its end nobody hears.
    let block = format!("POST /v2/friend/block?ids={}", bob.claims.user_id);
    assert_eq!(world.ask(Some(&ann), &block), "200 {}");
    assert!(told(&mut world, "DELETE", &ann, &bob).is_empty());
    assert_eq!(subjects(&mut world, &bob).len(), 2);
    assert_eq!(world.ask(Some(&ann), "DELETE /v2/account"), "200 {}");
    assert_eq!((rows(&mut world, "notification"), subjects(&mut world, &bob).len()), (0, 0));
}

/// What one guest can do to another: fill its list, and push out what the game wants it to know.
#[test]
fn other_users_have_a_share_of_the_list() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    send(&mut world, vec![draft(Some(&bob), "of the game")]);
    // From one account: one of each kind, however often.
    for _ in 0..50 {
        friend(&mut world, "POST", &ann, &bob);
        friend(&mut world, "DELETE", &ann, &bob);
    }
    let kept = subjects(&mut world, &bob);
    assert_eq!(kept.len(), 3, "{kept:?}");
    // From many accounts: a share.
    let share = usize::try_from(KEPT_OF_USERS_MAX).unwrap();
    world.notified.clear();
    for number in 0..=share {
        let other = world.user(&format!("other{number}"));
        friend(&mut world, "POST", &other, &bob);
    }
    let kept = subjects(&mut world, &bob);
    assert_eq!((kept.len(), &*kept[0]), (share + 1, "of the game"));
    assert_eq!(world.notified.iter().map(|sent| sent.forgotten).sum::<u64>(), 3);
    assert!(world.notified.iter().all(|sent| sent.is_of_users));
}

/// A user who is gone is told nothing that stays.
#[test]
fn of_a_deleted_account_nothing_is_left() {
    let mut world = World::new();
    let ann = world.user("ann");
    send(&mut world, vec![draft(Some(&ann), "own"), draft(None, "all")]);
    let id = list(&mut world, &ann, 10, "").notifications[1].id;
    let user_id = ann.claims.user_id;
    notifications::delete(&mut world.db, user_id, &[id]).unwrap();
    assert_eq!(rows(&mut world, "notification_hidden"), 1);
    assert_eq!(world.ask(Some(&ann), "DELETE /v2/account"), "200 {}");
    assert_eq!((rows(&mut world, "notification"), rows(&mut world, "notification_hidden")), (1, 0));
    notifications::delete(&mut world.db, user_id, &[id]).unwrap();
    assert_eq!(rows(&mut world, "notification_hidden"), 0);
    let late = notifications::send(
        &mut world.db,
        world.now,
        &mut world.random,
        vec![Draft { to: Some(user_id), ..draft(None, "late") }],
    );
    assert_eq!(late.unwrap_err().message, format!("User '{user_id}' not found."));
}

/// The indices are used: a list does not look at those of other users.
#[test]
fn lists_read_their_own_rows() {
    let mut world = World::new();
    for (sql, wanted) in [
        ("DELETE FROM notification WHERE sender_id = $1", "notification_sender"),
        ("SELECT id FROM notification ORDER BY id DESC LIMIT 1", "notification_id"),
        (
            "SELECT id FROM notification WHERE user_id = $1 ORDER BY id DESC LIMIT 1 OFFSET 9",
            "SEARCH notification USING PRIMARY KEY",
        ),
    ] {
        let mut plan = String::new();
        let id = [Param::Blob(&[0; 16])];
        let params = if sql.contains("$1") { &id[..] } else { &[] };
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        world.db.query(&explain, params, &mut |row| plan += row.text(3)).unwrap();
        assert!(plan.contains(wanted) && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }
}
