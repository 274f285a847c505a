//! Accounts, users, logins and links for scripts. Every function is a transaction of its
//! own: what it wrote is committed when it returns.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`; record times are unix seconds.

use std::fmt::Display;
use std::marker::PhantomData;

use bytes::Bytes;
use event::Now;
use uuid::Uuid;

use super::declare::{Table, ValueType};
use super::read::{Arg, Read, Strings, Within, within_or};
use super::{Args, json};
use crate::account::{self, Account, AccountUpdate, Login, NewAccount};
use crate::api::Disconnect;
use crate::db::{Database, MayConflict, TRIES_MAX};
use crate::directory::Directory;
use crate::error::ApiError;
use crate::guest::{Host, HostError};
use crate::session::{Signer, stored};
use crate::user::{self, User};
use crate::value::Value;

/// Places at which `users_get_random` begins to read.
const RANDOM_DRAWS_MAX: usize = 8;

/// Runs `job` and ends the transaction that it opened: committed if it went well, else undone. If
/// another writer was in its way, the job runs again, [`TRIES_MAX`] times in all. Where the host does
/// not commit ([`Host::commits`]) it runs once, in the transaction that is open or that it opens, and
/// undoes itself alone if it fails, as all jobs do ([`crate::account`]).
pub(super) fn committed<T, E: Display + MayConflict>(
    host: &mut dyn Host,
    what: &str,
    mut job: impl FnMut(&mut dyn Database) -> Result<T, E>,
) -> Result<T, HostError> {
    let commits = host.commits();
    let db = host.db();
    let failed = |error: &dyn Display| HostError::new(format!("{what}: {error}"));
    if !commits || db.in_transaction() {
        return job(db).map_err(|error| {
            let text = format!("{what}: {error}");
            if error.is_conflict() {
                host.meets_writer();
                HostError::conflict(text)
            } else {
                HostError::new(text)
            }
        });
    }
    let mut tries = 0;
    loop {
        tries += 1;
        let result = job(db);
        let ended = match (&result, db.in_transaction()) {
            (_, false) => Ok(()),
            (Ok(_), true) => db.commit(),
            (Err(_), true) => db.rollback(),
        };
        let is_conflict = match (&result, &ended) {
            (_, Err(error)) => error.is_conflict(),
            (Err(error), Ok(())) => error.is_conflict(),
            (Ok(_), Ok(())) => false,
        };
        if !is_conflict || tries >= TRIES_MAX {
            ended.map_err(|error| failed(&error))?;
            return result.map_err(|error| failed(&error));
        }
        db.note_retry();
    }
}

/// A member of a table.
pub(super) fn member(name: &'static str, value: Value) -> (Bytes, Value) {
    (Bytes::from_static(name.as_bytes()), value)
}

/// Unix milliseconds as a record's seconds.
pub(super) fn seconds(unix_ms: i64) -> Value {
    Value::Int(unix_ms.div_euclid(1_000))
}

/// JSON text as a table. What cannot be read is an error that says what it is: an empty table in
/// its place would be written back.
pub(super) fn table(text: &str, what: impl Fn() -> String) -> Result<Value, HostError> {
    json::decode(text.as_bytes())
        .map_err(|error| HostError::new(format!("{} cannot be read: {error}", what())))
}

/// The fields that accounts and users share.
pub(super) fn user_members(
    user: &User,
    directory: &Directory,
) -> Result<Vec<(Bytes, Value)>, HostError> {
    let metadata = table(&user.metadata, || format!("metadata of user {}", user.id))?;
    Ok(vec![
        member("user_id", Value::text(user.id.to_string())),
        member("username", Value::text(&*user.username)),
        member("display_name", Value::text(&*user.display_name)),
        member("avatar_url", Value::text(&*user.avatar_url)),
        member("lang_tag", Value::text(&*user.lang_tag)),
        member("location", Value::text(&*user.location)),
        member("timezone", Value::text(&*user.timezone)),
        member("online", Value::Bool(directory.is_online(user.id))),
        member("edge_count", Value::Int(user.edge_count)),
        member("create_time", seconds(user.create_time_ms)),
        member("update_time", seconds(user.update_time_ms)),
        member("metadata", metadata),
    ])
}

