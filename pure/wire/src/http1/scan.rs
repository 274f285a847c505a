//! Takes a head apart in one pass over its bytes: start line, then header after header.
//!
//! In: bytes at the front of which a head may lie. Out: its parts, borrowed from them, or that its
//! end is not there. What the parts mean, and which of them a server must refuse, is `head`'s.
//! Every line ends in carriage return and line feed; folded lines and white space before a colon,
//! which others may read differently, are refused.
//!
//! Not a library's: `httparse` takes the same bytes apart in more than twice the time (see
//! `docs/performance.md`), and a parser of heads is the largest part of a small request. It stays
//! the oracle of the tests.
//!
//! Source: RFC 9112 sections 2–5, RFC 9110 sections 5.5 and 5.6.2.

use super::HttpError;

/// What a byte may be part of.
const TOKEN: u8 = 1;
/// The path of a request target, before any `?`.
const PATH: u8 = 2;
/// What follows the path.
const QUERY: u8 = 4;
/// Anything that a target of whatever form may be thought to have, so that its end is found.
const TARGET: u8 = 8;
/// `uri-host` and a port. Source: RFC 3986 section 3.2.2.
const HOST: u8 = 16;

const CLASSES: [u8; 256] = classes();

#[expect(clippy::cast_possible_truncation, reason = "counts to 255")]
const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let mut class = 0;
        if byte.is_ascii_alphanumeric() {
            class |= TOKEN | HOST;
        }
        if matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
        {
            class |= TOKEN;
        }
        if matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'['
                | b']'
        ) {
            class |= HOST;
        }
        if byte > b' ' && byte != 0x7f {
            class |= TARGET;
            if byte < 0x7f && byte != b'#' {
                class |= QUERY;
                if byte != b'?' {
                    class |= PATH;
                }
            }
        }
        classes[at] = class;
        at += 1;
    }
    classes
}

const fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Whether a byte may be part of a method or header name. Source: RFC 9110 section 5.6.2.
pub(super) const fn is_token(byte: u8) -> bool {
    is(byte, TOKEN)
}

/// Whether a byte may be part of a host with its port.
pub(super) const fn is_host(byte: u8) -> bool {
    is(byte, HOST)
}

/// How many bytes at the front are of a class.
#[inline]
fn span(bytes: &[u8], class: u8) -> usize {
    bytes.iter().position(|&byte| !is(byte, class)).unwrap_or(bytes.len())
}

/// How many bytes at the front may stand in a header's value: no control characters but tabs.
#[inline]
fn value_span(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<16>();
    let mut len = 0;
    for block in blocks {
        // Not `[0, 8].map(…)`, which is a call.
        let (first, second) = (controls(block, 0), controls(block, 8));
        if first | second != 0 {
            let (at, found) = if first != 0 { (0, first) } else { (8, second) };
            len += at + found.trailing_zeros() as usize / 8;
            if bytes[len] == b'\t' {
                return len + 1 + value_span_slow(&bytes[len + 1..]);
            }
            return len;
        }
        len += block.len();
    }
    len + value_span_slow(&bytes[len..])
}

/// The control characters among eight bytes, by their highest bits in a number. What is subtracted
/// borrows into a byte's highest bit, and only bytes behind the first that is found can be found
/// wrongly.
#[inline]
fn controls(block: &[u8; 16], at: usize) -> u64 {
    const EACH: u64 = u64::MAX / 255;
    const HIGH: u64 = EACH << 7;
    let Some(word) = block[at..].first_chunk::<8>() else { return 0 };
    let word = u64::from_le_bytes(*word);
    let control = word.wrapping_sub(EACH * 0x20);
    let delete = (word ^ (EACH * 0x7f)).wrapping_sub(EACH);
    (control | delete) & !word & HIGH
}

fn value_span_slow(bytes: &[u8]) -> usize {
    let ends = |&byte: &u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    bytes.iter().position(ends).unwrap_or(bytes.len())
}

/// What is found at a place in a head; `None` when the bytes end before it does.
pub(super) type Found<T> = Result<Option<T>, HttpError>;

/// A request line.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLine<'a> {
    pub(super) method: &'a str,
    /// Of ASCII alone, and without a fragment.
    pub(super) target: &'a str,
    /// Where the query begins, if there is a `?` in front of it.
    pub(super) query_at: Option<usize>,
    pub(super) version_1_0: bool,
}

/// A status line. The phrase is nobody's business.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusLine {
    pub(super) status: u16,
    pub(super) version_1_0: bool,
}

