//! `event` for scripts.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::Args;
use super::read::Strings;
use crate::guest::HostError;

/// The properties of an event.
pub(super) const PROPERTIES: Strings<BTreeMap<String, String>> = Strings {
    not_table: "table expected",
    not_key: "properties keys must be strings",
    not_value: "properties values must be strings",
    most: (usize::MAX, ""),
    collection: PhantomData,
};

/// When an event has happened, unix seconds, as the third argument says; `None` is now.
pub(super) fn timestamp(args: &Args<'_>, unix_s: Option<i64>) -> Result<Option<i64>, HostError> {
    match unix_s {
        Some(0) => Err(args.wrong(2, "timestamp must be numeric UTC seconds when provided")),
        // What Nakama takes for a time that was not given.
        None | Some(-1) => Ok(None),
        Some(unix_s) => Ok(Some(unix_s)),
    }
}
