//! Hooks: what scripts have to say before and after a call or a message. A hooked API call comes here
//! three times: its before-hook at a caller or a core's companion, itself at the batcher, in the transaction
//! with all other calls, and its after-hook as the first, when what it wrote is durable; its client is answered
//! when all of it is done, as in Nakama. What it wrote the after-hook sees, and cannot undo. Of realtime
//! messages only the hooks come here; the core waits for the before-hook and handles the message itself.
//!
//! Not here: which names have hooks (`crate::hooks`), the form that hooks see of a call
//! (`ApiCall::form`).

use game::api::{Answer, ApiCall, Style};
use game::error::{ApiError, Code};
use game::events::Cause;
use game::guest::{CallContext, Callee, GuestCall, HookForm, Returned, ScriptError, ScriptFailure};
use game::host::json;
use game::rules::ZoneRule;
use game::session::Claims;
use game::value::Value;
use wire::nakama::realtime::Message;
use wire::nakama::{DecodeError, Envelope};

use event::Now;

use super::shipped::Task;
use super::waiting::Origin;
use super::{Named, Worker};
use crate::frames;
use crate::hooks::realtime_id;
use crate::mail::{
    AfterMessage, BeforeMessage, HookStep, HookedCall, Job, Outcome, RoomIndex, Work,
};
use crate::resources::shortened;

/// What a client is told when a before-hook returned something that is no message.
const NO_MESSAGE: &str = "Could not complete runtime Before function.";

/// What is to be done when a function of the scripts is over.
#[derive(Debug)]
pub(super) enum Then {
    /// An RPC function: its client is answered.
    AnswerRpc,
    /// The before-hook of a call: the call is next, if it may be.
    Call(Box<HookedCall>),
    /// The after-hook of a call: its client gets this.
    AnswerCall(Box<Answer>),
    /// The before-hook of a message of this name: the message is next, if it may be.
    Message(&'static str),
    /// The after-hook of a message.
    MessageDone,
    /// The handler of an event, for which nobody waits, with what the event goes back to if a script told it.
    Event(Option<Cause>),
    /// A rule of the zone: its home is told what it returned.
    Rule {
        /// Where it is.
        home: RoomIndex,
        /// Which rule.
        rule: ZoneRule,
        /// Which question of the home.
        number: u64,
    },
    /// The function for the end of the server.
    Shutdown,
}

impl Worker {
    /// One step of an API call that has hooks.
    pub(super) fn hook_step(&mut self, now: Now, origin: Origin, hooked: HookedCall) {
        let HookedCall { call, context, after, step } = hooked;
        match step {
            HookStep::Before => {
                let hooked = HookedCall { call, context, after, step: HookStep::Call };
                self.before_call(now, origin, hooked);
            }
            HookStep::Call => {
                let outcome = match self.api(now, &call, origin.caller.as_deref(), origin.format) {
                    Err(error) if self.runs_again(&error) => {
                        let hooked = HookedCall { call, context, after, step: HookStep::Call };
                        let job = origin.job(Work::Hooked(Box::new(hooked)));
                        return self.again.put(Task::Job(job));
                    }
                    Ok(answer) if after => {
                        let step = HookStep::After(answer);
                        let hooked = HookedCall { call, context, after, step };
                        return self.next_step(origin, hooked);
                    }
                    result => Outcome::Api(result),
                };
                self.finish(&origin, outcome);
            }
            HookStep::After(answer) => self.after_call(now, origin, (call, context), answer),
        }
    }

    /// The next step of a hooked call is whose it is.
    fn next_step(&mut self, origin: Origin, hooked: HookedCall) {
        let work = Work::Hooked(Box::new(hooked));
        let Origin { queue, address, stream, format, ref caller, group, client, .. } = origin;
        let (to, caller) = (work.queue(), caller.clone());
        let next = Job { queue: to, address, stream, format, work, caller, group, client };
        let origin = Origin { queue, ..origin };
        self.finish(&origin, Outcome::Next(Box::new(next)));
    }

