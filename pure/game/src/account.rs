//! Accounts: what a user can read, change and delete of its own, banning, and (in the parts below)
//! how one logs in and what identities it has.
//!
//! All functions take the thread's database and speak its SQL themselves. Not here: tokens
//! (`session`), requests (`api`), what other users see (`user`), the identities' links (`link`),
//! changing wallets (`wallet`).
//!
//! # Transactions
//!
//! Many jobs share one transaction. A job that writes opens it if it is not open
//! ([`begin_lazily`]) and never commits: its caller commits once for all jobs of a batch, and only
//! then answers them. Every job is all or nothing by itself: one statement, or several within
//! [`atomically`]. What was read before the transaction was opened, or without a lock, may be stale:
//! what is decided by it is a condition of the write too ([`crate::db`]).

mod authenticate;
pub(crate) mod generated_name;
mod identity;

use std::collections::{BTreeMap, BTreeSet};

use event::Now;
use uuid::Uuid;
use wire::nakama::{Timestamp, api};

pub use authenticate::{
    Login, NewAccount, PASSWORD_COST, authenticate_custom, authenticate_device, authenticate_email,
    authenticate_username, id_of_login,
};
pub(crate) use authenticate::{delete_device, hash_password, insert_device};
pub use identity::{CustomId, DeviceId, Email, Password, Username};

use crate::db::{Database, DbError, Param, Row, id_list, text_list};
use crate::error::{ApiError, Code};
use crate::session::{Revocation, stored};
use crate::user::{self, COLUMNS, COLUMNS_COUNT, User};
use crate::{friends, json, notifications};

/// All that a user may know about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What others may see too.
    pub user: User,
    /// JSON text: an object of whole numbers.
    pub wallet: String,
    /// Empty when none is linked.
    pub email: String,
    /// Device ids in the order in which they were linked.
    pub devices: Vec<String>,
    /// Empty when none is linked.
    pub custom_id: String,
    /// When the email address was verified, unix milliseconds; 0 when it was not.
    pub verify_time_ms: i64,
}

/// New values for an account's columns; `None` leaves one as it is, an empty text clears it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// 1–128 bytes; cannot be cleared.
    pub username: Option<String>,
    /// At most 255 bytes.
    pub display_name: Option<String>,
    /// At most 512 bytes.
    pub avatar_url: Option<String>,
    /// At most 18 bytes.
    pub lang_tag: Option<String>,
    /// At most 255 bytes.
    pub location: Option<String>,
    /// At most 255 bytes.
    pub timezone: Option<String>,
    /// JSON text of an object; for scripts only.
    pub metadata: Option<String>,
}

/// Text for every failure of the database while logging in.
const LOGIN_FAILED: &str = "Error finding or creating user account.";

/// Opens the transaction if there is none; tells whether it did, that is, whether what was read
/// before may be stale.
///
/// # Errors
/// [`DbError::Machine`].
pub fn begin_lazily(db: &mut dyn Database) -> Result<bool, DbError> {
    if db.in_transaction() {
        return Ok(false);
    }
    db.begin()?;
    Ok(true)
}

/// Runs several statements so that either all or none of them have happened, without touching what
/// earlier jobs did in the same transaction.
///
/// # Errors
/// What `job` returns, or the database's own.
pub fn atomically<T, E: From<DbError>>(
    db: &mut dyn Database,
    job: impl FnOnce(&mut dyn Database) -> Result<T, E>,
) -> Result<T, E> {
    begin_lazily(db)?;
    db.savepoint()?;
    let result = job(db);
    if result.is_err() {
        db.undo_to_savepoint()?;
    }
    db.release_savepoint()?;
    result
}

/// What is read of an account.
const ACCOUNT: &str = "u.wallet, u.email, u.devices, u.custom_id, u.verify_time";

/// The account of a user; `None` when there is none.
///
/// # Errors
/// Any [`DbError`].
pub fn account(db: &mut dyn Database, user_id: Uuid) -> Result<Option<Account>, DbError> {
    let mut found = None;
    let sql = format!("SELECT {COLUMNS}, {ACCOUNT} FROM users u WHERE u.id = $1");
    db.query(&sql, &[Param::Blob(user_id.as_bytes())], &mut |row| {
        found = Some(read_account(row));
    })?;
    Ok(found)
}

/// The accounts of users and those that devices are linked to, in this order; as often as they are
/// asked for, without those that there are not.
///
/// # Errors
/// Any [`DbError`].
pub fn accounts(
    db: &mut dyn Database,
    user_ids: &[Uuid],
    devices: &[String],
) -> Result<Vec<Account>, DbError> {
    let mut owners = BTreeMap::new();
    if !devices.is_empty() {
        let sql = "SELECT id, user_id FROM user_device \
            WHERE id IN (SELECT value FROM json_each($1))";
        db.query(sql, &[Param::Text(&text_list(devices))], &mut |row| {
            owners.extend(user::id_at(row, 1).map(|owner| (row.text(0).to_owned(), owner)));
        })?;
    }
    let of_devices = devices.iter().filter_map(|device| owners.get(device));
    let wanted: Vec<Uuid> = user_ids.iter().chain(of_devices).copied().collect();
    if let [id] = wanted[..] {
        return Ok(account(db, id)?.into_iter().collect());
    }
    let mut found = BTreeMap::new();
    if !wanted.is_empty() {
        let sql = format!(
            "SELECT {COLUMNS}, {ACCOUNT} FROM users u \
             WHERE u.id IN (SELECT unhex(value) FROM json_each($1))"
        );
        db.query(&sql, &[Param::Text(&id_list(&wanted))], &mut |row| {
            let account = read_account(row);
            found.insert(account.user.id, account);
        })?;
    }
    Ok(wanted.iter().filter_map(|id| found.get(id).cloned()).collect())
}

