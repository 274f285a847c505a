//! How a call of the REST API is declared: one row, from which follow its variant of
//! [`super::ApiCall`], its routes, what it needs to show, where it runs, what hooks see of it, its
//! metrics' name and its part of `docs/api.md`. The rows are in [`super::table`].
//!
//! Not here: reading requests (`route`), the functions that rows name (a file for each feature).

use std::borrow::Cow;

use wire::nakama::api::{BadBody, decode, decode_field, decode_protobuf, encode};
use wire::nakama::{Format, MessageInfo, ProtoMessage};
use wire::query::QueryString;

use super::run::Cx;
use crate::error::ApiError;
use crate::host::json;
use crate::value::Value;

pub use wire::nakama::json::Style;

/// What a call needs to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The server key: [`super::auth::server_key`].
    ServerKey,
    /// A session token: [`super::auth::bearer`].
    Bearer,
}

/// Where a call runs, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallLane {
    /// In memory, where a replica of the directory is at hand: no database.
    Core,
    /// Queries of the database; nothing is changed.
    Read,
    /// Changes the database, in the transaction of a batch.
    Write,
    /// Hashes a password: tens of milliseconds, to be run without an open transaction.
    Slow,
}

/// What a request's body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing: all fields are in the query.
    None,
    /// The whole message; the query counts for nothing.
    Whole,
    /// This field of the message; the others are in the query.
    Field(&'static str),
}

/// A method and a path. Names in braces are fields of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    /// In capitals.
    pub method: &'static str,
    /// As in `/v2/storage/{collection}/{user_id}`.
    pub path: &'static str,
}

/// One call of Nakama's API.
#[derive(Clone, Copy, Debug)]
pub struct CallRow {
    /// As hooks and metrics have it.
    pub name: &'static str,
    /// The chapter of the reference; for a call that is not built, what is missing and "is" or
    /// "are", as in `groups are`.
    pub area: &'static str,
    /// How it is asked for over HTTP.
    pub routes: &'static [HttpRoute],
    /// What there is to know of a call that is built.
    pub built: Option<Built>,
}

/// The part of a row that only calls have that are built.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// What it does: sentences of Markdown.
    pub doc: &'static str,
    /// What a request's body holds.
    pub body: Body,
    /// What a caller has to show.
    pub auth: Auth,
    /// Where it runs.
    pub lane: CallLane,
    /// Whether its answer can be large: then it waits, or is refused, while clients have too much
    /// unsent. None of these changes anything.
    pub is_large: bool,
    /// What is asked.
    pub request: &'static MessageInfo,
    /// What is answered.
    pub response: &'static MessageInfo,
}

/// What a request holds, before it is a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) query: QueryString<'a>,
    /// The fields that the path has, decoded.
    pub(super) path: &'a [(&'static str, &'a str)],
    pub(super) body: &'a [u8],
}

impl Parts<'_> {
    /// The request message.
    pub(super) fn read<T: ProtoMessage>(&self, body: Body) -> Result<T, ApiError> {
        let mut message = match body {
            Body::Whole => decode(self.body)?,
            Body::None | Body::Field(_) => T::default(),
        };
        if let Body::Field(name) = body {
            decode_field(&mut message, name, self.body)?;
        }
        if body != Body::Whole {
            message.read_query(self.query)?;
        }
        for (name, text) in self.path {
            message.set_text(name, text);
        }
        Ok(message)
    }
}

/// What a client is told when a before-hook returned something that is no request.
pub(super) const NO_REQUEST: &str = "Could not complete runtime Before function.";

/// A message as hooks see it, in JSON.
pub(super) fn form<T: ProtoMessage>(message: &T, style: Style) -> Vec<u8> {
    let mut json = Vec::with_capacity(256);
    message.write_json(&mut json, style);
    json
}

/// A request in protobuf, as it comes over gRPC.
///
/// # Errors
/// [`ApiError`] with the code and words of gRPC's library for Go (`processUnaryRPC` in `server.go`), which
/// reads it before Nakama sees it: code 13, where JSON that cannot be read is code 3.
pub fn message<T: ProtoMessage>(bytes: &[u8]) -> Result<T, ApiError> {
    decode_protobuf(bytes).map_err(|error| {
        ApiError::internal(format!("grpc: error unmarshalling request: {}", error.0))
    })
}

