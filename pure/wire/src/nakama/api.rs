//! The messages of the REST interface that are built, and what all answers have in common: error
//! bodies, codes, and the odd forms of RPCs over HTTP.
//!
//! JSON only; protobuf numbers come with gRPC. Source: the REST protocol of Nakama 3.40.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Timestamp;
use super::json::{lossy_string, write_string, write_string_html};
use super::message::messages;
use crate::excerpt::reason;

messages! {
    derive(Clone, Debug, Default, PartialEq);

    /// Both tokens of a session. Answers every authentication and refresh.
    Session {
        /// Whether the account is new.
        created: bool,
        /// For requests and the socket; a JWT.
        token: String,
        /// For a new session when the other token has expired; a JWT.
        refresh_token: String,
    }

    /// Asks for a new session.
    SessionRefreshRequest {
        /// The refresh token.
        token: String,
        /// Variables for the new session.
        vars: BTreeMap<String, String>,
    }

    /// Ends a session.
    SessionLogoutRequest {
        /// The session token.
        token: String,
        /// The refresh token.
        refresh_token: String,
    }

    /// Sign in with Apple.
    AccountApple {
        /// The ID token of Apple.
        token: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// An id that the game made up.
    AccountCustom {
        /// 6–128 bytes.
        id: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// The id of a device.
    AccountDevice {
        /// 10–128 bytes.
        id: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// Email address and password.
    AccountEmail {
        /// 10–255 bytes.
        email: String,
        /// At least 8 characters.
        password: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// Facebook.
    AccountFacebook {
        /// The access token of Facebook.
        token: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// Facebook Instant Games.
    AccountFacebookInstantGame {
        /// Signed by Facebook.
        signed_player_info: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// Apple's Game Center.
    AccountGameCenter {
        /// The player.
        player_id: String,
        /// The game.
        bundle_id: String,
        /// When the signature was made, seconds since 1970.
        timestamp_seconds: i64,
        /// Random text within the signature.
        salt: String,
        /// Over the other fields.
        signature: String,
        /// Where the key to check it is.
        public_key_url: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// Google.
    AccountGoogle {
        /// The ID token of Google.
        token: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// Steam.
    AccountSteam {
        /// The ticket of Steam.
        token: String,
        /// Variables for the session.
        vars: BTreeMap<String, String>,
    }

    /// The body of linking Steam, unlike all others.
    LinkSteamRequest {
        /// The account.
        account: Option<AccountSteam>,
        /// Whether to import friends; unset means yes.
        sync: Option<bool>,
    }

    /// Changes the own account; an empty text clears a field.
    UpdateAccountRequest {
        /// 1–128 bytes.
        username: Option<String>,
        /// For others to see.
        display_name: Option<String>,
        /// A picture.
        avatar_url: Option<String>,
        /// Language, as BCP 47 has it.
        lang_tag: Option<String>,
        /// Anything.
        location: Option<String>,
        /// Anything.
        timezone: Option<String>,
    }

    /// A user as others see them.
    User {
        /// A UUID.
        id: String,
        /// Unique.
        username: String,
        /// For others to see.
        display_name: String,
        /// A picture.
        avatar_url: String,
        /// Language, as BCP 47 has it.
        lang_tag: String,
        /// Anything.
        location: String,
        /// Anything.
        timezone: String,
        /// JSON text of an object.
        metadata: String,
        /// Linked account.
        facebook_id: String,
        /// Linked account.
        google_id: String,
        /// Linked account.
        gamecenter_id: String,
        /// Linked account.
        steam_id: String,
        /// Whether the user has set a status.
        online: bool,
        /// Number of friends.
        edge_count: i32,
        /// When the account was made.
        create_time: Option<Timestamp>,
        /// When it was last changed.
        update_time: Option<Timestamp>,
        /// Linked account.
        facebook_instant_game_id: String,
        /// Linked account.
        apple_id: String,
    }

    /// An account as its owner sees it.
    Account {
        /// The public part.
        user: Option<User>,
        /// JSON text of an object.
        wallet: String,
        /// Linked address.
        email: String,
        /// Linked devices.
        devices: Vec<AccountDevice>,
        /// Linked id.
        custom_id: String,
        /// When the address was verified.
        verify_time: Option<Timestamp>,
        /// When the account was banned.
        disable_time: Option<Timestamp>,
    }

    /// Asks for users.
    GetUsersRequest {
        /// Their ids.
        ids: Vec<String>,
        /// Their names.
        usernames: Vec<String>,
        /// Their ids with Facebook.
        facebook_ids: Vec<String>,
    }

    /// Which object of storage is meant, for reading and deleting.
    StorageObjectId {
        /// Its collection.
        collection: String,
        /// Its key.
        key: String,
        /// Its owner; only for reading.
        user_id: String,
        /// What its version must be; only for deleting.
        version: String,
    }

    /// Asks for objects of storage, or deletes them.
    StorageObjectIds {
        /// The objects.
        object_ids: Vec<StorageObjectId>,
    }

    /// One object to write.
    WriteStorageObject {
        /// Its collection.
        collection: String,
        /// Its key.
        key: String,
        /// JSON text of an object.
        value: String,
        /// What its version must be; `*` for no object.
        version: String,
        /// Who may read: 0 nobody, 1 the owner, 2 everybody.
        permission_read: Option<i32>,
        /// Who may write: 0 nobody, 1 the owner.
        permission_write: Option<i32>,
    }

    /// Writes objects of storage.
    WriteStorageObjectsRequest {
        /// The objects.
        objects: Vec<WriteStorageObject>,
    }

    /// Asks for a page of a collection.
    ListStorageObjectsRequest {
        /// The owner.
        user_id: String,
        /// The collection.
        collection: String,
        /// How many at most.
        limit: Option<i32>,
        /// Where the last page ended.
        cursor: String,
    }

    /// Asks for matches.
    ListMatchesRequest {
        /// How many at most.
        limit: Option<i32>,
        /// Whether a script runs them.
        authoritative: Option<bool>,
        /// Their label.
        label: Option<String>,
        /// Members at least.
        min_size: Option<i32>,
        /// Members at most.
        max_size: Option<i32>,
        /// What their labels must match.
        query: Option<String>,
    }

    /// Several users.
    Users {
        /// In no particular order.
        users: Vec<User>,
    }

    /// A match in a listing.
    Match {
        /// The match.
        match_id: String,
        /// Whether a script on the server runs it.
        authoritative: bool,
        /// What the script wants shown; set for authoritative matches.
        label: Option<String>,
        /// Members at this moment.
        size: i32,
        /// Ticks a second, of authoritative matches.
        tick_rate: i32,
        /// The script that runs it.
        handler_name: String,
    }

    /// A listing of matches.
    MatchList {
        /// As many as asked for.
        matches: Vec<Match>,
    }

    /// An RPC as gRPC and scripts see it.
    Rpc {
        /// The function.
        id: String,
        /// Any text, usually JSON.
        payload: String,
        /// The key of calls without a user.
        http_key: String,
    }
}

/// Why something cannot be done, in the numbers of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "gRPC's own names")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The code of a number; `None` outside 0–16.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        const ALL: [Code; 17] = [
            Code::Ok,
            Code::Cancelled,
            Code::Unknown,
            Code::InvalidArgument,
            Code::DeadlineExceeded,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::FailedPrecondition,
            Code::Aborted,
            Code::OutOfRange,
            Code::Unimplemented,
            Code::Internal,
            Code::Unavailable,
            Code::DataLoss,
            Code::Unauthenticated,
        ];
        usize::try_from(number).ok().and_then(|number| ALL.get(number).copied())
    }

    /// The number in error bodies.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The HTTP status of an answer with this code.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::Unauthenticated => 401,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::ResourceExhausted => 429,
            Self::Cancelled => 499,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::DeadlineExceeded => 504,
        }
    }
}

/// Why a request's body cannot be read, with at most an excerpt of it. Answer with
/// [`Code::InvalidArgument`] and the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadBody(pub String);

/// Reads the body of a request. An empty body is an empty message.
///
/// # Errors
/// The decoder's text.
pub fn decode<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, BadBody> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(bad)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn bad(error: serde_json::Error) -> BadBody {
    BadBody(reason(&error))
}

/// Appends the body of an answer.
pub fn encode<T: Serialize>(out: &mut Vec<u8>, message: &T) {
    // Writing to memory cannot fail, nor can any kind of field.
    let written = serde_json::to_writer(&mut *out, message);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// Appends an error body, `{"code":5,"message":"Not Found"}`.
pub fn encode_error(out: &mut Vec<u8>, code: i32, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(b",\"message\":");
    write_string(out, message);
    out.push(b'}');
}

/// Appends an error body of the RPC route, which names its text twice; readers use `message`.
pub fn encode_rpc_error(out: &mut Vec<u8>, code: i32, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(b",\"error\":");
    write_string_html(out, message);
    out.extend_from_slice(b",\"message\":");
    write_string_html(out, message);
    out.push(b'}');
}

/// Appends the error body of an RPC function that failed: `error` is an empty object, because that
/// is what is left of Go's error values as JSON (Nakama 3.40, `server/api_rpc.go`).
pub fn encode_rpc_failure(out: &mut Vec<u8>, code: i32, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(b",\"error\":{},\"message\":");
    write_string_html(out, message);
    out.push(b'}');
}

/// Appends the wrapped answer to an RPC over HTTP, `{"payload":"…"}`.
pub fn encode_rpc(out: &mut Vec<u8>, payload: &str) {
    out.extend_from_slice(b"{\"payload\":");
    write_string_html(out, payload);
    out.push(b'}');
}

/// Reads the wrapped body of an RPC over HTTP: one JSON string. Empty and `null` give "". Half a
/// surrogate pair, and each byte that is not UTF-8, becomes U+FFFD: Nakama reads this body with
/// Go's `encoding/json`, which replaces them, while all other bodies go through protobuf's JSON
/// mapping, which refuses them.
///
/// # Errors
/// The text that Nakama answers with for what is not a string.
pub fn decode_rpc(body: &[u8]) -> Result<String, BadBody> {
    let body = body.trim_ascii();
    let kind = match body.first() {
        None => return Ok(String::new()),
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "bool",
        Some(b'-' | b'0'..=b'9') => "number",
        Some(_) => "",
    };
    if kind.is_empty() {
        let text: Result<Option<String>, _> = serde_json::from_slice(body);
        return match text {
            Ok(text) => Ok(text.unwrap_or_default()),
            Err(error) => lossy_string(body).ok_or_else(|| bad(error)),
        };
    }
    // Broken JSON is told as such, before its type.
    serde_json::from_slice::<serde::de::IgnoredAny>(body).map_err(bad)?;
    Err(BadBody(format!("json: cannot unmarshal {kind} into Go value of type string")))
}
