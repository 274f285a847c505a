//! Accounts, users, logins and links for scripts. Every function is a transaction of its
//! own: what it wrote is durable when it returns.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`; record times are unix seconds.

use std::fmt::Display;

use bytes::Bytes;
use uuid::Uuid;

use super::{Args, Returns, json, none, one};
use crate::account::{self, Account, AccountUpdate, Login, Newcomer};
use crate::api::Disconnect;
use crate::db::{Database, DbError};
use crate::directory::Directory;
use crate::error::ApiError;
use crate::guest::{Host, HostError};
use crate::link;
use crate::session::{Signer, stored};
use crate::user::{self, User};
use crate::value::Value;

/// Ids of one call; more are an error.
const IDS_MAX: usize = 1_000;

/// Places at which `users_get_random` begins to read.
const RANDOM_DRAWS_MAX: usize = 8;

/// Runs `job` and ends the transaction that it opened: committed if it went well, else undone.
pub(super) fn durably<T, E: Display>(
    host: &mut dyn Host,
    what: &str,
    job: impl FnOnce(&mut dyn Database) -> Result<T, E>,
) -> Result<T, HostError> {
    let db = host.db();
    let was_open = db.in_transaction();
    let result = job(db).map_err(|error| HostError::new(format!("{what}: {error}")));
    if !was_open && db.in_transaction() {
        let ended = if result.is_ok() { db.commit() } else { db.rollback() };
        ended.map_err(|error| HostError::new(format!("{what}: {error}")))?;
    }
    result
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

fn users_value(users: &[User], directory: &Directory) -> Result<Value, HostError> {
    let users = users.iter().map(|user| user_members(user, directory).map(Value::Map));
    users.collect::<Result<_, _>>().map(Value::List)
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

/// A list of ids as text.
pub(super) fn ids(args: &Args<'_>, index: usize) -> Result<Vec<Uuid>, HostError> {
    let items = args.list(index).map_err(|_| args.wrong(index, "invalid user id list"))?;
    if items.len() > IDS_MAX {
        return Err(args.wrong(index, "too many ids"));
    }
    let wrong = || args.wrong(index, "each user id must be a valid id string");
    items
        .iter()
        .map(|item| item.as_str().and_then(|id| Uuid::try_parse(id).ok()).ok_or_else(wrong))
        .collect()
}

/// A list of texts.
pub(super) fn texts(args: &Args<'_>, index: usize, what: &str) -> Result<Vec<String>, HostError> {
    let items = args.list(index)?;
    if items.len() > IDS_MAX {
        return Err(args.wrong(index, "too many entries"));
    }
    let text = |item: &Value| item.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    items.iter().map(|item| text(item).ok_or_else(|| args.wrong(index, what))).collect()
}

pub(super) fn user_id(args: &Args<'_>) -> Result<Uuid, HostError> {
    args.filled(0, "expects user id")?;
    args.uuid(0, "expects user ID to be a valid identifier")
}

pub(super) fn account_get_id(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let user_id = user_id(args)?;
    let what = format!("failed to get account for user_id {user_id}");
    let found = durably(host, &what, |db| account::account(db, user_id))?;
    let found = found.ok_or_else(|| HostError::new(format!("{what}: account not found")))?;
    one(account_value(&found, host.directory())?)
}

pub(super) fn accounts_get_id(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let user_ids = ids(args, 0)?;
    let devices = texts(args, 1, "each device id must be a string")?;
    let accounts = durably(host, "failed to get accounts", |db| {
        let mut accounts: Vec<Account> = Vec::new();
        for user_id in &user_ids {
            accounts.extend(account::account(db, *user_id)?);
        }
        for device in &devices {
            accounts.extend(account::account_of_device(db, device)?);
        }
        Ok::<_, DbError>(accounts)
    })?;
    let values = accounts.iter().map(|account| account_value(account, host.directory()));
    one(Value::List(values.collect::<Result<_, _>>()?))
}

pub(super) fn account_update_id(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let user_id = user_id(args)?;
    let metadata = match args.value(1) {
        Value::Nil => None,
        value @ (Value::Map(_) | Value::List(_)) => {
            let text = json::encode_for(value, args.meter)
                .map_err(|error| HostError::new(format!("error encoding metadata: {error}")))?;
            Some(String::from_utf8_lossy(&text).into_owned())
        }
        _ => return Err(args.wrong(1, "table expected")),
    };
    let text = |index: usize| -> Result<Option<String>, HostError> {
        let text = args.text_or_nil(index)?;
        Ok(text.filter(|text| !text.is_empty()).map(std::borrow::Cow::into_owned))
    };
    let update = AccountUpdate {
        username: text(2)?,
        display_name: text(3)?,
        timezone: text(4)?,
        location: text(5)?,
        lang_tag: text(6)?,
        avatar_url: text(7)?,
        metadata,
    };
    if update == AccountUpdate::default() {
        return none();
    }
    let now = host.now();
    durably(host, "error while trying to update user", |db| {
        account::update(db, now, user_id, &update)
    })?;
    none()
}

pub(super) fn account_delete_id(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let user_id = user_id(args)?;
    let (now, lifetime_s) = (host.now(), host.settings().session.lifetime_s());
    host.may_cut_off(1)?;
    let gone = durably(host, "error while trying to delete account", |db| {
        account::delete(db, now, lifetime_s, user_id)
    })?;
    host.revoke(gone);
    host.user_disconnect(user_id, Disconnect::Deleted);
    none()
}

pub(super) fn users_get_id(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let user_ids = ids(args, 0)?;
    let users = durably(host, "failed to get users", |db| user::users(db, &user_ids, &[]))?;
    one(users_value(&users, host.directory())?)
}

pub(super) fn users_get_username(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let names = texts(args, 0, "each username must be a string")?;
    let users = durably(host, "failed to get users", |db| user::users(db, &[], &names))?;
    one(users_value(&users, host.directory())?)
}

pub(super) fn users_get_random(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let Some(count @ 0..=1_000) = usize::try_from(args.int_or(0, 0)?).ok() else {
        return Err(args.wrong(0, "count must be 0-1000"));
    };
    let draws: Vec<u128> = (0..count.min(RANDOM_DRAWS_MAX))
        .map(|_| u128::from_be_bytes(host.random().bytes()))
        .collect();
    let what = "failed to get users";
    let users = durably(host, what, |db| user::random_users(db, &draws, count))?;
    one(users_value(&users, host.directory())?)
}

pub(super) fn users_ban_id(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_ids, now) = (ids(args, 0)?, host.now());
    let lifetime_s = host.settings().session.lifetime_s();
    host.may_cut_off(user_ids.len())?;
    let (known, revocations) =
        durably(host, "failed to ban users", |db| account::ban(db, now, lifetime_s, &user_ids))?;
    revocations.into_iter().for_each(|revocation| host.revoke(revocation));
    known.into_iter().for_each(|user_id| host.user_disconnect(user_id, Disconnect::Banned));
    none()
}

pub(super) fn users_unban_id(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_ids, now) = (ids(args, 0)?, host.now());
    host.may_cut_off(user_ids.len())?;
    let lifted = durably(host, "failed to unban users", |db| account::unban(db, now, &user_ids))?;
    lifted.into_iter().for_each(|revocation| host.revoke(revocation));
    none()
}

