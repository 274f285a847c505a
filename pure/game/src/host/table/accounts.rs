//! Accounts, users, authentication and links.

use crate::account::{self, AccountUpdate};
use crate::host::declare::{Table, functions};
use crate::host::read::{
    filled_id, filled_text, flag, ids, list, optional, some_text, strings, text, text_or_empty,
    texts, user_id, within_or,
};
use crate::host::{accounts, friends};
use crate::link;
use crate::value::Value;

functions! {
    ROWS(host, args) {
        /// Deletes an account with everything that belongs to it, and ends its sessions.
        /// ```lua
        /// nk.account_delete_id(context.user_id)
        /// ```
        built [writes] account_delete_id(user_id: user_id(), recorded: flag(false))
            = accounts::delete(host, user_id);
        missing account_export_id;
        /// The account of a user: `user_id`, `username`, `display_name`, `metadata`, … and
        /// `wallet`, `email`, `devices`, `custom_id`. An unknown id is an error.
        /// ```lua
        /// local account = nk.account_get_id(context.user_id)
        /// return account.username
        /// ```
        built [reads] account_get_id(user_id: user_id()) -> (account: Table)
            = accounts::account(host, user_id);
        missing account_import_id;
        /// Changes what is not nil. `metadata` replaces the former one.
        /// ```lua
        /// nk.account_update_id(context.user_id, { level = 3 }, nil, "Ann the Great")
        /// ```
        built [writes] account_update_id(
            user_id: user_id(), metadata: accounts::metadata(), username: some_text(),
            display_name: some_text(), timezone: some_text(), location: some_text(),
            lang_tag: some_text(), avatar_url: some_text(),
        ) = {
            let update = AccountUpdate {
                username, display_name, avatar_url, lang_tag, location, timezone, metadata,
            };
            accounts::update(host, user_id, &update)
        };
        /// The accounts of these ids; unknown ones are left out.
        /// ```lua
        /// local accounts = nk.accounts_get_id({ context.user_id })
        /// return accounts[1].username
        /// ```
        built [reads] accounts_get_id(
            user_ids: ids().or_empty(),
            device_ids: texts("each device id must be a string").or_empty(),
        ) -> (accounts: Vec<Value>)
            = accounts::accounts(host, &user_ids, &device_ids);
        missing authenticate_apple;
        /// The user with this custom id, made if there is none and `create` says so.
        /// ```lua
        /// local user_id, username, created = nk.authenticate_custom("partner-account-17")
        /// ```
        built [writes] authenticate_custom(
            id: filled_text("expects ID string"), username: text_or_empty(), create: flag(true),
        ) -> (user_id: String, username: String, created: bool)
            = accounts::login(host, |db, new_account| {
                account::authenticate_custom(db, new_account, &id, &username, create)
            });
        /// The user of this device, made if there is none and `create` says so.
        /// ```lua
        /// local user_id, username, created = nk.authenticate_device("device-of-the-shop", "shop")
        /// ```
        built [writes] authenticate_device(
            id: filled_text("expects device ID string"), username: text_or_empty(),
            create: flag(true),
        ) -> (user_id: String, username: String, created: bool)
            = accounts::login(host, |db, new_account| {
                account::authenticate_device(db, new_account, &id, &username, create)
            });
        /// The user with this e-mail address and password, made if there is none and `create` says
        /// so. Without an address the username is looked up.
        /// ```lua
        /// local user_id = nk.authenticate_email("ann@example.com", "correct horse", "ann_2")
        /// ```
        built [hashes] authenticate_email(
            email: text_or_empty(), password: filled_text("expects password string"),
            username: text_or_empty(), create: flag(true),
        ) -> (user_id: String, username: String, created: bool) = {
            args.slowly(host)?;
            accounts::login(host, |db, new_account| {
                if email.is_empty() {
                    return account::authenticate_username(db, &username, &password);
                }
                account::authenticate_email(db, new_account, (&email, &password), &username, create)
            })
        };
        missing authenticate_facebook;
        missing authenticate_facebook_instant_game;
        missing authenticate_game_center;
        missing authenticate_google;
        missing authenticate_steam;
        /// A session token for a user, without any check. `expires` is in unix seconds; 0 is the
        /// configured life. The values of `vars` are strings.
        /// ```lua
        /// local token, expires = nk.authenticate_token_generate(context.user_id, context.username)
        /// ```
        built [writes] authenticate_token_generate(
            user_id: filled_id("expects user id", "expects valid user id"),
            username: text_or_empty(),
            expires: within_or::<u64>(0, 0, i64::MAX, "expects a time in unix seconds"),
            vars: strings(accounts::VARS),
        ) -> (token: String, expires: u64)
            = accounts::token(host, user_id, &username, expires, &vars);
        missing link_apple;
        /// Lets a user log in with this custom id.
        /// ```lua
        /// nk.link_custom(context.user_id, "partner-account-18")
        /// ```
        built [writes] link_custom(user_id: user_id(), id: text())
            = accounts::linked(host, |db, now| link::link_custom(db, now, user_id, &id));
        /// Lets a user log in from this device.
        /// ```lua
        /// nk.link_device(context.user_id, "a-second-device")
        /// ```
        built [writes] link_device(user_id: user_id(), id: text())
            = accounts::linked(host, |db, now| link::link_device(db, now, user_id, &id));
        /// Lets a user log in with this e-mail address and password.
        /// ```lua
        /// nk.link_email(context.user_id, "ann@example.com", "correct horse")
        /// ```
        built [hashes] link_email(user_id: user_id(), email: text(), password: text()) = {
            args.slowly(host)?;
            let salt = host.random().bytes();
            accounts::linked(host, |db, now| {
                link::link_email(db, now, user_id, (&email, &password), salt)
            })
        };
        missing link_facebook;
        missing link_facebook_instant_game;
        missing link_gamecenter;
        missing link_google;
        missing link_steam;
        missing unlink_apple;
        /// Removes the custom id. The last way to log in cannot be removed.
        /// ```lua
        /// nk.link_custom(context.user_id, "partner-account-19")
        /// nk.unlink_custom(context.user_id, "partner-account-19")
        /// ```
        built [writes] unlink_custom(user_id: user_id(), id: text_or_empty())
            = accounts::unlinked(host, |db, now| link::unlink_custom(db, now, user_id, &id));
        /// Removes a device. The last way to log in cannot be removed.
        /// ```lua
        /// nk.link_device(context.user_id, "a-third-device")
        /// nk.unlink_device(context.user_id, "a-third-device")
        /// ```
        built [writes] unlink_device(user_id: user_id(), id: text())
            = accounts::unlinked(host, |db, now| link::unlink_device(db, now, user_id, &id));
        /// Removes e-mail address and password. The last way to log in cannot be removed.
        /// ```lua
        /// nk.link_email(context.user_id, "bob@example.com", "correct horse")
        /// nk.unlink_email(context.user_id, "bob@example.com")
        /// ```
        built [writes] unlink_email(user_id: user_id(), email: text_or_empty())
            = accounts::unlinked(host, |db, now| link::unlink_email(db, now, user_id, &email));
        missing unlink_facebook;
        missing unlink_facebook_instant_game;
        missing unlink_gamecenter;
        missing unlink_google;
        missing unlink_steam;
        /// Bans users: their sessions end and they cannot log in.
        /// ```lua
        /// nk.users_ban_id({ "2b4e12c6-5a0e-4c3c-9c0b-0a0b0c0d0e0f" })
        /// ```
        built [writes] users_ban_id(user_ids: ids()) = accounts::ban(host, &user_ids);
        /// What a user has to do with others: rows as of `friends_list`, in no particular order.
        /// Those with whom the user has nothing to do are left out.
        /// ```lua
        /// local friends = nk.users_get_friend_status(context.user_id, { context.user_id })
        /// return #friends .. ""
        /// ```
        built [reads] users_get_friend_status(user_id: user_id(), ids: ids()) -> (friends: Vec<Value>)
            = friends::status(host, user_id, &ids);
        /// The users with these ids; unknown ones are left out.
        /// ```lua
        /// local users = nk.users_get_id({ context.user_id })
        /// return users[1].username
        /// ```
        built [reads] users_get_id(
            user_ids: ids().or_empty(), facebook_ids: optional(list()),
        ) -> (users: Vec<Value>)
            = accounts::users(host, &user_ids, &[]);
        /// Up to so many users, 0 to 1,000, picked at random.
        /// ```lua
        /// local users = nk.users_get_random(5)
        /// ```
        built [reads] users_get_random(count: accounts::random_count()) -> (users: Vec<Value>)
            = accounts::random_users(host, count);
        /// The users with these names; unknown ones are left out.
        /// ```lua
        /// local users = nk.users_get_username({ context.username })
        /// return users[1].user_id
        /// ```
        built [reads] users_get_username(
            usernames: texts("each username must be a string"),
        ) -> (users: Vec<Value>)
            = accounts::users(host, &[], &usernames);
        /// Lifts bans.
        /// ```lua
        /// nk.users_unban_id({ context.user_id })
        /// ```
        built [writes] users_unban_id(user_ids: ids()) = accounts::unban(host, &user_ids);
    }
}
