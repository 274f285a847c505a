//! Values as bytes, as host and guest hand them to each other: a tag, then what belongs to it, numbers in
//! little-endian.
//!
//! ```text
//! 0 nil   1 false   2 true   3 whole number: 8 bytes   4 other number: 8 bytes, IEEE 754
//! 5 string: length in 4 bytes, bytes   6 list: count in 4 bytes, values
//! 7 map: count in 4 bytes, then for each a name (length in 4 bytes, bytes) and its value
//! ```
//!
//! The form is part of the convention's version: docs/wasm/convention.md.

use bytes::Bytes;
use game::guest::HostError;
use game::host::Meter;
use game::value::{TABLE_DEPTH_MAX, Value};
use thiserror::Error;
use uuid::Uuid;

const NIL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const BYTES: u8 = 5;
const LIST: u8 = 6;
const MAP: u8 = 7;

/// Steps that reading one value costs, strings' bytes not counted.
const VALUE_STEPS: u32 = 20;

/// Why bytes are no value.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum DecodeError {
    #[error("a value ends too early")]
    Early,
    #[error("{0} bytes behind the end of a value")]
    Late(usize),
    #[error("no value begins with {0}")]
    Tag(u8),
    #[error("a value is nested deeper than {TABLE_DEPTH_MAX} levels")]
    Deep,
    /// The call's time or memory is used up.
    #[error(transparent)]
    Budget(#[from] HostError),
}

/// Writes values one after the other: a list or map is its head, and what is in it behind.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// One that writes so many bytes without having to move them.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn count(&mut self, count: usize) -> u32 {
        // Nothing that a thread holds has 4 Gi members; if something had, it would be cut off.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&count.to_le_bytes());
        count
    }

    pub(crate) fn name(&mut self, name: &[u8]) -> &mut Self {
        let length = self.count(name.len()) as usize;
        self.bytes.extend_from_slice(name.get(..length).unwrap_or(name));
        self
    }

    pub(crate) fn nil(&mut self) -> &mut Self {
        self.bytes.push(NIL);
        self
    }

    pub(crate) fn bool(&mut self, flag: bool) -> &mut Self {
        self.bytes.push(if flag { TRUE } else { FALSE });
        self
    }

    pub(crate) fn int(&mut self, number: i64) -> &mut Self {
        self.bytes.push(INT);
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A count or time, at most what fits.
    pub(crate) fn whole(&mut self, number: u64) -> &mut Self {
        self.int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.push(BYTES);
        self.name(bytes)
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn id(&mut self, id: Uuid) -> &mut Self {
        let mut buffer = Uuid::encode_buffer();
        self.text(id.hyphenated().encode_lower(&mut buffer))
    }

    /// The head of a list of so many values.
    pub(crate) fn list(&mut self, count: usize) -> &mut Self {
        self.bytes.push(LIST);
        self.count(count);
        self
    }

    /// The head of a map of so many names ([`Self::name`]), each with its value behind it.
    pub(crate) fn map(&mut self, count: usize) -> &mut Self {
        self.bytes.push(MAP);
        self.count(count);
        self
    }

    /// A value with all that is in it; none is nested deeper than [`TABLE_DEPTH_MAX`], or not much.
    pub(crate) fn value(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::Nil => self.nil(),
            Value::Bool(flag) => self.bool(*flag),
            Value::Int(number) => self.int(*number),
            Value::Float(number) => {
                self.bytes.push(FLOAT);
                self.bytes.extend_from_slice(&number.to_le_bytes());
                self
            }
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::List(items) => {
                self.list(items.len());
                items.iter().fold(self, Self::value)
            }
            Value::Map(members) => {
                self.map(members.len());
                members.iter().fold(self, |to, (name, value)| to.name(name).value(value))
            }
        }
    }
}

/// Reads the one value that these bytes are, paid for with `meter`.
pub(crate) fn decode(bytes: &[u8], meter: &dyn Meter) -> Result<Value, DecodeError> {
    let mut reader = Reader { rest: bytes, meter };
    let value = reader.value(TABLE_DEPTH_MAX)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(DecodeError::Late(reader.rest.len())) }
}

