//! What a client is told when something fails: a gRPC code and a text. Everything that can fail in
//! the game's rules becomes an [`ApiError`] here; the codes' numbers and HTTP statuses are
//! [`wire`'s](Code).
//!
//! Source: gRPC-gateway, `runtime/errors.go`; Nakama 3.40, `server/api_rpc.go`.

use std::borrow::Cow;
use std::num::NonZeroU32;

use thiserror::Error;
use wire::nakama::api as dialect;
pub use wire::nakama::api::Code;

use crate::db::{DbError, MayConflict};

/// A refusal for a client. With [`Code::Unauthenticated`] the HTTP answer also carries the message
/// as `WWW-Authenticate`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of failure.
    pub code: Code,
    /// The text, as Nakama words it.
    pub message: Cow<'static, str>,
    /// Seconds after which another try makes sense, for `Retry-After`; `None` if nobody knows.
    pub retry_after_s: Option<NonZeroU32>,
}

impl ApiError {
    /// A refusal with this code and text.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after_s: None }
    }

    /// The same, with the seconds after which another try makes sense.
    #[must_use]
    pub fn after_s(self, seconds: u32) -> Self {
        Self { retry_after_s: NonZeroU32::new(seconds), ..self }
    }

    /// A refusal because the request is wrong (code 3).
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// A refusal because our side failed (code 13). The cause goes to the log, not to the client.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// A refusal because the answer would be too large (code 8).
    #[must_use]
    pub fn answer_too_large(bytes_max: usize) -> Self {
        Self::new(
            Code::ResourceExhausted,
            format!(
                "the answer is larger than limit.answer_max_bytes ({bytes_max}): ask for less at \
                 once"
            ),
        )
    }

    /// A script's own refusal; numbers outside 1–16 become code 13.
    pub fn script(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        let code = Code::from_number(code).filter(|code| *code != Code::Ok);
        Self::new(code.unwrap_or(Code::Internal), message)
    }

    /// Turns a failure of the database into `message` with code 13, for use in `map_err`; code 10,
    /// which no rule of the game's uses otherwise, if the same call may go well when it is tried
    /// again.
    pub fn database(message: &'static str) -> impl Fn(DbError) -> Self {
        move |error| {
            let code = if error.is_conflict() { Code::Aborted } else { Code::Internal };
            Self::new(code, message)
        }
    }

    /// Appends the body of a REST answer: `{"code":3,"message":"…"}`.
    pub fn write_body(&self, body: &mut Vec<u8>) {
        dialect::encode_error(body, self.code.number(), &self.message);
    }

    /// Appends the body of an answer of `/v2/rpc/{id}`: `{"code":3,"error":"…","message":"…"}`.
    pub fn write_rpc_body(&self, body: &mut Vec<u8>) {
        dialect::encode_rpc_error(body, self.code.number(), &self.message);
    }

    /// Appends the body of an answer of `/v2/rpc/{id}` when the function itself has failed:
    /// `{"code":3,"error":{},"message":"…"}`.
    pub fn write_rpc_failure_body(&self, body: &mut Vec<u8>) {
        dialect::encode_rpc_failure(body, self.code.number(), &self.message);
    }
}

impl MayConflict for ApiError {
    fn is_conflict(&self) -> bool {
        self.code == Code::Aborted
    }
}

impl From<wire::query::QueryStringError> for ApiError {
    fn from(error: wire::query::QueryStringError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<dialect::BadBody> for ApiError {
    fn from(error: dialect::BadBody) -> Self {
        Self::invalid(error.0)
    }
}

/// Why a transaction is given up.
pub(crate) enum Failure {
    /// By a rule.
    Refused(ApiError),
    /// By the database.
    Database(DbError),
}

impl Failure {
    /// What a client is told: the refusal, or `failed` with code 13.
    pub(crate) fn into_error(self, failed: &'static str) -> ApiError {
        match self {
            Self::Refused(error) => error,
            Self::Database(error) => ApiError::database(failed)(error),
        }
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiError, Code, DbError, MayConflict as _};

    #[test]
    fn scripts_may_only_use_codes_of_errors() {
        for (number, code) in [(5, Code::NotFound), (16, Code::Unauthenticated)] {
            assert_eq!(ApiError::script(number, "x").code, code);
        }
        for odd in [0, -1, 17, i64::MAX] {
            assert_eq!(ApiError::script(odd, "x").code, Code::Internal);
        }
    }

    #[test]
    fn what_may_go_well_is_told_from_what_has_failed() {
        let of = |error| ApiError::database("x")(error);
        let conflict = of(DbError::Conflict { cause: "deadlock".into() });
        assert!(conflict.is_conflict() && conflict.message == "x");
        let failed = of(DbError::Machine("disk full".into()));
        assert!(!failed.is_conflict() && failed.code == Code::Internal);
    }

    #[test]
    fn bodies_are_json_whatever_the_message() {
        let error = ApiError::invalid("a \"b\"\n");
        let (mut rest, mut rpc) = (Vec::new(), Vec::new());
        error.write_body(&mut rest);
        error.write_rpc_body(&mut rpc);
        assert_eq!(rest, br#"{"code":3,"message":"a \"b\"\n"}"#);
        assert_eq!(rpc, br#"{"code":3,"error":"a \"b\"\n","message":"a \"b\"\n"}"#);
        rpc.clear();
        error.write_rpc_failure_body(&mut rpc);
        assert_eq!(rpc, br#"{"code":3,"error":{},"message":"a \"b\"\n"}"#);
    }
}
