//! Puts a message together that did not come whole: collects the head line by line, reads it
//! once, then collects the body by its framing. Shared by requests and responses.
//!
//! Every byte is looked at a constant number of times, and a complete head is read once, however
//! the input is split: what the head says is kept as positions in it ([`Head::parts`]). Nothing is
//! kept between messages. In: the bytes of the connection. Out: head and body, either lent from
//! the input or kept here.

use memchr::memchr;

use super::chunked::Chunked;
use super::{BLANK_LINES_MAX, HttpError, Limits};

/// The first byte of every TLS connection: a record of the type handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes; 0 for no body.
    Length(u64),
    /// Until the last chunk.
    Chunked,
    /// Until the peer closes; responses only.
    UntilClose,
}

/// What was read from a complete head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<P> {
    /// Where its parts lie in its bytes, and what they mean.
    pub(super) parts: P,
    /// Its length in bytes, the empty line included.
    pub(super) len: usize,
    pub(super) framing: Framing,
    /// Whether the sender waits for permission to send the body.
    pub(super) expects: bool,
}

/// Where the body of a finished message lies.
#[derive(Debug)]
pub(super) enum Body<'i> {
    /// In the input.
    Lent(&'i [u8]),
    /// Behind the head in the assembly's own buffer.
    Kept,
}

/// A message of which all has come, or a part.
#[derive(Debug)]
struct Unfinished<P> {
    /// The head, then the body.
    bytes: Vec<u8>,
    phase: Phase<P>,
}

#[derive(Clone, Copy, Debug)]
enum Phase<P> {
    /// In the head; `line_start` is where its unfinished line begins.
    Head { line_start: usize },
    /// In the body. `expects` until it was told.
    Body { parts: P, head_len: usize, rest: Rest, expects: bool },
}

/// How much of a body is to come.
#[derive(Clone, Copy, Debug)]
enum Rest {
    Length(usize),
    Chunked(Chunked),
    UntilClose,
    /// All is there and was handed out; the next call frees it.
    Nothing,
}

/// The message that is coming in on a connection, if any.
#[derive(Debug)]
pub(super) struct Assembly<P> {
    /// Boxed, because most connections are idle at any moment.
    unfinished: Option<Box<Unfinished<P>>>,
    failed: Option<HttpError>,
    blank_lines: u8,
}

impl<P: Copy> Assembly<P> {
    pub(super) const fn new() -> Self {
        Self { unfinished: None, failed: None, blank_lines: 0 }
    }

    /// Forgets what the previous call handed out, or repeats the error that ended the connection.
    pub(super) fn begin(&mut self) -> Result<(), HttpError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.is_handed_out() {
            *self = Self::new();
        }
        Ok(())
    }

    /// Whether nothing of a message has come yet.
    pub(super) fn is_idle(&self) -> bool {
        (self.unfinished.is_none() && self.failed.is_none()) || self.is_handed_out()
    }

    fn is_handed_out(&self) -> bool {
        self.unfinished
            .as_ref()
            .is_some_and(|it| matches!(it.phase, Phase::Body { rest: Rest::Nothing, .. }))
    }

    /// A message was handed out straight from the input: the next one may have blank lines again.
    pub(super) fn message_lent(&mut self) {
        self.blank_lines = 0;
    }

    /// The connection is over.
    pub(super) fn fail(&mut self, error: HttpError) -> HttpError {
        *self = Self { failed: Some(error), ..Self::new() };
        error
    }

    /// Whether an announced body has been neither received nor asked for; says so once.
    pub(super) fn take_expects(&mut self) -> bool {
        let Some(it) = &mut self.unfinished else { return false };
        let Phase::Body { head_len, rest, expects, .. } = &mut it.phase else { return false };
        let waits = matches!(rest, Rest::Length(_) | Rest::Chunked(_));
        std::mem::take(expects) && waits && it.bytes.len() == *head_len
    }

    /// A body that ends with the connection has ended; tells whether there was one.
    pub(super) fn end(&mut self) -> bool {
        match self.unfinished.as_deref_mut() {
            Some(Unfinished { phase: Phase::Body { rest, .. }, .. })
                if matches!(rest, Rest::UntilClose) =>
            {
                *rest = Rest::Nothing;
                true
            }
            _ => false,
        }
    }

    /// What was read from the head, the head, and the body in the own buffer; `None` before the
    /// head is complete.
    pub(super) fn parts(&self) -> Option<(P, &[u8], &[u8])> {
        let it = self.unfinished.as_deref()?;
        let Phase::Body { parts, head_len, .. } = it.phase else { return None };
        let (head, body) = it.bytes.split_at_checked(head_len)?;
        Some((parts, head, body))
    }

    /// A complete head lies at the front of `input` and was read there, but its body is not lent
    /// from there: takes the head.
    pub(super) fn begin_body(
        &mut self,
        input: &mut &[u8],
        head: Head<P>,
        limits: &Limits,
    ) -> Result<(), HttpError> {
        let (head_bytes, rest) = input.split_at(head.len);
        // Room for what is here, not for what was announced: that costs a peer one line.
        let here = match head.framing {
            Framing::Length(length) => usize::try_from(length).map_or(0, |it| it.min(rest.len())),
            Framing::Chunked | Framing::UntilClose => 0,
        };
        let mut bytes = Vec::with_capacity(head.len + here);
        bytes.extend_from_slice(head_bytes);
        *input = rest;
        let phase = Phase::body(head, limits)?;
        self.unfinished = Some(Box::new(Unfinished { bytes, phase }));
        Ok(())
    }

    /// Consumes from `input` until a message is complete (`Some`) or the input is used up.
    /// `read` reads a complete head.
    pub(super) fn feed<'i>(
        &mut self,
        input: &mut &'i [u8],
        limits: &Limits,
        read: impl Fn(&[u8]) -> Result<Head<P>, HttpError>,
    ) -> Result<Option<Body<'i>>, HttpError> {
        if input.is_empty() && self.unfinished.is_none() {
            return Ok(None);
        }
        let mut it = self.unfinished.take().unwrap_or_else(|| {
            Box::new(Unfinished { bytes: Vec::new(), phase: Phase::Head { line_start: 0 } })
        });
        if let Phase::Head { line_start } = &mut it.phase {
            if !feed_head(&mut it.bytes, line_start, &mut self.blank_lines, input, limits)? {
                // After empty lines alone there is nothing to keep.
                self.unfinished = (!it.bytes.is_empty()).then_some(it);
                return Ok(None);
            }
            let head = read(&it.bytes)?;
            debug_assert_eq!(head.len, it.bytes.len(), "one empty line ends a head");
            it.phase = Phase::body(head, limits)?;
        }
        let body = it.feed_body(input, limits);
        self.unfinished = Some(it);
        body
    }
}

