//! Logging in with a device id, a custom id, an email address or a username, and making the
//! account when there is none.
//!
//! Passwords are hashed here, which takes tens of milliseconds: [`authenticate_email`] and
//! [`authenticate_username`] hash before they open a transaction, and must be called without an
//! open one: every other writer would wait for the hash.

use event::{Now, Random};
use uuid::Uuid;

use super::{
    CustomId, DeviceId, Email, LOGIN_FAILED, Password, Username, begin_lazily, filled_or_null,
    generated_name, unix_ms,
};
use crate::db::{Database, DbError, Param, Row};
use crate::error::{ApiError, Code};
use crate::{session, user};

/// bcrypt's cost: 2¹⁰ rounds, the least that OWASP's password storage cheat sheet allows, some
/// 50 ms. Nakama's 13 would let eight logins a second fill a core. Hashes made with other
/// costs stay good.
pub const PASSWORD_COST: u32 = 10;

/// Who has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user_id: Uuid,
    /// Its name.
    pub username: String,
    /// Whether the account was made by this login.
    pub created: bool,
}

/// What an account would be made with: time and randomness for a login that may turn out to be the
/// first. Drawn before, so that the rules below are functions of their arguments.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// The user's id.
    pub user_id: Uuid,
    /// Ten letters: its name if it gives none and nobody has this one.
    pub username: [u8; 10],
    /// For hashing a password, and for another id if this one's name is taken.
    pub salt: [u8; 16],
    /// When.
    pub now: Now,
}

impl NewAccount {
    /// Draws for one login.
    pub fn draw(now: Now, random: &mut Random) -> Self {
        let user_id = session::new_id(now, random);
        Self { user_id, username: generated_name::name(user_id), salt: random.bytes(), now }
    }
}

/// A given name is checked, also where an existing account is found and the name is not needed.
fn check_username(given: &str) -> Result<(), ApiError> {
    if given.is_empty() { Ok(()) } else { Username::parse(given).map(drop) }
}

/// A user that was found by one of its identities.
struct Known {
    user_id: Uuid,
    username: String,
    banned: bool,
    password: String,
}

/// Every `SELECT` below begins with these columns.
fn read_known(row: &dyn Row) -> Option<Known> {
    Some(Known {
        user_id: user::id_at(row, 0)?,
        username: row.text(1).into(),
        banned: row.int(2) > 0,
        password: row.text(3).into(),
    })
}

const BY_DEVICE: &str = "SELECT u.id, u.username, u.disable_time, NULL \
    FROM user_device d JOIN users u ON u.id = d.user_id WHERE d.id = $1";
const BY_CUSTOM_ID: &str =
    "SELECT id, username, disable_time, NULL FROM users WHERE custom_id = $1";
const BY_EMAIL: &str = "SELECT id, username, disable_time, password FROM users WHERE email = $1";
const BY_ID: &str = "SELECT id, username, disable_time, password FROM users WHERE id = $1";

/// Logs a device in. `username` names a new account; empty for ten random letters.
///
/// # Errors
/// [`ApiError`] with the texts of Nakama's `server/api_authenticate.go` and
/// `server/core_authenticate.go`: code 3 for malformed ids and names, 5 when
/// unknown and `create` is false, 6 when the name is taken, 7 when banned, 13 for the database.
pub fn authenticate_device(
    db: &mut dyn Database,
    new_account: &NewAccount,
    device: &str,
    username: &str,
    create: bool,
) -> Result<Login, ApiError> {
    let device = DeviceId::parse(device)?.as_str();
    check_username(username)?;
    if let Some(known) = find(db, BY_DEVICE, device)? {
        return known.login();
    }
    check_create(create)?;
    let identity = Identity { device, ..Identity::default() };
    match insert(db, new_account, username, &identity)? {
        Some(login) => Ok(login),
        None => match find(db, BY_DEVICE, device)? {
            Some(known) => known.login(),
            None if delete_nobodys(db, device)? => {
                insert(db, new_account, username, &identity)?.ok_or_else(|| not_made(""))
            }
            None => Err(not_made(username)),
        },
    }
}

