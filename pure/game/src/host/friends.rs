//! `friends_*` for scripts, which may act for any user.
//!
//! Source: Nakama 3.40, `server/runtime_lua_nakama.go`.

use std::borrow::Cow;

use event::Random;
use uuid::Uuid;

use super::accounts::{durably, ids, member, seconds, table, texts, user_id, user_members};
use super::{Args, Returns, json, none, one};
use crate::db::Database;
use crate::directory::Directory;
use crate::error::ApiError;
use crate::friends::{self, By, Friend, LIST_LIMIT_MAX, OF_FRIENDS_LIMIT_MAX, Page, State};
use crate::guest::{Host, HostError};
use crate::notifications::Sent;
use crate::storage::SCRIPT_BYTES_MAX;
use crate::user;
use crate::value::Value;

fn friend_value(friend: &Friend, directory: &Directory) -> Result<Value, HostError> {
    let what = || format!("metadata of friend {}", friend.user.id);
    Ok(Value::Map(vec![
        member("user", Value::Map(user_members(&friend.user, directory)?)),
        member("state", Value::Int(friend.state as i64)),
        member("update_time", seconds(friend.update_time_ms)),
        member("metadata", table(&friend.metadata, what)?),
    ]))
}

fn friends_value(friends: &[Friend], directory: &Directory) -> Result<Value, HostError> {
    let friends = friends.iter().map(|friend| friend_value(friend, directory));
    friends.collect::<Result<_, _>>().map(Value::List)
}

pub(super) fn limit(
    args: &Args<'_>,
    index: usize,
    default: i64,
    max: usize,
) -> Result<usize, HostError> {
    let limit = usize::try_from(args.int_or(index, default)?).unwrap_or(0);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(args.wrong(index, &format!("expects limit to be 1-{max}")))
}

/// Two results: a list, and the cursor for the next page; nil at the end.
pub(super) fn page_of(list: Value, cursor: String) -> Returns {
    let mut returns = Returns::new();
    returns.push(list);
    returns.push(if cursor.is_empty() { Value::Nil } else { Value::text(cursor) });
    returns
}

pub(super) fn friends_list(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let user_id = user_id(args)?;
    let wrong_state = || args.wrong(2, "expects state to be 0-3");
    let state = match args.value(2) {
        Value::Nil => None,
        _ => Some(State::from_number(args.int(2)?).ok_or_else(wrong_state)?),
    };
    let cursor = args.text_or_nil(3)?.unwrap_or_default().into_owned();
    let page = Page { limit: limit(args, 1, 100, LIST_LIMIT_MAX)?, state, cursor };
    let (friends, cursor) = durably(host, "failed to list friends", |db| {
        friends::list(db, user_id, &page, SCRIPT_BYTES_MAX)
    })?;
    Ok(page_of(friends_value(&friends, host.directory())?, cursor))
}

pub(super) fn friends_of_friends_list(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let user_id = user_id(args)?;
    let limit = limit(args, 1, 10, OF_FRIENDS_LIMIT_MAX)?;
    let cursor = args.text_or_nil(2)?.unwrap_or_default().into_owned();
    let (found, cursor) = durably(host, "failed to list friends of friends", |db| {
        friends::of_friends(db, user_id, limit, &cursor)
    })?;
    let directory = host.directory();
    let rows = found.iter().map(|one| {
        Ok::<_, HostError>(Value::Map(vec![
            member("referrer", Value::text(one.referrer.to_string())),
            member("user", Value::Map(user_members(&one.user, directory)?)),
        ]))
    });
    Ok(page_of(Value::List(rows.collect::<Result<_, _>>()?), cursor))
}

pub(super) fn users_get_friend_status(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let (user_id, ids) = (user_id(args)?, ids(args, 1)?);
    let friends = durably(host, "failed to get the status of friends", |db| {
        friends::status(db, user_id, &ids)
    })?;
    one(friends_value(&friends, host.directory())?)
}

/// Whom `(user_id, username, ids, usernames)` names.
struct Named<'a> {
    /// The user who acts.
    user_id: Uuid,
    username: Cow<'a, str>,
    /// The others, without that user.
    users: Vec<Uuid>,
}

fn named<'a>(host: &mut dyn Host, args: &Args<'a>, refusal: &str) -> Result<Named<'a>, HostError> {
    let user_id = user_id(args)?;
    let username = args.text(1)?;
    let mut users = ids(args, 2)?;
    let names = texts(args, 3, "each username must be a non-empty string")?;
    if users.contains(&user_id) || names.iter().any(|name| *name == username) {
        return Err(HostError::new(refusal));
    }
    for name in &names {
        let found = user::id_of_username(host.db(), name);
        users.extend(
            found.map_err(|error| HostError::new(format!("failed to find users: {error}")))?,
        );
    }
    users.retain(|id| *id != user_id);
    Ok(Named { user_id, username, users })
}

/// Does what others are told of, and tells them.
fn telling(
    host: &mut dyn Host,
    what: &str,
    Named { user_id, username, users }: Named<'_>,
    job: impl FnOnce(&mut dyn Database, By<'_>, &[Uuid]) -> Result<Vec<Sent>, ApiError>,
) -> Result<Returns, HostError> {
    host.may_notify(users.len(), 0)?;
    let now = host.now();
    let mut random = Random::from_seed(host.random().fork());
    let by = By { now, random: &mut random, user_id, username: &username };
    let sent = durably(host, what, |db| job(db, by, &users))?;
    host.notify(sent);
    none()
}

/// Metadata of an edge as the database holds it; empty for none.
fn metadata(args: &Args<'_>, index: usize) -> Result<String, HostError> {
    match args.value(index) {
        Value::Nil => Ok(String::new()),
        value @ Value::Map(_) => {
            let json = json::encode_for(value, args.meter);
            let json = json.map_err(|error| {
                args.wrong(index, &format!("failed to convert metadata: {error}"))
            })?;
            Ok(String::from_utf8_lossy(&json).into_owned())
        }
        _ => Err(args.wrong(index, "expects metadata to be a table")),
    }
}

pub(super) fn friends_add(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let named = named(host, args, "cannot add self as friend")?;
    let metadata = metadata(args, 4)?;
    telling(host, "error adding friends", named, |db, by, users| {
        friends::add(db, by, users, &metadata)
    })
}

pub(super) fn friends_delete(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let named = named(host, args, "cannot delete self")?;
    telling(host, "error deleting friends", named, friends::delete)
}

pub(super) fn friends_block(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let Named { user_id, users, .. } = named(host, args, "cannot block self")?;
    let now = host.now();
    durably(host, "error blocking friends", |db| friends::block(db, now, user_id, &users))?;
    none()
}

pub(super) fn friend_metadata_update(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let user_id = user_id(args)?;
    let friend = args.uuid(1, "expects friend ID to be a valid identifier")?;
    let metadata = metadata(args, 2)?;
    durably(host, "failed to update friend metadata", |db| {
        friends::update_metadata(db, user_id, friend, &metadata)
    })?;
    none()
}
