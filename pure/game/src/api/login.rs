//! The calls that begin, renew and end sessions.
//!
//! Source: Nakama 3.40, `server/api_authenticate.go`, `server/api_session.go`.

use std::collections::BTreeMap;

use wire::nakama::api::{
    AuthenticateCustomRequest, AuthenticateDeviceRequest, AuthenticateEmailRequest, Empty, Session,
    SessionLogoutRequest, SessionRefreshRequest,
};

use super::run::{Cx, Effect};
use crate::account::{self, Login, NewAccount};
use crate::db::{Database, DbError};
use crate::error::{ApiError, Code};
use crate::session::{Claims, Tokens, Vars, stored};
use crate::user;

/// Most bytes of session variables, names and values together: they travel in every request's
/// token, and a request's head ends at 5 KiB.
const VARS_BYTES_MAX: usize = 4 * 1024;

/// Session variables in the form that tokens take.
fn vars(vars: &BTreeMap<String, String>) -> Result<Vars, ApiError> {
    if vars.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > VARS_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "Session vars invalid, must be at most {VARS_BYTES_MAX} bytes."
        )));
    }
    Ok(vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

pub(super) fn device(
    cx: &mut Cx<'_>,
    request: &AuthenticateDeviceRequest,
) -> Result<Session, ApiError> {
    let account = request.account.as_ref();
    let id = account.map_or("", |account| &account.id);
    let asked = (account.map(|account| &account.vars), request.create);
    login(cx, asked, |db, new_account, create| {
        account::authenticate_device(db, new_account, id, &request.username, create)
    })
}

pub(super) fn custom(
    cx: &mut Cx<'_>,
    request: &AuthenticateCustomRequest,
) -> Result<Session, ApiError> {
    let account = request.account.as_ref();
    let id = account.map_or("", |account| &account.id);
    let asked = (account.map(|account| &account.vars), request.create);
    login(cx, asked, |db, new_account, create| {
        account::authenticate_custom(db, new_account, id, &request.username, create)
    })
}

pub(super) fn email(
    cx: &mut Cx<'_>,
    request: &AuthenticateEmailRequest,
) -> Result<Session, ApiError> {
    let account = request.account.as_ref();
    let secret = account.map_or(("", ""), |it| (it.email.as_str(), it.password.as_str()));
    let asked = (account.map(|account| &account.vars), request.create);
    login(cx, asked, |db, new_account, create| {
        account::authenticate_email(db, new_account, secret, &request.username, create)
    })
}

/// Begins a session of whom `authenticate` finds, or makes if that was not declined.
fn login(
    cx: &mut Cx<'_>,
    (given, create): (Option<&BTreeMap<String, String>>, Option<bool>),
    authenticate: impl FnOnce(&mut dyn Database, &NewAccount, bool) -> Result<Login, ApiError>,
) -> Result<Session, ApiError> {
    let vars = given.map_or(Ok(Vars::new()), vars)?;
    let new_account = NewAccount::draw(cx.now, cx.random);
    let login = authenticate(cx.db, &new_account, create.unwrap_or(true))?;
    Ok(begun(cx, &login, &vars))
}

fn begun(cx: &mut Cx<'_>, login: &Login, vars: &Vars) -> Session {
    let tokens = cx.signer.issue(cx.now, cx.random, login.user_id, &login.username, vars);
    session(cx, login.created, tokens)
}

fn session(cx: &mut Cx<'_>, created: bool, tokens: Tokens) -> Session {
    let Tokens { token, refresh_token, claims } = tokens;
    cx.session = Some(Box::new(claims));
    Session { created, token, refresh_token }
}

pub(super) fn refresh(
    cx: &mut Cx<'_>,
    request: &SessionRefreshRequest,
) -> Result<Session, ApiError> {
    let vars = vars(&request.vars)?;
    if request.token.is_empty() {
        return Err(ApiError::invalid("Refresh token is required."));
    }
    let invalid = || ApiError::new(Code::Unauthenticated, "Refresh token invalid or expired.");
    let claims = cx.signer.verify_refresh(&request.token, cx.now).map_err(|_| invalid())?;
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
    let vars = if vars.is_empty() { &claims.vars } else { &vars };
    let renewed = cx.signer.renew(cx.now, &claims, &user.username, vars);
    Ok(session(cx, false, renewed))
}

pub(super) fn log_out(cx: &mut Cx<'_>, request: &SessionLogoutRequest) -> Result<Empty, ApiError> {
    let caller = cx.caller()?;
    let is_callers = |claims: &Claims| claims.user_id == caller.user_id;
    let mut logins = Vec::new();
    if !request.token.is_empty() {
        let claims = cx.signer.verify_session(&request.token, cx.now).ok().filter(is_callers);
        logins.push(claims.ok_or_else(|| ApiError::invalid("Session token invalid."))?);
    }
    if !request.refresh_token.is_empty() {
        let claims =
            cx.signer.verify_refresh(&request.refresh_token, cx.now).ok().filter(is_callers);
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
    cx.effects.extend(revocations.into_iter().map(Effect::Revoke));
    Ok(Empty {})
}

#[cfg(test)]
mod tests {
    use super::{VARS_BYTES_MAX, vars};

    #[test]
    fn variables_have_a_limit() {
        let of = |bytes: usize| vars(&[("a".to_owned(), "v".repeat(bytes))].into());
        assert_eq!(of(VARS_BYTES_MAX - 1).unwrap()[0].0, "a");
        let refused = of(VARS_BYTES_MAX).unwrap_err();
        assert_eq!(refused.message, "Session vars invalid, must be at most 4096 bytes.");
    }
}