/// Takes a device off a user who is not there, and never was: whoever made the row could not make the
/// user, and then not undo it. Whether there was such a row.
fn delete_nobodys(db: &mut dyn Database, device: &str) -> Result<bool, ApiError> {
    let sql = "DELETE FROM user_device WHERE id = $1 \
        AND NOT EXISTS (SELECT 1 FROM users u WHERE u.id = user_device.user_id)";
    let deleted = db.execute(sql, &[Param::Text(device)]);
    Ok(deleted.map_err(ApiError::database(LOGIN_FAILED))? > 0)
}

/// Makes a device an identity of a user, whose own list of devices is the caller's to keep; `false` if
/// it is somebody's already.
pub(crate) fn insert_device(
    db: &mut dyn Database,
    device: &str,
    user_id: Uuid,
) -> Result<bool, DbError> {
    let sql = "INSERT INTO user_device (id, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    Ok(db.execute(sql, &[Param::Text(device), Param::Blob(user_id.as_bytes())])? > 0)
}

/// Takes a device off a user.
pub(crate) fn delete_device(
    db: &mut dyn Database,
    device: &str,
    user_id: Uuid,
) -> Result<u64, DbError> {
    let sql = "DELETE FROM user_device WHERE id = $1 AND user_id = $2";
    db.execute(sql, &[Param::Text(device), Param::Blob(user_id.as_bytes())])
}

/// Logs in by custom id; see [`authenticate_device`].
///
/// # Errors
/// As [`authenticate_device`].
pub fn authenticate_custom(
    db: &mut dyn Database,
    new_account: &NewAccount,
    custom_id: &str,
    username: &str,
    create: bool,
) -> Result<Login, ApiError> {
    let custom_id = CustomId::parse(custom_id)?.as_str();
    check_username(username)?;
    if let Some(known) = find(db, BY_CUSTOM_ID, custom_id)? {
        return known.login();
    }
    check_create(create)?;
    let identity = Identity { custom_id, ..Identity::default() };
    match insert(db, new_account, username, &identity)? {
        Some(login) => Ok(login),
        None => find(db, BY_CUSTOM_ID, custom_id)?.ok_or_else(|| not_made(username))?.login(),
    }
}

/// Logs in by email address and password. Slow; to be called without an open transaction. An empty
/// address with a username is [`authenticate_username`].
///
/// # Errors
/// As [`authenticate_device`], and code 16 `Invalid credentials.`
pub fn authenticate_email(
    db: &mut dyn Database,
    new_account: &NewAccount,
    (email, password): (&str, &str),
    username: &str,
    create: bool,
) -> Result<Login, ApiError> {
    if email.is_empty() {
        Password::parse(password)?;
        if username.is_empty() {
            return Err(ApiError::invalid(
                "Username is required when email address is not supplied.",
            ));
        }
        return authenticate_username(db, username, password);
    }
    let email = Email::parse(email)?;
    if password.len() < 8 {
        Password::parse(password)?;
    }
    check_username(username)?;
    if let Some(known) = find(db, BY_EMAIL, email.as_str())? {
        return known.login_with(password);
    }
    check_create(create)?;
    let hash = hash_password(Password::parse(password)?, new_account.salt)?;
    let identity = Identity { email: email.as_str(), password: &hash, ..Identity::default() };
    if let Some(login) = insert(db, new_account, username, &identity)? {
        return Ok(login);
    }
    // Registered twice at once: whoever was first has set the password.
    let known = find(db, BY_EMAIL, email.as_str())?.ok_or_else(|| not_made(username))?;
    known.login_with(password)
}