/// Changes an account.
///
/// # Errors
/// [`ApiError`] with the texts of `PUT /v2/account`; a taken username is code 3, as in
/// Nakama, with the text of code 6 inside.
pub fn update(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    update: &AccountUpdate,
) -> Result<(), ApiError> {
    if *update == AccountUpdate::default() {
        return Err(ApiError::invalid("No fields to update."));
    }
    check_update(update)?;
    begin_lazily(db).map_err(ApiError::database(UPDATE_FAILED))?;
    if let Some(username) = &update.username {
        let owner = user::owner_of_generated(db, username);
        let owner = owner.map_err(ApiError::database(UPDATE_FAILED))?;
        let is_anothers =
            owner.map_or_else(|| generated_name::is_being_made(username, now), |id| id != user_id);
        if is_anothers {
            return Err(username_taken_by_update());
        }
    }
    let sql = "UPDATE users SET update_time = $2, username = COALESCE($3, username), \
        generated = CASE WHEN $3 IS NULL THEN generated END, \
        display_name = COALESCE($4, display_name), avatar_url = COALESCE($5, avatar_url), \
        lang_tag = COALESCE($6, lang_tag), location = COALESCE($7, location), \
        timezone = COALESCE($8, timezone), metadata = COALESCE($9, metadata) WHERE id = $1";
    let params = [
        Param::Blob(user_id.as_bytes()),
        Param::Int(unix_ms(now)),
        text_or_null(update.username.as_deref()),
        text_or_null(update.display_name.as_deref()),
        text_or_null(update.avatar_url.as_deref()),
        text_or_null(update.lang_tag.as_deref()),
        text_or_null(update.location.as_deref()),
        text_or_null(update.timezone.as_deref()),
        text_or_null(update.metadata.as_deref()),
    ];
    // A name that is taken may be one refusal of several in a script's call, which goes on.
    match atomically(db, |db| db.execute(sql, &params)) {
        Ok(0) => Err(account_not_found()),
        Ok(_) => Ok(()),
        Err(DbError::Exists { .. }) => Err(username_taken_by_update()),
        Err(error) => Err(ApiError::database(UPDATE_FAILED)(error)),
    }
}

/// Nakama passes the inner error on as text.
fn username_taken_by_update() -> ApiError {
    ApiError::invalid("rpc error: code = AlreadyExists desc = Username is already in use.")
}

const UPDATE_FAILED: &str = "Error while trying to update account.";

fn check_update(update: &AccountUpdate) -> Result<(), ApiError> {
    if let Some(username) = &update.username {
        Username::parse(username)?;
    }
    let limits = [
        (&update.display_name, 255, "Display name invalid, must be 0-255 bytes."),
        (&update.avatar_url, 512, "Avatar URL invalid, must be 0-512 bytes."),
        (&update.lang_tag, 18, "Language tag invalid, must be 0-18 bytes."),
        (&update.location, 255, "Location invalid, must be 0-255 bytes."),
        (&update.timezone, 255, "Timezone invalid, must be 0-255 bytes."),
    ];
    for (value, bytes_max, message) in limits {
        if value.as_ref().is_some_and(|value| value.len() > bytes_max) {
            return Err(ApiError::invalid(message));
        }
    }
    let refusal = "Metadata must be a valid JSON object.";
    update.metadata.as_ref().map_or(Ok(()), |metadata| json::check_object(metadata, refusal))
}

/// Deletes an account and everything that belongs to it, and ends its tokens. The caller passes the
/// revocation on and closes the user's sockets. What the user's own calls write from then on is
/// refused: every write locks its user's row, so that it comes before this and is deleted with the
/// user, or after it and finds nobody. `lifetime_s` is [`crate::session::SessionSettings::lifetime_s`].
///
/// # Errors
/// [`ApiError`]: code 5 when there is no such account.
pub fn delete(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    user_id: Uuid,
) -> Result<Revocation, ApiError> {
    let id = Param::Blob(user_id.as_bytes());
    let deleted = atomically(db, |db| {
        let Some(devices) = devices_to_delete(db, user_id)? else { return Ok(None) };
        if !devices.is_empty() {
            let sql = "DELETE FROM user_device WHERE user_id = $2 \
                AND id IN (SELECT value FROM json_each($1))";
            db.execute(sql, &[Param::Text(&text_list(&devices)), id])?;
        }
        db.execute("DELETE FROM storage WHERE user_id = $1", &[id])?;
        db.execute("DELETE FROM wallet_ledger WHERE user_id = $1", &[id])?;
        friends::forget(db, user_id)?;
        notifications::forget(db, user_id)?;
        db.execute("DELETE FROM users WHERE id = $1", &[id])?;
        stored::bury(db, now, lifetime_s, user_id).map(Some)
    });
    deleted
        .map_err(ApiError::database("Error deleting user account."))?
        .ok_or_else(account_not_found)
}

