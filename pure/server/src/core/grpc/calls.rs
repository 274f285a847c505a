//! What each call over gRPC leads to, and how it is answered: with a message in protobuf and the
//! status 0, or with the code and text that REST would answer with.
//!
//! Source: Nakama 3.40, `server/api.go`, `server/api_rpc.go`; grpc-go 1.82, `server.go`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::api::{ApiCall, CallId, auth};
use game::error::{ApiError, Code};
use game::guest::CallContext;
use game::pairs::Pairs;
use game::session::Claims;
use wire::grpc::{self, ACCEPTED, BadMessage, CONTENT_TYPE};
use wire::http2::{Answer, Fields, Request, Trouble};
use wire::nakama::api::{Rpc, decode_protobuf, encode};

use super::{Call, Grpc, HEAD_BYTES_MAX, ms};
use crate::core::Core;
use crate::core::access::Head;
use crate::core::answers::rpc_error;
use crate::core::http::Verified;
use crate::core::limits::Origin;
use crate::mail::{Format, Job, Mail, Outcome, RpcJob, Work};
use crate::stats::{Counted, Metered};

/// Fields of the metadata that are HTTP/2's and gRPC's own, which scripts do not see.
const OWN_FIELDS: &[&str] = &[":method", ":scheme", ":path", "te", "grpc-timeout", "grpc-encoding"];
/// What the metadata of query parameters begin with.
const QUERY_PREFIX: &[u8] = b"q_";

/// Why a call is not even begun.
enum Refusal {
    /// What came is no gRPC: a status of HTTP.
    Status(u16),
    Call(ApiError),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self::Call(error)
    }
}

impl From<BadMessage> for Refusal {
    fn from(error: BadMessage) -> Self {
        Self::Call(ApiError::new(error.code, error.text))
    }
}

impl Core {
    pub(super) fn grpc_request(
        &mut self,
        now: Now,
        conn: ConnId,
        grpc: &mut Grpc,
        request: &Request,
        out: &mut Output<Mail>,
    ) {
        grpc.heard = now;
        self.stats.overall_request_recv_bytes.add(request.body.len() as u64);
        if std::mem::take(&mut grpc.is_new) {
            self.look_for_proxy(now, grpc.peer, &request.fields);
        }
        let accepted = request.fields.get("grpc-accept-encoding");
        let takes_gzip = accepted.is_some_and(grpc::accepts_gzip);
        let mut call = Call { stream: request.stream, takes_gzip, metered: None };
        let begun = self.grpc_call(now, conn, grpc, (request, &mut call.metered), out);
        match begun {
            Ok(None) => grpc.calls.push(call),
            Ok(Some(message)) => self.grpc_answer(now, grpc, (&call, Ok(message)), out),
            Err(Refusal::Call(error)) => self.grpc_answer(now, grpc, (&call, Err(&error)), out),
            Err(Refusal::Status(status)) => {
                self.stats.refused_requests.up();
                self.count_response(now, None, (status, 0));
                let status = status.to_string();
                let head = &[(":status", status.as_bytes())][..];
                let answer = Answer { head, ..Answer::default() };
                grpc.connection.answer(ms(now), request.stream, &answer);
            }
        }
    }

    /// Hands a call to whoever does it, or gives the answer if that is known.
    fn grpc_call(
        &mut self,
        now: Now,
        conn: ConnId,
        grpc: &mut Grpc,
        (request, metered): (&Request, &mut Option<Metered>),
        out: &mut Output<Mail>,
    ) -> Result<Option<Bytes>, Refusal> {
        let origin = self.origin(&request.fields, grpc.peer);
        self.admit_address(origin)?;
        // After the limit per address, since unpacking costs as much as many requests.
        let read = self.grpc_message(request);
        let (name, message) = match read {
            Ok(read) => read,
            Err(Refusal::Call(error)) => {
                self.stats.refused_requests.up();
                return Err(error.into());
            }
            Err(status) => return Err(status),
        };
        if matches!(message, Cow::Owned(_)) {
            grpc.backlog.end_turn();
        }
        let meter =
            |call: Counted| Some(Metered { call, began: now, recv_bytes: request.body.len() });
        match name {
            "Healthcheck" => return Ok(Some(Bytes::new())),
            "RpcFunc" => {
                *metered = meter(Counted::RPC);
                self.grpc_rpc(now, conn, grpc, (request, &message, origin), out)?;
            }
            name => {
                let id = CallId::named(name).ok_or_else(|| unknown_method(name));
                let call = id.and_then(|id| ApiCall::decode(id, &message));
                let call = call.inspect_err(|_| self.stats.refused_requests.up())?;
                *metered = meter(call.id().into());
                let who = (grpc.peer, origin, &mut grpc.verified);
                let reply = (request.stream, Format::Protobuf);
                self.api(now, conn, who, (&request.fields, call, reply), out)?;
            }
        }
        Ok(None)
    }

