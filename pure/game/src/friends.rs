//! Friends: invitations, friendships and blocks between users, and lists of them. An edge is what one
//! user knows of another; a friendship or an invitation is two of them, a block one.
//!
//! Who is invited, accepted or left is notified, in the same transaction. Not here: requests
//! (`api::friends`), scripts (`host::friends`).
//!
//! Source: Nakama 3.40, `server/core_friend.go`.

mod list;

use std::collections::BTreeSet;

use event::{Now, Random};
use uuid::Uuid;

use crate::account::{account_not_found, atomically, unix_ms};
use crate::db::{Database, DbError, Param, Row};
use crate::error::{ApiError, Code, Failure};
use crate::host::json;
use crate::json::write_map;
use crate::notifications::{self, Draft, Sent, code};
use crate::user::{self, User};
use crate::value::Value;

pub use list::{
    Cursor, LIST_LIMIT_MAX, LOOKS_MAX, OF_FRIENDS_LIMIT_MAX, OfFriends, Page, list, of_friends,
    status,
};

/// Edges that a user may have by own doing: friends, own invitations and blocks.
/// When an account is deleted they all go in one transaction, for which everybody waits who writes:
/// 10,000 took a quarter of a second.
pub const EDGES_MAX: i64 = 2_000;

/// Invitations of others that may wait for a user's answer. Who is flooded with them can still invite:
/// they do not count as the user's own doing.
pub const INVITATIONS_MAX: i64 = 1_000;

/// Longest metadata of an edge, bytes.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;

/// What one user is to another; the number is the API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FriendState {
    /// A friend.
    Friend = 0,
    /// Whom the user has invited.
    InvitationSent = 1,
    /// Who has invited the user.
    InvitationReceived = 2,
    /// Whom the user has blocked.
    Blocked = 3,
}

impl FriendState {
    /// The state of a number, 0–3.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        const ALL: [FriendState; 4] = [
            FriendState::Friend,
            FriendState::InvitationSent,
            FriendState::InvitationReceived,
            FriendState::Blocked,
        ];
        usize::try_from(number).ok().and_then(|number| ALL.get(number).copied())
    }
}

/// One of a user's edges, with the user at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Friend {
    /// The other user.
    pub user: User,
    /// What the other user is.
    pub state: FriendState,
    /// When that last changed, unix milliseconds.
    pub update_time_ms: i64,
    /// JSON text of an object that only the owner of the edge sees.
    pub metadata: String,
}

/// Who acts, and what that takes.
#[derive(Debug)]
pub struct By<'a> {
    /// When.
    pub now: Now,
    /// For the ids of notifications.
    pub random: &'a mut Random,
    /// The user.
    pub user_id: Uuid,
    /// By which name others are told of it.
    pub username: &'a str,
}

impl By<'_> {
    /// What another user is told (Nakama 3.40, `server/core_friend.go`).
    fn tell(&self, other: Uuid, code: i32) -> Draft {
        let name = self.username;
        let subject = match code {
            code::FRIEND_REQUEST => format!("{name} wants to add you as a friend"),
            code::FRIEND_ACCEPT => format!("{name} accepted your friend request"),
            _ => format!("{name} removed you as a friend"),
        };
        let mut content = Vec::new();
        write_map(&mut content, &[("username".to_owned(), name.to_owned())]);
        Draft {
            to: Some(other),
            subject,
            content: String::from_utf8_lossy(&content).into_owned(),
            code,
            sender: Some(self.user_id),
            is_persistent: true,
        }
    }

    fn send(&mut self, db: &mut dyn Database, drafts: Vec<Draft>) -> Result<Vec<Sent>, Failure> {
        Ok(notifications::send(db, self.now, self.random, drafts)?)
    }
}

const ADD_FAILED: &str = "Error while trying to add friends.";
const DELETE_FAILED: &str = "Error while trying to delete friends.";
const BLOCK_FAILED: &str = "Error while trying to block friends.";
const METADATA_FAILED: &str = "Error while trying to update friend metadata.";

/// Invites users, and accepts the invitations of those who have invited this one; gives back what
/// these are told. Nothing happens with unknown users, with those who have blocked this one, and with
/// those who are blocked by it.
///
/// # Errors
/// [`ApiError`]: code 3 for metadata that is no object, 5 when there is no such user, 8 beyond
/// [`EDGES_MAX`] or [`INVITATIONS_MAX`], 13. Then nothing has happened.
pub fn add(
    db: &mut dyn Database,
    mut by: By<'_>,
    friends: &[Uuid],
    metadata: &str,
) -> Result<Vec<Sent>, ApiError> {
    check_metadata(metadata)?;
    let added = atomically(db, |db| {
        let (mut drafts, mut flooded) = (Vec::new(), None);
        let users = locked(db, by.user_id, friends)?;
        for friend in each_once(friends) {
            match add_one(db, by.now, (&users, by.user_id), friend, metadata)? {
                Added::Told(code) => drafts.push(by.tell(friend, code)),
                Added::Flooded => flooded = Some(friend),
                Added::Nothing => {}
            }
        }
        match flooded {
            // Somebody else's flood is no reason to refuse the others.
            Some(friend) if drafts.is_empty() => Err(too_many_invitations(friend).into()),
            _ => by.send(db, drafts),
        }
    });
    added.map_err(|failure: Failure| failure.into_error(ADD_FAILED))
}

