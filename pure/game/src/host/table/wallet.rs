//! The wallet of an account.

use crate::host::declare::{Table, ValueType, functions};
use crate::host::read::{filled_id, flag, records, shown_as, text_or_empty};
use crate::host::wallet::{self, Updates};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Changes accounts, storage objects and wallets in one transaction, all or none. An
        /// account is `{ user_id, metadata?, username?, display_name?, timezone?, location?,
        /// lang_tag?, avatar_url? }`; the others are as in `storage_write`, `storage_delete` and
        /// `wallets_update`. Returns what was written and how wallets changed, or nil for none.
        /// ```lua
        /// nk.multi_update(
        ///   { { user_id = context.user_id, metadata = { level = 4 } } },
        ///   { { collection = "items", key = "sword", user_id = context.user_id, value = { worn = true } } },
        ///   nil,
        ///   { { user_id = context.user_id, changeset = { coins = 50 }, metadata = { why = "level 4" } } },
        ///   true)
        /// ```
        built [writes] multi_update(
            accounts: records("expects a valid set of account update data").or_nil(),
            storage_writes: records("expects a valid set of storage data").or_nil(),
            storage_deletes: records("expects a valid set of storage data").or_nil(),
            wallets: records("expects a valid set of updates").or_nil(), update_ledger: flag(false),
        ) -> (acks: Option<Vec<Value>>, changes: Option<Vec<Value>>) = {
            wallet::accounts_max(args, &accounts)?;
            let wallets = Updates { records: &wallets, update_ledger };
            wallet::multi_update(host, &accounts, &storage_writes, &storage_deletes, wallets)
        };
        /// Kept changes of a user's wallet, newest first: `id`, `user_id`, `changeset`, `metadata`,
        /// `create_time`, `update_time`. The cursor asks for the next page; it is empty on the last
        /// one.
        /// ```lua
        /// local items, cursor = nk.wallet_ledger_list(context.user_id, 10)
        /// for _, item in ipairs(items) do nk.logger_info(item.changeset.coins) end
        /// ```
        built [reads] wallet_ledger_list(
            user_id: filled_id("expects a valid user id", "expects a valid user id"),
            limit: wallet::ledger_limit(), cursor: text_or_empty(),
        ) -> (items: Vec<Value>, cursor: String)
            = wallet::ledger_list(host, user_id, limit, &cursor);
        /// Lays `metadata` over the metadata of a kept change, member by member. An unknown id is
        /// an error.
        /// ```lua
        /// nk.wallet_update(context.user_id, { coins = 10 }, { order = 17 }, true)
        /// local item = nk.wallet_ledger_list(context.user_id, 1)[1]
        /// nk.wallet_ledger_update(item.id, { refunded = true })
        /// ```
        built [writes] wallet_ledger_update(
            item_id: filled_id("expects a valid id", "expects a valid id"),
            metadata: shown_as(ValueType::Table),
        ) -> (item: Table)
            = wallet::ledger_update(host, args, item_id, metadata);
        /// Adds whole numbers to a user's wallet, all or none. A result below 0 is an error. With
        /// `update_ledger` the change is kept in the ledger, with `metadata`.
        /// ```lua
        /// local updated = nk.wallet_update(context.user_id, { coins = 100, gems = 2 })
        /// return tostring(updated.coins)
        /// ```
        built [writes] wallet_update(
            user_id: filled_id("expects a valid user id", "expects a valid user id"),
            changes: wallet::changes(), metadata: wallet::metadata(), update_ledger: flag(false),
        ) -> (updated: Table, previous: Table) = {
            let ledger = update_ledger.then_some(metadata);
            wallet::update(host, user_id, changes, ledger)
        };
        /// Changes wallets of several users in one transaction, all or none: each update is `{
        /// user_id, changeset, metadata? }`, each answer `{ user_id, updated, previous }`. Unknown
        /// users are passed over.
        /// ```lua
        /// nk.wallets_update({
        ///   { user_id = context.user_id, changeset = { coins = 10 }, metadata = { why = "a gift" } },
        /// }, true)
        /// ```
        built [writes] wallets_update(
            updates: records("expects a valid set of updates"), update_ledger: flag(false),
        ) -> (changes: Vec<Value>)
            = wallet::update_all(host, Updates { records: &updates, update_ledger });
    }
}
