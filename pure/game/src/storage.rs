//! Storage objects: JSON texts under (collection, key, owner), with permissions and versions for
//! optimistic concurrency. The same functions serve clients and scripts; [`Caller`] tells them
//! apart.
//!
//! Values come back as they were written, byte by byte (Nakama reformats them). No indexes
//! and no import here.
//!
//! Source: Nakama 3.40, `server/core_storage.go`, `server/api_storage.go`.

mod list;

use event::Now;
use md5::{Digest as _, Md5};
use uuid::Uuid;
use wire::nakama::{Timestamp, api};

pub use list::{LIST_LIMIT_MAX, Listing, list};

use crate::account::{atomically, begin_lazily, unix_ms};
use crate::db::{Database, DbError, Param, Row};
use crate::error::{ApiError, Failure};
use crate::json;

/// Longest collection name and key, bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Most objects in one call.
pub const OBJECTS_MAX: usize = 1_000;

/// Bytes that one call of a script reads at most; they stand outside the script's own memory until
/// it has them.
pub const SCRIPT_BYTES_MAX: usize = 64 << 20;

/// On whose behalf objects are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A client: permissions apply, and it writes only its own.
    User(Uuid),
    /// A script: everything is allowed.
    Script,
}

/// Names one object. The nil id owns the system's objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// 1–128 bytes.
    pub collection: String,
    /// 1–128 bytes.
    pub key: String,
    /// The owner.
    pub user_id: Uuid,
}

/// An object as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is called and whose it is.
    pub id: ObjectId,
    /// JSON text of an object.
    pub value: String,
    /// MD5 of the value, hexadecimal.
    pub version: String,
    /// 0 nobody, 1 the owner, 2 everybody.
    pub permission_read: u8,
    /// 0 nobody, 1 the owner.
    pub permission_write: u8,
    /// Unix milliseconds.
    pub create_time_ms: i64,
    /// Unix milliseconds.
    pub update_time_ms: i64,
}

/// One object to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// What it is called and whose it is to be.
    pub id: ObjectId,
    /// JSON text of an object.
    pub value: String,
    /// Empty: whatever is there; `*`: only if nothing is; else: only if this version is there.
    pub version: String,
    /// 0–2; anything else is refused.
    pub permission_read: i64,
    /// 0–1; anything else is refused.
    pub permission_write: i64,
}

/// One object to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Which.
    pub id: ObjectId,
    /// Empty, or the version that must be there.
    pub version: String,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// What it is called and whose it is.
    pub id: ObjectId,
    /// The version now.
    pub version: String,
    /// Unix milliseconds.
    pub create_time_ms: i64,
    /// Unix milliseconds.
    pub update_time_ms: i64,
}

const SELECT: &str = "SELECT collection, key, user_id, value, version, read, write, create_time, \
    update_time FROM storage WHERE user_id = $1 AND collection = $2 AND key = $3";

/// The objects that exist and that the caller may read, each once, in the order first asked for.
/// `bytes_max` is how large they may be together, as [`Object::json_bytes`] counts.
///
/// # Errors
/// [`ApiError`]: code 3 for names that are not set or too many objects, 8 for too many bytes, 13.
pub fn read(
    db: &mut dyn Database,
    caller: Caller,
    ids: &[ObjectId],
    bytes_max: usize,
) -> Result<Vec<Object>, ApiError> {
    check_count(ids.len())?;
    ids.iter().try_for_each(check_id)?;
    let mut objects = Vec::with_capacity(ids.len());
    let mut bytes = 0;
    let mut seen = std::collections::BTreeSet::new();
    for id in ids.iter().filter(|id| ids.len() == 1 || seen.insert(*id)) {
        db.query(SELECT, &id.params(), &mut |row| {
            let object = read_object(row);
            if object.is_readable(caller) {
                bytes += object.json_bytes();
                objects.push(object);
            }
        })
        .map_err(ApiError::database("Error reading storage objects."))?;
        if bytes > bytes_max {
            return Err(ApiError::answer_too_large(bytes_max));
        }
    }
    Ok(objects)
}

/// Writes objects, all or none; acknowledgements come in the same order.
///
/// # Errors
/// [`ApiError`]: code 3 with the texts of Nakama's `server/api_storage.go`, 13.
pub fn write(
    db: &mut dyn Database,
    now: Now,
    caller: Caller,
    writes: &[Write],
) -> Result<Vec<Ack>, ApiError> {
    check_count(writes.len())?;
    writes.iter().try_for_each(check_write)?;
    let mut owner = None;
    let written = if let [write] = writes {
        // One statement is all or nothing by itself.
        begin_lazily(db)
            .map_err(Failure::from)
            .and_then(|_| write_one(db, now, caller, (write, &mut owner)))
            .map(|ack| vec![ack])
    } else {
        atomically(db, |db| {
            writes.iter().map(|write| write_one(db, now, caller, (write, &mut owner))).collect()
        })
    };
    written.map_err(|failure| failure.into_error("Error writing storage objects."))
}

