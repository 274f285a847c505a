//! What guest code may call: one table of functions, which every script language binds as it
//! stands. The names are the original's Lua names (snake_case); a language with other customs
//! derives its own from them.
//!
//! Arguments and results are [`Value`]s. What is not here: anything that needs a script's own
//! functions (registrations, `storage_write_retry`), which each language does for itself, and the
//! conversion of values.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`, for names, arguments and error texts.

mod accounts;
mod args;
mod cron;
mod crypto;
mod encode;
pub mod json;
mod matches;
mod sql;
mod storage;
mod system;
mod table;

use smallvec::SmallVec;

pub use args::Args;
pub use table::HOST_TABLE;

use crate::guest::{Host, HostError};
use crate::value::Value;

/// What a host function returns, nearly always one value.
pub type Returns = SmallVec<[Value; 2]>;

/// The code of a host function.
pub type Run = fn(&mut dyn Host, &Args<'_>) -> Result<Returns, HostError>;

/// One function that scripts may call.
#[derive(Clone, Copy)]
pub struct HostFunction {
    /// Its Lua name, unique; the table is sorted by it.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
}

impl std::fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The function `name`; `None` for a name that the original does not know either.
pub fn find(name: &str) -> Option<&'static HostFunction> {
    let index = HOST_TABLE.binary_search_by(|function| function.name.cmp(name)).ok()?;
    HOST_TABLE.get(index)
}

/// Names of the original that throng knows but cannot do yet: calling one is an error that says so.
fn missing(_: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    Err(HostError::new(format!("nk.{} is not implemented in throng yet", args.function)))
}

/// One value as the result.
fn one(value: Value) -> Result<Returns, HostError> {
    let mut returns = Returns::new();
    returns.push(value);
    Ok(returns)
}

/// No result.
fn none() -> Result<Returns, HostError> {
    Ok(Returns::new())
}

#[cfg(test)]
mod tests {
    use super::{HOST_TABLE, find};

    #[test]
    fn the_table_is_sorted_and_every_name_is_found() {
        for pair in HOST_TABLE.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for function in HOST_TABLE {
            assert_eq!(find(function.name).unwrap().name, function.name);
        }
        assert!(find("no_such_function").is_none());
    }
}
