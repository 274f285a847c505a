//! Requests as a server receives them.
//!
//! In: whatever the socket delivers. Out: one [`Request`] after the other, lent from the input
//! when it lay there whole, else from what was kept. Bytes behind a request stay in the input: the
//! next request, or WebSocket frames after an upgrade.

use super::assembly::{Assembly, Body, Framing, body_length};
use super::{Headers, HttpError, Limits, head};

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
    /// Path and query as sent, not decoded, ASCII, beginning with `/`; or `*` of OPTIONS.
    pub target: &'a str,
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
    /// The whole body, without chunk framing; empty when there was none.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The value of the first header `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.get(name)
    }

    /// The path of the target, not decoded.
    #[must_use]
    pub fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// The query of the target without its `?`, not decoded; empty when there is none.
    #[must_use]
    pub fn query(&self) -> &'a str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// Takes requests out of the bytes of one connection. Between requests it owns no heap memory;
/// within one, at most [`Limits::head_bytes_max`] + [`Limits::body_bytes_max`] (and what `Vec`
/// reserves ahead).
#[derive(Debug)]
pub struct Decoder {
    assembly: Assembly,
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
                Ok(Some((request, used))) => {
                    *input = &input[used..];
                    self.assembly.message_lent();
                    return Ok(Some(request));
                }
                Err(error) => return Err(self.assembly.fail(error)),
            }
        }
        let plan = |bytes: &[u8]| {
            let (request, _, framing) = head::request(bytes, limits)?.ok_or(HttpError::Header)?;
            Ok((framing, request.expect_continue))
        };
        let body = match self.assembly.feed(input, limits, plan) {
            Ok(None) => return Ok(None),
            Ok(Some(body)) => body,
            Err(error) => return Err(self.assembly.fail(error)),
        };
        let (head_bytes, kept) = self.assembly.parts();
        let (mut request, ..) = head::request(head_bytes, limits)?.ok_or(HttpError::Header)?;
        request.body = match body {
            Body::Lent(lent) => lent,
            Body::Kept => kept,
        };
        Ok(Some(request))
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

/// The fast path: a request that lies in `input` whole, with its length used. `None` leaves it to
/// the assembly, which also gives every error that depends on more than a complete head, so that
/// the same bytes fail alike however they are split.
fn whole<'i>(input: &&'i [u8], limits: &Limits) -> Result<Option<(Request<'i>, usize)>, HttpError> {
    let bytes: &'i [u8] = input;
    if !bytes.first().is_some_and(|&byte| head::is_token(byte)) {
        return Ok(None);
    }
    let Ok(Some((mut request, head_len, Framing::Length(length)))) = head::request(bytes, limits)
    else {
        return Ok(None);
    };
    if head_len > limits.head_bytes_max {
        return Ok(None);
    }
    let length = body_length(length, limits)?;
    let Some(body) = bytes[head_len..].get(..length) else { return Ok(None) };
    request.body = body;
    Ok(Some((request, head_len + length)))
}
