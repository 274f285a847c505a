//! What players do with each other, and what they pay.

use super::{built, missing};
use crate::host::{HostFunction, friends};

pub(super) const ROWS: &[HostFunction] = &[
    missing("channel_id_build"),
    missing("channel_message_remove"),
    missing("channel_message_send"),
    missing("channel_message_update"),
    missing("channel_messages_list"),
    built(
        "friend_metadata_update",
        friends::friend_metadata_update,
        "(user_id: string, friend_id: string, metadata: table)",
        "Replaces what a user keeps of another one: of a friend, an invitation or a block. Only that user \
         sees it.",
        "local id = nk.authenticate_custom(\"friend-of-examples\")\n\
         nk.friends_add(context.user_id, context.username, { id }, {})\n\
         nk.friend_metadata_update(context.user_id, id, { met = \"arena\" })",
    ),
    built(
        "friends_add",
        friends::friends_add,
        "(user_id: string, username: string, ids: list, usernames: list, metadata?: table)",
        "Invites users on behalf of one, or accepts their invitations. Unknown users, and those with a \
         block between them, are passed over.",
        "local id = nk.authenticate_custom(\"friend-of-examples\")\n\
         nk.friends_add(context.user_id, context.username, { id }, {}, { met = \"arena\" })",
    ),
    built(
        "friends_block",
        friends::friends_block,
        "(user_id: string, username: string, ids: list, usernames: list)",
        "Blocks users on behalf of one: what was between them ends, and they cannot invite.",
        "local id = nk.authenticate_custom(\"friend-of-examples\")\n\
         nk.friends_block(context.user_id, context.username, { id }, {})",
    ),
    built(
        "friends_delete",
        friends::friends_delete,
        "(user_id: string, username: string, ids: list, usernames: list)",
        "Ends friendships, takes back and declines invitations, and lifts the user's blocks.",
        "local id = nk.authenticate_custom(\"friend-of-examples\")\n\
         nk.friends_delete(context.user_id, context.username, { id }, {})",
    ),
    built(
        "friends_list",
        friends::friends_list,
        "(user_id: string, limit?: number = 100, state?: number, cursor?: string) \
         -> friends: list, cursor: string",
        "A user's friends, invitations and blocks, 1 to 1,000 at a time: `{ user, state, update_time, \
         metadata }`, by state and then the oldest first. A state is 0 for a friend, 1 for who is invited, \
         2 for who has invited the user, 3 for who is blocked. The cursor asks for the next page; nil on \
         the last one.",
        "local friends, cursor = nk.friends_list(context.user_id, 10, 0)\n\
         for _, friend in ipairs(friends) do nk.logger_info(friend.user.username) end",
    ),
    built(
        "friends_of_friends_list",
        friends::friends_of_friends_list,
        "(user_id: string, limit?: number = 10, cursor?: string) -> list: list, cursor: string",
        "Friends of a user's friends who are not friends themselves, 1 to 100 at a time: `{ referrer, user \
         }` with the friend's id. A page may have fewer than were asked for; there are more while there is a \
         cursor.",
        "local found = nk.friends_of_friends_list(context.user_id, 5)\n\
         for _, one in ipairs(found) do nk.logger_info(one.user.username) end",
    ),
    missing("group_create"),
    missing("group_delete"),
    missing("group_update"),
    missing("group_user_join"),
    missing("group_user_leave"),
    missing("group_users_add"),
    missing("group_users_ban"),
    missing("group_users_demote"),
    missing("group_users_kick"),
    missing("group_users_list"),
    missing("group_users_promote"),
    missing("groups_get_id"),
    missing("groups_get_random"),
    missing("groups_list"),
    missing("leaderboard_create"),
    missing("leaderboard_delete"),
    missing("leaderboard_list"),
    missing("leaderboard_ranks_disable"),
    missing("leaderboard_record_delete"),
    missing("leaderboard_record_write"),
    missing("leaderboard_records_haystack"),
    missing("leaderboard_records_list"),
    missing("leaderboard_records_list_cursor_from_rank"),
    missing("leaderboards_get_id"),
    missing("party_list"),
    missing("purchase_get_by_transaction_id"),
    missing("purchase_validate_apple"),
    missing("purchase_validate_facebook_instant"),
    missing("purchase_validate_google"),
    missing("purchase_validate_huawei"),
    missing("purchase_validate_samsung"),
    missing("purchases_list"),
    missing("subscription_get_by_product_id"),
    missing("subscription_validate_apple"),
    missing("subscription_validate_google"),
    missing("subscriptions_list"),
    missing("tournament_add_attempt"),
    missing("tournament_create"),
    missing("tournament_delete"),
    missing("tournament_join"),
    missing("tournament_list"),
    missing("tournament_ranks_disable"),
    missing("tournament_record_delete"),
    missing("tournament_record_write"),
    missing("tournament_records_haystack"),
    missing("tournament_records_list"),
    missing("tournaments_get_id"),
    missing("user_groups_list"),
];
