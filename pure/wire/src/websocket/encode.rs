//! Frames as they are sent: always whole messages in one frame.

use super::CONTROL_BYTES_MAX;

/// What a frame is. The numbers are the wire's. Source: RFC 6455 section 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Goes on with a fragmented message.
    Continuation = 0,
    /// UTF-8 text.
    Text = 1,
    /// Any bytes.
    Binary = 2,
    /// The last frame of a side.
    Close = 8,
    /// Asks for a pong with the same payload.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Opcode {
    /// The opcode of the wire's number; `None` for reserved ones.
    pub(super) const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Close, ping and pong: never fragmented, at most [`CONTROL_BYTES_MAX`] bytes.
    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// A length in two bytes follows.
const LENGTH_16: u8 = 0x7e;
/// A length in eight bytes follows.
const LENGTH_64: u8 = 0x7f;

/// The header of a whole message, without mask, and how many of its bytes count.
fn header(opcode: Opcode, masked: u8, len: usize) -> ([u8; 10], usize) {
    let mut header = [0; 10];
    header[0] = FIN | opcode as u8;
    if let Ok(short) = u8::try_from(len)
        && short < LENGTH_16
    {
        header[1] = masked | short;
        (header, 2)
    } else if let Ok(medium) = u16::try_from(len) {
        header[1] = masked | LENGTH_16;
        header[2..4].copy_from_slice(&medium.to_be_bytes());
        (header, 4)
    } else {
        header[1] = masked | LENGTH_64;
        header[2..10].copy_from_slice(&(len as u64).to_be_bytes());
        (header, 10)
    }
}

fn write_header(out: &mut Vec<u8>, opcode: Opcode, masked: u8, len: usize) {
    out.reserve(14 + len);
    let (header, header_len) = header(opcode, masked, len);
    out.extend_from_slice(&header[..header_len]);
}

/// Control frames cannot be longer; what is passed through here is cut, never sent broken.
fn cut(opcode: Opcode, payload: &[u8]) -> &[u8] {
    if opcode.is_control() { &payload[..payload.len().min(CONTROL_BYTES_MAX)] } else { payload }
}

/// Appends a server's frame. The payload of a control frame is cut to [`CONTROL_BYTES_MAX`].
pub fn encode(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    let payload = cut(opcode, payload);
    write_header(out, opcode, 0, payload.len());
    out.extend_from_slice(payload);
}

/// Appends a server's text or binary frame whose payload `write` appends; it must only append.
/// Saves the buffer that a payload of unknown length would otherwise need.
pub fn encode_with<R>(
    out: &mut Vec<u8>,
    opcode: Opcode,
    write: impl FnOnce(&mut Vec<u8>) -> R,
) -> R {
    // Room for the header of 126 to 65,535 bytes, the usual one; others move the payload.
    const GUESS: usize = 4;
    let start = out.len();
    out.extend_from_slice(&[0; GUESS]);
    let result = write(out);
    let len = out.len().saturating_sub(start + GUESS);
    let (header, header_len) = header(opcode, 0, len);
    if header_len > GUESS {
        out.resize(out.len() + header_len - GUESS, 0);
    }
    if header_len != GUESS {
        let payload = start + GUESS;
        out.copy_within(payload..payload + len, start + header_len);
        out.truncate(start + header_len + len);
    }
    out[start..start + header_len].copy_from_slice(&header[..header_len]);
    result
}

/// Appends a client's frame, masked with `key`, which should be random.
pub fn encode_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    let payload = cut(opcode, payload);
    write_header(out, opcode, MASKED, payload.len());
    out.extend_from_slice(&key);
    append_masked(out, payload, key);
}

/// Appends a server's close frame; see [`close_payload`].
pub fn encode_close(out: &mut Vec<u8>, code: u16, reason: &str) {
    encode(out, Opcode::Close, &close_payload(code, reason));
}

/// The payload of a close frame: the code, and as much of the reason as fits, cut between
/// characters.
#[must_use]
pub fn close_payload(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = code.to_be_bytes().to_vec();
    let end = reason.floor_char_boundary(CONTROL_BYTES_MAX - 2);
    payload.extend_from_slice(&reason.as_bytes()[..end]);
    payload
}

/// Appends `payload` XOR `key`, beginning with the key's first byte. Masking and unmasking are the
/// same. Eight bytes at a time, which the compiler widens to the machine's vectors.
pub(super) fn append_masked(out: &mut Vec<u8>, payload: &[u8], key: [u8; 4]) {
    let start = out.len();
    out.extend_from_slice(payload);
    let [a, b, c, d] = key;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = out[start..].as_chunks_mut::<8>();
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip([a, b, c, d, a, b, c]) {
        *byte ^= key;
    }
}
