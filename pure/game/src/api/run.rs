//! Runs a call against the database: the one place where tokens, accounts and storage meet. See
//! the rules about batches in [`super`].

use event::{Now, Random};
use uuid::Uuid;
use wire::excerpt::excerpt;

use super::call::{ApiCall, ListObjects, Logout, Refresh};
use super::matches;
use crate::account::{self, Login, Newcomer};
use crate::db::{Database, DbError};
use crate::directory::Directory;
use crate::error::{ApiError, Code};
use crate::session::{Claims, Revocation, Signer, Tokens, Vars, stored};
use crate::storage::{self, Caller, Listing};
use crate::{json, link, user};

/// What a call may look at and use, lent by its thread.
pub struct Cx<'a> {
    /// The time.
    pub now: Now,
    /// The thread's randomness.
    pub random: &'a mut Random,
    /// The thread's connection.
    pub db: &'a mut dyn Database,
    /// The keys.
    pub signer: &'a Signer,
    /// The thread's replica, for listing matches and for who is online.
    pub directory: &'a Directory,
    /// How many bytes an answer may have.
    pub answer_bytes_max: usize,
}

/// What a successful call gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The JSON body.
    pub body: Vec<u8>,
    /// What is to be done once the answer is durable.
    pub effects: Vec<Effect>,
}

/// Something that a call wants of the rest of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Every core's [`crate::session::Revocations`] are to take this.
    Revoke(Revocation),
    /// All of a user's sockets are to be closed.
    Disconnect {
        /// Whose.
        user_id: Uuid,
        /// Why.
        cause: Disconnect,
    },
}

/// Why a user's sockets are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnect {
    /// The account is gone.
    Deleted,
    /// The user was banned; it is told so first (as in Nakama).
    Banned,
}

/// Runs `call`. `caller` is whom the session token names; it must be given where
/// [`ApiCall::auth`] asks for one. A slow call must be run with no transaction open.
///
/// # Errors
/// [`ApiError`], to be answered as it is. Nothing that this call wrote remains then.
pub fn run(cx: &mut Cx<'_>, call: &ApiCall, caller: Option<&Claims>) -> Result<Answer, ApiError> {
    debug_assert!(!call.is_slow() || !cx.db.in_transaction(), "a hash inside a transaction");
    if let Some(body) = log_in(cx, call)? {
        return Ok(Answer { body, effects: Vec::new() });
    }
    let caller =
        caller.ok_or_else(|| ApiError::new(Code::Unauthenticated, "Auth token required"))?;
    let user_id = caller.user_id;
    match call {
        ApiCall::SessionLogout(logout) => return log_out(cx, logout, caller),
        ApiCall::DeleteAccount => {
            let gone = account::delete(cx.db, cx.now, cx.signer.lifetime_s(), user_id)?;
            let cause = Disconnect::Deleted;
            let effects = vec![Effect::Revoke(gone), Effect::Disconnect { user_id, cause }];
            return Ok(Answer { body: b"{}".to_vec(), effects });
        }
        _ => {}
    }
    let body = match call {
        ApiCall::GetAccount => get_account(cx, user_id),
        ApiCall::UpdateAccount(update) => {
            account::update(cx.db, cx.now, user_id, update).map(empty)
        }
        ApiCall::LinkCustom(id) => link::link_custom(cx.db, cx.now, user_id, id).map(empty),
        ApiCall::LinkDevice(id) => link::link_device(cx.db, cx.now, user_id, id).map(empty),
        ApiCall::LinkEmail(email) => {
            let salt = cx.random.bytes();
            let secret = (email.email.as_str(), email.password.as_str());
            link::link_email(cx.db, cx.now, user_id, secret, salt).map(empty)
        }
        ApiCall::UnlinkCustom(id) => link::unlink_custom(cx.db, cx.now, user_id, id).map(empty),
        ApiCall::UnlinkDevice(id) => link::unlink_device(cx.db, cx.now, user_id, id).map(empty),
        ApiCall::UnlinkEmail(email) => link::unlink_email(cx.db, cx.now, user_id, email).map(empty),
        ApiCall::GetUsers { ids, usernames } => get_users(cx, ids, usernames),
        ApiCall::ListMatches(filter) => matches::run(cx.directory, filter, &mut 0),
        call => storage_call(cx, call, user_id),
    };
    let body = body?;
    if body.len() > cx.answer_bytes_max && call.may_be_large() {
        return Err(ApiError::answer_too_large(cx.answer_bytes_max));
    }
    Ok(Answer { body, effects: Vec::new() })
}