/// Deletes objects, all or none.
///
/// # Errors
/// [`ApiError`]: code 3 when one does not exist, has another version or may not be deleted; 13.
pub fn delete(db: &mut dyn Database, caller: Caller, deletes: &[Delete]) -> Result<(), ApiError> {
    check_count(deletes.len())?;
    deletes.iter().try_for_each(|delete| check_id(&delete.id))?;
    atomically(db, |db| {
        for delete in deletes {
            let write_min = i64::from(caller != Caller::Script);
            let [owner, collection, key] = delete.id.params();
            let sql = "DELETE FROM storage WHERE user_id = $1 AND collection = $2 AND key = $3 \
                AND ($4 = '' OR version = $4) AND write >= $5";
            let version = Param::Text(&delete.version);
            let allowed = caller.owns(delete.id.user_id);
            let params = [owner, collection, key, version, Param::Int(write_min)];
            if !allowed || db.execute(sql, &params)? == 0 {
                return Err(Failure::Refused(ApiError::invalid(
                    "Storage delete rejected - not found, version check failed, or permission \
                     denied.",
                )));
            }
        }
        Ok(())
    })
    .map_err(|failure| failure.into_error("Error deleting storage objects."))
}

/// Writes one object, in an open transaction. `owner` is who was found in it last: whoever is
/// there stays until it ends.
fn write_one(
    db: &mut dyn Database,
    now: Now,
    caller: Caller,
    (write, owner): (&Write, &mut Option<Uuid>),
) -> Result<Ack, Failure> {
    let mut current: Option<Object> = None;
    db.query(SELECT, &write.id.params(), &mut |row| current = Some(read_object(row)))?;
    if !caller.owns(write.id.user_id)
        || (caller != Caller::Script && current.as_ref().is_some_and(|c| c.permission_write == 0))
    {
        return Err(Failure::Refused(ApiError::invalid(
            "Storage write rejected - permission denied.",
        )));
    }
    let fits = match (write.version.as_str(), &current) {
        ("", _) | ("*", None) => true,
        (wanted, Some(current)) => wanted == current.version,
        (_, None) => false,
    };
    if !fits {
        return Err(Failure::Refused(ApiError::invalid(
            "Storage write rejected - version check failed.",
        )));
    }
    let version = version_of(&write.value);
    let now_ms = unix_ms(now);
    let [user_id, collection, key] = write.id.params();
    let params = [
        user_id,
        collection,
        key,
        Param::Text(&write.value),
        Param::Text(&version),
        Param::Int(write.permission_read),
        Param::Int(write.permission_write),
        Param::Int(now_ms),
    ];
    let (create_time_ms, update_time_ms) = match &current {
        Some(current) if write.changes_nothing(current, &version) => {
            (current.create_time_ms, current.update_time_ms)
        }
        Some(current) => {
            let sql = "UPDATE storage SET value = $4, version = $5, read = $6, write = $7, \
                update_time = $8 WHERE user_id = $1 AND collection = $2 AND key = $3";
            db.execute(sql, &params)?;
            (current.create_time_ms, now_ms)
        }
        None => {
            // An object that is there has an owner: deleting an account takes its objects along.
            if *owner != Some(write.id.user_id) && !is_there(db, write.id.user_id)? {
                return Err(Failure::Refused(ApiError::invalid(
                    "Storage write rejected - user not found.",
                )));
            }
            *owner = Some(write.id.user_id);
            // Not INSERT … SELECT: SQLite prepares to undo such a statement by itself, which takes
            // time in proportion to what the savepoint around it has changed so far.
            let sql = "INSERT INTO storage (user_id, collection, key, value, version, read, \
                write, create_time, update_time) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)";
            db.execute(sql, &params)?;
            (now_ms, now_ms)
        }
    };
    Ok(Ack { id: write.id.clone(), version, create_time_ms, update_time_ms })
}

/// Whether an object may have this owner: the system, or a user who exists.
fn is_there(db: &mut dyn Database, owner: Uuid) -> Result<bool, DbError> {
    let mut is_there = owner.is_nil();
    if !is_there {
        let sql = "SELECT 1 FROM users WHERE id = $1";
        db.query(sql, &[Param::Blob(owner.as_bytes())], &mut |_| is_there = true)?;
    }
    Ok(is_there)
}