    fn before_call(&mut self, now: Now, origin: Origin, mut hooked: HookedCall) {
        let id = hooked.call.name().to_ascii_lowercase();
        if !self.guests.registered().before.contains(&id) {
            // Its core knows the version before, which had one.
            return self.next_step(origin, hooked);
        }
        hooked.context.execution_mode = "before";
        let form = self.guests.hook_form(Callee::Before(&id));
        let request = request_of(&hooked.call, form);
        let context = hooked.context.clone();
        let kept = (Some(origin), Then::Call(Box::new(hooked)));
        let of = GuestCall::Before { id: &id, request };
        match self.begin_anywhere(now, kept, (&id, &context), of) {
            Some((origin, Then::Call(mut hooked))) => {
                hooked.step = HookStep::Before;
                self.run_elsewhere(origin, Work::Hooked(hooked));
            }
            Some((_, then)) => unreachable!("a before-hook was {then:?}"),
            None => self.stats.overall_before_count.up(),
        }
    }

    fn after_call(
        &mut self,
        now: Now,
        origin: Origin,
        (call, context): (ApiCall, CallContext),
        answer: Answer,
    ) {
        let mut context = CallContext { execution_mode: "after", ..context };
        let id = call.name().to_ascii_lowercase();
        if !self.guests.registered().after.contains(&id) {
            return self.finish(&origin, Outcome::Api(Ok(answer)));
        }
        let form = self.guests.hook_form(Callee::After(&id));
        let value = if form.reads_answer {
            decoded(&call.answer_form(&answer.body, origin.format, form.style))
        } else {
            Value::Nil
        };
        let request = request_of(&call, form);
        if let Some(claims) = &answer.session {
            name_user(&mut context, claims);
        }
        let kept = (Some(origin), Then::AnswerCall(Box::new(answer)));
        let of = GuestCall::After { id: &id, answer: value, request };
        match self.begin_anywhere(now, kept, (&id, &context), of) {
            Some((origin, Then::AnswerCall(answer))) => {
                let step = HookStep::After(*answer);
                let hooked = HookedCall { call, context, after: true, step };
                self.run_elsewhere(origin, Work::Hooked(Box::new(hooked)));
            }
            Some((_, then)) => unreachable!("an after-hook was {then:?}"),
            None => self.stats.overall_after_count.up(),
        }
    }

