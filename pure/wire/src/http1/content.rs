//! Bodies that clients compress: what `Content-Encoding` names is undone here, within a limit, or
//! refused as such. nakama-dotnet and the Unity client can be told to send gzip.
//!
//! [`Gzip`] compresses answers; whether one is to be is said elsewhere. In: a request with its body.
//! Out: the body as its sender meant it.
//!
//! Source: RFC 9110 section 8.4, RFC 1950, 1951 and 1952; `decompressHandler` in Nakama 3.40's
//! `server/api.go`, which passes other codings on as they are, and reads `deflate` as RFC 1951.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::bufread::GzDecoder;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{HttpError, Limits, Request};

/// How a body is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// Not at all.
    #[default]
    Identity,
    /// `gzip`, also `x-gzip`.
    Gzip,
    /// `deflate`: with the zlib header that RFC 9110 asks for, or without, as Nakama reads it.
    Deflate,
    /// Another one, or several.
    Other,
}

impl Coding {
    /// The coding of a body that has this one and on top of it the one called `name`.
    pub(super) fn then(self, name: &[u8]) -> Self {
        let coding = match name {
            b"" => Self::Identity,
            _ if name.eq_ignore_ascii_case(b"identity") => Self::Identity,
            _ if name.eq_ignore_ascii_case(b"gzip") => Self::Gzip,
            _ if name.eq_ignore_ascii_case(b"x-gzip") => Self::Gzip,
            _ if name.eq_ignore_ascii_case(b"deflate") => Self::Deflate,
            _ => Self::Other,
        };
        match (self, coding) {
            (one, Self::Identity) | (Self::Identity, one) => one,
            _ => Self::Other,
        }
    }
}

/// Whether a value of `Accept-Encoding` names gzip, and not with the weight 0 (RFC 9110 section
/// 12.5.3).
pub(super) fn accepts_gzip(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|entry| {
        let mut parts = entry.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"gzip"));
        let is_zero = |weight: &[u8]| {
            let digits = weight.strip_prefix(b"q=").or_else(|| weight.strip_prefix(b"Q="));
            digits.is_some_and(|digits| digits.iter().all(|byte| matches!(byte, b'0' | b'.')))
        };
        is_gzip && !parts.any(is_zero)
    })
}

/// The body of `request` without its content coding: borrowed if it has none, or no body.
///
/// # Errors
/// [`HttpError::ContentCoding`], [`HttpError::Content`]; [`HttpError::BodyTooLarge`] as soon as it
/// exceeds [`Limits::body_bytes_max`].
pub fn content<'a>(request: &Request<'a>, limits: &Limits) -> Result<Cow<'a, [u8]>, HttpError> {
    let body = request.body;
    if body.is_empty() {
        return Ok(Cow::Borrowed(body));
    }
    match request.coding {
        Coding::Identity => Ok(Cow::Borrowed(body)),
        Coding::Gzip => gunzip(body, limits.body_bytes_max).map(Cow::Owned),
        Coding::Deflate => inflate(body, limits.body_bytes_max).map(Cow::Owned),
        Coding::Other => Err(HttpError::ContentCoding),
    }
}

/// Members of one gzip body: each costs a decoder of its own, even if nothing is in it.
const MEMBERS_MAX: usize = 64;

/// One gzip member or several, and nothing behind them.
pub(crate) fn gunzip(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, HttpError> {
    let (mut rest, mut content) = (body, Vec::new());
    for _ in 0..MEMBERS_MAX {
        // One byte more than allowed tells that there is more.
        let room = bytes_max + 1 - content.len();
        let mut reader = GzDecoder::new(rest).take(room as u64);
        let read = reader.read_to_end(&mut content);
        if content.len() > bytes_max {
            return Err(HttpError::BodyTooLarge);
        }
        read.map_err(|_| HttpError::Content)?;
        rest = reader.into_inner().into_inner();
        if rest.is_empty() {
            return Ok(content);
        }
    }
    Err(HttpError::Content)
}

/// Makes gzip of answers: as fast as it goes, since others wait meanwhile. What it works with, some
/// 300 KB, is made for the first answer and used again for the next.
#[derive(Debug, Default)]
pub struct Gzip {
    state: Option<Compress>,
}

impl Gzip {
    /// Content in gzip. `None` if that fails, which from memory into memory it does not.
    pub fn pack(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        /// Of what the window can look back upon, as a power of two: all that gzip has (RFC 1951).
        const WINDOW_BITS: u8 = 15;
        let state =
            self.state.get_or_insert_with(|| Compress::new_gzip(Compression::fast(), WINDOW_BITS));
        state.reset();
        let mut packed = Vec::with_capacity(content.len() / 4 + 64);
        loop {
            let rest = content.get(usize::try_from(state.total_in()).ok()?..)?;
            match state.compress_vec(rest, &mut packed, FlushCompress::Finish).ok()? {
                Status::StreamEnd => return Some(packed),
                Status::Ok | Status::BufError => packed.reserve(packed.capacity()),
            }
        }
    }
}

/// One deflate stream, and nothing behind it.
fn inflate(body: &[u8], bytes_max: usize) -> Result<Vec<u8>, HttpError> {
    const ROOM_MIN: usize = 1_024;
    let mut stream = Decompress::new(has_zlib_header(body));
    let mut content = Vec::new();
    loop {
        // Doubles; one byte more than allowed tells that there is more.
        let room_max = bytes_max + 1 - content.len();
        content.reserve_exact(content.len().clamp(ROOM_MIN, room_max.max(ROOM_MIN)));
        let before = (stream.total_in(), content.len());
        let rest = usize::try_from(before.0).ok().and_then(|at| body.get(at..)).unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut content, FlushDecompress::None);
        let status = status.map_err(|_| HttpError::Content)?;
        if content.len() > bytes_max {
            return Err(HttpError::BodyTooLarge);
        }
        match status {
            Status::StreamEnd if stream.total_in() == body.len() as u64 => return Ok(content),
            Status::StreamEnd => return Err(HttpError::Content),
            // The stream does not end within the body.
            _ if before == (stream.total_in(), content.len()) => return Err(HttpError::Content),
            Status::Ok | Status::BufError => {}
        }
    }
}

