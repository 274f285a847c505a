//! Frames: their head, the numbers of types, flags and errors, and those that are written in more
//! than one place. In: bytes. Out: a frame that borrows its payload, or bytes.
//!
//! Source: RFC 9113 sections 4.1, 6 and 7.

use super::Error;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY_FLAG: u8 = 0x20;

pub(super) const NO_ERROR: u32 = 0x0;
pub(super) const PROTOCOL_ERROR: u32 = 0x1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 0x3;
pub(super) const STREAM_CLOSED: u32 = 0x5;
pub(super) const FRAME_SIZE_ERROR: u32 = 0x6;
pub(super) const REFUSED_STREAM: u32 = 0x7;
pub(super) const CANCEL: u32 = 0x8;
pub(super) const COMPRESSION_ERROR: u32 = 0x9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 0xb;
pub(super) const HTTP_1_1_REQUIRED: u32 = 0xd;

/// What a client sends first (RFC 9113 section 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const HEAD_BYTES: usize = 9;
/// Bytes of a payload that may be sent to us: what holds if SETTINGS say nothing.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;
/// The text of a GOAWAY.
const TEXT_BYTES_MAX: usize = 1_024;

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// 0 is the connection.
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The length of the frame at the front of `bytes`, with its head; `None` before the head is there.
pub(super) fn len(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some([high, middle, low]) = bytes.first_chunk() else { return Ok(None) };
    let payload = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
    if payload > PAYLOAD_BYTES_MAX {
        return Err(Error::FrameSize);
    }
    Ok((bytes.len() >= HEAD_BYTES).then_some(HEAD_BYTES + payload))
}

/// A whole frame.
pub(super) fn read(bytes: &[u8]) -> Option<Frame<'_>> {
    let (head, payload) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let stream = number(head.get(5..)?)? & 0x7fff_ffff;
    Some(Frame { kind: head[3], flags: head[4], stream, payload })
}

/// The first four bytes as a number.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Appends the head of a frame.
pub(super) fn head(to: &mut Vec<u8>, payload_bytes: usize, kind: u8, flags: u8, stream: u32) {
    // The length has 24 bits; ours are far below.
    let len = u32::try_from(payload_bytes).unwrap_or(0).to_be_bytes();
    to.extend_from_slice(&len[1..]);
    to.extend_from_slice(&[kind, flags]);
    to.extend_from_slice(&stream.to_be_bytes());
}

pub(super) fn reset(to: &mut Vec<u8>, stream: u32, code: u32) {
    head(to, 4, RST_STREAM, 0, stream);
    to.extend_from_slice(&code.to_be_bytes());
}

pub(super) fn window_update(to: &mut Vec<u8>, stream: u32, more: u32) {
    head(to, 4, WINDOW_UPDATE, 0, stream);
    to.extend_from_slice(&more.to_be_bytes());
}

/// The end of the connection: streams up to `last` were looked at.
pub(super) fn go_away(to: &mut Vec<u8>, last: u32, code: u32, text: &str) {
    let text = text.as_bytes().get(..TEXT_BYTES_MAX).unwrap_or(text.as_bytes());
    head(to, 8 + text.len(), GOAWAY, 0, 0);
    to.extend_from_slice(&last.to_be_bytes());
    to.extend_from_slice(&code.to_be_bytes());
    to.extend_from_slice(text);
}