    /// Does what is to be done with what a function has returned.
    pub(super) fn then(
        &mut self,
        (origin, named): (Option<Origin>, Named<'_>),
        then: Then,
        result: Result<Returned, ScriptError>,
    ) {
        let result = result.map_err(shortened);
        if let Then::Rule { home, rule, number } = then {
            return self.rule_ended(named, (home, rule, number), result);
        }
        let Some(origin) = origin else { return self.event_ended(named, result) };
        let outcome = match then {
            Then::AnswerRpc => Outcome::Rpc(self.rpc_result(named, result)),
            Then::Call(hooked) => {
                let HookedCall { call, context, after, step } = *hooked;
                let call = match self.before_result(named, result) {
                    Ok(Some(form)) => call.reformed(&form),
                    Ok(None) if !call.has_form() => Ok(call),
                    Ok(None) => {
                        Err(ApiError::new(Code::NotFound, "Requested resource was not found."))
                    }
                    Err(error) => Err(ApiError::script(i64::from(error.code), error.message)),
                };
                match call {
                    Ok(call) => {
                        let hooked = HookedCall { call, context, after, step };
                        return self.next_step(origin, hooked);
                    }
                    Err(error) => Outcome::Api(Err(error)),
                }
            }
            Then::AnswerCall(answer) => {
                self.after_result(named, result);
                Outcome::Api(Ok(*answer))
            }
            Then::Message(of) => {
                let request = self.before_result(named, result);
                Outcome::Before(request.and_then(|form| message_of(form.as_ref(), of)))
            }
            Then::MessageDone => {
                self.after_result(named, result);
                Outcome::After
            }
            Then::Event(_) | Then::Rule { .. } => {
                unreachable!("no client waits for the handler of an event")
            }
            Then::Shutdown => {
                if let Err(error) = result {
                    let (location, version) = (self.place("", "shutdown", &error), named.1.0);
                    self.stats.guest_errors.note(named.1);
                    tracing::warn!(location, version, "the shutdown function failed: {error}");
                }
                Outcome::Shutdown
            }
        };
        self.finish(&origin, outcome);
    }

    /// The before-hook of a realtime message: what is to be handled in its place.
    pub(super) fn before_message(&mut self, now: Now, origin: Origin, job: BeforeMessage) {
        let BeforeMessage { request, context } = job;
        let name = request.message.as_ref().map_or("", Message::name);
        let id = realtime_id(name);
        if !self.guests.registered().before.contains(&id) {
            return self.finish(&origin, Outcome::Before(Ok(Some(Box::new(request)))));
        }
        let form = self.guests.hook_form(Callee::Before(&id));
        self.stats.overall_before_count.up();
        let of = GuestCall::Before { id: &id, request: message_form(&request, form) };
        self.begin(now, (Some(origin), Then::Message(name)), (&id, &context), of);
    }

    /// The after-hook of a realtime message, unless it was answered with an error.
    pub(super) fn after_message(&mut self, now: Now, origin: Origin, job: AfterMessage) {
        let AfterMessage { request, answer, format, context } = job;
        let id = realtime_id(request.message.as_ref().map_or("", Message::name));
        if !self.guests.registered().after.contains(&id) {
            return self.finish(&origin, Outcome::After);
        }
        let form = self.guests.hook_form(Callee::After(&id));
        let answer = match answer.map(|frame| frames::envelope(format, &frame)) {
            Some(Ok(Envelope { message: Some(Message::Error(_)), .. })) => {
                return self.finish(&origin, Outcome::After);
            }
            Some(Ok(envelope)) => form_of(&envelope, form.style),
            // The plain acknowledgement.
            Some(Err(DecodeError::Missing { cid })) => form_of(&Envelope::ack(cid), form.style),
            Some(Err(error)) => {
                tracing::error!("an answer of our own cannot be read: {error}");
                return self.finish(&origin, Outcome::After);
            }
            None => Value::Map(Vec::new()),
        };
        self.stats.overall_after_count.up();
        let of = GuestCall::After { id: &id, answer, request: message_form(&request, form) };
        self.begin(now, (Some(origin), Then::MessageDone), (&id, &context), of);
    }

    /// The scripts' function for the end of the server.
    pub(super) fn shutdown(&mut self, now: Now, origin: Origin) {
        let context = CallContext { execution_mode: "shutdown", ..CallContext::default() };
        let call = GuestCall::Event { name: "shutdown", argument: Value::Nil };
        self.begin(now, (Some(origin), Then::Shutdown), ("shutdown", &context), call);
    }

    fn before_result(
        &mut self,
        named: Named<'_>,
        result: Result<Returned, ScriptError>,
    ) -> Result<Option<Value>, ScriptError> {
        match result {
            Ok(Returned::Before(request)) => Ok(request),
            Ok(other) => unreachable!("a before-hook returned {other:?}"),
            Err(error) => {
                self.stats.overall_before_errors.up();
                self.log(named, "before", &error);
                Err(error)
            }
        }
    }

    fn after_result(&mut self, named: Named<'_>, result: Result<Returned, ScriptError>) {
        if let Err(error) = &result {
            self.stats.overall_after_errors.up();
            self.log(named, "after", error);
        }
    }

    fn log(&mut self, (id, version): Named<'_>, kind: &str, error: &ScriptError) {
        if is_meant(error) {
            tracing::debug!(
                id,
                code = error.code,
                location = self.place(kind, id, error),
                version = version.0,
                "{kind}-hook refused: {error}"
            );
        } else if let Some(location) = self.failed(kind, (id, version), error) {
            tracing::warn!(id, location, version = version.0, "{kind}-hook failed: {error}");
        }
    }

    /// Counts a function that has failed; where its error is from, as [`Self::place`] tells, if there is room in the log for a
    /// line about it.
    pub(super) fn failed<'a>(
        &'a mut self,
        kind: &str,
        (id, version): Named<'_>,
        error: &'a ScriptError,
    ) -> Option<&'a str> {
        self.stats.guest_errors.note(version);
        let has_room = self.resources.script_log.has_room_for_failure();
        has_room.then(|| self.place(kind, id, error))
    }