/// What came of one invitation, or of the answer to one.
enum Added {
    /// Code of what the other user is told.
    Told(i32),
    /// As many invitations wait for the other user's answer as may.
    Flooded,
    Nothing,
}

fn add_one(
    db: &mut dyn Database,
    now: Now,
    (users, user_id): (&BTreeSet<Uuid>, Uuid),
    friend: Uuid,
    metadata: &str,
) -> Result<Added, Failure> {
    let (own, others) = states(db, user_id, friend)?;
    if own == Some(FriendState::InvitationReceived) && others == Some(FriendState::InvitationSent) {
        let merged = merge(&metadata_of(db, user_id, friend)?, metadata);
        check_metadata(&merged)?;
        set_state(db, now, (user_id, friend), FriendState::Friend)?;
        check_own(db, user_id)?;
        set_state(db, now, (friend, user_id), FriendState::Friend)?;
        set_metadata(db, user_id, friend, &merged)?;
        return Ok(Added::Told(code::FRIEND_ACCEPT));
    }
    if own.is_some() || others == Some(FriendState::Blocked) {
        return Ok(Added::Nothing);
    }
    if is_flooded(db, friend)? {
        return Ok(Added::Flooded);
    }
    if !users.contains(&friend) {
        return Ok(Added::Nothing);
    }
    count(db, now, friend, 1)?;
    count_own(db, now, user_id)?;
    let metadata = if metadata.is_empty() { "{}" } else { metadata };
    insert(db, now, (user_id, friend), FriendState::InvitationSent, metadata)?;
    insert(db, now, (friend, user_id), FriendState::InvitationReceived, "{}")?;
    Ok(Added::Told(code::FRIEND_REQUEST))
}

/// Ends friendships, takes back and declines invitations, and lifts blocks; those of others stay.
/// Gives back what the other users are told; of a block that is lifted, nothing.
///
/// # Errors
/// [`ApiError`] with code 13. Then nothing has happened.
pub fn delete(
    db: &mut dyn Database,
    mut by: By<'_>,
    friends: &[Uuid],
) -> Result<Vec<Sent>, ApiError> {
    let (now, user_id) = (by.now, by.user_id);
    let deleted = atomically(db, |db| {
        let mut drafts = Vec::new();
        locked(db, user_id, friends)?;
        for friend in each_once(friends) {
            let own = delete_edge(db, (user_id, friend), FriendState::Blocked)?;
            if own {
                count(db, now, user_id, -1)?;
            }
            let others = delete_edge(db, (friend, user_id), FriendState::InvitationReceived)?;
            if others {
                count(db, now, friend, -1)?;
            }
            if own && others {
                drafts.push(by.tell(friend, code::FRIEND_REMOVE));
            }
        }
        by.send(db, drafts)
    });
    deleted.map_err(|failure: Failure| failure.into_error(DELETE_FAILED))
}

/// Blocks users: what was between them and this one ends, and they cannot invite it. Unknown users
/// are passed over.
///
/// # Errors
/// [`ApiError`]: code 5 when there is no such user, 8 beyond [`EDGES_MAX`], 13. Then nothing has
/// happened.
pub fn block(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    friends: &[Uuid],
) -> Result<(), ApiError> {
    let blocked = atomically(db, |db| {
        let users = locked(db, user_id, friends)?;
        for friend in each_once(friends) {
            if set_state(db, now, (user_id, friend), FriendState::Blocked)? {
                check_own(db, user_id)?;
            } else {
                if !users.contains(&friend) {
                    continue;
                }
                count_own(db, now, user_id)?;
                insert(db, now, (user_id, friend), FriendState::Blocked, "{}")?;
            }
            if delete_edge(db, (friend, user_id), FriendState::InvitationReceived)? {
                count(db, now, friend, -1)?;
            }
        }
        Ok(())
    });
    blocked.map_err(|failure: Failure| failure.into_error(BLOCK_FAILED))
}

/// Replaces what the user keeps of another one; nothing, if there is no edge.
///
/// # Errors
/// [`ApiError`]: code 3 for metadata that is no object, 13.
pub fn update_metadata(
    db: &mut dyn Database,
    user_id: Uuid,
    friend: Uuid,
    metadata: &str,
) -> Result<(), ApiError> {
    check_metadata(metadata)?;
    let metadata = if metadata.is_empty() { "{}" } else { metadata };
    atomically(db, |db| set_metadata(db, user_id, friend, metadata))
        .map_err(ApiError::database(METADATA_FAILED))
}

