//! Lists of friends and of their friends, page by page. A cursor is the last row of the page before,
//! so that pages stay right while friends come and go.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{Friend, FriendState, read_friend};
use crate::db::{Database, DbError, Param, id_list};
use crate::error::ApiError;
use crate::user::{self, COLUMNS, User};

/// Most friends on one page.
pub const LIST_LIMIT_MAX: usize = 1_000;

/// Most friends of friends on one page.
pub const OF_FRIENDS_LIMIT_MAX: usize = 100;

/// Rows that are looked at for one page of friends of friends: most may be friends already. A page
/// with fewer rows than were asked for has a cursor all the same.
pub const LOOKS_MAX: usize = 2_000;

/// What every failure of the database is to a client.
const FAILED: &str = "Error while trying to list friends.";

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// At most so many.
    pub limit: usize,
    /// Only these; `None` for all.
    pub state: Option<FriendState>,
    /// Empty, or where the page before ended.
    pub cursor: String,
}

/// Where a page ended; both are empty at the end of the list.
pub type Cursor = String;

/// A page of a user's edges, ordered by state and then by age, and the cursor for the next page. It
/// ends before the users and metadata on it have `bytes_max`, but has one row.
///
/// # Errors
/// [`ApiError`]: code 3 for a bad cursor, 13.
pub fn list(
    db: &mut dyn Database,
    user_id: Uuid,
    page: &Page,
    bytes_max: usize,
) -> Result<(Vec<Friend>, Cursor), ApiError> {
    let (from, to) = page.state.map_or((0, 3), |state| (state as i64, state as i64));
    let after = if page.cursor.is_empty() {
        Position { state: from, position: i64::MIN, friend: Uuid::nil() }
    } else {
        let position = Position::parse(&page.cursor).filter(|it| (from..=to).contains(&it.state));
        position.ok_or_else(bad_cursor)?
    };
    let sql = format!(
        "SELECT {COLUMNS}, f.state, f.update_time, f.metadata, f.position \
         FROM friend f JOIN users u ON u.id = f.friend_id \
         WHERE f.user_id = $1 AND f.state <= $2 \
         AND (f.state, f.position, f.friend_id) > ($3, $4, $5) \
         ORDER BY f.state, f.position, f.friend_id LIMIT $6"
    );
    let params = [
        Param::Blob(user_id.as_bytes()),
        Param::Int(to),
        Param::Int(after.state),
        Param::Int(after.position),
        Param::Blob(after.friend.as_bytes()),
        // One more than asked for tells whether there is a next page.
        Param::Int(i64::try_from(page.limit).unwrap_or(0) + 1),
    ];
    let mut rows: Vec<(Friend, i64)> = Vec::new();
    let (mut bytes, mut is_cut) = (0, false);
    db.query(&sql, &params, &mut |row| {
        if is_cut {
            return;
        }
        let (friend, position) = read_friend(row);
        bytes += bytes_of(&friend);
        is_cut = rows.len() == page.limit || (bytes > bytes_max && !rows.is_empty());
        if !is_cut {
            rows.push((friend, position));
        }
    })
    .map_err(ApiError::database(FAILED))?;
    let last = rows.last().filter(|_| is_cut);
    let cursor = last.map_or_else(Cursor::new, |(friend, position)| {
        let (state, friend) = (friend.state as i64, friend.user.id);
        Position { state, position: *position, friend }.text()
    });
    Ok((rows.into_iter().map(|(friend, _)| friend).collect(), cursor))
}

/// About how many bytes a friend has in an answer.
fn bytes_of(friend: &Friend) -> usize {
    const REST: usize = 400;
    let user = &friend.user;
    let texts = [
        &user.username,
        &user.display_name,
        &user.avatar_url,
        &user.location,
        &user.metadata,
        &friend.metadata,
    ];
    // Quotes and backslashes take two bytes.
    REST + texts.iter().map(|text| 2 * text.len()).sum::<usize>()
}

/// What a user has to do with these, in no particular order; those with whom it has nothing to do
/// are left out.
///
/// # Errors
/// [`ApiError`] with code 13.
pub fn status(db: &mut dyn Database, user_id: Uuid, ids: &[Uuid]) -> Result<Vec<Friend>, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS}, f.state, f.update_time, f.metadata, f.position \
         FROM friend f JOIN users u ON u.id = f.friend_id \
         WHERE f.user_id = $1 AND f.friend_id IN (SELECT unhex(value) FROM json_each($2))"
    );
    let mut friends = Vec::new();
    let ids = id_list(ids.iter().collect::<BTreeSet<_>>());
    let params = [Param::Blob(user_id.as_bytes()), Param::Text(&ids)];
    db.query(&sql, &params, &mut |row| friends.push(read_friend(row).0))
        .map_err(ApiError::database(FAILED))?;
    Ok(friends)
}

