//! From a request's method, target and body to what is wanted. Known paths whose features are not
//! built are told apart from unknown ones.
//!
//! Source: fact sheet A.3–A.8.

use event::Bytes;

use super::body::{self, EmailBody, IdBody, LogoutBody, RefreshBody, UpdateBody};
use super::body::{ObjectIdBody, ObjectIdsBody, WriteBody, WritesBody};
use super::call::{
    ApiCall, AuthenticateEmail, AuthenticateId, DeleteObjects, ListObjects, Logout, ReadObjects,
    Refresh, WriteObjects,
};
use super::matches;
use super::rpc::RpcCall;
use super::target::{self, Params};
use crate::account::AccountUpdate;
use crate::error::{ApiError, Code};
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

/// Finds out what a request wants. `target` is path and query as they came, still encoded.
///
/// # Errors
/// [`ApiError`]: code 5 for unknown paths, 12 for wrong methods and for features that are not
/// built, 3 for what cannot be decoded.
pub fn route(method: &str, target: &str, body: &Bytes) -> Result<Route, ApiError> {
    let (path, query) = target::split(target);
    if let Some(id) = path.strip_prefix("/v2/rpc/") {
        return rpc(method, id, query);
    }
    let segments = target::segments(path)?.ok_or_else(not_found)?;
    let names: smallvec::SmallVec<[&str; 6]> = segments.iter().map(|name| &**name).collect();
    let methods = methods(&names).ok_or_else(not_found)?;
    let Some((_, to)) = methods.iter().find(|(known, _)| *known == method) else {
        return Err(method_not_allowed());
    };
    match to {
        To::Root => Ok(Route::Root),
        To::Healthcheck => Ok(Route::Healthcheck),
        To::Socket => Ok(Route::Socket),
        To::NotBuilt(feature) => Err(not_built(feature)),
        to => call(*to, &names, &Params::parse(query)?, body).map(Route::Api),
    }
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
    let mut query_params = Params::parse(query)?.grouped();
    let key_at = query_params.iter().position(|(name, _)| name == "http_key");
    let http_key = key_at.and_then(|at| query_params.remove(at).1.into_iter().next());
    Ok(Route::Rpc(RpcCall {
        id: target::decode(id, false)?.to_lowercase(),
        http_key,
        unwrap: query_params.iter().any(|(name, _)| name == "unwrap"),
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

/// Fact sheet A.7, without the parts that are built. `path` is what follows `/v2`.
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

fn call(to: To, path: &[&str], params: &Params<'_>, body: &[u8]) -> Result<ApiCall, ApiError> {
    Ok(match to {
        To::AuthenticateCustom => ApiCall::AuthenticateCustom(authenticate_id(params, body)?),
        To::AuthenticateDevice => ApiCall::AuthenticateDevice(authenticate_id(params, body)?),
        To::AuthenticateEmail => ApiCall::AuthenticateEmail(authenticate_email(params, body)?),
        To::SessionRefresh => {
            let RefreshBody { token, vars } = body::decode(body)?;
            let token = token.unwrap_or_default();
            ApiCall::SessionRefresh(Refresh { token, vars: body::vars(vars)? })
        }
        To::SessionLogout => {
            let LogoutBody { token, refresh_token } = body::decode(body)?;
            ApiCall::SessionLogout(Logout {
                token: token.unwrap_or_default(),
                refresh_token: refresh_token.unwrap_or_default(),
            })
        }
        To::GetAccount => ApiCall::GetAccount,
        To::UpdateAccount => ApiCall::UpdateAccount(update(body)?),
        To::DeleteAccount => ApiCall::DeleteAccount,
        To::LinkCustom => ApiCall::LinkCustom(id(body)?),
        To::LinkDevice => ApiCall::LinkDevice(id(body)?),
        To::LinkEmail => ApiCall::LinkEmail(email(body)?),
        To::UnlinkCustom => ApiCall::UnlinkCustom(id(body)?),
        To::UnlinkDevice => ApiCall::UnlinkDevice(id(body)?),
        To::UnlinkEmail => ApiCall::UnlinkEmail(email(body)?.email),
        To::GetUsers => ApiCall::GetUsers {
            ids: params.all("ids").map(str::to_owned).collect(),
            usernames: params.all("usernames").map(str::to_owned).collect(),
        },
        To::ReadStorageObjects => ApiCall::ReadStorageObjects(read_objects(body)?),
        To::WriteStorageObjects => ApiCall::WriteStorageObjects(write_objects(body)?),
        To::DeleteStorageObjects => ApiCall::DeleteStorageObjects(delete_objects(body)?),
        To::ListStorageObjects => ApiCall::ListStorageObjects(list_objects(path, params)?),
        To::ListMatches => ApiCall::ListMatches(matches::parse(params)?),
        To::Root | To::Healthcheck | To::Socket | To::NotBuilt(_) => return Err(not_found()),
    })
}

fn authenticate_id(params: &Params<'_>, body: &[u8]) -> Result<AuthenticateId, ApiError> {
    let IdBody { id, vars } = body::decode(body)?;
    Ok(AuthenticateId {
        id: id.unwrap_or_default(),
        username: params.text("username")?.unwrap_or_default().to_owned(),
        create: params.bool("create")?.unwrap_or(true),
        vars: body::vars(vars)?,
    })
}

fn authenticate_email(params: &Params<'_>, body: &[u8]) -> Result<AuthenticateEmail, ApiError> {
    Ok(AuthenticateEmail {
        username: params.text("username")?.unwrap_or_default().to_owned(),
        create: params.bool("create")?.unwrap_or(true),
        ..email(body)?
    })
}

fn email(body: &[u8]) -> Result<AuthenticateEmail, ApiError> {
    let EmailBody { email, password, vars } = body::decode(body)?;
    Ok(AuthenticateEmail {
        email: email.unwrap_or_default(),
        password: password.unwrap_or_default(),
        vars: body::vars(vars)?,
        ..AuthenticateEmail::default()
    })
}

fn id(body: &[u8]) -> Result<String, ApiError> {
    let IdBody { id, .. } = body::decode(body)?;
    Ok(id.unwrap_or_default())
}

fn update(body: &[u8]) -> Result<AccountUpdate, ApiError> {
    let body: UpdateBody = body::decode(body)?;
    Ok(AccountUpdate {
        username: body.username,
        display_name: body.display_name,
        avatar_url: body.avatar_url,
        lang_tag: body.lang_tag,
        location: body.location,
        timezone: body.timezone,
        metadata: None,
    })
}

fn object_id(body: ObjectIdBody) -> Result<(ObjectId, String), ApiError> {
    let user_id = match body.user_id.as_deref() {
        None | Some("") => uuid::Uuid::nil(),
        Some(text) => uuid::Uuid::try_parse(text).map_err(|_| {
            ApiError::invalid("Invalid user ID supplied. It must be a valid UUID.")
        })?,
    };
    let collection = body.collection.unwrap_or_default();
    let id = ObjectId { collection, key: body.key.unwrap_or_default(), user_id };
    Ok((id, body.version.unwrap_or_default()))
}

fn read_objects(body: &[u8]) -> Result<ReadObjects, ApiError> {
    let ObjectIdsBody { object_ids } = body::decode(body)?;
    let ids = object_ids.unwrap_or_default().into_iter();
    Ok(ReadObjects { ids: ids.map(|id| Ok(object_id(id)?.0)).collect::<Result<_, ApiError>>()? })
}

fn delete_objects(body: &[u8]) -> Result<DeleteObjects, ApiError> {
    let ObjectIdsBody { object_ids } = body::decode(body)?;
    let deletes = object_ids.unwrap_or_default().into_iter().map(|body| {
        let (id, version) = object_id(ObjectIdBody { user_id: None, ..body })?;
        Ok(Delete { id, version })
    });
    Ok(DeleteObjects { deletes: deletes.collect::<Result<_, ApiError>>()? })
}

fn write_objects(body: &[u8]) -> Result<WriteObjects, ApiError> {
    let WritesBody { objects } = body::decode(body)?;
    let write = |body: WriteBody| Write {
        id: ObjectId {
            collection: body.collection.unwrap_or_default(),
            key: body.key.unwrap_or_default(),
            user_id: uuid::Uuid::nil(),
        },
        value: body.value.unwrap_or_default(),
        version: body.version.unwrap_or_default(),
        permission_read: body.permission_read.map_or(1, |number| number.0),
        permission_write: body.permission_write.map_or(1, |number| number.0),
    };
    Ok(WriteObjects { writes: objects.unwrap_or_default().into_iter().map(write).collect() })
}

fn list_objects(path: &[&str], params: &Params<'_>) -> Result<ListObjects, ApiError> {
    let user_id = match path.get(3) {
        Some(user_id) => *user_id,
        None => params.text("user_id")?.unwrap_or_default(),
    };
    Ok(ListObjects {
        collection: path.get(2).copied().unwrap_or_default().to_owned(),
        user_id: user_id.to_owned(),
        limit: params.int("limit")?.unwrap_or(1),
        cursor: params.text("cursor")?.unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests;
