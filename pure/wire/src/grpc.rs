//! gRPC's part of a unary call: the service's paths, the five bytes before a message, compressed
//! messages, and the fields that say how a call ended. HTTP/2 is [`crate::http2`]'s.
//!
//! Not here: streaming calls (Nakama has none), and what a call means. Deadlines (`grpc-timeout`) are read
//! and not kept: clients keep them themselves, and take the call back.
//!
//! Source: grpc/grpc, `doc/PROTOCOL-HTTP2.md` and `doc/compression.md`; Nakama 3.40,
//! `apigrpc/apigrpc.proto`; grpc-go 1.82, `rpc_util.go` and `server.go`, for codes and texts.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::http1;
use crate::http2::Fields;
use crate::nakama::api::Code;

/// Of requests and answers.
pub const CONTENT_TYPE: &str = "application/grpc";
/// The compressions that messages of clients may have.
pub const ACCEPTED: &str = "identity,gzip";
/// A flag and the length of the message.
pub const PREFIX_BYTES: usize = 5;
/// Bytes of `grpc-message`, as it is sent; clients take 8 KiB of trailers, some no more.
const TEXT_BYTES_MAX: usize = 4_096;

/// Of what a client is told of its own text, as everywhere.
const QUOTED_BYTES: usize = 64;

/// The path of Nakama's service, before a method's name.
const SERVICE: &str = "/nakama.api.Nakama/";

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BadMessage {
    /// What the client is told.
    pub code: Code,
    /// In words.
    pub text: String,
    /// The status of HTTP: 200, unless this is no call at all.
    pub status: u16,
}

impl BadMessage {
    fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), status: 200 }
    }

    fn no_call(status: u16, code: Code, text: String) -> Self {
        Self { code, text, status }
    }

    /// A message is larger than it may be, in the words of gRPC's libraries.
    #[must_use]
    pub fn too_large(bytes: usize, bytes_max: usize) -> Self {
        let text = format!("grpc: received message larger than max ({bytes} vs. {bytes_max})");
        Self::new(Code::ResourceExhausted, text)
    }
}

/// The name of the method that a request calls. Its fields are looked at in the order in which gRPC's
/// library for Go does.
///
/// # Errors
/// [`BadMessage`]: another type of content or method of HTTP than gRPC's, a deadline that cannot be read or
/// is over, another service.
pub fn method(fields: &Fields) -> Result<&str, BadMessage> {
    let quoted = |value: &[u8]| format!("{:?}", head_of(value));
    let content_type = fields.get("content-type").unwrap_or_default();
    if !is_grpc(content_type) {
        let text = format!("invalid gRPC request content-type {}", quoted(content_type));
        return Err(BadMessage::no_call(415, Code::InvalidArgument, text));
    }
    if let Some(timeout) = fields.get("grpc-timeout") {
        let text = || format!("malformed grpc-timeout: {}", quoted(timeout));
        let amount =
            amount_of(timeout).ok_or_else(|| BadMessage::no_call(400, Code::Internal, text()))?;
        if amount == 0 {
            return Err(BadMessage::new(Code::DeadlineExceeded, "context deadline exceeded"));
        }
    }
    let method = fields.get(":method").unwrap_or_default();
    if method != b"POST" {
        let text = "Received a HEADERS frame with :method";
        let text = format!("{text} {} which should be POST", quoted(method));
        return Err(BadMessage::no_call(405, Code::Internal, text));
    }
    let path = fields.get(":path").unwrap_or_default();
    let known = std::str::from_utf8(path).ok().and_then(|path| path.strip_prefix(SERVICE));
    known.ok_or_else(|| {
        let service = path.strip_prefix(b"/").unwrap_or(path);
        let text = match service.iter().rposition(|byte| *byte == b'/') {
            Some(end) => format!("unknown service {}", head_of(&service[..end])),
            None => format!("malformed method name: {}", quoted(path)),
        };
        BadMessage::new(Code::Unimplemented, text)
    })
}

/// The beginning of what a client has sent, to be told to it.
fn head_of(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value.get(..QUOTED_BYTES).unwrap_or(value))
}

/// The number of a deadline, of at most eight digits before its unit; `None` if it is none.
fn amount_of(timeout: &[u8]) -> Option<u32> {
    let (unit, digits) = timeout.split_last()?;
    let is_known = b"HMSmun".contains(unit) && (1..=8).contains(&digits.len());
    if !is_known || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether a request's content type is gRPC with messages in protobuf.
fn is_grpc(content_type: &[u8]) -> bool {
    let Some(rest) = content_type.strip_prefix(CONTENT_TYPE.as_bytes()) else { return false };
    rest.is_empty() || rest.starts_with(b";") || rest == b"+proto" || rest.starts_with(b"+proto;")
}

/// The one message in a request's body, decompressed. `encoding` is the field `grpc-encoding`.
///
/// # Errors
/// [`BadMessage`]: no message or several, a compression that is not known, a message that is not
/// what it says, or one of more than `bytes_max`, also once it is decompressed.
pub fn message<'a>(
    body: &'a [u8],
    encoding: Option<&[u8]>,
    bytes_max: usize,
) -> Result<Cow<'a, [u8]>, BadMessage> {
    let internal = |text: &str| BadMessage::new(Code::Internal, text);
    let Some(([flag, length @ ..], message)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(internal("a unary call has one message, and this one has none"));
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > bytes_max {
        return Err(BadMessage::too_large(length, bytes_max));
    }
    if message.len() != length {
        return Err(internal("a unary call has one message, of the length that it says"));
    }
    match (*flag, encoding.unwrap_or(b"identity")) {
        (0, _) => Ok(Cow::Borrowed(message)),
        (1, b"gzip") => http1::gunzip(message, bytes_max).map(Cow::Owned).map_err(|error| {
            if error == http1::HttpError::BodyTooLarge {
                return BadMessage::too_large(bytes_max + 1, bytes_max);
            }
            internal("grpc: failed to decompress the received message")
        }),
        (1, b"identity" | b"") => {
            Err(internal("grpc: compressed flag set with identity or empty encoding"))
        }
        (1, other) => {
            let name = head_of(other);
            let text = format!("grpc: Decompressor is not installed for grpc-encoding {name:?}");
            Err(BadMessage::new(Code::Unimplemented, text))
        }
        (flag, _) => Err(internal(&format!("grpc: received unexpected payload format {flag}"))),
    }
}

