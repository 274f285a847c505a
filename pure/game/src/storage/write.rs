//! Writing objects. What is there is read without a lock, and is a condition of what is written. A write
//! that names the version it has read needs no look: the version is the condition. Nor does one that wants nothing to be
//! there, and a script's of an object of nobody's, if it may be there or not.

use std::collections::BTreeMap;

use event::Now;
use uuid::Uuid;

use super::{Ack, Caller, ObjectId, Write, check_count, check_write, version_of};
use crate::account::{atomically, begin_lazily, unix_ms};
use crate::db::{Database, DbError, Param, Row};
use crate::error::{ApiError, Failure};

/// How often a write looks again at what another writer has changed meanwhile.
const LOOKS_MAX: usize = 8;

/// Objects of a call that are written without a look, each by a statement that returns a row unless a script
/// writes: from what the call has changed so far SQLite takes time for each such statement.
const WITHOUT_LOOK: usize = 16;

/// Writes over an object that is as it was read. The permissions are a condition and not written: they are in
/// an index, which SQLite would change for each write, were they named.
macro_rules! replace_value {
    ($returning:literal) => {
        concat!(
            "UPDATE storage SET value = $4, version = $5, update_time = $6 WHERE user_id = $1 \
             AND collection = $2 AND key = $3 AND version = $7 AND read = $8 AND write = $9",
            $returning
        )
    };
}

const REPLACE_VALUE: &str = replace_value!("");

/// The same, and since when it is there.
const REPLACE_VALUE_UNSEEN: &str = replace_value!(" RETURNING create_time");

/// Writes an object that may be there or not, unless it is there with other permissions, or as it is to be. This takes
/// SQLite no longer than to insert one alone.
const PUT: &str = "INSERT INTO storage (user_id, collection, key, value, version, read, \
    write, create_time, update_time) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) \
    ON CONFLICT (user_id, collection, key) DO UPDATE SET value = excluded.value, \
    version = excluded.version, update_time = excluded.update_time \
    WHERE storage.version <> excluded.version AND storage.read = excluded.read \
    AND storage.write = excluded.write";

/// Writes an object that is not there.
// Not INSERT … SELECT: SQLite prepares to undo such a statement by itself, which takes time in proportion to what
// the savepoint around it has changed so far.
const INSERT: &str = "INSERT INTO storage (user_id, collection, key, value, version, read, \
    write, create_time, update_time) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) \
    ON CONFLICT DO NOTHING";

/// What a write asks of what is there.
const STATE: &str = "SELECT version, read, write, create_time, update_time \
    FROM storage WHERE user_id = $1 AND collection = $2 AND key = $3";

/// The same of a list, and whose it is.
const STATES: &str = "SELECT s.version, s.read, s.write, s.create_time, s.update_time, \
    s.user_id, s.collection, s.key FROM json_each($1) AS item CROSS JOIN storage s \
    WHERE s.user_id = unhex(item.value ->> 0) AND s.collection = item.value ->> 1 \
    AND s.key = item.value ->> 2";

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
            .and_then(|_| write_one(db, now, caller, (write, &mut owner), None))
            .map(|ack| vec![ack])
    } else {
        atomically(db, |db| {
            let looks =
                |write: &&Write| writes.len() > WITHOUT_LOOK || write.unseen(caller) == Unseen::No;
            let mut looked = states(db, writes.iter().filter(looks))?;
            let mut write = |write: &Write| {
                let first = looked.remove(&write.id);
                write_one(db, now, caller, (write, &mut owner), first)
            };
            writes.iter().map(&mut write).collect()
        })
    };
    written.map_err(|failure| failure.into_error("Error writing storage objects."))
}

/// What a write asks of the object that is there.
struct State {
    version: String,
    permission_read: i64,
    permission_write: i64,
    create_time_ms: i64,
    update_time_ms: i64,
}

/// What was found at an object's place.
enum Found {
    Nothing,
    Object(State),
}

