//! Calls as hooks see them: a call becomes the JSON form of Nakama's request message, and
//! what a hook made of that becomes a call again.
//!
//! Names in snake case; zero and empty fields are left out; wrappers (`create`, `limit`,
//! permissions, all of `UpdateAccount`) are raw values. Unlike in Nakama, a wrapper that the
//! client left to its default is there with the default. What a call does not keep is not in its
//! form: session variables of link and unlink calls. Unknown fields in a hook's result are passed
//! over. Not here: running hooks.
//!
//! Source: the request messages in Nakama 3.40's `apigrpc/apigrpc.proto`, `server/runtime_lua.go`.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use wire::nakama::api::{
    AccountDevice, AccountEmail, GetUsersRequest, ListMatchesRequest, ListStorageObjectsRequest,
    SessionLogoutRequest, SessionRefreshRequest, decode,
};

use super::body;
use super::call::{
    ApiCall, AuthenticateEmail, AuthenticateId, DeleteObjects, ListObjects, Logout, ReadObjects,
    Refresh, WriteObjects,
};
use super::route;
use crate::account::AccountUpdate;
use crate::directory::ListFilter;
use crate::error::ApiError;
use crate::host::json;
use crate::storage::{ObjectId, Write};
use crate::value::Value;

/// What a client is told when a before-hook returned something that is no request.
const NO_REQUEST: &str = "Could not complete runtime Before function.";

impl ApiCall {
    /// The request as before- and after-hooks see it: a map, empty for calls without a request.
    pub fn form(&self) -> Value {
        match self {
            Self::AuthenticateCustom(who) | Self::AuthenticateDevice(who) => {
                let account = map([("id", text(&who.id)), ("vars", pairs(&who.vars))]);
                authenticate(account, who.create, &who.username)
            }
            Self::AuthenticateEmail(who) => {
                authenticate(email_account(who), who.create, &who.username)
            }
            Self::SessionRefresh(Refresh { token, vars }) => {
                map([("token", text(token)), ("vars", pairs(vars))])
            }
            Self::SessionLogout(Logout { token, refresh_token }) => {
                map([("token", text(token)), ("refresh_token", text(refresh_token))])
            }
            Self::GetAccount | Self::DeleteAccount => Value::Map(Vec::new()),
            Self::UpdateAccount(update) => map([
                ("username", given(update.username.as_ref())),
                ("display_name", given(update.display_name.as_ref())),
                ("avatar_url", given(update.avatar_url.as_ref())),
                ("lang_tag", given(update.lang_tag.as_ref())),
                ("location", given(update.location.as_ref())),
                ("timezone", given(update.timezone.as_ref())),
            ]),
            Self::LinkCustom(id)
            | Self::LinkDevice(id)
            | Self::UnlinkCustom(id)
            | Self::UnlinkDevice(id) => map([("id", text(id))]),
            Self::LinkEmail(who) => email_account(who),
            Self::UnlinkEmail(email) => map([("email", text(email))]),
            Self::GetUsers { ids, usernames } => map([
                ("ids", list(ids, |id| Value::text(id.as_str()))),
                ("usernames", list(usernames, |name| Value::text(name.as_str()))),
            ]),
            Self::ReadStorageObjects(ReadObjects { ids }) => {
                map([("object_ids", list(ids, |id| object_id(id, "")))])
            }
            Self::WriteStorageObjects(WriteObjects { writes }) => {
                map([("objects", list(writes, write))])
            }
            Self::DeleteStorageObjects(DeleteObjects { deletes }) => {
                map([("object_ids", list(deletes, |one| object_id(&one.id, &one.version)))])
            }
            Self::ListStorageObjects(ListObjects { collection, user_id, limit, cursor }) => map([
                ("user_id", text(user_id)),
                ("collection", text(collection)),
                ("limit", Value::Int(i64::from(*limit))),
                ("cursor", text(cursor)),
            ]),
            Self::ListMatches(filter) => map([
                ("limit", Value::Int(i64::from(filter.limit))),
                ("authoritative", filter.authoritative.map_or(Value::Nil, Value::Bool)),
                ("label", given(filter.label.as_ref())),
                ("min_size", filter.min_size.map_or(Value::Nil, |size| Value::Int(size.into()))),
                ("max_size", filter.max_size.map_or(Value::Nil, |size| Value::Int(size.into()))),
                ("query", given(filter.query.as_ref())),
            ]),
        }
    }

