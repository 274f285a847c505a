//! Revocations in the database, where they outlive the process: who was logged out and whose
//! account is gone, each for as long as a token of theirs may live. Bans are `users.disable_time`.
//!
//! All functions write within the open transaction, or open it (see [`crate::account`]); what they
//! return is mailed to every core once that is durable. [`load`] fills the replicas at the start.
//!
//! How long a token may live: the longer of the two configured lifetimes, unless the lifetimes were
//! longer at an earlier start, or a script made tokens with ends of its own
//! (`authenticate_token_generate`). The table `token_life` knows of both.

use event::Now;
use uuid::Uuid;

use super::{Claims, Revocation, Revocations};
use crate::account::{atomically, begin_lazily};
use crate::db::{Database, DbError, Param, Row, id_list};
use crate::user::{self, id_at};

/// Log-outs of single logins that are kept of one user. One more, and all become one: every login
/// of this user up to the latest of them is logged out. So nobody can fill the table alone.
pub const TOKENS_PER_USER_MAX: usize = 64;

/// Rows that have lapsed and are taken out with each that is written: more than come in.
const SWEPT_PER_WRITE: i64 = 4;

/// `revocation.issued_until` of deleted accounts: whenever their tokens were made.
const FOR_EVER: i64 = i64::MAX;

/// Of two writes of one row the later times count, whichever comes first.
const MOVE_ON: &str = "ON CONFLICT (user_id, token_id) DO UPDATE SET \
    issued_until = CASE WHEN excluded.issued_until > revocation.issued_until \
        THEN excluded.issued_until ELSE revocation.issued_until END, \
    until_s = CASE WHEN excluded.until_s > revocation.until_s \
        THEN excluded.until_s ELSE revocation.until_s END";

/// In place of a token's id: the row is about all tokens of the user.
const ALL: Uuid = Uuid::nil();

/// Ends one login: the tokens that share the id of these claims.
///
/// # Errors
/// Any [`DbError`]; then nothing is written.
pub fn log_out(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    claims: &Claims,
) -> Result<Revocation, DbError> {
    atomically(db, |db| {
        let life = Life::read(db)?;
        // Else several at once would each find room for one more.
        user::lock(db, &[claims.user_id])?;
        let (user_id, token_id) = (claims.user_id, claims.token_id);
        let issued_ms = claims.issued_ms();
        let until_s = life.of_pair_s(now, lifetime_s).max(claims.expires_s);
        put(db, now, (user_id, token_id), int(issued_ms), until_s)?;
        let (mut count, mut latest_ms, mut latest_s) = (0, 0, 0);
        let sql = "SELECT issued_until, until_s FROM revocation \
            WHERE user_id = $1 AND token_id <> $2 AND until_s > $3";
        let (user, all) = (Param::Blob(user_id.as_bytes()), Param::Blob(ALL.as_bytes()));
        db.query(sql, &[user, all, Param::Int(int(now.unix_s()))], &mut |row| {
            count += 1;
            latest_ms = row.int(0).max(latest_ms);
            latest_s = row.int(1).max(latest_s);
        })?;
        if count <= TOKENS_PER_USER_MAX {
            return Ok(Revocation::Token { user_id, token_id, issued_ms, until_s });
        }
        let until_s = life.of_all_s(now, lifetime_s).max(unsigned(latest_s));
        log_out_until(db, now, user_id, unsigned(latest_ms), until_s)
    })
}

/// Ends all logins of a user up to and including a moment, unix milliseconds.
///
/// # Errors
/// Any [`DbError`]; then nothing is written.
pub fn log_out_all(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    user_id: Uuid,
    issued_until_ms: u64,
) -> Result<Revocation, DbError> {
    atomically(db, |db| {
        let until_s = Life::read(db)?.of_all_s(now, lifetime_s);
        log_out_until(db, now, user_id, issued_until_ms, until_s)
    })
}

/// The same for several users, as few statements.
///
/// # Errors
/// Any [`DbError`]; then nothing is written.
pub(crate) fn log_out_users(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    user_ids: &[Uuid],
    issued_until_ms: u64,
) -> Result<Vec<Revocation>, DbError> {
    if user_ids.is_empty() {
        return Ok(Vec::new());
    }
    let (list, all) = (id_list(user_ids), Param::Blob(ALL.as_bytes()));
    atomically(db, |db| {
        let until_s = Life::read(db)?.of_all_s(now, lifetime_s);
        sweep(db, now, user_ids.len())?;
        // "WHERE 1 = 1": else SQLite takes ON CONFLICT for a join's condition.
        let sql = format!(
            "INSERT INTO revocation (user_id, token_id, issued_until, until_s) \
             SELECT unhex(value), $2, $3, $4 FROM json_each($1) WHERE 1 = 1 {MOVE_ON}"
        );
        let (issued_until, until) = (int(issued_until_ms), int(until_s));
        let params = [Param::Text(&list), all, Param::Int(issued_until), Param::Int(until)];
        db.execute(&sql, &params)?;
        let sql = "DELETE FROM revocation WHERE token_id <> $2 AND issued_until <= $3 \
            AND user_id IN (SELECT unhex(value) FROM json_each($1))";
        db.execute(sql, &[Param::Text(&list), all, Param::Int(issued_until)])?;
        let one = |user_id: &Uuid| Revocation::User { user_id: *user_id, issued_until_ms, until_s };
        Ok(user_ids.iter().map(one).collect())
    })
}

