//! JSON text to [`Value`] and back, by the rules that scripts know: a table with an array part is
//! an array, any other an object with sorted keys, whole numbers are written without a fraction.
//! Strings that are not UTF-8 are written with replacement characters.
//!
//! Source: nakama 3.40, `RuntimeLuaConvertLuaValue` and Go's `encoding/json`.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

use crate::value::{DEPTH_MAX, Value};

/// Why a value has no JSON text, or a text is none.
#[derive(Debug, Error)]
pub enum JsonError {
    /// NaN or an infinity.
    #[error("json: unsupported value: {0}")]
    Number(f64),
    /// Nested too deeply.
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Deep,
    /// Not JSON.
    #[error("{0}")]
    Text(#[from] serde_json::Error),
}

/// The JSON text of `value`.
///
/// # Errors
/// [`JsonError::Number`], [`JsonError::Deep`].
pub fn encode(value: &Value) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    write(value, DEPTH_MAX, &mut out)?;
    Ok(out)
}

fn write(value: &Value, depth_left: usize, out: &mut Vec<u8>) -> Result<(), JsonError> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => serde_json::to_writer(out, number)?,
        Value::Float(number) if !number.is_finite() => return Err(JsonError::Number(*number)),
        Value::Float(number) => serde_json::to_writer(out, number)?,
        Value::Bytes(bytes) => serde_json::to_writer(out, &String::from_utf8_lossy(bytes))?,
        Value::List(items) => {
            let depth_left = depth_left.checked_sub(1).ok_or(JsonError::Deep)?;
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, depth_left, out)?;
            }
            out.push(b']');
        }
        Value::Map(members) => {
            let depth_left = depth_left.checked_sub(1).ok_or(JsonError::Deep)?;
            let mut sorted: Vec<&(Bytes, Value)> = members.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            out.push(b'{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, &String::from_utf8_lossy(name))?;
                out.push(b':');
                write(member, depth_left, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// The value of a JSON text.
///
/// # Errors
/// [`JsonError::Text`].
pub fn decode(text: &[u8]) -> Result<Value, JsonError> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = Nested { depth_left: DEPTH_MAX }.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Nested {
    depth_left: usize,
}

impl Nested {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth_left =
            self.depth_left.checked_sub(1).ok_or_else(|| E::custom(JsonError::Deep))?;
        Ok(Self { depth_left })
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    #[allow(clippy::cast_precision_loss, reason = "scripts' numbers are doubles anyway")]
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Bytes(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner::<A::Error>()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner::<A::Error>()?;
        let mut map = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            let member = members.next_value_seed(inner)?;
            map.push((Bytes::from(name), member));
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::value::{DEPTH_MAX, Value};

    #[test]
    fn texts_survive_the_way_there_and_back() {
        for (text, back) in [
            ("null", "null"),
            (" [1, 2.5, true, \"a\\n\"] ", "[1,2.5,true,\"a\\n\"]"),
            ("{\"b\":{},\"a\":[]}", "{\"a\":[],\"b\":{}}"),
            ("-9007199254740991", "-9007199254740991"),
            ("1e300", "1e+300"),
            ("\"\\u00e4\"", "\"ä\""),
        ] {
            let value = decode(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(encode(&value).unwrap()).unwrap(), back);
        }
    }

    #[test]
    fn broken_texts_are_errors_wherever_they_break() {
        let text = "{\"a\":[1,{\"b\":\"c\\u00e4\"}],\"d\":-1.5e3}";
        for end in 0..text.len() {
            assert!(decode(&text.as_bytes()[..end]).is_err(), "cut at {end}");
        }
        assert!(decode(b"1 2").is_err());
        assert!(decode(b"\"\xff\"").is_err());
    }

    #[test]
    fn depth_is_limited_both_ways() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(decode(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(decode(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        let mut value = Value::List(Vec::new());
        for _ in 1..DEPTH_MAX {
            value = Value::List(vec![value]);
        }
        assert!(encode(&value).is_ok());
        assert!(encode(&Value::List(vec![value])).is_err());
        assert!(encode(&Value::Float(f64::NAN)).is_err());
    }
}
