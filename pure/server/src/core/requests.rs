//! What each HTTP request leads to. Source: Nakama 3.40, `server/api.go`,
//! `server/api_rpc.go`, `server/socket_ws.go`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::api::auth::{self, Credentials};
use game::api::{ApiCall, Auth, Route, RpcCall};
use game::error::ApiError;
use game::events::EventKind;
use game::guest::CallContext;
use game::pairs::Pairs;
use game::session::Claims;
use smallvec::SmallVec;
use wire::http1::{self, Connection, Request};
use wire::query::{QueryString, parse_bool};
use wire::websocket as ws;

use super::Core;
use super::access::{Head, header_text};
use super::answers::{Manner, RETRY_AFTER, full};
use super::backlog::Backlog;
use super::http::{AnswerKind, Handled, Verified};
use super::limits::Origin;
use super::socket::{Client, Session};
use crate::limits::SHARED;
use crate::mail::{Format, Job, Mail, Queue, RoomRequest, RpcJob, Work};
use crate::stats::{Counted, Metered};

/// Room for the headers that a browser sends.
const HEADERS_BYTES: usize = 512;

/// The peer, the client's address behind proxies, and the last token of the connection.
pub(super) type Who<'a> = (SocketAddr, Origin, &'a mut Option<Verified>);

impl Core {
    pub(super) fn request(
        &mut self,
        now: Now,
        conn: ConnId,
        (peer, verified, backlog): (SocketAddr, &mut Option<Verified>, &mut Backlog),
        request: &Request<'_>,
        out: &mut Output<Mail>,
    ) -> Handled {
        let mut manner = Manner {
            connection: if self.stopping.is_none() {
                Connection::asked_by(request)
            } else {
                Connection::Close
            },
            cors: request.header("origin").is_some(),
            takes_gzip: request.accepts_gzip,
            is_head: request.method == "HEAD",
            metered: None,
        };
        let after = if request.keep_alive && self.stopping.is_none() {
            Handled::Answered
        } else {
            Handled::Close
        };
        let origin = self.origin(request, peer);
        if let Err(error) = self.admit_address(origin) {
            self.respond_error(now, conn, manner, &error, out);
            return after;
        }
        if request.method == "OPTIONS" && manner.cors {
            self.respond_preflight(now, conn, manner.connection, out);
            return after;
        }
        // After the limit per address, since undoing a coding costs as much as many requests.
        let body = match http1::content(request, &self.limits) {
            Ok(body) => body,
            Err(error) => return self.refuse_broken(now, conn, peer, error, out),
        };
        if matches!(body, Cow::Owned(_)) {
            backlog.end_turn();
        }
        let request = &Request { body: &body, ..*request };
        let route = game::api::route(request.method, request.target, request.body);
        match route {
            Ok(Route::Api(call)) => {
                manner.metered = Some(metered(now, call.id(), request));
                let who = (peer, origin, verified);
                let reply = (0, Format::Json);
                let asked = self.api(now, conn, who, (request, call, reply), out);
                self.wait_or_refuse(now, conn, (manner, after), asked, out)
            }
            Ok(Route::Rpc(rpc)) => {
                manner.metered = Some(metered(now, Counted::RPC, request));
                let who = (peer, origin, verified);
                self.rpc(now, conn, who, (request, rpc, manner), out).unwrap_or(after)
            }
            Ok(Route::Reload) => {
                let asked = self.reload(conn, origin, request, out);
                self.wait_or_refuse(now, conn, (manner, after), asked, out)
            }
            Ok(Route::Socket) => self.upgrade(now, conn, (peer, origin, verified), request, out),
            Ok(Route::Healthcheck) => {
                self.respond_json(now, conn, manner, b"{}", out);
                after
            }
            Ok(Route::Root) => {
                self.respond(now, conn, manner, (200, "", b""), out);
                after
            }
            Err(error) => {
                self.respond_no_call(now, conn, manner, (request, &error), out);
                after
            }
        }
    }

    /// What was asked of another thread is waited for; what was refused is answered.
    fn wait_or_refuse(
        &mut self,
        now: Now,
        conn: ConnId,
        (manner, after): (Manner, Handled),
        asked: Result<(), ApiError>,
        out: &mut Output<Mail>,
    ) -> Handled {
        let Err(error) = asked else {
            let keep_alive = matches!(after, Handled::Answered);
            return Handled::Wait(manner.waiting(keep_alive, AnswerKind::Api));
        };
        self.respond_error(now, conn, manner, &error, out);
        after
    }

    /// A call of the API, over HTTP or gRPC: to whoever does it, or refused. It is answered on this
    /// stream, in this format.
    pub(super) fn api(
        &mut self,
        now: Now,
        conn: ConnId,
        (peer, origin, verified): Who<'_>,
        (request, call, (stream, format)): (&impl Head, ApiCall, (u32, Format)),
        out: &mut Output<Mail>,
    ) -> Result<(), ApiError> {
        let caller = self
            .admit(now, verified, request.authorization(), call.auth())
            .inspect_err(|_| self.stats.refused_requests.up())?;
        let group = self.admit_group(origin, verified, caller.as_deref())?;
        if call.may_be_large() && self.is_full(now, 0, out) {
            return Err(full());
        }
        let work = match self.hooks.of_api(call.name()) {
            (false, false) => Work::Api(Box::new(call)),
            hooks => self.hooked_call(request, call, hooks, (peer, caller.as_deref())),
        };
        let (queue, address, client) = (work.queue(), self.address(conn), origin.client);
        self.job(Job { queue, address, stream, format, work, caller, group, client }, out)
    }

