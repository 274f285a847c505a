//! The client's side: requests out, responses in. For the load generator and for calls that
//! scripts make.
//!
//! In: whatever the socket delivers. Out: one [`Response`] after the other. Redirects, cookies
//! and compression are the caller's.

use super::assembly::{Assembly, Body, Framing, Head, body_length};
use super::parts::ResponseParts;
use super::{Headers, HttpError, Limits, head, scan};

/// All of a request but its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// Path and query, percent-encoded, beginning with `/`.
    pub target: &'a str,
    /// The `Host` header: name, and port unless 80.
    pub host: &'a str,
    /// Further header lines, each with its line end, as [`super::write_header`] writes them.
    pub extra: &'a [u8],
}

/// Appends a request to `out`. A length is sent with a body, and with every POST and PUT.
pub fn request(out: &mut Vec<u8>, head: &RequestHead<'_>, body: &[u8]) {
    out.reserve(64 + head.target.len() + head.host.len() + head.extra.len() + body.len());
    out.extend_from_slice(head.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(head.host.as_bytes());
    out.extend_from_slice(b"\r\n");
    if !body.is_empty() || matches!(head.method, "POST" | "PUT" | "PATCH") {
        out.extend_from_slice(b"Content-Length: ");
        out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(head.extra);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

/// One response, lent until the decoder is called again.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// 100–999. Interim responses (1xx) are handed out like others; after 101 the connection
    /// speaks another protocol.
    pub status: u16,
    /// HTTP/1.0; else HTTP/1.1.
    pub version_1_0: bool,
    /// Whether another request may be sent on the connection.
    pub keep_alive: bool,
    /// All headers.
    pub headers: Headers<'a>,
    /// The whole body, without chunk framing.
    pub body: &'a [u8],
}

impl<'a> Response<'a> {
    /// The value of the first header `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.get(name)
    }
}

/// Takes responses out of the bytes of one connection; memory as in [`super::Decoder`].
#[derive(Debug)]
pub struct ResponseDecoder {
    assembly: Assembly<ResponseParts>,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseDecoder {
    /// A decoder at the beginning of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { assembly: Assembly::new() }
    }

    /// Takes the next response from the front of `input`, like [`super::Decoder::next`].
    /// `to_head` says that it answers a HEAD request, so that no body follows.
    ///
    /// # Errors
    /// What is wrong with the response; again at every further call.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        limits: &Limits,
        to_head: bool,
    ) -> Result<Option<Response<'a>>, HttpError> {
        self.assembly.begin()?;
        if self.assembly.is_idle() {
            match whole(input, limits, to_head) {
                Ok(None) => {}
                Ok(Some(Front::Whole(response, used))) => {
                    *input = &input[used..];
                    self.assembly.message_lent();
                    return Ok(Some(response));
                }
                Ok(Some(Front::Head(head))) => {
                    let begun = self.assembly.begin_body(input, head, limits);
                    begun.map_err(|error| self.assembly.fail(error))?;
                }
                Err(error) => return Err(self.assembly.fail(error)),
            }
        }
        let read = |bytes: &[u8]| ResponseParts::read(bytes, limits, to_head);
        let body = match self.assembly.feed(input, limits, read) {
            Ok(None) => return Ok(None),
            Ok(Some(body)) => body,
            Err(error) => return Err(self.assembly.fail(error)),
        };
        Ok(self.assembled(body))
    }

    /// The peer has closed: hands out a response whose body lasted until then.
    ///
    /// # Errors
    /// [`HttpError::Truncated`] when the peer closed within a response that has an end of its own.
    pub fn finish(&mut self) -> Result<Option<Response<'_>>, HttpError> {
        self.assembly.begin()?;
        if self.assembly.is_idle() {
            return Ok(None);
        }
        if !self.assembly.end() {
            return Err(self.assembly.fail(HttpError::Truncated));
        }
        Ok(self.assembled(Body::Kept))
    }

    fn assembled<'a, 'i: 'a>(&'a self, body: Body<'i>) -> Option<Response<'a>> {
        self.assembly.parts().map(|(parts, head, kept)| match body {
            Body::Lent(lent) => parts.response(head, lent),
            Body::Kept => parts.response(head, kept),
        })
    }
}

/// What lies at the front of an input.
enum Front<'i> {
    /// A response, and its length with its body.
    Whole(Response<'i>, usize),
    /// A response's head, whose body is not whole or says its end itself.
    Head(Head<ResponseParts>),
}

/// The fast path, as for requests.
fn whole<'i>(
    input: &&'i [u8],
    limits: &Limits,
    to_head: bool,
) -> Result<Option<Front<'i>>, HttpError> {
    let bytes: &'i [u8] = input;
    if !bytes.first().is_some_and(|&byte| scan::is_token(byte)) {
        return Ok(None);
    }
    let Ok(Some((mut response, len, framing))) = head::response(bytes, limits, to_head) else {
        return Ok(None);
    };
    if len > limits.head_bytes_max {
        return Ok(None);
    }
    if let Framing::Length(length) = framing {
        let length = body_length(length, limits)?;
        if let Some(body) = bytes[len..].get(..length) {
            response.body = body;
            return Ok(Some(Front::Whole(response, len + length)));
        }
    }
    Ok(Some(Front::Head(ResponseParts::head(&response, bytes, len, framing))))
}
