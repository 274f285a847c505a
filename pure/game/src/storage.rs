//! Storage objects: JSON texts under (collection, key, owner), with permissions and versions for
//! optimistic concurrency. The same functions serve clients and scripts; [`Caller`] tells them
//! apart.
//!
//! Values come back as they were written, byte by byte (Nakama reformats them). No indexes
//! and no import here.
//!
//! Source: Nakama 3.40, `server/core_storage.go`, `server/api_storage.go`.

/// The beginning of a statement that reads objects.
macro_rules! select {
    ($($condition:expr),+) => { select!(value: "value", also: "", $($condition),+) };
    (value: $value:expr, also: $also:expr, $($condition:expr),+) => {
        concat!(
            "SELECT collection, key, user_id, ",
            $value,
            ", version, read, write, create_time, update_time",
            $also,
            " FROM storage WHERE ",
            $($condition),+
        )
    };
}

// Behind the macro, which they use.
mod list;
mod write;

use std::collections::BTreeMap;

use md5::{Digest as _, Md5};
use uuid::Uuid;
use wire::nakama::{Timestamp, api};

pub use list::{LIST_LIMIT_MAX, Listing, PASSED_OVER_MAX, list, malformed_cursor};
pub use write::write;

use crate::account::atomically;
use crate::db::{Database, DbError, Param, Row, text_list};
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
    /// Unix milliseconds. `None` where a script has written over the version that it named: scripts are told no
    /// times, and nobody has looked.
    pub create_time_ms: Option<i64>,
    /// Unix milliseconds.
    pub update_time_ms: i64,
}

/// Objects that one statement reads: their values together may have some megabytes.
const READ_PIECE: usize = 64;

/// Of so many a statement names each: that costs less than to take them from a list.
const FEW: usize = 4;

const SELECT: &str = select!("user_id = $1 AND collection = $2 AND key = $3");

/// [`FEW`] objects, of which some may be NULL.
const SELECT_FEW: &str = concat!(
    select!("user_id = $1 AND collection = $2 AND key = $3"),
    " UNION ALL ",
    select!("user_id = $4 AND collection = $5 AND key = $6"),
    " UNION ALL ",
    select!("user_id = $7 AND collection = $8 AND key = $9"),
    " UNION ALL ",
    select!("user_id = $10 AND collection = $11 AND key = $12"),
);

/// Those of a list of owners, collections and keys.
const SELECT_LIST: &str = "SELECT s.collection, s.key, s.user_id, s.value, s.version, s.read, \
    s.write, s.create_time, s.update_time FROM json_each($1) AS item CROSS JOIN storage s \
    WHERE s.user_id = unhex(item.value ->> 0) AND s.collection = item.value ->> 1 \
    AND s.key = item.value ->> 2";

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
    let mut answer = Answer { caller, bytes_max, bytes: 0, objects: Vec::new() };
    let failed = ApiError::database("Error reading storage objects.");
    let mut seen = BTreeMap::new();
    for (place, id) in ids.iter().enumerate() {
        seen.entry(id).or_insert(place);
    }
    let mut asked: Vec<(usize, &ObjectId)> = seen.iter().map(|(id, place)| (*place, *id)).collect();
    asked.sort_unstable();
    // In pieces, so that what is too large for an answer is not read as a whole.
    for piece in asked.chunks(READ_PIECE) {
        if (2..=FEW).contains(&piece.len()) {
            let mut params = [Param::Null; 3 * FEW];
            for (of_id, (_, id)) in params.chunks_exact_mut(3).zip(piece) {
                of_id.copy_from_slice(&id.params());
            }
            read_several(db, &seen, (SELECT_FEW, &params), &mut answer).map_err(&failed)?;
        } else if piece.len() > 1 && piece.iter().all(|(_, id)| id.may_be_listed()) {
            let list = ObjectId::list(piece.iter().map(|(_, id)| *id));
            let statement = (SELECT_LIST, &[Param::Text(&list)][..]);
            read_several(db, &seen, statement, &mut answer).map_err(&failed)?;
        } else {
            for (_, id) in piece {
                let mut add = |row: &dyn Row| answer.add(read_object(row));
                db.query(SELECT, &id.params(), &mut add).map_err(&failed)?;
            }
        }
        if answer.bytes > bytes_max {
            break;
        }
    }
    answer.into_objects()
}

/// Reads the objects that a statement finds, in their order.
fn read_several(
    db: &mut dyn Database,
    places: &BTreeMap<&ObjectId, usize>,
    (sql, params): (&str, &[Param<'_>]),
    answer: &mut Answer,
) -> Result<(), DbError> {
    let mut found: Vec<(usize, Object)> = Vec::new();
    let mut add = |row: &dyn Row| {
        let object = read_object(row);
        found.extend(places.get(&object.id).map(|place| (*place, object)));
    };
    db.query(sql, params, &mut add)?;
    found.sort_unstable_by_key(|(place, _)| *place);
    found.into_iter().for_each(|(_, object)| answer.add(object));
    Ok(())
}

/// Objects that are put together for one answer.
struct Answer {
    caller: Caller,
    bytes_max: usize,
    bytes: usize,
    objects: Vec<Object>,
}

impl Answer {
    fn add(&mut self, object: Object) {
        if object.is_readable(self.caller) {
            self.bytes += object.json_bytes();
            if self.bytes <= self.bytes_max {
                self.objects.push(object);
            }
        }
    }

    fn into_objects(self) -> Result<Vec<Object>, ApiError> {
        if self.bytes > self.bytes_max {
            return Err(ApiError::answer_too_large(self.bytes_max));
        }
        Ok(self.objects)
    }
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

impl Caller {
    fn owns(self, owner: Uuid) -> bool {
        match self {
            Self::User(user_id) => user_id == owner,
            Self::Script => true,
        }
    }
}

impl ObjectId {
    /// As a list parameter.
    fn list<'a>(ids: impl Iterator<Item = &'a Self>) -> String {
        let row = |id: &'a Self| {
            let owner = id.user_id.simple().to_string();
            (owner, id.collection.as_str(), id.key.as_str())
        };
        text_list(&ids.map(row).collect::<Vec<_>>())
    }

    /// SQLite takes a NUL for the end of a text of a list.
    fn may_be_listed(&self) -> bool {
        !self.collection.contains('\0') && !self.key.contains('\0')
    }

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
            create_time: self.create_time_ms.map(Timestamp::from_unix_ms),
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
