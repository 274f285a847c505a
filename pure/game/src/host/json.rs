//! JSON text to [`Value`] and back, by the rules that scripts know: a table with an array part is
//! an array, any other an object with sorted keys, whole numbers are written without a fraction.
//! Strings that are not UTF-8 are written with replacement characters.
//!
//! Source: nakama 3.40, `RuntimeLuaConvertLuaValue` and Go's `encoding/json`.

use std::borrow::Cow;
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

/// Writes a string to `out`.
///
/// # Errors
/// [`JsonError::Budget`].
pub fn write_text(text: &[u8], out: &mut Vec<u8>, meter: &dyn Meter) -> Result<(), JsonError> {
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

/// Writes a whole number to `out`.
///
/// # Errors
/// As whatever serde writes has; into memory it has none.
pub fn write_whole(number: i64, out: &mut Vec<u8>) -> Result<(), JsonError> {
    Ok(serde_json::to_writer(out, &number)?)
}

/// Writes a number to `out`.
///
/// # Errors
/// [`JsonError::Number`].
pub fn write_float(number: f64, out: &mut Vec<u8>) -> Result<(), JsonError> {
    if !number.is_finite() {
        return Err(JsonError::Number(number));
    }
    Ok(serde_json::to_writer(out, &number)?)
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
        Value::Int(number) => write_whole(*number, out)?,
        Value::Float(number) => write_float(*number, out)?,
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
    value(&mut tokens(text, meter)?.into_iter(), meter)
}

/// The value whose token comes next.
fn value<'a>(
    tokens: &mut impl Iterator<Item = Token<'a>>,
    meter: &dyn Meter,
) -> Result<Value, JsonError> {
    Ok(match next(tokens) {
        Token::Nil => Value::Nil,
        Token::Flag(flag) => Value::Bool(flag),
        Token::Whole(number) => Value::Int(number),
        Token::Number(number) => Value::Float(number),
        Token::Text(text) => Value::Bytes(bytes(text)),
        Token::List(count) => {
            meter.hold(count * size_of::<Value>())?;
            let mut items = Vec::with_capacity(count);
            for _ in 0..count {
                items.push(value(tokens, meter)?);
            }
            Value::List(items)
        }
        Token::Map(count) => {
            meter.hold(count * size_of::<(Bytes, Value)>())?;
            let mut members = Vec::with_capacity(count);
            for _ in 0..count {
                let Token::Text(name) = next(tokens) else { unreachable!("names are texts") };
                members.push((bytes(name), value(tokens, meter)?));
            }
            Value::Map(members)
        }
    })
}

fn next<'a>(tokens: &mut impl Iterator<Item = Token<'a>>) -> Token<'a> {
    let Some(token) = tokens.next() else { unreachable!("lists and maps count their members") };
    token
}

fn bytes(text: Cow<'_, str>) -> Bytes {
    match text {
        Cow::Borrowed(text) => Bytes::copy_from_slice(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    }
}

/// A part of a JSON text. A list or map is followed by its members; of a map each is a text, its
/// name, and the tokens of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Token<'a> {
    /// `null`.
    Nil,
    /// `true` and `false`.
    Flag(bool),
    /// A whole number, as far as it fits.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// A string: where it stands in the text, if it has no escapes.
    Text(Cow<'a, str>),
    /// An array of so many.
    List(usize),
    /// An object of so many.
    Map(usize),
}

/// Room for the tokens of a small text.
const TOKENS_TYPICAL: usize = 32;

/// Takes a script's JSON text apart: the tokens of one value.
///
/// # Errors
/// [`JsonError::Text`], [`JsonError::Budget`].
pub fn tokens<'a>(text: &'a [u8], meter: &dyn Meter) -> Result<Vec<Token<'a>>, JsonError> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let mut taken = Taken {
        tokens: Vec::with_capacity(TOKENS_TYPICAL),
        meter,
        refused: None,
        depth_left: DEPTH_MAX,
    };
    let parsed = Next(&mut taken).deserialize(&mut parser);
    parsed.map_err(|error| match taken.refused.take() {
        Some(refusal) => JsonError::Budget(refusal),
        None => JsonError::Text(error),
    })?;
    parser.end()?;
    Ok(taken.tokens)
}

/// Steps that one value costs, strings' bytes not counted.
pub const VALUE_STEPS: u32 = 50;

/// What a text was taken apart into so far.
struct Taken<'a, 'm> {
    tokens: Vec<Token<'a>>,
    depth_left: usize,
    meter: &'m dyn Meter,
    /// Why the meter refused, which serde's error cannot carry.
    refused: Option<HostError>,
}

impl<'a> Taken<'a, '_> {
    /// Takes a token. Where there is no room for it, there is about to be twice as much, which is paid for.
    fn take<E: serde::de::Error>(&mut self, token: Token<'a>) -> Result<(), E> {
        if self.tokens.len() == self.tokens.capacity() {
            self.paid(self.meter.hold(self.tokens.len() * size_of::<Token<'_>>()))?;
        }
        self.tokens.push(token);
        Ok(())
    }

    fn paid<E: serde::de::Error>(&mut self, paid: Result<(), HostError>) -> Result<(), E> {
        paid.map_err(|refusal| {
            let error = E::custom(&refusal);
            self.refused = Some(refusal);
            error
        })
    }

    /// Takes a list or map, whose members `members` takes and counts.
    fn nest<E: serde::de::Error>(
        &mut self,
        token: impl Fn(usize) -> Token<'a>,
        members: impl FnOnce(&mut Self) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.depth_left =
            self.depth_left.checked_sub(1).ok_or_else(|| E::custom(JsonError::Deep))?;
        let at = self.tokens.len();
        self.take(token(0))?;
        let count = members(self)?;
        self.tokens[at] = token(count);
        self.depth_left += 1;
        Ok(())
    }
}

/// Takes the value that comes next.
struct Next<'t, 'a, 'm>(&'t mut Taken<'a, 'm>);

impl<'de> DeserializeSeed<'de> for Next<'_, 'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Next<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.take(Token::Nil)
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<(), E> {
        self.0.take(Token::Flag(flag))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.0.take(Token::Whole(number))
    }

    #[allow(clippy::cast_precision_loss, reason = "scripts' numbers are doubles anyway")]
    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        let whole = i64::try_from(number);
        self.0.take(whole.map_or(Token::Number(number as f64), Token::Whole))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.0.take(Token::Number(number))
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<(), E> {
        self.0.paid(self.0.meter.hold(text.len()))?;
        self.0.take(Token::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.0.paid(self.0.meter.hold(text.len()))?;
        self.0.take(Token::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.nest(Token::List, |taken| {
            let mut count = 0;
            while items.next_element_seed(Next(taken))?.is_some() {
                taken.paid(taken.meter.spend(VALUE_STEPS))?;
                count += 1;
            }
            Ok(count)
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.0.nest(Token::Map, |taken| {
            let mut count = 0;
            // A name is a string: serde_json refuses all else.
            while members.next_key_seed(Next(taken))?.is_some() {
                members.next_value_seed(Next(taken))?;
                taken.paid(taken.meter.spend(VALUE_STEPS))?;
                count += 1;
            }
            Ok(count)
        })
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
