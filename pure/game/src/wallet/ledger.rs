//! The ledger: one row for each change of a wallet that a script wanted to be kept, newest first.
//! Rows go with their user. A cursor is the last row of the page before, so that pages stay right
//! while rows are added.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use event::Now;
use uuid::Uuid;

use super::{LEDGER_BYTES_MAX, LedgerRow, WalletUpdate};
use crate::account::{atomically, unix_ms};
use crate::db::{Database, Param, Row};
use crate::error::{ApiError, Code, Failure};
use crate::user::id_at;

/// Most rows on one page.
pub const LEDGER_LIMIT_MAX: usize = 100;

const FAILED: &str = "Error updating user wallet ledger.";

/// One kept change of a wallet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerItem {
    /// The row's own id.
    pub id: Uuid,
    /// Whose wallet.
    pub user_id: Uuid,
    /// JSON text: an object of whole numbers, what was added to which entry.
    pub changeset: String,
    /// JSON text of an object.
    pub metadata: String,
    /// Unix milliseconds.
    pub create_time_ms: i64,
    /// Unix milliseconds.
    pub update_time_ms: i64,
}

const COLUMNS: &str = "id, user_id, changeset, metadata, create_time, update_time";

fn read(row: &dyn Row) -> LedgerItem {
    LedgerItem {
        id: id_at(row, 0).unwrap_or_default(),
        user_id: id_at(row, 1).unwrap_or_default(),
        changeset: row.text(2).into(),
        metadata: row.text(3).into(),
        create_time_ms: row.int(4),
        update_time_ms: row.int(5),
    }
}

