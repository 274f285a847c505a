//! A value on its way between guest code and the host, the same for every script language.
//!
//! Lua strings are bytes, so text travels as [`Value::Bytes`]. No functions, no references into a
//! script's memory: a `Value` can be sent to another thread, and to another node.

mod flat;

use bytes::Bytes;

/// Plain data of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Lua nil, JavaScript null or undefined.
    #[default]
    Nil,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string: text or bytes.
    Bytes(Bytes),
    /// A table with an array part, or an array.
    List(Vec<Value>),
    /// Any other table or object, in the order in which the script's runtime lists it.
    Map(Vec<(Bytes, Value)>),
}

/// How deeply JSON may be nested, both ways: deeper is an error, not a stack overflow. It is what
/// `serde_json` reads, so whatever storage takes from clients as JSON reads back for scripts.
pub const DEPTH_MAX: usize = 127;

/// How deeply tables may be nested that scripts hand over: JSON, and a few levels of lists and
/// objects around it, such as those of `storage_write`.
pub const TABLE_DEPTH_MAX: usize = DEPTH_MAX + 5;

impl Value {
    /// A string value.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bytes(Bytes::from(text.into()))
    }

    /// The string in this value, if it is one and valid UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Bytes(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// The whole number in this value; a float counts if it has no fraction.
    #[allow(clippy::cast_possible_truncation, reason = "checked: no fraction, within ±2^53")]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Float(number)
                if number.fract() == 0.0 && number.abs() <= 9.007_199_254_740_992e15 =>
            {
                Some(*number as i64)
            }
            _ => None,
        }
    }

    /// The member `key` of a map; `None` for other values and missing keys.
    pub fn member(&self, key: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(name, _)| name.as_ref() == key.as_bytes()).map(|(_, value)| value)
    }
}
