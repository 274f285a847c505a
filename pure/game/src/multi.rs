//! Several kinds of change in one transaction: accounts, storage objects and wallets, all or none.
//! The rules are those of each kind; only the order and the common end are here.
//!
//! Source: nakama 3.40, `server/core_multi.go`.

use event::Now;
use uuid::Uuid;

use crate::account::{self, AccountUpdate, atomically};
use crate::db::Database;
use crate::error::{ApiError, Failure};
use crate::storage::{self, Ack, Caller, Delete, Write};
use crate::wallet::{self, WalletChange, WalletUpdate};

/// What is to be changed, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiUpdate {
    /// New values of accounts.
    pub accounts: Vec<(Uuid, AccountUpdate)>,
    /// Storage objects to write, by a script.
    pub writes: Vec<Write>,
    /// Storage objects to delete, by a script.
    pub deletes: Vec<Delete>,
    /// Changes of wallets.
    pub wallets: Vec<WalletUpdate>,
}

/// What was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiUpdated {
    /// In the order of the writes.
    pub acks: Vec<Ack>,
    /// In the order of the changes, without those of unknown users.
    pub wallets: Vec<WalletChange>,
}

/// Does it all, or nothing.
///
/// # Errors
/// The first [`ApiError`] of [`account::update`], [`storage::write`], [`storage::delete`] or
/// [`wallet::wallets_update`]; then nothing has happened.
pub fn multi_update(
    db: &mut dyn Database,
    now: Now,
    update: &MultiUpdate,
) -> Result<MultiUpdated, ApiError> {
    let updated = atomically(db, |db| {
        for (user_id, account) in &update.accounts {
            account::update(db, now, *user_id, account)?;
        }
        let mut acks = Vec::new();
        if !update.writes.is_empty() {
            acks = storage::write(db, now, Caller::Script, &update.writes)?;
        }
        if !update.deletes.is_empty() {
            storage::delete(db, Caller::Script, &update.deletes)?;
        }
        let wallets = wallet::wallets_update(db, now, &update.wallets)?;
        Ok(MultiUpdated { acks, wallets })
    });
    updated.map_err(|failure: Failure| failure.into_error("Error running multi update."))
}
