//! Users' wallets: flat objects of whole numbers that only scripts change, and the ledger of those
//! changes that a script wanted to be kept.
//!
//! A change comes in as a [`WalletUpdate`]; the wallet before and after goes out. Several are one
//! transaction, all or none, ledger rows included: what failed can be tried again. Clients see
//! their wallet in their account (`account`).
//!
//! Source: nakama 3.40, `server/core_wallet.go`.

mod ledger;

use std::collections::{BTreeMap, BTreeSet};

use event::Now;
use uuid::Uuid;
use wire::excerpt::excerpt;

pub use ledger::{LEDGER_LIMIT_MAX, LedgerItem, ledger_list, ledger_update};

use crate::account::{atomically, unix_ms};
use crate::db::{Database, DbError, Param, query_ids};
use crate::error::{ApiError, Failure};
use crate::user::id_at;

/// Most different entries of a wallet: it is read and written as a whole.
pub const WALLET_ENTRIES_MAX: usize = 1_000;

/// Most bytes of a wallet as text.
pub const WALLET_BYTES_MAX: usize = 64 * 1024;

/// Most changes in one call.
pub const WALLET_UPDATES_MAX: usize = 1_000;

/// Most bytes of the metadata of a ledger row, and of its changes.
pub const LEDGER_BYTES_MAX: usize = 64 * 1024;

/// What is to be added to one user's wallet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalletUpdate {
    /// Whose.
    pub user_id: Uuid,
    /// What to add to which entry; may be negative, zero or empty.
    pub changeset: BTreeMap<String, i64>,
    /// The row for the ledger, if the change is to be kept there.
    pub ledger: Option<LedgerRow>,
}

/// The part of a ledger row that the caller makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
    /// Its id, unique for ever.
    pub id: Uuid,
    /// JSON text of an object.
    pub metadata: String,
}

/// A wallet before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalletChange {
    /// Whose.
    pub user_id: Uuid,
    /// After.
    pub updated: BTreeMap<String, i64>,
    /// Before.
    pub previous: BTreeMap<String, i64>,
}

/// Changes wallets in this order, all or none. Users that do not exist are passed over: there is
/// no change of theirs in the answer, as in Nakama.
///
/// # Errors
/// [`ApiError`]: code 3 for a result below zero, beyond 64 bits, or beyond the limits above; 13.
pub fn wallets_update(
    db: &mut dyn Database,
    now: Now,
    updates: &[WalletUpdate],
) -> Result<Vec<WalletChange>, ApiError> {
    if updates.len() > WALLET_UPDATES_MAX {
        return Err(ApiError::invalid(format!(
            "wallet update rejected, more than {WALLET_UPDATES_MAX} updates"
        )));
    }
    let changes = atomically(db, |db| {
        let mut wallets = locked(db, updates)?;
        let mut changes = Vec::with_capacity(updates.len());
        for update in updates {
            let Some(wallet) = wallets.get_mut(&update.user_id) else { continue };
            changes.push(update_one(db, now, update, wallet)?);
        }
        Ok(changes)
    });
    changes.map_err(|failure: Failure| failure.into_error("Error updating user wallet."))
}

/// The wallets of those users that exist, as texts. They are locked, all at once and by rising id: what
/// is computed from them stays true, and two who change the same wallets do not wait for each other.
fn locked(
    db: &mut dyn Database,
    updates: &[WalletUpdate],
) -> Result<BTreeMap<Uuid, String>, DbError> {
    let mut wallets = BTreeMap::new();
    let ids: BTreeSet<Uuid> = updates.iter().map(|update| update.user_id).collect();
    let of_one = "SELECT id, wallet FROM users WHERE id = $1 /* FOR NO KEY UPDATE */";
    let of_list = "SELECT id, wallet FROM users \
        WHERE id IN (SELECT unhex(value) FROM json_each($1)) ORDER BY id \
        /* FOR NO KEY UPDATE */";
    query_ids(db, &ids, (of_one, of_list), &mut |row| {
        wallets.extend(id_at(row, 0).map(|id| (id, row.text(1).to_owned())));
    })?;
    Ok(wallets)
}

/// Changes one locked wallet, whose text `wallet` is.
fn update_one(
    db: &mut dyn Database,
    now: Now,
    update: &WalletUpdate,
    wallet: &mut String,
) -> Result<WalletChange, Failure> {
    let previous: BTreeMap<String, i64> = if wallet.is_empty() {
        BTreeMap::new()
    } else {
        serde_json::from_str(wallet).map_err(|_| ApiError::internal("Wallet is damaged."))?
    };
    let updated = changed(&previous, &update.changeset)?;
    let text = serde_json::to_string(&updated)
        .map_err(|_| ApiError::internal("Wallet cannot be written."))?;
    if text.len() > WALLET_BYTES_MAX {
        return Err(Failure::Refused(ApiError::invalid(format!(
            "wallet update rejected, more than {WALLET_BYTES_MAX} bytes"
        ))));
    }
    let sql = "UPDATE users SET wallet = $2, update_time = $3 WHERE id = $1";
    let id = Param::Blob(update.user_id.as_bytes());
    db.execute(sql, &[id, Param::Text(&text), Param::Int(unix_ms(now))])?;
    if let Some(row) = &update.ledger {
        ledger::insert(db, now, update, row)?;
    }
    *wallet = text;
    Ok(WalletChange { user_id: update.user_id, updated, previous })
}

fn changed(
    previous: &BTreeMap<String, i64>,
    changeset: &BTreeMap<String, i64>,
) -> Result<BTreeMap<String, i64>, ApiError> {
    let mut updated = previous.clone();
    for (path, delta) in changeset {
        let amount = updated.entry(path.clone()).or_insert(0);
        *amount = amount.checked_add(*delta).ok_or_else(|| {
            let path = excerpt(path);
            ApiError::invalid(format!("wallet update rejected overflow at path '{path}'"))
        })?;
        if *amount < 0 {
            let path = excerpt(path);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::changed;

    #[test]
    fn amounts_stay_between_zero_and_64_bits() {
        let wallet = |amount| BTreeMap::from([("coins".to_owned(), amount)]);
        for (before, delta, after) in [
            (5, -5, Ok(0)),
            (5, -6, Err("wallet update rejected negative value at path 'coins'")),
            (i64::MAX, 0, Ok(i64::MAX)),
            (i64::MAX - 1, 1, Ok(i64::MAX)),
            (i64::MAX, 1, Err("wallet update rejected overflow at path 'coins'")),
            (0, i64::MIN, Err("wallet update rejected negative value at path 'coins'")),
        ] {
            let result = changed(&wallet(before), &wallet(delta));
            let result = result.map(|after| after["coins"]).map_err(|error| error.message);
            assert_eq!(result.as_ref().map_err(|text| &**text), after.as_ref().map_err(|t| *t));
        }
        assert_eq!(changed(&wallet(3), &BTreeMap::new()).unwrap(), wallet(3));
        let many = (0..=1_000).map(|entry| (entry.to_string(), 1)).collect();
        assert!(changed(&BTreeMap::new(), &many).is_err());
    }
}
