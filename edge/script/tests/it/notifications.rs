//! Notifications through Lua and a real database.

use store::Store;

use crate::host::TestHost;
use crate::run_on;

fn host() -> TestHost {
    let store = Store::open_in_memory().unwrap();
    let mut host = TestHost { real_db: Some(store.connect().unwrap()), ..TestHost::default() };
    text("nk.authenticate_custom('custom-ann', 'ann')", &mut host);
    host
}

/// The answer of a function that has `ann`, her id, in scope.
fn text(body: &str, host: &mut TestHost) -> String {
    let body = format!(
        "local u = nk.users_get_username({{'ann'}})[1] local ann = u and u.user_id
         local function kept() return nk.notifications_list(ann) end
         {body}"
    );
    match run_on(&body, "", host) {
        Ok(answer) => answer.unwrap_or_default(),
        Err(error) => format!("!{}", error.message),
    }
}

fn check(cases: &[(&str, &str)]) {
    let mut host = host();
    for (body, wanted) in cases {
        assert_eq!(text(body, &mut host), *wanted, "{body}");
    }
}

#[test]
fn they_are_sent_kept_and_deleted() {
    check(&[
        ("nk.notification_send(ann, 'a', { n = 1 }, 1)", ""),
        ("return #kept() .. ''", "0"),
        ("nk.notification_send(ann, 'a', { n = 1 }, 1, nil, true)", ""),
        ("nk.notification_send(ann, 'b', {}, -1500, ann, true)", ""),
        (
            "local one, two = unpack(kept()) return one.subject .. one.content .. one.code
                 .. one.senderId .. tostring(one.persistent) .. one.createTime .. #one.id
                 .. tostring(two.senderId == ann) .. two.content .. two.code",
            r#"a{"n":1}1true170000000036true{}-1500"#,
        ),
        (
            "local page, cursor = nk.notifications_list(ann, 1)
             local rest, last = nk.notifications_list(ann, 1, cursor)
             return page[1].subject .. rest[1].subject .. tostring(last)",
            "abnil",
        ),
        (
            "local one = kept()[1] nk.notifications_update({ { id = one.id, subject = 'c',
                 content = { n = 2 }, sender = ann } })
             local found = nk.notifications_get_id({ one.id }, ann)[1]
             return found.subject .. found.content.n .. tostring(found.sender_id == ann)
                 .. tostring(found.user_id == ann) .. found.create_time .. found.code",
            "c2truetrue17000000001",
        ),
        ("nk.notifications_delete({ { user_id = ann, notification_id = kept()[1].id } })", ""),
        ("return kept()[1].subject", "b"),
        ("nk.notifications_delete_id({ kept()[1].id }) return #kept() .. ''", "0"),
        (
            "nk.notifications_send({ { user_id = ann, subject = 'x', content = {}, code = 3,
                 persistent = true }, { user_id = ann, subject = 'y', content = {}, code = 3 } })
             return #kept() .. ''",
            "1",
        ),
        ("nk.notification_send_all('all', { n = 3 }, 4, true) return kept()[2].subject", "all"),
        (
            "local id = kept()[2].id nk.notifications_delete_id({ id }, ann)
             return #kept() .. nk.notifications_get_id({ id })[1].user_id",
            "100000000-0000-0000-0000-000000000000",
        ),
    ]);
}

#[test]
fn what_sockets_are_shown() {
    let mut host = host();
    let body = "nk.notifications_send({
            { user_id = ann, subject = 'x', content = {}, code = 3 },
            { user_id = ann, subject = 'y', content = { 7 }, code = 3, sender_id = ann } })
        nk.notification_send_all('all', {}, 4)";
    assert_eq!(text(body, &mut host), "");
    let [of_ann, all] = &host.notified[..] else { panic!("{:?}", host.notified) };
    let [x, y] = &of_ann.notifications[..] else { panic!("{of_ann:?}") };
    assert_eq!((&*x.subject, &*x.content, &*y.content), ("x", "{}", r#"{"1":7}"#));
    // As in Nakama, the system has an id here.
    assert_eq!(x.sender_id, "00000000-0000-0000-0000-000000000000");
    assert_eq!(Some(&y.sender_id), of_ann.to.map(|id| id.to_string()).as_ref());
    assert!(all.to.is_none() && !all.is_of_users && !x.persistent && x.id != y.id);
}

#[test]
fn what_is_wrong_is_said_with_nakamas_words() {
    check(&[
        (
            "nk.notification_send('x', 'a', {}, 1)",
            "!bad argument #1 to notification_send (expects user_id to be a valid UUID)",
        ),
        (
            "nk.notification_send(ann, '', {}, 1)",
            "!bad argument #2 to notification_send (expects subject to be a non-empty string)",
        ),
        (
            "nk.notification_send(ann, 'a', 'text', 1)",
            "!bad argument #3 to notification_send (table expected)",
        ),
        (
            "nk.notification_send(ann, 'a', {}, -2)",
            "!bad argument #4 to notification_send (expects code number to be a positive integer)",
        ),
        (
            "nk.notification_send(ann, 'a', {}, 1, 'x')",
            "!bad argument #5 to notification_send (expects sender_id to either be not set, empty \
             string or a valid UUID)",
        ),
        (
            "nk.notification_send('00000000-0000-4000-8000-000000000009', 'a', {}, 1, nil, true)",
            "!failed to send notifications: User '00000000-0000-4000-8000-000000000009' not found.",
        ),
        (
            "nk.notifications_send({ { user_id = ann, content = {}, code = 3 } })",
            "!bad argument #1 to notifications_send (expects subject to be provided and to be \
             non-empty)",
        ),
        (
            "nk.notifications_send({ { user_id = ann, subject = 'x', content = {}, code = 0 } })",
            "!bad argument #1 to notifications_send (expects code to be provided and be a number \
             above 0)",
        ),
        (
            "nk.notifications_send({ 1 })",
            "!bad argument #1 to notifications_send (expects a valid set of notifications)",
        ),
        (
            "nk.notifications_list(ann, 1001)",
            "!bad argument #2 to notifications_list (expects limit to be 1-1000)",
        ),
        (
            "nk.notifications_list(ann, 1, 'x')",
            "!failed to list notifications: Malformed cursor was used.",
        ),
        (
            "nk.notifications_get_id({ 'x' })",
            "!bad argument #1 to notifications_get_id (each notification id must be a valid id)",
        ),
        (
            "nk.notifications_update({ { id = ann, subject = '' } })",
            "!bad argument #1 to notifications_update (expects subject to be a non-empty string)",
        ),
    ]);
}
