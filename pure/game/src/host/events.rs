//! `event` for scripts.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`.

use std::collections::BTreeMap;

use super::{Args, Returns, none};
use crate::events::Event;
use crate::guest::{Host, HostError};
use crate::value::Value;

pub(super) fn event(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let name = args.filled_text(0, "expects name string")?.into_owned();
    let properties = match args.value(1) {
        Value::Nil => BTreeMap::new(),
        Value::List(items) if items.is_empty() => BTreeMap::new(),
        Value::List(_) => return Err(args.wrong(1, "properties keys must be strings")),
        Value::Map(members) => {
            let member = |(name, value): &(bytes::Bytes, Value)| {
                let name = std::str::from_utf8(name)
                    .map_err(|_| args.wrong(1, "properties keys must be strings"))?;
                let value = value
                    .as_str()
                    .ok_or_else(|| args.wrong(1, "properties values must be strings"))?;
                Ok::<_, HostError>((name.to_owned(), value.to_owned()))
            };
            members.iter().map(member).collect::<Result<_, _>>()?
        }
        _ => return Err(args.wrong(1, "table expected")),
    };
    let timestamp_s = match args.int_or(2, -1)? {
        0 => return Err(args.wrong(2, "timestamp must be numeric UTC seconds when provided")),
        -1 => None,
        seconds => Some(seconds),
    };
    let is_external = args.bool_or(3, false)?;
    host.event(Event { name, properties, timestamp_s, is_external });
    none()
}
