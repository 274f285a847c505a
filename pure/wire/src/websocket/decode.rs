//! Frames and messages as they are received, in any split and any fragmentation.
//!
//! In: the bytes of the connection after the handshake. Out: whole messages, in the thread's
//! scratch buffer. Only what is unfinished is kept here, in a box that is made when a message first
//! comes in pieces: of most connections none ever does, and most are idle.

use super::CONTROL_BYTES_MAX;
use super::encode::{Opcode, append_masked};

/// Which side of the connection decodes. Clients mask their frames, servers do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Receives masked frames.
    Server,
    /// Receives plain frames.
    Client,
}

/// One message, lent until the scratch buffer is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Text, checked.
    Text(&'a str),
    /// Bytes.
    Binary(&'a [u8]),
    /// To be answered with a pong of the same payload.
    Ping(&'a [u8]),
    /// Answers a ping, or comes unasked.
    Pong(&'a [u8]),
    /// The peer's last message: answer with a close frame and close. What follows it is ignored.
    Close {
        /// 1000–4999, if the peer gave one.
        code: Option<u16>,
        /// Text, at most 123 bytes.
        reason: &'a str,
    },
}

/// Why a peer's frames cannot be accepted. Send a close frame with [`WsError::close_code`], then
/// close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    /// A reserved bit is set though no extension was agreed upon.
    #[error("reserved bit set")]
    ReservedBit,
    /// A reserved opcode.
    #[error("reserved opcode {0}")]
    ReservedOpcode(u8),
    /// A control frame that is fragmented.
    #[error("fragmented control frame")]
    FragmentedControl,
    /// A control frame of more than 125 bytes.
    #[error("control frame too long")]
    ControlTooLong,
    /// A client's frame without mask, or a server's with one.
    #[error("wrong masking")]
    Masking,
    /// A continuation of nothing.
    #[error("continuation without a message")]
    Continuation,
    /// A new message within a fragmented one.
    #[error("new message within a fragmented one")]
    Interleaved,
    /// A length that is not written in the shortest way, or above 2⁶³.
    #[error("malformed frame length")]
    Length,
    /// A close frame with a forbidden code, or with one byte of payload.
    #[error("malformed close frame")]
    Close,
    /// Text that is not UTF-8.
    #[error("text is not utf-8")]
    Utf8,
    /// The message exceeds the decoder's limit.
    #[error("message larger than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u32,
    },
}

impl WsError {
    /// The code for the close frame. Source: RFC 6455 section 7.4.1.
    #[must_use]
    pub fn close_code(self) -> u16 {
        match self {
            Self::Utf8 => 1007,
            Self::TooLarge { .. } => 1009,
            _ => 1002,
        }
    }
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug)]
struct Frame {
    key: [u8; 4],
    opcode: Opcode,
    is_final: bool,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Collecting a header, of which `len` bytes have come.
    Header { bytes: [u8; 13], len: u8 },
    /// Collecting a payload, of which `left` bytes are to come.
    Payload { frame: Frame, left: u32 },
}

/// Whether more is to come.
#[derive(Clone, Copy, Debug)]
enum End {
    Open,
    Closed,
    Failed(WsError),
}

const HEADER: Phase = Phase::Header { bytes: [0; 13], len: 0 };

/// Takes messages out of the bytes of one connection. Between messages it owns no heap memory, or 64
/// bytes once a message has come in pieces; within one, at most the size limit and one control frame
/// (and what `Vec` reserves ahead).
#[derive(Debug)]
pub struct Decoder {
    unfinished: Option<Box<Unfinished>>,
    bytes_max: u32,
    end: End,
    role: Role,
}

/// What has come of a message that is not complete.
#[derive(Debug)]
struct Unfinished {
    /// The message, then the unfinished control frame within it; unmasked.
    bytes: Vec<u8>,
    phase: Phase,
    /// How many of `bytes` belong to the message.
    message_len: u32,
    /// How many of them are known to be whole characters, in a text.
    checked_len: u32,
    /// What the message is.
    kind: Option<Kind>,
}