fn log_out_until(
    db: &mut dyn Database,
    now: Now,
    user_id: Uuid,
    issued_until_ms: u64,
    until_s: u64,
) -> Result<Revocation, DbError> {
    put(db, now, (user_id, ALL), int(issued_until_ms), until_s)?;
    let sql = "DELETE FROM revocation WHERE user_id = $1 AND token_id <> $2 AND issued_until <= $3";
    let (user, all) = (Param::Blob(user_id.as_bytes()), Param::Blob(ALL.as_bytes()));
    db.execute(sql, &[user, all, Param::Int(int(issued_until_ms))])?;
    Ok(Revocation::User { user_id, issued_until_ms, until_s })
}

/// Ends all tokens of an account that is being deleted, whenever they were made.
///
/// # Errors
/// Any [`DbError`].
pub(crate) fn bury(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    user_id: Uuid,
) -> Result<Revocation, DbError> {
    let until_s = Life::read(db)?.of_all_s(now, lifetime_s);
    let sql = "DELETE FROM revocation WHERE user_id = $1";
    db.execute(sql, &[Param::Blob(user_id.as_bytes())])?;
    put(db, now, (user_id, ALL), FOR_EVER, until_s)?;
    Ok(Revocation::Deleted { user_id, until_s })
}

/// Whether a token is revoked, as the database knows it. Bans are the caller's to look at.
///
/// # Errors
/// Any [`DbError`].
pub fn is_revoked(db: &mut dyn Database, claims: &Claims) -> Result<bool, DbError> {
    let sql = "SELECT token_id, issued_until FROM revocation \
        WHERE user_id = $1 AND token_id IN ($2, $3)";
    let ids = [claims.user_id, claims.token_id, ALL];
    let mut is_revoked = false;
    db.query(sql, &ids.each_ref().map(|id| Param::Blob(id.as_bytes())), &mut |row| {
        let is_this = id_at(row, 0) == Some(claims.token_id);
        is_revoked |= is_this || int(claims.issued_ms()) <= row.int(1);
    })?;
    Ok(is_revoked)
}

/// To be called before a token is made that ends at `expires_s`, unix seconds: revocations from
/// then on last so long. Writes seldom, because it goes a quarter further than it must.
///
/// # Errors
/// Any [`DbError`]; then the token must not be given away.
pub fn expect(
    db: &mut dyn Database,
    now: Now,
    lifetime_s: u64,
    expires_s: u64,
) -> Result<(), DbError> {
    if expires_s <= now.unix_s().saturating_add(lifetime_s)
        || Life::read_to_change(db)?.generated_s >= expires_s
    {
        return Ok(());
    }
    let further_s = expires_s.saturating_sub(now.unix_s()) / 4;
    begin_lazily(db)?;
    let sql = "UPDATE token_life SET generated_s = $1 WHERE id = 1 AND generated_s < $1";
    db.execute(sql, &[Param::Int(int(expires_s.saturating_add(further_s)))])?;
    Ok(())
}

/// All that is revoked, for the cores' replicas. Notes the configured lifetime, longer of the two,
/// and until when tokens of a longer one before may live; takes out what has lapsed. A transaction
/// of its own.
///
/// # Errors
/// Any [`DbError`].
pub fn load(db: &mut dyn Database, now: Now, lifetime_s: u64) -> Result<Revocations, DbError> {
    db.begin()?;
    let loaded = note_lifetime(db, now, lifetime_s).and_then(|()| read(db, now));
    match loaded {
        Ok(revocations) => db.commit().map(|()| revocations),
        Err(error) => {
            let _ = db.rollback();
            Err(error)
        }
    }
}

fn note_lifetime(db: &mut dyn Database, now: Now, lifetime_s: u64) -> Result<(), DbError> {
    let life = Life::read_to_change(db)?;
    if life.lifetime_s != lifetime_s {
        let former_s = if life.lifetime_s > lifetime_s {
            life.former_s.max(now.unix_s().saturating_add(life.lifetime_s))
        } else {
            life.former_s
        };
        let sql = "UPDATE token_life SET lifetime_s = $1, former_s = $2 WHERE id = 1";
        db.execute(sql, &[Param::Int(int(lifetime_s)), Param::Int(int(former_s))])?;
    }
    let sql = "DELETE FROM revocation WHERE until_s <= $1";
    db.execute(sql, &[Param::Int(int(now.unix_s()))]).map(drop)
}

