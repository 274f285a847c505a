//! The headers of a request: what a script may set, what is the server's to set, and what goes along
//! to another origin.
//!
//! Whatever says where a message ends, or is meant for one connection, is made here and not taken
//! from the script: a request with two lengths would be two requests to somebody.
//!
//! Source: RFC 9110 sections 5.5, 7.6.1 and 15.4; RFC 9112 section 11.2.

use game::fetch::FetchRequest;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::error::FetchError;
use crate::target::Target;

/// Headers of a request, at most, and their bytes.
const HEADERS_MAX: usize = 64;
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// Of one connection, or about where a message ends.
const CONNECTIONS_OWN: &[&str] = &[
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What another origin may see: nothing that could be a key.
const HARMLESS: &[HeaderName] = &[
    header::ACCEPT,
    header::ACCEPT_CHARSET,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::USER_AGENT,
];

/// The headers as they are sent to `target`, but for the host and the length.
pub(crate) fn headers(request: &FetchRequest, target: &Target) -> Result<HeaderMap, FetchError> {
    let bytes: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if request.headers.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(FetchError::Headers { most: HEADERS_MAX, bytes: HEADERS_BYTES_MAX });
    }
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 2);
    for (name, value) in &request.headers {
        let told = || String::from_utf8_lossy(name).chars().take(64).collect();
        let wrong = |why| FetchError::Header { name: told(), why };
        let name = HeaderName::from_bytes(name).map_err(|_| wrong("is no name of a header"))?;
        let value = HeaderValue::from_bytes(value)
            .map_err(|_| wrong("has a value with a line break or another control character"))?;
        // Some servers take one for the other, as CGI names cannot hold both.
        let read_as = name.as_str().replace('_', "-");
        if CONNECTIONS_OWN.contains(&read_as.as_str()) {
            return Err(wrong("is the connection's, and not to be set"));
        }
        // Both may be given if they say what is so.
        if name == header::HOST {
            if !value.as_bytes().eq_ignore_ascii_case(target.authority().as_bytes()) {
                return Err(wrong("is made from the URL, and may not be another"));
            }
        } else if read_as == header::CONTENT_LENGTH.as_str() {
            if value.as_bytes() != request.body.len().to_string().as_bytes() {
                return Err(wrong("is counted by the server, and differs from the content"));
            }
        } else {
            headers.append(name, value);
        }
    }
    if !headers.contains_key(header::USER_AGENT) {
        headers.insert(header::USER_AGENT, HeaderValue::from_static("throng"));
    }
    Ok(headers)
}

/// Takes away what is not for another origin.
pub(crate) fn leave_origin(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names.iter().filter(|name| !HARMLESS.contains(name)) {
        headers.remove(name);
    }
}

/// Takes away what is about content that is not sent any more.
pub(crate) fn leave_content(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names.iter().filter(|name| name.as_str().starts_with("content-")) {
        headers.remove(name);
    }
}

/// `content-type` → `Content-Type`, as Nakama's scripts see it.
pub(crate) fn canonical(name: &HeaderName) -> String {
    let mut is_start = true;
    let letters = name.as_str().chars().map(|letter| {
        let shown = if is_start { letter.to_ascii_uppercase() } else { letter };
        is_start = letter == '-';
        shown
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use game::fetch::{FetchRequest, Method};
    use hyper::header::HeaderName;

    use super::{canonical, headers, leave_content, leave_origin};
    use crate::target::Target;

    fn request(pairs: &[(&'static str, &'static str)]) -> FetchRequest {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        FetchRequest {
            url: String::new(),
            method: Method::Post,
            headers: pairs.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            body: Bytes::from_static(b"four"),
            timeout_ms: 1,
            is_insecure: false,
        }
    }

    #[test]
    fn headers_that_frame_a_message_are_the_servers() {
        let target = Target::parse("http://Example.com:8080/").unwrap();
        for (name, value, wanted) in [
            ("X-Any", "a\tb", ""),
            ("Host", "example.com:8080", ""),
            ("Content-Length", "4", ""),
            ("Authorization", "Bearer x", ""),
            ("Host", "example.com", "made from the URL"),
            ("Host", "evil", "made from the URL"),
            ("Content-Length", "5", "counted by the server"),
            ("Content-Length", "+4", "counted by the server"),
            ("content-length", "4, 4", "counted by the server"),
            ("Transfer-Encoding", "chunked", "the connection's"),
            ("TRANSFER-ENCODING", "identity", "the connection's"),
            ("transfer_encoding", "chunked", "the connection's"),
            ("Proxy_Connection", "x", "the connection's"),
            ("Content_Length", "5", "counted by the server"),
            ("X_Any", "a", ""),
            ("Connection", "close", "the connection's"),
            ("Upgrade", "websocket", "the connection's"),
            ("Expect", "100-continue", "the connection's"),
            ("Proxy-Authorization", "x", "the connection's"),
            ("X-A", "b\r\nX-B: c", "line break"),
            ("X-A", "b\nX-B: c", "line break"),
            ("X-A", "b\0", "line break"),
            ("X-A\r\nX-B", "c", "no name of a header"),
            ("X A", "c", "no name of a header"),
            ("X-A:", "c", "no name of a header"),
            ("", "c", "no name of a header"),
        ] {
            let told = match headers(&request(&[(name, value)]), &target) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            assert!(
                told.contains(wanted) && told.is_empty() == wanted.is_empty(),
                "{name}: {told}"
            );
        }
        let many: Vec<_> = (0..65).map(|_| ("X-A", "b")).collect();
        assert!(headers(&request(&many), &target).is_err());
    }

    #[test]
    fn keys_stay_at_home() {
        let pairs = [
            ("Authorization", "a"),
            ("Cookie", "b"),
            ("X-Api-Key", "c"),
            ("Accept", "d"),
            ("Content-Type", "e"),
        ];
        let target = Target::parse("http://a/").unwrap();
        let mut left = headers(&request(&pairs), &target).unwrap();
        leave_origin(&mut left);
        let names = |left: &hyper::HeaderMap| {
            let mut names: Vec<String> = left.keys().map(|name| name.to_string()).collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(names(&left), "accept content-type user-agent");
        leave_content(&mut left);
        assert_eq!(names(&left), "accept user-agent");
    }

    #[test]
    fn names_are_shown_as_in_nakama() {
        assert_eq!(canonical(&HeaderName::from_static("x-request-id")), "X-Request-Id");
    }
}