/// Takes a user who is deleted out of everybody's lists, in an open transaction.
///
/// # Errors
/// Any [`DbError`].
pub(crate) fn forget(db: &mut dyn Database, user_id: Uuid) -> Result<(), DbError> {
    let id = Param::Blob(user_id.as_bytes());
    let sql = "UPDATE users SET edge_count = edge_count - 1 \
        WHERE id IN (SELECT user_id FROM friend WHERE friend_id = $1)";
    db.execute(sql, &[id])?;
    db.execute("DELETE FROM friend WHERE friend_id = $1", &[id])?;
    db.execute("DELETE FROM friend WHERE user_id = $1", &[id])?;
    Ok(())
}

fn each_once(ids: &[Uuid]) -> impl Iterator<Item = Uuid> {
    ids.iter().copied().collect::<BTreeSet<Uuid>>().into_iter()
}

/// Locks a user and others: what is between them, and how much of it each has, nobody else changes
/// until the transaction ends. Those that exist.
fn locked(
    db: &mut dyn Database,
    user_id: Uuid,
    friends: &[Uuid],
) -> Result<BTreeSet<Uuid>, DbError> {
    let ids: Vec<Uuid> = friends.iter().copied().chain([user_id]).collect();
    Ok(user::lock(db, &ids)?.into_keys().collect())
}

fn check_metadata(metadata: &str) -> Result<(), ApiError> {
    if metadata.is_empty() {
        return Ok(());
    }
    if metadata.len() > METADATA_BYTES_MAX {
        let message = format!("Metadata must be at most {METADATA_BYTES_MAX} bytes.");
        return Err(ApiError::invalid(message));
    }
    crate::json::check_object(metadata, "Metadata must be a valid JSON object.")
}

/// The members of both objects; those of the second count.
fn merge(old: &str, new: &str) -> String {
    if new.is_empty() {
        return old.to_owned();
    }
    let decoded = (json::decode(old.as_bytes()), json::decode(new.as_bytes()));
    let (Ok(Value::Map(mut members)), Ok(Value::Map(added))) = decoded else {
        return new.to_owned();
    };
    members.retain(|(name, _)| added.iter().all(|(other, _)| other != name));
    members.extend(added);
    let merged = json::encode(&Value::Map(members)).ok();
    merged.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| new.to_owned())
}

/// From whom to whom.
type Edge = (Uuid, Uuid);

fn params(edge: &Edge) -> [Param<'_>; 2] {
    [Param::Blob(edge.0.as_bytes()), Param::Blob(edge.1.as_bytes())]
}

/// What the second is to the first, and the first to the second.
fn states(
    db: &mut dyn Database,
    one: Uuid,
    other: Uuid,
) -> Result<(Option<FriendState>, Option<FriendState>), DbError> {
    let mut found = (None, None);
    let sql = "SELECT state, user_id FROM friend WHERE user_id = $1 AND friend_id = $2 \
        UNION ALL SELECT state, user_id FROM friend WHERE user_id = $2 AND friend_id = $1";
    db.query(sql, &params(&(one, other)), &mut |row| {
        let state = FriendState::from_number(row.int(0));
        if user::id_at(row, 1) == Some(one) {
            found.0 = state;
        } else {
            found.1 = state;
        }
    })?;
    Ok(found)
}

/// Of an edge that stays as it is until the transaction ends.
fn metadata_of(db: &mut dyn Database, from: Uuid, to: Uuid) -> Result<String, DbError> {
    let mut found = String::new();
    let sql = "SELECT metadata FROM friend WHERE user_id = $1 AND friend_id = $2 \
        /* FOR NO KEY UPDATE */";
    db.query(sql, &params(&(from, to)), &mut |row| found.push_str(row.text(0)))?;
    Ok(found)
}

fn set_metadata(
    db: &mut dyn Database,
    from: Uuid,
    to: Uuid,
    metadata: &str,
) -> Result<(), DbError> {
    let edge = (from, to);
    let [from, to] = params(&edge);
    let sql = "UPDATE friend SET metadata = $3 WHERE user_id = $1 AND friend_id = $2";
    db.execute(sql, &[from, to, Param::Text(metadata)]).map(drop)
}

/// Whether there was such an edge.
fn set_state(
    db: &mut dyn Database,
    now: Now,
    edge: Edge,
    state: FriendState,
) -> Result<bool, DbError> {
    let [from, to] = params(&edge);
    let sql = "UPDATE friend SET state = $3, update_time = $4 \
        WHERE user_id = $1 AND friend_id = $2";
    let changed = [from, to, Param::Int(state as i64), Param::Int(unix_ms(now))];
    Ok(db.execute(sql, &changed)? > 0)
}

