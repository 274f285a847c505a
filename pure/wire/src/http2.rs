//! HTTP/2 as a server speaks it, as far as calls need it that are one request and one answer:
//! frames, header compression (`hpack`), streams, and flow control both ways.
//!
//! Not here: TLS, server push, priorities (frames about them are read and passed over), requests
//! that are answered before they are whole, and what a request means. Nothing here reads a clock:
//! callers give milliseconds of any clock that only rises. In: the bytes of a connection. Out:
//! whole [`Request`]s, and the bytes to send.
//!
//! Whoever floods is closed: each connection has an allowance of frames that carry no request
//! ([`ALLOWANCE_MAX`]), which comes back with time and with what is really asked and answered.
//!
//! Source: RFC 9113, RFC 7541.

mod connection;
mod fields;
mod frame;
mod hpack;
mod huffman;
mod receive;
mod send;

pub use connection::{Answer, Connection, Counts, Late, Request, Trouble};
pub use fields::Fields;

/// Frames without a request that may come at once, on one connection; what [`DEAR_COST`] says counts
/// for more.
pub const ALLOWANCE_MAX: u32 = 1_000;
/// So many of them come back each second.
pub const ALLOWANCE_PER_S: u32 = 100;
/// What costs more of the allowance: a request that is malformed or taken back before it was worked on,
/// an answer that is thrown away, a stream that the peer makes us reset, and one more than it knows that
/// it may have. What may happen to an honest client costs 1 as other frames do: that a call at work is
/// taken back (it keeps its place), that a stream comes when the connection ends, or before our SETTINGS
/// were read, or while calls that were taken back have the places.
pub const DEAR_COST: u32 = 8;
/// What a frame of an answer gives back. A request gives nothing: it may be taken back.
const EARNED: u32 = 10;
/// Bytes of one header block as it is sent, with its continuations.
pub const BLOCK_BYTES_MAX: usize = 16_384;
/// What each stream may send of its body at once: nearly all bodies are no larger.
pub const SMALL_BYTES: u32 = 16_384;
/// Fields of one header block.
pub const FIELDS_MAX: usize = 128;

/// What one connection may cost. Exceeding a limit is told by a [`Trouble`], a reset or an [`Error`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams at one time: requests that come, are worked on, or whose answer is not sent whole.
    pub streams_max: usize,
    /// Bytes of a request's fields as RFC 9113 section 6.5.2 counts them, 32 more for each.
    pub head_bytes_max: usize,
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of bodies beyond [`SMALL_BYTES`] that the connection may hold together; room for at least
    /// one of `body_bytes_max`. Who has no room waits, and may go on when another is whole.
    pub large_bytes_max: usize,
}

/// Why a connection ends. The peer's fault, always; [`Connection::fail`] tells it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What came first is not HTTP/2.
    #[error("not HTTP/2")]
    Preface,
    /// What came first is TLS.
    #[error("TLS is not spoken here")]
    Tls,
    /// A frame that may not be there, or not so.
    #[error("{0}")]
    Protocol(&'static str),
    /// More than was allowed to be sent.
    #[error("flow control: more than the window")]
    FlowControl,
    /// A frame of a length that it cannot have.
    #[error("a frame of a length that it cannot have")]
    FrameSize,
    /// A header block that cannot be decoded.
    #[error("malformed header block")]
    Compression,
    /// A frame on a stream that has ended.
    #[error("a frame on a stream that has ended")]
    StreamClosed,
    /// Too much of what is no request.
    #[error("{0}")]
    Calm(&'static str),
    /// Too little of what waits for the peer was taken; as its caller finds ([`Connection::taken_bytes`]).
    #[error("{0}")]
    Slow(&'static str),
}

impl Error {
    /// The code in the GOAWAY frame (RFC 9113 section 7).
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Preface | Self::Tls | Self::Protocol(_) => frame::PROTOCOL_ERROR,
            Self::FlowControl => frame::FLOW_CONTROL_ERROR,
            Self::StreamClosed => frame::STREAM_CLOSED,
            Self::FrameSize => frame::FRAME_SIZE_ERROR,
            Self::Compression => frame::COMPRESSION_ERROR,
            Self::Calm(_) | Self::Slow(_) => frame::ENHANCE_YOUR_CALM,
        }
    }
}

/// Bytes to send to a client that began with the preface of HTTP/2 where it is not spoken, before
/// the connection is closed. Clients of gRPC show `text` to their user, while an answer in HTTP/1.1
/// is to them a broken frame. What of it is beyond 1,024 bytes is left out.
#[must_use]
pub fn refusal(text: &str) -> Vec<u8> {
    only_go_away(frame::HTTP_1_1_REQUIRED, text)
}

/// The same to a client that is one too many, whatever it began with.
#[must_use]
pub fn too_many(text: &str) -> Vec<u8> {
    only_go_away(frame::ENHANCE_YOUR_CALM, text)
}

fn only_go_away(code: u32, text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + text.len());
    // A server's first frame is SETTINGS (RFC 9113 section 3.4).
    frame::head(&mut bytes, 0, frame::SETTINGS, 0, 0);
    frame::go_away(&mut bytes, 0, code, text);
    bytes
}

#[cfg(test)]
mod tests;
