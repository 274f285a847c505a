//! `match_create`, `match_signal` and what scripts may read of the directory of matches.

use std::borrow::Cow;
use std::marker::PhantomData;

use bytes::Bytes;

use super::Args;
use super::accounts::member;
use super::declare::{Table, ValueType, wrong_answer};
use super::read::{Arg, Read};
use crate::directory::{Directory, ListFilter, Listed};
use crate::guest::{Answer, Ask, CommonHost, HostError, Reply};
use crate::match_id::{MatchId, MatchIdError};
use crate::node::Nodes;
use crate::value::Value;

/// What a match is told when it begins; nil is nothing.
#[derive(Clone, Copy)]
pub(super) struct Params;

/// What a match is told when it begins.
pub(super) const fn params() -> Arg<Params> {
    let mixed = "expects params to be nil or a table of key-value pairs, not one with both numbers \
                 and names for keys";
    Arg::new(ValueType::Table, Params).or_nil().unmixed(mixed)
}

impl Read for Params {
    type Value<'a> = &'a Value;

    fn read<'a>(&self, args: &Args<'a>, index: usize) -> Result<&'a Value, HostError> {
        match args.value(index) {
            value @ (Value::Nil | Value::Map(_) | Value::List(_)) => Ok(value),
            _ => Err(args.wrong(index, "expects params to be nil or a table of key-value pairs")),
        }
    }
}

/// A match of this module.
pub(super) fn create(module: Cow<'_, str>, params: &Value) -> Ask {
    Ask::MatchCreate { module: module.into_owned(), params: params.clone() }
}

/// Its id.
pub(super) fn created(
    _: &mut dyn CommonHost,
    _: &Args<'_>,
    answer: Answer,
) -> Result<String, HostError> {
    let id = text_of(answer);
    let id = id.map_err(|error| HostError::new(format!("error creating match: {error}")))?;
    Ok(String::from_utf8_lossy(&id).into_owned())
}

/// What a match says to this.
pub(super) fn signal(match_id: Cow<'_, str>, data: Option<Cow<'_, [u8]>>) -> Ask {
    let data = data.map_or_else(Bytes::new, |data| data.into_owned().into());
    Ask::MatchSignal { match_id: match_id.into_owned(), data }
}

/// What it says.
pub(super) fn signalled(
    _: &mut dyn CommonHost,
    _: &Args<'_>,
    answer: Answer,
) -> Result<Bytes, HostError> {
    text_of(answer).map_err(|error| HostError::new(format!("failed to signal match: {error}")))
}

fn text_of(answer: Answer) -> Result<Bytes, HostError> {
    match answer? {
        Reply::Text(text) => Ok(text),
        Reply::Stream(_) | Reply::Fetched(_) | Reply::Returns { .. } => Err(wrong_answer()),
    }
}

pub(super) fn get(directory: &Directory, match_id: &str) -> Result<Option<Table>, HostError> {
    match MatchId::parse(match_id, directory.nodes()) {
        Ok(id) => {
            let found = directory.find(&id);
            Ok(found.map(|listed| Table(listed_value(listed, directory.nodes()))))
        }
        Err(MatchIdError::OtherNode) => Ok(None),
        Err(error) => Err(HostError::new(format!("failed to get match: {error}"))),
    }
}

/// A condition of `match_list`, which does not count if it is nil: a boolean, a text (and no number
/// in its place) or a size. The text is the refusal of anything else.
#[derive(Clone, Copy)]
pub(super) struct Condition<T>(&'static str, PhantomData<T>);

const fn condition<T: Copy>(value_type: ValueType, wrong: &'static str) -> Arg<Condition<T>> {
    Arg::new(value_type, Condition(wrong, PhantomData)).or_nil()
}

pub(super) const fn flag(wrong: &'static str) -> Arg<Condition<bool>> {
    condition(ValueType::Boolean, wrong)
}

pub(super) const fn text(wrong: &'static str) -> Arg<Condition<&'static str>> {
    condition(ValueType::String, wrong)
}

pub(super) const fn size(wrong: &'static str) -> Arg<Condition<i32>> {
    condition(ValueType::Number, wrong)
}

impl Read for Condition<bool> {
    type Value<'a> = Option<bool>;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<Option<bool>, HostError> {
        match args.value(index) {
            Value::Nil => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            _ => Err(args.wrong(index, self.0)),
        }
    }
}

impl Read for Condition<&'static str> {
    type Value<'a> = Option<String>;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<Option<String>, HostError> {
        let value = args.value(index);
        match (value, value.as_str()) {
            (Value::Nil, _) => Ok(None),
            (_, Some(text)) => Ok(Some(text.to_owned())),
            (_, None) => Err(args.wrong(index, self.0)),
        }
    }
}

impl Read for Condition<i32> {
    type Value<'a> = Option<i32>;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<Option<i32>, HostError> {
        match args.value(index) {
            Value::Nil => Ok(None),
            Value::Int(_) | Value::Float(_) => {
                Ok(Some(i32::try_from(args.int(index)?).unwrap_or(i32::MAX)))
            }
            _ => Err(args.wrong(index, self.0)),
        }
    }
}

/// How many matches are wanted.
pub(super) fn limit(limit: i64) -> Result<u32, HostError> {
    u32::try_from(limit)
        .map_err(|_| HostError::new("failed to list matches: limit must not be negative"))
}

/// Arguments that are not passed are nil; Nakama wants all six, nil or not.
pub(super) fn list(directory: &Directory, filter: &ListFilter) -> Result<Vec<Value>, HostError> {
    let found = directory
        .list(filter)
        .map_err(|error| HostError::new(format!("failed to list matches: {error}")))?;
    Ok(found.iter().map(|listed| listed_value(listed, directory.nodes())).collect())
}

fn listed_value(listed: &Listed, nodes: &Nodes) -> Value {
    let mut members = vec![
        member("match_id", Value::text(listed.id.text(nodes))),
        member("authoritative", Value::Bool(listed.id.is_authoritative())),
        member("size", Value::Int(i64::from(listed.size))),
    ];
    if let Some(label) = listed.label() {
        members.push(member("label", Value::text(label)));
    }
    if listed.info.tick_rate_hz > 0 {
        members.push(member("tick_rate", Value::Int(i64::from(listed.info.tick_rate_hz))));
    }
    if !listed.info.handler_name.is_empty() {
        members.push(member("handler_name", Value::text(&*listed.info.handler_name)));
    }
    Value::Map(members)
}
