//! Users as other users see them: found by id or name, and as the API shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use uuid::Uuid;
use wire::nakama::{Timestamp, api};

use crate::account::generated_name;
use crate::db::{Database, DbError, Param, Row, query_ids, text_list};

/// The public part of an account. Empty texts are unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The id.
    pub id: Uuid,
    /// The unique name.
    pub username: String,
    /// Chosen by the user.
    pub display_name: String,
    /// Chosen by the user.
    pub avatar_url: String,
    /// A BCP 47 tag; `en` if never set.
    pub lang_tag: String,
    /// Chosen by the user.
    pub location: String,
    /// Chosen by the user.
    pub timezone: String,
    /// JSON text of an object, set by scripts.
    pub metadata: String,
    /// Unix milliseconds.
    pub create_time_ms: i64,
    /// Unix milliseconds.
    pub update_time_ms: i64,
    /// When the user was banned, unix milliseconds; 0 for never.
    pub disable_time_ms: i64,
    /// Friends, invitations and blocks.
    pub edge_count: i64,
}

/// What [`read_user`] reads, of a table of users that is called `u`.
pub(crate) const COLUMNS: &str = "u.id, u.username, u.display_name, u.avatar_url, u.lang_tag, \
    u.location, u.timezone, u.metadata, u.create_time, u.update_time, u.disable_time, u.edge_count";

static OF_ONE: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {COLUMNS} FROM users u WHERE u.id = $1"));
static OF_LIST: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {COLUMNS} FROM users u WHERE u.id IN (SELECT unhex(value) FROM json_each($1))")
});

/// How many columns that are.
pub(crate) const COLUMNS_COUNT: usize = 12;

/// Reads [`COLUMNS`] from the start of a row.
pub(crate) fn read_user(row: &dyn Row) -> User {
    let metadata = row.text(7);
    User {
        id: id_at(row, 0).unwrap_or_default(),
        username: row.text(1).into(),
        display_name: row.text(2).into(),
        avatar_url: row.text(3).into(),
        lang_tag: if row.is_null(4) { "en".into() } else { row.text(4).into() },
        location: row.text(5).into(),
        timezone: row.text(6).into(),
        metadata: if metadata.is_empty() { "{}".into() } else { metadata.into() },
        create_time_ms: row.int(8),
        update_time_ms: row.int(9),
        disable_time_ms: row.int(10),
        edge_count: row.int(11),
    }
}

/// The id in a cell; `None` if it is not 16 bytes.
pub(crate) fn id_at(row: &dyn Row, column: usize) -> Option<Uuid> {
    Uuid::from_slice(row.blob(column)).ok()
}

/// Whether there is a user with this id. Who is there stays until the transaction ends.
pub(crate) fn is_there(db: &mut dyn Database, user_id: Uuid) -> Result<bool, DbError> {
    let mut is_there = false;
    let sql = "SELECT 1 FROM users WHERE id = $1 /* FOR KEY SHARE */";
    db.query(sql, &[Param::Blob(user_id.as_bytes())], &mut |_| is_there = true)?;
    Ok(is_there)
}

/// Locks users until the transaction ends: nobody else who counts what they have, or changes what
/// only one may change at a time, goes on before. Those that exist, with the numbers of their edges.
/// All at once and by rising id, so that two who lock the same users do not wait for each other.
pub(crate) fn lock(db: &mut dyn Database, ids: &[Uuid]) -> Result<BTreeMap<Uuid, i64>, DbError> {
    let mut found = BTreeMap::new();
    let of_one = "SELECT id, edge_count FROM users WHERE id = $1 /* FOR NO KEY UPDATE */";
    let of_list = "SELECT id, edge_count FROM users \
        WHERE id IN (SELECT unhex(value) FROM json_each($1)) ORDER BY id \
        /* FOR NO KEY UPDATE */";
    query_ids(db, ids, (of_one, of_list), &mut |row| {
        found.extend(id_at(row, 0).map(|id| (id, row.int(1))));
    })?;
    Ok(found)
}

/// Finds names that somebody has chosen.
const ID_BY_CHOSEN: &str = "SELECT id FROM users WHERE username = $1 AND generated IS NULL";
/// Finds names that were made of ids; see `account::generated_name`.
const ID_BY_GENERATED: &str = "SELECT id FROM users WHERE id >= $2 AND id <= $3 \
    AND username = $1 AND generated = 1";

/// The user with this name.
///
/// # Errors
/// Any [`DbError`].
pub fn id_of_username(db: &mut dyn Database, username: &str) -> Result<Option<Uuid>, DbError> {
    let mut id = None;
    db.query(ID_BY_CHOSEN, &[Param::Text(username)], &mut |row| id = id_at(row, 0))?;
    if id.is_some() { Ok(id) } else { owner_of_generated(db, username) }
}

