//! The table itself: every name of Nakama's Lua module by area, with what runs it and what a reader
//! must know of it. `docs/lua/functions.md` is made from it.
//!
//! A function that works is a [`built`] row and cannot be written without its signature, its
//! meaning and an example; the example is run by a test of `edge/script`. A name without a feature
//! behind it is a [`missing`] row. What needs a script's own functions is an [`own`] row: each
//! language binds it itself, the table only describes it.

mod accounts;
mod crypto;
mod encode;
mod matches;
mod notifications;
mod register;
mod social;
mod storage;
mod system;
mod wallet;

use super::{Doc, HostFunction, Kind, Run};

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
    Area { title: "Matches, sessions and streams", functions: matches::ROWS },
    Area { title: "Notifications", functions: notifications::ROWS },
    Area { title: "Friends, groups, chat, leaderboards and purchases", functions: social::ROWS },
];

/// A function that works. `signature` has the form
/// `(name: type, name?: type = default) -> name: type`; `meaning` is one or more sentences;
/// `example` is the body of an RPC function, with `context`, `payload` and `nk` in scope.
const fn built(
    name: &'static str,
    run: Run,
    signature: &'static str,
    meaning: &'static str,
    example: &'static str,
) -> HostFunction {
    HostFunction { name, run, kind: Kind::Built(Doc { signature, meaning, example }) }
}

/// A function that each script language binds itself, described as in [`built`]; its example is
/// the text of a module.
const fn own(
    name: &'static str,
    signature: &'static str,
    meaning: &'static str,
    example: &'static str,
) -> HostFunction {
    HostFunction {
        name,
        run: super::missing,
        kind: Kind::Language(Doc { signature, meaning, example }),
    }
}

/// A name of Nakama that throng knows but cannot do yet.
const fn missing(name: &'static str) -> HostFunction {
    HostFunction { name, run: super::missing, kind: Kind::Missing }
}

#[cfg(test)]
mod tests;