/// What is there of objects that are to be written, but for those that cannot be listed.
fn states<'a>(
    db: &mut dyn Database,
    writes: impl Iterator<Item = &'a Write>,
) -> Result<BTreeMap<&'a ObjectId, Found>, DbError> {
    let listed = writes.filter(|write| write.id.may_be_listed());
    let mut states: BTreeMap<&ObjectId, Found> =
        listed.map(|write| (&write.id, Found::Nothing)).collect();
    if states.is_empty() {
        return Ok(states);
    }
    let list = ObjectId::list(states.keys().copied());
    db.query(STATES, &[Param::Text(&list)], &mut |row| {
        let id = ObjectId {
            user_id: crate::user::id_at(row, 5).unwrap_or_default(),
            collection: row.text(6).into(),
            key: row.text(7).into(),
        };
        if let Some(state) = states.get_mut(&id) {
            *state = Found::Object(read_state(row));
        }
    })?;
    Ok(states)
}

/// Writes one object, in an open transaction. `owner` is who was found in it last: whoever is
/// there stays until it ends. `looked` is what was found there, if that was looked for. It is a
/// condition of what is written: if it holds no longer, another writer was between, and it is looked at
/// again.
fn write_one(
    db: &mut dyn Database,
    now: Now,
    caller: Caller,
    (write, owner): (&Write, &mut Option<Uuid>),
    mut looked: Option<Found>,
) -> Result<Ack, Failure> {
    let version = version_of(&write.value);
    let ack = |create_time_ms, update_time_ms| {
        let (id, version) = (write.id.clone(), version.clone());
        Ack { id, version, create_time_ms, update_time_ms }
    };
    let unseen = if looked.is_some() { Unseen::No } else { write.unseen(caller) };
    match unseen {
        Unseen::Replaces if write.version != version => {
            if let Some(create_time_ms) = replace_unseen(db, now, caller, (write, &version))? {
                return Ok(ack(create_time_ms, unix_ms(now)));
            }
        }
        Unseen::Puts if insert(db, now, (PUT, write), &version)? => {
            return Ok(ack(None, unix_ms(now)));
        }
        Unseen::Inserts => looked = Some(Found::Nothing),
        Unseen::Replaces | Unseen::Puts | Unseen::No => {}
    }
    for _ in 0..LOOKS_MAX {
        let current = match looked.take() {
            Some(Found::Object(current)) => Some(current),
            Some(Found::Nothing) => None,
            None => state(db, &write.id)?,
        };
        write.check(caller, current.as_ref())?;
        let times = match &current {
            Some(current) if write.changes_nothing(current, &version) => {
                return Ok(ack(Some(current.create_time_ms), current.update_time_ms));
            }
            Some(current) => {
                let is_written = replace(db, now, write, (&version, current))?;
                is_written.then(|| (Some(current.create_time_ms), unix_ms(now)))
            }
            None => {
                // An object that is there has an owner: deleting an account takes its objects along.
                if *owner != Some(write.id.user_id) && !is_there(db, write.id.user_id)? {
                    return Err(Failure::Refused(ApiError::invalid(
                        "Storage write rejected - user not found.",
                    )));
                }
                *owner = Some(write.id.user_id);
                insert(db, now, (INSERT, write), &version)?
                    .then(|| (Some(unix_ms(now)), unix_ms(now)))
            }
        };
        if let Some((create_time_ms, update_time_ms)) = times {
            return Ok(ack(create_time_ms, update_time_ms));
        }
    }
    Err(Failure::Database(DbError::Conflict { cause: "an object changes all the time".into() }))
}

fn state(db: &mut dyn Database, id: &ObjectId) -> Result<Option<State>, DbError> {
    let mut state = None;
    db.query(STATE, &id.params(), &mut |row| state = Some(read_state(row)))?;
    Ok(state)
}

/// Writes over an object, if it is as it was read.
fn replace(
    db: &mut dyn Database,
    now: Now,
    write: &Write,
    (version, current): (&str, &State),
) -> Result<bool, DbError> {
    let [user_id, collection, key] = write.id.params();
    if write.keeps_permissions(current) {
        let params = replaced(now, write, (version, &current.version));
        return Ok(db.execute(REPLACE_VALUE, &params)? > 0);
    }
    let sql = "UPDATE storage SET value = $4, version = $5, read = $6, write = $7, \
        update_time = $8 WHERE user_id = $1 AND collection = $2 AND key = $3 \
        AND version = $9 AND write = $10";
    let params = [
        user_id,
        collection,
        key,
        Param::Text(&write.value),
        Param::Text(version),
        Param::Int(write.permission_read),
        Param::Int(write.permission_write),
        Param::Int(unix_ms(now)),
        Param::Text(&current.version),
        Param::Int(current.permission_write),
    ];
    Ok(db.execute(sql, &params)? > 0)
}

