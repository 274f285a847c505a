//! What messages from a socket say: answers by their number, match messages with their mark,
//! errors.
//!
//! Envelopes are not parsed whole: the few values needed are found by their keys. A key within a
//! string cannot be mistaken for one, because its quotes are escaped there. Keeps nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use wire::http1::ResponseDecoder;
use wire::websocket;

use super::http::{ANSWER_LIMITS, Captured, Wrong};
use crate::load::record::kind::{Cause, Kind};
use crate::load::scenario::Audience;
use crate::load::scenario::mark::{Mark, PAYLOAD_BYTES_MAX};
use crate::load::scenario::path::Path;
use crate::load::scenario::program::{Program, Retry};

/// Where the kind of an envelope is looked for.
const KIND_BYTES_MAX: usize = 64;

/// Reads the answer to a handshake; `None` as long as it has not come whole.
pub(super) fn read_upgrade(
    decoder: &mut ResponseDecoder,
    key: [u8; 16],
    rest: &mut &[u8],
) -> Option<Result<(), Wrong>> {
    match decoder.next(rest, &ANSWER_LIMITS, false) {
        Ok(None) => None,
        Ok(Some(response)) if websocket::is_accepted(&response, key) => Some(Ok(())),
        Ok(Some(response)) => {
            let body = String::from_utf8_lossy(response.body);
            let kind = Kind::refused(Cause::Handshake(response.status), &body);
            Some(Err(Wrong::new(kind, body)))
        }
        Err(error) => {
            let kind = Kind::new(Cause::NotHttp, format!("not HTTP: {error}"));
            Some(Err(Wrong::new(kind, "")))
        }
    }
}

/// Whether a text is a match message.
pub(super) fn is_match_data(text: &[u8]) -> bool {
    begins_with_key(text, b"\"match_data\"")
}

/// Whether a text is an error.
pub(super) fn is_error(text: &[u8]) -> bool {
    begins_with_key(text, b"\"error\"")
}

/// The number of the request that a text answers.
pub(super) fn cid_of(text: &[u8]) -> Option<u32> {
    string_field(text, b"\"cid\"").and_then(number)
}

/// The mark of a match message, and whom it is for; none if it is not of this scenario.
pub(super) fn mark_of(text: &[u8], program: &Program) -> Option<(Mark, Audience)> {
    let mark = string_field(text, b"\"data\"").and_then(read_mark)?;
    let op_code = string_field(text, b"\"op_code\"").and_then(number).unwrap_or(0);
    Some((mark, program.audience_of(op_code)?))
}

/// What the answer to a frame gives.
pub(super) fn judge(
    captures: &[(u8, Path)],
    retry: Option<&Retry>,
    text: &[u8],
) -> Result<Captured, Wrong> {
    if let Some(wrong) = error_of(text) {
        return Err(wrong.look_for_retry(retry, text));
    }
    let mut captured = Vec::new();
    for (place, path) in captures {
        let missing = || {
            let kind = format!("answer has no `{}`", path.text);
            Wrong::new(Kind::new(Cause::LacksValue, kind), lossy(text))
        };
        captured.push((*place, path.find(text).ok_or_else(missing)?));
    }
    Ok(captured)
}

fn begins_with_key(text: &[u8], quoted_key: &[u8]) -> bool {
    memmem::find(&text[..text.len().min(KIND_BYTES_MAX)], quoted_key).is_some()
}

pub(super) fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The value of the first key that reads so, without its quotes; a bare number likewise. Not for
/// values with escapes.
fn string_field<'a>(json: &'a [u8], quoted_key: &[u8]) -> Option<&'a [u8]> {
    let after = &json[memmem::find(json, quoted_key)? + quoted_key.len()..];
    let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let (value, is_end): (_, fn(u8) -> bool) = match value.strip_prefix(b"\"") {
        Some(value) => (value, |byte| byte == b'"'),
        None => (value, |byte| !byte.is_ascii_digit() && byte != b'-'),
    };
    value.iter().position(|&byte| is_end(byte)).map(|end| &value[..end])
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn read_mark(base64: &[u8]) -> Option<Mark> {
    let mut payload = [0; PAYLOAD_BYTES_MAX + 3];
    let written = STANDARD.decode_slice(base64, &mut payload).ok()?;
    Mark::read(&payload[..written])
}

/// The error that an envelope carries, if it does.
fn error_of(text: &[u8]) -> Option<Wrong> {
    memmem::find(text, b"\"error\"")?;
    let envelope: serde_json::Value = serde_json::from_slice(text).ok()?;
    let error = envelope.get("error")?;
    let code = error.get("code").and_then(serde_json::Value::as_i64).unwrap_or(0);
    let message = error.get("message").and_then(serde_json::Value::as_str).unwrap_or("");
    let kind = Kind::new(Cause::Envelope, format!("error {code}: {message}"));
    Some(Wrong::new(kind, lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::{error_of, number, string_field};

    #[test]
    fn fields_are_found_in_any_layout() {
        for (json, wanted) in [
            (r#"{"match_data":{"op_code":"12","data":"aGk="}}"#, (Some(12), Some("aGk="))),
            (r#"{"match_data": {"data" : "aGk=", "op_code" : "1"}}"#, (Some(1), Some("aGk="))),
            (r#"{"match_data":{"op_code":3,"label":"\"data\":\"no\""}}"#, (Some(3), None)),
            (r#"{"match_data":{"op_code":3"#, (None, None)),
            ("", (None, None)),
        ] {
            let json = json.as_bytes();
            let op_code = string_field(json, b"\"op_code\"").and_then(number::<i64>);
            let data = string_field(json, b"\"data\"").and_then(|it| std::str::from_utf8(it).ok());
            assert_eq!((op_code, data), wanted, "{json:?}");
        }
    }

    #[test]
    fn errors_are_named() {
        let text = br#"{"cid":"4","error":{"code":4,"message":"Match not found"}}"#;
        assert_eq!(error_of(text).unwrap().kind.text, "error 4: Match not found");
        assert!(error_of(br#"{"cid":"4","rpc":{"payload":"\"error\""}}"#).is_none());
    }
}
