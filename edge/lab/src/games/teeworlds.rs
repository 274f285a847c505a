//! The datagrams of Teeworlds 0.7: packets, the chunks in them, numbers and texts, and the compression.
//!
//! In: bytes. Out: what they say, or nothing if they are none. Not here: who says what when, which is a
//! player's.
//!
//! Source: libtw2 doc/packet7.md, doc/int.md, doc/huffman.md.

mod huffman;

/// Bytes before a packet's payload.
const HEAD_BYTES: usize = 7;
/// Bytes of a payload, at most: what one datagram holds.
const PAYLOAD_BYTES_MAX: usize = 1_400 - HEAD_BYTES;
/// Chunks are numbered up to here.
pub(super) const SEQUENCES: u16 = 1 << 10;

const CONTROL: u8 = 1;
const RESEND: u8 = 2;
const COMPRESSED: u8 = 4;
const CONNLESS: u8 = 8;

/// What a datagram holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// About the connection: a kind, and what goes with it.
    Control { token: u32, kind: u8, rest: &'a [u8] },
    /// Chunks; who sent it wants those after `ack` again if it says so.
    Chunks { token: u32, ack: u16, wants_again: bool, payload: &'a [u8] },
}

/// One message of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    /// Its number, if it is sent until it is acknowledged.
    pub(super) sequence: Option<u16>,
    pub(super) payload: &'a [u8],
}

/// Reads a datagram; `room` takes what was compressed.
pub(super) fn read<'a>(bytes: &'a [u8], room: &'a mut Vec<u8>) -> Option<Packet<'a>> {
    let (head, payload) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [first, second, _count, token @ ..] = *head;
    let (flags, token) = (first >> 2, u32::from_be_bytes(token));
    if flags & CONNLESS != 0 {
        return None;
    }
    if flags & CONTROL != 0 {
        let (kind, rest) = payload.split_first()?;
        return Some(Packet::Control { token, kind: *kind, rest });
    }
    let ack = u16::from(first & 3) << 8 | u16::from(second);
    let wants_again = flags & RESEND != 0;
    let payload = if flags & COMPRESSED != 0 {
        room.clear();
        huffman::decompress(payload, room, PAYLOAD_BYTES_MAX)?;
        room
    } else {
        payload
    };
    Some(Packet::Chunks { token, ack, wants_again, payload })
}

/// Takes the first chunk off a payload.
pub(super) fn chunk<'a>(payload: &mut &'a [u8]) -> Option<Chunk<'a>> {
    let ([first, second], rest) = payload.split_first_chunk()?;
    let len = usize::from(first & 0x3f) << 6 | usize::from(second & 0x3f);
    let is_vital = first & 0x40 != 0;
    let (sequence, rest) = if is_vital {
        let (third, rest) = rest.split_first()?;
        (Some(u16::from(second & 0xc0) << 2 | u16::from(*third)), rest)
    } else {
        (None, rest)
    };
    let (chunk, rest) = rest.split_at_checked(len)?;
    *payload = rest;
    Some(Chunk { sequence, payload: chunk })
}

/// A datagram about the connection.
pub(super) fn control(token: u32, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![CONTROL << 2, 0, 0];
    bytes.extend(token.to_be_bytes());
    bytes.push(kind);
    bytes.extend(rest);
    bytes
}

/// A datagram of chunks, which [`put_chunk`] has made.
pub(super) fn packet(token: u32, ack: u16, count: u8, chunks: &[u8]) -> Vec<u8> {
    let [high, low] = (ack % SEQUENCES).to_be_bytes();
    let mut bytes = vec![high, low, count];
    bytes.extend(token.to_be_bytes());
    bytes.extend(chunks);
    bytes
}

/// Adds a chunk; a number lets it be acknowledged.
pub(super) fn put_chunk(out: &mut Vec<u8>, sequence: Option<u16>, payload: &[u8]) {
    let [high, low] = u16::try_from(payload.len() % 4_096).unwrap_or(0).to_be_bytes();
    let (first, second) = (high << 2 | low >> 6, low & 0x3f);
    match sequence {
        Some(sequence) => {
            let [high, low] = (sequence % SEQUENCES).to_be_bytes();
            out.extend([0x40 | first, high << 6 | second, low]);
        }
        None => out.extend([first, second]),
    }
    out.extend(payload);
}

