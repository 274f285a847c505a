//! The Nakama client protocol: messages of the REST interface ([`api`]) and of the socket
//! ([`realtime`]), each declared once, and the JSON dialect that both are written in ([`json`]).
//!
//! Not here: what the messages mean, routes, sessions. Written from the protocol as clients of
//! Nakama 3.40 see it.

pub mod api;
mod envelope;
mod field;
pub mod json;
mod match_data;
mod message;
mod number;
mod proto;
pub mod realtime;
mod timestamp;

pub use envelope::{DecodeError, Envelope};
pub use match_data::{Sender, encode_match_data_json, encode_match_data_protobuf};
pub use message::{FieldInfo, FieldType, MessageInfo, ProtoMessage};
pub use timestamp::Timestamp;

/// How a client wants its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON: over HTTP, and in text frames.
    #[default]
    Json,
    /// Protobuf: over gRPC, and in binary frames.
    Protobuf,
}

#[cfg(test)]
mod tests;
