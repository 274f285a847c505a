//! How a message is declared: once, its fields with their protobuf numbers, types and documentation.
//! From that follow the struct, JSON and protobuf in both directions, what a query string or path
//! gives, and what a reference page says ([`MessageInfo`]). All of it is straight code for each
//! message; nothing looks a field up by reflection.
//!
//! ```text
//! messages! {
//!     /// What it is.
//!     ChannelJoin {
//!         /// Name of the room, or id of the group or user.
//!         1 target: String,
//!         2 kind: i32 = "type",                     // the name where Rust has the word taken
//!         3 persistence: Option<bool>,              // a wrapper, or a message
//!         4 match_id: Option<String> as oneof(id),  // one of a choice, and the choice's name
//!     }
//!     /// What is declared within another message in Nakama.
//!     Inner in ChannelJoin {
//!     }
//! }
//! ```
//!
//! The type of a field decides its forms: see `field::Field` for JSON, `proto` for protobuf.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor,
};

use super::field::Object;
use super::json::{Style, same_name, text_is_wrong};
use crate::query::{QueryString, QueryStringError};

/// What is known of a message's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageInfo {
    /// Its name in Nakama.
    pub name: &'static str,
    /// The message within which Nakama declares it, if there is one.
    pub within: Option<&'static str>,
    /// The module of this crate that declares it, which tells Nakama's `api` from its `rtapi`.
    pub module: &'static str,
    /// What it is: sentences of Markdown.
    pub doc: &'static str,
    /// Its fields, in the order in which they are written.
    pub fields: &'static [FieldInfo],
}

/// What is known of a field's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// In protobuf.
    pub number: u32,
    /// In JSON, in snake_case.
    pub name: &'static str,
    /// What it is: sentences of Markdown.
    pub doc: &'static str,
    /// Its type.
    pub kind: FieldType,
    /// The name of the choice of which it is one.
    pub choice: Option<&'static str>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A boolean.
    Bool,
    /// A whole number of 32 bits; a number in JSON.
    Int32,
    /// A whole number of 64 bits; a string in JSON.
    Int64,
    /// A number of double precision.
    Double,
    /// Text.
    Text,
    /// Bytes; base64 in JSON.
    Bytes,
    /// A moment; RFC 3339 text in JSON.
    Time,
    /// Another message.
    Message(&'static MessageInfo),
    /// What may be unset, which is not the same as zero.
    Optional(&'static FieldType),
    /// A list.
    List(&'static FieldType),
    /// An object with any names.
    Map(&'static FieldType),
}

/// A declared message.
pub trait ProtoMessage: prost::Message + DeserializeOwned + Clone + Default + PartialEq {
    /// Its declaration.
    const INFO: MessageInfo;

    /// Appends its JSON form.
    fn write_json(&self, out: &mut Vec<u8>, style: Style);

    /// Takes what a query string has of its fields; the rest stays as it is.
    ///
    /// # Errors
    /// [`QueryStringError`] of a field whose value is not of its type, or given twice.
    fn read_query(&mut self, query: QueryString<'_>) -> Result<(), QueryStringError>;

    /// Sets a field of text, such as a path has; nothing, if there is no such field.
    fn set_text(&mut self, name: &str, text: &str);

    /// Reads one field from a JSON text: the body of a request that is not the whole message.
    ///
    /// # Errors
    /// The decoder's, also when there is no such field.
    fn read_field_json(&mut self, name: &str, json: &[u8]) -> Result<(), serde_json::Error>;
}

/// What the JSON form needs to know of a message.
pub(super) trait JsonMessage: Default {
    /// The fields' names in snake_case, at most 32.
    const FIELDS: &'static [&'static str];

    /// Reads the field at `index` of [`Self::FIELDS`].
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        index: usize,
        map: &mut A,
    ) -> Result<(), A::Error>;

    /// Writes all fields that are set, or all, as the object's style wants it.
    fn write_fields(&self, object: &mut Object<'_>);
}

/// Reads a message from a JSON object.
pub(super) struct MessageVisitor<T>(pub(super) PhantomData<T>);

impl<'de, T: JsonMessage> Visitor<'de> for MessageVisitor<T> {
    type Value = T;

    text_is_wrong!("an object");

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        const { assert!(T::FIELDS.len() <= u32::BITS as usize, "a bit for each field") }
        let mut message = T::default();
        let mut seen = 0_u32;
        while let Some(index) = map.next_key_seed(NameSeed(T::FIELDS))? {
            let Some(index) = index else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let bit = 1 << index;
            if seen & bit != 0 {
                return Err(de::Error::duplicate_field(T::FIELDS[index]));
            }
            seen |= bit;
            message.read_field(index, &mut map)?;
        }
        Ok(message)
    }
}

/// Finds a name in a list, in either spelling.
struct NameSeed(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: de::Error>(self, found: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| same_name(name, found)))
    }
}

