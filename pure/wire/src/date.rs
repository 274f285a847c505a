//! Dates as the protocols write them: IMF-fixdate for HTTP, RFC 3339 for JSON.
//!
//! No clock and no time zones here: a moment comes in as seconds since 1970-01-01 UTC, in the
//! proleptic Gregorian calendar, without leap seconds.

/// Seconds in a day.
const DAY_S: i64 = 86_400;
/// The earliest second that RFC 3339 can write with a four-digit year: 0001-01-01T00:00:00Z.
pub const RFC3339_S_MIN: i64 = -62_135_596_800;
/// The latest second that RFC 3339 can write: 9999-12-31T23:59:59Z.
pub const RFC3339_S_MAX: i64 = 253_402_300_799;

const WEEKDAYS: [[u8; 3]; 7] = [*b"Thu", *b"Fri", *b"Sat", *b"Sun", *b"Mon", *b"Tue", *b"Wed"];
const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct",
    *b"Nov", *b"Dec",
];

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    /// Counted as in ISO 8601, with a year 0.
    pub year: i64,
    /// 1–12.
    pub month: u8,
    /// 1–31.
    pub of_month: u8,
}

/// The day that lies `days` after 1970-01-01.
///
/// Counts in 400-year eras of 146,097 days that begin on 1 March, so that the leap day is the
/// last of its year and needs no case of its own.
#[must_use]
pub fn day_from_number(days: i64) -> Day {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Day {
        year,
        month: u8::try_from(month).unwrap_or(1),
        of_month: u8::try_from(of_month).unwrap_or(1),
    }
}

/// How many days a date of the Gregorian calendar lies after 1970-01-01; the inverse of
/// [`day_from_number`]. Months and days outside their ranges carry over: month 13 is the next
/// year's first, day 0 the day before the first. For years within some billions of ours.
#[must_use]
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12);
    // Counted from March, so that the leap day is the last of its year.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let of_year = (153 * month + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    year * 365 + leap_days + of_year + (day - 1) - 719_468
}

/// As [`days_since_1970`], for a day that there is: `None` for month 13 and 31 April.
#[must_use]
pub fn days_of_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let days = days_since_1970(year, month, day);
    let there = day_from_number(days);
    let there = (there.year, i64::from(there.month), i64::from(there.of_month));
    (there == (year, month, day)).then_some(days)
}

/// Writes `value` in decimal over the whole of `to`, with leading zeros, dropping higher digits.
fn put_digits(to: &mut [u8], mut value: i64) {
    for digit in to.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value.rem_euclid(10)).unwrap_or(0);
        value /= 10;
    }
}

/// The text of HTTP's `Date` header, `Sun, 06 Nov 1994 08:49:37 GMT`. Moments after the year 9999
/// are written as its last second.
///
/// Source: RFC 9110 section 5.6.7.
#[must_use]
pub fn imf_fixdate(unix_s: u64) -> [u8; 29] {
    let unix_s = i64::try_from(unix_s).unwrap_or(RFC3339_S_MAX).min(RFC3339_S_MAX);
    let number = unix_s / DAY_S;
    let second = unix_s % DAY_S;
    let day = day_from_number(number);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(&WEEKDAYS[usize::try_from(number % 7).unwrap_or(0)]);
    put_digits(&mut text[5..7], i64::from(day.of_month));
    text[8..11].copy_from_slice(&MONTHS[usize::from(day.month - 1)]);
    put_digits(&mut text[12..16], day.year);
    put_digits(&mut text[17..19], second / 3_600);
    put_digits(&mut text[20..22], second / 60 % 60);
    put_digits(&mut text[23..25], second % 60);
    text
}

/// Appends a moment as `2026-01-02T03:04:05Z`, with 3, 6 or 9 digits of fraction where `nanos` is
/// not 0. Seconds outside years 1–9999 are clamped; so is `nanos` above 999,999,999.
///
/// Source: RFC 3339 section 5.6; the digits as protobuf's JSON mapping wants them.
pub fn write_rfc3339(out: &mut Vec<u8>, unix_s: i64, nanos: u32) {
    let unix_s = unix_s.clamp(RFC3339_S_MIN, RFC3339_S_MAX);
    let nanos = i64::from(nanos.min(999_999_999));
    let second = unix_s.rem_euclid(DAY_S);
    let day = day_from_number(unix_s.div_euclid(DAY_S));
    let mut text = *b"1970-01-01T00:00:00.000000000";
    put_digits(&mut text[0..4], day.year);
    put_digits(&mut text[5..7], i64::from(day.month));
    put_digits(&mut text[8..10], i64::from(day.of_month));
    put_digits(&mut text[11..13], second / 3_600);
    put_digits(&mut text[14..16], second / 60 % 60);
    put_digits(&mut text[17..19], second % 60);
    put_digits(&mut text[20..29], nanos);
    let used = match nanos {
        0 => 19,
        nanos if nanos % 1_000_000 == 0 => 23,
        nanos if nanos % 1_000 == 0 => 26,
        _ => 29,
    };
    out.extend_from_slice(&text[..used]);
    out.push(b'Z');
}