/// Logs in by username and password; never makes an account. Slow; to be called without an open
/// transaction.
///
/// # Errors
/// [`ApiError`]: code 3, 5, 7, 13 or 16.
pub fn authenticate_username(
    db: &mut dyn Database,
    username: &str,
    password: &str,
) -> Result<Login, ApiError> {
    let username = Username::parse(username)?;
    if password.len() < 8 {
        Password::parse(password)?;
    }
    let user_id = user::id_of_username(db, username.as_str())
        .map_err(ApiError::database(LOGIN_FAILED))?
        .ok_or_else(not_found)?;
    find_by(db, BY_ID, Param::Blob(user_id.as_bytes()))?.ok_or_else(not_found)?.login_with(password)
}

/// Whose password a login by email address, or without one by username, would be held against.
///
/// # Errors
/// [`ApiError`]: code 13.
pub fn id_of_login(
    db: &mut dyn Database,
    email: &str,
    username: &str,
) -> Result<Option<Uuid>, ApiError> {
    if email.is_empty() {
        return user::id_of_username(db, username).map_err(ApiError::database(LOGIN_FAILED));
    }
    Ok(find(db, BY_EMAIL, &email.to_lowercase())?.map(|known| known.user_id))
}

impl Known {
    fn login(self) -> Result<Login, ApiError> {
        if self.banned {
            return Err(ApiError::new(Code::PermissionDenied, "User account banned."));
        }
        Ok(Login { user_id: self.user_id, username: self.username, created: false })
    }

    /// Whether somebody is banned is told only to those who know the password.
    fn login_with(self, password: &str) -> Result<Login, ApiError> {
        // No hash, or a damaged one, fits no password.
        if !bcrypt::verify(password, &self.password).unwrap_or(false) {
            return Err(ApiError::new(Code::Unauthenticated, "Invalid credentials."));
        }
        self.login()
    }
}

fn find(db: &mut dyn Database, sql: &str, identity: &str) -> Result<Option<Known>, ApiError> {
    find_by(db, sql, Param::Text(identity))
}

fn find_by(
    db: &mut dyn Database,
    sql: &str,
    identity: Param<'_>,
) -> Result<Option<Known>, ApiError> {
    let mut known = None;
    db.query(sql, &[identity], &mut |row| known = read_known(row))
        .map_err(ApiError::database(LOGIN_FAILED))?;
    Ok(known)
}

/// What a new account is known by; empty texts are unset.
#[derive(Default)]
struct Identity<'a> {
    device: &'a str,
    custom_id: &'a str,
    email: &'a str,
    password: &'a str,
}

/// Makes the account, unless somebody else has its identity or its name: that is decided by the keys
/// of the tables, not by what was read before. Its device comes first: whoever has that row makes the
/// account. Nothing is written if there is none in the end.
fn insert(
    db: &mut dyn Database,
    new_account: &NewAccount,
    username: &str,
    identity: &Identity<'_>,
) -> Result<Option<Login>, ApiError> {
    let failed = ApiError::database(LOGIN_FAILED);
    begin_lazily(db).map_err(&failed)?;
    if !username.is_empty() {
        let owner = user::owner_of_generated(db, username).map_err(&failed)?;
        if owner.is_some() || generated_name::is_being_made(username, new_account.now) {
            return Err(username_taken());
        }
        let name = (username, false);
        return insert_rows(db, new_account, new_account.user_id, name, identity).map_err(failed);
    }
    let mut was_beaten = false;
    for user_id in new_account.ids() {
        let letters = generated_name::name(user_id);
        let Ok(name) = std::str::from_utf8(&letters) else { continue };
        let is_found = generated_name::is_found(user_id);
        if is_found && is_taken(db, name).map_err(&failed)? {
            continue;
        }
        let name = (name, is_found);
        let made = insert_rows(db, new_account, user_id, name, identity).map_err(&failed)?;
        if made.is_some() {
            return Ok(made);
        }
        // The id is somebody's by now, or the identity: the latter is for the caller to find out.
        was_beaten = true;
        if !identity.device.is_empty() && find(db, BY_DEVICE, identity.device)?.is_some() {
            break;
        }
    }
    if was_beaten { Ok(None) } else { Err(username_taken()) }
}

