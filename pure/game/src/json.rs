//! Writing JSON text piece by piece, for answers whose shape is fixed: no tree, no copies. Strings
//! and dates are `wire`'s.

use wire::nakama::json::write_string;

/// Appends a whole number.
pub(crate) fn write_u64(json: &mut Vec<u8>, number: u64) {
    json.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends an object of strings.
pub(crate) fn write_map(json: &mut Vec<u8>, members: &[(String, String)]) {
    json.push(b'{');
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        write_string(json, name);
        json.push(b':');
        write_string(json, value);
    }
    json.push(b'}');
}

/// Appends `,"name":"value"` unless the value is empty, as the dialect wants it.
pub(crate) fn write_member(json: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        write_name(json, name);
        write_string(json, value);
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
    use super::{is_object, write_map, write_time_member};

    #[test]
    fn what_is_written_reads_back() {
        let mut json = Vec::new();
        write_map(&mut json, &[("a".into(), "1".into()), ("b\"".into(), String::new())]);
        assert_eq!(json, br#"{"a":"1","b\"":""}"#);
        json.clear();
        write_time_member(&mut json, "at", 1_767_323_045_999);
        assert_eq!(json, br#","at":"2026-01-02T03:04:05Z""#);
    }

    #[test]
    fn only_whole_objects_are_objects() {
        for text in ["{}", " \n{\"a\":[1,{\"b\":null}]} "] {
            assert!(is_object(text), "{text}");
        }
        let deep = "{\"a\":".repeat(200);
        for text in ["", "[]", "1", "{", "{} x", "{'a':1}", "null", "\u{a0}{}", &deep] {
            assert!(!is_object(text), "{text}");
        }
    }
}