/// `user_id, username, created` of a login.
fn login(
    host: &mut dyn Host,
    job: impl FnOnce(&mut dyn Database, &Newcomer) -> Result<Login, ApiError>,
) -> Result<Returns, HostError> {
    let now = host.now();
    let newcomer = Newcomer::draw(now, host.random());
    let login = durably(host, "error finding or creating user", |db| job(db, &newcomer))?;
    let mut returns = Returns::new();
    returns.push(Value::text(login.user_id.to_string()));
    returns.push(Value::text(login.username));
    returns.push(Value::Bool(login.created));
    Ok(returns)
}

pub(super) fn authenticate_device(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let id = args.filled_text(0, "expects device ID string")?;
    let name = args.text_or_nil(1)?.unwrap_or_default();
    let create = args.bool_or(2, true)?;
    login(host, |db, newcomer| account::authenticate_device(db, newcomer, &id, &name, create))
}

pub(super) fn authenticate_custom(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let id = args.filled_text(0, "expects ID string")?;
    let name = args.text_or_nil(1)?.unwrap_or_default();
    let create = args.bool_or(2, true)?;
    login(host, |db, newcomer| account::authenticate_custom(db, newcomer, &id, &name, create))
}

pub(super) fn authenticate_email(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    args.slowly()?;
    let email = args.text_or_nil(0)?.unwrap_or_default();
    let password = args.filled_text(1, "expects password string")?;
    let name = args.text_or_nil(2)?.unwrap_or_default();
    let create = args.bool_or(3, true)?;
    if email.is_empty() {
        return login(host, |db, _| account::authenticate_username(db, &name, &password));
    }
    let secret = (&*email, &*password);
    login(host, |db, newcomer| account::authenticate_email(db, newcomer, secret, &name, create))
}

