//! Values on their way between game and server, and the bytes that they are then.
//!
//! The form is that of docs/wasm/convention.md, version 1.

use std::fmt;

/// Plain data, as the server's functions take and return it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing.
    #[default]
    Nil,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string: text or bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// Names and values, in order.
    Map(Vec<(String, Value)>),
}

/// Bytes that are no value: server and SDK do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadValue;

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a value")
    }
}

impl Value {
    /// A map of these names and values.
    pub fn map<const N: usize>(members: [(&str, Value); N]) -> Self {
        Self::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The text in this value, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Bytes(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// The whole number in this value, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The flag in this value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Value] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// The member `name` of a map.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Sets the member `name` of a map; of anything else nothing happens.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let Self::Map(members) = self else { return };
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => members.push((name.to_owned(), value.into())),
        }
    }

    /// The JSON text of this value. Bytes that are no text have U+FFFD in their place, as have numbers that JSON does not
    /// have null.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text);
        text
    }

    fn write_json(&self, to: &mut String) {
        match self {
            Self::Nil => to.push_str("null"),
            Self::Bool(flag) => to.push_str(if *flag { "true" } else { "false" }),
            Self::Int(number) => to.push_str(&number.to_string()),
            Self::Float(number) if !number.is_finite() => to.push_str("null"),
            Self::Float(number) => to.push_str(&number.to_string()),
            Self::Bytes(bytes) => json_string(&String::from_utf8_lossy(bytes), to),
            Self::List(items) => {
                to.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        to.push(',');
                    }
                    item.write_json(to);
                }
                to.push(']');
            }
            Self::Map(members) => {
                to.push('{');
                for (index, (name, member)) in members.iter().enumerate() {
                    if index > 0 {
                        to.push(',');
                    }
                    json_string(name, to);
                    to.push(':');
                    member.write_json(to);
                }
                to.push('}');
            }
        }
    }

    /// Appends the bytes of this value.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Nil => to.push(0),
            Self::Bool(false) => to.push(1),
            Self::Bool(true) => to.push(2),
            Self::Int(number) => {
                to.push(3);
                to.extend_from_slice(&number.to_le_bytes());
            }
            Self::Float(number) => {
                to.push(4);
                to.extend_from_slice(&number.to_le_bytes());
            }
            Self::Bytes(bytes) => {
                to.push(5);
                name(bytes, to);
            }
            Self::List(items) => {
                to.push(6);
                count(items.len(), to);
                items.iter().for_each(|item| item.encode(to));
            }
            Self::Map(members) => {
                to.push(7);
                count(members.len(), to);
                for (text, value) in members {
                    name(text.as_bytes(), to);
                    value.encode(to);
                }
            }
        }
    }

    /// The value that these bytes are.
    ///
    /// # Errors
    /// They are none.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, BadValue> {
        let value = read(&mut bytes)?;
        if bytes.is_empty() { Ok(value) } else { Err(BadValue) }
    }
}

fn json_string(text: &str, to: &mut String) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            control if control < ' ' => to.push_str(&format!("\\u{:04x}", u32::from(control))),
            letter => to.push(letter),
        }
    }
    to.push('"');
}

fn count(count: usize, to: &mut Vec<u8>) {
    // Memory has 4 GiB at most here.
    to.extend_from_slice(&(count as u32).to_le_bytes());
}

fn name(bytes: &[u8], to: &mut Vec<u8>) {
    count(bytes.len(), to);
    to.extend_from_slice(bytes);
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], BadValue> {
    let (taken, rest) = from.split_first_chunk().ok_or(BadValue)?;
    *from = rest;
    Ok(*taken)
}

fn read_count(from: &mut &[u8]) -> Result<usize, BadValue> {
    Ok(u32::from_le_bytes(take(from)?) as usize)
}

fn read_bytes<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], BadValue> {
    let count = read_count(from)?;
    let (taken, rest) = from.split_at_checked(count).ok_or(BadValue)?;
    *from = rest;
    Ok(taken)
}

/// Reads the head of a list: how many values follow that are in it.
pub(crate) fn read_list(from: &mut &[u8]) -> Result<usize, BadValue> {
    if take(from)? == [6] { read_count(from) } else { Err(BadValue) }
}

/// Reads a string, and copies nothing.
pub(crate) fn read_string<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], BadValue> {
    if take(from)? == [5] { read_bytes(from) } else { Err(BadValue) }
}

/// Passes over a value, whose bytes it gives.
pub(crate) fn skip<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], BadValue> {
    fn pass(from: &mut &[u8]) -> Result<(), BadValue> {
        match take(from)? {
            [0..=2] => {}
            [3 | 4] => drop(take::<8>(from)?),
            [5] => drop(read_bytes(from)?),
            [tag @ (6 | 7)] => {
                for _ in 0..read_count(from)? {
                    if tag == 7 {
                        read_bytes(from)?;
                    }
                    pass(from)?;
                }
            }
            _ => return Err(BadValue),
        }
        Ok(())
    }
    let start = *from;
    pass(from)?;
    start.get(..start.len() - from.len()).ok_or(BadValue)
}

/// Reads a value.
pub(crate) fn read(from: &mut &[u8]) -> Result<Value, BadValue> {
    let [tag] = take(from)?;
    Ok(match tag {
        0 => Value::Nil,
        1 => Value::Bool(false),
        2 => Value::Bool(true),
        3 => Value::Int(i64::from_le_bytes(take(from)?)),
        4 => Value::Float(f64::from_le_bytes(take(from)?)),
        5 => Value::Bytes(read_bytes(from)?.to_vec()),
        6 => {
            let count = read_count(from)?;
            Value::List((0..count).map(|_| read(from)).collect::<Result<_, _>>()?)
        }
        7 => {
            let mut members = Vec::new();
            for _ in 0..read_count(from)? {
                let name = std::str::from_utf8(read_bytes(from)?).map_err(|_| BadValue)?;
                members.push((name.to_owned(), read(from)?));
            }
            Value::Map(members)
        }
        _ => return Err(BadValue),
    })
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nil, Into::into)
    }
}