    /// The method's name and its message.
    fn grpc_message<'a>(&self, request: &'a Request) -> Result<(&'a str, Cow<'a, [u8]>), Refusal> {
        let bytes_max = self.limits.body_bytes_max;
        if let Some(trouble) = request.trouble {
            return Err(Refusal::Call(self.grpc_trouble(trouble)));
        }
        let fields = &request.fields;
        if fields.get(":method") != Some(&b"POST"[..]) {
            return Err(Refusal::Status(405));
        }
        if !fields.get("content-type").is_some_and(grpc::is_grpc) {
            return Err(Refusal::Status(415));
        }
        let path = fields.get(":path").and_then(|path| std::str::from_utf8(path).ok());
        let name = path.and_then(grpc::method).ok_or_else(|| {
            ApiError::new(Code::Unimplemented, "unknown service; there is nakama.api.Nakama")
        })?;
        Ok((name, grpc::message(&request.body, fields.get("grpc-encoding"), bytes_max)?))
    }

    fn grpc_trouble(&self, trouble: Trouble) -> ApiError {
        let bytes_max = self.limits.body_bytes_max;
        let text = match trouble {
            Trouble::HeadTooLarge => format!("the metadata exceed {HEAD_BYTES_MAX} bytes"),
            Trouble::BodyTooLarge => format!(
                "grpc: received message larger than max ({bytes_max}, \
                 socket.max_request_size_bytes)"
            ),
        };
        ApiError::new(Code::ResourceExhausted, text)
    }

    fn grpc_rpc(
        &mut self,
        now: Now,
        conn: ConnId,
        grpc: &mut Grpc,
        (request, message, origin): (&Request, &[u8], Origin),
        out: &mut Output<Mail>,
    ) -> Result<(), ApiError> {
        let Grpc { peer, verified, .. } = grpc;
        let fields = &request.fields;
        let checked = self.grpc_rpc_caller(now, verified, (fields, message));
        let (rpc, caller) = checked.inspect_err(|_| self.stats.refused_requests.up())?;
        let group = self.admit_group(origin, verified, caller.as_deref())?;
        let (headers, query_params) = metadata(fields);
        let context = CallContext {
            headers,
            query_params,
            ..self.request_context("rpc", fields, (*peer, caller.as_deref()))
        };
        let payload = Bytes::from(rpc.payload);
        let work = Work::Rpc(Box::new(RpcJob { id: rpc.id.to_lowercase(), payload, context }));
        let (queue, address, client) = (work.queue(), self.address(conn), origin.client);
        let (stream, format) = (request.stream, Format::Protobuf);
        self.job(Job { queue, address, stream, format, work, caller, group, client }, out)
    }

    /// What an RPC asks for, and whose it is: nobody's with the HTTP key.
    fn grpc_rpc_caller(
        &self,
        now: Now,
        verified: &mut Option<Verified>,
        (fields, message): (&Fields, &[u8]),
    ) -> Result<(Rpc, Option<Arc<Claims>>), ApiError> {
        let rpc: Rpc = decode_protobuf(message)?;
        let key = &self.settings.runtime.http_key;
        let verify = |token: &str| self.session(now, verified, token);
        let caller = auth::grpc_rpc(fields.authorization(), &rpc.http_key, key, verify)?;
        if rpc.id.is_empty() {
            return Err(ApiError::invalid("RPC ID must be set"));
        }
        Ok((rpc, caller))
    }

    /// A worker is done with a call.
    pub(in crate::core) fn grpc_done(
        &mut self,
        now: Now,
        conn: ConnId,
        mut grpc: Box<Grpc>,
        (stream, outcome): (u32, Outcome),
        out: &mut Output<Mail>,
    ) {
        if let Some(at) = grpc.calls.iter().position(|call| call.stream == stream) {
            let call = grpc.calls.swap_remove(at);
            grpc.heard = now;
            let result = message_of(outcome);
            self.grpc_answer(now, &mut grpc, (&call, result.as_ref().cloned()), out);
        }
        self.grpc_run(now, conn, grpc, b"", out);
    }

    /// Answers a call. Who has left much of earlier answers is refused more.
    fn grpc_answer(
        &mut self,
        now: Now,
        grpc: &mut Grpc,
        (call, result): (&Call, Result<Bytes, &ApiError>),
        out: &Output<Mail>,
    ) {
        let (stream, metered, ms) = (call.stream, call.metered, ms(now));
        let room = match &result {
            Ok(message) => self.grpc_may_wait(now, grpc, message.len(), out),
            // It goes whatever the windows are.
            Err(_) => Ok(()),
        };
        let result = result.and_then(|message| room.as_ref().map(|()| message));
        let content_type = ("content-type", CONTENT_TYPE.as_bytes());
        let ok = (":status", &b"200"[..]);
        match result {
            Ok(message) => {
                let packed = call.takes_gzip.then(|| self.pack(&message)).flatten();
                let is_packed = packed.is_some();
                let message = packed.map_or(message, Bytes::from);
                self.count_response(now, metered, (200, message.len()));
                let head = [ok, content_type, ("grpc-encoding", &b"gzip"[..])];
                let head = if is_packed { &head[..] } else { &head[..2] };
                let body = Bytes::from(grpc::framed(&message, is_packed));
                let trailers = &[("grpc-status", &b"0"[..])];
                grpc.connection.answer(ms, stream, &Answer { head, body, trailers });
            }
            Err(error) => {
                self.count_response(now, metered, (error.code.http_status(), 0));
                let code = error.code.number().to_string();
                let text = grpc::status_text(&error.message);
                let head = &[
                    ok,
                    content_type,
                    ("grpc-accept-encoding", ACCEPTED.as_bytes()),
                    ("grpc-status", code.as_bytes()),
                    ("grpc-message", text.as_bytes()),
                ];
                let answer = Answer { head, ..Answer::default() };
                grpc.connection.answer(ms, stream, &answer);
            }
        }
    }
}

