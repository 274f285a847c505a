//! From a request's method, target and body to what is wanted. Known paths whose features are not
//! built are told apart from unknown ones.
//!
//! Source: Nakama 3.40, `apigrpc/apigrpc.proto`, `server/api.go`.

use std::borrow::Cow;

use smallvec::SmallVec;
use wire::http1::Target;
use wire::nakama::api::{
    AccountDevice, AccountEmail, SessionLogoutRequest, SessionRefreshRequest, StorageObjectId,
    StorageObjectIds, UpdateAccountRequest, WriteStorageObject, WriteStorageObjectsRequest, decode,
};
use wire::query::{Query, decode_path};

use super::body;
use super::call::{
    ApiCall, AuthenticateEmail, AuthenticateId, DeleteObjects, ListObjects, Logout, ReadObjects,
    Refresh, WriteObjects,
};
use super::matches;
use super::rpc::RpcCall;
use crate::account::AccountUpdate;
use crate::error::{ApiError, Code};
use crate::pairs::Pairs;
use crate::storage::{Delete, ObjectId, Write};

/// What a request wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// `GET /`: 200, no body.
    Root,
    /// `GET /healthcheck`: 200 and `{}`.
    Healthcheck,
    /// `GET /ws`: the WebSocket; its parameters are the server's matter.
    Socket,
    /// An RPC function.
    Rpc(RpcCall),
    /// A call of the REST API.
    Api(ApiCall),
}

/// What a path and method lead to.
#[derive(Clone, Copy)]
enum To {
    Root,
    Healthcheck,
    Socket,
    AuthenticateCustom,
    AuthenticateDevice,
    AuthenticateEmail,
    SessionRefresh,
    SessionLogout,
    GetAccount,
    UpdateAccount,
    DeleteAccount,
    LinkCustom,
    LinkDevice,
    LinkEmail,
    UnlinkCustom,
    UnlinkDevice,
    UnlinkEmail,
    GetUsers,
    ReadStorageObjects,
    WriteStorageObjects,
    DeleteStorageObjects,
    ListStorageObjects,
    ListMatches,
    NotBuilt(&'static str),
}

/// Methods of one path.
type Methods = &'static [(&'static str, To)];

/// Finds out what a request wants. `target` is path and query as they came, still encoded: a
/// [`Target`], or both in one text.
///
/// # Errors
/// [`ApiError`]: code 5 for unknown paths, 12 for wrong methods and for features that are not
/// built, 3 for what cannot be decoded.
pub fn route<'a>(
    method: &str,
    target: impl Into<Target<'a>>,
    body: &[u8],
) -> Result<Route, ApiError> {
    let Target { path, query } = target.into();
    if let Some(id) = path.strip_prefix("/v2/rpc/") {
        return rpc(method, id, query);
    }
    let segments = segments(path)?;
    let names: SmallVec<[&str; SEGMENTS_MAX]> = segments.iter().map(|name| &**name).collect();
    let methods = methods(&names).ok_or_else(not_found)?;
    let Some((_, to)) = methods.iter().find(|(known, _)| *known == method) else {
        return Err(method_not_allowed());
    };
    match to {
        To::Root => Ok(Route::Root),
        To::Healthcheck => Ok(Route::Healthcheck),
        To::Socket => Ok(Route::Socket),
        To::NotBuilt(feature) => Err(not_built(feature)),
        to => call(*to, &names, Query::parse(query)?, body).map(Route::Api),
    }
}

/// How many storage objects are listed when a request does not say.
pub(super) const LIST_LIMIT_DEFAULT: i32 = 1;

/// No route has more segments.
const SEGMENTS_MAX: usize = 5;

/// The segments of a path, percent-decoded, without the leading slash.
fn segments(path: &str) -> Result<SmallVec<[Cow<'_, str>; SEGMENTS_MAX]>, ApiError> {
    let path = path.strip_prefix('/').ok_or_else(not_found)?;
    if path.bytes().filter(|byte| *byte == b'/').count() >= SEGMENTS_MAX {
        return Err(not_found());
    }
    path.split('/').map(decode_segment).collect()
}

fn decode_segment(segment: &str) -> Result<Cow<'_, str>, ApiError> {
    decode_path(segment).map_err(|_| ApiError::invalid("Bad Request"))
}

