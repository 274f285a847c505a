//! Messages as structs, to and from the values that the server takes and gives. What a hook sees has the names and forms
//! of Nakama's Lua, and so have the results of functions: what is JSON text in a message is a table there, a time is a
//! number of seconds, and a user's id is called `user_id`.
//!
//! The messages themselves are made from the server's tables (`api`, `rtapi`).

use std::collections::BTreeMap;

use crate::{Error, Result, Value};

/// A message of Nakama.
pub trait ApiMessage: Sized {
    /// Reads it. Names that it does not have are passed over; what is not there is unset.
    ///
    /// # Errors
    /// A member is not of its type.
    fn read(value: &Value) -> Result<Self>;

    /// The value that the server is given for it. What is zero or unset is left out.
    fn value(&self) -> Value;
}

/// Bytes, which are base64 in messages.
pub type Bytes = Vec<u8>;

/// A moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds behind them, below a milliard.
    pub nanos: u32,
}

/// The type of a member.
pub(crate) trait Field: Sized {
    fn read(value: &Value) -> Result<Self>;

    /// `None` for what is left out.
    fn member(&self) -> Option<Value>;

    /// As an item of a list, or set on purpose.
    fn set(&self) -> Value {
        self.member().unwrap_or_default()
    }
}

fn wrong<T>(value: &Value, what: &str) -> Result<T> {
    let is = match value {
        Value::Nil => "nil",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::Float(_) => "a number",
        Value::Bytes(_) => "a string",
        Value::List(_) => "a list",
        Value::Map(_) => "a table",
    };
    Err(Error::from(format!("{is} is no {what}")))
}

impl Field for bool {
    fn read(value: &Value) -> Result<Self> {
        value.as_bool().map_or_else(|| wrong(value, "boolean"), Ok)
    }

    fn member(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }

    fn set(&self) -> Value {
        Value::Bool(*self)
    }
}

/// A whole number: of 64 bits it is text in messages.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Some(*number as i64)
        }
        text => text.as_str()?.parse().ok(),
    }
}

macro_rules! whole_numbers {
    ($($type:ty)+) => {
        $(
            impl Field for $type {
                fn read(value: &Value) -> Result<Self> {
                    let number = whole(value).and_then(|number| number.try_into().ok());
                    number.map_or_else(|| wrong(value, stringify!($type)), Ok)
                }

                fn member(&self) -> Option<Value> {
                    (*self != 0).then(|| self.set())
                }

                fn set(&self) -> Value {
                    Value::Int((*self).into())
                }
            }
        )+
    };
}

whole_numbers! { i32 i64 }

impl Field for f64 {
    fn read(value: &Value) -> Result<Self> {
        match value {
            Value::Int(number) => Ok(*number as f64),
            Value::Float(number) => Ok(*number),
            _ => wrong(value, "number"),
        }
    }

    fn member(&self) -> Option<Value> {
        (*self != 0.0).then_some(Value::Float(*self))
    }

    fn set(&self) -> Value {
        Value::Float(*self)
    }
}

impl Field for String {
    fn read(value: &Value) -> Result<Self> {
        match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None if matches!(value, Value::Bytes(_)) => wrong(value, "text"),
            // What is JSON text in a message is a table in what functions give.
            None => Ok(value.to_json()),
        }
    }

    fn member(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.set())
    }

    fn set(&self) -> Value {
        self.as_str().into()
    }
}

impl Field for Bytes {
    fn read(value: &Value) -> Result<Self> {
        let data = value.as_str().and_then(base64::decode);
        data.map_or_else(|| wrong(value, "base64"), Ok)
    }

    fn member(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.set())
    }

    fn set(&self) -> Value {
        base64::encode(self).into()
    }
}

impl Field for Timestamp {
    fn read(value: &Value) -> Result<Self> {
        match value {
            Value::Int(seconds) => Ok(Self { seconds: *seconds, nanos: 0 }),
            _ => value.as_str().and_then(rfc3339::read).map_or_else(|| wrong(value, "time"), Ok),
        }
    }

    fn member(&self) -> Option<Value> {
        Some(rfc3339::write(*self).into())
    }
}

impl<T: Field> Field for Option<T> {
    fn read(value: &Value) -> Result<Self> {
        if *value == Value::Nil { Ok(None) } else { T::read(value).map(Some) }
    }

    fn member(&self) -> Option<Value> {
        self.as_ref().map(Field::set)
    }
}

