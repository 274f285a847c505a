//! The wallet of an account.

use super::built;
use crate::host::{HostFunction, wallet};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "multi_update",
        wallet::multi_update,
        "(accounts?: list, storage_writes?: list, storage_deletes?: list, wallets?: list, \
         update_ledger?: boolean = false) -> acks?: list, changes?: list",
        "Changes accounts, storage objects and wallets in one transaction, all or none. An account is \
         `{ user_id, metadata?, username?, display_name?, timezone?, location?, lang_tag?, avatar_url? \
         }`; the others are as in `storage_write`, `storage_delete` and `wallets_update`. Returns what \
         was written and how wallets changed, or nil for none.",
        "nk.multi_update(\n  \
         { { user_id = context.user_id, metadata = { level = 4 } } },\n  \
         { { collection = \"items\", key = \"sword\", user_id = context.user_id, value = { worn = true } } },\n  \
         nil,\n  \
         { { user_id = context.user_id, changeset = { coins = 50 }, metadata = { why = \"level 4\" } } },\n  \
         true)",
    ),
    built(
        "wallet_ledger_list",
        wallet::wallet_ledger_list,
        "(user_id: string, limit?: number = 100, cursor?: string) -> items: list, cursor: string",
        "Kept changes of a user's wallet, newest first: `id`, `user_id`, `changeset`, `metadata`, \
         `create_time`, `update_time`. The cursor asks for the next page; it is empty on the last \
         one.",
        "local items, cursor = nk.wallet_ledger_list(context.user_id, 10)\n\
         for _, item in ipairs(items) do nk.logger_info(item.changeset.coins) end",
    ),
    built(
        "wallet_ledger_update",
        wallet::wallet_ledger_update,
        "(item_id: string, metadata: table) -> item: table",
        "Lays `metadata` over the metadata of a kept change, member by member. An unknown id is an \
         error.",
        "nk.wallet_update(context.user_id, { coins = 10 }, { order = 17 }, true)\n\
         local item = nk.wallet_ledger_list(context.user_id, 1)[1]\n\
         nk.wallet_ledger_update(item.id, { refunded = true })",
    ),
    built(
        "wallet_update",
        wallet::wallet_update,
        "(user_id: string, changes: table, metadata?: table, update_ledger?: boolean = false) \
         -> updated: table, previous: table",
        "Adds whole numbers to a user's wallet, all or none. A result below 0 is an error. With \
         `update_ledger` the change is kept in the ledger, with `metadata`.",
        "local updated = nk.wallet_update(context.user_id, { coins = 100, gems = 2 })\n\
         return tostring(updated.coins)",
    ),
    built(
        "wallets_update",
        wallet::wallets_update,
        "(updates: list, update_ledger?: boolean = false) -> changes: list",
        "Changes wallets of several users in one transaction, all or none: each update is `{ user_id, \
         changeset, metadata? }`, each answer `{ user_id, updated, previous }`. Unknown users are \
         passed over.",
        "nk.wallets_update({\n  \
         { user_id = context.user_id, changeset = { coins = 10 }, metadata = { why = \"a gift\" } },\n\
         }, true)",
    ),
];
