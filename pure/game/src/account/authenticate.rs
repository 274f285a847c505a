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
    if let Some(known) = find_or_begin(db, BY_DEVICE, device, create)? {
        return known.login();
    }
    let login =
        insert_user(db, new_account, username, &Identity { device, ..Identity::default() })?;
    if insert_device(db, device, login.user_id).is_err() {
        let id = Param::Blob(login.user_id.as_bytes());
        // No savepoint on this path: undoing by hand costs nothing when nothing fails.
        let undone = db.execute("DELETE FROM users WHERE id = $1", &[id]);
        return Err(undone
            .map_or_else(ApiError::database(LOGIN_FAILED), |_| ApiError::internal(LOGIN_FAILED)));
    }
    Ok(login)
}

/// Makes a device an identity of a user, whose own list of devices is the caller's to keep.
pub(crate) fn insert_device(
    db: &mut dyn Database,
    device: &str,
    user_id: Uuid,
) -> Result<u64, DbError> {
    let sql = "INSERT INTO user_device (id, user_id) VALUES ($1, $2)";
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
    if let Some(known) = find_or_begin(db, BY_CUSTOM_ID, custom_id, create)? {
        return known.login();
    }
    insert_user(db, new_account, username, &Identity { custom_id, ..Identity::default() })
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
    if !create {
        return Err(not_found());
    }
    let hash = hash_password(Password::parse(password)?, new_account.salt)?;
    if let Some(known) = find_or_begin(db, BY_EMAIL, email.as_str(), true)? {
        // Registered twice at once: whoever was first has set the password.
        return known.login_with(password);
    }
    let identity = Identity { email: email.as_str(), password: &hash, ..Identity::default() };
    insert_user(db, new_account, username, &identity)
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

/// Looks for a user; if there is none and one is to be made, opens the transaction, in which the
/// answer stays true.
fn find_or_begin(
    db: &mut dyn Database,
    sql: &str,
    identity: &str,
    create: bool,
) -> Result<Option<Known>, ApiError> {
    if let Some(known) = find(db, sql, identity)? {
        return Ok(Some(known));
    }
    if !create {
        return Err(not_found());
    }
    if begin_lazily(db).map_err(ApiError::database(LOGIN_FAILED))? {
        return find(db, sql, identity);
    }
    Ok(None)
}

/// What a new account is known by; empty texts are unset.
#[derive(Default)]
struct Identity<'a> {
    device: &'a str,
    custom_id: &'a str,
    email: &'a str,
    password: &'a str,
}

/// Makes the account, within the open transaction.
fn insert_user(
    db: &mut dyn Database,
    new_account: &NewAccount,
    username: &str,
    identity: &Identity<'_>,
) -> Result<Login, ApiError> {
    let failed = ApiError::database(LOGIN_FAILED);
    if !username.is_empty() {
        if user::owner_of_generated(db, username).map_err(&failed)?.is_some() {
            return Err(username_taken());
        }
        return insert_row(db, new_account, new_account.user_id, (username, false), identity);
    }
    for user_id in new_account.ids() {
        let letters = generated_name::name(user_id);
        let Ok(name) = std::str::from_utf8(&letters) else { continue };
        let is_found = generated_name::is_found(user_id);
        if is_found && is_taken(db, name).map_err(&failed)? {
            continue;
        }
        return insert_row(db, new_account, user_id, (name, is_found), identity);
    }
    Err(username_taken())
}

impl NewAccount {
    /// The id, and two more for when its name is taken: that needs another user of the same
    /// millisecond with the same 16 random bits.
    fn ids(&self) -> [Uuid; 3] {
        let with = |random: &[u8]| {
            let mut bytes = *self.user_id.as_bytes();
            for (byte, random) in bytes.iter_mut().skip(6).zip(random) {
                *byte ^= random & 0x0f;
            }
            Uuid::from_bytes(bytes)
        };
        [self.user_id, with(&self.salt[..8]), with(&self.salt[8..])]
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

fn insert_row(
    db: &mut dyn Database,
    new_account: &NewAccount,
    user_id: Uuid,
    (username, generated): (&str, bool),
    identity: &Identity<'_>,
) -> Result<Login, ApiError> {
    let sql = "INSERT INTO users (id, username, create_time, update_time, generated, devices, \
        custom_id, email, password) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8)";
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
    match db.execute(sql, &params) {
        Ok(_) => Ok(Login { user_id, username: username.into(), created: true }),
        Err(DbError::Exists { what }) if what.contains("username") => Err(username_taken()),
        Err(_) => Err(ApiError::internal(LOGIN_FAILED)),
    }
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