impl<T: Field + ApiMessage> Field for Vec<T> {
    fn read(value: &Value) -> Result<Self> {
        list(value, <T as Field>::read)
    }

    fn member(&self) -> Option<Value> {
        (!self.is_empty()).then(|| Value::List(self.iter().map(Field::set).collect()))
    }
}

impl Field for Vec<String> {
    fn read(value: &Value) -> Result<Self> {
        list(value, <String as Field>::read)
    }

    fn member(&self) -> Option<Value> {
        (!self.is_empty()).then(|| Value::List(self.iter().map(Field::set).collect()))
    }
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    match value {
        Value::List(items) => items.iter().map(read).collect(),
        // An empty table of Lua's.
        Value::Map(members) if members.is_empty() => Ok(Vec::new()),
        _ => wrong(value, "list"),
    }
}

impl<T: Field> Field for BTreeMap<String, T> {
    fn read(value: &Value) -> Result<Self> {
        match value {
            Value::Map(members) => {
                members.iter().map(|(name, member)| Ok((name.clone(), T::read(member)?))).collect()
            }
            Value::List(items) if items.is_empty() => Ok(Self::new()),
            _ => wrong(value, "table"),
        }
    }

    fn member(&self) -> Option<Value> {
        let members = self.iter().map(|(name, member)| (name.clone(), member.set()));
        (!self.is_empty()).then(|| Value::Map(members.collect()))
    }
}

/// The member `name` of a message; what functions give calls a user's id `user_id`.
pub(crate) fn read_field<T: Field + Default>(value: &Value, name: &str) -> Result<T> {
    let member = match value {
        Value::Map(_) => value.get(name).or_else(|| value.get("user_id").filter(|_| name == "id")),
        Value::List(items) if items.is_empty() => None,
        _ => return wrong(value, "message"),
    };
    match member {
        None | Some(Value::Nil) => Ok(T::default()),
        Some(member) => {
            T::read(member).map_err(|error| Error::new(error.code, format!("{name}: {error}")))
        }
    }
}

/// Declares messages: `name: type = "its name in values"`.
macro_rules! messages {
    ($(
        #[doc = $doc:literal]
        $message:ident { $( #[doc = $field_doc:literal] $field:ident: $type:ty = $name:literal, )* }
    )+) => {
        $(
            #[doc = $doc]
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $message {
                $( #[doc = $field_doc] pub $field: $type, )*
            }

            #[allow(unused_variables, reason = "messages without members")]
            impl $crate::message::ApiMessage for $message {
                fn read(value: &$crate::Value) -> $crate::Result<Self> {
                    Ok(Self { $( $field: $crate::message::read_field(value, $name)?, )* })
                }

                fn value(&self) -> $crate::Value {
                    let members: Vec<Option<(String, $crate::Value)>> = vec![$(
                        $crate::message::Field::member(&self.$field)
                            .map(|member| ($name.to_owned(), member)),
                    )*];
                    $crate::Value::Map(members.into_iter().flatten().collect())
                }
            }

            impl $crate::message::Field for $message {
                fn read(value: &$crate::Value) -> $crate::Result<Self> {
                    $crate::message::ApiMessage::read(value)
                }

                fn member(&self) -> Option<$crate::Value> {
                    Some($crate::message::ApiMessage::value(self))
                }
            }
        )+
    };
}

/// Declares what an envelope of the socket may hold: `Variant(Message) "its name in values"`.
macro_rules! envelope {
    ($( $variant:ident($message:ident) $name:literal, )+) => {
        /// What an envelope holds.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Content {
            $( #[doc = concat!("`", $name, "`")] $variant($message), )+
        }

        /// The names of all that an envelope may hold, for [`crate::Initializer::before_rt`].
        pub const MESSAGES: &[&str] = &[$( stringify!($variant) ),+];

        /// One message, and what joins an answer to its question.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Envelope {
            /// Chosen by the asker; empty in events.
            pub cid: String,
            /// The message; nothing is a plain acknowledgement.
            pub message: Option<Content>,
        }

        impl $crate::message::ApiMessage for Envelope {
            fn read(value: &$crate::Value) -> $crate::Result<Self> {
                let cid = $crate::message::read_field(value, "cid")?;
                $(
                    if let Some(message) = $crate::message::read_field::<Option<$message>>(value, $name)? {
                        return Ok(Self { cid, message: Some(Content::$variant(message)) });
                    }
                )+
                Ok(Self { cid, message: None })
            }

            fn value(&self) -> $crate::Value {
                let mut members = Vec::new();
                if !self.cid.is_empty() {
                    members.push(("cid".to_owned(), self.cid.as_str().into()));
                }
                if let Some(message) = &self.message {
                    members.push(match message {
                        $( Content::$variant(message) => {
                            ($name.to_owned(), $crate::message::ApiMessage::value(message))
                        } )+
                    });
                }
                $crate::Value::Map(members)
            }
        }
    };
}

pub(crate) use {envelope, messages};

/// Base64 with the standard alphabet, padded.
mod base64 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    pub(super) fn encode(data: &[u8]) -> String {
        let mut text = String::with_capacity(data.len().div_ceil(3) * 4);
        for three in data.chunks(3) {
            let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or_default());
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for place in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
                text.push(if place > three.len() { '=' } else { char::from(letter) });
            }
        }
        text
    }

    pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
        let letters = text.trim_end_matches('=').as_bytes();
        let mut data = Vec::with_capacity(letters.len() * 3 / 4);
        for four in letters.chunks(4) {
            let mut bits = 0;
            for letter in four {
                let value = LETTERS.iter().position(|known| known == letter)?;
                bits = bits << 6 | value as u32;
            }
            bits <<= 6 * (4 - four.len());
            let bytes = bits.to_be_bytes();
            data.extend_from_slice(bytes.get(1..four.len())?);
        }
        Some(data)
    }
}