/// Whether a deflate body begins with the header of zlib. Without one, a body that begins so would
/// be a stored block whose two lengths contradict each other, in all but one of 65,536 cases.
/// Source: RFC 1950 section 2.2, RFC 1951 section 3.2.4.
fn has_zlib_header(body: &[u8]) -> bool {
    matches!(*body, [method, flags, ..]
        if method & 0x0f == 8 && u16::from_be_bytes([method, flags]).is_multiple_of(31))
}

#[cfg(test)]
mod tests {

    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::super::Decoder;
    use super::*;

    const LIMITS: Limits = Limits { head_bytes_max: 512, headers_max: 8, body_bytes_max: 4_096 };
    const TEXT: &[u8] = br#"{"id":"0123456789"}"#;
    /// What Python's `gzip` and `zlib` make of `TEXT`.
    const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\x4c\x51\xb2\x52\
        \x32\x30\x34\x32\x36\x31\x35\x33\xb7\xb0\x54\xaa\x05\x00\xe5\xc3\xaa\x0e\x13\x00\x00\x00";
    const RAW: &[u8] = b"\xab\x56\xca\x4c\x51\xb2\x52\x32\x30\x34\x32\x36\x31\x35\x33\xb7\xb0\
        \x54\xaa\x05\x00";
    const ZLIB: &[u8] = b"\x78\x9c\xab\x56\xca\x4c\x51\xb2\x52\x32\x30\x34\x32\x36\x31\x35\x33\
        \xb7\xb0\x54\xaa\x05\x00\x2f\x85\x04\x95";

    /// The content of a request with these header lines and this body, sent in two pieces.
    fn read(lines: &str, body: &[u8]) -> Result<Vec<u8>, HttpError> {
        let len = body.len();
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {len}\r\n\r\n");
        let whole = [head.as_bytes(), body].concat();
        let mut decoder = Decoder::new();
        let request = decoder.next(&mut &whole[..], &LIMITS)?.unwrap();
        let at_once = content(&request, &LIMITS).map(Cow::into_owned);
        assert!(decoder.next(&mut &[][..], &LIMITS)?.is_none());
        if decoder.next(&mut head.as_bytes(), &LIMITS)?.is_none() && len > 0 {
            let mut rest = body;
            let request = decoder.next(&mut rest, &LIMITS)?.unwrap();
            assert_eq!(content(&request, &LIMITS).map(Cow::into_owned), at_once);
        }
        at_once
    }

    fn packed<W: std::io::Write>(mut encoder: W, bytes: &[u8]) -> W {
        encoder.write_all(bytes).unwrap();
        encoder
    }

    fn all_codings(bytes: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        let best = Compression::best();
        [
            ("gzip", packed(GzEncoder::new(Vec::new(), best), bytes).finish().unwrap()),
            ("deflate", packed(DeflateEncoder::new(Vec::new(), best), bytes).finish().unwrap()),
            ("deflate", packed(ZlibEncoder::new(Vec::new(), best), bytes).finish().unwrap()),
        ]
    }