fn empty((): ()) -> Vec<u8> {
    b"{}".to_vec()
}

/// The calls that make sessions; `None` for all others.
fn log_in(cx: &mut Cx<'_>, call: &ApiCall) -> Result<Option<Vec<u8>>, ApiError> {
    let (login, vars) = match call {
        ApiCall::AuthenticateDevice(who) => {
            let newcomer = Newcomer::draw(cx.now, cx.random);
            let (id, name) = (&who.id, &who.username);
            (account::authenticate_device(cx.db, &newcomer, id, name, who.create)?, &who.vars)
        }
        ApiCall::AuthenticateCustom(who) => {
            let newcomer = Newcomer::draw(cx.now, cx.random);
            let (id, name) = (&who.id, &who.username);
            (account::authenticate_custom(cx.db, &newcomer, id, name, who.create)?, &who.vars)
        }
        ApiCall::AuthenticateEmail(who) => {
            let newcomer = Newcomer::draw(cx.now, cx.random);
            let secret = (who.email.as_str(), who.password.as_str());
            let name = &who.username;
            (account::authenticate_email(cx.db, &newcomer, secret, name, who.create)?, &who.vars)
        }
        ApiCall::SessionRefresh(refresh) => return self::refresh(cx, refresh).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(session_body(cx, &login, vars)))
}

fn session_body(cx: &mut Cx<'_>, login: &Login, vars: &Vars) -> Vec<u8> {
    let tokens = cx.signer.issue(cx.now, cx.random, login.user_id, &login.username, vars);
    write_session(login.created, &tokens)
}

