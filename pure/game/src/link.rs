//! Adding identities to an account and taking them off. An account always keeps one, so that
//! somebody can log in.
//!
//! Devices have a table of their own; every other identity is a column of `users`, linked and
//! unlinked by one statement (`link`, `unlink`) and counted at one place (`identities!`).
//!
//! Source: Nakama 3.40, `server/core_link.go`. Identities of providers (Apple, Google, …) are not
//! built yet.

use event::Now;
use uuid::Uuid;

use crate::account::{
    self, CustomId, DeviceId, Email, Password, account_not_found, atomically, begin_lazily,
    hash_password, unix_ms,
};
use crate::db::{Database, DbError, Param};
use crate::error::{ApiError, Code, Failure};

/// Most devices of one account: they are listed in its row.
pub const DEVICES_MAX: usize = 100;

/// SQL: how many kinds of identities a row of `users` has, devices counted as one.
macro_rules! identities {
    () => {
        "(CASE WHEN COALESCE(devices, '') = '' THEN 0 ELSE 1 END \
        + CASE WHEN custom_id IS NULL THEN 0 ELSE 1 END \
        + CASE WHEN email IS NULL THEN 0 ELSE 1 END)"
    };
}

/// Links a device. Linking it again changes nothing.
///
/// # Errors
/// [`ApiError`]: code 3 for a malformed id, 5 for an unknown user, 6 when it is another user's, 8
/// beyond [`DEVICES_MAX`].
pub fn link_device(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    device: &str,
) -> Result<(), ApiError> {
    let device = DeviceId::parse(device)?.as_str();
    atomically(db, |db| {
        let Some(mut linked) = locked(db, user_id)? else {
            return Err(Failure::Refused(account_not_found()));
        };
        if linked.devices.iter().any(|known| known == device) {
            return Ok(());
        }
        if linked.devices.len() >= DEVICES_MAX {
            let message = format!("Cannot link more than {DEVICES_MAX} devices.");
            return Err(Failure::Refused(ApiError::new(Code::ResourceExhausted, message)));
        }
        if !account::insert_device(db, device, user_id)? {
            return Err(in_use("Device ID already in use."));
        }
        linked.devices.push(device.to_owned());
        set_devices(db, now, user_id, &linked.devices)
    })
    .map_err(|failure| failure.into_error("Error linking Device ID."))
}

/// Links a custom id in place of the one before.
///
/// # Errors
/// [`ApiError`]: code 3, 5 or 6.
pub fn link_custom(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    custom_id: &str,
) -> Result<(), ApiError> {
    let custom_id = CustomId::parse(custom_id)?.as_str();
    let sql = "UPDATE users SET custom_id = $3, update_time = $2 WHERE id = $1";
    let texts = ("Error linking Custom ID.", "Custom ID is already in use.");
    link(db, sql, (now, user_id), &[Param::Text(custom_id)], texts)
}

/// Links an email address and a password in place of those before. Slow: hashes the password
/// before it opens a transaction, and must be called without an open one. `salt` is random.
///
/// # Errors
/// [`ApiError`]: code 3, 5 or 6.
pub fn link_email(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    (email, password): (&str, &str),
    salt: [u8; 16],
) -> Result<(), ApiError> {
    if email.is_empty() || password.is_empty() {
        return Err(ApiError::invalid("Email address and password is required."));
    }
    let email = Email::parse(email)?;
    let hash = hash_password(Password::parse(password)?, salt)?;
    let sql = "UPDATE users SET email = $3, password = $4, update_time = $2 WHERE id = $1";
    let texts = ("Error linking email.", "Email is already in use.");
    link(db, sql, (now, user_id), &[Param::Text(email.as_str()), Param::Text(&hash)], texts)
}