impl Write {
    fn changes_nothing(&self, current: &Object, version: &str) -> bool {
        current.version == version
            && i64::from(current.permission_read) == self.permission_read
            && i64::from(current.permission_write) == self.permission_write
    }
}

impl Caller {
    fn owns(self, owner: Uuid) -> bool {
        match self {
            Self::User(user_id) => user_id == owner,
            Self::Script => true,
        }
    }
}

impl ObjectId {
    /// Bound in the order of the primary key.
    fn params(&self) -> [Param<'_>; 3] {
        [
            Param::Blob(self.user_id.as_bytes()),
            Param::Text(&self.collection),
            Param::Text(&self.key),
        ]
    }
}

impl Object {
    fn is_readable(&self, caller: Caller) -> bool {
        match caller {
            Caller::Script => true,
            Caller::User(user_id) => {
                self.permission_read == 2
                    || (self.permission_read == 1 && self.id.user_id == user_id)
            }
        }
    }

    /// About how many bytes the object has in an answer: exactly those of the value, whose quotes
    /// and backslashes take two, and an upper bound of the rest.
    #[must_use]
    pub fn json_bytes(&self) -> usize {
        const REST: usize = 320;
        let names = self.id.collection.len() + self.id.key.len();
        let escaped = self.value.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        self.value.len() + escaped + 2 * names + REST
    }

    /// The object as the API shows it.
    pub fn into_message(self) -> api::StorageObject {
        api::StorageObject {
            collection: self.id.collection,
            key: self.id.key,
            // The system's objects too: Nakama names the nil id.
            user_id: self.id.user_id.to_string(),
            value: self.value,
            version: self.version,
            permission_read: i32::from(self.permission_read),
            permission_write: i32::from(self.permission_write),
            create_time: Some(Timestamp::from_unix_ms(self.create_time_ms)),
            update_time: Some(Timestamp::from_unix_ms(self.update_time_ms)),
        }
    }
}

impl Ack {
    /// The acknowledgement as the API shows it.
    pub fn into_message(self) -> api::StorageObjectAck {
        api::StorageObjectAck {
            collection: self.id.collection,
            key: self.id.key,
            version: self.version,
            user_id: self.id.user_id.to_string(),
            create_time: Some(Timestamp::from_unix_ms(self.create_time_ms)),
            update_time: Some(Timestamp::from_unix_ms(self.update_time_ms)),
        }
    }
}

/// The version of a value: MD5 of its text, hexadecimal.
pub fn version_of(value: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    Md5::digest(value)
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(HEX[usize::from(nibble)]))
        .collect()
}

fn read_object(row: &dyn Row) -> Object {
    Object {
        id: ObjectId {
            collection: row.text(0).into(),
            key: row.text(1).into(),
            user_id: crate::user::id_at(row, 2).unwrap_or_default(),
        },
        value: row.text(3).into(),
        version: row.text(4).into(),
        permission_read: u8::try_from(row.int(5)).unwrap_or(0),
        permission_write: u8::try_from(row.int(6)).unwrap_or(0),
        create_time_ms: row.int(7),
        update_time_ms: row.int(8),
    }
}

fn check_count(count: usize) -> Result<(), ApiError> {
    if count > OBJECTS_MAX {
        return Err(ApiError::invalid(format!("Too many objects, must be at most {OBJECTS_MAX}.")));
    }
    Ok(())
}

fn check_id(id: &ObjectId) -> Result<(), ApiError> {
    if id.collection.is_empty() || id.key.is_empty() {
        return Err(ApiError::invalid(
            "Invalid collection or key value supplied. They must be set.",
        ));
    }
    if id.collection.len() > NAME_BYTES_MAX || id.key.len() > NAME_BYTES_MAX {
        return Err(ApiError::invalid(
            "Invalid collection or key value supplied. They must be 1-128 bytes.",
        ));
    }
    Ok(())
}

fn check_write(write: &Write) -> Result<(), ApiError> {
    check_id(&write.id)?;
    if !(0..=2).contains(&write.permission_read) {
        return Err(ApiError::invalid(
            "Invalid Read permission supplied. It must be either 0, 1 or 2.",
        ));
    }
    if !(0..=1).contains(&write.permission_write) {
        return Err(ApiError::invalid(
            "Invalid Write permission supplied. It must be either 0 or 1.",
        ));
    }
    json::check_object(&write.value, "Value must be a JSON object.")
}
