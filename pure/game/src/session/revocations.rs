//! Which tokens are no longer good although their time is not over: those of a logout, of a ban,
//! of a deleted account. One replica a thread, fed by the same [`Revocation`]s through mail; kept
//! in memory only, as the original does.

use std::collections::{BTreeMap, BTreeSet};

use event::Now;
use uuid::Uuid;

use super::Claims;

/// Most revocations kept at a time, some 100 bytes each. When more come, the one that would lapse
/// first is forgotten and counted: its tokens have the least time left.
pub const REVOCATIONS_MAX: usize = 1 << 18;

/// Tokens that are no longer good. Small: it is mailed to every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The tokens with this id.
    Token {
        /// `tid`.
        token_id: Uuid,
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
}

/// The revocations that a thread knows.
#[derive(Debug, Default)]
pub struct Revocations {
    tokens: BTreeMap<Uuid, u64>,
    users: BTreeMap<Uuid, (u64, u64)>,
    /// Both maps' keys by the time at which they lapse.
    lapses: BTreeSet<(u64, Kind, Uuid)>,
    forgotten_count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Token,
    User,
}

impl Revocations {
    /// Remembers a revocation; forgets those that have lapsed. Repeats change nothing, and the
    /// order in which revocations arrive does not matter.
    pub fn apply(&mut self, now: Now, revocation: &Revocation) {
        self.sweep(now);
        match *revocation {
            Revocation::Token { token_id, until_s } => {
                let known = self.tokens.entry(token_id).or_insert(until_s);
                self.lapses.remove(&(*known, Kind::Token, token_id));
                *known = until_s.max(*known);
                self.lapses.insert((*known, Kind::Token, token_id));
            }
            Revocation::User { user_id, issued_until_ms, until_s } => {
                let known = self.users.entry(user_id).or_insert((issued_until_ms, until_s));
                self.lapses.remove(&(known.1, Kind::User, user_id));
                *known = (issued_until_ms.max(known.0), until_s.max(known.1));
                self.lapses.insert((known.1, Kind::User, user_id));
            }
        }
        while self.lapses.len() > REVOCATIONS_MAX {
            self.forget_first();
            self.forgotten_count += 1;
        }
    }

    /// Whether the token that these claims come from has been revoked.
    pub fn is_revoked(&self, claims: &Claims) -> bool {
        let token = !self.tokens.is_empty() && self.tokens.contains_key(&claims.token_id);
        token
            || (!self.users.is_empty()
                && self
                    .users
                    .get(&claims.user_id)
                    .is_some_and(|&(issued_until_ms, _)| claims.issued_ms() <= issued_until_ms))
    }

    /// Forgets revocations of tokens that have expired by themselves.
    pub fn sweep(&mut self, now: Now) {
        while self.lapses.first().is_some_and(|&(until_s, _, _)| until_s <= now.unix_s()) {
            self.forget_first();
        }
    }

    /// How many revocations are remembered.
    pub fn len(&self) -> usize {
        self.lapses.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.lapses.is_empty()
    }

    /// How many were forgotten early because of [`REVOCATIONS_MAX`].
    pub fn forgotten_count(&self) -> u64 {
        self.forgotten_count
    }

    fn forget_first(&mut self) {
        match self.lapses.pop_first() {
            Some((_, Kind::Token, id)) => drop(self.tokens.remove(&id)),
            Some((_, Kind::User, id)) => drop(self.users.remove(&id)),
            None => {}
        }
    }
}