    /// Where an error is from: what it says itself, or else where the function is defined that ran. `kind` is `rpc`,
    /// `before`, `after`, or empty for a function that is called by its own name.
    pub(super) fn place<'a>(&'a self, kind: &str, id: &str, error: &'a ScriptError) -> &'a str {
        if !error.location.is_empty() {
            return &error.location;
        }
        let name = if kind.is_empty() { id.to_owned() } else { format!("{kind} {id}") };
        let name = name.to_lowercase();
        let mut known = self.guests.registered().locations.iter();
        known.find(|(what, _)| *what == name).map_or("", |(_, place)| place.as_str())
    }
}

/// What a before-hook has made of a message of this name; `None` if it refuses it.
fn message_of(form: Option<&Value>, name: &str) -> Result<Option<Box<Envelope>>, ScriptError> {
    let Some(form) = form else { return Ok(None) };
    let changed = json::encode(form).ok().and_then(|json| Envelope::decode_json(&json).ok());
    // Another kind of message is not what the client waits for.
    let same = |changed: &Envelope| changed.message.as_ref().is_some_and(|m| m.name() == name);
    changed.filter(same).map(|changed| Some(Box::new(changed))).ok_or_else(|| ScriptError {
        code: 13,
        message: NO_MESSAGE.to_owned(),
        location: String::new(),
        kind: ScriptFailure::Raised,
    })
}

/// Whether this error is as it should be: a script words it itself, with a code of its own, or the call gave way to
/// others, which the log says once a second. It is everyday work, not a failure, and clients could fill the log with it.
pub(super) fn is_meant(error: &ScriptError) -> bool {
    match error.kind {
        ScriptFailure::Raised => error.code != 13,
        ScriptFailure::Shed => true,
        ScriptFailure::OutOfTime
        | ScriptFailure::OutOfMemory
        | ScriptFailure::NotFound
        | ScriptFailure::Cancelled => false,
    }
}

/// An envelope in the form that hooks see.
fn form_of(envelope: &Envelope, style: Style) -> Value {
    let mut text = Vec::new();
    envelope.write_json(&mut text, style);
    decoded(&text)
}

/// A call's request as a hook sees it, if the hook looks at it.
fn request_of(call: &ApiCall, form: HookForm) -> Value {
    if form.reads_request { decoded(&call.form(form.style)) } else { Value::Nil }
}

/// A message of a client as a hook sees it, if the hook looks at it.
fn message_form(request: &Envelope, form: HookForm) -> Value {
    if form.reads_request { form_of(request, form.style) } else { Value::Nil }
}

/// Whoever logged in is the caller for the after-hook, as in Nakama.
fn name_user(context: &mut CallContext, claims: &Claims) {
    context.user_id = Some(claims.user_id);
    context.username = Some(claims.username.to_string());
    context.vars.clone_from(&claims.vars);
    context.user_session_exp = Some(claims.expires_s);
}

/// What we have written ourselves. It reads back: it is flat, and its numbers are finite or text.
fn decoded(json: &[u8]) -> Value {
    json::decode(json).unwrap_or_else(|error| {
        tracing::error!("an answer of our own cannot be read, its hook sees nothing: {error}");
        Value::Map(Vec::new())
    })
}