impl<P> Phase<P> {
    /// The head is complete: what next?
    fn body(head: Head<P>, limits: &Limits) -> Result<Self, HttpError> {
        let rest = match head.framing {
            Framing::Length(length) => Rest::Length(body_length(length, limits)?),
            Framing::Chunked => Rest::Chunked(Chunked::new()),
            Framing::UntilClose => Rest::UntilClose,
        };
        Ok(Self::Body { parts: head.parts, head_len: head.len, rest, expects: head.expects })
    }
}

impl<P> Unfinished<P> {
    /// Takes what `input` has of the body; says when and where it is whole.
    fn feed_body<'i>(
        &mut self,
        input: &mut &'i [u8],
        limits: &Limits,
    ) -> Result<Option<Body<'i>>, HttpError> {
        let Phase::Body { head_len, rest, .. } = &mut self.phase else { return Ok(None) };
        let head_len = *head_len;
        let is_complete = match rest {
            // Of which nothing has come before, but which lies in the input whole: is lent.
            Rest::Length(left) if self.bytes.len() == head_len && input.len() >= *left => {
                let (body, behind) = input.split_at(*left);
                *input = behind;
                *rest = Rest::Nothing;
                return Ok(Some(Body::Lent(body)));
            }
            Rest::Length(left) => {
                let (data, behind) = input.split_at(input.len().min(*left));
                self.bytes.extend_from_slice(data);
                *input = behind;
                *left -= data.len();
                *left == 0
            }
            Rest::Chunked(chunked) => chunked.feed(input, &mut self.bytes, head_len, limits)?,
            Rest::UntilClose => {
                if input.len() > limits.body_bytes_max.saturating_sub(self.bytes.len() - head_len) {
                    return Err(HttpError::BodyTooLarge);
                }
                self.bytes.extend_from_slice(input);
                *input = &[];
                false
            }
            Rest::Nothing => false,
        };
        if is_complete {
            *rest = Rest::Nothing;
        }
        Ok(is_complete.then_some(Body::Kept))
    }
}

/// Moves a head from `input` to `bytes`, line by line; `true` at its end. Empty lines before it
/// are dropped and counted.
fn feed_head(
    bytes: &mut Vec<u8>,
    line_start: &mut usize,
    blank_lines: &mut u8,
    input: &mut &[u8],
    limits: &Limits,
) -> Result<bool, HttpError> {
    while let Some(&first) = input.first() {
        if bytes.is_empty() && !super::scan::is_token(first) && first != b'\r' {
            // No need to wait for a line that never comes.
            let is_tls = first == TLS_HANDSHAKE && *blank_lines == 0;
            return Err(if is_tls { HttpError::Tls } else { HttpError::StartLine });
        }
        let line_feed = memchr(b'\n', input);
        let take = line_feed.map_or(input.len(), |at| at + 1);
        if take > limits.head_bytes_max.saturating_sub(bytes.len()) {
            let is_first = *line_start == 0;
            return Err(if is_first { HttpError::TargetTooLong } else { HttpError::HeadTooLarge });
        }
        let (taken, rest) = input.split_at(take);
        bytes.extend_from_slice(taken);
        *input = rest;
        if line_feed.is_none() {
            return Ok(false);
        }
        let line = &bytes[*line_start..];
        if !line.ends_with(b"\r\n") {
            return Err(HttpError::BareLineFeed);
        }
        let is_blank = line.len() == 2;
        if is_blank && *line_start == 0 {
            *bytes = Vec::new();
            *blank_lines += 1;
            if *blank_lines > BLANK_LINES_MAX {
                return Err(HttpError::BlankLines);
            }
            continue;
        }
        *line_start = bytes.len();
        if is_blank {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The announced length of a body as a size in memory, within the limit.
pub(super) fn body_length(length: u64, limits: &Limits) -> Result<usize, HttpError> {
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= limits.body_bytes_max)
        .ok_or(HttpError::BodyTooLarge)
}
