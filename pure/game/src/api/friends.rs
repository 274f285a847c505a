//! The calls about friends.
//!
//! Source: Nakama 3.40, `server/api_friend.go`.

use uuid::Uuid;
use wire::excerpt::excerpt;
use wire::nakama::api::{
    AddFriendsRequest, BlockFriendsRequest, DeleteFriendsRequest, Empty, FriendList,
    FriendOfFriend, FriendsOfFriendsList, ListFriendsOfFriendsRequest, ListFriendsRequest,
};
use wire::nakama::{Timestamp, api};

use super::account::empty;
use super::run::{Cx, limit};
use crate::error::ApiError;
use crate::friends::{self, By, Friend, FriendState, LIST_LIMIT_MAX, OF_FRIENDS_LIMIT_MAX, Page};
use crate::session::Claims;
use crate::user;

/// How many friends of friends are listed when a request does not say.
const OF_FRIENDS_LIMIT_DEFAULT: i32 = 10;

pub(super) fn add_rows(request: &AddFriendsRequest) -> usize {
    // Two users, two edges and a notification each.
    5 * (request.ids.len() + request.usernames.len())
}

pub(super) fn add(cx: &mut Cx<'_>, request: &AddFriendsRequest) -> Result<Empty, ApiError> {
    let refusal = "Cannot add self as friend.";
    let failed = "Error while trying to add friends.";
    let Some(ids) = others(cx, (&request.ids, &request.usernames), refusal, failed)? else {
        return Ok(Empty {});
    };
    check_some(&ids)?;
    let Claims { user_id, username, .. } = cx.caller()?;
    let by = By { now: cx.now, random: cx.random, user_id: *user_id, username };
    let sent = friends::add(cx.db, by, &ids, &request.metadata)?;
    cx.notify(sent);
    Ok(Empty {})
}

pub(super) fn delete_rows(request: &DeleteFriendsRequest) -> usize {
    5 * (request.ids.len() + request.usernames.len())
}

pub(super) fn delete(cx: &mut Cx<'_>, request: &DeleteFriendsRequest) -> Result<Empty, ApiError> {
    let refusal = "Cannot delete self.";
    let failed = "Error while trying to delete friends.";
    let Some(ids) = others(cx, (&request.ids, &request.usernames), refusal, failed)? else {
        return Ok(Empty {});
    };
    let Claims { user_id, username, .. } = cx.caller()?;
    let by = By { now: cx.now, random: cx.random, user_id: *user_id, username };
    let sent = friends::delete(cx.db, by, &ids)?;
    cx.notify(sent);
    Ok(Empty {})
}

pub(super) fn block_rows(request: &BlockFriendsRequest) -> usize {
    4 * (request.ids.len() + request.usernames.len())
}

pub(super) fn block(cx: &mut Cx<'_>, request: &BlockFriendsRequest) -> Result<Empty, ApiError> {
    let refusal = "Cannot block self.";
    let failed = "Error while trying to block friends.";
    let Some(ids) = others(cx, (&request.ids, &request.usernames), refusal, failed)? else {
        return Ok(Empty {});
    };
    let user_id = cx.user_id()?;
    check_some(&ids)?;
    friends::block(cx.db, cx.now, user_id, &ids).map(empty)
}

/// The users whom a request names by ids and names; `None` if it names nobody. Unknown names are left
/// out.
fn others(
    cx: &mut Cx<'_>,
    (ids, names): (&[String], &[String]),
    refusal: &'static str,
    failed: &'static str,
) -> Result<Option<Vec<Uuid>>, ApiError> {
    let caller = cx.caller()?;
    if ids.is_empty() && names.is_empty() {
        return Ok(None);
    }
    let mut users = Vec::with_capacity(ids.len() + names.len());
    for text in ids {
        let id = Uuid::try_parse(text).ok().filter(|id| !id.is_nil());
        let wrong = || ApiError::invalid(format!("Invalid user ID '{}'.", excerpt(text)));
        users.push(id.ok_or_else(wrong)?);
    }
    if names.iter().any(String::is_empty) {
        return Err(ApiError::invalid("Username must not be empty."));
    }
    let is_self = |name: &String| **name == *caller.username;
    if users.contains(&caller.user_id) || names.iter().any(is_self) {
        return Err(ApiError::invalid(refusal));
    }
    let named = user::ids_of_usernames(cx.db, names).map_err(ApiError::database(failed))?;
    users.extend(named.into_iter().flatten());
    // A token may be older than the user's name.
    users.retain(|id| *id != caller.user_id);
    Ok(Some(users))
}

fn check_some(ids: &[Uuid]) -> Result<(), ApiError> {
    if ids.is_empty() {
        return Err(ApiError::invalid("No valid ID or username was provided."));
    }
    Ok(())
}

pub(super) fn list_rows(request: &ListFriendsRequest) -> usize {
    usize::try_from(request.limit.unwrap_or(i32::MAX)).unwrap_or(0).min(LIST_LIMIT_MAX)
}

pub(super) fn list(cx: &mut Cx<'_>, request: &ListFriendsRequest) -> Result<FriendList, ApiError> {
    let wrong = || ApiError::invalid("Invalid state - state must be between 0 and 3.");
    let state = request.state.map(|it| FriendState::from_number(it.into()).ok_or_else(wrong));
    let page = Page {
        limit: limit(request.limit, i32::try_from(LIST_LIMIT_MAX).unwrap_or(0), LIST_LIMIT_MAX)?,
        state: state.transpose()?,
        cursor: request.cursor.clone(),
    };
    let user_id = cx.user_id()?;
    let (friends, cursor) = friends::list(cx.db, user_id, &page, cx.answer_bytes_max)?;
    let message = |friend: Friend| api::Friend {
        state: Some(friend.state as i32),
        update_time: Some(Timestamp::from_unix_ms(friend.update_time_ms)),
        metadata: friend.metadata,
        user: {
            let is_online = cx.directory.is_online(friend.user.id);
            Some(friend.user.into_message(is_online))
        },
    };
    Ok(FriendList { friends: friends.into_iter().map(message).collect(), cursor })
}

/// It looks at many rows for a few, and first at all friends of the caller.
pub(super) fn list_of_friends_rows(_: &ListFriendsOfFriendsRequest) -> usize {
    friends::LOOKS_MAX + usize::try_from(friends::EDGES_MAX).unwrap_or(usize::MAX)
}

pub(super) fn list_of_friends(
    cx: &mut Cx<'_>,
    request: &ListFriendsOfFriendsRequest,
) -> Result<FriendsOfFriendsList, ApiError> {
    let limit = limit(request.limit, OF_FRIENDS_LIMIT_DEFAULT, OF_FRIENDS_LIMIT_MAX)?;
    let user_id = cx.user_id()?;
    let (found, cursor) = friends::of_friends(cx.db, user_id, limit, &request.cursor)?;
    let friends_of_friends = found.into_iter().map(|one| {
        let is_online = cx.directory.is_online(one.user.id);
        let user = Some(one.user.into_message(is_online));
        FriendOfFriend { referrer: one.referrer.to_string(), user }
    });
    Ok(FriendsOfFriendsList { friends_of_friends: friends_of_friends.collect(), cursor })
}
