//! What stays of a head that was read while its body is still coming: the positions of its parts,
//! from which the request or response is made again without reading the head a second time.
//!
//! In: a [`Request`] or [`Response`] and the bytes it borrows from. Out: the same over a copy of
//! these bytes.

use super::assembly::{Framing, Head};
use super::{Coding, Headers, HttpError, Limits, Request, Response, Target, Upgrade, head};

/// A part of a head: positions of its first byte and behind its last.
#[derive(Clone, Copy, Debug)]
struct Span(u32, u32);

impl Span {
    /// Where `part` lies in `head`. What lies elsewhere is a constant that stands for an empty
    /// part.
    fn of(part: &[u8], head: &[u8]) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
        let end = start.wrapping_add(part.len());
        if start > end || end > head.len() {
            return Self(0, 0);
        }
        // Heads are far below 4 GiB.
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self(start, end),
            _ => Self(0, 0),
        }
    }

    fn bytes(self, head: &[u8]) -> &[u8] {
        head.get(self.0 as usize..self.1 as usize).unwrap_or_default()
    }

    /// The part as text, which it was when the head was read.
    fn text(self, head: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(head)).unwrap_or_default()
    }
}

/// A [`Request`] without its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestParts {
    method: Span,
    /// Empty for `/`, which a URL need not have.
    path: Span,
    query: Span,
    headers: Span,
    coding: Coding,
    upgrade: Option<UpgradeParts>,
    version_1_0: bool,
    keep_alive: bool,
    expect_continue: bool,
    accepts_gzip: bool,
}

#[derive(Clone, Copy, Debug)]
struct UpgradeParts {
    is_connection_option: bool,
    key: Option<Span>,
    version: Option<Span>,
}

impl RequestParts {
    /// Reads the complete head `bytes`.
    pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Head<Self>, HttpError> {
        let (request, len, framing) = head::request(bytes, limits)?.ok_or(HttpError::Header)?;
        Ok(Self::head(&request, bytes, len, framing))
    }

    /// What `request` is reduced to, whose head has `len` bytes at the front of `bytes`.
    pub(super) fn head(
        request: &Request<'_>,
        bytes: &[u8],
        len: usize,
        framing: Framing,
    ) -> Head<Self> {
        Head { parts: Self::of(request, bytes), len, framing, expects: request.expect_continue }
    }

    /// Where the parts of `request` lie in `head`, from which it was read.
    fn of(request: &Request<'_>, head: &[u8]) -> Self {
        let span = |part| Span::of(part, head);
        Self {
            method: span(request.method.as_bytes()),
            path: span(request.target.path.as_bytes()),
            query: span(request.target.query.as_bytes()),
            headers: span(request.headers.lines),
            coding: request.coding,
            upgrade: request.upgrade.map(|upgrade| UpgradeParts {
                is_connection_option: upgrade.is_connection_option,
                key: upgrade.key.map(span),
                version: upgrade.version.map(span),
            }),
            version_1_0: request.version_1_0,
            keep_alive: request.keep_alive,
            expect_continue: request.expect_continue,
            accepts_gzip: request.accepts_gzip,
        }
    }

    /// The request, from the same bytes at another place, with its body.
    pub(super) fn request<'a>(&self, head: &'a [u8], body: &'a [u8]) -> Request<'a> {
        let path = self.path.text(head);
        let path = if path.is_empty() { "/" } else { path };
        Request {
            method: self.method.text(head),
            target: Target { path, query: self.query.text(head) },
            version_1_0: self.version_1_0,
            keep_alive: self.keep_alive,
            upgrade: self.upgrade.map(|upgrade| Upgrade {
                is_connection_option: upgrade.is_connection_option,
                key: upgrade.key.map(|span| span.bytes(head)),
                version: upgrade.version.map(|span| span.bytes(head)),
            }),
            expect_continue: self.expect_continue,
            accepts_gzip: self.accepts_gzip,
            headers: Headers { lines: self.headers.bytes(head) },
            coding: self.coding,
            body,
        }
    }
}

/// A [`Response`] without its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseParts {
    headers: Span,
    status: u16,
    version_1_0: bool,
    keep_alive: bool,
}

impl ResponseParts {
    /// Reads the complete head `bytes`, like [`head::response`].
    pub(super) fn read(
        bytes: &[u8],
        limits: &Limits,
        to_head: bool,
    ) -> Result<Head<Self>, HttpError> {
        let read = head::response(bytes, limits, to_head)?;
        let (response, len, framing) = read.ok_or(HttpError::Header)?;
        Ok(Self::head(&response, bytes, len, framing))
    }

    /// What `response` is reduced to, whose head has `len` bytes at the front of `bytes`.
    pub(super) fn head(
        response: &Response<'_>,
        bytes: &[u8],
        len: usize,
        framing: Framing,
    ) -> Head<Self> {
        Head { parts: Self::of(response, bytes), len, framing, expects: false }
    }

    /// Where the parts of `response` lie in `head`, from which it was read.
    fn of(response: &Response<'_>, head: &[u8]) -> Self {
        Self {
            headers: Span::of(response.headers.lines, head),
            status: response.status,
            version_1_0: response.version_1_0,
            keep_alive: response.keep_alive,
        }
    }

    /// The response, from the same bytes at another place, with its body.
    pub(super) fn response<'a>(&self, head: &'a [u8], body: &'a [u8]) -> Response<'a> {
        Response {
            status: self.status,
            version_1_0: self.version_1_0,
            keep_alive: self.keep_alive,
            headers: Headers { lines: self.headers.bytes(head) },
            body,
        }
    }
}
