//! The messages that games send most, by hand: `match_data` is written straight from its parts, and
//! the usual form of `match_data_send` is read in one pass. Both give what the general way gives.

use bytes::Bytes;
use memchr::memchr;

use super::field::Object;
use super::json::{Style, read_base64, write_base64, write_string};
use super::realtime::MatchDataSend;

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

/// Who has sent a message of a match, as far as its receivers are told: lent, so that nothing is copied
/// but into the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sender<'a> {
    /// Its user, as text.
    pub user_id: &'a str,
    /// Its session, as text.
    pub session_id: &'a str,
    /// Its user's name.
    pub username: &'a str,
}

impl Sender<'_> {
    /// The fields of the message `UserPresence` that are set, in their order, with their numbers below 16.
    fn fields(&self) -> [&str; 3] {
        [self.user_id, self.session_id, self.username]
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        let names = ["\"user_id\":", "\"session_id\":", "\"username\":"];
        let mut object = Object::open(out, Style::SNAKE);
        for (name, text) in names.into_iter().zip(self.fields()) {
            if !text.is_empty() {
                write_string(object.name(name), text);
            }
        }
        object.close();
    }

    fn protobuf_len(&self) -> usize {
        self.fields().iter().map(|text| field_len(text.len())).sum()
    }

    fn write_protobuf(&self, out: &mut Vec<u8>) {
        for (number, text) in (1..).zip(self.fields()) {
            write_bytes(out, (number << 3) | 2, text.as_bytes());
        }
    }
}

/// Appends the JSON envelope of a `match_data`; the server's own have no sender.
pub fn encode_match_data_json(
    out: &mut Vec<u8>,
    match_id: &str,
    sender: Option<Sender<'_>>,
    op_code: i64,
    data: &[u8],
    reliable: bool,
) {
    out.reserve(320 + data.len().div_ceil(3) * 4);
    out.extend_from_slice(b"{\"match_data\":");
    let mut object = Object::open(out, Style::SNAKE);
    if !match_id.is_empty() {
        write_string(object.name("\"match_id\":"), match_id);
    }
    if let Some(sender) = sender {
        sender.write_json(object.name("\"presence\":"));
    }
    if op_code != 0 {
        let out = object.name("\"op_code\":\"");
        out.extend_from_slice(itoa::Buffer::new().format(op_code).as_bytes());
        out.push(b'"');
    }
    if !data.is_empty() {
        write_base64(object.name("\"data\":"), data);
    }
    if reliable {
        object.name("\"reliable\":true");
    }
    object.close();
    out.push(b'}');
}

/// Reads a `match_data_send` as clients write it: no white space, no cid, no escapes, ASCII, no
/// presences. `None` for everything else, be it right or wrong: the general way decides then.
pub(super) fn read_match_data_send(json: &[u8]) -> Option<MatchDataSend> {
    let mut rest = json.strip_prefix(b"{\"match_data_send\":{")?;
    let (mut match_id, mut op_code, mut data, mut reliable) = (None, None, None, None);
    let mut presences = None;
    loop {
        let (name, value) = plain_string(rest)?;
        let value = value.strip_prefix(b":")?;
        let is_repeated;
        (is_repeated, rest) = match name {
            b"match_id" => {
                let (text, rest) = plain_string(value)?;
                (match_id.replace(text).is_some(), rest)
            }
            b"op_code" => {
                let (number, rest) = plain_number(value)?;
                (op_code.replace(number).is_some(), rest)
            }
            b"data" => {
                let (text, rest) = plain_string(value)?;
                (data.replace(text).is_some(), rest)
            }
            b"reliable" => {
                let (it, rest) = match value.strip_prefix(b"true") {
                    Some(rest) => (true, rest),
                    None => (false, value.strip_prefix(b"false")?),
                };
                (reliable.replace(it).is_some(), rest)
            }
            b"presences" => (presences.replace(()).is_some(), value.strip_prefix(b"[]")?),
            _ => return None,
        };
        if is_repeated {
            return None;
        }
        match rest {
            [b',', after @ ..] => rest = after,
            b"}}" => break,
            _ => return None,
        }
    }
    Some(MatchDataSend {
        match_id: String::from_utf8(match_id.unwrap_or_default().to_vec()).ok()?,
        op_code: op_code.unwrap_or_default(),
        data: data.map_or(Some(Bytes::new()), read_base64)?,
        presences: Vec::new(),
        reliable: reliable.unwrap_or_default(),
    })
}

/// A JSON string of ASCII without escapes, and what follows it.
fn plain_string(json: &[u8]) -> Option<(&[u8], &[u8])> {
    let json = json.strip_prefix(b"\"")?;
    let (text, rest) = json.split_at(memchr(b'"', json)?);
    let is_plain = text.iter().all(|&byte| matches!(byte, b' '..0x7f) && byte != b'\\');
    is_plain.then_some((text, &rest[1..]))
}

/// An integer of at most 18 digits, bare or in quotes, and what follows it.
fn plain_number(json: &[u8]) -> Option<(i64, &[u8])> {
    let (quoted, digits) = match json.strip_prefix(b"\"") {
        Some(digits) => (true, digits),
        None => (false, json),
    };
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at(len);
    // No leading zeros: bare ones are not JSON.
    if digits.is_empty() || len > 18 || (len > 1 && digits[0] == b'0') {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    // Whatever else a number may go on with, a fraction say, fails at the caller's next step.
    Some((number, if quoted { rest.strip_prefix(b"\"")? } else { rest }))
}

/// Appends the protobuf envelope of a `match_data`; the server's own have no sender.
pub fn encode_match_data_protobuf(
    out: &mut Vec<u8>,
    match_id: &str,
    sender: Option<Sender<'_>>,
    op_code: i64,
    data: &[u8],
    reliable: bool,
) {
    let sender_len = sender.map(|sender| sender.protobuf_len());
    let len = field_len(match_id.len())
        + sender_len.map_or(0, |len| 1 + varint_len(len as u64) + len)
        + if op_code == 0 { 0 } else { 1 + varint_len(op_code.cast_unsigned()) }
        + field_len(data.len())
        + if reliable { 2 } else { 0 };
    out.reserve(16 + len);
    out.push(key::MATCH_DATA);
    write_varint(out, len as u64);
    write_bytes(out, key::MATCH_ID, match_id.as_bytes());
    if let (Some(sender), Some(len)) = (sender, sender_len) {
        out.push(key::PRESENCE);
        write_varint(out, len as u64);
        sender.write_protobuf(out);
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

/// What a field of bytes or text takes whose key is a byte; nothing if it is empty.
fn field_len(len: usize) -> usize {
    if len == 0 { 0 } else { 1 + varint_len(len as u64) + len }
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