    /// `POST /v2/runtime/reload`: to the loader, or refused. Whoever has no key is told what is told of a
    /// path that is not there, if no key is set.
    fn reload(
        &mut self,
        conn: ConnId,
        origin: Origin,
        request: &Request<'_>,
        out: &mut Output<Mail>,
    ) -> Result<(), ApiError> {
        let header = header_text(request, "authorization");
        let key = match self.topology.loader {
            Some(_) => self.settings.runtime.reload_key.as_str(),
            None => "",
        };
        auth::reload_key(header, key).inspect_err(|_| {
            self.stats.refused_requests.up();
            self.stats.refused_reloads.up();
        })?;
        let (queue, address, client) = (Queue::Loader, self.address(conn), origin.client);
        let (work, stream, format, caller) = (Work::Reload, 0, Format::Json, None);
        let group = SHARED;
        self.job(Job { queue, address, stream, format, work, caller, group, client }, out)
    }

    /// Checks what the call's kind asks for (Nakama 3.40, `server/api.go`).
    fn admit(
        &self,
        now: Now,
        verified: &mut Option<Verified>,
        header: Option<&str>,
        kind: Auth,
    ) -> Result<Option<Arc<Claims>>, ApiError> {
        match kind {
            Auth::ServerKey => {
                auth::server_key(header, &self.settings.socket.server_key).map(|()| None)
            }
            Auth::Bearer => {
                auth::bearer(header, |token| self.session(now, verified, token)).map(Some)
            }
        }
    }

