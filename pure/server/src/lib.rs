//! What one thread does: the core with its connections and sessions, the room with its realtime
//! groups, the worker with the database and the scripts. Start reading at [`mail`].
//!
//! What is deliberately not here: sockets, files, threads (the engine and the store own those) and
//! the rules of accounts and matches (`game`). Inputs come from the engine, outputs go back to it.

#![forbid(unsafe_code)]

pub mod core;
pub mod desk;
pub mod echo;
mod fair;
mod frames;
pub mod hooks;
mod kept;
pub mod limit_log;
pub mod limits;
pub mod lister;
pub mod mail;
pub mod room;
pub mod settings;
pub mod stats;
pub mod worker;

use event::Now;
use game::guest::HostSettings;
use game::session::Revocation;
use uuid::Uuid;

/// What a script's `session_logout` revokes: one login, or all of the user's up to now.
fn revocation(now: Now, host: &HostSettings, user_id: Uuid, token_id: Option<Uuid>) -> Revocation {
    let lifetime_s = host.session.token_expiry_s.max(host.session.refresh_token_expiry_s);
    let until_s = now.unix_s().saturating_add(lifetime_s);
    match token_id {
        Some(token_id) => Revocation::Token { token_id, until_s },
        None => Revocation::User { user_id, issued_until_ms: now.unix_ms, until_s },
    }
}
