//! What a request is for: path and query.
//!
//! In: the request target as it stands in the request line. Out: its parts, not decoded; what is
//! neither a path nor an http URL (nor `*` of OPTIONS) is refused.
//!
//! Source: RFC 9112 sections 3.2.1, 3.2.2 and 3.2.4; RFC 9110 section 4.2.3.

use super::HttpError;
use super::scan::{RequestLine, is_host};

/// A request target without scheme and authority, which a URL to a proxy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// As sent, not decoded, ASCII, beginning with `/`; or `*` of OPTIONS.
    pub path: &'a str,
    /// What follows the first `?` as sent, not decoded, ASCII; empty also when there is none.
    pub query: &'a str,
}

/// Splits a path with a query, which is not checked.
impl<'a> From<&'a str> for Target<'a> {
    fn from(text: &'a str) -> Self {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        Self { path, query }
    }
}

impl<'a> Target<'a> {
    /// Reads the target of a request line.
    #[inline]
    pub(super) fn parse(line: &RequestLine<'a>) -> Result<Self, HttpError> {
        let (method, text) = (line.method, line.target);
        if text.starts_with('/') && method != "CONNECT" {
            let Some(query_at) = line.query_at else { return Ok(Self { path: text, query: "" }) };
            return Ok(Self { path: &text[..query_at - 1], query: &text[query_at..] });
        }
        Self::parse_other(method, text)
    }

    /// What a request for a path does not have.
    #[cold]
    fn parse_other(method: &str, text: &'a str) -> Result<Self, HttpError> {
        if method == "CONNECT" {
            return Err(HttpError::Connect);
        }
        if text == "*" && method == "OPTIONS" {
            return Ok(text.into());
        }
        let (scheme, rest) = text.split_once("://").ok_or(HttpError::Target)?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(HttpError::Target);
        }
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() || !authority.bytes().all(is_host) {
            return Err(HttpError::Target);
        }
        let Self { path, query } = rest.into();
        // A URL without a path means the root.
        Ok(Self { path: if path.is_empty() { "/" } else { path }, query })
    }
}
