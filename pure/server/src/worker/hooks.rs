//! Hooks: what scripts have to say before and after a call or a message. A hooked API call comes here
//! three times: its before-hook at a caller, itself at the batcher, in the transaction with all other
//! calls, and its after-hook at a caller, when what it wrote is durable; its client is answered when
//! all of it is done, as in Nakama. What it wrote the after-hook sees, and cannot undo. Of realtime
//! messages only the hooks come here; the core waits for the before-hook and handles the message itself.
//!
//! Not here: which names have hooks (`crate::hooks`), the form that hooks see of a call
//! (`ApiCall::form`).

use game::api::{Answer, ApiCall, Auth, Style};
use game::error::{ApiError, Code};
use game::guest::{CallContext, CallId, GuestCall, Returned, ScriptError, ScriptFailure, Step};
use game::host::json;
use game::session::Claims;
use game::stream::Payer;
use game::value::Value;
use wire::nakama::realtime::Message;
use wire::nakama::{DecodeError, Envelope};

use event::Now;

use super::Worker;
use super::host::{WorkerHost, payer};
use crate::frames;
use crate::hooks::realtime_id;
use crate::mail::{AfterMessage, BeforeMessage, Format, HookStep, HookedCall};
use crate::resources::Spent;

/// What a client is told when a before-hook returned something that is no message.
const NO_MESSAGE: &str = "Could not complete runtime Before function.";

/// Bytes of a script's error that clients and the log get. A script chooses the text, and it would
/// otherwise be an answer without a limit.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// The error with no more text than that.
fn shortened(mut error: ScriptError) -> ScriptError {
    for text in [&mut error.message, &mut error.location] {
        if text.len() > ERROR_BYTES_MAX {
            text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
            text.push('…');
            text.shrink_to_fit();
        }
    }
    error
}

/// What a step of a hooked call comes to.
pub(super) enum Stepped {
    /// Its client is answered.
    Answer(Result<Answer, ApiError>),
    /// The next step.
    Next(HookedCall),
    /// The same step, because another writer was in the way.
    Again(HookedCall),
}

