//! RPC over HTTP, which has rules of its own: what the payload is, and how the answer is wrapped.
//!
//! Source: Nakama 3.40, `server/api_rpc.go`. The order of checks is: [`super::auth::rpc`], then
//! [`RpcCall::check_id`], then [`RpcCall::payload`]; all errors are answered with
//! [`ApiError::write_rpc_body`].

use wire::nakama::api::{decode_rpc, encode_rpc};

use crate::error::ApiError;
use crate::pairs::Pairs;

/// A call of `/v2/rpc/{id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcCall {
    /// In lower case; empty if none is given.
    pub id: String,
    /// The `http_key` parameter.
    pub http_key: Option<String>,
    /// Whether payload and answer travel as they are, not inside JSON.
    pub unwrap: bool,
    /// Whether the method is GET: there is no payload then.
    pub is_get: bool,
    /// All query parameters but `http_key`, for the function's context.
    pub query_params: Pairs,
}

impl RpcCall {
    /// Checks that there is an id.
    ///
    /// # Errors
    /// [`ApiError`] with code 3.
    pub fn check_id(&self) -> Result<(), ApiError> {
        if self.id.is_empty() { Err(ApiError::invalid("RPC ID must be set")) } else { Ok(()) }
    }

    /// The payload in a request's body. A GET has none, save that a `payload` parameter is taken
    /// for one: nakama-js sends it, and Nakama drops it.
    ///
    /// # Errors
    /// [`ApiError`] with code 3 when the body is not one JSON string.
    pub fn payload(&self, body: &[u8]) -> Result<Vec<u8>, ApiError> {
        if self.is_get {
            return Ok(self.query_params.first(b"payload").unwrap_or_default().to_vec());
        }
        if self.unwrap {
            return Ok(body.to_vec());
        }
        Ok(decode_rpc(body)?.into_bytes())
    }
}

/// Appends the answer of a wrapped call: `{"payload":"…"}`, with `<`, `>` and `&` escaped as
/// Nakama does. What is not UTF-8 becomes U+FFFD.
pub fn write_rpc_answer(body: &mut Vec<u8>, payload: &[u8]) {
    match std::str::from_utf8(payload) {
        Ok(text) => encode_rpc(body, text),
        Err(_) => encode_rpc(body, &String::from_utf8_lossy(payload)),
    }
}

#[cfg(test)]
mod tests {
    use super::{RpcCall, write_rpc_answer};

    fn call(unwrap: bool, is_get: bool) -> RpcCall {
        let query_params = [("payload", "{}")].into_iter().collect();
        RpcCall { id: "f".into(), http_key: None, unwrap, is_get, query_params }
    }

    #[test]
    fn payloads_are_json_strings_unless_unwrapped() {
        for (body, expected) in [
            ("", Ok("")),
            (" \n", Ok("")),
            ("null", Ok("")),
            (r#""""#, Ok("")),
            (r#" "{\"a\":1}" "#, Ok(r#"{"a":1}"#)),
            ("{}", Err("json: cannot unmarshal object into Go value of type string")),
            ("[]", Err("json: cannot unmarshal array into Go value of type string")),
            ("12", Err("json: cannot unmarshal number into Go value of type string")),
            ("-1", Err("json: cannot unmarshal number into Go value of type string")),
            ("true", Err("json: cannot unmarshal bool into Go value of type string")),
        ] {
            let payload = call(false, false).payload(body.as_bytes());
            let payload = payload.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(payload.as_deref().map_err(|error| &*error.message), expected, "{body}");
        }
        for broken in ["x", "{", "\"", "\"a\" x", "nul", "\"\\q\""] {
            assert!(call(false, false).payload(broken.as_bytes()).is_err(), "{broken}");
        }
        assert_eq!(call(true, false).payload(b"\xffraw").unwrap(), b"\xffraw");
        assert_eq!(call(false, true).payload(b"{").unwrap(), b"{}");
    }

    #[test]
    fn answers_are_escaped_for_html() {
        for (payload, expected) in [
            (&b""[..], r#"{"payload":""}"#),
            (b"{\"a\":1}", r#"{"payload":"{\"a\":1}"}"#),
            (b"<b>&\n", r#"{"payload":"\u003cb\u003e\u0026\n"}"#),
            (b"a\xffb", "{\"payload\":\"a\u{fffd}b\"}"),
        ] {
            let mut body = Vec::new();
            write_rpc_answer(&mut body, payload);
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        }
    }
}