/// Code 12 for a feature of the protocol that throng lacks.
fn not_built(feature: &str) -> ApiError {
    ApiError::new(Code::Unimplemented, format!("{feature} not implemented in throng yet"))
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Not Found")
}

fn method_not_allowed() -> ApiError {
    ApiError::new(Code::Unimplemented, "Method Not Allowed")
}

fn rpc(method: &str, id: &str, query: &str) -> Result<Route, ApiError> {
    if !matches!(method, "GET" | "POST") {
        return Err(method_not_allowed());
    }
    let mut query_params = Pairs::default();
    let mut http_key = None;
    for (name, value) in Query::parse(query)?.iter() {
        if name == "http_key" {
            http_key.get_or_insert(value.into_owned());
        } else {
            query_params.push(name.as_bytes(), value.as_bytes());
        }
    }
    Ok(Route::Rpc(RpcCall {
        id: decode_segment(id)?.to_lowercase(),
        http_key,
        unwrap: query_params.first(b"unwrap").is_some(),
        is_get: method == "GET",
        query_params,
    }))
}

fn methods(path: &[&str]) -> Option<Methods> {
    use To::*;
    Some(match path {
        [""] => &[("GET", Root), ("HEAD", Root)],
        ["healthcheck"] => &[("GET", Healthcheck), ("HEAD", Healthcheck)],
        ["ws"] => &[("GET", Socket)],
        ["v2", "account", rest @ ..] => return account_methods(rest),
        ["v2", "session", "logout"] => &[("POST", SessionLogout)],
        ["v2", "user"] => &[("GET", GetUsers)],
        ["v2", "user", _, "group"] => &[("GET", NotBuilt("groups are"))],
        ["v2", "storage"] => &[("POST", ReadStorageObjects), ("PUT", WriteStorageObjects)],
        // The same path is a collection's name for GET.
        ["v2", "storage", "delete"] => {
            &[("PUT", DeleteStorageObjects), ("GET", ListStorageObjects)]
        }
        ["v2", "storage", _] | ["v2", "storage", _, _] => &[("GET", ListStorageObjects)],
        ["v2", "match"] => &[("GET", ListMatches)],
        ["v2", rest @ ..] => return methods_not_built(rest),
        _ => return None,
    })
}

fn account_methods(path: &[&str]) -> Option<Methods> {
    use To::*;
    Some(match path {
        [] => &[("GET", GetAccount), ("PUT", UpdateAccount), ("DELETE", DeleteAccount)],
        ["authenticate", "custom"] => &[("POST", AuthenticateCustom)],
        ["authenticate", "device"] => &[("POST", AuthenticateDevice)],
        ["authenticate", "email"] => &[("POST", AuthenticateEmail)],
        ["session", "refresh"] => &[("POST", SessionRefresh)],
        ["link", "custom"] => &[("POST", LinkCustom)],
        ["link", "device"] => &[("POST", LinkDevice)],
        ["link", "email"] => &[("POST", LinkEmail)],
        ["unlink", "custom"] => &[("POST", UnlinkCustom)],
        ["unlink", "device"] => &[("POST", UnlinkDevice)],
        ["unlink", "email"] => &[("POST", UnlinkEmail)],
        ["authenticate" | "link" | "unlink", provider] => match *provider {
            "apple" => &[("POST", NotBuilt("Apple accounts are"))],
            "facebook" => &[("POST", NotBuilt("Facebook accounts are"))],
            "facebookinstantgame" => &[("POST", NotBuilt("Facebook Instant Game accounts are"))],
            "gamecenter" => &[("POST", NotBuilt("Game Center accounts are"))],
            "google" => &[("POST", NotBuilt("Google accounts are"))],
            "steam" => &[("POST", NotBuilt("Steam accounts are"))],
            _ => return None,
        },
        _ => return None,
    })
}