/// The body of an answer: `message` behind its prefix.
#[must_use]
pub fn framed(message: &[u8], is_compressed: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(PREFIX_BYTES + message.len());
    body.push(u8::from(is_compressed));
    // Answers are far below 4 GiB: limit.answer_max_bytes.
    body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    body.extend_from_slice(message);
    body
}

/// The value of `grpc-message`: all but visible ASCII, and `%`, is percent-encoded. What does not
/// fit into 4 KiB is left out.
#[must_use]
pub fn status_text(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len().min(TEXT_BYTES_MAX));
    for letter in text.chars() {
        let before = encoded.len();
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            if matches!(byte, b' '..=b'~') && byte != b'%' {
                encoded.push(char::from(byte));
            } else {
                // Into a string this cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        if encoded.len() > TEXT_BYTES_MAX {
            encoded.truncate(before);
            break;
        }
    }
    encoded
}

/// Whether a list of codings, as `grpc-accept-encoding` is, has gzip.
#[must_use]
pub fn accepts_gzip(list: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|coding| coding.trim_ascii() == b"gzip")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed_as(flag: u8, message: &[u8]) -> Vec<u8> {
        let mut body = framed(message, false);
        body[0] = flag;
        body
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn messages_are_read_or_refused() {
        let read = |body: &[u8], encoding: Option<&[u8]>| {
            message(body, encoding, 100).map(Cow::into_owned).map_err(|error| error.to_string())
        };
        assert_eq!(read(&framed(b"abc", false), None), Ok(b"abc".to_vec()));
        assert_eq!(read(&framed(b"", false), Some(b"gzip")), Ok(Vec::new()));
        assert_eq!(read(&framed(&gzipped(b"abc"), true), Some(b"gzip")), Ok(b"abc".to_vec()));
        for (body, encoding, expected) in [
            (Vec::new(), None, "has none"),
            (b"\0\0\0\0\x05abc".to_vec(), None, "of the length"),
            ([framed(b"a", false), framed(b"b", false)].concat(), None, "of the length"),
            (framed(&[0; 101], false), None, "larger than max (101 vs. 100)"),
            (framed(&gzipped(&[0; 101]), true), Some(&b"gzip"[..]), "larger than max (101 vs."),
            (framed(b"no gzip", true), Some(b"gzip"), "failed to decompress"),
            (framed(b"abc", true), None, "identity or empty encoding"),
            (framed(b"abc", true), Some(b"zstd"), "not installed for grpc-encoding \"zstd\""),
            (framed_as(2, b"abc"), None, "unexpected payload format 2"),
        ] {
            let error = read(&body, encoding).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn texts_of_errors_are_encoded() {
        assert_eq!(status_text("Account not found."), "Account not found.");
        assert_eq!(status_text("50 % ä\n"), "50 %25 %C3%A4%0A");
        let long = status_text(&"ä".repeat(5_000));
        assert!(long.len() <= TEXT_BYTES_MAX && long.ends_with("%A4") && long.len() > 4_080);
    }

    #[test]
    fn calls_are_told_from_what_is_none() {
        let told = |changed: &[(&str, &str)]| {
            let mut fields = Fields::default();
            let usual = [
                (":method", "POST"),
                (":path", "/nakama.api.Nakama/GetAccount"),
                ("content-type", "application/grpc"),
            ];
            for (name, value) in changed.iter().chain(&usual) {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            let found = method(&fields).map(str::to_owned);
            found.map_err(|error| (error.status, error.code.number(), error.text))
        };
        for right in [&[][..], &[("grpc-timeout", "99999999H")], &[("grpc-timeout", "1n")]] {
            assert_eq!(told(right).as_deref(), Ok("GetAccount"));
        }
        let service = "/nakama.api.Other/GetAccount";
        for (name, value, status, code, text) in [
            ("content-type", "a", 415, 3, "invalid gRPC request content-type \"a\""),
            (":method", "PUT", 405, 13, ":method \"PUT\" which should be POST"),
            ("grpc-timeout", "1", 400, 13, "malformed grpc-timeout: \"1\""),
            ("grpc-timeout", "123456789S", 400, 13, "grpc-timeout: \"123456789S\""),
            ("grpc-timeout", "+1S", 400, 13, "grpc-timeout: \"+1S\""),
            ("grpc-timeout", "1s", 400, 13, "grpc-timeout: \"1s\""),
            ("grpc-timeout", "0S", 200, 4, "context deadline exceeded"),
            (":path", service, 200, 12, "unknown service nakama.api.Other"),
            (":path", "/Healthcheck", 200, 12, "malformed method name: \"/Healthcheck\""),
        ] {
            let (found_status, found_code, found) = told(&[(name, value)]).unwrap_err();
            assert_eq!((found_status, found_code), (status, code), "{found}");
            assert!(found.ends_with(text), "{found}");
        }
    }

    #[test]
    fn names_and_types_are_told_apart() {
        for (text, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc+json", false),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(text.as_bytes()), expected, "{text}");
        }
        assert!(accepts_gzip(b"identity, gzip") && !accepts_gzip(b"identity,deflate"));
    }
}