/// Reads an RFC 3339 moment with any offset: seconds since 1970 and nanoseconds (0–999,999,999).
/// `None` for anything else, for second 60, and for moments outside years 1–9999 in UTC.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<(i64, u32)> {
    let bytes = text.as_bytes();
    let (date, rest) = bytes.split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| date[at] != byte) || !matches!(date[10], b'T' | b't') {
        return None;
    }
    // A day that the month lacks (31 April, 29 February 2025) would turn into another one.
    let days = days_of_date(number(&date[0..4])?, number(&date[5..7])?, number(&date[8..10])?)?;
    let (hour, minute, second) =
        (number(&date[11..13])?, number(&date[14..16])?, number(&date[17..19])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, rest) = fraction(rest)?;
    let unix_s = days * DAY_S + hour * 3_600 + minute * 60 + second - offset_s(rest)?;
    (RFC3339_S_MIN..=RFC3339_S_MAX).contains(&unix_s).then_some((unix_s, nanos))
}

/// The optional `.123` after the seconds: nanoseconds, and what follows.
fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let Some((b'.', rest)) = rest.split_first() else { return Some((0, rest)) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, rest) = rest.split_at(digits);
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10_i64.pow(9 - u32::try_from(fraction.len()).ok()?);
    Some((u32::try_from(number(fraction)? * scale).ok()?, rest))
}

/// The offset of local time from UTC in seconds: `Z`, `+01:30`, `-08:00`.
fn offset_s(text: &[u8]) -> Option<i64> {
    let sign = match text.first()? {
        b'Z' | b'z' if text.len() == 1 => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if text.len() != 6 || text[3] != b':' {
        return None;
    }
    let (hours, minutes) = (number(&text[1..3])?, number(&text[4..6])?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// A run of decimal digits, of which there are 9 at most here.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(unix_s: i64, nanos: u32) -> String {
        let mut out = Vec::new();
        write_rfc3339(&mut out, unix_s, nanos);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn http_dates() {
        for (unix_s, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&imf_fixdate(unix_s)).unwrap(), expected);
        }
    }

    #[test]
    fn every_day_of_a_thousand_years_is_followed_by_the_next() {
        let mut previous = day_from_number(-200_000);
        for number in -199_999..200_000 {
            let day = day_from_number(number);
            let (month, of_month) = (i64::from(day.month), i64::from(day.of_month));
            assert_eq!(days_of_date(day.year, month, of_month), Some(number));
            assert!(day > previous);
            assert!(
                day.of_month == previous.of_month + 1
                    || (day.of_month == 1 && previous.of_month >= 28),
                "{previous:?} {day:?}"
            );
            previous = day;
        }
    }

    #[test]
    fn months_and_days_outside_their_ranges_carry_over() {
        for ((year, month, day), days) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2026, 7, 16), 20_650),
            ((2026, 13, 1), 20_819),
            ((2026, 0, 31), 20_453),
        ] {
            assert_eq!(days_since_1970(year, month, day), days, "{year}-{month}-{day}");
        }
        assert_eq!(days_of_date(2026, 13, 1), None);
    }

    #[test]
    fn rfc3339_is_written_with_as_many_digits_as_needed() {
        assert_eq!(text(1_767_323_045, 0), "2026-01-02T03:04:05Z");
        assert_eq!(text(1_767_323_045, 120_000_000), "2026-01-02T03:04:05.120Z");
        assert_eq!(text(1_767_323_045, 1_000), "2026-01-02T03:04:05.000001Z");
        assert_eq!(text(-1, 1), "1969-12-31T23:59:59.000000001Z");
        assert_eq!(text(i64::MIN, 0), "0001-01-01T00:00:00Z");
        assert_eq!(text(i64::MAX, u32::MAX), "9999-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn rfc3339_is_read_with_any_offset() {
        for (input, expected) in [
            ("2026-01-02T03:04:05Z", Some((1_767_323_045, 0))),
            ("2026-01-02t03:04:05.5z", Some((1_767_323_045, 500_000_000))),
            ("2026-01-02T04:34:05+01:30", Some((1_767_323_045, 0))),
            ("2026-01-01T19:04:05.000000001-08:00", Some((1_767_323_045, 1))),
            ("2024-02-29T00:00:00Z", Some((1_709_164_800, 0))),
            ("2025-02-29T00:00:00Z", None),
            ("2025-04-31T00:00:00Z", None),
            ("2025-00-01T00:00:00Z", None),
            ("2025-13-01T00:00:00Z", None),
            ("2025-01-01T24:00:00Z", None),
            ("2025-01-01T00:60:00Z", None),
            ("2025-01-01T00:00:60Z", None),
            ("2025-01-01T00:00:00", None),
            ("2025-01-01T00:00:00.Z", None),
            ("2025-01-01T00:00:00.1234567890Z", None),
            ("2025-01-01T00:00:00+0100", None),
            ("2025-01-01T00:00:00+24:00", None),
            ("2025-01-01 00:00:00Z", None),
            ("2025-01-01T00:00:00Z ", None),
            ("+025-01-01T00:00:00Z", None),
            ("0001-01-01T00:00:00+01:00", None),
            ("9999-12-31T23:59:59-00:01", None),
            ("0000-01-01T00:00:00Z", None),
            ("é25-01-01T00:00:00Z0", None),
            ("", None),
        ] {
            assert_eq!(parse_rfc3339(input), expected, "{input}");
        }
    }

    #[test]
    fn rfc3339_round_trip() {
        for unix_s in (RFC3339_S_MIN..=RFC3339_S_MAX).step_by(997_000_003) {
            let written = text(unix_s, 7);
            assert_eq!(parse_rfc3339(&written), Some((unix_s, 7)), "{written}");
        }
    }
}
