//! `http_request`: what a script asks of another server. Only arguments and results are read here;
//! who may be asked, and how much, is decided where the request is made.
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go`, `httpRequest`.

use std::borrow::Cow;

use bytes::Bytes;

use super::Args;
use super::declare::{Need, Table, ValueType, wrong_answer};
use super::read::{Arg, Read};
use crate::fetch::{FetchAnswer, FetchRequest, Method};
use crate::guest::{Answer, Ask, CommonHost, HostError, Reply};
use crate::value::Value;

/// How long a request may take if the script does not say, milliseconds.
pub(super) const TIMEOUT_MS: i64 = 5_000;

/// Bytes that a header costs a script's VM beside its texts.
const HEADER_BYTES: usize = 64;

/// The name of a method, in any case.
#[derive(Clone, Copy)]
pub(super) struct MethodName;

/// The name of a method.
pub(super) const fn method() -> Arg<MethodName> {
    Arg::new(ValueType::String, MethodName)
}

impl Read for MethodName {
    type Value<'a> = Method;

    fn read(&self, args: &Args<'_>, index: usize) -> Result<Method, HostError> {
        let name = args.text(index)?;
        Method::parse(&name).ok_or_else(|| {
            let methods = "'get', 'post', 'put', 'patch', 'delete', 'head'";
            args.wrong(index, &format!("expects method to be one of: {methods}"))
        })
    }
}

/// Names of headers and their values.
#[derive(Clone, Copy)]
pub(super) struct Headers;

/// Names of headers and their values; nil is none.
pub(super) const fn headers() -> Arg<Headers> {
    Arg::new(ValueType::Table, Headers).when_nil(Need::OrEmpty)
}

impl Read for Headers {
    type Value<'a> = Vec<(Bytes, Bytes)>;

    fn read<'a>(&self, args: &Args<'a>, index: usize) -> Result<Self::Value<'a>, HostError> {
        let members = match args.value(index) {
            Value::Nil => return Ok(Vec::new()),
            Value::Map(members) => members,
            Value::List(items) if items.is_empty() => return Ok(Vec::new()),
            Value::List(_) => return Err(args.wrong(index, "expects names and values of headers")),
            _ => return Err(args.mismatch(index, "table")),
        };
        let header = |(name, value): &(Bytes, Value)| match value {
            Value::Bytes(value) => Ok((name.clone(), value.clone())),
            _ => Err(HostError::new("HTTP header values must be strings")),
        };
        members.iter().map(header).collect()
    }
}

/// The request as a script wrote it.
pub(super) struct Wanted<'a> {
    pub(super) url: Cow<'a, str>,
    pub(super) method: Method,
    pub(super) headers: Vec<(Bytes, Bytes)>,
    pub(super) content: Option<Cow<'a, [u8]>>,
    pub(super) timeout_ms: i64,
    pub(super) is_insecure: bool,
}

/// What it asks.
pub(super) fn request(wanted: Wanted<'_>) -> Ask {
    // As in Nakama, where no time at all is the time that is usual.
    let timeout_ms = if wanted.timeout_ms <= 0 { TIMEOUT_MS } else { wanted.timeout_ms };
    Ask::Fetch(Box::new(FetchRequest {
        url: wanted.url.into_owned(),
        method: wanted.method,
        headers: wanted.headers,
        body: wanted.content.map_or_else(Bytes::new, |content| content.into_owned().into()),
        timeout_ms: timeout_ms.unsigned_abs(),
        is_insecure: wanted.is_insecure,
    }))
}

/// Code, headers and content of the answer.
pub(super) fn answered(
    _: &mut dyn CommonHost,
    args: &Args<'_>,
    answer: Answer,
) -> Result<(i64, Table, Bytes), HostError> {
    let answer = answer.map_err(|error| HostError::new(format!("HTTP request error: {error}")))?;
    let Reply::Fetched(answer) = answer else { return Err(wrong_answer()) };
    let FetchAnswer { code, headers, body } = *answer;
    let texts = |(name, value): &(String, Bytes)| name.len() + value.len() + HEADER_BYTES;
    args.produce(headers.iter().map(texts).sum::<usize>() + body.len())?;
    let member = |(name, value): (String, Bytes)| (Bytes::from(name), Value::Bytes(value));
    let headers = Value::Map(headers.into_iter().map(member).collect());
    Ok((i64::from(code), Table(headers), body))
}
