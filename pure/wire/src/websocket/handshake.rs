//! The opening handshake: what a client asks, what a server answers, and how the client checks
//! the answer.
//!
//! Source: RFC 6455 sections 1.3, 4.1, 4.2.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::http1::{self, Request};

/// Appended to the key before hashing. Source: RFC 6455 section 1.3.
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What a request lacks for becoming a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Not GET.
    #[error("websocket handshake: method is not GET")]
    Method,
    /// HTTP/1.0 has no upgrades.
    #[error("websocket handshake: HTTP/1.1 is needed")]
    HttpVersion,
    /// No `Upgrade: websocket`.
    #[error("websocket handshake: 'websocket' token not found in 'Upgrade' header")]
    Upgrade,
    /// No `Connection: upgrade`.
    #[error("websocket handshake: 'upgrade' token not found in 'Connection' header")]
    Connection,
    /// No version, or another than 13.
    #[error("websocket handshake: version 13 is needed")]
    Version,
    /// No key, several, or one that is not 16 bytes in base64.
    #[error("websocket handshake: 'Sec-WebSocket-Key' is not 16 bytes in base64")]
    Key,
}

impl HandshakeError {
    /// The status to answer with. With 426 belong the headers of [`Self::headers`].
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Upgrade | Self::Version => 426,
            _ => 400,
        }
    }

    /// Header lines that the answer must have, ready for [`http1::ResponseHead::extra`].
    #[must_use]
    pub fn headers(self) -> &'static [u8] {
        match self {
            Self::Upgrade | Self::Version => {
                b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
            }
            _ => b"",
        }
    }
}

/// Checks a request for a WebSocket and appends the answer that opens it, `101 Switching
/// Protocols`, with `extra` header lines. From then on both sides speak in frames.
///
/// # Errors
/// The first requirement of RFC 6455 section 4.2.1 that the request misses; nothing is appended.
pub fn accept(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    extra: &[u8],
) -> Result<(), HandshakeError> {
    if request.method != "GET" {
        return Err(HandshakeError::Method);
    }
    if request.version_1_0 {
        return Err(HandshakeError::HttpVersion);
    }
    let upgrade = request.upgrade.ok_or(HandshakeError::Upgrade)?;
    if !upgrade.is_connection_option {
        return Err(HandshakeError::Connection);
    }
    if upgrade.version != Some(b"13") {
        return Err(HandshakeError::Version);
    }
    let key = upgrade.key.ok_or(HandshakeError::Key)?;
    let mut decoded = [0; 18];
    if key.len() != 24 || STANDARD.decode_slice(key, &mut decoded) != Ok(16) {
        return Err(HandshakeError::Key);
    }
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: ",
    );
    out.extend_from_slice(&accept_key(key));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(extra);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// The `Sec-WebSocket-Accept` that belongs to a `Sec-WebSocket-Key`, as sent.
#[must_use]
pub fn accept_key(key: &[u8]) -> [u8; 28] {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key);
    hash.update(KEY_SUFFIX);
    let mut text = [b'='; 28];
    // 20 bytes are 28 characters in base64: the buffer always fits.
    let written = STANDARD.encode_slice(hash.digest().bytes(), &mut text);
    debug_assert_eq!(written, Ok(28));
    text
}

/// Appends a client's request for a WebSocket. `key` is 16 random bytes of the caller's; `extra`
/// are further header lines.
pub fn request(out: &mut Vec<u8>, target: &str, host: &str, key: [u8; 16], extra: &[u8]) {
    let mut lines = Vec::with_capacity(128 + extra.len());
    lines.extend_from_slice(
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Key: ",
    );
    lines.extend_from_slice(STANDARD.encode(key).as_bytes());
    lines.extend_from_slice(b"\r\n");
    lines.extend_from_slice(extra);
    http1::request(out, &http1::RequestHead { method: "GET", target, host, extra: &lines }, &[]);
}

/// Whether a server's answer opens the WebSocket that was asked for with `key`.
#[must_use]
pub fn is_accepted(response: &http1::Response<'_>, key: [u8; 16]) -> bool {
    let names = |header: &str, token: &[u8]| {
        response.headers.all(header).any(|value| {
            value.split(|&byte| byte == b',').any(|it| it.trim_ascii().eq_ignore_ascii_case(token))
        })
    };
    response.status == 101
        && names("upgrade", b"websocket")
        && names("connection", b"upgrade")
        && response.header("sec-websocket-accept")
            == Some(&accept_key(STANDARD.encode(key).as_bytes()))
}
