//! What a complete head says: start line, framing, connection options. One pass over the parts
//! that `scan` finds; everything ambiguous is refused here.
//!
//! In: the bytes of one head. Out: a [`Request`] or [`Response`] that borrows from them.
//!
//! Source: RFC 9110 sections 7.2, 7.6.1, 10.1.1; RFC 9112 sections 2–6.

use memchr::memchr;

use super::assembly::Framing;
use super::content::accepts_gzip;
use super::scan::{Scanner, is_host, is_token};
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
    accepts_gzip: bool,
}

impl<'a> Facts<'a> {
    #[inline]
    fn add(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), HttpError> {
        // Names that matter are told apart by their lengths first: most headers match none.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.host_count = self.host_count.saturating_add(1);
                if !value.iter().all(|&byte| is_host(byte)) {
                    return Err(HttpError::Host);
                }
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(HttpError::Expectation);
                }
                self.expects = true;
            }
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                self.upgrade_websocket |=
                    list(value).any(|it| it.eq_ignore_ascii_case(b"websocket"));
            }
            // As nearly everybody says it.
            10 if name.eq_ignore_ascii_case(b"connection") && value == b"keep-alive" => {
                self.keep_alive = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    self.upgrade_option |= option.eq_ignore_ascii_case(b"upgrade");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let former = self.content_length.replace(length(value)?);
                former.map_or(Ok(()), |_| Err(HttpError::ContentLength))?;
            }
            15 if name.eq_ignore_ascii_case(b"accept-encoding") => {
                self.accepts_gzip |= accepts_gzip(value);
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => {
                self.coding = list(value).fold(self.coding, Coding::then);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if std::mem::replace(&mut self.has_encoding, true) {
                    return Err(HttpError::TransferEncoding);
                }
                check_coding(value)?;
            }
            17 if name.eq_ignore_ascii_case(b"sec-websocket-key") => {
                // Two keys are as bad as none: an empty one fails the handshake's check.
                self.websocket_key = Some(self.websocket_key.map_or(value, |_| &[]));
            }
            21 if name.eq_ignore_ascii_case(b"sec-websocket-version") => {
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

/// Takes all headers; `None` when their end is not there.
#[inline]
fn headers<'a>(
    scanner: &mut Scanner<'a>,
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<(Headers<'a>, Facts<'a>)>, HttpError> {
    let start = scanner.at();
    let mut facts = Facts::default();
    let mut left = limits.headers_max.min(HEADERS_MAX);
    loop {
        let Some(header) = scanner.header()? else { return Ok(None) };
        let Some((name, value)) = header else { break };
        left = left.checked_sub(1).ok_or(HttpError::TooManyHeaders)?;
        facts.add(name, value)?;
    }
    // Without the empty line.
    Ok(Some((Headers { lines: &bytes[start..scanner.at() - 2] }, facts)))
}

/// Parses a request's head at the beginning of `bytes`. `None` when its end is not there. The
/// second value is the head's length, the third the body's framing.
#[inline]
pub(super) fn request<'a>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Option<(Request<'a>, usize, Framing)>, HttpError> {
    let mut scanner = Scanner::new(bytes);
    let Some(line) = scanner.request_line()? else { return Ok(None) };
    let Some((headers, facts)) = headers(&mut scanner, bytes, limits)? else { return Ok(None) };
    let version_1_0 = line.version_1_0;
    if facts.host_count > 1 || (facts.host_count == 0 && !version_1_0) {
        return Err(HttpError::Host);
    }
    let framing = facts.framing(version_1_0)?.unwrap_or(Framing::Length(0));
    let request = Request {
        method: line.method,
        target: Target::parse(&line)?,
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
        accepts_gzip: facts.accepts_gzip,
        body: &[],
    };
    Ok(Some((request, scanner.at(), framing)))
}

/// Parses a response's head at the beginning of `bytes`, like [`request`]. `to_head` says that
/// the request was HEAD, whose answers have no body whatever their headers say.
#[inline]
pub(super) fn response<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    to_head: bool,
) -> Result<Option<(Response<'a>, usize, Framing)>, HttpError> {
    let mut scanner = Scanner::new(bytes);
    let Some(line) = scanner.status_line()? else { return Ok(None) };
    let Some((headers, facts)) = headers(&mut scanner, bytes, limits)? else { return Ok(None) };
    let (status, version_1_0) = (line.status, line.version_1_0);
    let announced = facts.framing(version_1_0)?;
    let framing = if to_head || status < 200 || status == 204 || status == 304 {
        Framing::Length(0)
    } else {
        announced.unwrap_or(Framing::UntilClose)
    };
    let keep_alive = facts.stays_open(version_1_0) && framing != Framing::UntilClose;
    let response = Response { status, version_1_0, keep_alive, headers, body: &[] };
    Ok(Some((response, scanner.at(), framing)))
}