impl Default for Unfinished {
    fn default() -> Self {
        Self { bytes: Vec::new(), phase: HEADER, message_len: 0, checked_len: 0, kind: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
}

impl Decoder {
    /// A decoder after the handshake. `message_bytes_max` is the size of the largest message that
    /// is accepted, at most 2³² − 126.
    #[must_use]
    pub fn new(role: Role, message_bytes_max: usize) -> Self {
        const BYTES_MAX: u32 = u32::MAX - 126; // A control frame on top still counts in 32 bits.
        let bytes_max = u32::try_from(message_bytes_max).unwrap_or(BYTES_MAX).min(BYTES_MAX);
        Self { unfinished: None, bytes_max, end: End::Open, role }
    }

    /// Takes the next message from the front of `input` and lends it from `scratch`,
    /// whose contents are overwritten. `None` when there is none yet: then the whole input was
    /// consumed. After a close everything is consumed and nothing returned.
    ///
    /// # Errors
    /// What is wrong with the frames; again at every further call.
    pub fn next<'a>(
        &mut self,
        input: &mut &[u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<Option<Message<'a>>, WsError> {
        match self.advance(input, scratch) {
            Ok(None) => Ok(None),
            Ok(Some(opcode)) => match finished(opcode, scratch) {
                Ok(message) => {
                    if matches!(message, Message::Close { .. }) {
                        self.unfinished = None;
                        self.end = End::Closed;
                    }
                    Ok(Some(message))
                }
                Err(error) => Err(self.fail(error)),
            },
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Whether nothing of a message has come: the connection is idle, not slow.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.unfinished.as_ref().is_none_or(|unfinished| match unfinished.phase {
            Phase::Header { len, .. } => len == 0 && unfinished.kind.is_none(),
            Phase::Payload { .. } => false,
        })
    }

    /// Whether a message has begun of which some fragments are still to come; control frames may
    /// come between them.
    #[must_use]
    pub fn is_fragmented(&self) -> bool {
        self.kind().is_some()
    }

    fn kind(&self) -> Option<Kind> {
        self.unfinished.as_ref().and_then(|unfinished| unfinished.kind)
    }

    /// Bytes of heap memory that unfinished messages hold here.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |unfinished| unfinished.bytes.capacity())
    }

    fn fail(&mut self, error: WsError) -> WsError {
        self.unfinished = None;
        self.end = End::Failed(error);
        error
    }

    /// Consumes frames until a message or control frame is complete; its payload is then the
    /// whole of `scratch`, and its opcode is returned.
    fn advance(
        &mut self,
        input: &mut &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Opcode>, WsError> {
        match self.end {
            End::Open => {}
            End::Failed(error) => return Err(error),
            End::Closed => {
                *input = &[];
                return Ok(None);
            }
        }
        loop {
            match self.unfinished.as_ref().map_or(HEADER, |unfinished| unfinished.phase) {
                Phase::Header { bytes, len } => {
                    let kept = &bytes[..usize::from(len)];
                    let Some((frame, left)) = self.header(input, kept)? else { return Ok(None) };
                    let is_message = frame.is_final && frame.opcode != Opcode::Continuation;
                    // The fast path: a whole message in one frame, all of it here.
                    if is_message
                        && let Some((payload, rest)) = input.split_at_checked(left as usize)
                    {
                        *input = rest;
                        if let Some(unfinished) = &mut self.unfinished {
                            unfinished.phase = HEADER;
                        }
                        scratch.clear();
                        append_masked(scratch, payload, frame.key);
                        return Ok(Some(frame.opcode));
                    }
                    let unfinished = self.unfinished.get_or_insert_default();
                    unfinished.begin(frame.opcode);
                    unfinished.phase = Phase::Payload { frame, left };
                }
                Phase::Payload { frame, left } => {
                    let unfinished = self.unfinished.get_or_insert_default();
                    let left = unfinished.payload(input, frame, left)?;
                    if left > 0 {
                        return Ok(None);
                    }
                    unfinished.phase = HEADER;
                    if let Some(opcode) = unfinished.frame_done(frame, scratch)? {
                        return Ok(Some(opcode));
                    }
                }
            }
        }
    }

    /// Takes a frame's header, of which some may be kept from before; `None` when it is not complete.
    fn header(
        &mut self,
        input: &mut &[u8],
        before: &[u8],
    ) -> Result<Option<(Frame, u32)>, WsError> {
        // What has come before and what is here, side by side. A header has at most 14 bytes.
        let kept = before.len();
        let mut header = [0; 14];
        header[..kept].copy_from_slice(before);
        let fresh = input.len().min(14 - kept);
        header[kept..kept + fresh].copy_from_slice(&input[..fresh]);
        let have = kept + fresh;
        let (frame, left, used) = match self.parse_header(&header[..have])? {
            Some(parsed) => parsed,
            None => {
                // Incomplete, so at most 13 bytes: a header of 14 would have been complete.
                let have = have.min(13);
                let mut bytes = [0; 13];
                bytes[..have].copy_from_slice(&header[..have]);
                if have > 0 {
                    let len = u8::try_from(have).unwrap_or(13);
                    self.unfinished.get_or_insert_default().phase = Phase::Header { bytes, len };
                }
                *input = &[];
                return Ok(None);
            }
        };
        *input = &input[used - kept..];
        Ok(Some((frame, left)))
    }

    /// Frame, payload length and header length. Whatever is wrong is said as soon as its byte is
    /// there, in the order of the bytes.
    fn parse_header(&self, header: &[u8]) -> Result<Option<(Frame, u32, usize)>, WsError> {
        let Some(&first) = header.first() else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(WsError::ReservedBit);
        }
        let number = first & 0x0f;
        let opcode = Opcode::from_wire(number).ok_or(WsError::ReservedOpcode(number))?;
        let is_final = first & 0x80 != 0;
        match (opcode, self.kind()) {
            (Opcode::Continuation, None) => return Err(WsError::Continuation),
            (Opcode::Text | Opcode::Binary, Some(_)) => return Err(WsError::Interleaved),
            (Opcode::Close | Opcode::Ping | Opcode::Pong, _) if !is_final => {
                return Err(WsError::FragmentedControl);
            }
            _ => {}
        }
        let Some(&second) = header.get(1) else { return Ok(None) };
        let is_masked = second & 0x80 != 0;
        if is_masked != (self.role == Role::Server) {
            return Err(WsError::Masking);
        }
        let short = second & 0x7f;
        if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(WsError::ControlTooLong);
        }
        let (length, key_at) = match short {
            126 => match header.get(2..4) {
                Some(&[high, low]) => (u64::from(u16::from_be_bytes([high, low])), 4),
                _ => return Ok(None),
            },
            127 => match header.get(2..10).map(<[u8; 8]>::try_from) {
                Some(Ok(bytes)) => (u64::from_be_bytes(bytes), 10),
                _ => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        let is_shortest = match short {
            126 => length >= 126,
            127 => length > u64::from(u16::MAX) && i64::try_from(length).is_ok(),
            _ => true,
        };
        if !is_shortest {
            return Err(WsError::Length);
        }
        let message_len = self.unfinished.as_ref().map_or(0, |unfinished| unfinished.message_len);
        let before = if opcode.is_control() { 0 } else { message_len };
        let too_large = WsError::TooLarge { bytes_max: self.bytes_max };
        let left = u32::try_from(length).map_err(|_| too_large)?;
        if !opcode.is_control() && left > self.bytes_max - before {
            return Err(too_large);
        }
        if !is_masked {
            return Ok(Some((Frame { key: [0; 4], opcode, is_final }, left, key_at)));
        }
        let Some(&[a, b, c, d]) = header.get(key_at..key_at + 4) else { return Ok(None) };
        Ok(Some((Frame { key: [a, b, c, d], opcode, is_final }, left, key_at + 4)))
    }
}

impl Unfinished {
    /// Remembers what a data frame begins.
    fn begin(&mut self, opcode: Opcode) {
        match opcode {
            Opcode::Text => self.kind = Some(Kind::Text),
            Opcode::Binary => self.kind = Some(Kind::Binary),
            _ => {}
        }
    }

    /// Moves what is here of a payload into the own buffer; returns how much is missing.
    fn payload(&mut self, input: &mut &[u8], frame: Frame, left: u32) -> Result<u32, WsError> {
        let (data, rest) = input.split_at(input.len().min(left as usize));
        *input = rest;
        append_masked(&mut self.bytes, data, frame.key);
        let taken = u32::try_from(data.len()).unwrap_or(left);
        let mut key = frame.key;
        key.rotate_left(data.len() % 4);
        let left = left - taken;
        self.phase = Phase::Payload { frame: Frame { key, ..frame }, left };
        if !frame.opcode.is_control() {
            self.message_len += taken;
            if self.kind == Some(Kind::Text) {
                self.check_text()?;
            }
        }
        Ok(left)
    }

    /// Checks what has come of a text since the last check; a character may still be incomplete.
    fn check_text(&mut self) -> Result<(), WsError> {
        let fresh = &self.bytes[self.checked_len as usize..self.message_len as usize];
        let whole_len = match simdutf8::compat::from_utf8(fresh) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_some() => return Err(WsError::Utf8),
            Err(error) => error.valid_up_to(),
        };
        self.checked_len += u32::try_from(whole_len).unwrap_or(0);
        Ok(())
    }

    /// A frame that was collected here is complete. If a message is, too, it moves to `scratch`.
    fn frame_done(
        &mut self,
        frame: Frame,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<Opcode>, WsError> {
        if frame.opcode.is_control() {
            let (_, control) = self.bytes.split_at(self.message_len as usize);
            scratch.clear();
            scratch.extend_from_slice(control);
            self.bytes.truncate(self.message_len as usize);
            if self.bytes.is_empty() {
                self.bytes = Vec::new();
            }
            return Ok(Some(frame.opcode));
        }
        if !frame.is_final {
            return Ok(None);
        }
        let is_text = self.kind.take() == Some(Kind::Text);
        if is_text && self.checked_len != self.message_len {
            return Err(WsError::Utf8);
        }
        scratch.clear();
        scratch.extend_from_slice(&self.bytes);
        self.bytes = Vec::new();
        self.message_len = 0;
        self.checked_len = 0;
        Ok(Some(if is_text { Opcode::Text } else { Opcode::Binary }))
    }
}

/// The message that a complete payload is.
fn finished(opcode: Opcode, payload: &[u8]) -> Result<Message<'_>, WsError> {
    Ok(match opcode {
        Opcode::Text => {
            Message::Text(simdutf8::basic::from_utf8(payload).map_err(|_| WsError::Utf8)?)
        }
        Opcode::Binary | Opcode::Continuation => Message::Binary(payload),
        Opcode::Ping => Message::Ping(payload),
        Opcode::Pong => Message::Pong(payload),
        Opcode::Close => match payload {
            [] => Message::Close { code: None, reason: "" },
            [_] => return Err(WsError::Close),
            [high, low, reason @ ..] => {
                let code = u16::from_be_bytes([*high, *low]);
                if !is_close_code(code) {
                    return Err(WsError::Close);
                }
                let reason = std::str::from_utf8(reason).map_err(|_| WsError::Utf8)?;
                Message::Close { code: Some(code), reason }
            }
        },
    })
}

/// Codes that may be on the wire. Source: RFC 6455 section 7.4 and the IANA registry.
const fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Message, Role};

    /// Most connections never need the box.
    #[test]
    fn messages_that_come_whole_leave_nothing_behind() {
        let mut decoder = Decoder::new(Role::Client, 100);
        let mut scratch = Vec::new();
        let mut input = &b"\x81\x02hi\x89\x00"[..];
        let message = decoder.next(&mut input, &mut scratch);
        assert_eq!(message, Ok(Some(Message::Text("hi"))));
        assert_eq!(decoder.next(&mut input, &mut scratch), Ok(Some(Message::Ping(b""))));
        assert_eq!(decoder.next(&mut input, &mut scratch), Ok(None));
        assert!(decoder.unfinished.is_none());
    }
}
