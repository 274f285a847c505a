//! What a complete head says: start line, framing, connection options. One pass over the headers
//! that `httparse` found; everything ambiguous is refused here.
//!
//! In: the bytes of one head. Out: a [`Request`] or [`Response`] that borrows from them.
//!
//! Source: RFC 9110 sections 7.2, 7.6.1, 10.1.1; RFC 9112 sections 2–6.

use std::mem::MaybeUninit;

use memchr::memchr;

use super::assembly::Framing;
use super::{Coding, HEADERS_MAX, HttpError, Limits, Request, Response, Target, Upgrade};

/// The headers of one message in the order they came; values without surrounding white space.
/// Borrowed and read again on every use: a head has few headers, and most are never asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    /// Checked lines `name: value\r\n`.
    pub(super) lines: &'a [u8],
}

impl<'a> Headers<'a> {
    /// The value of the first header `name`, in any case.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All values of headers `name`, in any case.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.into_iter()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = (&'a str, &'a [u8]);
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        HeadersIter { lines: self.lines }
    }
}

/// Iterates over [`Headers`] as (name, value).
#[derive(Clone, Debug)]
pub struct HeadersIter<'a> {
    lines: &'a [u8],
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr(b'\n', self.lines)?;
        let (line, rest) = self.lines.split_at(end + 1);
        self.lines = rest;
        let colon = memchr(b':', line)?;
        let (name, value) = line.split_at(colon);
        // Names were checked to be ASCII when the head was parsed.
        Some((std::str::from_utf8(name).ok()?, value.get(1..)?.trim_ascii()))
    }
}

/// Whether a byte may be part of a method or header name. Source: RFC 9110 section 5.6.2.
pub(super) const fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'A'..=b'Z'
        | b'^'..=b'z' | b'|' | b'~')
}

/// What the headers of a message say about its framing and its connection.
#[derive(Debug, Default)]
struct Facts<'a> {
    content_length: Option<u64>,
    has_encoding: bool,
    close: bool,
    keep_alive: bool,
    upgrade_option: bool,
    upgrade_websocket: bool,
    websocket_key: Option<&'a [u8]>,
    websocket_version: Option<&'a [u8]>,
    host_count: u8,
    expects: bool,
    coding: Coding,
}

impl<'a> Facts<'a> {
    fn add(&mut self, name: &str, value: &'a [u8]) -> Result<(), HttpError> {
        // Names that matter are told apart by their lengths first: most headers match none.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                self.host_count = self.host_count.saturating_add(1);
                if value.iter().any(|&byte| !is_host_byte(byte)) {
                    return Err(HttpError::Host);
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(HttpError::Expectation);
                }
                self.expects = true;
            }
            7 if name.eq_ignore_ascii_case("upgrade") => {
                self.upgrade_websocket |=
                    list(value).any(|it| it.eq_ignore_ascii_case(b"websocket"));
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    self.upgrade_option |= option.eq_ignore_ascii_case(b"upgrade");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                let former = self.content_length.replace(length(value)?);
                former.map_or(Ok(()), |_| Err(HttpError::ContentLength))?;
            }
            16 if name.eq_ignore_ascii_case("content-encoding") => {
                self.coding = list(value).fold(self.coding, Coding::then);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if std::mem::replace(&mut self.has_encoding, true) {
                    return Err(HttpError::TransferEncoding);
                }
                check_coding(value)?;
            }
            17 if name.eq_ignore_ascii_case("sec-websocket-key") => {
                // Two keys are as bad as none: an empty one fails the handshake's check.
                self.websocket_key = Some(self.websocket_key.map_or(value, |_| &[]));
            }
            21 if name.eq_ignore_ascii_case("sec-websocket-version") => {
                self.websocket_version = Some(self.websocket_version.map_or(value, |_| &[]));
            }
            _ => {}
        }
        Ok(())
    }

    /// The framing that the headers announce; `None` when they say nothing.
    fn framing(&self, version_1_0: bool) -> Result<Option<Framing>, HttpError> {
        match (self.has_encoding, self.content_length) {
            (true, Some(_)) => Err(HttpError::LengthAndEncoding),
            (true, None) if version_1_0 => Err(HttpError::TransferEncoding),
            (true, None) => Ok(Some(Framing::Chunked)),
            (false, length) => Ok(length.map(Framing::Length)),
        }
    }

    fn stays_open(&self, version_1_0: bool) -> bool {
        !self.close && (self.keep_alive || !version_1_0)
    }
}

/// The elements of a comma-separated header value.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// `reg-name`, IPv4, bracketed IPv6, and a port. Source: RFC 3986 section 3.2.2.
pub(super) const fn is_host_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'%' | b'!'
        | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'[' | b']')
}