fn check_bytes(text: &str) -> Result<(), ApiError> {
    if text.len() > LEDGER_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "wallet ledger rejected, more than {LEDGER_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

pub(super) fn insert(
    db: &mut dyn Database,
    now: Now,
    update: &WalletUpdate,
    row: &LedgerRow,
) -> Result<(), Failure> {
    let changeset = serde_json::to_string(&update.changeset).unwrap_or_default();
    check_bytes(&changeset)?;
    check_bytes(&row.metadata)?;
    let sql = "INSERT INTO wallet_ledger (id, user_id, changeset, metadata, create_time, \
        update_time) VALUES ($1, $2, $3, $4, $5, $5)";
    db.execute(
        sql,
        &[
            Param::Blob(row.id.as_bytes()),
            Param::Blob(update.user_id.as_bytes()),
            Param::Text(&changeset),
            Param::Text(&row.metadata),
            Param::Int(unix_ms(now)),
        ],
    )?;
    Ok(())
}

/// A page of a user's ledger, newest first, and the cursor for the next page (empty at the end).
/// `limit` is 0–[`LEDGER_LIMIT_MAX`], a greater one is that; 0 finds nothing.
///
/// # Errors
/// [`ApiError`]: code 3 for a cursor that is none, or another user's; 13.
pub fn ledger_list(
    db: &mut dyn Database,
    user_id: Uuid,
    limit: usize,
    cursor: &str,
) -> Result<(Vec<LedgerItem>, String), ApiError> {
    let limit = limit.min(LEDGER_LIMIT_MAX);
    let before = if cursor.is_empty() {
        Position { create_time_ms: i64::MAX, id: Uuid::max() }
    } else {
        Position::parse(user_id, cursor)
            .ok_or_else(|| ApiError::invalid("wallet ledger cursor invalid"))?
    };
    if limit == 0 {
        return Ok((Vec::new(), String::new()));
    }
    // One more than asked for tells whether there is a next page.
    let rows_max = i64::try_from(limit).unwrap_or(0) + 1;
    let mut items = Vec::with_capacity(limit + 1);
    let sql = format!(
        "SELECT {COLUMNS} FROM wallet_ledger WHERE user_id = $1 AND (create_time, id) < ($2, $3) \
         ORDER BY create_time DESC, id DESC LIMIT $4"
    );
    let params = [
        Param::Blob(user_id.as_bytes()),
        Param::Int(before.create_time_ms),
        Param::Blob(before.id.as_bytes()),
        Param::Int(rows_max),
    ];
    db.query(&sql, &params, &mut |row| items.push(read(row)))
        .map_err(ApiError::database("Error retrieving user wallet ledger."))?;
    let mut cursor = String::new();
    if items.len() > limit {
        items.truncate(limit);
        cursor = items.last().map(|last| Position::of(last).text(user_id)).unwrap_or_default();
    }
    Ok((items, cursor))
}

/// Lays `metadata` over the metadata of a row, member by member; the row as it is then.
///
/// # Errors
/// [`ApiError`]: code 5 if there is no such row, code 3 if it gets too large, 13.
pub fn ledger_update(
    db: &mut dyn Database,
    now: Now,
    id: Uuid,
    metadata: &str,
) -> Result<LedgerItem, ApiError> {
    let updated = atomically(db, |db| {
        let mut found = None;
        let sql = format!("SELECT {COLUMNS} FROM wallet_ledger WHERE id = $1 /* FOR UPDATE */");
        db.query(&sql, &[Param::Blob(id.as_bytes())], &mut |row| found = Some(read(row)))?;
        let mut item =
            found.ok_or_else(|| ApiError::new(Code::NotFound, "wallet ledger item not found"))?;
        item.metadata = merged(&item.metadata, metadata)?;
        item.update_time_ms = unix_ms(now);
        check_bytes(&item.metadata)?;
        let sql = "UPDATE wallet_ledger SET metadata = $2, update_time = $3 WHERE id = $1";
        let params = [
            Param::Blob(id.as_bytes()),
            Param::Text(&item.metadata),
            Param::Int(item.update_time_ms),
        ];
        db.execute(sql, &params)?;
        Ok(item)
    });
    updated.map_err(|failure: Failure| failure.into_error(FAILED))
}

/// `jsonb || jsonb` of PostgreSQL for two objects. Members are kept as texts, so that no number
/// loses digits.
fn merged(below: &str, above: &str) -> Result<String, ApiError> {
    type Members<'a> = BTreeMap<String, &'a serde_json::value::RawValue>;
    let read = |text| {
        serde_json::from_str::<Members<'_>>(text)
            .map_err(|_| ApiError::internal("Wallet ledger metadata is damaged."))
    };
    let mut members = read(below)?;
    members.extend(read(above)?);
    serde_json::to_string(&members).map_err(|_| ApiError::internal(FAILED))
}

/// Where a page ended.
struct Position {
    create_time_ms: i64,
    id: Uuid,
}

impl Position {
    fn of(item: &LedgerItem) -> Self {
        Self { create_time_ms: item.create_time_ms, id: item.id }
    }

    fn text(&self, user_id: Uuid) -> String {
        let mut bytes = user_id.as_bytes().to_vec();
        bytes.extend_from_slice(&self.create_time_ms.to_be_bytes());
        bytes.extend_from_slice(self.id.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn parse(user_id: Uuid, text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let rest = bytes.strip_prefix(user_id.as_bytes())?;
        let (time, id) = rest.split_first_chunk()?;
        Some(Self { create_time_ms: i64::from_be_bytes(*time), id: Uuid::from_slice(id).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Position, merged};

    #[test]
    fn metadata_is_laid_over_member_by_member() {
        let text = merged(r#"{"a":{"x":1},"b":2}"#, r#"{"a":{"y":12345678901234567890}}"#);
        assert_eq!(text.unwrap(), r#"{"a":{"y":12345678901234567890},"b":2}"#);
        assert!(merged("[]", "{}").is_err());
    }

    #[test]
    fn cursors_belong_to_their_user_and_broken_ones_are_none() {
        let (user, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let position = Position { create_time_ms: -3, id: Uuid::from_u128(7) };
        let text = position.text(user);
        let back = Position::parse(user, &text).unwrap();
        assert_eq!((back.create_time_ms, back.id), (-3, Uuid::from_u128(7)));
        assert!(Position::parse(other, &text).is_none());
        for end in 0..text.len() {
            assert!(Position::parse(user, &text[..end]).is_none(), "{end}");
        }
    }
}