    /// `/v2/rpc/{id}`. `None` when it is answered already.
    fn rpc(
        &mut self,
        now: Now,
        conn: ConnId,
        (peer, origin, verified): Who<'_>,
        (request, mut rpc, manner): (&Request<'_>, RpcCall, Manner),
        out: &mut Output<Mail>,
    ) -> Option<Handled> {
        let checked = self
            .admit_rpc(now, verified, request, &rpc)
            .and_then(|caller| Ok((caller, rpc.payload(request.body)?)));
        let checked = checked.inspect_err(|_| self.stats.refused_requests.up());
        let checked = checked.and_then(|(caller, payload)| {
            let group = self.admit_group(origin, verified, caller.as_deref())?;
            Ok((caller, payload, group))
        });
        let (caller, payload, group) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                self.respond_rpc_error(now, conn, manner, &error, out);
                return None;
            }
        };
        let context = CallContext {
            headers: headers_for_scripts(request),
            query_params: std::mem::take(&mut rpc.query_params),
            ..self.request_context("rpc", request, (peer, caller.as_deref()))
        };
        let call = RpcJob { id: rpc.id, payload: Bytes::from(payload), context };
        let (address, work) = (self.address(conn), Work::Rpc(Box::new(call)));
        let (queue, client) = (work.queue(), origin.client);
        let (stream, format) = (0, Format::Json);
        let job = Job { queue, address, stream, format, work, caller, group, client };
        if let Err(error) = self.job(job, out) {
            self.respond_rpc_error(now, conn, manner, &error, out);
            return None;
        }
        let kind = if rpc.unwrap {
            let content_type = header_text(request, "content-type").filter(|text| !text.is_empty());
            AnswerKind::RpcUnwrapped(content_type.unwrap_or("text/plain").to_owned())
        } else {
            AnswerKind::Rpc
        };
        let keep_alive = request.keep_alive && self.stopping.is_none();
        Some(Handled::Wait(manner.waiting(keep_alive, kind)))
    }

    fn admit_rpc(
        &self,
        now: Now,
        verified: &mut Option<Verified>,
        request: &Request<'_>,
        rpc: &RpcCall,
    ) -> Result<Option<Arc<Claims>>, ApiError> {
        let header = header_text(request, "authorization");
        let http_key = &self.settings.runtime.http_key;
        let verify = |token: &str| self.session(now, verified, token);
        let caller = auth::rpc(header, rpc.http_key.as_deref(), http_key, verify)?;
        rpc.check_id()?;
        Ok(caller)
    }

    /// What scripts see of a request's caller.
    pub(super) fn request_context(
        &self,
        execution_mode: &'static str,
        request: &impl Head,
        (peer, caller): (SocketAddr, Option<&Claims>),
    ) -> CallContext {
        let (client_ip, client_port) = self.client_address(request, peer);
        CallContext {
            execution_mode,
            user_id: caller.map(|claims| claims.user_id),
            username: caller.map(|claims| claims.username.to_string()),
            vars: caller.map(|claims| claims.vars.clone()).unwrap_or_default(),
            user_session_exp: caller.map(|claims| claims.expires_s),
            client_ip: Some(client_ip),
            client_port: Some(client_port),
            ..CallContext::default()
        }
    }

    /// `GET /ws`.
    fn upgrade(
        &mut self,
        now: Now,
        conn: ConnId,
        (peer, origin, verified): Who<'_>,
        request: &Request<'_>,
        out: &mut Output<Mail>,
    ) -> Handled {
        let first = |name| QueryString::parse(request.target.query).ok()?.list(name).next();
        let format = match &*first("format").unwrap_or_default() {
            "" | "json" => Format::Json,
            "protobuf" => Format::Protobuf,
            _ => {
                let text = (400, &b""[..], "Invalid format parameter");
                self.respond_text(now, conn, Connection::Close, text, out);
                return Handled::Close;
            }
        };
        let from_query = first("token").unwrap_or_default();
        let token = match auth::parse(header_text(request, "authorization")) {
            _ if !from_query.is_empty() => &from_query,
            Credentials::Bearer(token) => token,
            _ => "",
        };
        let Ok(claims) = self.session(now, verified, token) else {
            self.stats.refused_requests.up();
            let text = (401, &b""[..], "Missing or invalid token");
            self.respond_text(now, conn, Connection::Close, text, out);
            return Handled::Close;
        };
        let groups = match self.admit_socket(origin, &claims) {
            Ok(groups) => groups,
            Err(error) => {
                let text = (error.code.http_status(), RETRY_AFTER, &*error.message);
                self.respond_text(now, conn, Connection::Close, text, out);
                return Handled::Close;
            }
        };
        if let Err(error) = out.send_with(conn, |to| ws::accept(to, request, b"")) {
            self.forget_socket(groups);
            let text = (error.status(), error.headers(), &*error.to_string());
            self.respond_text(now, conn, Connection::Close, text, out);
            return Handled::Close;
        }
        let lang = first("lang").filter(|lang| !lang.is_empty()).unwrap_or("en".into());
        let online = first("status").and_then(|text| parse_bool(&text)).unwrap_or(false);
        let session_id = game::session::new_id(now, &mut self.random);
        self.forget_connection(conn);
        let limits = (self.settings.socket.message_bytes_max, Backlog::new(self.stats.clone()));
        let options = (format, &*lang);
        let client = self.client_address(request, peer);
        let who = (Client::of(&client), groups);
        let session = Session::new(now, session_id, claims, options, who, limits);
        self.session_opened(now, conn, &session, online, out);
        Handled::Upgraded(Box::new(session))
    }

    fn session_opened(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &Session,
        online: bool,
        out: &mut Output<Mail>,
    ) {
        self.places.insert(session.session_id, conn.slot);
        self.places.insert(session.user_id(), conn.slot);
        self.stats.sessions.up();
        self.stats.socket_ws_opened.up();
        let settings = &self.settings.socket;
        out.output_max(conn, settings.outgoing_queue_size * settings.message_bytes_max);
        out.output_patience(conn, settings.write_wait_ms);
        self.arm(now.after_ms(settings.ping_period_ms), conn);
        let member = self.member(conn, session);
        let room = self.topology.room_of(session.user_id());
        let status = online.then(Box::<str>::default);
        self.note_status(conn, room, status.as_deref());
        self.request_room(room, RoomRequest::Opened { member, status });
        self.session_event(EventKind::SessionStart, session, "");
    }
}

fn metered(now: Now, call: impl Into<Counted>, request: &Request<'_>) -> Metered {
    Metered { call: call.into(), began: now, recv_bytes: request.body.len() }
}

/// All request headers with canonical names, as scripts see them.
fn headers_for_scripts(request: &Request<'_>) -> Pairs {
    let mut headers = Pairs::with_capacity(HEADERS_BYTES);
    let mut name = SmallVec::<[u8; 64]>::new();
    for (sent_name, value) in request.headers {
        name.clear();
        name.extend_from_slice(sent_name.as_bytes());
        make_canonical(&mut name);
        if *name == *b"Grpc-Timeout" {
            continue;
        }
        match std::str::from_utf8(value) {
            Ok(text) => headers.push(&name, text.as_bytes()),
            Err(_) => headers.push(&name, String::from_utf8_lossy(value).as_bytes()),
        }
    }
    headers
}

/// `content-type` → `Content-Type`.
fn make_canonical(name: &mut [u8]) {
    let mut is_start = true;
    for letter in name {
        if is_start {
            letter.make_ascii_uppercase();
        } else {
            letter.make_ascii_lowercase();
        }
        is_start = *letter == b'-';
    }
}

#[cfg(test)]
mod tests {
    use super::make_canonical;

    #[test]
    fn header_names_are_canonical() {
        let canonical = |name: &str| {
            let mut name = name.as_bytes().to_vec();
            make_canonical(&mut name);
            String::from_utf8(name).unwrap()
        };
        assert_eq!(canonical("content-type"), "Content-Type");
        assert_eq!(canonical("X-FORWARDED-for"), "X-Forwarded-For");
        assert_eq!(canonical(""), "");
    }
}
