//! `storage_*` for scripts, which may read and write everything. Values are tables.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`.

use super::accounts::{committed, member, seconds, table};
use super::friends::{PageOf, next_page};
use super::json;
use super::read::Record;
use crate::guest::{Host, HostError};
use crate::storage::{self, Ack, Caller, Delete, Listing, Object, ObjectId, Write};
use crate::value::Value;

/// Collection, key and owner of an record. No owner, or an empty one, is the system.
fn object_id(record: &Record<'_>) -> Result<ObjectId, HostError> {
    let filled = |name: &str| -> Result<String, HostError> {
        match record.text(name)? {
            Some("") => Err(record.wrong(&format!("expects {name} to be a non-empty string"))),
            Some(text) => Ok(text.to_owned()),
            None => Err(record.wrong(&format!("expects {name} to be supplied"))),
        }
    };
    let user_id = match record.text("user_id")? {
        Some("") => None,
        _ => record.user_id()?,
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

fn objects_value(objects: &[Object]) -> Result<Vec<Value>, HostError> {
    objects.iter().map(object_value).collect()
}

pub(super) fn read(host: &mut dyn Host, ids: &[Record<'_>]) -> Result<Vec<Value>, HostError> {
    let ids = ids.iter().map(object_id).collect::<Result<Vec<_>, _>>()?;
    let objects = committed(host, "failed to read storage objects", |db| {
        storage::read(db, Caller::Script, &ids, storage::SCRIPT_BYTES_MAX)
    })?;
    objects_value(&objects)
}

pub(super) fn write(host: &mut dyn Host, objects: &[Record<'_>]) -> Result<Vec<Value>, HostError> {
    let writes = objects.iter().map(write_of).collect::<Result<Vec<_>, _>>()?;
    let now = host.now();
    let acks = committed(host, "failed to write storage objects", |db| {
        storage::write(db, now, Caller::Script, &writes)
    })?;
    Ok(acks_value(&acks))
}

/// What was written, as scripts see it.
pub(super) fn acks_value(acks: &[Ack]) -> Vec<Value> {
    let ack_value = |ack: &Ack| {
        let mut members = id_members(&ack.id);
        members.push(member("version", Value::text(&*ack.version)));
        Value::Map(members)
    };
    acks.iter().map(ack_value).collect()
}

/// An object to write.
pub(super) fn write_of(record: &Record<'_>) -> Result<Write, HostError> {
    let value = match record.member("value") {
        Some(value @ Value::Map(_)) => json::encode_for(value, record.meter()),
        _ => return Err(record.wrong("expects value to be table")),
    };
    let value =
        value.map_err(|error| record.wrong(&format!("failed to convert value: {error}")))?;
    let permission = |name: &str| match record.member(name) {
        None => Ok(1),
        Some(value) => {
            value.as_int().ok_or_else(|| record.wrong(&format!("expects {name} to be number")))
        }
    };
    Ok(Write {
        id: object_id(record)?,
        value: String::from_utf8_lossy(&value).into_owned(),
        version: record.text("version")?.unwrap_or_default().to_owned(),
        permission_read: permission("permission_read")?,
        permission_write: permission("permission_write")?,
    })
}

/// An object to delete.
pub(super) fn delete_of(record: &Record<'_>) -> Result<Delete, HostError> {
    let version = record.text("version")?.unwrap_or_default().to_owned();
    Ok(Delete { id: object_id(record)?, version })
}

pub(super) fn delete(host: &mut dyn Host, ids: &[Record<'_>]) -> Result<(), HostError> {
    let deletes = ids.iter().map(delete_of).collect::<Result<Vec<_>, _>>()?;
    committed(host, "failed to remove storage", |db| {
        storage::delete(db, Caller::Script, &deletes)
    })?;
    Ok(())
}

pub(super) fn list(
    host: &mut dyn Host,
    caller: Caller,
    listing: &Listing,
) -> Result<PageOf, HostError> {
    let (objects, cursor) = committed(host, "failed to list storage objects", |db| {
        storage::list(db, caller, listing, storage::SCRIPT_BYTES_MAX)
    })?;
    Ok((objects_value(&objects)?, next_page(cursor)))
}
