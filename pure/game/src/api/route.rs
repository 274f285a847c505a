//! From a request's method, target and body to what is wanted, by the table of calls. Known paths
//! whose features are not built are told apart from unknown ones.
//!
//! Source: Nakama 3.40, `server/api.go`; gRPC-gateway for what fits a path.

use std::borrow::Cow;

use smallvec::SmallVec;
use wire::http1::Target;
use wire::query::{QueryString, decode_path};

use super::call::{HttpRoute, Parts};
use super::rpc::RpcCall;
use super::table::{ApiCall, CallId, ROUTES};
use crate::error::{ApiError, Code};
use crate::pairs::Pairs;

/// What a request wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// `GET /`: 200, no body.
    Root,
    /// `GET /healthcheck`: 200 and `{}`.
    Healthcheck,
    /// `GET /ws`: the WebSocket; its parameters are the server's matter.
    Socket,
    /// `POST /v2/runtime/reload`: the modules are to be loaded again. Nakama has no such path.
    Reload,
    /// An RPC function.
    Rpc(RpcCall),
    /// A call of the REST API.
    Api(ApiCall),
}

/// Finds out what a request wants. `target` is path and query as they came, still encoded: a
/// [`Target`], or both in one text.
///
/// # Errors
/// [`ApiError`]: code 5 for unknown paths, 12 for wrong methods and for features that are not
/// built, 3 for what cannot be decoded.
pub fn route<'a>(
    method: &str,
    target: impl Into<Target<'a>>,
    body: &[u8],
) -> Result<Route, ApiError> {
    let Target { path, query } = target.into();
    if let Some(id) = path.strip_prefix("/v2/rpc/") {
        return rpc(method, id, query);
    }
    if let Some(route) = special(method, path)? {
        return Ok(route);
    }
    let segments;
    let mut fields = Fields::new();
    // Most paths are written as they stand in the table.
    let id = match find_exact(method, path) {
        Some(id) => id,
        None => {
            segments = split(path)?;
            find_matching(method, &segments, &mut fields)?
        }
    };
    let query = QueryString::parse(query)?;
    ApiCall::read(id, &Parts { query, path: &fields, body }).map(Route::Api)
}

/// What is no call.
fn special(method: &str, path: &str) -> Result<Option<Route>, ApiError> {
    let (methods, route): (&[&str], _) = match path {
        "/" => (&["GET", "HEAD"], Route::Root),
        "/healthcheck" => (&["GET", "HEAD"], Route::Healthcheck),
        "/ws" => (&["GET"], Route::Socket),
        "/v2/runtime/reload" => (&["POST"], Route::Reload),
        _ => return Ok(None),
    };
    if methods.contains(&method) { Ok(Some(route)) } else { Err(method_not_allowed()) }
}

/// The fields of a request that its path has.
type Fields<'a> = SmallVec<[(&'static str, &'a str); 2]>;

fn find_exact(method: &str, path: &str) -> Option<CallId> {
    // Patterns have braces: a path that looks like one is none of them.
    if path.contains('{') {
        return None;
    }
    let is_it = |route: &HttpRoute| route.path == path && route.method == method;
    ROUTES.iter().find(|(route, _)| is_it(route)).map(|(_, id)| *id)
}

/// The call whose path fits these segments, some of which are fields of the request.
fn find_matching<'a>(
    method: &str,
    segments: &'a [Cow<'a, str>],
    fields: &mut Fields<'a>,
) -> Result<CallId, ApiError> {
    let mut is_known = false;
    for (route, id) in ROUTES {
        fields.clear();
        if !fits(route.path, segments, fields) {
            continue;
        }
        if route.method == method {
            return Ok(*id);
        }
        is_known = true;
    }
    Err(if is_known { method_not_allowed() } else { not_found() })
}

/// Whether a path of the table fits; the segments in braces go to `fields`.
fn fits<'a>(pattern: &'static str, segments: &'a [Cow<'a, str>], fields: &mut Fields<'a>) -> bool {
    let mut parts = pattern.split('/').skip(1);
    for segment in segments {
        let Some(part) = parts.next() else { return false };
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(field) => fields.push((field, segment)),
            None if part == segment => {}
            None => return false,
        }
    }
    parts.next().is_none()
}

/// No route has more segments.
const SEGMENTS_MAX: usize = 5;

/// The segments of a path, percent-decoded, without the leading slash.
fn split(path: &str) -> Result<SmallVec<[Cow<'_, str>; SEGMENTS_MAX]>, ApiError> {
    let path = path.strip_prefix('/').ok_or_else(not_found)?;
    if path.bytes().filter(|byte| *byte == b'/').count() >= SEGMENTS_MAX {
        return Err(not_found());
    }
    path.split('/').map(decode_segment).collect()
}

fn decode_segment(segment: &str) -> Result<Cow<'_, str>, ApiError> {
    decode_path(segment).map_err(|_| ApiError::invalid("Bad Request"))
}

/// Code 12 for a feature of the protocol that throng lacks.
pub(super) fn not_built(feature: &str) -> ApiError {
    ApiError::new(Code::Unimplemented, format!("{feature} not implemented in throng yet"))
}

fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "Not Found")
}

fn method_not_allowed() -> ApiError {
    ApiError::new(Code::Unimplemented, "Method Not Allowed")
}

fn rpc(method: &str, id: &str, query: &str) -> Result<Route, ApiError> {
    if !matches!(method, "GET" | "POST") {
        return Err(method_not_allowed());
    }
    let mut query_params = Pairs::default();
    let mut http_key = None;
    for (name, value) in QueryString::parse(query)?.iter() {
        if name == "http_key" {
            http_key.get_or_insert(value.into_owned());
        } else {
            query_params.push(name.as_bytes(), value.as_bytes());
        }
    }
    Ok(Route::Rpc(RpcCall {
        id: decode_segment(id)?.to_lowercase(),
        http_key,
        unwrap: query_params.first(b"unwrap").is_some(),
        is_get: method == "GET",
        query_params,
    }))
}

#[cfg(test)]
mod tests;
