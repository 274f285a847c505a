//! A moment in a message: two integers in protobuf, RFC 3339 text in JSON.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::field::Field;
use super::json::Style;
use super::message::FieldType;
use crate::date;
use crate::excerpt::excerpt;

/// A moment in UTC. Source: google.protobuf.Timestamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z, within years 1–9999.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds on top, 0–999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// A whole second.
    #[must_use]
    pub const fn from_unix_s(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// The second that a moment in unix milliseconds is in: Nakama's answers have whole ones.
    #[must_use]
    pub const fn from_unix_ms(unix_ms: i64) -> Self {
        Self::from_unix_s(unix_ms.div_euclid(1_000))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(30);
        date::write_rfc3339(&mut text, self.seconds, u32::try_from(self.nanos).unwrap_or(0));
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TimestampVisitor)
    }
}

impl Field for Timestamp {
    const KIND: FieldType = FieldType::Time;

    fn is_unset(&self) -> bool {
        false // Always within an `Option`, which decides.
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        out.push(b'"');
        date::write_rfc3339(out, self.seconds, u32::try_from(self.nanos).unwrap_or(0));
        out.push(b'"');
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

struct TimestampVisitor;

impl Visitor<'_> for TimestampVisitor {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a moment as in 2026-01-02T03:04:05Z")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let (seconds, nanos) = date::parse_rfc3339(text)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(excerpt(text)), &self))?;
        Ok(Timestamp { seconds, nanos: i32::try_from(nanos).unwrap_or(0) })
    }
}