    /// Whether a before-hook has a request to return; without one, what it returns does not
    /// matter, as in Nakama.
    pub fn has_form(&self) -> bool {
        !matches!(self, Self::GetAccount | Self::DeleteAccount)
    }

    /// The same call with the request that a before-hook returned.
    ///
    /// # Errors
    /// [`ApiError`] with code 13 when that is no such request, with code 3 when it holds values
    /// that a client's request may not hold either.
    pub fn reformed(&self, form: &Value) -> Result<Self, ApiError> {
        if !self.has_form() {
            return Ok(self.clone());
        }
        if !matches!(form, Value::Map(_)) {
            return Err(no_request());
        }
        let json = json::encode(form).map_err(|_| no_request())?;
        Ok(match self {
            Self::AuthenticateCustom(_) => Self::AuthenticateCustom(authenticate_id(&json)?),
            Self::AuthenticateDevice(_) => Self::AuthenticateDevice(authenticate_id(&json)?),
            Self::AuthenticateEmail(_) => Self::AuthenticateEmail(authenticate_email(&json)?),
            Self::SessionRefresh(_) => {
                let SessionRefreshRequest { token, vars } = message(&json)?;
                Self::SessionRefresh(Refresh { token, vars: body::vars(vars)? })
            }
            Self::SessionLogout(_) => {
                let SessionLogoutRequest { token, refresh_token } = message(&json)?;
                Self::SessionLogout(Logout { token, refresh_token })
            }
            Self::UpdateAccount(old) => {
                let metadata = old.metadata.clone();
                let update = route::update(message(&json)?);
                Self::UpdateAccount(AccountUpdate { metadata, ..update })
            }
            Self::LinkCustom(_) => Self::LinkCustom(id(&json)?),
            Self::LinkDevice(_) => Self::LinkDevice(id(&json)?),
            Self::UnlinkCustom(_) => Self::UnlinkCustom(id(&json)?),
            Self::UnlinkDevice(_) => Self::UnlinkDevice(id(&json)?),
            Self::LinkEmail(_) => Self::LinkEmail(email(message(&json)?)?),
            Self::UnlinkEmail(_) => Self::UnlinkEmail(message::<AccountEmail>(&json)?.email),
            Self::GetUsers { .. } => {
                let GetUsersRequest { ids, usernames, .. } = message(&json)?;
                Self::GetUsers { ids, usernames }
            }
            Self::ReadStorageObjects(_) => {
                Self::ReadStorageObjects(route::read_objects(message(&json)?)?)
            }
            Self::WriteStorageObjects(_) => {
                Self::WriteStorageObjects(route::write_objects(message(&json)?))
            }
            Self::DeleteStorageObjects(_) => {
                Self::DeleteStorageObjects(route::delete_objects(message(&json)?)?)
            }
            Self::ListStorageObjects(_) => Self::ListStorageObjects(list_objects(&json)?),
            Self::ListMatches(_) => Self::ListMatches(list_filter(&json)?),
            Self::GetAccount | Self::DeleteAccount => self.clone(),
        })
    }
}

// From a call to its form.

/// A map of those members that are set.
fn map<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    let set = members.into_iter().filter(|(_, value)| *value != Value::Nil);
    Value::Map(set.map(|(name, value)| (Bytes::from_static(name.as_bytes()), value)).collect())
}

/// A text that is left out when it is empty.
fn text(text: &str) -> Value {
    if text.is_empty() { Value::Nil } else { Value::text(text) }
}

/// A text in a wrapper or a list: there even if it is empty.
fn given(text: Option<&String>) -> Value {
    text.map_or(Value::Nil, |text| Value::text(text.as_str()))
}

