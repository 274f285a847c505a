//! The JSON dialect: names, strings escaped for different readers, base64, and what a form of a
//! message is like ([`Style`]). How each type of field is written and read is `field`'s.
//!
//! Written: snake_case names, zero values left out, 64-bit integers as strings, wrappers raw.
//! Read: snake_case or lowerCamelCase, integers as numbers or strings, `null` as unset, but not in
//! a list or map; unknown names are ignored, and what they stand for is looked at only as far as
//! finding its end takes; names given twice are an error. `serde_json` does the lexing. Errors
//! quote at most an excerpt of a text.
//!
//! Source: protobuf's JSON mapping as Nakama 3.40 configures it (UseProtoNames, enums as numbers,
//! unpopulated fields left out, unknown ones discarded), and as Go reads it
//! (google.golang.org/protobuf 1.36, `encoding/protojson/decode.go`).

use base64::Engine as _;
use base64::engine::general_purpose::{
    STANDARD, STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT,
};
use bytes::Bytes;
use serde::de::{self, Deserializer as _, Visitor};

/// What a visitor expects, which is not a string: says so, and quotes an excerpt of one.
macro_rules! text_is_wrong {
    ($expected:literal) => {
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str($expected)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            let text = serde::de::Unexpected::Str($crate::excerpt::excerpt(text));
            Err(E::invalid_type(text, &self))
        }
    };
}
pub(super) use text_is_wrong;

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether fields that are zero or unset are written too.
    pub zeros: bool,
    /// Whether names are in lowerCamelCase.
    pub camel_case: bool,
}

impl Style {
    /// As clients get answers, and as hooks in Lua see messages.
    pub const SNAKE: Self = Self { zeros: false, camel_case: false };
    /// As hooks in JavaScript and Go see messages: nothing is left out.
    pub const FULL: Self = Self { zeros: true, camel_case: true };
}

/// Whether `found` is `snake`, or the same name in lowerCamelCase.
#[must_use]
pub fn same_name(snake: &str, found: &str) -> bool {
    if snake.len() == found.len() {
        // In camelCase every underscore is gone: of one length, both spellings are the same.
        return snake == found;
    }
    let mut found = found.bytes();
    let mut is_upper = false;
    for byte in snake.bytes() {
        if byte == b'_' {
            is_upper = true;
            continue;
        }
        let wanted = if is_upper { byte.to_ascii_uppercase() } else { byte };
        is_upper = false;
        if found.next() != Some(wanted) {
            return false;
        }
    }
    found.next().is_none()
}

/// Appends `text` as a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    write_escaped::<false>(out, text);
}

/// Appends `text` as a JSON string in which `<`, `>`, `&`, U+2028 and U+2029 are escaped, as
/// Nakama's answers to RPCs over HTTP have it: such a string is harmless within HTML.
pub fn write_string_html(out: &mut Vec<u8>, text: &str) {
    write_escaped::<true>(out, text);
}

/// Bytes that are put together before they are appended.
const PIECE_BYTES: usize = 256;

fn write_escaped<const HTML: bool>(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    // Most texts (ids, tokens, names) need nothing. Without an early end the compiler looks at many
    // bytes at a time.
    let odd = bytes.iter().fold(0, |odd, &byte| {
        let is_html = u8::from(matches!(byte, b'<' | b'>' | b'&' | 0xe2)) & u8::from(HTML);
        odd | u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\') | is_html
    });
    if odd == 0 {
        out.extend_from_slice(bytes);
        out.push(b'"');
        return;
    }
    // A text that is JSON itself has a quote every few bytes: those are escaped without a branch that
    // the processor could guess wrong, and without a copy of each piece in between.
    let (mut piece, mut length) = ([0; PIECE_BYTES], 0);
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if length + 2 > piece.len() {
            out.extend_from_slice(&piece[..length]);
            length = 0;
        }
        piece[length] = b'\\';
        length += usize::from(byte == b'"' || byte == b'\\');
        piece[length] = byte;
        let is_rare = byte < b' ' || (HTML && matches!(byte, b'<' | b'>' | b'&' | 0xe2));
        if !is_rare {
            length += 1;
            continue;
        }
        let digit = |half: u8| HEX[usize::from(half)];
        let coded = [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 0x0f)];
        let escape: &[u8] = match (byte, after) {
            (b'\n', _) => b"\\n",
            (b'\r', _) => b"\\r",
            (b'\t', _) => b"\\t",
            (0x08, _) => b"\\b",
            (0x0c, _) => b"\\f",
            (0xe2, [0x80, 0xa8, after @ ..]) => {
                rest = after;
                b"\\u2028"
            }
            (0xe2, [0x80, 0xa9, after @ ..]) => {
                rest = after;
                b"\\u2029"
            }
            // Another character that begins so.
            (0xe2, _) => {
                length += 1;
                continue;
            }
            _ => &coded,
        };
        out.extend_from_slice(&piece[..length]);
        length = 0;
        out.extend_from_slice(escape);
    }
    out.extend_from_slice(&piece[..length]);
    out.push(b'"');
}

/// Appends `data` as a base64 string in quotes: standard alphabet, padded.
pub(super) fn write_base64(out: &mut Vec<u8>, data: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, b'=');
    // The room is exact: this cannot fail.
    let written = STANDARD.encode_slice(data, &mut out[start..]);
    debug_assert!(written.is_ok());
    out.push(b'"');
}

/// Reads a body of one JSON string as Go's `encoding/json` does: each half of a surrogate pair, and
/// each byte that is not UTF-8, becomes U+FFFD. `None` when it is no string even so.
pub(super) fn lossy_string(body: &[u8]) -> Option<String> {
    // A string that is read as bytes may hold those, and is not checked for control characters.
    if body.iter().any(|&byte| byte < b' ') {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let text = deserializer.deserialize_bytes(LossyVisitor).ok()?;
    deserializer.end().ok()?;
    Some(text)
}

struct LossyVisitor;

impl Visitor<'_> for LossyVisitor {
    type Value = String;

    text_is_wrong!("a string");

    fn visit_bytes<E: de::Error>(self, mut bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        while let Err(error) = std::str::from_utf8(bytes) {
            let (good, bad) = bytes.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(good));
            text.push(char::REPLACEMENT_CHARACTER);
            // An escaped half of a pair stands here as three bytes.
            let is_half = matches!(bad, [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..]);
            bytes = bad.get(if is_half { 3 } else { 1 }..).unwrap_or_default();
        }
        text.push_str(&String::from_utf8_lossy(bytes));
        Ok(text)
    }
}

/// Reads base64 in the standard or the URL alphabet, padded or not.
pub(super) fn read_base64(text: &[u8]) -> Option<Bytes> {
    let is_url = memchr::memchr2(b'-', b'_', text).is_some();
    let engine = if is_url { URL_SAFE_PAD_INDIFFERENT } else { STANDARD_PAD_INDIFFERENT };
    // Of exactly the right size: `Bytes` takes such a vector over without allocating again.
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let mut data = vec![0; (text.len() - padding) * 3 / 4];
    let len = engine.decode_slice(text, &mut data).ok()?;
    data.truncate(len);
    Some(data.into())
}
