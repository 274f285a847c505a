//! Listing storage objects, page by page. A cursor is the last object of the page before, so that
//! pages stay right while objects come and go.
//!
//! A script's list of everybody's objects has those of nobody's first, by their keys, as the table
//! has them, and then those of users, by an index. So of nobody's the index needs those alone that
//! clients may list, and a write of any other one changes a page less (`schema`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{Caller, Object, read_object};
use crate::db::{Database, DbError, Param, Row};
use crate::error::{ApiError, Code};
use crate::schema::{is_indexed, nobody};

/// Most objects on one page.
pub const LIST_LIMIT_MAX: usize = 100;

/// So much of what its caller may not read a client's page passes over, about, in pages of the
/// database and objects: a user can write as much as it likes, and others wait meanwhile.
pub const PASSED_OVER_MAX: usize = 10_000;

/// So many objects are looked at by one statement, behind the first one of a page.
const STATEMENT_ROWS: usize = 1_000;

/// What an object that is passed over counts besides one, for each page that its value takes: the
/// permission stands behind the value in the row.
const VALUE_PAGE_BYTES: i64 = 2_048;

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
    /// [`PASSED_OVER_MAX`], or what else may be passed over. Whoever may choose cursors as it likes can
    /// count what is hidden by what is refused, and find its keys by that.
    pub passed_over_max: usize,
}

/// Where a page ended, in the order of lists.
struct Position {
    read: i64,
    key: String,
    user_id: Uuid,
}

/// Columns of the statements.
const KEY: usize = 1;
const VALUE: usize = 3;
const VALUE_BYTES: usize = 9;

/// One user's objects, or nobody's. Those that are passed over have no value.
const OF_ONE: &str = select!(
    value: "CASE WHEN read >= $4 THEN value END",
    also: ", octet_length(value)",
    "user_id = $1 AND collection = $2 AND key > $3 ORDER BY key LIMIT $5"
);

/// Everybody's that are in the index. Its lowest read permission is in the position: SQLite would
/// look for one named apart instead, and pass over all between it and the position.
const INDEXED: &str = select!(
    "collection = $1 AND (read, key, user_id) > ($2, $3, $4) AND ",
    is_indexed!(),
    " ORDER BY read, key, user_id LIMIT $5"
);

/// Those of users, which are in the index too.
const OF_USERS: &str = select!(
    "collection = $1 AND (read, key, user_id) > ($2, $3, $4) AND user_id <> ",
    nobody!(),
    " ORDER BY read, key, user_id LIMIT $5"
);

/// A page of objects that the caller may read, and the cursor for the next page (empty at the
/// end). The page ends before `bytes_max`, as [`Object::json_bytes`] counts, but has one object, and
/// where many were passed over.
/// One user's objects are ordered by key; so are nobody's, the first ones of everybody's that a
/// script lists; others of everybody's by read permission, key and owner.
///
/// # Errors
/// [`ApiError`]: code 3 for a bad limit or cursor, 8 where too much is to be passed over for the
/// next object ([`Listing::passed_over_max`]), 13.
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
        Some(after.ok_or_else(malformed_cursor)?)
    };
    let mut page = Page::new(listing, bytes_max);
    page.fill(db, caller, after)?;
    Ok(page.end())
}

/// A page that is being read.
struct Page<'a> {
    listing: &'a Listing,
    objects: Vec<Object>,
    bytes: usize,
    bytes_max: usize,
    is_full: bool,
}

impl<'a> Page<'a> {
    fn new(listing: &'a Listing, bytes_max: usize) -> Self {
        let objects = Vec::with_capacity(listing.limit + 1);
        Self { listing, objects, bytes: 0, bytes_max, is_full: false }
    }

    /// Reads what comes behind a position, or the first objects.
    fn fill(
        &mut self,
        db: &mut dyn Database,
        caller: Caller,
        after: Option<Position>,
    ) -> Result<(), ApiError> {
        let owner = self.listing.user_id;
        let read_min = match (caller, owner) {
            (Caller::Script, _) => 0,
            (Caller::User(caller), Some(owner)) if caller == owner => 1,
            (Caller::User(_), _) => 2,
        };
        match (caller, owner) {
            (_, Some(owner)) => self.add_of_one(db, owner, read_min, after.as_ref()),
            (Caller::User(_), None) => {
                // A script's cursor may stand before what a client may read.
                let own = after.filter(|after| after.read >= read_min);
                let from = own.unwrap_or_else(|| Position::before(read_min));
                self.add_by_index(db, INDEXED, &from)
            }
            (Caller::Script, None) => match after {
                Some(after) if !after.user_id.is_nil() => self.add_by_index(db, OF_USERS, &after),
                after => {
                    self.add_of_one(db, Uuid::nil(), read_min, after.as_ref())?;
                    self.add_by_index(db, OF_USERS, &Position::before(read_min))
                }
            },
        }
    }

