//! What clients send, as bytes, and what stands in their frames.

use base64::Engine as _;
use wire::websocket as ws;

/// The header that opens the door to log in.
pub(crate) fn server_key() -> String {
    let key = base64::engine::general_purpose::STANDARD.encode("defaultkey:");
    format!("Basic {key}")
}

/// A request's bytes; `line` is method and target.
pub(crate) fn request(line: &str, auth: &str, body: &str) -> Vec<u8> {
    let auth = if auth.is_empty() { String::new() } else { format!("Authorization: {auth}\r\n") };
    let length = body.len();
    format!("{line} HTTP/1.1\r\nHost: a\r\n{auth}Content-Length: {length}\r\n\r\n{body}").into()
}

/// The request for a socket; `token` may have more of the query behind it, `more` is header lines.
pub(crate) fn upgrade(token: &str, more: &str) -> Vec<u8> {
    format!(
        "GET /ws?token={token} HTTP/1.1\r\nHost: a\r\n{more}Connection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into()
}

/// A client's text frame.
pub(crate) fn text_frame(json: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    ws::encode_masked(&mut frame, ws::Opcode::Text, json.as_bytes(), [1, 2, 3, 4]);
    frame
}

/// A client's close frame.
pub(crate) fn close_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    ws::encode_masked(&mut frame, ws::Opcode::Close, &1_000_u16.to_be_bytes(), [1, 2, 3, 4]);
    frame
}

/// The value of `"key":"…"` in a frame.
pub(crate) fn member(frame: &str, key: &str) -> String {
    let start = frame.find(&format!("\"{key}\":\"")).unwrap_or_else(|| panic!("{key}: {frame}"));
    let rest = &frame[start + key.len() + 4..];
    rest[..rest.find('"').unwrap()].to_owned()
}
