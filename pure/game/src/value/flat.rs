//! A [`Value`] as a list of parts, each before what is in it: so it is written for another node, and so
//! it is read, without a function that calls itself for every level that somebody has made up.

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{TABLE_DEPTH_MAX, Value};

/// One value without those in it.
#[derive(Serialize, Deserialize)]
enum Part {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(#[serde(with = "crate::plain::bytes")] Bytes),
    /// With so many values behind it.
    List(usize),
    /// With so many names, each before its value, behind it.
    Map(usize),
}

/// A list or map of which not all is read yet.
enum Open {
    List(usize, Vec<Value>),
    Map(usize, Vec<(Bytes, Value)>, Option<Bytes>),
}

impl Open {
    fn is_whole(&self) -> bool {
        match self {
            Self::List(len, items) => items.len() == *len,
            Self::Map(len, members, _) => members.len() == *len,
        }
    }

    fn close(self) -> Value {
        match self {
            Self::List(_, items) => Value::List(items),
            Self::Map(_, members, _) => Value::Map(members),
        }
    }
}

fn flatten(value: &Value, parts: &mut Vec<Part>) {
    // The stack holds what is still to be written, the next on top. Names are written as values.
    enum Next<'a> {
        Value(&'a Value),
        Name(&'a Bytes),
    }
    let mut stack = vec![Next::Value(value)];
    while let Some(next) = stack.pop() {
        parts.push(match next {
            Next::Name(name) => Part::Bytes(name.clone()),
            Next::Value(Value::Nil) => Part::Nil,
            Next::Value(Value::Bool(flag)) => Part::Bool(*flag),
            Next::Value(Value::Int(number)) => Part::Int(*number),
            Next::Value(Value::Float(number)) => Part::Float(*number),
            Next::Value(Value::Bytes(bytes)) => Part::Bytes(bytes.clone()),
            Next::Value(Value::List(items)) => {
                stack.extend(items.iter().rev().map(Next::Value));
                Part::List(items.len())
            }
            Next::Value(Value::Map(members)) => {
                for (name, value) in members.iter().rev() {
                    stack.extend([Next::Value(value), Next::Name(name)]);
                }
                Part::Map(members.len())
            }
        });
    }
}

fn build(parts: Vec<Part>) -> Result<Value, &'static str> {
    let mut open: Vec<Open> = Vec::new();
    let mut parts = parts.into_iter();
    loop {
        let mut value = match parts.next().ok_or("a value ends too early")? {
            Part::Nil => Value::Nil,
            Part::Bool(flag) => Value::Bool(flag),
            Part::Int(number) => Value::Int(number),
            Part::Float(number) => Value::Float(number),
            Part::Bytes(bytes) => match open.last_mut() {
                Some(Open::Map(.., name @ None)) => {
                    *name = Some(bytes);
                    continue;
                }
                _ => Value::Bytes(bytes),
            },
            Part::List(0) => Value::List(Vec::new()),
            Part::Map(0) => Value::Map(Vec::new()),
            Part::List(_) | Part::Map(_) if open.len() >= TABLE_DEPTH_MAX => {
                return Err("a value is too deep");
            }
            // Nothing is reserved for what is only said to come.
            Part::List(len) => {
                if matches!(open.last(), Some(Open::Map(.., None))) {
                    return Err("a map has a name that is no text");
                }
                open.push(Open::List(len, Vec::new()));
                continue;
            }
            Part::Map(len) => {
                if matches!(open.last(), Some(Open::Map(.., None))) {
                    return Err("a map has a name that is no text");
                }
                open.push(Open::Map(len, Vec::new(), None));
                continue;
            }
        };
        loop {
            match open.last_mut() {
                None if parts.next().is_none() => return Ok(value),
                None => return Err("a value goes on behind its end"),
                Some(Open::List(_, items)) => items.push(value),
                Some(Open::Map(_, members, name)) => {
                    let name = name.take().ok_or("a map has a name that is no text")?;
                    members.push((name, value));
                }
            }
            match open.pop_if(|open| open.is_whole()) {
                Some(whole) => value = whole.close(),
                None => break,
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut parts = Vec::new();
        flatten(self, &mut parts);
        parts.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        build(Vec::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, TABLE_DEPTH_MAX, Value, build, flatten};

    fn again(value: &Value) -> Result<Value, &'static str> {
        let mut parts = Vec::new();
        flatten(value, &mut parts);
        build(parts)
    }

    #[test]
    fn values_come_back_as_they_were() {
        let map = |members: &[(&'static str, Value)]| {
            let member = |(name, value): &(&'static str, Value)| ((*name).into(), value.clone());
            Value::Map(members.iter().map(member).collect())
        };
        let empty = [Value::List(Vec::new()), Value::Map(Vec::new()), Value::Nil];
        let some = [Value::Bool(true), Value::Int(-3), Value::Float(0.5), Value::text("x")];
        let list = Value::List([&empty[..], &some[..]].concat());
        let all = map(&[("a", list.clone()), ("", map(&[("b", list)])), ("c", Value::Nil)]);
        for value in empty.iter().chain(&some).chain([&all]) {
            assert_eq!(again(value).as_ref(), Ok(value));
        }
    }

    #[test]
    fn what_no_value_is_written_as_is_refused() {
        let name = || Part::Bytes("name".into());
        let no_text = "a map has a name that is no text";
        for (parts, error) in [
            (vec![], "a value ends too early"),
            (vec![Part::List(2), Part::Nil], "a value ends too early"),
            (vec![Part::Map(usize::MAX), name()], "a value ends too early"),
            (vec![Part::Nil, Part::Nil], "a value goes on behind its end"),
            (vec![Part::Map(1), Part::Nil], no_text),
            (vec![Part::Map(1), Part::List(1), Part::Nil], no_text),
            (vec![Part::Map(1), Part::Map(1), name(), Part::Nil], no_text),
            (vec![Part::Map(1), Part::List(0)], no_text),
        ] {
            assert_eq!(build(parts), Err(error));
        }
        let nested =
            |depth: usize| (0..depth).fold(Value::Int(1), |value, _| Value::List(vec![value]));
        let deepest = nested(TABLE_DEPTH_MAX);
        assert_eq!(again(&deepest).as_ref(), Ok(&deepest));
        assert_eq!(again(&nested(TABLE_DEPTH_MAX + 1)), Err("a value is too deep"));
    }
}