/// Writes over an object that nobody has looked for, if it has the version that the write names and the
/// permissions that it gives; since when it is there if so, which is not asked for a script: a statement that
/// returns a row costs SQLite a table of its own for the row.
fn replace_unseen(
    db: &mut dyn Database,
    now: Now,
    caller: Caller,
    (write, version): (&Write, &str),
) -> Result<Option<Option<i64>>, DbError> {
    let params = replaced(now, write, (version, &write.version));
    if caller == Caller::Script {
        let is_written = db.execute(REPLACE_VALUE, &params)? > 0;
        return Ok(is_written.then_some(None));
    }
    let mut create_time_ms = None;
    db.query(REPLACE_VALUE_UNSEEN, &params, &mut |row| create_time_ms = Some(Some(row.int(0))))?;
    Ok(create_time_ms)
}

/// The parameters of [`REPLACE_VALUE`]: its version then, and the one before.
fn replaced<'a>(
    now: Now,
    write: &'a Write,
    (version, before): (&'a str, &'a str),
) -> [Param<'a>; 9] {
    let [user_id, collection, key] = write.id.params();
    [
        user_id,
        collection,
        key,
        Param::Text(&write.value),
        Param::Text(version),
        Param::Int(unix_ms(now)),
        Param::Text(before),
        Param::Int(write.permission_read),
        Param::Int(write.permission_write),
    ]
}

/// Writes an object by [`INSERT`] or [`PUT`]. Whether anything was written.
fn insert(
    db: &mut dyn Database,
    now: Now,
    (sql, write): (&str, &Write),
    version: &str,
) -> Result<bool, DbError> {
    let [user_id, collection, key] = write.id.params();
    let params = [
        user_id,
        collection,
        key,
        Param::Text(&write.value),
        Param::Text(version),
        Param::Int(write.permission_read),
        Param::Int(write.permission_write),
        Param::Int(unix_ms(now)),
    ];
    Ok(db.execute(sql, &params)? > 0)
}

/// Whether an object may have this owner: the system, or a user who exists and stays.
fn is_there(db: &mut dyn Database, owner: Uuid) -> Result<bool, DbError> {
    if owner.is_nil() { Ok(true) } else { crate::user::is_there(db, owner) }
}

impl Write {
    /// Whether it may be done to what is there.
    fn check(&self, caller: Caller, current: Option<&State>) -> Result<(), Failure> {
        let rejected = |why: &str| {
            let text = format!("Storage write rejected - {why}.");
            Err(Failure::Refused(ApiError::invalid(text)))
        };
        let is_locked = current.is_some_and(|current| current.permission_write == 0);
        if !caller.owns(self.id.user_id) || (caller != Caller::Script && is_locked) {
            return rejected("permission denied");
        }
        let fits = match (self.version.as_str(), current) {
            ("", _) | ("*", None) => true,
            (wanted, Some(current)) => wanted == current.version,
            (_, None) => false,
        };
        if fits { Ok(()) } else { rejected("version check failed") }
    }

    fn changes_nothing(&self, current: &State, version: &str) -> bool {
        current.version == version && self.keeps_permissions(current)
    }

    fn keeps_permissions(&self, current: &State) -> bool {
        current.permission_read == self.permission_read
            && current.permission_write == self.permission_write
    }

    /// What it may do to an object that nobody has looked for.
    fn unseen(&self, caller: Caller) -> Unseen {
        let may_replace = caller == Caller::Script || self.permission_write != 0;
        match self.version.as_str() {
            "*" => Unseen::Inserts,
            "" if caller == Caller::Script && self.id.user_id.is_nil() => Unseen::Puts,
            "" => Unseen::No,
            // An object with its version and permissions may be written over by whoever it is.
            _ if may_replace && caller.owns(self.id.user_id) => Unseen::Replaces,
            _ => Unseen::No,
        }
    }
}

/// What a write may do to an object that nobody has looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unseen {
    No,
    /// Write it, if none is there.
    Inserts,
    /// Write over one that has the version and the permissions of the write.
    Replaces,
    /// Write it, or over one that has the permissions of the write: of those of nobody's no owner is to be looked for.
    Puts,
}

fn read_state(row: &dyn Row) -> State {
    State {
        version: row.text(0).into(),
        permission_read: row.int(1),
        permission_write: row.int(2),
        create_time_ms: row.int(3),
        update_time_ms: row.int(4),
    }
}
