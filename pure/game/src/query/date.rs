//! Dates in labels and queries: text in, nanoseconds since 1970 out. No time zones but offsets,
//! no leap seconds, no formatting.
//!
//! Source: nakama 3.40, `match_common.go`: the five layouts that labels are tried against.

use wire::date::days_of_date;

/// Nanoseconds since 1970-01-01 UTC for `2026-01-02`, `2026-01-02 03:04:05`,
/// `2026-01-02T03:04:05` and the latter with `Z` or an offset (RFC 3339); seconds may have a
/// fraction. `None` for any other text and for years outside 1678–2261, which do not fit.
pub fn parse_date_ns(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    // Nearly every string of a label is no date: leave at the first glance.
    if bytes.len() < 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let days = days_of_date(number(bytes, 0, 4)?, number(bytes, 5, 2)?, number(bytes, 8, 2)?)?;
    if bytes.len() == 10 {
        return at(days, 0, 0);
    }
    if bytes.len() < 19 || bytes[13] != b':' || bytes[16] != b':' {
        return None;
    }
    let (hour, minute, second) =
        (number(bytes, 11, 2)?, number(bytes, 14, 2)?, number(bytes, 17, 2)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction_ns, zone) = fraction(bytes.get(19..)?)?;
    let offset_s = match (bytes[10], zone) {
        (b'T' | b' ', []) => 0,
        (b'T', _) => zone_s(zone)?,
        _ => return None,
    };
    at(days, hour * 3_600 + minute * 60 + second - offset_s, fraction_ns)
}

fn at(days: i64, seconds: i64, fraction_ns: i64) -> Option<i64> {
    (days * 86_400 + seconds).checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

fn number(bytes: &[u8], start: usize, len: usize) -> Option<i64> {
    bytes.get(start..start + len)?.iter().try_fold(0, |sum: i64, &byte| {
        byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

/// A fraction of a second and what follows it. Digits behind the ninth are cut off.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.' | b',', digits)) = rest.split_first() else { return Some((0, rest)) };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return None;
    }
    let (digits, rest) = digits.split_at_checked(count)?;
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    let ns = padded.fold(0, |ns, digit| ns * 10 + i64::from(digit - b'0'));
    Some((ns, rest))
}

/// Seconds that a zone (`Z`, `+01:30`, `-08:00`) is ahead of UTC.
fn zone_s(zone: &[u8]) -> Option<i64> {
    if zone == b"Z" {
        return Some(0);
    }
    if zone.len() != 6 || zone[3] != b':' {
        return None;
    }
    let (hours, minutes) = (number(zone, 1, 2)?, number(zone, 4, 2)?);
    if hours > 24 || minutes > 59 {
        return None;
    }
    let ahead_s = hours * 3_600 + minutes * 60;
    match zone[0] {
        b'+' => Some(ahead_s),
        b'-' => Some(-ahead_s),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse_date_ns;

    #[test]
    fn dates_and_what_only_looks_like_one() {
        let cases = [
            ("1970-01-01", Some(0)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59Z", Some(-1_000_000_000)),
            ("2000-02-29", Some(951_782_400_000_000_000)),
            ("2026-01-02T03:04:05Z", Some(1_767_323_045_000_000_000)),
            ("2026-01-02 03:04:05", Some(1_767_323_045_000_000_000)),
            ("2026-01-02T03:04:05", Some(1_767_323_045_000_000_000)),
            ("2026-01-02T04:34:05+01:30", Some(1_767_323_045_000_000_000)),
            ("2026-01-01T19:04:05-08:00", Some(1_767_323_045_000_000_000)),
            ("2026-01-02T03:04:05.25Z", Some(1_767_323_045_250_000_000)),
            ("2026-01-02T03:04:05.1234567899Z", Some(1_767_323_045_123_456_789)),
            ("2026-01-02 03:04:05Z", None),
            ("2026-01-02T03:04:05.Z", None),
            ("2026-01-02T03:04:05+0130", None),
            ("2026-01-02T24:00:00Z", None),
            ("2026-01-02T03:04", None),
            ("2026-02-29", None),
            ("2100-02-29", None),
            ("2026-13-01", None),
            ("2026-00-01", None),
            ("2026-01-00", None),
            ("0001-01-01", None),
            ("9999-12-31", None),
            ("+026-01-01", None),
            ("2026-01-0é", None),
            ("", None),
            ("ctf", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_date_ns(text), expected, "{text}");
            for (end, _) in text.char_indices() {
                // No prefix panics; the only prefixes that are dates are whole layouts.
                let _ = parse_date_ns(&text[..end]);
            }
        }
    }
}
