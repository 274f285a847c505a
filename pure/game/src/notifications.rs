//! Notifications: what a user is told by scripts, and of what other users do to it. Sockets get them at
//! once; those that are to be kept are in the database until they are deleted, for whoever connects
//! later and lists them: at a connection nothing is sent by itself, as in Nakama.
//!
//! What is kept for everybody is one row, not one for each user: it belongs to the system user (id
//! zero), users find it beside their own, and whoever deletes it hides it from itself.
//!
//! Whoever makes accounts can make as many users cause notifications, so that these have a share of
//! what is kept ([`KEPT_OF_USERS_MAX`]), and one of a sender and code takes the place of the former
//! one. Not here: requests (`api::notifications`), scripts (`host::notifications`), sockets
//! (`server::room`).
//!
//! Source: Nakama 3.40, `server/core_notification.go`, `server/core_friend.go`.

mod list;

use std::collections::{BTreeMap, BTreeSet};

use event::{Now, Random};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::nakama::{Timestamp, api};

use crate::account::{atomically, text_or_null, unix_ms};
use crate::db::{Database, DbError, Param, Row, id_list, query_ids};
use crate::error::{ApiError, Code, Failure};
use crate::session::new_id;
use crate::user::{id_at, is_there};

pub use list::{LIST_LIMIT_MAX, List, by_ids, list};

/// Notifications that are kept for a user, and for everybody; the oldest make room.
pub const KEPT_MAX: i64 = 1_000;

/// How many of them other users may have caused; the oldest of these make room.
pub const KEPT_OF_USERS_MAX: i64 = 100;

/// Longest content, bytes of JSON text.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// Longest subject, characters (Nakama 3.40, `migrate/sql`: `VARCHAR(255)`).
pub const SUBJECT_CHARS_MAX: usize = 255;

/// Codes of notifications that the server makes itself. Those of scripts are above 0, or from -2000
/// to -1000.
pub mod code {
    /// A user wants to be a friend.
    pub const FRIEND_REQUEST: i32 = -2;
    /// A user has accepted the invitation.
    pub const FRIEND_ACCEPT: i32 = -3;
    /// The user has another socket now, where one is all that it may have.
    pub const SINGLE_SOCKET: i32 = -7;
    /// The user is banned.
    pub const BANNED: i32 = -8;
    /// A user has ended a friendship, or taken back or declined an invitation.
    pub const FRIEND_REMOVE: i32 = -9;
}

/// Whether other users cause notifications of this code. In SQL: [`OF_USERS`].
fn is_of_users(code: i32) -> bool {
    (-999..0).contains(&code)
}

/// The rows of which [`is_of_users`] is true. They are looked for among all of a user: the newest are of
/// users where these are many.
const OF_USERS: &str = "code < 0 AND code > -1000";

/// A notification as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Rises with every notification that is kept.
    pub id: Uuid,
    /// For whom it is; `None` is everybody.
    pub user_id: Option<Uuid>,
    /// What it is about.
    pub subject: String,
    /// JSON text of an object.
    pub content: String,
    /// What kind it is.
    pub code: i32,
    /// The user in whose name it is; `None` is the system.
    pub sender: Option<Uuid>,
    /// Unix milliseconds.
    pub create_time_ms: i64,
}

/// A notification that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// For whom it is; `None` is everybody.
    pub to: Option<Uuid>,
    /// Not empty, at most [`SUBJECT_CHARS_MAX`].
    pub subject: String,
    /// JSON text of an object, at most [`CONTENT_BYTES_MAX`].
    pub content: String,
    /// What kind it is.
    pub code: i32,
    /// The user in whose name it is; `None` is the system.
    pub sender: Option<Uuid>,
    /// Whether it is kept.
    pub is_persistent: bool,
}

/// Notifications on their way to the sockets of one user, or of everybody.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// To whom; `None` is everybody.
    pub to: Option<Uuid>,
    /// In the order in which they were made.
    #[serde(with = "crate::plain::notifications")]
    pub notifications: Vec<api::Notification>,
    /// Whether another user caused them: then sockets that are behind do not get them, so that nobody
    /// can have somebody else's socket closed for too much that it has not taken.
    pub is_of_users: bool,
    /// How many that were kept made room for these.
    pub forgotten: u64,
}

/// What every failure of the database is to whoever sends.
const SEND_FAILED: &str = "Error while trying to send notifications.";