/// A message's first number: which it is, and whether it is the engine's or the game's.
pub(super) fn message(kind: i32, is_system: bool) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, kind << 1 | i32::from(is_system));
    out
}

/// A number of one to five bytes; the first has a sign and six bits.
pub(super) fn number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let mut value = u32::from(first & 0x3f);
    let (mut more, mut shift) = (first & 0x80 != 0, 6);
    while more {
        let (byte, after) = rest.split_first()?;
        if shift > 27 {
            return None;
        }
        value |= u32::from(byte & 0x7f) << shift;
        (more, shift, rest) = (byte & 0x80 != 0, shift + 7, after);
    }
    let value = value.cast_signed();
    Some((if first & 0x40 != 0 { !value } else { value }, rest))
}

/// Adds a number.
pub(super) fn put_number(out: &mut Vec<u8>, number: i32) {
    let is_negative = number < 0;
    let mut left = if is_negative { !number } else { number }.cast_unsigned();
    let [low, ..] = left.to_le_bytes();
    let mut byte = low & 0x3f | u8::from(is_negative) << 6;
    left >>= 6;
    while left > 0 {
        out.push(byte | 0x80);
        let [low, ..] = left.to_le_bytes();
        byte = low & 0x7f;
        left >>= 7;
    }
    out.push(byte);
}

/// Adds a text, which holds no zero byte.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::{
        Chunk, Packet, chunk, control, message, number, packet, put_chunk, put_number, put_text,
        read,
    };

    #[test]
    fn numbers_are_as_teeworlds_packs_them() {
        for (bytes, value) in [
            (&[0x00][..], 0),
            (&[0x3f], 63),
            (&[0x80, 0x01], 64),
            (&[0x40], -1),
            (&[0x90, 0x01], 80),
            (&[0xbf, 0xff, 0xff, 0xff, 0x0f], i32::MAX),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN),
        ] {
            assert_eq!(number(bytes).unwrap(), (value, &[][..]), "{bytes:?}");
            let mut out = Vec::new();
            put_number(&mut out, value);
            assert_eq!(out, bytes);
        }
        for bytes in [&[][..], &[0x80], &[0x80; 9]] {
            assert!(number(bytes).is_none());
        }
    }

    #[test]
    fn chunks_come_out_as_they_went_in() {
        let mut chunks = Vec::new();
        let long = vec![7; 1_000];
        put_chunk(&mut chunks, Some(0x3a5), b"one");
        put_chunk(&mut chunks, None, &long);
        put_chunk(&mut chunks, Some(1), b"");
        let bytes = packet(0x0102_0304, 0x2ff, 3, &chunks);
        let mut room = Vec::new();
        let Some(Packet::Chunks { token, ack, wants_again, payload }) = read(&bytes, &mut room)
        else {
            panic!()
        };
        assert_eq!((token, ack, wants_again), (0x0102_0304, 0x2ff, false));
        let mut rest = payload;
        let found: Vec<_> = std::iter::from_fn(|| chunk(&mut rest)).collect();
        let wanted = [
            Chunk { sequence: Some(0x3a5), payload: b"one" },
            Chunk { sequence: None, payload: &long },
            Chunk { sequence: Some(1), payload: b"" },
        ];
        assert_eq!(found, wanted);
        for cut in 0..payload.len() {
            let mut rest = &payload[..cut];
            // Never more than there is, and never a panic.
            let count = std::iter::from_fn(|| chunk(&mut rest)).count();
            assert!(count <= 2, "{cut}");
        }
    }

    #[test]
    fn words_about_the_connection_are_read() {
        let bytes = control(9, 5, b"abcd");
        assert_eq!(bytes[..3], [4, 0, 0]);
        let mut room = Vec::new();
        let wanted = Packet::Control { token: 9, kind: 5, rest: b"abcd" };
        assert_eq!(read(&bytes, &mut room), Some(wanted));
        assert_eq!(read(&bytes[..7], &mut Vec::new()), None);
        assert_eq!(read(b"\x21thrgwxyz\xff\xff\xff\xff", &mut Vec::new()), None);
        let mut text = message(1, true);
        put_text(&mut text, "0.7");
        assert_eq!(text, b"\x030.7\0");
    }
}
