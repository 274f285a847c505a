//! Listing storage objects, page by page. A cursor is the last object of the page before, so that
//! pages stay right while objects come and go.
//!
//! Everybody's objects are listed by an index, but for those of nobody's that only scripts may read: these are not
//! in it, because the table itself has them in this order. For a script both are merged; to find those of
//! a collection that holds many others of nobody's, the database passes over the others.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{Caller, Object, read_object};
use crate::db::{Database, Param};
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

macro_rules! select {
    ($($rest:expr),+) => {
        concat!(
            "SELECT collection, key, user_id, value, version, read, write, create_time, \
             update_time FROM storage WHERE ",
            $($rest),+
        )
    };
}

/// One user's objects.
const OF_ONE: &str =
    select!("user_id = $1 AND collection = $2 AND key > $3 AND read >= $4 ORDER BY key LIMIT $5");

/// Everybody's that are in the index.
const LISTED: &str = select!(
    "collection = $1 AND read >= $2 AND (read, key, user_id) > ($3, $4, $5) AND ",
    is_listed!(),
    " ORDER BY read, key, user_id LIMIT $6"
);

/// Everybody's behind one that has read permission 0, whoever may read them. No user's id is below that of nobody,
/// so that of nobody's a greater key comes next.
const ALL: &str = concat!(
    select!(
        "collection = $1 AND read >= $2 AND (read, key, user_id) > ($3, $4, $5) AND ",
        is_listed!()
    ),
    " UNION ALL ",
    select!(
        "user_id = ",
        nobody!(),
        " AND collection = $1 AND key > $4 AND read = 0 ORDER BY read, key, user_id LIMIT $6"
    )
);

/// A page of objects that the caller may read, and the cursor for the next page (empty at the
/// end). The page ends before `bytes_max`, as [`Object::json_bytes`] counts, but has one object. One user's objects are ordered by key, everybody's by read permission, key and owner.
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
        Position { read: -1, key: String::new(), user_id: Uuid::nil() }
    } else {
        Position::parse(&listing.cursor)
            .ok_or_else(|| ApiError::invalid("Malformed cursor was used."))?
    };
    // One more than asked for tells whether there is a next page.
    let limit = i64::try_from(listing.limit).unwrap_or(0) + 1;
    let read_min = match (caller, listing.user_id) {
        (Caller::Script, _) => 0,
        (Caller::User(caller), Some(owner)) if caller == owner => 1,
        (Caller::User(_), _) => 2,
    };
    let mut objects: Vec<Object> = Vec::with_capacity(listing.limit + 1);
    let (mut bytes, mut is_full) = (0, false);
    let mut each = |row: &dyn crate::db::Row| {
        if is_full {
            return;
        }
        let object = read_object(row);
        bytes += object.json_bytes();
        is_full = bytes > bytes_max && !objects.is_empty();
        if !is_full {
            objects.push(object);
        }
    };
    let result = if let Some(owner) = &listing.user_id {
        let params = [
            Param::Blob(owner.as_bytes()),
            Param::Text(&listing.collection),
            Param::Text(&after.key),
            Param::Int(read_min),
            Param::Int(limit),
        ];
        db.query(OF_ONE, &params, &mut each)
    } else {
        let params = [
            Param::Text(&listing.collection),
            Param::Int(read_min),
            Param::Int(after.read),
            Param::Text(&after.key),
            Param::Blob(after.user_id.as_bytes()),
            Param::Int(limit),
        ];
        if read_min == 0 && after.read <= 0 {
            db.query(ALL, &params, &mut each)
        } else {
            db.query(LISTED, &params, &mut each)
        }
    };
    result.map_err(ApiError::database("Error listing storage objects."))?;
    let mut cursor = String::new();
    if is_full || objects.len() > listing.limit {
        objects.truncate(listing.limit);
        cursor = objects.last().map(|last| Position::of(last).text()).unwrap_or_default();
    }
    Ok((objects, cursor))
}

impl Position {
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
