//! The JSON dialect: how each kind of field is written and read, and strings escaped for
//! different readers.
//!
//! Written: snake_case names, zero values left out, 64-bit integers as strings, wrappers raw.
//! Read: snake_case or lowerCamelCase, integers as numbers or strings, `null` as unset, but not in
//! a list or map; unknown names are ignored, and what they stand for is looked at only as far as
//! finding its end takes; names given twice are an error. `serde_json` does the lexing. Errors
//! quote at most an [`excerpt`] of a text.
//!
//! Source: protobuf's JSON mapping as Nakama 3.40 configures it (UseProtoNames, enums as numbers,
//! unpopulated fields left out, unknown ones discarded), and as Go reads it
//! (google.golang.org/protobuf 1.36, `encoding/protojson/decode.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::{
    STANDARD, STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT,
};
use bytes::Bytes;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::number::{is_number, whole_number};
use crate::excerpt::excerpt;

/// What a visitor expects, which is not a string: says so, and quotes an excerpt of one.
macro_rules! text_is_wrong {
    ($expected:literal) => {
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str($expected)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let text = serde::de::Unexpected::Str($crate::excerpt::excerpt(text));
            Err(E::invalid_type(text, &self))
        }
    };
}
pub(super) use text_is_wrong;

/// Whether `found` is `snake`, or the same name in lowerCamelCase.
#[must_use]
pub fn same_name(snake: &str, found: &str) -> bool {
    if snake.len() == found.len() {
        // In camelCase every underscore is gone: of one length, both spellings are the same.
        return snake == found;
    }
    let mut found = found.bytes();
    let mut is_upper = false;
    for byte in snake.bytes() {
        if byte == b'_' {
            is_upper = true;
            continue;
        }
        let wanted = if is_upper { byte.to_ascii_uppercase() } else { byte };
        is_upper = false;
        if found.next() != Some(wanted) {
            return false;
        }
    }
    found.next().is_none()
}

/// Appends `text` as a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    write_escaped::<false>(out, text);
}

/// Appends `text` as a JSON string in which `<`, `>`, `&`, U+2028 and U+2029 are escaped, as
/// Nakama's answers to RPCs over HTTP have it: such a string is harmless within HTML.
pub fn write_string_html(out: &mut Vec<u8>, text: &str) {
    write_escaped::<true>(out, text);
}

fn write_escaped<const HTML: bool>(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let is_plain = byte >= b' '
            && byte != b'"'
            && byte != b'\\'
            && !(HTML && matches!(byte, b'<' | b'>' | b'&' | 0xe2));
        if is_plain || at < start {
            continue;
        }
        // U+2028 and U+2029 are E2 80 A8 and E2 80 A9; other characters may begin with E2, too.
        let separator = match bytes.get(at..at + 3) {
            Some([0xe2, 0x80, 0xa8]) => Some(b"\\u2028"),
            Some([0xe2, 0x80, 0xa9]) => Some(b"\\u2029"),
            _ if byte == 0xe2 => continue,
            _ => None,
        };
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        if let Some(separator) = separator {
            out.extend_from_slice(separator);
            start = at + 3;
            continue;
        }
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 0x0f)],
                ]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Appends `data` as a base64 string in quotes: standard alphabet, padded.
pub(super) fn write_base64(out: &mut Vec<u8>, data: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, b'=');
    // The room is exact: this cannot fail.
    let written = STANDARD.encode_slice(data, &mut out[start..]);
    debug_assert!(written.is_ok());
    out.push(b'"');
}

/// Reads a body of one JSON string as Go's `encoding/json` does: each half of a surrogate pair, and
/// each byte that is not UTF-8, becomes U+FFFD. `None` when it is no string even so.
pub(super) fn lossy_string(body: &[u8]) -> Option<String> {
    // A string that is read as bytes may hold those, and is not checked for control characters.
    if body.iter().any(|&byte| byte < b' ') {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let text = deserializer.deserialize_bytes(LossyVisitor).ok()?;
    deserializer.end().ok()?;
    Some(text)
}

struct LossyVisitor;

impl Visitor<'_> for LossyVisitor {
    type Value = String;

    text_is_wrong!("a string");

    fn visit_bytes<E: de::Error>(self, mut bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        while let Err(error) = std::str::from_utf8(bytes) {
            let (good, bad) = bytes.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(good));
            text.push(char::REPLACEMENT_CHARACTER);
            // An escaped half of a pair stands here as three bytes.
            let is_half = matches!(bad, [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..]);
            bytes = bad.get(if is_half { 3 } else { 1 }..).unwrap_or_default();
        }
        text.push_str(&String::from_utf8_lossy(bytes));
        Ok(text)
    }
}

/// Reads base64 in the standard or the URL alphabet, padded or not.
pub(super) fn read_base64(text: &[u8]) -> Option<Bytes> {
    let is_url = memchr::memchr2(b'-', b'_', text).is_some();
    let engine = if is_url { URL_SAFE_PAD_INDIFFERENT } else { STANDARD_PAD_INDIFFERENT };
    // Of exactly the right size: `Bytes` takes such a vector over without allocating again.
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let mut data = vec![0; (text.len() - padding) * 3 / 4];
    let len = engine.decode_slice(text, &mut data).ok()?;
    data.truncate(len);
    Some(data.into())
}