pub(super) fn authenticate_token_generate(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    args.filled(0, "expects user id")?;
    let user_id = args.uuid(0, "expects valid user id")?;
    let now = host.now();
    let mut name = args.text_or_nil(1)?.unwrap_or_default().into_owned();
    if name.is_empty() {
        let newcomer = Newcomer::draw(now, host.random());
        name = String::from_utf8_lossy(&newcomer.username).into_owned();
    }
    let expires_s = u64::try_from(args.int_or(2, 0)?)
        .map_err(|_| args.wrong(2, "expects a time in unix seconds"))?;
    let vars = match args.value(3) {
        Value::Nil => Vec::new(),
        Value::Map(members) => members
            .iter()
            .map(|(name, value)| {
                let name = std::str::from_utf8(name).ok()?.to_owned();
                Some((name, value.as_str()?.to_owned()))
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| args.wrong(3, "vars values must be strings"))?,
        _ => return Err(args.wrong(3, "table expected")),
    };
    let (signer, lifetime_s) =
        (Signer::new(&host.settings().session), host.settings().session.lifetime_s());
    durably(host, "failed to generate a token", |db| {
        stored::expect(db, now, lifetime_s, expires_s)
    })?;
    let (token, expires_s) =
        signer.issue_session(now, host.random(), user_id, &name, &vars, expires_s);
    let mut returns = Returns::new();
    returns.push(Value::text(token));
    returns.push(super::system::int(expires_s));
    Ok(returns)
}

pub(super) fn link_device(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_id, id, now) = (user_id(args)?, args.text(1)?, host.now());
    durably(host, "error linking", |db| link::link_device(db, now, user_id, &id))?;
    none()
}

pub(super) fn link_custom(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_id, id, now) = (user_id(args)?, args.text(1)?, host.now());
    durably(host, "error linking", |db| link::link_custom(db, now, user_id, &id))?;
    none()
}

pub(super) fn link_email(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    args.slowly()?;
    let (user_id, now) = (user_id(args)?, host.now());
    let (email, password) = (args.text(1)?, args.text(2)?);
    let salt = host.random().bytes();
    durably(host, "error linking", |db| {
        link::link_email(db, now, user_id, (&email, &password), salt)
    })?;
    none()
}

pub(super) fn unlink_device(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_id, id, now) = (user_id(args)?, args.text(1)?, host.now());
    durably(host, "error unlinking", |db| link::unlink_device(db, now, user_id, &id))?;
    none()
}

pub(super) fn unlink_custom(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_id, now) = (user_id(args)?, host.now());
    let id = args.text_or_nil(1)?.unwrap_or_default();
    durably(host, "error unlinking", |db| link::unlink_custom(db, now, user_id, &id))?;
    none()
}

pub(super) fn unlink_email(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let (user_id, now) = (user_id(args)?, host.now());
    let email = args.text_or_nil(1)?.unwrap_or_default();
    durably(host, "error unlinking", |db| link::unlink_email(db, now, user_id, &email))?;
    none()
}
