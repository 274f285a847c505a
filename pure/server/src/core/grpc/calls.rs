//! What each call over gRPC leads to, and how it is answered: with a message in protobuf and the
//! status 0, or with the code and text that REST would answer with.
//!
//! Source: Nakama 3.40, `server/api.go`, `server/api_rpc.go`; grpc-go 1.82, `server.go`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::api::{self, ApiCall, CallId, auth};
use game::error::{ApiError, Code};
use game::guest::CallContext;
use game::pairs::Pairs;
use game::session::Claims;
use wire::grpc::{self, ACCEPTED, BadMessage, CONTENT_TYPE};
use wire::http2::{Answer, Fields, Request, Trouble};
use wire::nakama::api::{Rpc, encode};

use super::{Call, Grpc, HEAD_BYTES_MAX, ms};
use crate::core::Core;
use crate::core::access::Head;
use crate::core::answers::{rpc_error, rpc_text};
use crate::core::http::Verified;
use crate::core::limits::Origin;
use crate::mail::{Format, Job, Mail, Outcome, RpcJob, Work};
use crate::stats::{Counted, Metered};

/// Fields of the metadata that are HTTP/2's and gRPC's own, which scripts do not see.
const OWN_FIELDS: &[&str] = &[":method", ":scheme", ":path", "te", "grpc-timeout", "grpc-encoding"];
/// What the metadata of query parameters begin with.
const QUERY_PREFIX: &[u8] = b"q_";

/// Why a call is refused, and the status of HTTP that says so.
struct Refusal {
    status: u16,
    error: ApiError,
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self { status: 200, error }
    }
}

impl From<BadMessage> for Refusal {
    fn from(BadMessage { code, text, status }: BadMessage) -> Self {
        Self { status, error: ApiError::new(code, text) }
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
        if request.trouble.is_some() {
            // Reading what is too large took as long as many requests: 16 KB of the longest symbols 0.1 ms.
            grpc.backlog.end_turn();
        }
        let accepted = request.fields.get("grpc-accept-encoding");
        let takes_gzip = accepted.is_some_and(grpc::accepts_gzip);
        let mut call = Call { stream: request.stream, takes_gzip, metered: None };
        let begun = self.grpc_call(now, conn, grpc, (request, &mut call.metered), out);
        match begun {
            Ok(None) => grpc.calls.push(call),
            Ok(Some(message)) => self.grpc_answer(now, grpc, (&call, Ok(message)), out),
            Err(refusal) => self.grpc_refuse(now, grpc, &call, &refusal),
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
        let (name, message) = read.inspect_err(|_| self.stats.refused_requests.up())?;
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
            return Err(self.grpc_trouble(trouble).into());
        }
        let fields = &request.fields;
        let name = grpc::method(fields)?;
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
        let rpc: Rpc = api::message(message)?;
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
            let may_wait = match &outcome {
                // Before it is decoded: what is refused costs next to nothing.
                Outcome::Rpc(Ok(Some(answer))) => self.grpc_may_wait(now, &grpc, answer.len(), out),
                _ => Ok(()),
            };
            let result = may_wait.and_then(|()| message_of(outcome));
            self.grpc_answer(now, &mut grpc, (&call, result), out);
        }
        self.grpc_run(now, conn, grpc, b"", out);
    }

    /// Answers a call. Who has left much of earlier answers is refused more.
    fn grpc_answer(
        &mut self,
        now: Now,
        grpc: &mut Grpc,
        (call, result): (&Call, Result<Bytes, ApiError>),
        out: &Output<Mail>,
    ) {
        let may_wait =
            |message: Bytes| self.grpc_may_wait(now, grpc, message.len(), out).map(|()| message);
        let message = match result.and_then(may_wait) {
            Ok(message) => message,
            Err(error) => return self.grpc_refuse(now, grpc, call, &error.into()),
        };
        let packed = call.takes_gzip.then(|| self.pack(&message)).flatten();
        let is_packed = packed.is_some();
        let message = packed.map_or(message, Bytes::from);
        self.count_response(now, call.metered, (200, message.len()));
        let head = [
            (":status", &b"200"[..]),
            ("content-type", CONTENT_TYPE.as_bytes()),
            ("grpc-encoding", &b"gzip"[..]),
        ];
        let head = if is_packed { &head[..] } else { &head[..2] };
        let body = Bytes::from(grpc::framed(&message, is_packed));
        let trailers = &[("grpc-status", &b"0"[..])];
        grpc.connection.answer(ms(now), call.stream, &Answer { head, body, trailers });
    }

    /// Answers a call with an error, in one header block: it waits for no window.
    fn grpc_refuse(&mut self, now: Now, grpc: &mut Grpc, call: &Call, refusal: &Refusal) {
        let Refusal { status, error } = refusal;
        let counted = if *status == 200 { error.code.http_status() } else { *status };
        self.count_response(now, call.metered, (counted, 0));
        let (status, code) = (status.to_string(), error.code.number().to_string());
        let text = grpc::status_text(&error.message);
        let head = &[
            (":status", status.as_bytes()),
            ("content-type", CONTENT_TYPE.as_bytes()),
            ("grpc-accept-encoding", ACCEPTED.as_bytes()),
            ("grpc-status", code.as_bytes()),
            ("grpc-message", text.as_bytes()),
        ];
        let answer = Answer { head, ..Answer::default() };
        grpc.connection.answer(ms(now), call.stream, &answer);
    }
}

/// What a finished job answers, in protobuf.
fn message_of(outcome: Outcome) -> Result<Bytes, ApiError> {
    match outcome {
        Outcome::Api(result) => result.map(|answer| Bytes::from(answer.body)),
        Outcome::Rpc(Ok(answer)) => {
            let payload = rpc_text(answer);
            let mut message = Vec::with_capacity(payload.len() + 8);
            encode(&mut message, &Rpc { payload, ..Rpc::default() }, Format::Protobuf);
            Ok(message.into())
        }
        Outcome::Rpc(Err(error)) => Err(rpc_error(&error)),
        Outcome::Users(Err(error)) => Err(error),
        Outcome::Users(Ok(_))
        | Outcome::Before(_)
        | Outcome::Next(_)
        | Outcome::NeedsCaller(_)
        | Outcome::Crowded(_)
        | Outcome::Waits
        | Outcome::After
        | Outcome::Shutdown => {
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