fn read(db: &mut dyn Database, now: Now) -> Result<Revocations, DbError> {
    let mut revocations = Revocations::default();
    all(db)?.iter().for_each(|revocation| revocations.apply(now, revocation));
    Ok(revocations)
}

/// All that is revoked, for cores that may have missed some of it.
///
/// # Errors
/// Any [`DbError`].
pub fn all(db: &mut dyn Database) -> Result<Vec<Revocation>, DbError> {
    let mut all = Vec::new();
    let sql = "SELECT id FROM users WHERE disable_time IS NOT NULL";
    db.query(sql, &[], &mut |row| {
        all.extend(id_at(row, 0).map(|user_id| Revocation::Banned { user_id }));
    })?;
    let sql = "SELECT user_id, token_id, issued_until, until_s FROM revocation";
    db.query(sql, &[], &mut |row| all.extend(revocation(row)))?;
    Ok(all)
}

fn revocation(row: &dyn Row) -> Option<Revocation> {
    let (user_id, token_id) = (id_at(row, 0)?, id_at(row, 1)?);
    let (issued_ms, until_s) = (unsigned(row.int(2)), unsigned(row.int(3)));
    Some(match (token_id, row.int(2)) {
        (ALL, FOR_EVER) => Revocation::Deleted { user_id, until_s },
        (ALL, _) => Revocation::User { user_id, issued_until_ms: issued_ms, until_s },
        _ => Revocation::Token { user_id, token_id, issued_ms, until_s },
    })
}

/// Writes one row, or moves its times on; takes out a few that have lapsed.
fn put(
    db: &mut dyn Database,
    now: Now,
    (user_id, token_id): (Uuid, Uuid),
    issued_until: i64,
    until_s: u64,
) -> Result<(), DbError> {
    sweep(db, now, 1)?;
    let sql = format!(
        "INSERT INTO revocation (user_id, token_id, issued_until, until_s) \
         VALUES ($1, $2, $3, $4) {MOVE_ON}"
    );
    let (user, token) = (Param::Blob(user_id.as_bytes()), Param::Blob(token_id.as_bytes()));
    db.execute(&sql, &[user, token, Param::Int(issued_until), Param::Int(int(until_s))]).map(drop)
}

/// Takes out a few that have lapsed, for so many that are written.
fn sweep(db: &mut dyn Database, now: Now, written: usize) -> Result<(), DbError> {
    let sql = "DELETE FROM revocation WHERE (user_id, token_id) IN \
        (SELECT user_id, token_id FROM revocation WHERE until_s <= $1 ORDER BY until_s LIMIT $2)";
    let most = i64::try_from(written).unwrap_or(i64::MAX).saturating_mul(SWEPT_PER_WRITE);
    db.execute(sql, &[Param::Int(int(now.unix_s())), Param::Int(most)]).map(drop)
}

/// The one row of `token_life`.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The longer of the configured lifetimes at the last start.
    lifetime_s: u64,
    /// When the last token expires that was made under longer ones, unix seconds; 0 for none.
    former_s: u64,
    /// When the last token expires that a script gave an end of its own; 0 for none.
    generated_s: u64,
}

impl Life {
    /// For who revokes: who makes tokens that live longer, or starts with other lifetimes, waits
    /// meanwhile, because what is revoked would lapse too early.
    fn read(db: &mut dyn Database) -> Result<Self, DbError> {
        const SQL: &str = "SELECT lifetime_s, former_s, generated_s FROM token_life WHERE id = 1 \
            /* FOR SHARE */";
        Self::read_by(db, SQL)
    }

    /// For who is to change it.
    fn read_to_change(db: &mut dyn Database) -> Result<Self, DbError> {
        const SQL: &str = "SELECT lifetime_s, former_s, generated_s FROM token_life WHERE id = 1 \
            /* FOR UPDATE */";
        Self::read_by(db, SQL)
    }

    fn read_by(db: &mut dyn Database, sql: &str) -> Result<Self, DbError> {
        let mut life = Self::default();
        db.query(sql, &[], &mut |row| {
            let [lifetime_s, former_s, generated_s] = [0, 1, 2].map(|at| unsigned(row.int(at)));
            life = Self { lifetime_s, former_s, generated_s };
        })?;
        Ok(life)
    }

    /// When the last token of a login up to now expires, unix seconds.
    fn of_pair_s(self, now: Now, lifetime_s: u64) -> u64 {
        now.unix_s().saturating_add(lifetime_s).max(self.former_s)
    }

    /// When the last token of any kind expires that was made up to now, unix seconds.
    fn of_all_s(self, now: Now, lifetime_s: u64) -> u64 {
        self.of_pair_s(now, lifetime_s).max(self.generated_s)
    }
}

/// As the database holds it.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