    #[test]
    fn codings_are_undone_or_refused() {
        for (lines, body, expected) in [
            ("", TEXT, Ok(TEXT)),
            ("Content-Encoding: identity\r\n", TEXT, Ok(TEXT)),
            ("Content-Encoding:\r\n", TEXT, Ok(TEXT)),
            ("Content-Encoding: gzip\r\n", GZIP, Ok(TEXT)),
            ("content-encoding: X-GZip\r\n", GZIP, Ok(TEXT)),
            ("Content-Encoding: identity, gzip\r\n", GZIP, Ok(TEXT)),
            ("Content-Encoding: deflate\r\n", RAW, Ok(TEXT)),
            ("Content-Encoding: deflate\r\n", ZLIB, Ok(TEXT)),
            ("Content-Encoding: gzip\r\n", b"", Ok(b"")),
            ("Content-Encoding: br\r\n", b"", Ok(b"")),
            ("Content-Encoding: br\r\n", TEXT, Err(HttpError::ContentCoding)),
            ("Content-Encoding: gzip, gzip\r\n", GZIP, Err(HttpError::ContentCoding)),
            (
                "Content-Encoding: gzip\r\nContent-Encoding: deflate\r\n",
                GZIP,
                Err(HttpError::ContentCoding),
            ),
            ("Content-Encoding: gzip\r\n", TEXT, Err(HttpError::Content)),
            ("Content-Encoding: deflate\r\n", GZIP, Err(HttpError::Content)),
        ] {
            assert_eq!(read(lines, body), expected.map(<[u8]>::to_vec), "{lines}");
        }
        assert_eq!(HttpError::ContentCoding.status(), 415);
    }

    #[test]
    fn answers_are_compressed_for_who_accepts_it() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5, br", true),
            ("GZIP; q=1", true),
            ("gzip;q=0", false),
            ("gzip; Q=0.000", false),
            ("x-gzip, deflate", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(value.as_bytes()), expected, "{value}");
        }
        let mut gzip = Gzip::default();
        for len in [0, 1, 1_000, 100_000, 7] {
            let text: Vec<u8> = b"0123456789abcdef".iter().copied().cycle().take(len).collect();
            assert_eq!(gunzip(&gzip.pack(&text).unwrap(), len), Ok(text));
            // What cannot be made smaller.
            let numbers = (0..len).map(|at| at.wrapping_mul(0x9e37_79b9).to_le_bytes());
            let noise: Vec<u8> = numbers.map(|bytes| bytes[2] ^ bytes[3]).collect();
            assert_eq!(gunzip(&gzip.pack(&noise).unwrap(), len), Ok(noise));
        }
    }

    #[test]
    fn members_of_gzip_follow_one_another() {
        let twice = [GZIP, GZIP].concat();
        assert_eq!(read("Content-Encoding: gzip\r\n", &twice), Ok([TEXT, TEXT].concat()));
        let empty = packed(GzEncoder::new(Vec::new(), Compression::best()), b"").finish().unwrap();
        for (count, expected) in [(64, Ok(Vec::new())), (65, Err(HttpError::Content))] {
            assert_eq!(read("Content-Encoding: gzip\r\n", &empty.repeat(count)), expected);
        }
    }

    #[test]
    fn what_is_cut_damaged_or_followed_by_more_is_refused() {
        for (coding, body) in [("gzip", GZIP), ("deflate", RAW), ("deflate", ZLIB)] {
            let lines = format!("Content-Encoding: {coding}\r\n");
            for end in 1..body.len() {
                assert_eq!(read(&lines, &body[..end]), Err(HttpError::Content), "{coding} {end}");
            }
            let more = [body, b"x"].concat();
            assert_eq!(read(&lines, &more), Err(HttpError::Content), "{coding} and more");
            for bit in 0..body.len() * 8 {
                let mut damaged = body.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let _ = read(&lines, &damaged);
            }
        }
    }

    #[test]
    fn content_is_limited_like_a_body() {
        let max = LIMITS.body_bytes_max;
        for len in [0, 1, 1_023, 1_024, 1_025, max - 1, max] {
            for (coding, body) in all_codings(&vec![b'x'; len]) {
                let read = read(&format!("Content-Encoding: {coding}\r\n"), &body);
                assert_eq!(read, Ok(vec![b'x'; len]), "{coding}");
            }
        }
        for len in [max + 1, 1_000 * max] {
            for (coding, body) in all_codings(&vec![0; len]) {
                assert!(body.len() <= max);
                let read = read(&format!("Content-Encoding: {coding}\r\n"), &body);
                assert_eq!(read, Err(HttpError::BodyTooLarge), "{coding}");
            }
        }
    }

    #[test]
    fn room_is_made_for_what_is_allowed_alone() {
        let max = 1 << 20;
        for (_, body) in all_codings(&vec![0; max]) {
            let content = gunzip(&body, max).or_else(|_| inflate(&body, max)).unwrap();
            assert!(content.len() == max && content.capacity() <= 2 * max + 64);
        }
    }
}
