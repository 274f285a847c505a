//! HTTP/1.1, both sides: requests in and responses out for the server ([`Decoder`],
//! [`respond`]), requests out and responses in for the load generator ([`request`],
//! [`ResponseDecoder`]).
//!
//! Heads are taken apart and framing (lengths, chunks, keep-alive, what must be refused) is decided
//! strictly: whatever two parsers could read differently is an error, because a
//! request that a proxy and this server cut at different places smuggles another one in.
//! Bodies of requests and answers may be compressed ([`content`], [`Gzip`]). Not here: routing,
//! time-outs, HTTP/2. After any error the connection has to be
//! answered with [`HttpError::status`] and closed.
//!
//! Source: RFC 9110, RFC 9112.

mod assembly;
mod chunked;
mod client;
mod content;
mod head;
mod parts;
mod request;
mod response;
mod scan;
mod target;

pub use client::{RequestHead, Response, ResponseDecoder, request};
pub(crate) use content::gunzip;
pub use content::{Coding, Gzip, content};
pub use head::Headers;
pub use request::{Decoder, Request, Upgrade};
pub use response::{Connection, ResponseHead, reason, respond, respond_head, write_header};
pub use target::Target;

pub use crate::date::imf_fixdate as date;

/// The most headers that one head may have, whatever [`Limits::headers_max`] says.
pub const HEADERS_MAX: usize = 64;
/// Empty lines that are skipped before one message; more are an error (400).
pub const BLANK_LINES_MAX: u8 = 4;

/// What one message may cost. Exceeding a limit is an error that names it; callers count those.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of request line and headers with their line ends; 431 above, or 414 if already the
    /// first line is longer. The same limit holds once more for the sum of chunk extensions and
    /// trailers of one body.
    pub head_bytes_max: usize,
    /// Number of headers, at most [`HEADERS_MAX`]; 431 above.
    pub headers_max: usize,
    /// Bytes of a body after removing the chunks' framing, and once more after undoing its content
    /// coding; 413 above.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    /// What Nakama has by default: 5,120 bytes of head, 262,144 bytes of body.
    fn default() -> Self {
        Self { head_bytes_max: 5_120, headers_max: HEADERS_MAX, body_bytes_max: 262_144 }
    }
}

/// Why a message was refused. The peer's fault, always; the connection cannot be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// Not a request line or status line, or a byte that cannot be in one.
    #[error("malformed start line")]
    StartLine,
    /// A header name or value with a byte that cannot be there, a folded line, or a space before
    /// the colon.
    #[error("malformed header")]
    Header,
    /// A line that ends in a line feed without a carriage return.
    #[error("line feed without carriage return")]
    BareLineFeed,
    /// More than [`BLANK_LINES_MAX`] empty lines before a message.
    #[error("too many empty lines before a request")]
    BlankLines,
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("HTTP version not supported")]
    Version,
    /// The preface of HTTP/2, as gRPC clients send it. [`crate::http2::refusal`] is an answer that
    /// they understand. Source: RFC 9113 section 3.4.
    #[error("HTTP/2, and with it gRPC, is not spoken here: use HTTP/1.1")]
    Http2,
    /// The first byte of a TLS handshake. Source: RFC 8446 section 5.1.
    #[error("TLS is not spoken here: use http:// and ws://, or a proxy that ends TLS")]
    Tls,
    /// A request target that is neither a path nor an http URL (nor `*` of OPTIONS).
    #[error("malformed request target")]
    Target,
    /// The method CONNECT: this is not a proxy.
    #[error("CONNECT is not supported")]
    Connect,
    /// No `Host` in HTTP/1.1, or several, or one that cannot be a host.
    #[error("missing or malformed Host header")]
    Host,
    /// A length that is not a plain decimal number, or given twice.
    #[error("malformed Content-Length header")]
    ContentLength,
    /// `Transfer-Encoding` and `Content-Length` in one message.
    #[error("both Transfer-Encoding and Content-Length")]
    LengthAndEncoding,
    /// `Transfer-Encoding` in HTTP/1.0, given twice, or not ending in one `chunked`.
    #[error("malformed Transfer-Encoding header")]
    TransferEncoding,
    /// A transfer coding other than `chunked`.
    #[error("transfer coding not supported")]
    TransferCoding,
    /// Broken framing of a chunk or a trailer.
    #[error("malformed chunk")]
    Chunk,
    /// `Expect` with anything but `100-continue`.
    #[error("expectation not supported")]
    Expectation,
    /// The first line exceeds [`Limits::head_bytes_max`].
    #[error("request target too long")]
    TargetTooLong,
    /// The head, or extensions and trailers of a chunked body, exceed [`Limits::head_bytes_max`].
    #[error("request head too large")]
    HeadTooLarge,
    /// More headers than [`Limits::headers_max`].
    #[error("too many headers")]
    TooManyHeaders,
    /// The body exceeds [`Limits::body_bytes_max`].
    #[error("http: request body too large")]
    BodyTooLarge,
    /// A `Content-Encoding` other than those of [`Coding`], or more than one.
    #[error("content coding not supported: use gzip, deflate or none")]
    ContentCoding,
    /// A body that is not what its `Content-Encoding` says.
    #[error("malformed content: not what Content-Encoding says")]
    Content,
    /// The peer closed within a message; only [`ResponseDecoder::finish`] says so.
    #[error("connection closed within a message")]
    Truncated,
}

impl HttpError {
    /// The status to answer a request with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BodyTooLarge => 413,
            Self::TargetTooLong => 414,
            Self::ContentCoding => 415,
            Self::Expectation => 417,
            Self::HeadTooLarge | Self::TooManyHeaders => 431,
            Self::Connect | Self::TransferCoding => 501,
            Self::Version | Self::Http2 => 505,
            _ => 400,
        }
    }
}

#[cfg(test)]
mod tests;