fn write_session(created: bool, tokens: &Tokens) -> Vec<u8> {
    // Tokens are base64url and dots: nothing in them needs escaping.
    let mut body = Vec::with_capacity(tokens.token.len() + tokens.refresh_token.len() + 64);
    body.extend_from_slice(if created {
        br#"{"created":true,"token":""#
    } else {
        br#"{"token":""#
    });
    body.extend_from_slice(tokens.token.as_bytes());
    body.extend_from_slice(br#"","refresh_token":""#);
    body.extend_from_slice(tokens.refresh_token.as_bytes());
    body.extend_from_slice(br#""}"#);
    body
}

fn refresh(cx: &mut Cx<'_>, refresh: &Refresh) -> Result<Vec<u8>, ApiError> {
    if refresh.token.is_empty() {
        return Err(ApiError::invalid("Refresh token is required."));
    }
    let invalid = || ApiError::new(Code::Unauthenticated, "Refresh token invalid or expired.");
    let claims = cx.signer.verify_refresh(&refresh.token, cx.now).map_err(|_| invalid())?;
    let is_revoked = stored::is_revoked(cx.db, &claims);
    if is_revoked.map_err(ApiError::database("Error finding user account."))? {
        return Err(invalid());
    }
    let users = user::users(cx.db, &[claims.user_id], &[])
        .map_err(ApiError::database("Error finding user account."))?;
    let user =
        users.first().ok_or_else(|| ApiError::new(Code::NotFound, "User account not found."))?;
    if user.disable_time_ms > 0 {
        return Err(ApiError::new(Code::PermissionDenied, "User account banned."));
    }
    let vars = if refresh.vars.is_empty() { &claims.vars } else { &refresh.vars };
    Ok(write_session(false, &cx.signer.renew(cx.now, &claims, &user.username, vars)))
}

fn log_out(cx: &mut Cx<'_>, logout: &Logout, caller: &Claims) -> Result<Answer, ApiError> {
    let is_callers = |claims: &Claims| claims.user_id == caller.user_id;
    let mut logins = Vec::new();
    if !logout.token.is_empty() {
        let claims = cx.signer.verify_session(&logout.token, cx.now).ok().filter(is_callers);
        logins.push(claims.ok_or_else(|| ApiError::invalid("Session token invalid."))?);
    }
    if !logout.refresh_token.is_empty() {
        let claims =
            cx.signer.verify_refresh(&logout.refresh_token, cx.now).ok().filter(is_callers);
        logins.push(claims.ok_or_else(|| ApiError::invalid("Refresh token invalid."))?);
    }
    let (now, lifetime_s) = (cx.now, cx.signer.lifetime_s());
    let revocations = account::atomically(cx.db, |db| {
        let mut revocations = Vec::with_capacity(2);
        if logins.is_empty() {
            // Up to the millisecond before, and this very token: a login right after is a new one.
            let until_ms = now.unix_ms.saturating_sub(1);
            let all = stored::log_out_all(db, now, lifetime_s, caller.user_id, until_ms)?;
            revocations.push(all);
            revocations.push(stored::log_out(db, now, lifetime_s, caller)?);
        }
        for claims in &logins {
            revocations.push(stored::log_out(db, now, lifetime_s, claims)?);
        }
        Ok::<_, DbError>(revocations)
    });
    let mut revocations = revocations.map_err(ApiError::database("Error ending the session."))?;
    revocations.dedup();
    let effects = revocations.into_iter().map(Effect::Revoke).collect();
    Ok(Answer { body: b"{}".to_vec(), effects })
}

fn get_account(cx: &mut Cx<'_>, user_id: Uuid) -> Result<Vec<u8>, ApiError> {
    let account = account::account(cx.db, user_id)
        .map_err(ApiError::database("Error retrieving user account."))?
        .ok_or_else(account::account_not_found)?;
    let mut body = Vec::with_capacity(512);
    account.write_json(&mut body, cx.directory.is_online(user_id));
    Ok(body)
}

fn get_users(cx: &mut Cx<'_>, ids: &[String], names: &[String]) -> Result<Vec<u8>, ApiError> {
    let parse = |text: &String| {
        Uuid::try_parse(text).map_err(|_| {
            ApiError::invalid(format!("ID '{}' is not a valid system ID.", excerpt(text)))
        })
    };
    let ids = ids.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let users = user::users(cx.db, &ids, names)
        .map_err(ApiError::database("Error retrieving user accounts."))?;
    let mut body = Vec::with_capacity(64 + users.len() * 256);
    write_list(&mut body, "users", &users, |body, user| {
        user.write_json(body, cx.directory.is_online(user.id));
    });
    Ok(body)
}

fn storage_call(cx: &mut Cx<'_>, call: &ApiCall, user_id: Uuid) -> Result<Vec<u8>, ApiError> {
    let caller = Caller::User(user_id);
    let mut body = Vec::new();
    match call {
        ApiCall::ReadStorageObjects(read) => {
            let objects = storage::read(cx.db, caller, &read.ids, cx.answer_bytes_max)?;
            write_list(&mut body, "objects", &objects, |body, object| object.write_json(body));
        }
        ApiCall::WriteStorageObjects(write) => {
            let mut writes = write.writes.clone();
            for write in &mut writes {
                write.id.user_id = user_id;
            }
            let acks = storage::write(cx.db, cx.now, caller, &writes)?;
            write_list(&mut body, "acks", &acks, |body, ack| ack.write_json(body));
        }
        ApiCall::DeleteStorageObjects(delete) => {
            let mut deletes = delete.deletes.clone();
            for delete in &mut deletes {
                delete.id.user_id = user_id;
            }
            storage::delete(cx.db, caller, &deletes)?;
            body.extend_from_slice(b"{}");
        }
        ApiCall::ListStorageObjects(list) => return list_objects(cx, list, caller),
        _ => return Err(ApiError::internal("Call without a rule.")),
    }
    Ok(body)
}

fn list_objects(cx: &mut Cx<'_>, list: &ListObjects, caller: Caller) -> Result<Vec<u8>, ApiError> {
    let user_id = match list.user_id.as_str() {
        "" => None,
        text => Some(Uuid::try_parse(text).map_err(|_| {
            ApiError::invalid("Invalid user ID supplied. It must be a valid UUID.")
        })?),
    };
    let listing = Listing {
        collection: list.collection.clone(),
        user_id,
        limit: usize::try_from(list.limit).unwrap_or(0),
        cursor: list.cursor.clone(),
    };
    let (objects, cursor) = storage::list(cx.db, caller, &listing, cx.answer_bytes_max)?;
    let mut body = Vec::new();
    write_list(&mut body, "objects", &objects, |body, object| object.write_json(body));
    if !cursor.is_empty() {
        body.pop();
        if objects.is_empty() {
            return Ok(b"{}".to_vec());
        }
        json::write_member(&mut body, "cursor", &cursor);
        body.push(b'}');
    }
    Ok(body)
}

/// Appends `{"name":[…]}`, or `{}` when there is nothing in the list.
fn write_list<T>(
    body: &mut Vec<u8>,
    name: &str,
    items: &[T],
    mut write: impl FnMut(&mut Vec<u8>, &T),
) {
    if items.is_empty() {
        body.extend_from_slice(b"{}");
        return;
    }
    body.extend_from_slice(b"{\"");
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(b"\":[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        write(body, item);
    }
    body.extend_from_slice(b"]}");
}
