//! `friends_*` for scripts, which may act for any user.
//!
//! Source: Nakama 3.40, `server/runtime_lua_nakama.go`.

use std::borrow::Cow;

use event::Random;
use uuid::Uuid;

use super::accounts::{committed, member, seconds, table, user_members};
use super::declare::ValueType;
use super::read::{Arg, Read};
use super::{Args, json};
use crate::db::Database;
use crate::directory::Directory;
use crate::error::ApiError;
use crate::friends::{self, By, Friend, FriendState, Page};
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

fn friends_value(friends: &[Friend], directory: &Directory) -> Result<Vec<Value>, HostError> {
    friends.iter().map(|friend| friend_value(friend, directory)).collect()
}

/// Two results: a list, and the cursor for the next page.
pub(super) type PageOf = (Vec<Value>, Option<String>);

/// The cursor for the next page; nil at the end.
pub(super) fn next_page(cursor: String) -> Option<String> {
    Some(cursor).filter(|cursor| !cursor.is_empty())
}

/// A state of friendship; `None` for nil.
#[derive(Clone, Copy)]
pub(super) struct StateOrNone;

/// A state of friendship, which may be nil.
pub(super) const fn state() -> Arg<StateOrNone> {
    Arg::new(ValueType::Number, StateOrNone).or_nil()
}

impl Read for StateOrNone {
    type Value<'a> = Option<FriendState>;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<Option<FriendState>, HostError> {
        if args.is_nil(index) {
            return Ok(None);
        }
        let state = FriendState::from_number(args.int(index)?);
        state.map(Some).ok_or_else(|| args.wrong(index, "expects state to be 0-3"))
    }
}

pub(super) fn list(host: &mut dyn Host, user_id: Uuid, page: &Page) -> Result<PageOf, HostError> {
    let (friends, cursor) = committed(host, "failed to list friends", |db| {
        friends::list(db, user_id, page, SCRIPT_BYTES_MAX)
    })?;
    Ok((friends_value(&friends, host.directory())?, next_page(cursor)))
}

pub(super) fn of_friends(
    host: &mut dyn Host,
    user_id: Uuid,
    limit: usize,
    cursor: &str,
) -> Result<PageOf, HostError> {
    let (found, cursor) = committed(host, "failed to list friends of friends", |db| {
        friends::of_friends(db, user_id, limit, cursor)
    })?;
    let directory = host.directory();
    let rows = found.iter().map(|one| {
        Ok::<_, HostError>(Value::Map(vec![
            member("referrer", Value::text(one.referrer.to_string())),
            member("user", Value::Map(user_members(&one.user, directory)?)),
        ]))
    });
    Ok((rows.collect::<Result<_, _>>()?, next_page(cursor)))
}

pub(super) fn status(
    host: &mut dyn Host,
    user_id: Uuid,
    ids: &[Uuid],
) -> Result<Vec<Value>, HostError> {
    let friends = committed(host, "failed to get the status of friends", |db| {
        friends::status(db, user_id, ids)
    })?;
    friends_value(&friends, host.directory())
}

/// A user who acts, and the users with whom, by ids and by names.
pub(super) struct Whom<'a> {
    pub(super) user_id: Uuid,
    pub(super) username: Cow<'a, str>,
    pub(super) ids: Vec<Uuid>,
    pub(super) usernames: Vec<String>,
}

impl Whom<'_> {
    /// The others, without the user; `refusal` is said if the user is named among them.
    fn others(&mut self, host: &mut dyn Host, refusal: &str) -> Result<Vec<Uuid>, HostError> {
        let is_named = self.usernames.iter().any(|name| *name == self.username);
        if is_named || self.ids.contains(&self.user_id) {
            return Err(HostError::new(refusal));
        }
        let mut users = std::mem::take(&mut self.ids);
        let found = user::ids_of_usernames(host.db(), &self.usernames);
        let found =
            found.map_err(|error| HostError::new(format!("failed to find users: {error}")))?;
        users.extend(found.into_iter().flatten());
        users.retain(|id| *id != self.user_id);
        Ok(users)
    }

    /// Does what others are told of, and tells them.
    fn tell(
        &self,
        host: &mut dyn Host,
        what: &str,
        users: &[Uuid],
        job: impl Fn(&mut dyn Database, By<'_>, &[Uuid]) -> Result<Vec<Sent>, ApiError>,
    ) -> Result<(), HostError> {
        host.may_notify(users.len(), 0)?;
        let now = host.now();
        let mut random = Random::from_seed(host.random().fork());
        let (user_id, username) = (self.user_id, &*self.username);
        let sent = committed(host, what, |db| {
            job(db, By { now, random: &mut random, user_id, username }, users)
        })?;
        host.notify(sent);
        Ok(())
    }
}

/// Metadata of an edge as the database holds it; empty for none.
#[derive(Clone, Copy)]
pub(super) struct Metadata;

/// The metadata of an edge.
pub(super) const fn metadata() -> Arg<Metadata> {
    Arg::new(ValueType::Table, Metadata)
}

impl Read for Metadata {
    type Value<'a> = String;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<String, HostError> {
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
}

pub(super) fn add(
    host: &mut dyn Host,
    mut whom: Whom<'_>,
    metadata: &str,
) -> Result<(), HostError> {
    let users = whom.others(host, "cannot add self as friend")?;
    whom.tell(host, "error adding friends", &users, |db, by, users| {
        friends::add(db, by, users, metadata)
    })
}

pub(super) fn delete(host: &mut dyn Host, mut whom: Whom<'_>) -> Result<(), HostError> {
    let users = whom.others(host, "cannot delete self")?;
    whom.tell(host, "error deleting friends", &users, friends::delete)
}

pub(super) fn block(host: &mut dyn Host, mut whom: Whom<'_>) -> Result<(), HostError> {
    let users = whom.others(host, "cannot block self")?;
    let now = host.now();
    committed(host, "error blocking friends", |db| friends::block(db, now, whom.user_id, &users))?;
    Ok(())
}

pub(super) fn update_metadata(
    host: &mut dyn Host,
    user_id: Uuid,
    friend_id: Uuid,
    metadata: &str,
) -> Result<(), HostError> {
    committed(host, "failed to update friend metadata", |db| {
        friends::update_metadata(db, user_id, friend_id, metadata)
    })?;
    Ok(())
}