/// The JSON name of a field: its own, or the one given after `=` where Rust has the word taken.
macro_rules! field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// The functions of a field's protobuf form: those of its type, or of a choice.
macro_rules! proto_field {
    ([] $function:ident($field:expr $(, $argument:expr)*)) => {
        $crate::nakama::proto::ProtoField::$function($field $(, $argument)*)
    };
    ([$kind:ident] $function:ident($field:expr $(, $argument:expr)*)) => {
        $crate::nakama::proto::$kind::$function($field $(, $argument)*)
    };
}

/// Whether a field that is not set is written where all fields are: one of a choice is not.
macro_rules! is_always_written {
    ([]) => {
        true
    };
    ([oneof]) => {
        false
    };
}

/// The text of a name, if there is one.
macro_rules! optional_name {
    () => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

/// Declares messages; see the head of this file.
macro_rules! messages {
    (
        $(
            $(#[doc = $doc:literal])+
            $message:ident $(in $parent:ident)? {
                $(
                    $(#[doc = $field_doc:literal])+
                    $number:literal $field:ident : $type:ty $(= $name:literal)?
                        $(as $kind:ident($choice:ident))?
                ),* $(,)?
            }
        )*
    ) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $message {
                $( $(#[doc = $field_doc])+ pub $field: $type, )*
            }

            $crate::nakama::message::json_forms!(
                $message { $( $field [$($name)?] [$($kind)?] )* }
            );
            $crate::nakama::message::protobuf_forms!(
                $message { $( $number $field [$($kind)?] )* }
            );

            #[allow(unused_variables, reason = "empty messages")]
            impl $crate::nakama::message::ProtoMessage for $message {
                const INFO: $crate::nakama::message::MessageInfo =
                    $crate::nakama::message::MessageInfo {
                        name: stringify!($message),
                        within: $crate::nakama::message::optional_name!($($parent)?),
                        module: module_path!(),
                        doc: concat!($($doc),+),
                        fields: &[$(
                            $crate::nakama::message::FieldInfo {
                                number: $number,
                                name: $crate::nakama::message::field_name!($field $($name)?),
                                doc: concat!($($field_doc),+),
                                kind: <$type as $crate::nakama::field::Field>::KIND,
                                choice: $crate::nakama::message::optional_name!($($choice)?),
                            }
                        ),*],
                    };

                fn write_json(&self, out: &mut Vec<u8>, style: $crate::nakama::json::Style) {
                    $crate::nakama::field::Field::write(self, out, style);
                }

                fn read_query(
                    &mut self,
                    query: $crate::query::QueryString<'_>,
                ) -> Result<(), $crate::query::QueryStringError> {
                    $(
                        if let Some(value) = $crate::nakama::field::Field::from_query(
                            query,
                            $crate::nakama::message::field_name!($field $($name)?),
                        )? {
                            self.$field = value;
                        }
                    )*
                    Ok(())
                }

                fn set_text(&mut self, name: &str, text: &str) {
                    match name {
                        $(
                            $crate::nakama::message::field_name!($field $($name)?) => {
                                if let Some(value) = $crate::nakama::field::Field::from_text(text) {
                                    self.$field = value;
                                }
                            }
                        )*
                        _ => {}
                    }
                }

                fn read_field_json(
                    &mut self,
                    name: &str,
                    json: &[u8],
                ) -> Result<(), serde_json::Error> {
                    match name {
                        $(
                            $crate::nakama::message::field_name!($field $($name)?) => {
                                self.$field = $crate::nakama::field::Field::read_body(json)?;
                                Ok(())
                            }
                        )*
                        _ => Err(serde::de::Error::unknown_field(name, &[])),
                    }
                }
            }
        )*
    };
}

/// The JSON half of [`messages!`].
macro_rules! json_forms {
    ($message:ident { $( $field:ident [$($name:literal)?] [$($kind:ident)?] )* }) => {
        #[allow(unused_variables, unused_mut, unused_assignments, reason = "empty messages")]
        impl $crate::nakama::message::JsonMessage for $message {
            const FIELDS: &'static [&'static str] =
                &[$( $crate::nakama::message::field_name!($field $($name)?) ),*];

            fn read_field<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                index: usize,
                map: &mut A,
            ) -> Result<(), A::Error> {
                let mut at = 0;
                $(
                    if index == at {
                        self.$field = map.next_value_seed(
                            $crate::nakama::field::In(std::marker::PhantomData),
                        )?;
                    }
                    at += 1;
                )*
                Ok(())
            }

            fn write_fields(&self, object: &mut $crate::nakama::field::Object<'_>) {
                $(
                    object.field(
                        concat!(
                            "\"", $crate::nakama::message::field_name!($field $($name)?), "\":"
                        ),
                        &self.$field,
                        $crate::nakama::message::is_always_written!([$($kind)?]),
                    );
                )*
            }
        }

        impl $crate::nakama::field::Field for $message {
            const KIND: $crate::nakama::message::FieldType = $crate::nakama::message::FieldType::Message(
                &<$message as $crate::nakama::message::ProtoMessage>::INFO,
            );

            fn is_unset(&self) -> bool {
                false
            }

            fn write(&self, out: &mut Vec<u8>, style: $crate::nakama::json::Style) {
                let mut object = $crate::nakama::field::Object::open(out, style);
                $crate::nakama::message::JsonMessage::write_fields(self, &mut object);
                object.close();
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::Deserialize::deserialize(deserializer)
            }

            fn read_body(json: &[u8]) -> Result<Self, serde_json::Error> {
                if json.trim_ascii().is_empty() {
                    return Ok(Self::default());
                }
                serde_json::from_slice(json)
            }
        }

        impl<'de> serde::Deserialize<'de> for $message {
            fn deserialize<D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                // Not `deserialize_map`: that quotes a string in its place whole.
                deserializer.deserialize_any(
                    $crate::nakama::message::MessageVisitor(std::marker::PhantomData),
                )
            }
        }
    };
}

