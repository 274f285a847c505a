//! The message that games send most, written straight from its parts: no message struct, no
//! copies of its strings.

use super::json::{write_base64, write_string};
use super::realtime::UserPresence;

/// Field numbers of the envelope and of match_data, as protobuf keys (number × 8 + wire type).
mod key {
    /// Envelope.match_data.
    pub(super) const MATCH_DATA: u8 = (14 << 3) | 2;
    pub(super) const MATCH_ID: u8 = (1 << 3) | 2;
    pub(super) const PRESENCE: u8 = (2 << 3) | 2;
    pub(super) const OP_CODE: u8 = 3 << 3;
    pub(super) const DATA: u8 = (4 << 3) | 2;
    pub(super) const RELIABLE: u8 = 5 << 3;
}

/// Appends the JSON envelope of a `match_data`. `presence` is the sender; none for the server.
pub fn encode_match_data_json(
    out: &mut Vec<u8>,
    match_id: &str,
    presence: Option<&UserPresence>,
    op_code: i64,
    data: &[u8],
    reliable: bool,
) {
    out.reserve(320 + data.len().div_ceil(3) * 4);
    out.extend_from_slice(b"{\"match_data\":{\"match_id\":");
    write_string(out, match_id);
    if let Some(presence) = presence {
        out.extend_from_slice(b",\"presence\":");
        write_presence(out, presence);
    }
    if op_code != 0 {
        out.extend_from_slice(b",\"op_code\":\"");
        out.extend_from_slice(itoa::Buffer::new().format(op_code).as_bytes());
        out.push(b'"');
    }
    if !data.is_empty() {
        out.extend_from_slice(b",\"data\":");
        write_base64(out, data);
    }
    if reliable {
        out.extend_from_slice(b",\"reliable\":true");
    }
    out.extend_from_slice(b"}}");
}

fn write_presence(out: &mut Vec<u8>, presence: &UserPresence) {
    let mut separator = b'{';
    for (name, value) in [
        ("\"user_id\":", Some(&presence.user_id)),
        ("\"session_id\":", Some(&presence.session_id)),
        ("\"username\":", Some(&presence.username)),
    ] {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        out.push(separator);
        out.extend_from_slice(name.as_bytes());
        write_string(out, value);
        separator = b',';
    }
    if presence.persistence {
        out.push(separator);
        out.extend_from_slice(b"\"persistence\":true");
        separator = b',';
    }
    if let Some(status) = &presence.status {
        out.push(separator);
        out.extend_from_slice(b"\"status\":");
        write_string(out, status);
        separator = b',';
    }
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}

/// Appends the protobuf envelope of a `match_data`. `presence` is the sender; none for the server.
pub fn encode_match_data_protobuf(
    out: &mut Vec<u8>,
    match_id: &str,
    presence: Option<&UserPresence>,
    op_code: i64,
    data: &[u8],
    reliable: bool,
) {
    let presence_len = presence.map(prost::Message::encoded_len);
    let field_len = |len: usize| if len == 0 { 0 } else { 1 + varint_len(len as u64) + len };
    let len = field_len(match_id.len())
        + presence_len.map_or(0, |len| 1 + varint_len(len as u64) + len)
        + if op_code == 0 { 0 } else { 1 + varint_len(op_code.cast_unsigned()) }
        + field_len(data.len())
        + if reliable { 2 } else { 0 };
    out.reserve(16 + len);
    out.push(key::MATCH_DATA);
    write_varint(out, len as u64);
    write_bytes(out, key::MATCH_ID, match_id.as_bytes());
    if let (Some(presence), Some(len)) = (presence, presence_len) {
        out.push(key::PRESENCE);
        write_varint(out, len as u64);
        prost::Message::encode_raw(presence, out);
    }
    if op_code != 0 {
        out.push(key::OP_CODE);
        write_varint(out, op_code.cast_unsigned());
    }
    write_bytes(out, key::DATA, data);
    if reliable {
        out.extend_from_slice(&[key::RELIABLE, 1]);
    }
}

fn write_bytes(out: &mut Vec<u8>, key: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(key);
        write_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(0x80 | u8::try_from(value & 0x7f).unwrap_or(0));
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

/// Bytes of a varint: one for every seven bits.
fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}