fn insert(
    db: &mut dyn Database,
    now: Now,
    edge: Edge,
    state: FriendState,
    metadata: &str,
) -> Result<(), DbError> {
    let [from, to] = params(&edge);
    let sql = "INSERT INTO friend (user_id, friend_id, state, position, update_time, metadata) \
        VALUES ($1, $2, $3, $4, $4, $5)";
    let time = Param::Int(unix_ms(now));
    db.execute(sql, &[from, to, Param::Int(state as i64), time, Param::Text(metadata)]).map(drop)
}

/// Deletes an edge whose state is not above `state_max`; tells whether there was one.
fn delete_edge(db: &mut dyn Database, edge: Edge, state_max: FriendState) -> Result<bool, DbError> {
    let [from, to] = params(&edge);
    let sql = "DELETE FROM friend WHERE user_id = $1 AND friend_id = $2 AND state <= $3";
    Ok(db.execute(sql, &[from, to, Param::Int(state_max as i64)])? > 0)
}

/// Changes how many edges a user has; tells whether there is such a user.
fn count(db: &mut dyn Database, now: Now, user_id: Uuid, by: i64) -> Result<bool, DbError> {
    let sql = "UPDATE users SET edge_count = COALESCE(edge_count, 0) + $2, update_time = $3 \
        WHERE id = $1";
    let id = Param::Blob(user_id.as_bytes());
    Ok(db.execute(sql, &[id, Param::Int(by), Param::Int(unix_ms(now))])? > 0)
}

/// The same for who asks, up to the limit.
fn count_own(db: &mut dyn Database, now: Now, user_id: Uuid) -> Result<(), Failure> {
    if !count(db, now, user_id, 1)? {
        return Err(account_not_found().into());
    }
    check_own(db, user_id)
}

/// Whether the edges that are the user's own doing are within their limit: accepting an invitation, or
/// blocking who has sent it, makes one of what was not.
fn check_own(db: &mut dyn Database, user_id: Uuid) -> Result<(), Failure> {
    let id = Param::Blob(user_id.as_bytes());
    let mut edges = 0;
    let sql = "SELECT edge_count FROM users WHERE id = $1";
    db.query(sql, &[id], &mut |row| edges = row.int(0))?;
    if edges > EDGES_MAX {
        // Seldom, so that the usual case looks at one row.
        let sql = "SELECT COUNT(*) FROM friend WHERE user_id = $1 AND state = 2";
        db.query(sql, &[id], &mut |row| edges -= row.int(0))?;
    }
    if edges > EDGES_MAX {
        let message = format!("Cannot have more than {EDGES_MAX} friends, invitations and blocks.");
        return Err(ApiError::new(Code::ResourceExhausted, message).into());
    }
    Ok(())
}

/// Whether no more invitations may wait for the user's answer.
fn is_flooded(db: &mut dyn Database, user_id: Uuid) -> Result<bool, DbError> {
    let mut is_flooded = false;
    let sql = "SELECT 1 FROM friend WHERE user_id = $1 AND state = 2 LIMIT 1 OFFSET $2";
    let params = [Param::Blob(user_id.as_bytes()), Param::Int(INVITATIONS_MAX - 1)];
    db.query(sql, &params, &mut |_| is_flooded = true)?;
    Ok(is_flooded)
}

fn too_many_invitations(user_id: Uuid) -> ApiError {
    let message =
        format!("User '{user_id}' has {INVITATIONS_MAX} invitations that are not answered yet.");
    ApiError::new(Code::ResourceExhausted, message)
}

/// Reads an edge and its user: the user's columns, then state, update time, metadata and position.
fn read_friend(row: &dyn Row) -> (Friend, i64) {
    const FIRST: usize = user::COLUMNS_COUNT;
    let friend = Friend {
        user: user::read_user(row),
        state: FriendState::from_number(row.int(FIRST)).unwrap_or(FriendState::Blocked),
        update_time_ms: row.int(FIRST + 1),
        metadata: row.text(FIRST + 2).to_owned(),
    };
    (friend, row.int(FIRST + 3))
}

#[cfg(test)]
mod tests {
    use super::merge;

    #[test]
    fn metadata_is_merged_member_by_member() {
        for (old, new, merged) in [
            ("{}", "", "{}"),
            (r#"{"a":1}"#, "", r#"{"a":1}"#),
            (r#"{"a":1,"b":2}"#, r#"{"b":{"c":3}}"#, r#"{"a":1,"b":{"c":3}}"#),
            ("", r#"{"b":1}"#, r#"{"b":1}"#),
        ] {
            assert_eq!(merge(old, new), merged, "{old} {new}");
        }
    }
}
