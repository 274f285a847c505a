//! Wallets and their ledger for scripts, and `multi_update`. Every function is a transaction of its
//! own, all or none: what failed has changed nothing and can be tried again.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`; record times are unix seconds.

use std::collections::BTreeMap;

use bytes::Bytes;
use event::Now;
use uuid::Uuid;

use super::accounts::{durably, member, seconds, table};
use super::storage::{Item, acks_value, delete_of, items, write_of};
use super::{Args, Meter, Returns, json, one};
use crate::account::AccountUpdate;
use crate::guest::{Host, HostError};
use crate::multi::{MultiUpdate, multi_update as run_multi_update};
use crate::session::new_id;
use crate::value::Value;
use crate::wallet::{self, LEDGER_LIMIT_MAX, LedgerItem, LedgerRow, WalletChange, WalletUpdate};

/// The text of an update's failure, before its cause.
const UPDATE_FAILED: &str = "failed to update user wallet";

/// What refusals call the metadata of a change.
const METADATA: &str = "metadata";

/// Accounts of one `multi_update`; more are an error.
const ACCOUNTS_MAX: usize = 1_000;

/// The members of a table, those of its array part by their numbers as text.
fn members(value: &Value) -> Option<Vec<(Bytes, Value)>> {
    match value {
        Value::Map(members) => Some(members.clone()),
        Value::List(items) => {
            let numbered = (1..).zip(items).filter(|(_, item)| !matches!(item, Value::Nil));
            let numbered =
                numbered.map(|(at, item): (u64, _)| (Bytes::from(at.to_string()), item.clone()));
            Some(numbered.collect())
        }
        _ => None,
    }
}

/// A whole number of a script, whose numbers are doubles: beyond 2^53 all of them are whole.
#[allow(clippy::cast_possible_truncation, reason = "checked: no fraction, within 64 bits")]
fn whole(value: &Value) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Float(number) if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(number) => {
            Some(*number as i64)
        }
        _ => value.as_int(),
    }
}

/// A changeset, or what is wrong with it.
fn changeset(value: &Value) -> Result<BTreeMap<String, i64>, &'static str> {
    const WRONG: &str = "expects changeset values to be whole numbers";
    let members = members(value).ok_or("expects changeset to be table")?;
    let change = |(path, delta): (Bytes, Value)| {
        let path = std::str::from_utf8(&path).map_err(|_| WRONG)?.to_owned();
        Ok((path, whole(&delta).ok_or(WRONG)?))
    };
    members.into_iter().map(change).collect()
}

