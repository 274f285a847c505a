//! Adding identities to an account and taking them off. An account always keeps one, lest nobody
//! could log in any more.
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
use crate::user;

/// Most devices of one account: they are listed in its row.
pub const DEVICES_MAX: usize = 100;

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
        let mut owner = None;
        let sql = "SELECT user_id FROM user_device WHERE id = $1";
        db.query(sql, &[Param::Text(device)], &mut |row| owner = user::id_at(row, 0))?;
        match owner {
            Some(owner) if owner == user_id => return Ok(()),
            Some(_) => return Err(in_use("Device ID already in use.")),
            None => {}
        }
        let mut devices = account::devices(db, user_id)?;
        if devices.len() >= DEVICES_MAX {
            let message = format!("Cannot link more than {DEVICES_MAX} devices.");
            return Err(Failure::Refused(ApiError::new(Code::ResourceExhausted, message)));
        }
        devices.push(device.to_owned());
        set_devices(db, now, user_id, &devices)?;
        let id = Param::Blob(user_id.as_bytes());
        let sql = "INSERT INTO user_device (id, user_id) VALUES ($1, $2)";
        db.execute(sql, &[Param::Text(device), id])?;
        Ok(())
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
    let failed = "Error linking Custom ID.";
    begin_lazily(db).map_err(ApiError::database(failed))?;
    let sql = "UPDATE users SET custom_id = $2, update_time = $3 WHERE id = $1";
    let params =
        [Param::Blob(user_id.as_bytes()), Param::Text(custom_id), Param::Int(unix_ms(now))];
    match db.execute(sql, &params) {
        Ok(0) => Err(account_not_found()),
        Ok(_) => Ok(()),
        Err(DbError::Exists { .. }) => {
            Err(ApiError::new(Code::AlreadyExists, "Custom ID is already in use."))
        }
        Err(_) => Err(ApiError::internal(failed)),
    }
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
    let failed = "Error linking email.";
    begin_lazily(db).map_err(ApiError::database(failed))?;
    let sql = "UPDATE users SET email = $2, password = $3, update_time = $4 WHERE id = $1";
    let params = [
        Param::Blob(user_id.as_bytes()),
        Param::Text(email.as_str()),
        Param::Text(&hash),
        Param::Int(unix_ms(now)),
    ];
    match db.execute(sql, &params) {
        Ok(0) => Err(account_not_found()),
        Ok(_) => Ok(()),
        Err(DbError::Exists { .. }) => {
            Err(ApiError::new(Code::AlreadyExists, "Email is already in use."))
        }
        Err(_) => Err(ApiError::internal(failed)),
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
        let mut devices = account::devices(db, user_id)?;
        let before = devices.len();
        devices.retain(|known| known != device);
        let others = devices.len() + other_identities(db, user_id)?;
        if devices.len() == before || others == 0 {
            return Err(Failure::Refused(last_identity()));
        }
        set_devices(db, now, user_id, &devices)?;
        db.execute("DELETE FROM user_device WHERE id = $1", &[Param::Text(device)])?;
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
    let sql = "UPDATE users SET custom_id = NULL, update_time = $3 \
        WHERE id = $1 AND custom_id IS NOT NULL AND (custom_id = $2 OR $2 = '') \
        AND (COALESCE(devices, '') <> '' OR email IS NOT NULL)";
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
    let sql = "UPDATE users SET email = NULL, password = NULL, update_time = $3 \
        WHERE id = $1 AND email IS NOT NULL AND (email = $2 OR $2 = '') \
        AND (COALESCE(devices, '') <> '' OR custom_id IS NOT NULL)";
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
        Err(_) => Err(ApiError::internal(failed)),
    }
}

/// How many identities besides devices an account has.
fn other_identities(db: &mut dyn Database, user_id: Uuid) -> Result<usize, DbError> {
    let mut count = 0;
    let sql = "SELECT custom_id, email FROM users WHERE id = $1";
    db.query(sql, &[Param::Blob(user_id.as_bytes())], &mut |row| {
        count = usize::from(!row.is_null(0)) + usize::from(!row.is_null(1));
    })?;
    Ok(count)
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
    if db.execute(sql, &params)? == 0 {
        return Err(Failure::Refused(account_not_found()));
    }
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
