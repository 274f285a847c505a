//! Requests as a server receives them.
//!
//! In: whatever the socket delivers. Out: one [`Request`] after the other, lent from the input
//! when it lay there whole, else from what was kept. Bytes behind a request stay in the input: the
//! next request, or WebSocket frames after an upgrade.

use super::assembly::{Assembly, Body, Framing, Head, body_length};
use super::parts::RequestParts;
use super::{Coding, Headers, HttpError, Limits, Target, head, scan};

/// What a request says about turning its connection into a WebSocket; present when its `Upgrade`
/// header names `websocket`. [`crate::websocket::accept`] judges it.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade<'a> {
    /// Whether the `Connection` header names `upgrade`, as it must.
    pub is_connection_option: bool,
    /// `Sec-WebSocket-Key`; empty when given more than once.
    pub key: Option<&'a [u8]>,
    /// `Sec-WebSocket-Version`; empty when given more than once.
    pub version: Option<&'a [u8]>,
}

/// One request, lent until the decoder is called again.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method as sent; any token, for the caller to know or not.
    pub method: &'a str,
    /// Path and query.
    pub target: Target<'a>,
    /// HTTP/1.0; else HTTP/1.1.
    pub version_1_0: bool,
    /// Whether the connection stays open after the answer.
    pub keep_alive: bool,
    /// Set when a WebSocket is asked for.
    pub upgrade: Option<Upgrade<'a>>,
    /// The client announced that it waits for `100 Continue` before the body.
    pub expect_continue: bool,
    /// All headers, also those that are evaluated here.
    pub headers: Headers<'a>,
    /// How the body is encoded; [`super::content`] undoes it.
    pub coding: Coding,
    /// Whether the answer may be in gzip.
    pub accepts_gzip: bool,
    /// The whole body, without chunk framing; empty when there was none.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The value of the first header `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.get(name)
    }
}

/// Takes requests out of the bytes of one connection. Between requests it owns no heap memory;
/// within one, at most [`Limits::head_bytes_max`] + [`Limits::body_bytes_max`] (and what `Vec`
/// reserves ahead).
#[derive(Debug)]
pub struct Decoder {
    assembly: Assembly<RequestParts>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { assembly: Assembly::new() }
    }

    /// Takes the next request from the front of `input`. `None` when there is none yet: then the
    /// whole input was consumed and what is unfinished is kept. Call until `None`, also because
    /// that call frees what the last request was lent from. `limits` should not change within a
    /// request.
    ///
    /// # Errors
    /// What is wrong with the request; again at every further call. Answer with its status and
    /// close.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
        limits: &Limits,
    ) -> Result<Option<Request<'a>>, HttpError> {
        self.assembly.begin()?;
        if self.assembly.is_idle() {
            match whole(input, limits) {
                Ok(None) => {}
                Ok(Some(Front::Whole(request, used))) => {
                    *input = &input[used..];
                    self.assembly.message_lent();
                    return Ok(Some(request));
                }
                Ok(Some(Front::Head(head))) => {
                    let begun = self.assembly.begin_body(input, head, limits);
                    begun.map_err(|error| self.assembly.fail(error))?;
                }
                Err(error) => return Err(self.assembly.fail(error)),
            }
        }
        let read = |bytes: &[u8]| RequestParts::read(bytes, limits);
        let body = match self.assembly.feed(input, limits, read) {
            Ok(None) => return Ok(None),
            Ok(Some(body)) => body,
            Err(error) => return Err(self.assembly.fail(error)),
        };
        Ok(self.assembly.parts().map(|(parts, head, kept)| match body {
            Body::Lent(lent) => parts.request(head, lent),
            Body::Kept => parts.request(head, kept),
        }))
    }

    /// Whether a client now waits for `HTTP/1.1 100 Continue` before it sends the body of its
    /// request; says so once a request. Ask after [`Self::next`] returned `None`.
    pub fn wants_continue(&mut self) -> bool {
        self.assembly.take_expects()
    }

    /// Whether nothing of a request has come: the connection is idle, not slow.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.assembly.is_idle()
    }
}

/// What lies at the front of an input.
enum Front<'i> {
    /// A request, and its length with its body.
    Whole(Request<'i>, usize),
    /// A request's head, whose body is not whole or comes in chunks.
    Head(Head<RequestParts>),
}

/// The fast path: a complete head at the front of `input`, and the body with it if that lies there
/// whole. `None` leaves it to the assembly, which also gives every error that depends on more than
/// a complete head, so that the same bytes fail alike however they are split.
fn whole<'i>(input: &&'i [u8], limits: &Limits) -> Result<Option<Front<'i>>, HttpError> {
    let bytes: &'i [u8] = input;
    if !bytes.first().is_some_and(|&byte| scan::is_token(byte)) {
        return Ok(None);
    }
    let Ok(Some((mut request, len, framing))) = head::request(bytes, limits) else {
        return Ok(None);
    };
    if len > limits.head_bytes_max {
        return Ok(None);
    }
    if let Framing::Length(length) = framing {
        let length = body_length(length, limits)?;
        if let Some(body) = bytes[len..].get(..length) {
            request.body = body;
            return Ok(Some(Front::Whole(request, len + length)));
        }
    }
    Ok(Some(Front::Head(RequestParts::head(&request, bytes, len, framing))))
}
