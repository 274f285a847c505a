//! A user's wallet: a flat object of whole numbers that only scripts change. No ledger yet.
//!
//! Source: fact sheet F.10, E.7.

use std::collections::BTreeMap;

use event::Now;
use uuid::Uuid;

use super::{account_not_found, atomically, unix_ms};
use crate::db::{Database, DbError, Param};
use crate::error::ApiError;

/// Most different entries of a wallet: it is read and written as a whole.
pub const WALLET_ENTRIES_MAX: usize = 1_000;

/// A wallet before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalletChange {
    /// After.
    pub updated: BTreeMap<String, i64>,
    /// Before.
    pub previous: BTreeMap<String, i64>,
}

/// Adds `changes` (which may be negative) to the wallet, all or none.
///
/// # Errors
/// [`ApiError`]: code 3 for a result below zero, beyond 64 bits, or too many entries; code 5 for
/// an unknown user.
pub fn wallet_update(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    changes: &[(String, i64)],
) -> Result<WalletChange, ApiError> {
    atomically(db, |db| {
        let mut wallet: Option<String> = None;
        let id = Param::Blob(user_id.as_bytes());
        db.query("SELECT wallet FROM users WHERE id = $1", &[id], &mut |row| {
            wallet = Some(row.text(0).into());
        })?;
        let wallet = wallet.ok_or(Failure::Refused(account_not_found()))?;
        let previous: BTreeMap<String, i64> = if wallet.is_empty() {
            BTreeMap::new()
        } else {
            serde_json::from_str(&wallet)
                .map_err(|_| Failure::Refused(ApiError::internal("Wallet is damaged.")))?
        };
        let updated = changed(&previous, changes).map_err(Failure::Refused)?;
        let text = serde_json::to_string(&updated).unwrap_or_default();
        let sql = "UPDATE users SET wallet = $2, update_time = $3 WHERE id = $1";
        db.execute(sql, &[id, Param::Text(&text), Param::Int(unix_ms(now))])?;
        Ok(WalletChange { updated, previous })
    })
    .map_err(|failure| match failure {
        Failure::Refused(error) => error,
        Failure::Database => ApiError::internal("Error updating user wallet."),
    })
}

fn changed(
    previous: &BTreeMap<String, i64>,
    changes: &[(String, i64)],
) -> Result<BTreeMap<String, i64>, ApiError> {
    let mut updated = previous.clone();
    for (path, delta) in changes {
        let amount = updated.entry(path.clone()).or_insert(0);
        *amount = amount.checked_add(*delta).ok_or_else(|| {
            ApiError::invalid(format!("wallet update rejected overflow at path '{path}'"))
        })?;
        if *amount < 0 {
            return Err(ApiError::invalid(format!(
                "wallet update rejected negative value at path '{path}'"
            )));
        }
    }
    if updated.len() > WALLET_ENTRIES_MAX {
        return Err(ApiError::invalid(format!(
            "wallet update rejected, more than {WALLET_ENTRIES_MAX} entries"
        )));
    }
    Ok(updated)
}

enum Failure {
    Refused(ApiError),
    Database,
}

impl From<DbError> for Failure {
    fn from(_: DbError) -> Self {
        Self::Database
    }
}
