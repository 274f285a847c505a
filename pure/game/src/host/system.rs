//! Logger, time, the process-wide cache and sessions.

use super::accounts::durably;
use super::{Args, Returns, none, one};
use crate::account::atomically;
use crate::db::DbError;
use crate::guest::{Host, HostError, LogLevel};
use crate::session::{Claims, Signer, stored};
use crate::value::Value;

/// Bytes of one log line of a script; the rest is cut off.
const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

pub(super) fn logger_debug(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    log(host, LogLevel::Debug, args)
}

pub(super) fn logger_info(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    log(host, LogLevel::Info, args)
}

pub(super) fn logger_warn(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    log(host, LogLevel::Warn, args)
}

pub(super) fn logger_error(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    log(host, LogLevel::Error, args)
}

/// Returns the text, as Nakama does.
fn log(host: &mut dyn Host, level: LogLevel, args: &Args<'_>) -> Result<Returns, HostError> {
    let line = args.filled(0, "expects message string")?;
    let shown = line.get(..LOG_LINE_BYTES_MAX).unwrap_or(&line);
    host.log(level, &String::from_utf8_lossy(shown));
    one(args.value(0).clone())
}

/// Milliseconds since 1970 now, or of the date in a table (`year`, `month`, `day`, `hour` = 12,
/// `min`, `sec`, `msec`, in UTC).
pub(super) fn time(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    if args.values.is_empty() {
        return one(int(host.now().unix_ms));
    }
    let Value::Map(_) = args.value(0) else {
        return Err(args.wrong(0, "table expected"));
    };
    let part = |name: &str, default: Option<i64>| {
        let value = args.value(0).member(name).and_then(Value::as_int).or(default);
        let wrong = || HostError::new(format!("field '{name}' missing in date table"));
        // Keeps the sums below far from overflow; no calendar needs more.
        value.map(|number| number.clamp(-1_000_000_000, 1_000_000_000)).ok_or_else(wrong)
    };
    let days = days_from_civil(part("year", None)?, part("month", None)?, part("day", None)?);
    let hours = days * 24 + part("hour", Some(12))?;
    let minutes = hours * 60 + part("min", Some(0))?;
    let seconds = minutes * 60 + part("sec", Some(0))?;
    one(Value::Int(seconds.saturating_mul(1_000).saturating_add(part("msec", Some(0))?)))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; months and days outside their ranges
/// carry over.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12);
    // Counted from March, so that the leap day is the last of its year.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let day_of_year = (153 * month + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year + (day - 1) - 719_468
}

pub(super) fn localcache_get(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let key = args.filled_text(0, "expects key string")?;
    let now = host.now();
    one(host.cache().get(now, &key).unwrap_or(args.value(1)).clone())
}

pub(super) fn localcache_put(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let key = args.filled_text(0, "expects key string")?;
    let ttl_s =
        u64::try_from(args.int_or(2, 0)?).map_err(|_| args.wrong(2, "ttl must be 0 or more"))?;
    let now = host.now();
    host.cache()
        .put(now, &key, args.value(1).clone(), ttl_s)
        .map_err(|error| HostError::new(error.to_string()))?;
    none()
}

pub(super) fn localcache_delete(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let key = args.filled_text(0, "expects key string")?;
    let now = host.now();
    host.cache().delete(now, &key).map_err(|error| HostError::new(error.to_string()))?;
    none()
}

pub(super) fn localcache_clear(host: &mut dyn Host, _: &Args<'_>) -> Result<Returns, HostError> {
    let now = host.now();
    host.cache().clear(now);
    none()
}

pub(super) fn session_disconnect(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    args.filled(0, "expects session id")?;
    let session = args.uuid(0, "expects valid session id")?;
    let reason = match args.int_or(1, 0)? {
        0 => "closed by the server's script",
        1 => "join",
        2 => "update",
        3 => "leave",
        4 => "disconnect",
        _ => return Err(args.wrong(1, "invalid disconnect reason, must be a value 0-4")),
    };
    host.may_cut_off(1)?;
    host.session_disconnect(session, reason);
    none()
}

pub(super) fn session_logout(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    args.filled(0, "expects user id")?;
    let user_id = args.uuid(0, "expects valid user id")?;
    let given = |index| -> Result<Option<String>, HostError> {
        let token = args.text_or_nil(index)?.filter(|token| !token.is_empty());
        Ok(token.map(std::borrow::Cow::into_owned))
    };
    let (now, session) = (host.now(), &host.settings().session);
    let (signer, lifetime_s) = (Signer::new(session), session.lifetime_s());
    let mut logins = Vec::new();
    if let Some(token) = given(1)? {
        logins.push(signer.verify_session(&token, now));
    }
    if let Some(token) = given(2)? {
        logins.push(signer.verify_refresh(&token, now));
    }
    let logins: Option<Vec<Claims>> = logins
        .into_iter()
        .map(|login| login.ok().filter(|claims| claims.user_id == user_id))
        .collect();
    let Some(logins) = logins else {
        let text = "failed to logout: session token or refresh token is invalid";
        return Err(HostError::new(text));
    };
    host.may_cut_off(logins.len().max(1))?;
    let revocations = durably(host, "failed to logout", |db| {
        atomically(db, |db| {
            if logins.is_empty() {
                let all = stored::log_out_all(db, now, lifetime_s, user_id, now.unix_ms)?;
                return Ok::<_, DbError>(vec![all]);
            }
            logins.iter().map(|login| stored::log_out(db, now, lifetime_s, login)).collect()
        })
    })?;
    revocations.into_iter().for_each(|revocation| host.revoke(revocation));
    none()
}

/// A count or time as a script's number.
pub(super) fn int(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::days_from_civil;

    #[test]
    fn days_count_from_1970() {
        for ((year, month, day), days) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2026, 7, 16), 20_650),
            ((2026, 13, 1), 20_819),
            ((2026, 0, 31), 20_453),
        ] {
            assert_eq!(days_from_civil(year, month, day), days, "{year}-{month}-{day}");
        }
    }
}
