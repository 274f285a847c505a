//! Text to checked values, by the kind that the option table gives.
//!
//! What is deliberately not here: which options exist (`options.rs`), and where the text came from
//! (`source.rs`). Errors hold no text of secrets: only numbers and words that cannot be keys.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use event::Network;
use fetch::HostPattern;

use crate::options::{Entry, Kind, LIST_ITEMS_MAX, TEXT_BYTES_MAX};

/// A checked value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// Of [`Kind::Number`].
    Number(u64),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Text`], [`Kind::Word`], [`Kind::Path`], [`Kind::Host`], and of [`Kind::Choice`] in lower case.
    Text(String),
    /// Of [`Kind::Address`].
    Address(IpAddr),
    /// Of [`Kind::List`].
    List(Vec<(String, String)>),
}

/// What is wrong with a value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// Not a whole number in decimal digits.
    #[error("must be a whole number from {min} to {max}{}", spaced(.unit))]
    NotNumber { min: u64, max: u64, unit: &'static str },
    /// A number out of range.
    #[error("{value} is out of range: {min} to {max}{}", spaced(.unit))]
    OutOfRange { value: u64, min: u64, max: u64, unit: &'static str },
    /// Neither true nor false.
    #[error("must be true or false")]
    NotSwitch,
    /// Text that is too short or too long.
    #[error("has {bytes} bytes; {min} to {max} are allowed")]
    Length { bytes: usize, min: usize, max: usize },
    /// Text with control characters.
    #[error("holds a control character")]
    Control,
    /// A word with other characters.
    #[error("may hold ASCII letters, digits, `_`{} only", also_text(.also))]
    NotWord { also: &'static str },
    /// A word that is not offered.
    #[error("must be one of {}", .words.join(", "))]
    NotChoice { words: &'static [&'static str] },
    /// Not an address.
    #[error("must be an IP address such as 127.0.0.1, or localhost")]
    NotAddress,
    /// Neither an address nor a host's name.
    #[error(
        "must be an IP address or a host's name in ASCII, such as game.example, without a port"
    )]
    NotHost,
    /// More than one value for an option that takes one.
    #[error("takes one value, not a list")]
    NotOne,
    /// A list that is too long.
    #[error("has {items} entries; at most {LIST_ITEMS_MAX} are allowed")]
    ListLength { items: usize },
    /// An entry without an equals sign, or with nothing before it. Counted from 1.
    #[error("entry {item} must have the form {}", entry_form(*.form))]
    NotPair { item: usize, form: Entry },
    /// An entry that no HTTP header can hold. Counted from 1.
    #[error("entry {item} is not fit for an HTTP header")]
    NotHeader { item: usize },
    /// An entry for a header that the server itself sets. Counted from 1.
    #[error("entry {item} names a header that frames the answer, which only the server sets")]
    FramingHeader { item: usize },
}

fn spaced(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

fn also_text(also: &str) -> String {
    if also.is_empty() { String::new() } else { format!(", `{also}`") }
}

fn entry_form(form: Entry) -> &'static str {
    match form {
        Entry::Variable => "KEY=value",
        Entry::Header => "Name=value",
        Entry::Network => "10.0.0.0/8 or 10.1.2.3",
        Entry::Host => "example.com, *.example.com or *, and maybe :port",
    }
}

/// Checks what was written for an option of this kind; one text, or the items of a list.
///
/// # Errors
/// What is wrong, without repeating a text that may be secret.
pub fn parse(kind: Kind, items: &[String]) -> Result<OptionValue, BadValue> {
    if let Kind::List(form) = kind {
        return list(form, items);
    }
    let [text] = items else { return Err(BadValue::NotOne) };
    match kind {
        Kind::Number { min, max, unit } => number(text, min, max, unit),
        Kind::Switch => switch(text).map(OptionValue::Switch).ok_or(BadValue::NotSwitch),
        Kind::Text { min, max } => plain(text, min, max),
        Kind::TextOrOff { .. } if text.is_empty() => plain(text, 0, 0),
        Kind::TextOrOff { min, max } => plain(text, min, max),
        Kind::Path => plain(text, 0, TEXT_BYTES_MAX),
        Kind::Word { min, max, also } => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
            if !text.chars().all(allowed) {
                return Err(BadValue::NotWord { also });
            }
            plain(text, min, max)
        }
        Kind::Choice(words) => {
            let lower = text.to_ascii_lowercase();
            if words.contains(&lower.as_str()) {
                Ok(OptionValue::Text(lower))
            } else {
                Err(BadValue::NotChoice { words })
            }
        }
        Kind::Host if is_host(text) => Ok(OptionValue::Text(text.clone())),
        Kind::Host => Err(BadValue::NotHost),
        Kind::Address => address(text).map(OptionValue::Address).ok_or(BadValue::NotAddress),
        Kind::List(_) => Err(BadValue::NotOne),
    }
}

fn number(text: &str, min: u64, max: u64, unit: &'static str) -> Result<OptionValue, BadValue> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadValue::NotNumber { min, max, unit });
    }
    // Digits only, so the one way to fail is a number beyond 64 bits.
    let value = text.parse().unwrap_or(u64::MAX);
    if (min..=max).contains(&value) {
        Ok(OptionValue::Number(value))
    } else {
        Err(BadValue::OutOfRange { value, min, max, unit })
    }
}

/// The spellings that Nakama's flags take. Source: Go, strconv.ParseBool.
pub fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn plain(text: &str, min: usize, max: usize) -> Result<OptionValue, BadValue> {
    if !(min..=max).contains(&text.len()) {
        return Err(BadValue::Length { bytes: text.len(), min, max });
    }
    if text.chars().any(char::is_control) {
        return Err(BadValue::Control);
    }
    Ok(OptionValue::Text(text.to_owned()))
}

fn address(text: &str) -> Option<IpAddr> {
    match text {
        // Nakama's word for "every address"; takes IPv4 clients too, where the system does.
        "" => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => text.trim_start_matches('[').trim_end_matches(']').parse().ok(),
    }
}

/// Whether clients can be told to send there. Source: RFC 1123 section 2.1; underscores are in many a name.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let is_end = |end: Option<char>| end.is_some_and(|c| c != '-');
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && is_end(label.chars().next())
            && is_end(label.chars().next_back())
    };
    let is_name = text.len() <= 253 && text.split('.').all(label);
    // What ends in a number is an address, or nothing.
    let is_number = |last: &str| last.bytes().all(|b| b.is_ascii_digit());
    let is_numeric = text.rsplit('.').next().is_some_and(is_number);
    let is_address = text.parse().is_ok_and(|address: IpAddr| !address.is_unspecified());
    text.is_empty() || is_address || is_name && !is_numeric
}

fn list(form: Entry, items: &[String]) -> Result<OptionValue, BadValue> {
    if items.len() > LIST_ITEMS_MAX {
        return Err(BadValue::ListLength { items: items.len() });
    }
    let mut pairs = Vec::with_capacity(items.len());
    for (item, text) in (1..).zip(items) {
        if matches!(form, Entry::Network | Entry::Host) {
            let text = text.trim();
            // An empty text is an empty list, for those who want no exemption.
            if !text.is_empty() {
                let is_one = match form {
                    Entry::Host => HostPattern::parse(text).is_some(),
                    _ => Network::parse(text).is_some(),
                };
                if !is_one {
                    return Err(BadValue::NotPair { item, form });
                }
                pairs.push((text.to_owned(), String::new()));
            }
            continue;
        }
        let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let Some((name, value)) = pair else { return Err(BadValue::NotPair { item, form }) };
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadValue::Length { bytes: text.len(), min: 3, max: TEXT_BYTES_MAX });
        }
        if form == Entry::Header {
            header(item, name, value)?;
        } else if text.contains('\0') {
            return Err(BadValue::Control);
        }
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(OptionValue::List(pairs))
}

/// Source: RFC 9110 section 5.1 (names are tokens) and 5.5 (values; no line break gets through,
/// which would let a setting forge a second answer).
fn header(item: usize, name: &str, value: &str) -> Result<(), BadValue> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let visible = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
    if !name.bytes().all(token) || !value.bytes().all(visible) {
        return Err(BadValue::NotHeader { item });
    }
    let framing = ["content-length", "transfer-encoding", "connection", "upgrade"];
    if framing.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(BadValue::FramingHeader { item });
    }
    Ok(())
}
