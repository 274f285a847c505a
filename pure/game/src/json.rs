//! Writing JSON text piece by piece, for tokens, whose shape is fixed: no tree, no copies; and
//! checking texts of clients. Strings are `wire`'s.

use wire::nakama::json::write_string;

use crate::error::ApiError;
use crate::value::DEPTH_MAX;

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

/// Checks that `text` is JSON, an object, and nested no deeper than scripts can read it.
///
/// # Errors
/// Code 3, with `refusal` as its text, and the depth if that is why.
pub(crate) fn check_object(text: &str, refusal: &'static str) -> Result<(), ApiError> {
    let is_object = text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !is_object {
        return Err(ApiError::invalid(refusal));
    }
    // So short a text has not enough brackets.
    if text.len() > 2 * DEPTH_MAX && depth(text) > DEPTH_MAX {
        let why = format!("{refusal} It is nested deeper than {DEPTH_MAX} levels.");
        return Err(ApiError::invalid(why));
    }
    Ok(())
}

/// How deeply a valid JSON text is nested.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(inner) = bytes.next() {
                    match inner {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::{check_object, write_map};
    use crate::value::DEPTH_MAX;

    #[test]
    fn what_is_written_reads_back() {
        let mut json = Vec::new();
        write_map(&mut json, &[("a".into(), "1".into()), ("b\"".into(), String::new())]);
        assert_eq!(json, br#"{"a":"1","b\"":""}"#);
    }

    #[test]
    fn only_whole_objects_are_objects() {
        for text in ["{}", " \n{\"a\":[1,{\"b\":null}]} "] {
            assert!(check_object(text, "No.").is_ok(), "{text}");
        }
        for text in ["", "[]", "1", "{", "{} x", "{'a':1}", "null", "\u{a0}{}"] {
            let refused = check_object(text, "No.").unwrap_err();
            assert_eq!(refused.message, "No.", "{text}");
        }
    }

    /// What is taken from clients is what scripts can read, to the level.
    #[test]
    fn what_is_taken_reads_back() {
        let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let in_text = format!("{{\"{}\\\"{}\":[]}}", "{".repeat(300), "[".repeat(300));
        for text in [nested(65), nested(DEPTH_MAX), in_text] {
            check_object(&text, "No.").unwrap();
            let value = crate::host::json::decode(text.as_bytes()).unwrap();
            assert_eq!(crate::host::json::encode(&value).unwrap(), text.as_bytes());
        }
        for text in [nested(DEPTH_MAX + 1), nested(100_000)] {
            let refused = check_object(&text, "No.").unwrap_err();
            assert_eq!(refused.message, "No. It is nested deeper than 127 levels.");
            assert!(crate::host::json::decode(text.as_bytes()).is_err());
        }
    }
}
