//! What guest code may call: one table of functions, which every script language binds as it
//! stands. The names are Nakama's Lua names (snake_case); a language with other customs derives its
//! own from them. Each row carries what a reader must know, so that the reference is made from it.
//!
//! Arguments and results are [`Value`]s. Each function is one row of the table (`table`), which says
//! how they are read and made; the bindings, `throng check` and the reference follow from it
//! (`declare`). What is not here: anything that needs a script's own functions (registrations,
//! `storage_write_retry`), which each language does for itself, and the conversion of values.
//!
//! To add a function: its Rust function in the chapter it belongs to, its row, and its tests; then
//! `cargo xtask docs`.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`, for names, arguments and error texts.

mod accounts;
mod args;
mod cron;
mod crypto;
mod declare;
mod encode;
mod events;
mod friends;
mod http;
pub mod json;
mod machine;
mod matches;
mod meter;
mod notifications;
mod read;
mod rsa;
mod sql;
mod storage;
mod streams;
mod system;
mod table;
mod wallet;

use smallvec::SmallVec;

pub use args::Args;
pub use declare::{Argument, Doc, Need, ReturnValue, ValueType};
pub use meter::{Meter, Remaining, Unmetered};
pub use table::{AREAS, Area};

use crate::guest::{Answer, Ask, CommonHost, Host, HostError, Reply};
use crate::value::Value;

/// What a host function returns, nearly always one value.
pub type Returns = SmallVec<[Value; 2]>;

/// What a call of a host function comes to.
pub type RunResult = Result<Returns, HostError>;

/// The code of a host function. Only a row that is marked with it is handed the database.
#[derive(Clone, Copy)]
enum Code {
    Common(fn(&mut dyn CommonHost, &Args<'_>) -> RunResult),
    Database(fn(&mut dyn Host, &Args<'_>) -> RunResult),
    /// It waits for somebody else: what it asks, and what it makes of the answer.
    Asks {
        ask: fn(&mut dyn CommonHost, &Args<'_>) -> Result<Ask, HostError>,
        answered: fn(&mut dyn CommonHost, &Args<'_>, Answer) -> RunResult,
    },
}

/// How far a call of a host function has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Ran {
    /// It is over.
    Returned(Returns),
    /// It waits for this; [`HostFunction::answered`] ends it.
    Waits(Ask),
}

/// What a host function waits for, and so where it can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLane {
    /// For nothing that another thread has: it runs where it is called.
    Here,
    /// For nothing either; but it changes what all threads have, which nobody takes back.
    Shared,
    /// For queries of the database; nothing is changed.
    Read,
    /// For changes of the database.
    Write,
    /// For a password's hash, which takes long on purpose. It may use the database.
    Hash,
    /// For what may take long: a statement that the script wrote.
    Slow,
    /// For the room that another match or a stream lives on.
    Room,
    /// For a server somewhere else.
    Network,
}

impl HostLane {
    /// Whether another thread can run such a function as a whole ([`Ask::Run`]), for a thread that is not
    /// to be kept by it: a match's room, or a core.
    #[must_use]
    pub fn can_run_elsewhere(self) -> bool {
        match self {
            Self::Read | Self::Write | Self::Slow | Self::Hash => true,
            Self::Here | Self::Shared | Self::Room | Self::Network => false,
        }
    }
}

/// One function that scripts may call.
#[derive(Clone, Copy)]
pub struct HostFunction {
    /// Its Lua name, unique.
    pub name: &'static str,
    /// What it does.
    code: Code,
    /// What it waits for.
    pub lane: HostLane,
    /// Whether it works, and what a reader must know of it.
    pub kind: FunctionKind,
    /// Which of its arguments may be nil, by reading these, all of which are.
    #[cfg(test)]
    takes_nil: fn(&Args<'_>) -> Vec<bool>,
}

/// Whether a function works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// It does what it says.
    Built(Doc),
    /// Each script language binds it itself; running it only says that this was forgotten.
    Language(Doc),
    /// Nakama has it, throng does not yet: calling it is an error.
    Missing,
}

impl std::fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl HostFunction {
    /// Whether it may wait.
    #[must_use]
    pub fn asks(&self) -> bool {
        matches!(self.code, Code::Asks { .. })
    }

    /// Runs it until it is over or waits.
    ///
    /// # Errors
    /// [`HostError`]: the script's mistake, a limit, or the database's failure.
    pub fn begin(&self, host: &mut dyn Host, args: &Args<'_>) -> Result<Ran, HostError> {
        host.begins(self, args)?;
        match self.code {
            Code::Common(run) => run(host, args).map(Ran::Returned),
            Code::Database(run) => run(host, args).map(Ran::Returned),
            Code::Asks { ask, .. } => ask(host, args).map(Ran::Waits),
        }
    }

    /// Ends it when what it waited for has come. The arguments are gone by then: of [`Args`] there is
    /// the function's name, and the meter.
    ///
    /// # Errors
    /// [`HostError`]: it was refused, or the result is too large.
    pub fn answered(
        &self,
        host: &mut dyn CommonHost,
        args: &Args<'_>,
        answer: Answer,
    ) -> RunResult {
        match (self.code, answer) {
            (Code::Asks { answered, .. }, answer) => answered(host, args, answer),
            // As a whole it ran elsewhere.
            (Code::Common(_) | Code::Database(_), Ok(Reply::Returns { returns, steps })) => {
                args.meter.spend(u32::try_from(steps).unwrap_or(u32::MAX))?;
                Ok(returns)
            }
            (Code::Common(_) | Code::Database(_), Err(error)) => Err(error),
            (Code::Common(_) | Code::Database(_), Ok(_)) => Err(declare::wrong_answer()),
        }
    }

    /// Runs it to its end, and keeps the thread while it waits.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`Self::answered`].
    pub fn run(&self, host: &mut dyn Host, args: &Args<'_>) -> RunResult {
        match self.begin(host, args)? {
            Ran::Returned(returns) => Ok(returns),
            Ran::Waits(ask) => {
                let answer = host.ask(ask);
                self.answered(host, args, answer)
            }
        }
    }

    /// Arguments, results, meaning and example; `None` if it does not work yet.
    #[must_use]
    pub fn doc(&self) -> Option<&Doc> {
        match &self.kind {
            FunctionKind::Built(doc) | FunctionKind::Language(doc) => Some(doc),
            FunctionKind::Missing => None,
        }
    }

    /// Its arguments in order; none if it does not work yet.
    #[must_use]
    pub fn arguments(&self) -> &'static [Argument] {
        self.doc().map_or(&[], |doc| doc.arguments)
    }
}

/// Every function, area by area.
pub fn functions() -> impl Iterator<Item = &'static HostFunction> {
    AREAS.iter().flat_map(|area| area.functions)
}

/// The function `name`; `None` for a name that Nakama does not know either.
#[must_use]
pub fn find(name: &str) -> Option<&'static HostFunction> {
    AREAS.iter().find_map(|area| {
        let index = area.functions.binary_search_by(|function| function.name.cmp(name)).ok()?;
        area.functions.get(index)
    })
}

/// Names of Nakama that throng knows but cannot do yet: calling one is an error that says so.
fn missing(_: &mut dyn CommonHost, args: &Args<'_>) -> RunResult {
    Err(HostError::new(format!("nk.{} is not implemented in throng yet", args.function)))
}
