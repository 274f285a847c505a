//! Who is calling: the `Authorization` header and the keys of a server. Nothing is looked up
//! but the thread's own revocations.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use event::Now;

use crate::error::{ApiError, Code};
use crate::session::{Claims, Revocations, Signer};

/// Standard alphabet; padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Longest user part of Basic credentials that is looked at; keys are much shorter.
const BASIC_BYTES_MAX: usize = 4_096;

/// What an `Authorization` header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// There is no header, or it is of no kind that is known here.
    None,
    /// `Basic`: the user part; the password part is not looked at.
    Basic(Cow<'a, str>),
    /// `Bearer`: the token.
    Bearer(&'a str),
}

/// Takes an `Authorization` header apart; the scheme's letters may be of either case (RFC 9110
/// §11.1).
pub fn parse(header: Option<&str>) -> Credentials<'_> {
    let Some((scheme, rest)) = header.and_then(|header| header.trim().split_once(' ')) else {
        return Credentials::None;
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Credentials::Bearer(rest);
    }
    if !scheme.eq_ignore_ascii_case("basic") || rest.len() > BASIC_BYTES_MAX {
        return Credentials::None;
    }
    let decoded = BASE64.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|text| text.split_once(':')) {
        Some((user, _)) => Credentials::Basic(Cow::Owned(user.to_owned())),
        None => Credentials::None,
    }
}

/// Checks the server key.
///
/// # Errors
/// [`ApiError`] with code 16.
pub fn server_key(header: Option<&str>, key: &str) -> Result<(), ApiError> {
    match parse(header) {
        Credentials::Basic(given) if is_same(&given, key) => Ok(()),
        // As Nakama: any header that is not Basic holds a wrong key.
        _ if header.is_some() => Err(unauthenticated("Server key invalid")),
        _ => Err(unauthenticated("Server key required")),
    }
}

/// Checks the key for loading modules again, as a bearer token; an empty key is nobody's.
///
/// # Errors
/// [`ApiError`] with code 16, or 5 where no key is set: then there is no such path.
pub fn reload_key(header: Option<&str>, key: &str) -> Result<(), ApiError> {
    if key.is_empty() {
        return Err(ApiError::new(Code::NotFound, "Not Found"));
    }
    match parse(header) {
        Credentials::Bearer(given) if is_same(given, key) => Ok(()),
        _ if header.is_some() => Err(unauthenticated("Reload key invalid")),
        _ => Err(unauthenticated("Reload key required")),
    }
}

/// Takes the session token out of the header and lets `verify` check it: [`session`], or a cache
/// before it.
///
/// # Errors
/// [`ApiError`] with code 16.
pub fn bearer<T>(
    header: Option<&str>,
    verify: impl FnOnce(&str) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    match parse(header) {
        Credentials::Bearer(token) => verify(token),
        _ if header.is_some() => Err(invalid()),
        _ => Err(unauthenticated("Auth token required")),
    }
}

/// Checks a session token by itself, as in the target of a WebSocket handshake.
///
/// # Errors
/// [`ApiError`] with code 16.
pub fn session(
    token: &str,
    signer: &Signer,
    revocations: &Revocations,
    now: Now,
) -> Result<Claims, ApiError> {
    match signer.verify_session(token, now) {
        Ok(claims) if !revocations.is_revoked(&claims) => Ok(claims),
        _ => Err(invalid()),
    }
}

/// What is answered to a token that does not count, whatever the cause.
pub fn invalid() -> ApiError {
    unauthenticated("Auth token invalid")
}

/// Checks the caller of an RPC: the http key in the query, else in the header, else a session
/// token. `None` is a caller with the key, who is no user. The errors are answered with
/// [`ApiError::write_rpc_body`].
///
/// # Errors
/// [`ApiError`] with code 16.
pub fn rpc<T>(
    header: Option<&str>,
    given_key: Option<&str>,
    http_key: &str,
    verify: impl FnOnce(&str) -> Result<T, ApiError>,
) -> Result<Option<T>, ApiError> {
    let wrong_key = || unauthenticated("HTTP key invalid");
    if let Some(given) = given_key.filter(|given| !given.is_empty()) {
        return if is_same(given, http_key) { Ok(None) } else { Err(wrong_key()) };
    }
    match parse(header) {
        Credentials::Basic(given) if is_same(&given, http_key) => Ok(None),
        Credentials::Basic(_) => Err(wrong_key()),
        Credentials::Bearer(token) => verify(token).map(Some),
        Credentials::None => Err(unauthenticated("Auth token or HTTP key required")),
    }
}

