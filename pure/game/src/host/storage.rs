//! `storage_*` for scripts, which may read and write everything. Values are tables.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`.

use uuid::Uuid;

use super::accounts::{durably, member, seconds, table};
use super::{Args, Returns, json, none, one};
use crate::guest::{Host, HostError};
use crate::storage::{self, Ack, Caller, Delete, LIST_LIMIT_MAX, Listing, Object, ObjectId, Write};
use crate::value::Value;

/// Items of a list argument, which must all be tables.
fn items<'a>(args: &Args<'a>, what: &str) -> Result<Vec<&'a Value>, HostError> {
    let items = args.list(0).map_err(|_| args.wrong(0, what))?;
    let is_table = |item: &&Value| matches!(item, Value::Map(_));
    if items.iter().any(|item| !is_table(&item)) {
        return Err(args.wrong(0, what));
    }
    Ok(items.iter().collect())
}

/// A text of an item; `None` when it is missing.
fn text<'a>(args: &Args<'a>, item: &'a Value, name: &str) -> Result<Option<&'a str>, HostError> {
    match item.member(name) {
        None | Some(Value::Nil) => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => Err(args.wrong(0, &format!("expects {name} to be string"))),
        },
    }
}

/// Collection, key and owner of an item. No owner, or an empty one, is the system.
fn object_id(args: &Args<'_>, item: &Value) -> Result<ObjectId, HostError> {
    let filled = |name: &str| -> Result<String, HostError> {
        match text(args, item, name)? {
            Some("") => Err(args.wrong(0, &format!("expects {name} to be a non-empty string"))),
            Some(text) => Ok(text.to_owned()),
            None => Err(args.wrong(0, &format!("expects {name} to be supplied"))),
        }
    };
    let user_id = match text(args, item, "user_id")? {
        None | Some("") => Uuid::nil(),
        Some(id) => {
            Uuid::try_parse(id).map_err(|_| args.wrong(0, "expects user_id to be a valid ID"))?
        }
    };
    Ok(ObjectId { collection: filled("collection")?, key: filled("key")?, user_id })
}

fn object_value(object: &Object) -> Value {
    let mut members = id_members(&object.id);
    members.push(member("version", Value::text(&*object.version)));
    members.push(member("permission_read", Value::Int(i64::from(object.permission_read))));
    members.push(member("permission_write", Value::Int(i64::from(object.permission_write))));
    members.push(member("create_time", seconds(object.create_time_ms)));
    members.push(member("update_time", seconds(object.update_time_ms)));
    members.push(member("value", table(&object.value)));
    Value::Map(members)
}

fn id_members(id: &ObjectId) -> Vec<(bytes::Bytes, Value)> {
    vec![
        member("key", Value::text(&*id.key)),
        member("collection", Value::text(&*id.collection)),
        // The system's objects carry the nil id.
        member("user_id", Value::text(id.user_id.to_string())),
    ]
}

pub(super) fn storage_read(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let items = items(args, "expects a valid set of keys")?;
    let ids = items.into_iter().map(|item| object_id(args, item)).collect::<Result<Vec<_>, _>>()?;
    let objects = durably(host, "failed to read storage objects", |db| {
        storage::read(db, Caller::Script, &ids)
    })?;
    one(Value::List(objects.iter().map(object_value).collect()))
}

pub(super) fn storage_write(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let items = items(args, "expects a valid set of data")?;
    let writes =
        items.into_iter().map(|item| write_of(args, item)).collect::<Result<Vec<_>, _>>()?;
    let now = host.now();
    let acks = durably(host, "failed to write storage objects", |db| {
        storage::write(db, now, Caller::Script, &writes)
    })?;
    let ack_value = |ack: &Ack| {
        let mut members = id_members(&ack.id);
        members.push(member("version", Value::text(&*ack.version)));
        Value::Map(members)
    };
    one(Value::List(acks.iter().map(ack_value).collect()))
}

fn write_of(args: &Args<'_>, item: &Value) -> Result<Write, HostError> {
    let value = match item.member("value") {
        Some(value @ Value::Map(_)) => json::encode_for(value, args.meter),
        _ => return Err(args.wrong(0, "expects value to be table")),
    };
    let value =
        value.map_err(|error| args.wrong(0, &format!("failed to convert value: {error}")))?;
    let permission = |name: &str| match item.member(name) {
        None | Some(Value::Nil) => Ok(1),
        Some(value) => {
            value.as_int().ok_or_else(|| args.wrong(0, &format!("expects {name} to be number")))
        }
    };
    Ok(Write {
        id: object_id(args, item)?,
        value: String::from_utf8_lossy(&value).into_owned(),
        version: text(args, item, "version")?.unwrap_or_default().to_owned(),
        permission_read: permission("permission_read")?,
        permission_write: permission("permission_write")?,
    })
}

pub(super) fn storage_delete(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let items = items(args, "expects a valid set of object IDs")?;
    let delete = |item: &Value| -> Result<Delete, HostError> {
        let version = text(args, item, "version")?.unwrap_or_default().to_owned();
        Ok(Delete { id: object_id(args, item)?, version })
    };
    let deletes = items.into_iter().map(delete).collect::<Result<Vec<_>, _>>()?;
    durably(host, "failed to remove storage", |db| storage::delete(db, Caller::Script, &deletes))?;
    none()
}

pub(super) fn storage_list(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let listing = Listing {
        user_id: args.uuid_or_nil(0, "expects empty or a valid user ID")?,
        collection: args.text_or_nil(1)?.unwrap_or_default().into_owned(),
        limit: usize::try_from(args.int_or(2, 100)?)
            .map_err(|_| args.wrong(2, "limit must not be negative"))?
            .min(LIST_LIMIT_MAX),
        cursor: args.text_or_nil(3)?.unwrap_or_default().into_owned(),
    };
    let caller = args.uuid_or_nil(4, "expects caller ID to be empty or a valid identifier")?;
    let caller = caller.map_or(Caller::Script, Caller::User);
    let (objects, cursor) =
        durably(host, "failed to list storage objects", |db| storage::list(db, caller, &listing))?;
    let mut returns = Returns::new();
    returns.push(Value::List(objects.iter().map(object_value).collect()));
    returns.push(if cursor.is_empty() { Value::Nil } else { Value::text(cursor) });
    Ok(returns)
}
