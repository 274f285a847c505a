//! The calls about objects of storage. Clients write only their own.
//!
//! Source: Nakama 3.40, `server/api_storage.go`.

use uuid::Uuid;
use wire::nakama::api::{
    DeleteStorageObjectsRequest, Empty, ListStorageObjectsRequest, ReadStorageObjectsRequest,
    StorageObjectAcks, StorageObjectList, StorageObjects, WriteStorageObjectsRequest,
};

use super::account::empty;
use super::run::Cx;
use crate::error::ApiError;
use crate::session::Key;
use crate::storage::{self, Ack, Caller, Delete, Listing, Object, ObjectId, Write};

/// How many objects are listed when a request does not say.
const LIST_LIMIT_DEFAULT: i32 = 1;

/// The owner in a request; `None` for an empty text.
fn owner(text: &str) -> Result<Option<Uuid>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = |_| ApiError::invalid("Invalid user ID supplied. It must be a valid UUID.");
    Uuid::try_parse(text).map(Some).map_err(invalid)
}

pub(super) fn read_rows(request: &ReadStorageObjectsRequest) -> usize {
    request.object_ids.len()
}

pub(super) fn read(
    cx: &mut Cx<'_>,
    request: &ReadStorageObjectsRequest,
) -> Result<StorageObjects, ApiError> {
    let caller = Caller::User(cx.user_id()?);
    let ids = request.object_ids.iter().map(|id| {
        let user_id = owner(&id.user_id)?.unwrap_or_default();
        Ok(ObjectId { collection: id.collection.clone(), key: id.key.clone(), user_id })
    });
    let ids = ids.collect::<Result<Vec<_>, ApiError>>()?;
    let objects = storage::read(cx.db, caller, &ids, cx.answer_bytes_max)?;
    Ok(StorageObjects { objects: objects.into_iter().map(Object::into_message).collect() })
}

pub(super) fn write_rows(request: &WriteStorageObjectsRequest) -> usize {
    const BYTES_PER_ROW: usize = 1_024;
    let bytes: usize = request.objects.iter().map(|object| object.value.len()).sum();
    request.objects.len() + bytes / BYTES_PER_ROW
}

pub(super) fn write(
    cx: &mut Cx<'_>,
    request: &WriteStorageObjectsRequest,
) -> Result<StorageObjectAcks, ApiError> {
    let user_id = cx.user_id()?;
    let writes = request.objects.iter().map(|object| Write {
        id: ObjectId { collection: object.collection.clone(), key: object.key.clone(), user_id },
        value: object.value.clone(),
        version: object.version.clone(),
        permission_read: object.permission_read.map_or(1, i64::from),
        permission_write: object.permission_write.map_or(1, i64::from),
    });
    let writes: Vec<_> = writes.collect();
    let acks = storage::write(cx.db, cx.now, Caller::User(user_id), &writes)?;
    Ok(StorageObjectAcks { acks: acks.into_iter().map(Ack::into_message).collect() })
}

pub(super) fn delete_rows(request: &DeleteStorageObjectsRequest) -> usize {
    request.object_ids.len()
}

pub(super) fn delete(
    cx: &mut Cx<'_>,
    request: &DeleteStorageObjectsRequest,
) -> Result<Empty, ApiError> {
    let user_id = cx.user_id()?;
    let deletes = request.object_ids.iter().map(|id| Delete {
        id: ObjectId { collection: id.collection.clone(), key: id.key.clone(), user_id },
        version: id.version.clone(),
    });
    let deletes: Vec<_> = deletes.collect();
    storage::delete(cx.db, Caller::User(user_id), &deletes).map(empty)
}

pub(super) fn list(
    cx: &mut Cx<'_>,
    request: &ListStorageObjectsRequest,
) -> Result<StorageObjectList, ApiError> {
    let caller = Caller::User(cx.user_id()?);
    let mut listing = Listing {
        collection: request.collection.clone(),
        user_id: owner(&request.user_id)?,
        limit: usize::try_from(request.limit.unwrap_or(LIST_LIMIT_DEFAULT)).unwrap_or(0),
        cursor: String::new(),
        passed_over_max: storage::PASSED_OVER_MAX,
    };
    listing.cursor = unsealed(cx.signer.session_key(), &listing, &request.cursor)?;
    let (objects, cursor) = storage::list(cx.db, caller, &listing, cx.answer_bytes_max)?;
    let cursor = sealed(cx.signer.session_key(), &listing, cursor);
    let objects = objects.into_iter().map(Object::into_message).collect();
    Ok(StorageObjectList { objects, cursor })
}

/// What the seal of a client's cursor is of. Cursors of one owner's list have one; lists of everybody's
/// pass over nothing.
fn said(listing: &Listing, owner: Uuid, cursor: &str) -> Vec<u8> {
    let collection = listing.collection.as_bytes();
    [b"storage cursor\0", &owner.as_bytes()[..], collection, b"\0", cursor.as_bytes()].concat()
}

/// The cursor of the next page, if there is one, for the client.
fn sealed(key: &Key, listing: &Listing, cursor: String) -> String {
    match listing.user_id {
        Some(owner) if !cursor.is_empty() => {
            let seal = key.seal(&said(listing, owner, &cursor));
            format!("{cursor}.{seal}")
        }
        _ => cursor,
    }
}

/// A client's cursor without its seal.
fn unsealed(key: &Key, listing: &Listing, cursor: &str) -> Result<String, ApiError> {
    match listing.user_id {
        Some(owner) if !cursor.is_empty() => {
            let (cursor, seal) = cursor.rsplit_once('.').ok_or_else(storage::malformed_cursor)?;
            let is_ours = key.has_sealed(&said(listing, owner, cursor), seal);
            if is_ours { Ok(cursor.to_owned()) } else { Err(storage::malformed_cursor()) }
        }
        _ => Ok(cursor.to_owned()),
    }
}
