//! The calls of the REST API as values: what [`super::route`] makes and [`super::run`] takes.
//! Owned and `Send`, so that they can be mailed from a core to a worker.

use crate::account::AccountUpdate;
use crate::directory::ListFilter;
use crate::session::Vars;
use crate::storage::{Delete, ObjectId, Write};

/// What a call needs to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The server key: [`super::auth::server_key`].
    ServerKey,
    /// A session token: [`super::auth::bearer`].
    Bearer,
}

/// Logging in by an id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticateId {
    /// Device or custom id.
    pub id: String,
    /// For a new account; empty for a random one.
    pub username: String,
    /// Whether an account may be made.
    pub create: bool,
    /// For the tokens.
    pub vars: Vars,
}

/// Logging in by email address, or by username.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthenticateEmail {
    /// Empty to log in by username.
    pub email: String,
    /// The secret.
    pub password: String,
    /// For a new account, or who logs in.
    pub username: String,
    /// Whether an account may be made.
    pub create: bool,
    /// For the tokens.
    pub vars: Vars,
}

impl std::fmt::Debug for AuthenticateEmail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthenticateEmail").field("email", &self.email).finish_non_exhaustive()
    }
}

/// Renewing a session.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Refresh {
    /// The refresh token.
    pub token: String,
    /// In place of the old ones, if there are any.
    pub vars: Vars,
}

/// Ending a session.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Logout {
    /// A session token, or empty.
    pub token: String,
    /// A refresh token, or empty.
    pub refresh_token: String,
}

/// Reading storage objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadObjects {
    /// Which; the owner may be anybody.
    pub ids: Vec<ObjectId>,
}

/// Writing storage objects of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteObjects {
    /// The owner in them is set to the caller.
    pub writes: Vec<Write>,
}

/// Deleting storage objects of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteObjects {
    /// The owner in them is set to the caller.
    pub deletes: Vec<Delete>,
}

/// Listing storage objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListObjects {
    /// Of which collection.
    pub collection: String,
    /// Whose, as text; empty for everybody's.
    pub user_id: String,
    /// As given.
    pub limit: i32,
    /// As given.
    pub cursor: String,
}

/// One call of the REST API.
#[derive(Clone, PartialEq)]
pub enum ApiCall {
    /// `POST /v2/account/authenticate/custom`.
    AuthenticateCustom(AuthenticateId),
    /// `POST /v2/account/authenticate/device`.
    AuthenticateDevice(AuthenticateId),
    /// `POST /v2/account/authenticate/email`.
    AuthenticateEmail(AuthenticateEmail),
    /// `POST /v2/account/session/refresh`.
    SessionRefresh(Refresh),
    /// `POST /v2/session/logout`.
    SessionLogout(Logout),
    /// `GET /v2/account`.
    GetAccount,
    /// `PUT /v2/account`.
    UpdateAccount(AccountUpdate),
    /// `DELETE /v2/account`.
    DeleteAccount,
    /// `POST /v2/account/link/custom`, with the id.
    LinkCustom(String),
    /// `POST /v2/account/link/device`, with the id.
    LinkDevice(String),
    /// `POST /v2/account/link/email`.
    LinkEmail(AuthenticateEmail),
    /// `POST /v2/account/unlink/custom`, with the id.
    UnlinkCustom(String),
    /// `POST /v2/account/unlink/device`, with the id.
    UnlinkDevice(String),
    /// `POST /v2/account/unlink/email`, with the address.
    UnlinkEmail(String),
    /// `GET /v2/user`, with ids and usernames as given.
    GetUsers {
        /// Ids as text.
        ids: Vec<String>,
        /// Names.
        usernames: Vec<String>,
    },
    /// `POST /v2/storage`.
    ReadStorageObjects(ReadObjects),
    /// `PUT /v2/storage`.
    WriteStorageObjects(WriteObjects),
    /// `PUT /v2/storage/delete`.
    DeleteStorageObjects(DeleteObjects),
    /// `GET /v2/storage/{collection}` and `GET /v2/storage/{collection}/{user_id}`.
    ListStorageObjects(ListObjects),
    /// `GET /v2/match`.
    ListMatches(ListFilter),
}

/// Calls carry passwords and tokens, so that only their names are for logs.
impl std::fmt::Debug for ApiCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl ApiCall {
    /// What the caller has to show.
    pub fn auth(&self) -> Auth {
        match self {
            Self::AuthenticateCustom(_)
            | Self::AuthenticateDevice(_)
            | Self::AuthenticateEmail(_)
            | Self::SessionRefresh(_) => Auth::ServerKey,
            _ => Auth::Bearer,
        }
    }

    /// Whether it hashes a password: tens of milliseconds, to be run without an open transaction.
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::AuthenticateEmail(_) | Self::LinkEmail(_))
    }

    /// Whether its answer can be large: then it waits, or is refused, while clients have too much
    /// unsent. None of these changes anything.
    pub fn may_be_large(&self) -> bool {
        matches!(
            self,
            Self::ReadStorageObjects(_)
                | Self::ListStorageObjects(_)
                | Self::GetUsers { .. }
                | Self::ListMatches(_)
        )
    }

    /// About how much work it is for the database, in rows: those that it names, and one for each
    /// KiB of what it writes. How much an account has that is deleted nobody knows before.
    pub fn weight_rows(&self) -> usize {
        const BYTES_PER_ROW: usize = 1_024;
        match self {
            Self::WriteStorageObjects(call) => {
                let bytes: usize = call.writes.iter().map(|write| write.value.len()).sum();
                call.writes.len() + bytes / BYTES_PER_ROW
            }
            Self::ReadStorageObjects(call) => call.ids.len(),
            Self::DeleteStorageObjects(call) => call.deletes.len(),
            Self::GetUsers { ids, usernames } => ids.len() + usernames.len(),
            Self::DeleteAccount => crate::storage::OBJECTS_MAX,
            _ => 1,
        }
    }

    /// Whether it needs no database, and so can be answered where a directory is at hand.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::ListMatches(_))
    }

    /// The name of its hooks and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AuthenticateCustom(_) => "AuthenticateCustom",
            Self::AuthenticateDevice(_) => "AuthenticateDevice",
            Self::AuthenticateEmail(_) => "AuthenticateEmail",
            Self::SessionRefresh(_) => "SessionRefresh",
            Self::SessionLogout(_) => "SessionLogout",
            Self::GetAccount => "GetAccount",
            Self::UpdateAccount(_) => "UpdateAccount",
            Self::DeleteAccount => "DeleteAccount",
            Self::LinkCustom(_) => "LinkCustom",
            Self::LinkDevice(_) => "LinkDevice",
            Self::LinkEmail(_) => "LinkEmail",
            Self::UnlinkCustom(_) => "UnlinkCustom",
            Self::UnlinkDevice(_) => "UnlinkDevice",
            Self::UnlinkEmail(_) => "UnlinkEmail",
            Self::GetUsers { .. } => "GetUsers",
            Self::ReadStorageObjects(_) => "ReadStorageObjects",
            Self::WriteStorageObjects(_) => "WriteStorageObjects",
            Self::DeleteStorageObjects(_) => "DeleteStorageObjects",
            Self::ListStorageObjects(_) => "ListStorageObjects",
            Self::ListMatches(_) => "ListMatches",
        }
    }
}
