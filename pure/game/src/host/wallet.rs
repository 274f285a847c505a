//! Wallets and their ledger for scripts, and `multi_update`. Every function is a transaction of its
//! own, all or none: what failed has changed nothing and can be tried again.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`; record times are unix seconds.

use std::collections::BTreeMap;

use bytes::Bytes;
use event::Now;
use uuid::Uuid;

use super::accounts::{committed, member, seconds, table};
use super::declare::{Table, ValueType};
use super::read::{Arg, Read, Record, Within, within_or};
use super::storage::{acks_value, delete_of, write_of};
use super::{Args, Meter, json};
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

/// The metadata of a change without any.
const NO_METADATA: &str = "{}";

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

/// A row for the ledger.
fn ledger_row(host: &mut dyn Host, now: Now, metadata: String) -> LedgerRow {
    LedgerRow { id: new_id(now, host.random()), metadata }
}

fn amounts(amounts: BTreeMap<String, i64>) -> Value {
    let members = amounts.into_iter().map(|(path, n)| (Bytes::from(path), Value::Int(n)));
    Value::Map(members.collect())
}

fn changes_value(changes: Vec<WalletChange>) -> Vec<Value> {
    let change = |change: WalletChange| {
        Value::Map(vec![
            member("user_id", Value::text(change.user_id.to_string())),
            member("updated", amounts(change.updated)),
            member("previous", amounts(change.previous)),
        ])
    };
    changes.into_iter().map(change).collect()
}

/// Amounts to add to a wallet.
#[derive(Clone, Copy)]
pub(super) struct Changes;

/// Amounts to add to a wallet.
pub(super) const fn changes() -> Arg<Changes> {
    Arg::new(ValueType::Table, Changes)
}

impl Read for Changes {
    type Value<'a> = BTreeMap<String, i64>;

    fn read<'a>(&self, args: &Args<'a>, index: usize) -> Result<Self::Value<'a>, HostError> {
        match args.value(index) {
            value @ (Value::Map(_) | Value::List(_)) => {
                changeset(value).map_err(|what| args.wrong(index, what))
            }
            _ => Err(args.wrong(index, "expects a table as changeset value")),
        }
    }
}

/// The metadata of a change as JSON text; nil is none.
#[derive(Clone, Copy)]
pub(super) struct Metadata;

/// The metadata of a change.
pub(super) const fn metadata() -> Arg<Metadata> {
    Arg::new(ValueType::Table, Metadata).or_nil()
}

impl Read for Metadata {
    type Value<'a> = String;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<String, HostError> {
        match args.value(index) {
            Value::Nil => Ok(NO_METADATA.to_owned()),
            value => {
                object_text(value, METADATA, args.meter).map_err(|what| args.wrong(index, &what))
            }
        }
    }
}

/// How many rows of the ledger are wanted.
pub(super) const fn ledger_limit() -> Arg<Within<usize>> {
    const { assert!(LEDGER_LIMIT_MAX == 100, "the text below says so") };
    within_or(100, 0, 100, "expects limit to be 0-100")
}

/// Changes one wallet; `ledger` is the metadata of a row that is kept of it.
pub(super) fn update(
    host: &mut dyn Host,
    user_id: Uuid,
    changeset: BTreeMap<String, i64>,
    ledger: Option<String>,
) -> Result<(Table, Table), HostError> {
    let now = host.now();
    let ledger = ledger.map(|metadata| ledger_row(host, now, metadata));
    let updates = [WalletUpdate { user_id, changeset, ledger }];
    let changes = committed(host, UPDATE_FAILED, |db| wallet::wallets_update(db, now, &updates))?;
    let change = changes.into_iter().next().ok_or_else(|| HostError::new("user not found"))?;
    Ok((Table(amounts(change.updated)), Table(amounts(change.previous))))
}

/// Changes of wallets as a script gives them.
#[derive(Clone, Copy)]
pub(super) struct Updates<'r, 'a> {
    pub(super) records: &'r [Record<'a>],
    /// Whether they are kept in the ledger.
    pub(super) update_ledger: bool,
}

