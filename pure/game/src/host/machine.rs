//! `metrics_*`, `file_read` and `get_config`: what scripts may have of the machine, by way of
//! [`Machine`](crate::guest::Machine).
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go` and `server/metrics.go`.

use super::{Args, Returns, none, one};
use crate::guest::{Host, HostError, Metric, MetricKind};
use crate::value::Value;

/// Bytes of a metric's name, of a tag's name and of a tag's value; more are an error.
const NAME_BYTES_MAX: usize = 128;

/// Tags of one metric; more are an error.
const TAGS_MAX: usize = 16;

const NS_PER_S: f64 = 1e9;

pub(super) fn metrics_counter_add(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let delta = number(args)?.trunc();
    record(host, args, MetricKind::Counter, delta)
}

pub(super) fn metrics_gauge_set(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let value = number(args)?;
    record(host, args, MetricKind::Gauge, value)
}

/// The value is in nanoseconds, as Go's durations are.
pub(super) fn metrics_timer_record(
    host: &mut dyn Host,
    args: &Args<'_>,
) -> Result<Returns, HostError> {
    let value = number(args)? / NS_PER_S;
    record(host, args, MetricKind::Timer, value)
}

#[expect(clippy::cast_precision_loss, reason = "a script's numbers are doubles")]
fn number(args: &Args<'_>) -> Result<f64, HostError> {
    match args.value(2) {
        Value::Float(number) => Ok(*number),
        _ => Ok(args.int(2)? as f64),
    }
}

fn record(
    host: &mut dyn Host,
    args: &Args<'_>,
    kind: MetricKind,
    value: f64,
) -> Result<Returns, HostError> {
    let name = args.filled_text(0, "expects a name")?;
    let tags = tags(args)?;
    let is_short = |text: &str| text.len() <= NAME_BYTES_MAX;
    if !is_short(&name) || !tags.iter().all(|(name, value)| is_short(name) && is_short(value)) {
        return Err(HostError::new(format!(
            "a metric's name, tags and their values have at most {NAME_BYTES_MAX} bytes each"
        )));
    }
    let now = host.now();
    host.machine().record(now, &Metric { kind, name: &name, tags: &tags, value });
    none()
}

fn tags(args: &Args<'_>) -> Result<Vec<(String, String)>, HostError> {
    let members = match args.value(1) {
        Value::Nil => return Ok(Vec::new()),
        Value::Map(members) => members,
        Value::List(items) if items.is_empty() => return Ok(Vec::new()),
        _ => return Err(args.wrong(1, "expects a table of tags")),
    };
    if members.len() > TAGS_MAX {
        return Err(args.wrong(1, &format!("at most {TAGS_MAX} tags")));
    }
    let tag = |(name, value): &(bytes::Bytes, Value)| {
        let name = std::str::from_utf8(name).ok()?.to_owned();
        Some((name, value.as_str()?.to_owned()))
    };
    let tags: Option<Vec<_>> = members.iter().map(tag).collect();
    tags.ok_or_else(|| args.wrong(1, "expects tags to be strings"))
}

pub(super) fn file_read(host: &mut dyn Host, args: &Args<'_>) -> Result<Returns, HostError> {
    let path = args.filled_text(0, "expects relative path string")?;
    one(Value::Bytes(host.machine().file_read(&path, args.meter)?))
}

pub(super) fn get_config(host: &mut dyn Host, _: &Args<'_>) -> Result<Returns, HostError> {
    one(host.machine().config())
}
