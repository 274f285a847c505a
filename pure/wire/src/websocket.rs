//! WebSocket, both sides: the opening handshake, frames and messages, closing.
//!
//! No extensions and no subprotocols are offered or accepted. Time-outs, pings and the answer to
//! a close are the caller's: the decoder reports control frames as messages.
//!
//! Source: RFC 6455; the order of its checks as the Autobahn test suite expects them.

mod decode;
mod encode;
mod handshake;

pub use decode::{Decoder, Message, Role, WsError};
pub use encode::{Opcode, close_payload, encode, encode_close, encode_masked, encode_with};
pub use handshake::{HandshakeError, accept, accept_key, is_accepted, request};

/// Payload bytes of a control frame, at most. Source: RFC 6455 section 5.5.
pub const CONTROL_BYTES_MAX: usize = 125;

#[cfg(test)]
mod tests;
