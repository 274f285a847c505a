//! Match messages that can be accounted for: each payload carries its sender, its number and when
//! it was sent, so that a receiver can tell lost from late from doubled, and time each delivery.
//!
//! The payload is JSON text, `{"k":"…"}`, because servers may parse it. Inside stand 25
//! characters of 6 bits each: run 2, sender 4, number 4, sent at 9, lateness 6, then padding.

/// Characters of the smallest payload that can carry the mark.
pub(crate) const PAYLOAD_BYTES_MIN: usize = PREFIX.len() + MARK_BYTES + SUFFIX.len();
/// Characters of the largest payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 4_096;
const PREFIX: &[u8] = b"{\"k\":\"";
const SUFFIX: &[u8] = b"\"}";
const MARK_BYTES: usize = 25;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a payload carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Low 12 bits of the run's number: tells the run's own messages from others'.
    pub(crate) run: u16,
    /// Number of the player, below 2²⁴; wraps.
    pub(crate) sender: u32,
    /// Number of the message, below 2²⁴; wraps.
    pub(crate) number: u32,
    /// Monotonic nanoseconds, the low 54 bits: wraps after 208 days.
    pub(crate) sent_ns: u64,
    /// Nanoseconds between intended and sent, at most 2³⁶ − 1 (68 s).
    pub(crate) late_ns: u64,
}

/// Message numbers in marks.
pub(crate) const NUMBER_MASK: u32 = (1 << 24) - 1;

/// Players' numbers in marks.
pub(crate) const SENDER_MASK: u32 = (1 << 24) - 1;
const SENT_MASK: u64 = (1 << 54) - 1;

impl Mark {
    /// Nanoseconds since it was sent; 0 if that lies ahead, as clocks of two processors may have
    /// it.
    pub(crate) fn age_ns(self, now_ns: u64) -> u64 {
        let age_ns = now_ns.wrapping_sub(self.sent_ns) & SENT_MASK;
        if age_ns <= SENT_MASK / 2 { age_ns } else { 0 }
    }

    /// Appends a payload of `bytes` characters.
    pub(crate) fn write(self, out: &mut Vec<u8>, bytes: usize) {
        let end = out.len() + bytes.max(PAYLOAD_BYTES_MIN) - SUFFIX.len();
        out.extend_from_slice(PREFIX);
        write_digits(out, u64::from(self.run), 2);
        write_digits(out, u64::from(self.sender), 4);
        write_digits(out, u64::from(self.number), 4);
        write_digits(out, self.sent_ns, 9);
        write_digits(out, self.late_ns.min((1 << 36) - 1), 6);
        out.resize(end, b'.');
        out.extend_from_slice(SUFFIX);
    }

    /// Reads a payload.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let mark = payload.strip_prefix(PREFIX)?.get(..MARK_BYTES)?;
        Some(Self {
            run: u16::try_from(read_digits(&mark[0..2])?).ok()?,
            sender: u32::try_from(read_digits(&mark[2..6])?).ok()?,
            number: u32::try_from(read_digits(&mark[6..10])?).ok()?,
            sent_ns: read_digits(&mark[10..19])?,
            late_ns: read_digits(&mark[19..25])?,
        })
    }
}

fn write_digits(out: &mut Vec<u8>, value: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = usize::try_from((value >> (6 * place)) & 63).unwrap_or(0);
        out.push(DIGITS[digit]);
    }
}

fn read_digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |value: u64, &byte| {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        Some(value << 6 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::{Mark, NUMBER_MASK, PAYLOAD_BYTES_MIN};

    #[test]
    fn marks_are_read_as_written_at_every_size() {
        let mark = Mark {
            run: 0xabc,
            sender: 0xfe_dcba,
            number: NUMBER_MASK,
            sent_ns: (1 << 54) - 5,
            late_ns: 1 << 40,
        };
        for bytes in [PAYLOAD_BYTES_MIN, 35, 44, 300] {
            let mut payload = Vec::new();
            mark.write(&mut payload, bytes);
            assert_eq!(payload.len(), bytes);
            assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
            assert_eq!(Mark::read(&payload), Some(Mark { late_ns: (1 << 36) - 1, ..mark }));
            for cut in 0..PAYLOAD_BYTES_MIN - 2 {
                assert_eq!(Mark::read(&payload[..cut]), None);
            }
        }
        assert_eq!(Mark::read(&[b'x'; 44]), None);
    }

    #[test]
    fn ages_outlive_the_wrap_of_the_clock() {
        for (sent_ns, now_ns, wanted) in [
            (5, 12, 7),
            ((1 << 54) - 5, (1 << 54) + 2, 7),
            ((1 << 54) - 5, 2, 7),
            ((3 << 54) + 5, (3 << 54) + 12, 7),
            (12, 5, 0),
        ] {
            let mut payload = Vec::new();
            Mark { run: 0, sender: 0, number: 0, sent_ns, late_ns: 0 }.write(&mut payload, 44);
            assert_eq!(Mark::read(&payload).unwrap().age_ns(now_ns), wanted, "{sent_ns}");
        }
    }
}