/// Checks the caller of an RPC over gRPC, where a header counts alone, and has to hold a session token;
/// without one the key in the message counts. `None` is a caller with the key, who is no user.
///
/// Source: Nakama 3.40, `securityInterceptorFunc` in `server/api.go`.
///
/// # Errors
/// [`ApiError`] with code 16.
pub fn grpc_rpc<T>(
    header: Option<&str>,
    given_key: &str,
    http_key: &str,
    verify: impl FnOnce(&str) -> Result<T, ApiError>,
) -> Result<Option<T>, ApiError> {
    match header {
        Some(_) => bearer(header, verify).map(Some),
        None if given_key.is_empty() => Err(unauthenticated("Auth token or HTTP key required")),
        None if is_same(given_key, http_key) => Ok(None),
        None => Err(unauthenticated("HTTP key invalid")),
    }
}

/// Compares keys in a time that tells nothing but whether the lengths are the same.
fn is_same(given: &str, key: &str) -> bool {
    given.len() == key.len()
        && given.bytes().zip(key.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn unauthenticated(message: &'static str) -> ApiError {
    ApiError::new(Code::Unauthenticated, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_kinds() {
        let basic = |user: &str| Credentials::Basic(Cow::Owned(user.to_owned()));
        for (header, expected) in [
            (None, Credentials::None),
            (Some(""), Credentials::None),
            (Some("Bearer"), Credentials::None),
            (Some("Bearer a.b.c"), Credentials::Bearer("a.b.c")),
            (Some("bearer  a.b.c "), Credentials::Bearer("a.b.c")),
            (Some("Basic ZGVmYXVsdGtleTo="), basic("defaultkey")),
            (Some("Basic ZGVmYXVsdGtleTo"), basic("defaultkey")),
            (Some("basic ZGVmYXVsdGtleTpwYXNz"), basic("defaultkey")),
            (Some("Basic ZGVmYXVsdGtleQ=="), Credentials::None),
            (Some("Basic ***"), Credentials::None),
            (Some("Digest x"), Credentials::None),
        ] {
            assert_eq!(parse(header), expected, "{header:?}");
        }
    }

    #[test]
    fn keys_and_tokens_are_refused_with_the_originals_texts() {
        let text = |result: Result<(), ApiError>| result.map_err(|error| error.message);
        assert_eq!(server_key(Some("Basic ZGVmYXVsdGtleTo="), "defaultkey"), Ok(()));
        for (header, key, wanted) in [
            (Some("Bearer 0123456789abcdef"), "0123456789abcdef", Ok(())),
            (Some("Bearer 0123456789abcdeg"), "0123456789abcdef", Err(Code::Unauthenticated)),
            (Some("Bearer "), "0123456789abcdef", Err(Code::Unauthenticated)),
            (None, "0123456789abcdef", Err(Code::Unauthenticated)),
            (Some("Bearer "), "", Err(Code::NotFound)),
        ] {
            assert_eq!(reload_key(header, key).map_err(|error| error.code), wanted, "{header:?}");
        }
        for (header, message) in [
            (None, "Server key required"),
            (Some("Bearer x"), "Server key invalid"),
            (Some("Basic ZGVmYXVsdGtleTA6"), "Server key invalid"),
            (Some("Basic OmRlZmF1bHRrZXk="), "Server key invalid"),
        ] {
            assert_eq!(text(server_key(header, "defaultkey")), Err(message.into()), "{header:?}");
        }
        let rpc = |header, key| {
            rpc(header, key, "httpkey", |_| Err::<(), _>(unauthenticated("Auth token invalid")))
                .map_err(|error| error.message)
        };
        assert_eq!(rpc(None, Some("httpkey")), Ok(None));
        assert_eq!(rpc(Some("Basic aHR0cGtleTo="), None), Ok(None));
        assert_eq!(rpc(Some("Basic aHR0cGtleTo="), Some("")), Ok(None));
        for (header, key, message) in [
            (None, Some("x"), "HTTP key invalid"),
            (Some("Basic eDo="), None, "HTTP key invalid"),
            (Some("Bearer x"), None, "Auth token invalid"),
            (None, None, "Auth token or HTTP key required"),
        ] {
            assert_eq!(rpc(header, key), Err(message.into()), "{header:?} {key:?}");
        }
    }
}
