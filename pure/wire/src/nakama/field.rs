//! The types that fields of messages have: how each is written as JSON, and what is accepted as it
//! in JSON, in a query string and in a path. The dialect is described in [`super::json`]; protobuf
//! is `proto`'s.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Deserialize as _;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::json::{Style, read_base64, text_is_wrong, write_base64, write_string};
use super::message::FieldType;
use super::number::{is_number, whole_number};
use crate::excerpt::excerpt;
use crate::query::{QueryString, QueryStringError};

/// One type of field: its zero value, its written form, its accepted forms.
pub(super) trait Field: Default {
    /// What the reference calls it.
    const KIND: FieldType;

    /// Whether the field is left out.
    fn is_unset(&self) -> bool;

    /// Appends the field, zero or not.
    fn write(&self, out: &mut Vec<u8>, style: Style);

    /// Reads the field; `null` gives the zero value.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// Reads the field from a JSON text of its own. An empty text is an empty message.
    fn read_body(json: &[u8]) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let field = Self::read(&mut deserializer)?;
        deserializer.end()?;
        Ok(field)
    }

    /// What a query string has for the field; `None` for types that cannot stand there.
    ///
    /// # Errors
    /// [`QueryStringError`]: not of this type, or given twice.
    fn from_query(
        _query: QueryString<'_>,
        _name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        Ok(None)
    }

    /// The field that a part of a path is; `None` for types that cannot stand there.
    fn from_text(_text: &str) -> Option<Self> {
        None
    }
}

/// A JSON object being written: knows whether a comma is due, and which fields are wanted.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    separator: &'static [u8],
    style: Style,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>, style: Style) -> Self {
        Self { out, separator: b"{", style }
    }

    /// Writes a name, which is given with its quotes and colon; the value is the caller's to append.
    pub(super) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        self.out.extend_from_slice(self.separator);
        self.separator = b",";
        if self.style.camel_case {
            let words = name.split('_');
            for (at, word) in words.enumerate() {
                let start = self.out.len();
                self.out.extend_from_slice(word.as_bytes());
                if at > 0
                    && let Some(first) = self.out.get_mut(start)
                {
                    first.make_ascii_uppercase();
                }
            }
        } else {
            self.out.extend_from_slice(name.as_bytes());
        }
        self.out
    }

    /// Writes a field if it is set, or if all fields are wanted and this one is among them.
    pub(super) fn field<T: Field>(&mut self, name: &str, field: &T, is_always_written: bool) {
        if !field.is_unset() || (self.style.zeros && is_always_written) {
            let style = self.style;
            field.write(self.name(name), style);
        }
    }

    pub(super) fn close(self) {
        self.out.extend_from_slice(if self.separator == b"{" { b"{}" } else { b"}" });
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
    const KIND: FieldType = FieldType::Text;

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        write_string(out, self);
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's own error never quotes a string here: every string is taken.
        Ok(Option::<Self>::deserialize(deserializer)?.unwrap_or_default())
    }

    fn from_query(
        query: QueryString<'_>,
        name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        Ok(query.text(name)?.map(Cow::into_owned))
    }

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Field for bool {
    const KIND: FieldType = FieldType::Bool;

    fn is_unset(&self) -> bool {
        !*self
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BoolVisitor)
    }

    fn from_query(
        query: QueryString<'_>,
        name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        query.bool(name)
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
    const KIND: FieldType = FieldType::Int32;

    fn is_unset(&self) -> bool {
        *self == 0
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        out.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wide = read_whole(deserializer)?;
        Self::try_from(wide).map_err(|_| {
            de::Error::invalid_value(de::Unexpected::Signed(wide), &"a 32-bit integer")
        })
    }

    fn from_query(
        query: QueryString<'_>,
        name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        query.int32(name)
    }
}

impl Field for i64 {
    const KIND: FieldType = FieldType::Int64;

    fn is_unset(&self) -> bool {
        *self == 0
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        out.push(b'"');
        out.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
        out.push(b'"');
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_whole(deserializer)
    }

    fn from_query(
        query: QueryString<'_>,
        name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        query.int64(name)
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
    const KIND: FieldType = FieldType::Double;

    fn is_unset(&self) -> bool {
        *self == 0.0
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        match *self {
            value if value.is_nan() => out.extend_from_slice(b"\"NaN\""),
            Self::INFINITY => out.extend_from_slice(b"\"Infinity\""),
            Self::NEG_INFINITY => out.extend_from_slice(b"\"-Infinity\""),
            // Whole numbers without the `.0` that Rust's writers add; zero without a sign.
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2⁵³")]
            value if value.fract() == 0.0 && value.abs() < 9e15 => {
                out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
            }
            value => {
                // Writing to memory cannot fail, nor can a finite number.
                let written = serde_json::to_writer(out, &value);
                debug_assert!(written.is_ok());
            }
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
    const KIND: FieldType = FieldType::Bytes;

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>, _style: Style) {
        write_base64(out, self);
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
    const KIND: FieldType = FieldType::Optional(&T::KIND);

    fn is_unset(&self) -> bool {
        self.is_none()
    }

    fn write(&self, out: &mut Vec<u8>, style: Style) {
        match self {
            Some(value) => value.write(out, style),
            None => out.extend_from_slice(b"null"),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(OptionVisitor(PhantomData))
    }

    fn read_body(json: &[u8]) -> Result<Self, serde_json::Error> {
        T::read_body(json).map(Some)
    }

    fn from_query(
        query: QueryString<'_>,
        name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        Ok(T::from_query(query, name)?.map(Some))
    }

    fn from_text(text: &str) -> Option<Self> {
        T::from_text(text).map(Some)
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
    const KIND: FieldType = FieldType::List(&T::KIND);

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>, style: Style) {
        let mut separator = &b"["[..];
        for item in self {
            out.extend_from_slice(separator);
            item.write(out, style);
            separator = b",";
        }
        out.extend_from_slice(if self.is_empty() { b"[]" } else { b"]" });
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }

    fn from_query(
        query: QueryString<'_>,
        name: &'static str,
    ) -> Result<Option<Self>, QueryStringError> {
        let list: Self = query.list(name).filter_map(|text| T::from_text(&text)).collect();
        Ok((!list.is_empty()).then_some(list))
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
    const KIND: FieldType = FieldType::Map(&T::KIND);

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>, style: Style) {
        let mut separator = b'{';
        for (name, value) in self {
            out.push(separator);
            write_string(out, name);
            out.push(b':');
            value.write(out, style);
            separator = b',';
        }
        out.extend_from_slice(if self.is_empty() { b"{}" } else { b"}" });
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

#[cfg(test)]
mod tests;
