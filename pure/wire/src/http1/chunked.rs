//! The chunked transfer coding, taken apart byte by byte in any split. Extensions and trailers
//! are checked, counted against a limit, and thrown away.
//!
//! In: the bytes of the connection. Out: the body, appended to the caller's buffer.
//!
//! Source: RFC 9112 section 7.1.

use super::{HttpError, Limits};

/// Digits of a chunk size that are looked at; 15 hexadecimal digits cannot overflow a `u64`.
const SIZE_DIGITS_MAX: u8 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
}

/// Where in a chunked body the decoder stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    /// Size of the chunk while its line is read, then bytes of it that are still to come.
    left: u64,
    /// Bytes of extensions and trailers so far.
    overhead: u32,
    digits: u8,
    step: Step,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { left: 0, overhead: 0, digits: 0, step: Step::Size }
    }

    /// Consumes from `input` and appends to `bytes`, whose first `head_len` bytes are not body.
    /// `true` when the body has ended.
    pub(super) fn feed(
        &mut self,
        input: &mut &[u8],
        bytes: &mut Vec<u8>,
        head_len: usize,
        limits: &Limits,
    ) -> Result<bool, HttpError> {
        while let Some((&byte, rest)) = input.split_first() {
            if self.step == Step::Data {
                let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
                let (data, rest) = input.split_at(take);
                bytes.extend_from_slice(data);
                *input = rest;
                self.left -= take as u64;
                if self.left == 0 {
                    self.step = Step::DataReturn;
                }
                continue;
            }
            *input = rest;
            if self.framing(byte, bytes.len() - head_len, limits)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One byte that is not data. `true` when it was the last of the body.
    fn framing(&mut self, byte: u8, body: usize, limits: &Limits) -> Result<bool, HttpError> {
        self.step = match (self.step, byte) {
            (Step::Size, b'\r') if self.digits > 0 => {
                self.check_size(body, limits)?;
                Step::SizeLineFeed
            }
            (Step::Size, b';') if self.digits > 0 => {
                self.check_size(body, limits)?;
                Step::Extension
            }
            (Step::Size, _) => self.size_digit(byte)?,
            (Step::Extension, b'\r') => Step::SizeLineFeed,
            (Step::Extension, _) => self.counted(byte, Step::Extension, limits)?,
            (Step::SizeLineFeed, b'\n') if self.left == 0 => Step::TrailerStart,
            (Step::SizeLineFeed, b'\n') => Step::Data,
            (Step::DataReturn, b'\r') => Step::DataLineFeed,
            (Step::DataLineFeed, b'\n') => {
                self.digits = 0;
                Step::Size
            }
            (Step::TrailerStart, b'\r') => Step::LastLineFeed,
            (Step::LastLineFeed, b'\n') => return Ok(true),
            (Step::TrailerName, b':') => self.counted(byte, Step::TrailerValue, limits)?,
            (Step::TrailerStart | Step::TrailerName, _) if super::scan::is_token(byte) => {
                self.counted(byte, Step::TrailerName, limits)?
            }
            (Step::TrailerValue, b'\r') => Step::TrailerLineFeed,
            (Step::TrailerValue, _) => self.counted(byte, Step::TrailerValue, limits)?,
            (Step::TrailerLineFeed, b'\n') => Step::TrailerStart,
            _ => return Err(HttpError::Chunk),
        };
        Ok(false)
    }

    fn size_digit(&mut self, byte: u8) -> Result<Step, HttpError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(HttpError::Chunk),
        };
        if self.digits == SIZE_DIGITS_MAX {
            return Err(HttpError::Chunk);
        }
        self.digits += 1;
        self.left = self.left * 16 + u64::from(digit);
        Ok(Step::Size)
    }

    /// Refuses a chunk as soon as its size is known, not when its bytes have come.
    fn check_size(&self, body: usize, limits: &Limits) -> Result<(), HttpError> {
        let room = limits.body_bytes_max.saturating_sub(body);
        if self.left > room as u64 { Err(HttpError::BodyTooLarge) } else { Ok(()) }
    }

    /// A byte of an extension or trailer: must be text, and is paid for.
    fn counted(&mut self, byte: u8, next: Step, limits: &Limits) -> Result<Step, HttpError> {
        if (byte < b' ' && byte != b'\t') || byte == 0x7f {
            return Err(HttpError::Chunk);
        }
        self.overhead += 1;
        if self.overhead as usize > limits.head_bytes_max {
            return Err(HttpError::HeadTooLarge);
        }
        Ok(next)
    }
}
