//! Accounts, users, authentication and links.

use super::{built, missing};
use crate::host::{HostFunction, accounts, friends};

pub(super) const ROWS: &[HostFunction] = &[
    built(
        "account_delete_id",
        accounts::account_delete_id,
        "(user_id: string, recorded?: boolean = false)",
        "Deletes an account with everything that belongs to it, and ends its sessions.",
        "nk.account_delete_id(context.user_id)",
    ),
    missing("account_export_id"),
    built(
        "account_get_id",
        accounts::account_get_id,
        "(user_id: string) -> account: table",
        "The account of a user: `user_id`, `username`, `display_name`, `metadata`, … and `wallet`, \
         `email`, `devices`, `custom_id`. An unknown id is an error.",
        "local account = nk.account_get_id(context.user_id)\nreturn account.username",
    ),
    missing("account_import_id"),
    built(
        "account_update_id",
        accounts::account_update_id,
        "(user_id: string, metadata?: table, username?: string, display_name?: string, \
         timezone?: string, location?: string, lang_tag?: string, avatar_url?: string)",
        "Changes what is not nil. `metadata` replaces the former one.",
        "nk.account_update_id(context.user_id, { level = 3 }, nil, \"Ann the Great\")",
    ),
    built(
        "accounts_get_id",
        accounts::accounts_get_id,
        "(user_ids?: list, device_ids?: list) -> accounts: list",
        "The accounts of these ids; unknown ones are left out.",
        "local accounts = nk.accounts_get_id({ context.user_id })\nreturn accounts[1].username",
    ),
    missing("authenticate_apple"),
    built(
        "authenticate_custom",
        accounts::authenticate_custom,
        "(id: string, username?: string, create?: boolean = true) -> user_id: string, \
         username: string, created: boolean",
        "The user with this custom id, made if there is none and `create` says so.",
        "local user_id, username, created = nk.authenticate_custom(\"partner-account-17\")",
    ),
    built(
        "authenticate_device",
        accounts::authenticate_device,
        "(id: string, username?: string, create?: boolean = true) -> user_id: string, \
         username: string, created: boolean",
        "The user of this device, made if there is none and `create` says so.",
        "local user_id, username, created = nk.authenticate_device(\"device-of-the-shop\", \"shop\")",
    ),
    built(
        "authenticate_email",
        accounts::authenticate_email,
        "(email?: string, password: string, username?: string, create?: boolean = true) \
         -> user_id: string, username: string, created: boolean",
        "The user with this e-mail address and password, made if there is none and `create` says so. \
         Without an address the username is looked up.",
        "local user_id = nk.authenticate_email(\"ann@example.com\", \"correct horse\", \"ann_2\")",
    ),
    missing("authenticate_facebook"),
    missing("authenticate_facebook_instant_game"),
    missing("authenticate_game_center"),
    missing("authenticate_google"),
    missing("authenticate_steam"),
    built(
        "authenticate_token_generate",
        accounts::authenticate_token_generate,
        "(user_id: string, username?: string, expires?: number = 0, vars?: table) \
         -> token: string, expires: number",
        "A session token for a user, without any check. `expires` is in unix seconds; 0 is the \
         configured life. The values of `vars` are strings.",
        "local token, expires = nk.authenticate_token_generate(context.user_id, context.username)",
    ),
    missing("link_apple"),
    built(
        "link_custom",
        accounts::link_custom,
        "(user_id: string, id: string)",
        "Lets a user log in with this custom id.",
        "nk.link_custom(context.user_id, \"partner-account-18\")",
    ),
    built(
        "link_device",
        accounts::link_device,
        "(user_id: string, id: string)",
        "Lets a user log in from this device.",
        "nk.link_device(context.user_id, \"a-second-device\")",
    ),
    built(
        "link_email",
        accounts::link_email,
        "(user_id: string, email: string, password: string)",
        "Lets a user log in with this e-mail address and password.",
        "nk.link_email(context.user_id, \"ann@example.com\", \"correct horse\")",
    ),
    missing("link_facebook"),
    missing("link_facebook_instant_game"),
    missing("link_gamecenter"),
    missing("link_google"),
    missing("link_steam"),
    missing("unlink_apple"),
    built(
        "unlink_custom",
        accounts::unlink_custom,
        "(user_id: string, id?: string)",
        "Removes the custom id. The last way to log in cannot be removed.",
        "nk.link_custom(context.user_id, \"partner-account-19\")\n\
         nk.unlink_custom(context.user_id, \"partner-account-19\")",
    ),
    built(
        "unlink_device",
        accounts::unlink_device,
        "(user_id: string, id: string)",
        "Removes a device. The last way to log in cannot be removed.",
        "nk.link_device(context.user_id, \"a-third-device\")\n\
         nk.unlink_device(context.user_id, \"a-third-device\")",
    ),
    built(
        "unlink_email",
        accounts::unlink_email,
        "(user_id: string, email?: string)",
        "Removes e-mail address and password. The last way to log in cannot be removed.",
        "nk.link_email(context.user_id, \"bob@example.com\", \"correct horse\")\n\
         nk.unlink_email(context.user_id, \"bob@example.com\")",
    ),
    missing("unlink_facebook"),
    missing("unlink_facebook_instant_game"),
    missing("unlink_gamecenter"),
    missing("unlink_google"),
    missing("unlink_steam"),
    built(
        "users_ban_id",
        accounts::users_ban_id,
        "(user_ids: list)",
        "Bans users: their sessions end and they cannot log in.",
        "nk.users_ban_id({ \"2b4e12c6-5a0e-4c3c-9c0b-0a0b0c0d0e0f\" })",
    ),
    built(
        "users_get_friend_status",
        friends::users_get_friend_status,
        "(user_id: string, ids: list) -> friends: list",
        "What a user has to do with others: rows as of `friends_list`, in no particular order. Those with \
         whom the user has nothing to do are left out.",
        "local friends = nk.users_get_friend_status(context.user_id, { context.user_id })\n\
         return #friends .. \"\"",
    ),
    built(
        "users_get_id",
        accounts::users_get_id,
        "(user_ids: list, facebook_ids?: list) -> users: list",
        "The users with these ids; unknown ones are left out.",
        "local users = nk.users_get_id({ context.user_id })\nreturn users[1].username",
    ),
    built(
        "users_get_random",
        accounts::users_get_random,
        "(count: number) -> users: list",
        "Up to so many users, 0 to 1,000, picked at random.",
        "local users = nk.users_get_random(5)",
    ),
    built(
        "users_get_username",
        accounts::users_get_username,
        "(usernames: list) -> users: list",
        "The users with these names; unknown ones are left out.",
        "local users = nk.users_get_username({ context.username })\nreturn users[1].user_id",
    ),
    built(
        "users_unban_id",
        accounts::users_unban_id,
        "(user_ids: list)",
        "Lifts bans.",
        "nk.users_unban_id({ context.user_id })",
    ),
];