/// Digits only: no sign, no base, no list. A number beyond 18 digits exceeds every limit.
fn length(value: &[u8]) -> Result<u64, HttpError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(HttpError::ContentLength);
    }
    if value.len() > 18 {
        return Err(HttpError::BodyTooLarge);
    }
    Ok(value.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

/// Exactly one `chunked`. Other codings alone or before it are unsupported; anything that leaves
/// the end of the body unclear is malformed.
fn check_coding(value: &[u8]) -> Result<(), HttpError> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let is_known = |coding: &[u8]| !coding.is_empty() && coding.iter().all(|&byte| is_token(byte));
    let count = list(value).filter(|coding| is_chunked(coding)).count();
    let ends_chunked = list(value).last().is_some_and(is_chunked);
    if !list(value).all(is_known) || count > 1 || (count == 1 && !ends_chunked) {
        return Err(HttpError::TransferEncoding);
    }
    Err(HttpError::TransferCoding)
}

/// Turns `httparse`'s reasons for refusing `bytes` into ours. What it takes for a bad version may
/// also be a target with a space in it.
fn parse_error(error: httparse::Error, bytes: &[u8]) -> HttpError {
    let line = memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]).trim_ascii();
    let version = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    let is_other = version.starts_with(b"HTTP/") && !matches!(version, b"HTTP/1.0" | b"HTTP/1.1");
    match error {
        httparse::Error::Version if line == b"PRI * HTTP/2.0" => HttpError::Http2,
        httparse::Error::Version if is_other => HttpError::Version,
        httparse::Error::Token | httparse::Error::Status | httparse::Error::Version => {
            HttpError::StartLine
        }
        httparse::Error::TooManyHeaders => HttpError::TooManyHeaders,
        _ => HttpError::Header,
    }
}

/// The header lines of `head`, which has `len` bytes. `httparse` accepts lines that end in a bare
/// line feed; here every line must end in both characters.
fn lines<'a>(
    head: &'a [u8],
    headers: &[httparse::Header<'a>],
    limits: &Limits,
) -> Result<Headers<'a>, HttpError> {
    if headers.len() > limits.headers_max {
        return Err(HttpError::TooManyHeaders);
    }
    let mut first = head.len().saturating_sub(2);
    for header in headers.iter().rev() {
        first = header.name.as_ptr().addr() - head.as_ptr().addr();
        if !head[..first].ends_with(b"\r\n") {
            return Err(HttpError::BareLineFeed);
        }
    }
    if !head.ends_with(b"\r\n\r\n") {
        return Err(HttpError::BareLineFeed);
    }
    Ok(Headers { lines: &head[first..head.len() - 2] })
}

/// Parses a request's head at the beginning of `bytes`. `None` when its end is not there. The
/// second value is the head's length, the third the body's framing.
pub(super) fn request<'a>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<(Request<'a>, usize, Framing)>, HttpError> {
    let mut storage = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let status = parsed
        .parse_with_uninit_headers(bytes, &mut storage)
        .map_err(|error| parse_error(error, bytes))?;
    let httparse::Status::Complete(head_len) = status else { return Ok(None) };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(HttpError::StartLine);
    };
    let version_1_0 = version == 0;
    let headers = lines(&bytes[..head_len], parsed.headers, limits)?;
    let mut facts = Facts::default();
    for header in &*parsed.headers {
        facts.add(header.name, header.value)?;
    }
    if facts.host_count > 1 || (facts.host_count == 0 && !version_1_0) {
        return Err(HttpError::Host);
    }
    let framing = facts.framing(version_1_0)?.unwrap_or(Framing::Length(0));
    let target = Target::parse(method, target)?;
    let request = Request {
        method,
        target,
        version_1_0,
        keep_alive: facts.stays_open(version_1_0),
        upgrade: facts.upgrade_websocket.then_some(Upgrade {
            is_connection_option: facts.upgrade_option,
            key: facts.websocket_key,
            version: facts.websocket_version,
        }),
        expect_continue: facts.expects && !version_1_0 && framing != Framing::Length(0),
        headers,
        coding: facts.coding,
        body: &[],
    };
    Ok(Some((request, head_len, framing)))
}

/// Parses a response's head at the beginning of `bytes`, like [`request`]. `to_head` says that
/// the request was HEAD, whose answers have no body whatever their headers say.
pub(super) fn response<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    to_head: bool,
) -> Result<Option<(Response<'a>, usize, Framing)>, HttpError> {
    let mut storage = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, bytes, &mut storage)
        .map_err(|error| parse_error(error, bytes))?;
    let httparse::Status::Complete(head_len) = status else { return Ok(None) };
    let (Some(status), Some(version)) = (parsed.code, parsed.version) else {
        return Err(HttpError::StartLine);
    };
    let version_1_0 = version == 0;
    let headers = lines(&bytes[..head_len], parsed.headers, limits)?;
    let mut facts = Facts::default();
    for header in &*parsed.headers {
        facts.add(header.name, header.value)?;
    }
    let announced = facts.framing(version_1_0)?;
    let framing = if to_head || status < 200 || status == 204 || status == 304 {
        Framing::Length(0)
    } else {
        announced.unwrap_or(Framing::UntilClose)
    };
    let keep_alive = facts.stays_open(version_1_0) && framing != Framing::UntilClose;
    let response = Response { status, version_1_0, keep_alive, headers, body: &[] };
    Ok(Some((response, head_len, framing)))
}
