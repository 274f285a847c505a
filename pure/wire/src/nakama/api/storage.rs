//! Objects of storage. Declarations only.
//!
//! Source: nakama-common, `api/api.proto`, field for field.

use crate::nakama::Timestamp;
use crate::nakama::message::messages;

messages! {
    /// Which object is meant.
    ReadStorageObjectId {
        /// Its collection.
        1 collection: String,
        /// Its key.
        2 key: String,
        /// Its owner; empty for the system's objects.
        3 user_id: String,
    }

    /// Asks for objects.
    ReadStorageObjectsRequest {
        /// The objects, at most 1,000.
        1 object_ids: Vec<ReadStorageObjectId>,
    }

    /// One object to write.
    WriteStorageObject {
        /// Its collection, 1–128 bytes.
        1 collection: String,
        /// Its key, 1–128 bytes.
        2 key: String,
        /// JSON text of an object.
        3 value: String,
        /// What its version must be; `*` for no object, empty for whatever is there.
        4 version: String,
        /// Who may read: 0 nobody, 1 the owner, 2 everybody; unset means 1.
        5 permission_read: Option<i32>,
        /// Who may write: 0 nobody, 1 the owner; unset means 1.
        6 permission_write: Option<i32>,
    }

    /// Writes objects of the caller, all or none.
    WriteStorageObjectsRequest {
        /// The objects, at most 1,000.
        1 objects: Vec<WriteStorageObject>,
    }

    /// One object to delete.
    DeleteStorageObjectId {
        /// Its collection.
        1 collection: String,
        /// Its key.
        2 key: String,
        /// What its version must be; empty for any.
        3 version: String,
    }

    /// Deletes objects of the caller, all or none.
    DeleteStorageObjectsRequest {
        /// The objects, at most 1,000.
        1 object_ids: Vec<DeleteStorageObjectId>,
    }

    /// Asks for a page of a collection.
    ListStorageObjectsRequest {
        /// The owner; empty for everybody's public objects.
        1 user_id: String,
        /// The collection.
        2 collection: String,
        /// How many at most, 1–100; unset means 1.
        3 limit: Option<i32>,
        /// Where the last page ended.
        4 cursor: String,
    }

    /// An object.
    StorageObject {
        /// Its collection.
        1 collection: String,
        /// Its key.
        2 key: String,
        /// Its owner; the nil id for the system.
        3 user_id: String,
        /// JSON text of an object.
        4 value: String,
        /// Changes with the value.
        5 version: String,
        /// Who may read: 0 nobody, 1 the owner, 2 everybody.
        6 permission_read: i32,
        /// Who may write: 0 nobody, 1 the owner.
        7 permission_write: i32,
        /// When it was first written.
        8 create_time: Option<Timestamp>,
        /// When it was last written.
        9 update_time: Option<Timestamp>,
    }

    /// What was written.
    StorageObjectAck {
        /// Its collection.
        1 collection: String,
        /// Its key.
        2 key: String,
        /// The version now.
        3 version: String,
        /// Its owner.
        4 user_id: String,
        /// When it was first written.
        5 create_time: Option<Timestamp>,
        /// When it was last written.
        6 update_time: Option<Timestamp>,
    }

    /// What was written, in the order of the request.
    StorageObjectAcks {
        /// One for each object.
        1 acks: Vec<StorageObjectAck>,
    }

    /// Objects that were asked for, those that there are and that the caller may read.
    StorageObjects {
        /// In no particular order.
        1 objects: Vec<StorageObject>,
    }

    /// A page of a collection.
    StorageObjectList {
        /// In the order of their keys.
        1 objects: Vec<StorageObject>,
        /// For the next page; empty on the last one.
        2 cursor: String,
    }
}
