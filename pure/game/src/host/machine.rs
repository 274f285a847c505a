//! `metrics_*`: numbers that scripts let the server's metrics show, by way of
//! [`Machine`](crate::guest::Machine).
//!
//! Source: nakama 3.40, `server/runtime_lua_nakama.go` and `server/metrics.go`.

use std::marker::PhantomData;

use super::read::Strings;
use crate::guest::{CommonHost, HostError, Metric, MetricKind};

/// Bytes of a metric's name, of a tag's name and of a tag's value; more are an error.
const NAME_BYTES_MAX: usize = 128;

/// Nanoseconds, in which scripts measure as Go's durations do.
pub(super) const NS_PER_S: f64 = 1e9;

/// Tags of one metric; more are an error.
const TAGS_MAX: usize = 16;

/// Names and values of a metric's tags.
pub(super) const TAGS: Strings<Vec<(String, String)>> = Strings {
    not_table: "expects a table of tags",
    not_key: "expects tags to be strings",
    not_value: "expects tags to be strings",
    most: (TAGS_MAX, "at most 16 tags"),
    collection: PhantomData,
};

/// Takes a value of a metric; seconds for a timer.
pub(super) fn record(
    host: &mut dyn CommonHost,
    kind: MetricKind,
    name: &str,
    tags: &[(String, String)],
    value: f64,
) -> Result<(), HostError> {
    let is_short = |text: &str| text.len() <= NAME_BYTES_MAX;
    if !is_short(name) || !tags.iter().all(|(name, value)| is_short(name) && is_short(value)) {
        return Err(HostError::new(format!(
            "a metric's name, tags and their values have at most {NAME_BYTES_MAX} bytes each"
        )));
    }
    let now = host.now();
    host.machine().record(now, &Metric { kind, name, tags, value });
    Ok(())
}
