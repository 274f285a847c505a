//! `storage_*` for scripts, which may read and write everything. Values are tables.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`.

use uuid::Uuid;

use super::accounts::{durably, member, seconds, table};
use super::{Args, Meter, Returns, json, none, one};
use crate::guest::{Host, HostError};
use crate::storage::{self, Ack, Caller, Delete, LIST_LIMIT_MAX, Listing, Object, ObjectId, Write};
use crate::value::Value;

/// One table of a list argument, whose refusals name the argument.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    args: Args<'a>,
    index: usize,
    value: &'a Value,
}

/// The items of a list argument, which must all be tables; `what` is the refusal's text.
pub(super) fn items<'a>(
    args: &Args<'a>,
    index: usize,
    what: &str,
) -> Result<Vec<Item<'a>>, HostError> {
    let items = args.list(index).map_err(|_| args.wrong(index, what))?;
    let item = |value: &'a Value| match value {
        Value::Map(_) | Value::List(_) => Ok(Item { args: *args, index, value }),
        _ => Err(args.wrong(index, what)),
    };
    items.iter().map(item).collect()
}

impl<'a> Item<'a> {
    /// A member; `None` when it is missing or nil.
    pub(super) fn member(&self, name: &str) -> Option<&'a Value> {
        self.value.member(name).filter(|value| !matches!(value, Value::Nil))
    }

    /// Who pays for what is made of this item.
    pub(super) fn meter(&self) -> &'a dyn Meter {
        self.args.meter
    }

    /// The refusal of this item.
    pub(super) fn wrong(&self, what: &str) -> HostError {
        self.args.wrong(self.index, what)
    }

    /// A text; `None` when it is missing.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, HostError> {
        let text = |value: &'a Value| {
            value.as_str().ok_or_else(|| self.wrong(&format!("expects {name} to be string")))
        };
        self.member(name).map(text).transpose()
    }

    /// The id of a user; `None` when it is missing.
    pub(super) fn user_id(&self) -> Result<Option<Uuid>, HostError> {
        let id = |text: &str| {
            Uuid::try_parse(text).map_err(|_| self.wrong("expects user_id to be a valid ID"))
        };
        self.text("user_id")?.map(id).transpose()
    }
}

/// Collection, key and owner of an item. No owner, or an empty one, is the system.
fn object_id(item: &Item<'_>) -> Result<ObjectId, HostError> {
    let filled = |name: &str| -> Result<String, HostError> {
        match item.text(name)? {
            Some("") => Err(item.wrong(&format!("expects {name} to be a non-empty string"))),
            Some(text) => Ok(text.to_owned()),
            None => Err(item.wrong(&format!("expects {name} to be supplied"))),
        }
    };
    let user_id = match item.text("user_id")? {
        Some("") => None,
        _ => item.user_id()?,
    };
    let user_id = user_id.unwrap_or_default();
    Ok(ObjectId { collection: filled("collection")?, key: filled("key")?, user_id })
}

fn object_value(object: &Object) -> Result<Value, HostError> {
    let mut members = id_members(&object.id);
    members.push(member("version", Value::text(&*object.version)));
    members.push(member("permission_read", Value::Int(i64::from(object.permission_read))));
    members.push(member("permission_write", Value::Int(i64::from(object.permission_write))));
    members.push(member("create_time", seconds(object.create_time_ms)));
    members.push(member("update_time", seconds(object.update_time_ms)));
    let id = &object.id;
    let name = || format!("value of storage object {}/{} of {}", id.collection, id.key, id.user_id);
    members.push(member("value", table(&object.value, name)?));
    Ok(Value::Map(members))
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
    let items = items(args, 0, "expects a valid set of keys")?;
    let ids = items.iter().map(object_id).collect::<Result<Vec<_>, _>>()?;
    let objects = durably(host, "failed to read storage objects", |db| {
        storage::read(db, Caller::Script, &ids, storage::SCRIPT_BYTES_MAX)
    })?;
    one(Value::List(objects.iter().map(object_value).collect::<Result<_, _>>()?))
}

pub(super) fn storage_write(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let items = items(args, 0, "expects a valid set of data")?;
    let writes = items.iter().map(write_of).collect::<Result<Vec<_>, _>>()?;
    let now = host.now();
    let acks = durably(host, "failed to write storage objects", |db| {
        storage::write(db, now, Caller::Script, &writes)
    })?;
    one(acks_value(&acks))
}

/// What was written, as scripts see it.
pub(super) fn acks_value(acks: &[Ack]) -> Value {
    let ack_value = |ack: &Ack| {
        let mut members = id_members(&ack.id);
        members.push(member("version", Value::text(&*ack.version)));
        Value::Map(members)
    };
    Value::List(acks.iter().map(ack_value).collect())
}

/// An object to write.
pub(super) fn write_of(item: &Item<'_>) -> Result<Write, HostError> {
    let value = match item.member("value") {
        Some(value @ Value::Map(_)) => json::encode_for(value, item.meter()),
        _ => return Err(item.wrong("expects value to be table")),
    };
    let value = value.map_err(|error| item.wrong(&format!("failed to convert value: {error}")))?;
    let permission = |name: &str| match item.member(name) {
        None => Ok(1),
        Some(value) => {
            value.as_int().ok_or_else(|| item.wrong(&format!("expects {name} to be number")))
        }
    };
    Ok(Write {
        id: object_id(item)?,
        value: String::from_utf8_lossy(&value).into_owned(),
        version: item.text("version")?.unwrap_or_default().to_owned(),
        permission_read: permission("permission_read")?,
        permission_write: permission("permission_write")?,
    })
}

/// An object to delete.
pub(super) fn delete_of(item: &Item<'_>) -> Result<Delete, HostError> {
    let version = item.text("version")?.unwrap_or_default().to_owned();
    Ok(Delete { id: object_id(item)?, version })
}

pub(super) fn storage_delete(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let items = items(args, 0, "expects a valid set of object IDs")?;
    let deletes = items.iter().map(delete_of).collect::<Result<Vec<_>, _>>()?;
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
    let (objects, cursor) = durably(host, "failed to list storage objects", |db| {
        storage::list(db, caller, &listing, storage::SCRIPT_BYTES_MAX)
    })?;
    let mut returns = Returns::new();
    returns.push(Value::List(objects.iter().map(object_value).collect::<Result<_, _>>()?));
    returns.push(if cursor.is_empty() { Value::Nil } else { Value::text(cursor) });
    Ok(returns)
}
