//! Puts a message together that did not come whole: collects the head line by line, then the
//! body by its framing. Shared by requests and responses.
//!
//! Every byte is looked at a constant number of times, however the input is split. Nothing is
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

/// Where the body of a finished message lies.
#[derive(Debug)]
pub(super) enum Body<'i> {
    /// In the input.
    Lent(&'i [u8]),
    /// Behind the head in the assembly's own buffer.
    Kept,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// In the head; `line_start` is where its unfinished line begins.
    Head {
        line_start: u32,
    },
    Length {
        left: usize,
    },
    Chunked(Chunked),
    UntilClose,
    /// A message was handed out from `bytes`, which are freed by the next call.
    Done,
    Failed(HttpError),
}

/// An unfinished message.
#[derive(Debug)]
pub(super) struct Assembly {
    bytes: Vec<u8>,
    phase: Phase,
    head_len: u32,
    blank_lines: u8,
    expects: bool,
}

impl Assembly {
    pub(super) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            phase: Phase::Head { line_start: 0 },
            head_len: 0,
            blank_lines: 0,
            expects: false,
        }
    }

    /// Forgets what the previous call handed out, or repeats the error that ended the connection.
    pub(super) fn begin(&mut self) -> Result<(), HttpError> {
        match self.phase {
            Phase::Failed(error) => Err(error),
            Phase::Done => {
                *self = Self::new();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether nothing of a message has come yet.
    pub(super) fn is_idle(&self) -> bool {
        match self.phase {
            Phase::Head { .. } => self.bytes.is_empty(),
            Phase::Done => true,
            _ => false,
        }
    }

    /// Whether everything before the peer's close belongs to the body.
    pub(super) fn is_until_close(&self) -> bool {
        matches!(self.phase, Phase::UntilClose)
    }

    /// A message was handed out straight from the input: the next one may have blank lines again.
    pub(super) fn message_lent(&mut self) {
        self.blank_lines = 0;
    }

    /// The connection is over.
    pub(super) fn fail(&mut self, error: HttpError) -> HttpError {
        *self = Self::new();
        self.phase = Phase::Failed(error);
        error
    }

    /// A body that ends with the connection has ended.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Done;
    }

    /// Whether an announced body has been neither received nor asked for; says so once.
    pub(super) fn take_expects(&mut self) -> bool {
        let waits = match self.phase {
            Phase::Length { .. } | Phase::Chunked(_) => self.bytes.len() == self.head_len as usize,
            _ => false,
        };
        std::mem::take(&mut self.expects) && waits
    }

    /// Head and body in the own buffer.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        self.bytes.split_at(self.head_len as usize)
    }

    /// Consumes from `input` until a message is complete (`Some`) or the input is used up.
    /// `plan` tells from the complete head how the body is framed, and whether the sender waits
    /// for permission to send it.
    pub(super) fn feed<'i>(
        &mut self,
        input: &mut &'i [u8],
        limits: &Limits,
        plan: impl Fn(&[u8]) -> Result<(Framing, bool), HttpError>,
    ) -> Result<Option<Body<'i>>, HttpError> {
        if matches!(self.phase, Phase::Head { .. }) {
            if !self.feed_head(input, limits)? {
                return Ok(None);
            }
            let (framing, expects) = plan(&self.bytes)?;
            self.expects = expects;
            self.plan_body(framing, limits)?;
        }
        if let Some(body) = self.whole_body(input) {
            return Ok(Some(Body::Lent(body)));
        }
        let head_len = self.head_len as usize;
        let is_complete = match &mut self.phase {
            Phase::Length { left } => {
                let (data, rest) = input.split_at(input.len().min(*left));
                self.bytes.extend_from_slice(data);
                *input = rest;
                *left -= data.len();
                *left == 0
            }
            Phase::Chunked(chunked) => chunked.feed(input, &mut self.bytes, head_len, limits)?,
            Phase::UntilClose => {
                if input.len() > limits.body_bytes_max.saturating_sub(self.bytes.len() - head_len) {
                    return Err(HttpError::BodyTooLarge);
                }
                self.bytes.extend_from_slice(input);
                *input = &[];
                false
            }
            Phase::Head { .. } | Phase::Done => false,
            Phase::Failed(error) => return Err(*error),
        };
        if is_complete {
            self.phase = Phase::Done;
        }
        Ok(is_complete.then_some(Body::Kept))
    }

    /// The head is complete: what next?
    fn plan_body(&mut self, framing: Framing, limits: &Limits) -> Result<(), HttpError> {
        self.phase = match framing {
            Framing::Length(length) => Phase::Length { left: body_length(length, limits)? },
            Framing::Chunked => Phase::Chunked(Chunked::new()),
            Framing::UntilClose => Phase::UntilClose,
        };
        Ok(())
    }

    /// A body of which nothing has come before, but lies in the input whole, is lent from there.
    fn whole_body<'i>(&mut self, input: &mut &'i [u8]) -> Option<&'i [u8]> {
        let Phase::Length { left } = self.phase else { return None };
        if self.bytes.len() > self.head_len as usize {
            return None;
        }
        let (body, rest) = input.split_at_checked(left)?;
        *input = rest;
        self.phase = Phase::Done;
        Some(body)
    }

    /// Moves the head from `input` to the buffer, line by line; `true` at its end.
    fn feed_head(&mut self, input: &mut &[u8], limits: &Limits) -> Result<bool, HttpError> {
        let Phase::Head { line_start } = &mut self.phase else { return Ok(true) };
        while let Some(&first) = input.first() {
            if self.bytes.is_empty() && !super::head::is_token(first) && first != b'\r' {
                // No need to wait for a line that never comes.
                let is_tls = first == TLS_HANDSHAKE && self.blank_lines == 0;
                return Err(if is_tls { HttpError::Tls } else { HttpError::StartLine });
            }
            let line_feed = memchr(b'\n', input);
            let take = line_feed.map_or(input.len(), |at| at + 1);
            if take > limits.head_bytes_max.saturating_sub(self.bytes.len()) {
                let is_first = *line_start == 0;
                return Err(if is_first {
                    HttpError::TargetTooLong
                } else {
                    HttpError::HeadTooLarge
                });
            }
            let (taken, rest) = input.split_at(take);
            self.bytes.extend_from_slice(taken);
            *input = rest;
            if line_feed.is_none() {
                return Ok(false);
            }
            let line = &self.bytes[*line_start as usize..];
            if !line.ends_with(b"\r\n") {
                return Err(HttpError::BareLineFeed);
            }
            let is_blank = line.len() == 2;
            if is_blank && *line_start == 0 {
                self.bytes = Vec::new();
                self.blank_lines += 1;
                if self.blank_lines > BLANK_LINES_MAX {
                    return Err(HttpError::BlankLines);
                }
                continue;
            }
            // Heads are far below 4 GiB: the limit is checked above.
            *line_start = u32::try_from(self.bytes.len()).map_err(|_| HttpError::HeadTooLarge)?;
            if is_blank {
                self.head_len = *line_start;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The announced length of a body as a size in memory, within the limit.
pub(super) fn body_length(length: u64, limits: &Limits) -> Result<usize, HttpError> {
    usize::try_from(length)
        .ok()
        .filter(|&length| length <= limits.body_bytes_max)
        .ok_or(HttpError::BodyTooLarge)
}