/// Takes bytes from the front of a head.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been taken.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Takes the bytes of a class.
    #[inline]
    fn take(&mut self, class: u8) -> &'a [u8] {
        let (taken, _) = self.rest().split_at(span(self.rest(), class));
        self.at += taken.len();
        taken
    }

    /// Takes the end of a line, or what else is there is `otherwise`.
    #[inline]
    fn line_end(&mut self, otherwise: HttpError) -> Found<()> {
        match self.rest() {
            [b'\r', b'\n', ..] => {
                self.at += 2;
                Ok(Some(()))
            }
            [] | [b'\r'] => Ok(None),
            [b'\n', ..] => Err(HttpError::BareLineFeed),
            _ => Err(otherwise),
        }
    }

    /// Takes `HTTP/1.1` or `HTTP/1.0`; tells whether it was the latter.
    #[inline]
    fn version(&mut self) -> Found<bool> {
        let Some((version, _)) = self.rest().split_first_chunk::<8>() else {
            let is_short = self.rest().contains(&b'\n');
            return if is_short { Err(HttpError::Version) } else { Ok(None) };
        };
        let version_1_0 = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(HttpError::Version),
        };
        self.at += version.len();
        Ok(Some(version_1_0))
    }

    /// Takes the line that a request begins with.
    #[inline]
    pub(super) fn request_line(&mut self) -> Found<RequestLine<'a>> {
        let method = self.take(TOKEN);
        match self.rest() {
            [b' ', ..] if !method.is_empty() => self.at += 1,
            [] => return Ok(None),
            _ => return Err(HttpError::StartLine),
        }
        let start = self.at;
        let path = self.take(PATH);
        let query_at = (self.rest().first() == Some(&b'?')).then(|| path.len() + 1);
        if query_at.is_some() {
            self.take(QUERY);
        }
        let target = &self.bytes[start..self.at];
        match self.rest() {
            [b' ', ..] if !target.is_empty() => self.at += 1,
            [] => return Ok(None),
            _ => return self.odd_target(),
        }
        let version_1_0 = match self.version() {
            Ok(Some(version_1_0)) => version_1_0,
            Ok(None) => return Ok(None),
            Err(_) => return Err(self.odd_version()),
        };
        let Some(()) = self.line_end(HttpError::Header)? else { return Ok(None) };
        let line = &self.bytes[..start + target.len()];
        let Ok(line) = std::str::from_utf8(line) else { return Err(HttpError::StartLine) };
        let (method, target) = (&line[..method.len()], &line[start..]);
        Ok(Some(RequestLine { method, target, query_at, version_1_0 }))
    }

    /// A target with bytes that cannot be in one: if the line is sound but for these, that is said.
    #[cold]
    fn odd_target(&mut self) -> Found<RequestLine<'a>> {
        self.take(TARGET);
        match self.rest() {
            [b' ', version @ ..] if version.starts_with(b"HTTP/1.") => Err(HttpError::Target),
            [] => Ok(None),
            _ => Err(HttpError::StartLine),
        }
    }

    /// What follows the target is neither version: another one, or something else, as behind a
    /// target with a space in it.
    #[cold]
    fn odd_version(&self) -> HttpError {
        let line = self.rest().split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = line.trim_ascii_end();
        let is_preface = line == b"HTTP/2.0" && self.bytes.starts_with(b"PRI * ");
        match line.strip_prefix(b"HTTP/") {
            Some(_) if is_preface => HttpError::Http2,
            Some(number) if !number.contains(&b' ') => HttpError::Version,
            _ => HttpError::StartLine,
        }
    }

    /// Takes the line that a response begins with.
    #[inline]
    pub(super) fn status_line(&mut self) -> Found<StatusLine> {
        let version_1_0 = match self.version() {
            Ok(Some(version_1_0)) => version_1_0,
            Ok(None) => return Ok(None),
            Err(_) if !self.rest().starts_with(b"HTTP/") => return Err(HttpError::StartLine),
            Err(error) => return Err(error),
        };
        let [space, hundreds, tens, ones] = match self.rest().split_first_chunk::<4>() {
            Some((status, _)) => *status,
            None => return Ok(None),
        };
        let digits = [hundreds, tens, ones];
        if space != b' ' || !digits.iter().all(u8::is_ascii_digit) || hundreds == b'0' {
            return Err(HttpError::StartLine);
        }
        let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        self.at += 4;
        if let [b' ', ..] = self.rest() {
            self.at += 1 + value_span(&self.rest()[1..]);
        }
        let ended = self.line_end(HttpError::StartLine)?;
        Ok(ended.map(|()| StatusLine { status, version_1_0 }))
    }

    /// Takes the next header: name, and value without the white space around it. No header is
    /// there at the head's end, whose empty line is taken then.
    #[inline]
    pub(super) fn header(&mut self) -> Found<Option<(&'a [u8], &'a [u8])>> {
        let name = self.take(TOKEN);
        if name.is_empty() {
            return Ok(self.line_end(HttpError::Header)?.map(|()| None));
        }
        match self.rest() {
            [b':', ..] => self.at += 1,
            [] => return Ok(None),
            _ => return Err(HttpError::Header),
        }
        let (value, _) = self.rest().split_at(value_span(self.rest()));
        self.at += value.len();
        let ended = self.line_end(HttpError::Header)?;
        Ok(ended.map(|()| Some((name, trimmed(value)))))
    }
}

/// Without spaces and tabs at both ends.
#[inline]
fn trimmed(value: &[u8]) -> &[u8] {
    let value = match value {
        [b' ', rest @ ..] => rest,
        _ => value,
    };
    match value {
        [first, .., last] if *first > b' ' && *last > b' ' => value,
        _ => value.trim_ascii(),
    }
}

#[cfg(test)]
mod tests;