/// Bans users; tells which of the ids belong to users, and what is revoked. The caller passes the
/// revocations on and closes the sockets of the banned. Their tokens do not live again when the ban
/// is lifted.
///
/// # Errors
/// Any [`DbError`]; then nobody is banned by this.
pub fn ban(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    user_ids: &[Uuid],
) -> Result<(Vec<Uuid>, Vec<Revocation>), DbError> {
    atomically(db, |db| {
        let known = set_banned(db, now, user_ids, true)?;
        let banned = known.iter().map(|user_id| Revocation::Banned { user_id: *user_id });
        let mut revocations: Vec<Revocation> = banned.collect();
        revocations.extend(stored::log_out_users(db, now, lifetime_s, &known, now.unix_ms)?);
        Ok((known, revocations))
    })
}

/// Lifts bans. The caller passes on that the tokens that are made from now on are good again.
///
/// # Errors
/// Any [`DbError`]; then nobody's ban has changed.
pub fn unban(
    db: &mut dyn Database,
    now: Now,
    user_ids: &[Uuid],
) -> Result<Vec<Revocation>, DbError> {
    let known = set_banned(db, now, user_ids, false)?;
    Ok(known.into_iter().map(|user_id| Revocation::Unbanned { user_id }).collect())
}

fn set_banned(
    db: &mut dyn Database,
    now: Now,
    user_ids: &[Uuid],
    banned: bool,
) -> Result<Vec<Uuid>, DbError> {
    let since = if banned { Param::Int(unix_ms(now)) } else { Param::Null };
    atomically(db, |db| {
        let found = user::lock(db, user_ids)?;
        let list = id_list(found.keys());
        let sql = "UPDATE users SET disable_time = $2 \
            WHERE id IN (SELECT unhex(value) FROM json_each($1))";
        db.execute(sql, &[Param::Text(&list), since])?;
        let mut seen = BTreeSet::new();
        let is_known = |id: &&Uuid| found.contains_key(*id) && seen.insert(**id);
        Ok(user_ids.iter().filter(is_known).copied().collect())
    })
}

/// Locks a user who is to be deleted; the device ids, `None` if there is no such user. From then on
/// nobody else writes what belongs to the user.
fn devices_to_delete(db: &mut dyn Database, user_id: Uuid) -> Result<Option<Vec<String>>, DbError> {
    let mut devices = None;
    let sql = "SELECT devices FROM users WHERE id = $1 /* FOR UPDATE */";
    db.query(sql, &[Param::Blob(user_id.as_bytes())], &mut |row| {
        devices = Some(split_devices(row.text(0)));
    })?;
    Ok(devices)
}

/// `users.devices`: ids have no spaces in them, so a space parts them.
pub(crate) fn split_devices(joined: &str) -> Vec<String> {
    joined.split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

fn read_account(row: &dyn Row) -> Account {
    const FIRST: usize = COLUMNS_COUNT;
    let wallet = row.text(FIRST);
    Account {
        user: user::read_user(row),
        wallet: if wallet.is_empty() { "{}".into() } else { wallet.into() },
        email: row.text(FIRST + 1).into(),
        devices: split_devices(row.text(FIRST + 2)),
        custom_id: row.text(FIRST + 3).into(),
        verify_time_ms: row.int(FIRST + 4),
    }
}

impl Account {
    /// The account as the API shows it to its owner.
    pub fn into_message(self, online: bool) -> api::Account {
        let device = |id| api::AccountDevice { id, ..api::AccountDevice::default() };
        let verified = (self.verify_time_ms > 0).then_some(self.verify_time_ms);
        api::Account {
            user: Some(self.user.into_message(online)),
            wallet: self.wallet,
            email: self.email,
            devices: self.devices.into_iter().map(device).collect(),
            custom_id: self.custom_id,
            verify_time: verified.map(Timestamp::from_unix_ms),
            disable_time: None,
        }
    }
}

/// Code 5.
pub(crate) fn account_not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Account not found.")
}

/// The time as the tables hold it.
pub(crate) fn unix_ms(now: Now) -> i64 {
    i64::try_from(now.unix_ms).unwrap_or(i64::MAX)
}

/// A text, or NULL for none.
pub(crate) fn text_or_null(text: Option<&str>) -> Param<'_> {
    text.map_or(Param::Null, Param::Text)
}

/// A text, or NULL for an empty one.
pub(crate) fn filled_or_null(text: &str) -> Param<'_> {
    text_or_null(Some(text).filter(|text| !text.is_empty()))
}