fn users_value(users: &[User], directory: &Directory) -> Result<Vec<Value>, HostError> {
    users.iter().map(|user| user_members(user, directory).map(Value::Map)).collect()
}

fn account_value(account: &Account, directory: &Directory) -> Result<Value, HostError> {
    let mut members = user_members(&account.user, directory)?;
    members.push(member("user", Value::Map(members.clone())));
    let wallet = table(&account.wallet, || format!("wallet of user {}", account.user.id))?;
    members.push(member("wallet", wallet));
    if !account.email.is_empty() {
        members.push(member("email", Value::text(&*account.email)));
    }
    if !account.devices.is_empty() {
        let device = |id: &String| Value::Map(vec![member("id", Value::text(&**id))]);
        let devices = account.devices.iter().map(device).collect();
        members.push(member("devices", Value::List(devices)));
    }
    if !account.custom_id.is_empty() {
        members.push(member("custom_id", Value::text(&*account.custom_id)));
    }
    for (name, time_ms) in
        [("verify_time", account.verify_time_ms), ("disable_time", account.user.disable_time_ms)]
    {
        if time_ms > 0 {
            members.push(member(name, seconds(time_ms)));
        }
    }
    Ok(Value::Map(members))
}

/// The variables of a session.
pub(super) const VARS: Strings<Vec<(String, String)>> = Strings {
    not_table: "table expected",
    not_key: "vars keys must be strings",
    not_value: "vars values must be strings",
    most: (usize::MAX, ""),
    collection: PhantomData,
};

/// The metadata of an account as JSON text; `None` for nil.
#[derive(Clone, Copy)]
pub(super) struct Metadata;

/// The metadata of an account, which may be nil.
pub(super) const fn metadata() -> Arg<Metadata> {
    Arg::new(ValueType::Table, Metadata).or_nil()
}

impl Read for Metadata {
    type Value<'a> = Option<String>;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<Option<String>, HostError> {
        match args.value(index) {
            Value::Nil => Ok(None),
            value @ (Value::Map(_) | Value::List(_)) => {
                let text = json::encode_for(value, args.meter)
                    .map_err(|error| HostError::new(format!("error encoding metadata: {error}")))?;
                Ok(Some(String::from_utf8_lossy(&text).into_owned()))
            }
            _ => Err(args.wrong(index, "table expected")),
        }
    }
}

pub(super) fn account(host: &mut dyn Host, user_id: Uuid) -> Result<Table, HostError> {
    let what = format!("failed to get account for user_id {user_id}");
    let found = committed(host, &what, |db| account::account(db, user_id))?;
    let found = found.ok_or_else(|| HostError::new(format!("{what}: account not found")))?;
    account_value(&found, host.directory()).map(Table)
}

pub(super) fn accounts(
    host: &mut dyn Host,
    user_ids: &[Uuid],
    devices: &[String],
) -> Result<Vec<Value>, HostError> {
    let accounts =
        committed(host, "failed to get accounts", |db| account::accounts(db, user_ids, devices))?;
    accounts.iter().map(|account| account_value(account, host.directory())).collect()
}

pub(super) fn update(
    host: &mut dyn Host,
    user_id: Uuid,
    update: &AccountUpdate,
) -> Result<(), HostError> {
    if *update == AccountUpdate::default() {
        return Ok(());
    }
    let now = host.now();
    committed(host, "error while trying to update user", |db| {
        account::update(db, now, user_id, update)
    })?;
    Ok(())
}

pub(super) fn delete(host: &mut dyn Host, user_id: Uuid) -> Result<(), HostError> {
    let (now, lifetime_s) = (host.now(), host.settings().session.lifetime_s());
    host.may_cut_off(1)?;
    let gone = committed(host, "error while trying to delete account", |db| {
        account::delete(db, now, lifetime_s, user_id)
    })?;
    host.revoke(gone);
    host.user_disconnect(user_id, Disconnect::Deleted);
    Ok(())
}