/// Times as RFC 3339 has them, in UTC.
mod rfc3339 {
    use super::Timestamp;

    const DAY_S: i64 = 86_400;

    /// Days since 1970 of a date of the Gregorian calendar, counted in years that begin with March.
    fn days_of(year: i64, month: i64, day: i64) -> i64 {
        let year = if month <= 2 { year - 1 } else { year };
        let since_march = (month + 9) % 12;
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        365 * year + leap_days + (153 * since_march + 2) / 5 + day - 1 - 719_468
    }

    pub(super) fn read(text: &str) -> Option<Timestamp> {
        let (date, rest) = text.split_once('T')?;
        let rest = rest.strip_suffix('Z')?;
        let (time, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        let numbers = |text: &str, mark: char| -> Option<[i64; 3]> {
            let parts: Option<Vec<i64>> = text.split(mark).map(|part| part.parse().ok()).collect();
            parts?.try_into().ok()
        };
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time, ':')?;
        if !(1..=12).contains(&month) || fraction.len() > 9 {
            return None;
        }
        let nanos = format!("{fraction:0<9}").parse().ok()?;
        let seconds = days_of(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second;
        Some(Timestamp { seconds, nanos })
    }

    pub(super) fn write(moment: Timestamp) -> String {
        let (days, rest) = (moment.seconds.div_euclid(DAY_S), moment.seconds.rem_euclid(DAY_S));
        // The year that has the day, by the mean length of years, which is off by one at most.
        let mut year = 1970 + days * 400 / 146_097;
        while days_of(year + 1, 1, 1) <= days {
            year += 1;
        }
        while days_of(year, 1, 1) > days {
            year -= 1;
        }
        let month = (1..=12).rev().find(|month| days_of(year, *month, 1) <= days).unwrap_or(1);
        let day = days - days_of(year, month, 1) + 1;
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
        let fraction = match moment.nanos {
            0 => String::new(),
            nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("1969-12-31T23:59:59.5Z", -1, 500_000_000),
            ("2000-02-29T12:30:01Z", 951_827_401, 0),
            ("2024-03-01T00:00:00.000000001Z", 1_709_251_200, 1),
            ("2100-12-31T23:59:59Z", 4_133_980_799, 0),
        ] {
            let moment = Timestamp { seconds, nanos };
            assert_eq!(rfc3339::read(text), Some(moment), "{text}");
            assert_eq!(rfc3339::write(moment), text);
        }
        for text in ["", "2024-13-01T00:00:00Z", "2024-01-01", "2024-01-01T00:00Z"] {
            assert_eq!(rfc3339::read(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_are_base64() {
        for (data, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64::encode(data.as_bytes()), text);
            assert_eq!(base64::decode(text), Some(data.as_bytes().to_vec()));
        }
        assert_eq!(base64::decode("Z!=="), None);
    }
}
