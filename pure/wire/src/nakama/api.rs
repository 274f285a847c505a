//! The messages of the REST interface that are built, one file for each feature, and what all
//! answers have in common: error bodies, codes, and the odd forms of RPCs over HTTP.
//!
//! Source: Nakama 3.40, `apigrpc/apigrpc.proto`, and nakama-common, `api/api.proto`, for names,
//! numbers and types of fields.

mod account;
mod events;
mod friends;
mod matches;
mod notifications;
mod storage;

use super::json::{Style, lossy_string, write_string, write_string_html};
use super::{Format, ProtoMessage};
use crate::excerpt::reason;

pub use account::*;
pub use events::*;
pub use friends::*;
pub use matches::*;
pub use notifications::*;
pub use storage::*;

/// Why something cannot be done, in the numbers of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "gRPC's own names")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The code of a number; `None` outside 0–16.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        const ALL: [Code; 17] = [
            Code::Ok,
            Code::Cancelled,
            Code::Unknown,
            Code::InvalidArgument,
            Code::DeadlineExceeded,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::FailedPrecondition,
            Code::Aborted,
            Code::OutOfRange,
            Code::Unimplemented,
            Code::Internal,
            Code::Unavailable,
            Code::DataLoss,
            Code::Unauthenticated,
        ];
        usize::try_from(number).ok().and_then(|number| ALL.get(number).copied())
    }

    /// The number in error bodies.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The HTTP status of an answer with this code.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::Unauthenticated => 401,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::ResourceExhausted => 429,
            Self::Cancelled => 499,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::DeadlineExceeded => 504,
        }
    }
}

/// Why a request's body cannot be read, with at most an excerpt of it. Answer with
/// [`Code::InvalidArgument`] and the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadBody(pub String);

/// Reads the body of a request. An empty body is an empty message.
///
/// # Errors
/// The decoder's text.
pub fn decode<T: ProtoMessage>(body: &[u8]) -> Result<T, BadBody> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(bad)
}

/// Reads the body of a request that holds one field of the message.
///
/// # Errors
/// The decoder's text.
pub fn decode_field<T: ProtoMessage>(
    message: &mut T,
    name: &str,
    body: &[u8],
) -> Result<(), BadBody> {
    message.read_field_json(name, body).map_err(bad)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn bad(error: serde_json::Error) -> BadBody {
    BadBody(reason(&error))
}

/// Reads a request in protobuf.
///
/// # Errors
/// The decoder's text.
pub fn decode_protobuf<T: ProtoMessage>(message: &[u8]) -> Result<T, BadBody> {
    T::decode(message).map_err(|error| BadBody(error.to_string()))
}

/// Appends the body of an answer.
pub fn encode<T: ProtoMessage>(out: &mut Vec<u8>, message: &T, format: Format) {
    match format {
        Format::Json => message.write_json(out, Style::SNAKE),
        Format::Protobuf => message.encode_raw(out),
    }
}

/// Appends an error body, `{"code":5,"message":"Not Found"}`.
pub fn encode_error(out: &mut Vec<u8>, code: i32, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(b",\"message\":");
    write_string(out, message);
    out.push(b'}');
}

/// Appends an error body of the RPC route, which names its text twice; readers use `message`.
pub fn encode_rpc_error(out: &mut Vec<u8>, code: i32, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(b",\"error\":");
    write_string_html(out, message);
    out.extend_from_slice(b",\"message\":");
    write_string_html(out, message);
    out.push(b'}');
}

/// Appends the error body of an RPC function that failed: `error` is an empty object, because that
/// is what is left of Go's error values as JSON (Nakama 3.40, `server/api_rpc.go`).
pub fn encode_rpc_failure(out: &mut Vec<u8>, code: i32, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    out.extend_from_slice(itoa::Buffer::new().format(code).as_bytes());
    out.extend_from_slice(b",\"error\":{},\"message\":");
    write_string_html(out, message);
    out.push(b'}');
}

/// Appends the wrapped answer to an RPC over HTTP, `{"payload":"…"}`.
pub fn encode_rpc(out: &mut Vec<u8>, payload: &str) {
    out.extend_from_slice(b"{\"payload\":");
    write_string_html(out, payload);
    out.push(b'}');
}

/// Reads the wrapped body of an RPC over HTTP: one JSON string. Empty and `null` give "". Half a
/// surrogate pair, and each byte that is not UTF-8, becomes U+FFFD: Nakama reads this body with
/// Go's `encoding/json`, which replaces them, while all other bodies go through protobuf's JSON
/// mapping, which refuses them.
///
/// # Errors
/// The text that Nakama answers with for what is not a string.
pub fn decode_rpc(body: &[u8]) -> Result<String, BadBody> {
    let body = body.trim_ascii();
    let kind = match body.first() {
        None => return Ok(String::new()),
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "bool",
        Some(b'-' | b'0'..=b'9') => "number",
        Some(_) => "",
    };
    if kind.is_empty() {
        let text: Result<Option<String>, _> = serde_json::from_slice(body);
        return match text {
            Ok(text) => Ok(text.unwrap_or_default()),
            Err(error) => lossy_string(body).ok_or_else(|| bad(error)),
        };
    }
    // Broken JSON is told as such, before its type.
    serde_json::from_slice::<serde::de::IgnoredAny>(body).map_err(bad)?;
    Err(BadBody(format!("json: cannot unmarshal {kind} into Go value of type string")))
}
