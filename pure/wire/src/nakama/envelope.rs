//! The envelope of every message on the socket, in JSON and protobuf.
//!
//! In: one frame. Out: an [`Envelope`], or a [`DecodeError`] that tells what to answer. Unknown
//! fields are ignored within messages and beside a known one, because old clients echo what they
//! were sent.

use std::fmt;

use prost::Message as _;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::field::Object;
use super::json::{Style, same_name, text_is_wrong};
use super::match_data::read_match_data_send;
use super::realtime::{Message, NAMES};
use crate::excerpt::{excerpt, reason};

/// One message and the number that joins an answer to its question.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Envelope {
    /// Chosen by the asker, repeated in the answer; empty when no answer is wanted, and in events.
    #[prost(string, tag = "1")]
    pub cid: String,
    /// What is said; nothing is the plain acknowledgement.
    #[prost(
        oneof = "Message",
        tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, \
                24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, \
                44, 45, 46, 47, 48, 49, 50, 51"
    )]
    pub message: Option<Message>,
}

/// Why a frame holds no message. Texts are for logs; what clients are told is the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON or protobuf, or a field of the wrong type. Of the peer's text it has an excerpt.
    #[error("malformed message: {0}")]
    Malformed(String),
    /// An envelope without a message.
    #[error("missing message")]
    Missing {
        /// To answer with.
        cid: String,
    },
    /// An envelope with more than one message.
    #[error("more than one message: {first} and {second}")]
    Several {
        /// The first.
        first: &'static str,
        /// The second.
        second: &'static str,
    },
    /// An envelope with a message that is not in the protocol, and no other.
    #[error("unknown message {name:?}")]
    Unknown {
        /// To answer with.
        cid: String,
        /// Its name in JSON, at most 64 characters; its number in protobuf.
        name: String,
    },
}

impl Envelope {
    /// An answer or event. `cid` is empty for events.
    #[must_use]
    pub fn new(cid: impl Into<String>, message: Message) -> Self {
        Self { cid: cid.into(), message: Some(message) }
    }

    /// The acknowledgement of the request `cid`.
    #[must_use]
    pub fn ack(cid: impl Into<String>) -> Self {
        Self { cid: cid.into(), message: None }
    }

    /// Reads the payload of a text frame. The message of the result is always set.
    ///
    /// # Errors
    /// What the frame lacks; see [`DecodeError`].
    pub fn decode_json(json: &[u8]) -> Result<Self, DecodeError> {
        match read_match_data_send(json) {
            Some(message) => Ok(Self::new("", Message::MatchDataSend(message))),
            None => Self::decode_any_json(json),
        }
    }

    /// The general way, for all messages in all forms.
    pub(super) fn decode_any_json(json: &[u8]) -> Result<Self, DecodeError> {
        let parts: Parts =
            serde_json::from_slice(json).map_err(|error| DecodeError::Malformed(reason(&error)))?;
        match (parts.message, parts.second, parts.unknown) {
            (Some(first), Some(second), _) => {
                Err(DecodeError::Several { first: first.name(), second })
            }
            (Some(message), None, _) => Ok(Self { cid: parts.cid, message: Some(message) }),
            (None, _, Some(name)) => Err(DecodeError::Unknown { cid: parts.cid, name }),
            (None, _, None) => Err(DecodeError::Missing { cid: parts.cid }),
        }
    }

    /// Reads the payload of a binary frame. The message of the result is always set; of several,
    /// the last counts, as protobuf has it.
    ///
    /// # Errors
    /// What the frame lacks; see [`DecodeError`].
    pub fn decode_protobuf(bytes: &[u8]) -> Result<Self, DecodeError> {
        let envelope =
            Self::decode(bytes).map_err(|error| DecodeError::Malformed(reason(&error)))?;
        if envelope.message.is_some() {
            return Ok(envelope);
        }
        let cid = envelope.cid;
        Err(match unknown_field(bytes) {
            Some(number) => DecodeError::Unknown { cid, name: number.to_string() },
            None => DecodeError::Missing { cid },
        })
    }

    /// Appends the payload of a text frame.
    pub fn encode_json(&self, out: &mut Vec<u8>) {
        self.write_json(out, Style::SNAKE);
    }

    /// Appends the envelope as JSON of a style: what clients or hooks see.
    pub fn write_json(&self, out: &mut Vec<u8>, style: Style) {
        let mut object = Object::open(out, style);
        object.field("\"cid\":", &self.cid, false);
        if let Some(message) = &self.message {
            message.write(&mut object);
        }
        object.close();
    }

    /// Appends the payload of a binary frame.
    pub fn encode_protobuf(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        self.encode_raw(out);
    }
}

/// The number of the first field that is not the cid, in bytes that decoded before.
fn unknown_field(mut bytes: &[u8]) -> Option<u32> {
    while !bytes.is_empty() {
        let (number, wire_type) = prost::encoding::decode_key(&mut bytes).ok()?;
        if number != 1 {
            return Some(number);
        }
        let context = prost::encoding::DecodeContext::default();
        prost::encoding::skip_field(wire_type, number, &mut bytes, context).ok()?;
    }
    None
}

/// What a JSON envelope holds, before it is judged.
#[derive(Default)]
struct Parts {
    cid: String,
    message: Option<Message>,
    second: Option<&'static str>,
    unknown: Option<String>,
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts;

    text_is_wrong!("an envelope");

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let mut parts = Parts::default();
        let (mut has_cid, mut seen) = (false, 0_u64);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Cid if has_cid => return Err(de::Error::duplicate_field("cid")),
                Key::Cid => {
                    has_cid = true;
                    parts.cid = map.next_value::<Option<String>>()?.unwrap_or_default();
                }
                Key::Message(index) => {
                    let name = NAMES[index];
                    if seen & (1 << index) != 0 {
                        return Err(de::Error::duplicate_field(name));
                    }
                    seen |= 1 << index;
                    let message = Message::read(index, &mut map)?;
                    if parts.message.is_none() {
                        parts.message = message;
                    } else if message.is_some() {
                        parts.second = Some(name);
                    }
                }
                Key::Unknown(name) => {
                    map.next_value::<IgnoredAny>()?;
                    parts.unknown.get_or_insert(name);
                }
            }
        }
        Ok(parts)
    }
}

enum Key {
    Cid,
    /// Index into [`NAMES`].
    Message(usize),
    /// At most 64 characters of it.
    Unknown(String),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a message")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Key, E> {
        if name == "cid" {
            return Ok(Key::Cid);
        }
        // Exact names first: only camelCase has to be compared letter by letter.
        let exact = Message::index_of(name);
        Ok(match exact.or_else(|| NAMES.iter().position(|known| same_name(known, name))) {
            Some(index) => Key::Message(index),
            None => Key::Unknown(excerpt(name).to_owned()),
        })
    }
}
