//! How a message is declared: its fields once, with documentation and protobuf numbers, and from
//! that its JSON form in both directions.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;

use super::json::{same_name, text_is_wrong};

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

    /// Writes all fields that are set.
    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Reads a message from a JSON object.
pub(super) struct MessageVisitor<T>(pub(super) PhantomData<T>);

impl<'de, T: JsonMessage> Visitor<'de> for MessageVisitor<T> {
    type Value = T;

    text_is_wrong!("an object");

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
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

/// Declares messages: `derive(…);` and then structs, whose fields are `name: Type` or
/// `name: Type = "json_name"`. The field's type decides its JSON form (see `json::Field`).
macro_rules! messages {
    (
        derive $derive:tt;
        $(
            $(#[$meta:meta])*
            $message:ident {
                $( $(#[$field_meta:meta])* $field:ident : $type:ty $(= $name:literal)? ),* $(,)?
            }
        )*
    ) => {
        $(
            $(#[$meta])*
            #[derive $derive]
            pub struct $message {
                $( $(#[$field_meta])* pub $field: $type, )*
            }

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
                                $crate::nakama::json::In(std::marker::PhantomData),
                            )?;
                        }
                        at += 1;
                    )*
                    Ok(())
                }

                fn write_fields<M: serde::ser::SerializeMap>(
                    &self,
                    map: &mut M,
                ) -> Result<(), M::Error> {
                    $(
                        if !$crate::nakama::json::Field::is_unset(&self.$field) {
                            map.serialize_entry(
                                $crate::nakama::message::field_name!($field $($name)?),
                                &$crate::nakama::json::Out(&self.$field),
                            )?;
                        }
                    )*
                    Ok(())
                }
            }

            impl $crate::nakama::json::Field for $message {
                fn is_unset(&self) -> bool {
                    false
                }

                fn write<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serde::Serialize::serialize(self, serializer)
                }

                fn read<'de, D: serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Self, D::Error> {
                    serde::Deserialize::deserialize(deserializer)
                }
            }

            impl serde::Serialize for $message {
                fn serialize<S: serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> Result<S::Ok, S::Error> {
                    let mut map = serializer.serialize_map(None)?;
                    $crate::nakama::message::JsonMessage::write_fields(self, &mut map)?;
                    serde::ser::SerializeMap::end(map)
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
        )*
    };
}

pub(super) use {field_name, messages};