/// Keeps those that are to be kept, all or none, and gives back what sockets are to be shown once it
/// is durable: one for each receiver.
///
/// # Errors
/// [`ApiError`]: code 3 for a subject or content that is too long, 5 when one that is to be kept is
/// for no user, 13. Then nothing is kept.
pub fn send(
    db: &mut dyn Database,
    now: Now,
    random: &mut Random,
    drafts: Vec<Draft>,
) -> Result<Vec<Sent>, ApiError> {
    drafts.iter().try_for_each(check)?;
    if !drafts.iter().any(|draft| draft.is_persistent) {
        return collect(drafts, now, |draft| Ok((draft, new_id(now, random), 0)));
    }
    let sent = atomically(db, |db| {
        let mut turn = Turn::take(db, &drafts)?;
        collect(drafts, now, |draft| {
            let drawn = new_id(now, random);
            if !draft.is_persistent {
                return Ok((draft, drawn, 0));
            }
            let (id, forgotten) = turn.keep(db, now, drawn, &draft)?;
            Ok((draft, id, forgotten))
        })
    });
    sent.map_err(|failure: Failure| failure.into_error(SEND_FAILED))
}

/// Puts notifications together by receiver, each with its id.
fn collect<E>(
    drafts: Vec<Draft>,
    now: Now,
    mut each: impl FnMut(Draft) -> Result<(Draft, Uuid, u64), E>,
) -> Result<Vec<Sent>, E> {
    let mut places = BTreeMap::new();
    let mut all: Vec<Sent> = Vec::new();
    for draft in drafts {
        let (draft, id, forgotten) = each(draft)?;
        let is_of_users = is_of_users(draft.code);
        let place = *places.entry((draft.to, is_of_users)).or_insert_with(|| {
            all.push(Sent { to: draft.to, is_of_users, ..Sent::default() });
            all.len() - 1
        });
        let Some(sent) = all.get_mut(place) else { continue };
        sent.forgotten += forgotten;
        sent.notifications.push(api::Notification {
            id: id.to_string(),
            subject: draft.subject,
            content: draft.content,
            code: draft.code,
            // On sockets the system has an id, in lists it has none (Nakama 3.40,
            // `server/runtime_lua_nakama.go`, `server/core_notification.go`).
            sender_id: draft.sender.unwrap_or_default().to_string(),
            create_time: Some(Timestamp::from_unix_ms(unix_ms(now))),
            persistent: draft.is_persistent,
        });
    }
    Ok(all)
}

fn check(draft: &Draft) -> Result<(), ApiError> {
    check_texts(Some(&draft.subject), Some(&draft.content))
}

fn check_texts(subject: Option<&str>, content: Option<&str>) -> Result<(), ApiError> {
    let is_long =
        |text: &str| text.len() > SUBJECT_CHARS_MAX && text.chars().count() > SUBJECT_CHARS_MAX;
    if subject.is_some_and(is_long) {
        let text = format!("Notification subject must be at most {SUBJECT_CHARS_MAX} characters.");
        return Err(ApiError::invalid(text));
    }
    if content.is_some_and(|content| content.len() > CONTENT_BYTES_MAX) {
        let text = format!("Notification content must be at most {CONTENT_BYTES_MAX} bytes.");
        return Err(ApiError::invalid(text));
    }
    Ok(())
}

/// Who keeps notifications takes turns with others who do so for the same user. Who does it for
/// everybody has a turn alone. So what is kept stays within its bounds, and what a user sees later has
/// the greater id: whoever keeps the last one as a cursor misses none, however many are made in a
/// millisecond, and when the clock goes back.
struct Turn {
    /// Who of the receivers exists.
    receivers: BTreeSet<Uuid>,
    /// The greatest id that there is.
    last: Uuid,
}

impl Turn {
    /// Locks the receivers of those that are to be kept, and the row for everybody.
    fn take(db: &mut dyn Database, drafts: &[Draft]) -> Result<Self, DbError> {
        let kept = || drafts.iter().filter(|draft| draft.is_persistent);
        if kept().any(|draft| draft.to.is_none()) {
            let sql = "SELECT 1 FROM writer_turn WHERE name = 'notifications' /* FOR UPDATE */";
            db.query(sql, &[], &mut |_| ())?;
        }
        let asked: BTreeSet<Uuid> = kept().filter_map(|draft| draft.to).collect();
        let mut receivers = BTreeSet::new();
        let of_one = "SELECT u.id FROM users u, writer_turn t \
            WHERE u.id = $1 AND t.name = 'notifications' \
            /* FOR NO KEY UPDATE OF u FOR KEY SHARE OF t */";
        let of_list = "SELECT u.id FROM users u, writer_turn t \
            WHERE u.id IN (SELECT unhex(value) FROM json_each($1)) \
            AND t.name = 'notifications' ORDER BY u.id \
            /* FOR NO KEY UPDATE OF u FOR KEY SHARE OF t */";
        query_ids(db, &asked, (of_one, of_list), &mut |row| {
            receivers.extend(id_at(row, 0));
        })?;
        let mut last = Uuid::nil();
        let sql = "SELECT id FROM notification ORDER BY id DESC LIMIT 1";
        db.query(sql, &[], &mut |row| last = id_at(row, 0).unwrap_or_default())?;
        Ok(Self { receivers, last })
    }