impl Updates<'_, '_> {
    fn read(&self, host: &mut dyn Host, now: Now) -> Result<Vec<WalletUpdate>, HostError> {
        let update = |record: &Record<'_>| {
            let changeset = match record.member("changeset") {
                None => return Err(record.wrong("expects changeset to be supplied")),
                Some(value) => changeset(value).map_err(|what| record.wrong(what))?,
            };
            let metadata = match record.member("metadata") {
                None => NO_METADATA.to_owned(),
                Some(value) => object_text(value, METADATA, record.meter())
                    .map_err(|what| record.wrong(&what))?,
            };
            let ledger = self.update_ledger.then(|| ledger_row(host, now, metadata));
            let user_id = record.user_id()?.unwrap_or_default();
            Ok(WalletUpdate { user_id, changeset, ledger })
        };
        self.records.iter().map(update).collect()
    }
}

pub(super) fn update_all(
    host: &mut dyn Host,
    updates: Updates<'_, '_>,
) -> Result<Vec<Value>, HostError> {
    let now = host.now();
    let updates = updates.read(host, now)?;
    let changes = committed(host, UPDATE_FAILED, |db| wallet::wallets_update(db, now, &updates))?;
    Ok(changes_value(changes))
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

pub(super) fn ledger_list(
    host: &mut dyn Host,
    user_id: Uuid,
    limit: usize,
    cursor: &str,
) -> Result<(Vec<Value>, String), HostError> {
    let (items, cursor) = committed(host, "failed to retrieve user wallet ledger", |db| {
        wallet::ledger_list(db, user_id, limit, cursor)
    })?;
    let row = |item: &LedgerItem| {
        let metadata = table(&item.metadata, || format!("metadata of ledger row {}", item.id))?;
        ledger_value(item, metadata)
    };
    Ok((items.iter().map(row).collect::<Result<_, _>>()?, cursor))
}

/// Returns the row with the metadata that was given as the second argument, not the merged one, as
/// Nakama does.
pub(super) fn ledger_update(
    host: &mut dyn Host,
    args: &Args<'_>,
    id: Uuid,
    given: &Value,
) -> Result<Table, HostError> {
    if !matches!(given, Value::Map(_) | Value::List(_)) {
        return Err(args.wrong(1, "expects a table as metadata value"));
    }
    let metadata = object_text(given, METADATA, args.meter).map_err(|what| args.wrong(1, &what))?;
    let now = host.now();
    let item = committed(host, "failed to update user wallet ledger", |db| {
        wallet::ledger_update(db, now, id, &metadata)
    })?;
    ledger_value(&item, given.clone()).map(Table)
}

/// New values of one account.
fn account(record: &Record<'_>) -> Result<(Uuid, AccountUpdate), HostError> {
    let user_id = record.user_id()?.filter(|id| !id.is_nil());
    let user_id = user_id.ok_or_else(|| record.wrong("expects a valid user ID"))?;
    let text = |name: &str| record.text(name).map(|text| text.map(str::to_owned));
    let metadata = record.member("metadata");
    let metadata = metadata.map(|value| object_text(value, METADATA, record.meter())).transpose();
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
            metadata: metadata.map_err(|what| record.wrong(&what))?,
        },
    ))
}

/// Refuses too many accounts, which are the first argument.
pub(super) fn accounts_max(args: &Args<'_>, accounts: &[Record<'_>]) -> Result<(), HostError> {
    if accounts.len() > ACCOUNTS_MAX {
        return Err(args.wrong(0, "too many accounts"));
    }
    Ok(())
}

/// What `multi_update` returns: acknowledgements of storage, and how wallets changed.
type Multi = (Option<Vec<Value>>, Option<Vec<Value>>);

pub(super) fn multi_update(
    host: &mut dyn Host,
    accounts: &[Record<'_>],
    writes: &[Record<'_>],
    deletes: &[Record<'_>],
    wallets: Updates<'_, '_>,
) -> Result<Multi, HostError> {
    let now = host.now();
    let update = MultiUpdate {
        accounts: accounts.iter().map(account).collect::<Result<_, _>>()?,
        writes: writes.iter().map(write_of).collect::<Result<_, _>>()?,
        deletes: deletes.iter().map(delete_of).collect::<Result<_, _>>()?,
        wallets: wallets.read(host, now)?,
    };
    if update == MultiUpdate::default() {
        return Ok((None, None));
    }
    let done =
        committed(host, "error running multi update", |db| run_multi_update(db, now, &update))?;
    let or_nil = |values: Vec<Value>| Some(values).filter(|values| !values.is_empty());
    Ok((or_nil(acks_value(&done.acks)), or_nil(changes_value(done.wallets))))
}