/// A table as the JSON text of an object; `what` names it where it is none.
pub(super) fn object_text(value: &Value, what: &str, meter: &dyn Meter) -> Result<String, String> {
    let members = members(value).ok_or_else(|| format!("expects {what} to be table"))?;
    let text = json::encode_for(&Value::Map(members), meter);
    let text = text.map_err(|error| format!("failed to convert {what}: {error}"))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A row for the ledger, if there is to be one.
fn ledger_row(host: &mut dyn Host, now: Now, wanted: bool, metadata: String) -> Option<LedgerRow> {
    wanted.then(|| LedgerRow { id: new_id(now, host.random()), metadata })
}

fn amounts(amounts: BTreeMap<String, i64>) -> Value {
    let members = amounts.into_iter().map(|(path, n)| (Bytes::from(path), Value::Int(n)));
    Value::Map(members.collect())
}

fn changes_value(changes: Vec<WalletChange>) -> Value {
    let change = |change: WalletChange| {
        Value::Map(vec![
            member("user_id", Value::text(change.user_id.to_string())),
            member("updated", amounts(change.updated)),
            member("previous", amounts(change.previous)),
        ])
    };
    Value::List(changes.into_iter().map(change).collect())
}

pub(super) fn wallet_update(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    args.filled(0, "expects a valid user id")?;
    let user_id = args.uuid(0, "expects a valid user id")?;
    if members(args.value(1)).is_none() {
        return Err(args.wrong(1, "expects a table as changeset value"));
    }
    let changeset = changeset(args.value(1)).map_err(|what| args.wrong(1, what))?;
    let metadata = match args.value(2) {
        Value::Nil => "{}".to_owned(),
        value => object_text(value, METADATA, args.meter).map_err(|what| args.wrong(2, &what))?,
    };
    let now = host.now();
    let ledger = ledger_row(host, now, args.bool_or(3, false)?, metadata);
    let update = WalletUpdate { user_id, changeset, ledger };
    let changes = durably(host, UPDATE_FAILED, |db| wallet::wallets_update(db, now, &[update]))?;
    let change = changes.into_iter().next().ok_or_else(|| HostError::new("user not found"))?;
    let mut returns = Returns::new();
    returns.push(amounts(change.updated));
    returns.push(amounts(change.previous));
    Ok(returns)
}

/// The updates of a list argument.
fn updates(
    host: &mut dyn Host,
    now: Now,
    items: &[Item<'_>],
    ledger: bool,
) -> Result<Vec<WalletUpdate>, HostError> {
    let update = |item: &Item<'_>| {
        let changeset = match item.member("changeset") {
            None => return Err(item.wrong("expects changeset to be supplied")),
            Some(value) => changeset(value).map_err(|what| item.wrong(what))?,
        };
        let metadata = match item.member("metadata") {
            None => "{}".to_owned(),
            Some(value) => {
                object_text(value, METADATA, item.meter()).map_err(|what| item.wrong(&what))?
            }
        };
        let ledger = ledger_row(host, now, ledger, metadata);
        Ok(WalletUpdate { user_id: item.user_id()?.unwrap_or_default(), changeset, ledger })
    };
    items.iter().map(update).collect()
}

pub(super) fn wallets_update(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let items = items(args, 0, "expects a valid set of updates")?;
    let now = host.now();
    let updates = updates(host, now, &items, args.bool_or(1, false)?)?;
    let changes = durably(host, UPDATE_FAILED, |db| wallet::wallets_update(db, now, &updates))?;
    one(changes_value(changes))
}

fn ledger_value(item: &LedgerItem, metadata: Value) -> Result<Value, HostError> {
    let changeset = table(&item.changeset, || format!("changeset of ledger row {}", item.id))?;
    Ok(Value::Map(vec![
        member("id", Value::text(item.id.to_string())),
        member("user_id", Value::text(item.user_id.to_string())),
        member("create_time", seconds(item.create_time_ms)),
        member("update_time", seconds(item.update_time_ms)),
        member("changeset", changeset),
        member("metadata", metadata),
    ]))
}

pub(super) fn wallet_ledger_list(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    args.filled(0, "expects a valid user id")?;
    let user_id = args.uuid(0, "expects a valid user id")?;
    let limit = usize::try_from(args.int_or(1, 100)?).ok();
    let limit = limit
        .filter(|limit| *limit <= LEDGER_LIMIT_MAX)
        .ok_or_else(|| args.wrong(1, "expects limit to be 0-100"))?;
    let cursor = args.text_or_nil(2)?.unwrap_or_default();
    let (items, cursor) = durably(host, "failed to retrieve user wallet ledger", |db| {
        wallet::ledger_list(db, user_id, limit, &cursor)
    })?;
    let row = |item: &LedgerItem| {
        let metadata = table(&item.metadata, || format!("metadata of ledger row {}", item.id))?;
        ledger_value(item, metadata)
    };
    let rows = items.iter().map(row).collect::<Result<_, _>>()?;
    let mut returns = Returns::new();
    returns.push(Value::List(rows));
    returns.push(Value::text(cursor));
    Ok(returns)
}

/// Returns the row with the metadata that was given, not the merged one, as Nakama does.
pub(super) fn wallet_ledger_update(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    args.filled(0, "expects a valid id")?;
    let id = args.uuid(0, "expects a valid id")?;
    if members(args.value(1)).is_none() {
        return Err(args.wrong(1, "expects a table as metadata value"));
    }
    let metadata =
        object_text(args.value(1), METADATA, args.meter).map_err(|what| args.wrong(1, &what))?;
    let now = host.now();
    let item = durably(host, "failed to update user wallet ledger", |db| {
        wallet::ledger_update(db, now, id, &metadata)
    })?;
    one(ledger_value(&item, args.value(1).clone())?)
}

/// New values of one account.
fn account(item: &Item<'_>) -> Result<(Uuid, AccountUpdate), HostError> {
    let user_id = item.user_id()?.filter(|id| !id.is_nil());
    let user_id = user_id.ok_or_else(|| item.wrong("expects a valid user ID"))?;
    let text = |name: &str| item.text(name).map(|text| text.map(str::to_owned));
    let metadata = item.member("metadata");
    let metadata = metadata.map(|value| object_text(value, METADATA, item.meter())).transpose();
    Ok((
        user_id,
        AccountUpdate {
            // An empty name is none.
            username: text("username")?.filter(|name| !name.is_empty()),
            display_name: text("display_name")?,
            avatar_url: text("avatar_url")?,
            lang_tag: text("lang_tag")?,
            location: text("location")?,
            timezone: text("timezone")?,
            metadata: metadata.map_err(|what| item.wrong(&what))?,
        },
    ))
}

pub(super) fn multi_update(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let accounts = items(args, 0, "expects a valid set of account update data")?;
    if accounts.len() > ACCOUNTS_MAX {
        return Err(args.wrong(0, "too many accounts"));
    }
    let writes = items(args, 1, "expects a valid set of storage data")?;
    let deletes = items(args, 2, "expects a valid set of storage data")?;
    let wallets = items(args, 3, "expects a valid set of updates")?;
    let now = host.now();
    let update = MultiUpdate {
        accounts: accounts.iter().map(account).collect::<Result<_, _>>()?,
        writes: writes.iter().map(write_of).collect::<Result<_, _>>()?,
        deletes: deletes.iter().map(delete_of).collect::<Result<_, _>>()?,
        wallets: updates(host, now, &wallets, args.bool_or(4, false)?)?,
    };
    let mut returns = Returns::new();
    if update == MultiUpdate::default() {
        returns.push(Value::Nil);
        returns.push(Value::Nil);
        return Ok(returns);
    }
    let done =
        durably(host, "error running multi update", |db| run_multi_update(db, now, &update))?;
    let or_nil = |is_empty: bool, value: Value| if is_empty { Value::Nil } else { value };
    returns.push(or_nil(done.acks.is_empty(), acks_value(&done.acks)));
    returns.push(or_nil(done.wallets.is_empty(), changes_value(done.wallets)));
    Ok(returns)
}