/// The routes of Nakama 3.40's `apigrpc/apigrpc.proto` that are not built. `path` is what follows
/// `/v2`.
fn methods_not_built(path: &[&str]) -> Option<Methods> {
    use To::NotBuilt;
    const FRIENDS: To = NotBuilt("friends are");
    const GROUPS: To = NotBuilt("groups are");
    const LEADERBOARDS: To = NotBuilt("leaderboards are");
    const TOURNAMENTS: To = NotBuilt("tournaments are");
    const NOTIFICATIONS: To = NotBuilt("notifications are");
    const PURCHASES: To = NotBuilt("purchase validation is");
    const SUBSCRIPTIONS: To = NotBuilt("subscription validation is");
    Some(match path {
        ["friend"] => &[("GET", FRIENDS), ("POST", FRIENDS), ("DELETE", FRIENDS)],
        ["friend", "block" | "facebook" | "steam"] => &[("POST", FRIENDS)],
        ["friend", "friends"] => &[("GET", FRIENDS)],
        ["group"] => &[("GET", GROUPS), ("POST", GROUPS)],
        ["group", _] => &[("PUT", GROUPS), ("DELETE", GROUPS)],
        ["group", _, "join" | "leave" | "add" | "ban" | "kick" | "promote" | "demote"] => {
            &[("POST", GROUPS)]
        }
        ["group", _, "user"] => &[("GET", GROUPS)],
        ["leaderboard", _] => {
            &[("GET", LEADERBOARDS), ("POST", LEADERBOARDS), ("DELETE", LEADERBOARDS)]
        }
        ["leaderboard", _, "owner", _] => &[("GET", LEADERBOARDS)],
        ["tournament"] => &[("GET", TOURNAMENTS)],
        ["tournament", _] => &[
            ("GET", TOURNAMENTS),
            ("PUT", TOURNAMENTS),
            ("POST", TOURNAMENTS),
            ("DELETE", TOURNAMENTS),
        ],
        ["tournament", _, "join"] => &[("POST", TOURNAMENTS)],
        ["tournament", _, "owner", _] => &[("GET", TOURNAMENTS)],
        ["party"] => &[("GET", NotBuilt("party listing is"))],
        ["matchmaker", "stats"] => &[("GET", NotBuilt("the matchmaker is"))],
        ["channel", _] => &[("GET", NotBuilt("chat is"))],
        ["notification"] => &[("GET", NOTIFICATIONS), ("DELETE", NOTIFICATIONS)],
        ["event"] => &[("POST", NotBuilt("events are"))],
        ["iap", "purchase", "apple" | "google" | "huawei" | "facebookinstant" | "samsung"] => {
            &[("POST", PURCHASES)]
        }
        ["iap", "subscription"] => &[("POST", SUBSCRIPTIONS)],
        ["iap", "subscription", "apple" | "google"] => {
            &[("POST", SUBSCRIPTIONS), ("GET", SUBSCRIPTIONS)]
        }
        ["iap", "subscription", _] => &[("GET", SUBSCRIPTIONS)],
        _ => return None,
    })
}

fn call(to: To, path: &[&str], params: Query<'_>, body: &[u8]) -> Result<ApiCall, ApiError> {
    Ok(match to {
        To::AuthenticateCustom => ApiCall::AuthenticateCustom(authenticate_id(params, body)?),
        To::AuthenticateDevice => ApiCall::AuthenticateDevice(authenticate_id(params, body)?),
        To::AuthenticateEmail => ApiCall::AuthenticateEmail(authenticate_email(params, body)?),
        To::SessionRefresh => {
            let SessionRefreshRequest { token, vars } = decode(body)?;
            ApiCall::SessionRefresh(Refresh { token, vars: body::vars(vars)? })
        }
        To::SessionLogout => {
            let SessionLogoutRequest { token, refresh_token } = decode(body)?;
            ApiCall::SessionLogout(Logout { token, refresh_token })
        }
        To::GetAccount => ApiCall::GetAccount,
        To::UpdateAccount => ApiCall::UpdateAccount(update(decode(body)?)),
        To::DeleteAccount => ApiCall::DeleteAccount,
        To::LinkCustom => ApiCall::LinkCustom(id(body)?),
        To::LinkDevice => ApiCall::LinkDevice(id(body)?),
        To::LinkEmail => ApiCall::LinkEmail(email(body)?),
        To::UnlinkCustom => ApiCall::UnlinkCustom(id(body)?),
        To::UnlinkDevice => ApiCall::UnlinkDevice(id(body)?),
        To::UnlinkEmail => ApiCall::UnlinkEmail(email(body)?.email),
        To::GetUsers => ApiCall::GetUsers {
            ids: params.list("ids").map(Cow::into_owned).collect(),
            usernames: params.list("usernames").map(Cow::into_owned).collect(),
        },
        To::ReadStorageObjects => ApiCall::ReadStorageObjects(read_objects(decode(body)?)?),
        To::WriteStorageObjects => ApiCall::WriteStorageObjects(write_objects(decode(body)?)),
        To::DeleteStorageObjects => ApiCall::DeleteStorageObjects(delete_objects(decode(body)?)?),
        To::ListStorageObjects => ApiCall::ListStorageObjects(list_objects(path, params)?),
        To::ListMatches => ApiCall::ListMatches(matches::parse(params)?),
        To::Root | To::Healthcheck | To::Socket | To::NotBuilt(_) => return Err(not_found()),
    })
}