/// What a finished job answers, in protobuf.
fn message_of(outcome: Outcome) -> Result<Bytes, ApiError> {
    match outcome {
        Outcome::Api(result) => result.map(|answer| Bytes::from(answer.body)),
        Outcome::Rpc(Ok(answer)) => {
            let payload = String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned();
            let mut message = Vec::with_capacity(payload.len() + 8);
            encode(&mut message, &Rpc { payload, ..Rpc::default() }, Format::Protobuf);
            Ok(message.into())
        }
        Outcome::Rpc(Err(error)) => Err(rpc_error(&error)),
        Outcome::Users(Err(error)) => Err(error),
        Outcome::Users(Ok(_)) | Outcome::Before(_) | Outcome::After | Outcome::Shutdown => {
            tracing::error!("an answer of a worker that no call over gRPC asks for");
            Err(ApiError::internal("Internal error."))
        }
    }
}

/// The metadata as functions see them: headers and query parameters. What ends in `-bin` is no text,
/// and left out.
fn metadata(fields: &Fields) -> (Pairs, Pairs) {
    let (mut headers, mut query_params) = (Pairs::default(), Pairs::default());
    for (name, value) in fields.iter() {
        let is_own = OWN_FIELDS.iter().any(|own| own.as_bytes() == name);
        if is_own || name.ends_with(b"-bin") {
            continue;
        }
        let value = String::from_utf8_lossy(value);
        match name.strip_prefix(QUERY_PREFIX) {
            Some(name) => query_params.push(name, value.as_bytes()),
            None => headers.push(name, value.as_bytes()),
        }
    }
    (headers, query_params)
}

fn unknown_method(name: &str) -> ApiError {
    let name: String = name.chars().take(64).collect();
    let text = format!("unknown method {name} for service nakama.api.Nakama");
    ApiError::new(Code::Unimplemented, text)
}
