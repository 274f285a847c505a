//! Friends: what is left of each edge after every order of calls, pages, and deleted accounts.

use game::db::{Database as _, Param};
use game::friends::{self, By, EDGES_MAX, FriendState, INVITATIONS_MAX, Page};
use uuid::Uuid;

use crate::world::{Session, World};

const NOBODY: &str = "00000000-0000-4000-8000-00000000dead";

fn add(world: &mut World, from: &Session, to: &Session) -> String {
    world.ask(Some(from), &format!("POST /v2/friend?ids={}", to.claims.user_id))
}

fn delete(world: &mut World, from: &Session, to: &Session) -> String {
    world.ask(Some(from), &format!("DELETE /v2/friend?ids={}", to.claims.user_id))
}

fn block(world: &mut World, from: &Session, to: &Session) -> String {
    world.ask(Some(from), &format!("POST /v2/friend/block?ids={}", to.claims.user_id))
}

/// The state of the edge from one user to another, and how many edges both have.
fn edges(world: &mut World, one: &Session, other: &Session) -> String {
    let mut text = String::new();
    for (from, to) in [(one, other), (other, one)] {
        let page = Page { limit: 10, ..Page::default() };
        let user_id = from.claims.user_id;
        let (friends, _) = friends::list(&mut world.db, user_id, &page, 1 << 20).unwrap();
        let state = friends.iter().find(|it| it.user.id == to.claims.user_id).map(|it| it.state);
        text += state.map_or("-", |state| match state {
            FriendState::Friend => "F",
            FriendState::InvitationSent => "s",
            FriendState::InvitationReceived => "r",
            FriendState::Blocked => "B",
        });
        let users = game::user::users(&mut world.db, &[user_id], &[]).unwrap();
        text += &users[0].edge_count.to_string();
    }
    text
}