pub(super) fn users(
    host: &mut dyn Host,
    user_ids: &[Uuid],
    usernames: &[String],
) -> Result<Vec<Value>, HostError> {
    let users = committed(host, "failed to get users", |db| user::users(db, user_ids, usernames))?;
    users_value(&users, host.directory())
}

/// How many users are wanted.
pub(super) const fn random_count() -> Arg<Within<usize>> {
    within_or(0, 0, 1_000, "count must be 0-1000")
}

pub(super) fn random_users(host: &mut dyn Host, count: usize) -> Result<Vec<Value>, HostError> {
    let draws: Vec<u128> = (0..count.min(RANDOM_DRAWS_MAX))
        .map(|_| u128::from_be_bytes(host.random().bytes()))
        .collect();
    let what = "failed to get users";
    let users = committed(host, what, |db| user::random_users(db, &draws, count))?;
    users_value(&users, host.directory())
}

pub(super) fn ban(host: &mut dyn Host, user_ids: &[Uuid]) -> Result<(), HostError> {
    let (now, lifetime_s) = (host.now(), host.settings().session.lifetime_s());
    host.may_cut_off(user_ids.len())?;
    let (known, revocations) =
        committed(host, "failed to ban users", |db| account::ban(db, now, lifetime_s, user_ids))?;
    revocations.into_iter().for_each(|revocation| host.revoke(revocation));
    known.into_iter().for_each(|user_id| host.user_disconnect(user_id, Disconnect::Banned));
    Ok(())
}

pub(super) fn unban(host: &mut dyn Host, user_ids: &[Uuid]) -> Result<(), HostError> {
    let now = host.now();
    host.may_cut_off(user_ids.len())?;
    let lifted = committed(host, "failed to unban users", |db| account::unban(db, now, user_ids))?;
    lifted.into_iter().for_each(|revocation| host.revoke(revocation));
    Ok(())
}

/// `user_id, username, created` of a login.
pub(super) fn login(
    host: &mut dyn Host,
    job: impl Fn(&mut dyn Database, &NewAccount) -> Result<Login, ApiError>,
) -> Result<(String, String, bool), HostError> {
    let now = host.now();
    let new_account = NewAccount::draw(now, host.random());
    let login = committed(host, "error finding or creating user", |db| job(db, &new_account))?;
    Ok((login.user_id.to_string(), login.username, login.created))
}

/// A token for a user, and when it expires; a username is drawn if none is given.
pub(super) fn token(
    host: &mut dyn Host,
    user_id: Uuid,
    username: &str,
    expires_s: u64,
    vars: &[(String, String)],
) -> Result<(String, u64), HostError> {
    let now = host.now();
    let drawn = username.is_empty().then(|| NewAccount::draw(now, host.random()).username);
    let drawn = drawn.map(|name| String::from_utf8_lossy(&name).into_owned());
    let username = drawn.as_deref().unwrap_or(username);
    let (signer, lifetime_s) =
        (Signer::new(&host.settings().session), host.settings().session.lifetime_s());
    committed(host, "failed to generate a token", |db| {
        stored::expect(db, now, lifetime_s, expires_s)
    })?;
    // Later than what was expected by now: who logs the user out before this sees that.
    Ok(signer.issue_session(host.now(), host.random(), user_id, username, vars, expires_s))
}

/// Adds a way to log in.
pub(super) fn linked(
    host: &mut dyn Host,
    job: impl Fn(&mut dyn Database, Now) -> Result<(), ApiError>,
) -> Result<(), HostError> {
    let now = host.now();
    committed(host, "error linking", |db| job(db, now))
}

/// Takes a way to log in away.
pub(super) fn unlinked(
    host: &mut dyn Host,
    job: impl Fn(&mut dyn Database, Now) -> Result<(), ApiError>,
) -> Result<(), HostError> {
    let now = host.now();
    committed(host, "error unlinking", |db| job(db, now))
}
