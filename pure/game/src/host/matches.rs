//! `match_create`, `match_signal` and what scripts may read of the directory of matches.

use bytes::Bytes;

use super::{Args, Returns, one};
use crate::guest::{Host, HostError};
use crate::value::Value;

pub(super) fn match_create(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let module = args.filled_text(0, "expects module name")?;
    let params = args.any(1)?;
    if !matches!(params, Value::Nil | Value::Map(_)) {
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