/// The user for whom this name was made, if it was.
pub(crate) fn owner_of_generated(
    db: &mut dyn Database,
    username: &str,
) -> Result<Option<Uuid>, DbError> {
    let Some((first, last)) = generated_name::ids(username) else { return Ok(None) };
    let bounds = [Param::Blob(first.as_bytes()), Param::Blob(last.as_bytes())];
    let mut id = None;
    let params = [Param::Text(username), bounds[0], bounds[1]];
    db.query(ID_BY_GENERATED, &params, &mut |row| id = id_at(row, 0))?;
    Ok(id)
}

/// The users with these ids and names, each once, in the order asked for; unknown ones are left
/// out. Banned ones are in. How many may be asked for is bounded by the caller's request size.
///
/// # Errors
/// Any [`DbError`].
pub fn users(
    db: &mut dyn Database,
    ids: &[Uuid],
    usernames: &[String],
) -> Result<Vec<User>, DbError> {
    let named = ids_of_usernames(db, usernames)?;
    let mut seen = BTreeSet::new();
    let asked = ids.iter().chain(named.iter().flatten());
    let wanted: Vec<Uuid> = asked.filter(|id| seen.insert(**id)).copied().collect();
    let mut found = BTreeMap::new();
    query_ids(db, &wanted, (&OF_ONE, &OF_LIST), &mut |row| {
        let user = read_user(row);
        found.insert(user.id, user);
    })?;
    Ok(wanted.iter().filter_map(|id| found.remove(id)).collect())
}

/// The users with these names, in the order of the names.
///
/// # Errors
/// Any [`DbError`].
pub fn ids_of_usernames(
    db: &mut dyn Database,
    usernames: &[String],
) -> Result<Vec<Option<Uuid>>, DbError> {
    if let [username] = usernames {
        return Ok(vec![id_of_username(db, username)?]);
    }
    if usernames.is_empty() {
        return Ok(Vec::new());
    }
    let mut chosen = BTreeMap::new();
    let sql = "SELECT username, id FROM users \
        WHERE username IN (SELECT value FROM json_each($1)) AND generated IS NULL";
    let mut add = |row: &dyn Row| {
        chosen.extend(id_at(row, 1).map(|id| (row.text(0).to_owned(), id)));
    };
    db.query(sql, &[Param::Text(&text_list(usernames))], &mut add)?;
    let mut ids = Vec::with_capacity(usernames.len());
    for username in usernames {
        let id = chosen.get(username).copied();
        // Those made of ids have ranges of their own; few are asked for by name.
        ids.push(if id.is_some() { id } else { owner_of_generated(db, username)? });
    }
    Ok(ids)
}

/// Some random users: `count`, or all if there are fewer. Neighbours in time of registration are
/// likelier to come together: it reads on from a random place between the oldest and the newest
/// user for each of the `draws` (any numbers), and goes round at the end.
///
/// # Errors
/// Any [`DbError`].
pub fn random_users(
    db: &mut dyn Database,
    draws: &[u128],
    count: usize,
) -> Result<Vec<User>, DbError> {
    let oldest = end_of_ids(db, "SELECT id FROM users ORDER BY id LIMIT 1")?;
    let newest = end_of_ids(db, "SELECT id FROM users ORDER BY id DESC LIMIT 1")?;
    let (Some(oldest), Some(newest)) = (oldest, newest) else { return Ok(Vec::new()) };
    let span = (newest - oldest).saturating_add(1);
    let starts = draws.iter().map(|draw| oldest + draw % span);
    let mut ids = BTreeSet::new();
    let each = count.div_ceil(draws.len().max(1));
    // The last two find what the draws' shares have left: from the last place on, and round.
    let last = draws.last().map_or(oldest, |draw| oldest + draw % span);
    for (start, share) in starts.map(|start| (start, each)).chain([(last, count), (oldest, count)])
    {
        if ids.len() >= count {
            break;
        }
        let limit = Param::Int(i64::try_from(share).unwrap_or(i64::MAX));
        let sql = "SELECT id FROM users WHERE id >= $1 ORDER BY id LIMIT $2";
        db.query(sql, &[Param::Blob(&start.to_be_bytes()), limit], &mut |row| {
            if ids.len() < count {
                ids.extend(id_at(row, 0));
            }
        })?;
    }
    let ids: Vec<Uuid> = ids.into_iter().collect();
    users(db, &ids, &[])
}

/// The first or last id that there is.
fn end_of_ids(db: &mut dyn Database, sql: &str) -> Result<Option<u128>, DbError> {
    let mut found = None;
    db.query(sql, &[], &mut |row| found = id_at(row, 0).map(|id| id.as_u128()))?;
    Ok(found)
}

impl User {
    /// The user as the API shows it.
    pub fn into_message(self, online: bool) -> api::User {
        api::User {
            id: self.id.to_string(),
            username: self.username,
            display_name: self.display_name,
            avatar_url: self.avatar_url,
            lang_tag: self.lang_tag,
            location: self.location,
            timezone: self.timezone,
            metadata: self.metadata,
            online,
            edge_count: i32::try_from(self.edge_count).unwrap_or(i32::MAX),
            create_time: Some(Timestamp::from_unix_ms(self.create_time_ms)),
            update_time: Some(Timestamp::from_unix_ms(self.update_time_ms)),
            ..api::User::default()
        }
    }
}