/// A friend of a friend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfFriends {
    /// The friend.
    pub referrer: Uuid,
    /// Whose friend this user is.
    pub user: User,
}

/// A page of the friends of a user's friends who are not friends themselves, ordered by referrer and
/// id, and the cursor for the next page. One user may be there several times, by several friends.
///
/// # Errors
/// [`ApiError`]: code 3 for a bad cursor, 13.
pub fn of_friends(
    db: &mut dyn Database,
    user_id: Uuid,
    limit: usize,
    cursor: &str,
) -> Result<(Vec<OfFriends>, Cursor), ApiError> {
    let mut after = if cursor.is_empty() {
        (Uuid::nil(), Uuid::nil())
    } else {
        parse_pair(cursor).ok_or_else(bad_cursor)?
    };
    let failed = ApiError::database(FAILED);
    let own = friends_of(db, (user_id, Uuid::nil()), usize::MAX).map_err(&failed)?;
    let own: BTreeSet<Uuid> = own.into_iter().collect();
    let mut found: Vec<(Uuid, Uuid)> = Vec::new();
    let mut looks = 0;
    let mut is_cut = false;
    for referrer in own.range(after.0..) {
        if *referrer != after.0 {
            after = (*referrer, Uuid::nil());
        }
        let theirs = friends_of(db, after, LOOKS_MAX - looks + 1).map_err(&failed)?;
        looks += 1;
        for friend in theirs {
            looks += 1;
            if found.len() == limit || looks > LOOKS_MAX {
                is_cut = true;
                break;
            }
            after.1 = friend;
            if friend != user_id && !own.contains(&friend) {
                found.push((*referrer, friend));
            }
        }
        is_cut |= looks >= LOOKS_MAX;
        if is_cut {
            break;
        }
    }
    let ids: Vec<Uuid> = found.iter().map(|(_, friend)| *friend).collect();
    let users = user::users(db, &ids, &[]).map_err(&failed)?;
    let of = |(referrer, friend): &(Uuid, Uuid)| {
        let user = users.iter().find(|user| user.id == *friend)?.clone();
        Some(OfFriends { referrer: *referrer, user })
    };
    let cursor = if is_cut { pair_text(after) } else { Cursor::new() };
    Ok((found.iter().filter_map(of).collect(), cursor))
}

/// The ids of a user's friends in order, from behind an id on.
fn friends_of(
    db: &mut dyn Database,
    (user_id, after): (Uuid, Uuid),
    limit: usize,
) -> Result<Vec<Uuid>, DbError> {
    let mut ids = Vec::new();
    let sql = "SELECT friend_id FROM friend WHERE user_id = $1 AND friend_id > $2 AND state = 0 \
        ORDER BY friend_id LIMIT $3";
    let limit = Param::Int(i64::try_from(limit).unwrap_or(i64::MAX));
    let params = [Param::Blob(user_id.as_bytes()), Param::Blob(after.as_bytes()), limit];
    db.query(sql, &params, &mut |row| ids.extend(user::id_at(row, 0)))?;
    Ok(ids)
}

fn bad_cursor() -> ApiError {
    ApiError::invalid("Cursor is invalid.")
}

fn pair_text((referrer, friend): (Uuid, Uuid)) -> String {
    URL_SAFE_NO_PAD.encode([referrer.into_bytes(), friend.into_bytes()].concat())
}

fn parse_pair(text: &str) -> Option<(Uuid, Uuid)> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (referrer, friend) = bytes.split_at_checked(16)?;
    Some((Uuid::from_slice(referrer).ok()?, Uuid::from_slice(friend).ok()?))
}

/// Where a page of edges ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    state: i64,
    position: i64,
    friend: Uuid,
}

impl Position {
    fn text(&self) -> String {
        let state = u8::try_from(self.state).unwrap_or(0);
        let position = self.position.to_be_bytes();
        let bytes = [&[state][..], &position, self.friend.as_bytes()].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (state, rest) = bytes.split_first()?;
        let (position, friend) = rest.split_first_chunk::<8>()?;
        Some(Self {
            state: i64::from(*state),
            position: i64::from_be_bytes(*position),
            friend: Uuid::from_slice(friend).ok()?,
        })
    }
}
