//! Hooks, as far as cores have to do with them: a message with a before-hook waits for a caller,
//! one with an after-hook is kept until it is answered. Of an API call with hooks each step is a job:
//! the before-hook at a caller, or at the core's companion if it is known to be quick, the call in the batch
//! with all others, the after-hook as the before-hook once the call is durable; its client is answered behind
//! the last one, as in Nakama.
//! Source: Nakama 3.40, `server/runtime.go`, `server/runtime_lua.go`.

use std::net::SocketAddr;

use bytes::Bytes;
use event::{ConnId, Now, Output};
use game::api::ApiCall;
use game::events::{Event, EventJob, EventKind};
use game::guest::ScriptError;
use game::session::Claims;
use wire::nakama::Envelope;
use wire::nakama::realtime::{self, Message, error_code};

use super::access::Head;
use super::messages::session_context;
use super::socket::{Session, Step, WaitKind, Waiting};
use super::{Core, State};
use crate::frames;
use crate::limits::SHARED;
use crate::mail::{AfterMessage, BeforeMessage, Format, HookStep, HookedCall, Job, Mail, Work};

impl Core {
    /// The work for an API call of which `hooks` tells whether it has a before- and an after-hook.
    pub(super) fn hooked_call(
        &self,
        request: &impl Head,
        call: ApiCall,
        (before, after): (bool, bool),
        who: (SocketAddr, Option<&Claims>),
    ) -> Work {
        // No headers and parameters: Nakama's hooks see none either.
        let context = self.request_context("before", request, who);
        let step = if before { HookStep::Before } else { HookStep::Call };
        Work::Hooked(Box::new(HookedCall { call, context, after, step }))
    }

    /// A message while some message has hooks.
    pub(super) fn hooked_message(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &mut Session,
        envelope: Envelope,
        out: &mut Output<Mail>,
    ) -> Step {
        let name = envelope.message.as_ref().map_or("", Message::name);
        if !self.hooks.is_before(name) {
            return self.dispatch_observed(now, conn, session, envelope, out);
        }
        let cid = envelope.cid.clone();
        let context = session_context("before", session);
        let work = Work::Before(Box::new(BeforeMessage { request: envelope, context }));
        if let Err(error) = self.job_of(conn, session, work, out) {
            return self.too_many(conn, session.format, &cid, &error, out);
        }
        Step::wait(Waiting::new(cid, WaitKind::Before))
    }

    /// What the before-hook made of the message: it is handled, refused, or forbidden.
    pub(super) fn before_done(
        &mut self,
        now: Now,
        conn: ConnId,
        (mut session, cid): (Box<Session>, String),
        outcome: Result<Option<Box<Envelope>>, ScriptError>,
        out: &mut Output<Mail>,
    ) {
        let before = out.unsent();
        let step = match outcome {
            Ok(Some(envelope)) => self.dispatch_observed(now, conn, &mut session, *envelope, out),
            Ok(None) => {
                let text = "Requested resource was not found.";
                self.refuse(conn, &session, &cid, error_code::UNRECOGNIZED_PAYLOAD, text, out)
            }
            Err(error) => {
                let error = (error_code::RUNTIME_FUNCTION_EXCEPTION, error.message.as_str());
                self.reply_error(conn, session.format, &cid, error, out);
                Step::Refused
            }
        };
        match step {
            Step::Done | Step::Refused => {
                self.put(conn, State::Socket(session));
                self.answered(now, conn, out.unsent() - before, out);
            }
            Step::Wait(waiting) => {
                session.waiting = Some(waiting);
                self.put(conn, State::Socket(session));
            }
            Step::Close(code, reason) => {
                self.begin_close(now, conn, &mut session, code, reason, out);
                self.put(conn, State::Socket(session));
            }
        }
    }

    /// Handles a message; if it has an after-hook, that runs once it is answered.
    fn dispatch_observed(
        &mut self,
        now: Now,
        conn: ConnId,
        session: &mut Session,
        envelope: Envelope,
        out: &mut Output<Mail>,
    ) -> Step {
        let name = envelope.message.as_ref().map_or("", Message::name);
        if !self.hooks.is_after(name) {
            return self.dispatch(now, conn, session, envelope, out);
        }
        let request = envelope.clone();
        let mut step = self.dispatch(now, conn, session, envelope, out);
        match &mut step {
            Step::Wait(waiting) => waiting.observed = Some(Box::new(request)),
            Step::Done => {
                let answer = answer_of_core(session, &request);
                self.after_message(conn, session, request, answer, out);
            }
            // Only what succeeded has an after-hook, as in Nakama.
            Step::Refused | Step::Close(..) => {}
        }
        step
    }

    /// A room has answered the message that an after-hook is to see. Called before the session
    /// goes on with the next message.
    pub(super) fn observed_answer(&mut self, conn: ConnId, frame: &Bytes, out: &mut Output<Mail>) {
        match self.take(conn) {
            State::Socket(mut session) => {
                let waiting = session.waiting.as_mut();
                if let Some(request) = waiting.and_then(|waiting| waiting.observed.take()) {
                    self.after_message(conn, &session, *request, Some(frame.clone()), out);
                }
                self.put(conn, State::Socket(session));
            }
            other => self.put(conn, other),
        }
    }

    /// Hands an after-hook to a caller. Nobody waits for it: when too much is waiting, it is
    /// dropped and counted.
    fn after_message(
        &mut self,
        conn: ConnId,
        session: &Session,
        request: Envelope,
        answer: Option<Bytes>,
        out: &mut Output<Mail>,
    ) {
        let (format, context) = (session.format, session_context("after", session));
        let work = Work::After(Box::new(AfterMessage { request, answer, format, context }));
        if self.job_of(conn, session, work, out).is_err() {
            self.stats.refused_after_hooks.up();
        }
    }

    /// Tells the handler of sessions, if there is one, that one has begun or ended.
    pub(super) fn session_event(&mut self, kind: EventKind, session: &Session, reason: &str) {
        if !self.hooks.is_handled(kind) {
            return;
        }
        let unix_s = self.now.unix_s();
        let event = match kind {
            EventKind::SessionEnd => Event::session_end(unix_s, reason),
            EventKind::SessionStart | EventKind::Custom => Event::session_start(unix_s),
        };
        let context = session_context("event", session);
        self.events.push(EventJob { kind, event, context, cause: None });
    }

    /// Lets the scripts' shutdown function run, on one core's behalf. Tells whether it does.
    pub(super) fn begin_shutdown(&mut self, out: &mut Output<Mail>) -> bool {
        if !self.hooks.has_shutdown || self.topology.cores.first() != Some(&self.me) {
            return false;
        }
        // No connection waits for it.
        let address = self.address(ConnId { slot: u32::MAX, generation: 0 });
        let (work, group) = (Work::Shutdown, SHARED);
        let (queue, stream, format) = (work.queue(), 0, Format::Json);
        let job = Job { queue, address, stream, format, work, caller: None, group, client: 0 };
        self.job(job, out).is_ok()
    }
}

/// What the core itself answered to a message that it did not pass on.
fn answer_of_core(session: &Session, request: &Envelope) -> Option<Bytes> {
    let frame = |message| frames::frame(session.format, &request.cid, message);
    match &request.message {
        Some(Message::Ping(_)) => Some(frame(Some(Message::Pong(realtime::Pong {})))),
        Some(Message::StatusUnfollow(_)) => Some(frame(None)),
        _ => None,
    }
}
