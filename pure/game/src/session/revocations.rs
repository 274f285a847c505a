//! Which tokens are no longer good although their time is not over: those of a logout, of a banned
//! user, of a deleted account. One replica a core, filled at the start from what the database holds
//! (`stored`) and fed by the same [`Revocation`]s through mail.
//!
//! What somebody can bring about who is nobody's friend, logging out, never costs what an operator
//! or the law has decided, bans and deletions: each of the three has its own room here.

use std::collections::{BTreeMap, BTreeSet};

use event::Now;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Claims;

/// Most log-outs kept at a time, tokens and users, some 100 bytes each. When more come, those of
/// the user that would lapse first are forgotten and counted: their tokens have the least time
/// left. Of one user there are few ([`super::stored::TOKENS_PER_USER_MAX`]).
pub const LOG_OUTS_MAX: usize = 1 << 18;

/// Most deleted accounts kept at a time, some 80 bytes each. When more come, the one that would
/// lapse first is forgotten and counted; what its tokens could still write is refused, because
/// every write looks for its user.
pub const DELETIONS_MAX: usize = 1 << 18;

/// Tokens that are no longer good. Small: it is mailed to every core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revocation {
    /// The tokens with this id.
    Token {
        /// `uid`.
        user_id: Uuid,
        /// `tid`.
        token_id: Uuid,
        /// When their login was, unix milliseconds.
        issued_ms: u64,
        /// When the last of them expires by itself, unix seconds.
        until_s: u64,
    },
    /// All of a user's tokens up to a moment.
    User {
        /// `uid`.
        user_id: Uuid,
        /// Logins up to and including this moment, unix milliseconds.
        issued_until_ms: u64,
        /// When the last of their tokens expires by itself, unix seconds.
        until_s: u64,
    },
    /// All tokens of a user who is gone, whenever they were made.
    Deleted {
        /// `uid`.
        user_id: Uuid,
        /// When the last of them expires by itself, unix seconds.
        until_s: u64,
    },
    /// All tokens of a user, whenever they were made, until the ban is lifted.
    Banned {
        /// `uid`.
        user_id: Uuid,
    },
    /// The ban is lifted. What else was revoked stays so.
    Unbanned {
        /// `uid`.
        user_id: Uuid,
    },
}

/// The revocations that a thread knows.
#[derive(Clone, Debug, Default)]
pub struct Revocations {
    /// As many as the database has; only scripts make them.
    banned: BTreeSet<Uuid>,
    deleted: BTreeMap<Uuid, u64>,
    deleted_lapses: BTreeSet<(u64, Uuid)>,
    logged_out: BTreeMap<Uuid, LoggedOut>,
    /// The users of `logged_out` by the time at which the last of their log-outs lapses.
    lapses: BTreeSet<(u64, Uuid)>,
    /// Log-outs: one for each token in `logged_out`, and one for each user.
    log_outs: usize,
    forgotten_count: u64,
}

/// What one user has logged out.
#[derive(Clone, Debug, Default)]
struct LoggedOut {
    /// Logins up to this moment, unix milliseconds.
    issued_until_ms: Option<u64>,
    /// When the last token of all that is revoked here expires, unix seconds.
    until_s: u64,
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    id: Uuid,
    issued_ms: u64,
    until_s: u64,
}

impl LoggedOut {
    fn len(&self) -> usize {
        1 + self.tokens.len()
    }

    fn add(&mut self, now: Now, token: Token) {
        self.tokens.retain(|known| known.until_s > now.unix_s());
        match self.tokens.iter_mut().find(|known| known.id == token.id) {
            Some(known) => known.until_s = known.until_s.max(token.until_s),
            None => self.tokens.push(token),
        }
        self.until_s = self.until_s.max(token.until_s);
    }

    fn add_all(&mut self, issued_until_ms: u64, until_s: u64) {
        let issued_until_ms =
            self.issued_until_ms.map_or(issued_until_ms, |known| known.max(issued_until_ms));
        self.issued_until_ms = Some(issued_until_ms);
        self.until_s = self.until_s.max(until_s);
        self.tokens.retain(|token| token.issued_ms > issued_until_ms);
    }
}

