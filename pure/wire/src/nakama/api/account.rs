//! Sessions, accounts and users. Declarations only.
//!
//! Source: nakama-common, `api/api.proto`, field for field.

use std::collections::BTreeMap;

use crate::nakama::Timestamp;
use crate::nakama::message::messages;

messages! {
    /// Nothing: the request of calls that need none, and the answer of those that give none.
    Empty {
    }

    /// Both tokens of a session. Answers every authentication and refresh.
    Session {
        /// Whether the account is new.
        1 created: bool,
        /// For requests and the socket; a JWT.
        2 token: String,
        /// For a new session when the other token has expired; a JWT.
        3 refresh_token: String,
    }

    /// Asks for a new session.
    SessionRefreshRequest {
        /// The refresh token.
        1 token: String,
        /// Variables for the new session, in place of the old ones if there are any.
        2 vars: BTreeMap<String, String>,
    }

    /// Ends a session; with neither token, all of the caller's.
    SessionLogoutRequest {
        /// The session token.
        1 token: String,
        /// The refresh token.
        2 refresh_token: String,
    }

    /// Logs in by an id that the game made up.
    AuthenticateCustomRequest {
        /// The id.
        1 account: Option<AccountCustom>,
        /// Whether an account may be made; unset means yes.
        2 create: Option<bool>,
        /// For a new account; empty for a random one.
        3 username: String,
    }

    /// Logs in by the id of a device.
    AuthenticateDeviceRequest {
        /// The id.
        1 account: Option<AccountDevice>,
        /// Whether an account may be made; unset means yes.
        2 create: Option<bool>,
        /// For a new account; empty for a random one.
        3 username: String,
    }

    /// Logs in by email address and password, or by username and password.
    AuthenticateEmailRequest {
        /// Address and password; without an address the username is looked for.
        1 account: Option<AccountEmail>,
        /// Whether an account may be made; unset means yes.
        2 create: Option<bool>,
        /// For a new account, or who logs in.
        3 username: String,
    }

    /// An id that the game made up.
    AccountCustom {
        /// 6–128 bytes.
        1 id: String,
        /// Variables for the session.
        2 vars: BTreeMap<String, String>,
    }

    /// The id of a device.
    AccountDevice {
        /// 10–128 bytes.
        1 id: String,
        /// Variables for the session.
        2 vars: BTreeMap<String, String>,
    }

    /// Email address and password.
    AccountEmail {
        /// 10–255 bytes.
        1 email: String,
        /// At least 8 characters.
        2 password: String,
        /// Variables for the session.
        3 vars: BTreeMap<String, String>,
    }

    /// Changes the own account; an empty text clears a field.
    UpdateAccountRequest {
        /// 1–128 bytes.
        1 username: Option<String>,
        /// For others to see.
        2 display_name: Option<String>,
        /// A picture.
        3 avatar_url: Option<String>,
        /// Language, as BCP 47 has it.
        4 lang_tag: Option<String>,
        /// Anything.
        5 location: Option<String>,
        /// Anything.
        6 timezone: Option<String>,
    }

    /// A user as others see them.
    User {
        /// A UUID.
        1 id: String,
        /// Unique.
        2 username: String,
        /// For others to see.
        3 display_name: String,
        /// A picture.
        4 avatar_url: String,
        /// Language, as BCP 47 has it.
        5 lang_tag: String,
        /// Anything.
        6 location: String,
        /// Anything.
        7 timezone: String,
        /// JSON text of an object.
        8 metadata: String,
        /// Linked account.
        9 facebook_id: String,
        /// Linked account.
        10 google_id: String,
        /// Linked account.
        11 gamecenter_id: String,
        /// Linked account.
        12 steam_id: String,
        /// Whether the user has set a status.
        13 online: bool,
        /// Number of friends.
        14 edge_count: i32,
        /// When the account was made.
        15 create_time: Option<Timestamp>,
        /// When it was last changed.
        16 update_time: Option<Timestamp>,
        /// Linked account.
        17 facebook_instant_game_id: String,
        /// Linked account.
        18 apple_id: String,
    }

    /// An account as its owner sees it.
    Account {
        /// The public part.
        1 user: Option<User>,
        /// JSON text of an object.
        2 wallet: String,
        /// Linked address.
        3 email: String,
        /// Linked devices.
        4 devices: Vec<AccountDevice>,
        /// Linked id.
        5 custom_id: String,
        /// When the address was verified.
        6 verify_time: Option<Timestamp>,
        /// When the account was banned.
        7 disable_time: Option<Timestamp>,
    }

    /// Asks for users; unknown ones are left out.
    GetUsersRequest {
        /// Their ids.
        1 ids: Vec<String>,
        /// Their names.
        2 usernames: Vec<String>,
        /// Their ids with Facebook; no account has one yet.
        3 facebook_ids: Vec<String>,
    }

    /// Several users.
    Users {
        /// In no particular order.
        1 users: Vec<User>,
    }
}
