//! One running match: an instance of its own, in which the game keeps its state. Callbacks are calls of the
//! instance; while one waits, its instance is part of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use game::guest::{
    Answer, Host, JoinRequest, JoinVerdict, LogLevel, MatchCall, MatchContext, MatchInit,
    MatchMessage, MatchReturned, MatchScript, Presence, PresenceReason, ScriptError, Step,
};
use game::value::Value;
use script::budget::{GuestLimits, Limits};

use crate::calls::{bytes, text, texts};
use crate::encoding::Writer;
use crate::failure;
use crate::instance::{self, Instance, Left, Piece, ShareError, Waiting};
use crate::memory::Bound;
use crate::modules::Module;

/// A match written in a language that WebAssembly is made from.
pub(crate) struct WasmMatch {
    module: Arc<Module>,
    limits: Limits,
    /// What it is registered as.
    name: String,
    match_id: String,
    running: Running,
    /// What the instance held when it was at hand last.
    held_bytes: usize,
}

/// Where the instance is.
enum Running {
    Ready(Instance),
    Waits(Callback, Waiting),
    /// A callback has ended in a trap.
    Gone,
}

/// Which callback was called, as its results are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callback {
    Init,
    JoinAttempt,
    Signal,
    /// It says whether the match goes on.
    Other,
}

impl WasmMatch {
    /// Starts an instance.
    pub(crate) fn open(
        module: &Arc<Module>,
        limits: &GuestLimits,
        host: &mut dyn Host,
        (name, match_id): (&str, &str),
    ) -> Result<Self, ScriptError> {
        let all = &limits.memory;
        let limits = limits.callback();
        let bound = Bound::new(&limits, &Arc::default(), all);
        let (instance, _) = instance::start(module, host, &limits, (bound, None))?;
        Ok(Self {
            module: Arc::clone(module),
            limits,
            name: name.to_owned(),
            match_id: match_id.to_owned(),
            held_bytes: instance.bytes(),
            running: Running::Ready(instance),
        })
    }

    /// The beginning of a callback: `[kind, name, context, tick, …]` with so many arguments behind.
    fn head(&self, kind: &str, context: &MatchContext, tick: i64, arguments: usize) -> Writer {
        let mut writer = Writer::default();
        writer.list(4 + arguments).text(kind).text(&self.name).map(4);
        writer.name(b"execution_mode").text("match");
        writer.name(b"match_id").text(&self.match_id);
        writer.name(b"match_label").text(&context.label);
        writer.name(b"match_tick_rate").int(i64::from(context.tick_rate_hz));
        writer.int(tick);
        writer
    }

    fn write(&self, context: &MatchContext, tick: i64, call: MatchCall<'_>) -> (Callback, Writer) {
        let head = |kind, arguments| self.head(kind, context, tick, arguments);
        match call {
            MatchCall::Init { params } => {
                let mut call = head("match_init", 1);
                call.value(params);
                (Callback::Init, call)
            }
            MatchCall::JoinAttempt(request) => {
                let mut call = head("match_join_attempt", 2);
                asker(&mut call, request);
                texts(&mut call, &request.metadata);
                (Callback::JoinAttempt, call)
            }
            MatchCall::Presences { joined, presences } => {
                let mut call = head(if joined { "match_join" } else { "match_leave" }, 1);
                call.list(presences.len());
                for (presence, reason) in presences {
                    self::presence(&mut call, presence, *reason);
                }
                (Callback::Other, call)
            }
            MatchCall::Loop(received) => {
                let mut call = head("match_loop", 1);
                messages(&mut call, received);
                (Callback::Other, call)
            }
            MatchCall::Signal(data) => {
                let mut call = head("match_signal", 1);
                call.bytes(data);
                (Callback::Signal, call)
            }
            MatchCall::Terminate { grace_s } => {
                let mut call = head("match_terminate", 1);
                call.int(i64::from(grace_s));
                (Callback::Other, call)
            }
        }
    }

    /// Says once that matches of this module need more memory than they had to.
    fn tell_unshared(&self, host: &mut dyn Host, error: &std::io::Error) {
        if !self.module.told_unshared.swap(true, Relaxed) {
            let title = &self.module.title;
            let text = format!("matches of {title} do not share what they have alike: {error}");
            host.log(LogLevel::Warn, &text);
        }
    }