    /// Adds objects of one user's, or of nobody's, that can be read with this permission. Too many
    /// others end the page; if it has none they are an error, for a cursor would name one of them.
    /// A statement looks at twice as many as the one before passed over, so that values are not read
    /// in vain, but at no more of such size than may still be passed over.
    fn add_of_one(
        &mut self,
        db: &mut dyn Database,
        owner: Uuid,
        read_min: i64,
        after: Option<&Position>,
    ) -> Result<(), ApiError> {
        let mut behind = after.map_or_else(String::new, |after| after.key.clone());
        let (mut rows, mut passed_over) = (self.rows(), 0);
        loop {
            let (mut looked_at, mut hidden, mut weight, mut last) = (0, 0, 0, String::new());
            let params = [
                Param::Blob(owner.as_bytes()),
                Param::Text(&self.listing.collection),
                Param::Text(&behind),
                Param::Int(read_min),
                Param::Int(count(rows)),
            ];
            let each = &mut |row: &dyn Row| {
                looked_at += 1;
                if looked_at == rows {
                    row.text(KEY).clone_into(&mut last);
                }
                if row.is_null(VALUE) {
                    hidden += 1;
                    let pages = row.int(VALUE_BYTES) / VALUE_PAGE_BYTES;
                    weight += 1 + usize::try_from(pages).unwrap_or(0);
                } else {
                    self.add(row);
                }
            };
            db.query(OF_ONE, &params, each).map_err(failed)?;
            assert!(looked_at <= rows, "a statement gave more rows than its limit");
            if looked_at < rows || self.has_enough() {
                return Ok(());
            }
            passed_over += weight;
            if passed_over >= self.listing.passed_over_max {
                self.is_full = true;
                return if self.objects.is_empty() { Err(too_much()) } else { Ok(()) };
            }
            let left = self.listing.passed_over_max - passed_over;
            let of_this_size = left / weight.checked_div(hidden).unwrap_or(1) + 1;
            let next = self.rows().max(2 * hidden).min(of_this_size).min(STATEMENT_ROWS);
            (behind, rows) = (last, next);
        }
    }

    /// Adds objects in the order of the index, unless the page is full.
    fn add_by_index(
        &mut self,
        db: &mut dyn Database,
        sql: &str,
        after: &Position,
    ) -> Result<(), ApiError> {
        if self.has_enough() {
            return Ok(());
        }
        let params = [
            Param::Text(&self.listing.collection),
            Param::Int(after.read),
            Param::Text(&after.key),
            Param::Blob(after.user_id.as_bytes()),
            Param::Int(count(self.rows())),
        ];
        db.query(sql, &params, &mut |row| self.add(row)).map_err(failed)
    }

    /// How many more there may be, and one that tells whether there is a next page.
    fn rows(&self) -> usize {
        let rows = self.listing.limit + 1;
        assert!(self.objects.len() <= rows, "more objects than a page and one");
        rows - self.objects.len()
    }

    /// Whether nothing more is needed.
    fn has_enough(&self) -> bool {
        self.is_full || self.rows() == 0
    }

    fn add(&mut self, row: &dyn Row) {
        if self.has_enough() {
            return;
        }
        let object = read_object(row);
        self.bytes += object.json_bytes();
        self.is_full = self.bytes > self.bytes_max && !self.objects.is_empty();
        if !self.is_full {
            self.objects.push(object);
        }
    }

    /// The objects, and where the next page begins.
    fn end(mut self) -> (Vec<Object>, String) {
        let mut cursor = String::new();
        if self.is_full || self.objects.len() > self.listing.limit {
            self.objects.truncate(self.listing.limit);
            cursor = self.objects.last().map(|last| Position::of(last).text()).unwrap_or_default();
        }
        (self.objects, cursor)
    }
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// A cursor that no list of storage has given.
pub fn malformed_cursor() -> ApiError {
    ApiError::invalid("Malformed cursor was used.")
}

fn failed(error: DbError) -> ApiError {
    ApiError::database("Error listing storage objects.")(error)
}

fn too_much() -> ApiError {
    let message = "Too much to pass over - thousands of objects come next that you may not read; keep \
        them apart from those that are listed.";
    ApiError::new(Code::ResourceExhausted, message)
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