/// One kind of field: its zero value, its written form, its accepted forms.
pub(super) trait Field: Default {
    /// Whether the field is left out.
    fn is_unset(&self) -> bool;
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
    /// Reads the field; `null` gives the zero value.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// A field on its way out.
pub(super) struct Out<'a, T>(pub(super) &'a T);

impl<T: Field> Serialize for Out<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// A field on its way in.
pub(super) struct In<T>(pub(super) PhantomData<T>);

impl<'de, T: Field> DeserializeSeed<'de> for In<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

/// An item of a list or map on its way in: not `null`.
struct Item<T>(PhantomData<T>);

impl<'de, T: Field> DeserializeSeed<'de> for Item<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: Field> Visitor<'de> for Item<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, for there is no null in a list or map")
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

impl Field for String {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's own error never quotes a string here: every string is taken.
        Ok(Option::<Self>::deserialize(deserializer)?.unwrap_or_default())
    }
}

impl Field for bool {
    fn is_unset(&self) -> bool {
        !*self
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BoolVisitor)
    }
}

struct BoolVisitor;

impl Visitor<'_> for BoolVisitor {
    type Value = bool;

    text_is_wrong!("a boolean");

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }

    fn visit_unit<E: de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }
}

impl Field for i32 {
    fn is_unset(&self) -> bool {
        *self == 0
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(*self)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wide = read_whole(deserializer)?;
        Self::try_from(wide).map_err(|_| {
            de::Error::invalid_value(de::Unexpected::Signed(wide), &"a 32-bit integer")
        })
    }
}

impl Field for i64 {
    fn is_unset(&self) -> bool {
        *self == 0
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(itoa::Buffer::new().format(*self))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_whole(deserializer)
    }
}

/// Reads a whole number of 64 bits, as number or string, and `null` as 0. Its text is read, and not
/// what a parser made of it, because a double in between would round.
fn read_whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let json = <&RawValue>::deserialize(deserializer)?.get();
    let number = match json.as_bytes() {
        [b'n', ..] => Some(0),
        [b'"', ..] => string(json).and_then(|text| whole_number(&text)),
        _ => whole_number(json),
    };
    number.ok_or_else(|| {
        let found = excerpt(json);
        de::Error::custom(format_args!(
            "invalid value: {found}, expected a 64-bit integer, or one in a string"
        ))
    })
}

/// What a JSON string says.
fn string(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

impl Field for f64 {
    fn is_unset(&self) -> bool {
        *self == 0.0
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            Self::INFINITY => serializer.serialize_str("Infinity"),
            Self::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            // Whole numbers without the `.0` that Rust's writers add; zero without a sign.
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2⁵³")]
            value if value.fract() == 0.0 && value.abs() < 9e15 => {
                serializer.serialize_i64(value as i64)
            }
            value => serializer.serialize_f64(value),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FloatVisitor)
    }
}

/// Accepts a number, as number or string, the three special names, and `null` as 0.
struct FloatVisitor;

impl Visitor<'_> for FloatVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a number in a string")
    }

    #[expect(clippy::cast_precision_loss, reason = "a double is what the field is")]
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "a double is what the field is")]
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        let number = match text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ if is_number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        };
        number.ok_or_else(|| E::invalid_value(de::Unexpected::Str(excerpt(text)), &self))
    }

    fn visit_unit<E: de::Error>(self) -> Result<f64, E> {
        Ok(0.0)
    }
}

impl Field for Bytes {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Base64Visitor)
    }
}

struct Base64Visitor;

impl Visitor<'_> for Base64Visitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        let bytes = read_base64(text.as_bytes());
        bytes.ok_or_else(|| E::invalid_value(de::Unexpected::Str(excerpt(text)), &self))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Bytes, E> {
        Ok(Bytes::new())
    }
}

/// Wrappers and sub-messages: written when set, even if they hold a zero.
impl<T: Field> Field for Option<T> {
    fn is_unset(&self) -> bool {
        self.is_none()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.write(serializer),
            None => serializer.serialize_unit(),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(OptionVisitor(PhantomData))
    }
}

struct OptionVisitor<T>(PhantomData<T>);

impl<'de, T: Field> Visitor<'de> for OptionVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        T::read(deserializer).map(Some)
    }
}

impl<T: Field> Field for Vec<T> {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Out))
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Field> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    text_is_wrong!("a list");

    fn visit_unit<E: de::Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Item(PhantomData))? {
            list.push(item);
        }
        Ok(list)
    }
}

impl<T: Field> Field for BTreeMap<String, T> {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self {
            map.serialize_entry(name, &Out(value))?;
        }
        map.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MapVisitor(PhantomData))
    }
}

struct MapVisitor<T>(PhantomData<T>);

impl<'de, T: Field> Visitor<'de> for MapVisitor<T> {
    type Value = BTreeMap<String, T>;

    text_is_wrong!("an object");

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = access.next_value_seed(Item(PhantomData))?;
            if map.contains_key(&name) {
                let name = excerpt(&name);
                return Err(de::Error::custom(format_args!("duplicate key {name:?}")));
            }
            map.insert(name, value);
        }
        Ok(map)
    }
}