    /// Keeps what a piece of a callback has left behind.
    fn piece(
        &mut self,
        host: &mut dyn Host,
        callback: Callback,
        piece: Piece,
    ) -> Step<MatchReturned> {
        match piece {
            Piece::Waits(waiting, ask) => {
                self.running = Running::Waits(callback, waiting);
                Step::Waits(ask)
            }
            Piece::Paused(_) => unreachable!("a room has no slices"),
            Piece::Ended(left, result) => {
                if let Left::Whole(mut instance) = left {
                    if callback == Callback::Init && result.is_ok() {
                        match instance.share() {
                            Ok(()) => {}
                            Err(ShareError::Image(error)) => self.tell_unshared(host, &error),
                            Err(ShareError::Lost(error)) => {
                                std::mem::forget(instance);
                                let text = format!("its memory cannot be mapped: {error}");
                                let error = failure::raised(&self.module.title, text);
                                return Step::Done(Err(error));
                            }
                        }
                    }
                    self.held_bytes = instance.bytes();
                    self.running = Running::Ready(instance);
                }
                Step::Done(result.and_then(|value| self.returned(callback, value)))
            }
        }
    }

    fn returned(&self, callback: Callback, value: Value) -> Result<MatchReturned, ScriptError> {
        let wrong = |what: &str| {
            let title = &self.module.title;
            failure::raised(title, format!("{title}: {}: {what}", self.name))
        };
        let parts = match &value {
            Value::List(parts) => parts.as_slice(),
            _ => &[],
        };
        Ok(match callback {
            Callback::Init => {
                let tick_rate_hz = parts.first().and_then(Value::as_int);
                let label = text(parts.get(1));
                let (Some(tick_rate_hz), Some(label)) = (tick_rate_hz, label) else {
                    return Err(wrong("match_init is expected to give a tick rate and a label"));
                };
                MatchReturned::Init(MatchInit { tick_rate_hz, label })
            }
            Callback::JoinAttempt => match (&value, parts.first()) {
                (Value::Nil, _) => MatchReturned::Ends,
                (_, Some(Value::Bool(allow))) => {
                    let reason = text(parts.get(1)).unwrap_or_default();
                    MatchReturned::Verdict(JoinVerdict { allow: *allow, reason })
                }
                _ => return Err(wrong("match_join_attempt is expected to give a verdict")),
            },
            Callback::Signal => bytes(value).map_or(MatchReturned::Ends, MatchReturned::Signal),
            Callback::Other if value == Value::Bool(true) => MatchReturned::GoesOn,
            Callback::Other => MatchReturned::Ends,
        })
    }
}

/// `[user id, session id, name, reason]`.
fn presence(to: &mut Writer, presence: &Presence, reason: PresenceReason) {
    to.list(4).id(presence.user_id).id(presence.session_id).text(&presence.username);
    to.int(reason as i64);
}

/// `[user id, session id, name, op code, data, reliable, time in milliseconds]` each.
fn messages(to: &mut Writer, messages: &[MatchMessage]) {
    to.list(messages.len());
    for message in messages {
        let MatchMessage { sender, .. } = message;
        to.list(7).id(sender.user_id).id(sender.session_id).text(&sender.username);
        to.int(message.op_code).bytes(&message.data).bool(message.reliable);
        to.whole(message.receive_time_ms);
    }
}

/// `[user id, session id, name, session variables, expiry, address, port]`.
fn asker(to: &mut Writer, request: &JoinRequest) {
    let JoinRequest { presence, vars, .. } = request;
    to.list(7).id(presence.user_id).id(presence.session_id).text(&presence.username);
    texts(to, vars);
    to.whole(request.user_session_exp);
    for text in [&request.client_ip, &request.client_port] {
        match text {
            Some(text) => to.text(text),
            None => to.nil(),
        };
    }
}

impl MatchScript for WasmMatch {
    fn call(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        tick: i64,
        call: MatchCall<'_>,
    ) -> Step<MatchReturned> {
        let (callback, call) = self.write(context, tick, call);
        match std::mem::replace(&mut self.running, Running::Gone) {
            Running::Ready(instance) => {
                let piece = instance.run(host, &self.limits, call.into_bytes());
                self.piece(host, callback, piece)
            }
            Running::Waits(..) => panic!("a callback of the match waits"),
            Running::Gone => Step::Done(Err(failure::raised(&self.module.title, "match stopped"))),
        }
    }

    fn resume(
        &mut self,
        host: &mut dyn Host,
        _context: &MatchContext,
        answer: Answer,
    ) -> Step<MatchReturned> {
        let Running::Waits(callback, waiting) = std::mem::replace(&mut self.running, Running::Gone)
        else {
            panic!("no callback of the match waits");
        };
        let piece = instance::go_on(&self.module, host, &self.limits, (waiting, Some(answer)));
        self.piece(host, callback, piece)
    }

    fn memory_bytes(&self) -> usize {
        self.held_bytes
    }
}
