//! Responses as a server sends them, written straight into the output buffer: no formatting
//! machinery, no intermediate strings.

use super::Request;

/// What a response says about the connection's future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Stays open, as HTTP/1.1 assumes; nothing is said.
    KeepAlive,
    /// Stays open, and says so: HTTP/1.0 clients assume otherwise.
    KeepAliveSaid,
    /// Is closed after this response.
    Close,
}

impl Connection {
    /// What `request` asked for.
    #[must_use]
    pub fn asked_by(request: &Request<'_>) -> Self {
        match (request.keep_alive, request.version_1_0) {
            (false, _) => Self::Close,
            (true, false) => Self::KeepAlive,
            (true, true) => Self::KeepAliveSaid,
        }
    }
}

/// All of a response but its body.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// 100–599.
    pub status: u16,
    /// The `Content-Type`; empty for none.
    pub content_type: &'a str,
    /// Further header lines, each with its line end, as [`write_header`] writes them.
    pub extra: &'a [u8],
    /// The connection's future.
    pub connection: Connection,
    /// The answer to HEAD: all headers, no body.
    pub head_only: bool,
}

impl ResponseHead<'_> {
    /// A head with nothing out of the ordinary.
    #[must_use]
    pub const fn new(status: u16, content_type: &str, connection: Connection) -> ResponseHead<'_> {
        ResponseHead { status, content_type, extra: &[], connection, head_only: false }
    }
}

/// Appends a response to `out`. `date` is [`super::date`]'s text, which the caller renews once a
/// second. Statuses 1xx, 204 and 304 are sent without body and length.
pub fn respond(out: &mut Vec<u8>, head: &ResponseHead<'_>, body: &[u8], date: &[u8; 29]) {
    out.reserve(body.len());
    if respond_head(out, head, body.len(), date) {
        out.extend_from_slice(body);
    }
}

/// Appends all of a response but its body, for a body of `body_bytes` that is sent by itself;
/// tells whether it is to be sent.
pub fn respond_head(
    out: &mut Vec<u8>,
    head: &ResponseHead<'_>,
    body_bytes: usize,
    date: &[u8; 29],
) -> bool {
    const OVERHEAD: usize = 192; // All fixed text of a response together.
    out.reserve(OVERHEAD + head.content_type.len() + head.extra.len());
    write_status_line(out, head.status);
    out.extend_from_slice(b"Server: throng\r\nDate: ");
    out.extend_from_slice(date);
    if !head.content_type.is_empty() {
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(head.content_type.as_bytes());
    }
    let has_body = head.status >= 200 && head.status != 204 && head.status != 304;
    if has_body {
        out.extend_from_slice(b"\r\nContent-Length: ");
        out.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
    }
    out.extend_from_slice(match head.connection {
        Connection::KeepAlive => b"\r\n",
        Connection::KeepAliveSaid => b"\r\nConnection: keep-alive\r\n",
        Connection::Close => b"\r\nConnection: close\r\n",
    });
    out.extend_from_slice(head.extra);
    out.extend_from_slice(b"\r\n");
    has_body && !head.head_only
}

/// Appends `name: value` and a line end. Control characters in either become spaces, so that no
/// value can begin another header.
pub fn write_header(out: &mut Vec<u8>, name: &str, value: &str) {
    let clean = |byte: u8| if byte < b' ' || byte == 0x7f { b' ' } else { byte };
    out.extend(name.bytes().map(clean));
    out.extend_from_slice(b": ");
    out.extend(value.bytes().map(clean));
    out.extend_from_slice(b"\r\n");
}

/// Appends `HTTP/1.1 200 OK` and a line end.
pub(crate) fn write_status_line(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status.clamp(100, 999)).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The standard phrase of a status; empty for one that has none here.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nakama::api::Code;

    #[test]
    fn every_status_that_is_answered_has_a_phrase() {
        let of_codes = (0..17).filter_map(Code::from_number).map(Code::http_status);
        let others = [
            100, 101, 201, 202, 204, 301, 302, 304, 405, 408, 413, 414, 415, 417, 426, 431, 502,
            505,
        ];
        for status in of_codes.chain(others) {
            assert!(!reason(status).is_empty(), "{status}");
        }
        assert_eq!(reason(299), "");
    }

    #[test]
    fn statuses_without_a_body_are_sent_without_one() {
        for (status, has_body) in
            [(101, false), (199, false), (200, true), (204, false), (304, false), (305, true)]
        {
            let head = ResponseHead::new(status, "", Connection::KeepAlive);
            let mut out = Vec::new();
            assert_eq!(
                respond_head(&mut out, &head, 7, b"Sun, 06 Nov 1994 08:49:37 GMT"),
                has_body
            );
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.contains("Content-Length: 7\r\n"), has_body, "{text}");
        }
    }

    #[test]
    fn no_control_character_gets_into_a_header() {
        let mut out = Vec::new();
        write_header(&mut out, "X\0Y", "a\tb\x1fc d\x7fe\x7e\u{e9}");
        assert_eq!(out, "X Y: a b c d e\x7e\u{e9}\r\n".as_bytes());
    }
}