impl Revocations {
    /// Remembers a revocation; forgets those that have lapsed. Repeats change nothing, and the
    /// order in which revocations arrive does not matter, save that of ban and lifting.
    pub fn apply(&mut self, now: Now, revocation: &Revocation) {
        self.sweep(now);
        match *revocation {
            Revocation::Token { user_id, token_id, issued_ms, until_s } => {
                self.log_out(user_id, |known| {
                    known.add(now, Token { id: token_id, issued_ms, until_s });
                });
            }
            Revocation::User { user_id, issued_until_ms, until_s } => {
                self.log_out(user_id, |known| known.add_all(issued_until_ms, until_s));
            }
            Revocation::Deleted { user_id, until_s } => self.delete(user_id, until_s),
            Revocation::Banned { user_id } => drop(self.banned.insert(user_id)),
            Revocation::Unbanned { user_id } => drop(self.banned.remove(&user_id)),
        }
    }

    /// Whether the token that these claims come from has been revoked.
    pub fn is_revoked(&self, claims: &Claims) -> bool {
        let user_id = &claims.user_id;
        (!self.banned.is_empty() && self.banned.contains(user_id))
            || (!self.deleted.is_empty() && self.deleted.contains_key(user_id))
            || (!self.logged_out.is_empty()
                && self.logged_out.get(user_id).is_some_and(|known| {
                    known.issued_until_ms.is_some_and(|until_ms| claims.issued_ms() <= until_ms)
                        || known.tokens.iter().any(|token| token.id == claims.token_id)
                }))
    }

    /// Forgets revocations of tokens that have expired by themselves.
    pub fn sweep(&mut self, now: Now) {
        let has_lapsed = |first: Option<&(u64, Uuid)>| {
            first.is_some_and(|&(until_s, _)| until_s <= now.unix_s())
        };
        while has_lapsed(self.lapses.first()) {
            self.forget_log_outs();
        }
        while has_lapsed(self.deleted_lapses.first()) {
            self.forget_deletion();
        }
    }

    /// How many log-outs and deletions are remembered.
    pub fn len(&self) -> usize {
        self.log_outs + self.deleted.len()
    }

    /// Whether nothing is revoked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.banned.is_empty()
    }

    /// How many users are banned.
    pub fn banned_count(&self) -> usize {
        self.banned.len()
    }

    /// How many were forgotten early because of [`LOG_OUTS_MAX`] or [`DELETIONS_MAX`].
    pub fn forgotten_count(&self) -> u64 {
        self.forgotten_count
    }

    fn log_out(&mut self, user_id: Uuid, change: impl FnOnce(&mut LoggedOut)) {
        let known = self.logged_out.entry(user_id).or_default();
        if self.lapses.remove(&(known.until_s, user_id)) {
            self.log_outs -= known.len();
        }
        change(known);
        self.log_outs += known.len();
        self.lapses.insert((known.until_s, user_id));
        while self.log_outs > LOG_OUTS_MAX {
            self.forgotten_count += self.forget_log_outs();
        }
    }

    fn delete(&mut self, user_id: Uuid, until_s: u64) {
        let known = self.deleted.entry(user_id).or_insert(until_s);
        self.deleted_lapses.remove(&(*known, user_id));
        *known = until_s.max(*known);
        self.deleted_lapses.insert((*known, user_id));
        while self.deleted.len() > DELETIONS_MAX {
            self.forget_deletion();
            self.forgotten_count += 1;
        }
    }

    /// Forgets the user whose log-outs lapse first; returns how many they were.
    fn forget_log_outs(&mut self) -> u64 {
        let Some((_, user_id)) = self.lapses.pop_first() else {
            self.log_outs = 0;
            return 0;
        };
        let count = self.logged_out.remove(&user_id).map_or(0, |known| known.len());
        self.log_outs -= count;
        count as u64
    }

    fn forget_deletion(&mut self) {
        if let Some((_, user_id)) = self.deleted_lapses.pop_first() {
            self.deleted.remove(&user_id);
        }
    }
}