struct Reader<'a> {
    rest: &'a [u8],
    meter: &'a dyn Meter,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Early)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Early)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn count(&mut self) -> Result<usize, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let count = self.count()?;
        let taken = self.take(count)?;
        self.meter.hold(taken.len())?;
        Ok(Bytes::copy_from_slice(taken))
    }

    fn value(&mut self, depth_left: usize) -> Result<Value, DecodeError> {
        self.meter.spend(VALUE_STEPS)?;
        let [tag] = self.array()?;
        Ok(match tag {
            NIL => Value::Nil,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => Value::Int(i64::from_le_bytes(self.array()?)),
            FLOAT => Value::Float(f64::from_le_bytes(self.array()?)),
            BYTES => Value::Bytes(self.bytes()?),
            LIST => {
                let depth_left = depth_left.checked_sub(1).ok_or(DecodeError::Deep)?;
                // Nothing is reserved for what is only said to come.
                let mut items = Vec::new();
                for _ in 0..self.count()? {
                    self.meter.hold(size_of::<Value>())?;
                    items.push(self.value(depth_left)?);
                }
                Value::List(items)
            }
            MAP => {
                let depth_left = depth_left.checked_sub(1).ok_or(DecodeError::Deep)?;
                let mut members = Vec::new();
                for _ in 0..self.count()? {
                    self.meter.hold(size_of::<(Bytes, Value)>())?;
                    let name = self.bytes()?;
                    members.push((name, self.value(depth_left)?));
                }
                Value::Map(members)
            }
            tag => return Err(DecodeError::Tag(tag)),
        })
    }
}

#[cfg(test)]
mod tests {
    use game::host::Unmetered;

    use super::*;

    fn encoded(value: &Value) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.value(value);
        writer.into_bytes()
    }

    #[test]
    fn values_go_there_and_back_and_every_cut_is_refused() {
        let map = Value::Map(vec![
            (Bytes::from_static(b"a"), Value::List(vec![Value::Nil, Value::Bool(true)])),
            (Bytes::from_static(b""), Value::Float(-0.5)),
            (Bytes::from_static(b"a"), Value::text("\u{fc}")),
        ]);
        for value in [map, Value::Int(i64::MIN), Value::Bool(false), Value::List(Vec::new())] {
            let bytes = encoded(&value);
            assert_eq!(decode(&bytes, &Unmetered).as_ref(), Ok(&value));
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut], &Unmetered), Err(DecodeError::Early));
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert_eq!(decode(&longer, &Unmetered), Err(DecodeError::Late(1)));
        }
    }

    #[test]
    fn the_form_is_as_the_convention_says() {
        let value = Value::Map(vec![(Bytes::from_static(b"n"), Value::List(vec![Value::Int(-2)]))]);
        let expected: &[u8] = &[
            7, 1, 0, 0, 0, 1, 0, 0, 0, b'n', 6, 1, 0, 0, 0, 3, 254, 255, 255, 255, 255, 255, 255,
            255,
        ];
        assert_eq!(encoded(&value), expected);
    }

    #[test]
    fn what_is_no_value_is_refused_without_room_for_it() {
        assert_eq!(decode(&[8], &Unmetered), Err(DecodeError::Tag(8)));
        assert_eq!(decode(&[6, 255, 255, 255, 255], &Unmetered), Err(DecodeError::Early));
        assert_eq!(decode(&[5, 255, 255, 255, 255, 0], &Unmetered), Err(DecodeError::Early));
        let nested =
            |depth: usize| (0..depth).fold(Value::Int(1), |value, _| Value::List(vec![value]));
        let deepest = encoded(&nested(TABLE_DEPTH_MAX));
        assert_eq!(decode(&deepest, &Unmetered), Ok(nested(TABLE_DEPTH_MAX)));
        let deeper = [&[6, 1, 0, 0, 0][..], &deepest].concat();
        assert_eq!(decode(&deeper, &Unmetered), Err(DecodeError::Deep));
    }
}
