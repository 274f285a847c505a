//! JSON text to [`Value`] and back, by the rules that scripts know: a table with an array part is
//! an array, any other an object with sorted keys, whole numbers are written without a fraction.
//! Strings that are not UTF-8 are written with replacement characters.
//!
//! Source: nakama 3.40, `RuntimeLuaConvertLuaValue` and Go's `encoding/json`.

use std::cell::RefCell;
use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;
use thiserror::Error;

use super::{Meter, Unmetered};
use crate::guest::HostError;
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
    /// The meter refused.
    #[error("{0}")]
    Budget(#[from] HostError),
}

/// The JSON text of `value`.
///
/// # Errors
/// [`JsonError::Number`], [`JsonError::Deep`].
pub fn encode(value: &Value) -> Result<Vec<u8>, JsonError> {
    encode_for(value, &Unmetered)
}

/// The JSON text of a script's `value`, paid for while it is written.
///
/// # Errors
/// As [`encode`]; [`JsonError::Budget`].
pub fn encode_for(value: &Value, meter: &dyn Meter) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::with_capacity(TEXT_BYTES_TYPICAL);
    write(value, DEPTH_MAX, &mut out, meter)?;
    Ok(out)
}

/// Room for a small text: it need not grow while it is written.
const TEXT_BYTES_TYPICAL: usize = 256;

/// Bytes of a string from which on it is looked through before it is written.
const LARGE_BYTES: usize = 4 * 1024;

fn write_text(text: &[u8], out: &mut Vec<u8>, meter: &dyn Meter) -> Result<(), JsonError> {
    let held = if text.len() < LARGE_BYTES {
        text.len()
    } else {
        meter.spend(u32::try_from(text.len()).unwrap_or(u32::MAX))?;
        // Control characters become six bytes, what is not UTF-8 at most three.
        let written = |byte: &u8| match byte {
            0..0x20 | b'"' | b'\\' => 6,
            0x20..0x80 => 1,
            0x80.. => 3,
        };
        text.iter().map(written).sum()
    };
    meter.hold(held)?;
    Ok(serde_json::to_writer(out, &String::from_utf8_lossy(text))?)
}

fn write(
    value: &Value,
    depth_left: usize,
    out: &mut Vec<u8>,
    meter: &dyn Meter,
) -> Result<(), JsonError> {
    meter.spend(VALUE_STEPS)?;
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => serde_json::to_writer(out, number)?,
        Value::Float(number) if !number.is_finite() => return Err(JsonError::Number(*number)),
        Value::Float(number) => serde_json::to_writer(out, number)?,
        Value::Bytes(bytes) => write_text(bytes, out, meter)?,
        Value::List(items) => {
            let depth_left = depth_left.checked_sub(1).ok_or(JsonError::Deep)?;
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, depth_left, out, meter)?;
            }
            out.push(b']');
        }
        Value::Map(members) => {
            let depth_left = depth_left.checked_sub(1).ok_or(JsonError::Deep)?;
            let mut sorted: SmallVec<[&(Bytes, Value); 16]> = members.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            out.push(b'{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(name, out, meter)?;
                out.push(b':');
                write(member, depth_left, out, meter)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// The value of a JSON text of our own, whose size is bounded already.
///
/// # Errors
/// [`JsonError::Text`].
pub fn decode(text: &[u8]) -> Result<Value, JsonError> {
    decode_for(text, &Unmetered)
}

/// The value of a script's JSON text: a few bytes of text can be ten times as many of values, so
/// they are paid for while they are made.
///
/// # Errors
/// [`JsonError::Text`], [`JsonError::Budget`].
pub fn decode_for(text: &[u8], meter: &dyn Meter) -> Result<Value, JsonError> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let refused = RefCell::new(None);
    let nested = Nested { depth_left: DEPTH_MAX, meter, refused: &refused };
    let value = nested.deserialize(&mut parser).map_err(|error| match refused.take() {
        Some(refusal) => JsonError::Budget(refusal),
        None => JsonError::Text(error),
    })?;
    parser.end()?;
    Ok(value)
}

/// Steps that one value costs, strings' bytes not counted.
const VALUE_STEPS: u32 = 50;

#[derive(Clone, Copy)]
struct Nested<'a> {
    depth_left: usize,
    meter: &'a dyn Meter,
    /// Why the meter refused, which serde's error cannot carry.
    refused: &'a RefCell<Option<HostError>>,
}

impl Nested<'_> {
    /// Pays for a string.
    fn text<E: serde::de::Error>(self, bytes: usize) -> Result<(), E> {
        self.meter.hold(bytes).map_err(|refusal| self.refuse(refusal))
    }

    fn refuse<E: serde::de::Error>(self, refusal: HostError) -> E {
        let error = E::custom(&refusal);
        self.refused.replace(Some(refusal));
        error
    }

    /// Pays for an item of a list or map that has room for `capacity` of them: when it is full, it
    /// is about to double.
    fn item<T, E: serde::de::Error>(self, list: &[T], capacity: usize) -> Result<(), E> {
        if list.len() == capacity {
            let bytes = capacity.max(4) * size_of::<T>();
            self.meter.hold(bytes).map_err(|refusal| self.refuse(refusal))?;
        }
        self.meter.spend(VALUE_STEPS).map_err(|refusal| self.refuse(refusal))
    }

    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth_left =
            self.depth_left.checked_sub(1).ok_or_else(|| E::custom(JsonError::Deep))?;
        Ok(Self { depth_left, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Nested<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested<'_> {
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

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.text(text.len())?;
        Ok(Value::Bytes(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.text(text.len())?;
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.inner::<A::Error>()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            self.item(&list, list.capacity())?;
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner::<A::Error>()?;
        let mut map = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            self.text(name.len())?;
            let member = members.next_value_seed(inner)?;
            self.item(&map, map.capacity())?;
            map.push((Bytes::from(name), member));
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{JsonError, decode, decode_for, encode, encode_for};
    use crate::guest::HostError;
    use crate::host::Meter;
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

    /// Has so many bytes, and no end of time.
    struct Small(Cell<usize>);

    impl Meter for Small {
        fn spend(&self, _steps: u32) -> Result<(), HostError> {
            Ok(())
        }
        fn hold(&self, bytes: usize) -> Result<(), HostError> {
            let left = self.0.get().checked_sub(bytes);
            self.0.set(left.ok_or_else(|| HostError::new("full"))?);
            Ok(())
        }
        fn time_left_ms(&self) -> u32 {
            u32::MAX
        }
        fn keeps_others_waiting(&self) -> bool {
            false
        }
    }

    #[test]
    fn values_are_paid_for_while_they_are_made() {
        for text in ["[1,1,1,1,1,1,1,1,1]".to_owned(), format!("\"{}\"", "a".repeat(100))] {
            let value = decode(text.as_bytes()).unwrap();
            let kinds = |bytes| {
                let back = decode_for(text.as_bytes(), &Small(Cell::new(bytes)));
                (back.is_ok(), matches!(back, Err(JsonError::Budget(_))))
            };
            assert_eq!((kinds(50), kinds(10_000)), ((false, true), (true, false)), "{text}");
            assert!(encode_for(&value, &Small(Cell::new(10_000))).is_ok());
        }
        let text = Value::text("\u{1}".repeat(5_000));
        assert!(encode_for(&text, &Small(Cell::new(20_000))).is_err());
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
