//! Lists of kept notifications, page by page. A cursor is the id of the last one that was seen, which
//! is good for ever: later ones have greater ids.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::{COLUMNS, Notification, read};
use crate::db::{Database, Param, id_list};
use crate::error::ApiError;

/// Most notifications on one page, for scripts; clients get a tenth.
pub const LIST_LIMIT_MAX: usize = 1_000;

const FAILED: &str = "Error retrieving notifications.";

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The oldest first.
    pub notifications: Vec<Notification>,
    /// Asks for those behind the page, also for those that are not made yet.
    pub cursor: String,
    /// Whether there are some already.
    pub has_more: bool,
}

/// A page of what is kept for a user: its own, and, from the time on when it was made, what is for
/// everybody. The page ends before its texts have `bytes_max`, but has one.
///
/// # Errors
/// [`ApiError`]: code 3 for a bad cursor, 13.
pub fn list(
    db: &mut dyn Database,
    user_id: Uuid,
    (limit, cursor): (usize, &str),
    bytes_max: usize,
) -> Result<List, ApiError> {
    let malformed = || ApiError::invalid("Malformed cursor was used.");
    let after =
        if cursor.is_empty() { Uuid::nil() } else { parse(cursor).ok_or_else(malformed)? };
    let sql = format!(
        "SELECT {COLUMNS} FROM notification WHERE user_id = $1 AND id > $2 \
         UNION ALL \
         SELECT {COLUMNS} FROM notification AS n WHERE n.user_id = $3 AND n.id > $2 \
         AND n.create_time >= (SELECT u.create_time FROM users u WHERE u.id = $1) \
         AND NOT EXISTS (SELECT 1 FROM notification_hidden h \
                         WHERE h.user_id = $1 AND h.id = n.id) \
         ORDER BY id LIMIT $4"
    );
    let system = Uuid::nil();
    let params = [
        Param::Blob(user_id.as_bytes()),
        Param::Blob(after.as_bytes()),
        Param::Blob(system.as_bytes()),
        // One more than asked for tells whether there is a next page.
        Param::Int(i64::try_from(limit).unwrap_or(0) + 1),
    ];
    let mut page = List::default();
    let mut bytes = 0;
    db.query(&sql, &params, &mut |row| {
        if page.has_more {
            return;
        }
        let notification = read(row);
        bytes += bytes_of(&notification);
        let notifications = &mut page.notifications;
        page.has_more =
            notifications.len() == limit || (bytes > bytes_max && !notifications.is_empty());
        if !page.has_more {
            notifications.push(notification);
        }
    })
    .map_err(ApiError::database(FAILED))?;
    let last = page.notifications.last().map_or(after, |last| last.id);
    page.cursor = URL_SAFE_NO_PAD.encode(last.as_bytes());
    Ok(page)
}

/// About how many bytes a notification has in an answer.
fn bytes_of(notification: &Notification) -> usize {
    const REST: usize = 250;
    // Quotes and backslashes take two bytes.
    REST + 2 * (notification.subject.len() + notification.content.len())
}

fn parse(cursor: &str) -> Option<Uuid> {
    Uuid::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()
}

/// Those with these ids, each once, of one user or whosever; unknown ones are left out.
///
/// # Errors
/// [`ApiError`] with code 13.
pub fn by_ids(
    db: &mut dyn Database,
    user_id: Option<Uuid>,
    ids: &[Uuid],
) -> Result<Vec<Notification>, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM notification \
         WHERE id IN (SELECT unhex(value) FROM json_each($1)) ORDER BY id"
    );
    let mut found = Vec::new();
    let list = id_list(ids.iter().collect::<std::collections::BTreeSet<_>>());
    db.query(&sql, &[Param::Text(&list)], &mut |row| found.push(read(row)))
        .map_err(ApiError::database(FAILED))?;
    found.retain(|one| user_id.is_none() || one.user_id == user_id);
    Ok(found)
}