/// The request that a before-hook returned in place of `old`.
pub(super) fn reformed<T: ProtoMessage>(old: &T, form: &Value) -> Result<T, ApiError> {
    // Without fields there is nothing to return; what a hook does return does not matter.
    if T::INFO.fields.is_empty() {
        return Ok(old.clone());
    }
    let no_request = || ApiError::internal(NO_REQUEST);
    if !matches!(form, Value::Map(_)) {
        return Err(no_request());
    }
    let json = json::encode(form).map_err(|_| no_request())?;
    // A hook's mistake is our side's, not the client's.
    decode(&json).map_err(|_: BadBody| no_request())
}

/// An answer as hooks see it, in JSON: what a client gets, unless nothing may be left out.
pub(super) fn answer_form<T: ProtoMessage>(
    body: &[u8],
    format: Format,
    style: Style,
) -> Cow<'_, [u8]> {
    let message = match format {
        Format::Json if style == Style::SNAKE => return Cow::Borrowed(body),
        Format::Json => decode::<T>(body),
        Format::Protobuf => decode_protobuf(body),
    };
    match message {
        Ok(message) => Cow::Owned(form(&message, style)),
        // Cannot be: it is an answer of our own.
        Err(_) => Cow::Borrowed(body),
    }
}

/// Runs a call's function and encodes what it gives.
pub(super) fn answered<Q, T: ProtoMessage>(
    cx: &mut Cx<'_>,
    request: &Q,
    function: impl Fn(&mut Cx<'_>, &Q) -> Result<T, ApiError>,
) -> Result<Vec<u8>, ApiError> {
    let message = function(cx, request)?;
    let mut body = Vec::with_capacity(512);
    encode(&mut body, &message, cx.format);
    Ok(body)
}

macro_rules! body {
    () => {
        $crate::api::call::Body::None
    };
    (*) => {
        $crate::api::call::Body::Whole
    };
    ($field:ident) => {
        $crate::api::call::Body::Field(stringify!($field))
    };
}

macro_rules! is_large {
    (large $($rest:tt)*) => {
        true
    };
    ($($rest:tt)*) => {
        false
    };
}

macro_rules! rows {
    ($request:ident $(large)? $(,)?) => {
        1
    };
    ($request:ident large, rows $count:path) => {
        $count($request)
    };
    ($request:ident rows $count:path) => {
        $count($request)
    };
}

/// Declares all calls; see `super::table`.
macro_rules! calls {
    (
        built {
            $(
                $area:literal {
                    $(
                        $(#[doc = $doc:literal])+
                        $name:ident [ $( $method:ident $path:literal ),+ ] body($($body:tt)*)
                            $auth:ident $lane:ident $request:ident => $response:ident,
                            $function:path $({ $($options:tt)* })?;
                    )+
                }
            )+
        }
        not_built {
            $(
                $missing:literal {
                    $( $other:ident [ $( $other_method:ident $other_path:literal ),+ ]; )+
                }
            )+
        }
    ) => {
        /// Every call of Nakama's API, as a place in [`ROWS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the rows say what they do")]
        pub enum CallId {
            $( $( $name, )+ )+
            $( $( $other, )+ )+
        }

        /// One call of the REST API that is built, with its request.
        #[derive(Clone, PartialEq)]
        #[expect(missing_docs, reason = "the rows say what they do")]
        pub enum ApiCall {
            $( $( $name($request), )+ )+
        }

        /// Every call: those that are built, then the others.
        pub static ROWS: &[CallRow] = &[
            $( $( CallRow {
                name: stringify!($name),
                area: $area,
                routes: &[$( HttpRoute { method: stringify!($method), path: $path } ),+],
                built: Some(Built {
                    doc: concat!($($doc),+),
                    body: body!($($body)*),
                    auth: Auth::$auth,
                    lane: CallLane::$lane,
                    is_large: is_large!($( $($options)* )?),
                    request: &<$request as wire::nakama::ProtoMessage>::INFO,
                    response: &<$response as wire::nakama::ProtoMessage>::INFO,
                }),
            }, )+ )+
            $( $( CallRow {
                name: stringify!($other),
                area: $missing,
                routes: &[
                    $( HttpRoute { method: stringify!($other_method), path: $other_path } ),+
                ],
                built: None,
            }, )+ )+
        ];

        /// All routes with their calls, in one place: a request is looked up in it.
        pub(super) static ROUTES: &[(HttpRoute, CallId)] = &[
            $( $( $( (
                HttpRoute { method: stringify!($method), path: $path }, CallId::$name
            ), )+ )+ )+
            $( $( $( (
                HttpRoute { method: stringify!($other_method), path: $other_path }, CallId::$other
            ), )+ )+ )+
        ];

        /// The names of the calls that are built.
        pub const BUILT: &[&str] = &[$( $( stringify!($name), )+ )+];

        /// The names of Nakama's calls that throng has not got yet.
        pub const NOT_BUILT: &[&str] = &[$( $( stringify!($other), )+ )+];

        impl ApiCall {
            /// Its place in [`ROWS`].
            pub fn id(&self) -> CallId {
                match self {
                    $( $( Self::$name(_) => CallId::$name, )+ )+
                }
            }

            /// Reads the request of the call `id`.
            pub(super) fn read(id: CallId, parts: &Parts<'_>) -> Result<Self, ApiError> {
                match id {
                    $( $( CallId::$name => Ok(Self::$name(parts.read(body!($($body)*))?)), )+ )+
                    $( $( CallId::$other )|+ => Err(not_built($missing)), )+
                }
            }

            /// Reads the request of the call `id` from its message in protobuf, as gRPC has it.
            ///
            /// # Errors
            /// [`ApiError`]: code 13 for what is no such message, code 12, with the call's name, for
            /// calls that are not built.
            pub fn decode(id: CallId, bytes: &[u8]) -> Result<Self, ApiError> {
                match id {
                    $( $( CallId::$name => Ok(Self::$name(message(bytes)?)), )+ )+
                    $( $( CallId::$other => Err(not_built(
                        concat!(stringify!($other), ": ", $missing)
                    )), )+ )+
                }
            }

            /// Runs it; the answer's body in the format that [`Cx::format`] asks for.
            pub(super) fn run(&self, cx: &mut Cx<'_>) -> Result<Vec<u8>, ApiError> {
                match self {
                    $( $( Self::$name(request) => answered(cx, request, $function), )+ )+
                }
            }

            /// About how much work it is for the database, in rows: those that it names, and one
            /// for each KiB of what it writes.
            pub fn weight_rows(&self) -> usize {
                match self {
                    $( $( Self::$name(_request) => rows!(_request $( $($options)* )?), )+ )+
                }
            }

            /// The request as before- and after-hooks see it: an object in JSON, empty for calls
            /// without a request.
            pub fn form(&self, style: Style) -> Vec<u8> {
                match self {
                    $( $( Self::$name(request) => form(request, style), )+ )+
                }
            }

            /// The same call with the request that a before-hook returned.
            ///
            /// # Errors
            /// [`ApiError`] with code 13 when that is no such request.
            pub fn reformed(&self, returned: &Value) -> Result<Self, ApiError> {
                Ok(match self {
                    $( $( Self::$name(old) => Self::$name(reformed(old, returned)?), )+ )+
                })
            }

            /// Its answer as after-hooks see it, in JSON; `body` is that of the answer.
            pub fn answer_form<'a>(
                &self,
                body: &'a [u8],
                format: Format,
                style: Style,
            ) -> Cow<'a, [u8]> {
                match self {
                    $( $( Self::$name(_) => answer_form::<$response>(body, format, style), )+ )+
                }
            }
        }

        impl CallId {
            /// The call of this name.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $( $( stringify!($name) => Some(Self::$name), )+ )+
                    $( $( stringify!($other) => Some(Self::$other), )+ )+
                    _ => None,
                }
            }
        }
    };
}

pub(super) use {body, calls, is_large, rows};

#[cfg(test)]
mod tests;
