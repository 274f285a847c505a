//! What players do with each other, and what they pay.

use crate::friends::{LIST_LIMIT_MAX, OF_FRIENDS_LIMIT_MAX, Page};
use crate::host::declare::functions;
use crate::host::friends::{self, Whom};
use crate::host::read::{id, ids, limit, text, text_or_empty, texts, user_id};
use crate::value::Value;

functions! {
    ROWS(host, args) {
        missing channel_id_build;
        missing channel_message_remove;
        missing channel_message_send;
        missing channel_message_update;
        missing channel_messages_list;
        /// Replaces what a user keeps of another one: of a friend, an invitation or a block. Only
        /// that user sees it.
        /// ```lua
        /// local id = nk.authenticate_custom("friend-of-examples")
        /// nk.friends_add(context.user_id, context.username, { id }, {})
        /// nk.friend_metadata_update(context.user_id, id, { met = "arena" })
        /// ```
        built [writes] friend_metadata_update(
            user_id: user_id(), friend_id: id("expects friend ID to be a valid identifier"),
            metadata: friends::metadata(),
        )
            = friends::update_metadata(host, user_id, friend_id, &metadata);
        /// Invites users on behalf of one, or accepts their invitations. Unknown users, and those
        /// with a block between them, are passed over.
        /// ```lua
        /// local id = nk.authenticate_custom("friend-of-examples")
        /// nk.friends_add(context.user_id, context.username, { id }, {}, { met = "arena" })
        /// ```
        built [writes] friends_add(
            user_id: user_id(), username: text(), ids: ids().or_empty(),
            usernames: texts("each username must be a non-empty string").or_empty(),
            metadata: friends::metadata().or_nil(),
        )
            = friends::add(host, Whom { user_id, username, ids, usernames }, &metadata);
        /// Blocks users on behalf of one: what was between them ends, and they cannot invite.
        /// ```lua
        /// local id = nk.authenticate_custom("friend-of-examples")
        /// nk.friends_block(context.user_id, context.username, { id }, {})
        /// ```
        built [writes] friends_block(
            user_id: user_id(), username: text(), ids: ids().or_empty(),
            usernames: texts("each username must be a non-empty string").or_empty(),
        )
            = friends::block(host, Whom { user_id, username, ids, usernames });
        /// Ends friendships, takes back and declines invitations, and lifts the user's blocks.
        /// ```lua
        /// local id = nk.authenticate_custom("friend-of-examples")
        /// nk.friends_delete(context.user_id, context.username, { id }, {})
        /// ```
        built [writes] friends_delete(
            user_id: user_id(), username: text(), ids: ids().or_empty(),
            usernames: texts("each username must be a non-empty string").or_empty(),
        )
            = friends::delete(host, Whom { user_id, username, ids, usernames });
        /// A user's friends, invitations and blocks, 1 to 1,000 at a time: `{ user, state,
        /// update_time, metadata }`, by state and then the oldest first. A state is 0 for a friend,
        /// 1 for who is invited, 2 for who has invited the user, 3 for who is blocked. The cursor
        /// asks for the next page; nil on the last one.
        /// ```lua
        /// local friends, cursor = nk.friends_list(context.user_id, 10, 0)
        /// for _, friend in ipairs(friends) do nk.logger_info(friend.user.username) end
        /// ```
        built [reads] friends_list(
            user_id: user_id(), limit: limit(100, LIST_LIMIT_MAX), state: friends::state(),
            cursor: text_or_empty(),
        ) -> (friends: Vec<Value>, cursor: Option<String>) = {
            let page = Page { limit, state, cursor: cursor.into_owned() };
            friends::list(host, user_id, &page)
        };
        /// Friends of a user's friends who are not friends themselves, 1 to 100 at a time: `{
        /// referrer, user }` with the friend's id. A page may have fewer than were asked for; there
        /// are more while there is a cursor.
        /// ```lua
        /// local found = nk.friends_of_friends_list(context.user_id, 5)
        /// for _, one in ipairs(found) do nk.logger_info(one.user.username) end
        /// ```
        built [reads] friends_of_friends_list(
            user_id: user_id(), limit: limit(10, OF_FRIENDS_LIMIT_MAX), cursor: text_or_empty(),
        ) -> (list: Vec<Value>, cursor: Option<String>)
            = friends::of_friends(host, user_id, limit, &cursor);
        missing group_create;
        missing group_delete;
        missing group_update;
        missing group_user_join;
        missing group_user_leave;
        missing group_users_add;
        missing group_users_ban;
        missing group_users_demote;
        missing group_users_kick;
        missing group_users_list;
        missing group_users_promote;
        missing groups_get_id;
        missing groups_get_random;
        missing groups_list;
        missing leaderboard_create;
        missing leaderboard_delete;
        missing leaderboard_list;
        missing leaderboard_ranks_disable;
        missing leaderboard_record_delete;
        missing leaderboard_record_write;
        missing leaderboard_records_haystack;
        missing leaderboard_records_list;
        missing leaderboard_records_list_cursor_from_rank;
        missing leaderboards_get_id;
        missing party_list;
        missing purchase_get_by_transaction_id;
        missing purchase_validate_apple;
        missing purchase_validate_facebook_instant;
        missing purchase_validate_google;
        missing purchase_validate_huawei;
        missing purchase_validate_samsung;
        missing purchases_list;
        missing subscription_get_by_product_id;
        missing subscription_validate_apple;
        missing subscription_validate_google;
        missing subscriptions_list;
        missing tournament_add_attempt;
        missing tournament_create;
        missing tournament_delete;
        missing tournament_join;
        missing tournament_list;
        missing tournament_ranks_disable;
        missing tournament_record_delete;
        missing tournament_record_write;
        missing tournament_records_haystack;
        missing tournament_records_list;
        missing tournaments_get_id;
        missing user_groups_list;
    }
}
