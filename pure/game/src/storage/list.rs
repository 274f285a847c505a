//! Listing storage objects, page by page. A cursor is the last object of the page before, so that
//! pages stay right while objects come and go.
//!
//! A script's list of everybody's objects has those of nobody's first, by their keys, as the table has them, and then those of users,
//! by an index. So the index needs those of nobody's alone that clients may list, and a write of any other one changes a page less
//! (`schema`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{Caller, Object, read_object};
use crate::db::{Database, DbError, Param, Row};
use crate::error::ApiError;
use crate::schema::{is_listed, nobody};

/// Most objects on one page.
pub const LIST_LIMIT_MAX: usize = 100;

/// Which objects to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Of which collection.
    pub collection: String,
    /// Whose; `None` for everybody's.
    pub user_id: Option<Uuid>,
    /// 1–[`LIST_LIMIT_MAX`].
    pub limit: usize,
    /// Empty, or where the page before ended.
    pub cursor: String,
}

/// Where a page ended, in the order of lists.
struct Position {
    read: i64,
    key: String,
    user_id: Uuid,
}

/// One user's objects, or nobody's.
const OF_ONE: &str =
    select!("user_id = $1 AND collection = $2 AND key > $3 AND read >= $4 ORDER BY key LIMIT $5");

/// Everybody's that are in the index. Its lowest read permission is in the position, because SQLite would look for one
/// named apart instead, and pass over all between it and the position.
const LISTED: &str = select!(
    "collection = $1 AND (read, key, user_id) > ($2, $3, $4) AND ",
    is_listed!(),
    " ORDER BY read, key, user_id LIMIT $5"
);

/// Those of users.
const OF_USERS: &str = select!(
    "collection = $1 AND (read, key, user_id) > ($2, $3, $4) AND user_id <> ",
    nobody!(),
    " ORDER BY read, key, user_id LIMIT $5"
);

/// A page that is being read.
struct Page {
    objects: Vec<Object>,
    bytes: usize,
    bytes_max: usize,
    is_full: bool,
}

impl Page {
    fn add(&mut self, row: &dyn Row) {
        if self.is_full {
            return;
        }
        let object = read_object(row);
        self.bytes += object.json_bytes();
        self.is_full = self.bytes > self.bytes_max && !self.objects.is_empty();
        if !self.is_full {
            self.objects.push(object);
        }
    }
}

/// A page of objects that the caller may read, and the cursor for the next page (empty at the
/// end). The page ends before `bytes_max`, as [`Object::json_bytes`] counts, but has one object. One user's objects are ordered by key; so are nobody's, the first ones of everybody's that a script lists; others of everybody's by read permission, key and owner.
///
/// # Errors
/// [`ApiError`]: code 3 for a bad limit or cursor, 13.
pub fn list(
    db: &mut dyn Database,
    caller: Caller,
    listing: &Listing,
    bytes_max: usize,
) -> Result<(Vec<Object>, String), ApiError> {
    if !(1..=LIST_LIMIT_MAX).contains(&listing.limit) {
        return Err(ApiError::invalid(format!(
            "Invalid limit - limit must be between 1 and {LIST_LIMIT_MAX}."
        )));
    }
    let after = if listing.cursor.is_empty() {
        None
    } else {
        let after = Position::parse(&listing.cursor);
        Some(after.ok_or_else(|| ApiError::invalid("Malformed cursor was used."))?)
    };
    let mut page = Page {
        objects: Vec::with_capacity(listing.limit + 1),
        bytes: 0,
        bytes_max,
        is_full: false,
    };
    read(db, caller, listing, after, &mut page)
        .map_err(ApiError::database("Error listing storage objects."))?;
    let Page { mut objects, is_full, .. } = page;
    let mut cursor = String::new();
    if is_full || objects.len() > listing.limit {
        objects.truncate(listing.limit);
        cursor = objects.last().map(|last| Position::of(last).text()).unwrap_or_default();
    }
    Ok((objects, cursor))
}

/// Reads the page that comes behind a position, or the first one.
fn read(
    db: &mut dyn Database,
    caller: Caller,
    listing: &Listing,
    after: Option<Position>,
    page: &mut Page,
) -> Result<(), DbError> {
    let read_min = match (caller, listing.user_id) {
        (Caller::Script, _) => 0,
        (Caller::User(caller), Some(owner)) if caller == owner => 1,
        (Caller::User(_), _) => 2,
    };
    match (caller, listing.user_id) {
        (_, Some(owner)) => of_one(db, listing, (owner, read_min), after.as_ref(), page),
        (Caller::User(_), None) => {
            let after = after.filter(|after| after.read >= read_min);
            let after = after.unwrap_or_else(|| Position::before(read_min));
            everybodys(db, listing, LISTED, &after, page)
        }
        (Caller::Script, None) => {
            let after_user = match after {
                Some(after) if !after.user_id.is_nil() => after,
                after => {
                    of_one(db, listing, (Uuid::nil(), read_min), after.as_ref(), page)?;
                    Position::before(read_min)
                }
            };
            everybodys(db, listing, OF_USERS, &after_user, page)
        }
    }
}

/// Adds objects of one user's, or of nobody's, that can be read with this permission.
fn of_one(
    db: &mut dyn Database,
    listing: &Listing,
    (owner, read_min): (Uuid, i64),
    after: Option<&Position>,
    page: &mut Page,
) -> Result<(), DbError> {
    let params = [
        Param::Blob(owner.as_bytes()),
        Param::Text(&listing.collection),
        Param::Text(after.map_or("", |after| &after.key)),
        Param::Int(read_min),
        Param::Int(listing.rows(page)),
    ];
    db.query(OF_ONE, &params, &mut |row| page.add(row))
}

/// Adds objects by the index, unless the page is full.
fn everybodys(
    db: &mut dyn Database,
    listing: &Listing,
    sql: &str,
    after: &Position,
    page: &mut Page,
) -> Result<(), DbError> {
    let rows = listing.rows(page);
    if page.is_full || rows == 0 {
        return Ok(());
    }
    let params = [
        Param::Text(&listing.collection),
        Param::Int(after.read),
        Param::Text(&after.key),
        Param::Blob(after.user_id.as_bytes()),
        Param::Int(rows),
    ];
    db.query(sql, &params, &mut |row| page.add(row))
}

impl Listing {
    /// How many more the page may have, and one that tells whether there is a next page.
    fn rows(&self, page: &Page) -> i64 {
        let rows = self.limit + 1;
        assert!(page.objects.len() <= rows, "a statement gave more rows than its limit");
        i64::try_from(rows - page.objects.len()).unwrap_or(0)
    }
}

impl Position {
    /// Before all that can be read with this permission: keys are never empty.
    fn before(read: i64) -> Self {
        Self { read, key: String::new(), user_id: Uuid::nil() }
    }

    fn of(object: &Object) -> Self {
        Self {
            read: i64::from(object.permission_read),
            key: object.id.key.clone(),
            user_id: object.id.user_id,
        }
    }

    fn text(&self) -> String {
        let mut bytes = vec![u8::try_from(self.read).unwrap_or(0)];
        bytes.extend_from_slice(self.user_id.as_bytes());
        bytes.extend_from_slice(self.key.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (read, rest) = bytes.split_first()?;
        let (user_id, key) = rest.split_at_checked(16)?;
        Some(Self {
            read: i64::from(*read),
            key: std::str::from_utf8(key).ok()?.to_owned(),
            user_id: Uuid::from_slice(user_id).ok()?,
        })
    }
}