    /// Writes a notification, and makes room for it; its id, the drawn one or one behind the last, and
    /// how many others went.
    fn keep(
        &mut self,
        db: &mut dyn Database,
        now: Now,
        drawn: Uuid,
        draft: &Draft,
    ) -> Result<(Uuid, u64), Failure> {
        let owner = draft.to.unwrap_or_default();
        let user = Param::Blob(owner.as_bytes());
        if draft.to.is_some() && !self.receivers.contains(&owner) {
            let text = format!("User '{owner}' not found.");
            return Err(ApiError::new(Code::NotFound, text).into());
        }
        let forgotten = make_room(db, user, draft)?;
        let id = behind(self.last, drawn);
        self.last = id;
        let sql = "INSERT INTO notification \
            (user_id, id, sender_id, code, subject, content, create_time) \
            VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let sender = draft.sender.as_ref().map_or(Param::Null, |id| Param::Blob(id.as_bytes()));
        let params = [
            user,
            Param::Blob(id.as_bytes()),
            sender,
            Param::Int(draft.code.into()),
            Param::Text(&draft.subject),
            Param::Text(&draft.content),
            Param::Int(unix_ms(now)),
        ];
        db.execute(sql, &params)?;
        Ok((id, forgotten))
    }
}

/// Deletes what there is no room for beside one more; how many the bounds took.
fn make_room(db: &mut dyn Database, user: Param<'_>, draft: &Draft) -> Result<u64, DbError> {
    let mut forgotten = 0;
    if let (true, Some(sender)) = (is_of_users(draft.code), draft.sender) {
        let sql = "DELETE FROM notification WHERE sender_id = $1 AND user_id = $2 AND code = $3";
        let code = Param::Int(draft.code.into());
        db.execute(sql, &[Param::Blob(sender.as_bytes()), user, code])?;
        let sql = format!(
            "DELETE FROM notification WHERE user_id = $1 AND {OF_USERS} AND id <= \
             (SELECT id FROM notification WHERE user_id = $1 AND {OF_USERS} \
              ORDER BY id DESC LIMIT 1 OFFSET $2)"
        );
        forgotten += db.execute(&sql, &[user, Param::Int(KEPT_OF_USERS_MAX - 1)])?;
    }
    let sql = "DELETE FROM notification WHERE user_id = $1 AND id <= \
        (SELECT id FROM notification WHERE user_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
    forgotten += db.execute(sql, &[user, Param::Int(KEPT_MAX - 1)])?;
    Ok(forgotten)
}

/// `id`, or the time of `last` and one more in its place. The twelve bits behind the time of a version
/// 7 id may count (RFC 9562, §6.2, method 1); when they are used up, the time goes on.
fn behind(last: Uuid, id: Uuid) -> Uuid {
    const COUNT: u64 = 0xfff;
    if id > last {
        return id;
    }
    let ((high, _), (_, low)) = (last.as_u64_pair(), id.as_u64_pair());
    let high =
        if high & COUNT < COUNT { high + 1 } else { (((high >> 16) + 1) << 16) | (high & 0xf000) };
    Uuid::from_u64_pair(high, low)
}

/// Deletes those of a user; what is for everybody it no longer sees. Other ids are passed over.
///
/// # Errors
/// [`ApiError`] with code 13. Then nothing has happened.
pub fn delete(db: &mut dyn Database, user_id: Uuid, ids: &[Uuid]) -> Result<(), ApiError> {
    let user = Param::Blob(user_id.as_bytes());
    let (system, last) = (Uuid::nil(), Uuid::max());
    let deleted = atomically(db, |db| {
        if !ids.is_empty() && is_there(db, user_id)? {
            let list = id_list(ids);
            let params = [user, Param::Text(&list)];
            let sql = "DELETE FROM notification WHERE user_id = $1 \
                AND id IN (SELECT unhex(value) FROM json_each($2))";
            db.execute(sql, &params)?;
            let sql = "INSERT INTO notification_hidden (user_id, id) \
                SELECT $1, n.id FROM notification n WHERE n.user_id = $3 \
                AND n.id IN (SELECT unhex(value) FROM json_each($2)) ON CONFLICT DO NOTHING";
            db.execute(sql, &[params[0], params[1], Param::Blob(system.as_bytes())])?;
        }
        // What is no longer there need not be hidden.
        let sql = "DELETE FROM notification_hidden WHERE user_id = $1 AND id < COALESCE( \
            (SELECT id FROM notification WHERE user_id = $2 ORDER BY id LIMIT 1), $3)";
        let (system, last) = (Param::Blob(system.as_bytes()), Param::Blob(last.as_bytes()));
        db.execute(sql, &[user, system, last])?;
        Ok::<_, DbError>(())
    });
    deleted.map_err(ApiError::database("Error while deleting notifications."))
}

