//! What a client is told when something fails: a gRPC code, its HTTP status, and the two forms of
//! the JSON body. Everything that can fail in the game's rules becomes an [`ApiError`] here.
//!
//! Source: fact sheet A.4 and A.8.

use std::borrow::Cow;

use thiserror::Error;

use crate::db::DbError;
use crate::json;

/// gRPC status codes; the numbers are what clients see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// The caller gave up.
    Cancelled = 1,
    /// No better code fits.
    Unknown = 2,
    /// The request itself is wrong.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A limit is reached.
    ResourceExhausted = 8,
    /// Not in this state.
    FailedPrecondition = 9,
    /// A conflict with another call.
    Aborted = 10,
    /// Beyond the end.
    OutOfRange = 11,
    /// Not built.
    Unimplemented = 12,
    /// The server failed.
    Internal = 13,
    /// Not now.
    Unavailable = 14,
    /// Data is damaged.
    DataLoss = 15,
    /// The caller has not shown who it is.
    Unauthenticated = 16,
}

impl Code {
    /// The code with this number; scripts give numbers. Outside 1–16 it is [`Code::Internal`].
    pub fn from_number(number: i64) -> Self {
        match number {
            1 => Self::Cancelled,
            2 => Self::Unknown,
            3 => Self::InvalidArgument,
            4 => Self::DeadlineExceeded,
            5 => Self::NotFound,
            6 => Self::AlreadyExists,
            7 => Self::PermissionDenied,
            8 => Self::ResourceExhausted,
            9 => Self::FailedPrecondition,
            10 => Self::Aborted,
            11 => Self::OutOfRange,
            12 => Self::Unimplemented,
            14 => Self::Unavailable,
            15 => Self::DataLoss,
            16 => Self::Unauthenticated,
            _ => Self::Internal,
        }
    }

    /// The number that clients see, 1–16.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The HTTP status for this code.
    pub fn http_status(self) -> u16 {
        match self {
            Self::Cancelled => 499,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::Unauthenticated => 401,
            Self::PermissionDenied => 403,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::ResourceExhausted => 429,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::DeadlineExceeded => 504,
        }
    }
}

/// A refusal for a client. With [`Code::Unauthenticated`] the HTTP answer also carries the message
/// as `WWW-Authenticate`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of failure.
    pub code: Code,
    /// The text, as the original words it.
    pub message: Cow<'static, str>,
}

impl ApiError {
    /// A refusal with this code and text.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// A refusal because the request is wrong (code 3).
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// A refusal because our side failed (code 13). The cause goes to the log, not to the client.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Turns a failure of the database into `message` with code 13, for use in `map_err`.
    pub fn database(message: &'static str) -> impl Fn(DbError) -> Self {
        move |_| Self::internal(message)
    }

    /// Appends the body of a REST answer: `{"code":3,"message":"…"}`.
    pub fn write_body(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(br#"{"code":"#);
        json::write_u64(body, u64::from(self.code.number()));
        body.extend_from_slice(br#","message":"#);
        json::write_str(body, &self.message);
        body.push(b'}');
    }

    /// Appends the body of an answer of `/v2/rpc/{id}`: `{"code":3,"error":"…","message":"…"}`.
    pub fn write_rpc_body(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(br#"{"code":"#);
        json::write_u64(body, u64::from(self.code.number()));
        body.extend_from_slice(br#","error":"#);
        json::write_str(body, &self.message);
        body.extend_from_slice(br#","message":"#);
        json::write_str(body, &self.message);
        body.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiError, Code};

    #[test]
    fn numbers_and_statuses_are_those_of_the_table() {
        let statuses = [
            499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401,
        ];
        for (number, status) in (1i64..).zip(statuses) {
            let code = Code::from_number(number);
            assert_eq!((i64::from(code.number()), code.http_status()), (number, status));
        }
        for odd in [0, -1, 17, i64::MAX] {
            assert_eq!(Code::from_number(odd), Code::Internal);
        }
    }

    #[test]
    fn bodies_are_json_whatever_the_message() {
        let error = ApiError::invalid("a \"b\"\n");
        let (mut rest, mut rpc) = (Vec::new(), Vec::new());
        error.write_body(&mut rest);
        error.write_rpc_body(&mut rpc);
        assert_eq!(rest, br#"{"code":3,"message":"a \"b\"\n"}"#);
        assert_eq!(rpc, br#"{"code":3,"error":"a \"b\"\n","message":"a \"b\"\n"}"#);
    }
}
