//! `match_create`, `match_signal` and what scripts may read of the directory of matches.

use bytes::Bytes;

use super::accounts::member;
use super::{Args, Returns, one};
use crate::directory::{ListFilter, Listed};
use crate::guest::{Host, HostError};
use crate::match_id::{MatchId, MatchIdError};
use crate::value::Value;

pub(super) fn match_create(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let module = args.filled_text(0, "expects module name")?;
    let params = args.value(1);
    if !matches!(params, Value::Nil | Value::Map(_) | Value::List(_)) {
        return Err(args.wrong(1, "expects params to be nil or a table of key-value pairs"));
    }
    let id = host
        .match_create(&module, params.clone())
        .map_err(|error| HostError::new(format!("error creating match: {error}")))?;
    one(Value::text(id))
}

pub(super) fn match_signal(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let id = args.text(0)?;
    let data = if args.is_nil(1) { Bytes::new() } else { args.bytes(1)?.into_owned().into() };
    let answer = host
        .match_signal(&id, data)
        .map_err(|error| HostError::new(format!("failed to signal match: {error}")))?;
    one(Value::Bytes(answer))
}

pub(super) fn match_get(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let text = args.text(0)?;
    let directory = host.directory();
    match MatchId::parse(&text, directory.node()) {
        Ok(id) => {
            let found = directory.find(&id);
            one(found.map_or(Value::Nil, |listed| listed_value(listed, directory.node())))
        }
        Err(MatchIdError::OtherNode) => one(Value::Nil),
        Err(error) => Err(HostError::new(format!("failed to get match: {error}"))),
    }
}

/// Arguments that are not passed are nil; Nakama wants all six, nil or not.
pub(super) fn match_list(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let limit = u32::try_from(args.int_or(0, 1)?)
        .map_err(|_| HostError::new("failed to list matches: limit must not be negative"))?;
    let authoritative = match args.value(1) {
        Value::Nil => None,
        Value::Bool(flag) => Some(*flag),
        _ => return Err(args.wrong(1, "expects authoritative true/false or nil")),
    };
    let text = |index: usize, what: &str| match args.value(index) {
        Value::Nil => Ok(None),
        value => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(args.wrong(index, what)),
        },
    };
    let size = |index: usize, what: &str| match args.value(index) {
        Value::Nil => Ok(None),
        Value::Int(_) | Value::Float(_) => {
            let size = i32::try_from(args.int(index)?);
            Ok(Some(size.unwrap_or(i32::MAX)))
        }
        _ => Err(args.wrong(index, what)),
    };
    let filter = ListFilter {
        limit,
        authoritative,
        label: text(2, "expects label string or nil")?,
        min_size: size(3, "expects minimum size number or nil")?,
        max_size: size(4, "expects maximum size number or nil")?,
        query: text(5, "expects query string or nil")?,
    };
    let directory = host.directory();
    let found = directory
        .list(&filter)
        .map_err(|error| HostError::new(format!("failed to list matches: {error}")))?;
    one(Value::List(found.iter().map(|listed| listed_value(listed, directory.node())).collect()))
}

fn listed_value(listed: &Listed, node: &str) -> Value {
    let mut members = vec![
        member("match_id", Value::text(listed.id.text(node))),
        member("authoritative", Value::Bool(listed.id.authoritative)),
        member("size", Value::Int(i64::from(listed.size))),
    ];
    if let Some(label) = &listed.label {
        members.push(member("label", Value::text(&**label)));
    }
    if listed.tick_rate_hz > 0 {
        members.push(member("tick_rate", Value::Int(i64::from(listed.tick_rate_hz))));
    }
    if !listed.handler_name.is_empty() {
        members.push(member("handler_name", Value::text(&*listed.handler_name)));
    }
    Value::Map(members)
}