/// Deletes notifications, whosever they are.
///
/// # Errors
/// [`ApiError`] with code 13. Then nothing has happened.
pub fn delete_any(db: &mut dyn Database, ids: &[Uuid]) -> Result<(), ApiError> {
    let deleted = atomically(db, |db| {
        let sql = "DELETE FROM notification \
            WHERE id IN (SELECT unhex(value) FROM json_each($1))";
        db.execute(sql, &[Param::Text(&id_list(ids))])
    });
    deleted.map(drop).map_err(ApiError::database("Error while deleting notifications."))
}

/// What of a kept notification is to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Which one.
    pub id: Uuid,
    /// As in [`Draft`], if it changes.
    pub subject: Option<String>,
    /// As in [`Draft`], if it changes.
    pub content: Option<String>,
    /// The user in whose name it is, if that changes.
    pub sender: Option<Uuid>,
}

/// Changes notifications that are kept; sockets are not told. Unknown ids are passed over.
///
/// # Errors
/// [`ApiError`]: code 3 for a subject or content that is too long, 13. Then nothing has changed.
pub fn update(db: &mut dyn Database, updates: &[Update]) -> Result<(), ApiError> {
    for update in updates {
        check_texts(update.subject.as_deref(), update.content.as_deref())?;
    }
    let updated = atomically(db, |db| {
        for update in updates {
            let sender =
                update.sender.as_ref().map_or(Param::Null, |id| Param::Blob(id.as_bytes()));
            let sql = "UPDATE notification SET subject = COALESCE($2, subject), \
                content = COALESCE($3, content), sender_id = COALESCE($4, sender_id) \
                WHERE id = $1";
            let id = Param::Blob(update.id.as_bytes());
            let subject = text_or_null(update.subject.as_deref());
            let content = text_or_null(update.content.as_deref());
            db.execute(sql, &[id, subject, content, sender])?;
        }
        Ok::<_, DbError>(())
    });
    updated.map_err(ApiError::database("Error while updating notifications."))
}

/// Deletes what was kept for a user who is deleted, and what others were told of it, in an open
/// transaction.
///
/// # Errors
/// Any [`DbError`].
pub(crate) fn forget(db: &mut dyn Database, user_id: Uuid) -> Result<(), DbError> {
    let id = Param::Blob(user_id.as_bytes());
    for sql in [
        "DELETE FROM notification WHERE user_id = $1",
        "DELETE FROM notification WHERE sender_id = $1",
        "DELETE FROM notification_hidden WHERE user_id = $1",
    ] {
        db.execute(sql, &[id])?;
    }
    Ok(())
}

/// What [`read`] reads.
const COLUMNS: &str = "id, user_id, sender_id, code, subject, content, create_time";

fn read(row: &dyn Row) -> Notification {
    let user_id = |column| id_at(row, column).filter(|id| !id.is_nil());
    Notification {
        id: id_at(row, 0).unwrap_or_default(),
        user_id: user_id(1),
        sender: user_id(2),
        code: i32::try_from(row.int(3)).unwrap_or(0),
        subject: row.text(4).to_owned(),
        content: row.text(5).to_owned(),
        create_time_ms: row.int(6),
    }
}

impl Notification {
    /// As lists show it.
    #[must_use]
    pub fn into_message(self) -> api::Notification {
        api::Notification {
            id: self.id.to_string(),
            subject: self.subject,
            content: self.content,
            code: self.code,
            sender_id: self.sender.map(|id| id.to_string()).unwrap_or_default(),
            create_time: Some(Timestamp::from_unix_ms(self.create_time_ms)),
            persistent: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::behind;

    #[test]
    fn ids_rise_whatever_the_clock_does() {
        let parts = |ms: u64, count: u64, low: u64| {
            Uuid::from_u64_pair((ms << 16) | 0x7000 | count, (0b10 << 62) | low)
        };
        for (last, id, expected) in [
            (Uuid::nil(), parts(5, 9, 1), parts(5, 9, 1)),
            (parts(5, 9, 1), parts(6, 0, 0), parts(6, 0, 0)),
            // In one millisecond, and with the clock set back.
            (parts(5, 9, 1), parts(5, 3, 2), parts(5, 10, 2)),
            (parts(5, 9, 1), parts(5, 9, 1), parts(5, 10, 1)),
            (parts(5, 9, 1), parts(2, 300, 7), parts(5, 10, 7)),
            (parts(5, 0xfff, 1), parts(5, 3, 2), parts(6, 0, 2)),
        ] {
            assert_eq!(behind(last, id), expected, "{last} {id}");
            assert!(expected > last);
        }
    }
}