/// Sets columns of a user: `$1` is its id, `$2` the time, what follows `values`. `failed` and `taken`
/// are what is said when the database fails, and when the identity is another user's.
fn link(
    db: &mut dyn Database,
    sql: &str,
    (now, user_id): (Now, Uuid),
    values: &[Param<'_>],
    (failed, taken): (&'static str, &'static str),
) -> Result<(), ApiError> {
    let mut params = vec![Param::Blob(user_id.as_bytes()), Param::Int(unix_ms(now))];
    params.extend_from_slice(values);
    // As for a name that is taken (`account::update`).
    match atomically(db, |db| db.execute(sql, &params)) {
        Ok(0) => Err(account_not_found()),
        Ok(_) => Ok(()),
        Err(DbError::Exists { .. }) => Err(ApiError::new(Code::AlreadyExists, taken)),
        Err(error) => Err(ApiError::database(failed)(error)),
    }
}

/// Takes a device off.
///
/// # Errors
/// [`ApiError`]: code 3 for no id, 7 when it is not linked or is the last identity.
pub fn unlink_device(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    device: &str,
) -> Result<(), ApiError> {
    if device.is_empty() {
        return Err(ApiError::invalid("Device ID is required."));
    }
    atomically(db, |db| {
        let Some(mut linked) = locked(db, user_id)? else {
            return Err(Failure::Refused(last_identity()));
        };
        let before = linked.devices.len();
        linked.devices.retain(|known| known != device);
        let is_last = linked.devices.is_empty() && linked.identities < 2;
        if linked.devices.len() == before || is_last {
            return Err(Failure::Refused(last_identity()));
        }
        set_devices(db, now, user_id, &linked.devices)?;
        account::delete_device(db, device, user_id)?;
        Ok(())
    })
    .map_err(|failure| failure.into_error("Error unlinking Device ID."))
}

/// Takes the custom id off. `custom_id` may be empty; else it must be the linked one.
///
/// # Errors
/// [`ApiError`]: code 7 when it is not linked or is the last identity.
pub fn unlink_custom(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    custom_id: &str,
) -> Result<(), ApiError> {
    let sql = concat!(
        "UPDATE users SET custom_id = NULL, update_time = $3 \
        WHERE id = $1 AND custom_id IS NOT NULL AND (custom_id = $2 OR $2 = '') AND ",
        identities!(),
        " > 1"
    );
    unlink(db, sql, now, user_id, custom_id, "Error unlinking Custom ID.")
}

/// Takes email address and password off. `email` may be empty; else it must be the linked one.
///
/// # Errors
/// [`ApiError`]: code 7 when it is not linked or is the last identity.
pub fn unlink_email(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    email: &str,
) -> Result<(), ApiError> {
    let sql = concat!(
        "UPDATE users SET email = NULL, password = NULL, update_time = $3 \
        WHERE id = $1 AND email IS NOT NULL AND (email = $2 OR $2 = '') AND ",
        identities!(),
        " > 1"
    );
    unlink(db, sql, now, user_id, &email.to_lowercase(), "Error unlinking email.")
}

fn unlink(
    db: &mut dyn Database,
    sql: &str,
    now: Now,
    user_id: Uuid,
    identity: &str,
    failed: &'static str,
) -> Result<(), ApiError> {
    begin_lazily(db).map_err(ApiError::database(failed))?;
    let params = [Param::Blob(user_id.as_bytes()), Param::Text(identity), Param::Int(unix_ms(now))];
    match db.execute(sql, &params) {
        Ok(0) => Err(last_identity()),
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::database(failed)(error)),
    }
}

/// What an account can be logged in to with.
struct Linked {
    /// In the order of linking.
    devices: Vec<String>,
    /// How many kinds of identities, devices counted as one.
    identities: i64,
}

/// Locks an account whose devices are to change; `None` if there is none.
fn locked(db: &mut dyn Database, user_id: Uuid) -> Result<Option<Linked>, DbError> {
    let mut linked = None;
    let sql = concat!(
        "SELECT devices, ",
        identities!(),
        " FROM users WHERE id = $1 /* FOR NO KEY UPDATE */"
    );
    db.query(sql, &[Param::Blob(user_id.as_bytes())], &mut |row| {
        let devices = account::split_devices(row.text(0));
        linked = Some(Linked { devices, identities: row.int(1) });
    })?;
    Ok(linked)
}

fn set_devices(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    devices: &[String],
) -> Result<(), Failure> {
    let joined = devices.join(" ");
    let sql = "UPDATE users SET devices = $2, update_time = $3 WHERE id = $1";
    let params = [Param::Blob(user_id.as_bytes()), Param::Text(&joined), Param::Int(unix_ms(now))];
    db.execute(sql, &params)?;
    Ok(())
}

fn in_use(message: &'static str) -> Failure {
    Failure::Refused(ApiError::new(Code::AlreadyExists, message))
}

fn last_identity() -> ApiError {
    ApiError::new(
        Code::PermissionDenied,
        "Cannot unlink last account identifier. Check profile exists and is not last link.",
    )
}