/// What each call makes of each state of the two edges: every one that there can be is here.
#[test]
fn every_call_in_every_state() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let mut reached = std::collections::BTreeMap::from([("-0-0".to_owned(), Vec::new())]);
    let mut found = Vec::new();
    // Breadth first over all calls of both users, each from a clean start.
    let mut todo = vec!["-0-0".to_owned()];
    while let Some(before) = todo.pop() {
        let steps: Vec<u8> = reached[&before].clone();
        for step in 0..6_u8 {
            for (one, other) in [(&ann, &bob), (&bob, &ann)] {
                delete(&mut world, one, other);
            }
            for step in steps.iter().chain([&step]) {
                let (one, other) = if step % 2 == 0 { (&ann, &bob) } else { (&bob, &ann) };
                let call = [add, delete, block][usize::from(step / 2)];
                assert_eq!(call(&mut world, one, other), "200 {}");
            }
            let after = edges(&mut world, &ann, &bob);
            found.push(format!(
                "{before} {} {after}",
                ["a+", "b+", "a-", "b-", "a!", "b!"][usize::from(step)]
            ));
            if !reached.contains_key(&after) {
                reached.insert(after.clone(), steps.iter().copied().chain([step]).collect());
                todo.push(after);
            }
        }
    }
    let states: Vec<&str> = reached.keys().map(String::as_str).collect();
    assert_eq!(states, ["-0-0", "-0B1", "B1-0", "B1B1", "F1F1", "r1s1", "s1r1"]);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 7 * 6);
    for wanted in [
        "-0-0 a+ s1r1",
        "-0-0 b+ r1s1",
        "-0-0 a! B1-0",
        "s1r1 a+ s1r1",
        "s1r1 b+ F1F1",
        "s1r1 a- -0-0",
        "s1r1 b- -0-0",
        "s1r1 b! -0B1",
        "F1F1 a+ F1F1",
        "F1F1 b- -0-0",
        "F1F1 a! B1-0",
        "B1-0 a+ B1-0",
        "B1-0 b+ B1-0",
        "B1-0 b- B1-0",
        "B1-0 a- -0-0",
        "B1-0 b! B1B1",
        "B1B1 a- -0B1",
        "B1B1 a+ B1B1",
    ] {
        assert!(found.iter().any(|it| it == wanted), "{wanted}: {found:#?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut world = World::new();
    let ann = world.user("ann");
    for (request, answer) in [
        ("POST /v2/friend", "200 {}"),
        ("DELETE /v2/friend", "200 {}"),
        ("POST /v2/friend/block", "200 {}"),
        ("POST /v2/friend?usernames=ann", "400 3 Cannot add self as friend."),
        ("POST /v2/friend/block?usernames=ann", "400 3 Cannot block self."),
        ("DELETE /v2/friend?usernames=ann", "400 3 Cannot delete self."),
        ("POST /v2/friend?usernames=", "400 3 Username must not be empty."),
        ("POST /v2/friend?ids=x", "400 3 Invalid user ID 'x'."),
        ("POST /v2/friend?usernames=nobody", "400 3 No valid ID or username was provided."),
        ("POST /v2/friend/block?usernames=nobody", "400 3 No valid ID or username was provided."),
        ("DELETE /v2/friend?usernames=nobody", "200 {}"),
        ("GET /v2/friend?limit=0", "400 3 Invalid limit - limit must be between 1 and 1000."),
        ("GET /v2/friend?limit=-1", "400 3 Invalid limit - limit must be between 1 and 1000."),
        ("GET /v2/friend?state=4", "400 3 Invalid state - state must be between 0 and 3."),
        ("GET /v2/friend?cursor=AAAA", "400 3 Cursor is invalid."),
        ("GET /v2/friend", "200 {}"),
        (
            "GET /v2/friend/friends?limit=101",
            "400 3 Invalid limit - limit must be between 1 and 100.",
        ),
        ("GET /v2/friend/friends?cursor=*", "400 3 Cursor is invalid."),
        ("GET /v2/friend/friends", "200 {}"),
    ] {
        assert_eq!(world.ask(Some(&ann), request), answer, "{request}");
    }
    // Well-formed ids of nobody are passed over.
    for request in ["POST /v2/friend", "POST /v2/friend/block", "DELETE /v2/friend"] {
        assert_eq!(world.ask(Some(&ann), &format!("{request}?ids={NOBODY}")), "200 {}");
    }
    let bad = format!("POST /v2/friend?ids={NOBODY}&metadata=%5B%5D");
    assert_eq!(world.ask(Some(&ann), &bad), "400 3 Metadata must be a valid JSON object.");
    assert_eq!(edges(&mut world, &ann, &ann), "-0-0");
}

#[test]
fn metadata_is_of_one_side() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let metadata = "%7B%22a%22%3A1%7D";
    let request = format!("POST /v2/friend?usernames=bob&metadata={metadata}");
    assert_eq!(world.ask(Some(&ann), &request), "200 {}");
    assert!(world.ask(Some(&ann), "GET /v2/friend").contains(r#""metadata":"{\"a\":1}""#));
    // The user's own, and the edge's.
    assert_eq!(world.ask(Some(&bob), "GET /v2/friend").matches(r#""metadata":"{}""#).count(), 2);
}

#[test]
fn pages_are_whole_whatever_their_size() {
    let mut world = World::new();
    let ann = world.user("ann");
    let others: Vec<Session> = (0..7).map(|at| world.user(&format!("other{at}"))).collect();
    for other in &others {
        add(&mut world, &ann, other);
    }
    add(&mut world, &others[5], &ann);
    block(&mut world, &ann, &others[1]);
    let user_id = ann.claims.user_id;
    let mut all = |state, limit, bytes_max| {
        let (mut seen, mut page) = (Vec::new(), Page { limit, state, ..Page::default() });
        loop {
            let (friends, cursor) =
                friends::list(&mut world.db, user_id, &page, bytes_max).unwrap();
            assert!((1..=limit).contains(&friends.len()));
            seen.extend(friends.into_iter().map(|it| (it.state, it.user.id)));
            if cursor.is_empty() {
                return seen;
            }
            page.cursor = cursor;
        }
    };
    let whole = all(None, 1_000, 1 << 20);
    assert_eq!(whole.len(), 7);
    assert_eq!(whole[0], (FriendState::Friend, others[5].claims.user_id));
    assert_eq!(whole[6], (FriendState::Blocked, others[1].claims.user_id));
    for limit in 1..=7 {
        assert_eq!(all(None, limit, 1 << 20), whole, "{limit}");
        assert_eq!(all(Some(FriendState::InvitationSent), limit, 1 << 20), whole[1..6], "{limit}");
    }
    assert_eq!(all(None, 1_000, 900), whole, "by bytes");
    // A cursor of another state.
    let page = Page { limit: 2, state: None, cursor: String::new() };
    let (_, cursor) = friends::list(&mut world.db, user_id, &page, 1 << 20).unwrap();
    let page = Page { limit: 2, state: Some(FriendState::Blocked), cursor };
    let refused = friends::list(&mut world.db, user_id, &page, 1 << 20).unwrap_err();
    assert_eq!(refused.message, "Cursor is invalid.");
}

#[test]
fn friends_of_friends_come_in_pages_too() {
    let mut world = World::new();
    let users: Vec<Session> = (0..6).map(|at| world.user(&format!("user{at}"))).collect();
    let befriend = |world: &mut World, one: usize, other: usize| {
        add(world, &users[one], &users[other]);
        add(world, &users[other], &users[one]);
    };
    for (one, other) in [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (4, 5)] {
        befriend(&mut world, one, other);
    }
    let user_id = users[0].claims.user_id;
    let whole: Vec<(Uuid, Uuid)> = {
        let (found, cursor) = friends::of_friends(&mut world.db, user_id, 100, "").unwrap();
        assert_eq!(cursor, "");
        found.into_iter().map(|one| (one.referrer, one.user.id)).collect()
    };
    let id = |at: usize| users[at].claims.user_id;
    let mut expected = [(id(1), id(3)), (id(2), id(3)), (id(2), id(4))];
    expected.sort_unstable();
    assert_eq!(whole, expected);
    for limit in 1..=3 {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let (found, next) =
                friends::of_friends(&mut world.db, user_id, limit, &cursor).unwrap();
            seen.extend(found.into_iter().map(|one| (one.referrer, one.user.id)));
            if next.is_empty() {
                break;
            }
            cursor = next;
        }
        assert_eq!(seen, whole, "{limit}");
    }
}

#[test]
fn of_a_deleted_account_nothing_is_left() {
    let mut world = World::new();
    let (ann, bob, cid) = (world.user("ann"), world.user("bob"), world.user("cid"));
    add(&mut world, &ann, &bob);
    add(&mut world, &bob, &ann);
    block(&mut world, &cid, &ann);
    assert_eq!(world.ask(Some(&ann), "DELETE /v2/account"), "200 {}");
    let mut rows = 0;
    world.db.query("SELECT 1 FROM friend", &[], &mut |_| rows += 1).unwrap();
    assert_eq!(rows, 0);
    assert_eq!(edges(&mut world, &bob, &cid), "-0-0");
    // Its token is as good as none; whoever wrote with it before the deletion was told of would find
    // no user.
    let (now, user_id) = (world.now, ann.claims.user_id);
    let by = By { now, random: &mut world.random, user_id, username: "ann" };
    let gone = friends::add(&mut world.db, by, &[bob.claims.user_id], "");
    assert_eq!(gone.unwrap_err().message, "Account not found.");
    assert_eq!(edges(&mut world, &bob, &cid), "-0-0");
}

#[test]
fn edges_have_a_limit() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let params = [Param::Int(EDGES_MAX), Param::Blob(ann.claims.user_id.as_bytes())];
    world.db.execute("UPDATE users SET edge_count = $1 WHERE id = $2", &params).unwrap();
    let refusal = "429 8 Cannot have more than 2000 friends, invitations and blocks.";
    assert_eq!(add(&mut world, &ann, &bob), refusal);
    assert_eq!(block(&mut world, &ann, &bob), refusal);
    // Others may still invite; to accept that is to have one more, and to block them as well.
    assert_eq!(add(&mut world, &bob, &ann), "200 {}");
    assert_eq!(add(&mut world, &ann, &bob), refusal);
    assert_eq!(block(&mut world, &ann, &bob), refusal);
    assert_eq!(edges(&mut world, &ann, &bob), "r2001s1");
    let id = Param::Blob(ann.claims.user_id.as_bytes());
    let sql = "UPDATE users SET edge_count = edge_count - 1 WHERE id = $1";
    world.db.execute(sql, &[id]).unwrap();
    assert_eq!(add(&mut world, &ann, &bob), "200 {}");
}

/// Whom a friend has blocked is no friend's friend, and not looked at to know that.
#[test]
fn friends_of_friends_are_found_by_an_index() {
    let mut world = World::new();
    let mut plan = String::new();
    let sql = "EXPLAIN QUERY PLAN SELECT friend_id FROM friend \
        WHERE user_id = $1 AND friend_id > $2 AND state = 0 ORDER BY friend_id LIMIT $3";
    let params = [Param::Blob(&[1; 16]), Param::Blob(&[0; 16]), Param::Int(9)];
    world.db.query(sql, &params, &mut |row| plan += row.text(3)).unwrap();
    assert!(plan.contains("friend_state (user_id=? AND state=? AND friend_id>?)"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}

/// Whoever has many accounts can invite a user from all of them.
#[test]
fn a_flood_of_invitations_ends_and_keeps_nobody_from_inviting() {
    let mut world = World::new();
    let (ann, bob) = (world.user("ann"), world.user("bob"));
    let id = Param::Blob(ann.claims.user_id.as_bytes());
    for number in 0..INVITATIONS_MAX {
        let other = Uuid::from_u128(u128::try_from(number).unwrap());
        let sql = "INSERT INTO friend (user_id, friend_id, state, position, update_time, metadata) \
            VALUES ($1, $2, 2, 0, 0, '{}')";
        world.db.execute(sql, &[id, Param::Blob(other.as_bytes())]).unwrap();
    }
    let params = [Param::Int(EDGES_MAX + INVITATIONS_MAX - 1), id];
    world.db.execute("UPDATE users SET edge_count = $1 WHERE id = $2", &params).unwrap();
    let refusal = format!(
        "429 8 User '{}' has 1000 invitations that are not answered yet.",
        ann.claims.user_id
    );
    assert_eq!(add(&mut world, &bob, &ann), refusal);
    // Who is named beside is invited.
    let cid = world.user("cid");
    let both = "POST /v2/friend?usernames=ann&usernames=cid";
    assert_eq!(world.ask(Some(&bob), both), "200 {}");
    assert_eq!(edges(&mut world, &bob, &cid), "s1r1");
    assert_eq!(add(&mut world, &ann, &bob), "200 {}");
    assert_eq!(edges(&mut world, &bob, &bob)[..2], *"-2");
}