/// The protobuf half of [`messages!`].
macro_rules! protobuf_forms {
    ($message:ident { $( $number:literal $field:ident [$($kind:ident)?] )* }) => {
        #[allow(unused_variables, reason = "empty messages")]
        impl prost::Message for $message {
            fn encode_raw(&self, buf: &mut impl bytes::BufMut) {
                $(
                    $crate::nakama::message::proto_field!(
                        [$($kind)?] encode_field(&self.$field, $number, buf)
                    );
                )*
            }

            fn merge_field(
                &mut self,
                tag: u32,
                wire_type: prost::encoding::WireType,
                buf: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                match tag {
                    $(
                        $number => $crate::nakama::message::proto_field!(
                            [$($kind)?] merge_field(&mut self.$field, wire_type, buf, context)
                        )
                        .map_err(|mut error| {
                            error.push(stringify!($message), stringify!($field));
                            error
                        }),
                    )*
                    _ => prost::encoding::skip_field(wire_type, tag, buf, context),
                }
            }

            fn encoded_len(&self) -> usize {
                0 $(
                    + $crate::nakama::message::proto_field!(
                        [$($kind)?] field_len(&self.$field, $number)
                    )
                )*
            }

            fn clear(&mut self) {
                *self = Self::default();
            }
        }

        impl $crate::nakama::proto::ProtoValue for $message {
            fn encode(tag: u32, value: &Self, buf: &mut impl bytes::BufMut) {
                prost::encoding::message::encode(tag, value, buf);
            }

            fn merge(
                wire_type: prost::encoding::WireType,
                value: &mut Self,
                buf: &mut impl bytes::Buf,
                context: prost::encoding::DecodeContext,
            ) -> Result<(), prost::DecodeError> {
                prost::encoding::message::merge(wire_type, value, buf, context)
            }

            fn encoded_len(tag: u32, value: &Self) -> usize {
                prost::encoding::message::encoded_len(tag, value)
            }
        }
    };
}

pub(super) use {
    field_name, is_always_written, json_forms, messages, optional_name, proto_field, protobuf_forms,
};