fn insert_rows(
    db: &mut dyn Database,
    new_account: &NewAccount,
    user_id: Uuid,
    name: (&str, bool),
    identity: &Identity<'_>,
) -> Result<Option<Login>, DbError> {
    let device = identity.device;
    if !device.is_empty() && !insert_device(db, device, user_id)? {
        return Ok(None);
    }
    let made = insert_user(db, new_account, user_id, name, identity);
    if !device.is_empty() && !matches!(made, Ok(Some(_))) {
        // No savepoint on this path: undoing by hand costs nothing when nothing fails.
        delete_device(db, device, user_id)?;
    }
    made
}

impl NewAccount {
    /// The id of a user who gives no name, and two more for when its name is taken: that needs another
    /// user of the same millisecond with the same 16 random bits.
    fn ids(&self) -> [Uuid; 3] {
        let with = |random: &[u8]| {
            let mut bytes = *self.user_id.as_bytes();
            for (byte, random) in bytes.iter_mut().skip(6).zip(random) {
                *byte ^= random & 0x0f;
            }
            Uuid::from_bytes(bytes)
        };
        [self.user_id, with(&self.salt[..8]), with(&self.salt[8..])].map(generated_name::own_id)
    }
}

/// Whether a name made of an id is another user's, by whatever way.
fn is_taken(db: &mut dyn Database, name: &str) -> Result<bool, DbError> {
    let Some((first, last)) = generated_name::ids(name) else { return Ok(false) };
    let sql = "SELECT 1 FROM users WHERE id >= $2 AND id <= $3 \
        UNION ALL SELECT 1 FROM users WHERE username = $1 AND generated IS NULL";
    let params = [Param::Text(name), Param::Blob(first.as_bytes()), Param::Blob(last.as_bytes())];
    let mut taken = false;
    db.query(sql, &params, &mut |_| taken = true)?;
    Ok(taken)
}

/// `None` if a key of the table is another user's: the id, the name, the custom id or the address.
fn insert_user(
    db: &mut dyn Database,
    new_account: &NewAccount,
    user_id: Uuid,
    (username, generated): (&str, bool),
    identity: &Identity<'_>,
) -> Result<Option<Login>, DbError> {
    let sql = "INSERT INTO users (id, username, create_time, update_time, generated, devices, \
        custom_id, email, password) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8) \
        ON CONFLICT DO NOTHING";
    let params = [
        Param::Blob(user_id.as_bytes()),
        Param::Text(username),
        Param::Int(unix_ms(new_account.now)),
        if generated { Param::Int(1) } else { Param::Null },
        filled_or_null(identity.device),
        filled_or_null(identity.custom_id),
        filled_or_null(identity.email),
        filled_or_null(identity.password),
    ];
    let is_made = db.execute(sql, &params)? > 0;
    Ok(is_made.then(|| Login { user_id, username: username.into(), created: true }))
}

/// Why there is no account, if nobody has its identity: the name is taken, or, where none was given,
/// who had the identity has just let it go.
fn not_made(username: &str) -> ApiError {
    if username.is_empty() {
        return ApiError::new(Code::Aborted, LOGIN_FAILED);
    }
    username_taken()
}

fn check_create(create: bool) -> Result<(), ApiError> {
    if create { Ok(()) } else { Err(not_found()) }
}

fn username_taken() -> ApiError {
    ApiError::new(Code::AlreadyExists, "Username is already in use.")
}

/// The form that Nakama's databases hold.
pub(crate) fn hash_password(password: Password<'_>, salt: [u8; 16]) -> Result<String, ApiError> {
    bcrypt::hash_with_salt(password.as_str(), PASSWORD_COST, salt)
        .map(|parts| parts.to_string())
        .map_err(|_| ApiError::internal("Error hashing password."))
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "User account not found.")
}
