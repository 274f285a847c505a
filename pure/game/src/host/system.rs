//! Logger, time, the process-wide cache and sessions.

use uuid::Uuid;
use wire::date::days_since_1970;

use super::Args;
use super::accounts::committed;
use super::declare::Text;
use crate::account::atomically;
use crate::db::DbError;
use crate::guest::{CommonHost, FollowWish, Host, HostError, LogLevel};
use crate::session::{Claims, Signer, stored};
use crate::value::Value;

/// Bytes of one log line of a script; the rest is cut off.
const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Logs a line. Returns what was given, as Nakama does.
pub(super) fn log(host: &mut dyn CommonHost, level: LogLevel, given: &Value, line: &[u8]) -> Text {
    let shown = line.get(..LOG_LINE_BYTES_MAX).unwrap_or(line);
    host.log(level, &String::from_utf8_lossy(shown));
    Text(given.clone())
}

/// Milliseconds since 1970: now if there is no argument, else of the date in its table (`year`,
/// `month`, `day`, `hour` = 12, `min`, `sec`, `msec`, in UTC).
pub(super) fn time(host: &dyn CommonHost, args: &Args<'_>, date: &Value) -> Result<i64, HostError> {
    if args.values.is_empty() {
        return Ok(i64::try_from(host.now().unix_ms).unwrap_or(i64::MAX));
    }
    let Value::Map(_) = date else {
        return Err(args.wrong(0, "table expected"));
    };
    let part = |name: &str, default: Option<i64>| {
        let value = date.member(name).and_then(Value::as_int).or(default);
        let wrong = || HostError::new(format!("field '{name}' missing in date table"));
        // Keeps the sums below far from overflow; no calendar needs more.
        value.map(|number| number.clamp(-1_000_000_000, 1_000_000_000)).ok_or_else(wrong)
    };
    let days = days_since_1970(part("year", None)?, part("month", None)?, part("day", None)?);
    let hours = days * 24 + part("hour", Some(12))?;
    let minutes = hours * 60 + part("min", Some(0))?;
    let seconds = minutes * 60 + part("sec", Some(0))?;
    Ok(seconds.saturating_mul(1_000).saturating_add(part("msec", Some(0))?))
}

pub(super) fn cache_get(host: &mut dyn CommonHost, key: &str, default: &Value) -> Value {
    let now = host.now();
    host.cache().get(now, key).unwrap_or(default).clone()
}

pub(super) fn cache_put(
    host: &mut dyn CommonHost,
    key: &str,
    value: &Value,
    ttl_s: u64,
) -> Result<(), HostError> {
    let now = host.now();
    let put = host.cache().put(now, key, value.clone(), ttl_s);
    put.map_err(|error| HostError::new(error.to_string()))
}

pub(super) fn cache_delete(host: &mut dyn CommonHost, key: &str) -> Result<(), HostError> {
    let now = host.now();
    host.cache().delete(now, key).map_err(|error| HostError::new(error.to_string()))
}

pub(super) fn cache_clear(host: &mut dyn CommonHost) {
    let now = host.now();
    host.cache().clear(now);
}

/// What a socket is told that is closed, by the number that scripts give.
const REASONS: [&str; 5] =
    ["closed by the server's script", "join", "update", "leave", "disconnect"];

pub(super) fn disconnect(
    host: &mut dyn CommonHost,
    session_id: Uuid,
    reason: usize,
) -> Result<(), HostError> {
    host.may_cut_off(1)?;
    host.session_disconnect(session_id, REASONS.get(reason).copied().unwrap_or_default());
    Ok(())
}

/// Lets a session follow users, or not any more.
pub(super) fn follow(
    host: &mut dyn CommonHost,
    session_id: Uuid,
    users: Vec<Uuid>,
    follows: bool,
) -> Result<(), HostError> {
    host.may_cut_off(users.len())?;
    if !users.is_empty() {
        host.status_follow(FollowWish { session_id, users, follows });
    }
    Ok(())
}

/// Takes these tokens of a user out of use, or all of them if there is none.
pub(super) fn log_out(
    host: &mut dyn Host,
    user_id: Uuid,
    token: Option<&str>,
    refresh_token: Option<&str>,
) -> Result<(), HostError> {
    let (now, session) = (host.now(), &host.settings().session);
    let (signer, lifetime_s) = (Signer::new(session), session.lifetime_s());
    let logins = token.map(|token| signer.verify_session(token, now)).into_iter();
    let logins = logins.chain(refresh_token.map(|token| signer.verify_refresh(token, now)));
    let logins: Option<Vec<Claims>> =
        logins.map(|login| login.ok().filter(|claims| claims.user_id == user_id)).collect();
    let Some(logins) = logins else {
        let text = "failed to logout: session token or refresh token is invalid";
        return Err(HostError::new(text));
    };
    host.may_cut_off(logins.len().max(1))?;
    let revocations = committed(host, "failed to logout", |db| {
        atomically(db, |db| {
            if logins.is_empty() {
                let all = stored::log_out_all(db, now, lifetime_s, user_id, now.unix_ms)?;
                return Ok::<_, DbError>(vec![all]);
            }
            logins.iter().map(|login| stored::log_out(db, now, lifetime_s, login)).collect()
        })
    })?;
    revocations.into_iter().for_each(|revocation| host.revoke(revocation));
    Ok(())
}
