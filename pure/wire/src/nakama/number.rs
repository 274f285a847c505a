//! Numbers as the JSON of protobuf has them: a whole number may be written with a fraction of zeros
//! or an exponent, within quotes or without. Nothing is rounded: no double is in between.
//!
//! In: the text of one number. Out: its value, or nothing when it is no number, not whole, or does
//! not fit.
//!
//! Source: protobuf's JSON mapping as Go reads it (google.golang.org/protobuf 1.36,
//! `internal/encoding/json/decode_number.go`), RFC 8259 section 6.

/// The parts of a JSON number.
struct Parts<'a> {
    is_negative: bool,
    /// Without the zero that stands for no digits.
    whole: &'a [u8],
    /// Without zeros at its end.
    fraction: &'a [u8],
    exponent: &'a [u8],
}

/// Splits a JSON number: no plus sign, no leading zeros, digits on both sides of a point.
fn parts(text: &str) -> Option<Parts<'_>> {
    let (is_negative, rest) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (mut whole, mut rest) = digits(rest);
    match whole {
        [] | [b'0', _, ..] => return None,
        [b'0'] => whole = &[],
        _ => {}
    }
    let (mut fraction, mut exponent): (&[u8], &[u8]) = (&[], &[]);
    if let [b'.', after @ ..] = rest {
        (fraction, rest) = digits(after);
        if fraction.is_empty() {
            return None;
        }
    }
    if let [b'e' | b'E', after @ ..] = rest {
        let unsigned = after.strip_prefix(b"-").or(after.strip_prefix(b"+")).unwrap_or(after);
        let (found, behind) = digits(unsigned);
        if found.is_empty() {
            return None;
        }
        (exponent, rest) = (&after[..after.len() - behind.len()], behind);
    }
    let zeros = fraction.iter().rev().take_while(|&&digit| digit == b'0').count();
    let fraction = &fraction[..fraction.len() - zeros];
    rest.is_empty().then_some(Parts { is_negative, whole, fraction, exponent })
}

/// The digits that `text` begins with, and what follows them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Whether `text` is a JSON number and nothing else.
pub(super) fn is_number(text: &str) -> bool {
    parts(text).is_some()
}

/// The value of a JSON number that is a whole one: `1000`, `1e3`, `1.0`, `10e-1`.
pub(super) fn whole_number(text: &str) -> Option<i64> {
    /// Digits of the largest number of 64 bits.
    const DIGITS_MAX: usize = 20;
    let Parts { is_negative, whole, fraction, exponent } = parts(text)?;
    if whole.is_empty() && fraction.is_empty() {
        return Some(0);
    }
    let exponent: i32 = match exponent {
        [] => 0,
        text => std::str::from_utf8(text).ok()?.parse().ok()?,
    };
    // By how many digits the point moves, to the right or to the left.
    let (right, left) = (
        usize::try_from(exponent).unwrap_or(0),
        usize::try_from(-i64::from(exponent)).unwrap_or(0),
    );
    let zeros = right.checked_sub(fraction.len())?;
    let (whole, shifted_out) = whole.split_at_checked(whole.len().checked_sub(left)?)?;
    let count = whole.len().checked_add(right)?;
    if shifted_out.iter().any(|&digit| digit != b'0') || count > DIGITS_MAX {
        return None;
    }
    let digits = whole.iter().chain(fraction).map(|digit| i128::from(digit - b'0'));
    let number = digits.chain(std::iter::repeat_n(0, zeros)).fold(0, |sum, digit| sum * 10 + digit);
    i64::try_from(if is_negative { -number } else { number }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_exactly() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("7", Some(7)),
            ("-12", Some(-12)),
            ("1e3", Some(1_000)),
            ("1E+3", Some(1_000)),
            ("1.0", Some(1)),
            ("1.50e1", Some(15)),
            ("0.05e2", Some(5)),
            ("-1.25e2", Some(-125)),
            ("120e-1", Some(12)),
            ("120.0e-1", Some(12)),
            ("0e99999999999", Some(0)),
            ("0.000", Some(0)),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808.0", Some(i64::MIN)),
            ("9.223372036854775807e18", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("1e19", None),
            ("99999999999999999999", None),
            ("100000000000000000000", None),
            ("1e99999999999", None),
            ("1e-99999999999", None),
            ("1e-2147483648", None),
            ("1.5", None),
            ("1.25e1", None),
            ("5e-1", None),
            ("15e-1", None),
            ("10e-2", None),
            ("1.50e-1", None),
        ] {
            assert_eq!(whole_number(text), expected, "{text}");
        }
        assert_eq!(whole_number(&format!("1{}e-400", "0".repeat(400))), Some(1));
        assert_eq!(whole_number(&format!("1{}e-400", "0".repeat(430))), None);
        assert_eq!(whole_number(&format!("7.{}", "0".repeat(400))), Some(7));
    }

    #[test]
    fn only_json_numbers_are_numbers() {
        for text in ["0", "-0", "10", "0.5", "-1.25e-7", "1e5", "1E+05", "123456789012345678901"] {
            assert!(is_number(text), "{text}");
        }
        for text in [
            "", "-", "+1", "01", "-01", "00", ".5", "1.", "1.e3", "1e", "1e+", "1e-", "e3", "1 ",
            " 1", "1x", "0x1", "1_0", "inf", "NaN", "1.5.5", "1e5e5", "1e5.0", "--1", "١",
        ] {
            assert!(!is_number(text), "{text}");
            assert_eq!(whole_number(text), None, "{text}");
        }
    }
}
