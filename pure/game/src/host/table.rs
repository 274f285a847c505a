//! The table itself: every name of Nakama's Lua module by area, with what runs it and what a reader
//! must know of it. `docs/lua/functions.md` is made from it.
//!
//! A row says all that there is to know of a function: see `declare`. A function that works cannot be
//! written without its arguments and results, its meaning and an example; the example is run by a
//! test of `edge/script`.

mod accounts;
mod crypto;
mod encode;
mod matches;
mod notifications;
mod register;
mod social;
mod storage;
mod streams;
mod system;
mod wallet;

use super::HostFunction;

/// A chapter of the table. Its functions are sorted by name.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The title of the chapter.
    pub title: &'static str,
    /// Its functions, sorted by name; a name stands in one area only.
    pub functions: &'static [HostFunction],
}

/// All that guest code may call. Names without a feature behind them yet are there too, and say so
/// when they are called.
pub const AREAS: &[Area] = &[
    Area { title: "Registration", functions: register::ROWS },
    Area { title: "Logs, time, cache and SQL", functions: system::ROWS },
    Area { title: "Encoding and ids", functions: encode::ROWS },
    Area { title: "Hashes, ciphers and tokens", functions: crypto::ROWS },
    Area { title: "Accounts and users", functions: accounts::ROWS },
    Area { title: "Wallet", functions: wallet::ROWS },
    Area { title: "Storage", functions: storage::ROWS },
    Area { title: "Matches, sessions and status", functions: matches::ROWS },
    Area { title: "Streams", functions: streams::ROWS },
    Area { title: "Notifications", functions: notifications::ROWS },
    Area { title: "Friends, groups, chat, leaderboards and purchases", functions: social::ROWS },
];

#[cfg(test)]
mod tests;
