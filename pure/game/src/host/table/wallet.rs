//! The wallet of an account.

use super::{built, missing};
use crate::host::{HostFunction, accounts};

pub(super) const ROWS: &[HostFunction] = &[
    missing("multi_update"),
    missing("wallet_ledger_list"),
    missing("wallet_ledger_update"),
    built(
        "wallet_update",
        accounts::wallet_update,
        "(user_id: string, changes: table, metadata?: table, update_ledger?: boolean = false) \
         -> updated: table, previous: table",
        "Adds whole numbers to a user's wallet, all or none. A result below 0 is an error. The ledger \
         is not built yet: with `update_ledger` it is an error.",
        "local updated = nk.wallet_update(context.user_id, { coins = 100, gems = 2 })\n\
         return tostring(updated.coins)",
    ),
    missing("wallets_update"),
];