impl Worker {
    /// Lends the scripts what they may ask for, for one call of theirs.
    pub(super) fn guest(
        &mut self,
        now: Now,
        id: &str,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Result<Returned, ScriptError> {
        self.calls += 1;
        let call_id = CallId(self.calls);
        let mut host = WorkerHost {
            now,
            me: self.me,
            topology: &self.topology,
            settings: &self.settings,
            resources: &mut self.resources,
            requester: &mut *self.requester,
            requests: &mut self.requests,
            mails: &mut self.mails,
            payer: payer(&self.settings, context),
            spent: Spent::of(Payer {
                user_id: context.user_id,
                thread: self.me.thread().0,
                call: self.calls,
            }),
        };
        let result = match self.scripts.call(&mut host, call_id, context, call) {
            Step::Done(result) => result.map_err(shortened),
            Step::Waits(ask) => unreachable!("a call waits for {ask:?}"),
        };
        if self.resources.db.in_transaction() {
            // Cannot be: host functions close their own. Left open it would lock everybody out.
            tracing::error!(id, "a script left a transaction open; it was rolled back");
            let _ = self.resources.db.rollback();
        }
        result
    }

    /// One step of an API call that has hooks.
    pub(super) fn hook_step(
        &mut self,
        now: Now,
        hooked: HookedCall,
        caller: Option<&Claims>,
        format: Format,
    ) -> Stepped {
        let HookedCall { call, mut context, after, step } = hooked;
        match step {
            HookStep::Before => match self.before_call(now, call, &mut context) {
                Ok(call) => {
                    Stepped::Next(HookedCall { call, context, after, step: HookStep::Call })
                }
                Err(error) => Stepped::Answer(Err(error)),
            },
            HookStep::Call => match self.api(now, &call, caller, format) {
                Err(error) if self.runs_again(&error) => {
                    Stepped::Again(HookedCall { call, context, after, step: HookStep::Call })
                }
                Ok(answer) if after => {
                    let step = HookStep::After(answer);
                    Stepped::Next(HookedCall { call, context, after, step })
                }
                result => Stepped::Answer(result),
            },
            HookStep::After(answer) => {
                self.after_call(now, &call, context, (&answer, format));
                Stepped::Answer(Ok(answer))
            }
        }
    }

    fn before_call(
        &mut self,
        now: Now,
        call: ApiCall,
        context: &mut CallContext,
    ) -> Result<ApiCall, ApiError> {
        let id = call.name().to_ascii_lowercase();
        context.execution_mode = "before";
        let form = decoded(&call.form(self.scripts.form_style()));
        match self.before(now, &id, context, form) {
            Ok(Some(form)) => call.reformed(&form),
            Ok(None) if !call.has_form() => Ok(call),
            Ok(None) => Err(ApiError::new(Code::NotFound, "Requested resource was not found.")),
            Err(error) => Err(ApiError::script(i64::from(error.code), error.message)),
        }
    }

    fn after_call(
        &mut self,
        now: Now,
        call: &ApiCall,
        context: CallContext,
        (answer, format): (&Answer, Format),
    ) {
        let mut context = CallContext { execution_mode: "after", ..context };
        let style = self.scripts.form_style();
        let value = decoded(&call.answer_form(&answer.body, format, style));
        if call.auth() == Auth::ServerKey {
            self.name_user(now, &mut context, &value);
        }
        let id = call.name().to_ascii_lowercase();
        self.run_after(now, &id, &context, value, decoded(&call.form(style)));
    }

    /// Whoever logged in is the caller for the after-hook, as in Nakama.
    fn name_user(&self, now: Now, context: &mut CallContext, session: &Value) {
        let token = session.member("token").and_then(Value::as_str);
        let claims = token.and_then(|token| self.signer.verify_session(token, now).ok());
        if let Some(claims) = claims {
            context.user_id = Some(claims.user_id);
            context.username = Some(claims.username.to_string());
            context.vars = claims.vars;
            context.user_session_exp = Some(claims.expires_s);
        }
    }

    /// The before-hook of a realtime message: what is to be handled in its place.
    pub(super) fn before_message(
        &mut self,
        now: Now,
        job: BeforeMessage,
    ) -> Result<Option<Box<Envelope>>, ScriptError> {
        let BeforeMessage { request, context } = job;
        let name = request.message.as_ref().map_or("", Message::name);
        let form = form_of(&request, self.scripts.form_style());
        let Some(form) = self.before(now, &realtime_id(name), &context, form)? else {
            return Ok(None);
        };
        let changed = json::encode(&form).ok().and_then(|json| Envelope::decode_json(&json).ok());
        // Another kind of message is not what the client waits for.
        let same = |changed: &Envelope| changed.message.as_ref().is_some_and(|m| m.name() == name);
        changed.filter(same).map(|changed| Some(Box::new(changed))).ok_or_else(|| ScriptError {
            code: 13,
            message: NO_MESSAGE.to_owned(),
            location: String::new(),
            kind: ScriptFailure::Raised,
        })
    }

    /// The after-hook of a realtime message, unless it was answered with an error.
    pub(super) fn after_message(&mut self, now: Now, job: AfterMessage) {
        let AfterMessage { request, answer, format, context } = job;
        let style = self.scripts.form_style();
        let answer = match answer.map(|frame| frames::envelope(format, &frame)) {
            Some(Ok(Envelope { message: Some(Message::Error(_)), .. })) => return,
            Some(Ok(envelope)) => form_of(&envelope, style),
            // The plain acknowledgement.
            Some(Err(DecodeError::Missing { cid })) => form_of(&Envelope::ack(cid), style),
            Some(Err(error)) => {
                tracing::error!("an answer of our own cannot be read: {error}");
                return;
            }
            None => Value::Map(Vec::new()),
        };
        let name = request.message.as_ref().map_or("", Message::name);
        self.run_after(now, &realtime_id(name), &context, answer, form_of(&request, style));
    }

    /// The scripts' function for the end of the server.
    pub(super) fn shutdown(&mut self, now: Now) {
        let context = CallContext { execution_mode: "shutdown", ..CallContext::default() };
        let call = GuestCall::Event { name: "shutdown", argument: Value::Nil };
        let result = self.guest(now, "shutdown", &context, call);
        if let Err(error) = result {
            tracing::warn!(location = error.location, "the shutdown function failed: {error}");
        }
    }

    fn before(
        &mut self,
        now: Now,
        id: &str,
        context: &CallContext,
        form: Value,
    ) -> Result<Option<Value>, ScriptError> {
        self.stats.overall_before_count.up();
        let call = GuestCall::Before { id, request: form };
        let result = self.guest(now, id, context, call).map(|returned| match returned {
            Returned::Before(request) => request,
            other => unreachable!("a before-hook returned {other:?}"),
        });
        if let Err(error) = &result {
            self.stats.overall_before_errors.up();
            log(id, "before", error);
        }
        result
    }

    fn run_after(
        &mut self,
        now: Now,
        id: &str,
        context: &CallContext,
        answer: Value,
        request: Value,
    ) {
        self.stats.overall_after_count.up();
        let result = self.guest(now, id, context, GuestCall::After { id, answer, request });
        if let Err(error) = &result {
            self.stats.overall_after_errors.up();
            log(id, "after", error);
        }
    }
}

/// Whether a script words this error itself, with a code of its own: it is its everyday work, not
/// a failure, and clients could fill the log with it.
pub(super) fn is_answer(error: &ScriptError) -> bool {
    error.kind == ScriptFailure::Raised && error.code != 13
}

fn log(id: &str, kind: &str, error: &ScriptError) {
    if is_answer(error) {
        tracing::debug!(id, code = error.code, "{kind}-hook refused: {error}");
    } else {
        tracing::warn!(id, location = error.location, "{kind}-hook failed: {error}");
    }
}

/// An envelope in the form that hooks see.
fn form_of(envelope: &Envelope, style: Style) -> Value {
    let mut text = Vec::new();
    envelope.write_json(&mut text, style);
    decoded(&text)
}

/// What we have written ourselves. It reads back: it is flat, and its numbers are finite or text.
fn decoded(json: &[u8]) -> Value {
    json::decode(json).unwrap_or_else(|error| {
        tracing::error!("an answer of our own cannot be read, its hook sees nothing: {error}");
        Value::Map(Vec::new())
    })
}
