//! Numbers as people read them: one way to write a time, a rate, a size, a factor, wherever it
//! stands.
//!
//! In: numbers in base units (nanoseconds, bytes, one a second). Out: short texts with a unit.

/// Nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "for people; 2^53 ns are 104 days")]
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A count as a float, for rates.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// `1 player`, `2,000 players`.
pub(crate) fn players(count: u32) -> String {
    let players = if count == 1 { "player" } else { "players" };
    format!("{} {players}", group(u64::from(count)))
}

/// So many of something: `1 flow`, `2,000 flows`.
#[must_use]
pub fn count_of(count: u64, one: &str) -> String {
    format!("{} {one}{}", group(count), if count == 1 { "" } else { "s" })
}

/// A time with three digits and its unit.
pub(crate) fn time(ns: u64) -> String {
    time_f64(float(ns))
}

pub(crate) fn time_f64(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    if ns <= 0.0 { "0".to_owned() } else { format!("{value:.digits$} {unit}") }
}

/// A rate with about four digits.
pub(crate) fn rate(per_s: f64) -> String {
    if per_s >= 999.995 { group_f64(per_s) } else { format!("{per_s:.2}") }
}

pub(crate) fn bytes(count: u64) -> String {
    bytes_f64(float(count))
}

pub(crate) fn bytes_f64(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0} B"),
        count if count < 1e6 => format!("{:.1} KB", count / 1e3),
        count if count < 1e9 => format!("{:.1} MB", count / 1e6),
        count => format!("{:.2} GB", count / 1e9),
    }
}

pub(crate) fn bits(per_s: f64) -> String {
    match per_s {
        it if it < 1e3 => format!("{it:.0} b/s"),
        it if it < 1e6 => format!("{:.1} kb/s", it / 1e3),
        it if it < 1e9 => format!("{:.2} Mb/s", it / 1e6),
        it => format!("{:.2} Gb/s", it / 1e9),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn group_f64(number: f64) -> String {
    group(number.round().clamp(0.0, 1e18) as u64)
}

/// A number with its thousands apart.
pub(crate) fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A length of time of which tenths matter only below a second.
pub(crate) fn seconds_text(seconds: f64) -> String {
    match seconds {
        it if it < 0.05 => "<0.1 s".to_owned(),
        it if it < 0.95 => format!("{it:.1} s"),
        it => format!("{it:.0} s"),
    }
}

/// A factor with the digits that mean something.
pub(crate) fn times(factor: f64) -> String {
    let digits = match factor {
        it if it < 2.0 => 2,
        it if it < 10.0 => 1,
        it if it < 1_000.0 => 0,
        it => return format!("{} ×", group_f64(it)),
    };
    format!("{factor:.digits$} ×")
}

/// How much more or less one is than another, by what the one is divided by the other, with a word
/// for more and one for less: `6.5 × higher`, and `114 × lower` rather than `0.01 ×`.
pub(crate) fn against(ratio: f64, [more, less]: [&str; 2]) -> String {
    let (factor, word) = if ratio < 1.0 { (1.0 / ratio, less) } else { (ratio, more) };
    match times(factor) {
        text if text == "1.00 ×" => "the same".to_owned(),
        text => format!("{text} {word}"),
    }
}

/// A share of which most are small, with two digits; what is there at all is no nought.
pub(crate) fn share(share: f64) -> String {
    if share > 0.0 && share < 0.000_05 {
        return "<0.01 %".to_owned();
    }
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A percentage with the digits that mean something: as many as there are nines.
pub(crate) fn percent(share: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 6")]
    let digits = (-(1.0 - share).max(1e-6).log10() - 1e-6).ceil().clamp(1.0, 6.0) as usize;
    let text = format!("{:.digits$}", share * 100.0);
    // There is a point in it, so that no nought before it goes.
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::{against, percent, share};

    #[test]
    fn what_is_less_is_told_as_how_much_less() {
        for (ratio, wanted) in [
            (0.008_77, "114 × lower"),
            (0.5, "2.0 × lower"),
            (0.994, "1.01 × lower"),
            (0.999, "the same"),
            (1.004, "the same"),
            (1.2, "1.20 × higher"),
            (6.54, "6.5 × higher"),
            (4_321.0, "4,321 × higher"),
        ] {
            assert_eq!(against(ratio, ["higher", "lower"]), wanted, "{ratio}");
        }
    }

    #[test]
    fn small_shares_are_told() {
        for (of, wanted) in
            [(0.0, "0 %"), (0.000_5, "0.05 %"), (1e-9, "<0.01 %"), (0.1, "10 %"), (1.0, "100 %")]
        {
            assert_eq!(share(of), wanted);
        }
    }

    #[test]
    fn nines_are_told_apart() {
        for (share, wanted) in [
            (0.0, "0 %"),
            (0.5, "50 %"),
            (0.978_456, "97.85 %"),
            (0.99, "99 %"),
            (0.999, "99.9 %"),
            (0.999_99, "99.999 %"),
        ] {
            assert_eq!(percent(share), wanted);
        }
    }
}
