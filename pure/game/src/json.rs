//! Writing JSON text piece by piece, for answers whose shape is fixed: no tree, no reflection.
//! Reading is serde's; the dialect's messages are `wire`'s.

/// Appends `text` as a JSON string.
pub(crate) fn write_str(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    escape(json, text, false);
    json.push(b'"');
}

/// Appends `text` as the inside of a JSON string; `for_html` escapes `<`, `>` and `&` too.
pub(crate) fn escape(json: &mut Vec<u8>, text: &str, for_html: bool) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut clean_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let is_clean = match byte {
            b'"' | b'\\' | 0..0x20 => false,
            b'<' | b'>' | b'&' => !for_html,
            _ => true,
        };
        if is_clean {
            continue;
        }
        json.extend_from_slice(text[clean_from..at].as_bytes());
        clean_from = at + 1;
        match byte {
            b'"' => json.extend_from_slice(b"\\\""),
            b'\\' => json.extend_from_slice(b"\\\\"),
            b'\n' => json.extend_from_slice(b"\\n"),
            b'\r' => json.extend_from_slice(b"\\r"),
            b'\t' => json.extend_from_slice(b"\\t"),
            _ => {
                json.extend_from_slice(b"\\u00");
                json.push(HEX[usize::from(byte >> 4)]);
                json.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
    json.extend_from_slice(text[clean_from..].as_bytes());
}

/// Appends a whole number.
pub(crate) fn write_u64(json: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    json.extend_from_slice(&digits[at..]);
}

/// Appends an object of strings.
pub(crate) fn write_map(json: &mut Vec<u8>, members: &[(String, String)]) {
    json.push(b'{');
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        write_str(json, name);
        json.push(b':');
        write_str(json, value);
    }
    json.push(b'}');
}

/// Appends `,"name":"value"` unless the value is empty, as the dialect wants it.
pub(crate) fn write_member(json: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        write_name(json, name);
        write_str(json, value);
    }
}

/// Appends `,"name":"2026-01-02T03:04:05Z"` for a moment in unix milliseconds; whole seconds, as
/// the original's answers have.
pub(crate) fn write_time_member(json: &mut Vec<u8>, name: &str, unix_ms: i64) {
    write_name(json, name);
    json.push(b'"');
    wire::date::write_rfc3339(json, unix_ms.div_euclid(1_000), 0);
    json.push(b'"');
}

/// Appends `,"name":`. Names need no escaping.
pub(crate) fn write_name(json: &mut Vec<u8>, name: &str) {
    json.extend_from_slice(b",\"");
    json.extend_from_slice(name.as_bytes());
    json.extend_from_slice(b"\":");
}

/// Whether `text` is JSON, and an object.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{write_map, write_str, write_u64};

    #[test]
    fn what_is_written_reads_back() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{2028}🎲".chars()).collect();
        let texts = ["", "plain", "\"\\\n\r\t\u{1}\u{1f}\u{7f}", "ünï €", &all];
        for text in texts {
            let mut json = Vec::new();
            write_str(&mut json, text);
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
        }
        for number in [0, 9, 10, 1_700_000_000, u64::MAX] {
            let mut json = Vec::new();
            write_u64(&mut json, number);
            assert_eq!(json, number.to_string().into_bytes());
        }
        let mut json = Vec::new();
        write_map(&mut json, &[("a".into(), "1".into()), ("b\"".into(), String::new())]);
        assert_eq!(json, br#"{"a":"1","b\"":""}"#);
    }
}
