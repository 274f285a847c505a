//! Protobuf field by field: how each type of field is written, read and measured. Messages are made
//! of these by `message::messages!`; reading a key and skipping what is unknown is prost's.
//!
//! Source: protobuf.dev, "Encoding"; zero values of plain fields are left out, as proto3 has it.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::encoding::{self, DecodeContext, WireType, btree_map, message};

/// A value that stands by itself, even if it is zero: an item of a list, a value of a map, one of
/// a choice. The arguments' order is prost's.
pub(super) trait ProtoValue: Default {
    fn encode(tag: u32, value: &Self, buf: &mut impl BufMut);
    fn merge(
        wire_type: WireType,
        value: &mut Self,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError>;
    fn encoded_len(tag: u32, value: &Self) -> usize;
}

/// A field of a message.
pub(super) trait ProtoField {
    fn encode_field(&self, tag: u32, buf: &mut impl BufMut);
    fn merge_field(
        &mut self,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError>;
    fn field_len(&self, tag: u32) -> usize;
}

/// Types that prost has functions for.
macro_rules! values {
    ($( $ty:ty = $module:ident; )*) => { $(
        impl ProtoValue for $ty {
            fn encode(tag: u32, value: &Self, buf: &mut impl BufMut) {
                encoding::$module::encode(tag, value, buf);
            }

            fn merge(
                wire_type: WireType,
                value: &mut Self,
                buf: &mut impl Buf,
                context: DecodeContext,
            ) -> Result<(), DecodeError> {
                encoding::$module::merge(wire_type, value, buf, context)
            }

            fn encoded_len(tag: u32, value: &Self) -> usize {
                encoding::$module::encoded_len(tag, value)
            }
        }
    )* };
}

/// Those of them that are fields; zero is left out.
macro_rules! fields {
    ($( $ty:ty )*) => { $(
        impl ProtoField for $ty {
            fn encode_field(&self, tag: u32, buf: &mut impl BufMut) {
                if *self != Self::default() {
                    Self::encode(tag, self, buf);
                }
            }

            fn merge_field(
                &mut self,
                wire_type: WireType,
                buf: &mut impl Buf,
                context: DecodeContext,
            ) -> Result<(), DecodeError> {
                Self::merge(wire_type, self, buf, context)
            }

            fn field_len(&self, tag: u32) -> usize {
                if *self == Self::default() { 0 } else { Self::encoded_len(tag, self) }
            }
        }
    )* };
}

values! {
    bool = bool;
    i32 = int32;
    i64 = int64;
    f64 = double;
    String = string;
    Bytes = bytes;
}

fields! { bool i32 i64 String Bytes }

/// Sub-messages, and wrappers, which are messages with the value as field 1: for those types prost
/// has the message.
impl<T: prost::Message + Default> ProtoField for Option<T> {
    fn encode_field(&self, tag: u32, buf: &mut impl BufMut) {
        if let Some(value) = self {
            message::encode(tag, value, buf);
        }
    }

    fn merge_field(
        &mut self,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        message::merge(wire_type, self.get_or_insert_default(), buf, context)
    }

    fn field_len(&self, tag: u32) -> usize {
        self.as_ref().map_or(0, |value| message::encoded_len(tag, value))
    }
}

/// Lists of texts and messages. Not of numbers, which protobuf packs.
impl<T: ProtoValue> ProtoField for Vec<T> {
    fn encode_field(&self, tag: u32, buf: &mut impl BufMut) {
        for value in self {
            T::encode(tag, value, buf);
        }
    }

    fn merge_field(
        &mut self,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut value = T::default();
        T::merge(wire_type, &mut value, buf, context)?;
        self.push(value);
        Ok(())
    }

    fn field_len(&self, tag: u32) -> usize {
        self.iter().map(|value| T::encoded_len(tag, value)).sum()
    }
}

impl<T: ProtoValue + PartialEq> ProtoField for BTreeMap<String, T> {
    fn encode_field(&self, tag: u32, buf: &mut impl BufMut) {
        let (text, text_len) = (encoding::string::encode, encoding::string::encoded_len);
        btree_map::encode(text, text_len, T::encode, T::encoded_len, tag, self, buf);
    }

    fn merge_field(
        &mut self,
        _wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        btree_map::merge(encoding::string::merge, T::merge, self, buf, context)
    }

    fn field_len(&self, tag: u32) -> usize {
        btree_map::encoded_len(encoding::string::encoded_len, T::encoded_len, tag, self)
    }
}

/// A field of a `oneof`: the value itself, even if it is zero, when it is the one that is set.
pub(super) mod oneof {
    use super::{Buf, BufMut, DecodeContext, DecodeError, ProtoValue, WireType};

    #[expect(clippy::ref_option, reason = "the field as it stands")]
    pub(in crate::nakama) fn encode_field<T: ProtoValue>(
        field: &Option<T>,
        tag: u32,
        buf: &mut impl BufMut,
    ) {
        if let Some(value) = field {
            T::encode(tag, value, buf);
        }
    }

    pub(in crate::nakama) fn merge_field<T: ProtoValue>(
        field: &mut Option<T>,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        T::merge(wire_type, field.get_or_insert_default(), buf, context)
    }

    #[expect(clippy::ref_option, reason = "the field as it stands")]
    pub(in crate::nakama) fn field_len<T: ProtoValue>(field: &Option<T>, tag: u32) -> usize {
        field.as_ref().map_or(0, |value| T::encoded_len(tag, value))
    }
}