fn list<T>(items: &[T], item: impl Fn(&T) -> Value) -> Value {
    if items.is_empty() { Value::Nil } else { Value::List(items.iter().map(item).collect()) }
}

fn pairs(pairs: &[(String, String)]) -> Value {
    if pairs.is_empty() {
        return Value::Nil;
    }
    let members =
        pairs.iter().map(|(name, value)| (Bytes::from(name.clone()), Value::text(value.as_str())));
    Value::Map(members.collect())
}

fn authenticate(account: Value, create: bool, username: &str) -> Value {
    map([("account", account), ("create", Value::Bool(create)), ("username", text(username))])
}

fn email_account(who: &AuthenticateEmail) -> Value {
    map([
        ("email", text(&who.email)),
        ("password", text(&who.password)),
        ("vars", pairs(&who.vars)),
    ])
}

fn object_id(id: &ObjectId, version: &str) -> Value {
    let user_id =
        if id.user_id.is_nil() { Value::Nil } else { Value::text(id.user_id.to_string()) };
    map([
        ("collection", text(&id.collection)),
        ("key", text(&id.key)),
        ("user_id", user_id),
        ("version", text(version)),
    ])
}

fn write(write: &Write) -> Value {
    map([
        ("collection", text(&write.id.collection)),
        ("key", text(&write.id.key)),
        ("value", text(&write.value)),
        ("version", text(&write.version)),
        ("permission_read", Value::Int(write.permission_read)),
        ("permission_write", Value::Int(write.permission_write)),
    ])
}

// And back.

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthenticateForm<A> {
    account: Option<A>,
    create: Option<bool>,
    username: Option<String>,
}

fn no_request() -> ApiError {
    ApiError::internal(NO_REQUEST)
}

/// A hook's mistake is our side's, not the client's.
fn message<T: DeserializeOwned + Default>(json: &[u8]) -> Result<T, ApiError> {
    decode(json).map_err(|_| no_request())
}

fn authenticate_id(json: &[u8]) -> Result<AuthenticateId, ApiError> {
    let AuthenticateForm { account, create, username } = message(json)?;
    let AccountDevice { id, vars } = account.unwrap_or_default();
    Ok(AuthenticateId {
        id,
        username: username.unwrap_or_default(),
        create: create.unwrap_or(true),
        vars: body::vars(vars)?,
    })
}

fn authenticate_email(json: &[u8]) -> Result<AuthenticateEmail, ApiError> {
    let AuthenticateForm { account, create, username } = message(json)?;
    Ok(AuthenticateEmail {
        username: username.unwrap_or_default(),
        create: create.unwrap_or(true),
        ..email(account.unwrap_or_default())?
    })
}

fn email(account: AccountEmail) -> Result<AuthenticateEmail, ApiError> {
    let AccountEmail { email, password, vars } = account;
    let vars = body::vars(vars)?;
    Ok(AuthenticateEmail { email, password, vars, ..AuthenticateEmail::default() })
}

fn id(json: &[u8]) -> Result<String, ApiError> {
    message::<AccountDevice>(json).map(|account| account.id)
}

fn list_objects(json: &[u8]) -> Result<ListObjects, ApiError> {
    let ListStorageObjectsRequest { user_id, collection, limit, cursor } = message(json)?;
    let limit = limit.unwrap_or(route::LIST_LIMIT_DEFAULT);
    Ok(ListObjects { collection, user_id, limit, cursor })
}

fn list_filter(json: &[u8]) -> Result<ListFilter, ApiError> {
    let form: ListMatchesRequest = message(json)?;
    let limit = form.limit.unwrap_or(super::matches::LIMIT_DEFAULT);
    Ok(ListFilter {
        limit: u32::try_from(limit).unwrap_or(0),
        authoritative: form.authoritative,
        label: form.label,
        min_size: form.min_size,
        max_size: form.max_size,
        query: form.query,
    })
}

#[cfg(test)]
mod tests;