fn authenticate_id(params: Query<'_>, body: &[u8]) -> Result<AuthenticateId, ApiError> {
    // Custom accounts have the same members.
    let AccountDevice { id, vars } = decode(body)?;
    Ok(AuthenticateId {
        id,
        username: text(params, "username")?,
        create: params.bool("create")?.unwrap_or(true),
        vars: body::vars(vars)?,
    })
}

fn authenticate_email(params: Query<'_>, body: &[u8]) -> Result<AuthenticateEmail, ApiError> {
    Ok(AuthenticateEmail {
        username: text(params, "username")?,
        create: params.bool("create")?.unwrap_or(true),
        ..email(body)?
    })
}

fn email(body: &[u8]) -> Result<AuthenticateEmail, ApiError> {
    let AccountEmail { email, password, vars } = decode(body)?;
    let vars = body::vars(vars)?;
    Ok(AuthenticateEmail { email, password, vars, ..AuthenticateEmail::default() })
}

fn id(body: &[u8]) -> Result<String, ApiError> {
    let AccountDevice { id, .. } = decode(body)?;
    Ok(id)
}

/// A parameter that is as good as missing when it is empty.
fn text(params: Query<'_>, name: &'static str) -> Result<String, ApiError> {
    Ok(params.text(name)?.unwrap_or_default().into_owned())
}

pub(super) fn update(body: UpdateAccountRequest) -> AccountUpdate {
    AccountUpdate {
        username: body.username,
        display_name: body.display_name,
        avatar_url: body.avatar_url,
        lang_tag: body.lang_tag,
        location: body.location,
        timezone: body.timezone,
        metadata: None,
    }
}

fn object_id(body: StorageObjectId) -> Result<(ObjectId, String), ApiError> {
    let StorageObjectId { collection, key, user_id, version } = body;
    let user_id = match &*user_id {
        "" => uuid::Uuid::nil(),
        text => uuid::Uuid::try_parse(text)
            .map_err(|_| ApiError::invalid("Invalid user ID supplied. It must be a valid UUID."))?,
    };
    Ok((ObjectId { collection, key, user_id }, version))
}

pub(super) fn read_objects(body: StorageObjectIds) -> Result<ReadObjects, ApiError> {
    let ids = body.object_ids.into_iter();
    Ok(ReadObjects { ids: ids.map(|id| Ok(object_id(id)?.0)).collect::<Result<_, ApiError>>()? })
}

pub(super) fn delete_objects(body: StorageObjectIds) -> Result<DeleteObjects, ApiError> {
    let deletes = body.object_ids.into_iter().map(|body| {
        let (id, version) = object_id(StorageObjectId { user_id: String::new(), ..body })?;
        Ok(Delete { id, version })
    });
    Ok(DeleteObjects { deletes: deletes.collect::<Result<_, ApiError>>()? })
}

pub(super) fn write_objects(body: WriteStorageObjectsRequest) -> WriteObjects {
    let write = |body: WriteStorageObject| Write {
        id: ObjectId { collection: body.collection, key: body.key, user_id: uuid::Uuid::nil() },
        value: body.value,
        version: body.version,
        permission_read: body.permission_read.map_or(1, i64::from),
        permission_write: body.permission_write.map_or(1, i64::from),
    };
    WriteObjects { writes: body.objects.into_iter().map(write).collect() }
}

fn list_objects(path: &[&str], params: Query<'_>) -> Result<ListObjects, ApiError> {
    let user_id = match path.get(3) {
        Some(user_id) => (*user_id).to_owned(),
        None => text(params, "user_id")?,
    };
    Ok(ListObjects {
        collection: path.get(2).copied().unwrap_or_default().to_owned(),
        user_id,
        limit: params.int32("limit")?.unwrap_or(LIST_LIMIT_DEFAULT),
        cursor: text(params, "cursor")?,
    })
}

#[cfg(test)]
mod tests;
